//! CAVE over CCF-LRU (specs §4.5, §6.3): three lists of pages, most recently used first.

use std::collections::BTreeSet;

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::{Left, Model, Objections, param, switch};

#[derive(Clone, Copy)]
pub(super) struct Held {
    pub(super) page: u32,
    pub(super) dirty: bool,
    pub(super) cold: bool,
}

impl Held {
    /// `5d*`, as the tables write it.
    pub(super) fn word(self) -> String {
        format!("{}{}{}", self.page, if self.dirty { 'd' } else { 'c' }, if self.cold { "*" } else { "" })
    }
}

/// The words of a list, or a dash.
pub(super) fn words(list: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = list.collect();
    if words.is_empty() { "-".into() } else { words.join(" ") }
}

/// Takes a page out of a list.
pub(super) fn take(list: &mut Vec<Held>, page: u32) -> Option<Held> {
    list.iter().position(|p| p.page == page).map(|at| list.remove(at))
}

/// Takes out the least recently used page that nobody objects to.
pub(super) fn take_welcome(list: &mut Vec<Held>, objections: &Objections) -> Option<Held> {
    list.iter().rposition(|p| !objections.to(p.page)).map(|at| list.remove(at))
}

/// Channels in turn.
pub(super) struct RoundRobin {
    pub(super) channels: u32,
    next: u32,
}

impl RoundRobin {
    pub(super) fn new(channels: u32) -> Self {
        Self { channels, next: 0 }
    }

    /// The channels that are not avoided, or all if all are.
    pub(super) fn open(&self, avoided: &BTreeSet<u32>) -> Vec<u32> {
        let open: Vec<u32> = (0..self.channels).filter(|c| !avoided.contains(c)).collect();
        if open.is_empty() { (0..self.channels).collect() } else { open }
    }

    /// The next channel of `open`.
    pub(super) fn turn(&mut self, open: &[u32]) -> u16 {
        while !open.contains(&self.next) {
            self.next = (self.next + 1) % self.channels;
        }
        let channel = self.next;
        self.next = (self.next + 1) % self.channels;
        channel as u16
    }

    /// Writes `pages` one group of at most `open.len()` after the other.
    pub(super) fn write(&mut self, kind: EvictionKind, pages: &[u32], open: &[u32], out: &mut Vec<Left>) {
        for group in pages.chunks(open.len()) {
            let group: Vec<_> = group.iter().map(|page| (*page, self.turn(open))).collect();
            out.push(Left::spread(kind, &group));
        }
    }
}

/// Is true if all channels are avoided.
pub(super) fn all_avoided(channels: u32, objections: &Objections) -> bool {
    (0..channels).all(|c| objections.channels.contains(&c))
}

pub(crate) struct CaveModel {
    mixed: Vec<Held>,
    cold_clean: Vec<Held>,
    cold_dirty: Vec<Held>,
    capacity: usize,
    clean_to_mixed: bool,
    new_dirty_cold: bool,
    channels: RoundRobin,
    memory_accesses: u64,
}

impl CaveModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            mixed: Vec::new(),
            cold_clean: Vec::new(),
            cold_dirty: Vec::new(),
            capacity: config.capacity_pages as usize,
            clean_to_mixed: param(spec, "ccf_new_clean_to", "ccl") == "mixed",
            new_dirty_cold: switch(spec, "ccf_new_dirty_cold", false),
            channels: RoundRobin::new(config.elements),
            memory_accesses: 0,
        }
    }

    fn count(&self) -> usize {
        self.mixed.len() + self.cold_clean.len() + self.cold_dirty.len()
    }

    fn drop_clean(&mut self, page: Held, out: &mut Vec<Left>) {
        self.memory_accesses += 1;
        out.push(Left::unit(EvictionKind::Drop, &[page.page]));
    }

    fn replace(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let open = self.channels.open(&objections.channels);
        loop {
            if let Some(page) = take_welcome(&mut self.cold_clean, objections) {
                self.drop_clean(page, out);
                return true;
            }
            if self.cold_dirty.len() >= open.len() || self.mixed.is_empty() {
                break;
            }
            self.memory_accesses += 1;
            let mut page = self.mixed.pop().expect("not empty");
            if !page.dirty {
                page.cold = true;
                self.cold_clean.insert(0, page);
            } else if page.cold {
                self.cold_dirty.insert(0, page);
            } else {
                page.cold = true;
                self.mixed.insert(0, page);
            }
        }
        if self.cold_dirty.is_empty() || all_avoided(self.channels.channels, objections) {
            if objections.exhausted == WhenExhausted::Bypass {
                return false;
            }
            if let Some(page) = self.cold_clean.pop() {
                self.drop_clean(page, out);
                return true;
            }
        }
        let leaving = open.len().min(self.cold_dirty.len());
        let pages: Vec<u32> = (0..leaving).map(|_| self.cold_dirty.pop().expect("counted").page).collect();
        self.memory_accesses += leaving as u64;
        self.channels.write(EvictionKind::Flush, &pages, &open, out);
        true
    }
}

impl Model for CaveModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        self.memory_accesses += 1;
        let lists = [&mut self.mixed, &mut self.cold_clean, &mut self.cold_dirty];
        let found = lists.into_iter().find_map(|list| take(list, page));
        if let Some(mut hit) = found {
            self.memory_accesses += 1;
            hit.cold = false;
            hit.dirty |= access.write;
            self.mixed.insert(0, hit);
            return AccessOutcome::Hit;
        }
        if self.count() == self.capacity && !self.replace(objections, out) {
            return AccessOutcome::Bypassed;
        }
        self.memory_accesses += 1;
        if access.write {
            self.mixed.insert(0, Held { page, dirty: true, cold: self.new_dirty_cold });
        } else if self.clean_to_mixed {
            self.mixed.insert(0, Held { page, dirty: false, cold: false });
        } else {
            self.cold_clean.insert(0, Held { page, dirty: false, cold: true });
        }
        AccessOutcome::Inserted
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        let open = self.channels.open(&BTreeSet::new());
        match notice {
            BufferNotice::Flush => {
                let collected: Vec<u32> = self.cold_dirty.iter().rev().map(|p| p.page).collect();
                self.channels.write(EvictionKind::Clean, &collected, &open, out);
                let now_clean = self.cold_dirty.drain(..).map(|p| Held { dirty: false, ..p });
                self.cold_clean.splice(0..0, now_clean);
                let dirty: Vec<u32> = self.mixed.iter().rev().filter(|p| p.dirty).map(|p| p.page).collect();
                self.channels.write(EvictionKind::Clean, &dirty, &open, out);
                self.mixed.iter_mut().for_each(|p| p.dirty = false);
            }
            BufferNotice::Destage { page: destaged, keep } => {
                let kind = if keep { EvictionKind::Clean } else { EvictionKind::Flush };
                if !self.dirty().contains(&destaged.0) {
                    return;
                }
                self.channels.write(kind, &[destaged.0], &open, out);
                if !keep {
                    take(&mut self.mixed, destaged.0).or_else(|| take(&mut self.cold_dirty, destaged.0));
                } else if let Some(page) = take(&mut self.cold_dirty, destaged.0) {
                    self.cold_clean.insert(0, Held { dirty: false, ..page });
                } else {
                    self.mixed.iter_mut().filter(|p| p.page == destaged.0).for_each(|p| p.dirty = false);
                }
            }
            BufferNotice::Trim { page } => {
                for list in [&mut self.mixed, &mut self.cold_clean, &mut self.cold_dirty] {
                    if take(list, page.0).is_some() {
                        out.push(Left::unit(EvictionKind::Drop, &[page.0]));
                    }
                }
            }
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
        }
    }

    fn len(&self) -> u32 {
        self.count() as u32
    }

    fn dirty(&self) -> Vec<u32> {
        let pages = self.mixed.iter().chain(&self.cold_dirty).filter(|p| p.dirty).map(|p| p.page);
        pages.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }

    /// `5d 4d* | 3c* | 1 2`: the mixed list and the cold clean list from their MRU ends, the pages
    /// collected in the order in which they leave.
    fn state(&self) -> String {
        format!(
            "{} | {} | {}",
            words(self.mixed.iter().map(|p| p.word())),
            words(self.cold_clean.iter().map(|p| p.word())),
            words(self.cold_dirty.iter().rev().map(|p| p.page.to_string())),
        )
    }
}
