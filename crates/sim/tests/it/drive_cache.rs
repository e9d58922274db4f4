//! Volatile write caches of drives: what they answer, what a flush and FUA wait for.

use std::collections::BTreeMap;

use destage_plan::Nanos;
use destage_raid::RaidLevel;
use destage_raid::array::DurabilityMode;
use destage_sim::array::{DeviceOp, DriveCacheSetup, FixedTimes, VirtualDevice};
use destage_sim::disk::{DiskProfile, DiskScheduler, SimulatedDisk};

use crate::arrays::{Random, disks, experiment, mixed, run_one};

const US: u64 = 1_000;

/// A device of 100 µs a command and 10 µs a flush or a trim, with a cache of so many pages of 1 µs
/// each.
fn device(pages: u32) -> VirtualDevice {
    let times = FixedTimes { read: Nanos(100 * US), write: Nanos(100 * US), other: Nanos(10 * US), page: Nanos::ZERO };
    VirtualDevice::fixed(times, 1024).with_cache(DriveCacheSetup { pages, page_time: Nanos(US) })
}

/// The device's answers, in µs with their tags, up to a time.
fn answers(device: &mut VirtualDevice, until: u64) -> Vec<(u64, u32)> {
    let mut answers = Vec::new();
    while device.next_completion().is_some_and(|at| at <= Nanos(until * US)) {
        let (at, tag) = device.complete().expect("one is due");
        answers.extend(tag.map(|tag| (at.0 / US, tag)));
    }
    answers
}

fn submit(device: &mut VirtualDevice, at: u64, op: DeviceOp, first: u64, pages: u32, tag: u32) {
    device.submit(Nanos(at * US), op, first, pages, tag);
}

#[test]
fn a_write_is_answered_from_the_cache_and_a_flush_from_the_medium() {
    let mut device = device(8);
    submit(&mut device, 0, DeviceOp::Write, 3, 2, 1);
    assert_eq!(answers(&mut device, 2), [(2, 1)], "two transfers");
    submit(&mut device, 20, DeviceOp::Flush, 0, 0, 2);
    // It was on its way since it came, for the medium had nothing else to do; then its own flush.
    assert_eq!(answers(&mut device, 1_000), [(110, 2)]);
    submit(&mut device, 2_000, DeviceOp::Flush, 0, 0, 3);
    assert_eq!(answers(&mut device, 3_000), [(2_010, 3)], "there is nothing to wait for");
}

#[test]
fn fua_goes_past_the_cache_and_takes_with_it_what_it_replaces() {
    let mut device = device(8);
    submit(&mut device, 0, DeviceOp::Read, 100, 1, 1);
    submit(&mut device, 0, DeviceOp::Write, 3, 2, 2);
    submit(&mut device, 0, DeviceOp::WriteFua, 3, 2, 3);
    assert_eq!(answers(&mut device, 1_000), [(2, 2), (100, 1), (200, 3)]);
    assert_eq!(device.counts().busy, Nanos(200 * US), "the pages in the cache need not be written any more");
}

#[test]
fn what_does_not_fit_waits_and_what_never_will_goes_to_the_medium() {
    let mut device = device(4);
    submit(&mut device, 0, DeviceOp::Write, 0, 4, 1);
    submit(&mut device, 0, DeviceOp::Write, 10, 1, 2);
    submit(&mut device, 0, DeviceOp::Write, 20, 1, 3);
    submit(&mut device, 0, DeviceOp::Write, 30, 5, 4);
    // The first four pages are on the medium at 100; then there is room for two.
    assert_eq!(answers(&mut device, 10_000), [(4, 1), (101, 2), (102, 3), (200, 4)]);
}

#[test]
fn pages_in_the_cache_are_read_from_there() {
    let mut device = device(8);
    submit(&mut device, 0, DeviceOp::Read, 100, 1, 1);
    submit(&mut device, 0, DeviceOp::Write, 3, 2, 2);
    submit(&mut device, 0, DeviceOp::Read, 4, 1, 3);
    submit(&mut device, 0, DeviceOp::Read, 4, 2, 4);
    assert_eq!(answers(&mut device, 250), [(2, 2), (3, 3), (100, 1), (200, 4)], "one of the two pages is not there");
}

#[test]
fn trimmed_pages_need_not_be_written() {
    let mut device = device(8);
    submit(&mut device, 0, DeviceOp::Read, 100, 1, 1);
    submit(&mut device, 0, DeviceOp::Write, 3, 2, 2);
    submit(&mut device, 0, DeviceOp::Trim, 0, 8, 3);
    submit(&mut device, 0, DeviceOp::Flush, 0, 0, 4);
    assert_eq!(answers(&mut device, 1_000), [(2, 2), (100, 1), (110, 3), (120, 4)]);
}

#[test]
fn every_command_is_answered_once_and_a_flush_leaves_nothing() {
    let disk = || {
        let disk = SimulatedDisk::new(&DiskProfile::tb1_7200(), DiskScheduler::CLook).expect("a disk");
        VirtualDevice::disk(disk, 4096, Nanos::ZERO).with_cache(DriveCacheSetup { pages: 64, page_time: Nanos(7 * US) })
    };
    for (seed, mut device) in (0..).zip([device(1), device(16), device(300), disk()]) {
        let mut random = Random::new(seed);
        let mut under_way: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut now, mut answered) = (0, 0);
        for tag in 0..4_000_u32 {
            now += random.below(300);
            while let Some(at) = device.next_completion().filter(|at| *at <= Nanos(now * US)) {
                let (done, tag) = device.complete().expect("one is due");
                assert_eq!(done, at);
                if let Some(tag) = tag {
                    let begun = under_way.remove(&tag).expect("a command is answered once");
                    assert!(done >= Nanos(begun * US));
                    answered += 1;
                }
            }
            let op = match random.below(10) {
                0..=5 => DeviceOp::Write,
                6 => DeviceOp::WriteFua,
                7 => DeviceOp::Read,
                8 => DeviceOp::Trim,
                _ => DeviceOp::Flush,
            };
            let (first, pages) =
                if op == DeviceOp::Flush { (0, 0) } else { (random.below(500), 1 + random.below(8) as u32) };
            submit(&mut device, now, op, first, pages, tag);
            under_way.insert(tag, now);
        }
        // After a flush there is nothing that the cache would do on its own.
        submit(&mut device, now, DeviceOp::Flush, 0, 0, 4_000);
        under_way.insert(4_000, now);
        while let Some(tag) = under_way.keys().next().copied() {
            let (_, done) = device.complete().unwrap_or_else(|| panic!("command {tag} is not answered"));
            if let Some(done) = done {
                assert!(under_way.remove(&done).is_some(), "command {done} is answered once");
                answered += 1;
            }
        }
        assert_eq!((answered, device.next_completion()), (4_001, None));
    }
}

#[test]
fn what_is_written_again_and_again_is_written_to_the_medium_now_and_then() {
    let mut device = device(8);
    for tag in 0..1_000 {
        submit(&mut device, u64::from(tag) * 10, DeviceOp::Write, 5, 1, tag);
        answers(&mut device, u64::from(tag) * 10 + 9);
    }
    // 10 ms, of which a write to the medium takes a tenth of one.
    assert!(device.counts().busy <= Nanos(10_100 * US), "{:?}", device.counts().busy);
    assert_eq!(device.pages_cached(), 1_000);
}

#[test]
fn the_regimes_differ_where_drives_have_volatile_caches() {
    let requests = mixed(3, 3_000, 4_096, 20_000 * US);
    let mean = |regime, cache: Option<u32>| {
        let mut experiment = experiment(RaidLevel::Raid5, 5, &["none"]);
        experiment.member = disks();
        experiment.service.regime = regime;
        experiment.drive_cache = cache.map(|pages| DriveCacheSetup { pages, page_time: Nanos(7 * US) });
        let result = run_one(&experiment, &requests);
        result.response.and_then(|response| response.write).expect("writes have responses").mean
    };
    let without = [DurabilityMode::Flush, DurabilityMode::EveryWrite].map(|regime| mean(regime, None));
    // Trims cannot carry FUA: in the regime every-write a flush follows them.
    assert!((without[0] / without[1] - 1.0).abs() < 0.01, "without caches nothing else differs: {without:?}");
    let with = [DurabilityMode::Flush, DurabilityMode::EveryWrite].map(|regime| mean(regime, Some(4_096)));
    assert!(with[0] < 0.8 * with[1], "writes that need not be durable are answered sooner: {with:?}");
    assert!((with[1] / without[1] - 1.0).abs() < 0.1, "durable ones cost what they did: {with:?}, {without:?}");
}
