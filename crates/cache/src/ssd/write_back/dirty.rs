//! Tracks dirty pages and decides when they are written back (specs §9.1, §9.6, §9.8.14). It takes the least
//! recently used page of the set with most dirty pages, alone or with others of its stripe.
//!
//! Pages are written back in four cases:
//!
//! * The cache holds more dirty pages than `dirty-high`, until it holds `dirty-low`.
//! * A set has no room for a page that is to come.
//! * No request came for `clean-after`, until one comes.
//! * An order says so: then all of them.

use std::cmp::Reverse;
use std::collections::VecDeque;

use destage_plan::{
    Column, ColumnSet, Nanos, OpId, Out, ParamSpec, Params, Row, Rows, SpecError, TimerId, TimerOwner, quantity,
};
use destage_raid::Geometry;
use destage_raid::array::RaidArray;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};

use crate::ssd::behind::page_of;
use crate::ssd::frames::FrameTable;

pub(super) const IDLE: TimerId = TimerId { owner: TimerOwner::Above, number: 0 };

pub(super) const HIGH: ParamSpec = ParamSpec {
    name: "dirty-high",
    // As EnhanceIO has it.
    default: "30",
    values: "1 to 100",
    unit: "percent",
    help: "share of the cache that dirty pages may take before they are written back",
};

pub(super) const LOW: ParamSpec = ParamSpec {
    name: "dirty-low",
    default: "10",
    values: "0 to dirty-high",
    unit: "percent",
    help: "share of the cache that dirty pages still take when no more are written back",
};

pub(super) const IDLE_AFTER: ParamSpec = ParamSpec {
    name: "clean-after",
    default: "1s",
    values: "above 0",
    unit: "time",
    help: "time without a request after which dirty pages are written back",
};

pub(super) const AT_ONCE: ParamSpec = ParamSpec {
    name: "at-once",
    default: "8",
    values: "1 to 255",
    unit: "pages",
    help: "pages written back at a time at most; those that are together leave the cache in the order in which they were written",
};

pub(super) const DESTAGE_UNIT: ParamSpec = ParamSpec {
    name: "destage-unit",
    default: "page",
    values: "page or stripe",
    unit: "-",
    help: "what is written back at a time: the page that was not used for longest, or with it what is dirty of its stripe and \
           was not used for half as long, row by row",
};

/// Sets what arrays in files write back at a time.
pub(crate) const DESTAGED_STRIPES: (&str, &str) = (DESTAGE_UNIT.name, "stripe");

/// Limits the rows of a stripe that are written back together.
const STRIPE_ROWS: u32 = 32;

/// Names the pages of a row that an operation writes back.
#[derive(Clone, Copy)]
struct LeavingRow {
    op: OpId,
    row: Row,
    columns: ColumnSet,
}

/// The dirty pages, and what is being done about them.
pub(super) struct DirtyPages {
    /// The dirty columns of rows.
    rows: HashMap<Row, ColumnSet, FixedState>,
    pages: u64,
    /// Of each set the dirty pages, and those of them that are not being written back.
    of_set: Vec<u32>,
    left: Vec<u32>,
    all_left: u64,
    /// Holds the rows that are being written back; the next field limits their number.
    under_way: Vec<LeavingRow>,
    at_once: usize,
    /// Is true if pages are written back with others of their stripe.
    stripes: bool,
    /// Pages that may be dirty, and down to how many they are written back.
    high: u64,
    low: u64,
    idle: Nanos,
    /// Lists the dirty pages that cannot be written back in this life.
    stuck: HashSet<u64, FixedState>,
    /// They are written back until few are dirty.
    cleaning: bool,
    /// They are written back until a request comes.
    is_idle: bool,
    /// Pages that are to be written back before all others: those that were dirty when that was ordered.
    urgent: VecDeque<u64>,
    draining: bool,
    /// Is the time of the last request. The next fields are the time until which write-backs give way to a
    /// sequential run, and whether the timer is set.
    asked: Nanos,
    gives_way: Nanos,
    timer: bool,
    /// Limits the pages that may be dirty while write-backs make way.
    most: u64,
    pub(super) written_back: u64,
}

/// Gives the reason for writing pages back beside the thresholds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteBackNeed {
    /// All are to be.
    pub(super) all: bool,
    /// A set, and how many pages in it must not be dirty any more.
    pub(super) room: Option<(u32, u32)>,
    /// Is true if the log still says of pages that they are dirty of which members have newer versions.
    pub(super) has_passed: bool,
}

impl DirtyPages {
    /// For a cache of these frames.
    pub(super) fn new(frames: &FrameTable, params: &Params) -> Result<Self, SpecError> {
        let high: u64 = params.number(HIGH.name, 1..=100)?;
        let low: u64 = params.number(LOW.name, 0..=100)?;
        if low > high {
            return Err(params.refuse(LOW.name));
        }
        let idle = quantity::time(params.text(IDLE_AFTER.name)).ok().filter(|time| *time > Nanos::ZERO);
        let share = |percent| u64::from(frames.len()) * percent / 100;
        Ok(Self {
            rows: HashMap::default(),
            pages: 0,
            of_set: vec![0; frames.sets() as usize],
            left: vec![0; frames.sets() as usize],
            all_left: 0,
            under_way: Vec::new(),
            at_once: params.number(AT_ONCE.name, 1..=255)?,
            stripes: params.choice(DESTAGE_UNIT.name, &[("page", false), ("stripe", true)])?,
            high: share(high),
            low: share(low),
            idle: idle.ok_or_else(|| params.refuse(IDLE_AFTER.name))?,
            stuck: HashSet::default(),
            cleaning: false,
            is_idle: false,
            urgent: VecDeque::new(),
            draining: false,
            asked: Nanos(0),
            gives_way: Nanos(0),
            timer: false,
            most: 0,
            written_back: 0,
        })
    }

    /// The dirty columns of a row.
    pub(super) fn of_row(&self, row: Row) -> ColumnSet {
        self.rows.get(&row).copied().unwrap_or_default()
    }

    pub(super) fn departs(&self, rows: Rows) -> bool {
        !self.rows.is_empty() && rows.iter().any(|row| self.rows.contains_key(&row))
    }

    /// Rows with dirty pages.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if nothing is dirty and nothing is being written back.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.under_way.is_empty()
    }

    /// Returns true if nothing is being written back, and nothing that is dirty can be.
    pub(super) fn is_stuck(&self) -> bool {
        // Every dirty page is stuck: waiting for write-back would never end.
        self.under_way.is_empty() && self.pages == self.stuck.len() as u64
    }

    /// Notes that a dirty page cannot be written back in this life, unless it is written again.
    pub(super) fn sticks(&mut self, row: Row, column: Column, page: u64, set: u32) {
        // The page stays dirty and in its frame. It only stops counting as
        // something that write-back could free.
        if self.stuck.insert(page) && !self.is_under_way(row, column) {
            self.goes(set);
        }
    }

    /// Notes that the pages that an operation was to write back cannot be written back.
    pub(super) fn cannot_go(&mut self, op: OpId, geometry: &Geometry) {
        let Some(&LeavingRow { row, columns, .. }) = self.under_way.iter().find(|leaving| leaving.op == op) else {
            return;
        };
        let dirty = columns & self.of_row(row);
        self.stuck.extend(dirty.iter().map(|column| page_of(geometry, row, column)));
    }

    /// Counts the dirty pages of a set that cannot be written back.
    pub(super) fn stuck_in(&self, set: u32, frames: &FrameTable, geometry: &Geometry) -> u32 {
        self.stuck.iter().filter(|page| place(**page, frames, geometry).2 == set).count() as u32
    }

    /// Notes that a dirty page, which is written again, may be written back.
    pub(super) fn may_go(&mut self, row: Row, column: Column, page: u64, set: u32) {
        // The new version can be read where the old one could not.
        if !self.stuck.is_empty() && self.stuck.remove(&page) && !self.is_under_way(row, column) {
            self.stays(set);
        }
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Dirty pages of a set.
    pub(super) fn of_set(&self, set: u32) -> u32 {
        self.of_set[set as usize]
    }

    /// Returns true if a page is being written back.
    fn is_under_way(&self, row: Row, column: Column) -> bool {
        self.under_way.iter().any(|leaving| leaving.row == row && leaving.columns.contains(column))
    }

    /// A page has a version that is newer than its member's; whether it had none.
    pub(super) fn came(&mut self, row: Row, column: Column, set: u32) -> bool {
        // A page that is rewritten stays one dirty page, so overwriting costs no
        // room.
        let columns = self.rows.entry(row).or_default();
        if columns.contains(column) {
            return false;
        }
        columns.insert(column);
        self.pages += 1;
        self.of_set[set as usize] += 1;
        // The version that is being written back is the older one, so the page will
        // be dirty again afterwards.
        if !self.is_under_way(row, column) {
            self.stays(set);
        }
        true
    }

    /// Returns true if what was dirty when that was ordered is being written back.
    pub(super) const fn is_draining(&self) -> bool {
        self.draining
    }

    /// A member has the newest version of a page; whether it had not.
    pub(super) fn landed(&mut self, row: Row, column: Column, page: u64, set: u32) -> bool {
        let landed = self.passed(row, column, page, set);
        self.written_back += u64::from(landed);
        landed
    }

    /// Takes that a member has a newer version of a page than the cache. Returns true if the page was dirty.
    pub(super) fn passed(&mut self, row: Row, column: Column, page: u64, set: u32) -> bool {
        let Some(columns) = self.rows.get_mut(&row).filter(|columns| columns.contains(column)) else { return false };
        columns.remove(column);
        if columns.is_empty() {
            self.rows.remove(&row);
        }
        self.pages -= 1;
        self.of_set[set as usize] -= 1;
        // A stuck page was already taken out of the counts.
        let is_stuck = !self.stuck.is_empty() && self.stuck.remove(&page);
        if !is_stuck && !self.is_under_way(row, column) {
            self.goes(set);
        }
        true
    }

    /// All of them are lost; the pages.
    pub(super) fn lose(&mut self, geometry: &Geometry) -> Vec<u64> {
        let lost = self.rows.drain();
        let pages = |(row, columns): (Row, ColumnSet)| columns.iter().map(move |column| page_of(geometry, row, column));
        // The order in which the table yields its rows does not matter: whoever
        // takes the pages puts them into sets.
        let pages = lost.flat_map(pages).collect();
        self.stuck.clear();
        self.pages = 0;
        self.of_set.fill(0);
        self.left.fill(0);
        self.all_left = 0;
        pages
    }

    /// A request came.
    pub(super) const fn asked(&mut self, now: Nanos) {
        (self.asked, self.is_idle) = (now, false);
    }

    /// Notes that a run of writes passes the cache by, or soon will. For a while no more is written back than has to be: such
    /// writes keep the members busy, and overwrite what is dirty in their way.
    pub(super) fn give_way(&mut self, now: Nanos) {
        if now >= self.gives_way {
            // Random writes that came faster than members take them may have left more than `high` dirty already.
            self.most = self.pages.max(self.high) + self.high;
        }
        self.gives_way = now + self.idle;
    }

    /// Returns true if so much is dirty that a run is better off past the cache.
    pub(super) const fn is_crowded(&self) -> bool {
        self.pages > 2 * self.high
    }

    /// Orders all pages that are dirty now to be written back.
    pub(super) fn drain(&mut self, frames: &FrameTable) {
        // In the order of sets and of use, so that a drain takes the same course in
        // each run.
        self.urgent = (0..frames.sets()).flat_map(|set| frames.dirty_of(set)).collect();
        self.draining = true;
    }

    /// The timer has gone off.
    pub(super) fn timer(&mut self, out: &mut Out) {
        self.timer = false;
        // As in `behind.rs`: the timer is not moved with every request.
        self.is_idle = out.now() >= self.asked + self.idle;
    }

    /// Notes that an operation has ended. Returns true if it was to write pages back.
    pub(super) fn done(&mut self, op: OpId, frames: &FrameTable, geometry: &Geometry) -> bool {
        let Some(at) = self.under_way.iter().position(|leaving| leaving.op == op) else { return false };
        let LeavingRow { row, columns, .. } = self.under_way.swap_remove(at);
        for column in (columns & self.of_row(row)).iter() {
            if !self.stuck.contains(&page_of(geometry, row, column)) {
                self.stays(frames.set_of(row));
            }
        }
        true
    }

    /// Returns true if an operation writes pages back.
    pub(super) fn writes_back(&self, op: OpId) -> bool {
        self.under_way.iter().any(|leaving| leaving.op == op)
    }

    /// Begins what is due. A page that is `wanted` is about to be written again: that it is written back makes
    /// no room.
    pub(super) fn turn(
        &mut self,
        need: WriteBackNeed,
        wanted: impl Fn(u64) -> bool,
        frames: &FrameTable,
        geometry: &Geometry,
        array: &mut RaidArray,
        out: &mut Out,
    ) {
        while self.under_way.len() < self.at_once {
            let Some(page) = self.next(need, out.now(), &wanted, frames, geometry) else { break };
            let (row, column, _) = place(page, frames, geometry);
            if !self.stripes {
                self.begin(row, ColumnSet::one(column), frames, array, out);
                continue;
            }
            let (all, age) = (self.draining || self.is_idle || need.all, frames.age(page));
            for row in rows_around(row, geometry).iter() {
                // Of a row that is dirty from end to end nothing is read.
                let all = all || self.of_row(row) == geometry.data_set();
                let free = self.of_row(row).iter().filter(|column| {
                    let other = page_of(geometry, row, *column);
                    // One that is written often would be dirty again soon.
                    let is_cold = all || frames.age(other) >= age / 2;
                    self.can_go(other, frames, geometry) && (other == page || is_cold && !wanted(other))
                });
                let columns: ColumnSet = free.collect();
                if !columns.is_empty() {
                    self.begin(row, columns, frames, array, out);
                }
            }
        }
        // A drain also covers pages that bypassing writes have replaced, until the
        // log has dropped them.
        if self.draining && self.urgent.is_empty() && self.under_way.is_empty() && !need.has_passed {
            self.draining = false;
            out.drained();
        }
        if !self.timer && !self.is_idle && !self.rows.is_empty() {
            self.timer = true;
            out.timer(IDLE, self.asked + self.idle);
        }
    }

    /// Begins to write pages of a row back.
    fn begin(&mut self, row: Row, columns: ColumnSet, frames: &FrameTable, array: &mut RaidArray, out: &mut Out) {
        columns.iter().for_each(|_| self.goes(frames.set_of(row)));
        let op = array.open_write_back_of(row, columns, out);
        self.under_way.push(LeavingRow { op, row, columns });
    }

    /// There is nothing that can be written back.
    pub(super) fn give_up(&mut self, out: &mut Out) {
        // With too many members lost nothing more can be written, so the order ends
        // with what could be.
        self.urgent.clear();
        if self.draining && self.under_way.is_empty() {
            self.draining = false;
            out.drained();
        }
    }

    /// The next page to be written back, if one is to be.
    fn next(
        &mut self,
        need: WriteBackNeed,
        now: Nanos,
        wanted: &impl Fn(u64) -> bool,
        frames: &FrameTable,
        geometry: &Geometry,
    ) -> Option<u64> {
        while let Some(page) = self.urgent.pop_front() {
            if self.can_go(page, frames, geometry) {
                return Some(page);
            }
        }
        // A waiting write goes before the thresholds; only pages that nobody
        // rewrites make room for good.
        if let Some((set, pages)) = need.room {
            let in_set = |page: &u64| place(*page, frames, geometry).2 == set && !wanted(*page);
            let leaving = self
                .under_way
                .iter()
                .flat_map(|leaving| leaving.columns.iter().map(|column| page_of(geometry, leaving.row, column)));
            let leaving = leaving.filter(in_set).count() as u32;
            // Pages on their way out already are enough for what waits, so no more
            // are begun.
            if leaving < pages {
                let page = frames.dirty_of(set).find(|page| !wanted(*page) && self.can_go(*page, frames, geometry));
                if page.is_some() {
                    return page;
                }
            }
        }
        // No more are begun than if one were begun when the one before is done.
        let left = self.all_left;
        self.cleaning = if self.cleaning { self.pages > self.low } else { left > self.high };
        // Random write-backs would compete with the run for the members, and the
        // run overwrites some of the dirty pages itself.
        let gives_way = now < self.gives_way && self.pages <= self.most;
        if self.cleaning && left > self.low && !gives_way || self.is_idle || need.all {
            // The set with most dirty pages is the next one without room. Ties go
            // to the lowest number, which keeps runs reproducible.
            let (_, set) = self.left.iter().zip(0..).max_by_key(|(left, set)| (**left, Reverse(*set)))?;
            return frames.dirty_of(set).find(|page| self.can_go(*page, frames, geometry));
        }
        None
    }

    /// One more dirty page of a set is not being written back.
    fn stays(&mut self, set: u32) {
        self.left[set as usize] += 1;
        self.all_left += 1;
    }

    fn goes(&mut self, set: u32) {
        self.left[set as usize] -= 1;
        self.all_left -= 1;
    }

    /// Returns true if a page is dirty, can be written back, and is not being.
    fn can_go(&self, page: u64, frames: &FrameTable, geometry: &Geometry) -> bool {
        let (row, column, _) = place(page, frames, geometry);
        self.of_row(row).contains(column) && !self.is_under_way(row, column) && !self.stuck.contains(&page)
    }
}

/// Returns the rows of a row's stripe that are written back with it, that row among them.
fn rows_around(row: Row, geometry: &Geometry) -> Rows {
    let (_, in_chunk) = geometry.stripe_of(row);
    // Aligned groups of rows, so that neighbouring victims choose the same group.
    let before = in_chunk % STRIPE_ROWS;
    let rows = (geometry.chunk_pages() - (in_chunk - before)).min(STRIPE_ROWS);
    Rows::new(Row(row.0 - u64::from(before)), rows)
}

/// The row and the column of a page, and the set that it falls into.
pub(super) fn place(page: u64, frames: &FrameTable, geometry: &Geometry) -> (Row, Column, u32) {
    let place = geometry.locate(page);
    let row = geometry.row(place.stripe, place.row_in_chunk);
    (row, place.column, frames.set_of(row))
}
