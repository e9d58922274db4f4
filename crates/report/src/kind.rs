//! What the figures of a run tell.

use crate::ReportRun;

/// What the figures of a run, and of those it can be compared with, tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupKind {
    /// Hits and evictions only.
    Hits,
    /// LB-CLOCK's cost model.
    Analytic,
    /// Times, collection and wear.
    Ssd,
    /// Caches over an array.
    Array,
}

impl GroupKind {
    /// What a run's figures tell.
    pub(crate) fn of(run: &ReportRun) -> Self {
        match run.text("device") {
            _ if run.is_array => Self::Array,
            "ssd" => Self::Ssd,
            "analytic" => Self::Analytic,
            _ => Self::Hits,
        }
    }
}
