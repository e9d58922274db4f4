//! A paper as data: the runs that its evaluation made, and what it claims of them. One TOML file per paper in
//! `scenarios/papers`.

use std::collections::BTreeMap;
use std::path::Path;

use destage_scenario::{ScenarioError, quantity};
use serde::Deserialize;

/// A paper's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Paper {
    /// Its short name, as in `destage reproduce NAME`.
    pub name: String,
    /// Title, authors and venue.
    pub title: String,
    /// What was run and how it is compared, as Markdown.
    pub about: String,
    /// What holds and what does not, and why, as Markdown.
    pub verdict: String,
    /// Seeds of each stochastic workload.
    pub seeds: u64,
    /// The policies of every run.
    pub policies: Vec<String>,
    /// Settings of every run: keys of `destage sim`.
    pub settings: BTreeMap<String, toml::Value>,
    /// The workloads.
    pub workload: Vec<WorkloadEntry>,
    /// The claims, in the order in which they are shown.
    pub claim: Vec<Claim>,
    /// Worked examples.
    #[serde(default)]
    pub example: Vec<Example>,
}

/// What a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// The trace that the paper used.
    Original,
    /// A real trace of somebody else.
    Real,
    /// A recording of our own.
    Recording,
    /// Synthetic, with what the paper publishes about its trace.
    StandIn,
    /// The paper's own synthetic workload.
    Synthetic,
}

impl Provenance {
    /// As it is shown.
    pub fn label(self) -> &'static str {
        match self {
            Self::Original => "the paper's own trace",
            Self::Real => "a real trace",
            Self::Recording => "our recording",
            Self::StandIn => "a calibrated stand-in",
            Self::Synthetic => "the paper's synthetic workload",
        }
    }
}

/// A workload of the evaluation, or one that takes its place.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WorkloadEntry {
    /// As it is shown.
    pub name: String,
    /// What it is.
    pub provenance: Provenance,
    /// Which of the paper's workloads it is or stands for: the `workload` of claims.
    pub stands_for: Vec<String>,
    /// A synthetic workload by name, run with several seeds; or else `files`.
    pub synthetic: Option<String>,
    /// File names of a trace; the first that is found is read.
    #[serde(default)]
    pub files: Vec<String>,
    /// The trace's format where its content does not decide.
    pub format: Option<String>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Victim units during the run; fewer is better: `other / new - 1` (specs §0.4).
    Evictions,
    /// Throughput of the analytic model: `new / other - 1`.
    Throughput,
}

impl Metric {
    /// As it is shown.
    pub fn label(self) -> &'static str {
        match self {
            Self::Evictions => "fewer evictions",
            Self::Throughput => "more throughput",
        }
    }
}

/// A claim: by how many percent `new` is better than `than`, over a range of buffer sizes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    /// Its number.
    pub id: String,
    /// Where the paper makes it.
    #[serde(rename = "where")]
    pub place: String,
    /// The paper's workload.
    pub workload: String,
    /// What is compared.
    pub metric: Metric,
    /// The policy that the claim is about.
    pub new: String,
    /// The policy it is compared with.
    pub than: String,
    /// Buffer sizes.
    pub caches: Vec<String>,
    /// Least and greatest improvement over these sizes in percent; `[0, 0]` claims that both are alike.
    pub claimed: [f64; 2],
}

/// A worked example: pages written to an empty buffer, and what the last of them evicts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Example {
    /// Its number.
    pub id: String,
    /// Where the paper shows it.
    #[serde(rename = "where")]
    pub place: String,
    /// What it says.
    pub about: String,
    /// The policy.
    pub policy: String,
    /// Pages that the buffer holds.
    pub capacity: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// The pages written, in order.
    pub writes: Vec<u32>,
    /// What the last write evicts.
    pub evicts: Vec<u32>,
}

/// Settings that a paper's file gives elsewhere, or that have no influence on results.
const RESERVED: &[&str] = &[
    "policy",
    "cache",
    "trace",
    "workload",
    "workload-set",
    "format",
    "lenient",
    "json",
    "csv",
    "timing",
    "progress",
    "threads",
    "memory",
];
/// Pages of an example are few.
const EXAMPLE_PAGES: u32 = 1 << 16;

/// The papers that are built in.
const BUILT_IN: &[(&str, &str)] = &[("lb-clock", include_str!("../../../scenarios/papers/lb-clock.toml"))];

/// Names of the papers that are built in.
pub fn built_in() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

impl Paper {
    /// The built-in paper of this name, or the one in this file: a file's name ends in `.toml`.
    pub fn named(name: &str) -> Result<Self, ScenarioError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(Path::new(&format!("{name}.toml (built in)")), text);
        }
        let file = Path::new(name);
        if file.extension().is_some_and(|end| end == "toml") {
            let mut paper = Self::parse(file, &destage_scenario::read(file)?)?;
            // A workload's file is named from the paper's.
            let folder = file.parent().unwrap_or(Path::new(""));
            for name in paper.workload.iter_mut().filter_map(|workload| workload.synthetic.as_mut()) {
                if Path::new(name.as_str()).extension().is_some_and(|end| end == "toml") {
                    *name = folder.join(name.as_str()).display().to_string();
                }
            }
            return Ok(paper);
        }
        let names: Vec<&str> = built_in().collect();
        Err(ScenarioError::new(format_args!(
            "there is no paper '{name}'; give a file (FILE.toml) or one of {}",
            names.join(", ")
        )))
    }

    /// Reads a paper's text; `file` names it in errors.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ScenarioError> {
        let paper: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| destage_scenario::line_of(text, span.start));
            ScenarioError::new(error.message()).at(format_args!("{}, line {line}", file.display()))
        })?;
        paper.check().map_err(|error| error.at(file.display()))?;
        Ok(paper)
    }

    fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |message: String| Err(ScenarioError::new(message));
        if !(2..=1000).contains(&self.seeds) {
            return wrong(format!("seeds = {}: between 2 and 1000", self.seeds));
        }
        for key in RESERVED {
            if self.settings.contains_key(*key) {
                return wrong(format!("settings: '{key}' follows from the claims and workloads; leave it out"));
            }
        }
        for (i, policy) in self.policies.iter().enumerate() {
            if self.policies[..i].contains(policy) {
                return wrong(format!("policies: \"{policy}\" stands twice"));
            }
        }
        for workload in &self.workload {
            if !self.claim.iter().any(|claim| workload.stands_for.contains(&claim.workload)) {
                return wrong(format!("workload \"{}\": no claim is about what it stands for", workload.name));
            }
            if workload.synthetic.is_some() != workload.files.is_empty() {
                return wrong(format!("workload \"{}\": give either 'synthetic' or 'files'", workload.name));
            }
        }
        for example in &self.example {
            let id = &example.id;
            if example.writes.iter().any(|&page| page >= EXAMPLE_PAGES) {
                return wrong(format!("example {id}: writes: pages are below {EXAMPLE_PAGES}"));
            }
            let bounds = 1..=EXAMPLE_PAGES;
            if !bounds.contains(&example.capacity) || !bounds.contains(&example.pages_per_block) {
                return wrong(format!("example {id}: capacity and pages-per-block: 1 to {EXAMPLE_PAGES}"));
            }
        }
        for claim in &self.claim {
            let id = &claim.id;
            if !self.workload.iter().any(|w| w.stands_for.contains(&claim.workload)) {
                return wrong(format!("claim {id}: no workload stands for \"{}\"", claim.workload));
            }
            for policy in [&claim.new, &claim.than] {
                if !self.policies.contains(policy) {
                    return wrong(format!("claim {id}: \"{policy}\" is not among the policies"));
                }
            }
            if claim.caches.is_empty() {
                return wrong(format!("claim {id}: caches is empty"));
            }
            for cache in &claim.caches {
                quantity::bytes(cache)
                    .map_err(|right| ScenarioError::new(format_args!("claim {id}: caches: '{cache}': {right}")))?;
            }
            let [least, greatest] = claim.claimed;
            if least.abs() > greatest.abs() || least * greatest < 0.0 || !(least + greatest).is_finite() {
                return wrong(format!("claim {id}: claimed is [least, greatest], both of one sign"));
            }
        }
        Ok(())
    }
}

impl Claim {
    /// -1, 0 or 1: worse, alike or better.
    pub fn sign(&self) -> i8 {
        match self.claimed[1] {
            x if x > 0.0 => 1,
            x if x < 0.0 => -1,
            _ => 0,
        }
    }

    /// Its buffer sizes in bytes.
    pub fn cache_bytes(&self) -> impl Iterator<Item = u64> {
        self.caches.iter().filter_map(|cache| quantity::bytes(cache).ok())
    }
}
