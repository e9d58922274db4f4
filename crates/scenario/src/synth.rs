//! The settings of a synthetic trace.

use std::num::NonZeroU64;

use destage_trace::SynthSpec;

use crate::quantity as q;
use crate::{Key, ScenarioError, Settings};

/// The settings of `destage trace synth`.
pub const SYNTH: &[Key] = &[
    Key::one("length", "REQUESTS|TIME", "100000", "How many requests, or for how long: 60s"),
    Key::one("sizes", "SIZE:WEIGHT,...", "4KiB:1", "Request sizes and their weights"),
    Key::one("read", "PERCENT", "0", "Share of reads"),
    Key::one("discard", "PERCENT", "0", "Share of discards"),
    Key::one(
        "arrivals",
        "PROCESS",
        "poisson:1ms",
        "closed (all at 0), constant:TIME, poisson:MEAN, or on-off:INTERVAL,ON,OFF (bursts)",
    ),
    Key::one("sequential", "PERCENT", "0", "Share of requests that begin where the one before of their kind ended"),
    Key::one(
        "footprint",
        "FOOTPRINT",
        "uniform",
        "Where the others go: uniform, zipf:ALPHA[,scattered], or hot-cold:SPACE%,ACCESSES%",
    ),
    Key::one("align", "SIZE", "4KiB", "Alignment of random addresses"),
    Key::one("space", "SIZE", "1GiB", "Size of each volume"),
    Key::one("volumes", "COUNT[:PERCENT]", "1", "Volumes, and the first one's share of the requests"),
    Key::one("flush-every", "WRITES", "0", "A flush after every so many writes; 0 for none"),
    Key::one("seed", "SEED", "1", "Which of the traces with these properties"),
    Key::one("level", "LEVEL", "3", "Compression level of the native format, 1 to 22"),
];

/// The trace that the settings describe; the generator checks how its values go together.
pub fn spec(settings: &Settings) -> Result<SynthSpec, ScenarioError> {
    Ok(SynthSpec {
        length: settings.one("length", str::parse)?,
        sizes: settings.one("sizes", str::parse)?,
        read_share: settings.one("read", str::parse)?,
        discard_share: settings.one("discard", str::parse)?,
        arrivals: settings.one("arrivals", str::parse)?,
        sequential_share: settings.one("sequential", str::parse)?,
        footprint: settings.one("footprint", str::parse)?,
        align: settings.one("align", q::bytes)?,
        space: settings.one("space", q::bytes)?,
        volumes: settings.one("volumes", str::parse)?,
        flush_every: settings.one("flush-every", q::count).map(NonZeroU64::new)?,
        seed: settings.one("seed", q::count)?,
    })
}

/// The compression level of the file.
pub fn level(settings: &Settings) -> Result<i32, ScenarioError> {
    settings.one("level", |text| match text.parse() {
        Ok(level) if (1..=22).contains(&level) => Ok(level),
        _ => Err("a number between 1 and 22"),
    })
}
