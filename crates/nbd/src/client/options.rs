//! Options, as a client asks for them, and the answers.

use super::{ClientMisuse, ServerViolation};
use crate::export::{BlockSizes, CONTEXTS, ExportFeatures};
use crate::gather::{MessageGather, skip};
use crate::session::NbdSession;
use crate::wire::{
    OPTION_MAGIC, OPTION_REPLY_MAGIC, PADDING_BYTES, PutNumbers, STRING_BYTES, WireFields, info, option, option_reply,
};

/// Bytes of the longest reply that is read.
const REPLY: u32 = 1 << 14;
/// Bytes that all replies to an option may have.
const REPLIES: usize = 1 << 20;

/// Lists the options that a client can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionRequest<'a> {
    /// To begin the transmission of the export of this name, without an answer that says more.
    ExportName(&'a str),
    /// To end the connection.
    Abort,
    /// Asks for a list of the exports.
    List,
    /// To speak TLS from now on.
    StartTls,
    /// About an export: the kinds of [`info`] that are wanted.
    Info(&'a str, &'a [u16]),
    /// The same, and to begin its transmission.
    Go(&'a str, &'a [u16]),
    /// Asks for structured replies.
    StructuredReply,
    /// Asks which contexts of an export match these queries.
    ListContexts(&'a str, &'a [&'a str]),
    /// To choose the contexts of an export that are named.
    SetContexts(&'a str, &'a [&'a str]),
    /// Anything else.
    Other(u32, &'a [u8]),
}

impl OptionRequest<'_> {
    const fn number(&self) -> u32 {
        match self {
            Self::ExportName(_) => option::EXPORT_NAME,
            Self::Abort => option::ABORT,
            Self::List => option::LIST,
            Self::StartTls => option::STARTTLS,
            Self::Info(..) => option::INFO,
            Self::Go(..) => option::GO,
            Self::StructuredReply => option::STRUCTURED_REPLY,
            Self::ListContexts(..) => option::LIST_META_CONTEXT,
            Self::SetContexts(..) => option::SET_META_CONTEXT,
            Self::Other(number, _) => *number,
        }
    }

    fn put_data(&self, out: &mut Vec<u8>) {
        match *self {
            Self::ExportName(name) => out.extend_from_slice(name.as_bytes()),
            Self::Abort | Self::List | Self::StartTls | Self::StructuredReply => {}
            Self::Info(name, kinds) | Self::Go(name, kinds) => {
                out.put_string(name.as_bytes());
                out.put16(kinds.len() as u16);
                for kind in kinds {
                    out.put16(*kind);
                }
            }
            Self::ListContexts(name, queries) | Self::SetContexts(name, queries) => {
                out.put_string(name.as_bytes());
                out.put32(queries.len() as u32);
                for query in queries {
                    out.put_string(query.as_bytes());
                }
            }
            Self::Other(_, data) => out.extend_from_slice(data),
        }
    }
}

/// Describes an export as the server does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportDescription {
    /// Counts the bytes.
    pub size: u64,
    /// Holds the transmission flags; [`ExportFeatures::of_flags`] decodes the known ones.
    pub flags: u16,
    /// In which sizes it is read and written, if the server has said that.
    pub blocks: Option<BlockSizes>,
    /// Holds the name, if it was asked for.
    pub name: Option<String>,
    /// Holds the description for people, if it was asked for.
    pub description: Option<String>,
}

/// The answer to an option that does not begin the transmission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionAnswer {
    /// Tells that the server agrees.
    Done,
    /// Exports: name and description of each.
    Exports(Vec<(String, String)>),
    /// About an export.
    Export(ExportDescription),
    /// Contexts, with the server's number of each.
    Contexts(Vec<(u32, String)>),
    /// Tells that the server refuses.
    Refused {
        /// With which reply.
        kind: u32,
        /// Why, for people.
        text: String,
    },
}

/// Lists the results of receiving a part of an answer.
pub(super) enum AnswerEvent {
    More,
    Answer(OptionAnswer),
    Started(NbdSession),
}

/// Names the part of an answer that comes next.
#[derive(Clone, Copy, Debug, Default)]
enum AnswerPosition {
    /// Nothing was asked.
    #[default]
    Idle,
    /// Before a reply.
    Head,
    /// In the data of one.
    Data { kind: u32, length: u32 },
    /// In the answer to the name of an export.
    ExportName,
    /// In the zeroes after that.
    Padding(u32),
}

/// Keeps the option that is being asked for, and the results of earlier ones.
#[derive(Debug, Default)]
pub(super) struct OptionExchange {
    at: AnswerPosition,
    option: u32,
    fixed: bool,
    no_zeroes: bool,
    structured: bool,
    /// The contexts that are chosen.
    contexts: Vec<(u32, String)>,
    /// Of the answer so far.
    described: ExportDescription,
    has_size: bool,
    exports: Vec<(String, String)>,
    listed: Vec<(u32, String)>,
    bytes: usize,
}

impl OptionExchange {
    pub const fn greeted(&mut self, fixed: bool, no_zeroes: bool) {
        self.fixed = fixed;
        self.no_zeroes = no_zeroes;
    }

    pub const fn is_waiting(&self) -> bool {
        !matches!(self.at, AnswerPosition::Idle)
    }

    pub const fn described(&self) -> &ExportDescription {
        &self.described
    }

    pub fn contexts(&self) -> &[(u32, String)] {
        &self.contexts
    }

    pub const fn held(&self) -> usize {
        self.bytes
    }

    pub fn ask(&mut self, ask: &OptionRequest<'_>, out: &mut Vec<u8>) -> Result<(), ClientMisuse> {
        let number = ask.number();
        // A server without the fixed newstyle closes the connection at an unknown option.
        if !self.fixed && number != option::EXPORT_NAME {
            return Err(ClientMisuse::TooOld);
        }
        out.put64(OPTION_MAGIC);
        out.put32(number);
        let start = out.len();
        out.put32(0);
        ask.put_data(out);
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        self.option = number;
        self.at = if number == option::EXPORT_NAME { AnswerPosition::ExportName } else { AnswerPosition::Head };
        // Nothing of an earlier answer may pass for a part of the next one.
        (self.described, self.has_size, self.bytes) = (ExportDescription::default(), false, 0);
        self.exports.clear();
        self.listed.clear();
        Ok(())
    }

    const fn wrong(&self, what: &'static str) -> ServerViolation {
        ServerViolation::Answer { option: self.option, what }
    }

    fn session(&self) -> NbdSession {
        NbdSession {
            export: 0,
            size: self.described.size,
            features: ExportFeatures::of_flags(self.described.flags),
            blocks: self.described.blocks.unwrap_or_default(),
            structured: self.structured,
            // A shift by all 32 bits would overflow, so no contexts are a case of its own.
            contexts: u32::MAX.checked_shr(32 - self.contexts.len() as u32).unwrap_or(0),
        }
    }

    /// Takes what has come of the answer.
    pub fn receive(&mut self, gather: &mut MessageGather, input: &mut &[u8]) -> Result<AnswerEvent, ServerViolation> {
        loop {
            match self.at {
                AnswerPosition::Idle if input.is_empty() => return Ok(AnswerEvent::More),
                // A server that talks unasked is out of step with the options, and no later answer could be
                // matched.
                AnswerPosition::Idle => return Err(ServerViolation::Unasked),
                AnswerPosition::Head => {
                    let Some(bytes) = gather.fixed::<20>(input) else { return Ok(AnswerEvent::More) };
                    let (kind, length) = self.reply_head(&bytes)?;
                    self.at = AnswerPosition::Data { kind, length };
                }
                AnswerPosition::Data { kind, length } => {
                    let Some(data) = gather.variable(length as usize, input) else { return Ok(AnswerEvent::More) };
                    self.at = AnswerPosition::Head;
                    if let Some(heard) = self.reply(kind, &data)? {
                        self.at = AnswerPosition::Idle;
                        return Ok(heard);
                    }
                }
                AnswerPosition::ExportName => {
                    let Some(bytes) = gather.fixed::<10>(input) else { return Ok(AnswerEvent::More) };
                    let mut fields = WireFields(&bytes);
                    self.described.size = fields.u64().unwrap_or_default();
                    self.described.flags = fields.u16().unwrap_or_default();
                    self.at = AnswerPosition::Padding(if self.no_zeroes { 0 } else { PADDING_BYTES as u32 });
                }
                AnswerPosition::Padding(ref mut left) => {
                    if !skip(left, input) {
                        return Ok(AnswerEvent::More);
                    }
                    self.at = AnswerPosition::Idle;
                    return Ok(AnswerEvent::Started(self.session()));
                }
            }
        }
    }

    fn reply_head(&mut self, bytes: &[u8; 20]) -> Result<(u32, u32), ServerViolation> {
        let mut fields = WireFields(bytes);
        let (magic, option) = (fields.u64().unwrap_or_default(), fields.u32().unwrap_or_default());
        let (kind, length) = (fields.u32().unwrap_or_default(), fields.u32().unwrap_or_default());
        if magic != OPTION_REPLY_MAGIC {
            return Err(self.wrong("it begins with another number than answers do"));
        }
        if option != self.option {
            return Err(self.wrong("it is one to another option"));
        }
        // A reply without text takes memory as well, so each counts at least 64 bytes.
        let bytes = self.bytes + length as usize + 64;
        if length > REPLY || bytes > REPLIES {
            return Err(self.wrong("it is longer than any that would be read"));
        }
        self.bytes = bytes;
        Ok((kind, length))
    }

    /// Takes a reply; gives what all of them said if it is the last.
    fn reply(&mut self, kind: u32, data: &[u8]) -> Result<Option<AnswerEvent>, ServerViolation> {
        if kind & option_reply::ERROR != 0 {
            // The protocol says that a failed choice leaves no context chosen.
            if self.option == option::SET_META_CONTEXT {
                self.contexts.clear();
            }
            // A text that is too long or no UTF-8 must not turn a refusal into a violation.
            let text = String::from_utf8_lossy(&data[..data.len().min(STRING_BYTES)]).into_owned();
            return Ok(Some(AnswerEvent::Answer(OptionAnswer::Refused { kind, text })));
        }
        match (kind, self.option) {
            (option_reply::ACK, _) if !data.is_empty() => return Err(self.wrong("it ends with data")),
            (option_reply::ACK, _) => return self.acknowledged().map(Some),
            (option_reply::SERVER, option::LIST) => {
                let mut fields = WireFields(data);
                let name = fields.string().ok_or_else(|| self.wrong("the name of an export is cut off"))?;
                self.exports.push((self.text(name)?, self.text(fields.0)?));
            }
            (option_reply::INFO, option::INFO | option::GO) => self.info(data)?,
            (option_reply::META_CONTEXT, option::LIST_META_CONTEXT | option::SET_META_CONTEXT) => {
                let mut fields = WireFields(data);
                let id = fields.u32().ok_or_else(|| self.wrong("a context without a number"))?;
                self.listed.push((id, self.text(fields.0)?));
            }
            _ => return Err(self.wrong("it is of a type that does not belong there")),
        }
        Ok(None)
    }

    fn text(&self, bytes: &[u8]) -> Result<String, ServerViolation> {
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= STRING_BYTES);
        text.map(str::to_owned).ok_or_else(|| self.wrong("a text is not UTF-8 of at most 4096 bytes"))
    }

    fn info(&mut self, data: &[u8]) -> Result<(), ServerViolation> {
        let mut fields = WireFields(data);
        let kind = fields.u16().ok_or_else(|| self.wrong("information of no kind"))?;
        let length = fields.0.len();
        let fine = match kind {
            info::EXPORT => length == 10,
            info::BLOCK_SIZE => length == 12,
            _ => true,
        };
        if !fine {
            return Err(self.wrong("information of another length than its kind has"));
        }
        match kind {
            info::EXPORT => {
                self.described.size = fields.u64().unwrap_or_default();
                self.described.flags = fields.u16().unwrap_or_default();
                self.has_size = true;
            }
            info::BLOCK_SIZE => {
                let mut next = || fields.u32().unwrap_or_default();
                let blocks = BlockSizes { minimum: next(), preferred: next(), maximum: next() };
                if !blocks.are_valid() {
                    return Err(self.wrong("block sizes that the protocol forbids"));
                }
                self.described.blocks = Some(blocks);
            }
            info::NAME => self.described.name = Some(self.text(fields.0)?),
            info::DESCRIPTION => self.described.description = Some(self.text(fields.0)?),
            // The protocol asks clients to ignore kinds of information that they do not know.
            _ => {}
        }
        Ok(())
    }

    fn acknowledged(&mut self) -> Result<AnswerEvent, ServerViolation> {
        let answer = match self.option {
            option::LIST => OptionAnswer::Exports(std::mem::take(&mut self.exports)),
            // The size is mandatory in the answer to INFO and GO.
            option::INFO | option::GO if !self.has_size => return Err(self.wrong("it does not say how large it is")),
            option::INFO => OptionAnswer::Export(self.described.clone()),
            option::GO => return Ok(AnswerEvent::Started(self.session())),
            option::LIST_META_CONTEXT => OptionAnswer::Contexts(std::mem::take(&mut self.listed)),
            option::SET_META_CONTEXT => {
                let chosen = std::mem::take(&mut self.listed);
                // Two contexts of one number could not be told apart in the replies.
                let twice = (1..chosen.len()).any(|at| chosen[..at].iter().any(|other| other.0 == chosen[at].0));
                if chosen.len() > CONTEXTS || twice {
                    return Err(self.wrong("more contexts than 32, or two of one number"));
                }
                self.contexts.clone_from(&chosen);
                OptionAnswer::Contexts(chosen)
            }
            option::STRUCTURED_REPLY => {
                self.structured = true;
                OptionAnswer::Done
            }
            _ => OptionAnswer::Done,
        };
        Ok(AnswerEvent::Answer(answer))
    }
}
