//! The page of all papers stays short.

use destage_reproduce::grade::ClaimGrade;
use destage_reproduce::paper::{PaperFile, built_in};
use destage_reproduce::reproduce::{ClaimFinding, PaperReproduction, SaturatedCounts, WorkloadResults};
use destage_reproduce::summary::PaperSummary;

/// Returns a paper of which every claim has this grade.
fn graded(paper: &PaperFile, grade: ClaimGrade) -> PaperReproduction<'_> {
    let findings = paper.claim.iter().map(|claim| ClaimFinding {
        claim,
        at: &claim.at,
        on: Vec::new(),
        run: true,
        measured: Vec::new(),
        without_evictions: 0,
        saturated: SaturatedCounts::default(),
        without_base: 0,
        grades: vec![grade],
        requests: 0,
    });
    let findings: Vec<_> = findings.collect();
    PaperReproduction {
        paper,
        also: vec![Vec::new(); findings.len()],
        findings,
        examples: Vec::new(),
        results: vec![WorkloadResults::default(); paper.workload.len()],
        quick: false,
    }
}

#[test]
fn the_page_of_all_papers_has_200_lines_at_most() {
    let papers: Vec<_> = built_in().map(|name| PaperFile::named(name).expect("it is built in")).collect();
    for grade in [ClaimGrade::Not, ClaimGrade::Size] {
        let mut summary = PaperSummary::default();
        for paper in &papers {
            summary.add(&graded(paper, grade));
        }
        let page = summary.markdown();
        let lines = page.lines().count();
        assert!(lines <= 200, "{lines} lines:\n{page}");
        assert!(papers.iter().all(|paper| page.contains(&format!("\n## {}\n", paper.name))));
    }
}
