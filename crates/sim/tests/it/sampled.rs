//! Estimates from samples against runs: exactly the same where a buffer is too small to be sampled, and within the stated
//! intervals elsewhere.

use std::sync::Arc;

use destage_plan::{Nanos, PageGeometry, PolicySpec, Request};
use destage_policy::buffer::{layers, policies};
use destage_sim::buffer::{BufferExperiment, DeviceConfig, FlushMode};
use destage_sim::curve::{self, CurveEstimate, CurveSampling, CurveScope, PassFindings, SampledCurve, SampledError};
use destage_sim::experiment::{OpenedInput, RunResources};
use destage_sim::input::WarmupPart;

use crate::in_memory::{InMemory, experiment, try_run};
use crate::mixed::{PAGE, mixed};
use crate::real_traces;

/// Policies whose intervals are held to what they say.
const HELD: [&str; 6] = ["clock", "fifo", "arc", "2q", "s3-fifo", "lb-clock"];
const TWO_THREADS: RunResources<'static> = RunResources { threads: 2, memory_bytes: 1 << 30, stop: None };

fn over(policies: &[&str], pages_per_block: u64) -> BufferExperiment {
    let geometry = PageGeometry::new(PAGE, pages_per_block).expect("a geometry");
    experiment(policies, &[PAGE], geometry, DeviceConfig::None)
}

fn opener(requests: &Arc<Vec<Request>>) -> impl FnMut() -> Result<OpenedInput, destage_trace::TraceError> {
    || Ok(OpenedInput { source: Box::new(InMemory::new(requests)), format: "memory".into() })
}

fn found(experiment: &BufferExperiment, requests: &Arc<Vec<Request>>) -> PassFindings {
    curve::lru(&CurveScope::from(experiment), TWO_THREADS, &mut opener(requests), &|_| {}).expect("the trace is sound")
}

fn estimate(
    experiment: &BufferExperiment,
    found: &PassFindings,
    sizes: &[u64],
    (sampling, threads): (CurveSampling, usize),
    requests: &Arc<Vec<Request>>,
) -> Result<Vec<SampledCurve>, SampledError> {
    let scope = CurveScope::from(experiment);
    let asked = CurveEstimate { scope: &scope, found, policies: &experiment.policies, sizes, sampling };
    curve::sampled(&asked, RunResources { threads, ..TWO_THREADS }, &mut opener(requests), &|_| {})
}

/// The hit ratios of runs, by policy and size.
fn runs(experiment: &BufferExperiment, sizes: &[u64], requests: &Arc<Vec<Request>>) -> Vec<Option<f64>> {
    let experiment =
        BufferExperiment { caches: sizes.iter().map(|pages| pages * PAGE).collect(), ..experiment.clone() };
    let report = try_run(&experiment, TWO_THREADS, requests).expect("the experiment is sound");
    report.results.iter().map(|run| run.hit_ratio).collect()
}

fn is_sampled(name: &str) -> bool {
    curve::check(&PolicySpec { name: name.to_owned(), given: Vec::new() }).is_ok()
}

#[test]
fn small_buffers_are_those_of_runs_for_every_policy() {
    let names: Vec<&str> = policies().iter().map(|policy| policy.name).filter(|name| is_sampled(name)).collect();
    assert!(names.len() >= 13, "{names:?}");
    let sizes = [1, 2, 7, 20, 64, 200];
    for seed in 0..4 {
        let requests = Arc::new(mixed(seed, 400, 4_000, Nanos(1_000)));
        let mut experiment = over(&names, 8);
        experiment.run.warmup = if seed % 2 == 0 { WarmupPart::Requests(500) } else { WarmupPart::None };
        experiment.run.flush = if seed < 2 { FlushMode::Drain } else { FlushMode::Ignore };
        let found = found(&experiment, &requests);
        let curves =
            estimate(&experiment, &found, &sizes, (CurveSampling::default(), 2), &requests).expect("all can be");
        let points = curves.iter().flat_map(|curve| &curve.points);
        let expected = runs(&experiment, &sizes, &requests);
        assert_eq!(points.clone().count(), expected.len());
        for (point, hit_ratio) in points.zip(expected) {
            assert_eq!((point.hit_ratio, point.half_width), (hit_ratio, 0.0));
            assert_eq!((point.samples, point.miniature_pages), (1, point.pages));
        }
    }
}

#[test]
fn what_is_another_policy_on_a_sample_is_refused_by_name() {
    let refused = |spec: &str| curve::check(&spec.parse().unwrap()).unwrap_err().to_string();
    for (spec, why) in [
        ("cave", "compares addresses"),
        ("cawr", "compares addresses"),
        ("cawr+lb-clock", "compares addresses"),
        ("gcar+lru", "collections of a device"),
        ("gate+lru", "a page of each channel"),
        ("ref", "victim blocks"),
        ("none", "holds nothing"),
        ("clc:si_max=20", "si_max = 20, which does not shrink"),
        ("pud-lru:threshold=100", "threshold = 100"),
        ("cflru:period=50", "period = 50"),
    ] {
        let message = refused(spec);
        assert!(message.starts_with(&format!("policy '{spec}' cannot be sampled: it ")), "{message}");
        assert!(message.contains(why) && message.ends_with("run it with destage sim"), "{message}");
    }
    for spec in ["clc:si_max=5%", "pud-lru:threshold=mean", "cflru:period=capacity", "lru:reads=bypass"] {
        curve::check(&spec.parse().unwrap()).unwrap();
    }
    assert!(refused("lirs").contains("'lirs' is not known"));
    // No layer leaves a policy as it is.
    let layered: Vec<_> = layers().iter().map(|layer| format!("{}+lru", layer.name)).collect();
    assert!(layered.iter().all(|name| !is_sampled(name)), "{layered:?}");
    let requests = Arc::new(mixed(1, 300, 100, Nanos(1_000)));
    let experiment = over(&["lru"], 8);
    let known = found(&experiment, &requests);
    let error = estimate(&experiment, &known, &[0], (CurveSampling::default(), 1), &requests).unwrap_err();
    assert!(error.to_string().contains("not 0"), "{error}");
}

#[test]
fn an_estimate_of_lru_is_lru() {
    let requests = real_traces::requests(&real_traces::own()[0], 30_000);
    let experiment = over(&["lru", "lru:reads=bypass"], 64);
    let found = found(&experiment, &requests);
    let sizes = [1_000, 5_000, 20_000];
    let curves = estimate(&experiment, &found, &sizes, (CurveSampling::default(), 2), &requests).expect("it can be");
    assert_eq!(curves[0].params[0].value, "cache");
    for (point, pages) in curves[0].points.iter().zip(sizes) {
        // What it has in common with LRU is everything.
        assert_eq!(point.hit_ratio, found.lru.hit_ratio(pages));
        assert!(point.samples == 8 && point.share < 1.0 && point.half_width > 0.0, "{point:?}");
    }
    // With any number of threads, and others with another seed.
    let other = CurveSampling { seed: 2, ..CurveSampling::default() };
    let points = |how| estimate(&experiment, &found, &sizes, how, &requests).unwrap().pop().unwrap().points;
    assert_eq!(points((CurveSampling::default(), 1)), curves[1].points);
    assert_ne!(points((other, 1)), curves[1].points);
}

/// Estimates outside their intervals, and all of them, at so many sizes of the trace.
fn outside(requests: &Arc<Vec<Request>>, sizes: u32) -> (u32, u32) {
    let experiment = over(&HELD, 64);
    let found = found(&experiment, requests);
    // From a hundredth of the footprint to half of it.
    let size = |i| found.footprint.pages as f64 * 0.5 * 0.02_f64.powf(f64::from(i) / f64::from(sizes - 1));
    let sizes: Vec<u64> = (0..sizes).map(|i| size(i) as u64).collect();
    let expected = runs(&experiment, &sizes, requests);
    let (mut outside, mut all) = (0, 0);
    for seed in 1..=3 {
        let sampling = CurveSampling { seed, ..CurveSampling::default() };
        let curves = estimate(&experiment, &found, &sizes, (sampling, 2), requests).expect("all can be");
        for (point, expected) in curves.iter().flat_map(|curve| &curve.points).zip(&expected) {
            let off = (point.hit_ratio.expect("hits") - expected.expect("hits")).abs();
            if point.samples == 1 {
                assert!(off == 0.0, "{point:?} is exact");
            } else {
                outside += u32::from(off > point.half_width);
                all += 1;
            }
        }
    }
    (outside, all)
}

/// Of intervals of 95 % one in twenty may be missed. The points of a trace are not independent of each other, so the traces are
/// counted together.
fn check(traces: impl Iterator<Item = Arc<Vec<Request>>>) {
    let (mut missed, mut all, mut traced) = (0, 0, 0);
    for requests in traces {
        let (outside, points) = outside(&requests, 12);
        missed += outside;
        all += points;
        traced += 1;
    }
    eprintln!("{missed} of {all} estimates outside their intervals, over {traced} traces");
    assert!(traced >= 4 && all > 500, "{all}");
    assert!(missed * 20 <= all, "{missed} of {all} estimates lie outside");
}

#[test]
fn intervals_hold_what_runs_find_over_the_traces_of_the_project() {
    check(real_traces::own().iter().map(|file| real_traces::requests(file, usize::MAX)));
}

#[test]
fn intervals_hold_what_runs_find_over_shared_traces() {
    const TEST: &str = "intervals_hold_what_runs_find_over_shared_traces";
    let files = ["cloudPhysicsIO.2h.vscsi.zst", "mayun2.txt.zst", "mayun.txt.zst", "hplajw.1992-05-30.1week.srt.zst"];
    let Some(files) = files.iter().map(|file| real_traces::shared(TEST, file)).collect::<Option<Vec<_>>>() else {
        return;
    };
    check(files.iter().map(|file| real_traces::requests(file, usize::MAX)));
}
