//! Real bytes, virtual time, any order of completion, loss of power and of devices.

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

pub use check::{NoCheck, RowCheck, View, Violation};
pub use conduct::{Conduct, Tamper};
pub use executor::Memory;
pub use settings::{Latency, Log, Pick, Ran, Remains};
