//! Lists the policies that can be advised, and the sizes from which on they fit.

use destage_cache::{CacheMedium, host_caches, host_caches_of};
use destage_plan::PolicySpec;
use destage_policy::buffer::{self, layers, policies};
use destage_scenario::keys::cache::POLICY;
use destage_scenario::{DescribedSimulation, ScenarioSettings};
use destage_sim::array::ArrayExperiment;

use crate::AdviseError;
use crate::bench::SimulationBench;
use crate::search::SearchSpace;

/// A policy that is not among the candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The policy.
    pub policy: String,
    /// Why.
    pub why: String,
}

/// Lists what can be advised.
pub(crate) struct AdviceCandidates {
    pub(crate) policies: Vec<String>,
    /// Names what holds nothing, and is a candidate without a size.
    pub(crate) bare: Option<String>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// Names where caches keep data, whose sizes are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePlace {
    /// Is one place: the SSD of a buffer, or else a device, unless the settings name caches in the NVRAM.
    Only,
    /// Is a device before the array, where caches in the NVRAM have a budget of their own.
    Device,
    /// Is the NVRAM.
    Nvram,
}

impl CachePlace {
    /// Returns what advice calls it.
    pub(crate) const fn word(self) -> Option<&'static str> {
        match self {
            Self::Only => None,
            Self::Device => Some("device"),
            Self::Nvram => Some("nvram"),
        }
    }

    fn has(self, medium: Option<CacheMedium>) -> bool {
        match self {
            Self::Only => true,
            Self::Device => medium != Some(CacheMedium::Nvram),
            Self::Nvram => medium == Some(CacheMedium::Nvram),
        }
    }
}

/// Lists all policies of a place that hold something, each also in every layer, or those that the settings name.
pub(crate) fn named(
    settings: &ScenarioSettings,
    simulation: &DescribedSimulation,
    place: CachePlace,
) -> Result<AdviceCandidates, AdviseError> {
    let mut given = if POLICY.is_given(settings) { Some(POLICY.all(settings)?) } else { None };
    if let Some(given) = &mut given {
        given.retain(|policy| place.has(medium_of(policy)));
    }
    let all = match simulation {
        DescribedSimulation::Buffers(_) => policies().iter().map(|policy| (policy.name, policy.is_sized())).collect(),
        DescribedSimulation::Array(experiment) => of_array(experiment, place),
    };
    let bare = all.iter().find(|(_, sized)| !sized).map(|(name, _)| (*name).to_owned());
    let sized = all.into_iter().filter(|(_, sized)| *sized).map(|(name, _)| name.to_owned());
    // Every layer around every policy is a candidate from the first round: a layer can turn the worst into the
    // best.
    let every = || sized.flat_map(|policy| std::iter::once(policy.clone()).chain(layered(&policy))).collect();
    let mut policies: Vec<String> = given.unwrap_or_else(every);
    // It is a candidate in any case, and has no sizes.
    policies.retain(|policy| Some(policy) != bare.as_ref());
    Ok(AdviceCandidates { policies, bare, left_out: Vec::new() })
}

/// Lists the caches of a place, and the array without one.
fn of_array(experiment: &ArrayExperiment, place: CachePlace) -> Vec<(&'static str, bool)> {
    let is_in_nvram = place == CachePlace::Nvram;
    let caches = host_caches_of(experiment.array.level)
        .filter(|info| !info.is_sized() || (info.medium == CacheMedium::Nvram) == is_in_nvram);
    caches.map(|info| (info.name, info.is_sized())).collect()
}

/// Returns where a cache of an array keeps data.
fn medium_of(policy: &str) -> Option<CacheMedium> {
    let spec = policy.parse::<PolicySpec>().ok()?;
    let base = spec.name.rsplit('+').next()?;
    host_caches().find(|info| info.name == base).map(|info| info.medium)
}

/// A policy in each layer that can be around it.
fn layered(policy: &str) -> Vec<String> {
    let Ok(spec) = policy.parse::<PolicySpec>() else { return Vec::new() };
    let Ok(info) = buffer::info(&spec.name) else { return Vec::new() };
    layers().iter().filter(|layer| layer.goes_over(info)).map(|layer| format!("{}+{policy}", layer.name)).collect()
}

impl AdviceCandidates {
    /// Takes out what cannot be run at the sizes, and the sizes that are too small for some: at most half of them.
    ///
    /// # Errors
    /// Where nothing is left.
    pub(crate) fn settle(&mut self, bench: &mut SimulationBench<'_>, sizes: &mut Vec<u64>) -> Result<(), AdviseError> {
        let mut floor = 0;
        let last = sizes.len() - 1;
        let mut kept = Vec::new();
        for policy in std::mem::take(&mut self.policies) {
            let fits = (0..=last).find(|&size| bench.check(&policy, &sizes[size..]).is_ok());
            match fits {
                // A policy that needs more than the median size would cost half of the sizes for all others.
                Some(size) if 2 * size <= last => {
                    floor = floor.max(size);
                    kept.push(policy);
                }
                Some(_) | None => {
                    let why = match bench.check(&policy, &sizes[last / 2..]) {
                        Err(error) => error.to_string(),
                        Ok(()) => "it does not go with these sizes".to_owned(),
                    };
                    self.left_out.push(LeftOut { policy, why });
                }
            }
        }
        if kept.is_empty() {
            let why = self.left_out.first().map_or("there is no policy", |left| &left.why);
            return Err(AdviseError::Asked(format!("no policy can be advised: {why}")));
        }
        self.policies = kept;
        // All policies are compared at the same sizes.
        sizes.drain(..floor);
        Ok(())
    }

    /// Returns the space that the search goes through.
    pub(crate) fn space(&self, sizes: usize, requests: u64) -> SearchSpace {
        SearchSpace { policies: self.policies.clone(), bare: self.bare.clone(), sizes, requests }
    }
}
