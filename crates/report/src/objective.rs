//! What is best: the one place that decides it, for cards, picture, sentences and marks alike.

use crate::ReportRun;
use crate::figures::{
    Better, CACHE_HIT_RATIO, DEVICES_ERASES, ERASES, Figure, HIT_RATIO, MEAN, MODEL_THROUGHPUT, P99, P99_9,
    PROGRAMS_PER_WRITE, WRITE_AMPLIFICATION,
};
use crate::group::{Group, GroupKind, Point};

/// Values this close to the best, as a share of it, are as good for most purposes.
pub(crate) const CLOSE: f64 = 0.1;
/// Values this close to each other are a tie: a trace is one sample of a workload, of which another
/// would move them by more.
pub(crate) const TIE: f64 = 0.01;

/// What runs are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Mean response time of reads and writes.
    Mean,
    /// Its 99th percentile.
    P99,
    /// Its 99.9th percentile.
    P999,
    /// Pages programmed per page of the host.
    WriteAmplification,
    /// Blocks erased.
    Erases,
    /// Hit ratio.
    Hits,
    /// Throughput in the cost model, which knows no times.
    ModelThroughput,
}

impl Objective {
    /// The objective of a name of the command line.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "mean" => Self::Mean,
            "p99" => Self::P99,
            "p99.9" => Self::P999,
            "write-amplification" => Self::WriteAmplification,
            "erases" => Self::Erases,
            "hits" => Self::Hits,
            _ => return None,
        })
    }

    /// What runs of a kind are ranked by unless something else is asked for.
    pub(crate) const fn of_kind(kind: GroupKind) -> Self {
        match kind {
            GroupKind::Hits => Self::Hits,
            GroupKind::Analytic => Self::ModelThroughput,
            GroupKind::Ssd | GroupKind::Array => Self::Mean,
        }
    }

    /// Its figure in the results of a kind.
    pub(crate) const fn figure(self, kind: GroupKind) -> &'static Figure {
        let is_array = matches!(kind, GroupKind::Array);
        match self {
            Self::Mean => &MEAN,
            Self::P99 => &P99,
            Self::P999 => &P99_9,
            Self::WriteAmplification if is_array => &PROGRAMS_PER_WRITE,
            Self::WriteAmplification => &WRITE_AMPLIFICATION,
            Self::Erases if is_array => &DEVICES_ERASES,
            Self::Erases => &ERASES,
            Self::Hits if is_array => &CACHE_HIT_RATIO,
            Self::Hits => &HIT_RATIO,
            Self::ModelThroughput => &MODEL_THROUGHPUT,
        }
    }

    /// What it is called within a sentence.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Mean => "mean response time",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::WriteAmplification => "write amplification",
            Self::Erases => "number of erases",
            Self::Hits => "hit ratio",
            Self::ModelThroughput => "throughput",
        }
    }

    /// What a run shows of it.
    pub(crate) fn of(self, kind: GroupKind, run: &ReportRun) -> Option<f64> {
        // Page policies are not charged for erases, so that theirs is another scale.
        let is_of_scale = self != Self::ModelThroughput || run.text("analytic.model") == "analytic";
        self.figure(kind).of(run).filter(|_| is_of_scale)
    }

    /// A value in words, with its unit.
    pub(crate) fn told(self, kind: GroupKind, value: f64) -> String {
        let figure = self.figure(kind);
        let text = crate::summary::shown(value, figure.show);
        match figure.show {
            crate::figures::Show::Percent => format!("{text} %"),
            crate::figures::Show::Rate => format!("{text} MB/s"),
            _ => text,
        }
    }
}

/// What the picture shows: what a group is ranked by, or, where no run has that, how many pages were found
/// in the buffer, which stays true of runs that did not keep up.
pub(crate) fn pictured(group: &Group, runs: &[ReportRun]) -> Objective {
    let has = |point: &Point| group.objective.of(group.kind, &runs[point.run]).is_some();
    if group.points.iter().any(has) { group.objective } else { Objective::Hits }
}

/// A group's runs by an objective.
#[derive(Clone, Debug)]
pub(crate) struct Ranking {
    pub(crate) kind: GroupKind,
    pub(crate) objective: Objective,
    /// The best, of one size: several if they are a tie. Empty if no run has the figure.
    pub(crate) winners: Vec<(Point, f64)>,
    /// The best of another label at the winners' size.
    pub(crate) runner_up: Option<(Point, f64)>,
    /// The best of the smallest size that comes close to the winners, if that is smaller than theirs.
    pub(crate) knee: Option<(Point, f64)>,
    /// The best of the next smaller size than the winners'.
    pub(crate) smaller: Option<(Point, f64)>,
    /// Whether the winners' size is the largest of several.
    pub(crate) is_largest: bool,
}

/// The point with the least value; of several the smallest cache, and then the first.
pub(crate) fn least(points: impl Iterator<Item = Point>, value: impl Fn(Point) -> Option<f64>) -> Option<(Point, f64)> {
    let valued = points.filter_map(|point| Some((point, value(point)?)));
    valued.min_by(|(p, a), (q, b)| a.total_cmp(b).then(p.size.cmp(&q.size)))
}

impl Ranking {
    /// Ranks a group. Saturated runs take no part: what they answer late is no result.
    pub(crate) fn of(group: &Group, runs: &[ReportRun]) -> Self {
        let (kind, objective) = (group.kind, group.objective);
        let sign = if objective.figure(kind).better == Better::More { -1.0 } else { 1.0 };
        let cost = |point: Point| {
            let run = &runs[point.run];
            objective.of(kind, run).filter(|_| !run.is_saturated()).map(|value| sign * value)
        };
        let within = |cost: f64, best: f64, share: f64| cost <= best + share * best.abs();
        let all = || group.points.iter().copied();
        let at = |size: usize| all().filter(move |point| point.size == size);
        let value = |(point, cost): (Point, f64)| (point, sign * cost);
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
        let is_within = |share: f64| move |point: &Point| cost(*point).is_some_and(|own| within(own, best, share));
        let sizes = |share: f64| all().filter(is_within(share)).map(|point| point.size).min();
        let size = sizes(TIE).unwrap_or_default();
        let mut winners: Vec<_> =
            at(size).filter(is_within(TIE)).filter_map(|point| Some((point, cost(point)?))).collect();
        winners.sort_by(|a, b| a.1.total_cmp(&b.1));
        let others = at(size).filter(|point| winners.iter().all(|(winner, _)| winner.label != point.label));
        ranking.runner_up = least(others, cost).map(value);
        ranking.knee = sizes(CLOSE).filter(|close| *close < size).and_then(|close| least(at(close), cost)).map(value);
        ranking.smaller = (0..size).rev().find_map(|smaller| least(at(smaller), cost)).map(value);
        ranking.is_largest = size > 0 && size + 1 == group.sizes.len();
        ranking.winners = winners.into_iter().map(value).collect();
        ranking
    }

    /// The first of the winners.
    pub(crate) fn best(&self) -> Option<Point> {
        self.winners.first().map(|(best, _)| *best)
    }

    /// A value in words.
    pub(crate) fn told(&self, value: f64) -> String {
        self.objective.told(self.kind, value)
    }
}

/// How a value compares with another, in words: `21 % less`, `12 times less`, `3.1 times as much`.
pub(crate) fn ahead(value: f64, other: f64) -> String {
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
