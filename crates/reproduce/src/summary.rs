//! All papers on one page of Markdown, of 200 lines at most: how many claims hold and how well, what holds and what does not, and why.

use std::fmt::Write;

use crate::grade::ClaimGrade;
use crate::reasons::reasons;
use crate::report::{claimed, measured};
use crate::reproduce::{ClaimFinding, PaperReproduction};
use crate::score::{GradeCounts, counted};
use crate::{prose, report};

/// Says how claims are graded, under the table.
const RULE: &str = "Each claim of a paper counts once, on the workload nearest to its own; intervals (95 %, over the seeds) decide, not means \
                    ([how](report.md#papers-on-a-page)).";

/// The papers that were reproduced, one after the other: what the summary needs of them.
#[derive(Clone, Debug, Default)]
pub struct PaperSummary {
    rows: Vec<(String, GradeCounts)>,
    sections: String,
    quick: bool,
}

impl PaperSummary {
    /// Adds a paper.
    pub fn add(&mut self, reproduction: &PaperReproduction<'_>) {
        let paper = reproduction.paper;
        self.quick |= reproduction.quick;
        let nearest = reproduction.nearest();
        let out = &mut self.sections;
        let _ = write!(out, "\n## {}\n\n{}\n\n", paper.name, paper.title);
        // A paragraph is a line: the page is short, and says more than it would cut down.
        for paragraph in prose::fill(paper.verdict.trim(), reproduction).split("\n\n") {
            let _ = writeln!(out, "* {}", paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        let examples = &reproduction.examples;
        if !examples.is_empty() {
            let others: Vec<_> =
                examples.iter().filter(|found| !found.holds()).map(|found| &*found.example.id).collect();
            let others = if others.is_empty() { String::new() } else { format!(", not {}", others.join("; ")) };
            let holding = examples.iter().filter(|found| found.holds()).count();
            let _ =
                writeln!(out, "* **worked examples**: {holding} of {} end as the paper says{others}", examples.len());
        }
        if paper.claim.is_empty() {
            return;
        }
        self.rows.push((paper.name.clone(), GradeCounts::of_claims(&nearest)));
        let counted = counted(&nearest);
        let of = |grade: ClaimGrade| {
            let ids = counted.iter().filter(|(_, own)| *own == grade).map(|(id, _)| *id);
            ids.collect::<Vec<_>>().join(", ")
        };
        out.push('\n');
        for grade in ClaimGrade::ALL.into_iter().filter(|grade| grade.is_whole()) {
            let ids = of(grade);
            if !ids.is_empty() {
                let _ = writeln!(out, "* **{}**: {ids}", grade.label());
            }
        }
        let told = counted.iter().filter(|(_, grade)| !grade.is_whole()).map(|(id, grade)| {
            let figures = |finding: &&&ClaimFinding<'_>| {
                let figures = format!("{} of {}", measured(finding), claimed(finding));
                if finding.claim.id == *id { figures } else { format!("{} {figures}", finding.claim.id) }
            };
            let own = nearest.iter().filter(|finding| {
                let claim = finding.claim;
                let is_own = claim.id == *id || claim.part_of.as_deref() == Some(id);
                is_own && finding.is_tried() && !finding.grade().is_whole()
            });
            let figures: Vec<_> = own.map(|finding| figures(&finding)).collect();
            let figures = if figures.is_empty() { String::new() } else { format!("; {}", figures.join("; ")) };
            format!("{id} ({}{figures})", grade.label())
        });
        let told = told.collect::<Vec<_>>().join(", ");
        if !told.is_empty() {
            let _ = writeln!(out, "* **not as stated**, measured of claimed: {told}");
        }
        for (claims, reason) in reasons(reproduction) {
            let _ = writeln!(out, "* *{claims}*: {}", reason.replace('\n', " "));
        }
    }

    /// Returns the page.
    pub fn markdown(&self) -> String {
        let mut out = String::from(
            "# Reproduction: what papers claim, and what destage measures\n\nWritten by `destage reproduce --summary`; `--markdown` and \
             `--report` write every claim on every workload, all figures and `claims.csv`. The same bytes on every run and machine, given the \
             same traces.\n\n",
        );
        if self.quick {
            let _ = writeln!(out, "**{}**\n", report::QUICK);
        }
        if self.rows.is_empty() {
            return out + self.sections.trim_start();
        }
        let mut all = GradeCounts::default();
        self.rows.iter().for_each(|(_, counts)| all.add(counts));
        let heads = ["paper", "claims"].into_iter().chain(ClaimGrade::ALL.map(ClaimGrade::label));
        let row = |name: &str, counts: &GradeCounts| {
            let each = ClaimGrade::ALL.map(|grade| counts.of(grade).to_string());
            [name.to_owned(), counts.all().to_string()].into_iter().chain(each).collect::<Vec<_>>()
        };
        let mut rows: Vec<_> = self.rows.iter().map(|(name, counts)| row(name, counts)).collect();
        if self.rows.len() > 1 {
            rows.push(row("all", &all));
        }
        report::table(&mut out, &heads.collect::<Vec<_>>(), &rows);
        let share = |part: usize| 100 * part / all.all().max(1);
        let (borne_out, in_sign) = (all.having(ClaimGrade::is_borne_out), all.having(ClaimGrade::is_in_sign));
        let _ = writeln!(
            out,
            "\n{RULE} {borne_out} of {} claims ({} %) are borne out as stated, in size within a factor of two; {in_sign} ({} %) in sign, or as \
             alike as claimed.",
            all.all(),
            share(borne_out),
            share(in_sign)
        );
        out + &self.sections
    }
}
