//! The server's side of one connection: bytes in, events and bytes out.
//!
//! ```text
//! loop:   receive(&mut input) ──► More          read from the socket, then again
//!                             ──► SendFirst     send output(), say sent(), then again
//!                             ──► Started       the client has chosen an export
//!                             ──► Request       answer it, now or later, here or elsewhere; if it
//!                                               is a write its payload comes next:
//!                                               take_payload(), or read it elsewhere and say
//!                                               payload_read(), until payload_left() is 0
//!                             ──► Ended         send what there is to send, then close
//!                             ──► Err(hang up)  close; what there is to send was meant before
//! ```
//!
//! What [`output`](Server::output) gives are whole messages, to be sent between others that the
//! owner makes with its [`Session`]. Who does not send it is soon asked to: what is held for a
//! client is bounded, whatever comes in. How many requests are under way at a time, and how long a
//! client may keep silent, is the owner's affair.

mod contexts;
mod haggle;

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use self::haggle::{Haggle, Outcome};
use crate::errno::Errno;
use crate::export::Exports;
use crate::gather::{self, Gather};
use crate::request::{Command, Request, RequestHead};
use crate::session::{Refusal, Session};
use crate::wire::{HARMLESS_PAYLOAD, OPTION_MAGIC, Put, REQUEST_BYTES, SERVER_MAGIC, client_flag, command, handshake};

/// Bytes of unsent output from which on nothing more is received.
const OUTPUT: usize = 1 << 16;

/// Why the connection has to be closed at once.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HangUp {
    /// The client wants what it was not offered, in its very first message.
    #[error("the client's flags {0:#x} are unknown")]
    ClientFlags(u32),
    /// What comes is no option.
    #[error("an option begins with {0:#018x}")]
    OptionMagic(u64),
    /// More than any option has.
    #[error("option {option} has {length} bytes")]
    OptionTooLong {
        /// Its number.
        option: u32,
        /// Its length.
        length: u32,
    },
    /// There is no such export, and the client asked in the way that allows no other answer.
    #[error("there is no export \"{0}\"")]
    UnknownExport(String),
    /// The export insists on its block sizes, and the client cannot ask for them.
    #[error("export \"{0}\" is for clients that ask for its block sizes")]
    BlockSizes(String),
    /// The server is being shut down, and the client asked in the way that allows no other answer.
    #[error("the server is being shut down")]
    Shutdown,
    /// What comes is no request.
    #[error("a request begins with {0:#010x}")]
    RequestMagic(u32),
    /// A payload that is longer than what anyone would send.
    #[error("a write of {length} bytes, where {most} are the most that is received")]
    PayloadTooLong {
        /// Its length.
        length: u32,
        /// Bytes.
        most: u32,
    },
}

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// All input is used up, and more is needed.
    More,
    /// Output is to be sent before anything is received.
    SendFirst,
    /// The negotiation is over; [`Server::session`] says what was agreed on.
    Started,
    /// A request, which is valid. One of a write is followed by its payload.
    Request(Request),
    /// The payload of the last write is next: so many bytes, which only the owner can take.
    Payload(u32),
    /// The client has said goodbye. Requests under way are finished, answers sent; then the
    /// connection is closed.
    Ended,
}

/// What comes next.
#[derive(Clone, Debug)]
enum State {
    /// The client's flags.
    Flags,
    /// An option.
    Option,
    /// The data of one.
    Data { option: u32, length: u32 },
    /// The data of one that is unknown or too long.
    Skip { option: u32, left: u32 },
    /// A request.
    Request,
    /// The payload of a write, which the owner takes.
    Payload { left: u32 },
    /// The payload of a write that is refused.
    Refused { left: u32 },
    /// Nothing.
    Ended,
    /// Nothing, since the client cannot be understood.
    HungUp(HangUp),
}

/// The server's side of a connection.
#[derive(Debug)]
pub struct Server {
    state: State,
    gather: Gather,
    haggle: Haggle,
    session: Option<Session>,
    output: Vec<u8>,
    /// The error that follows the payload of a write that is refused.
    refusal: Vec<u8>,
}

impl Server {
    /// A connection that has just been made. There is output at once: a server speaks first.
    pub fn new(exports: Arc<Exports>) -> Self {
        let mut output = Vec::with_capacity(256);
        output.put64(SERVER_MAGIC);
        output.put64(OPTION_MAGIC);
        output.put16(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        Self {
            state: State::Flags,
            gather: Gather::default(),
            haggle: Haggle::new(exports),
            session: None,
            output,
            refusal: Vec::new(),
        }
    }

    /// What was agreed on; nothing before [`Event::Started`].
    pub const fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// What is to be sent.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// So many bytes of the [`output`](Self::output) are on their way.
    pub fn sent(&mut self, bytes: usize) {
        self.output.drain(..bytes);
    }

    /// Bytes that are held because of what came in: unsent output and unfinished messages.
    pub fn held(&self) -> usize {
        self.output.capacity() + self.refusal.capacity() + self.gather.capacity()
    }

    /// Whether the connection, should it end now, ends in the middle of a message.
    pub const fn is_inside_message(&self) -> bool {
        let between = matches!(self.state, State::Flags | State::Option | State::Request | State::Ended);
        !between || self.gather.is_inside()
    }

    /// From now on options and requests are refused: the server is being shut down. Requests
    /// under way are the owner's to answer.
    pub const fn shut_down(&mut self) {
        self.haggle.shutting_down = true;
    }

    /// Takes bytes from the front of `input` up to the next event.
    #[inline]
    pub fn receive(&mut self, input: &mut &[u8]) -> Result<Event, HangUp> {
        loop {
            if self.output.len() >= OUTPUT {
                return Ok(Event::SendFirst);
            }
            let event = match self.state {
                State::Request => self.request(input),
                State::Payload { left } => Ok(Some(Event::Payload(left))),
                State::Refused { ref mut left } => {
                    if !gather::skip(left, input) {
                        return Ok(Event::More);
                    }
                    self.output.append(&mut self.refusal);
                    self.state = State::Request;
                    continue;
                }
                _ => self.negotiate(input),
            };
            match event {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {}
                Err(hang_up) => {
                    self.state = State::HungUp(hang_up.clone());
                    return Err(hang_up);
                }
            }
        }
    }

    #[inline]
    fn request(&mut self, input: &mut &[u8]) -> Result<Option<Event>, HangUp> {
        let Some(bytes) = self.gather.fixed::<REQUEST_BYTES>(input) else { return Ok(Some(Event::More)) };
        let head = RequestHead::decode(&bytes).map_err(HangUp::RequestMagic)?;
        // There has been one since the negotiation ended.
        let Some(session) = self.session else { return Ok(Some(Event::Ended)) };
        if head.kind == command::WRITE {
            let most = session.longest_payload();
            if head.length > most {
                return Err(HangUp::PayloadTooLong { length: head.length, most });
            }
        } else if head.kind == command::DISC {
            self.state = State::Ended;
            return Ok(Some(Event::Ended));
        }
        let checked = if self.haggle.shutting_down { Err(Refusal::Shutdown) } else { session.check(&head) };
        match checked {
            Ok(request) => {
                if request.command == Command::Write {
                    self.state = State::Payload { left: request.length };
                }
                Ok(Some(Event::Request(request)))
            }
            Err(refusal) => {
                let out = if head.kind == command::WRITE {
                    self.state = State::Refused { left: head.length };
                    &mut self.refusal
                } else {
                    &mut self.output
                };
                session.fail_cookie(head.cookie, refusal.errno(), &refusal, None, out);
                Ok(None)
            }
        }
    }

    /// Bytes of the last write's payload that the owner has not taken.
    pub const fn payload_left(&self) -> u32 {
        if let State::Payload { left } = self.state { left } else { 0 }
    }

    /// Copies what there is of the payload from `input` to `into`, and says how many bytes.
    pub fn take_payload(&mut self, input: &mut &[u8], into: &mut [u8]) -> usize {
        let State::Payload { ref mut left } = self.state else { return 0 };
        let taken = gather::copy(left, input, into);
        self.after_payload();
        taken
    }

    /// The owner has read so many bytes of the payload itself.
    ///
    /// # Panics
    /// If so many were not left.
    pub fn payload_read(&mut self, bytes: u32) {
        if let State::Payload { ref mut left } = self.state {
            *left = left.checked_sub(bytes).expect("no more than the payload");
            self.after_payload();
        } else {
            assert_eq!(bytes, 0, "there is no payload");
        }
    }

    fn after_payload(&mut self) {
        if let State::Payload { left: 0 } = self.state {
            self.state = State::Request;
        }
    }

    /// The owner cannot take the payload of the write that has just come. What is left of it is
    /// dropped as it comes, and then the request is answered with this error.
    ///
    /// # Panics
    /// If no payload is left.
    pub fn refuse_payload(&mut self, request: &Request, errno: Errno, text: &dyn fmt::Display) {
        let (State::Payload { left }, Some(session)) = (&self.state, self.session) else {
            panic!("there is no payload");
        };
        self.state = State::Refused { left: *left };
        session.fail(request, errno, text, None, &mut self.refusal);
    }

    /// Everything before the transmission, and after it.
    fn negotiate(&mut self, input: &mut &[u8]) -> Result<Option<Event>, HangUp> {
        match self.state {
            State::Flags => {
                let Some(bytes) = self.gather.fixed(input) else { return Ok(Some(Event::More)) };
                let flags = u32::from_be_bytes(bytes);
                if flags & !(client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES) != 0 {
                    return Err(HangUp::ClientFlags(flags));
                }
                self.haggle.no_zeroes = flags & client_flag::NO_ZEROES != 0;
                self.state = State::Option;
            }
            State::Option => {
                let Some(bytes) = self.gather.fixed::<16>(input) else { return Ok(Some(Event::More)) };
                let (option, length) = option_head(&bytes)?;
                if length > HARMLESS_PAYLOAD || Haggle::ends_with(option) && length > Haggle::LONGEST_NAME {
                    return Err(HangUp::OptionTooLong { option, length });
                }
                self.state = if Haggle::keeps(option, length) {
                    State::Data { option, length }
                } else {
                    State::Skip { option, left: length }
                };
            }
            State::Data { option, length } => {
                let Some(data) = self.gather.variable(length as usize, input) else { return Ok(Some(Event::More)) };
                self.state = State::Option;
                match self.haggle.answer(option, &data, &mut self.output)? {
                    Outcome::Next => {}
                    Outcome::Start(session) => {
                        self.session = Some(session);
                        self.state = State::Request;
                        return Ok(Some(Event::Started));
                    }
                }
            }
            State::Skip { option, ref mut left } => {
                if !gather::skip(left, input) {
                    return Ok(Some(Event::More));
                }
                let ended = self.haggle.answer_skipped(option, &mut self.output);
                self.state = if ended { State::Ended } else { State::Option };
            }
            State::HungUp(ref hang_up) => return Err(hang_up.clone()),
            State::Request | State::Payload { .. } | State::Refused { .. } | State::Ended => {
                return Ok(Some(Event::Ended));
            }
        }
        Ok(None)
    }
}

fn option_head(bytes: &[u8; 16]) -> Result<(u32, u32), HangUp> {
    let mut fields = crate::wire::Fields(bytes);
    let (magic, option, length) = (fields.u64(), fields.u32(), fields.u32());
    match (magic, option, length) {
        (Some(OPTION_MAGIC), Some(option), Some(length)) => Ok((option, length)),
        (magic, ..) => Err(HangUp::OptionMagic(magic.unwrap_or_default())),
    }
}
