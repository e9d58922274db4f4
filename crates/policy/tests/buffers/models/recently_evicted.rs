//! REF (specs §4.6): a list of pages, most recently used first, of which the last `vw` are the
//! window, and the victim blocks.
//!
//! Not in the specification, resolved by the policy: of blocks with equally many pages in the
//! window the one whose number changed least recently; what a veto passes over counts for the
//! window, and once the pages of victim blocks are vetoed (and with `most_pages_in_vw` those of the
//! window by block) all pages are candidates.

use std::collections::BTreeMap;

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::cflru::window;
use super::{Left, Model, Objections, param};

struct Page {
    page: u32,
    dirty: bool,
}

pub(crate) struct RecentlyEvictedModel {
    list: Vec<Page>,
    pages_per_block: u32,
    capacity: usize,
    window: usize,
    most_victims: usize,
    by_size: bool,
    /// The first to come first.
    victims: Vec<u32>,
    cache_reads: bool,
    /// Block → when the number of its pages in the window changed last.
    changed: BTreeMap<u32, u64>,
    changes: u64,
    /// The pages of the window after the last change.
    before: Vec<u32>,
    memory_accesses: u64,
}

impl RecentlyEvictedModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        let capacity = config.capacity_pages as usize;
        Self {
            list: Vec::new(),
            pages_per_block: config.pages_per_block,
            capacity,
            window: window(spec, "vw", capacity),
            most_victims: param(spec, "nvb", "1").parse().expect("a number of blocks"),
            by_size: param(spec, "new_vb", "lru_page") == "most_pages_in_vw",
            victims: Vec::new(),
            cache_reads: param(spec, "reads", "cache") == "cache",
            changed: BTreeMap::new(),
            changes: 0,
            before: Vec::new(),
            memory_accesses: 0,
        }
    }

    /// The window's pages from the LRU end.
    fn in_window(&self) -> Vec<u32> {
        self.list.iter().rev().take(self.window).map(|p| p.page).collect()
    }

    fn block(&self, page: u32) -> u32 {
        page / self.pages_per_block
    }

    /// Notes what entered the window, and the page that left it, if one did.
    fn note_changes(&mut self, moved: Option<u32>) {
        let left = moved.filter(|page| self.before.contains(page));
        self.before.retain(|page| left != Some(*page));
        let now = self.in_window();
        assert!(now.starts_with(&self.before), "the window changes at its front");
        for page in left.iter().chain(&now[self.before.len()..]) {
            self.changes += 1;
            self.changed.insert(page / self.pages_per_block, self.changes);
        }
        self.before = now;
    }

    /// The pages in the order in which they would be evicted; the first `.1` of them are no news
    /// for the victim blocks.
    fn order(&self) -> (Vec<u32>, usize) {
        let window = self.in_window();
        let is_victim = |page: &u32| self.victims.contains(&self.block(*page));
        let mut order: Vec<u32> = window.iter().copied().filter(is_victim).collect();
        let known = order.len();
        if self.by_size {
            let mut blocks: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for page in &window {
                blocks.entry(self.block(*page)).or_default().push(*page);
            }
            let mut blocks: Vec<_> = blocks.into_iter().collect();
            blocks.sort_by_key(|(block, pages)| (usize::MAX - pages.len(), self.changed[block]));
            order.extend(blocks.into_iter().flat_map(|(_, pages)| pages));
        }
        order.extend(self.list.iter().rev().map(|p| p.page));
        (order, known)
    }

    fn give_up(&mut self, page: u32, out: &mut Vec<Left>) {
        let at = self.list.iter().position(|p| p.page == page).expect("a page that is held");
        let Page { page, dirty } = self.list.remove(at);
        out.push(Left::unit(if dirty { EvictionKind::Flush } else { EvictionKind::Drop }, &[page]));
        self.note_changes(Some(page));
    }
}

impl Model for RecentlyEvictedModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        self.memory_accesses += 1;
        if let Some(at) = self.list.iter().position(|p| p.page == page) {
            self.memory_accesses += 1;
            let mut hit = self.list.remove(at);
            hit.dirty |= access.write;
            self.list.insert(0, hit);
            self.note_changes(Some(page));
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
        self.note_changes(None);
        AccessOutcome::Inserted
    }

    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let (order, known) = self.order();
        let welcome = order.iter().position(|page| !objections.to(*page));
        let at = match (welcome, objections.exhausted) {
            (Some(at), _) => at,
            (None, WhenExhausted::TakeBase) if !order.is_empty() => 0,
            (None, _) => return false,
        };
        self.memory_accesses += self.victims.len() as u64 + 1;
        let block = self.block(order[at]);
        if at >= known && !self.victims.contains(&block) {
            if self.victims.len() == self.most_victims {
                self.victims.remove(0);
            }
            self.victims.push(block);
        }
        self.give_up(order[at], out);
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
                if let Some(held) = self.list.iter_mut().find(|p| p.page == page.0) {
                    held.dirty = false;
                    self.give_up(page.0, out);
                }
            }
            BufferNotice::Destage { page, keep } => {
                if let Some(held) = self.list.iter_mut().find(|p| p.page == page.0 && p.dirty) {
                    if keep {
                        held.dirty = false;
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

    /// `12 2 8 5 1 4 VB={0}`: most recently used first, and the victim blocks.
    fn state(&self) -> String {
        let words: Vec<_> = self.list.iter().map(|p| p.page.to_string()).collect();
        let victims: Vec<_> = self.victims.iter().map(u32::to_string).collect();
        format!("{} VB={{{}}}", words.join(" "), victims.join(","))
    }
}
