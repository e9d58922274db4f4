//! What keeps a device's file.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use destage_plan::Issue;
use rustix::io::Errno;

use super::DeviceOptions;
use super::lane::Worker;
use super::os::{OsFile, SyncPoint};

/// What is to be done. Offsets and lengths are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Fills the bytes of the command from here on.
    Read { offset: u64 },
    /// Writes the bytes of the command to here.
    Write { offset: u64, fua: bool },
    /// Makes this range read as zeros.
    Trim { offset: u64, len: u64 },
    /// Makes what was written durable.
    Flush,
}

impl Work {
    /// What is tried, as errors call it.
    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::Read { .. } => "read from it",
            Self::Write { .. } => "write to it",
            Self::Trim { .. } => "trim it",
            Self::Flush => "make it durable",
        }
    }
}

/// A step on the device with its bytes.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) issue: Issue,
    pub(super) work: Work,
    pub(super) bytes: Vec<u8>,
}

/// Why a command failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) source: io::Error,
    /// There was no room, and nothing is lost but what this command was to write. Not so if making
    /// it durable failed, for whatever reason: what was written before may be gone then, and a
    /// later success would say nothing of it.
    pub(super) no_room: bool,
}

/// A command that is done, and how it ended.
pub(super) type Done = (Command, Result<(), Failure>);

/// Zeros that are written at a time where the file system makes no holes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A device's file.
pub(super) struct DeviceFile {
    file: Arc<dyn OsFile>,
    options: DeviceOptions,
    /// Steps that were begun.
    steps: u64,
    /// Whether the file system makes holes, as far as is known.
    holes: bool,
}

impl DeviceFile {
    /// Serves a file so.
    pub(super) const fn new(file: Arc<dyn OsFile>, options: DeviceOptions) -> Self {
        Self { file, options, steps: 0, holes: true }
    }

    fn carry_out(&mut self, work: Work, bytes: &mut [u8]) -> Result<(), Failure> {
        if self.options.breaks_after.is_some_and(|steps| self.steps >= steps) {
            return Err(failed(io::Error::other("the device breaks here, as it was told")));
        }
        self.steps += 1;
        match work {
            Work::Read { offset } => self.file.read_exact_at(bytes, offset).map_err(failed),
            Work::Write { offset, fua } => {
                self.file.write_all_at(bytes, offset).map_err(not_written)?;
                // All that was written before becomes durable too, which is more than is asked for.
                if fua { self.file.sync_data(SyncPoint::Fua).map_err(failed) } else { Ok(()) }
            }
            Work::Trim { offset, len } => self.trim(offset, len).map_err(not_written),
            Work::Flush => self.file.sync_data(SyncPoint::Flush).map_err(failed),
        }
    }

    fn trim(&mut self, mut offset: u64, len: u64) -> io::Result<()> {
        if self.holes {
            let punched = self.file.punch_hole(offset, len);
            match punched.as_ref().err().and_then(Errno::from_io_error) {
                Some(Errno::OPNOTSUPP | Errno::NOSYS) => self.holes = false,
                _ => return punched,
            }
        }
        let end = offset + len;
        while offset < end {
            let zeros = &ZEROS[..(end - offset).min(ZEROS.len() as u64) as usize];
            self.file.write_all_at(zeros, offset)?;
            offset += zeros.len() as u64;
        }
        Ok(())
    }
}

impl Worker for DeviceFile {
    type Command = Command;
    type Done = Done;

    const MOST: usize = 1;

    fn work(&mut self, commands: &mut VecDeque<Command>, done: &mut dyn FnMut(Done)) {
        while let Some(mut command) = commands.pop_front() {
            if !self.options.delay.is_zero() {
                std::thread::sleep(self.options.delay);
            }
            let result = self.carry_out(command.work, &mut command.bytes);
            done((command, result));
        }
    }

    fn hangs(&self) -> bool {
        self.file.hangs()
    }
}

fn failed(source: io::Error) -> Failure {
    Failure { source, no_room: false }
}

fn not_written(source: io::Error) -> Failure {
    let no_room = matches!(Errno::from_io_error(&source), Some(Errno::NOSPC | Errno::DQUOT));
    Failure { source, no_room }
}
