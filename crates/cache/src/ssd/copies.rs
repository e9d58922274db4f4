//! Caches of copies: their loss, at any moment, costs nothing but speed (WT and WA, specs §9.1).
//!
//! Whether a page is a hit is decided when the operation's claim holds. A write goes to the array
//! and, if the cache keeps what is written, to the cache at the same time, and is acknowledged when
//! both are done; a read that misses is acknowledged when it was read, and written to the cache
//! afterwards.

use std::marker::PhantomData;
use std::num::NonZeroU32;

use destage_plan::{Buf, ColumnSet, Dev, DevSet, Frag, HostOp, OpId, Out, ParamSpec, Params, Row, Rows, Step, StepSet};
use destage_raid::Geometry;
use destage_raid::array::{Array, ArrayConfig, Degraded, Lost, Seg, Versions};

use super::behind::page_of;
use super::frames::{BYTES_PER_PAGE, Frame, Frames, MAX_PAGES};
use crate::{CacheCounts, HostCache, HostCacheError, HostCacheInfo, Medium, Operations, Pages, Registered, Write};

/// Pages that one operation looks up: it has 64 steps, and a page may take a read and a write.
const READ_PAGES: u16 = 16;
/// Pages that one operation writes to the cache.
const FILL_PAGES: usize = 32;

pub(super) const WAYS: ParamSpec = ParamSpec {
    name: "ways",
    // As EnhanceIO has it.
    default: "512",
    values: "1 to 2^32 - 1",
    unit: "pages",
    help: "pages of a set; the data pages of a parity row fall into the same set",
};

/// How the newest version of a page is read from the frame that it is found by.
pub(crate) trait FrameReader {
    /// Plans the read; the steps after which the page is in `dst`.
    fn read(&mut self, op: OpId, frame: Frame, dst: Buf, frames: &mut Frames, out: &mut Out) -> StepSet;
}

/// It is in the frame.
pub(super) struct Whole;

impl FrameReader for Whole {
    fn read(&mut self, op: OpId, frame: Frame, dst: Buf, frames: &mut Frames, out: &mut Out) -> StepSet {
        out.step(op, Step::Read { ext: frames.ext(frame), dst }, StepSet::EMPTY)
    }
}

/// What becomes of what is written.
pub trait Writes: Send + 'static {
    /// Whether it is kept; if not, an older copy is dropped.
    const KEPT: bool;
    /// Name, title and paper of the cache.
    const NAMES: [&'static str; 3];
}

/// A cache of copies.
pub struct Copies<W> {
    pub(super) frames: Frames,
    pub(super) geometry: Geometry,
    /// The frames that each operation uses, with the page of its fragment that is written to each.
    used: Vec<Vec<(Frame, u16)>>,
    pub(super) counts: CacheCounts,
    writes: PhantomData<W>,
}

impl<W: Writes> Registered for Copies<W> {
    const INFO: HostCacheInfo = HostCacheInfo {
        medium: Medium::Device,
        max_pages: MAX_PAGES,
        bytes_per_page: BYTES_PER_PAGE,
        params: &[WAYS],
        // Two sets, so that both lookup and eviction matter.
        small: |pages| vec![(WAYS.name, (pages / 2).max(1).to_string())],
        ..HostCacheInfo::new::<Self>(W::NAMES[0], W::NAMES[1], W::NAMES[2])
    };

    fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Self, HostCacheError> {
        let ways: NonZeroU32 = params.number(WAYS.name, ..)?;
        let geometry = array.geometry.clone();
        let frames = Frames::new(Dev(geometry.members()), pages, ways);
        Ok(Self { frames, geometry, used: Vec::new(), counts: CacheCounts::default(), writes: PhantomData })
    }
}

impl<W: Writes> Copies<W> {
    pub(super) fn row(&self, page: u64) -> Row {
        let place = self.geometry.locate(page);
        self.geometry.row(place.stripe, place.row_in_chunk)
    }

    fn uses(&mut self, op: OpId, frame: Frame, page: u16) {
        if self.used.len() <= op.index() {
            self.used.resize_with(op.index() + 1, Vec::new);
        }
        self.used[op.index()].push((frame, page));
    }

    /// Plans the read of a page that the cache has.
    fn hit(
        &mut self,
        op: OpId,
        frame: Frame,
        page: u16,
        dst: Buf,
        reader: &mut impl FrameReader,
        out: &mut Out,
    ) -> StepSet {
        self.frames.pin(frame);
        self.uses(op, frame, page);
        self.counts.read_hits += 1;
        reader.read(op, frame, dst, &mut self.frames, out)
    }

    /// Pages are written by an operation that is planned anew, or gone on with: the cache may have them
    /// already as they will be, and that is not what the parity covers.
    pub(super) fn distrust(&mut self, rows: Rows, columns: ColumnSet) {
        for (row, column) in rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column))) {
            let page = page_of(&self.geometry, row, column);
            if !self.is_stale(page) {
                self.frames.drop_page(page);
            }
        }
    }

    fn fill_after_read(&mut self, op: OpId, frag: &Frag, page: u16, src: Buf, after: StepSet, out: &mut Out) {
        let lpn = frag.page + u64::from(page);
        // Another read may be filling it.
        if self.frames.contains(lpn) {
            return;
        }
        if let Some(frame) = self.frames.fill(lpn, self.row(lpn)) {
            self.uses(op, frame, page);
            self.counts.read_fills += 1;
            out.step(op, Step::Write { ext: self.frames.ext(frame), src, fua: false }, after);
        }
    }

    /// Opens operations that write the pages of a segment to the cache.
    fn fill_after_write<P: Copy + From<Frag>>(
        &mut self,
        op: OpId,
        write: Write<'_>,
        array: &Array,
        operations: &mut Operations<P>,
        out: &mut Out,
    ) {
        let mut filling: Option<OpId> = None;
        for page in array.pages_of(write.seg) {
            self.count_write(page);
            // What the parity is behind of goes when it is written.
            if self.is_stale(page) {
                continue;
            }
            let Some(frame) = self.frames.fill(page, self.row(page)) else { continue };
            self.counts.write_fills += 1;
            let part = match filling {
                Some(part) if self.used[part.index()].len() < FILL_PAGES => part,
                _ => operations.open_part(op, (*write.frag).into(), out),
            };
            filling = Some(part);
            self.uses(part, frame, (page - write.frag.page) as u16);
        }
    }

    /// Plans the part of a write that writes its pages to the cache.
    pub(super) fn plan_fills(&self, op: OpId, frag: Frag, out: &mut Out) {
        for (frame, page) in &self.used[op.index()] {
            let step = Step::Write { ext: self.frames.ext(*frame), src: frag.host(*page), fua: false };
            out.step(op, step, StepSet::EMPTY);
        }
        out.close(op);
    }

    pub(super) fn count_write(&mut self, page: u64) {
        if self.frames.contains(page) {
            self.counts.write_hits += 1;
        } else {
            self.counts.write_misses += 1;
        }
    }

    fn is_stale(&self, page: u64) -> bool {
        self.frames.get(page).is_some_and(|frame| self.frames.is_stale(frame))
    }

    /// The cache no longer has what the array holds of the segment, unless the parity is behind of that.
    fn drop_pages(&mut self, seg: Seg, array: &Array) {
        for page in array.pages_of(seg) {
            if !self.is_stale(page) {
                self.frames.drop_page(page);
            }
        }
    }

    /// Plans the read of a segment from the cache, if all of it is there; the steps.
    #[expect(clippy::too_many_arguments, reason = "a read's place and destination are that many things")]
    pub(super) fn read_cached(
        &mut self,
        op: OpId,
        frag: &Frag,
        seg: Seg,
        dst: Buf,
        array: &Array,
        reader: &mut impl FrameReader,
        out: &mut Out,
    ) -> Option<StepSet> {
        let count = seg.pages();
        let cached = |page| self.frames.get(page).is_some();
        if count > READ_PAGES || !array.pages_of(seg).all(cached) {
            self.counts.read_misses += u64::from(count);
            return None;
        }
        let pages = Pages { frag, from: 0, count };
        let mut done = StepSet::EMPTY;
        for page in array.pages_of(seg) {
            let frame = self.frames.get(page).expect("all pages are cached");
            let offset = (page - frag.page) as u16;
            done |= self.hit(op, frame, offset, pages.in_fragment(dst, offset), reader, out);
        }
        Some(done)
    }

    /// Reads what the cache has from it, the rest from the array and into the cache.
    pub(super) fn read_by(
        &mut self,
        op: OpId,
        pages: Pages<'_>,
        dst: Buf,
        array: &mut Array,
        reader: &mut impl FrameReader,
        out: &mut Out,
    ) -> Result<StepSet, Degraded> {
        let count = usize::from(pages.count);
        // Hits are pinned before misses look for frames: theirs are not to be taken.
        let mut hits = [None; READ_PAGES as usize];
        for (hit, page) in hits[..count].iter_mut().zip(pages.first()..) {
            *hit = self.frames.get(page);
        }
        let runs = || hits[..count].chunk_by(|a, b| a.is_some() == b.is_some());
        let mut page = pages.first();
        for run in runs() {
            if run[0].is_none() {
                array.check_whole(page, run.len() as u16)?;
            }
            page += run.len() as u64;
        }
        let mut done = StepSet::EMPTY;
        for (hit, page) in hits[..count].iter().zip(pages.from..) {
            if let Some(frame) = *hit {
                done |= self.hit(op, frame, page, pages.in_fragment(dst, page), reader, out);
            }
        }
        let mut page = pages.from;
        for run in runs() {
            let len = run.len() as u16;
            if run[0].is_none() {
                let at = |page| pages.in_fragment(dst, page);
                let read = array.plan_read(op, pages.frag.page + u64::from(page), len, at(page), out)?;
                for page in page..page + len {
                    self.fill_after_read(op, pages.frag, page, at(page), read, out);
                }
                self.counts.read_misses += u64::from(len);
                done |= read;
            }
            page += len;
        }
        Ok(done)
    }

    /// Plans what becomes of what is written with its parity; the steps after which that is done.
    pub(super) fn write_with<P: Copy + From<Frag>>(
        &mut self,
        op: OpId,
        write: Write<'_>,
        array: &mut Array,
        operations: &mut Operations<P>,
        out: &mut Out,
    ) -> StepSet {
        let frag = write.frag;
        let mut after = write.after;
        if frag.op != HostOp::Write {
            self.drop_pages(write.seg, array);
        } else if !W::KEPT {
            if !write.again {
                array.pages_of(write.seg).for_each(|page| self.count_write(page));
            }
            self.drop_pages(write.seg, array);
        } else if frag.sectors.is_some() {
            // An earlier plan may have had a frame.
            self.release(op, Frames::undone);
            self.count_write(frag.page);
            if self.is_stale(frag.page) {
                return after;
            }
            if let Some(frame) = self.frames.fill(frag.page, self.row(frag.page)) {
                self.uses(op, frame, 0);
                self.counts.write_fills += 1;
                let step = Step::Write { ext: self.frames.ext(frame), src: write.merged, fua: false };
                after |= out.step(op, step, after);
            }
        } else if !write.again {
            self.fill_after_write(op, write, array, operations, out);
        }
        after
    }

    fn release(&mut self, op: OpId, how: impl Fn(&mut Frames, Frame)) {
        if let Some(used) = self.used.get_mut(op.index()) {
            used.drain(..).for_each(|(frame, _)| how(&mut self.frames, frame));
        }
    }
}

/// It has copies of what is on the members, and nothing else.
impl<W: Writes> Versions for Copies<W> {}

impl<W: Writes> HostCache for Copies<W> {
    /// Writes pages of the fragment to the cache.
    type Part = Frag;

    const READ_PAGES: u16 = READ_PAGES;

    fn lose(&mut self, devs: DevSet) {
        if devs.contains(self.frames.dev()) {
            self.frames.lose();
        }
    }

    fn replaced(&mut self, dev: Dev) {
        if dev == self.frames.dev() {
            self.frames.replace();
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
        self.read_by(op, pages, dst, array, &mut Whole, out)
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
        match self.read_cached(op, frag, seg, dst, array, &mut Whole, out) {
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
        Some(self.write_with(op, write, array, operations, out))
    }

    fn write_failed(&mut self, seg: Seg, array: &Array) {
        self.drop_pages(seg, array);
    }

    fn plan_part(&mut self, op: OpId, frag: Frag, _: &mut Array, out: &mut Out) {
        self.plan_fills(op, frag, out);
    }

    fn undone(&mut self, op: OpId) {
        self.release(op, Frames::undone);
    }

    fn done(&mut self, op: OpId) {
        self.release(op, Frames::done);
    }

    fn is_caching(&self) -> bool {
        self.frames.is_enabled()
    }

    fn counts(&self) -> Option<&CacheCounts> {
        Some(&self.counts)
    }
}
