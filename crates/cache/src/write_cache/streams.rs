//! Finds writes that begin where an earlier one ended (specs §8.2, §8.3).

/// Pages written one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WriteRun {
    /// The page after its last.
    end: u64,
    pages: u64,
}

/// The runs of writes that were extended last.
#[derive(Debug)]
pub(super) struct WriteStreams {
    /// The one that was extended last comes last.
    runs: Vec<WriteRun>,
    most: usize,
}

impl WriteStreams {
    /// So many runs are kept in mind.
    pub(super) fn new(most: usize) -> Self {
        Self { runs: Vec::with_capacity(most), most }
    }

    /// A write comes; how many pages of a run lie right before it, which it goes on with: none if
    /// it begins where none has ended. A part of a page also goes on with the run that ends with
    /// this page.
    pub(super) fn note(&mut self, page: u64, pages: u64, is_part: bool) -> u64 {
        // From the newest on: two runs that end at the same page cannot exist, but
        // a partial page may fit two.
        let continued = self.runs.iter().rposition(|run| run.end == page || is_part && run.end == page + 1);
        let behind = continued.map_or(0, |at| {
            let run = self.runs.remove(at);
            // A write of a part of the run's last page is in the run already.
            run.pages - u64::from(run.end > page)
        });
        let run = WriteRun { end: page + pages, pages: behind + pages };
        // One that ends there as well says nothing more.
        self.runs.retain(|other| other.end != run.end);
        // The run that grew longest ago makes room.
        if self.runs.len() == self.most {
            self.runs.remove(0);
        }
        self.runs.push(run);
        behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_grows_by_what_begins_where_it_ends() {
        let mut streams = WriteStreams::new(4);
        assert_eq!([(8, 2), (10, 1), (11, 4)].map(|(page, pages)| streams.note(page, pages, false)), [0, 2, 3]);
        assert_eq!(streams.note(9, 3, false), 0, "among it, not behind it");
        assert_eq!(streams.note(16, 1, false), 0, "a page further");
        assert_eq!(streams.note(15, 1, false), 7);
    }

    #[test]
    fn several_runs_grow_side_by_side_and_the_one_that_did_so_longest_ago_is_forgotten() {
        let mut streams = WriteStreams::new(2);
        assert_eq!([(0, 1), (50, 1), (1, 1)].map(|(page, pages)| streams.note(page, pages, false)), [0, 0, 1]);
        assert_eq!(streams.note(90, 1, false), 0);
        assert_eq!(streams.note(51, 1, false), 0, "forgotten");
        assert_eq!([91, 52].map(|page| streams.note(page, 1, false)), [1, 1]);
    }

    #[test]
    fn a_page_written_again_and_again_is_one_run() {
        let mut streams = WriteStreams::new(2);
        streams.note(0, 8, false);
        assert_eq!([30, 30, 30].map(|page| streams.note(page, 1, false)), [0, 0, 0]);
        assert_eq!(streams.note(8, 1, false), 8);
    }

    #[test]
    fn parts_of_a_page_one_after_the_other_go_on() {
        let mut streams = WriteStreams::new(4);
        assert_eq!([5, 5, 6, 6].map(|page| streams.note(page, 1, true)), [0, 0, 1, 1]);
        assert_eq!(streams.note(7, 2, false), 2);
        assert_eq!(streams.note(8, 1, false), 0, "the whole page again");
    }
}
