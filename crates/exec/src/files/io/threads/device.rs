//! Serves a device's file with threads.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;

use super::pool::PoolWorker;
use crate::files::config::DeviceOptions;
use crate::files::io::command::{
    CommandFailure, DeviceAction, DeviceCommand, EndedCommand, failed, not_written, write_zeros,
};
use crate::files::io::file::{OsFile, SyncPoint};
use crate::files::io::syncs::{DeviceSyncs, SyncTicket, SyncTurn};

/// Holds a device's file, as all its workers share it.
struct SharedFile {
    file: Arc<dyn OsFile>,
    options: DeviceOptions,
    /// Counts the steps that were begun.
    steps: AtomicU64,
    /// Is true if the file system makes holes, as far as is known.
    holes: AtomicBool,
    syncs: DeviceSyncs,
}

/// Serves a device's file, one command at a time.
pub(crate) struct DeviceFile {
    shared: Arc<SharedFile>,
    /// Numbers the worker among those of the file.
    number: usize,
    phase: CommandPhase,
}

/// Reports how far a command has come. Each phase asks the operating system one thing at most.
/// So, without threads, anything can come between two of them.
#[derive(Default)]
enum CommandPhase {
    /// Marks a command that is not begun.
    #[default]
    New,
    /// Has done everything except making it durable.
    Asks(SyncTicket, SyncPoint),
    /// Makes durable what was written before.
    Syncs(SyncPoint),
    /// Ended with this result, of which nobody was told.
    Ended(Result<(), CommandFailure>),
}

impl DeviceFile {
    /// Makes the workers of a file: as many as its options say, but not more than `most`.
    pub(crate) fn all(file: Arc<dyn OsFile>, options: DeviceOptions, most: usize) -> Vec<Self> {
        let (steps, holes) = (AtomicU64::new(0), AtomicBool::new(true));
        let shared = Arc::new(SharedFile { file, options, steps, holes, syncs: DeviceSyncs::default() });
        let worker = |number| Self { shared: Arc::clone(&shared), number, phase: CommandPhase::New };
        // More workers than commands in flight would only wait.
        (0..usize::from(options.workers).min(most)).map(worker).collect()
    }
}

impl SharedFile {
    /// Takes the next phase of a command that has not ended.
    fn go_on(&self, phase: CommandPhase, command: &mut DeviceCommand) -> CommandPhase {
        match phase {
            CommandPhase::New => self.begin(command),
            CommandPhase::Asks(ticket, at) => match self.syncs.begin(ticket) {
                SyncTurn::Yours => {
                    self.file.sync_begins();
                    CommandPhase::Syncs(at)
                }
                SyncTurn::Covered => CommandPhase::Ended(Ok(())),
                SyncTurn::Failed => CommandPhase::Ended(Err(failed(io::Error::other("an earlier sync of it failed")))),
            },
            CommandPhase::Syncs(at) => {
                let synced = self.file.sync_data(at);
                // Recorded before anybody is answered: whoever asked for a sync must
                // not succeed after this failure.
                self.syncs.end(synced.is_ok());
                CommandPhase::Ended(synced.map_err(failed))
            }
            ended @ CommandPhase::Ended(_) => ended,
        }
    }

    fn begin(&self, command: &mut DeviceCommand) -> CommandPhase {
        let steps = self.steps.fetch_add(1, Ordering::Relaxed);
        if self.options.breaks_after.is_some_and(|most| steps >= most) {
            return CommandPhase::Ended(Err(failed(io::Error::other("the device breaks here, as it was told"))));
        }
        let done = match command.work {
            DeviceAction::Read { offset } => {
                // Sole owner: the main loop gave this buffer to be filled and keeps
                // no handle.
                let bytes = Arc::get_mut(&mut command.bytes).expect("nobody else has what is to be filled");
                self.file.read_exact_at(&mut bytes[command.range.clone()], offset).map_err(failed)
            }
            DeviceAction::Write { offset, .. } | DeviceAction::Mark { offset } | DeviceAction::List { offset } => {
                self.file.write_all_at(&command.bytes[command.range.clone()], offset).map_err(not_written)
            }
            DeviceAction::Trim { offset, len } => self.trim(offset, len).map_err(not_written),
            DeviceAction::Flush => Ok(()),
        };
        match (done, command.work) {
            // One sync covers everything written before, which is more than was
            // asked for.
            (Ok(()), DeviceAction::Write { fua: true, .. }) => CommandPhase::Asks(self.syncs.ask(), SyncPoint::Fua),
            (Ok(()), DeviceAction::Mark { .. }) => CommandPhase::Asks(self.syncs.ask(), SyncPoint::Marks),
            (Ok(()), DeviceAction::List { .. }) => CommandPhase::Asks(self.syncs.ask(), SyncPoint::BadPages),
            (Ok(()), DeviceAction::Flush) => CommandPhase::Asks(self.syncs.ask(), SyncPoint::Flush),
            (done, _) => CommandPhase::Ended(done),
        }
    }

    fn trim(&self, offset: u64, len: u64) -> io::Result<()> {
        // Remembered, so that every later trim saves the refused call.
        if self.holes.load(Ordering::Relaxed) {
            let punched = self.file.punch_hole(offset, len);
            match punched.as_ref().err().and_then(Errno::from_io_error) {
                // Linux reports EINVAL if pages are not made of a block device's
                // blocks.
                Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.holes.store(false, Ordering::Relaxed),
                _ => return punched,
            }
        }
        write_zeros(&*self.file, offset..offset + len)
    }
}

impl PoolWorker for DeviceFile {
    type Command = DeviceCommand;
    type Done = EndedCommand;

    const MOST: usize = 1;

    fn work(&mut self, commands: &mut VecDeque<DeviceCommand>, done: &mut dyn FnMut(EndedCommand)) {
        // One command at a time, so that a worker that hangs holds back no other
        // command.
        let Some(mut command) = commands.pop_front() else { return };
        if matches!(self.phase, CommandPhase::New) && !self.shared.options.delay.is_zero() {
            std::thread::sleep(self.shared.options.delay);
        }
        self.shared.file.asked_by(self.number);
        self.phase = match std::mem::take(&mut self.phase) {
            CommandPhase::Ended(result) => {
                done((command, result));
                return;
            }
            phase => self.shared.go_on(phase, &mut command),
        };
        // Back to the front: the worker goes on with it in the next phase.
        commands.push_front(command);
    }

    fn is_ready(&self) -> bool {
        let waits = matches!(self.phase, CommandPhase::Asks(..)) && self.shared.syncs.is_under_way();
        !waits && !self.shared.file.hangs()
    }
}
