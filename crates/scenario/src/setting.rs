//! Declares settings as constants of a type. Readers name the constant, which makes them visible to the compiler.

use std::fmt;
use std::path::PathBuf;

use destage_plan::quantity;
use destage_raid::settings::{ArraySetting, ShownSetting};

use crate::key::{AppliesTo, RecordedPlace, SettingKey, ValueCount};
use crate::{ScenarioError, ScenarioSettings, path_text};

/// Reads a value, or says what would be right.
type ParseValue<T> = fn(&str) -> Result<T, String>;

/// A setting whose values are of this type.
#[derive(Debug)]
pub struct TypedSetting<T> {
    key: SettingKey,
    parse: ParseValue<T>,
}

impl<T> TypedSetting<T> {
    /// Declares a setting with one value.
    pub(crate) const fn one(
        name: &'static str,
        value: &'static str,
        default: &'static str,
        applies_to: AppliesTo,
        help: &'static str,
        parse: ParseValue<T>,
    ) -> Self {
        Self { key: SettingKey::new(ValueCount::One, name, value, default, applies_to, help), parse }
    }

    /// Declares a setting with several values.
    pub(crate) const fn list(
        name: &'static str,
        value: &'static str,
        default: &'static str,
        applies_to: AppliesTo,
        help: &'static str,
        parse: ParseValue<T>,
    ) -> Self {
        Self { key: SettingKey::new(ValueCount::Several, name, value, default, applies_to, help), parse }
    }

    /// Declares a setting that arrays have wherever they are described.
    pub(crate) const fn of_array(setting: &ArraySetting<T>, applies_to: AppliesTo) -> Self {
        let ShownSetting { name, value, help } = setting.simulated;
        Self::one(name, value, setting.default, applies_to, help, setting.parse)
    }

    /// Returns the same setting, recorded elsewhere than among the settings of a result.
    pub(crate) const fn recorded(self, recorded: RecordedPlace) -> Self {
        Self { key: SettingKey { recorded, ..self.key }, parse: self.parse }
    }

    /// Returns the same setting, without a default.
    pub(crate) const fn without_default(self) -> Self {
        Self { key: SettingKey { default: "", ..self.key }, parse: self.parse }
    }

    /// Returns what the help says of it.
    pub const fn key(&self) -> SettingKey {
        self.key
    }

    /// Returns its name.
    pub const fn name(&self) -> &'static str {
        self.key.name
    }

    /// Returns true if the user gave it.
    pub fn is_given(&self, settings: &ScenarioSettings) -> bool {
        settings.is_given(&self.key)
    }

    /// Returns its value, which is given or has a default.
    ///
    /// # Errors
    /// If there is none, or what would be right in its place.
    pub fn get(&self, settings: &ScenarioSettings) -> Result<T, ScenarioError> {
        self.get_by(settings, self.parse)
    }

    /// Returns its value if it has one, or else this one.
    ///
    /// # Errors
    /// Tells what would be right in its place.
    pub fn get_or(&self, settings: &ScenarioSettings, other: T) -> Result<T, ScenarioError> {
        Ok(self.optional(settings)?.unwrap_or(other))
    }

    /// Returns its value if it has one.
    ///
    /// # Errors
    /// Tells what would be right in its place.
    pub fn optional(&self, settings: &ScenarioSettings) -> Result<Option<T>, ScenarioError> {
        self.optional_by(settings, self.parse)
    }

    /// Returns all of its values.
    ///
    /// # Errors
    /// If the list is empty, or what would be right in its place.
    pub fn all(&self, settings: &ScenarioSettings) -> Result<Vec<T>, ScenarioError> {
        self.all_by(settings, self.parse)
    }

    /// Returns its value as `parse` reads it, where that depends on other settings.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_by<U, E: fmt::Display>(
        &self,
        settings: &ScenarioSettings,
        parse: impl Fn(&str) -> Result<U, E>,
    ) -> Result<U, ScenarioError> {
        settings.one(self.key.name, parse)
    }

    /// Returns its value, if it has one, as `parse` reads it.
    ///
    /// # Errors
    /// As [`optional`](Self::optional).
    pub fn optional_by<U, E: fmt::Display>(
        &self,
        settings: &ScenarioSettings,
        parse: impl Fn(&str) -> Result<U, E>,
    ) -> Result<Option<U>, ScenarioError> {
        settings.optional(self.key.name, parse)
    }

    /// Returns all of its values as `parse` reads them.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub fn all_by<U, E: fmt::Display>(
        &self,
        settings: &ScenarioSettings,
        parse: impl Fn(&str) -> Result<U, E>,
    ) -> Result<Vec<U>, ScenarioError> {
        settings.all(self.key.name, parse)
    }
}

impl TypedSetting<bool> {
    /// Declares a switch.
    pub(crate) const fn switch(
        name: &'static str,
        default: &'static str,
        applies_to: AppliesTo,
        help: &'static str,
    ) -> Self {
        let key = SettingKey::new(ValueCount::Switch, name, "true|false", default, applies_to, help);
        Self { key, parse: quantity::switch }
    }
}

impl TypedSetting<PathBuf> {
    /// Declares a file to write.
    pub(crate) const fn file(name: &'static str, applies_to: AppliesTo, help: &'static str) -> Self {
        let key = SettingKey::new(ValueCount::File, name, "FILE", "", applies_to, help);
        Self { key, parse: |text| Ok(path_text::path(text)) }
    }

    /// Returns the file's name if it has one: from a scenario file it is relative to that file.
    ///
    /// # Errors
    /// If the setting takes one value and has several.
    pub fn path(&self, settings: &ScenarioSettings) -> Result<Option<PathBuf>, ScenarioError> {
        settings.path(self.key.name)
    }
}

impl ScenarioSettings {
    /// The same, where names of files that these settings give, if `is_file` of key and value, do not
    /// depend on where they are written: they begin at the root.
    pub(crate) fn with_whole_paths(
        &self,
        files: &[TypedSetting<PathBuf>],
        is_file: impl Fn(&SettingKey, &str) -> bool,
    ) -> Result<Self, ScenarioError> {
        let mut whole = self.clone();
        for setting in files.iter().filter(|setting| setting.is_given(self)) {
            let key = setting.key();
            let wrong = |what: &dyn fmt::Display| ScenarioError::new(format_args!("{}: {what}", key.name));
            let value = self.one(key.name, |text| Ok::<_, String>(text.to_owned()))?;
            if let Some(path) = setting.path(self)?.filter(|_| is_file(&key, &value)) {
                let path = std::path::absolute(path).map_err(|error| wrong(&error))?;
                whole.flag(key.name, vec![path_text::of(path)])?;
            }
        }
        Ok(whole)
    }
}

/// Declares settings as constants, and the table of their keys in the same order.
macro_rules! declare_settings {
    (
        $(#[$table_meta:meta])* $table_vis:vis table $table:ident;
        $($(#[$meta:meta])* $vis:vis const $name:ident: $type:ty = $value:expr;)*
    ) => {
        $($(#[$meta])* $vis const $name: $type = $value;)*
        $(#[$table_meta])*
        $table_vis const $table: &[$crate::SettingKey] = &[$($name.key()),*];
    };
}

pub(crate) use declare_settings;
