//! The RAID layer that every controller of the host side is built on: which steps read and write
//! pages of an array, keep its parity true, close the write hole, serve without a lost member and
//! fill its replacement (specs §2).
//!
//! # Invariants
//!
//! * A row is consistent, or its intent is set, durably, since before the first write that could
//!   make it otherwise.
//! * A row whose intent is open and of which a *data* page is lost has that page in the NVRAM
//!   (`log`), unless the page was lost less than a flush ago (the loss flushes at once). Without it
//!   a torn row would not tell what the page was.
//! * A member counts as lost, or as filled up to a row, for what is written no sooner than the
//!   NVRAM says so.
//! * Within a row no write is issued before every read of the operation is done. So an operation
//!   whose read fails has changed nothing and can be planned anew, and one whose write fails goes
//!   on as planned: nothing is read from the lost member again.

mod above;
mod absorbed;
mod bad_pages;
mod cached;
mod catch_up;
mod config;
mod copy;
mod degraded;
mod departed;
mod extent;
mod flush;
mod gather;
mod log;
mod lost;
mod members;
mod parity;
mod read;
mod read_errors;
mod rebuild;
mod recover;
mod repair;
mod rewrites;
mod row_cache;
mod scrub;
mod seg;
mod slots;
mod sources;
mod versions;
mod whole;
mod write;

use std::collections::VecDeque;

use destage_plan::{
    Buf, Claim, Column, ColumnSet, Control, Dev, DevSet, DeviceChange, Event, Frag, Intents, NvPut, NvSlot, NvSlots,
    OpId, Out, PageRange, PlacementStream, Row, Rows, Sectors, Stripe, TimerId, TimerOwner,
};

use copy::{CopyRun, CopyTask};
use flush::{FlushRounds, FlushTask};
use gather::RunWrites;
use log::ParityLog;
use members::MemberStates;
use rebuild::MemberRebuild;
use recover::RowRecovery;
use repair::PageRepair;
use row_cache::RowCache;
use scrub::{ScrubRun, ScrubTask};
use slots::SlotShare;
use write::WriteTask;

pub use above::{ArrayUser, WriteDuty};
pub use absorbed::{AbsorbedPages, TakenPages};
pub use config::{
    ArrayConfig, ArrayError, DurabilityMode, MAX_CORRECTED, MAX_MEMBERS, MAX_PARITY_MEMBERS, ParityMethod,
};
pub use read::{DegradedRead, ReadLoss};
pub use read_errors::ReadErrorCount;
pub use seg::StripeSegment;
pub use versions::{
    DeltaPlace, OnMembers, PageDelta, PageVersions, ParityUpdate, RowSources, VersionDelta, VersionSource,
    WriteApproach,
};

/// Pages that the array moved, for specs §0.3. Counted when planned: what is planned anew since a
/// member was lost counts again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayStats {
    /// Data pages read from members, for whatever reason but a rebuild.
    pub data_reads: u64,
    /// Data pages written to members.
    pub data_writes: u64,
    /// Parity pages (or further copies) read.
    pub parity_reads: u64,
    /// Parity pages (or further copies) written.
    pub parity_writes: u64,
    /// Counts data pages trimmed.
    pub data_trims: u64,
    /// Counts parity pages (or further copies) trimmed: those of rows that are trimmed whole.
    pub parity_trims: u64,
    /// Writes of a segment whose parity came from all of its data, nothing read.
    pub full_writes: u64,
    /// By reading what is modified.
    pub rmw_writes: u64,
    /// By reading what is not modified.
    pub rcw_writes: u64,
    /// Of a row of which data was lost.
    pub degraded_writes: u64,
    /// Of data alone, the parity left as it was.
    pub delayed_writes: u64,
    /// Of the pages above those that were read and written to have parity catch up that was left
    /// behind.
    pub late_data_reads: u64,
    /// See there.
    pub late_parity_reads: u64,
    /// See there.
    pub late_parity_writes: u64,
    /// Rounds of flushes begun: several flushes may share one.
    pub flushes: u64,
    /// Rows made consistent after an unclean start.
    pub recovered_rows: u64,
    /// Rows filled in on replaced members.
    pub rebuilt_rows: u64,
    /// Counts the pages of data and parity read for that, which are in none of the counts above.
    pub rebuild_reads: u64,
    /// Counts the pages written for that.
    pub rebuild_writes: u64,
    /// Counts the pages made anew that members could not read.
    pub corrected_pages: u64,
    /// Counts the pages that writes needed and that were in memory, instead of being read.
    pub cached_reads: u64,
}

/// Holds the state of an operation of the array's own.
enum ArrayTask {
    Write(WriteTask),
    Flush(FlushTask),
    /// The slot of the note before.
    Persist(Option<NvSlot>),
    Free {
        slots: Vec<NvSlot>,
        /// They have logged pages that their members hold again.
        unlogs: bool,
    },
    Clear {
        rows: Vec<Rows>,
        slots: Vec<NvSlot>,
    },
    /// And the columns that are written beside the parity.
    Recover(Rows, ColumnSet),
    Rebuild(Rows),
    /// Makes a page anew that its member cannot read or does not hold.
    Repair(PageRepair),
    /// Compares rows.
    Scrub(Box<ScrubTask>),
    /// Copies rows of a member to its successor.
    Copy(CopyTask),
}

/// The columns of a stripe, by what can be done with their devices.
#[derive(Clone, Copy, Debug)]
struct StripeColumns {
    /// Can be read and written.
    live: ColumnSet,
    /// Are being filled: can be written, not read.
    sink: ColumnSet,
}

/// The array.
pub struct RaidArray {
    config: ArrayConfig,
    /// The data columns, and all.
    data: ColumnSet,
    all: ColumnSet,
    members: MemberStates,
    intents: Intents,
    log: ParityLog,
    slots: NvSlots,
    /// Tracks the slots that belong to the array's user.
    share: SlotShare,
    /// Members written since a flush of them began.
    dirty: DevSet,
    flushes: FlushRounds,
    /// Operations that clear intents.
    clearing: u32,
    /// Slots of the NVRAM set aside for writes that are planned.
    reserved: usize,
    /// Rows of which data was lost while their intent was open and the data is in no log.
    exposed: Vec<Row>,
    /// Operations that hold their claim and wait for a note of the members' states, for log slots
    /// or for fewer open intents.
    waiting: Vec<OpId>,
    tasks: Vec<Option<ArrayTask>>,
    recovery: RowRecovery,
    /// Pages that are lost, as far as the start knows.
    lost: Vec<PageRange>,
    rebuild: MemberRebuild,
    /// Counts the operations that make pages anew.
    repairs: u32,
    scrub: ScrubRun,
    copy: CopyRun,
    cleaning: bool,
    /// Operations that free logged pages which their members hold again.
    unlogging: u32,
    /// Is true if the array's user has copies of pages that outlive a crash.
    has_copies: bool,
    /// Rows have intents: those that could be inconsistent, or of which copies outlive a cut.
    has_intents: bool,
    idle_timer: bool,
    ready: bool,
    duties: VecDeque<WriteDuty>,
    /// The page that the plan being made merges.
    merged: Buf,
    /// The row that the plan being made absorbs.
    absorbed: AbsorbedPages,
    /// Keeps pages of recently written rows.
    row_cache: RowCache,
    /// Lists the pages that the plan being made keeps.
    row_puts: Vec<NvPut>,
    /// Counts the writes of sequential runs.
    run_writes: RunWrites,
    stats: ArrayStats,
}

/// Goes off when nothing was flushed for a while.
const IDLE_TIMER: TimerId = TimerId { owner: TimerOwner::Array, number: 0 };

impl ArrayStats {
    /// Counts as late the reads and writes since `before`, which were for stale parity.
    const fn was_late(&mut self, before: &Self) {
        self.late_data_reads += self.data_reads - before.data_reads;
        self.late_parity_reads += self.parity_reads - before.parity_reads;
        self.late_parity_writes += self.parity_writes - before.parity_writes;
    }

    /// Counts what was planned since `before` as a rebuild's pages, and no longer as data and parity.
    const fn was_rebuild(&mut self, before: &Self) {
        self.rebuild_reads += self.data_reads - before.data_reads + self.parity_reads - before.parity_reads;
        self.rebuild_writes += self.data_writes - before.data_writes + self.parity_writes - before.parity_writes;
        (self.data_reads, self.parity_reads) = (before.data_reads, before.parity_reads);
        (self.data_writes, self.parity_writes) = (before.data_writes, before.parity_writes);
    }
}

impl RaidArray {
    /// An array, and `share` slots of the NVRAM beside its own for what stands on it; nothing is known
    /// of its members before [`Event::Start`].
    pub fn new(config: ArrayConfig, share: u32) -> Result<Self, ArrayError> {
        config.check()?;
        let geometry = &config.geometry;
        Ok(Self {
            data: geometry.data_set(),
            all: geometry.column_set(),
            members: MemberStates::new(geometry.members(), geometry.parity_columns()),
            intents: Intents::default(),
            log: ParityLog::default(),
            slots: NvSlots::new(config.nv_slots + share),
            share: SlotShare { slots: share, used: 0 },
            absorbed: AbsorbedPages::default(),
            dirty: DevSet::EMPTY,
            flushes: FlushRounds::default(),
            clearing: 0,
            reserved: 0,
            exposed: Vec::new(),
            waiting: Vec::new(),
            tasks: Vec::new(),
            recovery: RowRecovery::default(),
            lost: Vec::new(),
            rebuild: MemberRebuild::default(),
            repairs: 0,
            scrub: ScrubRun::default(),
            copy: CopyRun::default(),
            cleaning: false,
            unlogging: 0,
            has_copies: false,
            has_intents: geometry.data_set() != geometry.column_set(),
            idle_timer: false,
            ready: false,
            duties: VecDeque::new(),
            merged: Buf::None,
            row_cache: RowCache::new(config.kept_rows(), geometry.column_set().len()),
            row_puts: Vec::new(),
            run_writes: RunWrites::default(),
            stats: ArrayStats::default(),
            config,
        })
    }

    /// Returns the configuration of the service.
    pub const fn config(&self) -> &ArrayConfig {
        &self.config
    }

    /// Pages moved so far.
    pub const fn stats(&self) -> &ArrayStats {
        &self.stats
    }

    /// Sets that the array's user has copies of pages that outlive a crash. Then the intent of a row is open
    /// from before its data is written until it is durable, even if no parity is left.
    pub const fn has_copies(&mut self) {
        self.has_copies = true;
        self.has_intents = true;
    }

    /// Is true if the array is to be clean as soon as possible.
    pub const fn is_cleaning(&self) -> bool {
        self.cleaning
    }

    /// Members that are lost or not yet filled.
    pub fn degraded(&self) -> DevSet {
        self.members.not_live()
    }

    /// Returns true if nothing is at work on a row, and no intent is open but of rows that are held.
    pub fn are_rows_at_rest(&self) -> bool {
        self.intents.is_at_rest() && self.clearing == 0
    }

    /// Returns true if [rows are at rest](Self::are_rows_at_rest), and all is flushed but what fills a member.
    pub fn is_at_rest(&self) -> bool {
        let filling: DevSet = self.filling().map(|one| one.0).into_iter().collect();
        self.are_rows_at_rest() && (self.dirty - filling).is_empty() && !self.flushes.is_under_way()
    }

    /// Returns true if a loss of power now could cost data: less than a flush ago a member was lost, or one could not read a
    /// page.
    pub fn is_exposed(&self) -> bool {
        // An intent that is being cleared is still open in the NVRAM.
        let clears_beside_bad_pages = self.clearing > 0 && !self.members.bad.is_empty();
        !self.exposed.is_empty() || !self.members.persisted() || clears_beside_bad_pages
    }

    /// Members of which nothing durable says so far that they are lost.
    pub fn unnoted(&self) -> DevSet {
        if self.members.persisted() { DevSet::EMPTY } else { self.members.not_live() }
    }

    /// Is true if a lost member is being filled, or waits for it.
    pub fn is_rebuilding(&self) -> bool {
        self.rebuild.is_active() || self.members.filling().is_some()
    }

    /// Returns the member that is being filled, and how many of its rows it holds.
    pub fn filling(&self) -> Option<(Dev, Row)> {
        self.members.filling()
    }

    /// Returns true if the level can do without this member, beside those that are lost or not yet filled.
    pub fn can_spare(&self, dev: Dev) -> bool {
        self.members.can_spare(dev)
    }

    /// Is true if more is lost than the level tolerates.
    pub fn is_broken(&self) -> bool {
        self.members.broken()
    }

    /// Is true if recovery has ended and requests are served.
    pub const fn is_ready(&self) -> bool {
        self.ready
    }

    /// Rows whose intent is open.
    pub fn open_rows(&self) -> usize {
        self.intents.len()
    }

    /// The claim of an operation that writes the segment and keeps its parity true.
    pub fn claim_write(&self, seg: StripeSegment) -> Claim {
        // With parity every write of a row conflicts with every other already; reading all columns
        // costs nothing more.
        let r = if self.parity().is_empty() { seg.columns } else { self.data };
        Claim { stripe: seg.stripe, first: seg.first, rows: seg.rows, r, w: seg.columns | self.parity() }
    }

    /// Opens the operation that writes a segment of a fragment; a discard only if it
    /// [can be passed on](Self::can_trim).
    pub fn open_write(&mut self, frag: &Frag, seg: StripeSegment, out: &mut Out) -> OpId {
        let (claim, chunk) = (self.claim_write(seg), self.config.geometry.chunk_pages());
        // Only a discard has several stripes; one claim for all of them costs one operation instead of one
        // per stripe.
        let op = if seg.rows > chunk {
            let claim = Claim { rows: chunk, ..claim };
            out.open_wide(destage_plan::Class::Write, claim, seg.rows / chunk, Some(frag.id))
        } else {
            out.open(destage_plan::Class::Write, Some(claim), Some(frag.id))
        };
        let mut task = WriteTask::new(&self.config.geometry, frag, seg);
        if frag.run > 0 && self.gathers_runs() {
            task.run = frag.run;
            self.run_goes_on(op, frag.run, seg.stripe, seg.pages(), out);
        }
        self.set_task(op, ArrayTask::Write(task));
        op
    }

    /// Opens an operation that writes a part of the segment of a write which is [split](WriteApproach::Split): behind that one, or
    /// behind another that does a part of it. Nobody comes between them.
    pub fn open_write_behind(&mut self, behind: OpId, frag: &Frag, part: StripeSegment, out: &mut Out) -> OpId {
        let op = out.open_behind(behind, destage_plan::Class::Write, self.claim_write(part), Some(frag.id));
        self.set_task(op, ArrayTask::Write(WriteTask::new(&self.config.geometry, frag, part)));
        op
    }

    /// Returns true if a discard of the segment can be passed on to the members. Parity of zeros is zeros, so
    /// the discard must cover whole rows.
    pub fn can_trim(&self, seg: StripeSegment) -> bool {
        self.config.trims && seg.columns == self.data
    }

    /// Opens the operation that makes everything acknowledged so far durable and then acknowledges
    /// the fragment.
    pub fn open_flush(&mut self, frag: Option<&Frag>, out: &mut Out) -> OpId {
        let op = out.open(destage_plan::Class::Internal, None, frag.map(|frag| frag.id));
        self.set_task(op, ArrayTask::Flush(FlushTask::new(frag.map(|frag| frag.id))));
        self.flushes.opens();
        op
    }

    /// Handles an event: the array's own here, another above. What has to be done about writes in
    /// consequence is done above before this returns.
    pub fn handle(&mut self, event: Event<'_>, above: &mut impl ArrayUser, out: &mut Out) {
        // The array calls its user itself, so that no controller can forget a duty.
        if !self.handle_own(event, above.versions(), out) {
            above.event(event, self, out);
        }
        // A duty may plan further writes, whose duties follow in the same event.
        while let Some(duty) = self.duties.pop_front() {
            above.duty(duty, self, out);
        }
        if !self.ready {
            self.recover_more(above.versions(), out);
        }
        if self.cleaning {
            self.try_clean(above.versions(), out);
        }
    }

    /// Has what stands above do what has to be done about writes after what it did on its own; after events
    /// that is seen to.
    #[inline]
    pub fn do_duties(&mut self, above: &mut impl ArrayUser, out: &mut Out) {
        if !self.duties.is_empty() {
            self.do_more_duties(above, out);
        }
    }

    #[cold]
    fn do_more_duties(&mut self, above: &mut impl ArrayUser, out: &mut Out) {
        while let Some(duty) = self.duties.pop_front() {
            above.duty(duty, self, out);
        }
    }

    /// Handles an event, if it is the array's own; whether it was.
    fn handle_own(&mut self, event: Event<'_>, versions: &mut dyn PageVersions, out: &mut Out) -> bool {
        match event {
            Event::Start(start) => {
                self.start(start, out);
                // What stands above recovers, too.
                return false;
            }
            Event::Granted(op) => match self.task(op) {
                None => return false,
                Some(ArrayTask::Write(_)) => self.plan_write(op, versions, out),
                Some(ArrayTask::Flush(_)) => self.plan_flush(op, versions, out),
                Some(ArrayTask::Persist(_)) => self.plan_persist(op, out),
                Some(ArrayTask::Free { .. }) => self.plan_free(op, out),
                Some(ArrayTask::Clear { .. }) => self.plan_clear(op, out),
                Some(&mut ArrayTask::Recover(rows, _)) => self.plan_recover(op, rows, versions, out),
                Some(&mut ArrayTask::Rebuild(rows)) => self.plan_rebuild(op, rows, versions, out),
                Some(&mut ArrayTask::Repair(repair)) => self.plan_repair(op, repair, versions, out),
                Some(ArrayTask::Scrub(_)) => self.plan_scrub(op, versions, out),
                Some(&mut ArrayTask::Copy(task)) => self.plan_copy(op, task, versions, out),
            },
            Event::StepDone { op, step, outcome } => match self.task(op) {
                None => return false,
                // The step belongs to the user, who appended it to the write.
                Some(ArrayTask::Write(task)) if !task.goes_on_after().contains(step) => return false,
                Some(ArrayTask::Write(_)) => self.write_goes_on(op, versions, out),
                Some(ArrayTask::Persist(_)) => self.persist_done(versions, out),
                Some(&mut ArrayTask::Repair(repair)) => self.repair_goes_on(op, repair, out),
                Some(ArrayTask::Scrub(_)) => self.scrub_goes_on(op, outcome, out),
                Some(_) => {}
            },
            Event::PhaseDone(op) => match self.task(op) {
                Some(ArrayTask::Write(_)) => self.rows_done(op, versions, out),
                _ => return false,
            },
            Event::OpStuck { op, failed: _, devs } => {
                if self.task(op).is_none() {
                    return false;
                }
                self.stuck(op, devs, out);
                match self.task(op) {
                    Some(ArrayTask::Write(_)) => self.write_stuck(op, versions, out),
                    // It goes on when the loss is noted.
                    Some(ArrayTask::Flush(_)) => out.again(op),
                    Some(&mut ArrayTask::Repair(repair)) => self.repair_stuck(op, repair, versions, out),
                    Some(&mut ArrayTask::Recover(rows, _)) => self.recover_stuck(op, rows, versions, out),
                    Some(ArrayTask::Scrub(_)) => self.scrub_stuck(op, versions, out),
                    // What it reads is not changed by what it wrote, so it begins again.
                    Some(ArrayTask::Rebuild(_) | ArrayTask::Copy(_)) => {
                        versions.released(op);
                        out.restart(op);
                        out.again(op);
                    }
                    Some(ArrayTask::Persist(_) | ArrayTask::Free { .. } | ArrayTask::Clear { .. }) | None => {
                        unreachable!("the NVRAM does not fail")
                    }
                }
            }
            Event::OpDone(op) if matches!(self.task(op), Some(ArrayTask::Write(_))) => {
                self.write_done(op, versions, out);
            }
            Event::OpDone(op) => match self.tasks.get_mut(op.index()).and_then(Option::take) {
                None | Some(ArrayTask::Write(_)) => return false,
                Some(ArrayTask::Flush(_)) => self.flush_done(op, versions, out),
                Some(ArrayTask::Persist(old)) => old.into_iter().for_each(|slot| self.slots.free(slot)),
                Some(ArrayTask::Free { slots, unlogs }) => self.free_done(slots, unlogs, out),
                Some(ArrayTask::Clear { slots, .. }) => self.clear_done(slots, out),
                Some(ArrayTask::Recover(rows, back)) => self.recover_done(op, rows, back, versions),
                Some(ArrayTask::Rebuild(rows)) => {
                    versions.released(op);
                    self.rebuild_done(rows, out);
                }
                Some(ArrayTask::Repair(repair)) => self.repair_done(op, repair, versions, out),
                Some(ArrayTask::Scrub(task)) => self.scrub_done(op, &task, versions, out),
                Some(ArrayTask::Copy(task)) => self.copy_done(op, task, versions, out),
            },
            Event::Timer(TimerId { owner: TimerOwner::Array, .. }) => self.timer_went_off(out),
            Event::Device { dev, change } => {
                if dev.0 >= self.config.geometry.members() {
                    return false;
                }
                match change {
                    DeviceChange::Failed => self.lose(dev, out),
                    DeviceChange::Replaced => self.replaced(dev, out),
                }
            }
            Event::Control(Control::Settle) => {
                self.settle(out);
                // What stands above may have its own to note.
                return false;
            }
            Event::Control(Control::Clean) => {
                self.cleaning = true;
                self.open_flush(None, out);
                // What stands above has its own to write back.
                return false;
            }
            Event::Control(Control::Scrub(order)) => self.begin_scrub(order, out),
            Event::Control(Control::Copy(dev)) => self.begin_copy(dev, out),
            Event::Control(Control::EndCopy(how)) => self.end_copy(how, out),
            Event::Submit(_)
            | Event::Timer(_)
            | Event::DeviceGc { .. }
            | Event::DeviceNearGc(_)
            | Event::Control(Control::Drain) => return false,
        }
        true
    }

    /// A member did not do what it was asked, as the controller sees from an operation of its own.
    #[cold]
    pub fn lose_all(&mut self, devs: DevSet, out: &mut Out) {
        for dev in (devs & self.config.geometry.member_set()).iter() {
            self.lose(dev, out);
        }
    }

    /// Returns the stream of writes to a column: copies are as data is.
    fn stream_of(&self, column: Column) -> PlacementStream {
        let has_copies = self.config.geometry.level() == crate::RaidLevel::Raid1;
        if has_copies || self.data.contains(column) { PlacementStream::Data } else { PlacementStream::Parity }
    }

    /// The columns that are not data.
    fn parity(&self) -> ColumnSet {
        self.all - self.data
    }

    fn task(&mut self, op: OpId) -> Option<&mut ArrayTask> {
        self.tasks.get_mut(op.index()).and_then(Option::as_mut)
    }

    fn set_task(&mut self, op: OpId, task: ArrayTask) {
        if self.tasks.len() <= op.index() {
            self.tasks.resize_with(op.index() + 1, || None);
        }
        self.tasks[op.index()] = Some(task);
    }

    /// Returns the columns that can be read, and those that can only be written, in rows of one stripe.
    fn columns(&self, stripe: Stripe, rows: Rows) -> StripeColumns {
        // The common case must not look at each member: every plan asks this.
        if self.members.all_live() {
            return StripeColumns { live: self.all, sink: ColumnSet::EMPTY };
        }
        let mut columns = StripeColumns { live: ColumnSet::EMPTY, sink: ColumnSet::EMPTY };
        for (column, dev) in self.all.iter().zip(self.config.geometry.devices(stripe)) {
            if self.members.is_live(*dev, rows) {
                columns.live.insert(column);
            }
            if self.members.is_sink(*dev, rows) {
                columns.sink.insert(column);
            }
        }
        columns
    }

    fn dev(&self, stripe: Stripe, column: Column) -> Dev {
        self.config.geometry.device(stripe, column)
    }

    /// Is true if a device is a member that takes no writes. No step may rely on the loss before it is
    /// [noted](Self::is_noted).
    pub fn is_lost(&self, dev: Dev) -> bool {
        self.config.geometry.member_set().contains(dev) && self.members.is_lost(dev)
    }

    /// Returns true if the loss of every member is noted. If not, the operation is told to go
    /// [again](Out::again) once it is.
    pub fn is_noted(&mut self, op: OpId) -> bool {
        let noted = self.members.persisted();
        if !noted {
            self.waiting.push(op);
        }
        noted
    }

    /// Returns true if the intent of a row is not open. If it is open, it is cleared as soon as possible, and
    /// the operation is told to go [again](Out::again).
    fn has_no_intent(&mut self, op: OpId, row: Row, out: &mut Out) -> bool {
        let none = !self.intents.contains(row) && self.clearing == 0;
        if !none {
            self.waiting.push(op);
            self.clear_intents(out);
        }
        none
    }

    /// Wakes writes and flushes that have [waited](WriteApproach::Waits) for something above that is done now.
    pub fn try_again(&mut self, versions: &mut dyn PageVersions, out: &mut Out) {
        self.begin_round(versions, out);
        self.wake(out);
    }

    /// Lets operations that wait try again.
    fn wake(&mut self, out: &mut Out) {
        for op in self.waiting.drain(..) {
            out.again(op);
        }
    }

    fn fua(&self) -> bool {
        self.config.regime == DurabilityMode::EveryWrite
    }
}

/// A buffer some pages further on.
fn advance(buf: Buf, pages: u16) -> Buf {
    match buf {
        Buf::Host { frag, page } => Buf::Host { frag, page: page + pages },
        Buf::Tmp { id, page } => Buf::Tmp { id, page: page + pages },
        other => other,
    }
}

/// Sectors that are a page in part.
type PagePart = Option<Sectors>;
