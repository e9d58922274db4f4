//! The hits of any policy at any sizes, from miniatures.
//!
//! A buffer of C pages in which a policy sees all pages behaves like one of C / n pages in which it sees one of n pages,
//! chosen by a hash. Each size has eight miniatures, whose samples have no page in common, and one that sees all of these
//! together, eight times as large, which is the estimate. Its hits are taken as the difference from LRU's in the same
//! sample with as many pages, since LRU's hits over all pages are known: what the sample does to both, such as that it has
//! more pages or hotter ones than its share, cancels.
//!
//! Three things can make it wrong. The pages of the sample are some of many: how far the eight differ tells how far it may be
//! off (Student's t). A smaller buffer is not quite a larger one, since fewer pages lie less evenly in time: that error is
//! taken to be at least halved where the miniature is eight times as large, so that it is no more than what the eight are off
//! together from the one. And what concerns few pages may have been missed: of n pages seen it may be 3 / n of all (95 %, the
//! "rule of three"), with as many accesses as other pages have.

use destage_plan::PolicySpec;
use destage_policy::buffer::{self, BufferConfig, PolicyError};
use destage_trace::TraceError;
use rayon::prelude::*;

use super::control::LruControl;
use super::miniature::{BuildMiniature, MiniatureBuffer};
use super::samplable;
use super::sample::{PageSamples, SAMPLES, SampleAction, SampleEvent, SampledUnit, TOGETHER, WEAKEST};
use super::walk::{PageVisitor, TraceWalk};
use super::{CurveScope, PassFindings};
use crate::experiment::{self, ConsumeFeeds, ExperimentError, OpenedInput, RunProgress, RunResources, StopSignal};
use crate::input::{PageSpace, RequestFeed};
use crate::measure::{MeanEstimate, ParamValue};

/// Pages of a miniature, at least, where pages are sampled.
const LEAST_PAGES: u64 = 32;
/// The same where blocks are.
const LEAST_OF_BLOCKS: u64 = 256;
/// Of n pages or blocks seen, what none of them does may be done by this many n-ths of all (95 %).
const UNSEEN: f64 = 3.0;
/// Events that are gathered before the miniatures see them.
const GATHERED: usize = 1 << 16;
/// Bytes that a page takes in the tables of a run that sees all pages, and in the directory of the pages.
const BYTES_PER_PAGE: u64 = 4;
/// Channels that a policy may be told of; none that is sampled chooses any.
const ELEMENTS: u32 = 1;

/// Configures the sampling of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurveSampling {
    /// All samples of a size together have one of 2 to the power of this pages, or of blocks; more of them where the
    /// buffer is small.
    pub strength: u32,
    /// Chooses the pages of the samples.
    pub seed: u64,
}

impl Default for CurveSampling {
    fn default() -> Self {
        Self { strength: 6, seed: 1 }
    }
}

/// The hits of a policy at a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledPoint {
    /// Pages held.
    pub pages: u64,
    /// Hits of all page accesses; `None` of none.
    pub hit_ratio: Option<f64>,
    /// With an interval of 95 %, that reaches so far to both sides; 0 where all pages were seen, so that the ratio is exactly
    /// that of a run.
    pub half_width: f64,
    /// Pages of each miniature; those of the buffer itself where all pages were seen.
    pub miniature_pages: u64,
    /// Counts the miniatures, beside the one of all samples; 1 where all pages were seen.
    pub samples: u32,
    /// The share of all pages, or blocks, that they saw together.
    pub share: f64,
}

/// The hits of a policy at several sizes.
#[derive(Clone, Debug)]
pub struct SampledCurve {
    /// The policy.
    pub policy: PolicySpec,
    /// Lists the policy's parameters in force.
    pub params: Vec<ParamValue>,
    /// In the order of the sizes.
    pub points: Vec<SampledPoint>,
}

/// Why there is no sampled curve.
#[derive(Debug, thiserror::Error)]
pub enum SampledError {
    /// The trace or the machine does not allow it.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The policy could not be built.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The policy is another one on a sample.
    #[error("policy '{policy}' cannot be sampled: it {why}; run it with destage sim")]
    Refused {
        /// The policy as given.
        policy: String,
        /// Says why the policy cannot be sampled.
        why: String,
    },
    /// No buffer has that size.
    #[error("a buffer has from 1 to 2^32 - 3 pages, not {0}")]
    Size(u64),
}

/// Holds the runs that estimate one size of a policy.
struct MeasuredSize {
    policy: usize,
    size: usize,
    /// Pages of each miniature.
    pages: u64,
    /// Names the unit and the strength's index of the samples; none means all pages.
    samples: Option<(SampledUnit, usize)>,
    miniatures: Vec<Box<dyn MiniatureBuffer>>,
}

/// All samples, and what runs on them.
struct CurveSampler {
    walk: TraceWalk,
    pool: rayon::ThreadPool,
    by_unit: Vec<(SampledUnit, PageSamples, Vec<[LruControl; SAMPLES + 1]>)>,
    /// Holds the events of all pages, where some run sees them.
    all: Option<Vec<SampleEvent>>,
    pages: u32,
    measured: Vec<MeasuredSize>,
}

/// Gathers the events of a walk through the trace.
struct WalkGather<'a> {
    by_unit: &'a mut [(SampledUnit, PageSamples, Vec<[LruControl; SAMPLES + 1]>)],
    all: &'a mut Option<Vec<SampleEvent>>,
    pages: &'a mut u32,
}

impl WalkGather<'_> {
    #[inline]
    fn add(&mut self, page: u32, deed: SampleAction) {
        for (_, samples, _) in &mut *self.by_unit {
            samples.add(page, deed);
        }
        if let Some(all) = self.all {
            all.push(SampleEvent { page, deed });
        }
    }

    fn add_to_all(&mut self, deed: SampleAction) {
        for (_, samples, _) in &mut *self.by_unit {
            samples.add_to_all(deed);
        }
        if let Some(all) = self.all {
            all.push(SampleEvent { page: 0, deed });
        }
    }
}

impl PageVisitor for WalkGather<'_> {
    fn grow(&mut self, pages: u32) {
        *self.pages = pages;
    }

    fn measure(&mut self) {
        self.add_to_all(SampleAction::Measure);
    }

    #[inline]
    fn access(&mut self, page: u32, write: bool) {
        self.add(page, if write { SampleAction::Write } else { SampleAction::Read });
    }

    fn write_past(&mut self, page: u32) {
        self.add(page, SampleAction::WritePast);
    }

    fn trim(&mut self, page: u32) {
        self.add(page, SampleAction::Trim);
    }

    fn flush(&mut self) {
        self.add_to_all(SampleAction::Flush);
    }
}

impl ConsumeFeeds for CurveSampler {
    type Outcomes = ();

    fn feed(&mut self, feed: &RequestFeed, _: Option<&StopSignal>) {
        let Self { walk, by_unit, all, pages, .. } = self;
        walk.feed(feed, &mut WalkGather { by_unit, all, pages });
        let waiting = self.by_unit.iter().map(|(_, samples, _)| samples.waiting()).sum::<usize>();
        // Events are gathered so that the threads have enough to do each time.
        if waiting + self.all.as_ref().map_or(0, Vec::len) >= GATHERED {
            self.run();
        }
    }

    fn finish(&mut self, _: Option<&StopSignal>, _: &(dyn Fn(f64) + Sync)) {
        self.run();
    }
}

impl CurveSampler {
    /// Has all miniatures see what was gathered.
    fn run(&mut self) {
        let Self { pool, by_unit, all, pages, measured, .. } = self;
        pool.install(|| {
            for (_, samples, controls) in &mut *by_unit {
                controls.par_iter_mut().zip(&samples.sets).for_each(|(controls, samples)| {
                    controls.iter_mut().zip(samples).for_each(|(control, sample)| control.run(&sample.events));
                });
            }
            let everything = all.as_deref().unwrap_or_default();
            measured.par_iter_mut().for_each(|measured| match measured.samples {
                None => measured.miniatures.iter_mut().for_each(|all| all.run(*pages, everything)),
                Some((unit, strength)) => {
                    let of_unit = by_unit.iter().find(|(known, ..)| *known == unit);
                    let samples = of_unit.map(|(_, samples, _)| &samples.sets[strength]);
                    for (miniature, sample) in measured.miniatures.iter_mut().zip(samples.into_iter().flatten()) {
                        miniature.run(sample.pages, &sample.events);
                    }
                }
            });
        });
        for sample in by_unit.iter_mut().flat_map(|(_, samples, _)| samples.sets.iter_mut().flatten()) {
            sample.events.clear();
        }
        if let Some(all) = all {
            all.clear();
        }
    }
}

/// Returns the strength of the samples of a buffer, and the pages of each miniature; none where all pages are
/// seen.
fn strength(pages: u64, unit: SampledUnit, sampling: CurveSampling) -> Option<(u32, u64)> {
    let least = match unit {
        SampledUnit::Page => LEAST_PAGES,
        SampledUnit::Block => LEAST_OF_BLOCKS,
    };
    let miniature = |strength: u32| {
        let of = (SAMPLES as u64) << strength;
        // The miniature is rounded, not cut: a bias would be the same at all seeds.
        (pages + of / 2) / of
    };
    let weak = (1..=sampling.strength.min(WEAKEST)).rev().find(|&strength| miniature(strength) >= least);
    weak.map(|strength| (strength, miniature(strength)))
}

/// Describes an estimate of curves.
#[derive(Clone, Copy, Debug)]
pub struct CurveEstimate<'a> {
    /// Selects the accesses that take part.
    pub scope: &'a CurveScope,
    /// Holds the findings of [`lru`](super::lru) for the same accesses.
    pub found: &'a PassFindings,
    /// The policies.
    pub policies: &'a [PolicySpec],
    /// The sizes in pages.
    pub sizes: &'a [u64],
    /// Configures the sampling.
    pub sampling: CurveSampling,
}

/// Checks that a policy's hits can be estimated.
///
/// # Errors
/// Says why they cannot.
pub fn check(policy: &PolicySpec) -> Result<(), SampledError> {
    samplable::unit(policy).map(|_| ())
}

/// Estimates the hits of policies at sizes. `open` opens the trace, which is read once.
///
/// # Errors
/// A policy cannot be sampled, a size is none, or the trace cannot be read.
pub fn sampled(
    asked: &CurveEstimate<'_>,
    resources: RunResources<'_>,
    open: &mut dyn FnMut() -> Result<OpenedInput, TraceError>,
    progress: &(dyn Fn(RunProgress) + Sync),
) -> Result<Vec<SampledCurve>, SampledError> {
    let CurveEstimate { scope, found, policies, sizes, sampling } = *asked;
    let mut curves = Vec::new();
    let mut plans = Vec::new();
    for (policy, spec) in policies.iter().enumerate() {
        let unit = samplable::unit(spec)?;
        curves.push(SampledCurve { policy: spec.clone(), params: Vec::new(), points: Vec::new() });
        for (size, &pages) in sizes.iter().enumerate() {
            if !(1..u64::from(u32::MAX) - 1).contains(&pages) {
                return Err(SampledError::Size(pages));
            }
            plans.push((policy, size, pages, unit, strength(pages, unit, sampling)));
        }
    }
    let mut by_unit = Vec::new();
    for unit in [SampledUnit::Page, SampledUnit::Block] {
        let strengths = plans.iter().filter(|plan| plan.3 == unit).filter_map(|plan| plan.4);
        let mut strengths: Vec<u32> = strengths.map(|(strength, _)| strength).collect();
        strengths.sort_unstable();
        strengths.dedup();
        if strengths.is_empty() {
            continue;
        }
        let unit_pages = if unit == SampledUnit::Block { scope.replay.geometry.pages_per_block() } else { 1 };
        let controls = strengths.iter().map(|_| Default::default()).collect();
        by_unit.push((unit, PageSamples::new(unit_pages, sampling.seed, strengths), controls));
    }
    let mut measured = Vec::new();
    for (policy, size, pages, unit, weak) in plans {
        let at = |strength| {
            let (_, samples, _) = by_unit.iter().find(|(known, ..)| *known == unit)?;
            samples.strengths.iter().position(|&known| known == strength)
        };
        let samples = weak.and_then(|(strength, _)| Some((unit, at(strength)?)));
        let (count, pages) = weak.map_or((1, pages), |(_, miniature)| (SAMPLES + 1, miniature));
        let mut miniatures = Vec::new();
        // Eight small samples tell how far samples differ; the union of them all gives the estimate.
        for sample in 0..count {
            let pages = if sample == TOGETHER { SAMPLES as u64 * pages } else { pages };
            let config = BufferConfig {
                capacity_pages: pages as u32,
                pages_per_block: scope.replay.geometry.pages_per_block(),
                elements: ELEMENTS,
            };
            let (miniature, built) = buffer::build(&policies[policy], config, BuildMiniature)?;
            miniatures.push(miniature);
            let params = built.params.into_iter().map(|(name, value)| ParamValue { name: name.into(), value });
            curves[policy].params = params.collect();
        }
        measured.push(MeasuredSize { policy, size, pages, samples, miniatures });
    }
    // Small buffers see all pages: a sample of a few pages would tell nothing.
    let all = measured.iter().any(|measured| measured.samples.is_none()).then(Vec::new);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(resources.threads).build();
    let pool = pool.map_err(|error| ExperimentError::Threads(error.to_string()))?;
    let whole = measured.iter().filter(|measured| measured.samples.is_none()).count() as u64;
    let mut sampler = CurveSampler { walk: TraceWalk::new(scope), pool, by_unit, all, pages: 0, measured };
    let room = resources.memory_bytes / (BYTES_PER_PAGE * (whole + 1));
    let space = PageSpace::unbounded(scope.replay.geometry, u32::try_from(room).unwrap_or(u32::MAX));
    let feeder = scope.replay.feeder(space);
    let input = open().map_err(ExperimentError::from)?;
    let runs = sampler.measured.len() as u32;
    let mut show = |share, requests: u64| progress(RunProgress { share, requests, runs, ..RunProgress::default() });
    experiment::look(&mut sampler, input, feeder, &scope.replay.reading(), &mut show)?;
    sampler.finish(None, &|_| ());
    let accesses = found.lru.accesses().all();
    for measured in &sampler.measured {
        let point = sampler.point(measured, sizes[measured.size], accesses, found);
        curves[measured.policy].points.push(point);
    }
    Ok(curves)
}

impl CurveSampler {
    /// Returns the estimate for a buffer of so many pages.
    fn point(&self, measured: &MeasuredSize, pages: u64, accesses: u64, found: &PassFindings) -> SampledPoint {
        let hits = measured.miniatures.iter().map(|miniature| miniature.hits());
        let ratio = |hits: f64| (accesses > 0).then(|| (hits / accesses as f64).clamp(0.0, 1.0));
        let sampled = measured.samples.and_then(|(unit, at)| {
            let (_, samples, controls) = self.by_unit.iter().find(|(known, ..)| *known == unit)?;
            Some((samples.strengths[at], samples.sets[at][TOGETHER].units(), &controls[at]))
        });
        let Some((strength, units, controls)) = sampled else {
            let hits: u64 = hits.sum();
            return SampledPoint {
                pages,
                hit_ratio: ratio(hits as f64),
                half_width: 0.0,
                miniature_pages: pages,
                samples: 1,
                share: 1.0,
            };
        };
        let share = 1.0 / (1_u64 << strength) as f64;
        let hits: Vec<u64> = hits.collect();
        // LRU over the same sample is the control variate: what the sample does to both cancels.
        let more = |sample: usize, pages: u64| hits[sample] as f64 - controls[sample].hits(pages) as f64;
        // Each sample stands for this many times as many pages.
        let times = SAMPLES as f64 / share;
        let each: Vec<f64> = (0..SAMPLES).map(|sample| more(sample, measured.pages) * times).collect();
        let each = MeanEstimate::of(&each);
        let together = more(TOGETHER, SAMPLES as u64 * measured.pages) / share;
        // The small miniatures and the large one differ by the error of size, which the large one has at
        // most half of.
        let by_size = (together - each.mean).abs();
        // The rule of three bounds the effect of pages that no sample holds.
        let half_width = (each.half_width + by_size).max(UNSEEN * accesses as f64 / units.max(1) as f64);
        SampledPoint {
            pages,
            hit_ratio: ratio(found.lru.hits(pages).all() as f64 + together),
            half_width: ratio(half_width).unwrap_or(0.0),
            miniature_pages: measured.pages,
            samples: SAMPLES as u32,
            share,
        }
    }
}
