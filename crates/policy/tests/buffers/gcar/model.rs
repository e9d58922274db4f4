//! Models `GCaR` as a naive model of the policy inside, with sets, over elements that collect as they are
//! told to.

use std::collections::BTreeMap;

use destage_plan::{Element, PageNo, PolicySpec};
use destage_policy::buffer::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, BuiltPolicy, DeviceView, EvictionKind, Evictions,
    GcCounters, NoVeto, PageAccess, PolicyVisitor, WhenExhausted, build,
};

use crate::content::Content;
use crate::models::{Left, Model, Objections, model, param};

/// Elements that hold `stride` consecutive pages each in turn.
#[derive(Clone, Debug)]
pub(crate) struct Elements {
    pub(crate) stride: u32,
    pub(crate) collecting: Vec<bool>,
    pub(crate) free_blocks: Vec<u32>,
    /// A page can be programmed on any of them.
    pub(crate) dynamic: bool,
}

pub(crate) const LOW_WATERMARK: u32 = 5;

impl Elements {
    pub(crate) fn new(elements: u32, stride: u32) -> Self {
        let elements = elements as usize;
        Self { stride, collecting: vec![false; elements], free_blocks: vec![100; elements], dynamic: false }
    }
}

impl DeviceView for Elements {
    fn elements(&self) -> u32 {
        self.collecting.len() as u32
    }
    fn element_of(&self, page: PageNo) -> Element {
        Element(page.0 / self.stride % self.elements())
    }
    fn destination(&self, page: PageNo) -> Option<Element> {
        (!self.dynamic).then(|| self.element_of(page))
    }
    fn collecting(&self, element: Element) -> bool {
        self.collecting[element.index()]
    }
    fn free_blocks(&self, element: Element) -> u32 {
        self.free_blocks[element.index()]
    }
    fn low_watermark(&self) -> u32 {
        LOW_WATERMARK
    }
}

/// Pairs a group that left with true if it waits for a collection.
pub(super) type Told = (Left, bool);

pub(super) trait OnDevice {
    fn access(&mut self, access: PageAccess, device: &Elements, out: &mut Vec<Told>) -> AccessOutcome;
    fn evict(&mut self, device: &Elements, out: &mut Vec<Told>) -> bool;
    fn notify(&mut self, notice: BufferNotice, device: &Elements, out: &mut Vec<Told>);
    fn len(&self) -> u32;
    fn memory_accesses(&self) -> u64;
    fn counters(&self) -> GcCounters;
}

pub(super) struct Wrapped<B>(pub(super) B, pub(super) Evictions);

impl<B: BufferPolicy> Wrapped<B> {
    pub(super) fn tell(&mut self, out: &mut Vec<Told>) {
        for (group, pages) in self.1.groups() {
            let channels = self.1.channels(group).map(<[u16]>::to_vec);
            let pages = pages.iter().map(|p| p.0).collect();
            let left = Left { kind: group.kind, pages, units: group.units, channels, background: group.background };
            out.push((left, group.after_collection));
        }
        self.1.clear();
    }
}

impl<B: BufferPolicy> OnDevice for Wrapped<B> {
    fn access(&mut self, access: PageAccess, device: &Elements, out: &mut Vec<Told>) -> AccessOutcome {
        let outcome = self.0.access(access, device, &mut NoVeto, &mut self.1);
        self.tell(out);
        outcome
    }
    fn evict(&mut self, device: &Elements, out: &mut Vec<Told>) -> bool {
        let left = self.0.evict(device, &mut NoVeto, &mut self.1);
        self.tell(out);
        left
    }
    fn notify(&mut self, notice: BufferNotice, device: &Elements, out: &mut Vec<Told>) {
        self.0.notify(notice, device, &mut NoVeto, &mut self.1);
        self.tell(out);
    }
    fn len(&self) -> u32 {
        self.0.len()
    }
    fn memory_accesses(&self) -> u64 {
        self.0.memory_accesses()
    }
    fn counters(&self) -> GcCounters {
        self.0.gc_counters().unwrap_or_default()
    }
}

pub(super) struct Boxed;

impl PolicyVisitor for Boxed {
    type Out = Box<dyn OnDevice>;
    fn visit<B: BufferPolicy + Send + 'static>(self, buffer: B, built: BuiltPolicy) -> Self::Out {
        assert_eq!(buffer.watches_collection(), built.avoids_collection);
        assert_eq!(buffer.gc_counters().is_some(), built.avoids_collection);
        Box::new(Wrapped(buffer, Evictions::default()))
    }
}

pub(super) struct Grown<'a>(pub(super) &'a str, pub(super) BufferConfig, pub(super) u32);

impl Grown<'_> {
    pub(super) fn build(&self) -> Box<dyn OnDevice> {
        struct Grow(u32);
        impl PolicyVisitor for Grow {
            type Out = Box<dyn OnDevice>;
            fn visit<B: BufferPolicy + Send + 'static>(self, mut buffer: B, built: BuiltPolicy) -> Self::Out {
                buffer.grow(self.0);
                Boxed.visit(buffer, built)
            }
        }
        let spec: PolicySpec = self.0.parse().expect("a specification");
        build(&spec, self.1, Grow(self.2)).unwrap_or_else(|e| panic!("{}: {e}", self.0))
    }
}

/// The naive policy and sets. Nothing is kept aside: every search begins anew.
pub(super) struct GcarModel {
    spec: String,
    pub(super) inner: Box<dyn Model>,
    config: BufferConfig,
    pub(super) content: Content,
    /// First page of a victim unit → the element for whose sake it was passed over.
    deferred: BTreeMap<u32, Element>,
    /// First pages of the victim units, the last used at the end.
    recency: Vec<u32>,
    turn: u32,
    pub(super) counters: GcCounters,
}

impl GcarModel {
    pub(super) fn new(spec: &str, config: BufferConfig) -> Self {
        let inner = spec.strip_prefix("gcar+").expect("a layer");
        Self {
            spec: spec.into(),
            inner: model(inner, config),
            config,
            content: Content::default(),
            deferred: BTreeMap::new(),
            recency: Vec::new(),
            turn: 0,
            counters: GcCounters::default(),
        }
    }

    pub(super) fn evicts_pages(&self) -> bool {
        self.spec.starts_with("gcar+lru") || self.spec.starts_with("gcar+clock")
    }

    pub(super) fn victim_pages(&self) -> u32 {
        if self.evicts_pages() { 1 } else { self.config.pages_per_block }
    }

    pub(super) fn first(&self, page: u32) -> u32 {
        page / self.victim_pages() * self.victim_pages()
    }

    pub(super) fn is_avoided(&self, device: &Elements, element: Element) -> bool {
        let margin: u32 = param(&self.spec, "gcar_soon_margin", "0").parse().expect("a number");
        device.collecting[element.index()]
            || margin > 0 && device.free_blocks[element.index()] <= LOW_WATERMARK + margin
    }

    pub(super) fn all_avoided(&self, device: &Elements) -> bool {
        (0..device.elements()).map(Element).all(|element| self.is_avoided(device, element))
    }

    pub(super) fn is_over_limit(&self, device: &Elements) -> bool {
        let share: f64 = param(&self.spec, "gcar_max_share", "1.0").parse().expect("a share");
        let avoided = |page: &&u32| self.is_avoided(device, device.element_of(PageNo(**page)));
        let pages = self.content.pages.keys().filter(avoided).count();
        share < 1.0 && pages as f64 / f64::from(self.config.capacity_pages) > share
    }

    /// The pages of a victim unit to be programmed, ascending.
    pub(super) fn written(&self, first: u32) -> Vec<u32> {
        let range = first..first + self.victim_pages();
        let padded = self.spec.starts_with("gcar+bplru");
        range.filter(|page| self.content.pages.get(page).copied().unwrap_or(padded)).collect()
    }

    /// The element for whose sake a victim unit may not go.
    pub(super) fn objection(&self, device: &Elements, first: u32) -> Option<Element> {
        let pages = if self.evicts_pages() { vec![first] } else { self.written(first) };
        for page in pages {
            let held_dirty = self.content.pages.get(&page).copied();
            let element = device.element_of(PageNo(page));
            if device.dynamic && held_dirty == Some(true) {
                if self.all_avoided(device) {
                    return Some(Element(device.elements()));
                }
            } else if self.is_avoided(device, element) {
                return Some(element);
            }
        }
        None
    }

    pub(super) fn objections(&self, device: &Elements, lifted: bool) -> Objections {
        let held = self.content.pages.keys().map(|page| self.first(*page));
        let exhausted = match param(&self.spec, "gcar_all_gc", "base_victim") {
            "bypass" => WhenExhausted::Bypass,
            _ => WhenExhausted::TakeBase,
        };
        let units = held.filter(|first| !lifted && self.objection(device, *first).is_some()).collect();
        Objections { units, exhausted, ..Objections::none() }
    }

    /// Defers the dirty victims that the search passed over; `left` holds the groups that left.
    pub(super) fn note_passed_over(&mut self, device: &Elements, objections: &Objections, left: &[Left]) {
        let taken: Vec<u32> =
            left.iter().filter(|g| g.kind != EvictionKind::Pad).flat_map(|g| g.pages.clone()).collect();
        let exhausted = taken.first().is_some_and(|page| objections.units.contains(&self.first(*page)));
        let bypassed = taken.is_empty() && !objections.refused.borrow().is_empty();
        self.counters.all_avoided += u64::from(exhausted || bypassed);
        for first in objections.refused.borrow().iter() {
            let range = *first..*first + self.victim_pages();
            let is_dirty = self.content.pages.range(range).any(|(_, dirty)| *dirty);
            let element = self.objection(device, *first).expect("it was refused");
            if is_dirty
                && element.0 < device.elements()
                && param(&self.spec, "gcar_destage_scope", "deferred") != "none"
            {
                self.deferred.insert(*first, element);
            }
        }
        // What has left and comes in again at once was not passed over.
        for page in &taken {
            let first = self.first(*page);
            let mut held = self.content.pages.range(first..first + self.victim_pages());
            if held.all(|(page, dirty)| !dirty || taken.contains(page)) {
                self.deferred.remove(&first);
            }
        }
    }

    pub(super) fn forget_clean(&mut self) {
        let (content, pages) = (&self.content, self.victim_pages());
        self.deferred.retain(|first, _| content.pages.range(*first..*first + pages).any(|(_, dirty)| *dirty));
    }

    pub(super) fn tell(&mut self, device: &Elements, lifted: bool, after: bool, left: Vec<Left>, out: &mut Vec<Told>) {
        let some = (0..device.elements()).map(Element).any(|element| self.is_avoided(device, element));
        for mut group in left {
            if device.dynamic && group.kind != EvictionKind::Drop && !lifted && some && !self.all_avoided(device) {
                let channels = group.pages.iter().map(|_| {
                    while self.is_avoided(device, Element(self.turn % device.elements())) {
                        self.turn += 1;
                    }
                    self.turn += 1;
                    ((self.turn - 1) % device.elements()) as u16
                });
                group.channels = Some(channels.collect());
            }
            out.push((group, after));
        }
    }
}

impl GcarModel {
    pub(super) fn access(&mut self, access: PageAccess, device: &Elements, out: &mut Vec<Told>) -> AccessOutcome {
        let lifted = self.is_over_limit(device);
        let objections = self.objections(device, lifted);
        let mut left = Vec::new();
        let outcome = self.inner.access(access, &objections, &mut left);
        let before = self.counters.all_avoided;
        self.note_passed_over(device, &objections, &left);
        let after = param(&self.spec, "gcar_all_gc", "") == "wait" && self.counters.all_avoided > before;
        self.content.access(access, outcome, &left);
        self.forget_clean();
        if outcome != AccessOutcome::Bypassed && (self.evicts_pages() || access.write) {
            let first = self.first(access.page.0);
            self.recency.retain(|other| *other != first);
            self.recency.push(first);
        }
        self.tell(device, lifted, after, left, out);
        outcome
    }

    pub(super) fn evict(&mut self, device: &Elements, out: &mut Vec<Told>) -> bool {
        let lifted = self.is_over_limit(device);
        let objections = self.objections(device, lifted);
        let mut left = Vec::new();
        let evicted = self.inner.evict(&objections, &mut left);
        let before = self.counters.all_avoided;
        self.note_passed_over(device, &objections, &left);
        let after = param(&self.spec, "gcar_all_gc", "") == "wait" && self.counters.all_avoided > before;
        self.content.notify(BufferNotice::Destage { page: PageNo(u32::MAX), keep: false }, &left);
        self.forget_clean();
        self.tell(device, lifted, after, left, out);
        evicted
    }

    pub(super) fn notify(&mut self, notice: BufferNotice, device: &Elements, out: &mut Vec<Told>) {
        let mut left = Vec::new();
        let BufferNotice::GcEnd { element } = notice else {
            self.inner.notify(notice, &mut left);
            self.content.notify(notice, &left);
            self.forget_clean();
            self.tell(device, false, false, left, out);
            return;
        };
        let keep = param(&self.spec, "gcar_after", "free") == "keep_clean";
        let all = param(&self.spec, "gcar_destage_scope", "deferred") == "all_dirty_of_chip";
        for first in self.recency.clone() {
            let dirty: Vec<u32> = self
                .content
                .pages
                .range(first..first + self.victim_pages())
                .filter(|(_, dirty)| **dirty)
                .map(|(page, _)| *page)
                .collect();
            let of_element = |page: &u32| !device.dynamic && device.element_of(PageNo(*page)) == element;
            let wanted = self.deferred.get(&first) == Some(&element) || all && dirty.iter().any(of_element);
            if dirty.is_empty() || !wanted {
                continue;
            }
            let others = self.written(first).into_iter().map(|page| device.element_of(PageNo(page)));
            if let Some(other) = others.into_iter().find(|other| *other != element && self.is_avoided(device, *other)) {
                self.deferred.insert(first, other);
                continue;
            }
            self.counters.deferred_pages_destaged += dirty.len() as u64;
            let mut left = Vec::new();
            let notice = BufferNotice::Destage { page: PageNo(dirty[0]), keep };
            self.inner.notify(notice, &mut left);
            self.content.notify(notice, &left);
            self.deferred.remove(&first);
            for group in &mut left {
                group.background = true;
            }
            self.tell(device, false, false, left, out);
        }
    }
}
