//! BPLRU (specs §5.2): a write buffer; a list of blocks, most recently written first; page padding;
//! LRU compensation.
//!
//! Not in the specification, resolved by the policy: a block that loses a page to a trim is no
//! longer written in sequence; a flush gives up the blocks in the order in which they would be
//! evicted.

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::{Block, Left, Model, Objections, param, switch};

/// A share as the exact fraction that its decimal digits say.
pub(super) struct Share {
    pub(super) numerator: u64,
    pub(super) denominator: u64,
}

impl Share {
    pub(super) fn parse(text: &str) -> Self {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let denominator = 10_u64.pow(fraction.len() as u32);
        let digits = format!("{whole}{fraction}");
        Self { numerator: digits.parse().expect("digits"), denominator }
    }
}

/// Selects the victims that are padded.
pub(super) enum Padding {
    Never,
    IfAtLeast(Share),
}

impl Padding {
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "always" => Self::IfAtLeast(Share::parse("0")),
            "never" => Self::Never,
            share => Self::IfAtLeast(Share::parse(share)),
        }
    }

    pub(super) fn applies(&self, block: &Block, pages_per_block: u32) -> bool {
        match self {
            Self::Never => false,
            Self::IfAtLeast(share) => {
                block.pages.len() as u64 * share.denominator >= share.numerator * pages_per_block as u64
            }
        }
    }
}

#[derive(PartialEq)]
enum Detect {
    Ordered,
    LastPageFull,
}

pub(crate) struct BplruModel {
    list: Vec<Block>,
    pages_per_block: u32,
    capacity: u32,
    padding: Padding,
    compensation: bool,
    detect: Detect,
    protect_current: bool,
    memory_accesses: u64,
}

impl BplruModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            list: Vec::new(),
            pages_per_block: config.pages_per_block,
            capacity: config.capacity_pages,
            padding: Padding::parse(param(spec, "padding", "always")),
            compensation: switch(spec, "compensation", true),
            detect: match param(spec, "seq_detect", "ordered") {
                "ordered" => Detect::Ordered,
                "last_page_full" => Detect::LastPageFull,
                other => panic!("the model knows no seq_detect={other}"),
            },
            protect_current: switch(spec, "protect_current", false),
            memory_accesses: 0,
        }
    }

    fn make_room(&mut self, current: Option<u32>, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let mut order: Vec<usize> = (0..self.list.len()).rev().collect();
        if self.protect_current && order.len() > 1 {
            order.retain(|at| Some(self.list[*at].number) != current);
        }
        let welcome = order.iter().find(|at| !objections.to(self.list[**at].number * self.pages_per_block));
        let base = order.first().filter(|_| objections.exhausted == WhenExhausted::TakeBase);
        self.memory_accesses += u64::from(!order.is_empty());
        let Some(at) = welcome.or(base) else { return false };
        self.give_up(*at, out);
        true
    }

    fn give_up(&mut self, at: usize, out: &mut Vec<Left>) {
        let block = self.list.remove(at);
        let cached: Vec<u32> = block.pages.keys().copied().collect();
        let missing = block.missing(self.pages_per_block);
        if self.padding.applies(&block, self.pages_per_block) && !missing.is_empty() {
            out.push(Left::part(EvictionKind::Pad, &missing));
        }
        out.push(Left::unit(EvictionKind::Flush, &cached));
    }

    /// Is true if a write to `offset` has just completed the block sequentially.
    fn is_sequential(&self, block: &Block, offset: u32) -> bool {
        match self.detect {
            Detect::Ordered => !block.trimmed && block.written.iter().copied().eq(0..self.pages_per_block),
            Detect::LastPageFull => {
                offset == self.pages_per_block - 1 && block.pages.len() as u32 == self.pages_per_block
            }
        }
    }
}

impl Model for BplruModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        let (number, offset) = (page / self.pages_per_block, page % self.pages_per_block);
        self.memory_accesses += 1;
        let hit = self.list.iter().any(|b| b.holds(page));
        if !access.write {
            return if hit { AccessOutcome::Hit } else { AccessOutcome::Bypassed };
        }
        if !hit && self.len() == self.capacity && !self.make_room(Some(number), objections, out) {
            return AccessOutcome::Bypassed;
        }
        let mut block = match self.list.iter().position(|b| b.number == number) {
            Some(at) => self.list.remove(at),
            None => Block::new(number),
        };
        self.memory_accesses += 1;
        block.pages.insert(page, true);
        block.written.push(offset);
        if self.compensation && self.is_sequential(&block, offset) {
            self.list.push(block);
        } else {
            self.list.insert(0, block);
        }
        if hit { AccessOutcome::Hit } else { AccessOutcome::Inserted }
    }

    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        self.make_room(None, objections, out)
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        match notice {
            BufferNotice::Flush => {
                while !self.list.is_empty() {
                    self.give_up(self.list.len() - 1, out);
                }
            }
            BufferNotice::Trim { page } => {
                if let Some(block) = self.list.iter_mut().find(|b| b.holds(page.0)) {
                    block.pages.remove(&page.0);
                    block.trimmed = true;
                    out.push(Left::unit(EvictionKind::Drop, &[page.0]));
                }
                self.list.retain(|b| !b.pages.is_empty());
            }
            BufferNotice::Destage { page, .. } => {
                if let Some(at) = self.list.iter().position(|b| b.holds(page.0)) {
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

    /// `B2{8,9,10} B3{12,15} B1{5,6}`: most recently used first.
    fn state(&self) -> String {
        self.list.iter().map(Block::to_string).collect::<Vec<_>>().join(" ")
    }
}
