//! Settings of the trace or workload, and which of its requests take part.

use std::path::PathBuf;

use destage_plan::Nanos;
use destage_sim::input::{TraceOps, VolumeSelection};
use destage_trace::{FormatSpec, OpenOptions, TraceWindow};

use super::Result;
use super::requests::{RequestsOrigin, SimulatedRequests};
use crate::quantity as q;
use crate::setting::declare_settings;
use crate::synth;
use crate::values::{parsed, path, positive, word};
use crate::workload::NamedWorkload;
use crate::{AppliesTo, RecordedPlace, ScenarioError, ScenarioSettings, SettingKey, TypedSetting};

declare_settings! {
    /// Lists the settings of the trace, in the order of the help.
    pub(super) table KEYS;

    /// Holds the trace's file.
    pub const TRACE: TypedSetting<PathBuf> = TypedSetting::one(
        "trace",
        "FILE",
        "",
        AppliesTo::All,
        "The trace; - for the standard input. In a scenario file relative to that file",
        path,
    )
    .recorded(RecordedPlace::Field);
    /// Holds the name or the file of a workload.
    pub const WORKLOAD: TypedSetting<PathBuf> = TypedSetting::one(
        "workload",
        "NAME|FILE",
        "",
        AppliesTo::All,
        "A synthetic workload in place of a trace; see `destage trace workloads`",
        path,
    )
    .recorded(RecordedPlace::Field);
    /// Holds changes to the workload.
    pub const WORKLOAD_SET: TypedSetting<String> = synth::WORKLOAD_SET;
    /// Holds the format of the trace, if its content does not decide.
    pub const FORMAT: TypedSetting<FormatSpec> = TypedSetting::one(
        "format",
        "FORMAT",
        "",
        AppliesTo::All,
        "Its format where the content does not decide; see `destage trace formats`",
        parsed,
    )
    .recorded(RecordedPlace::Field);
    pub(crate) const LENIENT: TypedSetting<bool> = TypedSetting::switch(
        "lenient",
        "false",
        AppliesTo::All,
        "Leave out and count lines that cannot be read",
    );
    pub(crate) const SKIP: TypedSetting<u64> = TypedSetting::one(
        "skip",
        "REQUESTS",
        "",
        AppliesTo::All,
        "Leave out this many requests at the trace's beginning",
        q::count,
    );
    pub(crate) const FROM: TypedSetting<Nanos> = TypedSetting::one(
        "from",
        "TIME",
        "",
        AppliesTo::All,
        "Begin with the first request at or after this time, counted from the trace's first",
        q::time,
    );
    pub(crate) const TO: TypedSetting<Nanos> = TypedSetting::one(
        "to",
        "TIME",
        "",
        AppliesTo::All,
        "End before the first request at or after this time, counted from the trace's first",
        q::time,
    );
    pub(crate) const LIMIT: TypedSetting<u64> = TypedSetting::one(
        "limit",
        "REQUESTS",
        "",
        AppliesTo::All,
        "Read at most this many requests of what skip, from and to leave",
        positive,
    );
    pub(crate) const REPEAT: TypedSetting<u32> = TypedSetting::one(
        "repeat",
        "N",
        "",
        AppliesTo::All,
        "Simulate all these requests so many times, one time after the other [default: 1]",
        positive32,
    );
    pub(crate) const VOLUMES: TypedSetting<VolumeSelection> = TypedSetting::one(
        "volumes",
        "NAME,...|merge|each",
        "each",
        AppliesTo::All,
        "Use these volumes, by the trace's names, or as #N by number in order of first appearance; overlay all; or keep each apart",
        volumes,
    );
    pub(crate) const OPS: TypedSetting<TraceOps> = TypedSetting::one(
        "ops",
        "all|writes",
        "all",
        AppliesTo::All,
        "Which operations take part; writes leaves out the reads",
        ops,
    );
}

/// Settings that say which of the requests take part, and cannot without knowing where they come
/// from.
pub(crate) const READING: [SettingKey; 4] = [SKIP.key(), FROM.key(), TO.key(), REPEAT.key()];

/// The part of the trace that the settings ask for.
fn window(settings: &ScenarioSettings) -> Result<TraceWindow> {
    let window = TraceWindow {
        skip: SKIP.get_or(settings, 0)?,
        from: FROM.optional(settings)?,
        to: TO.optional(settings)?,
        limit: LIMIT.optional(settings)?,
    };
    match (window.from, window.to) {
        (from, Some(to)) if to <= from.unwrap_or(Nanos::ZERO) => Err(ScenarioError::new(
            "the window ends before it begins: 'to' must be later than 'from', and both count from the trace's first request",
        )),
        _ => Ok(window),
    }
}

/// The trace or the workload that the settings name.
pub fn requests(settings: &ScenarioSettings) -> Result<SimulatedRequests> {
    let workload = NamedWorkload::of(settings, &WORKLOAD, &WORKLOAD_SET)?;
    let file = TRACE.path(settings)?;
    let origin = match (file, workload) {
        (Some(_), Some(_)) => {
            return Err(ScenarioError::new("'trace' and 'workload' are both given; leave one of them out"));
        }
        (None, None) => {
            return Err(ScenarioError::new(
                "which trace? give --trace FILE or --workload NAME, or set trace or workload in a scenario file",
            ));
        }
        (Some(file), None) => {
            let format = FORMAT.optional(settings)?;
            RequestsOrigin::File { file, options: OpenOptions { format, lenient: LENIENT.get(settings)? } }
        }
        (None, Some(workload)) => {
            if let Some(key) = [FORMAT.key(), LENIENT.key()].iter().find(|key| settings.is_given(key)) {
                return Err(ScenarioError::new(format_args!("'{}' has no meaning for a workload", key.name)));
            }
            // What is wrong with it shall be known now.
            workload.open()?;
            RequestsOrigin::Workload(Box::new(workload))
        }
    };
    let (repeat, window) = (REPEAT.get_or(settings, 1)?, window(settings)?);
    let requests = SimulatedRequests::new(origin, window, repeat);
    match requests.pipe() {
        Some(pipe) if requests.repeat() > 1 => {
            let what = "repeat: a pipe can be read only once; give a file";
            Err(ScenarioError::new(what).at(pipe.display()))
        }
        _ => Ok(requests),
    }
}

fn positive32(text: &str) -> std::result::Result<u32, String> {
    match q::count32(text) {
        Ok(0) | Err(_) => Err("a whole number of at least 1".into()),
        number => number,
    }
}

fn volumes(text: &str) -> std::result::Result<VolumeSelection, String> {
    match text {
        "each" => Ok(VolumeSelection::Each),
        "merge" => Ok(VolumeSelection::Merge),
        names => names.parse().map(VolumeSelection::Only),
    }
}

fn ops(text: &str) -> std::result::Result<TraceOps, String> {
    word(text, &[("all", TraceOps::All), ("writes", TraceOps::Writes)])
}
