//! The file executor, cut: histories over an operating system in memory that forgets whatever was
//! not made durable. Most of the moments that are kept are starts of their own: what is left is
//! opened by the same code, served a little, now and then cut again, stopped, and looked at.
//!
//! The [`SectorModel`] decides what a host may see, as it does for `MemoryExecutor`. Beyond that a start finds
//! no member lost that was not; it is refused only inside the documented window; after a clean stop
//! rows are consistent, byte by byte, and the next start has nothing to recover.

mod copies;
mod doubt;
mod errors;
mod life;
mod mishaps;
mod small;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use destage_cache::{CacheMedium, HostCacheInfo, ServedTier};
use destage_exec::{
    CrashChance, CrashPoint, DeviceConfig, DeviceOptions, ExecutorFault, ExistingFiles, FileExecutor, FilesConfig,
    IoBackend, NvramPlace, RecordingOs,
};
use destage_plan::{Column, Dev, DevSet, Row};
use destage_raid::RaidLevel;

use crate::asked::AskedRequests;
use crate::caught::caught;
use crate::cell::{PAGE, PAGE_SECTORS};
use crate::model::{SECTOR, SectorModel};
use crate::{ControllerFault, ParityCheck, RandomDraws};
use copies::OldContents;
use doubt::FileDoubt;

pub use small::shrink_files;

/// Commands within which what was begun must end when nothing more goes wrong.
const PATIENCE: u64 = 100_000;

/// Selects how histories of the file executor are run.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilesOptions {
    /// Of this level.
    pub level: Option<RaidLevel>,
    /// A fault of the executor, in what it asks of the operating system.
    pub slip: Option<ExecutorFault>,
    /// A fault of what the executor carries out, or of what passes between it and that.
    pub crooked: Option<ControllerFault>,
    /// Devices are served over a ring, not by workers of their own.
    pub ring: bool,
    /// Much more often something fails, and whatever can: making, opening and replacing, too.
    pub errors: bool,
    /// Ends mostly take the NVRAM and the intents with them, and now and then the cache's device: what the members have
    /// marked is all that is left to go by. A start of caches that may have what is on no member is refused then.
    pub bereft: bool,
    /// Flips a bit of the intents, or of what the NVRAM's header says to be there, now and then before a start, while all
    /// members are there: more rows count as open, or the start is refused over pages that it names.
    pub rots: bool,
    /// Puts older copies of some of the files back before a start now and then: it is refused and goes on when they are
    /// taken away again, or they count as not there.
    pub copies: bool,
    /// Actions that are left out, a bit each; the last bit stands for an older array over which
    /// this one is made. What is left is what it was.
    pub leave_out: u64,
}

impl FilesOptions {
    /// Runs histories as they are drawn, of any level, over threads.
    pub const BY_THREADS: Self = Self {
        level: None,
        slip: None,
        crooked: None,
        ring: false,
        errors: false,
        bereft: false,
        rots: false,
        copies: false,
        leave_out: 0,
    };
}

/// The bit of an older array.
const OLDER: u32 = u64::BITS - 1;

/// Counts the events of histories that found nothing wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilesReport {
    /// Histories.
    pub runs: u64,
    /// Requests answered.
    pub requests: u64,
    /// Losses of power after which the array was opened.
    pub cuts: u64,
    /// Ends of the process alone, likewise.
    pub kills: u64,
    /// Of all these, while the array was being made.
    pub in_creation: u64,
    /// Of all these, after an earlier one of the same history, at depth two or three.
    pub repeated: u64,
    /// Of all these, with NVRAM or intents lost.
    pub bereft: u64,
    /// Of all these, of an array whose NVRAM lies on its cache's device.
    pub at_home: u64,
    /// Counts the lives in which it left that for its spare place.
    pub moves: u64,
    /// Rows that were marked then, and all rows.
    pub marked: u64,
    /// All rows of these.
    pub rows: u64,
    /// Counts the starts before which a bit of the intents was flipped.
    pub rotten: u64,
    /// Counts the starts with older copies that were served, and those that were refused.
    pub copied: [u64; 2],
    /// Starts that were refused, rightly.
    pub refusals: u64,
    /// Operations that were made to fail.
    pub faults: u64,
    /// Of these, after which the executor stopped.
    pub stops: u64,
    /// Devices that failed or hung.
    pub losses: u64,
    /// Devices replaced.
    pub replaced: u64,
    /// Of these, by their own file.
    pub by_its_own: u64,
    /// Of these, by another file of the same name.
    pub in_its_place: u64,
    /// Clean stops.
    pub clean: u64,
}

impl FilesReport {
    /// Adds another report to this one.
    pub const fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.requests += other.requests;
        self.cuts += other.cuts;
        self.kills += other.kills;
        self.in_creation += other.in_creation;
        self.repeated += other.repeated;
        self.rotten += other.rotten;
        self.copied[0] += other.copied[0];
        self.copied[1] += other.copied[1];
        self.refusals += other.refusals;
        self.bereft += other.bereft;
        self.at_home += other.at_home;
        self.moves += other.moves;
        self.marked += other.marked;
        self.rows += other.rows;
        self.faults += other.faults;
        self.stops += other.stops;
        self.losses += other.losses;
        self.replaced += other.replaced;
        self.by_its_own += other.by_its_own;
        self.in_its_place += other.in_its_place;
        self.clean += other.clean;
    }
}

/// A history that must not be.
#[derive(Clone, Debug, thiserror::Error)]
#[error("seed {seed}: {what}{}", lines(log))]
pub struct FilesFailure {
    /// The seed.
    pub seed: u64,
    /// Describes the violation.
    pub what: String,
    /// Cuts and kills of the history until then.
    pub cuts: u64,
    /// Lists the actions that led to it; of lives that were looked at on the way, those of the last one.
    pub log: Vec<String>,
    /// Actions until then.
    pub actions: u32,
}

fn lines(log: &[String]) -> String {
    if log.is_empty() { String::new() } else { format!("\n  {}", log.join("\n  ")) }
}

/// Runs the history of a seed.
pub fn run_files(
    cache: &'static HostCacheInfo,
    seed: u64,
    options: FilesOptions,
) -> Result<FilesReport, Box<FilesFailure>> {
    let mut report = FilesReport { runs: 1, ..FilesReport::default() };
    let diary = Rc::default();
    // A panic is a finding like any other, and is told with the same log.
    let outcome = caught(|| history(cache, seed, options, &diary, &mut report));
    match outcome {
        Ok(Ok(())) => Ok(report),
        Ok(Err(what)) | Err(what) => {
            let (log, actions) = (diary.log.take(), diary.actions.get());
            Err(Box::new(FilesFailure { seed, what, cuts: report.cuts + report.kills, log, actions }))
        }
    }
}

impl CrashChance for RandomDraws {
    fn below(&mut self, n: u64) -> u64 {
        Self::below(self, n)
    }
}

/// Keeps a diary of a history.
#[derive(Debug, Default)]
struct HistoryDiary {
    log: RefCell<Vec<String>>,
    actions: Cell<u32>,
}

impl HistoryDiary {
    fn note(&self, what: impl FnOnce() -> String) {
        self.log.borrow_mut().push(what());
    }

    /// Does what is forgotten again unless it fails.
    fn aside<T>(&self, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let before = self.log.borrow().len();
        let outcome = work();
        if outcome.is_ok() {
            // Work aside that went well would only make the log of a later failure longer.
            self.log.borrow_mut().truncate(before);
        }
        outcome
    }
}

/// Holds the settings that all lives of a history share.
struct HistoryScene {
    cache: &'static HostCacheInfo,
    cell: crate::CrashCell,
    check: ParityCheck,
    seed: u64,
    options: FilesOptions,
    diary: Rc<HistoryDiary>,
    /// The cache's device if the NVRAM lies on it.
    home: Option<Dev>,
    /// Tells that the NVRAM goes elsewhere when that is lost.
    has_spare: bool,
}

/// Names the spare place of an NVRAM.
const SPARE: &str = "/array/spare";

impl HistoryScene {
    fn controller(&self) -> Box<dyn ServedTier> {
        let honest = self.cell.build(self.cache);
        match self.options.crooked {
            Some(crooked) => crooked.around(honest, self.seed),
            None => honest,
        }
    }

    fn config(&self, paths: &[PathBuf]) -> FilesConfig {
        let device = |(path, pages): (&PathBuf, u64)| DeviceConfig {
            path: path.clone(),
            offset: 0,
            pages,
            options: DeviceOptions::default(),
        };
        FilesConfig {
            about: String::new(),
            array: 1,
            shape: self.cell.shape(),
            depth: self.cell.depth,
            devices: paths.iter().zip(self.pages()).map(device).collect(),
            every_write: self.cell.every_write(),
            nvram: self.home.map_or_else(|| "/array/nvram".into(), NvramPlace::Behind),
            spare_nvram: self.has_spare.then(|| SPARE.into()),
            nv_slots: self.cell.nv_slots + self.cell.nv_slots_of(self.cache),
            intents: "/array/intents".into(),
            rows: self.cell.geometry.member_pages(),
            members: self.cell.geometry.members() as usize,
            // Marks of several widths, by the seed alone, so no draw of other choices moves.
            rows_per_mark: [1, 2, 4][(self.seed % 3) as usize],
            idle_marks: [0, 1, 4][(self.seed / 3 % 3) as usize],
            io: if self.options.ring { IoBackend::Ring } else { IoBackend::Threads },
            patience: FilesConfig::PATIENCE,
            // A limit would bring in the clock, and the seed alone is to decide.
            device_timeout: None,
        }
    }

    /// Pages of each device.
    fn pages(&self) -> Vec<u64> {
        let geometry = &self.cell.geometry;
        let members = (0..geometry.members()).map(|_| geometry.member_pages());
        members.chain(self.cache.devices(self.cell.pages_of(self.cache))).collect()
    }

    /// Returns true if the NVRAM or a cache's device may have data that is on no member.
    fn holds_data(&self) -> bool {
        self.cache.holds_dirty || self.cache.medium == CacheMedium::Nvram
    }

    fn members(&self) -> DevSet {
        self.cell.geometry.member_set()
    }

    fn too_many(&self, lost: DevSet) -> bool {
        (lost & self.members()).len() > self.cell.tolerated()
    }
}

fn path(dev: usize, generation: u64) -> PathBuf {
    format!("/array/dev{dev}.{generation}").into()
}

/// A file of a device, whose sectors are the host's; those of an NVRAM behind are its own.
fn prepare(os: &RecordingOs, scene: &HistoryScene, path: &Path, dev: usize) {
    // The device's data has the harness's small sectors. The NVRAM behind its data has sectors of 512 bytes, as in
    // its own file.
    if scene.home.is_some_and(|home| home.index() == dev) {
        let mut config = scene.config(&vec![PathBuf::new(); scene.pages().len()]);
        config.nvram = "/array/nvram".into();
        os.set_sector_before(path, config.file_bytes(dev).next_multiple_of(4096), SECTOR as u64);
    } else {
        os.set_sector(path, SECTOR as u64);
    }
}

/// Holds the state of an array that is known between two lives.
#[derive(Clone)]
struct KnownArray {
    model: SectorModel,
    paths: Vec<PathBuf>,
    /// The number of the last request or end.
    number: u64,
    /// Members that may be lost.
    lost: DevSet,
    /// Devices whose files may be gone or not answer.
    down: DevSet,
    /// Members that their marks may call lost or not filled.
    unfilled: DevSet,
    /// The power may have failed between the loss of a member and the note of it.
    excused: bool,
    /// More is lost than the level can do without.
    broken: bool,
    /// Keeps the data that the loss of a cache device may have cost.
    doubt: FileDoubt,
    /// The NVRAM may be lost with the device that it lies on.
    homeless: bool,
    /// Tells that it lies in its spare place.
    has_moved: bool,
    /// Devices replaced so far.
    generation: u64,
    /// Counts the ends before, in this history.
    depth: u32,
    /// Keeps the contents of all files at an earlier end.
    copies: Option<Rc<OldContents>>,
    /// Tells that some of them are in the place of what was left.
    has_copies: bool,
    /// Tells that a bit of the NVRAM or the intents was flipped before this start.
    rotten: bool,
}

impl KnownArray {
    /// Returns true if every device is there and has what it must have.
    fn is_whole(&self) -> bool {
        let missing = self.lost | self.down | self.unfilled;
        missing.is_empty() && !self.excused && !self.broken && !self.homeless && !self.doubt.lost
    }
}

/// Tells how a life goes on.
enum LifeOutcome {
    /// Tells that it goes on.
    On,
    /// The executor stopped, as it should.
    Stopped,
    /// The start was refused, rightly.
    Refused,
}

struct FileLife<'a> {
    scene: &'a HistoryScene,
    os: RecordingOs,
    files: FileExecutor<Box<dyn ServedTier>>,
    known: KnownArray,
    asked: Vec<AskedRequests>,
    /// Keeps the members whose loss is not noted or flushed, as the harness of `Memory` does.
    ///
    /// The array knows of those in `noted`. Another device stands in the place of each in `swapped`.
    window: DevSet,
    noted: DevSet,
    swapped: DevSet,
    /// Devices whose files do not answer.
    dead: DevSet,
    /// Devices that were dead or replaced at any time of this life.
    touched: DevSet,
    /// Members that might have been lost before the last command, or when the NVRAM was durable the last time.
    before: DevSet,
    /// Devices whose files might not have been theirs then.
    unnamed_before: DevSet,
    unfilled_before: DevSet,
    /// Tells that the NVRAM lay on its device then.
    was_at_home: bool,
    /// Is true if it was starting then.
    was_starting: bool,
    /// An operation was made to fail, and it is not known what became of it.
    faulty: bool,
    dice: RandomDraws,
}

fn history(
    cache: &'static HostCacheInfo,
    seed: u64,
    options: FilesOptions,
    diary: &Rc<HistoryDiary>,
    report: &mut FilesReport,
) -> Result<(), String> {
    let mut dice = RandomDraws::new(seed);
    // Wide arrays are left out: each of the many starts of a history opens and reads every file.
    let mut cell = crate::CrashCell::draw(&mut dice, options.level, None);
    // A journal of few slots comes round within a history.
    cell.nv_slots = cell.nv_slots.min(24);
    cell.mode = crate::CrashCell::mode_of(seed);
    cell.cache_trims = seed % 4 == 2;
    cell.cached_rows = crate::CrashCell::cached_rows_of(seed);
    cell.cutoff = crate::CrashCell::cutoff_of(seed);
    let check = ParityCheck::new(cell.geometry.clone());
    // These come from numbers of their own, so all other choices of a seed stay what they are.
    let mut at_home = RandomDraws::part(seed, u64::MAX - 10);
    let has_device = !cache.devices(cell.pages_of(cache)).is_empty();
    let home = (has_device && at_home.one_in(3)).then(|| Dev(cell.geometry.members()));
    let has_spare = home.is_some() && at_home.one_in(2);
    let scene = HistoryScene { cache, cell, check, seed, options, diary: Rc::clone(diary), home, has_spare };
    let os = RecordingOs::new(move |n| Box::new(RandomDraws::part(seed, n)));
    os.plant(options.slip);
    let paths: Vec<PathBuf> = (0..scene.pages().len()).map(|dev| path(dev, 0)).collect();
    for (dev, path) in paths.iter().enumerate() {
        prepare(&os, &scene, path, dev);
    }
    let model = SectorModel::new(scene.cell.sectors(), PAGE_SECTORS, scene.cell.every_write());
    let (lost, excused, broken, depth) = (DevSet::EMPTY, false, false, 0);
    let doubt = FileDoubt::default();
    let fresh = KnownArray {
        model,
        paths,
        number: 0,
        lost,
        down: lost,
        unfilled: lost,
        excused,
        broken,
        doubt,
        homeless: false,
        has_moved: false,
        generation: 0,
        depth,
        copies: None,
        has_copies: false,
        rotten: false,
    };
    if options.errors {
        errors::fails_to_be_made(&scene, &os, &fresh, report)?;
    }
    let mut life = create(&scene, &os, &fresh, None, &mut dice, report)?;
    let is_left_out = |bit: u32| options.leave_out >> bit & 1 != 0;
    if dice.one_in(6) && !is_left_out(OLDER) {
        // An array made over another one must not find anything of the old one valid.
        for _ in 0..dice.within(1, 12) {
            life.request(report)?;
        }
        let (os, old) = life.stop(report)?;
        life = create(&scene, &os, &fresh, Some(&old), &mut dice, report)?;
    }
    let mut dice = RandomDraws::part(seed, u64::MAX / 2 - 1);
    life.os.keep_moments(dice.pick(&[4, 8, 16]));
    let actions = dice.within(5, 40);
    let mishaps = if options.errors { 2 } else { dice.pick(&[4, 8, 20]) };
    for number in (0..actions).filter(|number| !is_left_out(*number as u32)) {
        // Each action has chance of its own, so it stays the same when others are left out.
        life.dice = RandomDraws::part(seed, u64::MAX / 2 + number);
        diary.actions.set(diary.actions.get() + 1);
        diary.note(|| format!("action {number}"));
        match life.act(mishaps, report)? {
            Some(next) => life = next,
            None => return Ok(()),
        }
    }
    life.dice = RandomDraws::part(seed, u64::MAX / 2 + actions);
    life.os.keep_moments(0);
    life.finish(report)
}

/// Makes an array, perhaps over an older one, and tries what is left at moments of that.
fn create<'a>(
    scene: &'a HistoryScene,
    os: &RecordingOs,
    fresh: &KnownArray,
    old: Option<&KnownArray>,
    dice: &mut RandomDraws,
    report: &mut FilesReport,
) -> Result<FileLife<'a>, String> {
    os.keep_moments(2);
    let existing = if old.is_some() { ExistingFiles::Overwrite } else { ExistingFiles::Refuse };
    let created =
        FileExecutor::create_on(Arc::new(os.clone()), scene.controller(), scene.config(&fresh.paths), existing);
    os.keep_moments(0);
    let files = created.map_err(|error| format!("it cannot be made: {error}"))?;
    for moment in os.take_moments() {
        report.in_creation += 1;
        count(&moment, report);
        let left = &moment.left;
        // Half an array is none: opening it fails, or finds the old array whole, or a complete new one.
        let begin = |known: &KnownArray| {
            let known = KnownArray { depth: 2, lost: scene.members(), broken: true, ..known.clone() };
            FileLife::open(scene, left.end(false), known, dice.clone(), &mut FilesReport::default())
        };
        let as_new = match begin(fresh) {
            // A complete array that nobody finished making is whole for whoever opens it, and must stay so.
            Ok(Some(mut life)) if life.dead.is_empty() => {
                (life.known.broken, life.known.lost) = (false, DevSet::EMPTY);
                life.look(false, &mut FilesReport::default())
            }
            Ok(Some(mut life)) => life.read_all(&mut FilesReport::default()).map(|_| ()),
            Ok(None) | Err(_) => Ok(()),
        };
        if let Err(what) = as_new {
            let as_old = match old.map(begin) {
                Some(Ok(Some(mut life))) => life.read_all(&mut FilesReport::default()).map(|_| ()),
                _ => Err(what.clone()),
            };
            as_old
                .map_err(|as_old| format!("cut while it was made: as a new one, {what}; as the old one, {as_old}"))?;
        }
    }
    let life = FileLife::new(scene, os.clone(), files, fresh.clone(), dice.clone());
    // What was made is there. Both ends of a life: what was made must survive a power failure, and the end of the
    // process.
    for power in [true, true, false] {
        let left = os.end(power);
        let probed = scene.diary.aside(|| life.probe(&CrashPoint { operations: 0, power, left }, report));
        probed.map_err(|what| format!("just made: {what}"))?;
    }
    dice.draw();
    Ok(life)
}

fn count(moment: &CrashPoint, report: &mut FilesReport) {
    if moment.power {
        report.cuts += 1;
    } else {
        report.kills += 1;
    }
}

/// Rows are consistent on the members that can be trusted.
fn check_rows(scene: &HistoryScene, os: &RecordingOs, paths: &[PathBuf], degraded: DevSet) -> Result<(), String> {
    let images: Vec<_> = paths.iter().map(|path| os.content(path)).collect();
    for row in (0..scene.cell.geometry.member_pages()).map(Row) {
        let page = |_: Column, dev: Dev| {
            let image = images[dev.index()].as_deref().filter(|_| !degraded.contains(dev))?;
            image.chunks(PAGE).nth(row.0 as usize)
        };
        scene.check.consistent(row, page).map_err(|what| format!("row {}: {what}", row.0))?;
    }
    Ok(())
}
