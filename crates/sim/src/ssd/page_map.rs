//! The page map with greedy collection (specs §1.2, after the MSR SSD extension).
//!
//! An element serves its operations in the order in which they are issued, so it needs no event per
//! page, only the time until which it is busy. Collection happens in that order too: before an
//! operation is issued whose pool has too few free blocks, and the element does nothing else
//! meanwhile.
//!
//! With [`PageAllocation::Channels`] (specs §1.3, CAWR) each element is a channel with its own write
//! point. A page goes to the channel that whoever writes it chose, or else to the next one in turn, or to the one
//! that is idle first ([`SsdConfig::idle_first`](super::SsdConfig::idle_first));
//! its old copy, wherever that is, is only outdated. Reads go where the page is, and collection
//! moves pages inside their channel. Since nothing keeps a buffer from choosing the same channel
//! for ever, a channel takes no more valid pages than it can hold and still collect; beyond that
//! the page goes to the next channel that has room, and is counted.

use destage_plan::{Nanos, PageNo, Quota};

use super::clock::ElementClock;
use super::divisor::FastDivisor;
use super::element::{ElementState, UNMAPPED};
use super::geometry::{PageAllocation, SsdShape};
use super::pool::PageStates;
use crate::experiment::{StopSignal, is_told};

/// A page-mapping SSD.
#[derive(Clone, Debug)]
pub(super) struct PageMap {
    pub(super) shape: SsdShape,
    pub(super) elements: Vec<ElementState>,
    /// Logical page → physical page over all elements, or [`UNMAPPED`]. The pages of one element
    /// after those of the other; with channels, in the order of their numbers.
    map: Vec<u32>,
    by_element: FastDivisor,
    by_stride: FastDivisor,
    by_raw_pages: FastDivisor,
    channels: ChannelTurns,
}

/// Holds the further state for [`PageAllocation::Channels`].
#[derive(Clone, Debug, Default)]
struct ChannelTurns {
    /// Valid pages of each channel; empty with static allocation.
    valid: Vec<u32>,
    /// Whose turn it is.
    next: u32,
    redirected: u64,
}

impl PageMap {
    /// Empty flash of this shape.
    pub(super) fn empty(shape: SsdShape) -> Self {
        let c = &shape.config;
        let in_channels = c.allocation == PageAllocation::Channels;
        // Static striping lets each element use a range of the map, so the element need not be stored.
        let pages = if in_channels { shape.host_pages } else { c.elements * shape.element_pages };
        Self {
            elements: (0..c.elements).map(|number| ElementState::empty(&shape, number)).collect(),
            map: vec![UNMAPPED; pages as usize],
            by_element: FastDivisor::new(c.elements),
            by_stride: FastDivisor::new(c.stride),
            by_raw_pages: FastDivisor::new(shape.raw_pages),
            channels: ChannelTurns {
                valid: vec![0; if in_channels { c.elements as usize } else { 0 }],
                ..ChannelTurns::default()
            },
            shape,
        }
    }

    /// Maps every page that hosts can address, in ascending order, unless it is told to end.
    pub(super) fn fill(&mut self, stop: Option<&StopSignal>) {
        let (count, share, stride) = (self.shape.config.elements, self.shape.element_pages, self.shape.config.stride);
        let (rounds, rest) = (self.shape.host_pages / (stride * count), self.shape.host_pages % (stride * count));
        for (number, element) in (0..count).zip(&mut self.elements).take_while(|_| !is_told(stop)) {
            if self.channels.valid.is_empty() {
                // An element's pages come in the order of its entries, so that those beyond the
                // last host page come last.
                let held = rounds * stride + rest.saturating_sub(number * stride).min(stride);
                element.fill(&self.shape, &mut self.map, number * share..number * share + held);
            } else {
                let pages = (number..self.shape.host_pages).step_by(count as usize);
                self.channels.valid[number as usize] = pages.len() as u32;
                element.fill(&self.shape, &mut self.map, pages);
            }
        }
    }

    /// Times, counters, turns and wear begin anew; what the flash holds stays.
    pub(super) fn begin_run(&mut self) {
        for element in &mut self.elements {
            // Ageing must leave no trace in times and wear, which belong to the measured run.
            element.begin_run();
        }
        self.channels.next = 0;
        self.channels.redirected = 0;
    }

    pub(super) fn clock(&self, element: usize) -> &ElementClock {
        &self.elements[element].clock
    }

    pub(super) fn clock_mut(&mut self, element: usize) -> &mut ElementClock {
        &mut self.elements[element].clock
    }

    fn in_channels(&self) -> bool {
        self.shape.config.allocation == PageAllocation::Channels
    }

    /// Element and entry of the map (static striping: a pure function of the address).
    #[inline]
    fn place_of(&self, page: PageNo) -> (usize, u32) {
        let (row, in_row) = self.by_stride.divide(page.0);
        let (turn, element) = self.by_element.divide(row);
        (element as usize, element * self.shape.element_pages + turn * self.shape.config.stride + in_row)
    }

    /// The page's entry in the map; what is known of blocks is small.
    #[inline]
    pub(super) fn prefetch(&self, page: PageNo) -> u32 {
        self.map[if self.in_channels() { page.0 } else { self.place_of(page).1 } as usize]
    }

    /// The element that a physical page is in.
    #[inline]
    fn element_of(&self, ppn: u32) -> usize {
        self.by_raw_pages.divide(ppn).0 as usize
    }

    /// Reads a page; returns when its data is there.
    #[inline]
    pub(super) fn read(&mut self, now: Nanos, page: PageNo) -> Nanos {
        let (element, ppn) = if self.in_channels() {
            let ppn = self.map[page.index()];
            // A page that was never written is read nowhere; the channel whose turn it is counts
            // that.
            (if ppn == UNMAPPED { self.channels.next as usize } else { self.element_of(ppn) }, ppn)
        } else {
            let (element, entry) = self.place_of(page);
            (element, self.map[entry as usize])
        };
        self.elements[element].read(&self.shape, &mut self.map, now, ppn)
    }

    /// Programs a page; with channels into the one whose turn it is. Returns when it is done.
    #[inline(always)]
    pub(super) fn program(&mut self, now: Nanos, page: PageNo) -> Nanos {
        if let Some(channel) = self.turn() {
            return self.program_through(now, page, channel.into());
        }
        let (element, entry) = self.place_of(page);
        let element = &mut self.elements[element];
        let pool = element.make_room(&self.shape, &mut self.map, now);
        let old = self.map[entry as usize];
        // The map was read after `make_room`, whose collection may have moved the page.
        if old != UNMAPPED {
            element.invalidate(old);
        }
        element.program(&self.shape, &mut self.map, now, pool, entry)
    }

    /// Programs a page into this channel, or the next one with room; returns when it is done.
    #[inline(never)]
    pub(super) fn program_through(&mut self, now: Nanos, page: PageNo, channel: u32) -> Nanos {
        let held_by = |ssd: &Self| {
            let old = ssd.map[page.index()];
            (old != UNMAPPED).then(|| (ssd.element_of(old), old))
        };
        let loses = held_by(self).map(|(element, _)| element);
        let count = self.elements.len();
        // A channel full of valid pages could never be collected, so the page goes to the next one.
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
    pub(super) fn turn(&mut self) -> Option<u16> {
        if !self.in_channels() {
            return None;
        }
        let channel = self.whose_turn();
        self.channels.next = if channel + 1 == self.shape.config.elements { 0 } else { channel + 1 };
        Some(channel as u16)
    }

    /// The channel whose turn it is, or the one that is idle first; of several the one whose turn comes next.
    #[inline]
    fn whose_turn(&self) -> u32 {
        if self.shape.config.idle_first { self.idle_first() } else { self.channels.next }
    }

    fn idle_first(&self) -> u32 {
        let (before, after) = self.elements.split_at(self.channels.next as usize);
        let idle = after.iter().chain(before).map(|element| element.clock.busy_until());
        let (ahead, _) = idle.enumerate().min_by_key(|&(_, until)| until).expect("there is a channel");
        (self.channels.next + ahead as u32) % self.shape.config.elements
    }

    /// The element that would program the page now: of its address, or else of the choice or of the
    /// turns.
    pub(super) fn target(&self, page: PageNo, channel: Option<u16>) -> u32 {
        if self.in_channels() {
            channel.map_or_else(|| self.whose_turn(), u32::from)
        } else {
            self.place_of(page).0 as u32
        }
    }

    /// Has every element collect as much as it is told to and can gain from; returns when they have.
    pub(super) fn collect(&mut self, now: Nanos, quota: Quota) -> Nanos {
        let Self { elements, shape, map, .. } = self;
        elements.iter_mut().map(|element| element.collect(shape, map, now, quota)).max().unwrap_or(now)
    }

    /// Forgets a page's data; takes no time.
    pub(super) fn trim(&mut self, page: PageNo) {
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

    /// Pages that went to another channel than was chosen, which had no room.
    pub(super) fn redirected(&self) -> u64 {
        self.channels.redirected
    }

    pub(super) fn forget_redirected(&mut self) {
        self.channels.redirected = 0;
    }

    /// The element that holds the page, or would receive it.
    pub(super) fn element_of_page(&self, page: PageNo) -> u32 {
        if self.in_channels() {
            match self.map[page.index()] {
                UNMAPPED => self.channels.next,
                ppn => self.element_of(ppn) as u32,
            }
        } else {
            self.place_of(page).0 as u32
        }
    }

    /// Free blocks of an element.
    #[inline]
    pub(super) fn free_blocks(&self, element: u32) -> u32 {
        self.elements[element as usize].free_blocks()
    }

    /// Erases of every block since the start of the run.
    pub(super) fn erases(&self) -> impl Iterator<Item = u32> {
        self.elements.iter().flat_map(ElementState::erases)
    }

    pub(super) fn page_states(&self) -> PageStates {
        self.elements.iter().map(ElementState::page_states).fold(PageStates::default(), PageStates::plus)
    }

    /// Checks the flash's own laws: map and inverse agree, and exactly the mapped pages are valid.
    pub(super) fn check(&self) -> Result<(), String> {
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
