//! LRU-WSR (specs §4.4): a list of pages, most recently used first, each with a cold flag.
//!
//! Not in the specification, resolved by the policy: a scan that a veto leaves no victim gives no
//! second chance.

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::{Left, Model, Objections, param};

struct Held {
    page: u32,
    dirty: bool,
    cold: bool,
}

pub(crate) struct LruWsrModel {
    list: Vec<Held>,
    capacity: usize,
    cache_reads: bool,
    memory_accesses: u64,
}

impl LruWsrModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            list: Vec::new(),
            capacity: config.capacity_pages as usize,
            cache_reads: param(spec, "reads", "cache") == "cache",
            memory_accesses: 0,
        }
    }

    fn give_up(&mut self, at: usize, out: &mut Vec<Left>) {
        let Held { page, dirty, .. } = self.list.remove(at);
        out.push(Left::unit(if dirty { EvictionKind::Flush } else { EvictionKind::Drop }, &[page]));
    }
}

impl Model for LruWsrModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        self.memory_accesses += 1;
        if let Some(at) = self.list.iter().position(|p| p.page == page) {
            self.memory_accesses += 1;
            let hit = self.list.remove(at);
            self.list.insert(0, Held { page, dirty: hit.dirty || access.write, cold: false });
            return AccessOutcome::Hit;
        }
        if !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        if self.list.len() == self.capacity && !self.evict(objections, out) {
            return AccessOutcome::Bypassed;
        }
        self.memory_accesses += 1;
        self.list.insert(0, Held { page, dirty: access.write, cold: false });
        AccessOutcome::Inserted
    }

    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        if self.list.is_empty() {
            return false;
        }
        let all = self.list.iter().all(|p| objections.to(p.page));
        if all && objections.exhausted == WhenExhausted::Bypass {
            return false;
        }
        let mut at = self.list.len() - 1;
        loop {
            let page = &self.list[at];
            if page.dirty && !page.cold {
                // What was at `at - 1` is at `at` now.
                self.memory_accesses += 2;
                let page = self.list.remove(at);
                self.list.insert(0, Held { cold: true, ..page });
            } else if all || !objections.to(page.page) {
                self.memory_accesses += 1;
                self.give_up(at, out);
                return true;
            } else {
                at -= 1;
            }
        }
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        match notice {
            BufferNotice::Flush => {
                for page in self.list.iter_mut().rev().filter(|p| p.dirty) {
                    page.dirty = false;
                    out.push(Left::unit(EvictionKind::Clean, &[page.page]));
                }
            }
            BufferNotice::Trim { page } => {
                if let Some(at) = self.list.iter().position(|p| p.page == page.0) {
                    self.list[at].dirty = false;
                    self.give_up(at, out);
                }
            }
            BufferNotice::Destage { page, keep } => {
                if let Some(at) = self.list.iter().position(|p| p.page == page.0 && p.dirty) {
                    if keep {
                        self.list[at].dirty = false;
                        out.push(Left::unit(EvictionKind::Clean, &[page.0]));
                    } else {
                        self.give_up(at, out);
                    }
                }
            }
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
        }
    }

    fn len(&self) -> u32 {
        self.list.len() as u32
    }

    fn dirty(&self) -> Vec<u32> {
        let mut pages: Vec<u32> = self.list.iter().filter(|p| p.dirty).map(|p| p.page).collect();
        pages.sort_unstable();
        pages
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }

    /// `4c 1d* 3d`: most recently used first, dirty or clean, cold.
    fn state(&self) -> String {
        let word = |p: &Held| format!("{}{}{}", p.page, if p.dirty { 'd' } else { 'c' }, if p.cold { "*" } else { "" });
        self.list.iter().map(word).collect::<Vec<_>>().join(" ")
    }
}
