//! Going on without the NVRAM or the intents.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use destage_plan::Dev;

use super::assemble::open;
use super::bad_page_lists::read_lists;
use super::bitmap::{head, mark_all, newest_marks};
use super::devices::{FoundSizes, open_device};
use super::event_count::{announce, check_follows, member_counts, state_among};
use super::folders::sync_folders;
use super::identify::{FileIdentities, lock, make_file, why_unread};
use super::label::{self, LabelStamp};
use super::mend::mend_intents;
use super::nvram_place::{NvramAt, at_home, empty_nvram, make_home, nvram_is_there, open_home, open_nvram_device};
use super::opened::{ArrayResync, OpenedArray};
use super::prepare::{make_anew, make_intents, make_nvram};
use super::spare_nvram::{failed_home, open_spare, spare_file, why_home_is_lost};
use crate::files::bitmap::WriteIntentBitmap;
use crate::files::config::{AcceptedLosses, ExistingFiles, FilesConfig};
use crate::files::error::FilesError;
use crate::files::io::file::SyncPoint;
use crate::files::io::os::OsInterface;
use crate::files::io::state_file::StateFile;
use crate::files::layout::bitmap::BitmapCopy;
use crate::files::layout::event_count::EventCount;
use crate::files::layout::journal::ArrayEpoch;
use crate::files::layout::label::ArrayOrigin;
use crate::files::nvram::store::StateStore;
use crate::nvram::MemoryNvram;

/// Goes on with an array whose NVRAM or intents are lost: both are made anew, with the rows that members have marked as
/// those that may be inconsistent. What a cache's device holds nobody knows any more: it is made anew as well. If that device
/// is lost, and the NVRAM with it, the NVRAM goes on in its spare place, if it has one.
pub(crate) fn resynchronise(
    os: &dyn OsInterface,
    config: &FilesConfig,
    accepted: AcceptedLosses,
) -> Result<OpenedArray, FilesError> {
    // Without a spare place there is one way only.
    let Some(spare) = config.spare() else { return make_good(os, config, accepted, None) };
    let why = match why_home_is_lost(os, config)? {
        Some(why) => why,
        // The device may answer and fail later; only then its NVRAM is given up for
        // the spare place.
        None => match make_good(os, config, accepted, None) {
            Err(error) => failed_home(config, error)?,
            opened => return opened,
        },
    };
    let home = config.home().map(|dev| LostHome { dev, why });
    let opened = make_good(os, &config.with_nvram_in(spare), accepted, home)?;
    Ok(OpenedArray { spare: Some(spare.to_owned()), ..opened })
}

/// Names the device on which the NVRAM lay, which is lost.
struct LostHome {
    dev: usize,
    why: io::Error,
}

/// Makes NVRAM and intents anew if they are lost, or the device with the NVRAM is.
fn make_good(
    os: &dyn OsInterface,
    config: &FilesConfig,
    accepted: AcceptedLosses,
    mut home: Option<LostHome>,
) -> Result<OpenedArray, FilesError> {
    let mut files = FileIdentities::default();
    let mut lost = Vec::new();
    if let Some(home) = &home {
        lost.push(config.devices[home.dev].path.clone());
    } else if !nvram_is_there(os, config)? {
        lost.push(config.nvram_path().to_owned());
    }
    let why_unread = why_unread(os, config)?;
    // With the home lost there is no NVRAM by which the intents could be mended.
    let mended = why_unread.as_ref().filter(|_| home.is_none());
    let mended = mended.map(|why| mend_intents(os, config, why)).transpose()?.flatten();
    if why_unread.is_some() && mended.is_none() {
        lost.push(config.intents.clone());
    }
    let (mut behind, mut damaged) = (None, None);
    // Nothing is missing, so the array may just open, and nothing has to be lost.
    if lost.is_empty() {
        match open(os, config) {
            Ok(opened) if mended.is_some() => return Ok(OpenedArray { damaged: mended, ..opened }),
            // What is older than all members is as good as lost, and so is what nobody can read.
            Err(error) => {
                lost = match &error {
                    FilesError::Behind { older, .. } => state_among(config, older),
                    FilesError::Outdated { path, .. } | FilesError::DamagedNvram { path, .. } => vec![path.clone()],
                    _ => return Err(error),
                };
                let is_damaged = matches!(error, FilesError::DamagedNvram { .. });
                *(if is_damaged { &mut damaged } else { &mut behind }) = Some(error);
            }
            opened => return opened,
        }
    }
    let Some(first_lost) = lost.first().cloned() else { return open(os, config) };
    let (mut devices, mut sizes) = (Vec::with_capacity(config.devices.len()), FoundSizes::default());
    for dev in 0..config.devices.len() {
        devices.push(if let Some(LostHome { why, .. }) = home.as_mut().filter(|home| home.dev == dev) {
            Err(std::mem::replace(why, io::Error::other(why.to_string())))
        } else if config.home() == Some(dev) {
            open_home(os, config, dev, &mut files)?
        } else {
            // Cache devices are made anew anyway, so their size does not matter.
            open_device(os, config, dev, (&mut files, &mut sizes), (dev >= config.members, false))?
        });
    }
    sizes.check()?;
    // Members that are not the array's any more tell of an earlier time, and so have smaller numbers.
    let mut found: Option<BitmapCopy> = None;
    let arrays: BTreeSet<_> =
        (0..config.members).filter_map(|dev| label::drawn_of(&**devices[dev].as_ref().ok()?, config, dev)).collect();
    for drawn in arrays {
        let newest = newest_marks(&mut devices, config, drawn)?;
        if let Some(newest) = newest.filter(|newest| found.as_ref().is_none_or(|found| found.is_before(newest))) {
            found = Some(newest);
        }
    }
    // Without marks all rows would have to be made consistent from nothing: nobody
    // knows the array's condition.
    let Some(BitmapCopy { sequence, head: before, rows, marks }) = found else {
        return Err(FilesError::NoMarks(first_lost));
    };
    let origin = ArrayOrigin { array: config.array, drawn: before.drawn };
    let counts = member_counts(config, origin, &before.generations, &devices);
    let count = counts.iter().copied().max().unwrap_or(EventCount::settled(1));
    let is_degraded = counts.len() < config.members || !before.condition.unfilled.is_empty();
    // A member older than the count before is an older copy: with it the array
    // would be of two times.
    let is_mixed = counts.iter().any(|other| other.to < count.from);
    // Of what time a mixed array is nobody can tell. A degraded one may lose what the newer file, which may be brought back,
    // would have told.
    if let Some(error) = behind.take_if(|_| is_mixed || is_degraded && !accepted.notes) {
        return Err(error);
    }
    // Both kinds of loss have to be accepted by the user: data that was in the
    // NVRAM alone, and knowledge of lost pages.
    let (data, notes) = (before.holds && !accepted.data, before.condition.losses && !accepted.notes);
    if data || notes {
        return Err(behind.or(damaged).unwrap_or(FilesError::LostForGood { path: first_lost, data, notes }));
    }
    if let Some(LostHome { dev, why }) = home.as_ref().filter(|_| is_degraded && !rows.is_empty() && !accepted.notes) {
        // Before anything is changed: with the device such rows are whole.
        let (path, why) = (config.devices[*dev].path.clone(), why.to_string());
        let members = config.members - counts.len() + before.condition.unfilled.len() as usize;
        return Err(FilesError::HomeAndMembersLost { path, why, members, rows: rows.iter().count() });
    }
    if config.home().is_some()
        && let Some(left) = spare_file(os, config)?
    {
        // What an earlier move has left must not be taken for what is made now.
        empty_nvram(&*left, config.spare().unwrap_or(Path::new("")))?;
    }
    let mut generations = before.generations;
    for (dev, device) in devices.iter_mut().enumerate() {
        if config.home() == Some(dev) {
            // The next odd generation: no file has it, so an older copy of the
            // device is a stranger.
            generations[dev] = generations[dev].wrapping_add(if generations[dev] % 2 == 1 { 2 } else { 1 });
            let stamp = LabelStamp { origin, generation: generations[dev], count };
            make_home(os, config, dev, device, &mut files, stamp)?;
            continue;
        }
        let Ok(file) = device else { continue };
        let path = &config.devices[dev].path;
        if dev >= config.members
            && generations[dev] % 2 == 1
            && label::drawn_of(&**file, config, dev) == Some(origin.drawn)
        {
            // A cache's device of this array holds pages that are not known to be
            // right any more.
            generations[dev] = generations[dev].wrapping_add(2);
            if let Err(error) =
                make_anew(os, &**file, config, dev, LabelStamp { origin, generation: generations[dev], count })
            {
                *device = Err(error);
            }
        } else {
            match label::check(&**file, config, origin, dev, generations[dev])? {
                Ok(generation) => generations[dev] = generation,
                Err(error) => *device = Err(error),
            }
            // A member that is stale has missed writes that the marks do not tell.
            if let Ok(file) = device
                && dev < config.members
                && let Err(error) = check_follows(&**file, config, origin, dev, count)
            {
                *device = Err(error);
            } else if device.is_ok() && before.condition.unfilled.contains(Dev(dev as u8)) {
                // How far it was filled was noted in the NVRAM, which is lost.
                let text = "it was being filled, and how far is lost; put it in its own place again, to be filled from the beginning";
                *device = Err(io::Error::other(text));
            }
        }
        if device.is_err() && dev >= config.members {
            // The cache's content is not known any more, whoever brings it back.
            generations[dev] = (generations[dev] | 1).wrapping_add(1);
        }
        // Its path may be used by another file from here on.
        if device.is_err() {
            files.forget(path);
        }
    }
    let made = |path: &Path| {
        let file = make_file(os, path, ExistingFiles::Overwrite)?;
        lock(&*file, path)?;
        Ok::<_, FilesError>(file)
    };
    let nvram_file = match config.own_nvram() {
        None => at_home(os, config, &devices)?,
        Some(path) => {
            let file = if home.is_some() {
                open_spare(os, config, path)?.0
            } else if os.is_block_device(path) {
                open_nvram_device(os, config, path)?
            } else {
                made(path)?
            };
            let identity = files.add(&*file, path)?;
            NvramAt { file, identity, home: None }
        }
    };
    // If this is cut short it begins again: without an NVRAM nothing is opened.
    empty_nvram(&*nvram_file.file, config.nvram_path())?;
    let intents_file = made(&config.intents)?;
    let guard = nvram_file.home.as_ref().map_or(&nvram_file.file, |_| &intents_file).clone();
    let intents_identity = files.add(&*intents_file, &config.intents)?;
    // One more than any before, so that the lost files are known as older if they
    // come back.
    let epoch = before.epoch + 1;
    let intents_file = Arc::new(StateFile::new(intents_file));
    let roster_file = Arc::clone(&intents_file);
    let (intents, mut roster) = make_intents(intents_file, config, origin, &rows, (epoch, count, &generations))?;
    let nvram = make_nvram(nvram_file.file, config, (ArrayEpoch { drawn: origin.drawn, epoch }, count.from))?;
    let there = config.devices.iter().zip(&devices).filter(|(_, file)| file.is_ok()).map(|(device, _)| &*device.path);
    sync_folders(os, there.chain([&*config.intents, config.nvram_path()]), SyncPoint::CreateFolder)?;
    // Rows stay marked until they are consistent, however often the start is
    // interrupted.
    let new = WriteIntentBitmap::new(config, &head(origin, &generations, epoch, before.condition), &rows, sequence + 1);
    // The NVRAM was made with `from`, so every file has a count in common with it.
    let begins = EventCount { from: count.from, to: count.to + 1 };
    announce(config, begins, (&roster_file, &mut roster), &mut devices)?;
    mark_all(&mut devices, config, &new);
    let bad_pages = read_lists(config, origin, &mut devices);
    let state = [nvram_file.identity, intents_identity];
    let resynchronised = Some(ArrayResync {
        lost,
        is_behind: behind.is_some(),
        rows: rows.iter().count() as u64,
        marks,
        of: config.rows,
        data_lost: before.holds,
    });
    let mut found = MemoryNvram::default();
    found.intents = rows;
    let (store, home) = (StateStore::new(nvram, intents), nvram_file.home);
    Ok(OpenedArray {
        devices,
        store,
        roster,
        roster_file,
        state,
        home,
        spare: None,
        nvram: found,
        marks: new,
        bad_pages,
        resynchronised,
        damaged: None,
        damaged_nvram: None,
        lock: guard,
    })
}
