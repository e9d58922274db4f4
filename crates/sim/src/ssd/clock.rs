//! Holds the state that every element of an SSD has under any translation layer: until when it is busy, when
//! it collects, and its counts.

use std::collections::VecDeque;

use destage_plan::Nanos;

/// Collections that an element keeps in mind ahead of time. One that is further behind is
/// overloaded beyond any use of its response times; the last of them then stands for all that
/// follow.
const COLLECTIONS_AHEAD: usize = 1 << 14;

/// Counts the work of an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ElementCounters {
    /// Pages read for hosts and for padding (not those moved by collection).
    pub flash_reads: u64,
    /// Pages programmed for hosts, padding included.
    pub host_programs: u64,
    /// Valid pages moved by collection: each read and programmed; counted where it was programmed.
    pub gc_pages_moved: u64,
    /// Summary pages programmed.
    pub summary_programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Of these, because the SSD was told to collect.
    pub ordered_erases: u64,
    /// Collections; of a log-block layer, log blocks reclaimed.
    pub gc_invocations: u64,
    /// Time spent collecting.
    pub gc_time: Nanos,
    /// Time spent on anything, summed over the lanes; a collection occupies all of them.
    pub busy_time: Nanos,
    /// Reads of pages that were never written: no flash operation.
    pub unmapped_reads: u64,
    /// Merges in which a complete log block became the data block.
    pub switch_merges: u64,
    /// Merges in which a log block was completed with copies and became the data block.
    pub partial_merges: u64,
    /// Merges in which a block was copied into a clean one.
    pub full_merges: u64,
}

impl ElementCounters {
    /// Pages programmed for whatever reason.
    pub fn flash_writes(&self) -> u64 {
        self.host_programs + self.gc_pages_moved + self.summary_programs
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            flash_reads: self.flash_reads + other.flash_reads,
            host_programs: self.host_programs + other.host_programs,
            gc_pages_moved: self.gc_pages_moved + other.gc_pages_moved,
            summary_programs: self.summary_programs + other.summary_programs,
            erases: self.erases + other.erases,
            ordered_erases: self.ordered_erases + other.ordered_erases,
            gc_invocations: self.gc_invocations + other.gc_invocations,
            gc_time: self.gc_time + other.gc_time,
            busy_time: self.busy_time + other.busy_time,
            unmapped_reads: self.unmapped_reads + other.unmapped_reads,
            switch_merges: self.switch_merges + other.switch_merges,
            partial_merges: self.partial_merges + other.partial_merges,
            full_merges: self.full_merges + other.full_merges,
        }
    }
}

/// A collection of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementCollection {
    /// Holds the begin.
    pub start: Nanos,
    /// Holds the end.
    pub end: Nanos,
    /// Blocks that it reclaims.
    pub blocks: u32,
}

/// An element's time: it serves operations in the order in which they are issued.
#[derive(Clone, Debug)]
pub(super) struct ElementClock {
    /// Busy until, per lane.
    busy_until: Vec<Nanos>,
    /// Says until when the busiest lane is busy: every channel is asked that before each page.
    latest: Nanos,
    /// Collections that have not ended, or not been asked about since: the element is in GC from
    /// start to end.
    pub(super) collections: VecDeque<(Nanos, Nanos)>,
    /// Somebody is told of each collection's end, so that none is forgotten before that.
    pub(super) watched: bool,
    /// Those that were decided on and not told of so far, if somebody is told.
    pub(super) news: Option<Vec<ElementCollection>>,
    pub(super) counters: ElementCounters,
}

impl ElementClock {
    /// An element with so many lanes, which work in parallel.
    pub(super) fn new(lanes: u32) -> Self {
        Self {
            busy_until: vec![Nanos::ZERO; lanes as usize],
            latest: Nanos::ZERO,
            collections: VecDeque::new(),
            watched: false,
            news: None,
            counters: ElementCounters::default(),
        }
    }

    #[inline]
    pub(super) fn lanes(&self) -> usize {
        self.busy_until.len()
    }

    /// Forgets times and counters: the start of a run.
    pub(super) fn reset(&mut self) {
        self.busy_until.fill(Nanos::ZERO);
        self.latest = Nanos::ZERO;
        self.collections.clear();
        self.news.iter_mut().for_each(Vec::clear);
        self.counters = ElementCounters::default();
    }

    /// Has a lane do something that takes this time, once it has done what it has to do; returns
    /// when it is done.
    #[inline]
    pub(super) fn occupy(&mut self, lane: usize, now: Nanos, time: Nanos) -> Nanos {
        let done = self.busy_until[lane].max(now) + time;
        self.busy_until[lane] = done;
        self.latest = self.latest.max(done);
        self.counters.busy_time += time;
        done
    }

    /// Has all lanes work for this time, once all have done what they have to do; returns when they
    /// begin.
    pub(super) fn occupy_all(&mut self, now: Nanos, time: Nanos) -> Nanos {
        let start = self.busy_until().max(now);
        self.latest = start + time;
        self.busy_until.fill(self.latest);
        self.counters.busy_time += Nanos(time.0 * self.lanes() as u64);
        start
    }

    /// Until when the element is busy with what it was given.
    #[inline]
    pub(super) const fn busy_until(&self) -> Nanos {
        self.latest
    }

    /// Takes note, at this time, of a collection.
    pub(super) fn collects(&mut self, now: Nanos, collection: ElementCollection) {
        let ElementCollection { start, end, .. } = collection;
        if let Some(news) = &mut self.news {
            news.push(collection);
        }
        while !self.watched && self.collections.front().is_some_and(|&(_, end)| end <= now) {
            self.collections.pop_front();
        }
        if self.collections.len() < COLLECTIONS_AHEAD {
            self.collections.push_back((start, end));
        // Memory stays bounded for an overloaded element, whose response times mean nothing anyway.
        } else if let Some(last) = self.collections.back_mut() {
            last.1 = end;
        }
    }

    /// Returns the part of the time from `at` to `done` in which the element collects.
    pub(super) fn collecting_between(&self, at: Nanos, done: Nanos) -> Nanos {
        let mut time = Nanos::ZERO;
        // They follow each other in time, and what ends after `at` is behind what does not.
        for &(start, end) in self.collections.iter().rev() {
            if end <= at {
                break;
            }
            time += end.min(done).since(start.max(at).min(done));
        }
        time
    }

    /// The end of the collection that is under way now.
    pub(super) fn end_under_way(&self, now: Nanos) -> Option<Nanos> {
        // They follow each other in time, and only few have ended.
        let next = self.collections.iter().find(|&&(_, end)| now < end);
        next.filter(|&&(start, _)| start <= now).map(|&(_, end)| end)
    }
}
