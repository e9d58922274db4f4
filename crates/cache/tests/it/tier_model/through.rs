//! No cache, write-around and write-through: no page is ever newer than on the members (specs §9.1).

use super::array::{self, Old};
use super::counters::{Ask, Cause, Counters, For, Outcome, Place};
use super::params::Params;
use super::request::{self, FragmentKind, READ_TOGETHER, StripeFragment};
use super::sets::{Sets, Slot};
use super::{Model, Op, State};
use crate::spec_reading::SpecReading;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No cache at all.
    None,
    Around,
    Through,
}

#[derive(Clone, Debug)]
pub struct Through {
    kind: Kind,
    params: Params,
    sets: Sets,
    counters: Counters,
}

impl Through {
    pub fn new(kind: Kind, params: Params) -> Self {
        Self { kind, params, sets: Sets::new(&params), counters: Counters::default() }
    }

    /// A slot for a page that is not cached: its set never lacks one, all in it is clean.
    fn admit(&mut self, page: u64) -> u64 {
        let set = self.params.set(page);
        let slot = self.sets.free(set).unwrap_or_else(|| {
            let slot = self.sets.oldest_clean(set, &[]).expect("all is clean");
            self.counters.evictions += 1;
            self.sets.put(slot, Slot::Free);
            slot
        });
        self.sets.put(slot, Slot::Clean(page));
        slot
    }

    fn read(&mut self, page: u64, slot: Option<u64>, out: &mut Outcome) {
        if let Some(slot) = slot {
            self.sets.touch(slot);
            out.phase(For::Reads, vec![Ask::SsdRead { place: Place::Slot(slot), cause: Cause::Data }]);
            return;
        }
        out.phase(For::Reads, vec![array::member_read(self.params.shape, page)]);
        if self.kind != Kind::None {
            let place = Place::Slot(self.admit(page));
            out.phase(For::Fill, vec![Ask::SsdWrite { place, cause: Cause::Fill }]);
        }
    }

    fn write(&mut self, page: u64, slot: Option<u64>, out: &mut Outcome) {
        let cached = |other| {
            let slot = self.sets.find(other)?;
            Some(vec![Ask::SsdRead { place: Place::Slot(slot), cause: Cause::Data }])
        };
        let (reads, mut writes) = array::write(&self.params, page, false, Old::Asked, cached);
        match (self.kind, slot) {
            (Kind::None, _) | (Kind::Around, None) => {}
            (Kind::Around, Some(slot)) => self.sets.put(slot, Slot::Free),
            (Kind::Through, slot) => {
                let slot = slot.unwrap_or_else(|| self.admit(page));
                self.sets.touch(slot);
                writes.push(Ask::SsdWrite { place: Place::Slot(slot), cause: Cause::Data });
            }
        }
        out.phase(For::Reads, reads);
        out.phase(For::Writes, writes);
    }
}

impl Through {
    /// Returns a slot for a page that is not among the busy ones, if there is one.
    fn take(&mut self, page: u64, busy: &[u64]) -> Option<u64> {
        let set = self.params.set(page);
        let slot = self.sets.free(set).or_else(|| {
            let slot = self.sets.oldest_clean(set, busy)?;
            self.counters.evictions += 1;
            self.sets.put(slot, Slot::Free);
            Some(slot)
        })?;
        self.sets.put(slot, Slot::Clean(page));
        Some(slot)
    }

    fn serve_read(&mut self, fragment: &StripeFragment, out: &mut Outcome) {
        let (mut busy, mut filled) = (Vec::new(), Vec::new());
        for pages in fragment.pages.chunks(READ_TOGETHER) {
            let hits: Vec<Option<u64>> = pages.iter().map(|&page| self.sets.find(page)).collect();
            for &slot in hits.iter().flatten() {
                self.sets.touch(slot);
                busy.push(slot);
                out.phase(For::Reads, vec![Ask::SsdRead { place: Place::Slot(slot), cause: Cause::Data }]);
            }
            for (&page, hit) in pages.iter().zip(&hits) {
                self.counters.page(Op::Read, hit.is_some());
                if hit.is_some() {
                    continue;
                }
                out.phase(For::Reads, vec![array::member_read(self.params.shape, page)]);
                if let Some(slot) = self.take(page, &busy) {
                    busy.push(slot);
                    filled.push(slot);
                    out.phase(For::Fill, vec![Ask::SsdWrite { place: Place::Slot(slot), cause: Cause::Fill }]);
                }
            }
        }
        for slot in filled {
            self.sets.touch(slot);
        }
    }

    fn serve_write(&mut self, fragment: &StripeFragment, out: &mut Outcome) {
        let (mut busy, mut filled) = (Vec::new(), Vec::new());
        for piece in request::pieces(self.params.shape, fragment) {
            for row in &piece {
                let plan = array::write_row(&self.params, row, &[], fragment.is_part, |_| None, |_| None);
                out.phase(For::Reads, plan.0);
                out.phase(For::Writes, plan.1);
            }
            for page in request::ascending(&piece) {
                let hit = self.sets.find(page);
                if fragment.kind == FragmentKind::Write {
                    self.counters.page(Op::Write, hit.is_some());
                }
                if self.kind != Kind::Through || fragment.kind != FragmentKind::Write {
                    if let Some(slot) = hit {
                        self.sets.put(slot, Slot::Free);
                    }
                } else if let Some(slot) = hit.or_else(|| self.take(page, &busy)) {
                    busy.push(slot);
                    filled.push(slot);
                    out.phase(For::Writes, vec![Ask::SsdWrite { place: Place::Slot(slot), cause: Cause::Data }]);
                }
            }
        }
        for slot in filled {
            self.sets.touch(slot);
        }
    }

    fn serve_trim(&mut self, fragment: &StripeFragment) {
        for row in request::pieces(self.params.shape, fragment).concat() {
            for page in row.iter().filter(|_| row.len() as u64 == self.params.shape.k) {
                self.sets.find(*page).into_iter().for_each(|slot| self.sets.put(slot, Slot::Free));
            }
        }
    }
}

impl Model for Through {
    fn reading(&self) -> SpecReading {
        self.params.reading
    }

    fn serve_as_built(&mut self, fragment: &StripeFragment) -> Outcome {
        let mut out = Outcome::default();
        match fragment.kind {
            FragmentKind::Read => self.serve_read(fragment, &mut out),
            FragmentKind::Write | FragmentKind::Zero => self.serve_write(fragment, &mut out),
            FragmentKind::Trim => self.serve_trim(fragment),
        }
        self.counters.count(&out);
        out
    }

    fn access(&mut self, op: Op, page: u64, _: Option<u32>) -> Outcome {
        let slot = self.sets.find(page);
        let mut out = Outcome { hit: slot.is_some(), ..Outcome::default() };
        match op {
            Op::Read => self.read(page, slot, &mut out),
            Op::Write => self.write(page, slot, &mut out),
        }
        self.counters.access(op, &out);
        out
    }

    fn clean_all(&mut self) -> Outcome {
        Outcome::default()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn state(&self) -> State {
        State::of(&self.sets)
    }

    fn check(&self) {
        self.sets.check();
        let total = self.sets.total();
        assert_eq!(total.free + total.clean, self.sets.slots().len() as u64);
    }
}
