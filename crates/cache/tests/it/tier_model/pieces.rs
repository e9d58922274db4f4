//! Models how a cache that delays parity serves a fragment of several pages, or of a part of one (see
//! [`request`](super::request)).

use super::Op;
use super::array;
use super::cleaning::{self, Delayed};
use super::counters::{Ask, Cause, Counters, For, Outcome, Place};
use super::request::{self, ClaimLine, FragmentKind, PieceEvents, READ_TOGETHER, StripeFragment, WritePiece};
use super::sets::{Sets, Slot};

/// Serves fragments piece by piece; `LeavO` and KDD implement these steps.
pub trait ByPiece: Delayed {
    /// Describes pages that are written without their parity, until they are in the cache.
    type Kept;

    fn sets_mut(&mut self) -> &mut Sets;

    fn counters_mut(&mut self) -> &mut Counters;

    /// Returns true if the parity covers an older version of a page.
    fn is_old(&self, page: u64) -> bool;

    /// Returns how to read the version that the parity covers, if the cache has it.
    fn covered(&self, page: u64) -> Option<Vec<Ask>>;

    /// Returns how to read the newest version of a page, if the cache has it.
    fn newest(&self, page: u64) -> Option<Vec<Ask>>;

    /// Returns a free slot of a page's set, and evicts none of the pinned ones for it.
    fn room(&mut self, page: u64, pinned: &[u64], out: &mut Outcome) -> Option<u64>;

    /// Takes the set in which no room was found since the last call.
    fn take_short(&mut self) -> Option<u64>;

    /// Returns true if a page that is read comes in.
    fn admits_read(&self, page: u64) -> bool;

    /// Returns true if a page that is written and not cached comes in.
    fn admits_write(&mut self, page: u64) -> bool;

    /// Notes that a page is in a slot, and that its parity covers it.
    fn comes(&mut self, page: u64, slot: u64, out: &mut Outcome);

    /// Drops all that is held of a page; its slots become this.
    fn goes(&mut self, page: u64, to: Slot, out: &mut Outcome);

    /// Notes that a row's parity is up to date.
    fn forget_stale(&mut self, row: u64);

    /// Begins to write pages that are cached without their parity, if there is room.
    fn keep(&mut self, pages: &[u64], fragment: &StripeFragment, busy: &[u64], out: &mut Outcome)
    -> Option<Self::Kept>;

    /// Brings into the cache what [`keep`](Self::keep) has written.
    fn kept(&mut self, kept: Self::Kept, fragment: &StripeFragment, busy: &[u64], out: &mut Outcome);
}

/// Describes an event of a piece that has begun.
enum PieceEvent<K> {
    /// Writes the pages and leaves their parity stale.
    Kept(K),
    /// The parity of a row covers these pages: what the cache has of them, if they are old, is of no use any more. Nor
    /// does it need these slots.
    Covered(Vec<u64>, Vec<u64>),
    /// The rows of a piece from this batch on are written.
    Goes(usize, Vec<WritePiece>, usize),
    /// Reports that all is done that a piece has to do.
    Ends(usize),
    /// A page is in its slot.
    Filled(u64),
    /// A slot is not read any more, and is free.
    Freed(u64),
}

/// Serves a fragment.
pub fn serve<C: ByPiece>(cache: &mut C, fragment: &StripeFragment) -> Outcome {
    let mut out = Outcome::default();
    cache.take_short();
    match fragment.kind {
        FragmentKind::Read => read(cache, fragment, &mut out),
        FragmentKind::Write | FragmentKind::Zero => FragmentWrite::new(cache, fragment, &mut out).run(),
        FragmentKind::Trim => trim(cache, fragment, &mut out),
    }
    let short = cache.take_short();
    cleaning::after_access(cache, short, &mut out);
    cache.counters_mut().count(&out);
    out
}

/// Makes a page's slot the most recently used.
fn touch(cache: &mut impl ByPiece, page: u64) {
    if let Some(slot) = cache.sets().find(page) {
        cache.sets_mut().touch(slot);
    }
}

fn read(cache: &mut impl ByPiece, fragment: &StripeFragment, out: &mut Outcome) {
    let (mut busy, mut filled) = (Vec::new(), Vec::new());
    for pages in fragment.pages.chunks(READ_TOGETHER) {
        let hits: Vec<Option<u64>> = pages.iter().map(|&page| cache.sets().find(page)).collect();
        for (&page, _) in pages.iter().zip(&hits).filter(|(_, hit)| hit.is_some()) {
            touch(cache, page);
            out.phase(For::Reads, cache.newest(page).expect("it is cached"));
        }
        busy.extend(hits.iter().flatten());
        for (&page, hit) in pages.iter().zip(&hits) {
            cache.counters_mut().page(Op::Read, hit.is_some());
            if hit.is_some() {
                continue;
            }
            out.phase(For::Reads, vec![array::member_read(cache.params().shape, page)]);
            if cache.admits_read(page)
                && let Some(slot) = cache.room(page, &busy, out)
            {
                busy.push(slot);
                filled.push(page);
                cache.comes(page, slot, out);
                out.phase(For::Fill, vec![Ask::SsdWrite { place: Place::Slot(slot), cause: Cause::Fill }]);
            }
        }
    }
    for page in filled {
        touch(cache, page);
    }
}

fn trim(cache: &mut impl ByPiece, fragment: &StripeFragment, out: &mut Outcome) {
    let shape = cache.params().shape;
    for row in request::pieces(shape, fragment).concat() {
        if row.len() as u64 == shape.k {
            for &page in &row {
                cache.goes(page, Slot::Free, out);
            }
            cache.forget_stale(shape.row(row[0]));
        }
    }
}

/// Writes a fragment.
struct FragmentWrite<'a, C: ByPiece> {
    cache: &'a mut C,
    fragment: &'a StripeFragment,
    out: &'a mut Outcome,
    /// Slots that make no room for others.
    busy: Vec<u64>,
    later: PieceEvents<PieceEvent<C::Kept>>,
    line: ClaimLine,
}

impl<'a, C: ByPiece> FragmentWrite<'a, C> {
    fn new(cache: &'a mut C, fragment: &'a StripeFragment, out: &'a mut Outcome) -> Self {
        Self { cache, fragment, out, busy: Vec::new(), later: PieceEvents::new(), line: ClaimLine::default() }
    }

    fn run(mut self) {
        let shape = self.cache.params().shape;
        self.line.put(None, request::pieces(shape, self.fragment));
        loop {
            while let Some((at, piece)) = self.line.next(shape) {
                self.begin(at, &piece);
            }
            let Some(next) = self.later.next() else { return };
            match next {
                PieceEvent::Kept(kept) => self.cache.kept(kept, self.fragment, &self.busy, self.out),
                PieceEvent::Covered(pages, named) => {
                    self.cover(&pages);
                    self.busy.retain(|slot| !named.contains(slot));
                }
                PieceEvent::Goes(at, batches, number) => self.write_batch(at, batches, number),
                PieceEvent::Ends(at) => self.line.ends(at),
                PieceEvent::Filled(page) => {
                    self.busy.retain(|&slot| self.cache.sets().find(page) != Some(slot));
                    touch(self.cache, page);
                }
                PieceEvent::Freed(slot) => self.cache.sets_mut().put(slot, Slot::Free),
            }
        }
    }

    /// Has something happen to a piece, after all that happens to pieces of earlier rows.
    fn put_later(&mut self, at: usize, what: PieceEvent<C::Kept>) {
        let row = self.cache.params().shape.row(self.line.piece(at)[0][0]);
        self.later.put(Some(row), what);
    }

    /// Writes a piece without its parity if all of it is cached, cuts it, or writes it with its parity.
    fn begin(&mut self, at: usize, piece: &WritePiece) {
        let shape = self.cache.params().shape;
        let pages = piece.concat();
        let is_cached = |page: u64| self.cache.sets().find(page).is_some();
        let parts = if self.fragment.kind == FragmentKind::Write {
            request::parts(shape, piece, is_cached)
        } else {
            vec![(false, piece.clone())]
        };
        let [(is_hit, _)] = parts[..] else {
            return self.cut(at, parts.into_iter().map(|(_, part)| part).collect());
        };
        if is_hit {
            if let Some(kept) = self.cache.keep(&pages, self.fragment, &self.busy, self.out) {
                for _ in &pages {
                    self.cache.counters_mut().page(Op::Write, true);
                }
                self.put_later(at, PieceEvent::Kept(kept));
                return self.put_later(at, PieceEvent::Ends(at));
            }
            if pages.len() > 1 && piece[0].len() as u64 != shape.k {
                return self.cut(at, request::ascending(piece).into_iter().map(|page| vec![vec![page]]).collect());
            }
        }
        let is_stale = |page| self.cache.stale().contains(&shape.row(page));
        let batches = request::batches(piece, is_stale);
        self.write_batch(at, batches, 0);
    }

    /// Has parts of a piece written in its place.
    fn cut(&mut self, at: usize, parts: Vec<WritePiece>) {
        self.line.put(Some(at), parts);
        self.line.ends(at);
    }

    /// Writes a batch of a piece with its parity, and then the rest.
    fn write_batch(&mut self, at: usize, batches: Vec<WritePiece>, number: usize) {
        let shape = self.cache.params().shape;
        if number > 0 {
            // What the cache has of the rest is not trusted, but for old pages.
            for page in batches[number..].concat().concat() {
                if !self.cache.is_old(page) {
                    self.cache.goes(page, Slot::Free, self.out);
                }
            }
        }
        let batch = &batches[number];
        for row in batch {
            let old: Vec<u64> = shape.pages(shape.row(row[0])).filter(|&page| self.cache.is_old(page)).collect();
            let (covered, newest) = (|page| self.cache.covered(page), |page| self.cache.newest(page));
            let plan = array::write_row(self.cache.params(), row, &old, self.fragment.is_part, covered, newest);
            self.out.phase(For::Reads, plan.0);
            self.out.phase(For::Writes, plan.1);
        }
        let row = shape.row(batch[0][0]);
        let mut named = Vec::new();
        if self.cache.stale().contains(&row) {
            // What is cached of a row that is behind is read for its parity.
            named = self.cache.named(row);
            self.busy.extend(&named);
            self.put_later(at, PieceEvent::Covered(batch[0].clone(), named.clone()));
        }
        if number + 1 == batches.len() {
            self.come(at, &batches.concat(), &named);
            self.put_later(at, PieceEvent::Ends(at));
        } else {
            self.put_later(at, PieceEvent::Goes(at, batches, number + 1));
        }
    }

    /// Brings pages that are written with their parity into the cache.
    fn come(&mut self, at: usize, piece: &WritePiece, named: &[u64]) {
        let is_zero = self.fragment.kind == FragmentKind::Zero;
        for page in request::ascending(piece) {
            let hit = self.cache.sets().find(page);
            if !is_zero {
                self.cache.counters_mut().page(Op::Write, hit.is_some());
            }
            if self.cache.is_old(page) {
                continue;
            }
            let mut slot = hit;
            if let Some(held) = hit.filter(|held| named.contains(held) || is_zero) {
                // It is found no more, and free when it is not read any more.
                self.cache.goes(page, Slot::New(page), self.out);
                self.put_later(at, PieceEvent::Freed(held));
                slot = None;
            }
            if is_zero || hit.is_none() && !self.cache.admits_write(page) {
                continue;
            }
            if let Some(slot) = slot.or_else(|| self.cache.room(page, &self.busy, self.out)) {
                self.busy.push(slot);
                self.cache.comes(page, slot, self.out);
                let place = Place::Slot(slot);
                self.out.phase(For::Writes, vec![Ask::SsdWrite { place, cause: Cause::Data }]);
                self.later.put(None, PieceEvent::Filled(page));
            }
        }
    }

    /// Notes that the parity of a row covers these pages, which were written.
    fn cover(&mut self, pages: &[u64]) {
        let shape = self.cache.params().shape;
        let row = shape.row(pages[0]);
        for &page in pages {
            if self.cache.is_old(page) {
                self.cache.goes(page, Slot::Free, self.out);
            }
        }
        if shape.pages(row).all(|page| !self.cache.is_old(page)) {
            self.cache.forget_stale(row);
        }
    }
}
