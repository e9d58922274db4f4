//! Checks turns of requests: a long one takes a share of the depth while there are others, and all of it while there are none.

use std::collections::VecDeque;

use destage_plan::{
    Class, Controller, Dev, DevSet, Engine, Event, Frag, HostNotice, HostOp, HostRequest, Issue, Nanos, Out, Shape,
    Start, Step, StepKind, StepOutcome, StepSet,
};

const PAGE: u64 = 4096;
const STRIPE: u64 = 48;
const DEPTH: usize = 256;
const MIB: u64 = 1 << 20;

/// Has a step for every fragment, and acknowledges that then.
struct FlushingController(Vec<Option<Frag>>);

impl Controller for FlushingController {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        match event {
            Event::Start(_) => out.ready(),
            Event::Submit(frag) => {
                let op = out.open(Class::Read, None, Some(frag.id));
                self.0.resize(self.0.len().max(op.index() + 1), None);
                self.0[op.index()] = Some(frag);
            }
            Event::Granted(op) => {
                let frag = self.0[op.index()].take().expect("an operation is granted once");
                let read = out.step(op, Step::FlushDev { dev: Dev(0) }, StepSet::EMPTY);
                out.step(op, Step::Ack { frag: frag.id, pages: frag.pages, ok: true }, read);
                out.close(op);
            }
            _ => {}
        }
    }
}

struct TurnsRun {
    engine: Engine<FlushingController>,
    /// Steps in flight, the oldest first.
    issued: VecDeque<Issue>,
    answered: Vec<u64>,
}

impl TurnsRun {
    fn new(depth: usize) -> Self {
        let shape = Shape::new(PAGE, 512, STRIPE, 1 << 15, 1 << 22).expect("a shape that can be");
        let mut engine = Engine::new(FlushingController(Vec::new()), shape, depth);
        engine.start(
            Nanos::ZERO,
            Start { nv: &[], intents: &[], missing: DevSet::EMPTY, collectors: DevSet::EMPTY, unwritable: &[] },
        );
        Self { engine, issued: VecDeque::new(), answered: Vec::new() }
    }

    fn submit(&mut self, tag: u64, op: HostOp, offset: u64, len: u64) {
        let request = HostRequest { tag, op, offset, len, fua: false };
        self.engine.submit(Nanos::ZERO, request).expect("it is in range");
        self.look();
    }

    fn look(&mut self) {
        self.issued.extend(std::iter::from_fn(|| self.engine.next_issue()));
        while let Some(notice) = self.engine.next_notice() {
            if let HostNotice::Acked { tag, ok } = notice {
                assert!(ok);
                self.answered.push(tag);
            }
        }
    }

    /// Ends the oldest step.
    fn step(&mut self) -> bool {
        let Some(issue) = self.issued.pop_front() else { return false };
        self.engine.complete(Nanos::ZERO, issue, StepOutcome::Ok);
        self.look();
        true
    }

    /// Ends steps until a request is answered.
    fn until(&mut self, tag: u64) -> usize {
        let mut steps = 0;
        while !self.answered.contains(&tag) && self.step() {
            steps += 1;
        }
        steps
    }

    /// Ends all steps, and checks that nothing is left.
    fn end(mut self) -> Vec<u64> {
        while self.step() {}
        assert!(self.engine.is_idle());
        self.answered
    }
}

#[test]
fn a_long_request_alone_has_the_whole_depth() {
    let mut run = TurnsRun::new(DEPTH);
    run.submit(1, HostOp::Read, 0, 4096 * MIB);
    assert_eq!(run.issued.len(), DEPTH);
    assert_eq!(run.end(), [1]);
}

/// Counts fragments of trims: each has as many stripes as fit into 16 MiB, and two are in flight, of one trim or of many.
#[test]
fn a_trim_is_few_fragments_and_others_wait_for_two_of_them() {
    const FRAGMENT: u64 = 16 * MIB / (STRIPE * PAGE) * STRIPE * PAGE;
    const TRIM: u64 = 2016 * MIB;
    for trims in [1, 8] {
        let mut run = TurnsRun::new(DEPTH);
        for tag in 1..=trims {
            run.submit(tag, HostOp::Discard, (tag - 1) * TRIM, TRIM);
        }
        assert_eq!(run.issued.len(), 2);
        for tag in 100..120 {
            run.submit(tag, HostOp::Read, 64 * MIB, PAGE);
            assert_eq!(run.issued.len(), 3, "a read is at work at once");
            assert!(run.until(tag) <= 3, "{trims} trims");
        }
        while run.step() {}
        let steps = run.engine.out().counts()[StepKind::FlushDev as usize];
        assert_eq!(steps - 20, trims * TRIM.div_ceil(FRAGMENT), "fragments");
        let mut answered = run.end();
        answered.sort_unstable();
        assert_eq!(answered, (1..=trims).chain(100..120).collect::<Vec<_>>());
    }
}

#[test]
fn others_wait_for_a_share_of_a_long_one_and_not_for_all_of_it() {
    let mut run = TurnsRun::new(DEPTH);
    for (tag, op) in [(1, HostOp::Discard), (2, HostOp::WriteZeroes), (3, HostOp::Write)] {
        run.submit(tag, op, 0, 1024 * MIB);
    }
    let mut waits = Vec::new();
    for tag in 100..400 {
        run.submit(tag, HostOp::Read, 2048 * MIB, PAGE);
        waits.push(run.until(tag));
    }
    // What was admitted while they were alone is ahead of the first.
    assert!(waits[0] <= DEPTH + 1, "{waits:?}");
    assert!(waits[1..].iter().all(|wait| *wait <= DEPTH / 16 + 1), "{waits:?}");
    assert_eq!(run.engine.out().live(), DEPTH / 16, "of all long ones");
    // Nobody else has come for a while.
    run.step();
    for _ in 0..2048 {
        run.step();
    }
    assert_eq!(run.issued.len(), DEPTH);
    let mut answered = run.end();
    answered.sort_unstable();
    assert_eq!(answered, [1, 2, 3].into_iter().chain(100..400).collect::<Vec<_>>());
}

/// Makes no fragment of a trim's last bytes, which are no whole page.
#[test]
fn a_long_trim_that_ends_within_a_page_keeps_no_other_waiting() {
    for depth in [1, 2, 16, DEPTH] {
        for count in [2, 3, 40] {
            let mut run = TurnsRun::new(depth);
            run.submit(99, HostOp::Read, 0, PAGE);
            for tag in 0..count {
                run.submit(tag, HostOp::Discard, tag * 2 * MIB, MIB + (tag + 1) * PAGE + 512);
            }
            let mut answered = run.end();
            answered.sort_unstable();
            assert_eq!(answered, (0..count).chain([99]).collect::<Vec<_>>(), "depth {depth}");
        }
    }
}

#[test]
fn long_ones_take_turns() {
    for depth in [1, 4, 64] {
        let mut run = TurnsRun::new(depth);
        run.submit(1, HostOp::Read, 0, 64 * MIB);
        run.submit(2, HostOp::Read, 64 * MIB, 2 * MIB);
        run.submit(3, HostOp::Flush, 0, 0);
        let waits = run.until(2);
        // Two turns of 1 MiB and a fragment each, and what is in flight.
        let fragments = (4 * MIB).div_ceil(STRIPE * PAGE) as usize + 8;
        assert!(waits <= fragments + depth, "{waits} at depth {depth}");
        assert_eq!(run.end(), [3, 2, 1]);
    }
}
