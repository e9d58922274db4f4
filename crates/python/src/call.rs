//! Calls that take long: without the interpreter's lock, and until Ctrl-C.

use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

pub(crate) use destage_sim::experiment::StopSignal;
use pyo3::prelude::*;

use crate::raised;

/// Sets how often signals are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// Limits how long a call that was told to end is waited for.
///
/// It looks whether it is to end every few thousand requests or programs. Whoever has pressed Ctrl-C does not wait for
/// memory of many gigabytes to be laid out, or for a batch that is compressed.
const PATIENCE: Duration = Duration::from_millis(300);

/// Calls `long` on a thread of its own. A signal whose handler raises an exception, as that of Ctrl-C does, ends it.
///
/// # Errors
/// What the handler raised, and what `long` returned.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    stop: &StopSignal,
    long: impl FnOnce() -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = sync_channel(1);
    // The calling thread may have given up by then.
    let body = move || drop(sender.send(long()));
    let thread = std::thread::Builder::new().name("destage".into()).spawn(body);
    thread.map_err(|error| raised(format_args!("cannot start threads: {error}")))?;
    // Without the interpreter's lock this thread may use only what any thread could.
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
        // Signals reach Python only on its main thread, and only while that holds the lock.
        let signal = py.check_signals().err();
        match (interrupted.take(), signal) {
            (Some((error, since)), None) if since.elapsed() < PATIENCE => interrupted = Some((error, since)),
            // A second Ctrl-C, or the end of the patience: the thread goes on alone, and its result is dropped.
            (Some((error, _)), _) => return Err(error),
            (None, Some(error)) => {
                stop.now();
                interrupted = Some((error, Instant::now()));
            }
            (None, None) => {}
        }
    }
}
