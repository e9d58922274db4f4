//! Pages that wait for room, in the order of waiting, and what each lacked when it was looked at last: in
//! overload there are thousands, and most of what happens makes room for none of them.

use std::collections::VecDeque;

use destage_plan::{Dev, DevSet, OpId};
use destage_raid::MAX_DEVICES;

use super::enter::Entering;

/// Pages that wait for room or slots.
#[derive(Debug)]
pub(super) struct Queue {
    rows: VecDeque<Entering>,
    /// Of each, the members that had no room; none if it has not been looked at, or lacked slots.
    short: VecDeque<DevSet>,
    /// How often each member's pool had changed, and the slots there were, at the last look.
    changes: [u64; MAX_DEVICES],
    slots: u32,
    /// Some have not been looked at.
    fresh: bool,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self { rows: VecDeque::new(), short: VecDeque::new(), changes: [0; MAX_DEVICES], slots: 0, fresh: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The members that any has no room in.
    pub(super) fn short(&self) -> DevSet {
        self.short.iter().fold(DevSet::EMPTY, |all, short| all | *short)
    }

    pub(super) fn push(&mut self, row: &Entering) {
        self.rows.push_back(*row);
        self.short.push_back(DevSet::EMPTY);
        self.fresh = true;
    }

    /// The members where there may be room now that there was not at the last look; none at all if nothing
    /// has changed for any that waits.
    pub(super) fn changed(&mut self, pools: impl Iterator<Item = u64>, slots: u32) -> Option<DevSet> {
        let mut changed = DevSet::EMPTY;
        for (dev, (seen, now)) in self.changes.iter_mut().zip(pools).enumerate() {
            if std::mem::replace(seen, now) != now {
                changed.insert(Dev(dev as u8));
            }
        }
        let else_changed = std::mem::take(&mut self.fresh) | (std::mem::replace(&mut self.slots, slots) != slots);
        (else_changed || !changed.is_empty()).then_some(changed)
    }

    /// The row at this place, with what it lacked, if it is there.
    pub(super) fn get(&self, index: usize) -> Option<(&Entering, DevSet)> {
        Some((self.rows.get(index)?, self.short[index]))
    }

    pub(super) fn set_short(&mut self, index: usize, of: DevSet) {
        self.short[index] = of;
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.rows.remove(index);
        self.short.remove(index);
    }

    /// The operation is planned anew, or is no more.
    pub(super) fn forget(&mut self, op: OpId) {
        let mut index = 0;
        while let Some(row) = self.rows.get(index) {
            if row.op == op { self.remove(index) } else { index += 1 }
        }
    }
}
