//! Finds members by their labels, in whatever order the configuration names them.

use std::path::Path;

use super::label;
use super::opened::OpenedArray;
use crate::files::config::FilesConfig;
use crate::files::error::FilesError;
use crate::files::io::os::{OsInterface, PathPresence};

/// Opens an array by `open`, with the configuration as it is unless members are in the places of others: then in the
/// order that their labels say, which is returned.
pub(crate) fn open_in_order(
    os: &dyn OsInterface,
    config: &FilesConfig,
    open: impl Fn(&dyn OsInterface, &FilesConfig) -> Result<OpenedArray, FilesError>,
) -> Result<(OpenedArray, Option<FilesConfig>), FilesError> {
    // The given order is tried first: most starts need no look at other labels.
    let error = match open(os, config) {
        // Who is in the place of another is a stranger there; without an NVRAM nobody's marks are found.
        Err(error @ (FilesError::Stranger { .. } | FilesError::NoMarks(_))) => error,
        opened => return Ok((opened?, None)),
    };
    let Some(ordered) = in_order(os, config) else { return Err(error) };
    Ok((open(os, &ordered)?, Some(ordered)))
}

/// Returns the configuration with members in the order of their labels, if that is another one. None if labels do not
/// tell: two of them are of one member, or they are of several arrays.
pub(super) fn in_order(os: &dyn OsInterface, config: &FilesConfig) -> Option<FilesConfig> {
    let members = &config.devices[..config.members];
    let (first, _) = members.split_first()?;
    // Where one has its label all have it.
    // With different sizes or offsets a label of one member lies elsewhere than
    // that of another.
    if members.iter().any(|other| (other.offset, other.pages) != (first.offset, first.pages)) {
        return None;
    }
    let owners: Vec<_> = members.iter().map(|member| owner(os, config, &member.path)).collect();
    let mut drawn = owners.iter().flatten().map(|(drawn, _)| *drawn);
    let array = drawn.next()?;
    // Labels of two arrays: sorting would mix them.
    if drawn.any(|other| other != array) {
        return None;
    }
    let mut places: Vec<Option<usize>> = vec![None; config.members];
    for (at, owner) in owners.iter().enumerate() {
        let Some((_, dev)) = *owner else { continue };
        // Two files claim the same place, so nobody can tell which is right.
        if places.get_mut(dev)?.replace(at).is_some() {
            return None;
        }
    }
    // Files without a label stay where they are, or take what is free: they count as missing wherever they are.
    let mut others: Vec<usize> = (0..config.members).filter(|at| owners[*at].is_none()).collect();
    for (dev, place) in places.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
        if let Some(nth) = others.iter().position(|at| *at == dev) {
            *place = Some(others.swap_remove(nth));
        }
    }
    let mut others = others.into_iter();
    let places: Vec<usize> = places.into_iter().map(|place| place.or_else(|| others.next())).collect::<Option<_>>()?;
    // The order is as given, so the first error stands.
    if places.iter().enumerate().all(|(dev, at)| dev == *at) {
        return None;
    }
    let mut ordered = config.clone();
    for (dev, at) in places.into_iter().enumerate() {
        ordered.devices[dev] = config.devices[at].clone();
    }
    Some(ordered)
}

/// Returns what was drawn for the array of this number whose member a file has been, and which; none if it has no label
/// that can be read.
fn owner(os: &dyn OsInterface, config: &FilesConfig, path: &Path) -> Option<([u8; 16], usize)> {
    let file = os.open(path, PathPresence::There).ok()?;
    let (origin, dev) = label::owner_of(&*file, config, 0)?;
    (origin.array == config.array).then_some((origin.drawn, dev as usize))
}
