//! A sweep of which results are kept, run by run, and of which those that are known are not simulated again.

use std::time::{Duration, Instant};

use anyhow::Result;
use destage_report::kept::{self, KeptError, ResultCache, ResultKey};
use destage_report::results::RunKind;
use destage_scenario::sim::SimulatedRequests;
use destage_sim::experiment::{CharacteristicsCounter, RunSelection};
use destage_sim::measure::TraceCharacteristics;

/// Runs of a first pass over the trace for each thread.
const RUNS_PER_THREAD: usize = 2;
/// After a pass that took less than this the next one is for twice as many runs.
const SHORT: Duration = Duration::from_mins(1);

/// Holds the results of all runs.
pub struct RunsDone<R> {
    /// In order.
    pub results: Vec<R>,
    /// Counts the runs that were known.
    pub known: usize,
    /// Counts the work of the others, in the unit of their kind.
    pub work: u64,
}

impl<R: RunKind> RunsDone<R> {
    /// Results of runs of which none was known.
    pub fn simulated(results: Vec<R>) -> Self {
        let work = results.iter().map(R::work).sum();
        Self { results, known: 0, work }
    }
}

/// Runs with their keys, and the results that there are.
pub struct ResumedRuns<'a, R> {
    kept: &'a ResultCache,
    keys: Vec<ResultKey>,
    results: Vec<Option<R>>,
    known: usize,
    work: u64,
    /// Has counted the trace when the first pass has ended.
    counter: CharacteristicsCounter,
    characteristics: Option<TraceCharacteristics>,
    passes: PassPlan,
    error: Option<KeptError>,
}

impl<'a, R: RunKind> ResumedRuns<'a, R> {
    /// The runs of these identities over the requests, with what is known of them. `note` hears of entries that cannot be
    /// used.
    ///
    /// # Errors
    /// If what the requests are read from cannot be looked at.
    pub fn new(
        kept: &'a ResultCache,
        requests: &SimulatedRequests,
        identities: &[String],
        (counter, threads): (CharacteristicsCounter, usize),
        note: &dyn Fn(&str),
    ) -> Result<Self> {
        let mut of_all = kept.key();
        of_all.part("sim");
        of_all.part(requests.identity());
        for file in requests.files() {
            // The name may tell the format, so it decides about the result.
            of_all.part(file.file_name().unwrap_or_default().as_encoded_bytes());
            of_all.part(kept::content(&[file])?);
        }
        let key = |identity: &String| {
            let mut key = of_all.clone();
            key.part(identity);
            key
        };
        let keys: Vec<_> = identities.iter().map(key).collect();
        let results = keys.iter().map(|key| {
            // A damaged entry is as good as none: the run is simulated again and the entry replaced.
            kept.get_one(key).unwrap_or_else(|error| {
                note(&format!("{error}; it is run again, and the entry replaced"));
                None
            })
        });
        let results: Vec<Option<R>> = results.collect();
        let known = results.iter().flatten().count();
        let passes = PassPlan::new(RUNS_PER_THREAD * threads);
        Ok(Self { kept, keys, results, known, work: 0, counter, characteristics: None, passes, error: None })
    }

    /// Returns how many runs are known from before.
    pub fn known(&self) -> usize {
        self.known
    }

    /// Returns the results of all runs, once the sweep is over.
    ///
    /// # Errors
    /// If results could not be kept.
    pub fn finish(self) -> Result<RunsDone<R>, KeptError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(RunsDone {
                results: self.results.into_iter().flatten().collect(),
                known: self.known,
                work: self.work,
            }),
        }
    }
}

impl<R: RunKind> RunSelection<R> for ResumedRuns<'_, R> {
    fn wants(&self, run: usize) -> bool {
        self.results[run].is_none()
    }

    fn per_pass(&mut self) -> usize {
        self.passes.next(Instant::now())
    }

    fn take(&mut self, run: usize, mut result: R) -> bool {
        self.work += result.work();
        // Kept even where nobody asks for them this time, since a later call may.
        let characteristics = self.characteristics.get_or_insert_with(|| self.counter.finish());
        result.input().characteristics = Some(characteristics.clone());
        // The first error ends the sweep: going on would lose what it is for.
        self.error = self.kept.put_one(&self.keys[run], &result).err();
        self.results[run] = Some(result);
        self.error.is_none()
    }
}

/// Plans how many runs a pass over the trace is for.
///
/// All runs of a pass end together, so an early end costs a pass; each pass reads the trace again. So passes are small
/// where they take long.
struct PassPlan {
    first: usize,
    /// Holds the time at which the last pass began, and its number of runs.
    last: Option<(Instant, usize)>,
}

impl PassPlan {
    fn new(first: usize) -> Self {
        Self { first, last: None }
    }

    /// Returns the number of runs of the pass that begins now.
    fn next(&mut self, now: Instant) -> usize {
        let runs = match self.last {
            Some((began, runs)) if now.duration_since(began) < SHORT => runs.saturating_mul(2),
            _ => self.first,
        };
        self.last = Some((now, runs));
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_grow_while_they_are_short() {
        let (mut passes, start) = (PassPlan::new(4), Instant::now());
        let mut now = start;
        let mut after = |seconds| {
            now += Duration::from_secs(seconds);
            passes.next(now)
        };
        assert_eq!([0, 1, 10, 59, 61, 5, 60].map(&mut after), [4, 8, 16, 32, 4, 8, 4]);
    }
}
