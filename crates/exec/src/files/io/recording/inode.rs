//! Models a file of a recording: what reads see, what is durable, the changes between, and what a loss of power
//! leaves of them.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

use super::image::FileImage;

/// Draws the random choices of a recording.
pub trait CrashChance: Send {
    /// Returns a number below `n`.
    fn below(&mut self, n: u64) -> u64;
}

/// Says how much of the undurable changes a loss of power leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashSurvival {
    /// Leaves nothing.
    Nothing,
    /// Leaves everything.
    Everything,
    /// Leaves some operations as a whole.
    Operations,
    /// Leaves some sectors of each.
    Sectors,
    /// Leaves all of some files and nothing of others: a bit each.
    Files(u64),
}

impl CrashSurvival {
    /// Draws one of all kinds.
    pub fn draw(chance: &mut dyn CrashChance) -> Self {
        match chance.below(8) {
            0 | 1 => Self::Nothing,
            2 => Self::Everything,
            3 => Self::Sectors,
            4 | 5 => Self::Files(chance.below(1 << 32)),
            _ => Self::Operations,
        }
    }
}

/// Holds the bytes of a file's sectors, none of which is ever torn.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectorBytes {
    /// Holds the bytes of a sector at the beginning of the file.
    pub(super) bytes: u64,
    /// Holds the offset from which sectors are different, a multiple of both sizes, and their bytes.
    pub(super) behind: (u64, u64),
}

impl Default for SectorBytes {
    fn default() -> Self {
        Self { bytes: 512, behind: (u64::MAX, 512) }
    }
}

impl SectorBytes {
    /// Returns the bytes of the sector at this offset.
    pub(super) const fn at(self, offset: u64) -> u64 {
        if offset < self.behind.0 { self.bytes } else { self.behind.1 }
    }
}

/// Says what becomes of bytes that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBytes {
    /// Lets them be read once they are written.
    UntilWritten,
    /// Lets them be written, and never read.
    Unreadable,
    /// Lets them neither be read nor written.
    Unwritable,
}

#[derive(Clone, Debug)]
pub(super) enum FileChange {
    Write { offset: u64, bytes: Arc<[u8]> },
    Punch { offset: u64, len: u64 },
    SetLen(u64),
}

impl FileChange {
    pub(super) fn apply(&self, image: &mut FileImage) {
        match *self {
            Self::Write { offset, ref bytes } => image.write(offset, bytes),
            Self::Punch { offset, len } => image.zero(offset as usize, (offset + len) as usize),
            Self::SetLen(len) => image.resize(len as usize),
        }
    }
}

/// Is a change that is not durable.
#[derive(Clone, Debug)]
pub(super) struct UnsyncedChange {
    /// Names the worker that made it.
    pub(super) worker: usize,
    /// Is true if it was made while a sync was running.
    pub(super) beside: bool,
    pub(super) change: FileChange,
}

#[derive(Clone, Debug)]
pub(super) struct RecordedInode {
    /// Holds what reads see.
    pub(super) content: FileImage,
    pub(super) durable: FileImage,
    /// Lists the changes since the last sync.
    pub(super) pending: Vec<UnsyncedChange>,
    /// Counts those of them that existed when the last sync, or the process before, ended.
    pub(super) settled: usize,
    /// Names the worker that asks now.
    pub(super) worker: usize,
    /// Holds where among the pending changes a running sync began: it covers those before.
    pub(super) sync_begun: Option<usize>,
    /// Is true if a sync has failed: reads may show what is not durable, and no later sync makes it so.
    pub(super) spoiled: bool,
    /// Counts the failed syncs.
    pub(super) failed_syncs: u64,
    pub(super) sectors: SectorBytes,
    /// Is true if every operation on the file fails.
    pub(super) broken: bool,
    pub(super) hangs: bool,
    /// Lists what cannot be read.
    pub(super) bad: Vec<(Range<u64>, BadBytes)>,
    pub(super) locked_by: Option<u64>,
}

impl RecordedInode {
    pub(super) fn new(image: FileImage, sectors: SectorBytes) -> Self {
        Self {
            content: image.clone(),
            durable: image,
            pending: Vec::new(),
            settled: 0,
            worker: 0,
            sync_begun: None,
            spoiled: false,
            failed_syncs: 0,
            sectors,
            broken: false,
            hangs: false,
            bad: Vec::new(),
            locked_by: None,
        }
    }

    /// Returns true if some of these bytes cannot be read.
    pub(super) fn is_bad(&self, offset: u64, len: usize) -> bool {
        self.bad.iter().any(|(range, _)| range.start < offset + len as u64 && offset < range.end)
    }

    /// Flips a bit of a byte, in what is durable and what is not.
    pub(super) fn flip(&mut self, offset: u64, bit: u32) {
        let pending = self.pending.iter_mut().filter_map(|pending| match &mut pending.change {
            FileChange::Write { offset: from, bytes } => {
                Arc::make_mut(bytes).get_mut(offset.checked_sub(*from)? as usize)
            }
            FileChange::Punch { .. } | FileChange::SetLen(_) => None,
        });
        // Rot sits on the medium: it must be seen whichever image a crash leaves.
        let kept =
            [&mut self.content, &mut self.durable].into_iter().filter_map(|image| image.byte_mut(offset as usize));
        kept.chain(pending).for_each(|byte| *byte ^= 1 << (bit % 8));
    }

    /// Makes a change, and fails if it writes what cannot be written.
    pub(super) fn change(&mut self, change: FileChange) -> io::Result<()> {
        if let FileChange::Write { offset, bytes } = &change {
            let end = offset + bytes.len() as u64;
            if self
                .bad
                .iter()
                .any(|(range, kind)| *kind == BadBytes::Unwritable && range.start < end && *offset < range.end)
            {
                return Err(Errno::IO.into());
            }
            // A disk remaps a bad sector when it is written as a whole; a part of
            // it would need the old bytes.
            self.bad
                .retain(|(range, kind)| *kind != BadBytes::UntilWritten || range.start < *offset || end < range.end);
        }
        self.apply(change);
        Ok(())
    }

    pub(super) fn apply(&mut self, change: FileChange) {
        change.apply(&mut self.content);
        // Marked at once: afterwards nobody can tell whether it came before or
        // after the sync began.
        self.pending.push(UnsyncedChange { worker: self.worker, beside: self.sync_begun.is_some(), change });
    }

    /// Returns the end of the pending changes that a sync covers which ends now.
    pub(super) fn covered_by_sync(&mut self) -> usize {
        self.sync_begun.take().unwrap_or(self.pending.len())
    }

    /// Makes the pending changes before `end` durable, except those that `covers` excludes.
    /// Without `lengths` it leaves out set lengths.
    pub(super) fn sync(&mut self, lengths: bool, end: usize, covers: impl Fn(usize, &UnsyncedChange) -> bool) {
        // What a length that is not durable cuts off or adds stays undecided, and so does what was
        // done before it.
        let sets = |pending: &UnsyncedChange| !lengths && matches!(pending.change, FileChange::SetLen(_));
        // What precedes an undecided length must stay in order with it, so only
        // later changes become durable.
        let first = self.pending.iter().rposition(sets).map_or(0, |last| last + 1);
        let mut index = first;
        let covered = self.pending.extract_if(first..end.clamp(first, self.pending.len()), |pending| {
            index += 1;
            covers(index - 1, pending)
        });
        for pending in covered {
            pending.change.apply(&mut self.durable);
        }
    }

    /// Fails a sync: each pending change becomes durable or never does, sector by sector, at random.
    pub(super) fn spoil(&mut self, chance: &mut dyn CrashChance) {
        (self.spoiled, self.sync_begun, self.settled) = (true, None, 0);
        self.failed_syncs += 1;
        // Linux marks the pages clean after a failed sync, so the next one succeeds
        // without writing them.
        let pending = std::mem::take(&mut self.pending);
        apply_some(&mut self.durable, &pending, self.sectors, 0, CrashSurvival::Sectors, chance);
    }
}

/// Applies what survives of these changes.
pub(super) fn apply_some(
    image: &mut FileImage,
    changes: &[UnsyncedChange],
    sectors: SectorBytes,
    file: usize,
    survival: CrashSurvival,
    chance: &mut dyn CrashChance,
) {
    for UnsyncedChange { change, .. } in changes {
        let whole = match survival {
            CrashSurvival::Nothing => false,
            CrashSurvival::Everything => true,
            CrashSurvival::Files(which) => which >> (file % 32) & 1 != 0,
            CrashSurvival::Operations => chance.below(2) == 0,
            CrashSurvival::Sectors => {
                apply_sectors(image, change, sectors, chance);
                continue;
            }
        };
        if whole {
            change.apply(image);
        }
    }
}

fn apply_sectors(image: &mut FileImage, change: &FileChange, sectors: SectorBytes, chance: &mut dyn CrashChance) {
    let (offset, len) = match change {
        FileChange::Write { offset, bytes } => (*offset, bytes.len() as u64),
        FileChange::Punch { offset, len } => (*offset, *len),
        FileChange::SetLen(_) => {
            // A length has no sectors: it is there or not.
            if chance.below(2) == 0 {
                change.apply(image);
            }
            return;
        }
    };
    // Sector by sector: a disk promises the atomicity of a sector and of nothing
    // larger.
    let mut at = offset;
    while at < offset + len {
        let sector = sectors.at(at);
        let end = ((at / sector + 1) * sector).min(offset + len);
        if chance.below(2) == 0 {
            let part = match change {
                FileChange::Write { bytes, .. } => FileChange::Write {
                    offset: at,
                    bytes: bytes[(at - offset) as usize..(end - offset) as usize].into(),
                },
                _ => FileChange::Punch { offset: at, len: end - at },
            };
            part.apply(image);
        }
        at = end;
    }
}
