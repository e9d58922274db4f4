//! FAB (specs §5.1): a list of blocks, most recently used first; the largest block goes.
//!
//! Not in the specification, resolved by the policy: a flush gives up the blocks that have a dirty
//! page, in the order in which they would be evicted, and keeps the others.

use std::cmp::Reverse;

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::{Block, Left, Model, Objections, param, switch};

pub(crate) struct FabModel {
    list: Vec<Block>,
    pages_per_block: u32,
    capacity: u32,
    cache_reads: bool,
    protect_current: bool,
    memory_accesses: u64,
}

impl FabModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            list: Vec::new(),
            pages_per_block: config.pages_per_block,
            capacity: config.capacity_pages,
            cache_reads: param(spec, "reads", "cache") == "cache",
            protect_current: switch(spec, "protect_current", false),
            memory_accesses: 0,
        }
    }

    /// The blocks in the order in which they would be chosen: most pages first, then nearest to the
    /// LRU end.
    fn by_size(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.list.len()).rev().collect();
        order.sort_by_key(|at| Reverse(self.list[*at].pages.len()));
        order
    }

    fn make_room(&mut self, current: Option<u32>, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let mut order = self.by_size();
        if self.protect_current && order.len() > 1 {
            order.retain(|at| Some(self.list[*at].number) != current);
        }
        let welcome = order.iter().find(|at| !objections.to(self.list[**at].number * self.pages_per_block));
        let base = order.first().filter(|_| objections.exhausted == WhenExhausted::TakeBase);
        self.memory_accesses += self.list.len() as u64;
        let Some(at) = welcome.or(base) else { return false };
        self.give_up(*at, out);
        true
    }

    fn give_up(&mut self, at: usize, out: &mut Vec<Left>) {
        let block = self.list.remove(at);
        let (dirty, clean) = (block.pages_that_are(true), block.pages_that_are(false));
        if !dirty.is_empty() && !clean.is_empty() {
            out.push(Left::part(EvictionKind::Flush, &dirty));
            out.push(Left::unit(EvictionKind::Drop, &clean));
        } else if !dirty.is_empty() {
            out.push(Left::unit(EvictionKind::Flush, &dirty));
        } else {
            out.push(Left::unit(EvictionKind::Drop, &clean));
        }
    }
}

impl Model for FabModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        let number = page / self.pages_per_block;
        // The lookup; the move comes with a hit or an insertion.
        self.memory_accesses += 1;
        let hit = self.list.iter().any(|b| b.holds(page));
        if !hit && !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        if !hit && self.len() == self.capacity && !self.make_room(Some(number), objections, out) {
            return AccessOutcome::Bypassed;
        }
        let mut block = match self.list.iter().position(|b| b.number == number) {
            Some(at) => self.list.remove(at),
            None => Block::new(number),
        };
        self.memory_accesses += 1;
        *block.pages.entry(page).or_insert(false) |= access.write;
        self.list.insert(0, block);
        if hit { AccessOutcome::Hit } else { AccessOutcome::Inserted }
    }

    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        self.make_room(None, objections, out)
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        match notice {
            BufferNotice::Flush => {
                let is_dirty = |at: &usize| !self.list[*at].pages_that_are(true).is_empty();
                let numbers: Vec<u32> =
                    self.by_size().into_iter().filter(is_dirty).map(|at| self.list[at].number).collect();
                for number in numbers {
                    let at = self.list.iter().position(|b| b.number == number).expect("still there");
                    self.give_up(at, out);
                }
            }
            BufferNotice::Trim { page } => {
                if let Some(block) = self.list.iter_mut().find(|b| b.holds(page.0)) {
                    block.pages.remove(&page.0);
                    out.push(Left::unit(EvictionKind::Drop, &[page.0]));
                }
                self.list.retain(|b| !b.pages.is_empty());
            }
            BufferNotice::Destage { page, keep } => {
                let Some(at) = self.list.iter().position(|b| b.holds(page.0)) else { return };
                let dirty = self.list[at].pages_that_are(true);
                if keep && !dirty.is_empty() {
                    self.list[at].pages.values_mut().for_each(|dirty| *dirty = false);
                    out.push(Left::unit(EvictionKind::Clean, &dirty));
                } else if !dirty.is_empty() {
                    self.give_up(at, out);
                }
            }
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
        }
    }

    fn len(&self) -> u32 {
        self.list.iter().map(|b| b.pages.len() as u32).sum()
    }

    fn dirty(&self) -> Vec<u32> {
        let mut pages: Vec<u32> = self.list.iter().flat_map(|b| b.pages_that_are(true)).collect();
        pages.sort_unstable();
        pages
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }

    /// `B3{12} B2{8,9} B1{4,5}`: most recently used first.
    fn state(&self) -> String {
        self.list.iter().map(Block::to_string).collect::<Vec<_>>().join(" ")
    }
}
