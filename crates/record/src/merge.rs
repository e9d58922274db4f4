//! The CPUs' events in order of time.

use std::collections::VecDeque;

use crate::event::{BlockEvent, EventLayouts};
use crate::page::PageParser;
use crate::{PageFault, RecordError};

/// Sets how long after its time an event may become visible, in ns.
///
/// An interrupt can come between its writer's look at the clock and the end of writing.
const SETTLE_NS: u64 = 2_000_000;

/// The per-CPU ring buffers and their clock; the kernel's, or a test's.
pub trait CpuRings {
    /// Returns the number of CPUs, which does not change.
    fn cpus(&self) -> usize;

    /// Takes a page from a CPU's buffer into `page`, if there is one.
    fn read(&mut self, cpu: usize, page: &mut Vec<u8>) -> Result<bool, RecordError>;

    /// The clock from which events have their times, nanoseconds.
    fn now(&self) -> u64;
}

/// Keeps the state of a CPU's buffer.
struct CpuState {
    /// Events read and not yet taken: those of one page at most.
    events: VecDeque<BlockEvent>,
    /// Holds the time at which its buffer was last found empty: older events have been read.
    seen: u64,
    /// Is true if that was in the present call of [`EventMerge::drain`].
    empty: bool,
}

/// Merges the events of all CPUs; holds a page of each.
///
/// An event is given only when no older one can come any more: when every CPU has a younger event
/// waiting, or was seen empty well after it. Should one come nevertheless, it is given late, and
/// counted.
pub struct EventMerge {
    parser: PageParser,
    layouts: EventLayouts,
    cpus: Vec<CpuState>,
    page: Vec<u8>,
    last: u64,
    /// Events that came later than a younger one.
    pub late: u64,
    /// Events of other kinds, or too short for their kind.
    pub strange: u64,
    /// Times that the kernel said that it had overwritten events.
    pub gaps: u64,
}

impl EventMerge {
    /// Merges the events of so many CPUs.
    #[must_use]
    pub fn new(parser: PageParser, layouts: EventLayouts, cpus: usize) -> Self {
        let cpus = (0..cpus).map(|_| CpuState { events: VecDeque::new(), seen: 0, empty: false }).collect();
        Self { parser, layouts, cpus, page: vec![], last: 0, late: 0, strange: 0, gaps: 0 }
    }

    /// Gives all events that are old enough to `take`, in order of time; with `all` those younger
    /// too: nothing can come any more.
    pub fn drain(
        &mut self,
        rings: &mut dyn CpuRings,
        all: bool,
        take: &mut dyn FnMut(BlockEvent) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        // Without this bound, events that come as fast as they are taken would keep the recorder of a single CPU
        // here.
        let bound = if all { u64::MAX } else { rings.now() };
        self.drain_until(rings, all, bound, take)
    }

    /// The same for events up to the time `bound`.
    pub fn drain_until(
        &mut self,
        rings: &mut dyn CpuRings,
        all: bool,
        bound: u64,
        take: &mut dyn FnMut(BlockEvent) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        for cpu in &mut self.cpus {
            cpu.empty = false;
        }
        loop {
            // One pass finds the CPU with the oldest event, and how far its events can be taken without another
            // look.
            let mut oldest: Option<(u64, usize)> = None;
            let mut limit = bound;
            for index in 0..self.cpus.len() {
                if self.cpus[index].events.is_empty() && !self.cpus[index].empty {
                    self.refill(index, rings)?;
                }
                let cpu = &self.cpus[index];
                match (cpu.events.front(), oldest) {
                    (None, _) if all => {}
                    // An empty buffer promises nothing about the last two milliseconds.
                    (None, _) => limit = limit.min(cpu.seen.saturating_sub(SETTLE_NS)),
                    // The other CPU's oldest event bounds the run, so ties go to the CPU that was found first.
                    (Some(head), Some((time, _))) if time <= head.time => limit = limit.min(head.time),
                    (Some(head), before) => {
                        limit = before.map_or(limit, |(time, _)| limit.min(time));
                        oldest = Some((head.time, index));
                    }
                }
            }
            let Some((_, index)) = oldest.filter(|&(time, _)| time <= limit) else { return Ok(()) };
            while let Some(event) = self.cpus[index].events.pop_front_if(|event| event.time <= limit) {
                self.late += u64::from(event.time < self.last);
                self.last = self.last.max(event.time);
                take(event)?;
            }
        }
    }

    /// Reads the next page of a CPU that has events of interest.
    fn refill(&mut self, index: usize, rings: &mut dyn CpuRings) -> Result<(), RecordError> {
        while self.cpus[index].events.is_empty() {
            // Before the read: an event that comes in between may be missed, and is then younger than this.
            let now = rings.now();
            if !rings.read(index, &mut self.page)? {
                self.cpus[index].seen = now;
                self.cpus[index].empty = true;
                return Ok(());
            }
            let named = |fault: PageFault| RecordError::Page { cpu: index, fault };
            let page = self.parser.page(&self.page).map_err(named)?;
            self.gaps += u64::from(page.lost.is_some());
            for event in page.events() {
                match self.layouts.decode(&event.map_err(named)?) {
                    Some(event) => self.cpus[index].events.push_back(event),
                    None => self.strange += 1,
                }
            }
        }
        Ok(())
    }
}
