//! Serves real files in real time. Each device has some threads that read, write and flush its file, or the
//! main loop's ring.
//! The NVRAM and the intents have one thread more. A main loop, the caller's own thread, owns the controller
//! and all bytes.
//!
//! * Bytes of a step leave the main loop by handle, the host's own buffers among them. Bytes that were read
//!   come back by handle ([`BufferTable`](crate::BufferTable)). They begin at multiples of
//!   [`AlignedBuffer::ALIGN`](crate::AlignedBuffer::ALIGN). Bytes are copied, and counted, if they have several
//!   places or lie inside of another buffer. These are: parts of a read that several devices answer, lists of
//!   slots of the NVRAM, and everything that enters the NVRAM.
//! * A device has at most [`FilesConfig::depth`] commands at a time; further steps wait in the main loop,
//!   without bytes. Its threads take them in order, one each, and end them in any order. A plan orders steps by
//!   claims and by sets of steps, never by device. A flush covers everything that had ended before it began,
//!   whoever wrote it (`syncs.rs`).
//! * A device whose file is not there, or that answers with an error, has failed. Its steps fail from then on,
//!   and the controller is told. [`FileExecutor::errors`] says why; [`FileExecutor::replace`] puts a file in
//!   its place.
//! * The NVRAM does not fail as far as controllers know. If it lies on a device (`region.rs`) that fails, it
//!   goes on in its [spare place](FilesConfig::spare_nvram) with its whole content (`moving.rs`). If there is
//!   none, or its own file fails, the executor stops: nothing is acknowledged any more, and every later call is
//!   an error.
//! * A failed sync is believed. Earlier writes may be lost, so the device has failed, even if there was no
//!   room, and nothing of it is asked again. Only a write for which there is no room stops the executor and
//!   costs no member.
//! * A device whose command takes longer than [`FilesConfig::device_timeout`] is failed, and its commands in
//!   flight are abandoned, if the controller can spare it. Otherwise it stays, and requests that wait as long
//!   fail. NVRAM or intents that hang so long stop the executor, but for an NVRAM with a spare place.
//! * A device that hangs is replaced without waiting for it; its threads are abandoned. Opening, replacing,
//!   stopping and dropping wait for no file longer than [`FilesConfig::patience`]: all but the last are errors
//!   then. Any thread that is left holds the array's lock until it ends, so that nobody opens the array
//!   meanwhile.
//! * Everything that touches the operating system goes through [`OsInterface`], in `os.rs`.
//! * A thread that panics is no device that fails: its panic is the caller's, in the call that notices it.
//! * Dropping the executor is a crash of the process: threads finish the commands that they have begun, and no
//!   others. A loss of power leaves what the operating system was told to make durable.
//!
//! A member's file holds its pages from byte 0 on, as md places them. After them come a label that says whose
//! they are, the list of pages that it cannot keep, and marks of rows. Their formats and those of the other two
//! files are described byte by byte in `layout/`.

mod bad_page_lists;
mod bitmap;
mod config;
mod error;
mod event_loop;
mod io;
mod layout;
mod nvram;
mod open;

pub use config::{AcceptedLosses, DeviceConfig, DeviceOptions, ExistingFiles, FilesConfig, IoBackend, NvramPlace};
pub use error::FilesError;
pub use event_loop::{
    DeviceTraffic, DroppedSuccessor, FileExecutor, FileProbe, RequestCompletion, SuccessionPhase, SuccessorLabelling,
};
pub use io::file::{FileIdentity, OsFile, SyncPoint, UntrustedFile};
pub use io::merge::{MergeCounts, RequestMerger};
pub use io::os::{OsInterface, PathPresence};
pub use io::real::{RealFile, RealOs};
pub use io::recording::{BadBytes, CrashChance, CrashPoint, CrashSurvival, ExecutorFault, IoFault, RecordingOs};
pub use io::ring::{
    EndedOperation, FileOp, IoRing, LockedFile, MergeRole, OperationTag, RingEntries, RingEntry, tell_parts,
};
pub use nvram::store::StateTraffic;
pub use open::create::{ZeroingProgress, ZeroingWatch};
pub use open::force::MemberFreshness;
pub use open::opened::{ArrayResync, DamagedIntents, DamagedNvram};
