//! BAST and FAST against a model of them that was written from the rules (specs §1.4 and the
//! layers' own descriptions) and shares no code with them: an element is a list of blocks with a
//! use, a block a list of slots, and everything is found by looking at all of them. After every
//! operation all that can be seen of the SSD is compared.

use std::collections::BTreeMap;

use destage_plan::{Element, Nanos, PageGeometry, PageNo};
use destage_policy::buffer::DeviceView;
use destage_sim::ssd::{ElementCounters, Ftl, PageAllocation, PageStates, Ssd, SsdConfig, SsdShape, StartState};
use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

fn below(rng: &mut Xoshiro256PlusPlus, bound: u32) -> u32 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u32
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Clean,
    Valid(u32),
    Stale(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    Data(u32),
    /// BAST's log block of this block, or FAST's sequential one.
    Own(u32),
    Random,
    /// Being reclaimed.
    Victim,
}

/// Collections that an SSD keeps in mind ahead of time.
const COLLECTIONS_AHEAD: usize = 1 << 14;

#[derive(Clone, Debug)]
struct Block {
    slots: Vec<Slot>,
    purpose: Use,
    /// Holds the time of the last write (BAST), or of the begin (FAST).
    stamp: u64,
    erases: u32,
}

impl Block {
    fn written(&self) -> usize {
        self.slots.iter().filter(|slot| **slot != Slot::Clean).count()
    }

    fn any_valid(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot, Slot::Valid(_)))
    }
}

#[derive(Clone, Debug)]
struct ElementModel {
    blocks: Vec<Block>,
    search_from: usize,
    busy_until: u64,
    /// Those that have not ended, and some that have: from, until.
    collections: Vec<(u64, u64)>,
    did: ElementCounters,
}

impl ElementModel {
    fn free(&self) -> usize {
        self.blocks.iter().filter(|block| block.purpose == Use::Free).count()
    }

    /// Log blocks of this kind, the one to be reclaimed first in front.
    fn logs(&self, of: fn(Use) -> bool) -> Vec<usize> {
        let mut logs: Vec<_> = (0..self.blocks.len()).filter(|&block| of(self.blocks[block].purpose)).collect();
        logs.sort_by_key(|&block| self.blocks[block].stamp);
        logs
    }

    /// Takes note, at this time, of a collection from `start` until the element is idle. An SSD
    /// keeps only so many in mind that have not ended; what comes beyond that belongs to the last.
    fn collects(&mut self, now: u64, start: u64) {
        self.collections.retain(|&(_, end)| end > now);
        let is_full = self.collections.len() == COLLECTIONS_AHEAD;
        match self.collections.last_mut() {
            Some(last) if is_full => last.1 = self.busy_until,
            _ => self.collections.push((start, self.busy_until)),
        }
    }
}

/// Element, block, slot.
type At = (usize, usize, usize);

/// Holds the work of a collection for an element.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    reads_for_others: u64,
    receives: bool,
    time: u64,
}

struct Model {
    config: SsdConfig,
    n: usize,
    log_blocks: usize,
    transfer: u64,
    elements: Vec<ElementModel>,
    host_pages: u32,
    next: usize,
    redirected: u64,
    stamp: u64,
    shares: BTreeMap<usize, Share>,
}

impl Model {
    fn new(config: &SsdConfig, geometry: PageGeometry, start: StartState) -> Self {
        let n = geometry.pages_per_block();
        let blocks = config.planes * config.blocks_per_plane;
        let reserved = config.blocks_per_plane * config.reserve_bp / 10_000 * config.planes;
        let exported = (blocks - reserved) * n;
        let block = Block { slots: vec![Slot::Clean; n as usize], purpose: Use::Free, stamp: 0, erases: 0 };
        let element = ElementModel {
            blocks: vec![block; blocks as usize],
            search_from: 0,
            busy_until: 0,
            collections: Vec::new(),
            did: ElementCounters::default(),
        };
        let mut model = Self {
            config: config.clone(),
            n: n as usize,
            log_blocks: config.log_blocks.unwrap_or(reserved - 1) as usize,
            transfer: geometry.page_bytes() / 512 * 528 * config.transfer_ps_per_byte / 1000,
            elements: vec![element; config.elements as usize],
            host_pages: exported / config.stride * config.stride * config.elements,
            next: 0,
            redirected: 0,
            stamp: 0,
            shares: BTreeMap::new(),
        };
        let pages = model.host_pages;
        match start {
            StartState::Empty => {}
            StartState::Full => (0..pages).for_each(|page| _ = model.write(0, page, None)),
            StartState::Random { seed } => {
                // Fisher and Yates, from the end.
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
                let mut order: Vec<u32> = (0..pages).collect();
                for i in (1..order.len()).rev() {
                    order.swap(i, below(&mut rng, i as u32 + 1) as usize);
                }
                for page in order {
                    model.write(0, page, None);
                }
            }
            StartState::Steady { .. } => unreachable!("the models begin in states that are told in full"),
            StartState::Aged { overwrites_pct, seed } => {
                (0..pages).for_each(|page| _ = model.write(0, page, None));
                model.next = 0;
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
                for _ in 0..u64::from(pages) * u64::from(overwrites_pct) / 100 {
                    let page = below(&mut rng, pages);
                    model.write(0, page, None);
                }
            }
        }
        for element in &mut model.elements {
            element.busy_until = 0;
            element.collections.clear();
            element.did = ElementCounters::default();
            element.blocks.iter_mut().for_each(|block| block.erases = 0);
        }
        (model.next, model.redirected) = (0, 0);
        model
    }

    fn home(&self, page: u32) -> Option<usize> {
        let fixed = self.config.allocation == PageAllocation::Static;
        fixed.then(|| (page / self.config.stride % self.config.elements) as usize)
    }

    /// Lists the elements in which a block may begin, from the first choice on.
    fn candidates(&self, first: usize) -> Vec<usize> {
        let count = self.elements.len();
        let rounds = if self.config.allocation == PageAllocation::Static { 1 } else { 2 * count };
        (0..rounds).map(|i| (first + i) % count).collect()
    }

    fn find(&self, page: u32) -> Option<At> {
        self.elements.iter().enumerate().find_map(|(e, element)| {
            element.blocks.iter().enumerate().find_map(|(b, block)| {
                block.slots.iter().position(|slot| *slot == Slot::Valid(page)).map(|slot| (e, b, slot))
            })
        })
    }

    fn used_as(&self, purpose: Use) -> Option<(usize, usize)> {
        self.elements.iter().enumerate().find_map(|(e, element)| {
            element.blocks.iter().position(|block| block.purpose == purpose).map(|block| (e, block))
        })
    }

    /// The next free block from where the last one was.
    fn take(&mut self, element: usize, purpose: Use) -> (usize, usize) {
        self.stamp += 1;
        let e = &mut self.elements[element];
        let count = e.blocks.len();
        let is_free = |block: &usize| e.blocks[*block].purpose == Use::Free;
        let found = (0..count).map(|i| (e.search_from + i) % count).find(is_free).expect("a free block");
        e.search_from = (found + 1) % count;
        e.blocks[found].purpose = purpose;
        e.blocks[found].stamp = self.stamp;
        (element, found)
    }

    fn read(&mut self, now: u64, page: u32) -> u64 {
        let Some((element, _, _)) = self.find(page) else {
            let counts = self.home(page).unwrap_or(self.next);
            self.elements[counts].did.unmapped_reads += 1;
            return now;
        };
        self.elements[element].did.flash_reads += 1;
        self.spend(element, now, self.config.read.0 + self.transfer)
    }

    fn spend(&mut self, element: usize, now: u64, time: u64) -> u64 {
        let e = &mut self.elements[element];
        e.busy_until = e.busy_until.max(now) + time;
        e.did.busy_time += Nanos(time);
        e.busy_until
    }

    fn trim(&mut self, page: u32) {
        if let Some((e, b, s)) = self.find(page) {
            self.elements[e].blocks[b].slots[s] = Slot::Stale(page);
        }
    }

    fn write(&mut self, now: u64, page: u32, choice: Option<u32>) -> u64 {
        let home = self.home(page);
        let first = home.unwrap_or_else(|| choice.map_or(self.next, |channel| channel as usize));
        // A block that is full or in the way is reclaimed, and the place looked for anew.
        let ((e, b, s), by_choice) = loop {
            if let Some(place) = self.place(now, page, first) {
                break place;
            }
        };
        self.trim(page);
        self.elements[e].blocks[b].slots[s] = Slot::Valid(page);
        if home.is_none() {
            if let Some(channel) = choice {
                self.redirected += u64::from(channel as usize != e);
            } else if by_choice {
                self.next = (first + 1) % self.elements.len();
            }
        }
        self.elements[e].did.host_programs += 1;
        self.spend(e, now, self.config.program.0 + self.transfer)
    }

    fn place(&mut self, now: u64, page: u32, first: usize) -> Option<(At, bool)> {
        let (block, offset) = (page / self.n as u32, page as usize % self.n);
        let own = self.used_as(Use::Own(block));
        let Some((e, b)) = self.used_as(Use::Data(block)) else {
            let room = self.candidates(first).into_iter().find(|&e| self.elements[e].free() >= 2);
            let (e, b) = self.take(room.expect("room"), Use::Data(block));
            return Some(((e, b, offset), true));
        };
        let erased = self.elements[e].blocks[b].slots[offset] == Slot::Clean;
        if self.config.ftl == Ftl::Bast {
            return match own {
                None if erased => Some(((e, b, offset), false)),
                None => Some((self.begin_bast(now, block, first), true)),
                Some((e, b)) if self.elements[e].blocks[b].written() == self.n => {
                    self.reclaim(now, e, b);
                    None
                }
                Some((e, b)) => {
                    self.stamp += 1;
                    self.elements[e].blocks[b].stamp = self.stamp;
                    Some(((e, b, self.elements[e].blocks[b].written()), false))
                }
            };
        }
        match own {
            _ if erased => Some(((e, b, offset), false)),
            Some((e, b)) if self.elements[e].blocks[b].written() == offset => Some(((e, b, offset), false)),
            Some((e, b)) => {
                self.reclaim(now, e, b);
                None
            }
            None if offset == 0 => Some((self.begin_sequential(now, block, first), true)),
            None => self.append_random(now, first).map(|at| (at, true)),
        }
    }

    fn begin_bast(&mut self, now: u64, block: u32, first: usize) -> At {
        for e in self.candidates(first) {
            let logs = self.elements[e].logs(|purpose| matches!(purpose, Use::Own(_)));
            if logs.len() == self.log_blocks {
                self.reclaim(now, e, logs[0]);
            }
            if self.elements[e].free() >= 2 {
                let (e, b) = self.take(e, Use::Own(block));
                return (e, b, 0);
            }
        }
        panic!("no room for a log block");
    }

    fn begin_sequential(&mut self, now: u64, block: u32, first: usize) -> At {
        for e in self.candidates(first) {
            for log in self.elements[e].logs(|purpose| matches!(purpose, Use::Own(_))) {
                self.reclaim(now, e, log);
            }
            if self.elements[e].free() >= 2 {
                let (e, b) = self.take(e, Use::Own(block));
                return (e, b, 0);
            }
        }
        panic!("no room for the sequential log block");
    }

    fn append_random(&mut self, now: u64, first: usize) -> Option<At> {
        for e in self.candidates(first) {
            let logs = self.elements[e].logs(|purpose| purpose == Use::Random);
            if let Some(&last) = logs.last()
                && self.elements[e].blocks[last].written() < self.n
            {
                return Some((e, last, self.elements[e].blocks[last].written()));
            }
            let room = self.elements[e].free() >= 2;
            if logs.len() == self.log_blocks - 1 || !room && !logs.is_empty() {
                self.reclaim(now, e, logs[0]);
                return None;
            }
            if room {
                let (e, b) = self.take(e, Use::Random);
                return Some((e, b, 0));
            }
        }
        panic!("no room for a random log block");
    }

    fn reclaim(&mut self, now: u64, e: usize, b: usize) {
        let purpose = std::mem::replace(&mut self.elements[e].blocks[b].purpose, Use::Victim);
        match purpose {
            Use::Own(owner) => {
                let slots = &self.elements[e].blocks[b].slots;
                let place = |page: u32| page as usize % self.n;
                let in_order = slots.iter().enumerate().all(|(i, slot)| match *slot {
                    Slot::Clean => true,
                    Slot::Valid(page) | Slot::Stale(page) => place(page) == i,
                });
                if !self.elements[e].blocks[b].any_valid() {
                    self.erase(e, b);
                } else if in_order {
                    self.complete(owner, e, b);
                } else {
                    self.rebuild(owner, e);
                    self.erase(e, b);
                }
            }
            Use::Random => {
                for slot in 0..self.n {
                    // What was merged meanwhile is no longer valid here.
                    let Slot::Valid(page) = self.elements[e].blocks[b].slots[slot] else { continue };
                    let owner = page / self.n as u32;
                    if let Some((e, b)) = self.used_as(Use::Own(owner)) {
                        self.complete(owner, e, b);
                    } else {
                        let (e, _) = self.used_as(Use::Data(owner)).expect("a data block");
                        self.rebuild(owner, e);
                    }
                }
                self.erase(e, b);
            }
            other => panic!("{other:?} is not reclaimed"),
        }
        self.charge(now, e);
    }

    /// The log block receives what it lacks and becomes the data block.
    fn complete(&mut self, owner: u32, e: usize, b: usize) {
        let written = self.elements[e].blocks[b].written();
        let did = &mut self.elements[e].did;
        *(if written == self.n { &mut did.switch_merges } else { &mut did.partial_merges }) += 1;
        self.gather(owner, written, e, b);
        let (old_e, old_b) = self.used_as(Use::Data(owner)).expect("a data block");
        self.erase(old_e, old_b);
        self.elements[e].blocks[b].purpose = Use::Data(owner);
    }

    /// All pages of a block come into a new one.
    fn rebuild(&mut self, owner: u32, element: usize) {
        self.elements[element].did.full_merges += 1;
        let (e, b) = self.take(element, Use::Victim);
        self.gather(owner, 0, e, b);
        let (old_e, old_b) = self.used_as(Use::Data(owner)).expect("a data block");
        self.erase(old_e, old_b);
        self.elements[e].blocks[b].purpose = Use::Data(owner);
    }

    fn gather(&mut self, owner: u32, from: usize, e: usize, b: usize) {
        let per_plane = self.config.blocks_per_plane as usize;
        let (read, program) = (self.config.read.0, self.config.program.0);
        for offset in from..self.n {
            let page = owner * self.n as u32 + offset as u32;
            let Some((from_e, from_b, slot)) = self.find(page) else { continue };
            self.elements[from_e].blocks[from_b].slots[slot] = Slot::Stale(page);
            self.elements[e].blocks[b].slots[offset] = Slot::Valid(page);
            self.elements[e].did.gc_pages_moved += 1;
            if from_e != e {
                self.shares.entry(from_e).or_default().reads_for_others += 1;
                let share = self.shares.entry(e).or_default();
                share.receives = true;
                share.time += program + self.transfer;
            } else if from_b / per_plane == b / per_plane {
                self.shares.entry(e).or_default().time += read + program;
            } else {
                self.shares.entry(e).or_default().time += read + program + 2 * self.transfer;
            }
        }
    }

    fn erase(&mut self, e: usize, b: usize) {
        let block = &mut self.elements[e].blocks[b];
        assert!(!block.any_valid(), "data is lost");
        block.slots.fill(Slot::Clean);
        block.purpose = Use::Free;
        block.erases += 1;
        self.elements[e].did.erases += 1;
        self.shares.entry(e).or_default().time += self.config.erase.0;
    }

    /// Reads for others first; whoever receives pages goes on when all of those have been read.
    fn charge(&mut self, now: u64, at: usize) {
        let shares = std::mem::take(&mut self.shares);
        let read = self.config.read.0 + self.transfer;
        let reads = |share: &Share| share.reads_for_others * read;
        let start = |model: &Self, e: usize| model.elements[e].busy_until.max(now);
        let readers = shares.iter().filter(|(_, share)| share.reads_for_others > 0);
        let all_read = readers.map(|(&e, share)| start(self, e) + reads(share)).max().unwrap_or(0);
        for (e, share) in shares {
            let start = start(self, e);
            let resumes = (start + reads(&share)).max(if share.receives { all_read } else { 0 });
            let element = &mut self.elements[e];
            element.busy_until = resumes + share.time;
            element.collects(now, start);
            element.did.gc_time += Nanos(reads(&share) + share.time);
            element.did.busy_time += Nanos(reads(&share) + share.time);
        }
        self.elements[at].did.gc_invocations += 1;
    }

    fn states(&self) -> PageStates {
        let mut states = PageStates::default();
        for slot in self.elements.iter().flat_map(|e| &e.blocks).flat_map(|block| &block.slots) {
            match slot {
                Slot::Clean => states.free += 1,
                Slot::Valid(_) => states.valid += 1,
                Slot::Stale(_) => states.invalid += 1,
            }
        }
        states
    }
}

#[track_caller]
fn compare(ssd: &mut Ssd, model: &Model, now: u64, what: &str) {
    for (e, (seen, expected)) in (0..).zip(ssd.counters().zip(&model.elements)) {
        assert_eq!(*seen, expected.did, "{what}: counters of element {e} (left: the SSD)");
        assert_eq!(ssd.free_blocks(Element(e)) as usize, expected.free(), "{what}: free blocks of element {e}");
        assert_eq!(ssd.busy_until(Element(e)), Nanos(expected.busy_until), "{what}: element {e}");
    }
    assert_eq!(ssd.page_states(), model.states(), "{what}: page states");
    assert_eq!(ssd.redirected(), model.redirected, "{what}: redirected");
    ssd.set_now(Nanos(now));
    for (e, element) in (0..).zip(&model.elements) {
        let collecting = element.collections.iter().any(|&(start, end)| start <= now && now < end);
        assert_eq!(ssd.collecting(Element(e)), collecting, "{what}: element {e} collects");
    }
}

/// Random operations on a small SSD and its model; what the SSD did.
fn driven(config: &SsdConfig, pages_per_block: u64, start: StartState, operations: u32, seed: u64) -> ElementCounters {
    let geometry = PageGeometry::new(4096, pages_per_block).expect("a geometry");
    let shape = SsdShape::new(config.clone(), geometry).unwrap_or_else(|error| panic!("{config:?}: {error}"));
    let mut model = Model::new(config, geometry, start);
    assert_eq!((shape.host_pages, shape.log_blocks as usize), (model.host_pages, model.log_blocks), "{config:?}");
    let mut ssd = Ssd::new(shape, start);
    let pages = ssd.shape().host_pages;
    let in_channels = config.allocation == PageAllocation::Channels;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut now, mut next, mut channel) = (0, 0, 0);
    compare(&mut ssd, &model, now, "at the start");
    for operation in 0..operations {
        now += match below(&mut rng, 8) {
            0 => u64::from(below(&mut rng, 12_000_000)),
            1..3 => u64::from(below(&mut rng, 300_000)),
            _ => 0,
        };
        // In sequence, from the beginning of a block, near the beginning, anywhere.
        let page = match below(&mut rng, 16) {
            0..8 => next,
            8 => below(&mut rng, pages) / pages_per_block as u32 * pages_per_block as u32,
            9..12 => below(&mut rng, pages / 8 + 1),
            _ => below(&mut rng, pages),
        };
        next = (page + 1) % pages;
        // Long stretches through one channel.
        if below(&mut rng, 40) == 0 {
            channel = below(&mut rng, config.elements);
        }
        let choice = (in_channels && below(&mut rng, 4) > 0).then_some(channel);
        let (done, expected) = match below(&mut rng, 100) {
            0..15 => (ssd.read(Nanos(now), PageNo(page)), model.read(now, page)),
            15..22 => {
                // Now and then all of a block.
                let first = page / pages_per_block as u32 * pages_per_block as u32;
                let all = below(&mut rng, 8) == 0;
                let trimmed = if all { first..first + pages_per_block as u32 } else { page..page + 1 };
                for page in trimmed {
                    ssd.trim(PageNo(page));
                    model.trim(page);
                }
                (Nanos(now), now)
            }
            _ => {
                let done = match choice {
                    Some(channel) => ssd.program_through(Nanos(now), PageNo(page), channel),
                    None => ssd.program(Nanos(now), PageNo(page)),
                };
                (done, model.write(now, page, choice))
            }
        };
        let what = format_args!("operation {operation} on page {page}, {start:?}, {config:?}").to_string();
        assert_eq!(done, Nanos(expected), "{what}: completion (left: the SSD)");
        compare(&mut ssd, &model, now, &what);
        if operation % 512 == 0 {
            ssd.check().unwrap_or_else(|error| panic!("{what}: {error}"));
            let erases = model.elements.iter().flat_map(|element| &element.blocks).map(|block| block.erases);
            assert!(ssd.erases().eq(erases), "{what}: erases per block");
            let held = |model: &Model, page| model.find(page).map(|(element, _, _)| Element(element as u32));
            for page in 0..pages {
                if let Some(element) = held(&model, page) {
                    assert_eq!(ssd.element_of(PageNo(page)), element, "{what}: element of page {page}");
                }
            }
        }
    }
    ssd.check().unwrap_or_else(|error| panic!("{config:?}: {error}"));
    ssd.total()
}

/// Returns the factor by which `make soak` repeats the tests.
fn soak() -> u32 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 20 } else { 1 }
}

fn small(ftl: Ftl, pages_per_block: u32) -> SsdConfig {
    SsdConfig {
        ftl,
        elements: 2,
        planes: 2,
        blocks_per_plane: 12,
        reserve_bp: 2500,
        lanes: 2,
        stride: pages_per_block,
        summary_page: false,
        ..SsdConfig::default()
    }
}

const STARTS: [StartState; 4] = [
    StartState::Full,
    StartState::Empty,
    StartState::Random { seed: 3 },
    StartState::Aged { overwrites_pct: 150, seed: 4 },
];

/// Every combination of layer, number of log blocks, start state and transfer time, all of which
/// merge in every way.
fn every_combination(allocation: PageAllocation, operations: u32) {
    let mut seed = 0;
    for ftl in [Ftl::Bast, Ftl::Fast] {
        for log_blocks in [None, Some(2), Some(3)] {
            for start in STARTS {
                seed += 1;
                let stride = if allocation == PageAllocation::Channels { 1 } else { 4 };
                let transfer_ps_per_byte = if seed % 2 == 0 { 25_000 } else { 0 };
                let config = SsdConfig { allocation, log_blocks, stride, transfer_ps_per_byte, ..small(ftl, 4) };
                let did = driven(&config, 4, start, operations * soak(), seed);
                let merges = [did.switch_merges, did.partial_merges, did.full_merges];
                assert!(merges.iter().all(|&count| count > 10), "{merges:?} are no test of merges: {config:?}");
            }
        }
    }
}

#[test]
fn with_static_allocation() {
    every_combination(PageAllocation::Static, 20_000);
}

#[test]
fn in_channels() {
    every_combination(PageAllocation::Channels, 20_000);
}

/// One page per block, blocks larger than a word, one element, many, strides of several blocks, and
/// the fewest log blocks.
#[test]
fn odd_sizes() {
    for (ftl, fewest) in [(Ftl::Bast, 1), (Ftl::Fast, 2)] {
        let one = SsdConfig { elements: 1, planes: 1, lanes: 1, log_blocks: Some(fewest), ..small(ftl, 1) };
        driven(&one, 1, StartState::Full, 3_000, 1);
        let large = SsdConfig { stride: 70, reserve_bp: 4000, ..one.clone() };
        driven(&large, 70, StartState::Full, 3_000, 2);
        let many = SsdConfig { elements: 5, stride: 12, ..one.clone() };
        driven(&many, 4, StartState::Full, 3_000, 3);
        // The smallest reserve: nothing is left over in any channel.
        let tight = |log_blocks| SsdConfig {
            elements: 3,
            allocation: PageAllocation::Channels,
            stride: 1,
            reserve_bp: 2500,
            log_blocks,
            ..one.clone()
        };
        driven(&tight(None), 4, StartState::Full, 6_000, 4);
        driven(&tight(Some(fewest)), 4, StartState::Aged { overwrites_pct: 300, seed: 9 }, 6_000, 5);
    }
}

fn any_config() -> impl Strategy<Value = (SsdConfig, u64)> {
    let shape = (1..4_u32, 1..3_u32, 4..16_u32, 0..6000_u32, any::<bool>());
    let logs = prop_oneof![Just(None), (1..6_u32).prop_map(Some)];
    let ways = (any::<bool>(), 1..3_u32, prop::sample::select(vec![1_u64, 2, 3, 4, 7]), logs);
    (shape, ways).prop_map(
        |((elements, planes, blocks_per_plane, reserve_bp, bast), (channels, strides, n, log_blocks))| {
            let config = SsdConfig {
                ftl: if bast { Ftl::Bast } else { Ftl::Fast },
                log_blocks,
                elements,
                allocation: if channels { PageAllocation::Channels } else { PageAllocation::Static },
                planes,
                blocks_per_plane,
                reserve_bp,
                lanes: 1,
                stride: if channels { 1 } else { strides * n as u32 },
                summary_page: false,
                ..SsdConfig::default()
            };
            (config, n)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300 * soak(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_shape_is_refused_or_agrees_with_the_model((config, n) in any_config(), start in 0..4_usize, seed: u64) {
        let geometry = PageGeometry::new(4096, n).expect("a geometry");
        if SsdShape::new(config.clone(), geometry).is_ok() {
            driven(&config, n, STARTS[start], 600, seed);
        }
    }
}

/// Nothing but one channel is ever chosen: it fills up, others take over, and all still works.
#[test]
fn a_channel_that_is_always_chosen_fills_up() {
    for ftl in [Ftl::Bast, Ftl::Fast] {
        for log_blocks in [None, Some(2)] {
            let config = SsdConfig { allocation: PageAllocation::Channels, stride: 1, log_blocks, ..small(ftl, 4) };
            let geometry = PageGeometry::new(4096, 4).expect("a geometry");
            let mut model = Model::new(&config, geometry, StartState::Full);
            let mut ssd = Ssd::new(SsdShape::new(config, geometry).expect("a shape"), StartState::Full);
            let pages = ssd.shape().host_pages;
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
            for round in 0..u64::from(pages) * 10 {
                // Whole blocks in order, and single pages.
                let page = below(&mut rng, pages);
                let whole = below(&mut rng, 4) == 0;
                for page in if whole { page / 4 * 4..page / 4 * 4 + 4 } else { page..page + 1 } {
                    let done = ssd.program_through(Nanos(round), PageNo(page), 1);
                    assert_eq!(done, Nanos(model.write(round, page, Some(1))), "{ftl:?}");
                }
            }
            compare(&mut ssd, &model, 0, "at the end");
            ssd.check().expect("the laws hold");
            assert!(ssd.redirected() > 0, "{ftl:?}: the channel never filled up");
            assert_eq!(ssd.page_states().valid, u64::from(pages), "{ftl:?}");
        }
    }
}
