//! A veto's say in each eviction.

use std::collections::BTreeSet;

use destage_plan::{Element, PageNo};
use destage_policy::buffer::{
    AccessOutcome, BufferConfig, BufferNotice, EvictionKind, EvictionUnit, PageAccess, PolicyInfo, WhenExhausted, info,
    policies,
};

use crate::content::Content;
use crate::driven::{Objector, driven};
use crate::models::{Left, Objections, model};
use crate::page_vetoes;
use crate::workload::{Mix, Op, PATTERNS, Workload};

const SPECS: [&str; 38] = [
    "lru",
    "lru:reads=bypass",
    "clock",
    "clock:reads=bypass",
    "fifo",
    "fifo:reads=bypass",
    "2q",
    "2q:reads=bypass",
    "2q:in=50:out=200",
    "2q:in=100:out=0",
    "arc",
    "arc:reads=bypass",
    "s3-fifo",
    "s3-fifo:reads=bypass",
    "s3-fifo:small=50:ghost=200:uses=1",
    "s3-fifo:small=0:ghost=33.3:uses=3",
    "fab",
    "fab:protect_current=true",
    "fab:reads=bypass:protect_current=true",
    "bplru",
    "bplru:protect_current=true",
    "bplru:padding=0.5:seq_detect=last_page_full",
    "bplru:padding=never:compensation=off:protect_current=true",
    "clc",
    "clc:si_max=2:padding=always:protect_current=true",
    "clc:si_max=0",
    "clc:si_max=100%:protect_current=true",
    "pud-lru",
    "pud-lru:padding=always:protect_current=true",
    "pud-lru:threshold=0",
    "pud-lru:threshold=20:protect_current=true",
    "pud-lru:threshold=1000000",
    "lb-clock",
    "lb-clock:protect_current=true",
    "lb-clock:candidate_rule=all_zero:protect_current=true",
    "lb-clock:insert_anchor=current_hand:prev_init=0:protect_current=true",
    "lb-clock:opt_preempt=false:opt_seq=false",
    "lb-clock:opt_preempt=false:opt_seq=false:read_sets_bit=true:protect_current=true",
];

/// Returns what is swept: [`SPECS`], and every policy that is neither among them nor in
/// `page_vetoes.rs`. What evicts through channels asks about these instead (`multi_channel/`).
fn specs() -> impl Iterator<Item = &'static str> {
    let asks = |policy: &&PolicyInfo| policy.name != "none" && !policy.chooses_channels;
    let others = policies().iter().filter(asks).map(|policy| policy.name);
    SPECS.into_iter().chain(others.filter(|name| !SPECS.contains(name) && !page_vetoes::SPECS.contains(name)))
}

const GEOMETRIES: [(u32, u32); 8] = [(1, 1), (1, 6), (4, 1), (4, 7), (4, 30), (64, 64), (64, 150), (100, 90)];

/// Is true if the victims of `spec` are pages.
fn evicts_pages(spec: &str) -> bool {
    let name = spec.split(':').next().expect("a name");
    info(name).expect(name).unit == EvictionUnit::Page
}

/// Calls `run` with each policy, geometry and workload.
fn sweep(ops: usize, mut run: impl FnMut(&str, BufferConfig, u32, u64, &mut dyn Iterator<Item = Op>)) {
    let mut seed = 77;
    for spec in specs() {
        for (pages_per_block, capacity_pages) in GEOMETRIES {
            for pattern in PATTERNS {
                seed += 1;
                let pages = 2 * capacity_pages + 3 * pages_per_block;
                let mut workload = Workload::new(seed, pattern, Mix::ALL, pages).take(ops);
                run(spec, BufferConfig { capacity_pages, pages_per_block, elements: 1 }, pages, seed, &mut workload);
            }
        }
    }
}

/// Is true if the policy parks victims that were passed over, and does not ask about them again before it has
/// to.
fn keeps_aside(spec: &str) -> bool {
    ["lru", "fifo", "2q", "arc", "fab", "bplru", "lb-clock"].contains(&spec.split(':').next().expect("a name"))
}

/// The objections of an [`Objector`] hold no longer.
const RESUME: BufferNotice = BufferNotice::Resume { element: Element(0) };

/// Asserts that a policy asked with a veto does what it does without one. If the veto `holds`, it
/// is not asked about what it objected to before.
fn assert_without_effect(objector: impl Fn(u32) -> Objector, memory_accesses_too: bool, holds: bool) {
    sweep(1000, |spec, config, pages, _, ops| {
        let (mut free, mut asked) = (driven(spec, config, pages), driven(spec, config, pages));
        let (mut expected, mut seen) = (Vec::new(), Vec::new());
        for op in ops {
            match op {
                Op::Access(access) => {
                    let outcome = free.access(access, &mut expected);
                    let mut veto = objector(config.pages_per_block);
                    if !holds {
                        asked.notify(RESUME, &mut seen);
                    }
                    assert_eq!(asked.access_with(access, &mut veto, &mut seen), outcome, "{spec} {config:?} {op:?}");
                    let evicts = !expected.is_empty();
                    if holds {
                        assert_eq!(evicts, veto.exhausted > 0, "{spec}: a veto is asked about each eviction");
                    } else {
                        assert_eq!(evicts, !veto.asked.is_empty(), "{spec}: a veto is asked about each eviction");
                    }
                }
                Op::Notify(notice) => {
                    free.notify(notice, &mut expected);
                    asked.notify(notice, &mut seen);
                }
            }
            assert_eq!(seen, expected, "{spec} {config:?} {op:?}");
            assert_eq!(free.len(), asked.len());
            if memory_accesses_too {
                assert_eq!(free.memory_accesses(), asked.memory_accesses(), "{spec} {config:?} {op:?}");
            }
            seen.clear();
            expected.clear();
        }
    });
}

#[test]
fn a_veto_that_never_objects_has_no_effect() {
    for exhausted in [WhenExhausted::TakeBase, WhenExhausted::Bypass] {
        let objections = Objections { exhausted, ..Objections::none() };
        assert_without_effect(|n| Objector::new(objections.clone(), n), true, false);
    }
}

#[test]
fn a_veto_that_always_objects_and_takes_the_base_has_no_effect() {
    for holds in [false, true] {
        assert_without_effect(|n| Objector::to_all(WhenExhausted::TakeBase, n), false, holds);
    }
}

#[test]
fn a_veto_that_always_objects_and_bypasses_freezes_a_full_buffer() {
    sweep(1000, |spec, config, pages, seed, ops| {
        let mut policy = driven(spec, config, pages);
        let mut content = Content::default();
        let mut left = Vec::new();
        for op in ops {
            left.clear();
            match op {
                Op::Access(access) => {
                    let before = content.pages.clone();
                    let full = policy.len() == config.capacity_pages;
                    let mut veto = Objector::to_all(WhenExhausted::Bypass, config.pages_per_block);
                    policy.notify(RESUME, &mut left);
                    let outcome = policy.access_with(access, &mut veto, &mut left);
                    content.access(access, outcome, &left);
                    assert_eq!(left, [], "{spec}: nothing leaves");
                    if full && !before.contains_key(&access.page.0) {
                        assert_eq!(outcome, AccessOutcome::Bypassed, "{spec} {config:?} {op:?}");
                        assert_eq!(content.pages, before);
                    }
                    let held: BTreeSet<u32> = before.keys().map(|page| unit_of(spec, *page, config)).collect();
                    if veto.exhausted > 0 {
                        let asked: BTreeSet<u32> = veto.asked.iter().map(|asked| asked.first).collect();
                        let spared = held.difference(&asked).copied().collect::<Vec<_>>();
                        // Only the block of the incoming page, where it is protected, is not asked
                        // about.
                        assert!(
                            spared.iter().all(|first| *first == unit_of(spec, access.page.0, config)),
                            "{spared:?}"
                        );
                        assert!(spared.is_empty() || spec.contains("protect_current=true"));
                    }
                }
                Op::Notify(notice) => {
                    policy.notify(notice, &mut left);
                    content.notify(notice, &left);
                }
            }
            assert_eq!(policy.len() as usize, content.pages.len(), "{spec} {config:?} {op:?}");
            assert!(policy.len() <= config.capacity_pages);
        }
        content.check_laws();
        // What is really there: exactly the pages that the answers told.
        let is_held: Vec<bool> = (0..pages)
            .map(|page| {
                let mut veto = Objector::to_all(WhenExhausted::Bypass, config.pages_per_block);
                let full = policy.len() == config.capacity_pages;
                let outcome = policy.access_with(PageAccess::read(page), &mut veto, &mut left);
                if full {
                    assert_ne!(outcome, AccessOutcome::Inserted);
                }
                outcome == AccessOutcome::Hit
            })
            .collect();
        for (page, is_held) in (0..).zip(is_held) {
            assert_eq!(is_held, content.pages.contains_key(&page), "{spec} {config:?} seed {seed}: page {page}");
        }
    });
}

fn unit_of(spec: &str, page: u32, config: BufferConfig) -> u32 {
    if evicts_pages(spec) { page } else { page / config.pages_per_block * config.pages_per_block }
}

/// Random objections: compared with the models, and with what a veto is promised.
#[test]
fn random_vetoes() {
    sweep(2500, |spec, config, pages, seed, ops| {
        let mut policy = driven(spec, config, pages);
        let mut naive = model(spec, config);
        let mut content = Content::default();
        let mut dice = Workload::new(!seed, PATTERNS[0], Mix::WRITES, pages);
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        for op in ops {
            match op {
                Op::Access(access) => {
                    let objections = random_objections(&mut dice, spec, config, pages);
                    let mut veto = Objector::new(objections.clone(), config.pages_per_block);
                    policy.notify(RESUME, &mut seen);
                    let outcome = policy.access_with(access, &mut veto, &mut seen);
                    assert_eq!(outcome, naive.access(access, &objections, &mut expected), "{spec} {config:?} {op:?}");
                    assert_eq!(seen, expected, "{spec} {config:?} {op:?}");
                    check_promises(spec, config, &objections, &veto, &content, &seen);
                    content.access(access, outcome, &seen);
                }
                Op::Notify(notice) => {
                    policy.notify(notice, &mut seen);
                    naive.notify(notice, &mut expected);
                    assert_eq!(seen, expected, "{spec} {config:?} {op:?}");
                    content.notify(notice, &seen);
                }
            }
            assert_eq!(policy.len(), naive.len(), "{spec} {config:?} {op:?}");
            assert!(policy.len() <= config.capacity_pages);
            seen.clear();
            expected.clear();
        }
        content.check_laws();
    });
}

/// Objects to none, some, most or all units.
fn random_objections(dice: &mut Workload, spec: &str, config: BufferConfig, pages: u32) -> Objections {
    let share = [0, 128, 512, 900, 1000, 1024][dice.below(6) as usize];
    let step = if evicts_pages(spec) { 1 } else { config.pages_per_block };
    let units = (0..pages).step_by(step as usize).filter(|_| dice.below(1024) < share).collect();
    let exhausted = if dice.below(2) == 0 { WhenExhausted::TakeBase } else { WhenExhausted::Bypass };
    Objections { units, exhausted, ..Objections::none() }
}

/// Objections that hold until [`BufferNotice::Resume`], of several elements at once: compared with
/// models that look at everything anew each time. What was passed over is used, trimmed, destaged,
/// flushed and held anew meanwhile.
#[test]
fn objections_that_hold() {
    sweep(2500, |spec, config, pages, seed, ops| {
        let mut policy = driven(spec, config, pages);
        let mut naive = model(spec, config);
        let mut content = Content::default();
        let mut dice = Workload::new(!seed, PATTERNS[0], Mix::WRITES, pages);
        let elements = [1, 2, 7, 64][dice.below(4) as usize];
        let step = if evicts_pages(spec) { 1 } else { config.pages_per_block };
        let mut avoided = vec![false; elements as usize];
        let mut aside = BTreeSet::new();
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        for op in ops {
            for _ in 0..elements {
                if dice.below(60) == 0 {
                    let element = Element(dice.below(elements));
                    avoided[element.index()] ^= true;
                    if !avoided[element.index()] {
                        policy.notify(BufferNotice::Resume { element }, &mut seen);
                        naive.notify(BufferNotice::Resume { element }, &mut expected);
                        aside.retain(|first| Objector::element_of(*first, elements) != element);
                    }
                }
            }
            let units = (0..pages)
                .step_by(step as usize)
                .filter(|first| avoided[Objector::element_of(*first, elements).index()])
                .collect();
            let exhausted = if dice.below(2) == 0 { WhenExhausted::TakeBase } else { WhenExhausted::Bypass };
            let objections = Objections { units, exhausted, ..Objections::none() };
            let mut veto = Objector { elements, ..Objector::new(objections.clone(), config.pages_per_block) };
            let op = match (dice.below(40), op.page()) {
                (0, Some(page)) => Op::Notify(BufferNotice::Destage { page: PageNo(page), keep: dice.below(2) == 0 }),
                _ => op,
            };
            if dice.below(20) == 0 {
                let left = policy.evict_with(&mut veto, &mut seen);
                assert_eq!(left, naive.evict(&objections, &mut expected), "{spec} {config:?}");
                assert_eq!(left, !seen.is_empty(), "{spec} {config:?}");
                assert_eq!(seen, expected, "{spec} {config:?}");
                content.notify(BufferNotice::Destage { page: PageNo(u32::MAX), keep: false }, &seen);
            } else {
                match op {
                    Op::Access(access) => {
                        let outcome = policy.access_with(access, &mut veto, &mut seen);
                        let modelled = naive.access(access, &objections, &mut expected);
                        assert_eq!(outcome, modelled, "{spec} {config:?} {op:?}");
                        assert_eq!(seen, expected, "{spec} {config:?} {op:?}");
                        content.access(access, outcome, &seen);
                    }
                    Op::Notify(notice) => {
                        policy.notify(notice, &mut seen);
                        naive.notify(notice, &mut expected);
                        assert_eq!(seen, expected, "{spec} {config:?} {op:?}");
                        content.notify(notice, &seen);
                    }
                }
            }
            for asked in &veto.asked {
                assert!(
                    !aside.contains(&asked.first) || !keeps_aside(spec),
                    "{spec}: asked about {} again",
                    asked.first
                );
            }
            aside.extend(veto.asked.iter().filter(|asked| asked.refused).map(|asked| asked.first));
            let used = op.page().into_iter().chain(seen.iter().flat_map(|group| group.pages.iter().copied()));
            for page in used {
                aside.remove(&unit_of(spec, page, config));
            }
            if matches!(op, Op::Notify(BufferNotice::Flush)) {
                aside.clear();
            }
            assert_eq!(policy.len(), naive.len(), "{spec} {config:?} {op:?}");
            assert_eq!(policy.memory_accesses(), naive.memory_accesses(), "{spec} {config:?} {op:?}");
            seen.clear();
            expected.clear();
        }
        content.check_laws();
    });
}

/// Checks the promises to a veto. `content` is the content before the access.
fn check_promises(
    spec: &str,
    config: BufferConfig,
    objections: &Objections,
    veto: &Objector,
    content: &Content,
    left: &[Left],
) {
    let mut firsts = BTreeSet::new();
    for asked in &veto.asked {
        assert!(firsts.insert(asked.first), "{spec}: asked about {} twice", asked.first);
        let end = asked.first + if evicts_pages(spec) { 1 } else { config.pages_per_block };
        let cached: Vec<u32> = content.pages.range(asked.first..end).map(|(page, _)| *page).collect();
        assert_eq!(asked.cached, cached, "{spec}: the pages of the unit at {}", asked.first);
        assert!(!cached.is_empty());
    }
    assert!(veto.exhausted <= 1);
    let Some(out) = left.iter().find(|group| group.kind != EvictionKind::Pad) else {
        return;
    };
    let victim = unit_of(spec, out.pages[0], config);
    if veto.exhausted == 0 {
        assert!(!objections.to(victim), "{spec}: unit {victim} was vetoed and is evicted");
        let last = veto.asked.last().expect("a veto is asked before an eviction");
        assert_eq!((last.first, last.refused), (victim, false), "{spec}: the unit that was not vetoed is the victim");
        let padding = left.iter().any(|group| group.kind == EvictionKind::Pad);
        // A full block is padded with nothing.
        assert!(last.padded == padding || last.cached.len() as u32 == config.pages_per_block, "{spec}");
    } else {
        assert!(veto.asked.iter().all(|asked| asked.refused), "{spec}: exhausted although a unit was welcome");
    }
    assert_eq!(left.iter().map(|group| group.units).sum::<u32>(), 1, "{spec}: one victim per access");
}

fn unopposed(pages_per_block: u32) -> Objector {
    Objector::new(Objections::none(), pages_per_block)
}

fn objector_to_all(pages_per_block: u32) -> Objector {
    Objector::to_all(WhenExhausted::TakeBase, pages_per_block)
}

/// The hand meets 2 with bit 0 first, however many frames it inspects before it gives up.
#[test]
fn clock_takes_its_base_where_the_hand_would_have_stopped() {
    let mut policy = driven("clock", BufferConfig { capacity_pages: 4, pages_per_block: 1, elements: 1 }, 10);
    let mut left = Vec::new();
    // (5,1)(2,0)(3,1)(4,0), hand at 2; writing 5 sets no bit that is not set; a hit on 3 sets its
    // bit.
    for page in [1, 2, 3, 4, 5, 3] {
        policy.access_with(PageAccess::write(page), &mut unopposed(1), &mut left);
    }
    left.clear();
    policy.access_with(PageAccess::write(6), &mut objector_to_all(1), &mut left);
    assert_eq!(left, [Left::unit(EvictionKind::Flush, &[2])]);
    left.clear();
    // (5,1)(6,1)(3,1)(4,0), hand at 3: had the veto's search cleared the bit of 3, 3 would go.
    policy.access_with(PageAccess::write(7), &mut unopposed(1), &mut left);
    assert_eq!(left, [Left::unit(EvictionKind::Flush, &[4])]);
}

/// B5, reset in this round, is larger than B7 and is still no candidate.
#[test]
fn lb_clock_takes_its_base_among_the_candidates() {
    let mut policy = driven("lb-clock", BufferConfig { capacity_pages: 8, pages_per_block: 4, elements: 1 }, 40);
    let mut left = Vec::new();
    // Beyond Fig. 2(b): B2r1{10} B5r1{20,22,23} B3r1{12,13} B7r0{28,29}.
    for page in [28, 10, 4, 6, 19, 16, 17, 18, 20, 22, 23, 29, 12, 13, 10] {
        policy.access_with(PageAccess::write(page), &mut unopposed(4), &mut left);
    }
    left.clear();
    policy.access_with(PageAccess::write(32), &mut objector_to_all(4), &mut left);
    assert_eq!(left, [Left::unit(EvictionKind::Flush, &[28, 29])]);
}

/// A block with its recency bit set that the hand has not reached is a way out as well.
#[test]
fn lb_clock_looks_on_beyond_the_candidates() {
    let mut policy =
        driven("lb-clock:prev_init=0", BufferConfig { capacity_pages: 2, pages_per_block: 4, elements: 1 }, 40);
    let mut left = Vec::new();
    // B0r0{3} B1r1{4}, hand at B0.
    policy.access_with(PageAccess::write(3), &mut unopposed(4), &mut left);
    policy.access_with(PageAccess::write(4), &mut unopposed(4), &mut left);
    let objections = Objections { units: BTreeSet::from([0]), exhausted: WhenExhausted::Bypass, ..Objections::none() };
    let mut veto = Objector::new(objections, 4);
    assert_eq!(policy.access_with(PageAccess::write(8), &mut veto, &mut left), AccessOutcome::Inserted);
    assert_eq!(left, [Left::unit(EvictionKind::Flush, &[4])]);
    assert_eq!(veto.exhausted, 0);
}

/// Asked in the policy's order to the end: the cold clusters by size and from their LRU ends, then
/// SI.
#[test]
fn clc_asks_in_its_own_order() {
    assert_order("clc:si_max=2", &[0, 1, 4, 8, 9, 12, 16, 17, 20], &[0, 8, 4, 12, 16, 20]);
}

/// The IUG by size, then by PUD; then the FUG by PUD.
#[test]
fn pud_lru_asks_in_its_own_order() {
    let pages = [0, 4, 8, 12, 13, 4, 16, 17, 16];
    // UD, RD and PUD at t = 10: B0 none, 9, 9; B1 3, 4, 3.5; B2 none, 7, 7; B3 0, 5, 2.5; B4 0, 1,
    // 0.5. The mean is 4.5.
    assert_order("pud-lru", &pages, &[0, 8, 4, 12, 16]);
    // With T = 2 B3, which has two pages, goes first.
    assert_order("pud-lru:threshold=2", &pages, &[12, 0, 8, 4, 16]);
    assert_order("pud-lru:threshold=0", &pages, &[12, 16, 0, 8, 4]);
    assert_order("pud-lru:threshold=100", &pages, &[0, 8, 4, 12, 16]);
}

/// Writes `pages`, which fill the buffer, and asserts the order in which a veto that objects to all
/// is asked for more.
#[track_caller]
fn assert_order(spec: &str, pages: &[u32], firsts: &[u32]) {
    let distinct: BTreeSet<u32> = pages.iter().copied().collect();
    let config = BufferConfig { capacity_pages: distinct.len() as u32, pages_per_block: 4, elements: 1 };
    let mut policy = driven(spec, config, 1000);
    let mut left = Vec::new();
    for page in pages {
        policy.access_with(PageAccess::write(*page), &mut unopposed(4), &mut left);
    }
    // Twice: what was passed over is still where it was.
    for _ in 0..2 {
        let mut veto = Objector::to_all(WhenExhausted::Bypass, 4);
        assert_eq!(policy.access_with(PageAccess::write(900), &mut veto, &mut left), AccessOutcome::Bypassed);
        assert_eq!(veto.asked.iter().map(|asked| asked.first).collect::<Vec<_>>(), firsts, "{spec}");
    }
    assert_eq!(left, []);
}

/// A lone block is its policy's base even where the block of the incoming page is protected, and a
/// veto that does not object to it is not told that nothing is left.
#[test]
fn a_lone_protected_block_is_asked_about() {
    let protects = |policy: &&PolicyInfo| policy.params.iter().any(|param| param.name == "protect_current");
    for policy in policies().iter().filter(protects).map(|policy| policy.name) {
        let spec = &format!("{policy}:protect_current=true");
        let mut policy = driven(spec, BufferConfig { capacity_pages: 2, pages_per_block: 4, elements: 1 }, 40);
        let mut left = Vec::new();
        policy.access_with(PageAccess::write(0), &mut unopposed(4), &mut left);
        policy.access_with(PageAccess::write(1), &mut unopposed(4), &mut left);
        let mut veto = Objector::new(Objections { exhausted: WhenExhausted::Bypass, ..Objections::none() }, 4);
        assert_eq!(policy.access_with(PageAccess::write(2), &mut veto, &mut left), AccessOutcome::Inserted, "{spec}");
        assert_eq!((veto.asked.len(), veto.exhausted), (1, 0), "{spec}");
    }
}
