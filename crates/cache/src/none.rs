//! No cache: every request goes to the array ("Nossd", specs §9.1).

use destage_plan::{Class, Controller, Event, Frag, HostOp, OpId, Out, Step, StepSet};
use destage_raid::array::{Array, ArrayConfig, ArrayError, Lost, Next, Seg};

/// What an operation is for.
#[derive(Clone, Copy)]
enum Kind {
    Read(Frag),
    ReadSeg(Frag, Seg),
    /// A write of so many pages.
    Write(Frag, u16),
    /// Pages that need nothing done.
    Skip(Frag, u16),
}

/// Serves an array as it is.
pub struct NoCache {
    array: Array,
    kinds: Vec<Option<Kind>>,
}

impl NoCache {
    /// Serves this array.
    pub fn new(config: ArrayConfig) -> Result<Self, ArrayError> {
        Ok(Self { array: Array::new(config)?, kinds: Vec::new() })
    }

    /// The array.
    pub const fn array(&self) -> &Array {
        &self.array
    }

    fn set(&mut self, op: OpId, kind: Kind) {
        if self.kinds.len() <= op.index() {
            self.kinds.resize(op.index() + 1, None);
        }
        self.kinds[op.index()] = Some(kind);
    }

    fn submit(&mut self, frag: Frag, out: &mut Out) {
        match frag.op {
            HostOp::Flush => {
                self.array.open_flush(Some(&frag), out);
            }
            HostOp::Read => {
                let op = out.open(Class::Read, Some(self.array.claim_read(frag.page, frag.pages)), Some(frag.id));
                self.set(op, Kind::Read(frag));
            }
            HostOp::Write | HostOp::WriteZeroes | HostOp::Discard => {
                let mut skipped = 0;
                for seg in self.array.segments(frag.page, frag.pages) {
                    let pages = seg.pages();
                    if frag.op == HostOp::Discard && !self.array.can_trim(seg) {
                        skipped += pages;
                        continue;
                    }
                    let op = self.array.open_write(&frag, seg, out);
                    self.set(op, Kind::Write(frag, pages));
                }
                if skipped > 0 {
                    let op = out.open(Class::Internal, None, Some(frag.id));
                    self.set(op, Kind::Skip(frag, skipped));
                }
            }
        }
    }

    fn granted(&mut self, op: OpId, out: &mut Out) {
        match self.kinds[op.index()].expect("the operation is known") {
            Kind::Read(frag) => {
                let dst = if frag.sectors.is_some() { out.tmp(op, 1) } else { frag.host(0) };
                if let Ok(done) = self.array.plan_read(op, frag.page, frag.pages, dst, out) {
                    return finish_read(op, &frag, dst, frag.pages, done, out);
                }
                for seg in self.array.segments(frag.page, frag.pages) {
                    let claim = self.array.claim_read_seg(seg);
                    let part = out.open(Class::Read, Some(claim), Some(frag.id));
                    self.set(part, Kind::ReadSeg(frag, seg));
                }
                out.close(op);
            }
            Kind::ReadSeg(frag, seg) => {
                let dst = if frag.sectors.is_some() { out.tmp(op, 1) } else { frag.host(0) };
                match self.array.plan_read_seg(op, seg, frag.page, dst, out) {
                    Ok(done) => finish_read(op, &frag, dst, seg.pages(), done, out),
                    Err(Lost) => acknowledge(op, &frag, seg.pages(), false, StepSet::EMPTY, out),
                }
            }
            Kind::Skip(frag, pages) => acknowledge(op, &frag, pages, true, StepSet::EMPTY, out),
            Kind::Write(..) => unreachable!("the array plans writes"),
        }
    }

    fn duties(&mut self, out: &mut Out) {
        while let Some(duty) = self.array.next_duty() {
            match duty {
                Next::Finish { op, after, .. } => {
                    if let Some(Kind::Write(frag, pages)) = self.kinds[op.index()] {
                        acknowledge(op, &frag, pages, true, after, out);
                    }
                }
                Next::Fail { op } => {
                    if let Some(Kind::Write(frag, pages)) = self.kinds[op.index()] {
                        acknowledge(op, &frag, pages, false, StepSet::EMPTY, out);
                    }
                }
                Next::Ended { op } => self.kinds[op.index()] = None,
            }
        }
    }
}

impl Controller for NoCache {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        if !self.array.handle(event, out) {
            match event {
                Event::Submit(frag) => self.submit(frag, out),
                Event::Granted(op) => self.granted(op, out),
                Event::OpStuck { op, devs, .. } => {
                    self.array.lose_all(devs, out);
                    out.restart(op);
                    out.again(op);
                }
                Event::OpDone(op) => self.kinds[op.index()] = None,
                Event::Start(_)
                | Event::StepDone { .. }
                | Event::Timer(_)
                | Event::Device { .. }
                | Event::Control(_) => {}
            }
        }
        self.duties(out);
    }
}

/// Hands the sectors of a page out if only some were asked for, acknowledges, and closes.
pub(crate) fn finish_read(op: OpId, frag: &Frag, page: destage_plan::Buf, pages: u16, done: StepSet, out: &mut Out) {
    let done = match frag.sectors {
        Some(sectors) => out.step(op, Step::Slice { src: page, sectors, dst: frag.host(0) }, done),
        None => done,
    };
    acknowledge(op, frag, pages, true, done, out);
}

/// Acknowledges pages after the steps in `after`, and closes.
pub(crate) fn acknowledge(op: OpId, frag: &Frag, pages: u16, ok: bool, after: StepSet, out: &mut Out) {
    out.step(op, Step::Ack { frag: frag.id, pages, ok }, after);
    out.close(op);
}
