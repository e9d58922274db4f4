//! Parity that caches leave behind, and what they write to their device: how much, for how long, why.

use destage_plan::Request;
use destage_raid::RaidLevel;
use destage_sim::array::{ArrayExperiment, ArrayResult, DeviceSetup, FixedTimes};
use destage_sim::input::WarmupPart;

use crate::arrays::{PAGE, experiment, mixed, run_one};
use crate::in_memory::{read, write};

const CACHES: [&str; 2] = ["leavo", "kdd"];

fn caching(policy: &str, level: RaidLevel, members: u32) -> ArrayExperiment {
    ArrayExperiment { caches: vec![256 * PAGE], ..experiment(level, members, &[policy]) }
}

/// A page is written; after 5 ms once more, and the cache, which has its first frames ready by now, has it;
/// after 10 ms again, which leaves its parity behind. After 3 s another is read.
fn written_again() -> [Request; 4] {
    [write(0, 0, 1), write(5_000, 0, 1), write(10_000, 0, 1), read(3_000_000, 900, 1)]
}

fn figure(result: &ArrayResult, name: &str) -> u64 {
    let cache = serde_json::to_value(result.cache.as_ref().expect("a cache")).expect("JSON");
    cache[name].as_u64().unwrap_or_else(|| panic!("{name} is counted"))
}

/// Expects the cleaning a second after the write, in some reads and a write of a member.
#[test]
fn a_row_is_behind_until_it_is_cleaned() {
    for policy in CACHES {
        let result = run_one(&caching(policy, RaidLevel::Raid5, 4), &written_again());
        let debt = result.parity_debt.as_ref().expect("it leaves parity behind");
        assert_eq!((debt.rows_left, debt.rows_max, debt.rows_owed), (1, 1, 0), "{policy}");
        let age = debt.mean_age.expect("a row was behind");
        assert!((1e9..1.002e9).contains(&age), "{policy}: {age}");
        let mean = debt.rows_mean.expect("time passed");
        assert!((mean * result.simulated_time as f64 - age).abs() < 1.0, "{policy}: {mean}");
        let traffic = &result.traffic;
        assert_eq!((traffic.delayed_writes, traffic.late_parity_writes), (1, 1), "{policy}");
        // One modified, of which the cache has the old and the new data.
        assert_eq!((traffic.late_data_reads, traffic.late_parity_reads), (0, 1), "{policy}");
        assert_eq!(traffic.parity_writes, 3, "{policy}: twice at once, and when cleaning");
        // From 10 ms to 1.01 s of 3 s.
        let behind: Vec<_> = debt.bins.iter().map(|bin| bin.stale_rows_mean > 0.0).collect();
        let (first, last) =
            (behind.iter().position(|it| *it).expect("a bin"), behind.iter().rposition(|it| *it).expect("a bin"));
        let at = |bin: usize| bin as u64 * debt.width;
        assert!(at(first) <= 10_000_000 && at(first + 1) > 10_000_000, "{policy}");
        assert!((1_005_000_000..1_025_000_000).contains(&at(last + 1)), "{policy}");
        assert!(at(debt.bins.len()) >= result.simulated_time && debt.bins.len() <= 256);
    }
}

#[test]
fn what_is_owed_at_the_end_is_told() {
    for policy in CACHES {
        let result = run_one(&caching(policy, RaidLevel::Raid6, 5), &written_again()[..3]);
        let debt = result.parity_debt.as_ref().expect("it leaves parity behind");
        assert_eq!((debt.rows_left, debt.rows_owed), (1, 1), "{policy}");
        assert_eq!((result.traffic.late_parity_writes, result.traffic.parity_writes), (0, 4), "{policy}");
        // What was left behind before the measured part is there in it, but was not left in it.
        let mut experiment = caching(policy, RaidLevel::Raid6, 5);
        experiment.host.warmup = WarmupPart::Requests(3);
        let mut requests = written_again();
        for (time, rows) in [(3_000, 0), (20, 1)] {
            requests[3] = read(time * 1000, 900, 1);
            let debt = run_one(&experiment, &requests).parity_debt.expect("it leaves parity behind");
            assert_eq!((debt.rows_left, debt.rows_max, debt.rows_owed), (0, rows, rows), "{policy}: after {time} ms");
            assert_eq!((debt.rows_mean, debt.mean_age), (Some(rows as f64), None), "{policy}");
        }
    }
    for policy in ["none", "write-around", "write-through"] {
        let mut experiment = caching(policy, RaidLevel::Raid5, 4);
        experiment.caches.retain(|_| policy != "none");
        let result = run_one(&experiment, &written_again());
        assert_eq!((result.parity_debt, result.traffic.delayed_writes), (None, 0), "{policy}");
    }
}

/// Expects the same requests and response times as without the drain.
#[test]
fn what_is_owed_is_paid_at_the_end_if_that_is_wanted() {
    for policy in ["none", "write-around", "write-through", "write-back", "leavo", "kdd"] {
        let mut experiment = caching(policy, RaidLevel::Raid6, 5);
        experiment.caches.retain(|_| policy != "none");
        let owing = run_one(&experiment, &written_again()[..3]);
        experiment.host.drain = true;
        let paid = run_one(&experiment, &written_again()[..3]);
        assert_eq!((owing.served_time, &owing.response), (paid.served_time, &paid.response), "{policy}");
        let written = |result: &ArrayResult| (result.traffic.data_writes, result.traffic.parity_writes);
        let expected = match policy {
            "leavo" | "kdd" => ((3, 4), (3, 6)),
            // The first write comes before there are frames; the others are answered from the SSD, and leave one page dirty.
            "write-back" => ((1, 2), (2, 4)),
            _ => ((3, 6), (3, 6)),
        };
        assert_eq!((written(&owing), written(&paid)), expected, "{policy}");
        if CACHES.contains(&policy) {
            let owed = |result: &ArrayResult| result.parity_debt.as_ref().map(|debt| (debt.rows_left, debt.rows_owed));
            assert_eq!((owed(&owing), owed(&paid)), (Some((1, 1)), Some((1, 0))), "{policy}");
            assert_eq!((owing.traffic.late_parity_writes, paid.traffic.late_parity_writes), (0, 2), "{policy}");
        } else if policy != "write-back" {
            assert_eq!(owing, paid, "{policy}: nothing is owed");
        }
        let commands = |result: &ArrayResult| result.devices.iter().map(|device| device.counters.writes).sum::<u64>();
        assert_eq!(commands(&paid) > commands(&owing), CACHES.contains(&policy) || policy == "write-back", "{policy}");
    }
}

#[test]
fn sums_agree_with_each_other() {
    for (policy, level, members) in [
        ("leavo", RaidLevel::Raid5, 4),
        ("kdd", RaidLevel::Raid6, 5),
        ("kdd", RaidLevel::Raid5, 5),
        ("ggc+kdd", RaidLevel::Raid5, 4),
    ] {
        let mut experiment = caching(policy, level, members);
        experiment.caches = vec![128 * PAGE];
        if policy.starts_with("ggc") {
            experiment.member = experiment.cache_device.clone();
        }
        for warmup in [WarmupPart::None, WarmupPart::Requests(300)] {
            experiment.host.warmup = warmup;
            let result = run_one(&experiment, &mixed(7, 1500, 400, 2_000_000));
            let debt = result.parity_debt.as_ref().expect("it leaves parity behind");
            let bins = || debt.bins.iter();
            assert_eq!(bins().map(|bin| bin.stale_rows_max).max(), Some(debt.rows_max));
            let time = |n: u64| debt.width.min(result.simulated_time - n * debt.width) as f64;
            let in_bins: f64 = (0..).zip(bins()).map(|(n, bin)| bin.stale_rows_mean * time(n)).sum();
            let all = debt.rows_mean.expect("time passed") * result.simulated_time as f64;
            assert!((in_bins - all).abs() < 1e-6 * all, "{policy}: {in_bins} {all}");
            assert!(all > 0.0 && debt.rows_mean <= Some(debt.rows_max as f64));
            let t = &result.traffic;
            assert!(t.late_data_reads <= t.data_reads && t.late_parity_reads <= t.parity_reads);
            assert!(t.late_parity_writes < t.parity_writes && t.delayed_writes > 0);
            if warmup == WarmupPart::None {
                assert!(debt.rows_left >= debt.rows_owed && debt.rows_left > 0);
                // A row that is written with its parity before its turn comes needs no cleaning.
                let parities = if level == RaidLevel::Raid6 { 2 } else { 1 };
                let cleaned = figure(&result, "cleaned_rows");
                assert!(t.late_parity_writes <= cleaned * parities && t.late_parity_writes > 0, "{policy}");
                assert!(cleaned <= debt.rows_left, "{policy}");
            }
        }
    }
}

/// The device takes what the cache says that it writes, for whatever reason, and lasts as long as that leaves it.
#[test]
fn the_cache_device_lasts_as_long_as_what_is_written_leaves_it() {
    for policy in ["write-around", "write-through", "leavo", "kdd"] {
        let mut experiment = caching(policy, RaidLevel::Raid5, 4);
        experiment.cache_endurance = Some(1_000_000_000);
        for fixed in [true, false] {
            if fixed {
                experiment.cache_device = DeviceSetup::Fixed(FixedTimes::default());
            } else {
                experiment.cache_device = caching(policy, RaidLevel::Raid5, 4).cache_device;
            }
            let result = run_one(&experiment, &mixed(9, 1200, 400, 2_000_000));
            let pages = result.cache.as_ref().expect("a cache").pages;
            let causes =
                pages.read_fills + pages.write_fills + pages.delta_writes + pages.meta_writes + pages.clean_writes;
            let device = result.devices.last().expect("the cache device");
            assert_eq!((device.device.as_str(), device.counters.pages_written), ("cache", causes), "{policy}");
            let wear = result.cache_wear.as_ref().expect("its endurance is known");
            if fixed {
                assert!(wear.worn_bytes <= causes * PAGE && wear.worn_bytes * 10 > causes * PAGE * 9, "{policy}");
            } else {
                assert!(wear.worn_bytes > causes * PAGE, "{policy}: a full SSD collects");
                assert!(wear.worn_bytes <= device.flash.flash_writes.expect("an SSD") * PAGE);
            }
            let years = 1e9 / wear.worn_bytes as f64 * result.served_time as f64 / (365.0 * 86_400e9);
            assert!((wear.lifetime.expect("some was written") / years - 1.0).abs() < 1e-9, "{policy}");
        }
    }
    let mut experiment = caching("kdd", RaidLevel::Raid5, 4);
    assert_eq!(run_one(&experiment, &written_again()).cache_wear, None, "nobody has said what it endures");
    experiment.cache_endurance = Some(1);
    experiment.policies = vec!["wow".parse().expect("a policy")];
    let error = experiment.check().expect_err("there is no device").to_string();
    assert!(error.contains("cache-endurance") && error.contains("write-around"), "{error}");
}

/// A cache that drops pages, and tells its SSD, has it copy fewer of them.
#[test]
fn the_cache_device_is_told_what_is_not_needed() {
    for policy in ["write-around", "write-through", "write-back", "leavo", "kdd"] {
        let run = |trim: &str| {
            let mut experiment = caching(&format!("{policy}:trim={trim}"), RaidLevel::Raid5, 4);
            // Nearly all that the SSD has.
            experiment.caches = vec![6_400 * PAGE];
            experiment.array.member_bytes = Some(4_096 * PAGE);
            let result = run_one(&experiment, &mixed(9, 12_000, 12_000, 20_000_000));
            let device = result.devices.last().expect("the cache device");
            let copied = device.flash.flash_writes.expect("an SSD") - device.counters.pages_written;
            (device.counters.pages_trimmed, copied as f64 / device.counters.pages_written as f64)
        };
        let ((none, without), (trimmed, with)) = (run("off"), run("on"));
        assert_eq!(none, 0, "{policy}: it is told when that is asked for");
        assert!(trimmed > 1_000, "{policy}: {trimmed}");
        // The others keep their sets full: what becomes free is soon written again, trimmed or not.
        let better = if policy == "write-around" { 0.9 } else { 1.02 };
        assert!(with < better * without, "{policy}: {with} copies a page with trims, {without} without");
    }
}

/// A write takes all its frames at once, or none, and tries again until there are enough: what it gives back was not
/// written, and is not trimmed, which takes no time. Else it would try for ever.
#[test]
fn a_write_that_waits_for_frames_does_not_have_them_trimmed() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let experiment = caching("write-back:ways=32:trim=on", RaidLevel::Raid5, 4);
        let result = run_one(&experiment, &mixed(9, 6_000, 400, 500_000));
        done.send(result.devices.last().expect("the cache device").counters).expect("the test waits");
    });
    // A second is enough.
    let device = is_done.recv_timeout(std::time::Duration::from_secs(100)).expect("it ends");
    assert!(device.pages_trimmed > 1_000 && device.pages_trimmed <= device.pages_written, "{device:?}");
}
