//! The loss of a cache device that has what no member has, in files: what was dirty fails, or is what it was, and
//! never what was there before; a start may be refused over it. That one accepts it is tried in memory.

use std::collections::BTreeSet;

use destage_plan::{Dev, HostOp, Status};

use super::{FileLife, HistoryScene, KnownArray};
use crate::asked::AskedRequests;
use crate::dirty::dirty_pages;

/// Keeps the data whose loss is possible.
#[derive(Clone, Debug, Default)]
pub(super) struct FileDoubt {
    /// Pages that may have been lost with the device, in this life or before.
    pages: BTreeSet<u64>,
    /// The device was lost some time.
    pub(super) lost: bool,
}

impl KnownArray {
    /// The device was lost, and it is not known when.
    pub(super) fn doubt_all(&mut self, scene: &HistoryScene) {
        self.doubt.lost = true;
        self.doubt.pages.extend(0..scene.cell.geometry.data_pages());
        self.model.set_may_fail(true);
    }
}

impl HistoryScene {
    /// The device that may have what no member has, if there is one.
    pub(super) fn holder(&self) -> Option<Dev> {
        self.cache.holds_dirty.then(|| Dev(self.cell.geometry.members()))
    }
}

impl FileLife<'_> {
    /// A device is about to be lost.
    pub(super) fn doubt(&mut self, dev: Dev) {
        if self.scene.holder() != Some(dev) {
            return;
        }
        // Only a controller that is ready knows what is dirty; before that every page may be.
        if self.files.status() == Status::Ready {
            let controller = self.files.engine().controller();
            let dirty = dirty_pages(&self.scene.cell.geometry, &self.asked, &**controller);
            self.known.doubt.pages.extend(dirty);
            self.known.doubt.lost = true;
            self.known.model.set_may_fail(true);
        } else {
            self.known.doubt_all(self.scene);
        }
    }

    /// A request is submitted: what is on its way to a device that is lost, and not known to be, is lost with it.
    pub(super) fn doubt_submitted(&mut self, asked: &AskedRequests) {
        let Some(holder) = self.scene.holder() else { return };
        let writes = asked.writes();
        // The cache takes the write until it hears of the loss, so its pages go down with the device.
        if writes && self.dead.contains(holder) && self.files.answers(holder) {
            self.known.doubt.pages.extend(asked.pages());
        }
    }

    /// Returns true if a request may have failed.
    pub(super) fn may_have_failed(&self, asked: &AskedRequests) -> bool {
        asked.op != HostOp::Flush && self.known.doubt.pages.range(asked.pages()).next().is_some()
    }
}
