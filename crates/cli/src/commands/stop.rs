//! `destage stop`: the end of a service, in order.

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use destage_engine::Order;

use super::block_device;
use super::served::{HEARD, array_arg, control_arg, description, order, timeout_arg};

/// The command.
pub fn command() -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new("stop")
        .about("End the service of an array, and wait until nothing is left to be recovered")
        .after_help("An array whose block device (serve --ublk) is mounted, or held by another program, goes on being served, unless --pause is given.")
        .arg(array_arg())
        .arg(flag("pause").help("Have the block device wait: its requests are answered once the array is served with --ublk again"))
        .arg(flag("discard-device").conflicts_with("pause").help(
            "Remove the block device of an array that is not served, where an earlier service left it: requests that wait for it fail, and what was \
             written to it and not to the array is lost",
        ))
        .arg(control_arg())
        .arg(timeout_arg(HEARD))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    if matches.get_flag("discard-device") {
        if order(matches, &Order::Status).is_ok() {
            bail!("the array is served: destage stop without --discard-device ends that, and removes its block device");
        }
        println!("{}", block_device::discard(&description(matches))?);
        return Ok(());
    }
    order(matches, if matches.get_flag("pause") { &Order::Pause } else { &Order::Stop }).map(drop)
}
