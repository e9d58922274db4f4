//! Plants faults of the executor: something left undone, done in another order, or not heard.
//!
//! The recording, which sees every operation, acts in the executor's place. A harness plants them to see
//! whether it finds them. They cost the executor nothing.

use std::io;

use rustix::io::Errno;

use super::inode::{CrashChance, FileChange, RecordedInode, UnsyncedChange};
use crate::files::io::file::{SyncPoint, UntrustedFile};

/// Names a fault of the executor. A fault of syncs concerns all syncs of one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutorFault {
    /// Leaves the syncs out.
    Missing(SyncPoint),
    /// Makes the syncs make contents durable and no lengths.
    ContentAlone(SyncPoint),
    /// Reports the syncs as done when they begin: what they cover becomes durable some operations later.
    Late(SyncPoint),
    /// Reports the covered writes as done before they are written, which happens some operations later:
    /// after what they must precede.
    Held(SyncPoint),
    /// Asks for the syncs before what they are to make durable is written.
    TooSoon(SyncPoint),
    /// Lets two steps share one sync: the first becomes durable no sooner than the second.
    Paired(SyncPoint),
    /// Makes the first sector of each covered write durable at once, and the others some operations later:
    /// a header before its content.
    HeadFirst(SyncPoint),
    /// Omits to write anew what a start found, before these syncs make it durable.
    NotAnew(SyncPoint),
    /// Counts a sync for a write that ended while the sync was running.
    BegunBefore(SyncPoint),
    /// Makes a sync cover only the writes of the worker that asks for it.
    OwnAlone,
    /// Counts one failed sync of these as done.
    Unheard(SyncPoint),
    /// Counts a write or a trim as done that fails as a broken device does.
    UnheardWrite,
    /// Counts a write as done for which there is no room.
    UnheardNoRoom,
    /// Makes a failed read bring zeros.
    UnheardRead,
    /// Counts a write as done that was done in part.
    ShortWrite,
    /// Counts a read as done that was done in part.
    ShortRead,
    /// Counts a hole as whole that was made in part.
    ShortHole,
    /// Counts a merged operation that was done in part as whole.
    MergedShort,
    /// Tells an error of a merged operation to its first part alone: the others count as done.
    MergedErrorOfFirst,
    /// Counts an error of a merged operation as one of each of its parts: none is tried alone.
    MergedErrorOfAll,
    /// Gives the parts of a merged operation each other's results.
    MergedExchanged,
    /// Counts such a record or file as valid.
    Believes(UntrustedFile),
}

/// Describes the later effect of a sync that was reported as done.
#[derive(Clone, Debug)]
pub(super) struct OmittedSync {
    /// Holds the number of operations after which it takes effect.
    pub(super) due: u64,
    pub(super) file: usize,
    /// Ends the pending changes that it covers.
    pub(super) end: usize,
    pub(super) lengths: bool,
    /// Lists the changes that were not written so far.
    pub(super) held: Vec<UnsyncedChange>,
}

impl OmittedSync {
    pub(super) const fn is_of(&self, file: usize) -> bool {
        self.file == file
    }
}

impl ExecutorFault {
    /// Returns the point of the syncs that it concerns; none if it concerns all or none.
    pub const fn of(self) -> Option<SyncPoint> {
        match self {
            Self::Missing(at)
            | Self::ContentAlone(at)
            | Self::Late(at)
            | Self::Held(at)
            | Self::TooSoon(at)
            | Self::Paired(at)
            | Self::HeadFirst(at)
            | Self::NotAnew(at)
            | Self::BegunBefore(at)
            | Self::Unheard(at) => Some(at),
            _ => None,
        }
    }

    pub(super) const fn is_late(self) -> bool {
        matches!(self, Self::Late(_) | Self::Held(_) | Self::HeadFirst(_))
    }

    /// Returns true if such an error of a change goes unheard.
    pub(super) fn misses(self, error: &io::Error) -> bool {
        match Errno::from_io_error(error) {
            Some(Errno::NOSPC) => self == Self::UnheardNoRoom,
            _ => self == Self::UnheardWrite,
        }
    }
}

/// Counts the bytes of these that are read, written or made zeros: all, or those before a randomly chosen
/// sector.
pub(super) fn part(offset: u64, len: usize, sector: u64, chance: &mut dyn CrashChance) -> usize {
    let sectors = len as u64 / sector;
    // An operation that begins inside a sector is small, and nothing tears a
    // sector.
    if sectors < 2 || !offset.is_multiple_of(sector) || chance.below(4) != 0 {
        return len;
    }
    ((1 + chance.below(sectors - 1)) * sector) as usize
}

impl RecordedInode {
    /// Removes the pending changes before `end`, as if nobody had made them.
    pub(super) fn take_back(&mut self, end: usize) -> Vec<UnsyncedChange> {
        let held = self.pending.drain(..end).collect();
        // Rebuilt from what is durable: a change cannot be undone, since a write
        // keeps no old bytes.
        self.content.clone_from(&self.durable);
        for pending in &self.pending {
            pending.change.apply(&mut self.content);
        }
        held
    }

    /// Makes the first sectors of the pending changes before `end` durable.
    pub(super) fn sync_heads(&mut self, end: usize) {
        for pending in &self.pending[..end] {
            if let FileChange::Write { offset, bytes } = &pending.change {
                let head = bytes[..bytes.len().min(self.sectors.at(*offset) as usize)].into();
                FileChange::Write { offset: *offset, bytes: head }.apply(&mut self.durable);
            }
        }
    }

    /// Makes the last change durable.
    pub(super) fn sync_last(&mut self, change: &FileChange) {
        self.pending.pop();
        change.apply(&mut self.durable);
    }
}
