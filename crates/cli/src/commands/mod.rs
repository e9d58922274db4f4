//! The commands of the one binary.

mod advise;
mod assemble;
mod block_device;
mod completions;
mod create;
mod export;
mod find;
mod flush;
mod free_space;
mod man;
mod mrc;
mod policies;
mod record;
mod replace;
mod report;
mod reproduce;
mod schema;
mod scrub;
mod serve;
mod served;
mod sim;
mod ssd;
mod status;
mod stop;
mod sweep;
mod take_out;
mod top;
mod trace;
mod validate;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Arg, ArgMatches, Command};

use crate::examples;

/// The command line.
pub fn command() -> Command {
    examples::add(bare())
}

/// The same without examples and exit statuses, which manual pages have sections for.
pub fn bare() -> Command {
    Command::new("destage")
        .about(
            "Decides when, where and how written data leaves a fast cache: simulates write buffers over block traces",
        )
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(
            Arg::new("color")
                .long("color")
                .value_name("auto|always|never")
                .value_parser(["auto", "always", "never"])
                .hide_possible_values(true)
                .default_value("auto")
                .global(true)
                .help("Colours; auto: on a terminal, unless NO_COLOR is set or TERM is dumb"),
        )
        .subcommand(advise::command())
        .subcommand(sim::command())
        .subcommand(sweep::command())
        .subcommand(policies::command())
        .subcommand(schema::command())
        .subcommand(report::command())
        .subcommand(trace::command())
        .subcommand(ssd::command())
        .subcommand(reproduce::command())
        .subcommand(create::command())
        .subcommand(assemble::command())
        .subcommand(serve::command())
        .subcommand(status::command())
        .subcommand(top::command())
        .subcommand(flush::command())
        .subcommand(replace::command())
        .subcommand(take_out::fail_command())
        .subcommand(take_out::detach_command())
        .subcommand(take_out::attach_command())
        .subcommand(scrub::command())
        .subcommand(stop::command())
        .subcommand(validate::command())
        .subcommand(completions::command())
        .subcommand(man::command())
}

/// Runs what the command line says; returns the exit status if it went well.
pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let done = match matches.subcommand() {
        Some(("status", matches)) => return status::run(matches),
        Some(("top", matches)) => return top::run(matches),
        Some(("scrub", matches)) => return scrub::run(matches),
        Some(("advise", matches)) => advise::run(matches),
        Some(("sim", matches)) => sim::run(matches),
        Some(("sweep", matches)) => sweep::run(matches),
        Some(("policies", matches)) => policies::run(matches),
        Some(("schema", matches)) => schema::run(matches),
        Some(("report", matches)) => report::run(matches),
        Some(("trace", matches)) => trace::run(matches),
        Some(("ssd", matches)) => ssd::run(matches),
        Some(("reproduce", matches)) => reproduce::run(matches),
        Some(("create", matches)) => create::run(matches),
        Some(("assemble", matches)) => assemble::run(matches),
        Some(("serve", matches)) => serve::run(matches),
        Some(("flush", matches)) => flush::run(matches),
        Some(("replace", matches)) => replace::run(matches),
        Some(("fail", matches)) => take_out::run_fail(matches),
        Some(("detach", matches)) => take_out::run_detach(matches),
        Some(("attach", matches)) => take_out::run_attach(matches),
        Some(("stop", matches)) => stop::run(matches),
        Some(("validate", matches)) => validate::run(matches),
        Some(("completions", matches)) => completions::run(matches),
        Some(("man", matches)) => man::run(matches),
        _ => unreachable!("clap asks for a subcommand"),
    };
    done.map(|()| ExitCode::SUCCESS)
}
