//! Traces: read, written, made up and described.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, StringViewBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use destage_plan::{Nanos, Op, PageGeometry, Request};
use destage_report::TraceDescription;
use destage_scenario::quantity as q;
use destage_scenario::synth::SYNTH;
use destage_scenario::{synth as made_up, workload};
use destage_trace::{
    BATCH_REQUESTS, CopyError, EXPORTS, ExportSpec, FORMATS, FormatId, FormatSpec, LATENCY_UNKNOWN, LocalityOf,
    NATIVE_DEFAULT_LEVEL, OpenOptions, SynthTrace, TraceError, TraceSource,
};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::{field, stream};
use crate::call::{self, StopSignal};
use crate::file::{NewFile, failed, folder};
use crate::{raised, settings};

/// A trace's file, and how it is read. It is opened anew whenever it is used.
#[pyclass(frozen, module = "destage")]
#[derive(Clone)]
pub(crate) struct Trace {
    path: PathBuf,
    options: OpenOptions,
    /// The format as it is, given or found.
    format: String,
}

impl Trace {
    fn open(&self) -> Result<destage_trace::TraceRequests, TraceError> {
        destage_trace::open(&self.path, &self.options)
    }
}

#[pymethods]
impl Trace {
    #[new]
    #[pyo3(signature = (path, format=None, lenient=false))]
    fn new(py: Python<'_>, path: PathBuf, format: Option<&str>, lenient: bool) -> PyResult<Self> {
        let format = format.map(str::parse::<FormatSpec>).transpose();
        let format = format.map_err(|error| raised(format_args!("--format: {error}")))?;
        let options = OpenOptions { format, lenient };
        // The file is opened here, so an error is raised where the trace is named.
        let opened = py.detach(|| destage_trace::open(&path, &options)).map_err(raised)?;
        let format = opened.format_spec().to_string();
        Ok(Self { path, options, format })
    }

    /// The file.
    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the format with its options, as `format=` takes it.
    #[getter]
    fn format(&self) -> &str {
        &self.format
    }

    /// Returns true if lines that cannot be read are left out.
    #[getter]
    fn lenient(&self) -> bool {
        self.options.lenient
    }

    /// Describes the trace, as the JSON of `destage trace stat --json` does.
    #[pyo3(signature = (page, locality=None))]
    fn _stat(&self, py: Python<'_>, page: &str, locality: Option<&str>) -> PyResult<String> {
        let bytes = q::bytes(page).map_err(|right| raised(format_args!("--page {page}: {right}")))?;
        let geometry = PageGeometry::new(bytes, 64).map_err(|error| raised(format_args!("--page: {error}")))?;
        let locality = match locality {
            None => None,
            Some("writes") => Some(LocalityOf::Writes),
            Some("reads") => Some(LocalityOf::Reads),
            Some("both") => Some(LocalityOf::Both),
            Some(other) => return Err(raised(format_args!("locality = '{other}': one of writes, reads, both"))),
        };
        // A call that is interrupted may return before its thread has ended, so the thread owns all that it uses.
        let (trace, stop) = (self.clone(), StopSignal::default());
        let file = self.path.display().to_string();
        let told = stop.clone();
        call::run(py, &stop, move || {
            let opened = trace.open().map_err(raised)?;
            let format = opened.format().name();
            let mut source = told.source(Box::new(opened));
            let described = TraceDescription::of(&file, format, &mut *source, geometry, locality).map_err(raised)?;
            Ok(described.as_json().to_string())
        })
    }

    /// Arrow's stream of the requests, batch by batch.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        // Each stream opens the file anew, so a trace can be read any number of times.
        let source: Box<dyn TraceSource> = Box::new(self.open().map_err(raised)?);
        stream(py, Box::new(Batches { source, schema: schema(), requests: Vec::new(), latencies: Vec::new() }))
    }

    /// Writes it to another file; returns how many requests that has.
    #[pyo3(signature = (path, format=None, level=None))]
    fn write(&self, py: Python<'_>, path: PathBuf, format: Option<&str>, level: Option<i32>) -> PyResult<u64> {
        let format = format.filter(|format| !FormatId::Native.is_called(format));
        let spec = format.map(str::parse::<ExportSpec>).transpose();
        let spec = spec.map_err(|error| raised(format_args!("--to: {error}")))?;
        if let (Some(spec), Some(_)) = (&spec, level) {
            return Err(raised(format_args!(
                "--level: only the native format is compressed; leave it out with --to {spec}"
            )));
        }
        let (trace, stop) = (self.clone(), StopSignal::default());
        let told = stop.clone();
        call::run(py, &stop, move || {
            let mut source = told.source(Box::new(trace.open().map_err(raised)?));
            let Some(spec) = spec else {
                return write_native(&mut *source, &path, level.unwrap_or(NATIVE_DEFAULT_LEVEL));
            };
            let copied = destage_trace::copy_export(&mut *source, NewFile::begin(&path)?, &spec, folder(&path));
            let (file, exported) = copied.map_err(|error| match error {
                CopyError::Export(error) => raised(format_args!("{}: {error}", trace.path.display())),
                other => not_copied(other, &path),
            })?;
            // The name appears only once all requests are written.
            file.commit()?;
            Ok(exported.report.written)
        })
    }

    fn __repr__(&self) -> String {
        format!("<destage.Trace {} ({})>", self.path.display(), self.format)
    }
}

fn not_copied(error: CopyError, to: &Path) -> PyErr {
    match error {
        CopyError::Write(error) => failed(to)(error),
        other => raised(other),
    }
}

/// Writes all of a source in the native format.
fn write_native(source: &mut dyn TraceSource, to: &Path, level: i32) -> PyResult<u64> {
    let copied = destage_trace::copy_native(source, NewFile::begin(to)?, level);
    let (file, requests) = copied.map_err(|error| not_copied(error, to))?;
    file.commit()?;
    Ok(requests)
}

/// Makes up a trace into a file; returns how many requests it has.
#[pyfunction]
pub(crate) fn synth(py: Python<'_>, path: PathBuf, given: Vec<(String, Vec<String>)>) -> PyResult<u64> {
    let settings = settings::of(SYNTH, None, given)?;
    let stop = StopSignal::default();
    let told = stop.clone();
    call::run(py, &stop, move || {
        let level = made_up::level(&settings).map_err(raised)?;
        let source: Box<dyn TraceSource> = match workload::named_by(&settings).map_err(raised)? {
            Some(workload) => Box::new(workload.open().map_err(raised)?),
            None => Box::new(SynthTrace::new(made_up::spec(&settings).map_err(raised)?).map_err(raised)?),
        };
        write_native(&mut *told.source(source), &path, level)
    })
}

/// Columns of requests, with as many values each.
#[derive(Default)]
struct Columns {
    requests: Vec<Request>,
    latencies: Option<Vec<Nanos>>,
    taken: usize,
}

impl TraceSource for Columns {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        let end = self.requests.len().min(self.taken + BATCH_REQUESTS);
        out.clear();
        out.extend_from_slice(&self.requests[self.taken..end]);
        self.taken = end;
        Ok(())
    }

    fn latencies(&mut self, out: &mut Vec<Nanos>) -> Result<bool, TraceError> {
        out.clear();
        let Some(latencies) = &self.latencies else { return Ok(false) };
        // The last batch began where the one before it ended: batches are full but for the last.
        let begin = self.taken - (self.taken - 1) % BATCH_REQUESTS - 1;
        out.extend_from_slice(&latencies[begin..self.taken]);
        Ok(true)
    }
}

/// Writes columns of requests as a native trace: times in ns, offsets and sizes in B.
#[pyfunction]
#[pyo3(signature = (path, time_ns, op, offset, size, volume, latency_ns, level))]
#[expect(clippy::too_many_arguments, reason = "a column each")]
pub(crate) fn write_trace(
    py: Python<'_>,
    path: PathBuf,
    time_ns: Vec<u64>,
    op: Vec<String>,
    offset: Vec<u64>,
    size: Vec<u64>,
    volume: Option<Vec<u32>>,
    latency_ns: Option<Vec<Option<u64>>>,
    level: Option<i32>,
) -> PyResult<u64> {
    let rows = time_ns.len();
    let others = [("op", op.len()), ("offset", offset.len()), ("bytes", size.len())];
    let given = [("volume", volume.as_ref().map(Vec::len)), ("latency_ns", latency_ns.as_ref().map(Vec::len))];
    let given = given.into_iter().filter_map(|(name, rows)| Some((name, rows?)));
    // `zip` would drop the surplus of a longer column without a word.
    if let Some((name, other)) = others.into_iter().chain(given).find(|&(_, other)| other != rows) {
        return Err(raised(format_args!("time_ns has {rows} values and {name} has {other}: give as many of each")));
    }
    let word = |(row, word): (usize, String)| {
        [Op::Read, Op::Write, Op::Flush, Op::Discard].into_iter().find(|op| op.word() == word).ok_or_else(|| {
            raised(format_args!("op of request {} is '{word}': one of read, write, flush, discard", row + 1))
        })
    };
    let ops = op.into_iter().enumerate().map(word).collect::<PyResult<Vec<_>>>()?;
    let volumes = volume.unwrap_or_else(|| vec![0; rows]);
    let rows = time_ns.into_iter().zip(ops).zip(offset.into_iter().zip(size)).zip(volumes);
    let request =
        |(((ns, op), (offset, len)), volume)| Request { time: Nanos(ns), offset, len, volume, op, fua: false };
    let latency = |ns: Option<u64>| ns.map_or(LATENCY_UNKNOWN, Nanos);
    let latencies = latency_ns.map(|all| all.into_iter().map(latency).collect());
    let columns = Columns { requests: rows.map(request).collect(), latencies, taken: 0 };
    let stop = StopSignal::default();
    let told = stop.clone();
    call::run(py, &stop, move || {
        write_native(&mut *told.source(Box::new(columns)), &path, level.unwrap_or(NATIVE_DEFAULT_LEVEL))
    })
}

/// Reads requests as batches of columns.
struct Batches {
    source: Box<dyn TraceSource>,
    schema: SchemaRef,
    requests: Vec<Request>,
    latencies: Vec<Nanos>,
}

/// The columns of requests.
fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        field("time_ns", DataType::UInt64, "ns", false),
        // A view holds a word of up to 12 bytes itself, so rows share no buffer of texts.
        field("op", DataType::Utf8View, "-", false),
        field("fua", DataType::Boolean, "1", false),
        field("volume", DataType::UInt32, "-", false),
        field("offset", DataType::UInt64, "B", false),
        field("bytes", DataType::UInt64, "B", false),
        // This column alone has gaps: many formats tell no latency.
        field("latency_ns", DataType::UInt64, "ns", true),
    ]))
}

impl Batches {
    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let failed = |error: TraceError| ArrowError::ExternalError(Box::new(error));
        self.source.next_batch(&mut self.requests).map_err(failed)?;
        if self.requests.is_empty() {
            return Ok(None);
        }
        self.source.latencies(&mut self.latencies).map_err(failed)?;
        let whole = |of: fn(&Request) -> u64| {
            let mut column = UInt64Builder::with_capacity(self.requests.len());
            self.requests.iter().for_each(|request| column.append_value(of(request)));
            Arc::new(column.finish()) as ArrayRef
        };
        let (mut ops, mut fua, mut volumes) = (StringViewBuilder::new(), BooleanBuilder::new(), UInt32Builder::new());
        let mut latencies = UInt64Builder::with_capacity(self.requests.len());
        for (row, request) in self.requests.iter().enumerate() {
            ops.append_value(request.op.word());
            fua.append_value(request.fua);
            volumes.append_value(request.volume);
            let latency = self.latencies.get(row).filter(|&&latency| latency != LATENCY_UNKNOWN);
            latencies.append_option(latency.map(|latency| latency.0));
        }
        let columns: Vec<ArrayRef> = vec![
            whole(|request| request.time.0),
            Arc::new(ops.finish()),
            Arc::new(fua.finish()),
            Arc::new(volumes.finish()),
            whole(|request| request.offset),
            whole(|request| request.len),
            Arc::new(latencies.finish()),
        ];
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map(Some)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Name, meaning, and whether it is written too, of every format.
#[pyfunction]
pub(crate) fn formats() -> Vec<(&'static str, &'static str, bool)> {
    let written = |id| id == FormatId::Native || EXPORTS.iter().any(|info| info.id == id);
    FORMATS.iter().map(|&id| (id.name(), id.info().what, written(id))).collect()
}

/// Name and meaning of every built-in workload.
#[pyfunction]
pub(crate) fn workloads() -> Vec<(String, String)> {
    workload::built_in().map(|workload| (workload.name().to_owned(), workload.about().to_owned())).collect()
}
