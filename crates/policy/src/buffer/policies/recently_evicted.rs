//! REF, recently-evicted-first (Seo and Shin, TCE 2008; CAWR §II; specs §4.6).
//!
//! Idea: pages of one logical block that reach the flash one after the other share a log block, and
//! merging it later costs less. Of the pages at the LRU end, the window, one of a block from which
//! a page was evicted recently leaves first.
//!
//! Parameters: `vw`, the window as a share of the capacity (0.5), rounded up to pages; `nvb`, the
//! most victim blocks (1; of a hybrid FTL the number of its log blocks); `new_vb`, where the next
//! victim block comes from if the window has no page of one: it is the block of the least recently
//! used page (`lru_page`), or that with the most pages in the window (`most_pages_in_vw`); `reads`.
//!
//! Resolved, with low confidence, since the paper's text was not at hand: the victim is the page of
//! a victim block that is nearest the LRU end. A new victim block takes the place of the one that
//! came first; being used does not renew one. Of blocks with equally many pages in the window that
//! is taken whose number there changed least recently, and of its pages the one nearest the LRU
//! end. Clean and dirty are not distinguished, as CAWR says, so that reads must be thought of as
//! cached: they are by default, and a read hit is a use; `reads=bypass` makes a write buffer.
//! Write-backs and trims are no evictions and make no victim block. Under a veto pages that are
//! passed over still count for the window; once those of victim blocks are vetoed, and with
//! `most_pages_in_vw` all pages of the window block by block, all pages are candidates from the LRU
//! end on, those beyond the window too.
//!
//! Memory accesses: the lookup and the move to the front, one each; for a victim each victim block,
//! whose pages in the window are thought of as listed, and the page itself. A veto adds none.
//!
//! The window's pages stand in a list per block, so a victim takes a comparison per victim block.
//! Under a veto the vetoed pages of the victim blocks are met again, and with `most_pages_in_vw`
//! the blocks of which all pages are vetoed.

use std::collections::VecDeque;

use destage_plan::{ParamSpec, Params};

use crate::buffer::list_buffer::{BufferedPages, ListPolicy, OWN_MARK, RECENT};
use crate::buffer::options::READS;
use crate::buffer::page_lists::PageLists;
use crate::buffer::parking::LinkedList as _;
use crate::buffer::searched::PARKED;
use crate::buffer::share;
use crate::buffer::size_set::SizeSet;
use crate::buffer::{BufferConfig, EvictionUnit, EvictionVeto, PolicyError, PolicyInfo};
use crate::links::NodeLinks;

/// The bit of a frame's tag that says that the page is in the window.
const IN_WINDOW: u16 = OWN_MARK;

const MOST_VICTIMS: u32 = 65_536;

/// The place of a frame of the window among those of its block.
#[derive(Clone, Copy, Debug, Default)]
struct WindowSeat {
    /// The frames of the block that entered the window next and last before it, 0 if there is none.
    newer: u32,
    older: u32,
    /// Counts the frames that had entered the window before; the window's order is that of entering.
    entered: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct WindowBlock {
    /// Holds the block's newest frame in the window, 0 if there is none.
    newest: u32,
    oldest: u32,
    count: u32,
    is_victim: bool,
}

/// The blocks with pages in the window by the number of those.
#[derive(Clone, Debug)]
struct BlocksBySize {
    pages_per_block: u32,
    /// Node `size` is the sentinel of the list of blocks of that size, the one changed last at the
    /// front; node `pages_per_block + 1 + block` is the block.
    lists: NodeLinks,
    in_use: SizeSet,
}

impl BlocksBySize {
    fn new(pages_per_block: u32) -> Self {
        Self { pages_per_block, lists: NodeLinks::new(pages_per_block + 1), in_use: SizeSet::new(pages_per_block) }
    }

    fn changed(&mut self, block: u32, before: u32, now: u32) {
        let node = self.pages_per_block + 1 + block;
        self.lists.unlink(node);
        if self.lists.next(before) == before {
            self.in_use.remove(before);
        }
        if now > 0 {
            self.lists.insert_after(now, node);
            self.in_use.insert(now);
        }
    }

    /// The blocks in the order in which they become victim blocks.
    fn blocks(&self) -> impl Iterator<Item = u32> {
        let sizes = std::iter::successors(self.in_use.largest(), |&size| self.in_use.largest_below(size));
        sizes.flat_map(|size| {
            let nodes = std::iter::successors(Some(self.lists.prev(size)), |&node| Some(self.lists.prev(node)));
            nodes.take_while(move |&node| node != size).map(|node| node - self.pages_per_block - 1)
        })
    }
}

/// Recently evicted first.
#[derive(Clone, Debug)]
pub(super) struct RecentlyEvicted {
    pages_per_block: u32,
    /// Pages in the window when there are enough, and now.
    window: u32,
    in_window: u32,
    /// The most recently used frame of the window, [`RECENT`] if it is empty.
    boundary: u32,
    /// Frames that have entered the window.
    entered: u64,
    /// Frame → its seat.
    seats: Vec<WindowSeat>,
    blocks: Vec<WindowBlock>,
    /// With `most_pages_in_vw`.
    sizes: Option<BlocksBySize>,
    /// The victim blocks, the first to come at the front, and the most there may be.
    victims: VecDeque<u32>,
    most_victims: u32,
}

const VW: ParamSpec = ParamSpec {
    name: "vw",
    default: "0.5",
    values: "a share of the capacity from 0 to 1 with up to six decimals",
    unit: "share of the capacity",
    help: "the pages at the LRU end of which those of victim blocks leave first",
};

const NVB: ParamSpec = ParamSpec {
    name: "nvb",
    default: "1",
    values: "a number of blocks from 1 to 65536",
    unit: "blocks",
    help: "the most victim blocks, such as the log blocks of a hybrid FTL",
};

const NEW_VB: ParamSpec = ParamSpec {
    name: "new_vb",
    default: "lru_page",
    values: "lru_page, most_pages_in_vw",
    unit: "-",
    help: "the next victim block: that of the least recently used page, or that with the most pages in the window",
};

impl ListPolicy for RecentlyEvicted {
    const INFO: PolicyInfo = PolicyInfo {
        name: "ref",
        title: "pages of recently evicted blocks first",
        about: "Pages of one block that reach flash one after the other share a log block, and merging it costs \
                less. So of the pages at the end of the LRU list, the window, one of a block from which a page was \
                evicted recently leaves first. The paper's text was not at hand: docs/specs says how gaps are \
                filled.",
        paper: "REF, TCE 2008, as described by CAWR §II",
        year: 2008,
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS, VW, NVB, NEW_VB],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let vw = share::parse(params.text(VW.name)).ok_or_else(|| params.refuse(VW.name))?;
        let by_size = params.choice(NEW_VB.name, &[("lru_page", false), ("most_pages_in_vw", true)])?;
        Ok(Self {
            pages_per_block: config.pages_per_block,
            window: share::of(vw, config.capacity_pages),
            in_window: 0,
            boundary: RECENT,
            entered: 0,
            seats: Vec::new(),
            blocks: Vec::new(),
            sizes: by_size.then(|| BlocksBySize::new(config.pages_per_block)),
            victims: VecDeque::new(),
            most_victims: params.number(NVB.name, 1..=MOST_VICTIMS)?,
        })
    }

    fn grow(&mut self, pages: u32) {
        let blocks = pages.div_ceil(self.pages_per_block).max(self.blocks.len() as u32);
        self.blocks.resize(blocks as usize, WindowBlock::default());
        if let Some(sizes) = &mut self.sizes {
            sizes.lists.grow(self.pages_per_block + 1 + blocks);
        }
    }

    /// Takes a page out of the window.
    #[inline]
    fn leave_place(&mut self, lists: &mut PageLists, frame: u32) {
        if lists.frame(frame).tag & IN_WINDOW == 0 {
            return;
        }
        // The boundary is the newest page of the window, so that the next older one takes its part.
        if self.boundary == frame {
            self.boundary = lists.next(frame);
        }
        self.in_window -= 1;
        lists.frame_mut(frame).tag &= !IN_WINDOW;
        let block = self.block_of(lists, frame);
        let own = &mut self.blocks[block as usize];
        let WindowSeat { newer, older, .. } = self.seats[frame as usize];
        if newer == 0 {
            own.newest = older;
        } else {
            self.seats[newer as usize].older = older;
        }
        if older == 0 {
            own.oldest = newer;
        } else {
            self.seats[older as usize].newer = newer;
        }
        own.count -= 1;
        if let Some(sizes) = &mut self.sizes {
            sizes.changed(block, own.count + 1, own.count);
        }
    }

    /// Lets pages into the window until it is full.
    #[inline]
    fn lists_changed(&mut self, lists: &mut PageLists) {
        while self.in_window < self.window {
            // The window is filled up after each change, so that an eviction finds it complete.
            let frame = lists.prev(self.boundary);
            if frame == RECENT {
                return;
            }
            lists.frame_mut(frame).tag |= IN_WINDOW;
            self.boundary = frame;
            self.in_window += 1;
            self.entered += 1;
            let block = self.block_of(lists, frame);
            let own = &mut self.blocks[block as usize];
            if frame as usize >= self.seats.len() {
                self.seats.resize(frame as usize + 1, WindowSeat::default());
            }
            self.seats[frame as usize] = WindowSeat { newer: 0, older: own.newest, entered: self.entered };
            if own.newest == 0 {
                own.oldest = frame;
            } else {
                self.seats[own.newest as usize].newer = frame;
            }
            own.newest = frame;
            own.count += 1;
            if let Some(sizes) = &mut self.sizes {
                sizes.changed(block, own.count - 1, own.count);
            }
        }
    }

    #[inline]
    fn published_victim(&mut self, pages: &mut BufferedPages) -> Option<u32> {
        let of_victim_block = self.of_victim_blocks(|block| self.blocks[block as usize].oldest);
        of_victim_block.or_else(|| self.of_new_block(&pages.lists))
    }

    /// Makes the page's block a victim block, if it is none.
    #[inline]
    fn note_eviction(&mut self, pages: &mut BufferedPages, frame: u32) {
        // The published search asks each victim block for its oldest page.
        pages.memory_accesses += self.victims.len() as u64 + 1;
        let block = self.block_of(&pages.lists, frame);
        if !self.blocks[block as usize].is_victim {
            self.add_victim_block(block);
        }
    }

    /// Asks about the pages of victim blocks, then with `most_pages_in_vw` about all pages of the
    /// window block by block.
    fn victim_before_turns<V: EvictionVeto>(&self, pages: &mut BufferedPages, veto: &mut V) -> Option<u32> {
        while let Some(frame) = self.of_victim_blocks(|block| self.oldest_not_parked(&pages.lists, block)) {
            if pages.lets_leave(frame, veto) {
                return Some(frame);
            }
        }
        while let Some(frame) = self.of_largest_blocks(&pages.lists) {
            if pages.lets_leave(frame, veto) {
                return Some(frame);
            }
        }
        None
    }
}

impl RecentlyEvicted {
    #[inline]
    fn block_of(&self, lists: &PageLists, frame: u32) -> u32 {
        lists.frame(frame).page / self.pages_per_block
    }

    /// Of the frames that `oldest_of` names of the victim blocks the one nearest the LRU end; 0 is
    /// no frame.
    #[inline]
    fn of_victim_blocks(&self, oldest_of: impl Fn(u32) -> u32) -> Option<u32> {
        let oldest = self.victims.iter().map(|&block| oldest_of(block));
        oldest.filter(|&frame| frame != 0).min_by_key(|&frame| self.seats[frame as usize].entered)
    }

    /// Returns the frame that leaves if the window has no page of a victim block.
    #[inline]
    fn of_new_block(&self, lists: &PageLists) -> Option<u32> {
        if let Some(block) = self.sizes.as_ref().and_then(|sizes| sizes.blocks().next()) {
            return Some(self.blocks[block as usize].oldest);
        }
        lists.least_recent(RECENT)
    }

    /// Of the block's pages in the window that are not parked the one nearest the LRU end, 0 if
    /// there is none.
    fn oldest_not_parked(&self, lists: &PageLists, block: u32) -> u32 {
        let mut frame = self.blocks[block as usize].oldest;
        while frame != 0 && lists.frame(frame).tag & PARKED != 0 {
            frame = self.seats[frame as usize].newer;
        }
        frame
    }

    /// The first page that is not parked of the blocks in the order in which they become victim
    /// blocks.
    fn of_largest_blocks(&self, lists: &PageLists) -> Option<u32> {
        let mut oldest = self.sizes.as_ref()?.blocks().map(|block| self.oldest_not_parked(lists, block));
        oldest.find(|&frame| frame != 0)
    }

    fn add_victim_block(&mut self, block: u32) {
        if self.victims.len() == self.most_victims as usize
            && let Some(first) = self.victims.pop_front()
        {
            // The block that was a victim longest makes room.
            self.blocks[first as usize].is_victim = false;
        }
        self.victims.push_back(block);
        self.blocks[block as usize].is_victim = true;
    }
}
