//! Settings of the modern model of SSDs.

use destage_plan::{Nanos, PageGeometry};
use destage_sim::ssd::{MODERN_DRIVES, ModernConfig, ModernDesign, SsdConfig, VictimPolicy};

use super::ssd::{
    COLLECTION_WRITE_POINT, ELEMENTS, ENDURANCE, ERASE, PLANES, PROGRAM, QUEUE_DEPTH, READ, RESERVE, TRANSFER,
};
use super::ssd_model::{SsdModel, preset_by};
use super::{Result, ssd_placement};
use crate::quantity as q;
use crate::setting::declare_settings;
use crate::values::{decimal_text, thousandths, time_text, word};
use crate::{AppliesTo, ScenarioSettings, TypedSetting};

declare_settings! {
    /// Lists the settings of the modern model.
    pub(super) table KEYS;

    pub(crate) const MODEL: TypedSetting<SsdModel> = TypedSetting::one(
        "ssd.model",
        "classic|modern",
        "",
        AppliesTo::Ssd,
        "The papers' SSD, or a drive with a protected write cache, reads that suspend programs, and collection in slices \
         (docs/drives.md) [default: modern; classic for a paper's ssd.preset, which has no other]",
        model,
    );
    pub(crate) const PAGES_PER_WORD_LINE: TypedSetting<u32> = TypedSetting::one(
        "ssd.pages-per-word-line",
        "N",
        "",
        AppliesTo::Ssd,
        "Modern: flash pages of 16 KiB of a word line, programmed at once: 3 of TLC, 4 of QLC [default: 3; p4320: 4]",
        q::count32,
    );
    pub(crate) const WORD_LINES: TypedSetting<u32> = TypedSetting::one(
        "ssd.word-lines",
        "N",
        "",
        AppliesTo::Ssd,
        "Modern: word lines of a block [default: as many as leave some 256 superblocks, at most 400]",
        q::count32,
    );
    pub(crate) const SUSPEND: TypedSetting<Nanos> = TypedSetting::one(
        "ssd.suspend",
        "TIME",
        "",
        AppliesTo::Ssd,
        "Modern: from a read's arrival until a program or an erase is suspended for it [default: 60us]",
        q::time,
    );
    pub(crate) const BYPASS: TypedSetting<u16> = TypedSetting::one(
        "ssd.bypass",
        "N",
        "",
        AppliesTo::Ssd,
        "Modern: reads that go before one program or erase at most [default: 16]",
        bypass,
    );
    pub(crate) const SLICE: TypedSetting<u32> = TypedSetting::one(
        "ssd.slice",
        "N",
        "",
        AppliesTo::Ssd,
        "Modern: array reads of two planes each that collection does of a die in one go [default: 6]",
        q::count32,
    );
    pub(crate) const WRITE_CACHE: TypedSetting<u64> = TypedSetting::one(
        "ssd.write-cache",
        "SIZE",
        "",
        AppliesTo::Ssd,
        "Modern: the protected cache that answers writes [default: 4MiB]",
        q::bytes,
    );
    pub(crate) const WRITE_HOLD: TypedSetting<u64> = TypedSetting::one(
        "ssd.write-hold",
        "SIZE",
        "",
        AppliesTo::Ssd,
        "Modern: how much of it is held back so that overwrites meet it; 0 behind a buffer, which overwrites meet first [default: 0]",
        q::bytes,
    );
    pub(crate) const WRITE_SLOTS: TypedSetting<u32> = TypedSetting::one(
        "ssd.write-slots",
        "N",
        "",
        AppliesTo::Ssd,
        "Modern: writes that wait for the cache inside the drive; reads wait behind them [default: the preset's, such as 256 of pm9a3]",
        q::count32,
    );
    pub(crate) const COMMAND_READ: TypedSetting<Nanos> = TypedSetting::one(
        "ssd.command-read",
        "TIME",
        "",
        AppliesTo::Ssd,
        "Modern: what a read takes outside the flash [default: 7us]",
        q::time,
    );
    pub(crate) const COMMAND_WRITE: TypedSetting<Nanos> = TypedSetting::one(
        "ssd.command-write",
        "TIME",
        "",
        AppliesTo::Ssd,
        "Modern: what a write takes outside the flash [default: the preset's, such as 11us of pm9a3]",
        q::time,
    );
    pub(crate) const COMMAND_HIT: TypedSetting<Nanos> = TypedSetting::one(
        "ssd.command-hit",
        "TIME",
        "",
        AppliesTo::Ssd,
        "Modern: what a read takes that the write cache answers [default: 14us]",
        q::time,
    );
    pub(crate) const COMMAND_RATE: TypedSetting<Option<u64>> = TypedSetting::one(
        "ssd.command-rate",
        "N|none",
        "",
        AppliesTo::Ssd,
        "Modern: commands a second at most [default: the preset's]",
        command_rate,
    );
    pub(crate) const LINK: TypedSetting<Option<u64>> = TypedSetting::one(
        "ssd.link",
        "SIZE|none",
        "",
        AppliesTo::Ssd,
        "Modern: bytes a second over the host's interface at most [default: the preset's]",
        link,
    );
    pub(crate) const GC: TypedSetting<VictimPolicy> = TypedSetting::one(
        "ssd.gc",
        "greedy|fifo|d-choice:N|cost-benefit",
        "",
        AppliesTo::Ssd,
        "Modern: which superblock is collected next [default: greedy]",
        victim,
    );
    pub(crate) const FREE_TARGET: TypedSetting<u32> = TypedSetting::one(
        "ssd.free-target",
        "N",
        "",
        AppliesTo::Ssd,
        "Modern: free superblocks that collection is paced to keep [default: 4]",
        q::count32,
    );
    pub(crate) const PACE_GAIN: TypedSetting<u64> = TypedSetting::one(
        "ssd.pace-gain",
        "NUMBER",
        "",
        AppliesTo::Ssd,
        "Modern: how much faster collection goes for each free superblock that is missing [default: 1]",
        thousandths,
    );
}

fn model(text: &str) -> std::result::Result<SsdModel, String> {
    word(text, &[("classic", SsdModel::Classic), ("modern", SsdModel::Modern)])
}

fn bypass(text: &str) -> std::result::Result<u16, String> {
    text.parse().map_err(|_| format!("a whole number of at most {}", u16::MAX))
}

fn command_rate(text: &str) -> std::result::Result<Option<u64>, String> {
    match (text, q::count(text)) {
        ("none", _) => Ok(None),
        (_, Ok(rate)) if rate > 0 => Ok(Some(rate)),
        _ => Err("none, or a number of at least 1".into()),
    }
}

fn link(text: &str) -> std::result::Result<Option<u64>, String> {
    match (text, q::bytes(text)) {
        ("none", _) => Ok(None),
        (_, Ok(rate)) if rate > 0 => Ok(Some(rate)),
        _ => Err("none, or a size such as 6500MB".into()),
    }
}

fn victim(text: &str) -> std::result::Result<VictimPolicy, String> {
    let drawn = || {
        let choices = q::count32(text.strip_prefix("d-choice:")?).ok()?;
        (1..=VictimPolicy::MOST_CHOICES).contains(&choices).then_some(VictimPolicy::DChoice(choices))
    };
    match text {
        "greedy" => Ok(VictimPolicy::Greedy),
        "fifo" => Ok(VictimPolicy::Fifo),
        "cost-benefit" => Ok(VictimPolicy::CostBenefit),
        _ => drawn().ok_or_else(|| {
            format!("greedy, fifo, cost-benefit, or d-choice:N with N between 1 and {}", VictimPolicy::MOST_CHOICES)
        }),
    }
}

/// Reads a modern drive.
pub(super) fn ssd(settings: &ScenarioSettings, geometry: PageGeometry) -> Result<SsdConfig> {
    let mut config = preset_by(settings, |name| {
        ModernDesign::named(name).map(|drive| drive.config(geometry)).ok_or_else(|| {
            let names: Vec<_> = MODERN_DRIVES.iter().map(|drive| drive.name).collect();
            format!("with ssd.model = modern one of {}", names.join(", "))
        })
    })?;
    let mut modern = config.modern.take().unwrap_or_default();
    let c = &mut config;
    for (setting, field) in [
        (ELEMENTS, &mut c.elements),
        (PLANES, &mut c.planes),
        (ENDURANCE, &mut c.endurance),
        (RESERVE, &mut c.reserve_bp),
        (PAGES_PER_WORD_LINE, &mut modern.pages_per_word_line),
        (SLICE, &mut modern.slice_reads),
        (WRITE_SLOTS, &mut modern.write_slots),
        (FREE_TARGET, &mut modern.free_target),
    ] {
        *field = setting.get_or(settings, *field)?;
    }
    for (setting, field) in [
        (READ, &mut c.read),
        (PROGRAM, &mut c.program),
        (ERASE, &mut c.erase),
        (SUSPEND, &mut modern.suspend),
        (COMMAND_READ, &mut modern.command_read),
        (COMMAND_WRITE, &mut modern.command_write),
        (COMMAND_HIT, &mut modern.command_hit),
    ] {
        *field = setting.get_or(settings, *field)?;
    }
    for (setting, field) in [
        (TRANSFER, &mut c.transfer_ps_per_byte),
        (WRITE_CACHE, &mut modern.write_cache_bytes),
        (WRITE_HOLD, &mut modern.write_hold_bytes),
        (PACE_GAIN, &mut modern.pace_gain_milli),
    ] {
        *field = setting.get_or(settings, *field)?;
    }
    c.queue_depth = QUEUE_DEPTH.get_or(settings, c.queue_depth)?;
    c.collection_write_point = COLLECTION_WRITE_POINT.get_or(settings, c.collection_write_point)?;
    modern.word_lines = WORD_LINES.optional(settings)?;
    modern.bypass = BYPASS.get_or(settings, modern.bypass)?;
    modern.command_rate = COMMAND_RATE.get_or(settings, modern.command_rate)?;
    modern.link_rate = LINK.get_or(settings, modern.link_rate)?;
    modern.victim = GC.get_or(settings, modern.victim)?;
    modern.placement = ssd_placement::placement(settings)?;
    c.modern = Some(modern);
    Ok(config)
}

/// Returns the settings that follow from a modern drive, and their values.
pub(super) fn followed(config: &SsdConfig, modern: &ModernConfig) -> Vec<(&'static str, String)> {
    let optional = |rate: Option<u64>| rate.map_or_else(|| "none".to_owned(), |rate| rate.to_string());
    let mut values = vec![
        (MODEL.name(), "modern".to_owned()),
        (ELEMENTS.name(), config.elements.to_string()),
        (PLANES.name(), config.planes.to_string()),
        (RESERVE.name(), format!("{}%", decimal_text(config.reserve_bp.into(), 100))),
        (READ.name(), time_text(config.read)),
        (PROGRAM.name(), time_text(config.program)),
        (ERASE.name(), time_text(config.erase)),
        (TRANSFER.name(), decimal_text(config.transfer_ps_per_byte, 1000)),
        (COLLECTION_WRITE_POINT.name(), config.collection_write_point.word().to_owned()),
        (ENDURANCE.name(), config.endurance.to_string()),
        (QUEUE_DEPTH.name(), config.queue_depth.map_or_else(|| "none".to_owned(), |depth| depth.to_string())),
        (PAGES_PER_WORD_LINE.name(), modern.pages_per_word_line.to_string()),
        (SUSPEND.name(), time_text(modern.suspend)),
        (BYPASS.name(), modern.bypass.to_string()),
        (SLICE.name(), modern.slice_reads.to_string()),
        (WRITE_CACHE.name(), modern.write_cache_bytes.to_string()),
        (WRITE_HOLD.name(), modern.write_hold_bytes.to_string()),
        (WRITE_SLOTS.name(), modern.write_slots.to_string()),
        (COMMAND_READ.name(), time_text(modern.command_read)),
        (COMMAND_WRITE.name(), time_text(modern.command_write)),
        (COMMAND_HIT.name(), time_text(modern.command_hit)),
        (COMMAND_RATE.name(), optional(modern.command_rate)),
        (LINK.name(), optional(modern.link_rate)),
        (GC.name(), modern.victim.to_string()),
        (FREE_TARGET.name(), modern.free_target.to_string()),
        (PACE_GAIN.name(), decimal_text(modern.pace_gain_milli, 1000)),
    ];
    values.extend(ssd_placement::followed(modern));
    values.extend(modern.word_lines.map(|word_lines| (WORD_LINES.name(), word_lines.to_string())));
    values
}
