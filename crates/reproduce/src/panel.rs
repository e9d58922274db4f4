//! Figures as charts: what was measured of each line at each point.

use destage_scenario::quantity::show_bytes;
use destage_sim::measure::MeanEstimate;

use crate::figure::{FigureAxis, PaperFigure, RunKey, size};
use crate::paper::{WorkloadEntry, WorkloadProvenance};
use crate::reproduce::{PaperReproduction, WorkloadResults};

/// A chart of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct FigurePanel<'a> {
    /// The workload and what it is; none where workloads lie along the axis.
    pub workload: Option<(&'a str, WorkloadProvenance)>,
    /// The points along the axis.
    pub steps: Vec<String>,
    /// The lines: name and values, each with its interval, in the metric's unit or relative; none
    /// where a run is saturated or does not show the metric.
    pub lines: Vec<(String, Vec<Option<MeanEstimate>>)>,
}

/// The charts of a figure: of those workloads that are here.
pub fn panels<'a>(figure: &'a PaperFigure, reproduction: &'a PaperReproduction<'_>) -> Vec<FigurePanel<'a>> {
    let paper = reproduction.paper;
    let stands_for =
        |workload: &WorkloadEntry| figure.workload.all().iter().position(|name| workload.stands_for.contains(name));
    let all = paper.workload.iter().zip(&reproduction.results);
    let mut here: Vec<(&WorkloadEntry, &WorkloadResults)> =
        all.filter(|(workload, results)| stands_for(workload).is_some() && !results.is_empty()).collect();
    let rank = |kind: WorkloadProvenance| WorkloadProvenance::ALL.into_iter().position(|other| other == kind);
    here.sort_by_key(|(workload, _)| (rank(workload.provenance), stands_for(workload)));
    let lines = |points: &dyn Fn(usize) -> Vec<Option<MeanEstimate>>| -> Vec<_> {
        figure.drawn().into_iter().enumerate().map(|(drawn, name)| (name, points(drawn))).collect()
    };
    if figure.along == FigureAxis::Workloads {
        if here.is_empty() {
            return Vec::new();
        }
        let steps = here.iter().map(|(workload, _)| workload.name.clone()).collect();
        let of = |drawn| here.iter().map(|(_, results)| point(figure, results, figure.run(drawn, 0))).collect();
        return vec![FigurePanel { workload: None, steps, lines: lines(&of) }];
    }
    let panel = |(workload, results): (&'a WorkloadEntry, &WorkloadResults)| {
        let steps = figure.steps();
        let of = |drawn| (0..steps.len()).map(|step| point(figure, results, figure.run(drawn, step))).collect();
        let lines = lines(&of);
        FigurePanel { workload: Some((workload.name.as_str(), workload.provenance)), steps, lines }
    };
    here.into_iter().map(panel).collect()
}

/// The mean over the seeds.
fn point(figure: &PaperFigure, results: &WorkloadResults, run: RunKey<'_>) -> Option<MeanEstimate> {
    let of = |(at, policy, cache): RunKey<'_>| -> Option<Vec<f64>> {
        results.of(at, policy, cache).iter().map(|run| figure.metric.of(run)).collect()
    };
    let own = of(run).filter(|values| !values.is_empty())?;
    let values: Vec<f64> = match figure.reference(run) {
        None => own.iter().map(|value| value / figure.metric.scale().0).collect(),
        // The same seed is the same trace, so that runs are compared in pairs.
        Some(reference) => own.iter().zip(of(reference)?).map(|(value, base)| value / base).collect(),
    };
    values.iter().all(|value| value.is_finite()).then(|| MeanEstimate::of(&values))
}

/// Returns the label of the value axis.
pub fn axis(figure: &PaperFigure) -> String {
    let Some(reference) = &figure.relative_to else { return figure.metric.heading.to_owned() };
    let cache = reference.cache.as_deref().map_or_else(String::new, |cache| format!(", {}", show_bytes(size(cache))));
    let at = reference.at.as_deref().filter(|at| !at.is_empty()).map_or_else(String::new, |at| format!(", {at}"));
    format!("{}, {}{cache}{at} = 1", figure.metric.words, reference.policy)
}
