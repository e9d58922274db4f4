//! Defines the error of settings and scenario files.

use std::fmt;

/// A message that names the flag, or the file, line and key, and says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScenarioError(String);

impl ScenarioError {
    /// With this message.
    pub fn new(message: impl fmt::Display) -> Self {
        Self(message.to_string())
    }

    /// The same, found at a place.
    #[must_use]
    pub fn at(self, place: impl fmt::Display) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}
