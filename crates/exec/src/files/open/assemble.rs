//! Making and opening the files of an array.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::TryLockError;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_plan::{Condition, Dev};
use rustix::io::Errno;

use super::bitmap::{MARK, head, mark_all, newest_marks, write_marks};
use super::label;
use super::nvram_place::{NvramAt, at_home, empty_nvram, make_home, nvram_is_there, open_home, open_nvram_device};
use crate::files::bitmap::Marks;
use crate::files::config::MAX_DEVICES;
use crate::files::config::{Accepted, DeviceConfig, Existing, FilesConfig};
use crate::files::error::FilesError;
use crate::files::io::file::{Identity, OsFile, SyncPoint};
use crate::files::io::os::{Os, Presence};
use crate::files::io::patience::patiently;
use crate::files::layout::bitmap::Found;
use crate::files::layout::intents;
use crate::files::layout::journal::Life;
use crate::files::layout::label::Origin;
use crate::files::layout::roster::Roster;
use crate::files::layout::sectors::SECTOR;
use crate::files::nvram::intents::{IntentsFile, sync_roster};
use crate::files::nvram::journal::NvramFile;
use crate::files::nvram::region::Region;
use crate::files::nvram::store::Store;
use crate::{Buffer, Nvram, RowSet};

/// What is tried, as errors call it.
pub(crate) const OPEN: &str = "open it";
const SYNC: &str = "make it durable";

/// How an array went on whose NVRAM or intents were lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resynchronised {
    /// The files that were lost. Both were made anew.
    pub lost: Vec<PathBuf>,
    /// Rows that were marked, and are made consistent.
    pub rows: u64,
    /// How many marks that were.
    pub marks: u64,
    /// All rows.
    pub of: u64,
    /// Whether the NVRAM, or a cache's device, may have had what is nowhere else.
    pub data_lost: bool,
}

/// The files of an array, open.
pub(crate) struct Opened {
    /// A file for each device; the error if it does not answer.
    pub(crate) devices: Vec<io::Result<Arc<dyn OsFile>>>,
    pub(crate) store: Store,
    pub(crate) roster: Roster,
    /// The file of the intents, which has the roster in its header.
    pub(crate) roster_file: Arc<dyn OsFile>,
    /// The NVRAM and the intents.
    pub(crate) state: [Identity; 2],
    /// The NVRAM if it lies on a device.
    pub(crate) home: Option<Arc<Region>>,
    /// What the NVRAM and the intents say.
    pub(crate) nvram: Nvram,
    /// What the members say of that.
    pub(crate) marks: Marks,
    /// What was made anew because it was lost.
    pub(crate) resynchronised: Option<Resynchronised>,
    /// The lock on the array: the NVRAM's file once more, or the intents' if that is a device's.
    pub(crate) lock: Arc<dyn OsFile>,
}

/// Makes the files of a new array and makes them durable: devices, of zeros where they do not keep what they hold,
/// then the intents, then the NVRAM, without which nothing is opened.
pub(crate) fn create(os: &dyn Os, config: &FilesConfig, existing: Existing) -> Result<Opened, FilesError> {
    let new = config.devices.iter().enumerate().filter(|(dev, _)| !existing.keeps(*dev) && !existing.loses(*dev));
    let paths = new.map(|(_, device)| &*device.path).chain([&*config.intents]).chain(config.own_nvram());
    if existing != Existing::Overwrite {
        for path in paths.filter(|path| !os.is_block_device(path)) {
            if os.exists(path).map_err(FilesError::io(path, "look for it"))? {
                return Err(FilesError::Exists(path.to_owned()));
            }
        }
    }
    // All of them before anything is written to one.
    check_devices(os, config, existing)?;
    let mut made = Vec::new();
    let opened = make(os, config, existing, &mut made);
    if existing != Existing::Overwrite && opened.is_err() {
        // What cannot be removed stays; the error that counts is the first.
        for path in made {
            drop(os.remove(path));
        }
    }
    opened
}

/// Whether the devices that are there, and stay, have room for what a new array has on them, and nothing that must stay.
pub(crate) fn check_devices(os: &dyn Os, config: &FilesConfig, existing: Existing) -> Result<(), FilesError> {
    for (dev, device) in config.devices.iter().enumerate() {
        let keeps = existing.keeps(dev);
        if !keeps && !os.is_block_device(&device.path) {
            continue;
        }
        let file = os.open(&device.path, Presence::There).map_err(FilesError::io(&device.path, OPEN))?;
        lock(&*file, &device.path)?;
        if keeps {
            check_room(&*file, config, dev)?;
        } else {
            check_empty(&*file, config, dev, existing)?;
        }
    }
    if let Some(path) = config.own_nvram().filter(|path| os.is_block_device(path)) {
        let file = os.open(path, Presence::There).map_err(FilesError::io(path, OPEN))?;
        lock(&*file, path)?;
        Region::whole(Arc::clone(&file), config, path)?;
        if !existing.loses_nvram() {
            check_ends(&*file, path)?;
        }
    }
    Ok(())
}

/// The paths of files that were opened are appended to `made`.
fn make<'a>(
    os: &dyn Os,
    config: &'a FilesConfig,
    existing: Existing,
    made: &mut Vec<&'a Path>,
) -> Result<Opened, FilesError> {
    let mut files = Identities::default();
    let mut make_file = |path: &'a Path, existing: Existing| {
        let file = make_file(os, path, existing)?;
        made.push(path);
        Ok::<_, FilesError>(file)
    };
    let mut own = None;
    if let Some(path) = config.own_nvram() {
        let file = if os.is_block_device(path) {
            os.open(path, Presence::There).map_err(FilesError::io(path, OPEN))?
        } else {
            make_file(path, existing)?
        };
        let file = Region::whole(file, config, path)?;
        lock(&*file, path)?;
        let identity = files.add(&*file, path)?;
        // An array that is overwritten is none from here on: half of it must not be opened.
        empty_nvram(&*file, path)?;
        own = Some((file, identity));
    }
    if matches!(existing, Existing::Overwrite | Existing::GiveUp { .. }) {
        // Nor by what its members have marked: they are none any more before anything of them is changed.
        let others = (0..config.devices.len()).filter(|dev| Some(*dev) != config.home());
        for dev in config.home().into_iter().chain(others).filter(|dev| existing.loses(*dev)) {
            let device = &config.devices[dev];
            let Some(file) = there(os, &device.path)? else { continue };
            lock(&*file, &device.path)?;
            forget(os, &*file, config, dev).map_err(FilesError::io(&device.path, "empty it"))?;
        }
    }
    let origin = Origin { array: config.array, drawn: os.draw() };
    let first = Marks::new(config, &head(origin, &[1; MAX_DEVICES], 0, Condition::default()), &RowSet::default(), 1);
    let mut devices = Vec::with_capacity(config.devices.len());
    for (dev, device) in config.devices.iter().enumerate() {
        let on_device = os.is_block_device(&device.path);
        let file = if on_device || existing.keeps(dev) {
            os.open(&device.path, Presence::There).map_err(FilesError::io(&device.path, OPEN))?
        } else {
            make_file(&device.path, if existing.loses(dev) { Existing::Overwrite } else { existing })?
        };
        files.add(&*file, &device.path)?;
        lock(&*file, &device.path)?;
        if existing.keeps(dev) {
            if !on_device {
                file.set_len(config.file_bytes(dev)).map_err(FilesError::io(&device.path, "set its size"))?;
            }
        } else if on_device {
            empty(&*file, config, dev)?;
        } else {
            clear(&*file, &device.path, config.file_bytes(dev))?;
        }
        let labelled = label::write(&*file, config, origin, dev, 1);
        labelled.map_err(FilesError::io(&device.path, "label it"))?;
        if dev < config.members {
            write_marks(&*file, config, dev, &first).map_err(FilesError::io(&device.path, MARK))?;
        }
        file.sync_all(SyncPoint::CreateDevice).map_err(FilesError::io(&device.path, "make it durable"))?;
        devices.push(Ok(file));
    }
    let file = make_file(&config.intents, existing)?;
    let intents_identity = files.add(&*file, &config.intents)?;
    lock(&*file, &config.intents)?;
    clear(&*file, &config.intents, intents::bytes(config.rows))?;
    let (none, life) = (RowSet::default(), (0, &[1; MAX_DEVICES]));
    let guard = own.as_ref().map_or(&file, |own| &own.0).clone();
    let roster_file = Arc::clone(&file);
    let (intents, roster) = make_intents(file, config, origin, &none, life)?;
    let NvramAt { file, identity, home } = match own {
        Some((file, identity)) => NvramAt { file, identity, home: None },
        None => at_home(os, config, &devices)?,
    };
    let nvram = make_nvram(file, config, Life { drawn: origin.drawn, epoch: 0 })?;
    let paths = config.devices.iter().map(|device| &*device.path).chain([&*config.intents, config.nvram_path()]);
    sync_folders(os, paths, SyncPoint::CreateFolder)?;
    let state = [identity, intents_identity];
    let (store, nvram) = (Store::new(nvram, intents), Nvram::default());
    Ok(Opened {
        devices,
        store,
        roster,
        roster_file,
        state,
        home,
        nvram,
        marks: first,
        resynchronised: None,
        lock: guard,
    })
}

/// Opens a file if there is one.
pub(crate) fn there(os: &dyn Os, path: &Path) -> Result<Option<Arc<dyn OsFile>>, FilesError> {
    match os.open(path, Presence::There) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FilesError::io(path, OPEN)(error)),
    }
}

/// Has a device be none of an array that is overwritten, durably.
fn forget(os: &dyn Os, file: &dyn OsFile, config: &FilesConfig, dev: usize) -> io::Result<()> {
    if os.is_block_device(&config.devices[dev].path) {
        let from = config.label_offset(dev);
        file.write_all_at(&Buffer::zeroed((config.own_end(dev) - from) as usize), from)?;
        if let Some(nvram) = config.region(dev) {
            file.write_all_at(&[0; SECTOR], nvram.start)?;
        }
    } else {
        file.set_len(0)?;
    }
    file.sync_all(SyncPoint::CreateEmptied)
}

/// Makes the intents of these rows, with this epoch and these generations, durably.
fn make_intents(
    file: Arc<dyn OsFile>,
    config: &FilesConfig,
    origin: Origin,
    open: &RowSet,
    life: (u32, &[u32; MAX_DEVICES]),
) -> Result<(IntentsFile, Roster), FilesError> {
    clear(&*file, &config.intents, intents::bytes(config.rows))?;
    let made = IntentsFile::create(file, origin, config.rows, open, life);
    let made = made.and_then(|made| made.0.sync_all().map(|()| made));
    made.map_err(FilesError::io(&config.intents, "write it"))
}

/// Makes an NVRAM without content, durably.
fn make_nvram(file: Arc<dyn OsFile>, config: &FilesConfig, life: Life) -> Result<NvramFile, FilesError> {
    clear(&*file, config.nvram_path(), config.layout().bytes())?;
    let made = NvramFile::create(file, config.layout(), life).and_then(|file| file.sync_all().map(|()| file));
    made.map_err(FilesError::io(config.nvram_path(), "write it"))
}

/// Opens a device's file, which has to be as long as this array's, unless it is the array's and is to be `made_anew`; the
/// inner error if it does not answer. What can be read of it is durable: content that may be gone though it can be read is
/// none.
fn open_device(
    os: &dyn Os,
    config: &FilesConfig,
    dev: usize,
    files: &mut Identities,
    made_anew: bool,
) -> Result<io::Result<Arc<dyn OsFile>>, FilesError> {
    let path = &config.devices[dev].path;
    let file = match open_file(os, path)? {
        Ok(file) => file,
        missing => return Ok(missing),
    };
    files.add(&*file, path)?;
    lock(&*file, path)?;
    if is_unfinished(&*file, path)? {
        return Ok(Err(io::Error::new(io::ErrorKind::NotFound, "it is empty: its making was cut short")));
    }
    label::check_version(&*file, config, dev)?;
    if !made_anew || capacity(&*file, path)?.is_some() || label::drawn_of(&*file, config, dev).is_none() {
        check_size(&*file, config, dev, path)?;
    }
    match file.sync_all(SyncPoint::OpenDevice) {
        // Whether it was away, or what it shows is not what it holds, makes a difference where the NVRAM lies on it.
        Err(error) if config.home() == Some(dev) => Err(FilesError::io(path, SYNC)(error)),
        synced => Ok(synced.map(|()| file)),
    }
}

/// Goes on with an array whose NVRAM or intents are lost: both are made anew, with the rows that members have marked as
/// those that may be inconsistent. What a cache's device holds nobody knows any more: it is made anew as well.
pub(crate) fn resynchronise(os: &dyn Os, config: &FilesConfig, accepted: Accepted) -> Result<Opened, FilesError> {
    let mut files = Identities::default();
    let mut lost = Vec::new();
    if !nvram_is_there(os, config)? {
        lost.push(config.nvram_path().to_owned());
    }
    if !is_there(os, &config.intents)? {
        lost.push(config.intents.clone());
    }
    let Some(first_lost) = lost.first() else { return open(os, config) };
    let mut devices = Vec::with_capacity(config.devices.len());
    for dev in 0..config.devices.len() {
        devices.push(if config.home() == Some(dev) {
            open_home(os, config, dev, &mut files)?
        } else {
            open_device(os, config, dev, &mut files, dev >= config.members)?
        });
    }
    // Members that are not the array's any more tell of an earlier time, and so have smaller numbers.
    let mut found: Option<Found> = None;
    let arrays: BTreeSet<_> =
        (0..config.members).filter_map(|dev| label::drawn_of(&**devices[dev].as_ref().ok()?, config, dev)).collect();
    for drawn in arrays {
        let newest = newest_marks(&mut devices, config, drawn)?;
        if let Some(newest) = newest.filter(|newest| found.as_ref().is_none_or(|found| found.is_before(newest))) {
            found = Some(newest);
        }
    }
    let Some(Found { sequence, head: before, rows, marks }) = found else {
        return Err(FilesError::NoMarks(first_lost.clone()));
    };
    let (data, notes) = (before.holds && !accepted.data, before.condition.losses && !accepted.notes);
    if data || notes {
        return Err(FilesError::LostForGood { path: first_lost.clone(), data, notes });
    }
    let origin = Origin { array: config.array, drawn: before.drawn };
    let mut generations = before.generations;
    for (dev, device) in devices.iter_mut().enumerate() {
        if config.home() == Some(dev) {
            generations[dev] = generations[dev].wrapping_add(if generations[dev] % 2 == 1 { 2 } else { 1 });
            make_home(os, config, dev, device, &mut files, (origin, generations[dev]))?;
            continue;
        }
        let Ok(file) = device else { continue };
        let path = &config.devices[dev].path;
        if dev >= config.members
            && generations[dev] % 2 == 1
            && label::drawn_of(&**file, config, dev) == Some(origin.drawn)
        {
            generations[dev] = generations[dev].wrapping_add(2);
            if let Err(error) = make_anew(&**file, config, dev, origin, generations[dev]) {
                *device = Err(error);
            }
        } else if let Err(error) = label::check(&**file, config, origin, dev, generations[dev])? {
            *device = Err(error);
        } else if before.condition.unfilled.contains(Dev(dev as u8)) {
            let text = "it was being filled, and how far is lost; put it in its own place again, to be filled from the beginning";
            *device = Err(io::Error::other(text));
        }
        if device.is_err() && dev >= config.members {
            // The cache's content is not known any more, whoever brings it back.
            generations[dev] = (generations[dev] | 1).wrapping_add(1);
        }
        files.seen.retain(|_, seen| device.is_ok() || seen != path);
    }
    let made = |path: &Path| {
        let file = make_file(os, path, Existing::Overwrite)?;
        lock(&*file, path)?;
        Ok::<_, FilesError>(file)
    };
    let nvram_file = match config.own_nvram() {
        None => at_home(os, config, &devices)?,
        Some(path) => {
            let file = if os.is_block_device(path) { open_nvram_device(os, config, path)? } else { made(path)? };
            let identity = files.add(&*file, path)?;
            NvramAt { file, identity, home: None }
        }
    };
    // If this is cut short it begins again: without an NVRAM nothing is opened.
    empty_nvram(&*nvram_file.file, config.nvram_path())?;
    let intents_file = made(&config.intents)?;
    let guard = nvram_file.home.as_ref().map_or(&nvram_file.file, |_| &intents_file).clone();
    let intents_identity = files.add(&*intents_file, &config.intents)?;
    let epoch = before.epoch + 1;
    let roster_file = Arc::clone(&intents_file);
    let (intents, roster) = make_intents(intents_file, config, origin, &rows, (epoch, &generations))?;
    let nvram = make_nvram(nvram_file.file, config, Life { drawn: origin.drawn, epoch })?;
    let there = config.devices.iter().zip(&devices).filter(|(_, file)| file.is_ok()).map(|(device, _)| &*device.path);
    sync_folders(os, there.chain([&*config.intents, config.nvram_path()]), SyncPoint::CreateFolder)?;
    let new = Marks::new(config, &head(origin, &generations, epoch, before.condition), &rows, sequence + 1);
    mark_all(&mut devices, config, &new);
    let state = [nvram_file.identity, intents_identity];
    let resynchronised = Some(Resynchronised {
        lost,
        rows: rows.iter().count() as u64,
        marks,
        of: config.rows,
        data_lost: before.holds,
    });
    let mut found = Nvram::default();
    found.intents = rows;
    let (store, home) = (Store::new(nvram, intents), nvram_file.home);
    Ok(Opened {
        devices,
        store,
        roster,
        roster_file,
        state,
        home,
        nvram: found,
        marks: new,
        resynchronised,
        lock: guard,
    })
}

/// Whether this file, of the NVRAM or the intents, has a header, which is written last.
pub(crate) fn is_made(file: &dyn OsFile, path: &Path) -> Result<bool, FilesError> {
    let mut magic = [0; 8];
    if length(file, path)? < magic.len() as u64 {
        return Ok(false);
    }
    file.read_exact_at(&mut magic, 0).map_err(FilesError::io(path, "read the header"))?;
    Ok(magic != [0; 8])
}

/// Whether the NVRAM or the intents are there.
fn is_there(os: &dyn Os, path: &Path) -> Result<bool, FilesError> {
    there(os, path)?.map_or(Ok(false), |file| is_made(&*file, path))
}

/// Makes a cache's device anew, durably: it holds nothing that counts.
pub(crate) fn make_anew(
    file: &dyn OsFile,
    config: &FilesConfig,
    dev: usize,
    origin: Origin,
    generation: u32,
) -> io::Result<()> {
    let DeviceConfig { offset, .. } = &config.devices[dev];
    if file.capacity()?.is_some() {
        file.punch_hole(*offset, config.label_offset(dev) - offset)?;
    } else {
        file.set_len(0)?;
        file.set_len(config.file_bytes(dev))?;
    }
    if config.home() == Some(dev) {
        // If this is cut short the file is empty, or long enough for a label and all behind it.
        file.sync_all(SyncPoint::CreateDevice)?;
    }
    label::write(file, config, origin, dev, generation)?;
    file.sync_all(SyncPoint::CreateDevice)
}

/// Opens the files of an array.
pub(crate) fn open(os: &dyn Os, config: &FilesConfig) -> Result<Opened, FilesError> {
    let mut files = Identities::default();
    let present = |path: &Path| {
        open_file(os, path)?.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => FilesError::Missing(path.to_owned()),
            _ => FilesError::io(path, OPEN)(error),
        })
    };
    let mut own = None;
    if let Some(path) = config.own_nvram() {
        let file = Region::whole(present(path)?, config, path)?;
        lock(&*file, path)?;
        if !is_made(&*file, path)? {
            return Err(FilesError::Missing(path.to_owned()));
        }
        let length = length(&*file, path)?;
        let identity = files.add(&*file, path)?;
        // What is read from here on may be what an earlier process wrote and did not make durable; it
        // is relied on, so it must be: content, length and, in the end, names.
        let found = NvramFile::open(Arc::clone(&file), path, length, config.layout())?;
        own = Some((NvramAt { file, identity, home: None }, found));
    }
    let intents_file = present(&config.intents)?;
    if !is_made(&*intents_file, &config.intents)? {
        return Err(FilesError::Missing(config.intents.clone()));
    }
    let intents_length = length(&*intents_file, &config.intents)?;
    let intents_identity = files.add(&*intents_file, &config.intents)?;
    lock(&*intents_file, &config.intents)?;
    let guard = own.as_ref().map_or(&intents_file, |(nvram, _)| &nvram.file).clone();
    let roster_file = Arc::clone(&intents_file);
    let (intents, open_rows, mut roster) =
        IntentsFile::open(intents_file, &config.intents, intents_length, config.array, config.rows)?;
    if let Some((_, (_, _, life))) = &own {
        check_life(config, *life, &roster)?;
    }
    let mut devices = Vec::with_capacity(config.devices.len());
    for dev in 0..config.devices.len() {
        let file = open_device(os, config, dev, &mut files, false);
        if config.home() == Some(dev) && matches!(&file, Err(FilesError::Io { what: SYNC, .. })) {
            // The next sync would say nothing of it.
            roster.leave(dev);
            sync_roster(&roster_file, &roster)()
                .map_err(FilesError::io(&config.intents, "note which files are the devices'"))?;
        }
        let mut file = file?;
        if let Ok(open) = &file
            && let Err(error) = label::check(&**open, config, roster.origin(), dev, roster.generation(dev))?
        {
            file = Err(error);
        }
        devices.push(file);
    }
    let (nvram_file, (nvram, mut found, life)) = if let Some(own) = own {
        own
    } else {
        let (home, path) = (at_home(os, config, &devices)?, config.nvram_path());
        if !is_made(&*home.file, path)? {
            let why = "there is none on it".to_owned();
            return Err(FilesError::NvramAway { path: path.to_owned(), why });
        }
        let length = length(&*home.file, path)?;
        let found = NvramFile::open(Arc::clone(&home.file), path, length, config.layout())?;
        check_life(config, found.2, &roster)?;
        (home, found)
    };
    found.intents = open_rows;
    let newest = newest_marks(&mut devices, config, roster.origin().drawn)?;
    let newest = newest.map(|found| (found.sequence, found.head.epoch, found.head.condition));
    let (sequence, epoch, condition) = newest.unwrap_or((0, life.epoch, Condition::default()));
    if epoch > life.epoch {
        return Err(FilesError::Outdated { path: config.nvram_path().to_owned(), found: life.epoch, expected: epoch });
    }
    let head = head(roster.origin(), roster.generations(), life.epoch, condition);
    let marks = Marks::new(config, &head, &found.intents, sequence + 1);
    mark_all(&mut devices, config, &marks);
    let there = config.devices.iter().zip(&devices).filter(|(_, file)| file.is_ok()).map(|(device, _)| &*device.path);
    sync_folders(os, there.chain([&*config.intents, config.nvram_path()]), SyncPoint::OpenFolder)?;
    let state = [nvram_file.identity, intents_identity];
    let (store, home) = (Store::new(nvram, intents), nvram_file.home);
    Ok(Opened {
        devices,
        store,
        roster,
        roster_file,
        state,
        home,
        nvram: found,
        marks,
        resynchronised: None,
        lock: guard,
    })
}

/// Whether NVRAM and intents are of one array, and of one of its lives.
fn check_life(config: &FilesConfig, life: Life, roster: &Roster) -> Result<(), FilesError> {
    let (nvram, intents) = (life.epoch, roster.epoch());
    if life.drawn != roster.origin().drawn {
        let (path, expected) =
            (config.nvram_path().to_owned(), format!("that of the array of {}", config.intents.display()));
        let found = format!("the NVRAM of another array with the number {}", config.array);
        return Err(FilesError::Stranger { path, found, expected });
    }
    let path = if nvram < intents { config.nvram_path() } else { &*config.intents };
    let (found, expected) = (nvram.min(intents), nvram.max(intents));
    if found == expected { Ok(()) } else { Err(FilesError::Outdated { path: path.to_owned(), found, expected }) }
}

/// Opens what stands in a lost device's place: a file of the right size, whatever it holds, or a
/// new one. One that was there is not locked yet.
pub(crate) fn open_replacement(
    os: &dyn Os,
    config: &FilesConfig,
    dev: usize,
    path: &Path,
) -> Result<Arc<dyn OsFile>, FilesError> {
    let file = match open_file(os, path)? {
        Ok(file) if is_unfinished(&*file, path)? => file,
        Ok(file) => {
            check_size(&*file, config, dev, path)?;
            if capacity(&*file, path)?.is_some() && !label::is_of(&*file, config, dev) {
                check_nothing(&*file, config, dev, path)?;
            }
            return Ok(file);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_file(os, path, Existing::Refuse)?,
        Err(error) => return Err(FilesError::io(path, OPEN)(error)),
    };
    lock(&*file, path)?;
    clear(&*file, path, config.file_bytes(dev))?;
    // Before it is labelled: if its making is cut short it is empty or whole, and no start takes it for a file of
    // another size.
    file.sync_all(SyncPoint::ReplaceDevice).map_err(FilesError::io(path, "make its size durable"))?;
    Ok(file)
}

/// Has a device's file read and written directly if that is wanted: how memory must be aligned then, or why it cannot be.
pub(crate) fn go_direct(
    os: &Arc<dyn Os>,
    config: &FilesConfig,
    dev: usize,
    path: &Path,
    file: &Arc<dyn OsFile>,
) -> Result<Option<io::Result<u64>>, FilesError> {
    if !config.devices[dev].options.direct {
        return Ok(None);
    }
    let (file, page, first) = (Arc::clone(file), config.shape.page_bytes(), config.devices[dev].offset);
    patiently(os, path, config.patience, move |_| Ok(Some(file.set_direct(page, first))))
}

/// Makes a file the device's, durably.
pub(crate) fn label_replacement(
    os: &dyn Os,
    file: &dyn OsFile,
    config: &FilesConfig,
    (origin, generation): (Origin, u32),
    dev: usize,
    path: &Path,
) -> Result<(), FilesError> {
    let labelled = label::write(file, config, origin, dev, generation);
    let durable = labelled.and_then(|()| file.sync_all(SyncPoint::ReplaceDevice));
    durable.map_err(FilesError::io(path, "make it durable"))?;
    sync_folder(os, folder(path), SyncPoint::ReplaceFolder)
}

pub(crate) fn make_file(os: &dyn Os, path: &Path, existing: Existing) -> Result<Arc<dyn OsFile>, FilesError> {
    if !is_place_of_files(path) {
        return Err(FilesError::NoSuchDevice(path.to_owned()));
    }
    let presence = match existing {
        Existing::Refuse | Existing::Adopt(_) | Existing::GiveUp { .. } => Presence::New,
        Existing::Overwrite => Presence::Either,
    };
    match os.open(path, presence) {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(FilesError::Exists(path.to_owned())),
        Err(source) => Err(FilesError::Io { path: path.to_owned(), what: "make it", source }),
    }
}

/// Whether a file may be made there: a device that is away must not become one.
pub(crate) fn is_place_of_files(path: &Path) -> bool {
    !path.starts_with("/dev") || path.starts_with("/dev/shm")
}

/// Opens a file; the inner error if it is not there or its device does not answer. Whatever else
/// goes wrong is for the caller to put right: an array must not lose a member over a permission.
pub(crate) fn open_file(os: &dyn Os, path: &Path) -> Result<io::Result<Arc<dyn OsFile>>, FilesError> {
    match os.open(path, Presence::There) {
        Ok(file) => Ok(Ok(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound || does_not_answer(&error) => Ok(Err(error)),
        Err(error) => Err(FilesError::io(path, OPEN)(error)),
    }
}

fn does_not_answer(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::NXIO | Errno::NODEV))
}

/// Takes a file for this executor alone.
pub(crate) fn lock(file: &dyn OsFile, path: &Path) -> Result<(), FilesError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(FilesError::InUse(path.to_owned())),
        Err(TryLockError::Error(source)) => Err(FilesError::Io { path: path.to_owned(), what: "lock it", source }),
    }
}

/// Makes a file as long as this, of zeros.
fn clear(file: &dyn OsFile, path: &Path, bytes: u64) -> Result<(), FilesError> {
    let cleared = file.set_len(0).and_then(|()| file.set_len(bytes));
    cleared.map_err(FilesError::io(path, "set its size"))
}

/// Bytes at the beginning and at the end of a block device that are looked at for what it may hold.
const LOOKED_AT: u64 = 1 << 20;

/// Whether a block device has room for what a device holds, and nothing that must stay.
fn check_empty(file: &dyn OsFile, config: &FilesConfig, dev: usize, existing: Existing) -> Result<(), FilesError> {
    let path = &config.devices[dev].path;
    check_size(file, config, dev, path)?;
    if existing.loses(dev) { Ok(()) } else { check_nothing(file, config, dev, path) }
}

/// Whether a block device holds nothing that must stay.
fn check_nothing(file: &dyn OsFile, config: &FilesConfig, dev: usize, path: &Path) -> Result<(), FilesError> {
    check_nothing_but(file, config, dev, path, 0..0)
}

/// Whether a device of the array's holds nothing that must stay, beside what is there.
pub(crate) fn check_nothing_but(
    file: &dyn OsFile,
    config: &FilesConfig,
    dev: usize,
    path: &Path,
    but: Range<u64>,
) -> Result<(), FilesError> {
    let capacity = check_size(file, config, dev, path)?;
    // Where tables of partitions, superblocks and their copies are, and where a label would be, and an NVRAM.
    let nvram = config.region(dev).map_or(0, |nvram| nvram.start);
    check_zeros(file, path, capacity, &[0, config.label_offset(dev), nvram, capacity], but)
}

/// Whether a block device for the NVRAM alone holds nothing that must stay.
pub(crate) fn check_ends(file: &dyn OsFile, path: &Path) -> Result<(), FilesError> {
    let capacity = capacity(file, path)?.unwrap_or(0);
    check_zeros(file, path, capacity, &[0, capacity], 0..0)
}

/// Whether there are zeros behind these places of a device, or at its end, beside what may be there.
fn check_zeros(
    file: &dyn OsFile,
    path: &Path,
    capacity: u64,
    places: &[u64],
    but: Range<u64>,
) -> Result<(), FilesError> {
    let looked_at = LOOKED_AT.min(capacity);
    for from in places.iter().map(|place| (*place).min(capacity - looked_at)) {
        let mut bytes = vec![0; looked_at as usize];
        file.read_exact_at(&mut bytes, from).map_err(FilesError::io(path, "read from it"))?;
        let mut found = (from..).zip(&bytes).filter(|(_, byte)| **byte != 0);
        if let Some((at, _)) = found.find(|(at, _)| !but.contains(at)) {
            return Err(FilesError::CarriesData { path: path.to_owned(), at });
        }
    }
    Ok(())
}

/// Whether a device that keeps its pages has them all, and a place behind them where its label can go: zeros, an earlier
/// label, or the end of its file.
fn check_room(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> Result<(), FilesError> {
    let path = &config.devices[dev].path;
    let capacity = capacity(file, path)?;
    let found = capacity.map_or_else(|| length(file, path), Ok)?;
    let (end, from, most) = (config.pages_end(dev), config.label_offset(dev), config.file_bytes(dev));
    let earlier = from..from + label::bytes_at(file, from);
    let earlier =
        if dev < config.members && !earlier.is_empty() { from..config.marks_end(dev, earlier.end) } else { earlier };
    let fits = if capacity.is_some() { found >= most } else { (end..=most.max(earlier.end)).contains(&found) };
    if !fits {
        let (path, settings, block) = (path.clone(), config.size_settings(dev), capacity.is_some());
        return Err(FilesError::Room { path, found, end, most, block, settings });
    }
    let mut bytes = vec![0; (found.min(most) - end) as usize];
    file.read_exact_at(&mut bytes, end).map_err(FilesError::io(path, "read from it"))?;
    let mut places = (end..).zip(&bytes);
    match places.find(|(at, byte)| **byte != 0 && !earlier.contains(at)) {
        None => Ok(()),
        Some((at, _)) => Err(FilesError::LabelsPlace { path: path.clone(), at, end }),
    }
}

/// Makes all of a block device that is used read as zeros.
fn empty(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> Result<(), FilesError> {
    let DeviceConfig { path, offset, .. } = &config.devices[dev];
    let emptied = file.punch_hole(*offset, config.label_offset(dev) - offset);
    emptied.map_err(FilesError::io(path, "make it read as zeros"))
}

/// Bytes of what must be a regular file.
pub(crate) fn length(file: &dyn OsFile, path: &Path) -> Result<u64, FilesError> {
    let length = file.length().map_err(FilesError::io(path, "ask for its size"))?;
    length.ok_or_else(|| FilesError::NotAFile(path.to_owned()))
}

/// Whether a device's file is empty: it was being made, and holds nothing that could be lost. It
/// counts as not there.
pub(crate) fn is_unfinished(file: &dyn OsFile, path: &Path) -> Result<bool, FilesError> {
    Ok(capacity(file, path)?.is_none() && length(file, path)? == 0)
}

/// Bytes of a block device; none if it is something else.
pub(crate) fn capacity(file: &dyn OsFile, path: &Path) -> Result<Option<u64>, FilesError> {
    file.capacity().map_err(FilesError::io(path, "ask for its size"))
}

/// Whether a file is as long as a device's must be, or a block device has room for it; how long it is.
pub(crate) fn check_size(file: &dyn OsFile, config: &FilesConfig, dev: usize, path: &Path) -> Result<u64, FilesError> {
    let (capacity, wanted) = (capacity(file, path)?, config.file_bytes(dev));
    let found = capacity.map_or_else(|| length(file, path), Ok)?;
    let fine = if capacity.is_some() { found >= wanted } else { found == wanted };
    if fine { Ok(found) } else { Err(config.wrong_size(dev, path, found)) }
}

/// The folder that a file is in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes the names of these files durable.
fn sync_folders<'a>(os: &dyn Os, paths: impl IntoIterator<Item = &'a Path>, at: SyncPoint) -> Result<(), FilesError> {
    let folders: BTreeSet<_> = paths.into_iter().map(folder).collect();
    folders.into_iter().try_for_each(|folder| sync_folder(os, folder, at))
}

/// Makes new files' names durable.
fn sync_folder(os: &dyn Os, folder: &Path, at: SyncPoint) -> Result<(), FilesError> {
    os.sync_folder(folder, at).map_err(FilesError::io(folder, "make its names durable"))
}

/// Which file is which, so that none is used twice.
#[derive(Default)]
pub(crate) struct Identities {
    seen: BTreeMap<Identity, PathBuf>,
}

impl Identities {
    pub(crate) fn add(&mut self, file: &dyn OsFile, path: &Path) -> Result<Identity, FilesError> {
        let identity = identity(file, path)?;
        match self.seen.insert(identity, path.to_owned()) {
            None => Ok(identity),
            Some(other) => Err(FilesError::Same(other, path.to_owned())),
        }
    }
}

/// Which file this is.
pub(crate) fn identity(file: &dyn OsFile, path: &Path) -> Result<Identity, FilesError> {
    file.identity().map_err(FilesError::io(path, "ask for its number"))
}
