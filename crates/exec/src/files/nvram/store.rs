//! Keeps the NVRAM and the intents in their files.
//!
//! Steps take effect in the order of issue. Steps of one kind that wait one after the other are made durable
//! together, by one sync. Intents can share one, since rows do not depend on each other and the changes of one
//! row are in order. Commits can, since a crash leaves the first few of them. Intents are durable before a
//! commit after them begins, and the other way round.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use destage_plan::{Issue, NvPut, NvSlot, Rows};

use super::intents::IntentsFile;
use super::journal::NvramFile;
use crate::bytes::SharedBuffer;
use crate::files::io::file::SyncPoint;
use crate::files::io::state_file::StateFile;
use crate::files::io::threads::pool::PoolWorker;
use crate::files::layout::record::JournalCommit;

/// Names what is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NvramChange {
    /// Puts what the command's puts say, with its bytes one after the other, and frees its slots. It is durable when it
    /// is done if that is asked for.
    Commit { durable: bool },
    /// Sets or clears the intents of the rows of the command.
    Intent { set: bool },
    /// Makes all commits before it durable.
    Sync(SyncPoint),
    /// Writes an event count to the NVRAM's header, durably.
    EventCount(u64),
}

/// A step of the NVRAM with all that it needs.
#[derive(Debug)]
pub(crate) struct NvramCommand {
    /// Is the step that it belongs to; none if it is the executor's own.
    pub(crate) issue: Option<Issue>,
    pub(crate) change: NvramChange,
    pub(crate) bytes: SharedBuffer,
    pub(crate) lists: StepLists,
    /// Said when it is done: all commits up to it are durable.
    pub(crate) is_covered: bool,
}

/// Lists that travel with a step, to be used again.
#[derive(Debug, Default)]
pub(crate) struct StepLists {
    pub(crate) puts: Vec<NvPut>,
    pub(crate) frees: Vec<NvSlot>,
    pub(crate) rows: Vec<Rows>,
}

impl StepLists {
    /// Limits the entries of a list whose room is kept: few steps have more.
    const KEPT: usize = 256;

    /// Returns them without entries.
    pub(crate) fn emptied(mut self) -> Self {
        fn empty<T>(list: &mut Vec<T>) {
            if list.len() > StepLists::KEPT {
                *list = Vec::new();
            }
            list.clear();
        }
        empty(&mut self.puts);
        empty(&mut self.frees);
        empty(&mut self.rows);
        self
    }
}

/// A command that is done, and how it ended.
pub(crate) type EndedChange = (NvramCommand, Result<(), StoreFailure>);

/// Says at which of the two files a command failed, and why.
#[derive(Debug)]
pub(crate) struct StoreFailure {
    pub(crate) source: io::Error,
    pub(crate) is_of_intents: bool,
}

impl StoreFailure {
    const fn nvram(source: io::Error) -> Self {
        Self { source, is_of_intents: false }
    }

    const fn intents(source: io::Error) -> Self {
        Self { source, is_of_intents: true }
    }
}

/// Keeps a store that hangs over the NVRAM from the file of the intents, which another store has by then.
#[derive(Clone, Debug, Default)]
pub(crate) struct IntentsGate {
    is_shut: Arc<Mutex<bool>>,
}

impl IntentsGate {
    /// Has the store write no more intents, and returns true, unless it is writing some.
    pub(crate) fn shut(&self) -> bool {
        // Try, because the lock is held while intents are written: waiting for that
        // would be waiting for a hang.
        self.is_shut.try_lock().is_ok_and(|mut is_shut| {
            *is_shut = true;
            true
        })
    }

    /// Keeps the gate from being shut, until what is done meanwhile is told. None if it is.
    fn pass(&self) -> Option<MutexGuard<'_, bool>> {
        // A panic of the worker must not keep the gate closed for ever.
        Some(self.is_shut.lock().unwrap_or_else(PoisonError::into_inner)).filter(|is_shut| !**is_shut)
    }
}

/// Counts what was asked of the file of the NVRAM, or of the intents, in this life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateTraffic {
    /// Steps that changed it.
    pub steps: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs; several steps may share one.
    pub syncs: u64,
}

/// The same while it is being counted, by whoever writes the file.
#[derive(Debug, Default)]
pub(crate) struct FileAccount {
    steps: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
    /// Reports that the file is being written or made durable.
    is_at_work: AtomicBool,
}

/// Those of the NVRAM and of the intents.
pub(crate) type StateAccounts = Arc<[FileAccount; 2]>;

impl FileAccount {
    /// So many steps wrote so much, and so many syncs made it durable.
    pub(crate) fn add(&self, steps: u64, written_bytes: u64, syncs: u64) {
        // Relaxed: these are counters, and nothing is decided by their order.
        self.steps.fetch_add(steps, Ordering::Relaxed);
        self.written_bytes.fetch_add(written_bytes, Ordering::Relaxed);
        self.syncs.fetch_add(syncs, Ordering::Relaxed);
    }

    /// Returns true while the file of the intents is being written or made durable.
    pub(crate) fn is_at_work(&self) -> bool {
        self.is_at_work.load(Ordering::Relaxed)
    }

    /// Returns the counts so far.
    pub(crate) fn traffic(&self) -> StateTraffic {
        let [steps, written_bytes, syncs] =
            [&self.steps, &self.written_bytes, &self.syncs].map(|count| count.load(Ordering::Relaxed));
        StateTraffic { steps, written_bytes, syncs }
    }
}

/// The two files.
pub(crate) struct StateStore {
    nvram: NvramFile,
    intents: IntentsFile,
    /// Is set if a step failed, at the intents or not. Nothing more is done then: a later step must not be
    /// durable without the earlier one, nor may a later success be taken for the earlier one's.
    broken: Option<bool>,
    /// Commands that are made durable together.
    group: Vec<NvramCommand>,
    accounts: StateAccounts,
    gate: IntentsGate,
}

impl StateStore {
    /// Serves these two.
    pub(crate) fn new(nvram: NvramFile, intents: IntentsFile) -> Self {
        Self::resume(nvram, intents, StateAccounts::default())
    }

    /// Serves these two, and goes on counting.
    pub(crate) fn resume(nvram: NvramFile, intents: IntentsFile, accounts: StateAccounts) -> Self {
        Self { nvram, intents, broken: None, group: Vec::new(), accounts, gate: IntentsGate::default() }
    }

    /// Returns the accounts in which it counts what it writes.
    pub(crate) fn accounts(&self) -> StateAccounts {
        Arc::clone(&self.accounts)
    }

    /// Returns what keeps it from the intents.
    pub(crate) fn gate(&self) -> IntentsGate {
        self.gate.clone()
    }

    /// Returns the files of the NVRAM and of the intents.
    pub(crate) fn state_files(&self) -> [Arc<StateFile>; 2] {
        [self.nvram.state_file(), self.intents.state_file()]
    }

    /// Takes the first commands for as long as they can be made durable together.
    fn gather(&mut self, commands: &mut VecDeque<NvramCommand>) {
        let kind = commands.front().map(|first| std::mem::discriminant(&first.change));
        while let Some(next) = commands.front()
            && Some(std::mem::discriminant(&next.change)) == kind
        {
            self.group.extend(commands.pop_front());
        }
    }

    /// Does what the group says to the NVRAM.
    fn change_nvram(&mut self) -> io::Result<()> {
        let commits = self.group.iter().filter(|command| matches!(command.change, NvramChange::Commit { .. })).count();
        let before = self.nvram.borne();
        let done = self.change();
        let (written, syncs) = self.nvram.borne();
        self.accounts[0].add(commits as u64, written - before.0, syncs - before.1);
        done
    }

    fn change(&mut self) -> io::Result<()> {
        match self.group.first().map(|first| first.change) {
            None => Ok(()),
            Some(NvramChange::Commit { .. }) => {
                for NvramCommand { lists: StepLists { puts, frees, .. }, bytes, .. } in &self.group {
                    // All commits of the group are appended first, so that they
                    // share one write and one sync.
                    self.nvram.append(&JournalCommit { puts, bytes, frees, crcs: None })?;
                }
                let durable = |command: &NvramCommand| matches!(command.change, NvramChange::Commit { durable: true });
                if self.group.iter().any(durable) { self.nvram.sync(SyncPoint::Commit) } else { self.nvram.write_out() }
            }
            Some(NvramChange::Sync(at)) => self.nvram.sync(at),
            Some(NvramChange::EventCount(number)) => self.nvram.set_event_count(number),
            Some(NvramChange::Intent { .. }) => {
                for command in &self.group {
                    let set = matches!(command.change, NvramChange::Intent { set: true });
                    command.lists.rows.iter().for_each(|rows| self.intents.set(*rows, set));
                }
                // Intents become durable only after the commits before them, since
                // steps take effect in the order of issue.
                if self.intents.unwritten() > 0 { self.nvram.sync(SyncPoint::Ahead) } else { Ok(()) }
            }
        }
    }

    /// Does what the group says to the intents.
    fn change_intents(&mut self) -> io::Result<()> {
        if !matches!(self.group.first().map(|first| first.change), Some(NvramChange::Intent { .. })) {
            return Ok(());
        }
        let (syncs, file) = (u64::from(self.intents.unwritten() > 0), self.intents.state_file());
        let before = file.written_bytes();
        // Whoever waits in vain is told for which of both files.
        self.accounts[1].is_at_work.store(true, Ordering::Relaxed);
        let synced = self.intents.sync();
        self.accounts[1].is_at_work.store(false, Ordering::Relaxed);
        self.accounts[1].add(self.group.len() as u64, file.written_bytes() - before, syncs);
        synced
    }
}

impl PoolWorker for StateStore {
    type Command = NvramCommand;
    type Done = EndedChange;

    const MOST: usize = usize::MAX;

    fn work(&mut self, commands: &mut VecDeque<NvramCommand>, done: &mut dyn FnMut(EndedChange)) {
        let gate = self.gate.clone();
        while self.broken.is_none() && !commands.is_empty() {
            self.gather(commands);
            let mut failure = self.change_nvram().err().map(StoreFailure::nvram);
            // What becomes of intents is told before the gate can be shut.
            let passed = gate.pass();
            if failure.is_none() {
                failure = match &passed {
                    Some(_) => self.change_intents().err().map(StoreFailure::intents),
                    None => Some(StoreFailure::nvram(io::Error::other("the NVRAM lies elsewhere by now"))),
                };
            }
            // After an error nothing more is done: a later step must not be durable
            // without the earlier one.
            self.broken = failure.as_ref().map(|failure| failure.is_of_intents);
            let is_covered = self.nvram.is_durable();
            for mut command in self.group.drain(..) {
                command.is_covered = is_covered;
                // The first command of the group gets the error itself; the others
                // only learn that one came before.
                let failed = self.broken.map(|at| failure.take().unwrap_or_else(|| after_error(at)));
                done((command, failed.map_or(Ok(()), Err)));
            }
            drop(passed);
        }
        for command in commands.drain(..) {
            done((command, Err(after_error(self.broken.unwrap_or_default()))));
        }
    }

    fn is_ready(&self) -> bool {
        !self.nvram.hangs()
    }
}

fn after_error(is_of_intents: bool) -> StoreFailure {
    StoreFailure { source: io::Error::other("an earlier step of the NVRAM failed"), is_of_intents }
}
