//! Keeps account of the slots of the NVRAM, or of memory, that are in use.

use crate::NvSlot;

/// The slots of the NVRAM. A slot is never put twice without having been freed: what it held must
/// stay until what replaces it is durable elsewhere.
#[derive(Debug)]
pub struct NvSlots {
    /// The number of the first.
    first: u32,
    slots: u32,
    /// Slots that were in use and are not; those beyond `generations` never were.
    free: Vec<u32>,
    generations: Vec<u32>,
    used: Vec<bool>,
}

impl NvSlots {
    /// `slots` free slots. They take memory only once they are in use.
    pub const fn new(slots: u32) -> Self {
        Self { first: 0, slots, free: Vec::new(), generations: Vec::new(), used: Vec::new() }
    }

    /// Creates as many free slots of [memory](NvSlot::is_in_memory).
    pub const fn in_memory(slots: u32) -> Self {
        let mut all = Self::new(slots);
        all.first = NvSlot::FIRST_IN_MEMORY;
        all
    }

    /// Has as many slots of memory [for pages of rows](NvSlot::is_of_row).
    pub const fn of_rows(slots: u32) -> Self {
        let mut all = Self::new(slots);
        all.first = NvSlot::FIRST_OF_ROWS;
        all
    }

    /// Notes that a slot was in use when this life began; whether there is such a slot and it was
    /// free.
    pub fn occupy(&mut self, slot: NvSlot) -> bool {
        let index = slot.index as usize;
        // What an earlier life left may be damaged or not fit this array, so it is checked and not trusted.
        if slot.index >= self.slots || self.used.get(index) == Some(&true) {
            return false;
        }
        if let Some(at) = self.free.iter().position(|free| *free == slot.index) {
            self.free.remove(at);
        }
        // Slots that were never used go below the others, so the lowest is taken first, as in a new array.
        let between = self.used.len() as u32..slot.index;
        self.free.splice(0..0, between.rev());
        if self.used.len() <= index {
            self.used.resize(index + 1, false);
            self.generations.resize(index + 1, 0);
        }
        self.used[index] = true;
        self.generations[index] = slot.generation;
        true
    }

    /// A free slot.
    pub fn alloc(&mut self) -> Option<NvSlot> {
        // Slots that were freed come before those never used, so only as many take memory as are in use at
        // once.
        let index = match self.free.pop() {
            Some(index) => index,
            None if (self.used.len() as u32) < self.slots => {
                self.used.push(false);
                self.generations.push(0);
                self.used.len() as u32 - 1
            }
            None => return None,
        };
        self.used[index as usize] = true;
        let generation = &mut self.generations[index as usize];
        // A step that still names the slot's earlier use is then found out, instead of reading what came after.
        *generation = generation.wrapping_add(1);
        Some(NvSlot { index: self.first + index, generation: *generation })
    }

    /// Takes a slot back, after the step that frees it was issued.
    pub fn free(&mut self, slot: NvSlot) {
        let index = slot.index - self.first;
        let (used, generation) = (&mut self.used[index as usize], self.generations[index as usize]);
        // Freeing twice would hand one slot to two pages, and the second put would destroy the only copy of the
        // first.
        assert!(*used && generation == slot.generation, "{slot:?} is not in use");
        *used = false;
        self.free.push(index);
    }

    /// Slots that are free.
    pub fn available(&self) -> usize {
        self.slots as usize - self.used.len() + self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn slot(index: u32, generation: u32) -> NvSlot {
        NvSlot { index, generation }
    }

    #[test]
    fn the_lowest_slot_comes_first_and_then_what_was_freed_last() {
        let mut slots = NvSlots::new(4);
        let taken: Vec<_> = std::iter::from_fn(|| slots.alloc()).collect();
        assert_eq!(taken, [slot(0, 1), slot(1, 1), slot(2, 1), slot(3, 1)]);
        assert_eq!(slots.available(), 0);
        slots.free(slot(2, 1));
        slots.free(slot(0, 1));
        assert_eq!((slots.available(), slots.alloc(), slots.alloc()), (2, Some(slot(0, 2)), Some(slot(2, 2))));
    }

    #[test]
    fn slots_of_an_earlier_life_are_not_given_away() {
        let mut slots = NvSlots::new(6);
        assert!(slots.occupy(slot(4, 9)) && slots.occupy(slot(1, 3)));
        assert!(!slots.occupy(slot(4, 9)) && !slots.occupy(slot(1, 1)) && !slots.occupy(slot(6, 1)));
        assert_eq!(slots.available(), 4);
        let taken: Vec<_> = std::iter::from_fn(|| slots.alloc()).collect();
        assert_eq!(taken, [slot(0, 1), slot(2, 1), slot(3, 1), slot(5, 1)]);
        slots.free(slot(4, 9));
        assert_eq!(slots.alloc(), Some(slot(4, 10)));
        let mut held = NvSlots::in_memory(1);
        let first = held.alloc().expect("there is one");
        assert!(first.is_in_memory() && !slot(4, 10).is_in_memory() && held.alloc().is_none());
        held.free(first);
        assert_eq!(held.alloc(), Some(NvSlot { generation: 2, ..first }));
        let row = NvSlots::of_rows(1).alloc().expect("there is one");
        assert!(row.is_of_row() && row.is_in_memory() && !first.is_of_row());
        assert_eq!((row.place(), first.place(), slot(4, 10).place()), (0, 0, 4));
        assert_eq!(NvSlots::new(u32::MAX).alloc(), Some(slot(0, 1)), "no memory for slots that are not used");
    }
}
