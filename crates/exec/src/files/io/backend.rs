//! Who serves a device: threads of its own, or the main loop by the ring that all such devices share.
//!
//! One ring for all, since what a request begins on several devices, as a write to a RAID-5 does, goes to the kernel in one call
//! then. A device that hangs keeps nothing of it but its own operations: they are the kernel's, and their bytes and
//! file stay with the ring.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::file::OsFile;
use super::port::Bell;
use super::real::Wake;
use super::ring::{Ended, Entries, Ring};
use super::threads::device::{Command, DeviceFile, Done};
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

/// The ring of all devices that have no threads.
pub(crate) struct Wheel {
    ring: Box<dyn Ring>,
    /// What the ring had no room for.
    outgoing: Entries,
    /// Files that were given to it in this life.
    lives: u32,
    /// Where threads of the NVRAM ring while the main loop waits for the ring.
    wake: Arc<Wake>,
}

impl Wheel {
    /// Around a ring; `bell` wakes it.
    pub(crate) fn new(ring: Box<dyn Ring>, bell: &Bell) -> io::Result<Self> {
        let wake = Arc::new(Wake::new()?);
        let rung = Arc::clone(&wake);
        bell.wake_also_with(Box::new(move || rung.wake()));
        Ok(Self { ring, outgoing: Entries::new(), lives: 0, wake })
    }

    /// A number for the next file that is given to it.
    pub(crate) const fn next_life(&mut self) -> u32 {
        self.lives += 1;
        self.lives
    }

    /// The ring.
    pub(crate) fn ring(&self) -> &dyn Ring {
        &*self.ring
    }

    /// Without threads: an operation goes on.
    pub(crate) fn turn(&mut self, choose: &dyn Fn(usize) -> usize) {
        self.ring.turn(choose);
    }

    /// What is given to the ring next.
    pub(crate) const fn outgoing(&mut self) -> &mut Entries {
        &mut self.outgoing
    }

    /// Gives it all that there is for it, in one call.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        if self.outgoing.is_empty() && !self.ring.is_behind() { Ok(()) } else { self.ring.submit(&mut self.outgoing) }
    }

    /// Whether something is to be given to it.
    pub(crate) fn is_behind(&self) -> bool {
        !self.outgoing.is_empty() || self.ring.is_behind()
    }

    /// Appends what has ended.
    pub(crate) fn reap(&mut self, into: &mut VecDeque<Ended>) {
        self.ring.reap(into);
    }

    /// Waits until something has ended, or the bell rings or rang since it was heard last; at most as long as `limit`, if
    /// there is one.
    pub(crate) fn wait(&self, bell: &Bell, limit: Option<Duration>) {
        if bell.hear() {
            return;
        }
        // Woken for nothing, it returns early; the caller looks and waits again.
        self.wake.wait(self.ring.descriptor(), limit);
        bell.hear();
    }

    /// Waits until nothing is under way, but not beyond `until`. What is left is left to a thread that does nothing but
    /// hold the bytes, the files, and what it is given to `keep`, until the kernel has done with them.
    pub(crate) fn end(mut self, bell: &Bell, until: Instant, keep: &Arc<dyn OsFile>) {
        self.outgoing.clear();
        if self.ring.descriptor().is_none() {
            // What was not done never happens.
            return;
        }
        let mut ended = VecDeque::new();
        loop {
            self.reap(&mut ended);
            ended.clear();
            let left = until.saturating_duration_since(Instant::now());
            if self.ring.under_way() == 0 {
                return;
            }
            if left.is_zero() {
                break;
            }
            self.wait(bell, Some(left));
        }
        let keep = Arc::clone(keep);
        let left = Arc::new(std::sync::Mutex::new(Some((self, keep))));
        let held = Arc::clone(&left);
        let thread = Builder::new().name("destage-left".to_owned()).spawn(move || {
            let left = held.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
            let Some((mut wheel, keep)) = left else { return };
            let bell = Bell::default();
            let mut ended = VecDeque::new();
            while wheel.ring.under_way() > 0 {
                wheel.wait(&bell, None);
                wheel.reap(&mut ended);
                ended.clear();
            }
            drop((wheel, keep));
        });
        if thread.is_err() {
            // Nobody can wait for them: they are held until the process ends.
            std::mem::forget(left);
        }
    }
}
