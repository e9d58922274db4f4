//! Queues the requests of a device, above the driver's commands.

use std::io;
use std::os::fd::BorrowedFd;

use destage_exec::AlignedBuffer;
use rustix::io::Errno;

use crate::abi::{
    DESCRIPTOR_BYTES, IO_FUA, IO_NOUNMAP, OP_DISCARD, OP_FLUSH, OP_READ, OP_WRITE, OP_WRITE_ZEROES,
    RESULT_NEED_GET_DATA, RESULT_OK, RequestDescriptor,
};

/// Says that the device is stopped.
const ABORTED: i32 = -Errno::NODEV.raw_os_error();

/// Says what the driver has told of a tag.
#[derive(Debug)]
pub struct KernelEvent {
    /// Names the request.
    pub tag: u16,
    /// Is one of `RESULT_…`, or an error as a negative number: the tag is not asked for requests any more.
    pub result: i32,
    /// Holds the bytes of a write, if room [was given](QueueKernel::receive) for them.
    pub room: AlignedBuffer,
}

/// Gives commands to the driver, and tells what has come of them. A tag has one command at a time.
pub trait QueueKernel {
    /// Returns the number of tags.
    fn depth(&self) -> u16;
    /// Asks for the first request of a tag.
    fn fetch(&mut self, tag: u16);
    /// Gives room for the bytes of the write that a tag has, as long as they are.
    fn receive(&mut self, tag: u16, room: AlignedBuffer);
    /// Answers a tag's request, with what a read has read, and asks for the next one.
    fn answer(&mut self, tag: u16, result: i32, data: AlignedBuffer);
    /// Hands the commands that were given to the kernel.
    ///
    /// # Errors
    /// If the kernel takes none any more.
    fn submit(&mut self) -> io::Result<()>;
    /// Returns true if some are left to be handed over.
    fn is_behind(&self) -> bool;
    /// Returns the next thing that the driver has told.
    fn next(&mut self) -> Option<KernelEvent>;
    /// Returns the driver's description of the request that a tag has.
    fn descriptor(&self, tag: u16) -> [u8; DESCRIPTOR_BYTES];
    /// Returns a buffer that came with an answer and is free again, if there is one.
    fn take_answered(&mut self) -> Option<AlignedBuffer>;
    /// Returns what is readable when there is something to be taken.
    fn file(&self) -> Option<BorrowedFd<'_>>;
}

/// Says what a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOp {
    /// Asks for bytes.
    Read,
    /// Brings bytes.
    Write,
    /// Wants durable what was answered before.
    Flush,
    /// Says that the bytes are no longer needed.
    Discard,
    /// Wants zeros.
    WriteZeroes {
        /// Wants them to have their room.
        keeps_room: bool,
    },
}

/// Is a request of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// Names it until it is answered.
    pub tag: u16,
    /// Says what is asked for.
    pub op: BlockOp,
    /// Is the first byte; 0 of a flush.
    pub offset: u64,
    /// Counts the bytes; 0 of a flush.
    pub len: u64,
    /// Wants it durable before it is answered.
    pub fua: bool,
}

/// Says what has come.
#[derive(Debug)]
pub enum QueueEvent {
    /// Tells of a request. A write's bytes are to be [asked for](RequestQueue::receive), and come later.
    Came(BlockRequest),
    /// Brings the bytes of a write that was told of. They may be fewer than were asked for: the kernel sends the rest again.
    Received(BlockRequest, AlignedBuffer),
    /// Gives back the room for a write that the kernel took back, and tells of the request that the tag has now.
    Replaced(BlockRequest, AlignedBuffer),
}

/// Says who has a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TagState {
    /// Is the driver's, until a request comes.
    Idle,
    /// Is the server's, which was told of a write and not given its bytes.
    Told,
    /// Is the driver's, which copies the bytes of a write.
    Receiving,
    /// Is the server's, which is to answer.
    Begun,
    /// Has ended: the driver wants it no more.
    Ended,
}

/// Takes the requests of a device, and answers them.
pub struct RequestQueue {
    kernel: Box<dyn QueueKernel>,
    tags: Vec<TagState>,
    /// Counts the tags that have not ended.
    live: usize,
    bytes: u64,
    spare: Vec<AlignedBuffer>,
    /// Says what the driver has refused, which is to refuse nothing.
    failure: Option<Errno>,
}

impl std::fmt::Debug for RequestQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestQueue").field("bytes", &self.bytes).field("live", &self.live).finish_non_exhaustive()
    }
}

impl RequestQueue {
    /// Asks for the requests of a device of so many bytes.
    ///
    /// # Errors
    /// If the kernel does not take the commands.
    pub fn new(mut kernel: Box<dyn QueueKernel>, bytes: u64) -> io::Result<Self> {
        let depth = kernel.depth();
        // The driver starts a device only once each tag has asked for its first request. It takes them all from one
        // thread.
        (0..depth).for_each(|tag| kernel.fetch(tag));
        kernel.submit()?;
        let tags = vec![TagState::Idle; depth.into()];
        Ok(Self { kernel, live: tags.len(), tags, bytes, spare: Vec::new(), failure: None })
    }

    /// Returns true if no requests come any more, and none is left to be answered.
    pub const fn is_over(&self) -> bool {
        self.live == 0
    }

    /// Returns what is readable when there is something to be taken.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.kernel.file()
    }

    /// Returns why the driver takes no commands of a tag any more, other than since the device is stopped: its request is never
    /// answered.
    pub const fn failure(&self) -> Option<Errno> {
        self.failure
    }

    /// Hands answers to the kernel. To be called when all that is to be answered for now is.
    ///
    /// # Errors
    /// If the kernel takes none any more.
    pub fn submit(&mut self) -> io::Result<()> {
        self.kernel.submit()
    }

    /// Returns true if the kernel has not taken all answers: it is to be [asked](Self::submit) again.
    pub fn is_behind(&self) -> bool {
        self.kernel.is_behind()
    }

    /// Returns a buffer that came with an answer, or with a write that was taken back, and is free again.
    pub fn take_spare(&mut self) -> Option<AlignedBuffer> {
        self.spare.pop().or_else(|| self.kernel.take_answered())
    }

    /// Gives room for the bytes of a write, as long as they are.
    pub fn receive(&mut self, tag: u16, room: AlignedBuffer) {
        let state = &mut self.tags[usize::from(tag)];
        debug_assert_eq!(*state, TagState::Told);
        *state = TagState::Receiving;
        self.kernel.receive(tag, room);
    }

    /// Answers a request: with what it read, or that it was carried out, or why not.
    pub fn answer(&mut self, request: &BlockRequest, done: Result<AlignedBuffer, Errno>) {
        // Of a write the driver takes no answer before it was given room for its bytes.
        debug_assert_eq!(self.tags[usize::from(request.tag)], TagState::Begun);
        self.tags[usize::from(request.tag)] = TagState::Idle;
        let is_short = |data: &AlignedBuffer| request.op == BlockOp::Read && (data.len() as u64) < request.len;
        match done {
            // The driver copies as many bytes as the request has, so a buffer with fewer must never be handed over.
            Ok(data) if is_short(&data) => {
                self.kernel.answer(request.tag, -Errno::IO.raw_os_error(), AlignedBuffer::new());
            }
            Ok(data) => {
                // What is no read or write has no bytes that could be fewer than were asked for.
                let moved = matches!(request.op, BlockOp::Read | BlockOp::Write);
                let data = if request.op == BlockOp::Read { data } else { self.keep(data) };
                self.kernel.answer(request.tag, if moved { request.len as i32 } else { 0 }, data);
            }
            Err(errno) => self.kernel.answer(request.tag, -errno.raw_os_error(), AlignedBuffer::new()),
        }
    }

    fn keep(&mut self, buffer: AlignedBuffer) -> AlignedBuffer {
        if buffer.capacity() > 0 {
            self.spare.push(buffer);
        }
        AlignedBuffer::new()
    }

    /// Returns the next thing that has come.
    pub fn next_event(&mut self) -> Option<QueueEvent> {
        while let Some(KernelEvent { tag, result, room }) = self.kernel.next() {
            let state = &mut self.tags[usize::from(tag)];
            match (*state, result) {
                (TagState::Idle, RESULT_NEED_GET_DATA) => {
                    *state = TagState::Told;
                    let described = RequestDescriptor::decode(&self.kernel.descriptor(tag));
                    match self.request(tag, described) {
                        Ok(request) => return Some(QueueEvent::Came(request)),
                        // The driver breaks its word, and would take no answer before it was given room.
                        Err(_) => self.end(tag),
                    }
                }
                (TagState::Idle, RESULT_OK) => {
                    *state = TagState::Begun;
                    let described = RequestDescriptor::decode(&self.kernel.descriptor(tag));
                    match self.request(tag, described) {
                        Ok(request) => return Some(QueueEvent::Came(request)),
                        Err(errno) => self.refuse(tag, errno),
                    }
                }
                (TagState::Receiving, RESULT_OK) => {
                    *state = TagState::Begun;
                    let described = RequestDescriptor::decode(&self.kernel.descriptor(tag));
                    match self.request(tag, described) {
                        Ok(request) if request.op != BlockOp::Write => {
                            return Some(QueueEvent::Replaced(request, room));
                        }
                        Ok(request) => {
                            let mut room = room;
                            room.resize((request.len as usize).min(room.len()));
                            return Some(QueueEvent::Received(request, room));
                        }
                        Err(errno) => {
                            self.keep(room);
                            self.refuse(tag, errno);
                        }
                    }
                }
                // The write was taken back to be sent again, and the tag may have another request since.
                (TagState::Receiving, RESULT_NEED_GET_DATA) => {
                    *state = TagState::Told;
                    let described = RequestDescriptor::decode(&self.kernel.descriptor(tag));
                    match self.request(tag, described) {
                        Ok(request) => return Some(QueueEvent::Replaced(request, room)),
                        Err(_) => self.end(tag),
                    }
                }
                (TagState::Ended, _) => {}
                _ => {
                    // The driver ends its commands with `ENODEV` when a device stops. Any other error is a fault to
                    // be told of.
                    if result != ABORTED {
                        self.failure.get_or_insert(Errno::from_raw_os_error(result.saturating_neg()));
                    }
                    self.keep(room);
                    self.end(tag);
                }
            }
        }
        None
    }

    fn end(&mut self, tag: u16) {
        self.tags[usize::from(tag)] = TagState::Ended;
        self.live -= 1;
    }

    fn refuse(&mut self, tag: u16, errno: Errno) {
        self.tags[usize::from(tag)] = TagState::Idle;
        self.kernel.answer(tag, -errno.raw_os_error(), AlignedBuffer::new());
    }

    /// Reads what the driver says of a request.
    fn request(&self, tag: u16, described: RequestDescriptor) -> Result<BlockRequest, Errno> {
        let RequestDescriptor { op, flags, sectors, first } = described;
        let op = match op {
            OP_READ => BlockOp::Read,
            OP_WRITE => BlockOp::Write,
            OP_FLUSH => BlockOp::Flush,
            OP_DISCARD => BlockOp::Discard,
            OP_WRITE_ZEROES => BlockOp::WriteZeroes { keeps_room: flags & IO_NOUNMAP != 0 },
            _ => return Err(Errno::OPNOTSUPP),
        };
        let fua = flags & IO_FUA != 0;
        if op == BlockOp::Flush {
            return Ok(BlockRequest { tag, op, offset: 0, len: 0, fua });
        }
        let (offset, len) = (first.checked_mul(512).ok_or(Errno::INVAL)?, u64::from(sectors) * 512);
        // A request beyond the end would reach pages that the array does not have. So it fails whatever the driver
        // says.
        if len == 0 || offset.checked_add(len).is_none_or(|end| end > self.bytes) {
            return Err(Errno::INVAL);
        }
        Ok(BlockRequest { tag, op, offset, len, fua })
    }
}
