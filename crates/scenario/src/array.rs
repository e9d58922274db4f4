//! The settings of `destage sim --array`, and the experiment they describe.

use destage_cache::{HostCacheSpec, host_caches, host_caches_of};
use destage_sim::array::{ArrayExperiment, ArrayHost, DeviceSetup, DriveCacheSetup, SetupError};
use destage_sim::experiment::{DeviceCapacity, TraceReplay};
use destage_sim::ssd::StartState;

use crate::keys::array::{ARRAY, CACHE_DEVICE, CACHE_ENDURANCE, MEMBER_SIZE, array_setup, injections};
use crate::keys::cache::{CACHE, POLICY, SUBPAGE, TRIM, controller, geometry};
use crate::keys::device::{array_device, member_kind};
use crate::keys::disk::{SCHEDULER, drive_cache};
use crate::keys::host::{DRAIN, HOST, MAX_BACKLOG, PER_VOLUME, speed};
use crate::keys::raid::service;
use crate::keys::requests::SimulatedRequests;
use crate::keys::ssd::{LBA_OVERFLOW, START, array_capacity, fits};
use crate::keys::ssd_model::with_implied;
use crate::keys::ssd_placement::keeps_streams;
use crate::keys::trace::{LENIENT, OPS, VOLUMES, WORKLOAD};
use crate::keys::{SIM, delta};
use crate::values::positive;
use crate::{AppliesTo, RecordedPlace, ScenarioError, ScenarioSettings, SettingKey};

type Result<T> = std::result::Result<T, ScenarioError>;

/// The device of a cache of at most so many bytes.
///
/// Over members that are none an SSD is as large as its preset, and begins full, unless told otherwise: how full
/// it is is decided by the cache. A drive's preset says nothing of the size; it is as large as it takes.
fn cache_device(settings: &ScenarioSettings, member: &str, kind: &str, bytes: u64) -> Result<DeviceSetup> {
    let mut made = array_device(settings, kind)?;
    if let DeviceSetup::Ssd { config, start } = &mut made
        && member != "ssd"
    {
        if fits(settings)? {
            let geometry = geometry(settings)?;
            let pages = bytes.div_ceil(geometry.page_bytes());
            *config = config.clone().with_pages(pages, geometry).map_err(ScenarioError::new)?;
        } else if !START.is_given(settings) {
            *start = StartState::default();
        }
    }
    Ok(made)
}

/// Reads the volatile write cache of members of a kind, if they have one: its pages reach the medium without labels.
fn member_cache(settings: &ScenarioSettings, page: u64, member: &str) -> Result<Option<DriveCacheSetup>> {
    let cache = drive_cache(settings, page)?;
    if cache.is_some() && member == "ssd" && keeps_streams(settings)? {
        return Err(ScenarioError::new(
            "'drive.cache' writes pages of all streams together, and ssd.placement = streams keeps them apart; leave one of \
             them out",
        ));
    }
    Ok(cache)
}

/// Returns whether an array of such members is to fit the trace.
fn capacity(settings: &ScenarioSettings, requests: &SimulatedRequests, member: &str) -> Result<DeviceCapacity> {
    match (member, MEMBER_SIZE.is_given(settings)) {
        ("ssd", sized) => array_capacity(settings, requests, sized),
        (_, true) => Ok(DeviceCapacity::Given),
        _ if LBA_OVERFLOW.is_given(settings) || !requests.can_be_read_again() => Ok(DeviceCapacity::Given),
        _ => Ok(DeviceCapacity::Fit),
    }
}

/// Refuses keys that were given and that nothing looks at.
fn check_keys(settings: &ScenarioSettings, kinds: &[&str]) -> Result<()> {
    for key in SIM.iter().filter(|key| settings.is_given(key)) {
        let name = key.name;
        if key.applies_to.array_device().is_some_and(|kind| !kinds.contains(&kind)) {
            let is = kinds.join(" and ");
            return Err(ScenarioError::new(format_args!("'{name}' has no meaning where the devices are {is}")));
        }
        if key.applies_to.needs_buffers() {
            return Err(ScenarioError::new(format_args!("'{name}' has no meaning for an array")));
        }
    }
    Ok(())
}

/// Returns true if `policy` is a cache of the host that makes deltas, whose settings decide about its results then. What is
/// no cache of the host makes none.
pub fn makes_deltas(policy: &str) -> bool {
    controller(policy).is_ok_and(|spec| spec.info().makes_deltas)
}

/// The settings that say what was simulated, but for those that results carry under a name of their
/// own.
fn settings_for_results(
    settings: &ScenarioSettings,
    kinds: &[&str],
    makes_deltas: bool,
) -> Result<Vec<(String, String)>> {
    let is_recorded = |key: &SettingKey| {
        matches!(key.recorded, RecordedPlace::Settings | RecordedPlace::BufferField)
            && key.applies_to.array_of(kinds, makes_deltas)
            && (key.name != LENIENT.name() || !WORKLOAD.is_given(settings))
    };
    Ok(if kinds.contains(&"ssd") {
        with_implied(settings)?.in_force_of(is_recorded)
    } else {
        settings.in_force_of(is_recorded)
    })
}

/// The experiment over an array that the settings describe. It can be run.
pub(crate) fn experiment(settings: &ScenarioSettings, requests: &SimulatedRequests) -> Result<ArrayExperiment> {
    requests.check(settings)?;
    let geometry = geometry(settings)?;
    let page = geometry.page_bytes();
    let (level, members) = ARRAY.get(settings)?;
    let member = member_kind(settings)?;
    let cache_kind = CACHE_DEVICE.get(settings)?;
    let sized = CACHE.is_given(settings);
    let caches = if sized { requests.caches(settings, page)? } else { Some(Vec::new()) };
    let policies = if POLICY.is_given(settings) {
        POLICY.all_by(settings, controller)?
    } else {
        // Everything that can be with what was given.
        let usable = host_caches_of(level).filter(|info| !info.is_sized() || sized);
        usable.map(HostCacheSpec::of).collect()
    };
    let caching = policies.iter().any(|policy| policy.info().is_sized());
    if CACHE_DEVICE.is_given(settings) && !caching {
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
    let mut given = SIM.iter().filter(|key| settings.is_given(key));
    if let Some(key) = given.find(|key| key.applies_to == AppliesTo::Deltas && !deltas) {
        let some: Vec<_> = host_caches().filter(|info| info.makes_deltas).map(|info| info.name).collect();
        return Err(ScenarioError::new(format_args!(
            "'{}' has no meaning: no policy makes deltas; {} does",
            key.name,
            some.join(" or ")
        )));
    }
    let speed = speed(settings)?;
    let service = service(settings, page)?;
    let cached = caches.iter().flatten().max().unwrap_or(&0).saturating_add(service.journal.unwrap_or(0));
    let experiment = ArrayExperiment {
        array: array_setup(settings, (level, members))?,
        policies,
        caches: caches.clone().unwrap_or_default(),
        member: array_device(settings, member)?,
        drive_cache: member_cache(settings, page, member)?,
        cache_device: cache_device(settings, member, cache_kind, cached)?,
        cache_endurance: CACHE_ENDURANCE.optional(settings)?,
        deltas: delta::LENGTH.get(settings)?,
        delta_seed: delta::SEED.get(settings)?,
        schedulers: SCHEDULER.all(settings)?,
        service,
        injections: injections(settings, members)?,
        replay: TraceReplay {
            capacity: capacity(settings, requests, member)?,
            lba_overflow: LBA_OVERFLOW.get(settings)?,
            ops: OPS.get(settings)?,
            volumes: VOLUMES.get(settings)?,
            speed,
            limit: requests.limit(settings)?,
            settings: settings_for_results(settings, &used, deltas)?,
            ..TraceReplay::whole(requests.name(), geometry)
        },
        host: ArrayHost {
            host: HOST.get(settings)?,
            trim: TRIM.get(settings)?,
            subpage: SUBPAGE.get(settings)?,
            warmup: requests.warmup(settings)?,
            max_backlog: MAX_BACKLOG.get_by(settings, positive)?,
            drain: DRAIN.get_or(settings, false)?,
            per_volume: PER_VOLUME.get(settings)?,
        },
    };
    // Before there are sizes nothing can be said of them.
    if caches.is_some() {
        experiment.check().map_err(ScenarioError::new)?;
    }
    Ok(experiment)
}
