//! STOW: groups of sequential writes in a ring of their own (specs §8.3).

use super::*;

/// The constants of STOW, in pages and groups.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stow {
    pub run: u64,
    pub margin: usize,
    pub step: usize,
    pub least: usize,
    pub most: usize,
    pub at_first: usize,
    pub stretch: u64,
    pub hysteresis: usize,
}

/// Holds the state beside WOW's ring.
#[derive(Clone, Debug)]
pub(super) struct Apart {
    pub(super) of: Stow,
    pub(super) pool: Pool,
    pub(super) desired: usize,
    /// The ring whose turn it is, and for how many groups.
    turn: (bool, u64),
    /// Random, sequential.
    goes_on: [bool; 2],
}

impl Apart {
    pub(super) fn new(of: Stow, capacity: usize) -> Self {
        Self { of, pool: Pool::new(capacity, false), desired: of.at_first, turn: (false, 0), goes_on: [false; 2] }
    }
}

impl Model {
    /// The pool of a group of the upper layer.
    pub(super) fn groups_of(&mut self, group: u64) -> &mut Pool {
        match &mut self.apart {
            Some(apart) if apart.pool.entries.iter().any(|entry| entry.number == group) => &mut apart.pool,
            _ => &mut self.upper,
        }
    }

    pub(super) fn upper_free(&self) -> usize {
        let apart = self.apart.as_ref().map_or(0, |apart| apart.pool.capacity - apart.pool.free());
        self.upper.free().saturating_sub(apart)
    }

    /// Moves a group to the sequential ring.
    fn move_apart(&mut self, group: u64) {
        let Some(apart) = &mut self.apart else { return };
        if let Some(at) = self.upper.entries.iter().position(|entry| entry.number == group) {
            let entry = self.upper.entries.remove(at);
            apart.pool.entries.push(Entry { recency: false, ..entry });
        }
    }

    /// A write comes; whether it is sequential.
    pub(super) fn comes(&mut self, frag: &Frag) -> bool {
        let behind = self.grow_run(frag);
        let Some(Apart { of: Stow { run, .. }, .. }) = self.apart else { return behind > 0 };
        if behind < run {
            return false;
        }
        // Whose groups are those of the pages before it that make it so.
        let stripe = self.shape.chunk * self.shape.data() as u64;
        for page in frag.page.saturating_sub(run)..frag.page {
            self.move_apart(page / stripe);
        }
        true
    }

    /// A page enters its group; whether a version of it was held.
    pub(super) fn admit(&mut self, group: u64, cell: Cell, id: u64, sequential: bool) -> bool {
        let Some(apart) = &mut self.apart else { return self.upper.admit(group, cell, id, sequential) };
        let was_apart = apart.pool.entry(group).is_some();
        let pool = if was_apart { &mut apart.pool } else { &mut self.upper };
        if pool.page(group, cell).is_some() && pool.round().iter().take(apart.of.margin).any(|next| *next == group) {
            let hit = pool.entry(group).expect("it has a page").recency;
            let Stow { step, least, most, .. } = apart.of;
            if was_apart && !hit {
                apart.desired = (apart.desired + step).min(most);
            } else if !hit {
                apart.desired = apart.desired.saturating_sub(step).max(least);
            }
        }
        if sequential {
            self.move_apart(group);
        }
        let apart = self.apart.as_mut().expect("it is there");
        if was_apart || sequential {
            let was_there = apart.pool.admit(group, cell, id, sequential);
            apart.pool.entry(group).expect("it was made").recency = false;
            was_there
        } else {
            self.upper.admit(group, cell, id, sequential)
        }
    }

    /// The group that STOW destages next.
    pub(super) fn next_of_two(&mut self) -> Option<u64> {
        let at_once = self.clean || !self.waiting.is_empty();
        let Options { low, high, groups, .. } = self.options;
        let apart = self.apart.as_mut().expect("there are two");
        let held = [self.upper.capacity - self.upper.free(), apart.pool.capacity - apart.pool.free()];
        let shares = [self.upper.capacity - apart.desired, apart.desired];
        let allowed: [u64; 2] = std::array::from_fn(|ring| {
            let (held, share) = (held[ring] as u64 * 100, shares[ring] as u64);
            let by_threshold = if held < low * share {
                0
            } else if held >= high * share {
                groups
            } else {
                (groups * (held - low * share)).div_ceil((high - low) * share).max(1)
            };
            let above = held + apart.of.hysteresis as u64 * 100 > low * share;
            apart.goes_on[ring] = by_threshold > 0 || apart.goes_on[ring] && above;
            if at_once { groups } else { by_threshold.max(u64::from(apart.goes_on[ring])) }
        });
        let turn = if apart.turn.1 > 0 { apart.turn.0 } else { held[1] > apart.desired };
        for is_apart in [turn, !turn] {
            if (self.groups.len() + self.chosen.len()) as u64 >= allowed[usize::from(is_apart)] {
                continue;
            }
            let pool = if is_apart { &mut apart.pool } else { &mut self.upper };
            if let Some(group) = pool.advance() {
                let left = if apart.turn.0 == is_apart { apart.turn.1 } else { 0 };
                apart.turn = (is_apart, if left > 0 { left } else { apart.of.stretch } - 1);
                self.figures[8] += u64::from(is_apart);
                return Some(group);
            }
        }
        None
    }
}
