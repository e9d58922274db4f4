//! Defines the unit of planning: rows of a stripe with the same columns.

use destage_plan::{ColumnSet, Stripe};

use super::RaidArray;

/// Rows of one stripe of which the same columns are meant: the unit in which parity is planned. A
/// fragment has at most three. One that is trimmed can be several whole stripes: it has all rows of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeSegment {
    /// The stripe.
    pub stripe: Stripe,
    /// First row in the stripe's chunks.
    pub first: u32,
    /// Rows.
    pub rows: u32,
    /// Data columns.
    pub columns: ColumnSet,
}

impl StripeSegment {
    /// Pages of data.
    pub const fn pages(&self) -> u16 {
        (self.rows * self.columns.len()) as u16
    }
}

impl RaidArray {
    /// Returns the segments of a range of pages inside one stripe, at most three, rows ascending. Whole stripes are one.
    pub fn segments(&self, page: u64, pages: u16) -> impl Iterator<Item = StripeSegment> + use<> {
        let geometry = &self.config.geometry;
        let chunk = geometry.chunk_pages();
        let place = geometry.locate(page);
        let begin = u32::from(place.column.0) * chunk + place.row_in_chunk;
        let end = begin + u32::from(pages);
        let (from, to) = (begin % chunk, (end - 1) % chunk + 1);
        let (first, last) = (begin / chunk, (end - 1) / chunk);
        // Columns first..=last; the first is touched from row `from` on, the last up to row `to`.
        let columns = ColumnSet::between;
        let stripe = place.stripe;
        let seg = move |first, end, columns| StripeSegment { stripe, first, rows: end - first, columns };
        let (data, wide) = (u32::from(geometry.data_columns()), u32::from(pages));
        let segs = if first == last {
            [seg(from, to, columns(first, last)), seg(0, 0, ColumnSet::EMPTY), seg(0, 0, ColumnSet::EMPTY)]
        // Only a discard is wider than a stripe, and it has all rows, so one segment describes it.
        } else if wide > data * chunk {
            debug_assert!(begin == 0 && wide.is_multiple_of(data * chunk), "whole stripes");
            [seg(0, wide / data, self.data), seg(0, 0, ColumnSet::EMPTY), seg(0, 0, ColumnSet::EMPTY)]
        // The columns share the rows in between; before and after them one column is missing.
        } else if from < to {
            [
                seg(0, from, columns(first + 1, last)),
                seg(from, to, columns(first, last)),
                seg(to, chunk, columns(first, last - 1)),
            ]
        } else {
            [
                seg(0, to, columns(first + 1, last)),
                seg(to, from, columns(first + 1, last - 1)),
                seg(from, chunk, columns(first, last - 1)),
            ]
        };
        segs.into_iter().filter(|seg| seg.rows > 0 && !seg.columns.is_empty())
    }

    /// The pages of a segment, column by column.
    pub fn pages_of(&self, seg: StripeSegment) -> impl Iterator<Item = u64> + use<> {
        let geometry = &self.config.geometry;
        let (data, chunk) = (u64::from(geometry.data_columns()), u64::from(geometry.chunk_pages()));
        let rows = u64::from(seg.rows);
        // Of several stripes, which it has all of, one range.
        let (columns, rows) = if rows > chunk { (ColumnSet::first(1), rows * data) } else { (seg.columns, rows) };
        columns.iter().flat_map(move |column| {
            let first = (seg.stripe.0 * data + u64::from(column.0)) * chunk + u64::from(seg.first);
            first..first + rows
        })
    }
}
