//! Tests that a stopped experiment has no results, and leaves out long work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use destage_plan::{Nanos, PageGeometry};
use destage_raid::RaidLevel;
use destage_sim::array::{ArrayError, ArrayExperiment, DeviceSetup};
use destage_sim::buffer::{DeviceConfig, SimError};
use destage_sim::experiment::{ExperimentError, OpenedInput, RunProgress, RunResources, StopSignal};
use destage_sim::ssd::{Ftl, Ssd, SsdConfig, SsdShape, StartState};

use crate::arrays;
use crate::in_memory::{self, InMemory, ONE_THREAD, experiment, write};

const PAGE: u64 = 4096;
/// Less than what is tried here would take by minutes.
const SOON: Duration = Duration::from_secs(20);

fn geometry() -> PageGeometry {
    PageGeometry::new(PAGE, 64).expect("pages")
}

/// Some 8 GiB, whose ageing takes a while.
fn large(ftl: Ftl) -> SsdConfig {
    let (summary_page, stride) = if ftl == Ftl::Page { (true, 1) } else { (false, 64) };
    SsdConfig { elements: 8, blocks_per_plane: 1 << 12, ftl, summary_page, stride, ..SsdConfig::default() }
}

#[test]
fn what_was_told_before_does_not_begin() {
    let stop = StopSignal::default();
    stop.now();
    let told = RunResources { stop: Some(&stop), ..ONE_THREAD };
    let mut open = || -> Result<OpenedInput, _> { panic!("the trace is not needed") };
    let device = DeviceConfig::Ssd(large(Ftl::Page), StartState::Aged { overwrites_pct: 100_000, seed: 1 });
    let began = Instant::now();
    for policies in [&["lru"][..], &["lru", "fab"]] {
        let buffers = experiment(policies, &[64 * PAGE], geometry(), device.clone());
        let ended = buffers.run(told, &mut open, &|_| {});
        assert!(matches!(ended, Err(SimError::Experiment(ExperimentError::Stopped))));
    }
    let start = StartState::Aged { overwrites_pct: 100_000, seed: 1 };
    let member = DeviceSetup::Ssd { config: large(Ftl::Page), start };
    let array = ArrayExperiment { member, ..arrays::experiment(RaidLevel::Raid5, 4, &["none"]) };
    assert!(matches!(array.run(told, &mut open, &|_| {}), Err(ArrayError::Experiment(ExperimentError::Stopped))));
    assert!(began.elapsed() < SOON);
}

#[test]
fn a_device_is_not_aged_any_further() {
    for ftl in [Ftl::Page, Ftl::Bast, Ftl::Fast] {
        for start in [
            StartState::Random { seed: 1 },
            StartState::Aged { overwrites_pct: 1_000_000, seed: 1 },
            StartState::Steady { seed: 1 },
        ] {
            let shape = SsdShape::new(large(ftl), geometry()).expect("a shape");
            let stop = StopSignal::default();
            let began = Instant::now();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(20));
                    stop.now();
                });
                Ssd::new_unless(shape, start, Some(&stop));
            });
            assert!(began.elapsed() < SOON, "{ftl:?} {start}");
        }
    }
}

#[test]
fn a_run_under_way_ends() {
    let requests = Arc::new((0..40_000).map(|i| write(i * 100, i % 4_000, 1)).collect::<Vec<_>>());
    let stop = StopSignal::default();
    let told = RunResources { stop: Some(&stop), ..ONE_THREAD };
    let mut open = || Ok(OpenedInput { source: Box::new(InMemory::new(&requests)), format: "memory".into() });
    let at_once = |progress: RunProgress| {
        if progress.requests > 0 {
            stop.now();
        }
    };
    let buffers = experiment(&["lru"], &[64 * PAGE], geometry(), DeviceConfig::None);
    let ended = buffers.run(told, &mut open, &at_once);
    assert!(matches!(ended, Err(SimError::Experiment(ExperimentError::Stopped))));
}

#[test]
fn a_rebuild_after_the_trace_is_not_waited_for() {
    let stop = StopSignal::default();
    let told = RunResources { stop: Some(&stop), ..ONE_THREAD };
    let requests = Arc::new(vec![write(0, 0, 1)]);
    let mut open = || Ok(OpenedInput { source: Box::new(InMemory::new(&requests)), format: "memory".into() });
    let mut array = arrays::experiment(RaidLevel::Raid5, 4, &["none"]);
    // 4 TiB: hundreds of millions of stripes.
    array.array.member_bytes = Some((1 << 30) * PAGE);
    array.injections = vec![arrays::fail(1, Nanos(1_000_000)), arrays::replace(1, Nanos(2_000_000))];
    let began = Instant::now();
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            stop.now();
        });
        array.run(told, &mut open, &|_| {})
    });
    assert!(matches!(ended, Err(ArrayError::Experiment(ExperimentError::Stopped))));
    assert!(began.elapsed() < SOON);
}

#[test]
fn what_is_not_told_has_the_results_that_it_has_without() {
    let requests = Arc::new((0..20_000).map(|i| write(i * 100, i * 7 % 4_000, 1)).collect::<Vec<_>>());
    let buffers = experiment(&["lru", "fab"], &[64 * PAGE], geometry(), DeviceConfig::None);
    let stop = StopSignal::default();
    let with =
        in_memory::try_run(&buffers, RunResources { stop: Some(&stop), ..ONE_THREAD }, &requests).expect("it works");
    let without = in_memory::try_run(&buffers, ONE_THREAD, &requests).expect("it works");
    assert_eq!(format!("{:?}", with.results), format!("{:?}", without.results));
}
