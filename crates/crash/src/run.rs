//! Runs one history, and says what is wrong.

mod accept;

use std::sync::PoisonError;

use destage_cache::{HostCacheInfo, Served};
use destage_exec::{Content, Log, Memory, Pick, Remains, RowSet};
use destage_plan::{Control, Dev, DevSet, HostNotice, HostOp, HostRequest, Refusal, Row, Status};
use destage_raid::Level;

use crate::Dice;
use crate::asked::Asked;
use crate::caught::caught;
use crate::cell::{Cell, PAGE, PAGE_SECTORS};
use crate::history::{Action, History, Order};
use crate::model::{Model, SECTOR, sector_bytes};
use crate::mutant::Planted;
use crate::parity::Parity;
use crate::report::{Failure, Options, Report};

/// Steps within which what was begun must end when nothing more goes wrong: requests, recovery, a
/// rebuild. A hundred times what any of them needs in arrays as small as these.
pub(crate) const PATIENCE: u64 = 200_000;

/// Runs a history. Whatever it leads to, a panic of the controller too, is the answer.
pub fn run(cache: &'static HostCacheInfo, history: &History, options: Options) -> Result<Report, Failure> {
    let log = Log::default();
    let outcome = caught(|| {
        let mut run = HistoryRun::new(cache, history, options, options.log.then(|| Log::clone(&log)));
        run.all().map(|()| run.report)
    });
    let what = match outcome {
        Ok(Ok(report)) => return Ok(report),
        Ok(Err(what)) | Err(what) => what,
    };
    let log = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
    Err(Failure { what, history: Box::new(history.clone()), log })
}

pub(crate) struct HistoryRun<'a> {
    cache: &'static HostCacheInfo,
    history: &'a History,
    cell: &'a Cell,
    pub(crate) check: Parity,
    pub(crate) memory: Memory<Box<dyn Served>>,
    pub(crate) model: Model,
    dice: Dice,
    asked: Vec<Asked>,
    /// The number of the last request or cut.
    number: u64,
    data: Vec<u8>,
    /// More was lost in this life than the level can do without: requests may fail.
    broken: bool,
    /// Members that were lost when this life began, as far as the harness knows.
    lost_before: DevSet,
    /// Members whose loss is not noted, or what was in flight then not flushed: the double-fault
    /// window of docs/assumptions.md.
    window: DevSet,
    /// Of these, members that the array knows to be lost, or knew and has filled since.
    known: DevSet,
    /// Of these, members in whose place another device stands already.
    swapped: DevSet,
    /// Rows that were open in such a window: a cut may make them uncomputable.
    hole: RowSet,
    /// The array was not read since it started.
    unread: bool,
    clean: bool,
    refused: bool,
    planted: Option<Planted>,
    /// What the next life is to be started with, if it is not as any other.
    accepting: Option<Box<dyn Served>>,
    log: Option<Log>,
    report: Report,
}

impl<'a> HistoryRun<'a> {
    pub(crate) fn new(cache: &'static HostCacheInfo, history: &'a History, options: Options, log: Option<Log>) -> Self {
        let cell = &history.cell;
        let members = (0..cell.geometry.members()).map(|_| cell.geometry.member_pages());
        let pages = members.chain(cache.devices(cell.cache_pages));
        let planted = options.mutant.map(|mutant| Planted::new(mutant, history.seed));
        let remains = Remains::fresh(pages.map(|pages| pages as usize * PAGE));
        let mut run = Self {
            memory: Self::prepare(cache, history, remains, log.clone(), planted.as_ref()),
            check: if options.blind {
                Parity::blind(cell.geometry.clone())
            } else {
                Parity::new(cell.geometry.clone())
            },
            model: Model::new(cell.sectors(), PAGE_SECTORS, cell.every_write()),
            dice: Dice::part(history.seed, 0),
            asked: Vec::new(),
            number: 0,
            data: Vec::new(),
            broken: false,
            lost_before: DevSet::EMPTY,
            window: DevSet::EMPTY,
            known: DevSet::EMPTY,
            swapped: DevSet::EMPTY,
            hole: RowSet::default(),
            unread: false,
            clean: false,
            refused: false,
            planted,
            accepting: None,
            report: Report { runs: 1, ..Report::default() },
            log,
            cache,
            history,
            cell,
        };
        run.memory.begin();
        run
    }

    pub(crate) fn prepare(
        cache: &'static HostCacheInfo,
        history: &History,
        remains: Remains,
        log: Option<Log>,
        planted: Option<&Planted>,
    ) -> Memory<Box<dyn Served>> {
        Self::prepare_with(history.cell.build(cache), history, remains, log, planted)
    }

    fn prepare_with(
        controller: Box<dyn Served>,
        history: &History,
        remains: Remains,
        log: Option<Log>,
        planted: Option<&Planted>,
    ) -> Memory<Box<dyn Served>> {
        let cell = &history.cell;
        let mut memory = Memory::prepare(controller, remains, cell.shape(), cell.depth);
        memory.set_compute_at_once(history.compute_at_once);
        if let Some(log) = log {
            memory.keep_log(log);
        }
        if let Some(planted) = planted {
            memory.set_tamper(planted.tamper());
        }
        memory
    }

    fn all(&mut self) -> Result<(), String> {
        for &numbered in &self.history.actions {
            self.dice = Dice::part(self.history.seed, numbered.number + 1);
            self.act(numbered.action)?;
            if self.refused {
                break;
            }
        }
        self.dice = Dice::part(self.history.seed, u64::MAX - 1);
        if self.refused && !self.broken {
            self.accept_losses()?;
        } else if !self.refused {
            self.heal()?;
        }
        self.count_life();
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Request { op, sector, sectors, fua } => {
                self.become_ready()?;
                if self.refused {
                    return Ok(());
                }
                if self.unread && !self.dice.one_in(4) {
                    self.read_all()?;
                }
                self.request(op, sector, sectors, fua)?;
            }
            Action::Steps(count) => {
                for _ in 0..count {
                    if self.refused || self.memory.is_idle() {
                        break;
                    }
                    self.step()?;
                }
            }
            Action::Drain => self.drain()?,
            Action::Lose { dev, told, beyond } => self.lose(dev, told, beyond),
            Action::Replace { dev, content } => {
                let members = self.lost() & self.members();
                let dev = if dev == u8::MAX { members.lowest() } else { Some(Dev(dev)) };
                if let Some(dev) = dev.filter(|dev| self.lost().contains(*dev)) {
                    self.replace(dev, content)?;
                }
            }
            Action::Cut { back, gone } => {
                self.report.cuts += 1;
                self.cut(back, gone)?;
            }
            Action::Stop => {
                self.stop()?;
                if !self.refused {
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
        let devices = self.cell.geometry.members() + self.cache.devices(self.cell.cache_pages).len() as u8;
        let dead: DevSet = (0..devices).map(Dev).filter(|dev| !self.memory.answers(*dev)).collect();
        self.memory.engine().controller().array().degraded() | dead
    }

    fn too_many(&self, lost: DevSet) -> bool {
        (lost & self.members()).len() > self.cell.tolerated()
    }

    /// Lets one step end.
    pub(crate) fn step(&mut self) -> Result<(), String> {
        let runnable = self.memory.runnable() as u64;
        let pick = match self.history.order {
            Order::Random => Pick::At(self.dice.below(runnable) as usize),
            Order::Oldest => Pick::Oldest,
            Order::Latency => Pick::Earliest,
        };
        let ran = self.memory.run(pick, &self.check).map_err(|violation| violation.to_string())?;
        if let (Some(planted), Some(ran)) = (&self.planted, &ran) {
            planted.after(ran, &mut self.memory);
        }
        self.watch_window();
        self.notices()?;
        if let Status::Refused(why) = self.memory.status() {
            self.refusal(why)?;
        }
        Ok(())
    }

    /// Whether the array has noted the loss of members and flushed what was in flight then.
    fn watch_window(&mut self) {
        if !self.window.is_empty() {
            self.hole.add(&self.memory.nvram().intents);
        }
        let array = self.memory.engine().controller().array();
        self.known |= (self.window & array.degraded()) - self.memory.unannounced();
        if self.memory.status() != Status::Ready || self.window.is_empty() && self.hole.is_empty() {
            return;
        }
        if self.known.contains_all(self.window) && !array.is_exposed() {
            (self.window, self.known, self.swapped) = (DevSet::EMPTY, DevSet::EMPTY, DevSet::EMPTY);
            self.hole.clear();
        }
    }

    fn notices(&mut self) -> Result<(), String> {
        while let Some(notice) = self.memory.next_notice() {
            match notice {
                HostNotice::Acked { tag, ok } => self.acked(tag, ok)?,
                HostNotice::Released { .. } => {}
                HostNotice::Clean => self.clean = true,
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
        if !ok {
            self.report.unserved += 1;
            if !self.broken {
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
        // Histories are simplified without regard to the size of the array.
        let end = self.cell.sectors();
        let sector = sector.min(end - 1);
        let sectors = sectors.min(end - sector);
        if sectors == 0 && op != HostOp::Flush {
            return Ok(());
        }
        self.number += 1;
        let tag = self.number;
        let mut asked = Asked { tag, op, sector, sectors, fua, submitted: 0 };
        self.data.clear();
        if op == HostOp::Write {
            for index in 0..sectors {
                self.data.extend_from_slice(&sector_bytes(tag << 16 | index, sector + index));
            }
        }
        if let Some(change) = asked.change() {
            self.model.change(tag, change, sector, sectors);
        }
        asked.submitted = if op == HostOp::Read { self.model.read_begins() } else { self.model.tick() };
        self.asked.push(asked);
        let request = HostRequest {
            tag,
            op,
            offset: if op == HostOp::Flush { 0 } else { sector * SECTOR as u64 },
            len: if op == HostOp::Flush { 0 } else { sectors * SECTOR as u64 },
            fua,
        };
        self.memory.submit(request, &self.data).map_err(|error| format!("request {tag}: {error}"))?;
        self.notices()
    }

    /// Lets one step end in a wait that must not last for ever.
    fn wait(&mut self, patience: &mut u64, what: &str) -> Result<(), String> {
        if *patience == 0 {
            return Err(format!("{what} within {PATIENCE} steps:\n{:?}", self.memory.engine().out()));
        }
        *patience -= 1;
        if self.memory.is_idle() && self.memory.engine().next_timer().is_none() {
            return Err(format!("{what}, and nothing is under way"));
        }
        self.step()
    }

    pub(crate) fn become_ready(&mut self) -> Result<(), String> {
        let mut patience = PATIENCE;
        while !self.refused && self.memory.status() == Status::Starting {
            self.wait(&mut patience, "the controller does not become ready")?;
        }
        Ok(())
    }

    /// Lets everything under way end, then looks at every row.
    pub(crate) fn drain(&mut self) -> Result<(), String> {
        self.memory.announce_all();
        let mut patience = PATIENCE;
        while !self.refused && !self.memory.is_idle() {
            self.wait(&mut patience, "work does not end")?;
            self.memory.announce_all();
        }
        self.watch_window();
        // A cache may take its time to make good what it left behind.
        while !self.refused
            && !self.window.is_empty()
            && (!self.memory.is_idle() || self.memory.engine().next_timer().is_some())
        {
            self.wait(&mut patience, "what a loss exposes is not made good")?;
        }
        self.notices()?;
        if self.refused {
            return Ok(());
        }
        self.watch_window();
        if !self.asked.is_empty() && self.memory.status() == Status::Ready {
            return Err(format!("nothing is under way, but request {} is not answered", self.asked[0].tag));
        }
        if self.memory.status() == Status::Ready && !self.broken {
            self.memory
                .check_all(&self.check, self.cell.geometry.member_pages())
                .map_err(|violation| violation.to_string())?;
            if !self.window.is_empty() {
                return Err("nothing is under way, but the loss of a member is not noted or flushed".to_owned());
            }
        }
        Ok(())
    }

    /// Nobody asks for anything any more: a redundant array then makes durable what it has
    /// acknowledged, and leaves no intent open.
    fn leave_alone(&mut self) -> Result<(), String> {
        let submitted = self.model.tick();
        let mut patience = PATIENCE;
        while !self.refused && (!self.memory.is_idle() || self.memory.engine().next_timer().is_some()) {
            self.wait(&mut patience, "an array that is left alone does not come to rest")?;
        }
        if self.refused || self.broken || self.memory.status() != Status::Ready {
            return Ok(());
        }
        if !self.memory.nvram().intents.is_empty() {
            return Err(format!("left alone, but intents are open: {:?}", self.memory.nvram().intents.ranges()));
        }
        if self.cell.geometry.level() != Level::Raid0 {
            self.model.flushed(submitted);
        }
        Ok(())
    }

    /// Reads every page.
    fn read_all(&mut self) -> Result<(), String> {
        self.unread = false;
        let mut sector = 0;
        // A request of more than this would be one fragment after the other anyway.
        let most = 64 * PAGE_SECTORS;
        while sector < self.cell.sectors() && !self.refused {
            let sectors = most.min(self.cell.sectors() - sector);
            self.request(HostOp::Read, sector, sectors, false)?;
            sector += sectors;
        }
        let mut patience = PATIENCE;
        while !self.asked.is_empty() && !self.refused {
            self.wait(&mut patience, "a read is not answered")?;
        }
        Ok(())
    }

    /// Whether the loss of a device costs data since there are rows, or may be for all that the
    /// controller knows, of which neither the parity nor the cache tells what a member held.
    fn costs_what_parity_does_not_cover(&self, dev: Dev) -> bool {
        let lost = self.lost() | DevSet::one(dev);
        let (members, cache) = (lost & self.members(), lost - self.members());
        let controller = self.memory.engine().controller();
        if !self.cache.delays_parity || members.is_empty() {
            return false;
        }
        // Another device may stand in the cache's place already.
        if (0..self.cell.geometry.member_pages()).any(|row| controller.sources(Row(row)).is_torn()) {
            return true;
        }
        if cache.is_empty() {
            return false;
        }
        let knows = !self.memory.unannounced().meets(lost)
            && (!controller.is_caching() || !(members & controller.array().degraded()).is_empty());
        controller.stale_rows() > 0 || !knows
    }

    pub(crate) fn lose(&mut self, dev: u8, told: bool, beyond: bool) {
        let devices = self.cell.geometry.members() + self.cache.devices(self.cell.cache_pages).len() as u8;
        if dev >= devices || !self.memory.answers(Dev(dev)) {
            return;
        }
        let dev = Dev(dev);
        let member = self.members().contains(dev);
        let lost = self.lost() | DevSet::one(dev);
        if member && self.too_many(lost) || self.costs_what_parity_does_not_cover(dev) {
            if !beyond {
                return;
            }
            self.broken = true;
            self.model.set_may_fail(true);
        }
        self.report.losses += 1;
        if member {
            self.window.insert(dev);
            self.known.remove(dev);
            self.hole.add(&self.memory.nvram().intents);
        }
        self.memory.fail(dev, self.dice.draw_cut());
        if told {
            self.memory.announce(dev);
        }
    }

    fn replace(&mut self, dev: Dev, content: Content) -> Result<(), String> {
        if self.memory.answers(dev) {
            // It is pulled out before: a member that is being filled, or that came back.
            self.window.insert(dev);
            self.known.remove(dev);
            self.hole.add(&self.memory.nvram().intents);
            self.memory.fail(dev, self.dice.draw_cut());
        }
        self.swapped.insert(dev);
        self.memory.replace(dev, content);
        self.watch_window();
        self.notices()
    }

    fn cut(&mut self, back: DevSet, gone: Option<u8>) -> Result<(), String> {
        // A controller that is still starting may not know yet what the harness does.
        let starting = self.memory.status() == Status::Starting;
        let before = if starting { self.lost_before } else { DevSet::EMPTY };
        let lost = (self.lost() | before) & self.members();
        self.report.cuts_degraded += u64::from(!lost.is_empty());
        self.report.cuts_in_recovery += u64::from(starting && self.unread);
        let mut remains = self.memory.cut(self.dice.draw_cut());
        if !self.window.is_empty() {
            self.hole.add(&remains.nvram.intents);
        }
        // Another device stands there and nobody has noted it: whoever starts the array knows its
        // members, and misses one, this time and the next until it is noted.
        let strangers = self.swapped & self.window & self.members();
        for (dev, disk) in (0..).map(Dev).zip(&mut remains.disks) {
            disk.answers |= back.contains(dev);
            disk.answers &= !strangers.contains(dev);
        }
        self.lost_before = lost;
        let gone =
            gone.map(Dev).filter(|dev| self.members().contains(*dev) && !self.too_many(lost | DevSet::one(*dev)));
        if let Some(dev) = gone {
            remains.disks[dev.index()].answers = false;
            self.lost_before.insert(dev);
            self.report.losses += 1;
            self.hole.add(&remains.nvram.intents);
        }
        self.hole.keep(&remains.nvram.intents);
        self.broken = self.broken && self.too_many(self.lost_before);
        self.model.set_may_fail(self.broken);
        (self.window, self.known, self.swapped) = (DevSet::EMPTY, DevSet::EMPTY, strangers);
        self.number += 1;
        self.model.cut(self.number);
        self.asked.clear();
        self.restart(remains)
    }

    fn restart(&mut self, remains: Remains) -> Result<(), String> {
        self.count_life();
        let down: DevSet =
            (0..).map(Dev).zip(&remains.disks).filter(|(_, disk)| !disk.answers).map(|(dev, _)| dev).collect();
        let down = down & self.members();
        let controller = self.accepting.take().unwrap_or_else(|| self.cell.build(self.cache));
        let memory = Self::prepare_with(controller, self.history, remains, self.log.clone(), self.planted.as_ref());
        self.memory = memory;
        // Until the controller has noted them, members that it found missing may be lost with what
        // is open.
        self.window = down;
        (self.unread, self.clean) = (true, false);
        self.memory.begin();
        self.watch_window();
        self.notices()?;
        if let Status::Refused(why) = self.memory.status() {
            self.refusal(why)?;
        }
        Ok(())
    }

    fn count_life(&mut self) {
        let engine = self.memory.engine();
        self.report.steps += self.memory.steps();
        self.report.time += self.memory.now();
        self.report.rebuilds += engine.controller().array().stats().rebuilt_rows / self.cell.geometry.member_pages();
        self.report.add_counters(engine.out().counts(), engine.out().waits());
    }

    /// A start may be refused only inside the double-fault window, or with too many members lost.
    fn refusal(&mut self, why: Refusal) -> Result<(), String> {
        if self.refused {
            return Ok(());
        }
        self.refused = true;
        self.report.refusals += 1;
        let lost = (self.lost_before | self.lost()) & self.members();
        let geometry = &self.cell.geometry;
        let excused = |row: Row| {
            let stripe = geometry.stripe_of(row).0;
            self.hole.contains(row)
                && geometry.data_set().iter().any(|column| lost.contains(geometry.device(stripe, column)))
        };
        let allowed = match why {
            Refusal::MembersLost { .. } => self.broken || self.too_many(lost),
            Refusal::WriteHole { row, .. } => {
                matches!(geometry.level(), Level::Raid4 | Level::Raid5 | Level::Raid6) && excused(row)
            }
            Refusal::Nvram => false,
        };
        if allowed {
            return Ok(());
        }
        Err(format!(
            "the start is refused ({why:?}) though members {lost:?} of at most {} are lost and a cut may have cost rows {:?} only",
            self.cell.tolerated(),
            self.hole.iter().collect::<Vec<_>>()
        ))
    }

    /// Stops cleanly.
    fn stop(&mut self) -> Result<(), String> {
        self.become_ready()?;
        self.drain()?;
        if self.refused {
            return Ok(());
        }
        self.clean = false;
        // What is stopped cleanly is flushed.
        let submitted = self.model.tick();
        self.memory.control(Control::Clean);
        self.notices()?;
        let mut patience = PATIENCE;
        while !self.clean {
            self.wait(&mut patience, "the clean stop is not reached")?;
        }
        if !self.broken && !self.memory.nvram().intents.is_empty() {
            return Err(format!("stopped cleanly, but intents are open: {:?}", self.memory.nvram().intents.ranges()));
        }
        if !self.broken {
            self.model.flushed(submitted);
        }
        Ok(())
    }

    /// Nothing more goes wrong: what was lost is replaced, and then everything must become whole
    /// within bounds.
    fn heal(&mut self) -> Result<(), String> {
        self.become_ready()?;
        if self.refused {
            return Ok(());
        }
        if self.broken {
            // What is lost is lost. Whatever is answered must be true all the same.
            self.read_all()?;
            return self.drain();
        }
        for dev in self.lost().iter() {
            let content = if self.dice.one_in(2) { Content::Zeros } else { Content::Garbage(self.dice.draw()) };
            self.replace(dev, content)?;
        }
        if self.dice.one_in(2) {
            self.read_all()?;
        }
        let mut patience = PATIENCE;
        while !self.lost().is_empty() && !self.refused {
            self.wait(&mut patience, "replaced members are not filled")?;
        }
        self.drain()?;
        self.read_all()?;
        // Half of the histories end without an order to stop.
        if Dice::part(self.history.seed, u64::MAX - 3).one_in(2) {
            self.leave_alone()?;
        } else {
            self.stop()?;
        }
        if self.refused {
            return Ok(());
        }
        self.cut(DevSet::EMPTY, None)?;
        self.become_ready()?;
        if !self.lost().is_empty() {
            return Err(format!("members {:?} are lost again after a clean stop", self.lost()));
        }
        self.read_all()?;
        self.drain()
    }
}
