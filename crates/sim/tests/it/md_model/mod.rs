//! md's RAID-5 and its stripe cache as its documentation and counts describe them, one request at a time: small, slow and
//! obviously right.

use std::collections::{BTreeMap, BTreeSet};

/// Counts what members were asked for, in pages and in requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemberTraffic {
    pub(crate) pages_read: u64,
    pub(crate) pages_written: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

/// Holds a row of the cache: its number, and the columns that are valid in memory. Column `data` is the parity.
struct CachedRow {
    row: u64,
    valid: BTreeSet<u64>,
}

/// Models the array.
pub(crate) struct MdModel {
    data: u64,
    chunk: u64,
    ways: usize,
    /// Lists rows by set, the one first that was not used for longest.
    sets: Vec<Vec<CachedRow>>,
    pub(crate) traffic: MemberTraffic,
}

/// Says how a place in a chunk of consecutive pages is counted as requests: neighbours are one.
fn requests(pages: &BTreeSet<(u64, u64)>) -> u64 {
    pages.iter().filter(|(column, row)| *row == 0 || !pages.contains(&(*column, row - 1))).count() as u64
}

impl MdModel {
    pub(crate) fn new(members: u64, chunk: u64, sets: usize, ways: usize) -> Self {
        let sets = std::iter::repeat_with(Vec::new).take(sets).collect();
        Self { data: members - 1, chunk, ways, sets, traffic: MemberTraffic::default() }
    }

    /// Returns the row and the data column of a page.
    fn place(&self, page: u64) -> (u64, u64) {
        let chunk = page / self.chunk;
        (chunk / self.data * self.chunk + page % self.chunk, chunk % self.data)
    }

    /// Reads pages: each chunk of them is a request.
    pub(crate) fn read(&mut self, page: u64, pages: u64) {
        let places: BTreeSet<_> =
            (page..page + pages).map(|page| self.place(page)).map(|(row, col)| (col, row)).collect();
        self.traffic.pages_read += pages;
        self.traffic.reads += requests(&places);
    }

    /// Writes pages that are submitted together.
    pub(crate) fn write(&mut self, pages: impl IntoIterator<Item = u64>) {
        let mut rows: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for page in pages {
            let (row, column) = self.place(page);
            rows.entry(row).or_default().insert(column);
        }
        // A request goes on within a member and a stripe alone, whose columns are members.
        let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
        for (row, columns) in rows {
            let first = row / self.chunk * (self.data + 1);
            let key = |column: u64| (first + column, row);
            read.extend(self.write_row(row, &columns).into_iter().map(key));
            written.extend(columns.iter().copied().chain([self.data]).map(key));
        }
        self.traffic.pages_read += read.len() as u64;
        self.traffic.pages_written += written.len() as u64;
        self.traffic.reads += requests(&read);
        self.traffic.writes += requests(&written);
    }

    /// Writes columns of a row, and returns what is read for that.
    fn write_row(&mut self, row: u64, columns: &BTreeSet<u64>) -> Vec<u64> {
        let (count, parity) = (self.sets.len() as u64, self.data);
        let set = &mut self.sets[(row % count) as usize];
        let mut cached = if let Some(at) = set.iter().position(|cached| cached.row == row) {
            set.remove(at)
        } else {
            if set.len() == self.ways {
                set.remove(0);
            }
            CachedRow { row, valid: BTreeSet::new() }
        };
        let is_missing = |column: &u64| !cached.valid.contains(column);
        let rmw: Vec<_> = columns.iter().copied().chain([parity]).filter(is_missing).collect();
        let rcw: Vec<_> = (0..self.data).filter(|column| !columns.contains(column)).filter(is_missing).collect();
        let read = if rmw.is_empty() || rcw.is_empty() {
            Vec::new()
        } else if rmw.len() < rcw.len() {
            rmw
        } else {
            rcw
        };
        cached.valid.extend(read.iter().copied().chain(columns.iter().copied()).chain([parity]));
        set.push(cached);
        read
    }
}
