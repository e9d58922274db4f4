//! Settings in which nothing depends on what a trace holds any more.

use std::collections::HashMap;
use std::sync::Arc;

use destage_sim::curve::{self, CurveScope, PassFindings};
use destage_sim::experiment::{DeviceCapacity, RunProgress, TraceReplay};
use destage_sim::input::{LbaOverflow, WarmupPart};

use crate::keys::cache::CACHE;
use crate::keys::host::WARMUP;
use crate::keys::trace::WORKLOAD;
use crate::sim::{self, SimulatedRequests};
use crate::simulation::{self, CountError, SizesError};
use crate::{ScenarioError, ScenarioSettings, workload};

/// Holds the findings of passes over traces, so that many scenarios over one trace share each pass.
#[derive(Debug, Default)]
pub struct TraceLooks {
    counts: HashMap<String, u64>,
    found: HashMap<String, Arc<PassFindings>>,
}

/// Why settings could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The settings.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The requests could not be counted.
    #[error(transparent)]
    Count(#[from] CountError),
    /// Sizes could not be found.
    #[error(transparent)]
    Sizes(#[from] SizesError),
}

impl ScenarioSettings {
    /// The same for whoever reads them elsewhere: names of workload files begin at the root.
    ///
    /// # Errors
    /// Fails where the working directory is not known.
    pub fn elsewhere(&self) -> Result<Self, ScenarioError> {
        self.with_whole_paths(&[WORKLOAD], |_, value| workload::is_file(value))
    }
}

impl TraceLooks {
    /// The same settings with a warm-up in requests or as a time, sizes of caches in bytes where they depend on the trace,
    /// and names of workload files from the root: whoever has the same trace needs no pass of its own for them. `content`
    /// stands for what the trace's files hold.
    ///
    /// # Errors
    /// Fails where the settings describe no simulation, or the trace cannot be read, or not twice.
    pub fn resolved(
        &mut self,
        settings: &ScenarioSettings,
        requests: &SimulatedRequests,
        content: &str,
        progress: &(dyn Fn(RunProgress) + Sync),
    ) -> Result<ScenarioSettings, ResolveError> {
        let mut settings = settings.elsewhere()?;
        let mut requests = requests.clone();
        let of = format!("{content} {}", requests.identity());
        if requests.needs_count(&settings)? {
            requests = if let Some(&count) = self.counts.get(&of) {
                requests.of_count(count)
            } else {
                simulation::count(&settings, &mut requests, &mut |share, requests| {
                    progress(RunProgress { share, requests, ..RunProgress::default() });
                })?;
                requests
            };
            self.counts.extend(requests.counted().map(|count| (of.clone(), count)));
            let warmup = match requests.warmup(&settings)? {
                WarmupPart::Requests(requests) => requests.to_string(),
                _ => "0".to_owned(),
            };
            settings.flag(WARMUP.name(), vec![warmup])?;
        }
        if requests.needs_sizes(&settings)? {
            let scope = simulation::simulation(&settings, &requests.before_sizes())?.scope();
            let key = format!("{of} {:?}", CurveScope { replay: decisive(&scope.replay), ..scope.clone() });
            let found = if let Some(found) = self.found.get(&key) {
                Arc::clone(found)
            } else {
                let resources = sim::resources(&settings)?;
                let looked = curve::lru(&scope, resources, &mut || requests.open(0), progress);
                Arc::new(looked.map_err(SizesError::from)?)
            };
            self.found.insert(key, Arc::clone(&found));
            let page = scope.replay.geometry.page_bytes();
            let sizes = requests.sized_as(found).caches(&settings, page)?.unwrap_or_default();
            settings.flag(CACHE.name(), sizes.iter().map(u64::to_string).collect())?;
        }
        Ok(settings)
    }
}

/// Returns the replay without what a pass over the trace does not depend on: the device below and the settings.
fn decisive(replay: &TraceReplay) -> TraceReplay {
    TraceReplay {
        capacity: DeviceCapacity::Given,
        lba_overflow: LbaOverflow::Wrap,
        settings: Vec::new(),
        ..replay.clone()
    }
}
