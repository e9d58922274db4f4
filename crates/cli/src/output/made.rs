//! Removes temporary files and the folders made for them, when they are dropped or by [`clean_up`] after a signal.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

/// All that there is of the process. Nothing is made or renamed without the lock, so that a signal
/// finds all of it.
static MADE: Mutex<MadeFiles> = Mutex::new(MadeFiles { files: Vec::new(), folders: Vec::new() });

/// Lists the files and folders that are removed at an early end.
#[derive(Debug)]
pub struct MadeFiles {
    files: Vec<PathBuf>,
    /// Each before those in it.
    folders: Vec<PathBuf>,
}

fn made() -> MutexGuard<'static, MadeFiles> {
    // The list is whole after a panic, too.
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a path out of a list; whether it was there.
fn take(list: &mut Vec<PathBuf>, path: &Path) -> bool {
    let known = list.iter().position(|known| known == path);
    known.map(|at| list.remove(at)).is_some()
}

/// Removes everything. Nothing is made or renamed while the result is kept.
pub fn clean_up() -> MutexGuard<'static, MadeFiles> {
    let mut made = made();
    for file in made.files.drain(..) {
        // The process ends: there is nobody to tell.
        let _ = std::fs::remove_file(file);
    }
    for folder in made.folders.drain(..).rev() {
        let _ = std::fs::remove_dir(folder);
    }
    made
}

/// A file under a name that no other has. It is removed when it is dropped, unless it was given
/// another name.
#[derive(Debug)]
pub struct TemporaryFile {
    path: PathBuf,
}

impl TemporaryFile {
    /// An empty one in `folder`.
    pub fn create(folder: &Path) -> io::Result<(Self, File)> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mut made = made();
        loop {
            let n = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!(".destage-{}-{n}.part", std::process::id()));
            match File::options().write(true).create_new(true).open(&path) {
                // A process of the same number was killed and has left its file.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => {
                    // Still under the lock: a signal between making and noting would leave the file behind.
                    made.files.push(path.clone());
                    return Ok((Self { path }, file));
                }
            }
        }
    }

    /// Returns the present name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let mut made = made();
        if take(&mut made.files, &self.path) {
            // Whoever dropped the file has an error to report already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A file that only has to be given its name.
#[derive(Debug)]
pub struct CompleteFile {
    /// Holds the temporary file.
    pub temporary: TemporaryFile,
    /// Holds the future name.
    pub target: PathBuf,
    /// Holds the path as the user gave it, for messages.
    pub name: PathBuf,
}

/// Gives files their names, in this order; a signal comes before the first or after the last.
pub fn rename(files: &[CompleteFile]) -> Result<()> {
    // The lock is held over all renames, so a signal finds either none or all of them done.
    let mut made = made();
    for file in files {
        std::fs::rename(&file.temporary.path, &file.target)
            .with_context(|| format!("cannot write {}", file.name.display()))?;
        take(&mut made.files, &file.temporary.path);
    }
    Ok(())
}

/// Folders that were made. Those that are empty when this is dropped are removed.
#[derive(Debug)]
pub struct MadeFolders {
    made: Vec<PathBuf>,
}

impl MadeFolders {
    /// Makes a folder and those that it lies in, where they are not there.
    pub fn make(path: &Path) -> io::Result<Self> {
        let missing: Vec<&Path> =
            path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
        let mut all = Self { made: Vec::new() };
        for folder in missing.into_iter().rev() {
            let mut made = made();
            match std::fs::create_dir(folder) {
                // A `..` in the path made it, or somebody else at the same time.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => continue,
                result => result?,
            }
            made.folders.push(folder.to_owned());
            all.made.push(folder.to_owned());
        }
        if !path.is_dir() {
            return Err(io::Error::from(ErrorKind::NotADirectory));
        }
        Ok(all)
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        let mut made = made();
        for folder in self.made.iter().rev() {
            if take(&mut made.folders, folder) {
                // A folder with something in it stays.
                let _ = std::fs::remove_dir(folder);
            }
        }
    }
}
