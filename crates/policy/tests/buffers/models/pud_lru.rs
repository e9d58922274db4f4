//! PUD-LRU (specs §5.4): a write buffer; each block remembers when it was written since it entered.
//!
//! Not in the specification, resolved by the policy: UD is rounded down to a 4096th of a page
//! write; a page write that is not buffered does not count; a trim is no update; in the FUG ties go
//! to the block written earlier; where the IUG has no block that may go, the FUG is asked; a flush
//! gives the blocks up as evictions one after the other would.

use std::cmp::Reverse;

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::bplru::{Padding, Share};
use super::{Block, Left, Model, Objections, param, switch};

/// PUDs are counted in these parts of a page write: halves of 4096ths.
const PARTS: u128 = 2 * 4096;

struct History {
    block: Block,
    /// The times of its writes since it entered.
    writes: Vec<u64>,
}

impl History {
    fn last(&self) -> u64 {
        *self.writes.last().expect("a write brought it here")
    }

    /// In 4096ths of a page write; `None` if it was never updated.
    fn ud(&self) -> Option<u128> {
        let distances: Vec<u64> = self.writes.windows(2).map(|w| w[1] - w[0] - 1).collect();
        let sum: u64 = distances.iter().sum();
        (!distances.is_empty()).then(|| u128::from(sum) * 4096 / distances.len() as u128)
    }

    fn rd(&self, now: u64) -> u64 {
        now - self.last()
    }

    /// In [`PARTS`].
    fn pud(&self, now: u64) -> u128 {
        match self.ud() {
            Some(ud) => ud + u128::from(self.rd(now)) * 4096,
            None => u128::from(self.rd(now)) * PARTS,
        }
    }
}

/// A block and its PUD.
type WithPud<'a> = (u128, &'a History);

enum Threshold {
    Mean,
    Writes(Share),
}

pub(crate) struct PudLruModel {
    /// In the order of entry.
    blocks: Vec<History>,
    pages_per_block: u32,
    capacity: u32,
    threshold: Threshold,
    padding: Padding,
    protect_current: bool,
    /// Page writes buffered.
    t: u64,
    memory_accesses: u64,
}

impl PudLruModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            blocks: Vec::new(),
            pages_per_block: config.pages_per_block,
            capacity: config.capacity_pages,
            threshold: match param(spec, "threshold", "mean") {
                "mean" => Threshold::Mean,
                writes => Threshold::Writes(Share::parse(writes)),
            },
            padding: Padding::parse(param(spec, "padding", "never")),
            protect_current: switch(spec, "protect_current", false),
            t: 0,
            memory_accesses: 0,
        }
    }

    /// The blocks of the IUG and of the FUG with their PUDs, at the time of the write that comes
    /// now.
    fn groups(&self) -> (Vec<WithPud<'_>>, Vec<WithPud<'_>>) {
        let puds: Vec<_> = self.blocks.iter().map(|b| (b.pud(self.t + 1), b)).collect();
        let sum: u128 = puds.iter().map(|(pud, _)| pud).sum();
        puds.iter().partition(|(pud, _)| match &self.threshold {
            Threshold::Mean => pud * self.blocks.len() as u128 > sum,
            Threshold::Writes(writes) => pud * u128::from(writes.denominator) > u128::from(writes.numerator) * PARTS,
        })
    }

    /// The blocks in the order in which they would be chosen.
    fn order(&self) -> Vec<u32> {
        let (mut iug, mut fug) = self.groups();
        iug.sort_by_key(|(pud, b)| (Reverse(b.block.pages.len()), Reverse(*pud), b.last()));
        fug.sort_by_key(|(pud, b)| (Reverse(*pud), b.last()));
        iug.into_iter().chain(fug).map(|(_, b)| b.block.number).collect()
    }

    fn make_room(&mut self, current: Option<u32>, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let mut order = self.order();
        if self.protect_current && order.len() > 1 {
            order.retain(|other| Some(*other) != current);
        }
        let welcome = order.iter().find(|other| !objections.to(**other * self.pages_per_block));
        let base = order.first().filter(|_| objections.exhausted == WhenExhausted::TakeBase);
        self.memory_accesses += self.blocks.len() as u64;
        let Some(victim) = welcome.or(base) else { return false };
        self.give_up(*victim, out);
        true
    }

    fn give_up(&mut self, number: u32, out: &mut Vec<Left>) {
        let at = self.blocks.iter().position(|b| b.block.number == number).expect("a buffered block");
        let block = self.blocks.remove(at).block;
        let missing = block.missing(self.pages_per_block);
        if self.padding.applies(&block, self.pages_per_block) && !missing.is_empty() {
            out.push(Left::part(EvictionKind::Pad, &missing));
        }
        out.push(Left::unit(EvictionKind::Flush, &block.pages_that_are(true)));
    }
}

impl Model for PudLruModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        let number = page / self.pages_per_block;
        self.memory_accesses += 1;
        let hit = self.blocks.iter().any(|b| b.block.holds(page));
        if !access.write {
            return if hit { AccessOutcome::Hit } else { AccessOutcome::Bypassed };
        }
        if !hit && self.len() == self.capacity && !self.make_room(Some(number), objections, out) {
            return AccessOutcome::Bypassed;
        }
        if !self.blocks.iter().any(|b| b.block.number == number) {
            self.blocks.push(History { block: Block::new(number), writes: Vec::new() });
        }
        let entry = self.blocks.iter_mut().find(|b| b.block.number == number).expect("just entered");
        self.t += 1;
        entry.block.pages.insert(page, true);
        entry.writes.push(self.t);
        self.memory_accesses += 1;
        if hit { AccessOutcome::Hit } else { AccessOutcome::Inserted }
    }

    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        self.make_room(None, objections, out)
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        match notice {
            BufferNotice::Flush => {
                while !self.blocks.is_empty() {
                    self.give_up(self.order()[0], out);
                }
            }
            BufferNotice::Trim { page } => {
                if let Some(b) = self.blocks.iter_mut().find(|b| b.block.holds(page.0)) {
                    b.block.pages.remove(&page.0);
                    out.push(Left::unit(EvictionKind::Drop, &[page.0]));
                }
                self.blocks.retain(|b| !b.block.pages.is_empty());
            }
            BufferNotice::Destage { page, .. } => {
                if self.blocks.iter().any(|b| b.block.holds(page.0)) {
                    self.give_up(page.0 / self.pages_per_block, out);
                }
            }
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
        }
    }

    fn len(&self) -> u32 {
        self.blocks.iter().map(|b| b.block.pages.len() as u32).sum()
    }

    fn dirty(&self) -> Vec<u32> {
        let mut pages: Vec<u32> = self.blocks.iter().flat_map(|b| b.block.pages_that_are(true)).collect();
        pages.sort_unstable();
        pages
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }

    /// `t=7: B1{4,5} 1.5 1 1.25 FUG; B2{8} none 5 5 IUG`: the time of the next write, and by order
    /// of entry each block's UD, RD, PUD and group then.
    fn state(&self) -> String {
        let now = self.t + 1;
        let (iug, _) = self.groups();
        let words: Vec<_> = self
            .blocks
            .iter()
            .map(|b| {
                let ud = b.ud().map_or_else(|| "none".to_owned(), |ud| (ud as f64 / 4096.0).to_string());
                let pud = b.pud(now) as f64 / PARTS as f64;
                let is_infrequent = iug.iter().any(|(_, other)| other.block.number == b.block.number);
                let group = if is_infrequent { "IUG" } else { "FUG" };
                format!("{} {ud} {} {pud} {group}", b.block, b.rd(now))
            })
            .collect();
        format!("t={now}: {}", words.join("; "))
    }
}
