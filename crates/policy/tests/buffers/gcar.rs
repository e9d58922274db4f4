//! `GCaR` around the policies: compared with a naive model over a device whose elements collect at
//! random.

use destage_plan::{Element, PageNo};
use destage_policy::buffer::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, BuiltPolicy, DeviceView, EvictionKind, Evictions,
    GcCounters, NoDevice, NoVeto, PageAccess, PolicyVisitor, build, policies,
};

use crate::content::Content;
use crate::models::Left;
use crate::registry::in_force;
use crate::workload::{Mix, Op, PATTERNS, Workload};

pub(crate) mod model;

use model::{Elements, GcarModel, Grown, LOW_WATERMARK, OnDevice, Told, Wrapped};

const SPECS: [&str; 22] = [
    "gcar+lru",
    "gcar+lru:gcar_all_gc=bypass:gcar_after=keep_clean",
    "gcar+lru:gcar_all_gc=wait:gcar_destage_scope=all_dirty_of_chip",
    "gcar+lru:gcar_destage_scope=none",
    "gcar+lru:gcar_max_share=0.5:gcar_all_gc=wait",
    "gcar+lru:gcar_max_share=0:reads=bypass",
    "gcar+lru:gcar_soon_margin=10:gcar_after=keep_clean",
    "gcar+bplru",
    "gcar+bplru:gcar_all_gc=bypass",
    "gcar+bplru:gcar_all_gc=wait:protect_current=true",
    "gcar+bplru:gcar_max_share=0.29",
    "gcar+bplru:gcar_destage_scope=all_dirty_of_chip:gcar_soon_margin=3",
    "gcar+fab",
    "gcar+fab:gcar_after=keep_clean",
    "gcar+fab:gcar_all_gc=bypass:gcar_destage_scope=all_dirty_of_chip:gcar_after=keep_clean:protect_current=true",
    "gcar+fab:gcar_max_share=0.7",
    "gcar+fab:reads=bypass:gcar_all_gc=wait:gcar_destage_scope=none",
    "gcar+lb-clock",
    "gcar+lb-clock:gcar_all_gc=bypass",
    "gcar+lb-clock:gcar_all_gc=wait:protect_current=true:candidate_rule=all_zero",
    "gcar+lb-clock:gcar_max_share=0.4",
    "gcar+lb-clock:gcar_destage_scope=all_dirty_of_chip:opt_preempt=false:opt_seq=false",
];

/// Pages per block and capacity.
const GEOMETRIES: [(u32, u32); 6] = [(1, 1), (1, 6), (4, 7), (4, 30), (16, 40), (64, 150)];

fn against_model(dynamic: bool, ops: usize) {
    let mut seed = 4000;
    let mut counted = GcCounters::default();
    for spec in SPECS {
        let blocks = !spec.starts_with("gcar+lru");
        // Where pages have no place the share counts clean ones only: not modelled.
        if dynamic && (blocks || spec.contains("max_share")) {
            continue;
        }
        for (pages_per_block, capacity_pages) in GEOMETRIES {
            for (pattern, elements) in PATTERNS.into_iter().zip([1, 2, 7, 64]) {
                seed += 1;
                let pages = 3 * capacity_pages + 2 * pages_per_block;
                let mut dice = Workload::new(!seed, PATTERNS[0], Mix::WRITES, pages);
                let stride = if dice.below(3) == 0 { 1 } else { pages_per_block };
                let mut device = Elements { dynamic, ..Elements::new(elements, stride) };
                let config = BufferConfig { capacity_pages, pages_per_block, elements };
                let mut policy = Grown(spec, config, pages).build();
                let mut naive = GcarModel::new(spec, config);
                let (mut seen, mut expected) = (Vec::new(), Vec::new());
                let often = [15, 80, 400][dice.below(3) as usize];
                for op in Workload::new(seed, pattern, Mix::ALL, pages).take(ops) {
                    for element in (0..elements).map(Element) {
                        if dice.below(often * elements) < 3 {
                            let at = element.index();
                            device.collecting[at] ^= true;
                            device.free_blocks[at] = LOW_WATERMARK + if device.collecting[at] { 0 } else { 14 };
                            if !device.collecting[at] {
                                policy.notify(BufferNotice::GcEnd { element }, &device, &mut seen);
                                naive.notify(BufferNotice::GcEnd { element }, &device, &mut expected);
                                assert_eq!(seen, expected, "{spec} {config:?} {device:?}: end of {element:?}");
                            }
                        } else if !device.collecting[element.index()] && dice.below(40) == 0 {
                            let free = &mut device.free_blocks[element.index()];
                            *free = (*free - 1).max(LOW_WATERMARK + 1);
                        }
                    }
                    let story = |what: &str| format!("{spec} {config:?} {device:?} seed {seed}: {what} {op:?}");
                    match op {
                        _ if dice.below(25) == 0 => {
                            let left = policy.evict(&device, &mut seen);
                            assert_eq!(left, naive.evict(&device, &mut expected), "{}", story("evict"));
                        }
                        Op::Access(access) => {
                            let outcome = policy.access(access, &device, &mut seen);
                            assert_eq!(outcome, naive.access(access, &device, &mut expected), "{}", story(""));
                        }
                        // The ends of collections are told above.
                        Op::Notify(BufferNotice::GcEnd { .. }) => {}
                        Op::Notify(notice) => {
                            policy.notify(notice, &device, &mut seen);
                            naive.notify(notice, &device, &mut expected);
                        }
                    }
                    assert_eq!(seen, expected, "{}", story(""));
                    assert_eq!(policy.len(), naive.inner.len(), "{}", story(""));
                    assert!(policy.len() <= capacity_pages);
                    let GcCounters { deferred_pages_destaged, all_avoided, .. } = policy.counters();
                    let modelled = (naive.counters.deferred_pages_destaged, naive.counters.all_avoided);
                    assert_eq!((deferred_pages_destaged, all_avoided), modelled, "{}", story(""));
                    seen.clear();
                    expected.clear();
                }
                naive.content.check_laws();
                counted.passed_over += policy.counters().passed_over;
                counted.deferred_pages_destaged += policy.counters().deferred_pages_destaged;
                counted.all_avoided += policy.counters().all_avoided;
            }
        }
    }
    assert!(counted.passed_over > 1000 && counted.all_avoided > 100, "{counted:?}");
    assert_eq!(counted.deferred_pages_destaged > 1000, !dynamic, "{counted:?}");
}

#[test]
fn gcar_is_what_its_model_is() {
    against_model(false, 800);
}

/// A dirty page has no place to avoid, and leaves through the elements that are not avoided in
/// turn.
#[test]
fn gcar_over_a_device_that_places_pages_anywhere() {
    against_model(true, 3000);
}

fn flush(page: u32) -> Told {
    (Left::unit(EvictionKind::Flush, &[page]), false)
}

fn in_background(page: u32) -> Told {
    (Left { background: true, ..Left::unit(EvictionKind::Flush, &[page]) }, false)
}

/// Pages 2, 7 and others on chip 2; 5, 6 and others elsewhere: the list D1 D3 D6 D2 D5 D7 of the
/// paper's Fig. 4.
struct Figure4;

impl DeviceView for Figure4 {
    fn elements(&self) -> u32 {
        3
    }
    fn element_of(&self, page: PageNo) -> Element {
        Element(if [2, 7].contains(&page.0) { 2 } else { page.0 % 2 })
    }
    fn destination(&self, page: PageNo) -> Option<Element> {
        Some(self.element_of(page))
    }
    fn collecting(&self, element: Element) -> bool {
        element == Element(2)
    }
    fn free_blocks(&self, _: Element) -> u32 {
        100
    }
    fn low_watermark(&self) -> u32 {
        LOW_WATERMARK
    }
}

/// Specs §7, the table after the paper's Fig. 4, row by row, and the same with plain LRU.
#[test]
fn figure_4() {
    struct Run;
    impl PolicyVisitor for Run {
        type Out = Vec<Vec<Told>>;
        fn visit<B: BufferPolicy + Send + 'static>(self, mut buffer: B, _: BuiltPolicy) -> Self::Out {
            buffer.grow(20);
            let mut rows = Vec::new();
            let mut out = Evictions::default();
            for page in [7, 5, 2, 6, 3, 1] {
                buffer.access(PageAccess::write(page), &NoDevice, &mut NoVeto, &mut out);
            }
            assert!(out.is_empty());
            let mut wrapped = Wrapped(buffer, out);
            for access in [PageAccess::read(9), PageAccess::write(10), PageAccess::write(7)] {
                let mut row = Vec::new();
                wrapped.0.access(access, &Figure4, &mut NoVeto, &mut wrapped.1);
                wrapped.tell(&mut row);
                rows.push(row);
            }
            let mut row = Vec::new();
            wrapped.0.notify(BufferNotice::GcEnd { element: Element(2) }, &NoDevice, &mut NoVeto, &mut wrapped.1);
            wrapped.tell(&mut row);
            rows.push(row);
            // D10 D9 D1 D3: what is left.
            if wrapped.0.len() == 4 {
                let mut row = Vec::new();
                for page in [11, 12, 13, 14, 15, 16] {
                    wrapped.0.access(PageAccess::write(page), &NoDevice, &mut NoVeto, &mut wrapped.1);
                }
                wrapped.tell(&mut row);
                rows.push(row);
            }
            rows
        }
    }
    let config = BufferConfig { capacity_pages: 6, pages_per_block: 1, elements: 3 };
    let run = |spec: &str| build(&spec.parse().expect("a name"), config, Run).expect(spec);
    let dropped = (Left::unit(EvictionKind::Drop, &[9]), false);
    assert_eq!(
        run("gcar+lru"),
        [
            vec![flush(5)],
            vec![flush(6)],
            vec![],
            vec![in_background(2), in_background(7)],
            vec![flush(3), flush(1), dropped, flush(10)],
        ]
    );
    assert_eq!(run("lru"), [vec![flush(7)], vec![flush(5)], vec![flush(2)], vec![]]);
}

/// Three pages, all on the one element, which collects.
fn all_collect(spec: &str) -> (Box<dyn OnDevice>, Elements) {
    let config = BufferConfig { capacity_pages: 3, pages_per_block: 1, elements: 1 };
    let mut policy = Grown(spec, config, 20).build();
    let mut device = Elements::new(1, 1);
    let mut out = Vec::new();
    for page in [1, 2, 3] {
        policy.access(PageAccess::write(page), &device, &mut out);
    }
    device.collecting[0] = true;
    assert_eq!(out, []);
    (policy, device)
}

#[test]
fn all_collect_and_the_base_victim_leaves() {
    let (mut policy, mut device) = all_collect("gcar+lru");
    let mut out = Vec::new();
    assert_eq!(policy.access(PageAccess::write(4), &device, &mut out), AccessOutcome::Inserted);
    assert_eq!(out, [flush(1)]);
    assert_eq!(policy.counters(), GcCounters { passed_over: 3, deferred_pages_destaged: 0, all_avoided: 1 });
    out.clear();
    device.collecting[0] = false;
    // 1 has left and is deferred no longer; 4 was not passed over.
    policy.notify(BufferNotice::GcEnd { element: Element(0) }, &device, &mut out);
    assert_eq!(out, [in_background(2), in_background(3)]);
    assert_eq!((policy.len(), policy.counters().deferred_pages_destaged), (1, 2));
}

#[test]
fn all_collect_and_the_access_goes_past_the_buffer() {
    let (mut policy, device) = all_collect("gcar+lru:gcar_all_gc=bypass");
    let mut out = Vec::new();
    assert_eq!(policy.access(PageAccess::write(4), &device, &mut out), AccessOutcome::Bypassed);
    assert_eq!(policy.access(PageAccess::read(5), &device, &mut out), AccessOutcome::Bypassed);
    assert!(!policy.evict(&device, &mut out));
    assert_eq!((out, policy.len(), policy.counters().all_avoided), (vec![], 3, 3));
}

#[test]
fn all_collect_and_the_base_victim_waits() {
    let (mut policy, mut device) = all_collect("gcar+lru:gcar_all_gc=wait");
    let mut out = Vec::new();
    assert_eq!(policy.access(PageAccess::write(4), &device, &mut out), AccessOutcome::Inserted);
    assert!(policy.evict(&device, &mut out));
    assert_eq!(out, [(Left::unit(EvictionKind::Flush, &[1]), true), (Left::unit(EvictionKind::Flush, &[2]), true)]);
    device.collecting[0] = false;
    out.clear();
    policy.notify(BufferNotice::GcEnd { element: Element(0) }, &device, &mut out);
    assert_eq!(out, [in_background(3), in_background(4)]);
    out.clear();
    for page in [5, 6, 7, 8] {
        policy.access(PageAccess::write(page), &device, &mut out);
    }
    assert_eq!(out, [flush(5)]);
}

/// With at most half of four pages on chip 1 both of its pages may stay, and three may not.
#[test]
fn the_share_of_avoided_elements_is_limited() {
    let config = BufferConfig { capacity_pages: 4, pages_per_block: 1, elements: 2 };
    let mut policy = Grown("gcar+lru:gcar_max_share=0.5", config, 40).build();
    let mut device = Elements::new(2, 1);
    let mut out = Vec::new();
    for page in [1, 3, 2, 4] {
        policy.access(PageAccess::write(page), &device, &mut out);
    }
    device.collecting[1] = true;
    policy.access(PageAccess::write(5), &device, &mut out);
    assert_eq!(out, [flush(2)], "1 and 3 are half the buffer");
    out.clear();
    policy.access(PageAccess::write(6), &device, &mut out);
    assert_eq!(out, [flush(1)], "with 5 they are three quarters");
    out.clear();
    policy.access(PageAccess::write(8), &device, &mut out);
    assert_eq!(out, [flush(4)], "3 and 5 are half of it");
}

/// Outside collections the layer is the policy inside, memory accesses included, whatever its
/// parameters. Layers that `GCaR` can go around, over some policies.
const LAYERED: [&str; 9] = [
    "gate+lru",
    "gate+cflru",
    "gate+ccf-lru",
    "cave+bplru",
    "cave+fab",
    "cave+lb-clock",
    "cawr+fab",
    "cawr+bplru",
    "cawr+lb-clock",
];

/// The layer around a policy with each of these parameters, where they can hold.
fn around(policy: &str, given: Vec<&str>) -> Vec<String> {
    let specs = given.into_iter().map(|given| format!("gcar+{policy}{given}"));
    specs.filter(|spec| in_force(spec).is_ok()).collect()
}

/// Around every policy and layer, over elements that place pages anywhere and ones that do not,
/// with collections at random: nothing is lost, nothing is written twice, and as long as an element
/// is free nothing goes to one that collects.
#[test]
fn around_everything_nothing_is_lost() {
    let mut seed = 700;
    let mut counted = 0;
    let alone = policies().iter().map(|policy| policy.name).filter(|name| *name != "none");
    for policy in alone.chain(LAYERED) {
        let chooses = LAYERED.contains(&policy) || ["cave", "cawr"].contains(&policy);
        let all_gc = ["", ":gcar_all_gc=bypass", ":gcar_all_gc=wait"];
        let rest = [":gcar_all_gc=wait:gcar_after=keep_clean", ":gcar_max_share=0.5"];
        for spec in around(policy, [all_gc.as_slice(), &rest].concat()) {
            for (pages_per_block, capacity_pages) in GEOMETRIES {
                for (pattern, elements) in PATTERNS.into_iter().zip([1, 2, 4, 7]) {
                    seed += 1;
                    let pages = 3 * capacity_pages + 2 * pages_per_block;
                    let mut dice = Workload::new(!seed, PATTERNS[0], Mix::WRITES, pages);
                    let dynamic = chooses || seed % 2 == 0;
                    let mut device = Elements { dynamic, ..Elements::new(elements, pages_per_block) };
                    let config = BufferConfig { capacity_pages, pages_per_block, elements };
                    let mut policy = Grown(&spec, config, pages).build();
                    let mut content = Content::default();
                    let mut told = Vec::new();
                    for op in Workload::new(seed, pattern, Mix::ALL, pages).take(600) {
                        for element in (0..elements).map(Element) {
                            if dice.below(40 * elements) < 2 {
                                device.collecting[element.index()] ^= true;
                                if !device.collecting[element.index()] {
                                    policy.notify(BufferNotice::GcEnd { element }, &device, &mut told);
                                    let left: Vec<Left> = told.drain(..).map(|(left, _)| left).collect();
                                    assert!(left.iter().all(|group| group.background), "{spec}: {left:?}");
                                    content.notify(BufferNotice::Resume { element }, &[]);
                                    content.evicted(&left);
                                }
                            }
                        }
                        let some_free = device.collecting.iter().any(|collecting| !collecting);
                        let exhausted = policy.counters().all_avoided;
                        match op {
                            Op::Access(access) => {
                                let outcome = policy.access(access, &device, &mut told);
                                let left: Vec<Left> = told.drain(..).map(|(left, _)| left).collect();
                                for channel in left.iter().filter_map(|group| group.channels.as_ref()).flatten() {
                                    counted += 1;
                                    assert!(
                                        !some_free
                                            || !device.collecting[usize::from(*channel)]
                                            || spec.contains("share")
                                            // What CAWR has put into a list is bound to that list's
                                            // channel.
                                            || policy.counters().all_avoided > exhausted,
                                        "{spec} {config:?} {device:?} {op:?}: {left:?}"
                                    );
                                }
                                content.access(access, outcome, &left);
                            }
                            Op::Notify(BufferNotice::GcEnd { .. }) => {}
                            Op::Notify(notice) => {
                                policy.notify(notice, &device, &mut told);
                                let left: Vec<Left> = told.drain(..).map(|(left, _)| left).collect();
                                content.notify(notice, &left);
                            }
                        }
                        assert_eq!(policy.len() as usize, content.pages.len(), "{spec} {config:?} {op:?}");
                        assert!(policy.len() <= capacity_pages, "{spec}");
                    }
                    content.check_laws();
                }
            }
        }
    }
    assert!(counted > 10_000, "{counted} pages went through a channel of the policy's choice");
}

#[test]
fn without_collections_it_is_the_policy_inside() {
    let mut seed = 90;
    let alone = policies().iter().map(|policy| policy.name).filter(|name| *name != "none");
    for policy in alone.chain(LAYERED) {
        let limits = [":gcar_all_gc=bypass:gcar_max_share=0", ":gcar_destage_scope=all_dirty_of_chip"];
        for spec in around(policy, [["", ":gcar_all_gc=bypass"], limits].concat()) {
            for (pages_per_block, capacity_pages) in GEOMETRIES {
                for (pattern, dynamic) in PATTERNS.into_iter().zip([false, true, false, true]) {
                    seed += 1;
                    let device = Elements { dynamic, ..Elements::new(7, pages_per_block) };
                    let config = BufferConfig { capacity_pages, pages_per_block, elements: 7 };
                    let pages = 3 * capacity_pages + 2 * pages_per_block;
                    let mut plain = Grown(policy, config, pages).build();
                    let mut layered = Grown(&spec, config, pages).build();
                    let (mut seen, mut expected) = (Vec::new(), Vec::new());
                    for op in Workload::new(seed, pattern, Mix::ALL, pages).take(2000) {
                        match op {
                            Op::Access(access) => {
                                let outcome = layered.access(access, &device, &mut seen);
                                assert_eq!(outcome, plain.access(access, &device, &mut expected), "{policy}");
                            }
                            Op::Notify(notice) => {
                                // All dirty pages of an element are destaged even if none was
                                // passed over.
                                if !matches!(notice, BufferNotice::GcEnd { .. }) || !spec.contains("all_dirty") {
                                    layered.notify(notice, &device, &mut seen);
                                    plain.notify(notice, &device, &mut expected);
                                }
                            }
                        }
                        assert_eq!(seen, expected, "{policy} {config:?} {op:?}");
                        assert_eq!(layered.len(), plain.len());
                        assert_eq!(layered.memory_accesses(), plain.memory_accesses(), "{policy} {op:?}");
                        seen.clear();
                        expected.clear();
                    }
                    assert_eq!(layered.counters(), GcCounters::default());
                }
            }
        }
    }
}

/// Long, overlapping collections over a large buffer: what was passed over is asked about once, so
/// that searches are as many steps as victims and passed-over entries together, and those are few
/// per victim.
#[test]
fn a_search_meets_what_was_passed_over_once() {
    for spec in ["lru", "bplru:padding=never", "fab", "lb-clock"] {
        for elements in [7, 64] {
            let (capacity_pages, pages_per_block) = (10_000, 4);
            let config = BufferConfig { capacity_pages, pages_per_block, elements };
            let pages = 40_000;
            let layered = format!("gcar+{}", spec.replacen(':', ":gcar_destage_scope=none:", 1));
            let layered = if spec.contains(':') { layered } else { layered + ":gcar_destage_scope=none" };
            let mut policy = Grown(&layered, config, pages).build();
            let mut device = Elements::new(elements, pages_per_block);
            let mut out = Vec::new();
            let (mut evictions, mut collections) = (0, 0);
            let mut used = 0;
            for (step, op) in Workload::new(5, PATTERNS[1], Mix::WRITES, pages).take(300_000).enumerate() {
                // Every element collects three quarters of the time, each for 6,000 accesses, one
                // after the other.
                let period = 8000 / elements as usize;
                if step % period == 0 {
                    let begins = (step / period) as u32 % elements;
                    let ends = (begins + elements / 4 + 1) % elements;
                    if std::mem::take(&mut device.collecting[ends as usize]) {
                        policy.notify(BufferNotice::GcEnd { element: Element(ends) }, &device, &mut out);
                        collections += 1;
                    }
                    device.collecting[begins as usize] = true;
                }
                let Op::Access(access) = op else { unreachable!("writes only") };
                used += u64::from(policy.access(access, &device, &mut out) != AccessOutcome::Bypassed);
                evictions += out.iter().map(|(left, _)| u64::from(left.units)).sum::<u64>();
                out.clear();
            }
            let GcCounters { passed_over, .. } = policy.counters();
            // An entry is passed over anew only after it was used or its element's collection
            // ended.
            assert!(collections > 100 && evictions > 10_000 && passed_over > 1000, "{spec}: {passed_over}");
            let entries = u64::from(capacity_pages) / u64::from(elements) * 2;
            assert!(passed_over < used + collections * entries, "{spec} {elements}: {passed_over} of {evictions}");
            assert!(passed_over < 2 * evictions, "{spec} {elements}: {passed_over} steps beside {evictions} evictions");
        }
    }
}
