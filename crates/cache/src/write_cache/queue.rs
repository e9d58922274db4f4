//! Queues pages that wait for room, in the order of waiting: in overload there are hundreds of thousands, and most of what
//! happens makes room for none of them. So a look costs what enters, and not what waits.
//!
//! Pages that lack room in the same members, and as many slots, wait in one queue: while one of these members is full, or the
//! slots are too few, none of the queue is looked at. A claim keeps their pages from being let in by others meanwhile, so that
//! what takes room goes on taking it; what takes none may take some later, and is moved when it is found to.

use std::collections::VecDeque;

use destage_plan::{DevSet, OpId};
use destage_raid::MAX_DEVICES;

use super::enter::EnteringPages;

/// Says what waiting pages lack at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoomNeeds {
    /// Lists the members in whose caches they take a page each.
    pub(super) members: DevSet,
    /// Lists the members where they overwrite a page that is held, which takes room only once that one is under way.
    pub(super) overwritten: DevSet,
    /// Counts the slots that have to be free.
    pub(super) slots: u32,
}

impl RoomNeeds {
    /// Returns true if there may be room while these members have none and so many slots are free.
    pub(super) const fn may_be_met(&self, full: DevSet, slots: u32) -> bool {
        !self.members.meets(full) && self.slots <= slots
    }
}

/// Pages with the same needs, in the order of waiting.
#[derive(Debug)]
struct RoomQueue {
    needs: RoomNeeds,
    waiting: VecDeque<(u64, EnteringPages)>,
}

/// Pages that wait for room or slots.
#[derive(Debug)]
pub(super) struct WaitQueue {
    /// Lists those that hold something.
    queues: Vec<RoomQueue>,
    /// By number of the operation: its place in the order, and the needs of its queue.
    places: Vec<Option<(u64, RoomNeeds)>>,
    len: usize,
    /// The order of the last.
    last: u64,
    /// Records, from the last look, how often each member's pool had changed; the next field records the slots.
    changes: [u64; MAX_DEVICES],
    slots: u32,
    /// Some have not been looked at.
    fresh: bool,
    /// Needs may have become fewer.
    eased: bool,
    spare: Vec<VecDeque<(u64, EnteringPages)>>,
}

impl WaitQueue {
    pub(super) const fn new() -> Self {
        Self {
            queues: Vec::new(),
            places: Vec::new(),
            len: 0,
            last: 0,
            changes: [0; MAX_DEVICES],
            slots: 0,
            fresh: false,
            eased: false,
            spare: Vec::new(),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Has pages wait that need this.
    pub(super) fn push(&mut self, pages: &EnteringPages, needs: RoomNeeds) {
        self.last += 1;
        self.insert(self.last, pages, needs);
    }

    fn insert(&mut self, order: u64, pages: &EnteringPages, needs: RoomNeeds) {
        self.len += 1;
        self.fresh = true;
        let at = self.queues.iter().position(|queue| queue.needs == needs).unwrap_or_else(|| {
            self.queues.push(RoomQueue { needs, waiting: self.spare.pop().unwrap_or_default() });
            self.queues.len() - 1
        });
        let waiting = &mut self.queues[at].waiting;
        // Nearly always the last: the order grows, but pages that are moved keep theirs.
        let place = waiting.partition_point(|(other, _)| *other < order);
        waiting.insert(place, (order, *pages));
        let op = pages.op.index();
        if self.places.len() <= op {
            // Found by operation, because any of them may be dropped when its plan
            // is.
            self.places.resize(op + 1, None);
        }
        debug_assert!(self.places[op].is_none(), "an operation waits once");
        self.places[op] = Some((order, needs));
    }

    /// Says that what took room before may take none any more.
    pub(super) const fn ease(&mut self) {
        self.eased = true;
    }

    /// Returns all, if the needs of any may have become fewer since the last call.
    pub(super) fn take_eased(&mut self) -> Vec<EnteringPages> {
        if !std::mem::take(&mut self.eased) {
            return Vec::new();
        }
        self.queues.iter().flat_map(|queue| &queue.waiting).map(|(_, pages)| *pages).collect()
    }

    /// Has pages that wait already do so, at their place in the order, with other needs.
    pub(super) fn change(&mut self, pages: &EnteringPages, needs: RoomNeeds) {
        let Some((order, before)) = self.places.get(pages.op.index()).copied().flatten() else { return };
        if before != needs {
            self.remove(pages.op);
            self.insert(order, pages, needs);
        }
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

    /// Returns the next pages after this place in the order that may have room, if these members have none and there
    /// are so many slots.
    pub(super) fn next(&self, after: u64, full: DevSet, slots: u32) -> Option<(u64, &EnteringPages)> {
        // The first of a queue stands for all of it. If it was looked at already it has no room, nor have they.
        let queues = self.queues.iter().filter(|queue| queue.needs.may_be_met(full, slots));
        let first = queues.filter_map(|queue| queue.waiting.front()).filter(|(order, _)| *order > after);
        first.map(|(order, pages)| (*order, pages)).min_by_key(|(order, _)| *order)
    }

    /// Returns the members that any of them take room in.
    pub(super) fn members(&self) -> DevSet {
        self.queues.iter().fold(DevSet::EMPTY, |all, queue| all | queue.needs.members)
    }

    /// Returns those that wait with each needs, in the order of waiting.
    pub(super) fn by_needs(&self) -> impl Iterator<Item = (&RoomNeeds, impl Iterator<Item = &EnteringPages>)> {
        self.queues.iter().map(|queue| (&queue.needs, queue.waiting.iter().map(|(_, pages)| pages)))
    }

    /// The pages of the operation wait no longer: they enter, the operation is planned anew, or is no more.
    pub(super) fn remove(&mut self, op: OpId) {
        let Some((order, needs)) = self.places.get_mut(op.index()).and_then(Option::take) else { return };
        self.len -= 1;
        let at = self.queues.iter().position(|queue| queue.needs == needs).expect("it waits in its queue");
        let waiting = &mut self.queues[at].waiting;
        // A queue is sorted by order.
        let place = waiting.binary_search_by_key(&order, |entry| entry.0).expect("it waits in its queue");
        waiting.remove(place);
        if waiting.is_empty() {
            // Their memory is used again; overload makes and empties them all the time.
            self.spare.push(self.queues.swap_remove(at).waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use destage_plan::Dev;
    use proptest::prelude::*;

    use super::*;

    /// Names what happens to waiting pages.
    #[derive(Clone, Debug)]
    enum WaitEvent {
        Push(RoomNeeds),
        /// Has those at a place of the order removed.
        Remove(usize),
        /// Has those at a place of the order need something else.
        Change(usize, RoomNeeds),
        /// Has all looked at that may have room.
        Look(DevSet, u32),
    }

    fn members() -> impl Strategy<Value = DevSet> {
        proptest::collection::vec(0..3_u8, 0..3).prop_map(|members| members.into_iter().map(Dev).collect())
    }

    fn needs() -> impl Strategy<Value = RoomNeeds> {
        let slots = 0..4_u32;
        (members(), members(), slots).prop_map(|(members, overwritten, slots)| RoomNeeds {
            members,
            overwritten: overwritten - members,
            slots,
        })
    }

    fn event() -> impl Strategy<Value = WaitEvent> {
        prop_oneof![
            3 => needs().prop_map(WaitEvent::Push),
            1 => any::<usize>().prop_map(WaitEvent::Remove),
            1 => (any::<usize>(), needs()).prop_map(|(at, needs)| WaitEvent::Change(at, needs)),
            2 => (members(), 0..4_u32).prop_map(|(full, slots)| WaitEvent::Look(full, slots)),
        ]
    }

    proptest! {
        /// Beside a list that is looked at from its beginning: whatever may have room is found, in the order of waiting.
        #[test]
        fn what_may_have_room_is_found_in_the_order_of_waiting(events in proptest::collection::vec(event(), 1..80)) {
            let (mut queue, mut list) = (WaitQueue::new(), Vec::<(OpId, RoomNeeds)>::new());
            for (number, event) in (0..).zip(events) {
                match event {
                    WaitEvent::Push(needs) => {
                        let op = OpId(number);
                        queue.push(&EnteringPages::none_of(op), needs);
                        list.push((op, needs));
                    }
                    WaitEvent::Remove(at) if !list.is_empty() => {
                        let (op, _) = list.remove(at % list.len());
                        queue.remove(op);
                        queue.remove(op);
                    }
                    WaitEvent::Change(at, needs) if !list.is_empty() => {
                        let at = at % list.len();
                        list[at].1 = needs;
                        queue.change(&EnteringPages::none_of(list[at].0), needs);
                    }
                    WaitEvent::Look(full, slots) => {
                        let (mut after, mut found) = (0, Vec::new());
                        while let Some((order, pages)) = queue.next(after, full, slots) {
                            let op = pages.op;
                            after = order;
                            found.push(op);
                            queue.remove(op);
                        }
                        let fits = |(_, needs): &(OpId, RoomNeeds)| needs.may_be_met(full, slots);
                        let expected: Vec<_> = list.iter().filter(|entry| fits(entry)).map(|(op, _)| *op).collect();
                        list.retain(|entry| !fits(entry));
                        prop_assert_eq!(found, expected);
                    }
                    WaitEvent::Remove(_) | WaitEvent::Change(..) => {}
                }
                prop_assert_eq!(queue.is_empty(), list.is_empty());
                queue.ease();
                let mut all: Vec<_> = queue.take_eased().iter().map(|pages| pages.op).collect();
                all.sort_unstable();
                prop_assert_eq!(all, list.iter().map(|(op, _)| *op).collect::<Vec<_>>());
                prop_assert!(queue.take_eased().is_empty(), "once");
                let by_needs: usize = queue.by_needs().map(|(_, waiting)| waiting.count()).sum();
                prop_assert_eq!(by_needs, list.len());
            }
        }
    }
}
