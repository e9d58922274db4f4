//! Settings of the NVRAM, or of the journal in its place.

use super::{Result, word};
use crate::quantity as q;
use crate::{AppliesTo, Key, ScenarioError, Settings};

/// Lists the settings of the table `[nvram]`.
pub(super) const KEYS: &[Key] = &[
    Key::one("nvram.write", "TIME", "1us", AppliesTo::Array, "Writing a page to the NVRAM"),
    Key::one("nvram.read", "TIME", "125ns", AppliesTo::Array, "Reading a page from the NVRAM"),
    Key::one("nvram.note", "TIME", "1us", AppliesTo::Array, "A note in the NVRAM: an intent, a tag, a slot freed"),
    Key::one(
        "nvram.on",
        "WHAT",
        "nvram",
        AppliesTo::Array,
        "Where that is: nvram, or cache-device: there is none, and what would be in it goes to a journal there",
    ),
    Key::one("nvram.journal", "SIZE", "32MiB", AppliesTo::Array, "Size of that journal, beside the cache"),
];

/// Bytes of the journal that stands in for an NVRAM, if one does.
pub(super) fn journal(settings: &Settings, page: u64) -> Result<Option<u64>> {
    let on_device = settings.one("nvram.on", word(&[("nvram", false), ("cache-device", true)]))?;
    if !on_device && settings.is_given("nvram.journal") {
        return Err(ScenarioError::new("'nvram.journal' has no meaning with an NVRAM: give nvram.on = cache-device"));
    }
    let bytes = settings.one("nvram.journal", |text| match q::bytes(text) {
        Ok(bytes) if bytes.is_multiple_of(page) => Ok(bytes),
        _ => Err("a size of whole pages"),
    })?;
    Ok(on_device.then_some(bytes))
}
