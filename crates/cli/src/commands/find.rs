//! `destage trace find`: which of the papers' traces lie in a folder.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use destage_reproduce::originals::{
    FoundFile, FoundTraces, PaperNeeds, StatisticCheck, TraceCatalogue, TraceVerdict, search,
};
use destage_reproduce::paper::{self, PaperFile};
use destage_scenario::path_text;
use destage_scenario::quantity::show_count;
use serde_json::{Value, json};

use crate::flags;
use crate::progress::bar_on_stderr;
use crate::screen::{self, TerminalScreen};
use crate::table::{TextColumn, TextTable};

/// Counts the messages about what was skipped that are shown; JSON has all.
const MOST_SKIPPED: usize = 20;
/// Counts the other traces that are named; JSON has all.
const MOST_NAMED: usize = 20;

/// Returns the command.
pub fn command() -> Command {
    Command::new("find")
        .about("Look for the traces that papers used, by name and content")
        .long_about(
            "Look for the traces that papers used, by name and content.\n\n\
             Every file in the folder and in the folders in it is opened, compressed or not, and held against what was published \
             about the SPC traces (Financial, WebSearch), the 36 volumes of MSR Cambridge, FIU, Cello and Exchange. Then it is told, for \
             each file, what it is: the whole original, one as long, a prefix or piece of it, or something else that only looks like it, with the \
             figure that is off; and for each paper which of its traces are here, and where the others were published. \
             `destage reproduce --traces DIR` takes what is found.",
        )
        .arg(
            Arg::new("folder")
                .value_name("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::AnyPath)
                .help("The folder; or a file, which alone is looked at"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON"))
        .arg(
            Arg::new("known")
                .long("known")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("Recognise the traces of this file, like scenarios/traces.toml, in place of the built-in ones"),
        )
        .arg(flags::threads_arg().help("Threads that read files; results do not depend on it [default: the processors]"))
}

/// Runs it: looks, and tells what was found.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let known = matches.get_one::<PathBuf>("known");
    let known = known.map_or_else(TraceCatalogue::built_in, |file| TraceCatalogue::read(file))?;
    let folder = matches.get_one::<PathBuf>("folder").expect("clap asks for it");
    if !folder.exists() {
        bail!("{}: there is no such folder or file", folder.display());
    }
    let bar = bar_on_stderr(true, None, "{spinner} {pos} files  {wide_msg}");
    let pool = flags::thread_pool(matches)?;
    let step = |file: &Path| {
        bar.inc(1);
        bar.set_message(file.display().to_string());
    };
    let found = pool.install(|| search(&known, None, folder, &step));
    bar.finish_and_clear();
    let papers = paper::built_in().map(PaperFile::named).collect::<Result<Vec<_>, _>>()?;
    let needs: Vec<PaperNeeds> = papers.iter().map(|paper| PaperNeeds::of(paper, &known, &found)).collect();
    let needs: Vec<PaperNeeds> =
        needs.into_iter().filter(|needs| !needs.traces.is_empty() || !needs.unpublished.is_empty()).collect();
    if matches.get_flag("json") {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &as_json(&known, &found, &needs))?;
        writeln!(out)?;
        return Ok(());
    }
    for reason in found.skipped.iter().take(MOST_SKIPPED) {
        screen::warn(format_args!("skipped {reason}"));
    }
    if let Some(more @ 1..) = found.skipped.len().checked_sub(MOST_SKIPPED) {
        screen::warn(format_args!("skipped {} more; --json has all", show_count(more as u64)));
    }
    let mut screen = TerminalScreen::stdout();
    show_files(&mut screen, &known, &found, folder)?;
    show_needs(&mut screen, &needs, folder)?;
    Ok(screen.flush()?)
}

/// Returns a file's name from the folder on.
fn within(folder: &Path, file: &Path) -> String {
    let name = file.strip_prefix(folder).unwrap_or(file);
    path_text::of(if name.as_os_str().is_empty() { file } else { name })
}

/// Shows what each file is, and why.
fn show_files(screen: &mut TerminalScreen, known: &TraceCatalogue, found: &FoundTraces, folder: &Path) -> Result<()> {
    let (foreign, traces): (Vec<&FoundFile>, Vec<&FoundFile>) =
        found.files.iter().partition(|file| file.verdict == TraceVerdict::OtherTrace);
    for file in &traces {
        screen.paragraph("", &within(folder, &file.path))?;
        let format = file.format.as_ref().map(|format| format.id().name().to_owned());
        let requests = file.requests.map(|requests| format!("{} requests", show_count(requests)));
        let read: Vec<String> = format.into_iter().chain(requests).collect();
        let read = if read.is_empty() { String::new() } else { format!(" ({})", read.join(", ")) };
        screen.paragraph("  ", &format!("{}{read}", what(known, &file.verdict)))?;
        why(&file.verdict).iter().try_for_each(|line| screen.paragraph("    ", line))?;
    }
    if !traces.is_empty() && (!foreign.is_empty() || found.others > 0) {
        writeln!(screen)?;
    }
    if !foreign.is_empty() {
        let names: Vec<String> = foreign.iter().take(MOST_NAMED).map(|file| within(folder, &file.path)).collect();
        let more = foreign.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!(" and {} more", show_count(more as u64)) } else { String::new() };
        screen.paragraph("other traces: ", &format!("{}{more}", names.join(", ")))?;
    }
    let others = match found.others {
        0 if found.files.is_empty() => "there is no file".to_owned(),
        0 => return Ok(()),
        1 => "1 other file, which is no trace in a known format".to_owned(),
        n => format!("{} other files, which are no traces in a known format", show_count(n)),
    };
    Ok(screen.paragraph("", &others)?)
}

/// Shows what papers used and where it is.
fn show_needs(screen: &mut TerminalScreen, needs: &[PaperNeeds], folder: &Path) -> Result<()> {
    writeln!(screen)?;
    let columns =
        [TextColumn::name("paper"), TextColumn::text("workload"), TextColumn::text("trace"), TextColumn::text("file")];
    let mut table = TextTable::new(columns);
    // Of each repository, once, what is missing.
    let mut missing: Vec<(&str, Vec<&str>)> = Vec::new();
    for needed in needs.iter().flat_map(|needs| &needs.traces).filter(|needed| needed.files.is_empty()) {
        let (place, title) = (needed.published_at.as_str(), needed.title.as_str());
        let at = missing.iter().position(|(known, _)| *known == place).unwrap_or_else(|| {
            missing.push((place, Vec::new()));
            missing.len() - 1
        });
        if !missing[at].1.contains(&title) {
            missing[at].1.push(title);
        }
    }
    for PaperNeeds { paper, traces, unpublished } in needs {
        for needed in traces {
            let file = match &needed.files[..] {
                [] => "missing".to_owned(),
                [file] => within(folder, file),
                [file, more @ ..] => format!("{} and {} more", within(folder, file), more.len()),
            };
            table.add([paper.clone(), needed.workloads.join("; "), needed.title.clone(), file]);
        }
        for (workload, why) in unpublished {
            table.add([paper.clone(), workload.clone(), "not to be had".to_owned(), why.clone()]);
        }
    }
    table.print(screen)?;
    for (place, titles) in missing {
        writeln!(screen)?;
        screen.paragraph("missing: ", &titles.join(", "))?;
        screen.paragraph("  published at: ", place)?;
    }
    Ok(())
}

/// Returns the title of a trace.
fn title<'a>(known: &'a TraceCatalogue, trace: &'a str) -> &'a str {
    known.get(trace).map_or(trace, |known| known.title.as_str())
}

/// Says what a file is.
pub(super) fn what(known: &TraceCatalogue, verdict: &TraceVerdict) -> String {
    let title = |trace: &str| title(known, trace).to_owned();
    let part = |share: &Option<f64>| share.map_or_else(String::new, |share| format!(", {:.2} % of it", share * 100.0));
    match verdict {
        TraceVerdict::Whole { trace, deviations } if deviations.is_empty() => {
            format!("whole original: {}", title(trace))
        }
        TraceVerdict::Whole { trace, .. } => format!("whole original: {}; papers' figures differ", title(trace)),
        TraceVerdict::AsLong { trace, .. } => {
            format!("as long as the original: {}; its requests are not published", title(trace))
        }
        TraceVerdict::KnownPiece { trace, share } => format!("known piece: {}{}", title(trace), part(share)),
        TraceVerdict::Prefix { trace, share, .. } => format!("prefix of {}{}", title(trace), part(share)),
        TraceVerdict::Piece { trace, share, is_proven: true } => format!("piece of {}{}", title(trace), part(share)),
        TraceVerdict::Piece { trace, share, .. } => {
            format!("perhaps a piece of {}{}: its name alone says so", title(trace), part(share))
        }
        TraceVerdict::Unchecked { trace } => {
            let parts = known.get(trace).map(|trace| known.family(trace).parts);
            let parts = match parts {
                Some(1) | None => String::new(),
                Some(0) => ", one of its files".to_owned(),
                Some(n) => format!(", one of its {n} files"),
            };
            format!("named and formatted like {}{parts}: no published statistics", title(trace))
        }
        TraceVerdict::NotIt { trace, .. } => format!("looks like {}, but is not", title(trace)),
        TraceVerdict::Damaged { trace: Some(trace), .. } => format!("damaged: seems to be {}", title(trace)),
        TraceVerdict::Damaged { trace: None, .. } => "damaged".to_owned(),
        TraceVerdict::OtherTrace => "a trace that no paper here used".to_owned(),
        TraceVerdict::NoTrace { .. } => "no trace".to_owned(),
    }
}

/// Says why it is that, line by line.
pub(super) fn why(verdict: &TraceVerdict) -> Vec<String> {
    let lines = |checks: &[StatisticCheck]| checks.iter().map(ToString::to_string).collect::<Vec<_>>();
    match verdict {
        TraceVerdict::Whole { deviations, .. } | TraceVerdict::AsLong { deviations, .. } => lines(deviations),
        TraceVerdict::NotIt { reason, off, .. } => reason.iter().cloned().chain(lines(off)).collect(),
        TraceVerdict::Damaged { error, .. } => vec![error.clone()],
        TraceVerdict::Prefix { because, .. } => vec![because.clone()],
        TraceVerdict::KnownPiece { .. }
        | TraceVerdict::Piece { .. }
        | TraceVerdict::Unchecked { .. }
        | TraceVerdict::OtherTrace
        | TraceVerdict::NoTrace { .. } => Vec::new(),
    }
}

fn as_json(known: &TraceCatalogue, found: &FoundTraces, needs: &[PaperNeeds]) -> Value {
    let checks = |checks: &[StatisticCheck]| -> Vec<Value> {
        let one = |check: &StatisticCheck| {
            json!({
                "figure": check.measure.key(), "first": check.first, "found": check.found, "expected": check.expected,
                "source": check.source,
            })
        };
        checks.iter().map(one).collect()
    };
    let file = |file: &FoundFile| {
        let verdict = &file.verdict;
        let mut value = json!({
            "file": path_text::of(&file.path),
            "format": file.format.as_ref().map(ToString::to_string),
            "requests": file.requests,
            "verdict": verdict.key(),
            "trace": verdict.trace(),
            "title": verdict.trace().map(|trace| title(known, trace)),
            "what": what(known, verdict),
            "usable": verdict.is_usable(),
        });
        match verdict {
            TraceVerdict::Whole { deviations, .. } | TraceVerdict::AsLong { deviations, .. } => {
                value["deviations"] = checks(deviations).into();
            }
            TraceVerdict::KnownPiece { share, .. } | TraceVerdict::Piece { share, .. } => value["share"] = json!(share),
            TraceVerdict::Prefix { share, because, .. } => {
                value["share"] = json!(share);
                value["because"] = json!(because);
            }
            TraceVerdict::NotIt { reason, off, .. } => {
                value["reason"] = json!(reason);
                value["off"] = checks(off).into();
            }
            TraceVerdict::Damaged { error, .. } => value["error"] = json!(error),
            TraceVerdict::Unchecked { .. } | TraceVerdict::OtherTrace | TraceVerdict::NoTrace { .. } => {}
        }
        value
    };
    let paper = |needs: &PaperNeeds| {
        let traces = needs.traces.iter().map(|needed| {
            let files: Vec<String> = needed.files.iter().map(path_text::of).collect();
            json!({
                "trace": needed.trace, "title": needed.title, "workloads": needed.workloads, "files": files,
                "published_at": needed.published_at,
            })
        });
        let unpublished = needs.unpublished.iter().map(|(workload, why)| json!({ "workload": workload, "why": why }));
        json!({
            "paper": needs.paper, "traces": traces.collect::<Vec<_>>(), "unpublished": unpublished.collect::<Vec<_>>(),
        })
    };
    json!({
        "files": found.files.iter().map(file).collect::<Vec<_>>(),
        "other_files": found.others,
        "skipped": found.skipped,
        "papers": needs.iter().map(paper).collect::<Vec<_>>(),
    })
}
