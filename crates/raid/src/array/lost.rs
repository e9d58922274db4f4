//! Rows that may be torn and of which a data page is lost that is in no log: what the page was
//! cannot be known.
//!
//! A start is refused over them unless the [configuration](super::ArrayConfig::accepted_losses)
//! names the pages. Then they become what the parity and the other members give. That is what they
//! were if the row is not torn, as most are whose intent was kept; else it is of no use. Nobody can
//! tell the two apart, so all of them are told of as lost.

use destage_plan::{ColumnSet, LostPages, PageRange, Refusal, Row, Rows};

use super::{PageVersions, RaidArray, VersionSource};

impl RaidArray {
    /// Pages that are lost: those that the start is refused over, all of them, or those that it was
    /// to accept as lost and that are.
    pub fn lost(&self) -> &[PageRange] {
        &self.lost
    }

    /// The lost data columns of a row that are in no log.
    pub(super) fn hole(&self, row: Row) -> ColumnSet {
        let stripe = self.config.geometry.stripe_of(row).0;
        let lost = self.data - self.columns(stripe, Rows::new(row, 1)).live;
        lost.iter().filter(|column| self.log.get(row, self.dev(stripe, *column)).is_none()).collect()
    }

    /// As [`hole`](Self::hole), but for what is known above.
    pub(super) fn hole_of(&self, row: Row, versions: &dyn PageVersions) -> ColumnSet {
        let hole = self.hole(row);
        if hole.is_empty() || !versions.departs(Rows::new(row, 1)) {
            return hole;
        }
        let sources = versions.sources(row);
        hole.iter()
            .filter(|column| matches!(sources.newest(*column), VersionSource::Member | VersionSource::Lost))
            .collect()
    }

    pub(super) fn has_hole(&self, row: Row) -> bool {
        !self.hole(row).is_empty()
    }

    /// Notes what is lost of rows that are to be made consistent; why they cannot be, if that was
    /// not accepted.
    pub(super) fn check_holes(&mut self, rows: &[Rows], versions: &dyn PageVersions) -> Option<Refusal> {
        // With all members live nothing is lost, and without computed parity nothing could be made up.
        if self.members.all_live() || !self.needs_log() {
            return None;
        }
        let accepted = &self.config.accepted_losses;
        let is_accepted = |page: &u64| accepted.iter().any(|range| range.contains(*page));
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        let (mut first, mut count) = (Row(u64::MAX), 0);
        for row in rows.iter().flat_map(|rows| rows.iter()) {
            let (known, before) = (found.len(), refused.len());
            found.extend(self.pages_in(row, self.hole_of(row, versions)));
            refused.extend(found[known..].iter().copied().filter(|page| !is_accepted(page)));
            if refused.len() > before {
                (first, count) = (row.min(first), count + 1);
            }
        }
        // The whole list is found before the refusal, so that its message names every lost page.
        if count > 0 {
            return Some(self.write_hole(first, count, refused));
        }
        // An operation that is planned anew comes twice.
        found.retain(|page| !self.lost.iter().any(|range| range.contains(*page)));
        found.sort_unstable();
        self.lost.extend(PageRange::of_pages(found));
        None
    }

    /// Why rows that lose data while they are made consistent are not, whatever is accepted: the
    /// next start knows what of them is logged.
    pub(super) fn refuse_rows(&mut self, rows: Rows, lost: ColumnSet) -> Refusal {
        let pages = rows.iter().flat_map(|row| self.pages_in(row, lost)).collect();
        self.write_hole(rows.first, u64::from(rows.count), pages)
    }

    fn write_hole(&mut self, row: Row, rows: u64, mut pages: Vec<u64>) -> Refusal {
        pages.sort_unstable();
        // The user who must decide about the losses asks for them after the refusal.
        self.lost = PageRange::of_pages(pages);
        Refusal::WriteHole { row, rows, lost: LostPages::new(&self.lost) }
    }

    /// The pages of the array in these columns of a row.
    fn pages_in(&self, row: Row, columns: ColumnSet) -> impl Iterator<Item = u64> + use<> {
        let geometry = &self.config.geometry;
        let (data, chunk) = (u64::from(geometry.data_columns()), u64::from(geometry.chunk_pages()));
        let (stripe, in_chunk) = geometry.stripe_of(row);
        columns.iter().map(move |column| (stripe.0 * data + u64::from(column.0)) * chunk + u64::from(in_chunk))
    }
}
