//! Deltas that are a bitmap and what it marks: of changed words, and of changed bytes.
//!
//! Behind the byte that names the codec there is a bit for each unit of the page, the lowest bit of
//! the first byte for the first unit, which says whether the unit has changed; bits behind the end
//! of the page are 0. Then come the changed units, each the exclusive or of old and new. The last
//! word of a page is as long as what is left of the page.

use crate::kernels::{ChangeCounts, DeltaKernels};
use crate::{DeltaCodec, DeltaError};

/// Selects the unit that a bit stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BitmapUnit {
    /// Eight bytes.
    Word,
    /// One byte.
    Byte,
}

impl BitmapUnit {
    const fn codec(self) -> DeltaCodec {
        match self {
            Self::Word => DeltaCodec::Words,
            Self::Byte => DeltaCodec::Bytes,
        }
    }

    /// Bytes of one.
    const fn bytes(self) -> usize {
        match self {
            Self::Word => 8,
            Self::Byte => 1,
        }
    }

    /// Bytes before the changed units: those of the bitmap, and the first.
    const fn head(self, page: usize) -> usize {
        1 + page.div_ceil(self.bytes()).div_ceil(8)
    }
}

/// Bytes of the delta of a page of which so much has changed.
pub(crate) const fn len(unit: BitmapUnit, page: usize, counts: ChangeCounts) -> usize {
    unit.head(page)
        + match unit {
            BitmapUnit::Word => counts.words,
            BitmapUnit::Byte => counts.bytes,
        }
}

/// Writes the delta to the front of `delta`, which is as long as a page, and longer than the delta.
pub(crate) fn encode(kernels: DeltaKernels, unit: BitmapUnit, base: &[u8], new: &[u8], delta: &mut [u8]) {
    let (head, data) = delta.split_at_mut(unit.head(base.len()));
    head[0] = unit.codec().number();
    match unit {
        BitmapUnit::Word => kernels.pack_words(base, new, &mut head[1..], data),
        BitmapUnit::Byte => kernels.pack_bytes(base, new, &mut head[1..], data),
    }
}

/// Makes `page` of `base` and a delta that begins with the codec of this unit.
pub(crate) fn decode(
    kernels: DeltaKernels,
    unit: BitmapUnit,
    base: &[u8],
    delta: &[u8],
    page: &mut [u8],
) -> Result<(), DeltaError> {
    let head = unit.head(base.len());
    let (bitmap, data) =
        delta.split_at_checked(head).ok_or(DeltaError::Length { found: delta.len(), expected: head })?;
    let bitmap = &bitmap[1..];
    let beyond = base.len().div_ceil(unit.bytes()) % 8;
    // The kernels do not look at bits beyond the page.
    if beyond > 0 && bitmap.last().is_some_and(|last| last >> beyond != 0) {
        return Err(DeltaError::Bitmap(head - 1));
    }
    let right = match unit {
        BitmapUnit::Word => kernels.apply_words(base, bitmap, data, page),
        BitmapUnit::Byte => kernels.apply_bytes(base, bitmap, data, page),
    };
    // The kernels only tell that something is wrong: the slow way finds what, and where.
    if right { Ok(()) } else { decode_slowly(unit, base, delta, page) }
}

/// As [`decode`] behind the head, a unit at a time: what the kernels must equal, and what finds the
/// place where a delta is wrong, which they only say to be somewhere.
pub(crate) fn decode_slowly(unit: BitmapUnit, base: &[u8], delta: &[u8], page: &mut [u8]) -> Result<(), DeltaError> {
    let mut at = unit.head(base.len());
    let marks = delta[1..at].iter().flat_map(|bits| (0..8).map(move |bit| bits >> bit & 1 != 0));
    let units = || base.chunks(unit.bytes()).zip(marks.clone()).filter(|(_, changed)| *changed);
    let expected = at + units().map(|(old, _)| old.len()).sum::<usize>();
    if delta.len() != expected {
        return Err(DeltaError::Length { found: delta.len(), expected });
    }
    page.copy_from_slice(base);
    for (new, _) in page.chunks_mut(unit.bytes()).zip(marks.clone()).filter(|(_, changed)| *changed) {
        let changes = &delta[at..at + new.len()];
        // With a codec a page has one encoding, in which nothing is marked that did not change.
        if changes.iter().all(|change| *change == 0) {
            return Err(DeltaError::Unchanged(at));
        }
        new.iter_mut().zip(changes).for_each(|(byte, change)| *byte ^= change);
        at += new.len();
    }
    Ok(())
}
