//! LRU (specs §4.1): a list of pages, most recently used first.

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::{Left, Model, Objections, param};

struct Page {
    page: u32,
    dirty: bool,
}

pub(crate) struct LruModel {
    list: Vec<Page>,
    capacity: usize,
    cache_reads: bool,
    memory_accesses: u64,
}

impl LruModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            list: Vec::new(),
            capacity: config.capacity_pages as usize,
            cache_reads: param(spec, "reads", "cache") == "cache",
            memory_accesses: 0,
        }
    }
}

impl Model for LruModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        // The lookup; the move comes with a hit or an insertion.
        self.memory_accesses += 1;
        if let Some(at) = self.list.iter().position(|p| p.page == page) {
            self.memory_accesses += 1;
            let mut hit = self.list.remove(at);
            hit.dirty |= access.write;
            self.list.insert(0, hit);
            return AccessOutcome::Hit;
        }
        if !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        if self.list.len() == self.capacity && !self.evict(objections, out) {
            return AccessOutcome::Bypassed;
        }
        self.memory_accesses += 1;
        self.list.insert(0, Page { page, dirty: access.write });
        AccessOutcome::Inserted
    }

    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let welcome = self.list.iter().rposition(|p| !objections.to(p.page));
        let at = match (welcome, objections.exhausted) {
            (Some(at), _) => at,
            (None, WhenExhausted::TakeBase) if !self.list.is_empty() => self.list.len() - 1,
            (None, _) => return false,
        };
        let victim = self.list.remove(at);
        self.memory_accesses += 1;
        out.push(Left::unit(if victim.dirty { EvictionKind::Flush } else { EvictionKind::Drop }, &[victim.page]));
        true
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
                    self.list.remove(at);
                    out.push(Left::unit(EvictionKind::Drop, &[page.0]));
                }
            }
            BufferNotice::Destage { page, keep } => {
                if let Some(at) = self.list.iter().position(|p| p.page == page.0 && p.dirty) {
                    if keep {
                        self.list[at].dirty = false;
                        out.push(Left::unit(EvictionKind::Clean, &[page.0]));
                    } else {
                        self.list.remove(at);
                        out.push(Left::unit(EvictionKind::Flush, &[page.0]));
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

    /// `3d 2c 1d`: most recently used first, dirty or clean.
    fn state(&self) -> String {
        let words: Vec<_> =
            self.list.iter().map(|p| format!("{}{}", p.page, if p.dirty { 'd' } else { 'c' })).collect();
        words.join(" ")
    }
}
