//! `destage sim`: policies × buffer sizes over one trace.

use std::io::Write;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{ArgMatches, Command};
use destage_scenario::quantity::{self as q, show_count};
use destage_scenario::sim::{self, SIM};
use destage_sim::experiment::Progress;
use destage_sim::result::RunResult;

use crate::flags;
use crate::output;
use crate::progress::Bar;

/// The command.
pub fn command() -> Command {
    Command::new("sim")
        .about("Simulate write buffers over a block trace: policies x sizes in one call")
        .after_help(
            "Results are the same on every machine and with any number of threads. Every flag is also a key of a\n\
             scenario file: `destage sim --scenario FILE`. `destage schema` explains every field of the results.",
        )
        .args(flags::args(SIM))
}

/// Writes the results in one of their forms.
type Writer = fn(&mut dyn Write, &[RunResult]) -> Result<()>;

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let settings = flags::settings(SIM, matches)?;
    let requests = sim::requests(&settings)?;
    let experiment = sim::experiment(&settings, &requests)?;
    let resources = sim::resources(&settings)?;
    let (json, csv) = (settings.path("json")?, settings.path("csv")?);
    let to_stdout = |path: &Option<std::path::PathBuf>| path.as_deref() == Some(std::path::Path::new("-"));
    if to_stdout(&json) && to_stdout(&csv) {
        bail!("--json and --csv cannot both go to the standard output; give one of them a file: --csv=FILE");
    }
    let timing = settings.one("timing", q::switch)?;
    // A file that cannot be written shall be known before the simulation, not after it.
    let mut files = Vec::new();
    for (path, write) in [(&json, output::json as Writer), (&csv, output::csv as Writer)] {
        if let Some(path) = path {
            files.push((output::create(path)?, write));
        }
    }
    let bar = Bar::new(settings.one("progress", q::switch)?);
    let started = Instant::now();
    let mut passes = 0;
    let mut open = || {
        let input = requests.open(passes);
        passes += 1;
        input
    };
    let report = experiment.run(resources, &mut open, &|progress: Progress| bar.show(progress));
    bar.finish();
    let report = report?;
    for warning in &report.warnings {
        eprintln!("warning: {warning}");
    }
    for (out, write) in &mut files {
        write(out, &report.results)?;
        out.flush()?;
    }
    if !to_stdout(&json) && !to_stdout(&csv) {
        let mut out = std::io::stdout().lock();
        output::text(&mut out, &report.results)?;
        out.flush()?;
    }
    if timing {
        let seconds = started.elapsed().as_secs_f64();
        eprintln!(
            "timing: {seconds:.3} s wall, {} threads, {} runs; {} requests read ({}/s), {} page accesses simulated ({}/s)",
            resources.threads,
            report.results.len(),
            show_count(report.requests),
            show_count((report.requests as f64 / seconds) as u64),
            show_count(report.accesses),
            show_count((report.accesses as f64 / seconds) as u64),
        );
    }
    Ok(())
}
