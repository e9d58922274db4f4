//! Which rows may be inconsistent: the bookkeeping behind [`Step::Intent`](crate::Step::Intent),
//! one for every controller.
//!
//! A row's intent is set, durably, before an operation changes it. It may be cleared when no
//! operation is at work on the row and a flush of all members *began* after the last one had ended:
//! before that, a cut may still take away any part of what was written.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::{Row, Rows};

#[derive(Clone, Copy, Default)]
struct State {
    /// Operations at work.
    active: u32,
    /// The generation in which the last one ended.
    ended: u64,
}

/// Rows with an open intent.
#[derive(Default)]
pub struct Intents {
    rows: HashMap<Row, State, FixedState>,
    /// Rows in the order in which operations on them ended, with the generation. An entry is stale
    /// if the row changed since.
    ended: VecDeque<(Row, u64)>,
    /// Flushes begun.
    generation: u64,
    /// Rows at work, once for each operation.
    active: u64,
}

impl Intents {
    /// An operation is about to change `rows`. The caller issues the intent in every case: an
    /// earlier one may be about to be cleared.
    pub fn begin(&mut self, rows: Rows) {
        for row in rows.iter() {
            self.rows.entry(row).or_default().active += 1;
        }
        self.active += u64::from(rows.count);
    }

    /// The operation has ended; its writes are done, though not necessarily durable.
    pub fn end(&mut self, rows: Rows) {
        for row in rows.iter() {
            let state = self.rows.get_mut(&row).expect("the row was begun");
            state.active -= 1;
            state.ended = self.generation;
            if state.active == 0 {
                self.ended.push_back((row, self.generation));
            }
        }
        self.active -= u64::from(rows.count);
    }

    /// A flush of everything written so far begins; its generation, for [`flushed`](Self::flushed).
    pub fn flush_begins(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }

    /// The flush of `generation` is done: appends the rows that are consistent on stable storage
    /// now, ascending where they were written so, and forgets them. The caller clears their
    /// intents. Rows that are `held` keep theirs until they are begun anew or [let go](Self::let_go).
    pub fn flushed(&mut self, generation: u64, held: impl Fn(Row) -> bool, rows: &mut Vec<Rows>) {
        while let Some(&(row, ended)) = self.ended.front().filter(|entry| entry.1 < generation) {
            self.ended.pop_front();
            if self.rows.get(&row).is_some_and(|state| state.active == 0 && state.ended == ended) && !held(row) {
                self.rows.remove(&row);
                match rows.last_mut() {
                    Some(last) if last.end() == row => last.count += 1,
                    _ => rows.push(Rows::new(row, 1)),
                }
            }
        }
    }

    /// The row's intent need not be held any more: a flush that begins from now on may clear it.
    pub fn let_go(&mut self, row: Row) {
        if let Some(state) = self.rows.get_mut(&row).filter(|state| state.active == 0) {
            state.ended = self.generation;
            self.ended.push_back((row, self.generation));
        }
    }

    /// Whether a row's intent is open.
    pub fn contains(&self, row: Row) -> bool {
        self.rows.contains_key(&row)
    }

    /// Whether an operation is at work on the row.
    pub fn is_active(&self, row: Row) -> bool {
        self.rows.get(&row).is_some_and(|state| state.active > 0)
    }

    /// Whether no operation is at work on a row, and a flush would clear nothing: what is open is
    /// held.
    pub fn is_at_rest(&self) -> bool {
        self.active == 0 && self.ended.is_empty()
    }

    /// Rows with an open intent, in no particular but always the same order.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        self.rows.keys().copied()
    }

    /// Rows with an open intent.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no intent is open.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Rows that a flush would allow to clear.
    pub fn ended(&self) -> usize {
        self.ended.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_is_cleared_only_by_a_flush_that_began_after_the_operation_ended() {
        let mut intents = Intents::default();
        let mut clear = Vec::new();
        intents.begin(Rows::new(Row(4), 2));
        let early = intents.flush_begins();
        intents.end(Rows::new(Row(4), 2));
        intents.flushed(early, |_| false, &mut clear);
        assert!(clear.is_empty() && intents.len() == 2);
        let later = intents.flush_begins();
        intents.begin(Rows::new(Row(5), 1));
        intents.flushed(later, |_| false, &mut clear);
        assert_eq!(clear, [Rows::new(Row(4), 1)], "row 5 is at work again");
        intents.end(Rows::new(Row(5), 1));
        clear.clear();
        intents.flushed(later, |_| false, &mut clear);
        assert!(clear.is_empty());
        let last = intents.flush_begins();
        intents.flushed(last, |_| false, &mut clear);
        assert_eq!(clear, [Rows::new(Row(5), 1)]);
        assert!(intents.is_empty() && intents.ended() == 0);
    }

    #[test]
    fn an_intent_that_is_held_stays_until_it_is_let_go() {
        let mut intents = Intents::default();
        let mut clear = Vec::new();
        intents.begin(Rows::new(Row(7), 1));
        intents.end(Rows::new(Row(7), 1));
        let held = intents.flush_begins();
        intents.flushed(held, |_| true, &mut clear);
        assert!(clear.is_empty() && intents.contains(Row(7)) && intents.ended() == 0);
        let before = intents.flush_begins();
        intents.let_go(Row(7));
        intents.flushed(before, |_| false, &mut clear);
        assert!(clear.is_empty(), "what let it go may not have been durable when that flush began");
        let after = intents.flush_begins();
        intents.flushed(after, |_| false, &mut clear);
        assert_eq!(clear, [Rows::new(Row(7), 1)]);
    }
}
