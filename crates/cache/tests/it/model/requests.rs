//! Begins requests, and lets some wait for others.

use super::*;

impl Model {
    /// Begins the requests that waited for others on the same pages.
    pub(super) fn let_go(&mut self) -> bool {
        let before = self.held.len();
        let mut index = 0;
        while index < self.held.len() {
            if self.held[index].iter().any(|frag| self.waits(frag, index)) {
                index += 1;
            } else {
                let frags = self.held.remove(index);
                self.begin_all(&frags);
            }
        }
        self.held.len() < before
    }

    /// Requests wait behind those on the same pages that wait (§8.10.4).
    pub(super) fn waits(&self, frag: &Frag, behind: usize) -> bool {
        let behind_held = |other: &Frag| other.overlaps(frag) && !(other.reads && frag.reads);
        frag.reads && self.waiting.iter().any(|waiting| waiting.frag.overlaps(frag))
            || self.held[..behind].iter().flatten().any(behind_held)
    }

    pub(super) fn begin_all(&mut self, frags: &[Frag]) {
        for frag in frags {
            self.begin(*frag);
        }
    }

    /// Returns the number of the request of which this is a piece, and whether it is sequential.
    fn number(&mut self, frag: &Frag) -> (u64, bool) {
        let goes_on = self.options.upper.is_some() && self.options.runs > 0 && self.comes(frag);
        match self.begun {
            Some((request, id, sequential)) if self.reads_paper() && request == frag.request => {
                return (id, sequential);
            }
            _ => self.ids += 1,
        }
        self.figures[7] += u64::from(goes_on);
        self.begun = Some((frag.request, self.ids, goes_on));
        (self.ids, goes_on)
    }

    fn begin(&mut self, frag: Frag) {
        if frag.reads {
            let cells: Vec<Cell> = (0..frag.pages).map(|page| self.shape.cell(frag.page + page)).collect();
            let columns: Vec<usize> = cells.iter().map(|cell| cell.1).collect();
            let first = cells.iter().map(|cell| cell.0).min().expect("it has pages");
            let last = cells.iter().map(|cell| cell.0).max().expect("it has pages");
            let claim = (first / self.shape.chunk, first, last + 1, columns, vec![]);
            self.open(Kind::Read(frag), Some(claim), cells, 0);
            return;
        }
        let (id, sequential) = self.number(&frag);
        if self.options.upper.is_some() {
            self.waiting.push(Waiting { frag, id, sequential, entered: 0, seen: false });
            self.look_again = true;
        } else {
            self.pass_on(frag, id);
        }
    }

    /// The pages of a write by rows.
    pub(super) fn rows_of(&self, frag: &Frag) -> Vec<Vec<Cell>> {
        let mut cells: Vec<Cell> = (0..frag.pages).map(|page| self.shape.cell(frag.page + page)).collect();
        cells.sort_unstable();
        cells.chunk_by(|a, b| a.0 == b.0).map(<[Cell]>::to_vec).collect()
    }

    /// Returns the groups of pages that WOW admits together, in order.
    pub(super) fn admitted_together(&self, frag: &Frag) -> Vec<Vec<Cell>> {
        if self.options.admits_rows {
            return self.rows_of(frag);
        }
        (0..frag.pages).map(|page| vec![self.shape.cell(frag.page + page)]).collect()
    }

    pub(super) fn parity_columns(&self) -> Vec<usize> {
        (self.shape.data()..self.shape.members).collect()
    }

    /// `IndependentWriteCache`: a request queues at all its rows at once (§8.10.3).
    pub(super) fn pass_on(&mut self, frag: Frag, id: u64) {
        for cells in self.rows_of(&frag) {
            let row = cells[0].0;
            let mut columns: Vec<usize> = cells.iter().map(|cell| cell.1).collect();
            columns.extend(self.parity_columns());
            let reads = if frag.part { (0..self.shape.members).collect() } else { vec![] };
            let claim = (row / self.shape.chunk, row, row + 1, reads, columns);
            self.open(Kind::Absorb(frag), Some(claim), cells, id);
        }
    }

    pub(super) fn open(&mut self, kind: Kind, claim: Option<Claim>, cells: Vec<Cell>, request: u64) {
        let op = Op {
            kind,
            claim,
            granted: false,
            done: false,
            left: 0,
            cells,
            versions: Vec::new(),
            phase: Phase::Reads,
            parity_steps: 0,
            request,
        };
        self.ops.push(op);
        self.grant();
    }

    /// Whoever has no one before him on the same pages may begin.
    pub(super) fn grant(&mut self) {
        let conflict = |a: &Claim, b: &Claim| {
            let meet = |x: &[usize], y: &[usize]| x.iter().any(|column| y.contains(column));
            a.0 == b.0 && a.1 < b.2 && b.1 < a.2 && (meet(&a.4, &b.3) || meet(&a.4, &b.4) || meet(&b.4, &a.3))
        };
        let first = self.ops.iter().position(|op| !op.done).unwrap_or(0);
        for op in first..self.ops.len() {
            if self.ops[op].done || self.ops[op].granted {
                continue;
            }
            let is_before = |other: &Op| match (&other.claim, &self.ops[op].claim) {
                (Some(a), Some(b)) => !other.done && conflict(a, b),
                _ => false,
            };
            if !self.ops[first..op].iter().any(is_before) {
                self.ops[op].granted = true;
                self.events.push_back(Event::Granted(op));
            }
        }
    }
}
