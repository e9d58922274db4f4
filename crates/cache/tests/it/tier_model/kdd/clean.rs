//! Parity brought up to date from deltas or from cached pages, and what becomes of the pages (specs §9.6).

use std::collections::BTreeSet;

use super::super::array;
use super::super::cleaning::Delayed;
use super::super::counters::{Ask, Cause, For, Key, Outcome};
use super::super::log::Fact;
use super::super::params::{Params, RcwFromCache};
use super::super::sets::{Sets, Slot};
use super::super::staging::Role;
use super::{Kdd, Where, on_ssd, read, write};

impl Kdd {
    /// Slots with newest deltas.
    fn late(&self) -> BTreeSet<u64> {
        self.pages.values().filter_map(|held| Some(on_ssd(held.newest)?.slot)).collect()
    }

    /// Returns the reads that make a row's parity.
    fn clean_reads(&self, row: u64) -> Vec<Ask> {
        let shape = self.params.shape;
        let missing = shape.pages(row).filter(|&page| self.held(page).slot.is_none()).count() as u64;
        let rcw = match self.params.rcw_from_cache {
            RcwFromCache::Never => false,
            RcwFromCache::All => missing == 0,
            RcwFromCache::Fewer => missing < shape.m,
        };
        let mut asks = Vec::new();
        for page in shape.pages(row) {
            let held = self.held(page);
            let deltas = if rcw {
                match held.slot {
                    None => asks.push(array::member_read(shape, page)),
                    Some(slot) => asks.push(read(slot, Cause::Cleaning)),
                }
                [held.newest.or(held.covered).filter(|_| held.slot.is_some()), None]
            } else if held.newest.is_some() {
                // As long as a page, the delta is the page itself.
                let raw = |delta| on_ssd(delta).is_some_and(|at| at.len >= self.params.page_bytes);
                let needed = raw(held.newest) || raw(held.covered);
                asks.extend(held.slot.filter(|_| needed).map(|slot| read(slot, Cause::Cleaning)));
                [held.newest, held.covered]
            } else {
                [None, None]
            };
            asks.extend(deltas.into_iter().filter_map(on_ssd).map(|at| read(at.slot, Cause::Cleaning)));
        }
        if !rcw {
            asks.extend(array::parity_reads(shape, row));
        }
        asks
    }

    /// A page whose newest version the parity covers now; what is written and logged for it.
    fn reclaim(&mut self, page: u64, asks: &mut Vec<Ask>, facts: &mut Vec<(Key, Fact)>) {
        let Some(slot) = self.held(page).slot else {
            self.drop_delta(page, Role::Newest);
            self.leaves(page);
            self.written.remove(&page);
            self.forget(page, facts);
            return;
        };
        if self.params.keep_clean {
            self.drop_delta(page, Role::Covered);
            let held = self.pages.get_mut(&page).expect("the page is held");
            held.covered = held.newest.take();
            if held.covered == Some(Where::Staged) {
                self.staging.cover(page);
            }
            self.sets.put(slot, Slot::Clean(page));
            facts.push(self.fact(page));
            return;
        }
        let delta = on_ssd(self.held(page).newest);
        self.drop_delta(page, Role::Newest);
        self.drop_delta(page, Role::Covered);
        if self.params.reclaim == 1 {
            asks.push(read(slot, Cause::Cleaning));
            asks.extend(delta.map(|at| read(at.slot, Cause::Cleaning)));
            asks.push(write(slot, Cause::Cleaning));
            self.sets.put(slot, Slot::Clean(page));
            self.sets.make_oldest(slot);
            facts.push(self.fact(page));
        } else {
            self.leaves(page);
            self.sets.put(slot, Slot::Free);
            facts.push((Key::Slot(slot), Fact::Free));
        }
    }
}

impl Delayed for Kdd {
    fn params(&self) -> &Params {
        &self.params
    }

    fn sets(&self) -> &Sets {
        &self.sets
    }

    fn stale(&self) -> &BTreeSet<u64> {
        &self.stale
    }

    fn owing(&self) -> u64 {
        let total = self.sets.total();
        if !self.params.keep_clean {
            return total.owing();
        }
        total.old + self.late().len() as u64
    }

    fn owing_in(&self, set: u64) -> u64 {
        let tally = self.sets.tally(set);
        if !self.params.keep_clean {
            return tally.owing();
        }
        tally.old + self.late().into_iter().filter(|&slot| self.sets.set_of(slot) == set).count() as u64
    }

    fn next_stripe(&mut self) -> &mut u64 {
        &mut self.next_stripe
    }

    fn clean(&mut self, rows: &[u64], out: &mut Outcome) {
        let shape = self.params.shape;
        let (mut reads, mut seen) = (Vec::new(), BTreeSet::new());
        reads.extend(rows.iter().flat_map(|&row| self.clean_reads(row)).filter(|&ask| seen.insert(ask)));
        out.phase(For::CleanReads, reads);
        out.phase(For::CleanWrites, rows.iter().flat_map(|&row| array::parity_writes(shape, row)).collect());
        let (mut asks, mut facts) = (Vec::new(), Vec::new());
        for &row in rows {
            assert!(self.stale.remove(&row), "row {row} is stale");
            self.counters.cleaned += 1;
            for page in shape.pages(row) {
                if self.held(page).newest.is_some() {
                    self.reclaim(page, &mut asks, &mut facts);
                }
            }
        }
        out.phase(For::Reclaim, asks);
        self.put(&facts, out);
    }
}
