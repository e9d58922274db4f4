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

/// Describes a run.
#[derive(Clone, Copy)]
struct RequestRun {
    /// Names the page behind its last request.
    end: u64,
    pages: u64,
    /// Tells when it was gone on with last, by the count of requests.
    used: u64,
}

/// Follows the sequential runs among requests.
pub struct SequentialRuns {
    runs: Vec<RequestRun>,
    requests: u64,
}

impl Default for SequentialRuns {
    /// Returns one that has seen no request.
    fn default() -> Self {
        Self { runs: Vec::with_capacity(RUNS), requests: 0 }
    }
}

impl SequentialRuns {
    /// Bounds the numbers of runs.
    pub const MAX_NUMBER: usize = RUNS;

    /// Notes a request for these pages. Returns its place in the run that it goes on with, or begins.
    pub fn note(&mut self, first: u64, pages: u64) -> RunPlace {
        self.requests += 1;
        let used = self.requests;
        if let Some(index) = self.runs.iter().position(|run| run.end == first) {
            let run = &mut self.runs[index];
            *run = RequestRun { end: first + pages, pages: run.pages + pages, used };
            return RunPlace { number: index as u8 + 1, pages: run.pages };
        }
        let run = RequestRun { end: first + pages, pages, used };
        if self.runs.len() < RUNS {
            self.runs.push(run);
        } else if let Some(oldest) = self.runs.iter_mut().min_by_key(|run| run.used) {
            *oldest = run;
        }
        RunPlace { number: 0, pages }
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
        assert_eq!(runs.note(116, 1), RunPlace { number: 1, pages: 17 });
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
