//! A pool of erase blocks with a write point, and perhaps another for collection: an element, or with copy-back one
//! plane of it (specs §1.2).

use super::block_sets::BlockSets;

/// The set of a [`BlockSets`] that holds the only set of free blocks.
const FREE: usize = 0;

/// The blocks of a pool, numbered from 0.
#[derive(Clone, Debug)]
pub(super) struct BlockPool {
    pages_per_block: u32,
    data_pages: u32,
    /// Marks the valid pages of each block: bit `i % 64` of word `i / 64`.
    valid: Vec<u64>,
    words_per_block: usize,
    blocks: Vec<EraseBlock>,
    free: BlockSets,
    free_blocks: u32,
    /// Sealed blocks by their number of valid pages.
    by_valid: BlockSets,
    /// No sealed block has fewer valid pages than this.
    fewest_valid: usize,
    /// Next-fit start of the search for a free block.
    alloc_from: u32,
    active: u32,
    /// The active block's next page; `data_pages` where it is full.
    next_page: u32,
    /// Holds the block and the next page of the other write point: collection's, but for the time in which it moves pages;
    /// `None` if hosts and collection share one.
    other: Option<(u32, u32)>,
}

/// An erase block.
#[derive(Clone, Copy, Debug, Default)]
struct EraseBlock {
    /// Pages that hold valid data.
    valid: u32,
    erases: u32,
    /// Full, and not being collected.
    sealed: bool,
}

/// Consecutive pages of a block that were programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProgrammedPages {
    /// The block.
    pub(super) block: u32,
    /// First page in the block.
    pub(super) page: u32,
    /// Pages.
    pub(super) pages: u32,
    /// The block is full now, and its summary page was programmed if it has one.
    pub(super) sealed: bool,
}

impl BlockPool {
    /// Returns a pool of clean blocks, in which collection has a write point of its own or shares that of hosts.
    pub(super) fn new(blocks: u32, pages_per_block: u32, data_pages: u32, own_point: bool) -> Self {
        let words_per_block = pages_per_block.div_ceil(64) as usize;
        let mut free = BlockSets::new(1, blocks);
        for block in 0..blocks {
            free.insert(FREE, block);
        }
        Self {
            pages_per_block,
            data_pages,
            valid: vec![0; blocks as usize * words_per_block],
            words_per_block,
            blocks: vec![EraseBlock::default(); blocks as usize],
            free,
            free_blocks: blocks,
            by_valid: BlockSets::new(data_pages as usize + 1, blocks),
            fewest_valid: data_pages as usize,
            alloc_from: 0,
            active: 0,
            next_page: data_pages,
            other: own_point.then_some((0, data_pages)),
        }
    }

    /// Returns how many blocks are erased, none of them an active one.
    #[inline]
    pub(super) fn free_blocks(&self) -> u32 {
        self.free_blocks
    }

    /// Returns true if a host's page can be programmed. The last free block is collection's, if that has a write point of its
    /// own: the host's active block, however empty, could not take the pages of a victim.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.next_page < self.data_pages || self.free_blocks() > u32::from(self.other.is_some())
    }

    /// Exchanges the write points, before and after collection moves pages; with a shared one does nothing.
    pub(super) fn switch_write_point(&mut self) {
        if let Some((active, next_page)) = &mut self.other {
            std::mem::swap(active, &mut self.active);
            std::mem::swap(next_page, &mut self.next_page);
        }
    }

    /// Takes the next page of the write point, which holds valid data from now on.
    #[inline]
    pub(super) fn program(&mut self) -> ProgrammedPages {
        if self.next_page == self.data_pages {
            self.take_free_block();
        }
        let (block, page) = (self.active, self.next_page);
        self.valid[block as usize * self.words_per_block + (page / 64) as usize] |= 1 << (page % 64);
        self.blocks[block as usize].valid += 1;
        ProgrammedPages { block, page, pages: 1, sealed: self.advance(1) }
    }

    /// Takes up to `most` pages, at least one, from the write point to the end of its block.
    pub(super) fn program_run(&mut self, most: u32) -> ProgrammedPages {
        if self.next_page == self.data_pages {
            self.take_free_block();
        }
        let (block, page) = (self.active, self.next_page);
        let pages = most.min(self.data_pages - page);
        let words = &mut self.valid[block as usize * self.words_per_block..];
        let (mut at, end) = (page, page + pages);
        while at < end {
            let here = (end - at).min(64 - at % 64);
            words[(at / 64) as usize] |= (u64::MAX >> (64 - here)) << (at % 64);
            at += here;
        }
        self.blocks[block as usize].valid += pages;
        ProgrammedPages { block, page, pages, sealed: self.advance(pages) }
    }

    #[cold]
    fn take_free_block(&mut self) {
        // Next fit spreads erases over all blocks, unlike a search from the first one.
        self.active = self.free.next_from(FREE, self.alloc_from).expect("a pool is collected before it is full");
        self.free.remove(FREE, self.active);
        self.free_blocks -= 1;
        self.alloc_from = if self.active as usize + 1 == self.blocks.len() { 0 } else { self.active + 1 };
        self.next_page = 0;
    }

    /// Moves the write point on; returns whether that filled its block.
    #[inline]
    fn advance(&mut self, pages: u32) -> bool {
        self.next_page += pages;
        let full = self.next_page == self.data_pages;
        if full {
            self.seal(self.active);
        }
        full
    }

    #[cold]
    fn seal(&mut self, block: u32) {
        let own = &mut self.blocks[block as usize];
        own.sealed = true;
        let valid = own.valid as usize;
        self.by_valid.insert(valid, block);
        self.fewest_valid = self.fewest_valid.min(valid);
    }

    /// The page holds no valid data any more.
    #[inline(always)]
    pub(super) fn invalidate(&mut self, block: u32, page: u32) {
        let word = &mut self.valid[block as usize * self.words_per_block + (page / 64) as usize];
        debug_assert!(*word >> (page % 64) & 1 == 1);
        *word &= !(1 << (page % 64));
        let own = &mut self.blocks[block as usize];
        own.valid -= 1;
        // Only sealed blocks are candidates; the active one would change its set with every program.
        if own.sealed {
            let valid = own.valid as usize;
            self.by_valid.remove(valid + 1, block);
            self.by_valid.insert(valid, block);
            self.fewest_valid = self.fewest_valid.min(valid);
        }
    }

    /// Takes the sealed block with the fewest valid pages, of several the one with the lowest
    /// number, out of the candidates; `None` if even that one is fully valid, so that collecting it
    /// would gain nothing.
    pub(super) fn take_victim(&mut self) -> Option<u32> {
        // The bound saves a search over the empty sets below it.
        while self.by_valid.is_empty(self.fewest_valid) {
            if self.fewest_valid + 1 >= self.data_pages as usize {
                return None;
            }
            self.fewest_valid += 1;
        }
        if self.fewest_valid == self.data_pages as usize {
            return None;
        }
        let block = self.by_valid.first(self.fewest_valid)?;
        self.by_valid.remove(self.fewest_valid, block);
        self.blocks[block as usize].sealed = false;
        Some(block)
    }

    /// Valid pages of the block.
    #[inline]
    pub(super) fn valid_pages(&self, block: u32) -> u32 {
        self.blocks[block as usize].valid
    }

    /// The first valid page of the block from `page` on.
    #[inline]
    pub(super) fn valid_from(&self, block: u32, page: u32) -> Option<u32> {
        let at = block as usize * self.words_per_block;
        let words = &self.valid[at..at + self.words_per_block];
        let mut word = (page / 64) as usize;
        // A word of 64 pages is skipped at once: victims have few valid pages.
        let mut left = *words.get(word)? & (u64::MAX << (page % 64));
        while left == 0 {
            word += 1;
            left = *words.get(word)?;
        }
        Some(word as u32 * 64 + left.trailing_zeros())
    }

    /// Is true if the page holds valid data.
    pub(super) fn is_valid(&self, block: u32, page: u32) -> bool {
        self.valid[block as usize * self.words_per_block + (page / 64) as usize] >> (page % 64) & 1 == 1
    }

    /// Erases a block whose valid pages, if any, were copied.
    pub(super) fn erase(&mut self, block: u32) {
        let at = block as usize * self.words_per_block;
        self.valid[at..at + self.words_per_block].fill(0);
        let own = &mut self.blocks[block as usize];
        own.valid = 0;
        own.erases += 1;
        self.free.insert(FREE, block);
        self.free_blocks += 1;
    }

    /// Erases of every block.
    pub(super) fn erases(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().map(|block| block.erases)
    }

    /// Forgets all erases.
    pub(super) fn reset_wear(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.erases = 0);
    }

    /// Pages that are valid, invalid or not yet programmed since the last erase, of all blocks: the
    /// three sum up to the pool's pages (with the summary pages counted as invalid once their block
    /// is sealed).
    pub(super) fn page_states(&self) -> PageStates {
        let valid = self.blocks.iter().map(|block| u64::from(block.valid)).sum();
        let n = u64::from(self.pages_per_block);
        let next_pages = [Some(self.next_page), self.other.map(|(_, next_page)| next_page)];
        let partly = next_pages.into_iter().flatten().filter(|&next_page| next_page < self.data_pages);
        let unused_in_active: u64 = partly.map(|next_page| n - u64::from(next_page)).sum();
        let free = u64::from(self.free_blocks()) * n + unused_in_active;
        PageStates { valid, free, invalid: self.blocks.len() as u64 * n - valid - free }
    }
}

/// Counts pages by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStates {
    /// Hold the current data of a logical page.
    pub valid: u64,
    /// Can be programmed.
    pub free: u64,
    /// Hold outdated data, or a block's summary.
    pub invalid: u64,
}

impl PageStates {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { valid: self.valid + other.valid, free: self.free + other.free, invalid: self.invalid + other.invalid }
    }
}
