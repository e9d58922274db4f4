//! Requests that are no whole sectors: clients that share sectors keep their bytes, also when the process dies.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use destage_nbd::NbdCommand;
use destage_nbd::client::blocking::BlockingConnection;

use super::{ARRAYS, Array, Draws, IoMode};

io_mode_tests! {
    clients_keep_their_bytes_of_shared_sectors,
    a_killed_process_leaves_each_part_of_a_sector_old_or_new,
}

const CLIENTS: usize = 4;
/// Counts the parts of a sector, and the bytes of each, which are 100 of 102.
const PARTS: usize = 5;
const PART: usize = 100;
/// Sectors that the parts lie in: in two stripes, and more than a page.
const SECTORS: usize = 20;
/// Lies at no beginning of a page, and shortly before the end of a stripe of 192 KiB.
const AT: u64 = (192 << 10) - 4096 - 512;

/// Returns the first byte of a part.
const fn offset(part: usize) -> u64 {
    AT + (part / PARTS * 512 + part % PARTS * (PART + 2)) as u64
}

/// Returns the bytes of a version of a part.
fn written(part: usize, version: u64) -> Vec<u8> {
    let number = (version << 10 | part as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let bytes = number.to_le_bytes().into_iter().cycle().take(PART);
    bytes.map(|byte| if version == 0 { 0 } else { byte }).collect()
}

/// Pieces of the array's first bytes, of which each client has every fourth.
const PIECES: usize = 24;

/// Returns the first byte of a piece: two of eight are short.
const fn border(piece: usize) -> usize {
    match piece % 8 {
        6 | 7 => (piece - piece % 8 + 5) * 1201 + piece % 8 * 41,
        _ => piece * 1201,
    }
}

fn clients_keep_their_bytes_of_shared_sectors(io_mode: IoMode) {
    for settings in ARRAYS {
        let mut array = Array::new(io_mode, settings);
        array.serve(&[]);
        let contents: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let client = |number: usize| {
                let array = &array;
                scope.spawn(move || {
                    let (mut client, mut draws) = (array.client(), Draws(number as u64));
                    let mut content = vec![0; border(PIECES)];
                    for _ in 0..100 {
                        let piece = draws.below((PIECES / CLIENTS) as u64) as usize * CLIENTS + number;
                        let (first, end) = (border(piece), border(piece + 1));
                        let from = first + draws.below((end - first) as u64) as usize;
                        let to = from + 1 + draws.below((end - from) as u64) as usize;
                        let (at, fua) = (from as u64, draws.below(4) == 0);
                        match draws.below(6) {
                            0..3 => {
                                let bytes: Vec<u8> = (from..to).map(|_| draws.below(256) as u8).collect();
                                client.write(at, &bytes, fua).expect("a write");
                                content[from..to].copy_from_slice(&bytes);
                            }
                            3 => {
                                let zeroes = NbdCommand::WriteZeroes { no_hole: draws.below(2) == 0, fast: false };
                                client.tell(zeroes, fua, at, (to - from) as u32).expect("zeroes");
                                content[from..to].fill(0);
                            }
                            // No page is trimmed as a whole.
                            4 => client.tell(NbdCommand::Trim, fua, at, (to - from) as u32).expect("a trim"),
                            _ => {
                                let mut found = vec![0; to - from];
                                client.read(at, &mut found).expect("a read");
                                assert!(found == content[from..to], "{settings:?}: client {number} at {from}");
                            }
                        }
                    }
                    content
                })
            };
            let clients: Vec<_> = (0..CLIENTS).map(client).collect();
            clients.into_iter().map(|client| client.join().expect("it finds its bytes")).collect()
        });
        array.stop();
        array.serve(&[]);
        let mut found = vec![0; border(PIECES)];
        array.client().read(0, &mut found).expect("a read");
        for piece in 0..PIECES {
            let place = border(piece)..border(piece + 1);
            let right = found[place.clone()] == contents[piece % CLIENTS][place.clone()];
            assert!(right, "{settings:?}: piece {piece} in the next life");
        }
        array.stop();
    }
}

/// Keeps which version of a part is durable, and which was written last.
#[derive(Clone, Copy, Default)]
struct PartVersions {
    durable: u64,
    last: u64,
}

/// Writes parts until the service is gone.
fn write(client: &mut BlockingConnection<UnixStream>, known: &mut [PartVersions], seed: u64, number: usize) {
    let mut draws = Draws(seed + number as u64);
    loop {
        let part = draws.below((known.len() / CLIENTS) as u64) as usize * CLIENTS + number;
        let fua = draws.below(3) == 0;
        known[part].last += 1;
        let version = known[part].last;
        if client.write(offset(part), &written(part, version), fua).is_err() {
            return;
        }
        if fua {
            known[part].durable = version;
        }
    }
}

fn a_killed_process_leaves_each_part_of_a_sector_old_or_new(io_mode: IoMode) {
    let rounds = if std::env::var_os("DESTAGE_SOAK").is_some() { 100 } else { 4 };
    for settings in ARRAYS {
        let mut array = Array::new(io_mode, settings);
        let mut draws = Draws(5);
        let mut known = vec![PartVersions::default(); SECTORS * PARTS];
        for round in 0..=rounds {
            array.serve(&[]);
            let mut client = array.client();
            for (part, versions) in known.iter_mut().enumerate() {
                let mut found = vec![0; PART];
                client.read(offset(part), &mut found).expect("a read");
                let version = (versions.durable..=versions.last).find(|version| found == written(part, *version));
                let PartVersions { durable, last } = *versions;
                let version = version.unwrap_or_else(|| {
                    panic!("{settings:?}, round {round}: part {part} is none of {durable} to {last}")
                });
                // What it was found to be, it stays.
                *versions = PartVersions { durable: version, last: version };
            }
            if round == rounds {
                break;
            }
            let (deadline, seed) = (Duration::from_millis(5 + draws.below(60)), draws.below(1 << 30));
            let ends: Vec<_> = std::thread::scope(|scope| {
                let writer = |number| {
                    let (mut client, mut known) = (array.client(), known.clone());
                    scope.spawn(move || {
                        write(&mut client, &mut known, seed, number);
                        known
                    })
                };
                let writers: Vec<_> = (0..CLIENTS).map(writer).collect();
                std::thread::sleep(deadline);
                array.kill();
                writers.into_iter().map(|writer| writer.join().expect("it ends with the connection")).collect()
            });
            for (part, versions) in known.iter_mut().enumerate() {
                *versions = ends[part % CLIENTS][part];
            }
        }
        assert!(known.iter().any(|versions| versions.last > 0), "{settings:?}: nothing was written");
        array.stop();
    }
}
