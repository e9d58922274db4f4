//! Makes the report of a run over an array.

use destage_cache::{CacheMedium, HostCacheSpec};
use destage_plan::{Class, Nanos, Op};
use destage_raid::Geometry;

use super::experiment::{ArrayCombination, ArrayError, ArrayExperiment};
use super::lane::DeviceCounters;
use super::outcomes::ArrayOutcomes;
use super::result::{
    ArrayResult, ArrayShape, CacheTraffic, ClaimResult, CollectionSpan, CollectionsResult, DegradedResult,
    DeviceResult, FailureResult, HostResponseClass, HostResponses, SeriesOverTime, SeriesPoint,
};
use super::setup::{DeviceSetup, SetupError};
use super::streams::StreamResult;
use super::wear::CacheWear;
use crate::experiment::PassEnd;
use crate::measure::{
    LatencyHistogram, ParamValue, ResultVersion, TimeSeries, VolumeFigures, distribution, per_second, ratio,
};

/// Names the option with which all blocks of a trace lie on an array, if it has room for them.
const FITS: &str = "--lba-overflow compact";

impl ArrayExperiment {
    /// Makes a run's result of what it found.
    ///
    /// # Errors
    /// If it stalled, or measured nothing.
    pub(super) fn result(
        &self,
        combination: &ArrayCombination,
        geometry: &Geometry,
        outcomes: ArrayOutcomes,
        end: &PassEnd,
    ) -> Result<ArrayResult, ArrayError> {
        let &ArrayCombination { ref policy, cache, scheduler } = combination;
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

    /// Returns how long the cache device lasts, if there is one and it is known what it endures.
    fn cache_wear(
        &self,
        policy: &HostCacheSpec,
        outcomes: &ArrayOutcomes,
        geometry: &Geometry,
        served: Nanos,
    ) -> Option<CacheWear> {
        let endurance = self.cache_endurance.filter(|_| policy.info().medium == CacheMedium::Device)?;
        let index = usize::from(geometry.members());
        let (before, after) = (&outcomes.before.devices[index], &outcomes.answered.devices[index]);
        let pages = match self.cache_device {
            DeviceSetup::Ssd { .. } => after.1.flash.flash_writes - before.1.flash.flash_writes,
            DeviceSetup::Disk { .. } | DeviceSetup::Fixed(_) => after.0.pages_written - before.0.pages_written,
        };
        Some(CacheWear::of(endurance, pages * self.replay.geometry.page_bytes(), served.0))
    }

    fn devices(&self, outcomes: &ArrayOutcomes, geometry: &Geometry, served: Nanos) -> Vec<DeviceResult> {
        let ArrayOutcomes { before, answered, after, .. } = outcomes;
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
                streams: outcomes.placed[index].as_ref().map(|placed| StreamResult::all(&model.streams, placed)),
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

fn responses(by_op: &[LatencyHistogram; 4]) -> HostResponses {
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

fn claims(outcomes: &ArrayOutcomes) -> Vec<ClaimResult> {
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

fn collections(outcomes: &ArrayOutcomes, geometry: &Geometry) -> Option<CollectionsResult> {
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

fn degraded(outcomes: &ArrayOutcomes, geometry: &Geometry) -> Option<DegradedResult> {
    if outcomes.failures.is_empty() {
        return None;
    }
    let [healthy, degraded, rebuilding] = &outcomes.phases;
    let summary = |latency: &LatencyHistogram| latency.summary().filter(|_| outcomes.saturated.is_none());
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

fn series(series: &TimeSeries, start: Nanos) -> SeriesOverTime {
    let bins = series.bins().iter().map(SeriesPoint::from);
    SeriesOverTime { start: start.0, width: series.width().0, bins: bins.collect() }
}
