//! A file that is to take a device's place, as the executor has it meanwhile.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use destage_plan::{Dev, Ext, Issue, Nanos, StepOutcome};

use super::watch::InFlight;
use crate::files::error::FilesError;
use crate::files::io::backend::CommandBackend;
use crate::files::io::command::DeviceCommand;
use crate::files::io::device::DeviceBackend;
use crate::files::io::file::{FileIdentity, OsFile};
use crate::files::io::patience::FileWork;

/// Says how far a successor has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessionPhase {
    /// Is given what the member has.
    Copying,
    /// Holds what the member holds.
    Copied,
    /// Can take the member's place: nothing of the member is in flight.
    Quiet,
}

/// Says what became of the label of a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessorLabelling {
    /// Is being written: to be asked for again.
    UnderWay,
    /// Is durable.
    Durable,
    /// Could not be written: the successor was dropped.
    Dropped,
}

/// Tells of a successor that was dropped. Nothing of the array has changed with it.
#[derive(Debug)]
pub struct DroppedSuccessor {
    /// Names the member that goes on without it.
    pub dev: Dev,
    /// Names its file.
    pub path: PathBuf,
    /// Says why.
    pub why: FilesError,
    /// Is true if nothing is wrong with it: its member was lost before it was copied.
    pub is_fit: bool,
}

/// Copies pages of a device to its successor.
pub(super) struct ActiveCopy {
    pub(super) issue: Issue,
    pub(super) ext: Ext,
    /// Is true if its bytes are there, and the successor has them, or waits for room.
    pub(super) is_read: bool,
}

/// Holds a command that waits for room, or for a copy of pages that it writes.
pub(super) struct QueuedCommand {
    pub(super) command: DeviceCommand,
    /// Names the pages that it writes, unless it is a copy of them.
    pub(super) writes: Option<Ext>,
}

/// Holds a file that is to take a device's place.
///
/// The device is given its steps as without it. Whatever changes something is given to the successor as well, and is done
/// when both have done it.
pub(super) struct SuccessorDevice {
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn OsFile>,
    pub(super) identity: FileIdentity,
    pub(super) backend: DeviceBackend,
    pub(super) direct: Option<io::Result<u64>>,
    /// Lists the commands that the backend has.
    pub(super) under_way: VecDeque<InFlight>,
    pub(super) queue: VecDeque<QueuedCommand>,
    /// Lists the steps of the device that the successor has not done.
    pub(super) owed: Vec<Issue>,
    /// Lists those of them that the device has done, and how they ended there.
    pub(super) ended: Vec<(Issue, StepOutcome)>,
    pub(super) copies: Vec<ActiveCopy>,
    /// Lists the copies that wait until no write of their pages is in flight.
    pub(super) waiting: VecDeque<Issue>,
    /// Is true if all pages are copied.
    pub(super) is_whole: bool,
    /// Writes its label.
    pub(super) labelling: Option<FileWork<()>>,
}

impl SuccessorDevice {
    pub(super) fn new(path: PathBuf, file: Arc<dyn OsFile>, identity: FileIdentity, backend: DeviceBackend) -> Self {
        Self {
            path,
            file,
            identity,
            backend,
            direct: None,
            under_way: VecDeque::new(),
            queue: VecDeque::new(),
            owed: Vec::new(),
            ended: Vec::new(),
            copies: Vec::new(),
            waiting: VecDeque::new(),
            is_whole: false,
            labelling: None,
        }
    }

    /// Returns true if nothing of it has to be taken in, and nothing waits.
    pub(super) fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.waiting.is_empty() && self.backend.is_silent()
    }

    /// Returns true if nothing is in flight, or waits to be.
    pub(super) fn is_idle(&self) -> bool {
        let has_copies = !self.copies.is_empty() || !self.waiting.is_empty();
        self.under_way.is_empty() && self.owed.is_empty() && self.ended.is_empty() && !has_copies
    }

    /// Returns since when the backend has the oldest command without a result.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.under_way.iter().map(|command| command.since).min()
    }

    /// Returns true if pages are being copied that are among these.
    pub(super) fn copies_any_of(&self, ext: Ext) -> bool {
        self.copies.iter().any(|copy| overlap(copy.ext, ext))
    }

    /// Forgets a command that the backend has done.
    pub(super) fn forget(&mut self, issue: Issue) {
        let at = self.under_way.iter().position(|other| other.issue == Some(issue));
        self.under_way.swap_remove_front(at.expect("the backend has it"));
    }
}

/// Returns true if two extents of one device have pages in common.
pub(super) fn overlap(one: Ext, other: Ext) -> bool {
    let end = |ext: Ext| ext.first() + u64::from(ext.pages());
    one.first() < end(other) && other.first() < end(one)
}
