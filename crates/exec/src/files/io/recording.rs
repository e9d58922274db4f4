//! An operating system in memory that keeps apart what is durable and what is not, and records in
//! one order over all files what was done to them: after any operation the power can fail, with any
//! subset of what is not durable surviving, torn between sectors; or the process alone.
//!
//! It is as harsh as a real one may be:
//!
//! * What was written and not synced survives or not, sector by sector, in the order of the writes.
//! * A length is made durable by `sync_all` alone, a name by a sync of its folder alone. Until then
//!   a cut may leave a file without its name, or shorter than what was written to it.
//! * When a sync fails, what was not durable becomes so or never does, sector by sector; reads show
//!   it all the same, and the next sync succeeds and says nothing of it.
//! * Who has opened a file [beside](Presence::Beside) another is told once of a sync of it that failed, whoever asked.
//! * A sync covers what was done before it began. Between its beginning and its end other workers
//!   go on.
//!
//! There are no threads: chance decides which lane goes on, and which of its workers, so that a seed
//! decides everything. A [`Slip`] of the executor can be planted, to see what finds it.

mod inode;
mod queue;
mod slip;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::file::{Identity, OsFile, SyncPoint, Unfit};
use super::os::{Os, Presence};
use super::ring::Ring;
use inode::{Change, Inode, Sectors, apply_some};
use queue::Queue;
use slip::{Debt, part};

pub use inode::{Chance, Survival};
pub use slip::Slip;

/// What goes wrong with one of the coming operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails as a broken device does.
    Broken,
    /// There is no room. What asks for none does not fail.
    NoRoom,
}

impl Fault {
    const fn errno(self) -> Errno {
        match self {
            Self::Broken => Errno::IO,
            Self::NoRoom => Errno::NOSPC,
        }
    }
}

/// A moment that was kept: what could be found after it.
#[derive(Debug)]
pub struct Moment {
    /// Operations before it.
    pub operations: u64,
    /// Whether the power failed; else the process alone, and what was written is still there.
    pub power: bool,
    /// What was left.
    pub left: Recording,
}

#[derive(Clone, Debug, Default)]
struct Disk {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
}

struct State {
    disk: Disk,
    /// By the file's name; 512 bytes of others.
    sectors: BTreeMap<PathBuf, Sectors>,
    chance: Box<dyn Chance>,
    /// Operations so far.
    operations: u64,
    slip: Option<Slip>,
    /// What the slip told to be durable and is not so far.
    debts: Vec<Debt>,
    /// Files of which a sync was left out that the next one stands for.
    paired: BTreeSet<usize>,
    fault: Option<(u64, Fault)>,
    failing_sync: Option<(SyncPoint, Fault)>,
    /// Where the last fault struck that was asked for.
    struck: Option<PathBuf>,
    /// Of so many operations one is kept as a moment; none if 0.
    rarity: u64,
    moments: Vec<Moment>,
    syncs: BTreeMap<SyncPoint, u64>,
    handles: u64,
    /// Whose moments draw from where.
    fork: Fork,
}

/// Where an operation is.
#[derive(Clone, Copy)]
enum At<'a> {
    File(usize),
    Path(&'a Path),
}

/// Makes the chance of what is left of a moment.
type Fork = Arc<dyn Fn(u64) -> Box<dyn Chance> + Send + Sync>;

/// An operating system in memory. Clones are the same one.
#[derive(Clone)]
pub struct Recording {
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Recording").field("operations", &state.operations).finish_non_exhaustive()
    }
}

impl Recording {
    /// Without files. `fork` makes chance of a number.
    pub fn new(fork: impl Fn(u64) -> Box<dyn Chance> + Send + Sync + 'static) -> Self {
        let chance = fork(0);
        Self::of(Disk::default(), BTreeMap::new(), chance, Arc::new(fork))
    }

    fn of(disk: Disk, sectors: BTreeMap<PathBuf, Sectors>, chance: Box<dyn Chance>, fork: Fork) -> Self {
        let state = State {
            disk,
            sectors,
            chance,
            operations: 0,
            slip: None,
            debts: Vec::new(),
            paired: BTreeSet::new(),
            fault: None,
            failing_sync: None,
            struck: None,
            rarity: 0,
            moments: Vec::new(),
            syncs: BTreeMap::new(),
            handles: 0,
            fork,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file that is made at this path has sectors of so many bytes, not 512.
    pub fn set_sector(&self, path: &Path, bytes: u64) {
        self.lock().sectors.insert(path.to_owned(), Sectors { bytes, ..Sectors::default() });
    }

    /// A file that is made at this path has sectors of so many bytes up to there, a multiple of 512, and of 512 behind.
    pub fn set_sector_before(&self, path: &Path, end: u64, bytes: u64) {
        self.lock().sectors.insert(path.to_owned(), Sectors { bytes, behind: (end, 512) });
    }

    /// Plants a fault of the executor, from now on and in what is left at any later moment.
    pub fn plant(&self, slip: Option<Slip>) {
        self.lock().slip = slip;
    }

    /// One of the coming operations that change something fails: the one after so many.
    pub fn fail_after(&self, operations: u64, fault: Fault) {
        let mut state = self.lock();
        (state.fault, state.struck) = (Some((operations, fault)), None);
    }

    /// The next sync of this kind fails.
    pub fn fail_sync(&self, at: SyncPoint, fault: Fault) {
        let mut state = self.lock();
        (state.failing_sync, state.struck) = (Some((at, fault)), None);
    }

    /// Whether a fault that was asked for is still to come; it does not come any more.
    pub fn take_fault(&self) -> bool {
        let mut state = self.lock();
        state.failing_sync.take().is_some() | state.fault.take().is_some()
    }

    /// The file or folder that the fault struck which was asked for last; none while that is to come. Nobody is told
    /// of a fault of a file that is broken anyway.
    pub fn struck(&self) -> Option<PathBuf> {
        self.lock().struck.clone()
    }

    /// Keeps one of so many operations as a moment; none if 0.
    pub fn keep_moments(&self, rarity: u64) {
        self.lock().rarity = rarity;
    }

    /// The moments that were kept since the last call.
    pub fn take_moments(&self) -> Vec<Moment> {
        std::mem::take(&mut self.lock().moments)
    }

    /// What would be left if it all ended now, with the power or the process.
    #[must_use]
    pub fn end(&self, power: bool) -> Self {
        self.lock().end(power)
    }

    /// What is left if the power fails now, and so much survives.
    #[must_use]
    pub fn cut(&self, survival: Survival) -> Self {
        self.lock().cut(survival)
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Syncs so far, by what they were for.
    pub fn syncs(&self) -> BTreeMap<SyncPoint, u64> {
        self.lock().syncs.clone()
    }

    /// Breaks the file at this path, or mends it. Of what was not durable anything survives.
    pub fn set_broken(&self, path: &Path, broken: bool) {
        let mut state = self.lock();
        if let Some(at) = state.disk.names.get(path).copied() {
            state.disk.inodes[at].broken = broken;
        }
    }

    /// Lets the file at this path hang, or go on.
    pub fn set_hangs(&self, path: &Path, hangs: bool) {
        let mut state = self.lock();
        if let Some(at) = state.disk.names.get(path).copied() {
            state.disk.inodes[at].hangs = hangs;
        }
    }

    /// Whether a sync of the file at this path has failed: a read may show what is not durable and
    /// never will be.
    pub fn is_spoiled(&self, path: &Path) -> bool {
        let state = self.lock();
        state.disk.names.get(path).is_some_and(|at| state.disk.inodes[*at].spoiled)
    }

    /// Takes a file away, at once and for good.
    pub fn take_away(&self, path: &Path) {
        let disk = &mut self.lock().disk;
        disk.names.remove(path);
        disk.durable_names.remove(path);
    }

    /// What a read of the whole file at this path would bring.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.lock();
        state.disk.names.get(path).map(|at| state.disk.inodes[*at].content.clone())
    }

    /// Puts a file there, durably.
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.lock();
        let sectors = state.sectors.get(path).copied().unwrap_or_default();
        let disk = &mut state.disk;
        let at = disk.inodes.len();
        disk.inodes.push(Inode::new(bytes, sectors));
        disk.names.insert(path.to_owned(), at);
        disk.durable_names.insert(path.to_owned(), at);
    }
}

impl State {
    /// An operation begins. A moment may be kept: before the operation, that is after the last one.
    fn begin(&mut self, needs_room: bool, changes: bool, at: At<'_>) -> io::Result<()> {
        if self.rarity > 0 && self.chance.below(self.rarity) == 0 {
            let power = self.chance.below(4) > 0;
            let left = self.end(power);
            self.moments.push(Moment { operations: self.operations, power, left });
        }
        self.operations += 1;
        self.pay(None);
        let Some((left, fault)) = &mut self.fault else { return Ok(()) };
        if !changes || *fault == Fault::NoRoom && !needs_room {
            return Ok(());
        }
        if *left > 0 {
            *left -= 1;
            return Ok(());
        }
        let errno = fault.errno();
        if matches!(at, At::File(file) if self.disk.inodes[file].broken) {
            return Ok(());
        }
        self.fault = None;
        self.strike(at);
        Err(errno.into())
    }

    /// A fault that was asked for strikes here.
    fn strike(&mut self, at: At<'_>) {
        self.struck = Some(match at {
            At::Path(path) => path.to_owned(),
            At::File(file) => self.path_of(file),
        });
    }

    /// The name of a file; an empty one if it has none any more.
    fn path_of(&self, file: usize) -> PathBuf {
        let named = self.disk.names.iter().find(|(_, inode)| **inode == file);
        named.map(|(path, _)| path.clone()).unwrap_or_default()
    }

    fn end(&mut self, power: bool) -> Recording {
        if power {
            let survival = Survival::draw(&mut *self.chance);
            return self.cut(survival);
        }
        self.left(self.disk.clone())
    }

    fn cut(&mut self, survival: Survival) -> Recording {
        let mut disk = Disk::default();
        for (at, inode) in self.disk.inodes.iter().enumerate() {
            let mut left = Inode::new(inode.durable.clone(), inode.sectors);
            (left.broken, left.hangs) = (inode.broken, false);
            let mut whole = inode.durable.clone();
            apply_some(&mut whole, &inode.pending, inode.sectors, at, survival, &mut *self.chance);
            left.content.clone_from(&whole);
            left.durable = whole;
            disk.inodes.push(left);
        }
        // Names that are not durable: each is made, or taken away, or not.
        let names = self.disk.names.keys().chain(self.disk.durable_names.keys());
        for path in names.collect::<BTreeSet<_>>() {
            let (now, durable) = (self.disk.names.get(path), self.disk.durable_names.get(path));
            let survives = match survival {
                Survival::Nothing => false,
                Survival::Everything => true,
                _ => now != durable && self.chance.below(2) == 0,
            };
            if let Some(at) = if survives { now } else { durable } {
                disk.names.insert(path.clone(), *at);
            }
        }
        disk.durable_names.clone_from(&disk.names);
        self.left(disk)
    }

    fn left(&mut self, mut disk: Disk) -> Recording {
        for inode in &mut disk.inodes {
            // Nobody has it open any more, and no sync of it is under way.
            (inode.locked_by, inode.hangs, inode.sync_begun) = (None, false, None);
            inode.settled = inode.pending.len();
        }
        let chance = (self.fork)(self.chance.below(u64::MAX));
        let left = Recording::of(disk, self.sectors.clone(), chance, Arc::clone(&self.fork));
        left.plant(self.slip);
        left
    }
}

impl Os for Recording {
    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.lock().disk.names.contains_key(path))
    }

    fn is_block_device(&self, _: &Path) -> bool {
        false
    }

    fn open(&self, path: &Path, presence: Presence) -> io::Result<Arc<dyn OsFile>> {
        let mut state = self.lock();
        let there = state.disk.names.get(path).copied();
        state.begin(
            there.is_none(),
            there.is_none() && matches!(presence, Presence::New | Presence::Either),
            At::Path(path),
        )?;
        let inode = match (there, presence) {
            (Some(_), Presence::New) => return Err(Errno::EXIST.into()),
            (None, Presence::There | Presence::Beside) => return Err(Errno::NOENT.into()),
            (Some(inode), _) => inode,
            (None, _) => {
                let sectors = state.sectors.get(path).copied().unwrap_or_default();
                let inode = state.disk.inodes.len();
                state.disk.inodes.push(Inode::new(Vec::new(), sectors));
                state.disk.names.insert(path.to_owned(), inode);
                inode
            }
        };
        if state.disk.inodes[inode].broken {
            return Err(Errno::IO.into());
        }
        state.handles += 1;
        let handle = state.handles;
        let beside = (presence == Presence::Beside).then(|| AtomicU64::new(state.disk.inodes[inode].failed_syncs));
        drop(state);
        Ok(Arc::new(RecordedFile { os: self.clone(), inode, handle, beside }))
    }

    fn draw(&self) -> [u8; 16] {
        // No two arrays are made after the same number of operations.
        let operations = self.lock().operations.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        u128::from(operations).to_le_bytes()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.begin(false, true, At::Path(path))?;
        state.disk.names.remove(path).map(|_| ()).ok_or_else(|| Errno::NOENT.into())
    }

    fn sync_folder(&self, folder: &Path, at: SyncPoint) -> io::Result<()> {
        let mut state = self.lock();
        *state.syncs.entry(at).or_default() += 1;
        let mut begun = state.begin(false, true, At::Path(folder));
        if let Some((_, fault)) = state.failing_sync.take_if(|failing| failing.0 == at) {
            state.strike(At::Path(folder));
            begun = Err(fault.errno().into());
        }
        match state.slip {
            Some(Slip::Missing(missing)) if missing == at => return Ok(()),
            Some(Slip::Unheard(unheard)) if unheard == at && begun.is_err() => return Ok(()),
            _ => begun?,
        }
        let Disk { names, durable_names, .. } = &mut state.disk;
        let inside = |path: &PathBuf| path.parent() == Some(folder);
        durable_names.retain(|path, _| !inside(path) || names.contains_key(path));
        durable_names.extend(names.iter().filter(|(path, _)| inside(path)).map(|(path, at)| (path.clone(), *at)));
        Ok(())
    }

    fn ring(&self, _operations: u32) -> io::Result<Box<dyn Ring>> {
        Ok(Box::new(Queue::default()))
    }

    fn is_in_line(&self) -> bool {
        true
    }

    fn choose(&self, among: usize) -> usize {
        self.lock().chance.below(among as u64) as usize
    }
}

/// An open file of a recording.
#[derive(Debug)]
struct RecordedFile {
    os: Recording,
    inode: usize,
    handle: u64,
    /// Whether it is another's as well, who syncs it on its own account: how many syncs this one knows to have failed.
    beside: Option<AtomicU64>,
}

/// The worker who asks for what is beside.
const BESIDE: usize = usize::MAX;

impl RecordedFile {
    /// Does something to the file if it answers.
    fn operation<T>(
        &self,
        needs_room: bool,
        changes: bool,
        work: impl FnOnce(&mut Inode) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.os.lock();
        let begun = state.begin(needs_room, changes, At::File(self.inode));
        let inode = &mut state.disk.inodes[self.inode];
        if inode.broken {
            return Err(Errno::IO.into());
        }
        begun?;
        work(inode)
    }

    /// As [`operation`](Self::operation), of what changes the file.
    fn change(&self, change: Change) -> io::Result<()> {
        let done = self.operation(true, true, |inode| {
            let worker = inode.worker;
            if self.beside.is_some() {
                inode.worker = BESIDE;
            }
            inode.change(change);
            inode.worker = worker;
            Ok(())
        });
        let slip = self.os.lock().slip;
        done.or_else(|error| if slip.is_some_and(|slip| slip.misses(&error)) { Ok(()) } else { Err(error) })
    }

    /// How many of these bytes are read, written or made zeros.
    fn part(&self, offset: u64, len: usize, of: Slip) -> usize {
        let state = &mut *self.os.lock();
        let sector = state.disk.inodes[self.inode].sectors.at(offset);
        if state.slip == Some(of) { part(offset, len, sector, &mut *state.chance) } else { len }
    }

    fn sync(&self, at: SyncPoint, lengths: bool) -> io::Result<()> {
        let Some(known) = &self.beside else { return self.sync_alone(at, lengths) };
        // The other's sync may be under way, and has begun when it has.
        let set = |worker, begun: Option<usize>| {
            let inode = &mut self.os.lock().disk.inodes[self.inode];
            let begun = begun.map(|begun| begun.min(inode.pending.len()));
            (std::mem::replace(&mut inode.worker, worker), std::mem::replace(&mut inode.sync_begun, begun))
        };
        let (worker, begun) = set(BESIDE, None);
        let synced = self.sync_alone(at, lengths);
        set(worker, begun);
        let state = self.os.lock();
        // Each who has it open is told once of a sync that failed.
        let failed = state.disk.inodes[self.inode].failed_syncs;
        let is_news = known.swap(failed, Ordering::Relaxed) < failed;
        if is_news && synced.is_ok() && state.slip != Some(Slip::Unheard(at)) { Err(Errno::IO.into()) } else { synced }
    }

    fn sync_alone(&self, at: SyncPoint, lengths: bool) -> io::Result<()> {
        let mut state = self.os.lock();
        *state.syncs.entry(at).or_default() += 1;
        let mut begun = state.begin(true, true, At::File(self.inode));
        let broken = state.disk.inodes[self.inode].broken;
        if !broken && let Some((_, fault)) = state.failing_sync.take_if(|failing| failing.0 == at) {
            state.strike(At::File(self.inode));
            begun = Err(fault.errno().into());
        }
        if broken || begun.is_err() {
            let State { disk, chance, debts, .. } = &mut *state;
            debts.retain(|debt| !debt.is_of(self.inode));
            disk.inodes[self.inode].spoil(&mut **chance);
            let unheard = state.slip == Some(Slip::Unheard(at));
            return if unheard { Ok(()) } else { Err(begun.err().unwrap_or_else(|| Errno::IO.into())) };
        }
        state.sync(self.inode, at, lengths);
        Ok(())
    }
}

impl OsFile for RecordedFile {
    fn length(&self) -> io::Result<Option<u64>> {
        self.operation(false, false, |inode| Ok(Some(inode.content.len() as u64)))
    }

    fn capacity(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    fn identity(&self) -> io::Result<Identity> {
        Ok((0, self.inode as u64))
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        let mut state = self.os.lock();
        match &mut state.disk.inodes[self.inode].locked_by {
            Some(other) if *other != self.handle => Err(TryLockError::WouldBlock),
            free => {
                *free = Some(self.handle);
                Ok(())
            }
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.change(Change::SetLen(bytes))
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let len = self.part(offset, bytes.len(), Slip::ShortRead);
        let bytes = &mut bytes[..len];
        let read = self.operation(false, false, |inode| {
            let from = inode.content.get(offset as usize..offset as usize + bytes.len());
            bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        });
        if read.is_err() && self.os.lock().slip == Some(Slip::UnheardRead) {
            bytes.fill(0);
            return Ok(());
        }
        read
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let len = self.part(offset, bytes.len(), Slip::ShortWrite);
        self.change(Change::Write { offset, bytes: bytes[..len].to_vec() })
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let len = self.part(offset, len as usize, Slip::ShortHole) as u64;
        self.change(Change::Punch { offset, len })
    }

    fn sync_data(&self, at: SyncPoint) -> io::Result<()> {
        self.sync(at, false)
    }

    fn sync_all(&self, at: SyncPoint) -> io::Result<()> {
        self.sync(at, true)
    }

    fn sync_begins(&self) {
        let inode = &mut self.os.lock().disk.inodes[self.inode];
        inode.sync_begun = Some(inode.pending.len());
    }

    fn asked_by(&self, worker: usize) {
        self.os.lock().disk.inodes[self.inode].worker = worker;
    }

    fn hangs(&self) -> bool {
        self.os.lock().disk.inodes[self.inode].hangs
    }

    fn believes(&self, what: Unfit) -> bool {
        self.os.lock().slip == Some(Slip::Believes(what))
    }

    fn sector(&self) -> usize {
        self.os.lock().disk.inodes[self.inode].sectors.bytes as usize
    }
}

impl Drop for RecordedFile {
    fn drop(&mut self) {
        let mut state = self.os.lock();
        let lock = &mut state.disk.inodes[self.inode].locked_by;
        if *lock == Some(self.handle) {
            *lock = None;
        }
    }
}
