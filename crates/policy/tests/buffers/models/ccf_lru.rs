//! CCF-LRU (specs §4.5): the mixed list and the cold clean list, most recently used first.
//!
//! Not in the specification, resolved by the policy: a page that became clean in its place stays in
//! the mixed list; a scan that a veto leaves no victim moves nothing.

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::{Left, Model, Objections, param, switch};

struct Held {
    page: u32,
    dirty: bool,
    cold: bool,
}

pub(crate) struct CcfLruModel {
    mixed: Vec<Held>,
    cold_clean: Vec<Held>,
    capacity: usize,
    cache_reads: bool,
    clean_to_mixed: bool,
    new_dirty_cold: bool,
    evict_hot_clean: bool,
    memory_accesses: u64,
}

impl CcfLruModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            mixed: Vec::new(),
            cold_clean: Vec::new(),
            capacity: config.capacity_pages as usize,
            cache_reads: param(spec, "reads", "cache") == "cache",
            clean_to_mixed: param(spec, "new_clean_to", "ccl") == "mixed",
            new_dirty_cold: switch(spec, "new_dirty_cold", false),
            evict_hot_clean: param(spec, "hot_clean", "evict") == "evict",
            memory_accesses: 0,
        }
    }

    fn pages(&self) -> impl Iterator<Item = &Held> {
        self.mixed.iter().chain(&self.cold_clean)
    }

    fn take(&mut self, page: u32) -> Option<Held> {
        for list in [&mut self.mixed, &mut self.cold_clean] {
            if let Some(at) = list.iter().position(|p| p.page == page) {
                return Some(list.remove(at));
            }
        }
        None
    }

    fn give_up(&mut self, page: u32, out: &mut Vec<Left>) {
        let Held { page, dirty, .. } = self.take(page).expect("a page that is held");
        out.push(Left::unit(if dirty { EvictionKind::Flush } else { EvictionKind::Drop }, &[page]));
    }

    /// The page to give up; `may_leave` says which may.
    fn victim(&mut self, may_leave: impl Fn(u32) -> bool) -> u32 {
        // Pages of the mixed list that were passed over and stay at its end.
        let mut passed_over = 0;
        let mut look_at_cold_clean = true;
        loop {
            if (look_at_cold_clean || passed_over == self.mixed.len())
                && let Some(page) = self.cold_clean.iter().rev().find(|p| may_leave(p.page))
            {
                self.memory_accesses += 1;
                return page.page;
            }
            look_at_cold_clean = false;
            let at = self.mixed.len() - passed_over - 1;
            let &Held { page, dirty, cold } = &self.mixed[at];
            if cold {
                if may_leave(page) {
                    self.memory_accesses += 1;
                    return page;
                }
                passed_over += 1;
                continue;
            }
            self.memory_accesses += 2;
            let moved = Held { cold: true, ..self.mixed.remove(at) };
            if dirty {
                self.mixed.insert(0, moved);
            } else {
                self.cold_clean.insert(0, moved);
                look_at_cold_clean = self.evict_hot_clean;
            }
        }
    }
}

impl Model for CcfLruModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        self.memory_accesses += 1;
        if let Some(hit) = self.take(page) {
            self.memory_accesses += 1;
            self.mixed.insert(0, Held { page, dirty: hit.dirty || access.write, cold: false });
            return AccessOutcome::Hit;
        }
        if !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        if self.pages().count() == self.capacity && !self.evict(objections, out) {
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

    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        if self.len() == 0 {
            return false;
        }
        let all = self.pages().all(|p| objections.to(p.page));
        if all && objections.exhausted == WhenExhausted::Bypass {
            return false;
        }
        let page = self.victim(|page| all || !objections.to(page));
        self.give_up(page, out);
        true
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        match notice {
            BufferNotice::Flush => {
                for page in self.mixed.iter_mut().rev().filter(|p| p.dirty) {
                    page.dirty = false;
                    out.push(Left::unit(EvictionKind::Clean, &[page.page]));
                }
            }
            BufferNotice::Trim { page } => {
                if self.take(page.0).is_some() {
                    out.push(Left::unit(EvictionKind::Drop, &[page.0]));
                }
            }
            BufferNotice::Destage { page, keep } => {
                if let Some(at) = self.mixed.iter().position(|p| p.page == page.0 && p.dirty) {
                    if keep {
                        self.mixed[at].dirty = false;
                        out.push(Left::unit(EvictionKind::Clean, &[page.0]));
                    } else {
                        self.give_up(page.0, out);
                    }
                }
            }
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
        }
    }

    fn len(&self) -> u32 {
        self.pages().count() as u32
    }

    fn dirty(&self) -> Vec<u32> {
        let mut pages: Vec<u32> = self.pages().filter(|p| p.dirty).map(|p| p.page).collect();
        pages.sort_unstable();
        pages
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }

    /// `4d 2c 1d | 3c*`: the mixed list and the cold clean list, most recently used first, dirty or
    /// clean, cold.
    fn state(&self) -> String {
        let words = |list: &[Held]| {
            let word =
                |p: &Held| format!("{}{}{}", p.page, if p.dirty { 'd' } else { 'c' }, if p.cold { "*" } else { "" });
            if list.is_empty() { "-".to_owned() } else { list.iter().map(word).collect::<Vec<_>>().join(" ") }
        };
        format!("{} | {}", words(&self.mixed), words(&self.cold_clean))
    }
}
