//! Counts the characteristics of a trace while it is simulated.

use std::sync::{Arc, Mutex, PoisonError};

use destage_plan::{PageGeometry, Request};
use destage_trace::{ThroughSource, TraceStat};

use super::{OpenedInput, TraceReplay};
use crate::measure::TraceCharacteristics;

/// Entries of the set of pages at most, some 200 MB; a trace that needs more has its different
/// pages not counted.
const PAGE_ENTRIES: usize = 1 << 21;

struct KindCount {
    geometry: PageGeometry,
    stat: TraceStat,
    /// Requests that still count.
    left: u64,
    knows_pages: bool,
}

/// Counts the requests that go by.
#[derive(Clone)]
pub struct CharacteristicsCounter(Arc<Mutex<KindCount>>);

impl CharacteristicsCounter {
    /// Counts the requests that are read for this replay, in its pages.
    pub fn new(replay: &TraceReplay) -> Self {
        let (geometry, left) = (replay.geometry, replay.limit.unwrap_or(u64::MAX));
        Self(Arc::new(Mutex::new(KindCount { geometry, stat: TraceStat::new(geometry), left, knows_pages: true })))
    }

    /// The input, whose requests are counted as they are read.
    pub fn count(&self, input: OpenedInput) -> OpenedInput {
        let counter = self.clone();
        let source = ThroughSource::new(input.source, move |inner, out| {
            inner.next_batch(out)?;
            counter.feed(out);
            Ok(())
        });
        OpenedInput { source: Box::new(source), format: input.format }
    }

    fn feed(&self, requests: &[Request]) {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = usize::try_from(count.left).unwrap_or(usize::MAX).min(requests.len());
        count.left -= taken as u64;
        count.stat.feed(&requests[..taken]);
        if count.stat.page_entries() > PAGE_ENTRIES {
            count.stat.forget_pages();
            count.knows_pages = false;
        }
    }

    /// Returns the characteristics. The trace has been read to its end, or its limit.
    pub fn finish(&self) -> TraceCharacteristics {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = TraceStat::new(count.geometry);
        let s = std::mem::replace(&mut count.stat, fresh).finish();
        let known = |pages| count.knows_pages.then_some(pages);
        TraceCharacteristics {
            reads: s.reads,
            writes: s.writes,
            flushes: s.flushes,
            discards: s.discards,
            read_bytes: s.read_bytes,
            write_bytes: s.write_bytes,
            read_page_touches: s.read_page_touches,
            write_page_touches: s.write_page_touches,
            unique_pages: known(s.unique_pages),
            unique_pages_read: known(s.unique_pages_read),
            unique_pages_written: known(s.unique_pages_written),
            write_sizes: s.write_sizes.to_vec(),
            sequential: s.sequential,
            duration: s.duration.0,
            volumes: s.volumes,
            max_address: s.max_address,
        }
    }
}
