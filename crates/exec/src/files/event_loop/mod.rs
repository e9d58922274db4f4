//! The executor and its main loop.

mod ahead;
pub(crate) mod executor;
mod replace;
pub(crate) mod serving;
mod turns;
