//! `destage replace`: another file in the place of a served array's device.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use destage_engine::{ControlReply, DeviceReplacement, ServiceCommand};

use super::served::{HEARD, array_arg, control_arg, order, timeout_arg};
use crate::screen::TerminalScreen;

/// The command.
pub fn command() -> Command {
    Command::new("replace")
        .about("Put a file or block device in the place of a served array's member or cache device")
        .after_help(
            "A member that answers is copied to the file while requests are served, and stays in its place until that is done; an \
             error of the file costs the file alone. A lost one is filled from the others. destage status tells how far that is, and \
             destage serve logs its end. What the file held is lost. The description names it from then on. Refused is what would \
             lose data.",
        )
        .arg(array_arg())
        .arg(
            Arg::new("device")
                .value_name("MEMBER|cache")
                .required(true)
                .help("Which device: a member's number, or cache; destage status names them"),
        )
        .arg(file_arg("What takes its place; made if it is not there [default: the device's own file, made anew]"))
        .arg(
            Arg::new("force")
                .long("force")
                .action(ArgAction::SetTrue)
                .help("Replace it even if data is lost by that, or the file holds something else"),
        )
        .arg(control_arg())
        .arg(timeout_arg(HEARD))
}

/// Returns the argument for the file that takes a device's place.
pub fn file_arg(help: &'static str) -> Arg {
    Arg::new("file").value_name("FILE").value_parser(value_parser!(PathBuf)).value_hint(ValueHint::FilePath).help(help)
}

/// Orders the file that was given to be put in the place of this device; returns what it is, and whether the device is copied
/// to it first.
pub fn put_in_place(matches: &ArgMatches, device: String) -> Result<(String, bool)> {
    let path = matches.get_one::<PathBuf>("file");
    let path = path.map(|path| std::path::absolute(path).with_context(|| path.display().to_string())).transpose()?;
    let force = matches.get_flag("force");
    let replacement = DeviceReplacement { device, path: path.clone(), takes_out: false, force };
    let reply = order(matches, &ServiceCommand::Replace(replacement))?;
    let file = path.map_or_else(|| "its own file, made anew".to_owned(), |path| path.display().to_string());
    Ok((file, matches!(reply, ControlReply::Copying)))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let device = matches.get_one::<String>("device").cloned().unwrap_or_default();
    let (by, is_copied) = put_in_place(matches, device.clone())?;
    let name = match device.strip_prefix("member ").unwrap_or(&device) {
        "cache" => "the cache's device".to_owned(),
        member => format!("member {member}"),
    };
    let told = if is_copied {
        format!(
            "{name} to {by}, and goes on in its place until all of it is copied; destage status tells how far that is, and the log of \
             destage serve how it ends"
        )
    } else {
        format!("{name} by {by}; destage status tells when it is filled")
    };
    Ok(TerminalScreen::stderr().pairs([(if is_copied { "copying" } else { "replaced" }, told)])?)
}
