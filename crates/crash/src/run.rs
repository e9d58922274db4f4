//! Runs one history, and says what is wrong.

mod accept;
mod bad_pages;
mod collecting;
mod doubt;
mod ends;
mod losses;
mod rot;
mod scrub;

use std::collections::BTreeSet;
use std::sync::PoisonError;

use destage_cache::{HostCacheInfo, ServedTier};
use destage_exec::{CrashRemains, MemoryExecutor, NextStep, RowSet, StepLog};
use destage_plan::{BadPage, Dev, DevSet, HostNotice, HostOp, HostRequest, Status};

use crate::RandomDraws;
use crate::asked::AskedRequests;
use crate::caught::caught;
use crate::cell::{CrashCell, PAGE, PAGE_SECTORS};
use crate::history::{CompletionOrder, CrashHistory, HistoryAction};
use crate::model::{SECTOR, SectorModel, sector_bytes};
use crate::mutant::PlantedFault;
use crate::parity::ParityCheck;
use crate::report::{FailedHistory, RunOptions, RunReport};
use collecting::CollectionDraws;
use doubt::RunDoubt;

/// Steps within which what was begun must end when nothing more goes wrong: requests, recovery, a
/// rebuild. A hundred times what any of them needs in arrays as small as these.
pub(crate) const PATIENCE: u64 = 200_000;

/// Runs a history. Whatever it leads to, a panic of the controller too, is the answer.
pub fn run(
    cache: &'static HostCacheInfo,
    history: &CrashHistory,
    options: RunOptions,
) -> Result<RunReport, FailedHistory> {
    let log = StepLog::default();
    // A panic of the planner is a finding like any other, and is shrunk like it.
    let outcome = caught(|| {
        let mut run = HistoryRun::new(cache, history, options, options.log.then(|| StepLog::clone(&log)));
        run.all().map(|()| run.report)
    });
    let what = match outcome {
        Ok(Ok(report)) => return Ok(report),
        Ok(Err(what)) | Err(what) => what,
    };
    let log = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
    Err(FailedHistory { what, history: Box::new(history.clone()), log })
}

pub(crate) struct HistoryRun<'a> {
    cache: &'static HostCacheInfo,
    history: &'a CrashHistory,
    cell: &'a CrashCell,
    /// Members, and the cache's devices: kept, since what the cache needs is worked out from its parameters' text.
    devices: u8,
    pub(crate) check: ParityCheck,
    pub(crate) memory: MemoryExecutor<Box<dyn ServedTier>>,
    pub(crate) model: SectorModel,
    dice: RandomDraws,
    asked: Vec<AskedRequests>,
    /// The number of the last request or cut.
    number: u64,
    data: Vec<u8>,
    /// More was lost in this life than the level can do without: requests may fail.
    broken: bool,
    /// Members that were lost when this life began, as far as the harness knows.
    lost_before: DevSet,
    /// Devices that are lost, and those whose loss is not noted, as far as what the controller says is durable.
    lost_durably: DevSet,
    unnoted_durably: DevSet,
    /// Members whose loss is not noted, or what was in flight then not flushed: the double-fault
    /// window of docs/assumptions.md.
    window: DevSet,
    /// Of these, members that the array knows to be lost, or knew and has filled since.
    known: DevSet,
    /// Of these, members in whose place another device stands already.
    swapped: DevSet,
    /// Rows that were open in such a window: a cut may make them uncomputable.
    hole: RowSet,
    doubt: RunDoubt,
    /// Lists the pages that steps could not read, until nothing is under way.
    told: BTreeSet<BadPage>,
    /// The array was not read since it started.
    unread: bool,
    clean: bool,
    collecting: CollectionDraws,
    /// Tells that the next cut damages the intents.
    damages_intents: bool,
    /// Counts the rows of an order to compare some that is not answered.
    scrubbing: Option<u64>,
    /// Counts the rows that the last one could not compare.
    unchecked: u64,
    refused: bool,
    planted: Option<PlantedFault>,
    /// Holds the controller of the next life, if it is not built as usual.
    accepting: Option<Box<dyn ServedTier>>,
    log: Option<StepLog>,
    report: RunReport,
}

impl<'a> HistoryRun<'a> {
    pub(crate) fn new(
        cache: &'static HostCacheInfo,
        history: &'a CrashHistory,
        options: RunOptions,
        log: Option<StepLog>,
    ) -> Self {
        let cell = &history.cell;
        let members = (0..cell.geometry.members()).map(|_| cell.geometry.member_pages());
        let pages: Vec<u64> = members.chain(cache.devices(cell.pages_of(cache))).collect();
        let planted = options.mutant.map(|mutant| PlantedFault::new(mutant, history.seed));
        let remains = CrashRemains::fresh(pages.iter().map(|pages| *pages as usize * PAGE));
        let mut run = Self {
            memory: Self::prepare(cache, history, remains, log.clone(), planted.as_ref()),
            check: if options.blind {
                ParityCheck::blind(cell.geometry.clone())
            } else {
                ParityCheck::new(cell.geometry.clone())
            },
            model: SectorModel::new(cell.sectors(), PAGE_SECTORS, cell.every_write()),
            dice: RandomDraws::part(history.seed, 0),
            asked: Vec::new(),
            number: 0,
            data: Vec::new(),
            broken: false,
            lost_before: DevSet::EMPTY,
            lost_durably: DevSet::EMPTY,
            unnoted_durably: DevSet::EMPTY,
            window: DevSet::EMPTY,
            known: DevSet::EMPTY,
            swapped: DevSet::EMPTY,
            hole: RowSet::default(),
            doubt: RunDoubt::default(),
            told: BTreeSet::new(),
            unread: false,
            clean: false,
            collecting: Self::collecting(cache, history),
            damages_intents: false,
            scrubbing: None,
            unchecked: 0,
            refused: false,
            planted,
            accepting: None,
            report: RunReport { runs: 1, ..RunReport::default() },
            log,
            cache,
            history,
            cell,
            devices: pages.len() as u8,
        };
        run.memory.begin();
        run
    }

    pub(crate) fn prepare(
        cache: &'static HostCacheInfo,
        history: &CrashHistory,
        remains: CrashRemains,
        log: Option<StepLog>,
        planted: Option<&PlantedFault>,
    ) -> MemoryExecutor<Box<dyn ServedTier>> {
        Self::prepare_with(cache, history.cell.build(cache), history, remains, log, planted)
    }

    fn prepare_with(
        cache: &'static HostCacheInfo,
        controller: Box<dyn ServedTier>,
        history: &CrashHistory,
        remains: CrashRemains,
        log: Option<StepLog>,
        planted: Option<&PlantedFault>,
    ) -> MemoryExecutor<Box<dyn ServedTier>> {
        let cell = &history.cell;
        let mut memory = MemoryExecutor::prepare(controller, remains, cell.shape(), cell.depth);
        memory.set_compute_at_once(history.compute_at_once);
        memory.set_every_write(cell.every_write());
        if let Some(log) = log {
            memory.keep_log(log);
        }
        if let Some(planted) = planted {
            memory.set_tamper(planted.tamper());
        }
        memory.set_collectors(Self::collecting(cache, history).devices);
        memory
    }

    /// Returns the devices that collect, and their times.
    fn collecting(cache: &'static HostCacheInfo, history: &CrashHistory) -> CollectionDraws {
        let cell = &history.cell;
        let devices = cell.geometry.members() + cache.devices(cell.pages_of(cache)).len() as u8;
        CollectionDraws::draw(history.seed, devices, cache.needs_collectors())
    }

    fn all(&mut self) -> Result<(), String> {
        for &numbered in &self.history.actions {
            // Each action has chance of its own, so shrinking leaves the others as they are.
            self.dice = RandomDraws::part(self.history.seed, numbered.number + 1);
            self.collecting.begin_action(numbered.number);
            self.act(numbered.action)?;
            // A start that is refused over a lost cache would end the history, so it is made once more with the
            // loss accepted.
            self.accept_cache_loss()?;
            if self.refused {
                break;
            }
        }
        self.dice = RandomDraws::part(self.history.seed, u64::MAX - 1);
        self.collecting.begin_action(u64::MAX);
        if self.refused && !self.broken {
            self.accept_losses()?;
        } else if !self.refused {
            self.heal()?;
        }
        self.count_life();
        Ok(())
    }

    fn act(&mut self, action: HistoryAction) -> Result<(), String> {
        match action {
            HistoryAction::Request { op, sector, sectors, fua } => {
                self.become_ready()?;
                if self.refused {
                    return Ok(());
                }
                // Reading everything after a crash settles what each sector is; leaving it out lets writes meet what
                // is unsettled.
                if self.unread && !self.dice.one_in(4) {
                    self.read_all()?;
                }
                self.request(op, sector, sectors, fua)?;
            }
            HistoryAction::Steps(count) => {
                for _ in 0..count {
                    if self.refused || self.memory.is_idle() {
                        break;
                    }
                    self.step()?;
                }
            }
            HistoryAction::Drain => self.drain()?,
            HistoryAction::Lose { dev, told, beyond } => self.lose(dev, told, beyond),
            HistoryAction::Replace { dev, content } => {
                let members = self.lost() & self.members();
                let dev = if dev == u8::MAX { members.lowest() } else { Some(Dev(dev)) };
                if let Some(dev) = dev.filter(|dev| self.lost().contains(*dev)) {
                    self.replace(dev, content)?;
                }
            }
            HistoryAction::Spoil { dev, page, broken } => self.spoil(dev, page, broken),
            HistoryAction::Rot { page, bit } => self.rot(page, bit),
            HistoryAction::Scrub { first, rows, repairs } => self.scrub(first, rows, repairs)?,
            HistoryAction::DamageIntents => self.damages_intents = true,
            HistoryAction::Cut { back, gone } => {
                self.report.cuts += 1;
                self.cut(back, gone)?;
            }
            HistoryAction::Stop => {
                self.stop()?;
                if !self.refused {
                    // A clean stop is tested by the crash after it: nothing may be lost.
                    self.cut(DevSet::EMPTY, None)?;
                }
            }
        }
        Ok(())
    }

    fn members(&self) -> DevSet {
        self.cell.geometry.member_set()
    }

    /// Members that do not hold the truth everywhere, and cache devices that do not answer.
    fn lost(&self) -> DevSet {
        let dead: DevSet = (0..self.devices).map(Dev).filter(|dev| !self.memory.answers(*dev)).collect();
        self.memory.engine().controller().array().degraded() | dead
    }

    fn too_many(&self, lost: DevSet) -> bool {
        (lost & self.members()).len() > self.cell.tolerated()
    }

    /// Lets one step end.
    pub(crate) fn step(&mut self) -> Result<(), String> {
        let runnable = self.memory.runnable() as u64;
        let pick = match self.history.order {
            CompletionOrder::Random => NextStep::At(self.dice.below(runnable) as usize),
            CompletionOrder::Oldest => NextStep::Oldest,
            CompletionOrder::Latency => NextStep::Earliest,
        };
        // Rows are checked after every step that wrote, since a later write may hide what an earlier one did.
        let ran = self.memory.run(pick, &self.check).map_err(|violation| violation.to_string())?;
        if let (Some(planted), Some(ran)) = (&self.planted, &ran) {
            planted.after(ran, &mut self.memory);
        }
        if let Some(ran) = &ran {
            self.told(ran);
        }
        self.page_reports()?;
        self.watch_window();
        self.watch_durable();
        self.watch_doubt();
        self.notices()?;
        self.collect()?;
        if let Status::Refused(why) = self.memory.status() {
            self.refusal(why)?;
        }
        Ok(())
    }

    fn notices(&mut self) -> Result<(), String> {
        while let Some(notice) = self.memory.next_notice() {
            match notice {
                HostNotice::Acked { tag, ok } => self.acked(tag, ok)?,
                HostNotice::Released { .. } => {}
                HostNotice::Clean => self.clean = true,
                HostNotice::Drained => self.drained()?,
                HostNotice::Scrubbed(tally) => self.scrubbed(tally)?,
                // Copies are tried over files: memory has no successors.
                HostNotice::Copied(_) => return Err("a member was copied that has no successor".to_owned()),
            }
        }
        Ok(())
    }

    fn acked(&mut self, tag: u64, ok: bool) -> Result<(), String> {
        let at = self.asked.iter().position(|asked| asked.tag == tag);
        let asked = self
            .asked
            .swap_remove(at.ok_or_else(|| format!("request {tag} is answered, but was not asked, or twice"))?);
        self.report.requests += 1;
        let may_fail = self.doubt_answered(&asked, ok);
        if !ok {
            self.report.unserved += 1;
            // A failed answer is a violation unless more is lost than the level tolerates.
            if !self.broken && !may_fail {
                return Err(format!(
                    "request {tag} ({:?}) is answered as failed, but no more than {} members are lost ({:?})",
                    asked.op,
                    self.cell.tolerated(),
                    self.lost()
                ));
            }
        }
        if let Some(change) = asked.change() {
            self.model.changed(tag, change, asked.sector, asked.sectors, ok, asked.fua);
        } else if asked.op == HostOp::Flush {
            if ok {
                // A flush covers what was acknowledged before it was submitted, and nothing later.
                self.model.flushed(asked.submitted);
            }
        } else if !ok {
            self.model.read_fails();
        } else {
            let bytes = self.memory.request_bytes(tag);
            self.model.read(asked.submitted, asked.sector, bytes).map_err(|wrong| format!("request {tag}: {wrong}"))?;
        }
        Ok(())
    }

    pub(crate) fn request(&mut self, op: HostOp, sector: u64, sectors: u64, fua: bool) -> Result<(), String> {
        let mut patience = PATIENCE;
        while self.asked.len() >= self.history.requests && !self.refused {
            self.wait(&mut patience, "a request is not answered")?;
        }
        if self.refused {
            return Ok(());
        }
        // Histories are shortened without regard to the size of the array.
        let end = self.cell.sectors();
        let sector = sector.min(end - 1);
        let sectors = sectors.min(end - sector);
        if sectors == 0 && op != HostOp::Flush {
            return Ok(());
        }
        self.number += 1;
        let tag = self.number;
        let mut asked = AskedRequests { tag, op, sector, sectors, fua, submitted: 0, may_fail: false };
        self.data.clear();
        if op == HostOp::Write {
            for index in 0..sectors {
                // Each sector's content names its write, so a read tells which version it has found.
                self.data.extend_from_slice(&sector_bytes(tag << 16 | index, sector + index));
            }
        }
        if let Some(change) = asked.change() {
            // Flipped bits are restored first: the write may replace the copy by which the array would find them.
            self.heal_before_write();
            self.model.change(tag, change, sector, sectors);
            self.writes(sector, sectors);
        }
        asked.submitted = if op == HostOp::Read { self.model.read_begins() } else { self.model.tick() };
        self.asked.push(asked);
        self.doubt_submitted(self.asked.len() - 1);
        let request = HostRequest {
            tag,
            op,
            offset: if op == HostOp::Flush { 0 } else { sector * SECTOR as u64 },
            len: if op == HostOp::Flush { 0 } else { sectors * SECTOR as u64 },
            fua,
        };
        // The model knows of the request before the array does, or an early answer would be unknown.
        self.memory.submit(request, &self.data).map_err(|error| format!("request {tag}: {error}"))?;
        self.notices()
    }

    fn count_life(&mut self) {
        let engine = self.memory.engine();
        self.report.steps += self.memory.steps();
        self.report.time += self.memory.now();
        self.report.corrected += engine.controller().array().stats().corrected_pages;
        self.report.cached_reads += engine.controller().array().stats().cached_reads;
        self.report.overwritten += engine.controller().counts().map_or(0, |counts| counts.overwritten);
        self.report.rebuilds += engine.controller().array().stats().rebuilt_rows / self.cell.geometry.member_pages();
        self.report.add_counters(engine.out().counts(), engine.out().waits());
    }
}
