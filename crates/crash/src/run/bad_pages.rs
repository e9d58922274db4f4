//! Spoils pages of members, so that no data is lost: before something else goes wrong, members can read again what would be.

use std::collections::BTreeSet;

use destage_exec::{CrashRemains, EndedStep};
use destage_plan::{BadPage, Dev, DevSet, PageFate, Row, Status, StepOutcome};
use destage_raid::RaidLevel;

use super::HistoryRun;

impl HistoryRun<'_> {
    /// Spoils a page of a member, unless that would lose data.
    pub(super) fn spoil(&mut self, dev: u8, page: u64, broken: bool) {
        let page = BadPage { dev: Dev(dev), page: page % self.cell.geometry.member_pages() };
        let ready = self.memory.status() == Status::Ready;
        // Only members are spoiled here: a cache's pages have checksums, which are tried apart.
        if !self.members().contains(page.dev) || !ready || !self.memory.answers(page.dev) || self.broken {
            return;
        }
        let mut pages = self.bad_pages();
        if pages.insert(page) && self.beyond(pages, DevSet::EMPTY).is_empty() {
            self.memory.spoil(page, broken);
            self.report.spoiled += 1;
        }
    }

    /// Takes in what became of pages that could not be read.
    pub(super) fn page_reports(&mut self) -> Result<(), String> {
        while let Some(report) = self.memory.next_report() {
            match report.fate {
                // A cache may drop a page only if a bit of it was flipped.
                PageFate::Dropped if self.report.rotten > 0 => self.report.dropped += 1,
                PageFate::Dropped | PageFate::DirtyLost(_) => {
                    return Err(format!("{report:?}, and no bit was flipped"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes in which page a step could not read.
    pub(super) fn told(&mut self, ran: &EndedStep) {
        if let StepOutcome::Unreadable(page) = ran.outcome {
            self.told.insert(page);
        }
        if self.memory.is_idle() {
            self.told.clear();
        }
    }

    /// Returns the pages that members cannot read, and those that the array knows as such.
    fn bad_pages(&self) -> BTreeSet<BadPage> {
        self.memory.unreadable().chain(self.known_bad_pages()).collect()
    }

    fn known_bad_pages(&self) -> impl Iterator<Item = BadPage> {
        let array = self.memory.engine().controller().array();
        array.unreadable().into_iter().chain(self.told.iter().copied())
    }

    /// Returns true if a device can be lost beside the pages that the array knows. Others that would be lost with it can be
    /// read again.
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

    /// Lets members read again after a cut what nobody could compute without these.
    pub(super) fn recall_after_cut(&self, remains: &mut CrashRemains, lost: DevSet) {
        let pages = (0..).map(Dev).zip(&remains.disks);
        let pages = pages.flat_map(|(dev, disk)| disk.unreadable.iter().map(move |page| BadPage { dev, page: *page }));
        let pages: BTreeSet<BadPage> = pages.collect();
        let array = self.memory.engine().controller().array();
        let (exposed, known) = (array.is_exposed() || !self.memory.is_durable(), array.unreadable());
        let computes = matches!(self.cell.geometry.level(), RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6);
        // A torn row computes no page, so one that the array has not found must become readable again.
        let is_hole = |page: &BadPage| {
            computes && remains.nvram.intents.contains(Row(page.page)) && (exposed || !known.contains(page))
        };
        let (mut back, pages): (BTreeSet<_>, BTreeSet<_>) = pages.into_iter().partition(is_hole);
        back.extend(self.beyond(pages, lost));
        for page in back {
            remains.disks[page.dev.index()].unreadable.remove(&page.page);
        }
    }

    /// Returns those of some pages that nobody could compute if these devices were lost as well.
    fn beyond(&self, pages: BTreeSet<BadPage>, losing: DevSet) -> Vec<BadPage> {
        let lost = self.lost() | losing;
        let (members, caches) = (lost & self.members(), lost - self.members());
        let covers = caches.is_empty() || !self.cache.delays_parity;
        let controller = self.memory.engine().controller();
        let mut bad: Vec<BadPage> = Vec::new();
        let mut beyond = Vec::new();
        for page in pages {
            // Each bad page of a row costs as much redundancy there as a lost member.
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
