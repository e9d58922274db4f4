//! Block traces: streaming readers for the formats in use, the compact native format, synthesis and statistics.
//!
//! [`open`] looks at a file's first bytes, undoes its compression, finds its format and returns a [`Trace`] that
//! yields [`Request`]s in batches. Nothing here grows with the length of a trace.

mod error;
mod source;

pub use destage_plan::{Nanos, Op, Request, SECTOR_BYTES};
pub use error::{Place, TraceError};
pub use source::{BATCH_REQUESTS, Skipped, Source};
