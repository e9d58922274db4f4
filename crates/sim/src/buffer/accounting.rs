//! Counts a run's accesses and evictions.

use destage_policy::buffer::{AccessOutcome, EvictionKind, Evictions, PageAccess};

use super::result::BufferCounters;

/// Names the counters to which an eviction belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvictionPhase {
    Run,
    /// After a collection.
    Destage,
    Flush,
    Trim,
    Drain,
}

/// Victims that a phase wrote, and what their blocks lacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WrittenVictims {
    /// Those that held dirty pages.
    pub(super) dirty: u64,
    /// Pages that the blocks of these lacked.
    pub(super) missing_pages: u64,
}

/// Classes of [`BufferCounters::eviction_sizes`]: a block has at most 2^16 pages.
const SIZE_CLASSES: usize = 17;

/// The class of a victim of so many pages: the smallest `i` with `pages <= 2^i`.
#[inline]
fn size_class(pages: u32) -> usize {
    pages.next_power_of_two().trailing_zeros() as usize
}

/// Counters at zero.
fn counters() -> BufferCounters {
    BufferCounters { eviction_sizes: vec![0; SIZE_CLASSES], ..BufferCounters::default() }
}

/// The counters of a run, with what they need to know of victims that have not left altogether.
pub(super) struct RunAccounting {
    pub(super) counters: BufferCounters,
    pub(super) victims: WrittenVictims,
    pub(super) flush_victims: WrittenVictims,
    pub(super) drain_victims: WrittenVictims,
    /// Pages of a whole victim: of a block, or one.
    pages_per_victim: u32,
    /// Pages that have left of victims that have not left altogether, and whether some were dirty.
    leaving: (u32, bool),
}

impl RunAccounting {
    /// Nothing is counted yet.
    pub(super) fn new(pages_per_victim: u32) -> Self {
        Self {
            counters: counters(),
            victims: WrittenVictims::default(),
            flush_victims: WrittenVictims::default(),
            drain_victims: WrittenVictims::default(),
            pages_per_victim,
            leaving: (0, false),
        }
    }

    /// Forgets what was counted.
    pub(super) fn restart(&mut self) {
        *self = Self { leaving: self.leaving, ..Self::new(self.pages_per_victim) };
    }

    /// Counts one page access.
    #[inline]
    pub(super) fn accessed(&mut self, access: PageAccess, outcome: AccessOutcome) {
        let c = &mut self.counters;
        if access.write {
            c.write_pages += 1;
            match outcome {
                AccessOutcome::Hit => c.write_hits += 1,
                AccessOutcome::Inserted => c.write_insertions += 1,
                AccessOutcome::Bypassed => c.bypassed_writes += 1,
            }
        } else {
            c.read_pages += 1;
            match outcome {
                AccessOutcome::Hit => c.read_hits += 1,
                AccessOutcome::Inserted => {}
                AccessOutcome::Bypassed => c.bypassed_reads += 1,
            }
        }
    }

    /// Is true if no victim has left in part.
    #[inline]
    pub(super) fn is_between_victims(&self) -> bool {
        self.leaving == (0, false)
    }

    /// The same as [`Self::evicted`] during the run for one page that is all that leaves, between
    /// victims.
    #[inline]
    pub(super) fn evicted_page(&mut self, kind: EvictionKind) {
        let c = &mut self.counters;
        c.evictions += 1;
        c.evicted_pages += 1;
        c.eviction_sizes[size_class(1)] += 1;
        if kind == EvictionKind::Flush {
            c.dirty_pages_flushed += 1;
            self.victims.dirty += 1;
            self.victims.missing_pages += u64::from(self.pages_per_victim - 1);
        } else {
            c.clean_drops += 1;
        }
    }

    /// Counts what leaves.
    #[inline]
    pub(super) fn evicted(&mut self, phase: EvictionPhase, out: &Evictions) {
        let c = &mut self.counters;
        let (mut clean, mut ignored) = (0, WrittenVictims::default());
        let (evictions, dirty, pads, drops, victims) = match phase {
            EvictionPhase::Run => {
                (&mut c.evictions, &mut c.dirty_pages_flushed, &mut c.pad_reads, &mut c.clean_drops, &mut self.victims)
            }
            EvictionPhase::Destage => (
                &mut c.destage_evictions,
                &mut c.destage_pages_flushed,
                &mut c.destage_pad_reads,
                &mut clean,
                &mut ignored,
            ),
            EvictionPhase::Flush => (
                &mut c.flush_evictions,
                &mut c.flush_pages_flushed,
                &mut c.flush_pad_reads,
                &mut clean,
                &mut self.flush_victims,
            ),
            EvictionPhase::Drain => (
                &mut c.drain_evictions,
                &mut c.drain_pages_flushed,
                &mut c.drain_pad_reads,
                &mut clean,
                &mut self.drain_victims,
            ),
            EvictionPhase::Trim => {
                c.trimmed_pages += out.groups().map(|(group, _)| u64::from(group.len())).sum::<u64>();
                return;
            }
        };
        // Victims that leave page by page, a few of several at a time, end in another call than
        // they begin.
        let (mut left_pages, mut left_dirty) =
            if phase == EvictionPhase::Run { std::mem::take(&mut self.leaving) } else { (0, false) };
        let mut all_pages = 0;
        for (group, _) in out.groups() {
            let pages = group.len();
            all_pages += if group.kind == EvictionKind::Pad { 0 } else { u64::from(pages) };
            match group.kind {
                EvictionKind::Pad => *pads += u64::from(pages),
                EvictionKind::Drop => {
                    *drops += u64::from(pages);
                    left_pages += pages;
                }
                EvictionKind::Flush | EvictionKind::Clean => {
                    *dirty += u64::from(pages);
                    left_pages += pages;
                    left_dirty = true;
                }
            }
            if group.units > 0 {
                // Several victims that end together are taken to be alike.
                let ended = u64::from(group.units);
                *evictions += ended;
                if phase == EvictionPhase::Run {
                    let size = (left_pages / group.units).min(self.pages_per_victim);
                    c.eviction_sizes[size_class(size)] += ended;
                }
                if left_dirty {
                    victims.dirty += ended;
                    victims.missing_pages +=
                        u64::from((self.pages_per_victim * group.units).saturating_sub(left_pages));
                }
                (left_pages, left_dirty) = (0, false);
            }
        }
        if phase == EvictionPhase::Run {
            c.evicted_pages += all_pages;
            self.leaving = (left_pages, left_dirty);
        }
    }

    /// Works out what follows from what was counted.
    pub(super) fn finish(&mut self, memory_accesses: u64) {
        let c = &mut self.counters;
        c.accesses = c.read_pages + c.write_pages;
        c.hits = c.read_hits + c.write_hits;
        c.misses = c.accesses - c.hits;
        c.memory_accesses = memory_accesses;
        let sizes = c.eviction_sizes.iter().rposition(|&victims| victims > 0).map_or(0, |last| last + 1);
        c.eviction_sizes.truncate(sizes);
    }
}
