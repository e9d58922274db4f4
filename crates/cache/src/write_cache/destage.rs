//! Destages pages: groups with their parity or into the lower layer, strips one by one or all members' together
//! (specs §8.1 to §8.5).

use destage_plan::{Dev, DevSet, OpId, Out, PutList, Step, StepSet, Stripe};
use destage_raid::array::RaidArray;

use super::places::of_group;
use super::store::{MemberPlace, VersionLayer};
use super::upper::ChosenGroup;
use super::{OperationJob, PageOwner, WriteCache, WriteCacheTask};
use crate::CacheOperations;
use crate::synchroniser::ReadyWrites;

/// Freed slots are worth an operation of their own.
// Slots are freed beside the next put, at no cost; an operation of its own pays
// only for many.
const FREES: usize = 64;

impl WriteCache {
    /// Decides what is destaged next (specs §8.10.7): the upper layer first, then the members in order.
    pub(super) fn destage(
        &mut self,
        array: &mut RaidArray,
        operations: &mut CacheOperations<WriteCacheTask>,
        out: &mut Out,
    ) {
        // A lower layer makes parity on the way, so its groups do not go to the
        // members and have nobody to wait for.
        if operations.synchroniser.is_some() && self.lower.is_none() {
            self.destage_together(array, operations, out);
        } else {
            while let Some(group) = self.next_group() {
                self.destage_group(ChosenGroup { group, members: DevSet::EMPTY }, array, operations, out);
            }
        }
        self.destage_strips(operations, out);
    }

    fn next_group(&mut self) -> Option<u64> {
        // A cache is full if a write waits for room, however little of it is held: the row may be larger than
        // what is left below the thresholds.
        // Thresholds only say when destaging pays. A write that waits, a clean stop
        // or a drain overrules them.
        let at_once = self.cleaning || self.drain.is_some() || !self.waiting.is_empty();
        let (group, sequential) = self.upper.as_mut().filter(|_| !self.broken)?.next(at_once)?;
        self.figures.sequential_destages += u64::from(sequential);
        Some(group)
    }

    /// Chooses groups, as many as may be under way, and destages all of them when the synchroniser
    /// has them.
    fn destage_together(
        &mut self,
        array: &mut RaidArray,
        operations: &mut CacheOperations<WriteCacheTask>,
        out: &mut Out,
    ) {
        let mut released = Vec::new();
        loop {
            while let Some(group) = self.next_group() {
                let members = self.members_of_group(group);
                self.upper.as_mut().expect("groups are its").choose(group, members);
            }
            let (Some(upper), Some(sync)) = (&mut self.upper, &mut operations.synchroniser) else { return };
            if self.broken {
                return;
            }
            let ready = upper.ready(self.geometry.member_set(), !self.waiting.is_empty());
            let at_once = self.cleaning || self.drain.is_some();
            // A stop or a drain waits for no member.
            if at_once {
                if ready.chosen.is_empty() {
                    return;
                }
            } else {
                let Some(release) = sync.releases(&ready, out) else { return };
                self.figures.released(release);
            }
            upper.take_ready(&mut released);
            for chosen in released.drain(..) {
                self.destage_group(chosen, array, operations, out);
            }
        }
    }

    /// The members that a group is written to.
    fn members_of_group(&self, group: u64) -> DevSet {
        let Some(upper) = &self.upper else { return DevSet::EMPTY };
        let parity = self.geometry.column_set() - self.geometry.data_set();
        let data = upper.dirty(group).map(|index| of_group(&self.geometry, group, index).1);
        // Parity is written with every group, so its member counts as written to as
        // well.
        parity.iter().chain(data).map(|column| self.geometry.device(Stripe(group), column)).collect()
    }

    fn destage_group(
        &mut self,
        chosen: ChosenGroup,
        array: &mut RaidArray,
        operations: &mut CacheOperations<WriteCacheTask>,
        out: &mut Out,
    ) {
        let ChosenGroup { group, members } = chosen;
        self.figures.destages += 1;
        self.requests += 1;
        let request = self.requests;
        // Destaging a group counts as one request: its own pages must not set the
        // recency bit of strips below.
        let mut indices = Vec::new();
        self.upper.as_mut().expect("groups are its").depart(group, &mut indices);
        let mut places: Vec<MemberPlace> =
            indices.into_iter().map(|index| of_group(&self.geometry, group, index)).collect();
        let mut parts = 0;
        // With parity each row is an operation, since its members and its parity
        // become consistent together.
        if self.has_parity() || self.lower.is_some() {
            for of_row in places.chunk_by(|a, b| a.0 == b.0) {
                let row = of_row[0].0;
                let op =
                    if self.lower.is_some() { array.open_absorb(row, out) } else { array.open_write_back(row, out) };
                self.set_job(op, OperationJob::Row { group, request });
                parts += 1;
            }
        } else {
            // Without parity a strip is contiguous on its member, so pages go in
            // the order of addresses as one write.
            places.sort_unstable_by_key(|(row, column)| (*column, *row));
            for strip in places.chunk_by(|a, b| a.1 == b.1) {
                self.write_directly(PageOwner::Group(group), VersionLayer::Upper, strip.to_vec(), operations, out);
                parts += 1;
            }
        }
        self.upper.as_mut().expect("groups are its").departed(group, parts, members);
    }

    /// One of the operations that destage a group is done.
    pub(super) fn part_of_group_done(&mut self, group: u64) {
        let Some(upper) = &mut self.upper else { return };
        let (store, geometry) = (&self.store, &self.geometry);
        // Asked of the store when the group lands: a page may have been rewritten
        // while its group was on its way.
        let is_held = |index| store.in_layer(of_group(geometry, group, index), VersionLayer::Upper).is_some();
        self.look_again |= upper.part_done(group, is_held);
    }

    fn destage_strips(&mut self, operations: &mut CacheOperations<WriteCacheTask>, out: &mut Out) {
        let at_once = self.cleaning || self.drain.is_some();
        let Some(lower) = &mut self.lower else { return };
        let is_due = operations.synchroniser.as_ref().is_some_and(|sync| sync.is_due(out.now()));
        // Every event comes here; without a change no member can have become ready.
        if !std::mem::take(&mut lower.changed) && !is_due && !at_once {
            return;
        }
        for member in &mut lower.members {
            // A member keeps its candidate until it goes, so the pointer of its
            // ring does not move while others are waited for.
            if member.candidate.is_none() && member.under_way.is_none() {
                member.candidate = member.pool.advance();
            }
        }
        // What is stored into a strip that is ready goes along, once it is there.
        let is_ready = |member: &super::MemberStrips| member.candidate.is_some_and(|strip| member.pool.can_go(strip));
        if let Some(sync) = operations.synchroniser.as_mut().filter(|_| !at_once) {
            let mut ready = ReadyWrites::default();
            for (dev, member) in (0..).map(Dev).zip(&lower.members) {
                let has = [is_ready(member), member.under_way.is_some(), member.pool.is_empty(), member.is_short];
                let sets = [&mut ready.chosen, &mut ready.busy, &mut ready.empty, &mut ready.short];
                sets.into_iter().zip(has).filter(|(_, has)| *has).for_each(|(set, _)| set.insert(dev));
            }
            let Some(release) = sync.releases(&ready, out) else { return };
            self.figures.released(release);
        }
        for dev in 0..lower.members.len() {
            let Some(lower) = &mut self.lower else { return };
            let member = &mut lower.members[dev];
            if !is_ready(member) {
                continue;
            }
            let strip = member.candidate.take().expect("what is ready is a candidate");
            member.under_way = Some(strip);
            let mut indices = Vec::new();
            member.pool.depart(strip, &mut indices);
            self.figures.destages += 1;
            let dev = Dev(dev as u8);
            let stripe = Stripe(strip);
            let column = self.geometry.column(stripe, dev);
            let places = indices.into_iter().map(|index| (self.geometry.row(stripe, index), column)).collect();
            self.write_directly(PageOwner::Strip(dev, strip), VersionLayer::Lower, places, operations, out);
        }
    }

    /// Opens the operation that writes pages of one member as they are.
    fn write_directly(
        &mut self,
        owner: PageOwner,
        layer: VersionLayer,
        places: Vec<MemberPlace>,
        operations: &mut CacheOperations<WriteCacheTask>,
        out: &mut Out,
    ) {
        let op = operations.open_own(None, WriteCacheTask::Direct, out);
        self.set_job(op, OperationJob::Direct { owner, layer, places });
    }

    pub(super) fn plan_direct(&mut self, op: OpId, array: &mut RaidArray, out: &mut Out) {
        // Nothing is dropped for a loss that the next life does not know of.
        if !array.is_noted(op) {
            return;
        }
        let Some(OperationJob::Direct { layer, places, .. }) = self.job(op) else { unreachable!("it writes pages") };
        let layer = *layer;
        // Pages that were superseded since they were chosen have no version here
        // any more.
        let found: Vec<_> =
            places.iter().filter_map(|place| Some((*place, self.store.in_layer(*place, layer)?))).collect();
        let Some(&((first, column), _)) = found.first() else { return out.close(op) };
        let dev = self.geometry.device(self.geometry.stripe_of(first).0, column);
        // Pinned until the write ends. Its slots must not be freed, or reused,
        // below it.
        for (_, slot) in &found {
            self.store.pin(op, *slot);
        }
        // Of a lost member parity tells what is in the lower layer.
        if !array.is_lost(dev) {
            // Runs of neighbouring rows share a command, since a strip is
            // contiguous on its member.
            for run in found.chunk_by(|a, b| a.0.0.0 + 1 == b.0.0.0) {
                let slots: Vec<_> = run.iter().map(|(_, slot)| *slot).collect();
                array.write_slots(op, run[0].0.0, column, &slots, out);
            }
        }
        out.close(op);
    }

    pub(super) fn direct_done(&mut self, op: OpId, owner: PageOwner, layer: VersionLayer, places: &[MemberPlace]) {
        // Only the version that was written counts as on the member; a newer one
        // has another slot.
        for place in places {
            if let Some(slot) = self.store.pinned(op, *place, layer) {
                self.on_member(*place, slot);
            }
        }
        match owner {
            PageOwner::Group(group) => self.part_of_group_done(group),
            PageOwner::Strip(dev, strip) => {
                let Some(lower) = &mut self.lower else { return };
                let member = &mut lower.members[dev.index()];
                member.under_way = None;
                let (store, geometry) = (&self.store, &self.geometry);
                let stripe = Stripe(strip);
                let column = geometry.column(stripe, dev);
                let is_left = lower.pool_mut(dev).landed(strip, false, |index| {
                    store.in_layer((geometry.row(stripe, index), column), VersionLayer::Lower).is_some()
                });
                if is_left {
                    self.entering.ease();
                }
            }
        }
    }

    /// Frees slots of versions that are of no use any more, if nothing else will soon, or they are needed.
    pub(super) fn free(&mut self, operations: &mut CacheOperations<WriteCacheTask>, out: &mut Out) {
        // An entering page that waits for a slot, or a row whose intent waits,
        // makes freeing urgent.
        let is_full = !self.entering.is_empty() || self.store.dead() >= FREES;
        let wanted = self.cleaning || is_full || !self.outdated.is_empty();
        // One commit at a time: the next one frees what has died meanwhile.
        if !wanted || !self.store.has_dead() || self.is_freeing {
            return;
        }
        let mut slots = Vec::new();
        self.store.take_freeable(&mut slots);
        if !slots.is_empty() {
            let op = operations.open_own(None, WriteCacheTask::Free, out);
            self.set_job(op, OperationJob::Free(slots));
            self.is_freeing = true;
        }
    }

    pub(super) fn plan_free(&mut self, op: OpId, out: &mut Out) {
        let Some(OperationJob::Free(slots)) = self.job(op) else { unreachable!("it frees slots") };
        let frees = out.slots(op, slots);
        out.step(op, Step::NvCommit { puts: PutList::EMPTY, frees }, StepSet::EMPTY);
        out.close(op);
    }
}
