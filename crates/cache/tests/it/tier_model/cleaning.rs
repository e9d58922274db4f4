//! Decides which rows a cleaner takes next, and when it stops (specs §9.6, §9.8.11, §9.8.14).

use std::collections::BTreeSet;

use super::counters::Outcome;
use super::params::Params;
use super::sets::{Sets, Slot};

/// Models a cache that delays parity: `LeavO`, KDD.
pub trait Delayed {
    fn params(&self) -> &Params;

    fn sets(&self) -> &Sets;

    fn stale(&self) -> &BTreeSet<u64>;

    /// Slots that count for the thresholds.
    fn owing(&self) -> u64;

    /// Slots of a set that count where it has no room.
    fn owing_in(&self, set: u64) -> u64 {
        self.sets().tally(set).owing()
    }

    /// Returns the slots that a write with parity pins of a row.
    fn named(&self, row: u64) -> Vec<u64> {
        let named = self.params().stale_visible && self.stale().contains(&row);
        self.params().shape.pages(row).filter(|_| named).filter_map(|page| self.sets().find(page)).collect()
    }

    /// The stripe after the one that was cleaned last.
    fn next_stripe(&mut self) -> &mut u64;

    /// Brings the parity of rows of one stripe up to date.
    fn clean(&mut self, rows: &[u64], out: &mut Outcome);
}

/// Returns the rows that are cleaned next, of one set or of all, but never the row to skip.
pub fn victims(cache: &mut impl Delayed, set: Option<u64>, skip: Option<u64>) -> Vec<u64> {
    let shape = cache.params().shape;
    let found = set.map_or_else(|| oldest(cache, skip), |set| oldest_in(cache, set, skip));
    if !cache.params().clean_stripes {
        return found.into_iter().collect();
    }
    let rows: Vec<u64> = cache.stale().iter().copied().filter(|&row| Some(row) != skip).collect();
    let stripe = if set.is_some() {
        found.map(|row| shape.stripe(row))
    } else {
        let next = *cache.next_stripe();
        rows.iter()
            .map(|&row| shape.stripe(row))
            .find(|&stripe| stripe >= next)
            .or(rows.first().map(|&r| shape.stripe(r)))
    };
    let Some(stripe) = stripe else { return Vec::new() };
    if set.is_none() {
        *cache.next_stripe() = stripe + 1;
    }
    rows.into_iter().filter(|&row| shape.stripe(row) == stripe).collect()
}

/// The row of the least recently used old page of the set with most old pages; a row without old pages
/// last.
fn oldest(cache: &impl Delayed, skip: Option<u64>) -> Option<u64> {
    let mut sets: Vec<u64> = (0..cache.sets().sets()).filter(|&set| cache.sets().tally(set).old > 0).collect();
    sets.sort_by_key(|&set| (u64::MAX - cache.sets().tally(set).old, set));
    let old = sets.into_iter().find_map(|set| oldest_in(cache, set, skip));
    old.or_else(|| cache.stale().iter().copied().find(|&row| Some(row) != skip))
}

fn oldest_in(cache: &impl Delayed, set: u64, skip: Option<u64>) -> Option<u64> {
    let shape = cache.params().shape;
    let row = |&slot: &u64| match cache.sets().get(slot) {
        Slot::Old(page) => Some(shape.row(page)).filter(|&row| Some(row) != skip),
        _ => None,
    };
    cache.sets().list(set).iter().find_map(row)
}

/// Cleans after an access that found no room in a set, or left too much to reclaim.
pub fn after_access(cache: &mut impl Delayed, short: Option<u64>, out: &mut Outcome) {
    if let Some(set) = short {
        let low = cache.params().set_low * cache.sets().width();
        while cache.owing_in(set) * 100 > low && clean_next(cache, Some(set), None, out) {}
    }
    let all = cache.sets().slots().len() as u64;
    let (high, low) = (cache.params().dirty_high * all, cache.params().dirty_low * all);
    if cache.sets().total().owing() * 100 > high && cache.owing() * 100 > high {
        while cache.owing() * 100 > low && clean_next(cache, None, None, out) {}
    }
}

/// Cleans once; whether there was anything to clean.
pub fn clean_next(cache: &mut impl Delayed, set: Option<u64>, skip: Option<u64>, out: &mut Outcome) -> bool {
    let rows = victims(cache, set, skip);
    cache.clean(&rows, out);
    !rows.is_empty()
}
