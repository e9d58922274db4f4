//! An entry of the metadata log: what is in a frame of the cache, and since when, in 22 bytes.
//!
//! The same bytes are the end of a tag of the NVRAM, behind its version and its kind, so that an
//! entry is durable there until it is in the log. All numbers are little-endian.
//!
//! | byte | bits | field |
//! |---|---|---|
//! | 0 | 31 | frame |
//! | | 31 | frame in which the delta lies, all ones if there is none |
//! | | 2 | state: 0 clean, 1 old, 2 new, 3 dirty |
//! | 8 | 40 | page of the array, all ones if the frame is free (its state is 0) |
//! | | 12 | first byte of the delta in its frame, 0 if there is none |
//! | | 12 | bytes of the delta minus one, 0 if there is none |
//! | 16 | 48 | sequence, at least 1 |
//!
//! A clean or dirty page has no delta, and may have a checksum in the bits of one: its low 24 bits are in bits 31 to 54 of the first
//! number, its high 8 bits in bits 40 to 47 of the second, whose bit 48 is 1. The other bits of a delta are 0 then.
//!
//! So a cache has fewer than 2³¹ frames, an array fewer than 2⁴⁰ pages (4 PiB of 4 KiB), and deltas
//! lie in the first 4,096 bytes of a frame.

use destage_plan::{PageChecksum, Tag};

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 22;
/// Frames that a cache can have.
pub const MAX_FRAMES: u32 = (1 << 31) - 1;
/// Pages that an array can have.
pub const MAX_ARRAY_PAGES: u64 = (1 << 40) - 1;
/// Bytes of a frame in which deltas can lie.
pub const MAX_DELTA_END: u32 = 1 << 12;
/// No entry has this sequence or a larger one.
pub const SEQUENCES: u64 = 1 << 48;

/// Writes tags of this version. In version 1 no entry had a checksum.
const TAG_VERSION: u8 = 2;
const NO_DELTA: u32 = MAX_FRAMES;
const NO_PAGE: u64 = MAX_ARRAY_PAGES;
/// Counts the bits of a checksum in the field of a delta's frame; the others are in the field of its first byte.
const LOW_BITS: u32 = 24;
/// Marks, behind the high bits of a checksum, that there is one.
const HAS_CHECKSUM: u16 = 1 << 8;

/// Identifies the bytes of a delta in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeltaPlace {
    /// The frame, of the delta zone.
    pub frame: u32,
    /// Is the offset of the first byte in the frame.
    pub offset: u16,
    /// Is the length in bytes, 1 to 4,096.
    pub len: u16,
}

impl DeltaPlace {
    /// The byte behind its last.
    pub const fn end(self) -> u32 {
        self.offset as u32 + self.len as u32
    }
}

/// Reports what is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrameFact {
    /// Nothing, or deltas: the frame is no page's.
    Free,
    /// A page as the array has it.
    Clean {
        /// Is the page of the array.
        page: u64,
        /// Gives the checksum of what is in the frame; none if nobody knew it.
        checksum: Option<PageChecksum>,
    },
    /// A page as its row's parity has it, which is not as it is.
    Old {
        /// Is the page of the array.
        page: u64,
        /// Is the place of the delta. If none, the delta is elsewhere: in the NVRAM, or in another frame as a
        /// whole page ([`New`](Self::New)).
        delta: Option<DeltaPlace>,
    },
    /// A page that is newer than its row's parity, whose [old](Self::Old) version is another frame's.
    New {
        /// Is the page of the array.
        page: u64,
    },
    /// A page that is newer than the array's.
    Dirty {
        /// Is the page of the array.
        page: u64,
        /// Gives the checksum of what is in the frame; none if that may have been written over since.
        checksum: Option<PageChecksum>,
    },
}

impl FrameFact {
    /// The page of the array, if the frame is one's.
    pub const fn page(self) -> Option<u64> {
        match self {
            Self::Free => None,
            Self::Clean { page, .. } | Self::Old { page, .. } | Self::New { page } | Self::Dirty { page, .. } => {
                Some(page)
            }
        }
    }

    /// Returns the place of the delta, if the page has one in the cache.
    pub const fn delta(self) -> Option<DeltaPlace> {
        match self {
            Self::Old { delta, .. } => delta,
            _ => None,
        }
    }

    /// Returns the checksum of what is in the frame, if it is known.
    pub const fn checksum(self) -> Option<PageChecksum> {
        match self {
            Self::Clean { checksum, .. } | Self::Dirty { checksum, .. } => checksum,
            _ => None,
        }
    }

    const fn state(self) -> u8 {
        match self {
            Self::Free | Self::Clean { .. } => 0,
            Self::Old { .. } => 1,
            Self::New { .. } => 2,
            Self::Dirty { .. } => 3,
        }
    }
}

/// Reports what is in a frame and since when. Of two entries of a frame the one with the larger sequence holds,
/// wherever they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogEntry {
    /// Of which frame.
    pub frame: u32,
    /// Is the sequence at which the fact became true. It belongs to the fact and stays with it when the entry
    /// is written again. An old page with a packed delta has the sequence at which that delta was staged.
    pub sequence: u64,
    /// Reports what is in the frame.
    pub fact: FrameFact,
}

/// Explains why bytes are no entry, or none of this cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// Sequences begin at 1.
    #[error("its sequence is 0")]
    Sequence,
    /// A free frame is in no state.
    #[error("it is of a free frame in state {0}")]
    FreeState(u8),
    /// Only old pages have deltas.
    #[error("it has a delta in frame {0}, and is not of an old page")]
    Delta(u32),
    /// Says that the bits of a clean or dirty page's checksum are none.
    #[error("it is of a clean or dirty page, and the bits of its checksum are none")]
    Checksum,
    /// There is no delta, and yet a place of one.
    #[error("it has no delta, and yet byte {offset} as its first and {len} as its length minus one")]
    NoDelta {
        /// Is the offset of the first byte.
        offset: u16,
        /// Is the length minus one.
        len: u16,
    },
    /// The frame is none of the cache's.
    #[error("frame {found} is named; the cache has {frames}")]
    Frame {
        /// The frame.
        found: u32,
        /// Counts the frames of the cache.
        frames: u32,
    },
    /// The page is none of the array's.
    #[error("page {found} of the array is named; it has {pages}")]
    Page {
        /// The page.
        found: u64,
        /// Counts the pages of the array.
        pages: u64,
    },
    /// The delta ends behind its frame.
    #[error("its delta ends at byte {end} of a frame of {page_bytes}")]
    DeltaEnd {
        /// Where.
        end: u32,
        /// Bytes of a frame.
        page_bytes: u32,
    },
    /// The tag is of another version.
    #[error("the tag's version is {0}; it must be 1 or {TAG_VERSION}")]
    TagVersion(u8),
    /// The tag is of another kind.
    #[error("the tag's kind is {found}; it must be {expected}")]
    TagKind {
        /// Is the kind that was found.
        found: u8,
        /// Is the kind of entries.
        expected: u8,
    },
}

impl LogEntry {
    /// Encodes the entry.
    ///
    /// # Panics
    ///
    /// If a field is too large for its bits. An entry of a cache whose [`LogShape`](super::LogShape) was
    /// accepted never is.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let page = self.fact.page().unwrap_or(NO_PAGE);
        let (delta, offset, len) = match self.fact.delta() {
            // A length of 4,096 needs 13 bits, minus one only 12. No delta is
            // empty, so nothing is lost.
            Some(place) => (place.frame, place.offset, place.len.checked_sub(1).expect("a delta has bytes")),
            None => match self.fact.checksum() {
                Some(checksum) => {
                    let high = (checksum.get() >> LOW_BITS) as u16;
                    (checksum.get() & ((1 << LOW_BITS) - 1), HAS_CHECKSUM | high, 0)
                }
                None => (NO_DELTA, 0, 0),
            },
        };
        // Checked when it is written: a field that is too large would run into its
        // neighbours and be read as another entry.
        let fits = self.frame < MAX_FRAMES
            && (self.fact.delta().is_none_or(|place| place.frame < MAX_FRAMES && place.end() <= MAX_DELTA_END))
            && (self.fact == FrameFact::Free || page < MAX_ARRAY_PAGES)
            && (1..SEQUENCES).contains(&self.sequence);
        assert!(fits, "{self:?} does not fit into {ENTRY_BYTES} bytes");
        let frames = u64::from(self.frame) | u64::from(delta) << 31 | u64::from(self.fact.state()) << 62;
        let place = page | u64::from(offset) << 40 | u64::from(len) << 52;
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&frames.to_le_bytes());
        bytes[8..16].copy_from_slice(&place.to_le_bytes());
        // Six bytes hold 2^48 sequences; `LogReplay` refuses to begin a life with
        // fewer than 2^44 left.
        bytes[16..].copy_from_slice(&self.sequence.to_le_bytes()[..6]);
        bytes
    }

    /// The entry that bytes are. There is one way to write each.
    pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> Result<Self, EntryError> {
        let number = |at: usize, len: usize| {
            let mut number = [0; 8];
            number[..len].copy_from_slice(&bytes[at..at + len]);
            u64::from_le_bytes(number)
        };
        let (frames, place, sequence) = (number(0, 8), number(8, 8), number(16, 6));
        let (frame, delta) = (frames as u32 & MAX_FRAMES, (frames >> 31) as u32 & MAX_FRAMES);
        let (state, page) = ((frames >> 62) as u8, place & NO_PAGE);
        let (offset, len) = ((place >> 40) as u16 & 0xfff, (place >> 52) as u16);
        // Sequence 0 stands for "no entry", so blank bytes are none.
        if sequence == 0 {
            return Err(EntryError::Sequence);
        }
        if frame == MAX_FRAMES {
            return Err(EntryError::Frame { found: frame, frames: MAX_FRAMES });
        }
        if page == NO_PAGE && state != 0 {
            return Err(EntryError::FreeState(state));
        }
        // Version 1 never wrote a clean or dirty page with these bits set, so they
        // can carry a checksum without a new layout.
        if matches!(state, 0 | 3) && page != NO_PAGE && (delta, offset, len) != (NO_DELTA, 0, 0) {
            let checksum = Some(checksum(delta, offset, len).ok_or(EntryError::Checksum)?);
            let fact =
                if state == 0 { FrameFact::Clean { page, checksum } } else { FrameFact::Dirty { page, checksum } };
            return Ok(Self { frame, sequence, fact });
        }
        let delta = (delta != NO_DELTA).then_some(DeltaPlace { frame: delta, offset, len: len + 1 });
        let fact = match (state, delta) {
            (0, None) if page == NO_PAGE => FrameFact::Free,
            (0, None) => FrameFact::Clean { page, checksum: None },
            (1, delta) => FrameFact::Old { page, delta },
            (2, None) => FrameFact::New { page },
            (_, None) => FrameFact::Dirty { page, checksum: None },
            (_, Some(delta)) => return Err(EntryError::Delta(delta.frame)),
        };
        match delta {
            // Every entry has one encoding. Bits that mean nothing must have their
            // one value, so damage is noticed.
            None if (offset, len) != (0, 0) => Err(EntryError::NoDelta { offset, len }),
            Some(delta) if delta.end() > MAX_DELTA_END => {
                Err(EntryError::DeltaEnd { end: delta.end(), page_bytes: MAX_DELTA_END })
            }
            _ => Ok(Self { frame, sequence, fact }),
        }
    }

    /// The tag that makes the entry durable in the NVRAM; `kind` says whose it is
    /// ([`Array::kind_above`](destage_raid::array::RaidArray::kind_above)).
    pub fn tag(&self, kind: u8) -> Tag {
        let mut tag = [0; 24];
        (tag[0], tag[1]) = (TAG_VERSION, kind);
        tag[2..].copy_from_slice(&self.encode());
        tag
    }

    /// The entry that a tag of this kind holds.
    pub fn from_tag(tag: &Tag, kind: u8) -> Result<Self, EntryError> {
        if tag[1] != kind {
            return Err(EntryError::TagKind { found: tag[1], expected: kind });
        }
        // Version 1 had no checksums. Its entries are a subset of version 2's and
        // are read the same way.
        if !(1..=TAG_VERSION).contains(&tag[0]) {
            return Err(EntryError::TagVersion(tag[0]));
        }
        Self::decode(tag[2..].try_into().expect("the rest of a tag"))
    }
}

/// Returns the checksum that is in the fields of a delta.
const fn checksum(low: u32, high: u16, rest: u16) -> Option<PageChecksum> {
    if low >> LOW_BITS != 0 || high & !0xff != HAS_CHECKSUM || rest != 0 {
        return None;
    }
    PageChecksum::from_number(low | (high as u32 & 0xff) << LOW_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST: LogEntry = LogEntry {
        frame: MAX_FRAMES - 1,
        sequence: SEQUENCES - 1,
        fact: FrameFact::Old {
            page: MAX_ARRAY_PAGES - 1,
            delta: Some(DeltaPlace { frame: MAX_FRAMES - 1, offset: 4095, len: 1 }),
        },
    };

    fn altered(entry: LogEntry, change: impl FnOnce(&mut [u8; ENTRY_BYTES])) -> Result<LogEntry, EntryError> {
        let mut bytes = entry.encode();
        change(&mut bytes);
        LogEntry::decode(&bytes)
    }

    #[test]
    fn the_smallest_and_the_largest_of_each_fact_are_read_as_they_were_written() {
        let whole = DeltaPlace { frame: 0, offset: 0, len: 4096 };
        for page in [0, MAX_ARRAY_PAGES - 1] {
            for fact in [
                FrameFact::Free,
                FrameFact::Clean { page, checksum: None },
                FrameFact::Clean { page, checksum: PageChecksum::from_number(1) },
                FrameFact::Clean { page, checksum: PageChecksum::from_number(u32::MAX) },
                FrameFact::Clean { page, checksum: PageChecksum::from_number(0x8180_0001) },
                FrameFact::Old { page, delta: None },
                FrameFact::Old { page, delta: Some(whole) },
                LARGEST.fact,
                FrameFact::New { page },
                FrameFact::Dirty { page, checksum: None },
                FrameFact::Dirty { page, checksum: PageChecksum::from_number(0x8180_0001) },
            ] {
                for (frame, sequence) in [(0, 1), (LARGEST.frame, LARGEST.sequence)] {
                    let entry = LogEntry { frame, sequence, fact };
                    assert_eq!(LogEntry::decode(&entry.encode()), Ok(entry));
                    assert_eq!(LogEntry::from_tag(&entry.tag(19), 19), Ok(entry));
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        let free = LogEntry { frame: 3, sequence: 9, fact: FrameFact::Free };
        assert_eq!(LogEntry::decode(&[0; ENTRY_BYTES]), Err(EntryError::Sequence));
        assert_eq!(altered(free, |bytes| bytes[7] |= 0x80), Err(EntryError::FreeState(2)));
        assert_eq!(altered(LARGEST, |bytes| bytes[7] |= 0xc0), Err(EntryError::Checksum));
        assert_eq!(altered(LARGEST, |bytes| bytes[7] ^= 0xc0), Err(EntryError::Delta(MAX_FRAMES - 1)));
        assert_eq!(altered(free, |bytes| bytes[14] = 0x10), Err(EntryError::NoDelta { offset: 0, len: 1 }));
        assert_eq!(altered(free, |bytes| bytes[13] = 1), Err(EntryError::NoDelta { offset: 1, len: 0 }));
        let clean = |number| LogEntry {
            fact: FrameFact::Clean { page: 7, checksum: PageChecksum::from_number(number) },
            ..free
        };
        // A byte of the low bits, one between them, the mark, and bits behind it.
        assert_eq!(altered(clean(0x100), |bytes| bytes[7] = 1), Err(EntryError::Checksum));
        assert_eq!(altered(clean(0x100), |bytes| bytes[14] = 0), Err(EntryError::Checksum));
        assert_eq!(altered(clean(0x100), |bytes| bytes[15] = 0x10), Err(EntryError::Checksum));
        assert_eq!(altered(clean(1), |bytes| bytes[3] = 0), Err(EntryError::Checksum));
        let end = EntryError::DeltaEnd { end: 4097, page_bytes: 4096 };
        assert_eq!(altered(LARGEST, |bytes| bytes[14] |= 0x10), Err(end));
        let frame = EntryError::Frame { found: MAX_FRAMES, frames: MAX_FRAMES };
        assert_eq!(altered(LARGEST, |bytes| bytes[0] |= 1), Err(frame));
        let tag = free.tag(19);
        assert_eq!(LogEntry::from_tag(&tag, 20), Err(EntryError::TagKind { found: 19, expected: 20 }));
        assert_eq!(
            LogEntry::from_tag(&[[3].as_slice(), &tag[1..]].concat().try_into().unwrap(), 19),
            Err(EntryError::TagVersion(3))
        );
    }

    #[test]
    #[should_panic(expected = "does not fit into 22 bytes")]
    fn what_does_not_fit_is_not_written() {
        LogEntry { sequence: SEQUENCES, ..LARGEST }.encode();
    }
}
