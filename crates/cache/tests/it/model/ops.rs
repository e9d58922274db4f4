//! Carries out operations, step by step.

use super::*;

impl Model {
    pub(super) fn newest(&self, cell: Cell) -> Option<u64> {
        find(&self.above, cell).or_else(|| find(&self.below, cell))
    }

    pub(super) fn plan(&mut self, op: usize) {
        let Op { kind, mut cells, .. } = self.ops[op].clone();
        match kind {
            Kind::Read(frag) => {
                let mut run = Vec::new();
                let all_hit = cells.iter().all(|cell| self.newest(*cell).is_some());
                for cell in cells {
                    let hit = self.newest(cell).is_some();
                    self.hits[usize::from(!hit)] += 1;
                    let follows = run.last().is_some_and(|last: &Cell| last.1 == cell.1 && last.0 + 1 == cell.0);
                    if (hit || !follows) && !run.is_empty() {
                        self.issue_pages(op, What::Read, &std::mem::take(&mut run));
                    }
                    if !hit {
                        run.push(cell);
                    }
                }
                if !run.is_empty() {
                    self.issue_pages(op, What::Read, &run);
                }
                if !frag.part && !all_hit {
                    self.ops[op].phase = Phase::Changes;
                }
            }
            Kind::Store(frag) => {
                if frag.part && self.newest(cells[0]).is_none() {
                    self.issue_pages(op, What::Read, &cells);
                }
            }
            Kind::Absorb(frag) => self.read_for_parity(op, &cells, frag.part),
            Kind::Move(_) | Kind::WriteBack(_) => {
                let row = cells[0].0;
                cells = (0..self.shape.data()).map(|column| (row, column)).collect();
                cells.retain(|cell| find(&self.above, *cell).is_some());
                let version = |cell: &Cell| find(&self.above, *cell).expect("it is there");
                (self.ops[op].versions, self.ops[op].cells) = (cells.iter().map(version).collect(), cells.clone());
                self.read_for_parity(op, &cells, false);
            }
            Kind::Column(_) | Kind::Strip(..) => {
                let layer = if matches!(kind, Kind::Strip(..)) { &self.below } else { &self.above };
                self.ops[op].versions = cells.iter().map(|cell| find(layer, *cell).expect("it is destaged")).collect();
                self.ops[op].phase = Phase::Changes;
                for run in runs(&cells) {
                    self.issue_pages(op, What::Write, &run);
                }
            }
        }
        if self.ops[op].left == 0 {
            self.phase_ended(op);
        }
    }

    /// Reads what the parity of a row needs beyond the request and the lower layer. It takes the smaller set of
    /// reads, and reconstruction if both are equal (§8.6). WOW's destages choose in the same way (§2.1).
    pub(super) fn read_for_parity(&mut self, op: usize, cells: &[Cell], part: bool) {
        let row = cells[0].0;
        let all = |columns: Vec<usize>| columns.into_iter().map(move |column| (row, column));
        let old: Vec<Cell> = cells.iter().copied().filter(|cell| find(&self.below, *cell).is_none()).collect();
        let mut others: Vec<Cell> = all((0..self.shape.data()).collect()).collect();
        others.retain(|cell| !cells.contains(cell) && find(&self.below, *cell).is_none());
        let parity = all(self.parity_columns()).filter(|cell| find(&self.below, *cell).is_none());
        let modify: Vec<Cell> = old.iter().copied().chain(parity).collect();
        let reconstruct: Vec<Cell> = if part { [old.clone(), others].concat() } else { others };
        let modifies = match self.options.method {
            Method::Min => modify.len() < reconstruct.len(),
            Method::Rmw => true,
            Method::Rcw => false,
        };
        let (reads, steps) = if self.shape.parity() == 0 {
            (if part { old } else { vec![] }, 0)
        } else if cells.len() < self.shape.data() && modifies {
            // Q is multiplied by what changes of one page, or the old and the new are computed apart.
            (
                modify,
                if self.shape.parity() == 1 {
                    1
                } else if cells.len() == 1 {
                    3
                } else {
                    2
                },
            )
        } else {
            (reconstruct, 1)
        };
        self.ops[op].parity_steps = steps;
        for cell in reads {
            self.issue_pages(op, What::Read, &[cell]);
        }
    }

    /// All that an operation waits for has ended; whether that is an event, after which things are decided.
    pub(super) fn phase_ended(&mut self, op: usize) -> bool {
        let Op { kind, cells, versions, phase, .. } = self.ops[op].clone();
        if phase == Phase::Reads {
            self.ops[op].phase = Phase::Computes;
            let steps = match kind {
                Kind::Read(frag) => 1 + usize::from(frag.part),
                Kind::Store(frag) => usize::from(frag.part),
                Kind::Absorb(frag) => usize::from(frag.part) + self.ops[op].parity_steps,
                _ => self.ops[op].parity_steps,
            };
            if steps > 0 {
                self.computing.push_back((op, steps));
                return false;
            }
        }
        if phase != Phase::Changes && !matches!(kind, Kind::Read(_)) {
            self.ops[op].phase = Phase::Changes;
            if matches!(kind, Kind::WriteBack(_)) {
                let row = cells[0].0;
                for cell in cells.into_iter().chain(self.parity_columns().into_iter().map(|column| (row, column))) {
                    self.issue_pages(op, What::Write, &[cell]);
                }
            } else {
                self.entering.push(op);
                self.enter();
            }
            return !matches!(kind, Kind::WriteBack(_));
        }
        match kind {
            Kind::Read(frag) => self.answered.push((frag.request, frag.pages)),
            Kind::Store(frag) => {
                for cell in &cells {
                    self.version += 1;
                    set(&mut self.above, *cell, self.version);
                    let group = cell.0 / self.shape.chunk;
                    self.groups_of(group).page(group, *cell).expect("it was let in").coming -= 1;
                }
                self.answered.push((frag.request, cells.len() as u64));
            }
            Kind::Absorb(_) | Kind::Move(_) => {
                for cell in self.with_parity(&cells) {
                    self.version += 1;
                    set(&mut self.below, cell, self.version);
                    let (member, strip) = self.strip(cell);
                    self.members[member].page(strip, cell).expect("it was let in").coming -= 1;
                }
                if let Kind::Absorb(frag) = kind {
                    self.answered.push((frag.request, cells.len() as u64));
                } else if let Kind::Move(group) = kind {
                    self.leave_above(&cells, &versions);
                    self.part_of_group_done(group);
                }
            }
            Kind::WriteBack(group) | Kind::Column(group) => {
                self.figures[1] += cells.len() as u64;
                self.leave_above(&cells, &versions);
                self.part_of_group_done(group);
            }
            Kind::Strip(member, strip) => {
                self.figures[1] += cells.len() as u64;
                let gone: Vec<(Cell, u64)> = cells.into_iter().zip(versions).collect();
                self.below.retain(|version| !gone.contains(version));
                self.writing[member] = false;
                let below = &self.below;
                self.members[member].landed(strip, |cell| find(below, cell).is_some());
            }
        }
        self.closed = Some(op);
        true
    }

    pub(super) fn with_parity(&self, cells: &[Cell]) -> Vec<Cell> {
        let row = cells[0].0;
        cells.iter().copied().chain(self.parity_columns().into_iter().map(|column| (row, column))).collect()
    }

    pub(super) fn strip(&self, (row, column): Cell) -> (usize, u64) {
        let stripe = row / self.shape.chunk;
        (self.shape.member(stripe, column), stripe)
    }

    pub(super) fn leave_above(&mut self, cells: &[Cell], versions: &[u64]) {
        let gone: Vec<(Cell, u64)> = cells.iter().copied().zip(versions.iter().copied()).collect();
        self.above.retain(|version| !gone.contains(version));
    }

    pub(super) fn part_of_group_done(&mut self, group: u64) {
        let at = self.groups.iter().position(|(other, ..)| *other == group).expect("it is destaged");
        self.groups[at].1 -= 1;
        if self.groups[at].1 == 0 {
            self.groups.remove(at);
            let above = self.above.clone();
            self.groups_of(group).landed(group, |cell| find(&above, cell).is_some());
            self.look_again = true;
        }
    }
}
