//! The trace `rw80`, on which destage and other simulators were measured side by side: a million
//! writes and 250,000 reads of 4 KiB, uniform over 435,200 pages (1,700 MiB), with Poisson arrivals
//! 2 ms apart on average.
//!
//! The trace's generator is repeated here (xorshift64*, times cut to microseconds), so that the requests
//! are those that the others were given, but for one arrival that is a microsecond later: the
//! logarithm is `libm`'s, which gives the same on every machine, and not that of one platform.

use destage_plan::{Nanos, Op, Request};

use crate::error::TraceError;
use crate::source::{BATCH_REQUESTS, TraceSource};

/// Bytes of a request, which is a page.
const PAGE: u64 = 4096;
/// The requests go to the pages below this.
const PAGES: u64 = 435_200;
const READS: u64 = 250_000;
const WRITES: u64 = 1_000_000;
const MEAN_MICROS: f64 = 2000.0;

/// The requests of `rw80`, in order.
pub struct Rw80 {
    state: u64,
    micros: f64,
    reads: u64,
    writes: u64,
}

impl Rw80 {
    /// The pages that the requests go to are those below this.
    pub const PAGES: u64 = PAGES;

    /// From the first request.
    pub fn new() -> Self {
        Self { state: 0x9E37_79B9_7F4A_7C15, micros: 0.0, reads: READS, writes: WRITES }
    }

    fn random(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from 0 to below 1.
    fn share(&mut self) -> f64 {
        (self.random() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Default for Rw80 {
    fn default() -> Self {
        Self::new()
    }
}

impl Iterator for Rw80 {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let left = self.reads + self.writes;
        if left == 0 {
            return None;
        }
        self.micros += -MEAN_MICROS * libm::log(1.0 - self.share());
        let read = self.share() < self.reads as f64 / left as f64;
        *(if read { &mut self.reads } else { &mut self.writes }) -= 1;
        let page = self.random() % PAGES;
        let op = if read { Op::Read } else { Op::Write };
        let time = Nanos(self.micros as u64 * 1000);
        Some(Request { time, offset: page * PAGE, len: PAGE, volume: 0, op, fua: false })
    }
}

impl TraceSource for Rw80 {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        out.clear();
        out.extend(self.take(BATCH_REQUESTS));
        Ok(())
    }

    fn len_hint(&self) -> Option<u64> {
        Some(READS + WRITES)
    }

    fn progress(&self) -> Option<f64> {
        Some(1.0 - (self.reads + self.writes) as f64 / (READS + WRITES) as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// The request that arrives later than in the file `rw80.csv` that the others' inputs were made
    /// from, and the file's own CRC-32C.
    const LATER: usize = 845_051 - 1;
    const FILE_CRC32C: u32 = 0x25bd_4f4d;

    #[test]
    fn is_the_trace_that_the_others_were_given() {
        let mut csv = String::from("time_us,op,page,pages\n");
        for (i, r) in Rw80::new().enumerate() {
            let op = if r.op == Op::Read { 'R' } else { 'W' };
            let micros = r.time.0 / 1000 - u64::from(i == LATER);
            writeln!(csv, "{micros},{op},{},1", r.offset / PAGE).expect("memory");
        }
        assert_eq!(crc32c::crc32c(csv.as_bytes()), FILE_CRC32C);
    }
}
