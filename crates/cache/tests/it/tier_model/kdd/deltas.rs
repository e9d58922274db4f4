//! Places deltas: in the staging buffer and in DEZ (specs §9.3, §9.4, §9.8.6, §9.8.8, §9.8.11).

use super::super::cleaning;
use super::super::counters::{Cause, For, Outcome};
use super::super::log::At;
use super::super::sets::Slot;
use super::super::staging::Role;
use super::{Kdd, Where, write};

impl Kdd {
    /// Drops a delta of a page, if it has that one.
    pub(super) fn drop_delta(&mut self, page: u64, role: Role) {
        let Some(held) = self.pages.get_mut(&page) else { return };
        let delta = match role {
            Role::Covered => held.covered.take(),
            Role::Newest => held.newest.take(),
        };
        match delta {
            None => {}
            Some(Where::Staged) => self.staging.remove(page, role),
            Some(Where::Ssd(at)) => self.release(at),
        }
    }

    /// A delta on the SSD is not needed any more.
    pub(super) fn release(&mut self, at: At) {
        let Slot::Delta(valid) = self.sets.get(at.slot) else { panic!("slot {} has deltas", at.slot) };
        self.sets.put(at.slot, if valid == 1 { Slot::Free } else { Slot::Delta(valid - 1) });
    }

    /// Finds a place for the newest delta of a page, whose slot is among the pinned and whose row is not cleaned
    /// meanwhile; whether there is one.
    pub(super) fn place(&mut self, page: u64, len: u32, pinned: &[u64], out: &mut Outcome) -> bool {
        let row = self.row(page);
        loop {
            let staged = !self.is_too_long(len);
            if staged && self.staging.fits(len) {
                self.staging.push(page, Role::Newest, len);
                self.pages.get_mut(&page).expect("the page is held").newest = Some(Where::Staged);
                return true;
            }
            let Some(slot) = self.dez(pinned, out) else {
                if cleaning::clean_next(self, None, Some(row), out) {
                    continue;
                }
                return false;
            };
            if !staged {
                self.sets.put(slot, Slot::Delta(1));
                let at = At { slot, offset: 0, len: self.params.page_bytes };
                self.pages.get_mut(&page).expect("the page is held").newest = Some(Where::Ssd(at));
                out.phase(For::Commit, vec![write(slot, Cause::Delta)]);
                return true;
            }
            if !self.staging.fits(len) {
                self.commit(slot, out);
            }
        }
    }

    /// A free slot for deltas: in the set with fewest delta pages that has a free or a clean one.
    fn dez(&mut self, pinned: &[u64], out: &mut Outcome) -> Option<u64> {
        let mut sets: Vec<u64> = (0..self.sets.sets()).collect();
        sets.sort_by_key(|&set| (self.sets.tally(set).delta, set));
        for set in sets {
            if let Some(slot) = self.sets.free(set) {
                return Some(slot);
            }
            if let Some(slot) = self.sets.oldest_clean(set, pinned) {
                self.evict(slot, out);
                return Some(slot);
            }
        }
        None
    }

    /// Packs the oldest deltas into a page.
    fn commit(&mut self, slot: u64, out: &mut Outcome) {
        let packed = self.staging.take(self.params.page_bytes);
        out.phase(For::Commit, vec![write(slot, Cause::Delta)]);
        self.sets.put(slot, Slot::Delta(packed.len() as u32));
        let mut offset = 0;
        for staged in &packed {
            let held = self.pages.get_mut(&staged.page).expect("its page is held");
            let at = Some(Where::Ssd(At { slot, offset, len: staged.len }));
            match staged.role {
                Role::Covered => held.covered = at,
                Role::Newest => held.newest = at,
            }
            offset += staged.len;
        }
        let facts: Vec<_> = packed.iter().map(|staged| self.fact(staged.page)).collect();
        self.put(&facts, out);
    }
}
