//! Selects the runs of an experiment that are carried out, and takes their results.

/// Chooses among the runs of an experiment, which are numbered in the order of its results, and takes what they bring.
pub trait RunSelection<R> {
    /// Returns true if this run is carried out.
    fn wants(&self, run: usize) -> bool;

    /// Returns the largest number of runs for the next pass over the trace; memory may have room for fewer.
    fn per_pass(&mut self) -> usize;

    /// Takes the result of a run as soon as its pass has ended, in order. Whether to go on.
    fn take(&mut self, run: usize, result: R) -> bool;
}

/// All results of all runs, in as few passes as there can be.
impl<R> RunSelection<R> for Vec<R> {
    fn wants(&self, _: usize) -> bool {
        true
    }

    fn per_pass(&mut self) -> usize {
        usize::MAX
    }

    fn take(&mut self, _: usize, result: R) -> bool {
        self.push(result);
        true
    }
}
