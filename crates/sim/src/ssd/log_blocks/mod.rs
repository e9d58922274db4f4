//! Hybrid translation layers: data blocks with every page in its place, and a few log blocks that
//! are mapped by page (specs §1.4). `bast.rs` and `fast.rs` say which log block an overwrite goes
//! to and which one is reclaimed, `merge.rs` how.
//!
//! A logical block is as many consecutive pages as an erase block has. The first write to one
//! begins its data block; a page whose place there is still erased is programmed there (under BAST
//! not once the block has a log block, so that what follows in the log stays in order), everything
//! else goes to a log block. A trim outdates a page and leaves its place programmed. A log block of
//! which nothing is valid any more is erased without a merge.
//!
//! With static allocation a logical block, its data block and its log blocks lie on the element of
//! its address, and each element is a device of its own. With channels, each has as many log blocks
//! as with static allocation, and the channel that is chosen for a page is where a *block* is begun
//! if one has to be: BAST's log block, FAST's sequential one, or a data block. A page whose block
//! is being written already goes there. FAST's random log blocks are begun on every channel, and
//! take pages of all blocks. BAST's full merge puts the data block where the log block was, so that
//! a block follows the channel that a buffer chooses for it, as CAWR has it; FAST's leaves it where
//! it was. Where nothing was chosen, blocks and pages of random log blocks go round the channels.
//!
//! One block of each element stays free for full merges, so a channel is full when it has only
//! that. Then the next one takes its place, as under the page map. Since there are as many log
//! blocks as the reserve has blocks, or fewer, less one, some channel always has room, at the
//! latest when its own log blocks have been reclaimed.

mod bast;
mod fast;
mod flash;
mod merge;
mod queues;

use destage_plan::{Nanos, PageNo};

use super::clock::ElementClock;
use super::cost::CollectionCost;
use super::divisor::FastDivisor;
use super::element::UNMAPPED;
use super::geometry::{Ftl, PageAllocation, SsdShape};
use super::pool::PageStates;
use crate::experiment::{StopSignal, is_told};
use flash::FlashBlocks;
use merge::MergeWork;
use queues::BlockQueues;

/// No block.
const NONE: u32 = u32::MAX;

/// An SSD with log blocks.
#[derive(Clone, Debug)]
pub(super) struct LogBlocks {
    pub(super) shape: SsdShape,
    cost: CollectionCost,
    by_pages_per_block: FastDivisor,
    by_stride: FastDivisor,
    by_elements: FastDivisor,
    clocks: Vec<ElementClock>,
    flash: FlashBlocks,
    /// Logical page → physical page of its newest version, or [`UNMAPPED`].
    map: Vec<u32>,
    /// Logical block → its data block, or [`NONE`].
    data: Vec<u32>,
    /// Logical block → the log block that is its own, or [`NONE`]: under FAST the sequential one
    /// that it owns.
    own_log: Vec<u32>,
    /// Erase block → what it is as a log block.
    logs: Vec<LogBlock>,
    /// Log blocks in the order in which they are reclaimed: under BAST all, written least recently
    /// first, under FAST the random ones, oldest first.
    queues: BlockQueues,
    /// Element → its sequential log block, or [`NONE`]; always that under BAST.
    sequential: Vec<u32>,
    work: MergeWork,
    /// With channels: whose turn it is.
    next: u32,
    redirected: u64,
}

/// A log block.
#[derive(Clone, Copy, Debug)]
struct LogBlock {
    /// The logical block whose own it is, or [`NONE`].
    owner: u32,
    /// Pages programmed, from the first on.
    written: u32,
    /// Each of them stands where it would stand in a data block.
    in_order: bool,
}

/// Holds the place of a page.
#[derive(Clone, Copy, Debug)]
struct FlashPlace {
    /// Physical page.
    page: u32,
    /// The channel was free to choose, not given by the page's block.
    chosen: bool,
}

impl FlashPlace {
    const fn given(page: u32) -> Self {
        Self { page, chosen: false }
    }

    const fn chosen(page: u32) -> Self {
        Self { page, chosen: true }
    }
}

impl LogBlocks {
    /// Empty flash of this shape.
    pub(super) fn empty(shape: SsdShape) -> Self {
        let elements = shape.config.elements;
        let flash = FlashBlocks::erased(&shape);
        let blocks = flash.blocks();
        let logical_blocks = (shape.host_pages / shape.pages_per_block) as usize;
        Self {
            cost: CollectionCost::of(&shape),
            by_pages_per_block: FastDivisor::new(shape.pages_per_block),
            by_stride: FastDivisor::new(shape.config.stride),
            by_elements: FastDivisor::new(elements),
            clocks: vec![ElementClock::new(1); elements as usize],
            map: vec![UNMAPPED; shape.host_pages as usize],
            data: vec![NONE; logical_blocks],
            own_log: vec![NONE; logical_blocks],
            logs: vec![LogBlock { owner: NONE, written: 0, in_order: true }; blocks as usize],
            queues: BlockQueues::new(elements, blocks),
            sequential: vec![NONE; elements as usize],
            work: MergeWork::new(elements),
            next: 0,
            redirected: 0,
            flash,
            shape,
        }
    }

    /// Puts every exported page into its place; with channels the blocks in turn.
    pub(super) fn fill(&mut self, stop: Option<&StopSignal>) {
        let n = self.shape.pages_per_block;
        for block in (0..self.data.len() as u32).take_while(|_| !is_told(stop)) {
            let element = self.by_address(block * n).unwrap_or_else(|| self.by_elements.divide(block).1);
            let data = self.flash.take(element);
            self.data[block as usize] = data;
            for offset in 0..n {
                let page = self.flash.page(data, offset);
                self.flash.program(page, block * n + offset);
                self.map[(block * n + offset) as usize] = page;
            }
        }
    }

    /// Times, counters, turns and wear begin anew; what the flash holds stays.
    pub(super) fn begin_run(&mut self) {
        self.clocks.iter_mut().for_each(ElementClock::reset);
        self.flash.reset_wear();
        self.next = 0;
        self.redirected = 0;
    }

    pub(super) fn clock(&self, element: usize) -> &ElementClock {
        &self.clocks[element]
    }

    pub(super) fn clock_mut(&mut self, element: usize) -> &mut ElementClock {
        &mut self.clocks[element]
    }

    /// The element of the page's address; none with channels.
    #[inline]
    fn by_address(&self, page: u32) -> Option<u32> {
        let is_static = self.shape.config.allocation == PageAllocation::Static;
        is_static.then(|| self.by_elements.divide(self.by_stride.divide(page).0).1)
    }

    /// The elements on which a block can be begun, from the first choice on. With channels they
    /// come round twice: what was reclaimed the first time has made room.
    #[inline]
    fn candidates(&self, first: u32) -> impl Iterator<Item = u32> + use<> {
        let count = self.shape.config.elements;
        let rounds = if self.shape.config.allocation == PageAllocation::Static { 1 } else { 2 * count };
        (0..rounds).map(move |i| (first + i) % count)
    }

    /// Is true if a block can be taken and one remains for merges.
    #[inline]
    fn has_room(&self, element: u32) -> bool {
        self.flash.free_blocks(element) >= 2
    }

    /// Reads a page; returns when its data is there.
    #[inline]
    pub(super) fn read(&mut self, now: Nanos, page: PageNo) -> Nanos {
        let at = self.map[page.index()];
        if at == UNMAPPED {
            // It is read nowhere; with channels the one whose turn it is counts that.
            let element = self.by_address(page.0).unwrap_or(self.next);
            self.clocks[element as usize].counters.unmapped_reads += 1;
            return now;
        }
        let element = self.flash.element_of(self.flash.block_of(at));
        let clock = &mut self.clocks[element as usize];
        clock.counters.flash_reads += 1;
        clock.occupy(0, now, self.cost.read)
    }

    /// Programs a page, through this channel as far as there is a choice; returns when it is done.
    ///
    /// # Panics
    /// If there is no such channel.
    #[inline(never)]
    pub(super) fn program(&mut self, now: Nanos, page: PageNo, channel: Option<u32>) -> Nanos {
        let elements = self.shape.config.elements;
        assert!(channel.is_none_or(|channel| channel < elements), "there is no channel {channel:?}");
        let (block, offset) = self.by_pages_per_block.divide(page.0);
        let by_address = self.by_address(page.0);
        let first = by_address.or(channel).unwrap_or(self.next);
        let place = loop {
            if let Some(place) = self.place(now, block, offset, first) {
                break place;
            }
        };
        self.flash.program(place.page, page.0);
        self.map[page.index()] = place.page;
        let element = self.flash.element_of(self.flash.block_of(place.page));
        if by_address.is_none() {
            match channel {
                Some(channel) => self.redirected += u64::from(element != channel),
                None if place.chosen => self.next = if first + 1 == elements { 0 } else { first + 1 },
                None => {}
            }
        }
        let clock = &mut self.clocks[element as usize];
        clock.counters.host_programs += 1;
        clock.occupy(0, now, self.cost.program)
    }

    /// Returns the place of a page. `None` means that something was reclaimed for it, and the caller looks
    /// for a place again.
    #[inline]
    fn place(&mut self, now: Nanos, block: u32, offset: u32, first: u32) -> Option<FlashPlace> {
        let data = self.data[block as usize];
        if data == NONE {
            let element = self.candidates(first).find(|&element| self.has_room(element));
            let data = self.flash.take(element.expect("there is room for every logical block"));
            self.data[block as usize] = data;
            return Some(FlashPlace::chosen(self.flash.page(data, offset)));
        }
        let in_place = self.flash.page(data, offset);
        let bast = self.shape.config.ftl == Ftl::Bast;
        if self.flash.is_erased(in_place) && !(bast && self.own_log[block as usize] != NONE) {
            return Some(FlashPlace::given(in_place));
        }
        if bast { self.place_in_bast(now, block, offset, first) } else { self.place_in_fast(now, block, offset, first) }
    }

    /// Makes a free block of the element a log block.
    fn begin_log(&mut self, element: u32, owner: u32) -> u32 {
        let log = self.flash.take(element);
        self.logs[log as usize] = LogBlock { owner, written: 0, in_order: true };
        log
    }

    /// Takes the next page of a log block.
    #[inline]
    fn append(&mut self, log: u32, offset: u32) -> u32 {
        let own = &mut self.logs[log as usize];
        // One page out of order prevents the switch for good: flash pages cannot be rewritten.
        own.in_order &= own.written == offset;
        let place = own.written;
        own.written += 1;
        self.flash.page(log, place)
    }

    /// The element that would program the page now, as far as that can be told without a merge.
    pub(super) fn target(&self, page: PageNo, channel: Option<u16>) -> u32 {
        if let Some(element) = self.by_address(page.0) {
            return element;
        }
        let (block, offset) = self.by_pages_per_block.divide(page.0);
        let (data, own) = (self.data[block as usize], self.own_log[block as usize]);
        let given = if own != NONE {
            own
        } else if data != NONE && self.flash.is_erased(self.flash.page(data, offset)) {
            data
        } else {
            return channel.map_or(self.next, u32::from);
        };
        self.flash.element_of(given)
    }

    /// The element that holds the page, or would receive it.
    pub(super) fn element_of_page(&self, page: PageNo) -> u32 {
        match self.map[page.index()] {
            at if at == UNMAPPED || self.by_address(page.0).is_some() => self.target(page, None),
            at => self.flash.element_of(self.flash.block_of(at)),
        }
    }

    /// Forgets a page's data; takes no time.
    pub(super) fn trim(&mut self, page: PageNo) {
        // A page is valid if the map points to it, so a trim is one store.
        self.map[page.index()] = UNMAPPED;
    }

    /// Pages that went to another channel than was chosen for them.
    pub(super) fn redirected(&self) -> u64 {
        self.redirected
    }

    pub(super) fn forget_redirected(&mut self) {
        self.redirected = 0;
    }

    /// Free blocks of an element.
    #[inline]
    pub(super) fn free_blocks(&self, element: u32) -> u32 {
        self.flash.free_blocks(element)
    }

    /// Erases of every block since the start of the run.
    pub(super) fn erases(&self) -> impl Iterator<Item = u32> {
        self.flash.erases()
    }

    pub(super) fn page_states(&self) -> PageStates {
        let pages = u64::from(self.flash.blocks()) * u64::from(self.shape.pages_per_block);
        let programmed = (0..self.flash.blocks()).map(|block| self.flash.pages(block).count() as u64).sum::<u64>();
        let valid = self.map.iter().filter(|&&page| page != UNMAPPED).count() as u64;
        PageStates { valid, free: pages - programmed, invalid: programmed - valid }
    }

    /// Checks the layer's own laws: map and flash agree, every block has one use, data blocks have
    /// their pages in place, and each element keeps a block for merges and no more log blocks than
    /// it may.
    pub(super) fn check(&self) -> Result<(), String> {
        for (logical, &page) in (0_u32..).zip(&self.map).filter(|(_, page)| **page != UNMAPPED) {
            if self.flash.held(page) != Some(logical) {
                return Err(format!("page {logical} is mapped to {page}, which holds {:?}", self.flash.held(page)));
            }
        }
        let mut used = vec![false; self.flash.blocks() as usize];
        let mut uses = |block: u32| {
            let free = self.flash.is_free(block);
            if free || std::mem::replace(&mut used[block as usize], true) {
                return Err(format!("block {block} is used {}", if free { "and free" } else { "twice" }));
            }
            Ok(())
        };
        for (block, &data) in (0_u32..).zip(&self.data).filter(|(_, data)| **data != NONE) {
            uses(data)?;
            let (n, first) = (self.shape.pages_per_block, self.flash.page(data, 0));
            if let Some((page, held)) = self.flash.pages(data).find(|(page, held)| *held != block * n + page - first) {
                return Err(format!("page {page} of the data block of {block} holds {held}"));
            }
        }
        for (element, &sequential) in (0..self.shape.config.elements).zip(&self.sequential) {
            let own = self.queues.iter(element).chain(Some(sequential).filter(|&log| log != NONE));
            let mut logs = 0;
            for log in own {
                uses(log)?;
                logs += 1;
                let LogBlock { owner, written, .. } = self.logs[log as usize];
                if self.flash.pages(log).count() as u32 != written {
                    return Err(format!("log block {log} has not {written} pages programmed"));
                }
                if owner != NONE && self.own_log[owner as usize] != log {
                    return Err(format!("log block {log} is {owner}'s, which has {}", self.own_log[owner as usize]));
                }
            }
            let free = self.free_blocks(element);
            if logs > self.shape.log_blocks || free == 0 {
                return Err(format!("element {element} has {logs} log blocks and {free} free ones"));
            }
        }
        for block in 0..self.flash.blocks() {
            if self.flash.is_free(block) == used[block as usize]
                || self.flash.is_free(block) && self.flash.pages(block).next().is_some()
            {
                return Err(format!("block {block} is neither used nor free, or free and not erased"));
            }
        }
        Ok(())
    }
}
