//! `destage completions`: what a shell needs to complete command lines.

use std::io::Write;

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;

/// The command.
pub fn command() -> Command {
    Command::new("completions")
        .about("Write completions of destage's command line for a shell")
        .arg(Arg::new("shell").value_name("SHELL").required(true).value_parser(value_parser!(Shell)).help("The shell"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    if let Some(&shell) = matches.get_one::<Shell>("shell") {
        // Into memory first: the generator panics where its output cannot be written.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut super::command(), "destage", &mut script);
        std::io::stdout().lock().write_all(&script)?;
    }
    Ok(())
}
