//! Merges neighbouring reads, and neighbouring writes, of one file that leave in the same turn of the main
//! loop.
//! The block layer does the same while a plug holds requests back.
//!
//! Plans read and write page by page, and no plan knows of a merge: each command gets its own answer
//! ([`tell_parts`](super::ring::tell_parts)). Nothing relies on an order among operations in flight. Syncs
//! begin when the writes that they cover have ended. So a write with FUA may be merged with one without.

use std::ops::Range;

use super::ring::{FileOp, MergeRole, RingEntries, RingEntry};

/// Bounds the bytes of a command that is merged. A longer one gains nothing, and would be answered only with
/// its neighbours.
const MAX_PART: usize = 32 << 10;
/// Bounds the bytes of a merged operation: the kernel cuts longer ones for most devices.
const MAX_BYTES: u64 = 1 << 20;
/// Bounds the entries of one: the kernel takes no more buffers (`UIO_MAXIOV`).
const MAX_PARTS: u16 = 1024;

/// Counts the commands that left within another one's operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// Counts those that read.
    pub reads: u64,
    /// Counts those that write.
    pub writes: u64,
}

/// Merges neighbours. It keeps the memory that it needs for that.
#[derive(Debug, Default)]
pub struct RequestMerger {
    spans: Vec<ByteSpan>,
}

/// Says which bytes an entry reads or writes.
#[derive(Clone, Copy, Debug)]
struct ByteSpan {
    offset: u64,
    end: u64,
    /// Numbers the entry in the queue, from where the spans begin.
    index: usize,
    writes: bool,
    can_merge: bool,
}

impl ByteSpan {
    /// Returns that of an entry, unless it does something else.
    fn of(entry: &RingEntry, index: usize) -> Option<Self> {
        let (offset, writes) = match entry.operation {
            FileOp::Read { offset } => (offset, false),
            FileOp::Write { offset } => (offset, true),
            FileOp::PunchHole { .. } | FileOp::Sync(_) => return None,
        };
        let end = offset + entry.range.len() as u64;
        let can_merge = entry.role == MergeRole::Single && entry.range.len() <= MAX_PART;
        Some(Self { offset, end, index, writes, can_merge })
    }
}

impl RequestMerger {
    /// Merges what it can of these entries of one file. Neighbours come to stand behind each other, in order of their offsets.
    /// Nothing passes a hole that is made, a sync, or a write of the same bytes.
    pub fn merge(&mut self, entries: &mut RingEntries) -> MergeCounts {
        let mut counts = MergeCounts::default();
        // One command has no neighbour, which is the usual case at queue depth 1.
        if entries.len() < 2 {
            return counts;
        }
        let entries = entries.make_contiguous();
        let mut begin = 0;
        while begin < entries.len() {
            self.spans.clear();
            let spans = entries[begin..].iter().zip(0..).map_while(|(entry, index)| ByteSpan::of(entry, index));
            self.spans.extend(spans);
            let end = begin + self.spans.len();
            if self.spans.len() > 1 {
                self.merge_spans(&mut entries[begin..end], &mut counts);
            }
            // The entry between two groups is a hole or a sync, which nothing may
            // pass.
            begin = end + 1;
        }
        counts
    }

    /// Merges reads and writes.
    fn merge_spans(&mut self, entries: &mut [RingEntry], counts: &mut MergeCounts) {
        let in_order = self.spans.is_sorted_by_key(|span| span.offset);
        if !in_order {
            self.spans.sort_unstable_by_key(|span| (span.offset, span.index));
        }
        // Commands of overlapping bytes keep the order in which they were given.
        if !has_neighbours(&self.spans) || has_conflict(&self.spans) {
            return;
        }
        if !in_order {
            // Each span's place is where its entry comes to stand. What stood there was moved to where that one came from.
            for place in 0..entries.len() {
                let mut from = self.spans[place].index;
                // Entries before `place` have moved already, so the chain is
                // followed to where the entry is now.
                while from < place {
                    from = self.spans[from].index;
                }
                entries.swap(place, from);
            }
        }
        let mut begin = 0;
        while begin < entries.len() {
            let run = self.run_from(begin);
            let parts = run.len() as u16;
            if parts > 1 {
                let merged = u64::from(parts - 1);
                *(if self.spans[begin].writes { &mut counts.writes } else { &mut counts.reads }) += merged;
                entries[begin].role = MergeRole::First(parts);
                entries[begin + 1..run.end].iter_mut().for_each(|entry| entry.role = MergeRole::Follows);
            }
            begin = run.end;
        }
    }

    /// Returns the spans that can be one operation, from this one on.
    fn run_from(&self, begin: usize) -> Range<usize> {
        // Bytes and parts are both bounded: the kernel would split a longer operation
        // again.
        let first = self.spans[begin].offset;
        let mut end = begin + 1;
        while end < self.spans.len()
            && are_neighbours(&self.spans[end - 1], &self.spans[end])
            && self.spans[end].end - first <= MAX_BYTES
            && end - begin < usize::from(MAX_PARTS)
        {
            end += 1;
        }
        begin..end
    }
}

fn are_neighbours(one: &ByteSpan, next: &ByteSpan) -> bool {
    one.end == next.offset && one.writes == next.writes && one.can_merge && next.can_merge
}

fn has_neighbours(sorted: &[ByteSpan]) -> bool {
    sorted.windows(2).any(|pair| are_neighbours(&pair[0], &pair[1]))
}

/// Returns true if something is written that another one of these reads or writes.
fn has_conflict(sorted: &[ByteSpan]) -> bool {
    let (mut reached, mut written) = (0, 0);
    sorted.iter().any(|span| {
        // Spans are sorted by offset: one that begins before the largest end so far
        // overlaps an earlier one. Two reads may.
        let conflicts = span.offset < if span.writes { reached } else { written };
        reached = reached.max(span.end);
        if span.writes {
            written = written.max(span.end);
        }
        conflicts
    })
}
