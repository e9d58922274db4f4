//! The settings of `destage sim --array`, and the experiment they describe.

use destage_cache::{HostCacheSpec, host_caches, host_caches_of};
use destage_delta::lengths::Lengths;
use destage_delta::patterns::Pattern;
use destage_plan::{Dev, Nanos, PageGeometry, PolicySpec, SpecError};
use destage_policy::buffer;
use destage_raid::array::{ParityMethod, Regime};
use destage_raid::{Layout, Level};
use destage_sim::array::{
    ArrayExperiment, ArrayHost, ArraySetup, DeviceSetup, DriveCacheSetup, FixedTimes, Injection, InjectionKind,
    Service, SetupError, StepTimes,
};
use destage_sim::disk::{DiskProfile, PRESETS, Scheduler, SeekCurve, Zone};
use destage_sim::experiment::Capacity;
use destage_sim::input::Speed;
use destage_sim::ssd::StartState;

use crate::quantity as q;
use crate::sim::{self, BUFFER_ONLY, Requests, SAYING_MORE, SIM, WITHOUT_INFLUENCE, word};
use crate::{ScenarioError, Settings};

type Result<T> = std::result::Result<T, ScenarioError>;

/// The longest step of a device, of the NVRAM or of the processor: a second, so that sums of them
/// stay in range.
const LONGEST_STEP: Nanos = Nanos(1_000_000_000);
/// The same of what is counted per page.
const LONGEST_PAGE: Nanos = Nanos(10_000_000);

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

/// Whether this is the name of a buffer.
fn is_buffer(name: &str) -> bool {
    let spec = PolicySpec { name: name.to_owned(), given: Vec::new() };
    buffer::info(&buffer::canonical(spec).name).is_ok()
}

/// A controller; buffers are told from them.
fn controller(text: &str) -> std::result::Result<HostCacheSpec, String> {
    text.parse().map_err(|error: SpecError| match &error {
        SpecError::Unknown { name, known } if is_buffer(name) => {
            format!("a buffer inside an SSD, not a cache of the host; with an array the policies are {known}")
        }
        _ => error.to_string(),
    })
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

fn bounded(most: Nanos) -> impl Fn(&str) -> std::result::Result<Nanos, String> {
    move |text| match q::time(text) {
        Ok(time) if time > most => Err(format!("at most {}", q::show_time(most.0 as f64))),
        time => time,
    }
}

/// How long deltas are.
fn lengths(text: &str) -> std::result::Result<Lengths, String> {
    const PATTERNS: [(&str, Pattern); 4] =
        [("runs", Pattern::Runs), ("one-run", Pattern::OneRun), ("words", Pattern::Words), ("bytes", Pattern::Bytes)];
    let right = |_| {
        "gaussian:25% or gaussian:25%,6.25% (mean and deviation of deltas, by the page), fixed:25%, or the share of a \
         page that changes, as runs:10%, one-run:10%, words:10% or bytes:10%; shares are at most 100%"
            .to_owned()
    };
    let (kind, shares) = text.split_once(':').ok_or_else(|| right(String::new()))?;
    if let Some(&(_, pattern)) = PATTERNS.iter().find(|(name, _)| *name == kind) {
        return Ok(Lengths::Changes { pattern, changed: q::basis_points(shares).map_err(right)? });
    }
    match (kind, shares.split_once(',')) {
        ("fixed", None) => Ok(Lengths::Fixed { share: q::basis_points(shares).map_err(right)? }),
        ("gaussian", None) => {
            let mean = q::basis_points(shares).map_err(right)?;
            Ok(Lengths::Gaussian { mean, deviation: mean / 4 })
        }
        ("gaussian", Some((mean, deviation))) => Ok(Lengths::Gaussian {
            mean: q::basis_points(mean).map_err(right)?,
            deviation: q::basis_points(deviation).map_err(right)?,
        }),
        _ => Err(right(String::new())),
    }
}

fn positive(text: &str) -> std::result::Result<u64, String> {
    q::count(text).ok().filter(|&n| n > 0).ok_or_else(|| "a whole number of at least 1".into())
}

/// What a device takes until it is worn out.
fn endurance(text: &str) -> std::result::Result<u64, String> {
    q::bytes(text)
        .ok()
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| "the bytes that may be written to it, such as 600TB".into())
}

fn scheduler(text: &str) -> std::result::Result<Scheduler, String> {
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

fn disk(settings: &Settings) -> Result<DeviceSetup> {
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

fn device(settings: &Settings, kind: &str) -> Result<DeviceSetup> {
    let step = bounded(LONGEST_STEP);
    match kind {
        "disk" => disk(settings),
        "fixed" => Ok(DeviceSetup::Fixed(FixedTimes {
            read: settings.one("fixed.read", &step)?,
            write: settings.one("fixed.write", &step)?,
            other: settings.one("fixed.other", &step)?,
            page: settings.one("fixed.page", bounded(LONGEST_PAGE))?,
        })),
        _ => {
            let config = sim::ssd(settings, sim::geometry(settings)?)?;
            let start = settings.optional("start", sim::start)?.unwrap_or_else(|| sim::default_start(config.ftl));
            Ok(DeviceSetup::Ssd { config, start })
        }
    }
}

/// The device of a cache of at most so many bytes.
///
/// Over members that are none an SSD is as large as its preset, and begins full, unless told otherwise: how full
/// it is is decided by the cache. A drive's preset says nothing of the size; it is as large as it takes.
fn cache_device(settings: &Settings, member: &str, kind: &str, bytes: u64) -> Result<DeviceSetup> {
    let mut made = device(settings, kind)?;
    if let DeviceSetup::Ssd { config, start } = &mut made
        && member != "ssd"
    {
        if sim::fits(settings)? {
            let geometry = sim::geometry(settings)?;
            let pages = bytes.div_ceil(geometry.page_bytes());
            *config = config.clone().with_pages(pages, geometry).map_err(ScenarioError::new)?;
        } else if !settings.is_given("start") {
            *start = StartState::default();
        }
    }
    Ok(made)
}

/// Whether an array of such members is to fit the trace.
fn capacity(settings: &Settings, requests: &Requests, member: &str) -> Result<Capacity> {
    match (member, settings.is_given("member-size")) {
        ("ssd", sized) => sim::array_capacity(settings, requests, sized),
        (_, true) => Ok(Capacity::Given),
        _ if settings.is_given("lba-overflow") || !requests.can_be_read_again() => Ok(Capacity::Given),
        _ => Ok(Capacity::Fit),
    }
}

fn drive_cache(settings: &Settings, page: u64) -> Result<Option<DriveCacheSetup>> {
    let right = || format!("0 for none, or a size of less than 2^32 whole pages ({page} B)");
    let pages = settings.one("drive.cache", |text| match q::bytes(text) {
        Ok(bytes) if bytes.is_multiple_of(page) => u32::try_from(bytes / page).map_err(|_| right()),
        _ => Err(right()),
    })?;
    let page_time = settings.one("drive.transfer", bounded(LONGEST_PAGE))?;
    Ok((pages > 0).then_some(DriveCacheSetup { pages, page_time }))
}

fn service(settings: &Settings, page: u64) -> Result<Service> {
    let merge = settings.one("raid.merge", q::bytes)?;
    Ok(Service {
        parity: settings.one(
            "parity",
            word(&[
                ("min", ParityMethod::Min),
                ("rmw", ParityMethod::Rmw),
                ("rcw", ParityMethod::Rcw),
                ("disksim", ParityMethod::Disksim),
            ]),
        )?,
        regime: settings.one("regime", word(&[("flush", Regime::Flush), ("every-write", Regime::EveryWrite)]))?,
        depth: settings.one("raid.depth", |text| positive(text).map(|n| n.min(1 << 24) as usize))?,
        open_rows: settings.one("raid.open-rows", |text| positive(text).map(|n| n.min(1 << 40) as usize))?,
        idle_flush: settings.one("raid.idle-flush", q::time)?,
        rebuild_window: settings.one("raid.rebuild-window", |text| match q::count32(text) {
            Ok(0) | Err(_) => Err("a whole number between 1 and 2^32 - 1"),
            Ok(stripes) => Ok(stripes),
        })?,
        nv_slots: settings.one("raid.nv-slots", |text| {
            text.parse().ok().filter(|slots| *slots <= 1 << 24).ok_or("a whole number up to 16777216")
        })?,
        times: StepTimes {
            nv_write: settings.one("nvram.write", bounded(LONGEST_PAGE))?,
            nv_read: settings.one("nvram.read", bounded(LONGEST_PAGE))?,
            nv_note: settings.one("nvram.note", bounded(LONGEST_PAGE))?,
            compute: settings.one("raid.compute", bounded(LONGEST_PAGE))?,
            merge_pages: (merge / page).clamp(1, 1 << 16) as u32,
            journal: None,
        },
        journal: journal(settings, page)?,
    })
}

/// Bytes of the journal that stands in for an NVRAM, if one does.
fn journal(settings: &Settings, page: u64) -> Result<Option<u64>> {
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

fn injections(settings: &Settings, members: u32) -> Result<Vec<Injection>> {
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

/// Refuses keys that were given and that nothing looks at.
fn check_keys(settings: &Settings, kinds: &[&str]) -> Result<()> {
    for key in SIM.iter().filter(|key| settings.is_given(key.name)) {
        let name = key.name;
        let needs = match name {
            "disk-profile" | "scheduler" => Some("disk"),
            "start" => Some("ssd"),
            _ => name.split_once('.').map(|(table, _)| table).filter(|table| ["disk", "ssd", "fixed"].contains(table)),
        };
        if needs.is_some_and(|kind| !kinds.contains(&kind)) {
            let is = kinds.join(" and ");
            return Err(ScenarioError::new(format_args!("'{name}' has no meaning where the devices are {is}")));
        }
        if BUFFER_ONLY.contains(&name) || name.starts_with("analytic.") {
            return Err(ScenarioError::new(format_args!("'{name}' has no meaning for an array")));
        }
    }
    Ok(())
}

/// The settings that say what was simulated, but for those that results carry under a name of their
/// own.
fn settings_for_results(settings: &Settings, kinds: &[&str], deltas: bool) -> Vec<(String, String)> {
    const ELSEWHERE: &[&str] = &[
        "trace",
        "workload",
        "format",
        "policy",
        "cache",
        "page",
        "device",
        "start",
        "host",
        "array",
        "layout",
        "chunk",
        "parity",
        "regime",
        "cache-device",
        "scheduler",
    ];
    let tells = |name: &str| {
        let of_devices = match name.split_once('.') {
            Some((table @ ("disk" | "ssd" | "fixed"), _)) => kinds.contains(&table),
            Some(("delta", _)) => deltas,
            Some((table, _)) => table != "analytic",
            None => name != "disk-profile" || kinds.contains(&"disk"),
        };
        of_devices
            && !ELSEWHERE.contains(&name)
            && !BUFFER_ONLY.contains(&name)
            && !WITHOUT_INFLUENCE.contains(&name)
            && !SAYING_MORE.contains(&name)
            && (name != "lenient" || !settings.is_given("workload"))
    };
    settings.in_force().into_iter().filter(|(name, _)| tells(name)).collect()
}

/// The experiment over an array that the settings describe. It can be run.
pub(crate) fn experiment(settings: &Settings, requests: &Requests) -> Result<ArrayExperiment> {
    requests.check(settings)?;
    let page = settings.one("page", q::bytes)?;
    let geometry = PageGeometry::new(page, settings.one("pages-per-block", q::count)?).map_err(ScenarioError::new)?;
    let (level, members) = settings.one("array", level_and_members)?;
    let kinds = word(&[("disk", "disk"), ("ssd", "ssd"), ("fixed", "fixed")]);
    let member = if settings.is_given("device") {
        settings.one("device", |text| kinds(text).map_err(|right| format!("with an array {right}")))?
    } else {
        "disk"
    };
    let cache_kind = settings.one("cache-device", &kinds)?;
    let sized = settings.is_given("cache");
    let caches = if sized { requests.caches(settings, page)? } else { Some(Vec::new()) };
    let policies = if settings.is_given("policy") {
        settings.all("policy", controller)?
    } else {
        // Everything that can be with what was given.
        let usable = host_caches_of(level).filter(|info| !info.is_sized() || sized);
        usable.map(HostCacheSpec::of).collect()
    };
    let caching = policies.iter().any(|policy| policy.info().is_sized());
    if settings.is_given("cache-device") && !caching {
        let message = if sized {
            SetupError::UnusedCache { key: "cache-device" }.to_string()
        } else {
            "'cache-device' has no meaning without a cache: give cache, such as --cache 1GiB".to_owned()
        };
        return Err(ScenarioError::new(message));
    }
    let mut used = vec![member];
    if caching && cache_kind != member {
        used.push(cache_kind);
    }
    check_keys(settings, &used)?;
    let deltas = policies.iter().any(|policy| policy.info().makes_deltas);
    if let Some(key) = ["delta.length", "delta.seed"].into_iter().find(|key| settings.is_given(key) && !deltas) {
        let some: Vec<_> = host_caches().filter(|info| info.makes_deltas).map(|info| info.name).collect();
        return Err(ScenarioError::new(format_args!(
            "'{key}' has no meaning: no policy makes deltas; {} does",
            some.join(" or ")
        )));
    }
    let (times, per) = settings.one("speed", q::factor)?;
    let service = service(settings, page)?;
    let cached = caches.iter().flatten().max().unwrap_or(&0).saturating_add(service.journal.unwrap_or(0));
    let experiment = ArrayExperiment {
        trace: requests.name(),
        geometry,
        array: ArraySetup {
            level,
            members,
            layout: settings.optional("layout", str::parse::<Layout>)?,
            chunk_bytes: settings.one("chunk", q::bytes)?,
            member_bytes: settings.optional("member-size", q::bytes)?,
        },
        policies,
        caches: caches.clone().unwrap_or_default(),
        member: device(settings, member)?,
        drive_cache: drive_cache(settings, page)?,
        cache_device: cache_device(settings, member, cache_kind, cached)?,
        cache_endurance: settings.optional("cache-endurance", endurance)?,
        deltas: settings.one("delta.length", lengths)?,
        delta_seed: settings.one("delta.seed", q::count)?,
        schedulers: settings.all("scheduler", scheduler)?,
        service,
        injections: injections(settings, members)?,
        capacity: capacity(settings, requests, member)?,
        lba_overflow: sim::lba_overflow(settings)?,
        ops: sim::ops(settings)?,
        volumes: settings.one("volumes", sim::volumes)?,
        speed: Speed { times, per },
        limit: requests.limit(settings)?,
        host: ArrayHost {
            host: settings.one("host", sim::host)?,
            trim: sim::trim(settings)?,
            subpage: sim::subpage(settings)?,
            warmup: requests.warmup(settings)?,
            max_backlog: settings.one("max-backlog", positive)?,
            drain: settings.optional("drain", q::switch)?.unwrap_or(false),
            per_volume: settings.one("per-volume", q::switch)?,
        },
        settings: settings_for_results(settings, &used, deltas),
    };
    // Before there are sizes nothing can be said of them.
    if caches.is_some() {
        experiment.check().map_err(ScenarioError::new)?;
    }
    Ok(experiment)
}
