//! What is advised, as `destage advise --json` prints it.

use std::borrow::Cow;

use destage_report::findings::{Gravity, found};
use destage_report::{Judge, ReportRun};
use destage_sim::measure::{ResultVersion, record};

use crate::candidates::LeftOut;
use crate::search::{Outcome, Tried};

/// Choosing by one half of the trace may cost this much over the other for confidence to be high, and to be fair.
const LOST: [f64; 2] = [0.01, 0.05];

record! {
    /// A policy at a size, and what it shows.
    pub struct Choice {
        policy: String ["-"] "the policy, with layers and the parameters that are not at their defaults",
        cache_bytes: Option<u64> ["B"] "its size in data held; null of what holds nothing",
        value: Option<f64> ["unit"] "what it shows of the objective; null where that is no result",
        ahead: Option<f64> ["1"] "how much more it costs than what is advised, as a share; null where that is not known",
    }
}

record! {
    /// What the two best show over half of the requests, each half begun by a warm-up.
    pub struct Half {
        best: Option<f64> ["unit"] "what is advised",
        runner_up: Option<f64> ["unit"] "the runner-up",
        lost: Option<f64> ["1"] "what the choice costs over this half beside the better of the two, as a share",
    }
}

record! {
    /// What makes the run of what is advised say less than it seems to.
    pub struct Doubt {
        severity: String ["-"] "void, weak or note",
        kind: String ["-"] "the kind; see docs/findings.md",
        message: String ["-"] "one sentence",
        mend: Option<String> ["-"] "settings that mend it",
    }
}

record! {
    /// What was not searched.
    pub struct Omitted {
        policy: String ["-"] "the policy",
        why: String ["-"] "why",
    }
}

record! {
    /// Holds the advice for a trace.
    pub struct Advice {
        trace: String ["-"] "the trace or workload, as the user gave it",
        requests: u64 ["1"] "requests of it",
        footprint_bytes: u64 ["B"] "all different pages that are read or written",
        budget_bytes: u64 ["B"] "the largest size that was considered",
        objective: Cow<'static, str> ["-"] "what decides, such as mean response time",
        unit: Cow<'static, str> ["-"] "the unit of its values",
        best: Choice ["-"] "what is advised: the best at the least size that is within 1 % of the best at any" = Choice,
        runner_up: Option<Choice> ["-"] "what comes next at that size; null where nothing else was compared" = Choice,
        ties: Vec<String> ["-"] "policies that differ from what is advised by no more than 1 %, or than may be chance",
        bare: Option<Choice> ["-"] "without any of the policies; null where that cannot be simulated" = Choice,
        sizes: Vec<Choice> ["-"] "the best at each size that was simulated over all requests, ascending" = Choice,
        halves: Vec<Half> ["-"] "the two best over each half of the requests; empty where nothing was compared" = Half,
        confidence: Cow<'static, str> ["-"] "high, fair or low: see docs/advise.md",
        findings: Vec<Doubt> ["-"] "what the run of what is advised lacks, the gravest first" = Doubt,
        changed: Option<String> ["-"] "what was changed in the settings for there to be a result; null: nothing",
        call: String ["-"] "the call that simulates what is advised again",
        policies: Vec<String> ["-"] "policies that were considered, in layers or not",
        left_out: Vec<Omitted> ["-"] "policies that were not, and why" = Omitted,
        considered_bytes: Vec<u64> ["B"] "sizes that were considered, ascending",
        runs: usize ["1"] "simulations",
        work: f64 ["1"] "simulations, each counted as the share of the requests that it is of",
        version: ResultVersion => "the versions",
    }
}

/// What was considered.
pub(crate) struct Considered<'a> {
    pub(crate) trace: String,
    pub(crate) requests: u64,
    pub(crate) footprint_bytes: u64,
    pub(crate) sizes: &'a [u64],
    pub(crate) policies: Vec<String>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) changed: Option<String>,
    pub(crate) bare: Option<(String, &'a ReportRun)>,
}

/// How much more this costs than that, as a share.
fn share(more: f64, than: f64) -> Option<f64> {
    (than != 0.0).then(|| (more - than) / than.abs())
}

impl Advice {
    pub(crate) fn new(judge: Judge, outcome: &Outcome<ReportRun>, considered: Considered<'_>) -> Self {
        let sizes = considered.sizes;
        let winner = &outcome.tried[outcome.best];
        let least = winner.cost.unwrap_or(f64::NAN);
        let choice = |policy: &str, cache_bytes, cost: Option<f64>| Choice {
            policy: policy.to_owned(),
            cache_bytes,
            value: cost.map(|cost| judge.value(cost)),
            ahead: cost.and_then(|cost| share(cost, least)),
        };
        let of = |tried: &Tried<ReportRun>| choice(&tried.policy, Some(sizes[tried.size]), tried.cost);
        let at = |size: usize| outcome.tried.iter().filter(move |tried| tried.size == size);
        let by_size = (0..sizes.len()).filter_map(|size| {
            let best = at(size).filter_map(|tried| Some((tried, tried.cost?)));
            best.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(tried, _)| of(tried))
        });
        let rivals = at(winner.size).filter(|tried| tried.policy != winner.policy);
        let mut ties: Vec<_> = rivals.filter_map(|tried| Some((tried, tried.cost?))).collect();
        ties.sort_by(|a, b| a.1.total_cmp(&b.1));
        let ranked = winner.cost.map(|cost| (winner, cost)).into_iter().chain(ties.iter().copied());
        ties.truncate(judge.tied(ranked.map(|(tried, cost)| (&tried.run, cost))).saturating_sub(1));
        let halves: Vec<Half> = outcome.halves.iter().map(|&[best, runner_up]| half(judge, best, runner_up)).collect();
        let found = found(std::slice::from_ref(&winner.run));
        let (ran, work) = outcome
            .effort
            .iter()
            .fold((0, 0.0), |(runs, work), &(more, share)| (runs + more, work + more as f64 * share));
        let bare_runs = usize::from(considered.bare.is_some());
        Self {
            trace: considered.trace,
            requests: considered.requests,
            footprint_bytes: considered.footprint_bytes,
            budget_bytes: sizes.last().copied().unwrap_or_default(),
            objective: judge.words().into(),
            unit: judge.unit().into(),
            best: of(winner),
            runner_up: outcome.runner_up.map(|index| of(&outcome.tried[index])),
            ties: ties.iter().map(|(tried, _)| tried.policy.clone()).collect(),
            bare: considered.bare.map(|(policy, run)| choice(&policy, None, judge.cost(run))),
            sizes: by_size.collect(),
            confidence: confidence(&halves, found.iter().map(|found| found.severity)).into(),
            halves,
            findings: found
                .into_iter()
                .map(|found| Doubt {
                    severity: found.severity.word().to_owned(),
                    kind: found.kind,
                    message: found.message,
                    mend: found.mend,
                })
                .collect(),
            changed: considered.changed,
            call: winner.run.call(),
            policies: considered.policies,
            left_out: considered.left_out.into_iter().map(|LeftOut { policy, why }| Omitted { policy, why }).collect(),
            considered_bytes: sizes.to_vec(),
            runs: ran + bare_runs,
            work: work + bare_runs as f64,
            version: ResultVersion::current(),
        }
    }
}

fn half(judge: Judge, best: Option<f64>, runner_up: Option<f64>) -> Half {
    let lost = best.and_then(|best| share(best, runner_up.map_or(best, |other| other.min(best))));
    Half { best: best.map(|cost| judge.value(cost)), runner_up: runner_up.map(|cost| judge.value(cost)), lost }
}

/// High if either half alone would have led to the same choice, or to one that is as good, and nothing was found; of what was compared
/// with nothing that is not known.
fn confidence(halves: &[Half], findings: impl Iterator<Item = Gravity>) -> &'static str {
    let lost = halves.iter().map(|half| half.lost.unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
    match findings.min() {
        Some(Gravity::Void) => "low",
        _ if lost > LOST[1] => "low",
        Some(Gravity::Weak) => "fair",
        _ if halves.is_empty() => "fair",
        _ if lost > LOST[0] => "fair",
        _ => "high",
    }
}
