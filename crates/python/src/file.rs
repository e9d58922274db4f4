//! A new file, which takes its name when it is complete.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

use crate::raised;

/// Tells files of this process apart.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A file in the making, beside what has the name so far. Unless it is [committed](Self::commit) nothing is left of it.
pub(crate) struct NewFile {
    to: PathBuf,
    part: PathBuf,
    file: BufWriter<File>,
    committed: bool,
}

impl NewFile {
    /// A file that is to have this name.
    pub(crate) fn begin(to: &Path) -> PyResult<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let part = folder(to).join(format!(".destage-{}-{number}.part", std::process::id()));
        // `create_new`: the name is this call's own, so nothing of anybody else is overwritten.
        let file = File::create_new(&part).map_err(failed(to))?;
        Ok(Self { to: to.to_owned(), part, file: BufWriter::new(file), committed: false })
    }

    /// Gives it its name, once it is on the disk.
    pub(crate) fn commit(mut self) -> PyResult<()> {
        self.file.flush().map_err(failed(&self.to))?;
        // Synced before the rename: after a power failure the name must not stand for an empty file.
        self.file.get_ref().sync_all().map_err(failed(&self.to))?;
        std::fs::rename(&self.part, &self.to).map_err(failed(&self.to))?;
        self.committed = true;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.committed {
            // An error on the way is reported by the call already, and matters more than a file that is left.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// The folder that the file is in.
pub(crate) fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// An error of writing a file, with its name.
pub(crate) fn failed(file: &Path) -> impl Fn(std::io::Error) -> PyErr {
    move |error| raised(format_args!("cannot write {}: {error}", file.display()))
}
