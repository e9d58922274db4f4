//! The file executor, cut: histories over an operating system in memory that forgets whatever was
//! not made durable. Most of the moments that are kept are starts of their own: what is left is
//! opened by the same code, served a little, now and then cut again, stopped, and looked at.
//!
//! What a host may see is the [`Model`]'s to say, as it is for `Memory`. Beyond that a start finds
//! no member lost that was not; it is refused only inside the documented window; after a clean stop
//! rows are consistent, byte by byte, and the next start has nothing to recover.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_cache::{HostCacheInfo, Served};
use destage_exec::{
    Chance, Completion, DeviceConfig, DeviceOptions, Existing, Fault, Files, FilesConfig, FilesError, Moment,
    Recording, Survival, SyncPoint,
};
use destage_plan::{Dev, DevSet, HostOp, HostRequest, Refusal, Row, Status};
use destage_raid::Level;

use crate::caught::caught;
use crate::cell::{Cell, PAGE, PAGE_SECTORS};
use crate::model::{Change, Model, SECTOR, sector_bytes};
use crate::{Dice, Parity};

/// Commands within which what was begun must end when nothing more goes wrong.
const PATIENCE: u64 = 100_000;

/// How histories of the file executor are run.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilesOptions {
    /// Of this level.
    pub level: Option<Level>,
    /// A sync that is left out everywhere.
    pub skip: Option<SyncPoint>,
}

/// What happened in histories that found nothing wrong.
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
        self.refusals += other.refusals;
        self.faults += other.faults;
        self.stops += other.stops;
        self.losses += other.losses;
        self.replaced += other.replaced;
        self.clean += other.clean;
    }
}

/// A history that must not be.
#[derive(Clone, Debug, thiserror::Error)]
#[error("seed {seed}: {what}")]
pub struct FilesFailure {
    /// The seed.
    pub seed: u64,
    /// What was violated.
    pub what: String,
    /// Cuts and kills of the history until then.
    pub cuts: u64,
}

/// Runs the history of a seed.
pub fn run_files(
    cache: &'static HostCacheInfo,
    seed: u64,
    options: FilesOptions,
) -> Result<FilesReport, Box<FilesFailure>> {
    let mut report = FilesReport { runs: 1, ..FilesReport::default() };
    let outcome = caught(|| history(cache, seed, options, &mut report));
    match outcome {
        Ok(Ok(())) => Ok(report),
        Ok(Err(what)) | Err(what) => Err(Box::new(FilesFailure { seed, what, cuts: report.cuts + report.kills })),
    }
}

impl Chance for Dice {
    fn below(&mut self, n: u64) -> u64 {
        Self::below(self, n)
    }
}

/// What all lives of a history share.
struct Scene {
    cache: &'static HostCacheInfo,
    cell: Cell,
    check: Parity,
}

impl Scene {
    fn controller(&self) -> Box<dyn Served> {
        self.cell.build(self.cache)
    }

    fn config(&self, paths: &[PathBuf]) -> FilesConfig {
        let device = |(path, pages): (&PathBuf, u64)| DeviceConfig {
            path: path.clone(),
            pages,
            options: DeviceOptions::default(),
        };
        FilesConfig {
            array: 1,
            shape: self.cell.shape(),
            depth: self.cell.depth,
            devices: paths.iter().zip(self.pages()).map(device).collect(),
            nvram: "/array/nvram".into(),
            nv_slots: self.cell.nv_slots + self.cache.nv_slots,
            intents: "/array/intents".into(),
            rows: self.cell.geometry.member_pages(),
        }
    }

    /// Pages of each device.
    fn pages(&self) -> Vec<u64> {
        let geometry = &self.cell.geometry;
        let members = (0..geometry.members()).map(|_| geometry.member_pages());
        members.chain(self.cache.devices(self.cell.cache_pages)).collect()
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

/// A file of a device, whose sectors are the host's.
fn prepare(os: &Recording, path: &Path) {
    os.set_sector(path, SECTOR as u64);
}

/// What is known of an array between two lives.
#[derive(Clone)]
struct Known {
    model: Model,
    paths: Vec<PathBuf>,
    /// The number of the last request or end.
    number: u64,
    /// Members that may be lost.
    lost: DevSet,
    /// Devices whose files may be gone or not answer.
    down: DevSet,
    /// The power may have failed between the loss of a member and the note of it.
    excused: bool,
    /// More is lost than the level can do without.
    broken: bool,
    /// Devices replaced so far.
    generation: u64,
    /// What ended before, in this history.
    depth: u32,
}

struct Asked {
    tag: u64,
    op: HostOp,
    sector: u64,
    sectors: u64,
    fua: bool,
    submitted: u64,
}

impl Asked {
    const fn change(&self) -> Option<Change> {
        match self.op {
            HostOp::Write => Some(Change::Write),
            HostOp::WriteZeroes => Some(Change::Zero),
            HostOp::Discard => Some(Change::Discard),
            HostOp::Read | HostOp::Flush => None,
        }
    }
}

/// How a life goes on.
enum Outcome {
    /// It does.
    On,
    /// The executor stopped, as it should.
    Stopped,
    /// The start was refused, rightly.
    Refused,
}

struct Life<'a> {
    scene: &'a Scene,
    os: Recording,
    files: Files<Box<dyn Served>>,
    known: Known,
    asked: Vec<Asked>,
    /// As in the harness of `Memory`: members whose loss is not noted or flushed, of these those
    /// that the array knows, and those in whose place another stands.
    window: DevSet,
    noted: DevSet,
    swapped: DevSet,
    /// Devices whose files do not answer.
    dead: DevSet,
    /// Devices that were dead or replaced at any time of this life.
    touched: DevSet,
    /// Members that might have been lost before the last command.
    before: DevSet,
    /// An operation was made to fail, and it is not known what became of it.
    faulty: bool,
    dice: Dice,
}

fn history(
    cache: &'static HostCacheInfo,
    seed: u64,
    options: FilesOptions,
    report: &mut FilesReport,
) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let mut cell = Cell::draw(seed, &mut dice, options.level);
    cell.nv_slots = cell.nv_slots.min(24);
    let check = Parity::new(cell.geometry.clone());
    let scene = Scene { cache, cell, check };
    let os = Recording::new(move |n| Box::new(Dice::part(seed, n)));
    os.skip(options.skip);
    let paths: Vec<PathBuf> = (0..scene.pages().len()).map(|dev| path(dev, 0)).collect();
    for path in &paths {
        prepare(&os, path);
    }
    let model = Model::new(scene.cell.sectors(), PAGE_SECTORS, scene.cell.every_write());
    let (lost, excused, broken, depth) = (DevSet::EMPTY, false, false, 0);
    let fresh = Known { model, paths, number: 0, lost, down: lost, excused, broken, generation: 0, depth };
    let mut life = create(&scene, &os, &fresh, None, &mut dice, report)?;
    if dice.one_in(6) {
        // Made anew over what another array left.
        for _ in 0..dice.within(1, 12) {
            life.request(report)?;
        }
        let (os, old) = life.stop(report)?;
        life = create(&scene, &os, &fresh, Some(&old), &mut dice, report)?;
    }
    life.os.keep_moments(dice.pick(&[4, 8, 16]));
    let actions = dice.within(5, 40);
    let mishaps = dice.pick(&[4, 8, 20]);
    for _ in 0..actions {
        match life.act(mishaps, report)? {
            Some(next) => life = next,
            None => return Ok(()),
        }
    }
    life.os.keep_moments(0);
    life.finish(report)
}

/// Makes an array, perhaps over an older one, and tries what is left at moments of that.
fn create<'a>(
    scene: &'a Scene,
    os: &Recording,
    fresh: &Known,
    old: Option<&Known>,
    dice: &mut Dice,
    report: &mut FilesReport,
) -> Result<Life<'a>, String> {
    os.keep_moments(2);
    let existing = if old.is_some() { Existing::Overwrite } else { Existing::Refuse };
    let created = Files::create_on(Arc::new(os.clone()), scene.controller(), scene.config(&fresh.paths), existing);
    os.keep_moments(0);
    let files = created.map_err(|error| format!("it cannot be made: {error}"))?;
    for moment in os.take_moments() {
        report.in_creation += 1;
        count(&moment, report);
        let left = &moment.left;
        // Half an array is none: it is not opened, or it is the old one whole, or a new one.
        let begin = |known: &Known| {
            let known = Known { depth: 2, lost: scene.members(), broken: true, ..known.clone() };
            Life::open(scene, left.end(false), known, dice.clone(), &mut FilesReport::default())
        };
        let as_new = match begin(fresh) {
            // Complete for whoever opens it, and so it stays, though its making never ended.
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
    let life = Life::new(scene, os.clone(), files, fresh.clone(), dice.clone());
    // What was made is there.
    for power in [true, true, false] {
        let left = os.end(power);
        life.probe(&Moment { operations: 0, power, left }, report).map_err(|what| format!("just made: {what}"))?;
    }
    dice.draw();
    Ok(life)
}

fn count(moment: &Moment, report: &mut FilesReport) {
    if moment.power {
        report.cuts += 1;
    } else {
        report.kills += 1;
    }
}

impl<'a> Life<'a> {
    fn new(scene: &'a Scene, os: Recording, files: Files<Box<dyn Served>>, known: Known, dice: Dice) -> Self {
        let down: DevSet = (0..known.paths.len() as u8).map(Dev).filter(|dev| !files.answers(*dev)).collect();
        Self {
            scene,
            os,
            files,
            known,
            asked: Vec::new(),
            window: down & scene.members(),
            noted: DevSet::EMPTY,
            swapped: DevSet::EMPTY,
            dead: down,
            touched: down,
            before: DevSet::EMPTY,
            faulty: false,
            dice,
        }
    }

    /// Opens what an earlier life left; none if that is refused, rightly.
    fn open(
        scene: &'a Scene,
        os: Recording,
        mut known: Known,
        dice: Dice,
        report: &mut FilesReport,
    ) -> Result<Option<Self>, String> {
        known.number += 1;
        let number = known.number;
        known.model.cut(number);
        known.depth += 1;
        let opened = Files::open_on(Arc::new(os.clone()), scene.controller(), scene.config(&known.paths));
        let files = opened.map_err(|error| format!("it cannot be opened: {error}"))?;
        let mut life = Self::new(scene, os, files, known, dice);
        let news = life.dead - life.known.down;
        if !news.is_empty() && !life.known.broken {
            let why: Vec<_> = life.files.errors().map(|(_, error)| error.to_string()).collect();
            return Err(format!("{news:?} do not answer, and did before: {}", why.join("; ")));
        }
        life.known.model.set_may_fail(life.known.broken);
        if life.scene.too_many(life.dead | life.known.lost) && life.scene.too_many(life.dead) {
            life.known.broken = true;
        }
        life.watch();
        if let Status::Refused(why) = life.files.status() {
            life.refused(why)?;
            report.refusals += 1;
            return Ok(None);
        }
        Ok(Some(life))
    }

    fn degraded(&self) -> DevSet {
        self.files.engine().controller().array().degraded()
    }

    /// Members that may be lost after an end now.
    fn may_be_lost(&self) -> DevSet {
        let before = if self.files.status() == Status::Ready { DevSet::EMPTY } else { self.known.lost };
        (before | self.degraded() | self.dead | self.window | self.swapped) & self.scene.members()
    }

    /// What is known when it ends now. Devices whose loss nobody has noted do not come back: who
    /// starts the array knows that they failed, or that others stand in their place.
    fn known(&self, left: &Recording) -> Known {
        let lost = self.may_be_lost() | self.before;
        for dev in (self.window & (self.swapped | self.dead)).iter() {
            left.take_away(&self.known.paths[dev.index()]);
        }
        let broken = self.known.broken && self.scene.too_many(lost);
        let down = self.dead | self.window & self.swapped;
        Known { lost, down, excused: !self.window.is_empty(), broken, ..self.known.clone() }
    }

    /// Opens what is left at a moment, and looks at it.
    fn probe(&self, moment: &Moment, report: &mut FilesReport) -> Result<(), String> {
        count(moment, report);
        report.repeated += u64::from(self.known.depth > 0);
        let known = self.known(&moment.left);
        let mut dice = Dice::new(moment.operations ^ self.dice.clone().draw());
        let when = || {
            let end = if moment.power { "the power failed" } else { "the process ended" };
            format!("{end} after operation {} of life {}: ", moment.operations, self.known.depth)
        };
        let again = self.known.depth < 2 && dice.one_in(6);
        let opened = Self::open(self.scene, moment.left.clone(), known, dice, report);
        let Some(life) = opened.map_err(|what| when() + &what)? else { return Ok(()) };
        if again {
            life.os.keep_moments(12);
        }
        life.look(again, report).map_err(|what| when() + &what)
    }

    /// Whether it is as it must be after a start.
    fn look(mut self, work: bool, report: &mut FilesReport) -> Result<(), String> {
        if matches!(self.ready(report)?, Outcome::Refused) {
            return Ok(());
        }
        if work {
            for _ in 0..self.dice.within(1, 5) {
                self.request(report)?;
            }
        }
        if let Outcome::Refused = self.read_all(report)? {
            return Ok(());
        }
        self.os.keep_moments(0);
        self.finish(report)
    }

    /// Waits until the array is recovered.
    fn ready(&mut self, report: &mut FilesReport) -> Result<Outcome, String> {
        let mut patience = PATIENCE;
        while self.files.status() == Status::Starting {
            patience = patience.checked_sub(1).ok_or("the controller does not become ready")?;
            if !matches!(self.step(report)?, Outcome::On) {
                return Ok(Outcome::Refused);
            }
        }
        let news = self.degraded() - self.known.lost - self.touched;
        if !news.is_empty() && !self.known.broken {
            return Err(format!("members {news:?} are lost, and were not before"));
        }
        Ok(Outcome::On)
    }

    fn refused(&self, why: Refusal) -> Result<(), String> {
        let allowed = match why {
            Refusal::MembersLost { .. } => self.known.broken || self.scene.too_many(self.known.lost | self.dead),
            Refusal::WriteHole { .. } => self.known.excused || !self.window.is_empty(),
            Refusal::Nvram => false,
        };
        let lost = self.known.lost;
        if allowed { Ok(()) } else { Err(format!("the start is refused: {why:?}; members {lost:?} may be lost")) }
    }

    /// As in the harness of `Memory`.
    fn watch(&mut self) {
        let failed: DevSet =
            (0..self.known.paths.len() as u8).map(Dev).filter(|dev| !self.files.answers(*dev)).collect();
        if self.faulty && !(failed - self.dead).is_empty() {
            // It was the operation that was to fail.
            let lost = failed - self.dead;
            self.dead |= lost;
            self.touched |= lost;
            self.window |= lost & self.scene.members();
            self.noted -= lost;
            self.faulty = false;
            self.break_if_too_many();
        }
        let unannounced = self.dead - failed;
        let (degraded, exposed) = (self.degraded(), self.files.engine().controller().array().is_exposed());
        self.noted |= (self.window & degraded) - unannounced;
        if self.files.status() == Status::Ready && self.noted.contains_all(self.window) && !exposed {
            (self.window, self.noted, self.swapped) = (DevSet::EMPTY, DevSet::EMPTY, DevSet::EMPTY);
        }
    }

    fn break_if_too_many(&mut self) {
        if self.scene.too_many(self.may_be_lost()) {
            self.known.broken = true;
            self.known.model.set_may_fail(true);
        }
    }

    /// One command is carried out. The moments in it precede what it leads to.
    fn step(&mut self, report: &mut FilesReport) -> Result<Outcome, String> {
        self.before = self.may_be_lost();
        let polled = self.files.poll();
        self.took(report)?;
        let first = match polled {
            Ok(first) => first,
            Err(error) => return self.stopped(&error, report),
        };
        self.watch();
        if let Status::Refused(why) = self.files.status() {
            self.refused(why)?;
            report.refusals += 1;
            return Ok(Outcome::Refused);
        }
        for completion in
            first.into_iter().chain(std::iter::from_fn(|| self.files.next_completion())).collect::<Vec<_>>()
        {
            self.answered(&completion, report)?;
        }
        Ok(Outcome::On)
    }

    /// Looks at the moments that were kept.
    fn took(&mut self, report: &mut FilesReport) -> Result<(), String> {
        for moment in self.os.take_moments() {
            self.dice.draw();
            self.probe(&moment, report)?;
        }
        Ok(())
    }

    /// The executor stops only if it is refused, or over an operation that was made to fail, and
    /// then it names the file.
    fn stopped(&mut self, error: &FilesError, report: &mut FilesReport) -> Result<Outcome, String> {
        match error {
            FilesError::Refused(why) => {
                self.refused(*why)?;
                report.refusals += 1;
                Ok(Outcome::Refused)
            }
            FilesError::Io { path, .. } if self.faulty => {
                report.stops += 1;
                let config = self.scene.config(&self.known.paths);
                let all = self.known.paths.iter().chain([&config.nvram, &config.intents]);
                if !all.clone().any(|one| one == path) {
                    return Err(format!("stopped over {}, which is none of its files", path.display()));
                }
                if !matches!(self.files.poll(), Err(FilesError::Stopped)) {
                    return Err("it goes on after it stopped".to_owned());
                }
                Ok(Outcome::Stopped)
            }
            other => Err(format!("stopped: {other}")),
        }
    }

    fn answered(&mut self, completion: &Completion, report: &mut FilesReport) -> Result<(), String> {
        let (tag, ok) = (completion.tag, completion.ok);
        let at = self.asked.iter().position(|asked| asked.tag == tag);
        let asked = self.asked.swap_remove(at.ok_or_else(|| format!("request {tag} is answered, and was not asked"))?);
        report.requests += 1;
        if !ok && !self.known.broken {
            return Err(format!(
                "request {tag} ({:?}) is answered as failed, though no more than {} members are lost: {:?}; files that do \
                 not answer: {:?}; faulty {}, window {:?}, known {:?}, errors {:?}",
                asked.op,
                self.scene.cell.tolerated(),
                self.degraded(),
                self.dead,
                self.faulty,
                self.window,
                self.known.lost,
                self.files.errors().map(|(dev, error)| format!("{dev}: {error}")).collect::<Vec<_>>()
            ));
        }
        let model = &mut self.known.model;
        if let Some(change) = asked.change() {
            model.changed(tag, change, asked.sector, asked.sectors, ok, asked.fua);
        } else if asked.op == HostOp::Flush {
            if ok {
                model.flushed(asked.submitted);
            }
        } else if !ok {
            model.read_fails();
        } else {
            model
                .read(asked.submitted, asked.sector, &completion.bytes)
                .map_err(|wrong| format!("request {tag}: {wrong}"))?;
        }
        Ok(())
    }

    /// A request of any kind.
    fn request(&mut self, report: &mut FilesReport) -> Result<Outcome, String> {
        let (cell, dice) = (&self.scene.cell, &mut self.dice);
        let op = match dice.below(20) {
            0..=3 => HostOp::Read,
            4..=6 => HostOp::Flush,
            7 => HostOp::Discard,
            8 => HostOp::WriteZeroes,
            _ => HostOp::Write,
        };
        let all = cell.sectors();
        let (sector, sectors) = match dice.below(4) {
            0 => {
                let sector = dice.below(all);
                (sector, dice.within(1, PAGE_SECTORS))
            }
            // Pages, mostly near the beginning.
            1 | 2 => (dice.below((all / PAGE_SECTORS).min(8)) * PAGE_SECTORS, dice.within(1, 3) * PAGE_SECTORS),
            _ => {
                let sector = dice.below(all);
                (sector, dice.within(1, 24))
            }
        };
        let fua = op == HostOp::Write && dice.one_in(5);
        self.ask(op, sector, sectors.min(all - sector), fua, report)
    }

    fn ask(
        &mut self,
        op: HostOp,
        sector: u64,
        sectors: u64,
        fua: bool,
        report: &mut FilesReport,
    ) -> Result<Outcome, String> {
        let mut patience = PATIENCE;
        while self.asked.len() >= 8 {
            patience = patience.checked_sub(1).ok_or("a request is not answered")?;
            let outcome = self.step(report)?;
            if !matches!(outcome, Outcome::On) {
                return Ok(outcome);
            }
        }
        self.known.number += 1;
        let tag = self.known.number;
        let mut asked = Asked { tag, op, sector, sectors, fua, submitted: 0 };
        let mut data = Vec::new();
        if op == HostOp::Write {
            data.extend((0..sectors).flat_map(|index| sector_bytes(tag << 16 | index, sector + index)));
        }
        let model = &mut self.known.model;
        if let Some(change) = asked.change() {
            model.change(tag, change, sector, sectors);
        }
        asked.submitted = if op == HostOp::Read { model.read_begins() } else { model.tick() };
        self.asked.push(asked);
        let (offset, len) =
            if op == HostOp::Flush { (0, 0) } else { (sector * SECTOR as u64, sectors * SECTOR as u64) };
        match self.files.submit(HostRequest { tag, op, offset, len, fua }, data) {
            Ok(()) => Ok(Outcome::On),
            Err(error) => self.stopped(&error, report),
        }
    }

    /// Lets everything come to rest.
    fn drain(&mut self, report: &mut FilesReport) -> Result<Outcome, String> {
        let mut patience = PATIENCE;
        loop {
            let outcome = self.step(report)?;
            let done = self.files.is_idle() && self.files.status() == Status::Ready;
            if done || !matches!(outcome, Outcome::On) {
                return Ok(outcome);
            }
            patience = patience.checked_sub(1).ok_or("work does not end")?;
        }
    }

    fn read_all(&mut self, report: &mut FilesReport) -> Result<Outcome, String> {
        let outcome = self.ask(HostOp::Read, 0, self.scene.cell.sectors(), false, report)?;
        if !matches!(outcome, Outcome::On) {
            return Ok(outcome);
        }
        let mut patience = PATIENCE;
        while !self.asked.is_empty() {
            patience = patience.checked_sub(1).ok_or("a read is not answered")?;
            let outcome = self.step(report)?;
            if !matches!(outcome, Outcome::On) {
                return Ok(outcome);
            }
        }
        Ok(Outcome::On)
    }

    /// Something happens. The life that goes on; none if the history ends here.
    fn act(mut self, mishaps: u64, report: &mut FilesReport) -> Result<Option<Self>, String> {
        let outcome = if self.dice.one_in(mishaps) {
            match self.dice.below(8) {
                0 | 1 => return self.end(report),
                2 => {
                    if matches!(self.ready(report)?, Outcome::Refused) {
                        return Ok(None);
                    }
                    let (scene, dice) = (self.scene, self.dice.clone());
                    let (os, known) = self.stop(report)?;
                    return Self::open(scene, os, known, dice, report);
                }
                3 | 4 => {
                    self.fault(report);
                    Outcome::On
                }
                5 | 6 => self.lose(report)?,
                _ => self.replace(report)?,
            }
        } else {
            match self.dice.below(6) {
                0 => self.drain(report)?,
                1 => {
                    let mut outcome = Outcome::On;
                    for _ in 0..self.dice.within(1, 20) {
                        outcome = self.step(report)?;
                        if !matches!(outcome, Outcome::On) {
                            break;
                        }
                    }
                    outcome
                }
                _ => self.request(report)?,
            }
        };
        match outcome {
            Outcome::On => Ok(Some(self)),
            Outcome::Refused => Ok(None),
            Outcome::Stopped => self.end(report),
        }
    }

    /// The power fails, or the process ends, and the array is opened again.
    fn end(mut self, report: &mut FilesReport) -> Result<Option<Self>, String> {
        let power = self.dice.one_in(2);
        let left = self.os.end(power);
        let mut known = self.known(&left);
        known.depth = 0;
        count(&Moment { operations: 0, power, left: left.clone() }, report);
        if self.dice.one_in(4) {
            // Opening itself is cut short by an error, and tried again.
            match self.dice.below(4) {
                0 => left.fail_after(self.dice.below(24), Fault::Broken),
                1 => left.fail_sync(SyncPoint::OpenNvram, Fault::Broken),
                2 => left.fail_sync(SyncPoint::OpenIntents, Fault::Broken),
                _ => left.fail_sync(SyncPoint::OpenDevice, Fault::Broken),
            }
            report.faults += 1;
            let opened =
                Files::open_on(Arc::new(left.clone()), self.scene.controller(), self.scene.config(&known.paths));
            match opened {
                Err(FilesError::Io { .. }) => {}
                Err(other) => return Err(format!("it cannot be opened: {other}")),
                // Who starts the array sees what failed; if that is too much, it is not the question.
                Ok(files) => {
                    let down = (0..known.paths.len() as u8).map(Dev).filter(|dev| !files.answers(*dev));
                    for dev in down {
                        known.lost.insert(dev);
                        known.down.insert(dev);
                        known.excused = true;
                        left.take_away(&known.paths[dev.index()]);
                    }
                    known.lost = known.lost & self.scene.members();
                    known.broken |= self.scene.too_many(known.lost);
                }
            }
            left.take_fault();
        }
        left.keep_moments(8);
        let mut life = Self::open(self.scene, left, known, self.dice.clone(), report)?;
        if let Some(life) = &mut life {
            life.known.depth = 0;
        }
        Ok(life)
    }

    /// One of the coming operations fails.
    fn fault(&mut self, report: &mut FilesReport) {
        let fault = if self.dice.one_in(2) { Fault::Broken } else { Fault::NoRoom };
        let lost = self.may_be_lost();
        if self.faulty || !(lost & self.scene.members()).is_empty() && !self.dice.one_in(10) {
            return;
        }
        report.faults += 1;
        self.faulty = true;
        if self.dice.one_in(2) {
            self.os.fail_after(self.dice.below(12), fault);
        } else {
            let points = [SyncPoint::Flush, SyncPoint::Flush, SyncPoint::Fua, SyncPoint::Put, SyncPoint::Intents];
            self.os.fail_sync(self.dice.pick(&points), fault);
        }
    }

    /// A device breaks, or hangs until it is replaced.
    fn lose(&mut self, report: &mut FilesReport) -> Result<Outcome, String> {
        let dev = Dev(self.dice.below(self.known.paths.len() as u64) as u8);
        let lost = self.may_be_lost() | DevSet::one(dev);
        if self.faulty || self.dead.contains(dev) || self.scene.too_many(lost) {
            return Ok(Outcome::On);
        }
        report.losses += 1;
        let hangs = self.dice.one_in(3);
        let path = self.known.paths[dev.index()].clone();
        if hangs {
            self.os.set_hangs(&path, true);
            for _ in 0..self.dice.within(1, 12) {
                let outcome = self.step(report)?;
                if !matches!(outcome, Outcome::On) {
                    return Ok(outcome);
                }
            }
            return self.replace_by(dev, report);
        }
        self.os.set_broken(&path, true);
        self.dead.insert(dev);
        self.touched.insert(dev);
        if self.scene.members().contains(dev) {
            self.window.insert(dev);
            self.noted.remove(dev);
        }
        Ok(Outcome::On)
    }

    /// A lost device is replaced, if there is one.
    fn replace(&mut self, report: &mut FilesReport) -> Result<Outcome, String> {
        let lost = self.degraded() | self.dead;
        match lost.lowest() {
            Some(dev) if !self.faulty => self.replace_by(dev, report),
            _ => Ok(Outcome::On),
        }
    }

    fn replace_by(&mut self, dev: Dev, report: &mut FilesReport) -> Result<Outcome, String> {
        report.replaced += 1;
        self.known.generation += 1;
        let new = path(dev.index(), self.known.generation);
        prepare(&self.os, &new);
        if self.dice.one_in(2) {
            let len = self.scene.pages()[dev.index()] as usize * PAGE;
            let garbage = self.dice.draw().to_le_bytes();
            self.os.put(&new, garbage.iter().copied().cycle().take(len).collect());
        }
        if self.scene.members().contains(dev) {
            self.window.insert(dev);
            self.noted.remove(dev);
        }
        self.dead.insert(dev);
        self.touched.insert(dev);
        let replaced = self.files.replace(dev, &new);
        // Until it is replaced the old file is the array's, and does not answer.
        self.took(report)?;
        if let Err(error) = replaced {
            return Err(format!("{dev} cannot be replaced: {error}"));
        }
        self.known.paths[dev.index()] = new;
        self.dead.remove(dev);
        if self.scene.members().contains(dev) {
            self.swapped.insert(dev);
        }
        self.watch();
        Ok(Outcome::On)
    }

    /// Stops cleanly, which is a flush, and leaves nothing to recover.
    fn stop(mut self, report: &mut FilesReport) -> Result<(Recording, Known), String> {
        let outcome = self.drain(report)?;
        if !matches!(outcome, Outcome::On) || self.faulty || self.known.broken {
            // What stops it is not the question; the process ends here.
            self.os.take_fault();
            let left = self.os.end(false);
            let known = self.known(&left);
            return Ok((left, Known { depth: 0, ..known }));
        }
        self.os.keep_moments(6);
        let scene = self.scene;
        // What a moment of the stop is compared with is what is known now.
        let (lost, excused, degraded) = (self.may_be_lost(), !self.window.is_empty(), self.degraded());
        let strangers = self.window & (self.swapped | self.dead);
        let Self { os, files, known, dead, dice, .. } = self;
        let stopped = files.stop_clean();
        os.keep_moments(0);
        report.clean += 1;
        let completions = stopped.map_err(|error| format!("it does not stop: {error}"))?;
        if let Some(completion) = completions.first() {
            return Err(format!("request {} is answered by the stop", completion.tag));
        }
        let mut known = Known { lost: lost | degraded, down: dead | strangers, excused, ..known };
        let paths = known.paths.clone();
        let take_away = |left: &Recording| strangers.iter().for_each(|dev| left.take_away(&paths[dev.index()]));
        for moment in os.take_moments() {
            count(&moment, report);
            take_away(&moment.left);
            let opened = Self::open(scene, moment.left, known.clone(), dice.clone(), report);
            let opened = opened.map_err(|what| format!("cut while it stopped: {what}"))?;
            if let Some(life) = opened {
                let known = Known { depth: 3, ..life.known.clone() };
                Life { known, ..life }.look(false, report).map_err(|what| format!("cut while it stopped: {what}"))?;
            }
        }
        let tick = known.model.tick();
        known.model.flushed(tick);
        check_rows(scene, &os, &known.paths, degraded | dead)?;
        let left = os.cut(Survival::Nothing);
        take_away(&left);
        report.cuts += 1;
        known.depth = 0;
        Ok((left, known))
    }

    /// Nothing more goes wrong: it comes to rest, stops, and has nothing to recover afterwards.
    fn finish(mut self, report: &mut FilesReport) -> Result<(), String> {
        if matches!(self.ready(report)?, Outcome::Refused) || self.os.take_fault() || self.faulty {
            return Ok(());
        }
        if self.known.broken {
            return Ok(());
        }
        let scene = self.scene;
        let dice = self.dice.clone();
        let (os, known) = self.stop(report)?;
        let depth = known.depth;
        let opened = Self::open(scene, os, Known { depth: depth.max(2), ..known }, dice, report);
        let Some(mut life) = opened.map_err(|what| format!("after a clean stop: {what}"))? else {
            return Err("it is refused after a clean stop".to_owned());
        };
        let recovered = life.files.engine().controller().array().stats().recovered_rows;
        if life.dead.is_empty() && (life.files.status() != Status::Ready || recovered > 0) {
            return Err(format!("{recovered} rows are recovered after a clean stop"));
        }
        if matches!(life.ready(report)?, Outcome::Refused) {
            return Err("it is refused after a clean stop".to_owned());
        }
        life.read_all(report).map_err(|what| format!("after a clean stop: {what}")).map(|_| ())
    }
}

/// Rows are consistent on the members that can be trusted.
fn check_rows(scene: &Scene, os: &Recording, paths: &[PathBuf], degraded: DevSet) -> Result<(), String> {
    let images: Vec<_> = paths.iter().map(|path| os.content(path)).collect();
    for row in (0..scene.cell.geometry.member_pages()).map(Row) {
        let page = |dev: Dev| images[dev.index()].as_deref().and_then(|image| image.chunks(PAGE).nth(row.0 as usize));
        scene.check.consistent(row, degraded, page).map_err(|what| format!("row {}: {what}", row.0))?;
    }
    Ok(())
}
