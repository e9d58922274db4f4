//! Lays out the list of pages that a member cannot keep, which lies on the member itself, as md's list of bad blocks does.
//!
//! It has two copies, each behind the sector of one of the two event counts (`event_count.rs`), as far as pages of the
//! device leave room there. They are written in turn: after a torn write the other one is right, and older. Zeros are a
//! list without pages, so files of arrays that never had one have it.
//!
//! ```text
//! 512 bytes behind the beginning of an event count, to the end of its page
//!   0   8  "dstgBADP"
//!   8   4  version, 1
//!  12   4  number of the device
//!  16  16  drawn when the array was made
//!  32   8  sequence number of the write; copy 0 has even ones, copy 1 odd ones
//!  40   4  number of rows
//!  44   4  CRC-32C of bytes 0 .. 44 and of all from 48 on
//!  48   8  a row, ascending; then the others, and zeros
//! ```

use std::collections::BTreeSet;

use super::label::ArrayOrigin;
use super::sectors::{SECTOR, put};

const MAGIC: [u8; 8] = *b"dstgBADP";
const VERSION: u32 = 1;
/// Sets the bytes before the rows.
const HEAD: usize = 48;
/// Sets where the checksum is.
const CRC: usize = HEAD - 4;
/// Bounds the sequence numbers.
const SEQUENCE_END: u64 = 1 << 63;

/// Holds the pages that a member cannot keep, as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BadPageList {
    /// Numbers the write.
    pub(crate) sequence: u64,
    /// Gives the rows of the pages.
    pub(crate) rows: BTreeSet<u64>,
}

/// Returns how many rows go into a copy, beside an event count in a place of so many bytes.
pub(crate) const fn capacity(place_bytes: u64) -> usize {
    (place_bytes as usize).saturating_sub(SECTOR + HEAD) / 8
}

/// Encodes a list into a place, behind the event count in it.
///
/// # Panics
/// If the place has no room for the rows.
pub(crate) fn encode(place: &mut [u8], drawn: [u8; 16], dev: usize, list: &BadPageList) {
    let copy = &mut place[SECTOR..];
    put(copy, 0, &MAGIC);
    put(copy, 8, &VERSION.to_le_bytes());
    put(copy, 12, &(dev as u32).to_le_bytes());
    put(copy, 16, &drawn);
    put(copy, 32, &list.sequence.to_le_bytes());
    put(copy, 40, &(list.rows.len() as u32).to_le_bytes());
    for (nth, row) in list.rows.iter().enumerate() {
        put(copy, HEAD + 8 * nth, &row.to_le_bytes());
    }
    let crc = checksum(copy);
    put(copy, CRC, &crc.to_le_bytes());
}

fn checksum(copy: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&copy[..CRC]), &copy[HEAD..])
}

/// Returns the newer list of both places; none if no copy can be read.
pub(crate) fn decode(places: &[u8], origin: ArrayOrigin, dev: usize, rows: u64) -> Option<BadPageList> {
    let place_bytes = places.len() / 2;
    // Devices with small pages have no room beside the count, so nothing can be
    // listed there.
    if capacity(place_bytes as u64) == 0 {
        return Some(BadPageList::default());
    }
    let copies = places.chunks_exact(place_bytes).zip(0..);
    copies
        .filter_map(|(place, number)| read(&place[SECTOR..], number, origin, dev, rows))
        .max_by_key(|list| list.sequence)
}

/// Reads a copy; none if it was cut or is damaged.
fn read(copy: &[u8], number: u64, origin: ArrayOrigin, dev: usize, rows: u64) -> Option<BadPageList> {
    // Files of arrays that never had a list hold zeros, and are right.
    if copy.iter().all(|byte| *byte == 0) {
        return Some(BadPageList::default());
    }
    let u32_at = |at: usize| u32::from_le_bytes(copy[at..at + 4].try_into().expect("four bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(copy[at..at + 8].try_into().expect("eight bytes"));
    let (sequence, count) = (u64_at(32), u32_at(40) as usize);
    // A copy that fails any check is torn, damaged or another array's; the other
    // copy counts then.
    let is_its_own = copy[..8] == MAGIC
        && u32_at(CRC) == checksum(copy)
        && u32_at(8) == VERSION
        && u32_at(12) as usize == dev
        && copy[16..32] == origin.drawn
        && (1..SEQUENCE_END).contains(&sequence)
        && sequence % 2 == number
        && count <= (copy.len() - HEAD) / 8;
    if !is_its_own {
        return None;
    }
    let listed: Vec<u64> = (0..count).map(|nth| u64_at(HEAD + 8 * nth)).collect();
    // Rows ascend, so a list has one encoding and duplicates are damage.
    let is_ascending = listed.is_sorted_by(|one, next| one < next) && listed.last().is_none_or(|last| *last < rows);
    let ends = copy[HEAD + 8 * count..].iter().all(|byte| *byte == 0);
    (is_ascending && ends).then(|| BadPageList { sequence, rows: listed.into_iter().collect() })
}
