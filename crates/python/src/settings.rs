//! Settings as they are given in Python, under the names that the command line has.

use std::path::{Path, PathBuf};

use destage_scenario::keys::output::{CSV, JSON, LATENCY_LOG, PROGRESS, REPORT, RESUME, TIMING};
use destage_scenario::sim::SIM;
use destage_scenario::synth::SYNTH;
use destage_scenario::{ScenarioSettings, SettingKey, ValueCount};
use pyo3::prelude::*;

use crate::raised;

/// Settings of `destage sim` that say where and how results are shown, which is said in other ways here.
const OF_THE_COMMAND: [(SettingKey, &str); 7] = [
    (JSON.key(), "call .json() on the result"),
    (CSV.key(), "take .table() of the result"),
    (REPORT.key(), "call .report(folder) on the result"),
    (LATENCY_LOG.key(), "give latencies=True"),
    (RESUME.key(), "it keeps results of the command line; keep the result, which can be pickled"),
    (PROGRESS.key(), "a call shows nothing until it returns"),
    (TIMING.key(), "take the time of the call"),
];

/// A scenario: its text, and the file whose folder names in it begin at.
pub(crate) type Scenario = (String, PathBuf);

/// Settings of `destage sim`: those of a scenario, overridden by those that are given by name.
pub(crate) fn of_sim(scenario: Option<&Scenario>, given: Vec<(String, Vec<String>)>) -> PyResult<ScenarioSettings> {
    let settings = of(SIM, scenario, given)?;
    match OF_THE_COMMAND.iter().find(|(key, _)| settings.is_given(key)) {
        Some((key, instead)) => {
            Err(raised(format_args!("'{}' is a setting of the command line alone: {instead}", key.name)))
        }
        None => Ok(settings),
    }
}

/// Settings with these keys.
pub(crate) fn of(
    keys: &'static [SettingKey],
    scenario: Option<&Scenario>,
    given: Vec<(String, Vec<String>)>,
) -> PyResult<ScenarioSettings> {
    let mut settings = ScenarioSettings::new(keys);
    if let Some((text, file)) = scenario {
        settings.read_text(file, text).map_err(raised)?;
    }
    for (name, values) in given {
        let several = keys.iter().any(|key| key.name == name && key.takes == ValueCount::Several);
        // A list for a setting of one value is more likely a slip than a wish for its last entry.
        if values.len() != 1 && !several && keys.iter().any(|key| key.name == name) {
            return Err(raised(format_args!("'{name}' takes one value, not a list")));
        }
        // Arguments win over the scenario's text, as options of the command line do.
        settings.flag(&name, values).map_err(raised)?;
    }
    Ok(settings)
}

/// Reads a scenario file.
pub(crate) fn read(file: &Path) -> PyResult<Scenario> {
    Ok((destage_scenario::read(file).map_err(raised)?, file.to_owned()))
}

/// Name, value, default and meaning of every setting that a call takes, in the order of the command line's help.
#[pyfunction]
pub(crate) fn settings(of_synth: bool) -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let keys = if of_synth { SYNTH } else { SIM };
    let taken =
        keys.iter().filter(|key| of_synth || OF_THE_COMMAND.iter().all(|(of_command, _)| of_command.name != key.name));
    taken.map(|key| (key.name, key.value, key.default, key.help)).collect()
}

/// The file whose name has this text.
#[pyfunction]
pub(crate) fn path_of_text(text: &str) -> PathBuf {
    destage_scenario::path_text::path(text)
}

/// A file's name as the text that settings have: it may have bytes that are not UTF-8.
#[pyfunction]
pub(crate) fn path_text(path: PathBuf) -> String {
    destage_scenario::path_text::of(path)
}
