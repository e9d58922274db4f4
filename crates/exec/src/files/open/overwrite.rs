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

/// Checks that there can be a new array in the place of an old one. Everything that is there of the old one
/// must be its own, and unserved. What else is there of the new one must be empty. Changes nothing.
pub(crate) fn check(os: &dyn OsInterface, old: &FilesConfig, new: &FilesConfig) -> Result<ExistingFiles, FilesError> {
    let mut parts: Vec<FileIdentity> = Vec::new();
    let mut add = |path: &Path, is_own: &dyn Fn(&dyn OsFile) -> bool| {
        // Files that are gone already need not be given up.
        let Some(file) = there(os, path)? else { return Ok(()) };
        // Locked, so that nobody serves the array while it is given up.
        lock(&*file, path)?;
        // A path may name another's file by now; removing that would lose data of
        // somebody else.
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
        // Two devices of the new array with one path would overwrite each other.
        if !names.insert(path.to_owned()) {
            return Err(FilesError::Same(path.to_owned(), path.to_owned()));
        }
        let Some(file) = there(os, path)? else { return Ok(false) };
        let is_part = parts.contains(&files.add(&*file, path)?);
        // What is no part of the old array must not exist: it would be lost without
        // having been named.
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
    // Last, since it reads the devices: cheaper refusals come first.
    check_devices(os, new, existing)?;
    Ok(existing)
}
