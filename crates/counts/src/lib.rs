//! Small fixed workloads whose instructions are counted, so that no change makes a hot path slower
//! unnoticed.
//!
//! Each is a function of a name that prepares a [`Work`]; what is prepared is not counted, what the
//! work does is. Nothing here depends on the machine: numbers come from a generator of its own,
//! input and output stay in memory, and kernels are chosen by name. `scripts/counts` counts them
//! and compares with the figures in `figures/`.

mod arrays;
mod buffers;
mod deltas;
mod experiments;
mod requests;
mod traces;

pub use arrays::{array, hit, kernel, overload, plan, tier};
pub use buffers::buffer;
pub use deltas::delta;
pub use experiments::{all_collecting, collecting, log_blocks, modern, pipeline, saturated};
pub use traces::{read, stat};

/// Runs a workload whose instructions are counted. The returned value depends on all of its work, so that
/// none is optimised away.
pub type Work = Box<dyn FnMut() -> u64>;
