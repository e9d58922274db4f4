//! `destage report`: results of one or several simulations as a page with its data.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use destage_report::{FILES, Objective, PAGE, Report};

use crate::output::{NewFile, Outputs};

/// The command.
pub fn command() -> Command {
    Command::new("report")
        .about("Show and compare results of `destage sim --json` in one page that needs no network")
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
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The folder to write; created if it does not exist"),
        )
        .arg(Arg::new("objective").long("objective").value_name("mean|p99|p99.9|write-amplification|erases|hits").help(
            "What *best* means [default: mean response time; of results without times the hit ratio, or the throughput of the cost model]",
        ))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let results: Vec<&PathBuf> = matches.get_many("results").into_iter().flatten().collect();
    let out = matches.get_one::<PathBuf>("out").expect("clap asks for it");
    let mut outputs = Outputs::apart_from(results.iter().copied())?;
    let folder = Folder::begin(&mut outputs, out, &FILES)?;
    let mut runs = Vec::new();
    for file in results {
        runs.extend(destage_report::read(&file.display().to_string(), &content(file)?)?);
    }
    let report = match matches.get_one::<String>("objective") {
        Some(name) => {
            let objective = Objective::named(name).map_err(|right| anyhow!("--objective {name}: expected {right}"))?;
            Report::new(runs).ranked_by(objective)
        }
        None => Report::new(runs),
    };
    outputs.commit(folder.write(report.files()?)?)
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
pub struct Folder {
    /// Begun at once, so that it is known before the simulation whether they can be written.
    files: Vec<(&'static str, NewFile)>,
}

impl Folder {
    /// The folder, which is created if it does not exist, with the files of these names.
    ///
    /// # Errors
    /// Where it cannot be made, nothing can be written there, or one of its files is an input or
    /// another output.
    pub fn begin(outputs: &mut Outputs, path: &Path, names: &[&'static str]) -> Result<Self> {
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
