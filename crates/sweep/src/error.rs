//! Why a sweep cannot be planned, run or written.

use std::fmt::Display;
use std::path::Path;

/// A message that names file, line, key or run, and says what would be right.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct SweepError {
    pub(crate) text: String,
    /// Is true if the trace causes the error, so that all runs over it share the error.
    pub(crate) of_trace: bool,
}

impl SweepError {
    /// With this message.
    pub fn new(text: impl Display) -> Self {
        Self { text: text.to_string(), of_trace: false }
    }

    /// The same, found at a place.
    #[must_use]
    pub fn at(self, place: impl Display) -> Self {
        Self { text: format!("{place}: {}", self.text), ..self }
    }

    pub(crate) fn file(file: &Path, text: impl Display) -> Self {
        Self::new(text).at(file.display())
    }
}

impl From<destage_scenario::ScenarioError> for SweepError {
    fn from(error: destage_scenario::ScenarioError) -> Self {
        Self::new(error)
    }
}

impl From<destage_report::kept::KeptError> for SweepError {
    fn from(error: destage_report::kept::KeptError) -> Self {
        Self::new(error)
    }
}

impl From<destage_scenario::ResolveError> for SweepError {
    fn from(error: destage_scenario::ResolveError) -> Self {
        Self::new(error)
    }
}
