//! Holds the modern model to drives that were measured: response times by rate, throughput by skew, and write amplification by
//! fill, as tables and drawings.

mod drawing;
mod measured;
mod runs;

use std::fmt::Write;

use destage_plan::quantity::show_count;
use destage_sim::ssd::Ssd;

use crate::parallel;
use crate::run::{EvidenceError, StepListener};
use drawing::{ChartAxis, ChartLine, ComparisonChart};
use measured::{DRIVES, FIGURES, FILLS, MeasuredDrive, SKEWS};
pub use runs::DriveEffort;
use runs::{ModelRate, amplification, response_times, steady, throughput};

/// Names the drawings, in the order in which a report has them.
pub const DRAWINGS: [&str; 4] = ["drives-pm9a3.svg", "drives-p5520.svg", "drives-skew.svg", "drives-fill.svg"];

/// Bounds the ratio of the model's p50 and p99 to the drive's, and of all figures at saturation.
const TIME_BOUND: f64 = 1.5;
/// Bounds that of p99.9 below saturation.
const TAIL_BOUND: f64 = 2.0;
/// Bounds that of the writes a second which the drive takes in all, and of write amplification.
const RATE_BOUND: f64 = 1.1;
/// Bounds that of throughput under skew.
const SKEW_BOUND: f64 = 1.15;

/// Holds a part of the report.
pub(crate) struct DriveComparison {
    /// As Markdown, which refers to the drawings by their names.
    pub(crate) markdown: String,
    /// Holds the [`DRAWINGS`], which are SVG.
    pub(crate) drawings: Vec<String>,
    /// Lists what is outside of its bound and was not known to be.
    pub(crate) failures: Vec<String>,
}

/// Counts figures that are within their bound.
#[derive(Default)]
struct BoundTally {
    within: usize,
    all: usize,
    known: usize,
    worst: f64,
}

/// Returns the ratio of two figures, 1 or more.
fn ratio(ours: f64, measured: f64) -> f64 {
    (ours / measured).max(measured / ours)
}

impl BoundTally {
    /// Counts a figure, and returns its cell: bold if it is outside of the bound. `known` says whether that was to be expected;
    /// where it was not, `failures` hears of it.
    fn cell(&mut self, shown: String, ratio: f64, bound: f64, known: bool, mut fails: impl FnMut()) -> String {
        self.all += 1;
        self.worst = self.worst.max(ratio);
        if ratio <= bound {
            self.within += 1;
            return shown;
        }
        self.known += usize::from(known);
        if !known {
            fails();
        }
        format!("**{shown}**")
    }

    fn row(&self, drive: &str, what: &str, bound: &str) -> String {
        let Self { within, all, known, worst } = self;
        format!("| {drive} | {what} | {bound} | {within} of {all} | {known} | {worst:.2} |\n")
    }
}

/// Compares drives with what was measured of them.
pub(crate) fn compare(effort: DriveEffort, step: StepListener) -> Result<DriveComparison, EvidenceError> {
    let mut all = DriveComparison { markdown: String::new(), drawings: Vec::new(), failures: Vec::new() };
    let (mut summary, mut parts) = (String::new(), String::new());
    for (own, file) in DRIVES.iter().zip(DRAWINGS) {
        step(&format!("response times of {}", own.name));
        rates(own, file, effort, &mut all, &mut summary, &mut parts)?;
    }
    step("throughput by skew");
    skews(effort, &mut all, &mut summary, &mut parts)?;
    step("write amplification by fill");
    fills(effort, &mut all, &mut summary, &mut parts)?;
    let _ = write!(
        all.markdown,
        "\n## Drives that were measured\n\n\
         The modern model (`ssd.model = modern`, [drives.md](drives.md)) beside two drives of data centres: SSD-iq (Haas, Lee, Bonnet, \
         Leis, PVLDB 2025), 4 KiB, uniform over the whole drive unless said otherwise, in the steady state. A drive of the same kind is \
         simulated that is smaller, which changes neither response times nor write amplification. Each cell has the model's figure and \
         the measured one. A figure outside of its bound is bold; it is *known* where the page says why. In the \
         drawings lines are the model, and dots were measured.\n\n\
         | drive | figure | bound | within | known | worst ratio |\n|---|---|--:|--:|--:|--:|\n{summary}{parts}"
    );
    Ok(all)
}

/// Returns true if the figure with this index is known to be missed at a rate, in writes a second.
fn is_known(own: &MeasuredDrive, figure: usize, writes: f64) -> bool {
    let holds = |(first, last): (f64, f64)| first <= writes && writes <= last;
    own.misses.iter().any(|miss| miss.figures.contains(&figure) && holds(miss.rates))
}

/// Adds the response times of a drive.
fn rates(
    own: &MeasuredDrive,
    file: &str,
    effort: DriveEffort,
    all: &mut DriveComparison,
    summary: &mut String,
    parts: &mut String,
) -> Result<(), EvidenceError> {
    let drive: Ssd = steady(own, effort);
    let found: Vec<ModelRate> =
        parallel::map(&own.rates, |rate| Ok::<_, EvidenceError>(response_times(&drive, rate, effort)))?;
    let gib = (own.pages >> effort.shrunk) as f64 / f64::from(1 << 18);
    let _ = write!(
        parts,
        "\n### {}: response times\n\n\
         `{}`, {gib} GiB of it. Seven threads of at most 64 outstanding; one request every 100 µs from the first, half of them reads, and \
         the others Poisson with 1 % reads. µs, model / measured: of the first thread, in the last row, which is all that the drive \
         takes, of the others.\n\n\
         ![Response times of {} by rate, model and measured]({file})\n\n| writes/s | {} |\n|--:|{}\n",
        own.name,
        own.preset,
        own.name,
        FIGURES.join(" | "),
        "--:|".repeat(FIGURES.len()),
    );
    let mut tallies: [BoundTally; 6] = Default::default();
    let mut most = BoundTally::default();
    for (rate, found) in own.rates.iter().zip(&found) {
        let mut first = show_count(rate.writes as u64);
        if rate.is_saturated {
            let off = ratio(found.writes, rate.writes);
            let shown = format!("{} / {}", show_count(found.writes.round() as u64), first);
            let why = format!("{} takes {:.0} writes/s, and the drive {}", own.name, found.writes, rate.writes);
            first = most.cell(shown, off, RATE_BOUND, false, || all.failures.push(why.clone()));
        }
        let _ = write!(parts, "| {first} ");
        for (figure, tally) in tallies.iter_mut().enumerate() {
            let (ours, measured) = (found.times[figure], rate.times[figure]);
            let bound = if figure % 3 == 2 && !rate.is_saturated { TAIL_BOUND } else { TIME_BOUND };
            let shown = format!("{} / {}", show_count(ours.round() as u64), show_count(measured as u64));
            let why = format!(
                "{}, {} of {} writes/s: {ours:.0} µs, and {measured} measured",
                own.name,
                figure_name(figure),
                rate.writes
            );
            let known = is_known(own, figure, rate.writes) && !rate.is_saturated;
            let cell = tally.cell(shown, ratio(ours, measured), bound, known, || all.failures.push(why.clone()));
            let _ = write!(parts, "| {cell} ");
        }
        parts.push_str("|\n");
    }
    for miss in own.misses {
        let names: Vec<_> = miss.figures.iter().map(|&figure| figure_name(figure)).collect();
        let [first, last] = [miss.rates.0, miss.rates.1].map(|rate| show_count(rate as u64));
        let _ = write!(parts, "\nKnown ({}, {first} to {last} writes/s): {}.\n", names.join(", "), miss.why);
    }
    for (figure, tally) in tallies.iter().enumerate() {
        let bound = if figure % 3 == 2 { "2 (1.5)" } else { "1.5" };
        summary.push_str(&tally.row(own.name, &format!("response times, {}", figure_name(figure)), bound));
    }
    summary.push_str(&most.row(own.name, "writes/s at saturation", "1.1"));
    all.drawings.push(times_chart(own, &found).svg());
    Ok(())
}

/// Names a figure with whose it is.
fn figure_name(figure: usize) -> String {
    // The first of each three has it already.
    let of = if figure < 3 { "read " } else { "write " };
    format!("{of}{}", FIGURES[figure].trim_start_matches(of))
}

/// Returns the chart of a drive's response times.
fn times_chart(own: &MeasuredDrive, found: &[ModelRate]) -> ComparisonChart {
    let line = |figure: usize| ChartLine {
        name: figure_name(figure),
        model: own.rates.iter().zip(found).map(|(rate, found)| (rate.writes / 1e3, found.times[figure])).collect(),
        measured: own.rates.iter().map(|rate| (rate.writes / 1e3, rate.times[figure])).collect(),
    };
    ComparisonChart {
        title: format!("{}: response time by rate", own.name),
        x: ChartAxis { name: "thousand writes a second".to_owned(), labels: Vec::new() },
        y: "µs".to_owned(),
        is_log: true,
        lines: [0, 1, 2, 3, 5].map(line).into(),
    }
}

/// Adds throughput by skew.
fn skews(
    effort: DriveEffort,
    all: &mut DriveComparison,
    summary: &mut String,
    parts: &mut String,
) -> Result<(), EvidenceError> {
    let runs: Vec<_> = DRIVES.iter().flat_map(|own| SKEWS.map(|skew| (own, skew))).collect();
    let found: Vec<f64> = parallel::map(&runs, |&(own, skew)| Ok::<_, EvidenceError>(throughput(own, skew, effort)))?;
    let _ = write!(
        parts,
        "\n### Throughput by skew\n\n\
         Writes alone, as many as the drive takes, MiB/s, model / measured. By Zipf's law pages are scattered over the space; of a share \
         of the space all pages are written alike and the rest never again.\n\n\
         ![Throughput by skew, model and measured](drives-skew.svg)\n\n| drive |{}\n|---|{}\n",
        SKEWS.map(|skew| format!(" {} |", skew.name())).concat(),
        "--:|".repeat(SKEWS.len()),
    );
    let mut lines = Vec::new();
    for (own, found) in DRIVES.iter().zip(found.chunks(SKEWS.len())) {
        let mut tally = BoundTally::default();
        let _ = write!(parts, "| {} ", own.name);
        for (at, (&ours, &measured)) in found.iter().zip(&own.throughput).enumerate() {
            let known = own.missed_skews.iter().any(|(skews, _)| skews.contains(&at));
            let why = format!("{}, {}: {ours:.0} MiB/s, and {measured} measured", own.name, SKEWS[at].name());
            let shown = format!("{ours:.0} / {measured}");
            let cell = tally.cell(shown, ratio(ours, measured), SKEW_BOUND, known, || all.failures.push(why.clone()));
            let _ = write!(parts, "| {cell} ");
        }
        parts.push_str("|\n");
        summary.push_str(&tally.row(own.name, "throughput by skew", "1.15"));
        let points = |values: &[f64]| values.iter().enumerate().map(|(at, &value)| (at as f64, value)).collect();
        lines.push(ChartLine { name: own.name.to_owned(), model: points(found), measured: points(&own.throughput) });
    }
    for own in &DRIVES {
        for (skews, why) in own.missed_skews {
            let names: Vec<_> = skews.iter().map(|&at| SKEWS[at].name()).collect();
            let _ = write!(parts, "\nKnown ({}: {}): {why}.\n", own.name, names.join(", "));
        }
    }
    let chart = ComparisonChart {
        title: "Throughput of writes by skew".to_owned(),
        x: ChartAxis { name: String::new(), labels: SKEWS.map(measured::WriteSkew::name).into() },
        y: "MiB/s".to_owned(),
        is_log: false,
        lines,
    };
    all.drawings.push(chart.svg());
    Ok(())
}

/// Adds write amplification by fill.
fn fills(
    effort: DriveEffort,
    all: &mut DriveComparison,
    summary: &mut String,
    parts: &mut String,
) -> Result<(), EvidenceError> {
    let [own, _] = &DRIVES;
    let found: Vec<f64> = parallel::map(&FILLS, |&(gib, _)| Ok::<_, EvidenceError>(amplification(own, gib, effort)))?;
    let _ = write!(
        parts,
        "\n### Write amplification by fill\n\n\
         Uniform writes to a drive of 1,024 GiB of flash of which so much is used (`{}` with another reserve), beside the counters of a \
         Micron 7450 MAX of 800 GB.\n\n![Write amplification by fill, model and measured](drives-fill.svg)\n\n\
         | GiB used | model | measured | deviation |\n|--:|--:|--:|--:|\n",
        own.preset,
    );
    let mut tally = BoundTally::default();
    for (&ours, &(gib, measured)) in found.iter().zip(&FILLS) {
        let why = format!("{gib} of 1,024 GiB used: write amplification {ours:.2}, and {measured} measured");
        let cell = tally
            .cell(format!("{ours:.2}"), ratio(ours, measured), RATE_BOUND, false, || all.failures.push(why.clone()));
        let _ = writeln!(parts, "| {gib} | {cell} | {measured:.2} | {:+.1} % |", (ours / measured - 1.0) * 100.0);
    }
    summary.push_str(&tally.row("Micron 7450 MAX, 800 GB", "write amplification by fill", "1.1"));
    let points =
        |value: &dyn Fn(usize) -> f64| (0..FILLS.len()).map(|at| (f64::from(FILLS[at].0), value(at))).collect();
    let chart = ComparisonChart {
        title: "Write amplification by fill".to_owned(),
        x: ChartAxis { name: "GiB used of 1,024".to_owned(), labels: Vec::new() },
        y: String::new(),
        is_log: false,
        lines: vec![ChartLine {
            name: "uniform writes".to_owned(),
            model: points(&|at| found[at]),
            measured: points(&|at| FILLS[at].1),
        }],
    };
    all.drawings.push(chart.svg());
    Ok(())
}
