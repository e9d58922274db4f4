//! Loads a drive as SSD-iq's latency measurement does (Haas, Lee, Bonnet, Leis, PVLDB 2025): seven threads of at most 64
//! outstanding requests of 4 KiB over a drive in its steady state. Thread 0 has one request every 100 µs, half of them reads;
//! the others together are a Poisson process with 1 % reads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use destage_plan::{Nanos, PageNo};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::{below, unit};
use crate::ssd::Ssd;

/// Counts the threads.
const THREADS: usize = 7;
/// Limits the requests that a thread has outstanding.
const DEPTH: usize = 64;
/// Separates the requests of thread 0, in nanoseconds.
const PACE: u64 = 100_000;

/// Holds response times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct ResponseTimes(Vec<u64>);

impl ResponseTimes {
    /// Returns p50, p99 and p99.9 in microseconds; zeros if there were no requests.
    pub fn percentiles(&mut self) -> [f64; 3] {
        self.0.sort_unstable();
        let last = self.0.len().saturating_sub(1);
        [0.5, 0.99, 0.999].map(|p| {
            let at = ((self.0.len() as f64 * p) as usize).min(last);
            self.0.get(at).map_or(0.0, |&ns| ns as f64 / 1000.0)
        })
    }
}

/// Holds what a run measured.
#[derive(Clone, Debug, Default)]
pub struct LoadFigures {
    /// Response times of thread 0 and of the others, reads first.
    pub times: [[ResponseTimes; 2]; 2],
    /// Writes a second, of all threads.
    pub writes_per_second: f64,
    /// Reads a second, of all threads.
    pub reads_per_second: f64,
    /// Pages programmed for each that hosts wrote.
    pub amplification: f64,
}

/// Sets how much is asked of a drive.
#[derive(Clone, Copy, Debug)]
pub struct OfferedLoad {
    /// Writes a second of all threads; `None` for as many as the drive takes.
    pub writes_per_second: Option<f64>,
    /// Length of the measured part, in seconds, behind a fifth as much that is not measured.
    pub seconds: f64,
    /// Seed of arrivals and addresses.
    pub seed: u64,
}

/// Holds a thread's outstanding requests, when its last one was submitted, and when its next one arrives.
struct LoadThread {
    submitted: u64,
    arrives: f64,
    outstanding: BinaryHeap<Reverse<u64>>,
}

impl LoadThread {
    /// Returns when its next request is submitted: at its arrival, or once one of the outstanding ones is answered.
    fn submits(&self) -> u64 {
        let arrives = self.submitted.max(self.arrives as u64);
        match self.outstanding.peek() {
            Some(&Reverse(first)) if self.outstanding.len() >= DEPTH => arrives.max(first),
            _ => arrives,
        }
    }
}

impl OfferedLoad {
    /// Runs it over a whole drive.
    ///
    /// # Panics
    /// With 5,000 or less writes a second, which thread 0 has alone.
    pub fn run(self, ssd: &mut Ssd) -> LoadFigures {
        let pages = ssd.shape().host_pages;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let others = (THREADS - 1) as f64;
        // Nanoseconds between the arrivals of one thread of the others.
        let interval = self.writes_per_second.map_or(0.0, |writes| others * 0.99e9 / (writes - 5000.0));
        let mut threads: Vec<LoadThread> = (0..THREADS)
            .map(|number| LoadThread {
                submitted: 0,
                arrives: if number == 0 { 0.0 } else { -interval * unit(&mut random).ln() },
                outstanding: BinaryHeap::new(),
            })
            .collect();
        assert!(self.writes_per_second.is_none_or(|writes| writes > 5000.0), "the other threads have the rest");
        let (begin, end) = (self.seconds * 0.2e9, self.seconds * 1.2e9);
        let mut measured = LoadFigures::default();
        let (mut before, mut done) = (None, [0_u64; 2]);
        loop {
            let (number, at) =
                threads.iter().map(LoadThread::submits).enumerate().min_by_key(|&(_, at)| at).expect("threads");
            if at as f64 >= end {
                break;
            }
            let measures = at as f64 >= begin;
            if measures && before.is_none() {
                before = Some(ssd.total());
            }
            let thread = &mut threads[number];
            while thread.outstanding.peek().is_some_and(|first| first.0 <= at) {
                thread.outstanding.pop();
            }
            thread.submitted = at;
            let reads = unit(&mut random) <= if number == 0 { 0.5 } else { 0.01 };
            let page = PageNo(below(&mut random, pages));
            ssd.begin_command();
            let Nanos(answered) = if reads { ssd.read(Nanos(at), page) } else { ssd.program(Nanos(at), page) };
            thread.outstanding.push(Reverse(answered));
            thread.arrives += if number == 0 { PACE as f64 } else { -interval * unit(&mut random).ln() };
            if measures {
                measured.times[usize::from(number > 0)][usize::from(!reads)].0.push(answered - at);
                done[usize::from(!reads)] += 1;
            }
        }
        let (before, after) = (before.unwrap_or_default(), ssd.total());
        let host = after.host_programs - before.host_programs;
        measured.amplification = 1.0 + (after.gc_pages_moved - before.gc_pages_moved) as f64 / host.max(1) as f64;
        [measured.reads_per_second, measured.writes_per_second] = done.map(|count| count as f64 / self.seconds);
        measured
    }
}
