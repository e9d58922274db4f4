//! The algorithms: what to evict, flush and destage. A policy is a pure state machine: no clock, no
//! I/O, no threads, no randomness of its own.
//!
//! [`buffer`] holds the write and read-write buffers inside an SSD. The caches of a RAID controller
//! and of an SSD in front of disks will stand beside it.

pub mod buffer;
mod links;
