//! Records the requests of clients as a trace.

use std::io::{self, Write};

use destage_trace::{NativeWriter, Request};

/// Requests that are written at a time.
const BATCH: usize = 4096;

/// Writes requests as they come into a trace of the native format.
pub struct RequestRecorder<W: Write> {
    writer: NativeWriter<W>,
    batch: Vec<Request>,
    /// Why nothing more is written.
    failed: Option<io::Error>,
}

impl<W: Write> RequestRecorder<W> {
    /// Writes to this, which is empty.
    ///
    /// # Errors
    /// If it cannot be written to.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(Self { writer: NativeWriter::new(out)?, batch: Vec::with_capacity(BATCH), failed: None })
    }

    /// Notes a request. What cannot be written is told in the end: clients are served all the same.
    // A full disk must not stop the service: the first error is kept and returned at the end.
    pub fn note(&mut self, request: Request) {
        self.batch.push(request);
        if self.batch.len() == BATCH {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.writer.write(&self.batch).err();
        }
        self.batch.clear();
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.write();
        match self.failed {
            Some(error) => Err(error),
            None => self.writer.finish(),
        }
    }
}
