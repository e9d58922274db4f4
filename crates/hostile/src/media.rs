//! The files of an array that is served, of which anything can have become of: devices with their labels and marks, the
//! NVRAM's journal, and the intents.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use destage_cache::{HostCacheSpec, ServedTier, host_caches};
use destage_exec::{
    AcceptedLosses, BadBytes, CrashChance, DeviceConfig, DeviceOptions, ExistingFiles, FileExecutor, FilesConfig,
    FilesError, IoBackend, OsInterface, PathPresence, RecordingOs,
};
use destage_plan::{Controller, Dev, HostOp, HostRequest, Shape};
use destage_raid::array::{ArrayConfig, DurabilityMode};
use destage_raid::{Geometry, RaidLevel};

use crate::bytes::Bytes;

/// Leaves room for a list of bad pages beside an event count.
const PAGE: u64 = 1024;
const SECTOR: usize = 512;
const MEMBERS: u8 = 3;
const MEMBER_PAGES: u64 = 32;
const CACHE_PAGES: u64 = 32;
/// Begins lists of bad pages.
const LIST: &[u8] = b"dstgBADP";
/// Names the members, the cache's device, the NVRAM and the intents.
const FILES: [&str; 6] = ["/array/dev0", "/array/dev1", "/array/dev2", "/array/dev3", "/array/nvram", "/array/intents"];

/// Always the first.
struct First;

impl CrashChance for First {
    fn below(&mut self, _n: u64) -> u64 {
        0
    }
}

fn system() -> RecordingOs {
    RecordingOs::new(|_| Box::new(First))
}

struct Array {
    spec: HostCacheSpec,
    config: ArrayConfig,
    files: FilesConfig,
    /// Holds the content of each file that there is.
    content: Vec<(usize, Vec<u8>)>,
}

impl Array {
    fn new(cache: &str) -> Self {
        let info = host_caches().find(|info| info.name == cache).expect("a cache of this name");
        let spec = HostCacheSpec::small(info, CACHE_PAGES, 0, false, 0);
        let layout = RaidLevel::Raid5.default_layout();
        let geometry =
            Geometry::new(RaidLevel::Raid5, layout, MEMBERS.into(), 4, MEMBER_PAGES).expect("a shape that can be");
        let mut array = ArrayConfig::new(geometry);
        (array.nv_slots, array.page_bytes, array.regime) = (24, PAGE as u32, DurabilityMode::Flush);
        let pages = [MEMBER_PAGES; MEMBERS as usize].into_iter().chain(info.devices(CACHE_PAGES));
        let devices = pages.zip(FILES).map(|(pages, path)| {
            let options = DeviceOptions::default();
            DeviceConfig { path: path.into(), offset: 0, pages, options }
        });
        let files = FilesConfig {
            about: "what it is".to_owned(),
            array: 7,
            shape: Shape::new(PAGE, 64, 8, 8, array.geometry.data_pages()).expect("a shape that can be"),
            depth: 4,
            devices: devices.collect(),
            every_write: false,
            nvram: FILES[4].into(),
            spare_nvram: None,
            nv_slots: array.nv_slots + spec.nv_slots(CACHE_PAGES, &array),
            intents: FILES[5].into(),
            rows: MEMBER_PAGES,
            members: MEMBERS.into(),
            rows_per_mark: 4,
            idle_marks: 1,
            io: IoBackend::Threads,
            patience: Duration::from_secs(1),
            device_timeout: None,
        };
        let mut made = Self { spec, config: array, files, content: Vec::new() };
        made.fill();
        made
    }

    fn controller(&self) -> Box<dyn ServedTier> {
        self.spec.build(&self.config, CACHE_PAGES).expect("an array that can be")
    }

    /// Serves it for a while, and lets it end in the middle.
    fn fill(&mut self) {
        let os = system();
        let system = Arc::new(os.clone());
        let files = FileExecutor::create_on(system, self.controller(), self.files.clone(), ExistingFiles::Refuse);
        let mut files = files.expect("a new array");
        // A member lists a page that it cannot keep, so its list of bad pages is among the bytes that change.
        let geometry = &self.config.geometry;
        let on_first = |page: &u64| {
            let place = geometry.locate(*page);
            geometry.device(place.stripe, place.column) == Dev(0)
        };
        let page = (16..geometry.data_pages()).find(on_first).expect("a page of data on the first member");
        let place = geometry.locate(page);
        let at = geometry.row(place.stripe, place.row_in_chunk).0 * PAGE;
        os.spoil(Path::new(FILES[0]), at..at + 64, BadBytes::Unreadable);
        serve(&mut files, HostRequest { tag: page, op: HostOp::Read, offset: page * PAGE, len: PAGE, fua: false })
            .expect("it is served");
        files.settle().expect("it comes to rest");
        for page in (0..8).chain(2..6) {
            serve(&mut files, HostRequest { tag: page, op: HostOp::Write, offset: page * PAGE, len: PAGE, fua: true })
                .expect("it is served");
        }
        drop(files);
        // The process ends in the middle: intents are open and the journal is in use.
        let left = os.end(false);
        for (number, path) in FILES.iter().enumerate() {
            if let Some(bytes) = left.content(Path::new(path)) {
                self.content.push((number, bytes));
            }
        }
        let (_, member) = &self.content[0];
        assert!(member.windows(8).any(|bytes| bytes == LIST), "it has a list of bad pages");
    }
}

fn serve<C: Controller>(files: &mut FileExecutor<C>, request: HostRequest) -> Result<bool, FilesError> {
    let data = vec![request.tag as u8; if request.op == HostOp::Write { request.len as usize } else { 0 }];
    files.submit(request, data)?;
    Ok(files.wait()?.is_some_and(|completion| completion.ok))
}

/// Takes a cache, and changes of the files of an array with it.
///
/// For each change the input gives the file, the checksum that is put right, the place and the bytes. The array is
/// refused, naming a file or the reason, or it is served.
pub(crate) fn check(bytes: &[u8]) {
    static ARRAYS: LazyLock<Vec<Array>> =
        LazyLock::new(|| ["none", "write-back", "leavo", "kdd", "stow", "lawc"].into_iter().map(Array::new).collect());
    let mut input = Bytes::new(bytes);
    let array = &ARRAYS[usize::from(input.u8()) % ARRAYS.len()];
    let mut content = array.content.clone();
    while !input.is_empty() {
        let (how, file) = (input.u8(), usize::from(input.u8()) % content.len());
        change(how, &mut content[file].1, &mut input);
    }
    let os = system();
    for (number, bytes) in content {
        let file = os.open(Path::new(FILES[number]), PathPresence::New).expect("a new file");
        file.write_all_at(&bytes, 0).expect("room");
    }
    let accepted = AcceptedLosses { data: true, notes: true };
    // Losses are accepted, so more inputs get past the start to what is served.
    let opened = FileExecutor::resynchronise_on(Arc::new(os), array.controller(), array.files.clone(), accepted);
    if let Err(error) = opened.map_err(|error| error.to_string()).and_then(|mut files| used(&mut files)) {
        assert!(!error.is_empty());
    }
}

/// Reads and writes all of an array.
fn used(files: &mut FileExecutor<Box<dyn ServedTier>>) -> Result<(), String> {
    let pages = 2 * MEMBER_PAGES;
    // Damage that a start has not seen comes up as pages are read, and once more after they are written.
    for op in [HostOp::Read, HostOp::Write, HostOp::Read] {
        for page in 0..pages {
            let request = HostRequest { tag: page, op, offset: page * PAGE, len: PAGE, fua: false };
            serve(files, request).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Puts bytes somewhere, and puts right what covers them: nothing, the sum of the sector, that of the table of a record of
/// the journal which begins in it, or that of a list of bad pages. Or cuts the file there.
fn change(how: u8, file: &mut Vec<u8>, input: &mut Bytes<'_>) {
    if file.is_empty() {
        return;
    }
    // Few sectors hold anything, and a change of zeros is nearly always found to be one.
    let said: Vec<usize> = (0..file.len() / SECTOR).filter(|at| file[at * SECTOR..][..SECTOR] != [0; SECTOR]).collect();
    let sector = match how >> 3 & 3 {
        0 | 1 if !said.is_empty() => said[usize::from(input.u8()) % said.len()],
        2 if !said.is_empty() => said[said.len() - 1 - usize::from(input.u8()) % said.len()],
        _ => usize::from(input.u16()) % file.len().div_ceil(SECTOR),
    };
    let at = (sector * SECTOR + usize::from(input.u16()) % SECTOR).min(file.len() - 1);
    if how & 7 == 7 {
        return file.truncate(at);
    }
    let count = 1 + usize::from(how >> 5);
    file[at..].iter_mut().take(count).for_each(|byte| *byte = input.u8());
    let sector = &mut file[sector * SECTOR..];
    // Without the right checksum only the check of it would be tried.
    match how & 7 {
        1 | 2 if sector.len() >= SECTOR => {
            let sum = crc32c::crc32c(&sector[..508]);
            sector[508..512].copy_from_slice(&sum.to_le_bytes());
        }
        3..=5 if sector.len() >= SECTOR => {
            let number = |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().expect("four bytes")) as usize;
            let table = number(56).saturating_mul(40).saturating_add(number(60).saturating_mul(8));
            let end = table.saturating_add(88).min(sector.len());
            let sum = crc32c::crc32c(&sector[8..end]);
            sector[4..8].copy_from_slice(&sum.to_le_bytes());
        }
        6 if sector.len() >= SECTOR && sector.starts_with(LIST) => {
            let sum = crc32c::crc32c_append(crc32c::crc32c(&sector[..44]), &sector[48..PAGE as usize - SECTOR]);
            sector[44..48].copy_from_slice(&sum.to_le_bytes());
        }
        _ => {}
    }
}
