//! The requests of all workloads.

use destage_plan::{Nanos, Op, Request};
use destage_trace::{BATCH_REQUESTS, TraceError, TraceSource};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Odd, so multiplying by it permutes the numbers below a power of two.
const SCATTER: u64 = 618_033;

/// xorshift64*.
pub struct Random(u64);

impl Random {
    /// From the same seed each time.
    pub fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)) * u128::from(bound)) >> 64) as u64
    }

    /// A page below `pages`, a power of two: two of three draws go to an eighth of the pages, which
    /// lie scattered.
    pub fn skewed(&mut self, pages: u64) -> u64 {
        let product = self.below(pages) * self.below(pages) / pages * self.below(pages) / pages;
        product * SCATTER % pages
    }
}

/// Requests of a page each, a read among five, 2 ms apart on average.
pub fn requests(count: usize, mut page: impl FnMut(&mut Random) -> u64) -> Vec<Request> {
    let mut random = Random::new();
    let mut time = 0;
    (0..count)
        .map(|_| {
            time += random.below(4_000_000);
            let op = if random.below(5) == 0 { Op::Read } else { Op::Write };
            Request { time: Nanos(time), offset: page(&mut random) * PAGE, len: PAGE, volume: 0, op, fua: false }
        })
        .collect()
}

/// Requests from memory.
pub struct Memory {
    requests: Vec<Request>,
    next: usize,
}

impl Memory {
    /// From the first of these on.
    pub fn new(requests: Vec<Request>) -> Self {
        Self { requests, next: 0 }
    }
}

impl TraceSource for Memory {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        let end = self.requests.len().min(self.next + BATCH_REQUESTS);
        out.clear();
        out.extend_from_slice(&self.requests[self.next..end]);
        self.next = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn two_of_three_draws_go_to_an_eighth_of_the_pages() {
        let mut random = Random::new();
        let mut draws = HashMap::new();
        for _ in 0..100_000 {
            *draws.entry(random.skewed(1 << 10)).or_insert(0) += 1;
        }
        let mut draws: Vec<u32> = draws.into_values().collect();
        draws.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
        let hot: u32 = draws[..1 << 7].iter().sum();
        assert!((64_000..68_000).contains(&hot), "{hot}");
    }
}
