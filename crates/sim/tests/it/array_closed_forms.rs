//! Arrays whose times and counts are known beforehand.

use std::collections::BTreeMap;

use destage_cache::ServedTier;
use destage_plan::{Dev, HostNotice, HostOp, Nanos, PageNo};
use destage_raid::{Geometry, RaidLevel};
use destage_sim::array::{FixedTimes, StepTimes, VirtualDevice, VirtualExecutor};
use destage_sim::disk::{DiskCommand, DiskOp, DiskProfile, DiskScheduler, SimulatedDisk};
use destage_sim::ssd::{Ssd, StartState};

use crate::arrays::{
    PAGE, Random, answered, config, disk, experiment, geometry, host, run, shape, small_ssd, ssd_shape, submit_at,
};
use crate::in_memory::{read, write};

/// Chunks of 64 KiB.
const CHUNK: u32 = 16;
const DISK_PAGES: u64 = 1 << 27;

/// An array of idle disks that turn alike, without a cache.
fn of_disks(geometry: &Geometry, scheduler: DiskScheduler, times: StepTimes) -> VirtualExecutor<Box<dyn ServedTier>> {
    let controller = destage_cache::serve("none", &config(geometry), 0).expect("an array");
    let first = disk(scheduler);
    let devices = (0..geometry.members()).map(|_| VirtualDevice::disk(first.clone(), PAGE, Nanos::ZERO)).collect();
    VirtualExecutor::new(controller, shape(geometry), 4096, devices, times)
}

fn of_fixed(geometry: &Geometry, times: FixedTimes) -> VirtualExecutor<Box<dyn ServedTier>> {
    let controller = destage_cache::serve("none", &config(geometry), 0).expect("an array");
    let devices = (0..geometry.members()).map(|_| VirtualDevice::fixed(times, geometry.member_pages())).collect();
    VirtualExecutor::new(controller, shape(geometry), 4096, devices, StepTimes::default())
}

/// Returns the time of a command on an idle disk whose arm is at its first position.
fn alone(op: DiskOp, at: Nanos, page: u64, pages: u32) -> Nanos {
    serve(&mut disk(DiskScheduler::Fcfs), op, at, page, pages)
}

fn serve(disk: &mut SimulatedDisk, op: DiskOp, at: Nanos, page: u64, pages: u32) -> Nanos {
    disk.submit(at, DiskCommand { op, lbn: page * 8, sectors: pages * 8, tag: 0 }).expect("on the disk");
    disk.complete().expect("a completion").0
}

#[test]
fn one_disk_is_the_disk() {
    for scheduler in DiskScheduler::ALL {
        let geometry = geometry(RaidLevel::Raid0, 1, CHUNK, DISK_PAGES);
        let mut array = of_disks(&geometry, scheduler, StepTimes::default());
        let mut alone = disk(scheduler);
        let mut random = Random::new(7);
        let (mut of_array, mut of_disk) = (BTreeMap::new(), BTreeMap::new());
        let mut at = Nanos::ZERO;
        for tag in 0..2_000 {
            at += Nanos(random.below(20_000_000));
            let (page, pages) = (random.below(DISK_PAGES - 16) / 16 * 16, 1 + random.below(16));
            let write = random.below(2) == 0;
            collect_until(&mut array, at, &mut of_array);
            let op = if write { HostOp::Write } else { HostOp::Read };
            array.submit(at, host(tag, op, page, pages)).expect("a range on the array");
            while alone.next_completion().is_some_and(|next| next <= at) {
                let (done, tag) = alone.complete().expect("a completion");
                of_disk.insert(tag, done);
            }
            let op = if write { DiskOp::Write } else { DiskOp::Read };
            let command = DiskCommand { op, lbn: page * 8, sectors: pages as u32 * 8, tag };
            alone.submit(at, command).expect("on the disk");
        }
        while array.is_busy() {
            array.step();
            collect(&mut array, &mut of_array);
        }
        while let Some((done, tag)) = alone.complete() {
            of_disk.insert(tag, done);
        }
        assert_eq!(of_array.len(), 2_000);
        assert!(of_array == of_disk, "{}", scheduler.name());
        assert_eq!(array.model_counts(Dev(0)).busy, alone.stats().busy);
    }
}

fn collect(array: &mut VirtualExecutor<Box<dyn ServedTier>>, into: &mut BTreeMap<u64, Nanos>) {
    while let Some(notice) = array.next_notice() {
        if let HostNotice::Acked { tag, ok: true } = notice {
            into.insert(tag, array.now());
        }
    }
}

fn collect_until(array: &mut VirtualExecutor<Box<dyn ServedTier>>, at: Nanos, into: &mut BTreeMap<u64, Nanos>) {
    while array.next_event().is_some_and(|(next, _)| next <= at) {
        array.step();
        collect(array, into);
    }
}

#[test]
fn a_small_write_takes_the_slower_read_and_a_rotation_more() {
    let rotation = DiskProfile::tb1_7200().rotation;
    let geometry = geometry(RaidLevel::Raid5, 5, CHUNK, DISK_PAGES);
    let mut random = Random::new(3);
    for _ in 0..200 {
        let page = random.below(geometry.data_pages());
        let place = geometry.locate(page);
        let row = geometry.row(place.stripe, place.row_in_chunk).0;
        let at = Nanos(random.below(1_000_000_000));
        let mut array = of_disks(&geometry, DiskScheduler::CLook, StepTimes::default());
        submit_at(&mut array, at, host(0, HostOp::Write, page, 1));
        let done = answered(&mut array, 0);
        // Both disks are alike and idle: they read the row at the same time, and write it when it
        // comes round again.
        assert_eq!(done, alone(DiskOp::Read, at, row, 1) + rotation);
        let stats = array.controller().array().stats();
        assert_eq!((stats.data_reads, stats.parity_reads, stats.data_writes, stats.parity_writes), (1, 1, 1, 1));
        assert_eq!(stats.rmw_writes, 1);
    }
}

#[test]
fn a_small_write_a_third_of_the_stroke_away() {
    // Specs §3: 12.8 ms for the reads and a rotation for the writes, with a seek of 8.5 ms; over a
    // third of the stroke the curve takes 8.98 ms. The rotational waits are averaged over all
    // angles.
    let (geometry, profile) = (geometry(RaidLevel::Raid5, 5, CHUNK, DISK_PAGES), DiskProfile::tb1_7200());
    let places = disk(DiskScheduler::CLook).geometry().clone();
    let third = (0..DISK_PAGES)
        .step_by(1 << 14)
        .find(|row| places.locate(row * 8).is_some_and(|place| u64::from(place.cylinder) >= profile.cylinders() / 3));
    let page = third.expect("a third of the stroke is on the array") / u64::from(CHUNK) * 4 * u64::from(CHUNK);
    let angles = 200;
    let sum: u64 = (0..angles)
        .map(|i| {
            let at = Nanos(profile.rotation.0 * i / angles);
            let mut array = of_disks(&geometry, DiskScheduler::CLook, StepTimes::default());
            submit_at(&mut array, at, host(0, HostOp::Write, page, 1));
            (answered(&mut array, 0) - at).0
        })
        .sum();
    let mean_ms = sum as f64 / angles as f64 / 1e6;
    assert!((mean_ms - (21.1 + 8.98 - 8.5)).abs() < 0.2, "{mean_ms} ms");
}

#[test]
fn disks_that_are_not_alike_write_when_the_slower_one_has_read() {
    let profile = DiskProfile::tb1_7200();
    let geometry = geometry(RaidLevel::Raid5, 5, CHUNK, DISK_PAGES);
    let mut random = Random::new(4);
    for _ in 0..100 {
        let page = random.below(geometry.data_pages());
        let place = geometry.locate(page);
        let row = geometry.row(place.stripe, place.row_in_chunk).0;
        let controller = destage_cache::serve("none", &config(&geometry), 0).expect("an array");
        let phase = |member: u8| Nanos(profile.rotation.0 * u64::from(member) / 5);
        let devices =
            (0..5).map(|member| VirtualDevice::disk(disk(DiskScheduler::CLook), PAGE, phase(member))).collect();
        let mut array = VirtualExecutor::new(controller, shape(&geometry), 4096, devices, StepTimes::default());
        submit_at(&mut array, Nanos::ZERO, host(0, HostOp::Write, page, 1));
        let done = answered(&mut array, 0);
        let mut pair = [place.column, geometry.p_column()].map(|column| {
            let member = geometry.device(place.stripe, column);
            (disk(DiskScheduler::CLook), phase(member.0))
        });
        let reads = pair.each_mut().map(|(disk, phase)| serve(disk, DiskOp::Read, *phase, row, 1) - *phase);
        let read = reads[0].max(reads[1]);
        let writes = pair.each_mut().map(|(disk, phase)| serve(disk, DiskOp::Write, read + *phase, row, 1) - *phase);
        assert_eq!(done, writes[0].max(writes[1]));
    }
}

#[test]
fn a_full_stripe_reads_nothing() {
    let geometry = geometry(RaidLevel::Raid5, 5, CHUNK, DISK_PAGES);
    // The intent comes before, and there is nothing to hide it behind.
    let times = StepTimes { nv_note: Nanos(2_500), ..StepTimes::default() };
    let mut array = of_disks(&geometry, DiskScheduler::CLook, times);
    let stripe = 123_456;
    submit_at(&mut array, Nanos(5), host(0, HostOp::Write, stripe * 64, 64));
    let done = answered(&mut array, 0);
    assert_eq!(done, alone(DiskOp::Write, Nanos(5) + times.nv_note, stripe * u64::from(CHUNK), CHUNK));
    let stats = array.controller().array().stats();
    assert_eq!((stats.data_reads, stats.parity_reads, stats.full_writes), (0, 0, 1));
    assert_eq!((stats.data_writes, stats.parity_writes), (64, 16));
}

#[test]
fn a_mirror_reads_one_copy_and_writes_all() {
    let geometry = geometry(RaidLevel::Raid1, 3, 1, DISK_PAGES);
    let mut array = of_disks(&geometry, DiskScheduler::CLook, StepTimes::default());
    submit_at(&mut array, Nanos(9), host(0, HostOp::Read, 5_000_000, 1));
    assert_eq!(answered(&mut array, 0), alone(DiskOp::Read, Nanos(9), 5_000_000, 1));
    let reads: Vec<_> = (0..3).map(|dev| array.device_counters(Dev(dev)).reads).collect();
    assert_eq!(reads.iter().sum::<u64>(), 1);
    let mut array =
        of_disks(&geometry, DiskScheduler::CLook, StepTimes { nv_note: Nanos::ZERO, ..StepTimes::default() });
    submit_at(&mut array, Nanos(9), host(0, HostOp::Write, 5_000_000, 8));
    // Eight fragments, which leave as one command for each disk.
    assert_eq!(answered(&mut array, 0), alone(DiskOp::Write, Nanos(9), 5_000_000, 8));
    for dev in 0..3 {
        let counters = array.device_counters(Dev(dev));
        assert_eq!((counters.writes, counters.pages_written), (1, 8));
    }
}

#[test]
fn without_merging_each_step_is_a_command() {
    let geometry = geometry(RaidLevel::Raid1, 2, 1, DISK_PAGES);
    let times = StepTimes { nv_note: Nanos::ZERO, merge_pages: 1, ..StepTimes::default() };
    let mut array = of_disks(&geometry, DiskScheduler::CLook, times);
    submit_at(&mut array, Nanos::ZERO, host(0, HostOp::Write, 0, 8));
    let done = answered(&mut array, 0);
    assert_eq!(array.device_counters(Dev(1)).writes, 8);
    // The overhead lets each next sector pass: a rotation for each but the first.
    let rotation = DiskProfile::tb1_7200().rotation;
    assert!(done >= Nanos(rotation.0 * 7), "{done}");
}

#[test]
fn a_hit_takes_what_the_ssd_takes() {
    let geometry = geometry(RaidLevel::Raid5, 4, CHUNK, 1024);
    let controller = destage_cache::serve("write-through", &config(&geometry), 512).expect("a cache");
    let times = FixedTimes { read: Nanos(8_000_000), write: Nanos(9_000_000), ..FixedTimes::default() };
    let mut devices: Vec<_> = (0..4).map(|_| VirtualDevice::fixed(times, 1024)).collect();
    devices.push(VirtualDevice::new_ssd(ssd_shape(small_ssd()), StartState::Full));
    let mut array = VirtualExecutor::new(controller, shape(&geometry), 4096, devices, StepTimes::default());
    submit_at(&mut array, Nanos::ZERO, host(0, HostOp::Read, 7, 1));
    assert_eq!(answered(&mut array, 0), times.read, "the fill comes after the answer");
    let later = Nanos(1_000_000_000);
    submit_at(&mut array, later, host(1, HostOp::Read, 7, 1));
    let mut ssd = Ssd::new(ssd_shape(small_ssd()), StartState::Full);
    assert_eq!(answered(&mut array, 1), ssd.read(later, PageNo(0)));
    let stats = array.controller().counts().expect("a cache counts");
    assert_eq!((stats.read_hits, stats.read_misses, stats.read_fills), (1, 1, 1));
}

#[test]
fn the_counters_of_the_worked_example() {
    // Specs §9.1: one row of a 3+1 array, R0 W1 W0 W1 W0 R0 W2.
    let mut experiment = experiment(RaidLevel::Raid5, 4, &["none", "write-through"]);
    experiment.array.chunk_bytes = PAGE;
    let ops = [(0, false), (1, true), (0, true), (1, true), (0, true), (0, false), (2, true)];
    let requests: Vec<_> = (0..)
        .zip(ops)
        .map(|(i, (page, is_write))| if is_write { write(i * 10_000, page, 1) } else { read(i * 10_000, page, 1) })
        .collect();
    let [nossd, wt] = &run(&experiment, &requests)[..] else { panic!("two runs") };
    let members = |result: &destage_sim::array::ArrayResult| {
        let devices = &result.devices[..4];
        let sum =
            |f: fn(&destage_sim::array::DeviceCounters) -> u64| devices.iter().map(|d| f(&d.counters)).sum::<u64>();
        (sum(|c| c.pages_read), sum(|c| c.pages_written))
    };
    assert_eq!(members(nossd), (12, 10));
    assert_eq!(members(wt), (11, 10));
    assert_eq!(nossd.traffic.rcw_writes, 5, "a tie of reads goes to the reconstruct-write");
    let cache = wt.cache.as_ref().expect("a cache");
    assert_eq!(cache.pages.read_fills + cache.pages.write_fills, 6);
    assert_eq!(wt.devices[4].counters.pages_written, 6);
    assert_eq!(
        (cache.pages.read_hits, cache.pages.read_misses, cache.pages.write_hits, cache.pages.write_misses),
        (1, 1, 3, 2)
    );
    assert_eq!(nossd.cache, None);
}

#[test]
fn what_the_nvram_and_computing_cost() {
    let geometry = geometry(RaidLevel::Raid5, 5, 4, 1024);
    let times = FixedTimes { read: Nanos(1_000), write: Nanos(2_000), other: Nanos(300), page: Nanos(10) };
    // Free notes: two reads, two writes.
    let controller = destage_cache::serve("none", &config(&geometry), 0).expect("an array");
    let devices = (0..5).map(|_| VirtualDevice::fixed(times, 1024)).collect();
    let costs = StepTimes { nv_note: Nanos(50_000), compute: Nanos(7_000), ..StepTimes::default() };
    let mut dear = VirtualExecutor::new(controller, shape(&geometry), 4096, devices, costs);
    submit_at(&mut dear, Nanos::ZERO, host(0, HostOp::Write, 0, 1));
    let mut cheap = of_fixed(&geometry, times);
    submit_at(&mut cheap, Nanos::ZERO, host(0, HostOp::Write, 0, 1));
    assert_eq!(answered(&mut cheap, 0), Nanos(1_010 + 2_010), "the intent is hidden behind the reads");
    let done = answered(&mut dear, 0);
    let computing = dear.busy().1;
    assert!(computing > Nanos::ZERO && computing.0.is_multiple_of(7_000));
    assert!(done >= Nanos(50_000 + 2_010), "the writes wait for the intent: {done}");
    assert!(done <= Nanos(50_000 + 2_010) + computing);
}

#[test]
fn a_flush_waits_for_every_member_written() {
    let geometry = geometry(RaidLevel::Raid5, 5, 4, 1024);
    let times = FixedTimes { read: Nanos(1_000), write: Nanos(2_000), other: Nanos(300), page: Nanos::ZERO };
    let mut array = of_fixed(&geometry, times);
    submit_at(&mut array, Nanos::ZERO, host(0, HostOp::Write, 0, 1));
    let written = answered(&mut array, 0);
    assert_eq!(written, Nanos(3_000));
    submit_at(&mut array, Nanos(10_000), host(1, HostOp::Flush, 0, 0));
    assert_eq!(answered(&mut array, 1), Nanos(10_300));
    let flushed: Vec<_> = (0..5).map(|dev| array.device_counters(Dev(dev)).flushes).collect();
    assert_eq!(flushed.iter().sum::<u64>(), 2, "of data and parity");
    assert_eq!(array.controller().array().open_rows(), 1, "the intent is kept");
}
