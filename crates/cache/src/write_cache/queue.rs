//! Pages that wait for room, in the order of waiting: in overload there are hundreds of thousands, and most
//! of what happens makes room for none of them. So a look costs what enters, and not what waits.
//!
//! Rows whose pages all take room lack it for the same members if they go to the same ones: they wait in
//! one line for each set of members, of which the first alone counts. A claim keeps their pages from being
//! let in by others meanwhile, so that they go on taking room. The few others are looked at one by one.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use destage_plan::{DevSet, OpId};
use destage_raid::MAX_DEVICES;

use super::enter::EnteringPages;

/// Rows that go to the same members, in the order of waiting.
#[derive(Debug)]
struct RowQueue {
    members: DevSet,
    rows: VecDeque<(u64, EnteringPages)>,
}

/// Identifies the place where the pages of an operation wait.
#[derive(Clone, Copy, Debug)]
struct QueuePosition {
    order: u64,
    /// The members of its line; none if it has none.
    line: DevSet,
}

/// Pages that wait for room or slots.
#[derive(Debug)]
pub(super) struct WaitQueue {
    lines: Vec<RowQueue>,
    singles: BTreeMap<u64, EnteringPages>,
    /// By number of the operation.
    places: Vec<Option<QueuePosition>>,
    len: usize,
    /// The order of the last.
    last: u64,
    /// Records, from the last look, how often each member's pool had changed; the next field records the slots.
    changes: [u64; MAX_DEVICES],
    slots: u32,
    /// Some have not been looked at.
    fresh: bool,
    spare: Vec<VecDeque<(u64, EnteringPages)>>,
}

impl WaitQueue {
    pub(super) const fn new() -> Self {
        Self {
            lines: Vec::new(),
            singles: BTreeMap::new(),
            places: Vec::new(),
            len: 0,
            last: 0,
            changes: [0; MAX_DEVICES],
            slots: 0,
            fresh: false,
            spare: Vec::new(),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Pages wait: those of one row that take room in all of `members`, a page in each, or others, if there
    /// are none.
    pub(super) fn push(&mut self, pages: &EnteringPages, members: DevSet) {
        self.last += 1;
        self.len += 1;
        self.fresh = true;
        let order = self.last;
        if members.is_empty() {
            self.singles.insert(order, *pages);
        } else if let Some(line) = self.lines.iter_mut().find(|line| line.members == members) {
            line.rows.push_back((order, *pages));
        } else {
            let mut rows = self.spare.pop().unwrap_or_default();
            rows.push_back((order, *pages));
            self.lines.push(RowQueue { members, rows });
        }
        let op = pages.op.index();
        if self.places.len() <= op {
            // Found by operation, because any of them may be dropped when its plan
            // is.
            self.places.resize(op + 1, None);
        }
        debug_assert!(self.places[op].is_none(), "an operation waits once");
        self.places[op] = Some(QueuePosition { order, line: members });
    }

    /// Returns true if something has changed since the last look that may make room.
    pub(super) fn changed(&mut self, pools: impl Iterator<Item = u64>, slots: u32) -> bool {
        // Everything is recorded at each look, also what does not change the
        // answer, so the next look compares with this one.
        let mut changed = std::mem::take(&mut self.fresh);
        changed |= std::mem::replace(&mut self.slots, slots) != slots;
        for (seen, now) in self.changes.iter_mut().zip(pools) {
            changed |= std::mem::replace(seen, now) != now;
        }
        changed
    }

    /// The next pages after this place in the order that may have room, if these members have none and there
    /// are so many slots.
    pub(super) fn next(&self, after: u64, full: DevSet, slots: u32) -> Option<(u64, &EnteringPages)> {
        let single = self.singles.range((Excluded(after), Unbounded)).next().map(|(order, pages)| (*order, pages));
        // A line whose first does not fit stands for all of it: its rows need room
        // in the same members.
        let lines = self.lines.iter().filter(|line| !line.members.meets(full) && line.members.len() <= slots);
        let first = lines.filter_map(|line| line.rows.front()).map(|(order, pages)| (*order, pages));
        first.filter(|(order, _)| *order > after).chain(single).min_by_key(|(order, _)| *order)
    }

    /// The members that those in lines go to.
    pub(super) fn members(&self) -> DevSet {
        self.lines.iter().fold(DevSet::EMPTY, |all, line| all | line.members)
    }

    /// Those that are in no line, in the order of waiting.
    pub(super) fn singles(&self) -> impl Iterator<Item = &EnteringPages> {
        self.singles.values()
    }

    /// The pages of the operation wait no longer: they enter, the operation is planned anew, or is no more.
    pub(super) fn remove(&mut self, op: OpId) {
        let Some(QueuePosition { order, line }) = self.places.get_mut(op.index()).and_then(Option::take) else {
            return;
        };
        self.len -= 1;
        if line.is_empty() {
            self.singles.remove(&order);
            return;
        }
        let at = self.lines.iter().position(|other| other.members == line).expect("it waits in its line");
        let rows = &mut self.lines[at].rows;
        // A line is sorted by order, since rows are only appended.
        let place = rows.binary_search_by_key(&order, |row| row.0).expect("it waits in its line");
        rows.remove(place);
        if rows.is_empty() {
            // Queues are used again; overload makes and empties them all the time.
            self.spare.push(self.lines.swap_remove(at).rows);
        }
    }
}
