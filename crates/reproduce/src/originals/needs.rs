//! Matches the traces that papers need with the traces that were found.

use crate::paper::{PaperFile, WorkloadProvenance};

use super::catalogue::TraceCatalogue;
use super::search::FoundTraces;

/// Tells of an original that a paper used.
#[derive(Clone, Debug)]
pub struct NeededTrace {
    /// Names the trace.
    pub trace: String,
    /// Names it for people.
    pub title: String,
    /// Lists the paper's workloads that it is.
    pub workloads: Vec<String>,
    /// Says where it was published.
    pub published_at: String,
    /// Lists the files that can take its place, or that are parts of it.
    pub files: Vec<std::path::PathBuf>,
}

/// Tells what a paper needs.
#[derive(Clone, Debug)]
pub struct PaperNeeds {
    /// Names the paper.
    pub paper: String,
    /// Lists the originals that it used and that were published.
    pub traces: Vec<NeededTrace>,
    /// Lists workloads of which nothing was published, and why.
    pub unpublished: Vec<(String, String)>,
}

impl PaperNeeds {
    /// Returns what a paper needs of what was found.
    pub fn of(paper: &PaperFile, catalogue: &TraceCatalogue, found: &FoundTraces) -> Self {
        let mut traces: Vec<NeededTrace> = Vec::new();
        for workload in paper.workload.iter().filter(|workload| workload.provenance == WorkloadProvenance::Original) {
            let Some(known) = workload.trace.as_ref().and_then(|trace| catalogue.get(trace)) else { continue };
            let at = traces.iter().position(|needed| needed.trace == known.id).unwrap_or_else(|| {
                let of = found.files.iter().filter(|file| file.verdict.trace() == Some(known.id.as_str()));
                traces.push(NeededTrace {
                    trace: known.id.clone(),
                    title: known.title.clone(),
                    workloads: Vec::new(),
                    published_at: catalogue.family(known).published_at.clone(),
                    files: of.filter(|file| file.verdict.is_usable()).map(|file| file.path.clone()).collect(),
                });
                traces.len() - 1
            });
            let workloads = &mut traces[at].workloads;
            workloads.extend(
                workload.stands_for.iter().filter(|name| !workloads.contains(name)).cloned().collect::<Vec<_>>(),
            );
        }
        let unpublished = catalogue.unpublished(&paper.name).map(|of| (of.workload.clone(), of.why.clone())).collect();
        Self { paper: paper.name.clone(), traces, unpublished }
    }
}
