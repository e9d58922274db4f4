//! A client's connection: what comes in becomes requests, replies go out.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use destage_exec::AlignedBuffer;
use destage_nbd::server::{HangUp, ServerEvent};
use destage_nbd::{Errno, ExportList, NbdCommand, NbdRequest, NbdServer, NbdSession};

use crate::budget::{BufferGrant, MemoryBudget, REQUEST};
use crate::sectors::{SECTOR, are_whole, around};
use crate::send_queue::SendQueue;
use crate::socket::ClientStream;
use crate::waiter::IoInterest;

/// Sets the bytes that one step of a cache command reads.
pub(crate) const AHEAD: u32 = 256 << 10;
/// Sets the bytes from which on the rest of a payload is received into its buffer, and not by way of the input.
const DIRECT: usize = 16 << 10;
/// Unsent bytes from which on nothing more is received.
const UNSENT: usize = 4 << 20;
/// Requests that a client may have under way; further ones wait in its socket.
const REQUESTS: usize = 256;
/// Bytes of payloads that a client may have under way, counted once there is one request beyond them.
const PAYLOADS: usize = 32 << 20;
/// Sets what a client must move, and within which time, while it holds memory that others wait for. It moves bytes by
/// taking replies or sending a payload.
const LEAST: u64 = 1 << 20;
const STALL: Duration = Duration::from_secs(5);

/// Why a connection ended other than by a goodbye.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionLoss {
    #[error("it closed the connection in the middle of a message")]
    Cut,
    #[error(transparent)]
    HangUp(#[from] HangUp),
    #[error("it took less than {} KiB within {} s, while others waited for the memory of its requests", LEAST >> 10, STALL.as_secs())]
    Stalled,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Holds a request that has come, with what it writes, or room for what it reads. If it is no whole sectors the room is for
/// all sectors that it touches, and its own bytes lie there as in these.
#[derive(Debug)]
pub(crate) struct IncomingRequest {
    pub(crate) request: NbdRequest,
    pub(crate) data: AlignedBuffer,
}

impl IncomingRequest {
    /// Returns the bytes that are allocated for it, or will be.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.data.capacity() + edge_bytes(&self.request)
    }
}

/// Returns the bytes that are allocated for sectors at the edges of a write, beside what it writes.
#[inline]
fn edge_bytes(request: &NbdRequest) -> usize {
    let has_edges = request.command == NbdCommand::Write && !are_whole(request.offset, request.length.into());
    if has_edges { AlignedBuffer::footprint(SECTOR as usize) } else { 0 }
}

/// Returns the bytes of the buffer that a request comes with.
#[inline]
fn buffer_len(request: &NbdRequest) -> usize {
    let (offset, len) = (request.offset, request.length.into());
    let sectors = around(offset, len);
    match request.command {
        NbdCommand::Write | NbdCommand::Read { .. } => (sectors.end - sectors.start) as usize,
        NbdCommand::Cache => (sectors.end - sectors.start).min(AHEAD.into()) as usize,
        // For a sector at an edge.
        NbdCommand::WriteZeroes { .. } if !are_whole(offset, len) => SECTOR as usize,
        _ => 0,
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    pub(crate) stream: ClientStream,
    pub(crate) server: NbdServer,
    pub(crate) send_queue: SendQueue,
    /// Holds what is received. A connection that has used up all that it received keeps no bytes here.
    input: Box<[u8]>,
    /// Bytes of the input that were received and not used up.
    filled: std::ops::Range<usize>,
    /// Holds the write whose payload is coming, and where in its buffer the next byte goes.
    coming: Option<(IncomingRequest, usize)>,
    /// Tells that nothing is begun before there is memory for it.
    waits: bool,
    /// Holds the request that begins then, if it was received already.
    held_back: Option<NbdRequest>,
    /// Counts the bytes of payloads received and of replies sent.
    moved: u64,
    /// Notes that count, and the time, when the client was first seen to hold what others wait for. Cleared when it has
    /// nothing to move.
    watched: Option<(u64, Instant)>,
    /// Requests under way.
    pub(crate) requests: usize,
    /// Counts the bytes that are allocated for them.
    payloads: usize,
    /// Nothing more is received: the client has said goodbye, or is gone.
    pub(crate) ended: bool,
    /// Is true once the client is gone: answers to its requests in flight are dropped.
    pub(crate) gone: bool,
    /// The socket may have something to be received.
    pub(crate) readable: bool,
    /// Holds the events that the service waits for on the socket.
    pub(crate) interest: IoInterest,
    /// Notes when it came.
    pub(crate) since: Instant,
}

impl ClientConnection {
    pub(crate) fn new(stream: ClientStream, exports: Arc<ExportList>) -> Self {
        let mut connection = Self {
            stream,
            server: NbdServer::new(exports),
            send_queue: SendQueue::default(),
            input: Box::default(),
            filled: 0..0,
            coming: None,
            waits: false,
            held_back: None,
            moved: 0,
            watched: None,
            requests: 0,
            payloads: 0,
            ended: false,
            gone: false,
            readable: false,
            interest: IoInterest::READ,
            since: Instant::now(),
        };
        connection.take_output();
        connection
    }

    /// Returns the session that was negotiated; none before that.
    pub(crate) const fn session(&self) -> Option<&NbdSession> {
        self.server.session()
    }

    /// Returns true if the client has as many requests, payloads or unsent replies as it may have.
    pub(crate) const fn is_full(&self) -> bool {
        // Backpressure by not reading: the rest waits in the client's own socket, and costs this process nothing.
        self.requests >= REQUESTS || self.payloads >= PAYLOADS || self.send_queue.left() >= UNSENT
    }

    /// Returns true if the connection can be forgotten: nothing comes in, nothing is in flight, and all replies are
    /// sent.
    pub(crate) const fn is_over(&self) -> bool {
        self.ended && self.requests == 0 && self.send_queue.left() == 0
    }

    /// Returns the events to wait for on the socket.
    pub(crate) const fn wanted(&self) -> IoInterest {
        IoInterest { read: !self.ended && !self.waits && !self.is_full(), write: self.send_queue.left() > 0 }
    }

    /// Returns true if nothing is begun before there is memory for it.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.waits
    }

    /// Returns the bytes that it holds: of the write that is coming, of requests under way, of replies that are not sent.
    pub(crate) fn held(&self) -> usize {
        let coming = self.coming.as_ref().map_or(0, |(incoming, _)| incoming.held() + REQUEST);
        coming + self.payloads + self.requests * REQUEST + self.send_queue.held()
    }

    /// Returns true if it is this client's turn to move something: a payload is not received while it is full.
    const fn owes(&self) -> bool {
        // A client whose payload is not read because it is full cannot be blamed for not moving.
        self.send_queue.left() > 0 || self.coming.is_some() && !self.is_full()
    }

    /// Stops watching it, since nothing is received for the time being.
    pub(crate) const fn excuse(&mut self) {
        self.watched = None;
    }

    /// Returns true if it has hardly moved anything of what it holds since it was asked this for a while.
    pub(crate) fn is_stalled(&mut self, now: Instant) -> bool {
        if !self.owes() {
            self.watched = None;
            return false;
        }
        let (before, since) = *self.watched.get_or_insert((self.moved, now));
        if now - since < STALL {
            return false;
        }
        self.watched = None;
        self.moved - before < LEAST
    }

    /// Sends what there is room for; buffers that are sent are handed to `spare`.
    pub(crate) fn send(&mut self, spare: impl FnMut(AlignedBuffer)) -> io::Result<()> {
        let before = self.send_queue.left();
        self.send_queue.send(&mut self.stream, spare)?;
        self.moved += (before - self.send_queue.left()) as u64;
        if !self.owes() {
            self.watched = None;
        }
        Ok(())
    }

    /// Forgets what it has not begun and not been answered: it has gone.
    pub(crate) fn leave(&mut self) {
        (self.ended, self.gone, self.waits) = (true, true, false);
        (self.coming, self.held_back, self.send_queue) = (None, None, SendQueue::default());
        (self.input, self.filled, self.interest) = (Box::default(), 0..0, IoInterest::default());
    }

    /// Refuses what waits to be begun, if something does: nothing more is.
    pub(crate) fn refuse_held_back(&mut self) {
        self.waits = false;
        if let Some(request) = self.held_back.take() {
            self.refuse(&request, Errno::Shutdown, "the server is being shut down");
        }
    }

    fn refuse(&mut self, request: &NbdRequest, errno: Errno, why: &str) {
        if request.command == NbdCommand::Write {
            self.server.refuse_payload(request, errno, &why);
        } else if let Some(session) = self.server.session() {
            self.send_queue.text(|text| session.fail(request, errno, &why, None, text));
        }
    }

    /// A request of so many bytes was answered.
    pub(crate) const fn answered(&mut self, bytes: usize) {
        self.requests -= 1;
        self.payloads -= bytes;
    }

    /// Takes over what the protocol itself has to say.
    pub(crate) fn take_output(&mut self) {
        let output = self.server.output();
        if !output.is_empty() {
            self.send_queue.text(|text| text.extend_from_slice(output));
            let len = output.len();
            self.server.sent(len);
        }
    }

    /// Returns the next request of the client of this number, or `None` if nothing more can be received for now.
    /// `drained` tells, from call to call, whether the socket had nothing more.
    pub(crate) fn next(
        &mut self,
        number: usize,
        budget: &mut MemoryBudget,
        drained: &mut bool,
    ) -> Result<Option<IncomingRequest>, ConnectionLoss> {
        loop {
            if self.ended || self.is_full() {
                // The place in the queue goes to others: this client asks again when it has room.
                if self.waits {
                    budget.leave(number);
                }
                return Ok(None);
            }
            if let Some(incoming) = self.advance(number, budget)? {
                return Ok(Some(incoming));
            }
            if self.ended || self.waits || self.is_full() || *drained || !self.receive(budget, drained)? {
                return Ok(None);
            }
        }
    }

    /// Uses up what was received, up to the next request.
    fn advance(&mut self, number: usize, budget: &mut MemoryBudget) -> Result<Option<IncomingRequest>, ConnectionLoss> {
        loop {
            if let Some((incoming, filled)) = &mut self.coming {
                let mut input = &self.input[self.filled.clone()];
                *filled += self.server.take_payload(&mut input, &mut incoming.data[*filled..]);
                self.filled.start = self.filled.end - input.len();
                if self.server.payload_left() > 0 {
                    return Ok(None);
                }
                return Ok(self.coming.take().map(|(incoming, _)| self.begun(incoming)));
            }
            let request = if let Some(request) = self.held_back.take() {
                request
            } else {
                // Refusals are replies, too, and take memory: a client that takes none is not read from.
                self.waits = !budget.admits_request(number, self.held());
                if self.waits {
                    return Ok(None);
                }
                let mut input = &self.input[self.filled.clone()];
                let event = self.server.receive(&mut input);
                self.filled.start = self.filled.end - input.len();
                self.take_output();
                match event? {
                    ServerEvent::More => return Ok(None),
                    // The output was taken over just now. If the client does not read it, nothing more is received.
                    ServerEvent::SendFirst if self.is_full() => return Ok(None),
                    ServerEvent::SendFirst | ServerEvent::Started => continue,
                    ServerEvent::Payload(_) => unreachable!("payloads are taken as they come"),
                    ServerEvent::Ended => {
                        self.ended = true;
                        return Ok(None);
                    }
                    ServerEvent::Request(request) => request,
                }
            };
            let room = budget.take(number, self.held(), buffer_len(&request), edge_bytes(&request));
            self.waits = matches!(room, BufferGrant::Later);
            match room {
                BufferGrant::Given(data) if request.command == NbdCommand::Write => {
                    // The buffer is laid out by sectors, and the payload begins within the first of them.
                    let front = (request.offset % SECTOR) as usize;
                    self.coming = Some((IncomingRequest { request, data }, front));
                }
                BufferGrant::Given(data) => return Ok(Some(self.begun(IncomingRequest { request, data }))),
                BufferGrant::Later => {
                    self.held_back = Some(request);
                    return Ok(None);
                }
                // The payload still comes in and is skipped, so the connection survives an allocation that fails.
                BufferGrant::Failed => self.refuse(&request, Errno::NoMem, "there is no memory for it"),
            }
        }
    }

    fn begun(&mut self, incoming: IncomingRequest) -> IncomingRequest {
        self.requests += 1;
        self.payloads += incoming.held();
        incoming
    }

    /// Gives back the room for what is received, unless it is in use.
    pub(crate) fn give_back_input(&mut self, budget: &mut MemoryBudget) {
        let left = self.filled.len();
        if left == 0 && !self.input.is_empty() || left <= DIRECT && left < self.input.len() {
            // The rest is part of a message, hence short, or the bytes of a request that has not begun.
            // 1,024 idle clients would otherwise hold 128 MiB of empty input buffers.
            let rest = Box::from(&self.input[self.filled.clone()]);
            budget.pool.keep_input(std::mem::replace(&mut self.input, rest));
            self.filled = 0..left;
        }
    }

    /// Has the input begin with what was not used up, and makes room behind it.
    fn take_input(&mut self, budget: &mut MemoryBudget) {
        let left = self.filled.len();
        if self.input.len() <= DIRECT {
            let mut input = budget.pool.take_input();
            input[..left].copy_from_slice(&self.input[self.filled.clone()]);
            self.input = input;
        } else {
            self.input.copy_within(self.filled.clone(), 0);
        }
        self.filled = 0..left;
    }

    /// Receives what there is; whether there was something.
    fn receive(&mut self, budget: &mut MemoryBudget, drained: &mut bool) -> Result<bool, ConnectionLoss> {
        let wanted = self.server.payload_left() as usize;
        if let Some((incoming, filled)) = &mut self.coming
            // A large payload is read into its place at once: a copy of each byte would cost more than the system
            // call saved.
            && wanted >= DIRECT
        {
            let place = &mut incoming.data[*filled..*filled + wanted];
            return match self.stream.receive(place)? {
                Some(0) => Err(ConnectionLoss::Cut),
                Some(read) => {
                    *filled += read;
                    // A short read means that the socket is empty: asking again would cost a system call to learn
                    // nothing.
                    *drained = read < wanted;
                    self.moved += read as u64;
                    self.server.payload_read(read as u32);
                    Ok(true)
                }
                None => {
                    *drained = true;
                    Ok(false)
                }
            };
        }
        // The bytes that are left over are part of a message, hence short, so moving them is cheap.
        self.take_input(budget);
        let place = &mut self.input[self.filled.end..];
        let wanted = place.len();
        match self.stream.receive(place)? {
            Some(0) if self.server.is_inside_message() || self.coming.is_some() => Err(ConnectionLoss::Cut),
            Some(0) => {
                self.ended = true;
                Ok(false)
            }
            Some(read) => {
                self.filled.end += read;
                *drained = read < wanted;
                if self.coming.is_some() {
                    self.moved += read as u64;
                }
                Ok(true)
            }
            None => {
                *drained = true;
                Ok(false)
            }
        }
    }
}
