//! Asks for the properties of a file at a path before it is used, and puts the path into errors.

use std::path::Path;

use super::file::{FileIdentity, OsFile};
use crate::files::error::FilesError;

/// Names the attempt to open a file in error messages.
pub(crate) const OPEN: &str = "open it";

/// Returns the bytes of a file that must be a regular one.
pub(crate) fn length(file: &dyn OsFile, path: &Path) -> Result<u64, FilesError> {
    // A folder or a pipe has no length; its error must name the path.
    let length = file.length().map_err(FilesError::io(path, "ask for its size"))?;
    length.ok_or_else(|| FilesError::NotAFile(path.to_owned()))
}

/// Returns the bytes of a block device; none if it is something else.
pub(crate) fn capacity(file: &dyn OsFile, path: &Path) -> Result<Option<u64>, FilesError> {
    file.capacity().map_err(FilesError::io(path, "ask for its size"))
}

/// Identifies the file.
pub(crate) fn identity(file: &dyn OsFile, path: &Path) -> Result<FileIdentity, FilesError> {
    file.identity().map_err(FilesError::io(path, "ask for its number"))
}
