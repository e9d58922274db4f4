//! The results of `destage sim` as a page that answers, and as tables for other tools.
//!
//! [`read`] takes results as `destage sim --json` writes them, [`RunsReport`] puts those of one or
//! several files together, and [`RunsReport::files`] is everything that goes into the report's folder:
//! one HTML page that needs nothing else, neither a file beside it nor a network; the results
//! again, so that reports can be merged; and the tables `runs`, `series`, `debt`, `cdf` and `wear` as
//! CSV and as Parquet. The same results give the same bytes.
//!
//! The charts are drawn in the browser by Apache `ECharts`, of which `vendor/` holds what is needed
//! in one file (scripts/build-charts makes it): it draws SVG, which prints crisply, it is kept
//! well, and it needs neither `eval` nor anything from outside. Whatever comes from the results
//! reaches the page as escaped text or as data, never as code, and the page's policy lets only its
//! own scripts run and nothing be loaded. [`PageDocument`] is the same for pages of other content.

mod answers;
mod cards;
mod cells;
mod chart;
mod command;
mod compare;
mod csv;
mod description;
mod device;
mod durability;
mod embed;
mod error;
mod escape;
pub mod figures;
pub mod findings;
mod group;
mod input;
mod judge;
pub mod kept;
mod kind;
mod log;
mod noise;
mod objective;
mod page;
mod parquet;
mod ranking;
pub mod results;
mod rows;
mod run;
mod size;
mod summary;
mod table;

pub use cells::{ColumnKind, ResultColumn, ResultTable, TableCell};
pub use compare::{ComparedFigure, ComparedName, ComparedRun, RunComparison};
pub use description::{DescriptionError, TraceDescription};
pub use device::{device_words, ssd_words};
pub use durability::durability;
pub use error::ReportError;
pub use escape::escaped;
pub use input::read;
pub use judge::RunJudge;
pub use log::LATENCY_LOG;
pub use objective::RankingObjective;
pub use page::{PageAdvice, PageDocument, breakable};
pub use parquet::read as read_parquet;
pub use ranking::{BestOfSize, BestRuns, ahead, bests};
pub use rows::TableWriter;
pub use run::ReportRun;
pub use size::show_size;
pub use table::FlatRuns;

use group::RunGroup;

/// The page's file name.
pub const PAGE: &str = "index.html";
/// Names of all files of a report of simulations.
pub const FILES: [&str; 12] = [
    PAGE,
    "results.json",
    "runs.csv",
    "runs.parquet",
    "series.csv",
    "series.parquet",
    "debt.csv",
    "debt.parquet",
    "cdf.csv",
    "cdf.parquet",
    "wear.csv",
    "wear.parquet",
];

/// Results as `destage sim --json` writes them, which [`read`] reads back to the last bit.
///
/// # Errors
/// Fails where one cannot be written as JSON.
pub fn json(runs: &[ReportRun]) -> Result<Vec<u8>, ReportError> {
    let results: Vec<_> = runs.iter().map(|run| &run.result).collect();
    let mut json = serde_json::to_vec_pretty(&results).map_err(|error| ReportError::Write(error.to_string()))?;
    json.push(b'\n');
    Ok(json)
}

/// Runs that are shown together.
#[derive(Clone, Debug)]
pub struct RunsReport {
    runs: Vec<ReportRun>,
    groups: Vec<RunGroup>,
    advice: Option<PageAdvice>,
}

impl RunsReport {
    /// A report of these runs, in this order; a run that is there twice with the same figures is
    /// shown once.
    pub fn new(all: Vec<ReportRun>) -> Self {
        let mut runs: Vec<ReportRun> = Vec::with_capacity(all.len());
        for run in all {
            if !runs.iter().any(|known| known.result == run.result) {
                runs.push(run);
            }
        }
        let groups = group::groups(&runs, None);
        Self { runs, groups, advice: None }
    }

    /// The same with runs ranked by `objective`, in place of the mean response time, or, where
    /// results have no times, of the hit ratio or the cost model's throughput.
    #[must_use]
    pub fn ranked_by(self, objective: RankingObjective) -> Self {
        let groups = group::groups(&self.runs, Some(objective));
        Self { groups, ..self }
    }

    /// Returns the same with advice at the head of the page.
    #[must_use]
    pub fn advised(self, advice: PageAdvice) -> Self {
        Self { advice: Some(advice), ..self }
    }

    /// The tables `runs` (a row per run), `series` and `debt` (a row per span of time), `cdf` (a row per
    /// class of response times) and `wear` (a row per class of erases).
    pub fn tables(&self) -> Vec<ResultTable> {
        table::tables(&self.runs, &self.groups)
    }

    /// The page.
    pub fn page(&self) -> String {
        page::page(&self.runs, &self.groups, self.advice.as_ref())
    }

    /// Every file of the report's folder: name, of [`FILES`], and content.
    ///
    /// # Errors
    /// Fails where a table cannot be written as Parquet.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>, ReportError> {
        let mut files =
            vec![(PAGE.to_owned(), self.page().into_bytes()), ("results.json".to_owned(), json(&self.runs)?)];
        for table in self.tables() {
            files.extend(table.files()?);
        }
        Ok(files)
    }
}
