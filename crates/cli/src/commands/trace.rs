//! `destage trace`: look at traces, convert them, make them up.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use destage_plan::PageGeometry;
use destage_report::TraceDescription;
use destage_report::figures::ValueFormat;
use destage_report::results::quote;
use destage_scenario::path_text;
use destage_scenario::quantity::{self as q, show_count};
use destage_scenario::synth::{self, SYNTH};
use destage_scenario::workload::{self, NamedWorkload};
use destage_trace::{
    EXPORTS, ExportSpec, FORMATS, FormatId, FormatSpec, LATENCY_UNKNOWN, LOCALITY_LISTS, LocalityOf, LocalitySummary,
    NATIVE_DEFAULT_LEVEL, Nanos, OpenOptions, Request, SynthTrace, TraceRequests, TraceSource, TraceSummary,
};

use super::{export, find, mrc, record};
use crate::candidates;
use crate::flags;
use crate::output::CommandOutputs;
use crate::screen::{self, TerminalScreen};
use crate::table::{TextColumn, TextTable};

fn file_arg(name: &'static str) -> Arg {
    Arg::new(name).value_name("FILE").required(true).value_parser(candidates::path()).value_hint(ValueHint::FilePath)
}

fn input_args() -> [Arg; 2] {
    [
        candidates::format(Arg::new("format").long("format").value_name("FORMAT"))
            .help("Format where the content does not decide"),
        Arg::new("lenient").long("lenient").action(ArgAction::SetTrue).help("Leave out and count unreadable lines"),
    ]
}

pub(super) fn level_arg() -> Arg {
    Arg::new("level")
        .long("level")
        .value_name("LEVEL")
        .value_parser(value_parser!(i32).range(1..=22))
        .help(format!("Compression level, 1 to 22 [default: {NATIVE_DEFAULT_LEVEL}]"))
}

/// The command.
pub fn command() -> Command {
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON");
    Command::new("trace")
        .visible_alias("traces")
        .about("Record block traces, look at them, convert them, make them up")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("stat")
                .about("The columns of the papers' workload tables")
                .arg(file_arg("files").num_args(1..))
                .args(input_args())
                .arg(Arg::new("page").long("page").value_name("SIZE").default_value("4KiB").help("Page size"))
                .arg(
                    Arg::new("locality")
                        .long("locality")
                        .value_name("writes|reads|both")
                        .value_parser(["writes", "reads", "both"])
                        .num_args(0..=1)
                        .require_equals(true)
                        .default_missing_value("writes")
                        .help("Also reuse distances, and how blocks of 64 pages are filled; of writes unless told otherwise"),
                )
                .arg(json),
        )
        .subcommand(
            Command::new("convert")
                .about("Write a trace in the native format, which is read fastest, or in one that other tools read")
                .arg(file_arg("from").value_name("FROM").help("The trace; - for the standard input"))
                .arg(file_arg("to").value_name("TO").help("The new file; - for the standard output"))
                .args(input_args())
                .arg(
                    candidates::export(Arg::new("as").long("to").value_name("FORMAT"))
                        .default_value("native")
                        .help("Format of the new file; --help lists them, with what they cannot hold")
                        .long_help(export::help()),
                )
                .arg(level_arg()),
        )
        .subcommand(
            Command::new("head")
                .about("Print the first requests, as CSV")
                .arg(file_arg("file"))
                .arg(
                    Arg::new("limit")
                        .short('n')
                        .long("limit")
                        .alias("count")
                        .value_name("REQUESTS")
                        .value_parser(value_parser!(u64))
                        .default_value("10")
                        .help("How many"),
                )
                .args(input_args()),
        )
        .subcommand(
            Command::new("synth")
                .about("Make up a trace: the same settings give the same bytes on any machine")
                .arg(file_arg("to").value_name("TO").help("The new file; - for the standard output"))
                .args(flags::args(SYNTH)),
        )
        .subcommand(
            Command::new("workloads")
                .about("List the built-in workloads of `synth` and `sim`, or say where one comes from")
                .arg(
                    candidates::workload(Arg::new("name").value_name("NAME|FILE"))
                        .help("Describe this one, with what is assumed"),
                ),
        )
        .subcommand(mrc::command())
        .subcommand(find::command())
        .subcommand(record::command())
        .subcommand(Command::new("formats").about("List the formats that can be read and written"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    match matches.subcommand() {
        Some(("stat", matches)) => stat(matches),
        Some(("convert", matches)) => convert(matches),
        Some(("head", matches)) => head(matches),
        Some(("synth", matches)) => make_up(matches),
        Some(("mrc", matches)) => mrc::run(matches),
        Some(("find", matches)) => find::run(matches),
        Some(("record", matches)) => record::run(matches),
        Some(("workloads", matches)) => workloads(matches),
        Some(("formats", _)) => formats(),
        _ => unreachable!("clap asks for a subcommand"),
    }
}

/// Opens the trace whose name has this text.
fn open(file: &str, matches: &ArgMatches) -> Result<TraceRequests> {
    let format = matches.get_one::<String>("format").map(|text| text.parse::<FormatSpec>());
    let format = format.transpose().map_err(|error| anyhow::anyhow!("--format: {error}"))?;
    Ok(destage_trace::open(path_text::path(file), &OpenOptions { format, lenient: matches.get_flag("lenient") })?)
}

/// Says what a lenient reader left out.
fn warn_of_skipped(source: &dyn TraceSource) {
    let skipped = source.skipped();
    if skipped.count > 0 {
        let first = skipped.first.unwrap_or_default();
        screen::warn(format_args!("{} lines or records were skipped; the first: {first}", skipped.count));
    }
}

/// Says that the clock of a trace wrapped.
fn warn_of_clock(source: &dyn TraceSource) {
    let wraps = source.clock_wraps();
    if wraps.count > 0 {
        screen::warn(format_args!("{wraps}; so much was added to the times of what follows"));
    }
}

fn stat(matches: &ArgMatches) -> Result<()> {
    let page = matches.get_one::<String>("page").map_or("4KiB", String::as_str);
    let page = q::bytes(page).map_err(|right| anyhow::anyhow!("--page {page}: {right}"))?;
    let geometry = PageGeometry::new(page, 64).context("--page")?;
    let of = matches.get_one::<String>("locality").map(|of| match of.as_str() {
        "reads" => LocalityOf::Reads,
        "both" => LocalityOf::Both,
        // Clap lets only three words through, so this one is `writes`.
        _ => LocalityOf::Writes,
    });
    let (mut rows, mut read_as) = (Vec::new(), Vec::new());
    for file in matches.get_many::<String>("files").into_iter().flatten() {
        let mut trace = open(file, matches)?;
        read_as.push(columns_of(trace.format_spec()));
        rows.push(TraceDescription::of(file, trace.format().name(), &mut trace, geometry, of)?);
        warn_of_skipped(&trace);
        warn_of_clock(&trace);
        if trace.passed_over() > 0 {
            screen::warn(format_args!("{} rows passed over that are no requests", show_count(trace.passed_over())));
        }
    }
    if matches.get_flag("json") {
        let mut out = std::io::stdout().lock();
        let rows: Vec<_> = rows.iter().map(TraceDescription::as_json).collect();
        serde_json::to_writer_pretty(&mut out, &rows)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut screen = TerminalScreen::stdout();
    for (i, described) in rows.iter().enumerate() {
        let TraceDescription { file, format, summary, latencies, locality, .. } = described;
        if i > 0 {
            writeln!(screen)?;
        }
        screen.paragraph("", &format!("{file} ({format})"))?;
        if !read_as[i].is_empty() {
            screen.paragraph("  ", &format!("read as {}", read_as[i]))?;
        }
        screen.pairs(summary_rows(summary))?;
        if let Some(l) = latencies {
            let times = [l.mean, l.p50 as f64, l.p99 as f64, l.p99_9 as f64, l.max as f64].map(q::show_time);
            let known = ("requests with a latency", show_count(l.count));
            screen.pairs([("latency mean, p50, p99, p99.9, max", times.join(", ")), known])?;
        }
        show_volumes(&mut screen, described)?;
        if let Some(locality) = locality {
            show_locality(&mut screen, locality)?;
        }
    }
    Ok(())
}

/// Returns what the columns of a table are taken for, in what units: one in other units may look like one of a format. Of what
/// is no table, nothing.
fn columns_of(format: &FormatSpec) -> String {
    let columns = format.id().info().columns;
    let described = format.to_string();
    if columns.is_empty() || described == format.id().name() { columns.to_owned() } else { described }
}

/// Volumes that a table shows; JSON has all.
const MOST_VOLUMES: usize = 20;

/// Shows the requests of each volume, where there are several.
fn show_volumes(screen: &mut TerminalScreen, described: &TraceDescription) -> Result<()> {
    let volumes = &described.volumes;
    if volumes.len() < 2 {
        return Ok(());
    }
    let numbers = ["number", "reads", "writes", "read", "written", "traffic %"];
    let mut table = TextTable::new([TextColumn::name("volume")].into_iter().chain(numbers.map(TextColumn::number)));
    for (name, of) in volumes.iter().take(MOST_VOLUMES) {
        let [read, written] = [of.read_bytes, of.write_bytes].map(|bytes| ValueFormat::Bytes.text(bytes as f64, 1));
        let share =
            described.traffic_share(of).map_or_else(|| "-".to_owned(), |share| ValueFormat::Percent.text(share, 2));
        let counts = [u64::from(of.volume), of.reads, of.writes].map(show_count);
        table.add([name.clone()].into_iter().chain(counts).chain([read, written, share]));
    }
    writeln!(screen)?;
    table.print(screen)?;
    if let Some(more @ 1..) = volumes.len().checked_sub(MOST_VOLUMES) {
        screen.paragraph("", &format!("{} volumes more with less traffic; --json has all", show_count(more as u64)))?;
    }
    Ok(())
}

/// The tables of a trace's locality.
fn show_locality(screen: &mut TerminalScreen, locality: &LocalitySummary) -> Result<()> {
    let percent = |share: f64| format!("{share:.1}");
    writeln!(screen)?;
    screen.paragraph("", "Hits of an LRU list of this many pages, or blocks of 64 pages, in percent of the touches")?;
    let columns = [TextColumn::key("list of"), TextColumn::number("pages"), TextColumn::number("blocks")];
    let mut table = TextTable::new(columns);
    let (pages, blocks) = (&locality.pages, &locality.blocks);
    for k in 0..pages.distances.len().max(blocks.distances.len()) {
        table.add([show_count(1 << k), percent(pages.hit_percent(k)), percent(blocks.hit_percent(k))]);
    }
    table.print(screen)?;
    let touches = format!("{} in {}", show_count(pages.touches), show_count(pages.first));
    let block_touches = format!("{} in {}", show_count(blocks.touches), show_count(blocks.first));
    screen.pairs([("touches in different pages", touches), ("touches in different blocks", block_touches)])?;
    if locality.long_requests > 0 {
        screen.pairs([("too long, left out", show_count(locality.long_requests))])?;
    }
    writeln!(screen)?;
    let about = "What is touched of a block while it is in an LRU list of this many blocks: times in the list, mean pages \
                 and requests, and percent of the times by pages";
    screen.paragraph("", about)?;
    let numbers = ["times", "pages", "requests", "1", "2", "3-4", "5-8", "9-16", "17-32", "33-63", "64"];
    let mut table = TextTable::new([TextColumn::key("list of")].into_iter().chain(numbers.map(TextColumn::number)));
    for (&list, fill) in LOCALITY_LISTS.iter().zip(&locality.fills) {
        let means = [format!("{:.2}", fill.mean_pages()), format!("{:.2}", fill.mean_touches())];
        let counts = [show_count(u64::from(list)), show_count(fill.stays)];
        table.add(counts.into_iter().chain(means).chain(fill.class_percent().map(percent)));
    }
    table.print(screen)?;
    Ok(())
}

/// Names, values and explanations of a summary's rows.
fn summary_rows(s: &TraceSummary) -> Vec<(&'static str, String)> {
    let sizes = s.write_size_percent();
    vec![
        ("requests", show_count(s.requests)),
        (
            "reads, writes",
            format!("{}, {} ({:.2} % reads)", show_count(s.reads), show_count(s.writes), s.read_percent()),
        ),
        (
            "flushes, FUA, discards",
            format!("{}, {}, {}", show_count(s.flushes), show_count(s.fua), show_count(s.discards)),
        ),
        (
            "zero length, off sector, off page",
            format!(
                "{}, {}, {}",
                show_count(s.zero_length),
                show_count(s.sector_misaligned),
                show_count(s.page_misaligned)
            ),
        ),
        ("page size", format!("{} B", s.page_bytes)),
        ("page touches R, W", format!("{}, {}", show_count(s.read_page_touches), show_count(s.write_page_touches))),
        (
            "unique pages T, R, W",
            format!(
                "{}, {}, {}",
                show_count(s.unique_pages),
                show_count(s.unique_pages_read),
                show_count(s.unique_pages_written)
            ),
        ),
        ("mean KiB R, W", format!("{:.2}, {:.2}", s.mean_read_kib(), s.mean_write_kib())),
        ("duration", format!("{:.3} s", s.duration.as_secs_f64())),
        ("mean interval", q::show_time(s.mean_inter_arrival_ns())),
        (
            "write sizes \u{2264}4, 4\u{2013}16, 16\u{2013}64, >64 KiB",
            format!("{:.1}, {:.1}, {:.1}, {:.1} %", sizes[0], sizes[1], sizes[2], sizes[3]),
        ),
        ("sequential", format!("{:.2} %", s.sequential_percent())),
        ("volumes", show_count(s.volumes)),
        ("footprint", format!("{:.1} MiB", s.footprint_bytes() as f64 / f64::from(1 << 20))),
        ("end of the highest request", format!("{} B", show_count(s.max_address))),
        ("earlier than one before", out_of_order(s)),
    ]
}

/// Tells how many requests are earlier than one before them, and by how much.
fn out_of_order(s: &TraceSummary) -> String {
    let count = show_count(s.time_reversals);
    match s.longest_reversal {
        Nanos::ZERO => count,
        most => format!("{count}, by up to {}", q::show_time(most.0 as f64)),
    }
}

/// Writes all of `source`, which messages call `from`, to `to`; returns the number of requests.
fn write_native(
    source: &mut dyn TraceSource,
    from: &str,
    outputs: &mut CommandOutputs,
    to: &Path,
    level: i32,
) -> Result<u64> {
    let copied = destage_trace::copy_native(source, outputs.file(to)?, level);
    let (file, requests) = copied.map_err(export::failed(from, to))?;
    outputs.commit([file])?;
    Ok(requests)
}

fn convert(matches: &ArgMatches) -> Result<()> {
    let argument = |name| matches.get_one::<String>(name).map_or("", String::as_str);
    let (from, to) = (argument("from"), path_text::path(argument("to")));
    let format = argument("as");
    let spec = if FormatId::Native.is_called(format) {
        None
    } else {
        Some(format.parse::<ExportSpec>().map_err(|error| anyhow::anyhow!("--to: {error}"))?)
    };
    let level = matches.get_one::<i32>("level").copied();
    if let (Some(spec), Some(_)) = (&spec, level) {
        bail!("--level: only the native format is compressed; leave it out with --to {spec}");
    }
    // The result must not take the place of the trace that it is made of, which may hold more.
    let mut outputs = CommandOutputs::apart_from(destage_trace::files(path_text::path(from)))?;
    let mut trace = open(from, matches)?;
    if let Some(spec) = spec {
        export::write(&mut trace, from, &spec, &mut outputs, &to)?;
    } else {
        let requests = write_native(&mut trace, from, &mut outputs, &to, level.unwrap_or(NATIVE_DEFAULT_LEVEL))?;
        report_written(&to, requests);
    }
    warn_of_skipped(&trace);
    Ok(())
}

fn report_written(to: &Path, requests: u64) {
    let bytes = std::fs::metadata(to).map(|meta| format!(", {} bytes", show_count(meta.len()))).unwrap_or_default();
    eprintln!("wrote {}: {} requests{bytes}", to.display(), show_count(requests));
}

fn head(matches: &ArgMatches) -> Result<()> {
    let file = matches.get_one::<String>("file").map_or("", String::as_str);
    let mut left = matches.get_one::<u64>("limit").copied().unwrap_or(10);
    let mut trace = open(file, matches)?;
    // Standard output is buffered by lines, which costs a system call for each request.
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut batch: Vec<Request> = Vec::new();
    let mut latencies: Vec<Nanos> = Vec::new();
    // Whether there is a column of latencies is decided by the first batch.
    let mut with_latencies = None;
    loop {
        trace.next_batch(&mut batch)?;
        let have = trace.latencies(&mut latencies)?;
        if with_latencies.is_none() {
            with_latencies = Some(have);
            writeln!(out, "time_ns,op,fua,volume,offset,bytes{}", if have { ",latency_ns" } else { "" })?;
        }
        if batch.is_empty() || left == 0 {
            break;
        }
        for (i, r) in batch.iter().enumerate().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            let volume = trace.volume_names().get(r.volume as usize);
            let volume = volume.map_or_else(|| r.volume.to_string(), |name| quote(name));
            write!(out, "{},{},{},{volume},{},{}", r.time.0, r.op, u8::from(r.fua), r.offset, r.len)?;
            match latencies.get(i).filter(|&&latency| latency != LATENCY_UNKNOWN) {
                Some(latency) if with_latencies == Some(true) => writeln!(out, ",{}", latency.0)?,
                _ if with_latencies == Some(true) => writeln!(out, ",")?,
                _ => writeln!(out)?,
            }
        }
        left = left.saturating_sub(batch.len() as u64);
    }
    out.flush()?;
    warn_of_skipped(&trace);
    Ok(())
}

fn make_up(matches: &ArgMatches) -> Result<()> {
    let settings = flags::settings(SYNTH, matches)?;
    let to = path_text::path(matches.get_one::<String>("to").map_or("", String::as_str));
    let level = synth::level(&settings)?;
    let workload = workload::named_by(&settings)?;
    let file = workload.as_ref().and_then(NamedWorkload::file);
    let mut outputs = CommandOutputs::apart_from(settings.files().iter().map(PathBuf::as_path).chain(file))?;
    let mut source: Box<dyn TraceSource> = match &workload {
        Some(workload) => Box::new(workload.open()?),
        None => Box::new(SynthTrace::new(synth::spec(&settings)?)?),
    };
    let requests = write_native(&mut *source, "", &mut outputs, &to, level)?;
    report_written(&to, requests);
    Ok(())
}

fn workloads(matches: &ArgMatches) -> Result<()> {
    let mut screen = TerminalScreen::stdout();
    if let Some(name) = matches.get_one::<String>("name") {
        let workload = NamedWorkload::named(name)?;
        workload.open()?;
        writeln!(screen, "{} ({})", workload.name(), workload.kind())?;
        screen.paragraph("", workload.about())?;
        // Its lines are broken already, for the file that it comes from.
        for paragraph in workload.source().trim().split("\n\n") {
            writeln!(screen)?;
            screen.paragraph("", &paragraph.replace('\n', " "))?;
        }
        return Ok(());
    }
    let mut table =
        TextTable::new([TextColumn::word("workload"), TextColumn::word("kind"), TextColumn::text("what it is")]);
    for workload in workload::built_in() {
        table.add([workload.name().to_owned(), workload.kind().to_string(), workload.about().to_owned()]);
    }
    table.print(&mut screen)?;
    Ok(())
}

fn formats() -> Result<()> {
    let columns = [
        TextColumn::name("format"),
        TextColumn::word("also"),
        TextColumn::word("written"),
        TextColumn::text("what it is"),
        TextColumn::text("columns or records").group(),
    ];
    let mut table = TextTable::new(columns);
    for &id in FORMATS {
        let format = id.info();
        let written = id == FormatId::Native || EXPORTS.iter().any(|info| info.id == id);
        let (also, written) = (format.aliases.join(", "), if written { "yes" } else { "" });
        table.add([format.name, &also, written, format.what, format.columns]);
    }
    table.print(&mut TerminalScreen::stdout())?;
    Ok(())
}
