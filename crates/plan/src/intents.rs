//! Keeps account of the rows that may be inconsistent, for [`Step::Intent`](crate::Step::Intent) of every
//! controller.
//!
//! Invariants:
//! * A row's intent is durable before an operation changes the row.
//! * An intent is cleared only after a flush of all members that *began* after the last operation on the row had ended.
//!   A power failure before that may still take away any part of the writes.
//! * A cleared row is forgotten before the clear is issued. An operation that comes meanwhile sets its own intent, and
//!   the two steps take effect in that order.
//!
//! A clearable row may keep its intent, and an operation on the row then has none to set. So a row that is written and
//! flushed again and again costs no step each time.

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
    /// An operation that has set the intent has ended, hence it is durable, and nothing that was
    /// issued since takes it away.
    set: bool,
    /// Consistent on stable storage.
    clearable: bool,
}

/// Rows with an open intent.
#[derive(Default)]
pub struct Intents {
    // A fixed hash makes the order of iteration the same in each run, so a seed decides everything.
    rows: HashMap<Row, State, FixedState>,
    /// Rows in the order in which operations on them ended, with the generation. An entry is stale
    /// if the row changed since.
    ended: VecDeque<(Row, u64)>,
    /// Rows that may be cleared, those first that have been for the longest. An entry is stale as
    /// above.
    clearable: VecDeque<(Row, u64)>,
    /// Rows that may be cleared.
    kept: usize,
    /// Flushes begun.
    generation: u64,
    /// Rows at work, once for each operation.
    active: u64,
}

impl Intents {
    /// An operation is about to change `rows`. Whether the intent of all of them is durably set
    /// already, so that it need not set it: not because an operation has issued it that is still at
    /// work.
    pub fn begin(&mut self, rows: Rows) -> bool {
        let mut set = true;
        for row in rows.iter() {
            let state = self.rows.entry(row).or_default();
            state.active += 1;
            self.kept -= usize::from(std::mem::take(&mut state.clearable));
            // An intent that another operation has issued may not be durable yet, so only one that has ended
            // counts.
            set &= state.set;
        }
        self.active += u64::from(rows.count);
        set
    }

    /// The operation has ended; its writes are done, though not necessarily durable. `set` tells
    /// whether it has set the intent.
    pub fn end(&mut self, rows: Rows, set: bool) {
        for row in rows.iter() {
            let state = self.rows.get_mut(&row).expect("the row was begun");
            state.active -= 1;
            // A flush in flight began before this end and need not cover the writes, so the row waits for a later
            // one.
            state.ended = self.generation;
            state.set |= set;
            if state.active == 0 {
                self.ended.push_back((row, self.generation));
            }
        }
        self.active -= u64::from(rows.count);
    }

    /// A flush of everything written so far begins; its generation, for [`flushed`](Self::flushed).
    pub fn flush_begins(&mut self) -> u64 {
        // Flushes are counted, since nothing here has a clock. The count tells which operations ended before a
        // flush began.
        self.generation += 1;
        self.generation
    }

    /// The flush of `generation` is done: rows that are consistent on stable storage now may be
    /// cleared, but for those that are `held` until they are begun anew or [let go](Self::let_go).
    pub fn flushed(&mut self, generation: u64, held: impl Fn(Row) -> bool) {
        // Entries are in the order of generations, so the first that is too new ends the search.
        while let Some(&(row, ended)) = self.ended.front().filter(|entry| entry.1 < generation) {
            self.ended.pop_front();
            if let Some(state) = self.rows.get_mut(&row)
                && state.active == 0
                && state.ended == ended
                && !state.clearable
                && !held(row)
            {
                state.clearable = true;
                self.kept += 1;
                self.clearable.push_back((row, ended));
            }
        }
        // Stale entries stay until they are many: searching the queue for each one would cost a pass per write.
        if self.clearable.len() > 64 + 2 * self.kept {
            self.clearable.retain(|entry| is_current(&self.rows, *entry));
        }
    }

    /// Returns the generation that the next flush will have.
    pub const fn next_generation(&self) -> u64 {
        self.generation + 1
    }

    /// Forgets rows that may be cleared, those first that have been for the longest, until no more
    /// than `left` intents are open: appends them, ascending where they were written so. The caller
    /// clears their intents.
    pub fn clear(&mut self, left: usize, cleared: &mut Vec<Rows>) {
        self.clear_while(|open, _| open > left, cleared);
    }

    /// Forgets rows that may be cleared and that were not written since the flush of `generation` began, as
    /// [`clear`](Self::clear) does.
    pub fn clear_before(&mut self, generation: u64, cleared: &mut Vec<Rows>) {
        self.clear_while(|_, ended| ended < generation, cleared);
    }

    /// Forgets rows as long as this holds of the number of open intents and of the generation in which the last operation on
    /// the row ended.
    fn clear_while(&mut self, holds: impl Fn(usize, u64) -> bool, cleared: &mut Vec<Rows>) {
        while let Some(&entry) = self.clearable.front() {
            if is_current(&self.rows, entry) && !holds(self.rows.len(), entry.1) {
                break;
            }
            self.clearable.pop_front();
            if !is_current(&self.rows, entry) {
                continue;
            }
            let row = entry.0;
            // Forgetting comes before the clear is issued, so an operation that comes meanwhile sets its own
            // intent.
            self.rows.remove(&row);
            self.kept -= 1;
            match cleared.last_mut() {
                Some(last) if last.end() == row => last.count += 1,
                _ => cleared.push(Rows::new(row, 1)),
            }
        }
    }

    /// The row's intent need not be held any more: a flush that begins from now on may clear it.
    pub fn let_go(&mut self, row: Row) {
        if let Some(state) = self.rows.get_mut(&row).filter(|state| state.active == 0 && !state.clearable) {
            state.ended = self.generation;
            // The record that let the row go may not be durable, so only a flush that begins later may clear it.
            self.ended.push_back((row, self.generation));
        }
    }

    /// Returns true if the row's intent is open.
    pub fn contains(&self, row: Row) -> bool {
        self.rows.contains_key(&row)
    }

    /// Returns true if an operation is at work on the row.
    pub fn is_active(&self, row: Row) -> bool {
        self.rows.get(&row).is_some_and(|state| state.active > 0)
    }

    /// Returns true if no operation is at work on a row, and a flush would clear nothing: the open intents are
    /// held.
    pub fn is_at_rest(&self) -> bool {
        self.active == 0 && !self.has_idle()
    }

    /// Rows with an open intent, in no particular but always the same order.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        self.rows.keys().copied()
    }

    /// Rows with an open intent.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if no intent is open.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns true if there are rows whose intents can be cleared, at once or after a flush.
    pub fn has_idle(&self) -> bool {
        self.kept > 0 || !self.ended.is_empty()
    }
}

/// Returns true if nothing has happened to a row since it could be cleared.
fn is_current(rows: &HashMap<Row, State, FixedState>, (row, ended): (Row, u64)) -> bool {
    rows.get(&row).is_some_and(|state| state.clearable && state.ended == ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(first: u64, count: u32) -> Rows {
        Rows::new(Row(first), count)
    }

    fn flush(intents: &mut Intents) {
        let generation = intents.flush_begins();
        intents.flushed(generation, |_| false);
    }

    fn clear(intents: &mut Intents, left: usize) -> Vec<Rows> {
        let mut cleared = Vec::new();
        intents.clear(left, &mut cleared);
        cleared
    }

    #[test]
    fn an_intent_is_cleared_only_by_a_flush_that_began_after_the_operation_ended() {
        let mut intents = Intents::default();
        intents.begin(rows(4, 2));
        let early = intents.flush_begins();
        intents.end(rows(4, 2), true);
        intents.flushed(early, |_| false);
        assert!(clear(&mut intents, 0).is_empty() && intents.len() == 2);
        let later = intents.flush_begins();
        intents.begin(rows(5, 1));
        intents.flushed(later, |_| false);
        assert_eq!(clear(&mut intents, 0), [rows(4, 1)], "row 5 is at work again");
        intents.end(rows(5, 1), false);
        intents.flushed(later, |_| false);
        assert!(clear(&mut intents, 0).is_empty());
        flush(&mut intents);
        assert_eq!(clear(&mut intents, 0), [rows(5, 1)]);
        assert!(intents.is_empty() && !intents.has_idle());
    }

    #[test]
    fn an_intent_is_set_from_the_end_of_an_operation_that_set_it_until_it_is_cleared() {
        let mut intents = Intents::default();
        assert!(!intents.begin(rows(7, 1)));
        assert!(!intents.begin(rows(7, 1)), "it is on its way");
        intents.end(rows(7, 1), false);
        assert!(!intents.begin(rows(7, 1)), "the one that ended has not set it");
        intents.end(rows(7, 1), true);
        assert!(!intents.begin(rows(7, 2)), "one of two rows");
        intents.end(rows(7, 2), false);
        intents.end(rows(7, 1), false);
        flush(&mut intents);
        assert!(intents.begin(rows(7, 1)));
        assert_eq!(clear(&mut intents, 0), [rows(8, 1)], "row 7 was clearable, and is at work again");
        intents.end(rows(7, 1), false);
        flush(&mut intents);
        assert_eq!(clear(&mut intents, 0), [rows(7, 1)]);
        assert!(!intents.begin(rows(7, 1)), "the clear may be on its way");
    }

    #[test]
    fn those_are_cleared_first_that_could_be_for_the_longest() {
        let mut intents = Intents::default();
        for row in [3, 1, 2] {
            intents.begin(rows(row, 1));
            intents.end(rows(row, 1), true);
            flush(&mut intents);
        }
        intents.begin(rows(3, 1));
        intents.end(rows(3, 1), false);
        flush(&mut intents);
        assert_eq!(clear(&mut intents, 1), [rows(1, 2)]);
        assert!(intents.contains(Row(3)) && intents.has_idle());
    }

    #[test]
    fn rows_that_were_written_since_a_flush_began_stay() {
        let mut intents = Intents::default();
        for row in [1, 2] {
            intents.begin(rows(row, 1));
            intents.end(rows(row, 1), true);
        }
        let bound = intents.next_generation();
        assert_eq!(intents.flush_begins(), bound);
        intents.flushed(bound, |_| false);
        intents.begin(rows(2, 1));
        intents.end(rows(2, 1), false);
        flush(&mut intents);
        let mut cleared = Vec::new();
        intents.clear_before(bound, &mut cleared);
        assert_eq!(cleared, [rows(1, 1)]);
        assert!(intents.begin(rows(2, 1)), "its intent is set still");
        intents.end(rows(2, 1), false);
        flush(&mut intents);
        cleared.clear();
        intents.clear_before(intents.next_generation(), &mut cleared);
        assert_eq!(cleared, [rows(2, 1)]);
    }

    #[test]
    fn a_row_that_is_flushed_for_ever_takes_no_more_room() {
        let mut intents = Intents::default();
        for _ in 0..10_000 {
            intents.begin(rows(9, 1));
            intents.end(rows(9, 1), true);
            flush(&mut intents);
        }
        assert!(intents.clearable.len() < 100 && intents.ended.is_empty());
        assert_eq!(clear(&mut intents, 0), [rows(9, 1)]);
    }

    #[test]
    fn an_intent_that_is_held_stays_until_it_is_let_go() {
        let mut intents = Intents::default();
        intents.begin(rows(7, 1));
        intents.end(rows(7, 1), true);
        let held = intents.flush_begins();
        intents.flushed(held, |_| true);
        assert!(clear(&mut intents, 0).is_empty() && intents.contains(Row(7)) && intents.is_at_rest());
        let before = intents.flush_begins();
        intents.let_go(Row(7));
        intents.flushed(before, |_| false);
        assert!(clear(&mut intents, 0).is_empty(), "what let it go may not have been durable when that flush began");
        flush(&mut intents);
        assert_eq!(clear(&mut intents, 0), [rows(7, 1)]);
    }
}
