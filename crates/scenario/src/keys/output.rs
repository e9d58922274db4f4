//! Settings of how a simulation is carried out and where its results go.

use destage_sim::experiment::Resources;

use super::Result;
use crate::quantity as q;
use crate::{AppliesTo, Key, Recorded, Settings};

/// Lists the settings of outputs and resources, in the order of the help.
pub(super) const KEYS: &[Key] = &[
    Key::file(
        "json",
        AppliesTo::All,
        "Write the results as JSON, to the standard output in place of the table or to a file",
    )
    .recorded(Recorded::Nowhere),
    Key::file("csv", AppliesTo::All, "Write the results as CSV, in the same way").recorded(Recorded::Nowhere),
    Key::file(
        "latency-log",
        AppliesTo::Buffers,
        "Write what became of each request of the one run, as Parquet if the name ends in .parquet, else as CSV",
    )
    .recorded(Recorded::Nowhere),
    Key::one(
        "report",
        "DIR",
        "",
        AppliesTo::All,
        "Write a page that shows and compares the results into this folder, with its data",
    )
    .recorded(Recorded::Nowhere),
    Key::one(
        "resume",
        "DIR",
        "",
        AppliesTo::All,
        "Keep the result of each run in this folder, and take from it what the same program found for the same settings and \
         trace: what was interrupted goes on",
    )
    .recorded(Recorded::Nowhere),
    Key::one(
        "objective",
        "mean|p99|p99.9|write-amplification|erases|hits",
        "",
        AppliesTo::All,
        "What *best* means in the table and on the page [default: mean; without a device hits]",
    )
    .recorded(Recorded::Nowhere),
    Key::switch(
        "timing",
        "false",
        AppliesTo::All,
        "Print wall time and rates to the standard error",
    )
    .recorded(Recorded::Nowhere),
    Key::switch(
        "progress",
        "true",
        AppliesTo::All,
        "Show progress on the standard error: where it is no terminal, a line every ten seconds",
    )
    .recorded(Recorded::Nowhere),
    Key::one(
        "threads",
        "N",
        "",
        AppliesTo::All,
        "Threads that simulate; results do not depend on it [default: the processors]",
    )
    .recorded(Recorded::Nowhere),
    Key::one(
        "memory",
        "SIZE",
        "2GiB",
        AppliesTo::All,
        "Memory for simulated devices (beyond it the trace is read again for the rest), or without one for page tables",
    )
    .recorded(Recorded::Nowhere),
];

/// How the experiment is carried out.
pub fn resources(settings: &Settings) -> Result<Resources<'static>> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = settings.optional("threads", |text| match q::count32(text) {
        Ok(n) if (1..=4096).contains(&n) => Ok(n as usize),
        _ => Err("a number between 1 and 4096"),
    })?;
    Ok(Resources {
        threads: threads.unwrap_or(processors),
        memory_bytes: settings.one("memory", q::bytes)?,
        stop: None,
    })
}
