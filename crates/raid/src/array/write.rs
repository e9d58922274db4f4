//! Writing a segment so that its rows stay consistent, or can be made so (specs §2.1, and the write hole).

use destage_plan::{Buf, Dev, Frag, FragId, HostOp, NvSlot, OpId, Out, Rows, Step};

use super::{Array, Next, ParityMethod, Part, Regime, Seg, Task, advance, bits, has};
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
    join: u64,
    /// All data of the batch as it will be, once the steps before `join` are done: a degraded write logs only when all its reads have
    /// succeeded.
    known: Option<Box<Pages>>,
    /// Slots of the NVRAM set aside for the batch.
    reserved: usize,
    /// Rows whose intents were begun.
    begun: Option<Rows>,
    /// A write failed; the plan goes on when the loss is noted.
    stuck: bool,
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
            begin: u32::from(place.column) * geometry.chunk_pages() + place.row_in_chunk,
            done: 0,
            batch: 0,
            join: 0,
            known: None,
            reserved: 0,
            begun: None,
            stuck: false,
            freed: Vec::new(),
        }
    }

    /// The bit of the step after which the plan is to be gone on with.
    pub(super) const fn goes_on_after(&self) -> u64 {
        self.join
    }
}

/// What is to be written, as far as planning needs it.
#[derive(Clone, Copy)]
pub(super) struct What {
    pub(super) stripe: u64,
    pub(super) rows: Rows,
    pub(super) mask: u64,
    pub(super) part: Part,
    pub(super) fua: bool,
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
            self.forget_plan(op, out);
            self.next.push_back(Next::Fail { op });
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
        if full && (self.intents.ended() > 0 || self.clearing > 0) && self.parity() != 0 {
            self.waiting.push(op);
            self.own_flush(out);
            return;
        }
        self.merged = Buf::None;
        let mut what = self.what(op);
        let columns = self.columns(what.stripe, what.rows);
        let lost = self.data & !columns.live;
        if lost != 0 && self.needs_log() {
            let room = self.slots.available().saturating_sub(NOTE_SLOTS + self.reserved) as u32;
            let batch = self.batch(what.rows.count, lost.count_ones()).min(room / lost.count_ones());
            if batch == 0 {
                self.waiting.push(op);
                self.own_flush(out);
                return;
            }
            what.rows.count = batch;
            self.reserve(op, (batch * lost.count_ones()) as usize);
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
        self.next.push_back(Next::Finish { op, after, merged: self.merged });
    }

    /// The rows that are left to be written.
    fn what(&mut self, op: OpId) -> What {
        let every = self.fua();
        let task = self.write_task(op);
        let (seg, done, part, fua) = (task.seg, task.done, task.part, task.fua || every);
        let row = self.config.geometry.row(seg.stripe, seg.first + done);
        What { stripe: seg.stripe, rows: Rows::new(row, seg.rows - done), mask: seg.mask, part, fua }
    }

    /// The pages that the host writes, by column.
    fn fresh(&mut self, op: OpId, what: What) -> Pages {
        let chunk = self.config.geometry.chunk_pages();
        let task = self.write_task(op);
        let mut fresh = [Buf::None; MAX_DEVICES];
        for column in bits(what.mask) {
            let page = (column * chunk + task.seg.first + task.done - task.begin) as u16;
            let host = Buf::Host { frag: task.frag, page };
            fresh[column as usize] = if task.op == HostOp::Write { host } else { Buf::Zero };
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
        if self.parity() != 0 {
            self.intents.begin(rows);
            self.write_task(op).begun = Some(rows);
        }
    }

    /// Drops what was planned.
    fn forget_plan(&mut self, op: OpId, out: &mut Out) {
        self.reserve(op, 0);
        self.batch_ended(op);
        let task = self.write_task(op);
        (task.join, task.known) = (0, None);
        out.restart(op);
    }

    /// The writes of a batch are done, or there will be none.
    fn batch_ended(&mut self, op: OpId) {
        let geometry = &self.config.geometry;
        let Some(Task::Write(task)) = self.tasks[op.index()].as_mut() else { unreachable!("the operation is a write") };
        for slot in task.freed.drain(..) {
            self.slots.free(slot);
        }
        if let Some(rows) = task.begun.take() {
            self.intents.end(rows);
        }
        if self.config.regime == Regime::Flush {
            let touched = task.seg.mask | (self.all & !self.data);
            let devs = geometry.devices(task.seg.stripe).iter().enumerate();
            let devs = devs.filter(|(column, _)| has(touched, *column as u32));
            self.dirty |= devs.fold(0, |devs, (_, dev)| devs | 1_u64 << dev) & !self.members.lost();
        }
    }

    /// Rows of a segment of which data is lost that one plan can write: an operation has 64 steps.
    fn batch(&self, rows: u32, lost: u32) -> u32 {
        let others = 2 * u32::from(self.config.geometry.members()) + 12;
        (64_u32.saturating_sub(others) / (2 * lost)).clamp(1, rows)
    }

    /// Whether the segment cannot be written: its data is on members that are lost, or cannot be computed.
    fn lost_in(&self, seg: Seg) -> bool {
        let geometry = &self.config.geometry;
        let columns = self.columns(seg.stripe, Rows::new(geometry.row(seg.stripe, seg.first), seg.rows));
        let lost = self.all & !columns.live;
        if self.parity() == 0 { lost & seg.mask != 0 } else { lost.count_ones() > u32::from(geometry.parity_columns()) }
    }

    /// What the plan waited for is done: what a degraded write must know, or a batch of it.
    pub(super) fn write_goes_on(&mut self, op: OpId, out: &mut Out) {
        let task = self.write_task(op);
        task.join = 0;
        if task.known.is_none() {
            task.done += task.batch;
            self.forget_plan(op, out);
            self.after_batch(out);
        }
        self.plan_write(op, out);
    }

    /// Steps failed; their members are lost by now.
    pub(super) fn write_stuck(&mut self, op: OpId, out: &mut Out) {
        if out.failed_read(op) {
            // Nothing of the array was written yet.
            self.forget_plan(op, out);
        } else {
            self.write_task(op).stuck = true;
        }
        out.again(op);
    }

    pub(super) fn write_done(&mut self, op: OpId, out: &mut Out) {
        self.reserve(op, 0);
        self.batch_ended(op);
        self.tasks[op.index()] = None;
        self.after_batch(out);
        self.try_clean(out);
        self.next.push_back(Next::Ended { op });
    }

    fn after_batch(&mut self, out: &mut Out) {
        if self.parity() != 0 {
            self.free_needless_logs(out);
            self.flush_exposed(out);
            if !self.idle_timer {
                self.idle_timer = true;
                let at = out.now() + self.config.idle_flush;
                out.timer(super::IDLE_TIMER, at);
            }
        }
        self.let_waiting_go_on(out);
    }

    /// RAID-1: every copy that can be written.
    fn plan_copies(&mut self, op: OpId, what: What, fresh: Buf, trim: bool, out: &mut Out) -> u64 {
        let columns = self.columns(what.stripe, what.rows);
        let targets = columns.live | columns.sink;
        let mut ready = 0;
        if targets.count_ones() > 1 {
            ready |= Self::intent(op, what.rows, 0, out);
        }
        let mut page = fresh;
        if let Some(sectors) = what.part {
            let old = out.tmp(op, 1);
            let read = self.read_column(op, what, columns.live.trailing_zeros(), old, 0, out);
            page = out.tmp(op, 1);
            self.merged = page;
            ready |= out.step(op, Step::Merge { old, new: fresh, sectors, dst: page }, read);
        }
        let mut done = 0;
        for column in bits(targets) {
            done |= self.write_column(op, what, column, page, trim, ready, out);
        }
        self.settle(op, what, targets, trim, done, out)
    }

    /// All data of the rows is live; parity may be lost.
    fn plan_whole(&mut self, op: OpId, what: What, mut fresh: Pages, trim: bool, out: &mut Out) -> u64 {
        let columns = self.columns(what.stripe, what.rows);
        let targets = columns.live | columns.sink;
        let parity = self.parity() & targets;
        let pages = what.rows.count as u16;
        let intent = if parity == 0 { 0 } else { Self::intent(op, what.rows, 0, out) };
        if trim {
            let done = bits(targets & (what.mask | parity))
                .fold(0, |done, column| done | self.write_column(op, what, column, Buf::Zero, true, intent, out));
            return self.settle(op, what, targets, true, done, out);
        }
        let written = what.mask.count_ones();
        let total = self.data.count_ones();
        let full = what.mask == self.data && what.part.is_none();
        // A parity that is being filled holds nothing to modify.
        let rmw = parity & columns.sink == 0 && {
            let rmw = written + parity.count_ones();
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
        let modify = parity != 0 && !full && rmw;
        let read = match (parity != 0, full, modify) {
            (false, ..) | (_, true, _) => 0,
            (_, _, true) => what.mask | parity,
            (_, _, false) => self.data & !what.mask,
        } | if what.part.is_some() { what.mask } else { 0 };
        for column in bits(read) {
            old[column as usize] = out.tmp(op, pages);
            reads |= self.read_column(op, what, column, old[column as usize], 0, out);
        }
        let mut ready = reads;
        if let Some(sectors) = what.part {
            let column = what.mask.trailing_zeros() as usize;
            let dst = out.tmp(op, 1);
            ready |= out.step(op, Step::Merge { old: old[column], new: fresh[column], sectors, dst }, reads);
            (fresh[column], self.merged) = (dst, dst);
        }
        let (p, q);
        if parity == 0 {
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
            for column in bits(self.data & !what.mask) {
                fresh[column as usize] = old[column as usize];
            }
            (p, q, ready) = self.compute_parity(op, what.stripe, parity, &fresh, pages, ready, out);
        }
        self.write_columns(op, what, targets, &fresh, p, q, ready, out)
    }

    /// Data of the rows is lost: reads what is needed to know all data of the rows as it will be.
    fn read_degraded(&mut self, op: OpId, what: What, out: &mut Out) {
        let columns = self.columns(what.stripe, what.rows);
        let pages = what.rows.count as u16;
        let lost = self.data & !columns.live;
        let kept = if what.part.is_some() { 0 } else { what.mask };
        let mut fresh = self.fresh(op, what);
        let mut old = fresh;
        let unknown = lost & !kept;
        let wanted = if unknown == 0 { self.data & !kept } else { self.data | self.equations(columns.live, lost) };
        let mut ready = 0;
        for column in bits(wanted & columns.live) {
            old[column as usize] = out.tmp(op, pages);
            ready |= self.read_column(op, what, column, old[column as usize], 0, out);
        }
        if unknown != 0 {
            bits(lost).for_each(|column| old[column as usize] = Buf::None);
            ready |= self.compute_lost(op, what.stripe, &mut old, lost, columns.live, pages, ready, out);
        }
        if let Some(sectors) = what.part {
            let column = what.mask.trailing_zeros() as usize;
            let dst = out.tmp(op, 1);
            ready |= out.step(op, Step::Merge { old: old[column], new: fresh[column], sectors, dst }, ready);
            fresh[column] = dst;
        }
        for column in bits(self.data & !what.mask) {
            fresh[column as usize] = old[column as usize];
        }
        self.write_task(op).known = Some(Box::new(fresh));
        if ready == 0 {
            self.log_and_write(op, out);
        } else {
            self.write_task(op).join = out.step_notify(op, Step::Join, ready);
        }
    }

    /// All data of the rows is known. What of it is lost is kept in the NVRAM while the rows may be torn; the parity is computed anew.
    /// Members may have been lost, or filled, since the data was read.
    fn log_and_write(&mut self, op: OpId, out: &mut Out) {
        let mut what = self.what(op);
        let left = what.rows.count;
        what.rows.count = self.write_task(op).batch;
        let columns = self.columns(what.stripe, what.rows);
        let targets = columns.live | columns.sink;
        let parity = self.parity() & targets;
        let lost = self.data & !columns.live;
        let slots = (lost.count_ones() * what.rows.count) as usize;
        if parity != 0 && self.slots.available() + self.write_task(op).reserved < slots + NOTE_SLOTS + self.reserved {
            self.reserve(op, 0);
            self.waiting.push(op);
            self.own_flush(out);
            return;
        }
        self.reserve(op, 0);
        self.stats.degraded_writes += 1;
        self.begin_rows(op, what.rows);
        let fresh = *self.write_task(op).known.take().expect("the data was read");
        let mut ready = 0;
        if parity != 0 {
            ready = self.log_lost(op, what, lost, &fresh, out);
            ready |= Self::intent(op, what.rows, ready, out);
        }
        let after = if self.write_task(op).op == HostOp::Discard {
            let done = bits(targets & (what.mask | parity))
                .fold(0, |done, column| done | self.write_column(op, what, column, Buf::Zero, true, ready, out));
            self.settle(op, what, targets, true, done, out)
        } else {
            let pages = what.rows.count as u16;
            let (p, q, ready) = self.compute_parity(op, what.stripe, parity, &fresh, pages, ready, out);
            self.write_columns(op, what, targets, &fresh, p, q, ready, out)
        };
        if what.rows.count < left {
            self.write_task(op).join = out.step_notify(op, Step::Join, after);
        } else {
            let merged = if what.part.is_some() { fresh[what.mask.trailing_zeros() as usize] } else { Buf::None };
            self.next.push_back(Next::Finish { op, after, merged });
        }
    }

    /// Puts the lost data pages of the rows, as they will be, into the NVRAM; the mask of the steps.
    fn log_lost(&mut self, op: OpId, what: What, lost: u64, fresh: &Pages, out: &mut Out) -> u64 {
        let mut puts = 0;
        for column in bits(lost) {
            let dev = self.dev(what.stripe, column);
            for (index, row) in what.rows.iter().enumerate() {
                if !has(what.mask, column) && self.log.get(row, dev).is_some() {
                    continue;
                }
                let slot = self.slots.alloc().expect("the caller has counted the slots");
                let (superseded, tag) = self.log.put(row, dev, slot);
                let src = advance(fresh[column as usize], index as u16);
                let put = out.step(op, Step::NvPut { slot, tag, src }, 0);
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

    fn intent(op: OpId, rows: Rows, after: u64, out: &mut Out) -> u64 {
        let rows = out.rows(op, &[rows]);
        out.step(op, Step::Intent { rows, set: true }, after)
    }

    fn read_column(&mut self, op: OpId, what: What, column: u32, dst: Buf, after: u64, out: &mut Out) -> u64 {
        self.read_rows(op, what.stripe, what.rows, column, dst, after, out)
    }

    #[expect(clippy::too_many_arguments, reason = "a page's place, content and order are that many things")]
    fn write_column(
        &mut self,
        op: OpId,
        what: What,
        column: u32,
        src: Buf,
        trim: bool,
        after: u64,
        out: &mut Out,
    ) -> u64 {
        let pages = what.rows.count as u16;
        let ext = destage_plan::Ext::new(self.dev(what.stripe, column), what.rows.first, pages);
        if has(self.data, column) {
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
        targets: u64,
        fresh: &Pages,
        p: Buf,
        q: Buf,
        after: u64,
        out: &mut Out,
    ) -> u64 {
        let mut done = 0;
        for column in bits(targets & what.mask) {
            done |= self.write_column(op, what, column, fresh[column as usize], false, after, out);
        }
        for column in bits(targets & self.parity()) {
            let src = if column == self.data.count_ones() { p } else { q };
            done |= self.write_column(op, what, column, src, false, after, out);
        }
        // Nothing to write: everything is lost but what the parity, now in the NVRAM, does not need.
        self.settle(op, what, targets, false, if done == 0 { after } else { done }, out)
    }

    /// What must follow the writes before they may be acknowledged: a trim cannot carry FUA.
    fn settle(&mut self, op: OpId, what: What, targets: u64, trim: bool, done: u64, out: &mut Out) -> u64 {
        if !trim || !what.fua {
            return done;
        }
        bits(targets & (what.mask | self.parity())).fold(done, |after, column| {
            let dev: Dev = self.dev(what.stripe, column);
            after | out.step(op, Step::FlushDev { dev }, done)
        })
    }
}
