//! Builders of steps over a row's source map: bringing versions of its pages together, wherever
//! they are.

use destage_plan::{Buf, Column, ColumnSet, Ext, OpId, Out, Rows, Span, Step, StepSet, Stripe};

use super::versions::{DeltaPlace, Source, Sources};
use super::write::Pages;
use super::{Array, Columns};
use crate::{Level, MAX_DEVICES};

/// A row whose pages are not all on their members.
#[derive(Clone, Copy)]
pub(super) struct DepartedRow<'a> {
    pub(super) stripe: Stripe,
    /// The row alone.
    pub(super) rows: Rows,
    pub(super) columns: Columns,
    pub(super) sources: &'a Sources,
}

impl DepartedRow<'_> {
    /// Of these columns, those of which the source is not to be had.
    pub(super) fn missing(&self, of: ColumnSet, source: impl Fn(&Sources, Column) -> Source) -> ColumnSet {
        of.iter()
            .filter(|column| match source(self.sources, *column) {
                Source::Member => !self.columns.live.contains(*column),
                Source::Lost => true,
                Source::Page(_) | Source::Nv(_) | Source::Delta(_) => false,
            })
            .collect()
    }
}

/// Reads a page of a device that is no member: where it goes, and the step.
fn read_page(op: OpId, ext: Ext, out: &mut Out) -> (Buf, StepSet) {
    let dst = out.tmp(op, 1);
    (dst, out.step(op, Step::Read { ext, dst }, StepSet::EMPTY))
}

/// Some of what is wanted is nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unknown;

impl Array {
    /// The column whose member has a column's page: of copies any that is live.
    fn copy_of(&self, column: Column, columns: Columns) -> Column {
        let copies = self.config.geometry.level() == Level::Raid1;
        if copies { columns.live.lowest().unwrap_or(column) } else { column }
    }

    /// Makes one version of each of these columns known, which must be to be had; the steps.
    pub(super) fn gather(
        &mut self,
        op: OpId,
        row: DepartedRow<'_>,
        wanted: ColumnSet,
        source: impl Fn(&Sources, Column) -> Source,
        pages: &mut Pages,
        out: &mut Out,
    ) -> StepSet {
        let mut done = StepSet::EMPTY;
        // Deltas of a row are often in one page.
        let mut deltas: Option<(Ext, Buf, StepSet)> = None;
        for column in wanted.iter() {
            pages[column.index()] = match source(row.sources, column) {
                Source::Nv(slot) => Buf::Nv(slot),
                Source::Page(ext) => {
                    let (dst, read) = read_page(op, ext, out);
                    done |= read;
                    dst
                }
                Source::Delta(delta) => {
                    let (base, mut ready) = read_page(op, delta.base, out);
                    let buf = match delta.place {
                        DeltaPlace::Nv(slot) => Buf::Nv(slot),
                        DeltaPlace::Page(ext) => {
                            let known = deltas.filter(|(of, ..)| *of == ext);
                            let (_, buf, read) = *deltas.insert(known.unwrap_or_else(|| {
                                let (buf, read) = read_page(op, ext, out);
                                (ext, buf, read)
                            }));
                            ready |= read;
                            buf
                        }
                    };
                    let (delta, dst) = (Span { buf, offset: delta.offset, len: delta.len }, out.tmp(op, 1));
                    done |= out.step(op, Step::Decode { base, delta, dst }, ready);
                    dst
                }
                Source::Member | Source::Lost => {
                    let column = self.copy_of(column, row.columns);
                    let dst = out.tmp(op, 1);
                    done |= self.read_rows(op, row.stripe, row.rows, column, dst, StepSet::EMPTY, out);
                    dst
                }
            };
        }
        done
    }

    /// Makes the newest version of these data columns known; the steps. What is not to be had is
    /// computed from what the parity covers.
    pub(super) fn gather_newest(
        &mut self,
        op: OpId,
        row: DepartedRow<'_>,
        wanted: ColumnSet,
        pages: &mut Pages,
        out: &mut Out,
    ) -> Result<StepSet, Unknown> {
        let missing = row.missing(wanted, Sources::newest);
        if missing.is_empty() {
            return Ok(self.gather(op, row, wanted, Sources::newest, pages, out));
        }
        // A stale column's newest version is in no parity.
        if missing.meets(row.sources.stale()) {
            return Err(Unknown);
        }
        let mut covered: Pages = [Buf::None; MAX_DEVICES];
        let done = self.gather_covered(op, row, &mut covered, out)?;
        let stale = row.sources.stale() & wanted;
        for column in (wanted - stale).iter() {
            pages[column.index()] = covered[column.index()];
        }
        Ok(done | self.gather(op, row, stale, Sources::newest, pages, out))
    }

    /// Makes the versions of all data columns known that the parity covers; the steps.
    pub(super) fn gather_covered(
        &mut self,
        op: OpId,
        row: DepartedRow<'_>,
        pages: &mut Pages,
        out: &mut Out,
    ) -> Result<StepSet, Unknown> {
        let unknown = row.missing(self.data, Sources::covered);
        let live = self.parity() - row.missing(self.parity(), Sources::newest);
        if unknown.len() > live.len() || !unknown.is_empty() && row.sources.is_torn() {
            return Err(Unknown);
        }
        let mut done = self.gather(op, row, self.data - unknown, Sources::covered, pages, out);
        if !unknown.is_empty() {
            let equations = self.equations(live, unknown);
            done |= self.gather(op, row, equations, Sources::newest, pages, out);
            done |= self.compute_lost(op, row.stripe, pages, unknown, live, 1, done, out);
        }
        Ok(done)
    }
}
