//! A life of an array in files: opened, served, watched, its answers held against the model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_cache::ServedTier;
use destage_exec::{
    AcceptedLosses, CrashPoint, FileExecutor, FilesConfig, FilesError, NvramPlace, RecordingOs, RequestCompletion,
};
use destage_plan::{Dev, DevSet, HostOp, HostRequest, Refusal, Status};

use super::{FileLife, FilesReport, HistoryScene, KnownArray, LifeOutcome, PATIENCE, SPARE, count, path};
use crate::RandomDraws;
use crate::asked::AskedRequests;
use crate::cell::PAGE_SECTORS;
use crate::model::{SECTOR, sector_bytes};

/// Sets the bytes of a sector of the files, whose headers are one.
const FILE_SECTOR: u64 = 512;

/// Takes away what may be lost beside the members.
fn bereave(scene: &HistoryScene, left: &RecordingOs, known: &KnownArray, dice: &mut RandomDraws) {
    let mut config = scene.config(&known.paths);
    if known.has_moved {
        config.nvram = NvramPlace::Own(SPARE.into());
    }
    // The NVRAM may have moved by then or not, so both places are taken away.
    let lose_nvram = || {
        left.take_away(config.nvram_path());
        if scene.has_spare {
            left.take_away(Path::new(SPARE));
        }
    };
    match dice.below(5) {
        0 => lose_nvram(),
        1 => left.take_away(&config.intents),
        2 | 3 => {
            lose_nvram();
            left.take_away(&config.intents);
        }
        _ => return,
    }
    // One fast device often holds cache and NVRAM, so both may go together.
    if dice.one_in(3) {
        known.paths[config.members..].iter().for_each(|path| left.take_away(path));
    }
}

impl KnownArray {
    /// A start has found NVRAM or intents lost: nobody knows any more what lost members held in rows that are marked, and
    /// how far a member was filled; a cache's device may be gone.
    fn bereave(&mut self, scene: &HistoryScene) {
        let caches = (0..self.paths.len() as u8).map(Dev).collect::<DevSet>() - scene.members();
        self.lost |= self.unfilled;
        self.down |= self.lost | caches;
        self.excused |= !((self.lost | self.down) & scene.members()).is_empty();
    }

    /// Returns the caches' devices in whose place another file is.
    fn replaced_caches(&self, scene: &HistoryScene) -> DevSet {
        let is_another = |dev: &Dev| self.paths[dev.index()] != path(dev.index(), 0);
        (0..self.paths.len() as u8).map(Dev).filter(is_another).collect::<DevSet>() - scene.members()
    }
}

impl<'a> FileLife<'a> {
    pub(super) fn new(
        scene: &'a HistoryScene,
        os: RecordingOs,
        files: FileExecutor<Box<dyn ServedTier>>,
        known: KnownArray,
        dice: RandomDraws,
    ) -> Self {
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
            unnamed_before: DevSet::EMPTY,
            unfilled_before: DevSet::EMPTY,
            was_at_home: scene.home.is_some(),
            was_starting: true,
            faulty: false,
            dice,
        }
    }

    /// Opens what an earlier life left; none if that is refused, rightly.
    pub(super) fn open(
        scene: &'a HistoryScene,
        os: RecordingOs,
        mut known: KnownArray,
        mut dice: RandomDraws,
        report: &mut FilesReport,
    ) -> Result<Option<Self>, String> {
        if scene.options.copies
            && let Some(life) = Self::open_with_copies(scene, &os, &mut known, &mut dice, report)?
        {
            return Ok(Some(life));
        }
        Self::open_as_left(scene, os, known, dice, report)
    }

    pub(super) fn open_as_left(
        scene: &'a HistoryScene,
        os: RecordingOs,
        mut known: KnownArray,
        mut dice: RandomDraws,
        report: &mut FilesReport,
    ) -> Result<Option<Self>, String> {
        known.number += 1;
        let number = known.number;
        known.model.cut(number);
        known.depth += 1;
        let (system, mut config) = (Arc::new(os.clone()), scene.config(&known.paths));
        if known.has_moved && (scene.options.bereft || dice.clone().one_in(2)) {
            // The description names the new place by then, unless it could not be written.
            config.nvram = NvramPlace::Own(SPARE.into());
        }
        report.at_home += u64::from(scene.home.is_some());
        let may_be_lost = scene.options.bereft || known.homeless;
        // After a clean stop nothing is to be recovered, which is checked when the history ends.
        known.rotten = false;
        if scene.options.rots
            && known.depth <= 2
            && known.is_whole()
            && dice.one_in(2)
            && let Some((file, at)) = flip_a_bit(&os, &config, &mut dice)
        {
            scene.diary.note(|| format!("a bit of byte {at} of {} is flipped", file.display()));
            known.rotten = true;
            report.rotten += 1;
            if file == config.intents && at < FILE_SECTOR {
                // The marks learn later than these intents that a file has taken a device's place. Until then
                // nothing is kept there alone.
                known.down |= known.replaced_caches(scene);
            }
        }
        let opened = if scene.options.bereft || scene.options.rots || scene.home.is_some() && !known.has_copies {
            let accepted = AcceptedLosses { data: !scene.holds_data(), notes: false };
            FileExecutor::resynchronise_on(system, scene.controller(), config, accepted)
        } else {
            FileExecutor::open_on(system, scene.controller(), config)
        };
        let files = match opened {
            Err(FilesError::LostForGood { data, notes, .. })
                if may_be_lost && data && scene.holds_data() || notes && known.broken =>
            {
                report.refusals += 1;
                return Ok(None);
            }
            // Either missing part may be found first.
            Err(FilesError::HomeAndMembersLost { .. })
                if may_be_lost && !((known.lost | known.down | known.unfilled) & scene.members()).is_empty() =>
            {
                report.refusals += 1;
                return Ok(None);
            }
            Err(FilesError::Behind { .. }) if known.has_copies => return Ok(None),
            // Where no member can be missing, a missing one leaves nobody with marks.
            Err(FilesError::NoMarks(_)) if known.broken || scene.too_many(known.down & scene.members()) => {
                return Ok(None);
            }
            opened => opened.map_err(|error| format!("it cannot be opened: {error}"))?,
        };
        if let Some(damaged) = files.damaged_nvram().filter(|_| !scene.options.rots) {
            return Err(format!("what no cut leaves is taken for damage: {}", damaged.errors.join("; ")));
        }
        // A damaged NVRAM that holds nothing by the marks is made anew, which costs nothing.
        let is_needless = |rows: u64| known.rotten && !may_be_lost && rows == 0;
        if let Some(done) = files.resynchronised().filter(|done| !is_needless(done.rows)) {
            if !may_be_lost {
                return Err(format!("{:?} are taken for lost", done.lost));
            }
            report.bereft += 1;
            report.marked += done.rows;
            report.rows += done.of;
            known.bereave(scene);
        } else if may_be_lost && files.damaged_intents().is_some() {
            // Marks learn later than the intents that a file has taken a device's place.
            known.bereave(scene);
        }
        if scene.has_spare {
            known.has_moved = matches!(files.config().nvram, NvramPlace::Own(_));
            known.homeless = false;
        }
        let mut life = Self::new(scene, os, files, known, dice);
        // A device that answered at the last end and does not now would be a loss that nobody caused.
        let news = life.dead - life.known.down;
        if !news.is_empty() && !life.known.broken {
            let why: Vec<_> = life.files.errors().map(|(_, error)| error.to_string()).collect();
            return Err(format!("{news:?} do not answer, and did before: {}", why.join("; ")));
        }
        life.known.model.set_may_fail(life.known.broken || life.known.doubt.lost);
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

    pub(super) fn degraded(&self) -> DevSet {
        self.files.engine().controller().array().degraded()
    }

    /// Members that may be lost after an end now.
    pub(super) fn may_be_lost(&self) -> DevSet {
        let before = if self.files.status() == Status::Ready { DevSet::EMPTY } else { self.known.lost };
        (before | self.degraded() | self.dead | self.window | self.swapped) & self.scene.members()
    }

    /// Devices whose files need not be theirs after an end now: they took the place of others of whose loss
    /// nothing may tell.
    pub(super) fn unnamed(&self) -> DevSet {
        (0..self.known.paths.len() as u8).map(Dev).filter(|dev| !self.files.is_named(*dev)).collect()
    }

    /// Returns the state of the array as it is known if this life ends now.
    ///
    /// Devices whose loss nobody has noted do not come back: whoever starts the array knows that they failed. Their
    /// replacements may be there.
    pub(super) fn known(&self, left: &RecordingOs) -> KnownArray {
        // The NVRAM's device answers again, unless its reads show what is not durable.
        let home = self.scene.home.filter(|_| !self.scene.has_spare).map(|home| &self.known.paths[home.index()]);
        let struck = home.is_some() && self.os.struck().as_ref() == home;
        let homeless = self.known.homeless || struck || home.is_some_and(|home| left.is_spoiled(home) || self.faulty);
        if let Some(home) = home {
            left.set_broken(home, false);
        }
        // These failed in this very command: the roster says so, or does not yet.
        let gone = |dev: &Dev| !self.files.answers(*dev) || left.is_spoiled(&self.known.paths[dev.index()]);
        let failed: DevSet = (0..self.known.paths.len() as u8).map(Dev).filter(gone).collect();
        let is_home_lost = |home: Dev| (self.dead | failed).contains(home) || self.faulty;
        let homeless =
            homeless || self.was_at_home && self.scene.has_spare && self.scene.home.is_some_and(is_home_lost);
        let lost = self.may_be_lost() | self.before | failed & self.scene.members();
        let new = failed - self.dead;
        // An unnoted loss followed by the return of the device is a double fault outside of what is promised.
        for dev in (self.window & self.dead | new).iter() {
            left.take_away(&self.known.paths[dev.index()]);
        }
        let broken = self.known.broken && self.scene.too_many(lost);
        let down = self.dead | failed | self.unnamed() | self.unnamed_before;
        // The first life that looks finds what an earlier one was excused for.
        let starting = self.files.status() == Status::Starting || self.was_starting;
        let excused = !(self.window | new).is_empty() || starting && self.known.excused;
        let unfilled = self.files.marked_unfilled() | self.unfilled_before;
        // Before it has moved, no description names the spare place.
        let has_moved = self.known.has_moved && !self.was_at_home;
        let mut known = KnownArray { lost, down, unfilled, excused, broken, homeless, has_moved, ..self.known.clone() };
        if self.scene.holder().is_some_and(|holder| new.contains(holder)) {
            known.doubt_all(self.scene);
        }
        known
    }

    /// Opens what is left at a moment, and looks at it.
    pub(super) fn probe(&self, moment: &CrashPoint, report: &mut FilesReport) -> Result<(), String> {
        count(moment, report);
        report.repeated += u64::from(self.known.depth > 0);
        let known = self.known(&moment.left);
        if self.scene.options.bereft {
            bereave(
                self.scene,
                &moment.left,
                &known,
                &mut RandomDraws::new(!(moment.operations ^ self.dice.clone().draw())),
            );
        }
        let mut dice = RandomDraws::new(moment.operations ^ self.dice.clone().draw());
        let when = || {
            let end = if moment.power { "the power failed" } else { "the process ended" };
            format!("{end} after operation {} of life {}: ", moment.operations, self.known.depth)
        };
        self.scene.diary.note(|| format!("{}what is left is opened", when()));
        let again = self.known.depth < 2 && dice.one_in(6);
        let opened = Self::open(self.scene, moment.left.clone(), known, dice, report);
        let Some(life) = opened.map_err(|what| when() + &what)? else { return Ok(()) };
        // Lives at a greater depth keep fewer moments: their number grows with each level.
        if again {
            life.os.keep_moments(if life.known.depth == 1 { 12 } else { 48 });
        }
        life.look(again, report).map_err(|what| when() + &what)
    }

    /// Checks that the array is as it must be after a start.
    pub(super) fn look(mut self, work: bool, report: &mut FilesReport) -> Result<(), String> {
        if matches!(self.ready(report)?, LifeOutcome::Refused) {
            return Ok(());
        }
        if work {
            for _ in 0..self.dice.within(1, 5) {
                self.request(report)?;
            }
        }
        if let LifeOutcome::Refused = self.read_all(report)? {
            return Ok(());
        }
        self.os.keep_moments(0);
        self.finish(report)
    }

    /// Waits until the array is recovered.
    pub(super) fn ready(&mut self, report: &mut FilesReport) -> Result<LifeOutcome, String> {
        let mut patience = PATIENCE;
        while self.files.status() == Status::Starting {
            patience = patience.checked_sub(1).ok_or("the controller does not become ready")?;
            if !matches!(self.step(report)?, LifeOutcome::On) {
                return Ok(LifeOutcome::Refused);
            }
        }
        let news = self.degraded() - self.known.lost - self.touched;
        if !news.is_empty() && !self.known.broken {
            return Err(format!("members {news:?} are lost, and were not before"));
        }
        Ok(LifeOutcome::On)
    }

    pub(super) fn refused(&self, why: Refusal) -> Result<(), String> {
        let allowed = match why {
            Refusal::MembersLost { .. } => self.known.broken || self.scene.too_many(self.known.lost | self.dead),
            Refusal::WriteHole { .. } => self.known.excused || !self.window.is_empty(),
            // The cache's device may be gone together with the intents.
            Refusal::CacheLost { .. } => {
                let is_gone = !(self.dead - self.scene.members()).is_empty();
                self.known.doubt.lost || self.files.damaged_intents().is_some() && is_gone
            }
            // Lost pages are named, all of them or with a count of the rest, and can be accepted.
            Refusal::NvramDamaged { lost } => self.known.rotten && lost.pages() > 0,
            Refusal::Nvram | Refusal::NoCollectors(_) => false,
        };
        let lost = self.known.lost;
        if allowed { Ok(()) } else { Err(format!("the start is refused: {why:?}; members {lost:?} may be lost")) }
    }

    /// Follows losses and replacements, as the harness of `Memory` does.
    pub(super) fn watch(&mut self) {
        let failed: DevSet =
            (0..self.known.paths.len() as u8).map(Dev).filter(|dev| !self.files.answers(*dev)).collect();
        if self.faulty && !(failed - self.dead).is_empty() {
            // The failed operation was the planted one.
            let lost = failed - self.dead;
            self.dead |= lost;
            self.touched |= lost;
            self.window |= lost & self.scene.members();
            self.noted -= lost;
            self.faulty = false;
            if self.scene.holder().is_some_and(|holder| lost.contains(holder)) {
                self.known.doubt_all(self.scene);
            }
            self.break_if_too_many();
        }
        let unannounced = self.dead - failed;
        let (degraded, exposed) = (self.degraded(), self.files.engine().controller().array().is_exposed());
        self.noted |= (self.window & degraded) - unannounced;
        // Only a durable note ends the window: before that a crash brings the device back as a whole one.
        if self.files.status() == Status::Ready
            && self.noted.contains_all(self.window)
            && !exposed
            && self.files.is_durable()
        {
            (self.window, self.noted, self.swapped) = (DevSet::EMPTY, DevSet::EMPTY, DevSet::EMPTY);
        }
    }

    pub(super) fn break_if_too_many(&mut self) {
        if self.scene.too_many(self.may_be_lost()) {
            self.known.broken = true;
            self.known.model.set_may_fail(true);
        }
    }

    /// One command is carried out. The moments in it precede what it leads to.
    pub(super) fn step(&mut self, report: &mut FilesReport) -> Result<LifeOutcome, String> {
        if self.files.is_durable() {
            self.before = DevSet::EMPTY;
        }
        self.before |= self.may_be_lost();
        self.unnamed_before = self.unnamed();
        self.unfilled_before = self.files.marked_unfilled();
        self.was_starting = self.files.status() == Status::Starting;
        // Kept moments precede what this command leads to, so all that is known is noted before it.
        let polled = self.files.poll();
        self.took(report)?;
        self.was_at_home = self.is_at_home();
        let first = match polled {
            Ok(first) => first,
            Err(error) => return self.stopped(&error, report),
        };
        if self.scene.has_spare && !self.known.has_moved && !self.is_at_home() {
            report.moves += 1;
            self.known.has_moved = true;
        }
        self.watch();
        self.heard()?;
        if let Status::Refused(why) = self.files.status() {
            self.refused(why)?;
            report.refusals += 1;
            return Ok(LifeOutcome::Refused);
        }
        for completion in
            first.into_iter().chain(std::iter::from_fn(|| self.files.next_completion())).collect::<Vec<_>>()
        {
            self.answered(&completion, report)?;
        }
        Ok(LifeOutcome::On)
    }

    /// Returns true if the NVRAM lies on its device.
    pub(super) fn is_at_home(&self) -> bool {
        matches!(self.files.config().nvram, NvramPlace::Behind(_))
    }

    /// Looks at the moments that were kept.
    pub(super) fn took(&mut self, report: &mut FilesReport) -> Result<(), String> {
        for moment in self.os.take_moments() {
            // Each command moves the dice, so two moments never draw the same life.
            self.dice.draw();
            self.scene.diary.aside(|| self.probe(&moment, report))?;
        }
        Ok(())
    }

    /// The executor stops only if it is refused, or over an operation that was made to fail, and
    /// then it names the file.
    pub(super) fn stopped(&mut self, error: &FilesError, report: &mut FilesReport) -> Result<LifeOutcome, String> {
        match error {
            FilesError::Refused(why) => {
                self.refused(**why)?;
                report.refusals += 1;
                Ok(LifeOutcome::Refused)
            }
            FilesError::NoSpareNvram { error, .. } if self.faulty => self.stopped(error, report),
            FilesError::Io { path, .. } if self.faulty => {
                report.stops += 1;
                let config = self.scene.config(&self.known.paths);
                let all = self.known.paths.iter().map(|path| &**path).chain([config.nvram_path(), &*config.intents]);
                let all = all.chain([Path::new(SPARE), Path::new("/array")]);
                if !all.clone().any(|one| one == path) {
                    return Err(format!("stopped over {}, which is none of its files", path.display()));
                }
                // A stopped executor that goes on would acknowledge writes after an error that it has reported.
                if !matches!(self.files.poll(), Err(FilesError::Stopped)) {
                    return Err("it goes on after it stopped".to_owned());
                }
                Ok(LifeOutcome::Stopped)
            }
            other => Err(format!("stopped: {other}")),
        }
    }

    pub(super) fn answered(&mut self, completion: &RequestCompletion, report: &mut FilesReport) -> Result<(), String> {
        let (tag, ok) = (completion.tag, completion.ok);
        self.scene.diary.note(|| format!("request {tag} is answered{}", if ok { "" } else { " as failed" }));
        let at = self.asked.iter().position(|asked| asked.tag == tag);
        let asked = self.asked.swap_remove(at.ok_or_else(|| format!("request {tag} is answered, and was not asked"))?);
        report.requests += 1;
        if !ok && !self.known.broken && !self.may_have_failed(&asked) {
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
    pub(super) fn request(&mut self, report: &mut FilesReport) -> Result<LifeOutcome, String> {
        let (cell, dice) = (&self.scene.cell, &mut self.dice);
        let op = match dice.below(20) {
            0..=3 => HostOp::Read,
            4..=6 => HostOp::Flush,
            7 => HostOp::Discard,
            8 if cell.zeros_unmap() => HostOp::WriteZeroesUnmap,
            8 => HostOp::WriteZeroes,
            _ => HostOp::Write,
        };
        let all = cell.sectors();
        let (sector, sectors) = match dice.below(4) {
            0 => {
                let sector = dice.below(all);
                (sector, dice.within(1, PAGE_SECTORS))
            }
            // Pages near the beginning, mostly, so requests meet.
            1 | 2 => (dice.below((all / PAGE_SECTORS).min(8)) * PAGE_SECTORS, dice.within(1, 3) * PAGE_SECTORS),
            _ => {
                let sector = dice.below(all);
                (sector, dice.within(1, 24))
            }
        };
        let fua = op == HostOp::Write && dice.one_in(5);
        self.ask(op, sector, sectors.min(all - sector), fua, report)
    }

    pub(super) fn ask(
        &mut self,
        op: HostOp,
        sector: u64,
        sectors: u64,
        fua: bool,
        report: &mut FilesReport,
    ) -> Result<LifeOutcome, String> {
        let mut patience = PATIENCE;
        // At most eight requests are in flight, so claims conflict and yet requests end.
        while self.asked.len() >= 8 {
            patience = patience.checked_sub(1).ok_or("a request is not answered")?;
            let outcome = self.step(report)?;
            if !matches!(outcome, LifeOutcome::On) {
                return Ok(outcome);
            }
        }
        self.known.number += 1;
        let tag = self.known.number;
        let mut asked = AskedRequests { tag, op, sector, sectors, fua, submitted: 0, may_fail: false };
        let mut data = Vec::new();
        if op == HostOp::Write {
            data.extend((0..sectors).flat_map(|index| sector_bytes(tag << 16 | index, sector + index)));
        }
        self.scene.diary.note(|| {
            let fua = if fua { ", FUA" } else { "" };
            format!("request {tag}: {op:?} of {sectors} sectors from {sector} on{fua}")
        });
        let model = &mut self.known.model;
        if let Some(change) = asked.change() {
            model.change(tag, change, sector, sectors);
        }
        asked.submitted = if op == HostOp::Read { model.read_begins() } else { model.tick() };
        self.doubt_submitted(&asked);
        self.asked.push(asked);
        let (offset, len) =
            if op == HostOp::Flush { (0, 0) } else { (sector * SECTOR as u64, sectors * SECTOR as u64) };
        match self.files.submit(HostRequest { tag, op, offset, len, fua }, data) {
            Ok(()) => Ok(LifeOutcome::On),
            Err(error) => self.stopped(&error, report),
        }
    }

    /// Lets everything come to rest.
    pub(super) fn drain(&mut self, report: &mut FilesReport) -> Result<LifeOutcome, String> {
        let mut patience = PATIENCE;
        loop {
            let outcome = self.step(report)?;
            let done = self.files.is_idle() && self.files.status() == Status::Ready;
            // Ready is demanded as well: an idle executor may still be waiting for a timer of recovery.
            if done || !matches!(outcome, LifeOutcome::On) {
                return Ok(outcome);
            }
            patience = patience.checked_sub(1).ok_or("work does not end")?;
        }
    }

    pub(super) fn read_all(&mut self, report: &mut FilesReport) -> Result<LifeOutcome, String> {
        let outcome = self.ask(HostOp::Read, 0, self.scene.cell.sectors(), false, report)?;
        if !matches!(outcome, LifeOutcome::On) {
            return Ok(outcome);
        }
        let mut patience = PATIENCE;
        while !self.asked.is_empty() {
            patience = patience.checked_sub(1).ok_or("a read is not answered")?;
            let outcome = self.step(report)?;
            if !matches!(outcome, LifeOutcome::On) {
                return Ok(outcome);
            }
        }
        Ok(LifeOutcome::On)
    }
}

/// Flips a bit of the intents, or of what the NVRAM's header says to be there, if there are both. What the newest record of
/// the NVRAM says, if it is not covered by the header, looks torn when it is damaged: that is left alone. Returns
/// the file and the byte.
fn flip_a_bit(os: &RecordingOs, config: &FilesConfig, dice: &mut RandomDraws) -> Option<(PathBuf, u64)> {
    let content = |path| os.content(path).filter(|bytes| bytes.len() as u64 > FILE_SECTOR && bytes[..8] != [0; 8]);
    let (Some(mut intents), Some(mut nvram)) = (content(&config.intents), content(config.nvram_path())) else {
        return None;
    };
    if !matches!(config.nvram, NvramPlace::Own(_)) || dice.one_in(2) {
        let at = dice.below(intents.len() as u64);
        intents[at as usize] ^= 1 << dice.below(8);
        os.put(&config.intents, &intents);
        return Some((config.intents.clone(), at));
    }
    // The header's fields are read here as docs/format.md has them, so the harness does not share the code
    // under test.
    let number = |at: usize| u64::from_le_bytes(nvram[at..at + 8].try_into().expect("eight bytes"));
    let (tail, sealed, ring) = (number(56), number(64), nvram.len() as u64 / FILE_SECTOR - 2);
    let headers_agree = nvram[..FILE_SECTOR as usize] == nvram[((1 + ring) * FILE_SECTOR) as usize..];
    let sector = match dice.below(4) {
        // The other header is being written, or had a bit flipped before, so this one must stay.
        0 | 1 if !headers_agree => return None,
        0 => 0,
        1 => 1 + ring,
        _ if sealed == tail => return None,
        // A sector of a sealed record: the newest one may look torn when damaged, and tells nothing then.
        _ => 1 + (tail + dice.below(sealed - tail)) % ring,
    };
    let at = sector * FILE_SECTOR + dice.below(FILE_SECTOR);
    nvram[at as usize] ^= 1 << dice.below(8);
    os.put(config.nvram_path(), &nvram);
    Some((config.nvram_path().to_owned(), at))
}
