//! Tells what clients know of an array: what they wrote, what was answered, and what was accepted as lost.

use std::collections::BTreeSet;
use std::ops::Range;

use destage_crash::{SECTOR, SectorModel};
use destage_engine::{ArrayDescription, ByteRange};
use destage_plan::HostOp;
use destage_raid::array::DurabilityMode;

use super::served::{DATA, PAGE, PAGE_SECTORS};

/// Holds a request that is not answered.
#[derive(Clone, Debug)]
pub(super) struct AskedRequest {
    pub(super) tag: u64,
    pub(super) op: HostOp,
    pub(super) sector: u64,
    pub(super) sectors: u64,
    pub(super) fua: bool,
    pub(super) submitted: u64,
}

impl AskedRequest {
    pub(super) fn pages(&self) -> Range<u64> {
        self.sector / PAGE_SECTORS..(self.sector + self.sectors).div_ceil(PAGE_SECTORS)
    }
}

/// Holds what clients know of an array.
#[derive(Clone, Debug)]
pub struct ClientKnowledge {
    pub model: SectorModel,
    pub(super) asked: Vec<AskedRequest>,
    pub(super) number: u64,
    /// Tells that writes may be lost that were nowhere else.
    pub(super) has_given_up: bool,
    pub(super) given_up: BTreeSet<u64>,
}

impl ClientKnowledge {
    pub fn fresh(description: &ArrayDescription) -> Self {
        let every_write = description.array.durability == DurabilityMode::EveryWrite;
        let model = SectorModel::new(DATA / SECTOR as u64, PAGE_SECTORS, every_write);
        Self { model, asked: Vec::new(), number: 0, has_given_up: false, given_up: BTreeSet::new() }
    }

    /// Notes that the array has ended.
    pub fn end(&mut self, power: bool) {
        if !power {
            // Whatever was answered is there.
            let now = self.model.tick();
            self.model.flushed(now);
        }
        self.number += 1;
        self.model.cut(self.number);
        self.asked.clear();
    }

    /// Notes that it was stopped in order.
    pub fn stopped(&mut self) {
        self.end(false);
    }

    /// Notes that these pages are accepted as lost: they hold anything, or fail.
    pub fn give_up(&mut self, lost: &[ByteRange]) {
        for ByteRange { offset, bytes } in lost {
            let pages = offset / PAGE..(offset + bytes) / PAGE;
            self.model.forget(pages.start * PAGE_SECTORS..pages.end * PAGE_SECTORS);
            self.given_up.extend(pages);
        }
        self.model.set_may_fail(!self.given_up.is_empty());
    }

    /// Notes that whatever was on no member is accepted as lost: every page is what it was once.
    pub fn give_up_what_was_alone(&mut self) {
        self.model.forget(0..self.model.sectors());
        self.model.set_may_fail(true);
        self.has_given_up = true;
    }

    pub fn has_given_up_pages(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// Returns true if all of these pages are accepted as lost.
    pub fn has_given_up(&self, lost: &[ByteRange]) -> bool {
        let mut pages = lost.iter().flat_map(|range| range.offset / PAGE..(range.offset + range.bytes) / PAGE);
        pages.all(|page| self.given_up.contains(&page))
    }

    pub(super) fn is_given_up(&self, asked: &AskedRequest) -> bool {
        self.given_up.range(asked.pages()).next().is_some()
    }
}
