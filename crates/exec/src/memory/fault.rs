//! What goes wrong in memory because the caller wants it to: devices that fail and are replaced, and
//! the power that is cut.

use std::collections::VecDeque;

use destage_plan::{BadPage, Controller, Dev, DeviceChange, StepOutcome};

use super::conduct::ExecutorConduct;
use super::executor::MemoryExecutor;
use super::settings::CrashRemains;
use crate::device::{CutChoice, DiskImage, MemoryDevice, ReplacementContent};

impl<C: Controller> MemoryExecutor<C> {
    /// A device answers no more. What it had not flushed is lost or not, as `choice` says. The
    /// controller is told by [`announce`](Self::announce), or when a step on it fails first, or
    /// when nothing else is left to do.
    pub fn fail(&mut self, dev: Dev, choice: &mut impl CutChoice) {
        if !self.devices[dev.index()].answers() {
            return;
        }
        self.note(|| format!("{dev} fails"));
        let image = self.cut_device(dev, choice).image;
        self.devices[dev.index()].fail(image);
        let held = self.pending.held.iter_mut().map(|(_, entry)| entry);
        for entry in self.in_flight.iter_mut().chain(held).filter(|entry| entry.step.dev() == Some(dev)) {
            entry.lost = true;
        }
        self.unannounced.insert(dev);
    }

    /// Makes a page unreadable until it is written; for ever if it is `broken`. The controller hears of it when it reads the
    /// page.
    pub fn spoil(&mut self, page: BadPage, broken: bool) {
        self.note(|| format!("{} cannot read page {}", page.dev, page.page));
        self.devices[page.dev.index()].spoil(page.page, broken);
    }

    /// Makes a page readable again, with its content.
    pub fn recall(&mut self, page: BadPage) {
        self.note(|| format!("{} can read page {} again", page.dev, page.page));
        self.devices[page.dev.index()].recall(page.page);
    }

    /// Flips a bit of a page, by its number, that was written and flushed, and has none flipped so far. Returns true if it
    /// did. Nobody hears of it.
    pub fn rot(&mut self, page: BadPage, bit: u32) -> bool {
        let rots = self.devices[page.dev.index()].rot(page.page, bit);
        if rots {
            self.note(|| format!("{} has bit {bit} of page {} flipped", page.dev, page.page));
        }
        rots
    }

    /// Flips all bits back that are flipped.
    pub fn heal(&mut self) {
        self.devices.iter_mut().for_each(MemoryDevice::heal);
    }

    /// Returns the pages that devices cannot read.
    pub fn unreadable(&self) -> impl Iterator<Item = BadPage> {
        let devices = (0..).map(Dev).zip(&self.devices);
        devices.flat_map(|(dev, device)| device.unreadable().iter().map(move |page| BadPage { dev, page: *page }))
    }

    /// Tells the controller of a device that failed, unless it knows.
    pub fn announce(&mut self, dev: Dev) {
        if self.unannounced.contains(dev) {
            self.unannounced.remove(dev);
            self.note(|| format!("{dev} is told to have failed"));
            self.engine.device(self.now, dev, DeviceChange::Failed);
            self.take_issues();
        }
    }

    /// Tells the controller of all devices that failed.
    pub fn announce_all(&mut self) {
        while let Some(dev) = self.unannounced.lowest() {
            self.announce(dev);
        }
    }

    /// Something stands in the place of a device that failed, or of one that the controller holds
    /// for lost; the controller is told, as soon as every step that was meant for the earlier
    /// device has failed: it could not tell whose failure it hears of.
    pub fn replace(&mut self, dev: Dev, content: ReplacementContent) {
        self.announce(dev);
        let held = std::mem::take(&mut self.pending.held);
        let (meant, others): (VecDeque<_>, VecDeque<_>) =
            held.into_iter().partition(|(_, entry)| entry.step.dev() == Some(dev));
        self.pending.held = others;
        self.in_flight.extend(meant.into_iter().map(|(_, entry)| entry));
        while let Some(at) = self.in_flight.iter().position(|entry| entry.step.dev() == Some(dev)) {
            let entry = self.in_flight.remove(at);
            self.steps += 1;
            self.note(|| format!("{:?}.{} {:?}: failed", entry.issue.op, entry.issue.step, entry.step));
            if entry.early.is_none() {
                self.engine.complete(self.now, entry.issue, StepOutcome::Failed(dev));
                self.take_issues();
            }
        }
        self.note(|| format!("{dev} is replaced: {content:?}"));
        self.devices[dev.index()].replace(content);
        self.engine.device(self.now, dev, DeviceChange::Replaced);
        self.take_issues();
    }

    fn cut_device(&self, dev: Dev, choice: &mut impl CutChoice) -> DiskImage {
        let honest = self.in_flight.iter().filter(|entry| !entry.lost && entry.conduct != ExecutorConduct::Omit);
        let writes = honest.filter_map(|entry| {
            let ext = entry.step.changes().filter(|ext| ext.dev() == dev)?;
            Some((ext, entry.early.as_deref().map_or_else(|| self.written(entry), |bytes| Some((**bytes).into()))))
        });
        let writes: Vec<_> = writes.collect();
        let writes = writes.iter().map(|(ext, bytes)| (*ext, bytes.as_deref()));
        self.devices[dev.index()].cut(dev.index(), writes, choice)
    }

    /// What a loss of power at this moment would leave: any part of what was not flushed, or is
    /// being written, as `choice` says; and the NVRAM, to which the first steps that are done and not
    /// durable, or in flight, may or may not have come.
    pub fn cut(&self, choice: &mut impl CutChoice) -> CrashRemains {
        let disks = (0..self.devices.len()).map(|dev| self.cut_device(Dev(dev as u8), choice)).collect();
        let mut nvram = self.bytes.nvram().clone();
        // Of what is done and not durable, too, the first few are there.
        let open = self.pending.open();
        let through = choice.nvram(open + self.nv_queue.len());
        self.pending.newest_first().take(open.saturating_sub(through)).for_each(|undo| nvram.take_back(undo));
        for entry in self
            .nv_queue
            .iter()
            .take(through.saturating_sub(open))
            .filter(|entry| entry.conduct != ExecutorConduct::Omit)
        {
            self.bytes.nv_step(&self.engine, entry.issue, &mut nvram);
        }
        CrashRemains { disks, nvram }
    }
}
