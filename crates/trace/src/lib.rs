//! Block traces: streaming readers for the formats in use, the compact native format, synthesis and statistics.
//!
//! [`open`] looks at a file's first bytes, undoes its compression, finds its format and returns a [`Trace`] that
//! yields [`Request`]s in batches. Nothing here grows with the length of a trace.

mod compress;
mod detect;
mod error;
mod fields;
mod format;
mod formats;
mod lines;
mod native;
mod open;
mod records;
mod sink;
mod source;
mod stat;
mod synth;

pub use compress::Compression;
pub use destage_plan::{Nanos, Op, Request, SECTOR_BYTES};
pub use error::{Place, TraceError};
pub use format::{FORMATS, Finding, FormatError, FormatId, FormatInfo, FormatSpec};
pub use native::{NATIVE_DEFAULT_LEVEL, NATIVE_MAGIC, NativeReader, NativeWriter};
pub use open::{OpenOptions, Trace, open, open_stream};
pub use source::{BATCH_REQUESTS, Skipped, Source};
pub use stat::{TraceStat, TraceSummary, WRITE_SIZE_CLASSES};
pub use synth::{Arrivals, Footprint, Length, Share, SizeMix, Synth, SynthError, SynthSpec, Volumes, parse_bytes};
