//! The skeleton of page-level policies over lists from most to least recently used.
//!
//! A policy is a [`ListPolicy`]: what its paper decides. [`ListBuffer`] does what all of them do
//! alike: lookup, admission, counting, write-backs, trims, and the search under a veto.
//!
//! A search under a veto goes over the lists in *turns*, each for pages that earlier turns leave
//! alone. A page that is passed over keeps its place, since it still counts for a window or is
//! moved by a second chance. So each turn remembers how far it has come (see [`SearchedPart`]), and a
//! long veto costs a question a page.

use destage_plan::{Element, PageNo, Params};

use super::options::caches_reads;
use super::page_lists::{ListFrame, PageLists};
use super::searched::{PARKED, ParkedFrames, SearchedPart};
use super::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, DeviceView, EvictionKind, EvictionVeto, Evictions,
    PageAccess, PolicyError, PolicyInfo, RegisteredPolicy, WhenExhausted,
};

/// The list to whose front a page moves when it is used.
pub(super) const RECENT: u32 = 0;

/// The first of the bits of a frame's tag that belong to the policy. The search has those below.
pub(super) const OWN_MARK: u16 = 1 << 8;

/// The most turns of a search. Turn `t` has the mark `2 << t` (1 is [`PARKED`]).
const MOST_TURNS: usize = 4;

/// The part of [`RECENT`] that stands behind the turns.
const SETTLED: usize = MOST_TURNS;

const SEARCH_MARKS: u16 = OWN_MARK - 1;

/// Decides as a published algorithm does which page leaves, and in which list pages stand.
pub(super) trait ListPolicy: Sized + Send + 'static {
    /// Describes the policy. Its parameters begin with [`READS`](super::options::READS).
    const INFO: PolicyInfo;

    /// Counts the lists, of which [`RECENT`] is the first.
    const LISTS: u32 = 1;

    /// Names the list that each turn of a search under a veto goes over, at most four.
    const TURNS: &'static [u32] = &[RECENT];

    /// Builds the policy; `params` holds every parameter that `INFO` declares.
    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError>;

    /// Makes room for the pages `0..pages`.
    fn grow(&mut self, _pages: u32) {}

    /// Takes note of an access before anything is done about it.
    #[inline]
    fn note_access(&mut self, _access: PageAccess, _is_hit: bool) {}

    /// Lets a page in that is not held.
    #[inline(always)]
    fn insert(&self, lists: &mut PageLists, access: PageAccess) {
        lists.insert(RECENT, access.page, access.write);
    }

    /// Marks a page that is used again.
    #[inline]
    fn mark_used(&self, _frame: &mut ListFrame) {}

    /// Takes note that a page is about to leave its place, used, moved or given up.
    #[inline]
    fn leave_place(&mut self, _lists: &mut PageLists, _frame: u32) {}

    /// Takes note that pages have come, moved or left.
    #[inline]
    fn lists_changed(&mut self, _lists: &mut PageLists) {}

    /// Takes note that a page became clean in its place.
    fn cleaned(&mut self, _lists: &mut PageLists, _frame: u32) {}

    /// Prepares for a flush.
    fn before_flush(&mut self, _pages: &mut BufferedPages) {}

    /// Searches as published for the page to give up; returns `None` if none is held.
    fn published_victim(&mut self, pages: &mut BufferedPages) -> Option<u32>;

    /// Takes note of a victim, which is still in its place.
    #[inline]
    fn note_eviction(&mut self, pages: &mut BufferedPages, _frame: u32) {
        pages.memory_accesses += 1;
    }

    /// Returns true if a turn may choose a page that no veto holds.
    #[inline]
    fn may_leave(&self, _turn: usize, _frame: &ListFrame) -> bool {
        true
    }

    /// Returns how many pages a turn may go over, from the least recently used one on.
    #[inline]
    fn reach(&self, _turn: usize) -> u32 {
        u32::MAX
    }

    /// Searches for a victim under a veto by another order than a list's, before the first turn.
    #[inline]
    fn victim_before_turns<V: EvictionVeto>(&self, _pages: &mut BufferedPages, _veto: &mut V) -> Option<u32> {
        None
    }

    /// Does what the published search does on its way to the page that a turn has chosen.
    #[inline]
    fn chosen(&mut self, _pages: &mut BufferedPages, _turn: usize, _frame: u32) {}
}

/// The pages of a policy, and what a veto passed over.
#[derive(Clone, Debug)]
pub(super) struct BufferedPages {
    pub(super) lists: PageLists,
    pub(super) capacity: u32,
    /// Memory accesses of the published algorithm; [`ListBuffer`] counts those of hits and
    /// insertions.
    pub(super) memory_accesses: u64,
    parked: ParkedFrames,
    /// For each turn the pages that are parked, or that it leaves alone; then those of [`RECENT`]
    /// that [`Self::move_passed`] leaves where they are.
    passed: [SearchedPart; MOST_TURNS + 1],
}

impl BufferedPages {
    fn new(lists: u32, turns: &[u32], capacity: u32) -> Self {
        Self {
            lists: PageLists::new(lists),
            capacity,
            memory_accesses: 0,
            parked: ParkedFrames::default(),
            passed: std::array::from_fn(|turn| {
                // The lowest bit marks parked frames, so that the turns' marks begin at the second.
                SearchedPart::new(turns.get(turn).copied().unwrap_or(RECENT), 2 << turn)
            }),
        }
    }

    /// Moves a page on to the front of a list as cold, as a search does that spares it.
    #[inline]
    pub(super) fn move_on(&mut self, list: u32, frame: u32) {
        self.memory_accesses += 2;
        self.leave_search(frame);
        self.lists.frame_mut(frame).cold = true;
        self.lists.move_to_front(list, frame);
    }

    /// Moves on what a published search moves on if it goes over all pages that a turn over
    /// [`RECENT`] has passed. `list_of` names the list to which a page moves, if it does.
    pub(super) fn move_passed(&mut self, turn: usize, list_of: impl Fn(&ListFrame) -> Option<u32>) {
        while let Some(frame) = self.passed[SETTLED].next(&self.lists) {
            if !self.passed[turn].has(&self.lists, frame) {
                break;
            }
            match list_of(self.lists.frame(frame)) {
                Some(list) => self.move_on(list, frame),
                None => self.passed[SETTLED].add(&mut self.lists, frame),
            }
        }
    }

    /// Returns how many pages a turn has passed.
    #[inline]
    pub(super) fn passed(&self, turn: usize) -> u32 {
        self.passed[turn].len()
    }

    /// Returns true if the page may leave; it is parked if the veto passes it over, and may not
    /// leave if it is parked already.
    #[inline]
    pub(super) fn lets_leave<V: EvictionVeto>(&mut self, frame: u32, veto: &mut V) -> bool {
        self.parked.lets_leave(&mut self.lists, frame, veto)
    }

    /// Considers again everything that was passed over.
    pub(super) fn resume_all(&mut self) {
        for element in self.parked.elements() {
            while let Some(frame) = self.parked.resume(&mut self.lists, element) {
                self.passed.iter_mut().for_each(|passed| passed.retreat(&mut self.lists, frame));
            }
        }
    }

    /// Takes a page that is about to move out of what turns have passed; if it is parked, it still
    /// is.
    #[inline]
    fn leave_search(&mut self, frame: u32) {
        let mut marks = self.lists.frame(frame).tag & SEARCH_MARKS & !PARKED;
        while marks != 0 {
            // Only the parts that the frame is in are visited.
            self.passed[marks.trailing_zeros() as usize - 1].remove(&mut self.lists, frame);
            marks &= marks - 1;
        }
    }

    /// Forgets what a veto said of a page that is about to leave its place, used or given up.
    #[inline]
    fn forget(&mut self, frame: u32) {
        if self.lists.frame(frame).tag & SEARCH_MARKS != 0 {
            self.leave_search(frame);
            self.parked.forget(&mut self.lists, frame);
        }
    }
}

/// A page-level policy over lists.
#[derive(Clone, Debug)]
pub(super) struct ListBuffer<P> {
    pages: BufferedPages,
    is_caching_reads: bool,
    policy: P,
}

impl<P: ListPolicy> RegisteredPolicy for ListBuffer<P> {
    const INFO: PolicyInfo = P::INFO;

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        Ok(Self {
            pages: BufferedPages::new(P::LISTS, P::TURNS, config.capacity_pages),
            is_caching_reads: caches_reads(params)?,
            policy: P::with_params(config, params)?,
        })
    }
}

impl<P: ListPolicy> ListBuffer<P> {
    /// Returns the frame to give up, or `None` if every page is vetoed and the access shall bypass,
    /// or none is held.
    #[inline]
    fn victim<V: EvictionVeto>(&mut self, veto: &mut V) -> Option<u32> {
        // Without a veto the published algorithm runs as it is, and its memory accesses are counted as
        // published.
        if V::ACTIVE { self.victim_under(veto) } else { self.policy.published_victim(&mut self.pages) }
    }

    fn victim_under<V: EvictionVeto>(&mut self, veto: &mut V) -> Option<u32> {
        if let Some(frame) = self.policy.victim_before_turns(&mut self.pages, veto) {
            return Some(frame);
        }
        for (turn, _) in P::TURNS.iter().enumerate() {
            if let Some(frame) = self.search(turn, veto) {
                self.policy.chosen(&mut self.pages, turn, frame);
                return Some(frame);
            }
        }
        if self.pages.lists.len() == 0 || veto.exhausted() == WhenExhausted::Bypass {
            return None;
        }
        self.policy.published_victim(&mut self.pages)
    }

    /// Goes on with a turn to the first page that it may choose and that the veto lets leave.
    #[inline]
    fn search<V: EvictionVeto>(&mut self, turn: usize, veto: &mut V) -> Option<u32> {
        let Self { pages: BufferedPages { lists, parked, passed, .. }, policy, .. } = self;
        let (passed, reach) = (&mut passed[turn], policy.reach(turn));
        while passed.len() < reach {
            let frame = passed.next(lists)?;
            // The policy is asked first: the veto parks a frame, which is a waste for one that may not
            // leave anyway.
            if policy.may_leave(turn, lists.frame(frame)) && parked.lets_leave(lists, frame, veto) {
                return Some(frame);
            }
            passed.add(lists, frame);
        }
        None
    }

    /// Has the turns that may choose a page meet it again.
    fn meet_again(&mut self, frame: u32) {
        let Self { pages: BufferedPages { lists, passed, .. }, policy, .. } = self;
        for (turn, passed) in passed.iter_mut().enumerate().take(P::TURNS.len()) {
            // A turn that would not take the frame need not meet it again.
            if policy.may_leave(turn, lists.frame(frame)) {
                passed.retreat(lists, frame);
            }
        }
    }

    /// Considers again what was passed over for an element.
    fn resume(&mut self, element: Element) {
        while let Some(frame) = self.pages.parked.resume(&mut self.pages.lists, element) {
            self.meet_again(frame);
        }
    }

    /// Takes note that a page became clean in its place.
    fn cleaned(&mut self, frame: u32) {
        self.policy.cleaned(&mut self.pages.lists, frame);
        self.meet_again(frame);
    }

    /// Takes the page of a frame out.
    fn give_up(&mut self, frame: u32, out: &mut Evictions) {
        self.pages.forget(frame);
        self.take_out(frame, out);
    }

    /// Takes the page of a frame out of which no veto said anything.
    #[inline]
    fn take_out(&mut self, frame: u32, out: &mut Evictions) {
        self.policy.leave_place(&mut self.pages.lists, frame);
        self.pages.lists.give_up(frame, out);
        self.policy.lists_changed(&mut self.pages.lists);
    }
}

impl<P: ListPolicy> BufferPolicy for ListBuffer<P> {
    fn grow(&mut self, pages: u32) {
        self.pages.lists.grow(pages);
        self.policy.grow(pages);
    }

    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        self.pages.lists.prefetch(page)
    }

    /// Names the pages that the first turn goes over.
    #[inline]
    fn leaves_next(&self, most: usize, name: &mut impl FnMut(PageNo)) {
        self.pages.lists.oldest_first(P::TURNS[0]).take(most).for_each(name);
    }

    #[inline]
    fn access<D: DeviceView, V: EvictionVeto>(
        &mut self,
        access: PageAccess,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        let frame = self.pages.lists.find(access.page);
        self.policy.note_access(access, frame != 0);
        if frame != 0 {
            self.pages.memory_accesses += 2;
            // A frame that is used again may be offered again.
            if V::ACTIVE {
                self.pages.forget(frame);
            }
            self.policy.leave_place(&mut self.pages.lists, frame);
            let own = self.pages.lists.frame_mut(frame);
            own.dirty |= access.write;
            self.policy.mark_used(own);
            self.pages.lists.move_to_front(RECENT, frame);
            self.policy.lists_changed(&mut self.pages.lists);
            return AccessOutcome::Hit;
        }
        self.pages.memory_accesses += 1;
        if !access.write && !self.is_caching_reads {
            return AccessOutcome::Bypassed;
        }
        if self.pages.lists.len() == self.pages.capacity && !self.evict(device, veto, out) {
            return AccessOutcome::Bypassed;
        }
        self.pages.memory_accesses += 1;
        self.policy.insert(&mut self.pages.lists, access);
        self.policy.lists_changed(&mut self.pages.lists);
        AccessOutcome::Inserted
    }

    #[inline]
    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        let Some(frame) = self.victim(veto) else { return false };
        self.policy.note_eviction(&mut self.pages, frame);
        if V::ACTIVE {
            self.pages.forget(frame);
        }
        self.take_out(frame, out);
        true
    }

    fn notify<D: DeviceView, V: EvictionVeto>(&mut self, notice: BufferNotice, _: &D, _: &mut V, out: &mut Evictions) {
        match notice {
            BufferNotice::GcEnd { .. } | BufferNotice::Idle => {}
            BufferNotice::Resume { element } => self.resume(element),
            BufferNotice::Destage { page, keep } => {
                if let Some(frame) = self.pages.lists.dirty_frame(page) {
                    if keep {
                        self.pages.lists.clean(frame, out);
                        self.cleaned(frame);
                    } else {
                        self.give_up(frame, out);
                    }
                }
            }
            BufferNotice::Flush => {
                self.policy.before_flush(&mut self.pages);
                // Dirty pages stand nowhere else.
                let mut at = RECENT;
                while let Some((frame, page)) = self.pages.lists.next_cleaned(RECENT, at) {
                    out.page(EvictionKind::Clean, page);
                    self.cleaned(frame);
                    at = frame;
                }
            }
            BufferNotice::Trim { page } => {
                if let Some(frame) = self.pages.lists.trimmed_frame(page) {
                    self.give_up(frame, out);
                }
            }
        }
    }

    fn admits(&self, access: PageAccess) -> bool {
        self.pages.lists.find(access.page) == 0 && (access.write || self.is_caching_reads)
    }

    fn len(&self) -> u32 {
        self.pages.lists.len()
    }

    fn memory_accesses(&self) -> u64 {
        self.pages.memory_accesses
    }
}
