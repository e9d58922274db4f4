//! Real files that hang when they are told to, and that say how they are used.

use std::collections::{BTreeSet, VecDeque};
use std::fs::TryLockError;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use destage_exec::{
    AlignedBuffer, EndedOperation, FileIdentity, FileOp, IoRing, OsFile, OsInterface, PathPresence, RealOs,
    RingEntries, RingEntry, SyncPoint,
};

/// Names the calls that can hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    Open,
    Read,
    Write,
    Sync(SyncPoint),
}

/// An operating system with real files. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    hanging: Mutex<BTreeSet<(PathBuf, Call)>>,
    changed: Condvar,
    /// Calls that hang now.
    hung: AtomicUsize,
    /// Reads under way, and so many that wait for each other; none if 0.
    reads: Mutex<(usize, usize)>,
    met: Condvar,
    /// Reads and writes of whole pages whose bytes are not aligned.
    unaligned: AtomicUsize,
    aligned: AtomicUsize,
    /// Names the file and the call at which a thread panics.
    panicking: OnceLock<(PathBuf, Call)>,
    /// Gives the kernel's ring this pipe in place of a file.
    pipe: OnceLock<(Mutex<PathBuf>, OwnedFd)>,
}

impl Probe {
    /// From now on this call hangs on this file.
    pub fn hang(&self, path: &Path, call: Call) {
        self.shared.hanging.lock().unwrap().insert((path.to_owned(), call));
    }

    /// Nothing hangs any more.
    pub fn release(&self) {
        self.shared.hanging.lock().unwrap().clear();
        self.shared.changed.notify_all();
    }

    /// From now on the thread panics that asks for this of this file.
    pub fn panic(&self, path: &Path, call: Call) {
        self.shared.panicking.set((path.to_owned(), call)).expect("one file panics");
    }

    /// From now on a ring reads from this pipe, and so hangs until something is written there, in place of the file.
    pub fn read_from(&self, path: &Path, pipe: OwnedFd) {
        self.shared.pipe.set((Mutex::new(path.to_owned()), pipe)).expect("one file is a pipe");
    }

    /// Reads from that pipe in place of this file from now on, and of no other.
    pub fn read_from_now(&self, path: &Path) {
        let (of, _) = self.shared.pipe.get().expect("there is a pipe");
        path.clone_into(&mut of.lock().unwrap());
    }

    /// Waits until so many calls hang.
    pub fn await_hung(&self, calls: usize) {
        while self.shared.hung.load(Ordering::Relaxed) < calls {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// So many reads of any files wait for each other from now on: fewer at a time fail.
    pub fn let_reads_meet(&self, count: usize) {
        *self.shared.reads.lock().unwrap() = (0, count);
    }

    /// Reads and writes of whole pages: from or to aligned bytes, and others.
    pub fn alignment(&self) -> (usize, usize) {
        (self.shared.aligned.load(Ordering::Relaxed), self.shared.unaligned.load(Ordering::Relaxed))
    }

    fn pass(&self, path: &Path, call: Call) {
        let panics = self.shared.panicking.get().is_some_and(|(other, what)| other == path && *what == call);
        assert!(!panics, "told to panic over {}", path.display());
        let mut hanging = self.shared.hanging.lock().unwrap();
        let hangs = |hanging: &BTreeSet<_>| hanging.contains(&(path.to_owned(), call));
        if hangs(&hanging) {
            self.shared.hung.fetch_add(1, Ordering::Relaxed);
            while hangs(&hanging) {
                hanging = self.shared.changed.wait(hanging).unwrap();
            }
            self.shared.hung.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn meet(&self) -> io::Result<()> {
        let mut reads = self.shared.reads.lock().unwrap();
        let count = reads.1;
        if count == 0 {
            return Ok(());
        }
        reads.0 += 1;
        self.shared.met.notify_all();
        let limit = Duration::from_secs(10);
        let (_reads, timeout) = self.shared.met.wait_timeout_while(reads, limit, |reads| reads.0 < count).unwrap();
        if timeout.timed_out() { Err(io::Error::other("nobody else reads meanwhile")) } else { Ok(()) }
    }

    fn look(&self, bytes: &[u8]) {
        if bytes.len().is_multiple_of(AlignedBuffer::ALIGN) {
            let is_aligned = bytes.as_ptr().addr().is_multiple_of(AlignedBuffer::ALIGN);
            let counter = if is_aligned { &self.shared.aligned } else { &self.shared.unaligned };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The kernel's ring, of which ends are told when what they are ends of does not hang.
#[derive(Debug)]
struct ProbedRing {
    os: Probe,
    ring: Box<dyn IoRing>,
    /// Ends that hang.
    held: VecDeque<EndedOperation>,
    /// Reads that wait for each other, since when.
    reads: Vec<EndedOperation>,
    meet_by: Option<Instant>,
    /// Always readable: who holds ends back is asked again and again.
    awake: (UnixStream, UnixStream),
}

impl ProbedRing {
    fn new(os: Probe, operations: u32) -> io::Result<Self> {
        let (mut near, far) = UnixStream::pair()?;
        near.write_all(&[1])?;
        let (ring, held) = (RealOs.ring(operations)?, VecDeque::new());
        Ok(Self { os, ring, held, reads: Vec::new(), meet_by: None, awake: (far, near) })
    }

    /// Returns true if the operation of an entry hangs.
    fn hangs(&self, entry: &RingEntry) -> bool {
        let call = match entry.operation {
            FileOp::Read { .. } => Call::Read,
            FileOp::Write { .. } => Call::Write,
            FileOp::Sync(at) => Call::Sync(at),
            FileOp::PunchHole { .. } => return false,
        };
        let file = entry.file.identity().ok();
        let same = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino())) == file;
        self.os.shared.hanging.lock().unwrap().iter().any(|(path, other)| *other == call && same(path))
    }
}

impl IoRing for ProbedRing {
    fn submit(&mut self, entries: &mut RingEntries) -> io::Result<()> {
        for entry in &*entries {
            if matches!(entry.operation, FileOp::Read { .. } | FileOp::Write { .. }) {
                self.os.look(&entry.bytes[entry.range.clone()]);
            }
        }
        self.ring.submit(entries)
    }

    fn reap(&mut self, into: &mut VecDeque<EndedOperation>) {
        let mut ended = std::mem::take(&mut self.held);
        let hung = ended.len();
        self.ring.reap(&mut ended);
        let meet = self.os.shared.reads.lock().unwrap().1;
        for ended in ended {
            if self.hangs(&ended.0) {
                self.held.push_back(ended);
            } else if meet > 0 && matches!(ended.0.operation, FileOp::Read { .. }) {
                self.reads.push(ended);
            } else {
                into.push_back(ended);
            }
        }
        if !self.reads.is_empty() {
            let by = *self.meet_by.get_or_insert_with(|| Instant::now() + Duration::from_secs(10));
            if self.reads.len() >= meet {
                into.extend(self.reads.drain(..));
            } else if Instant::now() >= by {
                let alone = || Err(io::Error::other("nobody else reads meanwhile"));
                into.extend(self.reads.drain(..).map(|(entry, _)| (entry, alone())));
            }
        }
        let counter = &self.os.shared.hung;
        counter.fetch_add(self.held.len(), Ordering::Relaxed);
        counter.fetch_sub(hung, Ordering::Relaxed);
        if into.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn under_way(&self) -> usize {
        self.ring.under_way() + self.held.len() + self.reads.len()
    }

    fn is_behind(&self) -> bool {
        self.ring.is_behind()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.awake.0.as_fd())
    }
}

impl OsInterface for Probe {
    fn exists(&self, path: &Path) -> io::Result<bool> {
        RealOs.exists(path)
    }

    fn is_block_device(&self, path: &Path) -> bool {
        RealOs.is_block_device(path)
    }

    fn open(&self, path: &Path, presence: PathPresence) -> io::Result<Arc<dyn OsFile>> {
        self.pass(path, Call::Open);
        let file = RealOs.open(path, presence)?;
        Ok(Arc::new(ProbedFile { os: self.clone(), file, path: path.to_owned() }))
    }

    fn ring(&self, operations: u32) -> io::Result<Box<dyn IoRing>> {
        Ok(Box::new(ProbedRing::new(self.clone(), operations)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealOs.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealOs.rename(from, to)
    }

    fn sync_folder(&self, folder: &Path, at: SyncPoint) -> io::Result<()> {
        RealOs.sync_folder(folder, at)
    }

    fn draw(&self) -> [u8; 16] {
        RealOs.draw()
    }
}

#[derive(Debug)]
struct ProbedFile {
    os: Probe,
    file: Arc<dyn OsFile>,
    path: PathBuf,
}

impl OsFile for ProbedFile {
    fn may_block(&self) -> bool {
        self.file.may_block()
    }

    fn length(&self) -> io::Result<Option<u64>> {
        self.file.length()
    }

    fn capacity(&self) -> io::Result<Option<u64>> {
        self.file.capacity()
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.file.identity()
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        self.file.try_lock()
    }

    fn unlock(&self) {
        self.file.unlock();
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self.os.shared.pipe.get() {
            Some((path, pipe)) if *path.lock().unwrap() == self.path => Some(pipe.as_fd()),
            _ => self.file.descriptor(),
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.file.reserve(bytes)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.os.pass(&self.path, Call::Read);
        self.os.meet()?;
        self.os.look(bytes);
        self.file.read_exact_at(bytes, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.os.pass(&self.path, Call::Write);
        self.os.look(bytes);
        self.file.write_all_at(bytes, offset)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch_hole(offset, len)
    }

    fn sync_data(&self, at: SyncPoint) -> io::Result<()> {
        self.os.pass(&self.path, Call::Sync(at));
        self.file.sync_data(at)
    }

    fn sync_all(&self, at: SyncPoint) -> io::Result<()> {
        self.os.pass(&self.path, Call::Sync(at));
        self.file.sync_all(at)
    }
}
