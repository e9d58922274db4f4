//! A paper's claims as HTML: each with its strip, on other workloads and under other assumptions,
//! and why some do not hold.

use std::fmt::Write;

use destage_report::{breakable, escaped};

use super::markdown;
use super::strip::{self, StripScale};
use crate::grade::ClaimGrade;
use crate::paper::{PaperClaim, WorkloadProvenance};
use crate::reasons;
use crate::report::{
    VALUE_COLUMNS, by_policy, claimed, measured, other_assumptions, values, verdict, what, with_others, workloads,
};
use crate::reproduce::{ClaimFinding, ExampleFinding, PaperReproduction};
use crate::score::counted;

/// Every claim with its strip.
pub(super) fn claims(html: &mut String, reproduction: &PaperReproduction<'_>, nearest: &[&ClaimFinding<'_>]) {
    let paper = reproduction.paper;
    let scale = StripScale::of(&reproduction.findings);
    let name = escaped(&paper.name);
    let kinds = WorkloadProvenance::ALL.into_iter().filter(|&kind| {
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
         <th scope=\"col\">claim</th><th scope=\"col\">holds</th><th scope=\"col\">what</th><th scope=\"col\">claimed</th>\
         <th scope=\"col\">measured</th><th scope=\"col\">{}</th></tr></thead><tbody>\n",
        strip::key(kinds),
        scale.head()
    );
    for finding in nearest {
        let claim = finding.claim;
        let all: Vec<_> = reproduction.findings.iter().filter(|other| std::ptr::eq(other.claim, claim)).collect();
        let grade = class(finding.grade());
        let _ = writeln!(
            html,
            "<tr class=\"{grade}\"><th scope=\"row\">{}<span class=\"note\">{}</span></th>\
             <td class=\"grade\"><i class=\"{grade}\"></i> {}</td><td class=\"what\">{}</td>\
             <td class=\"pair\" data-head=\"claimed\">{}</td><td class=\"pair\" data-head=\"measured\"><strong>{}</strong>\
             <span class=\"note\">{}</span></td><td>{}</td></tr>",
            escaped(&claim.id),
            escaped(&place_of(claim)),
            escaped(&verdict(finding)),
            breakable(&what(finding)),
            escaped(&claimed(finding)),
            escaped(&measured(finding)),
            escaped(&workloads(finding)),
            scale.strip(&all),
        );
    }
    html.push_str("</tbody></table></div>\n");
    let further = reproduction.findings.iter().filter(|f| f.run && !nearest.iter().any(|n| std::ptr::eq(*n, *f)));
    let further: Vec<_> = further.collect();
    if !further.is_empty() {
        html.push_str("<details><summary>The same on other workloads</summary>");
        let row = |finding: &&ClaimFinding<'_>| {
            [finding.claim.id.clone(), claimed(finding), measured(finding), workloads(finding), verdict(finding)]
        };
        plain_table(html, &["claim", "claimed", "measured", "workload", "holds"], further.iter().map(row));
        html.push_str("</details>\n");
    }
    if let Some((heads, rows)) = other_assumptions(reproduction) {
        html.push_str(
            "<details><summary>The same under other assumptions</summary><p class=\"note\">An asterisk: the claim holds in sign; two: within a factor \
             of two, or as alike.</p>",
        );
        plain_table(html, &heads, rows);
        html.push_str("</details>\n");
    }
    if !reproduction.examples.is_empty() {
        html.push_str("<h4>Worked examples</h4>");
        let row = |found: &ExampleFinding<'_>| {
            let example = found.example;
            let holds = if found.holds() { "yes" } else { "no" };
            let about = format!("{}: {}", example.policy, example.about);
            [example.id.clone(), example.place.clone(), about, found.expected(), found.found(), holds.to_owned()]
        };
        let heads = ["example", "where", "what", "in the paper", "here", "holds"];
        plain_table(html, &heads, reproduction.examples.iter().map(row));
    }
}

/// Says where the paper makes a claim, and of which claim it is another reading or a part.
fn place_of(claim: &PaperClaim) -> String {
    let of = match (&claim.reading_of, &claim.part_of) {
        (Some(main), _) => format!("; another reading of {main}"),
        (None, Some(whole)) => format!("; a part of {whole}"),
        (None, None) => String::new(),
    };
    format!("{}{of}", claim.place)
}

/// Why claims fail, each reason with the claims that it explains.
pub(super) fn reasons(html: &mut String, reproduction: &PaperReproduction<'_>, nearest: &[&ClaimFinding<'_>]) {
    let short = nearest.iter().filter(|finding| !finding.grade().is_whole()).count();
    if short == 0 {
        return;
    }
    let of_paper = counted(nearest);
    let (counted, whole) = (of_paper.len(), of_paper.iter().filter(|(_, grade)| grade.is_whole()).count());
    let _ = write!(
        html,
        "<h3 id=\"reasons-{}\">Why {} of {counted} do not hold as claimed</h3>\n<dl class=\"reasons\">",
        escaped(&reproduction.paper.name),
        counted - whole
    );
    for (claims, reason) in reasons::reasons(reproduction) {
        let _ = write!(html, "<dt>{}</dt><dd>{}</dd>", escaped(&claims), markdown::html(&reason));
    }
    html.push_str("</dl>\n");
}

/// The figures that the paper prints, beside ours.
pub(super) fn printed(html: &mut String, reproduction: &PaperReproduction<'_>) {
    html.push_str("<h3>Figures that the paper prints</h3>\n<details><summary>Show them</summary>");
    plain_table(html, &VALUE_COLUMNS, values(reproduction));
    html.push_str("</details>\n");
}

/// Ours and what others were counted to do, a table for each workload and variant.
pub(super) fn others(html: &mut String, reproduction: &PaperReproduction<'_>) {
    for (number, (workload, variant)) in with_others(reproduction).enumerate() {
        if number == 0 {
            let name = escaped(&reproduction.paper.name);
            let _ = writeln!(html, "<h3 id=\"others-{name}\">Beside what others were counted to do</h3>");
        }
        let at = if variant.is_empty() { String::new() } else { format!(", {variant}") };
        let _ = writeln!(html, "<h4>{}{}</h4>", escaped(&reproduction.paper.workload[workload].name), escaped(&at));
        let (heads, rows) = by_policy(reproduction, workload, variant);
        plain_table(html, &heads, rows);
    }
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

/// Returns the class of its colour.
pub(super) const fn class(grade: ClaimGrade) -> &'static str {
    match grade {
        ClaimGrade::Size => "size",
        ClaimGrade::Double => "double",
        ClaimGrade::Claimed => "as-claimed",
        ClaimGrade::Alike => "alike",
        ClaimGrade::Sign => "sign",
        ClaimGrade::Part => "part",
        ClaimGrade::Undecided => "undecided",
        ClaimGrade::Not => "not",
        ClaimGrade::Untried => "untried",
    }
}
