//! Ranks runs. No other place decides which is best: cards, picture, sentences and marks follow it.

use crate::ReportRun;
use crate::group::{GroupPoint, RunGroup};
use crate::judge::{RunJudge, TIE};
use crate::kind::GroupKind;
use crate::objective::RankingObjective;

/// Values this close to the best, as a share of it, are as good for most purposes.
pub(crate) const CLOSE: f64 = 0.1;

/// Returns the objective of the picture: the group's, or the hit ratio where no run has the former. Runs that
/// did not keep up still have a hit ratio.
pub(crate) fn pictured(group: &RunGroup, runs: &[ReportRun]) -> RankingObjective {
    let has = |point: &GroupPoint| group.objective.of(group.kind, &runs[point.run]).is_some();
    if group.points.iter().any(has) { group.objective } else { RankingObjective::Hits }
}

/// A group's runs by an objective.
#[derive(Clone, Debug)]
pub(crate) struct RunRanking {
    pub(crate) kind: GroupKind,
    pub(crate) objective: RankingObjective,
    /// The best, of one size: several if they are a tie. Empty if no run has the figure.
    pub(crate) winners: Vec<(GroupPoint, f64)>,
    /// The best of another label at the winners' size; of any size if there is none.
    pub(crate) runner_up: Option<(GroupPoint, f64)>,
    /// The best of the smallest size that comes close to the winners, if that is smaller than theirs.
    pub(crate) knee: Option<(GroupPoint, f64)>,
    /// The best of the next smaller size than the winners'.
    pub(crate) smaller: Option<(GroupPoint, f64)>,
    /// Is true if the winners' size is the largest of several.
    pub(crate) is_largest: bool,
}

/// The point with the least value; of several the smallest cache, and then the first.
pub(crate) fn least(
    points: impl Iterator<Item = GroupPoint>,
    value: impl Fn(GroupPoint) -> Option<f64>,
) -> Option<(GroupPoint, f64)> {
    let valued = points.filter_map(|point| Some((point, value(point)?)));
    // Of equal values the smaller size wins, since it costs less.
    valued.min_by(|(p, a), (q, b)| a.total_cmp(b).then(p.size.cmp(&q.size)))
}

/// The best of several runs over one trace, for each size of the cache.
#[derive(Clone, Debug)]
pub struct BestRuns {
    /// Describes the winners, such as "lowest mean response time".
    pub what: String,
    /// In the order in which the sizes appear.
    pub by_size: Vec<BestOfSize>,
}

/// The best of a size.
#[derive(Clone, Debug)]
pub struct BestOfSize {
    /// The size of the cache in bytes; none if no run has one.
    pub size: Option<u64>,
    /// Lists the winners' indices, the best first; several for a tie, none if no run has the figure.
    pub runs: Vec<usize>,
    /// Counts the runs of that size, and of none.
    pub rivals: usize,
}

/// The best runs of each cache size. What has no size competes at each; what is saturated at none.
pub fn bests(runs: &[ReportRun], objective: Option<RankingObjective>) -> BestRuns {
    let kind = runs.first().map_or(GroupKind::Hits, GroupKind::of);
    let judge = RunJudge::of(kind, objective.unwrap_or(RankingObjective::of_kind(kind)));
    let mut sizes: Vec<Option<u64>> = Vec::new();
    for size in runs.iter().map(ReportRun::cache) {
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    // A policy without a size competes at every size instead of having one of its own.
    if sizes.iter().any(Option::is_some) {
        sizes.retain(Option::is_some);
    }
    let of_size = |size: Option<u64>| {
        let rivals: Vec<_> =
            runs.iter().enumerate().filter(|(_, run)| run.cache().is_none() || run.cache() == size).collect();
        let mut costs: Vec<_> = rivals.iter().filter_map(|&(index, run)| Some((index, judge.cost(run)?))).collect();
        costs.sort_by(|a, b| a.1.total_cmp(&b.1));
        costs.truncate(judge.tied(costs.iter().map(|&(index, cost)| (&runs[index], cost))));
        BestOfSize { size, runs: costs.into_iter().map(|(index, _)| index).collect(), rivals: rivals.len() }
    };
    BestRuns {
        what: format!("{} {}", if judge.is_more_better() { "highest" } else { "lowest" }, judge.words()),
        by_size: sizes.into_iter().map(of_size).collect(),
    }
}

impl RunRanking {
    /// Ranks a group. Saturated runs take no part: what they answer late is no result.
    pub(crate) fn of(group: &RunGroup, runs: &[ReportRun]) -> Self {
        let (kind, objective) = (group.kind, group.objective);
        let judge = RunJudge::of(kind, objective);
        let cost = |point: GroupPoint| judge.cost(&runs[point.run]);
        let within = |cost: f64, best: f64, share: f64| cost <= best + share * best.abs();
        let all = || group.points.iter().copied();
        let at = |size: usize| all().filter(move |point| point.size == size);
        let value = |(point, cost): (GroupPoint, f64)| (point, judge.value(cost));
        let mut ranking = Self {
            kind,
            objective,
            winners: Vec::new(),
            runner_up: None,
            knee: None,
            smaller: None,
            is_largest: false,
        };
        let Some((_, best)) = least(all(), cost) else { return ranking };
        let is_within = |share: f64| move |point: &GroupPoint| cost(*point).is_some_and(|own| within(own, best, share));
        let sizes = |share: f64| all().filter(is_within(share)).map(|point| point.size).min();
        // The smallest size within the tie wins, since differences below it are no reason for a larger one.
        let size = sizes(TIE).unwrap_or_default();
        let mut winners: Vec<_> = at(size).filter_map(|point| Some((point, cost(point)?))).collect();
        winners.sort_by(|a, b| a.1.total_cmp(&b.1));
        winners.truncate(judge.tied(winners.iter().map(|&(point, cost)| (&runs[point.run], cost))));
        let is_other = |point: &GroupPoint| winners.iter().all(|(winner, _)| winner.label != point.label);
        // The runner-up is sought at the winners' size first: another size would compare sizes, not
        // policies.
        let next = least(at(size).filter(is_other), cost).or_else(|| least(all().filter(is_other), cost));
        ranking.runner_up = next.map(value);
        ranking.knee = sizes(CLOSE).filter(|close| *close < size).and_then(|close| least(at(close), cost)).map(value);
        ranking.smaller = (0..size).rev().find_map(|smaller| least(at(smaller), cost)).map(value);
        ranking.is_largest = size > 0 && size + 1 == group.sizes.len();
        ranking.winners = winners.into_iter().map(value).collect();
        ranking
    }

    /// The first of the winners.
    pub(crate) fn best(&self) -> Option<GroupPoint> {
        self.winners.first().map(|(best, _)| *best)
    }

    /// A value in words.
    pub(crate) fn told(&self, value: f64) -> String {
        self.objective.told(self.kind, value)
    }
}

/// Compares a value with another in words: `21 % less`, `12 times less`, `3.1 times as much`.
pub fn ahead(value: f64, other: f64) -> String {
    let round = |x: f64| if x >= 9.95 { format!("{x:.0}") } else { format!("{x:.1}") };
    if other == 0.0 || value == 0.0 {
        return if value < other { "less" } else { "more" }.to_owned();
    }
    match value / other {
        ratio if ratio <= 0.5 => format!("{} times less", round(1.0 / ratio)),
        ratio if ratio < 1.0 => format!("{} % less", round(100.0 * (1.0 - ratio))),
        ratio if ratio < 2.0 => format!("{} % more", round(100.0 * (ratio - 1.0))),
        ratio => format!("{} times as much", round(ratio)),
    }
}

/// The same before what it is compared with: `21 % less than`.
pub(crate) fn ahead_of(value: f64, other: f64) -> String {
    let ahead = ahead(value, other);
    let joint = if ahead.ends_with("as much") { "as" } else { "than" };
    format!("{ahead} {joint}")
}
