//! A logical block: the set of its buffered pages.

use std::collections::BTreeMap;
use std::fmt;

/// A logical block with at least one buffered page.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) number: u32,
    /// Buffered page → dirty.
    pub(crate) pages: BTreeMap<u32, bool>,
    /// The recency bit of the policies that have one.
    pub(crate) recent: bool,
    /// Offsets written since the block entered the buffer, in the order of the writes.
    pub(crate) written: Vec<u32>,
    /// Is true if the block has lost a page to a trim.
    pub(crate) trimmed: bool,
}

impl Block {
    pub(crate) fn new(number: u32) -> Self {
        Self { number, pages: BTreeMap::new(), recent: false, written: Vec::new(), trimmed: false }
    }

    pub(crate) fn holds(&self, page: u32) -> bool {
        self.pages.contains_key(&page)
    }

    /// The buffered pages that are dirty (or clean), ascending.
    pub(crate) fn pages_that_are(&self, dirty: bool) -> Vec<u32> {
        self.pages.iter().filter(|(_, d)| **d == dirty).map(|(page, _)| *page).collect()
    }

    /// The pages of the block that are not buffered, ascending.
    pub(crate) fn missing(&self, pages_per_block: u32) -> Vec<u32> {
        let first = self.number * pages_per_block;
        (first..first + pages_per_block).filter(|page| !self.holds(*page)).collect()
    }
}

/// `B2{8,9}`, as the tables write it.
impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pages: Vec<_> = self.pages.keys().map(u32::to_string).collect();
        write!(f, "B{}{{{}}}", self.number, pages.join(","))
    }
}
