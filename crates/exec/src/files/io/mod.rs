//! Talks to the operating system: by threads, or by the main loop with a ring.

pub(crate) mod backend;
pub(crate) mod command;
pub(crate) mod device;
mod event_fd;
pub(crate) mod file;
pub(crate) mod merge;
pub(crate) mod metadata;
pub(crate) mod os;
pub(crate) mod patience;
pub(crate) mod port;
pub(crate) mod real;
pub(crate) mod recording;
pub(crate) mod ring;
pub(crate) mod sectors;
pub(crate) mod state_file;
mod sync;
mod syncs;
pub(crate) mod threads;
pub(crate) mod uring;
pub(crate) mod zeros;
