//! `destage sweep`: all runs of a grid, here or on a Dask cluster.

use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use anyhow::{Result, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use destage_sim::experiment::StopSignal;
use destage_sweep::{ParameterSweep, SweepDescription, SweepSummary, local};
use serde::Deserialize;

use crate::flags;
use crate::output::CommandOutputs;
use crate::progress::SweepProgress;
use crate::screen::{self, TerminalScreen};
use crate::{sweep_output, workers};

/// The command.
pub fn command() -> Command {
    Command::new("sweep")
        .about("Run a declared grid of settings over traces, as rows of a Parquet data set that goes on where it stopped")
        .after_help(
            "FILE is TOML: [scenario] has settings that all runs share, traces = [...] names or patterns, [grid] keys with lists of \
             values. Rows are the same bytes with any number of threads or workers, and however often the sweep was interrupted. \
             docs/sweeps.md has the columns, and clusters of Slurm and Kubernetes.",
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("What is swept; names in it are relative to it"),
        )
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::DirPath)
                .help("The data set: rows that are here already are not computed again; sweep.parquet has all of them in the end"),
        )
        .arg(flags::threads_arg())
        .arg(workers::arg())
        .arg(
            Arg::new("progress")
                .long("progress")
                .value_name("true|false")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_parser(value_parser!(bool))
                .help("Show progress on the standard error: where it is no terminal, a line every ten seconds [default: true]"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Tell how it went as JSON; see docs/sweeps.md"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let file = matches.get_one::<PathBuf>("file").cloned().unwrap_or_default();
    let out = matches.get_one::<PathBuf>("out").cloned().unwrap_or_default();
    let progress = matches.get_one::<bool>("progress").copied().unwrap_or(true);
    let description = SweepDescription::read(&file)?;
    // The standard output goes to none of them.
    CommandOutputs::apart_from(description.files().map(Path::to_owned))?;
    let summary = match matches.get_one::<String>("on") {
        Some(scheduler) => elsewhere(&file, &out, scheduler, progress)?,
        None => here(&description, &out, matches.get_one::<u16>("threads").copied(), progress)?,
    };
    if matches.get_flag("json") {
        let mut stdout = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut stdout, &summary)?;
        writeln!(stdout)?;
    } else {
        let mut screen = TerminalScreen::stdout();
        sweep_output::text(&mut screen, &summary)?;
        screen.flush()?;
    }
    if let Some(failed) = summary.failed.first() {
        let many = match summary.failed.len() {
            1 => format!("1 of {} runs has", summary.runs),
            n => format!("{n} of {} runs have", summary.runs),
        };
        bail!("{many} no result, such as {}: {}", failed.run, failed.error);
    }
    Ok(())
}

/// On threads of this process.
fn here(description: &SweepDescription, out: &Path, threads: Option<u16>, progress: bool) -> Result<SweepSummary> {
    let shown = SweepProgress::new(progress);
    let sweep =
        ParameterSweep::open(description, &[], out, &|trace, _| shown.look(trace)).inspect_err(|_| shown.finish())?;
    for note in sweep.notes() {
        screen::note(note);
    }
    let known = sweep.known();
    let threads = threads.and_then(|threads| NonZero::new(usize::from(threads)));
    let done = local(sweep, threads, &StopSignal::default(), &|done, runs| shown.show(done, runs, known));
    shown.finish();
    Ok(done?)
}

/// Holds the last message of Python.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum SweepMessage {
    Summary(Box<SweepSummary>),
    Error(String),
    Missing(String),
}

/// On the workers of a scheduler, which Python knows how to ask.
fn elsewhere(file: &Path, out: &Path, scheduler: &str, progress: bool) -> Result<SweepSummary> {
    let with = |call: &mut Process| {
        call.arg(file).arg("--out").arg(out).arg("--on").arg(scheduler);
        call.arg(if progress { "--progress" } else { "--no-progress" });
    };
    let (child, name) = workers::python("destage._sweep", with, Stdio::null())?;
    let output = child.wait_with_output()?;
    let last = String::from_utf8_lossy(&output.stdout);
    let told = last.lines().last().and_then(|line| serde_json::from_str(line).ok());
    match told {
        Some(SweepMessage::Summary(summary)) => Ok(*summary),
        Some(SweepMessage::Error(error)) => Err(anyhow!(error)),
        Some(SweepMessage::Missing(what)) => Err(workers::missing(&name, &what)),
        None => bail!("{name} ended with {} and without results", output.status),
    }
}
