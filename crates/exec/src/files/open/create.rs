//! Making the files of a new array.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use destage_plan::Condition;

use super::bitmap::{MARK, head, write_marks};
use super::folders::sync_folders;
use super::identify::{FileIdentities, lock, make_file, there};
use super::label::{self, LabelStamp};
use super::nvram_place::{NvramAt, at_home, empty_nvram};
use super::opened::OpenedArray;
use super::prepare::{clear, emptied_bytes, empty, forget, forget_nvram, make_intents, make_nvram};
use super::vacancy::{check_devices, clear_device, clear_ends};
use crate::files::bitmap::WriteIntentBitmap;
use crate::files::config::{ExistingFiles, FilesConfig, MAX_DEVICES};
use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint};
use crate::files::io::metadata::OPEN;
use crate::files::io::os::{OsInterface, PathPresence};
use crate::files::io::sectors;
use crate::files::io::state_file::StateFile;
use crate::files::layout::bad_page_list::BadPageList;
use crate::files::layout::event_count::EventCount;
use crate::files::layout::intents;
use crate::files::layout::journal::{self, ArrayEpoch};
use crate::files::layout::label::ArrayOrigin;
use crate::files::nvram::region::FileRegion;
use crate::files::nvram::store::StateStore;
use crate::nvram::{MemoryNvram, RowSet};

/// Sets the event count of a new array.
const FIRST: EventCount = EventCount::settled(1);

/// Reports how far the block devices of a new array read as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroingProgress<'a> {
    /// Names the device that is made to.
    pub path: &'a Path,
    /// Counts the bytes of all devices that do.
    pub done_bytes: u64,
    /// Counts the bytes that will.
    pub all_bytes: u64,
}

/// Is told how far the block devices of a new array read as zeros. If it breaks off, nothing is made.
pub type ZeroingWatch = Box<dyn FnMut(ZeroingProgress<'_>) -> ControlFlow<()> + Send>;

/// Makes the files of a new array and makes them durable: devices, of zeros where they do not keep what they hold,
/// then the intents, then the NVRAM, without which nothing is opened.
pub(crate) fn create(
    os: &dyn OsInterface,
    config: &FilesConfig,
    existing: ExistingFiles,
    watch: &mut ZeroingWatch,
) -> Result<OpenedArray, FilesError> {
    // Only paths at which a new file is to appear are checked; block devices always
    // exist.
    let new = config.devices.iter().enumerate().filter(|(dev, _)| !existing.keeps(*dev) && !existing.loses(*dev));
    let paths = new.map(|(_, device)| &*device.path).chain([&*config.intents]).chain(config.own_nvram());
    let paths = paths.chain(config.spare());
    if existing != ExistingFiles::Overwrite {
        for path in paths.filter(|path| !os.is_block_device(path)) {
            if os.exists(path).map_err(FilesError::io(path, "look for it"))? {
                return Err(FilesError::Exists(path.to_owned()));
            }
        }
    }
    // All of them before anything is written to one.
    check_devices(os, config, existing)?;
    let mut made = Vec::new();
    let opened = make(os, config, existing, (&mut made, watch));
    // All or nothing: half of an array must not be left to be opened.
    if existing != ExistingFiles::Overwrite && opened.is_err() {
        take_away(os, config, existing, made);
    }
    opened
}

/// Takes away what was made of a new array, all of it.
pub(crate) fn unmake(os: &dyn OsInterface, config: &FilesConfig, existing: ExistingFiles) {
    let new = config.devices.iter().enumerate().filter(|(dev, _)| !existing.keeps(*dev));
    let paths = new.map(|(_, device)| &*device.path).chain([&*config.intents]).chain(config.own_nvram());
    take_away(os, config, existing, paths.filter(|path| !os.is_block_device(path)));
}

/// Removes files of a new array, and what it has on block devices, so that they can be another's. What cannot be removed
/// stays: the error that counts is that for which all is taken away.
fn take_away<'a>(
    os: &dyn OsInterface,
    config: &FilesConfig,
    existing: ExistingFiles,
    files: impl IntoIterator<Item = &'a Path>,
) {
    // The first error counts; failing to remove a file is no second one.
    for path in files {
        drop(os.remove(path));
    }
    let on_device = |path: &Path| {
        let file = if os.is_block_device(path) { there(os, path).ok().flatten() } else { None };
        // A device that somebody else has locked by now is left alone.
        file.filter(|file| lock(&**file, path).is_ok())
    };
    for (dev, device) in config.devices.iter().enumerate() {
        if let Some(file) = on_device(&device.path)
            && label::is_of(&*file, config, dev)
        {
            // What the service has begun with is there as well, where nothing must be.
            let is_new = !existing.keeps(dev);
            let cleared = if is_new { clear_device(&*file, config, dev) } else { Ok(()) };
            drop(cleared.and_then(|()| forget(os, &*file, config, dev)));
        }
    }
    // The header that says that there is an NVRAM is the last one that is written.
    let headers = [0, config.journal_layout().second_header()];
    if let Some(file) = config.own_nvram().and_then(on_device)
        && headers.into_iter().any(|at| sectors::is_of(&*file, at, journal::MAGIC, config.array))
    {
        let cleared = clear_ends(&*file, config).and_then(|()| forget_nvram(&*file, config, 0));
        drop(cleared.and_then(|()| file.sync_all(SyncPoint::CreateEmptied)));
    }
}

/// The paths of files that were opened are appended to `made`.
fn make<'a>(
    os: &dyn OsInterface,
    config: &'a FilesConfig,
    existing: ExistingFiles,
    (made, watch): (&mut Vec<&'a Path>, &mut ZeroingWatch),
) -> Result<OpenedArray, FilesError> {
    let mut files = FileIdentities::default();
    let mut make_file = |path: &'a Path, existing: ExistingFiles| {
        let file = make_file(os, path, existing)?;
        made.push(path);
        Ok::<_, FilesError>(file)
    };
    let mut own = None;
    if let Some(path) = config.own_nvram() {
        let file = if os.is_block_device(path) {
            os.open(path, PathPresence::There).map_err(FilesError::io(path, OPEN))?
        } else {
            make_file(path, existing)?
        };
        let file = FileRegion::whole(file, config, path)?;
        lock(&*file, path)?;
        let identity = files.add(&*file, path)?;
        // An array that is overwritten is none from here on: half of it must not be opened.
        empty_nvram(&*file, path)?;
        own = Some((file, identity));
    }
    // A crash must leave neither the old array nor the new one, but never a
    // mixture.
    if matches!(existing, ExistingFiles::Overwrite | ExistingFiles::GiveUp { .. }) {
        // Nor by what its members have marked: they are none any more before anything of them is changed.
        // The device with the NVRAM first, for the same reason.
        let others = (0..config.devices.len()).filter(|dev| Some(*dev) != config.home());
        for dev in config.home().into_iter().chain(others).filter(|dev| existing.loses(*dev)) {
            let device = &config.devices[dev];
            let Some(file) = there(os, &device.path)? else { continue };
            lock(&*file, &device.path)?;
            forget(os, &*file, config, dev).map_err(FilesError::io(&device.path, "empty it"))?;
        }
    }
    // All of them before one is labelled: that may take long, and is called off then or fails.
    let mut emptied = empty_devices(os, config, existing, watch)?;
    // Drawn at random, so that files of two arrays with one number are told apart.
    let origin = ArrayOrigin { array: config.array, drawn: os.draw() };
    let first = WriteIntentBitmap::new(
        config,
        &head(origin, &[1; MAX_DEVICES], 0, Condition::default()),
        &RowSet::default(),
        1,
    );
    let mut devices = Vec::with_capacity(config.devices.len());
    for (dev, device) in config.devices.iter().enumerate() {
        let new = emptied[dev].take();
        let on_device = new.is_some() || os.is_block_device(&device.path);
        let file = if let Some(file) = new {
            file
        } else if on_device || existing.keeps(dev) {
            os.open(&device.path, PathPresence::There).map_err(FilesError::io(&device.path, OPEN))?
        } else {
            make_file(&device.path, if existing.loses(dev) { ExistingFiles::Overwrite } else { existing })?
        };
        files.add(&*file, &device.path)?;
        lock(&*file, &device.path)?;
        if existing.keeps(dev) {
            if !on_device {
                file.set_len(config.file_bytes(dev)).map_err(FilesError::io(&device.path, "set its size"))?;
            }
        } else if !on_device {
            clear(&*file, &device.path, config.file_bytes(dev))?;
        }
        // The label is written when all else is there: it is what makes the file a
        // device of the array.
        let labelled = label::write(&*file, config, dev, LabelStamp { origin, generation: 1, count: FIRST });
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
    let (none, count) = (RowSet::default(), (0, FIRST, &[1; MAX_DEVICES]));
    let guard = own.as_ref().map_or(&file, |own| &own.0).clone();
    let file = Arc::new(StateFile::new(file));
    let roster_file = Arc::clone(&file);
    let (intents, roster) = make_intents(file, config, origin, &none, count)?;
    let NvramAt { file, identity, home } = match own {
        Some((file, identity)) => NvramAt { file, identity, home: None },
        None => at_home(os, config, &devices)?,
    };
    // The NVRAM's header is the very last thing, since an array is one that has it.
    let nvram = make_nvram(file, config, (ArrayEpoch { drawn: origin.drawn, epoch: 0 }, FIRST.to))?;
    let paths = config.devices.iter().map(|device| &*device.path).chain([&*config.intents, config.nvram_path()]);
    sync_folders(os, paths, SyncPoint::CreateFolder)?;
    let state = [identity, intents_identity];
    let (store, nvram) = (StateStore::new(nvram, intents), MemoryNvram::default());
    Ok(OpenedArray {
        devices,
        store,
        roster,
        roster_file,
        state,
        home,
        spare: None,
        nvram,
        marks: first,
        bad_pages: vec![Some(BadPageList::default()); config.members],
        resynchronised: None,
        damaged: None,
        damaged_nvram: None,
        lock: guard,
    })
}

/// Makes the block devices of a new array read as zeros that do not keep what they hold; returns them, open and locked.
fn empty_devices(
    os: &dyn OsInterface,
    config: &FilesConfig,
    existing: ExistingFiles,
    watch: &mut ZeroingWatch,
) -> Result<Vec<Option<Arc<dyn OsFile>>>, FilesError> {
    let mut devices = Vec::with_capacity(config.devices.len());
    for (dev, device) in config.devices.iter().enumerate() {
        let path = &device.path;
        // Opened and locked at once, before the long zeroing: whoever comes later
        // finds them in use.
        devices.push(if !existing.keeps(dev) && os.is_block_device(path) {
            let file = os.open(path, PathPresence::There).map_err(FilesError::io(path, OPEN))?;
            lock(&*file, path)?;
            Some(file)
        } else {
            None
        });
    }
    let new = devices.iter().enumerate().filter(|(_, file)| file.is_some());
    let all_bytes = new.map(|(dev, _)| emptied_bytes(config, dev)).sum();
    let mut before = 0;
    for (dev, file) in devices.iter().enumerate() {
        let (Some(file), path) = (file, &*config.devices[dev].path) else { continue };
        // The watch may break off. Nothing is labelled by then, so nothing has to
        // be undone.
        let mut told = |bytes| watch(ZeroingProgress { path, done_bytes: before + bytes, all_bytes });
        empty(os, &**file, config, dev, &mut told).map_err(|source| match source.kind() {
            ErrorKind::Interrupted => FilesError::CalledOff(path.to_owned()),
            _ => FilesError::io(path, "make it read as zeros")(source),
        })?;
        before += emptied_bytes(config, dev);
    }
    Ok(devices)
}
