//! Why there is no report.

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// No JSON.
    #[error("{file}: {why}: not complete JSON; give a file that `destage sim --json=FILE` wrote to its end")]
    Syntax {
        /// The file.
        file: String,
        /// Names the fault and its place.
        why: String,
    },
    /// JSON, but no list of runs.
    #[error("{file}: {what}; give a file that `destage sim --json=FILE` wrote")]
    Document {
        /// The file.
        file: String,
        /// Describes the content found instead.
        what: &'static str,
    },
    /// A run that is not as this destage writes it.
    #[error("{file}, run {run}, key '{key}': {what}")]
    Run {
        /// The file.
        file: String,
        /// The run, from 1.
        run: usize,
        /// The key, with those around it.
        key: String,
        /// Names the fault, and what would be right.
        what: String,
    },
    /// A table that cannot be written.
    #[error("the report's data cannot be written: {0}")]
    Write(String),
}
