//! ARC as Fig. 4 of its paper writes it down, case by case. Lists are written from the least recently
//! used page on.
//!
//! Not in the paper, resolved by the policy: a veto that sends an access past the buffer leaves p and
//! the ghosts as they were; REPLACE takes the other list's pages where its own are all refused, and
//! T1's where T2 is empty; trims forget ghosts; nothing is replaced while there is room.

use std::collections::VecDeque;

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, PageAccess, WhenExhausted};

use super::queue::{Held, flush, forget, ghosts, give_up, take, word};
use super::{Left, Model, Objections, param};

pub(crate) struct ArcModel {
    t1: VecDeque<Held>,
    t2: VecDeque<Held>,
    b1: VecDeque<u32>,
    b2: VecDeque<u32>,
    p: f64,
    c: usize,
    cache_reads: bool,
    memory_accesses: u64,
}

impl ArcModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            t1: VecDeque::new(),
            t2: VecDeque::new(),
            b1: VecDeque::new(),
            b2: VecDeque::new(),
            p: 0.0,
            c: config.capacity_pages as usize,
            cache_reads: param(spec, "reads", "cache") == "cache",
            memory_accesses: 0,
        }
    }

    /// REPLACE(x, p) of the paper, if `remember` puts what leaves into a list of ghosts.
    fn replace(&mut self, in_b2: bool, remember: bool, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let t1 = self.t1.len() as f64;
        let first = !self.t1.is_empty() && (t1 > self.p || in_b2 && t1 >= self.p) || self.t2.is_empty();
        let welcome = |list: &VecDeque<Held>| list.iter().position(|held| !objections.to(held.page));
        let order = if first { [true, false] } else { [false, true] };
        let mut found = None;
        for from_t1 in order {
            if found.is_none() {
                found = welcome(if from_t1 { &self.t1 } else { &self.t2 }).map(|at| (from_t1, at));
            }
        }
        let (from_t1, at) = match (found, objections.exhausted) {
            (Some(found), _) => found,
            (None, WhenExhausted::TakeBase) if self.len() > 0 => (first, 0),
            (None, _) => return false,
        };
        self.memory_accesses += 1;
        let (list, ghosts) = if from_t1 { (&mut self.t1, &mut self.b1) } else { (&mut self.t2, &mut self.b2) };
        let victim = list.remove(at).expect("a page");
        give_up(&victim, out);
        if remember {
            ghosts.push_back(victim.page);
        } else {
            // It was counted as a page that leaves and is a ghost that is forgotten.
            self.memory_accesses += 1;
        }
        true
    }
}

impl Model for ArcModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let x = access.page.0;
        self.memory_accesses += 1;
        // Case I.
        if let Some(mut hit) = take(&mut self.t1, x).or_else(|| take(&mut self.t2, x)) {
            hit.dirty |= access.write;
            self.memory_accesses += 1;
            self.t2.push_back(hit);
            return AccessOutcome::Hit;
        }
        if !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        let full = self.t1.len() + self.t2.len() == self.c;
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        let before = self.p;
        let (in_b1, in_b2) = (self.b1.contains(&x), self.b2.contains(&x));
        if in_b1 || in_b2 {
            if in_b1 {
                // Case II.
                let delta = if b1 >= b2 { 1.0 } else { b2 / b1 };
                self.p = (self.p + delta).min(self.c as f64);
            } else {
                // Case III.
                let delta = if b2 >= b1 { 1.0 } else { b1 / b2 };
                self.p = (self.p - delta).max(0.0);
            }
            if full && !self.replace(in_b2, true, objections, out) {
                self.p = before;
                return AccessOutcome::Bypassed;
            }
            forget(&mut self.b1, x);
            forget(&mut self.b2, x);
            self.memory_accesses += 1;
            self.t2.push_back(Held::new(access));
            return AccessOutcome::Inserted;
        }
        // Case IV. What is forgotten is forgotten only if the page comes in.
        let (l1, all) = (self.t1.len() + self.b1.len(), self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len());
        if l1 == self.c {
            if self.t1.len() < self.c {
                let oldest = self.b1[0];
                if full && !self.replace(false, true, objections, out) {
                    return AccessOutcome::Bypassed;
                }
                self.memory_accesses += 1;
                forget(&mut self.b1, oldest);
            } else if !self.replace(false, false, objections, out) {
                // T1 has all pages, so that it gives one up.
                return AccessOutcome::Bypassed;
            }
        } else if all >= self.c {
            let oldest = (all == 2 * self.c).then(|| self.b2[0]);
            if full && !self.replace(false, true, objections, out) {
                return AccessOutcome::Bypassed;
            }
            if let Some(oldest) = oldest {
                self.memory_accesses += 1;
                forget(&mut self.b2, oldest);
            }
        }
        self.memory_accesses += 1;
        self.t1.push_back(Held::new(access));
        AccessOutcome::Inserted
    }

    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        self.replace(false, true, objections, out)
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        match notice {
            BufferNotice::Flush => {
                flush(&mut self.t1, out);
                flush(&mut self.t2, out);
            }
            BufferNotice::Trim { page } => {
                if let Some(held) = take(&mut self.t1, page.0).or_else(|| take(&mut self.t2, page.0)) {
                    give_up(&Held { dirty: false, ..held }, out);
                }
                forget(&mut self.b1, page.0);
                forget(&mut self.b2, page.0);
            }
            BufferNotice::Destage { page, keep: true } => {
                let mut pages = self.t1.iter_mut().chain(&mut self.t2);
                if let Some(held) = pages.find(|held| held.page == page.0 && held.dirty) {
                    held.clean(out);
                }
            }
            BufferNotice::Destage { page, keep: false } => {
                for (list, ghosts) in [(&mut self.t1, &mut self.b1), (&mut self.t2, &mut self.b2)] {
                    if list.iter().any(|held| held.page == page.0 && held.dirty) {
                        give_up(&take(list, page.0).expect("a page"), out);
                        ghosts.push_back(page.0);
                    }
                }
            }
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
        }
    }

    fn len(&self) -> u32 {
        (self.t1.len() + self.t2.len()) as u32
    }

    fn dirty(&self) -> Vec<u32> {
        super::queue::dirty([&self.t1, &self.t2])
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }

    /// T1, T2, B1, B2 and p: `1d 2d | 3c | 4 5 | - | 1`.
    fn state(&self) -> String {
        format!("{} | {} | {} | {} | {}", word(&self.t1), word(&self.t2), ghosts(&self.b1), ghosts(&self.b2), self.p)
    }
}
