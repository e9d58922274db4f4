//! What the commands of the block service have in common: which array is meant, and how it is asked.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgMatches, ValueHint, value_parser};
use destage_engine::{Description, Order, Reply};

/// The array that a command is about.
pub fn array_arg() -> Arg {
    Arg::new("array")
        .value_name("ARRAY")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::AnyPath)
        .help("The array: its folder, or its description, such as array.toml")
}

/// The socket at which the service takes orders, if it is not where it is looked for.
pub fn control_arg() -> Arg {
    Arg::new("control")
        .long("control")
        .value_name("SOCKET")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .help("Where the service takes orders [default: control.sock beside the description]")
}

/// The array's description.
pub fn description(matches: &ArgMatches) -> PathBuf {
    Description::path(matches.get_one::<PathBuf>("array").map_or(Path::new("."), PathBuf::as_path))
}

/// A file beside the description.
pub fn beside(description: &Path, name: &str) -> PathBuf {
    description.with_file_name(name)
}

/// Where the service takes orders.
pub fn control(matches: &ArgMatches) -> PathBuf {
    let given = matches.get_one::<PathBuf>("control").cloned();
    given.unwrap_or_else(|| beside(&description(matches), "control.sock"))
}

/// Gives the service an order, and waits for the answer.
pub fn order(matches: &ArgMatches, order: &Order) -> Result<Reply> {
    let (array, socket) = (description(matches), control(matches));
    if !array.exists() {
        bail!("{} does not exist; destage create makes an array", array.display());
    }
    let reply = destage_engine::order(&socket, order).with_context(|| {
        let array = matches.get_one::<PathBuf>("array").cloned().unwrap_or_default();
        format!("nobody serves {} (asked at {})", array.display(), socket.display())
    })?;
    match reply {
        Reply::Failed(why) => bail!(why),
        reply => Ok(reply),
    }
}
