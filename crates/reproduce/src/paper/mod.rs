//! A paper as data: the runs that its evaluation made, and what it claims of them. One TOML file
//! per paper in `scenarios/papers`.

pub mod assumption;
mod checks;
mod example;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use destage_scenario::{ScenarioError, path_text, workload};
use serde::Deserialize;

use self::assumption::OpenAssumption;
pub(crate) use self::example::ExampleRequest;
pub use self::example::{ArrayExample, BufferExample, WorkedExample};
use crate::counted::CountedPeer;
use crate::figure::PaperFigure;
use crate::metric::ClaimMetric;
use crate::several::{OneOrMany, bytes};

/// Holds a paper's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PaperFile {
    /// Names the paper, as in `destage reproduce NAME`.
    pub name: String,
    /// Names title, authors and venue.
    pub title: String,
    /// Describes the paper's runs and how this evaluation compares them, as Markdown.
    pub about: String,
    /// Summarises which claims hold, which do not and why, as Markdown, with results in
    /// [braces](crate::placeholders).
    pub verdict: String,
    /// Seeds of each stochastic workload.
    pub seeds: u64,
    /// Lists the policies of every run.
    pub policies: Vec<String>,
    /// Settings of every run: keys of `destage sim`.
    pub settings: BTreeMap<String, toml::Value>,
    /// Lists buffer sizes that are run for the figures, beside those of the claims.
    #[serde(default)]
    pub caches: Vec<String>,
    /// Lists the metrics that the tables show for every policy and size.
    #[serde(default = "default_figures")]
    pub figures: Vec<&'static ClaimMetric>,
    /// Lists other settings under which some runs are made.
    #[serde(default)]
    pub variant: Vec<PaperVariant>,
    /// Lists the workloads.
    pub workload: Vec<WorkloadEntry>,
    /// Lists the claims, in the order in which they are shown.
    #[serde(default)]
    pub claim: Vec<PaperClaim>,
    /// Figures that the paper prints, to stand beside ours.
    #[serde(default)]
    pub value: Vec<PrintedValue>,
    /// Lists published counts of other implementations, shown beside ours.
    #[serde(default)]
    pub counted: Vec<CountedPeer>,
    /// Lists worked examples.
    #[serde(default)]
    pub example: Vec<WorkedExample>,
    /// Figures to draw, as the paper has them.
    #[serde(default)]
    pub figure: Vec<PaperFigure>,
    /// Lists the reasons why claims do not hold.
    #[serde(default)]
    pub reason: Vec<ClaimReason>,
    /// Lists what the paper leaves open, for a [search](crate::search).
    #[serde(default)]
    pub assumption: Vec<OpenAssumption>,
    /// Policies in whose place another runs, unless a variant says otherwise: what a search tries.
    #[serde(skip)]
    pub run_as: BTreeMap<String, String>,
}

/// Explains why some claims do not hold, or not in size.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimReason {
    /// Names the reason, as claims do.
    pub id: String,
    /// Holds a sentence or two, as Markdown, with results in [braces](crate::placeholders).
    pub text: String,
}

/// Says how a workload relates to the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadProvenance {
    /// Marks the trace that the paper used.
    Original,
    /// Marks a real trace of somebody else.
    Real,
    /// Marks a recording of our own.
    Recording,
    /// Marks a synthetic workload, with what the paper publishes about its trace.
    StandIn,
    /// Marks the paper's own synthetic workload.
    Synthetic,
}

impl WorkloadProvenance {
    /// Lists every kind, the nearest to the paper first.
    pub const ALL: [Self; 5] = [Self::Original, Self::Synthetic, Self::StandIn, Self::Real, Self::Recording];

    /// Returns the name, as it is shown.
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

/// Describes a workload of the evaluation, or one that takes its place.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WorkloadEntry {
    /// Names the workload, as it is shown.
    pub name: String,
    /// Says how the workload relates to the paper's.
    pub provenance: WorkloadProvenance,
    /// Names the paper's workloads that this one is or stands for: the `workload` of claims.
    pub stands_for: Vec<String>,
    /// Names a synthetic workload, run with several seeds; or else `files`.
    pub synthetic: Option<String>,
    /// Keys of the synthetic workload that differ, such as its length.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Settings of its runs that differ from the paper's.
    #[serde(default)]
    pub settings: BTreeMap<String, toml::Value>,
    /// Lists file names of a trace; the first that is found is read.
    #[serde(default)]
    pub files: Vec<String>,
    /// Names the trace's format where its content does not decide.
    pub format: Option<String>,
    /// Names the trace in the catalogue: whatever file is recognised as it is read, before `files`.
    pub trace: Option<String>,
}

/// Settings that differ from the paper's own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PaperVariant {
    /// Names the variant, as claims give it.
    pub name: String,
    /// Lists the keys of `destage sim` that differ from the paper's settings.
    #[serde(default)]
    pub settings: BTreeMap<String, toml::Value>,
    /// Keys of a synthetic workload that differ.
    #[serde(default)]
    pub workload: BTreeMap<String, toml::Value>,
    /// Policies in whose place another runs, such as the same with another parameter.
    #[serde(default)]
    pub run_as: BTreeMap<String, String>,
    /// Policies that are run for the figures at the paper's own buffer sizes, beside those of the claims.
    #[serde(default)]
    pub policies: Vec<String>,
}

fn default_figures() -> Vec<&'static ClaimMetric> {
    ["evictions", "throughput"].into_iter().filter_map(ClaimMetric::named).collect()
}

/// Selects how a claim combines the improvements at several buffer sizes (and on several workloads, or of
/// several pairs of policies).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimOver {
    /// Grades each size, workload and pair by itself; the claim holds as far as it holds for the worst.
    #[default]
    Each,
    /// Takes the mean of the improvements: "reduces it by so much on average".
    Mean,
    /// Takes the improvement of the means of the figure over all of them: "reduces the average by so much".
    Averages,
    /// Takes the best of all.
    Best,
}

/// States a claim: by how much `new` is better than `than`, over a range of buffer sizes; in percent, hit ratios in points.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PaperClaim {
    /// Identifies the claim.
    pub id: String,
    /// Says where the paper makes the claim.
    #[serde(rename = "where")]
    pub place: String,
    /// Names the paper's workload, or several.
    pub workload: OneOrMany,
    /// Names the compared metric.
    pub metric: &'static ClaimMetric,
    /// Names the policy that the claim is about, or several.
    pub new: OneOrMany,
    /// Names the policy it is compared with, or as many as `new` has.
    pub than: OneOrMany,
    /// Names the paper's workload on which `than` is run, where it is another than that of `new`.
    pub than_workload: Option<String>,
    /// Names the variant under which both are run; without one the paper's own settings.
    #[serde(default)]
    pub at: String,
    /// Names the variant under which `than` is run, where it is another.
    pub than_at: Option<String>,
    /// Lists further variants under which both are run as well, to see which assumption decides.
    #[serde(default)]
    pub also_at: Vec<String>,
    /// Lists buffer sizes under those, where they are fewer.
    pub also_caches: Option<Vec<String>>,
    /// Values are taken relative to those of the same policy and size under this variant: what is
    /// compared is how much they grow.
    pub relative_to: Option<String>,
    /// Lists buffer sizes.
    pub caches: Vec<String>,
    /// Lists buffer sizes of `than`, as many, where they are others.
    pub than_caches: Option<Vec<String>>,
    /// Selects each by itself, their mean, or the best.
    #[serde(default)]
    pub over: ClaimOver,
    /// Holds the least and greatest improvement; `[0, 0]` claims that both are alike.
    pub claimed: [f64; 2],
    /// Tells that only the sign is claimed.
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
    /// Names the reasons why it does not hold, or not in size.
    #[serde(default)]
    pub why: Vec<String>,
}

/// Figures that the paper prints.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PrintedValue {
    /// Identifies the values.
    pub id: String,
    /// Says where the paper prints the values.
    #[serde(rename = "where")]
    pub place: String,
    /// Names the paper's workload.
    pub workload: String,
    /// Names the policy.
    pub policy: String,
    /// Names the variant.
    #[serde(default)]
    pub at: String,
    /// Sets the buffer size.
    pub cache: String,
    /// Names the measured metrics.
    pub metrics: Vec<&'static ClaimMetric>,
    /// Lists the printed value of each metric, in the unit of the metric's column.
    pub published: Vec<f64>,
}

/// Lists the papers that are built in.
const BUILT_IN: &[(&str, &str)] = &[
    ("gcar", include_str!("../../../../scenarios/papers/gcar.toml")),
    ("cawr", include_str!("../../../../scenarios/papers/cawr.toml")),
    ("lb-clock", include_str!("../../../../scenarios/papers/lb-clock.toml")),
    ("lawc", include_str!("../../../../scenarios/papers/lawc.toml")),
    ("kdd", include_str!("../../../../scenarios/papers/kdd.toml")),
    ("beyond", include_str!("../../../../scenarios/papers/beyond.toml")),
    ("beyond-arrays", include_str!("../../../../scenarios/papers/beyond-arrays.toml")),
    ("linux-caches", include_str!("../../../../scenarios/papers/linux-caches.toml")),
];

/// Names of the papers that are built in.
pub fn built_in() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

impl WorkloadEntry {
    /// Lists the possible paths of the workload's trace, in the order of the search.
    pub fn candidates<'a>(&'a self, folders: &'a [PathBuf]) -> impl Iterator<Item = PathBuf> + 'a {
        folders.iter().flat_map(|folder| self.files.iter().map(|file| folder.join(file)))
    }
}

impl PaperFile {
    /// Lists the files that may be read to reproduce it with traces from these folders, whether or not they are there.
    pub fn reads(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        let described = self.workload.iter().filter_map(|workload| workload.synthetic.as_deref());
        let described = described.filter(|name| workload::is_file(name)).map(path_text::path);
        described.chain(self.workload.iter().flat_map(|workload| workload.candidates(folders))).collect()
    }

    /// Returns the built-in paper of this name, or the one in this file: a file's name ends in `.toml`.
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
}

impl PaperClaim {
    /// Returns -1, 0 or 1: worse, alike or better.
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

    /// Lists the paper's workloads that it is about, that of `than` last if it is another.
    pub fn workloads(&self) -> impl Iterator<Item = &String> {
        self.workload.all().iter().chain(&self.than_workload)
    }

    /// Returns true if the claim says how much.
    pub fn states_size(&self) -> bool {
        !self.sign_only && self.sign() != 0
    }

    /// Returns the claim's pairs of buffer sizes in bytes under a variant: of `new` and of `than`.
    pub fn cache_bytes(&self, at: &str) -> impl Iterator<Item = (u64, u64)> {
        let all = if at == self.at { None } else { self.also_caches.as_ref() };
        let new = all.unwrap_or(&self.caches);
        bytes(new).zip(bytes(self.than_caches.as_ref().unwrap_or(new)))
    }

    /// Returns the variant under which `than` is run where `new` is run under `at`.
    pub fn than_at<'a>(&'a self, at: &'a str) -> &'a str {
        self.than_at.as_deref().unwrap_or(at)
    }

    /// Returns the variants under which it is tried: its own, then the others.
    pub fn variants(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.at).chain(&self.also_at).map(String::as_str)
    }
}
