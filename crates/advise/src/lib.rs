//! Which policy, and how large, for a trace.

pub mod search;
