//! CAWR over pages (specs §6.4, Algorithms 1 and 2): the working list and the cold clean list, most
//! recently used first, and the cold dirty lists, least recently used first.

use std::collections::BTreeSet;

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::cave::{Held, RoundRobin, all_avoided, take, take_welcome, words};
use super::{Left, Model, Objections, param};

pub(crate) struct CawrModel {
    working: Vec<Held>,
    cold_clean: Vec<Held>,
    cold_dirty: Vec<Vec<Held>>,
    capacity: usize,
    pages_per_block: u32,
    most: usize,
    follows: String,
    clean_to_working: bool,
    /// Only for what is not written by way of the lists.
    channels: RoundRobin,
    memory_accesses: u64,
}

impl CawrModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            working: Vec::new(),
            cold_clean: Vec::new(),
            cold_dirty: vec![Vec::new(); config.elements as usize],
            capacity: config.capacity_pages as usize,
            pages_per_block: config.pages_per_block,
            most: param(spec, "cdl_max", "4").parse().expect("a number"),
            follows: param(spec, "cawr_seq", "tail").to_owned(),
            clean_to_working: param(spec, "cawr_new_clean_to", "wl") == "wl",
            channels: RoundRobin::new(config.elements),
            memory_accesses: 0,
        }
    }

    fn count(&self) -> usize {
        self.working.len() + self.cold_clean.len() + self.cold_dirty.iter().map(Vec::len).sum::<usize>()
    }

    fn drop_clean(&mut self, page: Held, out: &mut Vec<Left>) {
        self.memory_accesses += 1;
        out.push(Left::unit(EvictionKind::Drop, &[page.page]));
    }

    fn is_sequence(&self, page: u32, list: &[Held]) -> bool {
        match self.follows.as_str() {
            "tail" => list.last().is_some_and(|last| last.page + 1 == page),
            "any" => list.iter().any(|p| p.page + 1 == page || page + 1 == p.page),
            "same_block" => list.iter().any(|p| p.page / self.pages_per_block == page / self.pages_per_block),
            other => panic!("the model knows no cawr_seq={other}"),
        }
    }

    /// Algorithm 1, where `open` are the lists that may be begun.
    fn enter_cdl(&mut self, item: Held, open: &[u32]) -> bool {
        for i in 0..self.cold_dirty.len() {
            self.memory_accesses += 1;
            let list = &self.cold_dirty[i];
            if !list.is_empty() && list.len() < self.most && self.is_sequence(item.page, list) {
                self.cold_dirty[i].push(item);
                return true;
            }
        }
        for i in 0..self.cold_dirty.len() {
            self.memory_accesses += 1;
            if self.cold_dirty[i].is_empty() && open.contains(&(i as u32)) {
                self.cold_dirty[i].push(item);
                return true;
            }
        }
        false
    }

    /// Algorithm 2, with the partial flush of D6.
    fn replace(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let mut open = self.channels.open(&objections.channels);
        loop {
            if let Some(page) = take_welcome(&mut self.cold_clean, objections) {
                self.drop_clean(page, out);
                return true;
            }
            if open.iter().all(|i| !self.cold_dirty[*i as usize].is_empty()) || self.working.is_empty() {
                break;
            }
            while let Some(item) = self.working.last().copied().filter(|item| item.dirty) {
                self.memory_accesses += 1;
                if item.cold {
                    if !self.enter_cdl(item, &open) {
                        break;
                    }
                    self.working.pop();
                } else {
                    self.working.pop();
                    self.working.insert(0, Held { cold: true, ..item });
                }
            }
            if self.working.last().is_some_and(|item| !item.dirty) {
                self.memory_accesses += 1;
                let item = self.working.pop().expect("not empty");
                self.cold_clean.insert(0, Held { cold: true, ..item });
            }
        }
        let nothing_open = open.iter().all(|i| self.cold_dirty[*i as usize].is_empty());
        if nothing_open || all_avoided(self.channels.channels, objections) {
            if objections.exhausted == WhenExhausted::Bypass {
                return false;
            }
            if let Some(page) = self.cold_clean.pop() {
                self.drop_clean(page, out);
                return true;
            }
            open = (0..self.channels.channels).collect();
        }
        let heads = self.heads(&open);
        self.memory_accesses += heads.len() as u64;
        out.push(Left::spread(EvictionKind::Flush, &heads.iter().map(|(p, c)| (p.page, *c)).collect::<Vec<_>>()));
        true
    }

    /// Takes out the first page of each of the lists `open`.
    fn heads(&mut self, open: &[u32]) -> Vec<(Held, u16)> {
        let lists = open.iter().map(|i| (*i as usize, *i as u16));
        let filled: Vec<_> = lists.filter(|(i, _)| !self.cold_dirty[*i].is_empty()).collect();
        filled.into_iter().map(|(i, channel)| (self.cold_dirty[i].remove(0), channel)).collect()
    }
}

impl Model for CawrModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        self.memory_accesses += 1;
        let lists = [&mut self.working, &mut self.cold_clean].into_iter().chain(&mut self.cold_dirty);
        let found = lists.into_iter().find_map(|list| take(list, page));
        if let Some(mut hit) = found {
            self.memory_accesses += 1;
            hit.cold = false;
            hit.dirty |= access.write;
            self.working.insert(0, hit);
            return AccessOutcome::Hit;
        }
        if self.count() == self.capacity && !self.replace(objections, out) {
            return AccessOutcome::Bypassed;
        }
        self.memory_accesses += 1;
        if access.write || self.clean_to_working {
            self.working.insert(0, Held { page, dirty: access.write, cold: false });
        } else {
            self.cold_clean.insert(0, Held { page, dirty: false, cold: true });
        }
        AccessOutcome::Inserted
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        let open = self.channels.open(&BTreeSet::new());
        match notice {
            BufferNotice::Flush => {
                while self.cold_dirty.iter().any(|list| !list.is_empty()) {
                    let heads = self.heads(&open);
                    out.push(Left::spread(
                        EvictionKind::Clean,
                        &heads.iter().map(|(p, c)| (p.page, *c)).collect::<Vec<_>>(),
                    ));
                    for (page, _) in heads {
                        self.cold_clean.insert(0, Held { dirty: false, ..page });
                    }
                }
                let dirty: Vec<u32> = self.working.iter().rev().filter(|p| p.dirty).map(|p| p.page).collect();
                self.channels.write(EvictionKind::Clean, &dirty, &open, out);
                self.working.iter_mut().for_each(|p| p.dirty = false);
            }
            BufferNotice::Destage { page: destaged, keep } => {
                let kind = if keep { EvictionKind::Clean } else { EvictionKind::Flush };
                for (list, channel) in self.cold_dirty.iter_mut().zip(0..) {
                    if let Some(page) = take(list, destaged.0) {
                        out.push(Left::spread(kind, &[(page.page, channel)]));
                        if keep {
                            self.cold_clean.insert(0, Held { dirty: false, ..page });
                        }
                    }
                }
                if let Some(at) = self.working.iter().position(|p| p.page == destaged.0 && p.dirty) {
                    self.channels.write(kind, &[destaged.0], &open, out);
                    if keep {
                        self.working[at].dirty = false;
                    } else {
                        self.working.remove(at);
                    }
                }
            }
            BufferNotice::Trim { page } => {
                let lists = [&mut self.working, &mut self.cold_clean].into_iter().chain(&mut self.cold_dirty);
                for list in lists {
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
        let pages = self.working.iter().chain(self.cold_dirty.iter().flatten()).filter(|p| p.dirty).map(|p| p.page);
        pages.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }

    /// `41d 12d* | 50c* | 10 11 / 30`: as the tables write it.
    fn state(&self) -> String {
        let lists: Vec<String> =
            self.cold_dirty.iter().map(|list| words(list.iter().map(|p| p.page.to_string()))).collect();
        format!(
            "{} | {} | {}",
            words(self.working.iter().map(|p| p.word())),
            words(self.cold_clean.iter().map(|p| p.word())),
            lists.join(" / "),
        )
    }
}
