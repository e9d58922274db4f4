//! Flips bits of the cache's device, so that no data is lost.

use destage_plan::{BadPage, Row, Status};
use destage_raid::array::VersionSource;

use super::HistoryRun;

impl HistoryRun<'_> {
    /// Flips a bit of a page of the cache's device that has a checksum, unless that would lose data: what the cache alone
    /// has, or what the parity covers while a member is lost.
    pub(super) fn rot(&mut self, page: u64, bit: u32) {
        let ready = self.memory.status() == Status::Ready;
        let controller = self.memory.engine().controller();
        let Some(checksums) = controller.checksums().filter(|_| ready && !self.broken) else { return };
        let page = BadPage { dev: checksums.dev(), page: page % self.cell.pages_of(self.cache) };
        // Without a checksum nobody could tell the flipped bit from the data.
        if checksums.get(page.page).is_none() || !self.memory.answers(page.dev) || self.has_alone(page) {
            return;
        }
        // What the parity covers may be needed to compute the lost member's pages.
        if self.cache.delays_parity && !(self.lost() & self.members()).is_empty() {
            return;
        }
        if self.memory.rot(page, bit) {
            self.report.rotten += 1;
        }
    }

    /// Flips bits back that nobody could find if the power failed now: a cache that alone has data writes over its copies,
    /// and says so before that.
    pub(super) fn heal_before_write(&mut self) {
        if self.cache.holds_dirty {
            self.memory.heal();
        }
    }

    /// Returns true if a page of the cache's device alone has the newest content of a page.
    fn has_alone(&self, page: BadPage) -> bool {
        if !self.cache.holds_dirty {
            return false;
        }
        // Pages that are being written or told of as clean are named by nobody yet.
        if !self.memory.is_idle() {
            return true;
        }
        let (controller, geometry) = (self.memory.engine().controller(), &self.cell.geometry);
        (0..geometry.member_pages()).any(|row| {
            let sources = controller.sources(Row(row));
            let is_it =
                |source| matches!(source, VersionSource::Page(ext) if (ext.dev(), ext.first()) == (page.dev, page.page));
            geometry.data_set().iter().any(|column| is_it(sources.newest(column)))
        })
    }
}
