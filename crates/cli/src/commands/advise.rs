//! `destage advise`: which policy, and how large, for a trace.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, anyhow};
use clap::{Arg, ArgMatches, Command, ValueHint};
use destage_advise::{
    AdviceStage, AdviceWatch, AdvisedRuns, CacheBudgets, SearchedRequests, SizeBudget, TraceAdvice, advise,
};
use destage_report::{FILES, RunsReport};
use destage_scenario::keys::output::{JSON, PROGRESS, REPORT};
use destage_scenario::keys::ssd::PRESET;
use destage_scenario::keys::trace::TRACE;
use destage_scenario::quantity::show_count;
use destage_scenario::sim::{self, SIM};
use destage_sim::experiment::RunProgress;
use destage_sweep::RemoteRunner;

use crate::advice_output;
use crate::candidates;
use crate::commands::report::ReportFolder;
use crate::flags;
use crate::output::{CommandOutputs, NewFile};
use crate::progress::TraceBar;
use crate::screen::TerminalScreen;
use crate::workers::{self, SchedulerWorkers};

/// Settings of `destage sim` that advice has no use for.
const WITHOUT: &[&str] = &["cache", "csv", "latency-log", "per-volume", "resume", "timing"];

/// The command.
pub fn command() -> Command {
    Command::new("advise")
        .about("Find the policy and size for a trace: one recommendation, with its reason, its cost and how far to trust it")
        .after_help(
            "All policies are simulated on a short stretch of the trace, some on a longer one, and few on all of it, at sizes up to \
             the budget. Of all that is within 1 % of the best, no buffer is advised first, then the smallest size and the simplest policy \
             (docs/advise.md). Without --device and --array it is a buffer inside a current drive, scaled to the trace; with --policy these \
             are the candidates.",
        )
        .arg(
            Arg::new("positional")
                .value_name("TRACE")
                .value_parser(candidates::path())
                .value_hint(ValueHint::FilePath)
                .conflicts_with("trace")
                .help("The trace, as with --trace"),
        )
        .arg(
            Arg::new("budget")
                .long("budget")
                .value_name("SIZE|SHARE")
                .help("How large it may be, in data held, or as a share of the pages that take part [default: four times where LRU's curve of hits bends]"),
        )
        .arg(
            Arg::new("nvram-budget")
                .long("nvram-budget")
                .value_name("SIZE|SHARE")
                .help("How large a cache in the NVRAM before an array may be: with it these are candidates, too [default: there is none]"),
        )
        .arg(
            Arg::new("ssd")
                .long("ssd")
                .value_name("NAME")
                .conflicts_with("ssd.preset")
                .help("The SSD, as --ssd.preset"),
        )
        .arg(workers::arg())
        .args(flags::args(SIM).into_iter().filter(|arg| !WITHOUT.contains(&arg.get_id().as_str())))
}

/// Shows what is simulated.
struct ShownProgress {
    wanted: bool,
    trace: String,
    /// Rounds that have begun.
    rounds: AtomicU32,
    bar: Mutex<Option<TraceBar>>,
}

impl ShownProgress {
    fn of(&self, stage: AdviceStage) -> String {
        if stage.policies == 0 {
            return self.trace.clone();
        }
        let round = self.rounds.fetch_add(1, Ordering::Relaxed) + 1;
        let part = match stage.part {
            SearchedRequests::Whole => "all requests".to_owned(),
            SearchedRequests::Stretch { requests, .. } => format!("a stretch of {} requests", show_count(requests)),
        };
        let several = |count: usize, one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {many}"),
        };
        let (policies, sizes) = (several(stage.policies, "policy", "policies"), several(stage.sizes, "size", "sizes"));
        format!("{}, round {round}: {policies} at {sizes} over {part}", self.trace)
    }

    fn end(&self) {
        let bar = self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(bar) = bar {
            bar.finish();
        }
    }
}

impl AdviceWatch for ShownProgress {
    fn begin(&self, stage: AdviceStage) {
        self.end();
        let bar = TraceBar::new(self.wanted, &self.of(stage));
        *self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(bar);
    }

    fn show(&self, progress: RunProgress) {
        if let Some(bar) = &*self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
            bar.show(progress);
        }
    }
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let mut settings = flags::settings(SIM, matches)?;
    if let Some(trace) = matches.get_one::<String>("positional") {
        settings.flag(TRACE.name(), vec![trace.clone()])?;
    }
    if let Some(name) = matches.get_one::<String>("ssd") {
        settings.flag(PRESET.name(), vec![name.clone()])?;
    }
    let budget = |name: &str| match matches.get_one::<String>(name) {
        Some(text) => text.parse::<SizeBudget>().map(Some).map_err(|right| anyhow!("--{name} {text}: {right}")),
        None => Ok(None),
    };
    let budgets = CacheBudgets { size: budget("budget")?, nvram: budget("nvram-budget")? };
    let requests = sim::requests(&settings)?;
    let mut outputs = CommandOutputs::apart_from(settings.files().iter().cloned().chain(requests.files()))?;
    let report = REPORT.path(&settings)?;
    let report = report.map(|path| ReportFolder::begin(&mut outputs, &path, &FILES)).transpose()?;
    let json = JSON.path(&settings)?.map(|path| outputs.file(&path)).transpose()?;
    let shown = ShownProgress {
        wanted: PROGRESS.get(&settings)?,
        trace: requests.name(),
        rounds: AtomicU32::new(0),
        bar: Mutex::new(None),
    };
    let on = matches.get_one::<String>("on").map(|scheduler| SchedulerWorkers::of(scheduler)).transpose()?;
    let on = on.as_ref().map(|workers| workers as &dyn RemoteRunner);
    let advised = advise(settings, requests, budgets, on, &shown);
    shown.end();
    let AdvisedRuns { advice, runs, judge } = advised?;
    let mut files = Vec::new();
    let mut direct = None;
    if let Some(mut file) = json {
        if file.is_direct() {
            direct = Some(file);
        } else {
            write_json(&mut file, &advice)?;
            files.push(file);
        }
    }
    if let Some(folder) = report {
        let page = advice_output::page(judge, &advice);
        files.extend(folder.write(RunsReport::new(runs).ranked_by(judge.objective()).advised(page).files()?)?);
    }
    outputs.commit(files)?;
    if let Some(mut file) = direct {
        write_json(&mut file, &advice)?;
        return outputs.commit([file]);
    }
    let mut screen = TerminalScreen::stdout();
    advice_output::text(&mut screen, judge, &advice)?;
    Ok(screen.flush()?)
}

fn write_json(file: &mut NewFile, advice: &TraceAdvice) -> Result<()> {
    serde_json::to_writer_pretty(&mut *file, advice)?;
    writeln!(file)?;
    Ok(())
}
