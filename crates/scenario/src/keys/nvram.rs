//! Settings of the NVRAM, or of the journal in its place.

use destage_plan::Nanos;

use super::Result;
use crate::quantity as q;
use crate::setting::declare_settings;
use crate::values::{page_time, word};
use crate::{AppliesTo, ScenarioError, ScenarioSettings, TypedSetting};

declare_settings! {
    /// Lists the settings of the table `[nvram]`.
    pub(super) table KEYS;

    pub(crate) const WRITE: TypedSetting<Nanos> = TypedSetting::one(
        "nvram.write",
        "TIME",
        "1us",
        AppliesTo::Array,
        "Writing a page to the NVRAM",
        page_time,
    );
    pub(crate) const READ: TypedSetting<Nanos> = TypedSetting::one(
        "nvram.read",
        "TIME",
        "125ns",
        AppliesTo::Array,
        "Reading a page from the NVRAM",
        page_time,
    );
    pub(crate) const NOTE: TypedSetting<Nanos> = TypedSetting::one(
        "nvram.note",
        "TIME",
        "1us",
        AppliesTo::Array,
        "A note in the NVRAM: an intent, a tag, a slot freed",
        page_time,
    );
    pub(crate) const ON: TypedSetting<bool> = TypedSetting::one(
        "nvram.on",
        "WHAT",
        "nvram",
        AppliesTo::Array,
        "Where that is: nvram, or cache-device: there is none, and what would be in it goes to a journal there",
        is_on_device,
    );
    pub(crate) const JOURNAL: TypedSetting<u64> = TypedSetting::one(
        "nvram.journal",
        "SIZE",
        "32MiB",
        AppliesTo::Array,
        "Size of that journal, beside the cache",
        q::bytes,
    );
}

/// Bytes of the journal that stands in for an NVRAM, if one does.
pub(super) fn journal(settings: &ScenarioSettings, page: u64) -> Result<Option<u64>> {
    let on_device = ON.get(settings)?;
    if !on_device && JOURNAL.is_given(settings) {
        return Err(ScenarioError::new("'nvram.journal' has no meaning with an NVRAM: give nvram.on = cache-device"));
    }
    let bytes = JOURNAL.get_by(settings, |text| match q::bytes(text) {
        Ok(bytes) if bytes.is_multiple_of(page) => Ok(bytes),
        _ => Err("a size of whole pages"),
    })?;
    Ok(on_device.then_some(bytes))
}

fn is_on_device(text: &str) -> std::result::Result<bool, String> {
    word(text, &[("nvram", false), ("cache-device", true)])
}
