//! Collects the times at which devices collect, for a picture. Of many collections the consecutive ones that
//! lie closest together remain, so that memory does not grow with the run.

use destage_plan::{Dev, Nanos};

use super::executor::CollectionNote;

/// Collections that are kept: some ten to fifty for each device of an array.
pub(super) const KEPT: usize = 400;

/// A time for which a device collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CollectionBar {
    pub(super) dev: Dev,
    pub(super) start: Nanos,
    pub(super) end: Nanos,
}

/// Collections, as they end.
#[derive(Clone, Debug, Default)]
pub(super) struct CollectionBars {
    begun: Vec<Option<Nanos>>,
    chunk: Vec<CollectionBar>,
    best: Vec<CollectionBar>,
    all: u64,
}

/// From the first begin to the last end.
fn span(bars: &[CollectionBar]) -> Option<Nanos> {
    let first = bars.iter().map(|bar| bar.start).min()?;
    Some(bars.iter().map(|bar| bar.end).max()?.since(first))
}

impl CollectionBars {
    pub(super) fn new(devices: usize) -> Self {
        Self { begun: vec![None; devices], ..Self::default() }
    }

    /// Forgets what has ended: the beginning of what is measured.
    pub(super) fn restart(&mut self, now: Nanos) {
        // A collection across the border counts from the border on.
        self.begun.iter_mut().flatten().for_each(|begun| *begun = now);
        (self.all, self.chunk, self.best) = (0, Vec::new(), Vec::new());
    }

    /// A device begins or ends to collect. Notes come in order of time.
    pub(super) fn note(&mut self, note: CollectionNote) {
        let CollectionNote { at, dev, on } = note;
        if on {
            self.begun[dev.index()] = Some(at);
            return;
        }
        let Some(start) = self.begun[dev.index()].take().filter(|start| *start < at) else { return };
        self.all += 1;
        self.chunk.push(CollectionBar { dev, start, end: at });
        // Two chunks bound the memory; the one in which collections lie closest shows most about overlaps.
        if self.chunk.len() == KEPT {
            if self.best.is_empty() || span(&self.chunk) < span(&self.best) {
                std::mem::swap(&mut self.best, &mut self.chunk);
            }
            self.chunk.clear();
        }
    }

    /// Returns the retained collections, and the number of all.
    pub(super) fn result(self) -> (Vec<CollectionBar>, u64) {
        (if self.best.is_empty() { self.chunk } else { self.best }, self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(at: u64, on: bool) -> CollectionNote {
        CollectionNote { at: Nanos(at), dev: Dev(0), on }
    }

    #[test]
    fn the_densest_of_many_are_kept() {
        let mut bars = CollectionBars::new(1);
        let mut at = 0;
        for i in 0..10 * KEPT as u64 {
            // The fourth lot has the shortest pauses.
            at += if i / KEPT as u64 == 3 { 10 } else { 50 };
            bars.note(note(at, true));
            at += 5;
            bars.note(note(at, false));
        }
        let (kept, all) = bars.result();
        assert_eq!((kept.len(), all), (KEPT, 10 * KEPT as u64));
        assert_eq!(kept[0].start, Nanos(3 * KEPT as u64 * 55 + 10));
    }

    #[test]
    fn few_are_all_kept_and_a_warm_up_is_not() {
        let mut bars = CollectionBars::new(1);
        for at in [note(1, true), note(5, false), note(7, true)] {
            bars.note(at);
        }
        bars.restart(Nanos(8));
        for at in [note(9, false), note(11, true), note(20, false), note(30, true)] {
            bars.note(at);
        }
        let (kept, all) = bars.result();
        assert_eq!(kept.iter().map(|bar| (bar.start.0, bar.end.0)).collect::<Vec<_>>(), [(8, 9), (11, 20)]);
        assert_eq!(all, 2);
    }
}
