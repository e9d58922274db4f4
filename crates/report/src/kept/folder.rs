//! A folder in which files appear whole, and in which nothing is left of those that did not get so far.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Holds prefix and suffix of the names of unfinished files.
const PART: (&str, &str) = (".destage-kept-", ".part");

/// A folder that this process writes to.
#[derive(Debug)]
pub struct ResultFolder {
    path: PathBuf,
    begun: AtomicU64,
    /// Locked as long as there may be files that are not whole yet; none where folders cannot be locked.
    _shared: Option<File>,
}

impl ResultFolder {
    /// This folder, which has to be there. What processes that were killed left half written is removed, unless others
    /// write to it right now: who comes last does it then.
    pub fn at(path: &Path) -> Self {
        let locked = |folder: &File| {
            if folder.try_lock().is_ok() {
                tidy(path);
            }
            folder.lock_shared()
        };
        let shared = File::open(path).ok().filter(|folder| locked(folder).is_ok());
        Self { path: path.to_owned(), begun: AtomicU64::new(0), _shared: shared }
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn part(&self) -> PathBuf {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        self.path.join(format!("{}{}-{number}{}", PART.0, std::process::id(), PART.1))
    }

    /// Checks that files can be made here.
    ///
    /// # Errors
    /// Returns the error of the attempt.
    pub fn probe(&self) -> io::Result<()> {
        let part = self.part();
        fs::write(&part, "")?;
        fs::remove_file(&part)
    }

    /// Writes a file whole, or not at all; one of the name is replaced. It need not be there after a power cut.
    ///
    /// # Errors
    /// If it cannot be written; what was there before is then there still.
    pub fn write(&self, file: &Path, content: &[u8]) -> io::Result<()> {
        let part = self.part();
        let written = || {
            let mut open = File::create(&part)?;
            open.write_all(content)?;
            // A name that is on disk before the content would be worth nothing.
            open.sync_all()?;
            fs::rename(&part, file)
        };
        written().inspect_err(|_| {
            // There is an error to tell already.
            let _ = fs::remove_file(&part);
        })
    }
}

/// Removes what is not whole and never will be.
fn tidy(folder: &Path) {
    let is_part = |name: &str| {
        let number = name.strip_prefix(PART.0).and_then(|name| name.strip_suffix(PART.1));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_part) {
            // It takes room, and nothing else.
            let _ = fs::remove_file(entry.path());
        }
    }
}
