//! What an executor in memory is given, and what it says of steps.

use std::sync::{Arc, Mutex};

use destage_plan::{Nanos, OpId, Step, StepOutcome};

use crate::device::DiskImage;
use crate::nvram::MemoryNvram;

/// What survives a loss of power: bytes alone.
#[derive(Clone, Debug)]
pub struct CrashRemains {
    /// The devices.
    pub disks: Vec<DiskImage>,
    /// The NVRAM.
    pub nvram: MemoryNvram,
}

impl CrashRemains {
    /// An array just made, of devices with so many bytes each.
    pub fn fresh(device_bytes: impl IntoIterator<Item = usize>) -> Self {
        Self { disks: device_bytes.into_iter().map(DiskImage::zeros).collect(), nvram: MemoryNvram::default() }
    }
}

/// Time that steps take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLatency {
    /// Reading, per step.
    pub read: Nanos,
    /// Writing and trimming, per step.
    pub write: Nanos,
    /// Flushing a device.
    pub flush: Nanos,
    /// A step of the NVRAM, or one that computes.
    pub quick: Nanos,
    /// Per page, on top.
    pub page: Nanos,
}

impl Default for StepLatency {
    /// Flash-like figures; nothing depends on them but the order of things.
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

/// Which of the steps in flight ends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// The one at this place, below [`MemoryExecutor::runnable`](crate::MemoryExecutor::runnable). Time advances by a microsecond.
    At(usize),
    /// The one that was issued first. Time advances by a microsecond.
    Oldest,
    /// The one that is done first, as time goes.
    Earliest,
}

/// A step that ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedStep {
    /// Whose.
    pub op: OpId,
    /// The step.
    pub step: Step,
    /// How.
    pub outcome: StepOutcome,
}

/// What happened, a line each: virtual microseconds, then what.
pub type StepLog = Arc<Mutex<Vec<String>>>;
