//! Policies and layers that write through several channels at once (specs §6): the worked tables
//! row by row, naive models under random operations and vetoes, and what they must do whatever
//! comes.

mod laws;

use std::collections::BTreeSet;

use destage_plan::{Element, PageNo};
use destage_policy::buffer::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, BuiltPolicy, EvictionKind, EvictionUnit, Evictions,
    FrameWait, NoDevice, NoVeto, PageAccess, PolicyError, PolicyVisitor, WhenExhausted, build, layers, policies,
};

use crate::content::Content;
use crate::driven::{Objector, driven};
use crate::models::{Left, Objections, model};
use crate::table::Table;
use crate::workload::{Mix, Op, PATTERNS, Workload};

fn writes(pages: &[u32]) -> Vec<PageAccess> {
    pages.iter().map(|page| PageAccess::write(*page)).collect()
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
        PageAccess::write(10),
        PageAccess::write(11),
        PageAccess::read(50),
        PageAccess::write(30),
        PageAccess::write(12),
        PageAccess::read(60),
    ];
    t.row(&accesses, "60c 12d 30d 50c 11d 10d | - | - / -", &[]);
    t.row(&writes(&[40]), "40d 11d* 10d* 60c 12d 30d | - | - / -", &[dropped(50)]);
    t.row(&writes(&[41]), "41d 12d* 30d* 40d 11d* 10d* | - | - / -", &[dropped(60)]);
    t.row(&writes(&[70]), "70d 41d* 40d* | - | 11 12 / -", &[flush(&[(10, 0), (30, 1)])]);
    t.row(&[PageAccess::read(31)], "31c 70d 41d* 40d* | - | 11 12 / -", &[]);
    t.row(&writes(&[80]), "80d 70d* | - | 11 12 / 40 41", &[dropped(31)]);
    // Lookups and insertions 11 · 2. W40: 10, 11, 50 inspected, 50 out. W41: 30, 12, 60 inspected,
    // 60 out. W70: 10 (2 lists looked at, then 1), 11 (1), 40, 30 (2, 2), 12 (1), 41, 40 (2, 2)
    // inspected, two pages out. W80: 40 (2, 2), 41 (2), 70, 31 inspected, 31 out.
    assert_eq!(t.policy.memory_accesses(), 11 * 2 + 4 + 4 + (7 + 13 + 2) + (4 + 6 + 1));
}

/// Tests which pages `any` and `same_block` take for a sequence, and a list that is full.
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
    t.row(&[PageAccess::write(1), PageAccess::read(2), PageAccess::read(3)], "1d | 3c* 2c* | - / -", &[]);
    t.row(&[PageAccess::read(2)], "2c 1d | 3c* | - / -", &[]);
    t.row(&[PageAccess::read(4)], "2c 1d | 4c* | - / -", &[dropped(3)]);
    let mut t = Table::new("cawr", 4, 64, 2);
    t.row(&writes(&[10, 11, 12, 50]), "50d 12d 11d 10d | - | - / -", &[]);
    t.row(&writes(&[90]), "90d | - | 11 12 / -", &[flush(&[(10, 0), (50, 1)])]);
    t.row(&writes(&[11]), "11d 90d | - | 12 / -", &[]);
    t.row(&[PageAccess::read(12)], "12d 11d 90d | - | - / -", &[]);
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
    t.row(&[PageAccess::write(1), PageAccess::read(2), PageAccess::read(3)], "1d | 3c* 2c* | -", &[]);
    t.row(&[PageAccess::read(2)], "2c 1d | 3c* | -", &[]);
    t.row(&writes(&[4]), "4d 2c 1d | 3c* | -", &[]);
    t.row(&writes(&[5]), "5d 4d 2c 1d | - | -", &[dropped(3)]);
    t.row(&writes(&[6]), "6d 1d* 5d 4d | - | -", &[dropped(2)]);
    // 4 and 5 get their second chance, 1 is collected, then 6 gets its own and 4 is collected.
    t.row(&writes(&[7]), "7d 6d* 5d* | - | -", &[flush(&[(1, 0), (4, 1)])]);
    t.row(&[PageAccess::read(8)], "7d 6d* 5d* | 8c* | -", &[]);
    t.row(&writes(&[9]), "9d 7d 6d* 5d* | - | -", &[dropped(8)]);
    // A clean page comes up after one dirty page was collected, which waits and may still hit.
    t.row(&[PageAccess::read(10)], "9d 7d | 10c* | -", &[flush(&[(5, 0), (6, 1)])]);
}

/// The same pages where reads enter the mixed list, hot (specs §10.7 D12): what CAWR does with a
/// clean page that comes up.
#[test]
fn cave_pages_with_reads_in_the_mixed_list() {
    let mut t = Table::new("cave:ccf_new_clean_to=mixed", 4, 64, 2);
    t.row(&[PageAccess::write(1), PageAccess::read(2), PageAccess::read(3)], "3c 2c 1d | - | -", &[]);
    t.row(&writes(&[4]), "4d 3c 2c 1d | - | -", &[]);
    t.row(&writes(&[5]), "5d 1d* 4d 3c | - | -", &[dropped(2)]);
    t.row(&[PageAccess::read(6)], "6c 5d 1d* 4d | - | -", &[dropped(3)]);
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
    t.row(
        &[PageAccess::write(1), PageAccess::read(2), PageAccess::write(3), PageAccess::write(4)],
        "1d 2c 3d 4d | -",
        &[],
    );
    t.row(&writes(&[5]), "3d 4d 5d | 1", &[dropped(2)]);
    t.row(&[PageAccess::read(1), PageAccess::write(1)], "3d 4d 5d | 1", &[]);
    // The gate is at the end of the road: a hit there is no reason to keep 1.
    t.row(&writes(&[6]), "4d 5d 6d | -", &[flush(&[(1, 0), (3, 1)])]);
    t.row(&[PageAccess::read(7)], "4d 5d 6d 7c | -", &[]);
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
    let accesses = [PageAccess::read(4), PageAccess::read(5), PageAccess::write(8), PageAccess::read(9)];
    t.row(&accesses, "4c 5c 8d 9c | -", &[]);
    t.row(&[PageAccess::write(12), PageAccess::read(16)], "4c 5c 8d 9c 12d 16c | -", &[]);
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
    t.row(&[PageAccess::write(4), PageAccess::write(5), PageAccess::read(6)], "4d 5d 6c | - / -", &[]);
    t.row(&writes(&[12, 28, 29]), "4d 5d 6c 12d 28d 29d | - / -", &[]);
    t.row(&writes(&[40]), "12d 28d 29d 40d | 4 5 / -", &[dropped(6)]);
    t.row(&[PageAccess::write(4), PageAccess::read(5)], "12d 28d 29d 40d | 4 5 / -", &[]);
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
