//! Pages in groups, or in strips of a member, and which go next (specs §8.2, §8.10).

use super::Cell;

#[derive(Clone, Debug)]
pub struct Page {
    pub cell: Cell,
    pub dirty: bool,
    pub under_way: bool,
    pub coming: u32,
}

/// A group or a strip.
#[derive(Clone, Debug)]
pub struct Entry {
    pub number: u64,
    pub recency: bool,
    pub busy: bool,
    pub sequential: bool,
    pub chosen: bool,
    pub by: Vec<u64>,
    pub pages: Vec<Page>,
}

#[derive(Clone, Debug)]
pub struct Pool {
    pub capacity: usize,
    pub on_insert: bool,
    pub pointer: Option<u64>,
    pub entries: Vec<Entry>,
}

impl Pool {
    pub(super) fn new(capacity: usize, on_insert: bool) -> Self {
        Self { capacity, on_insert, pointer: None, entries: Vec::new() }
    }

    pub(super) fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.number == number)
    }

    pub(super) fn page(&mut self, number: u64, cell: Cell) -> Option<&mut Page> {
        self.entry(number)?.pages.iter_mut().find(|page| page.cell == cell)
    }

    /// Returns the free pages. A page in flight counts, and counts again when it is rewritten (§8.10.11,
    /// §8.10.22).
    pub(super) fn free(&self) -> usize {
        let pages = self.entries.iter().flat_map(|entry| &entry.pages);
        self.capacity.saturating_sub(pages.map(|page| usize::from(page.dirty) + usize::from(page.under_way)).sum())
    }

    pub(super) fn takes_room(&mut self, number: u64, cell: Cell) -> bool {
        self.page(number, cell).is_none_or(|page| !page.dirty)
    }

    /// A page is let in; whether it was there.
    pub(super) fn admit(&mut self, number: u64, cell: Cell, request: u64, sequential: bool) -> bool {
        let on_insert = self.on_insert;
        match self.entry(number) {
            None => {
                let by = vec![];
                self.entries.push(Entry {
                    number,
                    recency: on_insert,
                    busy: false,
                    sequential,
                    chosen: false,
                    by,
                    pages: Vec::new(),
                });
            }
            // Own pages are no hit (§8.10.8).
            Some(entry) => {
                let hit = entry.by.iter().any(|by| *by != request);
                entry.recency |= on_insert || hit && !sequential;
                entry.sequential = sequential;
            }
        }
        let was_there = self.page(number, cell).is_some();
        let entry = self.entry(number).expect("it was made");
        entry.by.push(request);
        if !was_there {
            entry.pages.push(Page { cell, dirty: false, under_way: false, coming: 0 });
            entry.pages.sort_by_key(|page| page.cell);
        }
        let page = self.page(number, cell).expect("it was made");
        page.dirty = true;
        page.coming += 1;
        was_there
    }

    pub(super) fn can_go(&self, number: u64) -> bool {
        let can = |entry: &Entry| {
            !entry.busy && entry.pages.iter().all(|page| page.coming == 0) && entry.pages.iter().any(|page| page.dirty)
        };
        self.entries.iter().any(|entry| entry.number == number && can(entry))
    }

    /// The entries round the circle, from the pointer on.
    pub(super) fn round(&self) -> Vec<u64> {
        let mut round: Vec<u64> = self.entries.iter().map(|entry| entry.number).collect();
        round.sort_by_key(|number| (self.pointer.is_some_and(|pointer| *number <= pointer), *number));
        round
    }

    /// The next entry round the circle without its bit (§8.2, §8.10.10).
    pub(super) fn advance(&mut self) -> Option<u64> {
        let mut round = self.round();
        let chosen = |number: &u64| self.entries.iter().any(|entry| entry.number == *number && entry.chosen);
        round.retain(|number| self.can_go(*number) && !chosen(number));
        for number in round.repeat(2) {
            let entry = self.entry(number).expect("it is of the round");
            if !std::mem::take(&mut entry.recency) {
                self.pointer = Some(number);
                return Some(number);
            }
        }
        None
    }

    pub(super) fn depart(&mut self, number: u64) -> Vec<Cell> {
        let entry = self.entry(number).expect("it is destaged");
        (entry.busy, entry.chosen) = (true, false);
        let mut cells = Vec::new();
        for page in entry.pages.iter_mut().filter(|page| page.dirty) {
            (page.dirty, page.under_way) = (false, true);
            cells.push(page.cell);
        }
        cells
    }

    /// All of the entry is acknowledged (§8.10.9).
    pub(super) fn landed(&mut self, number: u64, held: impl Fn(Cell) -> bool) {
        let entry = self.entry(number).expect("it was destaged");
        entry.busy = false;
        for page in &mut entry.pages {
            page.under_way = false;
            page.dirty = page.coming > 0 || held(page.cell);
        }
        entry.pages.retain(|page| page.dirty);
        self.entries.retain(|entry| !entry.pages.is_empty());
    }
}
