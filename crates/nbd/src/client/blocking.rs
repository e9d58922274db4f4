//! A client over anything that can be read and written, one request after the other.

use std::io::{self, Read, Write};

use thiserror::Error;

use super::{ClientEvent, ClientMisuse, ExportDescription, NbdClient, OptionAnswer, OptionRequest, ServerViolation};
use crate::errno::Errno;
use crate::request::NbdCommand;
use crate::status::StatusExtent;
use crate::wire::{info, option_reply};

/// Bytes that are read at a time.
const INPUT: usize = 1 << 16;

/// Why something did not succeed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server broke a rule.
    #[error(transparent)]
    Violation(#[from] ServerViolation),
    /// Tells that the request cannot be made on this connection.
    #[error(transparent)]
    Misuse(#[from] ClientMisuse),
    /// The server refuses an option.
    #[error("the server refuses it with {kind:#x}: {text}")]
    Refused {
        /// With which reply.
        kind: u32,
        /// Why.
        text: String,
    },
    /// A request failed.
    #[error("{errno}: {text}")]
    Failed {
        /// With which error.
        errno: Errno,
        /// Why, if the server said that.
        text: String,
    },
}

/// Describes the wishes of a client before the transmission.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportRequest<'a> {
    /// The name of the export; none means the default.
    pub export: &'a str,
    /// Structured replies, if the server has them.
    pub structured: bool,
    /// Contexts of block status, for which replies have to be structured.
    pub contexts: &'a [&'a str],
}

/// A connection to a server.
#[derive(Debug)]
pub struct BlockingConnection<S> {
    stream: S,
    client: NbdClient,
    input: Vec<u8>,
    used: usize,
}

impl<S: Read + Write> BlockingConnection<S> {
    /// Says hello; options can be asked for.
    pub fn greet(stream: S) -> Result<Self, ClientError> {
        let mut connection = Self { stream, client: NbdClient::new(1), input: Vec::with_capacity(INPUT), used: 0 };
        connection.event()?;
        connection.send()?;
        Ok(connection)
    }

    /// Says hello and begins the transmission.
    pub fn begin(stream: S, wanted: &ExportRequest<'_>) -> Result<Self, ClientError> {
        let mut connection = Self::greet(stream)?;
        if wanted.structured {
            match connection.ask(&OptionRequest::StructuredReply) {
                // A server without structured replies still serves, so a refusal is no error.
                Ok(_) | Err(ClientError::Refused { .. } | ClientError::Misuse(ClientMisuse::TooOld)) => {}
                Err(error) => return Err(error),
            }
        }
        if !wanted.contexts.is_empty() {
            connection.ask(&OptionRequest::SetContexts(wanted.export, wanted.contexts))?;
        }
        // Older servers know no options but the name of the export.
        match connection.ask(&OptionRequest::Go(wanted.export, &[info::BLOCK_SIZE])) {
            Err(
                ClientError::Refused { kind: option_reply::ERR_UNSUP, .. } | ClientError::Misuse(ClientMisuse::TooOld),
            ) => {
                connection.ask(&OptionRequest::ExportName(wanted.export))?;
            }
            result => drop(result?),
        }
        Ok(connection)
    }

    /// Asks for an option; nothing is answered where the transmission begins.
    pub fn ask(&mut self, option: &OptionRequest<'_>) -> Result<Option<OptionAnswer>, ClientError> {
        self.client.ask(option)?;
        self.send()?;
        match self.event()? {
            ClientEvent::Answer(OptionAnswer::Refused { kind, text }) => Err(ClientError::Refused { kind, text }),
            ClientEvent::Answer(answer) => Ok(Some(answer)),
            _ => Ok(None),
        }
    }

    /// The client, for what was agreed on.
    pub const fn client(&self) -> &NbdClient {
        &self.client
    }

    /// The export that is used.
    pub const fn export(&self) -> Option<&ExportDescription> {
        self.client.export()
    }

    /// The stream, to look at it.
    pub const fn stream(&self) -> &S {
        &self.stream
    }

    fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(self.client.output())?;
        let len = self.client.output().len();
        self.client.sent(len);
        self.stream.flush()
    }

    /// The next event but that more is needed.
    fn event(&mut self) -> Result<ClientEvent, ClientError> {
        loop {
            let mut input = &self.input[self.used..];
            let before = input.len();
            let event = self.client.receive(&mut input);
            self.used += before - input.len();
            match event? {
                ClientEvent::More => {
                    self.input.resize(INPUT, 0);
                    self.used = 0;
                    let read = self.stream.read(&mut self.input);
                    self.input.truncate(*read.as_ref().unwrap_or(&0));
                    match read {
                        Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                        Ok(_) => {}
                        // A stream with a time-out reports it as an error: the caller set it to be told.
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                event => return Ok(event),
            }
        }
    }

    /// The payload that comes now.
    fn payload(&mut self, into: &mut [u8]) -> Result<(), ClientError> {
        let mut input = &self.input[self.used..];
        let before = input.len();
        let taken = self.client.take_payload(&mut input, into);
        self.used += before - input.len();
        // Bytes that have not been received yet are read into their place without a copy.
        self.stream.read_exact(&mut into[taken..])?;
        self.client.payload_read((into.len() - taken) as u32);
        Ok(())
    }

    /// Makes a request and waits for the end of its reply.
    fn call(
        &mut self,
        (command, fua, offset, length): (NbdCommand, bool, u64, u32),
        payload: &[u8],
        into: &mut [u8],
        extents: &mut dyn FnMut(u32, StatusExtent),
    ) -> Result<(), ClientError> {
        let (_, head) = self.client.request(command, fua, offset, length)?;
        self.stream.write_all(&head)?;
        self.stream.write_all(payload)?;
        self.stream.flush()?;
        let mut why = String::new();
        loop {
            // The client has checked that a piece lies inside the request.
            let range = |at: u64, length: u32| (at - offset) as usize..(at - offset) as usize + length as usize;
            match self.event()? {
                ClientEvent::Data { offset, length, .. } => self.payload(&mut into[range(offset, length)])?,
                ClientEvent::Hole { offset, length, .. } => into[range(offset, length)].fill(0),
                ClientEvent::Extent { context, length, flags, .. } => {
                    extents(context, StatusExtent { length: u64::from(length), flags });
                }
                ClientEvent::Failed { text, .. } => why = text,
                ClientEvent::Done { result: Ok(()), .. } => return Ok(()),
                ClientEvent::Done { result: Err(errno), .. } => return Err(ClientError::Failed { errno, text: why }),
                // Any other event cannot come during the transmission.
                _ => return Err(ClientMisuse::NotNow.into()),
            }
        }
    }

    /// Fills a buffer with what is at `offset`.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), ClientError> {
        let what = (NbdCommand::Read { whole: false }, false, offset, into.len() as u32);
        self.call(what, &[], into, &mut |_, _| {})
    }

    /// Writes these bytes.
    pub fn write(&mut self, offset: u64, bytes: &[u8], fua: bool) -> Result<(), ClientError> {
        self.call((NbdCommand::Write, fua, offset, bytes.len() as u32), bytes, &mut [], &mut |_, _| {})
    }

    /// Makes a request that has neither a payload nor an answer but how it ended.
    pub fn tell(&mut self, command: NbdCommand, fua: bool, offset: u64, length: u32) -> Result<(), ClientError> {
        let plain = !matches!(command, NbdCommand::Read { .. } | NbdCommand::Write | NbdCommand::BlockStatus { .. });
        if !plain {
            return Err(ClientMisuse::NotNow.into());
        }
        self.call((command, fua, offset, length), &[], &mut [], &mut |_, _| {})
    }

    /// Waits until everything written is durable.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.tell(NbdCommand::Flush, false, 0, 0)
    }

    /// Returns the status of these bytes in the chosen contexts: the server's number of a context with each extent.
    pub fn status(&mut self, offset: u64, length: u32, one: bool) -> Result<Vec<(u32, StatusExtent)>, ClientError> {
        let mut all = Vec::new();
        let what = (NbdCommand::BlockStatus { one }, false, offset, length);
        self.call(what, &[], &mut [], &mut |context, extent| all.push((context, extent)))?;
        Ok(all)
    }

    /// Ends the transmission.
    pub fn goodbye(mut self) -> Result<S, ClientError> {
        self.stream.write_all(&NbdClient::goodbye())?;
        self.stream.flush()?;
        Ok(self.stream)
    }

    /// The stream, without a goodbye. What was received of an answer that nobody waited for is lost.
    pub fn into_stream(self) -> S {
        self.stream
    }
}
