//! Faults planted between a controller and the executor, whichever that is: a layer around the controller plans
//! what that one would if it did its work badly, or tells the executor something else.

use std::collections::{BTreeMap, BTreeSet};

use destage_cache::{CacheLayer, LayeredCache, ServedTier};
use destage_plan::{Buf, Class, DevSet, Event, Issue, OpId, Out, Rows, Step, StepSet};

use crate::{RandomDraws, StepFault};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerFault {
    /// Carries out the executor's steps as badly as this fault does.
    Plans(StepFault),
    /// A file that takes a device's place is named as the device's before it is noted that what the device held is lost.
    NamedEarly,
}

impl ControllerFault {
    /// Plants it around a controller.
    pub(crate) fn around(self, inner: Box<dyn ServedTier>, seed: u64) -> Box<dyn ServedTier> {
        let mut dice = RandomDraws::part(seed, u64::MAX - 2);
        let left = dice.below(if self == Self::Plans(StepFault::UnreadMember) { 24 } else { 12 });
        let (seen, written, own) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
        Box::new(LayeredCache::new(FaultyController { crooked: self, left: Some(left), seen, written, own }, inner))
    }
}

/// A fault around a controller.
struct FaultyController {
    crooked: ControllerFault,
    /// Of faults that happen once in a life: how many steps of their kind go well before; none when it has happened.
    left: Option<u64>,
    /// Steps of that kind that were counted.
    seen: BTreeSet<(u32, u8)>,
    /// Rows that operations write.
    written: BTreeMap<u32, Vec<Rows>>,
    /// Lists its own operations, and the rows whose intents they clear.
    own: Vec<(OpId, Rows)>,
}

impl FaultyController {
    /// Returns true if a fault that happens once happens at this step, out of those at which it can.
    fn strikes(&mut self, issue: Issue) -> bool {
        // Plans are shown after every event, so a step that was counted is shown again.
        if !self.seen.insert((issue.op.0, issue.step.0)) {
            return false;
        }
        match self.left {
            Some(0) => {
                self.left = None;
                true
            }
            Some(more) => {
                self.left = Some(more - 1);
                false
            }
            None => false,
        }
    }

    /// Changes what was planned.
    fn bend(&mut self, mutant: StepFault, inner: &dyn ServedTier, out: &mut Out) {
        let members = inner.array().config().geometry.members();
        let is_written = |step: &Step| match step {
            Step::Write { ext, .. } | Step::WriteList { ext, .. } if ext.dev().0 < members => Some(ext.rows()),
            _ => None,
        };
        let mut there = BTreeSet::new();
        // The writes of the operation that is being shown: an acknowledgement must lose them, and no others.
        let (mut op, mut writes) = (None, StepSet::EMPTY);
        out.meddle(|planned| {
            let issue = planned.issue;
            if op.replace(issue.op) != Some(issue.op) {
                writes = StepSet::EMPTY;
            }
            there.insert((issue.op.0, issue.step.0));
            if let Some(rows) = is_written(&planned.step) {
                writes |= StepSet::one(issue.step);
                if mutant == StepFault::EarlyClear && self.seen.insert((issue.op.0, issue.step.0)) {
                    self.written.entry(issue.op.0).or_default().push(rows);
                }
            }
            // The executor has the step already, and the fault would be in the account alone.
            if planned.begun {
                return;
            }
            match (mutant, &mut planned.step) {
                (StepFault::OmitFlush, step @ Step::FlushDev { .. })
                | (StepFault::UnreadMember, step @ Step::Read { dst: Buf::Tmp { .. }, .. })
                    if self.strikes(issue) =>
                {
                    *step = Step::Join;
                }
                (StepFault::SkipIntent, step @ Step::Intent { set: true, .. }) => *step = Step::Join,
                (
                    StepFault::IgnoreFua,
                    Step::Write { fua, .. } | Step::WriteList { fua, .. } | Step::MetaWrite { fua, .. },
                ) => *fua = false,
                (StepFault::AckBeforeWrite, _) => planned.after -= writes,
                _ => {}
            }
        });
        self.seen.retain(|seen| there.contains(seen));
    }

    /// Handles an event of an operation of its own; whether it was one.
    fn handle_own(&mut self, event: Event<'_>, out: &mut Out) -> bool {
        let (Event::Granted(op) | Event::OpDone(op)) = event else { return false };
        let Some(at) = self.own.iter().position(|own| own.0 == op) else { return false };
        if let Event::Granted(_) = event {
            let rows = out.rows(op, &[self.own[at].1]);
            out.step(op, Step::Intent { rows, set: false }, StepSet::EMPTY);
            out.close(op);
        } else {
            self.own.swap_remove(at);
        }
        true
    }
}

impl CacheLayer for FaultyController {
    fn handle(&mut self, event: Event<'_>, inner: &mut dyn ServedTier, out: &mut Out) {
        if self.handle_own(event, out) {
            return;
        }
        inner.handle(event, out);
        let ControllerFault::Plans(mutant) = self.crooked else { return };
        if let Event::OpDone(op) = event {
            for rows in self.written.remove(&op.0).into_iter().flatten() {
                let own = out.open(Class::Internal, None, None);
                self.own.push((own, rows));
            }
        }
        self.bend(mutant, inner, out);
    }

    fn unnoted(&self, inner: &dyn ServedTier) -> DevSet {
        // The executor asks here whether a replacement may be named, so hiding the answer plants the fault.
        if self.crooked == ControllerFault::NamedEarly { DevSet::EMPTY } else { inner.unnoted() }
    }
}
