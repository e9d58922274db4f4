//! Requests: handed to the backend, and answered when it has done with them.

use std::time::Instant;

use destage_exec::{AlignedBuffer, RequestCompletion};
use destage_nbd::{Errno, NbdCommand, NbdRequest, ReadReply, StatusExtent};
use destage_plan::{HostOp, HostRequest, Nanos, Op, Request as Asked};
use slab::Slab;

use super::{BlockService, CONTEXTS};
use crate::connection::{AHEAD, ClientConnection, IncomingRequest};
use crate::sectors::{SECTOR, are_whole, around};
use crate::{BlockBackend, marks};

/// Says what follows when the backend has done with a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum RequestNext {
    /// Answers it.
    Answer,
    /// Makes durable what it changed, and then answers it.
    Flush,
    /// Reads so many bytes more, from here on.
    ReadOn { from: u64, left: u64 },
    /// Goes on with its edges, of which a sector was read or written.
    Edge { was_read: bool },
}

/// Says whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestSource {
    /// Is the client of this number.
    Client(usize),
    /// Is the kernel, for the [block device](super::BlockService::attach).
    BlockDevice,
}

/// Holds a request in flight.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) source: RequestSource,
    pub(super) request: NbdRequest,
    /// Counts the bytes that are allocated for it.
    pub(super) bytes: usize,
    pub(super) then: RequestNext,
    since: Instant,
}

impl<B: BlockBackend> BlockService<B> {
    /// Answers a request with an error.
    pub(super) fn refuse(&mut self, pending: &PendingRequest, errno: Errno, why: &str) {
        match pending.source {
            RequestSource::Client(at) => refuse_client(&mut self.clients, at, pending, errno, why),
            RequestSource::BlockDevice => self.answer_device(pending, Err(errno)),
        }
    }

    /// Has a source looked at again; the block device is in every turn.
    pub(super) fn stir_source(&mut self, source: RequestSource) {
        if let RequestSource::Client(at) = source {
            self.mark_ready(at);
        }
    }

    /// Takes in what the backend has done: goes on with the request, or answers it.
    pub(super) fn complete(&mut self, completion: RequestCompletion) {
        let RequestCompletion { tag, ok, bytes } = completion;
        let Some(pending) = self.pending.get_mut(tag as usize) else { return };
        let next = match pending.then {
            // The plans have no durable trim or zeros, so FUA is a flush after them.
            RequestNext::Flush if ok => {
                pending.then = RequestNext::Answer;
                Some((HostRequest { tag, op: HostOp::Flush, offset: 0, len: 0, fua: false }, AlignedBuffer::new()))
            }
            // A cache command of gigabytes goes step by step, so it holds one small buffer.
            RequestNext::ReadOn { from, left } if ok && left > 0 => {
                let len = left.min(AHEAD.into());
                pending.then = RequestNext::ReadOn { from: from + len, left: left - len };
                Some((HostRequest { tag, op: HostOp::Read, offset: from, len, fua: false }, AlignedBuffer::new()))
            }
            RequestNext::Edge { was_read } => return self.edge_done(tag, was_read, ok, bytes),
            _ => None,
        };
        if let Some((request, mut data)) = next {
            if request.op == HostOp::Read {
                data = bytes;
            } else {
                self.budget.keep(bytes);
            }
            return self.submit(request, data);
        }
        self.end(tag, ok, bytes);
    }

    /// Hands a part of a request to the backend.
    pub(super) fn submit(&mut self, asked: HostRequest, data: AlignedBuffer) {
        self.begun = true;
        if let Err(error) = self.backend.submit(asked, data) {
            self.stop_answering(&error);
        }
    }

    /// Answers a request.
    pub(super) fn end(&mut self, tag: u64, ok: bool, bytes: AlignedBuffer) {
        let pending = self.pending.remove(tag as usize);
        let now = Instant::now();
        self.news.note(now);
        self.load.answered(&pending.request, ok, now - pending.since);
        let spare = match pending.source {
            RequestSource::Client(at) => match self.clients.get_mut(at) {
                // The connection's memory is counted again when the service looks at it next.
                Some(client) => answer(client, &pending, ok, bytes),
                None => Some(bytes),
            },
            RequestSource::BlockDevice => {
                self.answer_device(&pending, if ok { Ok(bytes) } else { Err(Errno::Io) });
                None
            }
        };
        if let Some(buffer) = spare {
            self.budget.keep(buffer);
        }
        self.stir_source(pending.source);
        // Only partial sectors are tracked, so aligned workloads pay one comparison.
        if !self.sectors.is_empty() {
            self.release_sectors(tag);
        }
    }

    /// Hands a request to the backend, or answers it at once.
    pub(super) fn begin(&mut self, source: RequestSource, incoming: IncomingRequest) {
        let bytes = incoming.held();
        let IncomingRequest { request, data } = incoming;
        if let Some(listening) = &mut self.listening
            && let Some(told) = trace_request(&request, self.begin)
        {
            listening(told);
        }
        // Commands become what the plans know: a cache command is a read whose bytes are dropped.
        let (mut offset, mut len) = (request.offset, u64::from(request.length));
        let (op, then) = match request.command {
            NbdCommand::Read { .. } => (HostOp::Read, RequestNext::Answer),
            NbdCommand::Write => (HostOp::Write, RequestNext::Answer),
            NbdCommand::Flush => (HostOp::Flush, RequestNext::Answer),
            NbdCommand::Trim if request.fua => (HostOp::Discard, RequestNext::Flush),
            NbdCommand::Trim => (HostOp::Discard, RequestNext::Answer),
            NbdCommand::WriteZeroes { no_hole, .. } => {
                let op = if no_hole { HostOp::WriteZeroes } else { HostOp::WriteZeroesUnmap };
                (op, if request.fua { RequestNext::Flush } else { RequestNext::Answer })
            }
            NbdCommand::Cache => {
                let sectors = around(offset, len);
                (offset, len) = (sectors.start, sectors.end - sectors.start);
                let first = len.min(AHEAD.into());
                let then = RequestNext::ReadOn { from: offset + first, left: len - first };
                len = first;
                (HostOp::Read, then)
            }
            NbdCommand::BlockStatus { .. } => {
                if let RequestSource::Client(at) = source {
                    self.tell_status(at, &request);
                }
                return;
            }
        };
        let since = Instant::now();
        self.news.note(since);
        let pending = PendingRequest { source, request, bytes, then, since };
        // Checked after the trace is told: a recording holds what clients asked, whatever became of it.
        if let Some(why) = self.broken.clone() {
            return self.refuse(&pending, Errno::Io, &why);
        }
        // `NBD_CMD_FLAG_FAST_ZERO` wants an error at once rather than zeros written slowly.
        if matches!(request.command, NbdCommand::WriteZeroes { fast: true, .. })
            && (op == HostOp::WriteZeroes || !self.backend.zeroes_fast(offset, len))
        {
            let why = "zeros are not faster here than what is written";
            self.refuse(&pending, Errno::NotSup, why);
            return self.budget.keep(data);
        }
        let tag = self.pending.insert(pending) as u64;
        let fua = op == HostOp::Write && request.fua;
        let asked = HostRequest { tag, op, offset, len, fua };
        // The queue of sectors must see every request while one of them is unaligned, or order would be lost.
        if are_whole(offset, len) && self.sectors.is_empty() {
            self.submit(asked, data);
        } else {
            self.begin_in_turn(asked, data);
        }
    }

    /// Tells a client the state of bytes.
    fn tell_status(&mut self, at: usize, request: &NbdRequest) {
        let client = &mut self.clients[at];
        client.answered(0);
        let Some(session) = client.session().copied() else { return };
        let contexts: Vec<_> = session.contexts().collect();
        for (nth, context) in contexts.iter().enumerate() {
            let extents = match CONTEXTS[*context] {
                marks::CONTEXT => self.backend.marks(request.offset, request.length.into()),
                _ => vec![StatusExtent { length: request.length.into(), flags: 0 }],
            };
            let last = nth + 1 == contexts.len();
            client.send_queue.text(|text| session.status(request, *context, extents, last, text));
        }
    }
}

fn refuse_client(clients: &mut Slab<ClientConnection>, at: usize, pending: &PendingRequest, errno: Errno, why: &str) {
    let Some(client) = clients.get_mut(at) else { return };
    client.answered(pending.bytes);
    // Nobody reads the reply of a client that is gone.
    if let Some(session) = client.session().copied().filter(|_| !client.gone) {
        client.send_queue.text(|text| session.fail(&pending.request, errno, &why, None, text));
    }
}

/// Returns a request as a trace has it, if traces have such requests.
fn trace_request(request: &NbdRequest, begin: Instant) -> Option<Asked> {
    let op = match request.command {
        NbdCommand::Read { .. } => Op::Read,
        // A trace has no content, so zeros are recorded as a write.
        NbdCommand::Write | NbdCommand::WriteZeroes { .. } => Op::Write,
        NbdCommand::Flush => Op::Flush,
        NbdCommand::Trim => Op::Discard,
        NbdCommand::Cache | NbdCommand::BlockStatus { .. } => return None,
    };
    let time = Nanos(begin.elapsed().as_nanos() as u64);
    let (offset, len) = (request.offset, request.length.into());
    Some(Asked { time, offset, len, volume: 0, op, fua: request.fua && op == Op::Write })
}

/// Puts the answer to a request into its client's send queue. Returns the buffer if that does not need it.
fn answer(
    client: &mut ClientConnection,
    pending: &PendingRequest,
    ok: bool,
    bytes: AlignedBuffer,
) -> Option<AlignedBuffer> {
    client.answered(pending.bytes);
    let Some(session) = client.session().copied().filter(|_| !client.gone) else { return Some(bytes) };
    let request = &pending.request;
    if !ok {
        let text = "the array cannot serve it";
        client.send_queue.text(|out| session.fail(request, Errno::Io, &text, None, out));
        return Some(bytes);
    }
    if !matches!(request.command, NbdCommand::Read { .. }) {
        client.send_queue.head(&session.done(request));
        return Some(bytes);
    }
    let mut reply = ReadReply::new(&session, request);
    let left = reply.left();
    client.send_queue.head(&reply.data(left));
    // Whole sectors were read, of which the client asked for a part.
    let from = (request.offset % SECTOR) as usize;
    client.send_queue.payload(bytes, from..from + left as usize)
}
