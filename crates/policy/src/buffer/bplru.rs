//! BPLRU, block padding LRU (Kim and Ahn, FAST 2008; LB-CLOCK §III; specs §5.2).
//!
//! Idea: a write buffer in LRU order of logical blocks. The victim is padded: its missing pages are
//! read and the whole block is written in order, so that a log-block FTL can switch instead of
//! merge. A block written completely and in order is unlikely to be written again soon and becomes
//! the next victim at once (LRU compensation).
//!
//! Resolved: a read of a buffered page is served and moves nothing, other reads go to flash; a
//! sequence is the offsets 0, 1, …, N−1 each written exactly once and in order since the block
//! entered (`seq_detect=ordered`), or, as LB-CLOCK describes it, a write to the last page while all
//! others are buffered (`last_page_full`). A trim breaks a sequence.

mod vetoes;

use destage_plan::{ParamSpec, Params};

use super::options::PROTECT_CURRENT;
use super::padding::Padding;
use super::page_bits::PageBits;
use super::parking::Parking;
use super::{
    Access, AccessOutcome, Buffer, BufferConfig, BufferNotice, DeviceView, EvictionKind, EvictionUnit, Evictions,
    NO_BLOCK, PolicyError, PolicyInfo, Registered, Veto,
};
use crate::links::Links;

/// When the sequence of writes to a block is broken.
const BROKEN: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compensation {
    Off,
    Ordered,
    LastPageFull,
}

/// Block padding LRU.
#[derive(Clone, Debug)]
pub struct Bplru {
    pages_per_block: u32,
    capacity: u32,
    len: u32,
    /// Blocks with at least this many pages are padded; more than a block holds where none are.
    padding: Padding,
    compensation: Compensation,
    protect_current: bool,
    cached: PageBits,
    count: Vec<u32>,
    /// Offsets 0..k were each written once and in order, and nothing else was: k, or [`BROKEN`].
    sequence: Vec<u32>,
    /// Blocks buffered, parked ones included.
    blocks: u32,
    /// Node 0 is the sentinel, node `block + 1` the block; most recently used first.
    list: Links,
    /// What a veto passed over.
    parking: Parking,
    memory_accesses: u64,
}

const COMPENSATION: ParamSpec = ParamSpec {
    name: "compensation",
    default: "on",
    values: "on, off",
    unit: "-",
    help: "whether a block written completely and in order becomes the next victim",
};

const SEQ_DETECT: ParamSpec = ParamSpec {
    name: "seq_detect",
    default: "ordered",
    values: "ordered, last_page_full",
    unit: "-",
    help: "how such a block is recognised",
};

impl Registered for Bplru {
    const INFO: PolicyInfo = PolicyInfo {
        name: "bplru",
        title: "least recently used block, padded",
        about: "A write buffer in LRU order of logical blocks. The victim's missing pages are read and the block is \
                written whole and in order (padding), so that log-block FTLs switch instead of merge. A block that \
                was written completely and in order leaves next, since it is unlikely to be written again soon.",
        paper: "BPLRU, FAST 2008, as described by LB-CLOCK §III",
        unit: EvictionUnit::Block,
        chooses_channels: false,
        params: &[Padding::PARAM, COMPENSATION, SEQ_DETECT, PROTECT_CURRENT],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let n = config.pages_per_block;
        let detect = params.choice(
            SEQ_DETECT.name,
            &[("ordered", Compensation::Ordered), ("last_page_full", Compensation::LastPageFull)],
        )?;
        Ok(Self {
            pages_per_block: n,
            capacity: config.capacity_pages,
            len: 0,
            padding: Padding::of(n, params)?,
            compensation: if params.switch(COMPENSATION.name)? { detect } else { Compensation::Off },
            protect_current: params.switch(PROTECT_CURRENT.name)?,
            cached: PageBits::new(n),
            count: Vec::new(),
            sequence: Vec::new(),
            blocks: 0,
            list: Links::new(1),
            parking: Parking::default(),
            memory_accesses: 0,
        })
    }
}

impl Bplru {
    fn is_padded(&self, block: u32) -> bool {
        self.padding.applies(self.count[block as usize])
    }

    /// The block to give up, or `None` if every block is vetoed and the access shall bypass.
    #[inline]
    fn victim<V: Veto>(&mut self, current: u32, veto: &mut V) -> Option<u32> {
        self.memory_accesses += 1;
        // A block that is alone has no other to be spared for; the sentinel stands for none.
        let spared = if self.protect_current && self.blocks > 1 { current.wrapping_add(1) } else { 0 };
        if V::ACTIVE {
            return self.victim_under(spared, veto);
        }
        let last = self.list.prev(0);
        Some(if last == spared { self.list.prev(last) } else { last } - 1)
    }

    fn give_up(&mut self, block: u32, out: &mut Evictions) {
        self.padding.write_out(self.count[block as usize], &self.cached, block, out);
        self.forget(block);
    }

    fn forget(&mut self, block: u32) {
        self.len -= std::mem::take(&mut self.count[block as usize]);
        self.blocks -= 1;
        self.cached.clear_block(block);
        self.list.unlink(block + 1);
        self.parking.forget(block + 1);
    }

    /// Whether this write completes a block that is unlikely to be written again.
    #[inline]
    fn completes_sequence(&mut self, block: u32, offset: u32) -> bool {
        match self.compensation {
            Compensation::Off => false,
            Compensation::LastPageFull => {
                offset == self.pages_per_block - 1 && self.count[block as usize] == self.pages_per_block
            }
            Compensation::Ordered => {
                let sequence = &mut self.sequence[block as usize];
                *sequence = if *sequence == offset { offset + 1 } else { BROKEN };
                *sequence == self.pages_per_block
            }
        }
    }
}

impl Buffer for Bplru {
    fn grow(&mut self, pages: u32) {
        let blocks = pages.div_ceil(self.pages_per_block).max(self.count.len() as u32);
        self.cached.grow(blocks);
        self.count.resize(blocks as usize, 0);
        self.sequence.resize(blocks as usize, 0);
        self.list.grow(blocks + 1);
    }

    #[inline]
    fn access<D: DeviceView, V: Veto>(
        &mut self,
        access: Access,
        _device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        self.memory_accesses += 1;
        let (block, offset) = (access.page.0 / self.pages_per_block, access.page.0 % self.pages_per_block);
        let held = self.cached.get(block, offset);
        if !access.write {
            return if held { AccessOutcome::Hit } else { AccessOutcome::Bypassed };
        }
        if !held {
            if self.len == self.capacity {
                match self.victim(block, veto) {
                    Some(victim) => self.give_up(victim, out),
                    None => return AccessOutcome::Bypassed,
                }
            }
            self.cached.set(block, offset);
            if self.count[block as usize] == 0 {
                self.sequence[block as usize] = 0;
                self.blocks += 1;
            }
            self.count[block as usize] += 1;
            self.len += 1;
        }
        self.memory_accesses += 1;
        if self.completes_sequence(block, offset) {
            self.list.unlink(block + 1);
            self.list.insert_before(0, block + 1);
            if V::ACTIVE {
                self.parking.to_back(block + 1);
            }
        } else {
            self.list.move_after(0, block + 1);
            self.parking.used::<V>(block + 1);
        }
        if held { AccessOutcome::Hit } else { AccessOutcome::Inserted }
    }

    fn evict<D: DeviceView, V: Veto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        if self.len == 0 {
            return false;
        }
        let Some(victim) = self.victim(NO_BLOCK, veto) else { return false };
        self.give_up(victim, out);
        true
    }

    fn notify<D: DeviceView, V: Veto>(
        &mut self,
        notice: BufferNotice,
        _device: &D,
        _veto: &mut V,
        out: &mut Evictions,
    ) {
        match notice {
            BufferNotice::GcEnd { .. } | BufferNotice::Idle => {}
            BufferNotice::Resume { element } => self.parking.resume(element, 0, &mut self.list),
            BufferNotice::Destage { page, .. } => {
                let (block, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
                if self.cached.get(block, offset) {
                    self.give_up(block, out);
                }
            }
            BufferNotice::Flush => {
                self.parking.resume_all(0, &mut self.list);
                while self.len > 0 {
                    self.give_up(self.list.prev(0) - 1, out);
                }
            }
            BufferNotice::Trim { page } => {
                let (block, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
                if self.cached.get(block, offset) {
                    out.page(EvictionKind::Drop, page);
                    if self.count[block as usize] == 1 {
                        self.forget(block);
                    } else {
                        self.cached.clear(block, offset);
                        self.count[block as usize] -= 1;
                        self.len -= 1;
                        self.sequence[block as usize] = BROKEN;
                        self.parking.take_back(block + 1, 0, &mut self.list);
                    }
                }
            }
        }
    }

    fn admits(&self, access: Access) -> bool {
        access.write && !self.cached.get(access.page.0 / self.pages_per_block, access.page.0 % self.pages_per_block)
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }
}
