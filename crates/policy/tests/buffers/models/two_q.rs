//! 2Q as its paper writes it down. Queues are written from the oldest page on.
//!
//! Not in the paper, resolved by the policy: a page leaves A1out when it is found there, before the
//! victim enters; where a queue has no page that may leave the other one gives one up; trims forget.

use std::collections::VecDeque;

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, PageAccess, WhenExhausted};

use super::queue::{Held, flush, forget, ghosts, give_up, take, word};
use super::{Left, Model, Objections, param};

pub(crate) struct TwoQModel {
    a1_in: VecDeque<Held>,
    am: VecDeque<Held>,
    a1_out: VecDeque<u32>,
    /// In percent of the capacity, hundredfold.
    kin: usize,
    kout: usize,
    capacity: usize,
    cache_reads: bool,
    memory_accesses: u64,
}

impl TwoQModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            a1_in: VecDeque::new(),
            am: VecDeque::new(),
            a1_out: VecDeque::new(),
            kin: super::hundredths(param(spec, "in", "25")),
            kout: super::hundredths(param(spec, "out", "50")),
            capacity: config.capacity_pages as usize,
            cache_reads: param(spec, "reads", "cache") == "cache",
            memory_accesses: 0,
        }
    }

    /// Puts the page into A1out, and forgets the oldest if there are more than Kout.
    fn remember(&mut self, page: u32) {
        self.a1_out.push_back(page);
        if self.a1_out.len() * 10_000 > self.kout * self.capacity {
            self.a1_out.pop_front();
            // Where nothing is remembered nothing is forgotten.
            self.memory_accesses += u64::from(self.kout * self.capacity >= 10_000);
        }
    }
}

impl Model for TwoQModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        self.memory_accesses += 1;
        if let Some(mut hit) = take(&mut self.am, page) {
            self.memory_accesses += 1;
            hit.dirty |= access.write;
            self.am.push_back(hit);
            return AccessOutcome::Hit;
        }
        if let Some(hit) = self.a1_in.iter_mut().find(|held| held.page == page) {
            hit.dirty |= access.write;
            return AccessOutcome::Hit;
        }
        if !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        let (before, came) = (self.a1_out.clone(), forget(&mut self.a1_out, page));
        if self.a1_in.len() + self.am.len() == self.capacity && !self.evict(objections, out) {
            self.a1_out = before;
            return AccessOutcome::Bypassed;
        }
        self.memory_accesses += 1;
        if came { &mut self.am } else { &mut self.a1_in }.push_back(Held::new(access));
        AccessOutcome::Inserted
    }

    /// The paper's reclaimfor, where there is no free page slot.
    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let from_in = self.a1_in.len() * 10_000 > self.kin * self.capacity || self.am.is_empty();
        let welcome = |queue: &VecDeque<Held>| queue.iter().position(|held| !objections.to(held.page));
        let of_in = |model: &Self| welcome(&model.a1_in).map(|at| (true, at));
        let of_am = |model: &Self| welcome(&model.am).map(|at| (false, at));
        let found = if from_in { of_in(self).or_else(|| of_am(self)) } else { of_am(self).or_else(|| of_in(self)) };
        let (from_in, at) = match (found, objections.exhausted) {
            (Some(found), _) => found,
            (None, WhenExhausted::TakeBase) if self.len() > 0 => (from_in, 0),
            (None, _) => return false,
        };
        self.memory_accesses += 1;
        let victim = if from_in { &mut self.a1_in } else { &mut self.am }.remove(at).expect("a page");
        give_up(&victim, out);
        if from_in {
            self.remember(victim.page);
        }
        true
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        match notice {
            BufferNotice::Flush => {
                flush(&mut self.a1_in, out);
                flush(&mut self.am, out);
            }
            BufferNotice::Trim { page } => {
                if let Some(held) = take(&mut self.a1_in, page.0).or_else(|| take(&mut self.am, page.0)) {
                    give_up(&Held { dirty: false, ..held }, out);
                }
                forget(&mut self.a1_out, page.0);
            }
            BufferNotice::Destage { page, keep } => {
                let mut pages = self.a1_in.iter_mut().chain(&mut self.am);
                let Some(held) = pages.find(|held| held.page == page.0 && held.dirty) else { return };
                if keep {
                    held.clean(out);
                } else if let Some(held) = take(&mut self.a1_in, page.0) {
                    give_up(&held, out);
                    self.remember(held.page);
                } else {
                    give_up(&take(&mut self.am, page.0).expect("a page"), out);
                }
            }
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
        }
    }

    fn len(&self) -> u32 {
        (self.a1_in.len() + self.am.len()) as u32
    }

    fn dirty(&self) -> Vec<u32> {
        super::queue::dirty([&self.a1_in, &self.am])
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }

    /// A1in, Am and A1out: `1d 2d | 3c | 4 5`.
    fn state(&self) -> String {
        format!("{} | {} | {}", word(&self.a1_in), word(&self.am), ghosts(&self.a1_out))
    }
}
