//! Executes the decisions of a [`Controller`](destage_plan::Controller) with real bytes.
//!
//! * [`BufferTable`] keeps the bytes behind [`Buf`](destage_plan::Buf) and evaluates the computing steps; every
//!   such executor uses it.
//! * [`MemoryExecutor`] carries everything out in memory, in virtual time and in any order, and can lose power
//!   and devices: the crash harness breaks this machine. Its assumptions about hardware are written in
//!   docs/assumptions.md.
//! * [`FileExecutor`] carries everything out on real files, in real time, with threads for each device or the
//!   kernel's ring.

mod buffer;
mod bytes;
mod device;
mod files;
mod memory;
mod nvram;

pub use buffer::AlignedBuffer;
pub use bytes::{BufferTable, SharedBuffer};
pub use device::{CutChoice, DiskImage, ReplacementContent};
pub use files::{
    AcceptedLosses, ArrayResync, BadBytes, CrashChance, CrashPoint, CrashSurvival, DamagedIntents, DamagedNvram,
    DeviceConfig, DeviceOptions, DeviceTraffic, DroppedSuccessor, EndedOperation, ExecutorFault, ExistingFiles,
    FileExecutor, FileIdentity, FileOp, FileProbe, FilesConfig, FilesError, IoBackend, IoFault, IoRing, LockedFile,
    MemberFreshness, MergeCounts, MergeRole, NvramPlace, OperationTag, OsFile, OsInterface, PathPresence, RealFile,
    RealOs, RecordingOs, RequestCompletion, RequestMerger, RingEntries, RingEntry, StateTraffic, SuccessionPhase,
    SuccessorLabelling, SyncPoint, UntrustedFile, ZeroingProgress, ZeroingWatch, tell_parts,
};
pub use memory::{
    CrashRemains, EndedStep, ExecutorConduct, MemoryExecutor, MemoryView, MemoryViolation, NextStep, NoCheck, RowCheck,
    StepLatency, StepLog, StepTamper,
};
pub use nvram::{MemoryNvram, RowSet};
