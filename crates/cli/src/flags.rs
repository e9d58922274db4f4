//! Settings as flags of the command line.

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, ValueHint, value_parser};
use destage_engine::settings::{ArraySetting, ShownSetting};
use destage_scenario::{ScenarioError, ScenarioSettings, SettingKey, ValueCount, path_text};

use crate::candidates;

/// The arguments that `keys` stand for, with `--scenario` and `--set`.
pub fn args(keys: &'static [SettingKey]) -> Vec<Arg> {
    let mut args = vec![
        Arg::new("scenario")
            .long("scenario")
            .value_name("FILE")
            .value_parser(candidates::path())
            .value_hint(ValueHint::FilePath)
            .help("Read settings from a TOML file, in which every flag below is a key"),
        Arg::new("set")
            .long("set")
            .value_name("KEY=VALUE")
            .action(ArgAction::Append)
            .help("Give a setting by its key; it overrides the scenario file"),
    ];
    args.extend(keys.iter().map(arg));
    args
}

/// The arguments that some of `keys` stand for.
pub fn some_args(keys: &'static [SettingKey], names: &[&str]) -> Vec<Arg> {
    names.iter().filter_map(|name| keys.iter().find(|key| key.name == *name)).map(arg).collect()
}

/// The argument that a key stands for.
fn arg(key: &'static SettingKey) -> Arg {
    let help = match key.default {
        "" => key.help.to_owned(),
        default => format!("{} [default: {default}]", key.help),
    };
    let arg = Arg::new(key.name).long(key.name).value_name(key.value).help(help);
    let arg = match key.name.split_once('.') {
        Some(_) => arg.help_heading("Devices (in a scenario file TABLE.KEY is KEY in the table [TABLE])"),
        None => arg,
    };
    let arg = candidates::of_setting(key, arg);
    match key.takes {
        ValueCount::One => arg.action(ArgAction::Set),
        ValueCount::Several => arg.action(ArgAction::Append),
        // `=` is required, or a switch before a trace would take the trace as its value.
        ValueCount::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        ValueCount::File => arg.num_args(0..=1).require_equals(true).default_missing_value("-"),
    }
}

/// Puts together what the flags, `--set` and the scenario file give; the first of them that knows a
/// key decides.
pub fn settings(keys: &'static [SettingKey], matches: &ArgMatches) -> Result<ScenarioSettings, ScenarioError> {
    let mut settings = ScenarioSettings::new(keys);
    // In this order, since later ones override earlier: the file, then `--set`, then flags.
    if let Some(file) = matches.get_one::<String>("scenario") {
        settings.read_file(&path_text::path(file))?;
    }
    for pair in matches.get_many::<String>("set").into_iter().flatten() {
        settings.set(pair)?;
    }
    for key in keys {
        // Not every command has every key.
        if let Some(values) = matches.try_get_many::<String>(key.name).ok().flatten() {
            settings.flag(key.name, values.cloned().collect())?;
        }
    }
    Ok(settings)
}

/// The argument of `destage create` that a setting of an array stands for.
pub fn of_array<T>(setting: &ArraySetting<T>) -> Arg {
    let ShownSetting { name, value, help } = setting.created;
    let arg = Arg::new(name).long(name).value_name(value).help(help);
    let arg = if setting.default.is_empty() { arg } else { arg.default_value(setting.default) };
    if setting.words.is_empty() { arg } else { arg.value_parser(PossibleValuesParser::new(setting.words)) }
}

/// `--threads N`, for commands that run many experiments.
pub fn threads_arg() -> Arg {
    Arg::new("threads")
        .long("threads")
        .value_name("N")
        .value_parser(value_parser!(u16).range(1..=4096))
        .help("Threads that simulate; results do not depend on it [default: the processors]")
}

/// The threads that [`threads_arg`] asks for.
pub fn thread_pool(matches: &ArgMatches) -> Result<rayon::ThreadPool> {
    let threads = matches.get_one::<u16>("threads").map_or(0, |&threads| usize::from(threads));
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?)
}
