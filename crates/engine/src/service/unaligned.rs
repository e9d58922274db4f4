//! Requests that are no whole sectors. The backend is asked for whole sectors: reads are rounded out, trims are rounded
//! in, and of what is written the sectors at the edges are read, merged and written.
//!
//! From the read of an edge until its write is done nobody else may write that sector, or that would be undone: a backend
//! need not keep the order of long requests. So such a request waits for the writes before it that touch its sectors, and
//! those that come after it and touch them wait for it, reads too: requests take effect in the order of coming.

use std::ops::Range;

use destage_exec::AlignedBuffer;
use destage_nbd::Errno;
use destage_plan::{HostOp, HostRequest};

use super::BlockService;
use super::requests::RequestNext;
use crate::BlockBackend;
use crate::sectors::{SECTOR, are_whole, around, edges, within};

/// Holds a request that holds sectors, or waits for them.
#[derive(Debug)]
pub(super) enum SectorWork {
    /// Waits to be handed to the backend as it is.
    Whole(HostRequest, AlignedBuffer),
    /// Reads its edges, or waits to do so.
    Edges(EdgeWork),
    /// Writes: the backend has it already.
    Begun,
}

/// Holds a write, or a write of zeros, whose edges are read.
#[derive(Debug)]
pub(super) struct EdgeWork {
    /// Has the request, with the bytes that its client named.
    asked: HostRequest,
    /// Says what follows when its last write is done.
    then: RequestNext,
    /// Holds all sectors of a write, with gaps where it has parts of them; nothing if zeros are written.
    data: AlignedBuffer,
    /// Keeps room for a sector, while no sector is read or written.
    edge: AlignedBuffer,
    /// Lists the sectors at the edges that are not merged so far.
    left: [Option<u64>; 2],
}

/// Says what a request with edges does next.
enum EdgeStep {
    /// Reads or writes one more sector, after which something follows.
    Go(HostRequest, AlignedBuffer),
    /// Hands the last of it to the backend, and gives back the room for a sector.
    Last(HostRequest, AlignedBuffer, AlignedBuffer),
}

impl EdgeWork {
    const fn is_write(&self) -> bool {
        matches!(self.asked.op, HostOp::Write)
    }

    /// Returns the part of a sector that the request has, from the sector's first byte.
    fn part(&self, sector: u64) -> Range<usize> {
        let HostRequest { offset, len, .. } = self.asked;
        let (from, to) = (offset.max(sector), (offset + len).min(sector + SECTOR));
        (from - sector) as usize..(to - sector) as usize
    }

    /// Begins with the first edge, or goes on with the next one or with what lies between them.
    fn next(&mut self) -> EdgeStep {
        let HostRequest { tag, op, offset, len, fua } = self.asked;
        let edge = std::mem::take(&mut self.edge);
        if let Some(sector) = self.left.into_iter().flatten().next() {
            return EdgeStep::Go(HostRequest { tag, op: HostOp::Read, offset: sector, len: SECTOR, fua: false }, edge);
        }
        let sectors = if self.is_write() { around(offset, len) } else { within(offset, len) };
        let rest = HostRequest { tag, op, offset: sectors.start, len: sectors.end - sectors.start, fua };
        EdgeStep::Last(rest, std::mem::take(&mut self.data), edge)
    }

    /// Goes on after a sector was read, which `bytes` hold, or written.
    fn go_on(&mut self, was_read: bool, mut bytes: AlignedBuffer) -> EdgeStep {
        let place = usize::from(self.left[0].is_none());
        if let (true, Some(sector)) = (was_read, self.left[place]) {
            let part = self.part(sector);
            if !self.is_write() {
                // Zeros at an edge are written sector by sector; what lies between may be a hole.
                bytes[part].fill(0);
                self.left[place] = None;
                let HostRequest { tag, offset, len, .. } = self.asked;
                let write = HostRequest { tag, op: HostOp::Write, offset: sector, len: SECTOR, fua: false };
                let is_last = self.left == [None, None] && within(offset, len).is_empty();
                return if is_last {
                    EdgeStep::Last(write, bytes, AlignedBuffer::new())
                } else {
                    EdgeStep::Go(write, bytes)
                };
            }
            self.left[place] = None;
            let base = (sector - around(self.asked.offset, self.asked.len).start) as usize;
            let merged = &mut self.data[base..base + SECTOR as usize];
            // The rest of the sector is as it was read, since nobody else may write it meanwhile.
            merged[..part.start].copy_from_slice(&bytes[..part.start]);
            merged[part.end..].copy_from_slice(&bytes[part.end..]);
        }
        self.edge = bytes;
        self.next()
    }
}

impl<B: BlockBackend> BlockService<B> {
    /// Begins a request that is no whole sectors, or comes behind one that holds sectors.
    #[cold]
    pub(super) fn begin_in_turn(&mut self, asked: HostRequest, data: AlignedBuffer) {
        let HostRequest { tag, op, offset, len, .. } = asked;
        let of = |sectors: Range<u64>| HostRequest { offset: sectors.start, len: sectors.end - sectors.start, ..asked };
        let asked = match op {
            HostOp::Flush => return self.submit(asked, data),
            HostOp::Read => of(around(offset, len)),
            HostOp::Discard => of(within(offset, len)),
            _ if are_whole(offset, len) => asked,
            _ => return self.begin_edges(asked, data),
        };
        if asked.len == 0 {
            // A trim of parts of sectors frees nothing: the sectors keep their content.
            return self.end(tag, true, data);
        }
        let (sectors, writes) = (asked.offset..asked.offset + asked.len, op != HostOp::Read);
        if self.sectors.blocks(&sectors, writes) {
            self.sectors.enter(tag, sectors, writes, SectorWork::Whole(asked, data));
        } else {
            self.submit(asked, data);
        }
    }

    fn begin_edges(&mut self, asked: HostRequest, data: AlignedBuffer) {
        let HostRequest { tag, op, offset, len, .. } = asked;
        let (data, edge) =
            if op == HostOp::Write { (data, self.budget.edge()) } else { (AlignedBuffer::new(), Some(data)) };
        let Some(pending) = self.pending.get_mut(tag as usize) else { return };
        let Some(edge) = edge else {
            let pending = self.pending.remove(tag as usize);
            self.refuse(&pending, Errno::NoMem, "there is no memory for it");
            return self.budget.keep(data);
        };
        let then = std::mem::replace(&mut pending.then, RequestNext::Edge { was_read: true });
        let (work, sectors) = (EdgeWork { asked, then, data, edge, left: edges(offset, len) }, around(offset, len));
        // Writes that the backend has already are entered first: the edge must be read after they have ended.
        for (before, pending) in self.pending.iter().filter(|(before, _)| *before as u64 != tag) {
            let others = around(pending.request.offset, pending.request.length.into());
            let overlaps = others.start < sectors.end && sectors.start < others.end;
            if overlaps && pending.request.command.writes() && self.sectors.get_mut(before as u64).is_none() {
                self.sectors.enter(before as u64, others, true, SectorWork::Begun);
            }
        }
        if self.sectors.enter(tag, sectors, true, SectorWork::Edges(work)) {
            self.begin_edge(tag);
        }
    }

    /// Begins with the edges of a request that need not wait.
    fn begin_edge(&mut self, tag: u64) {
        if let Some(SectorWork::Edges(work)) = self.sectors.get_mut(tag) {
            let step = work.next();
            self.take_edge_step(tag, step);
        }
    }

    /// Goes on with a request of which a sector at an edge was read or written.
    #[cold]
    pub(super) fn edge_done(&mut self, tag: u64, was_read: bool, ok: bool, bytes: AlignedBuffer) {
        // Without the sector's old bytes the write would make up the rest of it, so it fails as a whole.
        if !ok {
            return self.end(tag, false, bytes);
        }
        let Some(SectorWork::Edges(work)) = self.sectors.get_mut(tag) else { return };
        let step = work.go_on(was_read, bytes);
        self.take_edge_step(tag, step);
    }

    fn take_edge_step(&mut self, tag: u64, step: EdgeStep) {
        let Some(SectorWork::Edges(work)) = self.sectors.get_mut(tag) else { return };
        let Some(pending) = self.pending.get_mut(tag as usize) else { return };
        match step {
            EdgeStep::Go(asked, bytes) => {
                pending.then = RequestNext::Edge { was_read: asked.op == HostOp::Read };
                self.submit(asked, bytes);
            }
            EdgeStep::Last(asked, bytes, edge) => {
                pending.then = work.then;
                self.submit(asked, bytes);
                self.budget.keep(edge);
            }
        }
    }

    /// Lets go of the sectors that a request holds, which is done or has failed, and begins those that waited for it alone.
    #[cold]
    pub(super) fn release_sectors(&mut self, tag: u64) {
        let mut free = Vec::new();
        if let Some(SectorWork::Edges(EdgeWork { data, .. })) = self.sectors.leave(tag, &mut free) {
            self.budget.keep(data);
        }
        let mut next = 0;
        while let Some(&tag) = free.get(next) {
            next += 1;
            match self.sectors.get_mut(tag) {
                Some(work @ SectorWork::Whole(..)) => {
                    let SectorWork::Whole(asked, data) = std::mem::replace(work, SectorWork::Begun) else { continue };
                    self.submit(asked, data);
                    // Reads change nothing, so nobody waits for their end.
                    if asked.op == HostOp::Read {
                        self.sectors.leave(tag, &mut free);
                    }
                }
                Some(SectorWork::Edges(_)) => self.begin_edge(tag),
                Some(SectorWork::Begun) | None => {}
            }
        }
    }
}
