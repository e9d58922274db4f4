//! Faults planted in the executor: what it would leave undone, do in another order, or not hear, done in its place by
//! the recording, which is told of every operation. A harness plants them to see whether it finds them; they cost the
//! executor nothing.

use std::io;

use rustix::io::Errno;

use super::State;
use super::inode::Chance;
use super::inode::{Change, Inode, Pending};
use crate::files::io::file::{SyncPoint, Unfit};

/// A fault of the executor. Of syncs it is that of all of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slip {
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
    /// This counts as a record of the NVRAM.
    Believes(Unfit),
}

/// What becomes of a sync that was told as done later.
#[derive(Clone, Debug)]
pub(super) struct Debt {
    /// When so many operations were done.
    due: u64,
    file: usize,
    /// What is pending before here is covered.
    end: usize,
    lengths: bool,
    /// What was not written so far.
    held: Vec<Pending>,
}

impl Debt {
    pub(super) const fn is_of(&self, file: usize) -> bool {
        self.file == file
    }
}

/// Operations after which at most what was told as done is done.
const LATE: u64 = 48;

impl State {
    /// A sync of a file ends well, as far as it is honest.
    pub(super) fn sync(&mut self, file: usize, at: SyncPoint, lengths: bool) {
        // A sync covers what an earlier one was told to have covered.
        self.pay(Some(file));
        let slip = self.slip.filter(|slip| slip.of().is_none_or(|of| of == at));
        let due = self.operations + 1 + if slip.is_some_and(Slip::is_late) { self.chance.below(LATE) } else { 0 };
        let inode = &mut self.disk.inodes[file];
        let end = inode.covered_by_sync();
        let (worker, settled) = (inode.worker, inode.settled);
        match slip {
            Some(Slip::Missing(_)) => {}
            Some(Slip::Paired(_)) if self.paired.insert(file) => {}
            Some(Slip::Late(_)) => self.debts.push(Debt { due, file, end, lengths, held: Vec::new() }),
            Some(Slip::Held(_)) => {
                let held = inode.take_back(end);
                self.debts.push(Debt { due, file, end: 0, lengths, held });
            }
            Some(Slip::TooSoon(_)) => {
                inode.sync(lengths, end, |index, pending| index < settled || pending.worker != worker);
            }
            Some(Slip::HeadFirst(_)) => {
                inode.sync_heads(end);
                self.debts.push(Debt { due, file, end: inode.pending.len(), lengths, held: Vec::new() });
            }
            Some(Slip::NotAnew(_)) => {
                inode.pending.truncate(settled);
                inode.sync(lengths, end, |_, _| true);
            }
            Some(Slip::BegunBefore(_))
                if inode.pending.iter().rfind(|one| one.worker == worker).is_some_and(|one| one.beside) => {}
            Some(Slip::OwnAlone) => inode.sync(lengths, end, |_, pending| pending.worker == worker),
            Some(Slip::ContentAlone(_)) => inode.sync(false, end, |_, _| true),
            _ => {
                self.paired.remove(&file);
                inode.sync(lengths, end, |_, _| true);
            }
        }
        let inode = &mut self.disk.inodes[file];
        inode.settled = inode.pending.len();
    }

    /// Makes durable what was told to be so: what is due by now, and all of a file.
    pub(super) fn pay(&mut self, of: Option<usize>) {
        if self.debts.is_empty() {
            return;
        }
        for debt in self.debts.extract_if(.., |debt| debt.due <= self.operations || of == Some(debt.file)) {
            let inode = &mut self.disk.inodes[debt.file];
            if inode.broken {
                continue;
            }
            inode.sync(debt.lengths, debt.end, |_, _| true);
            for pending in debt.held {
                inode.change(pending.change.clone());
                inode.sync_last(&pending.change);
            }
        }
    }
}

impl Slip {
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

    const fn is_late(self) -> bool {
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
pub(super) fn part(offset: u64, len: usize, sector: u64, chance: &mut dyn Chance) -> usize {
    let sectors = len as u64 / sector;
    if sectors < 2 || !offset.is_multiple_of(sector) || chance.below(4) != 0 {
        return len;
    }
    ((1 + chance.below(sectors - 1)) * sector) as usize
}

impl Inode {
    /// Takes out what is pending before here, as if nobody had done it.
    fn take_back(&mut self, end: usize) -> Vec<Pending> {
        let held = self.pending.drain(..end).collect();
        self.content.clone_from(&self.durable);
        for pending in &self.pending {
            pending.change.apply(&mut self.content);
        }
        held
    }

    /// Makes the first sectors of what is pending before here durable.
    fn sync_heads(&mut self, end: usize) {
        for pending in &self.pending[..end] {
            if let Change::Write { offset, bytes } = &pending.change {
                let head = bytes[..bytes.len().min(self.sectors.at(*offset) as usize)].to_vec();
                Change::Write { offset: *offset, bytes: head }.apply(&mut self.durable);
            }
        }
    }

    /// What was done last is durable.
    fn sync_last(&mut self, change: &Change) {
        self.pending.pop();
        change.apply(&mut self.durable);
    }
}
