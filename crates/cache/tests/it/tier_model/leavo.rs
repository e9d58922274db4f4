//! `LeavO`: old and new version of a page side by side until the row's parity is made (specs §9.2,
//! §9.8.15).

use std::collections::{BTreeMap, BTreeSet};

use super::array::{self, Old};
use super::cleaning::{self, Delayed};
use super::counters::{Ask, Cause, Counters, For, Key, Outcome, Place};
use super::log::{Fact, Log};
use super::params::{DazFull, Params, RcwFromCache, Rewrite};
use super::pieces::{self, ByPiece};
use super::request::StripeFragment;
use super::sets::{Sets, Slot};
use super::{Model, Op, State};
use crate::spec_reading::SpecReading;

#[derive(Clone, Debug)]
pub struct Leavo {
    params: Params,
    sets: Sets,
    /// Of each pair the slot of the new version.
    newest: BTreeMap<u64, u64>,
    stale: BTreeSet<u64>,
    next_stripe: u64,
    log: Log,
    counters: Counters,
    /// The set in which this access found no room.
    short: Option<u64>,
}

fn read(slot: u64, cause: Cause) -> Ask {
    Ask::SsdRead { place: Place::Slot(slot), cause }
}

fn write(slot: u64, cause: Cause) -> Ask {
    Ask::SsdWrite { place: Place::Slot(slot), cause }
}

impl Leavo {
    pub fn new(params: Params) -> Self {
        Self {
            params,
            sets: Sets::new(&params),
            newest: BTreeMap::new(),
            stale: BTreeSet::new(),
            next_stripe: 0,
            log: Log::new(&params),
            counters: Counters::default(),
            short: None,
        }
    }

    fn put(&mut self, facts: &[(u64, Fact)], out: &mut Outcome) {
        let mut asks = Vec::new();
        for &(slot, fact) in facts {
            self.log.put(Key::Slot(slot), fact, &mut asks);
        }
        out.phase(For::Log, asks);
    }

    fn read_page(&mut self, page: u64, hit: Option<u64>, out: &mut Outcome) {
        if let Some(slot) = hit {
            self.sets.touch(slot);
            let newest = self.newest.get(&page).copied().unwrap_or(slot);
            out.phase(For::Reads, vec![read(newest, Cause::Data)]);
            return;
        }
        out.phase(For::Reads, vec![array::member_read(self.params.shape, page)]);
        if let Some(slot) = self.room(page, &[], out) {
            self.sets.put(slot, Slot::Clean(page));
            out.phase(For::Fill, vec![write(slot, Cause::Fill)]);
            self.put(&[(slot, Fact::Clean(page))], out);
        }
    }

    fn write_page(&mut self, page: u64, hit: Option<u64>, out: &mut Outcome) {
        let row = self.params.shape.row(page);
        let member = array::member_write(self.params.shape, page);
        let Some(slot) = hit else {
            let slot = self.room(page, &self.named(row), out);
            self.write_with_parity(page, slot, out);
            if let Some(slot) = slot {
                self.sets.put(slot, Slot::Clean(page));
                self.put(&[(slot, Fact::Clean(page))], out);
            }
            return;
        };
        self.sets.touch(slot);
        match self.newest.get(&page).copied() {
            None => {
                let Some(new) = self.room(page, &[slot], out) else {
                    if self.named(row).is_empty() {
                        self.write_with_parity(page, Some(slot), out);
                    } else {
                        self.write_with_parity(page, None, out);
                        self.sets.put(slot, Slot::Free);
                        self.put(&[(slot, Fact::Free)], out);
                    }
                    return;
                };
                out.phase(For::Writes, vec![member, write(new, Cause::Data)]);
                self.sets.put(slot, Slot::Old(page));
                self.sets.put(new, Slot::New(page));
                self.newest.insert(page, new);
                self.stale.insert(row);
                self.put(&[(slot, Fact::Pair(page)), (new, Fact::New(page))], out);
            }
            Some(before) => {
                let fresh = match self.params.leavo_rewrite {
                    Rewrite::NewPage => self.room(page, &[slot], out),
                    Rewrite::InPlace => None,
                };
                out.phase(For::Writes, vec![member, write(fresh.unwrap_or(before), Cause::Data)]);
                if let Some(new) = fresh {
                    self.sets.put(new, Slot::New(page));
                    self.sets.put(before, Slot::Free);
                    self.newest.insert(page, new);
                    self.put(&[(new, Fact::New(page)), (before, Fact::Free)], out);
                }
            }
        }
    }

    fn write_with_parity(&self, page: u64, slot: Option<u64>, out: &mut Outcome) {
        let stale = self.stale.contains(&self.params.shape.row(page));
        let (reads, mut writes) = array::write(&self.params, page, stale, Old::Asked, |page| self.covered(page));
        writes.extend(slot.map(|slot| write(slot, Cause::Data)));
        out.phase(For::Reads, reads);
        out.phase(For::Writes, writes);
    }

    /// Returns the reads that make a row's parity.
    fn clean_reads(&self, row: u64) -> Vec<Ask> {
        let shape = self.params.shape;
        let missing: Vec<u64> = shape.pages(row).filter(|&page| self.sets.find(page).is_none()).collect();
        let rcw = match self.params.rcw_from_cache {
            RcwFromCache::Never => false,
            RcwFromCache::All => missing.is_empty(),
            RcwFromCache::Fewer => (missing.len() as u64) < shape.m,
        };
        let mut asks = Vec::new();
        for page in shape.pages(row) {
            let newest = self.newest.get(&page);
            match self.sets.find(page) {
                None if rcw => asks.push(array::member_read(shape, page)),
                Some(slot) if rcw => asks.push(read(newest.copied().unwrap_or(slot), Cause::Cleaning)),
                Some(slot) => {
                    asks.extend(newest.into_iter().flat_map(|&new| [slot, new]).map(|s| read(s, Cause::Cleaning)));
                }
                None => {}
            }
        }
        if !rcw {
            asks.extend(array::parity_reads(shape, row));
        }
        asks
    }
}

impl Delayed for Leavo {
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
        self.sets.total().owing()
    }

    fn next_stripe(&mut self) -> &mut u64 {
        &mut self.next_stripe
    }

    fn clean(&mut self, rows: &[u64], out: &mut Outcome) {
        let shape = self.params.shape;
        out.phase(For::CleanReads, rows.iter().flat_map(|&row| self.clean_reads(row)).collect());
        out.phase(For::CleanWrites, rows.iter().flat_map(|&row| array::parity_writes(shape, row)).collect());
        let mut facts = Vec::new();
        for &row in rows {
            assert!(self.stale.remove(&row), "row {row} is stale");
            self.counters.cleaned += 1;
            for page in shape.pages(row) {
                let Some(new) = self.newest.remove(&page) else { continue };
                let old = self.sets.find(page).expect("a pair has an old page");
                self.sets.take_place(new, old, Slot::Clean(page));
                facts.extend([(old, Fact::Free), (new, Fact::Clean(page))]);
            }
        }
        self.put(&facts, out);
    }
}

impl ByPiece for Leavo {
    /// Holds page by page the slot of the newest version, if that is another than before.
    type Kept = Vec<(u64, Option<u64>)>;

    fn sets_mut(&mut self) -> &mut Sets {
        &mut self.sets
    }

    fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    fn is_old(&self, page: u64) -> bool {
        self.newest.contains_key(&page)
    }

    fn covered(&self, page: u64) -> Option<Vec<Ask>> {
        self.sets.find(page).map(|slot| vec![read(slot, Cause::Data)])
    }

    fn newest(&self, page: u64) -> Option<Vec<Ask>> {
        let slot = self.newest.get(&page).copied().or_else(|| self.sets.find(page))?;
        Some(vec![read(slot, Cause::Data)])
    }

    fn room(&mut self, page: u64, pinned: &[u64], out: &mut Outcome) -> Option<u64> {
        let set = self.params.set(page);
        let skip = (!pinned.is_empty()).then(|| self.params.shape.row(page));
        loop {
            if let Some(slot) = self.sets.free(set) {
                return Some(slot);
            }
            if let Some(slot) = self.sets.oldest_clean(set, pinned) {
                self.counters.evictions += 1;
                self.sets.put(slot, Slot::Free);
                self.put(&[(slot, Fact::Free)], out);
                return Some(slot);
            }
            if self.params.daz_full == DazFull::Bypass || !cleaning::clean_next(self, Some(set), skip, out) {
                self.short = Some(set);
                self.counters.shortages += 1;
                return None;
            }
        }
    }

    fn take_short(&mut self) -> Option<u64> {
        self.short.take()
    }

    fn admits_read(&self, _: u64) -> bool {
        true
    }

    fn admits_write(&mut self, _: u64) -> bool {
        true
    }

    fn comes(&mut self, page: u64, slot: u64, out: &mut Outcome) {
        self.sets.put(slot, Slot::Clean(page));
        self.put(&[(slot, Fact::Clean(page))], out);
    }

    fn goes(&mut self, page: u64, to: Slot, out: &mut Outcome) {
        let slots = [self.sets.find(page), self.newest.remove(&page)];
        for slot in slots.into_iter().flatten() {
            self.sets.put(slot, to);
            self.put(&[(slot, Fact::Free)], out);
        }
    }

    fn forget_stale(&mut self, row: u64) {
        self.stale.remove(&row);
    }

    fn keep(
        &mut self,
        pages: &[u64],
        fragment: &StripeFragment,
        busy: &[u64],
        out: &mut Outcome,
    ) -> Option<Self::Kept> {
        let own: Vec<u64> = pages.iter().filter_map(|&page| self.sets.find(page)).collect();
        let pinned = [busy, &own].concat();
        let mut fresh = Vec::new();
        for &page in pages {
            let new = self.room(page, &pinned, out);
            if new.is_none() && !self.is_old(page) {
                let taken = fresh.into_iter().filter_map(|(_, slot)| slot);
                taken.for_each(|slot| self.sets.put(slot, Slot::Free));
                return None;
            }
            if let Some(slot) = new {
                self.sets.put(slot, Slot::New(page));
            }
            fresh.push((page, new));
        }
        for (&(page, new), slot) in fresh.iter().zip(own) {
            if fragment.is_part {
                out.phase(For::Reads, ByPiece::newest(self, page).expect("it is cached"));
            }
            let place = new.or_else(|| self.newest.get(&page).copied()).expect("it has a slot of its own");
            out.phase(For::Writes, vec![array::member_write(self.params.shape, page), write(place, Cause::Data)]);
            self.sets.put(slot, Slot::Old(page));
            self.sets.touch(slot);
            self.stale.insert(self.params.shape.row(page));
        }
        Some(fresh)
    }

    fn kept(&mut self, kept: Self::Kept, _: &StripeFragment, _: &[u64], out: &mut Outcome) {
        for (page, new) in kept.into_iter().rev() {
            let Some(new) = new else { continue };
            let slot = self.sets.find(page).expect("it is cached");
            let mut facts = vec![(new, Fact::New(page))];
            match self.newest.insert(page, new) {
                None => facts.push((slot, Fact::Pair(page))),
                Some(before) => {
                    self.sets.put(before, Slot::Free);
                    facts.push((before, Fact::Free));
                }
            }
            self.put(&facts, out);
            self.sets.touch(slot);
        }
    }
}

impl Model for Leavo {
    fn reading(&self) -> SpecReading {
        self.params.reading
    }

    fn serve_as_built(&mut self, fragment: &StripeFragment) -> Outcome {
        pieces::serve(self, fragment)
    }

    fn access(&mut self, op: Op, page: u64, _: Option<u32>) -> Outcome {
        let hit = self.sets.find(page);
        let mut out = Outcome { hit: hit.is_some(), ..Outcome::default() };
        self.short = None;
        match op {
            Op::Read => self.read_page(page, hit, &mut out),
            Op::Write => self.write_page(page, hit, &mut out),
        }
        let short = self.short;
        cleaning::after_access(self, short, &mut out);
        self.counters.access(op, &out);
        self.counters.reinserted = self.log.reinserted();
        out
    }

    fn clean_all(&mut self) -> Outcome {
        let mut out = Outcome::default();
        while cleaning::clean_next(self, None, None, &mut out) {}
        self.counters.count(&out);
        self.counters.reinserted = self.log.reinserted();
        out
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn state(&self) -> State {
        State { stale: self.stale.clone(), ..State::of(&self.sets) }.with_log(&self.log)
    }

    fn check(&self) {
        self.sets.check();
        let total = self.sets.total();
        assert_eq!(total.free + total.clean + total.old + total.new, self.sets.slots().len() as u64);
        assert_eq!((total.old, total.new), (self.newest.len() as u64, self.newest.len() as u64));
        let rows: BTreeSet<u64> = self.newest.keys().map(|&page| self.params.shape.row(page)).collect();
        assert_eq!(self.stale, rows, "stale rows are those with pairs");
        let facts = self.log.replay();
        assert_eq!(facts, self.log.live());
        for (slot, &what) in (0..).zip(self.sets.slots()) {
            let fact = match what {
                Slot::Free => None,
                Slot::Clean(page) => Some(Fact::Clean(page)),
                Slot::Old(page) => Some(Fact::Pair(page)),
                Slot::New(page) => Some(Fact::New(page)),
                Slot::Dirty(_) | Slot::Delta(_) => panic!("LeavO has no {what:?}"),
            };
            assert_eq!(facts.get(&Key::Slot(slot)).copied(), fact, "slot {slot}");
            if let Slot::New(page) = what {
                assert_eq!(self.newest.get(&page), Some(&slot));
                assert!(self.sets.find(page).is_some(), "page {page} has its old version");
            }
        }
        assert!(facts.keys().all(|key| matches!(key, Key::Slot(_))));
    }
}
