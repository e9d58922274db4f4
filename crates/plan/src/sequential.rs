//! Finds sequential runs: requests each of which begins where one before it ended.

/// Counts the runs that are followed at a time; the one that was not gone on with for longest makes room for another.
const RUNS: usize = 64;

/// Tells how a request goes on with a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunPlace {
    /// Numbers the run, from 1 on; 0 where no earlier request ended where this one begins. A number is used again for another
    /// run later.
    pub number: u8,
    /// Counts the pages of the run, with those of this request.
    pub pages: u64,
}

/// Names no run.
const NONE: u8 = u8::MAX;

/// Describes a run. It is in a list of those whose ends have the same hash, and in one of all by last use.
#[derive(Clone, Copy)]
struct RequestRun {
    /// Names the page behind its last request.
    end: u64,
    pages: u64,
    next: u8,
    older: u8,
    newer: u8,
}

/// Follows the sequential runs among requests.
pub struct SequentialRuns {
    // 64 runs are linked by numbers of one byte, so following them allocates nothing.
    runs: Vec<RequestRun>,
    /// Names the first run of each list by hash.
    lists: [u8; RUNS],
    oldest: u8,
    newest: u8,
}

impl Default for SequentialRuns {
    /// Returns one that has seen no request.
    fn default() -> Self {
        Self { runs: Vec::with_capacity(RUNS), lists: [NONE; RUNS], oldest: NONE, newest: NONE }
    }
}

impl SequentialRuns {
    /// Notes a request for these pages. Returns its place in the run that it goes on with, or begins.
    pub fn note(&mut self, first: u64, pages: u64) -> RunPlace {
        let end = first + pages;
        // A run is known by its end alone. So a request costs one look-up by hash, however many runs there are.
        if let Some(index) = self.find(first) {
            self.leave(index);
            let before = self.runs[usize::from(index)].pages;
            self.enter(index, end, before + pages);
            return RunPlace { number: index + 1, pages: before + pages };
        }
        let index = if self.runs.len() < RUNS {
            self.runs.push(RequestRun { end: 0, pages: 0, next: NONE, older: NONE, newer: NONE });
            (self.runs.len() - 1) as u8
        } else {
            // The run that was not gone on with for longest is the least likely to be.
            let oldest = self.oldest;
            self.leave(oldest);
            oldest
        };
        self.enter(index, end, pages);
        RunPlace { number: 0, pages }
    }

    const fn list_of(end: u64) -> usize {
        // Multiplied by 2⁶⁴ over the golden ratio, neighbours go to unrelated lists.
        (end.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
    }

    /// Finds the run that ends before this page; of several the one that was gone on with last.
    fn find(&self, first: u64) -> Option<u8> {
        let mut index = self.lists[Self::list_of(first)];
        while index != NONE {
            let run = &self.runs[usize::from(index)];
            if run.end == first {
                return Some(index);
            }
            index = run.next;
        }
        None
    }

    /// Takes a run from its lists.
    fn leave(&mut self, index: u8) {
        let RequestRun { end, next, older, newer, .. } = self.runs[usize::from(index)];
        let list = Self::list_of(end);
        if self.lists[list] == index {
            self.lists[list] = next;
        } else {
            let mut before = self.lists[list];
            while self.runs[usize::from(before)].next != index {
                before = self.runs[usize::from(before)].next;
            }
            self.runs[usize::from(before)].next = next;
        }
        if older == NONE {
            self.oldest = newer;
        } else {
            self.runs[usize::from(older)].newer = newer;
        }
        if newer == NONE {
            self.newest = older;
        } else {
            self.runs[usize::from(newer)].older = older;
        }
    }

    /// Puts a run into its lists, as the newest.
    fn enter(&mut self, index: u8, end: u64, pages: u64) {
        let list = Self::list_of(end);
        let (next, older) = (self.lists[list], self.newest);
        self.runs[usize::from(index)] = RequestRun { end, pages, next, older, newer: NONE };
        self.lists[list] = index;
        self.newest = index;
        if older == NONE {
            self.oldest = index;
        } else {
            self.runs[usize::from(older)].newer = index;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_goes_on_where_another_ended() {
        let mut runs = SequentialRuns::default();
        assert_eq!(runs.note(100, 8), RunPlace { number: 0, pages: 8 });
        assert_eq!(runs.note(500, 4), RunPlace { number: 0, pages: 4 }, "a run of its own");
        assert_eq!(runs.note(108, 8), RunPlace { number: 1, pages: 16 });
        assert_eq!(runs.note(504, 1), RunPlace { number: 2, pages: 5 });
        assert_eq!(runs.note(108, 8), RunPlace { number: 0, pages: 8 }, "it ended at 116");
        assert_eq!(runs.note(116, 1), RunPlace { number: 3, pages: 9 }, "of two that end there the newer one");
    }

    #[test]
    fn runs_are_those_of_a_list_that_is_searched() {
        let mut runs = SequentialRuns::default();
        // The newest last.
        let mut known: Vec<(u64, u64, u8)> = Vec::new();
        let mut at = 1_u64;
        for _ in 0..20_000 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (first, pages) = (at >> 40 & 0x7f, 1 + (at >> 20 & 3));
            let found = known.iter().rposition(|run| run.0 == first);
            let place = runs.note(first, pages);
            let number = if let Some(index) = found {
                let (_, before, number) = known.remove(index);
                assert_eq!(place, RunPlace { number: number + 1, pages: before + pages });
                number
            } else {
                assert_eq!(place, RunPlace { number: 0, pages });
                if known.len() < RUNS { known.len() as u8 } else { known.remove(0).2 }
            };
            known.push((first + pages, place.pages, number));
        }
    }

    #[test]
    fn a_run_that_is_gone_on_with_outlives_any_number_of_other_requests() {
        let mut runs = SequentialRuns::default();
        let mut pages = 0;
        for round in 0..1_000 {
            pages += 2;
            assert_eq!(runs.note(2 * round, 2).pages, pages);
            for other in 0..RUNS as u64 - 1 {
                assert_eq!(runs.note(1 << 40 | round << 20 | other << 10, 1).number, 0);
            }
        }
        for other in 0..RUNS as u64 {
            runs.note(1 << 50 | other << 10, 1);
        }
        assert_eq!(runs.note(2_000, 2), RunPlace { number: 0, pages: 2 }, "as many others came since");
        assert_eq!(runs.runs.len(), RUNS);
    }
}
