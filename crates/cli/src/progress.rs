//! Progress: on a terminal what changes in place, elsewhere a line now and then.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use destage_reproduce::watch::{PaperWatch, RunInfo};
use destage_scenario::quantity::show_count;
use destage_sim::experiment::RunProgress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::pace::ProgressPace;
use crate::screen;
use crate::teller::PeriodicMessage;

/// Steps of the bar.
pub const STEPS: u64 = 1000;
/// Workloads that are named in a line, at most.
const NAMED: usize = 4;

/// Returns a bar on the standard error, with characters that the locale has; a hidden one if it is not wanted, or that is no
/// terminal.
pub fn bar_on_stderr(wanted: bool, steps: Option<u64>, template: &str) -> ProgressBar {
    // In a file or a pipe a bar would leave a copy of itself for each change.
    let seen = wanted && std::io::stderr().is_terminal();
    let target = if seen { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(steps, target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        // Block characters would show as question marks in other locales.
        bar.set_style(if screen::utf8() { style } else { style.progress_chars("##-") });
    }
    bar
}

/// Locks a state, which is shown even after a panic of another thread.
pub fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the progress of an experiment.
#[derive(Default)]
struct ExperimentProgress {
    progress: Option<RunProgress>,
    /// Runs that are known from before.
    known: usize,
    pace: ProgressPace,
}

impl ExperimentProgress {
    fn share(progress: &RunProgress) -> f64 {
        let share = progress.share.unwrap_or(0.0);
        match progress.ended {
            // Of a pass that is for no runs.
            (_, 0) => share,
            (ended, all) => (f64::from(ended) + f64::from(progress.runs) * share) / f64::from(all),
        }
    }

    /// Describes the progress at this time, in words.
    fn words(&self, trace: &str, now: Duration) -> Option<String> {
        let progress = self.progress.as_ref()?;
        let requests = show_count(progress.requests);
        let far = match progress.share {
            // Without the length of a trace nobody knows the progress, nor how long what follows takes.
            Some(share) if share >= 1.0 && progress.runs > 0 => match progress.rebuilt {
                Some(rebuilt) => format!(", all requests are read, rebuilding, {:.0} % of rows", 100.0 * rebuilt),
                None => ", all requests are read, finishing what is in flight".into(),
            },
            Some(_) => format!(", {:.0} %, {}", 100.0 * Self::share(progress), self.pace.words(now)),
            None => String::new(),
        };
        if progress.runs == 0 {
            return Some(format!("{trace}: looking at what it touches, {requests} requests{far}"));
        }
        let rate = progress.simulated as f64 / now.as_secs_f64().max(1e-3);
        let known = if self.known > 0 { format!(" ({} known)", self.known) } else { String::new() };
        let (ended, all) = progress.ended;
        if progress.simulated == 0 {
            // Of simulations elsewhere the share alone is known.
            let begins = progress.share.is_none_or(|share| share <= 0.0);
            let far = if begins { format!(", {} begin", progress.runs) } else { far };
            return Some(format!("{trace}: {ended} of {all} runs done{known}{far}"));
        }
        let (simulated, rate) = (show_count(progress.simulated), show_count(rate as u64));
        Some(format!(
            "{trace}: {ended} of {all} runs done{known}, {} at a time, {simulated} requests simulated{far}, {rate}/s",
            progress.runs
        ))
    }
}

/// A bar with rate and remaining time.
pub struct TraceBar {
    shown: ProgressBar,
    started: Instant,
    trace: String,
    state: Arc<Mutex<ExperimentProgress>>,
    _teller: Option<PeriodicMessage>,
}

impl TraceBar {
    /// A bar for an experiment over this trace; lines where it would not be seen.
    pub fn new(wanted: bool, trace: &str) -> Self {
        let bar = bar_on_stderr(wanted, Some(STEPS), "{bar:20} {percent:>3} %  {wide_msg}");
        bar.enable_steady_tick(Duration::from_millis(200));
        let (started, state) = (Instant::now(), Arc::<Mutex<ExperimentProgress>>::default());
        let (told, name) = (Arc::clone(&state), trace.to_owned());
        let teller =
            wanted.then(|| PeriodicMessage::to_stderr(move || lock(&told).words(&name, started.elapsed()))).flatten();
        Self { shown: bar, started, trace: trace.to_owned(), state, _teller: teller }
    }

    /// So many runs are known from before.
    pub fn know(&self, runs: usize) {
        lock(&self.state).known = runs;
    }

    /// Says what should be known.
    pub fn note(&self, text: &str) {
        // The next drawing of the bar would overwrite a note that is written beside it.
        self.shown.suspend(|| screen::note(text));
    }

    /// Shows how far an experiment is.
    pub fn show(&self, progress: RunProgress) {
        let now = self.started.elapsed();
        let share = ExperimentProgress::share(&progress);
        let mut state = lock(&self.state);
        state.pace.reach(now, share);
        state.progress = Some(progress);
        if !self.shown.is_hidden() {
            self.shown.set_position((share * STEPS as f64) as u64);
            self.shown.set_message(state.words(&self.trace, now).unwrap_or_default());
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.shown.finish_and_clear();
        lock(&self.state).progress = None;
    }
}

/// Keeps the progress of a paper's runs.
#[derive(Default)]
struct OfPaper {
    runs: usize,
    done: usize,
    /// Of these, known from before.
    known: usize,
    /// Simulations to be run, but for those that are known.
    weight: u64,
    weight_done: u64,
    /// Counts the runs of each workload that are running.
    running: BTreeMap<String, u32>,
    missing: Vec<String>,
    pace: ProgressPace,
}

impl OfPaper {
    fn share(&self) -> f64 {
        self.weight_done as f64 / self.weight.max(1) as f64
    }

    /// Describes the progress at this time, in words.
    fn words(&self, now: Duration) -> String {
        let known = if self.known > 0 { format!(" ({} known)", self.known) } else { String::new() };
        let mut parts = vec![format!("{} of {} runs{known}, {}", self.done, self.runs, self.pace.words(now))];
        let named = |names: &[&str]| match names.len() {
            n if n > NAMED => format!("{} and {} more", names[..NAMED].join(", "), n - NAMED),
            _ => names.join(", "),
        };
        let running: Vec<&str> = self.running.keys().map(String::as_str).collect();
        if !running.is_empty() {
            parts.push(format!("reading {}", named(&running)));
        }
        let missing: Vec<&str> = self.missing.iter().map(String::as_str).collect();
        if !missing.is_empty() {
            parts.push(format!("looked for and not here: {}", named(&missing)));
        }
        parts.join("; ")
    }
}

/// Shows how far a paper's runs are.
pub struct PaperProgress {
    bar: ProgressBar,
    started: Instant,
    state: Arc<Mutex<OfPaper>>,
    _teller: Option<PeriodicMessage>,
}

impl PaperProgress {
    /// A bar for this paper; lines where it would not be seen.
    pub fn new(paper: &str) -> Self {
        let bar = bar_on_stderr(true, None, "{bar:20} {prefix}: {wide_msg}").with_prefix(paper.to_owned());
        let (started, state) = (Instant::now(), Arc::<Mutex<OfPaper>>::default());
        let (told, name) = (Arc::clone(&state), paper.to_owned());
        let teller =
            PeriodicMessage::to_stderr(move || Some(format!("{name}: {}", lock(&told).words(started.elapsed()))));
        Self { bar, started, state, _teller: teller }
    }

    fn show(&self, state: &OfPaper) {
        if !self.bar.is_hidden() {
            self.bar.set_length(state.runs as u64);
            self.bar.set_position(state.done as u64);
            self.bar.set_message(state.words(self.started.elapsed()));
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A workload as it is named.
fn name(run: &RunInfo<'_>) -> String {
    match run.file {
        Some(file) => format!("{} ({})", run.workload, file.display()),
        None => run.workload.to_owned(),
    }
}

impl PaperWatch for PaperProgress {
    fn planned(&self, runs: usize, weight: u64, missing: &[&str]) {
        let mut state = lock(&self.state);
        (state.runs, state.weight) = (runs, weight);
        state.missing = missing.iter().map(|&name| name.to_owned()).collect();
        self.show(&state);
    }

    fn begins(&self, run: &RunInfo<'_>) {
        let mut state = lock(&self.state);
        *state.running.entry(name(run)).or_default() += 1;
        self.show(&state);
    }

    fn ends(&self, run: &RunInfo<'_>, known: bool) {
        let mut state = lock(&self.state);
        let name = name(run);
        let left = state.running.get(&name).copied().unwrap_or(1) - 1;
        if left == 0 {
            state.running.remove(&name);
        } else {
            state.running.insert(name, left);
        }
        state.done += 1;
        if known {
            // A known run says nothing of how long the others take.
            state.known += 1;
            state.weight -= run.weight;
        } else {
            state.weight_done += run.weight;
        }
        let share = state.share();
        state.pace.reach(self.started.elapsed(), share);
        self.show(&state);
    }

    fn note(&self, text: &str) {
        self.bar.suspend(|| screen::note(text));
    }
}

/// Keeps the progress of a sweep.
#[derive(Default)]
struct OfSweep {
    /// Looking at a trace, before anything is run.
    looking: Option<String>,
    runs: (usize, usize),
    known: usize,
    pace: ProgressPace,
}

impl OfSweep {
    fn words(&self, now: Duration) -> String {
        if let Some(looking) = &self.looking {
            return format!("looking at {looking}");
        }
        let known = if self.known > 0 { format!(" ({} known)", show_count(self.known as u64)) } else { String::new() };
        let (done, all) = (show_count(self.runs.0 as u64), show_count(self.runs.1 as u64));
        format!("{done} of {all} runs{known}, {}", self.pace.words(now))
    }
}

/// Shows how far a sweep is.
pub struct SweepProgress {
    bar: ProgressBar,
    started: Instant,
    state: Arc<Mutex<OfSweep>>,
    _teller: Option<PeriodicMessage>,
}

impl SweepProgress {
    /// A bar for a sweep; lines where it would not be seen.
    pub fn new(wanted: bool) -> Self {
        let bar = bar_on_stderr(wanted, Some(STEPS), "{bar:20} {percent:>3} %  {wide_msg}");
        let (started, state) = (Instant::now(), Arc::<Mutex<OfSweep>>::default());
        let told = Arc::clone(&state);
        let line = move || {
            let state = lock(&told);
            (state.looking.is_some() || state.runs.1 > 0).then(|| state.words(started.elapsed()))
        };
        let teller = wanted.then(|| PeriodicMessage::to_stderr(line)).flatten();
        Self { bar, started, state, _teller: teller }
    }

    /// A trace is looked at.
    pub fn look(&self, trace: &str) {
        let mut state = lock(&self.state);
        state.looking = Some(trace.to_owned());
        if !self.bar.is_hidden() {
            self.bar.set_message(state.words(self.started.elapsed()));
        }
    }

    /// So many of so many runs are done, of which so many were known from before.
    pub fn show(&self, done: usize, runs: usize, known: usize) {
        let mut state = lock(&self.state);
        let now = self.started.elapsed();
        (state.looking, state.runs, state.known) = (None, (done, runs), known);
        // Known runs say nothing of how long the others take.
        let share = (done - known.min(done)) as f64 / (runs - known.min(runs)).max(1) as f64;
        state.pace.reach(now, share);
        if !self.bar.is_hidden() {
            self.bar.set_position((share * STEPS as f64) as u64);
            self.bar.set_message(state.words(now));
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
        *lock(&self.state) = OfSweep::default();
    }
}

/// A line of text that changes, for what has no known end.
pub struct ProgressLine {
    bar: ProgressBar,
}

impl ProgressLine {
    /// A line, hidden where nobody would see it.
    pub fn new() -> Self {
        let seen = std::io::stderr().is_terminal();
        // Often enough to see that it lives.
        let target = if seen { ProgressDrawTarget::stderr_with_hz(4) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    /// Shows a text, if anybody can see it.
    pub fn show(&self, text: impl FnOnce() -> String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(text());
        }
    }

    /// Takes the line away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn lines_name_the_trace_and_tell_how_far_it_is() {
        let mut experiment = ExperimentProgress::default();
        let second = Duration::from_secs;
        assert_eq!(experiment.words("t.spc", second(1)), None, "nothing is known yet");
        experiment.progress = Some(RunProgress { share: Some(0.5), requests: 2_000, ..RunProgress::default() });
        let looking = "t.spc: looking at what it touches, 2,000 requests, 50 %, time left unknown";
        assert_eq!(experiment.words("t.spc", second(1)).as_deref(), Some(looking));
        let running =
            RunProgress { ended: (4, 8), share: Some(0.5), requests: 2_000, runs: 4, simulated: 80_000, rebuilt: None };
        experiment.progress = Some(running);
        experiment.pace.reach(second(10), ExperimentProgress::share(&running));
        let told = "t.spc: 4 of 8 runs done, 4 at a time, 80,000 requests simulated, 75 %, about 5 s left, 8,000/s";
        assert_eq!(experiment.words("t.spc", second(10)).as_deref(), Some(told));
        experiment.known = 12;
        let told =
            "t.spc: 4 of 8 runs done (12 known), 4 at a time, 80,000 requests simulated, 75 %, about 5 s left, 8,000/s";
        assert_eq!(experiment.words("t.spc", second(10)).as_deref(), Some(told));
        experiment.known = 0;
        // Of runs elsewhere nothing is known but which policies have come.
        let elsewhere = RunProgress { ended: (0, 8), share: Some(0.25), runs: 8, ..RunProgress::default() };
        let mut far = ExperimentProgress { progress: Some(elsewhere), ..ExperimentProgress::default() };
        let told = "t.spc: 0 of 8 runs done, 25 %, time left unknown";
        assert_eq!(far.words("t.spc", second(1)).as_deref(), Some(told));
        far.progress = Some(RunProgress { share: Some(0.0), ..elsewhere });
        assert_eq!(far.words("t.spc", second(1)).as_deref(), Some("t.spc: 0 of 8 runs done, 8 begin"));
        // A pipe has no end that is known.
        experiment.progress = Some(RunProgress { share: None, ..running });
        let told = "-: 4 of 8 runs done, 4 at a time, 80,000 requests simulated, 8,000/s";
        assert_eq!(experiment.words("-", second(10)).as_deref(), Some(told));
        // Of what comes after the last request nobody knows how long it takes.
        experiment.progress = Some(RunProgress { share: Some(1.0), ..running });
        let words = experiment.words("t.spc", second(10)).unwrap();
        assert!(
            words.contains("all requests are read, finishing what is in flight") && !words.contains("left"),
            "{words}"
        );
        experiment.progress = Some(RunProgress { share: Some(1.0), rebuilt: Some(0.127), ..running });
        let words = experiment.words("t.spc", second(10)).unwrap();
        assert!(words.contains(", all requests are read, rebuilding, 13 % of rows, "), "{words}");
    }

    #[test]
    fn a_sweep_tells_how_many_runs_are_done_and_how_long_it_takes() {
        let swept = SweepProgress::new(false);
        let words = |seconds| lock(&swept.state).words(Duration::from_secs(seconds));
        swept.look("t.spc");
        assert_eq!(words(1), "looking at t.spc");
        swept.show(500, 2_500, 500);
        assert_eq!(words(1), "500 of 2,500 runs (500 known), time left unknown");
        lock(&swept.state).pace.reach(Duration::from_secs(10), 0.5);
        lock(&swept.state).runs.0 = 1_500;
        assert_eq!(words(10), "1,500 of 2,500 runs (500 known), about 10 s left");
    }

    #[test]
    fn runs_of_a_paper_are_told_by_their_workloads() {
        let runs = PaperProgress::new("gcar");
        let made = RunInfo { workload: "random", file: None, weight: 6 };
        let read = RunInfo { workload: "mail", file: Some(Path::new("traces/mail.spc")), weight: 2 };
        runs.planned(4, 16, &["Fin1", "hm_0", "web_0", "prn_0", "usr_0", "src_0"]);
        for run in [&made, &made, &read] {
            runs.begins(run);
        }
        let words = || lock(&runs.state).words(Duration::ZERO);
        let missing = "looked for and not here: Fin1, hm_0, web_0, prn_0 and 2 more";
        let all = format!("0 of 4 runs, time left unknown; reading mail (traces/mail.spc), random; {missing}");
        assert_eq!(words(), all);
        runs.ends(&made, false);
        runs.ends(&read, true);
        assert_eq!(words(), format!("2 of 4 runs (1 known), time left unknown; reading random; {missing}"));
        // What was known is no part of what takes time.
        let weights = |state: &OfPaper| (state.weight, state.weight_done);
        assert_eq!(weights(&lock(&runs.state)), (14, 6));
        runs.ends(&made, false);
        assert_eq!(words(), format!("3 of 4 runs (1 known), time left unknown; {missing}"));
    }
}
