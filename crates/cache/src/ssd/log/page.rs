//! A page of the metadata log: a header of 16 bytes, entries, and zeros behind them. All numbers
//! are little-endian.
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 2 | `ML` |
//! | 2 | 1 | version: 2; 1 if no entry has a checksum |
//! | 3 | 1 | reserved |
//! | 4 | 4 | CRC-32C of bytes 0 to 3 and of all behind these four |
//! | 8 | 6 | sequence of the page: how many pages the log wrote before it |
//! | 14 | 2 | entries |
//! | 16 | 22 each | the entries |

use super::entry::{ENTRY_BYTES, EntryError, LogEntry};

/// Bytes of a page's header.
pub const HEADER_BYTES: usize = 16;

const MAGIC: [u8; 2] = *b"ML";
const VERSION: u8 = 2;

/// Entries for which a page of so many bytes has room.
pub const fn room(page_bytes: u32) -> u32 {
    let room = page_bytes.saturating_sub(HEADER_BYTES as u32) / ENTRY_BYTES as u32;
    // The count has two bytes.
    if room < u16::MAX as u32 { room } else { u16::MAX as u32 }
}

/// Explains why bytes are no page of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// Says that the page was never written.
    #[error("it is blank")]
    Blank,
    /// Says that the bytes are no page of a log.
    #[error("it begins with bytes {0:02x?}, not with `ML`")]
    Magic([u8; 2]),
    /// Says that there are fewer bytes than a header has.
    #[error("it has {0} bytes, too few for a header")]
    Short(usize),
    /// Says that the page was torn or damaged.
    #[error("its checksum is {found:#010x}; its bytes have {expected:#010x}")]
    Checksum {
        /// Is the checksum in the page.
        found: u32,
        /// Is the checksum of its bytes.
        expected: u32,
    },
    /// Says that the page is whole but of an unknown version.
    #[error("its version is {0}; it must be 1 or {VERSION}")]
    Version(u8),
    /// A byte that must be zero is not.
    #[error("byte {0} is not zero")]
    Reserved(usize),
    /// Says that the page claims more entries than fit into it.
    #[error("it has {found} entries; at most {room} go into a page")]
    Count {
        /// Counts the entries that it claims.
        found: u16,
        /// Limits the entries of a page.
        room: u32,
    },
}

impl PageError {
    /// Returns true if an interrupted write can leave this. Anything else is a whole page with a wrong meaning.
    pub const fn may_be_torn(self) -> bool {
        // The checksum covers every byte, so a torn write fails it. The magic can
        // be torn as well, where the first sector kept older bytes.
        matches!(self, Self::Blank | Self::Magic(_) | Self::Checksum { .. })
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    // The checksum's own bytes are left out.
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..4]), &bytes[8..])
}

/// Writes a page over what `bytes` holds.
///
/// # Panics
/// If there are more entries than there is [`room`] for.
pub(super) fn write(
    page_bytes: u32,
    sequence: u64,
    entries: impl ExactSizeIterator<Item = LogEntry>,
    bytes: &mut Vec<u8>,
) {
    let count = entries.len();
    assert!(count as u32 <= room(page_bytes), "{count} entries for a page of {page_bytes} bytes");
    bytes.clear();
    bytes.resize(page_bytes as usize, 0);
    bytes[..2].copy_from_slice(&MAGIC);
    bytes[2] = VERSION;
    bytes[8..14].copy_from_slice(&sequence.to_le_bytes()[..6]);
    bytes[14..16].copy_from_slice(&(count as u16).to_le_bytes());
    for (place, entry) in bytes[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES).zip(entries) {
        place.copy_from_slice(&entry.encode());
    }
    let checksum = checksum(bytes);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// A whole page that was read.
#[derive(Clone, Copy, Debug)]
pub struct LogPage<'a> {
    sequence: u64,
    entries: &'a [u8],
}

impl<'a> LogPage<'a> {
    /// The page that bytes are.
    pub fn read(bytes: &'a [u8]) -> Result<Self, PageError> {
        if bytes.len() < HEADER_BYTES {
            return Err(PageError::Short(bytes.len()));
        }
        // Blank is told from torn: on a log's first round most pages are blank, and
        // that is no damage.
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(PageError::Blank);
        }
        if bytes[..2] != MAGIC {
            return Err(PageError::Magic([bytes[0], bytes[1]]));
        }
        let found = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        let expected = checksum(bytes);
        if found != expected {
            return Err(PageError::Checksum { found, expected });
        }
        // Checked after the checksum: a version in damaged bytes says nothing.
        if !(1..=VERSION).contains(&bytes[2]) {
            return Err(PageError::Version(bytes[2]));
        }
        let count = u16::from_le_bytes([bytes[14], bytes[15]]);
        let room = room(bytes.len() as u32);
        if u32::from(count) > room {
            return Err(PageError::Count { found: count, room });
        }
        let end = HEADER_BYTES + usize::from(count) * ENTRY_BYTES;
        // Reserved bytes are zero, so that a later version can use them and this
        // one refuses it.
        if let Some(at) = std::iter::once(3).chain(end..bytes.len()).find(|at| bytes[*at] != 0) {
            return Err(PageError::Reserved(at));
        }
        let mut sequence = [0; 8];
        sequence[..6].copy_from_slice(&bytes[8..14]);
        Ok(Self { sequence: u64::from_le_bytes(sequence), entries: &bytes[HEADER_BYTES..end] })
    }

    /// Returns how many pages the log wrote before this one.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the number of entries.
    pub const fn count(&self) -> u32 {
        (self.entries.len() / ENTRY_BYTES) as u32
    }

    /// The entries.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Result<LogEntry, EntryError>> + use<'a> {
        self.entries.chunks_exact(ENTRY_BYTES).map(|entry| LogEntry::decode(entry.try_into().expect("so many bytes")))
    }
}
