//! A simulation's settings as a scenario file that describes the same simulation.

use std::fmt::Write;
use std::path::Path;

use destage_sim::array::DeviceSetup;
use destage_sim::buffer::DeviceConfig;

use crate::keys::cache::POLICY;
use crate::keys::device::DEVICE;
use crate::keys::host::DRAIN;
use crate::keys::trace::{TRACE, WORKLOAD};
use crate::keys::{disk, ssd, ssd_model};
use crate::sim::{self, SimulatedRequests};
use crate::simulation::{self, DescribedSimulation};
use crate::{ScenarioError, ScenarioSettings, SettingKey, ValueCount, workload};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Requests that a trace is taken to have where their number would have to be counted: what it is
/// does not matter to the settings.
const REQUESTS: u64 = 1_000_000;

/// The settings that decide about the results of the simulation that `settings` describe, as the
/// text of a TOML file: those that were given, and the defaults of those that have a meaning for
/// it. Such a file, wherever it lies, describes the same simulation. Where a value follows from
/// others, such as an SSD's from its preset, it stands in a comment.
///
/// # Errors
/// Fails where the settings describe no simulation, and where the names of files cannot be written.
pub fn scenario(settings: &ScenarioSettings) -> Result<String> {
    let mut full = settings.with_whole_paths(&[TRACE, WORKLOAD], |key, value| {
        value != "-" && (key.name != WORKLOAD.name() || workload::is_file(value))
    })?;
    let (wanted, simulation) = described(&full)?;
    if let DescribedSimulation::Buffers(experiment) = &simulation {
        experiment.check().map_err(ScenarioError::new)?;
    }
    let requests = sim::requests(&full)?;
    if requests.can_be_read_again() {
        // A trace that is not there, or of which the format is not known, is wrong too.
        requests.open(0).map_err(ScenarioError::new)?;
    }
    let mut open = Vec::new();
    let not_given = |key: &&SettingKey| key.decides_results() && !settings.is_given(key) && !key.default.is_empty();
    for key in settings.keys().iter().filter(not_given) {
        // Some defaults mean something else once they are given, and some may not be given at all.
        let with = full.with_default(key)?;
        if described(&with).is_ok_and(|(same, _)| same == wanted) {
            full = with;
        }
    }
    for (name, value) in ssd_model::implied(settings)? {
        let mut with = full.clone();
        with.flag(name, vec![value.clone()])?;
        match described(&with) {
            Ok((same, _)) if same == wanted => full = with,
            // It holds, but given it says how large the SSD is.
            Ok(_) => open.push((name, value)),
            Err(_) => {}
        }
    }
    open.extend(followed(&simulation, settings));
    // Values that follow from others are printed as comments: given, they might contradict a change.
    let text = written(&full, &open);
    let mut read = ScenarioSettings::new(settings.keys());
    read.read_text(Path::new("scenario.toml"), &text)?;
    // The file is read again: a scenario that would run something else must not be printed.
    if described(&read)?.0 != wanted {
        return Err(ScenarioError::new("these settings cannot be written as a scenario file"));
    }
    Ok(text)
}

/// All that settings say about requests and simulation, to be compared.
fn described(settings: &ScenarioSettings) -> Result<(String, DescribedSimulation)> {
    let mut requests: SimulatedRequests = sim::requests(settings)?;
    if requests.needs_count(settings)? {
        requests = requests.of_count(REQUESTS);
    }
    let simulation = simulation::simulation(settings, &requests)?;
    Ok((format!("{requests:?} {simulation:?}"), simulation))
}

/// The text: settings in force, and in comments those that follow from them.
fn written(settings: &ScenarioSettings, open: &[(&'static str, String)]) -> String {
    let mut text = String::new();
    let mut table = "";
    for key in settings.keys().iter().filter(|key| key.decides_results()) {
        let given = settings.given_values(key);
        let follows = open.iter().find(|(name, _)| *name == key.name);
        if given.is_none() && follows.is_none() {
            continue;
        }
        let (of, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if of != table {
            table = of;
            _ = writeln!(text, "\n[{table}]");
        }
        if let Some(values) = given {
            _ = writeln!(text, "{name} = {}", value(key, values));
        } else if let Some((_, follows)) = follows {
            let values: Vec<_> = match key.takes {
                ValueCount::Several => follows.split(',').map(str::to_owned).collect(),
                _ => vec![follows.clone()],
            };
            _ = writeln!(text, "# {name} = {}", value(key, &values));
        }
    }
    text
}

/// A setting's values in TOML.
fn value(key: &SettingKey, values: &[String]) -> String {
    match (key.takes, values) {
        (ValueCount::Several, _) => {
            format!("[{}]", values.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(", "))
        }
        (_, [value]) if matches!(value.as_str(), "true" | "false") || is_number(value) => value.clone(),
        (_, [value]) => quoted(value),
        _ => quoted(&values.join(",")),
    }
}

/// Is true for a whole number that TOML gives back exactly as written.
fn is_number(text: &str) -> bool {
    text.parse::<i64>().is_ok_and(|number| number.to_string() == text)
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => _ = write!(quoted, "\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Values that follow from what is given, of keys that are not.
fn followed(simulation: &DescribedSimulation, settings: &ScenarioSettings) -> Vec<(&'static str, String)> {
    let mut values = Vec::new();
    match simulation {
        DescribedSimulation::Buffers(experiment) => {
            values.push((DRAIN.name(), experiment.run.drain.to_string()));
            if let DeviceConfig::Ssd(config, start) = &experiment.device {
                values.extend(ssd::followed(config, start, Some(experiment.replay.capacity)));
            }
        }
        DescribedSimulation::Array(experiment) => {
            values.push((DRAIN.name(), experiment.host.drain.to_string()));
            let policies = experiment.policies.iter().map(|policy| policy.info().name);
            values.push((POLICY.name(), policies.collect::<Vec<_>>().join(",")));
            let caching = experiment.policies.iter().any(|policy| policy.info().is_sized());
            let cache = caching.then_some(&experiment.cache_device);
            if let DeviceSetup::Disk { .. } = experiment.member {
                values.push((DEVICE.name(), "disk".to_owned()));
            }
            // Both have the same settings where both are of a kind.
            // An SSD before members that are none is as large as its cache.
            let capacity = matches!(experiment.member, DeviceSetup::Ssd { .. }).then_some(experiment.replay.capacity);
            for device in [Some(&experiment.member), cache].into_iter().flatten() {
                match device {
                    DeviceSetup::Ssd { config, start } => values.extend(ssd::followed(config, start, capacity)),
                    DeviceSetup::Disk { profile, .. } => values.extend(disk::followed(profile)),
                    DeviceSetup::Fixed(_) => {}
                }
            }
        }
    }
    values.retain(|(name, _)| !settings.has(name));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_exactly() {
        assert_eq!(quoted("a\"b\\c\nd µ"), "\"a\\\"b\\\\c\\u000Ad µ\"");
        assert!(is_number("17") && is_number("-1") && !is_number("017") && !is_number("1KiB") && !is_number("+1"));
    }
}
