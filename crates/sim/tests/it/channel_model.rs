//! The SSD with channels against a model of it that was written from the specification (specs §1.3)
//! and shares no code with it: a channel is a list of blocks, a block a list of slots, and where a
//! page is, is found by looking at all of them. After every operation all that can be seen of the
//! SSD is compared. Then what holds of channels in particular.

use destage_plan::{Element, Nanos, PageGeometry, PageNo, Quota};
use destage_policy::buffer::DeviceView;
use destage_sim::ssd::{
    CollectionPoint, ElementCounters, PageAllocation, PageStates, Ssd, SsdConfig, SsdShape, StartState,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

fn below(rng: &mut Xoshiro256PlusPlus, bound: u32) -> u32 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u32
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Clean,
    Holds(u32),
    Stale,
    Summary,
}

#[derive(Clone, Debug)]
struct Channel {
    blocks: Vec<Vec<Slot>>,
    erases: Vec<u32>,
    /// The block that hosts' pages go to, and that of collection's if it has one.
    open: [Option<usize>; 2],
    search_from: usize,
    busy_until: u64,
    collections: Vec<(u64, u64)>,
    did: ElementCounters,
}

impl Channel {
    fn free(&self) -> usize {
        self.blocks.iter().filter(|block| block.iter().all(|slot| *slot == Slot::Clean)).count()
    }

    fn valid(&self) -> usize {
        self.blocks.iter().flatten().filter(|slot| matches!(slot, Slot::Holds(_))).count()
    }

    /// Appends a page, and returns whether that filled a block.
    fn append(&mut self, point: usize, page: u32, summary: bool) -> (usize, bool) {
        let n = self.blocks.len();
        let block = self.open[point].unwrap_or_else(|| {
            let clean = |block: &usize| self.blocks[*block].iter().all(|slot| *slot == Slot::Clean);
            let found = (0..n).map(|i| (self.search_from + i) % n).find(clean).expect("a clean block");
            self.search_from = (found + 1) % n;
            found
        });
        let slots = &mut self.blocks[block];
        let at = slots.iter().position(|slot| *slot == Slot::Clean).expect("a clean slot");
        slots[at] = Slot::Holds(page);
        let full = at + 1 + usize::from(summary) == slots.len();
        if full && summary {
            slots[at + 1] = Slot::Summary;
        }
        self.open[point] = (!full).then_some(block);
        (block, full)
    }
}

struct Model {
    config: SsdConfig,
    page_sectors: u64,
    channels: Vec<Channel>,
    next: usize,
    redirected: u64,
    /// Valid pages at which a channel is full.
    most: usize,
    low: usize,
    exported: u32,
}

impl Model {
    fn new(config: &SsdConfig, geometry: PageGeometry, start: StartState) -> Self {
        let n = geometry.pages_per_block() as usize;
        let blocks = (config.planes * config.blocks_per_plane) as usize;
        let data = n - usize::from(config.summary_page);
        let own = config.collection_write_point == CollectionPoint::Own;
        let low = (blocks * config.min_free_bp as usize / 10_000).max(1);
        let reserved = (config.blocks_per_plane * config.reserve_bp / 10_000) * config.planes;
        let exported = (blocks as u32 - reserved) * data as u32 * config.elements;
        let channel = Channel {
            blocks: vec![vec![Slot::Clean; n]; blocks],
            erases: vec![0; blocks],
            open: [None; 2],
            search_from: 0,
            busy_until: 0,
            collections: Vec::new(),
            did: ElementCounters::default(),
        };
        let mut model = Self {
            config: config.clone(),
            page_sectors: geometry.page_bytes() / 512,
            channels: vec![channel; config.elements as usize],
            next: 0,
            redirected: 0,
            most: (blocks - low - 4 - usize::from(own)) * data,
            low,
            exported: exported / n as u32 * n as u32,
        };
        let pages = model.exported;
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
        for channel in &mut model.channels {
            channel.busy_until = 0;
            channel.collections.clear();
            channel.did = ElementCounters::default();
            channel.erases.fill(0);
        }
        (model.next, model.redirected) = (0, 0);
        model
    }

    fn transfer(&self, sectors: u64) -> u64 {
        sectors * 528 * self.config.transfer_ps_per_byte / 1000
    }

    fn find(&self, page: u32) -> Option<(usize, usize, usize)> {
        self.channels.iter().enumerate().find_map(|(c, channel)| {
            channel.blocks.iter().enumerate().find_map(|(b, block)| {
                block.iter().position(|slot| *slot == Slot::Holds(page)).map(|slot| (c, b, slot))
            })
        })
    }

    fn spend(&mut self, channel: usize, now: u64, time: u64) -> u64 {
        let c = &mut self.channels[channel];
        c.busy_until = c.busy_until.max(now) + time;
        c.did.busy_time += Nanos(time);
        c.busy_until
    }

    fn read(&mut self, now: u64, page: u32) -> u64 {
        let Some((channel, _, _)) = self.find(page) else {
            self.channels[self.next].did.unmapped_reads += 1;
            return now;
        };
        self.collect(channel, now);
        self.channels[channel].did.flash_reads += 1;
        let time = self.config.read.0 + self.transfer(self.page_sectors);
        self.spend(channel, now, time)
    }

    fn write(&mut self, now: u64, page: u32, choice: Option<u32>) -> u64 {
        let chosen = choice.map_or(self.next, |channel| channel as usize);
        if choice.is_none() {
            self.next = (self.next + 1) % self.channels.len();
        }
        let old = self.find(page).map(|(channel, _, _)| channel);
        let mut channel = chosen;
        while self.channels[channel].valid() - usize::from(old == Some(channel)) >= self.most {
            channel = (channel + 1) % self.channels.len();
            assert_ne!(channel, chosen, "all channels are full");
        }
        self.redirected += u64::from(channel != chosen);
        self.collect(channel, now);
        if let Some((c, block, slot)) = self.find(page) {
            self.channels[c].blocks[block][slot] = Slot::Stale;
        }
        let (_, full) = self.channels[channel].append(0, page, self.config.summary_page);
        self.channels[channel].did.host_programs += 1;
        let mut time = self.config.program.0 + self.transfer(self.page_sectors);
        if full && self.config.summary_page {
            self.channels[channel].did.summary_programs += 1;
            time += self.config.program.0 + self.transfer(1);
        }
        let done = self.spend(channel, now, time);
        if self.config.background {
            self.collect(channel, now);
        }
        done
    }

    fn trim(&mut self, page: u32) {
        if let Some((channel, block, slot)) = self.find(page) {
            self.channels[channel].blocks[block][slot] = Slot::Stale;
        }
    }

    fn collect(&mut self, channel: usize, now: u64) {
        if self.channels[channel].free() > self.low {
            return;
        }
        let (read, program, erase) = (self.config.read.0, self.config.program.0, self.config.erase.0);
        let (page, sector) = (self.transfer(self.page_sectors), self.transfer(1));
        let per_plane = self.config.blocks_per_plane as usize;
        let summary = self.config.summary_page;
        let own = self.config.collection_write_point == CollectionPoint::Own;
        let point = usize::from(own);
        let c = &mut self.channels[channel];
        let (mut time, mut cleaned) = (0, 0);
        while match self.config.collection_batch {
            Quota::Blocks(blocks) => cleaned < blocks,
            Quota::Watermark => c.free() <= self.low + 1,
        } {
            let valid = |block: &[Slot]| block.iter().filter(|slot| matches!(slot, Slot::Holds(_))).count();
            let full = |block: &[Slot]| !block.contains(&Slot::Clean) && block.contains(&Slot::Stale);
            let candidates = (0..c.blocks.len()).filter(|block| full(&c.blocks[*block]));
            let Some(victim) = candidates.min_by_key(|block| valid(&c.blocks[*block])) else { break };
            for slot in 0..c.blocks[victim].len() {
                let Slot::Holds(held) = c.blocks[victim][slot] else { continue };
                let (to, sealed) = c.append(point, held, summary);
                c.blocks[victim][slot] = Slot::Stale;
                time += read + program + if to / per_plane == victim / per_plane { 0 } else { 2 * page };
                c.did.gc_pages_moved += 1;
                if sealed && summary {
                    c.did.summary_programs += 1;
                    time += program + sector;
                }
            }
            c.blocks[victim].fill(Slot::Clean);
            c.erases[victim] += 1;
            c.did.erases += 1;
            time += erase;
            cleaned += 1;
        }
        if time > 0 {
            let start = c.busy_until.max(now);
            c.collections.push((start, start + time));
            c.did.gc_invocations += 1;
            c.did.gc_time += Nanos(time);
            self.spend(channel, now, time);
        }
    }

    fn states(&self) -> PageStates {
        let mut states = PageStates::default();
        for slot in self.channels.iter().flat_map(|channel| &channel.blocks).flatten() {
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
fn compare(ssd: &mut Ssd, model: &Model, now: u64, page: u32, what: &str) {
    for (c, (seen, expected)) in (0..).zip(ssd.counters().zip(&model.channels)) {
        assert_eq!(*seen, expected.did, "{what}: counters of channel {c} (left: the SSD)");
        assert_eq!(ssd.free_blocks(Element(c)) as usize, expected.free(), "{what}: free blocks of channel {c}");
        assert_eq!(ssd.busy_until(Element(c)), Nanos(expected.busy_until), "{what}: channel {c}");
    }
    assert_eq!(ssd.page_states(), model.states(), "{what}");
    assert_eq!(ssd.redirected(), model.redirected, "{what}");
    assert_eq!(ssd.destination(PageNo(page)), None);
    let holder = model.find(page).map_or(model.next, |(channel, _, _)| channel);
    assert_eq!(ssd.element_of(PageNo(page)).index(), holder, "{what}: where the page is, or would go");
    ssd.set_now(Nanos(now));
    for (c, channel) in (0..).zip(&model.channels) {
        let collecting = channel.collections.iter().any(|&(start, end)| start <= now && now < end);
        assert_eq!(ssd.collecting(Element(c)), collecting, "{what}: channel {c} collects");
    }
}

/// Random operations; the channel of a write is nobody's choice (`bias` 0), anybody's, or mostly
/// the first (`bias` of ten).
fn driven(config: &SsdConfig, pages_per_block: u64, start: StartState, bias: u32, operations: u32, seed: u64) -> Ssd {
    let geometry = PageGeometry::new(4096, pages_per_block).expect("a geometry");
    let shape = SsdShape::new(config.clone(), geometry).unwrap_or_else(|error| panic!("{config:?}: {error}"));
    let mut model = Model::new(config, geometry, start);
    assert_eq!((shape.host_pages, shape.pool_low as usize), (model.exported, model.low));
    let mut ssd = Ssd::new(shape, start);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (pages, channels) = (model.exported, config.elements);
    let mut now = 0;
    compare(&mut ssd, &model, now, 0, "at the start");
    for operation in 0..operations {
        now += match below(&mut rng, 8) {
            0 => u64::from(below(&mut rng, 12_000_000)),
            1..3 => u64::from(below(&mut rng, 300_000)),
            _ => 0,
        };
        let page = if below(&mut rng, 4) == 0 { below(&mut rng, pages / 8 + 1) } else { below(&mut rng, pages) };
        let at = PageNo(page);
        let (done, expected) = match below(&mut rng, 100) {
            0..20 => (ssd.read(Nanos(now), at), model.read(now, page)),
            20..22 => {
                ssd.trim(at);
                model.trim(page);
                (Nanos(now), now)
            }
            _ if bias == 0 || below(&mut rng, 4) == 0 => (ssd.program(Nanos(now), at), model.write(now, page, None)),
            _ => {
                let channel = if below(&mut rng, 10) < bias { 0 } else { below(&mut rng, channels) };
                (ssd.program_through(Nanos(now), at, channel), model.write(now, page, Some(channel)))
            }
        };
        let what = format_args!("operation {operation} on page {page}, {start:?}, {config:?}").to_string();
        assert_eq!(done, Nanos(expected), "{what}: completion (left: the SSD)");
        compare(&mut ssd, &model, now, page, &what);
        if operation % 1024 == 0 {
            ssd.check().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(ssd.erases().eq(model.channels.iter().flat_map(|channel| channel.erases.clone())), "{what}");
        }
    }
    ssd.check().expect("the map and its inverse agree");
    assert!(ssd.total().gc_invocations > 0);
    ssd
}

const OPERATIONS: u32 = 10_000;

fn soak() -> u32 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 20 } else { 1 }
}

fn channels(elements: u32) -> SsdConfig {
    SsdConfig {
        elements,
        allocation: PageAllocation::Channels,
        planes: 2,
        blocks_per_plane: 16,
        reserve_bp: 2500,
        lanes: 2,
        transfer_ps_per_byte: 0,
        summary_page: false,
        ..SsdConfig::default()
    }
}

#[test]
fn the_ssd_agrees_with_the_model() {
    let starts = [
        StartState::Empty,
        StartState::Full,
        StartState::Random { seed: 11 },
        StartState::Aged { overwrites_pct: 150, seed: 7 },
    ];
    for (i, start) in (0..).zip(starts) {
        for bias in [0, 1] {
            let config = SsdConfig {
                summary_page: i % 2 == 1,
                transfer_ps_per_byte: if bias == 0 { 25_000 } else { 0 },
                background: i == 2,
                ..channels(2 + i)
            };
            driven(&config, 6, start, bias, OPERATIONS * soak(), i.into());
        }
    }
    driven(&channels(1), 4, StartState::Full, 1, OPERATIONS * soak(), 9);
}

/// One block at a time, and more than it takes to come above the threshold; survivors behind hosts' pages and apart.
#[test]
fn every_collector_agrees_with_the_model() {
    for (i, collection_batch) in (0..).zip([Quota::Blocks(1), Quota::Blocks(3), Quota::Watermark]) {
        for collection_write_point in CollectionPoint::ALL {
            let config = SsdConfig {
                collection_batch,
                collection_write_point,
                background: i == 1,
                summary_page: i == 2,
                ..channels(3)
            };
            driven(&config, 6, StartState::Aged { overwrites_pct: 150, seed: 7 }, 1, OPERATIONS / 2 * soak(), i);
        }
    }
    // All channels as full as they can be.
    let own = SsdConfig { collection_write_point: CollectionPoint::Own, ..channels(2) };
    let tight = SsdConfig { planes: 1, lanes: 1, blocks_per_plane: 24, collection_batch: Quota::Blocks(1), ..own };
    let ssd = driven(&tight, 4, StartState::Full, 10, OPERATIONS / 2 * soak(), 6);
    assert!(ssd.redirected() > 100, "{}", ssd.redirected());
}

/// Whoever writes to one channel only fills it; what does not fit goes to the others, and
/// everything goes on.
#[test]
fn a_channel_that_is_full_passes_pages_on() {
    let ssd = driven(&channels(3), 6, StartState::Full, 10, OPERATIONS * soak(), 5);
    assert!(ssd.redirected() > 100, "{}", ssd.redirected());
    // The smallest reserve that is allowed, so that all channels are as full as they can be.
    let tight = SsdConfig { planes: 1, lanes: 1, blocks_per_plane: 20, reserve_bp: 2500, ..channels(2) };
    let ssd = driven(&tight, 4, StartState::Full, 10, OPERATIONS * soak(), 6);
    assert!(ssd.redirected() > 100, "{}", ssd.redirected());
}

fn small(start: StartState) -> Ssd {
    let shape = SsdShape::new(channels(4), PageGeometry::new(4096, 4).expect("a geometry")).expect("a shape");
    Ssd::new(shape, start)
}

#[test]
fn the_old_copy_in_another_channel_is_outdated() {
    let mut ssd = small(StartState::Empty);
    ssd.program_through(Nanos(0), PageNo(5), 2);
    assert_eq!(ssd.element_of(PageNo(5)), Element(2));
    ssd.program_through(Nanos(0), PageNo(5), 0);
    assert_eq!(ssd.element_of(PageNo(5)), Element(0));
    let states = ssd.page_states();
    assert_eq!((states.valid, states.invalid), (1, 1));
    // Both programs ran at the same time, and the read waits in the channel that has the page.
    assert_eq!(ssd.read(Nanos(0), PageNo(5)), Nanos(225_000));
    assert_eq!(
        ssd.counters().map(|c| (c.host_programs, c.flash_reads)).collect::<Vec<_>>(),
        [(1, 1), (0, 0), (1, 0), (0, 0)]
    );
    ssd.trim(PageNo(5));
    assert_eq!((ssd.page_states().valid, ssd.read(Nanos(0), PageNo(5))), (0, Nanos(0)));
}

#[test]
fn pages_without_a_choice_take_turns() {
    let mut ssd = small(StartState::Empty);
    let place = |ssd: &mut Ssd, page, channel: Option<u32>| {
        match channel {
            Some(channel) => ssd.program_through(Nanos(0), PageNo(page), channel),
            None => ssd.program(Nanos(0), PageNo(page)),
        };
        ssd.element_of(PageNo(page))
    };
    let placed = [(9, None), (8, None), (7, Some(0)), (6, None), (9, None), (9, None)];
    let placed = placed.map(|(page, channel)| place(&mut ssd, page, channel));
    // A choice is no turn.
    assert_eq!(placed, [0, 1, 0, 2, 3, 0].map(Element));
}

#[test]
fn start_states() {
    let full = small(StartState::Full);
    let pages = full.shape().host_pages;
    assert!((0..pages).all(|page| full.element_of(PageNo(page)) == Element(page % 4)));
    let random = small(StartState::Random { seed: 3 });
    let other = small(StartState::Random { seed: 4 });
    let places = |ssd: &Ssd| (0..pages).map(|page| ssd.element_of(PageNo(page))).collect::<Vec<_>>();
    assert_eq!(places(&random), places(&small(StartState::Random { seed: 3 })));
    assert_ne!(places(&random), places(&other));
    assert_ne!(places(&random), places(&full));
    for ssd in [&full, &random, &other] {
        assert_eq!(
            (ssd.page_states().valid, ssd.total(), ssd.idle_at()),
            (pages.into(), ElementCounters::default(), Nanos(0))
        );
        // As many in each channel.
        assert_eq!((0..4).map(|c| places(ssd).iter().filter(|at| at.0 == c).count() as u32).max(), Some(pages / 4));
    }
    let words = [StartState::Random { seed: 3 }, StartState::Full].map(|start| start.to_string());
    assert_eq!(words, ["random:3", "full"]);
}

/// Random order on a striped SSD too: every exported page once.
#[test]
fn a_striped_ssd_can_be_filled_at_random() {
    let config = SsdConfig { allocation: PageAllocation::Static, ..channels(3) };
    let shape = SsdShape::new(config, PageGeometry::new(4096, 4).expect("a geometry")).expect("a shape");
    let pages = shape.host_pages;
    let mut ssd = Ssd::new(shape, StartState::Random { seed: 1 });
    ssd.check().expect("the map and its inverse agree");
    assert_eq!((ssd.page_states().valid, ssd.total().gc_invocations), (pages.into(), 0));
    assert!((0..pages).all(|page| ssd.destination(PageNo(page)) == Some(Element(page % 3))));
    (0..pages).for_each(|page| _ = ssd.read(Nanos(0), PageNo(page)));
    assert_eq!((ssd.total().flash_reads, ssd.total().unmapped_reads), (pages.into(), 0));
}

/// Writes to one channel make it collect, and no other; what it moves stays in it.
#[test]
fn collection_is_confined_to_its_channel() {
    let mut ssd = small(StartState::Full);
    let own: Vec<u32> =
        (0..ssd.shape().host_pages).filter(|page| ssd.element_of(PageNo(*page)) == Element(1)).collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(8);
    for _ in 0..5000 {
        let page = own[below(&mut rng, own.len() as u32) as usize];
        ssd.program_through(Nanos(0), PageNo(page), 1);
    }
    for (c, did) in (0..).zip(ssd.counters()) {
        let busy = c == 1;
        assert_eq!((did.gc_invocations > 100, did.gc_pages_moved > 100, did.erases > 100), (busy, busy, busy));
        assert_eq!(did.busy_time > Nanos(0), busy, "channel {c}");
    }
    assert!(own.iter().all(|page| ssd.element_of(PageNo(*page)) == Element(1)));
    let mut others = (0..ssd.shape().host_pages).filter(|page| page % 4 != 1);
    assert!(others.all(|page| ssd.element_of(PageNo(page)) == Element(page % 4)));
    ssd.check().expect("the map and its inverse agree");
}
