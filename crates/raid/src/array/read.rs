//! Reading pages, computing those that are lost (specs §2.1, degraded mode).

use destage_plan::{Buf, Claim, Column, ColumnSet, Ext, OpId, Out, Row, Rows, Step, StepSet, Stripe};

use super::sources::DepartedRow;
use super::{PageVersions, RaidArray, StripeSegment, advance};
use crate::{MAX_DEVICES, RaidLevel};

/// Some of the pages must be computed, or are lost: they are to be read segment by segment
/// ([`RaidArray::plan_read_seg`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DegradedRead;

/// Some of the pages are lost: more members are than the level can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLoss;

impl From<super::sources::MissingSource> for ReadLoss {
    fn from(_: super::sources::MissingSource) -> Self {
        Self
    }
}

impl RaidArray {
    /// The claim of an operation that reads pages inside one stripe from their members.
    pub fn claim_read(&self, page: u64, pages: u16) -> Claim {
        let span = self.span(page, pages);
        Claim { stripe: span.stripe, first: span.first, rows: span.rows, r: span.columns, w: ColumnSet::EMPTY }
    }

    /// The claim of an operation that reads a segment, computing what is lost.
    pub fn claim_read_seg(&self, seg: StripeSegment) -> Claim {
        Claim { stripe: seg.stripe, first: seg.first, rows: seg.rows, r: self.all, w: ColumnSet::EMPTY }
    }

    /// Checks that pages inside one stripe can be read from their members.
    ///
    /// # Errors
    /// Fails if one of the members has lost them.
    pub fn check_whole(&self, page: u64, pages: u16) -> Result<(), DegradedRead> {
        let span = self.span(page, pages);
        let row = self.config.geometry.row(span.stripe, span.first);
        let live = self.columns(span.stripe, Rows::new(row, span.rows)).live;
        let whole = if self.config.geometry.level() == RaidLevel::Raid1 {
            !live.is_empty()
        } else {
            live.contains_all(span.columns)
        };
        if whole { Ok(()) } else { Err(DegradedRead) }
    }

    /// Plans the read of pages inside one stripe into `dst`; the steps after which they are there.
    /// The operation holds the claim of [`claim_read`](Self::claim_read). Plans nothing if it
    /// fails.
    pub fn plan_read(
        &mut self,
        op: OpId,
        page: u64,
        pages: u16,
        dst: Buf,
        out: &mut Out,
    ) -> Result<StepSet, DegradedRead> {
        let span = self.span(page, pages);
        let geometry = &self.config.geometry;
        let chunk = geometry.chunk_pages();
        let live = self.columns(span.stripe, Rows::new(geometry.row(span.stripe, span.first), span.rows)).live;
        if geometry.level() == RaidLevel::Raid1 {
            if live.is_empty() {
                return Err(DegradedRead);
            }
            let rows = Rows::new(geometry.row(span.stripe, span.first), span.rows);
            let column = copy_of(rows.first, live);
            return Ok(self.read_rows(op, span.stripe, rows, column, dst, StepSet::EMPTY, out));
        }
        if !live.contains_all(span.columns) {
            return Err(DegradedRead);
        }
        let mut done = StepSet::EMPTY;
        for column in span.columns.iter() {
            let at = u32::from(column.0) * chunk;
            let (from, to) = (span.begin.max(at), span.end.min(at + chunk));
            let rows = Rows::new(self.config.geometry.row(span.stripe, from % chunk), to - from);
            let dst = advance(dst, (from - span.begin) as u16);
            done |= self.read_rows(op, span.stripe, rows, column, dst, StepSet::EMPTY, out);
        }
        Ok(done)
    }

    /// As [`plan_read`](Self::plan_read) for a segment of the pages from `page` on, which `dst` is
    /// for; computes what is lost. The operation holds the claim of
    /// [`claim_read_seg`](Self::claim_read_seg).
    pub fn plan_read_seg(
        &mut self,
        op: OpId,
        seg: StripeSegment,
        page: u64,
        dst: Buf,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) -> Result<StepSet, ReadLoss> {
        let geometry = &self.config.geometry;
        let chunk = geometry.chunk_pages();
        let rows = Rows::new(geometry.row(seg.stripe, seg.first), seg.rows);
        let live = self.columns(seg.stripe, rows).live;
        let begin = self.span(page, 1).begin;
        let lost = self.data - live;
        let missing = seg.columns.meets(lost);
        if geometry.level() == RaidLevel::Raid1 && !live.is_empty() {
            let dst = advance(dst, (seg.first - begin) as u16);
            return Ok(self.read_rows(op, seg.stripe, rows, copy_of(rows.first, live), dst, StepSet::EMPTY, out));
        }
        // The members may hold older versions, so the read follows the row's source map.
        if versions.departs(rows) {
            return self.read_departed(op, seg, begin, dst, versions, out);
        }
        if missing && (self.all - live).len() > u32::from(geometry.parity_columns()) {
            return Err(ReadLoss);
        }
        let mut columns = [Buf::None; MAX_DEVICES];
        for column in seg.columns.iter() {
            columns[column.index()] = advance(dst, (u32::from(column.0) * chunk + seg.first - begin) as u16);
        }
        let wanted = if missing { self.data | self.equations(live, lost) } else { seg.columns };
        let mut done = StepSet::EMPTY;
        for column in (wanted & live).iter() {
            if columns[column.index()] == Buf::None {
                columns[column.index()] = out.tmp(op, seg.rows as u16);
            }
            done |= self.read_rows(op, seg.stripe, rows, column, columns[column.index()], StepSet::EMPTY, out);
        }
        if missing {
            done |= self.compute_lost(op, seg.stripe, &mut columns, lost, live, seg.rows as u16, done, out);
        }
        Ok(done)
    }

    /// Is true if a segment has to be read row by row, since each row has its own sources.
    pub fn is_read_by_rows(&self, seg: StripeSegment, versions: &dyn PageVersions) -> bool {
        let rows = Rows::new(self.config.geometry.row(seg.stripe, seg.first), seg.rows);
        seg.rows > 1 && (versions.departs(rows) || self.members.bad.meets(rows))
    }

    /// As [`plan_read_seg`](Self::plan_read_seg) of one row, whose pages are not all on their
    /// members; `begin` is where `dst` begins in the stripe's data.
    fn read_departed(
        &mut self,
        op: OpId,
        seg: StripeSegment,
        begin: u32,
        dst: Buf,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) -> Result<StepSet, ReadLoss> {
        debug_assert_eq!(seg.rows, 1, "such a segment is read by rows");
        let geometry = &self.config.geometry;
        let chunk = geometry.chunk_pages();
        let rows = Rows::new(geometry.row(seg.stripe, seg.first), 1);
        let sources = versions.sources(rows.first);
        let columns = self.columns(seg.stripe, rows);
        let row = DepartedRow { stripe: seg.stripe, rows, columns, sources: &sources };
        let mut pages = [Buf::None; MAX_DEVICES];
        let read = self.gather_newest(op, row, seg.columns, &mut pages, out)?;
        // Sources stay where they are until the read has ended; they may move right afterwards.
        versions.uses(op, rows.first);
        Ok(seg.columns.iter().fold(read, |done, column| {
            let dst = advance(dst, (u32::from(column.0) * chunk + seg.first - begin) as u16);
            let srcs = out.list(op, &[pages[column.index()]]);
            done | out.step(op, Step::Xor { srcs, pages: 1, dst }, read)
        }))
    }

    /// Returns the rows and columns of pages inside one stripe.
    fn span(&self, page: u64, pages: u16) -> StripeSpan {
        let geometry = &self.config.geometry;
        let chunk = geometry.chunk_pages();
        let place = geometry.locate(page);
        let column = u32::from(place.column.0);
        let begin = column * chunk + place.row_in_chunk;
        let end = begin + u32::from(pages);
        let last = (end - 1) / chunk;
        // Over several columns the span is taken for whole chunks: its rows differ from column to column.
        let (first, rows) = if column == last { (place.row_in_chunk, u32::from(pages)) } else { (0, chunk) };
        StripeSpan { stripe: place.stripe, begin, end, first, rows, columns: ColumnSet::between(column, last) }
    }

    /// Reads rows of one column.
    #[expect(clippy::too_many_arguments, reason = "a page's place and order are that many things")]
    pub(super) fn read_rows(
        &mut self,
        op: OpId,
        stripe: Stripe,
        rows: Rows,
        column: Column,
        dst: Buf,
        after: StepSet,
        out: &mut Out,
    ) -> StepSet {
        if self.data.contains(column) {
            self.stats.data_reads += u64::from(rows.count);
        } else {
            self.stats.parity_reads += u64::from(rows.count);
        }
        let ext = Ext::new(self.dev(stripe, column), rows.first.0, rows.count as u16);
        out.step(op, Step::Read { ext, dst }, after)
    }
}

/// Pages inside one stripe.
struct StripeSpan {
    stripe: Stripe,
    /// In pages of the stripe's data.
    begin: u32,
    end: u32,
    /// The rows that they lie in; all of the stripe's if they lie in several columns.
    first: u32,
    rows: u32,
    columns: ColumnSet,
}

/// The copy that a page of RAID-1 is read from: spread over the copies, the same page always from
/// the same one, and pages that are read one after the other mostly from one.
fn copy_of(row: Row, live: ColumnSet) -> Column {
    let nth = row.0 / 1024 % u64::from(live.len());
    live.iter().nth(nth as usize).expect("there are so many")
}
