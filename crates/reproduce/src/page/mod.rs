//! What papers claim beside what is measured, on one page: how many claims hold, each claim as a strip, why the others do
//! not, and figures drawn like the papers' own.

mod markdown;
mod strip;

use std::fmt::Write;

use destage_report::{Cell, Column, Document, PAGE, ReportError, Table, breakable, escaped};
use serde_json::{Value, json};

use crate::fate::{self, Fate};
use crate::figure::{self, Figure, Panel, panels};
use crate::paper::Provenance;
use crate::report::{VALUE_COLUMNS, claimed, measured, other_assumptions, values, verdict, what, workloads};
use crate::reproduce::{Finding, Reproduction};
use crate::stats::Estimate;
use strip::Scale;

const SCRIPT: &str = include_str!("papers.js");
const STYLE: &str = include_str!("papers.css");

/// The papers that were reproduced, one after the other: what the page and its tables need of them.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    overview: String,
    sections: String,
    panels: Vec<Value>,
    claims: Rows,
    figures: Rows,
}

/// The rows of a table in the making.
#[derive(Clone, Debug, Default)]
struct Rows(Vec<Vec<Cell>>);

/// The columns of the table of claims: name and whether it is text.
const CLAIMS: [(&str, bool); 12] = [
    ("paper", true),
    ("claim", true),
    ("where", true),
    ("what", true),
    ("assumption", true),
    ("workload", true),
    ("kind", true),
    ("claimed_from", false),
    ("claimed_to", false),
    ("measured_least", false),
    ("measured_greatest", false),
    ("holds", true),
];

/// The columns of the table of what the figures show.
const FIGURES: [(&str, bool); 9] = [
    ("paper", true),
    ("figure", true),
    ("shows", true),
    ("workload", true),
    ("at", true),
    ("line", true),
    ("mean", false),
    ("half_width_of_95_percent", false),
    ("seeds", false),
];

impl Rows {
    fn table(self, name: &'static str, columns: &[(&str, bool)]) -> Table {
        let mut columns: Vec<Column> = columns
            .iter()
            .map(|&(name, is_text)| Column { name: name.to_owned(), is_text, cells: Vec::with_capacity(self.0.len()) })
            .collect();
        for row in self.0 {
            columns.iter_mut().zip(row).for_each(|(column, cell)| column.cells.push(cell));
        }
        Table { name, columns }
    }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

impl Pages {
    /// Adds a paper.
    pub fn add(&mut self, reproduction: &Reproduction<'_>) {
        let paper = reproduction.paper;
        let nearest = reproduction.nearest();
        if !paper.claim.is_empty() {
            self.overview_of(reproduction, &nearest);
        }
        let name = escaped(&paper.name);
        let html = &mut self.sections;
        let _ = write!(
            html,
            "<section class=\"paper\" id=\"{name}\" aria-labelledby=\"title-{name}\">\n<h2 id=\"title-{name}\">{name}</h2>\n\
             <div class=\"cite\">{}</div>\n",
            markdown::html(&paper.title)
        );
        if !paper.claim.is_empty() {
            claims(html, reproduction, &nearest);
            reasons(html, reproduction, &nearest);
        }
        if !paper.value.is_empty() {
            printed(html, reproduction);
        }
        let _ = write!(
            html,
            "<h3>What holds, what does not, and why</h3>\n<div class=\"prose\">{}</div>\n",
            markdown::html(&paper.verdict)
        );
        if !paper.figure.is_empty() {
            html.push_str("<h3>Figures</h3>\n");
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
        self.claims.0.extend(reproduction.findings.iter().chain(others).map(|finding| claim_row(&paper.name, finding)));
    }

    fn overview_of(&mut self, reproduction: &Reproduction<'_>, nearest: &[&Finding<'_>]) {
        let name = escaped(&reproduction.paper.name);
        let count = |fate: Fate| nearest.iter().filter(|finding| Fate::of(finding) == fate).count();
        let in_sign = nearest.iter().filter(|finding| Fate::of(finding).is_in_sign()).count();
        let of_size = match nearest.iter().filter(|finding| finding.claim.states_size()).count() {
            0 => "\u{2013}".to_owned(),
            sized => format!("{} of {sized}", count(Fate::Size)),
        };
        let mut bar = String::new();
        for fate in Fate::ALL {
            let n = count(fate);
            if n > 0 {
                let (class, label) = (class(fate), fate.label());
                let _ = write!(bar, "<span class=\"{class}\" style=\"flex-grow:{n}\" title=\"{n} {label}\">{n}</span>");
            }
        }
        let _ = writeln!(
            self.overview,
            "<tr><th scope=\"row\"><a href=\"#{name}\">{name}</a></th><td>{}</td><td>{in_sign}</td><td>{of_size}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td class=\"bar\"><div aria-hidden=\"true\">{bar}</div></td></tr>",
            nearest.len(),
            count(Fate::Part),
            count(Fate::Not),
            count(Fate::Untried),
        );
    }

    fn figure(&mut self, reproduction: &Reproduction<'_>, figure: &Figure) {
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
            self.figures.0.extend(figure_rows(paper, figure, panel));
        }
        html.push_str("</div>\n");
    }

    /// Every file of the report's folder: name and content.
    ///
    /// # Errors
    /// Where a table cannot be written as Parquet.
    pub fn files(self) -> Result<Vec<(String, Vec<u8>)>, ReportError> {
        let mut files = vec![(PAGE.to_owned(), self.html().into_bytes())];
        files.extend(self.claims.table("claims", &CLAIMS).files()?);
        files.extend(self.figures.table("figures", &FIGURES).files()?);
        Ok(files)
    }

    fn html(&self) -> String {
        let mut body = String::new();
        if !self.overview.is_empty() {
            let _ = write!(
                body,
                "<section aria-labelledby=\"overview\"><h2 id=\"overview\">How many claims hold</h2>\n\
                 <p class=\"note\">Each claim counts once: on the workload that is nearest to the paper's own among those on which \
                 there is anything to compare. In sign: at every buffer size that the claim is about, certainly (95 %). In \
                 size: every measured improvement lies in the claimed range, each end of it moved outwards by a quarter of itself and half \
                 a point.</p>\n<div class=\"scroll\"><table class=\"overview\"><thead><tr><th scope=\"col\">paper</th>\
                 <th scope=\"col\">claims</th><th scope=\"col\">hold in sign</th><th scope=\"col\">in size too, of those that state one</th>\
                 <th scope=\"col\">in sign at some sizes</th><th scope=\"col\">do not</th><th scope=\"col\">nothing to compare</th>\
                 <th scope=\"col\"></th></tr></thead><tbody>\n{}</tbody></table></div>\n<p class=\"legend\">{}</p></section>\n",
                self.overview,
                Fate::ALL
                    .map(|fate| format!("<span><i class=\"{}\"></i> {}</span>", class(fate), fate.label()))
                    .concat()
            );
        }
        body.push_str(&self.sections);
        let document = Document {
            kind: "destage reproduce",
            title: "What papers claim, and what destage measures".to_owned(),
            body,
            footer: format!(
                "Written by destage {}; the same on every machine, given the same traces. Beside this page the tables \
                 <code>claims</code> (a row for each claim, workload and assumption) and <code>figures</code> (a row for each point) \
                 lie as CSV and Parquet.",
                destage_sim::result::VERSION
            ),
            data: vec![("panels", Value::Array(self.panels.clone()))],
            script: SCRIPT,
            style: STYLE,
        };
        document.html()
    }
}

/// Every claim with its strip.
fn claims(html: &mut String, reproduction: &Reproduction<'_>, nearest: &[&Finding<'_>]) {
    let paper = reproduction.paper;
    let scale = Scale::of(&reproduction.findings);
    let name = escaped(&paper.name);
    let kinds = Provenance::ALL.into_iter().filter(|&kind| {
        reproduction
            .findings
            .iter()
            .any(|f| !f.measured.is_empty() && f.on.first().is_some_and(|w| w.provenance == kind))
    });
    let _ = write!(
        html,
        "<h3 id=\"claims-{name}\">Claims</h3>\n<p class=\"legend\"><span><i class=\"claimed\"></i> claimed</span>{}</p>\n\
         <p class=\"note\">Improvement in percent (of hit ratios: in points), linear around zero and logarithmic beyond; a mark for each \
         buffer size that a claim is about, a line from the least to the greatest with their intervals.</p>\n\
         <div class=\"scroll\" role=\"region\" aria-labelledby=\"claims-{name}\" tabindex=\"0\"><table class=\"claims\"><thead><tr>\
         <th scope=\"col\">claim</th><th scope=\"col\">what</th><th scope=\"col\">claimed</th><th scope=\"col\">measured</th>\
         <th scope=\"col\">{}</th><th scope=\"col\">holds</th></tr></thead><tbody>\n",
        strip::key(kinds),
        scale.head()
    );
    for finding in nearest {
        let claim = finding.claim;
        let all: Vec<_> = reproduction.findings.iter().filter(|other| std::ptr::eq(other.claim, claim)).collect();
        let fate = Fate::of(finding);
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}<span class=\"note\">{}</span></th><td class=\"what\">{}</td><td>{}</td><td>{}<span class=\"note\">{}</span></td>\
             <td>{}</td><td class=\"fate\"><i class=\"{}\"></i> {}</td></tr>",
            escaped(&claim.id),
            escaped(&claim.place),
            breakable(&what(finding)),
            escaped(&claimed(finding)),
            escaped(&measured(finding)),
            escaped(&workloads(finding)),
            scale.strip(&all),
            class(fate),
            escaped(&verdict(finding)),
        );
    }
    html.push_str("</tbody></table></div>\n");
    let further = reproduction.findings.iter().filter(|f| f.run && !nearest.iter().any(|n| std::ptr::eq(*n, *f)));
    let further: Vec<_> = further.collect();
    if !further.is_empty() {
        html.push_str("<details><summary>The same on other workloads</summary>");
        let row = |finding: &&Finding<'_>| {
            [finding.claim.id.clone(), claimed(finding), measured(finding), workloads(finding), verdict(finding)]
        };
        plain_table(html, &["claim", "claimed", "measured", "workload", "holds"], further.iter().map(row));
        html.push_str("</details>\n");
    }
    if let Some((heads, rows)) = other_assumptions(reproduction) {
        html.push_str(
            "<details><summary>The same under other assumptions</summary><p class=\"note\">An asterisk: the claim holds in sign; two: in size \
             too.</p>",
        );
        plain_table(html, &heads, rows);
        html.push_str("</details>\n");
    }
    for found in &reproduction.examples {
        let example = found.example;
        let word = if found.evicted == example.evicts { "It does." } else { "It does not." };
        let _ = writeln!(
            html,
            "<p>{} ({}): {}. {word}</p>",
            escaped(&example.id),
            escaped(&example.place),
            escaped(&example.about)
        );
    }
}

/// Why claims fail, each reason with the claims that it explains.
fn reasons(html: &mut String, reproduction: &Reproduction<'_>, nearest: &[&Finding<'_>]) {
    let short = nearest.iter().filter(|finding| !Fate::of(finding).is_good()).count();
    if short == 0 {
        return;
    }
    let _ = write!(html, "<h3>Why {short} of {} do not hold as claimed</h3>\n<dl class=\"reasons\">", nearest.len());
    for (claims, reason) in fate::reasons(reproduction) {
        let _ = write!(html, "<dt>{}</dt><dd>{}</dd>", escaped(&claims), markdown::html(reason));
    }
    html.push_str("</dl>\n");
}

/// The figures that the paper prints, beside ours.
fn printed(html: &mut String, reproduction: &Reproduction<'_>) {
    html.push_str("<h3>Figures that the paper prints</h3>\n<details><summary>Show them</summary>");
    plain_table(html, &VALUE_COLUMNS, values(reproduction));
    html.push_str("</details>\n");
}

/// A table of text, of which the first cell of a row heads it.
fn plain_table<R: IntoIterator<Item = String>>(html: &mut String, heads: &[&str], rows: impl IntoIterator<Item = R>) {
    html.push_str("<div class=\"scroll\" tabindex=\"0\"><table class=\"plain\"><thead><tr>");
    for head in heads {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escaped(head));
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for (i, cell) in row.into_iter().enumerate() {
            let cell = escaped(&cell);
            let _ =
                if i == 0 { write!(html, "<th scope=\"row\">{cell}</th>") } else { write!(html, "<td>{cell}</td>") };
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}

/// The class of its colour.
fn class(fate: Fate) -> &'static str {
    match fate {
        Fate::Size => "size",
        Fate::AsClaimed => "as-claimed",
        Fate::Sign => "sign",
        Fate::Part => "part",
        Fate::Not => "not",
        Fate::Untried => "untried",
    }
}

fn panel_json(figure: &Figure, panel: &Panel<'_>) -> Value {
    let column = |values: &[Option<Estimate>], of: fn(&Estimate) -> f64| -> Value {
        values.iter().map(|value| value.as_ref().map(of)).collect()
    };
    json!({
        "title": figure.title,
        "axis": figure::axis(figure),
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

fn figure_rows(paper: &str, figure: &Figure, panel: &Panel<'_>) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (line, values) in &panel.lines {
        for (step, value) in panel.steps.iter().zip(values) {
            let (workload, at) = match panel.workload {
                Some((workload, _)) => (workload, step.as_str()),
                None => (step.as_str(), ""),
            };
            let float = |of: fn(&Estimate) -> f64| value.as_ref().map_or(Cell::Null, |e| Cell::Float(of(e)));
            rows.push(vec![
                text(paper),
                text(&figure.place),
                text(&figure::axis(figure)),
                text(workload),
                text(at),
                text(line),
                float(|e| e.mean),
                float(|e| e.half_width),
                value.as_ref().map_or(Cell::Null, |e| Cell::Integer(e.samples as u64)),
            ]);
        }
    }
    rows
}

fn claim_row(paper: &str, finding: &Finding<'_>) -> Vec<Cell> {
    let means = finding.measured.iter().map(|(_, e)| e.mean);
    let float = |x: Option<f64>| x.map_or(Cell::Null, Cell::Float);
    let kind = finding.on.first().map_or("", |workload| workload.provenance.label());
    vec![
        text(paper),
        text(&finding.claim.id),
        text(&finding.claim.place),
        text(&what(finding)),
        text(finding.at),
        text(&workloads(finding)),
        text(kind),
        Cell::Float(finding.claim.claimed[0]),
        Cell::Float(finding.claim.claimed[1]),
        float(means.clone().min_by(f64::total_cmp)),
        float(means.max_by(f64::total_cmp)),
        text(&verdict(finding)),
    ]
}
