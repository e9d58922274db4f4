//! Estimates by how much two runs over the same requests may differ by chance.
//!
//! A trace is one sample of a workload. The variation of the difference along this trace shows how much
//! another trace would move it. The method is batch means: each batch of one run stands beside the same
//! requests of the other, so that requests which are slow for both do not count.

use serde_json::Value;

use crate::ReportRun;
use crate::objective::RankingObjective;

/// Batches of equal numbers of requests.
const BATCHES: usize = 20;
/// The 97.5th percentile of Student's t with one degree of freedom less than batches.
const STUDENT: f64 = 2.093;
/// So many batches on one side are no chance, whatever the mean: with 20 that happens once in 80 times. A mean of which one
/// burst makes up most says nothing of the others.
const ONE_SIDED: usize = 16;
/// The same of the normal distribution.
const NORMAL: f64 = 1.96;

/// Half the width of the 95 % interval of the difference between what two runs show of an objective, in its unit;
/// none where the results do not hold what it takes to tell.
pub(crate) fn margin(objective: RankingObjective, a: &ReportRun, b: &ReportRun) -> Option<f64> {
    match objective {
        RankingObjective::Mean => paired(a, b, |bin| {
            Some((field(bin, "read_response_sum")? + field(bin, "write_response_sum")?, field(bin, "responses")?))
        }),
        RankingObjective::Hits => paired(a, b, |bin| (field(bin, "hits")?, field(bin, "accesses")?).into()),
        RankingObjective::WriteAmplification => {
            paired(a, b, |bin| Some((field(bin, "flash_writes")?, field(bin, "write_pages")?)))
        }
        RankingObjective::Erases => {
            let requests: f64 = a.list("series.bins").iter().map(|bin| of(bin, "requests")).sum();
            let each = paired(a, b, |bin| Some((field(bin, "erases")?, of(bin, "requests"))));
            each.map(|margin| margin * requests)
        }
        RankingObjective::P99 => Some(quantile(a, 0.99)?.hypot(quantile(b, 0.99)?)),
        RankingObjective::P999 => Some(quantile(a, 0.999)?.hypot(quantile(b, 0.999)?)),
        RankingObjective::ModelThroughput => None,
    }
}

fn field(bin: &Value, key: &str) -> Option<f64> {
    bin.get(key)?.as_f64()
}

fn of(bin: &Value, key: &str) -> f64 {
    field(bin, key).unwrap_or(0.0)
}

/// A ratio's numerator and denominator, summed up over batches of equal numbers of requests.
fn batches(run: &ReportRun, terms: impl Fn(&Value) -> Option<(f64, f64)>) -> Option<Vec<[f64; 2]>> {
    let bins = run.list("series.bins");
    let requests: f64 = bins.iter().map(|bin| of(bin, "requests")).sum();
    let filled = bins.iter().filter(|bin| of(bin, "requests") > 0.0).count();
    // Bins that are too coarse would blur the batches into one another.
    if filled < 2 * BATCHES {
        return None;
    }
    // Batches have equal requests, not equal time, so that bursts weigh as much as they have requests.
    let size = requests / BATCHES as f64;
    let mut sums = vec![[0.0; 2]; BATCHES];
    let mut before = 0.0;
    for bin in bins {
        let own = of(bin, "requests");
        let (numerator, denominator) = terms(bin)?;
        // What a bin without requests has belongs to those before it.
        let first = (before / size) as usize;
        let last = ((before + own) / size) as usize;
        for (batch, sum) in sums.iter_mut().enumerate().take(last + 1).skip(first.min(BATCHES - 1)) {
            let (from, to) = (batch as f64 * size, (batch + 1) as f64 * size);
            let share = if own > 0.0 { ((before + own).min(to) - before.max(from)).max(0.0) / own } else { 1.0 };
            sum[0] += share * numerator;
            sum[1] += share * denominator;
        }
        before += own;
    }
    Some(sums)
}

/// Half the width of the interval of the difference of two ratios of sums; 0 if nearly all batches are on one side.
fn paired(a: &ReportRun, b: &ReportRun, terms: impl Fn(&Value) -> Option<(f64, f64)>) -> Option<f64> {
    let sides = [batches(a, &terms)?, batches(b, &terms)?];
    // The sign test: if one run is better in nearly all batches, the difference is certain, however small.
    let above = |[x, y]: [&Vec<[f64; 2]>; 2]| x.iter().zip(y).filter(|(x, y)| x[0] * y[1] > y[0] * x[1]).count();
    if above([&sides[0], &sides[1]]).max(above([&sides[1], &sides[0]])) >= ONE_SIDED {
        return Some(0.0);
    }
    // How far each batch is from the ratio of all, per mean denominator (the usual estimator of a ratio's variance).
    let mut apart = [0.0; BATCHES];
    for (side, sign) in sides.iter().zip([1.0, -1.0]) {
        let [numerator, denominator] = side.iter().fold([0.0; 2], |all, own| [all[0] + own[0], all[1] + own[1]]);
        if denominator <= 0.0 {
            return None;
        }
        let (ratio, mean) = (numerator / denominator, denominator / BATCHES as f64);
        for (apart, own) in apart.iter_mut().zip(side) {
            *apart += sign * (own[0] - ratio * own[1]) / mean;
        }
    }
    let variance = apart.iter().map(|x| x * x).sum::<f64>() / (BATCHES - 1) as f64;
    Some(STUDENT * (variance / BATCHES as f64).sqrt())
}

/// Half the width of the interval of a quantile of the response times: between the ranks that the binomial
/// distribution allows.
fn quantile(run: &ReportRun, q: f64) -> Option<f64> {
    let classes = run.list("response.distribution");
    let count = |class: &Value| of(class, "reads") + of(class, "writes");
    let all: f64 = classes.iter().map(count).sum();
    let (rank, spread) = (q * all, NORMAL * (all * q * (1.0 - q)).sqrt());
    let at = |rank: f64| {
        let mut below = 0.0;
        let found = classes.iter().find(|class| {
            below += count(class);
            below >= rank
        });
        found.or(classes.last()).map(|class| of(class, "up_to"))
    };
    Some((at(rank + spread)? - at(rank - spread)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A run of these mean response times, a span each of 100 requests.
    fn run(times: impl Iterator<Item = f64>) -> ReportRun {
        let bins: Vec<_> = times
            .map(|time| {
                json!({"requests": 100, "responses": 100, "read_response_sum": 0, "write_response_sum": (100.0 * time) as u64})
            })
            .collect();
        ReportRun { result: json!({"series": {"bins": bins}}), is_array: false }
    }

    /// Numbers from 0 to 1 that look like chance.
    fn chance(seed: u64) -> impl Iterator<Item = f64> {
        let mut x = seed;
        std::iter::repeat_with(move || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) as f64 / (1_u64 << 31) as f64
        })
    }

    #[test]
    fn what_moves_both_runs_does_not_count() {
        let slow = |factor: f64| run((0..200).map(move |i| factor * if i % 50 < 10 { 90_000.0 } else { 1_000.0 }));
        assert_eq!(margin(RankingObjective::Mean, &slow(1.0), &slow(1.0)), Some(0.0));
        let shifted = run((0..200).map(|i| 40.0 + if i % 50 < 10 { 90_000.0 } else { 1_000.0 }));
        let shift = margin(RankingObjective::Mean, &slow(1.0), &shifted).unwrap();
        assert!(shift < 1.0, "a shift of 40 ns is told from none: {shift}");
    }

    /// A burst at the end makes up most of the mean, and is one of twenty batches; the others say the same.
    #[test]
    fn one_burst_does_not_hide_what_all_batches_say() {
        let bursty = |factor: f64| run((0..200).map(move |i| factor * if i >= 195 { 5_000_000.0 } else { 1_000.0 }));
        assert_eq!(margin(RankingObjective::Mean, &bursty(1.0), &bursty(3.0)), Some(0.0));
    }

    /// Of many pairs of runs that differ by chance alone some 95 % differ by less than the margin.
    #[test]
    fn chance_stays_within_the_margin() {
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        let mut within = 0;
        for seed in 0..400 {
            let [a, b] = [2 * seed + 1, 2 * seed + 2].map(|seed| chance(seed * 7919).take(200).collect::<Vec<_>>());
            let [a, b] = [a, b].map(|times| times.iter().map(|time| 10_000.0 * time).collect::<Vec<_>>());
            let margin = margin(RankingObjective::Mean, &run(a.iter().copied()), &run(b.iter().copied())).unwrap();
            within += i32::from((mean(&a) - mean(&b)).abs() <= margin);
        }
        assert!((368..=392).contains(&within), "{within} of 400");
    }

    #[test]
    fn too_few_spans_tell_nothing() {
        assert_eq!(margin(RankingObjective::Mean, &run([1.0; 39].into_iter()), &run([2.0; 39].into_iter())), None);
    }

    /// Of 1,000 requests one lies beyond p99.9, and it may be any of the slowest few.
    #[test]
    fn the_margin_of_a_quantile_is_that_of_its_ranks() {
        let classes: Vec<_> = (1..=1000).map(|i| json!({"up_to": i * 10, "reads": 1, "writes": 0})).collect();
        let run = ReportRun { result: json!({"response": {"distribution": classes}}), is_array: false };
        let half = quantile(&run, 0.99).unwrap();
        // Ranks 990 +- 6.2.
        assert!((half - 60.0).abs() <= 10.0, "{half}");
    }
}
