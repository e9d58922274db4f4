//! Dirty pages that writes past the cache have replaced: the members have newer versions, and the log still says that the
//! frames do.
//!
//! After a crash the log is believed, so it must say of such a page what the host was promised:
//!
//! * Until the members have the newer version durably, the frame stays as it is and the log goes on to say that the page is
//!   dirty. A crash leaves the dirty version, which may be all that a flush of the host has covered.
//! * Then the log is told that the frame is free. A flush of the host waits for that: else a crash could bring the dirty version
//!   back over the one that the flush covered.
//! * Until that is logged nothing of the page enters the cache. So a frame that is told of as free is the only one that the log
//!   names for its page.
//!
//! A write that has to be durable when it is answered passes no dirty page.

use std::collections::VecDeque;

use destage_plan::{Frag, Out};
use destage_raid::array::RaidArray;
use foldhash::fast::FixedState;
use hashbrown::HashSet;

use super::WriteBack;
use crate::ssd::frames::{FrameNo, FrameTable};

/// Keeps the dirty pages that were passed by, oldest first, until the log says that their frames are free.
#[derive(Default)]
pub(super) struct PassedPages {
    /// Holds those that no round of flushes covers, those that the round under way does, and those that are durable.
    written: Vec<(u64, FrameNo)>,
    flushing: Vec<(u64, FrameNo)>,
    durable: VecDeque<(u64, FrameNo)>,
    /// Holds all of these pages.
    pages: HashSet<u64, FixedState>,
    /// Counts the pages so far.
    count: u64,
    /// Holds the host's flushes that wait, each with the count of pages when it came.
    flushes: VecDeque<(Frag, u64)>,
    /// Is true if a flush of the array is opened for them and has not begun.
    is_flush_opened: bool,
}

impl PassedPages {
    /// Adds a page whose newer version the members have, perhaps not durably.
    pub(super) fn add(&mut self, page: u64, frame: FrameNo) {
        self.written.push((page, frame));
        self.pages.insert(page);
        self.count += 1;
    }

    /// Returns true if the log still says that a frame has this page.
    pub(super) fn contains(&self, page: u64) -> bool {
        !self.pages.is_empty() && self.pages.contains(&page)
    }

    /// Returns true if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Returns true if there are none, and no flush waits.
    pub(super) fn is_at_rest(&self) -> bool {
        self.pages.is_empty() && self.flushes.is_empty()
    }

    /// Returns the pages of which the members may not have the newer version durably.
    pub(super) fn volatile(&self) -> impl Iterator<Item = u64> {
        self.flushing.iter().chain(&self.written).map(|(page, _)| *page)
    }

    /// Keeps a flush of the host waiting that covers any of them. Returns true if it does.
    pub(super) fn keeps_waiting(&mut self, flush: &Frag) -> bool {
        let waits = !self.is_at_rest();
        if waits {
            self.flushes.push_back((*flush, self.count));
        }
        waits
    }

    /// Takes that a round of flushes begins, which covers all of them.
    pub(super) fn flush_begins(&mut self) {
        // Pages that come during the round need another one: the round may have
        // flushed their member before.
        self.flushing.append(&mut self.written);
        self.is_flush_opened = false;
    }

    /// Takes that the round has ended: what it covers is durable if it `is_whole`, and the log can be told so.
    pub(super) fn flushed(&mut self, is_whole: bool, frames: &mut FrameTable) {
        if is_whole {
            // The members have the newer versions durably, so the log may drop the
            // dirty ones now.
            self.flushing.iter().for_each(|(_, frame)| frames.retract(*frame));
            self.durable.extend(self.flushing.drain(..));
        } else {
            // A failed round proves nothing, so its pages wait for the next one
            // with the others, oldest first.
            self.flushing.append(&mut self.written);
            std::mem::swap(&mut self.flushing, &mut self.written);
        }
    }

    /// Forgets those of which the log says that their frames are free.
    pub(super) fn forget_logged(&mut self, frames: &FrameTable) {
        while let Some((page, _)) = self.durable.pop_front_if(|(_, frame)| !frames.is_left(*frame)) {
            self.pages.remove(&page);
        }
    }

    /// Returns a flush of the host that waits for none of them any more.
    fn next_flush(&mut self, waits: bool) -> Option<Frag> {
        // The count of logged pages stands for those up to a moment, since they are
        // logged in their order.
        let logged = self.count - self.pages.len() as u64;
        // With too much lost nothing is flushed any more; waiting would never end.
        let next = self.flushes.pop_front_if(|(_, count)| !waits || *count <= logged);
        next.map(|(flush, _)| flush)
    }

    /// Forgets all of them: the device is lost, and its log with it.
    pub(super) fn lose(&mut self) {
        self.written.clear();
        self.flushing.clear();
        self.durable.clear();
        self.pages.clear();
    }
}

impl WriteBack {
    /// Goes on with pages that were passed by: has the members flushed where anybody waits for them, or there are many, and
    /// lets flushes of the host go on.
    pub(super) fn retract_passed(&mut self, array: &mut RaidArray, out: &mut Out) {
        if self.passed.is_at_rest() {
            return;
        }
        while let Some(flush) = self.passed.next_flush(!self.broken) {
            array.open_flush(Some(&flush), out);
        }
        // A quarter of the frames may be bound by such pages before a flush is made
        // for them alone.
        let most = self.frames().len() as usize / 4;
        let passed = &self.passed;
        let is_wanted = !passed.flushes.is_empty() || !self.entering.is_empty() || passed.written.len() > most;
        let hurries = is_wanted || array.is_cleaning() || self.settles || self.dirty.is_draining();
        // One flush at a time: a second one while the first is opened would make
        // nothing durable that the first does not.
        if hurries && !passed.written.is_empty() && !passed.is_flush_opened && !self.broken {
            self.passed.is_flush_opened = true;
            array.open_flush(None, out);
        }
    }
}
