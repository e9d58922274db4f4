//! Checks the crate from outside: the driver's interface byte for byte, and what a queue makes of what the driver says.

mod abi;
mod queue;
