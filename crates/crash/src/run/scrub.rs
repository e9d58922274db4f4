//! Orders to compare rows, whatever else goes wrong: no page of theirs differs, and in the end all can be compared.

use destage_plan::{Control, Row, Rows, ScrubOrder, ScrubTally, Status};

use super::HistoryRun;
use crate::history::HistoryAction;

impl HistoryRun<'_> {
    /// Orders rows to be compared, if the array is ready and no other rows are being compared.
    pub(super) fn scrub(&mut self, first: u64, rows: u64, repairs: bool) -> Result<(), String> {
        if self.scrubbing.is_some() || self.memory.status() != Status::Ready {
            return Ok(());
        }
        let pages = self.cell.geometry.member_pages();
        let first = first % pages;
        let rows = 1 + rows % (pages - first);
        self.scrubbing = Some(rows);
        self.report.scrubs += 1;
        let rows = Rows::new(Row(first), rows as u32);
        self.memory.control(Control::Scrub(ScrubOrder { rows, repairs }));
        self.notices()
    }

    /// Takes in what a comparison has found.
    pub(super) fn scrubbed(&mut self, tally: ScrubTally) -> Result<(), String> {
        let rows = self.scrubbing.take().ok_or("rows were compared, and nobody ordered that")?;
        self.report.compared_rows += tally.rows - tally.unchecked;
        self.unchecked = tally.unchecked;
        // Whatever else goes wrong, parity and data of an array that serves must agree.
        if tally.rows != rows || tally.mismatched > 0 && !self.broken {
            return Err(format!("of {rows} rows that were to be compared: {tally:?}"));
        }
        Ok(())
    }

    /// Has all rows compared of an array that is whole, if the history has such orders.
    pub(super) fn scrub_all(&mut self, repairs: bool) -> Result<(), String> {
        if !self.history.actions.iter().any(|numbered| matches!(numbered.action, HistoryAction::Scrub { .. })) {
            return Ok(());
        }
        // The first round meets the pages that cannot be read and has them made anew; the second can compare all.
        for _ in 0..2 {
            self.drain()?;
            self.scrub(0, self.cell.geometry.member_pages() - 1, repairs)?;
            self.drain()?;
        }
        let has_bad_pages = !self.memory.engine().controller().array().unreadable().is_empty();
        if self.refused || self.broken || has_bad_pages || self.memory.unreadable().next().is_some() {
            return Ok(());
        }
        let controller = self.memory.engine().controller();
        let rows = (0..self.cell.geometry.member_pages()).map(Row);
        let torn = rows.filter(|row| controller.sources(*row).is_torn()).count() as u64;
        if self.unchecked > torn {
            return Err(format!("nothing is lost, but {} rows cannot be compared", self.unchecked));
        }
        Ok(())
    }
}
