//! Makes things go wrong in memory as the caller wants: devices fail and are replaced, and the power fails.

use std::collections::VecDeque;

use destage_plan::{BadPage, Controller, Dev, DeviceChange, StepOutcome};

use super::conduct::ExecutorConduct;
use super::executor::MemoryExecutor;
use super::settings::CrashRemains;
use crate::device::{CutChoice, DiskImage, MemoryDevice, ReplacementContent};

impl<C: Controller> MemoryExecutor<C> {
    /// Fails a device: it answers no more. Its writes that were not flushed are lost or not, as `choice` says.
    ///
    /// The controller learns it by [`announce`](Self::announce), or when a step on the device fails first, or
    /// when nothing else is left to do.
    pub fn fail(&mut self, dev: Dev, choice: &mut impl CutChoice) {
        if !self.devices[dev.index()].answers() {
            return;
        }
        self.note(|| format!("{dev} fails"));
        // The device loses its volatile cache too, so its content is decided now.
        let image = self.cut_device(dev, choice).image;
        self.devices[dev.index()].fail(image);
        let held = self.pending.held.iter_mut().map(|(_, entry)| entry);
        for entry in self.in_flight.iter_mut().chain(held).filter(|entry| entry.step.dev() == Some(dev)) {
            // These steps end later, in any order, and fail then.
            entry.lost = true;
        }
        self.unannounced.insert(dev);
    }

    /// Makes a page unreadable until it is written; for ever if it is `broken`. The controller learns it when
    /// it reads the page.
    pub fn spoil(&mut self, page: BadPage, broken: bool) {
        self.note(|| format!("{} cannot read page {}", page.dev, page.page));
        self.devices[page.dev.index()].spoil(page.page, broken);
    }

    /// Makes a page readable again, with its content.
    pub fn recall(&mut self, page: BadPage) {
        self.note(|| format!("{} can read page {} again", page.dev, page.page));
        self.devices[page.dev.index()].recall(page.page);
    }

    /// Flips a bit of a page, by its number, if the page was written and flushed and has none flipped so far.
    /// Returns true if it did. Nothing reports that.
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

    /// Puts something in the place of a device that failed, or of one that the controller counts as lost.
    ///
    /// The controller is told as soon as every step for the earlier device has failed: it could not tell whose
    /// failure it is otherwise.
    pub fn replace(&mut self, dev: Dev, content: ReplacementContent) {
        self.announce(dev);
        let held = std::mem::take(&mut self.pending.held);
        // Steps that wait for a commit were meant for the earlier device too.
        let (meant, others): (VecDeque<_>, VecDeque<_>) =
            held.into_iter().partition(|(_, entry)| entry.step.dev() == Some(dev));
        self.pending.held = others;
        self.in_flight.extend(meant.into_iter().map(|(_, entry)| entry));
        while let Some(at) = self.in_flight.iter().position(|entry| entry.step.dev() == Some(dev)) {
            let entry = self.in_flight.remove(at);
            self.steps += 1;
            self.note(|| format!("{:?}.{} {:?}: failed", entry.issue.op, entry.issue.step, entry.step));
            // A write that was reported early has had its answer.
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
        // A lost step reaches nothing any more, and an omitted one never did.
        let honest = self.in_flight.iter().filter(|entry| !entry.lost && entry.conduct != ExecutorConduct::Omit);
        let writes = honest.filter_map(|entry| {
            let ext = entry.step.changes().filter(|ext| ext.dev() == dev)?;
            Some((ext, entry.early.as_deref().map_or_else(|| self.written(entry), |bytes| Some((**bytes).into()))))
        });
        let writes: Vec<_> = writes.collect();
        let writes = writes.iter().map(|(ext, bytes)| (*ext, bytes.as_deref()));
        self.devices[dev.index()].cut(dev.index(), writes, choice)
    }

    /// Returns what a loss of power at this moment would leave.
    ///
    /// Keeps any part of the writes that were not flushed, or are running, as `choice` says. The first
    /// few of the NVRAM's steps that are done and not durable, or in flight, took effect.
    pub fn cut(&self, choice: &mut impl CutChoice) -> CrashRemains {
        let disks = (0..self.devices.len()).map(|dev| self.cut_device(Dev(dev as u8), choice)).collect();
        let mut nvram = self.bytes.nvram().clone();
        // Commits that are done and not durable survive as a prefix too: the
        // journal is one sequence.
        let open = self.pending.open();
        let through = choice.nvram(open + self.nv_queue.len());
        // Undone from the newest back, since an older commit may have freed the
        // slots of a newer one.
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
