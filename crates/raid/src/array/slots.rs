//! The slots of the NVRAM: the array's own, and the share of what stands on it. There is one
//! allocator, and a tag says whose a slot is.

use destage_plan::{NvSlot, Out, Tag};

use super::RaidArray;

/// Kinds of tags, in their second byte, below this are the array's.
const FIRST_KIND_ABOVE: u8 = 16;

/// The slots of what stands on the array.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlotShare {
    pub(super) slots: u32,
    pub(super) used: u32,
}

impl RaidArray {
    /// The second byte of a tag by which a slot is known to belong to what stands on the array; the
    /// first is a version.
    pub const fn kind_above(number: u8) -> u8 {
        FIRST_KIND_ABOVE + number
    }

    /// Is true if a slot with this tag belongs to the array's user.
    pub const fn is_above(tag: &Tag) -> bool {
        tag[1] >= FIRST_KIND_ABOVE
    }

    /// A free slot out of the share of what stands on the array.
    pub fn take_slot(&mut self) -> Option<NvSlot> {
        if self.share.used == self.share.slots {
            return None;
        }
        self.share.used += 1;
        // `own_slots` leaves the share alone, so a slot is free whenever the share has one left.
        Some(self.slots.alloc().expect("the share is kept free"))
    }

    /// Slots of the share that can be taken.
    pub const fn slots_left(&self) -> u32 {
        self.share.slots - self.share.used
    }

    /// Takes back a slot of the share, after the step that frees it was done, or if nothing was put
    /// into it. Writes that [wait](super::WriteApproach::Waits) try again.
    pub fn give_slot(&mut self, slot: NvSlot, out: &mut Out) {
        self.slots.free(slot);
        self.share.used -= 1;
        // Operations wait for slots, whoever gives them back.
        self.wake(out);
    }

    /// Slots that the array itself may still take.
    pub(super) fn own_slots(&self) -> usize {
        self.slots.available() - (self.share.slots - self.share.used) as usize
    }
}
