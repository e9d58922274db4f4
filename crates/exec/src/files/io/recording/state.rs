//! Holds the state of a recording: its files, and the faults planted in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::inode::{CrashChance, CrashSurvival, RecordedInode, SectorBytes, apply_some};
use super::slip::{ExecutorFault, OmittedSync};
use crate::files::io::file::SyncPoint;

/// Names a fault of one of the coming operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoFault {
    /// Fails the operation as a broken device does.
    Broken,
    /// Fails the operation for want of room. An operation that needs no room does not fail.
    NoRoom,
}

impl IoFault {
    pub(super) const fn errno(self) -> Errno {
        match self {
            Self::Broken => Errno::IO,
            Self::NoRoom => Errno::NOSPC,
        }
    }
}

/// Holds a fault that struck a part of a merged write: it strikes again when that part is written by itself, so that
/// somebody hears of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastingFault {
    pub(super) file: usize,
    /// Says where the part begins, in bytes.
    pub(super) offset: u64,
    pub(super) fault: IoFault,
}

/// Is a crash point: it holds what a start after the crash could find.
#[derive(Debug)]
pub struct CrashPoint {
    /// Counts the operations before it.
    pub operations: u64,
    /// Is true if the power failed; else the process alone ended, and everything written is still there.
    pub power: bool,
    /// Holds what was left.
    pub left: RecordingOs,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RecordedDisk {
    pub(super) inodes: Vec<RecordedInode>,
    pub(super) names: BTreeMap<PathBuf, usize>,
    pub(super) durable_names: BTreeMap<PathBuf, usize>,
}

pub(super) struct RecordingState {
    pub(super) disk: RecordedDisk,
    /// Holds the sectors by the file's name; other files have 512 bytes.
    pub(super) sectors: BTreeMap<PathBuf, SectorBytes>,
    pub(super) chance: Box<dyn CrashChance>,
    /// Counts the operations so far.
    pub(super) operations: u64,
    pub(super) slip: Option<ExecutorFault>,
    /// Lists what a planted fault reported as durable and is not so far.
    pub(super) debts: Vec<OmittedSync>,
    /// Lists the files of which a sync was left out because the next one stands for it.
    pub(super) paired: BTreeSet<usize>,
    pub(super) fault: Option<(u64, IoFault)>,
    pub(super) lasting: Option<LastingFault>,
    pub(super) failing_sync: Option<(SyncPoint, IoFault)>,
    /// Names the file that the last planted fault struck.
    pub(super) struck: Option<PathBuf>,
    /// Keeps one of so many operations as a moment; none if 0.
    pub(super) rarity: u64,
    /// Bounds the operations before which both ends are kept, if they change something.
    pub(super) kept: Range<u64>,
    pub(super) moments: Vec<CrashPoint>,
    pub(super) syncs: BTreeMap<SyncPoint, u64>,
    pub(super) handles: u64,
    /// Makes the random choices of crash points from a number.
    pub(super) fork: ChanceFactory,
}

/// Names the place of an operation.
#[derive(Clone, Copy)]
pub(super) enum OperationPosition<'a> {
    File(usize),
    Path(&'a Path),
}

/// Bounds the operations after which a delayed sync takes effect.
const LATE: u64 = 48;

/// Makes the random choices of what is left at a moment.
pub(super) type ChanceFactory = Arc<dyn Fn(u64) -> Box<dyn CrashChance> + Send + Sync>;

/// Is an operating system in memory. Clones share their state.
#[derive(Clone)]
pub struct RecordingOs {
    pub(super) state: Arc<Mutex<RecordingState>>,
}

impl fmt::Debug for RecordingOs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Recording").field("operations", &state.operations).finish_non_exhaustive()
    }
}

impl RecordingOs {
    /// Makes a recording without files. `fork` makes random choices from a number.
    pub fn new(fork: impl Fn(u64) -> Box<dyn CrashChance> + Send + Sync + 'static) -> Self {
        let chance = fork(0);
        Self::of(RecordedDisk::default(), BTreeMap::new(), chance, Arc::new(fork))
    }

    pub(super) fn of(
        disk: RecordedDisk,
        sectors: BTreeMap<PathBuf, SectorBytes>,
        chance: Box<dyn CrashChance>,
        fork: ChanceFactory,
    ) -> Self {
        let state = RecordingState {
            disk,
            sectors,
            chance,
            operations: 0,
            slip: None,
            debts: Vec::new(),
            paired: BTreeSet::new(),
            fault: None,
            lasting: None,
            failing_sync: None,
            struck: None,
            rarity: 0,
            kept: 0..0,
            moments: Vec::new(),
            syncs: BTreeMap::new(),
            handles: 0,
            fork,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, RecordingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordingState {
    /// Begins an operation. A crash point may be recorded: before the operation, which is after the last one.
    pub(super) fn begin(&mut self, needs_room: bool, changes: bool, at: OperationPosition<'_>) -> io::Result<()> {
        if self.rarity > 0 && self.chance.below(self.rarity) == 0 {
            // An end of the process leaves all writes, so losses of power are drawn
            // three times as often.
            let power = self.chance.below(4) > 0;
            let left = self.end(power);
            self.moments.push(CrashPoint { operations: self.operations, power, left });
        }
        if changes && self.kept.contains(&self.operations) {
            self.keep_both_ends();
        }
        self.operations += 1;
        // After counting: what falls due now takes effect before the operation
        // itself.
        self.pay(None);
        let Some((left, fault)) = &mut self.fault else { return Ok(()) };
        if !changes || *fault == IoFault::NoRoom && !needs_room {
            return Ok(());
        }
        if *left > 0 {
            *left -= 1;
            return Ok(());
        }
        let errno = fault.errno();
        // A broken file fails anyway, so a fault there would go unnoticed.
        if matches!(at, OperationPosition::File(file) if self.disk.inodes[file].broken) {
            return Ok(());
        }
        self.fault = None;
        self.strike(at);
        Err(errno.into())
    }

    /// Takes the fault that has struck what was written there before.
    pub(super) fn take_lasting(&mut self, file: usize, offset: u64) -> Option<IoFault> {
        self.lasting.take_if(|lasting| lasting.file == file && lasting.offset == offset).map(|lasting| lasting.fault)
    }

    /// Keeps what both ends leave. Their chance is their own, so that what follows is what it would be without them.
    fn keep_both_ends(&mut self) {
        let own = (self.fork)(self.operations);
        let others = std::mem::replace(&mut self.chance, own);
        for power in [false, true] {
            let left = self.end(power);
            self.moments.push(CrashPoint { operations: self.operations, power, left });
        }
        self.chance = others;
    }

    /// Records that a planted fault strikes here.
    pub(super) fn strike(&mut self, at: OperationPosition<'_>) {
        self.struck = Some(match at {
            OperationPosition::Path(path) => path.to_owned(),
            OperationPosition::File(file) => self.path_of(file),
        });
    }

    /// Returns the name of a file; an empty path if it has none any more.
    pub(super) fn path_of(&self, file: usize) -> PathBuf {
        let named = self.disk.names.iter().find(|(_, inode)| **inode == file);
        named.map(|(path, _)| path.clone()).unwrap_or_default()
    }

    pub(super) fn end(&mut self, power: bool) -> RecordingOs {
        if power {
            let survival = CrashSurvival::draw(&mut *self.chance);
            return self.cut(survival);
        }
        // The process alone ends: the page cache keeps everything that was written.
        self.left(self.disk.clone())
    }

    pub(super) fn cut(&mut self, survival: CrashSurvival) -> RecordingOs {
        let mut disk = RecordedDisk::default();
        for (at, inode) in self.disk.inodes.iter().enumerate() {
            let mut image = inode.durable.clone();
            apply_some(&mut image, &inode.pending, inode.sectors, at, survival, &mut *self.chance);
            disk.inodes.push(RecordedInode { broken: inode.broken, ..RecordedInode::new(image, inode.sectors) });
        }
        // Names that are not durable: each is made, or taken away, or not.
        let names = self.disk.names.keys().chain(self.disk.durable_names.keys());
        for path in names.collect::<BTreeSet<_>>() {
            let (now, durable) = (self.disk.names.get(path), self.disk.durable_names.get(path));
            let survives = match survival {
                CrashSurvival::Nothing => false,
                CrashSurvival::Everything => true,
                // Each undurable name is decided by itself: a file system may write
                // names in any order.
                _ => now != durable && self.chance.below(2) == 0,
            };
            if let Some(at) = if survives { now } else { durable } {
                disk.names.insert(path.clone(), *at);
            }
        }
        disk.durable_names.clone_from(&disk.names);
        self.left(disk)
    }

    pub(super) fn left(&mut self, mut disk: RecordedDisk) -> RecordingOs {
        for inode in &mut disk.inodes {
            // Nobody has it open any more, and no sync of it is under way.
            (inode.locked_by, inode.hangs, inode.sync_begun) = (None, false, None);
            // A later fault tells changes of this life from those that a start
            // found by this number.
            inode.settled = inode.pending.len();
        }
        let chance = (self.fork)(self.chance.below(u64::MAX));
        let left = RecordingOs::of(disk, self.sectors.clone(), chance, Arc::clone(&self.fork));
        // The fault goes on after the crash: it is one of the program, not of one
        // run.
        left.plant(self.slip);
        left
    }
}

impl RecordingState {
    /// Ends a sync of a file well, except as a planted fault says.
    pub(super) fn sync(&mut self, file: usize, at: SyncPoint, lengths: bool) {
        // A sync covers what an earlier one was told to have covered.
        self.pay(Some(file));
        let slip = self.slip.filter(|slip| slip.of().is_none_or(|of| of == at));
        let due =
            self.operations + 1 + if slip.is_some_and(ExecutorFault::is_late) { self.chance.below(LATE) } else { 0 };
        let inode = &mut self.disk.inodes[file];
        let end = inode.covered_by_sync();
        let (worker, settled) = (inode.worker, inode.settled);
        match slip {
            Some(ExecutorFault::Missing(_)) => {}
            // Only the first of two is left out: inserting finds the second one.
            Some(ExecutorFault::Paired(_)) if self.paired.insert(file) => {}
            Some(ExecutorFault::Late(_)) => self.debts.push(OmittedSync { due, file, end, lengths, held: Vec::new() }),
            Some(ExecutorFault::Held(_)) => {
                let held = inode.take_back(end);
                self.debts.push(OmittedSync { due, file, end: 0, lengths, held });
            }
            Some(ExecutorFault::TooSoon(_)) => {
                inode.sync(lengths, end, |index, pending| index < settled || pending.worker != worker);
            }
            Some(ExecutorFault::HeadFirst(_)) => {
                inode.sync_heads(end);
                self.debts.push(OmittedSync { due, file, end: inode.pending.len(), lengths, held: Vec::new() });
            }
            Some(ExecutorFault::NotAnew(_)) => {
                inode.pending.truncate(settled);
                inode.sync(lengths, end, |_, _| true);
            }
            // The last write of this worker ended while a sync ran: exactly the one
            // that the fault counts as covered.
            Some(ExecutorFault::BegunBefore(_))
                if inode.pending.iter().rfind(|one| one.worker == worker).is_some_and(|one| one.beside) => {}
            Some(ExecutorFault::OwnAlone) => inode.sync(lengths, end, |_, pending| pending.worker == worker),
            Some(ExecutorFault::ContentAlone(_)) => inode.sync(false, end, |_, _| true),
            _ => {
                self.paired.remove(&file);
                inode.sync(lengths, end, |_, _| true);
            }
        }
        let inode = &mut self.disk.inodes[file];
        inode.settled = inode.pending.len();
    }

    /// Makes durable what was reported to be so and is due by now, or belongs to the file `of`.
    pub(super) fn pay(&mut self, of: Option<usize>) {
        if self.debts.is_empty() {
            return;
        }
        for debt in self.debts.extract_if(.., |debt| debt.due <= self.operations || of == Some(debt.file)) {
            let inode = &mut self.disk.inodes[debt.file];
            // A broken file takes no more writes, so nothing late reaches it.
            if inode.broken {
                continue;
            }
            inode.sync(debt.lengths, debt.end, |_, _| true);
            for pending in debt.held {
                inode.apply(pending.change.clone());
                inode.sync_last(&pending.change);
            }
        }
    }
}
