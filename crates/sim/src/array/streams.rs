//! Reports what SSDs with flexible data placement wrote, by stream.

use std::borrow::Cow;

use destage_plan::PlacementStream;

use crate::measure::record;
use crate::ssd::{PlacedStream, Ssd};

/// Counts what an SSD wrote, by the number of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamWork {
    /// Counts the pages that the host wrote.
    pub written: [u64; PlacementStream::ALL.len()],
    /// Counts the pages that collection copied.
    pub copied: [u64; PlacementStream::ALL.len()],
}

impl StreamWork {
    /// Returns what an SSD wrote so far.
    pub(super) fn of(ssd: &Ssd) -> Self {
        let mut work = Self::default();
        for own in ssd.streams() {
            work.written[own.stream.index()] = own.written;
            work.copied[own.stream.index()] = own.copied;
        }
        work
    }

    fn with(&self, other: &Self, each: impl Fn(u64, u64) -> u64) -> Self {
        let of = |own: &[u64; PlacementStream::ALL.len()], other: &[u64; PlacementStream::ALL.len()]| {
            std::array::from_fn(|stream| each(own[stream], other[stream]))
        };
        Self { written: of(&self.written, &other.written), copied: of(&self.copied, &other.copied) }
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, |own, other| own + other)
    }

    /// Returns what came since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, |own, earlier| own - earlier)
    }
}

record! {
    /// Counts what an SSD that keeps streams of writes apart wrote of one of them.
    pub struct StreamResult {
        stream: Cow<'static, str> ["-"] "unlabelled, journal, delta, dirty, clean, data or parity",
        handle: Option<u64> ["1"] "placement handle of its writes; streams beyond ssd.placement-handles share them; null if only a device wrote it that was replaced",
        pages_written: u64 ["1"] "pages that the host wrote",
        pages_copied: u64 ["1"] "pages of it that collection copied",
    }
}

impl StreamResult {
    /// Returns the streams of which something was written or copied; `placed` tells their handles.
    pub(super) fn all(work: &StreamWork, placed: &[PlacedStream]) -> Vec<Self> {
        let all = PlacementStream::ALL.into_iter().map(|stream| Self {
            stream: stream.word().into(),
            handle: placed.iter().find(|own| own.stream == stream).map(|own| own.handle.into()),
            pages_written: work.written[stream.index()],
            pages_copied: work.copied[stream.index()],
        });
        all.filter(|own| own.pages_written + own.pages_copied > 0).collect()
    }
}
