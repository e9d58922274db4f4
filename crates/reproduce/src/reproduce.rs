//! Runs what a paper ran and holds the results against what it claims.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use destage_policy::buffer::{
    self, Access, Buffer, BufferConfig, Built, Evictions, Kind, NoDevice, NoVeto, PolicySpec, Visitor,
};
use destage_scenario::ScenarioError;
use destage_scenario::workload::Workload;
use destage_sim::result::RunResult;
use destage_trace::{FormatSpec, OpenOptions, Source, TraceError};
use rayon::prelude::*;

use crate::paper::{Claim, Example, Metric, Paper, WorkloadEntry};
use crate::run::{EvidenceError, run};
use crate::stats::Estimate;

/// Buffer sizes simulated over one reading of the workload: the policies' tables of pages decide about the memory.
const CACHES_AT_A_TIME: usize = 3;
/// Percentage points within which two policies are alike.
const ALIKE: f64 = 2.0;
/// Percentage points below which a difference is none, though it may be certain.
const NOTHING: f64 = 0.05;

/// What became of a claim on a workload.
#[derive(Clone, Debug)]
pub struct Finding<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// The workload it was tried on.
    pub workload: &'a WorkloadEntry,
    /// Whether the workload is here.
    pub run: bool,
    /// Improvement in percent for each buffer size in bytes at which either policy evicts anything.
    pub measured: Vec<(u64, Estimate)>,
    /// Buffer sizes at which neither policy evicts: nothing to compare.
    pub without_evictions: usize,
    /// At how many of the sizes the sign is as claimed: with several seeds, only where the interval excludes zero.
    pub signs: usize,
    /// Whether the improvement has the claimed size at every buffer size.
    pub in_size: bool,
}

/// How far a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// The workload is not here.
    NotRun,
    /// Nothing is evicted at any of the sizes.
    NothingToCompare,
    /// In size, and so in sign.
    InSize,
    /// In sign at every buffer size.
    InSign,
    /// In sign at some sizes only.
    InPart,
    /// At no size.
    Not,
}

impl Finding<'_> {
    /// How far the claim holds.
    pub fn holds(&self) -> Holds {
        match self.signs {
            _ if !self.run => Holds::NotRun,
            _ if self.measured.is_empty() => Holds::NothingToCompare,
            n if n == self.measured.len() && self.in_size => Holds::InSize,
            n if n == self.measured.len() => Holds::InSign,
            0 => Holds::Not,
            _ => Holds::InPart,
        }
    }
}

/// The results of a workload: per seed, policy and buffer size.
#[derive(Clone, Debug, Default)]
pub struct Results {
    by_policy_and_cache: BTreeMap<(String, u64), Vec<RunResult>>,
}

impl Results {
    /// A policy's results at a buffer size, one per seed.
    pub fn of(&self, policy: &str, cache: u64) -> &[RunResult] {
        self.by_policy_and_cache.get(&(policy.to_owned(), cache)).map_or(&[], Vec::as_slice)
    }

    /// The buffer sizes.
    pub fn caches(&self) -> Vec<u64> {
        let mut caches: Vec<u64> = self.by_policy_and_cache.keys().map(|&(_, cache)| cache).collect();
        caches.sort_unstable();
        caches.dedup();
        caches
    }

    /// Whether nothing was run.
    pub fn is_empty(&self) -> bool {
        self.by_policy_and_cache.is_empty()
    }
}

/// What became of an example.
#[derive(Clone, Debug)]
pub struct ExampleFinding<'a> {
    /// The example.
    pub example: &'a Example,
    /// What the last write evicted.
    pub evicted: Vec<u32>,
}

/// All of a paper.
#[derive(Clone, Debug)]
pub struct Reproduction<'a> {
    /// The paper.
    pub paper: &'a Paper,
    /// Each claim on each workload that stands for its own.
    pub findings: Vec<Finding<'a>>,
    /// The examples.
    pub examples: Vec<ExampleFinding<'a>>,
    /// The results of each workload, in the paper's order.
    pub results: Vec<Results>,
}

/// Where a workload's requests come from.
#[derive(Clone)]
enum Origin {
    File(PathBuf, Option<FormatSpec>),
    Synthetic(String),
}

/// A run: a workload, a seed, some buffer sizes.
struct Task {
    workload: usize,
    seed: Option<u64>,
    caches: Vec<u64>,
}

/// Runs everything, in the current rayon pool. Traces are looked for in `folders`, in order. `step` hears how many runs
/// are done, of how many.
pub fn reproduce<'a>(
    paper: &'a Paper,
    folders: &[PathBuf],
    step: &(dyn Fn(usize, usize) + Sync),
) -> Result<Reproduction<'a>, EvidenceError> {
    let origins = paper.workload.iter().map(|w| origin(w, folders)).collect::<Result<Vec<_>, _>>()?;
    let mut tasks = Vec::new();
    for (index, (workload, origin)) in paper.workload.iter().zip(&origins).enumerate() {
        let mut caches: Vec<u64> = paper
            .claim
            .iter()
            .filter(|claim| workload.stands_for.contains(&claim.workload))
            .flat_map(Claim::cache_bytes)
            .collect();
        caches.sort_unstable();
        caches.dedup();
        let seeds: Vec<Option<u64>> = match origin {
            None => continue,
            Some(Origin::File(..)) => vec![None],
            Some(Origin::Synthetic(_)) => (1..=paper.seeds).map(Some).collect(),
        };
        for &seed in &seeds {
            let chunks = caches.chunks(CACHES_AT_A_TIME);
            tasks.extend(chunks.map(|caches| Task { workload: index, seed, caches: caches.to_vec() }));
        }
    }
    let done = AtomicUsize::new(0);
    let all: Vec<Vec<RunResult>> = tasks
        .par_iter()
        .with_max_len(1)
        .map(|task| {
            let origin = origins[task.workload].as_ref().expect("tasks are made for workloads that are here");
            let results = simulate(paper, &paper.workload[task.workload], origin, task)?;
            step(done.fetch_add(1, Ordering::Relaxed) + 1, tasks.len());
            Ok(results)
        })
        .collect::<Result<_, EvidenceError>>()?;
    let mut results = vec![Results::default(); paper.workload.len()];
    for (task, found) in tasks.iter().zip(all) {
        // Policies in the outer loop, sizes in the inner one.
        let names = paper.policies.iter().flat_map(|policy| task.caches.iter().map(move |&cache| (policy, cache)));
        assert_eq!(found.len(), paper.policies.len() * task.caches.len(), "a result for each policy and size");
        for ((policy, cache), result) in names.zip(found) {
            assert!(policy.starts_with(&result.policy) && cache == result.cache_bytes, "results come in this order");
            let of = results[task.workload].by_policy_and_cache.entry((policy.clone(), cache));
            of.or_default().push(result);
        }
    }
    let mut findings = Vec::new();
    for claim in &paper.claim {
        for (workload, results) in paper.workload.iter().zip(&results) {
            if workload.stands_for.contains(&claim.workload) {
                findings.push(compare(claim, workload, results)?);
            }
        }
    }
    let examples = paper.example.iter().map(work).collect::<Result<_, _>>()?;
    Ok(Reproduction { paper, findings, examples, results })
}

/// Where the workload is, if it is anywhere.
fn origin(workload: &WorkloadEntry, folders: &[PathBuf]) -> Result<Option<Origin>, ScenarioError> {
    if let Some(name) = &workload.synthetic {
        // What is wrong with it shall be known before anything is run.
        Workload::named(name)?.open()?;
        return Ok(Some(Origin::Synthetic(name.clone())));
    }
    let at = |error: &dyn std::fmt::Display| ScenarioError::new(error).at(format_args!("workload {}", workload.name));
    let format = workload.format.as_ref().map(|text| text.parse::<FormatSpec>()).transpose();
    let format = format.map_err(|error| at(&error))?;
    let files = folders.iter().flat_map(|folder| workload.files.iter().map(|file| folder.join(file)));
    Ok(files.filter(|file| file.is_file()).map(|file| Origin::File(file, format.clone())).next())
}

fn simulate(
    paper: &Paper,
    workload: &WorkloadEntry,
    origin: &Origin,
    task: &Task,
) -> Result<Vec<RunResult>, EvidenceError> {
    let list = |values: Vec<String>| values.join(",");
    let mut pairs = vec![
        ("policy", list(paper.policies.clone())),
        ("cache", list(task.caches.iter().map(|bytes| format!("{bytes}B")).collect())),
    ];
    for (key, value) in &paper.settings {
        pairs.push((key, text_of(value).map_err(|error| error.at(format_args!("settings: {key}")))?));
    }
    match origin {
        Origin::File(file, format) => {
            let options = OpenOptions { format: format.clone(), lenient: false };
            let mut open =
                || -> Result<Box<dyn Source>, TraceError> { Ok(Box::new(destage_trace::open(file, &options)?)) };
            run(&workload.name, &pairs, &mut open)
        }
        Origin::Synthetic(name) => {
            let mut made = Workload::named(name)?;
            if let Some(seed) = task.seed {
                made.set(&format!("seed={seed}"))?;
            }
            // What is wrong with it is known after the first time.
            made.open()?;
            let mut open =
                || -> Result<Box<dyn Source>, TraceError> { Ok(Box::new(made.open().expect("it was opened before"))) };
            run(&workload.name, &pairs, &mut open)
        }
    }
}

fn text_of(value: &toml::Value) -> Result<String, ScenarioError> {
    Ok(match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(switch) => switch.to_string(),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
            return Err(ScenarioError::new("takes text, a number, true or false"));
        }
    })
}

/// What a result shows of a metric, if it does.
pub fn value_of(metric: Metric, result: &RunResult) -> Option<f64> {
    match metric {
        Metric::Evictions => Some(result.counters.evictions as f64),
        Metric::Throughput => result.analytic.as_ref().and_then(|a| a.throughput),
    }
}

/// By how many percent `new` is better (specs §0.4); two that do nothing at all are alike.
pub fn improvement(metric: Metric, new: f64, than: f64) -> f64 {
    let (better, worse) = match metric {
        Metric::Evictions => (than, new),
        Metric::Throughput => (new, than),
    };
    if (better - worse).abs() < f64::EPSILON { 0.0 } else { (better / worse - 1.0) * 100.0 }
}

fn compare<'a>(claim: &'a Claim, workload: &'a WorkloadEntry, results: &Results) -> Result<Finding<'a>, ScenarioError> {
    let (mut measured, mut without_evictions) = (Vec::new(), 0);
    for cache in claim.cache_bytes() {
        let (new, than) = (results.of(&claim.new, cache), results.of(&claim.than, cache));
        if new.is_empty() {
            continue;
        }
        if new.iter().chain(than).all(|result| result.counters.evictions == 0) {
            without_evictions += 1;
            continue;
        }
        // The same seed is the same trace, so that runs are compared in pairs.
        let pairs = new.iter().zip(than).map(|(new, than)| {
            let both = value_of(claim.metric, new).zip(value_of(claim.metric, than));
            let (new, than) = both.ok_or_else(|| {
                let what = "the results have no throughput; set device = \"analytic\"";
                ScenarioError::new(what).at(format_args!("claim {}, workload {}", claim.id, workload.name))
            })?;
            Ok(improvement(claim.metric, new, than))
        });
        measured.push((cache, Estimate::of(&pairs.collect::<Result<Vec<f64>, ScenarioError>>()?)));
    }
    let signs = measured.iter().filter(|(_, e)| has_sign(claim.sign(), e)).count();
    let in_size = measured.iter().all(|(_, e)| has_size(claim.claimed, e.mean));
    Ok(Finding { claim, workload, run: !results.is_empty(), measured, without_evictions, signs, in_size })
}

fn has_sign(claimed: i8, measured: &Estimate) -> bool {
    match claimed {
        0 => {
            let (low, high) = measured.interval();
            -ALIKE <= low && high <= ALIKE
        }
        sign => measured.sign() == sign && measured.mean.abs() >= NOTHING,
    }
}

/// Whether an improvement lies in the claimed range, each end of it moved outwards by a quarter of itself and half a
/// point; two that are claimed to be alike have no other size than that.
fn has_size(claimed: [f64; 2], measured: f64) -> bool {
    let (low, high) = (claimed[0].min(claimed[1]), claimed[0].max(claimed[1]));
    let slack = |end: f64| end.abs() / 4.0 + 0.5;
    let alike = high.abs() < f64::EPSILON && low.abs() < f64::EPSILON;
    alike || (low - slack(low)..=high + slack(high)).contains(&measured)
}

/// Works an example through.
fn work(example: &Example) -> Result<ExampleFinding<'_>, EvidenceError> {
    struct Writes<'a>(&'a Example);
    impl Visitor for Writes<'_> {
        type Out = Vec<u32>;

        fn visit<B: Buffer + Send + 'static>(self, mut buffer: B, _built: Built) -> Vec<u32> {
            let pages = self.0.writes.iter().max().map_or(0, |page| page + 1);
            buffer.grow(pages.next_multiple_of(self.0.pages_per_block));
            let mut out = Evictions::default();
            for &page in &self.0.writes {
                out.clear();
                buffer.access(Access::write(page), &NoDevice, &mut NoVeto, &mut out);
            }
            let leaving = out.groups().filter(|(group, _)| group.kind != Kind::Pad);
            let mut evicted: Vec<u32> = leaving.flat_map(|(_, pages)| pages.iter().map(|page| page.0)).collect();
            evicted.sort_unstable();
            evicted
        }
    }
    let wrong = |error: &dyn std::fmt::Display| ScenarioError::new(error).at(format_args!("example {}", example.id));
    let spec: PolicySpec = example.policy.parse().map_err(|error| wrong(&error))?;
    let config = BufferConfig { capacity_pages: example.capacity, pages_per_block: example.pages_per_block, units: 1 };
    let evicted = buffer::build(&spec, config, Writes(example)).map_err(|error| wrong(&error))?;
    Ok(ExampleFinding { example, evicted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn improvements_as_the_paper_counts_them() {
        // 64 % fewer evictions than a scheme with 1.64 times as many; 522 % more throughput.
        assert!((improvement(Metric::Evictions, 100.0, 164.0) - 64.0).abs() < 1e-9);
        assert!((improvement(Metric::Throughput, 6.22, 1.0) - 522.0).abs() < 1e-9);
        assert!(improvement(Metric::Evictions, 0.0, 0.0).abs() < 1e-9);
    }

    #[test]
    fn signs_and_sizes() {
        let e = |mean, half_width| Estimate { mean, half_width, samples: 5 };
        assert!(has_sign(1, &e(3.0, 2.0)) && !has_sign(1, &e(3.0, 3.5)) && !has_sign(1, &e(-3.0, 1.0)));
        assert!(
            has_sign(-1, &e(-3.0, 1.0))
                && !has_sign(1, &e(0.04, 0.0))
                && has_sign(0, &e(0.5, 1.0))
                && !has_sign(0, &e(1.5, 1.0))
        );
        assert!(has_size([4.0, 70.0], 80.0) && !has_size([4.0, 70.0], 90.0) && has_size([-1.0, -8.0], -10.0));
        assert!(!has_size([4.0, 12.0], 0.2) && has_size([4.0, 12.0], 3.0) && has_size([0.0, 0.0], 1.0));
    }
}
