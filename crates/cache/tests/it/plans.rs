//! Counts the steps of requests over an executor that does nothing. It holds them to the table of specs §2.1,
//! in degraded mode too. It also holds them to the columns "Nossd", "WA", "WT", "`LeavO`" and "KDD" of the
//! example of specs §9.1. Those of WB follow from its rules.

use destage_cache::{ServedTier, serve};
use destage_plan::{
    Control, Dev, DevSet, DeviceChange, Engine, HostNotice, HostOp, HostRequest, Nanos, Shape, Start, Status, Step,
    StepKind, StepOutcome,
};
use destage_raid::array::{ArrayConfig, DurabilityMode, ParityMethod};
use destage_raid::{Geometry, RaidLevel};

const PAGE: u64 = 4096;

fn config(level: RaidLevel, members: u32, chunk: u32) -> ArrayConfig {
    ArrayConfig::new(Geometry::new(level, None, members, chunk, 256).unwrap())
}

struct Bench {
    engine: Engine<Box<dyn ServedTier>>,
    lost: DevSet,
    /// Pages read from and written to members and the cache.
    member: (u64, u64),
    cache: (u64, u64),
    steps: Vec<Step>,
    /// Bytes that deltas have.
    delta: u32,
}

impl Bench {
    fn new(config: &ArrayConfig, controller: Box<dyn ServedTier>, missing: DevSet) -> Self {
        let geometry = &config.geometry;
        let stripe = u64::from(geometry.data_columns()) * u64::from(geometry.chunk_pages());
        let shape = Shape::new(PAGE, 512, stripe, stripe, geometry.data_pages()).unwrap();
        let mut engine = Engine::new(controller, shape, 64);
        engine.start(Nanos(0), Start { nv: &[], intents: &[], missing, collectors: DevSet::EMPTY, unwritable: &[] });
        let mut bench =
            Self { engine, lost: missing, member: (0, 0), cache: (0, 0), steps: Vec::new(), delta: PAGE as u32 / 4 };
        bench.run(geometry.members());
        assert_eq!(bench.engine.status(), Status::Ready);
        bench
    }

    fn run(&mut self, members: u8) {
        while let Some(issue) = self.engine.next_issue() {
            let step = *self.engine.step(issue);
            self.steps.push(step);
            let mut outcome = match step {
                Step::Encode { .. } => StepOutcome::Length(self.delta),
                _ => StepOutcome::Ok,
            };
            if let Step::Read { ext, .. } | Step::Write { ext, .. } = step {
                let (reads, writes) = if ext.dev().0 < members { &mut self.member } else { &mut self.cache };
                *(if matches!(step, Step::Read { .. }) { reads } else { writes }) += u64::from(ext.pages());
            }
            if let Some(dev) = step.dev().filter(|dev| self.lost.contains(*dev)) {
                outcome = StepOutcome::Failed(dev);
            }
            self.engine.complete(Nanos(0), issue, outcome);
        }
    }

    /// Has everything written back.
    fn clean(&mut self) {
        let members = self.engine.controller().array().config().geometry.members();
        self.engine.control(Nanos(0), Control::Clean);
        self.run(members);
        assert_eq!(self.engine.next_notice(), Some(HostNotice::Clean));
    }

    /// Member pages read and written by one request.
    fn ask(&mut self, members: u8, op: HostOp, first_page: u64, pages: u64, fua: bool) -> (u64, u64) {
        self.ask_bytes(members, op, first_page * PAGE, pages * PAGE, fua)
    }

    fn ask_bytes(&mut self, members: u8, op: HostOp, offset: u64, len: u64, fua: bool) -> (u64, u64) {
        let before = self.member;
        self.steps.clear();
        self.engine.submit(Nanos(0), HostRequest { tag: 7, op, offset, len, fua }).unwrap();
        self.run(members);
        assert!(self.engine.is_idle());
        assert_eq!(self.engine.next_notice(), Some(HostNotice::Acked { tag: 7, ok: true }));
        assert_eq!(self.engine.next_notice(), Some(HostNotice::Released { tag: 7 }));
        (self.member.0 - before.0, self.member.1 - before.1)
    }

    fn count(&self, kind: StepKind) -> usize {
        self.steps.iter().filter(|step| step.kind() == kind).count()
    }
}

fn none(level: RaidLevel, members: u32, chunk: u32, method: ParityMethod, missing: DevSet) -> Bench {
    let config = ArrayConfig { parity: method, ..config(level, members, chunk) };
    Bench::new(&config, serve("none", &config, 0).unwrap(), missing)
}

#[test]
fn raid5_writes_cost_what_the_table_says() {
    // k = 4. (pages written of a row, reads and writes by read-modify-write, by reconstruct-write)
    let table = [(1, (2, 2), (3, 2)), (2, (3, 3), (2, 3)), (3, (4, 4), (1, 4)), (4, (0, 5), (0, 5))];
    for (pages, rmw, rcw) in table {
        let cost = |method| none(RaidLevel::Raid5, 5, 1, method, DevSet::EMPTY).ask(5, HostOp::Write, 0, pages, false);
        assert_eq!(cost(ParityMethod::Rmw), rmw, "{pages} pages");
        assert_eq!(cost(ParityMethod::Rcw), rcw, "{pages} pages");
        // Only if it reads strictly less.
        assert_eq!(cost(ParityMethod::Min), if rmw.0 < rcw.0 { rmw } else { rcw }, "{pages} pages");
        assert_eq!(cost(ParityMethod::Disksim), if 2 * pages < 4 { rmw } else { rcw }, "{pages} pages");
    }
}

#[test]
fn raid6_writes_cost_what_the_table_says() {
    // k = 4, both parities.
    let table = [(1, (3, 3), (3, 3)), (2, (4, 4), (2, 4)), (3, (5, 5), (1, 5)), (4, (0, 6), (0, 6))];
    for (pages, rmw, rcw) in table {
        let cost = |method| none(RaidLevel::Raid6, 6, 1, method, DevSet::EMPTY).ask(6, HostOp::Write, 0, pages, false);
        assert_eq!(cost(ParityMethod::Rmw), rmw, "{pages} pages");
        assert_eq!(cost(ParityMethod::Rcw), rcw, "{pages} pages");
    }
}

#[test]
fn a_full_stripe_is_one_extent_per_member() {
    let mut bench = none(RaidLevel::Raid5, 5, 16, ParityMethod::Min, DevSet::EMPTY);
    assert_eq!(bench.ask(5, HostOp::Write, 64, 64, false), (0, 80));
    assert_eq!(bench.count(StepKind::Write), 5);
    assert_eq!(bench.count(StepKind::Read), 0);
    assert_eq!(bench.count(StepKind::Intent), 1);
    assert_eq!(bench.ask(5, HostOp::Read, 64, 64, false), (64, 0));
    assert_eq!(bench.count(StepKind::Read), 4);
}

#[test]
fn other_levels() {
    assert_eq!(
        none(RaidLevel::Raid0, 4, 1, ParityMethod::Min, DevSet::EMPTY).ask(4, HostOp::Write, 0, 3, false),
        (0, 3)
    );
    let mut mirror = none(RaidLevel::Raid1, 3, 1, ParityMethod::Min, DevSet::EMPTY);
    assert_eq!(mirror.ask(3, HostOp::Write, 5, 1, false), (0, 3));
    assert_eq!(mirror.ask(3, HostOp::Read, 5, 1, false), (1, 0));
    // A part of a page: the old page is read once more than a whole page needs.
    assert_eq!(mirror.ask_bytes(3, HostOp::Write, 512, 1024, false), (1, 3));
    let mut raid5 = none(RaidLevel::Raid5, 5, 1, ParityMethod::Min, DevSet::EMPTY);
    assert_eq!(
        raid5.ask_bytes(5, HostOp::Write, 512, 1024, false),
        (2, 2),
        "the old page is read for the parity anyway"
    );
    assert_eq!(raid5.ask_bytes(5, HostOp::Read, 512, 1024, false), (1, 0));
}

#[test]
fn degraded_reads_and_writes() {
    // RAID-4: the parity is on the last device, so the columns are the devices. Device 1 is lost.
    let mut bench = none(RaidLevel::Raid4, 5, 1, ParityMethod::Min, DevSet::one(Dev(1)));
    assert_eq!(bench.ask(5, HostOp::Read, 1, 1, false), (4, 0), "all others of the row");
    assert_eq!(bench.ask(5, HostOp::Read, 0, 1, false), (1, 0));
    assert_eq!(bench.ask(5, HostOp::Write, 1, 1, false), (3, 1), "only the parity is written");
    assert_eq!(bench.count(StepKind::NvCommit), 1);
    assert_eq!(bench.ask(5, HostOp::Write, 1, 1, false), (3, 1));
    assert_eq!(bench.count(StepKind::NvCommit), 1, "the new page is put and the old one freed in one");
    // The lost page is computed from what was, so that it can be logged.
    assert_eq!(bench.ask(5, HostOp::Write, 2, 1, false), (4, 2));
    assert_eq!(bench.count(StepKind::NvCommit), 0, "its log is still open");
    // The parity is lost: nothing but the data to be written, and nothing to be torn.
    let mut bench = none(RaidLevel::Raid4, 5, 1, ParityMethod::Min, DevSet::one(Dev(4)));
    assert_eq!(bench.ask(5, HostOp::Write, 1, 1, false), (0, 1));
    assert_eq!(bench.count(StepKind::Intent), 0);
}

#[test]
fn what_is_promised_decides_flushes_and_fua() {
    let config = config(RaidLevel::Raid5, 5, 1);
    let mut bench = Bench::new(&config, serve("none", &config, 0).unwrap(), DevSet::EMPTY);
    bench.ask(5, HostOp::Write, 0, 1, false);
    assert!(bench.steps.iter().all(|step| !matches!(step, Step::Write { fua: true, .. })));
    bench.ask(5, HostOp::Flush, 0, 0, false);
    assert_eq!(bench.count(StepKind::FlushDev), 2, "the members that were written");
    assert_eq!(bench.count(StepKind::Intent), 0, "the row's intent is kept");
    bench.ask(5, HostOp::Flush, 0, 0, false);
    assert_eq!(bench.steps.len(), 0);
    bench.ask(5, HostOp::Write, 0, 1, true);
    assert_eq!(bench.steps.iter().filter(|step| matches!(step, Step::Write { fua: true, .. })).count(), 2);
    let config = ArrayConfig { regime: DurabilityMode::EveryWrite, ..config };
    let mut bench = Bench::new(&config, serve("none", &config, 0).unwrap(), DevSet::EMPTY);
    bench.ask(5, HostOp::Write, 0, 1, false);
    assert_eq!(bench.steps.iter().filter(|step| matches!(step, Step::Write { fua: true, .. })).count(), 2);
    bench.ask(5, HostOp::Flush, 0, 0, false);
    assert_eq!(bench.count(StepKind::FlushDev), 0);
}

#[test]
fn a_discard_of_whole_rows_is_passed_on_and_others_are_not() {
    let mut bench = none(RaidLevel::Raid5, 5, 2, ParityMethod::Min, DevSet::EMPTY);
    // Stripe 1 whole, and the first page of stripe 2.
    bench.ask(5, HostOp::Discard, 8, 9, false);
    assert_eq!(bench.count(StepKind::Trim), 5);
    assert_eq!(bench.count(StepKind::Intent), 1);
    assert_eq!(bench.count(StepKind::Write), 0);
    assert_eq!(bench.ask(5, HostOp::WriteZeroes, 8, 8, false), (0, 10));
}

#[test]
fn a_lost_member_is_noticed_by_a_failed_step() {
    let config = config(RaidLevel::Raid5, 5, 1);
    let mut bench = Bench::new(&config, serve("none", &config, 0).unwrap(), DevSet::EMPTY);
    for dev in 0..5 {
        bench.lost = DevSet::one(Dev(dev));
        if dev == 0 {
            for page in 0..20 {
                bench.ask(5, HostOp::Write, page, 1, false);
                bench.ask(5, HostOp::Read, page, 1, false);
            }
            assert_eq!(bench.engine.controller().array().degraded(), DevSet::one(Dev(0)));
            bench.ask(5, HostOp::Flush, 0, 0, false);
        }
        bench.lost = DevSet::EMPTY;
        bench.engine.device(Nanos(0), Dev(dev), DeviceChange::Replaced);
        bench.run(5);
        assert_eq!(bench.engine.controller().array().degraded(), DevSet::EMPTY, "device {dev} is filled");
    }
}

/// Specs §9.1: R0 W1 W0 W1 W0 R0 W2 over RAID-5 3+1.
#[test]
fn the_example_of_the_caches() {
    use HostOp::{Read, Write};
    let sequence = [(Read, 0), (Write, 1), (Write, 0), (Write, 1), (Write, 0), (Read, 0), (Write, 2)];
    let config = config(RaidLevel::Raid5, 4, 1);
    let mut bench = Bench::new(&config, serve("none", &config, 0).unwrap(), DevSet::EMPTY);
    for (op, page) in sequence {
        bench.ask(4, op, page, 1, false);
    }
    assert_eq!(bench.member, (12, 10));

    let mut bench = Bench::new(&config, serve("write-through:ways=8", &config, 64).unwrap(), DevSet::EMPTY);
    let ssd_writes: Vec<_> = sequence
        .into_iter()
        .map(|(op, page)| {
            let before = bench.cache.1;
            bench.ask(4, op, page, 1, false);
            bench.cache.1 - before
        })
        .collect();
    assert_eq!(ssd_writes, [1, 1, 1, 1, 1, 0, 1]);
    assert_eq!(bench.member, (11, 10));
    assert_eq!(bench.cache, (1, 6));
    let stats = bench.engine.controller().counts().expect("a cache counts");
    assert_eq!((stats.read_hits, stats.read_misses, stats.write_hits, stats.write_misses), (1, 1, 3, 2));

    // What is written is dropped: the second read of page 0 misses again.
    let (each, mut bench) = costs("write-around:ways=8", &config, &sequence);
    assert_eq!(each.map(|(ssd, _, _)| ssd), [1, 0, 0, 0, 0, 1, 0]);
    assert_eq!((each[5], bench.member), ((1, 1, 0), (12, 10)));
    bench.clean();
    assert_eq!(bench.member, (12, 10));

    // What is written is on the SSD alone, until it is written back page by page.
    let (each, mut bench) = costs("write-back:ways=8", &config, &sequence);
    let expected = [(1, 1, 0), (1, 0, 0), (1, 0, 0), (1, 0, 0), (1, 0, 0), (0, 0, 0), (1, 0, 0)];
    assert_eq!(each, expected);
    let stats = bench.engine.controller().counts().expect("a cache counts");
    assert_eq!((stats.read_hits, stats.read_misses, stats.write_hits, stats.write_misses), (1, 1, 3, 2));
    let before = bench.cache;
    bench.clean();
    assert_eq!((bench.member, bench.cache), ((7, 6), (before.0 + 3, 6)));
    assert_eq!(bench.ask(4, Read, 0, 3, false), (0, 0), "all of them have stayed");

    let (each, mut bench) = costs("leavo:ways=8", &config, &sequence);
    let expected = [(1, 1, 0), (1, 2, 2), (1, 0, 1), (1, 0, 1), (1, 0, 1), (0, 0, 0), (1, 2, 2)];
    assert_eq!(each, expected, "the last is modified: the row is behind");
    assert_eq!(bench.engine.controller().stale_rows(), 1);
    bench.clean();
    assert_eq!((bench.member, bench.cache.1), ((5, 8), 6), "all of the row is in the cache");
    assert_eq!(bench.engine.controller().stale_rows(), 0);
    let before = bench.cache;
    assert_eq!(bench.ask(4, Read, 0, 3, false), (0, 0), "the newest versions have stayed");
    assert_eq!(bench.cache, (before.0 + 3, before.1));
}

/// KDD in the example of specs §9.1: deltas of a quarter of a page each.
#[test]
fn the_example_of_kdd() {
    use HostOp::{Read, Write};
    let sequence = [(Read, 0), (Write, 1), (Write, 0), (Write, 1), (Write, 0), (Read, 0), (Write, 2)];
    let config = config(RaidLevel::Raid5, 4, 1);
    let (each, mut bench) = costs("kdd:ways=8", &config, &sequence);
    let expected = [(1, 1, 0), (1, 2, 2), (0, 0, 1), (0, 0, 1), (0, 0, 1), (0, 0, 0), (1, 2, 2)];
    assert_eq!(each, expected, "the last is modified: the row is behind");
    let served = bench.engine.controller();
    assert_eq!((served.stale_rows(), served.figures()[1]), (1, 3), "three deltas were staged");
    bench.clean();
    assert_eq!((bench.member, bench.cache.1), ((5, 8), 3), "all of the row is in the cache");
    assert_eq!(bench.engine.controller().stale_rows(), 0);
    assert_eq!(bench.ask(4, Read, 0, 3, false), (2, 0), "the third page has stayed, what was old is free");
}

/// Writes of as many pages as one operation can keep deltas of, on few columns and on many: the parity is left
/// behind, however many of the steps of an operation that takes.
#[test]
fn large_writes_leave_parity_for_later_too() {
    use HostOp::Write;
    for (columns, chunk, pages) in [(2, 16, 16), (2, 8, 16), (4, 4, 16), (8, 2, 16), (10, 1, 10), (20, 1, 10)] {
        for (level, parities) in [(RaidLevel::Raid5, 1), (RaidLevel::Raid6, 2)] {
            let config = config(level, columns + parities, chunk);
            for cache in ["leavo:dirty-high=100", "kdd:dirty-high=100", "kdd:dirty-high=100:staging=2"] {
                let mut bench = Bench::new(&config, serve(cache, &config, 64).unwrap(), DevSet::EMPTY);
                bench.ask(columns as u8 + parities as u8, Write, 0, pages, false);
                let (reads, writes) = bench.ask(columns as u8 + parities as u8, Write, 0, pages, false);
                assert_eq!((reads, writes), (0, pages), "{cache} on {level}, chunks of {chunk} pages");
            }
        }
    }
}

/// Deltas as long as pages get one each, which may have had another page that the log knows: that it is free has to be
/// logged before, and takes no step of each.
#[test]
fn large_writes_with_long_deltas_leave_parity_for_later_too() {
    use HostOp::{Flush, Write};
    for (columns, chunk) in [(2, 16), (2, 8), (4, 4), (8, 2), (3, 16)] {
        let config = config(RaidLevel::Raid5, columns + 1, chunk);
        let members = columns as u8 + 1;
        for (cache, clean) in
            [("kdd:dirty-high=100", false), ("kdd:dirty-high=100", true), ("kdd:dirty-high=100:misses=delay", true)]
        {
            let mut bench = Bench::new(&config, serve(cache, &config, 96).unwrap(), DevSet::EMPTY);
            bench.delta = PAGE as u32;
            let mut behind = 0;
            for round in 0..60 {
                let chunk = |at: u64| (round * 5 + at) % 12 * 16;
                for at in 0..5 {
                    bench.ask(members, Write, chunk(at), 16, false);
                    bench.ask(members, Flush, 0, 0, false);
                }
                if clean {
                    bench.clean();
                }
                for at in 1..5 {
                    let (reads, writes) = bench.ask(members, Write, chunk(at), 16, false);
                    behind += u64::from((reads, writes) == (0, 16));
                }
            }
            assert!(behind > 0, "{cache}, chunks of {chunk} pages: none was left behind");
        }
    }
}

/// Of each request of one page in turn: pages written to the cache, read from members, and written to them.
fn costs<const N: usize>(
    cache: &str,
    config: &ArrayConfig,
    sequence: &[(HostOp, u64); N],
) -> ([(u64, u64, u64); N], Bench) {
    let mut bench = Bench::new(config, serve(cache, config, 64).unwrap(), DevSet::EMPTY);
    let costs = sequence.map(|(op, page)| {
        let before = bench.cache.1;
        let (reads, writes) = bench.ask(4, op, page, 1, false);
        (bench.cache.1 - before, reads, writes)
    });
    (costs, bench)
}

#[test]
fn a_lost_cache_costs_nothing_but_hits() {
    let config = config(RaidLevel::Raid5, 4, 4);
    let mut bench = Bench::new(&config, serve("write-through:ways=8", &config, 64).unwrap(), DevSet::EMPTY);
    for page in 0..24 {
        bench.ask(4, HostOp::Write, page, 1, false);
    }
    assert_eq!(bench.ask(4, HostOp::Read, 0, 12, false), (0, 0), "all hits");
    bench.lost = DevSet::one(Dev(4));
    for page in 0..24 {
        bench.ask(4, HostOp::Write, page, 1, false);
    }
    assert_eq!(bench.ask(4, HostOp::Read, 0, 12, false), (12, 0));
    assert!(!bench.engine.controller().is_caching());
    bench.lost = DevSet::EMPTY;
    bench.engine.device(Nanos(0), Dev(4), DeviceChange::Replaced);
    assert_eq!(bench.ask(4, HostOp::Read, 0, 12, false), (12, 0), "taken to be empty");
    assert_eq!(bench.ask(4, HostOp::Read, 0, 12, false), (0, 0));
}

#[test]
fn sets_and_arrays_with_more_pages_than_can_be_numbered_are_refused() {
    let config = |member_pages| ArrayConfig::new(Geometry::new(RaidLevel::Raid5, None, 3, 1, member_pages).unwrap());
    let refused =
        |cache: &str, member_pages| serve(cache, &config(member_pages), 64).map(drop).unwrap_err().to_string();
    let most = (1 << 39) - 1;
    assert!(serve("write-through:ways=32768", &config(most), 64).is_ok());
    let why = refused("write-through:ways=32769", most);
    assert!(why.contains("ways") && why.contains("1 to 32768"), "{why}");
    for cache in ["write-around", "write-through", "write-back", "leavo", "kdd"] {
        let why = refused(cache, most + 1);
        assert!(why.contains("an array of 1099511627776 pages") && why.contains("at most 1099511627775"), "{why}");
    }
}
