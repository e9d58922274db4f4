//! Talks to the kernel: by rings of commands, and by the memory in which the driver describes requests.
//!
//! Only this file holds unsafe code, of three kinds.
//!
//! * Commands carry addresses of bytes that the driver reads or fills. Those of a command for the control device are kept until it is done. The
//!   buffer of a write belongs to the ring from before the kernel hears of it until its completion is taken out; those of reads that are
//!   answered do until the kernel has taken the command, for the driver copies their bytes then and there. What is with the
//!   kernel when a ring is dropped is not freed.
//! * The driver's descriptions of requests are mapped. They are read as plain bytes, and only of requests that it has told of, which it
//!   leaves alone until they are answered.
//! * The ring's file is lent, to be waited for.
#![expect(unsafe_code, reason = "see above")]

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use destage_exec::AlignedBuffer;
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

use crate::abi::{
    COMMIT_AND_FETCH_REQ, ControlCommand, DESCRIPTOR_BYTES, FETCH_REQ, NEED_GET_DATA, RequestCommand, RequestDescriptor,
};
use crate::queue::{KernelEvent, QueueKernel};

/// Is a ring whose entries have room for the driver's commands.
type CommandRing = IoUring<squeue::Entry128, cqueue::Entry>;

/// Gives commands to the driver's control device, one at a time.
pub(crate) struct ControlRing {
    ring: CommandRing,
    file: File,
    /// Says that a command may be left in the ring: the end of the next one could be taken for its.
    is_broken: bool,
}

impl ControlRing {
    /// Makes one for this file.
    ///
    /// # Errors
    /// If the kernel has no such rings.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        // A forked child would otherwise share the memory of the ring.
        Ok(Self { ring: IoUring::builder().dontfork().build(2)?, file, is_broken: false })
    }

    /// Gives a command, with bytes that the driver reads and may change, and waits until it is done. Returns them as they are then.
    ///
    /// # Errors
    /// If the driver refuses, or the kernel takes no commands any more.
    pub(crate) fn command(
        &mut self,
        number: u32,
        mut command: ControlCommand,
        mut bytes: Vec<u8>,
    ) -> io::Result<Vec<u8>> {
        if self.is_broken {
            return Err(io::Error::other("an earlier command of the driver's could not be given"));
        }
        command.buffer = (bytes.as_mut_ptr().expose_provenance() as u64, bytes.len() as u16);
        let entry = opcode::UringCmd80::new(Fd(self.file.as_raw_fd()), number).cmd(command.encode()).build();
        // SAFETY: the address is that of `bytes`, as long as it says, which nobody touches before the driver has said that it is
        // done, and which are not freed if it does not say so.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("there is room for one");
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error)
                    if matches!(Errno::from_io_error(&error), Some(Errno::INTR | Errno::AGAIN | Errno::BUSY)) => {}
                Err(error) => {
                    // Whether the driver has the command, or will, nobody knows.
                    std::mem::forget(bytes);
                    self.is_broken = true;
                    return Err(error);
                }
            }
            if let Some(told) = self.ring.completion().next() {
                let result = told.result();
                return if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(bytes) };
            }
        }
    }
}

impl fmt::Debug for ControlRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlRing").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Maps the driver's descriptions of requests.
struct DescriptorMap {
    base: *mut std::ffi::c_void,
    len: usize,
    depth: u16,
}

impl DescriptorMap {
    fn new(device: &File, depth: u16) -> io::Result<Self> {
        let len = (usize::from(depth) * DESCRIPTOR_BYTES).next_multiple_of(page_size());
        // SAFETY: the place is the kernel's choice, so that nothing of this process lies there.
        let base =
            unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE, device, 0) }?;
        Ok(Self { base, len, depth })
    }

    fn read(&self, tag: u16) -> [u8; DESCRIPTOR_BYTES] {
        assert!(tag < self.depth, "the queue has {} tags", self.depth);
        // SAFETY: `len` bytes from `base` on are mapped, of which this is a part by the assertion, and any bytes are
        // bytes. The driver may write them meanwhile if the tag is not ours: hence volatile, and no reference.
        unsafe { self.base.cast::<[u8; DESCRIPTOR_BYTES]>().add(tag.into()).read_volatile() }
    }
}

impl Drop for DescriptorMap {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nobody has references into it.
        let _fails_never = unsafe { munmap(self.base, self.len) };
    }
}

/// Takes the requests of a device from the driver, and gives it the answers.
///
/// All is done by the thread that asks for the first request: the driver takes commands from no other.
pub(crate) struct RequestRing {
    ring: CommandRing,
    descriptors: DescriptorMap,
    device: File,
    /// Holds the rooms that the driver fills, by tag.
    receiving: Vec<AlignedBuffer>,
    /// Holds what reads read of which the kernel has not taken the answer.
    answering: Vec<AlignedBuffer>,
    answered: Vec<AlignedBuffer>,
    /// Counts the commands that the kernel has not taken.
    unsent: usize,
}

/// Is a ring that no device's requests come by yet.
pub(crate) struct RingOfRequests(CommandRing);

impl fmt::Debug for RequestRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestRing")
            .field("device", &self.device)
            .field("unsent", &self.unsent)
            .finish_non_exhaustive()
    }
}

impl RequestRing {
    /// Has the requests of the device with this file, whose queue has so many tags, come by a ring.
    ///
    /// # Errors
    /// If the driver lets nobody see its descriptions.
    pub(crate) fn new(ring: RingOfRequests, device: File, depth: u16) -> io::Result<Self> {
        let RingOfRequests(ring) = ring;
        let descriptors = DescriptorMap::new(&device, depth)?;
        let receiving = (0..depth).map(|_| AlignedBuffer::new()).collect();
        Ok(Self { ring, descriptors, device, receiving, answering: Vec::new(), answered: Vec::new(), unsent: 0 })
    }

    /// Makes the ring alone, for a queue with so many tags.
    ///
    /// # Errors
    /// If the kernel has no such rings.
    pub(crate) fn ring(depth: u16) -> io::Result<RingOfRequests> {
        let mut builder = IoUring::builder();
        // Each tag has one command at a time, so that there is room for all that can be given. What has come is looked at when the owner
        // asks, not by interrupting it.
        builder.dontfork().setup_cqsize(2 * u32::from(depth).next_power_of_two());
        builder.setup_coop_taskrun().setup_taskrun_flag();
        Ok(RingOfRequests(builder.build(u32::from(depth).next_power_of_two())?))
    }

    fn push(&mut self, number: u32, command: RequestCommand) {
        let entry = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), number).cmd(command.encode());
        let entry = entry.build().user_data(command.tag.into());
        // SAFETY: the address that it carries, if any, is that of a buffer in `receiving` or `answering`, where it stays, neither moved
        // nor freed, until the kernel has filled it or has taken the command, and to which nobody is given a reference. It is at least as
        // long as the request, which the driver keeps to, as those who call this have made sure of. The file is open as long as the ring.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("each tag has one command at a time");
        self.unsent += 1;
    }

    /// Returns how many bytes the driver copies of the request that a tag has.
    fn described_bytes(&self, tag: u16) -> u64 {
        u64::from(RequestDescriptor::decode(&self.descriptors.read(tag)).sectors) * 512
    }

    fn enter(&mut self) -> io::Result<()> {
        match self.ring.submit() {
            Ok(taken) => self.unsent -= taken,
            Err(error) => match Errno::from_io_error(&error) {
                // Tried again in the next turn.
                Some(Errno::BUSY | Errno::AGAIN | Errno::INTR) => {}
                _ => return Err(error),
            },
        }
        // The driver copies a read's bytes as it takes the command, so their buffers are free from then on.
        if self.unsent == 0 {
            self.answered.append(&mut self.answering);
        }
        Ok(())
    }
}

impl QueueKernel for RequestRing {
    fn depth(&self) -> u16 {
        self.descriptors.depth
    }

    fn fetch(&mut self, tag: u16) {
        self.push(FETCH_REQ, RequestCommand { tag, result: 0, address: 0 });
    }

    fn receive(&mut self, tag: u16, mut room: AlignedBuffer) {
        assert!(room.len() as u64 >= self.described_bytes(tag), "there is room for all that the driver copies");
        assert!(self.receiving[usize::from(tag)].is_empty(), "a tag has one command at a time");
        let address = room.as_mut_ptr().expose_provenance() as u64;
        self.receiving[usize::from(tag)] = room;
        self.push(NEED_GET_DATA, RequestCommand { tag, result: 0, address });
    }

    fn answer(&mut self, tag: u16, result: i32, data: AlignedBuffer) {
        assert!(
            data.is_empty() || data.len() as u64 >= self.described_bytes(tag),
            "all that the driver copies is there"
        );
        // The driver refuses the answer to a read without an address, also an error, which has no bytes. It looks at no bytes then, and
        // could not write to these.
        let nothing = self.descriptors.base.cast_const().cast();
        let address = if data.is_empty() { nothing } else { data.as_ptr() }.expose_provenance() as u64;
        self.answering.push(data);
        self.push(COMMIT_AND_FETCH_REQ, RequestCommand { tag, result, address });
    }

    fn submit(&mut self) -> io::Result<()> {
        if self.unsent == 0 { Ok(()) } else { self.enter() }
    }

    fn is_behind(&self) -> bool {
        self.unsent > 0
    }

    fn next(&mut self) -> Option<KernelEvent> {
        // Looking into the ring costs no system call, so the kernel is asked only where this finds nothing.
        let mut told = self.ring.completion().next();
        if told.is_none() {
            let submission = self.ring.submission();
            let unsaid = submission.taskrun() || submission.cq_overflow();
            drop(submission);
            // What the kernel could not say before is said now; whatever is wrong is found when something is submitted.
            if unsaid && self.enter().is_ok() {
                told = self.ring.completion().next();
            }
        }
        let told = told?;
        let tag = told.user_data() as u16;
        let room = std::mem::take(&mut self.receiving[usize::from(tag)]);
        Some(KernelEvent { tag, result: told.result(), room })
    }

    fn descriptor(&self, tag: u16) -> [u8; DESCRIPTOR_BYTES] {
        self.descriptors.read(tag)
    }

    fn take_answered(&mut self) -> Option<AlignedBuffer> {
        self.answered.pop()
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the ring is open as long as it is borrowed.
        Some(unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) })
    }
}

impl Drop for RequestRing {
    fn drop(&mut self) {
        // The kernel may fill or read them yet.
        for buffer in self.receiving.drain(..).chain(self.answering.drain(..)) {
            std::mem::forget(buffer);
        }
    }
}
