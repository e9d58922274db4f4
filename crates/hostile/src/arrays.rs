//! Checks the inputs from which served arrays are made: descriptions, and md's superblocks on adopted members.

use std::path::{Path, PathBuf};

use destage_engine::{ArrayDescription, MdArray};

use crate::bytes::Bytes;

/// Bytes of a superblock that an input says: with its table of roles.
const SAID: usize = 264;

/// A description is refused, or what is written of it reads as the same and comes to the same.
pub(crate) fn description(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let path = Path::new("array.toml");
    let read = match ArrayDescription::parse(text, path) {
        Ok(read) => read,
        Err(error) => return assert!(error.to_string().contains("array.toml"), "{error}"),
    };
    // Writing a description must not lose a setting, or the next start would open another array.
    let again = ArrayDescription::parse(&read.text(), path).expect("what was written is a description");
    assert_eq!(again.text(), read.text(), "it is written in one way");
    match (read.described(Path::new("folder")), again.described(Path::new("folder"))) {
        (Ok(_), Ok(_)) => {}
        (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
        (one, _) => panic!("it comes to something else when it is read again: {:?}", one.err()),
    }
}

/// Takes the number of members, and for each the place and content of its superblock.
///
/// With the right magic, place and sum it is refused or adopted. With another byte changed it is not adopted.
pub(crate) fn superblocks(bytes: &[u8]) {
    let mut input = Bytes::new(bytes);
    let (count, changed) = (1 + usize::from(input.u8()) % 4, usize::from(input.u8()));
    let mut members: Vec<(PathBuf, Vec<u8>)> = (0..count)
        .map(|member| {
            let at = if input.u8() & 1 == 0 { 4096 } else { 0 };
            let mut bytes = vec![0; MdArray::BEGINNING];
            bytes[at..at + SAID].fill_with(|| input.u8());
            // Without the right sum nearly every input would be refused before its fields are looked at.
            seal(&mut bytes[at..], at as u64);
            (PathBuf::from(format!("member{member}")), bytes)
        })
        .collect();
    match MdArray::of(&members) {
        Ok(Some(array)) => {
            let mut paths = array.members.clone();
            paths.sort();
            assert!(paths.iter().eq(members.iter().map(|(path, _)| path)), "each has a place");
            assert!(array.member_size.0 > 0 && array.data_offset.0 > 0);
        }
        Ok(None) => panic!("all members have superblocks"),
        Err(error) => assert!(error.to_string().starts_with("member"), "{error}"),
    }
    let (_, last) = &mut members[count - 1];
    let at = if u32::from_le_bytes(last[4096..4100].try_into().expect("four bytes")) == MAGIC { 4096 } else { 0 };
    // The changed byte lies before the table of roles, whose length may be 0.
    last[at + changed] ^= 1 << (changed % 8);
    assert!(!matches!(MdArray::of(&members), Ok(Some(_))), "byte {changed} of a superblock was changed");
}

const MAGIC: u32 = 0xa92b_4efc;

/// Puts right what must be so that it is looked at.
fn seal(superblock: &mut [u8], at: u64) {
    let mut put = |at: usize, bytes: &[u8]| superblock[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &MAGIC.to_le_bytes());
    put(4, &1_u32.to_le_bytes());
    put(144, &(at / 512).to_le_bytes());
    put(216, &[0; 4]);
    let roles = u32::from_le_bytes(superblock[220..224].try_into().expect("four bytes")) as usize;
    let end = (256 + 2 * roles).min(superblock.len());
    let sum: u64 = superblock[..end]
        .chunks(4)
        .map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
        .sum();
    let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
    superblock[216..220].copy_from_slice(&sum.to_le_bytes());
}
