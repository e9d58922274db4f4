//! Breaks arrays on purpose: random histories of requests with cuts of the power and lost devices
//! at any step, checked against a model of what a host may see, and against the rows' parity after
//! every write.
//!
//! One number, the seed, decides everything. A run first lets things go wrong (*safety*): no answer
//! may be wrong, no row inconsistent without an intent, no start refused outside the documented
//! window. Then nothing more goes wrong (*liveness*): what was lost is replaced, and recovery,
//! rebuild and a clean stop must be reached within bounds. What is promised, and what is not, is
//! written in docs/assumptions.md.

mod asked;
mod caught;
mod cell;
mod crooked;
mod dice;
mod dirty;
mod explore;
mod files;
mod history;
mod model;
mod mutant;
mod parity;
mod report;
mod run;
mod seek;
mod short;
mod shrink;
mod store;

pub use caught::caught;
pub use cell::{CrashCell, PAGE, PAGE_SECTORS};
pub use crooked::ControllerFault;
pub use dice::RandomDraws;
pub use explore::{ExhaustedHistories, exhaust, explore, first_failure, history};
pub use files::{FilesFailure, FilesOptions, FilesReport, run_files, shrink_files};
pub use history::{CompletionOrder, CrashHistory, DrawLimits, HistoryAction, NumberedAction};
pub use model::{ModelChange, SECTOR, SectorContent, SectorModel, WrongBytes, sector_bytes, value_of};
pub use mutant::StepFault;
pub use parity::ParityCheck;
pub use report::{FailedHistory, RunOptions, RunReport};
pub use run::run;
pub use seek::first_files_failure;
pub use shrink::shrink;
pub use store::run_store;
