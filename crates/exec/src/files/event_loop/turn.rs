//! One turn of the main loop: results are taken in, steps that may begin are handed out, and between turns it waits.

use std::time::Duration;

use destage_plan::{Controller, Nanos, Status};

use super::clock::LoopClock;
use super::device::FileDevice;
use super::executor::FileExecutor;
use crate::files::error::FilesError;
use crate::files::io::backend::CommandBackend;
use crate::files::io::device::DeviceBackend;
use crate::files::io::uring::shared::SharedRing;

impl<C: Controller> FileExecutor<C> {
    /// Takes in what threads have done and lets timers go off; does not wait.
    pub(super) fn advance(&mut self) -> Result<(), FilesError> {
        self.check()?;
        self.take_in()?;
        // One system call for all that this turn has begun, reads of several
        // members among it.
        self.submit_all()?;
        // What is in the system's memory has been done at once.
        if self.ring.as_ref().is_some_and(|ring| ring.inner().under_way() > 0) {
            self.take_in()?;
            self.submit_all()?;
        }
        Ok(())
    }

    /// Gives the ring all that was begun for it, neighbours merged, in one call.
    fn submit_all(&mut self) -> Result<(), FilesError> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        for device in &mut self.devices {
            if let Some(backend) = &mut device.backend {
                // Neighbours are merged as they leave, below the plans, as the
                // block layer does behind a plug.
                let [merged, again] = backend.hand_over(ring);
                device.traffic.note_merges(merged, again);
            }
            if let Some(successor) = &mut device.successor {
                successor.backend.hand_over(ring);
            }
        }
        ring.submit().map_err(|error| self.stop(FilesError::Ring(error)))
    }

    pub(super) fn is_busy(&self) -> bool {
        self.store.is_busy()
            || self.is_moving()
            || self.marks.is_busy()
            || self.bad_pages.is_busy()
            || self.devices.iter().any(|device| device.backends().any(DeviceBackend::is_busy))
    }

    /// Returns true if there is something for the ring, or for the main loop, that no wake-up tells.
    pub(super) fn stirs(&self) -> bool {
        // The ring has no room in the kernel; nothing tells when it has.
        self.ring.as_ref().is_some_and(SharedRing::is_behind)
            || self.devices.iter().any(|device| device.backends().any(DeviceBackend::stirs))
            || self.marks.can_begin()
            || self.next_bad_page_list().is_some()
    }

    /// Returns the time at which something is due by time alone.
    pub(super) fn next_timer(&self) -> Option<Nanos> {
        self.engine.next_timer().into_iter().chain(self.group_commit.due()).chain(self.next_look()).min()
    }

    /// Without threads: a backend that chance chooses goes on with some of its commands; if there is
    /// none, it becomes the time of the next timer. Whether something happened.
    pub(super) fn turn(&mut self) -> bool {
        if self.stirs() {
            return false;
        }
        if !matches!(self.clock, LoopClock::Virtual(_)) {
            return false;
        }
        let next = self.next_timer();
        let LoopClock::Virtual(now) = &mut self.clock else { return false };
        let devices = self.devices.iter().flat_map(FileDevice::backends).filter(|backend| backend.ready() > 0).count();
        let store = self.store.ready();
        let waiting = self.ring.as_ref().map_or(0, |ring| ring.inner().ready());
        // Nothing can happen but by time, so time jumps to the next timer: waiting
        // costs a test nothing.
        if devices == 0 && store == 0 && waiting == 0 {
            *now = next.map_or(*now, |next| next.max(*now));
            return next.is_some();
        }
        // A microsecond a command, so that time passes and timers go off among
        // commands.
        *now += Nanos(1_000);
        // Chance chooses who goes on, so any order of completion can come in some
        // seed.
        let chosen = self.os.choose(devices + usize::from(store > 0) + usize::from(waiting > 0));
        let choose = |among| self.os.choose(among);
        if let Some(ring) = self.ring.as_mut().filter(|_| waiting > 0 && chosen == devices) {
            for _ in 0..=choose(waiting) {
                ring.turn(&choose);
            }
            return true;
        }
        let mut backends =
            self.devices.iter_mut().flat_map(FileDevice::backends_mut).filter(|backend| backend.ready() > 0);
        match backends.nth(chosen) {
            // Threads, too, are ahead of the main loop by more than one operation.
            Some(backend) => {
                for _ in 0..=choose(2 * backend.ready()) {
                    backend.turn(choose);
                }
            }
            _ => self.store.turn(choose),
        }
        true
    }

    /// Waits until a thread has something to say or a timer is due, or as long as `most`.
    pub(super) fn rest(&mut self, most: Option<Duration>) -> Result<(), FilesError> {
        if let Status::Refused(why) = self.engine.status() {
            return Err(self.stop(FilesError::Refused(Box::new(why))));
        }
        // Without threads nobody else makes things happen, so the turn is the wait.
        if self.turn() || self.os.is_in_line() && self.stirs() {
            return Ok(());
        }
        let limit = self.next_timer().map(|at| Duration::from_nanos(at.since(self.now()).0));
        // Nothing is in flight and nothing is due: waiting would never end. It is a
        // bug of the controller, so the error says what is open.
        if limit.is_none() && (!self.is_busy() || self.os.is_in_line()) {
            let what = format!("{:?}", self.engine.out());
            return Err(self.stop(FilesError::Stalled(what)));
        }
        self.pause(limit.into_iter().chain(most).min());
        Ok(())
    }

    /// Waits until a thread or the ring has something to say, or as long as `most`.
    pub(super) fn pause(&self, most: Option<Duration>) {
        match &self.ring {
            None => self.wakeup.wait(most),
            // The system had no room for it, and does not say when it has.
            Some(ring) if self.stirs() => ring.wait(&self.wakeup, Some(Duration::from_millis(1))),
            Some(ring) => ring.wait(&self.wakeup, most),
        }
    }

    /// Waits until this is so, or a device or the NVRAM hangs.
    pub(super) fn until(&mut self, done: impl Fn(&Self) -> bool) -> Result<(), FilesError> {
        let patience = self.config.patience.max(self.config.device_timeout.unwrap_or_default());
        self.advance()?;
        while !done(self) {
            self.rest(Some(patience))?;
            self.advance()?;
            // Each round looks at all devices, since any of them may hang while
            // others answer.
            let mut stuck = self.devices.iter().zip(&self.config.devices).map(|(device, config)| {
                (device.backend.as_ref().map_or(Duration::ZERO, DeviceBackend::stuck), &config.path)
            });
            let hangs = stuck.find(|(stuck, _)| *stuck >= patience).map(|(_, path)| path.clone());
            let hangs = hangs.or_else(|| (self.store.stuck() >= patience).then(|| self.config.nvram_path().to_owned()));
            let given_up = self.hanging().lowest().map(|dev| self.config.devices[dev.index()].path.clone());
            if let Some(path) = hangs.or(given_up) {
                return Err(self.stop(FilesError::Hangs(path)));
            }
        }
        Ok(())
    }
}
