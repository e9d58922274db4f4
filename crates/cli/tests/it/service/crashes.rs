//! The process dies at any moment: what was answered as durable is there, in every cache.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use destage_nbd::client::blocking::BlockingConnection;

use super::{ARRAYS, Array, Draws, IoMode, page};

io_mode_tests! {
    what_was_flushed_outlives_the_process,
}

/// Pages that the writer writes.
const PAGES: usize = 96;

/// Rounds for each cache; many more with `DESTAGE_SOAK`.
fn rounds() -> u64 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 200 } else { 6 }
}

fn what_was_flushed_outlives_the_process(io_mode: IoMode) {
    for settings in ARRAYS {
        let mut array = Array::new(io_mode, settings);
        let mut draws = Draws(3);
        let mut known = Known::new(PAGES, 1);
        for round in 0..rounds() {
            array.serve(&[]);
            let mut client = array.client();
            known.check(&mut client, &format!("{settings:?}, round {round}"));
            let deadline = Duration::from_millis(5 + draws.below(60));
            let seed = draws.below(1 << 30);
            let log = std::thread::scope(|scope| {
                let writer = scope.spawn(|| known.write(&mut client, seed, 0, 1));
                std::thread::sleep(deadline);
                array.kill();
                writer.join().expect("the writer ends with the connection")
            });
            known.note(log);
        }
        array.serve(&[]);
        array.stop();
    }
}

/// The content of a version of a page.
fn written(at: usize, version: u64) -> Vec<u8> {
    if version == 0 { vec![0; 4096] } else { page(version << 10 | at as u64) }
}

/// Records an event of a writer.
pub enum Event {
    /// Tells that the writer has asked for a version of a page to be written.
    Asked { at: usize, version: u64 },
    /// Tells that this version is durable.
    Durable { at: usize, version: u64 },
}

/// Keeps what can be found of pages that are written while the service is killed.
pub struct Known {
    /// Of each page the version that is durable, and the one that was written last.
    pages: Vec<(u64, u64)>,
    /// Pages of the device from one of these to the next.
    stride: u64,
    /// The version that is written next.
    next: u64,
}

impl Known {
    /// Pages of zeroes; at most 1024.
    pub fn new(pages: usize, stride: u64) -> Self {
        Self { pages: vec![(0, 0); pages], stride, next: 1 }
    }

    /// Reads all, which must be what it can be.
    pub fn check(&mut self, client: &mut BlockingConnection<UnixStream>, when: &str) {
        for (at, (durable, last)) in self.pages.iter_mut().enumerate() {
            let mut bytes = vec![0; 4096];
            client.read(at as u64 * self.stride * 4096, &mut bytes).expect("a read");
            let found = (*durable..=*last).find(|version| bytes == written(at, *version));
            let found = found.unwrap_or_else(|| {
                let older = (0..*durable).find(|version| bytes == written(at, *version));
                panic!("{when}: page {at} is none of {durable} to {last}, but of older ones {older:?}")
            });
            // What it was found to be, it stays.
            (*durable, *last) = (found, found);
        }
    }

    /// Writes until the service is gone: of `writers`, each has its own pages.
    pub fn write(
        &self,
        client: &mut BlockingConnection<UnixStream>,
        seed: u64,
        writer: usize,
        writers: usize,
    ) -> Vec<Event> {
        let mut draws = Draws(seed);
        let mut log = Vec::new();
        let mut newest = vec![0; self.pages.len()];
        for version in self.next.. {
            let at = draws.below((self.pages.len() / writers) as u64) as usize * writers + writer;
            let fua = draws.below(3) == 0;
            log.push(Event::Asked { at, version });
            if client.write(at as u64 * self.stride * 4096, &written(at, version), fua).is_err() {
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

    /// Takes note of what a writer knows; how many writes and flushes were answered as durable.
    pub fn note(&mut self, log: Vec<Event>) -> u64 {
        let mut durable = 0;
        for event in log {
            match event {
                Event::Asked { at, version } => {
                    self.pages[at].1 = version;
                    self.next = self.next.max(version + 1);
                }
                Event::Durable { at, version } => {
                    self.pages[at].0 = version;
                    durable += 1;
                }
            }
        }
        durable
    }
}
