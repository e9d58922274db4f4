//! `LeavO`: a write of a page that the cache has goes to a new page of the cache and to its member, and the
//! parity stays as it is; the old page is kept, since it is what the parity covers (specs §9.2).
//!
//! Nothing that it knows outlives a cut: the rows that it has left behind have their intents open, and
//! their parity is made anew from what the members hold.

use destage_plan::{
    Buf, Column, ColumnSet, Dev, DevSet, Event, Frag, HostOp, OpId, Out, Params, Row, Rows, Step, StepSet,
};
use destage_raid::Level;
use destage_raid::array::{Approach, Array, ArrayConfig, Degraded, Lost, Seg, Source, Sources, Updated, Versions};

use super::behind::{self, Behind, Owed, page_of};
use super::copies::{Copies, WAYS, Whole};
use super::frames::{BYTES_PER_PAGE, Frame, Frames, MAX_PAGES};
use super::of;
use super::write_through::Through;
use crate::{
    CacheCounts, CacheFigure, HostCache, HostCacheError, HostCacheInfo, Medium, Operations, Pages, Registered, Write,
};

/// Pages of a write whose parity is left behind: an operation has 64 steps.
const MAX_DELAYED: usize = 16;

const IN_PLACE: CacheFigure =
    CacheFigure { name: "in_place", unit: "pages", meaning: "newest versions written over for want of a free page" };
const NO_ROOM: CacheFigure = CacheFigure {
    name: "no_room",
    unit: "pages",
    meaning: "pages that were in the cache and were written with their parity, for want of a free page",
};
const CLEANED: CacheFigure =
    CacheFigure { name: "cleaned_rows", unit: "rows", meaning: "times that the parity of a row was made to catch up" };

/// A page that an operation writes.
#[derive(Clone, Copy)]
struct Renewal {
    page: u64,
    /// Where its newest version goes; none: over the one before.
    fresh: Option<Frame>,
}

/// The cache.
pub struct Leavo {
    copies: Copies<Through>,
    behind: Behind,
    /// What each operation writes whose parity is left behind.
    renewals: Vec<Vec<Renewal>>,
    /// The frames that each operation was told of.
    named: Vec<Vec<Frame>>,
    /// Whether an operation has been planned before.
    planned: Vec<bool>,
    in_place: u64,
    no_room: u64,
}

impl Registered for Leavo {
    const INFO: HostCacheInfo = HostCacheInfo {
        medium: Medium::Device,
        serves: |level| matches!(level, Level::Raid4 | Level::Raid5 | Level::Raid6),
        max_pages: MAX_PAGES,
        bytes_per_page: BYTES_PER_PAGE,
        delays_parity: true,
        unsynchronised: Some("what it leaves for later is parity, which is updated row by row"),
        params: &[WAYS, behind::HIGH, behind::LOW, behind::SET_LOW, behind::IDLE_AFTER],
        figures: &[CLEANED, IN_PLACE, NO_ROOM],
        // Two sets, so that both lookup and eviction matter, and rows that are cleaned soon.
        small: |pages| {
            let idle = (behind::IDLE_AFTER.name, "2ms".to_owned());
            vec![(WAYS.name, (pages / 2).max(1).to_string()), (behind::HIGH.name, "60".to_owned()), idle]
        },
        ..HostCacheInfo::new::<Self>(
            "leavo",
            "old and new versions side by side: the parity of what is written again is updated later",
            "LeavO in KDD",
        )
    };

    fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Self, HostCacheError> {
        let copies = Copies::new(pages, array, params)?;
        let behind = Behind::new(&copies.frames, params)?;
        Ok(Self {
            copies,
            behind,
            renewals: Vec::new(),
            named: Vec::new(),
            planned: Vec::new(),
            in_place: 0,
            no_room: 0,
        })
    }
}

impl Leavo {
    fn frames(&mut self) -> &mut Frames {
        &mut self.copies.frames
    }

    fn renewals(&mut self, op: OpId) -> &mut Vec<Renewal> {
        of(&mut self.renewals, op)
    }

    /// What was planned of a write whose parity is left behind will not come about.
    fn drop_renewals(&mut self, op: OpId) {
        while let Some(renewal) = self.renewals(op).pop() {
            if let Some(fresh) = renewal.fresh {
                self.frames().undone(fresh);
            }
        }
    }

    /// Finds room for the newest versions of pages that the cache has; whether there is.
    fn make_room(&mut self, op: OpId, pages: &[(Row, Column, u64)]) -> bool {
        let mut found = [None; MAX_DELAYED];
        for (found, &(_, _, page)) in found.iter_mut().zip(pages) {
            let Some(frame) = self.copies.frames.get(page) else { return false };
            *found = Some(frame);
        }
        let found = &found[..pages.len()];
        // None of them is to make room for another.
        found.iter().flatten().for_each(|frame| self.frames().pin(*frame));
        let mut enough = true;
        for (frame, &(row, _, page)) in found.iter().flatten().zip(pages) {
            let fresh = self.frames().take(row);
            if fresh.is_none() {
                // The version that the parity covers has to stay.
                enough = self.copies.frames.covered(*frame) != *frame;
            }
            if !enough {
                self.no_room += 1;
                break;
            }
            self.renewals(op).push(Renewal { page, fresh });
        }
        found.iter().flatten().for_each(|frame| self.frames().done(*frame));
        if !enough {
            self.drop_renewals(op);
        }
        enough
    }
}

impl Versions for Leavo {
    fn approach(&mut self, op: OpId, host: HostOp, seg: Seg, rows: Rows, may_delay: bool) -> Approach {
        self.drop_renewals(op);
        if std::mem::replace(of(&mut self.planned, op), true) {
            self.copies.distrust(rows, seg.columns);
        }
        let few = seg.rows * seg.columns.len() <= MAX_DELAYED as u32;
        if may_delay && host == HostOp::Write && few && rows.count == seg.rows && self.is_caching() {
            let mut pages = [(Row(0), Column(0), 0); MAX_DELAYED];
            let count = self.copies.places(rows, seg.columns, &mut pages);
            if self.make_room(op, &pages[..count]) {
                for &(row, column, page) in &pages[..count] {
                    let frames = &mut self.copies.frames;
                    let frame = frames.get(page).expect("it was found before");
                    if !frames.is_stale(frame) {
                        frames.leave_behind(frame);
                    }
                    self.behind.leave(row, column, frames);
                }
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
            // Until the first newer version is in the cache, the member may hold any part of it.
            if let Some(frame) = frame {
                sources.set_newest(column, Source::Page(frames.ext(frame)));
            }
            if stale.columns.contains(column) {
                let known = frame.filter(|_| !stale.lost.contains(column));
                let covered = known.map_or(Source::Lost, |frame| Source::Page(frames.ext(frames.covered(frame))));
                sources.set_stale(column, covered);
            }
        }
        sources
    }

    fn uses(&mut self, op: OpId, row: Row) {
        if self.behind.get(row).is_none() {
            return;
        }
        let named = of(&mut self.named, op);
        let Copies { frames, geometry, .. } = &mut self.copies;
        for column in geometry.data_set().iter() {
            let Some(frame) = frames.get(page_of(geometry, row, column)) else { continue };
            let covered = frames.covered(frame);
            for frame in [Some(frame), (covered != frame).then_some(covered)].into_iter().flatten() {
                frames.hold(frame);
                named.push(frame);
            }
        }
    }

    fn released(&mut self, op: OpId) {
        while let Some(frame) = of(&mut self.named, op).pop() {
            self.frames().done(frame);
        }
    }

    fn written(&mut self, _: OpId, rows: Rows, columns: ColumnSet, updated: Updated) {
        for row in rows.iter() {
            let covered = self.behind.written(row, columns, updated, &self.copies.frames);
            for column in covered.iter() {
                let frames = &mut self.copies.frames;
                let Some(frame) = frames.get(page_of(&self.copies.geometry, row, column)) else { continue };
                if columns.contains(column) || frames.covered(frame) == frame {
                    frames.forget(frame);
                } else {
                    frames.cover(frame);
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
        self.behind.is_clean()
    }
}

impl HostCache for Leavo {
    type Part = Frag;

    const READ_PAGES: u16 = <Copies<Through> as HostCache>::READ_PAGES;

    fn lose(&mut self, devs: DevSet) {
        if devs.contains(self.copies.frames.dev()) && self.is_caching() {
            self.copies.lose(devs);
            self.behind.lose_covered();
        }
        if !devs.is_empty() {
            self.behind.hurry();
        }
    }

    fn replaced(&mut self, dev: Dev) {
        if dev == self.copies.frames.dev() {
            self.copies.replaced(dev);
            self.behind.lose_covered();
            self.behind.hurry();
        }
    }

    fn turn(&mut self, array: &mut Array, _: &mut Operations<Frag>, out: &mut Out) {
        self.behind.are_short(self.copies.frames.take_short());
        let Copies { frames, geometry, .. } = &self.copies;
        let owed = Owed { all: frames.stale(), of_page: 2, deltas: &[] };
        self.behind.turn(frames, owed, geometry, array, out);
    }

    fn event(&mut self, event: Event<'_>, _: &mut Array, out: &mut Out) {
        match event {
            Event::Timer(behind::IDLE) => self.behind.timer(out),
            Event::Control(_) => self.behind.hurry(),
            _ => {}
        }
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
        self.copies.read(op, pages, dst, array, out)
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
        match self.copies.read_cached(op, frag, seg, dst, array, &mut Whole, out) {
            Some(done) => Ok(done),
            None => array.plan_read_seg(op, seg, frag.page, dst, self, out),
        }
    }

    fn write(
        &mut self,
        op: OpId,
        write: Write<'_>,
        array: &mut Array,
        operations: &mut Operations<Frag>,
        out: &mut Out,
    ) -> Option<StepSet> {
        self.behind.asked(out.now());
        let Self { copies, renewals, .. } = self;
        let Some(renewals) = renewals.get(op.index()).filter(|renewals| !renewals.is_empty()) else {
            return self.copies.write(op, write, array, operations, out);
        };
        let mut after = write.after;
        for renewal in renewals {
            copies.counts.write_hits += 1;
            copies.counts.write_fills += 1;
            let frame = renewal.fresh.or_else(|| copies.frames.get(renewal.page)).expect("a stale page is found");
            let src = match write.frag.sectors {
                Some(_) => write.merged,
                None => write.frag.host((renewal.page - write.frag.page) as u16),
            };
            let step = Step::Write { ext: copies.frames.ext(frame), src, fua: false };
            after |= out.step(op, step, write.after);
        }
        Some(after)
    }

    fn write_failed(&mut self, seg: Seg, array: &Array) {
        self.copies.write_failed(seg, array);
    }

    fn plan_part(&mut self, op: OpId, frag: Frag, array: &mut Array, out: &mut Out) {
        self.copies.plan_part(op, frag, array, out);
    }

    fn drain(&mut self, _: &mut Out) {
        self.behind.drain();
    }

    fn undone(&mut self, op: OpId) {
        self.drop_renewals(op);
        self.copies.undone(op);
    }

    fn done(&mut self, op: OpId) {
        *of(&mut self.planned, op) = false;
        self.copies.done(op);
        if self.behind.done(op, &self.copies.frames) {
            return;
        }
        while let Some(renewal) = self.renewals(op).pop() {
            match (renewal.fresh, self.copies.frames.get(renewal.page)) {
                (Some(fresh), Some(stale)) => self.frames().renew(stale, fresh),
                (Some(fresh), None) => self.frames().undone(fresh),
                (None, _) => self.in_place += 1,
            }
        }
    }

    fn is_caching(&self) -> bool {
        self.copies.is_caching()
    }

    fn counts(&self) -> Option<&CacheCounts> {
        self.copies.counts()
    }

    fn figures(&self, into: &mut Vec<u64>) {
        into.extend([self.behind.updated_rows, self.in_place, self.no_room]);
    }
}
