//! Runs real bytes in virtual time, with any order of completion and losses of power and of devices.

mod check;
mod conduct;
mod executor;
mod fault;
mod issue;
mod pending;
mod requests;
mod run;
mod settings;
mod start;
mod step;
mod sync;

pub use check::{MemoryView, MemoryViolation, NoCheck, RowCheck};
pub use conduct::{ExecutorConduct, StepTamper};
pub use executor::MemoryExecutor;
pub use settings::{CrashRemains, EndedStep, NextStep, StepLatency, StepLog};
