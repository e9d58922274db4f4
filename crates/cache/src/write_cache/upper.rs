//! The upper layer: data by groups, of which the parity knows nothing. How much there is, and which
//! group goes next (specs §8.1, §8.2).

use destage_plan::{Dev, DevSet, Frag};

use super::pool::{PagePool, RecencyRule};
use super::stow::StowRings;
use super::streams::WriteStreams;
use super::threshold::DestageThreshold;
use crate::synchroniser::ReadyWrites;

/// Groups of a run that are destaged at a time below the threshold, if so many may be at all.
const OF_A_RUN: u32 = 4;

/// Lets WOW go on with runs of sequential writes.
#[derive(Debug)]
struct RunRules {
    streams: WriteStreams,
    /// The group that was destaged last was written sequentially, and so was whatever could have
    /// been since.
    goes_on: bool,
}

impl RunRules {
    /// Groups that may be under way since they are of a run.
    fn allowed(&mut self, pool: &PagePool, under_way: usize, most: u32) -> u32 {
        // Only asked while something may go: a look at later ones moves no pointer, but it
        // costs a search.
        if self.goes_on && under_way < most as usize {
            self.goes_on = pool.next().is_none_or(|group| pool.is_sequential(group));
        }
        if self.goes_on { most } else { 0 }
    }
}

/// Decides how sequential writes are treated.
#[derive(Debug)]
enum SequentialRule {
    /// Treats them as others.
    Ignored,
    /// Tells sequential writes apart, in one ring with the others.
    Told(RunRules),
    /// They have a ring of their own.
    Apart(Box<StowRings>),
}

/// A request that is let in.
#[derive(Clone, Copy, Debug)]
pub(super) struct EnteringRequest {
    /// Is its number.
    pub(super) number: u64,
    /// Is true if it goes on where an earlier one ended.
    pub(super) sequential: bool,
}

/// A group that is destaged with others.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChosenGroup {
    pub(super) group: u64,
    /// Those that it is written to.
    pub(super) members: DevSet,
}

/// A group that is being destaged.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    group: u64,
    /// Operations that are left.
    parts: u32,
    /// Those that it is written to, if it was chosen.
    members: DevSet,
    /// A row of it cannot be written: too much of it is lost.
    gave_up: bool,
}

/// The upper layer.
#[derive(Debug)]
pub(super) struct UpperLayer {
    /// All groups, or those that are in no other ring.
    pool: PagePool,
    threshold: DestageThreshold,
    /// Groups that go when the synchroniser has them.
    chosen: Vec<ChosenGroup>,
    /// Groups that are being destaged.
    under_way: Vec<UnderWay>,
    sequential: SequentialRule,
}

impl UpperLayer {
    pub(super) fn new(pages: u64, threshold: DestageThreshold) -> Self {
        Self {
            pool: PagePool::new(pages, RecencyRule::Hit),
            threshold,
            chosen: Vec::new(),
            under_way: Vec::new(),
            sequential: SequentialRule::Ignored,
        }
    }

    /// Tells sequential writes from others.
    pub(super) fn with_runs(self, streams: WriteStreams) -> Self {
        Self { sequential: SequentialRule::Told(RunRules { streams, goes_on: false }), ..self }
    }

    /// Keeps sequential writes apart.
    pub(super) fn with_rings(self, rings: StowRings) -> Self {
        Self { sequential: SequentialRule::Apart(Box::new(rings)), ..self }
    }

    /// A write comes; whether it is sequential.
    pub(super) fn is_sequential(&mut self, frag: &Frag) -> bool {
        match &mut self.sequential {
            SequentialRule::Ignored => false,
            SequentialRule::Told(runs) => runs.streams.note(frag.page, frag.pages.into(), frag.sectors.is_some()) > 0,
            SequentialRule::Apart(rings) => rings.is_sequential(frag, &mut self.pool),
        }
    }

    fn pools(&self) -> impl Iterator<Item = &PagePool> {
        // A group is in exactly one ring, so both together are the layer.
        let apart = match &self.sequential {
            SequentialRule::Apart(rings) => Some(rings.pool()),
            _ => None,
        };
        std::iter::once(&self.pool).chain(apart)
    }

    fn pools_mut(&mut self) -> impl Iterator<Item = &mut PagePool> {
        let apart = match &mut self.sequential {
            SequentialRule::Apart(rings) => Some(rings.pool_mut()),
            _ => None,
        };
        std::iter::once(&mut self.pool).chain(apart)
    }

    /// Returns the pool of a group.
    fn of(&self, group: u64) -> &PagePool {
        match &self.sequential {
            SequentialRule::Apart(rings) => rings.with(group).unwrap_or(&self.pool),
            _ => &self.pool,
        }
    }

    fn of_mut(&mut self, group: u64) -> &mut PagePool {
        match &mut self.sequential {
            SequentialRule::Apart(rings) => rings.with_mut(group).unwrap_or(&mut self.pool),
            _ => &mut self.pool,
        }
    }

    /// Pages that it can hold.
    pub(super) const fn capacity(&self) -> u64 {
        self.pool.capacity()
    }

    /// Pages that there is room for.
    pub(super) const fn free(&self) -> u64 {
        match &self.sequential {
            // Both rings share the capacity; the border between them is a target
            // and no partition.
            SequentialRule::Apart(rings) => self.pool.free().saturating_sub(rings.held()),
            _ => self.pool.free(),
        }
    }

    /// As [`PagePool::has`].
    pub(super) fn has(&self, group: u64, index: u32) -> bool {
        self.of(group).has(group, index)
    }

    /// As [`PagePool::takes_room`].
    pub(super) fn takes_room(&self, group: u64, index: u32) -> bool {
        self.of(group).takes_room(group, index)
    }

    /// As [`PagePool::admit`].
    pub(super) fn admit(&mut self, group: u64, index: u32, request: EnteringRequest) -> bool {
        match &mut self.sequential {
            SequentialRule::Apart(rings) => rings.admit(group, index, request, &mut self.pool),
            _ => self.pool.admit(group, index, request.number, request.sequential),
        }
    }

    /// As [`PagePool::load`].
    pub(super) fn load(&mut self, group: u64, index: u32) {
        self.of_mut(group).load(group, index);
    }

    /// As [`PagePool::came`].
    pub(super) fn came(&mut self, group: u64, index: u32) {
        self.of_mut(group).came(group, index);
    }

    /// As [`PagePool::take_back`].
    pub(super) fn take_back(&mut self, group: u64, index: u32, is_held: bool) {
        self.of_mut(group).take_back(group, index, is_held);
    }

    /// As [`PagePool::gone`].
    pub(super) fn gone(&mut self, group: u64, index: u32) {
        self.of_mut(group).gone(group, index);
    }

    /// The group that is destaged now, if one is: as many at a time as the threshold has it, or may
    /// be if it does not matter. Whether it is of the sequential ring.
    pub(super) fn next(&mut self, at_once: bool) -> Option<(u64, bool)> {
        let Self { pool, threshold, chosen, under_way, sequential } = self;
        // Chosen groups count as under way, since they will go as soon as the
        // synchroniser has them.
        let under_way = under_way.len() + chosen.len();
        if let SequentialRule::Apart(rings) = sequential {
            return rings.next(pool, threshold, under_way, at_once);
        }
        let mut allowed = if at_once { threshold.most } else { threshold.allowed(pool.held(), pool.capacity()) };
        // Below the threshold only a run goes on (specs §8.2).
        if allowed == 0
            && let SequentialRule::Told(runs) = sequential
        {
            allowed = runs.allowed(pool, under_way, threshold.most.min(OF_A_RUN));
        }
        if under_way >= allowed as usize {
            return None;
        }
        let group = pool.advance()?;
        if let SequentialRule::Told(runs) = sequential {
            runs.goes_on = pool.is_sequential(group);
        }
        Some((group, false))
    }

    /// The group is being destaged: its pages are under way, and appended.
    pub(super) fn depart(&mut self, group: u64, indices: &mut Vec<u32>) {
        self.of_mut(group).depart(group, indices);
    }

    /// So many operations destage the group, those of these members if that matters.
    pub(super) fn departed(&mut self, group: u64, parts: u32, members: DevSet) {
        self.under_way.push(UnderWay { group, parts, members, gave_up: false });
    }

    /// The pages of a group that would be destaged now.
    pub(super) fn dirty(&self, group: u64) -> impl Iterator<Item = u32> {
        self.of(group).dirty(group)
    }

    /// The group goes when others do, to these members.
    pub(super) fn choose(&mut self, group: u64, members: DevSet) {
        self.of_mut(group).choose(group);
        self.chosen.push(ChosenGroup { group, members });
    }

    /// Returns true if groups were chosen to go with others.
    pub(super) const fn has_chosen(&self) -> bool {
        !self.chosen.is_empty()
    }

    /// A page for this member has come into a group; if that was chosen, it goes along.
    pub(super) fn joins(&mut self, group: u64, member: Dev) {
        // The group's members were computed when it was chosen; a page for another
        // member joins late.
        if let Some(chosen) = self.chosen.iter_mut().find(|chosen| chosen.group == group) {
            chosen.members.insert(member);
        }
    }

    /// Returns the chosen groups' members for the synchroniser. `waits` is true if a write waits for room, for
    /// which all of it is needed.
    pub(super) fn ready(&self, members: DevSet, waits: bool) -> ReadyWrites {
        // What is in the NVRAM leaves a group by being destaged alone.
        debug_assert!(self.chosen.iter().all(|chosen| self.of(chosen.group).is_chosen(chosen.group)));
        let can_go = self.chosen.iter().filter(|chosen| self.of(chosen.group).can_go(chosen.group));
        let chosen = can_go.fold(DevSet::EMPTY, |all, chosen| all | chosen.members);
        let busy = self.under_way.iter().fold(DevSet::EMPTY, |all, group| all | group.members);
        // Whatever may be chosen is: for the other members there is nothing that could go along.
        // A write that waits needs room in the layer as a whole, so all members are
        // short.
        ReadyWrites { chosen, busy, empty: members - chosen - busy, short: if waits { members } else { DevSet::EMPTY } }
    }

    /// Takes what is chosen and can go.
    pub(super) fn take_ready(&mut self, ready: &mut Vec<ChosenGroup>) {
        let mut all = std::mem::take(&mut self.chosen);
        ready.extend(all.extract_if(.., |chosen| self.of(chosen.group).can_go(chosen.group)));
        self.chosen = all;
    }

    /// One of the operations that destage a group is done; whether it was the last. `is_held` is
    /// that of [`PagePool::landed`].
    pub(super) fn part_done(&mut self, group: u64, is_held: impl Fn(u32) -> bool) -> bool {
        let Some(at) = self.under_way.iter().position(|other| other.group == group) else { return false };
        self.under_way[at].parts -= 1;
        if self.under_way[at].parts > 0 {
            return false;
        }
        let UnderWay { gave_up, .. } = self.under_way.swap_remove(at);
        // The group lands with its last operation. Until then its pages are under
        // way as a whole.
        self.of_mut(group).landed(group, gave_up, is_held);
        true
    }

    /// A row of a group that is being destaged cannot be written.
    pub(super) fn give_up(&mut self, group: u64) {
        // Noted on the way and used when the group lands: other rows of it may
        // still succeed.
        self.under_way.iter_mut().filter(|other| other.group == group).for_each(|other| other.gave_up = true);
    }

    /// Has all groups that could not be written tried again, once.
    pub(super) fn try_again(&mut self) {
        self.pools_mut().for_each(PagePool::try_again);
    }

    /// Returns true if a group waits because it could not be written.
    pub(super) fn is_parked(&self, group: u64) -> bool {
        self.of(group).is_parked(group)
    }

    /// Counts the groups that wait, since they could not be written.
    pub(super) fn parked(&self) -> usize {
        self.pools().map(PagePool::parked).sum()
    }

    /// Returns true if all groups wait because they could not be written.
    pub(super) fn has_only_parked(&self) -> bool {
        self.pools().all(PagePool::has_only_parked)
    }
}
