//! Write-back: the array is written to when a dirty page must leave, or too many are dirty (specs §9.1,
//! §9.8.17).

use super::array::{self, Old};
use super::counters::{Ask, Cause, Counters, For, Key, Outcome, Place};
use super::log::{Fact, Log};
use super::params::Params;
use super::request::{self, FragmentKind, READ_TOGETHER, StripeFragment};
use super::sets::{Sets, Slot};
use super::{Model, Op, State};
use crate::spec_reading::SpecReading;

#[derive(Clone, Debug)]
pub struct Back {
    params: Params,
    sets: Sets,
    log: Log,
    counters: Counters,
}

impl Back {
    pub fn new(params: Params) -> Self {
        Self { params, sets: Sets::new(&params), log: Log::new(&params), counters: Counters::default() }
    }

    fn put(&mut self, slot: u64, fact: Fact, out: &mut Outcome) {
        let mut asks = Vec::new();
        self.log.put(Key::Slot(slot), fact, &mut asks);
        out.phase(For::Log, asks);
    }

    /// A free slot of a page's set.
    fn room(&mut self, page: u64, out: &mut Outcome) -> u64 {
        let set = self.params.set(page);
        if let Some(slot) = self.sets.free(set) {
            return slot;
        }
        if self.sets.oldest_clean(set, &[]).is_none() {
            self.counters.shortages += 1;
            let slot = self.oldest_dirty(set).expect("a set without clean pages is full of dirty ones");
            self.write_back(slot, out);
        }
        let slot = self.sets.oldest_clean(set, &[]).expect("one was just cleaned");
        self.counters.evictions += 1;
        self.sets.put(slot, Slot::Free);
        self.put(slot, Fact::Free, out);
        slot
    }

    fn oldest_dirty(&self, set: u64) -> Option<u64> {
        self.sets.list(set).iter().copied().find(|&slot| matches!(self.sets.get(slot), Slot::Dirty(_)))
    }

    /// Writes a dirty page to the array; it is the oldest clean page of its set then.
    fn write_back(&mut self, slot: u64, out: &mut Outcome) {
        let Slot::Dirty(page) = self.sets.get(slot) else { panic!("slot {slot} is dirty") };
        let mut asks = vec![Ask::SsdRead { place: Place::Slot(slot), cause: Cause::Cleaning }];
        let (reads, writes) = array::write(&self.params, page, false, Old::Asked, |page| self.clean(page));
        asks.extend(reads);
        out.phase(For::CleanReads, asks);
        out.phase(For::CleanWrites, writes);
        self.sets.put(slot, Slot::Clean(page));
        self.sets.make_oldest(slot);
        self.counters.cleaned += 1;
        self.put(slot, Fact::Clean(page), out);
    }

    /// Returns true if all of a page's set is dirty.
    fn is_full(&self, page: u64) -> bool {
        self.sets.tally(self.params.set(page)).dirty == self.sets.width()
    }

    /// Does what follows an access.
    fn end(&mut self, op: Op, mut out: Outcome) -> Outcome {
        if self.sets.total().dirty * 100 > self.params.dirty_high * self.sets.slots().len() as u64 {
            self.clean_to(self.params.dirty_low, &mut out);
        }
        self.counters.access(op, &out);
        self.counters.reinserted = self.log.reinserted();
        out
    }

    fn clean(&self, page: u64) -> Option<Vec<Ask>> {
        let slot = self.sets.find(page).filter(|&slot| self.sets.get(slot) == Slot::Clean(page))?;
        Some(vec![Ask::SsdRead { place: Place::Slot(slot), cause: Cause::Data }])
    }

    fn clean_to(&mut self, percent: u64, out: &mut Outcome) {
        let all = self.sets.slots().len() as u64;
        while self.sets.total().dirty * 100 > percent * all {
            let set = (0..self.sets.sets()).rev().max_by_key(|&set| self.sets.tally(set).dirty).expect("sets");
            let slot = self.oldest_dirty(set).expect("the set with most dirty pages has one");
            self.write_back(slot, out);
        }
    }
}

impl Back {
    /// Reads the pages of a fragment, for which the sets have room.
    fn serve_read(&mut self, fragment: &StripeFragment, out: &mut Outcome) {
        let mut filled = Vec::new();
        for pages in fragment.pages.chunks(READ_TOGETHER) {
            let hits: Vec<Option<u64>> = pages.iter().map(|&page| self.sets.find(page)).collect();
            for &slot in hits.iter().flatten() {
                self.sets.touch(slot);
                out.phase(For::Reads, vec![Ask::SsdRead { place: Place::Slot(slot), cause: Cause::Data }]);
            }
            for (&page, hit) in pages.iter().zip(&hits) {
                self.counters.page(Op::Read, hit.is_some());
                if hit.is_none() {
                    out.phase(For::Reads, vec![array::member_read(self.params.shape, page)]);
                    let slot = self.room(page, out);
                    self.sets.put(slot, Slot::Clean(page));
                    filled.push(slot);
                    out.phase(For::Fill, vec![Ask::SsdWrite { place: Place::Slot(slot), cause: Cause::Fill }]);
                }
            }
        }
        for slot in filled {
            self.sets.touch(slot);
        }
    }

    /// Writes pages into slots, those that are cached into their own.
    fn serve_write(&mut self, fragment: &StripeFragment, out: &mut Outcome) {
        let mut taken = Vec::new();
        for page in request::pieces(self.params.shape, fragment).concat().concat() {
            let hit = self.sets.find(page);
            self.counters.page(Op::Write, hit.is_some());
            if fragment.is_part {
                let shape = self.params.shape;
                // What its member has as well is read from there.
                let at = hit.filter(|&slot| self.sets.get(slot) == Slot::Dirty(page));
                let rest = at.map(|slot| Ask::SsdRead { place: Place::Slot(slot), cause: Cause::Data });
                out.phase(For::Reads, vec![rest.unwrap_or_else(|| array::member_read(shape, page))]);
            }
            let slot = hit.unwrap_or_else(|| self.room(page, out));
            let was = self.sets.get(slot);
            self.sets.put(slot, Slot::Dirty(page));
            self.sets.touch(slot);
            if hit.is_none() {
                taken.push(slot);
            }
            out.phase(For::Writes, vec![Ask::SsdWrite { place: Place::Slot(slot), cause: Cause::Data }]);
            if was != Slot::Dirty(page) {
                self.put(slot, Fact::Dirty(page), out);
            }
        }
        for slot in taken {
            self.sets.touch(slot);
        }
    }
}

impl Model for Back {
    fn reading(&self) -> SpecReading {
        self.params.reading
    }

    fn serve_as_built(&mut self, fragment: &StripeFragment) -> Outcome {
        let mut out = Outcome::default();
        match fragment.kind {
            FragmentKind::Read => self.serve_read(fragment, &mut out),
            FragmentKind::Write | FragmentKind::Zero => self.serve_write(fragment, &mut out),
            FragmentKind::Trim => unreachable!("rows that are trimmed are not asked of it"),
        }
        if self.sets.total().dirty * 100 > self.params.dirty_high * self.sets.slots().len() as u64 {
            self.clean_to(self.params.dirty_low, &mut out);
        }
        self.counters.count(&out);
        self.counters.reinserted = self.log.reinserted();
        out
    }

    fn access(&mut self, op: Op, page: u64, _: Option<u32>) -> Outcome {
        let hit = self.sets.find(page);
        let mut out = Outcome { hit: hit.is_some(), ..Outcome::default() };
        match (op, hit) {
            (Op::Read, Some(slot)) => {
                self.sets.touch(slot);
                out.phase(For::Reads, vec![Ask::SsdRead { place: Place::Slot(slot), cause: Cause::Data }]);
            }
            (Op::Read, None) => {
                out.phase(For::Reads, vec![array::member_read(self.params.shape, page)]);
                if self.params.bypass_full && self.is_full(page) {
                    self.counters.shortages += 1;
                    let oldest = self.oldest_dirty(self.params.set(page)).expect("the set is full of dirty pages");
                    self.write_back(oldest, &mut out);
                    return self.end(op, out);
                }
                let slot = self.room(page, &mut out);
                self.sets.put(slot, Slot::Clean(page));
                out.phase(For::Fill, vec![Ask::SsdWrite { place: Place::Slot(slot), cause: Cause::Fill }]);
            }
            (Op::Write, _) => {
                let slot = hit.unwrap_or_else(|| self.room(page, &mut out));
                let was = self.sets.get(slot);
                self.sets.put(slot, Slot::Dirty(page));
                self.sets.touch(slot);
                out.phase(For::Writes, vec![Ask::SsdWrite { place: Place::Slot(slot), cause: Cause::Data }]);
                if was != Slot::Dirty(page) {
                    self.put(slot, Fact::Dirty(page), &mut out);
                }
            }
        }
        self.end(op, out)
    }

    fn clean_all(&mut self) -> Outcome {
        let mut out = Outcome::default();
        self.clean_to(0, &mut out);
        self.counters.count(&out);
        self.counters.reinserted = self.log.reinserted();
        out
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn state(&self) -> State {
        State::of(&self.sets).with_log(&self.log)
    }

    fn check(&self) {
        self.sets.check();
        let total = self.sets.total();
        assert_eq!(total.free + total.clean + total.dirty, self.sets.slots().len() as u64);
        let facts = self.log.replay();
        assert_eq!(facts, self.log.live());
        for (slot, &what) in (0..).zip(self.sets.slots()) {
            match (what, facts.get(&Key::Slot(slot))) {
                (Slot::Free | Slot::Clean(_), None) => {}
                (Slot::Clean(page), Some(fact)) => assert_eq!(*fact, Fact::Clean(page), "slot {slot}"),
                (Slot::Dirty(page), fact) => assert_eq!(fact, Some(&Fact::Dirty(page)), "slot {slot}"),
                (what, fact) => panic!("slot {slot} is {what:?}, the log says {fact:?}"),
            }
        }
        assert!(facts.keys().all(|key| matches!(key, Key::Slot(_))));
    }
}
