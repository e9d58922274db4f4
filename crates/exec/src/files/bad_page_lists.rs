//! Keeps the lists of pages that members cannot keep, which lie on the members.
//!
//! A list is information and no promise. Every write of a row writes its bad pages as well. So a member holds
//! the right bytes of a page or cannot read it, whatever its list says. So nothing waits for a list to be
//! written. A list that is older than its member costs an unneeded repair, or the next read finds the page.

use destage_plan::{BadPage, Dev, DevSet, PageFate, PageReport};

use super::config::FilesConfig;
use super::layout::bad_page_list::{BadPageList, capacity};

/// Keeps the lists of an array that is served.
#[derive(Default)]
pub(super) struct BadPageLists {
    members: Vec<MemberList>,
    /// Bounds the pages of a list.
    most: usize,
}

#[derive(Default)]
struct MemberList {
    /// Says what the list is to be, with the number of the last write that was begun.
    wanted: BadPageList,
    /// Is true if it is to be written as soon as can be.
    is_due: bool,
    /// Is true if it is being written.
    is_under_way: bool,
}

impl BadPageLists {
    /// Makes them of what members say at a start; one that says nothing whole is written anew.
    pub(super) fn new(config: &FilesConfig, found: Vec<Option<BadPageList>>) -> Self {
        let list = |found: Option<BadPageList>| MemberList {
            is_due: found.is_none(),
            wanted: found.unwrap_or_default(),
            is_under_way: false,
        };
        Self { members: found.into_iter().map(list).collect(), most: capacity(config.count_bytes()) }
    }

    /// Returns all pages that are listed, of one member after the other.
    pub(super) fn pages(&self) -> Vec<BadPage> {
        let of = |(member, dev): (&MemberList, u8)| {
            let rows: Vec<u64> = member.wanted.rows.iter().copied().collect();
            rows.into_iter().map(move |page| BadPage { dev: Dev(dev), page })
        };
        self.members.iter().zip(0..).flat_map(of).collect()
    }

    /// Takes in what became of a page. A list that is full takes no more: the next reads find such pages again.
    pub(super) fn note(&mut self, report: PageReport) {
        let PageReport { page: BadPage { dev, page }, fate } = report;
        let Some(member) = self.members.get_mut(dev.index()) else { return };
        let rows = &mut member.wanted.rows;
        let has_changed = match fate {
            // A full list loses nothing but time: the next read of the page finds
            // it.
            PageFate::Unwritable => rows.len() < self.most && rows.insert(page),
            PageFate::Corrected => rows.remove(&page),
            _ => false,
        };
        member.is_due |= has_changed;
    }

    /// Returns the members whose lists are to be written, and can be.
    pub(super) fn due(&self) -> DevSet {
        let due = self.members.iter().zip(0..).filter(|(member, _)| member.is_due && !member.is_under_way);
        due.map(|(_, dev)| Dev(dev)).collect()
    }

    /// Returns true if a list is being written, or is to be.
    pub(super) fn is_busy(&self) -> bool {
        self.members.iter().any(|member| member.is_due || member.is_under_way)
    }

    /// Begins to write the list of a member, and returns it. It goes where its number says.
    pub(super) fn begin(&mut self, dev: Dev) -> &BadPageList {
        let member = &mut self.members[dev.index()];
        (member.is_due, member.is_under_way) = (false, true);
        // The number chooses the copy that is written, so a torn write leaves the
        // other one.
        member.wanted.sequence += 1;
        &member.wanted
    }

    /// Notes that a list is written.
    pub(super) fn ended(&mut self, dev: Dev) {
        // A member may be replaced while its list is being written, and then has
        // none.
        if let Some(member) = self.members.get_mut(dev.index()) {
            member.is_under_way = false;
        }
    }

    /// Forgets the list of a member that is lost, or whose place another file has taken, which has none.
    pub(super) fn forget(&mut self, dev: Dev) {
        if let Some(member) = self.members.get_mut(dev.index()) {
            *member = MemberList::default();
        }
    }
}
