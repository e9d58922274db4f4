//! `destage reproduce`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anstyle::Style;
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use destage_report::kept::ResultCache;
use destage_reproduce::originals::{FoundTraces, TraceCatalogue};
use destage_reproduce::page::PaperPages;
use destage_reproduce::paper::{self, PaperFile};
use destage_reproduce::report;
use destage_reproduce::reproduce::{ReproduceOptions, reproduce_with};
use destage_reproduce::search;
use destage_reproduce::summary::PaperSummary;
use destage_scenario::path_text;
use destage_scenario::workload::is_file;
use destage_sweep::RemoteRunner;

use crate::commands::find;
use crate::commands::report::ReportFolder;
use crate::output::CommandOutputs;
use crate::progress::{PaperProgress, bar_on_stderr};
use crate::screen::{self, TerminalScreen};
use crate::table::{TextCell, TextColumn, TextTable};
use crate::workers::{self, SchedulerWorkers};
use crate::{candidates, flags, markdown};

/// Names the folder of the recordings that come with destage, seen from its checkout.
const RECORDINGS: &str = "traces";

/// The command.
pub fn command() -> Command {
    let names: Vec<&str> = paper::built_in().collect();
    Command::new("reproduce")
        .about("Run what papers ran, and show what they claim beside what is measured")
        .arg(candidates::paper(Arg::new("papers").value_name("PAPER")).num_args(1..).required(true).help(format!(
            "A paper: {}; all for all of them; or a file like those in scenarios/papers",
            names.join(", ")
        )))
        .arg(
            Arg::new("traces")
                .long("traces")
                .value_name("DIR")
                .action(ArgAction::Append)
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::DirPath)
                .help(
                    "Where the papers' own traces are looked for, before ./traces, in all folders within and by content (`destage \
                     trace find DIR` tells what is there); may be given several times",
                ),
        )
        .arg(
            Arg::new("markdown")
                .long("markdown")
                .value_name("FILE")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("-")
                .value_parser(value_parser!(PathBuf))
                .help("Write everything as Markdown, to the standard output in place of the table or to a file"),
        )
        .arg(
            Arg::new("summary")
                .long("summary")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Write how many claims hold, what does not and why to a file, as Markdown of a page or two"),
        )
        .arg(
            Arg::new("report")
                .long("report")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::DirPath)
                .help("Write a page with figures like the papers' own, and its data, into a folder"),
        )
        .arg(
            Arg::new("quick")
                .long("quick")
                .action(ArgAction::SetTrue)
                .help("A quick look: two seeds, and an eighth of the workloads' lengths and of warm-ups"),
        )
        .arg(
            Arg::new("search")
                .long("search")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["summary", "report"])
                .help(
                    "Try the values of what a paper leaves open, and show under which most claims hold together, and which assumption \
                     turns which claim",
                ),
        )
        .arg(
            Arg::new("resume")
                .long("resume")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::DirPath)
                .help(
                    "Keep the results of single runs in this folder, and take from it what the same program found for the same \
                     settings and traces: what was interrupted goes on",
                ),
        )
        .arg(flags::threads_arg())
        .arg(workers::arg())
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let names: Vec<&str> = matches.get_many::<String>("papers").into_iter().flatten().map(String::as_str).collect();
    let all = names.iter().flat_map(|&name| if name == "all" { paper::built_in().collect() } else { vec![name] });
    let papers = all.map(PaperFile::named).collect::<Result<Vec<_>, _>>()?;
    let mut folders: Vec<PathBuf> = matches.get_many::<PathBuf>("traces").into_iter().flatten().cloned().collect();
    for folder in &folders {
        if !folder.is_dir() {
            anyhow::bail!("--traces {}: there is no such folder", folder.display());
        }
    }
    let pool = flags::thread_pool(matches)?;
    let found = recognise(&papers, &folders, &pool)?;
    folders.push(RECORDINGS.into());
    let target = matches.get_one::<PathBuf>("markdown");
    // A file that cannot be written shall be known before the simulation, not after it.
    let read = papers
        .iter()
        .flat_map(|paper| paper.reads(&folders))
        .chain(found.files.iter().map(|file| file.path.clone()))
        .chain(names.iter().filter(|name| is_file(name)).map(|name| path_text::path(name)));
    let mut outputs = CommandOutputs::apart_from(read)?;
    // The folder first, since the other may lie in it.
    let folder = matches.get_one::<PathBuf>("report");
    let folder = folder.map(|path| ReportFolder::begin(&mut outputs, path, &PaperPages::FILES)).transpose()?;
    let file = target.map(|path| outputs.file(path)).transpose()?;
    let short = matches.get_one::<PathBuf>("summary").map(|path| outputs.file(path)).transpose()?;
    let quick = matches.get_flag("quick");
    let kept = matches.get_one::<PathBuf>("resume");
    let kept = kept.map(|folder| anyhow::Ok(ResultCache::open(folder, &std::env::current_exe()?)?)).transpose()?;
    let on = matches.get_one::<String>("on").map(|scheduler| SchedulerWorkers::of(scheduler)).transpose()?;
    let on = on.as_ref().map(|workers| workers as &dyn RemoteRunner);
    if matches.get_flag("search") {
        let mut text = String::new();
        for paper in &papers {
            if paper.assumption.is_empty() {
                anyhow::bail!("{}: --search: its file has no [[assumption]]", paper.name);
            }
            let runs = PaperProgress::new(&paper.name);
            let step = |tried: usize, what: &str| screen::note(format_args!("{}, {}: {what}", paper.name, tried + 1));
            let options = ReproduceOptions {
                folders: &folders,
                found: Some(&found),
                quick,
                kept: kept.as_ref(),
                on,
                watch: &runs,
            };
            let outcome = pool.install(|| search::search(paper, options, &step));
            runs.finish();
            text.push_str(&search::markdown(paper, &outcome?));
        }
        if let Some(mut file) = file {
            file.write_all(text.as_bytes())?;
            return outputs.commit([file]);
        }
        let mut screen = TerminalScreen::stdout();
        return Ok(markdown::show(&mut screen, &text)?);
    }
    let (mut pages, mut summary) = (PaperPages::default(), PaperSummary::default());
    let mut text = String::from(
        "# Reproduction: what papers claim, and what destage measures\n\n\
         Written by `make reproduce` (`destage reproduce`); the same bytes on every run and machine, given the same traces.\n\n",
    );
    if quick {
        text.extend(["**", report::QUICK, "**\n\n"]);
    }
    let (mut rows, mut without_claims) = (Vec::new(), String::new());
    for (index, paper) in papers.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let runs = PaperProgress::new(&paper.name);
        let options =
            ReproduceOptions { folders: &folders, found: Some(&found), quick, kept: kept.as_ref(), on, watch: &runs };
        let reproduction = pool.install(|| reproduce_with(paper, options));
        // The bar goes before an error is printed in its place.
        runs.finish();
        let reproduction = reproduction?;
        let all = report::markdown(&reproduction);
        text.push_str(&all);
        rows.extend(report::rows(&reproduction));
        pages.add(&reproduction);
        summary.add(&reproduction);
        if paper.claim.is_empty() {
            // All that it has is figures.
            without_claims.push_str(&all);
        }
    }
    let mut files = folder.map(|folder| folder.write(pages.files()?)).transpose()?.unwrap_or_default();
    let summary = summary.markdown();
    let texts = file.map(|file| (file, &text)).into_iter().chain(short.map(|file| (file, &summary)));
    let (direct, whole): (Vec<_>, Vec<_>) = texts.partition(|(file, _)| file.is_direct());
    for (mut file, text) in whole {
        file.write_all(text.as_bytes())?;
        files.insert(0, file);
    }
    outputs.commit(files)?;
    // Last: whoever reads it may stop before its end.
    for (mut file, text) in direct {
        file.write_all(text.as_bytes())?;
        outputs.commit([file])?;
    }
    if target.is_none_or(|path| path.as_os_str() != "-") {
        let mut screen = TerminalScreen::stdout();
        if quick {
            writeln!(screen, "{}", report::QUICK)?;
        }
        if !rows.is_empty() {
            table(&rows).print(&mut screen)?;
        }
        screen.flush()?;
        markdown::show(&mut screen, &without_claims)?;
    }
    Ok(())
}

/// Looks for the papers' traces in the folders that were named, and says which files look like one and are not taken.
fn recognise(papers: &[PaperFile], folders: &[PathBuf], pool: &rayon::ThreadPool) -> Result<FoundTraces> {
    if folders.is_empty() {
        return Ok(FoundTraces::default());
    }
    let known = TraceCatalogue::built_in()?;
    let bar = bar_on_stderr(true, None, "{spinner} looking for traces: {pos} files  {wide_msg}");
    let step = |file: &Path| {
        bar.inc(1);
        bar.set_message(file.display().to_string());
    };
    let found = pool.install(|| FoundTraces::for_papers(&known, papers, folders, &step));
    bar.finish_and_clear();
    for file in found.files.iter().filter(|file| !file.verdict.is_usable()) {
        let what = [find::what(&known, &file.verdict)].into_iter().chain(find::why(&file.verdict)).collect::<Vec<_>>();
        screen::note(format_args!("{} is not taken: {}", file.path.display(), what.join("; ")));
    }
    Ok(found)
}

/// The rows of [`report::rows`] with each claim as a heading over the workloads that it was tried
/// on.
fn table(rows: &[[String; 6]]) -> TextTable {
    let mut table = TextTable::new([
        TextColumn::text("claim, and where it was tried"),
        TextColumn::text("measured"),
        TextColumn::text("holds"),
    ]);
    let mut last = None;
    for [id, what, claimed, measured, workload, holds] in rows {
        let claim = (id, what, claimed);
        if last != Some(claim) {
            table.add_heading(id, format!("{what}; claimed {claimed}"));
            last = Some(claim);
        }
        let verdict = TextCell::styled(holds, style(holds));
        table.add([format!("  {workload}").into(), measured.into(), verdict]);
    }
    table
}

/// Returns the style of a verdict; its words say the same.
fn style(holds: &str) -> Style {
    let begins = |words: &[&str]| words.iter().any(|word| holds.starts_with(word));
    match () {
        () if begins(&["yes", "in size", "within", "alike", "in sign (no size"]) => screen::GOOD,
        // These come before `no`, with which both words begin.
        () if begins(&["not", "nothing"]) => Style::new(),
        () if begins(&["no"]) => screen::BAD,
        () => screen::DOUBTFUL,
    }
}
