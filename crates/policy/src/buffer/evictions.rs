//! What leaves a buffer: a flat, reused list of groups of pages.

use destage_plan::PageNo;

/// What happens to the pages of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Dirty pages: programmed, and gone from the buffer.
    Flush,
    /// Pages that are not in the buffer: read, and then programmed together with the `Flush` group that follows.
    Pad,
    /// Pages that leave at no cost: clean, or no longer needed.
    Drop,
    /// Dirty pages: programmed, and kept as clean.
    Clean,
}

/// When the frames of a group are free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Each when its own page is programmed.
    Any,
    /// All of them when the whole group is.
    All,
}

/// Pages that are treated alike.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What happens to the pages.
    pub kind: Kind,
    /// When their frames are free.
    pub wait: Wait,
    /// The channel whose write point receives them; `None` leaves the choice to the device.
    pub channel: Option<u8>,
    /// Done behind waiting host requests.
    pub background: bool,
    /// This group completes a victim unit (a page or a block).
    pub ends_unit: bool,
    start: u32,
    end: u32,
}

impl Group {
    /// Pages in the group.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.end - self.start
    }

    /// Whether the group has no pages.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// The caller's list of what must leave, filled by the policy and emptied by the caller; it keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Evictions {
    groups: Vec<Group>,
    pages: Vec<PageNo>,
}

impl Evictions {
    /// Forgets all groups.
    #[inline]
    pub fn clear(&mut self) {
        self.groups.clear();
        self.pages.clear();
    }

    /// Whether nothing leaves.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The groups in the order in which they were decided.
    #[inline]
    pub fn groups(&self) -> impl Iterator<Item = (&Group, &[PageNo])> {
        self.groups.iter().map(|g| (g, &self.pages[g.start as usize..g.end as usize]))
    }

    /// A victim that is one page.
    #[inline]
    pub fn page(&mut self, kind: Kind, page: PageNo) {
        let start = self.pages.len() as u32;
        self.pages.push(page);
        self.groups.push(Group {
            kind,
            wait: Wait::All,
            channel: None,
            background: false,
            ends_unit: true,
            start,
            end: start + 1,
        });
    }

    /// A group of a victim with several pages; nothing is added when there are none. Returns whether it was added.
    /// The last group of the victim is to be followed by [`Self::end_unit`].
    #[inline]
    pub fn group(&mut self, kind: Kind, pages: impl Iterator<Item = PageNo>) -> bool {
        let start = self.pages.len() as u32;
        // Internal iteration: twice as fast as `extend` over the bitmaps' nested iterators.
        pages.for_each(|page| self.pages.push(page));
        let end = self.pages.len() as u32;
        if start == end {
            return false;
        }
        self.groups.push(Group {
            kind,
            wait: Wait::All,
            channel: None,
            background: false,
            ends_unit: false,
            start,
            end,
        });
        true
    }

    /// Marks the last group as the end of its victim unit.
    #[inline]
    pub fn end_unit(&mut self) {
        if let Some(group) = self.groups.last_mut() {
            group.ends_unit = true;
        }
    }
}
