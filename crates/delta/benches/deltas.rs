//! Measures the time to make and to apply a delta of a page, for each instruction set and codec, with LZ4
//! beside. The shares of changed bytes and their patterns vary; the lengths of the deltas are reported too.
//!
//! Pages and deltas stay in the caches: 64 pages, whose old and new contents take 512 KiB.
//!
//! `cargo bench -p destage-delta --bench deltas [-- FILTER]`

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use destage_delta::patterns::ChangePattern;
use destage_delta::{DeltaCodec, DeltaEncoder, DeltaKernels};

const PAGE: usize = 4096;
const PAGES: u64 = 64;
/// Bytes that have changed, in hundredths of a page.
const SHARES: [usize; 4] = [5, 10, 15, 25];

/// Old and new contents of pages.
fn pages(pattern: ChangePattern, share: usize) -> Vec<[Vec<u8>; 2]> {
    let page = |seed: u64| {
        let (mut base, mut new) = (vec![0; PAGE], vec![0; PAGE]);
        // The old content is any.
        ChangePattern::OneRun.fill(PAGE, !seed, &mut base);
        pattern.fill(PAGE * share / 100, seed, &mut new);
        new.iter_mut().zip(&base).for_each(|(new, old)| *new ^= old);
        [base, new]
    };
    (0..PAGES).map(page).collect()
}

/// A way to make deltas: its name, what applies them, what makes them.
type Way = (String, DeltaKernels, Box<dyn FnMut(&[u8], &[u8], &mut [u8]) -> usize>);

/// The shortest with each instruction set, each codec with the best.
fn ways() -> Vec<Way> {
    let best = DeltaKernels::best();
    let only = |codec, name: &str| -> Way {
        let mut encoder = DeltaEncoder::new(best, codec);
        (name.to_owned(), best, Box::new(move |base, new, delta| encoder.encode(base, new, delta)))
    };
    DeltaKernels::all_available()
        .map(|kernels| -> Way {
            let encode = move |base: &[u8], new: &[u8], delta: &mut [u8]| kernels.encode(base, new, delta);
            (format!("shortest {}", kernels.name()), kernels, Box::new(encode))
        })
        .chain([only(DeltaCodec::Words, "words"), only(DeltaCodec::Bytes, "bytes"), only(DeltaCodec::Lz4, "lz4")])
        .collect()
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(200))
        .configure_from_args();
    for pattern in ChangePattern::ALL {
        for share in SHARES {
            let pages = pages(pattern, share);
            let mut group = criterion.benchmark_group(format!("{}, {share} %", pattern.name()));
            group.throughput(Throughput::Bytes(PAGE as u64));
            for (name, kernels, mut encode) in ways() {
                let mut delta = vec![0; PAGE];
                let mut next = (0..pages.len()).cycle();
                group.bench_function(format!("encode {name}"), |bencher| {
                    bencher.iter(|| {
                        let [base, new] = &pages[next.next().expect("it goes round")];
                        black_box(encode(black_box(base), black_box(new), &mut delta))
                    });
                });
                let deltas: Vec<Vec<u8>> = pages
                    .iter()
                    .map(|[base, new]| {
                        let len = encode(base, new, &mut delta);
                        delta[..len].to_vec()
                    })
                    .collect();
                let total: usize = deltas.iter().map(Vec::len).sum();
                println!(
                    "{}, {share} %/{name}: ratio {:.3}",
                    pattern.name(),
                    total as f64 / (pages.len() * PAGE) as f64
                );
                let mut page = vec![0; PAGE];
                group.bench_function(format!("decode {name}"), |bencher| {
                    bencher.iter(|| {
                        let at = next.next().expect("it goes round");
                        kernels.decode(black_box(&pages[at][0]), black_box(&deltas[at]), &mut page)
                    });
                });
            }
            group.finish();
        }
    }
    criterion.final_summary();
}
