//! Runs what a paper ran and holds the results against what it claims.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use destage_report::ReportRun;
use destage_report::kept::ResultCache;
use destage_sim::experiment::StopSignal;
use destage_sweep::{AT_A_TIME, RemoteRunner, whole};

use crate::compare::compare;
pub use crate::finding::{ClaimFinding, SaturatedCounts, WorkloadResults};
use crate::originals::FoundTraces;
use crate::paper::{PaperClaim, PaperFile, WorkloadProvenance};
use crate::parallel;
use crate::placeholders;
use crate::plan::{PaperPlan, PaperTask, SharedRun};
use crate::run::EvidenceError;
use crate::watch::{PaperWatch, RunInfo};
use crate::worked::work;
pub use crate::worked::{ExampleFigure, ExampleFinding};

/// Bytes that the devices of a run share.
const MEMORY: u64 = 4 << 30;

/// All of a paper.
#[derive(Clone, Debug)]
pub struct PaperReproduction<'a> {
    /// The paper.
    pub paper: &'a PaperFile,
    /// Each claim on each workload that stands for its own.
    pub findings: Vec<ClaimFinding<'a>>,
    /// The same under other assumptions: for each finding in turn, one for each variant that its
    /// claim is also tried under.
    pub also: Vec<Vec<ClaimFinding<'a>>>,
    /// The examples.
    pub examples: Vec<ExampleFinding<'a>>,
    /// The results of each workload, in the paper's order.
    pub results: Vec<WorkloadResults>,
    /// Is true for a quick look.
    pub quick: bool,
}

impl<'a> PaperReproduction<'a> {
    /// For each claim the finding on the workload that is nearest to the paper's among those that
    /// have anything to compare; or, if none has, on the nearest that is here, or that is not.
    pub fn nearest(&self) -> Vec<&ClaimFinding<'a>> {
        let rank = |finding: &ClaimFinding<'_>| {
            let state = (!finding.run, !finding.is_tried());
            let kind = finding.on.first().map(|workload| workload.provenance);
            (state, WorkloadProvenance::ALL.into_iter().position(|other| Some(other) == kind))
        };
        let of_claim =
            |claim: &PaperClaim| self.findings.iter().filter(|f| std::ptr::eq(f.claim, claim)).min_by_key(|f| rank(f));
        self.paper.claim.iter().filter_map(of_claim).collect()
    }
}

/// Says how a paper is reproduced.
#[derive(Clone, Copy)]
pub struct ReproduceOptions<'a> {
    /// Lists the folders searched for traces by name, in order.
    pub folders: &'a [PathBuf],
    /// Holds the recognised traces, which take precedence over the folders.
    pub found: Option<&'a FoundTraces>,
    /// With two seeds, and an eighth of lengths and warm-ups.
    pub quick: bool,
    /// Results of single runs from before, and where those of this time are kept.
    pub kept: Option<&'a ResultCache>,
    /// Carries out the runs elsewhere; without it they are simulated here.
    pub on: Option<&'a dyn RemoteRunner>,
    /// Receives progress and notes.
    pub watch: &'a dyn PaperWatch,
}

/// Tells how many runs are done, of how many.
struct StepWatch<'a> {
    step: &'a (dyn Fn(usize, usize) + Sync),
    done: AtomicUsize,
    of: AtomicUsize,
}

impl PaperWatch for StepWatch<'_> {
    fn planned(&self, runs: usize, _: u64, _: &[&str]) {
        self.of.store(runs, Ordering::Relaxed);
    }

    fn ends(&self, _: &RunInfo<'_>, _: bool) {
        (self.step)(self.done.fetch_add(1, Ordering::Relaxed) + 1, self.of.load(Ordering::Relaxed));
    }
}

/// Runs everything, as many at a time as the current rayon pool has threads. Traces are looked for
/// in `folders`, in order. `step` hears how many runs are done, of how many.
pub fn reproduce<'a>(
    paper: &'a PaperFile,
    folders: &[PathBuf],
    step: &(dyn Fn(usize, usize) + Sync),
) -> Result<PaperReproduction<'a>, EvidenceError> {
    let watch = StepWatch { step, done: AtomicUsize::new(0), of: AtomicUsize::new(0) };
    reproduce_with(paper, ReproduceOptions { folders, found: None, quick: false, kept: None, on: None, watch: &watch })
}

/// The same, as the options say.
pub fn reproduce_with<'a>(
    paper: &'a PaperFile,
    options: ReproduceOptions<'_>,
) -> Result<PaperReproduction<'a>, EvidenceError> {
    placeholders::check(paper)?;
    let ReproduceOptions { folders, found, quick, kept, on, watch } = options;
    let mut plan = PaperPlan::of(paper, folders, found, quick)?;
    if kept.is_some() {
        plan.look_into_traces()?;
    }
    let to_run = plan.to_run();
    let weight = to_run.iter().map(|task| plan.info(task).weight).sum();
    watch.planned(to_run.len(), weight, &plan.missing());
    let at_a_time = if on.is_some() { AT_A_TIME } else { rayon::current_num_threads() };
    let all = parallel::map_at_a_time(at_a_time, &to_run, |task| {
        let info = plan.info(task);
        watch.begins(&info);
        let (results, known) = carry_out(&plan, task, options)?;
        watch.ends(&info, known);
        Ok::<_, EvidenceError>(results)
    })?;
    let mut known: BTreeMap<SharedRun<'_>, ReportRun> = BTreeMap::new();
    for (task, found) in to_run.iter().zip(all) {
        // Policies in the outer loop, sizes in the inner one.
        let mut found = found.into_iter();
        for policy in &task.run {
            // What has no cache runs once, whatever the sizes.
            let mut of_all = None;
            for &cache in &task.caches {
                let result = of_all.clone().or_else(|| found.next()).expect("a result for each policy and size");
                assert!(
                    task.running(policy).starts_with(result.text("policy"))
                        && result.cache().is_none_or(|bytes| bytes == cache),
                    "results come in this order"
                );
                if result.cache().is_none() {
                    of_all = Some(result.clone());
                }
                known.insert(task.shared(policy, cache), result);
            }
        }
        assert!(found.next().is_none(), "no more results than policies and sizes");
    }
    let mut results = vec![WorkloadResults::default(); paper.workload.len()];
    for task in &plan.tasks {
        for (policy, &cache) in
            task.policies.iter().flat_map(|policy| task.caches.iter().map(move |cache| (policy, cache)))
        {
            let run = (task.variant_name().to_owned(), policy.clone(), cache);
            let result = known[&task.shared(policy, cache)].clone();
            results[task.workload].by_run.entry(run).or_default().push(result);
        }
    }
    let (mut findings, mut also) = (Vec::new(), Vec::new());
    for claim in &paper.claim {
        for on in groups(paper, claim) {
            findings.push(compare(claim, &claim.at, paper, &on, &results)?);
            let others = claim.also_at.iter().map(|at| compare(claim, at, paper, &on, &results));
            also.push(others.collect::<Result<_, _>>()?);
        }
    }
    let examples = paper.example.iter().map(work).collect::<Result<_, _>>()?;
    Ok(PaperReproduction { paper, findings, also, examples, results, quick })
}

/// Runs a task, or takes its results from where they are kept; and whether it did that.
fn carry_out(
    plan: &PaperPlan<'_>,
    task: &PaperTask<'_>,
    ReproduceOptions { kept, on: other, watch, .. }: ReproduceOptions<'_>,
) -> Result<(Vec<ReportRun>, bool), EvidenceError> {
    let Some(kept) = kept else { return Ok((simulate(plan, task, other)?, false)) };
    let key = plan.key(kept, task)?;
    match kept.get(&key) {
        Ok(Some(results)) => return Ok((results, true)),
        Ok(None) => {}
        Err(error) => watch.note(&format!("{error}; it is run again, and the entry replaced")),
    }
    let results = simulate(plan, task, other)?;
    kept.put(&key, &results)?;
    Ok((results, false))
}

/// Runs a task, here or elsewhere.
fn simulate(
    plan: &PaperPlan<'_>,
    task: &PaperTask<'_>,
    other: Option<&dyn RemoteRunner>,
) -> Result<Vec<ReportRun>, EvidenceError> {
    let group = plan.group(task)?;
    let results = match other {
        Some(other) => other.whole(&group),
        None => whole(&group, None, Some(MEMORY), &StopSignal::default()),
    };
    let workload = plan.info(task).workload;
    results.map_err(|error| EvidenceError::Run { workload: workload.to_owned(), error })
}

/// The workloads on which a claim is tried together: each that stands for its only one; or, if it
/// names several, one for each, all of the same kind, that of `than` last.
fn groups(paper: &PaperFile, claim: &PaperClaim) -> Vec<Vec<usize>> {
    let stand_for = |name: &String| {
        let all = paper.workload.iter().enumerate();
        let name = name.clone();
        all.filter(move |(_, workload)| workload.stands_for.contains(&name)).map(|(index, _)| index)
    };
    if let ([only], None) = (claim.workload.all(), &claim.than_workload) {
        return stand_for(only).map(|index| vec![index]).collect();
    }
    let of_kind = |kind: WorkloadProvenance| {
        claim.workloads().map(|name| stand_for(name).find(|&index| paper.workload[index].provenance == kind)).collect()
    };
    WorkloadProvenance::ALL.into_iter().filter_map(of_kind).collect()
}
