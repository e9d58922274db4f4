//! BAST, block-associative sector translation (Kim, Kim, Noh, Min and Cho, IEEE Transactions on
//! Consumer Electronics 2002; specs §1.4): every logical block that is overwritten has a log block
//! of its own.
//!
//! A write goes to its block's log block, which is begun if there is none. When the log block is
//! full it is merged before the next write to it; when all log blocks of an element are in use, the
//! one that was written least recently is. A log block is written from its first page on, so that
//! it holds its block's pages in order only if they came in order.

use destage_plan::Nanos;

use super::{FlashPlace, LogBlocks, NONE};

impl LogBlocks {
    /// Returns the place of an overwrite. `None` means that a log block was reclaimed for it, and the caller
    /// looks for a place again.
    pub(super) fn place_in_bast(&mut self, now: Nanos, block: u32, offset: u32, first: u32) -> Option<FlashPlace> {
        let log = self.own_log[block as usize];
        if log != NONE {
            if self.logs[log as usize].written == self.shape.pages_per_block {
                self.reclaim_own(now, log);
                return None;
            }
            // The queue is ordered by the last write: BAST reclaims the log block written least recently.
            self.queues.move_to_back(self.flash.element_of(log), log);
            return Some(FlashPlace::given(self.append(log, offset)));
        }
        let most = self.shape.log_blocks;
        let element = self.candidates(first).find(|&element| {
            if self.queues.len(element) == most
                && let Some(oldest) = self.queues.front(element)
            {
                self.reclaim_own(now, oldest);
            }
            self.has_room(element)
        });
        let element = element.expect("the reserve leaves room for the log blocks");
        let log = self.begin_log(element, block);
        self.own_log[block as usize] = log;
        self.queues.push_back(element, log);
        Some(FlashPlace::chosen(self.append(log, offset)))
    }
}
