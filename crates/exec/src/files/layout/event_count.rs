//! Tells by event counts whether the files of an array are of one time, as md does by those in its superblocks.
//!
//! Each start and each clean shutdown of an array raises its event count. The NVRAM's header has it. Every other file has
//! two: `from`, which the NVRAM has or had, and `to`, which it has or will have. A count is raised in three steps, each
//! durable before the next:
//!
//! 1. All other files get `from` and `to`.
//! 2. The NVRAM gets `to`.
//! 3. All other files get `to` twice: the count is *settled*.
//!
//! After a crash at any moment one count of each file equals the NVRAM's. A file with smaller counts is an older copy that
//! was put back. If its counts are larger the NVRAM is one.
//!
//! The intents have theirs in the header (`intents.rs`). A device has two pages, of which the newer count holds and the
//! older one is written next: after a torn write the other is right.
//!
//! ```text
//! first whole page behind the label, and the next. At least 512 bytes each
//!   0   8  "dstgEVNT"
//!   8   4  version, 1
//!  12   4  number of the device
//!  16  16  drawn when the array was made
//!  32   8  from
//!  40   8  to
//!  48  12  0
//!  60   4  CRC-32C of bytes 0 .. 60
//! ```

use super::label::ArrayOrigin;
use super::sectors::{SECTOR, put};
use crate::buffer::AlignedBuffer;

const MAGIC: [u8; 8] = *b"dstgEVNT";
const VERSION: u32 = 1;
/// Sets the bytes of a record.
const RECORD: usize = 64;
/// Sets where its checksum is.
const CRC: usize = RECORD - 4;
/// Bounds the counts.
pub(crate) const COUNT_END: u64 = 1 << 63;

/// Holds the event count of a file other than the NVRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventCount {
    /// Gives the count that the NVRAM has, or will have.
    pub(crate) to: u64,
    /// Gives the count that the NVRAM has, or had.
    pub(crate) from: u64,
}

impl EventCount {
    /// Makes a settled one.
    pub(crate) const fn settled(count: u64) -> Self {
        Self { from: count, to: count }
    }

    /// Returns true if the count is being raised.
    pub(crate) const fn is_changing(self) -> bool {
        self.from != self.to
    }

    /// Returns true if the file is of the same time as an NVRAM with this count.
    pub(crate) const fn is_of(self, nvram: u64) -> bool {
        self.from == nvram || self.to == nvram
    }

    /// Returns true if the file is newer than an NVRAM with this count.
    pub(crate) const fn is_ahead_of(self, nvram: u64) -> bool {
        self.from > nvram
    }
}

/// Returns the bytes of one of these pages on a device with pages of so many bytes.
pub(crate) const fn place_bytes(page_bytes: u64) -> u64 {
    page_bytes.next_multiple_of(SECTOR as u64)
}

/// Encodes one of them.
pub(crate) fn encode(page_bytes: u64, drawn: [u8; 16], dev: usize, count: EventCount) -> AlignedBuffer {
    // At least a sector, so that a torn write leaves the other place untouched.
    let mut place = AlignedBuffer::zeroed(place_bytes(page_bytes) as usize);
    put(&mut place, 0, &MAGIC);
    put(&mut place, 8, &VERSION.to_le_bytes());
    put(&mut place, 12, &(dev as u32).to_le_bytes());
    put(&mut place, 16, &drawn);
    put(&mut place, 32, &count.from.to_le_bytes());
    put(&mut place, 40, &count.to.to_le_bytes());
    let crc = crc32c::crc32c(&place[..CRC]);
    put(&mut place, CRC, &crc.to_le_bytes());
    place
}

/// Returns the newer count of both pages, and which of them has it; none if neither has one, or both are damaged.
pub(crate) fn decode(pages: &[u8], origin: ArrayOrigin, dev: usize) -> Option<(EventCount, u64)> {
    // The newer count is the larger one; of damaged places the other one counts.
    let found = pages.chunks_exact(pages.len() / 2).zip(0..);
    found.filter_map(|(page, place)| Some((read(&page[..RECORD], origin, dev)?, place))).max()
}

fn read(record: &[u8], origin: ArrayOrigin, dev: usize) -> Option<EventCount> {
    let u32_at = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
    let is_its_own = record[..8] == MAGIC
        && u32_at(CRC) == crc32c::crc32c(&record[..CRC])
        && u32_at(8) == VERSION
        && u32_at(12) as usize == dev
        && record[16..32] == origin.drawn;
    let count = EventCount { from: u64_at(32), to: u64_at(40) };
    (is_its_own && count.from <= count.to && count.to < COUNT_END).then_some(count)
}
