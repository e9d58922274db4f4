//! Computes the place of a page in the layers: in a group of the upper layer, and in a strip of the lower.

use destage_plan::{Column, Dev, Stripe};
use destage_raid::Geometry;

use super::store::MemberPlace;

/// The group of a page, and its place there: groups are stripes, and their pages in order of rows.
pub(super) fn in_group(geometry: &Geometry, (row, column): MemberPlace) -> (u64, u32) {
    let (stripe, first) = geometry.stripe_of(row);
    // The place within a group is the order of rows and columns, so pages are
    // destaged row by row.
    (stripe.0, first * u32::from(geometry.members()) + u32::from(column.0))
}

/// The page at a place of a group.
pub(super) fn of_group(geometry: &Geometry, group: u64, index: u32) -> MemberPlace {
    let members = u32::from(geometry.members());
    (geometry.row(Stripe(group), index / members), Column((index % members) as u8))
}

/// The member of a page, its strip there, and its place in that.
pub(super) fn in_strip(geometry: &Geometry, (row, column): MemberPlace) -> (Dev, u64, u32) {
    let (stripe, first) = geometry.stripe_of(row);
    (geometry.device(stripe, column), stripe.0, first)
}
