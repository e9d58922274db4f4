//! The settings of `destage sim`, and the experiment they describe.

use destage_sim::buffer::{Admission, Capacity, DeviceConfig, Experiment, FlushMode, RunConfig};
use destage_sim::input::{Speed, Warmup};

use crate::keys::cache::{buffer_policy, geometry, subpage, trim};
use crate::keys::device::buffer_device;
use crate::keys::host::{MAX_BUFFER_LATENCY, host};
use crate::keys::ssd::{LBA_OVERFLOW, capacity};
use crate::keys::trace::{ops, volumes};
use crate::keys::word;
use crate::quantity as q;
use crate::{Recorded, ScenarioError, Settings};

pub use crate::keys::SIM;
pub use crate::keys::output::resources;
pub use crate::keys::requests::Requests;
pub use crate::keys::trace::requests;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The settings that say what was simulated, but for those that results carry under a name of their own.
fn settings_for_results(settings: &Settings, device: &DeviceConfig) -> Vec<(String, String)> {
    settings.in_force_of(|key| {
        matches!(key.recorded, Recorded::Settings | Recorded::ArrayField)
            && key.applies_to.buffers_over(device)
            && (key.name != "lenient" || !settings.is_given("workload"))
    })
}

/// The experiment over buffers that the settings describe, which have no array.
pub fn experiment(settings: &Settings, requests: &Requests) -> Result<Experiment> {
    requests.check(settings)?;
    let given = || SIM.iter().filter(|key| settings.is_given(key.name));
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
    let recorded = settings_for_results(settings, &device);
    let (times, per) = settings.one("speed", q::factor)?;
    let warmup = requests.warmup(settings)?;
    Ok(Experiment {
        trace: requests.name(),
        geometry,
        policies: settings.all("policy", buffer_policy)?,
        foreign: Vec::new(),
        caches: requests.caches(settings, geometry.page_bytes())?.unwrap_or_default(),
        capacity: match device {
            DeviceConfig::Ssd(..) => capacity(settings, requests)?,
            DeviceConfig::None | DeviceConfig::Analytic(_) => Capacity::Given,
        },
        device,
        lba_overflow: LBA_OVERFLOW.get(settings)?,
        ops: ops(settings)?,
        volumes: settings.one("volumes", volumes)?,
        speed: Speed { times, per },
        limit: requests.limit(settings)?,
        run: RunConfig {
            host: settings.one("host", host)?,
            flush: settings.one("flush", word(&[("ignore", FlushMode::Ignore), ("drain", FlushMode::Drain)]))?,
            trim: trim(settings)?,
            subpage: subpage(settings)?,
            admission: settings
                .one("admission", word(&[("page", Admission::Page), ("request", Admission::Request)]))?,
            warmup,
            max_backlog: settings.one("max-backlog", q::count)?,
            buffer_latency: settings.one("buffer-latency", |text| match q::time(text) {
                Ok(time) if time > MAX_BUFFER_LATENCY => Err("at most 1s".into()),
                time => time,
            })?,
            // A buffer that is warm at the start is left so at the end: draining it would charge
            // the measured part with writes that it did not bring.
            drain: settings.optional("drain", q::switch)?.unwrap_or(warmup == Warmup::None),
            per_volume: settings.one("per-volume", q::switch)?,
            capacity_pages: 0,
            pages_per_block: 0,
        },
        settings: recorded,
    })
}
