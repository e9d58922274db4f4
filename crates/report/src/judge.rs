//! One objective applied to single runs of one kind: what they cost, and which differ by no more than chance.

use crate::ReportRun;
use crate::figures::BetterValue;
use crate::kind::GroupKind;
use crate::noise;
use crate::objective::RankingObjective;

/// Values this close to each other are a tie, as are those that chance may have put apart: nobody would notice.
pub(crate) const TIE: f64 = 0.01;

/// Requests beyond a percentile below which it is a matter of a few of them.
const TAIL: f64 = 10.0;

/// Judges runs of a kind by an objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunJudge {
    kind: GroupKind,
    objective: RankingObjective,
}

impl RunJudge {
    /// By an objective, or by that of the kind of `like`: mean response time, or, where results have no times, the hit
    /// ratio or the cost model's throughput.
    pub fn new(like: &ReportRun, objective: Option<RankingObjective>) -> Self {
        let kind = GroupKind::of(like);
        Self::of(kind, objective.unwrap_or(RankingObjective::of_kind(kind)))
    }

    pub(crate) const fn of(kind: GroupKind, objective: RankingObjective) -> Self {
        Self { kind, objective }
    }

    /// The objective.
    pub const fn objective(self) -> RankingObjective {
        self.objective
    }

    /// Is true if more of the objective is better.
    pub fn is_more_better(self) -> bool {
        self.objective.figure(self.kind).better == BetterValue::More
    }

    /// Returns the cost of a run, the less the better: the objective's value, or its negative if more is
    /// better. None for a run that did not keep up, or has no such figure.
    pub fn cost(self, run: &ReportRun) -> Option<f64> {
        // A saturated run has no value, however good its figures look.
        let value = self.objective.of(self.kind, run).filter(|_| !run.is_saturated());
        value.map(|value| self.value(value))
    }

    /// Returns true if so many requests of a run lie beyond the percentile that is judged by that it is no matter of a few; for
    /// what is no percentile always.
    pub fn has_tail(self, run: &ReportRun) -> bool {
        let beyond = match self.objective {
            RankingObjective::P99 => 0.01,
            RankingObjective::P999 => 0.001,
            _ => return true,
        };
        run.number("response.all.count").is_some_and(|requests| requests * beyond >= TAIL)
    }

    /// Returns the objective's value for a cost.
    pub fn value(self, cost: f64) -> f64 {
        if self.is_more_better() { -cost } else { cost }
    }

    /// Is true if a run may be as good as the first, each with its cost.
    fn is_tie(self, (first, best): (&ReportRun, f64), (run, own): (&ReportRun, f64)) -> bool {
        let apart = own - best;
        // A small difference decides nothing in practice, and a large one may still be chance.
        apart <= TIE * best.abs() || noise::margin(self.objective, first, run).is_some_and(|chance| apart <= chance)
    }

    /// Counts the runs that may be first over other requests of the same kind. Each comes with its cost, the
    /// best first. A run worse than a certain loser does not count, however uncertain its figure: else the
    /// page would name it beside the best, and not the better one.
    pub fn tied<'a>(self, ranked: impl IntoIterator<Item = (&'a ReportRun, f64)>) -> usize {
        let mut ranked = ranked.into_iter();
        let Some(first) = ranked.next() else { return 0 };
        // The ties end at the first certain loser, or a noisy run worse than it would stand among the best.
        1 + ranked.take_while(|&run| self.is_tie(first, run)).count()
    }

    /// The objective within a sentence, such as `mean response time`.
    pub const fn words(self) -> &'static str {
        self.objective.words()
    }

    /// The unit of its values, as in `destage schema`.
    pub const fn unit(self) -> &'static str {
        match self.objective {
            RankingObjective::Mean | RankingObjective::P99 | RankingObjective::P999 => "ns",
            RankingObjective::ModelThroughput => "B/s",
            RankingObjective::WriteAmplification | RankingObjective::Erases | RankingObjective::Hits => "1",
        }
    }

    /// A value, not a cost, in words with its unit.
    pub fn told(self, value: f64) -> String {
        self.objective.told(self.kind, value)
    }
}
