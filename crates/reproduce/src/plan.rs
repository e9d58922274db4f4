//! Plans a paper's runs: which workloads are here, and each with which policies, buffer sizes, seeds and
//! settings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use destage_report::kept::{self, ResultCache, ResultKey, Sha256Hash};
use destage_scenario::keys::trace::{FORMAT, TRACE, WORKLOAD, WORKLOAD_SET};
use destage_scenario::sim::{self, SIM};
use destage_scenario::workload::NamedWorkload;
use destage_scenario::{AppliesTo, ScenarioError, ScenarioSettings, makes_deltas, path_text, quantity};
use destage_sweep::SweepGroup;
use destage_trace::{FormatSpec, OpenOptions, TraceError, TraceSource};

use crate::needed::needed;
use crate::originals::FoundTraces;
use crate::paper::{PaperFile, PaperVariant, WorkloadEntry};
use crate::run::EvidenceError;
use crate::watch::RunInfo;

/// Buffer sizes simulated over one reading of the workload: the policies' tables of pages decide
/// about the memory.
const CACHES_AT_A_TIME: usize = 3;

/// Seeds of a quick look, and which part of lengths and warm-ups it runs.
const QUICK_SEEDS: u64 = 2;
const QUICK: u64 = 8;

/// Says where a workload's requests come from.
#[derive(Clone)]
pub(crate) enum WorkloadOrigin {
    File {
        file: PathBuf,
        format: Option<FormatSpec>,
        /// At most so many requests are read.
        limit: Option<u64>,
        /// Holds the hash of the file's content, once it has been computed.
        content: Option<Sha256Hash>,
    },
    Synthetic(String),
}

/// Describes a run: a workload, a variant, a seed, some policies and buffer sizes.
pub(crate) struct PaperTask<'a> {
    /// Numbers the workload in the paper.
    pub(crate) workload: usize,
    variant: Option<&'a PaperVariant>,
    seed: Option<u64>,
    /// Lists the policies that are wanted.
    pub(crate) policies: Vec<String>,
    /// Lists those of them that are run; what a task before this one runs in the same way is taken from there.
    pub(crate) run: Vec<String>,
    pub(crate) caches: Vec<u64>,
    /// Holds the paper's own replacements of policies.
    run_as: &'a BTreeMap<String, String>,
    /// Numbers what decides about results besides policy and buffer size: workload, seed and settings.
    context: usize,
    /// Is the same number without the settings of deltas, for policies that make none.
    without_deltas: usize,
}

/// Tells runs that have the same results: context, what runs, buffer size.
pub(crate) type SharedRun<'a> = (usize, &'a str, u64);

impl PaperTask<'_> {
    pub(crate) fn variant_name(&self) -> &str {
        self.variant.map_or("", |variant| variant.name.as_str())
    }

    /// Returns the policy that this variant runs in the place of `policy`, or `policy` itself.
    pub(crate) fn running<'b>(&'b self, policy: &'b String) -> &'b String {
        self.variant.and_then(|variant| variant.run_as.get(policy)).or(self.run_as.get(policy)).unwrap_or(policy)
    }

    /// Returns what a policy's run at a buffer size shares its results with.
    pub(crate) fn shared<'b>(&'b self, policy: &'b String, cache: u64) -> SharedRun<'b> {
        let running = self.running(policy);
        (if makes_deltas(running) { self.context } else { self.without_deltas }, running, cache)
    }
}

/// All runs of a paper, in order.
pub(crate) struct PaperPlan<'a> {
    paper: &'a PaperFile,
    /// Holds the origin of each workload, in the paper's order; none if the workload is not here.
    origins: Vec<Option<WorkloadOrigin>>,
    quick: bool,
    pub(crate) tasks: Vec<PaperTask<'a>>,
}

impl<'a> PaperPlan<'a> {
    /// Plans a paper's runs. Recognised traces come first, then files of the workloads' names in these
    /// folders, in their order. A quick look has two seeds and an eighth of lengths and warm-ups.
    ///
    /// # Errors
    /// Returns the first workload's error: a synthetic workload that cannot be made, or a file that cannot be
    /// used.
    pub(crate) fn of(
        paper: &'a PaperFile,
        folders: &[PathBuf],
        found: Option<&FoundTraces>,
        quick: bool,
    ) -> Result<Self, EvidenceError> {
        let mut origins = paper.workload.iter().map(|w| origin(w, folders, found)).collect::<Result<Vec<_>, _>>()?;
        if quick {
            for (workload, origin) in paper.workload.iter().zip(&mut origins) {
                if let Some(origin) = origin {
                    origin.shorten().map_err(|error| ScenarioError::new(error).at(&workload.name))?;
                }
            }
        }
        let most_seeds = paper.claim.iter().filter_map(|claim| claim.seeds).max().unwrap_or(paper.seeds);
        let seeds_of_all = if quick { QUICK_SEEDS.min(paper.seeds) } else { most_seeds };
        let mut tasks = Vec::new();
        for (index, (workload, origin)) in paper.workload.iter().zip(&origins).enumerate() {
            let seeds: Vec<Option<u64>> = match origin {
                None => continue,
                // A trace is what it is: seeds would give the same run again.
                Some(WorkloadOrigin::File { .. }) => vec![None],
                Some(WorkloadOrigin::Synthetic(_)) => (1..=seeds_of_all).map(Some).collect(),
            };
            for variant in std::iter::once(None).chain(paper.variant.iter().map(Some)) {
                for &seed in &seeds {
                    let (policies, caches) = needed(paper, workload, variant, seed.unwrap_or(1));
                    tasks.extend(caches.chunks(CACHES_AT_A_TIME).map(|caches| PaperTask {
                        workload: index,
                        variant,
                        seed,
                        run: policies.clone(),
                        policies: policies.clone(),
                        caches: caches.to_vec(),
                        run_as: &paper.run_as,
                        context: 0,
                        without_deltas: 0,
                    }));
                }
            }
        }
        let mut plan = Self { paper, origins, quick, tasks };
        plan.share()?;
        Ok(plan)
    }

    /// Leaves out what another variant runs already: one that changes how a policy runs has all others run as before.
    fn share(&mut self) -> Result<(), ScenarioError> {
        let mut contexts = BTreeMap::new();
        let mut tasks = std::mem::take(&mut self.tasks);
        for task in &mut tasks {
            let mut settings = self.settings(task)?;
            settings.retain(|(key, _)| key != "policy" && key != "cache");
            let requests: Vec<String> =
                task.variant.iter().flat_map(|variant| &variant.workload).map(|pair| format!("{pair:?}")).collect();
            let mut number = |settings: Vec<(String, String)>| {
                let next = contexts.len();
                *contexts.entry((task.workload, task.seed, settings, requests.clone())).or_insert(next)
            };
            task.context = number(settings.clone());
            settings.retain(|(key, _)| !is_of_deltas(key));
            task.without_deltas = number(settings);
        }
        let mut known: BTreeSet<(usize, String, u64)> = BTreeSet::new();
        for task in &mut tasks {
            let runs = |policy: &String| {
                let shared = task.caches.iter().map(|&cache| task.shared(policy, cache));
                shared.map(|(context, running, cache)| (context, running.to_owned(), cache)).collect::<Vec<_>>()
            };
            let mut run = Vec::new();
            for policy in &task.policies {
                let runs = runs(policy);
                if runs.iter().any(|run| !known.contains(run)) {
                    known.extend(runs);
                    run.push(policy.clone());
                }
            }
            task.run = run;
        }
        self.tasks = tasks;
        Ok(())
    }

    /// Returns the tasks of which anything is run.
    pub(crate) fn to_run(&self) -> Vec<&PaperTask<'a>> {
        self.tasks.iter().filter(|task| !task.run.is_empty()).collect()
    }

    /// Has a look at what traces hold, so that runs have [keys](Self::key).
    pub(crate) fn look_into_traces(&mut self) -> Result<(), EvidenceError> {
        for origin in self.origins.iter_mut().flatten() {
            if let WorkloadOrigin::File { file, content, .. } = origin {
                *content = Some(kept::content(&destage_trace::files(file))?);
            }
        }
        Ok(())
    }

    /// The workloads that are not here.
    pub(crate) fn missing(&self) -> Vec<&'a str> {
        let all = self.paper.workload.iter().zip(&self.origins);
        all.filter(|(_, origin)| origin.is_none()).map(|(workload, _)| workload.name.as_str()).collect()
    }

    fn origin(&self, task: &PaperTask<'_>) -> &WorkloadOrigin {
        self.origins[task.workload].as_ref().expect("runs are made for workloads that are here")
    }

    /// Returns the description of a task for whoever watches: workload, file, and weight in simulations.
    pub(crate) fn info(&self, task: &PaperTask<'_>) -> RunInfo<'_> {
        let file = match self.origin(task) {
            WorkloadOrigin::File { file, .. } => Some(file.as_path()),
            WorkloadOrigin::Synthetic(_) => None,
        };
        let weight = task.run.len() as u64 * task.caches.len() as u64;
        RunInfo { workload: &self.paper.workload[task.workload].name, file, weight }
    }

    /// All that decides about a run's results.
    pub(crate) fn key(&self, kept: &ResultCache, task: &PaperTask<'_>) -> Result<ResultKey, EvidenceError> {
        let workload = &self.paper.workload[task.workload];
        let mut key = kept.key();
        key.part(&workload.name);
        // The settings stand in the key as they are followed: a change to the paper's file makes a new run.
        for (name, value) in self.settings(task)? {
            key.part(name);
            key.part(value);
        }
        match (self.origin(task), self.requests(task)?) {
            (WorkloadOrigin::File { file, format, content, .. }, _) => {
                // The name may tell the format.
                key.part("file");
                key.part(file.file_name().unwrap_or_default().as_encoded_bytes());
                key.part(format.as_ref().map(ToString::to_string).unwrap_or_default());
                // The content decides, not the path: a trace may lie elsewhere the next time.
                key.part(content.expect("traces were looked into"));
            }
            (WorkloadOrigin::Synthetic(name), RunRequests::Made(made)) => {
                key.part("made");
                key.part(name);
                let file: Vec<_> = made.file().map(Path::to_owned).into_iter().collect();
                key.part(kept::content(&file)?);
                made.changes().iter().for_each(|change| key.part(change));
            }
            (WorkloadOrigin::Synthetic(_), RunRequests::File) => unreachable!("what is synthetic is made"),
        }
        Ok(key)
    }

    /// The requests of a run.
    fn requests(&self, task: &PaperTask<'_>) -> Result<RunRequests, ScenarioError> {
        let workload = &self.paper.workload[task.workload];
        match self.origin(task) {
            WorkloadOrigin::File { .. } => Ok(RunRequests::File),
            WorkloadOrigin::Synthetic(name) => {
                let mut made = NamedWorkload::named(name)?;
                let of_workload = workload.set.iter().map(|pair| (pair, format!("workload \"{}\"", workload.name)));
                let of_variant = task.variant.iter().flat_map(|variant| &variant.workload);
                let of_variant = of_variant.map(|pair| (pair, format!("variant \"{}\"", task.variant_name())));
                for ((key, value), place) in of_workload.chain(of_variant) {
                    let at = |error: ScenarioError| error.at(&place);
                    made.set(&format!("{key}={}", text_of(value).map_err(at)?)).map_err(at)?;
                }
                if let Some(seed) = task.seed {
                    made.set(&format!("seed={seed}"))?;
                }
                if self.quick {
                    // It is shortened after the seed: no setting of the paper can make it long again.
                    made.shorten(QUICK)?;
                }
                // What is wrong with it is known after the first time.
                made.open()?;
                Ok(RunRequests::Made(Box::new(made)))
            }
        }
    }

    /// The settings of a run as a user would give them.
    fn settings(&self, task: &PaperTask<'_>) -> Result<Vec<(String, String)>, ScenarioError> {
        let list = |values: Vec<String>| values.join(",");
        let mut pairs = vec![
            ("policy".to_owned(), list(task.run.iter().map(|policy| task.running(policy).clone()).collect())),
            ("cache".to_owned(), list(task.caches.iter().map(|bytes| format!("{bytes}B")).collect())),
        ];
        let mut settings = self.paper.settings.clone();
        settings.extend(self.paper.workload[task.workload].settings.clone());
        // The variant comes last and wins over the workload, which wins over the paper.
        settings.extend(task.variant.iter().flat_map(|variant| variant.settings.clone()));
        for (key, value) in settings {
            let text = text_of(&value).map_err(|error| error.at(format_args!("settings: {key}")))?;
            // They have no meaning where the policies that make deltas are shared with another task.
            let makes = |policies: &[String]| policies.iter().any(|policy| makes_deltas(task.running(policy)));
            if !is_of_deltas(&key) || makes(&task.run) || !makes(&task.policies) {
                pairs.push(if self.quick { shorter(key, text) } else { (key, text) });
            }
        }
        if let WorkloadOrigin::File { limit: Some(limit), .. } = self.origin(task) {
            let given = pairs.iter().position(|(key, _)| key == "limit").map(|at| pairs.remove(at).1);
            let given = given.and_then(|text| quantity::count(&text).ok()).unwrap_or(u64::MAX);
            // A limit of the paper's own stays if it is the shorter one.
            pairs.push(("limit".to_owned(), given.min(*limit).to_string()));
        }
        Ok(pairs)
    }

    /// The run as it can be carried out anywhere.
    pub(crate) fn group(&self, task: &PaperTask<'_>) -> Result<SweepGroup, EvidenceError> {
        let workload = &self.paper.workload[task.workload];
        let mut settings = ScenarioSettings::new(SIM);
        for (key, value) in self.settings(task)? {
            settings.set(&format!("{key}={value}"))?;
        }
        match (self.origin(task), self.requests(task)?) {
            (WorkloadOrigin::File { file, format, .. }, _) => {
                settings.flag(TRACE.name(), vec![path_text::of(file)])?;
                if let Some(format) = format {
                    settings.flag(FORMAT.name(), vec![format.to_string()])?;
                }
            }
            (WorkloadOrigin::Synthetic(name), RunRequests::Made(made)) => {
                settings.flag(WORKLOAD.name(), vec![name.clone()])?;
                if let Some(change) = made.changes().iter().find(|change| change.contains(char::is_whitespace)) {
                    let what = format_args!("{change}: write it without spaces");
                    return Err(ScenarioError::new(what).at(format_args!("workload \"{}\"", workload.name)).into());
                }
                if !made.changes().is_empty() {
                    settings.flag(WORKLOAD_SET.name(), vec![made.changes().join(" ")])?;
                }
            }
            (WorkloadOrigin::Synthetic(_), RunRequests::File) => unreachable!("what is synthetic is made"),
        }
        let of_workload = |error| EvidenceError::Run { workload: workload.name.clone(), error };
        let requests = sim::requests(&settings)?;
        SweepGroup::whole(&settings, &requests, &workload.name).map_err(of_workload)
    }
}

impl WorkloadOrigin {
    /// Has only the first of a trace's requests read; what is made is shortened when it is made.
    fn shorten(&mut self) -> Result<(), TraceError> {
        let Self::File { file, format, limit, .. } = self else { return Ok(()) };
        let mut source = destage_trace::open(&*file, &OpenOptions { format: format.clone(), lenient: false })?;
        let (mut batch, mut requests) = (Vec::new(), 0);
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            requests += batch.len() as u64;
        }
        *limit = Some((requests / QUICK).max(1));
        Ok(())
    }
}

/// Returns true if only policies that make deltas look at the setting.
fn is_of_deltas(key: &str) -> bool {
    SIM.iter().any(|known| known.name == key && known.applies_to == AppliesTo::Deltas)
}

/// A setting as it is for a quick look: a warm-up or a limit is shorter, and a share stays one.
fn shorter(key: String, value: String) -> (String, String) {
    let shorter = match key.as_str() {
        "warmup" | "limit" => {
            // A share needs no change: it shortens with the trace.
            let requests = quantity::count(&value).map(|n| if n == 0 { 0 } else { (n / QUICK).max(1) }.to_string());
            requests.or_else(|_| quantity::time(&value).map(|time| format!("{}ns", time.0 / QUICK))).ok()
        }
        _ => None,
    };
    (key, shorter.unwrap_or(value))
}

/// Holds the requests of a run, which are in a file or generated.
enum RunRequests {
    File,
    Made(Box<NamedWorkload>),
}

/// Finds the workload, if it is anywhere: what was recognised as its trace, else a file of one of its names that was not found
/// to be something else.
fn origin(
    workload: &WorkloadEntry,
    folders: &[PathBuf],
    found: Option<&FoundTraces>,
) -> Result<Option<WorkloadOrigin>, ScenarioError> {
    if let Some(name) = &workload.synthetic {
        // What is wrong with it shall be known before anything is run.
        NamedWorkload::named(name)?.open()?;
        return Ok(Some(WorkloadOrigin::Synthetic(name.clone())));
    }
    let at = |error: &dyn std::fmt::Display| ScenarioError::new(error).at(format_args!("workload {}", workload.name));
    let format = workload.format.as_ref().map(|text| text.parse::<FormatSpec>()).transpose();
    let format = format.map_err(|error| at(&error))?;
    let of_file = |file: PathBuf, format| WorkloadOrigin::File { file, format, limit: None, content: None };
    // A file that was recognised by its content counts more than one that has the right name.
    if let Some(recognised) = found.zip(workload.trace.as_ref()).and_then(|(found, trace)| found.of(trace)) {
        return Ok(Some(of_file(recognised.path.clone(), recognised.format.clone())));
    }
    let is_refused = |file: &PathBuf| {
        found.zip(workload.trace.as_ref()).is_some_and(|(found, trace)| found.refusal(file, trace).is_some())
    };
    let files = workload.candidates(folders);
    Ok(files.filter(|file| file.is_file() && !is_refused(file)).map(|file| of_file(file, format.clone())).next())
}

/// Returns the text of a value as a setting has it.
pub(crate) fn text_of(value: &toml::Value) -> Result<String, ScenarioError> {
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
