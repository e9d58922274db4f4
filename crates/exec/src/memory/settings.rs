//! Defines the settings of an executor in memory, and its reports of steps.

use std::sync::{Arc, Mutex};

use destage_plan::{Nanos, OpId, Step, StepOutcome};

use crate::device::DiskImage;
use crate::nvram::MemoryNvram;

/// Holds what survives a loss of power: bytes alone.
#[derive(Clone, Debug)]
pub struct CrashRemains {
    /// Holds the devices.
    pub disks: Vec<DiskImage>,
    /// Holds the NVRAM.
    pub nvram: MemoryNvram,
}

impl CrashRemains {
    /// Makes a new array, of devices with so many bytes each.
    pub fn fresh(device_bytes: impl IntoIterator<Item = usize>) -> Self {
        Self { disks: device_bytes.into_iter().map(DiskImage::zeros).collect(), nvram: MemoryNvram::default() }
    }
}

/// Sets the virtual time that steps take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLatency {
    /// Is the time of a read, per step.
    pub read: Nanos,
    /// Is the time of a write or trim, per step.
    pub write: Nanos,
    /// Is the time of flushing a device.
    pub flush: Nanos,
    /// Is the time of a step of the NVRAM, or one that computes.
    pub quick: Nanos,
    /// Is the time per page, on top.
    pub page: Nanos,
}

impl Default for StepLatency {
    /// Uses figures like those of flash; only the order of things depends on them.
    fn default() -> Self {
        Self {
            read: Nanos(60_000),
            write: Nanos(20_000),
            flush: Nanos(500_000),
            quick: Nanos(1_000),
            page: Nanos(2_000),
        }
    }
}

impl StepLatency {
    pub(super) const fn of(&self, step: &Step) -> Nanos {
        let (base, pages) = match step {
            Step::Read { ext, .. } | Step::MetaRead { ext } => (self.read.0, ext.pages()),
            Step::Write { ext, .. }
            | Step::WriteList { ext, .. }
            | Step::MetaWrite { ext, .. }
            | Step::Trim { ext } => (self.write.0, ext.pages()),
            Step::FlushDev { .. } => (self.flush.0, 0),
            _ => (self.quick.0, 0),
        };
        Nanos(base + self.page.0 * pages as u64)
    }
}

/// Chooses the step in flight that ends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Chooses the step at this place, below [`MemoryExecutor::runnable`](crate::MemoryExecutor::runnable).
    /// Time advances by a microsecond.
    At(usize),
    /// Chooses the step that was issued first. Time advances by a microsecond.
    Oldest,
    /// Chooses the step that is done first in virtual time.
    Earliest,
}

/// Is a step that ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedStep {
    /// Names its operation.
    pub op: OpId,
    /// Is the step.
    pub step: Step,
    /// Is its outcome.
    pub outcome: StepOutcome,
}

/// Holds a line for each event: virtual microseconds, then the event.
pub type StepLog = Arc<Mutex<Vec<String>>>;
