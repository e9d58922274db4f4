//! `destage stop`: the end of a service, in order.

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use destage_engine::ServiceCommand;

use super::block_device;
use super::served::{HEARD, array_arg, control_arg, description, order, timeout_arg};

/// The command.
pub fn command() -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new("stop")
        .about("End the service of an array, and wait until nothing is left to be recovered")
        .after_help("Refused while the array's block device (serve --ublk) is in use, unless --pause is given.")
        .arg(array_arg())
        .arg(flag("pause").help("Leave the block device: its requests wait for the next destage serve --ublk"))
        .arg(flag("discard-device").conflicts_with("pause").help(
            "Remove the block device that an earlier service left, of an array that is not served. Its waiting requests fail, and \
             dirty pages of its page cache are lost",
        ))
        .arg(control_arg())
        .arg(timeout_arg(HEARD))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    if matches.get_flag("discard-device") {
        if order(matches, &ServiceCommand::Status).is_ok() {
            bail!("the array is served: destage stop without --discard-device ends that, and removes its block device");
        }
        println!("{}", block_device::discard(&description(matches))?);
        return Ok(());
    }
    order(matches, if matches.get_flag("pause") { &ServiceCommand::Pause } else { &ServiceCommand::Stop }).map(drop)
}
