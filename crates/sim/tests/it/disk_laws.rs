//! The disk against what is known of disks without simulating them: the figures of specs §3, closed
//! forms for seeks, rotation, sequential transfer and waiting, and what the order of service
//! promises. All seeds are fixed; intervals are such that a right disk leaves them once in a
//! thousand seeds or less.

use destage_plan::Nanos;
use destage_sim::disk::{
    DiskCommand, DiskOp, DiskProfile, DiskScheduler, DiskStats, DiskZone, SeekCurve, SimulatedDisk,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const MS: f64 = 1e6;

/// Returns the factor by which `make soak` repeats the tests.
fn soak() -> u64 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 20 } else { 1 }
}

struct Random(Xoshiro256PlusPlus);

impl Random {
    fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Exponentially distributed. The platform's logarithm may differ in the last bit, which no
    /// interval here notices.
    fn exponential(&mut self, mean: f64) -> f64 {
        let uniform = (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        -mean * (1.0 - uniform).ln()
    }
}

fn disk(profile: &DiskProfile, scheduler: DiskScheduler) -> SimulatedDisk {
    SimulatedDisk::new(profile, scheduler).expect("a disk")
}

/// One zone of as many cylinders as the 1 TB disk, so that a uniformly chosen sector has a
/// uniformly chosen cylinder.
fn one_zone() -> DiskProfile {
    DiskProfile { zones: vec![DiskZone { cylinders: 50_000, sectors_per_track: 1_831 }], ..DiskProfile::tb1_7200() }
}

fn command(op: DiskOp, lbn: u64, sectors: u32) -> DiskCommand {
    DiskCommand { op, lbn, sectors, tag: 0 }
}

/// The times between two counts, beside the later counts.
fn difference(after: &DiskStats, before: &DiskStats) -> DiskStats {
    DiskStats {
        busy: after.busy - before.busy,
        overhead: after.overhead - before.overhead,
        seek: after.seek - before.seek,
        switch: after.switch - before.switch,
        settle: after.settle - before.settle,
        rotation: after.rotation - before.rotation,
        transfer: after.transfer - before.transfer,
        ..*after
    }
}

/// Serves one command on an idle disk: when it is done, and what it took.
fn alone(disk: &mut SimulatedDisk, now: Nanos, command: DiskCommand) -> (Nanos, DiskStats) {
    let before = *disk.stats();
    disk.submit(now, command).expect("a command on the disk");
    let (done, _) = disk.complete().expect("a completion");
    (done, difference(disk.stats(), &before))
}

/// The first sector of a cylinder.
fn cylinder_start(profile: &DiskProfile, cylinder: u32) -> u64 {
    let (mut lbn, mut first) = (0, 0);
    for zone in &profile.zones {
        let tracks = u64::from(zone.cylinders.min(cylinder - first)) * u64::from(profile.heads);
        lbn += tracks * u64::from(zone.sectors_per_track);
        first += zone.cylinders.min(cylinder - first);
    }
    lbn
}

/// Seeks from cylinder 0, in nanoseconds.
fn seek_to(profile: &DiskProfile, cylinder: u32) -> f64 {
    let mut disk = disk(profile, DiskScheduler::Fcfs);
    alone(&mut disk, Nanos::ZERO, command(DiskOp::Read, cylinder_start(profile, cylinder), 1)).1.seek.0 as f64
}

#[test]
fn the_seek_curve_has_the_specifications_figures() {
    let profile = DiskProfile::tb1_7200();
    let (a, b) = profile.seek.coefficients(50_000).expect("a three-point curve");
    assert!((a / MS - 0.048_448).abs() < 5e-7, "a = {}", a / MS);
    assert!((b / MS - 1.0333e-4).abs() < 5e-9, "b = {}", b / MS);
    for (distance, ms, digits) in
        [(0, 0.0, 0.0), (1, 1.0, 0.0), (100, 1.49, 0.005), (16_667, 8.98, 0.005), (49_999, 17.0, 0.005)]
    {
        let found = seek_to(&profile, distance) / MS;
        assert!((found - ms).abs() <= digits, "{distance} cylinders: {found} ms");
    }
    // The curve reaches the full stroke at √C and C, two cylinders beyond the last.
    let full = MS + a * 50_000_f64.sqrt() + b * 50_000.0;
    assert!((full - 17.0 * MS).abs() < 1e-3, "{full}");
    let step = a / (2.0 * 50_000_f64.sqrt()) + b;
    assert!((full - seek_to(&profile, 49_999) - 2.0 * step).abs() <= 1.0);

    let barracuda = DiskProfile::barracuda_2gb();
    assert_eq!((barracuda.heads, barracuda.cylinders()), (5, 5_172));
    let tracks: Vec<u32> = barracuda.zones.iter().map(|zone| zone.sectors_per_track).collect();
    assert_eq!((tracks[0], tracks[10]), (186, 119));
    assert!((seek_to(&barracuda, 1) - 1_943_000.0).abs() < 0.5);
    // The curve reaches the full stroke two steps of 1.6 µs later.
    assert!((16_679_000.0 - seek_to(&barracuda, 5_171) - 3_142.0).abs() < 2.0, "{}", seek_to(&barracuda, 5_171));
}

#[test]
fn the_sizes_are_what_the_profiles_say() {
    let sectors_of_1_tb = 1_000_000_000_000 / 512;
    let mut profile = DiskProfile::tb1_7200();
    assert!(disk(&profile, DiskScheduler::Fcfs).sectors() > sectors_of_1_tb);
    profile.heads -= 1;
    assert!(disk(&profile, DiskScheduler::Fcfs).sectors() < sectors_of_1_tb);
    let gb = disk(&DiskProfile::barracuda_2gb(), DiskScheduler::Fcfs).sectors() as f64 * 512.0 / 1e9;
    assert!((2.0..2.1).contains(&gb), "{gb}");
}

#[test]
fn curves_of_measured_points_and_constants() {
    let points = vec![(1, Nanos(1_000_000)), (11, Nanos(2_000_000)), (100, Nanos(2_890_000))];
    let table = DiskProfile { seek: SeekCurve::Table(points), ..DiskProfile::tb1_7200() };
    // On a point, between two, and behind the last.
    for (distance, time) in [(1, 1.0), (6, 1.5), (11, 2.0), (100, 2.89), (1_000, 11.89)] {
        assert!((seek_to(&table, distance) / MS - time).abs() < 1e-9, "{distance}");
    }
    let constant = DiskProfile { seek: SeekCurve::Constant(Nanos(8_500_000)), ..DiskProfile::tb1_7200() };
    assert_eq!([0, 1, 49_999].map(|distance| seek_to(&constant, distance) as u64), [0, 8_500_000, 8_500_000]);
}

/// Specs §3: 4 KiB at random take 12.8 ms; read, modify and write take 21.1 ms.
#[test]
fn the_specifications_example() {
    let profile =
        DiskProfile { seek: SeekCurve::Constant(Nanos(8_500_000)), average_rotation: true, ..DiskProfile::tb1_7200() };
    let (read, _) =
        alone(&mut disk(&profile, DiskScheduler::Fcfs), Nanos::ZERO, command(DiskOp::Read, 1_000_000_000, 8));
    assert!((read.0 as f64 / MS - 12.8).abs() < 0.02, "{read}");

    // The same, with the angle as it is: the write waits until the sectors come round again,
    // whatever the overhead.
    let profile = DiskProfile { average_rotation: false, ..profile };
    let mut disk = disk(&profile, DiskScheduler::Fcfs);
    let (read, first) = alone(&mut disk, Nanos::ZERO, command(DiskOp::Read, 1_000_000_000, 8));
    let (written, second) = alone(&mut disk, read, command(DiskOp::Write, 1_000_000_000, 8));
    assert_eq!(written - read, profile.rotation);
    assert_eq!(second.rotation, profile.rotation - first.transfer - profile.overhead);
    assert_eq!((second.seek, second.switch, second.settle), (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO));
    let mean_read = (8_500_000 + 100_000 + first.transfer.0 + profile.rotation.0 / 2) as f64;
    let total = mean_read + (written - read).0 as f64;
    assert!((total / MS - 21.1).abs() < 0.05, "{total}");
}

#[test]
fn writes_settle_after_a_move_and_reads_do_not() {
    let profile = DiskProfile::tb1_7200();
    let per_track = u64::from(profile.zones[0].sectors_per_track);
    let took = |op, lbn| {
        let (_, took) = alone(&mut disk(&profile, DiskScheduler::Fcfs), Nanos::ZERO, command(op, lbn, 1));
        [took.overhead.0, took.seek.0, took.switch.0, took.settle.0]
    };
    let other_cylinder = per_track * 22;
    assert_eq!(took(DiskOp::Read, 0), [100_000, 0, 0, 0]);
    assert_eq!(took(DiskOp::Write, 0), [100_000, 0, 0, 0]);
    assert_eq!(took(DiskOp::Read, per_track), [100_000, 0, 800_000, 0]);
    assert_eq!(took(DiskOp::Write, per_track), [100_000, 0, 800_000, 500_000]);
    assert_eq!(took(DiskOp::Read, other_cylinder), [100_000, 1_000_000, 0, 0]);
    // The heads are switched while the arm moves.
    assert_eq!(took(DiskOp::Write, other_cylinder + per_track), [100_000, 1_000_000, 0, 500_000]);
    assert_eq!(took(DiskOp::Flush, 0), [100_000, 0, 0, 0]);
    assert_eq!(took(DiskOp::Discard, other_cylinder), [100_000, 0, 0, 0]);
}

/// The mean seek between two uniformly chosen sectors, by summing over all pairs of cylinders.
fn mean_seek(profile: &DiskProfile) -> f64 {
    let cylinders = profile.cylinders() as u32;
    let (a, b) = profile.seek.coefficients(cylinders).expect("a three-point curve");
    let SeekCurve::ThreePoint { single, .. } = profile.seek else { unreachable!("it has coefficients") };
    // below[x] is the sum of the seeks over 0 to x − 1 cylinders.
    let mut below = vec![0.0, 0.0];
    for distance in 1..cylinders {
        let beyond = f64::from(distance - 1);
        below.push(below[distance as usize] + single.0 as f64 + a * beyond.sqrt() + b * beyond);
    }
    let weights: Vec<(usize, usize, f64)> = profile
        .zones
        .iter()
        .scan(0, |first, zone| {
            let start = *first;
            *first += zone.cylinders as usize;
            Some((start, *first, f64::from(zone.sectors_per_track)))
        })
        .collect();
    let total: f64 = weights.iter().map(|(start, end, weight)| (end - start) as f64 * weight).sum();
    let mut sum = 0.0;
    for &(start, end, from) in &weights {
        for cylinder in start..end {
            for &(first, last, to) in &weights {
                let seeks = if cylinder < first {
                    below[last - cylinder] - below[first - cylinder]
                } else if cylinder >= last {
                    below[cylinder - first + 1] - below[cylinder - last + 1]
                } else {
                    below[cylinder - first + 1] + below[last - cylinder]
                };
                sum += from * to * seeks;
            }
        }
    }
    sum / (total * total)
}

/// Mean, and the half-width of its interval of 99.9 %, of independent samples.
fn interval(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let variance = samples.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    (mean, 3.29 * (variance / n).sqrt())
}

#[test]
fn random_seeks_take_what_their_distances_take() {
    // With one zone the distances have a triangular distribution, of which the mean is a sum over
    // distances.
    let profile = one_zone();
    let c = 50_000_u64;
    let (a, b) = profile.seek.coefficients(50_000).expect("a three-point curve");
    let triangular: f64 = (1..c)
        .map(|x| {
            let seek = 1e6 + a * ((x - 1) as f64).sqrt() + b * (x - 1) as f64;
            2.0 * (c - x) as f64 / (c * c) as f64 * seek
        })
        .sum();
    assert!((mean_seek(&profile) / triangular - 1.0).abs() < 1e-9, "{} {triangular}", mean_seek(&profile));

    for (name, profile) in
        [("one zone", profile), ("1 TB", DiskProfile::tb1_7200()), ("Barracuda", DiskProfile::barracuda_2gb())]
    {
        let mut disk = disk(&profile, DiskScheduler::Fcfs);
        let mut random = Random::new(3);
        let mut now = Nanos::ZERO;
        // A seek shares an end with the one before it; every other one is independent.
        let seeks: Vec<f64> = (0..100_000 * soak())
            .map(|_| {
                let [from, to] = [0; 2].map(|_| random.below(disk.sectors()));
                now = alone(&mut disk, now, command(DiskOp::Read, from, 1)).0;
                let (done, took) = alone(&mut disk, now, command(DiskOp::Read, to, 1));
                now = done;
                // A seek of 1.0 ms hides a head switch of 0.8 ms; other heads on the same cylinder
                // do not count.
                took.seek.0 as f64
            })
            .collect();
        let (mean, half) = interval(&seeks);
        let expected = mean_seek(&profile);
        eprintln!("{name}: mean seek {:.4} ± {:.4} ms, expected {:.4} ms", mean / MS, half / MS, expected / MS);
        assert!((mean - expected).abs() < half, "{name}: {mean} ± {half}, not {expected}");
    }
}

/// The wait after a seek is uniform over the rotation: its mean is half a rotation, and in 64 equal
/// bins the counts pass a χ² test.
#[test]
fn rotational_waits_are_uniform() {
    const BINS: usize = 64;
    let profile = DiskProfile::tb1_7200();
    let rotation = profile.rotation.0;
    let mut disk = disk(&profile, DiskScheduler::Fcfs);
    let mut random = Random::new(4);
    let mut now = Nanos::ZERO;
    let mut bins = [0_u64; BINS];
    let waits: Vec<f64> = (0..131_072 * soak())
        .map(|_| {
            now += Nanos(random.below(10 * rotation));
            let lbn = random.below(disk.sectors());
            let (done, took) = alone(&mut disk, now, command(DiskOp::Read, lbn, 1));
            now = done;
            bins[(took.rotation.0 * BINS as u64 / rotation) as usize] += 1;
            took.rotation.0 as f64
        })
        .collect();
    let (mean, half) = interval(&waits);
    let expected = waits.len() as f64 / BINS as f64;
    let chi_squared: f64 = bins.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum();
    eprintln!("mean wait {:.4} ± {:.4} ms, χ² {chi_squared:.1} of 63 degrees", mean / MS, half / MS);
    assert!((mean - rotation as f64 / 2.0).abs() < half, "{mean} ± {half}");
    // The 99.9th percentile of 63 degrees of freedom.
    assert!(chi_squared < 103.44, "{chi_squared}");
}

/// A transfer of whole cylinders of a zone: what it takes beyond the seek and the wait for the
/// first sector, as whole rotations, and as what was lost between tracks.
fn sequential(disk: &SimulatedDisk, zone: usize, cylinders: u32, op: DiskOp, rotation: Nanos) -> (u64, u64) {
    let heads = 22;
    let per_track = disk.geometry().sectors_per_track(zone).expect("a zone");
    let start = disk.geometry().zone_start(zone).expect("a zone");
    let sectors = per_track * heads * cylinders;
    let (_, first) = alone(&mut disk.clone(), Nanos::ZERO, command(op, start, 1));
    let (_, all) = alone(&mut disk.clone(), Nanos::ZERO, command(op, start, sectors));
    assert_eq!(all.transfer.0 % rotation.0, 0);
    let lost = (all.switch + all.settle + all.rotation) - (first.switch + first.settle + first.rotation);
    (all.transfer.0 / rotation.0, lost.0)
}

#[test]
fn long_transfers_lose_the_skew_and_nothing_else() {
    let profile = DiskProfile::tb1_7200();
    let rotation = profile.rotation.0 as f64;
    let (heads, cylinders) = (22_u32, 7_u32);
    for scheduler in [DiskScheduler::Fcfs, DiskScheduler::Sptf] {
        let disk = disk(&profile, scheduler);
        for (zone, map) in profile.zones.iter().enumerate() {
            let per_track = f64::from(map.sectors_per_track);
            let rate = per_track * 512.0 / rotation * 1e3;
            let wanted = 150.0 - 75.0 / 9.0 * zone as f64;
            assert!((rate - wanted).abs() < 0.05, "zone {zone}: {rate} MB/s");
            // Whole sectors that last as long as a switch (or a step to the next cylinder) and a
            // write's settling.
            let slots = |time: f64| (time * per_track / rotation).ceil() * rotation / per_track;
            let (track, cylinder) = (slots(1_300_000.0), slots(1_500_000.0));
            let gaps = f64::from((heads - 1) * cylinders) * track + f64::from(cylinders - 1) * cylinder;
            for op in [DiskOp::Read, DiskOp::Write] {
                let (rotations, lost) = sequential(&disk, zone, cylinders, op, profile.rotation);
                assert_eq!(rotations, u64::from(heads * cylinders));
                // Every angle is rounded to a nanosecond.
                assert!((lost as f64 - gaps).abs() < f64::from(heads * cylinders), "zone {zone}: {lost} not {gaps}");
                let tracks = f64::from(heads * cylinders);
                let bytes = tracks * per_track * 512.0;
                let throughput = bytes / (rotations as f64 * rotation + lost as f64);
                let share = (f64::from(heads - 1) * track + cylinder) / f64::from(heads);
                let closed_form = per_track * 512.0 / (rotation + share);
                assert!((throughput / closed_form - 1.0).abs() < 0.002, "zone {zone}: {throughput} {closed_form}");
                if op == DiskOp::Read && scheduler == DiskScheduler::Fcfs {
                    eprintln!("zone {zone}: {rate:.2} MB/s, {:.2} with switches", throughput * 1e3);
                }
            }
        }
    }
}

#[test]
fn a_skew_that_is_too_small_costs_a_rotation_per_track() {
    let profile = DiskProfile { track_skew: Some(Nanos::ZERO), ..DiskProfile::tb1_7200() };
    let (rotations, lost) = sequential(&disk(&profile, DiskScheduler::Fcfs), 0, 1, DiskOp::Read, profile.rotation);
    assert_eq!((rotations, lost), (22, 21 * profile.rotation.0));
}

#[test]
fn a_transfer_into_the_next_zone_loses_no_more_than_a_switch() {
    let profile = DiskProfile::tb1_7200();
    let disk = disk(&profile, DiskScheduler::Fcfs);
    for zone in 1..10 {
        let boundary = disk.geometry().zone_start(zone).expect("a zone");
        let before = u64::from(disk.geometry().sectors_per_track(zone - 1).expect("a zone"));
        let slot = profile.rotation.0 / u64::from(disk.geometry().sectors_per_track(zone).expect("a zone"));
        let read = |sectors| {
            let (_, took) = alone(&mut disk.clone(), Nanos::ZERO, command(DiskOp::Read, boundary - before, sectors));
            took.switch.0 + took.rotation.0
        };
        let lost = read(before as u32 + 1) - read(before as u32);
        assert!((1_500_000..=1_500_001 + slot).contains(&lost), "zone {zone}: {lost}");
    }
}

/// An open queue of single sectors, Poisson arrivals: per command the wait before service, and the
/// service.
fn poisson(disk: &mut SimulatedDisk, mean_gap: f64, commands: u64, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut random = Random::new(seed);
    let (mut clock, mut waits, mut services) = (0.0, Vec::new(), Vec::new());
    let mut before = *disk.stats();
    let take = |disk: &mut SimulatedDisk, waits: &mut Vec<f64>, services: &mut Vec<f64>, before: &mut DiskStats| {
        disk.complete().expect("a completion");
        waits.push((disk.stats().queueing - before.queueing).0 as f64);
        services.push((disk.stats().busy - before.busy).0 as f64);
        *before = *disk.stats();
    };
    for _ in 0..commands {
        clock += random.exponential(mean_gap);
        let now = Nanos(clock as u64);
        while disk.next_completion().is_some_and(|at| at <= now) {
            take(disk, &mut waits, &mut services, &mut before);
        }
        let lbn = random.below(disk.sectors());
        disk.submit(now, command(DiskOp::Read, lbn, 1)).expect("a read");
    }
    while disk.outstanding() > 0 {
        take(disk, &mut waits, &mut services, &mut before);
    }
    (waits, services)
}

/// Mean and interval of correlated samples, from the means of 50 batches.
fn batched(samples: &[f64]) -> (f64, f64) {
    let size = samples.len() / 50;
    let means: Vec<f64> = samples.chunks_exact(size).map(|batch| batch.iter().sum::<f64>() / size as f64).collect();
    interval(&means)
}

/// Constant service, Poisson arrivals: M/D/1, where the mean wait is half a service time at half
/// load.
#[test]
fn constant_service_waits_like_m_d_1() {
    let profile = DiskProfile {
        heads: 1,
        zones: vec![DiskZone { cylinders: 1, sectors_per_track: 1_000 }],
        rotation: Nanos(8_000_000),
        average_rotation: true,
        ..DiskProfile::tb1_7200()
    };
    let service = 100_000.0 + 4_000_000.0 + 8_000.0;
    let (waits, services) = poisson(&mut disk(&profile, DiskScheduler::Fcfs), 2.0 * service, 400_000 * soak(), 5);
    assert!(services.iter().all(|&time| (time - service).abs() < 0.5));
    let (mean, half) = batched(&waits);
    eprintln!("M/D/1: mean wait {:.4} ± {:.4} ms, expected {:.4} ms", mean / MS, half / MS, service / 2.0 / MS);
    assert!((mean - service / 2.0).abs() < half, "{mean} ± {half}");
    assert!(half / mean < 0.03, "an interval of {half} says nothing");
}

/// Independent services of two lengths, as good as M/G/1: half a rotation at the arm's cylinder, a
/// constant seek more elsewhere. With four cylinders a quarter of the commands need no seek,
/// whatever came before.
#[test]
fn independent_services_wait_like_m_g_1() {
    let profile = DiskProfile {
        heads: 1,
        zones: vec![DiskZone { cylinders: 4, sectors_per_track: 1_000 }],
        rotation: Nanos(8_000_000),
        seek: SeekCurve::Constant(Nanos(16_000_000)),
        average_rotation: true,
        ..DiskProfile::tb1_7200()
    };
    let (near, far) = (4_108_000.0, 20_108_000.0);
    let (first, second) = (0.25 * near + 0.75 * far, 0.25 * near * near + 0.75 * far * far);
    let gap = 2.0 * first;
    let expected = second / gap / (2.0 * (1.0 - first / gap));
    let (waits, _) = poisson(&mut disk(&profile, DiskScheduler::Fcfs), gap, 400_000 * soak(), 6);
    let (mean, half) = batched(&waits);
    eprintln!("M/G/1: mean wait {:.4} ± {:.4} ms, expected {:.4} ms", mean / MS, half / MS, expected / MS);
    assert!((mean - expected).abs() < half, "{mean} ± {half}, not {expected}");
    assert!(half / mean < 0.03, "an interval of {half} says nothing");
}

/// The 1 TB disk at half load. A seek shares an end with the one before it and the angle goes on
/// from command to command, so that services are not independent, and Pollaczek and Khinchine's
/// formula with the measured moments holds to a few percent only.
#[test]
fn random_reads_wait_much_like_m_g_1() {
    let profile = DiskProfile::tb1_7200();
    let (waits, services) = poisson(&mut disk(&profile, DiskScheduler::Fcfs), 2.0 * 12_600_000.0, 400_000 * soak(), 7);
    let n = services.len() as f64;
    let first = services.iter().sum::<f64>() / n;
    let second = services.iter().map(|time| time * time).sum::<f64>() / n;
    let rate = 1.0 / (2.0 * 12_600_000.0);
    let expected = rate * second / (2.0 * (1.0 - rate * first));
    let (mean, half) = batched(&waits);
    eprintln!(
        "1 TB at load {:.3}: mean wait {:.4} ± {:.4} ms, Pollaczek-Khinchine {:.4} ms",
        rate * first,
        mean / MS,
        half / MS,
        expected / MS
    );
    assert!((rate * first - 0.5).abs() < 0.02, "{}", rate * first);
    assert!((mean / expected - 1.0).abs() < 0.05, "{mean} ± {half}, not {expected}");
}

/// Random commands, always 32 of them outstanding. Calls back with those that waited, the one that
/// completed and the one that was begun next.
fn saturated(
    disk: &mut SimulatedDisk,
    commands: u64,
    seed: u64,
    mut begun: impl FnMut(&[DiskCommand], &DiskCommand, &DiskCommand),
) {
    let mut random = Random::new(seed);
    let mut outstanding: Vec<DiskCommand> = Vec::new();
    let mut serving: Option<DiskCommand> = None;
    let mut now = Nanos::ZERO;
    let mut seen = vec![false; commands as usize];
    for tag in 0..commands {
        let op = if random.below(3) == 0 { DiskOp::Write } else { DiskOp::Read };
        let command = DiskCommand { op, lbn: random.below(disk.sectors() - 8), sectors: 8, tag };
        disk.submit(now, command).expect("a command on the disk");
        if serving.is_none() {
            serving = Some(command);
        } else {
            outstanding.push(command);
        }
        if outstanding.len() == 31 {
            let served = serving.take().expect("in service");
            let (at, done) = disk.complete().expect("a completion");
            assert_eq!(done, served.tag);
            assert!(!std::mem::replace(&mut seen[done as usize], true), "{done} completed twice");
            now = at;
            // Which one was begun shows when it completes, on a disk that ends here.
            let next = disk.clone().complete().expect("the next completion").1;
            let place = outstanding.iter().position(|command| command.tag == next).expect("one that is outstanding");
            begun(&outstanding, &served, &outstanding[place]);
            serving = Some(outstanding.remove(place));
        }
    }
    while let Some((_, done)) = disk.complete() {
        assert!(!std::mem::replace(&mut seen[done as usize], true), "{done} completed twice");
    }
    assert!(seen.iter().all(|&seen| seen), "some never completed");
    let s = disk.stats();
    assert_eq!(s.busy, s.overhead + s.seek + s.switch + s.settle + s.rotation + s.transfer);
    assert_eq!((s.reads + s.writes, s.commands()), (commands, commands));
    assert_eq!((s.sectors_read, s.sectors_written), (s.reads * 8, s.writes * 8));
}

#[test]
fn every_order_of_service_keeps_its_promise() {
    let profile = DiskProfile::tb1_7200();
    let commands = 20_000 * soak();
    for scheduler in DiskScheduler::ALL {
        let mut disk = disk(&profile, scheduler);
        let geometry = disk.geometry().clone();
        let cylinder = |command: &DiskCommand| geometry.locate(command.lbn).expect("on the disk").cylinder;
        let ends_on = |command: &DiskCommand| geometry.locate(command.lbn + 7).expect("on the disk").cylinder;
        let mut checked = 0;
        saturated(&mut disk, commands, 8, |outstanding, served, next| {
            match scheduler {
                DiskScheduler::Fcfs => assert_eq!(next.tag, outstanding[0].tag),
                DiskScheduler::CLook => {
                    // A sweep goes on while there is something ahead, and then begins at the
                    // lowest.
                    let ahead = outstanding.iter().filter(|command| command.lbn >= served.lbn + 8);
                    let lowest = ahead.min_by_key(|command| command.lbn);
                    let lowest = lowest.or(outstanding.iter().min_by_key(|command| command.lbn));
                    assert_eq!(lowest.map(|command| command.tag), Some(next.tag));
                }
                DiskScheduler::Sstf => {
                    let far = |command: &DiskCommand| cylinder(command).abs_diff(ends_on(served));
                    assert_eq!(Some(far(next)), outstanding.iter().map(far).min());
                }
                // Against the model of the disk, in another test.
                DiskScheduler::Sptf => {}
            }
            checked += 1;
        });
        assert_eq!(checked, commands - 31);
    }
}

#[test]
fn better_orders_serve_faster() {
    let mean = |scheduler: DiskScheduler| {
        let mut disk = disk(&DiskProfile::tb1_7200(), scheduler);
        saturated(&mut disk, 20_000 * soak(), 9, |_, _, _| {});
        disk.stats().busy.0 as f64 / disk.stats().commands() as f64 / MS
    };
    let [fcfs, clook, sstf, sptf] = DiskScheduler::ALL.map(mean);
    eprintln!("mean service of 32 outstanding: FCFS {fcfs:.2}, C-LOOK {clook:.2}, SSTF {sstf:.2}, SPTF {sptf:.2} ms");
    assert!(sptf < sstf && sstf <= clook && clook < fcfs, "{sptf} {sstf} {clook} {fcfs}");
}

#[test]
fn the_drive_chooses_from_what_it_holds_only() {
    // Five commands, the nearest last: with a queue of four the drive does not see it when the
    // first one completes.
    let order = |queue_depth| {
        let profile = DiskProfile { queue_depth, ..DiskProfile::tb1_7200() };
        let mut disk = disk(&profile, DiskScheduler::Sstf);
        for (tag, cylinder) in [0, 9_000, 8_000, 7_000, 6_000, 1].into_iter().enumerate() {
            let lbn = cylinder_start(&profile, cylinder);
            let command = DiskCommand { op: DiskOp::Read, lbn, sectors: 1, tag: tag as u64 };
            disk.submit(Nanos::ZERO, command).expect("a read");
        }
        std::iter::from_fn(|| disk.complete().map(|(_, tag)| tag)).collect::<Vec<_>>()
    };
    assert_eq!(order(32), [0, 5, 4, 3, 2, 1]);
    assert_eq!(order(4), [0, 4, 3, 2, 1, 5]);
    // From cylinder 8,000 it is as far to 9,000 as to 7,000: the one that came first.
    assert_eq!(order(2), [0, 2, 1, 3, 4, 5]);
    assert_eq!(order(1), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn the_same_commands_take_the_same_time() {
    let run = || {
        let mut disk = disk(&DiskProfile::barracuda_2gb(), DiskScheduler::Sptf);
        let mut orders = Vec::new();
        saturated(&mut disk, 5_000, 10, |_, _, next| orders.push(next.tag));
        (orders, *disk.stats())
    };
    assert_eq!(run(), run());
}

#[test]
fn forgotten_counts_leave_the_disk_as_it_is() {
    let mut counted = disk(&DiskProfile::tb1_7200(), DiskScheduler::CLook);
    let mut forgotten = counted.clone();
    let read = |lbn| command(DiskOp::Read, lbn, 8);
    for disk in [&mut counted, &mut forgotten] {
        alone(disk, Nanos::ZERO, read(1_000_000_000));
    }
    let before = *counted.stats();
    forgotten.reset_stats();
    assert_eq!(forgotten.stats(), &DiskStats::default());
    let later = Nanos(1_000_000_000);
    assert_eq!(alone(&mut counted, later, read(5)).0, alone(&mut forgotten, later, read(5)).0);
    assert_eq!(difference(counted.stats(), &before).busy, forgotten.stats().busy);
    assert_eq!((forgotten.stats().reads, forgotten.stats().seeks), (1, 1));
}

#[test]
fn names_lead_to_what_they_name() {
    for scheduler in DiskScheduler::ALL {
        assert_eq!(DiskScheduler::by_name(scheduler.name()), Some(scheduler));
    }
    assert_eq!(DiskScheduler::by_name("elevator"), None);
    for (name, _) in destage_sim::disk::PRESETS {
        let profile = DiskProfile::preset(name).expect("a preset");
        assert!(SimulatedDisk::new(&profile, DiskScheduler::default()).is_ok(), "{name}");
    }
    assert_eq!(DiskProfile::preset("floppy"), None);
}
