//! `destage trace mrc`: how many hits a buffer of every size has.

use std::io::Write;

use anyhow::{Result, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use destage_plan::PolicySpec;
use destage_policy::buffer;
use destage_scenario::keys::cache::POLICY;
use destage_scenario::keys::output::PROGRESS;
use destage_scenario::keys::trace::TRACE;
use destage_scenario::quantity::{basis_points, show_bytes, show_count};
use destage_scenario::sim::{self, SIM};
use destage_scenario::{CacheSize, Settings, chosen};
use destage_sim::curve::{self, CurveResult, Estimated, PointResult, PolicyCurveResult, Sampling, Scope};
use destage_sim::measure::ParamValue;

use crate::candidates;
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
    "threads",
    "memory",
];

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
                .default_value("0.1%..100%/16")
                .help("Sizes in data held, shares of the pages that take part, ranges of either, and auto: around where the curve bends"),
        )
        .arg(
            candidates::policy(Arg::new("policy").long("policy").value_name("NAME[:KEY=VALUE...]"))
                .action(ArgAction::Append)
                .value_delimiter(',')
                .default_value("lru")
                .help("Policies; the hits of all but lru are estimated from samples"),
        )
        .arg(
            Arg::new("rate")
                .long("rate")
                .value_name("SHARE")
                .default_value("1.56%")
                .help("Share of the pages in the samples, at least; it is rounded up to a half, a quarter, ..., and small buffers get more"),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .default_value("1")
                .help("Which pages these are"),
        )
        .args(flags::some_args(SIM, SETTINGS))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON; see `destage schema --mrc`"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let sizes = matches.get_many::<String>("sizes").into_iter().flatten();
    let sizes = sizes.map(|text| text.parse().map_err(|right| anyhow!("--sizes {text}: {right}")));
    let sizes = sizes.collect::<Result<Vec<CacheSize>>>()?;
    let policies = matches.get_many::<String>("policy").into_iter().flatten();
    let policies = policies.map(|text| policy(text).map_err(|error| anyhow!("--policy {text}: {error}")));
    let policies = policies.collect::<Result<Vec<_>>>()?;
    let sampling = Sampling {
        strength: strength(matches.get_one::<String>("rate").map_or("", String::as_str))?,
        seed: matches.get_one::<u64>("seed").copied().unwrap_or(1),
    };
    let wanted = Wanted { sizes, policies, sampling };
    let mut curves = Vec::new();
    for file in matches.get_many::<String>("files").into_iter().flatten() {
        curves.push(curve_of(file, matches, &wanted)?);
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

/// What is asked of each trace.
struct Wanted {
    sizes: Vec<CacheSize>,
    policies: Vec<PolicySpec>,
    sampling: Sampling,
}

/// A policy whose hits can be told.
fn policy(text: &str) -> Result<PolicySpec> {
    let spec = buffer::canonical(text.parse()?);
    curve::check(&spec)?;
    Ok(spec)
}

/// Whether LRU's exact curve is that of the policy.
fn is_exact(policy: &PolicySpec) -> bool {
    policy.name == "lru" && policy.given.iter().all(|(key, value)| key == "reads" && value == "cache")
}

/// The least strength of samples whose share is no less than this.
fn strength(rate: &str) -> Result<u32> {
    let share = basis_points(rate).ok().filter(|&share| share > 0);
    let share =
        share.ok_or_else(|| anyhow!("--rate {rate}: a share above 0% and up to 100%, with at most two decimals"))?;
    Ok((10_000 / share).ilog2())
}

/// The curves of one trace.
fn curve_of(file: &str, matches: &ArgMatches, wanted: &Wanted) -> Result<CurveResult> {
    let mut settings = Settings::new(SIM);
    settings.flag(TRACE.name(), vec![file.to_owned()])?;
    for name in SETTINGS {
        if let Some(values) = matches.get_many::<String>(name) {
            settings.flag(name, values.cloned().collect())?;
        }
    }
    settings.flag(POLICY.name(), vec!["lru".to_owned()])?;
    let mut requests = sim::requests(&settings)?;
    let rest: Vec<PolicySpec> = wanted.policies.iter().filter(|policy| !is_exact(policy)).cloned().collect();
    if !rest.is_empty() && !requests.can_be_read_again() {
        bail!(
            "{file}: --policy {}: all but lru take a second pass, and a pipe can be read only once: give a file",
            rest[0]
        );
    }
    destage_scenario::count(&settings, &mut requests, &mut |_, _| ())?;
    let experiment = sim::experiment(&settings, &requests)?;
    let scope = Scope::from(&experiment);
    let bar = Bar::new(PROGRESS.get(&settings)?, file);
    let resources = sim::resources(&settings)?;
    let found = curve::lru(&scope, resources, &mut || requests.open(0), &|progress| bar.show(progress));
    bar.finish();
    let found = found?;
    found.findings.iter().for_each(|finding| screen::warn(&finding.message));
    let page = scope.replay.geometry.page_bytes();
    let wrong = |right: String| anyhow!("{file}: --sizes: {right}");
    let mut sizes = chosen(&wanted.sizes, page, Some(&found)).map_err(wrong)?;
    sizes.sort_unstable();
    if let Some(bytes) = sizes.iter().find(|&&bytes| bytes == 0 || !bytes.is_multiple_of(page)) {
        return Err(wrong(format!("{} is not one or several pages of {}", show_bytes(*bytes), show_bytes(page))));
    }
    let mut estimates = Vec::new();
    if !rest.is_empty() {
        let pages: Vec<u64> = sizes.iter().map(|bytes| bytes / page).collect();
        let asked =
            Estimated { scope: &scope, found: &found, policies: &rest, sizes: &pages, sampling: wanted.sampling };
        let curves = curve::sampled(&asked, resources, &mut || requests.open(1), &|progress| bar.show(progress));
        bar.finish();
        estimates = curves?;
    }
    let mut estimates = estimates.into_iter();
    let curves = wanted.policies.iter().filter_map(|policy| {
        if is_exact(policy) { Some(found.lru_curve(&sizes)) } else { estimates.next().map(|curve| curve.result(page)) }
    });
    Ok(CurveResult::new(&scope, &found, curves.collect()))
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
    let sampled = curve.policies.iter().flat_map(|policy| &policy.points).any(|point| point.samples > 1);
    let about = "Hits in percent of the page accesses";
    screen.paragraph(
        "",
        &if sampled { format!("{about}, ± the 95 % interval of estimates") } else { about.to_owned() },
    )?;
    let policies = curve.policies.iter().map(|policy| Column::number(&name(policy)));
    let keys = [Column::key("size"), Column::number("% of footprint")];
    let mut table = Table::new(keys.into_iter().chain(policies));
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
