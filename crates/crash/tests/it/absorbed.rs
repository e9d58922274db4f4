//! A cache that takes every write into the NVRAM, data and parity alike, and writes the members page
//! by page later, as small as it can be: what the array owes the caches that do so (specs §8.4, §8.6)
//! is tried with every level, misfortune and cut.
//!
//! No row needs an intent: at every moment the newest parity is the parity of the newest data,
//! wherever they are.

use std::collections::BTreeMap;

use destage_cache::{
    CacheMedium, CacheOperations, HostCache, HostCacheError, HostCacheInfo, ReadPages, RegisteredCache, WriteStage,
};
use destage_crash::{DrawLimits, RunOptions, RunReport, explore, shrink};
use destage_plan::{
    Buf, Column, ColumnSet, Control, Event, Ext, HostOp, List, Nanos, NvHeld, NvPut, NvSlot, OpId, Out, Params,
    PutList, Row, Rows, Step, StepKind, StepSet, Tag, TimerId, TimerOwner,
};
use destage_raid::array::{
    ArrayConfig, DegradedRead, PageVersions, ParityUpdate, RaidArray, RowSources, StripeSegment, VersionSource,
    WriteApproach,
};
use destage_raid::{Geometry, RaidLevel};

use crate::share::seeds_of;

type Place = (Row, Column);

/// The versions of a page that are in the NVRAM, oldest first. All but the last are of use to nobody,
/// but for operations that use them still; they must be freed in this order, or an older one would be
/// taken for the newest after a cut.
#[derive(Default)]
struct Held {
    versions: Vec<NvSlot>,
    /// The member has the last version, durably.
    written: bool,
}

struct Absorbs {
    geometry: Geometry,
    held: BTreeMap<Place, Held>,
    /// Slots that an operation absorbing a row has taken and is putting.
    putting: BTreeMap<OpId, Vec<(Place, NvSlot)>>,
    /// Slots set aside for operations whose row is not planned so far.
    reserved: BTreeMap<OpId, u32>,
    /// Versions that operations write back, by place: one at a time.
    writing: BTreeMap<Place, (OpId, NvSlot)>,
    /// Slots whose bytes operations use.
    pins: Vec<(OpId, NvSlot)>,
    /// Lists the slots that the operation in flight frees.
    freeing: Vec<NvSlot>,
    free_op: Option<OpId>,
    /// Lists the slots that an earlier life left, by age.
    loaded: BTreeMap<Place, Vec<(u64, NvSlot)>>,
    /// Slots that are free as soon as somebody can say so.
    given: Vec<NvSlot>,
    slots: u32,
    seq: u64,
    /// Everything is to be written back.
    cleaning: bool,
    draining: bool,
    /// Is true if it was not asked for anything for a while.
    idle: bool,
    /// A write waits for room.
    is_short: bool,
}

#[derive(Clone, Copy)]
enum Own {
    WriteBack(Place, NvSlot),
    Free,
}

const VERSION: u8 = 1;
const IDLE: TimerId = TimerId { owner: TimerOwner::Above, number: 0 };

fn tag((row, column): Place, seq: u64) -> Tag {
    let mut tag = [0; 24];
    (tag[0], tag[1], tag[2]) = (VERSION, RaidArray::kind_above(0), column.0);
    tag[8..16].copy_from_slice(&row.0.to_le_bytes());
    tag[16..24].copy_from_slice(&seq.to_le_bytes());
    tag
}

impl Absorbs {
    fn used(&self) -> u32 {
        let held: usize = self.held.values().map(|held| held.versions.len()).sum();
        let putting: usize = self.putting.values().map(Vec::len).sum();
        let reserved: u32 = self.reserved.values().sum();
        (held + putting + self.freeing.len() + self.given.len()) as u32 + reserved
    }

    fn place(&self, page: u64) -> Place {
        let place = self.geometry.locate(page);
        (self.geometry.row(place.stripe, place.row_in_chunk), place.column)
    }

    fn newest(&self, place: Place) -> Option<NvSlot> {
        self.held.get(&place).filter(|held| !held.written).and_then(|held| held.versions.last().copied())
    }

    fn row(&self, row: Row) -> impl Iterator<Item = (Column, NvSlot)> {
        let places = self.held.range((row, Column(0))..=(row, Column(u8::MAX)));
        places.filter_map(|(place, _)| Some((place.1, self.newest(*place)?)))
    }

    /// Frees the slots that an operation took and did not put.
    fn take_back(&mut self, op: OpId) {
        self.reserved.remove(&op);
        let taken = self.putting.remove(&op).unwrap_or_default();
        self.given.extend(taken.into_iter().map(|(_, slot)| slot));
    }

    fn is_used(&self, slot: NvSlot) -> bool {
        self.pins.iter().any(|pin| pin.1 == slot) || self.writing.values().any(|writing| writing.1 == slot)
    }

    /// Takes what can be freed: of each page the versions that are superseded or written back, oldest
    /// first.
    fn take_freed(&mut self) -> Vec<NvSlot> {
        let mut freed = Vec::new();
        for place in self.held.keys().copied().collect::<Vec<_>>() {
            loop {
                let held = &self.held[&place];
                let keep = usize::from(!held.written);
                match held.versions.first() {
                    Some(slot) if held.versions.len() > keep && !self.is_used(*slot) => freed.push(*slot),
                    _ => break,
                }
                self.held.get_mut(&place).expect("it is held").versions.remove(0);
            }
        }
        self.held.retain(|_, held| !held.versions.is_empty());
        freed
    }
}

impl PageVersions for Absorbs {
    fn approach(&mut self, op: OpId, _: HostOp, seg: StripeSegment, _: Rows, _: bool) -> WriteApproach {
        self.take_back(op);
        let parity = self.geometry.column_set().len() - self.geometry.data_set().len();
        let wanted = seg.columns.len() + parity;
        self.is_short = self.used() + wanted > self.slots;
        if self.is_short {
            return WriteApproach::Waits;
        }
        self.reserved.insert(op, wanted);
        WriteApproach::Absorbed
    }

    fn departs(&self, rows: Rows) -> bool {
        rows.iter().any(|row| self.row(row).next().is_some())
    }

    fn sources(&self, row: Row) -> RowSources {
        let mut sources = RowSources::default();
        self.row(row).for_each(|(column, slot)| sources.set_newest(column, VersionSource::Nv(slot)));
        sources
    }

    fn uses(&mut self, op: OpId, row: Row) {
        let used: Vec<_> = self.row(row).map(|(_, slot)| (op, slot)).collect();
        self.pins.extend(used);
    }

    fn released(&mut self, op: OpId) {
        self.pins.retain(|pin| pin.0 != op);
    }

    fn written(&mut self, op: OpId, _: Rows, _: ColumnSet, updated: ParityUpdate) {
        if updated == ParityUpdate::Absorbed {
            for (place, slot) in self.putting.remove(&op).unwrap_or_default() {
                let held = self.held.entry(place).or_default();
                held.versions.push(slot);
                held.written = false;
            }
        }
    }

    fn is_clean(&self) -> bool {
        self.held.is_empty() && self.freeing.is_empty()
    }
}

impl HostCache for Absorbs {
    type Part = Own;

    fn load(&mut self, held: &NvHeld<'_>, page_bytes: u32) -> bool {
        let NvHeld { slot, ref tag, .. } = *held;
        let u64_at = |at: usize| u64::from_le_bytes(tag[at..at + 8].try_into().expect("eight bytes"));
        if held.len() != page_bytes
            || tag[0] != VERSION
            || tag[1] != RaidArray::kind_above(0)
            || tag[2] >= self.geometry.members()
        {
            return false;
        }
        let (place, seq) = ((Row(u64_at(8)), Column(tag[2])), u64_at(16));
        self.seq = self.seq.max(seq);
        let versions = self.loaded.entry(place).or_default();
        versions.push((seq, slot));
        versions.sort_unstable_by_key(|version| version.0);
        self.held.entry(place).or_default().versions = versions.iter().map(|version| version.1).collect();
        true
    }

    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        array: &mut RaidArray,
        _: &mut CacheOperations<Own>,
        out: &mut Out,
    ) -> Option<StepSet> {
        let WriteStage::Absorbed { pages, after } = stage else { return Some(stage.planned().after) };
        self.reserved.remove(&op);
        self.seq += 1;
        let mut puts = Vec::new();
        for column in pages.columns.iter() {
            let row = pages.rows.first;
            let place = (row, column);
            let slot = array.take_slot().expect("slots were set aside");
            puts.push(NvPut::page(slot, tag(place, self.seq), pages.page(column, row), out.page_bytes()));
            self.putting.entry(op).or_default().push((place, slot));
        }
        let puts = out.puts(op, &puts);
        self.idle = false;
        out.timer(IDLE, out.now() + Nanos(3_000_000));
        Some(out.step(op, Step::NvCommit { puts, frees: List::EMPTY }, after))
    }

    fn read(
        &mut self,
        op: OpId,
        pages: ReadPages<'_>,
        dst: Buf,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<StepSet, DegradedRead> {
        let page = |index: u16| pages.first() + u64::from(index);
        if (0..pages.count).any(|index| self.newest(self.place(page(index))).is_some()) {
            return Err(DegradedRead);
        }
        array.plan_read(op, pages.first(), pages.count, pages.in_fragment(dst, pages.from), out)
    }

    fn event(&mut self, event: Event<'_>, _: &mut RaidArray, _: &mut Out) {
        match event {
            Event::Timer(_) => self.idle = true,
            Event::Control(Control::Clean) => self.cleaning = true,
            Event::Control(Control::Drain) => self.draining = true,
            _ => {}
        }
    }

    fn turn(&mut self, array: &mut RaidArray, operations: &mut CacheOperations<Own>, out: &mut Out) {
        if self.draining && self.held.values().all(|held| held.written) {
            self.draining = false;
            out.drained();
        }
        for slot in std::mem::take(&mut self.given) {
            array.give_slot(slot, out);
        }
        if self.freeing.is_empty() {
            self.freeing = self.take_freed();
            if !self.freeing.is_empty() {
                self.free_op = Some(operations.open_own(None, Own::Free, out));
            }
        }
        let due = self.cleaning || self.draining || self.idle || self.is_short || self.used() * 2 > self.slots;
        for place in self.held.keys().copied().collect::<Vec<_>>() {
            if due
                && self.writing.len() < 2
                && !self.writing.contains_key(&place)
                && let Some(slot) = self.newest(place)
            {
                let op = operations.open_own(None, Own::WriteBack(place, slot), out);
                self.writing.insert(place, (op, slot));
            }
        }
    }

    fn plan_part(&mut self, op: OpId, own: Own, array: &mut RaidArray, out: &mut Out) {
        match own {
            Own::Free => {
                let frees = out.slots(op, &self.freeing);
                out.step(op, Step::NvCommit { puts: PutList::EMPTY, frees }, StepSet::EMPTY);
            }
            Own::WriteBack(..) if !array.is_noted(op) => return,
            Own::WriteBack(place, slot) => {
                let dev = self.geometry.device(self.geometry.stripe_of(place.0).0, place.1);
                // Of a member that is lost the parity tells what it was: it covers the newest version.
                if !array.is_lost(dev) {
                    let ext = Ext::new(dev, place.0.0, 1);
                    out.step(op, Step::Write { ext, src: Buf::Nv(slot), fua: true }, StepSet::EMPTY);
                }
            }
        }
        out.close(op);
    }

    fn undone(&mut self, op: OpId) {
        self.take_back(op);
    }

    fn done(&mut self, op: OpId) {
        self.take_back(op);
        let place = self.writing.iter().find(|(_, writing)| writing.0 == op).map(|(place, _)| *place);
        if let Some(place) = place {
            let (_, slot) = self.writing.remove(&place).expect("it is under way");
            let held = self.held.get_mut(&place).expect("what is written back is held");
            held.written = held.versions.last() == Some(&slot);
        } else if self.free_op == Some(op) {
            self.given.append(&mut self.freeing);
            self.free_op = None;
        }
    }
}

impl RegisteredCache for Absorbs {
    const INFO: HostCacheInfo = HostCacheInfo {
        medium: CacheMedium::Nvram,
        max_pages: 1 << 20,
        nv_slots: |pages, array, _| pages as u32 + u32::from(array.geometry.members()),
        ..HostCacheInfo::new::<Self>("absorbs", "takes every write into the NVRAM", "-")
    };

    fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Self, HostCacheError> {
        Ok(Self {
            geometry: array.geometry.clone(),
            held: BTreeMap::new(),
            putting: BTreeMap::new(),
            reserved: BTreeMap::new(),
            writing: BTreeMap::new(),
            pins: Vec::new(),
            freeing: Vec::new(),
            free_op: None,
            loaded: BTreeMap::new(),
            given: Vec::new(),
            slots: (Self::INFO.nv_slots)(pages, array, params),
            seq: 0,
            cleaning: false,
            draining: false,
            idle: false,
            is_short: false,
        })
    }
}

static ABSORBS: HostCacheInfo = Absorbs::INFO;

#[test]
fn what_is_in_the_nvram_is_not_lost() {
    let seeds = seeds_of(4_000, 16_000);
    for level in [RaidLevel::Raid0, RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6] {
        let limits = DrawLimits { level: Some(level), ..DrawLimits::default() };
        match explore(&ABSORBS, seeds.clone(), &limits, RunOptions::default()) {
            Ok(report) => print(level, &report),
            Err(failure) => {
                let small = shrink(&ABSORBS, &failure, RunOptions::default(), 4_000);
                panic!("{level}\nas found: {}\nsmallest found: {small}", failure.what);
            }
        }
    }
}

fn print(level: RaidLevel, report: &RunReport) {
    let commits = report.counts[StepKind::NvCommit as usize];
    println!(
        "{level}: {} histories, {} cuts, {} losses, {} refusals, {commits} commits",
        report.runs, report.cuts, report.losses, report.refusals
    );
    assert!(report.runs < 1_000 || commits > report.runs * 4, "everything is taken into the NVRAM first");
}
