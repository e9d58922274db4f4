//! CLC (specs §5.3): a write buffer; the size-independent list SI and the lists D[s] per size, most
//! recent first.
//!
//! Not in the specification, resolved by the policy: a share in `si_max` is one of the clusters
//! buffered once the page is in, rounded up; with room for none the written cluster falls off SI at
//! once. A cluster of a D[s] that loses a page to a trim moves to the MRU of D[s−1], one of SI
//! stays where it is. A flush gives up the clusters in the order in which they would be evicted.

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::bplru::{Padding, Share};
use super::{Block, Left, Model, Objections, param, switch};

enum SiMax {
    Clusters(usize),
    Percent(Share),
}

pub(crate) struct ClcModel {
    si: Vec<Block>,
    /// `d[s]` for s from 0 to N; `d[0]` stays empty.
    d: Vec<Vec<Block>>,
    pages_per_block: u32,
    capacity: u32,
    si_max: SiMax,
    padding: Padding,
    protect_current: bool,
    memory_accesses: u64,
}

impl ClcModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        let si_max = param(spec, "si_max", "10%");
        Self {
            si: Vec::new(),
            d: (0..=config.pages_per_block).map(|_| Vec::new()).collect(),
            pages_per_block: config.pages_per_block,
            capacity: config.capacity_pages,
            si_max: match si_max.strip_suffix('%') {
                Some(percent) => SiMax::Percent(Share::parse(percent)),
                None => SiMax::Clusters(si_max.parse().expect("a number of clusters")),
            },
            padding: Padding::parse(param(spec, "padding", "never")),
            protect_current: switch(spec, "protect_current", false),
            memory_accesses: 0,
        }
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.si.iter().chain(self.d.iter().flatten())
    }

    /// The clusters in the order in which they would be chosen: the largest sizes first and from
    /// the LRU end, then SI.
    fn order(&self) -> Vec<u32> {
        let cold = self.d.iter().rev().flat_map(|list| list.iter().rev());
        cold.chain(self.si.iter().rev()).map(|b| b.number).collect()
    }

    fn take(&mut self, number: u32) -> Option<Block> {
        for list in self.d.iter_mut().chain([&mut self.si]) {
            if let Some(at) = list.iter().position(|b| b.number == number) {
                return Some(list.remove(at));
            }
        }
        None
    }

    fn make_room(&mut self, current: Option<u32>, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let mut order = self.order();
        if self.protect_current && order.len() > 1 {
            order.retain(|other| Some(*other) != current);
        }
        let welcome = order.iter().find(|other| !objections.to(**other * self.pages_per_block));
        let base = order.first().filter(|_| objections.exhausted == WhenExhausted::TakeBase);
        self.memory_accesses += u64::from(!order.is_empty());
        let Some(victim) = welcome.or(base) else { return false };
        self.give_up(*victim, out);
        true
    }

    fn give_up(&mut self, number: u32, out: &mut Vec<Left>) {
        let block = self.take(number).expect("a buffered cluster");
        let missing = block.missing(self.pages_per_block);
        if self.padding.applies(&block, self.pages_per_block) && !missing.is_empty() {
            out.push(Left::part(EvictionKind::Pad, &missing));
        }
        out.push(Left::unit(EvictionKind::Flush, &block.pages_that_are(true)));
    }

    /// Moves the LRU cluster of SI to the MRU of D[its size].
    fn leave_si(&mut self) {
        if let Some(cold) = self.si.pop() {
            self.memory_accesses += 1;
            self.d[cold.pages.len()].insert(0, cold);
        }
    }
}

impl Model for ClcModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        let number = page / self.pages_per_block;
        self.memory_accesses += 1;
        let hit = self.blocks().any(|b| b.holds(page));
        if !access.write {
            return if hit { AccessOutcome::Hit } else { AccessOutcome::Bypassed };
        }
        if !hit && self.len() == self.capacity && !self.make_room(Some(number), objections, out) {
            return AccessOutcome::Bypassed;
        }
        let mut block = self.take(number).unwrap_or_else(|| Block::new(number));
        block.pages.insert(page, true);
        let clusters = self.blocks().count() + 1;
        let si_max = match &self.si_max {
            SiMax::Clusters(most) => *most,
            // The smallest whole number that is not less than the share.
            SiMax::Percent(percent) => (0..=clusters)
                .find(|most| *most as u64 * 100 * percent.denominator >= clusters as u64 * percent.numerator)
                .expect("at most 100 percent"),
        };
        while !self.si.is_empty() && self.si.len() >= si_max {
            self.leave_si();
        }
        self.memory_accesses += 1;
        self.si.insert(0, block);
        if si_max == 0 {
            self.leave_si();
        }
        if hit { AccessOutcome::Hit } else { AccessOutcome::Inserted }
    }

    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        self.make_room(None, objections, out)
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        match notice {
            BufferNotice::Flush => {
                for number in self.order() {
                    self.give_up(number, out);
                }
            }
            BufferNotice::Trim { page } => {
                if let Some(block) = self.si.iter_mut().find(|b| b.holds(page.0)) {
                    block.pages.remove(&page.0);
                    out.push(Left::unit(EvictionKind::Drop, &[page.0]));
                } else if self.d.iter().flatten().any(|b| b.holds(page.0)) {
                    let mut block = self.take(page.0 / self.pages_per_block).expect("a cold cluster");
                    block.pages.remove(&page.0);
                    out.push(Left::unit(EvictionKind::Drop, &[page.0]));
                    self.d[block.pages.len()].insert(0, block);
                }
                self.si.retain(|b| !b.pages.is_empty());
                self.d[0].clear();
            }
            BufferNotice::Destage { page, .. } => {
                if self.blocks().any(|b| b.holds(page.0)) {
                    self.give_up(page.0 / self.pages_per_block, out);
                }
            }
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
        }
    }

    fn len(&self) -> u32 {
        self.blocks().map(|b| b.pages.len() as u32).sum()
    }

    fn dirty(&self) -> Vec<u32> {
        let mut pages: Vec<u32> = self.blocks().flat_map(|b| b.pages_that_are(true)).collect();
        pages.sort_unstable();
        pages
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }

    /// `B4 B3 | 1:B2; 2:B1`: SI, then the lists per size, most recently used first.
    fn state(&self) -> String {
        let names =
            |list: &[Block], between| list.iter().map(|b| format!("B{}", b.number)).collect::<Vec<_>>().join(between);
        let lists = self.d.iter().enumerate().filter(|(_, list)| !list.is_empty());
        let lists: Vec<_> = lists.map(|(size, list)| format!("{size}:{}", names(list, ","))).collect();
        format!("{} | {}", names(&self.si, " "), lists.join("; "))
    }
}
