//! Block traces: streaming readers for the formats in use, the compact native format, export to
//! formats that other tools read, synthesis and statistics.
//!
//! [`open`] looks at a file's first bytes, undoes its compression, finds its format and returns a
//! [`TraceRequests`] that yields [`Request`]s in batches. Nothing here grows with the length of a trace.

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
pub use compress::TraceCompression;
pub use copy::{CopyError, ExportedCounts, copy_export, copy_native};
pub use destage_plan::{Nanos, Op, Request, SECTOR_BYTES};
pub use error::{FilePlace, TraceError};
pub use export::{EXPORTS, ExportError, ExportInfo, ExportRefusals, ExportReport, ExportSpec, TraceExporter};
pub use format::{FormatContent, FormatFinding, FormatInfo, FormatSample};
pub use formats::{FORMATS, FormatId, FormatSpec};
pub use native::{NATIVE_DEFAULT_LEVEL, NATIVE_MAGIC, NativeReader, NativeWriter};
pub use open::{OpenOptions, TraceRequests, files, open, open_stream};
pub use options::FormatError;
pub use repeat::{ReopenTrace, RepeatedTrace};
pub use rw80::Rw80;
pub use source::{BATCH_REQUESTS, LATENCY_UNKNOWN, SkippedLines, TraceSource};
pub use stat::{
    BlockFill, LOCALITY_BLOCK_PAGES, LOCALITY_FILL_CLASSES, LOCALITY_LISTS, LocalityCollector, LocalityOf,
    LocalitySummary, RECENCY_MOST, RecencyStack, ReuseCounts, TooManyPages, TraceStat, TraceSummary, VolumeStat,
    VolumeTraffic, WRITE_SIZE_CLASSES,
};
pub use synth::{
    AccessFootprint, AddressStripe, ArrivalProcess, MAX_PARTS, MixError, MixPart, MixSpec, MixTrace, PercentShare,
    SizeMix, SynthError, SynthLength, SynthSpec, SynthTrace, SynthVolumes, parse_bytes,
};
pub use through::ThroughSource;
pub use window::{TraceWindow, WindowedTrace};
