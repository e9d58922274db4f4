//! Lists the pages that leave a buffer, in groups; the list is flat and reused.

use destage_plan::PageNo;

/// Selects the treatment of a group's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionKind {
    /// Dirty pages: programmed, and gone from the buffer.
    Flush,
    /// Pages that are not in the buffer: read, and then programmed together with the `Flush` group
    /// that follows.
    Pad,
    /// Pages that leave at no cost: clean, or no longer needed.
    Drop,
    /// Dirty pages: programmed, and kept as clean.
    Clean,
}

/// Selects the time at which the frames of a group are free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameWait {
    /// Each when its own page is programmed.
    Any,
    /// All of them when the whole group is.
    All,
}

/// Pages that are treated alike.
#[derive(Clone, Copy, Debug)]
pub struct EvictionGroup {
    /// Selects the treatment of the pages.
    pub kind: EvictionKind,
    /// Selects the time at which the pages' frames are free.
    pub wait: FrameWait,
    /// Done behind waiting host requests.
    pub background: bool,
    /// Not begun before the first of the collections now going on has ended; begun at once where
    /// there is none. The frames are free accordingly later.
    pub after_collection: bool,
    /// Victim units (pages or blocks) that this group completes: each page is one, or all pages
    /// belong to the last of the groups that make up one, or none.
    pub units: u32,
    start: u32,
    end: u32,
    /// Holds the index of the first page's channel; [`NO_CHANNELS`] leaves the choice to the device.
    channels: u32,
}

/// A group whose pages have no channels.
const NO_CHANNELS: u32 = u32::MAX;

impl EvictionGroup {
    /// Pages in the group.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.end - self.start
    }

    /// Is true if the group has no pages.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// The caller's list of what must leave, filled by the policy and emptied by the caller; it keeps
/// its memory.
#[derive(Clone, Debug, Default)]
pub struct Evictions {
    groups: Vec<EvictionGroup>,
    pages: Vec<PageNo>,
    channels: Vec<u16>,
}

impl Evictions {
    /// Forgets all groups.
    #[inline]
    pub fn clear(&mut self) {
        self.groups.clear();
        self.pages.clear();
        self.channels.clear();
    }

    /// Is true if nothing leaves.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The kind and page of the only group, if there is one, it is one page and a victim of its
    /// own, and nothing is said of how it is to leave: what page-level policies answer with.
    #[inline]
    pub fn only_page(&self) -> Option<(EvictionKind, PageNo)> {
        match (&self.groups[..], &self.pages[..]) {
            ([group], &[page]) => {
                // What one page of one unit needs is known: callers take a shorter way for it.
                let plain = group.units == 1
                    && group.channels == NO_CHANNELS
                    && !group.background
                    && !group.after_collection
                    && matches!(group.kind, EvictionKind::Flush | EvictionKind::Drop);
                plain.then_some((group.kind, page))
            }
            _ => None,
        }
    }

    /// The groups in the order in which they were decided.
    #[inline]
    pub fn groups(&self) -> impl Iterator<Item = (&EvictionGroup, &[PageNo])> {
        self.groups_from(0)
    }

    /// The channel whose write point receives each page of the group; `None` leaves the choice to
    /// the device.
    #[inline]
    pub fn channels(&self, group: &EvictionGroup) -> Option<&[u16]> {
        let start = group.channels as usize;
        (group.channels != NO_CHANNELS).then(|| &self.channels[start..start + group.len() as usize])
    }

    #[inline]
    fn push(&mut self, kind: EvictionKind, start: u32, units: u32, channels: u32) {
        let end = self.pages.len() as u32;
        self.groups.push(EvictionGroup {
            kind,
            wait: FrameWait::All,
            background: false,
            after_collection: false,
            units,
            start,
            end,
            channels,
        });
    }

    /// A victim that is one page.
    #[inline]
    pub fn page(&mut self, kind: EvictionKind, page: PageNo) {
        let start = self.pages.len() as u32;
        self.pages.push(page);
        self.push(kind, start, 1, NO_CHANNELS);
    }

    /// A group of a victim with several pages; nothing is added when there are none. Returns
    /// whether it was added. The last group of the victim is to be followed by [`Self::end_unit`].
    #[inline]
    pub fn group(&mut self, kind: EvictionKind, pages: impl Iterator<Item = PageNo>) -> bool {
        let start = self.pages.len() as u32;
        // Internal iteration: twice as fast as `extend` over the bitmaps' nested iterators.
        pages.for_each(|page| self.pages.push(page));
        let added = self.pages.len() as u32 > start;
        if added {
            self.push(kind, start, 0, NO_CHANNELS);
        }
        added
    }

    /// Marks the last group as the end of its victim unit.
    #[inline]
    pub fn end_unit(&mut self) {
        if let Some(group) = self.groups.last_mut() {
            group.units = 1;
        }
    }

    /// Pages that are programmed at the same time, each through its own channel, and whose frames
    /// are free together. `units` victim units are complete with them. Nothing is added when there
    /// are none.
    #[inline]
    pub fn spread(&mut self, kind: EvictionKind, pages: impl Iterator<Item = (PageNo, u16)>, units: u32) {
        let (start, channels) = (self.pages.len() as u32, self.channels.len() as u32);
        for (page, channel) in pages {
            self.pages.push(page);
            self.channels.push(channel);
        }
        if self.pages.len() as u32 > start {
            self.push(kind, start, units, channels);
        }
    }

    /// As [`Self::spread`], where each page is a victim unit of its own.
    #[inline]
    pub fn spread_pages(&mut self, kind: EvictionKind, pages: impl Iterator<Item = (PageNo, u16)>) {
        let before = self.groups.len();
        self.spread(kind, pages, 0);
        self.groups[before..].iter_mut().for_each(|group| group.units = group.len());
    }

    /// Frees the frames of the groups from the `from`-th on as `wait` says.
    pub fn wait_for(&mut self, from: usize, wait: FrameWait) {
        self.groups[from..].iter_mut().for_each(|group| group.wait = wait);
    }

    /// Has the groups from the `from`-th on done behind waiting host requests.
    pub fn in_background(&mut self, from: usize) {
        self.groups[from..].iter_mut().for_each(|group| group.background = true);
    }

    /// Has the groups from the `from`-th on wait for the first of the collections now going on.
    pub fn after_collection(&mut self, from: usize) {
        self.groups[from..].iter_mut().for_each(|group| group.after_collection = true);
    }

    /// The groups from the `from`-th on.
    pub fn groups_from(&self, from: usize) -> impl Iterator<Item = (&EvictionGroup, &[PageNo])> {
        self.groups[from..].iter().map(|g| (g, &self.pages[g.start as usize..g.end as usize]))
    }

    /// Gives a channel to each page of the groups from the `from`-th on that are programmed and
    /// have none.
    pub fn assign_channels(&mut self, from: usize, mut channel: impl FnMut() -> u16) {
        for group in &mut self.groups[from..] {
            if group.channels == NO_CHANNELS && group.kind != EvictionKind::Drop {
                group.channels = self.channels.len() as u32;
                self.channels.extend((0..group.len()).map(|_| channel()));
            }
        }
    }

    /// Returns the number of groups.
    #[inline]
    pub fn len(&self) -> usize {
        self.groups.len()
    }
}
