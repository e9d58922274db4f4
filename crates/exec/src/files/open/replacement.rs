//! What stands in a lost device's place.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::folders::{folder, sync_folder};
use super::identify::{check_size, is_unfinished, lock, make_file, open_file};
use super::label;
use super::prepare::clear;
use super::vacancy::check_nothing;
use crate::files::config::{Existing, FilesConfig};
use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint};
use crate::files::io::metadata::{OPEN, capacity};
use crate::files::io::os::Os;
use crate::files::io::patience::patiently;
use crate::files::layout::label::Origin;

/// Opens what stands in a lost device's place: a file of the right size, whatever it holds, or a
/// new one. One that was there is not locked yet.
pub(crate) fn open_replacement(
    os: &dyn Os,
    config: &FilesConfig,
    dev: usize,
    path: &Path,
) -> Result<Arc<dyn OsFile>, FilesError> {
    let file = match open_file(os, path)? {
        Ok(file) if is_unfinished(&*file, path)? => file,
        Ok(file) => {
            check_size(&*file, config, dev, path)?;
            if capacity(&*file, path)?.is_some() && !label::is_of(&*file, config, dev) {
                check_nothing(&*file, config, dev, path)?;
            }
            return Ok(file);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_file(os, path, Existing::Refuse)?,
        Err(error) => return Err(FilesError::io(path, OPEN)(error)),
    };
    lock(&*file, path)?;
    clear(&*file, path, config.file_bytes(dev))?;
    // Before it is labelled: if its making is cut short it is empty or whole, and no start takes it for a file of
    // another size.
    file.sync_all(SyncPoint::ReplaceDevice).map_err(FilesError::io(path, "make its size durable"))?;
    Ok(file)
}

/// Has a device's file read and written directly if that is wanted: how memory must be aligned then, or why it cannot be.
pub(crate) fn go_direct(
    os: &Arc<dyn Os>,
    config: &FilesConfig,
    dev: usize,
    path: &Path,
    file: &Arc<dyn OsFile>,
) -> Result<Option<io::Result<u64>>, FilesError> {
    if !config.devices[dev].options.direct {
        return Ok(None);
    }
    let (file, page, first) = (Arc::clone(file), config.shape.page_bytes(), config.devices[dev].offset);
    patiently(os, path, config.patience, move |_| Ok(Some(file.set_direct(page, first))))
}

/// Makes a file the device's, durably.
pub(crate) fn label_replacement(
    os: &dyn Os,
    file: &dyn OsFile,
    config: &FilesConfig,
    (origin, generation): (Origin, u32),
    dev: usize,
    path: &Path,
) -> Result<(), FilesError> {
    let labelled = label::write(file, config, origin, dev, generation);
    let durable = labelled.and_then(|()| file.sync_all(SyncPoint::ReplaceDevice));
    durable.map_err(FilesError::io(path, "make it durable"))?;
    sync_folder(os, folder(path), SyncPoint::ReplaceFolder)
}
