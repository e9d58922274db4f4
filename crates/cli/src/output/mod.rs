//! Files that are written: apart from what is read and from each other, whole or not at all.
//!
//! A command says what it reads ([`CommandOutputs::apart_from`]) before it gets anything to write to, and
//! there is no other way to a file: `clippy.toml` forbids those of the standard library everywhere
//! but here. Until [`CommandOutputs::commit`], which takes all files of a command at once, nothing that
//! was there before is changed.

#![allow(clippy::disallowed_methods, reason = "the one place where files are made")]

mod after_blank;
mod file;
mod made;
mod place;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub use after_blank::joined;
pub use file::{NewFile, refused};
pub use made::clean_up;
pub use place::{folder, followed, opened};

use made::MadeFolders;
use place::{OutputIdentity, OutputPlace};

/// Keeps the inputs and outputs of a command apart.
#[derive(Debug)]
pub struct CommandOutputs {
    inputs: Vec<(PathBuf, OutputIdentity)>,
    taken: Vec<(PathBuf, OutputIdentity)>,
    /// Is true if an output is the standard output by name.
    stdout: bool,
    /// Dropped last: they can be removed only when they are empty.
    folders: Vec<MadeFolders>,
}

impl CommandOutputs {
    /// The outputs of a command that reads these files; `-` is the standard input.
    ///
    /// # Errors
    /// Where the standard output goes to one of them.
    pub fn apart_from<P: Into<PathBuf>>(inputs: impl IntoIterator<Item = P>) -> Result<Self> {
        let inputs = inputs.into_iter().map(Into::into);
        let inputs =
            inputs.filter_map(|path: PathBuf| OutputIdentity::of_input(&path).map(|identity| (path, identity)));
        let mut outputs = Self { inputs: inputs.collect(), taken: Vec::new(), stdout: false, folders: Vec::new() };
        // The table goes there even if no output is named so.
        outputs.take(Path::new("-"), OutputIdentity::of_stdout())?;
        Ok(outputs)
    }

    /// Begins the file called `path`; `-` is the standard output.
    ///
    /// # Errors
    /// Where it is an input or another output, and where no file of that name can be written: no
    /// such folder, a folder that may not be written to, a file that may not be written, a
    /// directory.
    pub fn file(&mut self, path: &Path) -> Result<NewFile> {
        let place = OutputPlace::of(path).with_context(|| format!("cannot create {}", shown(path)))?;
        if !matches!(place, OutputPlace::Stdout) {
            self.take(path, place.identity())?;
        } else if std::mem::replace(&mut self.stdout, true) {
            bail!("two outputs cannot both go to the standard output; give one of them a file");
        }
        NewFile::begin(path, place)
    }

    /// Begins all files of a folder, which is created if it does not exist.
    ///
    /// # Errors
    /// Where it cannot be made, and as for [`file`](Self::file).
    pub fn folder(&mut self, path: &Path, names: &[&'static str]) -> Result<Vec<(&'static str, NewFile)>> {
        let made =
            MadeFolders::make(path).with_context(|| format!("cannot make the report's folder {}", path.display()))?;
        self.folders.push(made);
        names.iter().map(|&name| Ok((name, self.file(&path.join(name))?))).collect()
    }

    /// Gives complete files their names: all of them, or none if one cannot be completed.
    ///
    /// # Errors
    /// Where the rest cannot be written, or a file cannot be renamed. In the latter case, which the
    /// checks at the beginning make unlikely, those before it have their names.
    #[allow(clippy::unused_self, reason = "whoever commits has declared what it reads")]
    pub fn commit(&mut self, files: impl IntoIterator<Item = NewFile>) -> Result<()> {
        let mut complete = Vec::new();
        for file in files {
            // All files are complete before the first gets its name, so a full disk leaves none of them.
            complete.extend(file.complete()?);
        }
        made::rename(&complete)?;
        let mut folders: Vec<&Path> = complete.iter().map(|file| folder(&file.target)).collect();
        // One sync a folder makes all its names durable.
        folders.sort_unstable();
        folders.dedup();
        for folder in folders {
            sync(folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        }
        Ok(())
    }

    /// Notes that something is written there.
    fn take(&mut self, path: &Path, identity: Option<OutputIdentity>) -> Result<()> {
        let Some(identity) = identity else { return Ok(()) };
        let same = |known: &&(PathBuf, OutputIdentity)| known.1 == identity;
        if let Some((input, _)) = self.inputs.iter().find(same) {
            let input = if input == Path::new("-") { "the standard input".to_owned() } else { shown(input) };
            bail!("cannot write {}: it is an input ({input}); name another file", shown(path));
        }
        if let Some((other, _)) = self.taken.iter().find(same) {
            bail!("cannot write {}: it is another output too ({}); name another file", shown(path), shown(other));
        }
        self.taken.push((path.to_owned(), identity));
        Ok(())
    }
}

/// A file's name in messages.
fn shown(path: &Path) -> String {
    if path == Path::new("-") { "the standard output".to_owned() } else { path.display().to_string() }
}

/// Makes the names in a folder last, where the file system can do that.
fn sync(folder: &Path) -> io::Result<()> {
    // A folder may be writable without being readable, and then cannot be synced.
    let Ok(folder) = File::open(folder) else { return Ok(()) };
    match folder.sync_all() {
        // Some file systems cannot sync a folder, and say so by this error.
        Err(error) if error.kind() != ErrorKind::InvalidInput => Err(error),
        _ => Ok(()),
    }
}
