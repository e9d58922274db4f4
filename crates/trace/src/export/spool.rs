//! A temporary file, gone when it is dropped.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes that are written one after the other, and then changed in place and read. Errors name the
/// folder.
pub(super) struct SpoolFile {
    /// Holds the file. It has no name, where the file system allows that, so that no file remains however the
    /// process ends.
    file: File,
    folder: PathBuf,
    bytes: u64,
}

impl SpoolFile {
    /// An empty one in `folder`.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        // The file has no name, and is gone with the process however that ends.
        let made = tempfile::tempfile_in(folder);
        let failed = |error| named("no temporary file can be made", folder, &error);
        Ok(Self { file: made.map_err(failed)?, folder: folder.to_owned(), bytes: 0 })
    }

    /// Bytes written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends bytes; only before the first use of the other two.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(bytes);
        self.bytes += bytes.len() as u64;
        self.named(written)
    }

    pub(super) fn read_at(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let read = self.file.seek(SeekFrom::Start(at)).and_then(|_| self.file.read_exact(bytes));
        self.named(read)
    }

    pub(super) fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.seek(SeekFrom::Start(at)).and_then(|_| self.file.write_all(bytes));
        self.named(written)
    }

    fn named(&self, result: io::Result<()>) -> io::Result<()> {
        result.map_err(|error| named("the temporary file cannot be used", &self.folder, &error))
    }
}

fn named(what: &str, folder: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} in {}: {error}", folder.display()))
}
