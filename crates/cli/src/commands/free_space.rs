//! Finds file systems that have no room for all that files of an array may come to hold.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Names a file system that has less room than files on it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceShortage {
    /// Names the folder of one of the files.
    pub folder: PathBuf,
    /// Counts the bytes that the files may come to take beside those that they take.
    pub needed: u64,
    /// Counts the bytes that are free.
    pub free: u64,
}

/// Returns the file systems that are short of room for files, which are as long as they will ever be. Block devices need
/// none, and not every file system says how much it has.
///
/// # Errors
/// If a file, or its file system, cannot be looked at.
pub fn shortages<'a>(files: impl IntoIterator<Item = &'a Path>) -> io::Result<Vec<SpaceShortage>> {
    let mut of_system: BTreeMap<u64, SpaceShortage> = BTreeMap::new();
    for path in files {
        let metadata = path.metadata()?;
        let room = rustix::fs::statvfs(path)?;
        if !metadata.is_file() || room.f_blocks == 0 {
            continue;
        }
        let shortage = of_system.entry(metadata.dev()).or_insert_with(|| SpaceShortage {
            folder: path.parent().unwrap_or(path).to_owned(),
            needed: 0,
            free: room.f_bavail.saturating_mul(room.f_frsize),
        });
        shortage.needed += metadata.len().saturating_sub(metadata.blocks() * 512);
    }
    Ok(of_system.into_values().filter(|shortage| shortage.needed > shortage.free).collect())
}
