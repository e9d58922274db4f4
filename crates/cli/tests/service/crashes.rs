//! The process dies at any moment: what was answered as durable is there, in every cache.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use destage_nbd::client::blocking::Connection;

use super::{ARRAYS, Array, Draws, page};

/// Pages that the writer writes.
const PAGES: usize = 96;

/// Rounds for each cache; many more with `DESTAGE_SOAK`.
fn rounds() -> u64 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 200 } else { 6 }
}

#[test]
fn what_was_flushed_outlives_the_process() {
    for settings in ARRAYS {
        let mut array = Array::new(settings);
        let mut draws = Draws(3);
        // Of each page the version that is durable, and the one that was written last.
        let mut known: Vec<(u64, u64)> = vec![(0, 0); PAGES];
        let mut next = 1;
        for round in 0..rounds() {
            array.serve(&[]);
            let mut client = array.client();
            for (at, (durable, last)) in known.iter_mut().enumerate() {
                let mut bytes = vec![0; 4096];
                client.read(at as u64 * 4096, &mut bytes).expect("a read");
                let found = (*durable..=*last).find(|version| bytes == written(at, *version));
                let found = found
                    .unwrap_or_else(|| panic!("{settings:?}, round {round}: page {at} is none of {durable} to {last}"));
                // What it was found to be, it stays.
                (*durable, *last) = (found, found);
            }
            let deadline = Duration::from_millis(5 + draws.below(60));
            let seed = draws.below(1 << 30);
            let log = std::thread::scope(|scope| {
                let writer = scope.spawn(|| write(&mut client, seed, next));
                std::thread::sleep(deadline);
                array.kill();
                writer.join().expect("the writer ends with the connection")
            });
            for event in log {
                match event {
                    Event::Asked { at, version } => {
                        known[at].1 = version;
                        next = version + 1;
                    }
                    Event::Durable { at, version } => known[at].0 = version,
                }
            }
        }
        array.serve(&[]);
        array.stop();
    }
}

/// The content of a version of a page.
fn written(at: usize, version: u64) -> Vec<u8> {
    if version == 0 { vec![0; 4096] } else { page(version << 8 | at as u64) }
}

/// What a writer knows.
enum Event {
    /// It has asked for a version of a page to be written.
    Asked { at: usize, version: u64 },
    /// That is durable.
    Durable { at: usize, version: u64 },
}

/// Writes until the service is gone.
fn write(client: &mut Connection<UnixStream>, seed: u64, first: u64) -> Vec<Event> {
    let mut draws = Draws(seed);
    let mut log = Vec::new();
    let mut newest = [0; PAGES];
    for version in first.. {
        let at = draws.below(PAGES as u64) as usize;
        let fua = draws.below(3) == 0;
        log.push(Event::Asked { at, version });
        if client.write(at as u64 * 4096, &written(at, version), fua).is_err() {
            return log;
        }
        newest[at] = version;
        if fua {
            log.push(Event::Durable { at, version });
        }
        if draws.below(8) == 0 {
            if client.flush().is_err() {
                return log;
            }
            let versions = newest.iter().enumerate().filter(|(_, version)| **version > 0);
            log.extend(versions.map(|(at, &version)| Event::Durable { at, version }));
        }
    }
    log
}
