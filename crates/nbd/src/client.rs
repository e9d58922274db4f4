//! The client's side of one connection: bytes in, events and bytes out.
//!
//! After [`Event::Greeted`] options are asked for, one at a time ([`Client::ask`]), until one of
//! them has begun the transmission ([`Event::Started`]). What [`output`](Client::output) gives has
//! to be sent.
//!
//! A server that breaks a rule is not believed any more ([`Violation`]); what is held because of
//! what it sends is bounded.

mod asking;
mod violation;

pub use self::asking::{Answer, Ask, Described};
use self::asking::{Asking, Heard};
pub use self::violation::{Misuse, Violation};
use crate::gather::Gather;
use crate::session::Session;
use crate::wire::{Fields, OPTION_MAGIC, Put, SERVER_MAGIC, client_flag, handshake};

/// What has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All input is used up, and more is needed.
    More,
    /// The server has said hello; options can be asked for.
    Greeted,
    /// The answer to an option.
    Answer(Answer),
    /// The negotiation is over; [`Client::export`] says of what.
    Started,
}

/// What comes next.
#[derive(Clone, Debug)]
enum State {
    /// The server's hello.
    Greeting,
    /// What was asked for, if anything was.
    Asking,
    /// Nothing.
    Lost(Violation),
}

/// The client's side of a connection.
#[derive(Debug)]
pub struct Client {
    state: State,
    gather: Gather,
    asking: Asking,
    session: Option<Session>,
    output: Vec<u8>,
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// A connection that has just been made.
    pub fn new() -> Self {
        Self {
            state: State::Greeting,
            gather: Gather::default(),
            asking: Asking::default(),
            session: None,
            output: Vec::new(),
        }
    }

    /// What is to be sent.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// So many bytes of the [`output`](Self::output) are on their way.
    pub fn sent(&mut self, bytes: usize) {
        self.output.drain(..bytes);
    }

    /// Bytes that are held because of what came in.
    pub fn held(&self) -> usize {
        self.gather.capacity() + self.asking.held()
    }

    /// The export that is used, once the transmission has begun.
    pub const fn export(&self) -> Option<&Described> {
        if self.session.is_some() { Some(self.asking.described()) } else { None }
    }

    /// What was agreed on.
    pub const fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// The contexts that the server has chosen: its number and the name of each.
    pub fn contexts(&self) -> &[(u32, String)] {
        self.asking.contexts()
    }

    /// Asks for an option.
    pub fn ask(&mut self, option: &Ask<'_>) -> Result<(), Misuse> {
        if !matches!(self.state, State::Asking) || self.asking.is_waiting() {
            return Err(Misuse::NotNow);
        }
        self.asking.ask(option, &mut self.output)
    }

    /// Takes bytes from the front of `input` up to the next event.
    pub fn receive(&mut self, input: &mut &[u8]) -> Result<Event, Violation> {
        loop {
            match self.step(input) {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {}
                Err(violation) => {
                    self.state = State::Lost(violation.clone());
                    return Err(violation);
                }
            }
        }
    }

    fn step(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Violation> {
        let more = Ok(Some(Event::More));
        match self.state {
            State::Greeting => {
                let Some(bytes) = self.gather.fixed::<18>(input) else { return more };
                self.greeted(&bytes)?;
                self.state = State::Asking;
                Ok(Some(Event::Greeted))
            }
            State::Asking => Ok(Some(match self.asking.receive(&mut self.gather, input)? {
                Heard::More => Event::More,
                Heard::Answer(answer) => Event::Answer(answer),
                Heard::Started(session) => {
                    self.session = Some(session);
                    Event::Started
                }
            })),
            State::Lost(ref violation) => Err(violation.clone()),
        }
    }

    fn greeted(&mut self, bytes: &[u8; 18]) -> Result<(), Violation> {
        let mut fields = Fields(bytes);
        let (Some(first), Some(second), Some(flags)) = (fields.u64(), fields.u64(), fields.u16()) else {
            return Err(Violation::Greeting(0, 0));
        };
        if (first, second) != (SERVER_MAGIC, OPTION_MAGIC) {
            return Err(Violation::Greeting(first, second));
        }
        let fixed = flags & handshake::FIXED_NEWSTYLE != 0;
        let no_zeroes = flags & handshake::NO_ZEROES != 0;
        let bit = |set: bool, flag: u32| if set { flag } else { 0 };
        self.output.put32(bit(fixed, client_flag::FIXED_NEWSTYLE) | bit(no_zeroes, client_flag::NO_ZEROES));
        self.asking.greeted(fixed, no_zeroes);
        Ok(())
    }
}
