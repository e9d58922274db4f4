//! Policies that must be the same as others at the edge of their parameters (specs §12.2), and laws
//! of conservation (specs §12.3 and §12.4) as far as a buffer alone can show them.

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, PageAccess, PolicyInfo, policies};

use crate::content::Content;
use crate::driven::driven;
use crate::workload::{Mix, Op, PATTERNS, Pattern, Workload};

const CAPACITIES: [u32; 5] = [1, 2, 9, 64, 300];

/// Asserts that two policies do the same; the memory accesses may differ.
fn assert_same(one: &str, other: &str, pages_per_block: u32, mix: Mix) {
    for capacity_pages in CAPACITIES {
        let config = BufferConfig { capacity_pages, pages_per_block, elements: 1 };
        for (seed, pattern) in (1_u64..).zip(PATTERNS) {
            let pages = 4 * capacity_pages + 2 * pages_per_block;
            let (mut a, mut b) = (driven(one, config, pages), driven(other, config, pages));
            let (mut left_a, mut left_b) = (Vec::new(), Vec::new());
            for (number, op) in Workload::new(seed, pattern, mix, pages).take(10_000).enumerate() {
                match op {
                    Op::Access(access) => {
                        let outcome = a.access(access, &mut left_a);
                        assert_eq!(
                            outcome,
                            b.access(access, &mut left_b),
                            "{one}, {other}, {config:?}: {number} {op:?}"
                        );
                    }
                    Op::Notify(notice) => {
                        a.notify(notice, &mut left_a);
                        b.notify(notice, &mut left_b);
                    }
                }
                assert_eq!(left_a, left_b, "{one}, {other}, {config:?}: {number} {op:?}");
                assert_eq!(a.len(), b.len());
                left_a.clear();
                left_b.clear();
            }
        }
    }
}

#[test]
fn lb_clock_preemption_includes_sequential_detection() {
    for rest in ["", ":insert_anchor=current_hand", ":candidate_rule=all_zero", ":prev_init=0", ":protect_current=on"] {
        let alone = format!("lb-clock:opt_preempt=true:opt_seq=false{rest}");
        let both = format!("lb-clock:opt_preempt=true:opt_seq=true{rest}");
        for pages_per_block in [1, 4, 64] {
            assert_same(&alone, &both, pages_per_block, Mix::ALL);
        }
    }
}

#[test]
fn lb_clock_without_preemption_ignores_the_previous_victim() {
    for pages_per_block in [1, 4, 64] {
        assert_same("lb-clock:opt_preempt=false", "lb-clock:opt_preempt=false:prev_init=0", pages_per_block, Mix::ALL);
    }
}

#[test]
fn lb_clock_of_single_pages_is_clock() {
    let lb_clock = "lb-clock:opt_preempt=false:opt_seq=false:insert_anchor=current_hand";
    assert_same(lb_clock, "clock:reads=bypass", 1, Mix::WRITES);
    assert_same(&format!("{lb_clock}:read_sets_bit=true"), "clock:reads=bypass", 1, Mix::ACCESSES);
}

/// With the optimisations on, N = 1 makes every page a full block and its bit is always 0 (specs
/// §12.2): the page under the hand leaves, and the new one enters right before the hand.
#[test]
fn lb_clock_of_single_pages_with_the_optimisations_is_fifo() {
    let mut policy = driven("lb-clock", BufferConfig { capacity_pages: 5, pages_per_block: 1, elements: 1 }, 1000);
    let mut fifo = Vec::new();
    let mut left = Vec::new();
    for op in Workload::new(3, PATTERNS[1], Mix::WRITES, 1000).take(20_000) {
        let Op::Access(access) = op else { unreachable!("only writes") };
        policy.access(access, &mut left);
        let mut expected = Vec::new();
        if !fifo.contains(&access.page.0) {
            if fifo.len() == 5 {
                expected.push(fifo.remove(0));
            }
            fifo.push(access.page.0);
        }
        let seen: Vec<u32> = left.drain(..).flat_map(|group| group.pages).collect();
        assert_eq!(seen, expected);
    }
}

/// Without A1out nothing enters Am.
#[test]
fn two_q_without_memory_is_fifo() {
    for mix in [Mix::WRITES, Mix::ALL] {
        assert_same("2q:in=100:out=0", "fifo", 1, mix);
        assert_same("2q:in=0:out=0", "fifo", 1, mix);
    }
}

/// Pages that are used once leave in the order in which they came.
#[test]
fn pages_used_once_leave_queues_in_order() {
    let config = BufferConfig { capacity_pages: 7, pages_per_block: 1, elements: 1 };
    for spec in ["arc", "s3-fifo", "2q", "fifo"] {
        let mut policy = driven(spec, config, 10_000);
        let mut left = Vec::new();
        for page in (0..10_000).map(|i| i * 7919 % 10_000) {
            policy.access(PageAccess::write(page), &mut left);
        }
        let left: Vec<u32> = left.into_iter().flat_map(|group| group.pages).collect();
        assert_eq!(left, (0..9993).map(|i| i * 7919 % 10_000).collect::<Vec<_>>(), "{spec}");
    }
}

/// Without a window, or without a choice in it, the least recently used page leaves (specs §12.2).
#[test]
fn cflru_is_lru_where_the_window_offers_no_choice() {
    for rest in ["", ":reads=bypass"] {
        assert_same(&format!("cflru:window=0{rest}"), &format!("lru{rest}"), 4, Mix::ALL);
    }
    for window in ["0.5", "1", "adaptive"] {
        assert_same(&format!("cflru:window={window}"), "lru", 4, Mix::WRITES);
        assert_same(&format!("cflru:window={window}"), "lru", 4, READS);
    }
}

/// Reads alone.
const READS: Mix = Mix { reads: 1024, ..Mix::WRITES };

#[test]
fn lru_wsr_of_reads_is_lru() {
    assert_same("lru-wsr", "lru", 1, READS);
    assert_same("lru-wsr", "lru", 1, Mix { trims: 60, flushes: 4, idle: 4, ..READS });
}

#[test]
fn an_adaptive_window_that_does_not_move_is_a_static_one() {
    assert_same("cflru:window=adaptive:step=0", "cflru:window=0.5", 1, Mix::ALL);
    assert_same("cflru:window=adaptive:period=4294967295", "cflru", 1, Mix::ALL);
}

/// All new pages are cold: CCF-LRU of pages that are used once drops them in the order in which
/// they came.
#[test]
fn ccf_lru_of_cold_writes_is_lru_without_hits() {
    let config = BufferConfig { capacity_pages: 7, pages_per_block: 1, elements: 1 };
    let mut policy = driven("ccf-lru:new_dirty_cold=true", config, 10_000);
    let mut left = Vec::new();
    for page in (0..10_000).map(|i| i * 7919 % 10_000) {
        policy.access(PageAccess::write(page), &mut left);
    }
    let left: Vec<u32> = left.into_iter().flat_map(|group| group.pages).collect();
    assert_eq!(left, (0..9993).map(|i| i * 7919 % 10_000).collect::<Vec<_>>());
}

/// Without a window no page is preferred to the least recently used one.
#[test]
fn ref_without_a_window_is_lru() {
    for rest in ["", ":nvb=5", ":new_vb=most_pages_in_vw", ":reads=bypass"] {
        let lru = if rest == ":reads=bypass" { "lru:reads=bypass" } else { "lru" };
        for pages_per_block in [1, 4, 64] {
            assert_same(&format!("ref:vw=0{rest}"), lru, pages_per_block, Mix::ALL);
        }
    }
}

#[test]
fn fab_of_single_pages_is_lru() {
    assert_same("fab", "lru", 1, Mix::ACCESSES);
    assert_same("fab:reads=bypass", "lru:reads=bypass", 1, Mix::ACCESSES);
}

#[test]
fn bplru_of_single_pages_is_lru_on_writes() {
    assert_same("bplru:compensation=off:padding=never", "lru", 1, Mix::WRITES);
    assert_same("bplru:compensation=off:padding=always", "lru:reads=bypass", 1, Mix::WRITES);
}

/// With room for all clusters in SI there is nothing but LRU.
#[test]
fn clc_without_cold_clusters_is_bplru_without_compensation() {
    for rest in ["", ":padding=always", ":padding=0.5:protect_current=true"] {
        let padding = if rest.is_empty() { ":padding=never" } else { rest };
        for si_max in ["100%", "4294967295"] {
            for pages_per_block in [1, 4, 64] {
                let clc = format!("clc:si_max={si_max}{rest}");
                assert_same(&clc, &format!("bplru:compensation=off{padding}"), pages_per_block, Mix::ALL);
            }
        }
    }
}

/// Without SI a cluster stands in the list of its size in the order of writes.
#[test]
fn clc_without_si_is_fab_on_writes() {
    for si_max in ["0", "0%"] {
        for pages_per_block in [1, 4, 64] {
            assert_same(&format!("clc:si_max={si_max}"), "fab", pages_per_block, Mix::WRITES);
        }
    }
}

/// Clusters of one page leave in the order of their last writes, cold or not.
#[test]
fn clc_of_single_pages_is_lru_on_writes() {
    for si_max in ["10%", "0", "1", "7"] {
        assert_same(&format!("clc:si_max={si_max}"), "lru", 1, Mix::WRITES);
        assert_same(&format!("clc:si_max={si_max}"), "bplru:compensation=off:padding=never", 1, Mix::ALL);
    }
}

/// Tests blocks of one page: the block with the largest PUD leaves, and it is above the threshold if any is.
#[test]
fn the_threshold_of_pud_lru_means_nothing_where_a_block_is_a_page() {
    for threshold in ["0", "3.5", "20", "281474976710656"] {
        assert_same("pud-lru", &format!("pud-lru:threshold={threshold}"), 1, Mix::ALL);
    }
}

/// Pages that are written once leave in the order in which they came.
#[test]
fn pud_lru_without_updates_is_fifo() {
    for spec in ["pud-lru", "pud-lru:threshold=0", "pud-lru:threshold=4"] {
        let config = BufferConfig { capacity_pages: 7, pages_per_block: 1, elements: 1 };
        let mut policy = driven(spec, config, 10_000);
        let mut left = Vec::new();
        for page in (0..10_000).map(|i| i * 7919 % 10_000) {
            policy.access(PageAccess::write(page), &mut left);
        }
        let left: Vec<u32> = left.into_iter().flat_map(|group| group.pages).collect();
        assert_eq!(left, (0..9993).map(|i| i * 7919 % 10_000).collect::<Vec<_>>());
    }
}

#[test]
fn protection_means_nothing_where_a_block_is_a_page() {
    let protects = |policy: &&PolicyInfo| policy.params.iter().any(|param| param.name == "protect_current");
    for policy in policies().iter().filter(protects).map(|policy| policy.name) {
        assert_same(policy, &format!("{policy}:protect_current=true"), 1, Mix::ALL);
    }
}

/// Nothing is held, nothing leaves.
#[test]
fn none_holds_nothing() {
    let mut policy = driven("none", BufferConfig { capacity_pages: 5, pages_per_block: 4, elements: 1 }, 100);
    let mut content = Content::default();
    let mut left = Vec::new();
    for op in Workload::new(4, PATTERNS[3], Mix::ALL, 100).take(10_000) {
        match op {
            Op::Access(access) => content.access(access, policy.access(access, &mut left), &left),
            Op::Notify(notice) => policy.notify(notice, &mut left),
        }
        assert!(policy.is_empty() && left.is_empty());
    }
    assert_eq!((content.pages_in, content.writes_admitted, policy.memory_accesses()), (0, 0, 0));
}

#[test]
fn pages_and_episodes_are_conserved() {
    let variants = [
        "lru:reads=bypass",
        "clock:reads=bypass",
        "2q:in=60:out=300",
        "arc:reads=bypass",
        "s3-fifo:small=60:ghost=300:uses=1",
        "cflru:window=adaptive:period=20",
        "ccf-lru:hot_clean=spare:new_dirty_cold=true",
        "ref:nvb=3:new_vb=most_pages_in_vw",
        "fab:reads=bypass:protect_current=true",
        "bplru:padding=0.5:seq_detect=last_page_full:protect_current=true",
        "bplru:padding=never:compensation=off",
        "clc:si_max=2:padding=0.5:protect_current=true",
        "pud-lru:threshold=30:padding=always",
        "pud-lru:threshold=0:protect_current=true",
        "lb-clock:candidate_rule=all_zero:insert_anchor=current_hand:read_sets_bit=true",
        "lb-clock:opt_preempt=false:opt_seq=false:protect_current=true",
    ];
    let all = policies().iter().map(|policy| policy.name).filter(|name| *name != "none");
    for spec in all.chain(variants) {
        for pages_per_block in [1, 4, 64, 100] {
            for capacity_pages in CAPACITIES {
                for (seed, pattern) in (1_u64..).zip(PATTERNS) {
                    conserve(spec, BufferConfig { capacity_pages, pages_per_block, elements: 1 }, seed, pattern);
                }
            }
        }
    }
}

fn conserve(spec: &str, config: BufferConfig, seed: u64, pattern: Pattern) {
    let pages = 3 * config.capacity_pages + 2 * config.pages_per_block;
    let mut policy = driven(spec, config, pages);
    let mut content = Content::default();
    let mut left = Vec::new();
    let (mut writes, mut bypassed) = (0, 0);
    for op in Workload::new(seed, pattern, Mix::ALL, pages).take(2500) {
        left.clear();
        match op {
            Op::Access(access) => {
                let outcome = policy.access(access, &mut left);
                content.access(access, outcome, &left);
                writes += u64::from(access.write);
                bypassed += u64::from(access.write && outcome == AccessOutcome::Bypassed);
            }
            Op::Notify(notice) => {
                policy.notify(notice, &mut left);
                content.notify(notice, &left);
            }
        }
        assert_eq!(policy.len() as usize, content.pages.len(), "{spec} {config:?}");
        assert!(policy.len() <= config.capacity_pages, "{spec} {config:?}");
    }
    assert_eq!(content.writes_admitted + bypassed, writes);
    assert_eq!(bypassed, 0, "{spec}: every write is admitted");
    content.check_laws();
    left.clear();
    policy.notify(BufferNotice::Flush, &mut left);
    content.notify(BufferNotice::Flush, &left);
    content.check_laws();
    assert!(content.pages.values().all(|dirty| !dirty));
}
