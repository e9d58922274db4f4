//! Holds the state of the layer: all but the policy inside.

use destage_plan::{Element, PageNo};

use super::super::{AccessOutcome, DeviceView, EvictionCandidate, EvictionKind, Evictions, PageAccess};
use super::GcCounters;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllGc {
    BaseVictim,
    Bypass,
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AvoidScope {
    Deferred,
    AllDirty,
    Nothing,
}

/// No element. This and the next are numbers that no element has, where an `Option` would double a
/// table that has an entry for every page.
pub(super) const NONE: Element = Element(u32::MAX);
/// The page is held, and on no element in particular.
pub(super) const NOWHERE: Element = Element(u32::MAX - 1);

/// A page or block that the policy inside gives up at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenUpVictim {
    /// Holds the clock of the last use.
    used: u64,
    /// Counts the dirty pages.
    pub(super) dirty: u32,
    /// The element for whose sake it was passed over, if it has been dirty since.
    deferred: Element,
    /// Is true if the victim was to be padded when it was passed over: its missing pages read and written.
    padded: bool,
}

pub(super) const UNUSED: GivenUpVictim = GivenUpVictim { used: 0, dirty: 0, deferred: NONE, padded: false };

/// Holds the state of one element.
#[derive(Clone, Debug, Default)]
pub(super) struct OfElement {
    /// Victims passed over for its sake; those that are deferred no longer may still be there.
    pub(super) deferred: Vec<u32>,
    /// Lists the element's dirty pages, if all of them are to be destaged. Pages that are clean again may
    /// still be listed.
    pub(super) dirty: Vec<u32>,
    /// Counts the element's pages in the buffer, if they are counted.
    pub(super) held: u32,
    /// The policy inside has passed over something for its sake.
    pub(super) parked: bool,
}

/// All but the policy inside.
#[derive(Clone, Debug)]
pub(super) struct GcarState {
    pub(super) pages_per_block: u32,
    pub(super) pages_per_victim: u32,
    pub(super) reads_are_uses: bool,
    pub(super) capacity: u32,
    pub(super) all_gc: AllGc,
    pub(super) keep: bool,
    pub(super) scope: AvoidScope,
    pub(super) soon_margin: u32,
    /// The most pages of avoided elements, if that is limited.
    pub(super) most_pages: Option<u32>,
    /// Page → it is dirty.
    pub(super) dirty: Vec<bool>,
    /// Page → its element, if pages are counted.
    pub(super) element_of: Vec<Element>,
    pub(super) victims: Vec<GivenUpVictim>,
    /// Of each element, and behind them of what stands for all.
    pub(super) elements: Vec<OfElement>,
    pub(super) clock: u64,
    /// The element after the one that was written to last, by its number.
    pub(super) turn: u32,
    /// The limit is reached: for the present no element is avoided.
    pub(super) lifted: bool,
    /// All victims of the present search lay on avoided elements.
    pub(super) exhausted: bool,
    pub(super) counters: GcCounters,
}

/// Says of all elements of a device whether they are avoided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AvoidedElements {
    None,
    Some,
    All,
}

/// All elements, for whose sake what has no place is passed over: the number behind the last one
/// stands for them.
pub(super) fn all<D: DeviceView>(device: &D) -> Element {
    Element(device.elements())
}

impl GcarState {
    pub(super) fn of(&mut self, element: Element) -> &mut OfElement {
        if element.index() >= self.elements.len() {
            self.elements.resize(element.index() + 1, OfElement::default());
        }
        &mut self.elements[element.index()]
    }

    /// Reads the state of a page and its victim ahead of use; see [`BufferPolicy::prefetch`].
    #[inline]
    pub(super) fn prefetch(&self, page: PageNo) -> u32 {
        self.victims[(page.0 / self.pages_per_victim) as usize].dirty ^ u32::from(self.dirty[page.index()])
    }

    #[inline]
    pub(super) fn avoids<D: DeviceView>(&self, device: &D, element: Element) -> bool {
        !self.lifted
            && (device.collecting(element)
                || (self.soon_margin > 0
                    && device.free_blocks(element) <= device.low_watermark().saturating_add(self.soon_margin)))
    }

    /// Returns whether any element is avoided, or all of those that there are.
    pub(super) fn avoided<D: DeviceView>(&self, device: &D) -> AvoidedElements {
        let elements = device.elements();
        match (0..elements).map(Element).filter(|&element| self.avoids(device, element)).count() as u32 {
            0 => AvoidedElements::None,
            avoided if avoided < elements => AvoidedElements::Some,
            _ => AvoidedElements::All,
        }
    }

    /// Returns the element for whose sake a candidate is passed over, or [`all`] of them. `avoided` is kept for the next
    /// candidate of a search: each is asked about, and there may be as many as pages.
    #[inline]
    pub(super) fn objection<D: DeviceView>(
        &self,
        device: &D,
        candidate: &EvictionCandidate<'_>,
        avoided: &mut Option<AvoidedElements>,
    ) -> Option<Element> {
        // One search asks about many candidates; the device's state does not change meanwhile.
        let mut avoided = || *avoided.get_or_insert_with(|| self.avoided(device));
        match *candidate {
            EvictionCandidate::Page { page, dirty } => match device.destination(page) {
                // A page without a place can go to any free element, so it is avoided only if none is free.
                None if dirty => (avoided() == AvoidedElements::All).then(|| all(device)),
                place => {
                    let element = place.unwrap_or_else(|| device.element_of(page));
                    self.avoids(device, element).then_some(element)
                }
            },
            EvictionCandidate::Block { first, cached, dirty, padded } => {
                // Most of the time nothing collects, and a block has up to hundreds of pages to look at.
                if avoided() == AvoidedElements::None {
                    return None;
                }
                let mut placeless = false;
                for (base, (&cached, &dirty)) in (0..self.pages_per_block).step_by(64).zip(cached.iter().zip(dirty)) {
                    let in_block = u64::MAX >> (64 - (self.pages_per_block - base).min(64));
                    // Padding is read and written, so its elements count as well.
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
                (placeless && avoided() == AvoidedElements::All).then(|| all(device))
            }
        }
    }

    /// Takes note that the policy inside passes over a candidate.
    pub(super) fn pass_over<D: DeviceView>(&mut self, device: &D, candidate: &EvictionCandidate<'_>, element: Element) {
        self.counters.passed_over += 1;
        self.of(element).parked = true;
        let (first, is_dirty, padded) = match *candidate {
            EvictionCandidate::Page { page, dirty } => (page, dirty, false),
            EvictionCandidate::Block { first, dirty, padded, .. } => {
                (first, dirty.iter().any(|&word| word != 0), padded)
            }
        };
        if is_dirty && element < all(device) && self.scope != AvoidScope::Nothing {
            let victim = first.0 / self.pages_per_victim;
            self.victims[victim as usize].padded = padded;
            self.defer(victim, element);
        }
    }

    pub(super) fn defer(&mut self, victim: u32, element: Element) {
        // The victim is on this element's list already.
        if std::mem::replace(&mut self.victims[victim as usize].deferred, element) == element {
            return;
        }
        let most = 2 * self.capacity as usize + 64;
        self.of(element);
        let (victims, deferred) = (&self.victims, &mut self.elements[element.index()].deferred);
        deferred.push(victim);
        // Outdated entries are dropped in bulk, so that deferring stays O(1) amortised.
        if deferred.len() > most {
            deferred.retain(|&victim| victims[victim as usize].deferred == element);
            deferred.sort_unstable();
            deferred.dedup();
        }
    }

    /// Takes note that an access made a page dirty.
    pub(super) fn soil<D: DeviceView>(&mut self, device: &D, page: PageNo) {
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
        if self.scope == AvoidScope::AllDirty {
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
    pub(super) fn count_out(&mut self, page: PageNo) {
        let element = std::mem::replace(&mut self.element_of[page.index()], NONE);
        if element < NOWHERE {
            self.elements[element.index()].held -= 1;
        }
    }

    /// Takes note of what left, or is clean now, with the groups from the `from`-th on.
    pub(super) fn observe(&mut self, out: &Evictions, from: usize) {
        for (group, pages) in out.groups_from(from).filter(|(group, _)| group.kind != EvictionKind::Pad) {
            for &page in pages {
                if std::mem::take(&mut self.dirty[page.index()]) {
                    let victim = &mut self.victims[(page.0 / self.pages_per_victim) as usize];
                    victim.dirty -= 1;
                    // A clean victim needs no write after the collection.
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
    pub(super) fn accessed<D: DeviceView>(&mut self, device: &D, access: PageAccess, outcome: AccessOutcome) {
        let PageAccess { page, write } = access;
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
    pub(super) fn finish<D: DeviceView>(&mut self, device: &D, out: &mut Evictions, from: usize) {
        if out.len() == from {
            return;
        }
        self.observe(out, from);
        if std::mem::take(&mut self.exhausted) && self.all_gc == AllGc::Wait {
            out.after_collection(from);
        }
        if !device.takes_channels() {
            return;
        }
        let written = out.groups_from(from).find(|(group, _)| group.kind != EvictionKind::Drop);
        if written.is_none_or(|(_, pages)| device.destination(pages[0]).is_some()) {
            return;
        }
        if self.avoided(device) == AvoidedElements::Some {
            let elements = device.elements();
            let mut turn = self.turn;
            out.assign_channels(from, || {
                // Some element is free, as the condition above says, so the loop ends.
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

    /// Is true if the pages of avoided elements take more of the buffer than they may.
    pub(super) fn is_over_limit<D: DeviceView>(&mut self, device: &D) -> bool {
        let Some(most) = self.most_pages else { return false };
        self.lifted = false;
        let elements = (0..).map(Element).zip(&self.elements);
        let avoided = elements.filter(|&(element, own)| own.held > 0 && self.avoids(device, element));
        avoided.map(|(_, own)| own.held).sum::<u32>() > most
    }

    /// Another avoided element to which pages of the victim would go.
    pub(super) fn other_avoided<D: DeviceView>(&self, device: &D, victim: u32, element: Element) -> Option<Element> {
        let padded = self.victims[victim as usize].padded;
        let first = victim * self.pages_per_victim;
        let written = (first..first + self.pages_per_victim)
            .filter(|&page| padded || self.dirty.get(page as usize).is_some_and(|&dirty| dirty));
        let mut places = written.filter_map(|page| device.destination(PageNo(page)));
        places.find(|&other| other != element && self.avoids(device, other))
    }

    /// Returns the victims to destage after the element's collection, in LRU order. None of them is deferred
    /// any longer.
    pub(super) fn take_deferred<D: DeviceView>(&mut self, device: &D, element: Element) -> Vec<u32> {
        let pages_per_victim = self.pages_per_victim;
        let own = self.of(element);
        let mut list = std::mem::take(&mut own.deferred);
        let mut dirty = std::mem::take(&mut own.dirty);
        list.retain(|&victim| self.victims[victim as usize].deferred == element);
        dirty.retain(|&page| self.dirty[page as usize]);
        list.extend(dirty.iter().map(|page| page / pages_per_victim));
        // The order is that of the policy inside, least recently used first; the number breaks ties
        // reproducibly.
        list.sort_unstable_by_key(|&victim| (self.victims[victim as usize].used, victim));
        list.dedup();
        list.retain(|&victim| {
            let other = self.other_avoided(device, victim, element);
            match other {
                // A block spans elements: another one may collect by now, so the victim waits for that.
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
