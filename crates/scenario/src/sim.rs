//! The settings of `destage sim`, and the experiment they describe.

use destage_sim::buffer::{BufferExperiment, DeviceCapacity, DeviceConfig, RunConfig};
use destage_sim::experiment::TraceReplay;
use destage_sim::input::WarmupPart;

use crate::keys::cache::{ADMISSION, FLUSH, POLICY, SUBPAGE, TRIM, buffer_policy, geometry};
use crate::keys::device::buffer_device;
use crate::keys::host::{BUFFER_LATENCY, DRAIN, HOST, MAX_BACKLOG, PER_VOLUME, speed};
use crate::keys::ssd::{LBA_OVERFLOW, capacity};
use crate::keys::ssd_model::with_implied;
use crate::keys::trace::{LENIENT, OPS, VOLUMES, WORKLOAD};
use crate::{RecordedPlace, ScenarioError, ScenarioSettings, SettingKey};

pub use crate::keys::SIM;
pub use crate::keys::output::resources;
pub use crate::keys::requests::SimulatedRequests;
pub use crate::keys::trace::requests;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The settings that say what was simulated, but for those that results carry under a name of their own.
fn settings_for_results(settings: &ScenarioSettings, device: &DeviceConfig) -> Result<Vec<(String, String)>> {
    let is_recorded = |key: &SettingKey| {
        matches!(key.recorded, RecordedPlace::Settings | RecordedPlace::ArrayField)
            && key.applies_to.buffers_over(device)
            && (key.name != LENIENT.name() || !WORKLOAD.is_given(settings))
    };
    Ok(match device {
        DeviceConfig::Ssd(..) => with_implied(settings)?.in_force_of(is_recorded),
        DeviceConfig::None | DeviceConfig::Analytic(_) => settings.in_force_of(is_recorded),
    })
}

/// The experiment over buffers that the settings describe, which have no array.
pub fn experiment(settings: &ScenarioSettings, requests: &SimulatedRequests) -> Result<BufferExperiment> {
    requests.check(settings)?;
    let given = || SIM.iter().filter(|key| settings.is_given(key));
    if let Some(key) = given().find(|key| key.applies_to.needs_array()) {
        return Err(ScenarioError::new(format_args!(
            "'{}' has no meaning without an array: give array too, such as --array raid5:5",
            key.name
        )));
    }
    let geometry = geometry(settings)?;
    let device = buffer_device(settings, geometry)?;
    if let Some(key) = given().find(|key| !key.applies_to.buffers_over(&device)) {
        return Err(ScenarioError::new(format_args!("'{}' has no meaning for device = {}", key.name, device.word())));
    }
    let recorded = settings_for_results(settings, &device)?;
    let speed = speed(settings)?;
    let warmup = requests.warmup(settings)?;
    Ok(BufferExperiment {
        policies: POLICY.all_by(settings, buffer_policy)?,
        foreign: Vec::new(),
        caches: requests.caches(settings, geometry.page_bytes())?.unwrap_or_default(),
        replay: TraceReplay {
            capacity: match device {
                DeviceConfig::Ssd(..) => capacity(settings, requests)?,
                DeviceConfig::None | DeviceConfig::Analytic(_) => DeviceCapacity::Given,
            },
            lba_overflow: LBA_OVERFLOW.get(settings)?,
            ops: OPS.get(settings)?,
            volumes: VOLUMES.get(settings)?,
            speed,
            limit: requests.limit(settings)?,
            settings: recorded,
            ..TraceReplay::whole(requests.name(), geometry)
        },
        device,
        run: RunConfig {
            host: HOST.get(settings)?,
            flush: FLUSH.get(settings)?,
            trim: TRIM.get(settings)?,
            subpage: SUBPAGE.get(settings)?,
            admission: ADMISSION.get(settings)?,
            warmup,
            max_backlog: MAX_BACKLOG.get(settings)?,
            buffer_latency: BUFFER_LATENCY.get(settings)?,
            // A buffer that is warm at the start is left so at the end: draining it would charge
            // the measured part with writes that it did not bring.
            drain: DRAIN.get_or(settings, warmup == WarmupPart::None)?,
            per_volume: PER_VOLUME.get(settings)?,
            capacity_pages: 0,
            pages_per_block: 0,
        },
    })
}
