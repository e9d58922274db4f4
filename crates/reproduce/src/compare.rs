//! Compares the runs that a claim is about: by size, workload and pair of policies, seed by seed.

use destage_report::{ReportRun, figures};
use destage_scenario::ScenarioError;
use destage_sim::measure::MeanEstimate;

use crate::finding::{ClaimFinding, SaturatedCounts, WorkloadResults};
use crate::grade::ClaimGrade;
use crate::paper::{ClaimOver, PaperClaim, PaperFile, WorkloadEntry};

/// Holds the figures of one pair of policies on one workload at one buffer size, one per seed.
struct PairValues {
    new: Vec<f64>,
    than: Vec<f64>,
}

/// Tells what there is to compare of such a pair.
enum PairOutcome {
    Values(PairValues),
    NothingEvicted,
    NewSaturated,
    ThanSaturated,
    BothSaturated,
    WithoutBase,
}

impl PairValues {
    /// Returns the improvements, one per seed.
    fn improvements(&self, claim: &PaperClaim) -> Vec<f64> {
        self.new.iter().zip(&self.than).map(|(new, than)| claim.metric.improvement(*new, *than)).collect()
    }

    /// Returns by how much both may differ and still be alike.
    fn alike(&self, claim: &PaperClaim) -> f64 {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        claim.alike.unwrap_or_else(|| claim.metric.likeness_of(mean(&self.new), mean(&self.than)))
    }
}

fn pair(
    (claim, at): (&PaperClaim, &str),
    on: &WorkloadEntry,
    results: [&WorkloadResults; 2],
    (new, than): (&str, &str),
    (new_cache, than_cache): (u64, u64),
) -> Result<PairOutcome, ScenarioError> {
    let runs = [(results[0], at, new, new_cache), (results[1], claim.than_at(at), than, than_cache)];
    let found = runs.map(|(results, variant, policy, cache)| results.of(variant, policy, cache));
    if found.iter().copied().flatten().all(|run| figures::EVICTIONS.of(run) == Some(0.0)) {
        return Ok(PairOutcome::NothingEvicted);
    }
    let references = claim.relative_to.as_ref().map(|variant| runs.map(|(of, _, p, c)| of.of(variant, p, c)));
    let is_saturated = |of: &[ReportRun]| of.iter().any(ReportRun::is_saturated);
    if references.iter().flatten().any(|of| is_saturated(of)) {
        return Ok(PairOutcome::BothSaturated);
    }
    match found.map(is_saturated) {
        [false, false] => {}
        [true, false] => return Ok(PairOutcome::NewSaturated),
        [false, true] => return Ok(PairOutcome::ThanSaturated),
        [true, true] => return Ok(PairOutcome::BothSaturated),
    }
    // The same seed is the same trace on one workload, so that runs are compared in pairs.
    let of = |side: usize, seed: usize| {
        let value = claim.metric.of(&found[side][seed])?;
        match &references {
            None => Some(value),
            Some(references) => Some(value / claim.metric.of(&references[side][seed])?),
        }
    };
    let seeds = 0..found[0].len().min(found[1].len());
    let both = seeds.map(|seed| {
        of(0, seed).zip(of(1, seed)).ok_or_else(|| {
            let metric = claim.metric;
            let what = format_args!("the results have no {}; set device = \"{}\"", metric.words, metric.device());
            ScenarioError::new(what).at(format_args!("claim {}, workload {}", claim.id, on.name))
        })
    });
    let (new, than) = both.collect::<Result<Vec<(f64, f64)>, ScenarioError>>()?.into_iter().unzip();
    let values = PairValues { new, than };
    let is_finite = values.improvements(claim).iter().all(|improvement| improvement.is_finite());
    Ok(if is_finite { PairOutcome::Values(values) } else { PairOutcome::WithoutBase })
}

/// Holds what is measured of a claim against it, on one workload for each that it names.
pub(crate) fn compare<'a>(
    claim: &'a PaperClaim,
    at: &'a str,
    paper: &'a PaperFile,
    on: &[usize],
    results: &[WorkloadResults],
) -> Result<ClaimFinding<'a>, ScenarioError> {
    let entries: Vec<&WorkloadEntry> = on.iter().map(|&index| &paper.workload[index]).collect();
    let run = on.iter().all(|&index| !results[index].is_empty());
    let mut all: Vec<(u64, PairValues)> = Vec::new();
    let (mut without_evictions, mut without_base, mut saturated) = (0, 0, SaturatedCounts::default());
    let mut requests = 0;
    // The last one is that of `than`, if it has one of its own.
    let than_on = claim.than_workload.as_ref().and(on.last().copied());
    let new_on = &on[..on.len() - usize::from(than_on.is_some())];
    for caches in claim.cache_bytes(at).filter(|_| run) {
        for (&index, entry) in new_on.iter().zip(&entries) {
            let both = [&results[index], &results[than_on.unwrap_or(index)]];
            for (new, than) in claim.new.all().iter().zip(claim.than.all()) {
                let of_run = results[index].of(at, new, caches.0).iter().filter_map(|run| run.number("requests"));
                requests = of_run.fold(requests, |most, n| most.max(n as u64));
                match pair((claim, at), entry, both, (new, than), caches)? {
                    PairOutcome::Values(values) => all.push((caches.0, values)),
                    PairOutcome::NothingEvicted => without_evictions += 1,
                    PairOutcome::WithoutBase => without_base += 1,
                    // Counts of runs that were ended early say nothing.
                    PairOutcome::NewSaturated if claim.metric.is_timing() => saturated.new += 1,
                    PairOutcome::ThanSaturated if claim.metric.is_timing() => saturated.than += 1,
                    PairOutcome::NewSaturated | PairOutcome::ThanSaturated | PairOutcome::BothSaturated => {
                        saturated.both += 1;
                    }
                }
            }
        }
    }
    let (measured, grades) = match claim.over {
        ClaimOver::Each => {
            let graded = all.iter().map(|(cache, values)| {
                let estimate = MeanEstimate::of(&values.improvements(claim));
                ((*cache, estimate), ClaimGrade::of(claim, &estimate, values.alike(claim)))
            });
            let (measured, mut grades): (Vec<_>, Vec<_>) = graded.unzip();
            grades.extend(vec![new_saturated(claim); saturated.new]);
            grades.extend(vec![than_saturated(claim); saturated.than]);
            (measured, grades)
        }
        ClaimOver::Mean | ClaimOver::Averages | ClaimOver::Best => {
            let one = over_all(claim, &all);
            let grade = one.map(|(_, estimate)| ClaimGrade::of(claim, &estimate, claim.likeness()));
            let grade = with_saturated(claim, grade, saturated);
            (one.into_iter().collect(), grade.into_iter().collect())
        }
    };
    Ok(ClaimFinding {
        claim,
        at,
        on: entries,
        run,
        measured,
        without_evictions,
        saturated,
        without_base,
        grades,
        requests,
    })
}

/// Returns the one figure that a claim about a mean or the best has, with the first or the best buffer size.
fn over_all(claim: &PaperClaim, all: &[(u64, PairValues)]) -> Option<(u64, MeanEstimate)> {
    let first = all.first()?.0;
    let seeds = all.iter().map(|(_, values)| values.new.len()).min()?;
    let mean =
        |of: &dyn Fn(&PairValues) -> f64| all.iter().map(|(_, values)| of(values)).sum::<f64>() / all.len() as f64;
    match claim.over {
        ClaimOver::Each | ClaimOver::Best => {
            let each = all.iter().map(|(cache, values)| (*cache, MeanEstimate::of(&values.improvements(claim))));
            let sign = if claim.sign() < 0 { -1.0 } else { 1.0 };
            each.max_by(|a, b| (sign * a.1.mean).total_cmp(&(sign * b.1.mean)))
        }
        ClaimOver::Mean => {
            let of_seed = |seed: usize| mean(&|values| claim.metric.improvement(values.new[seed], values.than[seed]));
            Some((first, MeanEstimate::of(&(0..seeds).map(of_seed).collect::<Vec<_>>())))
        }
        ClaimOver::Averages => {
            let of_seed = |seed: usize| {
                claim.metric.improvement(mean(&|values| values.new[seed]), mean(&|values| values.than[seed]))
            };
            Some((first, MeanEstimate::of(&(0..seeds).map(of_seed).collect::<Vec<_>>())))
        }
    }
}

/// Returns the grade of a mean, or of the best, some of which saturate the device on one side.
fn with_saturated(claim: &PaperClaim, measured: Option<ClaimGrade>, saturated: SaturatedCounts) -> Option<ClaimGrade> {
    let (new, than) = (new_saturated(claim), than_saturated(claim));
    if claim.over == ClaimOver::Best {
        let better = [(saturated.new, new), (saturated.than, than)].into_iter().filter(|(count, _)| *count > 0);
        let better = better.map(|(_, grade)| grade).filter(|grade| grade.is_in_sign() || measured.is_none());
        return measured.filter(|grade| grade.is_in_sign()).into_iter().chain(better).min().or(measured);
    }
    let beyond = match (saturated.new, saturated.than) {
        (0, 0) => return measured,
        (0, _) => than,
        (_, 0) => new,
        _ => ClaimGrade::Undecided,
    };
    // What goes beyond all bounds decides about a mean, but not against the rest of it.
    let is_contrary = measured.is_some_and(|grade| beyond.is_in_sign() && !grade.is_in_sign());
    Some(if is_contrary { ClaimGrade::Undecided } else { beyond })
}

/// Grades a comparison in which only `new` saturates the device: it is worse than anything.
fn new_saturated(claim: &PaperClaim) -> ClaimGrade {
    match () {
        () if claim.at_most.is_some() => ClaimGrade::Alike,
        () if claim.sign() < 0 => in_sign(claim),
        () => ClaimGrade::Not,
    }
}

/// Grades a comparison in which only `than` does.
fn than_saturated(claim: &PaperClaim) -> ClaimGrade {
    if claim.sign() > 0 { in_sign(claim) } else { ClaimGrade::Not }
}

fn in_sign(claim: &PaperClaim) -> ClaimGrade {
    if claim.sign_only { ClaimGrade::Claimed } else { ClaimGrade::Sign }
}
