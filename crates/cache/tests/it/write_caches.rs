//! The write caches of the controller by what they make members do: the worked examples of LAWC's paper,
//! and that its parts are what they are without the others (specs §8, §12.2).

use std::sync::Arc;

use destage_cache::{ServedTier, host_cache, serve};
use destage_exec::{CrashRemains, MemoryExecutor, NextStep, NoCheck, StepLatency, StepLog};
use destage_plan::{Column, Control, Dev, DevSet, HostNotice, HostOp, HostRequest, Nanos, Shape, StepKind, Stripe};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};

use destage_testkit::{TestRng, data, draw};

use crate::write_caches_losses::Nothing;

const PAGE: u64 = 64;
const SECTOR: u64 = 16;

struct Run {
    name: String,
    memory: MemoryExecutor<Box<dyn ServedTier>>,
    log: StepLog,
    tag: u64,
    stripe: u64,
    pages: u64,
}

impl Run {
    fn new(cache: &str, level: RaidLevel, members: u32, chunk: u32, pages: u64) -> Self {
        let geometry = Geometry::new(level, None, members, chunk, 32).expect("a shape that can be");
        let mut config = ArrayConfig::new(geometry.clone());
        config.idle_flush = Nanos(1 << 60);
        let controller = serve(cache, &config, pages).expect("a cache that can be");
        let stripe = u64::from(chunk) * u64::from(geometry.data_columns());
        let shape = Shape::new(PAGE, SECTOR, stripe, stripe, geometry.data_pages()).expect("a tiny array");
        let remains = CrashRemains::fresh((0..members).map(|_| (geometry.member_pages() * PAGE) as usize));
        let mut memory = MemoryExecutor::start(controller, remains, shape, 64);
        let log = StepLog::default();
        memory.keep_log(Arc::clone(&log));
        let name = cache.split(':').next().unwrap_or(cache).to_owned();
        Self { name, memory, log, tag: 0, stripe, pages: geometry.data_pages() }
    }

    /// Writes pages; they need not be answered.
    fn write(&mut self, page: u64, pages: u64) {
        self.tag += 1;
        let request =
            HostRequest { tag: self.tag, op: HostOp::Write, offset: page * PAGE, len: pages * PAGE, fua: false };
        self.memory.submit(request, &vec![self.tag as u8; (pages * PAGE) as usize]).expect("a request in range");
    }

    /// Reads pages; they need not be answered.
    fn read(&mut self, page: u64, pages: u64) {
        self.tag += 1;
        let request =
            HostRequest { tag: self.tag, op: HostOp::Read, offset: page * PAGE, len: pages * PAGE, fua: false };
        self.memory.submit(request, &[]).expect("a request in range");
    }

    /// Returns the pages that were read from the cache and from members.
    fn reads(&self) -> (u64, u64) {
        let counts = self.memory.engine().controller().counts().expect("they are counted");
        (counts.read_hits, counts.read_misses)
    }

    /// Lets everything end that is under way, but for timers; how many requests were answered.
    fn rest(&mut self) -> usize {
        while !self.memory.is_idle() && self.memory.runnable() > 0 {
            self.memory.run(NextStep::Earliest, &NoCheck).expect("the controller goes on");
        }
        self.answered()
    }

    fn answered(&mut self) -> usize {
        let mut answered = 0;
        while let Some(notice) = self.memory.next_notice() {
            if let HostNotice::Acked { ok, .. } = notice {
                assert!(ok, "it is served");
                answered += 1;
            }
        }
        answered
    }

    fn steps(&self, kind: StepKind) -> u64 {
        self.memory.engine().out().counts()[kind as usize]
    }

    fn figure(&self, name: &str) -> u64 {
        let cache = self.memory.engine().controller();
        let info = host_cache(&self.name).expect("it is registered");
        let at = info.figures.iter().position(|figure| figure.name == name).expect("a figure of this name");
        cache.figures()[at]
    }

    /// Returns the commands to members, in order.
    fn commands(&self) -> Vec<String> {
        let log = self.log.lock().expect("nobody panics over it");
        let of_members = |line: &&String| line.contains(" Write") || line.contains(" Read {");
        // Which operation it was of does not matter.
        let command =
            |line: &String| line.split_once(|c: char| "WR".contains(c)).map_or("", |(_, rest)| rest).to_owned();
        log.iter().filter(of_members).map(command).collect()
    }
}

/// A cache that would keep what it holds writes it back when it is told to, and says when it has.
#[test]
fn drained() {
    for cache in
        ["wow:low=100:high=100", "stow:low=100:high=100", "sync+iwc:timeout=1h:full=wait", "lawc:timeout=1h:full=wait"]
    {
        let mut run = Run::new(cache, RaidLevel::Raid4, 4, 1, 12);
        run.write(0, 2);
        run.write(4, 1);
        assert_eq!(run.rest(), 2, "{cache}");
        assert_eq!(run.steps(StepKind::Write), 0, "nothing is destaged so far, {cache}");
        run.memory.control(Control::Drain);
        let mut drained = 0;
        while !run.memory.is_idle() {
            run.memory.run(NextStep::Oldest, &NoCheck).expect("nothing is violated");
            assert!(drained == 0, "told at the end, {cache}");
            while let Some(notice) = run.memory.next_notice() {
                drained += usize::from(notice == HostNotice::Drained);
            }
        }
        assert_eq!(drained, 1, "{cache}");
        let controller = run.memory.engine().controller();
        assert_eq!(controller.stale_rows(), 0, "{cache}");
        assert!(run.steps(StepKind::Write) >= 4, "data and parity of two rows, {cache}");
    }
}

/// Figure 4 of the paper, specs §8.6: RAID-4 of three data members, a page to a strip. WOW writes the
/// stripe whole and reads nothing; LAWC reads A2 for the first parity, and nothing for the second.
#[test]
fn figure_4() {
    let mut wow = Run::new("wow:low=100:high=100", RaidLevel::Raid4, 4, 1, 8);
    wow.write(0, 2);
    wow.write(1, 2);
    assert_eq!(wow.rest(), 2);
    assert_eq!((wow.steps(StepKind::Read), wow.steps(StepKind::Write)), (0, 0), "nothing is destaged so far");
    wow.memory.control(Control::Clean);
    wow.rest();
    assert_eq!((wow.steps(StepKind::Read), wow.steps(StepKind::Write)), (0, 4));
    for cache in ["sync+iwc:timeout=1h:full=wait", "lawc:small=0:timeout=1h:full=wait"] {
        let mut run = Run::new(cache, RaidLevel::Raid4, 4, 1, 8);
        run.write(0, 2);
        assert_eq!(run.rest(), 1);
        assert_eq!((run.steps(StepKind::Read), run.steps(StepKind::Write)), (1, 0), "A2 is read, {cache}");
        run.write(1, 2);
        assert_eq!(run.rest(), 1);
        assert_eq!((run.steps(StepKind::Read), run.steps(StepKind::Write)), (1, 4), "{cache}");
        assert_eq!(run.figure("together"), 1, "all four are ready when A2 is there");
    }
}

/// Figure 5, specs §8.5: four members, a page to a strip. Four strips go together, the fifth waits for
/// the others until the time is up, counted from the acknowledgement before.
#[test]
fn figure_5() {
    let mut run = Run::new("sync+iwc:timeout=10ms", RaidLevel::Raid0, 4, 1, 16);
    // A: A0, A1; B: A2 and then B2, B3. Nothing is written before the fourth member has something.
    run.write(0, 2);
    run.write(2, 1);
    run.write(6, 1);
    run.rest();
    assert_eq!(run.steps(StepKind::Write), 0, "member 3 has nothing to write");
    run.write(7, 1);
    run.rest();
    assert_eq!((run.steps(StepKind::Write), run.figure("together")), (4, 1));
    let acknowledged = run.memory.now();
    while run.steps(StepKind::Write) == 4 {
        run.memory.run(NextStep::Earliest, &NoCheck).expect("the controller goes on");
    }
    assert_eq!(run.figure("timeouts"), 1);
    assert_eq!(run.memory.now(), acknowledged + Nanos(10_000_000));
}

/// Groups wait until all members have something to write, and go together; or until the time is up,
/// or a write waits for room (specs §8.5).
#[test]
fn groups_go_when_all_members_have_something_to_write() {
    let new = |settings: &str| Run::new(&format!("sync+wow:groups=4:{settings}"), RaidLevel::Raid0, 4, 1, 8);
    let write = |run: &mut Run, page: u64| {
        run.write(page, 1);
        (run.rest(), run.steps(StepKind::Write))
    };
    let mut run = new("timeout=1h");
    // Columns 0 of group 0, 1 and 2 of group 1, 2 of group 2.
    assert_eq!([0, 5, 6, 10].map(|page| write(&mut run, page)), [(1, 0); 4]);
    assert_eq!(write(&mut run, 3), (1, 5), "member 3, of a group that is chosen");
    assert_eq!((run.figure("together"), run.figure("destages")), (1, 3));
    let mut run = new("timeout=10ms");
    assert_eq!([0, 5].map(|page| write(&mut run, page)), [(1, 0); 2]);
    while run.steps(StepKind::Write) == 0 {
        run.memory.run(NextStep::Earliest, &NoCheck).expect("the controller goes on");
    }
    assert_eq!((run.steps(StepKind::Write), run.figure("timeouts"), run.figure("destages")), (2, 1, 2));
    for (full, written, answered) in [("release", 9, 1), ("wait", 0, 0)] {
        let mut run = new(&format!("timeout=1h:full={full}"));
        for page in [0, 1, 2, 4, 5, 6, 8, 9] {
            assert_eq!(write(&mut run, page), (1, 0));
        }
        assert_eq!(write(&mut run, 10), (answered, if written > 0 { 8 } else { 0 }), "no room, full={full}");
        assert_eq!((run.figure("waited"), run.figure("released_full")), (1, u64::from(written > 0)));
    }
    // With empty=skip they wait for what is being written, and for nothing else.
    let mut run = new("timeout=1h:empty=skip");
    run.memory.set_latency(StepLatency { write: Nanos(1_000_000), ..StepLatency::default() });
    run.write(0, 1);
    while run.steps(StepKind::Write) == 0 {
        run.memory.run(NextStep::Earliest, &NoCheck).expect("the controller goes on");
    }
    run.write(5, 1);
    while run.memory.runnable() > 1 {
        run.memory.run(NextStep::Earliest, &NoCheck).expect("the controller goes on");
    }
    assert_eq!((run.answered(), run.steps(StepKind::Write), run.figure("together")), (2, 1, 1));
    run.rest();
    assert_eq!((run.steps(StepKind::Write), run.figure("together"), run.figure("timeouts")), (2, 2, 0));
}

/// Waits for a collecting member as long as recent collections took (specs §8.5): 5 ms after one of 3 ms and
/// one of 19 ms.
#[test]
fn a_timeout_follows_collections() {
    let mut run = Run::new("sync+iwc:timeout=auto", RaidLevel::Raid0, 4, 1, 16);
    let waits = |run: &mut Run, page: u64| {
        run.write(page, 1);
        assert_eq!(run.rest(), 1);
        let (before, began) = (run.steps(StepKind::Write), run.memory.now());
        while run.steps(StepKind::Write) == before {
            run.memory.run(NextStep::Earliest, &NoCheck).expect("the controller goes on");
        }
        (run.memory.now().0 - began.0).div_ceil(1_000_000)
    };
    assert_eq!(waits(&mut run, 0), 10, "none was seen");
    run.memory.set_collectors(DevSet::first(4));
    for milliseconds in [3, 19] {
        run.memory.device_gc(Dev(1), 0, true, 2);
        // What is read takes as long.
        let began = run.memory.now();
        let read = Nanos(milliseconds * 1_000_000);
        run.memory.set_latency(StepLatency { read, page: Nanos(0), ..StepLatency::default() });
        run.tag += 1;
        let read = HostRequest { tag: run.tag, op: HostOp::Read, offset: 8 * PAGE, len: PAGE, fua: false };
        run.memory.submit(read, &[]).expect("a request in range");
        assert_eq!(run.rest(), 1);
        assert_eq!(run.memory.now(), began + Nanos(milliseconds * 1_000_000));
        run.memory.device_gc(Dev(1), 0, false, 2);
    }
    assert_eq!(waits(&mut run, 1), 5);
    assert_eq!((run.figure("sync_waits"), run.figure("sync_timeout")), (2, 15_000_000));
}

/// The table of specs §8.7: g5 {0, 1, 2} and g6 {0} fill a small cache, but for a page of g1 that is on
/// its way and waits for room in the only cache of a member that all of them need, of one page.
#[test]
fn a_write_that_does_not_fit_waits_only_if_it_depends_on_what_is_there() {
    let mut run = Run::new("lawc:small=56:timeout=1h:full=wait", RaidLevel::Raid0, 4, 4, 9);
    let group = run.stripe;
    let answered = |run: &mut Run, page: u64, pages: u64| {
        run.write(page, pages);
        run.rest()
    };
    assert_eq!(answered(&mut run, 0, 1), 1, "it goes on into the member's cache, and fills that");
    assert_eq!(answered(&mut run, group, 1), 1, "on its way");
    assert_eq!(answered(&mut run, 5 * group, 3), 1);
    assert_eq!(answered(&mut run, 6 * group, 1), 1);
    assert_eq!((run.figure("bypassed"), run.figure("waited")), (0, 0));
    assert_eq!(answered(&mut run, 7 * group, 2), 0, "it does not fit: past the small cache, where it waits for room");
    assert_eq!((run.figure("bypassed"), run.figure("waited")), (1, 0));
    assert_eq!(answered(&mut run, 5 * group + 1, 1), 1, "a hit takes no room");
    assert_eq!(answered(&mut run, 5 * group + 2, 2), 0, "page 2 is there, and there is no room for page 3");
    assert_eq!((run.figure("bypassed"), run.figure("waited")), (1, 1));
    // Hours later.
    let mut late = 0;
    for _ in 0..1_000 {
        if run.memory.runnable() > 0 || run.memory.engine().next_timer().is_some_and(|at| at.0 < 1 << 58) {
            run.memory.run(NextStep::Earliest, &NoCheck).expect("the controller goes on");
        }
        late += run.answered();
    }
    assert_eq!(late, 2);
}

/// A history of requests at random, many at a time.
fn history(cache: &str, level: RaidLevel, seed: u64) -> Run {
    let mut run = Run::new(cache, level, 5, 4, 40);
    let sizes = destage_testkit::ArraySizes { sector: SECTOR, page: PAGE, stripe: run.stripe, pages: run.pages };
    let mut dice = TestRng::new(seed);
    for tag in 1..=4_000 {
        let request = HostRequest { fua: false, ..draw(&mut dice, &sizes, tag) };
        if request.op == HostOp::Discard {
            continue;
        }
        run.memory.submit(request, &data(&request, SECTOR)).expect("a request in range");
        for _ in 0..dice.below(12) {
            if run.memory.runnable() > 0 {
                run.memory.run(NextStep::Earliest, &NoCheck).expect("the controller goes on");
            }
        }
        run.answered();
    }
    run.rest();
    run
}

#[test]
fn lawc_without_a_small_cache_is_synchronised_iwc() {
    for (seed, level) in
        [RaidLevel::Raid0, RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6].into_iter().enumerate()
    {
        let (one, other) = (history("lawc:small=0", level, seed as u64), history("sync+iwc", level, seed as u64));
        assert!(one.commands().len() > 10_000, "members are asked for much");
        assert_eq!(one.commands(), other.commands(), "{level}");
    }
}

#[test]
fn what_does_not_wait_for_others_is_as_if_it_were_not_synchronised() {
    let caches = ["iwc", "wow:groups=3", "wow:groups=20:seq=on:low=30:high=60", "stow:groups=3:hysteresis=3"];
    for cache in caches {
        let (name, settings) = cache.split_once(':').unwrap_or((cache, "full=wait"));
        let synchronised = format!("sync+{name}:timeout=0s:{settings}");
        for (seed, level) in
            [RaidLevel::Raid0, RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6].into_iter().enumerate()
        {
            let (one, other) = (history(&synchronised, level, seed as u64), history(cache, level, seed as u64));
            assert!(one.commands().len() > 8_000, "members are asked for much: {}", one.commands().len());
            assert_eq!(one.commands(), other.commands(), "{cache}, {level}");
        }
    }
}

/// A page is written again and again while an older version of it waits for room on its way into the
/// members' caches. Each version takes a slot of the NVRAM that is not freed before that older one's; some
/// are kept for that, or it would wait for these, and these for it.
#[test]
fn what_is_written_again_on_its_way_leaves_slots_for_that() {
    for level in [RaidLevel::Raid0, RaidLevel::Raid5] {
        for hot in 0..6 {
            let mut run = Run::new("lawc:small=75:timeout=1h:full=wait", level, 4, 1, 13);
            let mut answered = 0;
            for page in [0, 3, 1, 4, 2, 5].into_iter().chain(std::iter::repeat_n(hot, 400)) {
                run.write(page, 1);
                answered += run.rest();
            }
            for _ in 0..10_000 {
                if run.memory.runnable() > 0 || run.memory.engine().next_timer().is_some_and(|at| at.0 < 1 << 58) {
                    run.memory.run(NextStep::Earliest, &NoCheck).expect("the controller goes on");
                }
                answered += run.answered();
            }
            assert_eq!(answered, 406, "{level}, page {hot}");
        }
    }
}

/// A whole stripe is written again while it waits for its turn to be destaged: its new versions need slots,
/// more than there are beside the pages that the cache may hold, and it is not destaged before they have them.
#[test]
fn a_stripe_that_is_written_again_needs_no_more_slots_than_there_are() {
    for (level, pages) in [(RaidLevel::Raid0, 48), (RaidLevel::Raid5, 36)] {
        for cache in ["wow", "stow"] {
            let members = if level == RaidLevel::Raid0 { 2 } else { 3 };
            let mut run = Run::new(cache, level, members, 16, pages);
            // One group at a time: the second waits for the first.
            run.write(32, 1);
            run.write(0, 32);
            run.write(0, 32);
            assert_eq!(run.rest(), 3, "{cache} over {level}");
        }
    }
}

/// A row that is larger than what is free below the thresholds does not wait for ever: the cache is full
/// then (specs §8.2).
#[test]
fn a_write_that_waits_for_room_has_groups_destaged_below_the_thresholds() {
    let mut run = Run::new("wow:low=80:high=90", RaidLevel::Raid0, 5, 1, 6);
    run.write(0, 2);
    assert_eq!((run.rest(), run.steps(StepKind::Write)), (1, 0));
    run.write(5, 5);
    assert_eq!((run.rest(), run.figure("waited")), (1, 1));
    assert_eq!(run.steps(StepKind::Write), 7, "what was in its way, and then itself, since it is 83 % of the cache");
}

/// Below the threshold a run of sequential groups goes on with exactly four at a time, and ends
/// with what is not of it (specs §8.1).
#[test]
fn four_groups_of_a_run_go_on_below_the_threshold() {
    let at_a_time = |cache: &str, writes: &[(u64, u64)]| {
        let mut run = Run::new(cache, RaidLevel::Raid0, 5, 1, 40);
        let (mut least, mut most) = (usize::MAX, 0);
        for (page, pages) in writes {
            run.write(*page, *pages);
            while run.steps(StepKind::Write) < 5 && run.memory.runnable() > 0 {
                run.memory.run(NextStep::Earliest, &NoCheck).expect("the controller goes on");
            }
        }
        // Beside the first group.
        while run.memory.runnable() > 0 {
            if (6..35).contains(&run.steps(StepKind::Write)) {
                (least, most) = (least.min(run.memory.runnable()), most.max(run.memory.runnable()));
            }
            run.memory.run(NextStep::Earliest, &NoCheck).expect("the controller goes on");
        }
        (run.steps(StepKind::Write), least, most)
    };
    let in_order: Vec<(u64, u64)> = (0..35).map(|page| (page, 1)).chain([(100, 1)]).collect();
    let settings = "low=90:high=100:groups=20";
    assert_eq!(at_a_time(&format!("wow:{settings}"), &in_order).0, 5, "the one that is allowed at 90 %");
    let (pages, least, most) = at_a_time(&format!("wow:{settings}:seq=on"), &in_order);
    assert_eq!((pages, most), (35, 20), "seven groups, four of five pages at a time; page 100 is not of them");
    assert!(least > 15, "the next goes when one has gone");
    let mut backwards = in_order[..35].to_vec();
    backwards.reverse();
    backwards.push((100, 1));
    assert_eq!(at_a_time(&format!("wow:{settings}:seq=on"), &backwards).0, 5, "no run");
    assert_eq!(at_a_time("wow:low=90:high=100:groups=3:seq=on", &in_order).2, 15, "no more than may be at all");
}

/// Counts as others a read in more pieces than an operation has steps for, and one of a member that is lost.
#[test]
fn pages_that_are_read_in_another_way_are_counted() {
    let mut run = Run::new("wow:low=100:high=100", RaidLevel::Raid5, 4, 32, 100);
    for page in (0..96).step_by(2) {
        run.write(page, 1);
    }
    assert_eq!(run.rest(), 48);
    run.read(0, 96);
    assert_eq!((run.rest(), run.reads()), (1, (48, 48)));

    let mut run = Run::new("wow:low=100:high=100", RaidLevel::Raid5, 4, 1, 8);
    run.write(0, 1);
    run.rest();
    let lost = run.memory.engine().controller().array().config().geometry.device(Stripe(0), Column(1));
    run.memory.fail(lost, &mut Nothing);
    run.memory.announce(lost);
    run.rest();
    run.read(0, 3);
    assert_eq!((run.rest(), run.reads()), (1, (1, 2)));
}
