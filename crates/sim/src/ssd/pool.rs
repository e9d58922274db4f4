//! A pool of erase blocks with one write point: an element, or with copy-back one plane of it (specs §1.2).

use super::block_sets::BlockSets;

/// The set of a [`BlockSets`] that holds the only set of free blocks.
const FREE: usize = 0;

/// The blocks of a pool, numbered from 0.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pages_per_block: u32,
    data_pages: u32,
    /// Which of a block's pages are valid: bit `i % 64` of word `i / 64`.
    valid: Vec<u64>,
    words_per_block: usize,
    valid_count: Vec<u32>,
    sealed: Vec<bool>,
    /// Erases per block.
    pub(super) erases: Vec<u32>,
    free: BlockSets,
    /// Sealed blocks by their number of valid pages.
    by_valid: BlockSets,
    /// No sealed block has fewer valid pages than this.
    fewest_valid: usize,
    /// Next-fit start of the search for a free block.
    alloc_from: u32,
    active: u32,
    /// The active block's next page; `data_pages` where it is full.
    next_page: u32,
}

/// What programming one page entailed beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Programmed {
    /// The page's place: block and page in block.
    pub(super) block: u32,
    /// Page in the block.
    pub(super) page: u32,
    /// The block is full now, and its summary page was programmed if it has one.
    pub(super) sealed: bool,
}

impl Pool {
    /// A pool of clean blocks.
    pub(super) fn new(blocks: u32, pages_per_block: u32, data_pages: u32) -> Self {
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
            valid_count: vec![0; blocks as usize],
            sealed: vec![false; blocks as usize],
            erases: vec![0; blocks as usize],
            free,
            by_valid: BlockSets::new(data_pages as usize + 1, blocks),
            fewest_valid: data_pages as usize,
            alloc_from: 0,
            active: 0,
            next_page: data_pages,
        }
    }

    /// Blocks that are erased and hold no write point.
    #[inline]
    pub(super) fn free_blocks(&self) -> u32 {
        self.free.len(FREE)
    }

    /// Whether a page can be programmed.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.next_page < self.data_pages || self.free_blocks() > 0
    }

    /// Takes the next page of the write point, which holds valid data from now on.
    #[inline]
    pub(super) fn program(&mut self) -> Programmed {
        if self.next_page == self.data_pages {
            self.active = self.free.next_from(FREE, self.alloc_from).expect("a pool is collected before it is full");
            self.free.remove(FREE, self.active);
            self.alloc_from = if self.active as usize + 1 == self.sealed.len() { 0 } else { self.active + 1 };
            self.next_page = 0;
        }
        let (block, page) = (self.active, self.next_page);
        self.valid[block as usize * self.words_per_block + (page / 64) as usize] |= 1 << (page % 64);
        self.valid_count[block as usize] += 1;
        self.next_page += 1;
        let sealed = self.next_page == self.data_pages;
        if sealed {
            self.seal(block);
        }
        Programmed { block, page, sealed }
    }

    fn seal(&mut self, block: u32) {
        let valid = self.valid_count[block as usize] as usize;
        self.sealed[block as usize] = true;
        self.by_valid.insert(valid, block);
        self.fewest_valid = self.fewest_valid.min(valid);
    }

    /// The page holds no valid data any more.
    #[inline]
    pub(super) fn invalidate(&mut self, block: u32, page: u32) {
        let word = &mut self.valid[block as usize * self.words_per_block + (page / 64) as usize];
        debug_assert!(*word >> (page % 64) & 1 == 1);
        *word &= !(1 << (page % 64));
        let valid = self.valid_count[block as usize] as usize;
        self.valid_count[block as usize] -= 1;
        if self.sealed[block as usize] {
            self.by_valid.remove(valid, block);
            self.by_valid.insert(valid - 1, block);
            self.fewest_valid = self.fewest_valid.min(valid - 1);
        }
    }

    /// Takes the sealed block with the fewest valid pages, of several the one with the lowest number, out of the
    /// candidates; `None` if even that one is fully valid, so that collecting it would gain nothing.
    pub(super) fn take_victim(&mut self) -> Option<u32> {
        while self.by_valid.len(self.fewest_valid) == 0 {
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
        self.sealed[block as usize] = false;
        Some(block)
    }

    /// The first valid page of the block.
    #[inline]
    pub(super) fn first_valid(&self, block: u32) -> Option<u32> {
        let at = block as usize * self.words_per_block;
        let words = &self.valid[at..at + self.words_per_block];
        let word = words.iter().position(|&word| word != 0)?;
        Some(word as u32 * 64 + words[word].trailing_zeros())
    }

    /// Whether the page holds valid data.
    pub(super) fn is_valid(&self, block: u32, page: u32) -> bool {
        self.valid[block as usize * self.words_per_block + (page / 64) as usize] >> (page % 64) & 1 == 1
    }

    /// Erases a block without valid pages.
    pub(super) fn erase(&mut self, block: u32) {
        debug_assert_eq!(self.valid_count[block as usize], 0);
        self.erases[block as usize] += 1;
        self.free.insert(FREE, block);
    }

    /// Pages that are valid, invalid or not yet programmed since the last erase, of all blocks: the three sum up to
    /// the pool's pages (with the summary pages counted as invalid once their block is sealed).
    pub(super) fn page_states(&self) -> PageStates {
        let valid = self.valid_count.iter().map(|&v| u64::from(v)).sum();
        let n = u64::from(self.pages_per_block);
        let partly = self.next_page < self.data_pages;
        let unused_in_active = if partly { n - u64::from(self.next_page) } else { 0 };
        let free = u64::from(self.free_blocks()) * n + unused_in_active;
        PageStates { valid, free, invalid: self.erases.len() as u64 * n - valid - free }
    }
}

/// How many pages are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStates {
    /// Hold the current data of a logical page.
    pub valid: u64,
    /// Can be programmed.
    pub free: u64,
    /// Hold outdated data, or a block's summary.
    pub invalid: u64,
}
