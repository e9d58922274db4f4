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
//! [`output`](NbdServer::output) returns whole messages, to be sent between others that the owner makes
//! with its [`NbdSession`]. Who does not send it is soon asked to: what is held for a
//! client is bounded, whatever comes in. How many requests are under way at a time, and how long a
//! client may keep silent, is the owner's affair.

mod contexts;
mod negotiation;

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use self::negotiation::{OptionNegotiation, OptionOutcome};
use crate::errno::Errno;
use crate::export::ExportList;
use crate::gather::{self, MessageGather};
use crate::request::{NbdCommand, NbdRequest, RequestHead};
use crate::session::{NbdSession, RequestRefusal};
use crate::wire::{
    HARMLESS_PAYLOAD, OPTION_MAGIC, PutNumbers, REQUEST_BYTES, SERVER_MAGIC, client_flag, command, handshake,
};

/// Bytes of unsent output from which on nothing more is received.
const OUTPUT: usize = 1 << 16;

/// Why the connection has to be closed at once.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HangUp {
    /// The client wants what it was not offered, in its very first message.
    #[error("the client's flags {0:#x} are unknown")]
    ClientFlags(u32),
    /// Tells that the bytes are no option.
    #[error("an option begins with {0:#018x}")]
    OptionMagic(u64),
    /// More than any option has.
    #[error("option {option} has {length} bytes")]
    OptionTooLong {
        /// Numbers the option.
        option: u32,
        /// Counts its bytes.
        length: u32,
    },
    /// Tells that there is no such export, and the client asked in the way that allows no other answer.
    #[error("there is no export \"{0}\"")]
    UnknownExport(String),
    /// The export insists on its block sizes, and the client cannot ask for them.
    #[error("export \"{0}\" is for clients that ask for its block sizes")]
    BlockSizes(String),
    /// The server is being shut down, and the client asked in the way that allows no other answer.
    #[error("the server is being shut down")]
    Shutdown,
    /// Tells that the bytes are no request.
    #[error("a request begins with {0:#010x}")]
    RequestMagic(u32),
    /// A payload that is longer than what anyone would send.
    #[error("a write of {length} bytes, where {most} are the most that is received")]
    PayloadTooLong {
        /// Counts its bytes.
        length: u32,
        /// Bytes.
        most: u32,
    },
}

/// Lists the events that received bytes lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// All input is used up, and more is needed.
    More,
    /// Output is to be sent before anything is received.
    SendFirst,
    /// The negotiation is over; [`NbdServer::session`] says what was agreed on.
    Started,
    /// A request, which is valid. One of a write is followed by its payload.
    Request(NbdRequest),
    /// The payload of the last write is next: so many bytes, which only the owner can take.
    Payload(u32),
    /// The client has said goodbye. Requests under way are finished, answers sent; then the
    /// connection is closed.
    Ended,
}

/// Names the message that comes next.
#[derive(Clone, Debug)]
enum ServerState {
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
pub struct NbdServer {
    state: ServerState,
    gather: MessageGather,
    negotiation: OptionNegotiation,
    session: Option<NbdSession>,
    output: Vec<u8>,
    /// The error that follows the payload of a write that is refused.
    refusal: Vec<u8>,
}

impl NbdServer {
    /// A connection that has just been made. There is output at once: a server speaks first.
    pub fn new(exports: Arc<ExportList>) -> Self {
        let mut output = Vec::with_capacity(256);
        output.put64(SERVER_MAGIC);
        output.put64(OPTION_MAGIC);
        // Only with the fixed newstyle can an option be refused without the loss of the connection.
        output.put16(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        Self {
            state: ServerState::Flags,
            gather: MessageGather::default(),
            negotiation: OptionNegotiation::new(exports),
            session: None,
            output,
            refusal: Vec::new(),
        }
    }

    /// Returns what was agreed on; nothing before [`ServerEvent::Started`].
    pub const fn session(&self) -> Option<&NbdSession> {
        self.session.as_ref()
    }

    /// Returns the bytes to be sent.
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

    /// Returns true if the connection, should it end now, ends in the middle of a message.
    pub const fn is_inside_message(&self) -> bool {
        let between =
            matches!(self.state, ServerState::Flags | ServerState::Option | ServerState::Request | ServerState::Ended);
        !between || self.gather.is_inside()
    }

    /// From now on options and requests are refused: the server is being shut down. Requests
    /// under way are the owner's to answer.
    pub const fn shut_down(&mut self) {
        self.negotiation.shutting_down = true;
    }

    /// Takes bytes from the front of `input` up to the next event.
    #[inline]
    pub fn receive(&mut self, input: &mut &[u8]) -> Result<ServerEvent, HangUp> {
        loop {
            // A client that asks and never reads must not fill memory with answers.
            if self.output.len() >= OUTPUT {
                return Ok(ServerEvent::SendFirst);
            }
            let event = match self.state {
                ServerState::Request => self.request(input),
                ServerState::Payload { left } => Ok(Some(ServerEvent::Payload(left))),
                ServerState::Refused { ref mut left } => {
                    if !gather::skip(left, input) {
                        return Ok(ServerEvent::More);
                    }
                    self.output.append(&mut self.refusal);
                    self.state = ServerState::Request;
                    continue;
                }
                _ => self.negotiate(input),
            };
            match event {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {}
                Err(hang_up) => {
                    // Asked again, the server gives the same answer: the bytes after a fault mean nothing.
                    self.state = ServerState::HungUp(hang_up.clone());
                    return Err(hang_up);
                }
            }
        }
    }

    #[inline]
    fn request(&mut self, input: &mut &[u8]) -> Result<Option<ServerEvent>, HangUp> {
        let Some(bytes) = self.gather.fixed::<REQUEST_BYTES>(input) else { return Ok(Some(ServerEvent::More)) };
        let head = RequestHead::decode(&bytes).map_err(HangUp::RequestMagic)?;
        // The negotiation has ended with a session.
        let Some(session) = self.session else { return Ok(Some(ServerEvent::Ended)) };
        if head.kind == command::WRITE {
            let most = session.longest_payload();
            // Skipping gigabytes of a payload would keep the connection busy for a client that breaks the rules.
            if head.length > most {
                return Err(HangUp::PayloadTooLong { length: head.length, most });
            }
        } else if head.kind == command::DISC {
            self.state = ServerState::Ended;
            return Ok(Some(ServerEvent::Ended));
        }
        let checked = if self.negotiation.shutting_down { Err(RequestRefusal::Shutdown) } else { session.check(&head) };
        match checked {
            Ok(request) => {
                if request.command == NbdCommand::Write {
                    self.state = ServerState::Payload { left: request.length };
                }
                Ok(Some(ServerEvent::Request(request)))
            }
            Err(refusal) => {
                let out = if head.kind == command::WRITE {
                    // The payload follows whatever the answer is: it is skipped first, or its bytes would pass for
                    // requests.
                    self.state = ServerState::Refused { left: head.length };
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
        if let ServerState::Payload { left } = self.state { left } else { 0 }
    }

    /// Copies what there is of the payload from `input` to `into`, and says how many bytes.
    pub fn take_payload(&mut self, input: &mut &[u8], into: &mut [u8]) -> usize {
        let ServerState::Payload { ref mut left } = self.state else { return 0 };
        let taken = gather::copy(left, input, into);
        self.after_payload();
        taken
    }

    /// The owner has read so many bytes of the payload itself.
    ///
    /// # Panics
    /// If so many were not left.
    pub fn payload_read(&mut self, bytes: u32) {
        if let ServerState::Payload { ref mut left } = self.state {
            *left = left.checked_sub(bytes).expect("no more than the payload");
            self.after_payload();
        } else {
            assert_eq!(bytes, 0, "there is no payload");
        }
    }

    fn after_payload(&mut self) {
        if let ServerState::Payload { left: 0 } = self.state {
            self.state = ServerState::Request;
        }
    }

    /// The owner cannot take the payload of the write that has just come. What is left of it is
    /// dropped as it comes, and then the request is answered with this error.
    ///
    /// # Panics
    /// If no payload is left.
    pub fn refuse_payload(&mut self, request: &NbdRequest, errno: Errno, text: &dyn fmt::Display) {
        let (ServerState::Payload { left }, Some(session)) = (&self.state, self.session) else {
            panic!("there is no payload");
        };
        self.state = ServerState::Refused { left: *left };
        session.fail(request, errno, text, None, &mut self.refusal);
    }

    /// Everything before the transmission, and after it.
    fn negotiate(&mut self, input: &mut &[u8]) -> Result<Option<ServerEvent>, HangUp> {
        match self.state {
            ServerState::Flags => {
                let Some(bytes) = self.gather.fixed(input) else { return Ok(Some(ServerEvent::More)) };
                let flags = u32::from_be_bytes(bytes);
                // The protocol asks a server to close the connection at unknown client flags.
                if flags & !(client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES) != 0 {
                    return Err(HangUp::ClientFlags(flags));
                }
                self.negotiation.no_zeroes = flags & client_flag::NO_ZEROES != 0;
                self.state = ServerState::Option;
            }
            ServerState::Option => {
                let Some(bytes) = self.gather.fixed::<16>(input) else { return Ok(Some(ServerEvent::More)) };
                let (option, length) = option_head(&bytes)?;
                if length > HARMLESS_PAYLOAD
                    // EXPORT_NAME has no error reply, so a name that is too long ends the connection.
                    || OptionNegotiation::ends_with(option) && length > OptionNegotiation::LONGEST_NAME
                {
                    return Err(HangUp::OptionTooLong { option, length });
                }
                // Data of an option that is refused are skipped as they come, so a client cannot have them
                // take memory.
                self.state = if OptionNegotiation::keeps(option, length) {
                    ServerState::Data { option, length }
                } else {
                    ServerState::Skip { option, left: length }
                };
            }
            ServerState::Data { option, length } => {
                let Some(data) = self.gather.variable(length as usize, input) else {
                    return Ok(Some(ServerEvent::More));
                };
                self.state = ServerState::Option;
                match self.negotiation.answer(option, &data, &mut self.output)? {
                    OptionOutcome::Next => {}
                    OptionOutcome::Start(session) => {
                        self.session = Some(session);
                        self.state = ServerState::Request;
                        return Ok(Some(ServerEvent::Started));
                    }
                }
            }
            ServerState::Skip { option, ref mut left } => {
                if !gather::skip(left, input) {
                    return Ok(Some(ServerEvent::More));
                }
                let ended = self.negotiation.answer_skipped(option, &mut self.output);
                self.state = if ended { ServerState::Ended } else { ServerState::Option };
            }
            ServerState::HungUp(ref hang_up) => return Err(hang_up.clone()),
            ServerState::Request | ServerState::Payload { .. } | ServerState::Refused { .. } | ServerState::Ended => {
                return Ok(Some(ServerEvent::Ended));
            }
        }
        Ok(None)
    }
}

fn option_head(bytes: &[u8; 16]) -> Result<(u32, u32), HangUp> {
    let mut fields = crate::wire::WireFields(bytes);
    let (magic, option, length) = (fields.u64(), fields.u32(), fields.u32());
    match (magic, option, length) {
        (Some(OPTION_MAGIC), Some(option), Some(length)) => Ok((option, length)),
        (magic, ..) => Err(HangUp::OptionMagic(magic.unwrap_or_default())),
    }
}
