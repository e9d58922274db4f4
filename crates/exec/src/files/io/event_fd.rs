//! Wakes the main loop with an eventfd while it waits for a descriptor.

use std::io;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{BorrowedFd, OwnedFd};

/// Wakes the main loop also while it waits for a ring.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        // Non-blocking, so that emptying it after a wait that timed out does not
        // block.
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Ends the current wait, or else the next one.
    pub(crate) fn wake(&self) {
        // It cannot be full: it is emptied after every wait.
        let _full = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Waits until somebody wakes it, or `other` is readable, or `limit` has passed. It may return earlier.
    pub(crate) fn wait(&self, other: Option<BorrowedFd<'_>>, limit: Option<Duration>) {
        let limit = limit.map(|limit| Timespec {
            // Longer than the kernel can count is as good as for ever.
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        let wake = PollFd::new(&self.0, PollFlags::IN);
        // Whatever goes wrong, the caller looks for itself.
        let _woken = match other {
            Some(other) => poll(&mut [wake, PollFd::from_borrowed_fd(other, PollFlags::IN)], limit.as_ref()),
            None => poll(&mut [wake], limit.as_ref()),
        };
        // Emptied after every wait: else the next wait would end at once.
        let _empty = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}
