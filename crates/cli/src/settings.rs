//! Settings that a command line flag, `--set key=value` or a scenario file can give, under one name each.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name: `--NAME`, and in a scenario file a key (`ssd.planes` is `planes` in the table `[ssd]`).
    pub name: &'static str,
    /// What stands for its value in the help.
    pub value: &'static str,
    /// The value where none is given; empty where there is none.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// How many values it takes.
    pub takes: Takes,
}

impl Key {
    /// A setting with one value.
    pub const fn one(name: &'static str, value: &'static str, default: &'static str, help: &'static str) -> Self {
        Self { name, value, default, help, takes: Takes::One }
    }

    /// A setting with several values.
    pub const fn list(name: &'static str, value: &'static str, default: &'static str, help: &'static str) -> Self {
        Self { name, value, default, help, takes: Takes::Several }
    }

    /// A switch.
    pub const fn switch(name: &'static str, default: &'static str, help: &'static str) -> Self {
        Self { name, value: "true|false", default, help, takes: Takes::Switch }
    }

    /// A file to write.
    pub const fn file(name: &'static str, help: &'static str) -> Self {
        Self { name, value: "FILE", default: "", help, takes: Takes::File }
    }
}

/// How many values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// One.
    One,
    /// Several, separated by commas or given one after the other.
    Several,
    /// `true` or `false`; the bare flag is `true`.
    Switch,
    /// One, or none: the bare flag means the standard output, `-`.
    File,
}

/// Where a value comes from, for error messages.
#[derive(Clone, Debug)]
enum Origin {
    Default,
    Flag,
    Set,
    Scenario { file: PathBuf, line: usize },
}

#[derive(Clone, Debug)]
struct Given {
    values: Vec<String>,
    origin: Origin,
}

/// The settings of one call.
#[derive(Clone, Debug)]
pub struct Settings {
    keys: &'static [Key],
    given: BTreeMap<&'static str, Given>,
}

/// The arguments that `keys` stand for, with `--scenario` and `--set`.
pub fn args(keys: &'static [Key]) -> Vec<Arg> {
    let mut args = vec![
        Arg::new("scenario")
            .long("scenario")
            .value_name("FILE")
            .help("Read settings from a TOML file, in which every flag below is a key"),
        Arg::new("set")
            .long("set")
            .value_name("KEY=VALUE")
            .action(ArgAction::Append)
            .help("Give a setting by its key; it overrides the scenario file"),
    ];
    args.extend(keys.iter().map(|key| {
        let help = match key.default {
            "" => key.help.to_owned(),
            default => format!("{} [default: {default}]", key.help),
        };
        let arg = Arg::new(key.name).long(key.name).value_name(key.value).help(help);
        let arg = match key.name.split_once('.') {
            Some(_) => arg.help_heading("Devices (in a scenario file TABLE.KEY is KEY in the table [TABLE])"),
            None => arg,
        };
        match key.takes {
            Takes::One => arg.action(ArgAction::Set),
            Takes::Several => arg.action(ArgAction::Append),
            Takes::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
            Takes::File => arg.num_args(0..=1).require_equals(true).default_missing_value("-"),
        }
    }));
    args
}

impl Settings {
    /// Puts together what the flags, `--set` and the scenario file give; the first of them that knows a key decides.
    pub fn new(keys: &'static [Key], matches: &ArgMatches) -> Result<Self> {
        let mut settings = Self { keys, given: BTreeMap::new() };
        if let Some(file) = matches.get_one::<String>("scenario") {
            settings.read_scenario(Path::new(file))?;
        }
        for pair in matches.get_many::<String>("set").into_iter().flatten() {
            let (name, value) = pair.split_once('=').with_context(|| format!("--set {pair}: write KEY=VALUE"))?;
            let key = settings.key(name.trim()).with_context(|| format!("--set {pair}"))?;
            settings.give(key, vec![value.trim().to_owned()], Origin::Set);
        }
        for key in keys {
            if let Some(values) = matches.get_many::<String>(key.name) {
                settings.give(key, values.cloned().collect(), Origin::Flag);
            }
        }
        Ok(settings)
    }

    fn key(&self, name: &str) -> Result<&'static Key> {
        self.keys.iter().find(|key| key.name == name).ok_or_else(|| {
            let close = self.keys.iter().map(|key| (distance(key.name, name), key.name)).min();
            match close {
                Some((d, close)) if d <= 3 => anyhow!("there is no key '{name}'; did you mean '{close}'?"),
                _ => anyhow!("there is no key '{name}'; --help lists them all"),
            }
        })
    }

    fn give(&mut self, key: &'static Key, values: Vec<String>, origin: Origin) {
        let values = if key.takes == Takes::Several {
            let parts = values.iter().flat_map(|v| v.split(',')).map(str::trim).filter(|v| !v.is_empty());
            parts.map(str::to_owned).collect()
        } else {
            values
        };
        self.given.insert(key.name, Given { values, origin });
    }

    fn read_scenario(&mut self, file: &Path) -> Result<()> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let at = |offset: usize| 1 + text[..offset.min(text.len())].matches('\n').count();
        let table = DeTable::parse(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| at(span.start));
            anyhow!("{}, line {line}: {}", file.display(), error.message())
        })?;
        self.read_table(file, &at, "", table.get_ref())
    }

    fn read_table(
        &mut self,
        file: &Path,
        line: &dyn Fn(usize) -> usize,
        prefix: &str,
        table: &DeTable<'_>,
    ) -> Result<()> {
        for (name, value) in table {
            let full = format!("{prefix}{}", name.get_ref());
            let line_number = line(name.span().start);
            let place = || format!("{}, line {line_number}", file.display());
            if let DeValue::Table(inner) = value.get_ref() {
                if !self.keys.iter().any(|key| key.name.starts_with(&format!("{full}."))) {
                    bail!("{}: there is no table [{full}]", place());
                }
                self.read_table(file, line, &format!("{full}."), inner)?;
                continue;
            }
            let key = self.key(&full).with_context(place)?;
            let values = match value.get_ref() {
                DeValue::Array(items) if key.takes == Takes::Several => {
                    items.iter().map(scalar).collect::<Option<Vec<_>>>()
                }
                DeValue::Array(_) => bail!("{}: '{full}' takes one value, not a list", place()),
                _ => scalar(value).map(|v| vec![v]),
            };
            let values = values.with_context(|| {
                format!("{}: '{full}' takes text, numbers, true or false, not dates or tables", place())
            })?;
            self.give(key, values, Origin::Scenario { file: file.to_owned(), line: line_number });
        }
        Ok(())
    }

    fn find(&self, name: &str) -> (&'static Key, Given) {
        let key = self.keys.iter().find(|key| key.name == name).unwrap_or_else(|| panic!("'{name}' is not a key"));
        let given = self.given.get(name).cloned().unwrap_or_else(|| {
            let values = key.default.split(',').filter(|v| !v.is_empty()).map(str::to_owned).collect();
            let values = if key.takes == Takes::Several || key.default.is_empty() {
                values
            } else {
                vec![key.default.to_owned()]
            };
            Given { values, origin: Origin::Default }
        });
        (key, given)
    }

    /// Every setting in force that has a value, as text.
    pub fn in_force(&self) -> Vec<(String, String)> {
        let value = |key: &Key| (key.name.to_owned(), self.find(key.name).1.values.join(","));
        self.keys.iter().map(value).filter(|(_, value)| !value.is_empty()).collect()
    }

    /// Whether the user gave the key.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// All values of a key, through `parse`, whose error says what would be right.
    pub fn all<T, E: fmt::Display>(&self, name: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<Vec<T>> {
        let (key, given) = self.find(name);
        if key.takes == Takes::Several && given.values.is_empty() {
            bail!("{}{}: the list is empty", given.origin, key.name);
        }
        let parsed = given
            .values
            .iter()
            .map(|value| parse(value).map_err(|right| anyhow!("{}{} = '{value}': {right}", given.origin, key.name)));
        parsed.collect()
    }

    /// The one value of a key, if it has one.
    pub fn optional<T, E: fmt::Display>(&self, name: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<Option<T>> {
        Ok(self.all(name, parse)?.pop())
    }

    /// The one value of a key.
    pub fn one<T, E: fmt::Display>(&self, name: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<T> {
        let value = self.optional(name, parse)?;
        value.ok_or_else(|| anyhow!("'{name}' is missing: give --{name} or set it in a scenario file"))
    }

    /// A file's name: from a scenario file it is relative to that file.
    pub fn path(&self, name: &str) -> Result<Option<PathBuf>> {
        let (_, given) = self.find(name);
        let path = self.optional(name, |text| Ok::<_, String>(PathBuf::from(text)))?;
        Ok(match (path, &given.origin) {
            (Some(path), Origin::Scenario { file, .. }) if path != Path::new("-") => {
                Some(file.parent().map_or_else(|| path.clone(), |folder| folder.join(&path)))
            }
            (path, _) => path,
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default "),
            Self::Flag => write!(f, "--"),
            Self::Set => write!(f, "--set "),
            Self::Scenario { file, line } => write!(f, "{}, line {line}: ", file.display()),
        }
    }
}

/// A value of a TOML file as the text that a flag would have.
fn scalar(value: &Spanned<DeValue<'_>>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        // In TOML's other number bases a value stays as it is written, and is then refused as a quantity.
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(switch) => Some(switch.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// How many letters must be changed, added or taken away to make one name of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_close() {
        assert_eq!(distance("policy", "policies"), 3);
        assert_eq!(distance("cache", "cache"), 0);
        assert_eq!(distance("", "abc"), 3);
    }
}
