//! `destage replace`: another file in the place of a served array's device.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use destage_engine::Order;

use super::served::{array_arg, control_arg, order};

/// The command.
pub fn command() -> Command {
    Command::new("replace")
        .about("Put a file or block device in the place of a served array's member or cache device")
        .after_help(
            "It is filled while requests are served; destage status tells when that is done. What it held is lost. The description \
             names it from then on.",
        )
        .arg(array_arg())
        .arg(
            Arg::new("device")
                .value_name("MEMBER|cache")
                .required(true)
                .help("Which device: a member's number, or cache; destage status names them"),
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("What takes its place; made if it is not there [default: the device's own file, made anew]"),
        )
        .arg(control_arg())
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let device = matches.get_one::<String>("device").cloned().unwrap_or_default();
    let path = matches.get_one::<PathBuf>("file");
    let path = path.map(|path| std::path::absolute(path).with_context(|| path.display().to_string())).transpose()?;
    order(matches, &Order::Replace { device, path }).map(drop)
}
