//! Files that are written whole or not at all.

use std::fs::{File, Metadata};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

/// Links that are followed from one to the next; as many as the kernel follows.
const LINKS: usize = 40;

/// A file being written that takes its name only when it is complete.
///
/// Until [`commit`](Self::commit) the content lies under a temporary name in the same folder, so that whatever had the
/// name before stays as it was should the work fail; a `NewFile` that is dropped uncommitted leaves nothing behind. A
/// symbolic link is followed: the file that it names is replaced, or made, and the link stays. A replaced file's
/// permissions (and its owner, where that is allowed) pass to the new one. The standard output (`-`), devices and pipes
/// are written directly.
#[derive(Debug)]
pub struct NewFile {
    out: Sink,
    /// Where the content lies now and what it is to be called; none where it is written directly.
    rename: Option<(PathBuf, PathBuf)>,
    /// As the user named it, for messages.
    name: PathBuf,
}

#[derive(Debug)]
enum Sink {
    Stdout(BufWriter<io::Stdout>),
    File(BufWriter<File>),
}

impl NewFile {
    /// Begins the file called `path`; `-` is the standard output.
    ///
    /// # Errors
    /// Where no file of that name can be written: no such folder, a folder that may not be written to, a file that may
    /// not be written, a directory.
    pub fn create(path: &Path) -> Result<Self> {
        let failed = || format!("cannot create {}", path.display());
        let name = path.to_owned();
        if path == Path::new("-") {
            return Ok(Self { out: Sink::Stdout(BufWriter::new(io::stdout())), rename: None, name });
        }
        let existing = match std::fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(failed),
        };
        let target = followed(path).with_context(failed)?;
        if let Some(metadata) = &existing {
            // What is deleted but still open, as seen in /proc, has no name that could be given to another file.
            let direct = !metadata.is_file() || Identity::of_output(&target) != Identity::of(metadata);
            // A file that may not be written is not to be replaced either.
            let file = File::options().write(true).truncate(direct).open(path).with_context(failed)?;
            if direct {
                return Ok(Self { out: Sink::File(BufWriter::new(file)), rename: None, name });
            }
        } else if target.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            bail!("cannot create {}: this is no name of a file", path.display());
        }
        let folder = folder(&target);
        let (temporary, file) = temporary(folder)
            .with_context(|| format!("no file can be made in the folder {}", folder.display()))
            .with_context(failed)?;
        // Made before what can fail, since it removes the temporary file.
        let new = Self { out: Sink::File(BufWriter::new(file)), rename: Some((temporary.clone(), target)), name };
        if let Some(metadata) = existing {
            // Only the superuser may give files away.
            let _ = std::os::unix::fs::chown(&temporary, Some(metadata.uid()), Some(metadata.gid()));
            std::fs::set_permissions(&temporary, metadata.permissions()).with_context(failed)?;
        }
        Ok(new)
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    /// Where the rest cannot be written or the file cannot be renamed; nothing is left behind then.
    pub fn commit(mut self) -> Result<()> {
        let failed = |name: &Path| format!("cannot write {}", name.display());
        self.flush().with_context(|| failed(&self.name))?;
        if let Some((temporary, target)) = &self.rename {
            std::fs::rename(temporary, target).with_context(|| failed(&self.name))?;
            self.rename = None;
        }
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Sink::Stdout(out) => out.write(bytes),
            Sink::File(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Sink::Stdout(out) => out.flush(),
            Sink::File(out) => out.flush(),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.rename {
            // Whoever dropped it has an error to tell already.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// What a file or disk is, by whichever of its names it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identity {
    /// A file's file system and number in it.
    File(u64, u64),
    /// A block device's number.
    Device(u64),
}

impl Identity {
    /// That of what `metadata` describes; only of what keeps what is written to it.
    pub fn of(metadata: &Metadata) -> Option<Self> {
        match metadata.file_type() {
            kind if kind.is_block_device() => Some(Self::Device(metadata.rdev())),
            kind if kind.is_file() => Some(Self::File(metadata.dev(), metadata.ino())),
            _ => None,
        }
    }

    /// That of what an input is read from: the file called `path`, for `-` the standard input.
    pub fn of_input(path: &Path) -> Option<Self> {
        Self::of(&if path == Path::new("-") { opened(io::stdin()).ok()? } else { std::fs::metadata(path).ok()? })
    }

    /// That of what an output is written to, if it is there already: the file called `path`, for `-` the standard output.
    pub fn of_output(path: &Path) -> Option<Self> {
        Self::of(&if path == Path::new("-") { opened(io::stdout()).ok()? } else { std::fs::metadata(path).ok()? })
    }
}

/// What is known of an open file.
pub fn opened(file: impl AsFd) -> io::Result<Metadata> {
    File::from(file.as_fd().try_clone_to_owned()?).metadata()
}

/// The folder that `path` lies in.
pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What `path` names once symbolic links are followed, though there be no such file yet.
///
/// # Errors
/// Where a link cannot be read or links go round in a circle.
pub fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match std::fs::read_link(&path) {
            // A relative link is seen from the folder that it lies in.
            Ok(link) => path = folder(&path).join(link),
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => return Ok(path),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// A new file in `folder` under a name that no other has.
fn temporary(folder: &Path) -> io::Result<(PathBuf, File)> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    loop {
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".destage-{}-{n}.part", std::process::id()));
        match File::options().write(true).create_new(true).open(&path) {
            // Left by a process of the same number that was killed.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (path, file)),
        }
    }
}

/// Opens a file for writing; `-` is the standard output.
pub fn create(path: &Path) -> Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout().lock())));
    }
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}
