//! Changes the plans of a controller, for harnesses that plant faults in them.

use super::{Issue, Out, Slot};
use crate::{OpId, Step, StepNo, StepOutcome, StepSet};

/// A step of an operation that is open, as it is shown to who may change it.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// Names the step.
    pub issue: Issue,
    /// Describes the step.
    pub step: Step,
    /// The steps that it waits for.
    pub after: StepSet,
    /// The executor has it, or had: it is what it is.
    pub begun: bool,
}

impl Out {
    /// Shows every step of the operations that are open, in order, and takes those that are not
    /// [begun](Planned::begun) as they are then. One that becomes a [`Step::Join`] is done when its turn comes, and
    /// nobody hears of it. For a controller around a controller, when that one has handled an event.
    pub fn meddle(&mut self, mut with: impl FnMut(&mut Planned)) {
        for index in (0..self.ops.len()).filter(|index| self.ops[*index].live).collect::<Vec<_>>() {
            let op = OpId(index as u32);
            for number in 0..self.ops[index].steps.len() {
                let issue = Issue { op, step: StepNo(number as u8) };
                let waits = !self.ops[index].issued.contains(issue.step);
                // A step in the queue is issued but not begun, so it can still be changed.
                let queued = self.ready.iter().position(|ready| *ready == issue);
                let Slot { step, after, stream } = self.ops[index].steps[number];
                let mut planned = Planned { issue, step, after, begun: !waits && queued.is_none() };
                with(&mut planned);
                // The executor has the step: changing it here would plant a fault in the account of it, and not in
                // what is done.
                if planned.begun {
                    continue;
                }
                self.ops[index].steps[number] = Slot { step: planned.step, after: planned.after, stream };
                if waits && self.ops[index].done.contains_all(planned.after) {
                    self.issue(op, issue.step);
                    self.tell_how_it_ended(op);
                } else if let Some(at) = queued.filter(|_| planned.step.is_the_engines()) {
                    self.ready.remove(at);
                    self.finish(issue, StepOutcome::Ok);
                }
            }
        }
    }
}
