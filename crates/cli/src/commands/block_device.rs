//! Finds and gives up the kernel's block device of an array, for the commands that start and stop it.

use std::path::Path;

use anyhow::{Result, bail};
use destage_engine::{ArrayDescription, DeviceState, FoundDevice, UblkDevice, UblkError, find_device};

/// Returns the number by which the driver knows an array's device.
pub fn identity(description: &ArrayDescription) -> u64 {
    let (first, second) = description.uuid.as_u64_pair();
    first ^ second
}

/// Returns the block device that waits for an array to be served, if there is one.
pub fn waiting(identity: u64) -> Option<String> {
    // Who may not ask the driver has not left a device with it either.
    let found = find_device(identity).ok().flatten();
    found.filter(|found| found.state == DeviceState::Waiting).map(path)
}

fn path(found: FoundDevice) -> String {
    format!("/dev/ublkb{}", found.device)
}

/// Has the kernel's memory management know that this process serves a block device: it must not wait for writes to that when it
/// looks for memory for us. Who may not ask for it, as users without privileges, serves all the same.
pub fn serve_io() {
    let _without_it = rustix::process::configure_io_flusher_behavior(true);
}

/// Says so if the array's block device still belongs to a process that has ended: the kernel may take 30 s to notice.
pub fn tell_of_wait(identity: u64) {
    if let Ok(Some(found)) = find_device(identity)
        && found.state == DeviceState::Served
    {
        eprintln!("{} still belongs to process {}: waiting until the kernel lets go of it", path(found), found.pid);
    }
}

/// Gives up the block device that waits for an array to be served; returns what there is to say of it.
pub fn discard(description: &Path) -> Result<String> {
    let identity = identity(&ArrayDescription::read(description)?);
    let array = description.display();
    match UblkDevice::discard(identity) {
        Ok(Some(found)) => Ok(format!("{} removed: what waited for it has failed", path(found))),
        Ok(None) | Err(UblkError::NoDriver(_)) => bail!("no block device waits for {array}"),
        Err(error @ UblkError::Served { .. }) => bail!("{error}: destage stop {array} ends it"),
        Err(error) => Err(error.into()),
    }
}
