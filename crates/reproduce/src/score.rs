//! The score of a paper: one line per claim that it makes, and one per figure that it prints.

use crate::grade::ClaimGrade;
use crate::reproduce::ClaimFinding;

/// Counts grades.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GradeCounts([usize; ClaimGrade::ALL.len()]);

impl GradeCounts {
    /// Counts claims of a paper, each on its [nearest](crate::reproduce::PaperReproduction::nearest) workload. Other readings of a
    /// claim are left out.
    pub fn of_claims(nearest: &[&ClaimFinding<'_>]) -> Self {
        nearest.iter().filter(|finding| finding.claim.reading_of.is_none()).map(|finding| finding.grade()).collect()
    }

    /// Returns how many have this grade.
    pub fn of(&self, grade: ClaimGrade) -> usize {
        ClaimGrade::ALL.iter().zip(self.0).filter(|(own, _)| **own == grade).map(|(_, count)| count).sum()
    }

    /// Counts those that have such a grade.
    pub fn having(&self, is_such: impl Fn(ClaimGrade) -> bool) -> usize {
        ClaimGrade::ALL.into_iter().filter(|grade| is_such(*grade)).map(|grade| self.of(grade)).sum()
    }

    /// Counts all of them.
    pub fn all(&self) -> usize {
        self.0.iter().sum()
    }

    /// Counts those that were tried.
    pub fn tried(&self) -> usize {
        self.having(|grade| grade != ClaimGrade::Untried)
    }

    /// Adds another paper's.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += other);
    }
}

impl FromIterator<ClaimGrade> for GradeCounts {
    fn from_iter<I: IntoIterator<Item = ClaimGrade>>(grades: I) -> Self {
        let mut counts = Self::default();
        for grade in grades {
            let at = ClaimGrade::ALL.iter().position(|own| *own == grade);
            counts.0[at.expect("all grades are listed")] += 1;
        }
        counts
    }
}
