//! Requests of several pages, and of parts of pages.
//!
//! By the specs (§0.1) a request is so many accesses of a page each, in ascending order, one after the other:
//! [`by_page`]. What covers part of a page is an access of the page; what else the page holds is read first.
//!
//! Destage's caches differ ([`SpecReading::AsBuilt`](crate::spec_reading::SpecReading::AsBuilt)):
//! * A request is served in fragments: what it has of whole pages in one stripe, and each part of a page.
//! * A fragment is written in [pieces]: the rows one after the other of which it has the same columns. They are
//!   decided on one after the other, before any of them has ended.
//! * *Whole pieces are delayed.* `LeavO` and KDD leave the parity behind only if every page of a piece is cached, and
//!   the piece has at most [`MOST_DELAYED`] pages. By §9.2 and §9.4 each page that is cached is a write hit.
//! * A piece that is written with its parity modifies or computes that once a row (§9.8.18 allows both).
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

use std::collections::{BTreeMap, BTreeSet};

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

/// Queues the events of a fragment's pieces: those that no piece waits for come first, then those of each piece in order.
pub struct PieceEvents<T> {
    events: Vec<(Option<usize>, T)>,
}

impl<T> PieceEvents<T> {
    pub const fn new() -> Self {
        Self { events: Vec::new() }
    }

    /// Adds an event of a piece, by its number, or one that comes before those of all pieces.
    pub fn put(&mut self, piece: Option<usize>, what: T) {
        self.events.push((piece, what));
    }

    /// Takes the next event.
    pub fn next(&mut self) -> Option<T> {
        let (at, _) = self.events.iter().enumerate().min_by_key(|(_, (piece, _))| *piece)?;
        Some(self.events.remove(at).1)
    }
}
