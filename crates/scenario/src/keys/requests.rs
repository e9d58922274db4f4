//! The requests of a simulation: a trace or a workload, which of it takes part, and what is known of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_sim::curve::PassFindings;
use destage_sim::experiment::{OpenedInput, StopSignal};
use destage_sim::input::WarmupPart;
use destage_sim::measure::SizesResult;
use destage_trace::{FilePlace, OpenOptions, ReopenTrace, RepeatedTrace, TraceError, TraceWindow, WindowedTrace};

use super::cache::CACHE;
use super::host::{GivenWarmup, WARMUP};
use super::output::LATENCY_LOG;
use super::trace::{LIMIT, READING};
use crate::values::parsed;
use crate::workload::NamedWorkload;
use crate::{ScenarioError, ScenarioSettings, path_text, sizes};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Names the source of requests: a trace, a workload, or a source that is opened elsewhere.
#[derive(Clone, Debug)]
pub(crate) enum RequestsOrigin {
    /// A trace: the file, or `-`, with format and leniency.
    File { file: PathBuf, options: OpenOptions },
    /// A workload, generated anew in each pass.
    Workload(Box<NamedWorkload>),
    /// They are opened elsewhere.
    Named(String),
}

/// The requests of a simulation.
#[derive(Clone, Debug)]
pub struct SimulatedRequests {
    origin: RequestsOrigin,
    window: TraceWindow,
    /// Of these only so many, from one on.
    part: Option<TraceWindow>,
    /// Counts how many times the requests are replayed.
    repeat: u32,
    /// Counts the requests of one replay, once they were counted.
    counted: Option<u64>,
    sizes: KnownSizes,
    /// Stops reading early, if somebody asks for it.
    stop: Option<StopSignal>,
}

/// Holds what the requests tell about cache sizes that depend on them.
#[derive(Clone, Debug)]
enum KnownSizes {
    /// Nothing.
    Unknown,
    /// Nothing yet.
    Later,
    /// Takes sizes from these findings.
    Found(Arc<PassFindings>),
}

impl SimulatedRequests {
    /// Requests of that origin, in that window, so many times.
    pub(crate) const fn new(origin: RequestsOrigin, window: TraceWindow, repeat: u32) -> Self {
        Self { origin, window, part: None, repeat, counted: None, sizes: KnownSizes::Unknown, stop: None }
    }

    /// Requests that are opened elsewhere and have this name.
    pub fn named(name: &str) -> Self {
        Self::new(RequestsOrigin::Named(name.to_owned()), TraceWindow::default(), 1)
    }

    /// The trace's file or the workload's name, as the user gave it.
    pub fn name(&self) -> String {
        match &self.origin {
            RequestsOrigin::File { file, .. } => path_text::of(file),
            RequestsOrigin::Workload(workload) => workload.name().to_owned(),
            RequestsOrigin::Named(name) => name.clone(),
        }
    }

    /// The files that they are read from; `-` for the standard input.
    pub fn files(&self) -> Vec<PathBuf> {
        match &self.origin {
            RequestsOrigin::File { file, .. } => destage_trace::files(file),
            RequestsOrigin::Workload(workload) => workload.file().into_iter().map(Path::to_owned).collect(),
            RequestsOrigin::Named(_) => Vec::new(),
        }
    }

    /// All that decides about which requests these are, beside what the [files](Self::files) hold.
    pub fn identity(&self) -> String {
        let origin = match &self.origin {
            RequestsOrigin::File { options, .. } => format!("file {options:?}"),
            RequestsOrigin::Workload(workload) => format!("workload {:?} {:?}", workload.name(), workload.changes()),
            RequestsOrigin::Named(name) => format!("named {name:?}"),
        };
        let part = self.part.map_or_else(String::new, |part| format!(" {part:?}"));
        format!("{origin} {:?} {}{part}", self.window, self.repeat)
    }

    /// Checks that results of runs over these requests can be kept and reused.
    ///
    /// # Errors
    /// Refuses a latency log, which only a simulation writes, and pipes, whose content cannot be compared
    /// with an earlier run's. The error says what to give instead.
    pub fn check_resume(&self, settings: &ScenarioSettings) -> Result<()> {
        if LATENCY_LOG.is_given(settings) {
            return Err(ScenarioError::new(
                "'resume' and 'latency-log' do not go together: what is known from before is not simulated again, and the log is \
                 written by simulating; leave one of them out",
            ));
        }
        match self.pipe() {
            Some(pipe) => {
                let what = "resume: a pipe can be read only once, so that nobody can tell whether it holds what it held before: \
                            give a file";
                Err(ScenarioError::new(what).at(pipe.display()))
            }
            None => Ok(()),
        }
    }

    /// The same requests, which cannot be read any further once this tells to end.
    #[must_use]
    pub fn until(self, stop: StopSignal) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Is true if the requests can be read more than once, that is, no pipe is among their files.
    pub fn can_be_read_again(&self) -> bool {
        self.pipe().is_none()
    }

    /// Begins to read or generate them; the standard input can be read only in the first pass, 0.
    pub fn open(&self, pass: u32) -> std::result::Result<OpenedInput, TraceError> {
        let input = self.open_once(pass)?;
        // One pass needs no reopening, so that a pipe will do.
        if self.repeat == 1 {
            return Ok(input);
        }
        let (again, mut first) = (self.clone(), Some(input.source));
        let open: ReopenTrace = Box::new(move || match first.take() {
            Some(source) => Ok(source),
            None => again.open_once(1).map(|input| input.source),
        });
        Ok(OpenedInput { source: Box::new(RepeatedTrace::new(open, self.repeat)?), format: input.format })
    }

    /// The same, one time.
    fn open_once(&self, pass: u32) -> std::result::Result<OpenedInput, TraceError> {
        let mut input = self.open_all(pass)?;
        if let Some(stop) = &self.stop {
            // Below the window, which may leave out most of them.
            input = stop.input(input);
        }
        for window in [Some(self.window), self.part].into_iter().flatten().filter(|window| !window.is_all()) {
            // The part is counted within the window that was asked for.
            input.source = Box::new(WindowedTrace::new(input.source, Path::new(&self.name()), window));
        }
        Ok(input)
    }

    /// Of one time that they come, so many from one on. There have to be that many.
    #[must_use]
    pub fn part(&self, first: u64, requests: u64) -> Self {
        let part = TraceWindow { skip: first, limit: Some(requests), ..TraceWindow::default() };
        Self { part: Some(part), repeat: 1, counted: Some(requests), ..self.clone() }
    }

    /// Requests before the part that these are of others, and of it.
    pub fn parted(&self) -> Option<(u64, u64)> {
        self.part.and_then(|part| Some((part.skip, part.limit?)))
    }

    /// Returns how many times the requests are replayed.
    pub fn repeat(&self) -> u32 {
        self.repeat
    }

    /// The same, without regard to the window.
    fn open_all(&self, pass: u32) -> std::result::Result<OpenedInput, TraceError> {
        match &self.origin {
            RequestsOrigin::File { file, .. } if pass > 0 && file == Path::new("-") => Err(TraceError::new(
                file,
                FilePlace::File,
                "the standard input can be read only once, and these devices do not fit into memory together; \
                 raise --memory, run fewer policies and sizes at a time, or give a file",
            )),
            RequestsOrigin::File { file, options } => {
                let trace = destage_trace::open(file, options)?;
                Ok(OpenedInput { format: trace.format().name().to_owned(), source: Box::new(trace) })
            }
            RequestsOrigin::Workload(workload) => {
                let failed = |error: ScenarioError| {
                    TraceError::new(Path::new(workload.name()), FilePlace::File, error.to_string())
                };
                Ok(OpenedInput { format: "workload".to_owned(), source: Box::new(workload.open().map_err(failed)?) })
            }
            RequestsOrigin::Named(name) => Err(TraceError::new(Path::new(name), FilePlace::File, "is not read here")),
        }
    }

    /// Returns true if the settings need the number of requests: if a warm-up is a share of them.
    ///
    /// # Errors
    /// Fails if the requests come from a pipe, since a count takes a pass of its own.
    pub(crate) fn needs_count(&self, settings: &ScenarioSettings) -> Result<bool> {
        // A pass over the trace is spared wherever the number of requests is not asked for.
        let needs = matches!(WARMUP.get(settings)?, GivenWarmup::Share(_));
        match self.pipe() {
            Some(pipe) if needs => {
                let what = "a share of the requests is known only when all have been counted, and a pipe can be read only once: \
                            give a file, or a number of requests or a time";
                Err(ScenarioError::new(format_args!("warmup: {what}")).at(pipe.display()))
            }
            _ => Ok(needs),
        }
    }

    /// The same, of which there are so many.
    #[must_use]
    pub fn of_count(&self, requests: u64) -> Self {
        Self { counted: Some(requests), ..self.clone() }
    }

    /// Returns true if cache sizes in the settings depend on what the requests touch.
    ///
    /// # Errors
    /// Fails if the requests come from a pipe, since the sizes take a pass of their own.
    pub(crate) fn needs_sizes(&self, settings: &ScenarioSettings) -> Result<bool> {
        let needs = CACHE.all(settings)?.iter().any(|size| size.needs_trace());
        match self.pipe() {
            Some(pipe) if needs => {
                let what = "shares of the footprint and auto are known only when the trace has been read, and a pipe can be read only \
                            once: give a file, or sizes";
                Err(ScenarioError::new(format_args!("cache: {what}")).at(pipe.display()))
            }
            _ => Ok(needs),
        }
    }

    /// The same before sizes are found: caches have none yet.
    #[must_use]
    pub fn before_sizes(&self) -> Self {
        Self { sizes: KnownSizes::Later, ..self.clone() }
    }

    /// This is what the requests touch.
    pub(crate) fn sized(&mut self, found: PassFindings) {
        self.sizes = KnownSizes::Found(Arc::new(found));
    }

    /// The same of what was found before.
    pub(crate) fn sized_as(&self, found: Arc<PassFindings>) -> Self {
        Self { sizes: KnownSizes::Found(found), ..self.clone() }
    }

    /// Returns the number of requests of one replay, once they were counted.
    pub fn counted(&self) -> Option<u64> {
        self.counted
    }

    fn found(&self) -> Option<&PassFindings> {
        match &self.sizes {
            KnownSizes::Found(found) => Some(found),
            KnownSizes::Unknown | KnownSizes::Later => None,
        }
    }

    /// The sizes of caches that the settings ask for; `None` before those that depend on the requests are found.
    pub(crate) fn caches(&self, settings: &ScenarioSettings, page: u64) -> Result<Option<Vec<u64>>> {
        let asked = CACHE.all(settings)?;
        if matches!(self.sizes, KnownSizes::Later) && asked.iter().any(|size| size.needs_trace()) {
            return Ok(None);
        }
        let chosen = sizes::chosen(&asked, page, self.found());
        chosen.map(Some).map_err(|right| ScenarioError::new(format_args!("cache: {right}")))
    }

    /// Returns the part of a result that says how sizes were chosen.
    ///
    /// # Errors
    /// Fails if a size is none; building the experiment reports the same error.
    pub fn sizes_result(&self, settings: &ScenarioSettings, caches: &[u64]) -> Result<Option<SizesResult>> {
        let asked = CACHE.all_by(settings, parsed::<String>)?.join(",");
        Ok(sizes::result(&asked, &CACHE.all(settings)?, caches, self.found()))
    }

    /// Reads them all to count them; `progress` is told the share of the trace and the requests read.
    pub(crate) fn count(&mut self, progress: &mut dyn FnMut(Option<f64>, u64)) -> std::result::Result<(), TraceError> {
        let mut source = self.open_once(0)?.source;
        let (mut batch, mut requests) = (Vec::new(), 0);
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            requests += batch.len() as u64;
            progress(source.progress(), requests);
        }
        self.counted = Some(requests);
        Ok(())
    }

    /// Returns the largest number of requests to simulate, over all replays.
    pub(crate) fn limit(&self, settings: &ScenarioSettings) -> Result<Option<u64>> {
        Ok(LIMIT.optional(settings)?.map(|limit| limit.saturating_mul(self.repeat.into())))
    }

    /// Returns the first of the files that can be read only once: the standard input or a pipe.
    pub(crate) fn pipe(&self) -> Option<PathBuf> {
        let RequestsOrigin::File { file, .. } = &self.origin else { return None };
        if file == Path::new("-") {
            return Some("standard input".into());
        }
        // What is wrong with a file that is not there is told when it is opened.
        let once = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|of| !of.is_file() && !of.is_dir());
        destage_trace::files(file).into_iter().find(once)
    }

    /// The warm-up that the settings ask for.
    pub(crate) fn warmup(&self, settings: &ScenarioSettings) -> Result<WarmupPart> {
        match (WARMUP.get(settings)?, self.counted) {
            (GivenWarmup::Known(warmup), _) => Ok(warmup),
            (GivenWarmup::Share(share), Some(requests)) => {
                // A share of a short trace may come to no request at all.
                let warm = u128::from(requests) * u128::from(share) / 10_000;
                Ok(if warm == 0 { WarmupPart::None } else { WarmupPart::Requests(warm as u64) })
            }
            (GivenWarmup::Share(_), None) => Err(ScenarioError::new(
                "warmup: a share of the requests has no meaning here, since they are not counted: give a number or a time",
            )),
        }
    }

    /// Checks that the settings ask nothing of the requests that their source cannot do.
    pub(crate) fn check(&self, settings: &ScenarioSettings) -> Result<()> {
        match (&self.origin, READING.iter().find(|key| settings.is_given(key))) {
            (RequestsOrigin::Named(name), Some(key)) => {
                Err(ScenarioError::new(format_args!("'{}' has no meaning here: {name} is taken as it is", key.name)))
            }
            _ => Ok(()),
        }
    }
}
