//! KDD: a page that is written again keeps its base in the DAZ, and a delta of it goes through the staging
//! buffer into the DEZ (specs §9.3–9.6). `kdd/` has cleaning, and what must hold.

mod check;
mod clean;
mod deltas;
mod serve;

use std::collections::{BTreeMap, BTreeSet};

use super::array::{self, Old};
use super::cleaning::{self, Delayed};
use super::counters::{Ask, Cause, Counters, For, Key, Outcome, Place};
use super::log::{At, Fact, Log};
use super::params::{Params, TooLong};
use super::pieces::{self, ByPiece};
use super::request::StripeFragment;
use super::sets::{Sets, Slot};
use super::staging::{Role, Staging};
use super::{Model, Op, State};
use crate::spec_reading::SpecReading;

/// Identifies the place of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    Staged,
    Ssd(At),
}

/// Holds what the cache has of a page, which is old if it has a newest delta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The base's slot in the DAZ.
    pub slot: Option<u64>,
    pub covered: Option<Where>,
    pub newest: Option<Where>,
}

#[derive(Clone, Debug)]
pub struct Kdd {
    params: Params,
    sets: Sets,
    pages: BTreeMap<u64, Held>,
    staging: Staging,
    stale: BTreeSet<u64>,
    /// Writes of each page, for its admission.
    written: BTreeMap<u64, u64>,
    /// Without delayed misses: by bucket the pages that were written lately and are not cached, and how often; the
    /// newest last.
    ghosts: Vec<Vec<(u64, u64)>>,
    next_stripe: u64,
    log: Log,
    counters: Counters,
    /// The set in which this access found no room.
    short: Option<u64>,
}

/// Pages of a bucket of those that were written lately.
const GHOSTS: u64 = 8;

fn read(slot: u64, cause: Cause) -> Ask {
    Ask::SsdRead { place: Place::Slot(slot), cause }
}

fn write(slot: u64, cause: Cause) -> Ask {
    Ask::SsdWrite { place: Place::Slot(slot), cause }
}

const fn on_ssd(delta: Option<Where>) -> Option<At> {
    match delta {
        Some(Where::Ssd(at)) => Some(at),
        _ => None,
    }
}

impl Kdd {
    pub fn new(params: Params) -> Self {
        assert!(params.delta_max <= params.page_bytes && matches!(params.reclaim, 1 | 2) && params.shape.k >= 2);
        Self {
            params,
            sets: Sets::new(&params),
            pages: BTreeMap::new(),
            staging: Staging::new(params.staging_pages * u64::from(params.page_bytes)),
            stale: BTreeSet::new(),
            written: BTreeMap::new(),
            ghosts: vec![Vec::new(); params.pages.div_ceil(GHOSTS) as usize],
            next_stripe: 0,
            log: Log::new(&params),
            counters: Counters::default(),
            short: None,
        }
    }

    fn held(&self, page: u64) -> Held {
        self.pages.get(&page).copied().unwrap_or_default()
    }

    fn row(&self, page: u64) -> u64 {
        self.params.shape.row(page)
    }

    fn put(&mut self, facts: &[(Key, Fact)], out: &mut Outcome) {
        let mut asks = Vec::new();
        for &(key, fact) in facts {
            self.log.put(key, fact, &mut asks);
        }
        out.phase(For::Log, asks);
    }

    /// Returns the entry of the log for a page; of deltas it names only those on the SSD.
    fn fact(&self, page: u64) -> (Key, Fact) {
        let held = self.held(page);
        let fact = match (on_ssd(held.covered), on_ssd(held.newest)) {
            (None, None) => Fact::Clean(page),
            (Some(covered), None) => Fact::Kept { page, covered },
            (covered, Some(newest)) => Fact::Old { page, covered, newest },
        };
        (held.slot.map_or(Key::Page(page), Key::Slot), fact)
    }

    /// Frees the entry of a page that had a delta only, if there is one.
    fn forget(&mut self, page: u64, facts: &mut Vec<(Key, Fact)>) {
        if self.log.holds(Key::Page(page)) {
            facts.push((Key::Page(page), Fact::Free));
        }
    }

    /// Nothing is held of a page any more.
    fn leaves(&mut self, page: u64) {
        self.pages.remove(&page);
        if self.params.admit_forgets {
            self.written.remove(&page);
        }
    }

    fn evict(&mut self, slot: u64, out: &mut Outcome) {
        let Slot::Clean(page) = self.sets.get(slot) else { panic!("slot {slot} is clean") };
        self.drop_delta(page, Role::Covered);
        self.leaves(page);
        self.sets.put(slot, Slot::Free);
        self.counters.evictions += 1;
        self.put(&[(Key::Slot(slot), Fact::Free)], out);
    }

    fn read_page(&mut self, page: u64, out: &mut Outcome) {
        let held = self.held(page);
        if let Some(slot) = held.slot {
            self.sets.touch(slot);
            let delta = on_ssd(held.newest.or(held.covered));
            let delta = delta.map(|at| read(at.slot, Cause::Delta));
            out.phase(For::Reads, std::iter::once(read(slot, Cause::Data)).chain(delta).collect());
            return;
        }
        out.phase(For::Reads, vec![array::member_read(self.params.shape, page)]);
        if held.newest.is_some() || self.params.admit == u64::MAX {
            return;
        }
        if let Some(slot) = self.room(page, &[], out) {
            self.sets.put(slot, Slot::Clean(page));
            self.pages.insert(page, Held { slot: Some(slot), ..Held::default() });
            out.phase(For::Fill, vec![write(slot, Cause::Fill)]);
            self.put(&[(Key::Slot(slot), Fact::Clean(page))], out);
        }
    }

    /// A write of a page whose base is in the DAZ.
    fn write_hit(&mut self, page: u64, slot: u64, len: u32, out: &mut Outcome) {
        self.sets.touch(slot);
        out.phase(For::Reads, vec![read(slot, Cause::Data)]);
        self.drop_delta(page, Role::Newest);
        let rewrite = self.is_too_long(len) && self.params.too_long == TooLong::Rewrite;
        if !rewrite && self.place(page, len, &[slot], out) {
            self.write_delayed(page, len, &[], out);
        } else {
            self.write_with_parity(page, Some(slot), Old::AtHand, out);
        }
    }

    /// Returns true if a page that is not cached and is written is admitted.
    fn is_admitted(&mut self, page: u64) -> bool {
        if self.params.delay_misses || self.params.admit == 1 {
            return self.written[&page] >= self.params.admit;
        }
        let hash = page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let bucket = (hash % self.ghosts.len() as u64) as usize;
        let bucket = &mut self.ghosts[bucket];
        let at = bucket.iter().position(|&(known, _)| known == page).unwrap_or_else(|| {
            if bucket.len() as u64 == GHOSTS {
                bucket.remove(0);
            }
            bucket.push((page, 0));
            bucket.len() - 1
        });
        bucket[at].1 += 1;
        let admitted = bucket[at].1 >= self.params.admit;
        if admitted {
            bucket.remove(at);
        }
        admitted
    }

    fn write_miss(&mut self, page: u64, len: u32, out: &mut Outcome) {
        let admitted = self.is_admitted(page);
        let bare = self.pages.values().filter(|held| held.slot.is_none()).count() as u64;
        let crowded = self.params.few_bare
            && self.params.delay_misses
            && self.held(page).newest.is_none()
            && bare >= self.sets.slots().len() as u64;
        let delays = self.params.delay_misses && !crowded;
        let pinned = if delays { Vec::new() } else { self.named(self.row(page)) };
        let slot = if admitted { self.room(page, &pinned, out) } else { None };
        if crowded {
            self.short = Some(self.params.set(page));
            self.counters.crowded += 1;
        }
        if !delays {
            self.write_with_parity(page, slot, Old::Asked, out);
            return;
        }
        let mut asks = vec![array::member_read(self.params.shape, page)];
        // What is read stays where it is until the page is written.
        let before = on_ssd(self.held(page).newest);
        asks.extend(before.map(|at| read(at.slot, Cause::Delta)));
        out.phase(For::Reads, asks);
        if before.is_none() {
            self.drop_delta(page, Role::Newest);
        }
        if let Some(slot) = slot {
            self.sets.put(slot, Slot::Clean(page));
        }
        self.pages.insert(page, Held { slot, ..Held::default() });
        let too_long = self.is_too_long(len) && self.params.too_long == TooLong::Rewrite;
        let placed = !too_long && self.place(page, len, slot.as_slice(), out);
        if let Some(at) = before {
            self.release(at);
        }
        if !placed {
            self.write_with_parity(page, slot, Old::AtHand, out);
            return;
        }
        let base: Vec<Ask> = slot.map(|slot| write(slot, Cause::Data)).into_iter().collect();
        self.write_delayed(page, len, &base, out);
    }

    /// The write of a page whose delta has its place: without parity.
    fn write_delayed(&mut self, page: u64, len: u32, base: &[Ask], out: &mut Outcome) {
        let held = self.held(page);
        let mut asks = vec![array::member_write(self.params.shape, page)];
        asks.extend(base);
        if held.newest == Some(Where::Staged) {
            asks.push(Ask::PutDelta { page, len });
        }
        out.phase(For::Writes, asks);
        self.stale.insert(self.row(page));
        if let Some(slot) = held.slot {
            self.sets.put(slot, Slot::Old(page));
        }
        let mut facts = Vec::new();
        if on_ssd(held.newest).is_some() || !base.is_empty() {
            facts.push(self.fact(page));
        }
        if !base.is_empty() {
            self.forget(page, &mut facts);
        }
        self.put(&facts, out);
    }

    /// The write of a page with parity, after its newest delta was dropped. In its slot, if it has one, the
    /// page is clean then.
    fn write_with_parity(&mut self, page: u64, slot: Option<u64>, old: Old, out: &mut Outcome) {
        let row = self.row(page);
        let mut before = Vec::new();
        if old == Old::AtHand {
            before.extend(on_ssd(self.held(page).covered).map(|at| read(at.slot, Cause::Delta)));
        }
        let stale = self.stale.contains(&row);
        let (reads, mut writes) = array::write(&self.params, page, stale, old, |page| self.covered(page));
        before.extend(reads);
        writes.extend(slot.map(|slot| write(slot, Cause::Data)));
        out.phase(For::Reads, before);
        out.phase(For::Writes, writes);
        self.drop_delta(page, Role::Covered);
        let mut facts = Vec::new();
        if slot.is_none() {
            self.leaves(page);
        }
        if let Some(slot) = slot {
            self.pages.insert(page, Held { slot: Some(slot), ..Held::default() });
            self.sets.put(slot, Slot::Clean(page));
            facts.push((Key::Slot(slot), Fact::Clean(page)));
        }
        self.forget(page, &mut facts);
        if self.params.shape.pages(row).all(|page| self.held(page).newest.is_none()) {
            self.stale.remove(&row);
        }
        self.put(&facts, out);
    }

    const fn is_too_long(&self, len: u32) -> bool {
        len >= self.params.delta_max
    }
}

impl Model for Kdd {
    fn reading(&self) -> SpecReading {
        self.params.reading
    }

    fn serve_as_built(&mut self, fragment: &StripeFragment) -> Outcome {
        let out = pieces::serve(self, fragment);
        self.counters.reinserted = self.log.reinserted();
        out
    }

    fn access(&mut self, op: Op, page: u64, delta_len: Option<u32>) -> Outcome {
        let hit = self.held(page).slot;
        self.staging.settle();
        let mut out = Outcome { hit: hit.is_some(), ..Outcome::default() };
        self.short = None;
        match op {
            Op::Read => self.read_page(page, &mut out),
            Op::Write => {
                let len = delta_len.expect("a write has the length of its delta");
                assert!((1..=self.params.page_bytes).contains(&len), "a delta of {len} bytes");
                *self.written.entry(page).or_default() += 1;
                match hit {
                    Some(slot) => self.write_hit(page, slot, len, &mut out),
                    None => self.write_miss(page, len, &mut out),
                }
            }
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

    fn stop(&mut self) -> Outcome {
        let params = self.params;
        (self.params.reclaim, self.params.keep_clean) = (2, false);
        let mut out = self.clean_all();
        self.params = params;
        let staged = self.pages.iter().filter(|(_, held)| held.covered == Some(Where::Staged));
        let staged: Vec<(u64, Option<u64>)> = staged.map(|(&page, held)| (page, held.slot)).collect();
        for (page, slot) in staged {
            let slot = slot.expect("it is made of something");
            self.drop_delta(page, Role::Covered);
            self.leaves(page);
            self.sets.put(slot, Slot::Free);
            self.put(&[(Key::Slot(slot), Fact::Free)], &mut out);
        }
        out
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn state(&self) -> State {
        let (stale, staged) = (self.stale.clone(), self.staging.list().to_vec());
        State { stale, staged, pages: self.pages.clone(), ..State::of(&self.sets) }.with_log(&self.log)
    }

    fn check(&self) {
        self.check_all();
    }
}
