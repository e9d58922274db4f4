//! Settings of the array's controller.

use destage_raid::array::{ParityMethod, Regime};
use destage_sim::array::{Service, StepTimes};

use super::nvram::journal;
use super::{LONGEST_PAGE, Result, bounded, positive, word};
use crate::quantity as q;
use crate::{AppliesTo, Key, Settings};

/// Lists the settings of the table `[raid]`.
pub(super) const KEYS: &[Key] = &[
    Key::one(
        "raid.depth",
        "FRAGMENTS",
        "4096",
        AppliesTo::Array,
        "Fragments of requests that the array works on at a time",
    ),
    Key::one(
        "raid.open-rows",
        "ROWS",
        "16384",
        AppliesTo::Array,
        "Rows whose intents may be open before the array flushes on its own",
    ),
    Key::one(
        "raid.idle-flush",
        "TIME",
        "5s",
        AppliesTo::Array,
        "After this long without a flush the array flushes on its own",
    ),
    Key::one(
        "raid.rebuild-window",
        "STRIPES",
        "8",
        AppliesTo::Array,
        "Stripes that a rebuild fills before its progress is noted",
    ),
    Key::one("raid.nv-slots", "SLOTS", "1024", AppliesTo::Array, "Page slots of the NVRAM"),
    Key::one(
        "raid.merge",
        "SIZE",
        "512KiB",
        AppliesTo::Array,
        "Neighbouring steps that leave together become commands of up to this; 0: none",
    ),
    Key::one("raid.compute", "TIME", "0", AppliesTo::Array, "Computing a page of parity, a merge or a copy of sectors"),
];

pub(crate) fn service(settings: &Settings, page: u64) -> Result<Service> {
    let merge = settings.one("raid.merge", q::bytes)?;
    Ok(Service {
        parity: settings.one(
            "parity",
            word(&[
                ("min", ParityMethod::Min),
                ("rmw", ParityMethod::Rmw),
                ("rcw", ParityMethod::Rcw),
                ("disksim", ParityMethod::Disksim),
            ]),
        )?,
        regime: settings.one("regime", word(&[("flush", Regime::Flush), ("every-write", Regime::EveryWrite)]))?,
        depth: settings.one("raid.depth", |text| positive(text).map(|n| n.min(1 << 24) as usize))?,
        open_rows: settings.one("raid.open-rows", |text| positive(text).map(|n| n.min(1 << 40) as usize))?,
        idle_flush: settings.one("raid.idle-flush", q::time)?,
        rebuild_window: settings.one("raid.rebuild-window", |text| match q::count32(text) {
            Ok(0) | Err(_) => Err("a whole number between 1 and 2^32 - 1"),
            Ok(stripes) => Ok(stripes),
        })?,
        nv_slots: settings.one("raid.nv-slots", |text| {
            text.parse().ok().filter(|slots| *slots <= 1 << 24).ok_or("a whole number up to 16777216")
        })?,
        times: StepTimes {
            nv_write: settings.one("nvram.write", bounded(LONGEST_PAGE))?,
            nv_read: settings.one("nvram.read", bounded(LONGEST_PAGE))?,
            nv_note: settings.one("nvram.note", bounded(LONGEST_PAGE))?,
            compute: settings.one("raid.compute", bounded(LONGEST_PAGE))?,
            merge_pages: (merge / page).clamp(1, 1 << 16) as u32,
            journal: None,
        },
        journal: journal(settings, page)?,
    })
}
