//! Simulated SSDs. The classic model, that of the papers: elements with clocks of their own under one of three translation
//! layers ([`Ftl`]), the page map (`page_map.rs`), and BAST and FAST with log blocks (`log_blocks/`). The modern model, that
//! of drives of data centres (`modern/`, [`ModernConfig`]).

mod block_sets;
mod clock;
mod cost;
mod divisor;
mod element;
mod geometry;
mod geometry_error;
mod log_blocks;
mod modern;
mod page_map;
mod pool;
mod presets;
mod start_state;
mod steady;

use destage_plan::{Element, Nanos, PageNo, PlacementStream, Quota};
use destage_policy::buffer::DeviceView;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use clock::ElementClock;
pub use clock::{ElementCollection, ElementCounters};
pub use geometry::{CollectionPoint, Ftl, PageAllocation, SsdConfig, SsdShape};
pub use geometry_error::SsdGeometryError;
use log_blocks::LogBlocks;
use modern::ModernDrive;
pub use modern::{
    HandleIsolation, MODERN_DRIVES, ModernConfig, ModernDesign, ModernGeometry, PlacedStream, PlacementConfig,
    VictimPolicy,
};
use page_map::PageMap;
pub use pool::PageStates;
pub use presets::{DRIVES, DataSheet, DrivePreset, drive, presets};
pub use start_state::StartState;
pub use steady::SteadyState;

use crate::experiment::{StopSignal, is_told};

/// Programs before it is looked whether ageing is to end; many, so that looking costs nothing.
const UNTIL_LOOK: u64 = 1 << 14;

/// A simulated SSD.
#[derive(Clone, Debug)]
pub struct Ssd {
    layer: TranslationLayer,
    now: Nanos,
    steadiness: Option<SteadyState>,
}

/// Finds the place of a page. One comparison tells the page map from the others, since it is used most.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "an SSD stays where it is, and the page map is used for every page")]
enum TranslationLayer {
    Pages(PageMap),
    Boxed(Box<BoxedLayer>),
}

/// Holds the translation layers other than the page map.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "an SSD has one of them")]
enum BoxedLayer {
    LogBlocks(LogBlocks),
    Modern(ModernDrive),
}

/// Asks whichever layer there is.
macro_rules! ask {
    ($ssd:expr, $layer:ident => $what:expr) => {
        match &$ssd.layer {
            TranslationLayer::Pages($layer) => $what,
            TranslationLayer::Boxed(boxed) => match &**boxed {
                BoxedLayer::LogBlocks($layer) => $what,
                BoxedLayer::Modern($layer) => $what,
            },
        }
    };
    (mut $ssd:expr, $layer:ident => $what:expr) => {
        match &mut $ssd.layer {
            TranslationLayer::Pages($layer) => $what,
            TranslationLayer::Boxed(boxed) => match &mut **boxed {
                BoxedLayer::LogBlocks($layer) => $what,
                BoxedLayer::Modern($layer) => $what,
            },
        }
    };
}

impl Ssd {
    /// An SSD of this shape in this state, at time zero.
    pub fn new(shape: SsdShape, start: StartState) -> Self {
        Self::new_unless(shape, start, None)
    }

    /// The same, unless it is told to end meanwhile: then it is of no use.
    pub fn new_unless(shape: SsdShape, start: StartState, stop: Option<&StopSignal>) -> Self {
        let layer = match shape.config.ftl {
            _ if shape.modern.is_some() => {
                TranslationLayer::Boxed(Box::new(BoxedLayer::Modern(ModernDrive::empty(shape))))
            }
            Ftl::Page => TranslationLayer::Pages(PageMap::empty(shape)),
            Ftl::Bast | Ftl::Fast => TranslationLayer::Boxed(Box::new(BoxedLayer::LogBlocks(LogBlocks::empty(shape)))),
        };
        let mut ssd = Self { layer, now: Nanos::ZERO, steadiness: None };
        let pages = ssd.shape().host_pages;
        match start {
            StartState::Empty => {}
            StartState::Full => ask!(mut ssd, layer => layer.fill(stop)),
            StartState::Random { seed } => {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                let mut order: Vec<u32> = (0..pages).collect();
                for i in (1..pages).rev() {
                    if u64::from(i) % UNTIL_LOOK == 0 && is_told(stop) {
                        return ssd;
                    }
                    order.swap(i as usize, below(&mut random, i + 1) as usize);
                }
                for pages in order.chunks(UNTIL_LOOK as usize).take_while(|_| !is_told(stop)) {
                    for &page in pages {
                        ssd.program(Nanos::ZERO, PageNo(page));
                    }
                }
            }
            StartState::Aged { overwrites_pct, seed } => {
                ask!(mut ssd, layer => layer.fill(stop));
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                ssd.overwrite(&mut random, u64::from(pages) * u64::from(overwrites_pct) / 100, stop);
            }
            StartState::Steady { seed } => {
                ask!(mut ssd, layer => layer.fill(stop));
                ssd.steadiness = Some(ssd.become_steady(seed, stop));
            }
        }
        // Times, counters, turns and wear begin with the run.
        ask!(mut ssd, layer => layer.begin_run());
        ssd
    }

    /// So many random overwrites, or as many as there is time for until it is told to end.
    fn overwrite(&mut self, random: &mut Xoshiro256PlusPlus, mut count: u64, stop: Option<&StopSignal>) {
        let pages = self.shape().host_pages;
        while count > 0 && !is_told(stop) {
            let some = count.min(UNTIL_LOOK);
            for _ in 0..some {
                let page = below(random, pages);
                self.program(Nanos::ZERO, PageNo(page));
            }
            count -= some;
        }
    }

    /// Returns how the SSD reached the steady state in which it began, if it began in one.
    pub const fn steadiness(&self) -> Option<SteadyState> {
        self.steadiness
    }

    /// The SSD's shape.
    #[inline]
    pub fn shape(&self) -> &SsdShape {
        ask!(self, layer => &layer.shape)
    }

    fn all_elements(&self) -> impl Iterator<Item = Element> + use<> {
        (0..self.elements()).map(Element)
    }

    #[inline]
    fn clock(&self, element: Element) -> &ElementClock {
        ask!(self, layer => layer.clock(element.index()))
    }

    #[inline]
    fn clock_mut(&mut self, element: Element) -> &mut ElementClock {
        ask!(mut self, layer => layer.clock_mut(element.index()))
    }

    fn clocks(&self) -> impl Iterator<Item = &ElementClock> {
        self.all_elements().map(|element| self.clock(element))
    }

    /// The present time, for [`DeviceView::collecting`].
    #[inline]
    pub fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Reads what an operation on this page looks at first; see
    /// [`Buffer::prefetch`](destage_policy::buffer::Buffer::prefetch).
    #[inline]
    pub(crate) fn prefetch(&self, page: PageNo) -> u32 {
        match &self.layer {
            TranslationLayer::Pages(layer) => layer.prefetch(page),
            TranslationLayer::Boxed(boxed) => match &**boxed {
                BoxedLayer::LogBlocks(_) => 0,
                BoxedLayer::Modern(layer) => layer.prefetch(page),
            },
        }
    }

    /// Begins a host command: the pages that are read from now on, until the next one begins, are one command, and those that
    /// are programmed another. Only the modern model tells commands from pages; without this each page is a command to it.
    #[inline]
    pub fn begin_command(&mut self) {
        if let TranslationLayer::Boxed(boxed) = &mut self.layer
            && let BoxedLayer::Modern(layer) = &mut **boxed
        {
            layer.begin_command();
        }
    }

    /// Labels the pages that are programmed from now on with their stream. Only a modern drive with [`ModernConfig::placement`]
    /// heeds it.
    #[inline]
    pub fn label_writes(&mut self, stream: PlacementStream) {
        if let TranslationLayer::Boxed(boxed) = &mut self.layer
            && let BoxedLayer::Modern(layer) = &mut **boxed
        {
            layer.label_writes(stream);
        }
    }

    /// Returns true if the drive keeps streams of writes apart.
    pub fn has_placement(&self) -> bool {
        self.modern().is_some_and(ModernDrive::has_placement)
    }

    /// Returns the streams of which something was written or copied since the counters were reset; none if it does not keep
    /// them apart.
    pub fn streams(&self) -> impl Iterator<Item = PlacedStream> {
        self.modern().into_iter().flat_map(ModernDrive::streams)
    }

    /// Returns true if what the device answered is durable, so that a flush has nothing to wait for.
    pub fn is_write_protected(&self) -> bool {
        self.modern().is_some()
    }

    /// Returns the modern drive, if it is one.
    #[inline]
    fn modern(&self) -> Option<&ModernDrive> {
        match &self.layer {
            TranslationLayer::Pages(_) => None,
            TranslationLayer::Boxed(boxed) => match &**boxed {
                BoxedLayer::LogBlocks(_) => None,
                BoxedLayer::Modern(layer) => Some(layer),
            },
        }
    }

    /// Reads a page; returns when its data is there.
    #[inline]
    pub fn read(&mut self, now: Nanos, page: PageNo) -> Nanos {
        ask!(mut self, layer => layer.read(now, page))
    }

    /// Programs a page; with channels into the one whose turn it is. Returns when it is done.
    #[inline(always)]
    pub fn program(&mut self, now: Nanos, page: PageNo) -> Nanos {
        match &mut self.layer {
            TranslationLayer::Pages(layer) => layer.program(now, page),
            TranslationLayer::Boxed(boxed) => match &mut **boxed {
                BoxedLayer::LogBlocks(layer) => layer.program(now, page, None),
                BoxedLayer::Modern(layer) => layer.program(now, page),
            },
        }
    }

    /// Programs a page into this channel, or the next one with room; returns when it is done. Under
    /// a log-block layer the page goes where its block is written already, and the channel is where
    /// a block is begun for it.
    ///
    /// # Panics
    /// If the SSD has no such channel, or is a modern drive, which chooses for itself (such policies are refused).
    pub fn program_through(&mut self, now: Nanos, page: PageNo, channel: u32) -> Nanos {
        match &mut self.layer {
            TranslationLayer::Pages(layer) => layer.program_through(now, page, channel),
            TranslationLayer::Boxed(boxed) => match &mut **boxed {
                BoxedLayer::LogBlocks(layer) => layer.program(now, page, Some(channel)),
                BoxedLayer::Modern(_) => panic!("a modern drive chooses the die of a page itself"),
            },
        }
    }

    /// The channel whose turn it is, which then passes to the next; none with static allocation,
    /// and none under a log-block layer, which can tell only when the page is programmed.
    #[inline]
    pub fn turn(&mut self) -> Option<u16> {
        match &mut self.layer {
            TranslationLayer::Pages(layer) => layer.turn(),
            TranslationLayer::Boxed(_) => None,
        }
    }

    /// The element that would program the page now: of its address, or else of the choice or of the
    /// turns.
    pub fn target(&self, page: PageNo, channel: Option<u16>) -> Element {
        Element(match &self.layer {
            TranslationLayer::Pages(layer) => layer.target(page, channel),
            TranslationLayer::Boxed(boxed) => match &**boxed {
                BoxedLayer::LogBlocks(layer) => layer.target(page, channel),
                BoxedLayer::Modern(layer) => layer.target(),
            },
        })
    }

    /// Is true if the SSD can be told to collect. Reclaiming log blocks on demand is not modelled.
    pub fn can_collect(&self) -> bool {
        matches!(self.layer, TranslationLayer::Pages(_)) || self.modern().is_some()
    }

    /// Has every element collect as much as it is told to and can gain from, once it has done what it has to do;
    /// returns when they have.
    ///
    /// # Panics
    /// If it [cannot](Self::can_collect).
    pub fn collect(&mut self, now: Nanos, quota: Quota) -> Nanos {
        match &mut self.layer {
            TranslationLayer::Pages(layer) => layer.collect(now, quota),
            TranslationLayer::Boxed(boxed) => match &mut **boxed {
                BoxedLayer::LogBlocks(_) => panic!("it cannot be told to collect"),
                BoxedLayer::Modern(layer) => layer.collect(now, quota),
            },
        }
    }

    /// Forgets a page's data; takes no time.
    pub fn trim(&mut self, page: PageNo) {
        ask!(mut self, layer => layer.trim(page));
    }

    /// Pages that went to another channel than was chosen, since the counters were reset: it had no
    /// room, or, under a log-block layer, their block was being written elsewhere.
    pub fn redirected(&self) -> u64 {
        match &self.layer {
            TranslationLayer::Pages(layer) => layer.redirected(),
            TranslationLayer::Boxed(boxed) => match &**boxed {
                BoxedLayer::LogBlocks(layer) => layer.redirected(),
                BoxedLayer::Modern(_) => 0,
            },
        }
    }

    /// Until when an element is busy with what it was given.
    #[inline]
    pub fn busy_until(&self, element: Element) -> Nanos {
        match self.modern() {
            Some(layer) => layer.busy_until(element.index()),
            None => self.clock(element).busy_until(),
        }
    }

    /// Returns the modern drive, if it is one, to change it.
    #[inline]
    fn modern_mut(&mut self) -> Option<&mut ModernDrive> {
        match &mut self.layer {
            TranslationLayer::Pages(_) => None,
            TranslationLayer::Boxed(boxed) => match &mut **boxed {
                BoxedLayer::LogBlocks(_) => None,
                BoxedLayer::Modern(layer) => Some(layer),
            },
        }
    }

    /// Remembers all collections until [`Self::end_collection`]; those of a modern drive are its slices.
    pub fn watch_collections(&mut self) {
        match self.modern_mut() {
            Some(layer) => layer.watch_slices(),
            None => self.all_elements().for_each(|element| self.clock_mut(element).watched = true),
        }
    }

    /// Takes note of each collection from now on, until it is [taken](Self::take_collections), of a modern drive of those
    /// that are ordered; its slices are [told](Self::take_slice_notice).
    pub fn note_collections(&mut self) {
        if let Some(layer) = self.modern_mut() {
            layer.note_slices();
        }
        self.all_elements().for_each(|element| self.clock_mut(element).news = Some(Vec::new()));
    }

    /// Takes the collections that were decided on since, of each element in order of time.
    pub fn take_collections(&mut self, mut each: impl FnMut(Element, ElementCollection)) {
        for element in self.all_elements() {
            if let Some(news) = &mut self.clock_mut(element).news {
                news.drain(..).for_each(|collection| each(element, collection));
            }
        }
    }

    /// Returns a time before which no slice of a modern drive begins or ends; none if none is expected to.
    #[inline]
    pub fn next_slice_notice(&self) -> Option<Nanos> {
        self.modern()?.next_slice_notice()
    }

    /// Takes a notice of `now`, which is the [next](Self::next_slice_notice) time: the element, and whether a slice begins
    /// there or ends; none if reads have delayed it.
    pub fn take_slice_notice(&mut self, now: Nanos) -> Option<(Element, bool)> {
        self.modern_mut()?.take_slice_notice(now).map(|(die, is_begin)| (Element(die), is_begin))
    }

    /// Returns for how long the latest operation, on this page, waited for collection: the part of the time from `at` to `done`
    /// in which its element collected. Writes wait for room in a modern drive's cache, which does not count.
    #[inline]
    pub fn waited_for_collection(&self, page: PageNo, at: Nanos, done: Nanos) -> Nanos {
        match self.modern() {
            Some(layer) => layer.waited_for_slices(),
            None => self.clock(self.element_of(page)).collecting_between(at, done),
        }
    }

    /// Returns the first end of a collection that was not forgotten, with its element; of several at the
    /// same time that of the element with the lowest number. Of a modern drive only those that have ended by now: reads
    /// may delay others.
    #[inline]
    pub fn first_collection_end(&mut self) -> Option<(Nanos, Element)> {
        let now = self.now;
        if let Some(layer) = self.modern_mut() {
            return layer.first_ended_slice(now).map(|(end, die)| (end, Element(die)));
        }
        let first = |element| self.clock(element).collections.front().map(|&(_, end)| (end, element));
        self.all_elements().filter_map(first).min()
    }

    /// Returns when the first of the collections that are under way now ends.
    pub fn first_end_under_way(&self) -> Option<Nanos> {
        match self.modern() {
            Some(layer) => layer.first_end_under_way(self.now),
            None => self.clocks().filter_map(|clock| clock.end_under_way(self.now)).min(),
        }
    }

    /// Forgets the element's first collection, of a modern drive one that has ended.
    pub fn end_collection(&mut self, element: Element) {
        match self.modern_mut() {
            Some(layer) => layer.forget_slice(element.index()),
            None => _ = self.clock_mut(element).collections.pop_front(),
        }
    }

    /// Is true if the latest operation on this page waited for a collection. The operation was issued at `at`
    /// and done at `done`; a collection on its element ended in between.
    #[inline]
    pub fn waited_for_gc(&self, page: PageNo, at: Nanos, done: Nanos) -> bool {
        if let Some(layer) = self.modern() {
            return layer.waited_for_slices() > Nanos::ZERO;
        }
        // They follow each other in time; one that the operation itself set off in the background
        // ends after it.
        let mut collections = self.clock(self.element_of(page)).collections.iter().rev();
        collections.find(|&&(_, end)| end <= done).is_some_and(|&(_, end)| at < end)
    }

    /// Forgets all counters, as between warm-up and measurement; the flash stays as it is.
    pub fn reset_counters(&mut self) {
        for element in self.all_elements() {
            self.clock_mut(element).counters = ElementCounters::default();
        }
        match &mut self.layer {
            TranslationLayer::Pages(layer) => layer.forget_redirected(),
            TranslationLayer::Boxed(boxed) => match &mut **boxed {
                BoxedLayer::LogBlocks(layer) => layer.forget_redirected(),
                BoxedLayer::Modern(layer) => layer.reset_streams(),
            },
        }
    }

    /// The counters of each element.
    pub fn counters(&self) -> impl Iterator<Item = &ElementCounters> {
        self.clocks().map(|clock| &clock.counters)
    }

    /// The sum of all elements' counters.
    pub fn total(&self) -> ElementCounters {
        self.counters().fold(ElementCounters::default(), |sum, c| sum.plus(c))
    }

    /// Free blocks of all elements.
    #[inline]
    pub fn total_free_blocks(&self) -> u64 {
        self.all_elements().map(|element| u64::from(self.free_blocks(element))).sum()
    }

    /// Returns the time at which everything issued so far is done.
    pub fn idle_at(&self) -> Nanos {
        match self.modern() {
            Some(layer) => layer.idle_at(),
            None => self.clocks().map(ElementClock::busy_until).max().unwrap_or_default(),
        }
    }

    /// Erases of every block since the start of the run.
    pub fn erases(&self) -> impl Iterator<Item = u32> {
        let (pages, log_blocks, modern) = match &self.layer {
            TranslationLayer::Pages(layer) => (Some(layer.erases()), None, None),
            TranslationLayer::Boxed(boxed) => match &**boxed {
                BoxedLayer::LogBlocks(layer) => (None, Some(layer.erases()), None),
                BoxedLayer::Modern(layer) => (None, None, Some(layer.erases())),
            },
        };
        let others = log_blocks.into_iter().flatten().chain(modern.into_iter().flatten());
        pages.into_iter().flatten().chain(others)
    }

    /// Counts the device's pages by state.
    pub fn page_states(&self) -> PageStates {
        ask!(self, layer => layer.page_states())
    }

    /// Checks the flash's own laws: map and inverse agree, and exactly the mapped pages are valid.
    pub fn check(&self) -> Result<(), String> {
        ask!(self, layer => layer.check())
    }
}

/// A random number below `bound`.
fn below(random: &mut Xoshiro256PlusPlus, bound: u32) -> u32 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u32
}

impl DeviceView for Ssd {
    fn elements(&self) -> u32 {
        self.shape().config.elements
    }

    fn element_of(&self, page: PageNo) -> Element {
        Element(ask!(self, layer => layer.element_of_page(page)))
    }

    fn destination(&self, page: PageNo) -> Option<Element> {
        (self.shape().config.allocation == PageAllocation::Static).then(|| self.element_of(page))
    }

    fn collecting(&self, element: Element) -> bool {
        match self.modern() {
            Some(layer) => layer.slice_under_way(element.index(), self.now).is_some(),
            None => self.clock(element).end_under_way(self.now).is_some(),
        }
    }

    fn free_blocks(&self, element: Element) -> u32 {
        match &self.layer {
            TranslationLayer::Pages(layer) => layer.free_blocks(element.0),
            TranslationLayer::Boxed(boxed) => match &**boxed {
                BoxedLayer::LogBlocks(layer) => layer.free_blocks(element.0),
                BoxedLayer::Modern(layer) => layer.free_blocks(),
            },
        }
    }

    fn takes_channels(&self) -> bool {
        self.modern().is_none()
    }

    fn low_watermark(&self) -> u32 {
        let shape = self.shape();
        shape.pool_low * shape.pools
    }
}
