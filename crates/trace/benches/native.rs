//! Measures how fast the native format is read and written, on one thread, from and to memory.
//!
//! `native/scan`: 20 million requests decoded through [`TraceSource::next_batch`]. `zipf-4KiB` is synthetic
//! (4 KiB, 30 % reads, Poisson arrivals, a scattered Zipf footprint over 64 GiB); `oltp` is the recording
//! `own.oltp-pgbench-ext4` of the shared traces, repeated. The aim is 50 M requests/s in each.
//! `native/write`: a million requests of each, encoded.
//!
//! Seen on one core of a 2.3 GHz Xeon (family 6, model 207) that was otherwise idle: scan 135 and 70 M
//! requests/s, write 10 and 6.7. About half of the scan of `oltp` is zstd; of `zipf-4KiB`, most of whose
//! bytes are stored, a third.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use destage_trace::{
    AccessFootprint, ArrivalProcess, NATIVE_DEFAULT_LEVEL, Nanos, NativeReader, NativeWriter, Op, PercentShare,
    Request, SizeMix, SynthLength, SynthSpec, SynthTrace, SynthVolumes, TraceSource,
};

const SCANNED: u64 = 20_000_000;
const WRITTEN: u64 = 1_000_000;

fn zipf(requests: u64) -> SynthTrace {
    SynthTrace::new(SynthSpec {
        length: SynthLength::Requests(requests),
        sizes: SizeMix::fixed(4096),
        read_share: PercentShare::from_percent(30).unwrap(),
        discard_share: PercentShare::NONE,
        arrivals: ArrivalProcess::Poisson(Nanos(20_000)),
        sequential_share: PercentShare::NONE,
        footprint: AccessFootprint::Zipf { alpha: 0.9, scattered: true },
        align: 4096,
        space: 64 << 30,
        volumes: SynthVolumes::ONE,
        flush_every: None,
        seed: 1,
    })
    .unwrap()
}

/// The recording (`µs,R|W,sector,sectors`), if the shared traces are there.
fn oltp() -> Option<Vec<Request>> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("DESTAGE_SHARED").map_or_else(beside, PathBuf::from);
    let path = shared.join("traces/own.oltp-pgbench-ext4.csv.zst");
    let Ok(file) = std::fs::File::open(&path) else {
        eprintln!("SKIPPED: native/*/oltp: {} is not there", path.display());
        return None;
    };
    let mut text = String::new();
    zstd::Decoder::new(file).unwrap().read_to_string(&mut text).unwrap();
    let request = |line: &str| {
        let mut fields = line.split(',');
        let mut next = || fields.next().unwrap();
        let time = Nanos(next().parse::<u64>().unwrap() * 1000);
        let op = if next() == "R" { Op::Read } else { Op::Write };
        let mut bytes = || next().parse::<u64>().unwrap() * 512;
        Request { time, offset: bytes(), len: bytes(), volume: 0, op, fua: false }
    };
    Some(text.lines().map(request).collect())
}

/// The recording again and again, each time after the last, up to so many requests.
fn repeat(recording: &[Request], requests: u64, mut take: impl FnMut(&[Request])) {
    let span = recording.iter().map(|r| r.time).max().unwrap_or_default() + Nanos(1000);
    let mut again = recording.to_vec();
    let mut left = requests as usize;
    while left > 0 {
        take(&again[..left.min(again.len())]);
        left = left.saturating_sub(again.len());
        for request in &mut again {
            request.time += span;
        }
    }
}

fn encode(level: i32, write: impl FnOnce(&mut NativeWriter<Vec<u8>>)) -> Arc<[u8]> {
    let mut writer = NativeWriter::with_level(vec![], level).unwrap();
    write(&mut writer);
    writer.finish().unwrap().into()
}

fn all(mut source: SynthTrace) -> Vec<Request> {
    let (mut all, mut batch) = (vec![], vec![]);
    while {
        source.next_batch(&mut batch).unwrap();
        !batch.is_empty()
    } {
        all.extend_from_slice(&batch);
    }
    all
}

fn scan(c: &mut Criterion) {
    let mut group = c.benchmark_group("native/scan");
    group.sample_size(10).measurement_time(Duration::from_secs(8)).throughput(Throughput::Elements(SCANNED));
    let mut measure = |name: &str, bytes: Arc<[u8]>| {
        eprintln!("native/scan/{name}: {:.2} B per request", bytes.len() as f64 / SCANNED as f64);
        let mut batch = vec![];
        group.bench_function(name, |b| {
            b.iter(|| {
                let input = Box::new(Cursor::new(Arc::clone(&bytes)));
                let mut reader = NativeReader::open(Path::new(name), input).unwrap();
                let (mut requests, mut sum) = (0, 0_u64);
                loop {
                    reader.next_batch(&mut batch).unwrap();
                    let Some(last) = batch.last() else { break };
                    requests += batch.len() as u64;
                    sum = sum.wrapping_add(last.offset);
                }
                assert_eq!(requests, SCANNED);
                sum
            });
        });
    };
    let zipf = encode(NATIVE_DEFAULT_LEVEL, |writer| {
        let (mut source, mut batch) = (zipf(SCANNED), vec![]);
        while {
            source.next_batch(&mut batch).unwrap();
            !batch.is_empty()
        } {
            writer.write(&batch).unwrap();
        }
    });
    measure("zipf-4KiB", zipf);
    if let Some(recording) = oltp() {
        let once = encode(NATIVE_DEFAULT_LEVEL, |writer| writer.write(&recording).unwrap());
        eprintln!("native: own.oltp-pgbench-ext4, {} requests, takes {} B", recording.len(), once.len());
        let bytes = encode(NATIVE_DEFAULT_LEVEL, |writer| {
            repeat(&recording, SCANNED, |requests| writer.write(requests).unwrap());
        });
        measure("oltp", bytes);
    }
    group.finish();
}

fn write(c: &mut Criterion) {
    let mut group = c.benchmark_group("native/write");
    group.sample_size(10).throughput(Throughput::Elements(WRITTEN));
    let mut traces = vec![("zipf-4KiB", all(zipf(WRITTEN)))];
    if let Some(recording) = oltp() {
        let mut long = vec![];
        repeat(&recording, WRITTEN, |requests| long.extend_from_slice(requests));
        traces.push(("oltp", long));
    }
    for (name, requests) in &traces {
        group.bench_function(*name, |b| {
            b.iter(|| encode(NATIVE_DEFAULT_LEVEL, |writer| writer.write(requests).unwrap()).len());
        });
    }
    group.finish();
}

criterion_group!(benches, scan, write);
criterion_main!(benches);
