//! Holds what became of a claim, and the results that it was compared with.

use std::collections::{BTreeMap, BTreeSet};

use destage_report::ReportRun;
use destage_sim::measure::MeanEstimate;

use crate::grade::{ClaimGrade, seeds_needed};
use crate::paper::{PaperClaim, WorkloadEntry};

/// Holds the outcome of a claim on a workload, or on several of a kind.
#[derive(Clone, Debug)]
pub struct ClaimFinding<'a> {
    /// Names the claim.
    pub claim: &'a PaperClaim,
    /// Names the variant under which it was tried: the claim's own, or one that it is tried under as
    /// well.
    pub at: &'a str,
    /// Lists the workloads it was tried on, one for each that the claim names.
    pub on: Vec<&'a WorkloadEntry>,
    /// Is true if all of these workloads are here.
    pub run: bool,
    /// Lists the improvement in percent (hit ratios: in points) for each buffer size in bytes, workload and pair of policies of which one evicts
    /// anything; or, where the claim is about their mean or the best, that alone.
    pub measured: Vec<(u64, MeanEstimate)>,
    /// Counts comparisons in which neither policy evicts: nothing to compare.
    pub without_evictions: usize,
    /// Counts comparisons in which a run is saturated, so that it has no response times.
    pub saturated: SaturatedCounts,
    /// Counts comparisons in which one of the policies does something (moves pages, say) that the other never does: no percentage.
    pub without_base: usize,
    /// Holds the grade of each that is measured, then of those in which one of both is saturated.
    pub grades: Vec<ClaimGrade>,
    /// Counts the requests of a run, of those that have the most.
    pub requests: u64,
}

/// Counts comparisons in which runs are saturated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaturatedCounts {
    /// Counts those in which `new` alone is saturated: it is worse than anything.
    pub new: usize,
    /// Counts those in which `than` alone is.
    pub than: usize,
    /// Counts those in which both are, or one of them where the claim is about counts: nothing to compare.
    pub both: usize,
}

impl SaturatedCounts {
    /// Counts all of them.
    pub const fn all(self) -> usize {
        self.new + self.than + self.both
    }
}

impl ClaimFinding<'_> {
    /// Returns how far the claim holds.
    pub fn grade(&self) -> ClaimGrade {
        let grade = ClaimGrade::of_all(&self.grades);
        if self.missing() > 0 { grade.with_missing() } else { grade }
    }

    /// Counts what the claim is about and could not be compared.
    pub const fn missing(&self) -> usize {
        self.without_evictions + self.without_base + self.saturated.both
    }

    /// Returns true if there was something to compare.
    pub fn is_tried(&self) -> bool {
        !self.grades.is_empty()
    }

    /// Returns about how many seeds would decide an undecided claim, if so many can be told.
    pub fn seeds_needed(&self) -> Option<u64> {
        let open = self.measured.iter().zip(&self.grades).filter(|(_, grade)| **grade == ClaimGrade::Undecided);
        open.filter_map(|((_, measured), _)| seeds_needed(self.claim, measured)).max()
    }
}

/// Holds the results of a workload: per seed, variant, policy and buffer size.
#[derive(Clone, Debug, Default)]
pub struct WorkloadResults {
    pub(crate) by_run: BTreeMap<(String, String, u64), Vec<ReportRun>>,
}

impl WorkloadResults {
    /// Returns a policy's results under a variant (or none, "") at a buffer size, one per seed.
    pub fn of(&self, variant: &str, policy: &str, cache: u64) -> &[ReportRun] {
        let run = (variant.to_owned(), policy.to_owned(), cache);
        self.by_run.get(&run).map_or(&[], Vec::as_slice)
    }

    /// Returns the policies and buffer sizes that were run under a variant.
    pub fn under(&self, variant: &str) -> (Vec<&str>, Vec<u64>) {
        let runs = self.by_run.keys().filter(|(of, _, _)| of == variant);
        let (policies, caches): (BTreeSet<_>, BTreeSet<_>) =
            runs.map(|(_, policy, cache)| (policy.as_str(), *cache)).unzip();
        (policies.into_iter().collect(), caches.into_iter().collect())
    }

    /// Is true if nothing was run.
    pub fn is_empty(&self) -> bool {
        self.by_run.is_empty()
    }
}
