//! A naive model of the caches on an SSD before a parity RAID, written from specs §9 (of which §9.8 wins)
//! and KDD's paper: page by page, one access after the other, in integers, with lists searched from end to
//! end. It says what members, SSD and NVRAM are asked for, in which order, and what is held afterwards.
//!
//! Where §9 leaves something open:
//! * Intents are the array's and are not among what is asked. A phase begins when the one before has ended.
//! * A write to a page that write-around holds is a hit; a page with nothing but a delta is a miss.
//! * Only whole sets are used, not the pages beyond the last.
//! * A place in the set is looked for before the array is written to, and after it is read from.
//! * An eviction's *free* entry is put when the slot is taken, that of what takes the slot when it is
//!   written; two entries count, although the second replaces the first in a buffer that has both.
//! * Entries are put after what they tell of is written.
//! * Cleaning begins after the access: for want of room in the set first, then by the thresholds.
//! * *Shortage* is any look for a slot in a set that finds none, be the page bypassed, written through
//!   (`LeavO`'s first hit) or written in place (`LeavO`'s further hits). A set is then cleaned until at most
//!   `set_low` percent of it is old, new or delta, or nothing is left in it to clean.
//! * `daz_full = clean_now` cleans rows of the set, that of the least recently used old page first, until
//!   there is room. What finds none even then is bypassed.
//! * WB puts no entry for a page that a read brings in, and one for each page that leaves its slot.
//! * WB is written back from the set with most dirty pages, LRU first, until at most `dirty_low` percent are.
//! * `LeavO`'s pair has one place in the LRU list; after cleaning the clean page has that place.
//! * Deltas go to a DEZ page in the order of the staging buffer, from offset 0, as many as fit until the first
//!   that does not; they commit until the new delta fits.
//! * Room in the DEZ is found before deltas are chosen to be committed; if finding it (an eviction, cleaning)
//!   made room in the staging buffer, nothing is committed.
//! * A DEZ page is read once for what is cleaned at a time, however many deltas are taken from it. The base is not read for
//!   RMW, but for a delta of a whole page: that is the new page itself.
//! * Reclaim scheme 1 reads base and delta when it writes the page, be it that cleaning has read them before.
//! * A delta of `delta_max` bytes and more is too long. By default that is a page: deltas have no header.
//! * `rewrite`, and a write for whose delta no room is left (§9.8.11), are RMW with the base, which was read for
//!   the delta and is at hand, be the page old or clean.
//! * Whether RMW or RCW asks less of members is told after what the cache has is taken off (`cache_visible`).
//! * For cleaning a page is cached if its base is in the DAZ, be it clean or old.
//!
//! Beyond the paper:
//! * `admit` counts the writes of a page, and begins anew when the page had a delta only and cleaning dropped
//!   it: a page that was admitted and has left is admitted at its next write. (Counting since the beginning gives
//!   .52 SSD pages a write in the steady state of §9.8 where it has .40, counting since the page left the cache .37.)
//! * A read miss is always admitted, unless the page has a delta: then nothing is; or unless no write ever is.
//! * Without `delay_misses` `admit` counts the writes of pages that are not cached and were written lately: as many of these
//!   are known as there are slots, in buckets of eight, from which the page goes first that came first, or that is admitted.
//! * With `delay_misses` a page that is not admitted, or has no room in its set, has a delta only. At each
//!   further write its member is read again; with the delta held that is the base, and what is admitted.
//! * Its entry is freed when the delta is dropped, and when the page is admitted, if the log has it.
//! * A row all of whose stale pages have deltas only is cleaned after all others, lowest row first.
//! * `keep_clean`: deltas are always against the base. What the parity covers is the base or the base with the
//!   *covered* delta; cleaning makes the newest delta the covered one, and logs a clean entry with its place. A write hit has a
//!   second delta beside it. Where old and delta pages are counted for the thresholds, or for want of room in a set, a delta page
//!   without the newest delta of an old page does not count.
//! * `clean_stripes`: the next stripe with stale rows after the one cleaned last, around; for want of room in a
//!   set, the stripe of its least recently used old page. What a stripe's cleaning asks of a member in one phase
//!   is one request, and counts the pages of stale rows.
//! * Before a stop cleaned pages are free whatever else becomes of them, and what is made with a delta in the NVRAM is dropped.
//! * `rcw_from_cache = fewer`: data that is not cached is read from members if these are fewer than the parities; destage
//!   does so.
//!
//! Options select where destage's caches differ:
//! * `bypass_full`: WB does not keep a page that is read into a set of dirty ones, since the read is answered and over
//!   before one of them is written back; one is all the same, so that the next page finds room.
//! * `stale_visible`: a write with parity in a row that is behind takes what it can from the cache, and pins all that
//!   is cached of the row.

pub mod array;
pub mod back;
pub mod cleaning;
pub mod counters;
pub mod kdd;
pub mod leavo;
pub mod log;
pub mod params;
pub mod pieces;
pub mod request;
pub mod sets;
pub mod staging;
pub mod through;

use std::collections::{BTreeMap, BTreeSet};

use counters::{Counters, Outcome};
use log::Log;
use params::Params;
use request::StripeFragment;
use sets::{Sets, Slot};
use staging::Staged;

use crate::spec_reading::SpecReading;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Read,
    Write,
}

/// Holds the state of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub slots: Vec<Slot>,
    /// Of each set the slots with a place in the LRU order, oldest first.
    pub lists: Vec<Vec<u64>>,
    /// Rows that owe parity.
    pub stale: BTreeSet<u64>,
    /// Deltas in the NVRAM, oldest first.
    pub staged: Vec<Staged>,
    /// KDD's pages, with their deltas.
    pub pages: BTreeMap<u64, kdd::Held>,
    /// Counters of the log's first page in use and of the next.
    pub log: (u64, u64),
    /// Entries in the log's buffer.
    pub buffered: usize,
    /// The log's live entries do not fit: nothing after this access means anything.
    pub log_full: bool,
}

impl State {
    fn of(sets: &Sets) -> Self {
        let lists = (0..sets.sets()).map(|set| sets.list(set).to_vec()).collect();
        Self { slots: sets.slots().to_vec(), lists, ..Self::default() }
    }

    fn with_log(mut self, log: &Log) -> Self {
        self.log = log.ends();
        self.buffered = log.buffer().len();
        self.log_full = log.is_full();
        self
    }
}

/// A cache before an array.
pub trait Model {
    /// A page is read or written. A write has the length in bytes of its delta against the version that the
    /// parity covers, from 1 to a page's; only KDD looks at it.
    fn access(&mut self, op: Op, page: u64, delta_len: Option<u32>) -> Outcome;

    /// Returns how requests of several pages are served.
    fn reading(&self) -> SpecReading;

    /// Serves what a request has in one stripe. The caller serves one whole page by [`access`](Self::access), whatever the
    /// reading.
    fn serve(&mut self, fragment: &StripeFragment) -> Outcome {
        match self.reading() {
            SpecReading::AsBuilt => self.serve_as_built(fragment),
            SpecReading::Paper => request::by_page(self, fragment),
        }
    }

    /// Serves it as the cache is built.
    fn serve_as_built(&mut self, fragment: &StripeFragment) -> Outcome;

    /// The host is idle for long: the parity of all rows is brought up to date.
    fn idle(&mut self) -> Outcome {
        self.clean_all()
    }

    /// Cleans until nothing is owed.
    fn clean_all(&mut self) -> Outcome;

    /// As before a stop: nothing is left in the NVRAM for deltas.
    fn stop(&mut self) -> Outcome {
        self.clean_all()
    }

    fn counters(&self) -> Counters;

    fn state(&self) -> State;

    /// Checks the invariants that hold between accesses.
    fn check(&self);
}

/// A model by its name in the specs: `none`, `wa`, `wt`, `wb`, `leavo`, `kdd`.
pub fn build(name: &str, params: Params) -> Box<dyn Model> {
    match name {
        "none" => Box::new(through::Through::new(through::Kind::None, params)),
        "wa" => Box::new(through::Through::new(through::Kind::Around, params)),
        "wt" => Box::new(through::Through::new(through::Kind::Through, params)),
        "wb" => Box::new(back::Back::new(params)),
        "leavo" => Box::new(leavo::Leavo::new(params)),
        "kdd" => Box::new(kdd::Kdd::new(params)),
        _ => panic!("no model of {name}"),
    }
}
