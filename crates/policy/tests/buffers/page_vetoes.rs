//! The page-level policies that search on under a veto whose objections belong to elements of the
//! device: page `p` to element `p mod elements`. Objections change over time, and an element that
//! is no longer avoided is announced by [`BufferNotice::Resume`]. Beside accesses there are single
//! evictions, write-backs of single pages, flushes and trims.

use std::collections::BTreeSet;

use destage_plan::{Element, PageNo, PolicySpec};
use destage_policy::buffer::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, BuiltPolicy, EvictionCandidate, EvictionKind,
    EvictionVeto, Evictions, FrameWait, NoDevice, NoVeto, PageAccess, PolicyVisitor, WhenExhausted, build,
};

use crate::content::Content;
use crate::models::{Left, Objections, model};
use crate::workload::{Mix, Op, PATTERNS, Pattern, Workload};

pub(crate) const SPECS: [&str; 19] = [
    "cflru",
    "cflru:reads=bypass",
    "cflru:window=0",
    "cflru:window=0.3",
    "cflru:window=1",
    "cflru:window=adaptive",
    "cflru:window=adaptive:period=7:step=0.3:write_cost=2",
    "lru-wsr",
    "lru-wsr:reads=bypass",
    "ccf-lru",
    "ccf-lru:hot_clean=spare",
    "ccf-lru:hot_clean=spare:new_dirty_cold=true:reads=bypass",
    "ccf-lru:new_clean_to=mixed",
    "ccf-lru:new_clean_to=mixed:hot_clean=spare",
    "ref",
    "ref:vw=0:nvb=2",
    "ref:vw=1:nvb=3",
    "ref:nvb=2:new_vb=most_pages_in_vw:reads=bypass",
    "ref:vw=0.8:new_vb=most_pages_in_vw",
];

const GEOMETRIES: [(u32, u32); 6] = [(1, 1), (1, 6), (4, 7), (4, 30), (64, 100), (100, 90)];

/// Elements that may be avoided.
const ELEMENTS: u32 = 5;

/// Objects to the pages of the avoided elements.
struct Avoiding {
    avoided: Vec<bool>,
    exhausted: WhenExhausted,
    /// The pages it was asked about.
    asked: Vec<u32>,
    /// Counts how often the veto was told that no other victim is left.
    told: u32,
}

impl Avoiding {
    fn new(elements: u32) -> Self {
        Self { avoided: vec![false; elements as usize], exhausted: WhenExhausted::TakeBase, asked: Vec::new(), told: 0 }
    }

    fn element_of(&self, page: u32) -> Element {
        Element(page % self.avoided.len() as u32)
    }

    fn objects_to(&self, page: u32) -> bool {
        self.avoided[self.element_of(page).index()]
    }

    /// All pages below `pages` that it objects to.
    fn objections(&self, pages: u32) -> BTreeSet<u32> {
        (0..pages).filter(|page| self.objects_to(*page)).collect()
    }
}

impl EvictionVeto for Avoiding {
    const ACTIVE: bool = true;

    fn passes_over(&mut self, candidate: EvictionCandidate<'_>) -> Option<Element> {
        let EvictionCandidate::Page { page: PageNo(page), .. } = candidate else {
            panic!("a block of a page-level policy")
        };
        self.asked.push(page);
        self.objects_to(page).then_some(self.element_of(page))
    }

    fn avoids(&mut self, _channel: u32) -> bool {
        false
    }

    fn exhausted(&mut self) -> WhenExhausted {
        self.told += 1;
        self.exhausted
    }
}

/// Returns the groups that left, in the models' form.
fn tell(evictions: &mut Evictions) -> Vec<Left> {
    let left = evictions.groups().map(|(group, pages)| {
        assert_eq!(group.wait, FrameWait::All);
        assert_eq!(evictions.channels(group), None);
        let pages: Vec<u32> = pages.iter().map(|p| p.0).collect();
        Left { kind: group.kind, pages, units: group.units, channels: None, background: group.background }
    });
    let left = left.collect();
    evictions.clear();
    left
}

/// One step beside what a workload has.
#[derive(Clone, Copy, Debug)]
enum Step {
    Op(Op),
    Evict,
    /// The element is avoided from now on.
    Avoid(Element),
}

/// The workload with write-backs of single pages and evictions between, and changes of what is
/// avoided.
fn steps(workload: impl Iterator<Item = Op>, seed: u64, pages: u32, avoids: bool) -> impl Iterator<Item = Step> {
    let mut dice = Workload::new(!seed, PATTERNS[0], Mix::WRITES, pages);
    workload.flat_map(move |op| {
        let extra = match dice.below(if avoids { 40 } else { 400 }) {
            0 | 1 => {
                let (page, keep) = (PageNo(dice.below(pages)), dice.below(2) == 0);
                Some(Step::Op(Op::Notify(BufferNotice::Destage { page, keep })))
            }
            2 => Some(Step::Evict),
            3..=5 => Some(Step::Avoid(Element(dice.below(ELEMENTS)))),
            6..=8 => Some(Step::Op(Op::Notify(BufferNotice::Resume { element: Element(dice.below(ELEMENTS)) }))),
            _ => None,
        };
        [Some(Step::Op(op)), extra].into_iter().flatten()
    })
}

/// Compares a policy with its model step by step.
struct Compare<'a> {
    spec: &'a str,
    config: BufferConfig,
    pages: u32,
    seed: u64,
    pattern: Pattern,
    ops: usize,
    /// With a veto, or without.
    vetoed: bool,
}

impl PolicyVisitor for Compare<'_> {
    type Out = ();

    fn visit<B: BufferPolicy + Send + 'static>(self, mut policy: B, _: BuiltPolicy) {
        let Self { spec, config, pages, seed, pattern, ops, vetoed } = self;
        policy.grow(pages);
        let mut naive = model(spec, config);
        let mut veto = Avoiding::new(ELEMENTS);
        let mut objections = Objections::none();
        let mut content = Content::default();
        // Pages that were passed over and of which the policy need not ask again.
        let mut parked = BTreeSet::new();
        let mut out = Evictions::default();
        let mut dice = Workload::new(seed / 3 + 1, PATTERNS[0], Mix::WRITES, pages);
        let workload = Workload::new(seed, pattern, Mix::ALL, pages).take(ops);
        for step in steps(workload, seed, pages, vetoed) {
            let place = || format!("{spec} {config:?} seed {seed}: {step:?}");
            veto.asked.clear();
            veto.told = 0;
            veto.exhausted = if dice.below(2) == 0 { WhenExhausted::TakeBase } else { WhenExhausted::Bypass };
            objections.exhausted = veto.exhausted;
            let mut expected = Vec::new();
            let seen;
            match step {
                Step::Op(Op::Access(access)) => {
                    let outcome = if vetoed {
                        policy.access(access, &NoDevice, &mut veto, &mut out)
                    } else {
                        policy.access(access, &NoDevice, &mut NoVeto, &mut out)
                    };
                    assert_eq!(outcome, naive.access(access, &objections, &mut expected), "{}", place());
                    seen = tell(&mut out);
                    check_promises(&place, &veto, &parked, &seen);
                    parked.remove(&access.page.0);
                    content.access(access, outcome, &seen);
                }
                Step::Op(Op::Notify(notice)) => {
                    if let BufferNotice::Resume { element } = notice {
                        veto.avoided[element.index()] = false;
                        objections.units = veto.objections(pages);
                        parked.retain(|page| page % ELEMENTS != element.0);
                    }
                    policy.notify(notice, &NoDevice, &mut veto, &mut out);
                    naive.notify(notice, &mut expected);
                    seen = tell(&mut out);
                    content.notify(notice, &seen);
                }
                Step::Evict => {
                    let left = if vetoed {
                        policy.evict(&NoDevice, &mut veto, &mut out)
                    } else {
                        policy.evict(&NoDevice, &mut NoVeto, &mut out)
                    };
                    assert_eq!(left, naive.evict(&objections, &mut expected), "{}", place());
                    seen = tell(&mut out);
                    assert_eq!(left, !seen.is_empty(), "{}", place());
                    check_promises(&place, &veto, &parked, &seen);
                    content.evicted(&seen);
                }
                Step::Avoid(element) => {
                    // Without a veto there are no such objections.
                    if vetoed {
                        veto.avoided[element.index()] = true;
                        objections.units = veto.objections(pages);
                    }
                    continue;
                }
            }
            assert_eq!(seen, expected, "{}, now {}", place(), naive.state());
            assert_eq!(policy.len(), naive.len(), "{}", place());
            assert!(policy.len() <= config.capacity_pages);
            if !vetoed {
                assert_eq!(policy.memory_accesses(), naive.memory_accesses(), "{}", place());
            }
            parked.extend(veto.asked.iter().copied().filter(|page| veto.objects_to(*page)));
            parked.retain(|page| content.pages.contains_key(page));
        }
        content.check_laws();
    }
}

/// Checks the promises to a veto, and that no page is asked about twice.
fn check_promises(place: &dyn Fn() -> String, veto: &Avoiding, parked: &BTreeSet<u32>, left: &[Left]) {
    let asked: BTreeSet<u32> = veto.asked.iter().copied().collect();
    assert_eq!(asked.len(), veto.asked.len(), "{}: asked twice", place());
    assert!(asked.is_disjoint(parked), "{}: asked about a parked page", place());
    let welcome: Vec<u32> = asked.iter().copied().filter(|page| !veto.objects_to(*page)).collect();
    if veto.told > 0 || asked.is_empty() {
        assert!(welcome.is_empty(), "{}: {welcome:?}", place());
        return;
    }
    let out: Vec<u32> = left.iter().flat_map(|group| group.pages.clone()).collect();
    assert_eq!(out, welcome, "{}: the page that was not vetoed is the victim", place());
    assert_eq!(veto.asked.last(), welcome.last(), "{}", place());
}

fn for_each(spec: &str, config: BufferConfig, visitor: impl PolicyVisitor<Out = ()>) {
    let parsed: PolicySpec = spec.parse().expect(spec);
    build(&parsed, config, visitor).unwrap_or_else(|e| panic!("{spec}: {e}"));
}

fn sweep(ops: usize, vetoed: bool) {
    let mut seed = 500;
    for spec in SPECS {
        for (pages_per_block, capacity_pages) in GEOMETRIES {
            for pattern in PATTERNS {
                seed += 1;
                let config = BufferConfig { capacity_pages, pages_per_block, elements: ELEMENTS };
                let pages = 2 * capacity_pages + 3 * pages_per_block + ELEMENTS;
                for_each(spec, config, Compare { spec, config, pages, seed, pattern, ops, vetoed });
            }
        }
    }
}

#[test]
fn changing_objections() {
    sweep(2000, true);
}

/// Single evictions and write-backs without a veto, memory accesses included.
#[test]
fn single_evictions_and_write_backs() {
    sweep(1500, false);
}

/// Drives a policy with a veto that objects to nothing or to everything beside one without a veto.
struct Fixed {
    objects: bool,
    exhausted: WhenExhausted,
    capacity: u32,
    seed: u64,
    spec: &'static str,
}

impl PolicyVisitor for Fixed {
    type Out = ();

    fn visit<B: BufferPolicy + Send + 'static>(self, mut policy: B, _: BuiltPolicy) {
        let Self { objects, exhausted, capacity, seed, spec } = self;
        let pages = 3 * capacity + 5;
        policy.grow(pages);
        let config = BufferConfig { capacity_pages: capacity, pages_per_block: 4, elements: 1 };
        let mut free = model(spec, config);
        let mut veto = Avoiding { exhausted, ..Avoiding::new(1) };
        veto.avoided[0] = objects;
        let mut out = Evictions::default();
        for op in Workload::new(seed, PATTERNS[3], Mix::ALL, pages).take(4000) {
            let mut expected = Vec::new();
            match op {
                Op::Access(access) if objects && exhausted == WhenExhausted::Bypass => {
                    let full = policy.len() == capacity;
                    let outcome = policy.access(access, &NoDevice, &mut veto, &mut out);
                    assert!(!full || outcome != AccessOutcome::Inserted, "{spec} {op:?}");
                    assert!(out.is_empty(), "{spec}: nothing leaves");
                    continue;
                }
                Op::Access(access) => {
                    let outcome = policy.access(access, &NoDevice, &mut veto, &mut out);
                    assert_eq!(outcome, free.access(access, &Objections::none(), &mut expected), "{spec} {op:?}");
                }
                Op::Notify(notice) => {
                    policy.notify(notice, &NoDevice, &mut veto, &mut out);
                    free.notify(notice, &mut expected);
                    if objects && exhausted == WhenExhausted::Bypass {
                        out.clear();
                        continue;
                    }
                }
            }
            assert_eq!(tell(&mut out), expected, "{spec} {op:?} {}", free.state());
            if !objects {
                assert_eq!(policy.memory_accesses(), free.memory_accesses(), "{spec} {op:?}");
            }
        }
    }
}

#[test]
fn objections_to_nothing_or_to_everything() {
    for spec in SPECS {
        for capacity in [1, 2, 9, 60] {
            for objects in [false, true] {
                for (seed, exhausted) in [(11, WhenExhausted::TakeBase), (12, WhenExhausted::Bypass)] {
                    let config = BufferConfig { capacity_pages: capacity, pages_per_block: 4, elements: 1 };
                    for_each(spec, config, Fixed { objects, exhausted, capacity, seed, spec });
                }
            }
        }
    }
}

/// Counts questions in a long-lasting veto of three elements of seven over a large buffer.
struct Count {
    spec: &'static str,
}

impl PolicyVisitor for Count {
    type Out = ();

    fn visit<B: BufferPolicy + Send + 'static>(self, mut policy: B, _: BuiltPolicy) {
        const ELEMENTS: u32 = 7;
        let pages = 40_000;
        policy.grow(pages);
        let mut veto = Avoiding::new(ELEMENTS);
        let mut out = Evictions::default();
        let (mut questions, mut evictions, mut may_be_parked) = (0, 0, 0);
        for (number, op) in Workload::new(5, PATTERNS[0], Mix::ACCESSES, pages).take(200_000).enumerate() {
            if number % 60_000 == 30_000 {
                veto.avoided[..3].fill(true);
                // Once each that is there now, and once each that comes or is used.
                may_be_parked += policy.len() as usize;
            }
            if number % 60_000 == 0 {
                veto.avoided.fill(false);
                (0..ELEMENTS).map(Element).for_each(|element| {
                    policy.notify(BufferNotice::Resume { element }, &NoDevice, &mut veto, &mut out);
                });
            }
            let Op::Access(access) = op else { unreachable!("only accesses") };
            may_be_parked += usize::from(veto.objects_to(access.page.0));
            policy.access(access, &NoDevice, &mut veto, &mut out);
            evictions += tell(&mut out).len();
            questions += veto.asked.len();
            veto.asked.clear();
        }
        assert!(evictions > 50_000, "{}: {evictions}", self.spec);
        assert!(questions > evictions, "{}: some pages were passed over", self.spec);
        assert!(
            questions <= evictions + may_be_parked,
            "{}: {questions} questions for {evictions} evictions, {may_be_parked}",
            self.spec
        );
    }
}

#[test]
fn a_long_veto_costs_a_question_per_page() {
    for spec in SPECS {
        for_each(spec, BufferConfig { capacity_pages: 10_000, pages_per_block: 64, elements: 7 }, Count { spec });
    }
}

/// The order in which a veto that objects to all is asked, twice: what was passed over is where it
/// was.
#[test]
fn asked_in_the_policys_own_order() {
    let (r, w) = (PageAccess::read, PageAccess::write);
    // Window 3d 2c 1d: its clean page, then all from the LRU end.
    assert_order("cflru", &[w(1), r(2), w(3), r(4), w(5), r(6)], &[2, 1, 3, 4, 5, 6]);
    // 2 is clean; the others after their second chances.
    assert_order("lru-wsr", &[w(1), r(2), w(3)], &[2, 1, 3]);
    // Cold clean 3 and 5; hot clean 2; then the dirty ones.
    assert_order("ccf-lru", &[w(1), r(2), r(3), r(2), w(4), r(5)], &[3, 5, 2, 1, 4]);
    assert_order("ccf-lru:hot_clean=spare", &[w(1), r(2), r(3), r(2), w(4), r(5)], &[3, 5, 1, 4, 2]);
    assert_order("ref", &[w(0), w(4), w(1), w(5)], &[0, 4, 1, 5]);
    // Block 1 has three pages of the window, block 2 and 0 one; the number of block 0 changed
    // first.
    assert_order("ref:vw=1:new_vb=most_pages_in_vw", &[w(0), w(4), w(8), w(5), w(6)], &[4, 5, 6, 0, 8]);
}

struct Order<'a> {
    accesses: &'a [PageAccess],
    pages: &'a [u32],
}

impl PolicyVisitor for Order<'_> {
    type Out = ();

    fn visit<B: BufferPolicy + Send + 'static>(self, mut policy: B, _: BuiltPolicy) {
        policy.grow(1000);
        let mut out = Evictions::default();
        for access in self.accesses {
            policy.access(*access, &NoDevice, &mut NoVeto, &mut out);
        }
        for _ in 0..2 {
            let mut veto = Avoiding { exhausted: WhenExhausted::Bypass, ..Avoiding::new(1) };
            veto.avoided[0] = true;
            assert_eq!(policy.access(PageAccess::write(900), &NoDevice, &mut veto, &mut out), AccessOutcome::Bypassed);
            assert_eq!(veto.asked, self.pages);
            policy.notify(BufferNotice::Resume { element: Element(0) }, &NoDevice, &mut veto, &mut out);
        }
        assert!(out.is_empty());
    }
}

#[track_caller]
fn assert_order(spec: &str, accesses: &[PageAccess], pages: &[u32]) {
    let config = BufferConfig { capacity_pages: pages.len() as u32, pages_per_block: 4, elements: 1 };
    for_each(spec, config, Order { accesses, pages });
}

/// A page that is passed over keeps its place while others leave, and leaves next once its element
/// is free again.
#[test]
fn a_parked_page_keeps_its_place() {
    struct Parked;
    impl PolicyVisitor for Parked {
        type Out = ();
        fn visit<B: BufferPolicy + Send + 'static>(self, mut policy: B, _: BuiltPolicy) {
            policy.grow(1000);
            let mut out = Evictions::default();
            let mut veto = Avoiding::new(10);
            veto.avoided[1] = true;
            for page in [1, 2, 3, 4] {
                policy.access(PageAccess::read(page), &NoDevice, &mut veto, &mut out);
            }
            for (page, victim) in [(5, 2), (6, 3)] {
                policy.access(PageAccess::read(page), &NoDevice, &mut veto, &mut out);
                assert_eq!(tell(&mut out), [Left::unit(EvictionKind::Drop, &[victim])]);
            }
            veto.avoided[1] = false;
            policy.notify(BufferNotice::Resume { element: Element(1) }, &NoDevice, &mut veto, &mut out);
            policy.access(PageAccess::read(7), &NoDevice, &mut veto, &mut out);
            assert_eq!(tell(&mut out), [Left::unit(EvictionKind::Drop, &[1])]);
        }
    }
    for spec in ["cflru", "lru-wsr", "ccf-lru", "ref"] {
        for_each(spec, BufferConfig { capacity_pages: 4, pages_per_block: 1, elements: 10 }, Parked);
    }
}
