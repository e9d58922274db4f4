//! What wakes the main loop while it waits for a descriptor: an eventfd.

use std::io;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{BorrowedFd, OwnedFd};

/// Wakes who waits for a ring, too.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Ends the wait that there is, or else the next one.
    pub(crate) fn wake(&self) {
        // It cannot be full: it is emptied after every wait.
        let _full = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Waits until it is woken, or `other` is readable, at most as long as `limit`; or less.
    pub(crate) fn wait(&self, other: Option<BorrowedFd<'_>>, limit: Option<Duration>) {
        let limit = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        let wake = PollFd::new(&self.0, PollFlags::IN);
        // Whatever goes wrong, the caller looks for itself.
        let _woken = match other {
            Some(other) => poll(&mut [wake, PollFd::from_borrowed_fd(other, PollFlags::IN)], limit.as_ref()),
            None => poll(&mut [wake], limit.as_ref()),
        };
        let _empty = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}
