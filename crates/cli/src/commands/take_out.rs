//! Takes a device of a served array out, or gives it a cache again: `destage fail`, `detach` and `attach`.

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use destage_engine::{ControlReply, DeviceReplacement, ServiceCommand};

use super::replace::{file_arg, put_in_place};
use super::served::{HEARD, array_arg, control_arg, order, timeout_arg};
use crate::screen::TerminalScreen;

const CACHE: &str = "cache";

/// Builds the command that takes a member out.
pub fn fail_command() -> Command {
    Command::new("fail")
        .about("Take a member of a served array out, as mdadm --fail does")
        .after_help(
            "The array goes on without it, degraded, and its file has missed writes from then on; destage replace puts one in \
             its place. Refused is a member that the level cannot do without, or that other rows need for now.",
        )
        .arg(array_arg())
        .arg(
            Arg::new("device")
                .value_name("MEMBER")
                .required(true)
                .help("Which: a member's number; destage status names them"),
        )
        .arg(force_arg("Take it out even if data is lost by that"))
        .arg(control_arg())
        .arg(timeout_arg(HEARD))
}

/// Builds the command that takes the cache out.
pub fn detach_command() -> Command {
    Command::new("detach")
        .about("Write a served array's cache back, and go on without it")
        .after_help(
            "Requests are served meanwhile; at the end they wait for what is left. The array is degraded until destage attach \
             gives it a cache again.",
        )
        .arg(array_arg())
        .arg(force_arg("Take it out at once: what only the cache has is lost"))
        .arg(control_arg())
        .arg(timeout_arg(HEARD))
}

/// Builds the command that gives an array a cache again.
pub fn attach_command() -> Command {
    Command::new("attach")
        .about("Give a served array that goes on without its cache a cache device again")
        .after_help("It begins empty. A cache that is in use stays: destage replace changes its device.")
        .arg(array_arg())
        .arg(file_arg("The file or block device; made if it is not there [default: the one that it had, made anew]"))
        .arg(force_arg("Overwrite a file that holds something else"))
        .arg(control_arg())
        .arg(timeout_arg(HEARD))
}

fn force_arg(help: &'static str) -> Arg {
    Arg::new("force").long("force").action(ArgAction::SetTrue).help(help)
}

/// Runs `destage fail`.
pub fn run_fail(matches: &ArgMatches) -> Result<()> {
    let device = matches.get_one::<String>("device").cloned().unwrap_or_default();
    let name = device.strip_prefix("member ").unwrap_or(&device).to_owned();
    take_out(matches, device)?;
    Ok(TerminalScreen::stderr()
        .pairs([("taken out", format!("member {name}; destage replace puts another in its place"))])?)
}

/// Runs `destage detach`.
pub fn run_detach(matches: &ArgMatches) -> Result<()> {
    take_out(matches, CACHE.to_owned())?;
    Ok(TerminalScreen::stderr()
        .pairs([("detached", "the cache; destage attach gives the array one again".to_owned())])?)
}

fn take_out(matches: &ArgMatches, device: String) -> Result<()> {
    let force = matches.get_flag("force");
    order(matches, &ServiceCommand::Replace(DeviceReplacement { device, path: None, takes_out: true, force })).map(drop)
}

/// Runs `destage attach`.
pub fn run_attach(matches: &ArgMatches) -> Result<()> {
    if let ControlReply::Status(status) = order(matches, &ServiceCommand::Status)?
        && status.array.cache.is_some_and(|cache| cache.in_use)
    {
        bail!(
            "the cache is in use, and would be emptied; destage detach takes it out, destage replace changes its device"
        );
    }
    let (by, _) = put_in_place(matches, CACHE.to_owned())?;
    Ok(TerminalScreen::stderr().pairs([("attached", format!("the cache: {by}"))])?)
}
