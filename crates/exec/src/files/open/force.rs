//! Believing members that an array went on without, where it can do without them no more: how old each one is, and what is
//! written so that the next start takes the freshest.
//!
//! Nothing of their data is changed. A member that is believed gets the array's event count and marks, then a label with a
//! generation that no file had; only when that is durable do the intents name it. So after a crash at any moment the members
//! are what they were, or this can be done again.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use destage_plan::{Condition, Dev, DevSet};

use super::bitmap::{head, newest_marks, newest_on, write_marks};
use super::devices::{FoundSizes, open_device};
use super::identify::{FileIdentities, lock, there, why_unread};
use super::label::{self, read_count, write_count};
use super::order::in_order;
use crate::files::bitmap::WriteIntentBitmap;
use crate::files::config::{FilesConfig, MAX_DEVICES};
use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint};
use crate::files::io::metadata::length;
use crate::files::io::os::OsInterface;
use crate::files::io::state_file::StateFile;
use crate::files::layout::bitmap::BitmapCopy;
use crate::files::layout::event_count::EventCount;
use crate::files::layout::label::ArrayOrigin;
use crate::files::layout::roster::MemberRoster;
use crate::files::nvram::intents::{self, sync_roster};

/// Says how fresh a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberFreshness {
    /// Has all writes of the array, by its label and its event count.
    Current,
    /// Lacks writes: the array went on without it, or somebody put an older copy back.
    Stale {
        /// Gives its event count.
        count: u64,
        /// Gives the array's. Each start and each clean shutdown raises it.
        newest: u64,
    },
    /// Holds no array, or only a part of its content.
    Unusable(String),
}

/// Holds the members of an array, open, and what they and the intents say.
struct FoundMembers {
    files: Vec<io::Result<Arc<dyn OsFile>>>,
    freshness: Vec<MemberFreshness>,
    origin: ArrayOrigin,
    generations: [u32; MAX_DEVICES],
    count: EventCount,
    marks: BitmapCopy,
    /// Holds the intents' file and the roster in it, unless it is missing, damaged or older than the members.
    roster: Option<FoundRoster>,
}

/// Holds the intents' file and the roster in it.
struct FoundRoster {
    file: Arc<dyn OsFile>,
    roster: MemberRoster,
}

/// Returns the file of each member, in the order of their labels, and how fresh it is. Nothing is changed.
pub(crate) fn inspect(
    os: &dyn OsInterface,
    config: &FilesConfig,
) -> Result<Vec<(PathBuf, MemberFreshness)>, FilesError> {
    let config = in_order(os, config).map_or(Cow::Borrowed(config), Cow::Owned);
    let paths = config.devices.iter().map(|device| device.path.clone());
    Ok(paths.zip(find(os, &config)?.freshness).collect())
}

/// Has the next start believe these members beside those that are current, and no other.
pub(crate) fn force(os: &dyn OsInterface, config: &FilesConfig, forced: DevSet) -> Result<(), FilesError> {
    let config = &*in_order(os, config).map_or(Cow::Borrowed(config), Cow::Owned);
    let FoundMembers { files, freshness, origin, mut generations, count, marks, roster } = find(os, config)?;
    let mut believed = DevSet::EMPTY;
    for (dev, fresh) in freshness.iter().enumerate() {
        let is_forced = forced.contains(Dev(dev as u8)) && matches!(fresh, MemberFreshness::Stale { .. });
        let generation = &mut generations[dev];
        if is_forced {
            // Odd names a file, even none (see `label.rs`). Two more than before:
            // no file ever had this generation.
            *generation = (*generation | 1).wrapping_add(2);
        } else if *fresh != MemberFreshness::Current {
            // The others become strangers, even if they had the old generation.
            *generation = (*generation | 1).wrapping_add(1);
        }
        if is_forced || *fresh == MemberFreshness::Current {
            believed.insert(Dev(dev as u8));
        }
    }
    // The epoch stays, since NVRAM and intents do.
    let BitmapCopy { head: before, rows, sequence, .. } = marks;
    let condition = Condition { unfilled: before.condition.unfilled - believed, ..before.condition };
    let new = head(origin, &generations, before.epoch, condition);
    let new = WriteIntentBitmap::new(config, &new, &rows, sequence + 1);
    // Count and marks first, durably; the label, which makes them believed, last.
    for dev in believed.iter() {
        let (dev, path) = (dev.index(), &config.devices[dev.index()].path);
        let Ok(file) = &files[dev] else { continue };
        let written = write_count(&**file, config, origin, dev, count)
            .and_then(|()| write_marks(&**file, config, dev, &new))
            .and_then(|()| file.sync_all(SyncPoint::ReplaceDevice));
        written.map_err(FilesError::io(path, "write its event count and marks"))?;
    }
    // Members that are current have their label already.
    for dev in (believed & forced).iter().map(Dev::index) {
        let (path, generation) = (&config.devices[dev].path, generations[dev]);
        let Ok(file) = &files[dev] else { continue };
        let labelled = label::rename(&**file, config, origin, dev, generation);
        let labelled = labelled.and_then(|()| file.sync_all(SyncPoint::ReplaceDevice));
        labelled.map_err(FilesError::io(path, "label it"))?;
    }
    // Only now does the roster name them. Before that a crash leaves the members as
    // they were.
    if let Some(FoundRoster { file, mut roster }) = roster {
        roster.set_generations(&generations);
        sync_roster(&Arc::new(StateFile::new(file)), &roster, SyncPoint::Roster)()
            .map_err(FilesError::io(&config.intents, "note which files are the devices'"))?;
    }
    Ok(())
}

fn find(os: &dyn OsInterface, config: &FilesConfig) -> Result<FoundMembers, FilesError> {
    let (mut seen, mut sizes) = (FileIdentities::default(), FoundSizes::default());
    let mut files = Vec::with_capacity(config.members);
    for dev in 0..config.members {
        files.push(open_device(os, config, dev, (&mut seen, &mut sizes), (false, false))?);
    }
    sizes.check()?;
    let roster = find_roster(os, config)?;
    let drawn = roster.as_ref().map(|found| found.roster.origin().drawn);
    let of_members: BTreeSet<_> =
        (0..config.members).filter_map(|dev| label::drawn_of(&**files[dev].as_ref().ok()?, config, dev)).collect();
    let mut marks: Option<BitmapCopy> = None;
    // With a roster only its array's marks count. Without one each array's are
    // looked at.
    for drawn in drawn.map_or(of_members, |drawn| BTreeSet::from([drawn])) {
        let newest = newest_marks(&mut files, config, drawn)?;
        marks = newest.filter(|newest| marks.as_ref().is_none_or(|marks| marks.is_before(newest))).or(marks);
    }
    let first = config.devices.first().map(|device| device.path.clone()).unwrap_or_default();
    let marks = marks.ok_or(FilesError::NoMarks(first))?;
    let origin = ArrayOrigin { array: config.array, drawn: marks.head.drawn };
    let counts: Vec<io::Result<Option<EventCount>>> = files
        .iter()
        .enumerate()
        .map(|(dev, file)| {
            let file = file.as_ref().map_err(|error| io::Error::other(error.to_string()))?;
            read_count(&**file, config, origin, dev)
        })
        .collect();
    let of_members = counts.iter().flatten().flatten().copied().max();
    // An older roster does not know what became of members since; marks do.
    let roster = roster.filter(|found| of_members.is_none_or(|newest| found.roster.event_count().to >= newest.from));
    let count = roster.as_ref().map(|found| found.roster.event_count()).into_iter().chain(of_members).max();
    let count = count.unwrap_or(EventCount::settled(1));
    let generations = roster.as_ref().map_or(marks.head.generations, |found| *found.roster.generations());
    let mut freshness = Vec::with_capacity(config.members);
    for (dev, found) in counts.into_iter().enumerate() {
        freshness.push(match (&files[dev], found) {
            (Err(error), _) => MemberFreshness::Unusable(error.to_string()),
            (_, Err(error)) => MemberFreshness::Unusable(error.to_string()),
            (Ok(_), Ok(None)) => {
                MemberFreshness::Unusable("it has no event count of this array, or a damaged one".to_owned())
            }
            (Ok(file), Ok(Some(own))) => {
                // A start that was refused has announced a count that the array does not have.
                let stale = MemberFreshness::Stale { count: own.to, newest: count.from.max(own.to) };
                let is_named = label::check(&**file, config, origin, dev, generations[dev])?.is_ok();
                // What a member says of itself is what it was when the array went on without it.
                let own_marks = newest_on(&**file, config, dev)?.ok().flatten();
                let is_filled = |marks: &BitmapCopy| !marks.head.condition.unfilled.contains(Dev(dev as u8));
                match own_marks {
                    Some(own) if !is_filled(&own) => {
                        let why = "it was being filled, and how far is not known".to_owned();
                        MemberFreshness::Unusable(why)
                    }
                    None => MemberFreshness::Unusable("its marks are damaged".to_owned()),
                    Some(_) if is_named && own.to >= count.from && is_filled(&marks) => MemberFreshness::Current,
                    Some(_) => stale,
                }
            }
        });
    }
    Ok(FoundMembers { files, freshness, origin, generations, count, marks, roster })
}

/// Returns the file of the intents with the roster in it; none if it is missing or damaged.
fn find_roster(os: &dyn OsInterface, config: &FilesConfig) -> Result<Option<FoundRoster>, FilesError> {
    if why_unread(os, config)?.is_some() {
        return Ok(None);
    }
    let Some(file) = there(os, &config.intents)? else { return Ok(None) };
    lock(&*file, &config.intents)?;
    let length = length(&*file, &config.intents)?;
    let roster = intents::roster(&*file, &config.intents, length, config.array, config.rows)?;
    Ok(roster.map(|roster| FoundRoster { file, roster }))
}
