//! The setting that chooses the devices.

use destage_plan::PageGeometry;
use destage_sim::array::DeviceSetup;
use destage_sim::buffer::DeviceConfig;

use super::Result;
use super::analytic::analytic;
use super::cache::geometry;
use super::disk::disk;
use super::fixed::fixed;
use super::ssd::{ssd, start_state};
use crate::setting::declare_settings;
use crate::values::{parsed, word};
use crate::{AppliesTo, RecordedPlace, ScenarioSettings, TypedSetting};

declare_settings! {
    /// Lists the setting that chooses devices.
    pub(super) table KEYS;

    /// Holds the kind of device below a buffer, or of the members of an array.
    pub const DEVICE: TypedSetting<String> = TypedSetting::one(
        "device",
        "none|analytic|ssd|disk|fixed",
        "none",
        AppliesTo::All,
        "Below the buffer: none, analytic or ssd; the members of an array: disk (the default there), ssd or fixed",
        parsed,
    )
    .recorded(RecordedPlace::Field);
}

/// Reads the device below a buffer.
pub(crate) fn buffer_device(settings: &ScenarioSettings, geometry: PageGeometry) -> Result<DeviceConfig> {
    let kind = |text: &str| match (word(text, &[("none", 0), ("analytic", 1), ("ssd", 2)]), text) {
        (Err(right), "disk" | "fixed") => Err(format!("{right}; members of an array can be that, see array")),
        (device, _) => device,
    };
    Ok(match DEVICE.get_by(settings, kind)? {
        0 => DeviceConfig::None,
        1 => DeviceConfig::Analytic(analytic(settings)?),
        _ => {
            let config = ssd(settings, geometry)?;
            let start = start_state(settings, config.ftl)?;
            DeviceConfig::Ssd(config, start)
        }
    })
}

/// Reads the kind of an array's members.
pub(crate) fn member_kind(settings: &ScenarioSettings) -> Result<&'static str> {
    if !DEVICE.is_given(settings) {
        return Ok("disk");
    }
    DEVICE.get_by(settings, |text| array_kind(text).map_err(|right| format!("with an array {right}")))
}

/// Takes a kind of device that an array can have.
pub(super) fn array_kind(text: &str) -> std::result::Result<&'static str, String> {
    word(text, &[("disk", "disk"), ("ssd", "ssd"), ("fixed", "fixed")])
}

/// Reads a device of an array, of this kind.
pub(crate) fn array_device(settings: &ScenarioSettings, kind: &str) -> Result<DeviceSetup> {
    match kind {
        "disk" => disk(settings),
        "fixed" => Ok(DeviceSetup::Fixed(fixed(settings)?)),
        _ => {
            let config = ssd(settings, geometry(settings)?)?;
            let start = start_state(settings, config.ftl)?;
            Ok(DeviceSetup::Ssd { config, start })
        }
    }
}
