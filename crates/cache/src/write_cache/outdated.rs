//! Holds rows that recovery made consistent while the NVRAM has versions of them that say otherwise.
//!
//! A start that found one of these would take it for the newest parity of its row, or for what that covers. So the intent of
//! the row stays, which has it recovered once more, until all of them are freed; and the array is not ready before, unless
//! they are behind damaged ones, which stay until it is.

use destage_plan::{NvSlot, Row};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Lists versions that must be freed before the intents of their rows are cleared.
#[derive(Debug, Default)]
pub(super) struct OutdatedVersions {
    /// Holds of each slot its row, and whether it is behind a damaged one.
    slots: HashMap<NvSlot, (Row, bool), FixedState>,
    /// Counts the slots of each row that has some.
    rows: HashMap<Row, u32, FixedState>,
    /// Counts the slots that are behind no damaged ones.
    free_to_go: usize,
}

impl OutdatedVersions {
    /// Adds slots of a row, each with whether it is behind a damaged one. Those that it has already count once.
    pub(super) fn add(&mut self, row: Row, slots: impl Iterator<Item = (NvSlot, bool)>) {
        for (slot, waits) in slots {
            // A row may be recovered twice before its slots are freed; its slots
            // must not count twice.
            if self.slots.insert(slot, (row, waits)).is_none() {
                *self.rows.entry(row).or_default() += 1;
                self.free_to_go += usize::from(!waits);
            }
        }
    }

    /// Returns true if a version of the row is not freed so far.
    pub(super) fn holds(&self, row: Row) -> bool {
        self.rows.contains_key(&row)
    }

    /// Returns true if no row has such versions.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns true if some can be freed while damaged ones stay.
    pub(super) const fn are_free_to_go(&self) -> bool {
        self.free_to_go > 0
    }

    /// Takes out a slot that is free. Returns its row if that was the last one of it.
    pub(super) fn take(&mut self, slot: NvSlot) -> Option<Row> {
        let (row, waits) = self.slots.remove(&slot)?;
        self.free_to_go -= usize::from(!waits);
        let left = self.rows.get_mut(&row).expect("the row has a slot");
        *left -= 1;
        if *left > 0 {
            // The intent goes with the last version that a start could believe.
            return None;
        }
        self.rows.remove(&row);
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(index: u32) -> NvSlot {
        NvSlot { index, generation: 1 }
    }

    #[test]
    fn a_row_is_held_until_its_last_slot_is_free() {
        let mut outdated = OutdatedVersions::default();
        outdated.add(Row(3), [(slot(0), false), (slot(1), true)].into_iter());
        outdated.add(Row(3), [(slot(1), true)].into_iter());
        outdated.add(Row(4), [(slot(2), false)].into_iter());
        outdated.add(Row(5), std::iter::empty());
        assert_eq!([3, 4, 5].map(|row| outdated.holds(Row(row))), [true, true, false]);
        assert!(outdated.are_free_to_go());
        assert_eq!([0, 2, 7].map(|index| outdated.take(slot(index))), [None, Some(Row(4)), None]);
        assert!(!outdated.are_free_to_go() && !outdated.is_empty());
        assert_eq!(outdated.take(slot(1)), Some(Row(3)));
        assert!(outdated.is_empty());
    }
}
