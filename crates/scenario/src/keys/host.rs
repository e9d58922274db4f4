//! Settings of the host: how it sends requests, and what is measured of them.

use destage_plan::Nanos;
use destage_sim::input::{HostModel, Warmup};

use crate::quantity as q;
use crate::{AppliesTo, Key, Recorded};

/// Lists the settings of the host, in the order of the help.
pub(super) const KEYS: &[Key] = &[
    Key::one(
        "host",
        "open|closed:DEPTH",
        "open",
        AppliesTo::Timed,
        "Requests arrive at trace time, or DEPTH are always outstanding",
    )
    .recorded(Recorded::ArrayField),
    Key::one("speed", "FACTOR", "1", AppliesTo::All, "Play the trace this many times as fast"),
    Key::one(
        "warmup",
        "REQUESTS|TIME|PERCENT",
        "0",
        AppliesTo::All,
        "What is simulated first of the window and not measured; 20% is a share of its requests, which are counted first",
    ),
    Key::one(
        "max-backlog",
        "REQUESTS",
        "10000",
        AppliesTo::Timed,
        "An open-loop run with more outstanding requests is saturated",
    ),
    Key::one("buffer-latency", "TIME", "1us", AppliesTo::TimedBuffers, "Copying a page between host and buffer"),
    Key::switch(
        "drain",
        "",
        AppliesTo::All,
        "Count the final drain of the buffer [default: true without a warm-up], or have an array's cache pay at the end what it owes \
         the members [default: false]",
    ),
    Key::switch(
        "per-volume",
        "false",
        AppliesTo::All,
        "Also figures of each volume of the trace: requests, hits, response times, pages written because of its data",
    )
    .recorded(Recorded::Figures),
];

/// Requests that a closed-loop host may have outstanding: more than any device queue holds.
pub(crate) const MAX_DEPTH: u32 = 65_536;

/// Copying a page between host and buffer takes at most this.
pub(crate) const MAX_BUFFER_LATENCY: Nanos = Nanos(1_000_000_000);

pub(crate) fn host(text: &str) -> std::result::Result<HostModel, String> {
    if text == "open" {
        return Ok(HostModel::Open);
    }
    let depth = text.strip_prefix("closed:").and_then(|depth| depth.parse().ok());
    let depth = depth.filter(|depth| (1..=MAX_DEPTH).contains(depth));
    depth
        .map(|depth| HostModel::Closed { depth })
        .ok_or_else(|| format!("open, or closed:DEPTH with a depth between 1 and {MAX_DEPTH}"))
}

/// The warm-up as it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenWarmup {
    Known(Warmup),
    /// Hundredths of a percent of the requests.
    Share(u32),
}

pub(crate) fn given_warmup(text: &str) -> std::result::Result<GivenWarmup, String> {
    if text.ends_with('%') {
        return q::basis_points(text).map(GivenWarmup::Share);
    }
    match (q::count(text), q::time(text)) {
        (Ok(0), _) => Ok(GivenWarmup::Known(Warmup::None)),
        (Ok(requests), _) => Ok(GivenWarmup::Known(Warmup::Requests(requests))),
        (_, Ok(time)) => Ok(GivenWarmup::Known(Warmup::Time(time))),
        _ => Err("a number of requests, a time such as 60s, or a share of the requests such as 20%".into()),
    }
}
