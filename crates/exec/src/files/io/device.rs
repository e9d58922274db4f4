//! Who serves a device: threads of its own, or the main loop by the ring that all such devices share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::command::{Command, Done};
use super::file::OsFile;
use super::ring::Entries;
use super::threads::device::DeviceFile;
use super::threads::pool::Lane;
use super::uring::device::Pilot;

/// Who serves a device.
pub(crate) enum Serves {
    Threads(Lane<DeviceFile>),
    Ring(Pilot),
}

impl Serves {
    /// Whether another command may be sent.
    pub(crate) const fn has_room(&self) -> bool {
        match self {
            Self::Threads(lane) => lane.has_room(),
            Self::Ring(pilot) => pilot.has_room(),
        }
    }

    /// Whether commands are without a result.
    pub(crate) const fn is_busy(&self) -> bool {
        match self {
            Self::Threads(lane) => lane.is_busy(),
            Self::Ring(pilot) => pilot.is_busy(),
        }
    }

    /// Whether there is surely no result. Threads are not asked, since that would cost as much as asking for the results.
    pub(crate) fn is_silent(&self) -> bool {
        match self {
            Self::Threads(lane) => !lane.is_busy(),
            Self::Ring(pilot) => !pilot.has_results(),
        }
    }

    /// Gives it a command.
    pub(crate) fn send(&mut self, command: Command) {
        match self {
            Self::Threads(lane) => lane.send(command),
            Self::Ring(pilot) => pilot.send(command),
        }
    }

    /// How long no result has come though commands are under way.
    pub(crate) fn stuck(&self) -> Duration {
        match self {
            Self::Threads(lane) => lane.stuck(),
            Self::Ring(pilot) => pilot.stuck(),
        }
    }

    /// Without threads: workers that could go on in a [`turn`](Self::turn) now.
    pub(crate) fn ready(&self) -> usize {
        match self {
            Self::Threads(lane) => lane.ready(),
            Self::Ring(_) => 0,
        }
    }

    /// Without threads: one of the workers that are ready goes on a little.
    pub(crate) fn turn(&mut self, choose: impl Fn(usize) -> usize) {
        if let Self::Threads(lane) = self {
            lane.turn(choose);
        }
    }

    /// Appends the results that there are.
    ///
    /// # Panics
    /// As a thread did, if one did.
    pub(crate) fn results(&mut self, into: &mut VecDeque<Done>) {
        match self {
            Self::Threads(lane) => lane.results(into),
            Self::Ring(pilot) => pilot.results(into),
        }
    }

    /// Has it begin nothing more; the commands of which nothing was begun.
    pub(crate) fn close(&mut self) -> VecDeque<Command> {
        match self {
            Self::Threads(lane) => lane.close(),
            Self::Ring(pilot) => pilot.close(),
        }
    }

    /// Closes it and waits for the end of its threads, but not beyond `until`: see [`Lane::end`]. What a ring has
    /// under way ends with the ring.
    pub(crate) fn end(&mut self, until: Instant, keep: Option<&Arc<dyn OsFile>>) {
        match self {
            Self::Threads(lane) => lane.end(until, keep),
            Self::Ring(pilot) => drop(pilot.close()),
        }
    }

    /// The pilot, if it is one for this file of the device.
    pub(crate) fn pilot(&mut self, life: u32) -> Option<&mut Pilot> {
        match self {
            Self::Ring(pilot) => Some(pilot).filter(|pilot| pilot.life() == life),
            Self::Threads(_) => None,
        }
    }

    /// Whether the main loop has something to do for it that no bell tells of.
    pub(crate) fn stirs(&self) -> bool {
        matches!(self, Self::Ring(pilot) if pilot.stirs())
    }

    /// What is to be given to the ring.
    pub(crate) const fn outgoing(&mut self) -> Option<&mut Entries> {
        match self {
            Self::Ring(pilot) => Some(pilot.outgoing()),
            Self::Threads(_) => None,
        }
    }
}
