//! A bit for each page, grouped by logical block: which pages of a block are buffered, or dirty.

use destage_plan::PageNo;

/// Bitmaps of `pages_per_block` bits, one per block.
#[derive(Clone, Debug)]
pub(super) struct PageBits {
    pages_per_block: u32,
    words_per_block: usize,
    words: Vec<u64>,
}

impl PageBits {
    pub(super) fn new(pages_per_block: u32) -> Self {
        Self { pages_per_block, words_per_block: pages_per_block.div_ceil(64) as usize, words: Vec::new() }
    }

    /// Makes room for the blocks `0..blocks`.
    pub(super) fn grow(&mut self, blocks: u32) {
        self.words.resize((blocks as usize * self.words_per_block).max(self.words.len()), 0);
    }

    /// The block's bitmap.
    #[inline]
    pub(super) fn of(&self, block: u32) -> &[u64] {
        let at = block as usize * self.words_per_block;
        &self.words[at..at + self.words_per_block]
    }

    #[inline]
    fn word(&self, block: u32, offset: u32) -> usize {
        block as usize * self.words_per_block + (offset / 64) as usize
    }

    #[inline]
    pub(super) fn get(&self, block: u32, offset: u32) -> bool {
        self.words[self.word(block, offset)] >> (offset % 64) & 1 == 1
    }

    /// Sets the bit and says whether it was set before.
    #[inline]
    pub(super) fn set(&mut self, block: u32, offset: u32) -> bool {
        let at = self.word(block, offset);
        let was = self.words[at];
        self.words[at] = was | 1 << (offset % 64);
        was >> (offset % 64) & 1 == 1
    }

    /// Clears the bit and says whether it was set before.
    #[inline]
    pub(super) fn clear(&mut self, block: u32, offset: u32) -> bool {
        let at = self.word(block, offset);
        let was = self.words[at];
        self.words[at] = was & !(1 << (offset % 64));
        was >> (offset % 64) & 1 == 1
    }

    /// Clears all bits of the block.
    #[inline]
    pub(super) fn clear_block(&mut self, block: u32) {
        let at = block as usize * self.words_per_block;
        self.words[at..at + self.words_per_block].fill(0);
    }

    /// The pages whose bit equals `value`, ascending.
    #[inline]
    pub(super) fn pages(&self, block: u32, value: bool) -> impl Iterator<Item = PageNo> {
        select(self.of(block).iter().copied(), block, self.pages_per_block, value)
    }

    /// The pages set here and not set in `other`, ascending.
    #[inline]
    pub(super) fn pages_without(&self, other: &Self, block: u32) -> impl Iterator<Item = PageNo> {
        let words = self.of(block).iter().zip(other.of(block)).map(|(a, b)| a & !b);
        select(words, block, self.pages_per_block, true)
    }
}

fn select(
    words: impl Iterator<Item = u64>,
    block: u32,
    pages_per_block: u32,
    value: bool,
) -> impl Iterator<Item = PageNo> {
    words.zip((0..pages_per_block).step_by(64)).flat_map(move |(word, base)| {
        let bits_here = (pages_per_block - base).min(64);
        let mask = if bits_here == 64 { u64::MAX } else { (1 << bits_here) - 1 };
        let mut left = if value { word } else { !word } & mask;
        std::iter::from_fn(move || {
            (left != 0).then(|| {
                let bit = left.trailing_zeros();
                left &= left - 1;
                PageNo(block * pages_per_block + base + bit)
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_any_size_list_their_pages() {
        for n in [1, 4, 63, 64, 65, 128, 200] {
            let mut bits = PageBits::new(n);
            bits.grow(3);
            for offset in (0..n).step_by(3) {
                assert!(!bits.set(1, offset));
                assert!(bits.set(1, offset));
            }
            let set: Vec<u32> = bits.pages(1, true).map(|p| p.0 - n).collect();
            let unset: Vec<u32> = bits.pages(1, false).map(|p| p.0 - n).collect();
            assert_eq!(set, (0..n).step_by(3).collect::<Vec<_>>());
            assert_eq!(unset, (0..n).filter(|i| i % 3 != 0).collect::<Vec<_>>());
            assert_eq!(bits.pages(0, true).count() + bits.pages(2, true).count(), 0);
            assert!(bits.clear(1, 0));
            assert!(!bits.get(1, 0));
            bits.clear_block(1);
            assert_eq!(bits.pages(1, true).count(), 0);
        }
    }
}
