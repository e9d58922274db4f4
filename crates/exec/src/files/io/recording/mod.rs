//! An operating system in memory that keeps apart what is durable and what is not, and records in
//! one order over all files what was done to them: after any operation the power can fail, with any
//! subset of what is not durable surviving, torn between sectors; or the process alone.
//!
//! It is as harsh as a real one may be:
//!
//! * What was written and not synced survives or not, sector by sector, in the order of the writes.
//! * A length is made durable by `sync_all` alone, a name by a sync of its folder alone. Until then
//!   a cut may leave a file without its name, or shorter than what was written to it.
//! * When a sync fails, what was not durable becomes so or never does, sector by sector; reads show
//!   it all the same, and the next sync succeeds and says nothing of it.
//! * Who has opened a file [beside](crate::PathPresence::Beside) another is told once of a sync of it that failed, whoever asked.
//! * A sync covers what was done before it began. Between its beginning and its end other workers
//!   go on.
//!
//! There are no threads: chance decides which pool goes on, and which of its workers, so that a seed
//! decides everything. A [`ExecutorFault`] of the executor can be planted, to see what finds it.

mod control;
mod file;
mod image;
mod inode;
mod os;
mod queue;
mod slip;
mod state;

pub use inode::{BadBytes, CrashChance, CrashSurvival};
pub use slip::ExecutorFault;
pub use state::{CrashPoint, IoFault, RecordingOs};
