//! Random workloads with everything that a trace can hold.

use destage_plan::{Nanos, Op, Request};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

pub(crate) const PAGE: u64 = 4096;

/// A number below `bound`.
pub(crate) fn below(rng: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// Requests to the pages `0..pages`: reads, writes (some with FUA), flushes and discards of no
/// bytes, of parts of pages and of up to several blocks, partly skewed and partly in sequence,
/// arriving `gap` apart on average.
pub(crate) fn mixed(seed: u64, pages: u64, requests: usize, gap: Nanos) -> Vec<Request> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let end = pages * PAGE;
    let (mut time, mut next) = (0, 0);
    (0..requests)
        .map(|_| {
            time += match below(&mut rng, 4) {
                0 => 0,
                _ => below(&mut rng, gap.0 * 8 / 3 + 1),
            };
            let len = match below(&mut rng, 100) {
                0..3 => 0,
                3..55 => PAGE * (1 + below(&mut rng, 4)),
                55..70 => 1 + below(&mut rng, 3 * PAGE),
                70..80 => 512 * (1 + below(&mut rng, 24)),
                80..96 => PAGE * (1 + below(&mut rng, 16)),
                _ => PAGE * (1 + below(&mut rng, 70)),
            };
            let whole = len % PAGE == 0;
            let offset = match below(&mut rng, 10) {
                0..2 => next,
                2..7 => {
                    let middle = below(&mut rng, end) + 1;
                    below(&mut rng, middle)
                }
                _ => below(&mut rng, end),
            };
            let offset = if whole { offset / PAGE * PAGE } else { offset };
            let len = len.min(end - offset.min(end));
            next = (offset + len) % end;
            let op = match below(&mut rng, 100) {
                0..30 => Op::Read,
                30..32 => Op::Flush,
                32..37 => Op::Discard,
                _ => Op::Write,
            };
            let fua = op == Op::Write && below(&mut rng, 12) == 0;
            let len = if op == Op::Flush { 0 } else { len };
            Request { time: Nanos(time), offset, len, volume: 0, op, fua }
        })
        .collect()
}
