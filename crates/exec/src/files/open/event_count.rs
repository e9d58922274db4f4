//! Checks by their event counts that the files of an array are of one time.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::label;
use crate::files::config::{FilesConfig, MAX_DEVICES};
use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint, UntrustedFile};
use crate::files::io::state_file::StateFile;
use crate::files::layout::event_count::EventCount;
use crate::files::layout::label::ArrayOrigin;
use crate::files::layout::roster::MemberRoster;
use crate::files::nvram::intents::sync_roster;
use crate::files::nvram::journal::NvramFile;

/// Reads the event counts of devices. A device without one counts as missing, but for the one that the NVRAM lies on: the
/// NVRAM has its own.
fn read_counts(
    config: &FilesConfig,
    origin: ArrayOrigin,
    devices: &mut [io::Result<Arc<dyn OsFile>>],
) -> Vec<(usize, EventCount)> {
    let mut found = Vec::with_capacity(devices.len());
    // The NVRAM's own count is in its header.
    for (dev, device) in devices.iter_mut().enumerate().filter(|(dev, _)| config.home() != Some(*dev)) {
        let Ok(file) = device else { continue };
        match label::read_count(&**file, config, origin, dev) {
            Ok(Some(count)) => found.push((dev, count)),
            // Without a count nobody can tell whether the file has missed writes.
            Ok(None) => *device = Err(damaged(config, dev)),
            Err(error) => *device = Err(error),
        }
    }
    found
}

/// Makes the error that a file has no event count that can be read.
fn damaged(config: &FilesConfig, dev: usize) -> io::Error {
    let offset = config.count_offset(dev);
    io::Error::other(format!("its event count at byte {offset} is damaged"))
}

/// Makes the error that a device is behind.
fn behind(found: u64, expected: u64) -> io::Error {
    let why = format!(
        "its event count is {found}, that of the array {expected}: an older copy of it was put back, which has missed writes"
    );
    io::Error::other(why)
}

/// Checks that all files are of one time, and returns the event count of the start. A device that is behind counts as
/// missing. A departed one, which the roster does not have any more, may still be ahead of an older roster.
pub(super) fn check_counts(
    config: &FilesConfig,
    nvram: &NvramFile,
    roster: &MemberRoster,
    devices: &mut [io::Result<Arc<dyn OsFile>>],
    departed: &[(usize, EventCount)],
) -> Result<EventCount, FilesError> {
    // A planted fault of the crash harness, which must be found.
    let (is_checked, nvram) = (!nvram.believes(UntrustedFile::Behind), nvram.event_count());
    let found = read_counts(config, roster.origin(), devices);
    let (intents, path) = (roster.event_count(), |dev: &usize| config.devices[*dev].path.clone());
    // A departed device counts too: it may be newer than a roster that was put
    // back.
    let others = || found.iter().chain(departed).map(|(_, count)| *count).chain([intents]);
    let is_older_member = |one: &(usize, EventCount), than: u64| one.0 < config.members && one.1.to < than;
    // Something is newer than the NVRAM: then that is the older copy, and starting
    // with it would lose commits.
    if let Some(newest) = others().filter(|count| count.is_ahead_of(nvram)).max().filter(|_| is_checked) {
        let is_behind = |count: EventCount| count.to < newest.from;
        let all = || found.iter().chain(departed.iter().filter(|one| !is_behind(one.1)));
        let of_devices = |older: bool| all().filter(move |one| is_behind(one.1) == older).map(|(dev, _)| path(dev));
        let of_intents = |older: bool| (is_behind(intents) == older).then(|| config.intents.clone());
        return Err(FilesError::Behind {
            older: [config.nvram_path().to_owned()]
                .into_iter()
                .chain(of_intents(true))
                .chain(of_devices(true))
                .collect(),
            found: nvram,
            newer: of_intents(false).into_iter().chain(of_devices(false)).collect(),
            expected: newest.to,
            members: found.iter().any(|one| is_older_member(one, newest.from)),
        });
    }
    // The intents have no count of this NVRAM: an older copy of them was put back.
    if is_checked && !intents.is_of(nvram) {
        let newer = found.iter().filter(|one| one.1.is_of(nvram)).map(|(dev, _)| path(dev));
        let older = found.iter().filter(|one| !one.1.is_of(nvram)).map(|(dev, _)| path(dev));
        return Err(FilesError::Behind {
            older: [config.intents.clone()].into_iter().chain(older).collect(),
            found: intents.to,
            newer: [config.nvram_path().to_owned()].into_iter().chain(newer).collect(),
            expected: nvram,
            members: found.iter().any(|one| is_older_member(one, nvram)),
        });
    }
    let last = others().map(|count| count.to).max().unwrap_or(nvram).max(nvram);
    // Devices are only missing: the array can go on without them and fill them
    // again.
    for (dev, count) in found.iter().filter(|one| is_checked && !one.1.is_of(nvram)) {
        devices[*dev] = Err(behind(count.to, nvram));
    }
    // A new number, larger than any that was ever seen, so no older file can have
    // it.
    Ok(EventCount { from: nvram, to: last + 1 })
}

/// Reads the event counts of members that are the array's, as these generations say.
pub(super) fn member_counts(
    config: &FilesConfig,
    origin: ArrayOrigin,
    generations: &[u32; MAX_DEVICES],
    devices: &[io::Result<Arc<dyn OsFile>>],
) -> Vec<EventCount> {
    let members = devices.iter().enumerate().take(config.members);
    let read = members.filter_map(|(dev, file)| {
        let file = &**file.as_ref().ok()?;
        label::check(file, config, origin, dev, generations[dev]).ok()?.ok()?;
        label::read_count(file, config, origin, dev).ok()?
    });
    read.collect()
}

/// Checks that a member is not behind the newest; the error if it is.
pub(super) fn check_follows(
    file: &dyn OsFile,
    config: &FilesConfig,
    origin: ArrayOrigin,
    dev: usize,
    newest: EventCount,
) -> io::Result<()> {
    let count = label::read_count(file, config, origin, dev)?.ok_or_else(|| damaged(config, dev))?;
    // One step older is still right: a crash between announcing and settling leaves
    // it so.
    if count.to < newest.from { Err(behind(count.to, newest.to)) } else { Ok(()) }
}

/// Announces an event count to the intents and the devices; members are not synced yet. A device that cannot be written
/// counts as missing.
pub(super) fn announce(
    config: &FilesConfig,
    count: EventCount,
    (roster_file, roster): (&Arc<StateFile>, &mut MemberRoster),
    devices: &mut [io::Result<Arc<dyn OsFile>>],
) -> Result<(), FilesError> {
    const WRITE: &str = "write the event count";
    roster.set_event_count(count);
    sync_roster(roster_file, roster, SyncPoint::OpenIntents)().map_err(FilesError::io(&config.intents, WRITE))?;
    for (dev, device) in devices.iter_mut().enumerate() {
        let Ok(file) = device else { continue };
        let told = label::write_count(&**file, config, roster.origin(), dev, count);
        // Members are made durable with their marks.
        let told =
            told.and_then(|()| if dev < config.members { Ok(()) } else { file.sync_data(SyncPoint::EventCountTold) });
        match told {
            Err(error) if config.home() == Some(dev) => {
                return Err(FilesError::io(&config.devices[dev].path, WRITE)(error));
            }
            Err(error) => *device = Err(error),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Returns the NVRAM and the intents, as far as they are among these files.
pub(super) fn state_among(config: &FilesConfig, files: &[PathBuf]) -> Vec<PathBuf> {
    let is_state = |path: &&PathBuf| ***path == *config.nvram_path() || **path == config.intents;
    files.iter().filter(is_state).cloned().collect()
}
