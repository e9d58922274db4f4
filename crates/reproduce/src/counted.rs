//! What others were counted to do under a workload, to stand beside what is measured.

use std::collections::BTreeMap;

use destage_scenario::{ScenarioError, quantity};
use serde::Deserialize;

use crate::metric::ClaimMetric;

/// What one of them was counted to do, at one buffer size.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CountedPeer {
    /// What it is, as it is shown.
    pub name: String,
    /// The paper's workload.
    pub workload: String,
    /// The variant beside which it stands; without one the paper's own settings.
    #[serde(default)]
    pub at: String,
    /// The buffer size.
    pub cache: String,
    /// By metric, each in the unit of its column: as it was noted, with as many decimals.
    pub figures: BTreeMap<String, String>,
}

impl CountedPeer {
    /// As it stands in a metric's column; none if it was not counted.
    pub fn cell(&self, metric: &ClaimMetric) -> Option<&str> {
        self.figures.get(&metric.to_string()).map(String::as_str)
    }

    /// Its buffer size in bytes.
    pub(crate) fn cache_bytes(&self) -> Option<u64> {
        quantity::bytes(&self.cache).ok()
    }

    /// Whether everything that it says is shown: in these metrics' columns.
    pub(crate) fn check(&self, metrics: &[&'static ClaimMetric]) -> Result<(), ScenarioError> {
        let wrong = |message: String| Err(ScenarioError::new(message));
        if let Err(right) = quantity::bytes(&self.cache) {
            return wrong(format!("cache '{}': {right}", self.cache));
        }
        for (name, value) in &self.figures {
            if !metrics.iter().any(|metric| metric.to_string() == *name) {
                return wrong(format!("\"{name}\" is not among the figures"));
            }
            if !value.parse::<f64>().is_ok_and(f64::is_finite) {
                return wrong(format!("{name} = \"{value}\" is not a number"));
            }
        }
        Ok(())
    }
}
