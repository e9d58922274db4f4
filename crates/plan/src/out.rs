//! Holds operations, and takes a controller's decisions about them.
//!
//! Invariants:
//! * A step is issued once, after all steps that it waits for are done.
//! * An operation ends once it is closed, all its steps are done and none is in flight.
//! * A controller plans anew only when nothing of the operation is in flight, so no buffer is written under a new
//!   plan.

mod debug;
mod meddle;

use std::collections::VecDeque;

use crate::lists::Lists;
use crate::{
    BadPage, Buf, Claim, ClaimTable, ClaimWait, Class, CopyOutcome, Dev, DevSet, FragId, Nanos, OpId, PageReport,
    PlacementStream, Refusal, ScrubTally, Status, Step, StepKind, StepNo, StepOutcome, StepSet, Stripe, TimerId,
};

pub use meddle::Planned;

/// A step that may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Whose.
    pub op: OpId,
    /// Numbers the step.
    pub step: StepNo,
}

/// Lists the events that the engine has yet to tell the controller.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    Granted(OpId),
    StepDone(OpId, StepNo, StepOutcome),
    PhaseDone(OpId),
    OpStuck(OpId, StepSet, DevSet),
    OpDone(OpId),
}

#[derive(Clone, Copy)]
struct Slot {
    step: Step,
    after: StepSet,
    stream: PlacementStream,
}

#[derive(Default)]
struct Op {
    // Places and their lists are used again: once the table has grown, a plan allocates nothing.
    steps: Vec<Slot>,
    /// Holds the lists that the steps name.
    lists: Lists,
    /// Pages of each buffer of the operation.
    tmps: Vec<u16>,
    claim: Option<Claim>,
    /// Counts the stripes beyond the claim's, of which it claims the same.
    more_stripes: u32,
    /// Counts its claims that do not hold.
    waits: u32,
    class: Option<Class>,
    frag: Option<FragId>,
    issued: StepSet,
    done: StepSet,
    failed: StepSet,
    /// Devices that did not do them.
    failed_devs: DevSet,
    /// Lists the pages that devices could not read for them.
    unreadable: Vec<BadPage>,
    /// Tells that a device which cannot write a page is not lost with it.
    is_attempt: bool,
    notify: StepSet,
    /// The steps of its first phase, until that is done.
    phase: StepSet,
    /// The phase is done, and the controller is to be told unless the operation is, too.
    phase_done: bool,
    live: bool,
    closed: bool,
    /// `OpStuck` or `OpDone` is on its way.
    told: bool,
}

impl Op {
    fn clear_plan(&mut self) {
        self.steps.clear();
        self.lists.clear();
        self.tmps.clear();
        // A plan that is dropped for another reason keeps them: the pages are still bad for the plan that follows.
        if !self.failed.is_empty() {
            self.unreadable.clear();
        }
        (self.issued, self.done, self.failed, self.notify, self.phase) = Default::default();
        self.failed_devs = DevSet::EMPTY;
        (self.closed, self.told, self.phase_done, self.is_attempt) = (false, false, false, false);
    }

    /// Notes that the phase has ended, if it has.
    #[inline]
    fn end_phase(&mut self) {
        if !self.phase.is_empty() && self.done.contains_all(self.phase) {
            (self.phase, self.phase_done) = (StepSet::EMPTY, true);
        }
    }

    fn in_flight(&self) -> StepSet {
        self.issued - (self.done | self.failed)
    }

    fn all(&self) -> StepSet {
        StepSet::first(self.steps.len() as u32)
    }
}

/// The table of operations and the claims they hold: what a controller writes its decisions into,
/// and what an [`Engine`](crate::Engine) takes the next steps from. Reused throughout, so that
/// plans cost no allocation.
#[derive(Default)]
pub struct Out {
    pub(crate) now: Nanos,
    pub(crate) page_bytes: u32,
    ops: Vec<Op>,
    free: Vec<OpId>,
    live: usize,
    pub(crate) claims: ClaimTable,
    pub(crate) queue: VecDeque<Pending>,
    pub(crate) ready: VecDeque<Issue>,
    /// Fragments of operations that were opened, once each.
    pub(crate) opened: Vec<FragId>,
    pub(crate) acks: VecDeque<(FragId, u16, bool)>,
    timers: Vec<(Nanos, TimerId)>,
    /// Holds the time at which the first of them is due.
    pub(crate) next_timer: Option<Nanos>,
    pub(crate) status: Option<Status>,
    pub(crate) reports: VecDeque<PageReport>,
    pub(crate) clean: bool,
    pub(crate) drained: bool,
    pub(crate) scrubbed: Option<ScrubTally>,
    pub(crate) copied: Option<CopyOutcome>,
    counts: [u64; StepKind::ALL.len()],
}

impl Out {
    pub(crate) fn new(page_bytes: u32) -> Self {
        Self { page_bytes, ..Self::default() }
    }

    /// The time of the event being handled.
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Bytes of a page.
    pub const fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Begins an operation. It hears [`Granted`](crate::Event::Granted) when its claim holds;
    /// without a claim at once. `frag` is the fragment whose bytes it may use.
    pub fn open(&mut self, class: Class, claim: Option<Claim>, frag: Option<FragId>) -> OpId {
        let id = self.begin(class, claim, frag);
        // Even without a claim the grant is an event, so a controller makes its plans in one place.
        if claim.is_none_or(|claim| self.claims.claim(self.now, id, class, claim)) {
            self.queue.push_back(Pending::Granted(id));
        } else {
            self.ops[id.index()].waits = 1;
        }
        id
    }

    /// Opens, as [`open`](Self::open) does, an operation that does a part of what another was to do, which holds its claim and is
    /// `behind` or had this one opened behind itself: its claim stands right behind that, before those of all others.
    ///
    /// # Panics
    /// If the claim is not part of the other's, whose columns that are written may be read.
    pub fn open_behind(&mut self, behind: OpId, class: Class, claim: Claim, frag: Option<FragId>) -> OpId {
        let id = self.begin(class, Some(claim), frag);
        if self.claims.claim_behind(self.now, behind, id, class, claim) {
            self.queue.push_back(Pending::Granted(id));
        } else {
            self.ops[id.index()].waits = 1;
        }
        id
    }

    fn begin(&mut self, class: Class, claim: Option<Claim>, frag: Option<FragId>) -> OpId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.ops.push(Op::default());
            OpId(self.ops.len() as u32 - 1)
        });
        let op = &mut self.ops[id.index()];
        (op.claim, op.class, op.frag, op.live) = (claim, Some(class), frag, true);
        self.live += 1;
        // The engine counts a fragment's operations, since its bytes must stay until the last one has ended.
        self.opened.extend(frag);
        id
    }

    /// Opens, as [`open`](Self::open) does, an operation that claims the same of several stripes, from the claim's
    /// on.
    ///
    /// It hears [`Granted`](crate::Event::Granted) when all its claims hold. Such a claim cannot be
    /// [narrowed](Self::narrow).
    pub fn open_wide(&mut self, class: Class, claim: Claim, stripes: u32, frag: Option<FragId>) -> OpId {
        let id = self.open(class, None, frag);
        // `open` has queued the grant of an operation without a claim; this one is granted once all its claims
        // hold.
        self.queue.pop_back();
        // All claims are queued in this one call: made one after the other, two operations could wait for each
        // other.
        let waits = (0..u64::from(stripes)).filter(|more| {
            let claim = Claim { stripe: Stripe(claim.stripe.0 + more), ..claim };
            !self.claims.claim(self.now, id, class, claim)
        });
        let waits = waits.count() as u32;
        let op = &mut self.ops[id.index()];
        (op.claim, op.more_stripes, op.waits) = (Some(claim), stripes - 1, waits);
        if waits == 0 {
            self.queue.push_back(Pending::Granted(id));
        }
        id
    }

    /// Appends a step that begins when all steps in `after` are done; the set of this one, for the
    /// sets of others.
    ///
    /// # Panics
    /// If the operation has 64 steps already.
    #[inline]
    pub fn step(&mut self, op: OpId, step: Step, after: StepSet) -> StepSet {
        self.step_placed(op, step, PlacementStream::Unlabelled, after)
    }

    /// Appends a step as [`step`](Self::step) does, for a write that belongs to a stream.
    #[inline]
    pub fn step_placed(&mut self, op: OpId, step: Step, stream: PlacementStream, after: StepSet) -> StepSet {
        let slot = &mut self.ops[op.index()];
        debug_assert!(slot.live && !slot.closed, "{op:?} takes no more steps");
        let index = slot.steps.len();
        // A set of steps is one machine word. 64 steps serve 24 members, as a fragment has at most three segments.
        assert!(index < 64, "an operation has at most 64 steps");
        debug_assert!(slot.all().contains_all(after), "a step begins only after steps that exist");
        slot.steps.push(Slot { step, after, stream });
        let number = StepNo(index as u8);
        // Steps can be appended while earlier ones run, so what this one waits for may be done by now.
        if slot.done.contains_all(after) {
            self.issue(op, number);
        }
        StepSet::one(number)
    }

    /// Appends a step as [`step`](Self::step) does; the controller hears [`StepDone`](crate::Event::StepDone) when
    /// it is done.
    pub fn step_notify(&mut self, op: OpId, step: Step, after: StepSet) -> StepSet {
        let slot = &mut self.ops[op.index()];
        // Marked before the step is appended: a step of the engine's own may be done as soon as it is appended.
        slot.notify.insert(StepNo(slot.steps.len() as u8));
        self.step(op, step, after)
    }

    /// These steps are the operation's first phase. When they are done, the controller hears
    /// [`PhaseDone`](crate::Event::PhaseDone), unless the operation ends with them: what it does
    /// after the host is answered must not delay what the answer relies on. What is acknowledged
    /// after them is told to the host no sooner than the controller has heard of it.
    ///
    /// Returns `false`, and nothing will be heard, if they are done already.
    pub fn phase(&mut self, op: OpId, steps: StepSet) -> bool {
        let slot = &mut self.ops[op.index()];
        let pending = !slot.done.contains_all(steps);
        slot.phase = if pending { steps } else { StepSet::EMPTY };
        pending
    }

    /// A buffer of `pages` pages that lives as long as the operation's present plan.
    pub fn tmp(&mut self, op: OpId, pages: u16) -> Buf {
        let tmps = &mut self.ops[op.index()].tmps;
        // A step names a buffer in one byte, which helps to keep steps at 48 bytes.
        assert!(tmps.len() < 256, "an operation has at most 256 buffers");
        tmps.push(pages);
        Buf::Tmp { id: (tmps.len() - 1) as u8, page: 0 }
    }

    /// No further steps will come: the operation ends when those it has are done.
    pub fn close(&mut self, op: OpId) {
        self.ops[op.index()].closed = true;
        self.tell_how_it_ended(op);
    }

    /// Lets writes of the operation's present plan fail without the loss of their device: such a step ends as
    /// [`Unreadable`](StepOutcome::Unreadable).
    pub fn attempt(&mut self, op: OpId) {
        // A device that cannot write one bad page may still serve all others, and is not lost for that.
        self.ops[op.index()].is_attempt = true;
    }

    /// Returns true if the operation's present plan is an [attempt](Self::attempt).
    pub fn is_attempt(&self, op: OpId) -> bool {
        self.ops[op.index()].is_attempt
    }

    /// Forgets the operation's plan, so that another can be made under the same claim.
    ///
    /// # Panics
    /// If a step is in flight.
    pub fn restart(&mut self, op: OpId) {
        let slot = &mut self.ops[op.index()];
        // A step in flight may still write a buffer of the old plan, which the new plan would take for its own.
        assert!(slot.in_flight().is_empty(), "{op:?} has steps in flight");
        slot.clear_plan();
    }

    /// Takes the operation's failed steps for done: what they would have written is on a device
    /// that is lost. Those after them begin. Of those that were to be told of, the controller hears
    /// that they failed.
    pub fn forgive(&mut self, op: OpId) {
        let slot = &mut self.ops[op.index()];
        let failed = std::mem::take(&mut slot.failed);
        slot.failed_devs = DevSet::EMPTY;
        slot.unreadable.clear();
        // A failed write means a lost device, whose content matters no more: the rest of the plan is still right.
        slot.done |= failed;
        slot.told = false;
        for step in (failed & slot.notify).iter() {
            // A failed step without a device is a decode: devices are the only other cause.
            let dev = slot.steps[step.index()].step.dev();
            let outcome = dev.map_or(StepOutcome::Undecodable, StepOutcome::Failed);
            self.queue.push_back(Pending::StepDone(op, step, outcome));
        }
        self.ops[op.index()].end_phase();
        self.issue_after(op, failed);
        self.tell_how_it_ended(op);
    }

    /// Drops what is left of an operation of which steps failed after its
    /// [first phase](Self::phase): neither these nor those that have not begun are done any more,
    /// but for acknowledgements, which rely on the phase alone. Whether the controller would have
    /// been told of one that is dropped.
    ///
    /// # Panics
    /// If a step is in flight.
    pub fn give_up(&mut self, op: OpId) -> bool {
        let slot = &mut self.ops[op.index()];
        assert!(slot.in_flight().is_empty(), "{op:?} has steps in flight");
        let dropped = slot.all() - slot.done;
        let told = dropped.meets(slot.notify);
        let unbegun = slot.all() - slot.issued;
        (slot.failed, slot.failed_devs) = (StepSet::EMPTY, DevSet::EMPTY);
        slot.unreadable.clear();
        // Everything counts as done, so the operation ends as if the rest had never been planned.
        (slot.issued, slot.done, slot.told) = (slot.all(), slot.all(), false);
        for step in unbegun.iter() {
            // The host's answer relies on the phase alone, which is done: dropping it would keep the host waiting
            // for ever.
            if let Step::Ack { frag, pages, ok } = self.ops[op.index()].steps[step.index()].step {
                self.counts[StepKind::Ack as usize] += 1;
                self.acks.push_back((frag, pages, ok));
            }
        }
        self.tell_how_it_ended(op);
        told
    }

    /// Forgets the operation's plan and ends it.
    pub fn abandon(&mut self, op: OpId) {
        self.restart(op);
        self.close(op);
    }

    /// Asks for another [`Granted`](crate::Event::Granted) of an operation whose claim holds: it
    /// waited for something else.
    pub fn again(&mut self, op: OpId) {
        self.queue.push_back(Pending::Granted(op));
    }

    /// The claim of an operation.
    pub fn claim(&self, op: OpId) -> Option<Claim> {
        self.ops[op.index()].claim
    }

    /// Gives a part of an operation's claim back, which it holds; what is left is `to`. Operations
    /// that waited for that part alone hear [`Granted`](crate::Event::Granted).
    ///
    /// # Panics
    /// If the claim is not held, or `to` is not part of it.
    pub fn narrow(&mut self, op: OpId, to: Claim) {
        let slot = &mut self.ops[op.index()];
        assert!(slot.claim.is_some() && slot.more_stripes == 0, "{op:?} has no claim, or one of several stripes");
        slot.claim = Some(to);
        let Self { ops, queue, .. } = self;
        self.claims.narrow(self.now, op, to, |op| grant(ops, queue, op));
    }

    /// Offers the operations that wait for the claim of this one, which it holds, and for such as were `taken` before; they
    /// must have one claim each to be taken. Those that wait for others as well are not offered.
    pub fn followers(&self, op: OpId, mut taken: impl FnMut(OpId) -> bool) {
        if let Some(claim) = self.ops[op.index()].claim {
            // A claim of several stripes waits in several lines. One line cannot tell whether it waits for others.
            self.claims.followers(op, claim.stripe, |op| self.ops[op.index()].more_stripes == 0 && taken(op));
        }
    }

    /// Makes room for more steps of an operation whose steps are all done: their places are free
    /// again, and their sets mean nothing any more; its buffers stay. An operation has 64 steps at
    /// a time.
    ///
    /// # Panics
    /// If a step is not done, or the operation is closed.
    pub fn renew(&mut self, op: OpId) {
        let slot = &mut self.ops[op.index()];
        assert!(slot.done == slot.all() && !slot.closed, "{op:?} has steps that are not done");
        // Buffers stay, since later steps may use results of those that are done.
        slot.steps.clear();
        slot.lists.clear();
        (slot.issued, slot.done, slot.notify) = Default::default();
    }

    /// Recovery is finished; requests may come.
    pub fn ready(&mut self) {
        self.status = Some(Status::Ready);
    }

    /// The controller does not start.
    pub fn refuse(&mut self, why: Refusal) {
        self.status = Some(Status::Refused(why));
    }

    /// Everything is written back and no intent is open, as was [ordered](crate::Control::Clean).
    pub fn clean(&mut self) {
        self.clean = true;
    }

    /// Tells what became of a page that a device could not read.
    pub fn report(&mut self, report: PageReport) {
        self.reports.push_back(report);
    }

    /// Tells that the data acknowledged before the last [`Drain`](crate::Control::Drain) is written back.
    pub fn drained(&mut self) {
        self.drained = true;
    }

    /// Tells that the rows of the last [order](crate::Control::Scrub) were compared.
    pub fn scrubbed(&mut self, tally: ScrubTally) {
        self.scrubbed = Some(tally);
    }

    /// Tells that the member of the last [order](crate::Control::Copy) was copied, or cannot be.
    pub fn copied(&mut self, outcome: CopyOutcome) {
        self.copied = Some(outcome);
    }

    /// Asks for [`Timer`](crate::Event::Timer) at a time. An earlier timer of this number is
    /// forgotten.
    pub fn timer(&mut self, id: TimerId, at: Nanos) {
        self.timers.retain(|timer| timer.1 != id);
        self.timers.push((at, id));
        self.find_next_timer();
    }

    /// Forgets a timer.
    pub fn cancel(&mut self, id: TimerId) {
        self.timers.retain(|timer| timer.1 != id);
        self.find_next_timer();
    }

    /// Takes the timer that is due first, of those that are due then the one that was set first.
    pub(crate) fn take_timer(&mut self) -> Option<TimerId> {
        let index = self.timers.iter().position(|timer| Some(timer.0) == self.next_timer)?;
        let (_, id) = self.timers.remove(index);
        self.find_next_timer();
        Some(id)
    }

    fn find_next_timer(&mut self) {
        self.next_timer = self.timers.iter().map(|timer| timer.0).min();
    }

    /// Returns true if a read is among the operation's failed steps.
    pub fn failed_read(&self, op: OpId) -> bool {
        let slot = &self.ops[op.index()];
        slot.failed
            .iter()
            .any(|step| matches!(slot.steps[step.index()].step, Step::Read { .. } | Step::MetaRead { .. }))
    }

    /// Returns true if a step of the operation was issued that changes one of these devices.
    pub fn has_changed(&self, op: OpId, devs: DevSet) -> bool {
        let slot = &self.ops[op.index()];
        let changed = |step: StepNo| slot.steps[step.index()].step.changes().map(crate::Ext::dev);
        slot.issued.iter().filter_map(changed).any(|dev| devs.contains(dev))
    }

    /// Returns true if these steps of the operation's present plan are done.
    pub fn is_done(&self, op: OpId, steps: StepSet) -> bool {
        self.ops[op.index()].done.contains_all(steps)
    }

    /// Returns the pages that devices could not read for the operation's failed steps.
    pub fn unreadable(&self, op: OpId) -> &[BadPage] {
        &self.ops[op.index()].unreadable
    }

    /// Returns true if a step failed through no device: bytes that cannot be [decoded](Step::Decode). It would fail
    /// again.
    pub fn failed_decode(&self, op: OpId) -> bool {
        let slot = &self.ops[op.index()];
        slot.failed.iter().any(|step| slot.steps[step.index()].step.dev().is_none())
    }

    /// Operations that are open.
    pub const fn live(&self) -> usize {
        self.live
    }

    /// Steps issued so far, by [`StepKind`].
    pub const fn counts(&self) -> &[u64; StepKind::ALL.len()] {
        &self.counts
    }

    /// Time waited for claims, by [`Class`].
    pub const fn waits(&self) -> &[ClaimWait; Class::ALL.len()] {
        self.claims.waits()
    }

    pub(crate) fn get(&self, issue: Issue) -> &Step {
        &self.ops[issue.op.index()].steps[issue.step.index()].step
    }

    pub(crate) fn stream(&self, issue: Issue) -> PlacementStream {
        self.ops[issue.op.index()].steps[issue.step.index()].stream
    }

    pub(crate) fn lists(&self, op: OpId) -> &Lists {
        &self.ops[op.index()].lists
    }

    pub(crate) fn lists_mut(&mut self, op: OpId) -> &mut Lists {
        &mut self.ops[op.index()].lists
    }

    pub(crate) fn tmp_pages(&self, op: OpId, id: u8) -> u16 {
        self.ops[op.index()].tmps[usize::from(id)]
    }

    pub(crate) fn tmp_count(&self, op: OpId) -> usize {
        self.ops.get(op.index()).map_or(0, |op| op.tmps.len())
    }

    pub(crate) fn frag_of(&self, op: OpId) -> Option<FragId> {
        self.ops[op.index()].frag
    }

    fn issue(&mut self, id: OpId, number: StepNo) {
        let op = &mut self.ops[id.index()];
        op.issued.insert(number);
        let step = &op.steps[number.index()].step;
        self.counts[step.kind() as usize] += 1;
        match *step {
            Step::Ack { frag, pages, ok } => {
                self.acks.push_back((frag, pages, ok));
                // The engine's own steps never reach an executor: they would cost each one a case that does
                // nothing.
                self.step_done(id, number, StepOutcome::Ok);
            }
            Step::Join => self.step_done(id, number, StepOutcome::Ok),
            _ => self.ready.push_back(Issue { op: id, step: number }),
        }
    }

    pub(crate) fn finish(&mut self, issue: Issue, outcome: StepOutcome) {
        let Issue { op: id, step } = issue;
        let op = &mut self.ops[id.index()];
        debug_assert!(op.in_flight().contains(step), "step {} of {id:?} is in flight", step.0);
        match outcome {
            // The operation is told as stuck only after its other steps in flight have ended, so it can be
            // planned anew at once.
            StepOutcome::Failed(dev) => {
                op.failed.insert(step);
                op.failed_devs.insert(dev);
            }
            // No device is at fault. Trying again would fail again, and going on would give wrong bytes.
            StepOutcome::Undecodable => op.failed.insert(step),
            StepOutcome::Unreadable(page) => {
                op.failed.insert(step);
                op.unreadable.push(page);
            }
            StepOutcome::Ok | StepOutcome::Length(_) | StepOutcome::Differing(_) => self.step_done(id, step, outcome),
        }
        self.tell_how_it_ended(id);
    }

    /// A step is done. Whether the operation is as well is the caller's question.
    fn step_done(&mut self, id: OpId, step: StepNo, outcome: StepOutcome) {
        let op = &mut self.ops[id.index()];
        op.done.insert(step);
        op.end_phase();
        if op.notify.contains(step) {
            self.queue.push_back(Pending::StepDone(id, step, outcome));
        }
        if op.issued != op.all() {
            self.issue_after(id, StepSet::one(step));
        }
    }

    /// Issues what waited for the steps in `finished`, which are done, and for nothing else.
    fn issue_after(&mut self, id: OpId, finished: StepSet) {
        let mut op = &mut self.ops[id.index()];
        for number in (op.all() - op.issued).iter() {
            let Slot { step, after, .. } = &op.steps[number.index()];
            if !(after.meets(finished) && op.done.contains_all(*after)) {
                continue;
            }
            if step.is_the_engines() {
                // Another of them may have issued it already.
                if !op.issued.contains(number) {
                    self.issue(id, number);
                    op = &mut self.ops[id.index()];
                }
            } else if !op.issued.contains(number) {
                self.counts[step.kind() as usize] += 1;
                op.issued.insert(number);
                self.ready.push_back(Issue { op: id, step: number });
            }
        }
    }

    /// Steps that failed on a device before another took its place say nothing of that one, even
    /// where their operation tells only later that it is stuck.
    pub(crate) fn replaced(&mut self, dev: Dev) {
        for op in &mut self.ops {
            // A plan made anew may use the device that stands there now, so the old failure must not count against
            // it.
            op.failed_devs.remove(dev);
            op.unreadable.retain(|page| page.dev != dev);
        }
    }

    fn tell_how_it_ended(&mut self, id: OpId) {
        let op = &mut self.ops[id.index()];
        let phase_done = std::mem::take(&mut op.phase_done);
        let ended = !op.told && op.in_flight().is_empty();
        if ended && op.failed.is_empty() && op.closed && op.done == op.all() {
            op.told = true;
            return self.queue.push_back(Pending::OpDone(id));
        }
        // The phase is told before the failure: the failure may have the plan dropped, but not what the phase has
        // done.
        if phase_done {
            self.queue.push_back(Pending::PhaseDone(id));
        }
        if ended && !op.failed.is_empty() {
            op.told = true;
            self.queue.push_back(Pending::OpStuck(id, op.failed, op.failed_devs));
        }
    }

    fn release(&mut self, id: OpId) {
        if let Some(claim) = self.ops[id.index()].claim.take() {
            let Self { ops, queue, .. } = self;
            self.claims.release(self.now, id, claim.stripe, |op| grant(ops, queue, op));
            if self.ops[id.index()].more_stripes > 0 {
                self.release_more(id, claim.stripe);
            }
        }
    }

    /// Gives back the claims of stripes behind the first.
    #[cold]
    fn release_more(&mut self, id: OpId, first: Stripe) {
        let more = std::mem::take(&mut self.ops[id.index()].more_stripes);
        let Self { ops, queue, .. } = self;
        for more in 1..=u64::from(more) {
            self.claims.release(self.now, id, Stripe(first.0 + more), |op| grant(ops, queue, op));
        }
    }

    /// After the controller heard `OpDone`: gives back the claim and the place.
    pub(crate) fn end(&mut self, id: OpId) {
        self.release(id);
        let op = &mut self.ops[id.index()];
        op.clear_plan();
        op.live = false;
        self.live -= 1;
        self.free.push(id);
    }
}

/// Counts a claim of an operation that holds from now on, and grants the operation if it was the last.
#[inline]
fn grant(ops: &mut [Op], queue: &mut VecDeque<Pending>, op: OpId) {
    let slot = &mut ops[op.index()];
    slot.waits -= 1;
    if slot.waits == 0 {
        queue.push_back(Pending::Granted(op));
    }
}
