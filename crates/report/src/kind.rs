//! Distinguishes the kinds of runs by their figures.

use crate::ReportRun;

/// Names a kind of run: runs of one kind have the same figures and can be compared.
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
    /// Returns the kind of a run.
    pub(crate) fn of(run: &ReportRun) -> Self {
        match run.text("device") {
            _ if run.is_array => Self::Array,
            "ssd" => Self::Ssd,
            "analytic" => Self::Analytic,
            _ => Self::Hits,
        }
    }
}
