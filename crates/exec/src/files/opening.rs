//! Making and opening the files of an array.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::intents::{self, IntentsFile};
use super::label::{self, Origin, Roster};
use super::nvram::NvramFile;
use super::os::{Identity, Os, OsFile, Presence, SyncPoint};
use super::patience::patiently;
use super::store::Store;
use super::{DeviceConfig, Existing, FilesConfig, FilesError};
use crate::Nvram;

/// What is tried, as errors call it.
pub(super) const OPEN: &str = "open it";

/// The files of an array, open.
pub(super) struct Opened {
    /// A file for each device; the error if it does not answer.
    pub(super) devices: Vec<io::Result<Arc<dyn OsFile>>>,
    pub(super) store: Store,
    pub(super) roster: Roster,
    /// The NVRAM and the intents.
    pub(super) state: [Identity; 2],
    /// What the NVRAM and the intents say.
    pub(super) nvram: Nvram,
    /// The lock on the array: the NVRAM's file once more.
    pub(super) lock: Arc<dyn OsFile>,
}

/// Makes the files of a new array and makes them durable: devices, of zeros where they do not keep what they hold,
/// then the intents, then the NVRAM, without which nothing is opened.
pub(super) fn create(os: &dyn Os, config: &FilesConfig, existing: Existing) -> Result<Opened, FilesError> {
    let new = config.devices.iter().enumerate().filter(|(dev, _)| !existing.keeps(*dev));
    let paths = new.map(|(_, device)| &device.path).chain([&config.intents, &config.nvram]);
    if existing != Existing::Overwrite {
        for path in paths.filter(|path| !os.is_block_device(path)) {
            if os.exists(path).map_err(FilesError::io(path, "look for it"))? {
                return Err(FilesError::Exists(path.clone()));
            }
        }
    }
    // All of them before anything is written to one.
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

/// The paths of files that were opened are appended to `made`.
fn make<'a>(
    os: &dyn Os,
    config: &'a FilesConfig,
    existing: Existing,
    made: &mut Vec<&'a Path>,
) -> Result<Opened, FilesError> {
    let mut files = Identities::default();
    let mut make_file = |path: &'a Path| {
        let file = make_file(os, path, existing)?;
        made.push(path);
        Ok::<_, FilesError>(file)
    };
    let nvram_file = make_file(&config.nvram)?;
    lock(&*nvram_file, &config.nvram)?;
    let nvram_identity = files.add(&*nvram_file, &config.nvram)?;
    let guard = Arc::clone(&nvram_file);
    // An array that is overwritten is none from here on: half of it must not be opened.
    let emptied = nvram_file.set_len(0).and_then(|()| nvram_file.sync_all(SyncPoint::CreateEmptied));
    emptied.map_err(FilesError::io(&config.nvram, "empty it"))?;
    let origin = Origin { array: config.array, drawn: os.draw() };
    let mut devices = Vec::with_capacity(config.devices.len());
    for (dev, device) in config.devices.iter().enumerate() {
        let on_device = os.is_block_device(&device.path);
        let file = if on_device || existing.keeps(dev) {
            os.open(&device.path, Presence::There).map_err(FilesError::io(&device.path, OPEN))?
        } else {
            make_file(&device.path)?
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
        file.sync_all(SyncPoint::CreateDevice).map_err(FilesError::io(&device.path, "make it durable"))?;
        devices.push(Ok(file));
    }
    let file = make_file(&config.intents)?;
    let intents_identity = files.add(&*file, &config.intents)?;
    lock(&*file, &config.intents)?;
    clear(&*file, &config.intents, intents::bytes(config.rows))?;
    let intents = IntentsFile::create(file, origin, config.rows).and_then(|made| made.0.sync_all().map(|()| made));
    let (intents, roster) = intents.map_err(FilesError::io(&config.intents, "write it"))?;
    clear(&*nvram_file, &config.nvram, config.layout().bytes())?;
    let nvram = NvramFile::create(nvram_file, config.layout()).and_then(|file| file.sync_all().map(|()| file));
    let nvram = nvram.map_err(FilesError::io(&config.nvram, "write it"))?;
    let paths = config.devices.iter().map(|device| &device.path).chain([&config.intents, &config.nvram]);
    sync_folders(os, paths, SyncPoint::CreateFolder)?;
    let state = [nvram_identity, intents_identity];
    Ok(Opened { devices, store: Store::new(nvram, intents), roster, state, nvram: Nvram::default(), lock: guard })
}

/// Opens the files of an array.
pub(super) fn open(os: &dyn Os, config: &FilesConfig) -> Result<Opened, FilesError> {
    let mut files = Identities::default();
    let present = |path: &PathBuf| {
        open_file(os, path)?.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => FilesError::Missing(path.clone()),
            _ => FilesError::io(path, OPEN)(error),
        })
    };
    let nvram_file = present(&config.nvram)?;
    lock(&*nvram_file, &config.nvram)?;
    let nvram_length = length(&*nvram_file, &config.nvram)?;
    let nvram_identity = files.add(&*nvram_file, &config.nvram)?;
    let guard = Arc::clone(&nvram_file);
    // What is read from here on may be what an earlier process wrote and did not make durable; it
    // is relied on, so it must be: content, length and, in the end, names.
    let (nvram, mut found) = NvramFile::open(nvram_file, &config.nvram, nvram_length, config.layout())?;
    let intents_file = present(&config.intents)?;
    let intents_length = length(&*intents_file, &config.intents)?;
    let intents_identity = files.add(&*intents_file, &config.intents)?;
    lock(&*intents_file, &config.intents)?;
    let (intents, open_rows, roster) =
        IntentsFile::open(intents_file, &config.intents, intents_length, config.array, config.rows)?;
    found.intents = open_rows;
    let mut devices = Vec::with_capacity(config.devices.len());
    for (dev, device) in config.devices.iter().enumerate() {
        let mut file = open_file(os, &device.path)?;
        if let Ok(open) = &file {
            files.add(&**open, &device.path)?;
            lock(&**open, &device.path)?;
            if is_unfinished(&**open, &device.path)? {
                file = Err(io::Error::new(io::ErrorKind::NotFound, "it is empty: its making was cut short"));
            } else {
                check_size(&**open, config, dev, &device.path)?;
                // Content that may be gone though it can be read: the device does not answer.
                let (origin, generation) = (roster.origin(), roster.generation(dev));
                let durable = open.sync_all(SyncPoint::OpenDevice);
                let trusted = match durable {
                    Ok(()) => label::check(&**open, config, origin, dev, generation)?,
                    gone => gone,
                };
                if let Err(error) = trusted {
                    file = Err(error);
                }
            }
        }
        devices.push(file);
    }
    let there = config.devices.iter().zip(&devices).filter(|(_, file)| file.is_ok()).map(|(device, _)| &device.path);
    sync_folders(os, there.chain([&config.intents, &config.nvram]), SyncPoint::OpenFolder)?;
    let state = [nvram_identity, intents_identity];
    Ok(Opened { devices, store: Store::new(nvram, intents), roster, state, nvram: found, lock: guard })
}

/// Opens what stands in a lost device's place: a file of the right size, whatever it holds, or a
/// new one. One that was there is not locked yet.
pub(super) fn open_replacement(
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
pub(super) fn go_direct(
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
pub(super) fn label_replacement(
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

fn make_file(os: &dyn Os, path: &Path, existing: Existing) -> Result<Arc<dyn OsFile>, FilesError> {
    let presence = match existing {
        Existing::Refuse | Existing::Adopt(_) => Presence::New,
        Existing::Overwrite => Presence::Either,
    };
    match os.open(path, presence) {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(FilesError::Exists(path.to_owned())),
        Err(source) => Err(FilesError::Io { path: path.to_owned(), what: "make it", source }),
    }
}

/// Opens a file; the inner error if it is not there or its device does not answer. Whatever else
/// goes wrong is for the caller to put right: an array must not lose a member over a permission.
fn open_file(os: &dyn Os, path: &Path) -> Result<io::Result<Arc<dyn OsFile>>, FilesError> {
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
pub(super) fn lock(file: &dyn OsFile, path: &Path) -> Result<(), FilesError> {
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
    if existing == Existing::Overwrite { Ok(()) } else { check_nothing(file, config, dev, path) }
}

/// Whether a block device holds nothing that must stay.
fn check_nothing(file: &dyn OsFile, config: &FilesConfig, dev: usize, path: &Path) -> Result<(), FilesError> {
    let capacity = check_size(file, config, dev, path)?;
    // Where tables of partitions, superblocks and their copies are, and where a label would be.
    let looked_at = LOOKED_AT.min(capacity);
    for from in [0, config.label_offset(dev).min(capacity - looked_at), capacity - looked_at] {
        let mut bytes = vec![0; looked_at as usize];
        file.read_exact_at(&mut bytes, from).map_err(FilesError::io(path, "read from it"))?;
        if let Some(at) = bytes.iter().position(|byte| *byte != 0) {
            return Err(FilesError::CarriesData { path: path.to_owned(), at: from + at as u64 });
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
fn length(file: &dyn OsFile, path: &Path) -> Result<u64, FilesError> {
    let length = file.length().map_err(FilesError::io(path, "ask for its size"))?;
    length.ok_or_else(|| FilesError::NotAFile(path.to_owned()))
}

/// Whether a device's file is empty: it was being made, and holds nothing that could be lost. It
/// counts as not there.
fn is_unfinished(file: &dyn OsFile, path: &Path) -> Result<bool, FilesError> {
    Ok(capacity(file, path)?.is_none() && length(file, path)? == 0)
}

/// Bytes of a block device; none if it is something else.
fn capacity(file: &dyn OsFile, path: &Path) -> Result<Option<u64>, FilesError> {
    file.capacity().map_err(FilesError::io(path, "ask for its size"))
}

/// Whether a file is as long as a device's must be, or a block device has room for it; how long it is.
fn check_size(file: &dyn OsFile, config: &FilesConfig, dev: usize, path: &Path) -> Result<u64, FilesError> {
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
fn sync_folders<'a>(
    os: &dyn Os,
    paths: impl IntoIterator<Item = &'a PathBuf>,
    at: SyncPoint,
) -> Result<(), FilesError> {
    let folders: BTreeSet<_> = paths.into_iter().map(|path| folder(path)).collect();
    folders.into_iter().try_for_each(|folder| sync_folder(os, folder, at))
}

/// Makes new files' names durable.
fn sync_folder(os: &dyn Os, folder: &Path, at: SyncPoint) -> Result<(), FilesError> {
    os.sync_folder(folder, at).map_err(FilesError::io(folder, "make its names durable"))
}

/// Which file is which, so that none is used twice.
#[derive(Default)]
struct Identities {
    seen: BTreeMap<Identity, PathBuf>,
}

impl Identities {
    fn add(&mut self, file: &dyn OsFile, path: &Path) -> Result<Identity, FilesError> {
        let identity = identity(file, path)?;
        match self.seen.insert(identity, path.to_owned()) {
            None => Ok(identity),
            Some(other) => Err(FilesError::Same(other, path.to_owned())),
        }
    }
}

/// Which file this is.
pub(super) fn identity(file: &dyn OsFile, path: &Path) -> Result<Identity, FilesError> {
    file.identity().map_err(FilesError::io(path, "ask for its number"))
}
