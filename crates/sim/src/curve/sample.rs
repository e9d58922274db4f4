//! Samples pages, or blocks, by a hash of their numbers (C. A. Waldspurger et al., "Cache modeling and
//! optimization using miniature simulations", USENIX ATC 2017). Samples of one strength are disjoint; the
//! samples of each further strength are parts of the earlier ones.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Samples of each strength, which are independent of each other but for being disjoint.
pub(super) const SAMPLES: usize = 8;
/// Gives the index of the union of all samples.
pub(super) const TOGETHER: usize = SAMPLES;
/// The weakest share of the pages in all samples together is one of 2 to the power of this.
pub(super) const WEAKEST: u32 = 20;

/// Selects the unit that a policy under sampling treats as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampledUnit {
    Page,
    Block,
}

/// Lists the events of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) enum SampleAction {
    Read,
    Write,
    WritePast,
    Trim,
    Flush,
    Measure,
}

/// Holds an event and its page, by the page's number within the sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleEvent {
    pub(super) page: u32,
    pub(super) deed: SampleAction,
}

/// Some of the pages, with numbers of their own, and what happened to them since it was last taken.
#[derive(Default)]
pub(super) struct PageSample {
    numbers: HashMap<u32, u32, FixedState>,
    pub(super) events: Vec<SampleEvent>,
    /// Pages below this number were named.
    pub(super) pages: u32,
}

impl PageSample {
    /// Returns the number of pages or blocks in the sample.
    pub(super) fn units(&self) -> usize {
        self.numbers.len()
    }

    fn add(&mut self, unit: u32, offset: u32, unit_pages: u32, deed: SampleAction) {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(unit).or_insert(next);
        self.pages = self.numbers.len() as u32 * unit_pages;
        self.events.push(SampleEvent { page: number * unit_pages + offset, deed });
    }
}

/// All samples of pages, or of blocks.
pub(super) struct PageSamples {
    unit_pages: u32,
    seed: u64,
    /// The strengths in use, the strongest first: all samples of strength n together have one of 2^n pages.
    pub(super) strengths: Vec<u32>,
    /// By strength in use, then by sample.
    pub(super) sets: Vec<[PageSample; SAMPLES + 1]>,
}

impl PageSamples {
    /// Samples of these strengths, which ascend.
    pub(super) fn new(unit_pages: u32, seed: u64, strengths: Vec<u32>) -> Self {
        let sets = strengths.iter().map(|_| Default::default()).collect();
        Self { unit_pages, seed: mixed(seed), strengths, sets }
    }

    /// Something happens to a page.
    #[inline]
    pub(super) fn add(&mut self, page: u32, deed: SampleAction) {
        let (unit, offset) = (page / self.unit_pages, page % self.unit_pages);
        let hash = mixed(self.seed.wrapping_add(u64::from(unit)));
        // The lower half says how weak a sample may be to have it, the upper one which of them has it.
        let weakest = (hash as u32).leading_zeros();
        // Most pages are in no sample: they are done with here, after one hash.
        if self.strengths.first().is_none_or(|&strongest| strongest > weakest) {
            return;
        }
        let sample = ((hash >> 32) as usize * SAMPLES) >> 32;
        for (strength, set) in self.strengths.iter().zip(&mut self.sets) {
            // The samples are nested, so that a page in none of these is in no weaker one.
            if *strength > weakest {
                break;
            }
            set[sample].add(unit, offset, self.unit_pages, deed);
            set[TOGETHER].add(unit, offset, self.unit_pages, deed);
        }
    }

    /// Something happens to all of them.
    pub(super) fn add_to_all(&mut self, deed: SampleAction) {
        for sample in self.sets.iter_mut().flatten() {
            // Flushes and the end of the warm-up concern all samples, whichever pages they have.
            sample.events.push(SampleEvent { page: 0, deed });
        }
    }

    /// Events that wait.
    pub(super) fn waiting(&self) -> usize {
        self.sets.iter().flatten().map(|sample| sample.events.len()).sum()
    }
}

/// A number that looks random, another for each (S. Vigna's splitmix64).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_disjoint_and_weaker_ones_are_parts_of_stronger_ones() {
        let mut samples = PageSamples::new(4, 7, vec![1, 3, 6]);
        for page in 0..40_000 {
            samples.add(page, SampleAction::Write);
        }
        samples.add_to_all(SampleAction::Flush);
        let mut before: Option<Vec<u32>> = None;
        for (strength, own) in samples.strengths.clone().into_iter().zip(&samples.sets) {
            let mut units = Vec::new();
            for sample in &own[..SAMPLES] {
                units.extend(sample.numbers.keys().copied());
                // Whole blocks, and the flush.
                assert_eq!(sample.events.len(), sample.units() * 4 + 1);
                assert_eq!(sample.pages as usize, sample.units() * 4);
                let share = (sample.units() * SAMPLES) as f64 * f64::from(1 << strength) / 10_000.0;
                assert!((share - 1.0).abs() < 0.6, "{share} of strength {strength}");
            }
            let mut together: Vec<u32> = own[TOGETHER].numbers.keys().copied().collect();
            units.sort_unstable();
            together.sort_unstable();
            assert_eq!(units, together, "each is in one sample");
            if let Some(before) = before.replace(units.clone()) {
                assert!(units.iter().all(|unit| before.contains(unit)));
            }
        }
        // Others with another seed.
        let mut other = PageSamples::new(4, 8, vec![6]);
        (0..40_000).for_each(|page| other.add(page, SampleAction::Write));
        let units: Vec<u32> = other.sets[0][TOGETHER].numbers.keys().copied().collect();
        assert!(
            before.is_some_and(|before| before.iter().filter(|unit| units.contains(unit)).count() < units.len() / 4)
        );
    }
}
