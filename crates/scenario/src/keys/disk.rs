//! Settings of disks, and of the volatile caches that members have.

use destage_plan::Nanos;
use destage_sim::array::{DeviceSetup, DriveCacheSetup};
use destage_sim::disk::{DiskProfile, PRESETS, Scheduler, SeekCurve, Zone};

use super::{LONGEST_PAGE, Result, bounded, word};
use crate::quantity as q;
use crate::{AppliesTo, Key, Recorded, ScenarioError, Settings};

/// Lists the settings that choose disks and their schedulers.
pub(super) const SELECTION_KEYS: &[Key] = &[
    Key::one(
        "disk-profile",
        "NAME",
        "1tb-7200",
        AppliesTo::Disk,
        "1tb-7200 or 2gb-barracuda; the keys disk.* change it",
    ),
    Key::list("scheduler", "NAME", "clook", AppliesTo::Disk, "Orders of service of the disks: fcfs, clook, sstf, sptf")
        .recorded(Recorded::Field),
];

/// Lists the settings of the tables `[disk]` and `[drive]`.
pub(super) const KEYS: &[Key] = &[
    Key::one("disk.heads", "N", "", AppliesTo::Disk, "Heads, hence tracks in a cylinder [default: 22]"),
    Key::list(
        "disk.zones",
        "CYLINDERSxSECTORS",
        "",
        AppliesTo::Disk,
        "Zones from the outermost inwards, with sectors of a track",
    ),
    Key::one("disk.rotation", "TIME", "", AppliesTo::Disk, "One rotation [default: 8.333333ms]"),
    Key::list(
        "disk.seek",
        "TIME|CYLINDERS:TIME",
        "",
        AppliesTo::Disk,
        "One time; three, over 1, 1/3 and all cylinders [default: 1ms,8.5ms,17ms]; or points of a table",
    ),
    Key::one("disk.head-switch", "TIME", "", AppliesTo::Disk, "From one head to another [default: 0.8ms]"),
    Key::one(
        "disk.write-settle",
        "TIME",
        "",
        AppliesTo::Disk,
        "Added before a write on another track [default: 0.5ms]",
    ),
    Key::one("disk.overhead", "TIME", "", AppliesTo::Disk, "The controller's work on a command [default: 0.1ms]"),
    Key::one(
        "disk.track-skew",
        "TIME",
        "",
        AppliesTo::Disk,
        "From track to track of a cylinder [default: a head switch and a settle]",
    ),
    Key::one(
        "disk.cylinder-skew",
        "TIME",
        "",
        AppliesTo::Disk,
        "To the next cylinder [default: the longer of seek and switch, and a settle]",
    ),
    Key::switch(
        "disk.average-rotation",
        "",
        AppliesTo::Disk,
        "Wait half a rotation for every command [default: false]",
    ),
    Key::one(
        "disk.queue-depth",
        "N",
        "",
        AppliesTo::Disk,
        "Commands that a drive holds and chooses from [default: 32]",
    ),
    Key::one(
        "disk.spindles",
        "spread|synchronised",
        "spread",
        AppliesTo::Disk,
        "Whether members' platters are spread evenly over a rotation, or turn in step",
    ),
    Key::one(
        "drive.cache",
        "SIZE",
        "0",
        AppliesTo::Array,
        "Volatile write cache of each member; 0: none, or one that is switched off",
    ),
    Key::one(
        "drive.transfer",
        "TIME",
        "7us",
        AppliesTo::Array,
        "A page between host and such a cache; 4 KiB at 600 MB/s",
    ),
];

pub(crate) fn disk(settings: &Settings) -> Result<DeviceSetup> {
    let mut profile = settings.one("disk-profile", |name| {
        DiskProfile::preset(name).ok_or_else(|| {
            let names: Vec<_> = PRESETS.iter().map(|(name, _)| *name).collect();
            format!("one of {}", names.join(", "))
        })
    })?;
    let p = &mut profile;
    p.heads = settings.optional("disk.heads", q::count32)?.unwrap_or(p.heads);
    p.queue_depth = settings.optional("disk.queue-depth", q::count32)?.unwrap_or(p.queue_depth);
    if settings.is_given("disk.zones") {
        p.zones = settings.all("disk.zones", zone)?;
    }
    p.seek = seek(settings)?.unwrap_or_else(|| p.seek.clone());
    let times = [
        ("disk.rotation", &mut p.rotation),
        ("disk.head-switch", &mut p.head_switch),
        ("disk.write-settle", &mut p.write_settle),
        ("disk.overhead", &mut p.overhead),
    ];
    for (name, field) in times {
        *field = settings.optional(name, q::time)?.unwrap_or(*field);
    }
    p.track_skew = settings.optional("disk.track-skew", q::time)?.or(p.track_skew);
    p.cylinder_skew = settings.optional("disk.cylinder-skew", q::time)?.or(p.cylinder_skew);
    p.average_rotation = settings.optional("disk.average-rotation", q::switch)?.unwrap_or(p.average_rotation);
    let synchronised = settings.one("disk.spindles", word(&[("spread", false), ("synchronised", true)]))?;
    Ok(DeviceSetup::Disk { profile, synchronised })
}

fn seek(settings: &Settings) -> Result<Option<SeekCurve>> {
    if !settings.is_given("disk.seek") {
        return Ok(None);
    }
    let points = settings.all("disk.seek", point)?;
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

pub(crate) fn scheduler(text: &str) -> std::result::Result<Scheduler, String> {
    Scheduler::by_name(text).ok_or_else(|| format!("one of {}", Scheduler::ALL.map(Scheduler::name).join(", ")))
}

fn zone(text: &str) -> std::result::Result<Zone, String> {
    let right = || "cylinders and sectors of a track, such as 5000x2441".to_owned();
    let (cylinders, sectors) = text.split_once('x').ok_or_else(right)?;
    let number = |text: &str| text.trim().parse().map_err(|_| right());
    Ok(Zone { cylinders: number(cylinders)?, sectors_per_track: number(sectors)? })
}

/// A point of a seek curve: its distance, if it has one, and its time.
fn point(text: &str) -> std::result::Result<(Option<u32>, Nanos), String> {
    match text.split_once(':') {
        None => Ok((None, q::time(text)?)),
        Some((distance, time)) => Ok((Some(q::count32(distance)?), q::time(time)?)),
    }
}

pub(crate) fn drive_cache(settings: &Settings, page: u64) -> Result<Option<DriveCacheSetup>> {
    let right = || format!("0 for none, or a size of less than 2^32 whole pages ({page} B)");
    let pages = settings.one("drive.cache", |text| match q::bytes(text) {
        Ok(bytes) if bytes.is_multiple_of(page) => u32::try_from(bytes / page).map_err(|_| right()),
        _ => Err(right()),
    })?;
    let page_time = settings.one("drive.transfer", bounded(LONGEST_PAGE))?;
    Ok((pages > 0).then_some(DriveCacheSetup { pages, page_time }))
}
