//! Defines the objectives by which runs are ranked.

use crate::ReportRun;
use crate::figures::{
    CACHE_HIT_RATIO, DEVICES_ERASES, ERASES, HIT_RATIO, MEAN, MODEL_THROUGHPUT, P99, P99_9, PLACES, PROGRAMS_PER_PAGE,
    ResultFigure, WRITE_AMPLIFICATION,
};
use crate::kind::GroupKind;

/// Selects the objective by which runs are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankingObjective {
    /// Mean response time of reads and writes.
    Mean,
    /// Ranks by the 99th percentile of the response time.
    P99,
    /// Ranks by the 99.9th percentile of the response time.
    P999,
    /// Counts flash pages programmed for each page that the host wrote.
    WriteAmplification,
    /// Blocks erased.
    Erases,
    /// Hit ratio.
    Hits,
    /// Throughput in the cost model, which knows no times.
    ModelThroughput,
}

impl RankingObjective {
    /// The objective of a name of the command line.
    ///
    /// # Errors
    /// Tells what would be right.
    pub fn named(name: &str) -> Result<Self, &'static str> {
        Ok(match name {
            "mean" => Self::Mean,
            "p99" => Self::P99,
            "p99.9" => Self::P999,
            "write-amplification" => Self::WriteAmplification,
            "erases" => Self::Erases,
            "hits" => Self::Hits,
            _ => return Err("mean, p99, p99.9, write-amplification, erases or hits"),
        })
    }

    /// Returns true if it is a high percentile of response times.
    pub(crate) const fn is_tail(self) -> bool {
        matches!(self, Self::P99 | Self::P999)
    }

    /// Returns the default objective of a kind.
    pub(crate) const fn of_kind(kind: GroupKind) -> Self {
        match kind {
            GroupKind::Hits => Self::Hits,
            GroupKind::Analytic => Self::ModelThroughput,
            GroupKind::Ssd | GroupKind::Array => Self::Mean,
        }
    }

    /// Returns the objective's figure in the results of a kind.
    pub(crate) const fn figure(self, kind: GroupKind) -> &'static ResultFigure {
        let is_array = matches!(kind, GroupKind::Array);
        match self {
            Self::Mean => &MEAN,
            Self::P99 => &P99,
            Self::P999 => &P99_9,
            Self::WriteAmplification if is_array => &PROGRAMS_PER_PAGE,
            Self::WriteAmplification => &WRITE_AMPLIFICATION,
            Self::Erases if is_array => &DEVICES_ERASES,
            Self::Erases => &ERASES,
            Self::Hits if is_array => &CACHE_HIT_RATIO,
            Self::Hits => &HIT_RATIO,
            Self::ModelThroughput => &MODEL_THROUGHPUT,
        }
    }

    /// Returns the objective's name within a sentence.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Mean => "mean response time",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::WriteAmplification => "write amplification",
            Self::Erases => "number of erases",
            Self::Hits => "hit ratio",
            Self::ModelThroughput => "throughput",
        }
    }

    /// Returns the objective's value in a run, or none.
    pub(crate) fn of(self, kind: GroupKind, run: &ReportRun) -> Option<f64> {
        // Page policies are not charged for erases, so that theirs is another scale.
        let is_of_scale = self != Self::ModelThroughput || run.text("analytic.model") == "analytic";
        self.figure(kind).of(run).filter(|_| is_of_scale)
    }

    /// A value in words, with its unit.
    pub(crate) fn told(self, kind: GroupKind, value: f64) -> String {
        let figure = self.figure(kind);
        let text = figure.show.text(value, PLACES);
        match figure.show {
            crate::figures::ValueFormat::Percent => format!("{text} %"),
            crate::figures::ValueFormat::Rate => format!("{text} MB/s"),
            _ => text,
        }
    }
}
