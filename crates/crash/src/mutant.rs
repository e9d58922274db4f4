//! Faults planted in the executor, to see that the harness finds them: what a controller that does
//! its work badly would leave undone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use destage_exec::{EndedStep, ExecutorConduct, MemoryExecutor, StepTamper};
use destage_plan::{Buf, Controller, Step, StepKind, StepOutcome};

use crate::RandomDraws;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepFault {
    /// One flush of a device is reported as done, and nothing is made durable.
    OmitFlush,
    /// Intents are not set.
    SkipIntent,
    /// An intent is cleared when the operation's last write is done, not flushed.
    EarlyClear,
    /// One read of an operation that computes something from what it reads is reported as done, and
    /// brings nothing.
    UnreadMember,
    /// Writes are reported as done when they are issued.
    AckBeforeWrite,
    /// Writes with FUA stay in the volatile cache.
    IgnoreFua,
    /// Steps of devices do not wait until commits of the NVRAM that were done before them are durable. No plan can do
    /// that.
    BeginAhead,
}

impl StepFault {
    /// All that a plan can have.
    pub const ALL: [Self; 6] = [
        Self::OmitFlush,
        Self::SkipIntent,
        Self::EarlyClear,
        Self::UnreadMember,
        Self::AckBeforeWrite,
        Self::IgnoreFua,
    ];
}

/// A fault in a run.
pub(crate) struct PlantedFault {
    mutant: StepFault,
    /// Of faults that happen once: how many steps of their kind go well before. Shared by all lives
    /// of a run.
    left: Arc<AtomicU64>,
}

impl PlantedFault {
    pub(crate) fn new(mutant: StepFault, seed: u64) -> Self {
        let mut dice = RandomDraws::part(seed, u64::MAX - 2);
        let first = match mutant {
            // Faults that strike once do so early enough for short histories to show them.
            StepFault::OmitFlush => 12,
            StepFault::UnreadMember => 24,
            StepFault::SkipIntent
            | StepFault::EarlyClear
            | StepFault::AckBeforeWrite
            | StepFault::IgnoreFua
            | StepFault::BeginAhead => 1,
        };
        Self { mutant, left: Arc::new(AtomicU64::new(dice.below(first))) }
    }

    /// Returns the function that the executor calls before it issues a step.
    pub(crate) fn tamper(&self) -> StepTamper {
        let (mutant, left) = (self.mutant, Arc::clone(&self.left));
        // The counter wraps below zero, so the fault strikes once.
        let once = move || {
            if left.fetch_sub(1, Ordering::Relaxed) == 0 { ExecutorConduct::Omit } else { ExecutorConduct::Honest }
        };
        Box::new(move |_, step| match (mutant, step) {
            (StepFault::OmitFlush, Step::FlushDev { .. })
            | (StepFault::UnreadMember, Step::Read { dst: Buf::Tmp { .. }, .. }) => once(),
            (StepFault::SkipIntent, Step::Intent { set: true, .. }) => ExecutorConduct::Omit,
            (StepFault::AckBeforeWrite, Step::Write { .. } | Step::WriteList { .. }) => ExecutorConduct::Early,
            (StepFault::BeginAhead, step) if step.dev().is_some() => ExecutorConduct::Ahead,
            (StepFault::IgnoreFua, step) if step.is_fua() => ExecutorConduct::Volatile,
            _ => ExecutorConduct::Honest,
        })
    }

    /// Plants the rest of the fault once a step has ended.
    pub(crate) fn after<C: Controller>(&self, ran: &EndedStep, memory: &mut MemoryExecutor<C>) {
        if let (StepFault::EarlyClear, Step::Write { ext, .. } | Step::WriteList { ext, .. }, StepOutcome::Ok) =
            (self.mutant, ran.step, ran.outcome)
            && memory.in_flight(ran.op, StepKind::Write) == 0
        {
            // An operation's rows are those of each of its writes.
            let rows = ext.rows();
            memory.nvram_mut().intents.set(rows, false);
        }
    }
}
