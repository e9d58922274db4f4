//! The score of a paper: one line per claim that it makes, and one per figure that it prints.

use crate::grade::ClaimGrade;
use crate::reproduce::ClaimFinding;

/// Counts grades.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GradeCounts([usize; ClaimGrade::ALL.len()]);

impl GradeCounts {
    /// Counts claims of a paper, each on its [nearest](crate::reproduce::PaperReproduction::nearest) workload. Other readings of a
    /// claim are left out, and all parts of one count once.
    pub fn of_claims(nearest: &[&ClaimFinding<'_>]) -> Self {
        counted(nearest).into_iter().map(|(_, grade)| grade).collect()
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

/// Lists what counts of a paper, in its order: claims that are no other readings, and what has several parts once, by its name.
pub fn counted<'a>(nearest: &[&'a ClaimFinding<'_>]) -> Vec<(&'a str, ClaimGrade)> {
    let mut all: Vec<(&str, Vec<ClaimGrade>)> = Vec::new();
    for finding in nearest.iter().filter(|finding| finding.claim.reading_of.is_none()) {
        let (claim, grade) = (finding.claim, finding.grade());
        match claim.part_of.as_deref() {
            None => all.push((&claim.id, vec![grade])),
            Some(whole) => match all.iter_mut().find(|(name, _)| *name == whole) {
                Some((_, grades)) => grades.push(grade),
                None => all.push((whole, vec![grade])),
            },
        }
    }
    all.into_iter().map(|(name, grades)| (name, ClaimGrade::of_all(&grades))).collect()
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
