//! Requests of several pages, and of parts of pages.
//!
//! By the specs (§0.1) a request is so many accesses of a page each, in ascending order, one after the other:
//! [`by_page`]. What covers part of a page is an access of the page; what else the page holds is read first.
//!
//! Destage's caches differ ([`SpecReading::AsBuilt`](crate::spec_reading::SpecReading::AsBuilt)):
//! * A request is served in fragments: what it has of whole pages in one stripe, and each part of a page.
//! * A fragment is written in [pieces]: the rows one after the other of which it has the same columns. They are
//!   decided on one after the other, before any of them has ended.
//! * *Pieces are cut into parts* where `LeavO` and KDD have some of their pages: those that are cached and those that are
//!   not, the first of at most [`MOST_DELAYED`] pages, or of one if the cache has no room for all. A part waits for those of
//!   the same rows before it, whereas all pieces are decided on at once; hence parts are after all pieces. Rows that are
//!   written whole are not cut, and have their parity left behind only if all of a row is cached (§9.8.18).
//! * A piece, or a part of one, that is written with its parity modifies or computes that once a row (§9.8.18 allows both).
//! * The parity of a row that is behind is computed also if all of its old pages are written, and no more of members
//!   has to be read for that. By §9.4 it is modified then, unless all of the row is written.
//! * *Old pages that are written with their parity leave the cache*, as §9.4 allows.
//! * *A piece with rows that are behind is written row by row*, and comes into the cache with its last row. What the
//!   cache has of the rows after the first is dropped before they are written, and counts as missed.
//! * *Hits of a read are looked up first*, [`READ_TOGETHER`] pages at a time: no miss among these takes the slot of a
//!   later hit, and all of what is filled is younger than all hits.
//! * What was filled, and the pairs of `LeavO`, take their place in the LRU order when they are written. The pairs of a
//!   piece do so last page first.
//! * *Deltas of a piece are packed late.* A delta is packed when it is in the NVRAM: those of a piece are not when the
//!   first of them finds no room, so that what was staged before is packed alone, or the piece's first delta if nothing
//!   was. By §9.4 all that is staged is packed.
//! * *The rest of a page that is written in part is read from its member* though the cache has it, unless its row is
//!   behind, or the page is dirty. By §0.1 it is on a miss alone.
//! * Zeros that are written, and rows that are trimmed, leave the cache. The specs know of neither.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::counters::Outcome;
use super::params::Shape;
use super::{Model, Op};

/// Limits the pages of a piece whose parity is left behind.
pub const MOST_DELAYED: usize = 16;

/// Limits the pages of a read that are looked up at a time.
pub const READ_TOGETHER: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentKind {
    Read,
    Write,
    /// Zeros are written.
    Zero,
    /// Whole rows become zeros without being written; what else is trimmed stays as it is.
    Trim,
}

/// Holds the whole pages of a request in one stripe, or one page that it covers in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeFragment {
    pub kind: FragmentKind,
    pub pages: Vec<u64>,
    pub is_part: bool,
    /// The length of the delta of each page that is written, against the version that the parity covers.
    pub deltas: BTreeMap<u64, u32>,
}

/// Lists consecutive rows, and of each the pages that are written, which are in the same columns.
pub type WritePiece = Vec<Vec<u64>>;

/// Cuts a fragment into pieces.
pub fn pieces(shape: Shape, fragment: &StripeFragment) -> Vec<WritePiece> {
    let rows: BTreeSet<u64> = fragment.pages.iter().map(|&page| shape.row(page)).collect();
    let of_row = |row| fragment.pages.iter().copied().filter(|&page| shape.row(page) == row).collect::<Vec<_>>();
    let columns = |pages: &Vec<u64>| pages.iter().map(|&page| shape.column(page)).collect::<Vec<_>>();
    let rows: Vec<Vec<u64>> = rows.into_iter().map(of_row).collect();
    rows.chunk_by(|a, b| columns(a) == columns(b)).map(<[Vec<u64>]>::to_vec).collect()
}

/// Cuts a piece into the parts that are written without their parity, if there is room, and those that are written with it:
/// in the order of their first pages. The first are those that are cached.
pub fn parts(shape: Shape, piece: &WritePiece, is_cached: impl Fn(u64) -> bool) -> Vec<(bool, WritePiece)> {
    let hits = |row: &Vec<u64>| {
        let hits: Vec<u64> = row.iter().copied().filter(|&page| is_cached(page)).collect();
        if row.len() as u64 == shape.k && hits.len() < row.len() { Vec::new() } else { hits }
    };
    let columns = |row: &Vec<u64>| hits(row).iter().map(|&page| shape.column(page)).collect::<Vec<_>>();
    let mut parts = Vec::new();
    for rows in piece.chunk_by(|a, b| columns(a) == columns(b)) {
        let width = hits(&rows[0]).len();
        assert!(width <= MOST_DELAYED, "no array of these tests is so wide");
        if let Some(most) = MOST_DELAYED.checked_div(width) {
            parts.extend(rows.chunks(most).map(|rows| (true, rows.iter().map(hits).collect::<WritePiece>())));
        }
        if width < piece[0].len() {
            let misses = |row: &Vec<u64>| {
                let hits = hits(row);
                row.iter().copied().filter(|page| !hits.contains(page)).collect::<Vec<_>>()
            };
            parts.push((false, rows.iter().map(misses).collect()));
        }
    }
    parts.sort_by_key(|(_, part)| part[0][0]);
    parts
}

/// Returns the pages of a piece in ascending order.
pub fn ascending(piece: &WritePiece) -> Vec<u64> {
    let pages: BTreeSet<u64> = piece.iter().flatten().copied().collect();
    pages.into_iter().collect()
}

/// Cuts a piece that is written with its parity into rows that are written together. A row with stale parity is alone.
pub fn batches(piece: &WritePiece, is_stale: impl Fn(u64) -> bool) -> Vec<WritePiece> {
    piece.chunk_by(|a, b| !is_stale(a[0]) && !is_stale(b[0])).map(<[Vec<u64>]>::to_vec).collect()
}

/// Serves a fragment page by page (§0.1).
pub fn by_page(model: &mut (impl Model + ?Sized), fragment: &StripeFragment) -> Outcome {
    assert!(matches!(fragment.kind, FragmentKind::Read | FragmentKind::Write), "the specs know of reads and writes");
    let mut all = Outcome::default();
    for &page in &fragment.pages {
        let op = if fragment.kind == FragmentKind::Read { Op::Read } else { Op::Write };
        all.extend(model.access(op, page, fragment.deltas.get(&page).copied()));
    }
    all
}

/// Lists pieces, and parts of them, in the order in which they claim their rows. One begins when those before it that have
/// rows of it have ended; those that begin by the same event do so in order.
#[derive(Default)]
pub struct ClaimLine {
    pieces: Vec<WritePiece>,
    /// Holds the number of a piece by its place in the line.
    order: Vec<usize>,
    begun: BTreeSet<usize>,
    ended: BTreeSet<usize>,
    /// Lists those that have begun or ended of late, in order, and whether it was that they ended.
    turns: VecDeque<(usize, bool)>,
}

impl ClaimLine {
    /// Adds pieces at the end of the line, or behind one of them.
    pub fn put(&mut self, behind: Option<usize>, pieces: Vec<WritePiece>) {
        let place = |at| self.order.iter().position(|&other| other == at).expect("it is in the line") + 1;
        let place = behind.map_or(self.order.len(), place);
        let numbers = self.pieces.len()..self.pieces.len() + pieces.len();
        self.order.splice(place..place, numbers);
        self.pieces.extend(pieces);
    }

    pub fn piece(&self, at: usize) -> &WritePiece {
        &self.pieces[at]
    }

    /// Notes that a piece has ended, or that its parts are in the line.
    pub fn ends(&mut self, at: usize) {
        self.turns.push_back((at, true));
    }

    /// Returns the piece that begins next, if one does now.
    pub fn next(&mut self, shape: Shape) -> Option<(usize, WritePiece)> {
        loop {
            self.find(shape);
            match self.turns.pop_front()? {
                (at, true) => drop(self.ended.insert(at)),
                (at, false) => return Some((at, self.pieces[at].clone())),
            }
        }
    }

    fn find(&mut self, shape: Shape) {
        let rows = |at: usize| self.pieces[at].iter().map(|row| shape.row(row[0])).collect::<BTreeSet<_>>();
        let mut found = Vec::new();
        for (place, &at) in self.order.iter().enumerate() {
            let is_behind = |other: &usize| !self.ended.contains(other) && !rows(*other).is_disjoint(&rows(at));
            if !self.begun.contains(&at) && !self.order[..place].iter().any(is_behind) {
                found.push(at);
            }
        }
        for at in found {
            self.begun.insert(at);
            self.turns.push_back((at, false));
        }
    }
}

/// Queues the events of a fragment's pieces: those that no piece waits for come first, then those of each piece in the order
/// of their first rows.
pub struct PieceEvents<T> {
    events: Vec<(Option<u64>, T)>,
}

impl<T> PieceEvents<T> {
    pub const fn new() -> Self {
        Self { events: Vec::new() }
    }

    /// Adds an event of a piece, by its first row, or one that comes before those of all pieces.
    pub fn put(&mut self, row: Option<u64>, what: T) {
        self.events.push((row, what));
    }

    /// Takes the next event.
    pub fn next(&mut self) -> Option<T> {
        let (at, _) = self.events.iter().enumerate().min_by_key(|(_, (row, _))| *row)?;
        Some(self.events.remove(at).1)
    }
}
