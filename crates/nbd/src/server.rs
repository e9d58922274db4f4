//! The server's side of one connection: bytes in, events and bytes out.
//!
//! ```text
//! loop:   receive(&mut input) ──► More          read from the socket, then again
//!                             ──► SendFirst     send output(), say sent(), then again
//!                             ──► Started       the client has chosen an export
//!                             ──► Ended         send what there is to send, then close
//!                             ──► Err(hang up)  close; what there is to send was meant before
//! ```
//!
//! What [`output`](Server::output) gives are whole messages, to be sent between others that the
//! owner makes with its [`Session`]. Who does not send it is soon asked to: what is held for a
//! client is bounded, whatever comes in. How many requests are under way at a time, and how long a
//! client may keep silent, is the owner's affair.

mod haggle;

use std::sync::Arc;

use thiserror::Error;

use self::haggle::{Haggle, Outcome};
use crate::export::Exports;
use crate::gather::{self, Gather};
use crate::session::Session;
use crate::wire::{HARMLESS_PAYLOAD, OPTION_MAGIC, Put, SERVER_MAGIC, client_flag, handshake};

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
}

impl Server {
    /// A connection that has just been made. There is output at once: a server speaks first.
    pub fn new(exports: Arc<Exports>) -> Self {
        let mut output = Vec::with_capacity(256);
        output.put64(SERVER_MAGIC);
        output.put64(OPTION_MAGIC);
        output.put16(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        Self { state: State::Flags, gather: Gather::default(), haggle: Haggle::new(exports), session: None, output }
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
        self.output.capacity() + self.gather.capacity()
    }

    /// Whether the connection, should it end now, ends in the middle of a message.
    pub const fn is_inside_message(&self) -> bool {
        let between = matches!(self.state, State::Flags | State::Option | State::Ended);
        !between || self.gather.is_inside()
    }

    /// From now on options are refused: the server is being shut down.
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
            match self.negotiate(input) {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {}
                Err(hang_up) => {
                    self.state = State::HungUp(hang_up.clone());
                    return Err(hang_up);
                }
            }
        }
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
                        self.state = State::Ended;
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
            State::Ended => return Ok(Some(Event::Ended)),
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
