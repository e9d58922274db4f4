//! A temporary file, gone when it is dropped.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Distinguishes the files of one process.
static NUMBER: AtomicU32 = AtomicU32::new(0);
/// Names that are tried.
const TRIES: u32 = 1000;

/// Bytes that are written one after the other, and then changed in place and read.
pub(super) struct Spool {
    file: File,
    /// The file's name, unless it could be taken away while the file is open.
    path: Option<PathBuf>,
    bytes: u64,
}

impl Spool {
    /// An empty one in `folder`.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        for _ in 0..TRIES {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!(".destage-export-{}-{number}", std::process::id()));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => {
                    let path = if std::fs::remove_file(&path).is_ok() { None } else { Some(path) };
                    return Ok(Self { file, path, bytes: 0 });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(in_folder(folder, &error)),
            }
        }
        Err(in_folder(folder, &io::Error::from(io::ErrorKind::AlreadyExists)))
    }

    /// Bytes written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends bytes; only before the first use of the other two.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn read_at(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(bytes)
    }

    pub(super) fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(bytes)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Nobody is left to tell.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn in_folder(folder: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("no temporary file can be made in {}: {error}", folder.display()))
}
