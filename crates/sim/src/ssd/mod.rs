//! The page-mapping SSD with greedy collection (specs §1.2, after the MSR SSD extension).
//!
//! An element serves its operations in the order in which they are issued, so it needs no event per page, only the
//! time until which it is busy. Collection happens in that order too: before an operation is issued whose pool has too
//! few free blocks, and the element does nothing else meanwhile.

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
use element::Element;
pub use element::ElementCounters;
pub use geometry::{GeometryError, PRESETS, SsdConfig, SsdShape};
pub use pool::PageStates;

/// What the flash holds when the run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartState {
    /// Nothing: collection begins only once the device has been written through.
    Empty,
    /// Every exported page, mapped in ascending order (the MSR extension's initial state).
    #[default]
    Full,
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
            Self::Aged { overwrites_pct, seed } => {
                write!(f, "aged:{}.{:02}:{seed}", overwrites_pct / 100, overwrites_pct % 100)
            }
        }
    }
}

/// A simulated SSD.
#[derive(Clone, Debug)]
pub struct Ssd {
    shape: SsdShape,
    elements: Vec<Element>,
    by_element: Divisor,
    by_stride: Divisor,
    now: Nanos,
}

impl Ssd {
    /// An SSD of this shape in this state, at time zero.
    pub fn new(shape: SsdShape, start: StartState) -> Self {
        let elements = (0..shape.config.elements).map(|_| Element::empty(&shape)).collect();
        let (by_element, by_stride) = (Divisor::new(shape.config.elements), Divisor::new(shape.config.stride));
        let mut ssd = Self { shape, elements, by_element, by_stride, now: Nanos::ZERO };
        if start != StartState::Empty {
            for element in &mut ssd.elements {
                element.fill(&ssd.shape);
            }
        }
        if let StartState::Aged { overwrites_pct, seed } = start {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let pages = u64::from(ssd.shape.host_pages);
            for _ in 0..pages * u64::from(overwrites_pct) / 100 {
                let page = ((u128::from(random.next_u64()) * u128::from(pages)) >> 64) as u32;
                let (element, lpn) = ssd.place_of(PageNo(page));
                ssd.elements[element].age(&ssd.shape, lpn);
            }
        }
        for element in &mut ssd.elements {
            element.reset_clock();
        }
        ssd
    }

    /// The SSD's shape.
    pub fn shape(&self) -> &SsdShape {
        &self.shape
    }

    /// Element and page in the element (static striping: a pure function of the address).
    #[inline]
    fn place_of(&self, page: PageNo) -> (usize, u32) {
        let (row, in_row) = self.by_stride.divide(page.0);
        let (turn, element) = self.by_element.divide(row);
        (element as usize, turn * self.shape.config.stride + in_row)
    }

    /// The present time, for [`DeviceView::collecting`].
    #[inline]
    pub fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Reads a page; returns when its data is there.
    #[inline]
    pub fn read(&mut self, now: Nanos, page: PageNo) -> Nanos {
        let (element, lpn) = self.place_of(page);
        self.elements[element].read(&self.shape, now, lpn)
    }

    /// Programs a page; returns when it is done.
    #[inline]
    pub fn program(&mut self, now: Nanos, page: PageNo) -> Nanos {
        let (element, lpn) = self.place_of(page);
        self.elements[element].program(&self.shape, now, lpn)
    }

    /// Forgets a page's data; takes no time.
    pub fn trim(&mut self, page: PageNo) {
        let (element, lpn) = self.place_of(page);
        self.elements[element].trim(lpn);
    }

    /// Forgets all counters, as between warm-up and measurement; the flash stays as it is.
    pub fn reset_counters(&mut self) {
        for element in &mut self.elements {
            element.reset_counters();
        }
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
        self.elements
            .iter()
            .enumerate()
            .try_for_each(|(i, element)| element.check().map_err(|error| format!("element {i}: {error}")))
    }
}

impl DeviceView for Ssd {
    fn units(&self) -> u32 {
        self.shape.config.elements
    }

    fn unit_of(&self, page: PageNo) -> u32 {
        self.place_of(page).0 as u32
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
}
