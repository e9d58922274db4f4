//! CCF-LRU, cold-clean-first LRU (Li et al., TCE 2009; CAWR §II; specs §4.5).
//!
//! Idea: clean pages leave before dirty ones and cold before hot ones, hot being what was used
//! again or is dirty and has not had its second chance. Pages read once stand in a list of their
//! own, the cold clean list, and leave first. If it is empty the mixed list is scanned from its LRU
//! end: a cold page leaves, a hot dirty one becomes cold and goes to the front, a hot clean one
//! becomes cold and goes to the cold clean list. Any hit makes a page hot, at the front of the
//! mixed list.
//!
//! Parameters: `new_clean_to`, where a page enters by a read: the cold clean list (`ccl`), or as a
//! hot page the mixed list (`mixed`), as CAWR lets it enter the working list (specs §10.7 D12);
//! `new_dirty_cold`, whether a page enters cold by a write (no, so that each dirty page gets its
//! second chance, as CAWR describes); `hot_clean`, what becomes of a hot clean page that the scan
//! meets: it leaves at once, as the first of the cold clean list (`evict`), or the scan goes on to
//! a dirty victim and the page leaves at a later eviction (`spare`); `reads`. Public
//! implementations differ in both; the defaults are those of the specification.
//!
//! Resolved: where `spare` leaves nothing in the mixed list the cold clean list is taken. A page
//! that becomes clean in its place (by a flush) stays there, hot or cold as it was. Under a veto
//! what is passed over keeps its place, and the pages that the scan meets on its way to the victim
//! become cold and are moved, vetoed or not; if all are passed over none is.
//!
//! Memory accesses: the lookup and the page put at the front, one each; for a victim every page
//! inspected, itself included, and again those that the scan moves. A veto adds none.
//!
//! A page becomes cold once between uses, so a victim is found in O(1) amortised.

use destage_plan::{ParamSpec, Params};

use crate::buffer::list_buffer::{BufferedPages, ListPolicy, RECENT};
use crate::buffer::options::{NEW_CLEAN_TO, READS};
use crate::buffer::page_lists::{ListFrame, PageLists};
use crate::buffer::{BufferConfig, EvictionUnit, PageAccess, PolicyError, PolicyInfo};

/// The mixed list.
const MIXED: u32 = RECENT;
/// The cold clean list.
const COLD_CLEAN: u32 = 1;

/// The turns of a search under a veto, which goes where the scan would, as often as that would meet
/// a page: to cold clean pages, to those of the mixed list that the scan would choose, to the hot
/// dirty ones that it turned cold, and to the clean ones that it spared.
const OF_COLD_CLEAN: usize = 0;
const OF_MIXED: usize = 1;
const OF_DIRTY: usize = 2;

/// Cold-clean-first LRU.
#[derive(Clone, Debug)]
pub(super) struct CcfLru {
    new_clean_to: u32,
    is_new_dirty_cold: bool,
    is_hot_clean_evicted: bool,
}

const NEW_DIRTY_COLD: ParamSpec = ParamSpec {
    name: "new_dirty_cold",
    default: "false",
    values: "true, false",
    unit: "-",
    help: "whether a written page enters cold, that is without a second chance; public implementations differ",
};

const HOT_CLEAN: ParamSpec = ParamSpec {
    name: "hot_clean",
    default: "evict",
    values: "evict, spare",
    unit: "-",
    help: "whether a hot clean page met by the scan leaves at once or only becomes cold; public implementations differ",
};

/// Returns the list to which the scan moves a page that it meets, if it is hot.
#[inline]
fn list_after_scan(frame: &ListFrame) -> Option<u32> {
    (!frame.cold).then_some(if frame.dirty { MIXED } else { COLD_CLEAN })
}

impl ListPolicy for CcfLru {
    const INFO: PolicyInfo = PolicyInfo {
        name: "ccf-lru",
        title: "cold clean pages first, then cold dirty ones",
        about: "Pages that were read once stand in a list of their own and leave first. The others are scanned from \
                the end of an LRU list: a cold page leaves, a hot dirty one becomes cold and gets a second chance, \
                and a hot clean one joins those that leave first.",
        paper: "CCF-LRU, TCE 2009, as described by CAWR §II",
        year: 2009,
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS, NEW_CLEAN_TO, NEW_DIRTY_COLD, HOT_CLEAN],
    };

    const LISTS: u32 = 2;

    const TURNS: &'static [u32] = &[COLD_CLEAN, MIXED, MIXED, MIXED];

    fn with_params(_config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        Ok(Self {
            new_clean_to: params.choice(NEW_CLEAN_TO.name, &[("ccl", COLD_CLEAN), ("mixed", MIXED)])?,
            is_new_dirty_cold: params.switch(NEW_DIRTY_COLD.name)?,
            is_hot_clean_evicted: params.choice(HOT_CLEAN.name, &[("evict", true), ("spare", false)])?,
        })
    }

    #[inline]
    fn insert(&self, lists: &mut PageLists, access: PageAccess) {
        let list = if access.write { MIXED } else { self.new_clean_to };
        let frame = lists.insert(list, access.page, access.write);
        lists.frame_mut(frame).cold = if access.write { self.is_new_dirty_cold } else { list == COLD_CLEAN };
    }

    #[inline]
    fn mark_used(&self, frame: &mut ListFrame) {
        frame.cold = false;
    }

    #[inline]
    fn published_victim(&mut self, pages: &mut BufferedPages) -> Option<u32> {
        let first = pages.lists.least_recent(COLD_CLEAN);
        if first.is_some() {
            return first;
        }
        while let Some(last) = pages.lists.least_recent(MIXED) {
            let &own @ ListFrame { dirty, .. } = pages.lists.frame(last);
            let Some(list) = list_after_scan(&own) else { return Some(last) };
            pages.move_on(list, last);
            if !dirty && self.is_hot_clean_evicted {
                return Some(last);
            }
        }
        // What the scan moved there, if anything.
        pages.lists.least_recent(COLD_CLEAN)
    }

    #[inline]
    fn may_leave(&self, turn: usize, frame: &ListFrame) -> bool {
        match turn {
            OF_MIXED => frame.cold || !frame.dirty && self.is_hot_clean_evicted,
            OF_DIRTY => frame.dirty,
            _ => true,
        }
    }

    fn chosen(&mut self, pages: &mut BufferedPages, turn: usize, frame: u32) {
        if turn == OF_COLD_CLEAN {
            return;
        }
        let &ListFrame { dirty, cold, .. } = pages.lists.frame(frame);
        pages.move_passed(OF_MIXED, list_after_scan);
        if !cold && !dirty && self.is_hot_clean_evicted {
            pages.move_on(COLD_CLEAN, frame);
        }
    }
}
