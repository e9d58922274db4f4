//! Settings of how a simulation is carried out and where its results go.

use std::path::PathBuf;

use destage_sim::experiment::RunResources;

use super::Result;
use crate::quantity as q;
use crate::setting::declare_settings;
use crate::values::{parsed, path};
use crate::{AppliesTo, RecordedPlace, ScenarioSettings, TypedSetting};

declare_settings! {
    /// Lists the settings of outputs and resources, in the order of the help.
    pub(super) table KEYS;

    /// Holds the file of results as JSON.
    pub const JSON: TypedSetting<PathBuf> = TypedSetting::file(
        "json",
        AppliesTo::All,
        "Write the results as JSON, to the standard output in place of the table or to a file",
    )
    .recorded(RecordedPlace::Nowhere);
    /// Holds the file of results as CSV.
    pub const CSV: TypedSetting<PathBuf> = TypedSetting::file(
        "csv",
        AppliesTo::All,
        "Write the results as CSV, in the same way",
    )
    .recorded(RecordedPlace::Nowhere);
    /// Holds the file of what became of each request.
    pub const LATENCY_LOG: TypedSetting<PathBuf> = TypedSetting::file(
        "latency-log",
        AppliesTo::All,
        "Write what became of each request of the one run, as Parquet if the name ends in .parquet, else as CSV",
    )
    .recorded(RecordedPlace::Nowhere);
    /// Holds the folder of the report.
    pub const REPORT: TypedSetting<PathBuf> = TypedSetting::one(
        "report",
        "DIR",
        "",
        AppliesTo::All,
        "Write a page that shows and compares the results into this folder, with its data",
        path,
    )
    .recorded(RecordedPlace::Nowhere);
    /// Holds the folder in which results are kept.
    pub const RESUME: TypedSetting<PathBuf> = TypedSetting::one(
        "resume",
        "DIR",
        "",
        AppliesTo::All,
        "Keep the result of each run in this folder, and take from it what the same program found for the same settings and \
         trace: what was interrupted goes on",
        path,
    )
    .recorded(RecordedPlace::Nowhere);
    /// Holds the name of the objective.
    pub const OBJECTIVE: TypedSetting<String> = TypedSetting::one(
        "objective",
        "mean|p99|p99.9|write-amplification|erases|hits",
        "",
        AppliesTo::All,
        "What *best* means in the table and on the page [default: mean; without a device hits]",
        parsed,
    )
    .recorded(RecordedPlace::Nowhere);
    /// Holds whether wall time and rates are printed.
    pub const TIMING: TypedSetting<bool> = TypedSetting::switch(
        "timing",
        "false",
        AppliesTo::All,
        "Print wall time and rates to the standard error",
    )
    .recorded(RecordedPlace::Nowhere);
    /// Holds whether progress is shown.
    pub const PROGRESS: TypedSetting<bool> = TypedSetting::switch(
        "progress",
        "true",
        AppliesTo::All,
        "Show progress on the standard error: where it is no terminal, a line every ten seconds",
    )
    .recorded(RecordedPlace::Nowhere);
    /// Holds the number of threads that simulate.
    pub const THREADS: TypedSetting<usize> = TypedSetting::one(
        "threads",
        "N",
        "",
        AppliesTo::All,
        "Threads that simulate; results do not depend on it [default: the processors]",
        threads,
    )
    .recorded(RecordedPlace::Nowhere);
    /// Holds the bytes of memory for simulated devices.
    pub const MEMORY: TypedSetting<u64> = TypedSetting::one(
        "memory",
        "SIZE",
        "2GiB",
        AppliesTo::All,
        "Memory for simulated devices (beyond it the trace is read again for the rest), or without one for page tables",
        q::bytes,
    )
    .recorded(RecordedPlace::Nowhere);
}

/// Reads the threads and memory that the experiment may use.
pub fn resources(settings: &ScenarioSettings) -> Result<RunResources<'static>> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(RunResources { threads: THREADS.get_or(settings, processors)?, memory_bytes: MEMORY.get(settings)?, stop: None })
}

fn threads(text: &str) -> std::result::Result<usize, String> {
    match q::count32(text) {
        Ok(n) if (1..=4096).contains(&n) => Ok(n as usize),
        _ => Err("a number between 1 and 4096".into()),
    }
}
