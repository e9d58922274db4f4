//! The circle in which WOW's groups and IWC's strips are destaged: entries by ascending number, a
//! pointer that goes round, and a recency bit for each (specs §8.2, §8.4, §8.10.10).

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Entries in a circle.
#[derive(Debug, Default)]
pub(super) struct EntryRing {
    /// The recency bit of each.
    bits: BTreeMap<u64, bool>,
    /// The entry that was chosen last; before the smallest at first.
    pointer: Option<u64>,
}

impl EntryRing {
    /// Adds an entry with this bit. One that is made anew at the pointer comes last.
    pub(super) fn insert(&mut self, number: u64, bit: bool) {
        self.bits.insert(number, bit);
    }

    /// Sets the bit of an entry.
    pub(super) fn set(&mut self, number: u64) {
        if let Some(bit) = self.bits.get_mut(&number) {
            *bit = true;
        }
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, number: u64) {
        self.bits.remove(&number);
    }

    /// The entries by turns, from the pointer on.
    fn in_turn(&self) -> impl Iterator<Item = (u64, bool)> {
        // Excluding the pointer itself, so an entry that was just destaged and made
        // anew comes last.
        let behind = self.bits.range((self.pointer.map_or(Unbounded, Excluded), Unbounded));
        let before = self.pointer.map(|pointer| self.bits.range(..=pointer));
        behind.chain(before.into_iter().flatten()).map(|(number, bit)| (*number, *bit))
    }

    /// Returns true if an entry is among the next so many and its bit is not set.
    pub(super) fn is_near(&self, number: u64, of: usize) -> bool {
        self.in_turn().take(of).any(|entry| entry == (number, false))
    }

    /// Returns the entry that [`advance`](Self::advance) would find.
    pub(super) fn next(&self, can: impl Fn(u64) -> bool) -> Option<u64> {
        let mut first = None;
        for (number, bit) in self.in_turn().filter(|(number, _)| can(*number)) {
            if !bit {
                return Some(number);
            }
            // If all bits are set the first one goes, which is where the second
            // round would stop.
            first = first.or(Some(number));
        }
        first
    }

    /// Advances the pointer to the next entry whose bit is not set, of those that can be destaged, and
    /// clears the bits that it passes. The others are stepped over.
    pub(super) fn advance(&mut self, can: impl Fn(u64) -> bool) -> Option<u64> {
        // The second time round every bit that counts is clear.
        for _ in 0..2 {
            let begin = self.pointer.map_or(Unbounded, Excluded);
            let end = self.pointer.map_or(Unbounded, Included);
            let mut found = None;
            for (&number, bit) in self.bits.range_mut((begin, Unbounded)) {
                // An entry that cannot be destaged keeps its bit: the pointer has
                // not given it its chance.
                if can(number) && !std::mem::take(bit) {
                    found = Some(number);
                    break;
                }
            }
            if found.is_none() && self.pointer.is_some() {
                for (&number, bit) in self.bits.range_mut((Unbounded, end)) {
                    if can(number) && !std::mem::take(bit) {
                        found = Some(number);
                        break;
                    }
                }
            }
            if found.is_some() {
                self.pointer = found;
                return found;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(ring: &EntryRing) -> Vec<(u64, u8)> {
        ring.bits.iter().map(|(number, bit)| (*number, u8::from(*bit))).collect()
    }

    fn write(ring: &mut EntryRing, number: u64) {
        if ring.bits.contains_key(&number) {
            ring.set(number);
        } else {
            ring.insert(number, false);
        }
    }

    fn destage(ring: &mut EntryRing) -> Option<u64> {
        let next = ring.next(|_| true);
        let number = ring.advance(|_| true);
        assert_eq!(next, number, "it was told before");
        let number = number?;
        ring.remove(number);
        Some(number)
    }

    /// The table of specs §8.2.
    #[test]
    fn the_pointer_clears_bits_and_takes_the_first_without() {
        let mut ring = EntryRing::default();
        for number in [3, 7, 5, 7] {
            write(&mut ring, number);
        }
        assert_eq!(state(&ring), [(3, 0), (5, 0), (7, 1)]);
        assert_eq!(destage(&mut ring), Some(3));
        for number in [6, 2, 5] {
            write(&mut ring, number);
        }
        assert_eq!(state(&ring), [(2, 0), (5, 1), (6, 0), (7, 1)]);
        assert_eq!(destage(&mut ring), Some(6));
        assert_eq!(state(&ring), [(2, 0), (5, 0), (7, 1)], "g5 only loses its bit");
        assert_eq!(destage(&mut ring), Some(2));
        assert_eq!(state(&ring), [(5, 0), (7, 0)], "g7 loses its bit on the way round");
        assert_eq!([destage(&mut ring), destage(&mut ring), destage(&mut ring)], [Some(5), Some(7), None]);
    }

    #[test]
    fn all_bits_set_means_once_round() {
        let mut ring = EntryRing::default();
        ring.insert(4, true);
        ring.insert(8, true);
        assert_eq!([ring.next(|_| true), ring.advance(|_| true)], [Some(4); 2]);
        assert_eq!(state(&ring), [(4, 0), (8, 0)]);
    }

    #[test]
    fn what_cannot_be_destaged_keeps_its_bit() {
        let mut ring = EntryRing::default();
        ring.insert(1, true);
        ring.insert(2, true);
        assert_eq!([ring.next(|number| number != 1), ring.advance(|number| number != 1)], [Some(2); 2]);
        assert_eq!(state(&ring), [(1, 1), (2, 0)]);
        assert_eq!(ring.advance(|_| false), None);
    }

    #[test]
    fn an_entry_made_anew_at_the_pointer_comes_last() {
        let mut ring = EntryRing::default();
        ring.insert(5, false);
        ring.insert(6, false);
        assert_eq!(destage(&mut ring), Some(5));
        ring.insert(5, false);
        assert_eq!([destage(&mut ring), destage(&mut ring)], [Some(6), Some(5)]);
    }
}
