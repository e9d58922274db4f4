//! A client's connection: what comes in becomes requests, replies go out.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use destage_exec::Buffer;
use destage_nbd::server::{Event, HangUp};
use destage_nbd::{Command, Exports, Request, Server, Session};

use crate::outbox::Outbox;
use crate::socket::Stream;
use crate::waiter::Interest;

/// Bytes that are received at a time.
const INPUT: usize = 128 << 10;
/// What is left of a payload is received into its place rather than by way of the input from so many bytes on.
const DIRECT: usize = 16 << 10;
/// Unsent bytes from which on nothing more is received.
const UNSENT: usize = 4 << 20;
/// Requests that a client may have under way; further ones wait in its socket.
const REQUESTS: usize = 256;
/// Bytes of payloads that a client may have under way, counted once there is one request beyond them.
const PAYLOADS: usize = 32 << 20;

/// Why a connection ended other than by a goodbye.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    #[error("it closed the connection in the middle of a message")]
    Cut,
    #[error(transparent)]
    HangUp(#[from] HangUp),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What has come: a request, with what it writes, or room for what it reads.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) request: Request,
    pub(crate) data: Buffer,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) server: Server,
    pub(crate) outbox: Outbox,
    input: Box<[u8]>,
    /// Bytes of the input that were received and not used up.
    filled: std::ops::Range<usize>,
    /// The write whose payload is coming, and the bytes of it that have come.
    coming: Option<(Incoming, usize)>,
    /// Requests under way.
    pub(crate) requests: usize,
    /// Bytes that they have in buffers.
    payloads: usize,
    /// Nothing more is received: the client has said goodbye, or is gone.
    pub(crate) ended: bool,
    /// It is gone: what is still under way is answered to nobody.
    pub(crate) gone: bool,
    /// The socket may have something to be received.
    pub(crate) readable: bool,
    /// What is waited for.
    pub(crate) interest: Interest,
    /// When it came.
    pub(crate) since: Instant,
}

impl Connection {
    pub(crate) fn new(stream: Stream, exports: Arc<Exports>) -> Self {
        let mut connection = Self {
            stream,
            server: Server::new(exports),
            outbox: Outbox::default(),
            input: vec![0; INPUT].into_boxed_slice(),
            filled: 0..0,
            coming: None,
            requests: 0,
            payloads: 0,
            ended: false,
            gone: false,
            readable: false,
            interest: Interest::READ,
            since: Instant::now(),
        };
        connection.take_output();
        connection
    }

    /// What was agreed on.
    pub(crate) const fn session(&self) -> Option<&Session> {
        self.server.session()
    }

    /// Whether it has as much under way as it may have.
    pub(crate) const fn is_full(&self) -> bool {
        self.requests >= REQUESTS || self.payloads >= PAYLOADS || self.outbox.left() >= UNSENT
    }

    /// Whether it can be forgotten: nothing comes in, nothing is under way, and all is sent.
    pub(crate) const fn is_over(&self) -> bool {
        self.ended && self.requests == 0 && self.outbox.left() == 0
    }

    /// What is to be waited for.
    pub(crate) const fn wanted(&self) -> Interest {
        Interest { read: !self.ended && !self.is_full(), write: self.outbox.left() > 0 }
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
            self.outbox.text(|text| text.extend_from_slice(output));
            let len = output.len();
            self.server.sent(len);
        }
    }

    /// The next request; none if nothing more can be received for the time being. `room` gives
    /// buffers. `drained` says, from call to call, whether the socket had nothing more.
    pub(crate) fn next(
        &mut self,
        room: &mut impl FnMut(usize) -> Buffer,
        drained: &mut bool,
    ) -> Result<Option<Incoming>, Lost> {
        loop {
            if self.ended || self.is_full() {
                return Ok(None);
            }
            if let Some(incoming) = self.advance(room)? {
                return Ok(Some(incoming));
            }
            if self.ended || self.is_full() || *drained || !self.receive(drained)? {
                return Ok(None);
            }
        }
    }

    /// Uses up what was received, up to the next request.
    fn advance(&mut self, room: &mut impl FnMut(usize) -> Buffer) -> Result<Option<Incoming>, Lost> {
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
            let mut input = &self.input[self.filled.clone()];
            let event = self.server.receive(&mut input);
            self.filled.start = self.filled.end - input.len();
            self.take_output();
            match event? {
                Event::More => return Ok(None),
                // It was taken over just now; if the client does not take it, nothing is received.
                Event::SendFirst if self.is_full() => return Ok(None),
                Event::SendFirst | Event::Started => {}
                Event::Payload(_) => unreachable!("payloads are taken as they come"),
                Event::Ended => {
                    self.ended = true;
                    return Ok(None);
                }
                Event::Request(request) => {
                    let len = match request.command {
                        Command::Write | Command::Read { .. } => request.length as usize,
                        _ => 0,
                    };
                    let data = room(len);
                    let incoming = Incoming { request, data };
                    if request.command == Command::Write {
                        self.coming = Some((incoming, 0));
                    } else {
                        return Ok(Some(self.begun(incoming)));
                    }
                }
            }
        }
    }

    fn begun(&mut self, incoming: Incoming) -> Incoming {
        self.requests += 1;
        self.payloads += incoming.data.len();
        incoming
    }

    /// Receives what there is; whether there was something.
    fn receive(&mut self, drained: &mut bool) -> Result<bool, Lost> {
        if let Some((incoming, filled)) = &mut self.coming
            && incoming.data.len() - *filled >= DIRECT
        {
            let place = &mut incoming.data[*filled..];
            let wanted = place.len();
            return match self.stream.receive(place)? {
                Some(0) => Err(Lost::Cut),
                Some(read) => {
                    *filled += read;
                    *drained = read < wanted;
                    self.server.payload_read(read as u32);
                    Ok(true)
                }
                None => {
                    *drained = true;
                    Ok(false)
                }
            };
        }
        // What is left over is part of a message, hence short.
        self.input.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        let place = &mut self.input[self.filled.end..];
        let wanted = place.len();
        match self.stream.receive(place)? {
            Some(0) if self.server.is_inside_message() || self.coming.is_some() => Err(Lost::Cut),
            Some(0) => {
                self.ended = true;
                Ok(false)
            }
            Some(read) => {
                self.filled.end += read;
                *drained = read < wanted;
                Ok(true)
            }
            None => {
                *drained = true;
                Ok(false)
            }
        }
    }
}
