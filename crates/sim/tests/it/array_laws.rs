//! Tests laws that hold for every run over an array.

use destage_plan::{Nanos, Op, PageNo, Request};
use destage_raid::RaidLevel;
use destage_sim::array::{ArrayExperiment, ArrayResult, DeviceSetup, FixedTimes};
use destage_sim::disk::DiskScheduler;
use destage_sim::experiment::DeviceCapacity;
use destage_sim::input::{HostModel, SubpageWrites, TrimMode, WarmupPart};
use destage_sim::measure::LatencySummary;
use destage_sim::ssd::{Ssd, StartState};
use proptest::prelude::*;

use crate::arrays::{self, PAGE, disks, experiment, fail, mixed, replace, run, run_one, try_run};
use crate::in_memory::{flush, read, write};

/// Many more cases when the time is there.
fn cases(few: u32) -> ProptestConfig {
    let cases = if std::env::var_os("DESTAGE_SOAK").is_some() { few * 50 } else { few };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

const LEVELS: [(RaidLevel, u32); 6] = [
    (RaidLevel::Raid0, 1),
    (RaidLevel::Raid0, 3),
    (RaidLevel::Raid1, 2),
    (RaidLevel::Raid4, 4),
    (RaidLevel::Raid5, 5),
    (RaidLevel::Raid6, 6),
];

/// Nanoseconds that were summed up in floating point.
fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) + 1.0
}

fn sum(summary: Option<&LatencySummary>) -> f64 {
    summary.map_or(0.0, |s| s.mean * s.count as f64)
}

/// Checks the laws that hold for any requests, as long as no device failed.
fn sound(experiment: &ArrayExperiment, result: &ArrayResult, requests: u64) {
    let c = &result.counters;
    assert_eq!(c.requests + result.context.warmup_requests, requests);
    assert_eq!(c.requests, c.read_requests + c.write_requests + c.flush_requests + c.discard_requests);
    assert_eq!(c.failed_requests, 0);
    assert_eq!(result.series.bins.iter().map(|bin| bin.requests).sum::<u64>(), c.requests);
    assert!(result.served_time <= result.simulated_time);
    if let Some(response) = &result.response {
        let answered = |s: &Option<LatencySummary>| s.as_ref().map_or(0, |s| s.count);
        assert_eq!(answered(&response.read), c.read_requests);
        assert_eq!(answered(&response.write), c.write_requests);
        let classes = &response.distribution;
        assert_eq!(classes.iter().map(|class| class.reads).sum::<u64>(), c.read_requests);
        assert_eq!(classes.iter().map(|class| class.writes).sum::<u64>(), c.write_requests);
        assert_eq!(answered(&response.flush), c.flush_requests);
        assert_eq!(answered(&response.discard), c.discard_requests);
        if result.context.warmup_requests == 0 {
            let all = sum(response.all.as_ref()) + sum(response.flush.as_ref()) + sum(response.discard.as_ref());
            let area = result.mean_outstanding.unwrap_or(0.0) * result.served_time as f64;
            assert!(near(all, area), "Little's law of the host: {all} {area}");
        }
    }
    let members = &result.devices[..result.array.members as usize];
    let pages = |f: fn(&destage_sim::array::DeviceCounters) -> u64| members.iter().map(|d| f(&d.counters)).sum::<u64>();
    if result.context.warmup_requests == 0 {
        let traffic = &result.traffic;
        assert_eq!(pages(|d| d.pages_read), traffic.data_reads + traffic.parity_reads);
        assert_eq!(pages(|d| d.pages_written), traffic.data_writes + traffic.parity_writes);
        assert_eq!(pages(|d| d.pages_trimmed), traffic.data_trims + traffic.parity_trims);
    }
    for device in &result.devices {
        let d = &device.counters;
        assert_eq!(d.commands, d.reads + d.writes + d.flushes + d.trims);
        assert_eq!(d.failed_steps, 0);
        assert_eq!(device.wear.is_some(), device.model == "ssd");
        if device.model != "ssd" {
            assert!(device.busy_time <= result.simulated_time, "{} is busy longer than there is time", device.device);
            assert!(device.served_busy_time <= result.served_time, "{} is busy longer than served", device.device);
        }
        assert!(device.served_busy_time <= device.busy_time);
        if result.context.warmup_requests == 0 {
            // What was under way at the last answer is there for a part of its time only.
            let (area, all) = (device.mean_queue.unwrap_or(0.0) * result.served_time as f64, d.residence_time as f64);
            let alike = result.served_time < result.simulated_time || near(area, all);
            assert!(alike && (area <= all || near(area, all)), "Little's law of {}: {area} {all}", device.device);
        }
        assert!(device.mean_queue.unwrap_or(0.0) <= device.longest_queue as f64);
        assert!(device.model == "ssd" || device.busy_time <= d.residence_time, "a command is served while it is there");
    }
    if let Some(cache) = &result.cache {
        let device = result.devices.last().expect("the cache device");
        assert_eq!(device.counters.pages_written, cache.pages.read_fills + cache.pages.write_fills);
        assert_eq!(device.counters.pages_read, cache.pages.read_hits);
        assert_eq!(result.cache_bytes, Some(experiment.caches[0]));
    }
    assert!(result.degraded.is_none());
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn every_request_is_answered_and_every_page_accounted_for(
        seed: u64,
        level in 0..LEVELS.len(),
        on_disks: bool,
        closed in prop::option::of(1..64_u32),
        exact: bool,
        ignore_trim: bool,
        depth in 1..64_usize,
        gap in prop::sample::select(vec![20_000_u64, 300_000, 5_000_000]),
        merge in prop::sample::select(vec![1_u32, 4, 128]),
    ) {
        let (level, members) = LEVELS[level];
        let mut experiment = experiment(level, members, &["none", "write-through:ways=16"]);
        if on_disks {
            experiment.member = disks();
            experiment.schedulers = DiskScheduler::ALL.to_vec();
        }
        if let Some(depth) = closed {
            experiment.host.host = HostModel::Closed { depth };
        }
        experiment.host.subpage = if exact { SubpageWrites::Rmw } else { SubpageWrites::Promote };
        experiment.host.trim = if ignore_trim { TrimMode::Ignore } else { TrimMode::Honour };
        experiment.service.depth = depth;
        experiment.service.times.merge_pages = merge;
        let requests = mixed(seed, 300, 2_000, gap);
        let results = run(&experiment, &requests);
        prop_assert_eq!(results.len(), if on_disks { 8 } else { 2 });
        for result in &results {
            sound(&experiment, result, 300);
            prop_assert_eq!(result.saturated.is_some(), result.response.is_none());
        }
        // Sub-page steps are only made where sectors were asked for.
        if !exact {
            prop_assert!(results.iter().all(|r| r.steps.merge == 0));
        }
    }

    #[test]
    fn a_lost_member_costs_no_answer(
        seed: u64,
        level in 2..LEVELS.len(),
        victim in 0..2_u8,
        cached: bool,
        closed: bool,
    ) {
        let (level, members) = LEVELS[level];
        let policy = if cached { "write-through" } else { "none" };
        let mut experiment = experiment(level, members, &[policy]);
        experiment.array.member_bytes = Some(256 * PAGE);
        if closed {
            experiment.host.host = HostModel::Closed { depth: 8 };
        }
        experiment.injections = vec![replace(victim, Nanos(60_000_000)), fail(victim, Nanos(20_000_000))];
        let result = run_one(&experiment, &mixed(seed, 400, 700, 200_000));
        // Faster than the array can serve them, so that there is a backlog when the member fails.
        prop_assert_eq!(result.counters.requests, 400);
        prop_assert_eq!(result.counters.failed_requests, 0);
        let degraded = result.degraded.expect("a member failed");
        let [failure] = &degraded.failures[..] else { panic!("one failure") };
        prop_assert_eq!(&failure.device, &victim.to_string());
        prop_assert_eq!(failure.failed_at, 20_000_000);
        prop_assert_eq!(failure.replaced_at, Some(60_000_000));
        let rebuilt = failure.rebuilt_at.expect("the rebuild ends");
        prop_assert_eq!(failure.rebuild_time, Some(rebuilt - 60_000_000));
        prop_assert!(result.traffic.rebuilt_rows >= 256, "{}", result.traffic.rebuilt_rows);
        prop_assert!(result.traffic.rebuild_writes >= result.traffic.rebuilt_rows);
        prop_assert_eq!(degraded.degraded_time, rebuilt - 20_000_000);
        prop_assert!(degraded.rebuild_time <= rebuilt - 60_000_000);
        let count = |s: &Option<LatencySummary>| s.as_ref().map_or(0, |s| s.count);
        let reads_and_writes = result.counters.read_requests + result.counters.write_requests;
        let answered = count(&degraded.healthy) + count(&degraded.degraded) + count(&degraded.rebuilding);
        prop_assert_eq!(answered, if result.saturated.is_some() { 0 } else { reads_and_writes });
        prop_assert!(result.saturated.is_some() || count(&degraded.degraded) > 0);
        prop_assert_eq!(result.array.members as usize + usize::from(cached), result.devices.len());
    }
}

#[test]
fn more_losses_than_the_level_can_do_without_are_told() {
    let mut experiment = experiment(RaidLevel::Raid5, 4, &["none"]);
    experiment.injections = vec![fail(0, Nanos(10_000_000)), fail(2, Nanos(30_000_000))];
    let result = run_one(&experiment, &mixed(5, 500, 3_000, 200_000));
    let failed = result.counters.failed_requests;
    assert!(failed > 0 && failed < 500, "{failed}");
    let degraded = result.degraded.expect("members failed");
    assert_eq!(degraded.failures.len(), 2);
    assert!(degraded.failures.iter().all(|failure| failure.rebuilt_at.is_none() && failure.replaced_at.is_none()));
}

#[test]
fn a_member_that_fails_while_it_is_filled_was_not_rebuilt() {
    const MS: u64 = 1_000_000;
    let at = |ms: u64| Nanos(ms * MS);
    let mut experiment = experiment(RaidLevel::Raid5, 4, &["none"]);
    let requests = [write(0, 0, 1), read(6_000, 0, 1)];
    experiment.injections = vec![fail(1, at(1)), replace(1, at(2)), fail(1, at(3)), replace(1, at(5))];
    let failures = run_one(&experiment, &requests).degraded.expect("a member failed").failures;
    let [first, second] = &failures[..] else { panic!("two failures") };
    assert_eq!((first.failed_at, first.replaced_at), (MS, Some(2 * MS)));
    assert_eq!((first.rebuilt_at, first.rebuild_time), (None, None));
    assert_eq!((second.failed_at, second.replaced_at), (3 * MS, Some(5 * MS)));
    let filled = second.rebuilt_at.expect("the rebuild ends");
    assert_eq!(second.rebuild_time, Some(filled - 5 * MS));
    // Once it is whole, a failure is another story.
    experiment.injections.push(fail(1, Nanos(filled + MS)));
    experiment.injections.push(replace(1, Nanos(filled + 2 * MS)));
    let failures = run_one(&experiment, &requests).degraded.expect("a member failed").failures;
    assert_eq!(failures.iter().map(|f| f.rebuilt_at.is_some()).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(failures[1].rebuilt_at, Some(filled));
}

#[test]
fn a_broken_array_rebuilds_nothing() {
    const MS: u64 = 1_000_000;
    let mut experiment = experiment(RaidLevel::Raid5, 4, &["none"]);
    experiment.injections = vec![fail(1, Nanos(MS)), replace(1, Nanos(2 * MS)), fail(2, Nanos(3 * MS))];
    let requests: Vec<_> = (0..60).map(|i| read(i * 1_000, i * 13 % 3_000, 1)).collect();
    let result = run_one(&experiment, &requests);
    let degraded = result.degraded.expect("members failed");
    assert_eq!(degraded.rebuild_time, MS, "from the replacement to the second loss");
    assert_eq!(degraded.degraded_time, result.simulated_time - MS);
    assert!(degraded.failures.iter().all(|failure| failure.rebuilt_at.is_none()));
    assert!(result.counters.failed_requests > 0);
    assert!(result.simulated_time < 70 * MS, "nothing is left to be waited for");
}

#[test]
fn loads_refer_to_the_time_of_the_rates() {
    let mut experiment = experiment(RaidLevel::Raid0, 1, &["write-through"]);
    let DeviceSetup::Fixed(times) = experiment.member else { panic!("members of constant times") };
    assert_eq!((times.read + times.page, times.write + times.page), (Nanos(102_000), Nanos(152_000)));
    experiment.cache_device = DeviceSetup::Fixed(times);
    // Read from 0 to 102 and from 110 to 212 µs; filled from 102 to 254 and then to 406 µs.
    let result = run_one(&experiment, &[read(0, 0, 1), read(110, 9, 1)]);
    assert_eq!((result.served_time, result.simulated_time), (212_000, 406_000));
    assert_eq!(result.requests_per_second, Some(2.0 / 212e-6));
    assert_eq!(result.mean_outstanding, Some(204.0 / 212.0));
    let [member, cache] = &result.devices[..] else { panic!("two devices") };
    assert_eq!((member.busy_time, member.served_busy_time), (204_000, 204_000));
    assert_eq!((member.busy_share, member.mean_queue), (Some(204.0 / 212.0), Some(204.0 / 212.0)));
    assert_eq!((cache.busy_time, cache.served_busy_time), (304_000, 110_000));
    assert_eq!((cache.busy_share, cache.mean_queue), (Some(110.0 / 212.0), Some(110.0 / 212.0)));
}

#[test]
fn a_command_of_an_ssd_is_load_once_it_is_done() {
    let experiment = experiment(RaidLevel::Raid0, 1, &["write-through"]);
    let mut ssd = Ssd::new(arrays::ssd_shape(arrays::small_ssd()), StartState::Full);
    ssd.program(Nanos(102_000), PageNo(0));
    let filled = ssd.total().busy_time.0;
    ssd.read(Nanos(10_000_000), PageNo(0));
    let hit = ssd.total().busy_time.0;
    let [miss, both] =
        [1, 2].map(|n| run_one(&experiment, &[read(0, 0, 1), read(10_000, 0, 1)][..n]).devices.remove(1));
    assert_eq!((miss.served_busy_time, miss.busy_time, miss.busy_share), (0, filled, Some(0.0)));
    assert_eq!((both.served_busy_time, both.busy_time), (hit, hit));
    assert!(filled > 0 && hit > filled);
}

#[test]
fn a_rebuild_after_the_trace_is_no_load_of_its_requests() {
    let mut experiment = experiment(RaidLevel::Raid5, 4, &["none"]);
    let requests: Vec<_> = (0..20).map(|i| read(i * 1_000, i * 13 % 3_000, 1)).collect();
    let whole = run_one(&experiment, &requests);
    experiment.injections = vec![fail(1, Nanos(1_000_000_000)), replace(1, Nanos(2_000_000_000))];
    let rebuilt = run_one(&experiment, &requests);
    assert_eq!(rebuilt.served_time, whole.served_time);
    for (whole, rebuilt) in whole.devices.iter().zip(&rebuilt.devices) {
        assert_eq!((rebuilt.busy_share, rebuilt.mean_queue), (whole.busy_share, whole.mean_queue));
        assert!(rebuilt.busy_time > whole.busy_time);
    }
    // Nor is it traffic of theirs: three members are read for each row, and one is written.
    let (before, after) = (&whole.traffic, &rebuilt.traffic);
    assert_eq!((before.rebuild_reads, before.rebuild_writes), (0, 0));
    assert_eq!((after.rebuilt_rows, after.rebuild_reads, after.rebuild_writes), (1_024, 3 * 1_024, 1_024));
    let of_requests =
        |t: &destage_sim::array::ArrayTraffic| (t.data_reads, t.parity_reads, t.data_writes, t.parity_writes);
    assert_eq!(of_requests(before), of_requests(after));
    let pages =
        |f: fn(&destage_sim::array::DeviceCounters) -> u64| rebuilt.devices.iter().map(|d| f(&d.counters)).sum::<u64>();
    assert_eq!(pages(|d| d.pages_read), after.data_reads + after.parity_reads + after.rebuild_reads);
    assert_eq!(pages(|d| d.pages_written), after.data_writes + after.parity_writes + after.rebuild_writes);
}

#[test]
fn a_rebuild_of_disks_fills_what_the_trace_uses() {
    let mut experiment = experiment(RaidLevel::Raid5, 4, &["none"]);
    experiment.member = disks();
    experiment.array.member_bytes = None;
    experiment.replay.capacity = DeviceCapacity::Fit;
    experiment.injections = vec![fail(1, Nanos(1_000_000_000)), replace(1, Nanos(2_000_000_000))];
    let rebuilt = |experiment: &ArrayExperiment, requests: &[Request]| {
        let result = run_one(experiment, requests);
        assert!(result.degraded.expect("a member failed").failures[0].rebuilt_at.is_some());
        let traffic = result.traffic;
        assert_eq!((traffic.rebuild_reads, traffic.rebuild_writes), (3 * traffic.rebuilt_rows, traffic.rebuilt_rows));
        traffic.rebuilt_rows
    };
    // Blocks have 64 pages, stripes 12 in 4 rows. Block 0 is in stripes 0 to 5, block 15,625 (pages 1,000,000 to 1,000,063)
    // in stripes 83,333 to 83,338.
    let near = [write(0, 1, 1), read(10_000, 1_000_001, 1)];
    assert_eq!(rebuilt(&experiment, &near), 6 * 4 + 6 * 4);
    // Beyond the disks blocks lie side by side: two take 11 stripes.
    let far = [near[0], Request { volume: 1, ..near[1] }];
    assert_eq!(rebuilt(&experiment, &far), 11 * 4);
    // Whoever says how large the members are has all of that rebuilt.
    experiment.array.member_bytes = Some(1024 * PAGE);
    assert_eq!(rebuilt(&experiment, &near[..1]), 1_024);
    experiment.replay.capacity = DeviceCapacity::Given;
    assert_eq!(rebuilt(&experiment, &near[..1]), 1_024);
}

#[test]
fn ssds_tell_of_pages_that_they_do_not_hold() {
    let mut experiment = experiment(RaidLevel::Raid0, 1, &["none"]);
    let requests = [write(0, 0, 2), read(10_000, 0, 4), read(20_000, 100, 1)];
    for (start, unmapped) in [(StartState::Empty, 3), (StartState::Full, 0)] {
        experiment.member = DeviceSetup::Ssd { config: arrays::small_ssd(), start };
        assert_eq!(run_one(&experiment, &requests).devices[0].flash.unmapped_reads, Some(unmapped));
    }
    experiment.member = disks();
    assert_eq!(run_one(&experiment, &requests).devices[0].flash.unmapped_reads, None);
}

#[test]
fn a_warm_up_until_a_time_goes_by_the_clock_of_the_simulation() {
    // Whatever the trace says: a read takes 102 µs, and the eleventh is the first that is issued
    // after a millisecond.
    for gap in [0, 1, 1_000_000] {
        let requests: Vec<_> = (0..30).map(|i| read(i * gap, i, 1)).collect();
        let mut experiment = experiment(RaidLevel::Raid0, 1, &["none"]);
        experiment.host.host = HostModel::Closed { depth: 1 };
        experiment.host.warmup = WarmupPart::Time(Nanos(1_000_000));
        let result = run_one(&experiment, &requests);
        assert_eq!((result.context.warmup_requests, result.counters.requests), (10, 20));
        assert_eq!(result.series.start, 1_020_000);
        experiment.host.warmup = WarmupPart::Time(Nanos(4_000_000));
        assert!(try_run(&experiment, 1, &requests).is_err_and(|error| error.to_string().contains("warmup")));
    }
}

#[test]
fn arrivals_come_after_all_completions_of_their_time() {
    // Members 0 and 1 complete at the same time; what follows for member 1 must not find its first
    // command there.
    let requests = [read(0, 0, 1), read(0, 4, 1), read(0, 5, 1), read(0, 1, 1)];
    let mut closed = experiment(RaidLevel::Raid0, 2, &["none"]);
    closed.host.host = HostModel::Closed { depth: 2 };
    let mut held_back = experiment(RaidLevel::Raid0, 2, &["none"]);
    held_back.host.max_backlog = 2;
    for experiment in [closed, held_back] {
        let result = run_one(&experiment, &requests);
        assert_eq!(result.served_time, 204_000);
        assert_eq!(result.devices.iter().map(|d| d.longest_queue).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(result.series.bins.iter().map(|bin| bin.backlog_sum).sum::<u64>(), 2, "0, 1, and again 0, 1");
    }
}

#[test]
fn memory_is_granted_before_it_is_taken() {
    let mut experiment = experiment(RaidLevel::Raid5, 4, &["write-through"]);
    experiment.cache_device = DeviceSetup::Fixed(FixedTimes::default());
    experiment.caches = vec![1 << 50];
    let message = experiment.check().expect_err("a cache of a pebibyte").to_string();
    assert!(message.contains("cache: a cache of 274877906944 pages"), "{message}");
    // The largest that there can be: its frames alone would take more than 50 GB.
    experiment.caches = vec![1 << 43];
    experiment.check().expect("nothing but memory is missing");
    let (runs, bytes) = experiment.weight().expect("it can be");
    assert_eq!((runs, bytes >> 35), (1, 2), "64 to 96 GiB");
    let message = try_run(&experiment, 1, &[write(0, 0, 1)]).expect_err("too much memory").to_string();
    assert!(message.contains("memory grants 1073741824 B") && message.contains("smaller cache"), "{message}");
}

#[test]
fn a_lost_cache_costs_hits_only() {
    let requests: Vec<_> = (0..400).map(|i| read(i * 1_000, i % 100, 1)).collect();
    let mut experiment = experiment(RaidLevel::Raid5, 4, &["write-through"]);
    let whole = run_one(&experiment, &requests);
    assert_eq!(whole.cache.as_ref().expect("a cache").pages.read_hits, 300);
    experiment.injections = vec![fail(4, Nanos(200_000_000))];
    let lost = run_one(&experiment, &requests);
    assert_eq!(lost.cache.as_ref().expect("a cache").pages.read_hits, 100, "the requests until the failure");
    assert_eq!((lost.counters.failed_requests, lost.traffic.data_reads), (0, 300));
    experiment.injections.push(replace(4, Nanos(300_000_000)));
    let back = run_one(&experiment, &requests);
    let hits = back.cache.as_ref().expect("a cache").pages.read_hits;
    assert_eq!(hits, 100, "the new one is cold, and the trace ends before it is warm");
    let degraded = back.degraded.expect("the cache failed");
    assert_eq!((degraded.degraded_time, degraded.failures[0].rebuilt_at), (0, None));
}

#[test]
fn the_same_on_any_number_of_threads() {
    let mut experiment = experiment(RaidLevel::Raid6, 5, &["none", "write-through", "write-through:ways=8"]);
    experiment.member = disks();
    experiment.schedulers = DiskScheduler::ALL.to_vec();
    experiment.caches = vec![64 * PAGE, 256 * PAGE];
    experiment.injections = vec![fail(1, Nanos(500_000_000)), replace(1, Nanos(1_500_000_000))];
    let requests = mixed(11, 1_000, 3_000, 3_000_000);
    let json = |threads| {
        let report = try_run(&experiment, threads, &requests).expect("the experiment is sound");
        assert_eq!(report.results.len(), 4 + 2 * 2 * 4);
        serde_json::to_string(&report.results).expect("JSON")
    };
    let one = json(1);
    assert!(one == json(4));
    assert!(one == json(1));
}

#[test]
fn an_overloaded_array_is_saturated_and_ends() {
    let mut experiment = experiment(RaidLevel::Raid5, 4, &["none"]);
    experiment.host.max_backlog = 50;
    let requests: Vec<_> = (0..5_000).map(|i| write(i, i * 7 % 3_000, 1)).collect();
    let result = run_one(&experiment, &requests);
    assert!(result.saturated.is_some() && result.response.is_none());
    assert_eq!(result.counters.requests, 5_000);
    assert!(result.mean_outstanding.expect("time passed") <= 50.0);
    assert!(result.series.bins.iter().all(|bin| bin.write_response_sum == 0));
}

#[test]
fn a_warm_up_is_not_measured() {
    let requests: Vec<_> = (0..300).map(|i| read(i * 5_000, i % 100, 1)).collect();
    let mut experiment = experiment(RaidLevel::Raid5, 4, &["write-through"]);
    experiment.host.warmup = WarmupPart::Requests(100);
    let result = run_one(&experiment, &requests);
    assert_eq!((result.context.warmup_requests, result.counters.requests), (100, 200));
    let cache = result.cache.as_ref().expect("a cache");
    assert_eq!((cache.pages.read_hits, cache.pages.read_misses), (200, 0));
    assert_eq!(result.traffic.data_reads, 0);
    assert_eq!(result.devices[..4].iter().map(|d| d.counters.commands).sum::<u64>(), 0);
    sound(&experiment, &result, 300);
    experiment.host.warmup = WarmupPart::Requests(301);
    assert!(try_run(&experiment, 1, &requests).is_err_and(|error| error.to_string().contains("warmup")));
}

#[test]
fn addresses_beyond_the_array_wrap() {
    let experiment = experiment(RaidLevel::Raid5, 4, &["none"]);
    // The last page and the first.
    let result = run_one(&experiment, &[write(0, 3 * 1024 - 1, 2), flush(1_000_000), read(2_000_000, 3 * 1024, 1)]);
    assert_eq!(result.context.input.overflowed_requests, 2);
    assert_eq!((result.counters.requests, result.traffic.data_writes), (3, 2));
    assert_eq!(result.response.and_then(|r| r.write).map(|w| w.count), Some(1), "two parts, one answer");
}

#[test]
fn sectors_are_merged_only_where_asked() {
    let mut experiment = experiment(RaidLevel::Raid0, 2, &["none"]);
    let sectors = |first: u64, count: u64| Request {
        time: Nanos::ZERO,
        offset: first * 512,
        len: count * 512,
        volume: 0,
        op: Op::Write,
        fua: false,
    };
    // From the middle of page 0 to the middle of page 3.
    let requests = [sectors(4, 24)];
    let promoted = run_one(&experiment, &requests);
    assert_eq!((promoted.steps.merge, promoted.traffic.data_reads, promoted.traffic.data_writes), (0, 0, 4));
    experiment.host.subpage = SubpageWrites::Rmw;
    let exact = run_one(&experiment, &requests);
    assert_eq!((exact.steps.merge, exact.traffic.data_reads, exact.traffic.data_writes), (2, 2, 4));
}

#[test]
fn no_device_without_time_stops_the_clock() {
    let mut experiment = experiment(RaidLevel::Raid5, 4, &["none", "write-through"]);
    experiment.member = DeviceSetup::Fixed(FixedTimes::default());
    experiment.service.times.nv_note = Nanos::ZERO;
    experiment.service.times.nv_write = Nanos::ZERO;
    for result in run(&experiment, &mixed(3, 500, 3_000, 1_000)) {
        assert_eq!(result.counters.failed_requests, 0);
        if result.policy == "none" {
            let all = result.response.and_then(|r| r.all).expect("reads and writes");
            assert_eq!(all.max, 0);
        }
    }
}

#[test]
fn what_cannot_be_is_refused_by_its_key() {
    let refused = |change: &dyn Fn(&mut ArrayExperiment)| {
        let mut experiment = experiment(RaidLevel::Raid5, 4, &["none", "write-through"]);
        change(&mut experiment);
        let checked = experiment.check().expect_err("it cannot be").to_string();
        let run = try_run(&experiment, 1, &[write(0, 0, 1)]).map(|report| report.results.len());
        assert_eq!(run.expect_err("it cannot be").to_string(), checked);
        checked
    };
    let expect = |change: &dyn Fn(&mut ArrayExperiment), parts: &[&str]| {
        let message = refused(change);
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    expect(&|e| e.array.members = 2, &["array = raid5:2", "between 3 and 32"]);
    expect(&|e| e.array.members = 30, &["array", "24"]);
    expect(&|e| e.array.chunk_bytes = 0, &["chunk = 0", "multiple of the page"]);
    expect(&|e| e.array.chunk_bytes = 5000, &["chunk = 5000"]);
    expect(&|e| e.array.member_bytes = Some(100), &["member-size"]);
    expect(&|e| e.array.member_bytes = None, &["member-size is missing"]);
    expect(&|e| e.array.layout = Some(destage_raid::ParityLayout::LeftSymmetric6), &["layout", "left-symmetric"]);
    expect(
        &|e| {
            e.member = DeviceSetup::Ssd { config: arrays::small_ssd(), start: StartState::Full };
            e.array.member_bytes = Some(1 << 40);
        },
        &["member-size", "ssd"],
    );
    expect(&|e| e.caches.clear(), &["write-through", "cache"]);
    expect(&|e| e.caches = vec![100], &["cache = 100"]);
    expect(&|e| e.caches = vec![1 << 40], &["cache = 1099511627776", "ssd"]);
    expect(&|e| e.policies.truncate(1), &["cache has no meaning"]);
    expect(&|e| e.service.nv_slots = 3, &["NVRAM slots"]);
    expect(&|e| e.injections = vec![fail(9, Nanos(1))], &["fail = 9@", "0 to 3 and cache"]);
    expect(&|e| e.injections = vec![fail(4, Nanos(1))], &["fail = cache@", "not every policy"]);
    expect(&|e| e.injections = vec![replace(1, Nanos(1))], &["replace = 1@", "failed by then"]);
    expect(&|e| e.injections = vec![fail(1, Nanos(1)), fail(1, Nanos(2))], &["fail = 1@", "failed before"]);
    expect(&|e| e.injections = vec![fail(1, Nanos(1)), replace(1, Nanos(1))], &["replace = 1@", "later time"]);
}
