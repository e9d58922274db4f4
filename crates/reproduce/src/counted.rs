//! Holds the published counts of other implementations, shown beside the measured figures.

use std::collections::BTreeMap;

use destage_scenario::{ScenarioError, quantity};
use serde::Deserialize;

use crate::metric::ClaimMetric;

/// Gives the figures counted for one other implementation at one buffer size.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CountedPeer {
    /// Names the other implementation, as reports show it.
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

    /// Returns the buffer size in bytes, or none if the text is no size.
    pub(crate) fn cache_bytes(&self) -> Option<u64> {
        quantity::bytes(&self.cache).ok()
    }

    /// Checks that each figure is a finite number and belongs to one of these metrics' columns.
    ///
    /// # Errors
    /// Names the buffer size, metric or value that is wrong.
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
