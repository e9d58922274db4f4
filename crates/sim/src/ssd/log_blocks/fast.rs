//! FAST, fully-associative sector translation (Lee, Park, Chung, Lee, Park and Song, ACM TECS 2007;
//! specs §1.4): one log block for sequential writes, and the others for all blocks together.
//!
//! A write of a block's first page begins the sequential log block anew, after that of another
//! block, or an earlier one of the same, has been merged. The next page of the block that owns it
//! is appended. Any other write to the block that owns it has it merged first. All else is appended
//! to the youngest random log block; when all are full, the oldest is reclaimed: every block of
//! which it holds a valid page is merged in the order of these pages, and it is erased.
//!
//! Chosen where the paper says little:
//! * A page whose place in its data block is still erased is programmed there, whoever owns the
//!   sequential log block (the paper's test for a collision comes first).
//! * After a merge because of a write out of sequence the page itself goes to a random log block:
//!   the paper then takes a new sequential log block, which could not begin with this page.
//! * What a partial merge copies is the newest version of each page, which may lie in a random log
//!   block.
//! * If a block that has to be merged owns the sequential log block, that one is completed instead
//!   of a full merge: it is the same merge with fewer copies, and would otherwise leave a log block
//!   without valid pages behind.

use destage_plan::Nanos;

use super::{FlashPlace, LogBlocks, NONE};

impl LogBlocks {
    /// Returns the place of an overwrite. `None` means that a log block was reclaimed for it, and the caller
    /// looks for a place again.
    pub(super) fn place_in_fast(&mut self, now: Nanos, block: u32, offset: u32, first: u32) -> Option<FlashPlace> {
        let own = self.own_log[block as usize];
        if own != NONE {
            // Only the next page in sequence keeps the log block fit for a switch.
            if self.logs[own as usize].written == offset {
                return Some(FlashPlace::given(self.append(own, offset)));
            }
            self.reclaim_own(now, own);
            return None;
        }
        if offset == 0 {
            Some(self.begin_sequential(now, block, first))
        } else {
            self.append_random(now, offset, first)
        }
    }

    fn begin_sequential(&mut self, now: Nanos, block: u32, first: u32) -> FlashPlace {
        let element = self.candidates(first).find(|&element| {
            let present = self.sequential[element as usize];
            if present != NONE {
                self.reclaim_own(now, present);
            }
            self.has_room(element)
        });
        let element = element.expect("the reserve leaves room for the log blocks");
        let log = self.begin_log(element, block);
        self.own_log[block as usize] = log;
        self.sequential[element as usize] = log;
        FlashPlace::chosen(self.append(log, 0))
    }

    fn append_random(&mut self, now: Nanos, offset: u32, first: u32) -> Option<FlashPlace> {
        // One of the log blocks is the sequential one.
        let most = self.shape.log_blocks - 1;
        for element in self.candidates(first) {
            if let Some(open) = self.queues.back(element)
                && self.logs[open as usize].written < self.shape.pages_per_block
            {
                return Some(FlashPlace::chosen(self.append(open, offset)));
            }
            let has_room = self.has_room(element);
            if let Some(oldest) = self.queues.front(element)
                && (self.queues.len(element) == most || !has_room)
            {
                self.reclaim_random(now, oldest);
                // The merges may have changed where this page belongs, so its place is looked for again.
                return None;
            }
            if has_room {
                let log = self.begin_log(element, NONE);
                self.queues.push_back(element, log);
                return Some(FlashPlace::chosen(self.append(log, offset)));
            }
        }
        unreachable!("the reserve leaves room for the log blocks")
    }

    /// Merges every block of which a random log block holds a valid page, and erases it.
    fn reclaim_random(&mut self, now: Nanos, victim: u32) {
        let element = self.flash.element_of(victim);
        self.queues.remove(element, victim);
        for place in 0..self.shape.pages_per_block {
            let page = self.flash.page(victim, place);
            // Each merge empties further pages of the victim, so a page is tested when its turn comes.
            let Some(logical) = self.flash.held(page).filter(|&held| self.map[held as usize] == page) else { continue };
            let block = self.by_pages_per_block.divide(logical).0;
            let own = self.own_log[block as usize];
            if own == NONE {
                // Where the data block was, so that each element gets back at once what it gives.
                let element = self.flash.element_of(self.data[block as usize]);
                self.merge_fully(block, element);
            } else {
                self.let_go(own);
                self.promote(own);
            }
        }
        self.erase(victim);
        self.finish(now, element);
    }
}
