//! Counts the cost of durability, in device flushes and steps of the NVRAM. The executor only holds back the
//! steps that a test chooses.

use destage_cache::{ServedTier, serve};
use destage_plan::{
    Control, Dev, DevSet, DeviceChange, Engine, HostNotice, HostOp, HostRequest, Issue, Nanos, Shape, Start, Step,
    StepKind, StepOutcome,
};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};

const PAGE: u64 = 4096;

/// An array, and the steps that it issued.
struct Bench {
    engine: Engine<Box<dyn ServedTier>>,
    now: Nanos,
    steps: Vec<Step>,
    acked: Vec<u64>,
    /// Steps that are not done until they are let go.
    hold: fn(&Step) -> bool,
    held: Vec<Issue>,
}

impl Bench {
    fn new(config: &ArrayConfig) -> Self {
        let geometry = &config.geometry;
        let stripe = u64::from(geometry.data_columns()) * u64::from(geometry.chunk_pages());
        let shape = Shape::new(PAGE, 512, stripe, stripe, geometry.data_pages()).unwrap();
        let mut engine = Engine::new(serve("none", config, 0).unwrap(), shape, 64);
        engine.start(
            Nanos(0),
            Start { nv: &[], intents: &[], missing: DevSet::EMPTY, collectors: DevSet::EMPTY, unwritable: &[] },
        );
        let (steps, acked, held) = (Vec::new(), Vec::new(), Vec::new());
        let mut bench = Self { engine, now: Nanos(0), steps, acked, hold: |_| false, held };
        bench.run();
        bench
    }

    /// Carries out everything that is not held back.
    fn run(&mut self) {
        while let Some(issue) = self.engine.next_issue() {
            let step = *self.engine.step(issue);
            self.steps.push(step);
            if (self.hold)(&step) {
                self.held.push(issue);
            } else {
                self.engine.complete(self.now, issue, StepOutcome::Ok);
            }
        }
        while let Some(notice) = self.engine.next_notice() {
            if let HostNotice::Acked { tag, ok } = notice {
                assert!(ok, "nothing is lost");
                self.acked.push(tag);
            }
        }
    }

    /// Carries out what is held back now.
    fn let_go(&mut self) {
        for issue in std::mem::take(&mut self.held) {
            self.engine.complete(self.now, issue, StepOutcome::Ok);
        }
        self.run();
    }

    fn ask(&mut self, tag: u64, op: HostOp, page: u64, pages: u64) {
        let request = HostRequest { tag, op, offset: page * PAGE, len: pages * PAGE, fua: false };
        self.engine.submit(self.now, request).unwrap();
        self.run();
    }

    /// Lets the next timer go off.
    fn idle(&mut self) {
        self.now = self.engine.next_timer().expect("a timer is set");
        self.engine.timers(self.now);
        self.run();
    }

    fn open_rows(&self) -> usize {
        self.engine.controller().array().open_rows()
    }

    fn count(&self, kind: StepKind) -> usize {
        self.steps.iter().filter(|step| step.kind() == kind).count()
    }
}

fn raid5() -> ArrayConfig {
    ArrayConfig::new(Geometry::new(RaidLevel::Raid5, None, 5, 16, 1024).unwrap())
}

#[test]
fn flushes_that_wait_share_one_round() {
    let mut bench = Bench::new(&raid5());
    bench.hold = |step| step.kind() == StepKind::FlushDev;
    bench.ask(0, HostOp::Write, 21, 1);
    for tag in 1..=8 {
        bench.ask(tag, HostOp::Flush, 0, 0);
    }
    assert_eq!(bench.held.len(), 2, "the page's member and the parity's, once each");
    assert_eq!(bench.acked, [0], "no flush is done before the devices' are");
    bench.let_go();
    assert_eq!(bench.acked, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bench.count(StepKind::FlushDev), 2, "the second round had nothing to flush");
}

#[test]
fn a_flush_waits_for_what_was_written_while_another_was_under_way() {
    let mut bench = Bench::new(&raid5());
    bench.hold = |step| step.kind() == StepKind::FlushDev;
    bench.ask(0, HostOp::Write, 21, 1);
    bench.ask(1, HostOp::Flush, 0, 0);
    // The same members.
    bench.ask(2, HostOp::Write, 22, 1);
    (3..=8).for_each(|tag| bench.ask(tag, HostOp::Flush, 0, 0));
    assert_eq!((bench.acked.as_slice(), bench.held.len()), ([0, 2].as_slice(), 2));
    bench.let_go();
    assert_eq!((bench.acked.as_slice(), bench.held.len()), ([0, 2, 1].as_slice(), 2), "the second round flushes again");
    bench.let_go();
    assert_eq!(bench.acked, [0, 2, 1, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bench.count(StepKind::FlushDev), 4);
    assert!(bench.held.is_empty());
}

#[test]
fn a_row_that_is_written_and_flushed_again_and_again_sets_its_intent_once() {
    let mut bench = Bench::new(&raid5());
    for tag in 0..100 {
        bench.ask(2 * tag, HostOp::Write, 21, 1);
        bench.ask(2 * tag + 1, HostOp::Flush, 0, 0);
    }
    assert_eq!(bench.acked.len(), 200);
    assert_eq!((bench.count(StepKind::Intent), bench.open_rows()), (1, 1), "set once, not cleared");
    bench.idle();
    assert_eq!((bench.count(StepKind::Intent), bench.open_rows()), (1, 1), "it was written since the timer was set");
    bench.idle();
    assert_eq!((bench.count(StepKind::Intent), bench.open_rows()), (2, 0), "an idle array is clean");
    bench.ask(200, HostOp::Write, 21, 1);
    assert_eq!((bench.count(StepKind::Intent), bench.open_rows()), (3, 1), "what was cleared is set again");
}

#[test]
fn writes_of_a_row_that_are_not_flushed_set_its_intent_once() {
    let mut bench = Bench::new(&raid5());
    (0..100).for_each(|tag| bench.ask(tag, HostOp::Write, 21, 1));
    assert_eq!((bench.count(StepKind::Intent), bench.open_rows()), (1, 1));
    // Row 5 again, and the next ones.
    bench.ask(100, HostOp::Write, 21, 3);
    assert_eq!((bench.count(StepKind::Intent), bench.open_rows()), (2, 3), "one that is not set is set");
}

#[test]
fn a_write_sets_an_intent_that_is_being_cleared() {
    let mut bench = Bench::new(&raid5());
    bench.ask(0, HostOp::Write, 21, 1);
    bench.hold = |step| matches!(step, Step::Intent { set: false, .. });
    bench.idle();
    bench.idle();
    assert_eq!(bench.held.len(), 1, "the clear is under way");
    bench.ask(1, HostOp::Write, 21, 1);
    let sets = bench.steps.iter().filter(|step| matches!(step, Step::Intent { set: true, .. }));
    assert_eq!(sets.count(), 2);
    bench.let_go();
    assert_eq!(bench.open_rows(), 1);
}

#[test]
fn kept_intents_are_bounded_and_cleared_many_at_a_time() {
    let config = ArrayConfig { max_open_rows: 64, ..raid5() };
    let mut bench = Bench::new(&config);
    for row in 0..640 {
        // Column 0 of each row.
        bench.ask(2 * row, HostOp::Write, row / 16 * 64 + row % 16, 1);
        bench.ask(2 * row + 1, HostOp::Flush, 0, 0);
        assert!(bench.open_rows() < 48, "three quarters");
    }
    let sets = bench.steps.iter().filter(|step| matches!(step, Step::Intent { set: true, .. })).count();
    let clears = bench.count(StepKind::Intent) - sets;
    assert_eq!(sets, 640);
    assert!((36..=40).contains(&clears), "{clears} clears: a quarter of what may be open each time");
}

#[test]
fn the_loss_of_a_member_and_a_clean_stop_leave_no_kept_intent() {
    for lose in [true, false] {
        let mut bench = Bench::new(&raid5());
        (0..50).for_each(|row| bench.ask(row, HostOp::Write, row / 16 * 64 + row % 16, 1));
        bench.ask(50, HostOp::Flush, 0, 0);
        assert_eq!((bench.open_rows(), bench.engine.controller().array().is_exposed()), (50, false));
        if lose {
            bench.engine.device(bench.now, Dev(0), DeviceChange::Failed);
        } else {
            bench.engine.control(bench.now, Control::Clean);
        }
        bench.run();
        assert_eq!((bench.open_rows(), bench.engine.controller().array().is_exposed()), (0, false));
    }
}
