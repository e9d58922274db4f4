//! `destage trace mrc`: how many hits a buffer of every size has.

use std::io::Write;

use anyhow::{Result, anyhow};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use destage_scenario::quantity::{show_bytes, show_count};
use destage_scenario::sim::{self, SIM};
use destage_scenario::{CacheSize, Settings, chosen};
use destage_sim::curve::{self, CurveResult, PolicyCurveResult, Scope};
use destage_sim::measure::ParamValue;

use crate::flags;
use crate::progress::Bar;
use crate::run_table;
use crate::screen::{self, Screen};
use crate::table::{Column, Table};

/// The settings of `destage sim` that decide about hits without a device, or how a trace is read.
const SETTINGS: &[&str] = &[
    "format",
    "lenient",
    "skip",
    "from",
    "to",
    "limit",
    "repeat",
    "volumes",
    "ops",
    "page",
    "pages-per-block",
    "flush",
    "trim",
    "warmup",
    "speed",
    "progress",
    "memory",
];

/// The command.
pub fn command() -> Command {
    Command::new("mrc")
        .about("How many hits a buffer of every size has: miss-ratio curves, the footprint, and where the curve bends")
        .after_help(
            "LRU's hits are exactly those of `destage sim --policy lru` without a device, at all sizes from one pass over the \
             trace.",
        )
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .required(true)
                .num_args(1..)
                .value_hint(ValueHint::FilePath)
                .help("The traces; - for the standard input"),
        )
        .arg(
            Arg::new("sizes")
                .long("sizes")
                .value_name("SIZE|SHARE|RANGE|auto")
                .action(ArgAction::Append)
                .value_delimiter(',')
                .default_value("0.1%..100%/16")
                .help("Sizes in data held, shares of the pages that take part, ranges of either, and auto: around where the curve bends"),
        )
        .args(flags::some_args(SIM, SETTINGS))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON; see `destage schema --mrc`"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let sizes = matches.get_many::<String>("sizes").into_iter().flatten();
    let sizes = sizes.map(|text| text.parse().map_err(|right| anyhow!("--sizes {text}: {right}")));
    let sizes = sizes.collect::<Result<Vec<CacheSize>>>()?;
    let mut curves = Vec::new();
    for file in matches.get_many::<String>("files").into_iter().flatten() {
        curves.push(curve_of(file, matches, &sizes)?);
    }
    if matches.get_flag("json") {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &curves)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut screen = Screen::stdout();
    for (i, curve) in curves.iter().enumerate() {
        if i > 0 {
            writeln!(screen)?;
        }
        show(&mut screen, curve)?;
    }
    Ok(())
}

/// The curve of one trace.
fn curve_of(file: &str, matches: &ArgMatches, sizes: &[CacheSize]) -> Result<CurveResult> {
    let mut settings = Settings::new(SIM);
    settings.flag("trace", vec![file.to_owned()])?;
    for name in SETTINGS {
        if let Some(values) = matches.get_many::<String>(name) {
            settings.flag(name, values.cloned().collect())?;
        }
    }
    settings.flag("policy", vec!["lru".to_owned()])?;
    let mut requests = sim::requests(&settings)?;
    destage_scenario::count(&settings, &mut requests, &mut |_, _| ())?;
    let experiment = sim::experiment(&settings, &requests)?;
    let scope = Scope::from(&experiment);
    let bar = Bar::new(settings.one("progress", destage_scenario::quantity::switch)?);
    let resources = sim::resources(&settings)?;
    let found = curve::lru(&scope, resources, &mut || requests.open(0), &|progress| bar.show(progress));
    bar.finish();
    let found = found?;
    found.findings.iter().for_each(|finding| screen::warn(&finding.message));
    let page = scope.geometry.page_bytes();
    let wrong = |right: String| anyhow!("{file}: --sizes: {right}");
    let mut sizes = chosen(sizes, page, Some(&found)).map_err(wrong)?;
    sizes.sort_unstable();
    if let Some(bytes) = sizes.iter().find(|&&bytes| bytes == 0 || !bytes.is_multiple_of(page)) {
        return Err(wrong(format!("{} is not one or several pages of {}", show_bytes(*bytes), show_bytes(page))));
    }
    let lru = PolicyCurveResult {
        policy: "lru".to_owned(),
        params: vec![ParamValue { name: "reads", value: "cache".to_owned() }],
        points: found.lru_points(&sizes),
    };
    Ok(CurveResult::new(&scope, &experiment.settings, &found, vec![lru]))
}

/// A share in percent.
fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.2}", 100.0 * ratio))
}

fn show(screen: &mut Screen, curve: &CurveResult) -> Result<()> {
    screen.paragraph("", &run_table::trace(&curve.input))?;
    let at = |bytes, ratio| format!("{} ({} % hits)", show_bytes(bytes), percent(ratio));
    let written = show_bytes(curve.footprint_written_bytes);
    let mut rows = vec![
        ("page accesses R, W", format!("{}, {}", show_count(curve.read_pages), show_count(curve.write_pages))),
        ("footprint", format!("{}, of which {written} are written", show_bytes(curve.footprint_bytes))),
    ];
    if curve.warmup_requests > 0 {
        rows.insert(0, ("warm-up", format!("{} requests", show_count(curve.warmup_requests))));
    }
    match curve.knee_bytes {
        Some(knee) => rows.extend([
            ("LRU's curve bends at", at(knee, curve.knee_hit_ratio)),
            ("and ends at", at(curve.full_bytes, curve.full_hit_ratio)),
        ]),
        None => rows.push(("LRU's curve", "no page comes back: no hits at any size".to_owned())),
    }
    screen.pairs(rows)?;
    writeln!(screen)?;
    screen.paragraph("", "Hits in percent of the page accesses")?;
    let policies = curve.policies.iter().map(|policy| Column::number(&policy.policy));
    let keys = [Column::key("size"), Column::number("% of footprint")];
    let mut table = Table::new(keys.into_iter().chain(policies));
    let Some(first) = curve.policies.first() else { return Ok(()) };
    for (i, point) in first.points.iter().enumerate() {
        let of_footprint = point.cache_bytes as f64 / curve.footprint_bytes.max(1) as f64;
        let hits = curve.policies.iter().map(|policy| percent(policy.points[i].hit_ratio));
        let keys = [show_bytes(point.cache_bytes), percent(Some(of_footprint))];
        table.add(keys.into_iter().chain(hits));
    }
    table.print(screen)?;
    Ok(())
}
