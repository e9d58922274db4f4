//! Finds the place of an output, by whichever name it is called.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{PROC_SUPER_MAGIC, statfs};

/// Links that are followed from one to the next; as many as the kernel follows.
const LINKS: usize = 40;

/// Names the place of an output.
#[derive(Debug)]
pub enum OutputPlace {
    /// The standard output, also by a name such as `/dev/stdout`.
    Stdout,
    /// The standard error, by such a name.
    Stderr,
    /// Is a place that can only be written directly: a device, a pipe, or an open file that is named through
    /// `/proc/.../fd`.
    Direct(Metadata),
    /// A file that is replaced.
    Existing(PathBuf, Metadata),
    /// A file that is made.
    New(PathBuf),
}

impl OutputPlace {
    /// Finds the place of `path`.
    ///
    /// # Errors
    /// Where that cannot be known, and where the name is none of a file.
    pub fn of(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let existing = match std::fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut links = links(path)?;
        let target = links.pop().unwrap_or_default();
        let Some(metadata) = existing else {
            if target.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                return Err(io::Error::new(ErrorKind::InvalidInput, "this is not a file name"));
            }
            return Ok(Self::New(target));
        };
        // An open file has a position already, and perhaps no name any more.
        if links.iter().any(|link| statfs(folder(link)).is_ok_and(|system| system.f_type == PROC_SUPER_MAGIC)) {
            let is = |stream: io::Result<Metadata>| {
                stream.is_ok_and(|stream| (stream.dev(), stream.ino()) == (metadata.dev(), metadata.ino()))
            };
            return Ok(if is(opened(io::stdout())) {
                Self::Stdout
            } else if is(opened(io::stderr())) {
                Self::Stderr
            } else {
                Self::Direct(metadata)
            });
        }
        Ok(if metadata.is_file() { Self::Existing(target, metadata) } else { Self::Direct(metadata) })
    }

    /// Returns the identity of the place, to be compared with inputs and other outputs.
    ///
    /// `None` stands for places where nothing can be spoilt, such as a terminal or `/dev/null`.
    pub fn identity(&self) -> Option<OutputIdentity> {
        match self {
            Self::Stdout => OutputIdentity::of_stdout(),
            Self::Stderr => OutputIdentity::of(&opened(io::stderr()).ok()?),
            Self::Direct(metadata) | Self::Existing(_, metadata) => OutputIdentity::of(metadata),
            Self::New(target) => {
                let folder = std::fs::metadata(folder(target)).ok()?;
                Some(OutputIdentity::New(folder.dev(), folder.ino(), target.file_name()?.to_owned()))
            }
        }
    }
}

/// Identifies a file or disk, by whichever of its names it is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutputIdentity {
    /// A file's or pipe's file system and number in it.
    File(u64, u64),
    /// A block device's number.
    Device(u64),
    /// A file that is not there yet: its folder's file system and number in it, and its name there.
    New(u64, u64, OsString),
}

impl OutputIdentity {
    /// Returns the identity of the file that `metadata` describes.
    ///
    /// `None` stands for files that can be written twice, or read and written, without harm.
    pub fn of(metadata: &Metadata) -> Option<Self> {
        match metadata.file_type() {
            // Two nodes in `/dev` may be one disk, so its number counts and not the node's.
            kind if kind.is_block_device() => Some(Self::Device(metadata.rdev())),
            kind if kind.is_file() || kind.is_fifo() => Some(Self::File(metadata.dev(), metadata.ino())),
            _ => None,
        }
    }

    /// Returns the identity of an input: the file called `path`, for `-` the standard input.
    pub fn of_input(path: &Path) -> Option<Self> {
        Self::of(&if path == Path::new("-") { opened(io::stdin()).ok()? } else { std::fs::metadata(path).ok()? })
    }

    /// Returns the identity of the standard output.
    pub fn of_stdout() -> Option<Self> {
        Self::of(&opened(io::stdout()).ok()?)
    }
}

/// Returns the metadata of an open file.
pub fn opened(file: impl AsFd) -> io::Result<Metadata> {
    File::from(file.as_fd().try_clone_to_owned()?).metadata()
}

/// The folder that `path` lies in.
pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the file that `path` names once symbolic links are followed, even if there is no such file yet.
///
/// # Errors
/// Where a link cannot be read or links go round in a circle.
pub fn followed(path: &Path) -> io::Result<PathBuf> {
    Ok(links(path)?.pop().unwrap_or_default())
}

/// `path`, and where it is a symbolic link what that names, and so on; the last is no link.
fn links(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut links = vec![path.to_owned()];
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match std::fs::read_link(&path) {
            // A relative link starts at the folder that it lies in.
            Ok(link) => path = folder(&path).join(link),
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => return Ok(links),
            Err(error) => return Err(error),
        }
        links.push(path.clone());
    }
    Err(io::Error::other("too many symbolic links"))
}
