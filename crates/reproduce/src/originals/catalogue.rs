//! Describes the traces that papers used. A file such as `scenarios/traces.toml`, which is built in, holds
//! the descriptions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use destage_scenario::ScenarioError;
use destage_trace::FormatSpec;
use serde::Deserialize;

use super::measure::TraceMeasure;

/// Holds the known traces, what their families have in common, and what was never published.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceCatalogue {
    family: Vec<TraceFamily>,
    trace: Vec<KnownTrace>,
    #[serde(default)]
    unpublished: Vec<UnpublishedTrace>,
}

/// Holds what several traces have in common.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceFamily {
    /// Names it in the file.
    pub id: String,
    /// Says what it is.
    pub title: String,
    /// Says where its traces were published.
    #[serde(rename = "where")]
    pub published_at: String,
    /// Lists the formats in which they go round, as `--format` takes them; the first is that of the originals.
    formats: Vec<String>,
    /// Counts the files of each of its originals; 0 if there are several and their number is not published.
    #[serde(default = "one")]
    pub parts: u64,
    #[serde(default)]
    published: Vec<PublishedTable>,
}

/// Holds what is known of a trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KnownTrace {
    /// Names it: the `trace` of a paper's workload.
    pub id: String,
    family: String,
    /// Names it for people.
    pub title: String,
    /// Lists words of file names that tell it, in lower case.
    names: Vec<String>,
    /// Lists the volumes' names in the file, of which it has exactly one; none if its format has no names.
    #[serde(default)]
    pub(super) volumes: Vec<String>,
    /// Lists the first requests: `R` or `W`, sector and sectors, such as `W 303567+7`.
    #[serde(default)]
    pub(super) begins: Vec<String>,
    /// Lists formats where they are not the family's.
    #[serde(default)]
    formats: Vec<String>,
    /// Tells that it is a real piece that goes round, and no original.
    #[serde(default)]
    piece: bool,
    /// Names the trace that it is a piece of, where that is known.
    pub piece_of: Option<String>,
    #[serde(default)]
    pub(super) published: Vec<PublishedTable>,
    /// Holds the formats, parsed.
    #[serde(skip)]
    pub(super) specs: Vec<FormatSpec>,
}

/// Holds figures that somebody published of a trace.
#[derive(Clone, Debug, Deserialize)]
pub struct PublishedTable {
    /// Says who published them, and where.
    pub source: String,
    /// Counts the requests, from the first one on, that they are about; none means the whole trace.
    pub first: Option<u64>,
    /// Tells that the figures depend on how their authors counted: a deviation is shown, and refuses a file only if it is ten
    /// times as large as `within`.
    #[serde(default)]
    pub describes: bool,
    /// Gives how far a file may be off: percent, or points of a share.
    pub within: f64,
    /// Holds the figures.
    #[serde(flatten)]
    pub figures: BTreeMap<TraceMeasure, f64>,
}

/// Tells of workloads whose traces nobody can look for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnpublishedTrace {
    /// Names the paper.
    pub paper: String,
    /// Names the workloads.
    pub workload: String,
    /// Says why.
    pub why: String,
}

/// Returns true if a text is a request as the catalogue has it.
fn is_request(text: &str) -> bool {
    let place = text.strip_prefix("R ").or_else(|| text.strip_prefix("W "));
    let numbers = place.and_then(|place| place.split_once('+'));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u64>().is_ok();
    numbers.is_some_and(|(sector, sectors)| is_number(sector) && is_number(sectors))
}

const fn one() -> u64 {
    1
}

impl TraceCatalogue {
    /// Returns the one that is built in.
    ///
    /// # Errors
    /// Never: a test parses it.
    pub fn built_in() -> Result<Self, ScenarioError> {
        Self::parse(Path::new("traces.toml (built in)"), include_str!("../../../../scenarios/traces.toml"))
    }

    /// Reads a file like `scenarios/traces.toml`.
    ///
    /// # Errors
    /// If it cannot be read or is malformed; the error names file and line, or the trace.
    pub fn read(file: &Path) -> Result<Self, ScenarioError> {
        Self::parse(file, &destage_scenario::read(file)?)
    }

    /// Reads its text; `file` names it in errors.
    ///
    /// # Errors
    /// If it is malformed, a name is given twice, or a format or family is unknown.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ScenarioError> {
        let mut catalogue: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| destage_scenario::line_of(text, span.start));
            ScenarioError::new(error.message()).at(format_args!("{}, line {line}", file.display()))
        })?;
        catalogue.resolve().map_err(|error| error.at(file.display()))?;
        Ok(catalogue)
    }

    /// Checks names and gives each trace what its family says.
    fn resolve(&mut self) -> Result<(), ScenarioError> {
        let known: BTreeSet<String> = self.trace.iter().map(|trace| trace.id.clone()).collect();
        if known.len() < self.trace.len() {
            return Err(ScenarioError::new("two traces have the same id"));
        }
        for trace in &mut self.trace {
            let at = |reason: String| ScenarioError::new(reason).at(format_args!("trace \"{}\"", trace.id));
            let family = self.family.iter().find(|family| family.id == trace.family);
            let family = family.ok_or_else(|| at(format!("there is no family \"{}\"", trace.family)))?;
            if let Some(of) = trace.piece_of.as_ref().filter(|of| !known.contains(*of)) {
                return Err(at(format!("piece-of: there is no trace \"{of}\"")));
            }
            if let Some(name) = trace.names.iter().find(|name| name.is_empty() || name.to_lowercase() != **name) {
                return Err(at(format!("names: \"{name}\": expected a word in lower case")));
            }
            if let Some(begin) = trace.begins.iter().find(|begin| !is_request(begin)) {
                return Err(at(format!(
                    "begins: \"{begin}\": expected R or W, sector and sectors, such as \"W 303567+7\""
                )));
            }
            let formats = if trace.formats.is_empty() { &family.formats } else { &trace.formats };
            let specs =
                formats.iter().map(|text| text.parse::<FormatSpec>().map_err(|error| at(format!("formats: {error}"))));
            let specs = specs.collect::<Result<Vec<_>, _>>()?;
            if specs.is_empty() {
                return Err(at("formats: expected at least one".to_owned()));
            }
            for table in trace.published.iter().chain(&family.published) {
                let is_right = |figure: &f64| figure.is_finite() && *figure >= 0.0;
                let is_empty = table.figures.get(&TraceMeasure::Requests) == Some(&0.0);
                let figures = !table.figures.is_empty() && table.figures.values().all(is_right);
                if is_empty {
                    return Err(at(format!("published by {}: requests = 0: expected 1 or more", table.source)));
                }
                if !figures || !is_right(&table.within) || table.first == Some(0) {
                    return Err(at(format!(
                        "published by {}: expected figures of 0 or more, within = 0 or more, first = 1 or more",
                        table.source
                    )));
                }
            }
            // What is published of the family holds for each of its traces, after what is published of the
            // trace.
            trace.published.extend(family.published.iter().cloned());
            trace.specs = specs;
        }
        Ok(())
    }

    /// Returns the trace of this name.
    pub fn get(&self, id: &str) -> Option<&KnownTrace> {
        self.trace.iter().find(|trace| trace.id == id)
    }

    /// Lists all traces, in the file's order.
    pub fn traces(&self) -> &[KnownTrace] {
        &self.trace
    }

    /// Returns the family of a trace.
    ///
    /// # Panics
    /// If the trace is of another catalogue.
    pub fn family(&self, trace: &KnownTrace) -> &TraceFamily {
        self.family.iter().find(|family| family.id == trace.family).expect("families were checked")
    }

    /// Lists what of a paper was never published.
    pub fn unpublished(&self, paper: &str) -> impl Iterator<Item = &UnpublishedTrace> {
        self.unpublished.iter().filter(move |of| of.paper == paper)
    }
}

impl KnownTrace {
    /// Returns true if a file's name tells this trace: one of its words stands in it, between characters that are neither letters
    /// nor digits.
    pub fn is_named(&self, file: &str) -> bool {
        let file = file.to_lowercase();
        let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        self.names.iter().any(|name| {
            let mut found = file.match_indices(name.as_str());
            // The name must stand alone: with another digit it is another trace's.
            found.any(|(at, _)| ends(file[..at].chars().next_back()) && ends(file[at + name.len()..].chars().next()))
        })
    }

    /// Returns true if it is a piece that goes round, and no original.
    pub fn is_piece(&self) -> bool {
        self.piece || self.piece_of.is_some()
    }

    /// Returns how many requests the whole has, if that is published.
    pub fn requests(&self) -> Option<f64> {
        self.whole(TraceMeasure::Requests)
    }

    /// Returns a figure of the whole by which files are told.
    pub(super) fn whole(&self, measure: TraceMeasure) -> Option<f64> {
        let mut tables = self.published.iter().filter(|table| table.first.is_none() && !table.describes);
        tables.find_map(|table| table.figures.get(&measure).copied())
    }
}
