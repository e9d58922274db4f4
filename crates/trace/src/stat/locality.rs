//! Measures how a trace returns to pages and blocks: reuse distances, and how blocks are filled.
//!
//! The reuse distance of a touch is the number of other pages (or blocks) touched since the same one was
//! touched last; an LRU list of more than that holds it still (R. L. Mattson et al., "Evaluation techniques
//! for storage hierarchies", IBM Systems Journal 9(2), 1970). The pages that a request touches in one block
//! are one touch of the block.
//!
//! A block *stays* from a touch that does not find it in an LRU list of so many blocks until it leaves the
//! list, or the trace ends. The pages touched meanwhile are those that a buffer of whole blocks would have to
//! write: the block's *fill*.
//!
//! Memory is proportional to the pages and blocks touched, 30 to 60 B for a page and 130 to 250 B for a
//! block; a touch takes O(log n) time.

use destage_plan::{Op, PageGeometry, Request};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::pages::LONG_PAGES;
use super::recency::RecencyStack;

/// Pages in a block: what an erase block holds in most of the papers.
pub const LOCALITY_BLOCK_PAGES: u32 = 64;
/// Lists, in blocks, whose stays are counted.
pub const LOCALITY_LISTS: [u32; LISTS] = [4, 16, 64, 256, 1024, 4096];
/// Upper bounds, inclusive, of the classes of [`BlockFill::classes`], in pages.
pub const LOCALITY_FILL_CLASSES: [u32; CLASSES] = [1, 2, 4, 8, 16, 32, 63, 64];

const LISTS: usize = 6;
const CLASSES: usize = 8;
/// Pages that are told apart at most: up to 4 GB.
const MAX_PAGES: usize = 1 << 26;

/// Selects the requests that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalityOf {
    /// Writes: what a write buffer sees.
    Writes,
    /// Reads.
    Reads,
    /// Both.
    Both,
}

impl LocalityOf {
    const fn has(self, op: Op) -> bool {
        match op {
            Op::Write => !matches!(self, Self::Reads),
            Op::Read => !matches!(self, Self::Writes),
            Op::Discard | Op::Flush => false,
        }
    }
}

/// More pages than there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {MAX_PAGES} different pages are touched; larger pages are fewer")]
pub struct TooManyPages;

/// Collects the locality of a trace.
pub struct LocalityCollector {
    geometry: PageGeometry,
    of: LocalityOf,
    pages: TouchedThings,
    blocks: TouchedThings,
    page_reuse: ReuseCounts,
    block_reuse: ReuseCounts,
    /// Of each block, the stay in each list.
    stays: Vec<[ListStay; LISTS]>,
    fills: [BlockFill; LISTS],
    long_requests: u64,
}

/// The locality of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalitySummary {
    /// Reuse of pages.
    pub pages: ReuseCounts,
    /// Reuse of blocks of [`LOCALITY_BLOCK_PAGES`] pages.
    pub blocks: ReuseCounts,
    /// Fill of blocks, for each of [`LOCALITY_LISTS`].
    pub fills: [BlockFill; LISTS],
    /// Requests of 65,536 pages and more, which are left out.
    pub long_requests: u64,
}

/// Counts touches, by the number of others since the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReuseCounts {
    /// Touches, the first ones included.
    pub touches: u64,
    /// Touches of what was not touched before: how many different pages or blocks there are.
    pub first: u64,
    /// Item k: touches whose distance is 0 (k = 0), or at least `2^(k-1)` and less than `2^k`. Ends
    /// with the last that is not 0.
    pub distances: Vec<u64>,
}

impl ReuseCounts {
    fn count(&mut self, distance: Option<u32>) {
        self.touches += 1;
        let Some(distance) = distance else {
            self.first += 1;
            return;
        };
        let class = (u32::BITS - distance.leading_zeros()) as usize;
        if class >= self.distances.len() {
            self.distances.resize(class + 1, 0);
        }
        self.distances[class] += 1;
    }

    /// Touches that an LRU list of `2^k` pages or blocks holds, in percent of all; 0 of nothing.
    pub fn hit_percent(&self, k: usize) -> f64 {
        super::percent(self.distances.iter().take(k + 1).sum(), self.touches)
    }
}

/// Counts the touches of blocks while they are in an LRU list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockFill {
    /// Stays.
    pub stays: u64,
    /// Different pages touched in a stay, summed over all.
    pub pages: u64,
    /// Touches of the block in a stay (one for each request), summed over all.
    pub touches: u64,
    /// Stays by their pages: up to so many as [`LOCALITY_FILL_CLASSES`] says, and more than the
    /// class before.
    pub classes: [u64; CLASSES],
}

impl BlockFill {
    /// Mean pages touched in a stay; 0 of none.
    pub fn mean_pages(&self) -> f64 {
        if self.stays == 0 { 0.0 } else { self.pages as f64 / self.stays as f64 }
    }

    /// Mean touches of the block in a stay; 0 of none.
    pub fn mean_touches(&self) -> f64 {
        if self.stays == 0 { 0.0 } else { self.touches as f64 / self.stays as f64 }
    }

    /// The classes in percent of the stays.
    pub fn class_percent(&self) -> [f64; CLASSES] {
        self.classes.map(|n| super::percent(n, self.stays))
    }

    fn end(&mut self, stay: ListStay) {
        let pages = stay.pages.count_ones();
        self.stays += 1;
        self.pages += u64::from(pages);
        self.touches += stay.touches;
        self.classes[LOCALITY_FILL_CLASSES.partition_point(|&bound| bound < pages)] += 1;
    }
}

/// A block's stay in a list; no page is touched if there is none.
#[derive(Clone, Copy, Default)]
struct ListStay {
    /// The pages touched, a bit for each.
    pages: u64,
    touches: u64,
}

impl LocalityCollector {
    /// The locality of these requests in pages of this geometry; its blocks do not matter.
    pub fn new(geometry: PageGeometry, of: LocalityOf) -> Self {
        Self {
            geometry,
            of,
            pages: TouchedThings::default(),
            blocks: TouchedThings::default(),
            page_reuse: ReuseCounts::default(),
            block_reuse: ReuseCounts::default(),
            stays: vec![],
            fills: [BlockFill::default(); LISTS],
            long_requests: 0,
        }
    }

    /// Counts the trace's next requests.
    ///
    /// # Errors
    /// 2^26 different pages are touched, and one more.
    pub fn feed(&mut self, requests: &[Request]) -> Result<(), TooManyPages> {
        let of = self.of;
        for request in requests.iter().filter(|request| of.has(request.op)) {
            let split = self.geometry.split(request.offset, request.len);
            // One request of so many pages would fill the memory, and tells nothing of locality.
            if split.pages >= LONG_PAGES {
                self.long_requests += 1;
                continue;
            }
            let (mut page, stop) = (split.first, split.first + split.pages);
            while page < stop {
                let block = page / BLOCK_PAGES;
                let end = stop.min((block + 1) * BLOCK_PAGES);
                let bits = (u64::MAX >> (BLOCK_PAGES - (end - page))) << (page % BLOCK_PAGES);
                self.touch_block(request.volume, block, bits);
                for page in page..end {
                    let (_, distance) = self.pages.touch((request.volume, page));
                    self.page_reuse.count(distance);
                }
                page = end;
            }
            if self.pages.len() > MAX_PAGES {
                return Err(TooManyPages);
            }
        }
        Ok(())
    }

    /// A request touches these pages of a block.
    fn touch_block(&mut self, volume: u32, block: u64, bits: u64) {
        let (number, distance) = self.blocks.touch((volume, block));
        self.block_reuse.count(distance);
        if distance.is_none() {
            self.stays.push([ListStay::default(); LISTS]);
        }
        let lists = LOCALITY_LISTS.iter().zip(&mut self.fills);
        for (stay, (&list, fill)) in self.stays[number].iter_mut().zip(lists) {
            // With so many others since, an LRU list of this length no longer holds the block.
            if distance.is_some_and(|distance| distance >= list) {
                fill.end(std::mem::take(stay));
            }
            stay.pages |= bits;
            stay.touches += 1;
        }
    }

    /// The locality of everything fed.
    pub fn finish(mut self) -> LocalitySummary {
        for stays in &self.stays {
            // Stays that the end of the trace cuts count too, or blocks used all along would be missing.
            for (fill, &stay) in self.fills.iter_mut().zip(stays) {
                fill.end(stay);
            }
        }
        LocalitySummary {
            pages: self.page_reuse,
            blocks: self.block_reuse,
            fills: self.fills,
            long_requests: self.long_requests,
        }
    }
}

const BLOCK_PAGES: u64 = LOCALITY_BLOCK_PAGES as u64;

/// The recency of things, which are numbered in the order of their first touches.
#[derive(Default)]
struct TouchedThings {
    numbers: HashMap<(u32, u64), u32, FixedState>,
    recency: RecencyStack,
}

impl TouchedThings {
    fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The number of the thing touched, and how many others were touched since its last touch, if there was one.
    fn touch(&mut self, thing: (u32, u64)) -> (usize, Option<u32>) {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(thing).or_insert(next) as usize;
        (number, self.recency.touch(number))
    }
}
