//! Golden table: every policy on one fixed trace at six sizes. The numbers are those of the naive
//! models; the policies must count the same. If they are meant to change, the test prints the new
//! table for `golden/counters.tsv`.

use std::fmt::Write as _;

use destage_plan::PageNo;
use destage_policy::buffer::{AccessOutcome, BufferConfig, EvictionKind, PageAccess, policies};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::driven::driven;
use crate::models::{Left, Objections, model};

const TABLE: &str = include_str!("golden/counters.tsv");

const SPECS: [&str; 29] = [
    "none",
    "lru",
    "lru:reads=bypass",
    "clock",
    "fifo",
    "2q",
    "arc",
    "s3-fifo",
    "fab",
    "fab:reads=bypass",
    "bplru",
    "bplru:padding=0.5:seq_detect=last_page_full",
    "lb-clock",
    "lb-clock:opt_preempt=false:opt_seq=false",
    "lb-clock:candidate_rule=all_zero:insert_anchor=current_hand",
    "clc",
    "clc:si_max=2",
    "clc:si_max=37.5%:padding=0.5",
    "pud-lru",
    "pud-lru:threshold=200",
    "pud-lru:threshold=5000:padding=always",
    "cflru",
    "cflru:window=adaptive:period=100",
    "lru-wsr",
    "ccf-lru",
    "ccf-lru:hot_clean=spare:new_dirty_cold=true",
    "ref",
    "ref:nvb=4:vw=0.25",
    "ref:new_vb=most_pages_in_vw",
];

const CAPACITIES: [u32; 6] = [1, 16, 64, 256, 1024, 4096];
const PAGES_PER_BLOCK: u32 = 32;
const PAGES: u32 = 8192;
const ACCESSES: usize = 20_000;

/// 20,000 accesses: every fiftieth step is a run of writes over up to one and a half blocks, every
/// third goes to a region of 64 pages that moves on by one page in sixteen accesses, the rest is
/// skewed towards low page numbers. Three of ten single accesses are reads.
fn trace() -> Vec<PageAccess> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(20_100_503);
    let mut below = |bound: u32| ((u64::from(rng.next_u32()) * u64::from(bound)) >> 32) as u32;
    let mut accesses = Vec::new();
    while accesses.len() < ACCESSES {
        let kind = below(100);
        if kind < 2 {
            let begin = below(PAGES / PAGES_PER_BLOCK) * PAGES_PER_BLOCK;
            let length = (1 + below(3)) * PAGES_PER_BLOCK / 2;
            accesses.extend((begin..begin + length).filter(|page| *page < PAGES).map(PageAccess::write));
            continue;
        }
        let page = if kind < 35 {
            accesses.len() as u32 / 16 + below(64)
        } else {
            let middle = below(PAGES) + 1;
            let low = below(middle) + 1;
            below(low)
        };
        accesses.push(PageAccess { page: PageNo(page), write: below(10) >= 3 });
    }
    accesses.truncate(ACCESSES);
    accesses
}

#[derive(Default, PartialEq, Eq, Debug)]
struct Counters {
    hits: u64,
    read_hits: u64,
    evictions: u64,
    dirty_pages_flushed: u64,
    pad_pages: u64,
    clean_drops: u64,
    memory_accesses: u64,
}

impl Counters {
    fn of(trace: &[PageAccess], mut access: impl FnMut(PageAccess, &mut Vec<Left>) -> AccessOutcome) -> Self {
        let mut counters = Self::default();
        let mut left = Vec::new();
        for one in trace {
            let hit = access(*one, &mut left) == AccessOutcome::Hit;
            counters.hits += u64::from(hit);
            counters.read_hits += u64::from(hit && !one.write);
            for group in left.drain(..) {
                let pages = match group.kind {
                    EvictionKind::Flush => &mut counters.dirty_pages_flushed,
                    EvictionKind::Pad => &mut counters.pad_pages,
                    EvictionKind::Drop => &mut counters.clean_drops,
                    EvictionKind::Clean => panic!("an eviction keeps nothing"),
                };
                *pages += group.pages.len() as u64;
                counters.evictions += u64::from(group.units);
            }
        }
        counters
    }
}

/// Returns the rows of the table: [`SPECS`], and every policy that is not among them. What chooses
/// channels has its table in `destage-sim`, whose device has them.
fn specs() -> impl Iterator<Item = &'static str> {
    let others = policies().iter().filter(|policy| !policy.chooses_channels).map(|policy| policy.name);
    SPECS.into_iter().chain(others.filter(|name| !SPECS.contains(name)))
}

#[test]
fn counters() {
    let trace = trace();
    let mut table = "policy\tcapacity_pages\thits\tread_hits\tevictions\tdirty_pages_flushed\tpad_pages\tclean_drops\t\
                     memory_accesses\n"
        .to_owned();
    for spec in specs() {
        for capacity_pages in CAPACITIES {
            let config = BufferConfig { capacity_pages, pages_per_block: PAGES_PER_BLOCK, elements: 1 };
            let mut naive = model(spec, config);
            let mut expected = Counters::of(&trace, |access, left| naive.access(access, &Objections::none(), left));
            expected.memory_accesses = naive.memory_accesses();
            let mut policy = driven(spec, config, PAGES);
            let mut seen = Counters::of(&trace, |access, left| policy.access(access, left));
            seen.memory_accesses = policy.memory_accesses();
            assert_eq!(seen, expected, "{spec} (left) with {capacity_pages} pages, and its model");
            let Counters { hits, read_hits, evictions, dirty_pages_flushed, pad_pages, clean_drops, memory_accesses } =
                expected;
            let _ = writeln!(
                table,
                "{spec}\t{capacity_pages}\t{hits}\t{read_hits}\t{evictions}\t{dirty_pages_flushed}\t{pad_pages}\t\
                 {clean_drops}\t{memory_accesses}"
            );
        }
    }
    assert!(table == TABLE, "the counters differ from golden/counters.tsv; they are now\n{table}");
}

/// The trace itself is fixed: its length, its first accesses and sums over it.
#[test]
fn the_trace_is_what_it_was() {
    let trace = trace();
    let pages: u64 = trace.iter().map(|access| u64::from(access.page.0)).sum();
    let writes = trace.iter().filter(|access| access.write).count();
    let distinct: std::collections::BTreeSet<u32> = trace.iter().map(|access| access.page.0).collect();
    let first: Vec<(u32, bool)> = trace[..4].iter().map(|access| (access.page.0, access.write)).collect();
    assert_eq!((trace.len(), writes, distinct.len(), pages), (20_000, 16_316, 6104, 44_585_242));
    assert_eq!(first, [(24, false), (39, true), (350, true), (4240, true)]);
}
