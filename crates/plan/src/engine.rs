//! Drives a controller: requests become fragments, events reach the controller in order, steps that
//! may begin come out. No clock, no I/O, no bytes: what carries the steps out is an executor's.

use std::collections::VecDeque;

use crate::out::Pending;
use crate::{
    Buf, ByteList, Claim, Condition, Control, CopyOutcome, Dev, DevSet, DeviceChange, Event, Frag, FragId, HostOp,
    Issue, List, Nanos, NvPut, OpId, Out, PageChecksums, PageReport, Piece, PlacementStream, PutList, RangeError,
    RowList, Rows, ScrubTally, Shape, Span, SpanList, Start, Status, Step, StepOutcome,
};

/// A policy of the host side: a pure state machine. Everything it does follows from the events it
/// was given.
pub trait Controller {
    /// Handles one event. Decisions go into `out`.
    fn handle(&mut self, event: Event<'_>, out: &mut Out);

    /// Devices that failed of which a start would believe what they held, since nothing durable says yet
    /// that they did. Until it does, what takes the place of one must not be there at the next start.
    fn unnoted(&self) -> DevSet {
        DevSet::EMPTY
    }

    /// Returns the facts that a start without the NVRAM would have to know. The controller relies on none of them
    /// before the next change of NVRAM or intents. An executor has that long to make them durable elsewhere.
    fn condition(&self) -> Condition {
        Condition::default()
    }

    /// Returns true if no data is lost with a device that answers: whoever waits for it in vain may give it up.
    fn can_spare(&self, dev: Dev) -> bool {
        let _ = dev;
        true
    }

    /// Returns the table of checksums that it keeps for the device of a cache. An executor with bytes keeps there what it
    /// writes, and compares what it reads.
    fn checksums(&self) -> Option<&PageChecksums> {
        None
    }

    /// Returns that table, to change it.
    fn checksums_mut(&mut self) -> Option<&mut PageChecksums> {
        None
    }
}

impl<C: Controller + ?Sized> Controller for Box<C> {
    #[inline]
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        (**self).handle(event, out);
    }

    fn unnoted(&self) -> DevSet {
        (**self).unnoted()
    }

    fn condition(&self) -> Condition {
        (**self).condition()
    }

    fn can_spare(&self, dev: Dev) -> bool {
        (**self).can_spare(dev)
    }

    #[inline]
    fn checksums(&self) -> Option<&PageChecksums> {
        (**self).checksums()
    }

    #[inline]
    fn checksums_mut(&mut self) -> Option<&mut PageChecksums> {
        (**self).checksums_mut()
    }
}

/// A request of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRequest {
    /// The caller's name for it.
    pub tag: u64,
    /// Names the kind of request.
    pub op: HostOp,
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub len: u64,
    /// Is true of a write that must be durable when it is acknowledged.
    pub fua: bool,
}

/// Tells the host of a request's end, or of the end of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostNotice {
    /// Tells that the request is answered.
    Acked {
        /// Holds the caller's tag of the request.
        tag: u64,
        /// Is true if the request was served. If it failed, each sector of its range holds old or new content.
        ok: bool,
    },
    /// Nothing uses its bytes any more.
    Released {
        /// Holds the caller's tag of the request.
        tag: u64,
    },
    /// The clean stop that was ordered is reached.
    Clean,
    /// Tells that the data acknowledged before the last [`Control::Drain`] is written back.
    Drained,
    /// Tells that the rows were compared that were last [ordered](Control::Scrub) to be.
    Scrubbed(ScrubTally),
    /// Tells that the member was copied to its successor that was last [ordered](Control::Copy) to be, or cannot be.
    Copied(CopyOutcome),
}

/// Limits the bytes of a request that are admitted before those of others. A longer one takes turns, and has a share of the
/// depth.
const TURN_BYTES: u64 = 1 << 20;
/// Divides the depth: all longer requests have so much of it while there are others.
const LONG_SHARE: usize = 16;
/// Counts the fragments of longer requests in a row after which there are no others.
const ALONE_AFTER: u32 = 1024;

/// Limits the fragments of several stripes that exist of longer requests: devices and other requests of these stripes wait
/// for each, and two are long enough to keep devices busy.
const WIDE_AT_ONCE: usize = 2;

struct Request {
    asked: HostRequest,
    /// Bytes not yet made into fragments.
    unsplit: u64,
    /// Pages of fragments not yet acknowledged.
    pages: u64,
    /// Fragments that exist.
    frags: u32,
    ok: bool,
    acked: bool,
}

impl Request {
    const fn is_long(&self) -> bool {
        self.asked.len > TURN_BYTES
    }
}

struct FragState {
    request: u32,
    /// Tells that it has several stripes, of a longer request.
    is_wide: bool,
    /// Counts the bytes of the request before the fragment's first.
    offset: u64,
    pages: u16,
    /// Operations that may use its bytes.
    ops: u32,
}

/// A controller with the bookkeeping around it.
pub struct Engine<C> {
    controller: C,
    out: Out,
    shape: Shape,
    depth: usize,
    frags: Vec<FragState>,
    free_frags: Vec<FragId>,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    /// Lists the requests with bytes that are not yet fragments, in the order of their turns.
    waiting: VecDeque<u32>,
    /// Lists long ones that wait until a fragment of a long one is released.
    parked: VecDeque<u32>,
    /// Counts the fragments of long requests that exist.
    long_frags: usize,
    /// Lists long ones that wait until a fragment of several stripes is released.
    parked_wide: VecDeque<u32>,
    /// Counts the fragments of several stripes that exist of long requests.
    wide_frags: usize,
    /// Counts the fragments of long requests admitted since a request was submitted that is not long.
    alone: u32,
    notices: VecDeque<HostNotice>,
}

impl<C: Controller> Engine<C> {
    /// A controller that is given at most `depth` fragments at a time. Nothing happens before
    /// [`start`](Self::start).
    pub fn new(controller: C, shape: Shape, depth: usize) -> Self {
        Self {
            controller,
            out: Out::new(shape.page_bytes() as u32),
            shape,
            depth: depth.max(1),
            frags: Vec::new(),
            free_frags: Vec::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            waiting: VecDeque::new(),
            parked: VecDeque::new(),
            long_frags: 0,
            parked_wide: VecDeque::new(),
            wide_frags: 0,
            alone: ALONE_AFTER,
            notices: VecDeque::new(),
        }
    }

    /// Begins a life.
    pub fn start(&mut self, now: Nanos, start: Start<'_>) {
        self.out.now = now;
        self.controller.handle(Event::Start(start), &mut self.out);
        self.pump();
    }

    /// Takes a request of the host. It may be submitted before the controller is ready, and waits
    /// then; if the controller does not start, it fails. The range of a flush means nothing.
    pub fn submit(&mut self, now: Nanos, asked: HostRequest) -> Result<(), RangeError> {
        let flush = asked.op == HostOp::Flush;
        if !flush {
            self.shape.check(asked.offset, asked.len)?;
        }
        self.out.now = now;
        // An empty request would make no fragment, so nothing would ever end it: it is answered here.
        if asked.len == 0 && !flush {
            self.notices
                .extend([HostNotice::Acked { tag: asked.tag, ok: true }, HostNotice::Released { tag: asked.tag }]);
            return Ok(());
        }
        // A flush has no bytes to split. Its one fragment counts as one page, so one acknowledgement ends it.
        let unsplit = if flush { 0 } else { asked.len };
        let request = Request { asked, unsplit, pages: 0, frags: 0, ok: true, acked: false };
        // Long requests share the depth only while there are others: a lone copy should keep the devices busy.
        if !request.is_long() {
            self.alone = 0;
        }
        let id = if let Some(id) = self.free_requests.pop() {
            self.requests[id as usize] = request;
            id
        } else {
            self.requests.push(request);
            self.requests.len() as u32 - 1
        };
        self.waiting.push_back(id);
        self.pump();
        Ok(())
    }

    /// Gives an order.
    pub fn control(&mut self, now: Nanos, control: Control) {
        self.out.now = now;
        self.controller.handle(Event::Control(control), &mut self.out);
        self.pump();
    }

    /// Tells what happened to a device. Steps on it that are in flight still have to be completed;
    /// those in flight on a device that failed, before its replacement is told.
    pub fn device(&mut self, now: Nanos, dev: Dev, change: DeviceChange) {
        self.out.now = now;
        // A step that failed on the old device says nothing of the new one, so its failure must not count against
        // that.
        if change == DeviceChange::Replaced {
            self.out.replaced(dev);
        }
        self.controller.handle(Event::Device { dev, change }, &mut self.out);
        self.pump();
    }

    /// Tells that a part of a device begins or ends a collection of so many blocks (0: it does not
    /// tell).
    pub fn device_gc(&mut self, now: Nanos, dev: Dev, unit: u16, on: bool, blocks: u32) {
        self.out.now = now;
        self.controller.handle(Event::DeviceGc { dev, unit, on, blocks }, &mut self.out);
        self.pump();
    }

    /// Tells that a device has come near to where it has to collect.
    pub fn device_near_gc(&mut self, now: Nanos, dev: Dev) {
        self.out.now = now;
        self.controller.handle(Event::DeviceNearGc(dev), &mut self.out);
        self.pump();
    }

    /// Returns the time at which the next timer is due.
    #[inline]
    pub const fn next_timer(&self) -> Option<Nanos> {
        self.out.next_timer
    }

    /// Lets the timers go off that are due.
    pub fn timers(&mut self, now: Nanos) {
        self.out.now = now;
        // Handling one timer may set or forget others, so the earliest is looked up anew each time.
        while self.next_timer().is_some_and(|at| at <= now)
            && let Some(id) = self.out.take_timer()
        {
            self.controller.handle(Event::Timer(id), &mut self.out);
            self.pump();
        }
    }

    /// The next step that may begin, in the order in which they became so.
    #[inline]
    pub fn next_issue(&mut self) -> Option<Issue> {
        self.out.ready.pop_front()
    }

    /// Returns the step that an issue names.
    #[inline]
    pub fn step(&self, issue: Issue) -> &Step {
        self.out.get(issue)
    }

    /// Returns the stream that a step's write belongs to.
    #[inline]
    pub fn stream(&self, issue: Issue) -> PlacementStream {
        self.out.stream(issue)
    }

    /// A list of buffers that a step of `op` names.
    #[inline]
    pub fn bufs(&self, op: OpId, list: List) -> &[Buf] {
        self.out.bufs(op, list)
    }

    /// A list of puts that a step of `op` names.
    #[inline]
    pub fn puts(&self, op: OpId, list: PutList) -> &[NvPut] {
        self.out.put_list(op, list)
    }

    /// A list of spans that a step of `op` names.
    #[inline]
    pub fn spans(&self, op: OpId, list: SpanList) -> &[Span] {
        self.out.span_list(op, list)
    }

    /// Bytes that a step of `op` names.
    #[inline]
    pub fn bytes(&self, op: OpId, list: ByteList) -> &[u8] {
        self.out.byte_list(op, list)
    }

    /// Hands over what a [`Step::MetaRead`] has read, before it is [complete](Self::complete).
    pub fn read(&mut self, issue: Issue, bytes: &[u8]) {
        self.out.keep_read(issue, bytes);
    }

    /// A list of rows that a step of `op` names.
    #[inline]
    pub fn rows(&self, op: OpId, list: RowList) -> &[Rows] {
        self.out.row_list(op, list)
    }

    /// Pages in a buffer of an operation.
    #[inline]
    pub fn tmp_pages(&self, op: OpId, id: u8) -> u16 {
        self.out.tmp_pages(op, id)
    }

    /// Counts the buffers that an operation has; none if there is no such operation.
    pub fn tmp_count(&self, op: OpId) -> usize {
        self.out.tmp_count(op)
    }

    /// The claim that an operation holds.
    pub fn claim(&self, op: OpId) -> Option<Claim> {
        self.out.claim(op)
    }

    /// Whose bytes a fragment's are, and where they begin in the request's.
    #[inline]
    pub fn host(&self, frag: FragId) -> (u64, u64) {
        let state = &self.frags[frag.index()];
        (self.requests[state.request as usize].asked.tag, state.offset)
    }

    /// Returns what the request that a fragment belongs to asks for.
    #[inline]
    pub fn host_op(&self, frag: FragId) -> HostOp {
        self.requests[self.frags[frag.index()].request as usize].asked.op
    }

    /// The request of the host that an operation serves; none if it is the controller's own.
    #[inline]
    pub fn request_of(&self, op: OpId) -> Option<u64> {
        self.out.frag_of(op).map(|frag| self.host(frag).0)
    }

    /// Tells how a step ended.
    pub fn complete(&mut self, now: Nanos, issue: Issue, outcome: StepOutcome) {
        self.out.now = now;
        self.out.finish(issue, outcome);
        self.pump();
    }

    /// Takes the next notice, in the order in which requests ended.
    #[inline]
    pub fn next_notice(&mut self) -> Option<HostNotice> {
        self.notices.pop_front()
    }

    /// Takes the next report of what became of a page that a device could not read.
    pub fn next_report(&mut self) -> Option<PageReport> {
        self.out.reports.pop_front()
    }

    /// Returns the progress of this life: starting, ready or refused.
    pub fn status(&self) -> Status {
        self.out.status.unwrap_or(Status::Starting)
    }

    /// The operations and their claims.
    pub const fn out(&self) -> &Out {
        &self.out
    }

    /// The policy.
    pub const fn controller(&self) -> &C {
        &self.controller
    }

    /// Returns the policy's table of checksums, to change it.
    pub fn checksums_mut(&mut self) -> Option<&mut PageChecksums> {
        self.controller.checksums_mut()
    }

    /// Returns the sizes by which requests are split.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns true if no request, operation or step is in flight.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.parked.is_empty()
            && self.parked_wide.is_empty()
            && self.frags.len() == self.free_frags.len()
            && self.out.live() == 0
    }

    fn pump(&mut self) {
        let mut turns = 0_u32;
        loop {
            turns += 1;
            // A controller that asks for `again` from within `Granted` without progress would never return.
            debug_assert!(turns < 1_000_000, "the controller goes round in circles:\n{:?}", self.out);
            // Operations opened by the last event are counted before acknowledgements, which may free the fragment
            // they use.
            self.count_ops();
            while let Some((frag, pages, ok)) = self.out.acks.pop_front() {
                self.ack(frag, pages, ok);
            }
            let Some(pending) = self.out.queue.pop_front() else {
                // An order's end is told once no event is left, after the requests that ended before it.
                if self.out.clean | self.out.drained | self.out.scrubbed.is_some() | self.out.copied.is_some() {
                    self.tell_of_orders();
                }
                // Requests are admitted one at a time, and last: what is in flight goes before what is new.
                if self.admit() {
                    continue;
                }
                return;
            };
            // The controller may open, restart or end operations in each event. So the next event is taken only
            // after it returns.
            match pending {
                Pending::Granted(op) => self.controller.handle(Event::Granted(op), &mut self.out),
                Pending::StepDone(op, step, outcome) => {
                    self.controller.handle(Event::StepDone { op, step, outcome }, &mut self.out);
                }
                Pending::PhaseDone(op) => self.controller.handle(Event::PhaseDone(op), &mut self.out),
                Pending::OpStuck(op, failed, devs) => {
                    self.controller.handle(Event::OpStuck { op, failed, devs }, &mut self.out);
                }
                Pending::OpDone(op) => {
                    self.controller.handle(Event::OpDone(op), &mut self.out);
                    // Operations that the controller opened just now keep the fragment's bytes.
                    self.count_ops();
                    let frag = self.out.frag_of(op);
                    // The claim is given back only now: the controller has updated its own tables under it first.
                    self.out.end(op);
                    if let Some(frag) = frag {
                        self.frags[frag.index()].ops -= 1;
                        self.try_release(frag);
                    }
                }
            }
        }
    }

    /// Notifies the host of orders that were carried out.
    #[cold]
    fn tell_of_orders(&mut self) {
        if std::mem::take(&mut self.out.clean) {
            self.notices.push_back(HostNotice::Clean);
        }
        if std::mem::take(&mut self.out.drained) {
            self.notices.push_back(HostNotice::Drained);
        }
        self.notices.extend(self.out.scrubbed.take().map(HostNotice::Scrubbed));
        self.notices.extend(self.out.copied.take().map(HostNotice::Copied));
    }

    fn count_ops(&mut self) {
        while let Some(frag) = self.out.opened.pop() {
            self.frags[frag.index()].ops += 1;
        }
    }

    /// Makes the next fragment, if there is room for it; whether anything happened.
    fn admit(&mut self) -> bool {
        if self.parked.len() + self.parked_wide.len() > 0 {
            self.unpark();
        }
        if self.waiting.is_empty() {
            return false;
        }
        // Nothing else would ever end a request to an array that does not start, so it fails here.
        if let Status::Refused(_) = self.status() {
            let Some(id) = self.waiting.pop_front() else { return false };
            let request = &mut self.requests[id as usize];
            (request.unsplit, request.ok) = (0, false);
            self.answer(id);
            return true;
        }
        // The depth bounds fragments, not requests: one request of a gigabyte would else fill every queue at once.
        let outstanding = self.frags.len() - self.free_frags.len();
        if self.status() != Status::Ready || outstanding >= self.depth {
            return false;
        }
        let Some(id) = self.next_in_turn() else {
            return false;
        };
        let request = &mut self.requests[id as usize];
        let asked = request.asked;
        let piece = if asked.op == HostOp::Flush {
            Piece { page: 0, pages: 1, sectors: None, bytes: 0, serve: true }
        } else {
            self.shape.piece(asked.op, asked.offset + (asked.len - request.unsplit), request.unsplit)
        };
        // Requests of one stripe go on in the order of submission. A wide fragment waits apart, since it would keep
        // many stripes from them.
        let is_wide = request.is_long() && self.shape.is_wide(piece.pages);
        if is_wide && self.wide_frags >= WIDE_AT_ONCE {
            self.waiting.pop_front();
            self.parked_wide.push_back(id);
            return true;
        }
        let offset = asked.len - request.unsplit;
        request.unsplit -= piece.bytes;
        if request.unsplit == 0 {
            self.waiting.pop_front();
        // A long request goes to the end of the line after each MiB, so short ones behind it wait for one turn
        // alone.
        } else if (offset + piece.bytes) / TURN_BYTES > offset / TURN_BYTES {
            self.waiting.rotate_left(1);
        }
        // A discard leaves out pages that it covers in part (`Shape::piece`), so this piece needs no fragment.
        if !piece.serve {
            self.answer(id);
            return true;
        }
        request.pages += u64::from(piece.pages);
        request.frags += 1;
        if request.is_long() {
            self.long_frags += 1;
            self.wide_frags += usize::from(is_wide);
            self.alone = self.alone.saturating_add(1);
        }
        let state = FragState { request: id, is_wide, offset, pages: piece.pages, ops: 0 };
        // Places are used again, so the table never has more entries than the depth.
        let frag = if let Some(frag) = self.free_frags.pop() {
            self.frags[frag.index()] = state;
            frag
        } else {
            self.frags.push(state);
            FragId(self.frags.len() as u32 - 1)
        };
        let frag = Frag {
            id: frag,
            op: asked.op,
            fua: asked.fua,
            page: piece.page,
            pages: piece.pages,
            sectors: piece.sectors,
            run: 0,
            bypass: false,
        };
        self.controller.handle(Event::Submit(frag), &mut self.out);
        true
    }

    /// Has parked requests wait for their turn again, as far as they may.
    #[cold]
    fn unpark(&mut self) {
        // One comes back for each place that is free, in the order in which they were parked.
        if self.long_frags < self.long_share() {
            self.waiting.extend(self.parked.pop_front());
        }
        if self.wide_frags < WIDE_AT_ONCE {
            self.waiting.extend(self.parked_wide.pop_front());
        }
    }

    fn long_share(&self) -> usize {
        // At least one, or a small depth would never serve a long request beside short ones.
        (self.depth / LONG_SHARE).max(1)
    }

    /// Returns the request whose turn it is. Long ones that have their share of the depth are parked.
    fn next_in_turn(&mut self) -> Option<u32> {
        let id = *self.waiting.front()?;
        if self.requests[id as usize].is_long() { self.next_beside_long() } else { Some(id) }
    }

    /// Does what [`next_in_turn`](Self::next_in_turn) does if it is the turn of a long one.
    fn next_beside_long(&mut self) -> Option<u32> {
        // After so many long fragments without a short request there is nobody to leave room for.
        let is_shared = self.alone < ALONE_AFTER && self.long_frags >= self.long_share();
        while let Some(&id) = self.waiting.front() {
            if !is_shared || !self.requests[id as usize].is_long() {
                return Some(id);
            }
            self.waiting.pop_front();
            self.parked.push_back(id);
        }
        None
    }

    fn ack(&mut self, frag: FragId, pages: u16, ok: bool) {
        let state = &mut self.frags[frag.index()];
        state.pages = state.pages.checked_sub(pages).expect("no more pages are acknowledged than were asked for");
        let id = state.request;
        let request = &mut self.requests[id as usize];
        request.pages -= u64::from(pages);
        // One failed fragment fails the request, since the host cannot be told of a part of it.
        request.ok &= ok;
        self.answer(id);
        self.try_release(frag);
    }

    fn try_release(&mut self, frag: FragId) {
        let state = &mut self.frags[frag.index()];
        if state.pages == 0 && state.ops == 0 {
            // A fragment is freed once: the count of operations marks it until it is used again.
            state.ops = u32::MAX;
            let (id, is_wide) = (state.request, state.is_wide);
            self.free_frags.push(frag);
            let request = &mut self.requests[id as usize];
            request.frags -= 1;
            if request.is_long() {
                self.long_frags -= 1;
                self.wide_frags -= usize::from(is_wide);
            }
            self.answer(id);
        }
    }

    fn answer(&mut self, id: u32) {
        let request = &mut self.requests[id as usize];
        if request.unsplit > 0 || request.pages > 0 {
            return;
        }
        let tag = request.asked.tag;
        if !request.acked {
            request.acked = true;
            self.notices.push_back(HostNotice::Acked { tag, ok: request.ok });
        }
        if request.frags == 0 {
            // The buffers are released only now: operations that are left may write from them after the answer.
            self.notices.push_back(HostNotice::Released { tag });
            self.free_requests.push(id);
        }
    }
}
