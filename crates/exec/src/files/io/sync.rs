//! Names the primitives of [`port`](super::port). A model checker puts its own in their place
//! (`tests/files_port.rs`).

pub use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
