//! LRU over pages (specs §4.1).
//!
//! Idea: one list from most to least recently used; a hit moves the page to the front, the last
//! page leaves. A clean page leaves at no cost, a dirty one is written.
//!
//! Resolved: reads are cached by default, as in every read-write buffer of the papers;
//! `reads=bypass` makes a write buffer, in which a read hit still counts as a use.

use destage_plan::Params;

use crate::buffer::list_buffer::{BufferedPages, ListPolicy, RECENT};
use crate::buffer::options::READS;
use crate::buffer::{BufferConfig, EvictionUnit, PolicyError, PolicyInfo};

/// Least recently used.
#[derive(Clone, Debug)]
pub(super) struct Lru;

impl ListPolicy for Lru {
    const INFO: PolicyInfo = PolicyInfo {
        name: "lru",
        title: "least recently used page",
        about: "All pages stand in one list in the order of their last use, and the page at its end leaves. A clean \
                page leaves at no cost, a dirty one is written to flash.",
        paper: "baseline of GCaR and CAWR",
        year: 1970,
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS],
    };

    fn with_params(_config: BufferConfig, _params: &Params) -> Result<Self, PolicyError> {
        Ok(Self)
    }

    /// A flush ends all objections, those to clean pages too.
    fn before_flush(&mut self, pages: &mut BufferedPages) {
        pages.resume_all();
    }

    #[inline]
    fn published_victim(&mut self, pages: &mut BufferedPages) -> Option<u32> {
        pages.lists.least_recent(RECENT)
    }
}
