//! The commands of the one binary.

mod export;
mod policies;
mod record;
mod reproduce;
mod schema;
mod sim;
mod trace;
mod validate;

use anyhow::Result;
use clap::{ArgMatches, Command};

/// The command line.
pub fn command() -> Command {
    Command::new("destage")
        .about(
            "Decides when, where and how written data leaves a fast cache: simulates write buffers over block traces",
        )
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(sim::command())
        .subcommand(policies::command())
        .subcommand(schema::command())
        .subcommand(trace::command())
        .subcommand(reproduce::command())
        .subcommand(validate::command())
}

/// Runs what the command line says.
pub fn run(matches: &ArgMatches) -> Result<()> {
    match matches.subcommand() {
        Some(("sim", matches)) => sim::run(matches),
        Some(("policies", matches)) => policies::run(matches),
        Some(("schema", matches)) => schema::run(matches),
        Some(("trace", matches)) => trace::run(matches),
        Some(("reproduce", matches)) => reproduce::run(matches),
        Some(("validate", matches)) => validate::run(matches),
        _ => unreachable!("clap asks for a subcommand"),
    }
}
