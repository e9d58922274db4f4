//! Every policy against its naive model: outcome, evictions, pages held and memory accesses after
//! every operation.

use std::fmt::Write as _;

use destage_plan::PageNo;
use destage_policy::buffer::{BufferConfig, BufferNotice, PageAccess, policies};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use crate::driven::driven;
use crate::models::{Objections, model, values};
use crate::workload::{Mix, Op, PATTERNS, Workload};

/// Runs `ops` through policy and model. The page space grows step by step or is there at once.
fn compare(spec: &str, config: BufferConfig, page_space: u32, grows: bool, ops: impl Iterator<Item = Op>) {
    let mut policy = driven(spec, config, if grows { 0 } else { page_space });
    let mut naive = model(spec, config);
    let (mut seen, mut expected) = (Vec::new(), Vec::new());
    let mut room = 0;
    let mut recent: Vec<(Op, String)> = Vec::new();
    for (number, op) in ops.enumerate() {
        if let Some(page) = op.page().filter(|page| grows && *page >= room) {
            room = page + 1;
            policy.grow(room);
        }
        let outcomes = match op {
            Op::Access(access) => {
                let outcome = naive.access(access, &Objections::none(), &mut expected);
                Some((policy.access(access, &mut seen), outcome))
            }
            Op::Notify(notice) => {
                naive.notify(notice, &mut expected);
                policy.notify(notice, &mut seen);
                None
            }
        };
        let agree = seen == expected
            && outcomes.is_none_or(|(a, b)| a == b)
            && policy.len() == naive.len()
            && policy.is_empty() == (naive.len() == 0)
            && policy.memory_accesses() == naive.memory_accesses();
        if !agree {
            let mut story = String::new();
            for (op, state) in &recent {
                let _ = writeln!(story, "  {op:?}\n    model: {state}");
            }
            panic!(
                "{spec} {config:?}, operation {number}: {op:?}\n{story}outcome (policy, model): {outcomes:?}\n\
                 policy: {seen:?}, {} pages, {} memory accesses\n model: {expected:?}, {} pages, {} memory accesses\n\
                 model: {}",
                policy.len(),
                policy.memory_accesses(),
                naive.len(),
                naive.memory_accesses(),
                naive.state(),
            );
        }
        assert!(policy.len() <= config.capacity_pages, "{spec} {config:?}: {} pages", policy.len());
        if config.capacity_pages <= 16 {
            recent.push((op, naive.state()));
            if recent.len() > 12 {
                recent.remove(0);
            }
        }
        seen.clear();
        expected.clear();
    }
}

/// Pages per block and capacity.
const GEOMETRIES: [(u32, u32); 17] = [
    (1, 1),
    (1, 2),
    (1, 3),
    (1, 7),
    (1, 40),
    (1, 180),
    (4, 1),
    (4, 3),
    (4, 8),
    (4, 33),
    (4, 300),
    (64, 1),
    (64, 64),
    (64, 200),
    (100, 5),
    (100, 100),
    (100, 256),
];

/// Returns the factor by which `make soak` repeats the tests.
fn soak() -> u32 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 20 } else { 1 }
}

/// Every specification over every geometry, pattern and mix, each with `ops` operations and five
/// more per page of capacity, so that large buffers fill and turn over as well. Of a policy with
/// many parameters a third, drawn by lot.
fn sweep(policy: &str, ops: usize) {
    let mut seed = 0_u64;
    let mut total = 0;
    let ops = ops * soak() as usize;
    let specs = specs_of(policy);
    for spec in &specs {
        for (pages_per_block, capacity_pages) in GEOMETRIES {
            let config = BufferConfig { capacity_pages, pages_per_block, elements: 1 };
            let ops = ops + 5 * capacity_pages as usize;
            for pattern in PATTERNS {
                for mix in [Mix::WRITES, Mix::ACCESSES, Mix::ALL] {
                    seed += 1;
                    let mut dice = Workload::new(!seed, pattern, mix, 1);
                    if specs.len() > 50 && dice.below(3) > 0 {
                        continue;
                    }
                    // From pages that nearly fit to many more than do, and no multiple of the block
                    // size.
                    let page_space = capacity_pages + 3 + dice.below(4) * (capacity_pages + pages_per_block);
                    let grows = dice.below(2) == 0;
                    let workload = Workload::new(seed, pattern, mix, page_space).take(ops);
                    compare(spec, config, page_space, grows, workload);
                    total += ops;
                }
            }
        }
    }
    assert!(total >= 1_000_000, "{total} operations are too few");
}

/// All combinations of one choice from each of `params`.
fn combinations(policy: &str, params: &[(&str, &[&str])]) -> Vec<String> {
    let mut specs = vec![policy.to_owned()];
    for (key, values) in params {
        specs = specs.iter().flat_map(|spec| values.iter().map(move |value| format!("{spec}:{key}={value}"))).collect();
    }
    specs
}

const SWITCH: &[&str] = &["true", "false"];
const READS: &[&str] = &["cache", "bypass"];
const PADDING: &[&str] = &["never", "always", "0.55"];

/// Returns the policies that are compared here; those that choose channels have models in `multi_channel/`.
fn modelled() -> impl Iterator<Item = &'static str> {
    policies().iter().filter(|policy| !policy.chooses_channels).map(|policy| policy.name)
}

fn specs_of(policy: &str) -> Vec<String> {
    match policy {
        "2q" => {
            let mut specs = combinations("2q", &[("reads", READS)]);
            let shares: &[(&str, &[&str])] =
                &[("in", &["0", "12.5", "60", "100"]), ("out", &["0", "33.33", "100", "1000"])];
            specs.extend(combinations("2q", shares));
            specs
        }
        "s3-fifo" => {
            let mut specs = combinations("s3-fifo", &[("reads", READS)]);
            let shares: &[(&str, &[&str])] = &[
                ("small", &["0", "12.5", "60", "100"]),
                ("ghost", &["0", "33.33", "1000"]),
                ("uses", &["1", "2", "3"]),
            ];
            specs.extend(combinations("s3-fifo", shares));
            specs
        }
        "cflru" => {
            let windows = ["0", "0.25", "0.5", "0.999999", "1"];
            let mut specs = combinations("cflru", &[("reads", READS), ("window", &windows)]);
            let steps: &[(&str, &[&str])] =
                &[("period", &["capacity", "1", "30"]), ("step", &["0.05", "0.7"]), ("write_cost", &["8", "0"])];
            specs.extend(combinations("cflru:window=adaptive", steps));
            specs
        }
        "ccf-lru" => {
            let mut specs = combinations(
                "ccf-lru",
                &[("reads", READS), ("new_dirty_cold", SWITCH), ("hot_clean", &["evict", "spare"])],
            );
            let entry: &[(&str, &[&str])] = &[("new_dirty_cold", SWITCH), ("hot_clean", &["evict", "spare"])];
            specs.extend(combinations("ccf-lru:new_clean_to=mixed", entry));
            specs
        }
        "ref" => {
            let new_vb: (&str, &[&str]) = ("new_vb", &["lru_page", "most_pages_in_vw"]);
            let mut specs = combinations("ref", &[("vw", &["0", "0.3", "1"]), ("nvb", &["1", "2", "9"]), new_vb]);
            specs.extend(combinations("ref", &[("reads", READS), new_vb]));
            specs
        }
        "fab" => combinations("fab", &[("reads", READS), ("protect_current", SWITCH)]),
        "bplru" => combinations(
            "bplru",
            &[
                ("padding", &["always", "never", "0", "0.07", "0.5", "0.55", "1"]),
                ("compensation", &["on", "off"]),
                ("seq_detect", &["ordered", "last_page_full"]),
                ("protect_current", SWITCH),
            ],
        ),
        "clc" => combinations(
            "clc",
            &[
                ("si_max", &["10%", "0%", "37.5%", "100%", "1", "2", "5"]),
                ("padding", PADDING),
                ("protect_current", SWITCH),
            ],
        ),
        "pud-lru" => combinations(
            "pud-lru",
            &[
                ("threshold", &["mean", "0", "2", "7.3", "40", "1000000"]),
                ("padding", PADDING),
                ("protect_current", SWITCH),
            ],
        ),
        "lb-clock" => combinations(
            "lb-clock",
            &[
                ("opt_preempt", SWITCH),
                ("opt_seq", SWITCH),
                ("insert_anchor", &["initial_hand", "current_hand"]),
                ("candidate_rule", &["prior_zero", "all_zero"]),
                ("prev_init", &["block", "0", "2"]),
                ("read_sets_bit", SWITCH),
                ("protect_current", SWITCH),
            ],
        ),
        other => combinations(other, values(other)),
    }
}

/// Defines a test for each sweep, and lists the policies that have one.
macro_rules! sweeps {
    ($($test:ident: $policy:literal, $ops:literal;)+) => {
        const SWEPT: &[&str] = &[$($policy),+];

        $(#[test]
        fn $test() {
            sweep($policy, $ops);
        })+
    };
}

sweeps! {
    two_q: "2q", 1000;
    s3_fifo: "s3-fifo", 500;
    cflru: "cflru", 400;
    ccf_lru: "ccf-lru", 1000;
    recently_evicted: "ref", 100;
    fab: "fab", 2000;
    bplru: "bplru", 200;
    clc: "clc", 200;
    pud_lru: "pud-lru", 200;
    lb_clock: "lb-clock", 100;
}

#[test]
fn every_policy_without_a_sweep_of_its_own() {
    for policy in modelled().filter(|policy| !SWEPT.contains(policy)) {
        sweep(policy, 8000_usize.div_ceil(specs_of(policy).len()));
    }
}

/// Buffers large enough for many sizes, and for PUD-LRU's heaps to shed their untrue entries.
#[test]
fn thousands_of_pages() {
    let config = BufferConfig { capacity_pages: 3000, pages_per_block: 16, elements: 1 };
    for spec in ["clc", "pud-lru", "pud-lru:threshold=300"] {
        for (seed, pattern) in (900_u64..).zip(PATTERNS) {
            let workload = Workload::new(seed, pattern, Mix { flushes: 0, ..Mix::ALL }, 18_000);
            compare(spec, config, 18_000, seed % 2 == 0, workload.take(12_000 * soak() as usize));
        }
    }
}

fn op(pages: u32) -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (0..pages).prop_map(|page| Op::Access(PageAccess::write(page))),
        4 => (0..pages).prop_map(|page| Op::Access(PageAccess::read(page))),
        2 => (0..pages).prop_map(|page| Op::Notify(BufferNotice::Trim { page: PageNo(page) })),
        2 => (0..pages, any::<bool>())
            .prop_map(|(page, keep)| Op::Notify(BufferNotice::Destage { page: PageNo(page), keep })),
        1 => Just(Op::Notify(BufferNotice::Flush)),
    ]
}

fn any_spec() -> impl Strategy<Value = String> {
    prop::sample::select(modelled().collect::<Vec<_>>()).prop_flat_map(|policy| prop::sample::select(specs_of(policy)))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000 * soak(),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    /// Short sequences that shrink.
    #[test]
    fn short_sequences(
        spec in any_spec(),
        pages_per_block in prop::sample::select(vec![1_u32, 2, 3, 4, 64]),
        capacity_pages in 1_u32..12,
        grows in any::<bool>(),
        ops in prop::collection::vec(op(20), 1..120),
    ) {
        compare(&spec, BufferConfig { capacity_pages, pages_per_block, elements: 1 }, 20, grows, ops.into_iter());
    }
}
