//! Executors that move real bytes: what a [`Controller`](destage_plan::Controller) decides is
//! carried out here.
//!
//! [`Bytes`] keeps the bytes behind [`Buf`](destage_plan::Buf) and evaluates the computing steps;
//! every such executor uses it. [`Memory`] carries everything out in memory, in virtual time and in
//! any order, and can lose power and devices: it is the machine that the crash harness breaks. What
//! it takes for granted of hardware is written in docs/assumptions.md. [`Files`] carries everything
//! out on real files, in real time, with threads for each device.

mod buffer;
mod bytes;
mod device;
mod files;
mod memory;
mod nvram;

pub use buffer::Buffer;
pub use bytes::{Bytes, Handle};
pub use device::{Content, CutChoice, Disk};
pub use files::{
    Accepted, BadBytes, Chance, Completion, DamagedIntents, DamagedNvram, DeviceConfig, DeviceOptions,
    DroppedSuccessor, Ended, Entries, Entry, Existing, Fault, FileProbe, Files, FilesConfig, FilesError, Identity, Io,
    LockedFile, MemberFreshness, MergeCounts, MergeRole, Moment, NvramPlace, Operation, Os, OsFile, Presence, RealOs,
    Recording, RequestMerger, Resynchronised, Ring, Slip, StateTraffic, SuccessionPhase, SuccessorLabelling, Survival,
    SyncPoint, Tag, Traffic, Unfit, ZeroingProgress, ZeroingWatch, tell_parts,
};
pub use memory::{Conduct, Latency, Log, Memory, NoCheck, Pick, Ran, Remains, RowCheck, Tamper, View, Violation};
pub use nvram::{Nvram, RowSet};
