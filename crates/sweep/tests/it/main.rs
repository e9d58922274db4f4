//! Sweeps: plans, parts, and runs elsewhere.

mod sweeps;
mod whole;
