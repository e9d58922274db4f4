//! The disk against a model of it that was written from the specification (specs §3) and shares no
//! code with it: the tracks are a list, every sector is waited for on its own, and everything is
//! computed anew for every command. After every event all that can be seen of the disk is compared.
//! Then what is refused.

use destage_plan::Nanos;
use destage_sim::disk::{
    DiskCommand, DiskError, DiskOp, DiskProfile, DiskScheduler, DiskStats, DiskZone, SeekCurve, SimulatedDisk,
};
use proptest::prelude::*;

/// A track, with the slot of its first sector.
struct Track {
    cylinder: u64,
    head: u64,
    first_lbn: u64,
    sectors: u64,
    first_slot: u64,
}

#[derive(Clone, Copy)]
struct Held {
    command: DiskCommand,
    arrival: u64,
}

/// The model.
struct Model {
    profile: DiskProfile,
    scheduler: DiskScheduler,
    cylinders: u64,
    tracks: Vec<Track>,
    at: (u64, u64),
    sweep: u64,
    held: Vec<Held>,
    /// The command in service, its end, and what the disk will have done then.
    serving: Option<(DiskCommand, u64, DiskStats)>,
    stats: DiskStats,
}

/// The fewest slots that last at least this long.
fn slots_for(time: u64, sectors: u64, rotation: u64) -> u64 {
    (0..=time * sectors).find(|slots| slots * rotation >= time * sectors).expect("some number of slots")
}

impl Model {
    fn new(profile: &DiskProfile, scheduler: DiskScheduler) -> Self {
        let cylinders = profile.zones.iter().map(|zone| u64::from(zone.cylinders)).sum();
        let mut model = Self {
            profile: profile.clone(),
            scheduler,
            cylinders,
            tracks: Vec::new(),
            at: (0, 0),
            sweep: 0,
            held: Vec::new(),
            serving: None,
            stats: DiskStats::default(),
        };
        let (switch, settle, rotation) = (profile.head_switch.0, profile.write_settle.0, profile.rotation.0);
        let track_skew = profile.track_skew.map_or(switch + settle, |skew| skew.0);
        let cylinder_skew = profile.cylinder_skew.map_or(switch.max(model.seek(1)) + settle, |skew| skew.0);
        let (mut cylinder, mut lbn) = (0, 0);
        for zone in &profile.zones {
            let sectors = u64::from(zone.sectors_per_track);
            for in_zone in 0..zone.cylinders {
                for head in 0..u64::from(profile.heads) {
                    let first_slot = match model.tracks.last() {
                        None => 0,
                        Some(last) if head > 0 => last.first_slot + slots_for(track_skew, sectors, rotation),
                        Some(last) if in_zone > 0 => last.first_slot + slots_for(cylinder_skew, sectors, rotation),
                        // The sectors have another size here: what counts is the time at which the
                        // last track ended.
                        Some(last) => {
                            slots_for(last.first_slot * rotation / last.sectors + cylinder_skew, sectors, rotation)
                        }
                    };
                    let first_slot = first_slot % sectors;
                    model.tracks.push(Track { cylinder, head, first_lbn: lbn, sectors, first_slot });
                    lbn += sectors;
                }
                cylinder += 1;
            }
        }
        model
    }

    fn seek(&self, distance: u64) -> u64 {
        match &self.profile.seek {
            _ if distance == 0 => 0,
            SeekCurve::Constant(time) => time.0,
            SeekCurve::ThreePoint { single, average, full } => {
                let (min, avg, max) = (single.0 as f64, average.0 as f64, full.0 as f64);
                let (c, x) = (self.cylinders as f64, distance as f64);
                let a = (-10.0 * min + 15.0 * avg - 5.0 * max) / (3.0 * c.sqrt());
                let b = (7.0 * min - 15.0 * avg + 8.0 * max) / (3.0 * c);
                (min + a * (x - 1.0).sqrt() + b * (x - 1.0)).round() as u64
            }
            SeekCurve::Table(points) => {
                let at = |place: usize| (i128::from(points[place].0), i128::from(points[place].1.0));
                let x = i128::from(distance);
                let line = |place: usize| {
                    let ((near, start), (far, end)) = (at(place), at(place + 1));
                    start + ((end - start) * (x - near)).div_euclid(far - near)
                };
                let time = match (0..points.len()).find(|&place| at(place).0 >= x) {
                    Some(0) => at(0).1,
                    None if points.len() == 1 => at(0).1,
                    Some(place) => line(place - 1),
                    None => line(points.len() - 2),
                };
                time as u64
            }
        }
    }

    fn track_of(&self, lbn: u64) -> &Track {
        self.tracks.iter().find(|track| lbn < track.first_lbn + track.sectors).expect("on the disk")
    }

    /// Serves a command; returns where the arm is then, when the first sector begins, when the last
    /// one ends, and what the disk will have done by then.
    fn serve(&self, now: u64, held: &Held) -> ((u64, u64), u64, u64, DiskStats) {
        let p = &self.profile;
        let rotation = p.rotation.0;
        let command = held.command;
        let mut did = self.stats;
        let mut time = now + p.overhead.0;
        let mut at = self.at;
        let mut first = time;
        // By how much the angle is ahead of what the time says.
        let mut ahead = 0;
        did.overhead += p.overhead;
        match command.op {
            DiskOp::Read => did.reads += 1,
            DiskOp::Write => did.writes += 1,
            DiskOp::Flush => did.flushes += 1,
            DiskOp::Discard => did.discards += 1,
        }
        if matches!(command.op, DiskOp::Read | DiskOp::Write) {
            for i in 0..u64::from(command.sectors) {
                let track = self.track_of(command.lbn + i);
                let there = (track.cylinder, track.head);
                if there != at {
                    let seek = self.seek(there.0.abs_diff(at.0));
                    let moving = if there.1 == at.1 { seek } else { seek.max(p.head_switch.0) };
                    if i == 0 && there.0 != at.0 {
                        did.seeks += 1;
                        did.seek += Nanos(moving);
                    } else {
                        did.switch += Nanos(moving);
                    }
                    time += moving;
                    if command.op == DiskOp::Write {
                        did.settle += p.write_settle;
                        time += p.write_settle.0;
                    }
                    at = there;
                }
                let slot = (track.first_slot + command.lbn + i - track.first_lbn) % track.sectors;
                let begins = slot * rotation / track.sectors;
                let mut wait = (rotation + begins - (time + ahead) % rotation) % rotation;
                if i == 0 && p.average_rotation {
                    wait = rotation / 2;
                    ahead = rotation + begins - (time + wait) % rotation;
                }
                time += wait;
                did.rotation += Nanos(wait);
                if i == 0 {
                    first = time;
                }
                let passing = (slot + 1) * rotation / track.sectors - begins;
                time += passing;
                did.transfer += Nanos(passing);
            }
            let sectors = u64::from(command.sectors);
            if command.op == DiskOp::Read { did.sectors_read += sectors } else { did.sectors_written += sectors }
        }
        did.busy += Nanos(time - now);
        did.queueing += Nanos(now - held.arrival);
        (at, first, time, did)
    }

    fn submit(&mut self, now: u64, command: DiskCommand) {
        self.held.push(Held { command, arrival: now });
        if self.serving.is_none() {
            self.start(now);
        }
    }

    fn complete(&mut self) -> (Nanos, u64) {
        let (command, now, stats) = self.serving.take().expect("a command in service");
        self.stats = stats;
        self.start(now);
        (Nanos(now), command.tag)
    }

    fn start(&mut self, now: u64) {
        if self.held.is_empty() {
            return;
        }
        let held = self.held.remove(self.choose(now));
        let (at, _, end, stats) = self.serve(now, &held);
        self.at = at;
        if matches!(held.command.op, DiskOp::Read | DiskOp::Write) {
            self.sweep = held.command.lbn + u64::from(held.command.sectors);
        }
        self.serving = Some((held.command, end, stats));
    }

    fn choose(&self, now: u64) -> usize {
        let seen = &self.held[..self.held.len().min(self.profile.queue_depth as usize)];
        let discard = |held: &Held| held.command.op == DiskOp::Discard;
        if self.scheduler == DiskScheduler::Fcfs || seen[0].command.op == DiskOp::Flush {
            return 0;
        }
        if let Some(place) = seen.iter().position(discard) {
            return place;
        }
        let mut candidates: Vec<usize> = (0..seen.len()).filter(|&i| seen[i].command.op != DiskOp::Flush).collect();
        let lbn = |i: &usize| seen[*i].command.lbn;
        // Sorting is stable: equal ones stay in order of arrival.
        match self.scheduler {
            DiskScheduler::Fcfs => {}
            DiskScheduler::CLook => {
                if candidates.iter().any(|i| lbn(i) >= self.sweep) {
                    candidates.retain(|i| lbn(i) >= self.sweep);
                }
                candidates.sort_by_key(lbn);
            }
            DiskScheduler::Sstf => candidates.sort_by_key(|i| self.track_of(lbn(i)).cylinder.abs_diff(self.at.0)),
            DiskScheduler::Sptf => candidates.sort_by_key(|&i| self.serve(now, &seen[i]).1),
        }
        candidates[0]
    }
}

fn seek_curves() -> impl Strategy<Value = SeekCurve> {
    let three = (1_u64..2000, 0_u64..3000).prop_map(|(single, rise)| SeekCurve::ThreePoint {
        single: Nanos(single),
        // Two thirds up at a third of the stroke is a curve that always rises.
        average: Nanos(single + rise * 2),
        full: Nanos(single + rise * 3),
    });
    let table = proptest::collection::vec((1_u32..6, 2000_u64..4000), 1..5).prop_map(|steps| {
        let mut distance = 0;
        let mut points = Vec::new();
        for (i, (step, time)) in steps.into_iter().enumerate() {
            distance += if i == 0 { 1 } else { step };
            // The last step rises, so that what lies behind it does as well.
            points.push((distance, Nanos(time + 4000 * u64::from(i == 3))));
        }
        if let [.., near, far] = points.as_mut_slice() {
            far.1 = far.1.max(near.1);
        }
        SeekCurve::Table(points)
    });
    prop_oneof![three, table, (1_u64..5000).prop_map(|time| SeekCurve::Constant(Nanos(time)))]
}

prop_compose! {
    fn profiles()(
        heads in 1_u32..4,
        zones in proptest::collection::vec((1_u32..6, 1_u32..20), 1..5),
        rotation in 20_u64..20_000,
        seek in seek_curves(),
        (head_switch, write_settle, overhead) in (0_u64..1500, 0_u64..1500, 0_u64..300),
        track_skew in proptest::option::of(0_u64..30_000),
        cylinder_skew in proptest::option::of(0_u64..30_000),
        average_rotation in proptest::bool::weighted(0.2),
        queue_depth in 1_u32..8,
    ) -> DiskProfile {
        let zones = zones.into_iter().map(|(cylinders, sectors_per_track)| DiskZone { cylinders, sectors_per_track });
        DiskProfile {
            heads,
            zones: zones.collect(),
            rotation: Nanos(rotation),
            seek,
            head_switch: Nanos(head_switch),
            write_settle: Nanos(write_settle),
            overhead: Nanos(overhead),
            track_skew: track_skew.map(Nanos),
            cylinder_skew: cylinder_skew.map(Nanos),
            average_rotation,
            queue_depth,
        }
    }
}

/// A command, with its place and length as shares of the disk, the time since the one before, and
/// whether a completion at that same time comes first.
#[derive(Clone, Debug)]
struct Step {
    op: DiskOp,
    lbn: u64,
    sectors: u32,
    gap: u64,
    completion_first: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ops = prop_oneof![8 => Just(DiskOp::Read), 8 => Just(DiskOp::Write), 1 => Just(DiskOp::Flush),
        1 => Just(DiskOp::Discard)];
    let gaps = prop_oneof![3 => Just(0), 2 => 0_u64..20_000, 1 => 0_u64..200_000];
    // Few distinct places, so that equal costs are common; mostly short, at times many tracks.
    let places = prop_oneof![(0_u64..12).prop_map(|twelfth| twelfth * (u64::MAX / 12)), any::<u64>()];
    let lengths = prop_oneof![4 => 1_u32..5, 1 => 1_u32..100];
    let step = (ops, places, lengths, gaps, any::<bool>()).prop_map(|(op, lbn, sectors, gap, completion_first)| Step {
        op,
        lbn,
        sectors,
        gap,
        completion_first,
    });
    proptest::collection::vec(step, 1..60)
}

fn behaves_like_the_model(
    profile: &DiskProfile,
    scheduler: DiskScheduler,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let mut disk = SimulatedDisk::new(profile, scheduler).expect("a disk");
    let mut model = Model::new(profile, scheduler);
    let capacity = model.tracks.iter().map(|track| track.sectors).sum::<u64>();
    prop_assert_eq!(disk.sectors(), capacity);
    for track in &model.tracks {
        let place = disk.geometry().locate(track.first_lbn).expect("on the disk");
        let found = (u64::from(place.cylinder), u64::from(place.head), u64::from(place.slot), place.sector);
        prop_assert_eq!(found, (track.cylinder, track.head, track.first_slot, 0));
    }
    prop_assert_eq!(disk.geometry().locate(capacity), None);

    let mut now = 0;
    let mut seen = vec![0; steps.len()];
    let mut flushed = Vec::new();
    let mut complete = |disk: &mut SimulatedDisk, model: &mut Model| {
        prop_assert_eq!(disk.next_completion(), model.serving.as_ref().map(|(_, end, _)| Nanos(*end)));
        let completion = disk.complete().expect("a completion");
        prop_assert_eq!(completion, model.complete());
        let tag = completion.1 as usize;
        seen[tag] += 1;
        // Whatever was accepted before a flush is done when it is.
        if steps[tag].op == DiskOp::Flush {
            prop_assert!(seen[..tag].iter().all(|&times| times == 1), "flush {tag} passed a command before it");
            flushed.push(tag);
        }
        prop_assert_eq!(disk.stats(), &model.stats);
        Ok(())
    };
    for (tag, step) in steps.iter().enumerate() {
        now += step.gap;
        while disk.next_completion().is_some_and(|at| at.0 < now || at.0 == now && step.completion_first) {
            complete(&mut disk, &mut model)?;
        }
        let lbn = ((u128::from(step.lbn) * u128::from(capacity)) >> 64) as u64;
        let sectors = u64::from(step.sectors).min(capacity - lbn) as u32;
        let command = DiskCommand { op: step.op, lbn, sectors, tag: tag as u64 };
        disk.submit(Nanos(now), command).expect("a command on the disk");
        model.submit(now, command);
        prop_assert_eq!(disk.outstanding(), model.held.len() + usize::from(model.serving.is_some()));
    }
    while disk.outstanding() > 0 {
        complete(&mut disk, &mut model)?;
    }
    prop_assert_eq!((disk.next_completion(), disk.complete()), (None, None));
    prop_assert!(seen.iter().all(|&times| times == 1), "completions: {:?}", seen);
    prop_assert_eq!(flushed.len(), steps.iter().filter(|step| step.op == DiskOp::Flush).count());
    let s = disk.stats();
    prop_assert_eq!(s.busy, s.overhead + s.seek + s.switch + s.settle + s.rotation + s.transfer);
    prop_assert_eq!(s.commands(), steps.len() as u64);
    Ok(())
}

fn cases() -> u32 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 200_000 } else { 2_000 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn does_what_the_model_does(profile in profiles(), which in 0_usize..4, steps in steps()) {
        behaves_like_the_model(&profile, DiskScheduler::ALL[which], &steps)?;
    }
}

/// Every time at its longest, tracks and heads at their most: no sum leaves its type.
#[test]
fn the_limits_of_what_is_allowed() {
    let second = Nanos(1_000_000_000);
    let profile = DiskProfile {
        heads: 1024,
        zones: vec![
            DiskZone { cylinders: 1, sectors_per_track: 1 << 20 },
            DiskZone { cylinders: 2, sectors_per_track: 1 },
        ],
        rotation: second,
        seek: SeekCurve::Constant(second),
        head_switch: second,
        write_settle: second,
        overhead: second,
        track_skew: None,
        cylinder_skew: Some(second),
        average_rotation: false,
        queue_depth: 1024,
    };
    for scheduler in DiskScheduler::ALL {
        let mut disk = SimulatedDisk::new(&profile, scheduler).expect("a disk");
        assert_eq!(disk.sectors(), (1 << 30) + 2048);
        for tag in 0..2048 {
            let lbn = if tag % 2 == 0 { tag << 18 } else { disk.sectors() - tag };
            disk.submit(Nanos(tag), DiskCommand { op: DiskOp::Write, lbn, sectors: 1, tag }).expect("a write");
        }
        let last = std::iter::from_fn(|| disk.complete()).last().expect("completions").0;
        let s = disk.stats();
        assert_eq!((s.writes, s.busy), (2048, s.overhead + s.seek + s.switch + s.settle + s.rotation + s.transfer));
        // It was never idle, since all came before the first was done.
        assert_eq!(last, s.busy, "{scheduler:?}");
    }
}

fn refusal(change: impl FnOnce(&mut DiskProfile)) -> String {
    let mut profile = DiskProfile::tb1_7200();
    change(&mut profile);
    SimulatedDisk::new(&profile, DiskScheduler::Fcfs).expect_err("no disk").to_string()
}

#[test]
fn impossible_profiles_say_what_to_change() {
    assert!(refusal(|p| p.heads = 0).contains("disk.heads = 0 is not between 1 and 1024"));
    assert!(refusal(|p| p.queue_depth = 0).contains("disk.queue-depth = 0"));
    assert!(refusal(|p| p.rotation = Nanos::ZERO).contains("disk.rotation = 0"));
    assert!(refusal(|p| p.head_switch = Nanos(1_000_000_001)).contains("disk.head-switch = 1000000001"));
    assert!(refusal(|p| p.write_settle = Nanos(u64::MAX)).contains("disk.write-settle"));
    assert!(refusal(|p| p.overhead = Nanos(u64::MAX)).contains("disk.overhead"));
    assert!(refusal(|p| p.track_skew = Some(Nanos(u64::MAX))).contains("disk.track-skew"));
    assert!(refusal(|p| p.cylinder_skew = Some(Nanos(u64::MAX))).contains("disk.cylinder-skew"));
    assert!(refusal(|p| p.zones.clear()).contains("disk.zones: the sum of cylinders = 0"));
    assert!(refusal(|p| p.zones[0].cylinders = u32::MAX).contains("the sum of cylinders = 4295012295"));
    assert!(refusal(|p| p.zones[3].cylinders = 0).contains("disk.zones[3].cylinders = 0 is not between 1"));
    assert!(refusal(|p| p.zones[9].sectors_per_track = 0).contains("disk.zones[9].sectors-per-track = 0"));
    assert!(refusal(|p| p.zones[9].sectors_per_track = 1 << 21).contains("between 1 and 1048576"));
    // A sector of less than a nanosecond.
    assert!(refusal(|p| p.rotation = Nanos(2000)).contains("disk.zones[0].sectors-per-track = 2441"));
}

#[test]
fn impossible_seek_curves_say_what_to_change() {
    let three = |single, average, full| {
        let (single, average, full) = (Nanos(single), Nanos(average), Nanos(full));
        refusal(|p| p.seek = SeekCurve::ThreePoint { single, average, full })
    };
    assert!(three(9, 8, 10).contains("single (9 ns), average (8 ns) and full (10 ns) must ascend"));
    assert!(three(0, 8, 10).contains("disk.seek.single = 0"));
    assert!(three(1, 2, 2_000_000_000).contains("disk.seek.full = 2000000000"));
    // So steep at first that the curve must come down again.
    assert!(three(1_000_000, 17_000_000, 17_000_000).contains("disk.seek: the curve falls at a distance of"));
    assert!(three(1_000_000, 1_000_000, 17_000_000).contains("disk.seek: the curve falls at a distance of 2 "));
    let table = |points: &[(u32, u64)]| {
        let points = points.iter().map(|&(distance, time)| (distance, Nanos(time))).collect();
        refusal(|p| p.seek = SeekCurve::Table(points))
    };
    assert!(table(&[]).contains("disk.seek.table: point 0 is missing"));
    assert!(table(&[(2, 5)]).contains("point 0 is missing or out of order"));
    assert!(table(&[(1, 5), (9, 6), (9, 7)]).contains("point 2 is missing or out of order"));
    assert!(table(&[(1, 5), (9, 0)]).contains("disk.seek.table = 0"));
    assert!(table(&[(1, 500), (9, 5)]).contains("the curve falls at a distance of 10 "));
    assert!(table(&[(1, 5), (2, 900_000_000)]).contains("disk.seek.table, extrapolated, = "));
    assert!(refusal(|p| p.seek = SeekCurve::Constant(Nanos::ZERO)).contains("disk.seek.constant = 0"));
    assert_eq!(
        SimulatedDisk::new(
            &DiskProfile { seek: SeekCurve::Table(Vec::new()), ..DiskProfile::barracuda_2gb() },
            DiskScheduler::default()
        )
        .expect_err("no curve"),
        DiskError::SeekPoints { place: 0 }
    );
}

#[test]
fn sectors_that_are_not_there_are_refused_and_change_nothing() {
    let mut disk = SimulatedDisk::new(&DiskProfile::tb1_7200(), DiskScheduler::Sptf).expect("a disk");
    let end = disk.sectors();
    let beyond = [(0, 0), (end, 1), (end - 1, 2), (end, 0), (u64::MAX, 1), (u64::MAX - 4, 5)];
    for op in [DiskOp::Read, DiskOp::Write, DiskOp::Discard] {
        for (lbn, sectors) in beyond {
            let refused = disk.submit(Nanos(5), DiskCommand { op, lbn, sectors, tag: 0 }).expect_err("not on the disk");
            assert_eq!((refused.lbn, refused.sectors, refused.capacity), (lbn, sectors, end));
        }
    }
    assert_eq!((disk.outstanding(), disk.next_completion()), (0, None));
    let refused = disk.submit(Nanos(1), DiskCommand { op: DiskOp::Write, lbn: end, sectors: 7, tag: 0 });
    let message = refused.expect_err("not on the disk").to_string();
    assert!(message.starts_with(&format!("write of 7 sectors from LBN {end}: ")), "{message}");
    disk.submit(Nanos(1), DiskCommand { op: DiskOp::Read, lbn: end - 1, sectors: 1, tag: 3 }).expect("the last sector");
    disk.submit(Nanos(1), DiskCommand { op: DiskOp::Flush, lbn: u64::MAX, sectors: 0, tag: 4 }).expect("a flush");
    assert_eq!(disk.complete().map(|(_, tag)| tag), Some(3));
    assert_eq!(disk.complete().map(|(_, tag)| tag), Some(4));
}

#[test]
#[should_panic(expected = "was not taken by")]
fn a_completion_that_was_not_taken_in_time_is_the_callers_mistake() {
    let mut disk = SimulatedDisk::new(&DiskProfile::tb1_7200(), DiskScheduler::Fcfs).expect("a disk");
    let read = DiskCommand { op: DiskOp::Read, lbn: 0, sectors: 1, tag: 0 };
    disk.submit(Nanos::ZERO, read).expect("a read");
    let done = disk.next_completion().expect("in service");
    let _ = disk.submit(done + Nanos(1), read);
}

#[test]
#[should_panic(expected = "the time of an earlier call")]
fn time_does_not_go_back() {
    let mut disk = SimulatedDisk::new(&DiskProfile::tb1_7200(), DiskScheduler::Fcfs).expect("a disk");
    let read = DiskCommand { op: DiskOp::Read, lbn: 0, sectors: 1, tag: 0 };
    disk.submit(Nanos(10), read).expect("a read");
    let _ = disk.submit(Nanos(9), read);
}
