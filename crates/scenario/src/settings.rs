//! Settings that a command line flag, `--set key=value` or a scenario file can give, under one name
//! each.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use destage_plan::names::distance;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{ScenarioError, SettingKey, ValueCount, path_text};

/// Bytes of a scenario file at most; a hand-written one has a few thousand.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Says where a value comes from, for error messages.
#[derive(Clone, Debug)]
enum ValueOrigin {
    Default,
    Flag,
    Set,
    Scenario { file: PathBuf, line: usize },
}

#[derive(Clone, Debug)]
struct GivenValue {
    values: Vec<String>,
    origin: ValueOrigin,
}

/// The settings of one call.
#[derive(Clone, Debug)]
pub struct ScenarioSettings {
    keys: &'static [SettingKey],
    given: BTreeMap<&'static str, GivenValue>,
    files: Vec<PathBuf>,
}

impl ScenarioSettings {
    /// Nothing given yet.
    pub fn new(keys: &'static [SettingKey]) -> Self {
        Self { keys, given: BTreeMap::new(), files: Vec::new() }
    }

    /// The keys that there are.
    pub fn keys(&self) -> &'static [SettingKey] {
        self.keys
    }

    fn key(&self, name: &str) -> Result<&'static SettingKey, ScenarioError> {
        self.keys.iter().find(|key| key.name == name).ok_or_else(|| {
            // A key a few letters off is named: most unknown keys are mistyped.
            let close = self.keys.iter().map(|key| (distance(key.name, name), key.name)).min();
            ScenarioError::new(match close {
                Some((d, close)) if d <= 3 => format!("there is no key '{name}'; did you mean '{close}'?"),
                _ => format!("there is no key '{name}'; --help lists them all"),
            })
        })
    }

    fn give(&mut self, key: &'static SettingKey, values: Vec<String>, origin: ValueOrigin) {
        // A list can be given as several values or as one with commas, and reads the same from all sources.
        let values = if key.takes == ValueCount::Several {
            let parts = values.iter().flat_map(|v| v.split(',')).map(str::trim).filter(|v| !v.is_empty());
            parts.map(str::to_owned).collect()
        } else {
            values
        };
        self.given.insert(key.name, GivenValue { values, origin });
    }

    /// Gives a setting as the flag `--NAME`; it overrides what was given before.
    pub fn flag(&mut self, name: &str, values: Vec<String>) -> Result<(), ScenarioError> {
        let key = self.key(name)?;
        self.give(key, values, ValueOrigin::Flag);
        Ok(())
    }

    /// Gives a setting as `KEY=VALUE`; it overrides what was given before.
    pub fn set(&mut self, pair: &str) -> Result<(), ScenarioError> {
        let at = |error: ScenarioError| error.at(format_args!("--set {pair}"));
        let (name, value) = pair.split_once('=').ok_or_else(|| at(ScenarioError::new("write KEY=VALUE")))?;
        let key = self.key(name.trim()).map_err(at)?;
        self.give(key, vec![value.trim().to_owned()], ValueOrigin::Set);
        Ok(())
    }

    /// Takes the settings of a TOML file; they override what was given before.
    pub fn read_file(&mut self, file: &Path) -> Result<(), ScenarioError> {
        self.files.push(file.to_owned());
        self.read_text(file, &read(file)?)
    }

    /// Takes the settings of a TOML file that was read already; `file` names it in errors, and file
    /// names in it are relative to it.
    pub fn read_text(&mut self, file: &Path, text: &str) -> Result<(), ScenarioError> {
        let table = DeTable::parse(text).map_err(|error| {
            let line = line_of(text, error.span().map_or(0, |span| span.start));
            ScenarioError::new(error.message()).at(format_args!("{}, line {line}", file.display()))
        })?;
        self.read_table(file, text, "", table.get_ref())
    }

    /// Takes a table of a TOML file as settings: `text` is the whole file, `prefix` precedes the
    /// names of its keys.
    pub fn read_table(
        &mut self,
        file: &Path,
        text: &str,
        prefix: &str,
        table: &DeTable<'_>,
    ) -> Result<(), ScenarioError> {
        for (name, value) in table {
            let full = format!("{prefix}{}", name.get_ref());
            let line = line_of(text, name.span().start);
            let wrong =
                |message: String| ScenarioError::new(message).at(format_args!("{}, line {line}", file.display()));
            if let DeValue::Table(inner) = value.get_ref() {
                // A table is nothing but the common beginning of keys.
                if !self.keys.iter().any(|key| key.name.starts_with(&format!("{full}."))) {
                    return Err(wrong(format!("there is no table [{full}]")));
                }
                self.read_table(file, text, &format!("{full}."), inner)?;
                continue;
            }
            let key = self.key(&full).map_err(|error| wrong(error.to_string()))?;
            let values = match value.get_ref() {
                DeValue::Array(items) if key.takes == ValueCount::Several => {
                    items.iter().map(scalar).collect::<Option<Vec<_>>>()
                }
                DeValue::Array(_) => return Err(wrong(format!("'{full}' takes one value, not a list"))),
                _ => scalar(value).map(|v| vec![v]),
            };
            let Some(values) = values else {
                return Err(wrong(format!("'{full}' takes text, numbers, true or false, not dates or tables")));
            };
            self.give(key, values, ValueOrigin::Scenario { file: file.to_owned(), line });
        }
        Ok(())
    }

    /// Returns the key of this name, which is one of those of these settings.
    fn known(&self, name: &str) -> &'static SettingKey {
        self.keys.iter().find(|key| key.name == name).unwrap_or_else(|| panic!("'{name}' is not a key"))
    }

    fn find(&self, name: &str) -> (&'static SettingKey, GivenValue) {
        let key = self.known(name);
        let given = self.given.get(name).cloned().unwrap_or_else(|| {
            let values = key.default.split(',').filter(|v| !v.is_empty()).map(str::to_owned).collect();
            let values = if key.takes == ValueCount::Several || key.default.is_empty() {
                values
            } else {
                vec![key.default.to_owned()]
            };
            GivenValue { values, origin: ValueOrigin::Default }
        });
        (key, given)
    }

    /// The files that were read.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The same with the default of a key given.
    pub(crate) fn with_default(&self, key: &SettingKey) -> Result<Self, ScenarioError> {
        let mut with = self.clone();
        // A default that is given counts as if a user had given it, and takes part in the checks.
        with.flag(key.name, self.find(key.name).1.values)?;
        Ok(with)
    }

    /// The values of a key as they were given, if they were.
    pub(crate) fn given_values(&self, key: &SettingKey) -> Option<&[String]> {
        self.given.get(key.name).map(|given| given.values.as_slice())
    }

    /// Lists the given values in the order of their keys' names. Given again as flags, they describe the same
    /// settings.
    pub fn given(&self) -> impl Iterator<Item = (&'static SettingKey, &[String])> {
        self.given.iter().map(|(name, given)| (self.known(name), given.values.as_slice()))
    }

    /// Every setting in force that has a value, as text.
    pub fn in_force(&self) -> Vec<(String, String)> {
        self.in_force_of(|_| true)
    }

    /// Returns the settings in force that have a value, as text, of the keys that are wanted.
    pub(crate) fn in_force_of(&self, is_wanted: impl Fn(&SettingKey) -> bool) -> Vec<(String, String)> {
        let value = |key: &SettingKey| (key.name.to_owned(), self.find(key.name).1.values.join(","));
        let wanted = self.keys.iter().filter(|key| is_wanted(key));
        wanted.map(value).filter(|(_, value)| !value.is_empty()).collect()
    }

    /// Returns true if the user gave the key of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Returns true if the user gave the key.
    pub fn is_given(&self, key: &SettingKey) -> bool {
        self.has(key.name)
    }

    /// All values of a key, through `parse`, whose error says what would be right.
    pub(crate) fn all<T, E: fmt::Display>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Vec<T>, ScenarioError> {
        let (key, given) = self.find(name);
        if key.takes == ValueCount::Several && given.values.is_empty() {
            return Err(ScenarioError::new(format_args!("{}{}: the list is empty", given.origin, key.name)));
        }
        let wrong = |value: &str, right: E| {
            ScenarioError::new(format_args!("{}{} = '{value}': {right}", given.origin, key.name))
        };
        given.values.iter().map(|value| parse(value).map_err(|right| wrong(value, right))).collect()
    }

    /// The one value of a key, if it has one.
    pub(crate) fn optional<T, E: fmt::Display>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, ScenarioError> {
        Ok(self.all(name, parse)?.pop())
    }

    /// The one value of a key.
    pub(crate) fn one<T, E: fmt::Display>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<T, ScenarioError> {
        let value = self.optional(name, parse)?;
        value.ok_or_else(|| {
            ScenarioError::new(format_args!("'{name}' is missing: give --{name} or set it in a scenario file"))
        })
    }

    /// A file's name, which has the text that was given ([`path_text`]): from a scenario file it is relative to that file.
    pub(crate) fn path(&self, name: &str) -> Result<Option<PathBuf>, ScenarioError> {
        let (_, given) = self.find(name);
        let path = self.optional(name, |text| Ok::<_, String>(path_text::path(text)))?;
        Ok(match (path, &given.origin) {
            (Some(path), ValueOrigin::Scenario { file, .. }) if path != Path::new("-") => {
                // A path in a scenario file is relative to that file: it is read from anywhere.
                Some(file.parent().map_or_else(|| path.clone(), |folder| folder.join(&path)))
            }
            (path, _) => path,
        })
    }
}

/// Reads a scenario file, which must be a text of reasonable size.
pub fn read(file: &Path) -> Result<String, ScenarioError> {
    use std::io::Read;
    let wrong = |what: String| ScenarioError::new(what).at(file.display());
    let opened = std::fs::File::open(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too large without reading it.
    let taken = opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    taken.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(wrong(format!("is larger than {MAX_FILE_BYTES} B: not a scenario file")));
    }
    String::from_utf8(bytes).map_err(|error| {
        // The line is counted in what can be read, which is everything before the fault.
        let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        wrong(format!("line {} is not UTF-8 text", 1 + valid.matches('\n').count()))
    })
}

/// The line, from 1, of a byte of a text.
pub fn line_of(text: &str, offset: usize) -> usize {
    1 + text.get(..offset).unwrap_or(text).matches('\n').count()
}

impl fmt::Display for ValueOrigin {
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
        // In TOML's other number bases a value stays as it is written, and is then refused as a
        // quantity.
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(switch) => Some(switch.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}
