//! What must not be left behind: temporary files and the folders made for them. Whoever drops them
//! removes them; so does a signal, by [`clean_up`].

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

/// All that there is of the process. Nothing is made or renamed without the lock, so that a signal
/// finds all of it.
static MADE: Mutex<MadeFiles> = Mutex::new(MadeFiles { files: Vec::new(), folders: Vec::new() });

/// What is removed at an end that comes too early.
#[derive(Debug)]
pub struct MadeFiles {
    files: Vec<PathBuf>,
    /// Each before those in it.
    folders: Vec<PathBuf>,
}

fn made() -> MutexGuard<'static, MadeFiles> {
    // It is whole after a panic too.
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
        // There is nobody to tell, and nothing else to do.
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
                // Left by a process of the same number that was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => {
                    made.files.push(path.clone());
                    return Ok((Self { path }, file));
                }
            }
        }
    }

    /// Its present name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let mut made = made();
        if take(&mut made.files, &self.path) {
            // Whoever dropped it has an error to tell already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A file that only has to be given its name.
#[derive(Debug)]
pub struct CompleteFile {
    /// Where it lies.
    pub temporary: TemporaryFile,
    /// Its name to be.
    pub target: PathBuf,
    /// As the user named it, for messages.
    pub name: PathBuf,
}

/// Gives files their names, in this order; a signal comes before the first or after the last.
pub fn rename(files: &[CompleteFile]) -> Result<()> {
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
                // By `..` in the path, or somebody else at the same time.
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
                // It stays where something lies in it.
                let _ = std::fs::remove_dir(folder);
            }
        }
    }
}
