//! Collects the best runs of a sweep over each trace.

use destage_report::{RankingObjective, ReportRun, RunJudge, TableCell};
use serde::{Deserialize, Serialize};

/// Limits the number of runs named for each trace.
const NAMED: usize = 3;

/// A run that does well.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BestRun {
    /// The trace.
    pub trace: String,
    /// The policy, with its layers.
    pub policy: String,
    /// Size of the cache in bytes, if it has one.
    pub cache_bytes: Option<u64>,
    /// Keys that vary, and what they are here.
    pub grid: Vec<(String, String)>,
    /// Names the objective that the run is best at, such as `mean response time`.
    pub objective: String,
    /// Gives the run's value of the objective, in words with the unit.
    pub value: String,
}

/// Collects them.
pub(crate) struct BestCollector {
    objective: Option<RankingObjective>,
    of_traces: Vec<OfTrace>,
}

/// The best over one trace, each with its cost.
struct OfTrace {
    trace: String,
    judge: RunJudge,
    best: Vec<(f64, BestRun)>,
}

impl BestCollector {
    pub(crate) fn new(objective: Option<RankingObjective>) -> Self {
        Self { objective, of_traces: Vec::new() }
    }

    /// Takes in a row. Runs over one trace that have no times beside such that have are not compared with them.
    pub(crate) fn add<'a>(
        &mut self,
        trace: &str,
        point: &[(String, Option<String>)],
        is_array: bool,
        cells: impl Iterator<Item = (&'a str, &'a TableCell)>,
    ) {
        let run = ReportRun::of_cells(cells, is_array);
        let judge = RunJudge::new(&run, self.objective);
        // Runs with different objectives have no common order.
        let at = self.of_traces.iter().position(|of| of.trace == trace && of.judge == judge);
        let at = at.unwrap_or_else(|| {
            self.of_traces.push(OfTrace { trace: trace.to_owned(), judge, best: Vec::new() });
            self.of_traces.len() - 1
        });
        let Some(cost) = judge.cost(&run) else { return };
        let best = &mut self.of_traces[at].best;
        // The one that comes first in the plan stays before its equals.
        let place = best.partition_point(|(other, _)| *other <= cost);
        if place == NAMED {
            return;
        }
        let grid = point.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
        let row = BestRun {
            trace: trace.to_owned(),
            policy: run.text("policy").to_owned(),
            cache_bytes: run.number("cache_bytes").map(|bytes| bytes as u64),
            grid: grid.collect(),
            objective: judge.words().to_owned(),
            value: judge.told(judge.value(cost)),
        };
        best.insert(place, (cost, row));
        best.truncate(NAMED);
    }

    /// Those of all traces, the best of each first.
    pub(crate) fn finish(self) -> Vec<BestRun> {
        self.of_traces.into_iter().flat_map(|of| of.best.into_iter().map(|(_, run)| run)).collect()
    }
}
