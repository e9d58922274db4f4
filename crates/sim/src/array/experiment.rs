//! An experiment over arrays: controllers × cache sizes × orders of service over one trace, read
//! once for all of them.

use std::cell::RefCell;
use std::ops::Range;

use destage_cache::{HostCacheSpec, Medium};
use destage_delta::lengths::{Drawn, Lengths};
use destage_plan::{Class, Dev, DevSet, Nanos, Op, Row, Status};
use destage_raid::Geometry;

use super::drive_cache::DriveCacheSetup;
use super::executor::Executor;
use super::failures::{Failures, Injection, InjectionKind, Replacement};
use super::host::{ArrayHost, ArrayRun};
use super::lane::DeviceCounters;
use super::outcomes::Outcomes;
use super::result::{
    ArrayResult, ArrayShape, CacheTraffic, ClaimResult, CollectionSpan, CollectionsResult, DegradedResult,
    DeviceResult, FailureResult, HostResponseClass, HostResponses, SeriesOverTime, SeriesPoint,
};
use super::setup::{ArraySetup, DeviceSetup, Service, SetupError, Workshop, shape};
use super::times::StepTimes;
use super::wear::CacheWear;
use crate::disk::Scheduler;
use crate::experiment::{
    self, Capacity, Consume, ExperimentError, OpenTrace, PassEnd, Resources, Runs, ShowProgress, Stop, Sweep,
    TraceReplay,
};
use crate::input::{Feed, Feeder, LbaOverflow, PageSpace};
use crate::measure::{
    Latency, ParamValue, PerVolume, RequestLog, ResultVersion, Series, VolumeFigures, distribution, per_second, ratio,
};

/// With this all blocks of a trace lie on an array, if it has room for them.
const FITS: &str = "--lba-overflow compact";

/// Everything that decides about the results of an experiment over an array.
#[derive(Clone, Debug)]
pub struct ArrayExperiment {
    /// How the trace is replayed.
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
    /// How long the deltas of caches that make some are.
    pub deltas: Lengths,
    /// What each of them depends on beside its page and version.
    pub delta_seed: u64,
    /// Orders of service of the disks; of no meaning without disks.
    pub schedulers: Vec<Scheduler>,
    /// How the array is served.
    pub service: Service,
    /// What happens to devices, in any order.
    pub injections: Vec<Injection>,
    /// How requests arrive.
    pub host: ArrayHost,
}

/// What an experiment brought.
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
struct Combination {
    policy: HostCacheSpec,
    cache: Option<u64>,
    scheduler: Option<Scheduler>,
}

/// A run and what its result needs beside what it finds.
struct Planned {
    combination: Combination,
    run: ArrayRun,
}

impl Consume for Planned {
    type Outcomes = Outcomes;

    /// A request may take a millisecond where many wait for an array that does not keep up.
    const REQUESTS_PER_FEED: usize = 1 << 11;

    fn feed(&mut self, feed: &Feed, stop: Option<&Stop>) {
        self.run.feed(feed, stop);
    }

    fn finish(&mut self, stop: Option<&Stop>, show: &(dyn Fn(f64) + Sync)) -> Outcomes {
        self.run.finish(stop, show)
    }
}

/// An experiment with what all its runs have in common.
struct ArrayRuns<'a> {
    experiment: &'a ArrayExperiment,
    geometry: Geometry,
    injections: Vec<Injection>,
    /// Lists the rows that a rebuild fills, unless it fills all.
    used_rows: Option<Vec<Range<Row>>>,
    per_run: u64,
    /// Holds the log until the run takes it.
    log: RefCell<Option<Box<dyn RequestLog>>>,
}

impl Runs for ArrayRuns<'_> {
    type Combination = Combination;
    type Run = Planned;
    type Result = ArrayResult;
    type Error = ArrayError;

    fn replay(&self) -> &TraceReplay {
        &self.experiment.replay
    }

    fn memory_per_run(&self) -> u64 {
        self.per_run
    }

    /// They were checked when they were put together.
    fn check(&self, _: &Combination) -> Result<(), ArrayError> {
        Ok(())
    }

    fn plan(&self, combination: &Combination, stop: Option<&Stop>) -> Result<Planned, ArrayError> {
        let mut planned = self.experiment.plan(combination, self, stop)?;
        if let Some(mut log) = self.log.take() {
            log.begin(planned.combination.policy.info().name, planned.combination.cache);
            planned.run.log_to(log);
        }
        Ok(planned)
    }

    fn feeder(&self, runs: &[Planned]) -> Feeder {
        let replay = &self.experiment.replay;
        let space = PageSpace::bounded(replay.geometry, self.geometry.data_pages() as u32, replay.lba_overflow);
        let feeder = replay.feeder(space).keep_heads();
        if runs.iter().any(|planned| planned.run.is_watched()) { feeder.keep_origins() } else { feeder }
    }

    fn result(&self, planned: &mut Planned, outcomes: Outcomes, end: &PassEnd) -> Result<ArrayResult, ArrayError> {
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
    fn service(&self) -> Service {
        let passes = self.service.passes_discards.unwrap_or(self.member.takes_discards());
        Service { passes_discards: Some(passes), ..self.service }
    }

    /// The runs, and whether every one of them can be.
    fn combinations(&self, geometry: &Geometry) -> Result<Vec<Combination>, SetupError> {
        let has_disks = |caches| {
            let is_disk = |setup: &DeviceSetup| matches!(setup, DeviceSetup::Disk { .. });
            is_disk(&self.member) || caches && is_disk(&self.cache_device)
        };
        if !self.caches.is_empty() && !self.policies.iter().any(|policy| policy.info().is_sized()) {
            return Err(SetupError::UnusedCache { key: "cache" });
        }
        if self.cache_endurance.is_some() && !self.policies.iter().any(|policy| policy.info().medium == Medium::Device)
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
                    let device = Workshop::new(&self.cache_device, self.replay.geometry, Scheduler::default())?;
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
                all.extend(schedulers.into_iter().map(|scheduler| Combination {
                    policy: policy.clone(),
                    cache,
                    scheduler,
                }));
            }
        }
        Ok(all)
    }

    /// The injections in order of time, if they can happen.
    fn sorted_injections(&self) -> Result<Vec<Injection>, SetupError> {
        let mut sorted = self.injections.clone();
        sorted.sort_by_key(|injection| (injection.at, injection.kind == InjectionKind::Replace));
        let mut failed = DevSet::EMPTY;
        let caches = self.policies.iter().all(|policy| policy.info().is_sized());
        for &Injection { at, dev, kind } in &sorted {
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
        let member = Workshop::new(&self.member, self.replay.geometry, Scheduler::default())?;
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

    /// How many runs there will be, and how many bytes their devices take at a time; of an
    /// experiment that can be run; of an array that fits the trace, of the smallest one.
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
        let fits = self.replay.capacity != Capacity::Given
            && matches!(both, (DeviceSetup::Ssd { .. }, DeviceSetup::Ssd { .. }));
        let largest = self.caches.iter().max().filter(|_| fits);
        let of = |Combination { policy, cache, scheduler }: Combination| {
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
    /// Where the experiment cannot be run.
    pub fn names(&self) -> Result<Vec<String>, ArrayError> {
        let smallest = self.smallest()?;
        let of = |Combination { policy, cache, scheduler }: Combination| {
            let cache = cache.map_or_else(String::new, |bytes| format!(" with {bytes} B"));
            let scheduler = scheduler.map_or_else(String::new, |scheduler| format!(", {}", scheduler.name()));
            format!("{}{cache}{scheduler}", policy.info().name)
        };
        Ok(smallest.combinations(&smallest.array_geometry()?)?.into_iter().map(of).collect())
    }

    fn memory_per_run(&self) -> Result<u64, SetupError> {
        let member = Workshop::new(&self.member, self.replay.geometry, Scheduler::default())?;
        let mut bytes = member.memory_bytes().saturating_mul(u64::from(self.array.members));
        if self.host.per_volume {
            bytes = bytes.saturating_add(PerVolume::memory_bytes());
        }
        if self.policies.iter().any(|policy| policy.info().is_sized()) {
            let cache = Workshop::new(&self.cache_device, self.replay.geometry, Scheduler::default())?;
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
        resources: Resources<'_>,
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
        resources: Resources<'_>,
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
        resources: Resources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
        sweep: &mut dyn Sweep<ArrayResult>,
    ) -> Result<u64, ArrayError> {
        self.sweep_logged(resources, open, progress, None, sweep)
    }

    fn sweep_logged(
        &self,
        resources: Resources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
        log: Option<Box<dyn RequestLog>>,
        sweep: &mut dyn Sweep<ArrayResult>,
    ) -> Result<u64, ArrayError> {
        if self.replay.capacity != Capacity::Given {
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
        resources: Resources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
        log: Option<Box<dyn RequestLog>>,
        sweep: &mut dyn Sweep<ArrayResult>,
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
        combination: &Combination,
        runs: &ArrayRuns<'_>,
        stop: Option<&Stop>,
    ) -> Result<Planned, SetupError> {
        let ArrayRuns { geometry, injections, used_rows, .. } = runs;
        let page = self.replay.geometry.page_bytes();
        let &Combination { ref policy, cache, scheduler } = combination;
        let scheduler = scheduler.unwrap_or_default();
        let cache_pages = cache.unwrap_or(0) / page;
        let controller = self.service().serve(geometry.clone(), page, policy, cache_pages, used_rows.clone())?;
        let warning = controller.gc_warning();
        let mut member = Workshop::new(&self.member, self.replay.geometry, scheduler)?;
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
        let mut cache_device = Workshop::new(&self.cache_device, self.replay.geometry, scheduler)?;
        if !behind.is_empty() {
            cache_device.prepare(stop);
        }
        let count = behind.len() as u32;
        devices.extend((0..).zip(&behind).map(|(index, &pages)| cache_device.make(index, count, pages, page, false)));
        let replacement: Replacement = Box::new(move |dev: Dev| match u32::from(dev.0).checked_sub(members) {
            Some(index) => cache_device.make(index, count, behind[index as usize], page, true),
            None => make_member(dev.0.into(), true),
        });
        let shape = shape(geometry, page)?;
        let mut executor = Executor::new(controller, shape, self.service.depth, devices, times);
        if policy.info().makes_deltas {
            let mut drawn = Drawn::new(self.deltas, self.delta_seed, page as u32);
            executor.set_delta_lengths(Box::new(move |page, version| drawn.of(page, version)));
        }
        debug_assert_eq!(executor.status(), Status::Ready, "a fresh array has nothing to recover");
        let failures = Failures::new(injections.clone(), replacement);
        let run = ArrayRun::new(executor, self.host, page, failures, policy.info().delays_parity);
        Ok(Planned { combination: combination.clone(), run })
    }

    fn result(
        &self,
        combination: &Combination,
        geometry: &Geometry,
        outcomes: Outcomes,
        end: &PassEnd,
    ) -> Result<ArrayResult, ArrayError> {
        let &Combination { ref policy, cache, scheduler } = combination;
        if outcomes.stalled > 0 {
            let policy = policy.info().name;
            return Err(SetupError::Stalled { policy, outstanding: outcomes.stalled }.into());
        }
        end.check(outcomes.measured)?;
        let page = self.replay.geometry.page_bytes();
        let served = outcomes.served.since(outcomes.start);
        let simulated = outcomes.end.since(outcomes.start);
        let counters = outcomes.counters;
        let traffic = outcomes.after.traffic.since(&outcomes.before.traffic);
        let caching =
            CacheTraffic::between(policy.info(), outcomes.before.cache.as_ref(), outcomes.after.cache.as_ref());
        let hit_ratio = caching.as_ref().map(|cache| &cache.pages).and_then(|cache| {
            let hits = cache.read_hits + cache.write_hits;
            ratio(hits, hits + cache.read_misses + cache.write_misses)
        });
        let start_state = match (&self.member, cache, &self.cache_device) {
            (DeviceSetup::Ssd { start, .. }, _, _) | (_, Some(_), DeviceSetup::Ssd { start, .. }) => start.to_string(),
            _ => "none".into(),
        };
        let mut context = self.replay.context((self.host.host, true), outcomes.warmup_requests, end, FITS);
        context.replay_delay = outcomes.replay_delay.map(|delay| delay.0);
        let mut result = ArrayResult {
            policy: policy.info().name.into(),
            params: ParamValue::all(policy.params()),
            cache_bytes: cache,
            scheduler: scheduler.map(|scheduler| scheduler.name().into()),
            page_bytes: page,
            array: ArrayShape {
                level: geometry.level().name().into(),
                layout: geometry.layout().map(|layout| layout.name().into()),
                members: geometry.members().into(),
                chunk_bytes: u64::from(geometry.chunk_pages()) * page,
                member_bytes: geometry.member_pages() * page,
                capacity_bytes: geometry.data_pages() * page,
                parity: self.service.parity.word().into(),
                regime: self.service.regime.word().into(),
                nv_slots: self.service.nv_slots.into(),
                nvram_on: if self.service.journal.is_some() { "cache-device" } else { "nvram" }.into(),
            },
            device: self.member.word().into(),
            cache_device: cache.map(|_| self.cache_device.word().into()),
            cache_nv_slots: self.service().cache_slots(geometry, page, policy, cache.unwrap_or(0) / page).into(),
            start_state,
            context,
            served_time: served.0,
            simulated_time: simulated.0,
            requests_per_second: per_second(counters.requests - counters.failed_requests, served),
            host_bytes_per_second: per_second(counters.host_bytes_read + counters.host_bytes_written, served)
                .filter(|_| counters.failed_requests == 0),
            mean_outstanding: mean(outcomes.area(), served),
            response: outcomes.saturated.is_none().then(|| responses(&outcomes.responses)),
            traffic,
            hit_ratio,
            cache: caching,
            cache_wear: self.cache_wear(policy, &outcomes, geometry, served),
            parity_debt: outcomes.debt.as_ref().map(|debt| {
                let left = outcomes.after.left_rows - outcomes.before.left_rows;
                debt.result(outcomes.start, outcomes.end, left)
            }),
            steps: outcomes.after.steps.since(&outcomes.before.steps),
            nvram: outcomes.after.nvram.since(&outcomes.before.nvram),
            open_rows: outcomes.open_rows,
            claims: claims(&outcomes),
            devices: self.devices(&outcomes, geometry, served),
            collections: collections(&outcomes, geometry),
            volumes: outcomes.volumes.as_ref().map(|volumes| {
                let responses = outcomes.saturated.is_none();
                volumes.result(&end.volume_names, VolumeFigures { pages: false, pads: false, responses })
            }),
            degraded: degraded(&outcomes, geometry),
            series: series(&outcomes.series, outcomes.start),
            version: ResultVersion::current(),
            counters,
            saturated: outcomes.saturated,
        };
        let findings = super::findings::findings(&result, self.replay.limit);
        result.context.findings.extend(findings);
        Ok(result)
    }

    /// How long the cache device lasts, if there is one and it is known what it endures.
    fn cache_wear(
        &self,
        policy: &HostCacheSpec,
        outcomes: &Outcomes,
        geometry: &Geometry,
        served: Nanos,
    ) -> Option<CacheWear> {
        let endurance = self.cache_endurance.filter(|_| policy.info().medium == Medium::Device)?;
        let index = usize::from(geometry.members());
        let (before, after) = (&outcomes.before.devices[index], &outcomes.answered.devices[index]);
        let pages = match self.cache_device {
            DeviceSetup::Ssd { .. } => after.1.flash.flash_writes - before.1.flash.flash_writes,
            DeviceSetup::Disk { .. } | DeviceSetup::Fixed(_) => after.0.pages_written - before.0.pages_written,
        };
        Some(CacheWear::of(endurance, pages * self.replay.geometry.page_bytes(), served.0))
    }

    fn devices(&self, outcomes: &Outcomes, geometry: &Geometry, served: Nanos) -> Vec<DeviceResult> {
        let Outcomes { before, answered, after, .. } = outcomes;
        let moments = before.devices.iter().zip(&answered.devices).zip(&after.devices);
        let all = moments.enumerate().map(|(index, ((before, answered), after))| {
            let setup = if index < usize::from(geometry.members()) { &self.member } else { &self.cache_device };
            let (is_disk, is_ssd) =
                (matches!(setup, DeviceSetup::Disk { .. }), matches!(setup, DeviceSetup::Ssd { .. }));
            let counters: DeviceCounters = after.0.since(&before.0);
            let model = after.1.since(&before.1);
            let served_busy = answered.1.busy.since(before.1.busy);
            let parallelism = outcomes.parallelism[index];
            DeviceResult {
                device: device_name(index, geometry),
                model: setup.word().into(),
                counters,
                busy_time: model.busy.0,
                served_busy_time: served_busy.0,
                busy_share: (served > Nanos::ZERO)
                    .then(|| served_busy.0 as f64 / (served.0 as f64 * f64::from(parallelism))),
                mean_queue: mean(answered.2 - before.2, served),
                longest_queue: outcomes.longest_queues[index],
                mean_residence: ratio(counters.residence_time, counters.commands),
                disk: is_disk.then_some(model.disk).into(),
                flash: is_ssd.then_some(model.flash).into(),
                wear: outcomes.wear[index].clone(),
            }
        });
        all.collect()
    }
}

fn device_name(index: usize, geometry: &Geometry) -> String {
    if index < usize::from(geometry.members()) { index.to_string() } else { "cache".into() }
}

fn mean(area: u128, time: Nanos) -> Option<f64> {
    (time > Nanos::ZERO).then(|| area as f64 / time.0 as f64)
}

fn responses(by_op: &[Latency; 4]) -> HostResponses {
    let of = |op: Op| &by_op[op as usize];
    let mut all = of(Op::Read).clone();
    all.add(of(Op::Write));
    HostResponses {
        all: all.summary(),
        read: of(Op::Read).summary(),
        write: of(Op::Write).summary(),
        flush: of(Op::Flush).summary(),
        discard: of(Op::Discard).summary(),
        distribution: distribution([of(Op::Read), of(Op::Write)])
            .into_iter()
            .map(|(up_to, [reads, writes])| HostResponseClass { up_to, reads, writes })
            .collect(),
    }
}

fn claims(outcomes: &Outcomes) -> Vec<ClaimResult> {
    let all = Class::ALL.iter().zip(outcomes.after.waits.iter().zip(&outcomes.before.waits));
    let result =
        |(class, (after, before)): (&Class, (&destage_plan::ClaimWait, &destage_plan::ClaimWait))| ClaimResult {
            class: class.word().into(),
            claims: after.claims - before.claims,
            waited: after.waited - before.waited,
            wait_time: after.total.since(before.total).0,
            longest_wait: after.max.0,
        };
    all.map(result).collect()
}

fn collections(outcomes: &Outcomes, geometry: &Geometry) -> Option<CollectionsResult> {
    outcomes.wear.iter().flatten().next()?;
    let rounds = outcomes.after.rounds.zip(outcomes.before.rounds);
    let (bars, spans) = outcomes.bars.clone().result();
    let since = |at: Nanos| at.since(outcomes.start).0;
    let shown = bars.iter().map(|bar| CollectionSpan {
        device: device_name(bar.dev.index(), geometry),
        start: since(bar.start),
        end: since(bar.end),
    });
    let unless_saturated = |figure: u64| outcomes.saturated.is_none().then_some(figure);
    Some(CollectionsResult {
        overlap: outcomes.overlap.clone().result(outcomes.served),
        reactive_rounds: rounds.map(|(after, before)| after.reactive - before.reactive),
        soft_rounds: rounds.map(|(after, before)| after.soft - before.soft),
        proactive_rounds: rounds.map(|(after, before)| after.proactive - before.proactive),
        delayed_requests: unless_saturated(outcomes.delayed_requests),
        delayed_time: unless_saturated(outcomes.delayed_time.0),
        spans,
        shown: shown.collect(),
    })
}

fn degraded(outcomes: &Outcomes, geometry: &Geometry) -> Option<DegradedResult> {
    if outcomes.failures.is_empty() {
        return None;
    }
    let [healthy, degraded, rebuilding] = &outcomes.phases;
    let summary = |latency: &Latency| latency.summary().filter(|_| outcomes.saturated.is_none());
    let failures = outcomes.failures.iter().map(|failure| FailureResult {
        device: device_name(failure.dev.index(), geometry),
        failed_at: failure.failed.0,
        replaced_at: failure.replaced.map(|at| at.0),
        rebuilt_at: failure.rebuilt.map(|at| at.0),
        rebuild_time: failure.rebuilt.zip(failure.replaced).map(|(rebuilt, replaced)| rebuilt.since(replaced).0),
    });
    Some(DegradedResult {
        degraded_time: outcomes.degraded_time.0,
        rebuild_time: outcomes.rebuild_time.0,
        healthy: summary(healthy),
        degraded: summary(degraded),
        rebuilding: summary(rebuilding),
        failures: failures.collect(),
    })
}

fn series(series: &Series, start: Nanos) -> SeriesOverTime {
    let bins = series.bins().iter().map(SeriesPoint::from);
    SeriesOverTime { start: start.0, width: series.width().0, bins: bins.collect() }
}
