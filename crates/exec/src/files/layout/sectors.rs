//! Sectors with a checksum, of which the NVRAM and the intents are made: the last four bytes are
//! the CRC-32C of the others.
//!
//! A sector of 512 bytes is taken to be written whole or not at all, as the crash harness takes it
//! (docs/assumptions.md). So one that does not match its checksum was not torn but damaged, and is
//! an error. All numbers are little-endian.

use std::fmt::{Debug, Display};
use std::path::Path;

use crate::files::error::FilesError;

/// Bytes of a sector.
pub(crate) const SECTOR: usize = 512;
/// Locates its checksum.
const CRC: usize = SECTOR - 4;

/// A sector's bytes.
pub(crate) type SectorBuffer = [u8; SECTOR];

/// Writes the checksum.
pub(crate) fn seal(sector: &mut SectorBuffer) {
    let crc = crc32c::crc32c(&sector[..CRC]);
    sector[CRC..].copy_from_slice(&crc.to_le_bytes());
}

/// Returns true if the checksum is right.
pub(crate) fn is_sealed(sector: &SectorBuffer) -> bool {
    sector[CRC..] == crc32c::crc32c(&sector[..CRC]).to_le_bytes()
}

/// A sector as it was read: every field is checked and named in what goes wrong.
pub(crate) struct SectorReader<'a> {
    path: &'a Path,
    /// Is the offset of the sector in the file.
    offset: u64,
    sector: &'a SectorBuffer,
}

impl<'a> SectorReader<'a> {
    /// A sector at a place of a file; its checksum is to be checked with [`crc`](Self::crc).
    pub(crate) const fn new(path: &'a Path, offset: u64, sector: &'a SectorBuffer) -> Self {
        Self { path, offset, sector }
    }

    /// The error that a field is.
    pub(crate) fn wrong(
        &self,
        field: &'static str,
        at: usize,
        found: impl Debug,
        expected: impl Display,
    ) -> FilesError {
        FilesError::Field {
            path: self.path.to_owned(),
            field,
            offset: self.offset + at as u64,
            found: format!("{found:?}"),
            expected: expected.to_string(),
        }
    }

    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.sector[at..at + 4].try_into().expect("four bytes"))
    }

    pub(crate) fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.sector[at..at + 8].try_into().expect("eight bytes"))
    }

    /// The checksum.
    pub(crate) fn crc(&self, field: &'static str) -> Result<(), FilesError> {
        let (found, expected) = (self.u32(CRC), crc32c::crc32c(&self.sector[..CRC]));
        if found == expected { Ok(()) } else { Err(self.wrong(field, CRC, found, expected)) }
    }

    /// The first bytes of a file.
    pub(crate) fn magic(&self, magic: [u8; 8]) -> Result<(), FilesError> {
        let found = &self.sector[..8];
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        if found == magic { Ok(()) } else { Err(self.wrong("the magic", 0, text(found), text(&magic))) }
    }

    /// A number that can only be this one.
    pub(crate) fn exactly<N: PartialEq + Debug + Display>(
        &self,
        field: &'static str,
        at: usize,
        found: N,
        expected: N,
    ) -> Result<(), FilesError> {
        if found == expected { Ok(()) } else { Err(self.wrong(field, at, found, expected)) }
    }

    /// A number that is what a setting was when the file was made, and must be what it is now.
    pub(crate) fn setting(
        &self,
        key: &'static str,
        field: &'static str,
        at: usize,
        found: impl Into<u64>,
        expected: impl Into<u64>,
    ) -> Result<(), FilesError> {
        let (found, expected) = (found.into(), expected.into());
        // Settings are told apart from damage: the file may be right and the
        // description wrong.
        if found == expected {
            return Ok(());
        }
        let offset = self.offset + at as u64;
        Err(FilesError::Setting { path: self.path.to_owned(), key, field, offset, found, expected })
    }

    /// Bytes from here to the checksum that are not in use.
    pub(crate) fn zeros(&self, from: usize) -> Result<(), FilesError> {
        // Bytes that are not in use are zero, so that a later version's fields are
        // not ignored.
        match (from..CRC).find(|at| self.sector[*at] != 0) {
            None => Ok(()),
            Some(at) => Err(self.wrong("a reserved byte", at, self.sector[at], 0)),
        }
    }
}

/// Writes numbers into a sector.
pub(crate) fn put(sector: &mut [u8], at: usize, bytes: &[u8]) {
    sector[at..at + bytes.len()].copy_from_slice(bytes);
}
