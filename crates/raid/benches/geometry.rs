//! Pages that are located and given a device in a second, on one core: what each page of a request
//! costs.
//!
//! Pages are drawn by xorshift64, so no two neighbours share a stripe.
//!
//! `cargo bench -p destage-raid --bench geometry [-- FILTER]`

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use destage_raid::{Geometry, RaidLevel};

const PAGES: usize = 4096;

fn main() {
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    let shapes = [
        ("raid5 of 5, chunk 16", RaidLevel::Raid5, 5, 16),
        ("raid5 of 8, chunk 24", RaidLevel::Raid5, 8, 24),
        ("raid6 of 8, chunk 128", RaidLevel::Raid6, 8, 128),
    ];
    let mut group = criterion.benchmark_group("locate");
    group.throughput(Throughput::Elements(PAGES as u64));
    for (name, level, devices, chunk) in shapes {
        let geometry = Geometry::new(level, None, devices, chunk, 1 << 28).expect("the shapes are possible");
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let pages: Vec<u64> = (0..PAGES)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % geometry.data_pages()
            })
            .collect();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let geometry = black_box(&geometry);
                let mut sum = 0;
                for &page in black_box(&pages) {
                    let place = geometry.locate(page);
                    sum += u64::from(geometry.device(place.stripe, place.column).0)
                        + geometry.row(place.stripe, place.row_in_chunk).0;
                }
                sum
            });
        });
    }
    group.finish();
    criterion.final_summary();
}
