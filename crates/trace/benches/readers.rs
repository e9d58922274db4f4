//! Measures the text readers on one core and from memory, in lines per second, everything included (finding
//! line ends, parsing, volumes, batches).
//!
//! `cargo bench -p destage-trace --bench readers`

use std::fmt::Write;
use std::hint::black_box;
use std::io::Cursor;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use destage_trace::{OpenOptions, TraceSource, open_stream};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const LINES: u64 = 200_000;

/// Lines of one format with fields of realistic lengths.
fn text(line: impl Fn(&mut String, u64, &mut Xoshiro256PlusPlus)) -> Arc<[u8]> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut text = String::new();
    for n in 0..LINES {
        line(&mut text, n, &mut random);
    }
    text.into_bytes().into()
}

fn readers(c: &mut Criterion) {
    let formats: [(&str, Arc<[u8]>); 8] = [
        (
            "disksim",
            text(|t, n, r| {
                let (ms, lba) = (n * 37, r.next_u64() % 40_000_000);
                writeln!(t, "{}.{:03} 0 {lba} {} {}", ms / 1000, ms % 1000, 8 << (n % 5), n & 1).unwrap();
            }),
        ),
        (
            "rq-csv",
            text(|t, n, r| {
                let op = if n % 3 == 0 { 'R' } else { 'W' };
                writeln!(t, "{},{op},{},{}", n * 211, r.next_u64() % 40_000_000, 8 << (n % 5)).unwrap();
            }),
        ),
        (
            "ssdsim",
            text(|t, n, r| {
                writeln!(t, "{} 0 {} {} {}", n * 14_000_000, r.next_u64() % 40_000_000, 8, n & 1).unwrap();
            }),
        ),
        (
            "tencent",
            text(|t, n, r| {
                let (lba, volume) = (r.next_u64() % 200_000_000, r.next_u64() % 2000);
                writeln!(t, "{},{lba},{},{},{volume}", 1_540_000_000 + n / 50_000, 8 << (n % 5), n & 1).unwrap();
            }),
        ),
        (
            "msr",
            text(|t, n, r| {
                let op = if n % 3 == 0 { "Read" } else { "Write" };
                let (time, offset) = (128_000_000_000_000_000 + n * 1000, r.next_u64() % 14_000_000_000);
                writeln!(t, "{time},hm,{},{op},{offset},{},{}", n & 1, 4096 << (n % 4), 2000 + n % 9000).unwrap();
            }),
        ),
        (
            "systor",
            text(|t, n, r| {
                let (us, offset) = (n * 213, r.next_u64() % 4_000_000_000_000);
                let op = if n % 3 == 0 { 'W' } else { 'R' };
                writeln!(t, "1450000000.{us:09},0.000806000,{op},0,{offset},{}", 4096 << (n % 5)).unwrap();
            }),
        ),
        (
            "blkparse",
            text(|t, n, r| {
                let (ns, lba) = (n * 60_000, r.next_u64() % 40_000_000);
                let (s, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
                writeln!(t, "  8,33  30 {n:8} {s:5}.{ns:09}  5025  D  WS {lba} + 8 [kworker/0:1H]").unwrap();
            }),
        ),
        (
            "columns:ts=ms,dev,off=sectors,len=sectors,op(1=R)",
            text(|t, n, r| {
                let (ms, lba) = (n * 37, r.next_u64() % 40_000_000);
                writeln!(t, "{}.{:03} 0 {lba} {} {}", ms / 1000, ms % 1000, 8 << (n % 5), n & 1).unwrap();
            }),
        ),
    ];
    let mut group = c.benchmark_group("readers");
    group.throughput(Throughput::Elements(LINES)).sample_size(20);
    for (name, lines) in formats {
        let options = OpenOptions { format: Some(name.parse().unwrap()), lenient: false };
        group.bench_function(name.split(':').next().unwrap(), |b| {
            let mut batch = Vec::new();
            b.iter_batched(
                || open_stream("memory", Box::new(Cursor::new(Arc::clone(&lines))), None, &options).unwrap(),
                |mut trace| {
                    let mut requests = 0;
                    loop {
                        trace.next_batch(&mut batch).unwrap();
                        if batch.is_empty() {
                            break;
                        }
                        requests += black_box(&batch).len() as u64;
                    }
                    assert_eq!(requests, LINES);
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, readers);
criterion_main!(benches);
