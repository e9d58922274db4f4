//! A file that is written whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::made::{CompleteFile, TemporaryFile};
use super::place::{OutputPlace, folder};
use super::shown;

/// A file being written that takes its name only when it is complete.
///
/// Until [`CommandOutputs::commit`](super::CommandOutputs::commit) the content lies under a temporary name in the
/// same folder, so that whatever had the name before stays as it was should the work fail; a
/// `NewFile` that is dropped uncommitted leaves nothing behind. A symbolic link is followed: the
/// file that it names is replaced, or made, and the link stays. A replaced file's permissions (and
/// its owner, where that is allowed) pass to the new one. The standard output (`-`), devices and
/// pipes are written directly. Errors of writing name the file.
#[derive(Debug)]
pub struct NewFile {
    out: BufWriter<File>,
    /// Holds the temporary file and its future name; none where the output is written directly.
    rename: Option<(TemporaryFile, PathBuf)>,
    /// Holds the path as the user gave it, for messages.
    name: PathBuf,
}

impl NewFile {
    /// Begins the file called `path` at its place.
    pub(super) fn begin(path: &Path, place: OutputPlace) -> Result<Self> {
        let failed = || format!("cannot create {}", shown(path));
        let name = path.to_owned();
        let open = |stream: &dyn AsFd| stream.as_fd().try_clone_to_owned().map(File::from);
        let direct = match place {
            OutputPlace::Stdout => open(&io::stdout()),
            OutputPlace::Stderr => open(&io::stderr()),
            // Bytes that others wrote to the file stay.
            OutputPlace::Direct(metadata) => File::options().write(true).append(metadata.is_file()).open(path),
            OutputPlace::New(target) => return Self::beside(name, target).with_context(failed),
            OutputPlace::Existing(target, metadata) => {
                // Replacing needs a writable folder only, but a file that may not be written should not be replaced
                // either.
                File::options().write(true).open(path).with_context(failed)?;
                let new = Self::beside(name, target).with_context(failed)?;
                if let Some((temporary, _)) = &new.rename {
                    // Only the superuser may give files away; without that the new file belongs to the user.
                    let _ = std::os::unix::fs::chown(temporary.path(), Some(metadata.uid()), Some(metadata.gid()));
                    std::fs::set_permissions(temporary.path(), metadata.permissions()).with_context(failed)?;
                }
                return Ok(new);
            }
        };
        Ok(Self { out: BufWriter::new(direct.with_context(failed)?), rename: None, name })
    }

    /// One that is to be called `target`.
    fn beside(name: PathBuf, target: PathBuf) -> Result<Self> {
        let folder = folder(&target);
        let made = TemporaryFile::create(folder);
        let (temporary, file) =
            made.with_context(|| format!("no file can be made in the folder {}", folder.display()))?;
        Ok(Self { out: BufWriter::new(file), rename: Some((temporary, target)), name })
    }

    /// Returns true if another file gives way to it.
    pub fn replaces(&self) -> bool {
        self.rename.as_ref().is_some_and(|(_, target)| target.exists())
    }

    /// Returns true if bytes are out at once and cannot be taken back.
    pub fn is_direct(&self) -> bool {
        self.rename.is_none()
    }

    /// Writes what is left, so that the file only has to be given its name, if it has to.
    pub(super) fn complete(mut self) -> io::Result<Option<CompleteFile>> {
        self.flush()?;
        if self.rename.is_some() {
            // Synced before the rename: a name that is on disk before its content would be worth nothing.
            self.out.get_ref().sync_all().map_err(|error| self.named(&error))?;
        }
        Ok(self.rename.take().map(|(temporary, target)| CompleteFile { temporary, target, name: self.name }))
    }

    /// An error with the file's name.
    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("cannot write {}: {error}", shown(&self.name)))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| self.named(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|error| self.named(&error))
    }
}

/// An error of who writes a [`NewFile`] called `path`, with its name where it is not of the file
/// itself.
pub fn refused(path: &Path) -> impl Fn(io::Error) -> anyhow::Error {
    move |error| {
        let by_writer = error.kind() == ErrorKind::InvalidInput;
        let error = anyhow::Error::new(error);
        if by_writer { error.context(format!("cannot write {}", shown(path))) } else { error }
    }
}
