//! What `service` tries over `io_uring` and direct I/O, where the machine has them, over threads and buffered.

#[path = "service/main.rs"]
mod service;
