//! Searches a paper's [open assumptions](crate::paper::assumption) for the configuration under which most of its claims hold together.
//!
//! From the values of the paper's file on, one assumption after the other takes the value with which most claims are borne out, or, of as
//! many, most hold in sign; until none changes any more. What was tried on the way from the file's own values is the table of sensitivity:
//! which assumption turns which claim. Only the paper's own claims are tried, under their own variants.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::grade::ClaimGrade;
use crate::paper::PaperFile;
use crate::report::table;
use crate::reproduce::{PaperReproduction, ReproduceOptions, reproduce_with};
use crate::run::EvidenceError;
use crate::score::counted;

/// Passes over all assumptions, at most.
const PASSES: usize = 3;

/// Holds the grades of a paper's claims under some assumptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedConfiguration {
    /// Holds the value of each assumption, by its index.
    pub values: Vec<usize>,
    /// Lists the claims and their grades, in the paper's order.
    pub grades: Vec<(String, ClaimGrade)>,
}

/// Holds what a search found.
#[derive(Clone, Debug)]
pub struct SearchOutcome {
    /// Holds the configuration of the paper's file.
    pub own: TriedConfiguration,
    /// Lists those that differ from it in one assumption.
    pub neighbours: Vec<TriedConfiguration>,
    /// Holds the best.
    pub best: TriedConfiguration,
    /// Counts the configurations that were tried.
    pub tried: usize,
}

impl TriedConfiguration {
    /// Counts claims that are borne out, and that hold in sign: what makes one configuration better than another.
    pub fn score(&self) -> (usize, usize) {
        let count = |is_such: fn(ClaimGrade) -> bool| self.grades.iter().filter(|(_, grade)| is_such(*grade)).count();
        (count(ClaimGrade::is_borne_out), count(ClaimGrade::is_in_sign))
    }
}

/// Returns the paper with these values, without all that is not needed to grade its own claims.
fn with_values(paper: &PaperFile, values: &[usize]) -> PaperFile {
    let mut paper = paper.clone();
    paper.claim.retain(|claim| claim.reading_of.is_none());
    paper.claim.iter_mut().for_each(|claim| claim.also_at.clear());
    for assumption in paper.assumption.clone().iter().zip(values) {
        if *assumption.1 > 0 {
            assumption.0.apply(*assumption.1, &mut paper);
        }
    }
    paper.caches.clear();
    paper.variant.iter_mut().for_each(|variant| variant.policies.clear());
    (paper.figure, paper.value, paper.counted, paper.example) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // Whose reasons are not shown need not be filled.
    (paper.reason, paper.verdict) = (Vec::new(), String::new());
    paper
}

/// Tries configurations, none twice. `step` hears of each before it is tried, and how many were.
struct TriedConfigurations<'a> {
    paper: &'a PaperFile,
    options: ReproduceOptions<'a>,
    step: &'a (dyn Fn(usize, &str) + Sync),
    known: BTreeMap<Vec<usize>, Vec<(String, ClaimGrade)>>,
}

impl TriedConfigurations<'_> {
    fn try_values(&mut self, values: &[usize]) -> Result<TriedConfiguration, EvidenceError> {
        if !self.known.contains_key(values) {
            (self.step)(self.known.len(), &described(self.paper, values));
            let paper = with_values(self.paper, values);
            let found: PaperReproduction<'_> = reproduce_with(&paper, self.options)?;
            let nearest = found.nearest();
            let grades = counted(&nearest).into_iter().map(|(id, grade)| (id.to_owned(), grade)).collect();
            self.known.insert(values.to_owned(), grades);
        }
        Ok(TriedConfiguration { values: values.to_owned(), grades: self.known[values].clone() })
    }
}

/// Searches. With a folder for results in `options` a search that was interrupted goes on.
///
/// # Errors
/// Where a run fails.
pub fn search<'a>(
    paper: &'a PaperFile,
    options: ReproduceOptions<'a>,
    step: &'a (dyn Fn(usize, &str) + Sync),
) -> Result<SearchOutcome, EvidenceError> {
    let mut all = TriedConfigurations { paper, options, step, known: BTreeMap::new() };
    let own = all.try_values(&vec![0; paper.assumption.len()])?;
    let mut neighbours = Vec::new();
    for (at, assumption) in paper.assumption.iter().enumerate() {
        for value in 1..assumption.values.len() {
            let mut values = own.values.clone();
            values[at] = value;
            neighbours.push(all.try_values(&values)?);
        }
    }
    let mut best = own.clone();
    for _ in 0..PASSES {
        let before = best.clone();
        for (at, assumption) in paper.assumption.iter().enumerate() {
            for value in 0..assumption.values.len() {
                let mut values = best.values.clone();
                values[at] = value;
                let other = all.try_values(&values)?;
                // Of equals the first: the paper's own.
                if other.score() > best.score() {
                    best = other;
                }
            }
        }
        if best == before {
            break;
        }
    }
    Ok(SearchOutcome { own, neighbours, best, tried: all.known.len() })
}

/// Says which values differ from those of the paper's file.
fn described(paper: &PaperFile, values: &[usize]) -> String {
    let changed = paper.assumption.iter().zip(values).filter(|(_, value)| **value > 0);
    let changed: Vec<_> = changed.map(|(of, value)| format!("{}: {}", of.name, of.shown(*value))).collect();
    if changed.is_empty() { "as in the paper's file".to_owned() } else { changed.join("; ") }
}

/// Lists the claims whose grade is another than under the file's own values, with both.
fn turned(own: &TriedConfiguration, other: &TriedConfiguration) -> String {
    let both = own.grades.iter().zip(&other.grades).filter(|((_, own), (_, other))| own != other);
    let turned: Vec<_> =
        both.map(|((id, own), (_, other))| format!("{id} ({} \u{2192} {})", own.label(), other.label())).collect();
    if turned.is_empty() { "none".to_owned() } else { turned.join(", ") }
}

/// Writes what was found as Markdown: the score of each, and which assumption turns which claim.
pub fn markdown(paper: &PaperFile, found: &SearchOutcome) -> String {
    let mut out = format!("## {}: open assumptions\n\n", paper.name);
    let score = |of: &TriedConfiguration| {
        let (borne_out, in_sign) = of.score();
        format!("{borne_out} of {} claims borne out, {in_sign} in sign", of.grades.len())
    };
    let _ = write!(
        out,
        "{} configurations were tried. As in the paper's file: {}. Best together: {} ({}).\n\n",
        found.tried,
        score(&found.own),
        score(&found.best),
        described(paper, &found.best.values)
    );
    let row = |of: &TriedConfiguration| {
        let (borne_out, in_sign) = of.score();
        [described(paper, &of.values), borne_out.to_string(), in_sign.to_string(), turned(&found.own, of)]
    };
    let rows: Vec<_> = std::iter::once(&found.own).chain(&found.neighbours).chain([&found.best]).map(row).collect();
    table(&mut out, &["assumption", "borne out", "in sign", "claims that it turns"], &rows);
    out
}
