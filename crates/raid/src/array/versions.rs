//! Defines the places of a row's versions, and the questions to the cache above the array. The cache may hold
//! newer pages than the members, and older ones that the parity still covers.

use destage_plan::{Column, ColumnSet, DevSet, Ext, HostOp, NvSlot, OpId, Row, Rows};

use super::StripeSegment;
use crate::MAX_DEVICES;

/// Names the place of a version of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionSource {
    /// On its member.
    #[default]
    Member,
    /// In a page of a device that is no member. The extent has one page.
    Page(Ext),
    /// In a slot of the NVRAM.
    Nv(NvSlot),
    /// Applies a delta to a page of a device that is no member.
    Delta(PageDelta),
    /// On its member, before a change: what is on the member now is the newest version.
    Before(VersionDelta),
    /// In the parity alone, which covers it: only what the parity covers of the rest of the row tells it. The
    /// newest version is it, or differs from it in this, if the member does not have it.
    Parity(Option<VersionDelta>),
    /// Nowhere: it is lost.
    Lost,
}

/// A page that is kept as what it was and what has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageDelta {
    /// Holds the base of the delta: one page.
    pub base: Ext,
    /// Holds the place of the delta.
    pub place: DeltaPlace,
    /// The first byte of the delta there.
    pub offset: u32,
    /// Bytes of the delta. As long as a page, it is the new page itself.
    pub len: u32,
}

/// Describes the difference between two versions of a page: a delta that makes either of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionDelta {
    /// Holds the place of the delta.
    pub place: DeltaPlace,
    /// The first byte of the delta there.
    pub offset: u32,
    /// Bytes of the delta. As long as a page, it is the exclusive or of the two itself.
    pub len: u32,
}

/// Names the place of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaPlace {
    /// In a page, with others.
    Page(Ext),
    /// In a slot of the NVRAM.
    Nv(NvSlot),
}

/// The source map of a row: for each column where its newest version is, and where the one is that
/// the parity covers. They differ in columns that are *stale*: parity is the parity of what is
/// covered. A row of which a covered version is lost is *torn*: its parity says nothing.
#[derive(Clone, Debug)]
pub struct RowSources {
    newest: [VersionSource; MAX_DEVICES],
    covered: [VersionSource; MAX_DEVICES],
    stale: ColumnSet,
}

impl Default for RowSources {
    /// Everything is on its member, and the parity covers it.
    fn default() -> Self {
        let members = [VersionSource::Member; MAX_DEVICES];
        Self { newest: members, covered: members, stale: ColumnSet::EMPTY }
    }
}

impl RowSources {
    /// The newest version of a column, of parity too, is there.
    pub const fn set_newest(&mut self, column: Column, source: VersionSource) {
        self.newest[column.index()] = source;
    }

    /// The parity does not cover the newest version of a data column; the one that it covers is
    /// there.
    pub const fn set_stale(&mut self, column: Column, covered: VersionSource) {
        self.covered[column.index()] = covered;
        self.stale.insert(column);
    }

    /// Returns the place of a column's newest version.
    pub const fn newest(&self, column: Column) -> VersionSource {
        self.newest[column.index()]
    }

    /// Returns the place of the version that the parity covers.
    pub const fn covered(&self, column: Column) -> VersionSource {
        if self.stale.contains(column) { self.covered[column.index()] } else { self.newest[column.index()] }
    }

    /// The data columns of which the parity covers another version than the newest.
    pub const fn stale(&self) -> ColumnSet {
        self.stale
    }

    /// Is true if the newest version of a column is above the members: in the NVRAM, or on a device that is
    /// no member. On such a device, the version that the parity covers must not be beside it, as it is where
    /// parity alone is late.
    pub const fn is_above(&self, column: Column) -> bool {
        match self.newest(column) {
            VersionSource::Nv(_) => true,
            VersionSource::Page(_) => matches!(self.covered(column), VersionSource::Member | VersionSource::Lost),
            VersionSource::Member
            | VersionSource::Delta(_)
            | VersionSource::Before(_)
            | VersionSource::Parity(_)
            | VersionSource::Lost => false,
        }
    }

    /// The stale columns of which the newest version [is above](Self::is_above).
    pub(super) fn above(&self) -> ColumnSet {
        self.stale.iter().filter(|column| self.is_above(*column)).collect()
    }

    /// Returns the difference between a column's newest version and the one that the parity covers, if that
    /// difference is stored. A delta of a whole page is the new page, and no difference.
    pub(super) fn change(&self, column: Column, page_bytes: u32) -> Option<VersionDelta> {
        match (self.covered(column), self.newest(column)) {
            (VersionSource::Before(change), _) => Some(change),
            (VersionSource::Page(ext), VersionSource::Delta(PageDelta { base, place, offset, len }))
                if ext == base && len < page_bytes =>
            {
                Some(VersionDelta { place, offset, len })
            }
            _ => None,
        }
    }

    /// The deltas that make the version of a column that the parity covers and the newest of the same page, if both are
    /// kept so: they differ in what these do. Neither is a delta of a whole page.
    pub(super) fn changes(&self, column: Column, page_bytes: u32) -> Option<[VersionDelta; 2]> {
        let (VersionSource::Delta(covered), VersionSource::Delta(newest)) = (self.covered(column), self.newest(column))
        else {
            return None;
        };
        let is_one = self.stale.contains(column) && covered.base == newest.base;
        let change = |PageDelta { place, offset, len, .. }| VersionDelta { place, offset, len };
        (is_one && covered.len < page_bytes && newest.len < page_bytes).then(|| [covered, newest].map(change))
    }

    /// Is true if the parity of the row cannot be used.
    pub fn is_torn(&self) -> bool {
        self.stale.iter().any(|column| self.covered(column) == VersionSource::Lost)
    }
}

/// Selects the planning of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteApproach {
    /// All rows are as their members have them: data and parity are written.
    Plain,
    /// As `Plain`, though newer versions of the written pages may be above: these are older than what members have then, and
    /// what stands above is [told](PageVersions::written) so.
    Overwriting,
    /// Some row [departs](PageVersions::departs) from its members: data and parity are written, with
    /// regard to the row's [sources](PageVersions::sources).
    Departed,
    /// The data is written and the parity left as it is. From now on the columns count as stale;
    /// what the parity covers is in the cache.
    Delayed,
    /// As `Delayed`, but what the parity covers is not in the cache yet: what stands above
    /// [prepares](super::WriteDuty::Prepare) for that before the data is written. The segment has one column.
    Prepared,
    /// Writes nothing: other operations write parts of the segment, and the approach of each is asked in its turn. What stands
    /// above [opens](super::WriteDuty::Split) them. Answers only writes that have not been planned before.
    Split,
    /// Nothing is written to the members: what stands above [takes](super::WriteDuty::Absorb) the data and
    /// the parity, row by row, and has their newest versions from then on.
    Absorbed,
    /// Nothing is done: what is asked for need not be.
    Skipped,
    /// Fails the write: what it would take is not known any more.
    Refused,
    /// Delays the write: there is no room to absorb it, or a note must come first. The array asks again when
    /// a slot is [given back](super::RaidArray::give_slot), a flush is done, or its user [asks for
    /// it](super::RaidArray::try_again).
    Waits,
}

/// Names the state of parity after its rows were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParityUpdate {
    /// Covers the written data, and the other columns as before.
    Modified,
    /// Covers the newest version of every column, or no parity is left that could cover another.
    Computed,
    /// Stays as it was.
    Delayed,
    /// Lies with the data in the array's user. It covers the written data, and the other columns as before.
    Absorbed,
    /// Stays as it was, as do the members: the written data is in the array's user.
    Stored,
    /// Covers the content of the members, as before. Members have newer versions of the written pages than
    /// the array's user.
    Overwritten,
    /// Holds any mixture: it was to be written, and meanwhile more was lost than the level tolerates.
    Torn,
    /// More is lost than the level can do without: neither it nor what is lost can be computed, and
    /// the row stays what it is.
    Lost,
}

/// Answers the array's questions about versions of pages. The default answers are those of a cache that
/// leaves everything to the members.
///
/// Versions change only under a claim that writes the column in question. The version that the parity covers
/// changes only under a claim that writes the parity, or when a device is lost. The place of a version may
/// change at any moment, except for places named to an operation that [uses](PageVersions::uses) them.
pub trait PageVersions {
    /// Returns the approach for a host's request to a segment, of which these rows are left. The array asks
    /// again whenever it plans the write anew. Parity can be left alone only if `may_delay`.
    fn approach(&mut self, op: OpId, host: HostOp, seg: StripeSegment, rows: Rows, may_delay: bool) -> WriteApproach {
        let _ = (op, host, seg, may_delay);
        if self.departs(rows) { WriteApproach::Departed } else { WriteApproach::Plain }
    }

    /// Returns true if a page of these rows has its newest version elsewhere than on its member, or another
    /// than the parity covers.
    fn departs(&self, rows: Rows) -> bool {
        let _ = rows;
        false
    }

    /// Returns the places of a row's pages.
    fn sources(&self, row: Row) -> RowSources {
        let _ = row;
        RowSources::default()
    }

    /// An operation uses what the [sources](Self::sources) of the row name: it stays where it is
    /// until it is [released](Self::released).
    fn uses(&mut self, op: OpId, row: Row) {
        let _ = (op, row);
    }

    /// An operation no longer uses what sources named.
    fn released(&mut self, op: OpId) {
        let _ = op;
    }

    /// Returns true if a write of these pages may be carried out with another of the same rows before it is planned: nothing
    /// has to be done above before the members have it.
    fn may_fold(&self, rows: Rows, columns: ColumnSet) -> bool {
        let _ = (rows, columns);
        false
    }

    /// Returns true if writes that fill their rows may pass what stands above by: the array writes them with their parity, after
    /// [telling](Self::passes) of those that are carried out with another.
    fn may_pass(&self) -> bool {
        false
    }

    /// Forgets what is above of these pages and members have as well: a write of them, which passes what stands above by, is
    /// carried out with another.
    fn passes(&mut self, rows: Rows, columns: ColumnSet) {
        let _ = (rows, columns);
    }

    /// Rows that were to be written with regard to their sources, or with their parity left alone,
    /// are written in these columns.
    fn written(&mut self, op: OpId, rows: Rows, columns: ColumnSet, updated: ParityUpdate) {
        let _ = (op, rows, columns, updated);
    }

    /// Rows whose parity was to be left alone are planned anew: something could not be read for them, and nothing was
    /// written to their members, which have what they had.
    fn unwritten(&mut self, op: OpId, rows: Rows, columns: ColumnSet) {
        let _ = (op, rows, columns);
    }

    /// Returns true if the intent of a row must stay, although the row is consistent on stable storage, or
    /// stale there. When it need not any more, the user [tells](super::RaidArray::let_go) the array.
    fn holds(&self, row: Row) -> bool {
        let _ = row;
        false
    }

    /// Devices beside the members that hold what a flush must make durable, written since this was
    /// asked last. It is asked as each round of flushes begins.
    fn unflushed(&mut self) -> DevSet {
        DevSet::EMPTY
    }

    /// Takes that a round of flushes has ended: what members had when it [began](Self::unflushed) is durable if it `is_whole`.
    fn flushed(&mut self, is_whole: bool) {
        let _ = is_whole;
    }

    /// Returns true if flushes can be answered: the user has lost nothing that a start would believe. If not,
    /// the user [says](super::RaidArray::try_again) when they can.
    fn may_flush(&mut self) -> bool {
        true
    }

    /// Returns true if requests can be served as far as the user is concerned. The array is not ready before.
    fn is_recovered(&self) -> bool {
        true
    }

    /// Returns true if everything is written back that can be. A clean stop is not reached before.
    fn is_clean(&self) -> bool {
        true
    }
}

/// Everything is on the members.
#[derive(Clone, Copy, Debug)]
pub struct OnMembers;

impl PageVersions for OnMembers {
    fn may_fold(&self, _: Rows, _: ColumnSet) -> bool {
        true
    }

    fn may_pass(&self) -> bool {
        true
    }
}
