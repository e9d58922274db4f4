//! The loop over the runs of an experiment: as many at a time as memory has room for, and the trace
//! is read once for these.

use destage_trace::TraceError;
use rayon::prelude::*;

use super::pass::{self, Consume, PassEnd};
use super::{ExperimentError, Input, Progress, Resources};
use crate::input::Feeder;

/// What an experiment has runs of.
pub(crate) trait Runs {
    /// What tells a run from the others.
    type Combination;
    /// A run that takes requests.
    type Run: Consume;
    /// What is written down of it.
    type Result;
    /// Why there is none.
    type Error: From<ExperimentError>;

    /// How the trace is read.
    fn reading(&self) -> Reading<'_>;

    /// Bytes that a run takes.
    fn memory_per_run(&self) -> u64;

    /// Whether there can be such a run: it is asked of those of later passes before the first
    /// begins.
    fn check(&self, combination: &Self::Combination) -> Result<(), Self::Error>;

    /// The run before its first request.
    fn plan(&self, combination: &Self::Combination) -> Result<Self::Run, Self::Error>;

    /// What places the requests of a pass with these runs.
    fn feeder(&self, runs: &[Self::Run]) -> Feeder;

    /// What is written down of a run that has ended.
    fn result(
        &self,
        run: &mut Self::Run,
        outcomes: <Self::Run as Consume>::Outcomes,
        end: &PassEnd,
    ) -> Result<Self::Result, Self::Error>;
}

/// How the trace of an experiment is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    /// Its name.
    pub(crate) trace: &'a str,
    /// At most so many requests.
    pub(crate) limit: Option<u64>,
}

/// What all runs brought.
pub(crate) struct Gathered<R> {
    /// In the order of the combinations.
    pub(crate) results: Vec<R>,
    /// Requests read in all passes.
    pub(crate) requests: u64,
}

/// Carries the runs out. `open` opens the trace anew for each pass; `progress` is called now and
/// then.
pub(crate) fn carry_out<R: Runs>(
    runs: &R,
    combinations: &[R::Combination],
    resources: Resources,
    open: &mut dyn FnMut() -> Result<Input, TraceError>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Gathered<R::Result>, R::Error> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(resources.threads)
        .build()
        .map_err(|error| ExperimentError::Threads(error.to_string()))?;
    let reading = runs.reading();
    let room = resources.memory_bytes / runs.memory_per_run().max(1);
    let per_pass = room.clamp(1, combinations.len().max(1) as u64) as usize;
    let passes = combinations.len().div_ceil(per_pass) as u32;
    let mut simulated = 0;
    let mut gathered = Gathered { results: Vec::new(), requests: 0 };
    for (pass, group) in combinations.chunks(per_pass).enumerate() {
        if pass == 0 {
            for later in &combinations[group.len()..] {
                runs.check(later)?;
            }
        }
        let mut planned = group.iter().map(|combination| runs.plan(combination)).collect::<Result<Vec<_>, _>>()?;
        let feeder = runs.feeder(&planned);
        let input = open().map_err(ExperimentError::Trace)?;
        let count = planned.len() as u32;
        let before = simulated;
        let mut report = |share, requests: u64| {
            simulated = before + requests * u64::from(count);
            progress(Progress { pass: (pass as u32, passes), share, requests, runs: count, simulated });
        };
        let end = pass::run(&pool, &mut planned, input, feeder, &reading, &mut report)?;
        gathered.requests += end.counts.read;
        // There may be much left to do after the trace, such as rebuilds.
        let outcomes: Vec<_> = pool.install(|| planned.par_iter_mut().with_max_len(1).map(Consume::finish).collect());
        for (run, outcomes) in planned.iter_mut().zip(outcomes) {
            gathered.results.push(runs.result(run, outcomes, &end)?);
        }
    }
    Ok(gathered)
}
