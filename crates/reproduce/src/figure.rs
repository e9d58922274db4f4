//! Figures like a paper's own, as data, and what is drawn in them.

use destage_scenario::quantity::show_bytes;
use destage_scenario::{ScenarioError, quantity};
use serde::Deserialize;

use crate::metric::Metric;
use crate::paper::{Paper, Provenance, Several, WorkloadEntry, bytes};
use crate::reproduce::{Reproduction, Results};
use crate::stats::Estimate;

/// A figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Figure {
    /// Its number in the paper.
    #[serde(rename = "where")]
    pub place: String,
    /// What it shows.
    pub title: String,
    /// The paper's workloads.
    pub workload: Several,
    /// What is measured.
    pub metric: &'static Metric,
    /// What lies along the horizontal axis (of bars: the vertical one).
    #[serde(default)]
    pub along: Along,
    /// Buffer sizes; a single one unless they lie along the axis, or policies do.
    pub caches: Vec<String>,
    /// What lies along the axis, where that is variants.
    #[serde(default)]
    pub variants: Vec<Step>,
    /// The lines, or the bars of each group; or, where policies lie along the axis, what lies
    /// there.
    pub lines: Vec<Line>,
    /// Each value is divided by that of this run of the same workload and seed.
    pub relative_to: Option<Reference>,
}

/// What lies along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Along {
    /// Buffer sizes: lines, a chart for each workload.
    #[default]
    Caches,
    /// Variants of the settings: lines, a chart for each workload.
    Variants,
    /// Workloads: bars, all in one chart.
    Workloads,
    /// Policies: bars, one for each buffer size, a chart for each workload.
    Policies,
}

impl Along {
    /// Whether bars are drawn, not lines.
    pub fn has_bars(self) -> bool {
        matches!(self, Self::Workloads | Self::Policies)
    }
}

/// A variant along an axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// As it is shown.
    pub name: String,
    /// The variant; "" for the paper's own settings.
    pub at: String,
}

/// A line, or a bar in each group.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// A policy under the paper's own settings, under its name.
    Policy(String),
    /// A policy otherwise.
    Run(PolicyRun),
}

/// What a line shows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRun {
    /// As it is shown.
    pub name: String,
    /// The policy.
    pub policy: String,
    /// The variant, unless variants lie along the axis.
    #[serde(default)]
    pub at: String,
    /// The buffer size where it is not the figure's.
    pub cache: Option<String>,
}

/// A run that others are compared with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The policy.
    pub policy: String,
    /// The variant; without one that of the run compared.
    pub at: Option<String>,
    /// The buffer size; without one that of the run compared.
    pub cache: Option<String>,
}

/// A run: variant, policy, buffer size.
type Key<'a> = (&'a str, &'a str, u64);

fn size(cache: &str) -> u64 {
    quantity::bytes(cache).unwrap_or_default()
}

impl Line {
    fn name(&self) -> &str {
        match self {
            Self::Policy(name) => name,
            Self::Run(run) => &run.name,
        }
    }

    fn policy(&self) -> &str {
        match self {
            Self::Policy(policy) => policy,
            Self::Run(run) => &run.policy,
        }
    }

    fn at(&self) -> &str {
        match self {
            Self::Policy(_) => "",
            Self::Run(run) => &run.at,
        }
    }

    fn cache(&self) -> Option<&str> {
        match self {
            Self::Policy(_) => None,
            Self::Run(run) => run.cache.as_deref(),
        }
    }
}

impl Figure {
    /// The names of the points along the axis, without the workloads.
    fn steps(&self) -> Vec<String> {
        match self.along {
            Along::Caches => bytes(&self.caches).map(show_bytes).collect(),
            Along::Variants => self.variants.iter().map(|step| step.name.clone()).collect(),
            Along::Workloads => vec![String::new()],
            Along::Policies => self.lines.iter().map(|line| line.name().to_owned()).collect(),
        }
    }

    /// The names of what is drawn at each point.
    fn drawn(&self) -> Vec<String> {
        match self.along {
            Along::Policies => bytes(&self.caches).map(show_bytes).collect(),
            _ => self.lines.iter().map(|line| line.name().to_owned()).collect(),
        }
    }

    /// The run that is drawn of this line (or bar) at a point.
    fn run(&self, drawn: usize, step: usize) -> Key<'_> {
        let (line, cache) = match self.along {
            Along::Policies => (&self.lines[step], &self.caches[drawn]),
            Along::Caches => (&self.lines[drawn], &self.caches[step]),
            Along::Variants | Along::Workloads => (&self.lines[drawn], &self.caches[0]),
        };
        let at = if self.along == Along::Variants { &self.variants[step].at } else { line.at() };
        (at, line.policy(), size(line.cache().unwrap_or(cache)))
    }

    /// The run that it is compared with.
    fn reference<'a>(&'a self, run: Key<'a>) -> Option<Key<'a>> {
        let reference = self.relative_to.as_ref()?;
        let at = reference.at.as_deref().unwrap_or(run.0);
        Some((at, &reference.policy, reference.cache.as_deref().map_or(run.2, size)))
    }

    /// Every run that it needs of each of its workloads.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Key<'_>> {
        let (drawn, steps) = (self.drawn().len(), self.steps().len());
        let each = (0..drawn).flat_map(move |drawn| (0..steps).map(move |step| self.run(drawn, step)));
        each.flat_map(|run| std::iter::once(run).chain(self.reference(run)))
    }

    pub(crate) fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |message: &str| Err(ScenarioError::new(message));
        if self.lines.is_empty() || self.caches.is_empty() || self.workload.all().is_empty() {
            return wrong("workload, caches and lines name at least one");
        }
        let own =
            self.lines.iter().filter_map(Line::cache).chain(self.relative_to.iter().filter_map(|r| r.cache.as_deref()));
        for cache in self.caches.iter().map(String::as_str).chain(own) {
            quantity::bytes(cache).map_err(|right| ScenarioError::new(format_args!("cache '{cache}': {right}")))?;
        }
        match self.along {
            Along::Caches | Along::Policies if self.lines.iter().any(|line| line.cache().is_some()) => {
                wrong("'caches' are for all lines here; a line has none of its own")
            }
            Along::Variants | Along::Workloads if self.caches.len() > 1 => {
                wrong("'caches' is a single one unless caches or policies lie along the axis")
            }
            Along::Variants if self.variants.is_empty() || self.lines.iter().any(|line| !line.at().is_empty()) => {
                wrong("the variants lie along the axis: 'variants' names them, and a line has none of its own")
            }
            Along::Caches | Along::Workloads | Along::Policies if !self.variants.is_empty() => {
                wrong("'variants' are for along = \"variants\"")
            }
            _ => Ok(()),
        }
    }
}

/// A chart of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel<'a> {
    /// The workload and what it is; none where workloads lie along the axis.
    pub workload: Option<(&'a str, Provenance)>,
    /// The points along the axis.
    pub steps: Vec<String>,
    /// The lines: name and values, each with its interval, in the metric's unit or relative; none
    /// where a run is saturated or does not show the metric.
    pub lines: Vec<(String, Vec<Option<Estimate>>)>,
}

/// The charts of a figure: of those workloads that are here.
pub fn panels<'a>(figure: &'a Figure, reproduction: &'a Reproduction<'_>) -> Vec<Panel<'a>> {
    let paper = reproduction.paper;
    let stands_for =
        |workload: &WorkloadEntry| figure.workload.all().iter().position(|name| workload.stands_for.contains(name));
    let all = paper.workload.iter().zip(&reproduction.results);
    let mut here: Vec<(&WorkloadEntry, &Results)> =
        all.filter(|(workload, results)| stands_for(workload).is_some() && !results.is_empty()).collect();
    let rank = |kind: Provenance| Provenance::ALL.into_iter().position(|other| other == kind);
    here.sort_by_key(|(workload, _)| (rank(workload.provenance), stands_for(workload)));
    let lines = |points: &dyn Fn(usize) -> Vec<Option<Estimate>>| -> Vec<_> {
        figure.drawn().into_iter().enumerate().map(|(drawn, name)| (name, points(drawn))).collect()
    };
    if figure.along == Along::Workloads {
        if here.is_empty() {
            return Vec::new();
        }
        let steps = here.iter().map(|(workload, _)| workload.name.clone()).collect();
        let of = |drawn| here.iter().map(|(_, results)| point(figure, results, figure.run(drawn, 0))).collect();
        return vec![Panel { workload: None, steps, lines: lines(&of) }];
    }
    let panel = |(workload, results): (&'a WorkloadEntry, &Results)| {
        let steps = figure.steps();
        let of = |drawn| (0..steps.len()).map(|step| point(figure, results, figure.run(drawn, step))).collect();
        let lines = lines(&of);
        Panel { workload: Some((workload.name.as_str(), workload.provenance)), steps, lines }
    };
    here.into_iter().map(panel).collect()
}

/// The mean over the seeds.
fn point(figure: &Figure, results: &Results, run: Key<'_>) -> Option<Estimate> {
    let of = |(at, policy, cache): Key<'_>| -> Option<Vec<f64>> {
        results.of(at, policy, cache).iter().map(|run| figure.metric.of(run)).collect()
    };
    let own = of(run).filter(|values| !values.is_empty())?;
    let values: Vec<f64> = match figure.reference(run) {
        None => own.iter().map(|value| value / figure.metric.scale().0).collect(),
        // The same seed is the same trace, so that runs are compared in pairs.
        Some(reference) => own.iter().zip(of(reference)?).map(|(value, base)| value / base).collect(),
    };
    values.iter().all(|value| value.is_finite()).then(|| Estimate::of(&values))
}

/// What stands at the axis of values.
pub fn axis(figure: &Figure) -> String {
    let Some(reference) = &figure.relative_to else { return figure.metric.heading.to_owned() };
    let cache = reference.cache.as_deref().map_or_else(String::new, |cache| format!(", {}", show_bytes(size(cache))));
    let at = reference.at.as_deref().filter(|at| !at.is_empty()).map_or_else(String::new, |at| format!(", {at}"));
    format!("{}, {}{cache}{at} = 1", figure.metric.words, reference.policy)
}

/// Checks a paper's figures: what they name is there.
pub(crate) fn check(paper: &Paper) -> Result<(), ScenarioError> {
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
