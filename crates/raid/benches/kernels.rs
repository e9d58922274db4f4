//! Bytes of sources that each kernel of each instruction set handles in a second, on one core.
//!
//! Every call takes the next stripe of a working set: 640 KiB, which the caches hold, or 256 MiB,
//! which they do not.
//!
//! `cargo bench -p destage-raid --bench kernels [-- FILTER]`

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use destage_raid::kernels::ParityKernels;

const PAGE: usize = 4096;
/// The sizes of a block and the working sets with their names.
const BLOCKS: [(usize, &str); 2] = [(PAGE, "4KiB"), (16 * PAGE, "64KiB")];
const SETS: [(usize, &str); 2] = [(640 << 10, "cache"), (256 << 20, "dram")];

/// Stripes of blocks that begin on page borders, as those of an I/O buffer do.
struct Stripes {
    memory: Vec<u8>,
    /// Byte of `memory` where the first stripe begins.
    first: usize,
    /// Bytes in a block.
    block: usize,
    /// Blocks in a stripe.
    width: usize,
    /// Stripes.
    count: usize,
    /// The stripe whose turn it is.
    next: usize,
}

impl Stripes {
    fn new(working_set: usize, block: usize, width: usize) -> Self {
        let count = (working_set / (block * width)).max(1);
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let memory: Vec<u8> = (0..count * width * block + PAGE)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        let first = memory.as_ptr().align_offset(PAGE);
        Self { memory, first, block, width, count, next: 0 }
    }

    /// The next stripe: its first `DESTINATIONS` blocks, and its other blocks in `sources`, whose
    /// number is returned.
    fn next<'a, const DESTINATIONS: usize>(
        &'a mut self,
        sources: &mut [&'a [u8]; 8],
    ) -> ([&'a mut [u8]; DESTINATIONS], usize) {
        let len = self.block * self.width;
        let at = self.first + self.next * len;
        self.next = (self.next + 1) % self.count;
        let mut rest = &mut self.memory[at..at + len];
        let destinations = std::array::from_fn(|_| rest.split_off_mut(..self.block).expect("as many blocks were made"));
        let mut count = 0;
        for source in rest.chunks_exact(self.block) {
            sources[count] = source;
            count += 1;
        }
        (destinations, count)
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .configure_from_args();
    for (working_set, set) in SETS {
        for (block, size) in BLOCKS {
            for (name, kernels) in ParityKernels::all_available() {
                let mut group = criterion.benchmark_group(format!("{set}/{size}/{name}"));
                for sources in [2, 4, 8] {
                    group.throughput(Throughput::Bytes((sources * block) as u64));
                    let mut stripes = Stripes::new(working_set, block, 1 + sources);
                    group.bench_function(format!("xor {sources}"), |bencher| {
                        bencher.iter(|| {
                            let mut srcs = [&[][..]; 8];
                            let ([dst], count) = stripes.next(&mut srcs);
                            kernels.xor(black_box(dst), black_box(&srcs[..count]));
                        });
                    });
                }
                for sources in [4, 8] {
                    group.throughput(Throughput::Bytes((sources * block) as u64));
                    let mut stripes = Stripes::new(working_set, block, 2 + sources);
                    group.bench_function(format!("pq {sources}"), |bencher| {
                        bencher.iter(|| {
                            let mut srcs = [&[][..]; 8];
                            let ([p, q], count) = stripes.next(&mut srcs);
                            let srcs = srcs.map(Some);
                            kernels.pq(black_box(p), black_box(q), black_box(&srcs[..count]));
                        });
                    });
                }
                let mut stripes = Stripes::new(working_set, block, 3);
                group.throughput(Throughput::Bytes(2 * block as u64));
                group.bench_function("gf", |bencher| {
                    bencher.iter(|| {
                        let mut srcs = [&[][..]; 8];
                        let ([dst], _) = stripes.next(&mut srcs);
                        kernels.gf(black_box(dst), black_box(0x8E), srcs[0], black_box(0x47), srcs[1]);
                    });
                });
                let mut stripes = Stripes::new(working_set, block, 2);
                group.throughput(Throughput::Bytes(block as u64));
                group.bench_function("gf_into", |bencher| {
                    bencher.iter(|| {
                        let mut srcs = [&[][..]; 8];
                        let ([dst], _) = stripes.next(&mut srcs);
                        kernels.gf_into(black_box(dst), black_box(0x8E), srcs[0]);
                    });
                });
                group.finish();
            }
        }
    }
    criterion.final_summary();
}
