//! The erase blocks of all elements: what is programmed in each page, and which blocks are free.

use super::super::block_sets::BlockSets;
use super::super::divisor::FastDivisor;
use super::super::geometry::SsdShape;

/// Marks an erased page.
const ERASED: u32 = u32::MAX;

/// Blocks and pages are numbered over all elements.
#[derive(Clone, Debug)]
pub(super) struct FlashBlocks {
    pages_per_block: u32,
    element_blocks: u32,
    by_pages_per_block: FastDivisor,
    by_element_blocks: FastDivisor,
    by_plane_blocks: FastDivisor,
    /// Physical page → the logical page that was programmed into it, or [`ERASED`].
    holds: Vec<u32>,
    erases: Vec<u32>,
    /// A set for each element.
    free: BlockSets,
    elements: Vec<FreeBlocks>,
}

/// The free blocks of an element.
#[derive(Clone, Copy, Debug)]
struct FreeBlocks {
    blocks: u32,
    /// Next-fit start of the search for one.
    from: u32,
}

impl FlashBlocks {
    pub(super) fn erased(shape: &SsdShape) -> Self {
        let (elements, blocks) = (shape.config.elements, shape.pool_blocks);
        let mut free = BlockSets::new(elements as usize, blocks);
        for element in 0..elements as usize {
            (0..blocks).for_each(|block| free.insert(element, block));
        }
        let all = elements as usize * blocks as usize;
        Self {
            pages_per_block: shape.pages_per_block,
            element_blocks: blocks,
            by_pages_per_block: FastDivisor::new(shape.pages_per_block),
            by_element_blocks: FastDivisor::new(blocks),
            by_plane_blocks: FastDivisor::new(shape.config.blocks_per_plane),
            holds: vec![ERASED; all * shape.pages_per_block as usize],
            erases: vec![0; all],
            free,
            elements: vec![FreeBlocks { blocks, from: 0 }; elements as usize],
        }
    }

    #[inline]
    pub(super) fn free_blocks(&self, element: u32) -> u32 {
        self.elements[element as usize].blocks
    }

    /// Takes the element's next free block; there has to be one.
    pub(super) fn take(&mut self, element: u32) -> u32 {
        let own = &mut self.elements[element as usize];
        let block = self.free.next_from(element as usize, own.from).expect("an element keeps a free block for merges");
        self.free.remove(element as usize, block);
        own.blocks -= 1;
        own.from = if block + 1 == self.element_blocks { 0 } else { block + 1 };
        element * self.element_blocks + block
    }

    pub(super) fn erase(&mut self, block: u32) {
        self.pages_mut(block).fill(ERASED);
        self.erases[block as usize] += 1;
        let (element, in_element) = self.by_element_blocks.divide(block);
        self.free.insert(element as usize, in_element);
        self.elements[element as usize].blocks += 1;
    }

    fn pages_mut(&mut self, block: u32) -> &mut [u32] {
        let first = (block * self.pages_per_block) as usize;
        &mut self.holds[first..first + self.pages_per_block as usize]
    }

    /// Returns the programmed pages of the block, each with its content.
    #[inline]
    pub(super) fn pages(&self, block: u32) -> impl Iterator<Item = (u32, u32)> {
        let first = block * self.pages_per_block;
        let own = &self.holds[first as usize..(first + self.pages_per_block) as usize];
        (first..).zip(own.iter().copied()).filter(|&(_, held)| held != ERASED)
    }

    /// The physical page at this place of the block.
    #[inline]
    pub(super) fn page(&self, block: u32, place: u32) -> u32 {
        block * self.pages_per_block + place
    }

    #[inline]
    pub(super) fn is_erased(&self, page: u32) -> bool {
        self.holds[page as usize] == ERASED
    }

    /// The logical page that was programmed into a physical page, if any was.
    #[inline]
    pub(super) fn held(&self, page: u32) -> Option<u32> {
        Some(self.holds[page as usize]).filter(|&held| held != ERASED)
    }

    /// Programs a logical page into an erased physical one.
    #[inline]
    pub(super) fn program(&mut self, page: u32, logical: u32) {
        debug_assert!(self.is_erased(page));
        self.holds[page as usize] = logical;
    }

    #[inline]
    pub(super) fn block_of(&self, page: u32) -> u32 {
        self.by_pages_per_block.divide(page).0
    }

    #[inline]
    pub(super) fn element_of(&self, block: u32) -> u32 {
        self.by_element_blocks.divide(block).0
    }

    /// The plane of a block, numbered over all elements.
    #[inline]
    pub(super) fn plane_of(&self, block: u32) -> u32 {
        self.by_plane_blocks.divide(block).0
    }

    pub(super) fn blocks(&self) -> u32 {
        self.erases.len() as u32
    }

    pub(super) fn is_free(&self, block: u32) -> bool {
        let (element, in_element) = self.by_element_blocks.divide(block);
        self.free.next_from(element as usize, in_element) == Some(in_element)
    }

    /// Erases of every block.
    pub(super) fn erases(&self) -> impl Iterator<Item = u32> {
        self.erases.iter().copied()
    }

    /// Forgets all erases.
    pub(super) fn reset_wear(&mut self) {
        self.erases.fill(0);
    }
}
