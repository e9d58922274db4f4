//! Reports the state of an executor and its devices.

use std::io;

use destage_plan::{Controller, Dev, DevSet, Engine, Status};

use super::device::DeviceTraffic;
use super::executor::FileExecutor;
use crate::files::config::{FilesConfig, IoBackend};
use crate::files::error::FilesError;
use crate::files::nvram::store::StateTraffic;
use crate::files::open::opened::{ArrayResync, DamagedIntents, DamagedNvram};

impl<C: Controller> FileExecutor<C> {
    /// Returns true if a device answers.
    pub fn answers(&self, dev: Dev) -> bool {
        self.devices.get(dev.index()).is_some_and(|device| !device.failed)
    }

    /// Returns true if a device has a file that will be its own at the next start. It answers, and if the file
    /// took another's place, the loss of that one's content is noted durably.
    pub fn is_named(&self, dev: Dev) -> bool {
        self.answers(dev) && !self.standing_in.contains(dev)
    }

    /// Members that a start without the NVRAM or the intents would have to fill from the beginning: the marks may say
    /// for a while that they are lost or not filled when they no longer are.
    pub fn marked_unfilled(&self) -> DevSet {
        self.marks.unfilled()
    }

    /// Returns the first error of each device that does not answer, since it was opened or replaced.
    pub fn errors(&self) -> impl Iterator<Item = (Dev, &FilesError)> {
        let devices = self.devices.iter().zip(0..);
        devices.filter_map(|(device, dev)| device.error.as_ref().map(|error| (Dev(dev), error)))
    }

    /// Returns the phase of this life.
    pub fn status(&self) -> Status {
        self.engine.status()
    }

    /// Requests that were not answered.
    pub const fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Bytes that were copied in this life on their way between host, devices and NVRAM, for want
    /// of a buffer that could be handed on.
    pub const fn copied(&self) -> u64 {
        self.bytes.copied()
    }

    /// The engine, for its counters and the controller.
    pub const fn engine(&self) -> &Engine<C> {
        &self.engine
    }

    /// The files as they are now: replacements are among them.
    pub const fn config(&self) -> &FilesConfig {
        &self.config
    }

    /// Returns what was made anew at the start because it was lost.
    pub const fn resynchronised(&self) -> Option<&ArrayResync> {
        self.resynchronised.as_ref()
    }

    /// Returns what of the intents was found to be damaged at the start.
    pub const fn damaged_intents(&self) -> Option<&DamagedIntents> {
        self.damaged.as_ref()
    }

    /// Returns what of the NVRAM was found to be damaged at the start.
    pub const fn damaged_nvram(&self) -> Option<&DamagedNvram> {
        self.damaged_nvram.as_ref()
    }

    /// Returns the members whose lists of bad pages were found to be damaged at the start: they count as empty.
    pub const fn damaged_lists(&self) -> DevSet {
        self.damaged_lists
    }

    /// Returns true if nothing is in flight: no request, and nothing that the controller does on its own.
    pub fn is_idle(&self) -> bool {
        !self.is_busy() && self.engine.is_idle()
    }

    /// Returns true if every commit that the controller counts as done is durable. If not, it will be soon
    /// after a member's loss or filling was noted, and within a second.
    pub const fn is_durable(&self) -> bool {
        !self.group_commit.is_open()
    }

    /// Returns the I/O backend in use; never [`IoBackend::Auto`].
    pub const fn io(&self) -> IoBackend {
        if self.ring.is_some() { IoBackend::Ring } else { IoBackend::Threads }
    }

    /// Returns the error for which there is no ring, if one would have been taken.
    pub const fn no_ring(&self) -> Option<&io::Error> {
        self.no_ring.as_ref()
    }

    /// Devices that were to be read and written directly and are not, and why.
    pub fn buffered(&self) -> impl Iterator<Item = (Dev, &io::Error)> {
        let devices = self.devices.iter().zip(0..);
        devices.filter_map(|(device, dev)| Some((Dev(dev), device.direct.as_ref()?.as_ref().err()?)))
    }

    /// Returns true if a device's file is read and written past the page cache.
    pub fn is_direct(&self, dev: Dev) -> bool {
        self.devices.get(dev.index()).is_some_and(|device| matches!(device.direct, Some(Ok(_))))
    }

    /// Returns why the files of the NVRAM and of the intents go through the page cache, if they were not to.
    pub fn buffered_state(&self) -> [Option<&io::Error>; 2] {
        self.buffered_state.each_ref().map(Option::as_ref)
    }

    /// Returns what each device was asked for in this life.
    pub fn traffic(&self) -> impl Iterator<Item = DeviceTraffic> {
        self.devices.iter().map(|device| device.traffic)
    }

    /// Bytes of buffers that are kept beside those of requests: as many as were needed of late.
    pub fn kept_bytes(&self) -> usize {
        self.bytes.kept()
    }

    /// Returns what the file of the NVRAM and that of the intents were asked for in this life.
    pub fn state_traffic(&self) -> [StateTraffic; 2] {
        [self.accounts[0].traffic(), self.accounts[1].traffic()]
    }
}
