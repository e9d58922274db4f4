//! Cuts a write into parts that are each written with their parity, or without it: whether a page is a write hit is asked
//! page by page (specs §0.1, §9.2, §9.4).
//!
//! Rows that are written whole are one write each unless the cache has all of them: nothing is read for these (§9.8.18).

use std::collections::VecDeque;

use destage_plan::{Column, ColumnSet, OpId};
use destage_raid::array::StripeSegment;

use super::behind::page_of;
use super::copies::CopyCache;
use super::keeps::MOST_PAGES;

/// Holds the parts of writes that are not opened yet.
#[derive(Default)]
pub(super) struct WriteParts {
    queue: VecDeque<(OpId, StripeSegment)>,
    /// Holds the parts of one write while they are found.
    found: Vec<StripeSegment>,
}

impl WriteParts {
    /// Takes the next part of a write.
    pub(super) fn next(&mut self, op: OpId) -> Option<StripeSegment> {
        self.queue.pop_front_if(|(of, _)| *of == op).map(|(_, part)| part)
    }

    /// Cuts a segment whose parity cannot be left behind as a whole, in the order of the first pages of its parts. Returns
    /// false if there is nothing to be cut: then it is written with its parity.
    pub(super) fn split<W>(&mut self, op: OpId, seg: StripeSegment, copies: &CopyCache<W>) -> bool {
        // A single page cannot be split; its refusal stands.
        if seg.pages() == 1 {
            return false;
        }
        let data = copies.geometry.data_set().iter().collect();
        let cached = |in_chunk| {
            let row = copies.geometry.row(seg.stripe, in_chunk);
            let is_cached = |column: &Column| copies.frames.contains(page_of(&copies.geometry, row, *column));
            let cached: ColumnSet = seg.columns.iter().filter(is_cached).collect();
            // A row that is written whole needs no read at all with its parity.
            // Cutting out its hits would turn one write into several with reads.
            if seg.columns == data && cached != data { ColumnSet::EMPTY } else { cached }
        };
        self.found.clear();
        let end = seg.first + seg.rows;
        let mut first = seg.first;
        while first < end {
            let hits = cached(first);
            let rows = 1 + (first + 1..end).take_while(|row| cached(*row) == hits).count() as u32;
            let run = StripeSegment { first, rows, ..seg };
            self.put_hits(StripeSegment { columns: hits, ..run });
            self.found.extend(
                Some(StripeSegment { columns: seg.columns - hits, ..run }).filter(|part| !part.columns.is_empty()),
            );
            first += rows;
        }
        if self.found == [seg] {
            // Cutting would not help: with no page in the cache there is nothing to
            // defer.
            if seg.columns == data || cached(seg.first).is_empty() {
                return false;
            }
            // There is no room for all: page by page there may be for some.
            self.found.clear();
            let pages = seg.columns.iter().flat_map(|column| (seg.first..end).map(move |row| (row, column)));
            self.found.extend(pages.map(|(first, column)| StripeSegment {
                first,
                rows: 1,
                columns: ColumnSet::one(column),
                ..seg
            }));
        }
        // Parts run in the order of addresses, so members see ascending writes.
        self.found.sort_by_key(|part| (part.columns.lowest(), part.first));
        self.queue.extend(self.found.drain(..).map(|part| (op, part)));
        true
    }

    /// Finds the parts of rows of which all pages are cached, as large as one operation can be.
    fn put_hits(&mut self, seg: StripeSegment) {
        let mut rest = seg.columns;
        while !rest.is_empty() {
            // Columns first: a part that spans columns of one row shares the row's
            // claim and intent.
            let columns: ColumnSet = rest.iter().take(MOST_PAGES).collect();
            let most = MOST_PAGES as u32 / columns.len();
            let parts = (0..seg.rows).step_by(most as usize);
            self.found.extend(parts.map(|from| StripeSegment {
                first: seg.first + from,
                rows: most.min(seg.rows - from),
                columns,
                ..seg
            }));
            rest -= columns;
        }
    }
}
