//! Miss-ratio curves: hits at many sizes, of LRU exactly and of other policies by samples (docs/sizes.md).

use std::fmt;

use destage_plan::PolicySpec;
use destage_policy::buffer;
use destage_sim::curve::{self, CurveEstimate, CurveResult, CurveSampling, CurveScope, PassFindings, SampledError};
use destage_sim::experiment::{ExperimentError, RunProgress};
use destage_trace::TraceError;

use crate::keys::cache::POLICY;
use crate::quantity::{basis_points, show_bytes};
use crate::sim::{self, SimulatedRequests};
use crate::{CacheSize, CountError, ScenarioError, ScenarioSettings, chosen, count};

/// Lists the settings of `destage sim` that decide about hits without a device, or how a trace is read.
pub const MRC_SETTINGS: &[&str] = &[
    "format",
    "lenient",
    "skip",
    "from",
    "to",
    "limit",
    "repeat",
    "volumes",
    "ops",
    "page",
    "pages-per-block",
    "flush",
    "trim",
    "warmup",
    "speed",
    "progress",
    "threads",
    "memory",
];

/// Holds the sizes where none are given.
pub const DEFAULT_SIZES: &str = "0.1%..100%/16";
/// Holds the policy where none is given.
pub const DEFAULT_POLICY: &str = "lru";
/// Holds the share of the pages in the samples where none is given.
pub const DEFAULT_RATE: &str = "1.56%";
/// Holds the seed of samples where none is given.
pub const DEFAULT_SEED: u64 = 1;

/// Says what is wrong with what was asked, under the name that it has with every caller: `sizes`, `policy` or `rate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongArgument {
    /// Names it, without dashes.
    pub name: &'static str,
    /// Holds what was given, if one value is wrong by itself.
    pub value: Option<String>,
    /// Says what would be right.
    pub right: String,
}

/// Says why there are no curves.
#[derive(Debug, thiserror::Error)]
pub enum MrcError {
    /// Names what was asked wrongly.
    #[error("{}", .0.named(""))]
    Argument(WrongArgument),
    /// Tells of a setting.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Tells of the length of the trace.
    #[error(transparent)]
    Count(#[from] CountError),
    /// Tells of the trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Tells of a pass over the trace.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// Tells of samples.
    #[error(transparent)]
    Sampled(#[from] SampledError),
}

impl WrongArgument {
    /// Returns the message, with the name as its caller writes it: `--` in front on the command line.
    pub fn named(&self, dashes: &str) -> String {
        let Self { name, value, right } = self;
        let equals = if dashes.is_empty() { "=" } else { " " };
        let value = value.as_ref().map_or_else(String::new, |value| format!("{equals}{value}"));
        format!("{dashes}{name}{value}: {right}")
    }
}

fn wrong(name: &'static str, value: &str, right: impl fmt::Display) -> MrcError {
    MrcError::Argument(WrongArgument { name, value: Some(value.to_owned()), right: right.to_string() })
}

/// Asks for curves.
#[derive(Clone, Debug)]
pub struct MrcQuery {
    sizes: Vec<CacheSize>,
    policies: Vec<PolicySpec>,
    sampling: CurveSampling,
}

impl MrcQuery {
    /// Reads what is asked: sizes as `destage trace mrc --sizes` takes them, policies with their parameters, the least share of
    /// the pages in the samples, such as `5%`, and a seed, which decides which pages these are.
    ///
    /// # Errors
    /// Fails where one of them is none, or a policy's hits cannot be told without a device.
    pub fn new(
        sizes: impl IntoIterator<Item = impl AsRef<str>>,
        policies: impl IntoIterator<Item = impl AsRef<str>>,
        rate: &str,
        seed: u64,
    ) -> Result<Self, MrcError> {
        let size = |text: &str| text.parse().map_err(|right: String| wrong("sizes", text, right));
        let spec = |text: &str| {
            let spec = text.parse::<PolicySpec>().map_err(|error| wrong("policy", text, error))?;
            let spec = buffer::canonical(spec);
            curve::check(&spec).map_err(|error| wrong("policy", text, error))?;
            Ok(spec)
        };
        Ok(Self {
            sizes: sizes.into_iter().map(|text| size(text.as_ref())).collect::<Result<_, _>>()?,
            policies: policies.into_iter().map(|text| spec(text.as_ref())).collect::<Result<_, MrcError>>()?,
            sampling: CurveSampling { strength: strength(rate)?, seed },
        })
    }

    /// Finds the curves of a trace, which is read once, and a second time for policies whose hits are estimated. `found` hears
    /// of what LRU's pass found before the second one begins.
    ///
    /// # Errors
    /// Fails where a setting or a size is wrong, or the trace cannot be read, as a pipe a second time.
    pub fn curves(
        &self,
        mut settings: ScenarioSettings,
        mut requests: SimulatedRequests,
        found: &mut dyn FnMut(&PassFindings),
        progress: &(dyn Fn(RunProgress) + Sync),
    ) -> Result<CurveResult, MrcError> {
        settings.flag(POLICY.name(), vec![DEFAULT_POLICY.to_owned()])?;
        // LRU's curve comes exactly from the first pass; all others are sampled in a second one.
        let rest: Vec<PolicySpec> = self.policies.iter().filter(|policy| !is_exact(policy)).cloned().collect();
        if let Some(first) = rest.first()
            && !requests.can_be_read_again()
        {
            let right = "all but lru take a second pass, and a pipe can be read only once: give a file";
            return Err(wrong("policy", &first.to_string(), right));
        }
        count(&settings, &mut requests, &mut |_, _| ())?;
        let experiment = sim::experiment(&settings, &requests)?;
        let scope = CurveScope::from(&experiment);
        let resources = sim::resources(&settings)?;
        let of_lru = curve::lru(&scope, resources, &mut || requests.open(0), progress)?;
        found(&of_lru);
        let page = scope.replay.geometry.page_bytes();
        let sizes = self.sizes(page, &of_lru)?;
        let mut estimates = Vec::new();
        if !rest.is_empty() {
            let pages: Vec<u64> = sizes.iter().map(|bytes| bytes / page).collect();
            let asked = CurveEstimate {
                scope: &scope,
                found: &of_lru,
                policies: &rest,
                sizes: &pages,
                sampling: self.sampling,
            };
            estimates = curve::sampled(&asked, resources, &mut || requests.open(1), progress)?;
        }
        let mut estimates = estimates.into_iter();
        let curves = self.policies.iter().filter_map(|policy| {
            if is_exact(policy) {
                Some(of_lru.lru_curve(&sizes))
            } else {
                estimates.next().map(|curve| curve.result(page))
            }
        });
        Ok(CurveResult::new(&scope, &of_lru, curves.collect()))
    }

    /// Returns the sizes in bytes, in order.
    fn sizes(&self, page: u64, found: &PassFindings) -> Result<Vec<u64>, MrcError> {
        let wrong = |right| MrcError::Argument(WrongArgument { name: "sizes", value: None, right });
        let mut sizes = chosen(&self.sizes, page, Some(found)).map_err(wrong)?;
        // Shares and ranges may cross, and a curve is read from left to right.
        sizes.sort_unstable();
        match sizes.iter().find(|&&bytes| bytes == 0 || !bytes.is_multiple_of(page)) {
            Some(&bytes) => {
                Err(wrong(format!("{} is not one or several pages of {}", show_bytes(bytes), show_bytes(page))))
            }
            None => Ok(sizes),
        }
    }
}

/// Returns true if LRU's exact curve is that of the policy.
fn is_exact(policy: &PolicySpec) -> bool {
    policy.name == "lru" && policy.given.iter().all(|(key, value)| key == "reads" && value == "cache")
}

/// Returns the least strength of samples whose share is no less than this.
fn strength(rate: &str) -> Result<u32, MrcError> {
    let share = basis_points(rate).ok().filter(|&share| share > 0);
    let share =
        share.ok_or_else(|| wrong("rate", rate, "a share above 0% and up to 100%, with at most two decimals"))?;
    // Samples are of one page in a power of two, so that the rate is rounded to the next larger one.
    Ok((10_000 / share).ilog2())
}
