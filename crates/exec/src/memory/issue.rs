//! Takes the steps that the engine hands out.

use destage_plan::{Controller, Status, Step, StepOutcome};

use super::conduct::ExecutorConduct;
use super::executor::MemoryExecutor;
use super::step::InFlight;
use crate::device::MemoryDevice;

impl<C: Controller> MemoryExecutor<C> {
    pub(super) fn take_issues(&mut self) {
        if self.engine.status() == Status::Ready {
            // From here on answers may wait for the commits of the start.
            self.pending.ready();
        }
        while let Some(issue) = self.engine.next_issue() {
            let step = *self.engine.step(issue);
            let conduct = self.tamper.as_mut().map_or(ExecutorConduct::Honest, |tamper| tamper(issue, &step));
            self.issued += 1;
            let device = step.dev().map(|dev| &self.devices[dev.index()]);
            let mut entry = InFlight {
                issue,
                step,
                number: self.issued,
                due: self.now + self.latency.of(&step),
                // A flush covers the writes that had ended when it was issued, and
                // no later ones.
                covers: device.map_or(0, MemoryDevice::written),
                lost: device.is_some_and(|device| !device.answers()),
                conduct,
                early: None,
            };
            match step {
                // One queue, since the NVRAM is a journal: its steps take effect in
                // the order of issue.
                Step::NvCommit { .. } | Step::Intent { .. } => self.nv_queue.push_back(entry),
                _ if !matches!(conduct, ExecutorConduct::Early | ExecutorConduct::Ahead)
                    && self.pending.holds(&step) =>
                {
                    self.pending.hold(entry);
                }
                Step::Write { .. } | Step::WriteList { .. } | Step::MetaWrite { .. }
                    if conduct == ExecutorConduct::Early && !entry.lost =>
                {
                    // Copied now: after its answer the host may change the buffer.
                    entry.early = Some(self.bytes.written(&self.engine, issue.op, &step));
                    self.in_flight.push(entry);
                    self.engine.complete(self.now, issue, StepOutcome::Ok);
                }
                _ if step.dev().is_none() && self.compute_at_once => {
                    self.steps += 1;
                    self.note(|| format!("{:?}.{} {step:?}", issue.op, issue.step));
                    let outcome =
                        self.bytes.compute(&self.engine, issue).expect("it is no device's and not the NVRAM's");
                    self.engine.complete(self.now, issue, outcome);
                }
                _ => self.in_flight.push(entry),
            }
        }
    }
}
