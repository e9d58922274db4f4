//! CFLRU (specs §4.3): a list of pages, most recently used first; the last `w` are the window.
//!
//! Not in the specification, resolved by the policy: the window is rounded up to pages; how an
//! adaptive one moves; what a veto passes over counts for the window, and once its clean pages are
//! vetoed all pages are candidates.

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::{Left, Model, Objections, param};

struct Page {
    page: u32,
    dirty: bool,
}

/// In millionths.
fn share(text: &str) -> u32 {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let mut millionths = whole.parse::<u32>().expect("a share") * 1_000_000;
    for (digit, place) in decimals.chars().zip([100_000, 10_000, 1000, 100, 10, 1]) {
        millionths += digit.to_digit(10).expect("a digit") * place;
    }
    millionths
}

/// The fewest pages that are not less than so many millionths of the capacity.
pub(crate) fn window_of(millionths: u32, capacity: usize) -> usize {
    (0..=capacity)
        .find(|&pages| pages as u64 * 1_000_000 >= u64::from(millionths) * capacity as u64)
        .expect("at most all")
}

/// The window of `key`'s share.
pub(crate) fn window(spec: &str, key: &str, capacity: usize) -> usize {
    window_of(share(param(spec, key, "0.5")), capacity)
}

#[derive(Clone, Copy, Default)]
struct Period {
    evictions: u64,
    dirty: u64,
    reads: u64,
    accesses: u64,
}

struct Adaptation {
    period: u64,
    step: u32,
    write_cost: u64,
    share: u32,
    grows: bool,
    now: Period,
    before: Option<Period>,
}

impl Adaptation {
    fn new(spec: &str, capacity: usize) -> Option<Self> {
        if param(spec, "window", "0.5") != "adaptive" {
            return None;
        }
        Some(Self {
            period: match param(spec, "period", "capacity") {
                "capacity" => capacity as u64,
                evictions => evictions.parse().expect("evictions"),
            },
            step: share(param(spec, "step", "0.05")),
            write_cost: param(spec, "write_cost", "8").parse().expect("reads"),
            share: 500_000,
            grows: true,
            now: Period::default(),
            before: None,
        })
    }

    fn evicted(&mut self, dirty: bool) {
        self.now.evictions += 1;
        self.now.dirty += u64::from(dirty);
        if self.now.evictions < self.period {
            return;
        }
        if let Some(before) = self.before {
            let cost = |p: Period| u128::from(p.reads + p.dirty * self.write_cost);
            // More per access than before.
            if cost(self.now) * u128::from(before.accesses) > cost(before) * u128::from(self.now.accesses) {
                self.grows = !self.grows;
            }
        }
        self.before = Some(std::mem::take(&mut self.now));
        self.share =
            if self.grows { (self.share + self.step).min(1_000_000) } else { self.share.saturating_sub(self.step) };
    }
}

pub(crate) struct CflruModel {
    list: Vec<Page>,
    capacity: usize,
    window: usize,
    adaptation: Option<Adaptation>,
    cache_reads: bool,
    memory_accesses: u64,
}

impl CflruModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        let capacity = config.capacity_pages as usize;
        let adaptation = Adaptation::new(spec, capacity);
        Self {
            list: Vec::new(),
            capacity,
            window: if adaptation.is_some() { window_of(500_000, capacity) } else { window(spec, "window", capacity) },
            adaptation,
            cache_reads: param(spec, "reads", "cache") == "cache",
            memory_accesses: 0,
        }
    }

    /// The place of the victim.
    fn victim(&mut self, objections: &Objections) -> Option<usize> {
        if self.list.is_empty() {
            return None;
        }
        let all = self.list.iter().all(|p| objections.to(p.page));
        if all && objections.exhausted == WhenExhausted::Bypass {
            return None;
        }
        let passed_over = |p: &Page| !all && objections.to(p.page);
        let begin = self.list.len().saturating_sub(self.window);
        let clean = (begin..self.list.len()).rev().find(|&at| !self.list[at].dirty && !passed_over(&self.list[at]));
        if let Some(at) = clean {
            self.memory_accesses += (self.list.len() - at) as u64;
            return Some(at);
        }
        self.memory_accesses += (self.list.len() - begin) as u64 + 1;
        self.list.iter().rposition(|p| !passed_over(p))
    }

    fn give_up(&mut self, at: usize, out: &mut Vec<Left>) {
        let Page { page, dirty } = self.list.remove(at);
        out.push(Left::unit(if dirty { EvictionKind::Flush } else { EvictionKind::Drop }, &[page]));
    }
}

impl Model for CflruModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        self.memory_accesses += 1;
        let at = self.list.iter().position(|p| p.page == page);
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.now.accesses += 1;
            adaptation.now.reads += u64::from(at.is_none() && !access.write);
        }
        if let Some(at) = at {
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
        let Some(at) = self.victim(objections) else { return false };
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.evicted(self.list[at].dirty);
            self.window = window_of(adaptation.share, self.capacity);
        }
        self.give_up(at, out);
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

    /// `5c 4c | 3d 1d`: most recently used first, dirty or clean, the window behind the bar.
    fn state(&self) -> String {
        let begin = self.list.len().saturating_sub(self.window);
        let words = |list: &[Page]| {
            let words: Vec<_> = list.iter().map(|p| format!("{}{}", p.page, if p.dirty { 'd' } else { 'c' })).collect();
            words.join(" ")
        };
        format!("{} | {}", words(&self.list[..begin]), words(&self.list[begin..]))
    }
}
