//! The loss of a cache device that has what no member has: what it costs may fail, until it is written
//! again from end to end, and never becomes what was there before; but for a start that accepts it.

use std::collections::{BTreeMap, BTreeSet};

use destage_plan::{Dev, DevSet, HostOp, Refusal, Status};
use destage_raid::array::ArrayConfig;

use super::HistoryRun;
use crate::asked::AskedRequests;
use crate::cell::PAGE_SECTORS;
use crate::dirty::dirty_pages;

/// Starts within which one goes on with all losses accepted.
const STARTS: u32 = 4;

/// Keeps the data whose loss is possible.
#[derive(Debug, Default)]
pub(super) struct RunDoubt {
    /// Pages that were dirty when a device was lost, or on their way to it.
    pages: BTreeSet<u64>,
    /// Of those that were and are written anew: when that was answered, by the model's time, unless it is durable.
    /// A start that accepts the loss may find what was there before.
    renewed: BTreeMap<u64, u64>,
    /// Pages that may have been dirty when this life began.
    before: BTreeSet<u64>,
    /// A device was lost in this life.
    lost: bool,
    /// Holds the time in the model at which the controller had heard of the loss. Later requests go past the
    /// device.
    known: Option<u64>,
    /// A start may be refused over it.
    refusable: bool,
}

impl RunDoubt {
    fn meets(&self, asked: &AskedRequests) -> bool {
        self.pages.range(asked.pages()).next().is_some()
    }
}

impl HistoryRun<'_> {
    /// The device that may have what no member has, if there is one.
    fn holder(&self) -> Option<Dev> {
        self.cache.holds_dirty.then(|| Dev(self.cell.geometry.members()))
    }

    /// Pages that are dirty, or on their way.
    fn dirty(&self) -> BTreeSet<u64> {
        dirty_pages(&self.cell.geometry, &self.asked, &**self.memory.engine().controller())
    }

    /// A device is about to be lost.
    pub(super) fn doubt(&mut self, dev: Dev) {
        if self.holder() != Some(dev) {
            return;
        }
        let dirty = self.dirty();
        let doubt = &mut self.doubt;
        doubt.pages.extend(dirty);
        (doubt.lost, doubt.known, doubt.refusable) = (true, None, true);
        self.excuse();
    }

    /// Requests on what is in doubt may fail, and parts of them have failed before they are answered.
    fn excuse(&mut self) {
        for asked in self.asked.iter_mut().filter(|asked| asked.op != HostOp::Flush) {
            asked.may_fail |= self.doubt.meets(asked);
        }
        self.model.set_may_fail(self.broken || self.asked.iter().any(|asked| asked.may_fail));
    }

    /// A request was submitted.
    pub(super) fn doubt_submitted(&mut self, at: usize) {
        let Some(holder) = self.holder() else { return };
        let asked = &self.asked[at];
        let writes = asked.writes();
        // Until the controller hears of the loss it sends writes to the dead device.
        if writes && self.memory.unannounced().contains(holder) {
            self.doubt.pages.extend(asked.pages());
        }
        if !self.doubt.pages.is_empty() {
            self.excuse();
        }
    }

    /// A request is answered; whether it may have failed.
    pub(super) fn doubt_answered(&mut self, asked: &AskedRequests, ok: bool) -> bool {
        if self.holder().is_none() {
            return false;
        }
        let may_fail = asked.may_fail;
        if may_fail {
            self.excuse();
        }
        let writes = asked.writes();
        // A page that is written anew past the device is in doubt no longer, once that is durable.
        if ok && writes && self.doubt.known.is_some_and(|known| known < asked.submitted) {
            // A part of a page does not renew the rest of it.
            let (first, end) = (asked.sector.div_ceil(PAGE_SECTORS), (asked.sector + asked.sectors) / PAGE_SECTORS);
            let durable = asked.fua || self.cell.every_write();
            let now = self.model.tick();
            for page in first..end {
                if self.doubt.pages.remove(&page) && !durable {
                    self.doubt.renewed.insert(page, now);
                } else if durable {
                    self.doubt.renewed.remove(&page);
                }
            }
        }
        if ok && asked.op == HostOp::Flush {
            self.doubt.renewed.retain(|_, answered| *answered > asked.submitted);
        }
        may_fail
    }

    /// Something happened.
    pub(super) fn watch_doubt(&mut self) {
        let Some(holder) = self.holder() else { return };
        let doubt = &mut self.doubt;
        if doubt.lost && doubt.known.is_none() && !self.memory.unannounced().contains(holder) {
            doubt.known = Some(self.model.tick());
        }
        let is_ready = self.memory.status() == Status::Ready && self.memory.is_durable();
        let is_noted = !self.memory.engine().controller().unnoted().contains(holder);
        if doubt.refusable && is_ready && is_noted && (!doubt.lost || doubt.known.is_some()) {
            // From here on the next start knows which pages are lost, so it need not refuse.
            doubt.refusable = false;
        }
        if is_ready && !doubt.lost && doubt.known.is_none() && !doubt.pages.is_empty() {
            doubt.known = Some(self.model.tick());
        }
    }

    /// The power is about to fail.
    pub(super) fn doubt_cut(&mut self) {
        if self.holder().is_none() {
            return;
        }
        let dirty = self.dirty();
        if self.memory.status() == Status::Ready {
            self.doubt.before.clear();
        }
        self.doubt.before.extend(dirty);
        (self.doubt.lost, self.doubt.known) = (false, None);
        // What was renewed and is not durable may be lost once more.
        self.doubt.pages.extend(std::mem::take(&mut self.doubt.renewed).into_keys());
    }

    /// Returns true if a start may be refused over a cache device.
    pub(super) const fn may_refuse_cache(&self) -> bool {
        self.doubt.refusable
    }

    /// A start was refused since what a cache device had is lost: makes one that accepts it. Then that is
    /// whatever is found, and all else what it must be.
    pub(super) fn accept_cache_loss(&mut self) -> Result<(), String> {
        for _ in 0..STARTS {
            let Status::Refused(Refusal::CacheLost { lost }) = self.memory.status() else { return Ok(()) };
            let accepted = lost.named().to_vec();
            let all = self.cell.geometry.data_pages();
            // Without the device's log nobody knows what it had, so every page is named.
            if accepted.iter().map(|range| range.pages).sum::<u64>() != all {
                return Err(format!("{accepted:?} is named as lost with the cache, of {all} pages"));
            }
            let gone = self.doubt.lost || self.holder().is_some_and(|dev| !self.memory.answers(dev));
            let mut pages = self.doubt.pages.clone();
            pages.extend(self.doubt.renewed.keys());
            if gone {
                pages.extend(&self.doubt.before);
            }
            let geometry = &self.cell.geometry;
            let torn = |page: &u64| {
                let place = geometry.locate(*page);
                self.hole.contains(geometry.row(place.stripe, place.row_in_chunk))
            };
            // What is lost with members is accepted by the same order.
            pages.extend((0..all).filter(torn));
            let config = ArrayConfig { accepted_losses: accepted, ..self.cell.array() };
            self.refused = false;
            self.accepting = Some(self.cell.build_with(self.cache, &config));
            self.cut(DevSet::EMPTY, None)?;
            for page in pages {
                self.model.forget(page * PAGE_SECTORS..(page + 1) * PAGE_SECTORS);
            }
            self.become_ready()?;
            self.report.accepted += u64::from(!self.refused);
        }
        Err(format!("{STARTS} starts are refused, though all is accepted"))
    }
}
