//! An array that is given up for a new one in its place.

use std::collections::BTreeSet;
use std::path::Path;

use destage_plan::{Dev, DevSet};

use super::identify::{FileIdentities, lock, there};
use super::label;
use super::vacancy::check_devices;
use crate::files::config::{ExistingFiles, FilesConfig};
use crate::files::error::FilesError;
use crate::files::io::file::{FileIdentity, OsFile};
use crate::files::io::metadata::identity;
use crate::files::io::os::OsInterface;
use crate::files::io::sectors;
use crate::files::layout::{intents, journal};

/// Whether there can be a new array in the place of an old one: all that is there of that is its own, nobody serves it, and
/// what else is there of the new one is empty. Nothing is changed.
pub(crate) fn check(os: &dyn OsInterface, old: &FilesConfig, new: &FilesConfig) -> Result<ExistingFiles, FilesError> {
    let mut parts: Vec<FileIdentity> = Vec::new();
    let mut add = |path: &Path, is_own: &dyn Fn(&dyn OsFile) -> bool| {
        let Some(file) = there(os, path)? else { return Ok(()) };
        lock(&*file, path)?;
        if !is_own(&*file) {
            return Err(FilesError::Foreign(path.to_owned()));
        }
        parts.push(identity(&*file, path)?);
        Ok(())
    };
    add(&old.intents, &|file| sectors::is_of(file, 0, intents::MAGIC, old.array))?;
    if let Some(path) = old.own_nvram() {
        add(path, &|file| sectors::is_of(file, 0, journal::MAGIC, old.array))?;
    }
    for (dev, device) in old.devices.iter().enumerate() {
        add(&device.path, &|file| label::is_of(file, old, dev))?;
    }
    let (mut names, mut files) = (BTreeSet::new(), FileIdentities::default());
    let mut is_part = |path: &Path| {
        if !names.insert(path.to_owned()) {
            return Err(FilesError::Same(path.to_owned(), path.to_owned()));
        }
        let Some(file) = there(os, path)? else { return Ok(false) };
        let is_part = parts.contains(&files.add(&*file, path)?);
        if is_part || os.is_block_device(path) { Ok(is_part) } else { Err(FilesError::Exists(path.to_owned())) }
    };
    let mut devices = DevSet::EMPTY;
    for (dev, device) in (0..).zip(&new.devices) {
        if is_part(&device.path)? {
            devices |= DevSet::one(Dev(dev));
        }
    }
    is_part(&new.intents)?;
    let nvram = new.own_nvram().map_or(Ok(false), is_part)?;
    let existing = ExistingFiles::GiveUp { devices, nvram };
    check_devices(os, new, existing)?;
    Ok(existing)
}
