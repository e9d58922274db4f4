//! Requests at random.

use destage_plan::HostOp;
use destage_testkit::TestRng;

use super::{PAGE, SECTOR};
use crate::tier_model::params::Shape;

/// Describes a request of the host; offset and length are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawnRequest {
    pub op: HostOp,
    pub offset: u64,
    pub len: u64,
}

impl DrawnRequest {
    /// Reads or writes one page.
    pub const fn page(op: HostOp, page: u64) -> Self {
        Self { op, offset: page * PAGE, len: PAGE }
    }

    /// Returns a flush.
    pub const fn flush() -> Self {
        Self { op: HostOp::Flush, offset: 0, len: 0 }
    }

    /// Draws a request of several pages near a page, or of parts of pages, of an array of so many pages.
    pub fn draw(op: HostOp, near: u64, shape: Shape, pages: u64, dice: &mut TestRng) -> Self {
        let stripe = shape.k * shape.chunk;
        let in_stripe = near % stripe;
        let (first, count) = match dice.below(8) {
            // Some pages.
            0 | 1 => (near, dice.within(2, 4)),
            // Of a chunk, or into the next.
            2 => (near - near % shape.chunk, dice.within(1, shape.chunk + 1)),
            // A stripe, or the end of one.
            3 => (near - in_stripe, stripe),
            4 => (near, stripe - in_stripe),
            // Across two stripes, and three.
            5 => (near + stripe - in_stripe - dice.within(1, stripe), dice.within(stripe, 2 * stripe)),
            6 => (near - in_stripe.min(1), 2 * stripe + 1),
            // A page, or what is cut of two.
            _ => (near, dice.within(1, 2)),
        };
        let first = first.min(pages - 1);
        let (mut offset, mut len) = (first * PAGE, count.min(pages - first) * PAGE);
        if dice.below(3) == 0 {
            let cut = dice.below(PAGE / SECTOR) * SECTOR;
            (offset, len) = (offset + cut, len - cut);
            len -= dice.below((len.min(PAGE) - 1) / SECTOR + 1) * SECTOR;
        }
        Self { op, offset, len }
    }
}
