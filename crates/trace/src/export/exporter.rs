//! The one way from requests to a file in another format: fitted, written in pieces, counted.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use destage_plan::Request;

use super::ExportSpec;
use super::fit::{ExportReport, FitRefusal, FormatLimits, RequestFitter};
use super::refusals::ExportRefusals;
use super::spool::SpoolFile;

/// Text is handed on in pieces of about this size.
const PIECE: usize = 64 * 1024;

/// Why a trace cannot be exported.
#[derive(Debug)]
pub enum ExportError {
    /// The new file, or the temporary one, cannot be written or read.
    Io(io::Error),
    /// Lists the parts of the trace that the format cannot hold, and the options to give.
    Refused(Box<ExportRefusals>),
    /// There is nothing left to write.
    Nothing,
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Refused(refusals) => write!(f, "{refusals}"),
            Self::Nothing => f.write_str("no request is left to write"),
        }
    }
}

impl std::error::Error for ExportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Io(error) = self { Some(error) } else { None }
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Declares the limits of a format, and writes its records.
pub(super) trait FormatWriter: Send {
    /// Returns the format's limits.
    fn holds(&self) -> FormatLimits;

    /// Writes the bytes before the first request.
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    /// Appends a request that fits what the format holds, and returns the number of records that it
    /// became; or why it does not fit after all. `name` is the trace's name for its volume.
    fn put(&mut self, request: &Request, name: Option<&str>, out: &mut Vec<u8>) -> Result<u64, String>;

    /// Writes the bytes after the last request, at time `last` in nanoseconds.
    fn end(&mut self, _last: u64, _out: &mut Vec<u8>) {}

    /// The second pass over what was written, of a format that needs one.
    fn second_pass(&self) -> Option<SecondPass> {
        None
    }
}

/// Reads what was written in a first pass, and writes what is meant.
pub(super) type SecondPass = fn(SpoolFile, &mut dyn Write) -> io::Result<()>;

/// Writes requests in another format.
pub struct TraceExporter<W> {
    out: W,
    format: Box<dyn FormatWriter>,
    fitter: RequestFitter,
    /// Of formats that are written in two passes.
    spool: Option<(SpoolFile, SecondPass)>,
    text: Vec<u8>,
    report: ExportReport,
    /// Lists the refusals. After the first one no more is written, and the rest is read only to find the
    /// others.
    refusals: ExportRefusals,
}

impl<W: Write> TraceExporter<W> {
    /// An exporter to `out`. Formats that are written in two passes keep their records in a
    /// temporary file in the folder `scratch` meanwhile: 24 bytes for each page access of
    /// `oracle-general`.
    ///
    /// # Errors
    /// If the temporary file cannot be made.
    pub fn new(spec: &ExportSpec, out: W, scratch: &Path) -> Result<Self, ExportError> {
        let mut format = spec.writer();
        let spool = match format.second_pass() {
            Some(pass) => Some((SpoolFile::new(scratch)?, pass)),
            None => None,
        };
        let mut text = Vec::with_capacity(PIECE + 512);
        format.begin(&mut text);
        let fitter = RequestFitter::new(spec, format.holds());
        let (report, refusals) = (ExportReport::default(), ExportRefusals::new(spec));
        Ok(Self { out, format, fitter, spool, text, report, refusals })
    }

    /// Writes the trace's next requests; `names` are the trace's names for its volumes, as far as
    /// they are known. What the format cannot hold is told by [`Self::finish`].
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&mut self, requests: &[Request], names: &[String]) -> Result<(), ExportError> {
        for request in requests {
            self.report.read += 1;
            let name = names.get(request.volume as usize).map(String::as_str);
            if let Err(refusal) = self.write_one(request, name)? {
                self.refuse(request, name, refusal)?;
            }
        }
        Ok(())
    }

    /// Writes a request, or says why it does not fit.
    fn write_one(&mut self, request: &Request, name: Option<&str>) -> io::Result<Result<(), FitRefusal>> {
        let mut rest = match self.fitter.fit(request, &mut self.report) {
            Ok(None) => return Ok(Ok(())),
            Ok(fitted) => fitted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        while let Some(whole) = rest {
            let piece;
            (piece, rest) = self.fitter.cut(whole);
            match self.format.put(&piece, name, &mut self.text) {
                Ok(records) => self.report.records += records,
                Err(what) => return Ok(Err(FitRefusal::never(what))),
            }
            if self.text.len() >= PIECE {
                self.hand_on()?;
            }
        }
        self.report.written += 1;
        Ok(Ok(()))
    }

    /// Takes note of a request that does not fit, and of all that it does not fit for.
    #[cold]
    fn refuse(&mut self, request: &Request, name: Option<&str>, refusal: FitRefusal) -> io::Result<()> {
        let mut refused = Some(refusal);
        while let Some(refusal) = refused.take() {
            let kind = refusal.kind;
            // Each further loss is tried at once, so that one run names all options that are needed.
            self.refusals.add(self.report.read, refusal);
            if self.fitter.give_up(kind) {
                refused = self.write_one(request, name)?.err();
            }
        }
        Ok(())
    }

    fn hand_on(&mut self) -> io::Result<()> {
        match &mut self.spool {
            // After a refusal the rest is read for the report alone, and nothing is written.
            _ if !self.refusals.is_empty() => {}
            Some((spool, _)) => spool.write(&self.text)?,
            None => self.out.write_all(&self.text)?,
        }
        self.text.clear();
        Ok(())
    }

    /// Completes the trace; returns what it was written to, and what was written, left out and
    /// changed.
    ///
    /// # Errors
    /// If the format cannot hold the trace, writing fails, or nothing was left to write.
    pub fn finish(mut self) -> Result<(W, ExportReport), ExportError> {
        if !self.refusals.is_empty() {
            self.refusals.count(|kind| self.fitter.given_up(kind, &self.report));
            return Err(ExportError::Refused(Box::new(self.refusals)));
        }
        // An empty output would pass for a trace.
        if self.report.written == 0 {
            return Err(ExportError::Nothing);
        }
        // Formats that close with a time need it to be no earlier than any request's.
        self.format.end(self.fitter.latest(), &mut self.text);
        self.hand_on()?;
        if let Some((spool, pass)) = self.spool.take() {
            pass(spool, &mut self.out)?;
        }
        self.out.flush()?;
        Ok((self.out, self.report))
    }
}

impl<W> fmt::Debug for TraceExporter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("report", &self.report).finish_non_exhaustive()
    }
}
