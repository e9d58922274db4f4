//! Passes on progress and notes of the runs.

use std::path::Path;

/// One of a paper's runs, or several over one reading of a workload.
#[derive(Clone, Copy, Debug)]
pub struct RunInfo<'a> {
    /// The workload.
    pub workload: &'a str,
    /// The file that it is read from, unless it is made up.
    pub file: Option<&'a Path>,
    /// Counts the simulations of the run; estimates of the time left weigh runs by it.
    pub weight: u64,
}

/// Hears of a paper's runs, from several threads.
pub trait PaperWatch: Sync {
    /// So many runs will be made, of so many simulations altogether; these workloads are not here.
    fn planned(&self, _runs: usize, _weight: u64, _missing: &[&str]) {}

    /// A run begins.
    fn begins(&self, _run: &RunInfo<'_>) {}

    /// A run has ended, or was known from before.
    fn ends(&self, _run: &RunInfo<'_>, _known: bool) {}

    /// Reports an entry that cannot be used.
    fn note(&self, _text: &str) {}
}

/// Nobody.
impl PaperWatch for () {}
