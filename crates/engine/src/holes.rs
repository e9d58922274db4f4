//! Which files make holes: in others zeros are written where something is trimmed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, major, minor};

/// Returns true if the file at a path makes holes as far as can be told without changing it.
pub(crate) fn are_made_in(path: &Path) -> bool {
    OpenOptions::new().write(true).open(path).and_then(|file| are_made(&file)).unwrap_or(false)
}

/// Returns true if a file makes holes.
fn are_made(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    if metadata.file_type().is_block_device() {
        let dev = metadata.rdev();
        return Ok(are_made_by(&format!("/sys/dev/block/{}:{}", major(dev), minor(dev))));
    }
    // A hole behind the end of a file changes nothing, and is refused where there are no holes.
    let end = metadata.len().next_multiple_of(4096);
    Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, end, 4096).is_ok())
}

/// Returns true if a block device writes zeros by a command without data.
fn are_made_by(device: &str) -> bool {
    // A partition has the queue of its disk, whose folder it lies in.
    let queues = [format!("{device}/queue"), format!("{device}/../queue")];
    let most = queues.iter().find_map(|queue| std::fs::read_to_string(format!("{queue}/write_zeroes_max_bytes")).ok());
    most.and_then(|most| most.trim().parse().ok()).is_some_and(|most: u64| most > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_it_was_and_what_is_no_file_makes_no_holes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 10_000]).expect("a file");
        let before = std::fs::metadata(&path).expect("it is there");
        assert!(are_made_in(&path), "the file system of temporary files makes holes");
        let after = std::fs::metadata(&path).expect("it is there");
        assert_eq!((after.len(), after.blocks()), (before.len(), before.blocks()));
        assert!(std::fs::read(&path).expect("it is there") == [7; 10_000]);
        for other in [Path::new("/dev/null"), &folder.path().join("none")] {
            assert!(!are_made_in(other), "{}", other.display());
        }
        assert!(!are_made_by("/sys/dev/block/none"));
    }
}
