//! The search over costs that are known at once, beside all of them.

use destage_advise::search::{
    AS_GOOD, PolicyComplexity, RunSupplier, SearchError, SearchOutcome, SearchSpace, SearchedRequests, search,
};
use proptest::prelude::*;

/// Costs of each policy, with and without a layer, at each size.
struct Known {
    costs: Vec<Vec<Option<f64>>>,
    layered: Vec<Vec<Option<f64>>>,
    /// Gives what holding nothing costs.
    bare: Option<f64>,
    /// The same for each part, but for what is added over stretches.
    strange: f64,
    /// Runs, each counted as the share of the requests that it is of.
    work: f64,
    requests: u64,
}

fn number(policy: &str) -> (bool, usize) {
    if policy == "none" {
        return (false, 0);
    }
    let name = policy.rsplit('+').next().unwrap();
    (policy.contains('+'), name[1..].parse().unwrap())
}

impl Known {
    fn cost_of(&self, policy: &str, size: usize) -> Option<f64> {
        let (layered, policy) = number(policy);
        if layered { self.layered[policy][size] } else { self.costs[policy][size] }
    }

    fn space(&self) -> SearchSpace {
        let layered = (0..self.layered.len()).map(|policy| format!("around+p{policy}"));
        let policies = (0..self.costs.len()).map(|policy| format!("p{policy}")).chain(layered).collect();
        SearchSpace { policies, bare: Some("none".to_owned()), sizes: self.costs[0].len(), requests: self.requests }
    }

    /// Every pair that there is, with its cost.
    fn all(&self) -> Vec<(f64, usize)> {
        let both = self.costs.iter().chain(&self.layered);
        both.flat_map(|costs| costs.iter().enumerate().filter_map(|(size, cost)| Some(((*cost)?, size)))).collect()
    }
}

impl RunSupplier for Known {
    type Run = Option<f64>;
    type Error = String;

    fn run(
        &mut self,
        part: SearchedRequests,
        policies: &[String],
        sizes: &[usize],
        bare: Option<&str>,
    ) -> Result<Vec<Option<f64>>, String> {
        let share = match part {
            SearchedRequests::Whole => 1.0,
            SearchedRequests::Stretch { requests, .. } => requests as f64 / self.requests as f64,
        };
        self.work += share * (policies.len() * sizes.len() + usize::from(bare.is_some())) as f64;
        let mut runs = Vec::new();
        for policy in policies {
            for &size in sizes {
                let strange =
                    if part == SearchedRequests::Whole { 0.0 } else { self.strange * number(policy).1 as f64 };
                runs.push(self.cost_of(policy, size).map(|cost| cost + strange));
            }
        }
        runs.extend(bare.map(|_| self.bare));
        Ok(runs)
    }

    fn cost(&self, run: &Option<f64>) -> Option<f64> {
        *run
    }

    fn kind(&self, policy: &str) -> usize {
        number(policy).1 % 2
    }

    fn complexity(&self, policy: &str) -> PolicyComplexity {
        let (layered, place) = number(policy);
        PolicyComplexity { layers: usize::from(layered), place, ..PolicyComplexity::default() }
    }

    fn tells(&self, _: &Option<f64>) -> bool {
        true
    }
}

fn found(known: &mut Known) -> Result<SearchOutcome<Option<f64>>, SearchError<String>> {
    let space = known.space();
    search(known, &space)
}

/// Ten policies at fifteen sizes: each costs `scale[policy] / (1 + size)^slope[policy]` and a floor.
fn known(shapes: &[(f64, f64, f64)], layer: f64) -> Known {
    let costs = |factor: f64| {
        let of = |&(scale, slope, floor): &(f64, f64, f64)| {
            (0..15).map(|size| Some(factor * (floor + scale / f64::from(1 + size).powf(slope)))).collect::<Vec<_>>()
        };
        shapes.iter().map(of).collect::<Vec<_>>()
    };
    Known { costs: costs(1.0), layered: costs(layer), bare: None, strange: 0.0, work: 0.0, requests: 10_000_000 }
}

/// p3 is the best at each size; around it a layer costs a tenth less. From size 7 on it costs its floor and a little.
#[test]
fn the_least_size_that_is_as_good_as_the_largest() {
    let shapes: Vec<_> = (0..10).map(|policy| (100.0, 4.0, if policy == 3 { 50.0 } else { 60.0 })).collect();
    let mut known = known(&shapes, 0.9);
    let outcome = found(&mut known).unwrap();
    let best = &outcome.tried[outcome.best];
    // 0.9 (50 + 100/1000) against 0.9 (50 + 100/50625) at the largest: 0.196 % more; 0.9 (50 + 100/625): 0.3 %; 0.9 (50 + 100/256): 0.78 %;
    // 0.9 (50 + 100/81): 2.5 %.
    assert_eq!((best.policy.as_str(), best.size), ("around+p3", Some(3)));
    let runner_up = &outcome.tried[outcome.runner_up.unwrap()];
    assert_ne!(runner_up.policy, best.policy);
    assert_eq!(runner_up.size, Some(3));
    assert_eq!(outcome.halves.len(), 2);
}

#[test]
fn what_is_no_result_is_not_advised() {
    let shapes: Vec<_> = (0..10).map(|policy| (100.0, 1.0, f64::from(policy))).collect();
    let mut known = known(&shapes, 1.5);
    known.costs[0].fill(None);
    known.layered[0].fill(None);
    let outcome = found(&mut known).unwrap();
    assert_eq!(outcome.tried[outcome.best].policy, "p1");
    known.costs.iter_mut().chain(&mut known.layered).for_each(|costs| costs.fill(None));
    assert!(matches!(found(&mut known), Err(SearchError::NoResult)));
}

/// One policy, one size: nothing to choose, and still an answer.
#[test]
fn a_space_of_one() {
    let mut known =
        Known { costs: vec![vec![Some(1.0)]], layered: vec![], bare: None, strange: 0.0, work: 0.0, requests: 1 };
    let outcome = found(&mut known).unwrap();
    // What holds nothing was tried, too, and has no result.
    assert_eq!((outcome.tried.len(), outcome.best, outcome.runner_up), (2, 0, None));
}

/// Shows that holding nothing is advised where nothing costs over 1 % less, and only there.
#[test]
fn nothing_is_held_where_nothing_is_better() {
    let shapes: Vec<_> = (0..10).map(|policy| (0.0, 1.0, 100.0 + f64::from(policy))).collect();
    let mut known = known(&shapes, 1.5);
    for (bare, advised, runner_up) in
        [(100.9, "none", "p0"), (101.0, "none", "p0"), (100.0, "none", "p0"), (28.0, "none", "p0"), (101.5, "p0", "p1")]
    {
        known.bare = Some(bare);
        let outcome = found(&mut known).unwrap();
        let best = &outcome.tried[outcome.best];
        let other = &outcome.tried[outcome.runner_up.unwrap()];
        assert_eq!((best.policy.as_str(), best.size.is_none()), (advised, advised == "none"), "{bare}");
        assert_eq!(other.policy, runner_up, "{bare}");
        assert_eq!(outcome.halves, [[best.cost, other.cost]; 2], "{bare}");
    }
    // p1 costs 1.5 % more than p0, and what holds nothing 1.2 %.
    known.bare = Some(101.2);
    known.costs[1].fill(Some(101.5));
    let outcome = found(&mut known).unwrap();
    assert_eq!(outcome.tried[outcome.best].policy, "p0");
    assert_eq!(outcome.tried[outcome.runner_up.unwrap()].policy, "none");
    // Where nothing else has a result it is what remains.
    known.costs.iter_mut().chain(&mut known.layered).for_each(|costs| costs.fill(None));
    let outcome = found(&mut known).unwrap();
    assert_eq!((outcome.tried[outcome.best].policy.as_str(), outcome.runner_up), ("none", None));
}

/// Shows that of policies that cost as little as the best the plain one is advised before the layered, and the older before the newer.
#[test]
fn ties_go_to_the_simpler_policy() {
    let shapes: Vec<_> = (0..10).map(|policy| (0.0, 4.0, 60.0 - f64::from(policy) * 0.02)).collect();
    // The best is around+p9: 59.82 * 0.999. p0 costs 0.4 % more, at any size.
    let mut known = known(&shapes, 0.999);
    let outcome = found(&mut known).unwrap();
    assert_eq!((outcome.tried[outcome.best].policy.as_str(), outcome.tried[outcome.best].size), ("p0", Some(0)));
    assert!(outcome.tried[outcome.best].cost > outcome.tried[outcome.runner_up.unwrap()].cost);
}

/// A few requests are simulated as a whole: there is no stretch of them that would tell.
#[test]
fn short_traces_are_taken_as_a_whole() {
    let mut known = known(&[(1.0, 1.0, 1.0), (2.0, 1.0, 1.0)], 1.5);
    known.requests = 1_000;
    let outcome = found(&mut known).unwrap();
    assert_eq!(outcome.tried[outcome.best].policy, "p0");
    assert!(outcome.effort[0].1 >= 1.0);
}

/// The error of a stretch that puts later policies back is mended by the longer rounds as long as the best is among the
/// first eighteen.
#[test]
fn stretches_decide_only_who_goes_on() {
    let shapes: Vec<_> = (0..10).map(|policy| (100.0, 1.0, if policy == 5 { 1.0 } else { 2.0 })).collect();
    let mut known = known(&shapes, 1.5);
    known.strange = 0.2;
    let outcome = found(&mut known).unwrap();
    assert_eq!(outcome.tried[outcome.best].policy, "p5");
}

proptest! {
    /// Checks the advice against all pairs, where larger is no worse and every stretch is like the whole: it costs at
    /// most 1 % more than the best, with a tenth of the work.
    #[test]
    fn advice_is_as_good_as_all_pairs(
        shapes in prop::collection::vec((1.0..1000.0, 0.0..2.0, 0.0..50.0), 12..30),
        layer in 0.8..1.2,
    ) {
        let mut known = known(&shapes, layer);
        let outcome = found(&mut known).unwrap();
        let best = outcome.tried[outcome.best].cost.unwrap();
        let all = known.all();
        let least = all.iter().map(|(cost, _)| *cost).fold(f64::INFINITY, f64::min);
        prop_assert!(best <= least * (1.0 + AS_GOOD), "{best} {least}");
        prop_assert!(known.work <= 0.12 * all.len() as f64, "{} of {}", known.work, all.len());
        // The same every time.
        known.work = 0.0;
        let again = found(&mut known).unwrap();
        prop_assert_eq!(again.best, outcome.best);
        prop_assert_eq!(&again.tried[again.best].policy, &outcome.tried[outcome.best].policy);
    }

    /// Of a single shape in many scales the answer is the pair that all pairs give, the size too.
    #[test]
    fn of_one_shape_the_answer_is_exact(
        scales in prop::collection::vec(1.0..1000.0, 2..20),
        slope in 0.1..6.0,
    ) {
        let shapes: Vec<_> = scales.iter().map(|scale| (*scale, slope, *scale)).collect();
        let mut known = known(&shapes, 2.0);
        let outcome = found(&mut known).unwrap();
        let best = &outcome.tried[outcome.best];
        let all = known.all();
        let least = all.iter().map(|(cost, _)| *cost).fold(f64::INFINITY, f64::min);
        let size = all.iter().filter(|(cost, _)| *cost <= least * (1.0 + AS_GOOD)).map(|(_, size)| *size).min().unwrap();
        prop_assert_eq!(best.size, Some(size));
    }
}
