//! Checks whether replacing a device of a served array, or taking it out, would cost data.

use std::fmt;
use std::path::PathBuf;

use destage_cache::ServedTier;
use destage_exec::FilesError;
use destage_plan::{Dev, DevSet, Status};
use serde::{Deserialize, Serialize};

use crate::{DescriptionError, as_text};

/// Orders a file to be put in the place of a device, or the device to be taken out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReplacement {
    /// Names the device as the status does, or by a member's number.
    pub device: String,
    /// Names the file by an absolute path; without one the device's own file is made anew.
    #[serde(default, with = "as_text")]
    pub path: Option<PathBuf>,
    /// Takes the device out, and puts nothing in its place.
    #[serde(default)]
    pub takes_out: bool,
    /// Gives up what only this device, or the file, holds.
    #[serde(default)]
    pub force: bool,
}

impl fmt::Display for DeviceReplacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.takes_out { "take out" } else { "replace" }, self.device)?;
        self.path.as_ref().map_or(Ok(()), |path| write!(f, " {}", path.display()))?;
        f.write_str(if self.force { " --force" } else { "" })
    }
}

/// Tells what became of an order to replace a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceOutcome {
    /// Tells that the file has the device's place, or that the device is taken out.
    Done,
    /// Tells that the device stays in its place until it is copied to the file.
    Copying,
}

/// Says why a device was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// Tells that there is no such device.
    #[error("there is no device \"{device}\"; there are {known}")]
    Device {
        /// Gives the name as it was written.
        device: String,
        /// Lists the devices that there are.
        known: String,
    },
    /// Tells that the level cannot do without it.
    #[error("{why}: data would be lost; {first}")]
    Needed {
        /// Says what the level cannot do without.
        why: String,
        /// Says what to do first.
        first: String,
    },
    /// Tells that nothing can fill what takes its place.
    #[error(
        "{lost}, and {level} cannot do without them: nothing can fill a replacement; stop, bring one back, and start again"
    )]
    Broken {
        /// Says which members are lost.
        lost: String,
        /// Gives level and members, as `raid5:4`.
        level: String,
    },
    /// Tells that the device is whole, and that no other file was named.
    #[error("{device} answers and is whole, and would be emptied; name the file that takes its place")]
    Whole {
        /// Names the device.
        device: String,
    },
    /// Tells that there is nothing to be taken out.
    #[error("{device} is lost already")]
    Lost {
        /// Names the device.
        device: String,
    },
    /// Tells that the array is not ready.
    #[error(
        "the array is being made consistent after a crash, which needs {device}; wait until destage status says serving"
    )]
    Recovering {
        /// Names the device.
        device: String,
    },
    /// Tells that parity is stale.
    #[error(
        "the parity of {rows} rows is stale since the cache is lost, and is being made good, which needs {device}; wait"
    )]
    Stale {
        /// Names the device.
        device: String,
        /// Counts the rows.
        rows: usize,
    },
    /// Tells that the device alone has the newest version of pages.
    #[error("the cache alone has the newest version of pages in {rows} rows, and they cannot be written back")]
    Dirty {
        /// Counts the rows.
        rows: usize,
    },
    /// Tells that a member is being copied to its successor.
    #[error(
        "{device} is being copied to {path}, which takes its place then: one member is copied at a time; wait until destage status says that this is done"
    )]
    Copying {
        /// Names the member.
        device: String,
        /// Names the successor's file.
        path: String,
    },
    /// Tells that another device is being written back.
    #[error("another replacement is under way: the cache is being written back")]
    UnderWay,
    /// Tells that the file cannot take the device's place.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// Tells that the file has taken the device's place, but the description still names the other one.
    #[error("the device is replaced, but the description cannot be changed: {0}")]
    Description(#[from] DescriptionError),
}

impl ReplaceError {
    /// Returns true if a [forced](DeviceReplacement::force) replacement is not refused for this reason.
    pub const fn yields_to_force(&self) -> bool {
        match self {
            Self::Needed { .. }
            | Self::Broken { .. }
            | Self::Whole { .. }
            | Self::Recovering { .. }
            | Self::Stale { .. }
            | Self::Dirty { .. } => true,
            Self::Files(error) => {
                matches!(error, FilesError::CarriesData { .. } | FilesError::Stranger { .. })
            }
            // Nothing here is refused for the sake of data, so giving data up does not help.
            Self::Device { .. } | Self::Lost { .. } | Self::Copying { .. } | Self::UnderWay | Self::Description(_) => {
                false
            }
        }
    }
}

/// Checks that the array loses nothing if this member is taken out of it.
pub(crate) fn check_member(
    served: &dyn ServedTier,
    status: Status,
    dev: Dev,
    names_other: bool,
) -> Result<(), ReplaceError> {
    let array = served.array();
    let (not_live, geometry) = (array.degraded(), &array.config().geometry);
    let (device, level) = (name(dev), format!("{}:{}", geometry.level(), geometry.members()));
    // Comes first: with too many members lost every other answer would promise what cannot be done.
    if array.is_broken() {
        return Err(ReplaceError::Broken { lost: without(array.filling().map(|one| one.0), not_live), level });
    }
    if not_live.contains(dev) {
        return Ok(());
    }
    if status != Status::Ready {
        return Err(ReplaceError::Recovering { device });
    }
    // While a member is being filled, its rows that are not filled yet rely on the others.
    if !array.can_spare(dev) || array.filling().is_some() {
        let filling = array.filling().map(|one| one.0);
        let needed = format!("{}, and {level} cannot do without {device} as well", without(filling, not_live));
        let (why, first) = match not_live.lowest() {
            None => (format!("{level} cannot do without any member"), "copy its data elsewhere first".to_owned()),
            Some(_) if filling.is_some() => (needed, "wait until that is done".to_owned()),
            Some(lost) => (needed, format!("replace {} first", name(lost))),
        };
        return Err(ReplaceError::Needed { why, first });
    }
    // Without the cache, stale parity rebuilds nothing until it is updated from all members.
    if !served.is_caching() && served.stale_rows() > 0 {
        return Err(ReplaceError::Stale { device, rows: served.stale_rows() });
    }
    // A whole member without another file named is more likely a slip than a wish to empty it.
    if names_other { Ok(()) } else { Err(ReplaceError::Whole { device }) }
}

/// Checks that nothing is lost with the cache's device.
pub(crate) fn check_cache(served: &dyn ServedTier, status: Status) -> Result<(), ReplaceError> {
    if status != Status::Ready {
        return Err(ReplaceError::Recovering { device: "the cache".to_owned() });
    }
    // Members have clean pages as well, so only dirty ones are lost with the device.
    match served.status().dirty_rows {
        0 => Ok(()),
        rows => Err(ReplaceError::Dirty { rows }),
    }
}

fn name(dev: Dev) -> String {
    format!("member {}", dev.0)
}

/// Says which members are lost or being filled.
fn without(filling: Option<Dev>, not_live: DevSet) -> String {
    let told = not_live.iter().map(|dev| {
        let how = if filling == Some(dev) { "being filled" } else { "lost" };
        format!("{} is {how}", name(dev))
    });
    told.collect::<Vec<_>>().join(" and ")
}
