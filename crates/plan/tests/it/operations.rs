//! Operations that outgrow one plan: more steps than a plan has, parts of a claim given back, steps
//! that failed and were forgiven, phases.

use destage_plan::{
    Buf, Claim, Class, ColumnSet, Controller, Dev, DevSet, Engine, Event, Ext, Issue, Nanos, OpId, Out,
    PlacementStream, Shape, Span, Start, Step, StepKind, StepNo, StepOutcome, StepSet, Stripe,
};

/// Records an event that a controller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Granted(OpId),
    Step(OpId, StepOutcome),
    Phase(OpId),
    Stuck(OpId),
    Done(OpId),
}

/// Opens what it is made with, and does with each operation what its script says.
struct Scripted {
    open: Vec<Option<Claim>>,
    script: fn(Told, &mut Out),
    told: Vec<Told>,
    /// Devices of steps that failed.
    blamed: DevSet,
}

impl Controller for Scripted {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        let told = match event {
            Event::Start(_) => {
                for claim in std::mem::take(&mut self.open) {
                    out.open(Class::Internal, claim, None);
                }
                return out.ready();
            }
            Event::Granted(op) => Told::Granted(op),
            Event::StepDone { op, outcome, .. } => Told::Step(op, outcome),
            Event::PhaseDone(op) => Told::Phase(op),
            Event::OpStuck { op, devs, .. } => {
                self.blamed |= devs;
                Told::Stuck(op)
            }
            Event::OpDone(op) => Told::Done(op),
            other => panic!("{other:?} was not expected"),
        };
        self.told.push(told);
        (self.script)(told, out);
    }
}

fn start(open: Vec<Option<Claim>>, script: fn(Told, &mut Out)) -> Engine<Scripted> {
    let shape = Shape::new(4096, 512, 16, 16, 1024).expect("a shape that can be");
    let mut engine = Engine::new(Scripted { open, script, told: Vec::new(), blamed: DevSet::EMPTY }, shape, 4);
    engine.start(
        Nanos(0),
        Start { nv: &[], intents: &[], missing: DevSet::EMPTY, collectors: DevSet::EMPTY, unwritable: &[] },
    );
    engine
}

/// Ends steps in the order of issue until there are none; `how` says how each ends. How many there
/// were.
fn run(engine: &mut Engine<Scripted>, how: impl Fn(&Step) -> StepOutcome) -> usize {
    let mut count = 0;
    while let Some(issue) = engine.next_issue() {
        let outcome = how(engine.step(issue));
        engine.complete(Nanos(0), issue, outcome);
        count += 1;
    }
    count
}

fn read(dev: u8, row: u64, dst: Buf) -> Step {
    Step::Read { ext: Ext::new(Dev(dev), row, 1), dst }
}

fn write(dev: u8, row: u64) -> Step {
    Step::Write { ext: Ext::new(Dev(dev), row, 1), src: Buf::Zero, fua: false }
}

fn claim(r: u64, w: u64) -> Claim {
    let (r, w) = (ColumnSet::from_bits(r), ColumnSet::from_bits(w));
    Claim { stripe: Stripe(0), first: 0, rows: 4, r, w }
}

const A: OpId = OpId(0);
const B: OpId = OpId(1);

#[test]
fn an_operation_has_any_number_of_steps_sixty_four_at_a_time() {
    let script = |told: Told, out: &mut Out| match told {
        Told::Granted(op) | Told::Step(op, _) => {
            if let Told::Step(..) = told {
                out.renew(op);
            }
            let begun = out.counts()[destage_plan::StepKind::Read as usize];
            if begun >= 300 {
                return out.close(op);
            }
            let dst = out.tmp(op, 1);
            let reads = (0..63).fold(StepSet::EMPTY, |set, row| set | out.step(op, read(0, row, dst), StepSet::EMPTY));
            out.step_notify(op, Step::Join, reads);
        }
        _ => {}
    };
    let mut engine = start(vec![None], script);
    assert_eq!(run(&mut engine, |_| StepOutcome::Ok), 315, "five times sixty-three");
    assert_eq!(engine.controller().told.last(), Some(&Told::Done(A)));
    assert!(engine.is_idle());
}

#[test]
#[should_panic(expected = "has steps that are not done")]
fn steps_in_flight_keep_their_places() {
    let script = |told: Told, out: &mut Out| {
        if let Told::Granted(op) = told {
            out.step(op, write(0, 0), StepSet::EMPTY);
            out.renew(op);
        }
    };
    start(vec![None], script);
}

#[test]
fn a_part_of_a_claim_is_given_back_and_the_rest_still_holds() {
    // The first gives its parity back in the midst; the second waits for that alone, the third for
    // what the first keeps.
    let script = |told: Told, out: &mut Out| match told {
        Told::Granted(A) => {
            out.step_notify(A, write(0, 0), StepSet::EMPTY);
        }
        Told::Step(A, _) => {
            out.narrow(A, claim(0b0001, 0b0001));
            out.step(A, write(1, 0), StepSet::EMPTY);
            out.close(A);
        }
        Told::Granted(op) => {
            out.step(op, write(op.0 as u8 + 2, 0), StepSet::EMPTY);
            out.close(op);
        }
        _ => {}
    };
    let mut engine = start([claim(0b0001, 0b1001), claim(0, 0b1000), claim(0, 0b0001)].map(Some).into(), script);
    let next = |engine: &mut Engine<Scripted>| -> (Issue, Dev) {
        let issue = engine.next_issue().expect("a step may begin");
        (issue, engine.step(issue).dev().expect("it is a device's"))
    };
    let (first, dev) = next(&mut engine);
    assert_eq!((dev, engine.next_issue()), (Dev(0), None), "two wait");
    engine.complete(Nanos(0), first, StepOutcome::Ok);
    let (second, dev) = next(&mut engine);
    assert_eq!((second.op, dev), (A, Dev(1)));
    let (of_b, dev) = next(&mut engine);
    assert_eq!((of_b.op, dev, engine.next_issue()), (B, Dev(3), None), "the third still waits");
    engine.complete(Nanos(0), second, StepOutcome::Ok);
    assert_eq!(next(&mut engine).0.op, OpId(2));
}

#[test]
fn of_a_step_that_was_forgiven_it_is_told_that_it_failed() {
    let script = |told: Told, out: &mut Out| match told {
        Told::Granted(op) => {
            let first = out.step_notify(op, write(0, 0), StepSet::EMPTY);
            out.step_notify(op, write(1, 0), first);
            out.close(op);
        }
        Told::Stuck(op) => out.forgive(op),
        _ => {}
    };
    let mut engine = start(vec![None], script);
    let fails = |step: &Step| if step.dev() == Some(Dev(0)) { StepOutcome::Failed(Dev(0)) } else { StepOutcome::Ok };
    run(&mut engine, fails);
    let expected = [
        Told::Granted(A),
        Told::Stuck(A),
        Told::Step(A, StepOutcome::Failed(Dev(0))),
        Told::Step(A, StepOutcome::Ok),
        Told::Done(A),
    ];
    assert_eq!(engine.controller().told, expected);
    assert_eq!(engine.controller().blamed, DevSet::one(Dev(0)));
}

#[test]
fn a_phase_is_told_of_only_if_the_operation_goes_on() {
    let script = |told: Told, out: &mut Out| {
        if let Told::Granted(op) = told {
            let first = out.step(op, write(0, 0), StepSet::EMPTY);
            assert!(out.phase(op, first));
            if op == B {
                out.step(op, write(1, 0), first);
            }
            out.close(op);
        }
    };
    let mut engine = start(vec![None, None], script);
    run(&mut engine, |_| StepOutcome::Ok);
    let told = &engine.controller().told;
    assert_eq!(told, &[Told::Granted(A), Told::Granted(B), Told::Done(A), Told::Phase(B), Told::Done(B)]);
}

#[test]
fn what_is_given_up_after_its_phase_is_not_begun() {
    let script = |told: Told, out: &mut Out| match told {
        Told::Granted(op) => {
            let first = out.step(op, write(0, 0), StepSet::EMPTY);
            assert!(out.phase(op, first));
            let dst = out.tmp(op, 1);
            let later = out.step(op, read(1, 0, dst), first);
            out.step(op, write(2, 0), later);
            out.close(op);
        }
        Told::Stuck(op) => assert!(!out.give_up(op), "nobody was to be told"),
        _ => {}
    };
    let mut engine = start(vec![None], script);
    let fails = |step: &Step| if step.dev() == Some(Dev(1)) { StepOutcome::Failed(Dev(1)) } else { StepOutcome::Ok };
    assert_eq!(run(&mut engine, fails), 2, "the third never begins");
    assert_eq!(engine.controller().told, [Told::Granted(A), Told::Phase(A), Told::Stuck(A), Told::Done(A)]);
}

#[test]
fn results_of_steps_are_told() {
    let script = |told: Told, out: &mut Out| match told {
        Told::Granted(op) => {
            let page = out.tmp(op, 1);
            let read = out.step_notify(op, Step::MetaRead { ext: Ext::new(Dev(0), 3, 1) }, StepSet::EMPTY);
            out.step_notify(op, Step::Encode { base: page, new: Buf::Zero, dst: page, page: 0 }, read);
        }
        Told::Step(op, StepOutcome::Ok) => assert_eq!(out.read_bytes(op, StepNo(0)), b"what it says"),
        Told::Step(op, StepOutcome::Length(_)) => {
            assert_eq!(out.read_bytes(op, StepNo(0)), b"what it says");
            assert!(out.read_bytes(op, StepNo(1)).is_empty(), "another step has read nothing");
            out.renew(op);
            assert!(out.read_bytes(op, StepNo(0)).is_empty(), "it goes with the plan");
            out.close(op);
        }
        _ => {}
    };
    let mut engine = start(vec![None], script);
    let read = engine.next_issue().expect("the read may begin");
    engine.read(read, b"what it says");
    engine.complete(Nanos(0), read, StepOutcome::Ok);
    assert_eq!(run(&mut engine, |_| StepOutcome::Length(77)), 1);
    let told = [StepOutcome::Ok, StepOutcome::Length(77)].map(|outcome| Told::Step(A, outcome));
    assert_eq!(engine.controller().told, [Told::Granted(A), told[0], told[1], Told::Done(A)]);
}

#[test]
fn what_cannot_be_decoded_is_stuck_and_no_device_is_to_blame() {
    let script = |told: Told, out: &mut Out| match told {
        Told::Granted(op) => {
            let dst = out.tmp(op, 1);
            let delta = Span { buf: dst, offset: 0, len: 9 };
            let decoded = out.step_notify(op, Step::Decode { base: Buf::Zero, delta, dst }, StepSet::EMPTY);
            out.step(op, write(1, 0), decoded);
            out.close(op);
        }
        Told::Stuck(op) if op == A => out.abandon(op),
        Told::Stuck(op) => {
            assert!(!out.failed_read(op), "reading again brings nothing else");
            out.forgive(op);
        }
        _ => {}
    };
    let mut engine = start(vec![None, None], script);
    let fails = |step: &Step| if step.dev().is_none() { StepOutcome::Undecodable } else { StepOutcome::Ok };
    assert_eq!(run(&mut engine, fails), 3, "what was to follow begins only where that is forgiven");
    let told = &engine.controller().told;
    assert!(
        told.contains(&Told::Step(B, StepOutcome::Undecodable))
            && !told.contains(&Told::Step(A, StepOutcome::Undecodable))
    );
    assert_eq!(engine.controller().blamed, DevSet::EMPTY);
}

#[test]
fn a_phase_that_ends_last_is_told_before_what_failed_beside_it() {
    // A read that is no part of the phase has failed; what the plan has written counts all the same, and the
    // controller must know so when it drops the plan.
    let script = |told: Told, out: &mut Out| match told {
        Told::Granted(op) if out.counts()[StepKind::Read as usize] == 0 => {
            let dst = out.tmp(op, 1);
            out.step(op, read(1, 0, dst), StepSet::EMPTY);
            let written = out.step(op, write(0, 0), StepSet::EMPTY);
            assert!(out.phase(op, written));
        }
        Told::Granted(op) => out.close(op),
        Told::Stuck(op) => {
            out.restart(op);
            out.again(op);
        }
        _ => {}
    };
    let mut engine = start(vec![None], script);
    let failed = |step: &Step| if step.dev() == Some(Dev(1)) { StepOutcome::Failed(Dev(1)) } else { StepOutcome::Ok };
    run(&mut engine, failed);
    let told = &engine.controller().told;
    assert_eq!(*told, [Told::Granted(A), Told::Phase(A), Told::Stuck(A), Told::Granted(A), Told::Done(A)]);
}

#[test]
fn a_write_keeps_its_stream_and_the_others_have_none() {
    let script = |told: Told, out: &mut Out| {
        if let Told::Granted(op) = told {
            let first = out.step_placed(op, write(0, 0), PlacementStream::Parity, StepSet::EMPTY);
            out.step(op, write(0, 1), first);
            out.meddle(|_| {});
            out.close(op);
        }
    };
    let mut engine = start(vec![None], script);
    let mut streams = Vec::new();
    while let Some(issue) = engine.next_issue() {
        streams.push(engine.stream(issue));
        engine.complete(Nanos(0), issue, StepOutcome::Ok);
    }
    assert_eq!(streams, [PlacementStream::Parity, PlacementStream::Unlabelled]);
}
