//! Calls that take long: without the interpreter's lock, and until Ctrl-C.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use destage_plan::{Nanos, Request};
use destage_sim::experiment::Input;
use destage_trace::{Place, Skipped, Source, TraceError};
use pyo3::prelude::*;

use crate::raised;

/// How often signals are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// What was told to end is waited for so long. It ends at its next batch of requests anyway, but who has pressed Ctrl-C
/// does not wait for a device of terabytes to be aged.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tells a call that it is to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Has the call end soon.
    pub(crate) fn now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_now(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The source, which fails once the call is to end.
    pub(crate) fn source<'a>(&self, inner: Box<dyn Source + 'a>) -> Stopped<'a> {
        Stopped { inner, stop: self.clone() }
    }

    /// The same of an input.
    pub(crate) fn input(&self, input: Input) -> Input {
        Input { source: Box::new(self.source(input.source)), format: input.format }
    }
}

/// Calls `long` on a thread of its own. A signal whose handler raises an exception, as that of Ctrl-C does, ends it.
///
/// # Errors
/// What the handler raised, and what `long` returned.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    stop: &Stop,
    long: impl FnOnce() -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = sync_channel(1);
    // Nobody may be left to hear it.
    let body = move || drop(sender.send(long()));
    let thread = std::thread::Builder::new().name("destage".into()).spawn(body);
    thread.map_err(|error| raised(format_args!("cannot start threads: {error}")))?;
    // While it lets go of the interpreter this thread may use only what any thread could.
    let receiver = Mutex::new(receiver);
    let mut interrupted: Option<(PyErr, Instant)> = None;
    loop {
        let heard = py.detach(|| receiver.lock().ok().map(|receiver| receiver.recv_timeout(LOOK)));
        match heard.unwrap_or(Err(RecvTimeoutError::Disconnected)) {
            Ok(result) => return interrupted.map_or(result, |(error, _)| Err(error)),
            Err(RecvTimeoutError::Disconnected) => {
                let panicked = || raised("the simulation panicked; what it said is on the standard error");
                return Err(interrupted.map_or_else(panicked, |(error, _)| error));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let signal = py.check_signals().err();
        match (interrupted.take(), signal) {
            (Some((error, since)), None) if since.elapsed() < PATIENCE => interrupted = Some((error, since)),
            (Some((error, _)), _) => return Err(error),
            (None, Some(error)) => {
                stop.now();
                interrupted = Some((error, Instant::now()));
            }
            (None, None) => {}
        }
    }
}

/// A source that fails once its call is to end.
pub(crate) struct Stopped<'a> {
    inner: Box<dyn Source + 'a>,
    stop: Stop,
}

impl Source for Stopped<'_> {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        if self.stop.is_now() {
            out.clear();
            return Err(TraceError::new(
                Path::new("trace"),
                Place::File,
                "is not read any further: the call was stopped",
            ));
        }
        self.inner.next_batch(out)
    }

    fn latencies(&mut self, out: &mut Vec<Nanos>) -> Result<bool, TraceError> {
        self.inner.latencies(out)
    }

    fn volume_names(&self) -> &[String] {
        self.inner.volume_names()
    }

    fn skipped(&self) -> Skipped {
        self.inner.skipped()
    }

    fn outside(&self) -> u64 {
        self.inner.outside()
    }

    fn len_hint(&self) -> Option<u64> {
        self.inner.len_hint()
    }

    fn progress(&self) -> Option<f64> {
        self.inner.progress()
    }
}
