//! A set of block sizes in pages: those of which there are blocks.

/// Sizes from 0 to a fixed largest one, a bit each, and a bit for each word that is not empty.
#[derive(Clone, Debug)]
pub(super) struct SizeSet {
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl SizeSet {
    /// The empty set of sizes up to `largest`.
    pub(super) fn new(largest: u32) -> Self {
        let words = largest as usize / 64 + 1;
        Self { words: vec![0; words], summary: vec![0; words.div_ceil(64)] }
    }

    #[inline]
    pub(super) fn insert(&mut self, size: u32) {
        let word = size as usize / 64;
        self.words[word] |= 1 << (size % 64);
        self.summary[word / 64] |= 1 << (word % 64);
    }

    #[inline]
    pub(super) fn remove(&mut self, size: u32) {
        let word = size as usize / 64;
        self.words[word] &= !(1 << (size % 64));
        if self.words[word] == 0 {
            self.summary[word / 64] &= !(1 << (word % 64));
        }
    }

    /// The largest size in the set.
    #[inline]
    pub(super) fn largest(&self) -> Option<u32> {
        let word = last_bit(&self.summary)?;
        Some(word * 64 + self.words[word as usize].ilog2())
    }

    /// The largest size in the set that is below `limit`, a size that the set can hold.
    #[inline]
    pub(super) fn largest_below(&self, limit: u32) -> Option<u32> {
        let word = limit as usize / 64;
        let here = self.words[word] & ((1 << (limit % 64)) - 1);
        if here != 0 {
            return Some(word as u32 * 64 + here.ilog2());
        }
        let summary = self.summary[word / 64] & ((1 << (word % 64)) - 1);
        let word = if summary == 0 {
            last_bit(&self.summary[..word / 64])?
        } else {
            (word / 64) as u32 * 64 + summary.ilog2()
        };
        Some(word * 64 + self.words[word as usize].ilog2())
    }
}

/// The place of the last bit that is set.
#[inline]
fn last_bit(words: &[u64]) -> Option<u32> {
    let word = words.iter().rposition(|&word| word != 0)?;
    Some(word as u32 * 64 + words[word].ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn sizes_are_found_from_above() {
        for largest in [1, 63, 64, 65, 4095, 4096, 5000, 65_536] {
            let mut set = SizeSet::new(largest);
            let mut naive = BTreeSet::new();
            for step in 0..3000_u32 {
                let size = step.wrapping_mul(2_654_435_761) % (largest + 1);
                if step % 3 == 2 {
                    set.remove(size / 2);
                    naive.remove(&(size / 2));
                } else {
                    set.insert(size);
                    naive.insert(size);
                }
                assert_eq!(set.largest(), naive.last().copied());
                assert_eq!(set.largest_below(size), naive.range(..size).next_back().copied(), "{largest} {size}");
            }
            for size in 0..=largest {
                set.remove(size);
            }
            assert_eq!((set.largest(), set.largest_below(largest)), (None, None));
        }
    }
}
