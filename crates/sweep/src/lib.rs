//! Sweeps: a declared grid of settings over traces, whose results are rows of a Parquet data set.
//!
//! [`SweepDescription`] is what a sweep file says. [`ParameterSweep`] plans all of its runs before anything is simulated, finds out
//! which of them the folder has rows of already, hands out the others in [`SweepGroup`]s over one trace each, takes the rows
//! that these bring, and puts all together in the order of the plan. A group is text and needs nothing but the trace,
//! so that it can be run anywhere: [`run`] checks that it is this program and this trace that it is for. [`local`] runs
//! a sweep on threads.
//!
//! What is wanted whole rather than as rows, of papers and for advice, is a group too ([`SweepGroup::whole`], [`fn@whole`]).
//!
//! A run's key is a SHA-256 of all that decides about its result: the program ([`program`]), what the trace's files
//! hold, and what the settings were resolved to. So nothing has to be asked of a row but whether it is whole, for which
//! the name of its part is the SHA-256 of the part; and rows do not depend on which runs were simulated together.

mod best;
mod description;
mod error;
mod globs;
mod grid;
mod group;
mod held;
mod merge;
mod plan;
mod portions;
mod prepared;
mod store;
mod sweep;
mod threads;
mod traces;
mod whole;

pub use best::BestRun;
pub use description::SweepDescription;
pub use error::SweepError;
pub use group::{FailedRun, GroupOutcome, GroupTrace, SweepGroup, run};
pub use store::{PARTS, RESULT};
pub use sweep::{FinishedGroup, ParameterSweep, SweepSummary};
pub use threads::local;
pub use traces::is_url;
pub use whole::{AT_A_TIME, RemoteRunner, elsewhere, whole};

/// The SHA-256, in hexadecimal digits, of the sources that decide about results. The command line and the Python package
/// that are built from the same sources have the same.
pub const fn program() -> &'static str {
    env!("DESTAGE_PROGRAM")
}
