//! An experiment over arrays: controllers × cache sizes × orders of service over one trace, read
//! once for all of them.

use std::cell::RefCell;
use std::ops::Range;

use destage_cache::{CacheMedium, HostCacheSpec};
use destage_delta::lengths::{DeltaLengthRule, DrawnLengths};
use destage_plan::{Dev, DevSet, Row, Status};
use destage_raid::Geometry;

use super::drive_cache::DriveCacheSetup;
use super::executor::VirtualExecutor;
use super::failures::{DeviceFailures, DeviceInjection, InjectionKind, MakeReplacement};
use super::host::{ArrayHost, ArrayRun};
use super::outcomes::ArrayOutcomes;
use super::result::ArrayResult;
use super::setup::{ArrayService, ArraySetup, DeviceFactory, DeviceSetup, SetupError, shape};
use super::times::StepTimes;
use crate::disk::DiskScheduler;
use crate::experiment::{
    self, ConsumeFeeds, DeviceCapacity, ExperimentError, ExperimentRuns, OpenTrace, PassEnd, RunResources,
    RunSelection, ShowProgress, StopSignal, TraceReplay,
};
use crate::input::{FeedBuilder, LbaOverflow, PageSpace, RequestFeed};
use crate::measure::{PerVolume, RequestLog};

/// Everything that decides about the results of an experiment over an array.
#[derive(Clone, Debug)]
pub struct ArrayExperiment {
    /// Says how the trace is replayed.
    pub replay: TraceReplay,
    /// The array.
    pub array: ArraySetup,
    /// The controllers.
    pub policies: Vec<HostCacheSpec>,
    /// The cache sizes in bytes; none if no controller has a cache.
    pub caches: Vec<u64>,
    /// The members.
    pub member: DeviceSetup,
    /// The members' volatile write caches, if they have any.
    pub drive_cache: Option<DriveCacheSetup>,
    /// The cache device.
    pub cache_device: DeviceSetup,
    /// Bytes that can be written to it until it is worn out, if results are to tell how long it lasts.
    pub cache_endurance: Option<u64>,
    /// Chooses the lengths of deltas, for caches that store some.
    pub deltas: DeltaLengthRule,
    /// Seeds the lengths of deltas, beside page and version.
    pub delta_seed: u64,
    /// Orders of service of the disks; of no meaning without disks.
    pub schedulers: Vec<DiskScheduler>,
    /// Says how the array is served.
    pub service: ArrayService,
    /// Lists failures and replacements of devices, in any order.
    pub injections: Vec<DeviceInjection>,
    /// Says how requests arrive.
    pub host: ArrayHost,
}

/// Holds the results of an experiment.
#[derive(Clone, Debug)]
pub struct ArrayReport {
    /// One per controller, cache size and order of service, the last in the inner loop.
    pub results: Vec<ArrayResult>,
    /// Requests read, for rates.
    pub requests: u64,
    /// Steps carried out by all runs, for rates.
    pub steps: u64,
}

/// One run to be.
#[derive(Clone)]
pub(super) struct ArrayCombination {
    pub(super) policy: HostCacheSpec,
    pub(super) cache: Option<u64>,
    pub(super) scheduler: Option<DiskScheduler>,
}

/// A run and what its result needs beside what it finds.
struct PlannedArrayRun {
    combination: ArrayCombination,
    run: ArrayRun,
}

impl ConsumeFeeds for PlannedArrayRun {
    type Outcomes = ArrayOutcomes;

    /// A request may take a millisecond where many wait for an array that does not keep up.
    const REQUESTS_PER_FEED: usize = 1 << 11;

    fn feed(&mut self, feed: &RequestFeed, stop: Option<&StopSignal>) {
        self.run.feed(feed, stop);
    }

    fn finish(&mut self, stop: Option<&StopSignal>, show: &(dyn Fn(f64) + Sync)) -> ArrayOutcomes {
        self.run.finish(stop, show)
    }
}

/// An experiment with what all its runs have in common.
struct ArrayRuns<'a> {
    experiment: &'a ArrayExperiment,
    geometry: Geometry,
    injections: Vec<DeviceInjection>,
    /// Lists the rows that a rebuild fills, unless it fills all.
    used_rows: Option<Vec<Range<Row>>>,
    per_run: u64,
    /// Holds the log until the run takes it.
    log: RefCell<Option<Box<dyn RequestLog>>>,
}

impl ExperimentRuns for ArrayRuns<'_> {
    type Combination = ArrayCombination;
    type Run = PlannedArrayRun;
    type Result = ArrayResult;
    type Error = ArrayError;

    fn replay(&self) -> &TraceReplay {
        &self.experiment.replay
    }

    fn memory_per_run(&self) -> u64 {
        self.per_run
    }

    /// They were checked when they were put together.
    fn check(&self, _: &ArrayCombination) -> Result<(), ArrayError> {
        Ok(())
    }

    fn plan(&self, combination: &ArrayCombination, stop: Option<&StopSignal>) -> Result<PlannedArrayRun, ArrayError> {
        let mut planned = self.experiment.plan(combination, self, stop)?;
        if let Some(mut log) = self.log.take() {
            log.begin(planned.combination.policy.info().name, planned.combination.cache);
            planned.run.log_to(log);
        }
        Ok(planned)
    }

    fn feeder(&self, runs: &[PlannedArrayRun]) -> FeedBuilder {
        let replay = &self.experiment.replay;
        let space = PageSpace::bounded(replay.geometry, self.geometry.data_pages() as u32, replay.lba_overflow);
        let feeder = replay.feeder(space).keep_heads();
        if runs.iter().any(|planned| planned.run.is_watched()) { feeder.keep_origins() } else { feeder }
    }

    fn result(
        &self,
        planned: &mut PlannedArrayRun,
        outcomes: ArrayOutcomes,
        end: &PassEnd,
    ) -> Result<ArrayResult, ArrayError> {
        self.experiment.result(&planned.combination, &self.geometry, outcomes, end)
    }
}

/// Why an experiment over arrays failed.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// The array cannot be simulated as asked.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The trace or the machine does not allow it.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// Refuses a log of several runs.
    #[error(
        "latency-log takes the requests of one run, and these are {runs} runs: give one policy, one cache size and one order of \
         service"
    )]
    Log {
        /// Counts the runs.
        runs: usize,
    },
}

impl ArrayExperiment {
    /// Returns how the array over these members is served.
    pub(super) fn service(&self) -> ArrayService {
        let passes = self.service.passes_discards.unwrap_or(self.member.takes_discards());
        ArrayService { passes_discards: Some(passes), ..self.service }
    }

    /// The runs, and whether every one of them can be.
    fn combinations(&self, geometry: &Geometry) -> Result<Vec<ArrayCombination>, SetupError> {
        let has_disks = |caches| {
            let is_disk = |setup: &DeviceSetup| matches!(setup, DeviceSetup::Disk { .. });
            is_disk(&self.member) || caches && is_disk(&self.cache_device)
        };
        if !self.caches.is_empty() && !self.policies.iter().any(|policy| policy.info().is_sized()) {
            return Err(SetupError::UnusedCache { key: "cache" });
        }
        if self.cache_endurance.is_some()
            && !self.policies.iter().any(|policy| policy.info().medium == CacheMedium::Device)
        {
            return Err(SetupError::NoCacheDevice { key: "cache-endurance" });
        }
        let page = self.replay.geometry.page_bytes();
        let mut all = Vec::new();
        for policy in &self.policies {
            let info = policy.info();
            if info.needs_collectors() && !self.member.is_collector() {
                return Err(SetupError::NoCollectors { policy: info.name, device: self.member.word() });
            }
            let caches: Vec<_> =
                if info.is_sized() { self.caches.iter().copied().map(Some).collect() } else { vec![None] };
            if caches.is_empty() {
                return Err(SetupError::NoCache { policy: info.name });
            }
            for cache in caches {
                if let Some(bytes) = cache {
                    if bytes == 0 || !bytes.is_multiple_of(page) {
                        return Err(SetupError::CachePages { bytes, page });
                    }
                    let device =
                        DeviceFactory::new(&self.cache_device, self.replay.geometry, DiskScheduler::default())?;
                    let journal = self.service.journal;
                    let all = bytes.saturating_add(journal.unwrap_or(0));
                    if let Some(most) = device.pages(page).filter(|&most| all / page > most) {
                        let device = self.cache_device.word();
                        return Err(SetupError::CacheSize { bytes, journal, device, most: most * page });
                    }
                }
                self.service().check(geometry, page, policy, cache.unwrap_or(0) / page)?;
                self.service().journal(geometry, page, policy, cache.unwrap_or(0) / page)?;
                let schedulers: Vec<_> = if has_disks(info.is_sized()) {
                    self.schedulers.iter().copied().map(Some).collect()
                } else {
                    vec![None]
                };
                all.extend(schedulers.into_iter().map(|scheduler| ArrayCombination {
                    policy: policy.clone(),
                    cache,
                    scheduler,
                }));
            }
        }
        Ok(all)
    }

    /// The injections in order of time, if they can happen.
    fn sorted_injections(&self) -> Result<Vec<DeviceInjection>, SetupError> {
        let mut sorted = self.injections.clone();
        sorted.sort_by_key(|injection| (injection.at, injection.kind == InjectionKind::Replace));
        let mut failed = DevSet::EMPTY;
        let caches = self.policies.iter().all(|policy| policy.info().is_sized());
        for &DeviceInjection { at, dev, kind } in &sorted {
            let key = match kind {
                InjectionKind::Fail => "fail",
                InjectionKind::Replace => "replace",
            };
            let is_cache = u32::from(dev.0) == self.array.members;
            let device = if is_cache { "cache".into() } else { dev.0.to_string() };
            let wrong = |why: String| Err(SetupError::Injection { key, device: device.clone(), time: at, why });
            if u32::from(dev.0) > self.array.members {
                return wrong(format!("the devices are 0 to {} and cache", self.array.members - 1));
            }
            if is_cache && !caches {
                return wrong("not every policy has a cache".into());
            }
            if is_cache && self.service.journal.is_some() {
                return wrong("it has the journal that stands in for the NVRAM (nvram.on), which must not fail".into());
            }
            match kind {
                InjectionKind::Fail if failed.contains(dev) => {
                    return wrong("it has failed before and was not replaced by then".into());
                }
                InjectionKind::Replace if !failed.contains(dev) => {
                    return wrong(
                        "only a device that has failed by then can be replaced; give fail an earlier time".into(),
                    );
                }
                InjectionKind::Fail => failed.insert(dev),
                InjectionKind::Replace => failed.remove(dev),
            }
        }
        let repeated = sorted.windows(2).find(|pair| pair[0].at == pair[1].at && pair[0].dev == pair[1].dev);
        if let Some([_, second]) = repeated {
            return Err(SetupError::Injection {
                key: "replace",
                device: second.dev.0.to_string(),
                time: second.at,
                why: "give it a later time than the failure".into(),
            });
        }
        Ok(sorted)
    }

    /// The array's geometry.
    pub(super) fn array_geometry(&self) -> Result<Geometry, SetupError> {
        let page = self.replay.geometry.page_bytes();
        let member = DeviceFactory::new(&self.member, self.replay.geometry, DiskScheduler::default())?;
        self.array.geometry(page, self.member.word(), member.pages(page))
    }

    /// Checks that the experiment can be run, and how many bytes a host sees; of an array that fits the trace, over
    /// the smallest one.
    pub fn check(&self) -> Result<u64, ArrayError> {
        self.smallest()?.check_given()
    }

    fn check_given(&self) -> Result<u64, ArrayError> {
        let geometry = self.array_geometry()?;
        shape(&geometry, self.replay.geometry.page_bytes())?;
        let (pages, pages_per_block) = (geometry.data_pages(), self.replay.geometry.pages_per_block());
        if self.replay.lba_overflow == LbaOverflow::Compact && pages < u64::from(pages_per_block) {
            return Err(SetupError::Compact { pages, pages_per_block }.into());
        }
        self.combinations(&geometry)?;
        self.sorted_injections()?;
        Ok(geometry.data_pages() * self.replay.geometry.page_bytes())
    }

    /// Returns the number of runs, and the bytes that the devices of a run take. For an array that fits the
    /// trace, the figures are those of the smallest one.
    pub fn weight(&self) -> Result<(usize, u64), ArrayError> {
        let smallest = self.smallest()?;
        let combinations = smallest.combinations(&smallest.array_geometry()?)?;
        Ok((combinations.len(), smallest.memory_per_run()?))
    }

    /// Of each run, in the order of results, all that decides about its result but the requests themselves; of an
    /// experiment that can be run. Runs of several experiments with the same text have the same result over the same
    /// requests.
    pub fn identities(&self) -> Result<Vec<String>, ArrayError> {
        let smallest = self.smallest()?;
        // Where members are SSDs that are made to fit, the cache device is made to fit the largest cache.
        let both = (&self.member, &self.cache_device);
        let fits = self.replay.capacity != DeviceCapacity::Given
            && matches!(both, (DeviceSetup::Ssd { .. }, DeviceSetup::Ssd { .. }));
        let largest = self.caches.iter().max().filter(|_| fits);
        let of = |ArrayCombination { policy, cache, scheduler }: ArrayCombination| {
            let largest = cache.and(largest);
            let (caches, schedulers) = (cache.into_iter().collect(), scheduler.into_iter().collect());
            let alone = Self { policies: vec![policy], caches, schedulers, ..self.clone() };
            format!("{alone:?} {largest:?}")
        };
        Ok(smallest.combinations(&smallest.array_geometry()?)?.into_iter().map(of).collect())
    }

    /// Of each run, in the order of results, what tells it from the others.
    ///
    /// # Errors
    /// Fails where the experiment cannot be run.
    pub fn names(&self) -> Result<Vec<String>, ArrayError> {
        let smallest = self.smallest()?;
        let of = |ArrayCombination { policy, cache, scheduler }: ArrayCombination| {
            let cache = cache.map_or_else(String::new, |bytes| format!(" with {bytes} B"));
            let scheduler = scheduler.map_or_else(String::new, |scheduler| format!(", {}", scheduler.name()));
            format!("{}{cache}{scheduler}", policy.info().name)
        };
        Ok(smallest.combinations(&smallest.array_geometry()?)?.into_iter().map(of).collect())
    }

    fn memory_per_run(&self) -> Result<u64, SetupError> {
        let member = DeviceFactory::new(&self.member, self.replay.geometry, DiskScheduler::default())?;
        let mut bytes = member.memory_bytes().saturating_mul(u64::from(self.array.members));
        if self.host.per_volume {
            bytes = bytes.saturating_add(PerVolume::memory_bytes());
        }
        if self.policies.iter().any(|policy| policy.info().is_sized()) {
            let cache = DeviceFactory::new(&self.cache_device, self.replay.geometry, DiskScheduler::default())?;
            let pages = self.caches.iter().max().copied().unwrap_or(0) / self.replay.geometry.page_bytes();
            let per_page = self.policies.iter().map(HostCacheSpec::bytes_per_page).max().unwrap_or(0);
            bytes = bytes.saturating_add(cache.memory_bytes()).saturating_add(pages.saturating_mul(per_page));
        }
        Ok(bytes)
    }

    /// Runs the experiment. `open` opens the trace anew for each pass; `progress` is called now and
    /// then.
    pub fn run(
        &self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
    ) -> Result<ArrayReport, ArrayError> {
        self.run_logged(resources, open, progress, None)
    }

    /// Runs the experiment, and writes all measured requests to a log if there is one.
    ///
    /// # Errors
    /// Fails as [`Self::run`] does, and if there are several runs to log.
    pub fn run_logged(
        &self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
        log: Option<Box<dyn RequestLog>>,
    ) -> Result<ArrayReport, ArrayError> {
        if log.is_some() {
            let (runs, _) = self.weight()?;
            if runs != 1 {
                return Err(ArrayError::Log { runs });
            }
        }
        let mut results = Vec::new();
        let requests = self.sweep_logged(resources, open, progress, log, &mut results)?;
        let steps = results.iter().map(|result: &ArrayResult| result.steps.sum()).sum();
        Ok(ArrayReport { results, requests, steps })
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
        sweep: &mut dyn RunSelection<ArrayResult>,
    ) -> Result<u64, ArrayError> {
        self.sweep_logged(resources, open, progress, None, sweep)
    }

    fn sweep_logged(
        &self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
        log: Option<Box<dyn RequestLog>>,
        sweep: &mut dyn RunSelection<ArrayResult>,
    ) -> Result<u64, ArrayError> {
        if self.replay.capacity != DeviceCapacity::Given {
            let (runs, _) = self.weight()?;
            if !(0..runs).any(|run| sweep.wants(run)) {
                return Ok(0);
            }
            let fitted = self.fitted(resources, open, progress)?;
            fitted.check()?;
            let used_rows = self.used_rows(&fitted, resources, open, progress)?;
            return fitted.sweep_given(used_rows, resources, open, progress, log, sweep);
        }
        self.sweep_given(None, resources, open, progress, log, sweep)
    }

    /// Sweeps over devices that are as large as they are said to be.
    fn sweep_given(
        &self,
        used_rows: Option<Vec<Range<Row>>>,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
        log: Option<Box<dyn RequestLog>>,
        sweep: &mut dyn RunSelection<ArrayResult>,
    ) -> Result<u64, ArrayError> {
        let geometry = self.array_geometry()?;
        let combinations = self.combinations(&geometry)?;
        let injections = self.sorted_injections()?;
        let per_run = self.memory_per_run()?;
        if per_run > resources.memory_bytes {
            return Err(SetupError::Memory { needed: per_run, granted: resources.memory_bytes }.into());
        }
        let log = RefCell::new(log);
        let runs = ArrayRuns { experiment: self, geometry, injections, used_rows, per_run, log };
        experiment::carry_out(&runs, &combinations, resources, open, progress, sweep)
    }

    fn plan(
        &self,
        combination: &ArrayCombination,
        runs: &ArrayRuns<'_>,
        stop: Option<&StopSignal>,
    ) -> Result<PlannedArrayRun, SetupError> {
        let ArrayRuns { geometry, injections, used_rows, .. } = runs;
        let page = self.replay.geometry.page_bytes();
        let &ArrayCombination { ref policy, cache, scheduler } = combination;
        let scheduler = scheduler.unwrap_or_default();
        let cache_pages = cache.unwrap_or(0) / page;
        let controller = self.service().serve(geometry.clone(), page, policy, cache_pages, used_rows.clone())?;
        let warning = controller.gc_warning();
        let mut member = DeviceFactory::new(&self.member, self.replay.geometry, scheduler)?;
        member.prepare(stop);
        let members = u32::from(geometry.members());
        let member_pages = geometry.member_pages();
        let drive_cache = self.drive_cache;
        let make_member = move |index, fresh| {
            let mut device = member.make(index, members, member_pages, page, fresh);
            if let Some(free) = warning {
                device = device.with_warning(free);
            }
            match drive_cache {
                Some(cache) => device.with_cache(cache),
                None => device,
            }
        };
        let mut devices: Vec<_> = (0..members).map(|index| make_member(index, false)).collect();
        let mut behind = policy.info().devices(cache_pages);
        let times =
            StepTimes { journal: self.service().journal(geometry, page, policy, cache_pages)?, ..self.service.times };
        if let Some(place) = times.journal {
            behind[0] += place.pages;
        }
        let mut cache_device = DeviceFactory::new(&self.cache_device, self.replay.geometry, scheduler)?;
        if !behind.is_empty() {
            cache_device.prepare(stop);
        }
        let count = behind.len() as u32;
        devices.extend((0..).zip(&behind).map(|(index, &pages)| cache_device.make(index, count, pages, page, false)));
        let replacement: MakeReplacement = Box::new(move |dev: Dev| match u32::from(dev.0).checked_sub(members) {
            Some(index) => cache_device.make(index, count, behind[index as usize], page, true),
            None => make_member(dev.0.into(), true),
        });
        let shape = shape(geometry, page)?;
        let mut executor = VirtualExecutor::new(controller, shape, self.service.depth, devices, times);
        if policy.info().makes_deltas {
            let mut drawn = DrawnLengths::new(self.deltas, self.delta_seed, page as u32);
            executor.set_delta_lengths(Box::new(move |page, version| drawn.of(page, version)));
        }
        debug_assert_eq!(executor.status(), Status::Ready, "a fresh array has nothing to recover");
        let failures = DeviceFailures::new(injections.clone(), replacement);
        let run = ArrayRun::new(executor, self.host, page, failures, policy.info().delays_parity);
        Ok(PlannedArrayRun { combination: combination.clone(), run })
    }
}
