//! Settings of a redundant array, its cache device and its failures.

use destage_plan::{Dev, Nanos};
use destage_raid::Level;
use destage_sim::array::{Injection, InjectionKind};

use super::Result;
use crate::quantity as q;
use crate::{AppliesTo, Key, Recorded, Settings};

/// Lists the settings of the array, in the order of the help.
pub(super) const KEYS: &[Key] = &[
    Key::one(
        "array",
        "LEVEL:MEMBERS",
        "",
        AppliesTo::Array,
        "A redundant array, such as raid5:5, and host-side policies in front of it",
    )
    .recorded(Recorded::Field),
    Key::one(
        "layout",
        "NAME",
        "",
        AppliesTo::Array,
        "Where the array's parity lies, by mdadm's names [default: left-symmetric]",
    )
    .recorded(Recorded::Field),
    Key::one("chunk", "SIZE", "64KiB", AppliesTo::Array, "Contiguous data on a member").recorded(Recorded::Field),
    Key::one(
        "member-size",
        "SIZE",
        "",
        AppliesTo::Array,
        "What is used of each member [default: of a disk all of it, else what the trace takes, or as ssd.capacity says]",
    ),
    Key::one(
        "parity",
        "min|rmw|rcw|disksim",
        "min",
        AppliesTo::Array,
        "How parity is updated: what reads least, read-modify-write, reconstruct-write, or as DiskSim chooses",
    )
    .recorded(Recorded::Field),
    Key::one(
        "regime",
        "flush|every-write",
        "flush",
        AppliesTo::Array,
        "What the array promises: durable after a flush or with FUA, or each acknowledged write",
    )
    .recorded(Recorded::Field),
    Key::one("cache-device", "ssd|disk|fixed", "ssd", AppliesTo::Array, "Where host-side policies cache")
        .recorded(Recorded::Field),
    Key::one(
        "cache-endurance",
        "SIZE",
        "",
        AppliesTo::Array,
        "Bytes that may be written to the cache device until it is worn out (TBW), such as 600TB: results tell how long it lasts",
    ),
];

/// Lists the settings of failures, in the order of the help.
pub(super) const FAILURE_KEYS: &[Key] = &[
    Key::list(
        "fail",
        "DEVICE@TIME",
        "",
        AppliesTo::Array,
        "Devices that fail, such as 1@60s: a member's number from 0, or cache",
    ),
    Key::list(
        "replace",
        "DEVICE@TIME",
        "",
        AppliesTo::Array,
        "When another takes a failed device's place, and the array is rebuilt",
    ),
];

/// A level and a number of members: `raid5:5`.
///
/// # Errors
/// What would be right.
pub fn level_and_members(text: &str) -> std::result::Result<(Level, u32), String> {
    let right =
        || "a level and its members, such as raid5:5; the levels are raid0, raid1, raid4, raid5 and raid6".to_owned();
    let (level, members) = text.split_once(':').ok_or_else(right)?;
    let level = level.parse::<Level>().map_err(|error| error.to_string())?;
    Ok((level, members.parse().map_err(|_| right())?))
}

/// What a device takes until it is worn out.
pub(crate) fn endurance(text: &str) -> std::result::Result<u64, String> {
    q::bytes(text)
        .ok()
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| "the bytes that may be written to it, such as 600TB".into())
}

pub(crate) fn injections(settings: &Settings, members: u32) -> Result<Vec<Injection>> {
    let mut all = Vec::new();
    for (key, kind) in [("fail", InjectionKind::Fail), ("replace", InjectionKind::Replace)] {
        if settings.is_given(key) {
            let member = |text: &str| match injection(text) {
                Ok((Some(device), _)) if u32::from(device) >= members => {
                    Err(format!("a member below {members}, or cache, and a time, such as 1@60s"))
                }
                found => found,
            };
            for (device, at) in settings.all(key, member)? {
                // The cache device comes after the members. An array has fewer members than 63
                // anyway, which is told elsewhere.
                let dev = Dev(device.unwrap_or(members.min(63) as u8));
                all.push(Injection { at, dev, kind });
            }
        }
    }
    Ok(all)
}

/// The device of an injection, `none` for the cache, and its time.
fn injection(text: &str) -> std::result::Result<(Option<u8>, Nanos), String> {
    let right = || "a device and a time, such as 1@60s or cache@2min; the members are numbered from 0".to_owned();
    let (device, time) = text.split_once('@').ok_or_else(right)?;
    let device = match device.trim() {
        "cache" => None,
        number => Some(number.parse().ok().filter(|&number: &u8| number < 64).ok_or_else(right)?),
    };
    Ok((device, q::time(time).map_err(|_| right())?))
}
