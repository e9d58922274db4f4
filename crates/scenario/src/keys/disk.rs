//! Settings of disks, and of the volatile caches that members have.

use destage_plan::Nanos;
use destage_sim::array::{DeviceSetup, DriveCacheSetup};
use destage_sim::disk::{DiskProfile, DiskScheduler, DiskZone, PRESETS, SeekCurve};

use super::Result;
use crate::quantity as q;
use crate::setting::declare_settings;
use crate::values::{page_time, time_text, word};
use crate::{AppliesTo, RecordedPlace, ScenarioError, ScenarioSettings, TypedSetting};

/// A point of a seek curve: its distance, if it has one, and its time.
type SeekPoint = (Option<u32>, Nanos);

declare_settings! {
    /// Lists the settings that choose disks and their schedulers.
    pub(super) table SELECTION_KEYS;

    /// Holds the preset of a disk.
    pub const PROFILE: TypedSetting<DiskProfile> = TypedSetting::one(
        "disk-profile",
        "NAME",
        "1tb-7200",
        AppliesTo::Disk,
        "1tb-7200 or 2gb-barracuda; the keys disk.* change it",
        profile,
    );
    pub(crate) const SCHEDULER: TypedSetting<DiskScheduler> = TypedSetting::list(
        "scheduler",
        "NAME",
        "clook",
        AppliesTo::Disk,
        "Orders of service of the disks: fcfs, clook, sstf, sptf",
        scheduler,
    )
    .recorded(RecordedPlace::Field);
}

declare_settings! {
    /// Lists the settings of the tables `[disk]` and `[drive]`.
    pub(super) table KEYS;

    pub(crate) const HEADS: TypedSetting<u32> = TypedSetting::one(
        "disk.heads",
        "N",
        "",
        AppliesTo::Disk,
        "Heads, hence tracks in a cylinder [default: 22]",
        q::count32,
    );
    pub(crate) const ZONES: TypedSetting<DiskZone> = TypedSetting::list(
        "disk.zones",
        "CYLINDERSxSECTORS",
        "",
        AppliesTo::Disk,
        "Zones from the outermost inwards, with sectors of a track",
        zone,
    );
    pub(crate) const ROTATION: TypedSetting<Nanos> = TypedSetting::one(
        "disk.rotation",
        "TIME",
        "",
        AppliesTo::Disk,
        "One rotation [default: 8.333333ms]",
        q::time,
    );
    pub(crate) const SEEK: TypedSetting<SeekPoint> = TypedSetting::list(
        "disk.seek",
        "TIME|CYLINDERS:TIME",
        "",
        AppliesTo::Disk,
        "One time; three, over 1, 1/3 and all cylinders [default: 1ms,8.5ms,17ms]; or points of a table",
        seek_point,
    );
    pub(crate) const HEAD_SWITCH: TypedSetting<Nanos> = TypedSetting::one(
        "disk.head-switch",
        "TIME",
        "",
        AppliesTo::Disk,
        "From one head to another [default: 0.8ms]",
        q::time,
    );
    pub(crate) const WRITE_SETTLE: TypedSetting<Nanos> = TypedSetting::one(
        "disk.write-settle",
        "TIME",
        "",
        AppliesTo::Disk,
        "Added before a write on another track [default: 0.5ms]",
        q::time,
    );
    pub(crate) const OVERHEAD: TypedSetting<Nanos> = TypedSetting::one(
        "disk.overhead",
        "TIME",
        "",
        AppliesTo::Disk,
        "The controller's work on a command [default: 0.1ms]",
        q::time,
    );
    pub(crate) const TRACK_SKEW: TypedSetting<Nanos> = TypedSetting::one(
        "disk.track-skew",
        "TIME",
        "",
        AppliesTo::Disk,
        "From track to track of a cylinder [default: a head switch and a settle]",
        q::time,
    );
    pub(crate) const CYLINDER_SKEW: TypedSetting<Nanos> = TypedSetting::one(
        "disk.cylinder-skew",
        "TIME",
        "",
        AppliesTo::Disk,
        "To the next cylinder [default: the longer of seek and switch, and a settle]",
        q::time,
    );
    pub(crate) const AVERAGE_ROTATION: TypedSetting<bool> = TypedSetting::switch(
        "disk.average-rotation",
        "",
        AppliesTo::Disk,
        "Wait half a rotation for every command [default: false]",
    );
    pub(crate) const QUEUE_DEPTH: TypedSetting<u32> = TypedSetting::one(
        "disk.queue-depth",
        "N",
        "",
        AppliesTo::Disk,
        "Commands that a drive holds and chooses from [default: 32]",
        q::count32,
    );
    pub(crate) const SPINDLES: TypedSetting<bool> = TypedSetting::one(
        "disk.spindles",
        "spread|synchronised",
        "spread",
        AppliesTo::Disk,
        "Whether members' platters are spread evenly over a rotation, or turn in step",
        synchronised,
    );
    pub(crate) const DRIVE_CACHE: TypedSetting<u64> = TypedSetting::one(
        "drive.cache",
        "SIZE",
        "0",
        AppliesTo::Array,
        "Volatile write cache of each member; 0: none, or one that is switched off",
        q::bytes,
    );
    pub(crate) const DRIVE_TRANSFER: TypedSetting<Nanos> = TypedSetting::one(
        "drive.transfer",
        "TIME",
        "7us",
        AppliesTo::Array,
        "A page between host and such a cache; 4 KiB at 600 MB/s",
        page_time,
    );
}

/// Reads a disk.
pub(crate) fn disk(settings: &ScenarioSettings) -> Result<DeviceSetup> {
    let mut profile = PROFILE.get(settings)?;
    let p = &mut profile;
    p.heads = HEADS.get_or(settings, p.heads)?;
    p.queue_depth = QUEUE_DEPTH.get_or(settings, p.queue_depth)?;
    if ZONES.is_given(settings) {
        p.zones = ZONES.all(settings)?;
    }
    if let Some(seek) = seek(settings)? {
        p.seek = seek;
    }
    let times = [
        (ROTATION, &mut p.rotation),
        (HEAD_SWITCH, &mut p.head_switch),
        (WRITE_SETTLE, &mut p.write_settle),
        (OVERHEAD, &mut p.overhead),
    ];
    for (setting, field) in times {
        *field = setting.get_or(settings, *field)?;
    }
    // Skews that are not given follow from the switching times.
    p.track_skew = TRACK_SKEW.optional(settings)?.or(p.track_skew);
    p.cylinder_skew = CYLINDER_SKEW.optional(settings)?.or(p.cylinder_skew);
    p.average_rotation = AVERAGE_ROTATION.get_or(settings, p.average_rotation)?;
    let synchronised = SPINDLES.get(settings)?;
    Ok(DeviceSetup::Disk { profile, synchronised })
}

/// Returns the settings that follow from the profile of a disk, and their values.
pub(crate) fn followed(profile: &DiskProfile) -> Vec<(&'static str, String)> {
    let zones = profile.zones.iter().map(|zone| format!("{}x{}", zone.cylinders, zone.sectors_per_track));
    let seek = match &profile.seek {
        SeekCurve::Constant(seek) => time_text(*seek),
        SeekCurve::ThreePoint { single, average, full } => [single, average, full].map(|&t| time_text(t)).join(","),
        SeekCurve::Table(points) => {
            let points = points.iter().map(|&(cylinders, seek)| format!("{cylinders}:{}", time_text(seek)));
            points.collect::<Vec<_>>().join(",")
        }
    };
    let mut values = vec![
        (HEADS.name(), profile.heads.to_string()),
        (ZONES.name(), zones.collect::<Vec<_>>().join(",")),
        (ROTATION.name(), time_text(profile.rotation)),
        (SEEK.name(), seek),
        (HEAD_SWITCH.name(), time_text(profile.head_switch)),
        (WRITE_SETTLE.name(), time_text(profile.write_settle)),
        (OVERHEAD.name(), time_text(profile.overhead)),
        (AVERAGE_ROTATION.name(), profile.average_rotation.to_string()),
        (QUEUE_DEPTH.name(), profile.queue_depth.to_string()),
    ];
    values.extend(profile.track_skew.map(|skew| (TRACK_SKEW.name(), time_text(skew))));
    values.extend(profile.cylinder_skew.map(|skew| (CYLINDER_SKEW.name(), time_text(skew))));
    values
}

fn profile(name: &str) -> std::result::Result<DiskProfile, String> {
    DiskProfile::preset(name).ok_or_else(|| {
        let names: Vec<_> = PRESETS.iter().map(|(name, _)| *name).collect();
        format!("one of {}", names.join(", "))
    })
}

fn synchronised(text: &str) -> std::result::Result<bool, String> {
    word(text, &[("spread", false), ("synchronised", true)])
}

fn seek(settings: &ScenarioSettings) -> Result<Option<SeekCurve>> {
    if !SEEK.is_given(settings) {
        return Ok(None);
    }
    let points = SEEK.all(settings)?;
    let table: Option<Vec<_>> = points.iter().map(|&(distance, time)| Some((distance?, time))).collect();
    Ok(Some(match (table, &points[..]) {
        (Some(table), _) => SeekCurve::Table(table),
        (None, &[(None, time)]) => SeekCurve::Constant(time),
        (None, &[(None, single), (None, average), (None, full)]) => SeekCurve::ThreePoint { single, average, full },
        _ => {
            return Err(ScenarioError::new(
                "'disk.seek' takes one time, three times (over 1, a third of and all cylinders), or CYLINDERS:TIME ...",
            ));
        }
    }))
}

fn scheduler(text: &str) -> std::result::Result<DiskScheduler, String> {
    DiskScheduler::by_name(text)
        .ok_or_else(|| format!("one of {}", DiskScheduler::ALL.map(DiskScheduler::name).join(", ")))
}

fn zone(text: &str) -> std::result::Result<DiskZone, String> {
    let right = || "cylinders and sectors of a track, such as 5000x2441".to_owned();
    let (cylinders, sectors) = text.split_once('x').ok_or_else(right)?;
    let number = |text: &str| text.trim().parse().map_err(|_| right());
    Ok(DiskZone { cylinders: number(cylinders)?, sectors_per_track: number(sectors)? })
}

fn seek_point(text: &str) -> std::result::Result<SeekPoint, String> {
    match text.split_once(':') {
        None => Ok((None, q::time(text)?)),
        Some((distance, time)) => Ok((Some(q::count32(distance)?), q::time(time)?)),
    }
}

/// Reads the volatile write cache that each member has, if it has one.
pub(crate) fn drive_cache(settings: &ScenarioSettings, page: u64) -> Result<Option<DriveCacheSetup>> {
    let right = || format!("0 for none, or a size of less than 2^32 whole pages ({page} B)");
    let pages = DRIVE_CACHE.get_by(settings, |text| match q::bytes(text) {
        Ok(bytes) if bytes.is_multiple_of(page) => u32::try_from(bytes / page).map_err(|_| right()),
        _ => Err(right()),
    })?;
    let page_time = DRIVE_TRANSFER.get(settings)?;
    Ok((pages > 0).then_some(DriveCacheSetup { pages, page_time }))
}
