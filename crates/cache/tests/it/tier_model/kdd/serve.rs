//! KDD serves a fragment of several pages, or of a part of one, as it is built.

use super::super::array;
use super::super::cleaning;
use super::super::counters::{Ask, Cause, Counters, For, Key, Outcome};
use super::super::log::Fact;
use super::super::params::DazFull;
use super::super::pieces::ByPiece;
use super::super::request::StripeFragment;
use super::super::sets::{Sets, Slot};
use super::super::staging::Role;
use super::{Held, Kdd, on_ssd, read};

impl ByPiece for Kdd {
    type Kept = Vec<u64>;

    fn sets_mut(&mut self) -> &mut Sets {
        &mut self.sets
    }

    fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    fn is_old(&self, page: u64) -> bool {
        self.held(page).newest.is_some()
    }

    fn covered(&self, page: u64) -> Option<Vec<Ask>> {
        let held = self.held(page);
        let mut asks = vec![read(held.slot?, Cause::Data)];
        asks.extend(on_ssd(held.covered).map(|at| read(at.slot, Cause::Delta)));
        Some(asks)
    }

    fn newest(&self, page: u64) -> Option<Vec<Ask>> {
        let held = self.held(page);
        let delta = on_ssd(held.newest.or(held.covered)).map(|at| read(at.slot, Cause::Delta));
        Some([read(held.slot?, Cause::Data)].into_iter().chain(delta).collect())
    }

    fn room(&mut self, page: u64, pinned: &[u64], out: &mut Outcome) -> Option<u64> {
        let set = self.params.set(page);
        loop {
            if let Some(slot) = self.sets.free(set) {
                return Some(slot);
            }
            if let Some(slot) = self.sets.oldest_clean(set, pinned) {
                self.evict(slot, out);
                return Some(slot);
            }
            if self.params.daz_full == DazFull::Bypass || !cleaning::clean_next(self, Some(set), None, out) {
                self.short = Some(set);
                self.counters.shortages += 1;
                return None;
            }
        }
    }

    fn take_short(&mut self) -> Option<u64> {
        self.short.take()
    }

    fn admits_read(&self, page: u64) -> bool {
        self.held(page).newest.is_none() && self.params.admit != u64::MAX
    }

    fn admits_write(&mut self, page: u64) -> bool {
        *self.written.entry(page).or_default() += 1;
        self.is_admitted(page)
    }

    fn comes(&mut self, page: u64, slot: u64, out: &mut Outcome) {
        self.drop_delta(page, Role::Covered);
        self.pages.insert(page, Held { slot: Some(slot), ..Held::default() });
        self.sets.put(slot, Slot::Clean(page));
        self.put(&[(Key::Slot(slot), Fact::Clean(page))], out);
    }

    fn goes(&mut self, page: u64, to: Slot, out: &mut Outcome) {
        self.drop_delta(page, Role::Newest);
        self.drop_delta(page, Role::Covered);
        let slot = self.held(page).slot;
        self.leaves(page);
        if let Some(slot) = slot {
            self.sets.put(slot, to);
            self.put(&[(Key::Slot(slot), Fact::Free)], out);
        }
    }

    fn forget_stale(&mut self, row: u64) {
        self.stale.remove(&row);
    }

    fn keep(&mut self, pages: &[u64], fragment: &StripeFragment, _: &[u64], out: &mut Outcome) -> Option<Self::Kept> {
        for &page in pages {
            let slot = self.held(page).slot.expect("it is cached");
            if fragment.is_part {
                out.phase(For::Reads, ByPiece::newest(self, page).expect("it is cached"));
            }
            out.phase(For::Reads, vec![read(slot, Cause::Data)]);
            out.phase(For::Writes, vec![array::member_write(self.params.shape, page)]);
            self.sets.put(slot, Slot::Old(page));
            self.sets.touch(slot);
            self.stale.insert(self.row(page));
        }
        Some(pages.to_vec())
    }

    fn kept(&mut self, kept: Self::Kept, fragment: &StripeFragment, busy: &[u64], out: &mut Outcome) {
        self.staging.settle();
        for page in kept {
            *self.written.entry(page).or_default() += 1;
            self.drop_delta(page, Role::Newest);
            let len = fragment.deltas[&page];
            assert!(self.place(page, len, busy, out), "requests of several pages have room for their deltas");
            if on_ssd(self.held(page).newest).is_some() {
                let fact = self.fact(page);
                self.put(&[fact], out);
            } else {
                out.phase(For::Writes, vec![Ask::PutDelta { page, len }]);
            }
        }
    }
}
