//! Describes what a plan writes of an array.

use destage_plan::{ColumnSet, Rows, Stripe};

use super::PagePart;

/// Describes the rows and columns to write, as far as planning needs them.
#[derive(Clone, Copy)]
pub(super) struct WriteExtent {
    pub(super) stripe: Stripe,
    pub(super) rows: Rows,
    pub(super) columns: ColumnSet,
    pub(super) part: PagePart,
    pub(super) fua: bool,
}

impl WriteExtent {
    /// Returns the index of the one column that a write of a part of a page has.
    pub(super) fn only(&self) -> usize {
        self.columns.lowest().expect("a write has a column").index()
    }
}
