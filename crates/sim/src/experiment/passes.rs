//! The loop over the runs of an experiment: as many at a time as are wanted and memory has room for, and the trace is read
//! once for these.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use super::pass::{self, ConsumeFeeds, PassEnd};
use super::{
    ExperimentError, OpenTrace, RunProgress, RunResources, RunSelection, ShowProgress, StopSignal, TraceReplay, is_told,
};
use crate::input::FeedBuilder;

/// Counts the share of a rebuild in so many parts.
const WHOLE: u32 = 1_000_000;

/// Abstracts the two kinds of experiments, and their runs.
pub(crate) trait ExperimentRuns {
    /// Tells a run from the others.
    type Combination;
    /// A run that takes requests.
    type Run: ConsumeFeeds;
    /// Holds the result of a run.
    type Result;
    /// Why there is none.
    type Error: From<ExperimentError>;

    /// Says how the trace is replayed.
    fn replay(&self) -> &TraceReplay;

    /// Bytes that a run takes.
    fn memory_per_run(&self) -> u64;

    /// Checks that a run can begin. Runs of later passes are checked before the first pass begins.
    fn check(&self, combination: &Self::Combination) -> Result<(), Self::Error>;

    /// The run before its first request; of no use once it is told to end.
    fn plan(&self, combination: &Self::Combination, stop: Option<&StopSignal>) -> Result<Self::Run, Self::Error>;

    /// Returns the feeder that places the requests of a pass with these runs.
    fn feeder(&self, runs: &[Self::Run]) -> FeedBuilder;

    /// Returns the result of a run that has ended.
    fn result(
        &self,
        run: &mut Self::Run,
        outcomes: <Self::Run as ConsumeFeeds>::Outcomes,
        end: &PassEnd,
    ) -> Result<Self::Result, Self::Error>;
}

/// Says how the trace of an experiment is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceReading<'a> {
    /// Names the trace.
    pub(crate) trace: &'a str,
    /// At most so many requests.
    pub(crate) limit: Option<u64>,
}

/// Carries out those of the runs that the sweep wants, and returns how many requests were read in all passes. `open`
/// opens the trace anew for each pass; `progress` is called now and then.
pub(crate) fn carry_out<R: ExperimentRuns>(
    runs: &R,
    combinations: &[R::Combination],
    resources: RunResources<'_>,
    open: &mut OpenTrace<'_>,
    progress: &ShowProgress<'_>,
    sweep: &mut dyn RunSelection<R::Result>,
) -> Result<u64, R::Error> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(resources.threads)
        .build()
        .map_err(|error| ExperimentError::Threads(error.to_string()))?;
    let (reading, stop) = (runs.replay().reading(), resources.stop);
    // One run at least must go, or the loop would not end.
    let room = resources.memory_bytes / runs.memory_per_run().max(1);
    let wanted: Vec<usize> = (0..combinations.len()).filter(|&run| sweep.wants(run)).collect();
    let (mut left, mut simulated, mut read) = (&wanted[..], 0, 0);
    while !left.is_empty() {
        let per_pass = room.min(sweep.per_pass() as u64).clamp(1, left.len() as u64) as usize;
        let (group, later) = left.split_at(per_pass);
        let ended = wanted.len() - left.len();
        if ended == 0 {
            // A run that cannot begin must be refused now, not hours later after other passes.
            for &run in later {
                runs.check(&combinations[run])?;
            }
        }
        if is_told(stop) {
            return Err(ExperimentError::Stopped.into());
        }
        let planned = group.iter().map(|&run| runs.plan(&combinations[run], stop));
        let mut planned = planned.collect::<Result<Vec<_>, _>>()?;
        if is_told(stop) {
            return Err(ExperimentError::Stopped.into());
        }
        let feeder = runs.feeder(&planned);
        let input = open().map_err(ExperimentError::Trace)?;
        let count = planned.len() as u32;
        let before = simulated;
        let ended = (ended as u32, wanted.len() as u32);
        let mut report = |share, requests: u64| {
            simulated = before + requests * u64::from(count);
            progress(RunProgress { ended, share, requests, runs: count, simulated, rebuilt: None });
        };
        // What was told before was of looking at the trace, or of the pass before.
        report(input.source.progress(), 0);
        let end = pass::run(&pool, &mut planned, input, feeder, (&reading, stop), &mut report)?;
        read += end.counts.read;
        // There may be much left to do after the trace, such as rebuilds.
        let rebuilt: Vec<_> = planned.iter().map(|_| AtomicU32::new(0)).collect();
        let requests = end.counts.read;
        let finish = |(run, done): (&mut R::Run, &AtomicU32)| {
            let outcomes = run.finish(stop, &|share| {
                done.store((share * f64::from(WHOLE)) as u32, Ordering::Relaxed);
                let sum: u64 = rebuilt.iter().map(|done| u64::from(done.load(Ordering::Relaxed))).sum();
                let rebuilt = Some(sum as f64 / (f64::from(WHOLE) * f64::from(count)));
                progress(RunProgress { ended, share: Some(1.0), requests, runs: count, simulated, rebuilt });
            });
            done.store(WHOLE, Ordering::Relaxed);
            outcomes
        };
        // The results keep the order of the runs, whatever the threads do.
        let outcomes: Vec<_> =
            pool.install(|| planned.par_iter_mut().zip(&rebuilt).with_max_len(1).map(finish).collect());
        if is_told(stop) {
            return Err(ExperimentError::Stopped.into());
        }
        for ((&number, run), outcomes) in group.iter().zip(&mut planned).zip(outcomes) {
            if !sweep.take(number, runs.result(run, outcomes, &end)?) {
                return Ok(read);
            }
        }
        left = later;
    }
    Ok(read)
}
