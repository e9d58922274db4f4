//! Naive models under random operations and vetoes, and what must hold whatever comes.

use super::*;

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
    let exhausted = if dice.below(2) == 0 { WhenExhausted::TakeBase } else { WhenExhausted::Bypass };
    Objections { units, exhausted, channels, ..Objections::none() }
}

/// Checks the properties of every group of a multi-eviction.
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
                if objections.exhausted == WhenExhausted::Bypass || objections.channels.len() < config.elements as usize
                {
                    let all_avoided = objections.channels.len() == config.elements as usize;
                    let programs = seen.iter().any(|group| group.kind != EvictionKind::Drop);
                    assert!(!(all_avoided && programs), "{}", context());
                }
                // Where only lists that are avoided have pages they are written nevertheless.
                let nevertheless = spec.starts_with("cawr") && objections.exhausted == WhenExhausted::TakeBase;
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
            content.access(PageAccess::write(page), policy.access(PageAccess::write(page), &mut left), &left);
        }
        for (access, avoided) in (0..400).zip([0b1111, 0b0111, 0b1111, 0b0001].into_iter().cycle()) {
            let channels: BTreeSet<u32> = (0..4).filter(|c| avoided >> c & 1 == 1).collect();
            let objections = Objections { channels, exhausted: WhenExhausted::Bypass, ..Objections::none() };
            let mut veto = Objector::new(objections.clone(), 4);
            let access = PageAccess::write(100 + 4 * access % 200);
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
            policy.access(PageAccess::write(page), &mut left);
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
        policy.access(PageAccess::write(page), &mut seen);
        naive.access(PageAccess::write(page), &Objections::none(), &mut expected);
    }
    let avoiding = |channels: &[u32]| Objections { channels: channels.iter().copied().collect(), ..Objections::none() };
    let mut access = |page, channels: &[u32], state: &str, left: &[Left]| {
        let mut veto = Objector::new(avoiding(channels), 64);
        policy.access_with(PageAccess::write(page), &mut veto, &mut seen);
        naive.access(PageAccess::write(page), &avoiding(channels), &mut expected);
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

/// Builds a policy, and returns its description and how frames are waited for.
struct GroupWaits<'a>(&'a [PageAccess]);

impl PolicyVisitor for GroupWaits<'_> {
    type Out = (BuiltPolicy, Vec<(FrameWait, u32)>);
    fn visit<B: BufferPolicy + Send + 'static>(self, mut buffer: B, built: BuiltPolicy) -> Self::Out {
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
    for (spec, wait) in [("cawr", FrameWait::All), ("cawr:wait=all", FrameWait::All), ("cawr:wait=any", FrameWait::Any)]
    {
        let accesses = writes(&[1, 10, 20, 30, 40, 50]);
        let (built, waits) = build(&spec.parse().expect(spec), config, GroupWaits(&accesses)).expect(spec);
        assert_eq!(waits, [(wait, 2), (wait, 2)], "{spec}");
        assert!(built.chooses_channels && built.unit == EvictionUnit::Page);
    }
}

#[test]
fn more_channels_than_can_be_told_apart_are_refused() {
    let config = |elements| BufferConfig { capacity_pages: 3, pages_per_block: 4, elements };
    for spec in ["cave", "cawr", "gate+lru", "cave+fab", "cawr+fab"] {
        let build = |elements| build(&spec.parse().expect(spec), config(elements), GroupWaits(&[]));
        assert!(build(65_528).is_ok(), "{spec}");
        let refused = build(65_529).err();
        assert_eq!(refused, Some(PolicyError::TooManyChannels { channels: 65_529, most: 65_528 }), "{spec}");
    }
}
