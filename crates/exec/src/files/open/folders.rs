//! Names of files, made durable in their folders.

use std::collections::BTreeSet;
use std::path::Path;

use crate::files::error::FilesError;
use crate::files::io::file::SyncPoint;
use crate::files::io::os::OsInterface;

/// The folder that a file is in.
pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        // A name without a folder is in the current one.
        _ => Path::new("."),
    }
}

/// Makes the names of these files durable.
pub(super) fn sync_folders<'a>(
    os: &dyn OsInterface,
    paths: impl IntoIterator<Item = &'a Path>,
    at: SyncPoint,
) -> Result<(), FilesError> {
    // Each folder once, in an order that does not depend on the paths' order.
    let folders: BTreeSet<_> = paths.into_iter().map(folder).collect();
    folders.into_iter().try_for_each(|folder| sync_folder(os, folder, at))
}

/// Makes new files' names durable.
pub(crate) fn sync_folder(os: &dyn OsInterface, folder: &Path, at: SyncPoint) -> Result<(), FilesError> {
    os.sync_folder(folder, at).map_err(FilesError::io(folder, "make its names durable"))
}
