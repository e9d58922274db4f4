//! Keeps the bytes behind the names of buffers.

use std::ops::Range;
use std::sync::Arc;

use destage_plan::{Buf, Controller, Engine, Ext, HostOp, Issue, NvPut, NvSlot, OpId, Step};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::spare::{SharedBuffer, SpareBuffers};
use crate::buffer::AlignedBuffer;
use crate::nvram::MemoryNvram;

/// Holds the bytes of all buffers.
///
/// The operation's place and the buffer's number name a buffer of an operation. The next operation in that
/// place uses it again, or it is lent for something else ([`tidy`](Self::tidy)). So little is allocated per
/// request after a while.
///
/// Executors that hand steps to threads hand over [`SharedBuffer`]s:
///
/// * of what is written ([`handed`](Self::handed)), which stays where it is;
/// * or of a buffer to be filled ([`lend`](Self::lend)), which replaces the buffer in its place
///   ([`fetched`](Self::fetched)).
///
/// Bytes that a thread holds are never changed: whoever must change them goes on with a copy. Bytes that cannot
/// be handed over are copied, and counted ([`copied`](Self::copied)).
#[derive(Default)]
pub struct BufferTable {
    /// Counts the bytes of a page.
    pub(super) page: usize,
    /// Counts the bytes of a sector.
    pub(super) sector: usize,
    hosts: HashMap<u64, SharedBuffer, FixedState>,
    tmps: Vec<Vec<SharedBuffer>>,
    nvram: MemoryNvram,
    pub(super) scratch: [Vec<u8>; 2],
    /// Holds a page of zeros.
    pub(super) zeros: Vec<u8>,
    spare: SpareBuffers,
    copied: u64,
}

/// Names a place in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteLocation {
    Zero,
    Host { tag: u64, from: usize },
    Tmp { op: usize, id: usize, from: usize },
    Nv { slot: NvSlot, from: usize },
}

impl ByteLocation {
    /// Returns true if both are in the same allocation.
    pub(super) fn shares(self, other: Self) -> bool {
        match (self, other) {
            (Self::Host { tag: a, .. }, Self::Host { tag: b, .. }) => a == b,
            (Self::Tmp { op: a, id: x, .. }, Self::Tmp { op: b, id: y, .. }) => (a, x) == (b, y),
            _ => false,
        }
    }

    /// Returns the place so many bytes after this one.
    pub(super) fn beyond(mut self, offset: u32) -> Self {
        match &mut self {
            Self::Host { from, .. } | Self::Tmp { from, .. } | Self::Nv { from, .. } => *from += offset as usize,
            Self::Zero => {}
        }
        self
    }

    pub(super) const fn from(self) -> usize {
        match self {
            Self::Host { from, .. } | Self::Tmp { from, .. } | Self::Nv { from, .. } => from,
            Self::Zero => 0,
        }
    }
}

impl BufferTable {
    /// Makes a table for the beginning of a life, with pages and sectors of these sizes, in bytes.
    pub fn new(page_bytes: u64, sector_bytes: u64, mut nvram: MemoryNvram) -> Self {
        let page = page_bytes as usize;
        nvram.begin();
        Self { page, sector: sector_bytes as usize, nvram, zeros: vec![0; page], ..Self::default() }
    }

    /// Keeps a copy of the bytes that a request writes, until [`release`](Self::release).
    pub fn host(&mut self, tag: u64, data: &[u8]) {
        let mut bytes = self.lend_room(data.len());
        self.copied += data.len() as u64;
        alone(&mut bytes).extend_from_slice(data);
        self.insert(tag, bytes);
    }

    /// Keeps the buffer of a request until [`release`](Self::release): the bytes to write, or room for a read.
    pub fn host_buffer(&mut self, tag: u64, data: AlignedBuffer) {
        let mut bytes = self.spare.take_empty();
        *alone(&mut bytes) = data;
        self.insert(tag, bytes);
    }

    /// Makes room for the bytes that a request reads.
    pub fn host_room(&mut self, tag: u64, len: usize) {
        let bytes = self.lend(len);
        self.insert(tag, bytes);
    }

    fn insert(&mut self, tag: u64, bytes: SharedBuffer) {
        let earlier = self.hosts.insert(tag, bytes);
        assert!(earlier.is_none(), "request {tag} is under way already");
    }

    /// Returns the bytes of a request; none if it brought none.
    pub fn host_bytes(&self, tag: u64) -> &[u8] {
        self.hosts.get(&tag).map_or(&[], |bytes| bytes)
    }

    /// Forgets the bytes of a request.
    pub fn release(&mut self, tag: u64) {
        if let Some(bytes) = self.hosts.remove(&tag) {
            self.give_back(bytes);
        }
    }

    /// Forgets the bytes of a request, and returns them; none if it brought none.
    /// Copies them if somebody else still holds them.
    pub fn release_buffer(&mut self, tag: u64) -> AlignedBuffer {
        let Some(mut bytes) = self.hosts.remove(&tag) else { return AlignedBuffer::new() };
        let buffer = std::mem::take(own(&mut bytes, &mut self.copied));
        // The handle without a buffer is kept as well: it is an allocation of its
        // own.
        self.spare.keep_empty(bytes);
        buffer
    }

    /// Copies the bytes of a request.
    pub fn copy_host(&mut self, tag: u64) -> AlignedBuffer {
        let len = self.host_bytes(tag).len();
        let mut handle = self.lend_room(len);
        let mut copy = std::mem::take(alone(&mut handle));
        self.spare.keep_empty(handle);
        copy.extend_from_slice(self.host_bytes(tag));
        self.copied += len as u64;
        copy
    }

    /// Keeps a buffer that was [released](Self::release_buffer) and that nobody wants, to lend it.
    pub fn keep_buffer(&mut self, buffer: AlignedBuffer) {
        let mut handle = self.spare.take_empty();
        *alone(&mut handle) = buffer;
        self.spare.keep(handle);
    }

    /// Returns these bytes, as a copy if they do not begin at a multiple of `align`.
    pub fn aligned(&mut self, bytes: SharedBuffer, range: Range<usize>, align: usize) -> (SharedBuffer, Range<usize>) {
        // Where a page begins inside of a buffer depends on the host; direct I/O
        // takes no other address.
        if range.is_empty() || bytes[range.clone()].as_ptr().addr().is_multiple_of(align) {
            return (bytes, range);
        }
        let mut copy = self.lend_room(range.len());
        alone(&mut copy).extend_from_slice(&bytes[range]);
        self.copied += copy.len() as u64;
        self.give_back(bytes);
        let range = 0..copy.len();
        (copy, range)
    }

    /// Lends a buffer of so many bytes of any content, without other owners.
    pub fn lend(&mut self, len: usize) -> SharedBuffer {
        let mut bytes = self.spare.take(len);
        alone(&mut bytes).resize(len);
        bytes
    }

    /// Lends an empty buffer with room for so many bytes, without other owners.
    fn lend_room(&mut self, len: usize) -> SharedBuffer {
        let mut bytes = self.spare.take(len);
        let buffer = alone(&mut bytes);
        buffer.clear();
        buffer.reserve(len);
        bytes
    }

    /// Takes a buffer back, to lend it again if it has no other owner.
    pub fn give_back(&mut self, mut bytes: SharedBuffer) {
        // A hanging thread may still write into it, so it is not lent while anybody
        // else holds it.
        if Arc::get_mut(&mut bytes).is_some() {
            self.spare.keep(bytes);
        }
    }

    /// Takes back the buffers of operations that have ended, and drops those that nobody needed since the last
    /// call.
    /// Callers call it now and then: nothing else bounds buffers that were needed once.
    pub fn tidy<C: Controller>(&mut self, engine: &Engine<C>) {
        // Operations keep their buffers at the same place and number, so a steady
        // load allocates nothing.
        for (op, buffers) in self.tmps.iter_mut().enumerate() {
            let used = engine.tmp_count(OpId(op as u32));
            for mut bytes in buffers.drain(used.min(buffers.len())..) {
                if Arc::get_mut(&mut bytes).is_some() {
                    self.spare.keep(bytes);
                }
            }
        }
        self.spare.drop_idle();
    }

    /// Counts the bytes of all buffers that are kept for operations, or to be lent.
    pub fn kept(&self) -> usize {
        self.spare.bytes() + self.tmps.iter().flatten().map(|bytes| bytes.capacity()).sum::<usize>()
    }

    /// Counts the bytes that were copied so far on their way between host, devices and NVRAM, for want of a
    /// handle to pass on.
    pub const fn copied(&self) -> u64 {
        self.copied
    }

    /// Returns the NVRAM, whose slots are buffers too.
    pub const fn nvram(&self) -> &MemoryNvram {
        &self.nvram
    }

    /// Returns the NVRAM for changes.
    pub const fn nvram_mut(&mut self) -> &mut MemoryNvram {
        &mut self.nvram
    }

    /// Returns the first `len` bytes of a buffer; none if they are zeros.
    pub fn source<C: Controller>(&self, engine: &Engine<C>, op: OpId, buf: Buf, len: usize) -> Option<&[u8]> {
        self.get(self.locate(engine, op, buf), len)
    }

    /// Returns the first `len` bytes of a buffer, to be filled.
    pub fn target<C: Controller>(&mut self, engine: &Engine<C>, op: OpId, buf: Buf, len: usize) -> &mut [u8] {
        let at = self.locate(engine, op, buf);
        self.reserve(engine, op, at);
        let from = at.from();
        &mut self.allocation(at)[from..from + len]
    }

    /// Returns the bytes that a step writes to a device: a handle, and a range in it.
    ///
    /// Bytes that lie in several buffers, in the NVRAM, or with the controller are copied into one. So is a
    /// part of a host's read buffer. The rest of that buffer is still to be filled. Each read that ends
    /// meanwhile would have to go on with a copy of all of it.
    ///
    /// # Panics
    /// Panics as [`written`](Self::written) does.
    pub fn handed<C: Controller>(&mut self, engine: &Engine<C>, op: OpId, step: &Step) -> (SharedBuffer, Range<usize>) {
        let one = match *step {
            Step::Write { src, .. } => Some(src),
            Step::WriteList { srcs, .. } => match engine.bufs(op, srcs) {
                [src] => Some(*src),
                _ => None,
            },
            _ => None,
        };
        let len = step.changes().map_or(0, |ext| usize::from(ext.pages()) * self.page);
        if let Some(src) = one {
            let at = self.locate(engine, op, src);
            let handle = match at {
                ByteLocation::Host { tag, .. } => self.hosts.get(&tag),
                ByteLocation::Tmp { op, id, .. } => Some(&self.tmps[op][id]),
                ByteLocation::Zero | ByteLocation::Nv { .. } => None,
            };
            let is_filled = matches!(src, Buf::Host { frag, .. } if engine.host_op(frag) == HostOp::Read);
            if let Some(handle) = handle.filter(|handle| !is_filled || handle.len() == len) {
                let range = at.from()..at.from() + len;
                assert!(range.end <= handle.len(), "{step:?} has as many bytes as pages");
                return (Arc::clone(handle), range);
            }
        }
        (self.written(engine, op, step), 0..len)
    }

    /// Puts the bytes that a step has read into their place: as they are if the place is a whole buffer, else
    /// as a copy.
    pub fn fetched<C: Controller>(&mut self, engine: &Engine<C>, op: OpId, dst: Buf, bytes: SharedBuffer) {
        let at = self.locate(engine, op, dst);
        self.reserve(engine, op, at);
        let place = self.place(at);
        if at.from() == 0 && place.len() == bytes.len() {
            // The device filled this very buffer: nothing is copied, and the
            // earlier one is lent again.
            let earlier = std::mem::replace(place, bytes);
            self.give_back(earlier);
            return;
        }
        let range = at.from()..at.from() + bytes.len();
        self.allocation(at)[range].copy_from_slice(&bytes);
        self.copied += bytes.len() as u64;
        self.give_back(bytes);
    }

    /// Copies the bytes that a step writes to a device; zeros if it trims.
    ///
    /// # Panics
    /// Panics if the step writes nothing, or other than its extent has room for.
    pub fn written<C: Controller>(&mut self, engine: &Engine<C>, op: OpId, step: &Step) -> SharedBuffer {
        let pages = step.changes().map_or(0, Ext::pages);
        let mut copy = self.lend_room(usize::from(pages) * self.page);
        self.append(engine, op, step, alone(&mut copy));
        self.copied += copy.len() as u64;
        copy
    }

    /// Appends the bytes that a step writes to a device; zeros if it trims.
    ///
    /// # Panics
    /// Panics as [`written`](Self::written) does.
    pub(crate) fn append<C: Controller>(&self, engine: &Engine<C>, op: OpId, step: &Step, to: &mut AlignedBuffer) {
        let Some(ext) = step.changes() else { panic!("{step:?} writes nothing") };
        let (start, len) = (to.len(), usize::from(ext.pages()) * self.page);
        let mut append = |buf: Buf, len: usize| {
            let end = to.len() + len;
            to.extend_from_slice(self.source(engine, op, buf, len).unwrap_or_default());
            to.resize(end);
        };
        match *step {
            Step::Write { src, .. } => append(src, len),
            Step::WriteList { srcs, .. } => engine.bufs(op, srcs).iter().for_each(|src| append(*src, self.page)),
            Step::MetaWrite { bytes, .. } => to.extend_from_slice(engine.bytes(op, bytes)),
            _ => append(Buf::Zero, len),
        }
        assert_eq!(to.len() - start, len, "{step:?} has as many bytes as pages");
    }

    /// Copies the bytes that a step of the NVRAM puts, one after the other.
    pub fn puts<C: Controller>(&mut self, engine: &Engine<C>, op: OpId, puts: &[NvPut]) -> SharedBuffer {
        let mut bytes = self.lend_room(puts.iter().map(|put| put.len as usize).sum());
        let to = alone(&mut bytes);
        for put in puts.iter().filter(|put| put.len > 0) {
            let end = to.len() + put.len as usize;
            let len = put.len as usize;
            to.extend_from_slice(match put.src {
                Buf::Kept(bytes) => &engine.bytes(op, bytes)[..len],
                src => self.source(engine, op, src, len).unwrap_or_default(),
            });
            to.resize(end);
        }
        self.copied += bytes.len() as u64;
        bytes
    }

    /// Does a step of the NVRAM, or of slots of memory.
    ///
    /// # Panics
    /// Panics if it is another step, or puts into a slot that is in use, or frees one that is not.
    pub fn change_nvram<C: Controller>(&mut self, engine: &Engine<C>, issue: Issue) {
        if let Step::NvCommit { puts, .. } | Step::Hold { puts, .. } = *engine.step(issue) {
            self.copied += engine.puts(issue.op, puts).iter().map(|put| u64::from(put.len)).sum::<u64>();
        }
        // Taken out, so that the other buffers can be read while the NVRAM changes.
        let mut nvram = std::mem::take(&mut self.nvram);
        self.nv_step(engine, issue, &mut nvram);
        self.nvram = nvram;
    }

    /// Applies a step to an NVRAM. Bytes that move from slot to slot come from that NVRAM.
    pub(crate) fn nv_step<C: Controller>(&self, engine: &Engine<C>, issue: Issue, nvram: &mut MemoryNvram) {
        let op = issue.op;
        match *engine.step(issue) {
            Step::NvCommit { puts, frees } | Step::Hold { puts, frees } => {
                for &NvPut { slot, tag, src, len } in engine.puts(op, puts) {
                    let len = len as usize;
                    assert!(len <= self.page, "{slot:?} has no room for {len} bytes");
                    match src {
                        // A tag alone, which says something without bytes.
                        _ if len == 0 => nvram.put(slot, tag, &[]),
                        Buf::Nv(from) => nvram.put_copy(slot, tag, from, len),
                        Buf::Kept(bytes) => nvram.put(slot, tag, &engine.bytes(op, bytes)[..len]),
                        src => match self.source(engine, op, src, len) {
                            Some(bytes) => nvram.put(slot, tag, bytes),
                            None => nvram.put_zeros(slot, tag, len),
                        },
                    }
                }
                for buf in engine.bufs(op, frees) {
                    let Buf::Nv(slot) = *buf else { panic!("{buf:?} is no slot of the NVRAM") };
                    nvram.free(slot);
                }
            }
            Step::Intent { rows, set } => {
                for &rows in engine.rows(op, rows) {
                    nvram.intents.set(rows, set);
                }
            }
            ref other => panic!("{other:?} is no step of the NVRAM"),
        }
    }

    pub(super) fn locate<C: Controller>(&self, engine: &Engine<C>, op: OpId, buf: Buf) -> ByteLocation {
        match buf {
            Buf::None => panic!("{op:?} uses the buffer that is none"),
            Buf::Kept(_) => panic!("{op:?} uses bytes of the controller for something else than a slot"),
            Buf::Zero => ByteLocation::Zero,
            Buf::Host { frag, page } => {
                let (tag, offset) = engine.host(frag);
                ByteLocation::Host { tag, from: offset as usize + usize::from(page) * self.page }
            }
            Buf::Tmp { id, page } => {
                ByteLocation::Tmp { op: op.index(), id: usize::from(id), from: usize::from(page) * self.page }
            }
            Buf::Nv(slot) => ByteLocation::Nv { slot, from: 0 },
        }
    }

    /// Returns the bytes of a place; none if they are zeros.
    pub(super) fn get(&self, at: ByteLocation, len: usize) -> Option<&[u8]> {
        Some(match at {
            ByteLocation::Zero => return None,
            ByteLocation::Host { tag, from } => &self.hosts[&tag][from..from + len],
            ByteLocation::Tmp { op, id, from } => &self.tmps[op][id][from..from + len],
            ByteLocation::Nv { slot, from } => &self.nvram.bytes(slot)[from..from + len],
        })
    }

    /// Returns a page.
    pub(super) fn page(&self, at: ByteLocation) -> &[u8] {
        self.get(at, self.page).unwrap_or(&self.zeros)
    }

    /// Makes a buffer of an operation as long as was asked for.
    pub(super) fn reserve<C: Controller>(&mut self, engine: &Engine<C>, op: OpId, at: ByteLocation) {
        let ByteLocation::Tmp { op: index, id, .. } = at else { return };
        if index >= self.tmps.len() {
            self.tmps.resize_with(index + 1, Vec::new);
        }
        let buffers = &mut self.tmps[index];
        if id >= buffers.len() {
            buffers.resize_with(id + 1, SharedBuffer::default);
        }
        let len = usize::from(engine.tmp_pages(op, id as u8)) * self.page;
        if buffers[id].capacity() == 0 {
            buffers[id] = self.spare.take(len);
        }
        if buffers[id].len() != len {
            own(&mut buffers[id], &mut self.copied).resize(len);
        }
    }

    /// Returns a buffer that is to be changed: the very one, unless a thread holds it.
    pub(super) fn allocation(&mut self, at: ByteLocation) -> &mut AlignedBuffer {
        let mut copied = 0;
        // Counted apart, since the borrowed place keeps `self.copied` from being
        // borrowed.
        own(self.place(at), &mut copied);
        self.copied += copied;
        alone(self.place(at))
    }

    fn place(&mut self, at: ByteLocation) -> &mut SharedBuffer {
        match at {
            ByteLocation::Host { tag, .. } => self.hosts.get_mut(&tag).expect("the request is under way"),
            ByteLocation::Tmp { op, id, .. } => &mut self.tmps[op][id],
            ByteLocation::Zero | ByteLocation::Nv { .. } => panic!("{at:?} is no place to write to"),
        }
    }
}

/// Returns the buffer behind a handle without other owners.
fn alone(handle: &mut SharedBuffer) -> &mut AlignedBuffer {
    Arc::get_mut(handle).expect("nobody else has it")
}

/// Returns the buffer behind a handle, or a copy of it if the handle has other owners.
fn own<'a>(handle: &'a mut SharedBuffer, copied: &mut u64) -> &'a mut AlignedBuffer {
    if Arc::get_mut(handle).is_none() {
        *copied += handle.len() as u64;
    }
    Arc::make_mut(handle)
}
