//! A file of a recording: what reads see, what is durable, what lies between; and what of that a
//! loss of power leaves.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

use super::image::FileImage;

/// Chance for a recording.
pub trait CrashChance: Send {
    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64;
}

/// What a loss of power leaves of what is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashSurvival {
    /// Nothing.
    Nothing,
    /// Everything.
    Everything,
    /// Some operations as a whole.
    Operations,
    /// Some sectors of each.
    Sectors,
    /// All of some files, nothing of others: a bit each.
    Files(u64),
}

impl CrashSurvival {
    /// One of all kinds.
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

/// Bytes of a file's sectors, none of which is ever torn.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectorBytes {
    /// Of those at the beginning.
    pub(super) bytes: u64,
    /// From where on they have others, a multiple of both.
    pub(super) behind: (u64, u64),
}

impl Default for SectorBytes {
    fn default() -> Self {
        Self { bytes: 512, behind: (u64::MAX, 512) }
    }
}

impl SectorBytes {
    /// Of the sector in which this byte is.
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

/// A change that is not durable.
#[derive(Clone, Debug)]
pub(super) struct UnsyncedChange {
    /// The worker that did it.
    pub(super) worker: usize,
    /// It was done while a sync was under way.
    pub(super) beside: bool,
    pub(super) change: FileChange,
}

#[derive(Clone, Debug)]
pub(super) struct RecordedInode {
    /// What reads see.
    pub(super) content: FileImage,
    pub(super) durable: FileImage,
    /// Since the last sync.
    pub(super) pending: Vec<UnsyncedChange>,
    /// Of these, those that were there when the last sync ended, or the process before.
    pub(super) settled: usize,
    /// The worker that asks now.
    pub(super) worker: usize,
    /// Where among what is pending a sync has begun: it covers what is before.
    pub(super) sync_begun: Option<usize>,
    /// A sync has failed: reads may show what is not durable, and no later sync makes it so.
    pub(super) spoiled: bool,
    /// Syncs that failed.
    pub(super) failed_syncs: u64,
    pub(super) sectors: SectorBytes,
    /// Every operation on it fails.
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
            self.bad
                .retain(|(range, kind)| *kind != BadBytes::UntilWritten || range.start < *offset || end < range.end);
        }
        self.apply(change);
        Ok(())
    }

    pub(super) fn apply(&mut self, change: FileChange) {
        change.apply(&mut self.content);
        self.pending.push(UnsyncedChange { worker: self.worker, beside: self.sync_begun.is_some(), change });
    }

    /// What is pending before here is covered by a sync that ends now.
    pub(super) fn covered_by_sync(&mut self) -> usize {
        self.sync_begun.take().unwrap_or(self.pending.len())
    }

    /// What is pending before `end` is durable, but for lengths that were set unless `lengths`, and for
    /// what the sync does not cover.
    pub(super) fn sync(&mut self, lengths: bool, end: usize, covers: impl Fn(usize, &UnsyncedChange) -> bool) {
        // What a length that is not durable cuts off or adds stays undecided, and so does what was
        // done before it.
        let sets = |pending: &UnsyncedChange| !lengths && matches!(pending.change, FileChange::SetLen(_));
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

    /// A sync fails: what is pending is durable or never will be, as chance has it.
    pub(super) fn spoil(&mut self, chance: &mut dyn CrashChance) {
        (self.spoiled, self.sync_begun, self.settled) = (true, None, 0);
        self.failed_syncs += 1;
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
            if chance.below(2) == 0 {
                change.apply(image);
            }
            return;
        }
    };
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
