//! Settings of devices that take the same time for every command.

use destage_sim::array::FixedTimes;

use super::{LONGEST_PAGE, LONGEST_STEP, Result, bounded};
use crate::{AppliesTo, Key, Settings};

/// Lists the settings of the table `[fixed]`.
pub(super) const KEYS: &[Key] = &[
    Key::one("fixed.read", "TIME", "100us", AppliesTo::Fixed, "A read; a fixed device does one thing at a time"),
    Key::one("fixed.write", "TIME", "100us", AppliesTo::Fixed, "A write"),
    Key::one("fixed.other", "TIME", "0", AppliesTo::Fixed, "A flush or a trim"),
    Key::one("fixed.page", "TIME", "0", AppliesTo::Fixed, "Added for each page of a read or write"),
];

/// Reads the times of a fixed device.
pub(crate) fn fixed(settings: &Settings) -> Result<FixedTimes> {
    let step = bounded(LONGEST_STEP);
    Ok(FixedTimes {
        read: settings.one("fixed.read", &step)?,
        write: settings.one("fixed.write", &step)?,
        other: settings.one("fixed.other", &step)?,
        page: settings.one("fixed.page", bounded(LONGEST_PAGE))?,
    })
}
