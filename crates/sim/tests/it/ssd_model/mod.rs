//! The SSD against a model of it that was written from the specification (specs §1.2) and shares no
//! code with it: blocks are lists of slots, everything is found by looking at all of them, and
//! after every operation all that can be seen of the SSD is compared. Then shapes at the limit of
//! what is allowed, and the specification's worked example.

mod collectors;
mod shapes;

use destage_plan::{Element, Nanos, PageGeometry, PageNo, Quota};
use destage_policy::buffer::DeviceView;
use destage_sim::ssd::{self, CollectionPoint, ElementCounters, PageStates, Ssd, SsdConfig, SsdShape, StartState};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

fn below(rng: &mut Xoshiro256PlusPlus, bound: u32) -> u32 {
    ((u64::from(rng.next_u32()) * u64::from(bound)) >> 32) as u32
}

/// A page of flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Clean,
    Holds(u32),
    Stale,
    Summary,
}

#[derive(Clone, Debug)]
struct Block {
    slots: Vec<Slot>,
    erases: u32,
}

impl Block {
    fn is_clean(&self) -> bool {
        self.slots.iter().all(|slot| *slot == Slot::Clean)
    }

    fn is_sealed(&self) -> bool {
        self.slots.iter().all(|slot| *slot != Slot::Clean)
    }

    fn valid(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, Slot::Holds(_))).count()
    }
}

/// The blocks that hosts' pages go to in order: a plane with copy-back, and otherwise the element.
#[derive(Clone, Debug)]
struct Allocation {
    blocks: Vec<Block>,
    /// The active blocks: where hosts' pages go, and where collection's go if it has a write point of its own.
    write_points: [Option<usize>; 2],
    alloc_pos: usize,
}

impl Allocation {
    fn free(&self) -> u32 {
        self.blocks.iter().filter(|block| block.is_clean()).count() as u32
    }

    /// The slot that the next page goes to: in the block of the write point, or in the next clean
    /// one (next fit).
    fn next_slot(&mut self, point: usize, summary: bool) -> Option<(usize, usize)> {
        let data = self.blocks[0].slots.len() - usize::from(summary);
        if let Some(block) = self.write_points[point]
            && let Some(slot) = (0..data).find(|&slot| self.blocks[block].slots[slot] == Slot::Clean)
        {
            return Some((block, slot));
        }
        let n = self.blocks.len();
        let block = (0..n).map(|i| (self.alloc_pos + i) % n).find(|&block| self.blocks[block].is_clean())?;
        self.write_points[point] = Some(block);
        self.alloc_pos = (block + 1) % n;
        Some((block, 0))
    }

    /// Writes the page; says into which block, and whether that has its summary now or would have
    /// one.
    fn append(&mut self, point: usize, lpn: u32, summary: bool) -> (usize, bool) {
        let (block, slot) = self.next_slot(point, summary).expect("room for the page");
        let slots = &mut self.blocks[block].slots;
        slots[slot] = Slot::Holds(lpn);
        let last = slot + 1 + usize::from(summary) == slots.len();
        if last && summary {
            slots[slot + 1] = Slot::Summary;
        }
        if last {
            self.write_points[point] = None;
        }
        (block, last)
    }

    /// Of the full blocks that hold outdated pages the one with the fewest valid ones, of several
    /// the first.
    fn victim(&self) -> Option<usize> {
        let candidate = |block: &Block| block.slots.contains(&Slot::Stale) && block.is_sealed();
        let candidates = (0..self.blocks.len()).filter(|&block| candidate(&self.blocks[block]));
        candidates.min_by_key(|&block| self.blocks[block].valid())
    }
}

#[derive(Clone, Debug)]
struct ElementModel {
    pools: Vec<Allocation>,
    units_busy: Vec<u64>,
    next_pool: usize,
    turns: Vec<usize>,
    collections: Vec<(u64, u64)>,
    did: ElementCounters,
}

/// The model.
struct Model {
    config: SsdConfig,
    sectors: u64,
    elements: Vec<ElementModel>,
}

impl Model {
    fn new(config: &SsdConfig, geometry: PageGeometry, start: StartState) -> Self {
        let pools = if config.copy_back { config.planes } else { 1 };
        let blocks = config.planes * config.blocks_per_plane / pools;
        let block = Block { slots: vec![Slot::Clean; geometry.pages_per_block() as usize], erases: 0 };
        let pool = Allocation { blocks: vec![block; blocks as usize], write_points: [None; 2], alloc_pos: 0 };
        let units = if config.copy_back { config.lanes as usize } else { 1 };
        let element = ElementModel {
            pools: vec![pool; pools as usize],
            units_busy: vec![0; units],
            next_pool: 0,
            turns: (0..units).collect(),
            collections: Vec::new(),
            did: ElementCounters::default(),
        };
        let mut model = Self {
            config: config.clone(),
            sectors: geometry.page_bytes() / 512,
            elements: vec![element; config.elements as usize],
        };
        if start != StartState::Empty {
            let per_pool = model.exported_per_element(geometry).div_ceil(pools);
            for page in 0..model.exported(geometry) {
                let (element, lpn) = model.place(page);
                model.elements[element].pools[(lpn / per_pool) as usize].append(0, lpn, config.summary_page);
            }
        }
        if let StartState::Aged { overwrites_pct, seed } = start {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let pages = model.exported(geometry);
            for _ in 0..u64::from(pages) * u64::from(overwrites_pct) / 100 {
                let page = (u128::from(rng.next_u64()) * u128::from(pages)) >> 64;
                model.write(0, page as u32);
            }
        }
        for element in &mut model.elements {
            element.units_busy.fill(0);
            element.collections.clear();
            element.did = ElementCounters::default();
            element.pools.iter_mut().flat_map(|pool| &mut pool.blocks).for_each(|block| block.erases = 0);
        }
        model
    }

    fn exported_per_element(&self, geometry: PageGeometry) -> u32 {
        let c = &self.config;
        let reserved = (u64::from(c.reserve_bp) * u64::from(c.blocks_per_plane) / 10_000) as u32;
        let data = geometry.pages_per_block() - u32::from(c.summary_page);
        (c.blocks_per_plane - reserved) * c.planes * data
    }

    /// Whole strides on every element, and whole logical blocks.
    fn exported(&self, geometry: PageGeometry) -> u32 {
        let c = &self.config;
        let pages = self.exported_per_element(geometry) / c.stride * c.stride * c.elements;
        pages - pages % geometry.pages_per_block()
    }

    fn place(&self, page: u32) -> (usize, u32) {
        let (stride, elements) = (self.config.stride, self.config.elements);
        let element = page / stride % elements;
        (element as usize, (page - page % (stride * elements)) / elements + page % stride)
    }

    fn low(&self) -> u32 {
        let c = &self.config;
        let scope = if c.copy_back { c.blocks_per_plane } else { c.planes * c.blocks_per_plane };
        ((u64::from(scope) * u64::from(c.min_free_bp) / 10_000) as u32).max(1)
    }

    fn transfer(&self, sectors: u64) -> u64 {
        sectors * 528 * self.config.transfer_ps_per_byte / 1000
    }

    fn summary_time(&self) -> u64 {
        self.config.program.0 + self.transfer(1)
    }

    /// Returns the place of the page: pool, block, slot.
    fn find(&self, element: usize, lpn: u32) -> Option<(usize, usize, usize)> {
        self.elements[element].pools.iter().enumerate().find_map(|(p, pool)| {
            pool.blocks.iter().enumerate().find_map(|(b, block)| {
                block.slots.iter().position(|slot| *slot == Slot::Holds(lpn)).map(|slot| (p, b, slot))
            })
        })
    }

    fn spend(&mut self, element: usize, pool: usize, now: u64, time: u64) -> u64 {
        let e = &mut self.elements[element];
        let unit = pool % e.units_busy.len();
        e.units_busy[unit] = e.units_busy[unit].max(now) + time;
        e.did.busy_time += Nanos(time);
        e.units_busy[unit]
    }

    fn read(&mut self, now: u64, page: u32) -> u64 {
        let (element, lpn) = self.place(page);
        let Some((pool, _, _)) = self.find(element, lpn) else {
            self.elements[element].did.unmapped_reads += 1;
            return now;
        };
        self.clean(element, pool, now);
        self.elements[element].did.flash_reads += 1;
        self.spend(element, pool, now, self.config.read.0 + self.transfer(self.sectors))
    }

    fn write(&mut self, now: u64, page: u32) -> u64 {
        let (element, lpn) = self.place(page);
        let pools = self.elements[element].pools.len();
        let mut pool = 0;
        if pools > 1 {
            pool = loop {
                match self.emptiest(element) {
                    Some(pool) => break pool,
                    None => self.clean(element, self.elements[element].next_pool, now),
                }
            };
            self.elements[element].next_pool = (pool + 1) % pools;
        }
        self.clean(element, pool, now);
        if let Some((p, block, slot)) = self.find(element, lpn) {
            self.elements[element].pools[p].blocks[block].slots[slot] = Slot::Stale;
        }
        let (_, sealed) = self.elements[element].pools[pool].append(0, lpn, self.config.summary_page);
        self.elements[element].did.host_programs += 1;
        let mut time = self.config.program.0 + self.transfer(self.sectors);
        if sealed && self.config.summary_page {
            self.elements[element].did.summary_programs += 1;
            time += self.summary_time();
        }
        let done = self.spend(element, pool, now, time);
        if self.config.background {
            self.clean(element, pool, now);
        }
        done
    }

    /// The plane with room for a host's page that has the most clean blocks, in turn.
    fn emptiest(&self, element: usize) -> Option<usize> {
        let e = &self.elements[element];
        let own = self.collection_point() == 1;
        let mut best = None;
        for i in 0..e.pools.len() {
            let p = (e.next_pool + i) % e.pools.len();
            let free = e.pools[p].free();
            let slot = e.pools[p].clone().next_slot(0, self.config.summary_page);
            // The last clean block is collection's if that has a write point of its own.
            let room = slot.is_some_and(|(_, slot)| !own || slot > 0 || free > 1);
            if room && best.is_none_or(|(most, _)| free > most) {
                best = Some((free, p));
            }
        }
        best.map(|(_, pool)| pool)
    }

    fn collection_point(&self) -> usize {
        usize::from(self.config.collection_write_point == CollectionPoint::Own)
    }

    fn trim(&mut self, page: u32) {
        let (element, lpn) = self.place(page);
        if let Some((pool, block, slot)) = self.find(element, lpn) {
            self.elements[element].pools[pool].blocks[block].slots[slot] = Slot::Stale;
        }
    }

    fn clean(&mut self, element: usize, pool: usize, now: u64) {
        let low = self.low();
        if self.elements[element].pools[pool].free() > low {
            return;
        }
        let mut time = 0;
        if self.config.copy_back {
            let planes = self.elements[element].pools.len();
            let units = self.elements[element].units_busy.len();
            for unit in 0..units {
                let own: Vec<usize> = (0..planes).filter(|plane| plane % units == unit).collect();
                let first = if pool % units == unit { pool } else { self.elements[element].turns[unit] };
                let at = own.iter().position(|plane| *plane == first).expect("a plane of this unit");
                // A batch of one plane that is due; the pointer stands behind that plane afterwards.
                let batch = if let Quota::Blocks(blocks) = self.config.collection_batch { blocks } else { 1 };
                for i in 0..own.len() {
                    let plane = own[(at + i) % own.len()];
                    self.elements[element].turns[unit] = own[(at + i + 1) % own.len()];
                    if self.elements[element].pools[plane].free() <= low {
                        let costs: Vec<u64> = (0..batch).map_while(|_| self.clean_block(element, plane)).collect();
                        time = time.max(costs.iter().sum());
                        if !costs.is_empty() {
                            break;
                        }
                    }
                }
            }
        } else {
            let mut cleaned = 0;
            while match self.config.collection_batch {
                Quota::Blocks(blocks) => cleaned < blocks,
                Quota::Watermark => self.elements[element].pools[0].free() <= low + 1,
            } {
                let Some(cost) = self.clean_block(element, 0) else { break };
                time += cost;
                cleaned += 1;
            }
        }
        if time > 0 {
            let e = &mut self.elements[element];
            let start = e.units_busy.iter().copied().max().expect("a unit").max(now);
            e.units_busy.fill(start + time);
            e.collections.retain(|&(_, end)| end > now);
            e.collections.push((start, start + time));
            // The collection occupies all units, however few of them clean a block.
            e.did.busy_time += Nanos(time * e.units_busy.len() as u64);
            e.did.gc_time += Nanos(time);
            e.did.gc_invocations += 1;
        }
    }

    fn clean_block(&mut self, element: usize, pool: usize) -> Option<u64> {
        let victim = self.elements[element].pools[pool].victim()?;
        let (c, point) = (self.config.clone(), self.collection_point());
        let plane = |block: usize| block / c.blocks_per_plane as usize;
        let mut time = c.erase.0;
        for slot in 0..self.elements[element].pools[pool].blocks[victim].slots.len() {
            let Slot::Holds(lpn) = self.elements[element].pools[pool].blocks[victim].slots[slot] else { continue };
            let (block, sealed) = self.elements[element].pools[pool].append(point, lpn, c.summary_page);
            self.elements[element].pools[pool].blocks[victim].slots[slot] = Slot::Stale;
            time += c.read.0 + c.program.0;
            if !c.copy_back && plane(block) != plane(victim) {
                time += 2 * self.transfer(self.sectors);
            }
            self.elements[element].did.gc_pages_moved += 1;
            if sealed && c.summary_page {
                self.elements[element].did.summary_programs += 1;
                time += self.summary_time();
            }
        }
        let block = &mut self.elements[element].pools[pool].blocks[victim];
        block.slots.fill(Slot::Clean);
        block.erases += 1;
        self.elements[element].did.erases += 1;
        Some(time)
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.elements.iter().flat_map(|element| &element.pools).flat_map(|pool| &pool.blocks)
    }

    fn states(&self) -> PageStates {
        let mut states = PageStates::default();
        for slot in self.blocks().flat_map(|block| &block.slots) {
            match slot {
                Slot::Clean => states.free += 1,
                Slot::Holds(_) => states.valid += 1,
                Slot::Stale | Slot::Summary => states.invalid += 1,
            }
        }
        states
    }
}

#[track_caller]
fn compare(ssd: &mut Ssd, model: &Model, now: u64, what: &str) {
    for (e, (seen, expected)) in (0..).zip(ssd.counters().zip(&model.elements)) {
        assert_eq!(*seen, expected.did, "{what}: counters of element {e} (left: the SSD)");
        let free: u32 = expected.pools.iter().map(Allocation::free).sum();
        assert_eq!(ssd.free_blocks(Element(e)), free, "{what}: free blocks of element {e}");
    }
    assert_eq!(ssd.page_states(), model.states(), "{what}: page states");
    let idle = model.elements.iter().flat_map(|e| &e.units_busy).copied().max().expect("a unit");
    assert_eq!(ssd.idle_at(), Nanos(idle), "{what}: idle");
    ssd.set_now(Nanos(now));
    for (e, element) in (0..).zip(&model.elements) {
        let collecting = element.collections.iter().any(|&(start, end)| start <= now && now < end);
        assert_eq!(ssd.collecting(Element(e)), collecting, "{what}: element {e} collects");
    }
}

/// Random operations on a small SSD and its model; the write amplification.
fn driven(config: &SsdConfig, pages_per_block: u64, start: StartState, operations: u32, seed: u64) -> f64 {
    let geometry = PageGeometry::new(4096, pages_per_block).expect("a geometry");
    let shape = SsdShape::new(config.clone(), geometry).unwrap_or_else(|error| panic!("{config:?}: {error}"));
    let mut model = Model::new(config, geometry, start);
    assert_eq!((shape.host_pages, shape.pool_low), (model.exported(geometry), model.low()), "{config:?}");
    let mut ssd = Ssd::new(shape, start);
    let pages = ssd.shape().host_pages;
    let raw = model.blocks().count() as u64 * pages_per_block;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut now = 0;
    compare(&mut ssd, &model, now, "at the start");
    for operation in 0..operations {
        // Bursts and pauses: some operations find an element idle, some wait.
        now += match below(&mut rng, 8) {
            0 => u64::from(below(&mut rng, 12_000_000)),
            1..3 => u64::from(below(&mut rng, 300_000)),
            _ => 0,
        };
        let page = match below(&mut rng, 4) {
            0 => below(&mut rng, pages / 8 + 1),
            _ => below(&mut rng, pages),
        };
        let (done, expected) = match below(&mut rng, 100) {
            0..20 => (ssd.read(Nanos(now), PageNo(page)), model.read(now, page)),
            20..22 => {
                ssd.trim(PageNo(page));
                model.trim(page);
                (Nanos(now), now)
            }
            _ => (ssd.program(Nanos(now), PageNo(page)), model.write(now, page)),
        };
        let what = format_args!("operation {operation} on page {page}, {start:?}, {config:?}").to_string();
        assert_eq!(done, Nanos(expected), "{what}: completion (left: the SSD)");
        compare(&mut ssd, &model, now, &what);
        if operation % 4096 == 0 {
            ssd.check().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(ssd.erases().eq(model.blocks().map(|block| block.erases)), "{what}: erases per block");
        }
    }
    let states = ssd.page_states();
    assert_eq!(states.free + states.valid + states.invalid, raw);
    ssd.check().expect("the map and its inverse agree");
    let total = ssd.total();
    assert!(total.erases > 0 && total.gc_invocations > 0);
    (total.host_programs + total.gc_pages_moved) as f64 / total.host_programs as f64
}

const OPERATIONS: u32 = 50_000;

/// Returns the factor by which `make soak` repeats the tests.
fn soak() -> u32 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 20 } else { 1 }
}

/// Every combination of summary page, stride, transfer time and start state.
fn every_combination(config: &SsdConfig, pages_per_block: u64) {
    for combination in 0..16 {
        let bit = |i: u32| combination >> i & 1 == 1;
        let config = SsdConfig {
            summary_page: bit(0),
            stride: if bit(1) { pages_per_block as u32 } else { 1 },
            transfer_ps_per_byte: if bit(2) { 25_000 } else { 0 },
            ..config.clone()
        };
        let start = if bit(3) { StartState::Full } else { StartState::Empty };
        let amplification = driven(&config, pages_per_block, start, OPERATIONS * soak(), combination);
        assert!(amplification > 1.5, "write amplification {amplification:.2} is no test of collection: {config:?}");
    }
}

fn small() -> SsdConfig {
    SsdConfig {
        elements: 2,
        planes: 2,
        blocks_per_plane: 16,
        reserve_bp: 1900,
        min_free_bp: 500,
        ..SsdConfig::default()
    }
}

#[test]
fn without_copy_back() {
    every_combination(&SsdConfig { lanes: 2, ..small() }, 6);
}

#[test]
fn with_copy_back() {
    every_combination(&copying_back(2, 2), 4);
}

#[test]
fn with_copy_back_and_fewer_units_than_planes() {
    every_combination(&copying_back(3, 2), 4);
}

fn copying_back(planes: u32, lanes: u32) -> SsdConfig {
    SsdConfig { planes, lanes, blocks_per_plane: 24, reserve_bp: 2100, copy_back: true, ..small() }
}

#[test]
fn aged() {
    let start = StartState::Aged { overwrites_pct: 250, seed: 7 };
    for config in [SsdConfig { lanes: 2, ..small() }, copying_back(3, 2)] {
        driven(&config, 6, start, 20_000, 99);
    }
    // No overwrites are none.
    driven(&copying_back(2, 1), 6, StartState::Aged { overwrites_pct: 0, seed: 7 }, 20_000, 98);
}
