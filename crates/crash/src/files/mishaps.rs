//! Makes things happen to an array in files beside requests: ends, faults, losses, replacements, stops.

use std::path::Path;

use destage_exec::{CrashPoint, CrashSurvival, RecordingOs};
use destage_plan::{Dev, DevSet, Row, Status};

use super::{FileLife, FilesReport, KnownArray, LifeOutcome, check_rows, count, path, prepare};

impl FileLife<'_> {
    /// Something happens. The life that goes on; none if the history ends here.
    pub(super) fn act(mut self, mishaps: u64, report: &mut FilesReport) -> Result<Option<Self>, String> {
        let outcome = if self.dice.one_in(mishaps) {
            let fails = self.scene.options.errors && self.dice.one_in(2);
            match if fails { 3 } else { self.dice.below(8) } {
                0 | 1 => return self.end(report),
                2 => {
                    if matches!(self.ready(report)?, LifeOutcome::Refused) {
                        return Ok(None);
                    }
                    let (scene, dice) = (self.scene, self.dice.clone());
                    let (os, known) = self.stop(report)?;
                    return Self::open(scene, os, known, dice, report);
                }
                3 | 4 => {
                    self.fault(report);
                    LifeOutcome::On
                }
                5 | 6 => self.lose(report)?,
                _ => self.replace(report)?,
            }
        } else {
            match self.dice.below(6) {
                0 => self.drain(report)?,
                1 => {
                    let mut outcome = LifeOutcome::On;
                    for _ in 0..self.dice.within(1, 20) {
                        outcome = self.step(report)?;
                        if !matches!(outcome, LifeOutcome::On) {
                            break;
                        }
                    }
                    outcome
                }
                _ => self.request(report)?,
            }
        };
        match outcome {
            LifeOutcome::On => Ok(Some(self)),
            LifeOutcome::Refused => Ok(None),
            LifeOutcome::Stopped => self.end(report),
        }
    }

    /// The power fails, or the process ends, and the array is opened again.
    pub(super) fn end(mut self, report: &mut FilesReport) -> Result<Option<Self>, String> {
        // An end of the process keeps the page cache; a power failure takes what was not synced.
        let power = self.dice.one_in(2);
        self.scene.diary.note(|| (if power { "the power fails" } else { "the process ends" }).to_owned());
        let left = self.os.end(power);
        let mut known = self.known(&left);
        known.depth = 0;
        count(&CrashPoint { operations: 0, power, left: left.clone() }, report);
        self.answer_again(&left);
        // Opening fails now and then before it succeeds: a start must be repeatable after any error.
        if !known.homeless && self.dice.one_in(if self.scene.options.errors { 1 } else { 4 }) {
            self.fails_to_open(&left, &mut known, report)?;
        }
        left.keep_moments(8);
        let mut life = Self::open(self.scene, left, known, self.dice.clone(), report)?;
        if let Some(life) = &mut life {
            life.known.depth = 0;
        }
        Ok(life)
    }

    /// Returns true if the loss of a device may cost data.
    ///
    /// There may be rows of which neither the parity nor the cache tells what a member held.
    pub(super) fn costs_what_parity_does_not_cover(&self, dev: Dev) -> bool {
        let member = self.scene.members().contains(dev);
        if !self.scene.cache.delays_parity {
            return false;
        }
        let controller = self.files.engine().controller();
        if !member {
            return !self.may_be_lost().is_empty();
        }
        // Another device may stand in the cache's place already, and know nothing.
        let torn = (0..self.scene.cell.geometry.member_pages()).any(|row| controller.sources(Row(row)).is_torn());
        torn || !controller.is_caching() || !(self.dead - self.scene.members()).is_empty()
    }

    /// A device breaks, or hangs until it is replaced.
    pub(super) fn lose(&mut self, report: &mut FilesReport) -> Result<LifeOutcome, String> {
        let mut dev = Dev(self.dice.below(self.known.paths.len() as u64) as u8);
        // The NVRAM's device is lost more often than chance would have it: moving the NVRAM is what is tried.
        if let Some(home) = self.scene.home.filter(|_| self.scene.has_spare && self.dice.one_in(2)) {
            dev = home;
        }
        let lost = self.may_be_lost() | DevSet::one(dev);
        let costs = self.scene.too_many(lost) || self.costs_what_parity_does_not_cover(dev);
        if self.faulty || self.dead.contains(dev) || costs {
            return Ok(LifeOutcome::On);
        }
        report.losses += 1;
        if self.scene.home == Some(dev) && !self.scene.has_spare {
            self.scene.diary.note(|| format!("{dev} breaks, and the NVRAM lies on it"));
            // Without a spare place the executor stops, which counts as the fault that was asked for.
            self.faulty = true;
            self.os.forget_struck();
            self.os.set_broken(&self.known.paths[dev.index()], true);
            return Ok(LifeOutcome::On);
        }
        self.doubt(dev);
        let hangs = self.dice.one_in(3);
        self.scene.diary.note(|| format!("{dev} {}", if hangs { "hangs" } else { "breaks" }));
        let path = self.known.paths[dev.index()].clone();
        if hangs {
            self.os.set_hangs(&path, true);
            for _ in 0..self.dice.within(1, 12) {
                let outcome = self.step(report)?;
                if !matches!(outcome, LifeOutcome::On) {
                    return Ok(outcome);
                }
            }
            return self.replace_by(dev, true, report);
        }
        self.os.set_broken(&path, true);
        if self.scene.options.errors && self.dice.one_in(3) {
            self.roster_fails(report);
        }
        self.dead.insert(dev);
        self.touched.insert(dev);
        if self.scene.members().contains(dev) {
            self.window.insert(dev);
            self.noted.remove(dev);
        }
        Ok(LifeOutcome::On)
    }

    /// A lost device is replaced, if there is one.
    pub(super) fn replace(&mut self, report: &mut FilesReport) -> Result<LifeOutcome, String> {
        let lost = self.degraded() | self.dead;
        match lost.lowest() {
            Some(dev) if !self.faulty => self.replace_by(dev, false, report),
            _ => Ok(LifeOutcome::On),
        }
    }

    pub(super) fn replace_by(
        &mut self,
        dev: Dev,
        hangs: bool,
        report: &mut FilesReport,
    ) -> Result<LifeOutcome, String> {
        report.replaced += 1;
        self.doubt(dev);
        let old = self.known.paths[dev.index()].clone();
        let new = match self.dice.below(4) {
            // Its own file answers again. While a thread hangs in it, it is refused: a late write could change it.
            0 if !hangs => {
                report.by_its_own += 1;
                self.os.set_broken(&old, false);
                old
            }
            // Another file takes its name.
            1 => {
                report.in_its_place += 1;
                self.os.take_away(&old);
                self.fill_in(dev, &old);
                old
            }
            _ => {
                self.known.generation += 1;
                let new = path(dev.index(), self.known.generation);
                prepare(&self.os, self.scene, &new, dev.index());
                self.fill_in(dev, &new);
                new
            }
        };
        if self.scene.members().contains(dev) {
            self.window.insert(dev);
            self.noted.remove(dev);
        }
        self.dead.insert(dev);
        self.touched.insert(dev);
        self.scene.diary.note(|| format!("{dev} is replaced"));
        let fails = self.scene.options.errors && !hangs && self.dice.one_in(3);
        if fails {
            self.replacing_fails(report);
        }
        let replaced = self.files.replace_over(dev, &new);
        // Until the call returns, the old file is the array's, and does not answer.
        self.took(report)?;
        if fails && let Some(outcome) = self.has_not_replaced(dev, &replaced, report)? {
            return Ok(outcome);
        }
        if let Err(error) = replaced {
            return Err(format!("{dev} cannot be replaced: {error}"));
        }
        self.known.paths[dev.index()] = new;
        self.dead.remove(dev);
        if self.scene.members().contains(dev) {
            self.swapped.insert(dev);
        }
        self.watch();
        Ok(LifeOutcome::On)
    }

    /// Leaves no file at this path, or one with the content of another use.
    fn fill_in(&mut self, dev: Dev, path: &Path) {
        if self.dice.one_in(2) {
            let len = self.scene.config(&self.known.paths).file_bytes(dev.index()) as usize;
            let garbage = self.dice.draw().to_le_bytes();
            self.os.put(path, &garbage.iter().copied().cycle().take(len).collect::<Vec<u8>>());
        }
    }

    /// Stops cleanly, which is a flush, and leaves nothing to recover.
    pub(super) fn stop(mut self, report: &mut FilesReport) -> Result<(RecordingOs, KnownArray), String> {
        let outcome = self.drain(report)?;
        if !matches!(outcome, LifeOutcome::On) || self.faulty || self.known.broken {
            // Why it stops early is not the subject here; the process ends.
            self.os.take_fault();
            let left = self.os.end(false);
            let known = self.known(&left);
            return Ok((left, KnownArray { depth: 0, ..known }));
        }
        // A life that began within a stop stops in the same way, and histories have hundreds of those.
        self.os.keep_moments(match self.known.depth {
            0 => 6,
            1 | 2 => 24,
            _ => 0,
        });
        let scene = self.scene;
        // Moments of the stop are compared with the knowledge from before it.
        let (lost, excused, degraded) = (self.may_be_lost(), !self.window.is_empty(), self.degraded());
        let (gone, unnamed) = (self.window & self.dead, self.unnamed());
        let is_home_lost =
            scene.has_spare && self.is_at_home() && scene.home.is_some_and(|home| self.dead.contains(home));
        let Self { os, files, mut known, dead, dice, .. } = self;
        known.homeless |= is_home_lost;
        scene.diary.note(|| "it is stopped".to_owned());
        let stopped = files.stop_clean();
        os.keep_moments(0);
        report.clean += 1;
        let completions = stopped.map_err(|error| format!("it does not stop: {error}"))?;
        if let Some(completion) = completions.first() {
            return Err(format!("request {} is answered by the stop", completion.tag));
        }
        let mut known = KnownArray { lost: lost | degraded, down: dead | unnamed, excused, ..known };
        let paths = known.paths.clone();
        let take_away = |left: &RecordingOs| gone.iter().for_each(|dev| left.take_away(&paths[dev.index()]));
        for moment in os.take_moments() {
            count(&moment, report);
            take_away(&moment.left);
            let opened = Self::open(scene, moment.left, known.clone(), dice.clone(), report);
            let opened = opened.map_err(|what| format!("cut while it stopped: {what}"))?;
            if let Some(life) = opened {
                let known = KnownArray { depth: 3, ..life.known.clone() };
                let looked = scene.diary.aside(|| FileLife { known, ..life }.look(false, report));
                looked.map_err(|what| format!("cut while it stopped: {what}"))?;
            }
        }
        // A clean stop is a flush: every acknowledged write is durable after it.
        let tick = known.model.tick();
        known.model.flushed(tick);
        check_rows(scene, &os, &known.paths, degraded | dead)?;
        // Everything that is not durable is dropped, although the stop was clean: it must not have relied on the
        // page cache.
        let left = os.cut(CrashSurvival::Nothing);
        take_away(&left);
        report.cuts += 1;
        // What stands in for a lost device is the device now.
        (known.depth, known.down) = (0, dead);
        Ok((left, known))
    }

    /// Nothing more goes wrong: it comes to rest, stops, and has nothing to recover afterwards.
    pub(super) fn finish(mut self, report: &mut FilesReport) -> Result<(), String> {
        if matches!(self.ready(report)?, LifeOutcome::Refused) || self.os.take_fault() || self.faulty {
            return Ok(());
        }
        if self.known.broken {
            return Ok(());
        }
        let scene = self.scene;
        let dice = self.dice.clone();
        let (os, known) = self.stop(report)?;
        let (depth, doubtful) = (known.depth, known.doubt.lost);
        let opened = Self::open(scene, os, KnownArray { depth: depth.max(2), ..known }, dice, report);
        let Some(mut life) = opened.map_err(|what| format!("after a clean stop: {what}"))? else {
            return if doubtful { Ok(()) } else { Err("it is refused after a clean stop".to_owned()) };
        };
        // A cache that knows its content has read its log, which takes time after a clean start as well.
        let reads = scene.cache.delays_parity || scene.cache.holds_dirty;
        let at_once = life.files.status() == Status::Ready || reads;
        let whole = life.dead.is_empty();
        if matches!(life.ready(report)?, LifeOutcome::Refused) {
            return if doubtful { Ok(()) } else { Err("it is refused after a clean stop".to_owned()) };
        }
        let recovered = life.files.engine().controller().array().stats().recovered_rows;
        if whole && (!at_once || recovered > 0) {
            return Err(format!("{recovered} rows are recovered after a clean stop"));
        }
        life.read_all(report).map_err(|what| format!("after a clean stop: {what}")).map(|_| ())
    }
}
