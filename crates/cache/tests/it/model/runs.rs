//! Finds sequential writes, and decides how their runs are destaged (specs §8.1, §8.2).

use super::*;

impl Model {
    /// A write begins where one of the runs has ended that grew last, or, if it is a part of a
    /// page, in the page before that; how many pages of the run are before it.
    pub(super) fn grow_run(&mut self, frag: &Frag) -> u64 {
        let goes_on = |run: &(u64, u64)| run.1 == frag.page || frag.part && run.1 == frag.page + 1;
        let begin = match self.runs.iter().position(goes_on) {
            Some(at) => self.runs.remove(at).0,
            None => frag.page,
        };
        let end = frag.page + frag.pages;
        self.runs.retain(|run| run.1 != end);
        self.runs.insert(0, (begin, end));
        self.runs.truncate(self.options.runs);
        frag.page - begin
    }

    /// Below the threshold four groups of a run at a time go on leaving.
    pub(super) fn allowed_of_run(&mut self) -> u64 {
        let allowed = self.options.groups.min(4);
        if !self.run_goes_on || (self.groups.len() + self.chosen.len()) as u64 >= allowed {
            return 0;
        }
        let next = self.upper.clone().advance();
        self.run_goes_on = next.is_none_or(|group| self.upper.entry(group).expect("it is next").sequential);
        if self.run_goes_on { allowed } else { 0 }
    }
}
