//! Frames of pages that the parity is behind of.

use super::lists::SetList;
use super::{FrameNo, FrameSlot, FrameState, FrameTable, WayNo};

impl FrameTable {
    /// Returns true if the parity does not cover the newest version of the page in the frame.
    pub(crate) fn is_stale(&self, frame: FrameNo) -> bool {
        self.slots[frame.index()].state == FrameState::Stale
    }

    /// Returns the frame with the version that the parity covers of a stale page: the partner of the frame that
    /// it is found by. Returns the frame itself if the cache has nothing newer.
    pub(crate) fn covered(&self, frame: FrameNo) -> FrameNo {
        match self.slots[frame.index()].partner {
            WayNo::NONE => frame,
            partner => self.neighbour(frame, partner),
        }
    }

    /// The parity will not cover the newest version of a page, which is found by this frame, whatever
    /// becomes of that.
    pub(crate) fn leave_behind(&mut self, frame: FrameNo) {
        debug_assert!(self.slots[frame.index()].state == FrameState::Clean, "it is not stale so far");
        self.unlink(frame);
        self.become_stale(frame);
    }

    /// A frame that is in no list is stale from now on, the most recently used.
    pub(super) fn become_stale(&mut self, frame: FrameNo) {
        self.slots[frame.index()].state = FrameState::Stale;
        // Stale pages have a list of their own, so eviction never has to skip them
        // and cleaning finds the oldest at once.
        self.link(frame, SetList::Stale);
        self.stale += 1;
    }

    /// Returns true if an operation still fills the frame and its content will be usable when that ends.
    pub(crate) fn is_coming(&self, frame: FrameNo) -> bool {
        self.slots[frame.index()].state == FrameState::Filling && self.is_there(frame)
    }

    /// A frame that was [filled](Self::fill) has what the parity covers of its page from now on, and the page is
    /// stale; unless the device was lost meanwhile.
    pub(crate) fn comes_stale(&mut self, frame: FrameNo) -> bool {
        debug_assert!(self.slots[frame.index()].state == FrameState::Filling, "it is being filled");
        let there = self.is_there(frame);
        if there {
            self.slots[frame.index()].state = FrameState::Stale;
            self.link(frame, SetList::Stale);
            self.stale += 1;
        } else {
            self.release(frame);
        }
        there
    }

    /// A frame that was [taken](Self::take) has the newest version of a stale page that has been found
    /// by another so far. Only the version that the parity covers is kept beside it.
    pub(crate) fn renew(&mut self, stale: FrameNo, fresh: FrameNo) {
        // The device was lost while the operation wrote to it; the new frame holds
        // nothing.
        if !self.is_there(fresh) {
            return self.release(fresh);
        }
        let FrameSlot { page, partner, .. } = self.slots[stale.index()];
        self.remove(stale);
        self.unlink(stale);
        let covered = if partner == WayNo::NONE {
            self.slots[stale.index()].state = FrameState::Covered;
            self.way(stale)
        } else {
            // The previous newest version is covered by nothing and needed by
            // nobody. Only the one that the parity covers stays.
            self.stale -= 1;
            self.slots[stale.index()].partner = WayNo::NONE;
            self.discard(stale);
            partner
        };
        let slot = &mut self.slots[fresh.index()];
        (slot.page, slot.partner, slot.state) = (page, covered, FrameState::Stale);
        self.stale += 1;
        self.insert(fresh);
        self.link(fresh, SetList::Stale);
    }

    /// The parity covers the newest version of a stale page, which is in the frame that it is found by. It
    /// leaves when it would if it had never been stale.
    pub(crate) fn cover(&mut self, frame: FrameNo) {
        let partner = std::mem::replace(&mut self.slots[frame.index()].partner, WayNo::NONE);
        if partner != WayNo::NONE {
            self.stale -= 1;
            self.discard(self.neighbour(frame, partner));
        }
        self.become_clean(frame);
        // The page is now as on the members, so the log may name it; `leavo` logs
        // no page while it is stale.
        self.came(frame).into_iter().for_each(|came| self.arrives(came));
    }

    fn become_clean(&mut self, frame: FrameNo) {
        self.stale -= 1;
        self.unlink(frame);
        self.slots[frame.index()].state = FrameState::Clean;
        self.insert_by_use(frame);
    }

    /// As [`cover`](Self::cover), of a page that is not in the frame but made of what is there: the log is not to say
    /// that the frame has it, nor to be told so of what came before.
    pub(crate) fn cover_made(&mut self, frame: FrameNo) {
        self.become_clean(frame);
        // The frame holds the old version, and the page exists only together with
        // its delta. A start would take the frame's bytes for the page.
        self.leaves(frame);
        self.begin_fill(frame);
    }

    /// An operation is about to write a clean page, which is made of what is in its frame, to the frame; not if one
    /// reads that.
    pub(crate) fn rewrite(&mut self, frame: FrameNo) -> bool {
        debug_assert!(self.is_clean(frame), "nobody else writes it");
        // Another operation may be decoding from this frame. Rewriting it would
        // change the base under the delta.
        let free = self.slots[frame.index()].pins == 0;
        if free {
            self.slots[frame.index()].state = FrameState::Filling;
            self.begin_fill(frame);
            self.unlink(frame);
            self.leaves(frame);
        }
        free
    }

    /// Makes a rewritten frame clean and the first to leave, unless the device was lost meanwhile.
    pub(crate) fn rewritten(&mut self, frame: FrameNo) {
        if !self.is_there(frame) {
            return self.release(frame);
        }
        self.slots[frame.index()].state = FrameState::Clean;
        // It was cleaned because nobody wrote it for long, so it is not worth more
        // than other clean pages.
        self.make_oldest(frame);
        self.came(frame).into_iter().for_each(|came| self.arrives(came));
    }

    /// The page that is found by a frame.
    pub(crate) fn page(&self, frame: FrameNo) -> u64 {
        self.slots[frame.index()].page.get()
    }

    /// Has the table list frames that lose their content, because something else depends on it.
    pub(crate) fn note_shed(&mut self) {
        self.shed = Some(Vec::new());
    }

    /// A frame does not hold any more what it did.
    pub(super) fn sheds(&mut self, frame: FrameNo) {
        // A delta against a clean page's frame dies with the frame's content. `kdd`
        // drops such deltas when it takes this list.
        if let Some(shed) = &mut self.shed {
            shed.push(frame);
        }
    }

    /// One of the frames that do not hold any more what they did, of those that were not taken so far.
    pub(crate) fn take_shed(&mut self) -> Option<FrameNo> {
        self.shed.as_mut()?.pop()
    }

    /// The stale page of a set that was not used for longest, and each that was used after it, by the frame
    /// that it is found by, with the page.
    pub(crate) fn stale_of(&self, set: u32) -> impl Iterator<Item = u64> {
        self.of_list(set, SetList::Stale).map(|frame| self.page(frame))
    }
}
