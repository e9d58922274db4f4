//! Figures like a paper's own, as data, and what is drawn in them.

use destage_scenario::quantity::show_bytes;
use destage_scenario::{ScenarioError, quantity};
use serde::Deserialize;

use crate::metric::ClaimMetric;
use crate::several::{OneOrMany, bytes};

/// A figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PaperFigure {
    /// Gives the figure's number in the paper.
    #[serde(rename = "where")]
    pub place: String,
    /// Holds the figure's title.
    pub title: String,
    /// The paper's workloads.
    pub workload: OneOrMany,
    /// Names the metric of the figure's values.
    pub metric: &'static ClaimMetric,
    /// Selects the quantity along the horizontal axis (of bars: the vertical one).
    #[serde(default)]
    pub along: FigureAxis,
    /// Buffer sizes; a single one unless they lie along the axis, or policies do.
    pub caches: Vec<String>,
    /// Lists the steps along the axis, where the axis shows variants.
    #[serde(default)]
    pub variants: Vec<AxisStep>,
    /// The lines, or the bars of each group; or, where policies lie along the axis, what lies
    /// there.
    pub lines: Vec<FigureLine>,
    /// Each value is divided by that of this run of the same workload and seed.
    pub relative_to: Option<ReferenceRun>,
}

/// Selects the quantity along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureAxis {
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

impl FigureAxis {
    /// Is true if the figure has bars rather than lines.
    pub fn has_bars(self) -> bool {
        matches!(self, Self::Workloads | Self::Policies)
    }
}

/// A variant along an axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisStep {
    /// As it is shown.
    pub name: String,
    /// The variant; "" for the paper's own settings.
    pub at: String,
}

/// A line, or a bar in each group.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum FigureLine {
    /// A policy under the paper's own settings, under its name.
    Policy(String),
    /// A policy otherwise.
    Run(PolicyRun),
}

/// Describes the policy of one line or bar.
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
pub struct ReferenceRun {
    /// The policy.
    pub policy: String,
    /// The variant; without one that of the run compared.
    pub at: Option<String>,
    /// The buffer size; without one that of the run compared.
    pub cache: Option<String>,
}

/// A run: variant, policy, buffer size.
pub(crate) type RunKey<'a> = (&'a str, &'a str, u64);

pub(crate) fn size(cache: &str) -> u64 {
    quantity::bytes(cache).unwrap_or_default()
}

impl FigureLine {
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

impl PaperFigure {
    /// The names of the points along the axis, without the workloads.
    pub(crate) fn steps(&self) -> Vec<String> {
        match self.along {
            FigureAxis::Caches => bytes(&self.caches).map(show_bytes).collect(),
            FigureAxis::Variants => self.variants.iter().map(|step| step.name.clone()).collect(),
            // The workloads are the steps themselves, and each has one run of a line.
            FigureAxis::Workloads => vec![String::new()],
            FigureAxis::Policies => self.lines.iter().map(|line| line.name().to_owned()).collect(),
        }
    }

    /// The names of what is drawn at each point.
    pub(crate) fn drawn(&self) -> Vec<String> {
        match self.along {
            FigureAxis::Policies => bytes(&self.caches).map(show_bytes).collect(),
            _ => self.lines.iter().map(|line| line.name().to_owned()).collect(),
        }
    }

    /// The run that is drawn of this line (or bar) at a point.
    pub(crate) fn run(&self, drawn: usize, step: usize) -> RunKey<'_> {
        let (line, cache) = match self.along {
            FigureAxis::Policies => (&self.lines[step], &self.caches[drawn]),
            FigureAxis::Caches => (&self.lines[drawn], &self.caches[step]),
            FigureAxis::Variants | FigureAxis::Workloads => (&self.lines[drawn], &self.caches[0]),
        };
        let at = if self.along == FigureAxis::Variants { &self.variants[step].at } else { line.at() };
        (at, line.policy(), size(line.cache().unwrap_or(cache)))
    }

    /// The run that it is compared with.
    pub(crate) fn reference<'a>(&'a self, run: RunKey<'a>) -> Option<RunKey<'a>> {
        let reference = self.relative_to.as_ref()?;
        let at = reference.at.as_deref().unwrap_or(run.0);
        Some((at, &reference.policy, reference.cache.as_deref().map_or(run.2, size)))
    }

    /// Every run that it needs of each of its workloads.
    pub(crate) fn runs(&self) -> impl Iterator<Item = RunKey<'_>> {
        let (drawn, steps) = (self.drawn().len(), self.steps().len());
        let each = (0..drawn).flat_map(move |drawn| (0..steps).map(move |step| self.run(drawn, step)));
        // What a run is compared with has to be run too.
        each.flat_map(|run| std::iter::once(run).chain(self.reference(run)))
    }

    pub(crate) fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |message: &str| Err(ScenarioError::new(message));
        if self.lines.is_empty() || self.caches.is_empty() || self.workload.all().is_empty() {
            return wrong("workload, caches and lines name at least one");
        }
        let own = self
            .lines
            .iter()
            .filter_map(FigureLine::cache)
            .chain(self.relative_to.iter().filter_map(|r| r.cache.as_deref()));
        for cache in self.caches.iter().map(String::as_str).chain(own) {
            quantity::bytes(cache).map_err(|right| ScenarioError::new(format_args!("cache '{cache}': {right}")))?;
        }
        match self.along {
            FigureAxis::Caches | FigureAxis::Policies if self.lines.iter().any(|line| line.cache().is_some()) => {
                wrong("'caches' are for all lines here; a line has none of its own")
            }
            FigureAxis::Variants | FigureAxis::Workloads if self.caches.len() > 1 => {
                wrong("'caches' is a single one unless caches or policies lie along the axis")
            }
            FigureAxis::Variants if self.variants.is_empty() || self.lines.iter().any(|line| !line.at().is_empty()) => {
                wrong("the variants lie along the axis: 'variants' names them, and a line has none of its own")
            }
            FigureAxis::Caches | FigureAxis::Workloads | FigureAxis::Policies if !self.variants.is_empty() => {
                wrong("'variants' are for along = \"variants\"")
            }
            _ => Ok(()),
        }
    }
}
