//! The devices of a run in words, as its settings name them.

use destage_scenario::quantity::show_capacity;
use destage_sim::ssd::{ModernDesign, drive, presets};

use crate::ReportRun;
use crate::size::show_size;

/// Returns a setting of a run; empty if it was not recorded.
pub(crate) fn setting<'a>(run: &'a ReportRun, key: &str) -> &'a str {
    run.pairs("settings").find(|(name, _)| *name == key).map_or("", |(_, value)| value)
}

/// Returns true if a run's SSDs are of the modern model. Results that do not say so are of the classic one, but for presets that
/// have no classic.
pub(crate) fn is_modern(run: &ReportRun) -> bool {
    let preset = setting(run, "ssd.preset");
    match setting(run, "ssd.model") {
        "" => ModernDesign::named(preset).is_some() && presets().all(|(name, _)| name != preset),
        model => model == "modern",
    }
}

/// Returns the drive of the modern model that a run's SSDs are, if they are one.
pub(crate) fn modern_drive(run: &ReportRun) -> Option<&'static ModernDesign> {
    if is_modern(run) { ModernDesign::named(setting(run, "ssd.preset")) } else { None }
}

/// Returns the SSD of a run by its preset and model, such as `SSD pm9a3 (modern model): Samsung PM9A3, 960 GB, TLC for servers`.
pub fn ssd_words(run: &ReportRun) -> String {
    let preset = setting(run, "ssd.preset");
    let modern = modern_drive(run).map(|drive| (drive.name, drive.about));
    let about = modern.or_else(|| presets().find(|(name, _)| *name == preset));
    let about = about.map_or_else(String::new, |(_, about)| format!(": {}", about.split(':').next().unwrap_or(about)));
    let model = if is_modern(run) { "modern" } else { "classic" };
    match preset {
        "" => "SSD".to_owned(),
        preset => format!("SSD {preset} ({model} model){about}"),
    }
}

/// Returns what a run was simulated on, in one line: an SSD with how much of it is simulated, or an array with its members.
pub fn device_words(run: &ReportRun) -> String {
    let bytes = |path: &str| run.number(path).unwrap_or_default() as u64;
    if run.is_array {
        let size = show_capacity(bytes("array.member_bytes"));
        let members = match run.text("device") {
            "ssd" => ssd_words(run),
            other => other.to_owned(),
        };
        let cache = match run.text("cache_device") {
            "" => String::new(),
            "ssd" => format!("; the cache is on {}", ssd_words(run)),
            other => format!("; the cache is on a device: {other}"),
        };
        let (level, count) = (run.text("array.level"), bytes("array.members"));
        return format!("{level} over {count} members of {size}: {members}{cache}");
    }
    match run.text("device") {
        "ssd" => {
            let exported = bytes("ssd.host_pages") * bytes("page_bytes");
            let modern = modern_drive(run).map(|drive| drive.exported_bytes);
            let of_drive = modern.or_else(|| drive(setting(run, "ssd.preset")).map(|drive| drive.exported_bytes));
            let scaled = if of_drive.is_some_and(|all| exported < all) { ", scaled to the trace" } else { "" };
            format!("{}{scaled}: {} for the host", ssd_words(run), show_size(exported))
        }
        "analytic" => "LB-CLOCK's cost model, which knows no times".to_owned(),
        _ => "none: hits alone are counted".to_owned(),
    }
}
