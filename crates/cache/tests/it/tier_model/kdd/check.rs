//! Checks the invariants of KDD's state between accesses (specs §9.3, §9.5, §9.7).

use std::collections::{BTreeMap, BTreeSet};

use super::super::counters::Key;
use super::super::log::{At, Fact};
use super::super::sets::Slot;
use super::super::staging::Role;
use super::{Held, Kdd, Where, on_ssd};

impl Kdd {
    pub(super) fn check_all(&self) {
        self.sets.check();
        self.staging.check();
        let total = self.sets.total();
        assert_eq!(total.free + total.clean + total.old + total.delta, self.sets.slots().len() as u64);
        let rows = self.pages.iter().filter(|(_, held)| held.newest.is_some()).map(|(&page, _)| self.row(page));
        assert_eq!(self.stale, rows.collect::<BTreeSet<u64>>(), "stale rows are those of pages with a newest delta");
        self.check_slots();
        self.check_deltas();
        assert_eq!(self.log.replay(), self.log.live());
        assert_eq!(self.replay(), self.pages, "what a start finds is what is held");
    }

    fn check_slots(&self) {
        for (&page, held) in &self.pages {
            assert_eq!(held.slot, self.sets.find(page), "the slot of page {page}");
            match (held.slot.map(|slot| self.sets.get(slot)), held.newest) {
                (Some(Slot::Clean(_)), None) | (Some(Slot::Old(_)), Some(_)) => {}
                (None, Some(_)) => assert_eq!(held.covered, None, "a page with deltas only has one"),
                (slot, newest) => panic!("page {page} has {slot:?} and {newest:?}"),
            }
            assert!(held.covered.is_none() || self.params.keep_clean);
        }
        let total = self.sets.total();
        let slots = self.pages.values().filter(|held| held.slot.is_some()).count() as u64;
        assert_eq!(slots, total.clean + total.old);
    }

    /// Valid counts are the deltas that are there, deltas of a page of the SSD do not overlap, and the staging
    /// buffer has those that are said to be in it.
    fn check_deltas(&self) {
        let mut there: BTreeMap<u64, Vec<At>> = BTreeMap::new();
        let mut staged = Vec::new();
        for (&page, held) in &self.pages {
            for (role, delta) in [(Role::Covered, held.covered), (Role::Newest, held.newest)] {
                match delta {
                    None => {}
                    Some(Where::Staged) => staged.push((page, role)),
                    Some(Where::Ssd(at)) => there.entry(at.slot).or_default().push(at),
                }
            }
        }
        assert_eq!(staged.len(), self.staging.list().len());
        for delta in self.staging.list() {
            assert!(staged.contains(&(delta.page, delta.role)), "{delta:?} is known");
        }
        for (slot, &what) in (0..).zip(self.sets.slots()) {
            let mut deltas = there.remove(&slot).unwrap_or_default();
            match what {
                Slot::Delta(valid) => assert_eq!(valid as usize, deltas.len(), "valid count of slot {slot}"),
                _ => assert!(deltas.is_empty(), "slot {slot} has deltas and is {what:?}"),
            }
            deltas.sort_unstable_by_key(|at| at.offset);
            assert!(deltas.windows(2).all(|two| two[0].offset + two[0].len <= two[1].offset), "{deltas:?}");
            assert!(deltas.iter().all(|at| at.offset + at.len <= self.params.page_bytes), "{deltas:?}");
        }
    }

    /// Returns what a start finds: log, buffer, then the staging buffer.
    fn replay(&self) -> BTreeMap<u64, Held> {
        let mut pages = BTreeMap::new();
        for (key, fact) in self.log.replay() {
            let slot = match key {
                Key::Slot(slot) => Some(slot),
                Key::Page(_) => None,
            };
            let ssd = |at| Some(Where::Ssd(at));
            let (page, covered, newest) = match fact {
                Fact::Clean(page) => (page, None, None),
                Fact::Kept { page, covered } => (page, ssd(covered), None),
                Fact::Old { page, covered, newest } => (page, covered.map(Where::Ssd), ssd(newest)),
                Fact::Free | Fact::Dirty(_) | Fact::New(_) | Fact::Pair(_) => panic!("KDD logs no {fact:?}"),
            };
            let before = pages.insert(page, Held { slot, covered, newest });
            assert_eq!(before, None, "one entry of page {page}");
        }
        for staged in self.staging.list() {
            let held = pages.entry(staged.page).or_default();
            match staged.role {
                Role::Covered => held.covered = Some(Where::Staged),
                Role::Newest => held.newest = Some(Where::Staged),
            }
        }
        for held in pages.values().filter(|held| on_ssd(held.newest).is_some()) {
            assert!(on_ssd(held.newest).is_some_and(|at| matches!(self.sets.get(at.slot), Slot::Delta(_))));
        }
        pages
    }
}
