//! The thread that keeps a device's file.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use destage_plan::Issue;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use super::DeviceOptions;
use super::port::Port;

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

/// A command that is done, and how it ended.
pub(super) type Done = (Command, io::Result<()>);

/// Zeros that are written at a time where the file system makes no holes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A device's file.
pub(super) struct DeviceFile {
    file: File,
    options: DeviceOptions,
    /// Steps that were begun.
    steps: u64,
    /// Whether the file system makes holes, as far as is known.
    holes: bool,
}

impl DeviceFile {
    /// Serves a file so.
    pub(super) const fn new(file: File, options: DeviceOptions) -> Self {
        Self { file, options, steps: 0, holes: true }
    }

    /// Serves a port until it is closed.
    pub(super) fn serve(mut self, port: &Port<Command, Done>) {
        let mut taken = VecDeque::with_capacity(1);
        loop {
            port.take(1, &mut taken);
            let Some(mut command) = taken.pop_front() else { return };
            if !self.options.delay.is_zero() {
                std::thread::sleep(self.options.delay);
            }
            let done = self.carry_out(command.work, &mut command.bytes);
            port.finish([(command, done)]);
        }
    }

    fn carry_out(&mut self, work: Work, bytes: &mut [u8]) -> io::Result<()> {
        if self.options.breaks_after.is_some_and(|steps| self.steps >= steps) {
            return Err(io::Error::other("the device breaks here, as it was told"));
        }
        self.steps += 1;
        match work {
            Work::Read { offset } => self.file.read_exact_at(bytes, offset),
            Work::Write { offset, fua } => {
                self.file.write_all_at(bytes, offset)?;
                // All that was written before becomes durable too, which is more than is asked for.
                if fua { self.file.sync_data() } else { Ok(()) }
            }
            Work::Trim { offset, len } => self.trim(offset, len),
            Work::Flush => self.file.sync_data(),
        }
    }

    fn trim(&mut self, mut offset: u64, len: u64) -> io::Result<()> {
        if self.holes {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match retry_on_intr(|| fallocate(self.file.as_fd(), flags, offset, len)) {
                Ok(()) => return Ok(()),
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.holes = false,
                Err(error) => return Err(error.into()),
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
