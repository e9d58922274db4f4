//! Chooses the model of an SSD and its preset, by default too, and tells which settings belong to which model.

use std::fmt;

use destage_sim::ssd::{MODERN_DRIVES, ModernDesign, presets};

use super::ssd::{
    ALLOCATION, BACKGROUND, BLOCKS_PER_PLANE, COLLECTION_BATCH, COPY_BACK, FTL, IDLE_FIRST, KEPT_BLOCKS, LOG_BLOCKS,
    MIN_FREE, PARALLEL_UNITS, PRESET, STRIDE, SUMMARY_PAGE,
};
use super::ssd_modern::{KEYS, MODEL};
use super::{Result, ssd_placement};
use crate::{ScenarioError, ScenarioSettings, SettingKey};

/// Tells which model of an SSD it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SsdModel {
    /// Selects the model of the papers.
    Classic,
    /// Selects the model of drives of data centres.
    Modern,
}

/// Settings that the classic model alone has.
const CLASSIC_ONLY: [SettingKey; 13] = [
    FTL.key(),
    LOG_BLOCKS.key(),
    ALLOCATION.key(),
    IDLE_FIRST.key(),
    BLOCKS_PER_PLANE.key(),
    KEPT_BLOCKS.key(),
    MIN_FREE.key(),
    COPY_BACK.key(),
    BACKGROUND.key(),
    COLLECTION_BATCH.key(),
    PARALLEL_UNITS.key(),
    STRIDE.key(),
    SUMMARY_PAGE.key(),
];

/// Names the SSD of the modern model where none is given: a drive that can be bought.
const MODERN_PRESET: &str = "pm9a3";
/// Names the SSD of the classic model where none is given: that of LAWC.
const CLASSIC_PRESET: &str = "lawc";

/// Returns true if the modern model has no such preset: a paper's.
fn is_classic_alone(preset: &str) -> bool {
    ModernDesign::named(preset).is_none() && presets().any(|(name, _)| name == preset)
}

/// Returns true if the classic model has no such preset.
fn is_modern_alone(preset: &str) -> bool {
    presets().all(|(name, _)| name != preset) && ModernDesign::named(preset).is_some()
}

/// Lists the presets that the modern model alone has.
pub(super) fn modern_alone() -> impl Iterator<Item = &'static str> {
    MODERN_DRIVES.iter().map(|drive| drive.name).filter(|name| is_modern_alone(name))
}

/// Reads the preset by its name, which is given or the default of the model.
pub(super) fn preset_by<U, E: fmt::Display>(
    settings: &ScenarioSettings,
    parse: impl Fn(&str) -> std::result::Result<U, E>,
) -> Result<U> {
    match PRESET.optional_by(settings, &parse)? {
        Some(preset) => Ok(preset),
        None => parse(default_preset(settings)?)
            .map_err(|right| ScenarioError::new(format_args!("default '{}': {right}", PRESET.name()))),
    }
}

/// Returns the name of the SSD where none is given.
fn default_preset(settings: &ScenarioSettings) -> Result<&'static str> {
    Ok(match MODEL.optional(settings)? {
        Some(SsdModel::Classic) => CLASSIC_PRESET,
        Some(SsdModel::Modern) | None => MODERN_PRESET,
    })
}

/// Returns true if the settings choose the modern model: it is given, or the preset is not a paper's.
pub(super) fn is_modern(settings: &ScenarioSettings) -> Result<bool> {
    match MODEL.optional(settings)? {
        Some(model) => Ok(model == SsdModel::Modern),
        None => preset_by(settings, |name| Ok::<_, String>(ModernDesign::named(name).is_some())),
    }
}

/// Lists the preset and the model of SSDs as far as they are not given but follow. Results name them, since what follows may
/// change. The model of a paper's preset is no choice and is left out.
pub(crate) fn implied(settings: &ScenarioSettings) -> Result<Vec<(&'static str, String)>> {
    let mut implied = Vec::new();
    if !PRESET.is_given(settings) {
        implied.push((PRESET.name(), default_preset(settings)?.to_owned()));
    }
    if !MODEL.is_given(settings) && is_modern(settings)? {
        implied.push((MODEL.name(), "modern".to_owned()));
    }
    Ok(implied)
}

/// Returns the SSD by its preset and model, such as `SSD pm9a3 (modern model)`.
pub(crate) fn name(settings: &ScenarioSettings) -> Result<String> {
    let model = if is_modern(settings)? { "modern" } else { "classic" };
    preset_by(settings, |preset| Ok::<_, String>(format!("SSD {preset} ({model} model)")))
}

/// Returns the settings with those that are [`implied`].
pub(crate) fn with_implied(settings: &ScenarioSettings) -> Result<ScenarioSettings> {
    let mut with = settings.clone();
    for (name, value) in implied(settings)? {
        with.flag(name, vec![value])?;
    }
    Ok(with)
}

/// Returns the model that the settings choose, and refuses settings that it does not have.
pub(super) fn chosen(settings: &ScenarioSettings) -> Result<SsdModel> {
    let preset = preset_by(settings, |name| Ok::<_, String>(name.to_owned()))?;
    let chosen = if is_modern(settings)? { SsdModel::Modern } else { SsdModel::Classic };
    match chosen {
        SsdModel::Classic if is_modern_alone(&preset) => {
            return Err(ScenarioError::new(format_args!(
                "'ssd.preset' = {preset} has ssd.model = modern alone; leave ssd.model out, or give another preset"
            )));
        }
        SsdModel::Classic => {
            let mut of_modern = KEYS.iter().chain(ssd_placement::KEYS).filter(|key| key.name != MODEL.name());
            if let Some(key) = of_modern.find(|key| settings.is_given(key)) {
                let instead = if is_classic_alone(&preset) && PRESET.is_given(settings) {
                    format!(
                        "give a drive of the modern model in place of ssd.preset = {preset}, such as {MODERN_PRESET}"
                    )
                } else {
                    "set ssd.model = modern".to_owned()
                };
                return Err(ScenarioError::new(format_args!(
                    "'{}' has no meaning with ssd.model = classic; leave it out, or {instead}",
                    key.name
                )));
            }
        }
        SsdModel::Modern => {
            if let Some(key) = CLASSIC_ONLY.iter().find(|key| settings.is_given(key)) {
                return Err(ScenarioError::new(format_args!(
                    "'{}' has no meaning with ssd.model = modern (ssd.preset = {preset}), where units of all planes fill superblocks \
                     of all dies; leave it out, or set ssd.model = classic (--ssd.model classic)",
                    key.name
                )));
            }
        }
    }
    Ok(chosen)
}
