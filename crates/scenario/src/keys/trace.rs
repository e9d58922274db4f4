//! Settings of the trace or workload, and which of its requests take part.

use destage_plan::Nanos;
use destage_sim::input::{Ops, Volumes};
use destage_trace::{FormatSpec, OpenOptions, Window};

use super::requests::{Origin, Requests};
use super::{Result, word};
use crate::quantity as q;
use crate::synth::{self, WORKLOAD_SET_HELP};
use crate::workload::Workload;
use crate::{AppliesTo, Key, Recorded, ScenarioError, Settings};

/// Lists the settings of the trace, in the order of the help.
pub(super) const KEYS: &[Key] = &[
    Key::one(
        "trace",
        "FILE",
        "",
        AppliesTo::All,
        "The trace; - for the standard input. In a scenario file relative to that file",
    )
    .recorded(Recorded::Field),
    Key::one(
        "workload",
        "NAME|FILE",
        "",
        AppliesTo::All,
        "A synthetic workload in place of a trace; see `destage trace workloads`",
    )
    .recorded(Recorded::Field),
    Key::one("workload-set", "KEY=VALUE ...", "", AppliesTo::All, WORKLOAD_SET_HELP),
    Key::one(
        "format",
        "FORMAT",
        "",
        AppliesTo::All,
        "Its format where the content does not decide; see `destage trace formats`",
    )
    .recorded(Recorded::Field),
    Key::switch("lenient", "false", AppliesTo::All, "Leave out and count lines that cannot be read"),
    Key::one("skip", "REQUESTS", "", AppliesTo::All, "Leave out this many requests at the trace's beginning"),
    Key::one(
        "from",
        "TIME",
        "",
        AppliesTo::All,
        "Begin with the first request at or after this time, counted from the trace's first",
    ),
    Key::one(
        "to",
        "TIME",
        "",
        AppliesTo::All,
        "End before the first request at or after this time, counted from the trace's first",
    ),
    Key::one(
        "limit",
        "REQUESTS",
        "",
        AppliesTo::All,
        "Read at most this many requests of what skip, from and to leave",
    ),
    Key::one(
        "repeat",
        "N",
        "",
        AppliesTo::All,
        "Simulate all these requests so many times, one time after the other [default: 1]",
    ),
    Key::one("volumes", "N|merge|each", "each", AppliesTo::All, "Use one volume, overlay all, or keep each apart"),
    Key::one("ops", "all|writes", "all", AppliesTo::All, "Which operations take part; writes leaves out the reads"),
];

/// Settings that say which of the requests take part, and cannot without knowing where they come
/// from.
pub(crate) const READING: [&str; 4] = ["skip", "from", "to", "repeat"];

/// The part of the trace that the settings ask for.
fn window(settings: &Settings) -> Result<Window> {
    let window = Window {
        skip: settings.optional("skip", q::count)?.unwrap_or(0),
        from: settings.optional("from", q::time)?,
        to: settings.optional("to", q::time)?,
        limit: limit(settings)?,
    };
    match (window.from, window.to) {
        (from, Some(to)) if to <= from.unwrap_or(Nanos::ZERO) => Err(ScenarioError::new(
            "the window ends before it begins: 'to' must be later than 'from', and both count from the trace's first request",
        )),
        _ => Ok(window),
    }
}

/// The trace or the workload that the settings name.
pub fn requests(settings: &Settings) -> Result<Requests> {
    let workload = Workload::of(settings, &synth::WORKLOAD, &synth::WORKLOAD_SET)?;
    let file = settings.path("trace")?;
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
            let format = settings.optional("format", str::parse::<FormatSpec>)?;
            Origin::File { file, options: OpenOptions { format, lenient: settings.one("lenient", q::switch)? } }
        }
        (None, Some(workload)) => {
            if let Some(key) = ["format", "lenient"].into_iter().find(|key| settings.is_given(key)) {
                return Err(ScenarioError::new(format_args!("'{key}' has no meaning for a workload")));
            }
            // What is wrong with it shall be known now.
            workload.open()?;
            Origin::Workload(Box::new(workload))
        }
    };
    let repeat = settings.optional("repeat", |text| match q::count32(text) {
        Ok(0) | Err(_) => Err("a whole number of at least 1"),
        Ok(repeat) => Ok(repeat),
    })?;
    let (window, repeat) = (window(settings)?, repeat.unwrap_or(1));
    let requests = Requests::new(origin, window, repeat);
    match requests.pipe() {
        Some(pipe) if requests.repeat() > 1 => {
            let what = "repeat: a pipe can be read only once; give a file";
            Err(ScenarioError::new(what).at(pipe.display()))
        }
        _ => Ok(requests),
    }
}

pub(crate) fn limit(settings: &Settings) -> Result<Option<u64>> {
    settings.optional("limit", |text| match q::count(text) {
        Ok(0) | Err(_) => Err("a whole number of at least 1"),
        Ok(limit) => Ok(limit),
    })
}

pub(crate) fn volumes(text: &str) -> std::result::Result<Volumes, String> {
    match text {
        "each" => Ok(Volumes::Each),
        "merge" => Ok(Volumes::Merge),
        index => index.parse().map(Volumes::Only).map_err(|_| "each, merge, or a volume's index from 0".into()),
    }
}

pub(crate) fn ops(settings: &Settings) -> Result<Ops> {
    settings.one("ops", word(&[("all", Ops::All), ("writes", Ops::Writes)]))
}
