//! Warnings of several runs: what makes their results say less than they seem to, each kind once.

use std::borrow::Borrow;

use crate::device::is_modern;
use crate::figures::{DEVICES_ERASES, ERASES};
use crate::{RankingObjective, ReportRun};

/// Names the warning that a tail has collections in it which drives interrupt.
const NOT_INTERRUPTED: &str = "collection-not-interrupted";

/// Holds a warning of some runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundWarnings {
    /// The kind, as in results.
    pub kind: String,
    /// note, weak or void.
    pub severity: WarningGravity,
    /// The runs of which it was found, as their indices.
    pub runs: Vec<usize>,
    /// One sentence, of the first of these runs.
    pub message: String,
    /// Is true if the sentence is the same for all of them.
    pub is_same: bool,
    /// Settings that mend it, of the first run.
    pub mend: Option<String>,
}

/// Grades warnings; the gravest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WarningGravity {
    /// Figures are no result.
    Void,
    /// Figures rest on less than they seem to.
    Weak,
    /// The figures stand.
    Note,
}

impl WarningGravity {
    fn of(word: &str) -> Self {
        match word {
            "void" => Self::Void,
            "weak" => Self::Weak,
            _ => Self::Note,
        }
    }

    /// As in results.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Void => "void",
            Self::Weak => "weak",
            Self::Note => "note",
        }
    }
}

/// Returns the warnings, the gravest first, and of these what concerns most runs. Where a tail decides, that is `objective`, a
/// tail of collections is one.
pub fn found<R: Borrow<ReportRun>>(runs: &[R], objective: Option<RankingObjective>) -> Vec<FoundWarnings> {
    let mut all: Vec<FoundWarnings> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        for finding in run.borrow().list("findings") {
            let text = |key: &str| finding.get(key).and_then(serde_json::Value::as_str);
            let (kind, message) = (text("kind").unwrap_or_default(), text("message").unwrap_or_default());
            let severity = WarningGravity::of(text("severity").unwrap_or_default());
            if let Some(same) = all.iter_mut().find(|found| found.kind == kind && found.severity == severity) {
                same.runs.push(index);
                same.is_same &= same.message == message;
            } else {
                all.push(FoundWarnings {
                    kind: kind.to_owned(),
                    severity,
                    runs: vec![index],
                    message: message.to_owned(),
                    is_same: true,
                    mend: text("mend").map(str::to_owned),
                });
            }
        }
    }
    if objective.is_some_and(RankingObjective::is_tail) {
        all.extend(not_interrupted(runs));
    }
    all.sort_by_key(|found| (found.severity, usize::MAX - found.runs.len()));
    all
}

/// Returns the warning that a simulated SSD ends a collection before it serves a request; the modern model does not.
fn not_interrupted<R: Borrow<ReportRun>>(runs: &[R]) -> Option<FoundWarnings> {
    let collects = |run: &ReportRun| {
        let erases = if run.is_array { &DEVICES_ERASES } else { &ERASES };
        !is_modern(run) && erases.of(run).is_some_and(|erases| erases > 0.0)
    };
    let runs: Vec<_> =
        runs.iter().enumerate().filter(|(_, run)| collects((*run).borrow())).map(|(index, _)| index).collect();
    (!runs.is_empty()).then(|| FoundWarnings {
        kind: NOT_INTERRUPTED.to_owned(),
        severity: WarningGravity::Weak,
        runs,
        message: "the simulated SSD ends each collection before it serves the requests behind it; many drives suspend \
                  collection for reads, which shortens their tail"
            .to_owned(),
        is_same: true,
        mend: None,
    })
}

impl FoundWarnings {
    /// Of which runs, in words; none if of the only one there is.
    pub fn which<R: Borrow<ReportRun>>(&self, runs: &[R]) -> Option<String> {
        let first = runs[self.runs[0]].borrow();
        let name = match first.cache() {
            Some(_) => format!("{} at {}", first.text("policy"), first.cache_words()),
            None => first.text("policy").to_owned(),
        };
        match (self.runs.len(), runs.len()) {
            (_, 1) => None,
            (some, all) if some == all && self.is_same => Some("all runs".into()),
            (some, all) if some == all => Some(format!("all runs, such as {name}")),
            (1, all) => Some(format!("1 of {all} runs, {name}")),
            (some, all) if self.is_same => Some(format!("{some} of {all} runs")),
            (some, all) => Some(format!("{some} of {all} runs, such as {name}")),
        }
    }
}
