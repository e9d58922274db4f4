//! Makes things go wrong: members lost, replaced and back again, cuts, and the refused starts that may follow.

use destage_exec::{CrashRemains, ReplacementContent};
use destage_plan::{Dev, DevSet, Refusal, Row, Rows, Status};
use destage_raid::RaidLevel;

use super::HistoryRun;

impl HistoryRun<'_> {
    /// Follows whether the array has noted lost members and flushed what was in flight then.
    pub(super) fn watch_window(&mut self) {
        if !self.window.is_empty() {
            self.hole.add(&self.memory.nvram().intents);
        }
        let array = self.memory.engine().controller().array();
        self.known |= (self.window & array.degraded()) - self.memory.unannounced();
        if self.memory.status() != Status::Ready || self.window.is_empty() && self.hole.is_empty() {
            return;
        }
        // The window closes only on durable notes: a crash before that brings a lost member back as a whole one.
        if self.known.contains_all(self.window) && !array.is_exposed() && self.memory.is_durable() {
            (self.window, self.known, self.swapped) = (DevSet::EMPTY, DevSet::EMPTY, DevSet::EMPTY);
            self.hole.clear();
        }
    }

    /// Follows the controller's statements as far as they are durable.
    pub(super) fn watch_durable(&mut self) {
        if self.memory.is_durable() {
            (self.lost_durably, self.unnoted_durably) = (DevSet::EMPTY, DevSet::EMPTY);
        }
        self.lost_durably |= self.lost();
        self.unnoted_durably |= self.memory.engine().controller().unnoted();
    }

    /// Returns true if the loss of a device costs data.
    ///
    /// There are rows, or may be for all that the controller knows, of which neither the parity nor the cache tells
    /// what a member held.
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
        if dev >= self.devices || !self.memory.answers(Dev(dev)) {
            return;
        }
        let dev = Dev(dev);
        let member = self.members().contains(dev);
        // Pages whose bits were flipped may be needed once this device is gone.
        self.memory.heal();
        let lost = self.lost() | DevSet::one(dev);
        // Such a loss ends most checks, so only histories that ask for it have it.
        if member && self.too_many(lost) || self.costs_what_parity_does_not_cover(dev) {
            if !beyond {
                return;
            }
            self.broken = true;
            self.model.set_may_fail(true);
        } else if !self.can_lose_beside_bad_pages(dev) {
            return;
        }
        self.report.losses += 1;
        if member {
            self.window.insert(dev);
            self.known.remove(dev);
            self.hole.add(&self.memory.nvram().intents);
        }
        self.doubt(dev);
        self.memory.fail(dev, self.dice.draw_cut());
        if told {
            self.memory.announce(dev);
        }
        self.watch_doubt();
    }

    pub(super) fn replace(&mut self, dev: Dev, content: ReplacementContent) -> Result<(), String> {
        if self.memory.answers(dev) {
            // A member that is being filled, or that has come back, is pulled out first.
            self.window.insert(dev);
            self.known.remove(dev);
            self.hole.add(&self.memory.nvram().intents);
            self.memory.fail(dev, self.dice.draw_cut());
        }
        self.swapped.insert(dev);
        self.memory.replace(dev, content);
        self.watch_window();
        self.watch_doubt();
        self.notices()
    }

    pub(super) fn cut(&mut self, back: DevSet, gone: Option<u8>) -> Result<(), String> {
        // A controller that is still starting may not know yet what the harness knows.
        let starting = self.memory.status() == Status::Starting;
        let before = if starting { self.lost_before } else { DevSet::EMPTY };
        let lost = (self.lost() | self.lost_durably | before) & self.members();
        self.report.cuts_degraded += u64::from(!lost.is_empty());
        self.report.cuts_in_recovery += u64::from(starting && self.unread);
        self.doubt_cut();
        let unnoted = self.memory.engine().controller().unnoted() | self.unnoted_durably;
        let mut remains = self.memory.cut(self.dice.draw_cut());
        if !self.window.is_empty() {
            self.hole.add(&remains.nvram.intents);
        }
        // An unnoted replacement would be taken for the device itself. Whoever starts the array knows its devices, and
        // keeps the stranger out until it is noted.
        let strangers = self.swapped & (self.window & self.members() | unnoted);
        for (dev, disk) in (0..).map(Dev).zip(&mut remains.disks) {
            disk.answers |= back.contains(dev);
            disk.answers &= !strangers.contains(dev);
        }
        self.lost_before = lost;
        (self.lost_durably, self.unnoted_durably) = (DevSet::EMPTY, DevSet::EMPTY);
        let gone =
            gone.map(Dev).filter(|dev| self.members().contains(*dev) && !self.too_many(lost | DevSet::one(*dev)));
        if let Some(dev) = gone {
            remains.disks[dev.index()].answers = false;
            self.lost_before.insert(dev);
            self.report.losses += 1;
            self.hole.add(&remains.nvram.intents);
        }
        let all_answer = self.members().iter().all(|dev| remains.disks[dev.index()].answers);
        if std::mem::take(&mut self.damages_intents) && self.lost_before.is_empty() && all_answer {
            let rows = u32::try_from(self.cell.geometry.member_pages()).expect("members are small");
            remains.nvram.intents.set(Rows::new(Row(0), rows), true);
            self.report.damaged_intents += 1;
        }
        self.hole.keep(&remains.nvram.intents);
        let silent = (0..).map(Dev).zip(&remains.disks).filter(|(_, disk)| !disk.answers).map(|(dev, _)| dev).collect();
        self.recall_after_cut(&mut remains, self.lost_before | silent);
        // A crash that brings members back may leave no more lost than the level tolerates.
        self.broken = self.broken && self.too_many(self.lost_before);
        self.model.set_may_fail(self.broken);
        (self.window, self.known, self.swapped) = (DevSet::EMPTY, DevSet::EMPTY, strangers);
        self.number += 1;
        // After the machine: the model then decides on the versions that the machine really had.
        self.model.cut(self.number);
        self.asked.clear();
        self.told.clear();
        self.collecting.cut();
        self.scrubbing = None;
        self.restart(remains)
    }

    fn restart(&mut self, remains: CrashRemains) -> Result<(), String> {
        self.count_life();
        let down: DevSet =
            (0..).map(Dev).zip(&remains.disks).filter(|(_, disk)| !disk.answers).map(|(dev, _)| dev).collect();
        let down = down & self.members();
        let controller = self.accepting.take().unwrap_or_else(|| self.cell.build(self.cache));
        let (history, log, planted) = (self.history, self.log.clone(), self.planted.as_ref());
        self.memory = Self::prepare_with(self.cache, controller, history, remains, log, planted);
        // Members that the start found missing may be lost together with open rows until that is noted.
        self.window = down;
        (self.unread, self.clean) = (true, false);
        self.memory.begin();
        self.watch_window();
        self.watch_doubt();
        self.notices()?;
        if let Status::Refused(why) = self.memory.status() {
            self.refusal(why)?;
        }
        Ok(())
    }

    /// A start may be refused only inside the double-fault window, or with too many members lost.
    pub(super) fn refusal(&mut self, why: Refusal) -> Result<(), String> {
        // The first reason counts; steps that were in flight may still report.
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
                matches!(geometry.level(), RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6) && excused(row)
            }
            Refusal::CacheLost { .. } => self.may_refuse_cache(),
            Refusal::NvramDamaged { .. } | Refusal::Nvram | Refusal::NoCollectors(_) => false,
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
}
