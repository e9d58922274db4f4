//! Collects what became of each request, column by column, as it is simulated.

use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::builder::{BooleanBuilder, StringViewBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use destage_plan::Nanos;
use destage_report::LATENCY_LOG;
use destage_sim::measure::{LoggedRequest, RequestLog};
use pyo3::prelude::*;

use crate::arrow::{Table, field};
use crate::raised;

/// Rows of a batch. A batch is never copied, so that a table's memory is that of its rows.
const ROWS: usize = 1 << 20;
/// Lists the columns that tell runs apart in the log of the command line: there is one run here.
const OF_RUN: [&str; 2] = ["policy", "cache_bytes"];

/// The columns that there are.
fn names() -> impl Iterator<Item = &'static str> {
    // Policy and size are the same in all rows of a run, so they are no columns of its table.
    LATENCY_LOG.iter().map(|(name, _)| *name).filter(|name| !OF_RUN.contains(name))
}

/// A column in the making.
enum Building {
    U64(UInt64Builder, fn(&LoggedRequest) -> Option<u64>),
    U32(UInt32Builder, fn(&LoggedRequest) -> u32),
    Flag(BooleanBuilder, fn(&LoggedRequest) -> bool),
    Text(StringViewBuilder, fn(&LoggedRequest) -> &'static str),
}

impl Building {
    /// The column of this name.
    fn begin(name: &str) -> Self {
        let whole = |of| Self::U64(UInt64Builder::new(), of);
        match name {
            "request" => whole(|request| Some(request.request)),
            "arrival_ns" => whole(|request| Some(request.arrival.0)),
            "volume" => Self::U32(UInt32Builder::new(), |request| request.volume),
            "offset" => whole(|request| Some(request.offset)),
            "bytes" => whole(|request| Some(request.bytes)),
            "kind" => Self::Text(StringViewBuilder::new(), |request| request.op.word()),
            "response_ns" => whole(|request| request.response.map(|Nanos(ns)| ns)),
            "pages" => whole(|request| Some(request.pages)),
            "hit_pages" => whole(|request| request.hit_pages),
            "gc_delayed" => Self::Flag(BooleanBuilder::new(), |request| request.gc_delayed),
            _ => unreachable!("{name} is no column of the log of requests"),
        }
    }

    fn field(&self, name: &str) -> Field {
        let unit = match name {
            "arrival_ns" | "response_ns" => "ns",
            "offset" | "bytes" => "B",
            "volume" | "kind" => "-",
            _ => "1",
        };
        let kind = match self {
            Self::U64(..) => DataType::UInt64,
            Self::U32(..) => DataType::UInt32,
            Self::Flag(..) => DataType::Boolean,
            Self::Text(..) => DataType::Utf8View,
        };
        field(name, kind, unit, matches!(name, "response_ns" | "hit_pages"))
    }

    fn add(&mut self, requests: &[LoggedRequest]) {
        match self {
            Self::U64(column, of) => requests.iter().for_each(|request| column.append_option(of(request))),
            Self::U32(column, of) => requests.iter().for_each(|request| column.append_value(of(request))),
            Self::Flag(column, of) => requests.iter().for_each(|request| column.append_value(of(request))),
            Self::Text(column, of) => requests.iter().for_each(|request| column.append_value(of(request))),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::U64(column, _) => Arc::new(column.finish()),
            Self::U32(column, _) => Arc::new(column.finish()),
            Self::Flag(column, _) => Arc::new(column.finish()),
            Self::Text(column, _) => Arc::new(column.finish()),
        }
    }
}

struct State {
    schema: Arc<Schema>,
    columns: Vec<Building>,
    rows: usize,
    batches: Vec<RecordBatch>,
}

impl State {
    fn cut(&mut self) {
        if take(&mut self.rows) > 0 {
            let arrays = self.columns.iter_mut().map(Building::finish).collect();
            let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
            self.batches.push(batch.expect("all columns have as many rows"));
        }
    }
}

/// A log that a simulation writes and a call takes.
#[derive(Clone)]
pub(crate) struct Latencies(Arc<Mutex<State>>);

impl Latencies {
    /// A log with these columns, or with all that there are.
    ///
    /// # Errors
    /// Where there is no such column.
    pub(crate) fn begin(wanted: Option<Vec<String>>) -> PyResult<Self> {
        let wanted = wanted.unwrap_or_else(|| names().map(str::to_owned).collect());
        if let Some(unknown) = wanted.iter().find(|&name| names().all(|known| known != name)) {
            let known = names().collect::<Vec<_>>().join(", ");
            return Err(raised(format_args!("latencies: there is no column '{unknown}', only {known}")));
        }
        let columns: Vec<_> = wanted.iter().map(|name| Building::begin(name)).collect();
        let fields: Vec<_> = columns.iter().zip(&wanted).map(|(column, name)| column.field(name)).collect();
        let state = State { schema: Arc::new(Schema::new(fields)), columns, rows: 0, batches: Vec::new() };
        Ok(Self(Arc::new(Mutex::new(state))))
    }

    /// Returns the requests that were logged.
    pub(crate) fn table(&self) -> Table {
        let mut state = self.state();
        state.cut();
        Table::new(Arc::clone(&state.schema), take(&mut state.batches))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has left whole rows, which are still true.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestLog for Latencies {
    fn begin(&mut self, _: &str, _: Option<u64>) {}

    fn take(&mut self, requests: &[LoggedRequest]) -> bool {
        let mut state = self.state();
        let mut left = requests;
        while !left.is_empty() {
            // Batches are cut at a fixed number of rows, so none has to be copied as it grows.
            let (now, later) = left.split_at(left.len().min(ROWS - state.rows));
            state.columns.iter_mut().for_each(|column| column.add(now));
            state.rows += now.len();
            if state.rows == ROWS {
                state.cut();
            }
            left = later;
        }
        true
    }
}
