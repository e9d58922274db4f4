//! Waits for what must come to an end, and checks what must be true then.
//!
//! All requests are answered, losses noted and flushed, members whole again, and data as it was written.

use destage_exec::ReplacementContent;
use destage_plan::{Control, DevSet, HostOp, Status};
use destage_raid::RaidLevel;

use super::{HistoryRun, PATIENCE};
use crate::RandomDraws;
use crate::cell::PAGE_SECTORS;

impl HistoryRun<'_> {
    /// Lets one step end in a wait that must not last for ever.
    pub(super) fn wait(&mut self, patience: &mut u64, what: &str) -> Result<(), String> {
        if *patience == 0 {
            return Err(format!("{what} within {PATIENCE} steps:\n{:?}", self.memory.engine().out()));
        }
        *patience -= 1;
        // An idle machine without a timer would wait for ever: that is a bug at once, and no lack of patience.
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
        // A cache may take its time to write back what a loss exposes.
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
            // An array at rest has no excuse left for a loss that it has not noted.
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
        // An intent that stays open would let a start after a later loss be refused.
        if !self.memory.nvram().intents.is_empty() {
            return Err(format!("left alone, but intents are open: {:?}", self.memory.nvram().intents.ranges()));
        }
        if self.cell.geometry.level() != RaidLevel::Raid0 {
            self.model.flushed(submitted);
        }
        Ok(())
    }

    /// Reads every page.
    pub(super) fn read_all(&mut self) -> Result<(), String> {
        self.unread = false;
        let mut sector = 0;
        // A longer request would become one fragment after the other anyway.
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

    /// Stops cleanly.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        self.become_ready()?;
        self.drain()?;
        if self.refused {
            return Ok(());
        }
        self.clean = false;
        // A clean stop is a flush of everything acknowledged before it.
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
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.become_ready()?;
        self.accept_cache_loss()?;
        if self.refused {
            return Ok(());
        }
        if self.broken {
            // What is lost is lost, but whatever is answered must still be true.
            self.read_all()?;
            return self.drain();
        }
        for dev in self.lost().iter() {
            let content = if self.dice.one_in(2) {
                ReplacementContent::Zeros
            } else {
                ReplacementContent::Garbage(self.dice.draw())
            };
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
        while self.collecting.is_draining() && !self.refused {
            self.wait(&mut patience, "the cache is not drained")?;
        }
        self.read_all()?;
        self.scrub_all(self.history.seed.is_multiple_of(2))?;
        // Half of the histories end without an order to stop, since users pull plugs, too.
        if RandomDraws::part(self.history.seed, u64::MAX - 3).one_in(2) {
            self.leave_alone()?;
        } else {
            self.stop()?;
        }
        if self.refused {
            return Ok(());
        }
        // Nothing volatile may be needed after either end.
        self.cut(DevSet::EMPTY, None)?;
        self.become_ready()?;
        self.accept_cache_loss()?;
        if !self.lost().is_empty() {
            return Err(format!("members {:?} are lost again after a clean stop", self.lost()));
        }
        self.read_all()?;
        self.drain()
    }
}
