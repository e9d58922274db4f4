//! The exact curve of LRU against a run of `lru` at each of many sizes, for whatever decides about what a run counts; and
//! what it tells of a trace, by hand.

use std::collections::BTreeSet;
use std::sync::Arc;

use destage_plan::{Nanos, Op, PageGeometry, Request};
use destage_sim::buffer::{BufferExperiment, DeviceConfig, FlushMode};
use destage_sim::curve::{self, CurveScope, PassFindings};
use destage_sim::experiment::{ExperimentError, OpenedInput, RunResources};
use destage_sim::input::{PlaySpeed, TraceOps, TrimMode, VolumeSelection, WarmupPart};

use crate::in_memory::{InMemory, ONE_THREAD, discard, experiment, flush, read, try_run, write};
use crate::mixed::{PAGE, mixed};
use crate::real_traces;

/// Sizes of a curve that are run.
const SIZES: u64 = 50;

fn lru() -> BufferExperiment {
    experiment(&["lru"], &[PAGE], PageGeometry::new(PAGE, 8).expect("a geometry"), DeviceConfig::None)
}

fn try_found(
    experiment: &BufferExperiment,
    resources: RunResources<'_>,
    requests: &Arc<Vec<Request>>,
) -> Result<PassFindings, ExperimentError> {
    let mut open = || Ok(OpenedInput { source: Box::new(InMemory::new(requests)), format: "memory".into() });
    curve::lru(&CurveScope::from(experiment), resources, &mut open, &|_| {})
}

fn found(experiment: &BufferExperiment, requests: &Arc<Vec<Request>>) -> PassFindings {
    try_found(experiment, ONE_THREAD, requests).expect("the trace is sound")
}

/// Compares the curve with runs at so many sizes, from one page to more than there are.
fn check(experiment: BufferExperiment, requests: &Arc<Vec<Request>>) -> PassFindings {
    let found = found(&experiment, requests);
    let pages = found.footprint.pages;
    // Geometric, so that small sizes are among them, and evenly spread.
    let geometric = (0..SIZES / 2).map(|i| (pages as f64).powf(i as f64 / (SIZES / 2 - 1) as f64) as u64);
    let even = (1..=SIZES - SIZES / 2).map(|i| pages * i / (SIZES - SIZES / 2 - 1));
    let sizes: Vec<u64> = geometric.chain(even).map(|pages| pages.max(1)).collect();
    assert_eq!(sizes.len() as u64, SIZES);
    let experiment = BufferExperiment { caches: sizes.iter().map(|pages| pages * PAGE).collect(), ..experiment };
    let report = try_run(&experiment, ONE_THREAD, requests).expect("the experiment is sound");
    for (&size, run) in sizes.iter().zip(&report.results) {
        let (hits, c) = (found.lru.hits(size), &run.counters);
        assert_eq!((hits.reads, hits.writes), (c.read_hits, c.write_hits), "{size} pages");
        assert_eq!(found.lru.hit_ratio(size), run.hit_ratio, "{size} pages");
        let accesses = found.lru.accesses();
        assert_eq!((accesses.reads, accesses.writes), (c.read_pages, c.write_pages));
        assert_eq!((found.warmup_requests, &found.input), (run.context.warmup_requests, &run.context.input));
        // A run has others too, of what it did.
        assert!(found.findings.iter().all(|finding| run.context.findings.contains(finding)), "{:?}", found.findings);
    }
    found
}

#[test]
fn the_curve_is_that_of_runs_whatever_takes_part() {
    let volumes = |requests: Vec<Request>| {
        let volume = |(i, request): (usize, Request)| Request { volume: (i / 5 % 3) as u32, ..request };
        requests.into_iter().enumerate().map(volume).collect::<Vec<_>>()
    };
    for seed in 0..12 {
        let requests = Arc::new(volumes(mixed(seed, 300, 3_000, Nanos(1_000))));
        let mut experiment = lru();
        experiment.run.flush = if seed % 2 == 0 { FlushMode::Ignore } else { FlushMode::Drain };
        experiment.run.trim = if seed % 3 == 2 { TrimMode::Ignore } else { TrimMode::Honour };
        experiment.run.warmup = match seed % 4 {
            0 => WarmupPart::None,
            1 => WarmupPart::Requests(500),
            2 => WarmupPart::Time(Nanos(300_000)),
            _ => WarmupPart::Requests(1),
        };
        experiment.replay.ops = if seed % 5 == 4 { TraceOps::Writes } else { TraceOps::All };
        experiment.replay.volumes =
            [VolumeSelection::Each, VolumeSelection::Merge, VolumeSelection::Only("#1".parse().expect("a choice"))]
                [seed as usize / 4]
                .clone();
        experiment.replay.speed = PlaySpeed { times: 1 + seed % 2, per: 1 };
        experiment.replay.limit = (seed % 6 == 5).then_some(2_000);
        let found = check(experiment, &requests);
        assert!(found.lru.hits(u64::MAX).all() > 0);
    }
}

#[test]
fn the_curve_is_that_of_runs_over_the_traces_of_the_project() {
    for file in real_traces::own() {
        check(lru(), &real_traces::requests(&file, 3_000));
    }
}

#[test]
fn the_curve_is_that_of_runs_over_shared_traces() {
    let files = ["Financial1.first10000.ssdsim.ascii.zst", "cloudPhysicsIO.2h.vscsi.zst", "mayun2.txt.zst"];
    for file in files {
        let Some(file) = real_traces::shared("the_curve_is_that_of_runs_over_shared_traces", file) else { return };
        check(lru(), &real_traces::requests(&file, 10_000));
    }
}

#[test]
fn the_footprint_is_what_takes_part() {
    let requests = Arc::new(mixed(7, 200, 2_000, Nanos(1_000)));
    for ops in [TraceOps::All, TraceOps::Writes] {
        let (mut touched, mut written) = (BTreeSet::new(), BTreeSet::new());
        for request in requests.iter().filter(|request| matches!(request.op, Op::Read | Op::Write) && request.len > 0) {
            let pages = request.offset / PAGE..(request.offset + request.len).div_ceil(PAGE);
            if request.op == Op::Write {
                written.extend(pages.clone());
            }
            if request.op == Op::Write || ops == TraceOps::All {
                touched.extend(pages);
            }
        }
        let mut experiment = lru();
        experiment.replay.ops = ops;
        let found = found(&experiment, &requests);
        assert_eq!(found.footprint.pages, touched.len() as u64);
        assert_eq!(found.footprint.written_pages, written.len() as u64);
        assert_eq!(found.footprint.bytes(), touched.len() as u64 * PAGE);
    }
}

#[test]
fn a_curve_by_hand() {
    // Page 0 comes back after one other page, twice, page 1 after three; page 2 is trimmed before it comes back.
    let requests = Arc::new(vec![
        write(0, 0, 2),
        read(1, 0, 1),
        write(2, 2, 2),
        read(3, 1, 1),
        flush(4),
        discard(5, 2, 1),
        write(6, 2, 1),
        write(7, 1, 1),
    ]);
    let found = found(&lru(), &requests);
    let hits = |pages| (found.lru.hits(pages).reads, found.lru.hits(pages).writes);
    assert_eq!([hits(0), hits(1), hits(2), hits(3)], [(0, 0), (0, 0), (1, 1), (1, 1)]);
    assert_eq!([hits(4), hits(u64::MAX)], [(2, 1); 2]);
    assert_eq!((found.lru.full(), found.lru.accesses().all()), (4, 8));
    assert_eq!(found.lru.hit_ratio(2), Some(2.0 / 8.0));
    // Two pages have 2 of 3 hits for half of the footprint, 4 pages all for all of it.
    assert_eq!((found.footprint.pages, found.knee()), (4, Some(2)));
}

#[test]
fn the_knee_is_where_the_curve_bends() {
    // Ten pages again and again, then a hundred pages twice: a step at 10, another at 100.
    let round = |round: u64, pages: u64| (0..pages).map(move |page| write(round, page, 1));
    let few = (0..20).flat_map(|i| round(i, 10));
    let requests: Vec<_> = few.chain((20..22).flat_map(|i| round(i, 100))).collect();
    let known = found(&lru(), &Arc::new(requests));
    assert_eq!((known.knee(), known.lru.full(), known.footprint.pages), (Some(10), 100, 100));
    // In a loop nothing hits before everything does.
    let known = found(&lru(), &Arc::new((0..3).flat_map(|i| round(i, 40)).collect()));
    assert_eq!((known.knee(), known.lru.full()), (Some(40), 40));
    // Where nothing comes back no size is better than another.
    let known = found(&lru(), &Arc::new(round(0, 50).collect()));
    assert_eq!((known.knee(), known.lru.full(), known.lru.hit_ratio(50)), (None, 0, Some(0.0)));
    let nothing = found(&lru(), &Arc::new(vec![flush(0)]));
    assert_eq!((nothing.knee(), nothing.lru.hit_ratio(1), nothing.footprint.pages), (None, None, 0));
}

#[test]
fn what_cannot_be_is_said() {
    let requests = Arc::new(mixed(1, 300, 100, Nanos(1_000)));
    let mut experiment = lru();
    experiment.run.warmup = WarmupPart::Requests(100);
    let error = try_found(&experiment, ONE_THREAD, &requests).unwrap_err().to_string();
    assert!(error.contains("ends within it, after 100 requests"), "{error}");
    let little = RunResources { threads: 1, memory_bytes: 1 << 10, stop: None };
    let error = try_found(&lru(), little, &requests).unwrap_err().to_string();
    assert!(error.contains("more than 32 pages") && error.contains("raise memory"), "{error}");
}
