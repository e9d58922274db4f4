//! Chunks of structured replies, part by part.

use super::pending::{InFlightRequests, chunk_fields};
use super::{ClientEvent, ServerViolation};
use crate::errno::Errno;
use crate::gather::MessageGather;
use crate::request::{NbdCommand, NbdRequest};
use crate::wire::{EXTENTS, STRING_BYTES, WireFields, chunk};

/// Bytes of the longest error chunk that is read.
const ERROR: u32 = 1 << 14;

/// A chunk, whose head has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyChunk {
    pub slot: usize,
    pub last: bool,
    kind: u16,
}

/// Names the part of a chunk that comes next.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChunkPart {
    /// Expects the offset of so many bytes of data.
    Offset(u32),
    /// Expects the offset and the length of a hole.
    Hole,
    /// Of which context its extents are; so many.
    Context(u32),
    /// The next extent of the context of this number and place; so many are to come.
    Extent { context: u32, place: usize, left: u32 },
    /// An error, in so many bytes.
    Error(u32),
}

impl InFlightRequests {
    /// Decodes the head of a chunk; returns the chunk and the part that comes next.
    ///
    /// # Errors
    /// If no such request is in flight, or the chunk does not fit the request.
    pub(super) fn chunk(&self, bytes: &[u8; 16]) -> Result<(ReplyChunk, Option<ChunkPart>), ServerViolation> {
        let (flags, kind, cookie, length) = chunk_fields(bytes);
        let (slot, request) = self.find(cookie)?;
        let wrong = |what| Err(ServerViolation::Reply { request, what });
        let last = flags & chunk::DONE != 0;
        let is_read = matches!(request.command, NbdCommand::Read { .. });
        let is_status = matches!(request.command, NbdCommand::BlockStatus { .. });
        let part = match kind {
            chunk::NONE if length > 0 => return wrong("an empty chunk is not empty"),
            // An empty chunk that is not the last says nothing: a server could send them for ever.
            chunk::NONE if !last => return wrong("an empty chunk is not the last one"),
            chunk::NONE => None,
            chunk::OFFSET_DATA if !is_read => return wrong("bytes, but it is no read"),
            // The protocol forbids pieces of no bytes, for the same reason.
            chunk::OFFSET_DATA if length < 9 => return wrong("a piece without bytes"),
            chunk::OFFSET_DATA => Some(ChunkPart::Offset(length - 8)),
            chunk::OFFSET_HOLE if !is_read => return wrong("a hole, but it is no read"),
            chunk::OFFSET_HOLE if length != 12 => return wrong("a hole whose chunk does not have 12 bytes"),
            chunk::OFFSET_HOLE => Some(ChunkPart::Hole),
            chunk::BLOCK_STATUS if !is_status => return wrong("extents, but it is no block status"),
            chunk::BLOCK_STATUS if length < 12 || length % 8 != 4 => {
                return wrong("extents that are not 8 bytes each after 4 for their context");
            }
            // The limit bounds the memory and time that one reply may take.
            chunk::BLOCK_STATUS if length / 8 > EXTENTS => return wrong("more than 2^20 extents"),
            chunk::BLOCK_STATUS => Some(ChunkPart::Context(length / 8)),
            // An unknown chunk may carry data of the reply, so it cannot be skipped; an unknown error is still an
            // error.
            _ if kind & chunk::ERROR_BIT == 0 => return wrong("a chunk of a type that is unknown"),
            _ if length < 6 => return wrong("an error of less than 6 bytes"),
            _ if length > ERROR => return wrong("an error of more than 16384 bytes"),
            _ => Some(ChunkPart::Error(length)),
        };
        Ok((ReplyChunk { slot, last, kind }, part))
    }

    /// Takes a part of a chunk, if it has come: what it says, if that is an event, and what part is
    /// next.
    #[expect(clippy::type_complexity, reason = "what it is is said above")]
    pub(super) fn part(
        &mut self,
        chunk: ReplyChunk,
        part: ChunkPart,
        contexts: &[(u32, String)],
        gather: &mut MessageGather,
        input: &mut &[u8],
    ) -> Result<Option<(Option<ClientEvent>, Option<ChunkPart>)>, ServerViolation> {
        let Some((slot, request)) = self.slot(chunk.slot) else {
            return Err(ServerViolation::Cookie(chunk.slot as u64));
        };
        let wrong = |what| ServerViolation::Reply { request, what };
        let cookie = request.cookie;
        Ok(Some(match part {
            ChunkPart::Offset(length) => {
                let Some(bytes) = gather.fixed(input) else { return Ok(None) };
                let offset = u64::from_be_bytes(bytes);
                slot.cover(&request, offset, u64::from(length)).map_err(wrong)?;
                (Some(ClientEvent::Data { cookie, offset, length }), None)
            }
            ChunkPart::Hole => {
                let Some(bytes) = gather.fixed::<12>(input) else { return Ok(None) };
                let mut fields = WireFields(&bytes);
                let (offset, length) = (fields.u64().unwrap_or_default(), fields.u32().unwrap_or_default());
                slot.cover(&request, offset, u64::from(length)).map_err(wrong)?;
                (Some(ClientEvent::Hole { cookie, offset, length }), None)
            }
            ChunkPart::Context(extents) => {
                let Some(bytes) = gather.fixed(input) else { return Ok(None) };
                let context = u32::from_be_bytes(bytes);
                let place = contexts.iter().position(|known| known.0 == context);
                let place = place.ok_or_else(|| wrong("a context that was not chosen"))?;
                // A context that is told twice would leave open which answer holds.
                if slot.contexts >> place & 1 == 1 {
                    return Err(wrong("a context that was told before"));
                }
                if extents > 1 && request.command == (NbdCommand::BlockStatus { one: true }) {
                    return Err(wrong("several extents, although one was asked for"));
                }
                slot.contexts |= 1 << place;
                slot.told = 0;
                (None, Some(ChunkPart::Extent { context, place, left: extents }))
            }
            ChunkPart::Extent { context, place, left } => {
                let Some(bytes) = gather.fixed::<8>(input) else { return Ok(None) };
                let mut fields = WireFields(&bytes);
                let (length, flags) = (fields.u32().unwrap_or_default(), fields.u32().unwrap_or_default());
                let one = request.command == (NbdCommand::BlockStatus { one: true });
                // The last extent may reach beyond the request, though not where one extent was asked for. None may
                // begin there.
                if length == 0 || slot.told >= u64::from(request.length) || one && length > request.length {
                    return Err(wrong("an extent that is empty or beyond what was asked for"));
                }
                slot.told += u64::from(length);
                let next = (left > 1).then_some(ChunkPart::Extent { context, place, left: left - 1 });
                (Some(ClientEvent::Extent { cookie, context, length, flags }), next)
            }
            ChunkPart::Error(length) => {
                let Some(bytes) = gather.variable(length as usize, input) else { return Ok(None) };
                let (errno, at, text) = error(&bytes, chunk.kind, &request).map_err(wrong)?;
                // The first error decides, as the reply goes on after it.
                slot.error.get_or_insert(errno);
                (Some(ClientEvent::Failed { cookie, errno, at, text }), None)
            }
        }))
    }
}

/// Decodes an error chunk: the error, the byte at which it occurred, and a text.
///
/// # Errors
/// If the payload is shorter or longer than its parts, or the error is 0.
fn error(bytes: &[u8], kind: u16, request: &NbdRequest) -> Result<(Errno, Option<u64>, String), &'static str> {
    const SHORT: &str = "an error that is shorter than its parts";
    let mut fields = WireFields(bytes);
    let number = fields.u32().ok_or(SHORT)?;
    let length = usize::from(fields.u16().ok_or(SHORT)?);
    if length > STRING_BYTES {
        return Err("an error whose text is longer than 4096 bytes");
    }
    let text = fields.bytes(length).ok_or("an error whose text is longer than itself")?;
    if number == 0 {
        return Err("an error that is none");
    }
    let at = match kind {
        chunk::ERROR if !fields.is_empty() => return Err("an error with more than its parts"),
        chunk::ERROR_OFFSET => {
            let at = fields.u64().filter(|_| fields.is_empty()).ok_or("an error without an offset")?;
            if !(request.offset..request.end()).contains(&at) {
                return Err("an error where nothing was asked for");
            }
            Some(at)
        }
        // Error types that are unknown are errors all the same: their high bit says so.
        _ => None,
    };
    Ok((Errno::of(number), at, String::from_utf8_lossy(text).into_owned()))
}
