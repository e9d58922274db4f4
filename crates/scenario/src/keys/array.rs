//! Settings of a redundant array, its cache device and its failures.

use destage_plan::{Dev, Nanos};
use destage_raid::array::{DurabilityMode, ParityMethod};
use destage_raid::{ParityLayout, RaidLevel, settings};
use destage_sim::array::{ArraySetup, DeviceInjection, InjectionKind};

use super::Result;
use super::device::array_kind;
use crate::quantity as q;
use crate::setting::declare_settings;
use crate::{AppliesTo, RecordedPlace, ScenarioSettings, TypedSetting};

declare_settings! {
    /// Lists the settings of the array, in the order of the help.
    pub(super) table KEYS;

    /// Holds the level and the number of members; a simulation that has it is one of an array.
    pub const ARRAY: TypedSetting<(RaidLevel, u32)> =
        TypedSetting::of_array(&settings::LEVEL, AppliesTo::Array).recorded(RecordedPlace::Field);
    pub(crate) const LAYOUT: TypedSetting<ParityLayout> =
        TypedSetting::of_array(&settings::LAYOUT, AppliesTo::Array).recorded(RecordedPlace::Field);
    pub(crate) const CHUNK: TypedSetting<u64> =
        TypedSetting::of_array(&settings::CHUNK, AppliesTo::Array).recorded(RecordedPlace::Field);
    pub(crate) const MEMBER_SIZE: TypedSetting<u64> =
        TypedSetting::of_array(&settings::MEMBER_SIZE, AppliesTo::Array);
    pub(crate) const PARITY: TypedSetting<ParityMethod> =
        TypedSetting::of_array(&settings::PARITY, AppliesTo::Array).recorded(RecordedPlace::Field);
    pub(crate) const REGIME: TypedSetting<DurabilityMode> =
        TypedSetting::of_array(&settings::DURABILITY, AppliesTo::Array).recorded(RecordedPlace::Field);
    /// Holds the kind of device on which host-side policies cache.
    pub const CACHE_DEVICE: TypedSetting<&'static str> = TypedSetting::one(
        "cache-device",
        "ssd|disk|fixed",
        "ssd",
        AppliesTo::Array,
        "Where host-side policies cache",
        array_kind,
    )
    .recorded(RecordedPlace::Field);
    pub(crate) const CACHE_ENDURANCE: TypedSetting<u64> = TypedSetting::one(
        "cache-endurance",
        "SIZE",
        "",
        AppliesTo::Array,
        "Bytes that may be written to the cache device until it is worn out (TBW), such as 600TB: results tell how long it lasts",
        endurance,
    );
}

declare_settings! {
    /// Lists the settings of failures, in the order of the help.
    pub(super) table FAILURE_KEYS;

    pub(crate) const FAIL: TypedSetting<(Option<u8>, Nanos)> = TypedSetting::list(
        "fail",
        "DEVICE@TIME",
        "",
        AppliesTo::Array,
        "Devices that fail, such as 1@60s: a member's number from 0, or cache",
        failure,
    );
    pub(crate) const REPLACE: TypedSetting<(Option<u8>, Nanos)> = TypedSetting::list(
        "replace",
        "DEVICE@TIME",
        "",
        AppliesTo::Array,
        "When another takes a failed device's place, and the array is rebuilt",
        failure,
    );
}

/// Reads the bytes that a device endures being written.
fn endurance(text: &str) -> std::result::Result<u64, String> {
    q::bytes(text)
        .ok()
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| "the bytes that may be written to it, such as 600TB".into())
}

/// Reads the array's members, and where data lie on them.
pub(crate) fn array_setup(settings: &ScenarioSettings, (level, members): (RaidLevel, u32)) -> Result<ArraySetup> {
    Ok(ArraySetup {
        level,
        members,
        layout: LAYOUT.optional(settings)?,
        chunk_bytes: CHUNK.get(settings)?,
        member_bytes: MEMBER_SIZE.optional(settings)?,
    })
}

/// Reads which devices fail and are replaced, of so many members and the cache device.
pub(crate) fn injections(settings: &ScenarioSettings, members: u32) -> Result<Vec<DeviceInjection>> {
    let mut all = Vec::new();
    for (setting, kind) in [(FAIL, InjectionKind::Fail), (REPLACE, InjectionKind::Replace)] {
        if setting.is_given(settings) {
            let member = |text: &str| match failure(text) {
                Ok((Some(device), _)) if u32::from(device) >= members => {
                    Err(format!("a member below {members}, or cache, and a time, such as 1@60s"))
                }
                found => found,
            };
            for (device, at) in setting.all_by(settings, member)? {
                // The cache device comes after the members. An array has fewer members than 63
                // anyway, which is told elsewhere.
                let dev = Dev(device.unwrap_or(members.min(63) as u8));
                all.push(DeviceInjection { at, dev, kind });
            }
        }
    }
    Ok(all)
}

/// The device of an injection, `none` for the cache, and its time.
fn failure(text: &str) -> std::result::Result<(Option<u8>, Nanos), String> {
    let right = || "a device and a time, such as 1@60s or cache@2min; the members are numbered from 0".to_owned();
    let (device, time) = text.split_once('@').ok_or_else(right)?;
    let device = match device.trim() {
        "cache" => None,
        number => Some(number.parse().ok().filter(|&number: &u8| number < 64).ok_or_else(right)?),
    };
    Ok((device, q::time(time).map_err(|_| right())?))
}
