//! Suggests values of settings to shells.
//!
//! A suggestion is one of many right values: a policy has parameters and layers, a workload can be a file. So nothing
//! is refused here.

use clap::builder::{OsStringValueParser, PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command, ValueHint};
use destage_cache::{all_host_caches, host_cache_layers};
use destage_policy::buffer::{layers, policies};
use destage_reproduce::paper;
use destage_scenario::keys::cache::POLICY;
use destage_scenario::keys::disk::PROFILE;
use destage_scenario::keys::ssd::PRESET;
use destage_scenario::keys::trace::{FORMAT, WORKLOAD};
use destage_scenario::{SettingKey, ValueCount, path_text, workload};
use destage_trace::{EXPORTS, FORMATS, FormatId};

/// Takes any text, or any name of a file, and suggests some.
#[derive(Clone)]
pub struct SuggestedNames {
    values: fn(&'static str) -> Vec<String>,
    of: &'static str,
    /// Is true if the value may be a file, of whose name it is the text ([`path_text`]).
    is_path: bool,
}

impl TypedValueParser for SuggestedNames {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &std::ffi::OsStr) -> Result<String, Error> {
        if self.is_path {
            path().parse_ref(command, arg, value)
        } else {
            StringValueParser::new().parse_ref(command, arg, value)
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.values)(self.of).into_iter().map(PossibleValue::new)))
    }
}

/// `arg` with suggestions, which its help does not list.
fn suggesting(arg: Arg, values: fn(&'static str) -> Vec<String>, of: &'static str) -> Arg {
    arg.value_parser(SuggestedNames { values, of, is_path: false }).hide_possible_values(true)
}

/// The same of one that may also be a file.
fn suggesting_or_file(arg: Arg, values: fn(&'static str) -> Vec<String>) -> Arg {
    arg.value_parser(SuggestedNames { values, of: "", is_path: true }).hide_possible_values(true)
}

/// Takes the name of any file as its text ([`path_text`]), as settings do.
pub fn path() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(path_text::of)
}

/// The argument of a setting with what can be suggested for it.
pub fn of_setting(key: &SettingKey, arg: Arg) -> Arg {
    match key.name {
        name if name == POLICY.name() => policy(arg),
        name if name == WORKLOAD.name() => self::workload(arg),
        name if name == FORMAT.name() => format(arg),
        name if name == PRESET.name() => suggesting(arg, |_| ssd_presets(), ""),
        name if name == PROFILE.name() => suggesting(arg, |_| names(destage_sim::disk::PRESETS.iter().copied()), ""),
        _ if key.value == "DIR" => arg.value_parser(path()).value_hint(ValueHint::DirPath),
        _ if key.takes == ValueCount::File || key.value == "FILE" => {
            arg.value_parser(path()).value_hint(ValueHint::FilePath)
        }
        _ if key.value.contains('|') => suggesting(arg, alternatives, key.value),
        _ => arg,
    }
}

/// The argument of a policy.
pub fn policy(arg: Arg) -> Arg {
    suggesting(arg, |_| policy_names(), "")
}

/// The argument of a trace's format.
pub fn format(arg: Arg) -> Arg {
    suggesting(arg, |_| FORMATS.iter().map(|format| format.name().to_owned()).collect(), "")
}

/// The argument of a format that can be written.
pub fn export(arg: Arg) -> Arg {
    let formats = |_| {
        [FormatId::Native.name()]
            .into_iter()
            .chain(EXPORTS.iter().map(|info| info.id.name()))
            .map(str::to_owned)
            .collect()
    };
    suggesting(arg, formats, "")
}

/// The argument of a workload.
pub fn workload(arg: Arg) -> Arg {
    suggesting_or_file(arg, |_| workload::built_in().map(|workload| workload.name().to_owned()).collect())
}

/// The argument of a paper.
pub fn paper(arg: Arg) -> Arg {
    suggesting_or_file(arg, |_| paper::built_in().chain(["all"]).map(str::to_owned).collect())
}

/// The argument of a policy or layer that is documented.
pub fn documented(arg: Arg) -> Arg {
    let all = |_| {
        let mut names = policy_names();
        let layers = layers().iter().map(|layer| layer.name).chain(host_cache_layers().map(|layer| layer.name));
        for layer in layers {
            if !names.iter().any(|name| name == layer) {
                names.push(layer.to_owned());
            }
        }
        names
    };
    suggesting(arg, all, "")
}

/// Lists the presets of SSDs of both models, each once.
fn ssd_presets() -> Vec<String> {
    let mut all = names(destage_sim::ssd::presets());
    for drive in destage_sim::ssd::MODERN_DRIVES {
        if !all.iter().any(|name| name == drive.name) {
            all.push(drive.name.to_owned());
        }
    }
    all
}

fn names<T>(presets: impl Iterator<Item = (&'static str, T)>) -> Vec<String> {
    presets.map(|(name, _)| name.to_owned()).collect()
}

/// Policies, each with every layer that can be put around it directly, and those of the host.
fn policy_names() -> Vec<String> {
    let mut names: Vec<String> = policies().iter().map(|policy| policy.name.to_owned()).collect();
    for layer in layers() {
        let around = policies().iter().filter(|policy| layer.goes_over(policy));
        names.extend(around.map(|policy| format!("{}+{}", layer.name, policy.name)));
    }
    for cache in all_host_caches() {
        if !names.iter().any(|name| name == cache.name) {
            names.push(cache.name.to_owned());
        }
    }
    names
}

/// Returns those of `a|b|c:NAME` that are words to be given as they are.
fn alternatives(value: &'static str) -> Vec<String> {
    let words = value.split('|').filter(|word| !word.contains(|c: char| c.is_uppercase() || c == '[' || c == ' '));
    words.map(str::to_owned).collect()
}
