//! Random workloads for comparing a policy with its model.

use destage_plan::{Element, PageNo};
use destage_policy::buffer::{BufferNotice, PageAccess};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// One operation on a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Access(PageAccess),
    Notify(BufferNotice),
}

impl Op {
    pub(crate) fn page(&self) -> Option<u32> {
        match self {
            Self::Access(access) => Some(access.page.0),
            Self::Notify(BufferNotice::Trim { page } | BufferNotice::Destage { page, .. }) => Some(page.0),
            Self::Notify(_) => None,
        }
    }
}

/// Selects the pattern of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Every page alike.
    Uniform,
    /// Few pages often: the page number is a product of three uniform shares.
    Skewed,
    /// Runs of ascending pages.
    Runs,
    /// One of the above, changing.
    Mixed,
}

pub(crate) const PATTERNS: [Pattern; 4] = [Pattern::Uniform, Pattern::Skewed, Pattern::Runs, Pattern::Mixed];

/// Sets the share of each kind of operation, in 1024ths; writes are the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    pub(crate) reads: u32,
    pub(crate) trims: u32,
    pub(crate) flushes: u32,
    pub(crate) idle: u32,
}

impl Mix {
    pub(crate) const WRITES: Self = Self { reads: 0, trims: 0, flushes: 0, idle: 0 };
    pub(crate) const ACCESSES: Self = Self { reads: 300, trims: 0, flushes: 0, idle: 0 };
    pub(crate) const ALL: Self = Self { reads: 250, trims: 60, flushes: 4, idle: 4 };
}

/// An endless workload.
pub(crate) struct Workload {
    rng: Xoshiro256PlusPlus,
    pattern: Pattern,
    mix: Mix,
    pages: u32,
    run: Run,
}

struct Run {
    next: u32,
    left: u32,
    write: bool,
}

impl Workload {
    pub(crate) fn new(seed: u64, pattern: Pattern, mix: Mix, pages: u32) -> Self {
        Self {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            pattern,
            mix,
            pages,
            run: Run { next: 0, left: 0, write: true },
        }
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.rng.next_u32()) * u64::from(bound)) >> 32) as u32
    }

    fn page(&mut self, pattern: Pattern) -> u32 {
        match pattern {
            Pattern::Uniform => self.below(self.pages),
            Pattern::Skewed => {
                let a = self.below(self.pages) + 1;
                let b = self.below(a) + 1;
                let rank = self.below(b);
                // Ranks are spread over the blocks.
                ((u64::from(rank) * 7919) % u64::from(self.pages)) as u32
            }
            Pattern::Runs | Pattern::Mixed => unreachable!("a run is not one page"),
        }
    }
}

impl Iterator for Workload {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        let die = self.below(1024);
        let Mix { reads, trims, flushes, idle } = self.mix;
        if die < flushes {
            return Some(Op::Notify(BufferNotice::Flush));
        }
        if die < flushes + idle {
            let element = self.below(4);
            return Some(Op::Notify(if element == 0 {
                BufferNotice::Idle
            } else {
                BufferNotice::GcEnd { element: Element(element) }
            }));
        }
        if die < flushes + idle + trims {
            // Half the trims meet a page at the end of the run, so that sequences are broken.
            let near = self.run.next.saturating_sub(self.below(4)) % self.pages;
            let page = if self.below(2) == 0 { near } else { self.page(Pattern::Skewed) };
            return Some(Op::Notify(BufferNotice::Trim { page: PageNo(page) }));
        }
        let pattern = match self.pattern {
            Pattern::Mixed => [Pattern::Uniform, Pattern::Skewed, Pattern::Runs][self.below(3) as usize],
            simple => simple,
        };
        if pattern == Pattern::Runs || self.run.left > 0 {
            if self.run.left == 0 {
                let left = self.below(100) + 1;
                // Half the runs begin at a multiple of 4, so that whole blocks are written in
                // order.
                let begin = self.below(self.pages);
                let begin = if self.below(2) == 0 { begin / 4 * 4 } else { begin };
                let write = self.below(1024) >= reads;
                self.run = Run { next: begin, left, write };
            }
            let page = self.run.next % self.pages;
            self.run.next += 1;
            self.run.left -= 1;
            let write = self.run.write;
            return Some(Op::Access(PageAccess { page: PageNo(page), write }));
        }
        let page = PageNo(self.page(pattern));
        let write = self.below(1024) >= reads;
        Some(Op::Access(PageAccess { page, write }))
    }
}
