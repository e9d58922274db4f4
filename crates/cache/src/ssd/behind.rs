//! Tracks rows with stale parity and decides when their parity is updated (specs §9.2, §9.6). Every cache that
//! defers parity shares this code.
//!
//! Rows are cleaned when the cache holds more of their pages than `dirty-high` allows, down to `dirty-low`.
//! They are also cleaned in idle time until a request comes, and at once when a device is lost or an order says
//! so.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use destage_plan::{
    Column, ColumnSet, Nanos, OpId, Out, ParamSpec, Params, Row, Rows, SpecError, TimerId, TimerOwner, quantity,
};
use destage_raid::array::{ParityUpdate, RaidArray};
use destage_raid::{Geometry, PagePlace};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::frames::FrameTable;

/// Rows whose parity is made to catch up at the same time.
// Several updates overlap their reads and writes on different members. Their number
// is bounded because each holds claims that delay host writes to its rows.
const CONCURRENT: usize = 8;

pub(super) const IDLE: TimerId = TimerId { owner: TimerOwner::Above, number: 0 };

pub(super) const HIGH: ParamSpec = ParamSpec {
    name: "dirty-high",
    default: "30",
    values: "1 to 100",
    unit: "percent",
    help: "share of the cache that pages of rows with old parity may take before such rows are cleaned",
};

pub(super) const LOW: ParamSpec = ParamSpec {
    name: "dirty-low",
    default: "10",
    values: "0 to dirty-high",
    unit: "percent",
    help: "share at which cleaning stops",
};

pub(super) const SET_LOW: ParamSpec = ParamSpec {
    name: "set-low",
    default: "30",
    values: "0 to 100",
    unit: "percent",
    help: "share of a set down to which it is cleaned when it has no room for a page",
};

pub(super) const IDLE_AFTER: ParamSpec = ParamSpec {
    name: "clean-after",
    default: "1s",
    values: "1 us or more",
    unit: "time",
    help: "time without a request after which rows with old parity are cleaned",
};

pub(super) const CLEAN: ParamSpec = ParamSpec {
    name: "clean",
    default: "rows",
    values: "rows or stripes",
    unit: "-",
    help: "what is cleaned at a time: the row of the page that was not used for longest, or all rows of a stripe that have old parity, stripe by stripe in the order of addresses",
};

/// Sets what arrays in files clean at a time.
pub(crate) const CLEANED_STRIPES: (&str, &str) = (CLEAN.name, "stripes");

/// A row whose parity does not cover its newest data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StaleRow {
    /// The data columns of which it covers another version.
    pub(super) columns: ColumnSet,
    /// Those of which the version that it covers is lost.
    pub(super) lost: ColumnSet,
    /// Those of which no version is in a frame.
    bare: ColumnSet,
    /// Is true while an operation updates the row's parity.
    updating: bool,
    /// Is true if too much is lost to update the row's parity.
    hopeless: bool,
}

/// Frames that would be free, or clean, if no row were behind.
#[derive(Clone, Copy)]
pub(crate) struct ReclaimableFrames<'a> {
    pub(super) all: u32,
    /// Of each stale page.
    pub(super) of_page: u32,
    /// Those with deltas.
    pub(super) packed: u32,
    /// Of each set these, if there are any. A stale page may be the last that needs one, and the
    /// set of that may be any.
    pub(super) deltas: &'a [u32],
}

/// Bytes of memory for each page of the cache, of which a share may be of rows that are known: rows of 25 bytes
/// each in a table that may just be growing, and their intents, which take as much.
pub(super) fn bytes_per_page(high: ParamSpec, params: &Params) -> u64 {
    // A table that has just grown is 7/16 full, so a row of 25 bytes takes 57. The
    // factor 2 counts its intent, which takes as much.
    params.number(high.name, 1..=100).map_or(0, |share: u64| (2 * 57 * share).div_ceil(100))
}

/// The rows, and what is being done about them.
pub(crate) struct StaleRows {
    rows: HashMap<Row, StaleRow, FixedState>,
    /// The rows in order, if there may be some without a page in a frame, or stripes are cleaned.
    order: Option<BTreeSet<Row>>,
    /// Stripes are cleaned: the next is the first from this row on.
    stripes: Option<Row>,
    /// Counts the rows whose parity cannot be updated.
    hopeless: usize,
    updates: Vec<(OpId, Rows)>,
    /// Pages in frames of rows that are being made to catch up, and columns of them, unless rows have changed
    /// since they were counted.
    under_way: Option<(u32, u32)>,
    /// Of each set the stale pages of rows that can be cleaned and are not being.
    left: Vec<u32>,
    /// Pages that may be stale, and down to how many they are cleaned.
    high: u64,
    low: u64,
    set_low: u64,
    idle: Nanos,
    /// Rows are cleaned until few pages are stale.
    cleaning: bool,
    /// Rows are cleaned until a request comes.
    is_idle: bool,
    /// A set without room.
    short: Option<u32>,
    /// Rows that are to be cleaned before anything else, the last first.
    urgent: Vec<Row>,
    draining: bool,
    /// Is the time of the last request; the next field is true while the timer is set.
    asked: Nanos,
    timer: bool,
    pub(super) updated_rows: u64,
    /// Rows that were left behind.
    pub(super) left_rows: u64,
}

impl StaleRows {
    /// For a cache of these frames; whether there may be rows of which no page is in one.
    pub(super) fn new(frames: &FrameTable, bare: bool, params: &Params) -> Result<Self, SpecError> {
        let high: u64 = params.number(HIGH.name, 1..=100)?;
        let low: u64 = params.number(LOW.name, 0..=100)?;
        if low > high {
            return Err(params.refuse(LOW.name));
        }
        let set_low: u64 = params.number(SET_LOW.name, 0..=100)?;
        let idle = quantity::time(params.text(IDLE_AFTER.name)).ok().filter(|time| *time > Nanos::ZERO);
        let share = |percent| u64::from(frames.len()) * percent / 100;
        let stripes = params.choice(CLEAN.name, &[("rows", None), ("stripes", Some(Row(0)))])?;
        Ok(Self {
            rows: HashMap::default(),
            // The order costs memory per stale row, so it exists only for the two
            // cases that need it. Rows without a frame cannot be found by a set's
            // LRU list, and stripes are cleaned by address.
            order: (bare || stripes.is_some()).then(BTreeSet::new),
            stripes,
            hopeless: 0,
            updates: Vec::new(),
            under_way: None,
            high: share(high),
            low: share(low),
            set_low,
            idle: idle.ok_or_else(|| params.refuse(IDLE_AFTER.name))?,
            left: vec![0; frames.sets() as usize],
            cleaning: false,
            is_idle: false,
            short: None,
            urgent: Vec::new(),
            draining: false,
            asked: Nanos(0),
            timer: false,
            updated_rows: 0,
            left_rows: 0,
        })
    }

    pub(super) fn get(&self, row: Row) -> Option<&StaleRow> {
        self.rows.get(&row)
    }

    /// Returns true if the parity does not cover the newest version of a column.
    pub(super) fn is_stale(&self, row: Row, column: Column) -> bool {
        self.rows.get(&row).is_some_and(|stale| stale.columns.contains(column))
    }

    pub(super) fn departs(&self, rows: Rows) -> bool {
        !self.rows.is_empty() && rows.iter().any(|row| self.rows.contains_key(&row))
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if no update runs and only rows that cannot be updated are left.
    pub(super) fn is_clean(&self) -> bool {
        self.updates.is_empty() && self.rows.len() == self.hopeless
    }

    /// The parity of a row will not cover the newest version of a column, of which a version is in a frame or
    /// not.
    pub(super) fn leave(&mut self, row: Row, column: Column, in_frame: bool, frames: &FrameTable) {
        self.under_way = None;
        let stale = self.rows.entry(row).or_default();
        let before = stale.left();
        if !stale.columns.contains(column) {
            self.left_rows += u64::from(stale.columns.is_empty());
            if let Some(order) = self.order.as_mut().filter(|_| stale.columns.is_empty()) {
                order.insert(row);
            }
            // A column that is stale already keeps its place: the parity still
            // covers the version that it covered before the first of these writes.
            stale.columns.insert(column);
            if !in_frame {
                stale.bare.insert(column);
            }
        }
        self.left[frames.set_of(row) as usize] += stale.left() - before;
    }

    /// A version of a column of a row is in a frame.
    pub(super) fn has_frame(&mut self, row: Row, column: Column, frames: &FrameTable) {
        self.under_way = None;
        if let Some(stale) = self.rows.get_mut(&row).filter(|stale| stale.bare.contains(column)) {
            let before = stale.left();
            stale.bare.remove(column);
            self.left[frames.set_of(row) as usize] += stale.left() - before;
        }
    }

    /// Returns true if the version of a column that the parity covers is lost.
    pub(super) fn is_lost(&self, row: Row, column: Column) -> bool {
        self.rows.get(&row).is_some_and(|stale| stale.lost.contains(column))
    }

    /// Notes that no version of a stale column is in the cache any more, and has the row cleaned before others.
    pub(super) fn lose_page(&mut self, row: Row, column: Column, frames: &FrameTable) {
        let Some(stale) = self.rows.get_mut(&row).filter(|stale| stale.columns.contains(column)) else { return };
        self.under_way = None;
        let left = &mut self.left[frames.set_of(row) as usize];
        *left -= stale.left();
        stale.lost.insert(column);
        stale.bare.insert(column);
        *left += stale.left();
        // Parity that covers a lost version is of no use to a degraded read. So the
        // row is made consistent from its data before any other is cleaned.
        self.urgent.push(row);
    }

    /// Marks the versions that the parities of all rows cover as lost.
    pub(super) fn lose_covered(&mut self) {
        // The cache device held them. From here on these rows can only be
        // recomputed from all of their data, not updated by differences.
        self.rows.values_mut().for_each(|row| row.lost = row.columns);
    }

    /// Records what happened to columns of a row. Returns the stale columns whose newest version the parity
    /// covers from now on, including those just written.
    pub(super) fn written(
        &mut self,
        row: Row,
        columns: ColumnSet,
        updated: ParityUpdate,
        frames: &FrameTable,
    ) -> ColumnSet {
        let Some(stale) = self.rows.get_mut(&row) else { return ColumnSet::EMPTY };
        self.under_way = None;
        let left = &mut self.left[frames.set_of(row) as usize];
        *left -= stale.left();
        let covered = match updated {
            // A read-modify-write changes the parity by the written columns alone.
            // What it covers of other stale columns stays as it was.
            ParityUpdate::Modified => stale.columns & columns,
            ParityUpdate::Computed => stale.columns,
            // A torn update leaves the parity covering neither version, so no stale
            // column can be updated by its difference any more.
            ParityUpdate::Torn => {
                stale.lost = stale.columns;
                ColumnSet::EMPTY
            }
            // Such a row stays in the table so that its intent stays open, but it
            // must not count as work. An idle wait for it would never end.
            ParityUpdate::Lost => {
                self.hopeless += usize::from(!std::mem::replace(&mut stale.hopeless, true));
                ColumnSet::EMPTY
            }
            ParityUpdate::Delayed | ParityUpdate::Absorbed | ParityUpdate::Stored | ParityUpdate::Overwritten => {
                ColumnSet::EMPTY
            }
        };
        stale.columns -= covered;
        stale.lost -= covered;
        stale.bare -= covered;
        *left += stale.left();
        if stale.columns.is_empty() {
            self.hopeless -= usize::from(stale.hopeless);
            self.rows.remove(&row);
            self.order.as_mut().map(|order| order.remove(&row));
        }
        covered
    }

    /// A request came.
    pub(super) const fn asked(&mut self, now: Nanos) {
        (self.asked, self.is_idle) = (now, false);
    }

    /// A set had no room for a page, if one is named.
    pub(super) const fn are_short(&mut self, set: Option<u32>) {
        if set.is_some() {
            self.short = set;
        }
    }

    /// Devices were lost, or it was ordered: all rows are cleaned at once.
    pub(super) fn hurry(&mut self) {
        self.urgent = self.rows.keys().copied().collect();
        // In an order that does not depend on how the table lays them out.
        self.urgent.sort_unstable_by(|a, b| b.cmp(a));
    }

    pub(super) fn drain(&mut self) {
        self.hurry();
        self.draining = true;
    }

    /// The timer has gone off.
    pub(super) fn timer(&mut self, out: &mut Out) {
        self.timer = false;
        // A request may have come since the timer was set. The timer is not moved
        // with each request, which would cost an event for each: it is set again
        // when it goes off.
        self.is_idle = out.now() >= self.asked + self.idle;
    }

    /// An operation has ended; whether it was to make a row's parity catch up.
    pub(super) fn done(&mut self, op: OpId, frames: &FrameTable) -> bool {
        let Some(at) = self.updates.iter().position(|(update, _)| *update == op) else { return false };
        let (_, rows) = self.updates.swap_remove(at);
        self.under_way = None;
        for row in rows.iter() {
            // A row that was covered or removed meanwhile has lost the flag and
            // must not count again.
            if let Some(stale) = self.rows.get_mut(&row).filter(|stale| stale.updating) {
                stale.updating = false;
                self.left[frames.set_of(row) as usize] += stale.left();
            }
        }
        true
    }

    /// Begins what is due.
    pub(super) fn turn(
        &mut self,
        frames: &FrameTable,
        owed: ReclaimableFrames<'_>,
        geometry: &Geometry,
        array: &mut RaidArray,
        out: &mut Out,
    ) {
        if self.rows.is_empty() && !self.draining {
            (self.cleaning, self.short) = (false, None);
            return;
        }
        // Cleaning needs the claims of parity. Before the array is ready, recovery
        // makes the parity of rows with open intents anew, and these rows are among
        // them.
        if self.updates.len() < CONCURRENT && array.is_ready() && self.may_be_due(owed) {
            self.begin(frames, owed, geometry, array, out);
        }
        if self.draining && self.urgent.is_empty() && self.updates.is_empty() {
            self.draining = false;
            out.drained();
        }
        // Without stale rows no timer runs, so an array at rest causes no events.
        if !self.timer && !self.is_idle && !self.rows.is_empty() {
            self.timer = true;
            out.timer(IDLE, self.asked + self.idle);
        }
    }

    /// Returns true if a row may have to be cleaned, without counting what running updates will free.
    fn may_be_due(&mut self, owed: ReclaimableFrames<'_>) -> bool {
        let most = if self.cleaning { self.low } else { self.high };
        let due = u64::from(owed.all) > most || !self.urgent.is_empty() || self.short.is_some() || self.is_idle;
        // Hysteresis: cleaning that has begun goes on down to `dirty-low`. Stopping
        // at `dirty-high` would clean single rows at every write.
        self.cleaning &= due;
        due
    }

    // Kept out of line: `turn` runs for every event, and this path only when a row
    // is due.
    #[inline(never)]
    fn begin(
        &mut self,
        frames: &FrameTable,
        owed: ReclaimableFrames<'_>,
        geometry: &Geometry,
        array: &mut RaidArray,
        out: &mut Out,
    ) {
        while self.updates.len() < CONCURRENT
            && let Some(row) = self.next(frames, owed, geometry)
        {
            let rows = self.around(row, geometry);
            for row in rows.iter() {
                if let Some(stale) = self.rows.get_mut(&row).filter(|stale| stale.can_be_updated()) {
                    self.left[frames.set_of(row) as usize] -= stale.left();
                    stale.updating = true;
                    self.updated_rows += 1;
                }
            }
            let op = array.open_parity_updates(rows, out);
            self.updates.push((op, rows));
            self.under_way = None;
        }
    }

    /// The next row to be cleaned, if one is to be.
    fn next(&mut self, frames: &FrameTable, owed: ReclaimableFrames<'_>, geometry: &Geometry) -> Option<Row> {
        while let Some(row) = self.urgent.pop() {
            if self.can_be_updated(row) {
                return Some(row);
            }
        }
        // No more rows are begun than if one were begun when the one before is done: what those under way
        // may free counts as free.
        let (leaving, changed) = self.under_way();
        if let Some(set) = self.short {
            let deltas = owed.deltas.get(set as usize).map_or(0, |deltas| deltas.saturating_sub(changed));
            let left = u64::from(self.left[set as usize] * owed.of_page + deltas);
            let many = left * 100 > self.set_low * u64::from(frames.ways());
            let row = if many { self.oldest(frames, geometry, set) } else { None };
            if row.is_some() {
                return row;
            }
            // With deltas a set may have room only after a commit page becomes
            // free, which running updates may still bring about. Without running
            // updates waiting for that would be waiting for nothing.
            if many || self.updates.is_empty() || owed.deltas.is_empty() {
                self.short = None;
            } else {
                return None;
            }
        }
        let deltas = owed.packed.min(changed);
        let left = u64::from(owed.all.saturating_sub(owed.of_page * leaving + deltas));
        self.cleaning = if self.cleaning { u64::from(owed.all) > self.low } else { left > self.high };
        if self.cleaning && left > self.low || self.is_idle {
            if self.stripes.is_some() {
                return self.next_stripe(geometry);
            }
            // The fullest set goes first, since it is the first to run out of room.
            // Ties go to the lowest number, so that runs are reproducible.
            let left = self.left.iter().zip(0..).max_by_key(|(left, set)| (**left, Reverse(*set)));
            let oldest = left.and_then(|(_, set)| self.oldest(frames, geometry, set));
            // Sets name only rows with a page in a frame. Rows of which the cache
            // has deltas alone are found by the order.
            return oldest.or_else(|| self.order.iter().flatten().copied().find(|row| self.can_be_updated(*row)));
        }
        None
    }

    /// The first row of the next stripe that can be cleaned.
    fn next_stripe(&mut self, geometry: &Geometry) -> Option<Row> {
        let (order, from) = (self.order.as_ref()?, self.stripes?);
        // The sweep goes around the array like an elevator. A stripe that was just
        // cleaned comes last, and neighbouring stripes follow each other on the
        // disks.
        let mut rows = order.range(from..).chain(order.range(..from)).copied();
        let row = rows.find(|row| self.can_be_updated(*row))?;
        self.stripes = Some(stripe_of(row, geometry).end());
        Some(row)
    }

    /// Returns the rows that are cleaned together with a row: all of its stripe if stripes are cleaned, else
    /// the row alone.
    fn around(&self, row: Row, geometry: &Geometry) -> Rows {
        let Some(order) = self.order.as_ref().filter(|_| self.stripes.is_some()) else { return Rows::new(row, 1) };
        let stripe = stripe_of(row, geometry);
        let mut rows = order.range(stripe.first..stripe.end()).filter(|row| self.can_be_updated(**row));
        let first = *rows.next().expect("the row is one of them");
        let last = *rows.next_back().unwrap_or(&first);
        // The span includes rows between the first and the last that are not stale.
        // One read and one write of the parity cost less than two of each.
        Rows::new(first, (last.0 - first.0) as u32 + 1)
    }

    /// Pages in frames of rows that are being cleaned, and columns of them.
    fn under_way(&mut self) -> (u32, u32) {
        if let Some(counted) = self.under_way {
            return counted;
        }
        let rows = self.updates.iter().flat_map(|(_, rows)| rows.iter());
        let updating = rows.filter_map(|row| self.rows.get(&row)).filter(|stale| stale.updating);
        let counted = updating
            .fold((0, 0), |(pages, columns), stale| (pages + stale.in_frames().len(), columns + stale.columns.len()));
        self.under_way = Some(counted);
        counted
    }

    fn can_be_updated(&self, row: Row) -> bool {
        self.rows.get(&row).is_some_and(StaleRow::can_be_updated)
    }

    /// The row of the page of a set that was not used for longest, of those that can be cleaned.
    fn oldest(&self, frames: &FrameTable, geometry: &Geometry, set: u32) -> Option<Row> {
        frames.stale_of(set).map(|page| row_of(geometry, page)).find(|row| self.can_be_updated(*row))
    }
}

impl StaleRow {
    const fn can_be_updated(&self) -> bool {
        !self.updating && !self.hopeless
    }

    /// Columns of which a version is in a frame.
    fn in_frames(&self) -> ColumnSet {
        self.columns - self.bare
    }

    /// Pages of the row that can be cleaned, are not being, and are in frames.
    fn left(&self) -> u32 {
        // Rows that are being cleaned count as free already, so that no more of
        // them are begun than are needed.
        if self.can_be_updated() { self.in_frames().len() } else { 0 }
    }
}

/// The rows of the stripe of a row.
fn stripe_of(row: Row, geometry: &Geometry) -> Rows {
    let (_, row_in_chunk) = geometry.stripe_of(row);
    // Rows of a stripe are numbered one after another, so the first follows by
    // subtraction.
    Rows::new(Row(row.0 - u64::from(row_in_chunk)), geometry.chunk_pages())
}

/// The parity row of a page.
pub(super) fn row_of(geometry: &Geometry, page: u64) -> Row {
    let place = geometry.locate(page);
    geometry.row(place.stripe, place.row_in_chunk)
}

/// The page of a row in a column.
pub(super) fn page_of(geometry: &Geometry, row: Row, column: Column) -> u64 {
    let (stripe, row_in_chunk) = geometry.stripe_of(row);
    geometry.page_of(PagePlace { stripe, row_in_chunk, column })
}
