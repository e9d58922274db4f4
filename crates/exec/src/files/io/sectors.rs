//! Reads sectors of files.

use std::io;
use std::path::Path;

use super::file::OsFile;
use crate::files::error::FilesError;
use crate::files::layout::sectors::{SECTOR, SectorBuffer};

/// Reads the sector at an offset of a file.
pub(crate) fn read(file: &dyn OsFile, at: u64) -> io::Result<SectorBuffer> {
    let mut sector: SectorBuffer = [0; SECTOR];
    file.read_exact_at(&mut sector, at)?;
    Ok(sector)
}

/// Returns true if a file has a sector of this kind at `at` that names this array, even a damaged one.
pub(crate) fn is_of(file: &dyn OsFile, at: u64, magic: [u8; 8], array: u64) -> bool {
    // The checksum is not looked at: a damaged sector of this array is still this
    // array's.
    read(file, at).is_ok_and(|sector| sector[..8] == magic && sector[16..24] == array.to_le_bytes())
}

/// Reads the first sector of a file of this length; none if the file is shorter than a sector.
pub(crate) fn first(file: &dyn OsFile, path: &Path, length: u64) -> Result<Option<SectorBuffer>, FilesError> {
    if length < SECTOR as u64 {
        return Ok(None);
    }
    read(file, 0).map(Some).map_err(FilesError::io(path, "read the header"))
}
