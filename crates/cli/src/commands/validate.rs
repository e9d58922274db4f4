//! `destage validate`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use destage_reproduce::validate::{DRAWINGS, ValidationEffort, validate};

use crate::output::CommandOutputs;
use crate::screen::TerminalScreen;
use crate::{flags, markdown};

/// The command.
pub fn command() -> Command {
    Command::new("validate")
        .about("Check the simulator against theory and conservation laws, and compare it with other simulators")
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help(
                    "Write the report as Markdown to a file, and its drawings (drives-*.svg) beside it, or with - the report \
                     alone to the standard output, in place of showing it",
                ),
        )
        .arg(flags::threads_arg())
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let out = matches.get_one::<PathBuf>("out");
    // A file that cannot be written shall be known before the simulation, not after it.
    let mut outputs = CommandOutputs::apart_from([] as [PathBuf; 0])?;
    let file = out.map(|path| outputs.file(path)).transpose()?;
    let beside = out.filter(|path| path.as_os_str() != "-");
    let drawings = beside.into_iter().flat_map(|path| DRAWINGS.map(|name| path.with_file_name(name)));
    let drawings: Vec<_> = drawings.map(|path| outputs.file(&path)).collect::<Result<_>>()?;
    let step = |what: &str| eprintln!("validate: {what}");
    let found = flags::thread_pool(matches)?.install(|| validate(ValidationEffort::FULL, &step))?;
    match file {
        Some(mut file) => {
            file.write_all(found.markdown.as_bytes())?;
            let mut files = drawings;
            for (file, drawing) in files.iter_mut().zip(&found.drawings) {
                file.write_all(drawing.as_bytes())?;
            }
            files.push(file);
            outputs.commit(files)?;
        }
        None => markdown::show(&mut TerminalScreen::stdout(), &found.markdown)?,
    }
    if !found.failures.is_empty() {
        bail!("{} checks fail:\n{}", found.failures.len(), found.failures.join("\n"));
    }
    Ok(())
}
