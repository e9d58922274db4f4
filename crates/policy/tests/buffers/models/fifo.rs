//! FIFO: a queue of pages, the oldest first.

use std::collections::VecDeque;

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, PageAccess, WhenExhausted};

use super::queue::{Held, flush, give_up, word};
use super::{Left, Model, Objections, param};

pub(crate) struct FifoModel {
    queue: VecDeque<Held>,
    capacity: usize,
    cache_reads: bool,
    memory_accesses: u64,
}

impl FifoModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            queue: VecDeque::new(),
            capacity: config.capacity_pages as usize,
            cache_reads: param(spec, "reads", "cache") == "cache",
            memory_accesses: 0,
        }
    }
}

impl Model for FifoModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        self.memory_accesses += 1;
        if let Some(held) = self.queue.iter_mut().find(|held| held.page == access.page.0) {
            held.dirty |= access.write;
            return AccessOutcome::Hit;
        }
        if !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        if self.queue.len() == self.capacity && !self.evict(objections, out) {
            return AccessOutcome::Bypassed;
        }
        self.memory_accesses += 1;
        self.queue.push_back(Held::new(access));
        AccessOutcome::Inserted
    }

    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let welcome = self.queue.iter().position(|held| !objections.to(held.page));
        let at = match (welcome, objections.exhausted) {
            (Some(at), _) => at,
            (None, WhenExhausted::TakeBase) if !self.queue.is_empty() => 0,
            (None, _) => return false,
        };
        self.memory_accesses += 1;
        give_up(&self.queue.remove(at).expect("a page"), out);
        true
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        match notice {
            BufferNotice::Flush => flush(&mut self.queue, out),
            BufferNotice::Trim { page } => {
                if let Some(at) = self.queue.iter().position(|held| held.page == page.0) {
                    self.queue[at].dirty = false;
                    give_up(&self.queue.remove(at).expect("a page"), out);
                }
            }
            BufferNotice::Destage { page, keep } => {
                if let Some(at) = self.queue.iter().position(|held| held.page == page.0 && held.dirty) {
                    if keep {
                        self.queue[at].clean(out);
                    } else {
                        give_up(&self.queue.remove(at).expect("a page"), out);
                    }
                }
            }
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
        }
    }

    fn len(&self) -> u32 {
        self.queue.len() as u32
    }

    fn dirty(&self) -> Vec<u32> {
        super::queue::dirty([&self.queue])
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }

    /// `1d 2c 3d`: the oldest first.
    fn state(&self) -> String {
        word(&self.queue)
    }
}
