//! Advice as `destage advise --json` prints it.

use std::borrow::Cow;

use destage_report::findings::{FoundWarnings, WarningGravity, found};
use destage_report::{ReportRun, RunJudge, device_words};
use destage_sim::measure::{ResultVersion, record};

use crate::PlaceSearch;
use crate::candidates::{CachePlace, LeftOut};
use crate::search::{SearchOutcome, TriedRun};

/// Choosing by one half of the trace may cost this much over the other for confidence to be high, and to be fair.
const LOST: [f64; 2] = [0.01, 0.05];
/// Counts the weak warnings that together leave little to rely on.
const MANY_WEAK: usize = 3;

record! {
    /// A policy at a size, and what it shows.
    pub struct AdvisedChoice {
        policy: String ["-"] "the policy, with layers and the parameters that are not at their defaults",
        cache_bytes: Option<u64> ["B"] "its size in data held; null of what holds nothing",
        value: Option<f64> ["unit"] "what it shows of the objective; null where that is no result",
        ahead: Option<f64> ["1"] "how much more it costs than what is advised, as a share, less where that is negative; null where that is not known",
    }
}

record! {
    /// Compares the two best over half of the requests. Each half begins with a warm-up.
    pub struct HalfTrace {
        best: Option<f64> ["unit"] "what is advised",
        runner_up: Option<f64> ["unit"] "the runner-up",
        lost: Option<f64> ["1"] "what the choice costs over this half beside the better of the two, as a share",
    }
}

record! {
    /// Describes a reason to trust the advice less.
    pub struct AdviceDoubt {
        severity: String ["-"] "void, weak or note",
        kind: String ["-"] "the kind; see docs/findings.md",
        message: String ["-"] "one sentence",
        mend: Option<String> ["-"] "settings that mend it",
    }
}

record! {
    /// Names a policy that was not searched, and why.
    pub struct OmittedSearch {
        policy: String ["-"] "the policy",
        why: String ["-"] "why",
    }
}

record! {
    /// Holds what the search in the other place found, where caches could be on a device and in the NVRAM.
    pub struct OtherPlace {
        place: String ["-"] "device or nvram",
        best: AdvisedChoice ["-"] "the best of the caches there, by the same rules" = AdvisedChoice,
        policies: Vec<String> ["-"] "policies that were considered there",
        considered_bytes: Vec<u64> ["B"] "sizes that were considered there, ascending",
    }
}

record! {
    /// Holds the advice for a trace.
    pub struct TraceAdvice {
        device: String ["-"] "what was simulated: the SSD or the array that the advice is for",
        trace: String ["-"] "the trace or workload, as the user gave it",
        requests: u64 ["1"] "requests of it",
        footprint_bytes: u64 ["B"] "all different pages that are read or written",
        budget_bytes: u64 ["B"] "the largest size that was considered: no more than is touched",
        objective: Cow<'static, str> ["-"] "what decides, such as mean response time",
        unit: Cow<'static, str> ["-"] "the unit of its values",
        best: AdvisedChoice ["-"] "what is advised: of all that is within 1 % of the best, what holds nothing, or else the smallest size and there the simplest policy" = AdvisedChoice,
        runner_up: Option<AdvisedChoice> ["-"] "the best other policy at that size, or what holds nothing if that is better; if that is advised, the best that holds something; null where nothing else was compared" = AdvisedChoice,
        simplest: Option<AdvisedChoice> ["-"] "the simplest policy that was simulated at that size; null where none was" = AdvisedChoice,
        ties: Vec<AdvisedChoice> ["-"] "policies that differ from the best at that size by no more than 1 %, or than may be chance, but for the one that is advised; what costs least comes first" = AdvisedChoice,
        place: Option<String> ["-"] "where the data of what is advised lies if it could be in both places: device or nvram; else null",
        elsewhere: Option<OtherPlace> ["-"] "what was found in the other place; null where only one was searched, or nothing there kept up" = OtherPlace,
        bare: Option<AdvisedChoice> ["-"] "what holds nothing, which is advised where nothing is better; null where that cannot be simulated" = AdvisedChoice,
        sizes: Vec<AdvisedChoice> ["-"] "the best at each size that was simulated over all requests, ascending; at the size that is advised what is advised" = AdvisedChoice,
        halves: Vec<HalfTrace> ["-"] "the two best over each half of the requests; empty where nothing was compared" = HalfTrace,
        confidence: Cow<'static, str> ["-"] "high, fair or low: see docs/advise.md",
        findings: Vec<AdviceDoubt> ["-"] "what the run of what is advised lacks, the gravest first" = AdviceDoubt,
        changed: Option<String> ["-"] "what was changed in the settings for there to be a result; null: nothing",
        call: String ["-"] "the call that simulates what is advised again",
        policies: Vec<String> ["-"] "policies that were considered, in layers or not",
        left_out: Vec<OmittedSearch> ["-"] "policies that were not, and why" = OmittedSearch,
        considered_bytes: Vec<u64> ["B"] "sizes that were considered, ascending",
        runs: usize ["1"] "simulations",
        work: f64 ["1"] "simulations, each counted as the share of the requests that it is of",
        version: ResultVersion => "the versions",
    }
}

/// Describes the searched policies and sizes, for the advice.
pub(crate) struct ConsideredRuns<'a> {
    pub(crate) trace: String,
    pub(crate) requests: u64,
    pub(crate) footprint_bytes: u64,
    pub(crate) place: CachePlace,
    pub(crate) sizes: &'a [u64],
    pub(crate) policies: Vec<String>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) changed: Option<String>,
}

/// Returns how much more one costs than the other, as a share; none if the other costs nothing.
fn share(more: f64, than: f64) -> Option<f64> {
    // A share of nothing is no number.
    (than != 0.0).then(|| (more - than) / than.abs())
}

impl TraceAdvice {
    pub(crate) fn new(
        judge: RunJudge,
        outcome: &SearchOutcome<ReportRun>,
        considered: ConsideredRuns<'_>,
        other: Option<&(PlaceSearch, SearchOutcome<ReportRun>)>,
    ) -> Self {
        let sizes = considered.sizes;
        let winner = &outcome.tried[outcome.best];
        let own = winner.cost.unwrap_or(f64::NAN);
        let of_size = |tried: &TriedRun<ReportRun>, sizes: &[u64]| AdvisedChoice {
            policy: tried.policy.clone(),
            cache_bytes: tried.size.map(|size| sizes[size]),
            value: tried.cost.map(|cost| judge.value(cost)),
            ahead: tried.cost.and_then(|cost| share(cost, own)),
        };
        let of = |tried: &TriedRun<ReportRun>| of_size(tried, sizes);
        let elsewhere = other.and_then(|(search, found)| {
            Some(OtherPlace {
                place: search.place.word()?.to_owned(),
                best: of_size(&found.tried[found.best], &search.sizes),
                policies: search.space.policies.clone(),
                considered_bytes: search.sizes.clone(),
            })
        });
        let at = |size: Option<usize>| outcome.tried.iter().filter(move |tried| tried.size == size);
        let by_size = (0..sizes.len()).filter_map(|size| {
            // At the chosen size the choice is listed, which may cost up to 1 % more than the best there.
            if winner.size == Some(size) {
                return Some(of(winner));
            }
            let best = at(Some(size)).filter_map(|tried| Some((tried, tried.cost?)));
            best.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(tried, _)| of(tried))
        });
        let mut rivals: Vec<_> = at(winner.size).filter_map(|tried| Some((tried, tried.cost?))).collect();
        rivals.sort_by(|a, b| a.1.total_cmp(&b.1));
        // Ties are those that chance cannot tell apart, by the rule that the ranking of reports uses as well.
        rivals.truncate(judge.tied(rivals.iter().map(|(tried, cost)| (&tried.run, *cost))));
        let ties = rivals.iter().map(|(tried, _)| *tried).filter(|tried| tried.policy != winner.policy).map(of);
        // The halves show whether the choice depends on one part of the trace.
        let halves: Vec<HalfTrace> =
            outcome.halves.iter().map(|&[best, runner_up]| half(judge, best, runner_up)).collect();
        let found = found(std::slice::from_ref(&winner.run), Some(judge.objective()));
        let trust = AdviceTrust { halves: &halves, findings: &found, has_tail: judge.has_tail(&winner.run) };
        let (ran, work) = outcome
            .effort
            .iter()
            .chain(other.iter().flat_map(|(_, found)| &found.effort))
            .fold((0, 0.0), |(runs, work), &(more, share)| (runs + more, work + more as f64 * share));
        Self {
            device: device_words(&winner.run),
            trace: considered.trace,
            requests: considered.requests,
            footprint_bytes: considered.footprint_bytes,
            budget_bytes: sizes.last().copied().unwrap_or_default(),
            objective: judge.words().into(),
            unit: judge.unit().into(),
            best: of(winner),
            runner_up: outcome.runner_up.map(|index| of(&outcome.tried[index])),
            simplest: outcome.simplest.map(|index| of(&outcome.tried[index])),
            ties: ties.collect(),
            // A choice that holds nothing lies in neither place.
            place: considered.place.word().filter(|_| winner.size.is_some()).map(str::to_owned),
            elsewhere,
            bare: at(None).next().map(of),
            sizes: by_size.collect(),
            confidence: trust.confidence().into(),
            halves,
            findings: found
                .into_iter()
                .map(|found| AdviceDoubt {
                    severity: found.severity.word().to_owned(),
                    kind: found.kind,
                    message: found.message,
                    mend: found.mend,
                })
                .collect(),
            changed: considered.changed,
            call: winner.run.call(),
            policies: considered.policies,
            left_out: considered
                .left_out
                .into_iter()
                .map(|LeftOut { policy, why }| OmittedSearch { policy, why })
                .collect(),
            considered_bytes: sizes.to_vec(),
            runs: ran,
            work,
            version: ResultVersion::current(),
        }
    }
}

fn half(judge: RunJudge, best: Option<f64>, runner_up: Option<f64>) -> HalfTrace {
    // The loss is against the better of the two over this half.
    let lost = best.and_then(|best| share(best, runner_up.map_or(best, |other| other.min(best))));
    HalfTrace { best: best.map(|cost| judge.value(cost)), runner_up: runner_up.map(|cost| judge.value(cost)), lost }
}

/// Tells what confidence rests on.
struct AdviceTrust<'a> {
    halves: &'a [HalfTrace],
    findings: &'a [FoundWarnings],
    /// Tells whether enough requests lie beyond the percentile that decides, if one does.
    has_tail: bool,
}

impl AdviceTrust<'_> {
    /// Returns high if either half alone would have led to the same choice, or to one that is as good, and nothing was found; of
    /// what was compared with nothing that is not known. Warnings are counted: each is a way in which figures may be wrong.
    // An unknown loss counts as an infinite one: nothing speaks for such a choice.
    fn confidence(&self) -> &'static str {
        let lost = self.halves.iter().map(|half| half.lost.unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
        let of = |gravity| self.findings.iter().filter(|found| found.severity == gravity).count();
        let weak = of(WarningGravity::Weak);
        // One invalid figure is enough for low confidence, and so are three weak ones together.
        if of(WarningGravity::Void) > 0 || weak >= MANY_WEAK || lost > LOST[1] || !self.has_tail {
            "low"
        } else if weak > 0 || self.halves.is_empty() || lost > LOST[0] {
            "fair"
        } else {
            "high"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_counts_warnings() {
        use WarningGravity::{Note, Void, Weak};

        let half = |lost| HalfTrace { best: Some(1.0), runner_up: Some(1.0), lost };
        let finding = |severity| FoundWarnings {
            kind: String::new(),
            severity,
            runs: vec![0],
            message: String::new(),
            is_same: true,
            mend: None,
        };
        let of = |lost: &[f64], gravities: &[WarningGravity], has_tail| {
            let halves: Vec<_> = lost.iter().map(|lost| half(Some(*lost))).collect();
            let findings: Vec<_> = gravities.iter().map(|gravity| finding(*gravity)).collect();
            AdviceTrust { halves: &halves, findings: &findings, has_tail }.confidence()
        };
        assert_eq!(of(&[0.0, 0.01], &[Note], true), "high");
        assert_eq!(of(&[0.0, 0.02], &[], true), "fair");
        assert_eq!(of(&[0.0, 0.06], &[], true), "low");
        assert_eq!(of(&[], &[], true), "fair");
        assert_eq!(of(&[0.0; 2], &[Weak; 2], true), "fair");
        assert_eq!(of(&[0.0; 2], &[Weak; 3], true), "low");
        assert_eq!(of(&[0.0; 2], &[Note; 3], true), "high");
        assert_eq!(of(&[0.0; 2], &[Void], true), "low");
        assert_eq!(of(&[0.0; 2], &[], false), "low");
        let unknown = [half(None)];
        assert_eq!(AdviceTrust { halves: &unknown, findings: &[], has_tail: true }.confidence(), "low");
    }
}
