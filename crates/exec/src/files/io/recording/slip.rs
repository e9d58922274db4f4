//! Faults planted in the executor: what it would leave undone, do in another order, or not hear, done in its place by
//! the recording, which is told of every operation. A harness plants them to see whether it finds them; they cost the
//! executor nothing.

use std::io;

use rustix::io::Errno;

use super::inode::{CrashChance, FileChange, RecordedInode, UnsyncedChange};
use crate::files::io::file::{SyncPoint, UntrustedFile};

/// A fault of the executor. Of syncs it is that of all of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutorFault {
    /// They are left out.
    Missing(SyncPoint),
    /// They make contents durable and no lengths.
    ContentAlone(SyncPoint),
    /// They are told as done when they begin: what they cover becomes durable some operations later.
    Late(SyncPoint),
    /// What they make durable is told as done before it is written, which it is some operations later: so it comes after
    /// what it must precede.
    Held(SyncPoint),
    /// They are asked for before what they are to make durable is written.
    TooSoon(SyncPoint),
    /// Two steps share one: what the first does is durable no sooner than what the second does.
    Paired(SyncPoint),
    /// Of what they make durable the first sector of each write is so at once, the others some operations later: a header
    /// before what it says to be there.
    HeadFirst(SyncPoint),
    /// What was found at a start is not written anew before they make it durable.
    NotAnew(SyncPoint),
    /// One counts for a write that ended while it was under way.
    BegunBefore(SyncPoint),
    /// They cover only what the worker wrote that asks for them.
    OwnAlone,
    /// One of them that fails counts as done.
    Unheard(SyncPoint),
    /// A write or a trim that fails as a broken device does counts as done.
    UnheardWrite,
    /// A write for which there is no room counts as done.
    UnheardNoRoom,
    /// A read that fails brings zeros.
    UnheardRead,
    /// A write that was done in part counts as done.
    ShortWrite,
    /// A read that was done in part counts as done.
    ShortRead,
    /// A hole that was made in part counts as whole.
    ShortHole,
    /// Counts a merged operation that was done in part as whole.
    MergedShort,
    /// Tells an error of a merged operation to its first part alone: the others count as done.
    MergedErrorOfFirst,
    /// Counts an error of a merged operation as one of each of its parts: none is tried alone.
    MergedErrorOfAll,
    /// Gives the parts of a merged operation each other's results.
    MergedExchanged,
    /// This counts as a record of the NVRAM.
    Believes(UntrustedFile),
}

/// What becomes of a sync that was told as done later.
#[derive(Clone, Debug)]
pub(super) struct OmittedSync {
    /// When so many operations were done.
    pub(super) due: u64,
    pub(super) file: usize,
    /// What is pending before here is covered.
    pub(super) end: usize,
    pub(super) lengths: bool,
    /// What was not written so far.
    pub(super) held: Vec<UnsyncedChange>,
}

impl OmittedSync {
    pub(super) const fn is_of(&self, file: usize) -> bool {
        self.file == file
    }
}

impl ExecutorFault {
    /// The syncs that it is about; none if it is about all or none.
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

    /// Whether an error of something that changes a file is not heard.
    pub(super) fn misses(self, error: &io::Error) -> bool {
        match Errno::from_io_error(error) {
            Some(Errno::NOSPC) => self == Self::UnheardNoRoom,
            _ => self == Self::UnheardWrite,
        }
    }
}

/// How many of these bytes, which begin there, are read, written or made zeros: all, or those before a sector that chance chooses.
pub(super) fn part(offset: u64, len: usize, sector: u64, chance: &mut dyn CrashChance) -> usize {
    let sectors = len as u64 / sector;
    if sectors < 2 || !offset.is_multiple_of(sector) || chance.below(4) != 0 {
        return len;
    }
    ((1 + chance.below(sectors - 1)) * sector) as usize
}

impl RecordedInode {
    /// Takes out what is pending before here, as if nobody had done it.
    pub(super) fn take_back(&mut self, end: usize) -> Vec<UnsyncedChange> {
        let held = self.pending.drain(..end).collect();
        self.content.clone_from(&self.durable);
        for pending in &self.pending {
            pending.change.apply(&mut self.content);
        }
        held
    }

    /// Makes the first sectors of what is pending before here durable.
    pub(super) fn sync_heads(&mut self, end: usize) {
        for pending in &self.pending[..end] {
            if let FileChange::Write { offset, bytes } = &pending.change {
                let head = bytes[..bytes.len().min(self.sectors.at(*offset) as usize)].into();
                FileChange::Write { offset: *offset, bytes: head }.apply(&mut self.durable);
            }
        }
    }

    /// What was done last is durable.
    pub(super) fn sync_last(&mut self, change: &FileChange) {
        self.pending.pop();
        change.apply(&mut self.durable);
    }
}
