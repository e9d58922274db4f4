//! Holds pages in entries: WOW's groups, or the strips of one member. It counts the pages, chooses the entry
//! that is destaged next, and follows its pages until they are acknowledged (specs §8.0, §8.10.9).

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::ring::EntryRing;

/// A page of an entry.
#[derive(Clone, Copy, Debug)]
struct PooledPage {
    /// Is its index in the entry.
    index: u32,
    /// Is true if it is held and not under way.
    dirty: bool,
    /// A version of it is under way to its member, and held until that is acknowledged.
    under_way: bool,
    /// Versions of it that were let in and are not in the NVRAM so far.
    coming: u16,
}

/// Pages that are destaged together.
#[derive(Clone, Debug, Default)]
struct PoolEntry {
    /// By index.
    pages: Vec<PooledPage>,
    /// The request that made it: its own further pages are no hits on it (specs §8.10.8), unless there are
    /// those of others.
    made_by: u64,
    /// Versions that are not in the NVRAM so far.
    coming: u32,
    /// Is true while the entry is being destaged.
    busy: bool,
    /// Is true if its last page came with a sequential write.
    sequential: bool,
    /// Is true if it goes when others do.
    chosen: bool,
    /// Is true if it could not be written. It waits until it is written to, or all are tried again.
    parked: bool,
}

impl PoolEntry {
    fn find(&self, index: u32) -> Result<usize, usize> {
        self.pages.binary_search_by_key(&index, |page| page.index)
    }

    fn can_go(&self) -> bool {
        // Pages that are still coming hold the entry back, so that they go along.
        !self.busy && !self.parked && self.coming == 0 && self.pages.iter().any(|page| page.dirty)
    }

    fn can_be_next(&self) -> bool {
        !self.chosen && self.can_go()
    }
}

/// Not the number of a request.
const SEVERAL: u64 = u64::MAX;

/// Names the accesses that set the recency bit of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecencyRule {
    /// By each hit on the entry, as in WOW.
    Hit,
    /// By each store into it, the first too, as the pseudo-code of LAWC's Algorithm 1 has it.
    Store,
    /// Never.
    Never,
}

/// Pages in entries.
#[derive(Debug)]
pub(super) struct PagePool {
    capacity: u64,
    recency: RecencyRule,
    held: u64,
    changes: u64,
    ring: EntryRing,
    entries: HashMap<u64, PoolEntry, FixedState>,
    spare: Vec<PoolEntry>,
    /// Counts the parked ones.
    parked: usize,
    /// Is true if it was found that no entry can be destaged and nothing has changed since.
    stuck: bool,
}

impl PagePool {
    pub(super) fn new(capacity: u64, recency: RecencyRule) -> Self {
        Self {
            capacity,
            recency,
            held: 0,
            changes: 0,
            ring: EntryRing::default(),
            entries: HashMap::default(),
            spare: Vec::new(),
            parked: 0,
            stuck: true,
        }
    }

    /// Pages that it can hold.
    pub(super) const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Pages that it holds; one that is rewritten under way counts twice.
    pub(super) const fn held(&self) -> u64 {
        self.held
    }

    /// Pages that there is room for.
    pub(super) const fn free(&self) -> u64 {
        // A page that is rewritten under way counts twice, so more than the
        // capacity may be held for a while.
        self.capacity.saturating_sub(self.held)
    }

    /// Grows with whatever can make room for a page that had none.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns true if it holds nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns true if there is such an entry.
    pub(super) fn holds(&self, number: u64) -> bool {
        self.entries.contains_key(&number)
    }

    /// Counts the entries that could not be written and wait.
    pub(super) const fn parked(&self) -> usize {
        self.parked
    }

    /// Returns true if all entries wait because they could not be written.
    pub(super) fn has_only_parked(&self) -> bool {
        self.parked == self.entries.len()
    }

    /// Returns true if an entry waits because it could not be written.
    pub(super) fn is_parked(&self, number: u64) -> bool {
        self.parked > 0 && self.entries.get(&number).is_some_and(|entry| entry.parked)
    }

    /// Has all entries that could not be written tried again, once.
    pub(super) fn try_again(&mut self) {
        if self.parked > 0 {
            self.entries.values_mut().for_each(|entry| entry.parked = false);
            (self.parked, self.stuck) = (0, false);
        }
    }

    /// Returns true if an entry is among the next so many around the circle and its bit is not set.
    pub(super) fn is_near(&self, number: u64, of: usize) -> bool {
        self.ring.is_near(number, of)
    }

    /// Moves an entry to another pool, if it is here. There its bit is not set.
    pub(super) fn hand_over(&mut self, number: u64, to: &mut Self) {
        let Some(entry) = self.entries.remove(&number) else { return };
        // A page under way takes room beside its newer version, and both move.
        let pages = entry.pages.iter().map(|page| u64::from(page.dirty) + u64::from(page.under_way)).sum::<u64>();
        self.ring.remove(number);
        self.held -= pages;
        self.parked -= usize::from(entry.parked);
        to.parked += usize::from(entry.parked);
        to.ring.insert(number, false);
        to.held += pages;
        to.entries.insert(number, entry);
        to.stuck = false;
    }

    /// Returns true if a version of a page is held, under way or not.
    pub(super) fn has(&self, number: u64, index: u32) -> bool {
        self.entries.get(&number).is_some_and(|entry| entry.find(index).is_ok())
    }

    /// Returns true if a page takes room when it is written; a held page that is not under way takes none.
    pub(super) fn takes_room(&self, number: u64, index: u32) -> bool {
        let Some(entry) = self.entries.get(&number) else { return true };
        // The version under way stays until it is acknowledged, so a new one needs
        // a page of its own.
        entry.find(index).map_or(true, |at| !entry.pages[at].dirty)
    }

    /// Lets a page of a request in; whether a version of it was held. What is written sequentially
    /// leaves the recency bit as it is.
    pub(super) fn admit(&mut self, number: u64, index: u32, request: u64, sequential: bool) -> bool {
        self.changes += 1;
        let recency = self.recency;
        let ring = &mut self.ring;
        let entry = match self.entries.entry(number) {
            hashbrown::hash_map::Entry::Occupied(entry) => {
                let entry = entry.into_mut();
                // What comes may be what its row lacked.
                self.parked -= usize::from(std::mem::take(&mut entry.parked));
                if entry.made_by != request {
                    // Specs §8.10.8: the further pages of the request that made an
                    // entry are no hits.
                    entry.made_by = SEVERAL;
                }
                let hit = entry.made_by == SEVERAL && !sequential;
                if recency == RecencyRule::Store || recency == RecencyRule::Hit && hit {
                    ring.set(number);
                }
                entry
            }
            hashbrown::hash_map::Entry::Vacant(place) => {
                ring.insert(number, recency == RecencyRule::Store);
                // Entries are used again with the capacity of their page lists.
                let entry = self.spare.pop().unwrap_or_default();
                place.insert(PoolEntry { made_by: request, ..entry })
            }
        };
        entry.coming += 1;
        entry.sequential = sequential;
        match entry.find(index) {
            Ok(at) => {
                let page = &mut entry.pages[at];
                page.coming += 1;
                // A page that was under way, or whose earlier write was taken back,
                // becomes dirty again and takes room.
                self.held += u64::from(!std::mem::replace(&mut page.dirty, true));
                true
            }
            Err(at) => {
                entry.pages.insert(at, PooledPage { index, dirty: true, under_way: false, coming: 1 });
                self.held += 1;
                false
            }
        }
    }

    /// Takes over a page that an earlier life left.
    pub(super) fn load(&mut self, number: u64, index: u32) {
        // Request 0 is nobody's, so pages of an earlier life count as made by one
        // request.
        self.admit(number, index, 0, false);
        self.came(number, index);
    }

    /// A version that was let in is in the NVRAM.
    pub(super) fn came(&mut self, number: u64, index: u32) {
        self.stuck = false;
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.coming -= 1;
        if let Ok(at) = entry.find(index) {
            entry.pages[at].coming -= 1;
        }
    }

    /// A version that was let in will not come. `is_held` says whether an older one is in the NVRAM that
    /// is not under way.
    pub(super) fn take_back(&mut self, number: u64, index: u32, is_held: bool) {
        self.changes += 1;
        self.came(number, index);
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let Ok(at) = entry.find(index) else { return };
        let page = &mut entry.pages[at];
        // Room is held for a version that comes. It goes back only if nothing older
        // needs it.
        if page.dirty && page.coming == 0 && !is_held {
            page.dirty = false;
            self.held -= 1;
            if !page.under_way {
                entry.pages.remove(at);
            }
        }
        self.forget_if_empty(number);
    }

    /// Advances the pointer to the entry that is destaged next.
    pub(super) fn advance(&mut self) -> Option<u64> {
        if self.stuck {
            return None;
        }
        let entries = &self.entries;
        let found = self.ring.advance(|number| entries[&number].can_be_next());
        // Until something came or landed it would go round in vain after every event.
        self.stuck = found.is_none();
        found
    }

    /// The entry goes when others do, and is not found next any more.
    pub(super) fn choose(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.chosen = true;
        }
    }

    /// Returns true if the entry was chosen and has not gone so far.
    pub(super) fn is_chosen(&self, number: u64) -> bool {
        self.entries.get(&number).is_some_and(|entry| entry.chosen)
    }

    /// The pages of an entry that would be under way if it went.
    pub(super) fn dirty(&self, number: u64) -> impl Iterator<Item = u32> {
        let pages = self.entries.get(&number).into_iter().flat_map(|entry| &entry.pages);
        pages.filter(|page| page.dirty).map(|page| page.index)
    }

    /// The entry that [`advance`](Self::advance) would find.
    pub(super) fn next(&self) -> Option<u64> {
        if self.stuck {
            return None;
        }
        self.ring.next(|number| self.entries[&number].can_be_next())
    }

    /// Returns true if the last page of the entry was written sequentially.
    pub(super) fn is_sequential(&self, number: u64) -> bool {
        self.entries.get(&number).is_some_and(|entry| entry.sequential)
    }

    /// Returns true if the entry can be destaged now.
    pub(super) fn can_go(&self, number: u64) -> bool {
        self.entries.get(&number).is_some_and(PoolEntry::can_go)
    }

    /// The entry is being destaged: its pages are under way, and appended.
    pub(super) fn depart(&mut self, number: u64, indices: &mut Vec<u32>) {
        // The caller got the number from this pool, and nothing removes a held
        // entry in between.
        let entry = self.entries.get_mut(&number).expect("what is destaged is held");
        (entry.busy, entry.chosen) = (true, false);
        for page in entry.pages.iter_mut().filter(|page| page.dirty) {
            (page.dirty, page.under_way) = (false, true);
            indices.push(page.index);
        }
    }

    /// All that was under way of an entry is acknowledged. `is_held` says of a page whether a version is
    /// in the NVRAM that is not on its member; `parks` that nothing can be done about those for now. Returns true if one
    /// could not be written: a page that takes its place takes no room any more.
    pub(super) fn landed(&mut self, number: u64, parks: bool, is_held: impl Fn(u32) -> bool) -> bool {
        self.changes += 1;
        self.stuck = false;
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        entry.busy = false;
        let held = &mut self.held;
        let mut is_left = false;
        entry.pages.retain_mut(|page| {
            let was_dirty = page.dirty;
            let before = u64::from(was_dirty) + u64::from(std::mem::take(&mut page.under_way));
            // What could not be written is held as before.
            page.dirty = page.coming > 0 || is_held(page.index);
            is_left |= page.dirty && !was_dirty;
            *held = *held - before + u64::from(page.dirty);
            page.dirty
        });
        // Pages that are still coming may be what its row lacked, so such an entry
        // is tried with them.
        if parks && entry.coming == 0 && !entry.pages.is_empty() {
            entry.parked = true;
            self.parked += 1;
        }
        self.forget_if_empty(number);
        is_left
    }

    /// A page is on its member without having been destaged with its entry.
    pub(super) fn gone(&mut self, number: u64, index: u32) {
        self.changes += 1;
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let Ok(at) = entry.find(index) else { return };
        // A page of an entry under way is settled when that lands.
        if !entry.busy && entry.pages[at].coming == 0 {
            entry.pages.remove(at);
            self.held -= 1;
            self.forget_if_empty(number);
        }
    }

    fn forget_if_empty(&mut self, number: u64) {
        if self.entries.get(&number).is_some_and(|entry| entry.pages.is_empty() && !entry.busy) {
            self.ring.remove(number);
            if let Some(mut entry) = self.entries.remove(&number) {
                self.parked -= usize::from(entry.parked);
                (entry.made_by, entry.coming) = (0, 0);
                (entry.busy, entry.sequential, entry.chosen, entry.parked) = (false, false, false, false);
                self.spare.push(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(pool: &mut PagePool, request: u64, number: u64, indices: &[u32]) {
        for index in indices {
            pool.admit(number, *index, request, false);
            pool.came(number, *index);
        }
    }

    fn destage(pool: &mut PagePool) -> Option<(u64, Vec<u32>)> {
        let number = pool.advance()?;
        let mut indices = Vec::new();
        pool.depart(number, &mut indices);
        Some((number, indices))
    }

    #[test]
    fn a_page_under_way_takes_room_until_it_is_acknowledged_and_a_new_version_more() {
        let mut pool = PagePool::new(4, RecencyRule::Hit);
        write(&mut pool, 1, 5, &[0, 1]);
        assert_eq!(destage(&mut pool), Some((5, vec![0, 1])));
        assert_eq!(pool.held(), 2);
        assert!(pool.takes_room(5, 1) && pool.has(5, 1));
        write(&mut pool, 2, 5, &[1]);
        assert_eq!((pool.held(), pool.takes_room(5, 1)), (3, false));
        assert_eq!(destage(&mut pool), None, "an entry is destaged again when it is acknowledged");
        pool.landed(5, false, |index| index == 1);
        assert_eq!(pool.held(), 1);
        assert_eq!(destage(&mut pool), Some((5, vec![1])));
        pool.landed(5, false, |_| false);
        assert!(pool.is_empty() && pool.held() == 0);
    }

    #[test]
    fn own_pages_of_a_request_are_no_hits_on_the_entry_that_it_made() {
        let mut pool = PagePool::new(8, RecencyRule::Hit);
        write(&mut pool, 1, 3, &[0, 1]);
        write(&mut pool, 1, 4, &[0]);
        assert_eq!(destage(&mut pool), Some((3, vec![0, 1])));
        write(&mut pool, 2, 4, &[1]);
        write(&mut pool, 3, 6, &[0]);
        assert_eq!(destage(&mut pool).map(|entry| entry.0), Some(6), "4 was hit");
    }

    #[test]
    fn own_pages_of_a_request_are_hits_if_there_are_those_of_another() {
        let mut pool = PagePool::new(8, RecencyRule::Hit);
        write(&mut pool, 1, 4, &[0]);
        write(&mut pool, 2, 4, &[1]);
        write(&mut pool, 3, 6, &[0]);
        assert_eq!(destage(&mut pool).map(|entry| entry.0), Some(6), "4 was hit, and its bit is cleared");
        write(&mut pool, 1, 4, &[2]);
        write(&mut pool, 3, 5, &[0]);
        assert_eq!(destage(&mut pool).map(|entry| entry.0), Some(5), "and hit again");
    }

    #[test]
    fn what_is_written_sequentially_is_no_hit_on_the_entry() {
        let mut pool = PagePool::new(8, RecencyRule::Hit);
        write(&mut pool, 1, 3, &[0]);
        write(&mut pool, 1, 4, &[0]);
        pool.admit(3, 1, 2, true);
        pool.came(3, 1);
        assert_eq!([3, 4].map(|number| pool.is_sequential(number)), [true, false]);
        assert_eq!((pool.next(), destage(&mut pool)), (Some(3), Some((3, vec![0, 1]))), "its bit is not set");
        write(&mut pool, 3, 4, &[1]);
        pool.admit(4, 2, 4, true);
        pool.came(4, 2);
        write(&mut pool, 5, 6, &[0]);
        assert_eq!(pool.next(), Some(6), "nor is it cleared by one");
        write(&mut pool, 6, 4, &[3]);
        assert!(!pool.is_sequential(4), "what came last says it");
    }

    #[test]
    fn what_is_chosen_is_not_found_again_and_takes_what_comes_along() {
        let mut pool = PagePool::new(8, RecencyRule::Hit);
        write(&mut pool, 1, 3, &[0]);
        write(&mut pool, 1, 4, &[0]);
        assert_eq!(pool.advance(), Some(3));
        pool.choose(3);
        assert_eq!([pool.next(), pool.advance()], [Some(4); 2]);
        pool.choose(4);
        write(&mut pool, 2, 3, &[1]);
        assert_eq!([pool.next(), pool.advance()], [None; 2]);
        let mut indices = Vec::new();
        assert!(pool.can_go(3) && pool.dirty(3).eq([0, 1]));
        pool.depart(3, &mut indices);
        assert_eq!((indices, pool.is_chosen(3), pool.is_chosen(4)), (vec![0, 1], false, true));
        pool.landed(3, false, |_| false);
        write(&mut pool, 3, 3, &[0]);
        assert_eq!(pool.advance(), Some(3), "made anew");
    }

    #[test]
    fn what_could_not_be_written_waits_until_something_comes_or_all_are_tried_again() {
        let mut pool = PagePool::new(8, RecencyRule::Hit);
        write(&mut pool, 1, 3, &[0]);
        write(&mut pool, 1, 4, &[0]);
        assert_eq!(destage(&mut pool), Some((3, vec![0])));
        pool.landed(3, true, |_| true);
        assert_eq!((pool.held(), pool.parked(), pool.is_parked(3)), (2, 1, true));
        assert_eq!(destage(&mut pool), Some((4, vec![0])), "others go");
        pool.landed(4, false, |_| false);
        assert_eq!(destage(&mut pool), None);
        assert!(pool.has_only_parked());
        write(&mut pool, 2, 3, &[1]);
        assert!(!pool.has_only_parked());
        assert_eq!(destage(&mut pool), Some((3, vec![0, 1])));
        pool.landed(3, true, |_| true);
        pool.try_again();
        assert_eq!(destage(&mut pool), Some((3, vec![0, 1])));
        write(&mut pool, 3, 3, &[0]);
        pool.landed(3, true, |_| true);
        assert_eq!(pool.parked(), 1, "what has come by then went along too late");
        pool.try_again();
        destage(&mut pool).expect("it can go");
        pool.admit(3, 2, 4, false);
        pool.landed(3, true, |_| true);
        assert_eq!(pool.parked(), 0, "something is coming");
        pool.came(3, 2);
        destage(&mut pool).expect("it can go");
        pool.landed(3, true, |_| false);
        assert!(pool.is_empty() && pool.parked() == 0);
    }

    #[test]
    fn what_is_left_behind_takes_no_room_when_it_is_written_again() {
        let mut pool = PagePool::new(8, RecencyRule::Hit);
        write(&mut pool, 1, 3, &[0, 1]);
        assert!(!pool.takes_room(3, 0));
        destage(&mut pool).expect("it can go");
        assert!(pool.takes_room(3, 0), "beside the version under way");
        assert!(pool.landed(3, false, |index| index == 0), "one could not be written");
        assert!(!pool.takes_room(3, 0) && pool.takes_room(3, 1));
        destage(&mut pool).expect("it can go");
        write(&mut pool, 2, 3, &[0]);
        assert!(!pool.landed(3, false, |_| true), "it took none before either");
    }

    #[test]
    fn what_comes_is_waited_for_and_may_be_taken_back() {
        let mut pool = PagePool::new(8, RecencyRule::Store);
        pool.admit(1, 0, 1, false);
        assert_eq!(destage(&mut pool), None);
        pool.take_back(1, 0, false);
        assert!(pool.is_empty() && pool.held() == 0);
        write(&mut pool, 1, 1, &[0]);
        pool.admit(1, 0, 2, false);
        pool.take_back(1, 0, true);
        assert_eq!((pool.held(), destage(&mut pool)), (1, Some((1, vec![0]))));
    }

    #[test]
    fn a_version_that_went_along_is_not_held_any_more() {
        let mut pool = PagePool::new(8, RecencyRule::Hit);
        write(&mut pool, 1, 1, &[0]);
        destage(&mut pool).expect("it can go");
        write(&mut pool, 2, 1, &[0]);
        assert_eq!(pool.held(), 2);
        pool.landed(1, false, |_| false);
        assert_eq!(pool.held(), 0);
        assert!(pool.is_empty());
    }
}
