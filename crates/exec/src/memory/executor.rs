//! Holds the state of an executor in memory.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::PoisonError;

use destage_plan::{Controller, Dev, DevSet, Engine, Nanos, OpId, Status, Step, StepKind};

use super::conduct::StepTamper;
use super::pending::PendingCommits;
use super::settings::{StepLatency, StepLog};
use super::step::InFlight;
use crate::buffer::AlignedBuffer;
use crate::bytes::BufferTable;
use crate::device::MemoryDevice;
use crate::nvram::MemoryNvram;

/// Carries a controller's steps out in memory.
///
/// Steps on devices and computing steps that were issued end one at a time, in any order that the
/// caller likes; those of the NVRAM in the order of issue. A device keeps what was written but not
/// flushed apart, so that [`cut`](Self::cut) can leave any part of it.
pub struct MemoryExecutor<C> {
    pub(super) engine: Engine<C>,
    pub(super) bytes: BufferTable,
    pub(super) devices: Vec<MemoryDevice>,
    pub(super) in_flight: Vec<InFlight>,
    pub(super) nv_queue: VecDeque<InFlight>,
    pub(super) pending: PendingCommits,
    pub(super) now: Nanos,
    pub(super) issued: u64,
    pub(super) steps: u64,
    pub(super) latency: StepLatency,
    pub(super) compute_at_once: bool,
    /// Names the devices that can be asked to collect.
    pub(super) collectors: DevSet,
    /// Names the devices that failed while the controller does not know.
    pub(super) unannounced: DevSet,
    pub(super) tamper: Option<StepTamper>,
    pub(super) log: Option<StepLog>,
    pub(super) released: Option<u64>,
}

impl<C: Controller> MemoryExecutor<C> {
    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        if let Some(log) = &self.log {
            let line = format!("{:>9} {}", self.now.0 / 1_000, what());
            log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }

    /// Returns the bytes that a step in flight writes to its device; none if they are zeros.
    pub(super) fn written(&self, entry: &InFlight) -> Option<Cow<'_, [u8]>> {
        let op = entry.issue.op;
        match entry.step {
            Step::Trim { .. } => None,
            Step::Write { ext, src, .. } => {
                let len = usize::from(ext.pages()) * self.engine.shape().page_bytes() as usize;
                self.bytes.source(&self.engine, op, src, len).map(Cow::Borrowed)
            }
            _ => {
                let mut bytes = AlignedBuffer::new();
                self.bytes.append(&self.engine, op, &entry.step, &mut bytes);
                Some(Cow::Owned(bytes.to_vec()))
            }
        }
    }

    /// Returns how far this life has come.
    pub fn status(&self) -> Status {
        self.engine.status()
    }

    /// Returns the virtual time.
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Counts the steps that ended.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the engine, for its counters and the controller.
    pub const fn engine(&self) -> &Engine<C> {
        &self.engine
    }

    /// Returns the NVRAM.
    pub const fn nvram(&self) -> &MemoryNvram {
        self.bytes.nvram()
    }

    /// Returns the bytes of a request: of an answered read, those that it read.
    pub fn request_bytes(&self, tag: u64) -> &[u8] {
        self.bytes.host_bytes(tag)
    }

    /// Counts the steps that [`run`](Self::run) can choose from.
    pub fn runnable(&self) -> usize {
        // Of the NVRAM only the first: its steps end in the order of issue.
        self.in_flight.len() + usize::from(!self.nv_queue.is_empty()) + usize::from(self.pending.is_waited_for())
    }

    /// Returns true if nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.runnable() == 0 && self.engine.is_idle() && !self.pending.is_open()
    }

    /// Counts the steps of a kind that an operation has in flight.
    pub fn in_flight(&self, op: OpId, kind: StepKind) -> usize {
        // Held steps count: the plan has issued them.
        let held = self.pending.held.iter().map(|(_, entry)| entry);
        let all = self.in_flight.iter().chain(&self.nv_queue).chain(held);
        all.filter(|entry| entry.issue.op == op && entry.step.kind() == kind).count()
    }

    /// Returns true if everything is durable that the controller was told to be done of the NVRAM.
    pub fn is_durable(&self) -> bool {
        !self.pending.is_open()
    }

    /// Returns the devices that failed while the controller does not know.
    pub const fn unannounced(&self) -> DevSet {
        self.unannounced
    }

    /// Returns true if a device answers.
    pub fn answers(&self, dev: Dev) -> bool {
        self.devices[dev.index()].answers()
    }

    /// Returns the NVRAM, for a harness that plants faults.
    pub const fn nvram_mut(&mut self) -> &mut MemoryNvram {
        self.bytes.nvram_mut()
    }
}

impl<C> fmt::Debug for MemoryExecutor<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("now", &self.now)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}
