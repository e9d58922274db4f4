//! A device as the executor has it.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use destage_plan::{Issue, Nanos};

use super::successor::SuccessorDevice;
use super::watch::InFlight;
use crate::files::error::FilesError;
use crate::files::io::backend::CommandBackend;
use crate::files::io::device::DeviceBackend;
use crate::files::io::file::{FileIdentity, OsFile};
use crate::files::io::merge::MergeCounts;

/// Counts what a device was asked for in this life, as far as it was sent. A list of buffers that goes there in
/// one command is one write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTraffic {
    /// Counts the commands that read, as they reach the device.
    pub reads: u64,
    /// Counts the reads of plans that were merged with others before they left.
    pub read_merges: u64,
    /// Counts the commands that write, as they reach the device.
    pub writes: u64,
    /// Counts the writes of plans that were merged with others before they left.
    pub write_merges: u64,
    /// Counts the writes of plans, merged or not, that are durable when they are done.
    pub fua: u64,
    /// Commands that trim.
    pub trims: u64,
    /// Commands that make durable.
    pub flushes: u64,
    /// Writes of marks and of lists of bad pages, which are none of the above.
    pub marks: u64,
    /// Counts the bytes of these.
    pub mark_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Counts the pages that it could not read and that were made anew.
    pub corrected: u64,
    /// Counts the reads that brought something else than what was written.
    pub mismatches: u64,
}

impl DeviceTraffic {
    /// Notes the commands that were merged with others, and those that are asked for once more by themselves.
    pub(super) const fn note_merges(&mut self, merged: MergeCounts, again: MergeCounts) {
        // Merged commands were counted when they were sent; these corrections make
        // the counters those of the device.
        self.reads = self.reads + again.reads - merged.reads;
        self.read_merges += merged.reads;
        self.writes = self.writes + again.writes - merged.writes;
        self.write_merges += merged.writes;
    }
}

/// Tries a read that failed page by page.
#[derive(Clone, Debug)]
pub(super) struct PageSearch {
    pub(super) issue: Issue,
    /// Counts the bytes before the read in its buffer.
    pub(super) start: usize,
    /// Counts the bytes before it on the device.
    pub(super) offset: u64,
    pub(super) pages: u16,
    /// Numbers the page that is tried.
    pub(super) at: u16,
}

pub(super) struct FileDevice {
    pub(super) backend: Option<DeviceBackend>,
    /// Steps that the backend has, and a write of marks and one of the list of bad pages; the oldest are mostly first.
    pub(super) under_way: VecDeque<InFlight>,
    /// Is true if a command of it takes too long, and that data would be lost without the device.
    pub(super) hangs: bool,
    /// Steps for which the thread has no room.
    pub(super) backlog: VecDeque<Issue>,
    /// Steps that wait until so many commits of the NVRAM are durable.
    pub(super) blocked: VecDeque<(u64, Issue)>,
    /// Lists the reads that are tried page by page.
    pub(super) searches: Vec<PageSearch>,
    pub(super) failed: bool,
    /// Holds the file that is to take its place, if there is one.
    pub(super) successor: Option<Box<SuccessorDevice>>,
    /// Is true if nothing is sent to it for now: its successor is about to take its place.
    pub(super) is_held: bool,
    /// Is its first error, which tells why it failed.
    pub(super) error: Option<FilesError>,
    /// Identifies its file while it is open.
    pub(super) file: Option<FileIdentity>,
    /// Names the file that was left to commands that had no answer.
    pub(super) abandoned: Option<AbandonedFile>,
    /// Holds it open, too, for what is told it besides commands.
    pub(super) handle: Option<Arc<dyn OsFile>>,
    /// Tells of a device that failed whether commands still hold its file open.
    pub(super) left: Option<Weak<dyn OsFile>>,
    /// If it was to be read and written directly: how memory must be aligned for that, or why it is not.
    pub(super) direct: Option<io::Result<u64>>,
    pub(super) traffic: DeviceTraffic,
}

/// Names a file that was left to commands that had no answer.
pub(super) struct AbandonedFile {
    pub(super) identity: FileIdentity,
    pub(super) path: PathBuf,
    /// Is there as long as a command holds the file open.
    pub(super) file: Weak<dyn OsFile>,
}

impl AbandonedFile {
    /// Returns true if this is its path and commands are still in flight. Nothing is asked of the file, which may hang.
    pub(super) fn is_at_work(&self, path: &Path) -> bool {
        // A weak pointer answers without asking the file system, which may hang
        // with the file.
        self.path == path && self.file.strong_count() > 0
    }
}

impl FileDevice {
    /// Refuses a file that commands which were left behind are still in flight to.
    pub(super) fn check_not_at_work(&self, path: &Path) -> Result<(), FilesError> {
        match &self.abandoned {
            Some(abandoned) if abandoned.is_at_work(path) => Err(FilesError::AtWork(path.to_owned())),
            _ => Ok(()),
        }
    }

    /// Returns true if nothing of it has to be taken in and nothing waits for room there.
    pub(super) fn is_quiet(&self) -> bool {
        // Asked of every device in every turn, so it looks only at what is in
        // memory.
        !self.failed
            && self.backlog.is_empty()
            && self.backend.as_ref().is_none_or(DeviceBackend::is_silent)
            && self.successor.as_ref().is_none_or(|successor| successor.is_quiet())
    }

    /// Returns who carries out commands for it and for its successor.
    pub(super) fn backends(&self) -> impl Iterator<Item = &DeviceBackend> {
        self.backend.iter().chain(self.successor.as_ref().map(|successor| &successor.backend))
    }

    /// As [`backends`](Self::backends).
    pub(super) fn backends_mut(&mut self) -> impl Iterator<Item = &mut DeviceBackend> {
        self.backend.iter_mut().chain(self.successor.as_mut().map(|successor| &mut successor.backend))
    }

    /// The backend has done this step, or never will.
    pub(super) fn forget(&mut self, issue: Option<Issue>) {
        // By position: completions come nearly in order, so the search ends soon.
        let at = self.under_way.iter().position(|other| other.issue == issue);
        self.under_way.swap_remove_front(at.expect("the backend has it"));
    }

    /// Returns since when the backend has the oldest command without a result.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.under_way.iter().map(|command| command.since).min()
    }
}
