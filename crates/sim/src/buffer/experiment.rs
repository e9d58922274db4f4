//! An experiment: policies × buffer sizes over one trace, read once for all of them.

use std::cell::RefCell;

use super::analytic::AnalyticConfig;
use super::config::{AdmissionOrder, RunConfig};
use super::result::{AvoidanceResult, ElementResult, FlashCounters, ResponseResult, RunResult, SsdResult};
use super::run::{BufferOutcomes, BufferRun, RunJob};
use super::watch::{self, RunWatch};
use crate::experiment::{
    self, ConsumeFeeds, DeviceCapacity, ExperimentError, ExperimentRuns, OpenTrace, PassEnd, RunResources,
    RunSelection, ShowProgress, StopSignal, TraceReplay,
};
use crate::input::{FeedBuilder, LbaOverflow, PageSpace, RequestFeed};
use crate::measure::{
    ParamValue, RequestLog, ResultVersion, RunFinding, VolumeFigures, WearClass, per_second, ratio, variation,
};
use crate::ssd::{ElementCounters, Ftl, PageAllocation, Ssd, SsdConfig, SsdGeometryError, SsdShape, StartState};
use destage_plan::PolicySpec;
use destage_policy::buffer::{
    self, BufferConfig, BufferPolicy, BuiltPolicy, EvictionUnit, ForeignPolicy, NoDevice, PolicyError, PolicyInfo,
    PolicyVisitor,
};

/// Estimates the bytes that a policy's tables take for each page that the trace touches; the actual figure is
/// little more.
const PAGE_TABLE_BYTES: u64 = 4;
/// With this all of a trace lies on an SSD.
const FITS: &str = "--ssd.capacity fit";
/// Channels that a policy may choose from where there is no SSD: CAWR's.
const CHANNELS_WITHOUT_DEVICE: u32 = 4;

/// The device below the buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "an experiment has one, and most are of SSDs")]
pub enum DeviceConfig {
    /// None: hit ratios and evictions only.
    #[default]
    None,
    /// LB-CLOCK's cost model.
    Analytic(AnalyticConfig),
    /// An SSD.
    Ssd(SsdConfig, StartState),
}

/// Everything that decides about the results of an experiment.
#[derive(Clone, Debug)]
pub struct BufferExperiment {
    /// Says how the trace is replayed.
    pub replay: TraceReplay,
    /// The policies.
    pub policies: Vec<PolicySpec>,
    /// Those of them that are written elsewhere, found by their names.
    pub foreign: Vec<ForeignPolicy>,
    /// The buffer sizes in bytes.
    pub caches: Vec<u64>,
    /// The device.
    pub device: DeviceConfig,
    /// Configures the runs; capacity and block size are filled in.
    pub run: RunConfig,
}

/// Holds the results of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentReport {
    /// One per policy and size, sizes in the inner loop; of a policy without a size one.
    pub results: Vec<RunResult>,
    /// Requests read, for rates.
    pub requests: u64,
    /// Page accesses of all runs, for rates.
    pub accesses: u64,
}

/// Why an experiment over buffers failed.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The trace or the machine does not allow it.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A policy could not be built.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The SSD cannot have this shape.
    #[error(transparent)]
    Geometry(#[from] SsdGeometryError),
    /// The policy and the device do not go together.
    #[error("policy '{policy}' {why}")]
    Unsuited {
        /// The policy, with its layers.
        policy: String,
        /// Why, and what would be right.
        why: &'static str,
    },
    /// A buffer is smaller than a page or larger than the page space.
    #[error("cache = {bytes} B is not a multiple of the page ({page} B) between 1 and 2^32 - 3 pages")]
    CacheSize {
        /// Size asked for.
        bytes: u64,
        /// Page size.
        page: u64,
    },
    /// A single device is larger than the memory granted.
    #[error(
        "a simulated device of this shape takes about {needed} B and memory grants {granted}; raise memory, or give a \
         smaller ssd.capacity"
    )]
    Memory {
        /// Bytes a device takes.
        needed: u64,
        /// Bytes granted.
        granted: u64,
    },
    /// A policy that is written elsewhere could not be made; whoever makes it knows why.
    #[error("policy '{0}' could not be made")]
    Foreign(String),
    /// There is a log for one run.
    #[error("latency-log takes the requests of one run, and these are {runs} runs: give one policy and one cache size")]
    Log {
        /// Runs that there would be.
        runs: usize,
    },
}

/// A job and what its result needs beside what it finds.
struct PlannedJob {
    policy: String,
    params: Vec<ParamValue>,
    granularity: EvictionUnit,
    cache_bytes: Option<u64>,
    job: Box<dyn RunJob>,
}

impl ConsumeFeeds for PlannedJob {
    type Outcomes = BufferOutcomes;

    fn feed(&mut self, feed: &RequestFeed, stop: Option<&StopSignal>) {
        self.job.feed(feed, stop);
    }

    fn finish(&mut self, _: Option<&StopSignal>, _: &(dyn Fn(f64) + Sync)) -> BufferOutcomes {
        self.job.finish()
    }
}

/// Wraps a policy into a run over the configured device.
struct BuildRun<'a> {
    config: RunConfig,
    ssd: Option<MakeSsd<'a>>,
}

/// Says how a run gets its SSD.
#[derive(Clone, Copy)]
enum MakeSsd<'a> {
    /// Made from its shape.
    New(&'a SsdShape, StartState, Option<&'a StopSignal>),
    /// A copy of one that took long to age.
    Copy(&'a Ssd),
}

impl MakeSsd<'_> {
    fn make(self) -> Ssd {
        match self {
            Self::New(shape, start, stop) => Ssd::new_unless(shape.clone(), start, stop),
            Self::Copy(ssd) => ssd.clone(),
        }
    }
}

impl PolicyVisitor for BuildRun<'_> {
    type Out = (Box<dyn RunJob>, BuiltPolicy);

    fn visit<B: BufferPolicy + Send + 'static>(self, buffer: B, built: BuiltPolicy) -> Self::Out {
        let job: Box<dyn RunJob> = match self.ssd {
            Some(ssd) => Box::new(BufferRun::new(self.config, built.unit, buffer, ssd.make())),
            None => Box::new(BufferRun::new(self.config, built.unit, buffer, NoDevice)),
        };
        (job, built)
    }
}

impl BufferExperiment {
    /// Runs the experiment. `open` opens the trace anew for each pass; `progress` is called now and
    /// then.
    pub fn run(
        &self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
    ) -> Result<ExperimentReport, SimError> {
        self.run_logged(resources, open, progress, None)
    }

    /// The same, with all measured requests written to a log, if there is one.
    ///
    /// # Errors
    /// Those of [`Self::run`], and where there are several runs to log.
    pub fn run_logged(
        &self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
        log: Option<Box<dyn RequestLog>>,
    ) -> Result<ExperimentReport, SimError> {
        let runs = self.combinations().count();
        if log.is_some() && runs != 1 {
            return Err(SimError::Log { runs });
        }
        let mut results = Vec::with_capacity(runs);
        let requests = self.sweep_logged(resources, open, progress, log, &mut results)?;
        let accesses = results.iter().map(|result: &RunResult| result.counters.accesses).sum();
        Ok(ExperimentReport { results, requests, accesses })
    }

    /// The same of those runs that the sweep wants. Returns how many requests were read in all passes.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub fn sweep(
        &self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
        sweep: &mut dyn RunSelection<RunResult>,
    ) -> Result<u64, SimError> {
        self.sweep_logged(resources, open, progress, None, sweep)
    }

    fn sweep_logged(
        &self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
        log: Option<Box<dyn RequestLog>>,
        sweep: &mut dyn RunSelection<RunResult>,
    ) -> Result<u64, SimError> {
        let combinations: Vec<_> = self.combinations().collect();
        let wanted = (0..combinations.len()).filter(|&run| sweep.wants(run)).count();
        if wanted == 0 {
            return Ok(0);
        }
        if self.replay.capacity != DeviceCapacity::Given {
            return self.fitted(resources, open, progress)?.sweep_logged(resources, open, progress, log, sweep);
        }
        let shape = match &self.device {
            DeviceConfig::Ssd(config, _) => Some(SsdShape::new(config.clone(), self.replay.geometry)?),
            DeviceConfig::None | DeviceConfig::Analytic(_) => None,
        };
        if let Some(needed) = shape.as_ref().map(SsdShape::memory_bytes)
            && needed > resources.memory_bytes
        {
            return Err(SimError::Memory { needed, granted: resources.memory_bytes });
        }
        let aged = match (&self.device, &shape) {
            (DeviceConfig::Ssd(_, start), Some(shape)) if start.takes_long() && wanted > 1 => {
                Some(Ssd::new_unless(shape.clone(), *start, resources.stop))
            }
            _ => None,
        };
        let log = RefCell::new(log);
        let runs = BufferRuns { experiment: self, shape, aged, memory_bytes: resources.memory_bytes, log };
        experiment::carry_out(&runs, &combinations, resources, open, progress, sweep)
    }

    /// Checks that the runs can begin, as far as that is known without the trace.
    ///
    /// # Errors
    /// Returns the errors that [`Self::run`] would return for policies, sizes and the device's shape.
    pub fn check(&self) -> Result<(), SimError> {
        let shape = match (&self.device, self.replay.capacity) {
            (DeviceConfig::Ssd(config, _), DeviceCapacity::Given) => {
                Some(SsdShape::new(config.clone(), self.replay.geometry)?)
            }
            _ => None,
        };
        let runs = BufferRuns { experiment: self, shape, aged: None, memory_bytes: 0, log: RefCell::default() };
        self.combinations().try_for_each(|combination| runs.check(&combination))
    }

    /// Of each run, in the order of results, all that decides about its result but the requests themselves. Runs of several
    /// experiments with the same text have the same result over the same requests.
    pub fn identities(&self) -> Vec<String> {
        let of = |(policy, bytes): (&PolicySpec, u64)| {
            let caches = if self.is_sized(policy) { vec![bytes] } else { Vec::new() };
            format!("{:?}", Self { policies: vec![policy.clone()], caches, ..self.clone() })
        };
        self.combinations().map(of).collect()
    }

    /// Of each run, in the order of results, what tells it from the others.
    pub fn names(&self) -> Vec<String> {
        let of = |(policy, bytes): (&PolicySpec, u64)| {
            if self.is_sized(policy) { format!("{policy} with {bytes} B") } else { policy.to_string() }
        };
        self.combinations().map(of).collect()
    }

    /// The runs, in the order of results.
    fn combinations(&self) -> impl Iterator<Item = (&PolicySpec, u64)> {
        self.policies.iter().flat_map(|policy| self.sizes(policy))
    }

    /// The policy of this name that is written elsewhere, if there is one.
    fn foreign(&self, policy: &PolicySpec) -> Option<&ForeignPolicy> {
        self.foreign.iter().find(|foreign| foreign.name == policy.name)
    }

    /// Is true if the policy holds pages, so that its size matters.
    fn is_sized(&self, policy: &PolicySpec) -> bool {
        self.foreign(policy).is_some() || buffer::info(base(policy)).is_ok_and(PolicyInfo::is_sized)
    }

    /// A run of the policy.
    fn build(&self, policy: &PolicySpec, build: BuildRun<'_>) -> Result<(Box<dyn RunJob>, BuiltPolicy), SimError> {
        let config = build.config;
        if let Some(foreign) = self.foreign(policy) {
            let made = foreign.build(self.buffer_config(&config));
            let made = made.map_err(|_| SimError::Foreign(foreign.name.clone()))?;
            let built = BuiltPolicy {
                is_sized: true,
                unit: foreign.unit,
                chooses_channels: false,
                avoids_collection: false,
                params: Vec::new(),
            };
            return Ok(build.visit(made, built));
        }
        let settled = config.admission.settle(policy)?;
        Ok(buffer::build(&settled, self.buffer_config(&config), build)?)
    }

    /// The policy at each of the sizes, or once if it holds nothing.
    fn sizes<'a>(&'a self, policy: &'a PolicySpec) -> Vec<(&'a PolicySpec, u64)> {
        let sizes =
            if self.is_sized(policy) { self.caches.as_slice() } else { self.caches.get(..1).unwrap_or_default() };
        sizes.iter().map(|&bytes| (policy, bytes)).collect()
    }

    fn run_config(&self, cache_bytes: u64) -> Result<RunConfig, SimError> {
        let page = self.replay.geometry.page_bytes();
        let pages = cache_bytes / page;
        if !cache_bytes.is_multiple_of(page) || !(1..u64::from(u32::MAX) - 1).contains(&pages) {
            return Err(SimError::CacheSize { bytes: cache_bytes, page });
        }
        Ok(RunConfig {
            capacity_pages: pages as u32,
            pages_per_block: self.replay.geometry.pages_per_block(),
            ..self.run
        })
    }

    fn buffer_config(&self, run: &RunConfig) -> BufferConfig {
        let elements = match &self.device {
            DeviceConfig::Ssd(config, _) => config.elements,
            DeviceConfig::None | DeviceConfig::Analytic(_) => CHANNELS_WITHOUT_DEVICE,
        };
        BufferConfig { capacity_pages: run.capacity_pages, pages_per_block: run.pages_per_block, elements }
    }
}

/// An experiment with what all its runs have in common.
struct BufferRuns<'a> {
    experiment: &'a BufferExperiment,
    shape: Option<SsdShape>,
    /// An SSD that took long to age.
    aged: Option<Ssd>,
    memory_bytes: u64,
    /// Until the run has it.
    log: RefCell<Option<Box<dyn RequestLog>>>,
}

impl<'a> ExperimentRuns for BufferRuns<'a> {
    type Combination = (&'a PolicySpec, u64);
    type Run = PlannedJob;
    type Result = RunResult;
    type Error = SimError;

    fn replay(&self) -> &TraceReplay {
        &self.experiment.replay
    }

    fn memory_per_run(&self) -> u64 {
        let Some(shape) = &self.shape else { return 1 };
        let watch = if self.experiment.run.per_volume { RunWatch::memory_bytes(shape.host_pages) } else { 0 };
        shape.memory_bytes().saturating_add(watch)
    }

    /// Without building its device.
    fn check(&self, &(policy, cache_bytes): &Self::Combination) -> Result<(), SimError> {
        let config = self.experiment.run_config(cache_bytes)?;
        let (_, built) = self.experiment.build(policy, BuildRun { config, ssd: None })?;
        self.experiment.device.suits(policy, &built)
    }

    fn plan(
        &self,
        &(policy, cache_bytes): &Self::Combination,
        stop: Option<&StopSignal>,
    ) -> Result<PlannedJob, SimError> {
        let config = self.experiment.run_config(cache_bytes)?;
        let ssd = match (&self.experiment.device, &self.shape, &self.aged) {
            (_, _, Some(aged)) => Some(MakeSsd::Copy(aged)),
            (DeviceConfig::Ssd(_, start), Some(shape), None) => Some(MakeSsd::New(shape, *start, stop)),
            _ => None,
        };
        let (mut job, built) = self.experiment.build(policy, BuildRun { config, ssd })?;
        self.experiment.device.suits(policy, &built)?;
        let params = ParamValue::all(built.params);
        let cache_bytes = built.is_sized.then_some(cache_bytes);
        let policy = policy_name(policy);
        if let Some(mut log) = self.log.take() {
            log.begin(&policy, cache_bytes);
            job.log_to(log);
        }
        Ok(PlannedJob { policy, params, granularity: built.unit, cache_bytes, job })
    }

    fn feeder(&self, runs: &[PlannedJob]) -> FeedBuilder {
        let replay = &self.experiment.replay;
        let space = if let Some(shape) = &self.shape {
            PageSpace::bounded(replay.geometry, shape.host_pages, replay.lba_overflow)
        } else {
            let watch = if self.experiment.run.per_volume { watch::BYTES_PER_PAGE } else { 0 };
            let room = self.memory_bytes / ((PAGE_TABLE_BYTES + watch) * runs.len().max(1) as u64);
            PageSpace::unbounded(replay.geometry, u32::try_from(room).unwrap_or(u32::MAX))
        };
        let feeder = replay.feeder(space);
        let feeder = if runs.iter().any(|planned| planned.job.is_watched()) { feeder.keep_origins() } else { feeder };
        if runs.iter().any(|planned| planned.job.compares_addresses()) { feeder.keep_borders() } else { feeder }
    }

    fn result(&self, planned: &mut PlannedJob, outcomes: BufferOutcomes, end: &PassEnd) -> Result<RunResult, SimError> {
        end.check(outcomes.measured)?;
        Ok(self.experiment.result(planned, self.shape.as_ref(), outcomes, end))
    }
}

impl BufferExperiment {
    /// Returns the result of a run.
    fn result(
        &self,
        planned: &mut PlannedJob,
        shape: Option<&SsdShape>,
        outcomes: BufferOutcomes,
        end: &PassEnd,
    ) -> RunResult {
        let mut counters = outcomes.counters.clone();
        let analytic = match &self.device {
            DeviceConfig::Analytic(config) => {
                Some(config.cost(planned.granularity, self.replay.geometry.pages_per_block(), &outcomes))
            }
            DeviceConfig::None | DeviceConfig::Ssd(..) => None,
        };
        if analytic.is_some() && planned.granularity == EvictionUnit::Block {
            // The model pads every victim, whatever the policy says (specs §5.7).
            counters.pad_reads = outcomes.victims.missing_pages;
            counters.flush_pad_reads = outcomes.flush_victims.missing_pages;
            counters.drain_pad_reads = outcomes.drain_victims.missing_pages;
        }
        let (flash, analytic) = match (analytic, planned.job.ssd()) {
            (Some((flash, cost)), _) => (flash, Some(cost)),
            (None, Some(ssd)) => (flash_counters(&ssd.total()), None),
            (None, None) => (FlashCounters::default(), None),
        };
        let ssd = planned.job.ssd().zip(shape).map(|(ssd, shape)| ssd_result(ssd, shape, &outcomes));
        let simulated = outcomes.simulated_time;
        let volumes = outcomes.volumes.as_ref().map(|volumes| {
            let figures = VolumeFigures {
                pages: true,
                pads: analytic.as_ref().is_none_or(|_| planned.granularity != EvictionUnit::Block),
                responses: outcomes.timed.as_ref().is_some_and(|timed| timed.saturated.is_none()),
            };
            volumes.result(&end.volume_names, figures)
        });
        let series = outcomes.series;
        let timed = outcomes.timed;
        let mut context = self.replay.context((self.run.host, timed.is_some()), outcomes.warmup_requests, end, FITS);
        context.replay_delay = timed.as_ref().and_then(|timed| timed.replay_delay).map(|delay| delay.0);
        if ssd.is_some() && self.replay.lba_overflow == LbaOverflow::Compact {
            let what = "the trace's blocks lie on the SSD side by side, in the order in which they are first touched";
            context.findings.push(RunFinding::note("compacted", what.into()));
        }
        let mut result = RunResult {
            policy: planned.policy.clone(),
            params: std::mem::take(&mut planned.params),
            cache_bytes: planned.cache_bytes,
            page_bytes: self.replay.geometry.page_bytes(),
            pages_per_block: self.replay.geometry.pages_per_block(),
            device: self.device.word().into(),
            start_state: self.device.start_state(),
            context,
            hit_ratio: ratio(counters.hits, counters.accesses),
            pages_per_eviction: ratio(counters.evicted_pages, counters.evictions),
            simulated_time: simulated.0,
            requests_per_second: per_second(counters.requests, simulated),
            host_bytes_per_second: per_second(counters.host_bytes_read + counters.host_bytes_written, simulated),
            flash,
            counters,
            stall_time: timed.as_ref().map(|t| t.stall.min(u128::from(u64::MAX)) as u64),
            saturated: timed.as_ref().and_then(|t| t.saturated.clone()),
            response: timed.as_ref().filter(|t| t.saturated.is_none()).map(|t| ResponseResult { ..t.response.clone() }),
            ssd,
            avoidance: outcomes.avoidance.as_ref().map(AvoidanceResult::from),
            analytic,
            volumes,
            series,
            version: ResultVersion::current(),
        };
        let findings = super::findings::findings(&result, self.replay.limit);
        result.context.findings.extend(findings);
        result
    }
}

/// The name of the policy inside all layers.
fn base(policy: &PolicySpec) -> &str {
    policy.name.rsplit('+').next().unwrap_or_default().trim()
}

/// The name with its layers, without blanks.
fn policy_name(spec: &PolicySpec) -> String {
    spec.name.split('+').map(str::trim).collect::<Vec<_>>().join("+")
}

/// Parameters with one value only where room is made before any page comes in, and why there is no
/// other.
const WITHOUT_PAGE: [(&str, &str, &str); 2] = [
    (
        "insert_anchor",
        "current_hand",
        "enters blocks where the hand stands after all evictions of a request with admission = request: leave insert_anchor out, \
         or set admission = page",
    ),
    (
        "protect_current",
        "false",
        "has no page to protect the block of with admission = request: leave protect_current out, or set admission = page",
    ),
];

impl AdmissionOrder {
    /// The policy with what follows from when room is made.
    fn settle(self, policy: &PolicySpec) -> Result<PolicySpec, SimError> {
        let mut settled = policy.clone();
        if self == Self::Page {
            return Ok(settled);
        }
        let base = base(policy);
        for (key, value, why) in WITHOUT_PAGE {
            if buffer::info(base).map_err(PolicyError::from)?.params.iter().all(|param| param.name != key) {
                continue;
            }
            match policy.given.iter().find(|(given, _)| given == key) {
                None => settled.given.push((key.into(), value.into())),
                Some((_, given)) if given == value => {}
                Some(_) => return Err(SimError::Unsuited { policy: policy_name(policy), why }),
            }
        }
        Ok(settled)
    }
}

impl DeviceConfig {
    /// Checks that a policy can work over this device.
    fn suits(&self, policy: &PolicySpec, built: &BuiltPolicy) -> Result<(), SimError> {
        let why = match self {
            Self::Ssd(config, _) if built.chooses_channels && config.modern.is_some() => {
                "chooses the channel of each page, and a modern drive chooses the die itself: set ssd.model = classic (--ssd.model classic) \
                 and a preset with channels, such as pm9a3 or cawr"
            }
            Self::Ssd(config, _) if config.modern.as_ref().is_some_and(|modern| modern.placement.is_some()) => {
                "labels no writes, so that ssd.placement = streams keeps nothing apart: set ssd.placement = off"
            }
            Self::Ssd(config, _) if built.chooses_channels && config.allocation == PageAllocation::Static => {
                "chooses the channel of each page, and this SSD places pages by their address: set ssd.allocation = channels"
            }
            Self::None | Self::Analytic(_) if built.avoids_collection => {
                "avoids elements that collect garbage, and this device has none: set device = ssd"
            }
            _ => return Ok(()),
        };
        Err(SimError::Unsuited { policy: policy_name(policy), why })
    }

    /// The word on the command line.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Analytic(_) => "analytic",
            Self::Ssd(..) => "ssd",
        }
    }

    /// Returns the content of the flash at the start, in the words of results and of the command line.
    pub fn start_state(&self) -> String {
        match self {
            Self::None | Self::Analytic(_) => "none".into(),
            Self::Ssd(_, start) => start.to_string(),
        }
    }
}

fn flash_counters(total: &ElementCounters) -> FlashCounters {
    FlashCounters {
        flash_reads: Some(total.flash_reads),
        flash_writes: Some(total.flash_writes()),
        erases: Some(total.erases),
        gc_invocations: Some(total.gc_invocations),
        gc_pages_moved: Some(total.gc_pages_moved),
        gc_time: Some(total.gc_time.0),
    }
}

fn ssd_result(ssd: &Ssd, shape: &SsdShape, outcomes: &BufferOutcomes) -> SsdResult {
    let total = ssd.total();
    let blocks = u64::from(shape.config.elements) * u64::from(shape.pools) * u64::from(shape.pool_blocks);
    let erases: u64 = ssd.erases().map(u64::from).sum();
    let erases_max = ssd.erases().max().map_or(0, u64::from);
    let endurance = f64::from(shape.config.endurance) * blocks as f64;
    let merges = |count: u64| (shape.config.ftl != Ftl::Page).then_some(count);
    let elements: Vec<_> = ssd
        .counters()
        .map(|c| ElementResult {
            flash_reads: c.flash_reads,
            flash_writes: c.flash_writes(),
            erases: c.erases,
            gc_invocations: c.gc_invocations,
            gc_pages_moved: c.gc_pages_moved,
            gc_time: c.gc_time.0,
            switch_merges: merges(c.switch_merges),
            partial_merges: merges(c.partial_merges),
            full_merges: merges(c.full_merges),
            busy_time: c.busy_time.0,
        })
        .collect();
    let steadiness = ssd.steadiness();
    SsdResult {
        host_pages: u64::from(shape.host_pages),
        raw_pages: blocks * u64::from(shape.pages_per_block),
        start_overwrites: steadiness.map(|steady| steady.overwrites_pct as f64 / 100.0),
        start_write_amplification_before: steadiness.map(|steady| steady.write_amplification_milli[0] as f64 / 1000.0),
        start_write_amplification: steadiness.map(|steady| steady.write_amplification_milli[1] as f64 / 1000.0),
        host_programs: total.host_programs,
        summary_programs: total.summary_programs,
        redirected_programs: ssd.redirected(),
        unmapped_reads: total.unmapped_reads,
        log_blocks: merges(u64::from(shape.log_blocks) * u64::from(shape.config.elements)),
        switch_merges: merges(total.switch_merges),
        partial_merges: merges(total.partial_merges),
        full_merges: merges(total.full_merges),
        write_amplification: ratio(total.flash_writes(), outcomes.counters.write_pages),
        collection_amplification: ratio(total.host_programs + total.gc_pages_moved, total.host_programs),
        mean_free_blocks: outcomes.timed.as_ref().map_or(0.0, |t| t.mean_free_blocks),
        erases_per_block_mean: erases as f64 / blocks as f64,
        erases_per_block_max: erases_max,
        lifetime_host_bytes: (total.erases > 0)
            .then(|| outcomes.counters.host_bytes_written as f64 * endurance / total.erases as f64),
        cv_reads: variation(elements.iter().map(|e| e.flash_reads)),
        cv_reads_with_moves: variation(elements.iter().map(|e| e.flash_reads + e.gc_pages_moved)),
        cv_writes: variation(elements.iter().map(|e| e.flash_writes)),
        cv_erases: variation(elements.iter().map(|e| e.erases)),
        wear: WearClass::of(|| ssd.erases()),
        elements,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_that_the_device_does_not_suit_are_refused() {
        let built = |chooses_channels, avoids_collection| BuiltPolicy {
            is_sized: true,
            unit: EvictionUnit::Page,
            chooses_channels,
            avoids_collection,
            params: Vec::new(),
        };
        let spec: PolicySpec = "gcar + cawr".parse().unwrap();
        let ssd = |allocation| DeviceConfig::Ssd(SsdConfig { allocation, ..SsdConfig::default() }, StartState::Full);
        let striped = ssd(PageAllocation::Static);
        let refused =
            |device: &DeviceConfig, built: &BuiltPolicy| device.suits(&spec, built).err().map(|e| e.to_string());
        for device in [&striped, &ssd(PageAllocation::Channels), &DeviceConfig::None] {
            assert_eq!(refused(device, &built(false, false)), None);
        }
        let why = refused(&striped, &built(true, false)).unwrap();
        assert!(
            why.starts_with("policy 'gcar+cawr' chooses") && why.ends_with("set ssd.allocation = channels"),
            "{why}"
        );
        assert_eq!(refused(&ssd(PageAllocation::Channels), &built(true, true)), None);
        assert_eq!(refused(&striped, &built(false, true)), None);
        for device in [DeviceConfig::None, DeviceConfig::Analytic(AnalyticConfig::default())] {
            assert_eq!(refused(&device, &built(true, false)), None);
            let why = refused(&device, &built(false, true)).unwrap();
            assert!(why.contains("avoids elements") && why.ends_with("set device = ssd"), "{why}");
        }
    }
}
