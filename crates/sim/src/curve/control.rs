//! LRU in a sample, with which other policies in it are compared.

use destage_trace::RecencyStack;

use super::sample::{SampleAction, SampleEvent};

/// LRU at all sizes over one sample.
#[derive(Default)]
pub(super) struct LruControl {
    recency: RecencyStack,
    measuring: bool,
    /// Item i: hits of a buffer of i + 1 pages and of none smaller.
    first_hits: Vec<u64>,
}

impl LruControl {
    /// Has it see what happened.
    pub(super) fn run(&mut self, events: &[SampleEvent]) {
        for event in events {
            let page = event.page as usize;
            match event.deed {
                SampleAction::Read | SampleAction::Write => {
                    if let (Some(above), true) = (self.recency.touch(page), self.measuring) {
                        let at = above as usize;
                        if at >= self.first_hits.len() {
                            self.first_hits.resize(at + 1, 0);
                        }
                        self.first_hits[at] += 1;
                    }
                }
                // A page that leaves the buffer of a run leaves the stack too, or both would not count
                // alike.
                SampleAction::WritePast | SampleAction::Trim => self.recency.forget(page),
                SampleAction::Flush => {}
                SampleAction::Measure => self.measuring = true,
            }
        }
    }

    /// Hits of a buffer of so many pages.
    pub(super) fn hits(&self, pages: u64) -> u64 {
        // A hit at a smaller size is one at all larger sizes.
        self.first_hits.iter().take(usize::try_from(pages).unwrap_or(usize::MAX)).sum()
    }
}
