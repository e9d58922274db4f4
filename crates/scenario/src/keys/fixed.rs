//! Settings of devices that take the same time for every command.

use destage_plan::Nanos;
use destage_sim::array::FixedTimes;

use super::Result;
use crate::setting::declare_settings;
use crate::values::{page_time, step_time};
use crate::{AppliesTo, ScenarioSettings, TypedSetting};

declare_settings! {
    /// Lists the settings of the table `[fixed]`.
    pub(super) table KEYS;

    pub(crate) const READ: TypedSetting<Nanos> = TypedSetting::one(
        "fixed.read",
        "TIME",
        "100us",
        AppliesTo::Fixed,
        "A read; a fixed device does one thing at a time",
        step_time,
    );
    pub(crate) const WRITE: TypedSetting<Nanos> = TypedSetting::one(
        "fixed.write",
        "TIME",
        "100us",
        AppliesTo::Fixed,
        "A write",
        step_time,
    );
    pub(crate) const OTHER: TypedSetting<Nanos> = TypedSetting::one(
        "fixed.other",
        "TIME",
        "0",
        AppliesTo::Fixed,
        "A flush or a trim",
        step_time,
    );
    pub(crate) const PAGE: TypedSetting<Nanos> = TypedSetting::one(
        "fixed.page",
        "TIME",
        "0",
        AppliesTo::Fixed,
        "Added for each page of a read or write",
        page_time,
    );
}

/// Reads the times of a fixed device.
pub(crate) fn fixed(settings: &ScenarioSettings) -> Result<FixedTimes> {
    Ok(FixedTimes {
        read: READ.get(settings)?,
        write: WRITE.get(settings)?,
        other: OTHER.get(settings)?,
        page: PAGE.get(settings)?,
    })
}
