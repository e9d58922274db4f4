//! Reads a sweep file.

use std::path::{Path, PathBuf};

use destage_scenario::keys::output::{MEMORY, OBJECTIVE, PROGRESS, THREADS};
use destage_scenario::keys::trace::{TRACE, WORKLOAD};
use destage_scenario::sim::SIM;
use destage_scenario::{ScenarioSettings, ValueCount, line_of};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::SweepError;
use crate::grid::{GridAxis, KeyGrid};
use crate::traces::TraceName;

/// Settings that say how something is carried out or shown, and that a sweep takes.
const TAKEN: [&str; 4] = [THREADS.name(), MEMORY.name(), OBJECTIVE.name(), PROGRESS.name()];

/// Holds a sweep file: settings that all runs share, traces, and the grid.
#[derive(Debug)]
pub struct SweepDescription {
    /// The file, from whose folder names in it begin.
    pub(crate) file: PathBuf,
    pub(crate) scenario: ScenarioSettings,
    /// None: the one that the scenario names.
    pub(crate) traces: Vec<TraceName>,
    /// United.
    pub(crate) grids: Vec<KeyGrid>,
}

impl SweepDescription {
    /// Reads a sweep file.
    ///
    /// # Errors
    /// Tells what is wrong with it, with the line.
    pub fn read(file: &Path) -> Result<Self, SweepError> {
        Self::parse(file, &destage_scenario::read(file)?)
    }

    /// The sweep that a text describes; `file` names it in errors, and names in it begin at its folder.
    ///
    /// # Errors
    /// Tells what is wrong with it, with the line.
    pub fn parse(file: &Path, text: &str) -> Result<Self, SweepError> {
        let wrong = |offset: usize, what: &dyn std::fmt::Display| {
            SweepError::new(what).at(format_args!("{}, line {}", file.display(), line_of(text, offset)))
        };
        let parsed = DeTable::parse(text);
        let table = parsed.map_err(|error| wrong(error.span().map_or(0, |span| span.start), &error.message()))?;
        let within = FileText { file, text };
        let mut description =
            Self { file: file.to_owned(), scenario: ScenarioSettings::new(SIM), traces: Vec::new(), grids: Vec::new() };
        for (name, value) in table.get_ref() {
            let at = name.span().start;
            match (&**name.get_ref(), value.get_ref()) {
                ("scenario", DeValue::Table(table)) => description.scenario.read_table(file, text, "", table)?,
                ("scenario", DeValue::String(name)) => description.scenario.read_file(&within.path(name))?,
                ("scenario", _) => return Err(wrong(at, &"'scenario' is the name of a file, or a table of settings")),
                ("traces", value) => description.traces = within.traces(value, at)?,
                ("grid", DeValue::Table(table)) => description.grids.push(within.grid(table, at)?),
                ("grid", DeValue::Array(tables)) => {
                    for table in tables {
                        let DeValue::Table(inner) = table.get_ref() else {
                            return Err(wrong(table.span().start, &GRID));
                        };
                        description.grids.push(within.grid(inner, table.span().start)?);
                    }
                }
                ("grid", _) => return Err(wrong(at, &GRID)),
                (other, _) => {
                    let what = format!("there is no '{other}' here, only scenario, traces and grid");
                    return Err(wrong(at, &what));
                }
            }
        }
        description.check()?;
        Ok(description)
    }

    fn check(&self) -> Result<(), SweepError> {
        let wrong = |what: String| Err(SweepError::file(&self.file, what));
        if self.grids.is_empty() {
            return wrong("there is no grid: give [grid], such as policy = [\"lru\", \"fab\"]".to_owned());
        }
        let mut given = SIM.iter().filter(|key| self.scenario.is_given(key));
        if let Some(key) = given.find(|key| !key.decides_results() && !TAKEN.contains(&key.name)) {
            return wrong(format!(
                "'{}' says what becomes of one simulation's results: leave it out of the scenario",
                key.name
            ));
        }
        match [TRACE, WORKLOAD].into_iter().find(|setting| setting.is_given(&self.scenario)) {
            Some(setting) if !self.traces.is_empty() => wrong(format!(
                "'{}' in the scenario and 'traces' are both given; leave one of them out",
                setting.name()
            )),
            _ => Ok(()),
        }
    }

    /// The files that say what is swept.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.file.as_path()).chain(self.scenario.files().iter().map(PathBuf::as_path))
    }

    /// The traces that have to be fetched before they can be looked at.
    pub fn urls(&self) -> Vec<&str> {
        self.traces.iter().filter(|trace| trace.is_url()).map(|trace| trace.name.as_str()).collect()
    }
}

const GRID: &str = "'grid' is a table of keys with lists of values, or several of them ([[grid]])";

/// A file and its text.
struct FileText<'a> {
    file: &'a Path,
    text: &'a str,
}

impl FileText<'_> {
    fn wrong(&self, offset: usize, what: impl std::fmt::Display) -> SweepError {
        SweepError::new(what).at(format_args!("{}, line {}", self.file.display(), line_of(self.text, offset)))
    }

    /// A name that begins at the file's folder.
    fn path(&self, name: &str) -> PathBuf {
        self.file.parent().map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
    }

    fn traces(&self, value: &DeValue<'_>, at: usize) -> Result<Vec<TraceName>, SweepError> {
        const RIGHT: &str =
            "'traces' is a list of names, or of tables such as { file = \"hm_0.csv\", format = \"msr\" }";
        let DeValue::Array(items) = value else { return Err(self.wrong(at, RIGHT)) };
        let mut traces = Vec::new();
        for item in items {
            let at = item.span().start;
            match item.get_ref() {
                DeValue::String(name) => traces.extend(self.named(name, &[], at)?),
                DeValue::Table(table) => {
                    let mut file = None;
                    let mut settings = Vec::new();
                    for (key, value) in table {
                        let text = scalar(value).ok_or_else(|| self.wrong(at, RIGHT))?;
                        match &**key.get_ref() {
                            "file" => file = Some(text),
                            "format" => settings.push(("format", text)),
                            "lenient" => settings.push(("lenient", text)),
                            other => {
                                let what = format!("a trace has no '{other}', only file, format and lenient");
                                return Err(self.wrong(key.span().start, what));
                            }
                        }
                    }
                    let file = file.ok_or_else(|| self.wrong(at, RIGHT))?;
                    traces.extend(self.named(&file, &settings, at)?);
                }
                _ => return Err(self.wrong(at, RIGHT)),
            }
        }
        if traces.is_empty() { Err(self.wrong(at, "the list of traces is empty")) } else { Ok(traces) }
    }

    fn named(&self, name: &str, settings: &[(&'static str, String)], at: usize) -> Result<Vec<TraceName>, SweepError> {
        TraceName::expand(self.file.parent().unwrap_or(Path::new("")), name, settings)
            .map_err(|error| self.wrong(at, error))
    }

    fn grid(&self, table: &DeTable<'_>, at: usize) -> Result<KeyGrid, SweepError> {
        let mut axes = Vec::new();
        self.axes("", table, &mut axes)?;
        if axes.is_empty() {
            return Err(self.wrong(at, "the grid is empty: give at least one key with a list of values"));
        }
        KeyGrid::new(axes).map_err(|error| self.wrong(at, error))
    }

    fn axes(&self, prefix: &str, table: &DeTable<'_>, axes: &mut Vec<GridAxis>) -> Result<(), SweepError> {
        for (name, value) in table {
            let full = format!("{prefix}{}", name.get_ref());
            let at = name.span().start;
            if let DeValue::Table(inner) = value.get_ref() {
                self.axes(&format!("{full}."), inner, axes)?;
                continue;
            }
            // What is wrong with a name is told as anywhere else.
            ScenarioSettings::new(SIM).flag(&full, Vec::new()).map_err(|error| self.wrong(at, error))?;
            let Some(key) = SIM.iter().find(|key| key.name == full) else { continue };
            if key.name == TRACE.name() {
                return Err(self.wrong(at, "'trace' is no key of a grid: name traces in 'traces'"));
            }
            if !key.decides_results() {
                return Err(self.wrong(at, format_args!("'{full}' decides about no result, and cannot be swept")));
            }
            let items = match value.get_ref() {
                DeValue::Array(items) => items.iter().collect(),
                _ => vec![value],
            };
            if items.is_empty() {
                return Err(self.wrong(at, format_args!("'{full}' has no values")));
            }
            let mut values: Vec<Vec<String>> = Vec::new();
            for item in items {
                let of = match item.get_ref() {
                    DeValue::Array(inner) if key.takes == ValueCount::Several => inner.iter().map(scalar).collect(),
                    _ => scalar(item).map(|text| vec![text]),
                };
                let Some(of) = of else {
                    let what = format!("'{full}' has a list of text, numbers, true or false");
                    return Err(self.wrong(item.span().start, what));
                };
                if values.contains(&of) {
                    let what = format!("'{full}' has the value {} twice", of.join(","));
                    return Err(self.wrong(item.span().start, what));
                }
                values.push(of);
            }
            axes.push(GridAxis { key: key.name, values });
        }
        Ok(())
    }
}

/// A value as the text that a flag would have.
fn scalar(value: &Spanned<DeValue<'_>>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(switch) => Some(switch.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}
