//! All requests of a source into a file of another format.

use std::io::{self, Write};
use std::path::Path;

use crate::error::TraceError;
use crate::export::{ExportError, ExportReport, ExportSpec, TraceExporter};
use crate::native::NativeWriter;
use crate::source::TraceSource;

/// Why requests could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// They cannot be read.
    #[error(transparent)]
    Read(#[from] TraceError),
    /// They cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The format cannot hold them.
    #[error(transparent)]
    Export(ExportError),
}

impl From<ExportError> for CopyError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Io(error) => Self::Write(error),
            error => Self::Export(error),
        }
    }
}

/// Counts the exported requests.
#[derive(Clone, Debug)]
pub struct ExportedCounts {
    /// Counts the requests that were written, changed and left out.
    pub report: ExportReport,
    /// Is true if the source has latencies, which are not written.
    pub latencies_left_out: bool,
}

/// Writes all of `source` to `out` in the native format, compressed at this level; returns `out` and the number of
/// requests.
///
/// # Errors
/// Fails where they cannot be read or written.
pub fn copy_native<W: Write>(source: &mut dyn TraceSource, out: W, level: i32) -> Result<(W, u64), CopyError> {
    let mut writer = NativeWriter::with_level(out, level)?;
    let (mut batch, mut latencies) = (Vec::new(), Vec::new());
    let (mut requests, mut names) = (0, 0);
    loop {
        source.next_batch(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        let known = source.volume_names();
        // Names come as volumes are met, and each has to be written before the requests that use its
        // number.
        if known.len() > names {
            writer.volume_names(known)?;
            names = known.len();
        }
        if source.latencies(&mut latencies)? {
            writer.write_with_latencies(&batch, &latencies)?;
        } else {
            writer.write(&batch)?;
        }
        requests += batch.len() as u64;
    }
    Ok((writer.finish()?, requests))
}

/// Writes all of `source` to `out` in the format that `spec` names, with temporary files in the folder `scratch`;
/// returns `out`.
///
/// # Errors
/// Fails where they cannot be read or written, or the format cannot hold them.
pub fn copy_export<W: Write>(
    source: &mut dyn TraceSource,
    out: W,
    spec: &ExportSpec,
    scratch: &Path,
) -> Result<(W, ExportedCounts), CopyError> {
    let mut exporter = TraceExporter::new(spec, out, scratch)?;
    let (mut batch, mut latencies, mut any_latencies) = (Vec::new(), Vec::new(), false);
    loop {
        source.next_batch(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        // One batch with latencies is enough to tell that some are left out.
        any_latencies = any_latencies || source.latencies(&mut latencies)?;
        exporter.write(&batch, source.volume_names())?;
    }
    let (out, report) = exporter.finish()?;
    Ok((out, ExportedCounts { report, latencies_left_out: any_latencies }))
}
