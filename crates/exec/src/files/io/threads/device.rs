//! What keeps a device's file.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;

use super::pool::Worker;
use crate::files::config::DeviceOptions;
use crate::files::io::command::{Command, Done, Failure, Work, failed, not_written, write_zeros};
use crate::files::io::file::{OsFile, SyncPoint};
use crate::files::io::syncs::{Syncs, Ticket, Turn};

/// A device's file, as all its workers share it.
struct Shared {
    file: Arc<dyn OsFile>,
    options: DeviceOptions,
    /// Steps that were begun.
    steps: AtomicU64,
    /// Whether the file system makes holes, as far as is known.
    holes: AtomicBool,
    syncs: Syncs,
}

/// One of those who serve a device's file. Each has a command at a time.
pub(crate) struct DeviceFile {
    shared: Arc<Shared>,
    /// Which of them it is.
    number: usize,
    phase: Phase,
}

/// How far a command has come. Each phase asks the operating system one thing at most, so that,
/// without threads, anything can come between two of them.
#[derive(Default)]
enum Phase {
    /// Not begun.
    #[default]
    New,
    /// All is done but that it must be made durable.
    Asks(Ticket, SyncPoint),
    /// It makes durable what was written before.
    Syncs(SyncPoint),
    /// It ended so, and nobody was told.
    Ended(Result<(), Failure>),
}

impl DeviceFile {
    /// Those who serve a file so: as many as its options say, but not more than `most`.
    pub(crate) fn all(file: Arc<dyn OsFile>, options: DeviceOptions, most: usize) -> Vec<Self> {
        let (steps, holes) = (AtomicU64::new(0), AtomicBool::new(true));
        let shared = Arc::new(Shared { file, options, steps, holes, syncs: Syncs::default() });
        let worker = |number| Self { shared: Arc::clone(&shared), number, phase: Phase::New };
        (0..usize::from(options.workers).min(most)).map(worker).collect()
    }
}

impl Shared {
    /// Goes on with a command that has not ended.
    fn go_on(&self, phase: Phase, command: &mut Command) -> Phase {
        match phase {
            Phase::New => self.begin(command),
            Phase::Asks(ticket, at) => match self.syncs.begin(ticket) {
                Turn::Yours => {
                    self.file.sync_begins();
                    Phase::Syncs(at)
                }
                Turn::Covered => Phase::Ended(Ok(())),
                Turn::Failed => Phase::Ended(Err(failed(io::Error::other("an earlier sync of it failed")))),
            },
            Phase::Syncs(at) => {
                let synced = self.file.sync_data(at);
                // Before anything is told: who asked for a sync must not succeed after this.
                self.syncs.end(synced.is_ok());
                Phase::Ended(synced.map_err(failed))
            }
            ended @ Phase::Ended(_) => ended,
        }
    }

    fn begin(&self, command: &mut Command) -> Phase {
        let steps = self.steps.fetch_add(1, Ordering::Relaxed);
        if self.options.breaks_after.is_some_and(|most| steps >= most) {
            return Phase::Ended(Err(failed(io::Error::other("the device breaks here, as it was told"))));
        }
        let done = match command.work {
            Work::Read { offset } => {
                let bytes = Arc::get_mut(&mut command.bytes).expect("nobody else has what is to be filled");
                self.file.read_exact_at(&mut bytes[command.range.clone()], offset).map_err(failed)
            }
            Work::Write { offset, .. } | Work::Mark { offset } | Work::List { offset } => {
                self.file.write_all_at(&command.bytes[command.range.clone()], offset).map_err(not_written)
            }
            Work::Trim { offset, len } => self.trim(offset, len).map_err(not_written),
            Work::Flush => Ok(()),
        };
        match (done, command.work) {
            // All that was written before becomes durable too, which is more than is asked for.
            (Ok(()), Work::Write { fua: true, .. }) => Phase::Asks(self.syncs.ask(), SyncPoint::Fua),
            (Ok(()), Work::Mark { .. }) => Phase::Asks(self.syncs.ask(), SyncPoint::Marks),
            (Ok(()), Work::List { .. }) => Phase::Asks(self.syncs.ask(), SyncPoint::BadPages),
            (Ok(()), Work::Flush) => Phase::Asks(self.syncs.ask(), SyncPoint::Flush),
            (done, _) => Phase::Ended(done),
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

impl Worker for DeviceFile {
    type Command = Command;
    type Done = Done;

    const MOST: usize = 1;

    fn work(&mut self, commands: &mut VecDeque<Command>, done: &mut dyn FnMut(Done)) {
        let Some(mut command) = commands.pop_front() else { return };
        if matches!(self.phase, Phase::New) && !self.shared.options.delay.is_zero() {
            std::thread::sleep(self.shared.options.delay);
        }
        self.shared.file.asked_by(self.number);
        self.phase = match std::mem::take(&mut self.phase) {
            Phase::Ended(result) => {
                done((command, result));
                return;
            }
            phase => self.shared.go_on(phase, &mut command),
        };
        commands.push_front(command);
    }

    fn is_ready(&self) -> bool {
        let waits = matches!(self.phase, Phase::Asks(..)) && self.shared.syncs.is_under_way();
        !waits && !self.shared.file.hangs()
    }
}
