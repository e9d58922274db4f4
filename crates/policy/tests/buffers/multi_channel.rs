//! Policies and layers that write through several channels at once (specs §6): the worked tables
//! row by row, naive models under random operations and vetoes, and what they must do whatever
//! comes.

use std::collections::BTreeSet;

use destage_plan::{Element, PageNo};
use destage_policy::buffer::{
    Access, AccessOutcome, Buffer, BufferConfig, BufferNotice, Built, EvictionKind, EvictionUnit, Evictions, Exhausted,
    NoDevice, NoVeto, PolicyError, Visitor, Wait, build, layers, policies,
};

use crate::content::Content;
use crate::driven::{Objector, driven};
use crate::models::{Left, Objections, model};
use crate::table::Table;
use crate::workload::{Mix, Op, PATTERNS, Workload};

fn writes(pages: &[u32]) -> Vec<Access> {
    pages.iter().map(|page| Access::write(*page)).collect()
}

fn flush(pages: &[(u32, u16)]) -> Left {
    Left::spread(EvictionKind::Flush, pages)
}

fn dropped(page: u32) -> Left {
    Left::unit(EvictionKind::Drop, &[page])
}

/// CAWR Fig. 4: eleven cold dirty pages and four channels. The pages come in the order in which
/// they are moved; that all of them are cold takes one turn of the scan.
#[test]
fn cawr_fig_4() {
    for spec in ["cawr", "cawr:cawr_seq=any"] {
        let mut t = Table::new(spec, 11, 64, 4);
        t.row(
            &writes(&[4, 309, 55, 100, 5, 310, 56, 1002, 6, 7, 20]),
            "20d 7d 6d 1002d 56d 310d 5d 100d 55d 309d 4d | - | - / - / - / -",
            &[],
        );
        // 1002 has no place.
        t.row(
            &writes(&[2000]),
            "2000d 20d* 7d* 6d* 1002d* | - | 5 / 310 / 56 / -",
            &[flush(&[(4, 0), (309, 1), (55, 2), (100, 3)])],
        );
        t.row(&writes(&[2010, 2020, 2030]), "2030d 2020d 2010d 2000d 20d* 7d* 6d* 1002d* | - | 5 / 310 / 56 / -", &[]);
        // 1002 opens the last list, 6 and 7 follow 5, 20 has no place.
        t.row(
            &writes(&[2040]),
            "2040d 2030d 2020d 2010d 2000d 20d* | - | 6 7 / - / - / -",
            &[flush(&[(5, 0), (310, 1), (56, 2), (1002, 3)])],
        );
    }
}

/// Specs §6.4, the example of a full buffer.
#[test]
fn cawr_full_buffer() {
    let mut t = Table::new("cawr", 6, 64, 2);
    let accesses = [
        Access::write(10),
        Access::write(11),
        Access::read(50),
        Access::write(30),
        Access::write(12),
        Access::read(60),
    ];
    t.row(&accesses, "60c 12d 30d 50c 11d 10d | - | - / -", &[]);
    t.row(&writes(&[40]), "40d 11d* 10d* 60c 12d 30d | - | - / -", &[dropped(50)]);
    t.row(&writes(&[41]), "41d 12d* 30d* 40d 11d* 10d* | - | - / -", &[dropped(60)]);
    t.row(&writes(&[70]), "70d 41d* 40d* | - | 11 12 / -", &[flush(&[(10, 0), (30, 1)])]);
    t.row(&[Access::read(31)], "31c 70d 41d* 40d* | - | 11 12 / -", &[]);
    t.row(&writes(&[80]), "80d 70d* | - | 11 12 / 40 41", &[dropped(31)]);
    // Lookups and insertions 11 · 2. W40: 10, 11, 50 inspected, 50 out. W41: 30, 12, 60 inspected,
    // 60 out. W70: 10 (2 lists looked at, then 1), 11 (1), 40, 30 (2, 2), 12 (1), 41, 40 (2, 2)
    // inspected, two pages out. W80: 40 (2, 2), 41 (2), 70, 31 inspected, 31 out.
    assert_eq!(t.policy.memory_accesses(), 11 * 2 + 4 + 4 + (7 + 13 + 2) + (4 + 6 + 1));
}

/// What `any` and `same_block` take to be a sequence, and a list that is full.
#[test]
fn cawr_sequences() {
    let mut t = Table::new("cawr:cawr_seq=any", 5, 64, 2);
    t.row(&writes(&[10, 40, 9, 11, 70]), "70d 11d 9d 40d 10d | - | - / -", &[]);
    t.row(&writes(&[500]), "500d 70d* | - | 9 11 / -", &[flush(&[(10, 0), (40, 1)])]);
    let mut t = Table::new("cawr:cawr_seq=same_block", 5, 8, 2);
    t.row(&writes(&[9, 40, 14, 11, 70]), "70d 11d 14d 40d 9d | - | - / -", &[]);
    t.row(&writes(&[500]), "500d 70d* | - | 14 11 / -", &[flush(&[(9, 0), (40, 1)])]);
    let mut t = Table::new("cawr:cdl_max=2", 5, 64, 2);
    t.row(&writes(&[10, 11, 12, 13, 14]), "14d 13d 12d 11d 10d | - | - / -", &[]);
    // 12 finds the first list full and opens the second; 14 finds no place.
    t.row(&writes(&[500]), "500d 14d* | - | 11 / 13", &[flush(&[(10, 0), (12, 1)])]);
    let mut t = Table::new("cawr", 2, 64, 2);
    // Page 0 follows nothing.
    t.row(&writes(&[0, 1]), "1d 0d | - | - / -", &[]);
}

/// New clean pages in the cold clean list are the next victims (D5); hits lead back to the working
/// list (D4).
#[test]
fn cawr_clean_pages_and_hits() {
    let mut t = Table::new("cawr:cawr_new_clean_to=ccl", 3, 64, 2);
    t.row(&[Access::write(1), Access::read(2), Access::read(3)], "1d | 3c* 2c* | - / -", &[]);
    t.row(&[Access::read(2)], "2c 1d | 3c* | - / -", &[]);
    t.row(&[Access::read(4)], "2c 1d | 4c* | - / -", &[dropped(3)]);
    let mut t = Table::new("cawr", 4, 64, 2);
    t.row(&writes(&[10, 11, 12, 50]), "50d 12d 11d 10d | - | - / -", &[]);
    t.row(&writes(&[90]), "90d | - | 11 12 / -", &[flush(&[(10, 0), (50, 1)])]);
    t.row(&writes(&[11]), "11d 90d | - | 12 / -", &[]);
    t.row(&[Access::read(12)], "12d 11d 90d | - | - / -", &[]);
}

/// The working list runs empty before all lists have pages: Algorithm 2 would not end (D6).
#[test]
fn cawr_partial_multi_eviction() {
    let mut t = Table::new("cawr", 3, 64, 4);
    t.row(&writes(&[10, 11, 50]), "50d 11d 10d | - | - / - / - / -", &[]);
    t.row(&writes(&[90]), "90d | - | 11 / - / - / -", &[flush(&[(10, 0), (50, 1)])]);
    let mut t = Table::new("cave", 3, 64, 4);
    t.row(&writes(&[10, 11, 50]), "50d 11d 10d | - | -", &[]);
    t.row(&writes(&[90]), "90d | - | -", &[flush(&[(10, 0), (11, 1), (50, 2)])]);
    // The round robin goes on where it was.
    t.row(&writes(&[91, 92]), "92d 91d 90d | - | -", &[]);
    t.row(&writes(&[93]), "93d | - | -", &[flush(&[(90, 3), (91, 0), (92, 1)])]);
    let mut t = Table::new("gate+lru", 3, 64, 4);
    t.row(&writes(&[10, 11, 50, 90]), "90d | -", &[flush(&[(10, 0), (11, 1), (50, 2)])]);
    let mut t = Table::new("cave+bplru:padding=never", 3, 4, 4);
    t.row(
        &writes(&[10, 11, 50, 90]),
        "90d | -",
        &[Left { units: 0, ..flush(&[(10, 0), (50, 1)]) }, Left { units: 2, ..flush(&[(11, 2)]) }],
    );
    let mut t = Table::new("cawr+bplru", 3, 4, 4);
    t.row(&writes(&[10, 11, 50, 90]), "90d | 11 / - / - / -", &[flush(&[(10, 0), (50, 1)])]);
}

/// Specs §6.3: CCF-LRU and CAVE, all pages dirty and cold.
#[test]
fn cave_pages() {
    let mut t = Table::new("cave:ccf_new_dirty_cold=true", 4, 64, 2);
    t.row(&writes(&[4, 309, 5, 310]), "310d* 5d* 309d* 4d* | - | -", &[]);
    t.row(&writes(&[1000]), "1000d* 310d* 5d* | - | -", &[flush(&[(4, 0), (309, 1)])]);
    t.row(&writes(&[1001]), "1001d* 1000d* 310d* 5d* | - | -", &[]);
    // 5 is with 4 only because the turn happened to come.
    t.row(&writes(&[1002]), "1002d* 1001d* 1000d* | - | -", &[flush(&[(5, 0), (310, 1)])]);
    // Seven lookups and insertions, four pages inspected, four out.
    assert_eq!(t.policy.memory_accesses(), 7 * 2 + 4 + 4);
}

/// The table of CCF-LRU (specs §4.5) with two channels: clean pages leave first, dirty ones after a
/// second chance and in twos.
#[test]
fn cave_pages_over_ccf_lru() {
    let mut t = Table::new("cave", 4, 64, 2);
    t.row(&[Access::write(1), Access::read(2), Access::read(3)], "1d | 3c* 2c* | -", &[]);
    t.row(&[Access::read(2)], "2c 1d | 3c* | -", &[]);
    t.row(&writes(&[4]), "4d 2c 1d | 3c* | -", &[]);
    t.row(&writes(&[5]), "5d 4d 2c 1d | - | -", &[dropped(3)]);
    t.row(&writes(&[6]), "6d 1d* 5d 4d | - | -", &[dropped(2)]);
    // 4 and 5 get their second chance, 1 is collected, then 6 gets its own and 4 is collected.
    t.row(&writes(&[7]), "7d 6d* 5d* | - | -", &[flush(&[(1, 0), (4, 1)])]);
    t.row(&[Access::read(8)], "7d 6d* 5d* | 8c* | -", &[]);
    t.row(&writes(&[9]), "9d 7d 6d* 5d* | - | -", &[dropped(8)]);
    // A clean page comes up after one dirty page was collected, which waits and may still hit.
    t.row(&[Access::read(10)], "9d 7d | 10c* | -", &[flush(&[(5, 0), (6, 1)])]);
}

/// The same pages where reads enter the mixed list, hot (specs §10.7 D12): what CAWR does with a
/// clean page that comes up.
#[test]
fn cave_pages_with_reads_in_the_mixed_list() {
    let mut t = Table::new("cave:ccf_new_clean_to=mixed", 4, 64, 2);
    t.row(&[Access::write(1), Access::read(2), Access::read(3)], "3c 2c 1d | - | -", &[]);
    t.row(&writes(&[4]), "4d 3c 2c 1d | - | -", &[]);
    t.row(&writes(&[5]), "5d 1d* 4d 3c | - | -", &[dropped(2)]);
    t.row(&[Access::read(6)], "6c 5d 1d* 4d | - | -", &[dropped(3)]);
    // 4 and 5 get their second chance, 1 is collected and waits for another; the new clean page
    // comes up and leaves.
    t.row(&writes(&[7]), "7d 5d* 4d* | - | 1", &[dropped(6)]);
    t.row(&writes(&[8]), "8d 7d 5d* | - | -", &[flush(&[(1, 0), (4, 1)])]);
}

/// Specs §6.2: dirty victims of LRU wait in the gate, clean ones pass; pages in the gate are hit in
/// place.
#[test]
fn gate_over_lru() {
    let mut t = Table::new("gate+lru", 4, 64, 2);
    t.row(&[Access::write(1), Access::read(2), Access::write(3), Access::write(4)], "1d 2c 3d 4d | -", &[]);
    t.row(&writes(&[5]), "3d 4d 5d | 1", &[dropped(2)]);
    t.row(&[Access::read(1), Access::write(1)], "3d 4d 5d | 1", &[]);
    // The gate is at the end of the road: a hit there is no reason to keep 1.
    t.row(&writes(&[6]), "4d 5d 6d | -", &[flush(&[(1, 0), (3, 1)])]);
    t.row(&[Access::read(7)], "4d 5d 6d 7c | -", &[]);
    t.row(&writes(&[8]), "6d 7c 8d | -", &[flush(&[(4, 0), (5, 1)])]);
}

/// Specs §6.3: rounds of one page from each of two blocks. Round robin over pages puts 13 and 14 of
/// one block on two channels as soon as the other has run out; per block they stay together.
#[test]
fn cave_blocks() {
    for (spec, third, fourth) in [
        ("cave+bplru:padding=never:compensation=off", 0, 1),
        ("cave+bplru:padding=never:compensation=off:cave_block_channel=per_block", 1, 1),
    ] {
        let mut t = Table::new(spec, 6, 4, 2);
        t.row(&writes(&[4, 5, 12, 13, 14, 15]), "4d 5d 12d 13d 14d 15d | -", &[]);
        t.row(
            &writes(&[40]),
            "40d | -",
            &[
                Left { units: 0, ..flush(&[(4, 0), (12, 1)]) },
                Left { units: 0, ..flush(&[(5, 0), (13, 1)]) },
                Left { units: 0, ..flush(&[(14, third)]) },
                Left { units: 2, ..flush(&[(15, fourth)]) },
            ],
        );
    }
}

/// Padding pages are part of the rounds and have channels; the whole multi-eviction is one group.
#[test]
fn cave_blocks_padded() {
    let mut t = Table::new("cave+bplru", 3, 4, 2);
    t.row(&writes(&[5, 6, 12]), "5d 6d 12d | -", &[]);
    // B1 on channel 0: 4 5 6 7, B3 on channel 1: 12 13 14 15.
    let padding = [(4, 0), (13, 1), (14, 1), (7, 0), (15, 1)];
    t.row(
        &writes(&[40]),
        "40d | -",
        &[
            Left { units: 0, ..Left::spread(EvictionKind::Pad, &padding) },
            Left { units: 2, ..flush(&[(12, 1), (5, 0), (6, 0)]) },
        ],
    );
}

/// Clean pages over a policy that buffers reads: a clean first victim is enough, later ones take no
/// channel.
#[test]
fn cave_blocks_with_clean_pages() {
    let mut t = Table::new("cave+fab", 6, 4, 2);
    let accesses = [Access::read(4), Access::read(5), Access::write(8), Access::read(9)];
    t.row(&accesses, "4c 5c 8d 9c | -", &[]);
    t.row(&[Access::write(12), Access::read(16)], "4c 5c 8d 9c 12d 16c | -", &[]);
    t.row(&writes(&[20]), "8d 9c 12d 16c 20d | -", &[Left::unit(EvictionKind::Drop, &[4, 5])]);
    t.row(
        &writes(&[24, 28]),
        "16c 20d 24d 28d | -",
        &[Left::part(EvictionKind::Drop, &[9]), Left { units: 2, ..flush(&[(8, 0), (12, 1)]) }],
    );
}

/// Specs §6.5. BPLRU buffers no clean pages, so that page 6 of the specification's first block is
/// missing here.
#[test]
fn cawr_blocks() {
    let mut t = Table::new("cawr+bplru", 5, 4, 2);
    t.row(&writes(&[4, 5, 12, 28, 29]), "4d 5d 12d 28d 29d | - / -", &[]);
    t.row(&writes(&[100]), "28d 29d 100d | 5 / -", &[flush(&[(4, 0), (12, 1)])]);
    t.row(&writes(&[200]), "28d 29d 100d 200d | 5 / -", &[]);
    t.row(&writes(&[300]), "100d 200d 300d | - / 29", &[flush(&[(5, 0), (28, 1)])]);
}

/// Clean pages of a victim satisfy the replacement; a page in a list is hit in place; what its
/// block gets meanwhile joins it.
#[test]
fn cawr_blocks_with_clean_pages() {
    let mut t = Table::new("cawr+fab", 6, 4, 2);
    t.row(&[Access::write(4), Access::write(5), Access::read(6)], "4d 5d 6c | - / -", &[]);
    t.row(&writes(&[12, 28, 29]), "4d 5d 6c 12d 28d 29d | - / -", &[]);
    t.row(&writes(&[40]), "12d 28d 29d 40d | 4 5 / -", &[dropped(6)]);
    t.row(&[Access::write(4), Access::read(5)], "12d 28d 29d 40d | 4 5 / -", &[]);
    // B7 is the largest now.
    t.row(&writes(&[41]), "12d 40d 41d | 5 / 29", &[flush(&[(4, 0), (28, 1)])]);
    t.row(&writes(&[6]), "6d 12d 40d 41d | 5 / 29", &[]);
    t.row(&writes(&[60]), "6d 12d 40d 41d 60d | - / -", &[flush(&[(5, 0), (29, 1)])]);
    // Into the lists: B10, then B3.
    t.row(&writes(&[80, 81]), "6d 60d 80d 81d | 41 / -", &[flush(&[(40, 0), (12, 1)])]);
    t.row(&writes(&[42]), "6d 42d 60d 80d 81d | 41 / -", &[]);
    t.row(&writes(&[84]), "6d 42d 60d 84d | - / 81", &[flush(&[(41, 0), (80, 1)])]);
}

/// The tables do not reach a block whose first pages still wait when more of it leaves.
#[test]
fn a_block_joins_what_is_left_of_it() {
    let mut t = Table::new("cawr+bplru", 4, 4, 2);
    t.row(&writes(&[4, 5, 6, 12]), "4d 5d 6d 12d | - / -", &[]);
    t.row(&writes(&[7]), "7d | 5 6 / -", &[flush(&[(4, 0), (12, 1)])]);
    t.row(&writes(&[16]), "7d 16d | 5 6 / -", &[]);
    // B1 leaves again and finds its list; B4 takes the other.
    t.row(&writes(&[20]), "20d | 6 7 / -", &[flush(&[(5, 0), (16, 1)])]);
}

/// Every specification that is compared with its model.
const PAGES: [&str; 15] = [
    "cave",
    "cave:ccf_new_dirty_cold=true",
    "cave:ccf_new_clean_to=mixed",
    "cawr",
    "cawr:cdl_max=1",
    "cawr:cdl_max=16:cawr_new_clean_to=ccl",
    "cawr:cawr_seq=any",
    "cawr:cawr_seq=any:cdl_max=9:cawr_new_clean_to=ccl",
    "cawr:cawr_seq=same_block",
    "cawr:cawr_seq=same_block:cdl_max=100",
    "gate+lru",
    "gate+lru:reads=bypass",
    "gate+clock",
    "gate+clock:reads=bypass",
    "cawr:cdl_max=4294967295",
];

const BLOCKS: [&str; 15] = [
    "cave+bplru",
    "cave+bplru:cave_block_channel=per_block",
    "cave+bplru:padding=never",
    "cave+fab",
    "cave+fab:cave_block_channel=per_block",
    "cave+fab:reads=bypass",
    "cave+clc:padding=always:si_max=2",
    "cave+pud-lru:cave_block_channel=per_block",
    "cave+lb-clock",
    "cawr+bplru",
    "cawr+fab",
    "cawr+fab:reads=bypass",
    "cawr+clc:si_max=2",
    "cawr+pud-lru",
    "cawr+lb-clock",
];

const CHANNELS: [u32; 5] = [1, 2, 3, 4, 8];

/// Pages per block and capacity.
const GEOMETRIES: [(u32, u32); 7] = [(1, 1), (1, 30), (4, 3), (4, 40), (16, 100), (64, 64), (70, 200)];

/// Calls `run` for each specification, geometry, number of channels and pattern.
fn sweep(specs: &[&str], ops: usize, run: impl Fn(&str, BufferConfig, u32, u64, &mut dyn Iterator<Item = Op>)) {
    let soak = if std::env::var_os("DESTAGE_SOAK").is_some() { 20 } else { 1 };
    let mut seed = 4000;
    for spec in specs {
        for (pages_per_block, capacity_pages) in GEOMETRIES {
            for elements in CHANNELS {
                for pattern in PATTERNS {
                    seed += 1;
                    let config = BufferConfig { capacity_pages, pages_per_block, elements };
                    let pages = 2 * capacity_pages + 3 * pages_per_block;
                    let mut dice = Workload::new(!seed, pattern, Mix::WRITES, pages);
                    // Now and then a page is written back by itself.
                    let mut ops = Workload::new(seed, pattern, Mix::ALL, pages).take(ops * soak).map(|op| {
                        let page = PageNo(dice.below(pages));
                        match dice.below(64) {
                            die @ 0..2 => Op::Notify(BufferNotice::Destage { page, keep: die == 0 }),
                            _ => op,
                        }
                    });
                    run(spec, config, pages, seed, &mut ops);
                }
            }
        }
    }
}

/// Objects to no, some or all channels, and to as many pages or blocks.
fn random_objections(dice: &mut Workload, spec: &str, config: BufferConfig, pages: u32) -> Objections {
    let step = if BLOCKS.contains(&spec) { config.pages_per_block } else { 1 };
    let mut share = || [0, 0, 200, 512, 900, 1024][dice.below(6) as usize];
    let (of_units, of_channels) = (share(), share());
    let units = (0..pages).step_by(step as usize).filter(|_| dice.below(1024) < of_units).collect();
    let channels = (0..config.elements).filter(|_| dice.below(1024) < of_channels).collect();
    let exhausted = if dice.below(2) == 0 { Exhausted::TakeBase } else { Exhausted::Bypass };
    Objections { units, exhausted, channels, ..Objections::none() }
}

/// What every group of a multi-eviction is like.
fn check_groups(left: &[Left], config: BufferConfig, avoided: &BTreeSet<u32>, all_at_once: bool) {
    for group in left.iter().filter(|group| group.kind != EvictionKind::Drop) {
        let channels = group.channels.as_ref().expect("the policy says where pages go");
        assert!(channels.iter().all(|c| u32::from(*c) < config.elements), "{group:?}");
        let distinct: BTreeSet<u16> = channels.iter().copied().collect();
        if all_at_once {
            assert_eq!(distinct.len(), channels.len(), "{group:?} is written at the same time");
        }
        if avoided.len() < config.elements as usize {
            assert!(distinct.iter().all(|c| !avoided.contains(&u32::from(*c))), "{group:?}, avoided: {avoided:?}");
        }
    }
}

fn against_model(
    spec: &str,
    config: BufferConfig,
    pages: u32,
    seed: u64,
    ops: &mut dyn Iterator<Item = Op>,
    vetoes: bool,
) {
    let (mut policy, mut naive) = (driven(spec, config, pages), model(spec, config));
    let mut content = Content::default();
    let mut dice = Workload::new(!seed, PATTERNS[0], Mix::WRITES, pages);
    let mut objections = Objections::none();
    let (mut seen, mut expected) = (Vec::new(), Vec::new());
    let padded = spec.contains("padding=always") || spec.starts_with("cave+bplru") && !spec.contains("padding");
    for (number, op) in ops.enumerate() {
        let before = if config.capacity_pages <= 3 { naive.state() } else { String::new() };
        let context = || format!("{spec} {config:?} {number} {op:?}\n  before: {before}");
        match op {
            Op::Access(access) => {
                // They stand for some accesses, and what was passed over is resumed when they
                // change.
                if vetoes && dice.below(3) == 0 {
                    objections = random_objections(&mut dice, spec, config, pages);
                    policy.notify(BufferNotice::Resume { element: Element(0) }, &mut seen);
                    naive.notify(BufferNotice::Resume { element: Element(0) }, &mut expected);
                }
                let outcome = naive.access(access, &objections, &mut expected);
                if vetoes {
                    let mut veto = Objector::new(objections.clone(), config.pages_per_block);
                    let seen_outcome = policy.access_with(access, &mut veto, &mut seen);
                    assert_eq!((seen_outcome, &seen), (outcome, &expected), "{} {objections:?}", context());
                } else {
                    let seen_outcome = policy.access(access, &mut seen);
                    assert_eq!((seen_outcome, &seen), (outcome, &expected), "{}", context());
                }
                if objections.exhausted == Exhausted::Bypass || objections.channels.len() < config.elements as usize {
                    let all_avoided = objections.channels.len() == config.elements as usize;
                    let programs = seen.iter().any(|group| group.kind != EvictionKind::Drop);
                    assert!(!(all_avoided && programs), "{}", context());
                }
                // Where only lists that are avoided have pages they are written nevertheless.
                let nevertheless = spec.starts_with("cawr") && objections.exhausted == Exhausted::TakeBase;
                let avoided = if nevertheless { &BTreeSet::new() } else { &objections.channels };
                check_groups(&seen, config, avoided, !padded);
                content.access(access, outcome, &seen);
            }
            Op::Notify(notice) => {
                naive.notify(notice, &mut expected);
                policy.notify(notice, &mut seen);
                assert_eq!(seen, expected, "{}", context());
                let one_channel = matches!(notice, BufferNotice::Destage { .. });
                check_groups(&seen, config, &BTreeSet::new(), !padded && !one_channel);
                content.notify(notice, &seen);
            }
        }
        assert_eq!((policy.len(), policy.is_empty()), (naive.len(), naive.len() == 0), "{}", context());
        assert_eq!(policy.len() as usize, content.pages.len(), "{}", context());
        assert!(policy.len() <= config.capacity_pages, "{}", context());
        assert_eq!(policy.memory_accesses(), naive.memory_accesses(), "{}", context());
        seen.clear();
        expected.clear();
    }
    content.check_laws();
    policy.notify(BufferNotice::Flush, &mut seen);
    content.notify(BufferNotice::Flush, &seen);
    content.check_laws();
}

#[test]
fn pages_against_their_models() {
    sweep(&PAGES, 300, |spec, config, pages, seed, ops| against_model(spec, config, pages, seed, ops, false));
}

#[test]
fn blocks_against_their_models() {
    sweep(&BLOCKS, 300, |spec, config, pages, seed, ops| against_model(spec, config, pages, seed, ops, false));
}

#[test]
fn pages_against_their_models_under_vetoes() {
    sweep(&PAGES, 300, |spec, config, pages, seed, ops| against_model(spec, config, pages, seed, ops, true));
}

#[test]
fn blocks_against_their_models_under_vetoes() {
    sweep(&BLOCKS, 300, |spec, config, pages, seed, ops| against_model(spec, config, pages, seed, ops, true));
}

/// A veto that avoids all channels and takes the base changes nothing; so does one that avoids
/// none.
#[test]
fn a_veto_on_all_channels_that_takes_the_base_has_no_effect() {
    sweep(&[PAGES, BLOCKS].concat(), 200, |spec, config, pages, seed, ops| {
        let all = if seed % 2 == 0 { (0..config.elements).collect() } else { BTreeSet::new() };
        let objections = Objections { channels: all, ..Objections::none() };
        let (mut free, mut asked) = (driven(spec, config, pages), driven(spec, config, pages));
        let (mut expected, mut seen) = (Vec::new(), Vec::new());
        for op in ops {
            match op {
                Op::Access(access) => {
                    let mut veto = Objector::new(objections.clone(), config.pages_per_block);
                    let outcome = asked.access_with(access, &mut veto, &mut seen);
                    assert_eq!(outcome, free.access(access, &mut expected), "{spec} {config:?} {op:?}");
                    let programs = expected.iter().any(|group| group.kind != EvictionKind::Drop);
                    if !spec.starts_with("cave+") {
                        assert_eq!(veto.exhausted, u32::from(programs && seed % 2 == 0), "{spec} {config:?} {op:?}");
                    }
                }
                Op::Notify(notice) => {
                    free.notify(notice, &mut expected);
                    asked.notify(notice, &mut seen);
                }
            }
            assert_eq!(seen, expected, "{spec} {config:?} {op:?}");
            assert_eq!(free.memory_accesses(), asked.memory_accesses());
            seen.clear();
            expected.clear();
        }
    });
}

/// Nothing is programmed while all channels are avoided and accesses shall bypass; what sat out is
/// written afterwards.
#[test]
fn what_sat_out_is_not_lost() {
    for spec in ["cave", "cawr", "gate+lru", "cave+bplru:padding=never", "cawr+bplru"] {
        let config = BufferConfig { capacity_pages: 12, pages_per_block: 4, elements: 4 };
        let mut policy = driven(spec, config, 1000);
        let mut content = Content::default();
        let mut left = Vec::new();
        for page in (0..48).step_by(4) {
            content.access(Access::write(page), policy.access(Access::write(page), &mut left), &left);
        }
        for (access, avoided) in (0..400).zip([0b1111, 0b0111, 0b1111, 0b0001].into_iter().cycle()) {
            let channels: BTreeSet<u32> = (0..4).filter(|c| avoided >> c & 1 == 1).collect();
            let objections = Objections { channels, exhausted: Exhausted::Bypass, ..Objections::none() };
            let mut veto = Objector::new(objections.clone(), 4);
            let access = Access::write(100 + 4 * access % 200);
            left.clear();
            let outcome = policy.access_with(access, &mut veto, &mut left);
            content.access(access, outcome, &left);
            if avoided == 0b1111 {
                assert_eq!(left, [], "{spec}");
            }
            check_groups(&left, config, &objections.channels, true);
        }
        content.check_laws();
        assert!(content.pages_out > 50, "{spec}: {} pages left", content.pages_out);
        left.clear();
        for page in (500..900).step_by(4) {
            policy.access(Access::write(page), &mut left);
        }
        let written: BTreeSet<u32> = left.iter().flat_map(|group| &group.pages).copied().collect();
        assert!(content.pages.keys().all(|page| written.contains(page)), "{spec}");
    }
}

/// Only the lists of channels that are not avoided are written, and no page begins one of the
/// others.
#[test]
fn cawr_lists_sit_out() {
    let config = BufferConfig { capacity_pages: 6, pages_per_block: 64, elements: 3 };
    let (mut policy, mut naive) = (driven("cawr", config, 1000), model("cawr", config));
    let (mut seen, mut expected) = (Vec::new(), Vec::new());
    for page in [10, 20, 30, 11, 40, 50] {
        policy.access(Access::write(page), &mut seen);
        naive.access(Access::write(page), &Objections::none(), &mut expected);
    }
    let avoiding = |channels: &[u32]| Objections { channels: channels.iter().copied().collect(), ..Objections::none() };
    let mut access = |page, channels: &[u32], state: &str, left: &[Left]| {
        let mut veto = Objector::new(avoiding(channels), 64);
        policy.access_with(Access::write(page), &mut veto, &mut seen);
        naive.access(Access::write(page), &avoiding(channels), &mut expected);
        assert_eq!((&seen[..], &expected[..]), (left, left));
        assert_eq!(naive.state(), state);
        seen.clear();
        expected.clear();
    };
    // 10 opens list 0, 20 list 2, and 30 has no place.
    access(60, &[1], "60d 50d* 40d* 11d* 30d* | - | - / - / -", &[flush(&[(10, 0), (20, 2)])]);
    access(61, &[], "61d 60d 50d* 40d* 11d* 30d* | - | - / - / -", &[]);
    access(62, &[], "62d 61d 60d 50d* | - | - / - / -", &[flush(&[(30, 0), (11, 1), (40, 2)])]);
}

/// Specs §12.2.
#[test]
fn cawr_with_one_channel_and_lists_of_one_evicts_one_page_at_a_time() {
    for spec in ["cawr:cdl_max=1", "cave", "gate+lru", "cawr+fab", "cawr+bplru"] {
        let config = BufferConfig { capacity_pages: 20, pages_per_block: 4, elements: 1 };
        let mut policy = driven(spec, config, 400);
        let mut left = Vec::new();
        for op in Workload::new(5, PATTERNS[3], Mix::WRITES, 400).take(20_000) {
            let Op::Access(access) = op else { unreachable!("only writes") };
            let full = policy.len() == 20;
            left.clear();
            let outcome = policy.access(access, &mut left);
            let expected = usize::from(full && outcome == AccessOutcome::Inserted);
            assert_eq!(left.iter().map(|group| group.pages.len()).sum::<usize>(), expected, "{spec}");
        }
    }
}

/// With one channel the gate is no more than the policy inside, page for page and in the same
/// order, unless that treats a page that it remembers in another way: the gate has it give up a
/// victim before it hears which page comes in.
#[test]
fn a_gate_of_one_slot_is_not_there() {
    let gate = layers().iter().find(|layer| layer.name == "gate").expect("a layer");
    let inside = policies().iter().filter(|policy| gate.goes_over(policy)).map(|policy| policy.name);
    let inside = inside.filter(|name| !["2q", "arc", "s3-fifo"].contains(name));
    for policy in inside.chain(["lru:reads=bypass", "2q:out=0", "s3-fifo:ghost=0"]) {
        let config = BufferConfig { capacity_pages: 30, pages_per_block: 4, elements: 1 };
        let (mut gated, mut plain) = (driven(&format!("gate+{policy}"), config, 300), driven(policy, config, 300));
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        for op in Workload::new(6, PATTERNS[3], Mix::ACCESSES, 300).take(20_000) {
            let Op::Access(access) = op else { unreachable!("only accesses") };
            assert_eq!(gated.access(access, &mut seen), plain.access(access, &mut expected));
            let told = |left: &[Left]| left.iter().map(|g| (g.kind, g.pages.clone(), g.units)).collect::<Vec<_>>();
            assert_eq!(told(&seen), told(&expected), "{policy}");
            seen.clear();
            expected.clear();
        }
    }
}

/// With one channel a victim of CAVE is a victim of the policy inside.
#[test]
fn cave_with_one_channel_evicts_the_same_blocks() {
    for policy in ["bplru:padding=never", "fab", "clc", "pud-lru", "lb-clock:insert_anchor=current_hand"] {
        let config = BufferConfig { capacity_pages: 30, pages_per_block: 4, elements: 1 };
        let (mut cave, mut plain) = (driven(&format!("cave+{policy}"), config, 300), driven(policy, config, 300));
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        for op in Workload::new(7, PATTERNS[3], Mix::ACCESSES, 300).take(20_000) {
            let Op::Access(access) = op else { unreachable!("only accesses") };
            assert_eq!(cave.access(access, &mut seen), plain.access(access, &mut expected));
            let told = |left: &[Left]| {
                let pages = left.iter().flat_map(|g| g.pages.iter().map(|page| (*page, g.kind == EvictionKind::Drop)));
                (pages.collect::<BTreeSet<_>>(), left.iter().map(|g| g.units).sum::<u32>())
            };
            assert_eq!(told(&seen), told(&expected), "{policy}");
            seen.clear();
            expected.clear();
        }
    }
}

/// A page of a run of writes leaves with its neighbour's channel or another, in a steady state of
/// runs of four pages.
#[test]
fn a_block_stays_on_one_channel() {
    for (spec, together) in [
        ("cawr+bplru", true),
        ("cawr+fab", true),
        ("cave+bplru:padding=never:cave_block_channel=per_block", true),
        ("cave+bplru:padding=never", false),
    ] {
        let config = BufferConfig { capacity_pages: 50, pages_per_block: 8, elements: 4 };
        let mut policy = driven(spec, config, 2000);
        let mut left = Vec::new();
        for op in Workload::new(8, PATTERNS[1], Mix::WRITES, 400).take(5000) {
            let Op::Access(access) = op else { unreachable!("only writes") };
            policy.access(access, &mut left);
        }
        // The channels on which the pages of a block are at last, by the multi-evictions in which
        // they left.
        let mut spread = 0;
        let mut last: Vec<Option<(usize, u16)>> = vec![None; 2000];
        for (number, group) in left.iter().enumerate() {
            let channels = group.channels.as_ref().expect("channels");
            for (page, channel) in group.pages.iter().zip(channels) {
                let block = (*page / 8) as usize;
                if let Some((before, other)) = last[block] {
                    spread += usize::from(other != *channel && number - before <= 1);
                }
                last[block] = Some((number, *channel));
            }
        }
        assert_eq!(spread == 0, together, "{spec}: {spread} times");
    }
}

/// What is built, said of itself, and how frames are waited for.
struct Waits<'a>(&'a [Access]);

impl Visitor for Waits<'_> {
    type Out = (Built, Vec<(Wait, u32)>);
    fn visit<B: Buffer + Send + 'static>(self, mut buffer: B, built: Built) -> Self::Out {
        buffer.grow(1000);
        let mut out = Evictions::default();
        for access in self.0 {
            buffer.access(*access, &NoDevice, &mut NoVeto, &mut out);
        }
        (built, out.groups().map(|(group, _)| (group.wait, group.units)).collect())
    }
}

#[test]
fn frames_are_free_together_or_each_by_itself() {
    let config = BufferConfig { capacity_pages: 3, pages_per_block: 4, elements: 2 };
    for (spec, wait) in [("cawr", Wait::All), ("cawr:wait=all", Wait::All), ("cawr:wait=any", Wait::Any)] {
        let accesses = writes(&[1, 10, 20, 30, 40, 50]);
        let (built, waits) = build(&spec.parse().expect(spec), config, Waits(&accesses)).expect(spec);
        assert_eq!(waits, [(wait, 2), (wait, 2)], "{spec}");
        assert!(built.chooses_channels && built.unit == EvictionUnit::Page);
    }
}

#[test]
fn more_channels_than_can_be_told_apart_are_refused() {
    let config = |elements| BufferConfig { capacity_pages: 3, pages_per_block: 4, elements };
    for spec in ["cave", "cawr", "gate+lru", "cave+fab", "cawr+fab"] {
        let build = |elements| build(&spec.parse().expect(spec), config(elements), Waits(&[]));
        assert!(build(65_528).is_ok(), "{spec}");
        let refused = build(65_529).err();
        assert_eq!(refused, Some(PolicyError::TooManyChannels { channels: 65_529, most: 65_528 }), "{spec}");
    }
}
