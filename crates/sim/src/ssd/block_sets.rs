//! Sets of block numbers that answer "which is the smallest?" in a few steps, whatever the device's size.

/// Several sets over the numbers `0..universe`, each a bitmap with summaries above it: a bit of a summary word says
/// that a word below is not empty.
#[derive(Clone, Debug)]
pub(super) struct BlockSets {
    /// Words per set on each level, bits first.
    widths: Vec<usize>,
    /// Set `s` has the words `s * widths[level]..` of each level.
    levels: Vec<Vec<u64>>,
    counts: Vec<u32>,
}

impl BlockSets {
    /// `sets` empty sets.
    pub(super) fn new(sets: usize, universe: u32) -> Self {
        let mut widths = vec![(universe as usize).div_ceil(64).max(1)];
        while widths[widths.len() - 1] > 1 {
            widths.push(widths[widths.len() - 1].div_ceil(64));
        }
        let levels = widths.iter().map(|width| vec![0; sets * width]).collect();
        Self { widths, levels, counts: vec![0; sets] }
    }

    /// Numbers in the set.
    #[inline]
    pub(super) fn len(&self, set: usize) -> u32 {
        self.counts[set]
    }

    /// Adds a number that is not in the set.
    #[inline]
    pub(super) fn insert(&mut self, set: usize, number: u32) {
        let mut at = number as usize;
        for (level, width) in self.levels.iter_mut().zip(&self.widths) {
            let word = &mut level[set * width + at / 64];
            let was = *word;
            *word = was | 1 << (at % 64);
            if was != 0 {
                break;
            }
            at /= 64;
        }
        self.counts[set] += 1;
    }

    /// Takes out a number that is in the set.
    #[inline]
    pub(super) fn remove(&mut self, set: usize, number: u32) {
        let mut at = number as usize;
        for (level, width) in self.levels.iter_mut().zip(&self.widths) {
            let word = &mut level[set * width + at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                break;
            }
            at /= 64;
        }
        self.counts[set] -= 1;
    }

    /// The smallest number in the set.
    #[inline]
    pub(super) fn first(&self, set: usize) -> Option<u32> {
        if self.counts[set] == 0 {
            return None;
        }
        let mut at = 0;
        for (level, width) in self.levels.iter().zip(&self.widths).rev() {
            at = at * 64 + level[set * width + at].trailing_zeros() as usize;
        }
        Some(at as u32)
    }

    /// The smallest number not below `from`, or else the smallest of all (next fit).
    pub(super) fn next_from(&self, set: usize, from: u32) -> Option<u32> {
        let words = &self.levels[0][set * self.widths[0]..(set + 1) * self.widths[0]];
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
                assert_eq!(sets.len(set) as usize, trees[set].len());
            }
        }
    }
}
