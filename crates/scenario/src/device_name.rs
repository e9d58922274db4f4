//! Names the devices that settings describe, for those who show results of many simulations.

use crate::keys::array::{ARRAY, CACHE_DEVICE};
use crate::keys::cache::CACHE;
use crate::keys::device::{DEVICE, member_kind};
use crate::keys::ssd_model;
use crate::{ScenarioError, ScenarioSettings};

/// Returns the devices that the settings describe, an SSD by its preset and model: `SSD pm9a3 (modern model)`, or
/// `raid5:5 over disk, cache on SSD pm9a3 (modern model)`.
///
/// # Errors
/// If a setting of the devices is wrong.
pub fn device_name(settings: &ScenarioSettings) -> Result<String, ScenarioError> {
    let named = |kind: &str| if kind == "ssd" { ssd_model::name(settings) } else { Ok(kind.to_owned()) };
    if !ARRAY.is_given(settings) {
        return named(&DEVICE.get(settings)?);
    }
    let level = ARRAY.get_by(settings, |text| Ok::<_, String>(text.to_owned()))?;
    let (member, cache) = (member_kind(settings)?, CACHE_DEVICE.get(settings)?);
    let cached = if CACHE.is_given(settings) && cache != member {
        format!(", cache on {}", named(cache)?)
    } else {
        String::new()
    };
    Ok(format!("{level} over {}{cached}", named(member)?))
}
