//! Options, and what is answered.

use std::sync::Arc;

use super::HangUp;
use super::contexts::{ContextQueries, QueryKind};
use crate::answer::context_id;
use crate::export::{BlockSizes, ExportList, NbdExport};
use crate::session::NbdSession;
use crate::wire::{
    OPTION_REPLY_MAGIC, PADDING_BYTES, PutNumbers, STRING_BYTES, WireFields, info, option, option_reply,
};

/// Bytes of an option's data that are kept; what is longer is answered as too big.
const DATA: u32 = 1 << 15;

/// Why an option is refused: the reply, and a text.
type OptionRefusal = (u32, &'static str);

/// Tells what follows an option.
pub(super) enum OptionOutcome {
    /// Another one.
    Next,
    /// The transmission.
    Start(NbdSession),
}

/// Keeps the results of the negotiation so far.
#[derive(Debug)]
pub(super) struct OptionNegotiation {
    exports: Arc<ExportList>,
    pub no_zeroes: bool,
    pub shutting_down: bool,
    structured: bool,
    /// Holds the export for which contexts were chosen, with a bit for each.
    contexts: Option<(usize, u32)>,
}

impl OptionNegotiation {
    /// Bytes of the longest name that is asked for with `EXPORT_NAME`.
    pub const LONGEST_NAME: u32 = STRING_BYTES as u32;

    pub const fn new(exports: Arc<ExportList>) -> Self {
        Self { exports, no_zeroes: false, shutting_down: false, structured: false, contexts: None }
    }

    /// Returns true if an option allows no answer but the start of the transmission.
    pub const fn ends_with(option: u32) -> bool {
        option == option::EXPORT_NAME
    }

    /// Returns true if the data of an option are kept and decoded.
    pub const fn keeps(option: u32, length: u32) -> bool {
        let known = matches!(
            option,
            option::EXPORT_NAME
                | option::LIST
                | option::INFO
                | option::GO
                | option::STRUCTURED_REPLY
                | option::LIST_META_CONTEXT
                | option::SET_META_CONTEXT
        );
        known && length <= DATA
    }

    /// Answers an option whose data were not looked at; says whether it ended the negotiation.
    pub fn answer_skipped(&mut self, option: u32, out: &mut Vec<u8>) -> bool {
        if option == option::ABORT {
            reply(out, option, option_reply::ACK, &[]);
            return true;
        }
        // Each attempt to choose contexts replaces the choice before it, also one that is refused.
        if option == option::SET_META_CONTEXT {
            self.contexts = None;
        }
        let (kind, text) = match option {
            _ if self.shutting_down => SHUTDOWN,
            option::STARTTLS => (option_reply::ERR_UNSUP, "this server does not speak TLS"),
            option::LIST | option::STRUCTURED_REPLY => NO_DATA,
            _ if Self::keeps(option, 0) => (option_reply::ERR_TOO_BIG, "an option has at most 32768 bytes"),
            _ => (option_reply::ERR_UNSUP, "the option is unknown"),
        };
        reply(out, option, kind, text.as_bytes());
        false
    }

    /// Answers an option.
    pub fn answer(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Result<OptionOutcome, HangUp> {
        if option == option::EXPORT_NAME {
            return self.start_by_name(data, out).map(OptionOutcome::Start);
        }
        let answered = match option {
            // The earlier choice is gone even if this one fails, as the protocol has it.
            option::SET_META_CONTEXT if self.shutting_down => {
                self.contexts = None;
                Err(SHUTDOWN)
            }
            _ if self.shutting_down => Err(SHUTDOWN),
            option::LIST => self.list(data, out).map(|()| None),
            option::STRUCTURED_REPLY if !data.is_empty() => Err(NO_DATA),
            option::STRUCTURED_REPLY => {
                self.structured = true;
                Ok(None)
            }
            option::LIST_META_CONTEXT => self.list_contexts(data, out).map(|()| None),
            option::SET_META_CONTEXT => self.set_contexts(data, out).map(|()| None),
            option::INFO => self.info(option, data, out).map(|_| None),
            // Nothing else is kept.
            _ => self.info(option, data, out).map(Some),
        };
        match answered {
            Ok(session) => {
                reply(out, option, option_reply::ACK, &[]);
                Ok(session.map_or(OptionOutcome::Next, OptionOutcome::Start))
            }
            Err((kind, text)) => {
                reply(out, option, kind, text.as_bytes());
                Ok(OptionOutcome::Next)
            }
        }
    }

    fn session(&self, number: usize) -> NbdSession {
        // A choice holds for the export that it named and for no other.
        let contexts = self.contexts.filter(|(of, _)| *of == number).map_or(0, |(_, chosen)| chosen);
        NbdSession::new(number, &self.exports.all()[number], self.structured, contexts)
    }

    fn start_by_name(&self, name: &[u8], out: &mut Vec<u8>) -> Result<NbdSession, HangUp> {
        if self.shutting_down {
            return Err(HangUp::Shutdown);
        }
        let found = self.exports.find(name);
        let number = found.ok_or_else(|| HangUp::UnknownExport(String::from_utf8_lossy(name).into_owned()))?;
        let export = &self.exports.all()[number];
        if export.insists_on_blocks {
            return Err(HangUp::BlockSizes(export.name.clone()));
        }
        out.put64(export.size);
        out.put16(export.features.flags(self.structured));
        // Kept for clients that predate the flag NO_ZEROES.
        if !self.no_zeroes {
            out.extend_from_slice(&[0; PADDING_BYTES]);
        }
        Ok(self.session(number))
    }

    fn list(&self, data: &[u8], out: &mut Vec<u8>) -> Result<(), OptionRefusal> {
        if !data.is_empty() {
            return Err(NO_DATA);
        }
        for export in self.exports.all() {
            let (name, description) = (export.name.as_bytes(), export.description.as_bytes());
            reply_head(out, option::LIST, option_reply::SERVER, 4 + name.len() + description.len());
            out.put_string(name);
            out.extend_from_slice(description);
        }
        Ok(())
    }

    /// INFO and GO, which are answered alike.
    fn info(&self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Result<NbdSession, OptionRefusal> {
        let (name, wanted) = wanted_info(data)?;
        let number = self.exports.find(name).ok_or(UNKNOWN)?;
        let export = &self.exports.all()[number];
        let wants = |kind: u16| wanted.chunks_exact(2).any(|two| two == kind.to_be_bytes());
        let insists = export.insists_on_blocks && !wants(info::BLOCK_SIZE);
        // A client that does not ask would assume the defaults, so other sizes are sent to all.
        if wants(info::BLOCK_SIZE) || export.blocks != BlockSizes::default() {
            put_blocks(out, option, export);
        }
        if insists {
            return Err((option_reply::ERR_BLOCK_SIZE_REQD, "the export is for clients that ask for its block sizes"));
        }
        reply_head(out, option, option_reply::INFO, 12);
        out.put16(info::EXPORT);
        out.put64(export.size);
        out.put16(export.features.flags(self.structured));
        for (kind, text) in [(info::NAME, &export.name), (info::DESCRIPTION, &export.description)] {
            if wants(kind) {
                reply_head(out, option, option_reply::INFO, 2 + text.len());
                out.put16(kind);
                out.extend_from_slice(text.as_bytes());
            }
        }
        Ok(self.session(number))
    }

    /// The export of a query for contexts, and the queries.
    fn queries<'a>(&self, data: &'a [u8]) -> Result<(usize, ContextQueries<'a>), OptionRefusal> {
        // A status reply has no simple form.
        if !self.structured {
            return Err((option_reply::ERR_INVALID, "contexts need structured replies, to be asked for first"));
        }
        let (name, queries) = ContextQueries::parse(data).map_err(|text| (option_reply::ERR_INVALID, text))?;
        Ok((self.exports.find(name).ok_or(UNKNOWN)?, queries))
    }

    fn list_contexts(&self, data: &[u8], out: &mut Vec<u8>) -> Result<(), OptionRefusal> {
        let (number, queries) = self.queries(data)?;
        for (_, name) in queries.matching(&self.exports.all()[number].contexts, QueryKind::List) {
            // The number has no meaning in this answer: only a choice gives numbers.
            put_context(out, option::LIST_META_CONTEXT, 0, name);
        }
        Ok(())
    }

    fn set_contexts(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), OptionRefusal> {
        self.contexts = None;
        let (number, queries) = self.queries(data)?;
        let mut chosen = 0;
        for (at, name) in queries.matching(&self.exports.all()[number].contexts, QueryKind::Set) {
            chosen |= 1 << at;
            put_context(out, option::SET_META_CONTEXT, context_id(at), name);
        }
        self.contexts = Some((number, chosen));
        Ok(())
    }
}

const SHUTDOWN: OptionRefusal = (option_reply::ERR_SHUTDOWN, "the server is being shut down");
const UNKNOWN: OptionRefusal = (option_reply::ERR_UNKNOWN, "there is no export of this name");
const NO_DATA: OptionRefusal = (option_reply::ERR_INVALID, "the option has no data");
const BAD_INFO: OptionRefusal = (
    option_reply::ERR_INVALID,
    "the data are the length of a name, the name, a number, and so many kinds of information",
);

/// The name in the data of INFO or GO, and what is wanted, two bytes each.
fn wanted_info(data: &[u8]) -> Result<(&[u8], &[u8]), OptionRefusal> {
    let mut fields = WireFields(data);
    let name = fields.string().ok_or(BAD_INFO)?;
    let count = fields.u16().ok_or(BAD_INFO)?;
    if name.len() > STRING_BYTES || fields.0.len() != usize::from(count) * 2 {
        return Err(BAD_INFO);
    }
    Ok((name, fields.0))
}

fn put_blocks(out: &mut Vec<u8>, option: u32, export: &NbdExport) {
    reply_head(out, option, option_reply::INFO, 14);
    out.put16(info::BLOCK_SIZE);
    out.put32(export.blocks.minimum);
    out.put32(export.blocks.preferred);
    out.put32(export.blocks.maximum);
}

fn put_context(out: &mut Vec<u8>, option: u32, id: u32, name: &str) {
    reply_head(out, option, option_reply::META_CONTEXT, 4 + name.len());
    out.put32(id);
    out.extend_from_slice(name.as_bytes());
}

fn reply_head(out: &mut Vec<u8>, option: u32, kind: u32, length: usize) {
    out.put64(OPTION_REPLY_MAGIC);
    out.put32(option);
    out.put32(kind);
    out.put32(length as u32);
}

fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    reply_head(out, option, kind, data.len());
    out.extend_from_slice(data);
}
