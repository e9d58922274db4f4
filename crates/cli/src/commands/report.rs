//! `destage report`: results of one or several simulations as a page with its data.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use destage_report::{PAGE, Report};

use crate::output::NewFile;

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
                .help("The folder to write; made if it is not there"),
        )
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let mut runs = Vec::new();
    for file in matches.get_many::<PathBuf>("results").into_iter().flatten() {
        runs.extend(destage_report::read(&file.display().to_string(), &content(file)?)?);
    }
    let out = matches.get_one::<PathBuf>("out").expect("clap asks for it");
    Folder::create(out)?.write(Report::new(runs).files()?)
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
    path: PathBuf,
    /// Begun at once, so that it is known before the simulation whether the folder can be written.
    page: NewFile,
}

impl Folder {
    /// The folder, which is made if it is not there.
    ///
    /// # Errors
    /// Where it cannot be made or nothing can be written there.
    pub fn create(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).with_context(|| format!("cannot make the report's folder {}", path.display()))?;
        Ok(Self { path: path.to_owned(), page: NewFile::create(&path.join(PAGE))? })
    }

    /// Writes the report's files, the page last.
    pub fn write(mut self, files: Vec<(String, Vec<u8>)>) -> Result<()> {
        for (name, content) in files {
            if name == PAGE {
                self.page.write_all(&content)?;
            } else {
                let mut file = NewFile::create(&self.path.join(name))?;
                file.write_all(&content)?;
                file.commit()?;
            }
        }
        self.page.commit()
    }
}
