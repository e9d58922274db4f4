//! What a run notes of each request where it is asked to: to which volume belongs what it brings.

use destage_plan::{Nanos, Op, PageNo};
use destage_policy::buffer::{EvictionKind, Evictions};

use super::accounting::Phase;
use super::result::BufferCounters;
use super::timing::{Answered, Timing};
use crate::input::{FeedRequest, Origin, PageSpan};
use crate::measure::{PerVolume, VolumeSlot};

/// What it keeps of a page.
pub(super) const BYTES_PER_PAGE: u64 = 2;
/// The writer of a page that was not asked for yet.
const NOBODY: u16 = u16::MAX;

/// What was counted up to a moment.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    read_pages: u64,
    write_pages: u64,
    read_hits: u64,
    write_hits: u64,
    bypassed_writes: u64,
    answered: Answered,
}

impl Counted {
    /// Up to now.
    pub(super) fn until_now(counters: &BufferCounters, timing: &Timing) -> Self {
        Self {
            read_pages: counters.read_pages,
            write_pages: counters.write_pages,
            read_hits: counters.read_hits,
            write_hits: counters.write_hits,
            bypassed_writes: counters.bypassed_writes,
            answered: timing.answered(),
        }
    }
}

/// What is noted.
pub(super) struct Watch {
    pub(super) volumes: PerVolume,
    /// The volume of the request under way.
    present: VolumeSlot,
    /// Of each page the place of the volume whose request wrote it last; of one that was not written
    /// yet, of the first that asked for it.
    writers: Vec<u16>,
    pages_per_block: u32,
}

impl Watch {
    /// Nothing is noted yet.
    pub(super) fn new(pages_per_block: u32) -> Self {
        Self { volumes: PerVolume::new(), present: VolumeSlot(0), writers: Vec::new(), pages_per_block }
    }

    /// What it takes over a device of so many pages.
    pub(super) fn memory_bytes(pages: u32) -> u64 {
        PerVolume::memory_bytes() + BYTES_PER_PAGE * u64::from(pages)
    }

    /// Forgets what was counted: the measured part begins.
    pub(super) fn restart(&mut self) {
        self.volumes.restart();
    }

    /// A request comes; page numbers are below `pages`. From now on the pages that it writes are its
    /// volume's.
    pub(super) fn begin(&mut self, request: &FeedRequest, origin: Origin, spans: &[PageSpan], pages: u32) {
        if self.writers.len() < pages as usize {
            self.writers.resize(pages as usize, NOBODY);
        }
        self.present = self.volumes.slot(origin.volume);
        self.volumes.of(self.present).requested(request.op, request.bytes);
        for span in spans {
            let range = span.page as usize..(span.page + span.pages) as usize;
            for writer in &mut self.writers[range] {
                if request.op == Op::Write || *writer == NOBODY {
                    *writer = self.present.0;
                }
            }
        }
    }

    /// That request has been served.
    pub(super) fn end(&mut self, before: &Counted, after: &Counted) {
        let counts = self.volumes.of(self.present);
        counts.read_pages += after.read_pages - before.read_pages;
        counts.write_pages += after.write_pages - before.write_pages;
        counts.read_hits += after.read_hits - before.read_hits;
        counts.write_hits += after.write_hits - before.write_hits;
        counts.pages_written += after.bypassed_writes - before.bypassed_writes;
        if after.answered.count > before.answered.count {
            let time = after.answered.time - before.answered.time;
            counts.responded(Nanos(time.min(u128::from(u64::MAX)) as u64));
        }
    }

    /// Notes whose pages leave.
    pub(super) fn evicted(&mut self, phase: Phase, out: &Evictions) {
        if phase == Phase::Trim {
            return;
        }
        let mut pads: &[PageNo] = &[];
        for (group, pages) in out.groups() {
            match group.kind {
                EvictionKind::Drop => {}
                EvictionKind::Pad => pads = pages,
                EvictionKind::Flush | EvictionKind::Clean => {
                    self.filled_up(phase, std::mem::take(&mut pads), pages);
                    for &page in pages {
                        let counts = self.volumes.of(self.writer(page));
                        if phase == Phase::Drain {
                            counts.drained_pages += 1;
                        } else {
                            counts.pages_written += 1;
                        }
                    }
                }
            }
        }
    }

    /// Counts pages that fill up the blocks of others: for the volume that wrote the first of these
    /// in the same block.
    fn filled_up(&mut self, phase: Phase, pads: &[PageNo], written: &[PageNo]) {
        if phase == Phase::Drain {
            return;
        }
        let block = |page: &PageNo| page.0 / self.pages_per_block;
        let same = |a: &PageNo, b: &PageNo| block(a) == block(b);
        for filling in pads.chunk_by(same) {
            let first = written.iter().find(|page| same(page, &filling[0])).or(written.first());
            if let Some(&page) = first {
                self.volumes.of(self.writer(page)).pad_pages += filling.len() as u64;
            }
        }
    }

    fn writer(&self, page: PageNo) -> VolumeSlot {
        match self.writers.get(page.0 as usize) {
            Some(&writer) if writer != NOBODY => VolumeSlot(writer),
            _ => self.present,
        }
    }
}
