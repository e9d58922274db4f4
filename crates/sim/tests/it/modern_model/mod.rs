//! The modern drive against a naive one (`naive.rs`) that shares no code with it, over random drives and operations, and
//! against the specification's worked examples (`examples.rs`).

mod examples;
mod labels;
mod laws;
mod naive;
mod placement;

use destage_plan::{Element, Nanos, PageGeometry, PageNo, PlacementStream, Quota};
use destage_policy::buffer::DeviceView;
use destage_sim::ssd::{
    CollectionPoint, HandleIsolation, ModernConfig, PageAllocation, PlacedStream, PlacementConfig, Ssd, SsdConfig,
    SsdShape, StartState, VictimPolicy,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use naive::{DieCounts, NaiveDrive, below};

/// Counts the drives that are compared, and the operations on each.
const DRIVES: u64 = 120;
const OPERATIONS: u64 = 1500;

/// Draws one of some values.
fn one_of<T: Copy>(random: &mut Xoshiro256PlusPlus, values: &[T]) -> T {
    values[below(random, values.len() as u64) as usize]
}

/// Draws where collection puts sectors, and flexible data placement, for half of the drives none.
fn random_placement(random: &mut Xoshiro256PlusPlus) -> (CollectionPoint, Option<PlacementConfig>) {
    let point = one_of(random, &CollectionPoint::ALL);
    let isolation = match point {
        CollectionPoint::Shared => HandleIsolation::Persistently,
        CollectionPoint::Own => one_of(random, &HandleIsolation::ALL),
    };
    let placement = PlacementConfig { handles: one_of(random, &[1, 2, 3, 8]), isolation };
    (point, one_of(random, &[None, Some(placement)]))
}

/// Draws a small drive, and its pages.
fn random_drive(random: &mut Xoshiro256PlusPlus) -> (SsdConfig, PageGeometry) {
    let bytes = one_of(random, &[4096, 4096, 4096, 8192, 16_384, 1024]);
    let per_block = one_of(random, &[1, 4, 16]);
    let page = PageGeometry::new(bytes, per_block).expect("a geometry");
    let (elements, planes): (u32, u32) = (one_of(random, &[1, 2, 3, 5]), one_of(random, &[1, 2, 2, 3, 4]));
    let pages_per_word_line: u32 = one_of(random, &[3, 3, 3, 1, 2, 4]);
    let unit = u64::from(pages_per_word_line * planes) * (16_384 / bytes);
    let word_lines = one_of(random, &[None, Some(1), Some(2), Some(3), Some(5)]);
    let slice_reads = one_of(random, &[1, 3, 6, 7, 12, 40]);
    let g = u64::from(slice_reads / (pages_per_word_line * planes.div_ceil(2))).max(1);
    let superblock = u64::from(elements) * unit * word_lines.map_or(g, u64::from);
    let held = one_of(random, &[0, 0, 0, 1, 7, unit + 3]);
    let (collection_write_point, placement) = random_placement(random);
    let handles = placement.map_or(1, |own| own.handles.min(7));
    let cache = u64::from(1 + handles) * unit + held + one_of(random, &[0, 1, unit, 5 * unit]);
    let victim = one_of(
        random,
        &[
            VictimPolicy::Greedy,
            VictimPolicy::Greedy,
            VictimPolicy::Fifo,
            VictimPolicy::DChoice(1),
            VictimPolicy::DChoice(4),
            VictimPolicy::CostBenefit,
        ],
    );
    let time = |random: &mut Xoshiro256PlusPlus, most: u64| Nanos(1 + below(random, most));
    let modern = ModernConfig {
        exported_pages: superblock * (6 + below(random, 20)) + below(random, superblock),
        pages_per_word_line,
        word_lines,
        suspend: time(random, 90_000),
        bypass: one_of(random, &[0, 1, 2, 3, 16]),
        slice_reads,
        write_cache_bytes: cache * bytes,
        write_hold_bytes: held * bytes,
        write_slots: one_of(random, &[1, 2, 5, 64]),
        command_read: time(random, 9_000),
        command_write: time(random, 15_000),
        command_hit: time(random, 20_000),
        command_rate: one_of(random, &[None, Some(500_000), Some(7_000)]),
        link_rate: one_of(random, &[None, Some(2_000_000_000), Some(30_000_000)]),
        victim,
        free_target: one_of(random, &[2, 3, 4, 6]),
        pace_gain_milli: one_of(random, &[1000, 100, 7000]),
        placement,
    };
    let config = SsdConfig {
        elements,
        planes,
        allocation: PageAllocation::Channels,
        reserve_bp: if handles > 3 { 4500 } else { one_of(random, &[2000, 3500, 4500]) },
        read: time(random, 90_000),
        program: time(random, 2_000_000),
        erase: time(random, 900_000_000),
        transfer_ps_per_byte: 1 + below(random, 3000),
        collection_write_point,
        modern: Some(modern),
        ..SsdConfig::default()
    };
    (config, page)
}

/// The drive and its model, in the same state.
struct DrivePair {
    ssd: Ssd,
    naive: NaiveDrive,
    pages: u64,
}

impl DrivePair {
    fn new(config: &SsdConfig, page: PageGeometry, start: StartState) -> Option<Self> {
        let shape = SsdShape::new(config.clone(), page).ok()?;
        let pages = u64::from(shape.host_pages);
        let ssd = Ssd::new(shape, start);
        let mut naive = NaiveDrive::new(config, page);
        if start != StartState::Empty {
            (0..pages).for_each(|sector| _ = naive.write(0, sector));
        }
        if let StartState::Aged { overwrites_pct, seed } = start {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            for _ in 0..pages * u64::from(overwrites_pct) / 100 {
                naive.write(0, below(&mut random, pages));
            }
        }
        naive.begin_run();
        Some(Self { ssd, naive, pages })
    }

    /// Compares all that can be seen of both.
    fn compare(&mut self, now: u64, what: &str) {
        // Commands may be let in later than they arrive, and the naive drive forgets what was before.
        let now = now.max(self.naive.looked_at);
        self.ssd.set_now(Nanos(now));
        for (i, own) in self.ssd.counters().enumerate() {
            let found = DieCounts {
                flash_reads: own.flash_reads,
                host_programs: own.host_programs,
                moved: own.gc_pages_moved,
                erases: own.erases,
                gc_time: own.gc_time.0,
                busy: own.busy_time.0,
            };
            assert_eq!(found, self.naive.counts[i], "die {i}, {what}");
            assert_eq!(own.gc_invocations, self.naive.victims_done, "die {i}, {what}");
            let die = Element(i as u32);
            assert_eq!(self.ssd.busy_until(die).0, self.naive.idle_at(i), "die {i}, {what}");
            assert_eq!(self.ssd.collecting(die), self.naive.is_in_slice(i, now), "die {i}, {what}");
            assert_eq!(self.ssd.free_blocks(die) as usize, self.naive.free_superblocks(), "{what}");
        }
        let of = |own: PlacedStream| (own.stream, own.handle as usize, [own.written, own.copied]);
        let streams: Vec<_> = self.ssd.streams().map(of).collect();
        let placed = self.naive.placed.iter().filter(|(_, counts)| **counts != [0, 0]);
        let naive = placed.map(|(stream, counts)| (*stream, self.naive.handle_of(*stream), *counts));
        if self.ssd.has_placement() {
            assert_eq!(streams, naive.collect::<Vec<_>>(), "{what}");
        } else {
            assert!(streams.is_empty(), "{what}");
        }
        assert_eq!(self.ssd.total().unmapped_reads, self.naive.unmapped_reads, "{what}");
        let states = self.ssd.page_states();
        assert_eq!((states.valid, states.free, states.invalid), self.naive.states(), "{what}");
    }
}

/// Draws the time between two operations, in ns.
fn pause(random: &mut Xoshiro256PlusPlus, load: u64) -> u64 {
    match below(random, 100) {
        0 => 20_000_000,
        1..=40 => 0,
        _ => below(random, load),
    }
}

/// Returns how many operations were compared, and how many superblocks were collected: without placement, and with.
fn compare_drive(seed: u64) -> [u64; 3] {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (config, page) = random_drive(&mut random);
    let start = match seed % 3 {
        0 => StartState::Empty,
        1 => StartState::Full,
        _ => StartState::Aged { overwrites_pct: 150, seed },
    };
    let Some(mut pair) = DrivePair::new(&config, page, start) else { return [0; 3] };
    let (pages, hot) = (pair.pages, below(&mut random, pair.pages) + 1);
    let (load, reads) = (one_of(&mut random, &[20_000, 100_000, 700_000]), one_of(&mut random, &[10, 40, 80]));
    let commands = below(&mut random, 2) == 0;
    let mut now = 0;
    for number in 0..OPERATIONS {
        now += pause(&mut random, load);
        let among = if below(&mut random, 3) == 0 { hot } else { pages };
        let first = below(&mut random, among);
        let count = if commands { one_of(&mut random, &[1, 1, 1, 2, 5, 9]).min(pages - first) } else { 1 };
        let kind = below(&mut random, 100);
        let what = || format!("seed {seed}, operation {number} at {now}: {kind}, {first} + {count}, {config:?}");
        // Streams live differently long: the hot part is written by others.
        let labels = if among == hot { &PlacementStream::ALL[3..] } else { &PlacementStream::ALL[..3] };
        let stream = one_of(&mut random, labels);
        pair.ssd.label_writes(stream);
        pair.naive.stream = stream;
        if commands || number == 0 {
            pair.ssd.begin_command();
        }
        // Each page is a command of its own where nobody says where commands begin; the naive drive is told always.
        pair.naive.begin_command();
        for sector in first..first + count {
            if !commands {
                pair.ssd.begin_command();
            }
            let page = PageNo(sector as u32);
            let (found, expected) = match kind {
                0 => {
                    pair.ssd.trim(page);
                    pair.naive.trim(sector);
                    (0, 0)
                }
                1 if number.is_multiple_of(5) => {
                    pair.ssd.collect(Nanos(now), Quota::Blocks(2));
                    pair.naive.collect(now, 2);
                    (0, 0)
                }
                _ if kind < reads => (pair.ssd.read(Nanos(now), page).0, pair.naive.read(now, sector)),
                _ => (pair.ssd.program(Nanos(now), page).0, pair.naive.write(now, sector)),
            };
            assert_eq!(found, expected, "{}", what());
            if let Some(die) = pair.naive.die_of(sector) {
                assert_eq!(pair.ssd.element_of(page).index(), die, "{}", what());
            }
        }
        if number.is_multiple_of(16) {
            pair.compare(now, &what());
        }
    }
    pair.compare(now, "at the end");
    pair.ssd.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let dies = config.elements as usize;
    let erases: Vec<u64> = pair.ssd.erases().step_by(dies).map(u64::from).collect();
    assert_eq!(erases, pair.naive.erases(), "seed {seed}");
    let collected = erases.iter().sum();
    if pair.ssd.has_placement() { [OPERATIONS, 0, collected] } else { [OPERATIONS, collected, 0] }
}

#[test]
fn the_drive_does_what_a_naive_one_does() {
    let done: Vec<[u64; 3]> = (0..DRIVES).map(compare_drive).collect();
    let [operations, collected, placed] = [0, 1, 2].map(|which| done.iter().map(|done| done[which]).sum::<u64>());
    assert!(operations >= 100_000, "{operations} operations");
    assert!(collected.min(placed) >= 1000, "{collected} superblocks collected, and {placed} of drives with placement");
}

/// Whatever is asked for is refused or works: small drives are written through, too.
#[test]
fn a_drive_is_refused_or_works() {
    const EXTREMES: [u64; 12] = [0, 1, 2, 3, 7, 16, 64, 1000, 65_536, u32::MAX as u64, u32::MAX as u64 + 1, u64::MAX];
    let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
    let (mut refused, mut worked) = (0, 0);
    for _ in 0..4000 {
        let (mut config, page) = random_drive(&mut random);
        let mut modern = config.modern.take().expect("modern");
        let extreme = one_of(&mut random, &EXTREMES);
        let narrow = extreme.min(u32::MAX.into()) as u32;
        let mut start = StartState::Full;
        match below(&mut random, 16) {
            0 => config.elements = narrow,
            1 => config.planes = narrow,
            2 => config.reserve_bp = narrow,
            3 => config.transfer_ps_per_byte = extreme,
            4 => modern.exported_pages = extreme,
            5 => modern.word_lines = Some(narrow),
            6 => modern.slice_reads = narrow,
            7 => modern.write_cache_bytes = extreme,
            8 => {
                // With room for it, so that it is looked at; from nothing to more than the drive.
                modern.write_hold_bytes =
                    modern.exported_pages.saturating_mul(below(&mut random, 9) * page.page_bytes()) / 8;
                modern.write_cache_bytes = modern.write_hold_bytes.saturating_add(1 << 20);
                start = StartState::Steady { seed: extreme };
            }
            9 => modern.write_slots = narrow,
            10 => modern.command_rate = Some(extreme),
            11 => modern.link_rate = Some(extreme),
            12 => modern.free_target = narrow,
            13 => modern.pace_gain_milli = extreme,
            14 => modern.victim = VictimPolicy::DChoice(narrow),
            _ => config.program = Nanos(extreme),
        }
        config.modern = Some(modern);
        let _ = config.clone().with_pages(extreme, page);
        match SsdShape::new(config, page) {
            Ok(shape) if shape.memory_bytes() < 1 << 18 => {
                let pages = u64::from(shape.host_pages);
                let mut ssd = Ssd::new(shape, start);
                for number in 0..pages * 2 {
                    ssd.program(Nanos(number * 1000), PageNo(below(&mut random, pages) as u32));
                }
                ssd.check().expect("its laws");
                worked += 1;
            }
            Ok(_) => {}
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 500 && worked > 1000, "{refused} were refused, {worked} worked");
}
