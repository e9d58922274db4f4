//! A claim as a strip: what is claimed as a band, what is measured as marks, on one scale for all
//! claims of a paper.

use std::fmt::Write;

use crate::paper::WorkloadProvenance;
use crate::report::{claimed, measured, workloads};
use crate::reproduce::ClaimFinding;

/// Width and height of a strip, in CSS pixels.
const WIDTH: f64 = 260.0;
const HEIGHT: f64 = 22.0;
/// Sets the margin at both ends, in CSS pixels.
const MARGIN: f64 = 10.0;
/// Percent up to which the scale is all but linear; beyond, it is logarithmic.
const LINEAR: f64 = 5.0;
/// Lists the candidate marks of the scale, in percent.
const MARKS: [f64; 9] = [-1000.0, -100.0, -30.0, -10.0, 0.0, 10.0, 30.0, 100.0, 1000.0];

/// The scale of a paper's strips.
#[derive(Clone, Copy, Debug)]
pub(super) struct StripScale {
    from: f64,
    to: f64,
}

/// Linear around zero, logarithmic beyond.
fn bent(percent: f64) -> f64 {
    percent.signum() * (percent.abs() / LINEAR).ln_1p()
}

impl StripScale {
    /// The scale on which all that is claimed and measured has a place, unless it is out of all
    /// proportion.
    pub(super) fn of(findings: &[ClaimFinding<'_>]) -> Self {
        let of_measured = findings.iter().flat_map(|finding| &finding.measured).map(|(_, e)| e.mean);
        let all = findings.iter().filter(|f| !f.claim.sign_only).flat_map(|f| f.claim.claimed).chain(of_measured);
        let (mut from, mut to) = (bent(-20.0), bent(50.0));
        for value in all.map(bent) {
            from = from.min(value);
            to = to.max(value);
        }
        // What is beyond that lies at the end.
        (from, to) = (from.max(bent(-300.0)), to.min(bent(3000.0)));
        Self { from, to }
    }

    fn x(self, percent: f64) -> f64 {
        let share = (bent(percent) - self.from) / (self.to - self.from);
        MARGIN + share.clamp(0.0, 1.0) * (WIDTH - 2.0 * MARGIN)
    }

    /// The marks that are far enough from each other.
    fn marks(self) -> Vec<f64> {
        let mut marks: Vec<f64> = vec![0.0];
        let inside = |mark: &&f64| (self.from..=self.to).contains(&bent(**mark));
        // Zero has its place first, then the round ones.
        for mark in [100.0, -100.0, 1000.0, -1000.0, 10.0, -10.0, 30.0, -30.0].iter().filter(inside) {
            if marks.iter().all(|other| (self.x(*other) - self.x(*mark)).abs() > 30.0) {
                marks.push(*mark);
            }
        }
        MARKS.into_iter().filter(|mark| marks.contains(mark)).collect()
    }

    /// The figures at the head of the strips.
    pub(super) fn head(self) -> String {
        let mut svg = format!(
            "<svg class=\"strip\" width=\"{WIDTH}\" height=\"14\" viewBox=\"0 0 {WIDTH} 14\" aria-hidden=\"true\">"
        );
        for mark in self.marks() {
            let sign = if mark > 0.0 { "+" } else { "" };
            let _ = write!(svg, "<text x=\"{:.1}\" y=\"11\" text-anchor=\"middle\">{sign}{mark}</text>", self.x(mark));
        }
        svg + "</svg>"
    }

    /// A claim and all that was measured of it.
    pub(super) fn strip(self, findings: &[&ClaimFinding<'_>]) -> String {
        let Some(first) = findings.first() else { return String::new() };
        let tried: Vec<_> = findings.iter().filter(|finding| !finding.measured.is_empty()).collect();
        let told = tried.iter().map(|finding| format!("; measured {} on {}", measured(finding), workloads(finding)));
        let words = format!("claimed {}{}", claimed(first), told.collect::<String>());
        let words = destage_report::escaped(&words);
        let mut svg = format!(
            "<svg class=\"strip\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{words}\"><title>{words}</title>"
        );
        for mark in self.marks() {
            let class = if mark.abs() < f64::EPSILON { "zero" } else { "mark" };
            let x = self.x(mark);
            let _ = write!(svg, "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{HEIGHT}\"/>");
        }
        let claim = first.claim;
        let (low, high) = match claim.sign() {
            0 if claim.at_most.is_some() => (0.0, self.x(claim.at_most.unwrap_or_default())),
            0 => (self.x(-claim.likeness()), self.x(claim.likeness())),
            1 if claim.sign_only => (self.x(0.0), WIDTH),
            _ if claim.sign_only => (0.0, self.x(0.0)),
            _ => (
                self.x(claim.claimed[0]).min(self.x(claim.claimed[1])),
                self.x(claim.claimed[0]).max(self.x(claim.claimed[1])),
            ),
        };
        // A single figure is a band too.
        let (low, width) = if high - low < 4.0 { (f64::midpoint(low, high) - 2.0, 4.0) } else { (low, high - low) };
        let class = if claim.sign_only { "claimed sign" } else { "claimed" };
        let _ = write!(svg, "<rect class=\"{class}\" x=\"{low:.1}\" y=\"1\" width=\"{width:.1}\" height=\"20\"/>");
        for (i, finding) in tried.iter().enumerate() {
            let y = HEIGHT * (i as f64 + 1.0) / (tried.len() as f64 + 1.0);
            let kind = finding.on.first().map_or(WorkloadProvenance::Synthetic, |workload| workload.provenance);
            let interval = |low: f64, high: f64| {
                format!("x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"", self.x(low), self.x(high))
            };
            let least = finding.measured.iter().map(|(_, e)| e.interval().0).fold(f64::INFINITY, f64::min);
            let most = finding.measured.iter().map(|(_, e)| e.interval().1).fold(f64::NEG_INFINITY, f64::max);
            let _ = write!(svg, "<line class=\"range\" {}/>", interval(least, most));
            for (_, e) in &finding.measured {
                let _ = write!(svg, "<path class=\"{}\" d=\"{}\"/>", class_of(kind), shape(kind, self.x(e.mean), y));
            }
        }
        svg + "</svg>"
    }
}

/// The class of the marks of a kind of workload.
pub(super) fn class_of(kind: WorkloadProvenance) -> &'static str {
    match kind {
        WorkloadProvenance::Original => "original",
        WorkloadProvenance::Synthetic => "synthetic",
        WorkloadProvenance::StandIn => "stand-in",
        WorkloadProvenance::Real => "real",
        WorkloadProvenance::Recording => "recording",
    }
}

/// A mark's outline, which tells the kinds apart without colours.
fn shape(kind: WorkloadProvenance, x: f64, y: f64) -> String {
    let points: &[(f64, f64)] = match kind {
        // A star of four points, an octagon for a circle, a square, a triangle and a diamond.
        WorkloadProvenance::Original => {
            &[(0.0, -5.0), (1.3, -1.3), (5.0, 0.0), (1.3, 1.3), (0.0, 5.0), (-1.3, 1.3), (-5.0, 0.0), (-1.3, -1.3)]
        }
        WorkloadProvenance::Synthetic => {
            &[(1.4, -3.4), (3.4, -1.4), (3.4, 1.4), (1.4, 3.4), (-1.4, 3.4), (-3.4, 1.4), (-3.4, -1.4), (-1.4, -3.4)]
        }
        WorkloadProvenance::StandIn => &[(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)],
        WorkloadProvenance::Real => &[(0.0, -3.8), (3.6, 2.8), (-3.6, 2.8)],
        WorkloadProvenance::Recording => &[(0.0, -4.2), (3.6, 0.0), (0.0, 4.2), (-3.6, 0.0)],
    };
    let mut path = String::new();
    for (i, (dx, dy)) in points.iter().enumerate() {
        let _ = write!(path, "{}{:.1},{:.1}", if i == 0 { 'M' } else { 'L' }, x + dx, y + dy);
    }
    path + "Z"
}

/// The marks of the kinds that are there, for a legend.
pub(super) fn key(kinds: impl Iterator<Item = WorkloadProvenance>) -> String {
    let each = kinds.map(|kind| {
        format!(
            "<span><svg class=\"strip\" width=\"14\" height=\"12\" viewBox=\"0 0 14 12\" aria-hidden=\"true\"><path class=\"{}\" d=\"{}\"/></svg> {}</span>",
            class_of(kind),
            shape(kind, 7.0, 6.0),
            kind.label()
        )
    });
    each.collect()
}
