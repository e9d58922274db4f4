//! Builders of steps over a row's source map: bringing versions of its pages together, wherever
//! they are.

use destage_plan::{Buf, Column, ColumnSet, Ext, OpId, Out, Rows, Span, Step, StepSet, Stripe};

use super::versions::{DeltaPlace, RowSources, VersionDelta, VersionSource};
use super::write::ColumnPages;
use super::{RaidArray, StripeColumns};
use crate::{MAX_DEVICES, RaidLevel};

/// A row whose pages are not all on their members.
#[derive(Clone, Copy)]
pub(super) struct DepartedRow<'a> {
    pub(super) stripe: Stripe,
    /// The row alone.
    pub(super) rows: Rows,
    pub(super) columns: StripeColumns,
    pub(super) sources: &'a RowSources,
}

impl DepartedRow<'_> {
    /// Of these columns, those of which the source is not to be had.
    pub(super) fn missing(&self, of: ColumnSet, source: impl Fn(&RowSources, Column) -> VersionSource) -> ColumnSet {
        of.iter()
            .filter(|column| match source(self.sources, *column) {
                VersionSource::Member | VersionSource::Before(_) => !self.columns.live.contains(*column),
                VersionSource::Parity(_) | VersionSource::Lost => true,
                VersionSource::Page(_) | VersionSource::Nv(_) | VersionSource::Delta(_) => false,
            })
            .collect()
    }
}

/// Reads a page of a device that is no member: where it goes, and the step.
fn read_page(op: OpId, ext: Ext, out: &mut Out) -> (Buf, StepSet) {
    let dst = out.tmp(op, 1);
    (dst, out.step(op, Step::Read { ext, dst }, StepSet::EMPTY))
}

/// The pages of deltas that an operation has read: those of a row are often in one.
#[derive(Default)]
pub(super) struct DeltaPages(Vec<(Ext, Buf, StepSet)>);

impl DeltaPages {
    /// Returns the bytes of a delta, and the steps after which they are there.
    fn read(&mut self, op: OpId, change: VersionDelta, out: &mut Out) -> (Span, StepSet) {
        let (buf, read) = match change.place {
            DeltaPlace::Nv(slot) => (Buf::Nv(slot), StepSet::EMPTY),
            DeltaPlace::Page(ext) => {
                // Packed deltas of a row are often on one page, which one read serves.
                if let Some(&(_, buf, read)) = self.0.iter().find(|(of, ..)| *of == ext) {
                    (buf, read)
                } else {
                    let (buf, read) = read_page(op, ext, out);
                    self.0.push((ext, buf, read));
                    (buf, read)
                }
            }
        };
        (Span { buf, offset: change.offset, len: change.len }, read)
    }
}

/// Makes one of two versions that differ in a change of the other, which is there after some steps: where it
/// goes, and the step. Of zeros it makes what they differ in.
fn change_page(op: OpId, page: Buf, delta: Span, after: StepSet, out: &mut Out) -> (Buf, StepSet) {
    // A whole page onto zeros is the page itself; no step is needed.
    if page == Buf::Zero && delta.len == out.page_bytes() {
        return (delta.buf, after);
    }
    let dst = out.tmp(op, 1);
    let step = if delta.len < out.page_bytes() {
        Step::Decode { base: page, delta, dst }
    } else {
        debug_assert_eq!(delta.offset, 0, "it takes a page");
        Step::Xor { srcs: out.list(op, &[page, delta.buf]), pages: 1, dst }
    };
    (dst, out.step(op, step, after))
}

/// Some of what is wanted is nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MissingSource;

impl RaidArray {
    /// The column whose member has a column's page: of copies any that is live.
    fn copy_of(&self, column: Column, columns: StripeColumns) -> Column {
        let copies = self.config.geometry.level() == RaidLevel::Raid1;
        if copies { columns.live.lowest().unwrap_or(column) } else { column }
    }

    /// Makes one version of each of these columns known, which must be to be had; the steps.
    pub(super) fn gather(
        &mut self,
        op: OpId,
        row: DepartedRow<'_>,
        wanted: ColumnSet,
        source: impl Fn(&RowSources, Column) -> VersionSource,
        pages: &mut ColumnPages,
        out: &mut Out,
    ) -> StepSet {
        let (mut done, mut deltas) = (StepSet::EMPTY, DeltaPages::default());
        for column in wanted.iter() {
            pages[column.index()] = match source(row.sources, column) {
                VersionSource::Nv(slot) => Buf::Nv(slot),
                VersionSource::Page(ext) => {
                    let (dst, read) = read_page(op, ext, out);
                    done |= read;
                    dst
                }
                VersionSource::Delta(delta) => {
                    let (base, read) = read_page(op, delta.base, out);
                    let change = VersionDelta { place: delta.place, offset: delta.offset, len: delta.len };
                    let (delta, there) = deltas.read(op, change, out);
                    let dst = out.tmp(op, 1);
                    done |= out.step(op, Step::Decode { base, delta, dst }, read | there);
                    dst
                }
                VersionSource::Before(change) => {
                    let page = out.tmp(op, 1);
                    let read = self.read_rows(op, row.stripe, row.rows, column, page, StepSet::EMPTY, out);
                    let (delta, there) = deltas.read(op, change, out);
                    let (dst, changed) = change_page(op, page, delta, read | there, out);
                    done |= changed;
                    dst
                }
                VersionSource::Member | VersionSource::Parity(_) | VersionSource::Lost => {
                    let column = self.copy_of(column, row.columns);
                    let dst = out.tmp(op, 1);
                    done |= self.read_rows(op, row.stripe, row.rows, column, dst, StepSet::EMPTY, out);
                    dst
                }
            };
        }
        done
    }

    /// Makes known what the newest versions of these columns and those that the parity covers differ in; the
    /// steps. That is the exclusive or of `old` and `new`.
    #[expect(clippy::too_many_arguments, reason = "a row's versions and their order are that many things")]
    pub(super) fn gather_changes(
        &mut self,
        op: OpId,
        row: DepartedRow<'_>,
        wanted: ColumnSet,
        old: &mut ColumnPages,
        new: &mut ColumnPages,
        deltas: &mut DeltaPages,
        out: &mut Out,
    ) -> StepSet {
        let (mut done, mut whole) = (StepSet::EMPTY, wanted);
        for column in wanted.iter() {
            if let Some(change) = row.sources.change(column, out.page_bytes()) {
                let (delta, there) = deltas.read(op, change, out);
                let (dst, changed) = change_page(op, Buf::Zero, delta, there, out);
                // A delta decoded onto zeros is the difference itself, so neither version has to be read.
                (old[column.index()], new[column.index()]) = (dst, Buf::Zero);
                done |= changed;
                whole.remove(column);
            } else if let Some([covered, newest]) = row.sources.changes(column, out.page_bytes()) {
                for (page, change) in [(&mut *old, covered), (&mut *new, newest)] {
                    let (delta, there) = deltas.read(op, change, out);
                    let (dst, changed) = change_page(op, Buf::Zero, delta, there, out);
                    page[column.index()] = dst;
                    done |= changed;
                }
                whole.remove(column);
            }
        }
        done |= self.gather(op, row, whole, RowSources::covered, old, out);
        done | self.gather(op, row, whole, RowSources::newest, new, out)
    }

    /// Makes the newest version of these data columns known; the steps. What is not to be had is
    /// computed from what the parity covers.
    pub(super) fn gather_newest(
        &mut self,
        op: OpId,
        row: DepartedRow<'_>,
        wanted: ColumnSet,
        pages: &mut ColumnPages,
        out: &mut Out,
    ) -> Result<StepSet, MissingSource> {
        let mut missing = row.missing(wanted, RowSources::newest);
        if self.config.geometry.level() == RaidLevel::Raid1 && !row.columns.live.is_empty() {
            // Any copy will do.
            missing = missing.iter().filter(|column| row.sources.newest(*column) == VersionSource::Lost).collect();
        }
        if missing.is_empty() {
            return Ok(self.gather(op, row, wanted, RowSources::newest, pages, out));
        }
        // A stale column's newest version is in no parity, but what has changed may be known.
        let changed = missing & row.sources.stale();
        let change = |column| match row.sources.covered(column) {
            VersionSource::Before(change) => Ok(Some(change)),
            VersionSource::Parity(change) => Ok(change),
            // It is the newest version after all.
            VersionSource::Member => Ok(None),
            _ => Err(MissingSource),
        };
        changed.iter().try_for_each(|column| change(column).map(drop))?;
        let mut covered: ColumnPages = [Buf::None; MAX_DEVICES];
        let mut done = self.gather_covered(op, row, &mut covered, out)?;
        let stale = row.sources.stale() & wanted;
        for column in (wanted - stale).iter() {
            pages[column.index()] = covered[column.index()];
        }
        let mut deltas = DeltaPages::default();
        for column in changed.iter() {
            pages[column.index()] = covered[column.index()];
            if let Some(change) = change(column)? {
                let (delta, there) = deltas.read(op, change, out);
                let (page, new) = change_page(op, covered[column.index()], delta, done | there, out);
                pages[column.index()] = page;
                done |= new;
            }
        }
        Ok(done | self.gather(op, row, stale - changed, RowSources::newest, pages, out))
    }

    /// Returns the data columns whose version that the parity covers has to be computed, and the parity that is there for it.
    pub(super) fn covered_anew(&self, row: DepartedRow<'_>) -> Result<(ColumnSet, ColumnSet), MissingSource> {
        let unknown = row.missing(self.data, RowSources::covered);
        let live = self.parity() - row.missing(self.parity(), RowSources::newest);
        // A torn parity covers no known version, so nothing can be computed from it.
        if unknown.len() > live.len() || !unknown.is_empty() && row.sources.is_torn() {
            return Err(MissingSource);
        }
        Ok((unknown, live))
    }

    /// Makes the versions of all data columns known that the parity covers; the steps.
    pub(super) fn gather_covered(
        &mut self,
        op: OpId,
        row: DepartedRow<'_>,
        pages: &mut ColumnPages,
        out: &mut Out,
    ) -> Result<StepSet, MissingSource> {
        let (unknown, live) = self.covered_anew(row)?;
        let mut done = self.gather(op, row, self.data - unknown, RowSources::covered, pages, out);
        if !unknown.is_empty() {
            let equations = self.equations(live, unknown);
            done |= self.gather(op, row, equations, RowSources::newest, pages, out);
            done |= self.compute_lost(op, row.stripe, pages, unknown, live, 1, done, out);
        }
        Ok(done)
    }
}
