//! Tracks what the metadata log may say of each frame.
//!
//! It lists the pages that came and are still to be logged, and the pages that left. The log must say that
//! those left before their frames are written.

use destage_plan::Row;

use super::lists::SetList;
use super::{FrameNo, FrameState, FrameTable, PageNumber};
use crate::ssd::log::FrameFact;

/// Names what the metadata log, or the NVRAM in front of it, may say of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoggedState {
    /// Nothing, or that it is free.
    Nothing,
    /// Says that the frame has its present page.
    Page,
    /// Says that the frame has its present page, which the members lack.
    Dirty,
    /// Says the same, with the checksum of what should be in it: it has to say something else before that is written over.
    DirtyMarked,
    /// Says that the frame has a page that has left it.
    Left,
}

/// Holds what is still to be logged.
#[derive(Default)]
pub(super) struct UnreportedFills {
    /// Pages that came.
    arrived: Vec<FilledFrame>,
    /// Frames that pages left which may be logged, with the page.
    left: Vec<(FrameNo, u64)>,
}

/// A page that has come into a frame: as long as nothing else was written there, it is in it.
// The fill number stands for "nothing else was written here since". Comparing
// numbers replaces a search through pending entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilledFrame {
    frame: FrameNo,
    fill: u32,
}

impl FilledFrame {
    pub(super) const fn new(frame: FrameNo, fill: u32) -> Self {
        Self { frame, fill }
    }

    pub(super) const fn frame(self) -> FrameNo {
        self.frame
    }

    /// Returns true if the page came with this fill of its frame.
    pub(super) const fn is_of(self, fill: u32) -> bool {
        self.fill == fill
    }
}

impl FrameTable {
    /// Returns the page that an operation has filled a frame with, if it is still there.
    pub(crate) fn came(&self, frame: FrameNo) -> Option<FilledFrame> {
        let slot = &self.slots[frame.index()];
        (slot.state == FrameState::Clean).then_some(FilledFrame { frame, fill: slot.fill })
    }

    /// A page has come, as the array has it, or may have it after a start without its row's intent being
    /// open.
    pub(crate) fn arrives(&mut self, came: FilledFrame) {
        if let Some(untold) = &mut self.untold
            && self.slots[came.frame.index()].logged != LoggedState::Page
        {
            untold.arrived.push(came);
        }
    }

    /// The page in the frame is not to be found in it any more.
    pub(super) fn leaves(&mut self, frame: FrameNo) {
        let slot = &mut self.slots[frame.index()];
        debug_assert!(
            !matches!(slot.logged, LoggedState::Dirty | LoggedState::DirtyMarked) || !self.enabled,
            "it leaves once it is logged as clean"
        );
        if slot.logged == LoggedState::Page {
            // The entry becomes wrong the moment the frame is given away. It is
            // listed now, while the old page's number is still known.
            slot.logged = LoggedState::Left;
            let left = (frame, slot.page.get());
            self.untold.as_mut().expect("a log is kept").left.push(left);
        }
    }

    /// The page in the frame will be written: the log is not to say any more that the frame has it, nor to be
    /// told so of what came before.
    pub(crate) fn take_back(&mut self, frame: FrameNo) {
        if self.slots[frame.index()].state == FrameState::Clean {
            self.leaves(frame);
            self.begin_fill(frame);
        }
    }

    /// Frames that pages left which may be logged, with the page, since this was asked last.
    pub(crate) fn take_left(&mut self) -> impl Iterator<Item = (FrameNo, u64)> {
        self.untold.iter_mut().flat_map(|untold| untold.left.drain(..))
    }

    /// As [`take_left`](Self::take_left), without taking them.
    pub(crate) fn left(&self) -> &[(FrameNo, u64)] {
        self.untold.as_ref().map_or(&[], |untold| &untold.left)
    }

    /// Pages that came since [`take_arrived`](Self::take_arrived).
    pub(crate) fn arrived(&self) -> usize {
        self.untold.as_ref().map_or(0, |untold| untold.arrived.len())
    }

    /// Pages that came since this was asked last: the device is being flushed.
    pub(crate) fn take_arrived(&mut self) -> Vec<FilledFrame> {
        self.untold.as_mut().map_or_else(Vec::new, |untold| std::mem::take(&mut untold.arrived))
    }

    /// The frame and the page that has come into it and was flushed, if the log is to say so: from now on it
    /// may.
    pub(crate) fn log_page(&mut self, came: FilledFrame) -> Option<(FrameNo, u64)> {
        let slot = &mut self.slots[came.frame.index()];
        // The flush covered the fill that it was begun for. A frame that was filled
        // again since must wait for another flush.
        if slot.state != FrameState::Clean || slot.fill != came.fill || slot.logged != LoggedState::Nothing {
            return None;
        }
        slot.logged = LoggedState::Page;
        Some((came.frame, slot.page.get()))
    }

    /// Returns true if the log may still name a page that has left the frame.
    pub(crate) fn is_left(&self, frame: FrameNo) -> bool {
        self.slots[frame.index()].logged == LoggedState::Left
    }

    /// The log says that the frame is free.
    pub(crate) fn left_is_logged(&mut self, frame: FrameNo) {
        let slot = &mut self.slots[frame.index()];
        if slot.logged != LoggedState::Left {
            return;
        }
        slot.logged = LoggedState::Nothing;
        if slot.state == FrameState::Leaving {
            // A frame that waited for its entry is usable from here on: after a
            // crash the log can only say that it is free.
            self.set_free(frame);
            self.note_freed(frame);
        }
    }

    /// Returns the entry that the log must repeat for a frame.
    pub(crate) fn fact(&self, frame: FrameNo) -> FrameFact {
        let slot = &self.slots[frame.index()];
        match slot.logged {
            LoggedState::Page => FrameFact::Clean { page: slot.page.get(), checksum: self.checksum(frame) },
            LoggedState::Dirty => FrameFact::Dirty { page: slot.page.get(), checksum: None },
            LoggedState::DirtyMarked => FrameFact::Dirty { page: slot.page.get(), checksum: self.checksum(frame) },
            LoggedState::Nothing | LoggedState::Left => FrameFact::Free,
        }
    }

    /// The log says that a frame has a page of a row, the most recently used one; whether it is taken to
    /// have it. If not, it has [left](Self::take_left).
    pub(crate) fn adopt(&mut self, frame: FrameNo, page: u64, row: Option<Row>) -> bool {
        // Entries of an open intent, or of a log with two entries for a page, are
        // not believed: `adopt` makes the log retract them instead.
        let fits = row.is_some_and(|row| self.set_of(row) == self.set(frame)) && !self.contains(page);
        self.unset_free(frame);
        let slot = &mut self.slots[frame.index()];
        (slot.page, slot.logged) = (PageNumber::new(page), LoggedState::Page);
        if fits {
            slot.state = FrameState::Clean;
            self.insert(frame);
            self.link(frame, SetList::Clean);
        } else {
            self.leaves(frame);
            self.slots[frame.index()].state = FrameState::Leaving;
        }
        fits
    }

    /// The device is lost, and the log with it.
    pub(super) fn lose_log(&mut self) {
        let Some(untold) = &mut self.untold else { return };
        *untold = UnreportedFills::default();
        for index in 0..self.len() {
            let slot = &mut self.slots[index as usize];
            // A lost device's log is void as a whole, which the NVRAM notes. So no
            // frame has anything to retract.
            slot.logged = LoggedState::Nothing;
            if slot.state == FrameState::Leaving {
                self.set_free(FrameNo(index));
            }
        }
    }
}
