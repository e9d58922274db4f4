//! Tests which SSDs are told to collect, how much and when (specs §8.8).

use destage_cache::{ServedTier, all_host_caches, host_cache_layers, host_caches, serve};
use destage_plan::{
    Control, Dev, DevSet, DeviceChange, Engine, HostNotice, HostOp, HostRequest, Issue, Nanos, Quota, Refusal, Shape,
    Start, Status, Step, StepOutcome,
};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};

const PAGE: u64 = 4096;
const MS: u64 = 1_000_000;

struct Bench {
    engine: Engine<Box<dyn ServedTier>>,
    /// Orders that are not done.
    orders: Vec<(Issue, Dev, Quota)>,
}

impl Bench {
    fn start(cache: &str, collectors: DevSet, missing: DevSet) -> Self {
        let geometry = Geometry::new(RaidLevel::Raid5, None, 4, 4, 64).expect("an array");
        let stripe = u64::from(geometry.chunk_pages()) * u64::from(geometry.data_columns());
        let shape = Shape::new(PAGE, 512, stripe, stripe, geometry.data_pages()).expect("a shape");
        let mut config = ArrayConfig::new(geometry);
        config.idle_flush = Nanos(1 << 60);
        let mut engine = Engine::new(serve(cache, &config, 32).expect("a cache"), shape, 16);
        engine.start(Nanos(0), Start { nv: &[], intents: &[], missing, collectors, unwritable: &[] });
        let mut bench = Self { engine, orders: Vec::new() };
        bench.go_on(0);
        bench
    }

    fn new(cache: &str) -> Self {
        Self::start(cache, DevSet::first(4), DevSet::EMPTY)
    }

    /// Everything is done at once, but for orders to collect.
    fn go_on(&mut self, now: u64) {
        while let Some(issue) = self.engine.next_issue() {
            match *self.engine.step(issue) {
                Step::Collect { dev, quota } => self.orders.push((issue, dev, quota)),
                _ => self.engine.complete(Nanos(now), issue, StepOutcome::Ok),
            }
        }
    }

    fn begins(&mut self, now: u64, dev: u8, blocks: u32) {
        self.engine.device_gc(Nanos(now), Dev(dev), 0, true, blocks);
        self.go_on(now);
    }

    fn done(&mut self, now: u64, outcome: impl Fn(Dev) -> StepOutcome) {
        for (issue, dev, _) in std::mem::take(&mut self.orders) {
            self.engine.complete(Nanos(now), issue, outcome(dev));
        }
        self.go_on(now);
    }

    fn write(&mut self, now: u64) {
        let request = HostRequest { tag: 0, op: HostOp::Write, offset: 0, len: PAGE, fua: false };
        self.engine.submit(Nanos(now), request).expect("in range");
        self.go_on(now);
    }

    fn asked(&self) -> Vec<(u8, Quota)> {
        self.orders.iter().map(|(_, dev, quota)| (dev.0, *quota)).collect()
    }
}

#[test]
fn when_one_begins_all_others_are_asked_for_as_many_blocks() {
    for cache in host_caches() {
        let mut bench = Bench::new(&format!("ggc+{}:quota=same", cache.name));
        bench.begins(0, 1, 3);
        let three = Quota::Blocks(3);
        assert_eq!(bench.asked(), [(0, three), (2, three), (3, three)], "{}", cache.name);
        // What they collect because they were asked begins no round, what the first does again one that asks
        // nobody who is not done.
        bench.begins(5, 0, 3);
        bench.begins(6, 1, 2);
        assert_eq!(bench.asked().len(), 3);
        bench.done(10, |_| StepOutcome::Ok);
        bench.begins(11, 0, 0);
        let usual = Quota::Blocks(2);
        assert_eq!(bench.asked(), [(1, usual), (2, usual), (3, usual)], "a device that does not tell how many");
        bench.engine.device_gc(Nanos(12), Dev(0), 0, false, 0);
        bench.done(13, |_| StepOutcome::Ok);
        assert!(bench.asked().is_empty() && bench.engine.is_idle(), "an end is no begin");
        let rounds = bench.engine.controller().rounds().expect("it counts");
        assert_eq!((rounds.reactive, rounds.proactive, rounds.asked), (3, 0, 6));
    }
}

#[test]
fn the_quota_is_a_parameter() {
    for (quota, expected) in [
        ("", Quota::Watermark),
        (":quota=watermark", Quota::Watermark),
        (":quota=7", Quota::Blocks(7)),
        (":quota=65535", Quota::Blocks(65_535)),
    ] {
        let mut bench = Bench::new(&format!("ggc+wow:groups=2{quota}"));
        bench.begins(0, 3, 2);
        assert_eq!(bench.asked(), [(0, expected), (1, expected), (2, expected)]);
    }
}

#[test]
fn who_does_not_answer_is_not_asked() {
    let mut bench = Bench::start("ggc+none:quota=same", DevSet::first(4), DevSet::one(Dev(2)));
    let two = Quota::Blocks(2);
    bench.begins(0, 1, 2);
    assert_eq!(bench.asked(), [(0, two), (3, two)]);
    bench.done(1, |_| StepOutcome::Ok);
    bench.engine.device(Nanos(2), Dev(2), DeviceChange::Replaced);
    bench.go_on(2);
    bench.begins(3, 1, 2);
    assert_eq!(bench.asked().len(), 3);
    // An order that fails tells that its device is lost.
    let mut bench = Bench::new("ggc+none:quota=same");
    bench.begins(0, 1, 2);
    bench.done(1, |dev| if dev == Dev(3) { StepOutcome::Failed(dev) } else { StepOutcome::Ok });
    assert_eq!(bench.engine.controller().array().degraded(), DevSet::one(Dev(3)));
    bench.begins(2, 1, 2);
    assert_eq!(bench.asked(), [(0, two), (2, two)]);
}

#[test]
fn members_that_cannot_be_told_are_refused_at_the_start() {
    let bench = Bench::start("ggc+lawc", DevSet::first(3), DevSet::EMPTY);
    assert_eq!(bench.engine.status(), Status::Refused(Refusal::NoCollectors(DevSet::one(Dev(3)))));
    let mut bench = Bench::start("ggc+lawc", DevSet::EMPTY, DevSet::EMPTY);
    bench.write(0);
    assert_eq!(bench.engine.next_notice(), Some(HostNotice::Acked { tag: 0, ok: false }));
    assert_eq!(Bench::new("lawc").engine.status(), Status::Ready);
}

#[test]
fn a_quiet_moment_is_used_when_one_will_have_to_soon() {
    let mut bench = Bench::new("ggc+none:mode=proactive:quota=4");
    assert_eq!(bench.engine.controller().gc_warning(), Some(700));
    bench.engine.device_near_gc(Nanos(MS), Dev(2));
    let timer = |bench: &Bench| bench.engine.next_timer().filter(|at| *at < Nanos(1 << 59));
    assert_eq!(timer(&bench), Some(Nanos(51 * MS)));
    bench.write(20 * MS);
    bench.engine.timers(Nanos(51 * MS));
    bench.go_on(51 * MS);
    assert!(bench.asked().is_empty(), "something was asked meanwhile");
    bench.engine.timers(Nanos(70 * MS));
    bench.go_on(70 * MS);
    assert_eq!(bench.asked(), [0, 1, 2, 3].map(|dev| (dev, Quota::Blocks(4))));
    bench.done(71 * MS, |_| StepOutcome::Ok);
    assert_eq!(timer(&bench), None, "once");
    assert_eq!(bench.engine.controller().rounds().map(|rounds| (rounds.reactive, rounds.proactive)), Some((0, 1)));
    // Reactive alone it does not wait for such moments.
    let mut bench = Bench::new("ggc+none");
    assert_eq!(bench.engine.controller().gc_warning(), None);
    bench.engine.device_near_gc(Nanos(MS), Dev(2));
    assert_eq!(timer(&bench), None);
}

/// Two of four SSDs come near, one that has collected meanwhile is not one of them (specs §8.8).
#[test]
fn all_are_asked_when_several_have_come_near() {
    let mut bench = Bench::new("ggc+none:members=2:soft=12.5:quota=4");
    assert_eq!(bench.engine.controller().gc_warning(), Some(1_250));
    let near = |bench: &mut Bench, now: u64, dev: u8| {
        bench.engine.device_near_gc(Nanos(now), Dev(dev));
        bench.go_on(now);
        bench.asked()
    };
    let all = [0, 1, 2, 3].map(|dev| (dev, Quota::Blocks(4)));
    assert!(near(&mut bench, 1, 2).is_empty(), "one");
    assert!(near(&mut bench, 2, 2).is_empty(), "the same, another of its elements");
    assert_eq!(near(&mut bench, 3, 0), all);
    bench.done(4, |_| StepOutcome::Ok);
    assert!(near(&mut bench, 5, 0).is_empty(), "it counts anew");
    bench.engine.device_gc(Nanos(6), Dev(0), 0, false, 0);
    assert!(near(&mut bench, 7, 1).is_empty(), "0 has collected");
    // That one begins on its own is not waited for; what others are asked for then counts for them.
    bench.begins(8, 3, 2);
    assert_eq!(bench.asked(), all[..3]);
    bench.done(9, |_| StepOutcome::Ok);
    assert!(near(&mut bench, 10, 2).is_empty(), "1 was asked");
    let rounds = bench.engine.controller().rounds().expect("it counts");
    assert_eq!((rounds.reactive, rounds.soft, rounds.proactive, rounds.asked), (1, 1, 0, 7));
    // Who does not answer is not waited for, and does not count.
    let mut bench = Bench::start("ggc+none:members=4", DevSet::first(4), DevSet::one(Dev(2)));
    assert!(near(&mut bench, 1, 0).is_empty() && near(&mut bench, 2, 1).is_empty());
    assert_eq!(near(&mut bench, 3, 3).len(), 3);
    let mut bench = Bench::new("ggc+none:members=2");
    assert!(near(&mut bench, 1, 2).is_empty());
    bench.engine.device(Nanos(2), Dev(2), DeviceChange::Failed);
    bench.go_on(2);
    assert!(near(&mut bench, 3, 0).is_empty(), "2 is lost");
    bench.engine.device(Nanos(4), Dev(2), DeviceChange::Replaced);
    bench.go_on(4);
    assert_eq!(bench.asked(), [], "nor is it known of what came in its place");
    bench.engine.control(Nanos(5), Control::Clean);
    bench.go_on(5);
    assert!(near(&mut bench, 6, 1).is_empty(), "a stop begins no round");
}

#[test]
fn a_stop_begins_no_round() {
    let mut bench = Bench::new("ggc+none:mode=proactive");
    bench.engine.device_near_gc(Nanos(0), Dev(2));
    bench.engine.control(Nanos(1), Control::Clean);
    bench.go_on(1);
    assert_eq!(bench.engine.next_timer().filter(|at| *at < Nanos(1 << 59)), None);
}

#[test]
fn parameters_have_one_meaning_each_and_one_that_has_no_effect_is_refused() {
    let config = ArrayConfig::new(Geometry::new(RaidLevel::Raid5, None, 4, 4, 64).expect("an array"));
    let fails = |cache: &str| serve(cache, &config, 32).err().map(|error| error.to_string());
    for cache in all_host_caches() {
        let mut names: Vec<_> = cache.params.iter().map(|param| param.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{}: {names:?}", cache.name);
        assert_eq!(fails(cache.name), None);
    }
    assert_eq!(all_host_caches().count(), host_caches().count() * (1 + host_cache_layers().count()));
    for (cache, expected) in [
        ("ggc+none:quota=0", "policy 'ggc+none': quota = '0' is not one of: watermark, same, 1 to 65535"),
        ("ggc+none:mode=other", "policy 'ggc+none': mode = 'other' is not one of: reactive, proactive"),
        ("ggc+none:soft=9", "policy 'ggc': soft has no effect with mode = reactive and members = off"),
        ("ggc+none:idle=9ms:members=2", "policy 'ggc': idle has no effect with mode = reactive"),
        ("ggc+none:mode=proactive:members=2", "policy 'ggc': members has no effect with mode = proactive"),
        ("ggc+none:members=0", "policy 'ggc+none': members = '0' is not one of: off, 1 to 28"),
        ("ggc+none:members=29", "policy 'ggc+none': members = '29' is not one of: off, 1 to 28"),
        ("ggc+none:members=5", "members = 5: the array has 4 members"),
        ("ggc+none:mode=proactive:soft=101", "policy 'ggc+none': soft = '101' is not one of: 0 to 100"),
        ("ggc+none:mode=proactive:idle=0", "policy 'ggc+none': idle = '0' is not one of: a time, 1us to 1h"),
    ] {
        assert_eq!(fails(cache).as_deref(), Some(expected));
    }
    for unknown in ["ggc", "ggc+", "ggc+lru", "ggc+ggc+none"] {
        assert!(fails(unknown).is_some_and(|error| error.contains("ggc+ before one of them")), "{unknown}");
    }
}
