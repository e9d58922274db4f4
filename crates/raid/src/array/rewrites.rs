//! Carries out waiting writes of the same pages as one where parity is left as it is: pages that are written most wait for
//! each other longest. Writes that are [prepared](super::WriteApproach::Prepared) for, of pages that the cache does not have,
//! go one by one.
//!
//! Invariants:
//! * The bytes of the last such write are written, to the members and to the cache; the others are overwritten before anyone
//!   could read them.
//! * No write is acknowledged sooner: each of them ends in its turn, after the one that wrote for it.
//! * The write is as durable as the strictest of them asks.

use destage_plan::{OpId, Out};

use super::RaidArray;
use super::write::WriteExtent;

impl RaidArray {
    /// Finds the writes of exactly these pages that wait for this one alone, and returns the last of them, or the write itself.
    /// Only where rows are kept in memory, as for all folding: simulations of papers have none.
    pub(super) fn take_rewrites(&mut self, op: OpId, what: &mut WriteExtent, out: &Out) -> OpId {
        if !self.keeps_rows(what.rows) || what.part.is_some() {
            return op;
        }
        let mut held = self.row_cache.begin();
        let columns = what.columns;
        self.each_waiting(op, what.rows, out, |other, task| {
            // Only with the same pages is nothing left of the earlier write that anybody could read.
            let is_rewrite = task.asks().0 == columns && task.is_kept_by_cache();
            if is_rewrite {
                held.folded.push(other);
            }
            is_rewrite
        });
        let Some(&last) = held.folded.last() else {
            // Nothing was held: the box goes back to be used again.
            self.row_cache.keep(held, true);
            return op;
        };
        self.take_durability(what, &held.folded);
        held.are_rewrites = true;
        self.write_task(op).held = Some(held);
        last
    }

    /// Has a write be as durable as the strictest of those asks that it is carried out with: it answers for all.
    pub(super) fn take_durability(&mut self, what: &mut WriteExtent, folded: &[OpId]) {
        for &other in folded {
            what.fua |= self.write_task(other).asks().1;
        }
    }

    /// Returns the write whose bytes the cache is to have for this one: the last that is carried out with it, or itself.
    pub fn last_rewrite(&self, op: OpId) -> OpId {
        let held = self.task_of(op).and_then(|task| task.held.as_ref()).filter(|held| held.are_rewrites);
        held.and_then(|held| held.folded.last().copied()).unwrap_or(op)
    }

    /// Returns true if another write has written all of this one, to the members and to the cache.
    pub fn is_rewritten(&self, op: OpId) -> bool {
        self.task_of(op).is_some_and(|task| task.is_rewritten)
    }
}
