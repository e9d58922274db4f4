//! The page-mapping SSD with greedy collection (specs §1.2, after the MSR SSD extension).
//!
//! An element serves its operations in the order in which they are issued, so it needs no event per page, only the
//! time until which it is busy. Collection happens in that order too: before an operation is issued whose pool has too
//! few free blocks, and the element does nothing else meanwhile.
//!
//! With [`Allocation::Channels`] (specs §1.3, CAWR) each element is a channel with its own write point. A page goes to the
//! channel that whoever writes it chose, or else to the next one in turn; its old copy, wherever that is, is only outdated.
//! Reads go where the page is, and collection moves pages inside their channel. Since nothing keeps a buffer from
//! choosing the same channel for ever, a channel takes no more valid pages than it can hold and still collect; beyond
//! that the page goes to the next channel that has room, and is counted ([`Ssd::redirected`]).

mod block_sets;
mod divisor;
mod element;
mod geometry;
mod pool;

use destage_plan::{Nanos, PageNo};
use destage_policy::buffer::DeviceView;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use divisor::Divisor;
pub use element::ElementCounters;
use element::{Element, UNMAPPED};
pub use geometry::{Allocation, GeometryError, PRESETS, SsdConfig, SsdShape};
pub use pool::PageStates;

/// What the flash holds when the run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartState {
    /// Nothing: collection begins only once the device has been written through.
    Empty,
    /// Every exported page, mapped in ascending order (the MSR extension's initial state).
    #[default]
    Full,
    /// Every exported page, written once in random order.
    Random {
        /// Seed of the order.
        seed: u64,
    },
    /// Full, and then overwritten at random.
    Aged {
        /// How many times the exported size is overwritten, in hundredths.
        overwrites_pct: u32,
        /// Seed of the overwrites.
        seed: u64,
    },
}

impl std::fmt::Display for StartState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("empty"),
            Self::Full => f.write_str("full"),
            Self::Random { seed } => write!(f, "random:{seed}"),
            Self::Aged { overwrites_pct, seed } => {
                write!(f, "aged:{}.{:02}:{seed}", overwrites_pct / 100, overwrites_pct % 100)
            }
        }
    }
}

impl StartState {
    /// Whether it takes so long to come to that copies are better.
    pub const fn takes_long(self) -> bool {
        matches!(self, Self::Random { .. } | Self::Aged { .. })
    }
}

/// A simulated SSD.
#[derive(Clone, Debug)]
pub struct Ssd {
    shape: SsdShape,
    elements: Vec<Element>,
    /// Logical page → physical page over all elements, or [`UNMAPPED`]. The pages of one element after those of the other;
    /// with channels, in the order of their numbers.
    map: Vec<u32>,
    by_element: Divisor,
    by_stride: Divisor,
    by_raw_pages: Divisor,
    channels: Channels,
    now: Nanos,
}

/// What there is beside with [`Allocation::Channels`].
#[derive(Clone, Debug, Default)]
struct Channels {
    /// Valid pages of each channel; empty with static allocation.
    valid: Vec<u32>,
    /// Whose turn it is.
    next: u32,
    redirected: u64,
}

impl Ssd {
    /// An SSD of this shape in this state, at time zero.
    pub fn new(shape: SsdShape, start: StartState) -> Self {
        let c = &shape.config;
        let in_channels = c.allocation == Allocation::Channels;
        let pages = if in_channels { shape.host_pages } else { c.elements * shape.element_pages };
        let mut ssd = Self {
            elements: (0..c.elements).map(|number| Element::empty(&shape, number)).collect(),
            map: vec![UNMAPPED; pages as usize],
            by_element: Divisor::new(c.elements),
            by_stride: Divisor::new(c.stride),
            by_raw_pages: Divisor::new(shape.raw_pages),
            channels: Channels {
                valid: vec![0; if in_channels { c.elements as usize } else { 0 }],
                ..Channels::default()
            },
            now: Nanos::ZERO,
            shape,
        };
        let pages = ssd.shape.host_pages;
        match start {
            StartState::Empty => {}
            StartState::Full => ssd.fill(),
            StartState::Random { seed } => {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                let mut order: Vec<u32> = (0..pages).collect();
                for i in (1..pages).rev() {
                    order.swap(i as usize, below(&mut random, i + 1) as usize);
                }
                for page in order {
                    ssd.program(Nanos::ZERO, PageNo(page));
                }
            }
            StartState::Aged { overwrites_pct, seed } => {
                ssd.fill();
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                for _ in 0..u64::from(pages) * u64::from(overwrites_pct) / 100 {
                    let page = below(&mut random, pages);
                    ssd.program(Nanos::ZERO, PageNo(page));
                }
            }
        }
        // Times, counters, turns and wear begin with the run.
        for element in &mut ssd.elements {
            element.reset_clock();
        }
        ssd.channels.next = 0;
        ssd.channels.redirected = 0;
        ssd
    }

    /// Maps every exported page in ascending order.
    fn fill(&mut self) {
        let (count, share) = (self.shape.config.elements, self.shape.element_pages);
        for (number, element) in (0..count).zip(&mut self.elements) {
            if self.channels.valid.is_empty() {
                element.fill(&self.shape, &mut self.map, number * share..(number + 1) * share);
            } else {
                let pages = (number..self.shape.host_pages).step_by(count as usize);
                self.channels.valid[number as usize] = pages.len() as u32;
                element.fill(&self.shape, &mut self.map, pages);
            }
        }
    }

    /// The SSD's shape.
    pub fn shape(&self) -> &SsdShape {
        &self.shape
    }

    fn in_channels(&self) -> bool {
        self.shape.config.allocation == Allocation::Channels
    }

    /// Element and entry of the map (static striping: a pure function of the address).
    #[inline]
    fn place_of(&self, page: PageNo) -> (usize, u32) {
        let (row, in_row) = self.by_stride.divide(page.0);
        let (turn, element) = self.by_element.divide(row);
        (element as usize, element * self.shape.element_pages + turn * self.shape.config.stride + in_row)
    }

    /// The element that a physical page is in.
    #[inline]
    fn element_of(&self, ppn: u32) -> usize {
        self.by_raw_pages.divide(ppn).0 as usize
    }

    /// The present time, for [`DeviceView::collecting`].
    #[inline]
    pub fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Reads a page; returns when its data is there.
    #[inline]
    pub fn read(&mut self, now: Nanos, page: PageNo) -> Nanos {
        let (element, ppn) = if self.in_channels() {
            let ppn = self.map[page.index()];
            // A page that was never written is read nowhere; the channel whose turn it is counts that.
            (if ppn == UNMAPPED { self.channels.next as usize } else { self.element_of(ppn) }, ppn)
        } else {
            let (element, entry) = self.place_of(page);
            (element, self.map[entry as usize])
        };
        self.elements[element].read(&self.shape, &mut self.map, now, ppn)
    }

    /// Programs a page; with channels into the one whose turn it is. Returns when it is done.
    #[inline(always)]
    pub fn program(&mut self, now: Nanos, page: PageNo) -> Nanos {
        if let Some(channel) = self.turn() {
            return self.program_through(now, page, channel.into());
        }
        let (element, entry) = self.place_of(page);
        let element = &mut self.elements[element];
        let pool = element.make_room(&self.shape, &mut self.map, now);
        let old = self.map[entry as usize];
        if old != UNMAPPED {
            element.invalidate(old);
        }
        element.program(&self.shape, &mut self.map, now, pool, entry)
    }

    /// Programs a page into this channel, or the next one with room; returns when it is done.
    ///
    /// # Panics
    /// If the SSD has no such channel.
    #[inline(never)]
    pub fn program_through(&mut self, now: Nanos, page: PageNo, channel: u32) -> Nanos {
        let held_by = |ssd: &Self| {
            let old = ssd.map[page.index()];
            (old != UNMAPPED).then(|| (ssd.element_of(old), old))
        };
        let loses = held_by(self).map(|(element, _)| element);
        let count = self.elements.len();
        let room = |at: &usize| self.channels.valid[*at] - u32::from(loses == Some(*at)) < self.shape.channel_pages;
        let at =
            (0..count).map(|i| (channel as usize + i) % count).find(room).expect("the reserve leaves room somewhere");
        self.channels.redirected += u64::from(at != channel as usize);
        let pool = self.elements[at].make_room(&self.shape, &mut self.map, now);
        // Only now: the collection may have moved it.
        if let Some((element, old)) = held_by(self) {
            self.elements[element].invalidate(old);
            self.channels.valid[element] -= 1;
        }
        self.channels.valid[at] += 1;
        self.elements[at].program(&self.shape, &mut self.map, now, pool, page.0)
    }

    /// The channel whose turn it is, which then passes to the next; none with static allocation.
    #[inline]
    pub fn turn(&mut self) -> Option<u16> {
        if !self.in_channels() {
            return None;
        }
        let channel = self.channels.next;
        self.channels.next = if channel + 1 == self.shape.config.elements { 0 } else { channel + 1 };
        Some(channel as u16)
    }

    /// The element that would program the page now: of its address, or else of the choice or of the turns.
    pub fn target(&self, page: PageNo, channel: Option<u16>) -> u32 {
        if self.in_channels() { channel.map_or(self.channels.next, u32::from) } else { self.place_of(page).0 as u32 }
    }

    /// Forgets a page's data; takes no time.
    pub fn trim(&mut self, page: PageNo) {
        let (element, entry) = if self.in_channels() {
            (None, page.0)
        } else {
            let (element, entry) = self.place_of(page);
            (Some(element), entry)
        };
        let old = std::mem::replace(&mut self.map[entry as usize], UNMAPPED);
        if old != UNMAPPED {
            let at = element.unwrap_or_else(|| self.element_of(old));
            self.elements[at].invalidate(old);
            if element.is_none() {
                self.channels.valid[at] -= 1;
            }
        }
    }

    /// Pages that went to another channel than was chosen, which had no room, since the counters were reset.
    pub fn redirected(&self) -> u64 {
        self.channels.redirected
    }

    /// Until when an element is busy with what it was given.
    #[inline]
    pub fn busy_until(&self, element: u32) -> Nanos {
        self.elements[element as usize].busy_until()
    }

    /// Remembers all collections until [`Self::end_collection`].
    pub fn watch_collections(&mut self) {
        self.elements.iter_mut().for_each(|element| element.watched = true);
    }

    /// The first end of a collection that was not forgotten, with its element; of several at the same time that of the
    /// element with the lowest number.
    pub fn first_collection_end(&self) -> Option<(Nanos, u32)> {
        let ends = (0..).zip(&self.elements).filter_map(|(i, e)| e.collections.front().map(|&(_, end)| (end, i)));
        ends.min()
    }

    /// When the first of the collections that are under way now ends.
    pub fn first_end_under_way(&self) -> Option<Nanos> {
        let now = self.now;
        let of = |element: &Element| {
            let next = element.collections.iter().find(|&&(_, end)| now < end);
            next.filter(|&&(start, _)| start <= now).map(|&(_, end)| end)
        };
        self.elements.iter().filter_map(of).min()
    }

    /// Forgets the element's first collection.
    pub fn end_collection(&mut self, element: u32) {
        self.elements[element as usize].collections.pop_front();
    }

    /// Forgets all counters, as between warm-up and measurement; the flash stays as it is.
    pub fn reset_counters(&mut self) {
        for element in &mut self.elements {
            element.reset_counters();
        }
        self.channels.redirected = 0;
    }

    /// The counters of each element.
    pub fn counters(&self) -> impl Iterator<Item = &ElementCounters> {
        self.elements.iter().map(|e| &e.counters)
    }

    /// The sum of all elements' counters.
    pub fn total(&self) -> ElementCounters {
        self.counters().fold(ElementCounters::default(), |sum, c| sum.plus(c))
    }

    /// Free blocks of all elements.
    #[inline]
    pub fn total_free_blocks(&self) -> u64 {
        self.elements.iter().map(|element| u64::from(element.free_blocks())).sum()
    }

    /// When everything issued so far is done.
    pub fn idle_at(&self) -> Nanos {
        self.elements.iter().map(Element::busy_until).max().unwrap_or_default()
    }

    /// Erases of every block since the start of the run.
    pub fn erases(&self) -> impl Iterator<Item = u32> {
        self.elements.iter().flat_map(Element::erases)
    }

    /// How many of the device's pages are in which state.
    pub fn page_states(&self) -> PageStates {
        self.elements.iter().map(Element::page_states).fold(PageStates::default(), |a, b| PageStates {
            valid: a.valid + b.valid,
            free: a.free + b.free,
            invalid: a.invalid + b.invalid,
        })
    }

    /// Checks the flash's own laws: map and inverse agree, and exactly the mapped pages are valid.
    pub fn check(&self) -> Result<(), String> {
        let mut mapped = vec![0; self.elements.len()];
        for (entry, &ppn) in (0_u32..).zip(&self.map).filter(|(_, ppn)| **ppn != UNMAPPED) {
            let element = self.element_of(ppn);
            if !self.in_channels() && element as u32 != entry / self.shape.element_pages {
                return Err(format!("page {entry} lies in element {element}"));
            }
            mapped[element] += 1;
            self.elements[element].check(entry, ppn).map_err(|error| format!("element {element}: {error}"))?;
        }
        for (i, (element, mapped)) in self.elements.iter().zip(mapped).enumerate() {
            let valid = element.page_states().valid;
            if mapped != valid {
                return Err(format!("element {i}: {mapped} pages are mapped and {valid} are valid"));
            }
            if self.channels.valid.get(i).is_some_and(|counted| u64::from(*counted) != valid) {
                return Err(format!("element {i}: {} pages are counted and {valid} are valid", self.channels.valid[i]));
            }
        }
        Ok(())
    }
}

/// A random number below `bound`.
fn below(random: &mut Xoshiro256PlusPlus, bound: u32) -> u32 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u32
}

impl DeviceView for Ssd {
    fn units(&self) -> u32 {
        self.shape.config.elements
    }

    fn unit_of(&self, page: PageNo) -> u32 {
        if self.in_channels() {
            match self.map[page.index()] {
                UNMAPPED => self.channels.next,
                ppn => self.element_of(ppn) as u32,
            }
        } else {
            self.place_of(page).0 as u32
        }
    }

    fn destination(&self, page: PageNo) -> Option<u32> {
        (!self.in_channels()).then(|| self.place_of(page).0 as u32)
    }

    fn collecting(&self, unit: u32) -> bool {
        let now = self.now;
        // They follow each other in time, and only few have ended.
        let mut collections = self.elements[unit as usize].collections.iter();
        collections.find(|&&(_, end)| now < end).is_some_and(|&(start, _)| start <= now)
    }

    fn free_blocks(&self, unit: u32) -> u32 {
        self.elements[unit as usize].free_blocks()
    }

    fn low_watermark(&self) -> u32 {
        self.shape.pool_low * self.shape.pools
    }
}
