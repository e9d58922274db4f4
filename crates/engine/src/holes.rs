//! Finds out whether files can punch holes. In other files a trim writes zeros.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate, major, minor};

/// Limits how long files are asked: whoever hangs makes none, which costs `FAST_ZERO` alone.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns for each path whether the file there makes holes as far as can be told without changing it, and in time.
pub(crate) fn are_made_in_each(paths: Vec<PathBuf>) -> Vec<bool> {
    let mut makes = vec![false; paths.len()];
    let (sender, found) = mpsc::channel();
    let ask = move || {
        for (at, path) in paths.iter().enumerate() {
            // The receiver is gone once the time is over. A file that hangs leaves its own answer, and those after it,
            // at "no".
            if are_made_in(path) && sender.send(at).is_err() {
                return;
            }
        }
    };
    if std::thread::Builder::new().name("destage-asks".to_owned()).spawn(ask).is_ok() {
        let until = Instant::now() + PATIENCE;
        while let Ok(at) = found.recv_timeout(until.saturating_duration_since(Instant::now())) {
            makes[at] = true;
        }
    }
    makes
}

/// Returns true if the file at a path makes holes as far as can be told without changing it.
fn are_made_in(path: &Path) -> bool {
    OpenOptions::new().write(true).open(path).and_then(|file| are_made(&file)).unwrap_or(false)
}

/// Returns true if a file makes holes.
fn are_made(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    // A block device cannot be probed without destroying data, but the kernel states what it can do.
    if metadata.file_type().is_block_device() {
        let dev = metadata.rdev();
        return Ok(are_made_by(&format!("/sys/dev/block/{}:{}", major(dev), minor(dev))));
    }
    // A hole beyond the end changes nothing, and file systems without holes refuse it all the same.
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
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// Asks a FIFO, which nobody can open for writing while nobody reads it.
    #[test]
    fn a_file_that_hangs_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        assert_eq!(are_made_in_each(vec![fifo]), [false]);
    }

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
        let all = vec![folder.path().join("none"), path, PathBuf::from("/dev/null")];
        assert_eq!(are_made_in_each(all), [false, true, false]);
        assert!(!are_made_by("/sys/dev/block/none"));
    }
}
