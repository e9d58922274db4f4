//! `destage report`: results of one or several simulations as a page with its data.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use destage_report::{FILES, PAGE, RankingObjective, RunComparison, RunsReport};

use crate::compare_output;
use crate::output::{CommandOutputs, NewFile};
use crate::screen::TerminalScreen;

/// The command.
pub fn command() -> Command {
    Command::new("report")
        .about("Show and compare results of `destage sim --json` in one page that needs no network, or two of them side by side")
        .after_help(
            "The folder gets index.html, which holds all it needs, and beside it results.json and the tables runs,\n\
             series, cdf and wear as CSV and Parquet. `destage sim --report DIR` writes the same at once.",
        )
        .arg(
            Arg::new("results")
                .value_name("FILE")
                .required(true)
                .action(ArgAction::Append)
                .value_parser(value_parser!(PathBuf))
                .help(
                    "Results that `destage sim --json=FILE` wrote; - is the standard input. Several are put together",
                ),
        )
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("DIR")
                .required_unless_present("compare")
                .value_parser(value_parser!(PathBuf))
                .help("The folder to write; created if it does not exist"),
        )
        .arg(Arg::new("objective").long("objective").conflicts_with("compare").value_name("mean|p99|p99.9|write-amplification|erases|hits").help(
            "What *best* means [default: mean response time; of results without times the hit ratio, or the throughput of the cost model]",
        ))
        .arg(
            Arg::new("compare")
                .long("compare")
                .action(ArgAction::SetTrue)
                .conflicts_with("out")
                .help("Show two results side by side, run by run, with the change, in place of a page"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .requires("compare")
                .help("With --compare: as JSON; changes are parts of the first value"),
        )
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let results: Vec<&PathBuf> = matches.get_many("results").into_iter().flatten().collect();
    if matches.get_flag("compare") {
        return compare(&results, matches.get_flag("json"));
    }
    let out = matches.get_one::<PathBuf>("out").expect("clap asks for it");
    let mut outputs = CommandOutputs::apart_from(results.iter().copied())?;
    let folder = ReportFolder::begin(&mut outputs, out, &FILES)?;
    let mut runs = Vec::new();
    for file in results {
        runs.extend(destage_report::read(&file.display().to_string(), &content(file)?)?);
    }
    let report = match matches.get_one::<String>("objective") {
        Some(name) => {
            let objective =
                RankingObjective::named(name).map_err(|right| anyhow!("--objective {name}: expected {right}"))?;
            RunsReport::new(runs).ranked_by(objective)
        }
        None => RunsReport::new(runs),
    };
    outputs.commit(folder.write(report.files()?)?)
}

/// Shows two results side by side.
fn compare(files: &[&PathBuf], as_json: bool) -> Result<()> {
    let &[first, second] = files else {
        bail!(
            "--compare puts two results side by side, and there {} given",
            match files.len() {
                1 => "is one".to_owned(),
                n => format!("are {n}"),
            }
        );
    };
    // Nothing is written but what is shown, which must not go where the results are.
    CommandOutputs::apart_from(files.iter().copied())?;
    let names = [first, second].map(|file| file.display().to_string());
    let first_runs = destage_report::read(&names[0], &content(first)?)?;
    let second_runs = destage_report::read(&names[1], &content(second)?)?;
    let comparison = RunComparison::new([&first_runs, &second_runs]);
    if as_json {
        let mut out = std::io::stdout().lock();
        let mut value = comparison.as_json();
        value["files"] = serde_json::json!(names);
        serde_json::to_writer_pretty(&mut out, &value)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut screen = TerminalScreen::stdout();
    compare_output::text(&mut screen, names.each_ref().map(String::as_str), &comparison)?;
    Ok(screen.flush()?)
}

fn content(file: &Path) -> Result<Vec<u8>> {
    let read = if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    read.with_context(|| format!("cannot read {}", file.display()))
}

/// The folder of a report.
pub struct ReportFolder {
    /// Begun at once, so that it is known before the simulation whether they can be written.
    files: Vec<(&'static str, NewFile)>,
}

impl ReportFolder {
    /// The folder, which is created if it does not exist, with the files of these names.
    ///
    /// # Errors
    /// Where it cannot be made, nothing can be written there, or one of its files is an input or
    /// another output.
    pub fn begin(outputs: &mut CommandOutputs, path: &Path, names: &[&'static str]) -> Result<Self> {
        Ok(Self { files: outputs.folder(path, names)? })
    }

    /// Writes the content of each file; returns them in the order in which they are to be
    /// committed, the page last.
    pub fn write(mut self, content: Vec<(String, Vec<u8>)>) -> Result<Vec<NewFile>> {
        assert_eq!(content.len(), self.files.len(), "a report has the files that were announced");
        for (name, content) in content {
            let file = self.files.iter_mut().find(|(known, _)| *known == name);
            file.expect("a report has the files that were announced").1.write_all(&content)?;
        }
        self.files.sort_by_key(|(name, _)| *name == PAGE);
        Ok(self.files.into_iter().map(|(_, file)| file).collect())
    }
}
