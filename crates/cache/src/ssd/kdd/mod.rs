//! KDD: a page that is written again is kept as it was, with what has changed; the parity, which covers
//! what it was, is updated later (specs §9.3, §9.4). Deltas are staged in the NVRAM and packed into pages of
//! the cache.
//!
//! Where pages are it knows in memory only. So nothing that it has outlives a cut: the rows that it
//! has left behind have their intents open, and their parity is made anew from what the members hold.

mod deltas;
mod hit;
mod staging;
mod zone;

use destage_plan::{
    Buf, Column, ColumnSet, Dev, DevSet, Event, Frag, HostOp, List, NvSlot, OpId, Out, ParamSpec, Params, PutList, Row,
    Rows, Span, Step, StepNo, StepOutcome, StepSet, Tag,
};
use destage_raid::Level;
use destage_raid::array::{Approach, Array, ArrayConfig, Degraded, Lost, Seg, Source, Sources, Updated, Versions};

use self::deltas::Deltas;
use self::hit::{Hit, Hits, Short};
use self::staging::Staging;
use self::zone::{Packed, Zone};
use super::behind::{self, Behind, Owed, page_of};
use super::copies::{Copies, WAYS};
use super::frames::{Frame, MAX_PAGES};
use super::of;
use super::write_through::Through;
use crate::{
    CacheCounts, CacheFigure, HostCache, HostCacheError, HostCacheInfo, Medium, Operations, Pages, Registered, Write,
};

/// Pages of a write whose parity is left behind: an operation has 64 steps.
const MAX_DELAYED: usize = 8;
/// Pages of a row that are kept with deltas: what reads all of them has 64 steps.
const MAX_OLD: u32 = 10;
/// Deltas that are staged before some are packed.
const MAX_STAGED: u64 = 512;
/// Dead slots that are freed without anything being put.
const MANY_DEAD: usize = 64;

const STAGING: ParamSpec = ParamSpec {
    name: "staging",
    default: "1",
    values: "1 to 65536",
    unit: "pages",
    help: "pages of the NVRAM in which deltas are staged before some are packed into a page of the cache",
};

const CLEANED: CacheFigure =
    CacheFigure { name: "cleaned_rows", unit: "rows", meaning: "times that the parity of a row was made to catch up" };
const STAGED: CacheFigure = CacheFigure { name: "staged", unit: "1", meaning: "deltas staged" };
const STAGED_BYTES: CacheFigure = CacheFigure { name: "staged_bytes", unit: "B", meaning: "bytes of these" };
const RAW: CacheFigure =
    CacheFigure { name: "raw", unit: "pages", meaning: "deltas that were no shorter than a page, and got one each" };
const COMMITS: CacheFigure =
    CacheFigure { name: "delta_pages", unit: "pages", meaning: "pages that deltas were packed into" };
const NO_ROOM: CacheFigure = CacheFigure {
    name: "no_room",
    unit: "pages",
    meaning: "pages that were in the cache and were written with their parity, for want of a free page",
};

/// Deltas that a cache of so many pages stages before some are packed: each of another page.
const fn most_staged(pages: u64) -> u64 {
    if pages < MAX_STAGED { pages } else { MAX_STAGED }
}

/// Slots: for what is staged, what is being packed, and what is not freed yet.
const fn slots(pages: u64) -> u32 {
    3 * most_staged(pages) as u32
}

/// What operations of its own, and parts of writes, are for.
#[derive(Clone, Copy)]
pub enum Part {
    /// Writes pages of a fragment to the cache.
    Fill(Frag),
    /// Packs deltas into a page.
    Commit,
    /// Frees slots of the NVRAM.
    Free,
}

impl From<Frag> for Part {
    fn from(frag: Frag) -> Self {
        Self::Fill(frag)
    }
}

/// The cache.
pub struct Kdd {
    copies: Copies<Through>,
    behind: Behind,
    deltas: Deltas,
    hits: Hits,
    /// The page that deltas are being packed into, and by whom.
    commit: Option<(OpId, Frame)>,
    /// Slots that are being freed, and by whom.
    free: Option<(OpId, Vec<NvSlot>)>,
    /// Whether an operation has been planned before.
    planned: Vec<bool>,
    commits: u64,
    no_room: u64,
}

impl Registered for Kdd {
    const INFO: HostCacheInfo = HostCacheInfo {
        medium: Medium::Device,
        serves: |level| matches!(level, Level::Raid4 | Level::Raid5 | Level::Raid6),
        max_pages: MAX_PAGES,
        // A frame, its entry in a table that may just be growing, and where its delta is.
        bytes_per_page: 64,
        nv_slots: |pages, _| slots(pages),
        delays_parity: true,
        params: &[WAYS, STAGING, behind::HIGH, behind::LOW, behind::SET_LOW, behind::IDLE_AFTER],
        figures: &[CLEANED, STAGED, STAGED_BYTES, RAW, COMMITS, NO_ROOM],
        unsynchronised: Some("what it leaves for later is parity, which is updated row by row"),
        // Two sets, so that both lookup and eviction matter, and rows that are cleaned soon.
        small: |pages| {
            let idle = (behind::IDLE_AFTER.name, "2ms".to_owned());
            vec![(WAYS.name, (pages / 2).max(1).to_string()), (behind::HIGH.name, "60".to_owned()), idle]
        },
        ..HostCacheInfo::new::<Self>(
            "kdd",
            "pages as they were, with compressed deltas: the parity of what is written again is updated later",
            "KDD",
        )
    };

    fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Self, HostCacheError> {
        let copies = Copies::new(pages, array, params)?;
        let behind = Behind::new(&copies.frames, params)?;
        let staging = Staging::new(params.number(STAGING.name, 1..=65_536)?, most_staged(pages) as usize);
        let deltas = Deltas::new(staging, Zone::new(&copies.frames));
        Ok(Self {
            copies,
            behind,
            deltas,
            hits: Hits::default(),
            commit: None,
            free: None,
            planned: Vec::new(),
            commits: 0,
            no_room: 0,
        })
    }
}

impl Kdd {
    fn drop_work(&mut self, op: OpId) {
        self.hits.drop_work(op, &mut self.copies, &mut self.deltas);
    }

    /// Has what is written of these pages kept as deltas, if the cache has all of them and there will be
    /// room; whether it is so.
    fn keep_deltas(&mut self, op: OpId, pages: &[(Row, Column, u64)]) -> bool {
        let mut found = [None; MAX_DELAYED];
        let mut clean = 0;
        for (found, &(row, column, page)) in found.iter_mut().zip(pages) {
            let Some(frame) = self.copies.frames.get(page) else { return false };
            let old = self.behind.get(row).map_or(ColumnSet::EMPTY, |stale| stale.columns);
            let others = pages.iter().filter(|(other, column, _)| *other == row && !old.contains(*column)).count();
            if !old.contains(column) && old.len() + others as u32 > MAX_OLD {
                return false;
            }
            clean += u32::from(!self.copies.frames.is_stale(frame));
            *found = Some(frame);
        }
        let frames = &mut self.copies.frames;
        // Each may need a page for itself, and what is staged already one before.
        let needed = clean + self.hits.pages() + pages.len() as u32 + 1;
        if frames.len() - (frames.stale() + self.deltas.zone.pages()) < needed {
            self.behind.are_short(Some(frames.set_of(pages[0].0)));
            self.no_room += pages.len() as u64;
            return false;
        }
        for (frame, &(row, column, _)) in found.iter().flatten().zip(pages) {
            if !frames.is_stale(*frame) {
                frames.leave_behind(*frame);
            }
            frames.touch(*frame);
            self.behind.leave(row, column, frames);
        }
        let hits = found.iter().flatten().zip(pages).map(|(frame, (.., page))| Hit::new(*page, *frame));
        self.hits.open(op, hits);
        true
    }

    /// Plans writes that wait, and what they wait for.
    fn go_on(&mut self, array: &mut Array, operations: &mut Operations<Part>, out: &mut Out) {
        while let Some(slot) = self.hits.freed.pop() {
            array.give_slot(slot, out);
        }
        let short = loop {
            match self.hits.plan_next(&mut self.copies, &mut self.deltas, array, out) {
                Ok(Some((op, after))) => operations.finish_write(op, after, out),
                Ok(None) => break None,
                Err(short) => break Some(short),
            }
        };
        if matches!(short, Some(Short::Staging | Short::Slots))
            && self.commit.is_none()
            && self.deltas.staging.can_seal()
            && let Some(page) = self.deltas.zone.take(&mut self.copies.frames)
        {
            self.deltas.staging.seal(out.page_bytes());
            self.commit = Some((operations.open_own(None, Part::Commit, out), page));
            self.commits += 1;
        }
        let dead = self.deltas.dead();
        let due = short == Some(Short::Slots) || dead >= MANY_DEAD || self.behind.len() == 0;
        if dead > 0 && due && self.free.is_none() && array.is_ready() {
            let mut slots = Vec::new();
            self.deltas.take_dead(&mut slots);
            if !slots.is_empty() {
                self.free = Some((operations.open_own(None, Part::Free, out), slots));
            }
        }
    }

    /// Packs what is sealed, and writes it.
    fn plan_commit(&self, op: OpId, out: &mut Out) {
        let Some((_, page)) = self.commit else { unreachable!("deltas are being packed") };
        let spans: Vec<Span> = self
            .deltas
            .staging
            .sealed()
            .iter()
            .map(|sealed| Span { buf: Buf::Nv(sealed.staged.slot), offset: 0, len: sealed.staged.len })
            .collect();
        let (parts, dst) = (out.spans(op, &spans), out.tmp(op, 1));
        let packed = out.step(op, Step::Pack { parts, dst }, StepSet::EMPTY);
        if self.is_caching() {
            out.step(op, Step::Write { ext: self.copies.frames.ext(page), src: dst, fua: false }, packed);
        }
        out.close(op);
    }

    /// What was sealed is packed, unless the device was lost.
    fn committed(&mut self, page: Frame) {
        let frames = &mut self.copies.frames;
        let kept = frames.keep(page);
        let mut offset = 0;
        for sealed in self.deltas.staging.unseal() {
            let len = sealed.staged.len;
            if kept && !sealed.superseded {
                self.deltas.zone.put(sealed.staged.base, Packed { page, offset, len });
            }
            self.deltas.bury(sealed.staged.slot);
            offset += len;
        }
        if self.deltas.zone.is_unused(page) {
            self.deltas.zone.give(page, frames);
        }
    }
}

impl Versions for Kdd {
    fn approach(&mut self, op: OpId, host: HostOp, seg: Seg, rows: Rows, may_delay: bool) -> Approach {
        self.drop_work(op);
        if std::mem::replace(of(&mut self.planned, op), true) {
            self.copies.distrust(rows, seg.columns);
        }
        let few = seg.rows * seg.columns.len() <= MAX_DELAYED as u32;
        if may_delay && host == HostOp::Write && few && rows.count == seg.rows && self.is_caching() {
            let mut pages = [(Row(0), Column(0), 0); MAX_DELAYED];
            let count = self.copies.places(rows, seg.columns, &mut pages);
            if self.keep_deltas(op, &pages[..count]) {
                return Approach::Delayed;
            }
        }
        if self.departs(rows) { Approach::Departed } else { Approach::Plain }
    }

    fn departs(&self, rows: Rows) -> bool {
        self.behind.departs(rows)
    }

    fn sources(&self, row: Row) -> Sources {
        let mut sources = Sources::default();
        let Some(stale) = self.behind.get(row) else { return sources };
        let (frames, geometry) = (&self.copies.frames, &self.copies.geometry);
        // Copies of what is on the members, too: with all of a row in the cache no member is read.
        for column in geometry.data_set().iter() {
            let frame = frames.get(page_of(geometry, row, column));
            if let Some(frame) = frame {
                sources.set_newest(column, self.deltas.newest(frame, frames));
            }
            if stale.columns.contains(column) {
                let known = frame.filter(|_| !stale.lost.contains(column));
                sources.set_stale(column, known.map_or(Source::Lost, |frame| Source::Page(frames.ext(frame))));
            }
        }
        sources
    }

    fn uses(&mut self, op: OpId, row: Row) {
        if self.behind.get(row).is_none() {
            return;
        }
        let Copies { frames, geometry, .. } = &mut self.copies;
        for column in geometry.data_set().iter() {
            if let Some(frame) = frames.get(page_of(geometry, row, column)) {
                self.deltas.uses(op, frame, frames);
            }
        }
    }

    fn released(&mut self, op: OpId) {
        self.deltas.released(op, &mut self.copies.frames);
    }

    fn written(&mut self, op: OpId, rows: Rows, columns: ColumnSet, updated: Updated) {
        if updated == Updated::Delayed {
            self.hits.work(op).written = true;
        }
        for row in rows.iter() {
            let frames = &mut self.copies.frames;
            let covered = self.behind.written(row, columns, updated, frames);
            for column in covered.iter() {
                // What the page was and what has changed is not needed any more (specs §9.6, scheme 2).
                if let Some(frame) = frames.get(page_of(&self.copies.geometry, row, column)) {
                    self.deltas.drop_delta(frame, frames);
                    frames.forget(frame);
                }
            }
        }
    }

    fn stale_rows(&self) -> usize {
        self.behind.len()
    }

    fn holds(&self, row: Row) -> bool {
        self.behind.get(row).is_some()
    }

    fn is_clean(&self) -> bool {
        self.behind.is_clean() && self.deltas.dead() == 0 && self.free.is_none()
    }
}

impl HostCache for Kdd {
    type Part = Part;

    const READ_PAGES: u16 = <Copies<Through> as HostCache>::READ_PAGES;

    /// Of an earlier life: nothing is known of the page that it belongs to.
    fn load(&mut self, slot: NvSlot, tag: &Tag) -> bool {
        let known = hit::is_staged(tag);
        if known {
            self.deltas.bury(slot);
        }
        known
    }

    fn lose(&mut self, devs: DevSet) {
        if devs.contains(self.copies.frames.dev()) && self.is_caching() {
            self.deltas.lose(&mut self.copies.frames);
            self.copies.lose(devs);
            self.behind.lose_covered();
        }
        if !devs.is_empty() {
            self.behind.hurry();
        }
    }

    fn replaced(&mut self, dev: Dev) {
        if dev == self.copies.frames.dev() {
            self.lose(DevSet::one(dev));
            self.copies.replaced(dev);
        }
    }

    fn turn(&mut self, array: &mut Array, operations: &mut Operations<Part>, out: &mut Out) {
        self.go_on(array, operations, out);
        self.behind.are_short(self.copies.frames.take_short());
        let Copies { frames, geometry, .. } = &self.copies;
        let zone = &self.deltas.zone;
        // A write counts when it is done: its delta is to find room before what it makes due begins.
        let dirty = (frames.stale() + zone.pages()).saturating_sub(self.hits.pages());
        let owed = Owed { all: dirty, of_page: 1, deltas: zone.of_sets() };
        self.behind.turn(frames, owed, geometry, array, out);
    }

    fn event(&mut self, event: Event<'_>, _: &mut Array, out: &mut Out) {
        match event {
            Event::Timer(behind::IDLE) => self.behind.timer(out),
            Event::Control(_) => self.behind.hurry(),
            _ => {}
        }
    }

    fn step_done(&mut self, op: OpId, step: StepNo, outcome: StepOutcome) -> bool {
        self.hits.step_done(op, step, outcome, &mut self.deltas)
    }

    fn read(
        &mut self,
        op: OpId,
        pages: Pages<'_>,
        dst: Buf,
        array: &mut Array,
        out: &mut Out,
    ) -> Result<StepSet, Degraded> {
        self.behind.asked(out.now());
        self.copies.read_by(op, pages, dst, array, &mut self.deltas, out)
    }

    fn read_segment(
        &mut self,
        op: OpId,
        frag: &Frag,
        seg: Seg,
        dst: Buf,
        array: &mut Array,
        out: &mut Out,
    ) -> Result<StepSet, Lost> {
        match self.copies.read_cached(op, frag, seg, dst, array, &mut self.deltas, out) {
            Some(done) => Ok(done),
            None => array.plan_read_seg(op, seg, frag.page, dst, self, out),
        }
    }

    fn write(
        &mut self,
        op: OpId,
        write: Write<'_>,
        array: &mut Array,
        operations: &mut Operations<Part>,
        out: &mut Out,
    ) -> Option<StepSet> {
        self.behind.asked(out.now());
        let count = self.hits.work(op).hits.len() as u64;
        if count == 0 {
            return Some(self.copies.write_with(op, write, array, operations, out));
        }
        self.copies.counts.write_hits += count;
        let new = |page| match write.frag.sectors {
            Some(_) => (write.merged, write.after),
            None => (write.frag.host((page - write.frag.page) as u16), StepSet::EMPTY),
        };
        self.hits.encode(op, new, &self.copies, out);
        None
    }

    fn write_failed(&mut self, seg: Seg, array: &Array) {
        self.copies.write_failed(seg, array);
    }

    fn plan_part(&mut self, op: OpId, part: Part, array: &mut Array, out: &mut Out) {
        match part {
            Part::Fill(frag) => self.copies.plan_part(op, frag, array, out),
            Part::Commit => self.plan_commit(op, out),
            Part::Free => {
                let (_, slots) = self.free.as_ref().expect("slots are being freed");
                let frees: List = out.slots(op, slots);
                out.step(op, Step::NvCommit { puts: PutList::EMPTY, frees }, StepSet::EMPTY);
                out.close(op);
            }
        }
    }

    fn drain(&mut self, _: &mut Out) {
        self.behind.drain();
    }

    fn undone(&mut self, op: OpId) {
        self.drop_work(op);
        self.copies.undone(op);
    }

    fn done(&mut self, op: OpId) {
        *of(&mut self.planned, op) = false;
        self.copies.done(op);
        if let Some((_, page)) = self.commit.take_if(|(commit, _)| *commit == op) {
            self.committed(page);
        } else if let Some((_, slots)) = self.free.take_if(|(free, _)| *free == op) {
            self.hits.freed.extend(slots);
        } else if !self.behind.done(op, &self.copies.frames) {
            self.hits.done(op, &mut self.copies, &mut self.deltas);
        }
    }

    fn is_caching(&self) -> bool {
        self.copies.is_caching()
    }

    fn counts(&self) -> Option<&CacheCounts> {
        self.copies.counts()
    }

    fn figures(&self, into: &mut Vec<u64>) {
        let hits = &self.hits;
        into.extend([self.behind.updated_rows, hits.staged, hits.staged_bytes, hits.raw, self.commits, self.no_room]);
    }
}
