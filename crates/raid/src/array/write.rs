//! Writing a segment so that its rows stay consistent, or can be made so (specs §2.1, and the write
//! hole).

use destage_plan::{Buf, ColumnSet, DevSet, Frag, FragId, HostOp, NvSlot, OpId, Out, Rows, StepSet, Stripe};

use super::{Array, Duty, Part, Regime, Seg, Task};
use crate::{Geometry, Level, MAX_DEVICES};

/// A write of one segment.
#[derive(Debug)]
pub(super) struct WriteTask {
    frag: FragId,
    pub(super) op: HostOp,
    fua: bool,
    seg: Seg,
    part: Part,
    /// Where the fragment begins in its stripe, in pages of the stripe's data.
    begin: u32,
    /// Rows of the segment that are written.
    done: u32,
    /// Rows that the present plan writes.
    pub(super) batch: u32,
    /// The step after which the plan is to be gone on with, if there is one.
    pub(super) join: StepSet,
    /// All data of the batch as it will be, once the steps before `join` are done: a degraded write
    /// logs only when all its reads have succeeded.
    pub(super) known: Option<Box<Pages>>,
    /// Slots of the NVRAM set aside for the batch.
    pub(super) reserved: usize,
    /// Rows whose intents were begun.
    begun: Option<Rows>,
    /// A write failed; the plan goes on when the loss is noted.
    stuck: bool,
    /// All rows are written; what else the operation does is no concern of the array.
    written: bool,
    /// Slots whose pages were superseded.
    pub(super) freed: Vec<NvSlot>,
}

impl WriteTask {
    pub(super) fn new(geometry: &Geometry, frag: &Frag, seg: Seg) -> Self {
        let place = geometry.locate(frag.page);
        Self {
            frag: frag.id,
            op: frag.op,
            fua: frag.fua,
            seg,
            part: frag.sectors,
            begin: u32::from(place.column.0) * geometry.chunk_pages() + place.row_in_chunk,
            done: 0,
            batch: 0,
            join: StepSet::EMPTY,
            known: None,
            reserved: 0,
            begun: None,
            stuck: false,
            written: false,
            freed: Vec::new(),
        }
    }

    /// The step after which the plan is to be gone on with.
    pub(super) const fn goes_on_after(&self) -> StepSet {
        self.join
    }
}

/// What is to be written, as far as planning needs it.
#[derive(Clone, Copy)]
pub(super) struct What {
    pub(super) stripe: Stripe,
    pub(super) rows: Rows,
    pub(super) columns: ColumnSet,
    pub(super) part: Part,
    pub(super) fua: bool,
}

impl What {
    /// The index of the one column that a write of a part of a page has.
    pub(super) fn only(&self) -> usize {
        self.columns.lowest().expect("a write has a column").index()
    }
}

/// Slots that are kept free for the note of the members' states.
pub(super) const NOTE_SLOTS: usize = 3;

/// The pages of each column.
pub(super) type Pages = [Buf; MAX_DEVICES];

impl Array {
    pub(super) fn plan_write(&mut self, op: OpId, out: &mut Out) {
        if !self.members.persisted() {
            self.waiting.push(op);
            return;
        }
        let task = self.write_task(op);
        let (seg, stuck, goes_on) = (task.seg, std::mem::take(&mut task.stuck), task.known.is_some());
        if self.members.broken() && self.lost_in(seg) {
            self.drop_plan(op, out);
            self.duties.push_back(Duty::Fail { op });
        } else if stuck {
            out.forgive(op);
        } else if goes_on {
            self.log_and_write(op, out);
        } else {
            self.begin_write(op, out);
        }
    }

    fn begin_write(&mut self, op: OpId, out: &mut Out) {
        let full = self.intents.len() >= self.config.max_open_rows;
        if full && (self.intents.ended() > 0 || self.clearing > 0) && !self.parity().is_empty() {
            self.waiting.push(op);
            self.own_flush(out);
            return;
        }
        self.merged = Buf::None;
        let mut what = self.what(op);
        let columns = self.columns(what.stripe, what.rows);
        let lost = self.data - columns.live;
        if !lost.is_empty() && self.needs_log() {
            let room = self.slots.available().saturating_sub(NOTE_SLOTS + self.reserved) as u32;
            let batch = self.batch(what.rows.count, lost.len()).min(room / lost.len());
            if batch == 0 {
                self.waiting.push(op);
                self.own_flush(out);
                return;
            }
            what.rows.count = batch;
            self.reserve(op, (batch * lost.len()) as usize);
            self.write_task(op).batch = batch;
            return self.read_degraded(op, what, out);
        }
        self.write_task(op).batch = what.rows.count;
        self.begin_rows(op, what.rows);
        let fresh = self.fresh(op, what);
        let trim = self.write_task(op).op == HostOp::Discard;
        let after = if self.config.geometry.level() == Level::Raid1 {
            self.plan_copies(op, what, fresh[0], trim, out)
        } else {
            self.plan_whole(op, what, fresh, trim, out)
        };
        self.finish(op, after, self.merged, out);
    }

    /// The last writes of the rows are planned: when they are done, so is the array's part.
    pub(super) fn finish(&mut self, op: OpId, after: StepSet, merged: Buf, out: &mut Out) {
        if !out.phase(op, after) {
            self.rows_done(op, out);
        }
        self.duties.push_back(Duty::Finish { op, after, merged });
    }

    /// The rows that are left to be written.
    pub(super) fn what(&mut self, op: OpId) -> What {
        let every = self.fua();
        let task = self.write_task(op);
        let (seg, done, part, fua) = (task.seg, task.done, task.part, task.fua || every);
        let row = self.config.geometry.row(seg.stripe, seg.first + done);
        What { stripe: seg.stripe, rows: Rows::new(row, seg.rows - done), columns: seg.columns, part, fua }
    }

    /// The pages that the host writes, by column.
    pub(super) fn fresh(&mut self, op: OpId, what: What) -> Pages {
        let chunk = self.config.geometry.chunk_pages();
        let task = self.write_task(op);
        let mut fresh = [Buf::None; MAX_DEVICES];
        for column in what.columns.iter() {
            let page = (u32::from(column.0) * chunk + task.seg.first + task.done - task.begin) as u16;
            let host = Buf::Host { frag: task.frag, page };
            fresh[column.index()] = if task.op == HostOp::Write { host } else { Buf::Zero };
        }
        fresh
    }

    pub(super) fn write_task(&mut self, op: OpId) -> &mut WriteTask {
        let Some(Task::Write(task)) = self.tasks[op.index()].as_mut() else { unreachable!("the operation is a write") };
        task
    }

    pub(super) fn reserve(&mut self, op: OpId, slots: usize) {
        let reserved = std::mem::replace(&mut self.write_task(op).reserved, slots);
        self.reserved = self.reserved - reserved + slots;
    }

    pub(super) fn begin_rows(&mut self, op: OpId, rows: Rows) {
        if !self.parity().is_empty() {
            self.intents.begin(rows);
            self.write_task(op).begun = Some(rows);
        }
    }

    /// Drops a plan that was not carried out to its end. What it has written is not durable even
    /// where writes are told to be: the flush that follows a trim may be among the steps left out.
    fn drop_plan(&mut self, op: OpId, out: &mut Out) {
        self.mark_dirty(op);
        self.forget_plan(op, out);
    }

    /// Drops what was planned.
    fn forget_plan(&mut self, op: OpId, out: &mut Out) {
        self.reserve(op, 0);
        self.batch_ended(op);
        let task = self.write_task(op);
        (task.join, task.known) = (StepSet::EMPTY, None);
        out.restart(op);
    }

    /// The writes of a batch are done, or there will be none.
    fn batch_ended(&mut self, op: OpId) {
        let Some(Task::Write(task)) = self.tasks[op.index()].as_mut() else { unreachable!("the operation is a write") };
        for slot in task.freed.drain(..) {
            self.slots.free(slot);
        }
        if let Some(rows) = task.begun.take() {
            self.intents.end(rows);
        }
        if self.config.regime == Regime::Flush {
            self.mark_dirty(op);
        }
    }

    /// The members that a write may have written are to be flushed.
    fn mark_dirty(&mut self, op: OpId) {
        let seg = self.write_task(op).seg;
        let touched = seg.columns | self.parity();
        let map = self.config.geometry.map(seg.stripe);
        let devs: DevSet = touched.iter().map(|column| map.devices()[column.index()]).collect();
        self.dirty |= devs - self.members.lost();
    }

    /// Rows of a segment of which data is lost that one plan can write: an operation has 64 steps.
    fn batch(&self, rows: u32, lost: u32) -> u32 {
        let others = 2 * u32::from(self.config.geometry.members()) + 12;
        (64_u32.saturating_sub(others) / (2 * lost)).clamp(1, rows)
    }

    /// Whether the segment cannot be written: its data is on members that are lost, or cannot be
    /// computed.
    fn lost_in(&self, seg: Seg) -> bool {
        let geometry = &self.config.geometry;
        let columns = self.columns(seg.stripe, Rows::new(geometry.row(seg.stripe, seg.first), seg.rows));
        let lost = self.all - columns.live;
        if self.parity().is_empty() {
            lost.meets(seg.columns)
        } else {
            lost.len() > u32::from(geometry.parity_columns())
        }
    }

    /// What the plan waited for is done: what a degraded write must know, or a batch of it.
    pub(super) fn write_goes_on(&mut self, op: OpId, out: &mut Out) {
        let task = self.write_task(op);
        task.join = StepSet::EMPTY;
        if task.known.is_none() {
            task.done += task.batch;
            self.forget_plan(op, out);
            self.after_batch(out);
        }
        self.plan_write(op, out);
    }

    /// Steps failed; their members are lost by now.
    pub(super) fn write_stuck(&mut self, op: OpId, out: &mut Out) {
        if self.write_task(op).written {
            return self.duties.push_back(Duty::Stuck { op });
        }
        if out.failed_read(op) {
            // Nothing of the array was written yet, but by batches before, and they are done.
            self.forget_plan(op, out);
        } else {
            self.write_task(op).stuck = true;
        }
        out.again(op);
    }

    /// The rows are written, as far as they can be: from now on a flush makes them durable, and
    /// their intents can be cleared after one, whatever the operation goes on to do.
    pub(super) fn rows_done(&mut self, op: OpId, out: &mut Out) {
        self.reserve(op, 0);
        self.batch_ended(op);
        self.write_task(op).written = true;
        self.after_batch(out);
        self.try_clean(out);
    }

    pub(super) fn write_done(&mut self, op: OpId, out: &mut Out) {
        if !self.write_task(op).written {
            self.rows_done(op, out);
        }
        self.tasks[op.index()] = None;
        self.duties.push_back(Duty::Ended { op });
    }

    fn after_batch(&mut self, out: &mut Out) {
        if !self.parity().is_empty() {
            self.free_needless_logs(out);
            self.flush_exposed(out);
            self.flush_when_idle(out);
        }
        self.let_waiting_go_on(out);
    }
}
