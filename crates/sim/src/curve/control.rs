//! LRU in a sample, with which other policies in it are compared.

use destage_trace::RecencyStack;

use super::sample::{Deed, Event};

/// LRU at all sizes over one sample.
#[derive(Default)]
pub(super) struct Control {
    recency: RecencyStack,
    measuring: bool,
    /// Item i: hits of a buffer of i + 1 pages and of none smaller.
    first_hits: Vec<u64>,
}

impl Control {
    /// Has it see what happened.
    pub(super) fn run(&mut self, events: &[Event]) {
        for event in events {
            let page = event.page as usize;
            match event.deed {
                Deed::Read | Deed::Write => {
                    if let (Some(above), true) = (self.recency.touch(page), self.measuring) {
                        let at = above as usize;
                        if at >= self.first_hits.len() {
                            self.first_hits.resize(at + 1, 0);
                        }
                        self.first_hits[at] += 1;
                    }
                }
                Deed::WritePast | Deed::Trim => self.recency.forget(page),
                Deed::Flush => {}
                Deed::Measure => self.measuring = true,
            }
        }
    }

    /// Hits of a buffer of so many pages.
    pub(super) fn hits(&self, pages: u64) -> u64 {
        self.first_hits.iter().take(usize::try_from(pages).unwrap_or(usize::MAX)).sum()
    }
}
