//! Sets of slots, what each slot holds, and the LRU order inside a set (specs §9.1, §9.3).

use std::collections::BTreeMap;

use super::params::Params;

/// Holds a page in a slot; the numbers of pages are the array's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Free,
    Clean(u64),
    /// WB: newer than what the members hold.
    Dirty(u64),
    /// `LeavO`, KDD: what the parity covers.
    Old(u64),
    /// `LeavO`: the newest version of a page of which the old one is held, too.
    New(u64),
    /// KDD: deltas, so many of them valid.
    Delta(u32),
}

impl Slot {
    const fn listed(self) -> Option<u64> {
        match self {
            Self::Clean(page) | Self::Dirty(page) | Self::Old(page) => Some(page),
            Self::Free | Self::New(_) | Self::Delta(_) => None,
        }
    }
}

/// Counts the slots of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub free: u64,
    pub clean: u64,
    pub dirty: u64,
    pub old: u64,
    pub new: u64,
    pub delta: u64,
}

impl Tally {
    fn of(&mut self, slot: Slot) -> &mut u64 {
        match slot {
            Slot::Free => &mut self.free,
            Slot::Clean(_) => &mut self.clean,
            Slot::Dirty(_) => &mut self.dirty,
            Slot::Old(_) => &mut self.old,
            Slot::New(_) => &mut self.new,
            Slot::Delta(_) => &mut self.delta,
        }
    }

    /// Slots that only cleaning frees.
    pub const fn owing(&self) -> u64 {
        self.dirty + self.old + self.new + self.delta
    }
}

#[derive(Clone, Debug)]
pub struct Sets {
    width: u64,
    slots: Vec<Slot>,
    /// Of each set the slots in its LRU list, oldest first.
    lists: Vec<Vec<u64>>,
    /// Of each set what is in it; counted anew by [`Self::check`].
    tallies: Vec<Tally>,
    found: BTreeMap<u64, u64>,
}

impl Sets {
    pub fn new(params: &Params) -> Self {
        let (sets, width) = (params.sets(), params.set_pages());
        Self {
            width,
            slots: vec![Slot::Free; (sets * width) as usize],
            lists: vec![Vec::new(); sets as usize],
            tallies: vec![Tally { free: width, ..Tally::default() }; sets as usize],
            found: BTreeMap::new(),
        }
    }

    pub const fn width(&self) -> u64 {
        self.width
    }

    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub fn sets(&self) -> u64 {
        self.lists.len() as u64
    }

    pub const fn set_of(&self, slot: u64) -> u64 {
        slot / self.width
    }

    pub fn get(&self, slot: u64) -> Slot {
        self.slots[slot as usize]
    }

    /// The slot in an LRU list that holds a page.
    pub fn find(&self, page: u64) -> Option<u64> {
        self.found.get(&page).copied()
    }

    pub fn tally(&self, set: u64) -> Tally {
        self.tallies[set as usize]
    }

    /// Returns the counts of all sets together.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        for tally in &self.tallies {
            total.free += tally.free;
            total.clean += tally.clean;
            total.dirty += tally.dirty;
            total.old += tally.old;
            total.new += tally.new;
            total.delta += tally.delta;
        }
        total
    }

    /// The LRU list of a set, oldest first.
    pub fn list(&self, set: u64) -> &[u64] {
        &self.lists[set as usize]
    }

    /// The free slot of a set with the lowest number (§9.8.12).
    pub fn free(&self, set: u64) -> Option<u64> {
        (set * self.width..(set + 1) * self.width).find(|&slot| self.get(slot) == Slot::Free)
    }

    /// The least recently used clean slot of a set, but for the pinned ones.
    pub fn oldest_clean(&self, set: u64, pinned: &[u64]) -> Option<u64> {
        let mut list = self.list(set).iter().copied();
        list.find(|slot| !pinned.contains(slot) && matches!(self.get(*slot), Slot::Clean(_)))
    }

    /// Changes what a slot holds. A page that enters the LRU list is its most recently used; one that is
    /// there already keeps its place.
    pub fn put(&mut self, slot: u64, what: Slot) {
        let set = self.set_of(slot) as usize;
        let was = std::mem::replace(&mut self.slots[slot as usize], what);
        *self.tallies[set].of(was) -= 1;
        *self.tallies[set].of(what) += 1;
        if was.listed() != what.listed() {
            if let Some(page) = was.listed() {
                self.lists[set].retain(|&other| other != slot);
                self.found.remove(&page);
            }
            if let Some(page) = what.listed() {
                self.lists[set].push(slot);
                assert_eq!(self.found.insert(page, slot), None, "page {page} is in one slot");
            }
        }
    }

    /// A page in a slot that takes another slot's place in the LRU list: that slot is free then.
    pub fn take_place(&mut self, slot: u64, of: u64, what: Slot) {
        let set = self.set_of(of) as usize;
        let at = self.lists[set].iter().position(|&other| other == of).expect("it is in the list");
        self.put(of, Slot::Free);
        self.put(slot, what);
        let moved = self.lists[set].pop().expect("it was just put there");
        self.lists[set].insert(at, moved);
    }

    /// Makes a slot the most recently used of its set.
    pub fn touch(&mut self, slot: u64) {
        let list = &mut self.lists[(slot / self.width) as usize];
        list.retain(|&other| other != slot);
        list.push(slot);
    }

    /// Makes a slot the least recently used of its set.
    pub fn make_oldest(&mut self, slot: u64) {
        let list = &mut self.lists[(slot / self.width) as usize];
        list.retain(|&other| other != slot);
        list.insert(0, slot);
    }

    /// The counts are what is there, and each page in a list is there once.
    pub fn check(&self) {
        let mut pages = 0;
        for set in 0..self.sets() {
            let mut tally = Tally::default();
            for slot in set * self.width..(set + 1) * self.width {
                *tally.of(self.get(slot)) += 1;
                let page = self.get(slot).listed();
                let times = self.list(set).iter().filter(|&&other| other == slot).count();
                assert_eq!(times, usize::from(page.is_some()), "slot {slot} in the LRU list");
                if let Some(page) = page {
                    pages += 1;
                    assert_eq!(self.find(page), Some(slot), "where page {page} is found");
                }
            }
            assert_eq!(tally, self.tally(set), "counts of set {set}");
            assert_eq!(self.list(set).len() as u64, tally.clean + tally.dirty + tally.old);
        }
        assert_eq!(self.found.len(), pages);
    }
}
