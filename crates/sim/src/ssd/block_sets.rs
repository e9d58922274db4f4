//! Sets of block numbers that answer "which is the smallest?" in a few steps, whatever the device's
//! size.

/// Levels that a set can have: 64^6 is more than all numbers.
const MAX_LEVELS: usize = 6;

/// Several sets over the numbers `0..universe`, each a bitmap with summaries above it: a bit of a
/// summary word says that a word below is not empty.
#[derive(Clone, Debug)]
pub(super) struct BlockSets {
    /// Holds the index of each level's first word within a set; the first level holds the bits, the last a
    /// single word.
    level_starts: [usize; MAX_LEVELS],
    levels: usize,
    words_per_set: usize,
    /// Set `s` has the words from `s * words_per_set` on.
    words: Vec<u64>,
}

impl BlockSets {
    /// `sets` empty sets.
    pub(super) fn new(sets: usize, universe: u32) -> Self {
        let mut level_starts = [0; MAX_LEVELS];
        let mut width = (universe as usize).div_ceil(64).max(1);
        let (mut levels, mut words_per_set) = (1, width);
        while width > 1 {
            level_starts[levels] = words_per_set;
            width = width.div_ceil(64);
            words_per_set += width;
            levels += 1;
        }
        Self { level_starts, levels, words_per_set, words: vec![0; sets * words_per_set] }
    }

    /// Is true if the set has no numbers.
    #[inline]
    pub(super) fn is_empty(&self, set: usize) -> bool {
        // The last word summarises the whole set.
        self.words[(set + 1) * self.words_per_set - 1] == 0
    }

    /// Adds a number that is not in the set.
    #[inline]
    pub(super) fn insert(&mut self, set: usize, number: u32) {
        let words = &mut self.words[set * self.words_per_set..(set + 1) * self.words_per_set];
        let mut at = number as usize;
        for start in &self.level_starts[..self.levels] {
            let word = &mut words[start + at / 64];
            let was = *word;
            *word = was | 1 << (at % 64);
            // The summaries above already know that this word is not empty.
            if was != 0 {
                break;
            }
            at /= 64;
        }
    }

    /// Takes out a number that is in the set.
    #[inline]
    pub(super) fn remove(&mut self, set: usize, number: u32) {
        let words = &mut self.words[set * self.words_per_set..(set + 1) * self.words_per_set];
        let mut at = number as usize;
        for start in &self.level_starts[..self.levels] {
            let word = &mut words[start + at / 64];
            *word &= !(1 << (at % 64));
            // The summaries above change only when a word becomes empty.
            if *word != 0 {
                break;
            }
            at /= 64;
        }
    }

    /// The smallest number in the set.
    #[inline]
    pub(super) fn first(&self, set: usize) -> Option<u32> {
        if self.is_empty(set) {
            return None;
        }
        let words = &self.words[set * self.words_per_set..(set + 1) * self.words_per_set];
        let mut at = 0;
        for start in self.level_starts[..self.levels].iter().rev() {
            at = at * 64 + words[start + at].trailing_zeros() as usize;
        }
        Some(at as u32)
    }

    /// The smallest number not below `from`, or else the smallest of all (next fit).
    pub(super) fn next_from(&self, set: usize, from: u32) -> Option<u32> {
        let begin = set * self.words_per_set;
        let bits = if self.levels == 1 { 1 } else { self.level_starts[1] };
        let words = &self.words[begin..begin + bits];
        let start = from as usize / 64;
        let here = words.get(start).map_or(0, |word| word >> (from % 64));
        if here != 0 {
            return Some(from + here.trailing_zeros());
        }
        let later = words.iter().enumerate().skip(start + 1).find(|(_, word)| **word != 0);
        later.map(|(i, word)| i as u32 * 64 + word.trailing_zeros()).or_else(|| self.first(set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn sets_agree_with_a_tree() {
        for universe in [1, 63, 64, 65, 5000, 300_000] {
            let mut sets = BlockSets::new(3, universe);
            let mut trees = vec![BTreeSet::new(); 3];
            let mut x = 12345_u64;
            for _ in 0..20_000 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (set, number) = ((x >> 60) as usize % 3, (x >> 20) as u32 % universe);
                if trees[set].insert(number) {
                    sets.insert(set, number);
                } else {
                    trees[set].remove(&number);
                    sets.remove(set, number);
                }
                assert_eq!(sets.first(set), trees[set].first().copied());
                let from = (x >> 33) as u32 % universe;
                let next = trees[set].range(from..).next().or(trees[set].first()).copied();
                assert_eq!(sets.next_from(set, from), next);
                assert_eq!(sets.is_empty(set), trees[set].is_empty());
            }
        }
    }
}
