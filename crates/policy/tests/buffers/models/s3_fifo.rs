//! S3-FIFO after Algorithm 1 of its paper. Queues are written from the tail on.
//!
//! Not in the paper, resolved by the policy: one page leaves at a time, so that M does not give one up
//! for what comes from S; a page leaves G when it is found there, before the victim enters; where a
//! queue has no page that may leave the other one gives one up; a scan that a veto leaves no victim
//! moves nothing; trims forget.

use std::collections::VecDeque;

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, PageAccess, WhenExhausted};

use super::queue::{Held, flush, forget, ghosts, give_up, take, word};
use super::{Left, Model, Objections, param};

pub(crate) struct S3FifoModel {
    s: VecDeque<Held>,
    m: VecDeque<Held>,
    g: VecDeque<u32>,
    /// In percent of the capacity, hundredfold.
    small: usize,
    ghost: usize,
    uses: u32,
    capacity: usize,
    cache_reads: bool,
    memory_accesses: u64,
}

impl S3FifoModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            s: VecDeque::new(),
            m: VecDeque::new(),
            g: VecDeque::new(),
            small: super::hundredths(param(spec, "small", "10")),
            ghost: super::hundredths(param(spec, "ghost", "90")),
            uses: param(spec, "uses", "2").parse().expect("a number"),
            capacity: config.capacity_pages as usize,
            cache_reads: param(spec, "reads", "cache") == "cache",
            memory_accesses: 0,
        }
    }

    /// EVICTS. `may_leave` says of a page whether it may.
    fn evict_s(&mut self, may_leave: &dyn Fn(u32) -> bool) -> Option<(Held, bool)> {
        let mut passed_over = VecDeque::new();
        let mut victim = None;
        while let Some(mut t) = if victim.is_none() { self.s.pop_front() } else { None } {
            self.memory_accesses += 1;
            if t.uses >= self.uses {
                self.memory_accesses += 1;
                t.uses = 0;
                self.m.push_back(t);
            } else if may_leave(t.page) {
                victim = Some((t, true));
            } else {
                passed_over.push_back(t);
            }
        }
        passed_over.append(&mut self.s);
        self.s = passed_over;
        victim
    }

    /// EVICTM.
    fn evict_m(&mut self, may_leave: &dyn Fn(u32) -> bool) -> Option<(Held, bool)> {
        let mut passed_over = VecDeque::new();
        let mut victim = None;
        while let Some(mut t) = if victim.is_none() { self.m.pop_front() } else { None } {
            self.memory_accesses += 1;
            if t.uses > 0 {
                self.memory_accesses += 1;
                t.uses -= 1;
                self.m.push_back(t);
            } else if may_leave(t.page) {
                victim = Some((t, false));
            } else {
                passed_over.push_back(t);
            }
        }
        passed_over.append(&mut self.m);
        self.m = passed_over;
        victim
    }

    fn remember(&mut self, page: u32) {
        self.g.push_back(page);
        if self.g.len() * 10_000 > self.ghost * self.capacity {
            self.g.pop_front();
            // Where nothing is remembered nothing is forgotten.
            self.memory_accesses += u64::from(self.ghost * self.capacity >= 10_000);
        }
    }
}

impl Model for S3FifoModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        self.memory_accesses += 1;
        if let Some(hit) = self.s.iter_mut().chain(&mut self.m).find(|held| held.page == page) {
            self.memory_accesses += 1;
            hit.dirty |= access.write;
            hit.uses = (hit.uses + 1).min(3);
            return AccessOutcome::Hit;
        }
        if !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        let (before, came) = (self.g.clone(), forget(&mut self.g, page));
        if self.s.len() + self.m.len() == self.capacity && !self.evict(objections, out) {
            self.g = before;
            return AccessOutcome::Bypassed;
        }
        self.memory_accesses += 1;
        if came { &mut self.m } else { &mut self.s }.push_back(Held::new(access));
        AccessOutcome::Inserted
    }

    /// EVICT.
    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let pages: Vec<u32> = self.s.iter().chain(&self.m).map(|held| held.page).collect();
        let all = pages.iter().all(|page| objections.to(*page));
        if pages.is_empty() || all && objections.exhausted == WhenExhausted::Bypass {
            return false;
        }
        let may_leave = |page| all || !objections.to(page);
        let from_s = self.s.len() * 10_000 >= self.small * self.capacity && !self.s.is_empty() || self.m.is_empty();
        let mut victim = None;
        for evict_s in if from_s { [true, false, true, false] } else { [false, true, false, true] } {
            if victim.is_none() {
                victim = if evict_s { self.evict_s(&may_leave) } else { self.evict_m(&may_leave) };
            }
        }
        let (victim, from_s) = victim.expect("a page that may leave");
        self.memory_accesses += 1;
        give_up(&victim, out);
        if from_s {
            self.remember(victim.page);
        }
        true
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        match notice {
            BufferNotice::Flush => {
                flush(&mut self.s, out);
                flush(&mut self.m, out);
            }
            BufferNotice::Trim { page } => {
                if let Some(held) = take(&mut self.s, page.0).or_else(|| take(&mut self.m, page.0)) {
                    give_up(&Held { dirty: false, ..held }, out);
                }
                forget(&mut self.g, page.0);
            }
            BufferNotice::Destage { page, keep } => {
                let mut pages = self.s.iter_mut().chain(&mut self.m);
                let Some(held) = pages.find(|held| held.page == page.0 && held.dirty) else { return };
                if keep {
                    held.clean(out);
                } else if let Some(held) = take(&mut self.s, page.0) {
                    give_up(&held, out);
                    self.remember(held.page);
                } else {
                    give_up(&take(&mut self.m, page.0).expect("a page"), out);
                }
            }
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
        }
    }

    fn len(&self) -> u32 {
        (self.s.len() + self.m.len()) as u32
    }

    fn dirty(&self) -> Vec<u32> {
        super::queue::dirty([&self.s, &self.m])
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }

    /// S, M and G, a star for each use: `1d* 2d | 3c | 4 5`.
    fn state(&self) -> String {
        format!("{} | {} | {}", word(&self.s), word(&self.m), ghosts(&self.g))
    }
}
