//! `destage flush`: a served array's cache is written back.

use anyhow::Result;
use clap::{ArgMatches, Command};
use destage_engine::ServiceCommand;

use super::served::{HEARD, array_arg, control_arg, order, timeout_arg};

/// The command.
pub fn command() -> Command {
    Command::new("flush")
        .about("Have a served array write back what its members have not, and wait until that is done")
        .after_help(
            "Requests are served meanwhile; what is written after the command has begun need not be written back.",
        )
        .arg(array_arg())
        .arg(control_arg())
        .arg(timeout_arg(HEARD))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    order(matches, &ServiceCommand::Flush).map(drop)
}
