//! Write-through: the cache holds copies only, so that its loss, at any moment, costs nothing but speed (WT, specs §9.1).
//!
//! Whether a page is a hit is decided when the operation's claim holds. A write goes to the array and to the cache at the same time and is
//! acknowledged when both are done; a read that misses is acknowledged when it was read, and written to the cache afterwards.

use destage_plan::{Buf, Class, Controller, DeviceChange, Event, Frag, HostOp, OpId, Out, Row, Step, StepSet};
use destage_raid::array::{Array, ArrayConfig, ArrayError, Degraded, Lost, Next, Seg};

use crate::frames::{Frame, Frames};
use crate::none::{acknowledge, finish_read};
use crate::{CacheConfig, CacheConfigError};

/// Pages that one operation looks up: it has 64 steps, and a page may take a read and a write.
const READ_PAGES: u16 = 16;
/// Pages that one operation writes to the cache.
const FILL_PAGES: usize = 32;

/// Pages by what the cache had of them (specs §0.3). Counted when planned: what is planned anew since a device was lost counts again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Read from the cache.
    pub read_hits: u64,
    /// Read from the array.
    pub read_misses: u64,
    /// Written, and in the cache before.
    pub write_hits: u64,
    /// Written, and not in the cache before.
    pub write_misses: u64,
    /// Pages written to the cache after a read.
    pub read_fills: u64,
    /// Pages written to the cache by a write.
    pub write_fills: u64,
}

/// What an operation is for.
#[derive(Clone, Copy)]
enum Kind {
    /// Reads pages of a fragment, from this one on.
    Read { frag: Frag, from: u16, pages: u16 },
    /// Reads a segment of a fragment.
    ReadSeg { frag: Frag, seg: Seg },
    /// Writes a segment. `left` of its parts are not done: the array's, and the operations that fill the cache.
    Write { frag: Frag, seg: Seg, left: u32, ok: bool },
    /// Writes pages of a fragment to the cache, for the operation that writes them to the array.
    Fill { frag: Frag, parent: OpId },
    /// Pages that need nothing done.
    Skip { frag: Frag, pages: u16 },
}

/// What an operation does, and the frames that it uses.
#[derive(Default)]
struct Work {
    kind: Option<Kind>,
    /// Frames, with the page of the fragment that is written to each.
    frames: Vec<(Frame, u16)>,
}

/// Serves an array with a write-through cache in front.
pub struct WriteThrough {
    array: Array,
    frames: Frames,
    work: Vec<Work>,
    stats: CacheStats,
}

/// Why an array cannot be served so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteThroughError {
    /// Because of the array.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// Because of the cache.
    #[error(transparent)]
    Cache(#[from] CacheConfigError),
    /// The cache device is one of the members.
    #[error("device {0} cannot be a member and the cache")]
    Member(u8),
}

impl WriteThrough {
    /// Serves this array with this cache.
    pub fn new(array: ArrayConfig, cache: CacheConfig) -> Result<Self, WriteThroughError> {
        if cache.dev.0 < array.geometry.members() {
            return Err(WriteThroughError::Member(cache.dev.0));
        }
        let frames = Frames::new(cache)?;
        Ok(Self { array: Array::new(array)?, frames, work: Vec::new(), stats: CacheStats::default() })
    }

    /// The array.
    pub const fn array(&self) -> &Array {
        &self.array
    }

    /// What the cache had.
    pub const fn stats(&self) -> &CacheStats {
        &self.stats
    }

    /// Whether the cache device is in use.
    pub const fn is_caching(&self) -> bool {
        self.frames.is_enabled()
    }

    fn set(&mut self, op: OpId, kind: Kind) {
        if self.work.len() <= op.index() {
            self.work.resize_with(op.index() + 1, Work::default);
        }
        self.work[op.index()].kind = Some(kind);
    }

    fn row(&self, page: u64) -> Row {
        let geometry = &self.array.config().geometry;
        let place = geometry.locate(page);
        geometry.row(place.stripe, place.row_in_chunk)
    }

    fn submit(&mut self, frag: Frag, out: &mut Out) {
        match frag.op {
            HostOp::Flush => {
                self.array.open_flush(Some(&frag), out);
            }
            HostOp::Read => {
                for from in (0..frag.pages).step_by(READ_PAGES.into()) {
                    let pages = (frag.pages - from).min(READ_PAGES);
                    let claim = self.array.claim_read(frag.page + u64::from(from), pages);
                    let op = out.open(Class::Read, Some(claim), Some(frag.id));
                    self.set(op, Kind::Read { frag, from, pages });
                }
            }
            HostOp::Write | HostOp::WriteZeroes | HostOp::Discard => {
                let mut skipped = 0;
                for seg in self.array.segments(frag.page, frag.pages) {
                    if frag.op == HostOp::Discard && !self.array.can_trim(seg) {
                        skipped += seg.pages();
                        continue;
                    }
                    let op = self.array.open_write(&frag, seg, out);
                    self.set(op, Kind::Write { frag, seg, left: 0, ok: true });
                }
                if skipped > 0 {
                    let op = out.open(Class::Internal, None, Some(frag.id));
                    self.set(op, Kind::Skip { frag, pages: skipped });
                }
            }
        }
    }

    fn granted(&mut self, op: OpId, out: &mut Out) {
        match self.work[op.index()].kind.expect("the operation is known") {
            Kind::Read { frag, from, pages } => {
                if self.read(op, &frag, from, pages, out).is_err() {
                    for seg in self.array.segments(frag.page + u64::from(from), pages) {
                        let claim = self.array.claim_read_seg(seg);
                        let part = out.open(Class::Read, Some(claim), Some(frag.id));
                        self.set(part, Kind::ReadSeg { frag, seg });
                    }
                    out.close(op);
                }
            }
            Kind::ReadSeg { frag, seg } => self.read_seg(op, &frag, seg, out),
            Kind::Fill { frag, .. } => {
                for (frame, page) in &self.work[op.index()].frames {
                    let step = Step::Write { ext: self.frames.ext(*frame), src: frag.host(*page), fua: false };
                    out.step(op, step, StepSet::EMPTY);
                }
                out.close(op);
            }
            Kind::Skip { frag, pages } => acknowledge(op, &frag, pages, true, StepSet::EMPTY, out),
            Kind::Write { .. } => unreachable!("the array plans writes"),
        }
    }

    /// Reads what the cache has from it, the rest from the array and into the cache.
    fn read(&mut self, op: OpId, frag: &Frag, from: u16, pages: u16, out: &mut Out) -> Result<(), Degraded> {
        // Hits are pinned before misses look for frames: theirs are not to be taken.
        let mut hits = [None; READ_PAGES as usize];
        for page in 0..pages {
            hits[usize::from(page)] = self.frames.get(frag.page + u64::from(from + page));
        }
        let runs = || hits[..usize::from(pages)].chunk_by(|a, b| a.is_some() == b.is_some());
        let mut page = frag.page + u64::from(from);
        for run in runs() {
            if run[0].is_none() {
                self.array.check_whole(page, run.len() as u16)?;
            }
            page += run.len() as u64;
        }
        let whole = if frag.sectors.is_some() { out.tmp(op, 1) } else { frag.host(0) };
        let at = |page: u16| match whole {
            Buf::Host { frag, .. } => Buf::Host { frag, page },
            tmp => tmp,
        };
        let mut done = StepSet::EMPTY;
        for page in from..from + pages {
            if let Some(frame) = hits[usize::from(page - from)] {
                self.hit(op, frame, page);
                done |= out.step(op, Step::Read { ext: self.frames.ext(frame), dst: at(page) }, StepSet::EMPTY);
                self.stats.read_hits += 1;
            }
        }
        let mut page = from;
        for run in runs() {
            let len = run.len() as u16;
            if run[0].is_none() {
                let read = self.array.plan_read(op, frag.page + u64::from(page), len, at(page), out)?;
                for page in page..page + len {
                    self.fill_after_read(op, frag, page, at(page), read, out);
                }
                self.stats.read_misses += u64::from(len);
                done |= read;
            }
            page += len;
        }
        finish_read(op, frag, whole, pages, done, out);
        Ok(())
    }

    /// Reads a segment of an array that has lost a member.
    fn read_seg(&mut self, op: OpId, frag: &Frag, seg: Seg, out: &mut Out) {
        let pages = seg.pages();
        let dst = if frag.sectors.is_some() { out.tmp(op, 1) } else { frag.host(0) };
        let cached = |page| self.frames.get(page).is_some();
        if pages <= READ_PAGES && self.array.pages_of(seg).all(cached) {
            let mut done = StepSet::EMPTY;
            for page in self.array.pages_of(seg) {
                let frame = self.frames.get(page).expect("all pages are cached");
                let offset = (page - frag.page) as u16;
                self.hit(op, frame, offset);
                let dst = if frag.sectors.is_some() { dst } else { frag.host(offset) };
                done |= out.step(op, Step::Read { ext: self.frames.ext(frame), dst }, StepSet::EMPTY);
            }
            self.stats.read_hits += u64::from(pages);
            return finish_read(op, frag, dst, pages, done, out);
        }
        match self.array.plan_read_seg(op, seg, frag.page, dst, out) {
            Ok(done) => {
                self.stats.read_misses += u64::from(pages);
                finish_read(op, frag, dst, pages, done, out);
            }
            Err(Lost) => acknowledge(op, frag, pages, false, StepSet::EMPTY, out),
        }
    }

    fn hit(&mut self, op: OpId, frame: Frame, page: u16) {
        self.frames.pin(frame);
        self.work[op.index()].frames.push((frame, page));
    }

    fn fill_after_read(&mut self, op: OpId, frag: &Frag, page: u16, src: Buf, after: StepSet, out: &mut Out) {
        let lpn = frag.page + u64::from(page);
        // Another read may be filling it.
        if self.frames.contains(lpn) {
            return;
        }
        if let Some(frame) = self.frames.fill(lpn, self.row(lpn)) {
            self.work[op.index()].frames.push((frame, page));
            self.stats.read_fills += 1;
            out.step(op, Step::Write { ext: self.frames.ext(frame), src, fua: false }, after);
        }
    }

    /// The array's part of a write is planned: the cache's is added.
    fn finish_write(&mut self, op: OpId, after: StepSet, merged: Buf, out: &mut Out) {
        let Some(Kind::Write { frag, seg, left, ok }) = self.work[op.index()].kind else {
            unreachable!("the operation is a write")
        };
        let mut after = after;
        let mut parts = left;
        if frag.op != HostOp::Write {
            self.drop_pages(seg);
        } else if frag.sectors.is_some() {
            // An earlier plan may have had a frame.
            self.release(op, Frames::undone);
            self.count_write(frag.page);
            if let Some(frame) = self.frames.fill(frag.page, self.row(frag.page)) {
                self.work[op.index()].frames.push((frame, 0));
                self.stats.write_fills += 1;
                after |= out.step(op, Step::Write { ext: self.frames.ext(frame), src: merged, fua: false }, after);
            }
        } else if left == 0 {
            parts = 1 + self.fill_after_write(op, &frag, seg, out);
        }
        if parts > 1 {
            out.step_notify(op, Step::Join, after);
            self.work[op.index()].kind = Some(Kind::Write { frag, seg, left: parts, ok });
        } else {
            acknowledge(op, &frag, seg.pages(), true, after, out);
        }
    }

    /// Opens operations that write the pages of a segment to the cache; how many.
    fn fill_after_write(&mut self, parent: OpId, frag: &Frag, seg: Seg, out: &mut Out) -> u32 {
        let mut parts = 0;
        let mut part: Option<OpId> = None;
        for page in self.array.pages_of(seg) {
            self.count_write(page);
            let Some(frame) = self.frames.fill(page, self.row(page)) else { continue };
            self.stats.write_fills += 1;
            let op = match part {
                Some(op) if self.work[op.index()].frames.len() < FILL_PAGES => op,
                _ => {
                    let op = out.open(Class::Internal, None, Some(frag.id));
                    self.set(op, Kind::Fill { frag: *frag, parent });
                    parts += 1;
                    part = Some(op);
                    op
                }
            };
            self.work[op.index()].frames.push((frame, (page - frag.page) as u16));
        }
        parts
    }

    fn count_write(&mut self, page: u64) {
        if self.frames.contains(page) {
            self.stats.write_hits += 1;
        } else {
            self.stats.write_misses += 1;
        }
    }

    /// One of the parts of a write is done.
    fn part_done(&mut self, op: OpId, out: &mut Out) {
        let Some(Kind::Write { frag, seg, left, ok }) = self.work[op.index()].kind else {
            unreachable!("the operation is a write")
        };
        self.work[op.index()].kind = Some(Kind::Write { frag, seg, left: left - 1, ok });
        if left == 1 {
            if !ok {
                self.drop_pages(seg);
            }
            acknowledge(op, &frag, seg.pages(), ok, StepSet::EMPTY, out);
        }
    }

    fn fail_write(&mut self, op: OpId, out: &mut Out) {
        let Some(Kind::Write { frag, seg, left, .. }) = self.work[op.index()].kind else {
            unreachable!("the operation is a write")
        };
        // A frame that was to be filled was not.
        self.release(op, Frames::undone);
        self.work[op.index()].kind = Some(Kind::Write { frag, seg, left: left.max(1), ok: false });
        self.part_done(op, out);
    }

    fn drop_pages(&mut self, seg: Seg) {
        for page in self.array.pages_of(seg) {
            self.frames.drop_page(page);
        }
    }

    fn release(&mut self, op: OpId, how: impl Fn(&mut Frames, Frame)) {
        for (frame, _) in self.work[op.index()].frames.drain(..) {
            how(&mut self.frames, frame);
        }
    }

    fn duties(&mut self, out: &mut Out) {
        while let Some(duty) = self.array.next_duty() {
            match duty {
                Next::Finish { op, after, merged } => self.finish_write(op, after, merged, out),
                Next::Fail { op } => self.fail_write(op, out),
                Next::Ended { op } => {
                    self.release(op, Frames::done);
                    self.work[op.index()].kind = None;
                }
            }
        }
    }
}

impl Controller for WriteThrough {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        match event {
            Event::OpStuck { devs, .. } if devs.contains(self.frames.dev()) => self.frames.lose(),
            Event::Start(start) if start.missing.contains(self.frames.dev()) => self.frames.lose(),
            _ => {}
        }
        if !self.array.handle(event, out) {
            match event {
                Event::Submit(frag) => self.submit(frag, out),
                Event::Granted(op) => self.granted(op, out),
                Event::StepDone { op, .. } => self.part_done(op, out),
                Event::OpStuck { op, devs, .. } => {
                    self.array.lose_all(devs, out);
                    self.release(op, Frames::undone);
                    if let Some(Kind::Fill { .. }) = self.work[op.index()].kind {
                        out.abandon(op);
                    } else if !out.failed_read(op) {
                        // The pages were read, and acknowledged; what failed would have filled the cache.
                        out.forgive(op);
                    } else {
                        out.restart(op);
                        out.again(op);
                    }
                }
                Event::OpDone(op) => {
                    self.release(op, Frames::done);
                    if let Some(Kind::Fill { parent, .. }) = self.work[op.index()].kind.take() {
                        self.part_done(parent, out);
                    }
                }
                Event::Device { dev, change } if dev == self.frames.dev() => match change {
                    DeviceChange::Failed => self.frames.lose(),
                    DeviceChange::Replaced => self.frames.replace(),
                },
                Event::Start(_) | Event::Timer(_) | Event::Device { .. } | Event::Control(_) => {}
            }
        }
        self.duties(out);
    }
}
