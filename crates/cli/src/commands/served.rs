//! Finds the array and its service for the commands that ask it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Arg, ArgMatches, ValueHint, value_parser};
use destage_engine::{ArrayDescription, ControlReply, OrderError, ScrubStatus, ServiceCommand};
use rustix::fs::{major, minor};

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
    ArrayDescription::path(matches.get_one::<PathBuf>("array").map_or(Path::new("."), PathBuf::as_path))
}

/// A file beside the description.
pub fn beside(description: &Path, name: &str) -> PathBuf {
    description.with_file_name(name)
}

/// Returns the socket at which the service takes orders.
pub fn control(matches: &ArgMatches) -> PathBuf {
    let given = matches.get_one::<PathBuf>("control").cloned();
    given.unwrap_or_else(|| beside(&description(matches), "control.sock"))
}

/// Sets the seconds within which the service must answer or acknowledge, unless told otherwise.
const TIMEOUT: &str = "10";

/// Returns the option for how long the service may take to answer, or to say that it has heard.
pub fn timeout_arg(help: &'static str) -> Arg {
    Arg::new("timeout")
        .long("timeout")
        .value_name("SECONDS")
        .value_parser(value_parser!(u32).range(1..))
        .default_value(TIMEOUT)
        .help(help)
}

/// Explains the time-out of orders that may take long.
pub const HEARD: &str =
    "How long the service may take to say that it has heard; what was ordered takes as long as it takes";

/// Gives the service an order, and waits for the answer.
pub fn order(matches: &ArgMatches, order: &ServiceCommand) -> Result<ControlReply> {
    order_with_progress(matches, order, &mut drop)
}

/// Gives the service an order, and calls `tell` with how far it is until the answer comes.
pub fn order_with_progress(
    matches: &ArgMatches,
    order: &ServiceCommand,
    tell: &mut dyn FnMut(ScrubStatus),
) -> Result<ControlReply> {
    let (description, socket) = (description(matches), control(matches));
    if !description.exists() {
        bail!("{} does not exist; destage create makes an array", description.display());
    }
    let array = matches.get_one::<PathBuf>("array").cloned().unwrap_or_default();
    let (array, at) = (array.display(), socket.display());
    let timeout = Duration::from_secs(matches.get_one::<u32>("timeout").copied().unwrap_or_default().into());
    match destage_engine::order_with_progress(&socket, order, timeout, tell) {
        Ok(ControlReply::Failed(why)) => bail!(why),
        Ok(reply) => Ok(reply),
        // The order was not carried out, and will not be: the socket is closed by then.
        Err(error @ OrderError::Unheard { .. }) => {
            let what_to_do = unheard(server_pid(&description));
            bail!("{array}: {error} (asked at {at}), and nothing was done. {what_to_do}")
        }
        Err(error @ OrderError::Io(_)) => bail!("nobody serves {array} (asked at {at}): {error}"),
    }
}

/// Says what is likely if a service does not answer, and what to do about it.
fn unheard(pid: Option<u32>) -> String {
    let (it, process) =
        pid.map_or(("It".to_owned(), "PID".to_owned()), |pid| (format!("Process {pid}"), pid.to_string()));
    format!(
        "{it} is at work on another order, is stopped or hangs, or has no file descriptor left (compare /proc/{process}/fd with \
         /proc/{process}/limits). --timeout waits longer; kill {process} ends the service in order, and kill -KILL {process} \
         at once, which is as safe as a crash"
    )
}

/// Returns the process that has locked the array's first member, which is the one that serves it.
fn server_pid(description: &Path) -> Option<u32> {
    let described = ArrayDescription::read(description).ok()?;
    let member = description.parent()?.join(described.array.members.first()?);
    let file = std::fs::metadata(member).ok()?;
    let device = file.dev();
    let place = format!("{:02x}:{:02x}:{}", major(device), minor(device), file.ino());
    // A line is "4: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF"; the number of a process in another container is
    // 0.
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let mut locks = locks.lines().map(|lock| lock.split_whitespace().collect::<Vec<_>>());
    let lock = locks.find(|lock| lock.get(5) == Some(&place.as_str()))?;
    lock[4].parse().ok().filter(|pid| *pid > 0)
}
