//! Checks that the memory of all clients together is bounded, whatever they do, and that others are served.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use destage_nbd::{NbdCommand, NbdRequest};

use crate::served::TestService;

/// The longest request, and as many bytes as the device has.
const LONGEST: u32 = 64 << 20;
/// The least that may be allowed for requests and replies, and what is allowed unless told otherwise.
const LEAST: u64 = 64 << 20;
const USUAL: u64 = 256 << 20;
/// Lies at no beginning of a sector, and behind the pages that others are served of.
const APART: u64 = (1 << 20) + 1;
/// Longer than a client may hold what others wait for.
const STALL: Duration = Duration::from_secs(6);

fn request(command: NbdCommand, length: u32) -> NbdRequest {
    NbdRequest { cookie: 1, command, fua: false, offset: 0, length }
}

const READ: NbdCommand = NbdCommand::Read { whole: false };

/// A client that sends so much of so many of these requests as the service takes within a moment, and reads nothing.
fn deaf(served: &TestService, request: NbdRequest, number: usize, payload: usize) -> UnixStream {
    let mut stream = served.client().into_stream();
    stream.set_write_timeout(Some(Duration::from_millis(20))).expect("a socket");
    let bytes = [request.encode().to_vec(), vec![7; payload]].concat();
    for _ in 0..number {
        if stream.write_all(&bytes).is_err() {
            break;
        }
    }
    stream
}

#[test]
fn who_holds_little_is_served_whatever_others_hold() {
    let served = TestService::bounded(LONGEST as usize, USUAL);
    let mut client = served.client();
    let mut deaf_ones = Vec::new();
    let (mut most, mut waiting) = (0, 0);
    // Replies of all lengths, payloads that do not come, errors, and replies without a payload, which count as well.
    let kinds = [
        (request(READ, LONGEST), 4, 0),
        (request(READ, 5 << 20), 32, 0),
        (request(NbdCommand::Write, LONGEST), 1, 1000),
        (request(READ, 1 << 20), 256, 0),
        (request(READ, 100 << 10), 512, 0),
        (request(NbdCommand::Cache, LONGEST), 512, 0),
        (request(READ, 4096), 20_000, 0),
        (request(READ, 7), 20_000, 0),
        (request(READ, 0), 20_000, 0),
        (request(NbdCommand::Flush, 0), 20_000, 0),
        (NbdRequest { offset: APART, ..request(NbdCommand::Write, 5 << 20) }, 32, 5 << 20),
        (NbdRequest { offset: APART, ..request(NbdCommand::Write, 3) }, 20_000, 3),
        (
            NbdRequest { offset: APART, ..request(NbdCommand::WriteZeroes { no_hole: false, fast: false }, 3) },
            20_000,
            0,
        ),
    ];
    for round in 0..6 {
        for (kind, (request, number, payload)) in kinds.into_iter().enumerate() {
            deaf_ones.push(deaf(&served, request, number, payload));
            for step in 0..20 {
                let (at, content) = ((step % 8) * 4096, [(round * 16 + kind + 1) as u8; 4096]);
                let begin = Instant::now();
                client.write(at, &content, false).expect("a write");
                let mut bytes = [0; 4096];
                client.read(at, &mut bytes).expect("a read");
                assert_eq!(bytes, content);
                assert!(begin.elapsed() < Duration::from_secs(1), "it waited for {:?}", begin.elapsed());
            }
            let status = served.status();
            let memory = status.memory;
            assert_eq!(memory.limit_bytes, USUAL);
            assert!(memory.held_bytes <= memory.limit_bytes, "{memory:?} after {} others", deaf_ones.len());
            (most, waiting) = (most.max(memory.held_bytes), waiting.max(memory.waiting_clients));
        }
    }
    assert!(most > USUAL / 2, "{most} bytes are no test of the limit");
    assert!(waiting > 0, "nobody had to wait");
    // What is held is let go of.
    drop(deaf_ones);
    let begin = Instant::now();
    while served.status().clients.now > 1 {
        assert!(begin.elapsed() < STALL, "{:?}", served.status().clients);
        std::thread::sleep(Duration::from_millis(10));
    }
    client.read(0, &mut [0; 512]).expect("it goes on");
    let memory = served.status().memory;
    assert!(memory.held_bytes <= 33 << 20 && memory.waiting_clients == 0, "{memory:?}");
    drop(client);
    served.stop().expect("nothing is left");
}

#[test]
fn the_longest_request_is_served_in_the_end() {
    let served = TestService::bounded(LONGEST as usize, LEAST);
    // One takes all that there is, and others wait for it already.
    let mut deaf_ones: Vec<_> = (0..2).map(|_| deaf(&served, request(READ, LONGEST), 2, 0)).collect();
    deaf_ones.push(deaf(&served, request(NbdCommand::Write, LONGEST), 1, 1000));
    let memory = served.status().memory;
    assert!(memory.held_bytes >= u64::from(LONGEST) && memory.waiting_clients == 2, "{memory:?}");
    let begin = Instant::now();
    let mut bytes = vec![1; LONGEST as usize];
    let mut client = served.client();
    client.read(0, &mut bytes).expect("a read");
    assert!(bytes.iter().all(|byte| *byte == 0));
    assert!(begin.elapsed() < STALL * 4, "{:?}", begin.elapsed());
    bytes.fill(3);
    client.write(0, &bytes, false).expect("a write");
    client.read(0, &mut bytes).expect("a read");
    assert!(bytes.iter().all(|byte| *byte == 3));
    let clients = served.status().clients;
    assert!(
        clients.lost == 3 && clients.last_loss.as_ref().is_some_and(|why| why.contains("others waited")),
        "{clients:?}"
    );
    drop((client, deaf_ones));
    served.stop().expect("nothing is left");
}

#[test]
fn who_takes_its_replies_slowly_is_not_dismissed() {
    let served = TestService::bounded(LONGEST as usize, LEAST);
    let mut slow = deaf(&served, request(READ, LONGEST), 1, 0);
    let waiting = deaf(&served, request(READ, LONGEST), 1, 0);
    let begin = Instant::now();
    let mut piece = vec![0; 1 << 20];
    let mut left = LONGEST as usize;
    while left > 0 {
        let read = slow.read(&mut piece).expect("it is not closed");
        assert!(read > 0, "it was dismissed with {left} bytes to go");
        left -= read.min(left);
        // A megabyte in a third of a second: all takes several times the patience of those who wait.
        let due = Duration::from_millis(((LONGEST as usize - left) >> 10) as u64 / 5);
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
    }
    assert!(begin.elapsed() > STALL * 2, "{:?} is no test", begin.elapsed());
    let status = served.status();
    assert_eq!(status.clients.lost, 0, "{:?}", status.clients);
    drop((slow, waiting));
    served.stop().expect("nothing is left");
}
