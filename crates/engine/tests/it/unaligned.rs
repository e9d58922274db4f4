//! Requests of any bytes, over a device of whole sectors whose requests end late and in any order.

use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;

use destage_nbd::client::blocking::{BlockingConnection, ExportRequest};
use destage_nbd::{NbdCommand, NbdRequest};
use destage_plan::HostOp;

use crate::served::{BYTES, ShuffleRng, TestService};

const READ: NbdCommand = NbdCommand::Read { whole: false };
const SIMPLE_REPLY: u32 = 0x6744_6698;

const fn zeroes(no_hole: bool) -> NbdCommand {
    NbdCommand::WriteZeroes { no_hole, fast: false }
}

#[test]
fn the_device_is_asked_for_whole_sectors() {
    let served = TestService::new(false);
    let mut client = served.client();
    client.write(0, &(0..8192_u32).map(|at| (at % 251) as u8).collect::<Vec<_>>(), false).expect("a write");
    let asked = || -> Vec<_> {
        let asked = std::mem::take(&mut *served.asked.lock().expect("nobody panics"));
        asked.into_iter().map(|one| (one.op, one.fua, one.offset, one.len)).collect()
    };
    asked();
    let (read, unmap) = (HostOp::Read, HostOp::WriteZeroesUnmap);
    let rows = [
        (READ, false, 1, 1, vec![(read, false, 0, 512)]),
        (READ, false, 511, 2, vec![(read, false, 0, 1024)]),
        (NbdCommand::Cache, false, 511, 1000, vec![(read, false, 0, 1536)]),
        (NbdCommand::Trim, true, 1, 1022, vec![]),
        (NbdCommand::Trim, false, 511, 1025, vec![(HostOp::Discard, false, 512, 1024)]),
        // Within a sector, from a border, up to one, and over both.
        (NbdCommand::Write, true, 1, 3, vec![(read, false, 0, 512), (HostOp::Write, true, 0, 512)]),
        (NbdCommand::Write, false, 512, 600, vec![(read, false, 1024, 512), (HostOp::Write, false, 512, 1024)]),
        (NbdCommand::Write, false, 500, 524, vec![(read, false, 0, 512), (HostOp::Write, false, 0, 1024)]),
        (
            NbdCommand::Write,
            false,
            500,
            1100,
            vec![(read, false, 0, 512), (read, false, 1536, 512), (HostOp::Write, false, 0, 2048)],
        ),
        (zeroes(false), false, 1, 3, vec![(read, false, 0, 512), (HostOp::Write, false, 0, 512)]),
        (
            zeroes(false),
            true,
            500,
            1100,
            vec![
                (read, false, 0, 512),
                (HostOp::Write, false, 0, 512),
                (read, false, 1536, 512),
                (HostOp::Write, false, 1536, 512),
                (unmap, false, 512, 1024),
                (HostOp::Flush, false, 0, 0),
            ],
        ),
        (
            zeroes(true),
            false,
            512,
            513,
            vec![(read, false, 1024, 512), (HostOp::Write, false, 1024, 512), (HostOp::WriteZeroes, false, 512, 512)],
        ),
    ];
    for (command, fua, offset, len, wanted) in rows {
        match command {
            NbdCommand::Read { .. } => client.read(offset, &mut vec![0; len]).expect("it is served"),
            NbdCommand::Write => client.write(offset, &vec![7; len], fua).expect("it is served"),
            _ => client.tell(command, fua, offset, len as u32).expect("it is served"),
        }
        assert_eq!(asked(), wanted, "{command:?} of {len} bytes at {offset}");
    }
    client.goodbye().expect("a goodbye");
    served.stop().expect("nothing is left");
}

/// Is one client of several, each of which has bytes of its own in sectors that it shares with others.
struct SharedSectorClient {
    client: BlockingConnection<UnixStream>,
    draws: ShuffleRng,
    pieces: Vec<Range<usize>>,
    content: Vec<u8>,
}

impl SharedSectorClient {
    /// Draws some of the bytes of a piece.
    fn draw(&mut self) -> Range<usize> {
        let piece = self.pieces[self.draws.below(self.pieces.len() as u64) as usize].clone();
        let from = piece.start + self.draws.below(piece.len() as u64) as usize;
        from..from + 1 + self.draws.below((piece.end - from) as u64) as usize
    }

    fn take_step(&mut self) {
        let range = self.draw();
        let (offset, fua) = (range.start as u64, self.draws.below(4) == 0);
        match self.draws.below(8) {
            0..4 => {
                let bytes: Vec<u8> = range.clone().map(|_| 1 + self.draws.below(255) as u8).collect();
                self.client.write(offset, &bytes, fua).expect("a write");
                self.content[range].copy_from_slice(&bytes);
            }
            4 => {
                let command = zeroes(self.draws.below(2) == 0);
                self.client.tell(command, fua, offset, range.len() as u32).expect("zeroes");
                self.content[range].fill(0);
            }
            5 => {
                self.client.tell(NbdCommand::Trim, fua, offset, range.len() as u32).expect("a trim");
                let mut found = vec![0; range.len()];
                self.client.read(offset, &mut found).expect("a read");
                // Of whole sectors anything may be left, of all else everything is.
                let whole = range.start.next_multiple_of(512)..range.end / 512 * 512;
                for (at, byte) in range.zip(found) {
                    let is_left = byte == self.content[at];
                    assert!(is_left || byte == 0 && whole.contains(&at), "byte {at} after a trim");
                    self.content[at] = byte;
                }
            }
            _ => self.check(range),
        }
    }

    fn check(&mut self, range: Range<usize>) {
        let mut found = vec![0; range.len()];
        self.client.read(range.start as u64, &mut found).expect("a read");
        assert!(found == self.content[range.clone()], "bytes {range:?}");
    }
}

#[test]
fn clients_that_share_sectors_undo_nothing_of_one_another() {
    const CLIENTS: usize = 6;
    const SHARED: usize = 24 << 10;
    // Half of the devices do not keep the order of what overlaps.
    for seed in 0..8 {
        let served = TestService::shuffled(seed, seed % 2 == 1);
        let mut draws = ShuffleRng(seed);
        let mut pieces = vec![Vec::new(); CLIENTS];
        let (mut from, mut number) = (0, 0);
        while from < SHARED {
            let longest = [40, 700, 3000][draws.below(3) as usize];
            let to = (from + 1 + draws.below(longest) as usize).min(SHARED);
            pieces[number % CLIENTS].push(from..to);
            (from, number) = (to, number + 1);
        }
        let owners: Vec<SharedSectorClient> = std::thread::scope(|scope| {
            let owner = |(number, pieces)| {
                let (client, draws) = (served.client(), ShuffleRng(seed << 8 | number));
                let mut owner = SharedSectorClient { client, draws, pieces, content: vec![0; SHARED] };
                scope.spawn(move || {
                    (0..600).for_each(|_| owner.take_step());
                    owner
                })
            };
            let threads: Vec<_> = (0..).zip(pieces).map(owner).collect();
            threads.into_iter().map(|thread| thread.join().expect("a client sees what it wrote")).collect()
        });
        for mut owner in owners {
            for piece in owner.pieces.clone() {
                owner.check(piece);
            }
            owner.client.goodbye().expect("a goodbye");
        }
        assert_eq!(served.status().memory.waiting_clients, 0);
        served.stop().expect("nothing is left");
    }
}

/// Takes the reply to a request that succeeded, with what it read.
fn simple_reply(stream: &mut UnixStream, lengths: &[usize]) -> (usize, Vec<u8>) {
    let mut head = [0; 16];
    stream.read_exact(&mut head).expect("a reply");
    let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((number(0), number(4)), (SIMPLE_REPLY, 0));
    let cookie = number(12) as usize;
    let mut bytes = vec![0; lengths[cookie]];
    stream.read_exact(&mut bytes).expect("what was read");
    (cookie, bytes)
}

#[test]
fn requests_in_flight_take_effect_in_the_order_of_coming() {
    const AREA: u64 = 4000;
    const BATCH: usize = 24;
    for seed in 0..4 {
        let served = TestService::shuffled(seed, false);
        let mut stream =
            BlockingConnection::begin(served.stream(), &ExportRequest::default()).expect("an export").into_stream();
        let (mut draws, mut content) = (ShuffleRng(seed), vec![0; AREA as usize]);
        for round in 0..150 {
            let (mut sent, mut lengths, mut expected) = (Vec::new(), vec![0; BATCH], vec![Vec::new(); BATCH]);
            for cookie in 0..BATCH {
                // A fourth are whole sectors.
                let unit = if draws.below(4) == 0 { 512 } else { 1 };
                let offset = draws.below(AREA - 512) / unit * unit;
                let length = (1 + draws.below((AREA - offset).min(1300)))
                    .next_multiple_of(unit)
                    .min((AREA - offset) / unit * unit);
                let place = offset as usize..(offset + length) as usize;
                let command = [READ, READ, NbdCommand::Write, NbdCommand::Write, zeroes(true)][draws.below(5) as usize];
                let request = NbdRequest { cookie: cookie as u64, command, fua: false, offset, length: length as u32 };
                sent.extend(request.encode());
                match command {
                    NbdCommand::Write => {
                        let byte = 1 + draws.below(255) as u8;
                        sent.resize(sent.len() + place.len(), byte);
                        content[place].fill(byte);
                    }
                    READ => {
                        lengths[cookie] = place.len();
                        expected[cookie] = content[place].to_vec();
                    }
                    _ => content[place].fill(0),
                }
            }
            stream.write_all(&sent).expect("they are taken");
            for _ in 0..BATCH {
                let (cookie, bytes) = simple_reply(&mut stream, &lengths);
                assert!(bytes == expected[cookie], "seed {seed}, round {round}: request {cookie}");
            }
        }
        drop(stream);
        served.stop().expect("nothing is left");
    }
}

#[test]
fn when_the_backend_ends_those_that_wait_for_sectors_are_answered() {
    let served = TestService::shuffled(1, false);
    let mut stream =
        BlockingConnection::begin(served.stream(), &ExportRequest::default()).expect("an export").into_stream();
    let request = |cookie| NbdRequest { cookie, command: zeroes(true), fua: false, offset: 1, length: 3 };
    let sent: Vec<u8> = (0..100).flat_map(|cookie| request(cookie).encode()).collect();
    served.breaks.store(true, std::sync::atomic::Ordering::Relaxed);
    stream.write_all(&sent).expect("they are taken");
    for _ in 0..100 {
        let mut head = [0; 16];
        stream.read_exact(&mut head).expect("a reply");
        assert_eq!(head[4..8], 5_u32.to_be_bytes(), "an error of I/O");
    }
    let under_way = served.status().clients.under_way;
    assert_eq!(under_way, 0);
    served.stop().expect_err("the backend has ended");
}

#[test]
fn the_last_bytes_of_the_device_can_be_a_part_of_a_sector() {
    let served = TestService::new(false);
    let mut client = served.client();
    let end = BYTES as u64;
    client.write(end - 1, &[9], true).expect("a write");
    let mut found = [1; 2];
    client.read(end - 2, &mut found).expect("a read");
    assert_eq!(found, [0, 9]);
    assert!(client.write(end - 1, &[1, 2], false).is_err() && client.read(end, &mut [0]).is_err());
    client.goodbye().expect("a goodbye");
    served.stop().expect("nothing is left");
}

#[test]
fn a_part_of_a_sector_is_merged_with_what_was_on_its_way_there() {
    for seed in 0..4 {
        // Of requests that overlap this device does the later one first, now and then.
        let served = TestService::shuffled(seed, true);
        let mut stream =
            BlockingConnection::begin(served.stream(), &ExportRequest::default()).expect("an export").into_stream();
        for round in 1..=200_u8 {
            let request =
                |cookie, command, offset, length| NbdRequest { cookie, command, fua: false, offset, length }.encode();
            let mut sent = request(0, NbdCommand::Write, 0, 1024).to_vec();
            sent.resize(sent.len() + 1024, round);
            sent.extend(request(1, NbdCommand::Write, 500, 100));
            sent.resize(sent.len() + 100, 255);
            stream.write_all(&sent).expect("they are taken");
            simple_reply(&mut stream, &[0, 0]);
            simple_reply(&mut stream, &[0, 0]);
            stream.write_all(&request(0, READ, 0, 1024)).expect("it is taken");
            let (_, found) = simple_reply(&mut stream, &[1024]);
            let right: Vec<u8> = (0..1024).map(|at| if (500..600).contains(&at) { 255 } else { round }).collect();
            assert!(found == right, "seed {seed}, round {round}");
        }
        drop(stream);
        served.stop().expect("nothing is left");
    }
}
