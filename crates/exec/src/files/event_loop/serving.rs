//! For a main loop that waits for other things too, such as sockets: what a call would wait for is asked
//! for here and looked at later.

use std::io;
use std::time::Duration;

use destage_plan::{Control, Controller, Dev};
use rustix::fd::BorrowedFd;

use super::executor::Files;
use crate::files::config::Io;
use crate::files::error::FilesError;
use crate::files::nvram::store::StateTraffic;

/// What a device was asked for in this life, as far as it was sent there. A list of buffers that goes
/// there in one command is one write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Commands that read.
    pub reads: u64,
    /// Commands that write.
    pub writes: u64,
    /// Of these, durable when they are done.
    pub fua: u64,
    /// Commands that trim.
    pub trims: u64,
    /// Commands that make durable.
    pub flushes: u64,
    /// Writes of marks, which are none of the above.
    pub marks: u64,
    /// Their bytes.
    pub mark_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl<C: Controller> Files<C> {
    /// Has `waker` called, from any thread, when something has happened since the bell was last
    /// [heard](Self::hear): then [`poll`](Self::poll) has something to do.
    pub fn wake_with(&self, waker: impl Fn() + Send + Sync + 'static) {
        self.bell.wake_with(Box::new(waker));
    }

    /// Whether something has happened since this was asked last. Who is told no may wait for the waker, or
    /// for the [next timer](Self::until_timer).
    pub fn hear(&self) -> bool {
        self.bell.hear() || self.stirs()
    }

    /// What is readable, too, when something has happened: a main loop that waits elsewhere waits for this as well
    /// as for the waker. None if all is told by the waker.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.wheel.as_ref().and_then(|wheel| wheel.ring().descriptor())
    }

    /// Who asks the operating system for what devices do; never [`Io::Auto`].
    pub const fn io(&self) -> Io {
        if self.wheel.is_some() { Io::Ring } else { Io::Threads }
    }

    /// Devices that were to be read and written directly and are not, and why.
    pub fn buffered(&self) -> impl Iterator<Item = (Dev, &io::Error)> {
        let devices = self.devices.iter().zip(0..);
        devices.filter_map(|(device, dev)| Some((Dev(dev), device.direct.as_ref()?.as_ref().err()?)))
    }

    /// Whether a device's file is read and written past the memory of the operating system.
    pub fn is_direct(&self, dev: Dev) -> bool {
        self.devices.get(dev.index()).is_some_and(|device| matches!(device.direct, Some(Ok(_))))
    }

    /// Why there is no ring, if one would have been taken.
    pub const fn no_ring(&self) -> Option<&io::Error> {
        self.no_ring.as_ref()
    }

    /// How long it is until something is due by time alone; nothing is if there is none.
    pub fn until_timer(&self) -> Option<Duration> {
        self.next_timer().map(|at| Duration::from_nanos(at.since(self.now()).0))
    }

    /// Begins what [`drain`](Self::drain) waits for.
    ///
    /// # Errors
    /// If the executor has stopped, or does now.
    pub fn begin_drain(&mut self) -> Result<(), FilesError> {
        self.check()?;
        self.draining = true;
        let now = self.now();
        self.engine.control(now, Control::Drain);
        self.go_on()
    }

    /// Whether a drain that was begun is under way.
    pub const fn is_draining(&self) -> bool {
        self.draining
    }

    /// What each device was asked for in this life.
    pub fn traffic(&self) -> impl Iterator<Item = Traffic> {
        self.devices.iter().map(|device| device.traffic)
    }

    /// What the file of the NVRAM and that of the intents were asked for in this life.
    pub fn state_traffic(&self) -> [StateTraffic; 2] {
        [self.accounts[0].traffic(), self.accounts[1].traffic()]
    }
}
