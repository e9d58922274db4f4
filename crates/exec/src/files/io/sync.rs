//! What [`port`](super::port) is made of. A model checker puts its own in place of these
//! (`tests/files_port.rs`).

pub use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
