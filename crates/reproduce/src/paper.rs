//! A paper as data: the runs that its evaluation made, and what it claims of them. One TOML file
//! per paper in `scenarios/papers`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use destage_scenario::{ScenarioError, path_text, quantity, workload};
use serde::Deserialize;

use crate::counted::CountedPeer;
use crate::figure::PaperFigure;
use crate::metric::ClaimMetric;
use crate::several::{OneOrMany, bytes};

/// A paper's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PaperFile {
    /// Its short name, as in `destage reproduce NAME`.
    pub name: String,
    /// Title, authors and venue.
    pub title: String,
    /// What was run and how it is compared, as Markdown.
    pub about: String,
    /// What holds and what does not, and why, as Markdown, with results in [braces](crate::placeholders).
    pub verdict: String,
    /// Seeds of each stochastic workload.
    pub seeds: u64,
    /// The policies of every run.
    pub policies: Vec<String>,
    /// Settings of every run: keys of `destage sim`.
    pub settings: BTreeMap<String, toml::Value>,
    /// Buffer sizes that are run for the figures, beside those of the claims.
    #[serde(default)]
    pub caches: Vec<String>,
    /// What the figures show of every policy and size.
    #[serde(default = "default_figures")]
    pub figures: Vec<&'static ClaimMetric>,
    /// Other settings under which some runs are made.
    #[serde(default)]
    pub variant: Vec<PaperVariant>,
    /// The workloads.
    pub workload: Vec<WorkloadEntry>,
    /// The claims, in the order in which they are shown.
    #[serde(default)]
    pub claim: Vec<PaperClaim>,
    /// Figures that the paper prints, to stand beside ours.
    #[serde(default)]
    pub value: Vec<PrintedValue>,
    /// What others were counted to do, to stand beside ours.
    #[serde(default)]
    pub counted: Vec<CountedPeer>,
    /// Worked examples.
    #[serde(default)]
    pub example: Vec<WorkedExample>,
    /// Figures to draw, as the paper has them.
    #[serde(default)]
    pub figure: Vec<PaperFigure>,
    /// Why claims do not hold.
    #[serde(default)]
    pub reason: Vec<ClaimReason>,
}

/// Why some claims do not hold, or not in size.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimReason {
    /// As claims name it.
    pub id: String,
    /// A sentence or two, as Markdown, with results in [braces](crate::placeholders).
    pub text: String,
}

/// What a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadProvenance {
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

impl WorkloadProvenance {
    /// Every kind, the nearest to the paper first.
    pub const ALL: [Self; 5] = [Self::Original, Self::Synthetic, Self::StandIn, Self::Real, Self::Recording];

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
    pub provenance: WorkloadProvenance,
    /// Which of the paper's workloads it is or stands for: the `workload` of claims.
    pub stands_for: Vec<String>,
    /// A synthetic workload by name, run with several seeds; or else `files`.
    pub synthetic: Option<String>,
    /// Keys of the synthetic workload that differ, such as its length.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Settings of its runs that differ from the paper's.
    #[serde(default)]
    pub settings: BTreeMap<String, toml::Value>,
    /// File names of a trace; the first that is found is read.
    #[serde(default)]
    pub files: Vec<String>,
    /// The trace's format where its content does not decide.
    pub format: Option<String>,
    /// The trace by its name in the catalogue: whatever file is recognised as it is read, before `files`.
    pub trace: Option<String>,
}

/// Settings that differ from the paper's own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PaperVariant {
    /// Its name, as claims give it.
    pub name: String,
    /// What differs: keys of `destage sim`.
    #[serde(default)]
    pub settings: BTreeMap<String, toml::Value>,
    /// Keys of a synthetic workload that differ.
    #[serde(default)]
    pub workload: BTreeMap<String, toml::Value>,
    /// Policies in whose place another runs, such as the same with another parameter.
    #[serde(default)]
    pub run_as: BTreeMap<String, String>,
    /// Policies that are run for the figures at the paper's own buffer sizes, beside those of the
    /// claims.
    #[serde(default)]
    pub policies: Vec<String>,
}

fn default_figures() -> Vec<&'static ClaimMetric> {
    ["evictions", "throughput"].into_iter().filter_map(ClaimMetric::named).collect()
}

/// What becomes of the improvements at several buffer sizes (and on several workloads, of several
/// pairs of policies).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimOver {
    /// Each size, workload and pair is looked at by itself; the claim holds as far as it holds for the worst.
    #[default]
    Each,
    /// Their mean: "reduces it by so much on average".
    Mean,
    /// What the means of the figure over all of them improve by: "reduces the average by so much".
    Averages,
    /// The best of all.
    Best,
}

/// A claim: by how much `new` is better than `than`, over a range of buffer sizes; in percent, hit
/// ratios in points.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PaperClaim {
    /// Its number.
    pub id: String,
    /// Where the paper makes it.
    #[serde(rename = "where")]
    pub place: String,
    /// The paper's workload, or several.
    pub workload: OneOrMany,
    /// What is compared.
    pub metric: &'static ClaimMetric,
    /// The policy that the claim is about, or several.
    pub new: OneOrMany,
    /// The policy it is compared with, or as many as `new` has.
    pub than: OneOrMany,
    /// The variant under which both are run; without one the paper's own settings.
    #[serde(default)]
    pub at: String,
    /// The variant under which `than` is run, where it is another.
    pub than_at: Option<String>,
    /// Further variants under which both are run as well, to see which assumption decides.
    #[serde(default)]
    pub also_at: Vec<String>,
    /// Buffer sizes under those, where they are fewer.
    pub also_caches: Option<Vec<String>>,
    /// Values are taken relative to those of the same policy and size under this variant: what is
    /// compared is how much they grow.
    pub relative_to: Option<String>,
    /// Buffer sizes.
    pub caches: Vec<String>,
    /// Buffer sizes of `than`, as many, where they are others.
    pub than_caches: Option<Vec<String>>,
    /// Each by itself, their mean, or the best.
    #[serde(default)]
    pub over: ClaimOver,
    /// Least and greatest improvement; `[0, 0]` claims that both are alike.
    pub claimed: [f64; 2],
    /// Only the sign is claimed.
    #[serde(default)]
    pub sign_only: bool,
    /// Sets up to what improvement, either way, the paper calls both alike, in percent or points; without it the metric
    /// decides. For claims of likeness.
    pub alike: Option<f64>,
    /// Sets the greatest improvement that is claimed, where the paper gives an upper bound and nothing else, in percent or points:
    /// "less than 1.55 %", or 0 where `new` is claimed not to be better.
    pub at_most: Option<f64>,
    /// Seeds of its runs, if they are more than the paper's.
    pub seeds: Option<u64>,
    /// Names the claim of the paper of which this is another reading of ours: it is not counted.
    pub reading_of: Option<String>,
    /// Names what the paper claims in one sentence, of which this is a part: all parts of that name count as one claim.
    pub part_of: Option<String>,
    /// The reasons why it does not hold, or not in size.
    #[serde(default)]
    pub why: Vec<String>,
}

/// Figures that the paper prints.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PrintedValue {
    /// Their number.
    pub id: String,
    /// Where the paper prints them.
    #[serde(rename = "where")]
    pub place: String,
    /// The paper's workload.
    pub workload: String,
    /// The policy.
    pub policy: String,
    /// The variant.
    #[serde(default)]
    pub at: String,
    /// The buffer size.
    pub cache: String,
    /// What is measured.
    pub metrics: Vec<&'static ClaimMetric>,
    /// What the paper prints of it, in the unit of its column.
    pub published: Vec<f64>,
}

/// A worked example: pages written to an empty buffer, and what the last of them evicts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WorkedExample {
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
    "report",
    "resume",
    "latency-log",
    "per-volume",
    "timing",
    "progress",
    "threads",
    "memory",
];
/// Pages of an example are few.
const EXAMPLE_PAGES: u32 = 1 << 16;

/// The papers that are built in.
const BUILT_IN: &[(&str, &str)] = &[
    ("gcar", include_str!("../../../scenarios/papers/gcar.toml")),
    ("cawr", include_str!("../../../scenarios/papers/cawr.toml")),
    ("lb-clock", include_str!("../../../scenarios/papers/lb-clock.toml")),
    ("lawc", include_str!("../../../scenarios/papers/lawc.toml")),
    ("kdd", include_str!("../../../scenarios/papers/kdd.toml")),
    ("beyond", include_str!("../../../scenarios/papers/beyond.toml")),
    ("beyond-arrays", include_str!("../../../scenarios/papers/beyond-arrays.toml")),
    ("linux-caches", include_str!("../../../scenarios/papers/linux-caches.toml")),
];

/// Names of the papers that are built in.
pub fn built_in() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

impl WorkloadEntry {
    /// Where its trace may lie, in the order in which it is looked for.
    pub fn candidates<'a>(&'a self, folders: &'a [PathBuf]) -> impl Iterator<Item = PathBuf> + 'a {
        folders.iter().flat_map(|folder| self.files.iter().map(|file| folder.join(file)))
    }
}

impl PaperFile {
    /// The files that may be read to reproduce it with traces from these folders, whether or not
    /// they are there.
    pub fn reads(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        let described = self.workload.iter().filter_map(|workload| workload.synthetic.as_deref());
        let described = described.filter(|name| workload::is_file(name)).map(path_text::path);
        described.chain(self.workload.iter().flat_map(|workload| workload.candidates(folders))).collect()
    }

    /// The built-in paper of this name, or the one in this file: a file's name ends in `.toml`.
    pub fn named(name: &str) -> Result<Self, ScenarioError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(Path::new(&format!("{name}.toml (built in)")), text);
        }
        let file = &*path_text::path(name);
        if file.extension().is_some_and(|end| end == "toml") {
            let mut paper = Self::parse(file, &destage_scenario::read(file)?)?;
            // A workload's file is named from the paper's.
            let folder = file.parent().unwrap_or(Path::new(""));
            for name in paper.workload.iter_mut().filter_map(|workload| workload.synthetic.as_mut()) {
                if Path::new(name.as_str()).extension().is_some_and(|end| end == "toml") {
                    *name = path_text::of(folder.join(path_text::path(name)));
                }
            }
            return Ok(paper);
        }
        let names: Vec<&str> = built_in().collect();
        Err(ScenarioError::new(format_args!(
            "there is no paper '{name}'; give a file (FILE.toml), all, or one of {}",
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
                return wrong(format!("policies: \"{policy}\" is given twice"));
            }
        }
        let used = |workload: &WorkloadEntry| {
            let of_claims = self.claim.iter().flat_map(|claim| claim.workload.all());
            let of_figures = self.figure.iter().flat_map(|figure| figure.workload.all());
            let mut all = of_claims.chain(of_figures).chain(self.value.iter().map(|value| &value.workload));
            !self.caches.is_empty() || all.any(|name| workload.stands_for.contains(name))
        };
        for workload in &self.workload {
            if !used(workload) {
                return wrong(format!(
                    "workload \"{}\": neither a claim nor a figure is about what it stands for",
                    workload.name
                ));
            }
            let is_file = !workload.files.is_empty() || workload.trace.is_some();
            if workload.synthetic.is_some() == is_file {
                return wrong(format!("workload \"{}\": give either 'synthetic' or 'files' or 'trace'", workload.name));
            }
            if let Some(key) = RESERVED.iter().find(|key| workload.settings.contains_key(**key)) {
                return wrong(format!("workload \"{}\": settings: '{key}' cannot be one", workload.name));
            }
            if workload.synthetic.is_none() && !workload.set.is_empty() {
                return wrong(format!(
                    "workload \"{}\": 'set' changes a synthetic workload, not a trace",
                    workload.name
                ));
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
        let mut names = std::collections::BTreeSet::from([""]);
        for variant in &self.variant {
            if !names.insert(variant.name.as_str()) {
                return wrong(format!("variant \"{}\" is given twice, or has no name", variant.name));
            }
            let replaced: Vec<String> = variant.run_as.keys().cloned().collect();
            for policies in [&variant.policies, &replaced] {
                self.known_policies(policies).map_err(|e| e.at(format_args!("variant \"{}\"", variant.name)))?;
            }
            if let Some(key) = RESERVED.iter().find(|key| variant.settings.contains_key(**key)) {
                return wrong(format!("variant \"{}\": settings: '{key}' cannot be one", variant.name));
            }
        }
        let known_variant = |name: &str| {
            if names.contains(name) {
                Ok(())
            } else {
                Err(ScenarioError::new(format_args!("there is no variant \"{name}\"")))
            }
        };
        sizes(&self.caches)?;
        check_figures(self)?;
        self.check_reasons()?;
        for value in &self.value {
            self.check_value(value).and_then(|()| known_variant(&value.at)).map_err(|error| {
                let id = &value.id;
                error.at(format_args!("value {id}"))
            })?;
        }
        for counted in &self.counted {
            let known = || {
                self.known_workloads(std::slice::from_ref(&counted.workload))?;
                known_variant(&counted.at)?;
                counted.check(&self.figures)
            };
            known().map_err(|error| error.at(format_args!("counted \"{}\"", counted.name)))?;
        }
        for claim in &self.claim {
            let variants = [Some(&claim.at), claim.than_at.as_ref(), claim.relative_to.as_ref()];
            let mut variants = variants.into_iter().flatten().chain(&claim.also_at);
            self.check_claim(claim)
                .and_then(|()| variants.try_for_each(|name| known_variant(name)))
                .map_err(|error| error.at(format_args!("claim {}", claim.id)))?;
        }
        Ok(())
    }

    fn known_policies(&self, policies: &[String]) -> Result<(), ScenarioError> {
        match policies.iter().find(|policy| !self.policies.contains(policy)) {
            Some(policy) => Err(ScenarioError::new(format_args!("\"{policy}\" is not among the policies"))),
            None => Ok(()),
        }
    }

    fn known_workloads(&self, names: &[String]) -> Result<(), ScenarioError> {
        match names.iter().find(|name| !self.workload.iter().any(|w| w.stands_for.contains(name))) {
            Some(name) => Err(ScenarioError::new(format_args!("no workload stands for \"{name}\""))),
            None => Ok(()),
        }
    }

    /// Every reason has a name of its own and explains some claim.
    fn check_reasons(&self) -> Result<(), ScenarioError> {
        let wrong = |message: String| Err(ScenarioError::new(message));
        for claim in &self.claim {
            if let Some(why) = claim.why.iter().find(|why| !self.reason.iter().any(|reason| reason.id == **why)) {
                return wrong(format!("claim {}: why: there is no reason \"{why}\"", claim.id));
            }
        }
        for (i, reason) in self.reason.iter().enumerate() {
            let id = &reason.id;
            if self.reason[..i].iter().any(|other| other.id == *id) {
                return wrong(format!("reason \"{id}\" is given twice"));
            }
            if !self.claim.iter().any(|claim| claim.why.contains(id)) {
                return wrong(format!("reason \"{id}\": no claim names it in 'why'"));
            }
        }
        Ok(())
    }

    fn check_value(&self, value: &PrintedValue) -> Result<(), ScenarioError> {
        self.known_policies(std::slice::from_ref(&value.policy))?;
        self.known_workloads(std::slice::from_ref(&value.workload))?;
        sizes(std::slice::from_ref(&value.cache))?;
        if value.metrics.len() != value.published.len() || value.metrics.is_empty() {
            return Err(ScenarioError::new("metrics and published must have as many entries each"));
        }
        Ok(())
    }

    fn check_claim(&self, claim: &PaperClaim) -> Result<(), ScenarioError> {
        let wrong = |message: &str| Err(ScenarioError::new(message));
        self.known_workloads(claim.workload.all())?;
        self.known_policies(claim.new.all())?;
        self.known_policies(claim.than.all())?;
        if claim.workload.all().is_empty() || claim.new.all().is_empty() {
            return wrong("workload and new name at least one");
        }
        if claim.than.all().len() != claim.new.all().len() {
            return wrong("than names as many policies as new");
        }
        if claim.caches.is_empty() {
            return wrong("caches is empty");
        }
        sizes(&claim.caches)?;
        if let Some(than) = &claim.than_caches {
            sizes(than)?;
            if than.len() != claim.caches.len() {
                return wrong("than-caches has as many sizes as caches");
            }
        }
        if !claim.also_at.is_empty() && (claim.than_at.is_some() || claim.relative_to.is_some()) {
            return wrong(
                "also-at runs both policies under one variant, so it goes with neither than-at nor relative-to",
            );
        }
        let repeated = |(i, name): (usize, &String)| *name == claim.at || claim.also_at[..i].contains(name);
        if claim.also_at.iter().enumerate().any(repeated) {
            return wrong("also-at names variants other than 'at', each once");
        }
        if let Some(caches) = &claim.also_caches {
            if claim.also_at.is_empty() || claim.than_caches.is_some() || caches.is_empty() {
                return wrong("also-caches are some of the sizes for also-at, and do not go with than-caches");
            }
            if let Some(other) = caches.iter().find(|cache| !claim.caches.contains(cache)) {
                return wrong(&format!("also-caches: {other} is not among the caches"));
            }
        }
        let [least, greatest] = claim.claimed;
        if least.abs() > greatest.abs() || least * greatest < 0.0 || !(least + greatest).is_finite() {
            return wrong("claimed is [least, greatest], both of one sign");
        }
        if let Some(alike) = claim.alike
            && (claim.sign() != 0 || !(alike > 0.0 && alike.is_finite()))
        {
            return wrong("alike is for claims of likeness, claimed = [0, 0], and is more than 0");
        }
        if claim.sign() == 0 && claim.over != ClaimOver::Each {
            return wrong("claims of likeness and bounds are about each size, workload and pair: leave 'over' out");
        }
        if let Some(most) = claim.at_most
            && (claim.sign() != 0 || claim.alike.is_some() || !most.is_finite())
        {
            return wrong("at-most is for bounds, claimed = [0, 0], and goes with no alike");
        }
        if claim.seeds.is_some_and(|seeds| !(self.seeds..=1000).contains(&seeds)) {
            return wrong(&format!("seeds: between the paper's {} and 1000", self.seeds));
        }
        if claim.part_of.is_some() && claim.reading_of.is_some() {
            return wrong("part-of is for claims that are counted, hence not for other readings");
        }
        if claim.part_of.as_ref().is_some_and(|whole| self.claim.iter().any(|other| other.id == *whole)) {
            return wrong("part-of names what no claim is called");
        }
        if let Some(main) = &claim.reading_of {
            let main = self.claim.iter().find(|other| other.id == *main);
            if main.is_none_or(|main| main.reading_of.is_some()) {
                return wrong("reading-of names a claim that is no other reading itself");
            }
        }
        Ok(())
    }
}

/// Checks buffer sizes.
fn sizes(caches: &[String]) -> Result<(), ScenarioError> {
    caches.iter().try_for_each(|cache| {
        let checked = quantity::bytes(cache);
        checked.map(|_| ()).map_err(|right| ScenarioError::new(format_args!("caches: '{cache}': {right}")))
    })
}

impl PaperClaim {
    /// -1, 0 or 1: worse, alike or better.
    pub fn sign(&self) -> i8 {
        match self.claimed[1] {
            x if x > 0.0 => 1,
            x if x < 0.0 => -1,
            _ => 0,
        }
    }

    /// Returns the greatest difference between two that are alike, in the unit of improvements.
    pub fn likeness(&self) -> f64 {
        self.alike.unwrap_or_else(|| self.metric.likeness())
    }

    /// Whether it says how much.
    pub fn states_size(&self) -> bool {
        !self.sign_only && self.sign() != 0
    }

    /// Its buffer sizes in bytes under a variant: of `new` and of `than`.
    pub fn cache_bytes(&self, at: &str) -> impl Iterator<Item = (u64, u64)> {
        let all = if at == self.at { None } else { self.also_caches.as_ref() };
        let new = all.unwrap_or(&self.caches);
        bytes(new).zip(bytes(self.than_caches.as_ref().unwrap_or(new)))
    }

    /// The variant under which `than` is run where `new` is run under `at`.
    pub fn than_at<'a>(&'a self, at: &'a str) -> &'a str {
        self.than_at.as_deref().unwrap_or(at)
    }

    /// The variants under which it is tried: its own, then the others.
    pub fn variants(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.at).chain(&self.also_at).map(String::as_str)
    }
}

/// Checks a paper's figures: what they name is there.
fn check_figures(paper: &PaperFile) -> Result<(), ScenarioError> {
    let known = |what: &str, name: &str, all: &[&String]| {
        if all.iter().any(|other| *other == name) {
            return Ok(());
        }
        Err(ScenarioError::new(format_args!("there is no {what} \"{name}\"")))
    };
    let workloads: Vec<_> = paper.workload.iter().flat_map(|workload| &workload.stands_for).collect();
    let policies: Vec<_> = paper.policies.iter().collect();
    let variants: Vec<_> = paper.variant.iter().map(|variant| &variant.name).collect();
    for figure in &paper.figure {
        let of_figure = || -> Result<(), ScenarioError> {
            figure.check()?;
            for name in figure.workload.all() {
                known("workload that stands for", name, &workloads)?;
            }
            for (at, policy, _) in figure.runs() {
                known("policy", policy, &policies)?;
                if !at.is_empty() {
                    known("variant", at, &variants)?;
                }
            }
            Ok(())
        };
        of_figure().map_err(|error| error.at(format_args!("figure {}", figure.place)))?;
    }
    Ok(())
}
