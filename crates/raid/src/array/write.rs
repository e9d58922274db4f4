//! Writing a segment so that its rows stay consistent, or can be made so (specs §2.1, and the write
//! hole).

use destage_plan::{Buf, ColumnSet, DevSet, Frag, FragId, HostOp, NvSlot, OpId, Out, Rows, Step, StepSet};

use super::absorbed::TakenPages;
pub(super) use super::extent::WriteExtent;
use super::row_cache::HeldRows;
use super::{
    ArrayTask, DurabilityMode, PagePart, PageVersions, ParityUpdate, RaidArray, StripeColumns, StripeSegment,
    WriteApproach, WriteDuty,
};
use crate::{Geometry, MAX_DEVICES, RaidLevel};

/// A write of one segment.
#[derive(Debug)]
pub(super) struct WriteTask {
    /// The fragment whose bytes are written; none if parity alone is, or pages that are above.
    frag: Option<FragId>,
    /// Selects the pages that the array's user takes instead of the members.
    pub(super) taken: Option<TakenPages>,
    /// Selects the newest versions above the members that are written.
    above: VersionsWritten,
    pub(super) op: HostOp,
    fua: bool,
    seg: StripeSegment,
    part: PagePart,
    /// Holds the first page of the fragment in its stripe, in pages of the stripe's data.
    begin: u32,
    /// Rows of the segment that are written.
    pub(super) done: u32,
    /// Rows that the present plan writes.
    pub(super) batch: u32,
    /// The step after which the plan is to be gone on with, if there is one.
    pub(super) join: StepSet,
    /// All data of the batch as it will be, once the steps before `join` are done: a degraded write
    /// logs only when all its reads have succeeded.
    pub(super) known: Option<Box<ColumnPages>>,
    /// Slots of the NVRAM set aside for the batch.
    pub(super) reserved: usize,
    /// Rows whose intents were begun.
    begun: Option<Rows>,
    /// Is true if the intents of these rows were set already.
    pub(super) finds_set: bool,
    /// The plan sets their intents.
    pub(super) sets: bool,
    /// A write failed; the plan goes on when the loss is noted.
    stuck: bool,
    /// The batch is written with regard to where its versions are, or without its parity: what becomes
    /// of that.
    pub(super) departed: Option<ParityUpdate>,
    /// All rows are written; what else the operation does is no concern of the array.
    written: bool,
    /// Slots whose pages were superseded.
    pub(super) freed: Vec<NvSlot>,
    /// Holds the rows of the batch that are kept in memory.
    pub(super) held: Option<Box<HeldRows>>,
    /// Tells that another operation has written all of it.
    pub(super) is_carried: bool,
    /// Tells that this operation has written it to the cache as well.
    pub(super) is_rewritten: bool,
    /// Numbers the sequential run that it goes on with, if writes may wait for others of theirs; else 0.
    pub(super) run: u8,
    /// Tells that it fills its rows, with others that wait for it: it need not be looked for above how parity can be spared.
    pub(super) is_full: bool,
    /// Tells that it has waited for others of its run.
    pub(super) has_gathered: bool,
    /// Tells that the cache is to keep nothing of it.
    pub(super) bypass: bool,
}

impl WriteTask {
    pub(super) fn new(geometry: &Geometry, frag: &Frag, seg: StripeSegment) -> Self {
        let place = geometry.locate(frag.page);
        Self {
            frag: Some(frag.id),
            op: frag.op,
            fua: frag.fua,
            bypass: frag.bypass,
            part: frag.sectors,
            begin: u32::from(place.column.0) * geometry.chunk_pages() + place.row_in_chunk,
            ..Self::of_parity(seg)
        }
    }

    /// Returns the task of a segment of a fragment that the array's user takes.
    pub(super) fn taken(geometry: &Geometry, frag: &Frag, seg: StripeSegment, taken: TakenPages) -> Self {
        Self { taken: Some(taken), ..Self::new(geometry, frag, seg) }
    }

    /// The parity of a row is to cover the newest version of its data; the segment has no columns.
    pub(super) const fn of_parity(seg: StripeSegment) -> Self {
        Self {
            frag: None,
            taken: None,
            above: VersionsWritten::None,
            op: HostOp::Write,
            fua: false,
            seg,
            part: None,
            begin: 0,
            done: 0,
            batch: 0,
            join: StepSet::EMPTY,
            known: None,
            reserved: 0,
            begun: None,
            finds_set: false,
            sets: false,
            stuck: false,
            departed: None,
            written: false,
            freed: Vec::new(),
            held: None,
            is_carried: false,
            is_rewritten: false,
            run: 0,
            is_full: false,
            has_gathered: false,
            bypass: false,
        }
    }

    /// The newest versions of a row that are above and that the parity does not cover are written, or
    /// taken by what else is above.
    pub(super) fn of_above(seg: StripeSegment, taken: Option<TakenPages>) -> Self {
        let above = if seg.columns.is_empty() { VersionsWritten::All } else { VersionsWritten::OfSegment };
        Self { above, taken, fua: true, ..Self::of_parity(seg) }
    }

    /// Is true if no fragment is written, so that nobody waits for an answer.
    pub(super) const fn is_own(&self) -> bool {
        self.frag.is_none()
    }

    /// Is true if newest versions above the members are written.
    pub(super) const fn is_from_above(&self) -> bool {
        !matches!(self.above, VersionsWritten::None)
    }

    /// Is true if only the versions of the segment's columns are written.
    pub(super) const fn is_of_segment(&self) -> bool {
        matches!(self.above, VersionsWritten::OfSegment)
    }

    /// Is true if the task updates stale parity.
    const fn is_late(&self) -> bool {
        self.is_own() && !self.is_from_above()
    }

    /// These columns are written: those that were found to have pages above.
    pub(super) const fn set_columns(&mut self, columns: ColumnSet) {
        self.seg.columns = columns;
    }

    /// Returns true if it can be carried out with another write, of the same rows: whole pages of a fragment, of which nothing
    /// is written yet.
    pub(super) fn foldable(&self, with: &Self) -> bool {
        let is_whole = |task: &Self| {
            task.frag.is_some()
                && task.taken.is_none()
                && task.op != HostOp::Discard
                && task.part.is_none()
                && task.done == 0
                && !task.is_carried
        };
        is_whole(self) && is_whole(with) && (self.seg.first, self.seg.rows) == (with.seg.first, with.seg.rows)
    }

    /// Returns true if a cache that leaves parity as it is keeps the bytes that are written.
    pub(super) fn is_kept_by_cache(&self) -> bool {
        self.op == HostOp::Write && !self.bypass
    }

    /// Counts the rows of its segment.
    pub(super) const fn rows(&self) -> u32 {
        self.seg.rows
    }

    /// Returns the columns of its segment, and whether it is to be durable when it is acknowledged.
    pub(super) const fn asks(&self) -> (ColumnSet, bool) {
        (self.seg.columns, self.fua)
    }

    /// Returns true if no row is left.
    pub(super) const fn is_done(&self) -> bool {
        self.done == self.seg.rows
    }

    /// The step after which the plan is to be gone on with.
    pub(super) const fn goes_on_after(&self) -> StepSet {
        self.join
    }
}

/// Selects the newest versions above the members that a write takes. The type is one byte on purpose: each
/// write copies its task.
#[derive(Clone, Copy, Debug)]
enum VersionsWritten {
    None,
    /// All of the row.
    All,
    /// Those of the segment's columns.
    OfSegment,
}

/// Slots that are kept free for the note of the members' states.
pub(super) const NOTE_SLOTS: usize = 3;

/// The pages of each column.
pub(super) type ColumnPages = [Buf; MAX_DEVICES];

impl RaidArray {
    pub(super) fn plan_write(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        if self.write_task(op).is_carried {
            let what = self.left(op);
            // Another write has written the pages; only the answer is left.
            return self.finish_batch(op, what, StepSet::EMPTY, Buf::None, versions, out);
        }
        // A plan relies on the losses that it knows of, and they must survive a crash.
        if !self.members.persisted() {
            self.waiting.push(op);
            return;
        }
        let task = self.write_task(op);
        let (stuck, goes_on) = (std::mem::take(&mut task.stuck), task.known.is_some());
        if self.members.broken() && self.lost_in(op) {
            if stuck && matches!(self.write_task(op).departed, Some(ParityUpdate::Modified | ParityUpdate::Computed)) {
                self.write_task(op).departed = Some(ParityUpdate::Torn);
                self.tell_written(op, versions);
            }
            self.drop_plan(op, versions, out);
            self.fail(op, versions, out);
        } else if stuck {
            // The lost member's content matters no more, so the rest of the plan is right as it is.
            out.forgive(op);
        } else if goes_on {
            self.go_on_degraded(op, versions, out);
        } else {
            self.begin_write(op, versions, out);
        }
    }

    /// The operation cannot do what it is for: more is lost than the level can do without.
    pub(super) fn fail(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        if self.write_task(op).is_own() {
            // Others may be done.
            let row = self.left(op).rows.first;
            versions.written(op, Rows::new(row, 1), ColumnSet::EMPTY, ParityUpdate::Lost);
            self.write_task(op).done += 1;
            if self.write_task(op).is_done() { out.close(op) } else { out.again(op) }
        } else {
            self.duties.push_back(WriteDuty::Fail { op });
        }
    }

    fn begin_write(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        if self.unlogging > 0 {
            return self.waiting.push(op);
        }
        // The bound on open rows is a bound on the rows that recovery reads.
        let full = self.intents.len() >= self.config.max_open_rows;
        if full && (self.intents.has_idle() || self.clearing > 0) {
            self.waiting.push(op);
            self.own_flush(out);
            return;
        }
        self.merged = Buf::None;
        let mut left = self.left(op);
        let is_wide = left.rows.count > self.config.geometry.chunk_pages();
        // Stripes of a wide discard differ only in these cases; otherwise one plan serves all.
        if is_wide && (!self.members.all_live() || versions.departs(left.rows)) {
            self.keep_one_stripe(&mut left);
        }
        let mut what = self.alike(left);
        if self.waits_for_run(op, left, versions, out) {
            return;
        }
        let task = self.write_task(op);
        let (seg, host, bypass) = (task.seg, task.op, task.bypass || task.is_full);
        let approach = match task.taken {
            Some(TakenPages::Stored) => return self.plan_stored(op, left, versions, out),
            Some(TakenPages::Absorbed) => WriteApproach::Absorbed,
            None if task.is_late() => return self.plan_late(op, what, versions, out),
            None if task.is_own() => WriteApproach::Departed,
            None => {
                let all_live = self.members.all_live() || self.is_all_live(left.rows);
                // A degraded row cannot leave its parity stale: lost data is computed from it.
                let may_delay = self.needs_log() && all_live && !bypass;
                match versions.approach(op, host, seg, left.rows, may_delay) {
                    // Other stripes may have nothing above.
                    WriteApproach::Skipped if is_wide => {
                        self.keep_one_stripe(&mut left);
                        what = self.alike(left);
                        versions.approach(op, host, seg, left.rows, may_delay)
                    }
                    approach => approach,
                }
            }
        };
        match approach {
            WriteApproach::Plain => self.begin_plain(op, what, versions, out),
            WriteApproach::Overwriting => {
                self.write_task(op).departed = Some(ParityUpdate::Overwritten);
                self.begin_plain(op, what, versions, out);
            }
            WriteApproach::Departed => self.begin_departed(op, what, versions, out),
            WriteApproach::Delayed => self.plan_delayed(op, what, versions, out),
            WriteApproach::Prepared => self.plan_prepared(op, what, out),
            WriteApproach::Split => {
                // The parts have operations of their own, so this one has no rows to finish.
                self.write_task(op).written = true;
                self.duties.push_back(WriteDuty::Split { op });
            }
            WriteApproach::Absorbed => self.plan_absorbed(op, what, versions, out),
            WriteApproach::Skipped => {
                self.write_task(op).batch = what.rows.count;
                self.finish_batch(op, what, StepSet::EMPTY, Buf::None, versions, out);
            }
            WriteApproach::Refused => {
                self.drop_plan(op, versions, out);
                self.fail(op, versions, out);
            }
            WriteApproach::Waits => self.waiting.push(op),
        }
    }

    /// Cuts off what lies behind the first stripe: what is not alike is planned stripe by stripe.
    #[cold]
    fn keep_one_stripe(&self, what: &mut WriteExtent) {
        let (_, row_in_chunk) = self.config.geometry.stripe_of(what.rows.first);
        what.rows.count = what.rows.count.min(self.config.geometry.chunk_pages() - row_in_chunk);
    }

    /// Has parity catch up that was left behind.
    #[cold]
    fn plan_late(&mut self, op: OpId, what: WriteExtent, versions: &mut dyn PageVersions, out: &mut Out) {
        let before = self.stats;
        self.begin_departed(op, what, versions, out);
        self.stats.was_late(&before);
    }

    /// All data of rows of which some is lost is known: writes them.
    #[cold]
    fn go_on_degraded(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        let (before, is_late) = (self.stats, self.write_task(op).is_late());
        self.log_and_write(op, versions, out);
        if is_late {
            self.stats.was_late(&before);
        }
    }

    /// Writes rows of which the members hold the newest versions, and the parity covers them.
    pub(super) fn begin_plain(
        &mut self,
        op: OpId,
        mut what: WriteExtent,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) {
        let columns = self.columns(what.stripe, what.rows);
        let lost = self.data - columns.live;
        if !self.members.all_live() && self.is_unknown(what, columns) {
            self.drop_plan(op, versions, out);
            return self.fail(op, versions, out);
        }
        if !lost.is_empty() && self.needs_log() {
            let room = self.own_slots().saturating_sub(NOTE_SLOTS + self.reserved) as u32;
            // The batch is as large as free slots allow: each row logs its lost pages until the next flush.
            let batch = self.batch(what.rows.count, lost.len()).min(room / lost.len());
            if batch == 0 {
                self.waiting.push(op);
                self.own_flush(out);
                return;
            }
            what.rows.count = batch;
            self.reserve(op, (batch * lost.len()) as usize);
            self.write_task(op).batch = batch;
            return self.read_degraded(op, what, versions, out);
        }
        let task = self.write_task(op);
        task.batch = what.rows.count;
        let trim = task.op == HostOp::Discard;
        // The row cache serves only arrays whose members are all live; other plans bypass it.
        if !trim
            && self.keeps_rows(what.rows)
            && let Some((what, after)) = self.plan_cached(op, what, false, versions, out)
        {
            return self.finish_batch(op, what, after, self.merged, versions, out);
        }
        self.begin_rows(op, what.rows);
        let fresh = self.fresh(op, what);
        let after = if self.config.geometry.level() == RaidLevel::Raid1 {
            self.plan_copies(op, what, columns, fresh[0], trim, out)
        } else {
            self.plan_whole(op, what, columns, fresh, trim, out)
        };
        self.finish_batch(op, what, after, self.merged, versions, out);
    }

    /// The last writes of a batch are planned: when they are done, the next batch is planned, or the
    /// array's part is done.
    pub(super) fn finish_batch(
        &mut self,
        op: OpId,
        what: WriteExtent,
        after: StepSet,
        merged: Buf,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) {
        let task = self.write_task(op);
        // The write keeps its claim between batches: nobody sees a part of it.
        if what.rows.count < task.seg.rows - task.done {
            self.write_task(op).join = out.step_notify(op, Step::Join, after);
            return;
        }
        if !out.phase(op, after) {
            self.rows_done(op, versions, out);
        }
        if self.write_task(op).is_own() {
            out.close(op);
        } else {
            self.duties.push_back(WriteDuty::Finish { op, after, merged });
        }
    }

    /// Returns the rows that are left to be written, as far as one plan can treat them alike.
    pub(super) fn what(&mut self, op: OpId) -> WriteExtent {
        let left = self.left(op);
        self.alike(left)
    }

    fn alike(&self, mut what: WriteExtent) -> WriteExtent {
        if !self.members.all_live() {
            what.rows = self.members.bad.alike(what.rows);
        }
        what
    }

    /// Returns the rows that are left to be written.
    pub(super) fn left(&mut self, op: OpId) -> WriteExtent {
        let every = self.fua();
        let task = self.write_task(op);
        let (seg, done, part, fua) = (task.seg, task.done, task.part, task.fua || every);
        let geometry = &self.config.geometry;
        let row = geometry.row(seg.stripe, seg.first + done);
        let stripe = if seg.rows > geometry.chunk_pages() { geometry.stripe_of(row).0 } else { seg.stripe };
        WriteExtent { stripe, rows: Rows::new(row, seg.rows - done), columns: seg.columns, part, fua }
    }

    /// The pages that the host writes, by column; none if no fragment is written.
    pub(super) fn fresh(&mut self, op: OpId, what: WriteExtent) -> ColumnPages {
        let chunk = self.config.geometry.chunk_pages();
        let task = self.write_task(op);
        let mut fresh = [Buf::None; MAX_DEVICES];
        let Some(frag) = task.frag else { return fresh };
        for column in what.columns.iter() {
            let page = (u32::from(column.0) * chunk + task.seg.first + task.done - task.begin) as u16;
            let host = Buf::Host { frag, page };
            fresh[column.index()] = if task.op == HostOp::Write { host } else { Buf::Zero };
        }
        fresh
    }

    pub(super) fn write_task(&mut self, op: OpId) -> &mut WriteTask {
        let Some(ArrayTask::Write(task)) = self.tasks[op.index()].as_mut() else {
            unreachable!("the operation is a write")
        };
        task
    }

    pub(super) fn reserve(&mut self, op: OpId, slots: usize) {
        let reserved = std::mem::replace(&mut self.write_task(op).reserved, slots);
        self.reserved = self.reserved - reserved + slots;
    }

    /// Begins to write rows past what is kept of them in memory.
    pub(super) fn begin_rows(&mut self, op: OpId, rows: Rows) {
        self.row_cache.drop_rows(rows);
        self.begin_intents(op, rows);
    }

    pub(super) fn begin_intents(&mut self, op: OpId, rows: Rows) {
        if self.has_intents {
            let set = self.intents.begin(rows);
            let task = self.write_task(op);
            (task.begun, task.finds_set, task.sets) = (Some(rows), set, false);
        }
    }

    /// Drops a plan that was not carried out to its end. What it has written is not durable even
    /// where writes are told to be: the flush that follows a trim may be among the steps left out.
    pub(super) fn drop_plan(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        self.mark_dirty(op);
        self.forget_plan(op, versions, out);
    }

    /// Drops what was planned.
    pub(super) fn forget_plan(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        if self.write_task(op).departed.take().is_some() {
            versions.released(op);
        }
        self.reserve(op, 0);
        self.batch_ended(op);
        self.forget_rows(op, out);
        let task = self.write_task(op);
        (task.join, task.known) = (StepSet::EMPTY, None);
        out.restart(op);
    }

    /// The writes of a batch are done, or there will be none.
    fn batch_ended(&mut self, op: OpId) {
        let Some(ArrayTask::Write(task)) = self.tasks[op.index()].as_mut() else {
            unreachable!("the operation is a write")
        };
        for slot in task.freed.drain(..) {
            self.slots.free(slot);
        }
        if let Some(rows) = task.begun.take() {
            self.intents.end(rows, task.sets);
        }
        // With FUA on every write nothing is left for a flush to make durable.
        if self.config.regime == DurabilityMode::Flush {
            self.mark_dirty(op);
        }
    }

    /// The members that a write may have written are to be flushed.
    fn mark_dirty(&mut self, op: OpId) {
        let task = self.write_task(op);
        // The set may name members that were not written; a needless flush is harmless, a missing one is
        // not.
        let (seg, folded) = (task.seg, task.held.as_ref().map_or(ColumnSet::EMPTY, |held| held.folded_columns));
        let touched = seg.columns | folded | self.parity();
        let map = self.config.geometry.map(seg.stripe);
        let devs: DevSet = touched.iter().map(|column| map.devices()[column.index()]).collect();
        self.dirty |= devs - self.members.lost();
    }

    /// Rows of a segment of which data is lost that one plan can write: an operation has 64 steps.
    fn batch(&self, rows: u32, lost: u32) -> u32 {
        // The estimate counts a read and a write per member, and the steps that a plan has once.
        let others = 2 * u32::from(self.config.geometry.members()) + 12;
        (64_u32.saturating_sub(others) / (2 * lost)).clamp(1, rows)
    }

    /// Returns true if the segment cannot be written: its data is on lost members, or cannot be computed.
    fn lost_in(&mut self, op: OpId) -> bool {
        let seg = self.write_task(op).seg;
        let mut what =
            WriteExtent { rows: Rows::new(self.config.geometry.row(seg.stripe, seg.first), seg.rows), ..self.left(op) };
        if seg.rows > self.config.geometry.chunk_pages() {
            what = self.left(op);
            self.keep_one_stripe(&mut what);
        }
        let geometry = &self.config.geometry;
        let columns = self.columns(what.stripe, what.rows);
        let lost = self.all - columns.live;
        if self.parity().is_empty() {
            lost.meets(seg.columns)
        } else {
            lost.len() > u32::from(geometry.parity_columns())
        }
    }

    /// Returns true if no member is lost or being filled, and every page of these rows can be read.
    pub(super) fn is_all_live(&self, rows: Rows) -> bool {
        self.members.not_live().is_empty() && !self.members.bad.meets(rows)
    }

    /// Returns true if rows cannot be written, since their plan would have to read more than the level can compute.
    pub(super) fn is_unknown(&self, what: WriteExtent, columns: StripeColumns) -> bool {
        let geometry = &self.config.geometry;
        let kept = if what.part.is_some() { ColumnSet::EMPTY } else { what.columns };
        match geometry.level() {
            RaidLevel::Raid0 => (columns.sink & what.columns).meets(self.data - kept),
            RaidLevel::Raid1 => columns.live.is_empty() && what.part.is_some(),
            RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6 => {
                let lost = self.all - columns.live;
                lost.len() > u32::from(geometry.parity_columns()) && lost.meets(self.data - kept)
            }
        }
    }

    /// Goes on with a write after the steps that its plan waited for: the reads of a degraded write, or a
    /// batch.
    pub(super) fn write_goes_on(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        let task = self.write_task(op);
        task.join = StepSet::EMPTY;
        if task.known.is_none() {
            self.repair_missing_of(op, out);
            self.tell_written(op, versions);
            self.keep_rows(op);
            let task = self.write_task(op);
            task.done += task.batch;
            self.forget_plan(op, versions, out);
            self.after_batch(out);
        }
        self.plan_write(op, versions, out);
    }

    /// Steps failed; their members are lost by now.
    #[cold]
    pub(super) fn write_stuck(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        if self.write_task(op).written {
            return self.duties.push_back(WriteDuty::Stuck { op });
        }
        // A second attempt would fail alike, and going on would write wrong bytes.
        if out.failed_decode(op) {
            self.drop_plan(op, versions, out);
            return self.fail(op, versions, out);
        }
        if out.failed_read(op) {
            // Nothing of the array was written yet, but by batches before, and they are done; unless the data is
            // written beside what is read from a cache.
            if self.write_task(op).departed == Some(ParityUpdate::Delayed)
                && !out.has_changed(op, self.config.geometry.member_set())
            {
                let what = self.left(op);
                let rows = Rows::new(what.rows.first, self.write_task(op).batch);
                versions.unwritten(op, rows, what.columns);
            }
            self.forget_plan(op, versions, out);
        } else if self.write_task(op).departed == Some(ParityUpdate::Stored) {
            // It was to be on the device that failed, and nowhere else.
            return self.refuse_absorbed(op, versions, out);
        } else if self.write_task(op).departed == Some(ParityUpdate::Delayed) {
            // No parity covers what was to be written to the lost member, so it is not forgiven.
            self.drop_plan(op, versions, out);
        } else {
            // A failed write means a lost member; the plan goes on once the loss is noted.
            self.write_task(op).stuck = true;
        }
        out.again(op);
    }

    /// The rows are written, as far as they can be: from now on a flush makes them durable, and
    /// their intents can be cleared after one, whatever the operation goes on to do.
    pub(super) fn rows_done(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        self.repair_missing_of(op, out);
        self.tell_written(op, versions);
        self.reserve(op, 0);
        self.batch_ended(op);
        self.keep_rows(op);
        self.write_task(op).written = true;
        self.after_batch(out);
    }

    /// Repairs missing pages of the batch's rows, which are written.
    fn repair_missing_of(&mut self, op: OpId, out: &mut Out) {
        if !self.members.bad.is_quiet() {
            let rows = Rows::new(self.left(op).rows.first, self.write_task(op).batch);
            self.repair_missing(rows, out);
        }
    }

    /// The rows of the batch are written: whoever knows where their versions are hears of it.
    fn tell_written(&mut self, op: OpId, versions: &mut dyn PageVersions) {
        let Some(updated) = self.write_task(op).departed.take() else { return };
        let what = self.what(op);
        let task = self.write_task(op);
        let rows = Rows::new(what.rows.first, task.batch);
        let columns = what.columns | task.held.as_ref().map_or(ColumnSet::EMPTY, |held| held.folded_columns);
        versions.written(op, rows, columns, updated);
        versions.released(op);
        // The write may have supplied the page for want of which the rebuild halted.
        self.rebuild.go_on();
    }

    pub(super) fn write_done(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        if !self.write_task(op).written {
            self.rows_done(op, versions, out);
        }
        if self.write_task(op).run > 0 {
            self.run_write_ends(op, out);
        }
        self.tasks[op.index()] = None;
        self.duties.push_back(WriteDuty::Ended { op });
    }

    fn after_batch(&mut self, out: &mut Out) {
        if self.has_intents {
            self.free_needless_logs(out);
            self.flush_exposed(out);
            self.flush_when_idle(out);
        }
        self.let_waiting_go_on(out);
    }
}
