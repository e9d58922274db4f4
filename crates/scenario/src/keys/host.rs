//! Settings of the host: how it sends requests, and what is measured of them.

use destage_plan::Nanos;
use destage_sim::input::{HostModel, PlaySpeed, WarmupPart};

use super::Result;
use crate::quantity as q;
use crate::setting::declare_settings;
use crate::{AppliesTo, RecordedPlace, ScenarioSettings, TypedSetting};

declare_settings! {
    /// Lists the settings of the host, in the order of the help.
    pub(super) table KEYS;

    /// Holds how requests arrive.
    pub const HOST: TypedSetting<HostModel> = TypedSetting::one(
        "host",
        "open|bounded:DEPTH|closed:DEPTH",
        "open",
        AppliesTo::Timed,
        "Requests arrive at trace time; the same, but while DEPTH are outstanding the trace waits; or DEPTH are always outstanding",
        host,
    )
    .recorded(RecordedPlace::ArrayField);
    pub(crate) const SPEED: TypedSetting<(u64, u64)> = TypedSetting::one(
        "speed",
        "FACTOR",
        "1",
        AppliesTo::All,
        "Play the trace this many times as fast",
        q::factor,
    );
    /// Holds what is not measured.
    pub const WARMUP: TypedSetting<GivenWarmup> = TypedSetting::one(
        "warmup",
        "REQUESTS|TIME|PERCENT",
        "0",
        AppliesTo::All,
        "What is simulated first of the window and not measured; 20% is a share of its requests, which are counted first",
        warmup,
    );
    pub(crate) const MAX_BACKLOG: TypedSetting<u64> = TypedSetting::one(
        "max-backlog",
        "REQUESTS",
        "10000",
        AppliesTo::Timed,
        "An open-loop run with more outstanding requests is saturated",
        q::count,
    );
    pub(crate) const BUFFER_LATENCY: TypedSetting<Nanos> = TypedSetting::one(
        "buffer-latency",
        "TIME",
        "1us",
        AppliesTo::TimedBuffers,
        "Copying a page between host and buffer",
        buffer_latency,
    );
    pub(crate) const DRAIN: TypedSetting<bool> = TypedSetting::switch(
        "drain",
        "",
        AppliesTo::All,
        "Count the final drain of the buffer [default: true without a warm-up], or have an array's cache pay at the end what it owes \
         the members [default: false]",
    );
    /// Holds whether there are figures of each volume.
    pub const PER_VOLUME: TypedSetting<bool> = TypedSetting::switch(
        "per-volume",
        "false",
        AppliesTo::All,
        "Also figures of each volume of the trace: requests, hits, response times, pages written because of its data",
    )
    .recorded(RecordedPlace::Figures);
}

/// Requests that a host may have outstanding: more than any device queue holds.
pub(super) const MAX_DEPTH: u32 = 65_536;

/// Copying a page between host and buffer takes at most this.
const MAX_BUFFER_LATENCY: Nanos = Nanos(1_000_000_000);

/// Reads how many times as fast the trace is played.
pub(crate) fn speed(settings: &ScenarioSettings) -> Result<PlaySpeed> {
    let (times, per) = SPEED.get(settings)?;
    Ok(PlaySpeed { times, per })
}

fn host(text: &str) -> std::result::Result<HostModel, String> {
    if text == "open" {
        return Ok(HostModel::Open);
    }
    let model = text.split_once(':').and_then(|(model, depth)| {
        let depth = depth.parse().ok().filter(|depth| (1..=MAX_DEPTH).contains(depth))?;
        match model {
            "bounded" => Some(HostModel::Bounded { depth }),
            "closed" => Some(HostModel::Closed { depth }),
            _ => None,
        }
    });
    model.ok_or_else(|| format!("open, or bounded:DEPTH or closed:DEPTH with a depth between 1 and {MAX_DEPTH}"))
}

/// The warm-up as it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenWarmup {
    /// In requests, or as a time.
    Known(WarmupPart),
    /// Hundredths of a percent of the requests.
    Share(u32),
}

fn buffer_latency(text: &str) -> std::result::Result<Nanos, String> {
    match q::time(text) {
        Ok(time) if time > MAX_BUFFER_LATENCY => Err("at most 1s".into()),
        time => time,
    }
}

fn warmup(text: &str) -> std::result::Result<GivenWarmup, String> {
    if text.ends_with('%') {
        return q::basis_points(text).map(GivenWarmup::Share);
    }
    // A bare number counts requests; a time has its unit.
    match (q::count(text), q::time(text)) {
        (Ok(0), _) => Ok(GivenWarmup::Known(WarmupPart::None)),
        (Ok(requests), _) => Ok(GivenWarmup::Known(WarmupPart::Requests(requests))),
        (_, Ok(time)) => Ok(GivenWarmup::Known(WarmupPart::Time(time))),
        _ => Err("a number of requests, a time such as 60s, or a share of the requests such as 20%".into()),
    }
}
