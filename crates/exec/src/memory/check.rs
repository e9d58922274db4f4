//! Checks the rows of an array in memory, whatever its controller does.

use destage_plan::{Controller, Dev, NvSlot, Row, Rows};

use super::conduct::ExecutorConduct;
use super::executor::MemoryExecutor;
use crate::device::MemoryDevice;
use crate::nvram::MemoryNvram;

/// Names a violation of the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryViolation {
    /// Reports that a row without an intent has pages that do not belong together.
    #[error("row {row} has no open intent but is not consistent: {why}")]
    Row {
        /// Names the row.
        row: Row,
        /// Says which pages do not fit.
        why: String,
    },
    /// Reports that an intent is cleared too early.
    #[error("the intent of row {row} is cleared while a write of {dev} to it is not durable")]
    Unflushed {
        /// Names the row.
        row: Row,
        /// Names the member with the write.
        dev: Dev,
    },
    /// Reports that nothing is in flight, and something waits.
    #[error("nothing is in flight and no timer is set, but work is under way:\n{0}")]
    Deadlock(String),
}

/// Shows devices and NVRAM as reads would find them.
pub struct MemoryView<'a> {
    devices: &'a [MemoryDevice],
    nvram: &'a MemoryNvram,
}

impl MemoryView<'_> {
    /// Returns a page of a device; none if it does not answer, or has a bit of the page flipped.
    pub fn page(&self, dev: Dev, page: u64) -> Option<&[u8]> {
        let device = &self.devices[dev.index()];
        // A controller may read a rotten page, but its content is no evidence for
        // the row.
        (device.answers() && !device.is_rotten(page)).then(|| device.page(page))
    }

    /// Returns the bytes in a slot of the NVRAM.
    pub fn slot(&self, slot: NvSlot) -> &[u8] {
        self.nvram.bytes(slot)
    }
}

/// Knows which pages belong together.
pub trait RowCheck<C> {
    /// Counts the members; devices from here on hold no rows.
    fn members(&self) -> u8;
    /// Returns true if a member's page of a row counts: not if the member is lost, or not rebuilt so far.
    fn counts(&self, controller: &C, dev: Dev, row: Row) -> bool;
    /// Fails if something is wrong with a row, and says what.
    fn row(&self, controller: &C, view: &MemoryView<'_>, row: Row) -> Result<(), String>;
}

/// Checks nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoCheck;

impl<C> RowCheck<C> for NoCheck {
    fn members(&self) -> u8 {
        0
    }
    fn counts(&self, _: &C, _: Dev, _: Row) -> bool {
        false
    }
    fn row(&self, _: &C, _: &MemoryView<'_>, _: Row) -> Result<(), String> {
        Ok(())
    }
}

impl<C: Controller> MemoryExecutor<C> {
    /// Shows what reads would find.
    pub fn view(&self) -> MemoryView<'_> {
        MemoryView { devices: &self.devices, nvram: self.bytes.nvram() }
    }

    /// Checks that each of these rows is consistent or has an open intent.
    pub(super) fn check_rows<R: RowCheck<C>>(
        &self,
        check: &R,
        rows: impl Iterator<Item = Row>,
    ) -> Result<(), MemoryViolation> {
        let view = self.view();
        // While the intent is open a row may be torn: a restart makes it consistent
        // again.
        for row in rows.filter(|row| !self.bytes.nvram().intents.contains(*row)) {
            check.row(self.engine.controller(), &view, row).map_err(|why| MemoryViolation::Row { row, why })?;
        }
        Ok(())
    }

    /// Checks that rows without an intent are consistent on stable storage: no volatile or in-flight write may
    /// change them.
    pub(super) fn check_cleared<R: RowCheck<C>>(&self, check: &R, rows: Rows) -> Result<(), MemoryViolation> {
        let page_bytes = self.engine.shape().page_bytes() as usize;
        let changing = |dev: Dev, row: Row| {
            // A planted omission writes nothing, so it changes nothing either.
            self.in_flight.iter().filter(|entry| entry.conduct != ExecutorConduct::Omit).any(|entry| {
                match entry.step.changes() {
                    Some(ext) if ext.dev() == dev && ext.rows().contains(row) => {
                        let bytes =
                            entry.early.as_deref().map_or_else(|| self.written(entry), |bytes| Some((**bytes).into()));
                        let at = (row.0 - ext.first()) as usize * page_bytes;
                        self.devices[dev.index()]
                            .changes(row.0, bytes.as_ref().map(|bytes| &bytes[at..at + page_bytes]))
                    }
                    _ => false,
                }
            })
        };
        for dev in (0..check.members()).map(Dev).filter(|dev| self.devices[dev.index()].answers()) {
            let open = |row: &Row| self.devices[dev.index()].is_open(row.0) || changing(dev, *row);
            // A member that is lost or not rebuilt holds nothing that a restart
            // would read.
            let counts = |row: &Row| check.counts(self.engine.controller(), dev, *row);
            if let Some(row) = rows.iter().find(|row| open(row) && counts(row)) {
                return Err(MemoryViolation::Unflushed { row, dev });
            }
        }
        Ok(())
    }

    /// Checks that every row is consistent, whatever the intents say. That must hold when nothing is under way.
    pub fn check_all<R: RowCheck<C>>(&self, check: &R, rows: u64) -> Result<(), MemoryViolation> {
        let view = self.view();
        (0..rows).map(Row).try_for_each(|row| {
            check.row(self.engine.controller(), &view, row).map_err(|why| MemoryViolation::Row { row, why })
        })
    }
}
