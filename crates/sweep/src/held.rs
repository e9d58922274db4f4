//! Requests of traces, held in memory once they have been read, so that further groups over them need not read them
//! again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use destage_plan::Request;
use destage_scenario::sim::SimulatedRequests;
use destage_sim::experiment::OpenedInput;
use destage_sim::measure::TraceCharacteristics;
use destage_trace::{BATCH_REQUESTS, ClockWraps, SkippedLines, ThroughSource, TraceError, TraceSource};

/// Requests that are held at most, of all traces together: 160 MB.
const MOST: usize = 1 << 22;

/// A trace that was read to its end.
struct HeldTrace {
    id: String,
    format: String,
    requests: Vec<Request>,
    volume_names: Vec<String>,
    skipped: SkippedLines,
    clock_wraps: ClockWraps,
    passed_over: u64,
    outside: u64,
}

/// Those that are held, the one that was used last at the end.
static HELD: Mutex<Vec<Arc<HeldTrace>>> = Mutex::new(Vec::new());
/// Holds the characteristics of traces, by identity: everything that decides about a trace's requests.
static LIKE: Mutex<Option<HashMap<String, TraceCharacteristics>>> = Mutex::new(None);

/// Opens the requests, or takes those that are held under this name, which has to stand for all that decides about them.
///
/// # Errors
/// If they cannot be opened.
pub(crate) fn open(requests: &SimulatedRequests, id: &str, pass: u32) -> Result<OpenedInput, TraceError> {
    let known = {
        let mut all = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|held| held.id == id);
        at.map(|at| {
            let held = all.remove(at);
            // The list is in order of use, so the first one is dropped when room is short.
            all.push(Arc::clone(&held));
            held
        })
    };
    if let Some(held) = known {
        let format = held.format.clone();
        return Ok(OpenedInput { source: Box::new(RepeatedRead { held, taken: 0 }), format });
    }
    let input = requests.open(pass)?;
    let gathered = Some(Vec::new());
    let mut first = FirstRead { gathered, id: id.to_owned(), format: input.format.clone() };
    let source = ThroughSource::new(input.source, move |inner, out| first.next_batch(inner, out));
    Ok(OpenedInput { source: Box::new(source), format: input.format })
}

/// Returns a trace's characteristics, if they are known; `remember` stores them first.
pub(crate) fn like(id: &str, remember: Option<&TraceCharacteristics>) -> Option<TraceCharacteristics> {
    let mut all = LIKE.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if let Some(like) = remember {
        all.insert(id.to_owned(), like.clone());
    }
    all.get(id).cloned()
}

/// Gathers the requests of a source that is read for the first time.
struct FirstRead {
    /// None once there are too many.
    gathered: Option<Vec<Request>>,
    id: String,
    format: String,
}

impl FirstRead {
    fn next_batch(&mut self, inner: &mut dyn TraceSource, out: &mut Vec<Request>) -> Result<(), TraceError> {
        // A part of a trace must not be taken for the whole.
        if let Err(error) = inner.next_batch(out) {
            self.gathered = None;
            return Err(error);
        }
        if !out.is_empty() {
            let room = |gathered: &Vec<Request>| gathered.len() + out.len() <= MOST;
            // A trace that does not fit is read each time: half of it in memory would help nobody.
            self.gathered = self.gathered.take().filter(room);
            if let Some(gathered) = &mut self.gathered {
                gathered.extend_from_slice(out);
            }
        } else if let Some(requests) = self.gathered.take() {
            let held = HeldTrace {
                id: std::mem::take(&mut self.id),
                format: std::mem::take(&mut self.format),
                requests,
                volume_names: inner.volume_names().to_vec(),
                skipped: inner.skipped(),
                clock_wraps: inner.clock_wraps(),
                passed_over: inner.passed_over(),
                outside: inner.outside(),
            };
            let mut all = HELD.lock().unwrap_or_else(PoisonError::into_inner);
            // Two lanes may have read the same trace at the same time.
            all.retain(|other| other.id != held.id);
            all.push(Arc::new(held));
            while all.iter().map(|held| held.requests.len()).sum::<usize>() > MOST {
                all.remove(0);
            }
        }
        Ok(())
    }
}

/// A source that was read before.
struct RepeatedRead {
    held: Arc<HeldTrace>,
    taken: usize,
}

impl TraceSource for RepeatedRead {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        out.clear();
        let left = &self.held.requests[self.taken..];
        out.extend_from_slice(&left[..left.len().min(BATCH_REQUESTS)]);
        self.taken += out.len();
        Ok(())
    }

    fn volume_names(&self) -> &[String] {
        &self.held.volume_names
    }

    fn clock_wraps(&self) -> ClockWraps {
        self.held.clock_wraps
    }

    fn passed_over(&self) -> u64 {
        self.held.passed_over
    }

    fn skipped(&self) -> SkippedLines {
        self.held.skipped.clone()
    }

    fn outside(&self) -> u64 {
        self.held.outside
    }

    fn len_hint(&self) -> Option<u64> {
        Some(self.held.requests.len() as u64)
    }

    fn progress(&self) -> Option<f64> {
        Some(self.taken as f64 / self.held.requests.len().max(1) as f64)
    }
}
