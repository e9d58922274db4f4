//! Runs on the workers of a Dask scheduler, which Python knows how to ask (`python/destage/_cluster.py`).
//!
//! Each line that Python reads is a group, with a number; each that it writes is what became of one. The first that it
//! writes says that a scheduler answers.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use clap::Arg;
use destage_report::ReportRun;
use destage_sweep::{RemoteRunner, SweepError, SweepGroup, program};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::signals;

/// Names the Python that has the package.
const PYTHON: &str = "DESTAGE_PYTHON";

/// The flag that names a scheduler.
pub fn arg() -> Arg {
    Arg::new("on")
        .long("on")
        .value_name("tcp://HOST:PORT")
        .conflicts_with("threads")
        .help("Run on the workers of this Dask scheduler, through the Python package (DESTAGE_PYTHON names the Python)")
}

/// Has Python call `main` of a module of the package with these arguments. What is missing of the package is told in the
/// form in which results are.
pub fn python(module: &str, arguments: impl FnOnce(&mut Command), stdin: Stdio) -> Result<(Child, String)> {
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    let name = Path::new(&python).display().to_string();
    let main = format!(
        "import json, sys\ntry:\n    from {module} import main\nexcept ImportError as error:\n    \
         print(json.dumps({{'missing': str(error)}}))\nelse:\n    sys.exit(main(sys.argv[1:]))\n"
    );
    let mut call = Command::new(&python);
    arguments(call.arg("-c").arg(main));
    let child = call.args(["--program", program()]).stdin(stdin).stdout(Stdio::piped()).spawn();
    let child = child.with_context(|| format!("{name} cannot be started; {PYTHON} names another Python"))?;
    // A signal to this program alone would leave Python at work on the cluster.
    end_along(&child);
    Ok((child, name))
}

/// Returns the error where Python lacks something, with what to do.
pub fn missing(name: &str, what: &str) -> anyhow::Error {
    anyhow!(
        "{name} has not all that --on needs ({what}): install the package with Dask, `pip install '.[dask]'` in a checkout of \
         destage, or name a Python that has it in {PYTHON}"
    )
}

/// A signal that ends this program ends the child too.
fn end_along(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    signals::call(move |signal| {
        if let Some(pid) = pid {
            // The child may be gone already.
            let _ = kill_process(pid, Signal::TERM);
        }
        signals::end_now(signal);
    });
}

/// A group that is asked for.
#[derive(Serialize)]
struct AskedGroup<'a> {
    number: u64,
    name: &'a str,
    runs: usize,
    group: &'a str,
}

/// A line of Python's.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum WorkerMessage {
    Ready {},
    Missing(String),
    Error(String),
    Done { number: u64, results: String },
    Failed { number: u64, error: String },
}

/// Holds the results of a group as JSON, or the reason for which there are none.
type GroupResult = Result<String, String>;

/// Maps groups to their waiting threads; an error, with the reason, once nothing comes any more.
type WaitingGroups = Result<HashMap<u64, SyncSender<GroupResult>>, String>;

/// The workers of a scheduler.
pub struct SchedulerWorkers {
    child: Child,
    to: Mutex<Option<ChildStdin>>,
    waiting: Arc<Mutex<WaitingGroups>>,
    next: Mutex<u64>,
    reader: Option<JoinHandle<()>>,
}

/// Locks a state, which is used even after a panic of another thread.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SchedulerWorkers {
    /// Connects to the scheduler at this address, once it answers.
    ///
    /// # Errors
    /// If Python, the package or the scheduler cannot be had.
    pub fn of(scheduler: &str) -> Result<Self> {
        let with = |call: &mut Command| {
            call.args(["--on", scheduler]);
        };
        let (mut child, name) = python("destage._cluster", with, Stdio::piped())?;
        let to = child.stdin.take();
        let mut from = BufReader::new(child.stdout.take().context("it has an output")?);
        let mut first = String::new();
        from.read_line(&mut first)?;
        match serde_json::from_str(&first) {
            Ok(WorkerMessage::Ready {}) => {}
            told => {
                let status = child.wait()?;
                match told {
                    Ok(WorkerMessage::Missing(what)) => return Err(missing(&name, &what)),
                    Ok(WorkerMessage::Error(error)) => bail!(error),
                    _ => bail!("{name} ended with {status} and without results"),
                }
            }
        }
        let waiting = Arc::new(Mutex::new(WaitingGroups::Ok(HashMap::new())));
        let known = Arc::clone(&waiting);
        let reader = std::thread::Builder::new().name("workers".into()).spawn(move || read(from, &name, &known))?;
        Ok(Self { child, to: Mutex::new(to), waiting, next: Mutex::new(0), reader: Some(reader) })
    }

    /// Has a group simulated, and waits for its results.
    fn ask(&self, group: &SweepGroup) -> GroupResult {
        let number = {
            let mut next = lock(&self.next);
            *next += 1;
            *next
        };
        let (tell, hear) = sync_channel(1);
        // Registered before the line is written, since the answer may come at once.
        match &mut *lock(&self.waiting) {
            Ok(waiting) => waiting.insert(number, tell),
            Err(why) => return Err(why.clone()),
        };
        let (name, text) = (group.name(), group.text());
        let asked = AskedGroup { number, name: &name, runs: group.runs(), group: &text };
        let mut line = serde_json::to_vec(&asked).map_err(|error| error.to_string())?;
        line.push(b'\n');
        if let Some(to) = &mut *lock(&self.to) {
            // If Python has ended, the reader reports it to everybody who waits.
            let _ = to.write_all(&line).and_then(|()| to.flush());
        }
        hear.recv().unwrap_or_else(|_| Err("Python has ended".to_owned()))
    }
}

/// Hands on what Python says, until it says no more.
fn read(from: impl BufRead, name: &str, waiting: &Mutex<WaitingGroups>) {
    let mut why = format!("{name} has ended, and nobody runs what is left");
    for line in from.lines().map_while(Result::ok) {
        let (number, brought) = match serde_json::from_str(&line) {
            Ok(WorkerMessage::Done { number, results }) => (number, Ok(results)),
            Ok(WorkerMessage::Failed { number, error }) => (number, Err(error)),
            Ok(WorkerMessage::Error(error)) => {
                why = error;
                break;
            }
            _ => {
                why = format!("{name} says what nobody understands: {line:.80}");
                break;
            }
        };
        if let Ok(waiting) = &mut *lock(waiting)
            && let Some(tell) = waiting.remove(&number)
        {
            // Whoever asked may have given up.
            let _ = tell.send(brought);
        }
    }
    // From here on nobody is added, and everybody who waits is told, so no thread waits for ever.
    if let Ok(waiting) = std::mem::replace(&mut *lock(waiting), Err(why.clone())) {
        for tell in waiting.into_values() {
            let _ = tell.send(Err(why.clone()));
        }
    }
}

impl RemoteRunner for SchedulerWorkers {
    fn whole(&self, group: &SweepGroup) -> Result<Vec<ReportRun>, SweepError> {
        let results = self.ask(group).map_err(SweepError::new)?;
        destage_report::read("a worker's results", results.as_bytes()).map_err(SweepError::new)
    }
}

impl Drop for SchedulerWorkers {
    /// Without its input Python ends, and drops what is asked for still.
    fn drop(&mut self) {
        lock(&self.to).take();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
