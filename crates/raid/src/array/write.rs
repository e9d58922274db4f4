//! Writing a segment so that its rows stay consistent, or can be made so (specs §2.1, and the write
//! hole).

use destage_plan::{
    Buf, Column, ColumnSet, DevSet, Frag, FragId, HostOp, NvSlot, OpId, Out, Rows, Step, StepSet, Stripe,
};

use super::{Array, Duty, ParityMethod, Part, Regime, Seg, Task, advance};
use crate::{Geometry, Level, MAX_DEVICES};

/// A write of one segment.
#[derive(Debug)]
pub(super) struct WriteTask {
    frag: FragId,
    op: HostOp,
    fua: bool,
    seg: Seg,
    part: Part,
    /// Where the fragment begins in its stripe, in pages of the stripe's data.
    begin: u32,
    /// Rows of the segment that are written.
    done: u32,
    /// Rows that the present plan writes.
    batch: u32,
    /// The step after which the plan is to be gone on with, if there is one.
    join: StepSet,
    /// All data of the batch as it will be, once the steps before `join` are done: a degraded write
    /// logs only when all its reads have succeeded.
    known: Option<Box<Pages>>,
    /// Slots of the NVRAM set aside for the batch.
    reserved: usize,
    /// Rows whose intents were begun.
    begun: Option<Rows>,
    /// A write failed; the plan goes on when the loss is noted.
    stuck: bool,
    /// All rows are written; what else the operation does is no concern of the array.
    written: bool,
    /// Slots whose pages were superseded.
    freed: Vec<NvSlot>,
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
    fn only(&self) -> usize {
        self.columns.lowest().expect("a write has a column").index()
    }
}

/// Slots that are kept free for the note of the members' states.
const NOTE_SLOTS: usize = 3;

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
    fn finish(&mut self, op: OpId, after: StepSet, merged: Buf, out: &mut Out) {
        if !out.phase(op, after) {
            self.rows_done(op, out);
        }
        self.duties.push_back(Duty::Finish { op, after, merged });
    }

    /// The rows that are left to be written.
    fn what(&mut self, op: OpId) -> What {
        let every = self.fua();
        let task = self.write_task(op);
        let (seg, done, part, fua) = (task.seg, task.done, task.part, task.fua || every);
        let row = self.config.geometry.row(seg.stripe, seg.first + done);
        What { stripe: seg.stripe, rows: Rows::new(row, seg.rows - done), columns: seg.columns, part, fua }
    }

    /// The pages that the host writes, by column.
    fn fresh(&mut self, op: OpId, what: What) -> Pages {
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

    fn write_task(&mut self, op: OpId) -> &mut WriteTask {
        let Some(Task::Write(task)) = self.tasks[op.index()].as_mut() else { unreachable!("the operation is a write") };
        task
    }

    fn reserve(&mut self, op: OpId, slots: usize) {
        let reserved = std::mem::replace(&mut self.write_task(op).reserved, slots);
        self.reserved = self.reserved - reserved + slots;
    }

    fn begin_rows(&mut self, op: OpId, rows: Rows) {
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

    /// RAID-1: every copy that can be written.
    fn plan_copies(&mut self, op: OpId, what: What, fresh: Buf, trim: bool, out: &mut Out) -> StepSet {
        let columns = self.columns(what.stripe, what.rows);
        let targets = columns.live | columns.sink;
        let mut ready = StepSet::EMPTY;
        if targets.len() > 1 {
            ready |= Self::intent(op, what.rows, StepSet::EMPTY, out);
        }
        let mut page = fresh;
        if let Some(sectors) = what.part {
            let old = out.tmp(op, 1);
            let source = columns.live.lowest().expect("a copy is left");
            let read = self.read_column(op, what, source, old, StepSet::EMPTY, out);
            page = out.tmp(op, 1);
            self.merged = page;
            ready |= out.step(op, Step::Merge { old, new: fresh, sectors, dst: page }, read);
        }
        let mut done = StepSet::EMPTY;
        for column in targets.iter() {
            done |= self.write_column(op, what, column, page, trim, ready, out);
        }
        self.settle(op, what, targets, trim, done, out)
    }

    /// All data of the rows is live; parity may be lost.
    fn plan_whole(&mut self, op: OpId, what: What, mut fresh: Pages, trim: bool, out: &mut Out) -> StepSet {
        let columns = self.columns(what.stripe, what.rows);
        let targets = columns.live | columns.sink;
        let parity = self.parity() & targets;
        let pages = what.rows.count as u16;
        let intent = if parity.is_empty() { StepSet::EMPTY } else { Self::intent(op, what.rows, StepSet::EMPTY, out) };
        if trim {
            let done = (targets & (what.columns | parity)).iter().fold(StepSet::EMPTY, |done, column| {
                done | self.write_column(op, what, column, Buf::Zero, true, intent, out)
            });
            return self.settle(op, what, targets, true, done, out);
        }
        let written = what.columns.len();
        let total = self.data.len();
        let full = what.columns == self.data && what.part.is_none();
        // A parity that is being filled holds nothing to modify.
        let rmw = !parity.meets(columns.sink) && {
            let rmw = written + parity.len();
            let rcw = total - written + u32::from(what.part.is_some());
            match self.config.parity {
                ParityMethod::Min => rmw < rcw,
                ParityMethod::Rmw => true,
                ParityMethod::Rcw => false,
                ParityMethod::Disksim => 2 * written < total,
            }
        };
        let mut reads = intent;
        let mut old = [Buf::None; MAX_DEVICES];
        let modify = !parity.is_empty() && !full && rmw;
        let mut read = match (!parity.is_empty(), full, modify) {
            (false, ..) | (_, true, _) => ColumnSet::EMPTY,
            (_, _, true) => what.columns | parity,
            (_, _, false) => self.data - what.columns,
        };
        if what.part.is_some() {
            read |= what.columns;
        }
        for column in read.iter() {
            old[column.index()] = out.tmp(op, pages);
            reads |= self.read_column(op, what, column, old[column.index()], StepSet::EMPTY, out);
        }
        let mut ready = reads;
        if let Some(sectors) = what.part {
            let column = what.only();
            let dst = out.tmp(op, 1);
            ready |= out.step(op, Step::Merge { old: old[column], new: fresh[column], sectors, dst }, reads);
            (fresh[column], self.merged) = (dst, dst);
        }
        let (p, q);
        if parity.is_empty() {
            (p, q) = (Buf::None, Buf::None);
        } else if modify {
            self.stats.rmw_writes += 1;
            (p, q, ready) = self.modify_parity(op, what, parity, &fresh, &old, ready, out);
        } else {
            if full {
                self.stats.full_writes += 1;
            } else {
                self.stats.rcw_writes += 1;
            }
            for column in (self.data - what.columns).iter() {
                fresh[column.index()] = old[column.index()];
            }
            (p, q, ready) = self.compute_parity(op, what.stripe, parity, &fresh, pages, ready, out);
        }
        self.write_columns(op, what, targets, &fresh, p, q, ready, out)
    }

    /// Data of the rows is lost: reads what is needed to know all data of the rows as it will be.
    fn read_degraded(&mut self, op: OpId, what: What, out: &mut Out) {
        let columns = self.columns(what.stripe, what.rows);
        let pages = what.rows.count as u16;
        let lost = self.data - columns.live;
        let kept = if what.part.is_some() { ColumnSet::EMPTY } else { what.columns };
        let mut fresh = self.fresh(op, what);
        let mut old = fresh;
        let unknown = lost - kept;
        let wanted = if unknown.is_empty() { self.data - kept } else { self.data | self.equations(columns.live, lost) };
        let mut ready = StepSet::EMPTY;
        for column in (wanted & columns.live).iter() {
            old[column.index()] = out.tmp(op, pages);
            ready |= self.read_column(op, what, column, old[column.index()], StepSet::EMPTY, out);
        }
        if !unknown.is_empty() {
            lost.iter().for_each(|column| old[column.index()] = Buf::None);
            ready |= self.compute_lost(op, what.stripe, &mut old, lost, columns.live, pages, ready, out);
        }
        if let Some(sectors) = what.part {
            let column = what.only();
            let dst = out.tmp(op, 1);
            ready |= out.step(op, Step::Merge { old: old[column], new: fresh[column], sectors, dst }, ready);
            fresh[column] = dst;
        }
        for column in (self.data - what.columns).iter() {
            fresh[column.index()] = old[column.index()];
        }
        self.write_task(op).known = Some(Box::new(fresh));
        if ready.is_empty() {
            self.log_and_write(op, out);
        } else {
            self.write_task(op).join = out.step_notify(op, Step::Join, ready);
        }
    }

    /// All data of the rows is known. What of it is lost is kept in the NVRAM while the rows may be
    /// torn; the parity is computed anew. Members may have been lost, or filled, since the data was
    /// read.
    fn log_and_write(&mut self, op: OpId, out: &mut Out) {
        let mut what = self.what(op);
        let left = what.rows.count;
        what.rows.count = self.write_task(op).batch;
        let columns = self.columns(what.stripe, what.rows);
        let targets = columns.live | columns.sink;
        let parity = self.parity() & targets;
        let lost = self.data - columns.live;
        let slots = (lost.len() * what.rows.count) as usize;
        if !parity.is_empty()
            && self.slots.available() + self.write_task(op).reserved < slots + NOTE_SLOTS + self.reserved
        {
            self.reserve(op, 0);
            self.waiting.push(op);
            self.own_flush(out);
            return;
        }
        self.reserve(op, 0);
        self.stats.degraded_writes += 1;
        self.begin_rows(op, what.rows);
        let fresh = *self.write_task(op).known.take().expect("the data was read");
        let mut ready = StepSet::EMPTY;
        if !parity.is_empty() {
            ready = self.log_lost(op, what, lost, &fresh, out);
            ready |= Self::intent(op, what.rows, ready, out);
        }
        let after = if self.write_task(op).op == HostOp::Discard {
            let done = (targets & (what.columns | parity)).iter().fold(StepSet::EMPTY, |done, column| {
                done | self.write_column(op, what, column, Buf::Zero, true, ready, out)
            });
            self.settle(op, what, targets, true, done, out)
        } else {
            let pages = what.rows.count as u16;
            let (p, q, ready) = self.compute_parity(op, what.stripe, parity, &fresh, pages, ready, out);
            self.write_columns(op, what, targets, &fresh, p, q, ready, out)
        };
        if what.rows.count < left {
            self.write_task(op).join = out.step_notify(op, Step::Join, after);
        } else {
            let merged = if what.part.is_some() { fresh[what.only()] } else { Buf::None };
            self.finish(op, after, merged, out);
        }
    }

    /// Puts the lost data pages of the rows, as they will be, into the NVRAM; the steps.
    fn log_lost(&mut self, op: OpId, what: What, lost: ColumnSet, fresh: &Pages, out: &mut Out) -> StepSet {
        let mut puts = StepSet::EMPTY;
        for column in lost.iter() {
            let dev = self.dev(what.stripe, column);
            for (index, row) in what.rows.iter().enumerate() {
                if !what.columns.contains(column) && self.log.get(row, dev).is_some() {
                    continue;
                }
                let slot = self.slots.alloc().expect("the caller has counted the slots");
                let (superseded, tag) = self.log.put(row, dev, slot);
                let src = advance(fresh[column.index()], index as u16);
                let put = out.step(op, Step::NvPut { slot, tag, src }, StepSet::EMPTY);
                puts |= put;
                if let Some(superseded) = superseded {
                    let slots = out.list(op, &[Buf::Nv(superseded)]);
                    puts |= out.step(op, Step::NvFree { slots }, put);
                    self.write_task(op).freed.push(superseded);
                }
            }
        }
        puts
    }

    fn intent(op: OpId, rows: Rows, after: StepSet, out: &mut Out) -> StepSet {
        let rows = out.rows(op, &[rows]);
        out.step(op, Step::Intent { rows, set: true }, after)
    }

    fn read_column(
        &mut self,
        op: OpId,
        what: What,
        column: Column,
        dst: Buf,
        after: StepSet,
        out: &mut Out,
    ) -> StepSet {
        self.read_rows(op, what.stripe, what.rows, column, dst, after, out)
    }

    #[expect(clippy::too_many_arguments, reason = "a page's place, content and order are that many things")]
    fn write_column(
        &mut self,
        op: OpId,
        what: What,
        column: Column,
        src: Buf,
        trim: bool,
        after: StepSet,
        out: &mut Out,
    ) -> StepSet {
        let pages = what.rows.count as u16;
        let ext = destage_plan::Ext::new(self.dev(what.stripe, column), what.rows.first.0, pages);
        if self.data.contains(column) {
            self.stats.data_writes += u64::from(pages);
        } else {
            self.stats.parity_writes += u64::from(pages);
        }
        out.step(op, if trim { Step::Trim { ext } } else { Step::Write { ext, src, fua: what.fua } }, after)
    }

    #[expect(clippy::too_many_arguments, reason = "a row's pages and their order are that many things")]
    fn write_columns(
        &mut self,
        op: OpId,
        what: What,
        targets: ColumnSet,
        fresh: &Pages,
        p: Buf,
        q: Buf,
        after: StepSet,
        out: &mut Out,
    ) -> StepSet {
        let mut done = StepSet::EMPTY;
        for column in (targets & what.columns).iter() {
            done |= self.write_column(op, what, column, fresh[column.index()], false, after, out);
        }
        for column in (targets & self.parity()).iter() {
            let src = if column == self.config.geometry.p_column() { p } else { q };
            done |= self.write_column(op, what, column, src, false, after, out);
        }
        // Nothing to write: everything is lost but what the parity, now in the NVRAM, does not
        // need.
        self.settle(op, what, targets, false, if done.is_empty() { after } else { done }, out)
    }

    /// What must follow the writes before they may be acknowledged: a trim cannot carry FUA.
    fn settle(
        &mut self,
        op: OpId,
        what: What,
        targets: ColumnSet,
        trim: bool,
        done: StepSet,
        out: &mut Out,
    ) -> StepSet {
        if !trim || !what.fua {
            return done;
        }
        (targets & (what.columns | self.parity())).iter().fold(done, |after, column| {
            let dev = self.dev(what.stripe, column);
            after | out.step(op, Step::FlushDev { dev }, done)
        })
    }
}
