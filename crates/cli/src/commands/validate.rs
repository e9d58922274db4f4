//! `destage validate`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgMatches, Command, value_parser};
use destage_reproduce::validate::{Effort, validate};

use crate::{flags, output};

/// The command.
pub fn command() -> Command {
    Command::new("validate")
        .about("Check the simulator against theory and conservation laws, and put it beside other simulators")
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("FILE")
                .default_value("-")
                .value_parser(value_parser!(PathBuf))
                .help("Where the report goes, as Markdown; - for the standard output"),
        )
        .arg(flags::threads_arg())
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let out = matches.get_one::<PathBuf>("out").cloned().unwrap_or_default();
    // A file that cannot be written shall be known before the simulation, not after it.
    let mut file = output::NewFile::create(&out)?;
    let step = |what: &str| eprintln!("validate: {what}");
    let found = flags::thread_pool(matches)?.install(|| validate(Effort::FULL, &step))?;
    file.write_all(found.markdown.as_bytes()).with_context(|| format!("cannot write {}", out.display()))?;
    file.commit()?;
    if !found.failures.is_empty() {
        bail!("{} checks fail:\n{}", found.failures.len(), found.failures.join("\n"));
    }
    Ok(())
}
