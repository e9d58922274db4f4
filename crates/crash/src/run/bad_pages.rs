//! Pages that members cannot read: what may be spoiled so that nothing is lost with it, and what can be read again before
//! something else goes wrong.

use std::collections::BTreeSet;

use destage_exec::{Ran, Remains};
use destage_plan::{BadPage, Dev, DevSet, Row, Status, StepOutcome};
use destage_raid::Level;

use super::HistoryRun;

impl HistoryRun<'_> {
    /// Spoils a page of a member, unless something would be lost with it.
    pub(super) fn spoil(&mut self, dev: u8, page: u64, broken: bool) {
        let page = BadPage { dev: Dev(dev), page: page % self.cell.geometry.member_pages() };
        let ready = self.memory.status() == Status::Ready;
        if !self.members().contains(page.dev) || !ready || !self.memory.answers(page.dev) || self.broken {
            return;
        }
        let mut pages = self.bad_pages();
        if pages.insert(page) && self.beyond(pages, DevSet::EMPTY).is_empty() {
            self.memory.spoil(page, broken);
            self.report.spoiled += 1;
        }
    }

    /// A step could not read a page.
    pub(super) fn told(&mut self, ran: &Ran) {
        if let StepOutcome::Unreadable(page) = ran.outcome {
            self.told.insert(page);
        }
        if self.memory.is_idle() {
            self.told.clear();
        }
    }

    /// Pages that cannot be read, or of which the array has heard so and has not made them anew.
    fn bad_pages(&self) -> BTreeSet<BadPage> {
        self.memory.unreadable().chain(self.known_bad_pages()).collect()
    }

    fn known_bad_pages(&self) -> impl Iterator<Item = BadPage> {
        let array = self.memory.engine().controller().array();
        array.unreadable().into_iter().chain(self.told.iter().copied())
    }

    /// Whether a device can be lost for all that cannot be read beside it. What the array has not heard of can be read
    /// again.
    pub(super) fn can_lose_beside_bad_pages(&mut self, dev: Dev) -> bool {
        let beyond = self.beyond(self.bad_pages(), DevSet::one(dev));
        if self.known_bad_pages().any(|page| beyond.contains(&page)) {
            return false;
        }
        for page in beyond {
            self.memory.recall(page);
        }
        true
    }

    /// After a cut, which these members do not survive, has the others read again what could not be known.
    pub(super) fn recall_after_cut(&self, remains: &mut Remains, lost: DevSet) {
        let pages = (0..).map(Dev).zip(&remains.disks);
        let pages = pages.flat_map(|(dev, disk)| disk.unreadable.iter().map(move |page| BadPage { dev, page: *page }));
        let pages: BTreeSet<BadPage> = pages.collect();
        let array = self.memory.engine().controller().array();
        let (exposed, known) = (array.is_exposed() || !self.memory.is_durable(), array.unreadable());
        let computes = matches!(self.cell.geometry.level(), Level::Raid4 | Level::Raid5 | Level::Raid6);
        // Of rows that may be torn nothing tells a page that the array has not found out to be unreadable.
        let is_hole = |page: &BadPage| {
            computes && remains.nvram.intents.contains(Row(page.page)) && (exposed || !known.contains(page))
        };
        let (mut back, pages): (BTreeSet<_>, BTreeSet<_>) = pages.into_iter().partition(is_hole);
        back.extend(self.beyond(pages, lost));
        for page in back {
            remains.disks[page.dev.index()].unreadable.remove(&page.page);
        }
    }

    /// Those of some pages that could not be known if these devices were lost as well.
    fn beyond(&self, pages: BTreeSet<BadPage>, losing: DevSet) -> Vec<BadPage> {
        let lost = self.lost() | losing;
        let (members, caches) = (lost & self.members(), lost - self.members());
        let covers = caches.is_empty() || !self.cache.delays_parity;
        let controller = self.memory.engine().controller();
        let mut bad: Vec<BadPage> = Vec::new();
        let mut beyond = Vec::new();
        for page in pages {
            let in_row = bad.iter().filter(|other| other.page == page.page && !members.contains(other.dev)).count();
            let is_known = covers && !controller.sources(Row(page.page)).is_torn();
            if is_known && members.len() + (in_row as u32) < self.cell.tolerated() {
                bad.push(page);
            } else {
                beyond.push(page);
            }
        }
        beyond
    }
}
