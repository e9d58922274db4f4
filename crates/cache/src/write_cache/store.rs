//! The versions of pages that are in the NVRAM, in two layers.
//!
//! * A version of the *lower* layer is one that the parity covers, wherever the newest parity is; the
//!   parity itself can be in this layer.
//! * A version of the *upper* layer is newer than what the parity covers, and newer than what the lower
//!   layer has of its page.
//!
//! A version that is superseded or on its member is dead. Dead ones are freed in the order of their
//! making, page by page: if a newer one went first, a cut would make the older one the newest again.

use std::collections::BTreeSet;

use destage_plan::{Column, ColumnSet, NvHeld, NvSlot, OpId, Row, Rows, Tag};
use destage_raid::array::{RaidArray, RowSources, VersionSource};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// A page of a member.
pub(super) type MemberPlace = (Row, Column);

/// Names the layer of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum VersionLayer {
    Upper,
    Lower,
}

const VERSION: u8 = 1;
const KIND: u8 = RaidArray::kind_above(0);

/// The tag of a version: format, kind, column, layer; row; sequence.
pub(super) fn tag((row, column): MemberPlace, layer: VersionLayer, seq: u64) -> Tag {
    let mut tag = [0; 24];
    (tag[0], tag[1], tag[2], tag[3]) = (VERSION, KIND, column.0, layer as u8);
    tag[8..16].copy_from_slice(&row.0.to_le_bytes());
    tag[16..24].copy_from_slice(&seq.to_le_bytes());
    tag
}

fn read_tag(tag: &Tag) -> Option<(MemberPlace, VersionLayer, u64)> {
    let u64_at = |at: usize| u64::from_le_bytes(tag[at..at + 8].try_into().expect("eight bytes"));
    let layer = match tag[3] {
        0 => VersionLayer::Upper,
        1 => VersionLayer::Lower,
        _ => return None,
    };
    // Unused bytes must be zero, so that a later format is refused instead of
    // misread.
    let known = tag[0] == VERSION && tag[1] == KIND && tag[4..8] == [0; 4];
    known.then(|| ((Row(u64_at(8)), Column(tag[2])), layer, u64_at(16)))
}

#[derive(Clone, Copy, Debug)]
struct StoredVersion {
    slot: NvSlot,
    place: MemberPlace,
    layer: VersionLayer,
    seq: u64,
    /// Operations that use its bytes.
    pins: u32,
    dead: bool,
    /// The next of its page, by sequence.
    newer: Option<u32>,
}

/// Holds the numbers of the slots with versions of a page.
#[derive(Clone, Copy, Debug, Default)]
struct PageSlots {
    oldest: Option<u32>,
    upper: Option<u32>,
    lower: Option<u32>,
}

/// A version that is being put.
#[derive(Clone, Copy, Debug)]
struct PendingPut {
    op: OpId,
    slot: NvSlot,
    place: MemberPlace,
    layer: VersionLayer,
    seq: u64,
    /// The version of the upper layer that it is a copy of.
    copy_of: Option<NvSlot>,
}

/// The versions.
pub(super) struct VersionStore {
    columns: usize,
    /// By number of the slot.
    versions: Vec<Option<StoredVersion>>,
    /// Holds the position of a row's pages in `held`, if it has any.
    rows: HashMap<Row, u32, FixedState>,
    held: Vec<PageSlots>,
    present: Vec<ColumnSet>,
    spare: Vec<u32>,
    putting: Vec<PendingPut>,
    pinned: Vec<Vec<NvSlot>>,
    /// Dead, and not freed so far.
    dead: Vec<u32>,
    /// Holds what an earlier life left.
    loaded: Vec<LoadedVersion>,
    /// Lists damaged versions, which stay until [`end_damaged`](Self::end_damaged).
    damaged: Vec<u32>,
    seq: u64,
}

/// Holds what the NVRAM says of a version that an earlier life left.
#[derive(Clone, Copy, Debug)]
struct LoadedVersion {
    seq: u64,
    layer: VersionLayer,
    place: MemberPlace,
    slot: NvSlot,
    is_damaged: bool,
}

/// Lists what is lost with versions whose bytes are damaged.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DamagedVersions {
    /// Lists the pages whose newest version is lost, ascending.
    pub(super) lost: Vec<MemberPlace>,
    /// Lists the rows whose parity covers, or was, a version that is lost, ascending.
    pub(super) rows: Vec<Row>,
}

impl VersionStore {
    pub(super) fn new(columns: u8) -> Self {
        Self {
            columns: usize::from(columns),
            versions: Vec::new(),
            rows: HashMap::default(),
            held: Vec::new(),
            present: Vec::new(),
            spare: Vec::new(),
            putting: Vec::new(),
            pinned: Vec::new(),
            dead: Vec::new(),
            loaded: Vec::new(),
            damaged: Vec::new(),
            seq: 0,
        }
    }

    /// A number for a version that is made now.
    pub(super) const fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// The number of the version that was made last.
    pub(super) const fn last_seq(&self) -> u64 {
        self.seq
    }

    /// The first slot from `from` on with a version of use that was made by `upto`, unless it is of the upper layer and its
    /// place `is_parked`.
    pub(super) fn live_upto(&self, upto: u64, from: u32, is_parked: impl Fn(MemberPlace) -> bool) -> Option<u32> {
        let left = (from..).zip(self.versions.get(from as usize..)?);
        left.filter_map(|(number, version)| Some((number, version.as_ref()?)))
            .filter(|(_, version)| !version.dead && version.seq <= upto)
            .find(|(_, version)| version.layer != VersionLayer::Upper || !is_parked(version.place))
            .map(|(number, _)| number)
    }

    /// Returns the number of slots that may have a version.
    pub(super) fn slots(&self) -> u32 {
        self.versions.len() as u32
    }

    /// Returns true if the version in this slot is of use.
    pub(super) fn is_live(&self, slot: NvSlot) -> bool {
        let version = self.versions.get(slot.index as usize).and_then(Option::as_ref);
        // The slot's generation is part of the comparison: another version may be
        // in it by now.
        version.is_some_and(|version| version.slot == slot && !version.dead)
    }

    /// Returns true if the operation moves a version down that was made by `upto`.
    pub(super) fn moves(&self, op: OpId, upto: u64) -> bool {
        self.putting.iter().any(|putting| putting.op == op && putting.copy_of.is_some() && putting.seq <= upto)
    }

    fn get(&self, number: u32) -> &StoredVersion {
        self.versions[number as usize].as_ref().expect("the slot has a version")
    }

    fn get_mut(&mut self, number: u32) -> &mut StoredVersion {
        self.versions[number as usize].as_mut().expect("the slot has a version")
    }

    fn held(&self, (row, column): MemberPlace) -> PageSlots {
        self.rows.get(&row).map_or(PageSlots::default(), |at| self.held[*at as usize * self.columns + column.index()])
    }

    fn held_mut(&mut self, (row, column): MemberPlace) -> &mut PageSlots {
        let (columns, held, present, spare) = (self.columns, &mut self.held, &mut self.present, &mut self.spare);
        let at = *self.rows.entry(row).or_insert_with(|| {
            // Places of rows that are gone are used again, so memory follows the
            // most that were held at once.
            spare.pop().unwrap_or_else(|| {
                held.resize(held.len() + columns, PageSlots::default());
                present.push(ColumnSet::EMPTY);
                present.len() as u32 - 1
            })
        });
        self.present[at as usize].insert(column);
        &mut self.held[at as usize * columns + column.index()]
    }

    fn slot(&self, number: Option<u32>) -> Option<NvSlot> {
        number.map(|number| self.get(number).slot)
    }

    /// The newest version of a page.
    pub(super) fn newest(&self, place: MemberPlace) -> Option<NvSlot> {
        let held = self.held(place);
        // A version in the upper layer is newer than the one below, by the layers'
        // meaning.
        self.slot(held.upper.or(held.lower))
    }

    /// The version of a page in one layer.
    pub(super) fn in_layer(&self, place: MemberPlace, layer: VersionLayer) -> Option<NvSlot> {
        let held = self.held(place);
        self.slot(if layer == VersionLayer::Upper { held.upper } else { held.lower })
    }

    /// Returns true if nothing is in the NVRAM.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.putting.is_empty()
    }

    /// Returns true if something of the row is in the NVRAM, dead or alive.
    pub(super) fn has(&self, row: Row) -> bool {
        self.rows.contains_key(&row)
    }

    /// Returns true if a page of these rows has its newest version in the NVRAM.
    pub(super) fn departs(&self, rows: Rows) -> bool {
        if self.rows.is_empty() {
            // An empty store is the common case in front of reads.
            return false;
        }
        rows.iter().any(|row| {
            let Some(at) = self.rows.get(&row) else { return false };
            let begin = *at as usize * self.columns;
            self.held[begin..begin + self.columns].iter().any(|held| held.upper.is_some() || held.lower.is_some())
        })
    }

    /// Rows with versions that the parity does not cover.
    pub(super) fn uncovered_rows(&self) -> usize {
        let rows = self.rows.values().filter(|at| {
            let begin = **at as usize * self.columns;
            self.held[begin..begin + self.columns].iter().any(|held| held.upper.is_some())
        });
        rows.count()
    }

    /// Returns the sources of a row's pages.
    pub(super) fn sources(&self, row: Row) -> RowSources {
        let mut sources = RowSources::default();
        let Some(at) = self.rows.get(&row) else { return sources };
        for column in self.present[*at as usize].iter() {
            let held = self.held[*at as usize * self.columns + column.index()];
            let lower = self.slot(held.lower).map_or(VersionSource::Member, VersionSource::Nv);
            if let Some(upper) = self.slot(held.upper) {
                sources.set_newest(column, VersionSource::Nv(upper));
                // Below the upper version, the parity covers what the lower layer
                // or the member has.
                sources.set_stale(column, lower);
            } else if held.lower.is_some() {
                sources.set_newest(column, lower);
            }
        }
        sources
    }

    /// An operation uses these bytes: their slot is not freed until it is [released](Self::unpin).
    pub(super) fn pin(&mut self, op: OpId, slot: NvSlot) {
        self.get_mut(slot.index).pins += 1;
        if self.pinned.len() <= op.index() {
            self.pinned.resize_with(op.index() + 1, Vec::new);
        }
        self.pinned[op.index()].push(slot);
    }

    /// An operation uses what the sources of a row name.
    pub(super) fn pin_row(&mut self, op: OpId, row: Row) {
        let Some(at) = self.rows.get(&row) else { return };
        let at = *at as usize;
        for column in self.present[at].iter() {
            let held = self.held[at * self.columns + column.index()];
            // Both versions: the read of the newest and the update of what the
            // parity covers use one each.
            for number in [held.upper, held.lower].into_iter().flatten() {
                self.pin(op, self.get(number).slot);
            }
        }
    }

    /// The version of a page in this layer that the operation uses.
    pub(super) fn pinned(&self, op: OpId, place: MemberPlace, layer: VersionLayer) -> Option<NvSlot> {
        let slots = self.pinned.get(op.index())?;
        slots.iter().copied().find(|slot| {
            let version = self.get(slot.index);
            version.place == place && version.layer == layer
        })
    }

    /// An operation has read what it uses, but for pages of the upper layer if it takes them from there.
    pub(super) fn unpin_read(&mut self, op: OpId, from_above: bool) {
        let Some(slots) = self.pinned.get_mut(op.index()) else { return };
        let mut slots = std::mem::take(slots);
        slots.retain(|slot| {
            let version = self.get_mut(slot.index);
            // Versions that are moved down must stay: the copy is made from their
            // slot.
            let keeps = from_above && version.layer == VersionLayer::Upper;
            version.pins -= u32::from(!keeps);
            keeps
        });
        self.pinned[op.index()] = slots;
    }

    /// An operation uses nothing any more.
    pub(super) fn unpin(&mut self, op: OpId) {
        let Some(slots) = self.pinned.get_mut(op.index()) else { return };
        let mut slots = std::mem::take(slots);
        for slot in slots.drain(..) {
            self.get_mut(slot.index).pins -= 1;
        }
        self.pinned[op.index()] = slots;
    }

    /// A version is being put by an operation: a new one, or the copy of one of the upper layer in the
    /// lower. The tag to put it with.
    pub(super) fn put(
        &mut self,
        op: OpId,
        slot: NvSlot,
        place: MemberPlace,
        layer: VersionLayer,
        seq: u64,
        copy_of: Option<NvSlot>,
    ) -> Tag {
        // A copy is as old as what it is a copy of: a newer one may have been put meanwhile.
        let seq = copy_of.map_or(seq, |slot| self.get(slot.index).seq);
        self.putting.push(PendingPut { op, slot, place, layer, seq, copy_of });
        tag(place, layer, seq)
    }

    /// Records that the versions that the operation was putting are there.
    pub(super) fn put_done(&mut self, op: OpId, mut each: impl FnMut(MemberPlace, VersionLayer)) {
        let mut index = 0;
        while index < self.putting.len() {
            if self.putting[index].op != op {
                index += 1;
                continue;
            }
            // In order of putting: what a page has twice must not be swapped.
            let PendingPut { slot, place, layer, seq, copy_of, .. } = self.putting.remove(index);
            self.add(slot, place, layer, seq);
            let held = self.held_mut(place);
            let layers = if layer == VersionLayer::Upper { &mut held.upper } else { &mut held.lower };
            let old = layers.replace(slot.index);
            // Only if the upper version is still the one that was copied. A newer
            // one stays above its copy.
            let copied = copy_of.filter(|of| held.upper == Some(of.index));
            if copied.is_some() {
                held.upper = None;
            }
            old.into_iter().chain(copied.map(|slot| slot.index)).for_each(|number| self.kill(number));
            each(place, layer);
        }
    }

    fn add(&mut self, slot: NvSlot, place: MemberPlace, layer: VersionLayer, seq: u64) {
        let number = slot.index;
        if self.versions.len() <= number as usize {
            self.versions.resize(number as usize + 1, None);
        }
        let mut before = None;
        let mut next = self.held(place).oldest;
        while let Some(other) = next {
            let version = self.get(other);
            // The list is sorted by age, so the oldest dead version can be told at
            // once. A copy sorts after its original.
            if (version.seq, version.layer) > (seq, layer) {
                break;
            }
            (before, next) = (next, version.newer);
        }
        self.versions[number as usize] =
            Some(StoredVersion { slot, place, layer, seq, pins: 0, dead: false, newer: next });
        match before {
            Some(before) => self.get_mut(before).newer = Some(number),
            None => self.held_mut(place).oldest = Some(number),
        }
    }

    fn kill(&mut self, number: u32) {
        self.get_mut(number).dead = true;
        self.dead.push(number);
    }

    /// The version is on its member. If there is no newer one in its layer, it is of no use any more, nor
    /// is what there is of the page in a lower one; the layers that are without a version then.
    pub(super) fn written(&mut self, slot: NvSlot) -> impl Iterator<Item = VersionLayer> + use<> {
        let StoredVersion { place, layer, .. } = *self.get(slot.index);
        let held = self.held_mut(place);
        let of_layer = if layer == VersionLayer::Upper { &mut held.upper } else { &mut held.lower };
        let newest = *of_layer == Some(slot.index);
        if newest {
            *of_layer = None;
        }
        // What the lower layer has is older than what reached the member, so it is
        // dead too.
        let below = held.lower.take_if(|_| newest && layer == VersionLayer::Upper);
        for number in newest.then_some(slot.index).into_iter().chain(below) {
            self.kill(number);
        }
        newest.then_some(layer).into_iter().chain(below.map(|_| VersionLayer::Lower))
    }

    /// Kills the lower layer's version of a page. Returns true if there was one.
    pub(super) fn outdate(&mut self, place: MemberPlace) -> bool {
        let Some(lower) = self.held(place).lower else { return false };
        self.held_mut(place).lower = None;
        self.kill(lower);
        true
    }

    /// Returns the columns of a row that have a version, be it dead.
    pub(super) fn present(&self, row: Row) -> ColumnSet {
        self.rows.get(&row).map_or(ColumnSet::EMPTY, |at| self.present[*at as usize])
    }

    /// Names the dead versions of a row that can be freed without anything else happening to it, with whether that has to
    /// wait for the [end](Self::end_damaged) of damaged ones. What is behind a version that is of use is not among them.
    pub(super) fn dead_of(&self, row: Row) -> impl Iterator<Item = (NvSlot, bool)> {
        let of_place = move |column| {
            let next = |number: &u32| self.get(*number).newer;
            let all = std::iter::successors(self.held((row, column)).oldest, next);
            let mut waits = false;
            // Versions are freed oldest first, so everything after a damaged one
            // waits with it.
            all.take_while(|number| self.get(*number).dead).map(move |number| {
                waits |= self.damaged.contains(&number);
                (self.get(number).slot, waits)
            })
        };
        self.present(row).iter().flat_map(of_place)
    }

    /// Returns true if something is dead and not freed.
    pub(super) fn has_dead(&self) -> bool {
        !self.dead.is_empty()
    }

    /// Dead versions.
    pub(super) fn dead(&self) -> usize {
        self.dead.len()
    }

    /// Takes dead versions out that can be freed now, and appends their slots.
    pub(super) fn take_freeable(&mut self, slots: &mut Vec<NvSlot>) {
        let mut dead = std::mem::take(&mut self.dead);
        // Freeing one may make the next of its page the oldest, so the search goes
        // on until nothing changes.
        loop {
            let before = dead.len();
            dead.retain(|number| {
                let version = *self.get(*number);
                // The oldest first, page by page: after a crash a freed newer
                // version would leave an older one as the newest.
                let free = version.pins == 0 && self.held(version.place).oldest == Some(*number);
                if free {
                    self.versions[*number as usize] = None;
                    let held = self.held_mut(version.place);
                    held.oldest = version.newer;
                    if held.oldest.is_none() {
                        self.forget(version.place);
                    }
                    slots.push(version.slot);
                }
                !free
            });
            if dead.len() == before {
                break;
            }
        }
        self.dead = dead;
    }

    /// A page has no versions any more.
    fn forget(&mut self, (row, column): MemberPlace) {
        let at = self.rows[&row];
        self.present[at as usize].remove(column);
        if self.present[at as usize].is_empty() {
            self.rows.remove(&row);
            self.spare.push(at);
        }
    }

    /// Takes a slot that was in use when this life began, by its tag; whether it can be one of these
    /// layers.
    pub(super) fn load(&mut self, held: &NvHeld<'_>, upper: bool, lower: bool, rows: u64) -> bool {
        // The row and column come from the NVRAM, so they are checked against this
        // array.
        let NvHeld { slot, ref tag, is_damaged, .. } = *held;
        let Some((place, layer, seq)) = read_tag(tag) else { return false };
        let known = if layer == VersionLayer::Upper { upper } else { lower };
        if !known || place.1.index() >= self.columns || place.0.0 >= rows {
            return false;
        }
        self.loaded.push(LoadedVersion { seq, layer, place, slot, is_damaged });
        true
    }

    /// Finds out what is newest, now that everything is loaded. Names the pages that are held in a layer, and returns what
    /// is lost with damaged versions. Nothing is taken from these; they stay until [`end_damaged`](Self::end_damaged).
    pub(super) fn begin(&mut self, mut each: impl FnMut(MemberPlace, VersionLayer)) -> DamagedVersions {
        let mut loaded = std::mem::take(&mut self.loaded);
        // In the order of making, and the upper version before its copy, so each
        // step replaces what was newest before.
        loaded.sort_unstable_by_key(|loaded| (loaded.seq, loaded.layer));
        let (mut places, mut lost, mut rows) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for LoadedVersion { seq, layer, place, slot, is_damaged } in loaded {
            self.seq = self.seq.max(seq);
            self.add(slot, place, layer, seq);
            let held = self.held(place);
            // A copy in the lower layer is as old as what it is a copy of, and as good.
            let original = held.upper.filter(|upper| layer == VersionLayer::Lower && self.get(*upper).seq == seq);
            let kept = if is_damaged { original } else { None };
            let held = self.held_mut(place);
            let of_layer = if layer == VersionLayer::Upper { &mut held.upper } else { &mut held.lower };
            let mut old = [std::mem::replace(of_layer, Some(slot.index).filter(|_| !is_damaged)), None];
            if layer == VersionLayer::Lower && kept.is_none() {
                // As old as this or older, so that this is a copy of it or newer.
                old[1] = held.upper.take();
            }
            old.into_iter().flatten().for_each(|number| self.kill(number));
            if !is_damaged {
                lost.remove(&place);
                places.push(place);
                continue;
            }
            if layer == VersionLayer::Lower {
                // The parity covers these lost bytes, so the row has to be
                // recomputed.
                rows.insert(place.0);
            }
            if kept.is_none() {
                lost.insert(place);
            }
            // Pinned until `end_damaged`: after another crash the row must be found
            // damaged again.
            self.get_mut(slot.index).pins += 1;
            self.kill(slot.index);
            self.damaged.push(slot.index);
        }
        // Each page is named once, by what holds in the end.
        places.sort_unstable();
        places.dedup();
        for place in places {
            let held = self.held(place);
            if held.upper.is_some() {
                each(place, VersionLayer::Upper);
            }
            if held.lower.is_some() {
                each(place, VersionLayer::Lower);
            }
        }
        DamagedVersions { lost: lost.into_iter().collect(), rows: rows.into_iter().collect() }
    }

    /// Lets damaged versions be freed: rows whose parity covers one are consistent without it.
    pub(super) fn end_damaged(&mut self) {
        for number in std::mem::take(&mut self.damaged) {
            self.get_mut(number).pins -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: MemberPlace = (Row(3), Column(1));

    /// Returns what is left after a cut, of these layers and numbers, and what is lost with those that are damaged.
    fn damaged(left: &[(VersionLayer, u64, bool)]) -> (VersionStore, DamagedVersions) {
        let mut store = VersionStore::new(4);
        for (index, (layer, seq, is_damaged)) in (0..).zip(left) {
            let slot = NvSlot { index, generation: 1 };
            let held = NvHeld { slot, tag: tag(PLACE, *layer, *seq), bytes: &[0; 4096], is_damaged: *is_damaged };
            assert!(store.load(&held, true, true, 8));
        }
        let lost = store.begin(|_, _| ());
        (store, lost)
    }

    fn begun(left: &[(VersionLayer, u64)]) -> VersionStore {
        let left: Vec<_> = left.iter().map(|(layer, seq)| (*layer, *seq, false)).collect();
        damaged(&left).0
    }

    #[test]
    fn a_damaged_version_is_lost_unless_there_is_one_as_new() {
        use VersionLayer::{Lower, Upper};
        let is_lost = |is: bool| if is { vec![PLACE] } else { Vec::new() };
        let is_open = |is: bool| if is { vec![PLACE.0] } else { Vec::new() };
        for (left, now, lost, open) in [
            (&[(Upper, 2, true)][..], (None, None), true, false),
            (&[(Upper, 1, false), (Upper, 2, true)], (None, None), true, false),
            (&[(Lower, 1, false), (Upper, 2, true)], (None, Some(0)), true, false),
            (&[(Upper, 1, true), (Upper, 2, false)], (Some(1), None), false, false),
            (&[(Lower, 2, true)], (None, None), true, true),
            (&[(Upper, 1, false), (Lower, 2, true)], (None, None), true, true),
            (&[(Upper, 2, false), (Lower, 2, true)], (Some(0), None), false, true),
            (&[(Upper, 2, true), (Lower, 2, false)], (None, Some(1)), false, false),
            (&[(Upper, 2, true), (Lower, 2, true)], (None, None), true, true),
            (&[(Lower, 1, true), (Upper, 2, false)], (Some(1), None), false, true),
        ] {
            let (store, found) = damaged(left);
            assert_eq!(held(&store), now, "{left:?}");
            assert_eq!(found, DamagedVersions { lost: is_lost(lost), rows: is_open(open) }, "{left:?}");
        }
    }

    #[test]
    fn what_can_be_freed_waits_for_nothing_that_is_of_use() {
        use VersionLayer::{Lower, Upper};
        for (left, freed) in [
            (&[(Lower, 1, false), (Lower, 2, false)][..], &[(0, false)][..]),
            (&[(Upper, 2, false), (Lower, 2, true)], &[]),
            (&[(Lower, 1, false), (Upper, 2, true)], &[]),
            (&[(Lower, 1, true), (Upper, 2, false)], &[(0, true)]),
            (&[(Upper, 1, true), (Lower, 2, false), (Lower, 3, false)], &[(0, true), (1, true)]),
        ] {
            let (store, _) = damaged(left);
            let found: Vec<_> = store.dead_of(PLACE.0).map(|(slot, waits)| (slot.index, waits)).collect();
            assert_eq!(found, freed, "{left:?}");
        }
    }

    #[test]
    fn a_damaged_version_stays_until_its_row_is_consistent() {
        let (mut store, _) = damaged(&[(VersionLayer::Lower, 1, false), (VersionLayer::Lower, 2, true)]);
        let mut slots = Vec::new();
        store.take_freeable(&mut slots);
        assert_eq!(slots.iter().map(|slot| slot.index).collect::<Vec<_>>(), [0], "the older one");
        store.end_damaged();
        store.take_freeable(&mut slots);
        assert!(slots.len() == 2 && store.is_empty());
    }

    fn held(store: &VersionStore) -> (Option<u32>, Option<u32>) {
        let of = |layer| store.in_layer(PLACE, layer).map(|slot| slot.index);
        (of(VersionLayer::Upper), of(VersionLayer::Lower))
    }

    #[test]
    fn a_start_takes_the_newest_and_what_the_parity_covers() {
        assert_eq!(
            held(&begun(&[(VersionLayer::Upper, 2), (VersionLayer::Lower, 1), (VersionLayer::Upper, 1)])),
            (Some(0), Some(1))
        );
        assert_eq!(held(&begun(&[(VersionLayer::Upper, 1), (VersionLayer::Lower, 2)])), (None, Some(1)));
        assert_eq!(
            held(&begun(&[(VersionLayer::Upper, 2), (VersionLayer::Lower, 2)])),
            (None, Some(1)),
            "a copy, not yet freed above"
        );
    }

    #[test]
    fn nothing_is_held_below_what_is_on_its_member() {
        let mut store = begun(&[(VersionLayer::Upper, 2), (VersionLayer::Lower, 1)]);
        let upper = store.newest(PLACE).expect("it is held");
        assert_eq!(store.written(upper).count(), 2);
        assert_eq!((held(&store), store.dead()), ((None, None), 2));
        let mut slots = Vec::new();
        store.take_freeable(&mut slots);
        assert_eq!(slots.iter().map(|slot| slot.index).collect::<Vec<_>>(), [1, 0], "the older one first");
        assert!(store.is_empty());
    }
}
