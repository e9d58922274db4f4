//! `destage trace mrc`: how many hits a buffer of every size has.

use std::io::Write;

use anyhow::{Result, anyhow};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use destage_policy::buffer;
use destage_scenario::ScenarioSettings;
use destage_scenario::keys::output::PROGRESS;
use destage_scenario::keys::trace::TRACE;
use destage_scenario::mrc::{
    DEFAULT_POLICY, DEFAULT_RATE, DEFAULT_SEED, DEFAULT_SIZES, MRC_SETTINGS, MrcError, MrcQuery,
};
use destage_scenario::quantity::{show_bytes, show_count};
use destage_scenario::sim::{self, SIM};
use destage_sim::curve::{CurveResult, PassFindings, PointResult, PolicyCurveResult};
use destage_sim::measure::ParamValue;

use crate::candidates;
use crate::flags;
use crate::progress::TraceBar;
use crate::run_table;
use crate::screen::{self, TerminalScreen};
use crate::table::{TextColumn, TextTable};

/// The command.
pub fn command() -> Command {
    Command::new("mrc")
        .about("How many hits a buffer of every size has: miss-ratio curves, the footprint, and where the curve bends")
        .after_help(
            "LRU's hits are exactly those of `destage sim --policy lru` without a device, at all sizes from one pass over the \
             trace. Other policies are simulated on samples of the pages, with an interval of 95 % (docs/sizes.md).",
        )
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .required(true)
                .num_args(1..)
                .value_parser(candidates::path())
                .value_hint(ValueHint::FilePath)
                .help("The traces; - for the standard input"),
        )
        .arg(
            Arg::new("sizes")
                .long("sizes")
                .value_name("SIZE|SHARE|RANGE|auto")
                .action(ArgAction::Append)
                .value_delimiter(',')
                .default_value(DEFAULT_SIZES)
                .help("Sizes in data held, shares of the pages that take part, ranges of either, and auto: around where the curve bends"),
        )
        .arg(
            candidates::policy(Arg::new("policy").long("policy").value_name("NAME[:KEY=VALUE...]"))
                .action(ArgAction::Append)
                .value_delimiter(',')
                .default_value(DEFAULT_POLICY)
                .help("Policies; the hits of all but lru are estimated from samples"),
        )
        .arg(
            Arg::new("rate")
                .long("rate")
                .value_name("SHARE")
                .default_value(DEFAULT_RATE)
                .help("Share of the pages in the samples, at least; it is rounded up to a half, a quarter, ..., and small buffers get more"),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .default_value(DEFAULT_SEED.to_string())
                .help("Which pages these are"),
        )
        .args(flags::some_args(SIM, MRC_SETTINGS))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON; see `destage schema --mrc`"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let many = |name| matches.get_many::<String>(name).into_iter().flatten();
    let rate = matches.get_one::<String>("rate").map_or(DEFAULT_RATE, String::as_str);
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(DEFAULT_SEED);
    let query = MrcQuery::new(many("sizes"), many("policy"), rate, seed).map_err(as_flag)?;
    let mut curves = Vec::new();
    for file in matches.get_many::<String>("files").into_iter().flatten() {
        curves.push(curve_of(file, matches, &query)?);
    }
    if matches.get_flag("json") {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &curves)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut screen = TerminalScreen::stdout();
    for (i, curve) in curves.iter().enumerate() {
        if i > 0 {
            writeln!(screen)?;
        }
        show(&mut screen, curve)?;
    }
    Ok(())
}

/// Returns an error that names arguments as they are given here.
fn as_flag(error: MrcError) -> anyhow::Error {
    match error {
        MrcError::Argument(wrong) => anyhow!(wrong.named("--")),
        other => other.into(),
    }
}

/// Finds the curves of one trace.
fn curve_of(file: &str, matches: &ArgMatches, query: &MrcQuery) -> Result<CurveResult> {
    let mut settings = ScenarioSettings::new(SIM);
    settings.flag(TRACE.name(), vec![file.to_owned()])?;
    for name in MRC_SETTINGS {
        if let Some(values) = matches.get_many::<String>(name) {
            settings.flag(name, values.cloned().collect())?;
        }
    }
    let requests = sim::requests(&settings)?;
    let bar = TraceBar::new(PROGRESS.get(&settings)?, file);
    let mut tell = |found: &PassFindings| {
        bar.finish();
        found.findings.iter().for_each(|finding| screen::warn(&finding.message));
    };
    let curves = query.curves(settings, requests, &mut tell, &|progress| bar.show(progress));
    bar.finish();
    curves.map_err(|error| match error {
        MrcError::Argument(_) => anyhow!("{file}: {}", as_flag(error)),
        other => other.into(),
    })
}

/// A share in percent.
fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.2}", 100.0 * ratio))
}

/// The hits at a point, with the interval of an estimate.
fn hits(point: &PointResult) -> String {
    let hits = percent(point.hit_ratio);
    if point.samples > 1 { format!("{hits} ±{:.2}", 100.0 * point.half_width) } else { hits }
}

/// The policy, and the parameters that are not at their defaults.
fn name(curve: &PolicyCurveResult) -> String {
    let declared = buffer::info(&curve.policy).map_or(&[][..], |info| info.params);
    let is_default = |given: &ParamValue| declared.iter().any(|p| p.name == given.name && p.default == given.value);
    let changed = curve.params.iter().filter(|given| !is_default(given));
    changed.fold(curve.policy.clone(), |name, given| format!("{name}:{}={}", given.name, given.value))
}

fn show(screen: &mut TerminalScreen, curve: &CurveResult) -> Result<()> {
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
    let sampled = curve.policies.iter().flat_map(|policy| &policy.points).any(|point| point.samples > 1);
    let about = "Hits in percent of the page accesses";
    screen.paragraph(
        "",
        &if sampled { format!("{about}, ± the 95 % interval of estimates") } else { about.to_owned() },
    )?;
    let policies = curve.policies.iter().map(|policy| TextColumn::number(&name(policy)));
    let keys = [TextColumn::key("size"), TextColumn::number("% of footprint")];
    let mut table = TextTable::new(keys.into_iter().chain(policies));
    let Some(first) = curve.policies.first() else { return Ok(()) };
    for (i, point) in first.points.iter().enumerate() {
        let of_footprint = point.cache_bytes as f64 / curve.footprint_bytes.max(1) as f64;
        let hits = curve.policies.iter().map(|policy| hits(&policy.points[i]));
        let keys = [show_bytes(point.cache_bytes), percent(Some(of_footprint))];
        table.add(keys.into_iter().chain(hits));
    }
    table.print(screen)?;
    Ok(())
}
