//! The log of what became of each request, written while it is simulated.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use destage_report::{ColumnKind, LATENCY_LOG, ResultColumn, TableCell, TableWriter};
use destage_sim::measure::{LoggedRequest, RequestLog};

use crate::output::NewFile;

/// Rows that are held until they are written together; in Parquet a row group.
const ROWS: usize = 1 << 15;

/// A log that the simulation writes and the command completes.
#[derive(Clone)]
pub struct LatencyLog(Arc<Mutex<LogState>>);

struct LogState {
    /// None once it was completed.
    file: Option<TableWriter<NewFile>>,
    /// Policy and size of the run.
    run: [TableCell; 2],
    columns: Vec<ResultColumn>,
    error: Option<io::Error>,
}

impl LatencyLog {
    /// A log into this file, in the form that its name says.
    pub fn begin(file: NewFile, path: &Path) -> Result<Self> {
        // The name decides, since both forms can be wanted under any option.
        let is_parquet = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
        let file = if is_parquet {
            TableWriter::parquet(file, "requests", &LATENCY_LOG)?
        } else {
            TableWriter::csv(file, &LATENCY_LOG)?
        };
        let column = |(name, kind): (&str, ColumnKind)| ResultColumn {
            name: name.to_owned(),
            is_text: kind == ColumnKind::Text,
            cells: Vec::new(),
        };
        let columns = LATENCY_LOG.into_iter().map(column).collect();
        let run = [TableCell::Null, TableCell::Null];
        Ok(Self(Arc::new(Mutex::new(LogState { file: Some(file), run, columns, error: None }))))
    }

    /// The complete file.
    ///
    /// # Errors
    /// Where not all of it could be written.
    pub fn finish(&self) -> Result<Option<NewFile>> {
        let mut state = self.state();
        state.write();
        if let Some(error) = state.error.take() {
            return Err(error.into());
        }
        Ok(state.file.take().map(TableWriter::finish).transpose()?)
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    /// Writes what is held.
    fn write(&mut self) {
        let LogState { file, columns, error, .. } = self;
        if let (Some(file), None, true) = (file, &error, columns.iter().any(|column| !column.cells.is_empty())) {
            // The first error is kept for the end, and the log tells the simulation to stop.
            *error = file.write(columns).err();
        }
        for column in columns {
            column.cells.clear();
        }
    }

    fn add(&mut self, request: &LoggedRequest) {
        let [policy, cache] = self.run.clone();
        let row = [
            policy,
            cache,
            TableCell::Integer(request.request),
            TableCell::Integer(request.arrival.0),
            TableCell::Integer(request.volume.into()),
            TableCell::Integer(request.offset),
            TableCell::Integer(request.bytes),
            TableCell::Text(request.op.word().to_owned()),
            request.response.map_or(TableCell::Null, |time| TableCell::Integer(time.0)),
            TableCell::Integer(request.pages),
            request.hit_pages.map_or(TableCell::Null, TableCell::Integer),
            TableCell::Integer(request.gc_delayed.into()),
        ];
        for (column, cell) in self.columns.iter_mut().zip(row) {
            column.cells.push(cell);
        }
    }
}

impl RequestLog for LatencyLog {
    fn begin(&mut self, policy: &str, cache_bytes: Option<u64>) {
        self.state().run =
            [TableCell::Text(policy.to_owned()), cache_bytes.map_or(TableCell::Null, TableCell::Integer)];
    }

    fn take(&mut self, requests: &[LoggedRequest]) -> bool {
        let mut state = self.state();
        for request in requests {
            state.add(request);
            if state.columns[0].cells.len() == ROWS {
                state.write();
            }
        }
        // A simulation of hours whose log cannot be written would be for nothing.
        state.error.is_none()
    }
}
