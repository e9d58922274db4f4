//! Limits the file descriptors of clients, and holds one in reserve for orders.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Bounds, from below and above, the descriptors that clients leave to orders and to files that replace devices.
const KEPT: (u64, u64) = (4, 16);
/// Counts those of them that orders leave: for a replacement, its folder and the description.
const FOR_FILES: u64 = 3;

/// Raises the limit of open files to what this process may raise it to. Clients are turned away for want of
/// descriptors, and many systems have a soft limit of 1,024 for the sake of programs that use `select`.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // With the lower limit there is room for fewer clients, and nothing else is lost.
        let _lower = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

/// Keeps a descriptor in reserve.
#[derive(Debug)]
pub(crate) struct DescriptorReserve {
    /// Holds a descriptor whose release makes room for an order, both in the process and in the system.
    reserve: Option<OwnedFd>,
}

impl DescriptorReserve {
    /// Takes a descriptor in reserve.
    pub(crate) fn new() -> Self {
        let mut descriptors = Self { reserve: None };
        descriptors.refill();
        descriptors
    }

    /// Gives up the descriptor in reserve; false if that was done before.
    pub(crate) fn give_up_reserve(&mut self) -> bool {
        self.reserve.take().is_some()
    }

    /// Takes a descriptor in reserve again, if there is none and one is free.
    pub(crate) fn refill(&mut self) {
        if self.reserve.is_none() {
            // Any descriptor does; an event counter needs no file system and cannot block.
            self.reserve = eventfd(0, EventfdFlags::CLOEXEC).ok();
        }
    }

    /// Returns true if a client with this descriptor, which is the newest, leaves enough of them and the one in reserve.
    pub(crate) fn has_room_beside_client(&mut self, newest: impl AsFd) -> bool {
        self.refill();
        self.reserve.is_some() && has_room(newest, kept_from_clients)
    }

    /// Returns how many clients more there is room for; none if there is no limit.
    pub(crate) fn room_for_clients() -> Option<u64> {
        let limit = getrlimit(Resource::Nofile).current?;
        let next = eventfd(0, EventfdFlags::CLOEXEC).map_or(limit, |next| taken_below(&next));
        Some(limit.saturating_sub(kept_from_clients(limit)).saturating_sub(next))
    }

    /// Returns true if whoever gives orders by this descriptor, which is the newest, leaves enough of them.
    pub(crate) fn has_room_beside_order(&self, newest: impl AsFd) -> bool {
        self.reserve.is_some() && has_room(newest, |_| FOR_FILES)
    }
}

/// Returns true if beside the newest descriptor as many are free as `kept` asks for, given the limit. The limit is
/// asked for each time, since it can be changed from outside.
fn has_room(newest: impl AsFd, kept: impl Fn(u64) -> u64) -> bool {
    // Asked for each time: `prlimit` can change it while the service runs.
    let Some(limit) = getrlimit(Resource::Nofile).current else { return true };
    taken_below(newest) + 1 + kept(limit) <= limit
}

/// Returns how many descriptors clients leave, given the limit.
fn kept_from_clients(limit: u64) -> u64 {
    (limit / 8).clamp(KEPT.0, KEPT.1)
}

/// Returns how many descriptors are taken beside the newest: the system gives the lowest free number.
fn taken_below(newest: impl AsFd) -> u64 {
    // The kernel hands out the lowest free number, so the newest number bounds how many are in use.
    u64::try_from(newest.as_fd().as_raw_fd()).unwrap_or_default()
}
