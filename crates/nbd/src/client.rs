//! The client's side of one connection: bytes in, events and bytes out.
//!
//! After [`ClientEvent::Greeted`] options are asked for, one at a time ([`NbdClient::ask`]); when one of
//! them has begun the transmission ([`ClientEvent::Started`]) requests are made ([`NbdClient::request`]),
//! as many at a time as the client was made for. What [`output`](NbdClient::output) gives has to be
//! sent; the bytes of a request are given to the owner, who sends them and, after a write, the
//! payload from where it lies.
//!
//! A server that breaks a rule is not believed any more ([`ServerViolation`]); what is held because of
//! what it sends is bounded.

pub mod blocking;
mod chunks;
mod options;
mod pending;
mod violation;

use self::chunks::{ChunkPart, ReplyChunk};
use self::options::{AnswerEvent, OptionExchange};
pub use self::options::{ExportDescription, OptionAnswer, OptionRequest};
use self::pending::InFlightRequests;
pub use self::violation::{ClientMisuse, ServerViolation};
use crate::errno::Errno;
use crate::gather::{self, MessageGather};
use crate::request::{NbdCommand, NbdRequest, RequestHead};
use crate::session::NbdSession;
use crate::wire::{
    CHUNK_MAGIC, OPTION_MAGIC, PutNumbers, REQUEST_BYTES, SERVER_MAGIC, SIMPLE_REPLY_MAGIC, WireFields, client_flag,
    handshake,
};

/// Lists the events that received bytes lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// All input is used up, and more is needed.
    More,
    /// The server has said hello; options can be asked for.
    Greeted,
    /// The answer to an option.
    Answer(OptionAnswer),
    /// The negotiation is over; [`NbdClient::export`] says of what.
    Started,
    /// Bytes of the export, which come next.
    Data {
        /// The request that they are for.
        cookie: u64,
        /// Holds the first byte in the export.
        offset: u64,
        /// Counts the bytes.
        length: u32,
    },
    /// The payload is next: so many bytes, which only the owner can take.
    Payload(u32),
    /// Zeroes.
    Hole {
        /// The request that they are for.
        cookie: u64,
        /// Holds the first byte in the export.
        offset: u64,
        /// Counts the bytes.
        length: u32,
    },
    /// The next extent of a context.
    Extent {
        /// The request that it is for.
        cookie: u64,
        /// The context, by the number that the server has for it.
        context: u32,
        /// Bytes.
        length: u32,
        /// Holds the status that the context gives these bytes.
        flags: u32,
    },
    /// Something went wrong; the reply goes on.
    Failed {
        /// With this request.
        cookie: u64,
        /// Holds the error.
        errno: Errno,
        /// Holds the byte at which the error occurred, if it is known.
        at: Option<u64>,
        /// Holds the server's text for people.
        text: String,
    },
    /// The reply is complete: the request succeeded, or its first error.
    Done {
        /// The request.
        cookie: u64,
        /// Holds the result of the request.
        result: Result<(), Errno>,
    },
}

/// Names the message that comes next.
#[derive(Clone, Debug)]
enum ClientState {
    /// The server's hello.
    Greeting,
    /// Expects the answer to an option, if one was sent.
    Asking,
    /// The first four bytes of a reply.
    Reply,
    /// The rest of a simple reply.
    Simple,
    /// The rest of a chunk's head.
    Chunk,
    /// Expects a part of a chunk's payload.
    Part(ReplyChunk, ChunkPart),
    /// Bytes of the export, which the owner takes, for a slot.
    Payload { slot: usize, left: u32, last: bool },
    /// The end of the reply to what is in a slot.
    End { slot: usize },
    /// Nothing.
    Lost(ServerViolation),
}

/// The client's side of a connection.
#[derive(Debug)]
pub struct NbdClient {
    state: ClientState,
    gather: MessageGather,
    options: OptionExchange,
    pending: InFlightRequests,
    session: Option<NbdSession>,
    output: Vec<u8>,
}

impl NbdClient {
    /// A connection that has just been made, over which at most so many requests will be under
    /// way at a time.
    pub fn new(depth: usize) -> Self {
        Self {
            state: ClientState::Greeting,
            gather: MessageGather::default(),
            options: OptionExchange::default(),
            pending: InFlightRequests::new(depth),
            session: None,
            output: Vec::new(),
        }
    }

    /// Returns the bytes to be sent.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// So many bytes of the [`output`](Self::output) are on their way.
    pub fn sent(&mut self, bytes: usize) {
        self.output.drain(..bytes);
    }

    /// Bytes that are held because of what came in.
    pub fn held(&self) -> usize {
        self.gather.capacity() + self.options.held() + self.pending.held()
    }

    /// The export that is used, once the transmission has begun.
    pub const fn export(&self) -> Option<&ExportDescription> {
        if self.session.is_some() { Some(self.options.described()) } else { None }
    }

    /// Returns the session that was negotiated; none before [`ClientEvent::Started`].
    pub const fn session(&self) -> Option<&NbdSession> {
        self.session.as_ref()
    }

    /// The contexts that the server has chosen: its number and the name of each.
    pub fn contexts(&self) -> &[(u32, String)] {
        self.options.contexts()
    }

    /// Asks for an option.
    pub fn ask(&mut self, option: &OptionRequest<'_>) -> Result<(), ClientMisuse> {
        if !matches!(self.state, ClientState::Asking) || self.options.is_waiting() {
            return Err(ClientMisuse::NotNow);
        }
        self.options.ask(option, &mut self.output)
    }

    /// A request, as its cookie and the bytes that are to be sent; after a write its payload is.
    pub fn request(
        &mut self,
        command: NbdCommand,
        fua: bool,
        offset: u64,
        length: u32,
    ) -> Result<(u64, [u8; REQUEST_BYTES]), ClientMisuse> {
        let session = self.session.ok_or(ClientMisuse::NotNow)?;
        let request = NbdRequest { cookie: 0, command, fua, offset, length };
        // Encoding and decoding once more checks the request by the very rules that the server applies.
        let head = RequestHead::decode(&request.encode()).map_err(|_| ClientMisuse::NotNow)?;
        session.check(&head)?;
        self.request_anyway(request)
    }

    /// A request, whether or not it was agreed on that it may be made. Its cookie is chosen here.
    pub fn request_anyway(&mut self, mut request: NbdRequest) -> Result<(u64, [u8; REQUEST_BYTES]), ClientMisuse> {
        if self.session.is_none() || matches!(self.state, ClientState::Lost(_)) {
            return Err(ClientMisuse::NotNow);
        }
        // The cookie has the place of the request in it, so a reply is matched without a search.
        request.cookie = self.pending.add(request).ok_or(ClientMisuse::Full)?;
        Ok((request.cookie, request.encode()))
    }

    /// Requests that are under way.
    pub fn under_way(&self) -> impl Iterator<Item = &NbdRequest> {
        self.pending.iter()
    }

    /// Returns the message that ends the transmission. It is better sent when no request is in flight.
    pub fn goodbye() -> [u8; REQUEST_BYTES] {
        RequestHead { flags: 0, kind: crate::wire::command::DISC, cookie: 0, offset: 0, length: 0 }.encode()
    }

    /// Bytes of the last data that the owner has not taken.
    pub const fn payload_left(&self) -> u32 {
        if let ClientState::Payload { left, .. } = self.state { left } else { 0 }
    }

    /// Copies what there is of the payload from `input` to `into`, and says how many bytes.
    pub fn take_payload(&mut self, input: &mut &[u8], into: &mut [u8]) -> usize {
        let ClientState::Payload { ref mut left, .. } = self.state else { return 0 };
        let taken = gather::copy(left, input, into);
        self.after_payload();
        taken
    }

    /// The owner has read so many bytes of the payload itself.
    ///
    /// # Panics
    /// If so many were not left.
    pub fn payload_read(&mut self, bytes: u32) {
        if let ClientState::Payload { ref mut left, .. } = self.state {
            *left = left.checked_sub(bytes).expect("no more than the payload");
            self.after_payload();
        } else {
            assert_eq!(bytes, 0, "there is no payload");
        }
    }

    fn after_payload(&mut self) {
        if let ClientState::Payload { slot, left: 0, last } = self.state {
            self.state = after(slot, last);
        }
    }

    /// Takes bytes from the front of `input` up to the next event.
    pub fn receive(&mut self, input: &mut &[u8]) -> Result<ClientEvent, ServerViolation> {
        loop {
            match self.step(input) {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {}
                Err(violation) => {
                    // A server that broke one rule may have lost count of its bytes, so nothing after that can be
                    // trusted.
                    self.state = ClientState::Lost(violation.clone());
                    return Err(violation);
                }
            }
        }
    }

    fn step(&mut self, input: &mut &[u8]) -> Result<Option<ClientEvent>, ServerViolation> {
        let more = Ok(Some(ClientEvent::More));
        match self.state {
            ClientState::Greeting => {
                let Some(bytes) = self.gather.fixed::<18>(input) else { return more };
                self.greeted(&bytes)?;
                self.state = ClientState::Asking;
                return Ok(Some(ClientEvent::Greeted));
            }
            ClientState::Asking => {
                return Ok(Some(match self.options.receive(&mut self.gather, input)? {
                    AnswerEvent::More => ClientEvent::More,
                    AnswerEvent::Answer(answer) => ClientEvent::Answer(answer),
                    AnswerEvent::Started(session) => {
                        self.session = Some(session);
                        self.state = ClientState::Reply;
                        ClientEvent::Started
                    }
                }));
            }
            ClientState::Reply => {
                let Some(bytes) = self.gather.fixed::<4>(input) else { return more };
                self.state = match u32::from_be_bytes(bytes) {
                    SIMPLE_REPLY_MAGIC => ClientState::Simple,
                    // A chunk without structured replies would mean that both sides disagree on the rest of the
                    // stream.
                    CHUNK_MAGIC if self.session.is_some_and(|session| session.structured) => ClientState::Chunk,
                    magic => return Err(ServerViolation::ReplyMagic(magic)),
                };
            }
            ClientState::Simple => {
                let Some(bytes) = self.gather.fixed::<12>(input) else { return more };
                return self.simple(&bytes);
            }
            ClientState::Chunk => {
                let Some(bytes) = self.gather.fixed::<16>(input) else { return more };
                let (chunk, part) = self.pending.chunk(&bytes)?;
                self.state = match part {
                    Some(part) => ClientState::Part(chunk, part),
                    None => after(chunk.slot, chunk.last),
                };
            }
            ClientState::Part(chunk, part) => {
                let contexts = self.options.contexts();
                let Some((event, next)) = self.pending.part(chunk, part, contexts, &mut self.gather, input)? else {
                    return more;
                };
                self.state = match (next, &event) {
                    (Some(part), _) => ClientState::Part(chunk, part),
                    (None, Some(ClientEvent::Data { length, .. })) => {
                        ClientState::Payload { slot: chunk.slot, left: *length, last: chunk.last }
                    }
                    (None, _) => after(chunk.slot, chunk.last),
                };
                return Ok(event);
            }
            ClientState::Payload { left, .. } => return Ok(Some(ClientEvent::Payload(left))),
            ClientState::End { slot } => {
                // The end is an event of its own, so the owner has all bytes before it hears the result.
                let (cookie, result) = self.pending.end(slot, self.options.contexts().len())?;
                self.state = ClientState::Reply;
                return Ok(Some(ClientEvent::Done { cookie, result }));
            }
            ClientState::Lost(ref violation) => return Err(violation.clone()),
        }
        Ok(None)
    }

    fn greeted(&mut self, bytes: &[u8; 18]) -> Result<(), ServerViolation> {
        let mut fields = WireFields(bytes);
        let (Some(first), Some(second), Some(flags)) = (fields.u64(), fields.u64(), fields.u16()) else {
            return Err(ServerViolation::Greeting(0, 0));
        };
        if (first, second) != (SERVER_MAGIC, OPTION_MAGIC) {
            return Err(ServerViolation::Greeting(first, second));
        }
        let fixed = flags & handshake::FIXED_NEWSTYLE != 0;
        let no_zeroes = flags & handshake::NO_ZEROES != 0;
        // The client may confirm only flags that the server has offered.
        let bit = |set: bool, flag: u32| if set { flag } else { 0 };
        self.output.put32(bit(fixed, client_flag::FIXED_NEWSTYLE) | bit(no_zeroes, client_flag::NO_ZEROES));
        self.options.greeted(fixed, no_zeroes);
        Ok(())
    }

    fn simple(&mut self, bytes: &[u8; 12]) -> Result<Option<ClientEvent>, ServerViolation> {
        let mut fields = WireFields(bytes);
        let (error, cookie) = (fields.u32().unwrap_or_default(), fields.u64().unwrap_or_default());
        let structured = self.session.is_some_and(|session| session.structured);
        let (slot, request) = self.pending.simple(cookie, error, structured)?;
        // An error has no payload in a simple reply, whatever the length of the request.
        if error == 0 && matches!(request.command, NbdCommand::Read { .. }) && request.length > 0 {
            self.state = ClientState::Payload { slot, left: request.length, last: true };
            return Ok(Some(ClientEvent::Data { cookie, offset: request.offset, length: request.length }));
        }
        self.state = ClientState::End { slot };
        Ok(None)
    }
}

/// Returns the state after a chunk: the end of the reply if the chunk was its last.
const fn after(slot: usize, last: bool) -> ClientState {
    if last { ClientState::End { slot } } else { ClientState::Reply }
}
