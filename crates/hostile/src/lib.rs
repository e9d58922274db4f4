//! What must hold of every input from outside, however hostile: one [`Target`] for each way in.
//!
//! A target takes bytes, hands them to a reader, a parser or a simulation, and panics where a promise is broken. The
//! fuzzer (`fuzz/`, outside the workspace) looks for bytes that break one; the test `replay` of this crate tries the
//! seeds that are kept in `fuzz/seeds`, among them every input that ever broke one. Nothing but tests uses this crate.

mod bytes;
mod exporting;
mod policies;
mod reading;
mod recording;
mod results;
mod scenarios;
mod sealing;
mod simulating;
mod specs;
mod writing;

/// A way in for input from outside, and what must hold of it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its folder of seeds.
    pub name: &'static str,
    /// What the bytes are.
    pub what: &'static str,
    /// Bytes of an input that the fuzzer makes at most.
    pub max_bytes: usize,
    /// What an input costs, roughly, in units of reading a small trace: the replay tries so many times fewer mutations.
    pub cost: u32,
    subject: Subject,
}

/// What is done with the bytes.
#[derive(Clone, Copy, Debug)]
enum Subject {
    /// They are read as a trace in one of these formats; found from the content where none is given.
    Trace(&'static [&'static str]),
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
            Subject::Trace(formats) => reading::check(formats, bytes),
            Subject::Check(check) => check(bytes),
        }
    }

    const fn trace(name: &'static str, formats: &'static [&'static str]) -> Self {
        Self { name, what: "a trace in this format", max_bytes: 2048, cost: 1, subject: Subject::Trace(formats) }
    }

    const fn other(name: &'static str, what: &'static str, max_bytes: usize, cost: u32, check: fn(&[u8])) -> Self {
        Self { name, what, max_bytes, cost, subject: Subject::Check(check) }
    }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target::trace("msr", &["msr"]),
    Target::trace("systor", &["systor"]),
    Target::trace("rq-csv", &["rq-csv"]),
    Target::trace("tencent", &["tencent"]),
    Target::trace("alibaba", &["alibaba"]),
    Target::trace("spc", &["spc"]),
    Target::trace("disksim", &["disksim"]),
    Target::trace("ssdsim", &["ssdsim"]),
    Target::trace("msr-cut", &["msr-cut"]),
    Target::trace("diskmon", &["diskmon"]),
    Target::trace("wiscsee", &["wiscsee"]),
    Target::trace("blkparse", &["blkparse", "blkparse:event=Q", "blkparse:event=C"]),
    Target::trace("blktrace", &["blktrace", "blktrace:event=Q", "blktrace:event=C"]),
    Target::trace("fio", &["fio", "fio:wait=us", "fio:wait=ms"]),
    Target::trace("vscsi", &["vscsi"]),
    Target::trace("srt", &["srt", "srt:unit=1024"]),
    Target::trace("oracle-general", &["oracle-general:op=R", "oracle-general:op=W,unit=512"]),
    Target::other("columns", "a description of columns, the end of the line, and a table", 2048, 1, reading::described),
    Target { what: "a trace whose format is found from its content", ..Target::trace("detect", &[]) },
    Target::other(
        "detect-damaged",
        "a sample, one of its lines, and what stands there instead",
        256,
        2,
        reading::damaged,
    ),
    // Small, since a compressed file may hold thousands of times its size.
    Target { what: "a compressed trace", max_bytes: 512, cost: 4, ..Target::trace("compressed", &[]) },
    Target { max_bytes: 4096, cost: 2, ..Target::trace("native", &["native"]) },
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
    Target::other("results", "results of `destage sim` that are reported on", 4096, 20, results::check),
    Target::other("policies", "requests that are fed to the buffers", 2048, 2, policies::check),
    Target::other("ring-page", "a page of the kernel's trace ring buffer", 512, 1, recording::page),
    Target::other("event-format", "the kernel's description of an event or a page", 2048, 1, recording::layouts),
    Target::other("recording", "block events of two processors", 1024, 2, recording::pairing),
    Target::other("simulation", "requests that are fed to experiments", 1024, 20, simulating::check),
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
