//! Opening the files of an array that was made before.

use std::io;
use std::path::Path;
use std::sync::Arc;

use destage_plan::{Condition, Row, Rows};

use super::bad_page_lists::read_lists;
use super::bitmap::{head, mark_all, newest_marks};
use super::devices::{FoundSizes, SYNC, open_device};
use super::event_count::{announce, check_counts};
use super::folders::sync_folders;
use super::identify::{FileIdentities, is_made, lock, open_file};
use super::label;
use super::nvram_place::{NvramAt, at_home};
use super::opened::{DamagedIntents, DamagedNvram, OpenedArray};
use crate::files::bitmap::WriteIntentBitmap;
use crate::files::config::FilesConfig;
use crate::files::error::FilesError;
use crate::files::io::file::SyncPoint;
use crate::files::io::metadata::{OPEN, length};
use crate::files::io::os::OsInterface;
use crate::files::io::state_file::StateFile;
use crate::files::layout::journal::ArrayEpoch;
use crate::files::layout::roster::MemberRoster;
use crate::files::nvram::intents::{FoundIntents, IntentsFile, sync_roster};
use crate::files::nvram::journal::NvramFile;
use crate::files::nvram::region::FileRegion;
use crate::files::nvram::replay::FoundNvram;
use crate::files::nvram::store::StateStore;

/// Opens the files of an array.
pub(crate) fn open(os: &dyn OsInterface, config: &FilesConfig) -> Result<OpenedArray, FilesError> {
    let mut files = FileIdentities::default();
    let present = |path: &Path| {
        open_file(os, path)?.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => FilesError::Missing(path.to_owned()),
            _ => FilesError::io(path, OPEN)(error),
        })
    };
    let mut own = None;
    if let Some(path) = config.own_nvram() {
        let file = FileRegion::whole(present(path)?, config, path)?;
        // Locked before anything is read: another process may be writing it.
        lock(&*file, path)?;
        if !is_made(&*file, path)? {
            return Err(FilesError::Missing(path.to_owned()));
        }
        // The length is read as well as the content, since both may not be durable
        // yet.
        let length = length(&*file, path)?;
        let identity = files.add(&*file, path)?;
        // What is read from here on may be what an earlier process wrote and did not make durable; it
        // is relied on, so it must be: content, length and, in the end, names.
        let found = NvramFile::open(Arc::clone(&file), path, length, config.journal_layout())?;
        own = Some((NvramAt { file, identity, home: None }, found));
    }
    let intents_file = present(&config.intents)?;
    if !is_made(&*intents_file, &config.intents)? {
        return Err(FilesError::Missing(config.intents.clone()));
    }
    let intents_length = length(&*intents_file, &config.intents)?;
    let intents_identity = files.add(&*intents_file, &config.intents)?;
    lock(&*intents_file, &config.intents)?;
    // The NVRAM's file is the array's lock; where it lies on a device, the intents'
    // file is, which no device's end takes away.
    let guard = own.as_ref().map_or(&intents_file, |(nvram, _)| &nvram.file).clone();
    let intents_file = Arc::new(StateFile::new(intents_file));
    let roster_file = Arc::clone(&intents_file);
    let FoundIntents { file: mut intents, open: mut open_rows, mut roster, damaged } =
        IntentsFile::open(intents_file, &config.intents, intents_length, config.array, config.rows)?;
    // Checked as early as possible: with another array's NVRAM nothing below would
    // mean anything.
    if let Some((_, FoundNvram { epoch, .. })) = &own {
        check_epoch(config, *epoch, &roster)?;
    }
    let (mut devices, mut sizes) = (Vec::with_capacity(config.devices.len()), FoundSizes::default());
    let mut departed = Vec::new();
    for dev in 0..config.devices.len() {
        // A file of the wrong size, or none, makes the device missing; only if all
        // sizes are wrong it is the setting.
        let file = open_device(os, config, dev, (&mut files, &mut sizes), (false, roster.has_left(dev)));
        if config.home() == Some(dev) && matches!(&file, Err(FilesError::Io { what: SYNC, .. })) {
            // The next sync would say nothing of it.
            roster.leave(dev);
            sync_roster(&roster_file, &roster, SyncPoint::Roster)()
                .map_err(FilesError::io(&config.intents, "note which files are the devices'"))?;
        }
        let mut file = file?;
        if let Ok(open) = &file {
            match label::check(&**open, config, roster.origin(), dev, roster.generation(dev))? {
                // It took the place of the file that the roster has, and that is not noted so far.
                Ok(generation) if generation != roster.generation(dev) => roster.succeed(dev),
                Ok(_) => {}
                Err(error) => {
                    let count = label::read_count(&**open, config, roster.origin(), dev);
                    // A member that left may have a newer count than the roster, if
                    // that is an older copy that was put back.
                    departed.extend(count.ok().flatten().map(|count| (dev, count)));
                    file = Err(error);
                }
            }
        }
        devices.push(file);
    }
    sizes.check()?;
    let (nvram_file, of_nvram) = if let Some(own) = own {
        own
    } else {
        // The device has to be known as the array's own before the NVRAM on it is
        // believed.
        let (home, path) = (at_home(os, config, &devices)?, config.nvram_path());
        if !is_made(&*home.file, path)? {
            let why = "there is none on it".to_owned();
            return Err(FilesError::NvramAway { path: path.to_owned(), why });
        }
        let length = length(&*home.file, path)?;
        let found = NvramFile::open(Arc::clone(&home.file), path, length, config.journal_layout())?;
        check_epoch(config, found.epoch, &roster)?;
        (home, found)
    };
    let FoundNvram { file: nvram, nvram: mut found, epoch: of_nvram, damaged: damaged_records } = of_nvram;
    let damaged_nvram = DamagedNvram::of(&damaged_records, &found);
    // The counts tell which files are older copies. Marks and intents are believed
    // only of files of one time.
    let count = check_counts(config, &nvram, &roster, &mut devices, &departed)?;
    let newest = newest_marks(&mut devices, config, roster.origin().drawn)?;
    if let Some(marked) = newest.as_ref().map(|newest| &newest.rows).filter(|_| !damaged.is_empty()) {
        // No intent is open of a row that is not marked, so damaged sectors hide none of these.
        let unmarked: Vec<Row> = open_rows.iter().filter(|row| !marked.contains(*row)).collect();
        for row in unmarked {
            open_rows.set(Rows::new(row, 1), false);
            intents.set(Rows::new(row, 1), false);
        }
        intents.sync().map_err(FilesError::io(&config.intents, "make it durable"))?;
    }
    let damaged = (!damaged.is_empty()).then(|| DamagedIntents {
        errors: damaged.iter().map(ToString::to_string).collect(),
        rows: open_rows.iter().count() as u64,
        of: config.rows,
    });
    found.intents = open_rows;
    let newest = newest.map(|found| (found.sequence, found.head.epoch, found.head.condition));
    let (sequence, epoch, condition) = newest.unwrap_or((0, of_nvram.epoch, Condition::default()));
    // The members have seen a later epoch, so this NVRAM was replaced by another.
    if epoch > of_nvram.epoch {
        return Err(FilesError::Outdated {
            path: config.nvram_path().to_owned(),
            found: of_nvram.epoch,
            expected: epoch,
        });
    }
    let head = head(roster.origin(), roster.generations(), of_nvram.epoch, condition);
    let marks = WriteIntentBitmap::new(config, &head, &found.intents, sequence + 1);
    // Announced first: members' counts become durable together with their marks.
    announce(config, count, (&roster_file, &mut roster), &mut devices)?;
    // Marks are written anew from what the intents say, so they are exact again
    // after a start.
    mark_all(&mut devices, config, &marks);
    let bad_pages = read_lists(config, roster.origin(), &mut devices);
    let there = config.devices.iter().zip(&devices).filter(|(_, file)| file.is_ok()).map(|(device, _)| &*device.path);
    // Names last: only files whose content is durable may be found by the next
    // start.
    sync_folders(os, there.chain([&*config.intents, config.nvram_path()]), SyncPoint::OpenFolder)?;
    let state = [nvram_file.identity, intents_identity];
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
        marks,
        bad_pages,
        resynchronised: None,
        damaged,
        damaged_nvram,
        lock: guard,
    })
}

/// Checks that NVRAM and intents are of one array, and of one epoch of it.
fn check_epoch(config: &FilesConfig, of_nvram: ArrayEpoch, roster: &MemberRoster) -> Result<(), FilesError> {
    let (nvram, intents) = (of_nvram.epoch, roster.epoch());
    if of_nvram.drawn != roster.origin().drawn {
        let (path, expected) =
            (config.nvram_path().to_owned(), format!("that of the array of {}", config.intents.display()));
        let found = format!("the NVRAM of another array with the number {}", config.array);
        return Err(FilesError::Stranger { path, found, expected });
    }
    // The message names the file with the smaller epoch: that one is the older
    // copy.
    let path = if nvram < intents { config.nvram_path() } else { &*config.intents };
    let (found, expected) = (nvram.min(intents), nvram.max(intents));
    if found == expected { Ok(()) } else { Err(FilesError::Outdated { path: path.to_owned(), found, expected }) }
}
