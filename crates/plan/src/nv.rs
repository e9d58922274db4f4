//! Which slots of the NVRAM are in use.

use crate::NvSlot;

/// The slots of the NVRAM. A slot is never put twice without having been freed: what it held must
/// stay until what replaces it is durable elsewhere.
#[derive(Debug)]
pub struct NvSlots {
    free: Vec<u16>,
    generations: Vec<u32>,
    used: Vec<bool>,
}

impl NvSlots {
    /// `slots` free slots.
    pub fn new(slots: u16) -> Self {
        Self {
            free: (0..slots).rev().collect(),
            generations: vec![0; usize::from(slots)],
            used: vec![false; usize::from(slots)],
        }
    }

    /// Notes that a slot was in use when this life began; whether there is such a slot and it was
    /// free.
    pub fn occupy(&mut self, slot: NvSlot) -> bool {
        let index = usize::from(slot.index);
        if self.used.get(index) != Some(&false) {
            return false;
        }
        self.used[index] = true;
        self.generations[index] = slot.generation;
        self.free.retain(|free| *free != slot.index);
        true
    }

    /// A free slot.
    pub fn alloc(&mut self) -> Option<NvSlot> {
        let index = self.free.pop()?;
        self.used[usize::from(index)] = true;
        let generation = &mut self.generations[usize::from(index)];
        *generation = generation.wrapping_add(1);
        Some(NvSlot { index, generation: *generation })
    }

    /// Takes a slot back, after the step that frees it was issued.
    pub fn free(&mut self, slot: NvSlot) {
        let index = usize::from(slot.index);
        assert!(self.used[index] && self.generations[index] == slot.generation, "{slot:?} is not in use");
        self.used[index] = false;
        self.free.push(slot.index);
    }

    /// Slots that are free.
    pub fn available(&self) -> usize {
        self.free.len()
    }
}
