//! `destage stop`: the end of a service, in order.

use anyhow::Result;
use clap::{ArgMatches, Command};
use destage_engine::Order;

use super::served::{HEARD, array_arg, control_arg, order, timeout_arg};

/// The command.
pub fn command() -> Command {
    Command::new("stop")
        .about("End the service of an array, and wait until nothing is left to be recovered")
        .arg(array_arg())
        .arg(control_arg())
        .arg(timeout_arg(HEARD))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    order(matches, &Order::Stop).map(drop)
}
