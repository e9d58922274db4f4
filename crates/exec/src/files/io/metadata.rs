//! What is asked of a file at a path before it is used, with the path in the error.

use std::path::Path;

use super::file::{FileIdentity, OsFile};
use crate::files::error::FilesError;

/// What is tried, as errors call it.
pub(crate) const OPEN: &str = "open it";

/// Bytes of what must be a regular file.
pub(crate) fn length(file: &dyn OsFile, path: &Path) -> Result<u64, FilesError> {
    let length = file.length().map_err(FilesError::io(path, "ask for its size"))?;
    length.ok_or_else(|| FilesError::NotAFile(path.to_owned()))
}

/// Bytes of a block device; none if it is something else.
pub(crate) fn capacity(file: &dyn OsFile, path: &Path) -> Result<Option<u64>, FilesError> {
    file.capacity().map_err(FilesError::io(path, "ask for its size"))
}

/// Which file this is.
pub(crate) fn identity(file: &dyn OsFile, path: &Path) -> Result<FileIdentity, FilesError> {
    file.identity().map_err(FilesError::io(path, "ask for its number"))
}
