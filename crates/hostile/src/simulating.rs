//! Any requests at all, through whole experiments over small devices.

use std::sync::Arc;

use destage_plan::{Nanos, PageGeometry, PolicySpec, Request};
use destage_policy::buffer::policies;
use destage_sim::array::{ArrayError, ArrayExperiment, SetupError};
use destage_sim::buffer::{
    AdmissionOrder, AnalyticConfig, BufferExperiment, DeviceConfig, ExperimentReport, FlushMode, RunConfig, SimError,
};
use destage_sim::experiment::{ExperimentError, OpenedInput, RunResources, TraceReplay};
use destage_sim::input::{
    HostModel, LbaOverflow, PlaySpeed, SubpageWrites, TraceOps, TrimMode, VolumeSelection, WarmupPart,
};
use destage_sim::ssd::{Ftl, PageAllocation, SsdConfig, StartState};
use destage_trace::{TraceError, TraceSource};

use crate::bytes::Bytes;

/// Requests of an input at most.
const MOST: usize = 256;
/// Memory for devices: all of those here are small.
const MEMORY_BYTES: u64 = 32 << 20;
/// Pages of the longest request that is fed: longer ones take long, and are no different.
const LONGEST_BYTES: u64 = 1 << 20;

/// Runs an experiment over the requests.
pub(crate) fn check(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let pages_per_block = bytes.choice(&[2, 4, 8, 3]);
    let geometry = PageGeometry::new(4096, pages_per_block).expect("sizes that there are");
    let choice = bytes.u8();
    // The choice takes no byte of its own, so older seeds keep their meaning.
    let whole_requests = choice >= 128;
    let device = match choice % 4 {
        0 => DeviceConfig::None,
        1 => DeviceConfig::Analytic(AnalyticConfig::default()),
        _ => device(&mut bytes, choice / 4, pages_per_block as u32),
    };
    let policy = policies()[usize::from(bytes.u8()) % policies().len()].name;
    // Some of these make no sense together, and are refused.
    let layers = bytes.choice(&["", "gcar+", "gate+", "cave+", "cawr+", "gcar+gate+", "gcar+cave+", "gcar+cawr+"]);
    let warmup = match bytes.u8() % 4 {
        0 => WarmupPart::Requests(bytes.u8().into()),
        1 => WarmupPart::Time(Nanos(bytes.any() / 4)),
        _ => WarmupPart::None,
    };
    let experiment = BufferExperiment {
        policies: vec![PolicySpec { name: format!("{layers}{policy}"), given: Vec::new() }],
        foreign: Vec::new(),
        caches: vec![4096 * (u64::from(bytes.u8() % 32) + 1)],
        device,
        replay: TraceReplay {
            lba_overflow: bytes.choice(&[LbaOverflow::Wrap, LbaOverflow::Filter, LbaOverflow::Compact]),
            ops: bytes.choice(&[TraceOps::All, TraceOps::Writes]),
            volumes: match bytes.choice(&["each", "merge", "#1"]) {
                "each" => VolumeSelection::Each,
                "merge" => VolumeSelection::Merge,
                choice => VolumeSelection::Only(choice.parse().expect("a choice")),
            },
            speed: PlaySpeed { times: bytes.u16().max(1).into(), per: bytes.u16().max(1).into() },
            limit: bytes.choice(&[None, Some(1), Some(100)]),
            ..TraceReplay::whole("trace", geometry)
        },
        run: RunConfig {
            host: bytes.choice(&[
                HostModel::Open,
                HostModel::Closed { depth: 1 },
                HostModel::Closed { depth: 8 },
                HostModel::Bounded { depth: 2 },
            ]),
            flush: bytes.choice(&[FlushMode::Ignore, FlushMode::Drain]),
            trim: bytes.choice(&[TrimMode::Honour, TrimMode::Ignore]),
            subpage: bytes.choice(&[SubpageWrites::Promote, SubpageWrites::Rmw]),
            admission: if whole_requests { AdmissionOrder::Request } else { AdmissionOrder::Page },
            warmup,
            max_backlog: bytes.choice(&[10_000, 8, 1]),
            buffer_latency: bytes.choice(&[Nanos(1_000), Nanos(0), Nanos(1_000_000_000)]),
            drain: bytes.choice(&[true, false]),
            ..RunConfig::default()
        },
    };
    let mut requests = bytes.requests(MOST);
    for request in &mut requests {
        // Longer requests take long, and find nothing that shorter ones do not.
        request.len = request.len.min(LONGEST_BYTES);
    }
    run(&experiment, &Arc::new(requests));
}

/// A small SSD, which may have a shape that is refused. `layer` says how it maps pages.
fn device(bytes: &mut Bytes<'_>, layer: u8, pages_per_block: u32) -> DeviceConfig {
    let planes = bytes.choice(&[1, 2]);
    let mut config = SsdConfig {
        ftl: Ftl::ALL[usize::from(layer) % Ftl::ALL.len()],
        log_blocks: [None, Some(2), Some(1), Some(5), Some(0)][usize::from(layer / 3) % 5],
        elements: bytes.choice(&[1, 2, 3]),
        planes,
        blocks_per_plane: bytes.choice(&[32, 16, 64]),
        reserve_bp: bytes.choice(&[4000, 1500, 8000]),
        min_free_bp: bytes.choice(&[500, 0, 2000]),
        copy_back: bytes.choice(&[false, true]),
        background: bytes.choice(&[false, true]),
        lanes: bytes.choice(&[planes, 1]),
        stride: bytes.choice(&[1, 2, 7]),
        summary_page: bytes.choice(&[true, false]),
        allocation: bytes.choice(&[PageAllocation::Static, PageAllocation::Channels]),
        queue_depth: [None, Some(1), Some(3), None][usize::from(layer) / 16 % 4],
        ..SsdConfig::default()
    };
    if config.ftl != Ftl::Page && layer < 30 {
        // Options of the page map alone would have nearly all other devices refused.
        (config.copy_back, config.background, config.summary_page) = (false, false, false);
        config.stride *= if config.allocation == PageAllocation::Static { pages_per_block } else { 1 };
    }
    let aged = StartState::Aged { overwrites_pct: u32::from(bytes.u8()), seed: 1 };
    let random = StartState::Random { seed: 1 };
    DeviceConfig::Ssd(config, bytes.choice(&[StartState::Full, StartState::Empty, aged, random]))
}

/// Runs an experiment, which may fail, and checks what it brought.
pub(crate) fn run(experiment: &BufferExperiment, requests: &Arc<Vec<Request>>) {
    let mut open = || {
        Ok(OpenedInput {
            source: Box::new(InMemory { requests: Arc::clone(requests), next: 0 }),
            format: String::new(),
        })
    };
    let resources = RunResources { threads: 1, memory_bytes: MEMORY_BYTES, stop: None };
    match experiment.run(resources, &mut open, &|_| {}) {
        Ok(report) => sound(experiment, &report, requests.len() as u64),
        // A thread that panicked is a broken promise; any other error is an answer.
        Err(SimError::Experiment(ExperimentError::Threads(error))) => panic!("{error}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Runs an experiment over an array: it ends, and every request is answered.
pub(crate) fn run_array(experiment: &ArrayExperiment, requests: &Arc<Vec<Request>>) {
    let mut open = || {
        Ok(OpenedInput {
            source: Box::new(InMemory { requests: Arc::clone(requests), next: 0 }),
            format: String::new(),
        })
    };
    let resources = RunResources { threads: 1, memory_bytes: MEMORY_BYTES, stop: None };
    let report = match experiment.run(resources, &mut open, &|_| {}) {
        Ok(report) => report,
        Err(ArrayError::Experiment(ExperimentError::Threads(error))) => panic!("{error}"),
        Err(ArrayError::Setup(error @ SetupError::Stalled { .. })) => panic!("{error}"),
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for result in &report.results {
        let c = &result.counters;
        assert!(
            c.requests + result.context.warmup_requests + result.context.input.left_out_requests
                <= requests.len() as u64
        );
        assert!(result.served_time <= result.simulated_time);
        assert!(c.failed_requests == 0 || result.degraded.is_some());
        assert!(result.hit_ratio.is_none_or(|ratio| (0.0..=1.0).contains(&ratio)), "{:?}", result.hit_ratio);
        for device in &result.devices {
            let d = &device.counters;
            assert_eq!(d.commands, d.reads + d.writes + d.flushes + d.trims);
        }
    }
}

/// Checks what must hold of every result.
fn sound(experiment: &BufferExperiment, report: &ExperimentReport, requests: u64) {
    assert_eq!(report.results.len(), experiment.policies.len() * experiment.caches.len());
    for result in &report.results {
        let c = &result.counters;
        assert!(result.context.input.trace_requests <= requests);
        assert!(c.requests + result.context.input.left_out_requests <= requests);
        assert_eq!(c.accesses, c.read_pages + c.write_pages);
        assert_eq!(c.hits, c.read_hits + c.write_hits);
        assert_eq!(c.accesses, c.hits + c.misses);
        assert_eq!(c.eviction_sizes.iter().sum::<u64>(), c.evictions);
        assert!(c.evictions <= c.evicted_pages);
        let share = |ratio: Option<f64>| ratio.is_none_or(|ratio| (0.0..=1.0).contains(&ratio));
        assert!(share(result.hit_ratio), "{:?}", result.hit_ratio);
        if let Some(ssd) = &result.ssd {
            assert!(ssd.collection_amplification.is_none_or(|wa| wa >= 1.0), "{:?}", ssd.collection_amplification);
            assert!(ssd.host_pages < ssd.raw_pages);
            let merges = [ssd.switch_merges, ssd.partial_merges, ssd.full_merges];
            assert!(merges.iter().all(|count| count.is_some() == ssd.log_blocks.is_some()), "{merges:?}");
        }
    }
}

/// A trace that is read from memory, a few requests at a time.
struct InMemory {
    requests: Arc<Vec<Request>>,
    next: usize,
}

/// Few, so that a run takes several.
const BATCH: usize = 16;

impl TraceSource for InMemory {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        let end = self.requests.len().min(self.next + BATCH);
        out.clear();
        out.extend_from_slice(&self.requests[self.next..end]);
        self.next = end;
        Ok(())
    }
}
