//! Finds the pages that may be on no member.

use std::collections::BTreeSet;

use destage_cache::ServedTier;
use destage_plan::Row;
use destage_raid::Geometry;
use destage_raid::array::VersionSource;

use crate::asked::AskedRequests;

/// Pages that are dirty, as far as the controller knows, or on their way; and those that members may have, but not durably.
pub(crate) fn dirty_pages(geometry: &Geometry, asked: &[AskedRequests], controller: &dyn ServedTier) -> BTreeSet<u64> {
    let chunk = u64::from(geometry.chunk_pages());
    let writes = asked.iter().filter(|asked| asked.writes());
    // A write in flight may reach the cache at any moment, so its pages count.
    let mut dirty: BTreeSet<u64> = writes.flat_map(AskedRequests::pages).collect();
    // Pages that a write past the cache replaces are on members, but not durably before a flush.
    dirty.extend(controller.passed_pages());
    for row in (0..geometry.member_pages()).map(Row) {
        let sources = controller.sources(row);
        let (stripe, in_chunk) = geometry.stripe_of(row);
        let columns = geometry.data_set().iter().filter(|column| sources.newest(*column) != VersionSource::Member);
        let first = stripe.0 * u64::from(geometry.data_columns());
        dirty.extend(columns.map(|column| (first + u64::from(column.0)) * chunk + u64::from(in_chunk)));
    }
    dirty
}
