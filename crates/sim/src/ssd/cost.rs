//! The times of an element's operations.

use destage_plan::Nanos;

use super::geometry::SsdShape;

#[derive(Clone, Copy, Debug)]
pub(super) struct CollectionCost {
    /// Reading a page and moving it out of the element.
    pub(super) read: Nanos,
    /// Moving a page into the element and programming it.
    pub(super) program: Nanos,
    pub(super) summary: Nanos,
    /// Copying a page inside its plane, or by way of the element's pins.
    pub(super) copy_inside: Nanos,
    pub(super) copy_across: Nanos,
}

impl CollectionCost {
    pub(super) fn of(shape: &SsdShape) -> Self {
        let c = &shape.config;
        let (read, program) = (c.read + shape.transfer, c.program + shape.transfer);
        Self {
            read,
            program,
            summary: if c.summary_page { c.program + shape.transfer_sector } else { Nanos::ZERO },
            copy_inside: c.read + c.program,
            copy_across: read + program,
        }
    }
}
