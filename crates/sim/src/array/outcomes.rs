//! Holds the counts of a run until they are written down.

use destage_cache::{CollectionRounds, ServedTier};
use destage_plan::{ClaimWait, Class, Dev, Nanos};

use super::bars::CollectionBars;
use super::debt::StaleRowDebt;
use super::device::ModelCounts;
use super::executor::VirtualExecutor;
use super::failures::DeviceFailure;
use super::lane::DeviceCounters;
use super::overlap::CollectionOverlap;
use super::result::{ArrayTraffic, CacheMoment, HostCounters, NvramTraffic, StepCounts};
use crate::measure::{LatencyHistogram, PerVolume, SaturationCause, TimeSeries, WearClass};
use crate::ssd::PlacedStream;

/// Holds the counts of a run up to a moment.
#[derive(Clone)]
pub(super) struct RunTotals {
    pub(super) traffic: ArrayTraffic,
    pub(super) cache: Option<CacheMoment>,
    pub(super) steps: StepCounts,
    pub(super) nvram: NvramTraffic,
    pub(super) waits: [ClaimWait; Class::ALL.len()],
    pub(super) devices: Vec<(DeviceCounters, ModelCounts, u128)>,
    pub(super) rounds: Option<CollectionRounds>,
    /// Rows whose parity was left behind.
    pub(super) left_rows: u64,
    /// ∫ outstanding requests dt.
    pub(super) area: u128,
}

/// Holds the findings of a run until they are written down.
pub(super) struct ArrayOutcomes {
    pub(super) counters: HostCounters,
    pub(super) warmup_requests: u64,
    pub(super) measured: bool,
    /// Requests that are never answered.
    pub(super) stalled: u64,
    pub(super) start: Nanos,
    /// Counts how long the trace's clock stood still, if it could.
    pub(super) replay_delay: Option<Nanos>,
    pub(super) served: Nanos,
    pub(super) end: Nanos,
    pub(super) saturated: Option<SaturationCause>,
    /// By [`Op`].
    pub(super) responses: [LatencyHistogram; 4],
    /// Counts by [`RedundancyPhase`](super::failures::Phase).
    pub(super) phases: [LatencyHistogram; 3],
    pub(super) degraded_time: Nanos,
    pub(super) rebuild_time: Nanos,
    pub(super) failures: Vec<DeviceFailure>,
    pub(super) series: TimeSeries,
    /// Up to the last answer.
    pub(super) overlap: CollectionOverlap,
    pub(super) bars: CollectionBars,
    /// Up to the end.
    pub(super) debt: Option<StaleRowDebt>,
    /// Of each volume, if that was asked for.
    pub(super) volumes: Option<PerVolume>,
    pub(super) delayed_requests: u64,
    pub(super) delayed_time: Nanos,
    /// Before the measured part, at its last answer, and at the end.
    pub(super) before: RunTotals,
    pub(super) answered: RunTotals,
    pub(super) after: RunTotals,
    pub(super) longest_queues: Vec<u64>,
    pub(super) parallelism: Vec<u32>,
    /// Of the SSDs.
    pub(super) wear: Vec<Option<Vec<WearClass>>>,
    /// Of the SSDs that keep streams of writes apart.
    pub(super) placed: Vec<Option<Vec<PlacedStream>>>,
    pub(super) open_rows: u64,
}

impl ArrayOutcomes {
    /// ∫ outstanding requests dt from the first measured arrival to the last answer.
    pub(super) fn area(&self) -> u128 {
        self.answered.area - self.before.area
    }
}

/// Returns the counts until now.
pub(super) fn totals(executor: &VirtualExecutor<Box<dyn ServedTier>>, area: u128) -> RunTotals {
    let controller = executor.controller();
    let out = executor.engine().out();
    let (nvram_busy, compute_busy) = executor.busy();
    RunTotals {
        traffic: controller.array().stats().into(),
        cache: controller.counts().map(|counts| CacheMoment { pages: counts.into(), figures: controller.figures() }),
        steps: out.counts().into(),
        nvram: NvramTraffic {
            nvram_busy: nvram_busy.0,
            compute_busy: compute_busy.0,
            journal_writes: executor.journal_writes(),
        },
        waits: *out.waits(),
        devices: (0..executor.devices() as u8)
            .map(|dev| {
                let dev = Dev(dev);
                (*executor.device_counters(dev), executor.model_counts(dev), executor.queue_area(dev))
            })
            .collect(),
        rounds: controller.rounds(),
        left_rows: controller.stale_parity().left_rows,
        area,
    }
}
