//! Declares the results that buffers and arrays share.

use std::borrow::Cow;

use super::{RunFinding, record};

record! {
    /// The parameters of a policy in force.
    pub struct ParamValue {
        name: Cow<'static, str> ["-"] "key",
        value: String ["-"] "value",
    }
}

impl ParamValue {
    /// Returns parameters with their names.
    pub(crate) fn all(params: impl IntoIterator<Item = (&'static str, impl Into<String>)>) -> Vec<Self> {
        params.into_iter().map(|(name, value)| Self { name: name.into(), value: value.into() }).collect()
    }
}

record! {
    /// A setting in force, as the user could give it.
    pub struct RecordedSetting {
        name: String ["-"] "key, as in `destage sim --help`",
        value: String ["-"] "value",
    }
}

impl RecordedSetting {
    /// Settings with their names.
    pub(crate) fn all(settings: &[(String, String)]) -> Vec<Self> {
        settings.iter().map(|(name, value)| Self { name: name.clone(), value: value.clone() }).collect()
    }
}

record! {
    /// Counts the requests that were left out or changed between the trace and the page space. The counts are
    /// the same for all runs of an experiment.
    pub struct InputResult {
        trace: String ["-"] "the trace as the user named it",
        format: String ["-"] "its format",
        trace_requests: u64 ["1"] "requests read from the trace, in its window",
        outside_requests: u64 ["1"] "requests in front of the window, left out by skip and from",
        left_out_requests: u64 ["1"] "requests left out by ops or volumes",
        chosen_volumes: Option<String> ["-"] "the volumes that volumes chose, by name and number; null for each and merge",
        overflowed_requests: u64 ["1"] "reads and writes beyond the device: wrapped, or left out with lba-overflow = filter",
        cut_discards: u64 ["1"] "discards that reach beyond the device, cut at its end: what it does not hold is nothing to discard",
        cut_discard_bytes: u64 ["B"] "bytes that discards were cut by, in whole pages",
        reversed_requests: u64 ["1"] "requests earlier than one before them; they arrive together with it",
        skipped_lines: u64 ["1"] "lines or records that could not be read and were left out by --lenient",
        passed_over_lines: u64 ["1"] "rows of a table that are no requests: as its format has them, or as columns passes them over",
        characteristics: Option<TraceCharacteristics> ["-"] "of the trace as it was read, up to limit, nothing left out; null unless results go to a file" = TraceCharacteristics,
        sizes: Option<SizesResult> ["-"] "how the sizes of caches were chosen; null where each was given" = SizesResult,
    }
}

record! {
    /// Says how requests came in, and lists the warnings; the same for buffers and arrays.
    pub struct RunContext {
        host: String ["-"] "open (requests arrive at trace time), bounded:DEPTH (the same, but for DEPTH requests outstanding at most) or closed:DEPTH (DEPTH requests outstanding)",
        settings: Vec<RecordedSetting> ["-"] "every other setting that was given or has a default" = RecordedSetting,
        input: InputResult ["-"] "what was read, left out and changed" = InputResult,
        findings: Vec<RunFinding> ["-"] "what makes the result say less than it seems to, the same at each run of the program" = RunFinding,
        warmup_requests: u64 ["1"] "requests before the measured part",
        replay_delay: Option<u64> ["ns"] "time for which the trace's clock stood still since DEPTH requests were outstanding; null unless host is bounded:DEPTH"
            { column "replay delay" Time Less "time for which the trace's clock stood still, since as many requests were outstanding as the host allows" },
    }
}

record! {
    /// Says how the sizes of caches were chosen; the same for all runs of an experiment.
    pub struct SizesResult {
        asked: String ["-"] "what cache asks for",
        chosen: Vec<u64> ["B"] "the sizes, in the order of the runs",
        footprint_bytes: Option<u64> ["B"] "of all different pages that are read or written, of which shares are taken; like all that follows null where the trace was not looked at",
        footprint_written_bytes: Option<u64> ["B"] "of those that are written",
        knee_bytes: Option<u64> ["B"] "the size at which LRU's curve of hits lies highest above the line from nothing to the footprint; null also where nothing hits",
        knee_hit_ratio: Option<f64> ["1"] "of LRU at that size, without a device",
        full_bytes: Option<u64> ["B"] "the least size with which LRU has all hits that can be",
        full_hit_ratio: Option<f64> ["1"] "of LRU at that size, without a device",
    }
}

record! {
    /// Holds the figures of `destage trace stat`; page figures are for the run's page size.
    pub struct TraceCharacteristics {
        reads: u64 ["1"] "read requests",
        writes: u64 ["1"] "write requests",
        flushes: u64 ["1"] "flush requests",
        discards: u64 ["1"] "discard requests",
        read_bytes: u64 ["B"] "bytes read",
        write_bytes: u64 ["B"] "bytes written",
        read_page_touches: u64 ["1"] "pages that reads touch, each as often as it is touched",
        write_page_touches: u64 ["1"] "pages that writes touch, each as often as it is touched",
        unique_pages: Option<u64> ["1"] "different pages read or written; null where they were too many to count",
        unique_pages_read: Option<u64> ["1"] "different pages read; null where they were too many to count",
        unique_pages_written: Option<u64> ["1"] "different pages written; null where they were too many to count",
        write_sizes: Vec<u64> ["1"] "writes of up to 4 KiB, over 4 to 16 KiB, over 16 to 64 KiB, and over 64 KiB",
        sequential: u64 ["1"] "reads, writes and discards that begin where the one before on their volume ended",
        duration: u64 ["ns"] "from the earliest arrival to the latest",
        volumes: u64 ["1"] "different volumes",
        max_address: u64 ["B"] "the byte after the highest one touched on any volume",
    }
}

/// Version of the fields of results: grows when one is taken away or gets another meaning.
pub const SCHEMA: u32 = 5;
/// Version of destage.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

record! {
    /// Names the program that wrote a result, and the version of the result's fields. Every result ends with
    /// it.
    pub struct ResultVersion {
        schema: u32 ["1"] "version of these fields",
        destage: Cow<'static, str> ["-"] "version of destage",
    }
}

impl ResultVersion {
    /// Returns those of this program.
    pub const fn current() -> Self {
        Self { schema: SCHEMA, destage: Cow::Borrowed(VERSION) }
    }
}
