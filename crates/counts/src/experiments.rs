//! Experiments as `destage sim` runs them, from a trace to results.

use std::io::Cursor;

use destage_plan::{Nanos, PageGeometry, Request};
use destage_sim::buffer::{BufferExperiment, DeviceConfig, RunConfig};
use destage_sim::drive_load::{WriteDraw, most_writes};
use destage_sim::experiment::{OpenedInput, RunResources, TraceReplay};
use destage_sim::ssd::{Ftl, ModernDesign, PageAllocation, Ssd, SsdConfig, SsdShape, StartState};
use destage_trace::{OpenOptions, TraceSource, open_stream};

use crate::Work;
use crate::requests::{Memory, PAGE, requests};
use crate::traces::native;

/// 99 % of what the small SSD exports.
const SSD_PAGES: u64 = 13_600;

fn experiment(policy: &str, cache_pages: u64, device: DeviceConfig) -> BufferExperiment {
    BufferExperiment {
        policies: vec![policy.parse().expect("a policy")],
        foreign: Vec::new(),
        caches: vec![cache_pages * PAGE],
        device,
        replay: TraceReplay::whole("memory", PageGeometry::new(PAGE, 64).expect("a geometry")),
        run: RunConfig { max_backlog: 10_000, buffer_latency: Nanos(1_000), drain: true, ..RunConfig::default() },
    }
}

/// Runs it over a trace that is opened within. Returns page accesses and collections.
fn run(experiment: &BufferExperiment, mut open: impl FnMut() -> Box<dyn TraceSource>) -> (u64, u64) {
    let mut open = || Ok(OpenedInput { source: open(), format: "memory".into() });
    let resources = RunResources { threads: 1, memory_bytes: 1 << 30, stop: None };
    let report = experiment.run(resources, &mut open, &|_| {}).expect("the experiment is sound");
    (report.accesses, report.results[0].flash.gc_invocations.unwrap_or(0))
}

/// A run over an SSD that must collect.
fn over_ssd(policy: &str, config: SsdConfig, requests: Vec<Request>) -> Work {
    let experiment = experiment(policy, 256, DeviceConfig::Ssd(config, StartState::Full));
    Box::new(move || {
        let (accesses, collections) = run(&experiment, || Box::new(Memory::new(requests.clone())));
        // A change that makes collections rare would otherwise pass for a faster one.
        assert!(collections > 50, "{collections} collections are no test of them");
        accesses + collections
    })
}

/// LAWC's SSD with 16 blocks in a plane.
pub(crate) fn small() -> SsdConfig {
    SsdConfig { blocks_per_plane: 16, ..SsdConfig::default() }
}

/// Uniform requests through this policy to an SSD that collects; those that choose channels choose
/// among the SSD's.
pub fn collecting(policy: &str) -> Work {
    let chooses = ["cawr", "cave", "gate"].iter().any(|name| policy.contains(name));
    let allocation = if chooses { PageAllocation::Channels } else { PageAllocation::Static };
    over_ssd(policy, SsdConfig { allocation, ..small() }, requests(20_000, |random| random.below(SSD_PAGES)))
}

/// Large requests through this policy to an SSD whose channels all collect when one comes, a page going to the one that is idle
/// first: nothing has a place, and whatever could leave is asked about.
pub fn all_collecting(policy: &str) -> Work {
    const REQUEST_PAGES: u64 = 64;
    let config = SsdConfig { allocation: PageAllocation::Channels, idle_first: true, stride: 1, ..small() };
    let mut large = requests(300, |random| random.below(SSD_PAGES - REQUEST_PAGES));
    for request in &mut large {
        (request.len, request.time.0) = (REQUEST_PAGES * PAGE, 25 * request.time.0);
    }
    over_ssd(policy, config, large)
}

/// Returns the smallest modern drive of four dies.
fn small_modern() -> (SsdConfig, PageGeometry) {
    let geometry = PageGeometry::new(PAGE, 64).expect("a geometry");
    let config = ModernDesign::named("pm9a3").expect("a preset").config(geometry);
    (SsdConfig { elements: 4, ..config }.with_pages(1, geometry).expect("a drive"), geometry)
}

/// Uniform requests through this policy to a modern drive that collects.
///
/// # Panics
/// If there is no preset of such a drive.
pub fn modern(policy: &str) -> Work {
    let (config, _) = small_modern();
    let pages = config.modern.as_ref().expect("a modern drive").exported_pages;
    over_ssd(policy, config, requests(20_000, |random| random.below(pages)))
}

/// As many writes as a modern drive takes, and nothing else.
///
/// # Panics
/// If there is no preset of such a drive.
pub fn saturated(_: &str) -> Work {
    let (config, geometry) = small_modern();
    let ssd = Ssd::new(SsdShape::new(config, geometry).expect("a shape"), StartState::Full);
    Box::new(move || {
        let mut ssd = ssd.clone();
        most_writes(&mut ssd, &WriteDraw::UNIFORM, 4);
        let total = ssd.total();
        total.host_programs + total.gc_invocations
    })
}

/// The same over an SSD with log blocks: `bast` or `fast`.
///
/// # Panics
/// If the name is another.
pub fn log_blocks(name: &str) -> Work {
    let (ftl, count) = match name {
        "bast" => (Ftl::Bast, 2_000),
        "fast" => (Ftl::Fast, 8_000),
        _ => panic!("{name} is no log-block FTL"),
    };
    let config = SsdConfig { ftl, stride: 64, summary_page: false, ..small() };
    over_ssd("none", config, requests(count, |random| random.below(SSD_PAGES)))
}

/// All that `destage sim` does without a device, from the bytes of a native trace to results,
/// through this policy.
///
/// # Panics
/// If there is no such policy.
pub fn pipeline(policy: &str) -> Work {
    let bytes = native(&requests(100_000, |random| random.skewed(1 << 16)));
    let experiment = experiment(policy, 1 << 13, DeviceConfig::None);
    Box::new(move || {
        let open = || -> Box<dyn TraceSource> {
            let bytes = Cursor::new(bytes.clone());
            Box::new(open_stream("memory", Box::new(bytes), None, &OpenOptions::default()).expect("a trace"))
        };
        run(&experiment, open).0
    })
}
