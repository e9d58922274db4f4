//! Keeps pages of recently written rows in memory, as md's stripe cache does: a write of such a row reads only what is not
//! there.
//!
//! A page that is kept is what its member holds, as far as this array has written or read it. The cache is sans I/O: it names
//! [slots of memory](NvSlot::is_of_row), whose bytes an executor has. What is kept ends with the power, and nothing durable
//! relies on it.
//!
//! A row that a write uses is *held*: it stays until the write has ended, and only then counts as used. So at most one write
//! uses a row, as its claim says as well. Rows are forgotten when anything else changes them.

use destage_plan::{Column, ColumnSet, NvSlot, NvSlots, OpId, Row, Rows, StepSet};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Counts the sets: row `r` belongs to set `r` mod 8, as in md.
const SETS: usize = 8;
/// Names no place.
const NOWHERE: u32 = u32::MAX;

/// Names the place of a row in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowPlace(u32);

/// Describes the row in a place.
#[derive(Clone, Copy)]
struct KeptRow {
    row: Row,
    /// Holds the columns whose page is kept, or will be when the write that holds the row has put it.
    valid: ColumnSet,
    /// Holds those of them that the write puts.
    put: ColumnSet,
    is_held: bool,
    /// Tells that the row was changed while it was held.
    is_stale: bool,
    /// Names the rows of the set that were used last before, and next after, this one.
    older: u32,
    newer: u32,
}

/// Lists the rows of a set that are not held, by last use.
#[derive(Clone, Copy)]
struct RowSetList {
    oldest: u32,
    newest: u32,
    /// Counts all rows, those that are held too.
    len: u32,
}

/// Names the rows that a write holds, and what becomes of slots when it has ended.
#[derive(Debug, Default)]
pub(super) struct HeldRows {
    pub(super) places: Vec<RowPlace>,
    /// Lists the slots that the step frees which puts the new pages.
    replaced: Vec<NvSlot>,
    /// Names that step.
    pub(super) put: StepSet,
    /// Lists the writes that are carried out with this one.
    pub(super) folded: Vec<OpId>,
    /// Holds the columns that these write beside this one's.
    pub(super) folded_columns: ColumnSet,
    /// Tells that they write the same pages, and that the cache has the last one's bytes.
    pub(super) are_rewrites: bool,
    /// Numbers the life of the cache's content.
    epoch: u32,
}

/// Keeps pages of recently written rows.
pub(super) struct RowCache {
    /// Counts the rows of a set; 0 where there is no cache.
    ways: u32,
    columns: usize,
    rows: Vec<KeptRow>,
    /// Lists the slots by place and column.
    pages: Vec<NvSlot>,
    free: Vec<u32>,
    index: HashMap<u64, u32, FixedState>,
    sets: [RowSetList; SETS],
    slots: NvSlots,
    /// Lists slots whose pages nobody wants. The next write that puts pages frees them.
    unwanted: Vec<NvSlot>,
    epoch: u32,
    /// Is kept to be used again.
    #[expect(clippy::vec_box, reason = "the boxes themselves are used again")]
    spare: Vec<Box<HeldRows>>,
}

impl RowCache {
    /// Names the numbers of rows that a cache can have: none, or a multiple of this.
    pub(super) const UNIT: u32 = SETS as u32;

    /// Keeps so many rows of so many columns, nothing of which is known yet.
    pub(super) fn new(rows: u32, columns: u32) -> Self {
        let none = RowSetList { oldest: NOWHERE, newest: NOWHERE, len: 0 };
        Self {
            ways: rows / Self::UNIT,
            columns: columns as usize,
            rows: Vec::new(),
            pages: Vec::new(),
            free: Vec::new(),
            index: HashMap::default(),
            sets: [none; SETS],
            // Slots are numbers, so their supply may be larger than the memory: `ways` bounds the rows that
            // have pages.
            slots: NvSlots::of_rows(u32::MAX - NvSlot::FIRST_OF_ROWS),
            unwanted: Vec::new(),
            epoch: 0,
            spare: Vec::new(),
        }
    }

    /// Returns true if there is a cache.
    #[inline]
    pub(super) const fn is_on(&self) -> bool {
        self.ways > 0
    }

    /// Begins to hold rows.
    #[expect(clippy::unnecessary_box_returns, reason = "the box goes into the task of a write, and comes back")]
    pub(super) fn begin(&mut self) -> Box<HeldRows> {
        // The lists inside keep their memory, so that a write allocates nothing.
        let mut held = self.spare.pop().unwrap_or_default();
        held.epoch = self.epoch;
        held.folded.clear();
        (held.put, held.folded_columns, held.are_rewrites) = (StepSet::EMPTY, ColumnSet::EMPTY, false);
        held
    }

    /// Holds a row. Of a row that is not there nothing is known; the row of its set that was not used for longest is dropped
    /// for it. Returns nothing if all rows of the set are held.
    pub(super) fn hold(&mut self, row: Row, held: &mut HeldRows) -> Option<RowPlace> {
        let place = if let Some(&place) = self.index.get(&row.0) {
            let kept = &self.rows[place as usize];
            debug_assert!(!kept.is_held, "{row:?} is claimed by one write");
            if kept.is_held {
                return None;
            }
            // A held row is on no list, so that nobody takes its place meanwhile.
            self.unlink(place);
            place
        } else {
            self.make_room(row)?
        };
        let kept = &mut self.rows[place as usize];
        (kept.is_held, kept.put) = (true, ColumnSet::EMPTY);
        held.places.push(RowPlace(place));
        Some(RowPlace(place))
    }

    /// Lets the row go that was held last, unused.
    pub(super) fn let_go(&mut self, held: &mut HeldRows) {
        let RowPlace(place) = held.places.pop().expect("a row is held");
        self.end(place);
    }

    fn make_room(&mut self, row: Row) -> Option<u32> {
        let set = (row.0 % SETS as u64) as usize;
        if self.sets[set].len == self.ways {
            // The victim is the row unused for longest, as in md. Held rows are on no list, so none of them
            // can be it.
            let oldest = self.sets[set].oldest;
            if oldest == NOWHERE {
                return None;
            }
            self.unlink(oldest);
            self.drop_place(oldest);
        }
        let kept = KeptRow {
            row,
            valid: ColumnSet::EMPTY,
            put: ColumnSet::EMPTY,
            is_held: true,
            is_stale: false,
            older: NOWHERE,
            newer: NOWHERE,
        };
        let place = if let Some(place) = self.free.pop() {
            self.rows[place as usize] = kept;
            place
        } else {
            self.rows.push(kept);
            // The table grows with the rows in use: a large limit costs no memory in an array that writes
            // little.
            self.pages.resize(self.rows.len() * self.columns, NvSlot::default());
            self.rows.len() as u32 - 1
        };
        self.index.insert(row.0, place);
        self.sets[set].len += 1;
        Some(place)
    }

    /// Returns the columns of a row that are kept.
    pub(super) fn valid(&self, RowPlace(place): RowPlace) -> ColumnSet {
        self.rows[place as usize].valid
    }

    /// Returns the slot of a page that is kept.
    pub(super) fn page(&self, RowPlace(place): RowPlace, column: Column) -> NvSlot {
        self.pages[place as usize * self.columns + column.index()]
    }

    /// Takes a slot for the page of a column, in place of the one that it has.
    pub(super) fn replace(&mut self, held: &mut HeldRows, RowPlace(place): RowPlace, column: Column) -> NvSlot {
        let slot = self.slots.alloc().expect("there are more slots than pages");
        let page = &mut self.pages[place as usize * self.columns + column.index()];
        let before = std::mem::replace(page, slot);
        let kept = &mut self.rows[place as usize];
        if kept.valid.contains(column) {
            // The old page stays until the step that puts the new one: reads of this plan may still use it.
            held.replaced.push(before);
        }
        kept.valid.insert(column);
        kept.put.insert(column);
        slot
    }

    /// Lists the slots that the step frees which puts the new pages: what they replace, and what nobody wants.
    pub(super) fn frees<'a>(&mut self, held: &'a mut HeldRows) -> &'a [NvSlot] {
        held.replaced.append(&mut self.unwanted);
        &held.replaced
    }

    /// Keeps the rows of a write that has ended well, as those that were used last; none of them if they may have been
    /// changed.
    pub(super) fn keep(&mut self, mut held: Box<HeldRows>, is_right: bool) {
        for slot in held.replaced.drain(..) {
            self.slots.free(slot);
        }
        // A loss during the write ended the epoch, and the member may lack the page.
        let is_right = is_right && held.epoch == self.epoch;
        for RowPlace(place) in held.places.drain(..) {
            self.rows[place as usize].is_stale |= !is_right;
            self.end(place);
        }
        self.spare.push(held);
    }

    /// Forgets the rows of a write that did not end well. None of its steps is in flight.
    pub(super) fn forget(&mut self, mut held: Box<HeldRows>, has_put: bool) {
        if has_put {
            held.replaced.drain(..).for_each(|slot| self.slots.free(slot));
        } else {
            self.unwanted.append(&mut held.replaced);
        }
        for &RowPlace(place) in &held.places {
            let kept = &mut self.rows[place as usize];
            if !has_put {
                // No executor knows of these.
                let unknown = kept.put;
                kept.valid -= unknown;
                for column in unknown.iter() {
                    self.slots.free(self.pages[place as usize * self.columns + column.index()]);
                }
            }
            self.drop_place(place);
        }
        held.places.clear();
        self.spare.push(held);
    }

    /// Forgets rows that are changed by what does not keep them.
    #[inline]
    pub(super) fn drop_rows(&mut self, rows: Rows) {
        if !self.index.is_empty() {
            self.drop_some(rows);
        }
    }

    #[inline(never)]
    fn drop_some(&mut self, rows: Rows) {
        // A discard can span more rows than the cache holds.
        if rows.count as usize > self.index.len() {
            let is_of = |row: u64| (rows.first..rows.end()).contains(&Row(row));
            let mut places: Vec<_> =
                self.index.iter().filter(|(row, _)| is_of(**row)).map(|(_, place)| *place).collect();
            // The map's order is arbitrary, and the order of drops decides later slot numbers: plans must
            // be reproducible.
            places.sort_unstable();
            for place in places {
                self.change(place);
            }
        } else {
            for row in rows.iter() {
                if let Some(&place) = self.index.get(&row.0) {
                    self.change(place);
                }
            }
        }
    }

    /// Forgets all rows, and returns the slots to be freed.
    pub(super) fn clear(&mut self) -> Vec<NvSlot> {
        self.epoch = self.epoch.wrapping_add(1);
        for place in 0..self.rows.len() as u32 {
            let kept = &self.rows[place as usize];
            // A held row is dropped when its write ends, since its steps name its slots.
            if !kept.is_held && self.index.get(&kept.row.0) == Some(&place) {
                self.unlink(place);
                self.drop_place(place);
            }
        }
        std::mem::take(&mut self.unwanted)
    }

    /// Takes back a slot that is freed.
    pub(super) fn free_slot(&mut self, slot: NvSlot) {
        self.slots.free(slot);
    }

    /// Counts the pages that are kept.
    pub(super) fn kept(&self) -> usize {
        self.index.values().map(|&place| self.rows[place as usize].valid.len() as usize).sum()
    }

    fn change(&mut self, place: u32) {
        if self.rows[place as usize].is_held {
            self.rows[place as usize].is_stale = true;
        } else {
            self.unlink(place);
            self.drop_place(place);
        }
    }

    fn end(&mut self, place: u32) {
        if self.rows[place as usize].is_stale {
            return self.drop_place(place);
        }
        let kept = &mut self.rows[place as usize];
        kept.is_held = false;
        let set = &mut self.sets[(kept.row.0 % SETS as u64) as usize];
        (kept.older, kept.newer) = (set.newest, NOWHERE);
        let older = std::mem::replace(&mut set.newest, place);
        if older == NOWHERE {
            set.oldest = place;
        } else {
            self.rows[older as usize].newer = place;
        }
    }

    fn unlink(&mut self, place: u32) {
        let KeptRow { row, older, newer, .. } = self.rows[place as usize];
        let set = &mut self.sets[(row.0 % SETS as u64) as usize];
        if older == NOWHERE {
            set.oldest = newer;
        } else {
            self.rows[older as usize].newer = newer;
        }
        let set = &mut self.sets[(row.0 % SETS as u64) as usize];
        if newer == NOWHERE {
            set.newest = older;
        } else {
            self.rows[newer as usize].older = older;
        }
    }

    /// Forgets a row that is on no list.
    fn drop_place(&mut self, place: u32) {
        let KeptRow { row, valid, .. } = self.rows[place as usize];
        let first = place as usize * self.columns;
        self.unwanted.extend(valid.iter().map(|column| self.pages[first + column.index()]));
        self.index.remove(&row.0);
        self.sets[(row.0 % SETS as u64) as usize].len -= 1;
        self.free.push(place);
    }
}
