//! Operations that claim several stripes, against a list that is searched from the beginning every time.

use std::ops::Range;

use destage_plan::{
    Claim, Class, ColumnSet, Controller, Dev, DevSet, Engine, Event, Frag, HostOp, HostRequest, Issue, Nanos, Out,
    Shape, Start, Step, StepOutcome, StepSet, Stripe,
};

const PAGE: u64 = 4096;

/// Claims the stripes of each fragment, of a page each, and has a step when all of that holds.
#[derive(Default)]
struct ClaimingController(Vec<Option<Frag>>);

impl Controller for ClaimingController {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        match event {
            Event::Start(_) => out.ready(),
            Event::Submit(frag) => {
                let columns = ColumnSet::first(3);
                let (r, w) = if frag.op == HostOp::Read { (columns, ColumnSet::EMPTY) } else { (columns, columns) };
                let claim = Claim { stripe: Stripe(frag.page), first: 0, rows: 1, r, w };
                let op = if frag.pages > 1 {
                    out.open_wide(Class::Write, claim, frag.pages.into(), Some(frag.id))
                } else {
                    out.open(Class::Write, Some(claim), Some(frag.id))
                };
                self.0.resize(self.0.len().max(op.index() + 1), None);
                self.0[op.index()] = Some(frag);
            }
            Event::Granted(op) => {
                let frag = self.0[op.index()].take().expect("an operation is granted once");
                let done = out.step(op, Step::FlushDev { dev: Dev(0) }, StepSet::EMPTY);
                out.step(op, Step::Ack { frag: frag.id, pages: frag.pages, ok: true }, done);
                out.close(op);
            }
            _ => {}
        }
    }
}

#[test]
fn an_operation_waits_until_all_of_its_stripes_are_its_own() {
    let mut random = 7_u64;
    let mut below = |n: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n
    };
    let shape = Shape::new(PAGE, 512, 1, 1, 40).expect("a shape that can be");
    let mut engine = Engine::new(ClaimingController::default(), shape, 1000);
    engine.start(
        Nanos::ZERO,
        Start { nv: &[], intents: &[], missing: DevSet::EMPTY, collectors: DevSet::EMPTY, unwritable: &[] },
    );
    // Requests in order that have not ended, and the steps of those that have begun.
    let mut all: Vec<(u64, Range<u64>, bool)> = Vec::new();
    let mut begun: Vec<(u64, Issue)> = Vec::new();
    let (mut waited, mut wide) = (0, 0);
    let conflict = |one: &(u64, Range<u64>, bool), other: &(u64, Range<u64>, bool)| {
        (one.2 || other.2) && one.1.start < other.1.end && other.1.start < one.1.end
    };
    for tag in 0..20_000 {
        let op = if below(3) == 0 { HostOp::Discard } else { [HostOp::Read, HostOp::Write][below(2) as usize] };
        let pages = if op == HostOp::Discard { 2 + below(12) } else { 1 };
        let from = below(40 - pages + 1);
        let asked = HostRequest { tag, op, offset: from * PAGE, len: pages * PAGE, fua: false };
        engine.submit(Nanos::ZERO, asked).expect("it is in range");
        all.push((tag, from..from + pages, op != HostOp::Read));
        wide += u32::from(pages > 1);
        loop {
            while let Some(issue) = engine.next_issue() {
                let tag = engine.request_of(issue.op).expect("it is a host's");
                begun.push((tag, issue));
            }
            while engine.next_notice().is_some() {}
            let is_free = |at: &usize| !all[..*at].iter().any(|other| conflict(other, &all[*at]));
            let mut free: Vec<u64> = (0..all.len()).filter(is_free).map(|at| all[at].0).collect();
            let mut found: Vec<u64> = begun.iter().map(|(tag, _)| *tag).collect();
            free.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, free, "after request {tag}");
            waited += u32::from(free.len() < all.len());
            if all.len() <= below(12) as usize {
                break;
            }
            let (tag, issue) = begun.swap_remove(below(begun.len() as u64) as usize);
            all.retain(|one| one.0 != tag);
            engine.complete(Nanos::ZERO, issue, StepOutcome::Ok);
        }
    }
    assert!(waited > 5000 && wide > 2000, "{waited} waited, {wide} of several stripes: no test");
}
