//! `destage sim`: policies × cache sizes over one trace, inside an SSD or in front of an array.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use destage_report::kept::ResultCache;
use destage_report::results::{self, DocumentedResult, RunKind};
use destage_report::{FILES, RankingObjective, RunsReport};
use destage_scenario::ScenarioSettings;
use destage_scenario::keys::output::{CSV, JSON, LATENCY_LOG, OBJECTIVE, PROGRESS, REPORT, RESUME, TIMING};
use destage_scenario::keys::trace::TRACE;
use destage_scenario::quantity::show_count;
use destage_scenario::sim::{self, SIM, SimulatedRequests};
use destage_sim::experiment::{CharacteristicsCounter, RunProgress, RunResources};
use destage_sim::measure::RequestLog;

use crate::array_output;
use crate::buffer_output;
use crate::candidates;
use crate::commands::report::ReportFolder;
use crate::flags;
use crate::latency_log::LatencyLog;
use crate::output::{CommandOutputs, NewFile};
use crate::progress::{ProgressLine, TraceBar};
use crate::resume::{ResumedRuns, RunsDone};
use crate::screen::TerminalScreen;

/// The command.
pub fn command() -> Command {
    Command::new("sim")
        .about("Simulate write buffers, or caches over an array, over a block trace: policies x sizes in one call")
        .after_help(
            "Results are the same on every machine and with any number of threads. Every flag is also a key of a \
             scenario file: `destage sim --scenario FILE`. `destage schema` explains every field of the results. \
             With --array the policies are caches of the host in front of a redundant array; see `destage policies`.",
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
            Arg::new("print-scenario")
                .long("print-scenario")
                .action(ArgAction::SetTrue)
                .help("Print the settings in force as a scenario file of the same simulation, and simulate nothing"),
        )
        .args(flags::args(SIM))
}

/// Holds the outputs of a simulation.
struct ResultSinks {
    json: Option<NewFile>,
    csv: Option<NewFile>,
    /// Logs what became of each request.
    log: Option<LatencyLog>,
    report: Option<ReportFolder>,
    /// None of them goes to the standard output.
    table: bool,
    outputs: CommandOutputs,
}

impl ResultSinks {
    /// A file that cannot be written shall be known before the simulation, not after it.
    fn open(settings: &ScenarioSettings, requests: &SimulatedRequests) -> Result<Self> {
        let (json, csv) = (JSON.path(settings)?, CSV.path(settings)?);
        let to_stdout = |path: Option<&Path>| path == Some(Path::new("-"));
        let log = LATENCY_LOG.path(settings)?;
        let shown =
            [json.as_deref(), csv.as_deref(), log.as_deref()].into_iter().filter(|&path| to_stdout(path)).count();
        if to_stdout(json.as_deref()) && to_stdout(csv.as_deref()) {
            bail!("--json and --csv cannot both go to the standard output; give one of them a file: --csv=FILE");
        }
        let mut outputs = CommandOutputs::apart_from(settings.files().iter().cloned().chain(requests.files()))?;
        // The folder comes first, since other files may lie in it.
        let report = REPORT.path(settings)?;
        let report = report.map(|path| ReportFolder::begin(&mut outputs, &path, &FILES)).transpose()?;
        let json = json.map(|path| outputs.file(&path)).transpose()?;
        let csv = csv.map(|path| outputs.file(&path)).transpose()?;
        let log = log.map(|path| LatencyLog::begin(outputs.file(&path)?, &path)).transpose()?;
        Ok(Self { json, csv, log, report, table: shown == 0, outputs })
    }

    /// Returns true if results are kept, with what is known of the trace.
    fn keep(&self) -> bool {
        self.json.is_some() || self.csv.is_some() || self.report.is_some()
    }

    fn write<R: DocumentedResult>(
        self,
        runs: &[R],
        objective: Option<RankingObjective>,
        text: impl Fn(&mut TerminalScreen, &[R]) -> std::io::Result<()>,
    ) -> Result<()> {
        let mut outputs = self.outputs;
        let log = self.log.as_ref().map(LatencyLog::finish).transpose()?.flatten();
        let json = self.json.map(|file| (file, results::json as fn(&mut dyn Write, &[R]) -> std::io::Result<()>));
        let csv = self.csv.map(|file| (file, results::csv as _));
        let (direct, whole): (Vec<_>, Vec<_>) = json.into_iter().chain(csv).partition(|(file, _)| file.is_direct());
        let mut files = Vec::from_iter(log);
        for (mut file, write) in whole {
            write(&mut file, runs)?;
            files.push(file);
        }
        if let Some(folder) = self.report {
            // The bytes that `destage report` would read, so both write the same page.
            let mut json = Vec::new();
            results::json(&mut json, runs)?;
            let report = RunsReport::new(destage_report::read("results", &json)?);
            let report = match objective {
                Some(objective) => report.ranked_by(objective),
                None => report,
            };
            files.extend(folder.write(report.files()?)?);
        }
        outputs.commit(files)?;
        // After the files: a reader of the standard output may stop before its end.
        for (mut file, write) in direct {
            write(&mut file, runs)?;
            outputs.commit([file])?;
        }
        if self.table {
            let mut screen = TerminalScreen::stdout();
            text(&mut screen, runs)?;
            screen.flush()?;
        }
        Ok(())
    }
}

/// Holds what is needed to write the results when all runs are over.
struct RunsEnding<'a> {
    requests: &'a SimulatedRequests,
    settings: &'a ScenarioSettings,
    caches: &'a [u64],
    counter: Option<&'a CharacteristicsCounter>,
    objective: Option<RankingObjective>,
    sinks: ResultSinks,
}

impl RunsEnding<'_> {
    /// Writes and shows the results, to which is added what is known of the trace and of the sizes of caches.
    fn write<R: DocumentedResult + RunKind>(
        self,
        mut results: Vec<R>,
        text: impl Fn(&mut TerminalScreen, &[R], Option<RankingObjective>) -> std::io::Result<()>,
    ) -> Result<()> {
        let sizes = self.requests.sizes_result(self.settings, self.caches)?;
        // A kept result knows the trace's characteristics already.
        let counted = results.first_mut().and_then(|first| first.input().characteristics.take());
        let counted =
            counted.or_else(|| self.counter.map(CharacteristicsCounter::finish)).filter(|_| self.sinks.keep());
        results::complete(&mut results, counted.as_ref(), sizes.as_ref());
        self.sinks.write(&results, self.objective, |screen, runs| text(screen, runs, self.objective))
    }
}

/// Counts the requests if that is needed, in a pass of its own.
fn count(settings: &ScenarioSettings, requests: &mut SimulatedRequests, progress: bool) -> Result<()> {
    let line = progress.then(ProgressLine::new);
    let counted = destage_scenario::count(settings, requests, &mut |share, requests| {
        if let Some(line) = &line {
            line.show(|| {
                let share = share.map_or_else(String::new, |share| format!(", {:.0} % of the trace", 100.0 * share));
                format!("counting requests: {}{share}", show_count(requests))
            });
        }
    });
    if let Some(line) = line {
        line.finish();
    }
    Ok(counted?)
}

/// Prints the scenario in place of simulating it. What is wrong with it is told all the same.
fn print_scenario(settings: &ScenarioSettings) -> Result<()> {
    let text = destage_scenario::scenario(settings)?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// Looks for the sizes of caches that depend on what the trace touches, in a pass of its own.
fn find_sizes(settings: &ScenarioSettings, requests: &mut SimulatedRequests, bar: &TraceBar) -> Result<()> {
    let found = destage_scenario::find_sizes(settings, requests, &|progress| bar.show(progress));
    bar.finish();
    Ok(found?)
}

/// The sweep over what is kept, if results are.
fn resumed<'a, R: RunKind>(
    kept: Option<&'a ResultCache>,
    ending: &RunsEnding<'_>,
    identities: impl FnOnce() -> Result<Vec<String>>,
    resources: RunResources<'_>,
    bar: &TraceBar,
) -> Result<Option<ResumedRuns<'a, R>>> {
    let (Some(kept), Some(counter)) = (kept, ending.counter) else { return Ok(None) };
    let note = |text: &str| bar.note(text);
    let counting = (counter.clone(), resources.threads);
    let sweep = ResumedRuns::new(kept, ending.requests, &identities()?, counting, &note)?;
    bar.know(sweep.known());
    Ok(Some(sweep))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let mut settings = flags::settings(SIM, matches)?;
    if let Some(trace) = matches.get_one::<String>("positional") {
        settings.flag(TRACE.name(), vec![trace.clone()])?;
    }
    if matches.get_flag("print-scenario") {
        return print_scenario(&settings);
    }
    let mut requests = sim::requests(&settings)?;
    let resume = RESUME.path(&settings)?;
    // A pipe has no identity by which a result could be found again.
    if resume.is_some() {
        requests.check_resume(&settings)?;
    }
    let progress = PROGRESS.get(&settings)?;
    count(&settings, &mut requests, progress)?;
    let trace = requests.name();
    find_sizes(&settings, &mut requests, &TraceBar::new(progress, &trace))?;
    let simulation = destage_scenario::simulation(&settings, &requests)?;
    let resources = sim::resources(&settings)?;
    // Before the simulation: a file that cannot be written must not cost hours.
    let sinks = ResultSinks::open(&settings, &requests)?;
    let kept = resume.map(|folder| anyhow::Ok(ResultCache::open(&folder, &std::env::current_exe()?)?)).transpose()?;
    let timing = TIMING.get(&settings)?;
    let objective = OBJECTIVE.optional_by(&settings, RankingObjective::named)?;
    let bar = TraceBar::new(progress, &trace);
    let started = Instant::now();
    let caches = simulation.caches().to_vec();
    let counter = (sinks.keep() || kept.is_some()).then(|| CharacteristicsCounter::new(simulation.replay()));
    let mut passes = 0;
    let mut open = || {
        let input = requests.open(passes)?;
        passes += 1;
        // Every pass reads the same trace, so only the first is counted.
        Ok(match &counter {
            Some(counter) if passes == 1 => counter.count(input),
            _ => input,
        })
    };
    let show = |progress: RunProgress| bar.show(progress);
    let log = sinks.log.clone();
    let ending = RunsEnding {
        requests: &requests,
        settings: &settings,
        caches: &caches,
        counter: counter.as_ref(),
        objective,
        sinks,
    };
    // How many runs were simulated and how many known, requests read, and what else was done how often.
    let (runs, known, read, work, done) = match simulation {
        destage_scenario::DescribedSimulation::Buffers(experiment) => {
            let sweep = resumed(kept.as_ref(), &ending, || Ok(experiment.identities()), resources, &bar)?;
            let (done, read) = if let Some(mut sweep) = sweep {
                let read = experiment.sweep(resources, &mut open, &show, &mut sweep);
                bar.finish();
                let read = read?;
                (sweep.finish()?, read)
            } else {
                let log = log.map(|log| Box::new(log) as Box<dyn RequestLog>);
                let report = experiment.run_logged(resources, &mut open, &show, log);
                bar.finish();
                let report = report?;
                (RunsDone::simulated(report.results), report.requests)
            };
            let told = (done.results.len() - done.known, done.known, read, done.work, "page accesses simulated");
            ending.write(done.results, buffer_output::text)?;
            told
        }
        destage_scenario::DescribedSimulation::Array(experiment) => {
            let sweep = resumed(kept.as_ref(), &ending, || Ok(experiment.identities()?), resources, &bar)?;
            let (done, read) = if let Some(mut sweep) = sweep {
                let read = experiment.sweep(resources, &mut open, &show, &mut sweep);
                bar.finish();
                let read = read?;
                (sweep.finish()?, read)
            } else {
                let log = log.map(|log| Box::new(log) as Box<dyn RequestLog>);
                let report = experiment.run_logged(resources, &mut open, &show, log);
                bar.finish();
                let report = report?;
                (RunsDone::simulated(report.results), report.requests)
            };
            let told = (done.results.len() - done.known, done.known, read, done.work, "steps simulated");
            ending.write(done.results, array_output::text)?;
            told
        }
    };
    if timing {
        let seconds = started.elapsed().as_secs_f64();
        let known = if known > 0 { format!(" and {known} known from before") } else { String::new() };
        eprintln!(
            "timing: {seconds:.3} s wall, {} threads, {runs} runs{known}; {} requests read ({}/s), {} {done} ({}/s)",
            resources.threads,
            show_count(read),
            show_count((read as f64 / seconds) as u64),
            show_count(work),
            show_count((work as f64 / seconds) as u64),
        );
    }
    Ok(())
}
