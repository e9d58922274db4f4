//! Tracks frames of *dirty* pages, which are newer than what the members have. Such a page stays until it is
//! written back and the log says so.

use destage_plan::PageChecksum;

use super::logged::LoggedState;
use super::{FilledFrame, FrameNo, FrameState, FrameTable, PageNumber};

/// Names how a dirty page enters a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirtyCause {
    /// Replaces the page's version in the frame, which the log already calls dirty.
    Again,
    /// Takes the place of the page's version there, which the log says to be clean, or of which it has the checksum: it has
    /// to say before that it is dirty.
    Told,
    /// Fills a frame of which the log says nothing. The log has to name the page as soon as it is in the frame
    /// and durable.
    Fresh,
}

impl FrameTable {
    /// An operation is about to write a newer version of a page into the frame that it is found by; how. It is
    /// neither evicted nor told of as clean from now on.
    pub(crate) fn soil(&mut self, frame: FrameNo) -> DirtyCause {
        let slot = &self.slots[frame.index()];
        let (state, logged) = (slot.state, slot.logged);
        debug_assert!(
            matches!(state, FrameState::Clean | FrameState::Stale | FrameState::Landed),
            "nobody else writes it"
        );
        if state == FrameState::Clean {
            self.unlink(frame);
        }
        // A stale page is on its list already; only its place in the LRU order
        // changes.
        if state == FrameState::Stale {
            self.touch(frame);
        } else {
            self.become_stale(frame);
        }
        // What was on its way to be told is not any more.
        // A new fill number makes every pending entry about the older version void
        // without looking for it.
        self.begin_fill(frame);
        match logged {
            LoggedState::Dirty => DirtyCause::Again,
            // A checksum in the log would make the newer version look like a rotten
            // page after a crash. So the entry is replaced before the frame is
            // written.
            LoggedState::Page | LoggedState::DirtyMarked => DirtyCause::Told,
            LoggedState::Nothing | LoggedState::Left => DirtyCause::Fresh,
        }
    }

    /// A frame that was [taken](Self::take) is for this page: the log may say so as soon as it is there.
    pub(crate) fn take_for(&mut self, frame: FrameNo, page: u64) {
        // The page is set before the write so that the log's entry can name it; the
        // index finds the page only once it is there.
        self.slots[frame.index()].page = PageNumber::new(page);
    }

    /// A frame that was taken [for](Self::take_for) a page has its newest version.
    pub(crate) fn soiled(&mut self, frame: FrameNo) {
        self.insert(frame);
        self.become_stale(frame);
    }

    /// The log, or the NVRAM, says that the frame has a dirty page.
    pub(crate) fn dirty_is_logged(&mut self, frame: FrameNo) {
        self.slots[frame.index()].logged = LoggedState::Dirty;
    }

    /// Marks a dirty page: the log is to have the checksum of what should be in its frame, and says something else before a
    /// newer version is written there. Returns none if the page is not told of as dirty.
    pub(crate) fn mark_dirty(&mut self, frame: FrameNo) -> Option<FilledFrame> {
        let slot = &mut self.slots[frame.index()];
        let marks = slot.state == FrameState::Stale && slot.logged == LoggedState::Dirty;
        // Checked when the mark is made and again in `log_marked`: a write may
        // start in between.
        marks.then(|| {
            slot.logged = LoggedState::DirtyMarked;
            FilledFrame::new(frame, slot.fill)
        })
    }

    /// Returns the frame and the page of a mark, unless a newer version has come, or is about to.
    pub(crate) fn log_marked(&self, came: FilledFrame) -> Option<(FrameNo, u64)> {
        let slot = &self.slots[came.frame().index()];
        let marks = slot.state == FrameState::Stale && came.is_of(slot.fill) && slot.logged == LoggedState::DirtyMarked;
        marks.then(|| (came.frame(), slot.page.get()))
    }

    /// Takes a frame to have a dirty page, as the log said when a life began, perhaps with a checksum. Returns false if the
    /// page does not fit into the set.
    pub(crate) fn adopt_dirty(&mut self, frame: FrameNo, page: u64, set: u32, checksum: Option<PageChecksum>) -> bool {
        // The log may come from an array of another geometry, or name a page twice
        // after damage. Believing it would put two versions of a page into the
        // cache.
        if set != self.set(frame) || self.contains(page) {
            return false;
        }
        self.unset_free(frame);
        self.begin_fill(frame);
        self.take_for(frame, page);
        self.soiled(frame);
        self.dirty_is_logged(frame);
        if checksum.is_some() {
            self.slots[frame.index()].logged = LoggedState::DirtyMarked;
            self.keep_checksum(frame, checksum);
        }
        true
    }

    /// A dirty page, which is found by this frame, is written back as it is.
    pub(crate) fn land(&mut self, frame: FrameNo) -> FilledFrame {
        debug_assert!(self.is_stale(frame), "it was dirty");
        self.unlink(frame);
        self.stale -= 1;
        // The log still calls the page dirty. Evicting it now would leave that
        // entry pointing at whatever comes into the frame next.
        let slot = &mut self.slots[frame.index()];
        slot.state = FrameState::Landed;
        FilledFrame::new(frame, slot.fill)
    }

    /// Has a page that was dirty, and is found by this frame, be found by none: its member has a newer version. Returns true if
    /// the log says that it is dirty; the frame stays as it is then until that is [retracted](Self::retract).
    pub(crate) fn pass_by(&mut self, frame: FrameNo) -> bool {
        let slot = &self.slots[frame.index()];
        if !matches!(slot.logged, LoggedState::Dirty | LoggedState::DirtyMarked) {
            self.forget(frame);
            return false;
        }
        debug_assert!(slot.pins == 0, "the claim of who writes the page excludes others that use it");
        if slot.state == FrameState::Stale {
            self.unlink(frame);
            self.stale -= 1;
        }
        self.remove(frame);
        // The frame must not be used again before the log retracts the page. After
        // a crash the log would still name it as the newest version.
        self.slots[frame.index()].state = FrameState::Leaving;
        true
    }

    /// Has the log be told that a frame is free whose page was [passed by](Self::pass_by).
    pub(crate) fn retract(&mut self, frame: FrameNo) {
        debug_assert!(self.slots[frame.index()].state == FrameState::Leaving, "nobody finds it");
        // The log's entry counts as an ordinary outdated one from here on, so the
        // general path retracts it.
        self.slots[frame.index()].logged = LoggedState::Page;
        self.leaves(frame);
    }

    /// An entry is made that says of a page that it is clean: the page, if it has [landed](Self::land) and has
    /// no newer version.
    pub(crate) fn log_landed(&mut self, came: FilledFrame) -> Option<(FrameNo, u64)> {
        let slot = &mut self.slots[came.frame().index()];
        let is_told = matches!(slot.logged, LoggedState::Dirty | LoggedState::DirtyMarked);
        let landed = slot.state == FrameState::Landed && came.is_of(slot.fill) && is_told;
        landed.then(|| {
            slot.logged = LoggedState::Page;
            (came.frame(), slot.page.get())
        })
    }

    /// The log says so: unless there is a newer version meanwhile, it is clean, and leaves before all others.
    pub(crate) fn landed_is_logged(&mut self, frame: FrameNo) {
        let slot = &mut self.slots[frame.index()];
        if slot.state != FrameState::Landed || slot.logged != LoggedState::Page {
            return;
        }
        slot.state = FrameState::Clean;
        self.make_oldest(frame);
    }

    /// Returns true if the page of this frame was dirty and is written back, and the log says that it is dirty.
    pub(crate) fn is_landed(&self, frame: FrameNo) -> bool {
        self.slots[frame.index()].state == FrameState::Landed
    }

    /// Returns true if the frame has the page as the members have it, and the log says nothing else.
    pub(crate) fn is_clean(&self, frame: FrameNo) -> bool {
        self.slots[frame.index()].state == FrameState::Clean
    }

    /// Counts the uses of frames since a page was used last, which is found by its frame.
    pub(crate) fn age(&self, page: u64) -> u32 {
        self.get(page).map_or(0, |frame| self.uses.wrapping_sub(self.slots[frame.index()].used))
    }

    /// The dirty page of a set that was not used for longest, and each that was used after it.
    pub(crate) fn dirty_of(&self, set: u32) -> impl Iterator<Item = u64> {
        self.stale_of(set)
    }
}
