//! The kernel's ring.
//!
//! Only this file holds unsafe code, of one kind: an operation is given to the kernel with the address of bytes that the
//! kernel reads or fills until it says that the operation has ended, whatever becomes of the executor meanwhile. So the
//! entry, which owns those bytes and the file, stays in `flying` from before the kernel hears of it until its completion is
//! taken out, and nobody is given a reference to it; and a ring that is dropped before all have ended drops none of
//! the others. The same holds of all entries of a merged operation, and of the list of addresses that it is given with.
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

/// Operations that are given to the kernel in one call at most.
const QUEUE: u32 = 1024;
/// Bytes of a read or write at most; the rest follows.
const LONGEST: usize = 1 << 30;
/// Threads at most that the kernel may have for what it cannot do without waiting: see [`KernelRing::new`].
const MOST_WORKERS: u32 = 4096;

/// A ring of the kernel's.
pub(crate) struct KernelRing {
    ring: IoUring,
    /// By the number that the kernel knows them by.
    flying: Vec<Option<KernelOperation>>,
    free: Vec<u32>,
    /// Counts the operations that are flying and that the kernel has not taken.
    behind: usize,
    /// Counts the entries that are flying, of which several may be one operation.
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
    /// A ring for about so many operations at a time; more find room all the same.
    ///
    /// # Errors
    /// If the kernel has none, or does not let this process have one.
    pub(crate) fn new(operations: u32) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        // What has ended is looked at when the main loop asks, not by interrupting it. A kernel before 5.19 knows no better.
        builder.dontfork().setup_clamp().setup_cqsize((2 * operations).next_power_of_two().max(QUEUE));
        let plain = builder.clone();
        let ring = builder.setup_coop_taskrun().setup_taskrun_flag().build(QUEUE);
        let ring = ring.or_else(|_| plain.build(QUEUE))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let singles = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE, opcode::Fallocate::CODE];
        let needed = [singles.as_slice(), &[opcode::Readv::CODE, opcode::Writev::CODE]].concat();
        if !needed.iter().all(|code| probe.is_supported(*code)) || !ring.params().is_feature_nodrop() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel's rings cannot do all that is needed"));
        }
        // What has to wait is done by threads of the kernel's. Those that hang with one device must not keep
        // those from being started that another needs. A kernel before 5.15 has as many as it likes.
        let mut workers = [operations.clamp(64, MOST_WORKERS), 0];
        let _old = ring.submitter().register_iowq_max_workers(&mut workers);
        Ok(Self { ring, flying: Vec::new(), free: Vec::new(), behind: 0, entries: 0, spare: Vec::new() })
    }

    /// Keeps an entry, with those of the queue that are merged with it, and says how the kernel is told of it.
    ///
    /// # Errors
    /// The entry, if its file is none of the kernel's.
    fn keep(&mut self, mut entry: RingEntry, queue: &mut RingEntries) -> Result<squeue::Entry, RingEntry> {
        let Some(file) = entry.file.descriptor().map(|file| Fd(file.as_raw_fd())) else { return Err(entry) };
        let (len, parts) = (entry.range.len().min(LONGEST), entry.parts());
        let (mut others, mut vector) = (Vec::new(), Vec::new());
        if parts > 1 {
            (others, vector) = self.spare.pop().unwrap_or_default();
            others.extend(queue.drain(..parts - 1));
            vector.push(IoVector::of(&mut entry));
            vector.extend(others.iter_mut().map(IoVector::of));
        }
        // The kernel hands what it is asked to a thread of its own at once then, and tries nothing itself.
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
                    // Tried again when something has ended, or at once.
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
            // What the kernel could not say before is said now; whatever is wrong is found when something is submitted.
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
        // The kernel goes on with them though the ring is gone, and nobody will hear of their end.
        std::mem::forget(std::mem::take(&mut self.flying).into_iter().flatten().collect::<Vec<_>>());
    }
}
