//! Requests that are under way, and what has come for each.

use super::ServerViolation;
use crate::errno::Errno;
use crate::request::{NbdCommand, NbdRequest};
use crate::wire::WireFields;

/// Pieces of a read, with gaps between them, that are kept apart at most.
const PIECES: usize = 1024;

/// A place for a request. It is used again and again, under another cookie each time.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestSlot {
    uses: u32,
    request: Option<NbdRequest>,
    pub error: Option<Errno>,
    /// Bytes of a read that have come: first and after the last, in order, with gaps between.
    covered: Vec<(u64, u64)>,
    /// Chunks with content.
    content: u32,
    /// A bit for each context that was told.
    pub contexts: u32,
    /// Bytes that the extents of the context being told have so far.
    pub told: u64,
}

/// All requests under way.
#[derive(Debug)]
pub(super) struct InFlightRequests {
    slots: Vec<RequestSlot>,
    free: Vec<usize>,
}

impl InFlightRequests {
    pub fn new(depth: usize) -> Self {
        Self { slots: vec![RequestSlot::default(); depth], free: (0..depth).rev().collect() }
    }

    pub fn held(&self) -> usize {
        self.slots.iter().map(|slot| slot.covered.capacity() * size_of::<(u64, u64)>()).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = &NbdRequest> {
        self.slots.iter().filter_map(|slot| slot.request.as_ref())
    }

    /// The cookie of a request that is on its way now, if there is room for one.
    pub fn add(&mut self, request: NbdRequest) -> Option<u64> {
        let at = self.free.pop()?;
        let slot = &mut self.slots[at];
        // A late reply to an earlier request of the slot then has another cookie, and is found out.
        slot.uses = slot.uses.wrapping_add(1);
        slot.covered.clear();
        (slot.error, slot.content, slot.contexts, slot.told) = (None, 0, 0, 0);
        let cookie = u64::from(slot.uses) << 32 | at as u64;
        slot.request = Some(NbdRequest { cookie, ..request });
        Some(cookie)
    }

    /// The slot of a cookie, with what was asked for.
    pub fn find(&self, cookie: u64) -> Result<(usize, NbdRequest), ServerViolation> {
        let at = (cookie & u64::from(u32::MAX)) as usize;
        let found = self.slots.get(at).and_then(|slot| slot.request).filter(|request| request.cookie == cookie);
        found.map(|request| (at, request)).ok_or(ServerViolation::Cookie(cookie))
    }

    /// A slot that is known to be in use, with its request.
    pub fn slot(&mut self, at: usize) -> Option<(&mut RequestSlot, NbdRequest)> {
        let slot = self.slots.get_mut(at)?;
        let request = slot.request?;
        Some((slot, request))
    }

    /// A simple reply has come: to what, and whether it may be simple.
    pub fn simple(
        &mut self,
        cookie: u64,
        error: u32,
        structured: bool,
    ) -> Result<(usize, NbdRequest), ServerViolation> {
        let (at, request) = self.find(cookie)?;
        let wrong = |what| Err(ServerViolation::Reply { request, what });
        let slot = &mut self.slots[at];
        match request.command {
            // The protocol forbids simple replies to reads once replies are structured.
            NbdCommand::Read { .. } if structured => return wrong("it is simple, although replies are structured"),
            NbdCommand::BlockStatus { .. } if error == 0 => return wrong("it is simple, and says nothing"),
            _ if slot.content > 0 || slot.contexts > 0 || slot.error.is_some() => {
                return wrong("it is simple after it had begun in chunks");
            }
            _ => {}
        }
        if error != 0 {
            slot.error = Some(Errno::of(error));
        } else if matches!(request.command, NbdCommand::Read { .. }) {
            slot.covered.push((request.offset, request.end()));
        }
        Ok((at, request))
    }

    /// The reply to what is in a slot is complete: how it ended, if it may end like that.
    pub fn end(&mut self, at: usize, contexts: usize) -> Result<(u64, Result<(), Errno>), ServerViolation> {
        let Some((slot, request)) = self.slot(at) else { return Err(ServerViolation::Cookie(at as u64)) };
        let wrong = |what| Err(ServerViolation::Reply { request, what });
        let result = match (slot.error, request.command) {
            (Some(errno), _) => Err(errno),
            (None, NbdCommand::Read { .. })
                // A success with bytes missing would hand stale memory to the caller.
                if request.length > 0 && slot.covered != [(request.offset, request.end())] =>
            {
                return wrong("it ends, but not all bytes have come");
            }
            (None, NbdCommand::BlockStatus { .. }) if slot.contexts.count_ones() as usize != contexts => {
                return wrong("it ends, but not all contexts were told");
            }
            (None, _) => Ok(()),
        };
        slot.request = None;
        self.free.push(at);
        Ok((request.cookie, result))
    }
}

impl RequestSlot {
    /// So many bytes have come for the read `request`, if they may.
    pub fn cover(&mut self, request: &NbdRequest, offset: u64, length: u64) -> Result<(), &'static str> {
        let end = offset.checked_add(length).ok_or("bytes beyond the end of everything")?;
        if length == 0 {
            return Err("a piece without bytes");
        }
        if offset < request.offset || end > request.end() {
            return Err("bytes that were not asked for");
        }
        // DF asks for one piece; a second one breaks the promise that the owner relies on.
        if self.content > 0 && request.command == (NbdCommand::Read { whole: true }) {
            return Err("a second piece, although one was asked for");
        }
        self.content = self.content.saturating_add(1);
        let at = self.covered.partition_point(|piece| piece.1 < offset);
        // The piece at `at`, if there is one, ends where this one begins, or later.
        let joins = self.covered.get(at).is_some_and(|piece| piece.1 == offset);
        let next = self.covered.get(at + usize::from(joins)).copied();
        // Bytes that come twice would leave open which of them hold.
        if next.is_some_and(|piece| piece.0 < end) {
            return Err("bytes that have come before");
        }
        let joins_next = next.is_some_and(|piece| piece.0 == end);
        match (joins, joins_next) {
            (true, true) => {
                self.covered[at].1 = self.covered[at + 1].1;
                self.covered.remove(at + 1);
            }
            (true, false) => self.covered[at].1 = end,
            (false, true) => self.covered[at].0 = offset,
            // A hostile server could send every other byte: the list of gaps is bounded.
            (false, false) if self.covered.len() == PIECES => return Err("too many pieces that lie apart"),
            (false, false) => self.covered.insert(at, (offset, end)),
        }
        Ok(())
    }
}

/// The fields of a chunk's head after its magic number: flags, type, cookie, length.
pub(super) fn chunk_fields(bytes: &[u8; 16]) -> (u16, u16, u64, u32) {
    let mut fields = WireFields(bytes);
    let numbers = (fields.u16(), fields.u16(), fields.u64(), fields.u32());
    (
        numbers.0.unwrap_or_default(),
        numbers.1.unwrap_or_default(),
        numbers.2.unwrap_or_default(),
        numbers.3.unwrap_or_default(),
    )
}
