//! What keeps a device's file.

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

/// A device's file, as all its workers share it.
struct SharedFile {
    file: Arc<dyn OsFile>,
    options: DeviceOptions,
    /// Steps that were begun.
    steps: AtomicU64,
    /// Whether the file system makes holes, as far as is known.
    holes: AtomicBool,
    syncs: DeviceSyncs,
}

/// One of those who serve a device's file. Each has a command at a time.
pub(crate) struct DeviceFile {
    shared: Arc<SharedFile>,
    /// Which of them it is.
    number: usize,
    phase: CommandPhase,
}

/// How far a command has come. Each phase asks the operating system one thing at most, so that,
/// without threads, anything can come between two of them.
#[derive(Default)]
enum CommandPhase {
    /// Not begun.
    #[default]
    New,
    /// All is done but that it must be made durable.
    Asks(SyncTicket, SyncPoint),
    /// It makes durable what was written before.
    Syncs(SyncPoint),
    /// It ended so, and nobody was told.
    Ended(Result<(), CommandFailure>),
}

impl DeviceFile {
    /// Those who serve a file so: as many as its options say, but not more than `most`.
    pub(crate) fn all(file: Arc<dyn OsFile>, options: DeviceOptions, most: usize) -> Vec<Self> {
        let (steps, holes) = (AtomicU64::new(0), AtomicBool::new(true));
        let shared = Arc::new(SharedFile { file, options, steps, holes, syncs: DeviceSyncs::default() });
        let worker = |number| Self { shared: Arc::clone(&shared), number, phase: CommandPhase::New };
        (0..usize::from(options.workers).min(most)).map(worker).collect()
    }
}

impl SharedFile {
    /// Goes on with a command that has not ended.
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
                // Before anything is told: who asked for a sync must not succeed after this.
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
            // All that was written before becomes durable too, which is more than is asked for.
            (Ok(()), DeviceAction::Write { fua: true, .. }) => CommandPhase::Asks(self.syncs.ask(), SyncPoint::Fua),
            (Ok(()), DeviceAction::Mark { .. }) => CommandPhase::Asks(self.syncs.ask(), SyncPoint::Marks),
            (Ok(()), DeviceAction::List { .. }) => CommandPhase::Asks(self.syncs.ask(), SyncPoint::BadPages),
            (Ok(()), DeviceAction::Flush) => CommandPhase::Asks(self.syncs.ask(), SyncPoint::Flush),
            (done, _) => CommandPhase::Ended(done),
        }
    }

    fn trim(&self, offset: u64, len: u64) -> io::Result<()> {
        if self.holes.load(Ordering::Relaxed) {
            let punched = self.file.punch_hole(offset, len);
            match punched.as_ref().err().and_then(Errno::from_io_error) {
                // The last one says that pages are not made of a block device's blocks.
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
        commands.push_front(command);
    }

    fn is_ready(&self) -> bool {
        let waits = matches!(self.phase, CommandPhase::Asks(..)) && self.shared.syncs.is_under_way();
        !waits && !self.shared.file.hangs()
    }
}
