//! Checks what must hold of every input from outside, however hostile: one [`Target`] for each way in.
//!
//! A target takes bytes, hands them to a reader, a parser or a simulation, and panics where a promise is broken. The
//! fuzzer (`fuzz/`, outside the workspace) looks for such bytes. The test `replay` of this crate tries the seeds in
//! `fuzz/seeds`, among them every input that ever broke a promise. Nothing but tests uses this crate.

mod arrays;
mod bytes;
mod deltas;
mod exporting;
mod logs;
mod media;
mod nbd;
mod policies;
mod reading;
mod recording;
mod results;
mod scenarios;
mod sealing;
mod simulating;
mod specs;
mod writing;

use std::sync::LazyLock;

use destage_trace::{FORMATS, FormatId};

/// A way in for input from outside, and what must hold of it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Names the target, and its folder of seeds.
    pub name: &'static str,
    /// Describes the bytes.
    pub what: &'static str,
    /// Bytes of an input that the fuzzer makes at most.
    pub max_bytes: usize,
    /// Estimates the cost of an input, in units of reading a small trace. The replay divides its mutations by it.
    pub cost: u32,
    subject: Subject,
}

/// Selects what is done with the bytes.
#[derive(Clone, Copy, Debug)]
enum Subject {
    /// They are read as a trace in this format; found from the content where none is given.
    Trace(Option<FormatId>),
    /// They are handed to this.
    Check(fn(&[u8])),
}

impl Target {
    /// Hands `bytes` to the target.
    ///
    /// # Panics
    /// If a promise is broken.
    pub fn check(&self, bytes: &[u8]) {
        match self.subject {
            Subject::Trace(format) => reading::check(format, bytes),
            Subject::Check(check) => check(bytes),
        }
    }

    /// A seed that need not be kept in a file: a sample of the format.
    pub fn sample(&self) -> Option<Vec<u8>> {
        match self.subject {
            Subject::Trace(Some(id)) => Some(id.info().samples[0].pieces(8).concat()),
            _ => None,
        }
    }

    const fn trace(name: &'static str, what: &'static str, format: Option<FormatId>) -> Self {
        Self { name, what, max_bytes: 2048, cost: 1, subject: Subject::Trace(format) }
    }

    const fn other(name: &'static str, what: &'static str, max_bytes: usize, cost: u32, check: fn(&[u8])) -> Self {
        Self { name, what, max_bytes, cost, subject: Subject::Check(check) }
    }
}

/// The target of a format that is read.
fn of_format(id: FormatId) -> Target {
    let target = Target::trace(id.name(), "a trace in this format", Some(id));
    match id {
        FormatId::Native => Target { max_bytes: 4096, cost: 2, ..target },
        FormatId::Columns => Target {
            what: "a description of columns, the end of the line, and a table",
            subject: Subject::Check(reading::described),
            ..target
        },
        _ => target,
    }
}

/// All targets.
pub fn targets() -> &'static [Target] {
    static ALL: LazyLock<Vec<Target>> =
        LazyLock::new(|| FORMATS.iter().map(|&id| of_format(id)).chain(OTHERS.iter().copied()).collect());
    &ALL
}

/// Targets besides those of formats.
const OTHERS: &[Target] = &[
    Target::trace("detect", "a trace whose format is found from its content", None),
    Target::other(
        "detect-damaged",
        "a sample's name, the end of the line, one of its lines, and what stands there instead",
        256,
        2,
        reading::damaged,
    ),
    // Inputs are small, since a compressed file may hold thousands of times its size.
    Target { max_bytes: 512, cost: 4, ..Target::trace("compressed", "a compressed trace", None) },
    Target::other("native-sealed", "a native trace whose checksums and counts are put right", 4096, 4, sealing::check),
    Target::other(
        "native-written",
        "requests that are written in the native format and read",
        2048,
        20,
        writing::check,
    ),
    Target::other("export", "a format to write, the end of the line, and requests", 1024, 2, exporting::check),
    Target::other("format-spec", "the value of --format", 256, 1, specs::format),
    Target::other("policy-spec", "the value of --policy", 256, 1, specs::policy),
    Target::other("quantities", "sizes, times, shares and factors", 64, 1, specs::quantities),
    Target::other("scenario-sim", "a scenario file of `destage sim`", 2048, 20, scenarios::sim),
    Target::other("scenario-synth", "a scenario file of `destage trace synth`", 1024, 4, scenarios::synth),
    Target::other("scenario-workload", "a workload file", 1024, 10, scenarios::workload),
    Target::other("paper", "a paper's file", 2048, 4, scenarios::paper),
    Target::other(
        "known-traces",
        "what is known of papers' traces, and a file's name",
        2048,
        4,
        scenarios::known_traces,
    ),
    Target::other("results", "results of `destage sim` that are reported on", 6144, 20, results::check),
    Target::other("policies", "requests that are fed to the buffers", 2048, 2, policies::check),
    Target::other("ring-page", "a page of the kernel's trace ring buffer", 512, 1, recording::page),
    Target::other("event-format", "the kernel's description of an event or a page", 2048, 1, recording::layouts),
    Target::other("recording", "block events of two processors", 1024, 2, recording::pairing),
    Target::other("delta", "the length of a page, a byte that fills it, and a delta of it", 512, 1, deltas::check),
    Target::other(
        "metadata-log",
        "how large a log is, its pages, each with whether its header is put right, and tags of the NVRAM",
        512,
        1,
        logs::check,
    ),
    Target::other("array-description", "the description of an array that is served", 1024, 2, arrays::description),
    Target::other(
        "md-superblocks",
        "how many members there are, which byte is changed, and what md's superblocks on them say",
        2048,
        2,
        arrays::superblocks,
    ),
    Target::other(
        "array-files",
        "which cache an array has, and changes of its files, each with what is put right behind it",
        128,
        20,
        media::check,
    ),
    Target::other("nbd-server", "what is offered over a connection, and what a client sends", 1024, 2, nbd::server),
    Target::other("nbd-client", "what a client asks for, and what a server sends", 2048, 2, nbd::client),
    Target::other("simulation", "requests that are fed to experiments", 1024, 20, simulating::check),
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    targets().iter().find(|target| target.name == name)
}
