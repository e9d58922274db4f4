//! Watches for commands that take too long.
//!
//! A device with such a command is failed as by an error, if nothing is lost with it ([`Controller::can_spare`]), and what
//! it has in flight is abandoned. Otherwise it is kept, since it may answer later, and requests that wait as long fail.
//! Buffers of abandoned commands stay with the backend until the operating system has done with them.

use std::time::Duration;

use destage_plan::{Controller, Dev, DevSet, Issue, Nanos};

use super::executor::FileExecutor;
use super::nvram_move::MoveReason;
use super::request::RequestCompletion;
use super::watch::{InFlight, StoredChange};
use crate::buffer::AlignedBuffer;
use crate::files::error::FilesError;

/// Sets how often a device that hangs is looked at, and the requests that wait meanwhile.
// Once a second suffices: nobody waits for it, and each look walks over all
// requests.
const LOOK: Nanos = Nanos(1_000_000_000);

/// Bounds the bytes of requests that have failed while their steps are in flight. With more, new requests fail at once.
// Buffers of failed requests stay with their commands, so the bytes are bounded and
// not just their number.
const MAX_EXPIRED_BYTES: u64 = 64 << 20;

impl<C: Controller> FileExecutor<C> {
    /// Notes that a device is given a command now.
    pub(super) fn note_sent(&mut self, dev: Dev, issue: Option<Issue>) {
        let since = self.now();
        self.devices[dev.index()].under_way.push_back(InFlight { issue, since });
        self.watch(since);
    }

    /// Notes that the store is given a change now.
    pub(super) fn note_stored(&mut self, issue: Option<Issue>) {
        let since = self.now();
        self.store_under_way.push_back(StoredChange { issue, since });
        self.watch(since);
    }

    /// Notes that the oldest change of the store has ended.
    pub(super) fn note_store_moved(&mut self) {
        self.store_under_way.pop_front();
        self.store_moved = self.now();
    }

    pub(super) fn watch(&mut self, since: Nanos) {
        // One timer for all commands: it is set when the first goes out and set
        // anew only when it goes off.
        if self.timeout.next.is_none() {
            self.timeout.next = self.limit().map(|limit| since + limit);
        }
    }

    /// Returns how long a command may take.
    fn limit(&self) -> Option<Nanos> {
        // When the executor is to end, nothing may wait for ever, even where
        // commands usually may.
        let limit = self.config.device_timeout.or_else(|| self.timeout.is_ending.then_some(self.config.patience))?;
        Some(Nanos(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX / 2)))
    }

    /// Returns when to look next.
    pub(super) fn next_look(&self) -> Option<Nanos> {
        self.timeout.next.filter(|_| self.is_busy())
    }

    /// Has nothing wait without a limit any more, since the executor is to end. If commands may take as long as they
    /// take otherwise, requests that wait for longer than [`FilesConfig::patience`](crate::FilesConfig::patience) fail from
    /// now on, and no device does.
    pub fn begin_end(&mut self) {
        self.timeout.is_ending = true;
        self.timeout.next = Some(self.now());
    }

    /// Returns for how long the oldest command of a device is in flight, if there is one and the device answers otherwise.
    pub fn waits_for(&self, dev: Dev) -> Option<Duration> {
        let device = self.devices.get(dev.index()).filter(|device| !device.failed)?;
        device.oldest().map(|since| Duration::from_nanos(self.now().since(since).0))
    }

    /// Returns for how long the file of the NVRAM, and that of the intents, has had no answer, if it is asked for one.
    pub fn waits_for_store(&self) -> [Option<Duration>; 2] {
        let waits = self.store_since().map(|since| Duration::from_nanos(self.now().since(since).0));
        // The store has two files and one thread; it tells which of them it is at
        // work on.
        if self.accounts[1].is_at_work() { [None, waits] } else { [waits, None] }
    }

    /// Returns the devices of which a command takes longer than it may, and without which data would be lost.
    pub fn hanging(&self) -> DevSet {
        let devices = self.devices.iter().zip(0..);
        devices.filter(|(device, _)| device.hangs).map(|(_, dev)| Dev(dev)).collect()
    }

    /// Returns since when the store is at work on the oldest change. One after the other is made: what waits behind others
    /// has not begun.
    fn store_since(&self) -> Option<Nanos> {
        self.store_under_way.front().map(|change| change.since.max(self.store_moved))
    }

    /// Fails what takes longer than it may. Results have been taken in before.
    pub(super) fn check_timeouts(&mut self) -> Result<(), FilesError> {
        let now = self.now();
        if self.timeout.next.is_none_or(|next| now < next) {
            return Ok(());
        }
        let Some(limit) = self.limit() else { return Ok(()) };
        let is_late = |since: Nanos| now.since(since) >= limit;
        if self.store_since().is_some_and(is_late) {
            let path = if self.accounts[1].is_at_work() { &self.config.intents } else { self.config.nvram_path() };
            let error = FilesError::NoAnswer { path: path.to_owned(), limit: Duration::from_nanos(limit.0) };
            // Only a store that hangs over the NVRAM can be helped by moving it.
            let is_at_home = self.config.device_timeout.is_some() && self.config.spare().is_some();
            if !is_at_home || self.accounts[1].is_at_work() {
                self.timeout.is_over = true;
                return Err(self.stop(error));
            }
            self.leave_home(MoveReason::Hangs, error)?;
            if self.abandon_store() {
                // What it has done until then counts.
                self.take_store_results()?;
            }
        }
        for dev in (0..self.devices.len()).map(|dev| Dev(dev as u8)) {
            if self.devices[dev.index()].successor.as_ref().and_then(|one| one.oldest()).is_some_and(is_late) {
                self.time_out_successor(dev, Duration::from_nanos(limit.0))?;
            }
            if self.devices[dev.index()].oldest().is_some_and(is_late) {
                self.time_out(dev, limit)?;
            } else {
                self.devices[dev.index()].hangs = false;
            }
        }
        let hangs = self.devices.iter().any(|device| device.hangs);
        // Requests fail only while a device without which data would be lost hangs:
        // everything else has been failed already.
        if hangs {
            self.expire_requests(now, limit);
        }
        let devices = self.devices.iter().filter(|device| !device.hangs).filter_map(super::device::FileDevice::oldest);
        let successors = self.devices.iter().filter_map(|device| device.successor.as_ref()?.oldest());
        let due = devices.chain(successors).chain(self.store_since()).min().map(|oldest| oldest + limit);
        self.timeout.next = due.into_iter().chain(hangs.then(|| now + LOOK)).min();
        Ok(())
    }

    /// Gives up a device, unless data would be lost without it.
    fn time_out(&mut self, dev: Dev, limit: Nanos) -> Result<(), FilesError> {
        // The results of a failed device are not waited for any longer.
        if self.devices[dev.index()].failed {
            return self.leave_device(dev);
        }
        let path = self.config.devices[dev.index()].path.clone();
        let error = FilesError::NoAnswer { path, limit: Duration::from_nanos(limit.0) };
        let is_home = self.config.home() == Some(dev.index());
        // The NVRAM cannot move, and steps that need it would wait for ever.
        if is_home && self.config.device_timeout.is_some() && self.config.spare().is_none() {
            self.devices[dev.index()].hangs = true;
            return Err(self.stop(error));
        }
        // The device stays: without it data would be lost, and it may answer later.
        if self.config.device_timeout.is_none() || !self.engine.controller().can_spare(dev) {
            self.devices[dev.index()].hangs = true;
            return Ok(());
        }
        if is_home {
            return self.leave_home(MoveReason::Hangs, error);
        }
        self.devices[dev.index()].error.get_or_insert(error);
        self.fail(dev)?;
        self.leave_device(dev)
    }

    /// Answers requests with an error that wait for longer than a device may take. Their steps are in flight all the same.
    fn expire_requests(&mut self, now: Nanos, limit: Nanos) {
        let late =
            |request: &&mut super::request::InFlightRequest| !request.is_expired && now.since(request.since) >= limit;
        // Only answered: their steps go on, and their buffers stay in use until
        // these have ended.
        for request in self.requests.iter_mut().flatten().filter(late) {
            request.is_expired = true;
            self.timeout.expired += 1;
            self.timeout.expired_bytes += request.bytes;
            self.unanswered -= 1;
            self.completions.push_back(RequestCompletion { tag: request.tag, ok: false, bytes: AlignedBuffer::new() });
        }
    }

    /// Forgets a request that has failed before its steps ended.
    pub(super) const fn forget_expired(&mut self, bytes: u64) {
        self.timeout.expired -= 1;
        self.timeout.expired_bytes -= bytes;
    }

    /// Returns true if so many requests have failed before their steps ended that no other is taken.
    pub(super) const fn is_full_of_expired(&self) -> bool {
        self.timeout.expired >= self.config.depth || self.timeout.expired_bytes >= MAX_EXPIRED_BYTES
    }
}
