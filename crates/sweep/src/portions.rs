//! Chooses the number of runs in a group. Groups are small enough that a lost one costs little and that all
//! lanes end together. They are large enough that a group's fixed cost does not count.

/// Seconds that a group is to take.
const AIM: f64 = 5.0;
/// Runs of the first groups.
const FIRST: usize = 8;
/// Runs of a group at most.
const MOST: usize = 256;
/// Runs of a group that is not the last, at least, however few are left.
const LEAST: usize = 4;

/// Adapts the number of runs in a group to the time that groups take.
#[derive(Debug)]
pub(crate) struct GroupSizes {
    runs: usize,
}

impl GroupSizes {
    pub(crate) fn new() -> Self {
        Self { runs: FIRST }
    }

    /// Runs of the next group, of so many that are left for so many lanes.
    pub(crate) fn next(&self, left: usize, lanes: usize) -> usize {
        // Half of a lane's share at most, so that all lanes end together.
        let share = left.div_ceil(2 * lanes.max(1)).max(LEAST);
        self.runs.min(share).min(left)
    }

    /// A group of so many runs took so many seconds.
    pub(crate) fn took(&mut self, runs: usize, seconds: f64) {
        if runs == 0 {
            return;
        }
        let fitting = AIM * runs as f64 / seconds.max(1e-6);
        // Half of the way, and never more than twice as many: runs differ.
        let next = f64::midpoint(self.runs as f64, fitting).min(2.0 * self.runs as f64);
        self.runs = (next as usize).clamp(1, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_to_take_a_few_seconds_and_get_small_at_the_end() {
        let mut portions = GroupSizes::new();
        for _ in 0..20 {
            let runs = portions.next(10_000, 2);
            portions.took(runs, runs as f64 * 0.1);
        }
        assert!((45..=55).contains(&portions.next(10_000, 2)), "{portions:?}");
        assert_eq!((portions.next(40, 2), portions.next(9, 2), portions.next(3, 2)), (10, 4, 3));
        for _ in 0..20 {
            portions.took(1, 60.0);
        }
        assert_eq!(portions.next(10_000, 2), 1);
        for _ in 0..20 {
            portions.took(10, 1e-9);
        }
        assert_eq!(portions.next(10_000, 2), MOST);
    }
}
