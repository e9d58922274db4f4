//! Assigns the effects of each request to a volume, where a run is asked for that.

use destage_plan::{Nanos, Op, PageNo};
use destage_policy::buffer::{EvictionKind, Evictions};

use super::accounting::EvictionPhase;
use super::result::BufferCounters;
use super::timing::{AnsweredTimes, RunTiming};
use crate::input::{FeedRequest, PageSpan, RequestOrigin};
use crate::measure::{LoggedRequest, PendingLog, PerVolume, RequestLog, VolumeSlot};

/// Holds the bytes that the watch keeps of a page.
pub(super) const BYTES_PER_PAGE: u64 = 2;
/// The writer of a page that was not asked for yet.
const NOBODY: u16 = u16::MAX;

/// Holds counts up to a moment.
#[derive(Clone, Copy)]
pub(super) struct CountedPages {
    read_pages: u64,
    write_pages: u64,
    read_hits: u64,
    write_hits: u64,
    bypassed_writes: u64,
    answered: AnsweredTimes,
}

impl CountedPages {
    /// Up to now.
    pub(super) fn until_now(counters: &BufferCounters, timing: &RunTiming) -> Self {
        Self {
            read_pages: counters.read_pages,
            write_pages: counters.write_pages,
            read_hits: counters.read_hits,
            write_hits: counters.write_hits,
            bypassed_writes: counters.bypassed_writes,
            answered: timing.answered(),
        }
    }

    fn pages(&self) -> u64 {
        self.read_pages + self.write_pages
    }

    fn hits(&self) -> u64 {
        self.read_hits + self.write_hits
    }

    /// The response time of the one request that was answered since `before`, if it was.
    fn response_since(&self, before: &Self) -> Option<Nanos> {
        // One request lies between the two moments, so the difference of sums is its response time.
        let time = self.answered.time - before.answered.time;
        (self.answered.count > before.answered.count).then(|| Nanos(time.min(u128::from(u64::MAX)) as u64))
    }
}

/// Notes the effects of each request.
pub(super) struct RunWatch {
    /// Holds the figures of each volume, if they are wanted.
    pub(super) volumes: Option<PerVolume>,
    log: Option<PendingLog>,
    /// The volume of the request under way.
    present: VolumeSlot,
    /// Of each page the place of the volume whose request wrote it last; of one that was not written
    /// yet, of the first that asked for it.
    writers: Vec<u16>,
    pages_per_block: u32,
}

impl RunWatch {
    /// Notes nothing until there is something to write it to.
    pub(super) fn of_nothing() -> Self {
        Self { volumes: None, log: None, present: VolumeSlot(0), writers: Vec::new(), pages_per_block: 1 }
    }

    /// Notes what each volume brings.
    pub(super) fn of_volumes(pages_per_block: u32) -> Self {
        Self { volumes: Some(PerVolume::new()), pages_per_block, ..Self::of_nothing() }
    }

    /// Writes requests to a log, too.
    pub(super) fn log_to(&mut self, log: Box<dyn RequestLog>) {
        self.log = Some(PendingLog::new(log));
    }

    /// Is true if there is a log and it takes no more.
    pub(super) fn has_given_up(&self) -> bool {
        self.log.as_ref().is_some_and(PendingLog::has_given_up)
    }

    /// Returns the bytes that a watch takes over a device of so many pages.
    pub(super) fn memory_bytes(pages: u32) -> u64 {
        PerVolume::memory_bytes() + BYTES_PER_PAGE * u64::from(pages)
    }

    /// Forgets what was counted: the measured part begins.
    pub(super) fn restart(&mut self) {
        if let Some(volumes) = &mut self.volumes {
            volumes.restart();
        }
    }

    /// A request comes; page numbers are below `pages`. From now on the pages that it writes are its
    /// volume's.
    pub(super) fn begin(&mut self, request: &FeedRequest, origin: RequestOrigin, spans: &[PageSpan], pages: u32) {
        let Some(volumes) = &mut self.volumes else { return };
        if self.writers.len() < pages as usize {
            self.writers.resize(pages as usize, NOBODY);
        }
        self.present = volumes.slot(origin.volume);
        volumes.of(self.present).requested(request.op, request.bytes);
        for span in spans {
            let range = span.page as usize..(span.page + span.pages) as usize;
            for writer in &mut self.writers[range] {
                // A later eviction of the page is charged to the volume that made it dirty.
                if request.op == Op::Write || *writer == NOBODY {
                    *writer = self.present.0;
                }
            }
        }
    }

    /// Adds the counts between the two moments to the request's volume, once the request has been served.
    pub(super) fn end(&mut self, before: &CountedPages, after: &CountedPages) {
        let Some(volumes) = &mut self.volumes else { return };
        let counts = volumes.of(self.present);
        counts.read_pages += after.read_pages - before.read_pages;
        counts.write_pages += after.write_pages - before.write_pages;
        counts.read_hits += after.read_hits - before.read_hits;
        counts.write_hits += after.write_hits - before.write_hits;
        counts.pages_written += after.bypassed_writes - before.bypassed_writes;
        if let Some(time) = after.response_since(before) {
            counts.responded(time);
        }
    }

    /// Notes that request, which arrived then, for the log.
    pub(super) fn log(
        &mut self,
        request: &FeedRequest,
        origin: RequestOrigin,
        arrival: Nanos,
        before: &CountedPages,
        after: &CountedPages,
    ) {
        if let Some(log) = &mut self.log {
            log.extend([LoggedRequest {
                request: origin.request,
                arrival,
                volume: origin.volume,
                offset: origin.offset,
                bytes: request.bytes,
                op: request.op,
                response: after.response_since(before),
                pages: after.pages() - before.pages(),
                hit_pages: Some(after.hits() - before.hits()),
                gc_delayed: after.answered.gc_delayed > before.answered.gc_delayed,
            }]);
        }
    }

    /// Gives the log what was noted for it.
    pub(super) fn hand_over(&mut self) {
        if let Some(log) = &mut self.log {
            log.hand_over();
        }
    }

    /// Notes whose pages leave.
    pub(super) fn evicted(&mut self, phase: EvictionPhase, out: &Evictions) {
        // A trim writes nothing, so it has no cost to charge.
        let Some(volumes) = self.volumes.as_mut().filter(|_| phase != EvictionPhase::Trim) else { return };
        let writers = PageWriters { of: &self.writers, present: self.present };
        let mut pads: &[PageNo] = &[];
        for (group, pages) in out.groups() {
            match group.kind {
                EvictionKind::Drop => {}
                EvictionKind::Pad => pads = pages,
                EvictionKind::Flush | EvictionKind::Clean => {
                    let pads = std::mem::take(&mut pads);
                    if phase != EvictionPhase::Drain {
                        fill_up(volumes, writers, pads, pages, self.pages_per_block);
                    }
                    for &page in pages {
                        let counts = volumes.of(writers.writer(page));
                        if phase == EvictionPhase::Drain {
                            counts.drained_pages += 1;
                        } else {
                            counts.pages_written += 1;
                        }
                    }
                }
            }
        }
    }
}

/// Whose pages are.
#[derive(Clone, Copy)]
struct PageWriters<'a> {
    of: &'a [u16],
    present: VolumeSlot,
}

impl PageWriters<'_> {
    fn writer(self, page: PageNo) -> VolumeSlot {
        match self.of.get(page.0 as usize) {
            Some(&writer) if writer != NOBODY => VolumeSlot(writer),
            _ => self.present,
        }
    }
}

/// Counts pages that fill up the blocks of others: for the volume that wrote the first of these in the
/// same block.
fn fill_up(
    volumes: &mut PerVolume,
    writers: PageWriters<'_>,
    pads: &[PageNo],
    written: &[PageNo],
    pages_per_block: u32,
) {
    let same = |a: &PageNo, b: &PageNo| a.0 / pages_per_block == b.0 / pages_per_block;
    for filling in pads.chunk_by(same) {
        // Padding is caused by whoever wrote into the block; a block that several wrote has one payer.
        let first = written.iter().find(|page| same(page, &filling[0])).or(written.first());
        if let Some(&page) = first {
            volumes.of(writers.writer(page)).pad_pages += filling.len() as u64;
        }
    }
}
