//! Writes the page that compares papers' claims with the measured results: how many claims hold, each claim
//! as a strip, reasons for the others, and figures drawn like the papers' own.

mod claims;
mod data;
mod markdown;
mod strip;

use std::fmt::Write;

use destage_report::{PAGE, PageDocument, ReportError, escaped};
use destage_sim::measure::MeanEstimate;
use serde_json::{Value, json};

use crate::figure::PaperFigure;
use crate::grade::ClaimGrade;
use crate::panel::{self, FigurePanel, panels};
use crate::prose;
use crate::report::QUICK;
use crate::report::with_others;
use crate::reproduce::{ClaimFinding, PaperReproduction};
use crate::score::GradeCounts;
use claims::{claims, class, others, printed, reasons};
use data::{CLAIMS, DataRows, FIGURES, claim_row, figure_rows};

const SCRIPT: &str = include_str!("papers.js");
const STYLE: &str = include_str!("papers.css");

/// The papers that were reproduced, one after the other: what the page and its tables need of them.
#[derive(Clone, Debug, Default)]
pub struct PaperPages {
    overview: String,
    /// Counts the grades of all papers' claims.
    grades: GradeCounts,
    contents: String,
    sections: String,
    panels: Vec<Value>,
    claims: DataRows,
    figures: DataRows,
    quick: bool,
}

impl PaperPages {
    /// Names of all files of such a report.
    pub const FILES: [&str; 5] = [PAGE, "claims.csv", "claims.parquet", "figures.csv", "figures.parquet"];

    /// Adds a paper.
    pub fn add(&mut self, reproduction: &PaperReproduction<'_>) {
        let paper = reproduction.paper;
        self.quick |= reproduction.quick;
        let nearest = reproduction.nearest();
        if !paper.claim.is_empty() {
            self.overview_of(reproduction, &nearest);
        }
        let name = escaped(&paper.name);
        let short = nearest.iter().filter(|finding| !finding.grade().is_whole()).count();
        self.contents_of(reproduction, short);
        let html = &mut self.sections;
        let _ = write!(
            html,
            "<section class=\"paper\" id=\"{name}\" aria-labelledby=\"title-{name}\">\n<h2 id=\"title-{name}\">{name}</h2>\n\
             <div class=\"cite\">{}</div>\n",
            markdown::html(&paper.title)
        );
        if !paper.claim.is_empty() {
            let _ = writeln!(html, "<p class=\"bar\">{}</p>", bar(&GradeCounts::of_claims(&nearest)));
        }
        let _ = write!(
            html,
            "<h3 id=\"verdict-{name}\">What holds, what does not, and why</h3>\n<div class=\"prose\">{}</div>\n",
            markdown::html(&prose::fill(&paper.verdict, reproduction))
        );
        if !paper.claim.is_empty() {
            reasons(html, reproduction, &nearest);
            claims(html, reproduction, &nearest);
        }
        if !paper.value.is_empty() {
            printed(html, reproduction);
        }
        others(html, reproduction);
        if !paper.figure.is_empty() {
            let _ = writeln!(html, "<h3 id=\"figures-{name}\">Figures</h3>");
            for figure in &paper.figure {
                self.figure(reproduction, figure);
            }
        }
        let _ = write!(
            self.sections,
            "<details><summary>What was run, and how it is compared</summary><div class=\"prose\">{}</div></details>\n</section>\n",
            markdown::html(&paper.about)
        );
        let others = reproduction.also.iter().flatten();
        self.claims.extend(reproduction.findings.iter().chain(others).map(|finding| claim_row(&paper.name, finding)));
    }

    fn overview_of(&mut self, reproduction: &PaperReproduction<'_>, nearest: &[&ClaimFinding<'_>]) {
        let name = escaped(&reproduction.paper.name);
        let counts = GradeCounts::of_claims(nearest);
        self.grades.add(&counts);
        let of = |grade| counts.of(grade);
        let bar = bar(&counts);
        let _ = writeln!(
            self.overview,
            "<tr><th scope=\"row\"><a href=\"#{name}\">{name}</a></th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td class=\"bar\">{bar}</td></tr>",
            counts.all(),
            counts.having(ClaimGrade::is_borne_out),
            of(ClaimGrade::Sign),
            of(ClaimGrade::Part),
            of(ClaimGrade::Undecided),
            of(ClaimGrade::Not),
            of(ClaimGrade::Untried),
        );
    }

    /// A paper's line in the table of contents.
    fn contents_of(&mut self, reproduction: &PaperReproduction<'_>, short: usize) {
        let paper = reproduction.paper;
        let name = escaped(&paper.name);
        let parts = [
            ("verdict", "what holds", true),
            ("reasons", "why not", short > 0),
            ("claims", "claims", !paper.claim.is_empty()),
            ("others", "beside others", with_others(reproduction).next().is_some()),
            ("figures", "figures", !paper.figure.is_empty()),
        ];
        let links: Vec<_> = parts
            .into_iter()
            .filter(|(.., is_there)| *is_there)
            .map(|(id, words, _)| format!("<a href=\"#{id}-{name}\">{words}</a>"))
            .collect();
        let _ =
            writeln!(self.contents, "<li><a href=\"#{name}\"><strong>{name}</strong></a>: {}</li>", links.join(", "));
    }

    /// Writes the cards that count the claims of all papers by grade.
    fn cards(&self) -> String {
        let counts = &self.grades;
        let share = |part: usize, whole: usize| 100 * part / whole.max(1);
        let (all, tried) = (counts.all(), counts.tried());
        let borne_out = counts.having(ClaimGrade::is_borne_out);
        let in_sign = counts.having(ClaimGrade::is_in_sign);
        let of = |grade| counts.of(grade);
        let (part, undecided, untried) = (of(ClaimGrade::Part), of(ClaimGrade::Undecided), of(ClaimGrade::Untried));
        let cards = [
            (
                "Claims borne out as stated",
                format!("{borne_out} of {all}"),
                format!(
                    "{} %: {} in size, {} within a factor of two, {} that state no size in sign, {} alike as claimed.",
                    share(borne_out, all),
                    of(ClaimGrade::Size),
                    of(ClaimGrade::Double),
                    of(ClaimGrade::Claimed),
                    of(ClaimGrade::Alike),
                ),
            ),
            (
                "In sign, or alike",
                format!("{in_sign} of {all}"),
                format!(
                    "{} %, and {} % of those that could be tried: what a paper calls better is better here, at every buffer size, on \
                     every workload and for every pair that it speaks of.",
                    share(in_sign, all),
                    share(in_sign, tried)
                ),
            ),
            (
                "Claims that do not hold",
                format!("{} of {all}", of(ClaimGrade::Not)),
                format!(
                    "{part} more hold in part, {undecided} cannot be decided by so many seeds, {untried} could not \
                     be tried. Why stands with each paper."
                ),
            ),
        ];
        let each = cards.iter().map(|(title, number, told)| {
            format!("<div class=\"card\"><h3>{title}</h3><p class=\"big\">{number}</p><p>{told}</p></div>\n")
        });
        format!("<div class=\"cards\">\n{}</div>\n", each.collect::<String>())
    }

    fn figure(&mut self, reproduction: &PaperReproduction<'_>, figure: &PaperFigure) {
        let paper = &reproduction.paper.name;
        let panels = panels(figure, reproduction);
        let html = &mut self.sections;
        let (place, title) = (escaped(&figure.place), escaped(&figure.title));
        let _ = writeln!(html, "<h4><span class=\"place\">{place}</span> {title}</h4>");
        if panels.is_empty() {
            html.push_str("<p class=\"note\">None of its workloads is here.</p>\n");
            return;
        }
        html.push_str("<div class=\"figures\">\n");
        for panel in &panels {
            let number = self.panels.len();
            let (name, kind) = match panel.workload {
                Some((name, kind)) => (escaped(name), format!("<span class=\"size\">, {}</span>", kind.label())),
                None => ("all workloads".to_owned(), String::new()),
            };
            let style = if figure.along.has_bars() {
                let bars = panel.steps.len() * (panel.lines.len() + 1);
                format!(" style=\"height:{}px\"", 60 + 13 * bars.max(8))
            } else {
                String::new()
            };
            let is_whole = panel.lines.iter().flat_map(|(_, values)| values).all(Option::is_some);
            let missing = if is_whole {
                ""
            } else {
                "<span class=\"note\">Where nothing is drawn a run is saturated or has no such figure.</span>"
            };
            let _ = write!(
                html,
                "<figure data-panel=\"{number}\"><figcaption><strong>{name}</strong>{kind}{missing}</figcaption>\n\
                 <div class=\"chart\" role=\"img\"{style}></div>\n<details class=\"data\"><summary>Show data</summary>\
                 <div class=\"scroll\" tabindex=\"0\"></div></details></figure>\n"
            );
            self.panels.push(panel_json(figure, panel));
            self.figures.extend(figure_rows(paper, figure, panel));
        }
        html.push_str("</div>\n");
    }

    /// Every file of the report's folder: name, of [`FILES`](Self::FILES), and content.
    ///
    /// # Errors
    /// Fails where a table cannot be written as Parquet.
    pub fn files(self) -> Result<Vec<(String, Vec<u8>)>, ReportError> {
        let mut files = vec![(PAGE.to_owned(), self.html().into_bytes())];
        files.extend(self.claims.table("claims", &CLAIMS).files()?);
        files.extend(self.figures.table("figures", &FIGURES).files()?);
        Ok(files)
    }

    fn html(&self) -> String {
        let mut body = String::new();
        if self.quick {
            let _ = writeln!(body, "<p class=\"quick\" role=\"note\"><strong>{}</strong></p>", escaped(QUICK));
        }
        if !self.overview.is_empty() {
            let _ = write!(
                body,
                "<section aria-labelledby=\"overview\"><h2 id=\"overview\">How many claims hold</h2>\n{}\
                 <p class=\"note\">Each claim of a paper counts once, whatever the readings of it that are tried, and so do the parts of \
                 one sentence: on the workload that is nearest to the paper's own among those on which there is anything to compare. The worst \
                 of what a claim is about decides: every buffer size, workload and pair of policies, unless the paper speaks of an average \
                 or of the best. In sign: the interval (95 %, over the seeds) excludes zero and what is below the figure's noise. In size: \
                 all of the interval lies in the claimed range, each end of it moved outwards by a quarter of itself and half a point; \
                 within a factor of two: between half of the least and twice the greatest that is claimed. Both are taken of how much more \
                 the worse of two has, so that 80 % saved count as five times as much and 90 % as ten. Alike: within 2 % of counts, 5 % of \
                 means, 10 % of tails, 1 point of ratios and a tenth of them, or what the paper calls alike. In part: some of it holds, \
                 some does not or could not be compared. Who saturates a device that the other does not is worse. A single run counts \
                 as one that is off by half of what is alike. Undecided: the interval leaves room for \
                 the claim and for the contrary.</p>\n<div class=\"scroll\"><table class=\"overview\"><thead><tr><th scope=\"col\">paper</th>\
                 <th scope=\"col\">claims</th><th scope=\"col\">borne out</th><th scope=\"col\">in sign, not in size</th>\
                 <th scope=\"col\">in part</th><th scope=\"col\">undecided</th><th scope=\"col\">do not hold</th>\
                 <th scope=\"col\">not tried</th><th scope=\"col\"></th></tr></thead><tbody>\n{}</tbody></table></div>\n\
                 <p class=\"legend\">{}</p></section>\n",
                self.cards(),
                self.overview,
                ClaimGrade::ALL
                    .map(|grade| format!("<span><i class=\"{}\"></i> {}</span>", class(grade), grade.label()))
                    .concat()
            );
        }
        let _ = writeln!(
            body,
            "<nav aria-labelledby=\"contents\"><h2 id=\"contents\">Contents</h2>\n<ul class=\"contents\">{}</ul></nav>",
            self.contents
        );
        body.push_str(&self.sections);
        let document = PageDocument {
            kind: "destage reproduce",
            title: format!(
                "What papers claim, and what destage measures{}",
                if self.quick { ": a quick look" } else { "" }
            ),
            body,
            footer: format!(
                "Written by destage {}; the same on every machine, given the same traces. Beside this page are the tables \
                 <code>claims</code> (a row for each claim, workload and assumption) and <code>figures</code> (a row for each \
                 point), as CSV and Parquet.",
                destage_sim::measure::VERSION
            ),
            data: vec![("panels", Value::Array(self.panels.clone()))],
            script: SCRIPT,
            style: STYLE,
        };
        document.html()
    }
}

/// Draws how many claims have which grade, as a bar.
fn bar(counts: &GradeCounts) -> String {
    let mut bar = String::new();
    for grade in ClaimGrade::ALL {
        let n = counts.of(grade);
        if n > 0 {
            let (class, label) = (class(grade), grade.label());
            let _ = write!(bar, "<span class=\"{class}\" style=\"flex-grow:{n}\" title=\"{n} {label}\">{n}</span>");
        }
    }
    format!("<span class=\"all\" aria-hidden=\"true\">{bar}</span>")
}

fn panel_json(figure: &PaperFigure, panel: &FigurePanel<'_>) -> Value {
    let column = |values: &[Option<MeanEstimate>], of: fn(&MeanEstimate) -> f64| -> Value {
        values.iter().map(|value| value.as_ref().map(of)).collect()
    };
    json!({
        "title": figure.title,
        "axis": panel::axis(figure),
        "places": if figure.relative_to.is_some() { 3 } else { figure.metric.scale().1 },
        "bars": figure.along.has_bars(),
        "steps": panel.steps,
        "lines": panel.lines.iter().map(|(name, values)| json!({
            "name": name,
            "mean": column(values, |e| e.mean),
            "half": column(values, |e| e.half_width),
        })).collect::<Value>(),
    })
}
