//! Decides what enters and what is destaged (specs §8.1 to §8.7).

use super::*;

impl Model {
    /// First fit in the order of waiting (§8.10.15).
    pub(super) fn enter(&mut self) {
        for op in std::mem::take(&mut self.entering) {
            let Op { kind, cells, request, .. } = self.ops[op].clone();
            if !matches!(kind, Kind::Store(_)) {
                if self.full_for(&cells).is_empty() {
                    for cell in self.with_parity(&cells) {
                        let (member, strip) = self.strip(cell);
                        let hit = self.members[member].admit(strip, cell, request, false);
                        if matches!(kind, Kind::Absorb(_)) && cell.1 < self.shape.data() {
                            self.hits[2 + usize::from(!hit)] += 1;
                        }
                    }
                } else {
                    self.entering.push(op);
                    continue;
                }
            }
            self.issue(op, What::Nvram, (0, 0, 0));
        }
    }

    /// The members without room for a row.
    pub(super) fn full_for(&mut self, cells: &[Cell]) -> Vec<usize> {
        let mut full = Vec::new();
        for cell in self.with_parity(cells) {
            let (member, strip) = self.strip(cell);
            if self.members[member].takes_room(strip, cell) && self.members[member].free() == 0 {
                full.push(member);
            }
        }
        full
    }

    pub(super) fn needs(&mut self, cells: &[Cell]) -> usize {
        let chunk = self.shape.chunk;
        cells.iter().filter(|cell| self.groups_of(cell.0 / chunk).takes_room(cell.0 / chunk, **cell)).count()
    }

    pub(super) fn store(&mut self, Waiting { frag, id, sequential, .. }: Waiting, rows: &[Vec<Cell>]) {
        let mut cells = rows.concat();
        if !self.options.admits_rows && self.options.each.is_none() {
            // Page by page, in the order of addresses.
            cells.sort_unstable_by_key(|cell| (cell.1, cell.0));
        }
        for cell in cells {
            let hit = self.admit(cell.0 / self.shape.chunk, cell, id, sequential) || self.newest(cell).is_some();
            self.hits[2 + usize::from(!hit)] += 1;
        }
        // Rows of the same columns are one operation.
        for rows in rows.chunk_by(|a, b| a.iter().map(|cell| cell.1).eq(b.iter().map(|cell| cell.1))) {
            let (first, last) = (rows[0][0].0, rows[rows.len() - 1][0].0);
            let columns = rows[0].iter().map(|cell| cell.1).collect();
            let reads = if frag.part { (0..self.shape.members).collect() } else { vec![] };
            let claim = (first / self.shape.chunk, first, last + 1, reads, columns);
            self.open(Kind::Store(frag), Some(claim), rows.concat(), id);
        }
    }

    /// No overtaking (§8.10.13); as many rows, or pages, as there is room for.
    pub(super) fn let_in_wow(&mut self) {
        while let Some(waiting) = self.waiting.first().copied() {
            let parts = self.admitted_together(&waiting.frag);
            let from = waiting.entered;
            let mut to = from;
            let mut taken = 0;
            while to < parts.len() && taken + self.needs(&parts[to]) <= self.upper_free() {
                taken += self.needs(&parts[to]);
                to += 1;
            }
            // What enters at a time is stored row by row.
            let mut cells = parts[from..to].concat();
            cells.sort_unstable();
            let rows: Vec<Vec<Cell>> = cells.chunk_by(|a, b| a.0 == b.0).map(<[Cell]>::to_vec).collect();
            self.store(waiting, &rows);
            if to < parts.len() {
                self.figures[6] += u64::from(!waiting.seen);
                self.waiting[0] = Waiting { entered: to, seen: true, ..waiting };
                return;
            }
            self.waiting.remove(0);
        }
    }

    /// `RequestArrive` of Algorithm 1, and §8.10.4, 23, 24.
    pub(super) fn let_in_small(&mut self) {
        let mut index = 0;
        while index < self.waiting.len() {
            let first = self.waiting[index];
            // By the paper's reading the pieces of a request are decided upon together.
            let alike = |other: &&Waiting| self.reads_paper() && other.id == first.id;
            let count = 1 + self.waiting[index + 1..].iter().take_while(alike).count();
            let pieces = self.waiting[index..index + count].to_vec();
            let cells: Vec<Cell> = pieces.iter().flat_map(|piece| self.rows_of(&piece.frag).concat()).collect();
            let overlaps = |earlier: &Waiting| pieces.iter().any(|piece| earlier.frag.overlaps(&piece.frag));
            let behind = self.waiting[..index].iter().any(overlaps);
            let chunk = self.shape.chunk;
            let depends = cells.iter().any(|cell| self.upper.page(cell.0 / chunk, *cell).is_some());
            let larger = cells.len() > self.upper.capacity;
            if !behind && self.upper.capacity > 0 && self.needs(&cells) <= self.upper_free() {
                for piece in pieces {
                    let rows = self.rows_of(&piece.frag);
                    self.store(piece, &rows);
                }
            } else if !behind && !depends && (!first.seen || larger) {
                self.figures[5] += 1;
                for piece in pieces {
                    self.pass_on(piece.frag, piece.id);
                }
            } else {
                self.figures[6] += u64::from(!first.seen);
                self.waiting[index..index + count].iter_mut().for_each(|piece| piece.seen = true);
                index += count;
                continue;
            }
            self.waiting.drain(index..index + count);
        }
    }

    /// Linear threshold (§8.1): of what is held.
    pub(super) fn allowed(&self) -> u64 {
        let Options { low, high, groups, .. } = self.options;
        let (capacity, held) = (self.upper.capacity as u64, (self.upper.capacity - self.upper_free()) as u64);
        // It is full if a write waits for room, even if it is a large one for little room.
        if self.clean || !self.waiting.is_empty() || held * 100 >= high * capacity {
            groups
        } else if held * 100 < low * capacity {
            0
        } else {
            (groups * (held * 100 - low * capacity)).div_ceil((high - low) * capacity).max(1)
        }
    }

    fn next_of_one(&mut self) -> Option<u64> {
        let allowed = match self.allowed() {
            0 => self.allowed_of_run(),
            allowed => allowed,
        };
        if (self.groups.len() + self.chosen.len()) as u64 >= allowed {
            return None;
        }
        let group = self.upper.advance()?;
        self.run_goes_on = self.upper.entry(group).expect("it is next").sequential;
        Some(group)
    }

    pub(super) fn destage_groups(&mut self) {
        if self.options.sync && self.options.each.is_none() {
            return self.destage_groups_together();
        }
        while let Some(group) = self.next_group() {
            self.destage_group(group);
        }
    }

    pub(super) fn next_group(&mut self) -> Option<u64> {
        if self.apart.is_some() { self.next_of_two() } else { self.next_of_one() }
    }

    pub(super) fn destage_group(&mut self, group: u64) {
        self.figures[0] += 1;
        self.ids += 1;
        let id = self.ids;
        let members = self.members_of_group(group);
        let mut cells = self.groups_of(group).depart(group);
        let by_rows = self.options.each.is_some() || self.shape.parity() > 0;
        if !by_rows {
            cells.sort_by_key(|cell| (cell.1, cell.0));
        }
        let same = |a: &Cell, b: &Cell| if by_rows { a.0 == b.0 } else { a.1 == b.1 };
        let parts: Vec<Vec<Cell>> = cells.chunk_by(same).map(<[Cell]>::to_vec).collect();
        self.groups.push((group, parts.len(), members));
        for cells in parts {
            let row = cells[0].0;
            let claim = (group, row, row + 1, vec![], self.parity_columns());
            match (by_rows, self.options.each) {
                (false, _) => self.open(Kind::Column(group), None, cells, id),
                (true, None) => self.open(Kind::WriteBack(group), Some(claim), cells, id),
                (true, Some(_)) => self.open(Kind::Move(group), Some(claim), cells, id),
            }
        }
    }

    /// `Destage` and `Synchronization` of Algorithm 1, §8.5, §8.10.2, 5, 18, 19.
    pub(super) fn destage_strips(&mut self) {
        for member in 0..self.members.len() {
            if self.candidates[member].is_none() && !self.writing[member] {
                self.candidates[member] = self.members[member].advance();
            }
        }
        let ready: Vec<bool> = (self.candidates.iter().zip(&self.members))
            .map(|(candidate, pool)| candidate.is_some_and(|strip| pool.can_go(strip)))
            .collect();
        if self.options.sync && !self.clean && !self.are_strips_released(&ready) {
            return;
        }
        for member in (0..ready.len()).filter(|member| ready[*member]) {
            let strip = self.candidates[member].take().expect("it is ready");
            self.writing[member] = true;
            self.figures[0] += 1;
            let cells = self.members[member].depart(strip);
            self.open(Kind::Strip(member, strip), None, cells, 0);
        }
    }
}
