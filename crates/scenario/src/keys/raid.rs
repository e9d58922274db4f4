//! Settings of the array's controller.

use destage_plan::Nanos;
use destage_raid::{StripeCacheSize, settings};
use destage_sim::array::{ArrayService, StepTimes};

use super::Result;
use super::array::{PARITY, REGIME};
use super::nvram::{self, journal};
use crate::quantity as q;
use crate::setting::declare_settings;
use crate::values::{page_time, positive, word};
use crate::{AppliesTo, ScenarioSettings, TypedSetting};

declare_settings! {
    /// Lists the settings of the table `[raid]`.
    pub(super) table KEYS;

    pub(crate) const DEPTH: TypedSetting<u64> = TypedSetting::one(
        "raid.depth",
        "FRAGMENTS",
        "4096",
        AppliesTo::Array,
        "Fragments of requests that the array works on at a time",
        positive,
    );
    pub(crate) const OPEN_ROWS: TypedSetting<u64> = TypedSetting::one(
        "raid.open-rows",
        "ROWS",
        "16384",
        AppliesTo::Array,
        "Rows whose intents may be open before the array flushes on its own",
        positive,
    );
    pub(crate) const IDLE_FLUSH: TypedSetting<Nanos> = TypedSetting::one(
        "raid.idle-flush",
        "TIME",
        "5s",
        AppliesTo::Array,
        "This long after a write the array flushes on its own; the row counts as clean after twice the time",
        q::time,
    );
    pub(crate) const REBUILD_WINDOW: TypedSetting<u32> = TypedSetting::one(
        "raid.rebuild-window",
        "STRIPES",
        "8",
        AppliesTo::Array,
        "Stripes that a rebuild fills before its progress is noted",
        rebuild_window,
    );
    pub(crate) const NV_SLOTS: TypedSetting<u32> = TypedSetting::one(
        "raid.nv-slots",
        "SLOTS",
        "1024",
        AppliesTo::Array,
        "Page slots of the NVRAM",
        nv_slots,
    );
    pub(crate) const DISCARD_PASSDOWN: TypedSetting<Option<bool>> = TypedSetting::one(
        "raid.discard-passdown",
        "auto|yes|no",
        "auto",
        AppliesTo::Array,
        "Whether discards of whole rows go on to the members; auto: not to disks, which have no TRIM",
        passdown,
    );
    pub(crate) const MERGE: TypedSetting<u64> = TypedSetting::one(
        "raid.merge",
        "SIZE",
        "512KiB",
        AppliesTo::Array,
        "Neighbouring steps that leave together become commands of up to this; 0: none",
        q::bytes,
    );
    pub(crate) const STRIPE_CACHE: TypedSetting<StripeCacheSize> =
        TypedSetting::of_array(&settings::STRIPE_CACHE, AppliesTo::Array);
    pub(crate) const COMPUTE: TypedSetting<Nanos> = TypedSetting::one(
        "raid.compute",
        "TIME",
        "0",
        AppliesTo::Array,
        "Computing a page of parity, a merge or a copy of sectors",
        page_time,
    );
}

/// Reads how the array is served, in pages of so many bytes.
pub(crate) fn service(settings: &ScenarioSettings, page: u64) -> Result<ArrayService> {
    let merge = MERGE.get(settings)?;
    Ok(ArrayService {
        parity: PARITY.get(settings)?,
        regime: REGIME.get(settings)?,
        depth: DEPTH.get(settings)?.min(1 << 24) as usize,
        open_rows: OPEN_ROWS.get(settings)?.min(1 << 40) as usize,
        idle_flush: IDLE_FLUSH.get(settings)?,
        rebuild_window: REBUILD_WINDOW.get(settings)?,
        nv_slots: NV_SLOTS.get(settings)?,
        passes_discards: DISCARD_PASSDOWN.get(settings)?,
        stripe_cache: STRIPE_CACHE.get(settings)?,
        times: StepTimes {
            nv_write: nvram::WRITE.get(settings)?,
            nv_read: nvram::READ.get(settings)?,
            nv_note: nvram::NOTE.get(settings)?,
            compute: COMPUTE.get(settings)?,
            merge_pages: (merge / page).clamp(1, 1 << 16) as u32,
            journal: None,
        },
        journal: journal(settings, page)?,
    })
}

fn passdown(text: &str) -> std::result::Result<Option<bool>, String> {
    word(text, &[("auto", None), ("yes", Some(true)), ("no", Some(false))])
}

fn rebuild_window(text: &str) -> std::result::Result<u32, String> {
    match q::count32(text) {
        Ok(0) | Err(_) => Err("a whole number between 1 and 2^32 - 1".into()),
        stripes => stripes,
    }
}

fn nv_slots(text: &str) -> std::result::Result<u32, String> {
    text.parse().ok().filter(|slots| *slots <= 1 << 24).ok_or_else(|| "a whole number up to 16777216".into())
}
