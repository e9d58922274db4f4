//! Rows that recovery made consistent while the NVRAM has versions of them that say otherwise.
//!
//! A start that found one of these would take it for the newest parity of its row, or for what that covers. So the intent of
//! the row stays, which has it recovered once more, until all of them are freed.

use destage_plan::{NvSlot, Row};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Lists versions that must be freed before the intents of their rows are cleared.
#[derive(Debug, Default)]
pub(super) struct OutdatedVersions {
    slots: HashMap<NvSlot, Row, FixedState>,
    /// Counts the slots of each row that has some.
    rows: HashMap<Row, u32, FixedState>,
}

impl OutdatedVersions {
    /// Adds slots of a row. Those that it has already count once.
    pub(super) fn add(&mut self, row: Row, slots: impl Iterator<Item = NvSlot>) {
        for slot in slots {
            if self.slots.insert(slot, row).is_none() {
                *self.rows.entry(row).or_default() += 1;
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

    /// Takes out a slot that is free. Returns its row if that was the last one of it.
    pub(super) fn take(&mut self, slot: NvSlot) -> Option<Row> {
        let row = self.slots.remove(&slot)?;
        let left = self.rows.get_mut(&row).expect("the row has a slot");
        *left -= 1;
        if *left > 0 {
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
        outdated.add(Row(3), [slot(0), slot(1)].into_iter());
        outdated.add(Row(3), [slot(1)].into_iter());
        outdated.add(Row(4), [slot(2)].into_iter());
        outdated.add(Row(5), std::iter::empty());
        assert_eq!([3, 4, 5].map(|row| outdated.holds(Row(row))), [true, true, false]);
        assert_eq!([0, 2, 7].map(|index| outdated.take(slot(index))), [None, Some(Row(4)), None]);
        assert_eq!(outdated.take(slot(1)), Some(Row(3)));
        assert!(outdated.is_empty());
    }
}
