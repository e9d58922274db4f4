//! Block traces: streaming readers for the formats in use, the compact native format, export to
//! formats that other tools read, synthesis and statistics.
//!
//! [`open`] looks at a file's first bytes, undoes its compression, finds its format and returns a
//! [`Trace`] that yields [`Request`]s in batches. Nothing here grows with the length of a trace.

mod clock;
mod compress;
mod copy;
mod detect;
mod error;
mod export;
mod fields;
mod format;
mod formats;
mod lines;
mod native;
mod open;
mod options;
mod records;
mod repeat;
mod rw80;
mod sink;
mod source;
mod stat;
mod synth;
mod through;
mod window;

pub use clock::ClockWraps;
pub use compress::Compression;
pub use copy::{CopyError, Exported, copy_export, copy_native};
pub use destage_plan::{Nanos, Op, Request, SECTOR_BYTES};
pub use error::{Place, TraceError};
pub use export::{EXPORTS, ExportError, ExportInfo, ExportReport, ExportSpec, Exporter, Refusals};
pub use format::{Content, Finding, FormatInfo, Sample};
pub use formats::{FORMATS, FormatId, FormatSpec};
pub use native::{NATIVE_DEFAULT_LEVEL, NATIVE_MAGIC, NativeReader, NativeWriter};
pub use open::{OpenOptions, Trace, files, open, open_stream};
pub use options::FormatError;
pub use repeat::{Reopen, Repeated};
pub use rw80::Rw80;
pub use source::{BATCH_REQUESTS, LATENCY_UNKNOWN, Skipped, Source};
pub use stat::{
    BlockFill, LOCALITY_BLOCK_PAGES, LOCALITY_FILL_CLASSES, LOCALITY_LISTS, Locality, LocalityOf, LocalitySummary,
    RECENCY_MOST, Recency, Reuse, TooManyPages, TraceStat, TraceSummary, VolumeStat, VolumeTraffic, WRITE_SIZE_CLASSES,
};
pub use synth::{
    Arrivals, Footprint, Length, MAX_PARTS, Mix, MixError, MixSpec, Part, Share, SizeMix, Stripe, Synth, SynthError,
    SynthSpec, Volumes, parse_bytes,
};
pub use through::Through;
pub use window::{Window, Windowed};
