//! `GCaR`, cache management that is aware of garbage collection (Wu et al., ICS 2016; specs §7): a
//! layer over any policy.
//!
//! Idea: what lies on an element that collects garbage costs a long wait, so it stays in the
//! buffer. The policy inside offers victims in its own order and those on an *avoided* element are
//! passed over; their share of the buffer grows while the collection lasts, and afterwards what was
//! passed over and is dirty is written in the background.
//!
//! Parameters: `gcar_all_gc`, `gcar_max_share`, `gcar_after`, `gcar_destage_scope`,
//! `gcar_soon_margin`, `gcar_pool`.
//!
//! Resolved (specs §7 and §10.2):
//! - An element is avoided while it collects, or (`gcar_soon_margin`) while it has at most so many
//!   free blocks more than those at which it collects. It is asked only when a victim is sought
//!   (§3.3 of the paper).
//! - A clean page is passed over as a dirty one is (Algorithm 1: a later read would meet the
//!   collection). A block is passed over if any page to be written or read for padding lies on an
//!   avoided element; its clean pages do not matter.
//! - Where every victim lies on avoided elements, in which case the paper's loops end without a
//!   victim: the victim of the policy inside (`base_victim`); or the access goes past the buffer
//!   (`bypass`); or that victim once the first collection has ended (`wait`,
//!   [`Group::after_collection`](super::Group::after_collection)).
//! - Passed over stays passed over: a page that is written or read again meanwhile is destaged all
//!   the same, in LRU order (Fig. 4). That is the order of the last access of pages and of the last
//!   write of blocks, whatever the policy inside goes by. A block of which other pages are to go to
//!   another avoided element waits for that one too.
//! - `gcar_max_share` is a share of the capacity. While the pages of avoided elements take more, no
//!   element is avoided; every such eviction has the policy inside look again at all that was
//!   passed over, so a limit that is reached costs time.
//! - One pool for reads and writes, as in both algorithms. Two pools would be two policies and not
//!   a layer around one: `gcar_pool=split` is refused.
//!
//! Where each page can be programmed on any element ([`DeviceView::destination`] is `None`) a dirty
//! page has no place to avoid. Clean pages, and pages read for padding, go by where they are, and
//! pages leave through the elements that are not avoided, in turn, unless the policy inside chose.
//! If all are avoided nothing can leave. What is dirty is then not deferred, and takes no part in
//! `gcar_max_share`.
//!
//! What a parameter says cannot always hold, and is refused where it never does: a write buffer
//! keeps no clean pages, and where channels are chosen dirty pages have no place.
//!
//! Outside collections the layer changes nothing. Memory accesses are those of the policy inside.

use destage_plan::{Element, PageNo, ParamSpec, Params, same_value};

use super::{
    Access, AccessOutcome, Border, Buffer, BufferConfig, BufferNotice, Candidate, DeviceView, EvictionKind,
    EvictionUnit, Evictions, Exhausted, LayerInfo, Over, PolicyError, Veto,
};

/// What [`Gcar`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcCounters {
    /// Victims passed over.
    pub passed_over: u64,
    /// Dirty pages written after a collection because they, or their blocks, had been passed over
    /// during it.
    pub deferred_pages_destaged: u64,
    /// Searches in which every victim lay on an avoided element.
    pub all_avoided: u64,
}

impl GcCounters {
    /// What was counted since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            passed_over: self.passed_over - before.passed_over,
            deferred_pages_destaged: self.deferred_pages_destaged - before.deferred_pages_destaged,
            all_avoided: self.all_avoided - before.all_avoided,
        }
    }
}

const POOL: ParamSpec = ParamSpec {
    name: "gcar_pool",
    default: "unified",
    values: "unified (two pools, for reads and writes, would be two policies and not a layer around one)",
    unit: "-",
    help: "one pool for reads and writes",
};
const ALL_GC: ParamSpec = ParamSpec {
    name: "gcar_all_gc",
    default: "base_victim",
    values: "base_victim, bypass, wait",
    unit: "-",
    help: "where all victims lie on avoided elements: the policy's own victim, none, or that one after a collection",
};
const MAX_SHARE: ParamSpec = ParamSpec {
    name: "gcar_max_share",
    default: "1.0",
    values: "a share from 0 to 1",
    unit: "share of the capacity",
    help: "no element is avoided while pages of avoided elements take more of the buffer",
};
const AFTER: ParamSpec = ParamSpec {
    name: "gcar_after",
    default: "free",
    values: "free, keep_clean",
    unit: "-",
    help: "whether pages written after a collection leave, or stay as clean where the policy keeps clean pages",
};
const DESTAGE_SCOPE: ParamSpec = ParamSpec {
    name: "gcar_destage_scope",
    default: "deferred",
    values: "deferred, all_dirty_of_chip, none",
    unit: "-",
    help: "what is written after a collection: what was passed over, all dirty pages of the element, or nothing",
};
const SOON_MARGIN: ParamSpec = ParamSpec {
    name: "gcar_soon_margin",
    default: "0",
    values: "a number of blocks; 0 is off",
    unit: "blocks",
    help: "an element is avoided ahead of its collection, from this many free blocks above those at which it begins",
};

/// What the layer is.
pub(super) const GCAR: LayerInfo = LayerInfo {
    name: "gcar",
    title: "passes over what lies on elements that collect garbage",
    about: "What lies on an element that collects garbage would have to wait for that, so it stays in the buffer: it \
            is passed over, and the next victim of the policy inside leaves. What was passed over and is dirty is \
            written in the background after the collection.",
    paper: "GCaR, ICS 2016",
    over: Over::Any,
    unit: None,
    chooses_channels: false,
    avoids_collection: true,
    depth: 0,
    settles: &[],
    params: &[POOL, ALL_GC, MAX_SHARE, AFTER, DESTAGE_SCOPE, SOON_MARGIN],
};

/// What the layer is around, as far as its parameters depend on that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
    /// The policy or a layer around it chooses channels.
    pub(super) chooses_channels: bool,
    /// The policy keeps clean pages.
    pub(super) keeps_clean: bool,
    /// Missing pages of victims are read and written with them.
    pub(super) pads: bool,
}

impl Inside {
    /// The only value that the parameter can hold here, and why, if `value` is not it.
    pub(super) fn instead_of(self, key: &str, value: &str) -> Option<(&'static str, &'static str)> {
        let placeless = "dirty pages that can go to any element are not deferred";
        let no_clean = "it keeps no clean pages";
        let only = match key {
            _ if key == AFTER.name && !self.keeps_clean => ("free", no_clean),
            _ if key == AFTER.name && self.chooses_channels => ("free", placeless),
            // A block may be passed over, and destaged later, for the sake of what is read for it.
            _ if key == DESTAGE_SCOPE.name && self.chooses_channels && !(self.pads && value == "none") => {
                ("deferred", placeless)
            }
            _ if key == MAX_SHARE.name && self.chooses_channels && !self.keeps_clean => ("1.0", no_clean),
            _ => return None,
        };
        (!same_value(only.0, value)).then_some(only)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AllGc {
    BaseVictim,
    Bypass,
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Deferred,
    AllDirty,
    Nothing,
}

/// No element. This and the next are numbers that no element has, where an `Option` would double a
/// table that has an entry for every page.
const NONE: Element = Element(u32::MAX);
/// The page is held, and on no element in particular.
const NOWHERE: Element = Element(u32::MAX - 1);

/// A page or block that the policy inside gives up at once.
#[derive(Clone, Copy, Debug)]
struct Victim {
    /// When it was last used.
    used: u64,
    /// Its dirty pages.
    dirty: u32,
    /// The element for whose sake it was passed over, if it has been dirty since.
    deferred: Element,
    /// When it was, its missing pages were to be read and written.
    padded: bool,
}

const UNUSED: Victim = Victim { used: 0, dirty: 0, deferred: NONE, padded: false };

/// What concerns one element.
#[derive(Clone, Debug, Default)]
struct OfElement {
    /// Victims passed over for its sake; those that are deferred no longer may still be there.
    deferred: Vec<u32>,
    /// Its dirty pages, if all of them are to be destaged; those that are clean again may still be
    /// there.
    dirty: Vec<u32>,
    /// Its pages in the buffer, if they are counted.
    held: u32,
    /// The policy inside has passed over something for its sake.
    parked: bool,
}

/// All but the policy inside.
#[derive(Clone, Debug)]
struct State {
    pages_per_block: u32,
    pages_per_victim: u32,
    reads_are_uses: bool,
    capacity: u32,
    all_gc: AllGc,
    keep: bool,
    scope: Scope,
    soon_margin: u32,
    /// The most pages of avoided elements, if that is limited.
    most_pages: Option<u32>,
    /// Page → it is dirty.
    dirty: Vec<bool>,
    /// Page → its element, if pages are counted.
    element_of: Vec<Element>,
    victims: Vec<Victim>,
    /// Of each element, and behind them of what stands for all.
    elements: Vec<OfElement>,
    clock: u64,
    /// The element after the one that was written to last, by its number.
    turn: u32,
    /// The limit is reached: for the present no element is avoided.
    lifted: bool,
    /// All victims of the present search lay on avoided elements.
    exhausted: bool,
    counters: GcCounters,
}

/// All elements, for whose sake what has no place is passed over: the number behind the last one
/// stands for them.
fn all<D: DeviceView>(device: &D) -> Element {
    Element(device.elements())
}

impl State {
    fn of(&mut self, element: Element) -> &mut OfElement {
        if element.index() >= self.elements.len() {
            self.elements.resize(element.index() + 1, OfElement::default());
        }
        &mut self.elements[element.index()]
    }

    /// What is known of a page and its victim; see [`Buffer::prefetch`].
    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        self.victims[(page.0 / self.pages_per_victim) as usize].dirty ^ u32::from(self.dirty[page.index()])
    }

    #[inline]
    fn avoids<D: DeviceView>(&self, device: &D, element: Element) -> bool {
        !self.lifted
            && (device.collecting(element)
                || (self.soon_margin > 0
                    && device.free_blocks(element) <= device.low_watermark().saturating_add(self.soon_margin)))
    }

    /// Whether any element is avoided, and whether all are.
    fn avoided<D: DeviceView>(&self, device: &D) -> (bool, bool) {
        let elements = device.elements();
        let avoided = (0..elements).map(Element).filter(|&element| self.avoids(device, element)).count() as u32;
        (avoided > 0, elements > 0 && avoided == elements)
    }

    /// The element for whose sake a candidate is passed over, or [`all`] of them.
    #[inline]
    fn objection<D: DeviceView>(&self, device: &D, candidate: &Candidate<'_>) -> Option<Element> {
        match *candidate {
            Candidate::Page { page, dirty } => match device.destination(page) {
                None if dirty => self.avoided(device).1.then(|| all(device)),
                place => {
                    let element = place.unwrap_or_else(|| device.element_of(page));
                    self.avoids(device, element).then_some(element)
                }
            },
            Candidate::Block { first, cached, dirty, padded } => {
                let (any_avoided, all_avoided) = self.avoided(device);
                if !any_avoided {
                    return None;
                }
                let mut placeless = false;
                for (base, (&cached, &dirty)) in (0..self.pages_per_block).step_by(64).zip(cached.iter().zip(dirty)) {
                    let in_block = u64::MAX >> (64 - (self.pages_per_block - base).min(64));
                    let pads = if padded { !cached & in_block } else { 0 };
                    let mut left = pads | dirty;
                    while left != 0 {
                        let bit = left.trailing_zeros();
                        left &= left - 1;
                        let page = PageNo(first.0 + base + bit);
                        let place = device.destination(page);
                        placeless |= place.is_none();
                        let pad = pads >> bit & 1 == 1;
                        let place = if pad { place.or_else(|| Some(device.element_of(page))) } else { place };
                        if let Some(element) = place.filter(|&element| self.avoids(device, element)) {
                            return Some(element);
                        }
                    }
                }
                (placeless && all_avoided).then(|| all(device))
            }
        }
    }

    /// Takes note that the policy inside passes over a candidate.
    fn pass_over<D: DeviceView>(&mut self, device: &D, candidate: &Candidate<'_>, element: Element) {
        self.counters.passed_over += 1;
        self.of(element).parked = true;
        let (first, is_dirty, padded) = match *candidate {
            Candidate::Page { page, dirty } => (page, dirty, false),
            Candidate::Block { first, dirty, padded, .. } => (first, dirty.iter().any(|&word| word != 0), padded),
        };
        if is_dirty && element < all(device) && self.scope != Scope::Nothing {
            let victim = first.0 / self.pages_per_victim;
            self.victims[victim as usize].padded = padded;
            self.defer(victim, element);
        }
    }

    fn defer(&mut self, victim: u32, element: Element) {
        if std::mem::replace(&mut self.victims[victim as usize].deferred, element) == element {
            return;
        }
        let most = 2 * self.capacity as usize + 64;
        self.of(element);
        let (victims, deferred) = (&self.victims, &mut self.elements[element.index()].deferred);
        deferred.push(victim);
        if deferred.len() > most {
            deferred.retain(|&victim| victims[victim as usize].deferred == element);
            deferred.sort_unstable();
            deferred.dedup();
        }
    }

    /// Takes note that an access made a page dirty.
    fn soil<D: DeviceView>(&mut self, device: &D, page: PageNo) {
        if std::mem::replace(&mut self.dirty[page.index()], true) {
            return;
        }
        self.victims[(page.0 / self.pages_per_victim) as usize].dirty += 1;
        let Some(element) = device.destination(page) else {
            // It has no place until it is written.
            if self.most_pages.is_some() {
                self.count_out(page);
                self.element_of[page.index()] = NOWHERE;
            }
            return;
        };
        if self.scope == Scope::AllDirty {
            let most = 2 * self.capacity as usize + 64;
            self.of(element);
            let (is_dirty, dirty) = (&self.dirty, &mut self.elements[element.index()].dirty);
            dirty.push(page.0);
            if dirty.len() > most {
                dirty.retain(|&page| is_dirty[page as usize]);
                dirty.sort_unstable();
                dirty.dedup();
            }
        }
    }

    /// Takes a page out of the count of its element.
    fn count_out(&mut self, page: PageNo) {
        let element = std::mem::replace(&mut self.element_of[page.index()], NONE);
        if element < NOWHERE {
            self.elements[element.index()].held -= 1;
        }
    }

    /// Takes note of what left, or is clean now, with the groups from the `from`-th on.
    fn observe(&mut self, out: &Evictions, from: usize) {
        for (group, pages) in out.groups_from(from).filter(|(group, _)| group.kind != EvictionKind::Pad) {
            for &page in pages {
                if std::mem::take(&mut self.dirty[page.index()]) {
                    let victim = &mut self.victims[(page.0 / self.pages_per_victim) as usize];
                    victim.dirty -= 1;
                    if victim.dirty == 0 {
                        victim.deferred = NONE;
                    }
                }
                if self.most_pages.is_some() && group.kind != EvictionKind::Clean {
                    self.count_out(page);
                }
            }
        }
    }

    /// Takes note of an access that did not bypass.
    #[inline]
    fn accessed<D: DeviceView>(&mut self, device: &D, access: Access, outcome: AccessOutcome) {
        let Access { page, write } = access;
        if outcome == AccessOutcome::Inserted && self.most_pages.is_some() {
            let instead = || if write { NOWHERE } else { device.element_of(page) };
            let element = device.destination(page).unwrap_or_else(instead);
            self.element_of[page.index()] = element;
            if element != NOWHERE {
                self.of(element).held += 1;
            }
        }
        if self.reads_are_uses || write {
            self.clock += 1;
            self.victims[(page.0 / self.pages_per_victim) as usize].used = self.clock;
        }
        if write {
            self.soil(device, page);
        }
    }

    /// Finishes what one call of the policy inside decided.
    #[inline]
    fn finish<D: DeviceView>(&mut self, device: &D, out: &mut Evictions, from: usize) {
        if out.len() == from {
            return;
        }
        self.observe(out, from);
        if std::mem::take(&mut self.exhausted) && self.all_gc == AllGc::Wait {
            out.after_collection(from);
        }
        let written = out.groups_from(from).find(|(group, _)| group.kind != EvictionKind::Drop);
        if written.is_none_or(|(_, pages)| device.destination(pages[0]).is_some()) {
            return;
        }
        if self.avoided(device) == (true, false) {
            let elements = device.elements();
            let mut turn = self.turn;
            out.assign_channels(from, || {
                while self.avoids(device, Element(turn % elements)) {
                    turn += 1;
                }
                let channel = turn % elements;
                turn = channel + 1;
                channel as u16
            });
            self.turn = turn;
        }
    }

    /// Whether the pages of avoided elements take more of the buffer than they may.
    fn is_over_limit<D: DeviceView>(&mut self, device: &D) -> bool {
        let Some(most) = self.most_pages else { return false };
        self.lifted = false;
        let elements = (0..).map(Element).zip(&self.elements);
        let avoided = elements.filter(|&(element, own)| own.held > 0 && self.avoids(device, element));
        avoided.map(|(_, own)| own.held).sum::<u32>() > most
    }

    /// Another avoided element to which pages of the victim would go.
    fn other_avoided<D: DeviceView>(&self, device: &D, victim: u32, element: Element) -> Option<Element> {
        let padded = self.victims[victim as usize].padded;
        let first = victim * self.pages_per_victim;
        let written = (first..first + self.pages_per_victim)
            .filter(|&page| padded || self.dirty.get(page as usize).is_some_and(|&dirty| dirty));
        let mut places = written.filter_map(|page| device.destination(PageNo(page)));
        places.find(|&other| other != element && self.avoids(device, other))
    }

    /// What is to be destaged now that the element has collected, in LRU order; each is deferred no
    /// longer.
    fn take_deferred<D: DeviceView>(&mut self, device: &D, element: Element) -> Vec<u32> {
        let pages_per_victim = self.pages_per_victim;
        let own = self.of(element);
        let mut list = std::mem::take(&mut own.deferred);
        let mut dirty = std::mem::take(&mut own.dirty);
        list.retain(|&victim| self.victims[victim as usize].deferred == element);
        dirty.retain(|&page| self.dirty[page as usize]);
        list.extend(dirty.iter().map(|page| page / pages_per_victim));
        list.sort_unstable_by_key(|&victim| (self.victims[victim as usize].used, victim));
        list.dedup();
        list.retain(|&victim| {
            let other = self.other_avoided(device, victim, element);
            match other {
                Some(other) => self.defer(victim, other),
                None => self.victims[victim as usize].deferred = NONE,
            }
            other.is_none()
        });
        dirty.retain(|page| self.victims[(page / pages_per_victim) as usize].deferred != NONE);
        self.elements[element.index()].dirty = dirty;
        list
    }
}

/// Says which victims lie on avoided elements.
struct Avoid<'a, D, V> {
    state: &'a mut State,
    device: &'a D,
    outer: &'a mut V,
}

impl<D: DeviceView, V: Veto> Veto for Avoid<'_, D, V> {
    const ACTIVE: bool = true;

    #[inline]
    fn passes_over(&mut self, candidate: Candidate<'_>) -> Option<Element> {
        if V::ACTIVE
            && let Some(element) = self.outer.passes_over(candidate)
        {
            return Some(element);
        }
        let element = self.state.objection(self.device, &candidate)?;
        self.state.pass_over(self.device, &candidate, element);
        Some(element)
    }

    fn avoids(&mut self, channel: u32) -> bool {
        self.state.avoids(self.device, Element(channel)) || self.outer.avoids(channel)
    }

    fn exhausted(&mut self) -> Exhausted {
        self.state.exhausted = true;
        self.state.counters.all_avoided += 1;
        if self.state.all_gc == AllGc::Bypass { Exhausted::Bypass } else { self.outer.exhausted() }
    }
}

/// Garbage collection aware cache management around a policy.
#[derive(Clone, Debug)]
pub struct Gcar<B> {
    inner: B,
    state: State,
}

impl<B: Buffer> Gcar<B> {
    /// Puts the layer around `inner`, which gives up a `unit` at once.
    pub(super) fn new(
        config: BufferConfig,
        params: &Params,
        unit: EvictionUnit,
        inner: B,
    ) -> Result<Self, PolicyError> {
        params.choice(POOL.name, &[("unified", ())])?;
        let all_gc = params.choice(
            ALL_GC.name,
            &[("base_victim", AllGc::BaseVictim), ("bypass", AllGc::Bypass), ("wait", AllGc::Wait)],
        )?;
        let scope = params.choice(
            DESTAGE_SCOPE.name,
            &[("deferred", Scope::Deferred), ("all_dirty_of_chip", Scope::AllDirty), ("none", Scope::Nothing)],
        )?;
        let share = params.text(MAX_SHARE.name).parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        let share = share.ok_or_else(|| params.refuse(MAX_SHARE.name))?;
        let capacity = config.capacity_pages;
        // The quotient is rounded as the share was: 29 / 100 is 0.29, whereas 0.29 * 100 is less
        // than 29.
        let at_most = |pages: u32| f64::from(pages) / f64::from(capacity) <= share;
        let floor = (share * f64::from(capacity)).floor() as u32;
        let most_pages = if at_most(floor + 1) { floor + 1 } else { floor };
        let soon_margin = params.number(SOON_MARGIN.name, ..)?;
        let state = State {
            pages_per_block: config.pages_per_block,
            pages_per_victim: match unit {
                EvictionUnit::Page => 1,
                EvictionUnit::Block => config.pages_per_block,
            },
            reads_are_uses: unit == EvictionUnit::Page,
            capacity,
            all_gc,
            keep: params.choice(AFTER.name, &[("free", false), ("keep_clean", true)])?,
            scope,
            soon_margin,
            most_pages: (share < 1.0).then_some(most_pages),
            dirty: Vec::new(),
            element_of: Vec::new(),
            victims: Vec::new(),
            elements: vec![OfElement::default(); config.elements as usize + 1],
            clock: 0,
            turn: 0,
            lifted: false,
            exhausted: false,
            counters: GcCounters::default(),
        };
        Ok(Self { inner, state })
    }

    /// Has the policy inside look again at what it passed over if the limit is reached.
    #[inline]
    fn apply_limit<D: DeviceView, V: Veto>(&mut self, device: &D, outer: &mut V, out: &mut Evictions) {
        if self.state.most_pages.is_some() && self.state.is_over_limit(device) {
            let elements = (0..self.state.elements.len() as u32).map(Element);
            elements.for_each(|element| self.resume(element, device, outer, out));
            self.state.lifted = true;
        }
    }

    fn resume<D: DeviceView, V: Veto>(&mut self, element: Element, device: &D, outer: &mut V, out: &mut Evictions) {
        if self.state.elements.get_mut(element.index()).is_some_and(|own| std::mem::take(&mut own.parked)) {
            self.tell(BufferNotice::Resume { element }, device, outer, out);
        }
    }

    fn tell<D: DeviceView, V: Veto>(&mut self, notice: BufferNotice, device: &D, outer: &mut V, out: &mut Evictions) {
        let from = out.len();
        self.inner.notify(notice, device, &mut Avoid { state: &mut self.state, device, outer }, out);
        self.state.finish(device, out, from);
    }

    fn collected<D: DeviceView, V: Veto>(&mut self, element: Element, device: &D, outer: &mut V, out: &mut Evictions) {
        let from = out.len();
        for victim in self.state.take_deferred(device, element) {
            let first = victim * self.state.pages_per_victim;
            let mut pages = first..first + self.state.pages_per_victim;
            if let Some(page) = pages.find(|&page| self.state.dirty[page as usize]) {
                let dirty = u64::from(self.state.victims[victim as usize].dirty);
                self.state.counters.deferred_pages_destaged += dirty;
                let keep = self.state.keep;
                self.tell(BufferNotice::Destage { page: PageNo(page), keep }, device, outer, out);
            }
        }
        out.in_background(from);
        self.resume(element, device, outer, out);
        // What has no place was passed over for the sake of all elements, of which this one is free
        // now.
        self.resume(all(device), device, outer, out);
    }
}

impl<B: Buffer> Buffer for Gcar<B> {
    fn grow(&mut self, pages: u32) {
        self.inner.grow(pages);
        let state = &mut self.state;
        // Whole blocks, so that those of the last one can be asked about.
        let pages = pages.next_multiple_of(state.pages_per_block).max(state.dirty.len() as u32);
        state.dirty.resize(pages as usize, false);
        state.victims.resize((pages / state.pages_per_victim) as usize, UNUSED);
        if state.most_pages.is_some() {
            state.element_of.resize(pages as usize, NONE);
        }
    }

    fn compares_addresses(&self) -> bool {
        self.inner.compares_addresses()
    }

    fn learn_borders(&mut self, borders: &[Border]) {
        self.inner.learn_borders(borders);
    }

    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        self.inner.prefetch(page) ^ self.state.prefetch(page)
    }

    #[inline]
    fn leaves_next(&self, most: usize, name: &mut impl FnMut(PageNo)) {
        let mut read = 0;
        self.inner.leaves_next(most, &mut |page| {
            read ^= self.state.prefetch(page);
            name(page);
        });
        std::hint::black_box(read);
    }

    #[inline]
    fn access<D: DeviceView, V: Veto>(
        &mut self,
        access: Access,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        if self.inner.len() == self.state.capacity && self.state.element_of.get(access.page.index()) == Some(&NONE) {
            self.apply_limit(device, veto, out);
        }
        let from = out.len();
        let outcome =
            self.inner.access(access, device, &mut Avoid { state: &mut self.state, device, outer: veto }, out);
        self.state.finish(device, out, from);
        self.state.exhausted = false;
        self.state.lifted = false;
        if outcome != AccessOutcome::Bypassed {
            self.state.accessed(device, access, outcome);
        }
        outcome
    }

    fn evict<D: DeviceView, V: Veto>(&mut self, device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        self.apply_limit(device, veto, out);
        let from = out.len();
        let left = self.inner.evict(device, &mut Avoid { state: &mut self.state, device, outer: veto }, out);
        self.state.finish(device, out, from);
        self.state.exhausted = false;
        self.state.lifted = false;
        left
    }

    fn notify<D: DeviceView, V: Veto>(&mut self, notice: BufferNotice, device: &D, veto: &mut V, out: &mut Evictions) {
        match notice {
            BufferNotice::GcEnd { element } => self.collected(element, device, veto, out),
            _ => self.tell(notice, device, veto, out),
        }
    }

    fn admits(&self, access: Access) -> bool {
        self.inner.admits(access)
    }

    fn len(&self) -> u32 {
        self.inner.len()
    }

    fn memory_accesses(&self) -> u64 {
        self.inner.memory_accesses()
    }

    fn watches_collection(&self) -> bool {
        true
    }

    fn gc_counters(&self) -> Option<GcCounters> {
        Some(self.state.counters)
    }
}
