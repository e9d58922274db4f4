//! Wraps the kernel's ring.
//!
//! Only this file of the crate holds unsafe code, of one kind. The kernel gets the address of bytes and reads
//! or fills them until the operation has ended.
//!
//! * The entry, which owns those bytes and the file, is in `flying` from before the kernel hears of it until
//!   its completion is taken out.
//! * Nobody is given a reference to it meanwhile.
//! * A ring that is dropped before all have ended drops none of the others.
//! * The same holds of all entries of a merged operation, and of its list of addresses.
#![expect(unsafe_code, reason = "see above")]

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::files::io::ring::{EndedOperation, FileOp, IoRing, RingEntries, RingEntry, tell_parts};

/// Limits the operations that are given to the kernel in one call.
const QUEUE: u32 = 1024;
/// Limits the bytes of a read or write; the rest follows.
/// The kernel takes 2 GiB less a page at most.
const LONGEST: usize = 1 << 30;
/// Limits the kernel's threads for operations that may wait: see [`KernelRing::new`].
const MOST_WORKERS: u32 = 4096;

/// Is a ring of the kernel.
pub(crate) struct KernelRing {
    ring: IoUring,
    /// Holds the operations by the number that the kernel knows them by.
    flying: Vec<Option<KernelOperation>>,
    free: Vec<u32>,
    /// Counts the flying operations that the kernel has not taken.
    behind: usize,
    /// Counts the flying entries, of which several may be one operation.
    entries: usize,
    /// Keeps lists for the next merged operations.
    spare: Vec<(Vec<RingEntry>, Vec<IoVector>)>,
}

/// Holds what the kernel reads, fills or looks at until an operation has ended.
struct KernelOperation {
    entry: RingEntry,
    /// Lists the entries that are merged with it.
    others: Vec<RingEntry>,
    /// Names the bytes of all of them, if there are several.
    vector: Vec<IoVector>,
}

/// Names bytes as the kernel does (`struct iovec`).
#[repr(C)]
struct IoVector {
    /// Is an address, whose bytes nothing here touches.
    base: usize,
    len: usize,
}

impl IoVector {
    /// Names the bytes that an entry reads or writes.
    fn of(entry: &mut RingEntry) -> Self {
        let base = match entry.operation {
            FileOp::Read { .. } => to_be_filled(entry).expose_provenance(),
            _ => entry.bytes[entry.range.clone()].as_ptr().expose_provenance(),
        };
        Self { base, len: entry.range.len() }
    }
}

/// Returns where the bytes of a read begin.
fn to_be_filled(entry: &mut RingEntry) -> *mut u8 {
    let bytes = Arc::get_mut(&mut entry.bytes).expect("nobody else has what is to be filled");
    bytes[entry.range.clone()].as_mut_ptr()
}

impl fmt::Debug for KernelRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring").field("under_way", &self.under_way()).finish_non_exhaustive()
    }
}

impl KernelRing {
    /// Makes a ring for about so many operations at a time; more find room all the same.
    ///
    /// # Errors
    /// Fails if the kernel has none, or denies this process one.
    pub(crate) fn new(operations: u32) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        // Completions are delivered when the main loop asks, without interrupting
        // it. A kernel before 5.19 does not know these flags.
        builder.dontfork().setup_clamp().setup_cqsize((2 * operations).next_power_of_two().max(QUEUE));
        let plain = builder.clone();
        let ring = builder.setup_coop_taskrun().setup_taskrun_flag().build(QUEUE);
        let ring = ring.or_else(|_| plain.build(QUEUE))?;
        let mut probe = Probe::new();
        // Asked for and not guessed from a version: distributions disable or
        // backport operations.
        ring.submitter().register_probe(&mut probe)?;
        let singles = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE, opcode::Fallocate::CODE];
        let needed = [singles.as_slice(), &[opcode::Readv::CODE, opcode::Writev::CODE]].concat();
        // Without NODROP a full completion queue would lose results, and their
        // bytes would never come back.
        if !needed.iter().all(|code| probe.is_supported(*code)) || !ring.params().is_feature_nodrop() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel's rings cannot do all that is needed"));
        }
        // Threads of the kernel do what has to wait. Those that hang with one
        // device must not use up the threads of another. A kernel before 5.15 has
        // no limit.
        let mut workers = [operations.clamp(64, MOST_WORKERS), 0];
        let _old = ring.submitter().register_iowq_max_workers(&mut workers);
        Ok(Self { ring, flying: Vec::new(), free: Vec::new(), behind: 0, entries: 0, spare: Vec::new() })
    }

    /// Keeps an entry, with those of the queue that are merged with it, and returns the kernel's form of it.
    ///
    /// # Errors
    /// Returns the entry if its file has no descriptor.
    fn keep(&mut self, mut entry: RingEntry, queue: &mut RingEntries) -> Result<squeue::Entry, RingEntry> {
        let Some(file) = entry.file.descriptor().map(|file| Fd(file.as_raw_fd())) else { return Err(entry) };
        let (len, parts) = (entry.range.len().min(LONGEST), entry.parts());
        let (mut others, mut vector) = (Vec::new(), Vec::new());
        if parts > 1 {
            // Reused, so that a merged operation allocates nothing after a while.
            (others, vector) = self.spare.pop().unwrap_or_default();
            others.extend(queue.drain(..parts - 1));
            vector.push(IoVector::of(&mut entry));
            vector.extend(others.iter_mut().map(IoVector::of));
        }
        // The kernel would try the operation in this thread first, and block the
        // main loop; ASYNC goes to its threads at once.
        let flags = if entry.file.may_block() { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
        let told = match entry.operation {
            FileOp::Read { offset } if parts > 1 => {
                opcode::Readv::new(file, vector.as_ptr().cast(), parts as u32).offset(offset).build()
            }
            FileOp::Write { offset } if parts > 1 => {
                opcode::Writev::new(file, vector.as_ptr().cast(), parts as u32).offset(offset).build()
            }
            FileOp::Read { offset } => {
                opcode::Read::new(file, to_be_filled(&mut entry), len as u32).offset(offset).build()
            }
            FileOp::Write { offset } => {
                let from = entry.bytes[entry.range.clone()].as_ptr();
                opcode::Write::new(file, from, len as u32).offset(offset).build()
            }
            FileOp::PunchHole { offset, len } => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                opcode::Fallocate::new(file, len).offset(offset).mode(flags.bits().cast_signed()).build()
            }
            FileOp::Sync(_) => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.flying.push(None);
            self.flying.len() as u32 - 1
        });
        self.flying[number as usize] = Some(KernelOperation { entry, others, vector });
        self.entries += parts;
        Ok(told.flags(flags).user_data(number.into()))
    }
}

impl IoRing for KernelRing {
    fn submit(&mut self, entries: &mut RingEntries) -> io::Result<()> {
        loop {
            while !self.ring.submission().is_full()
                && let Some(entry) = entries.pop_front()
            {
                let kept = self.keep(entry, entries);
                let told = kept.map_err(|entry| io::Error::other(format!("{:?} is no file", entry.file)))?;
                // SAFETY: the address that it names, if any, is that of bytes of the entry that `keep` has put into `flying`,
                // where they stay, neither moved nor freed, until the kernel has said that it is done with them. Those that it
                // fills belong to nobody else (`Arc::get_mut`), and nobody is lent them; those that it reads are behind an `Arc`
                // that is held here, so that nobody can change them. There are at least as many as it says. Its file is open
                // until then, for the entry holds it. Of a merged operation the address is that of a list in `flying`, as long
                // as it says, which nobody changes until then, and all this holds of each of the bytes that the list names.
                let pushed = unsafe { self.ring.submission().push(&told) };
                pushed.expect("there is room");
                self.behind += 1;
            }
            if self.behind == 0 {
                return Ok(());
            }
            match self.ring.submit() {
                Ok(taken) => self.behind -= taken,
                Err(error) => match Errno::from_io_error(&error) {
                    // BUSY says that completions wait, AGAIN that memory is short:
                    // the next turn tries again.
                    Some(Errno::BUSY | Errno::AGAIN | Errno::INTR) => return Ok(()),
                    _ => return Err(error),
                },
            }
        }
    }

    fn reap(&mut self, into: &mut VecDeque<EndedOperation>) {
        let submission = self.ring.submission();
        let unsaid = submission.taskrun() || submission.cq_overflow();
        drop(submission);
        if unsaid {
            // The kernel delivers what it held back during this call. Any error
            // shows up at the next submission.
            if let Ok(taken) = self.ring.submit() {
                self.behind -= taken;
            }
        }
        for told in self.ring.completion() {
            let number = told.user_data() as u32;
            let ended = self.flying[number as usize].take().expect("each is told of once");
            self.free.push(number);
            let KernelOperation { entry, mut others, mut vector } = ended;
            let result = match told.result() {
                error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
                bytes => Ok(bytes as usize),
            };
            self.entries -= 1 + others.len();
            // Of a merged operation each entry gets its own result.
            if others.is_empty() {
                into.push_back((entry, result));
            } else {
                tell_parts(std::iter::once(entry).chain(others.drain(..)), &result, into);
                vector.clear();
                self.spare.push((others, vector));
            }
        }
    }

    fn under_way(&self) -> usize {
        self.entries
    }

    fn is_behind(&self) -> bool {
        self.behind > 0
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the ring is open as long as it is borrowed.
        Some(unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) })
    }
}

impl Drop for KernelRing {
    fn drop(&mut self) {
        // The kernel goes on after the ring is closed, and nobody hears of the
        // ends: freeing would let it write to memory of others.
        std::mem::forget(std::mem::take(&mut self.flying).into_iter().flatten().collect::<Vec<_>>());
    }
}
