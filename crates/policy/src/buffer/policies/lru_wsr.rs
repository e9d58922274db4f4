//! LRU-WSR, LRU with write sequence reordering (Jung et al., TCE 2008; specs §4.4).
//!
//! Idea: LRU in which a dirty page gets a second chance before it is written. The page at the LRU
//! end leaves if it is clean, or dirty and marked as cold; a dirty page that is not cold is marked
//! and goes to the front. A hit takes the mark away.
//!
//! Resolved: a page that became clean in its place (by a flush) leaves as any clean page, marked or
//! not. Reads are cached by default, see [`READS`]. Under a veto a page that is passed over stays
//! where it is, and dirty pages in front of the victim get their second chances; if all are passed
//! over no page gets one.
//!
//! Memory accesses: the lookup, and the page that is moved to the front with its mark, one each;
//! for a victim every page inspected, itself included, and again those that get their second
//! chance. A veto adds none.
//!
//! Each page gets one second chance between uses, so a victim is found in O(1) amortised. Under a
//! veto the search goes twice over the list, as the scan would: for pages that are clean or cold,
//! then for those that had a second chance.

use destage_plan::Params;

use crate::buffer::list_buffer::{BufferedPages, ListPolicy, RECENT};
use crate::buffer::options::READS;
use crate::buffer::page_lists::ListFrame;
use crate::buffer::{BufferConfig, EvictionUnit, PolicyError, PolicyInfo};

/// The turns of a search under a veto: for pages that are clean or cold, then for those that had a
/// second chance.
const FIRST_TURN: usize = 0;

/// LRU with write sequence reordering.
#[derive(Clone, Debug)]
pub(super) struct LruWsr;

/// Returns true if the scan gives the page a second chance.
#[inline]
fn is_spared(frame: &ListFrame) -> bool {
    frame.dirty && !frame.cold
}

impl ListPolicy for LruWsr {
    const INFO: PolicyInfo = PolicyInfo {
        name: "lru-wsr",
        title: "LRU with a second chance for dirty pages",
        about: "LRU in which a dirty page gets a second chance before it is written: when its turn comes it is \
                marked as cold and goes to the front, and it leaves when its turn comes again without a hit in \
                between. Clean pages leave at once.",
        paper: "LRU-WSR, TCE 2008, as described by CAWR §II",
        year: 2008,
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS],
    };

    const TURNS: &'static [u32] = &[RECENT, RECENT];

    fn with_params(_config: BufferConfig, _params: &Params) -> Result<Self, PolicyError> {
        Ok(Self)
    }

    #[inline]
    fn mark_used(&self, frame: &mut ListFrame) {
        frame.cold = false;
    }

    #[inline]
    fn published_victim(&mut self, pages: &mut BufferedPages) -> Option<u32> {
        loop {
            let last = pages.lists.least_recent(RECENT)?;
            if !is_spared(pages.lists.frame(last)) {
                return Some(last);
            }
            pages.move_on(RECENT, last);
        }
    }

    #[inline]
    fn may_leave(&self, turn: usize, frame: &ListFrame) -> bool {
        turn != FIRST_TURN || !is_spared(frame)
    }

    fn chosen(&mut self, pages: &mut BufferedPages, _turn: usize, _frame: u32) {
        // The published search gives a second chance to every page that it goes over, also under a veto.
        pages.move_passed(FIRST_TURN, |frame| is_spared(frame).then_some(RECENT));
    }
}
