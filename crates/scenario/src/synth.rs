//! The settings of a synthetic trace.

use std::num::NonZeroU64;

use destage_trace::{Length, SynthSpec};

use crate::quantity as q;
use crate::{AppliesTo, Key, ScenarioError, Settings};

/// The settings of one stream of requests.
pub(crate) const STREAM: [Key; 10] = [
    Key::one("sizes", "SIZE:WEIGHT,...", "4KiB:1", AppliesTo::All, "Request sizes and their weights"),
    Key::one("read", "PERCENT", "0", AppliesTo::All, "Share of reads"),
    Key::one("discard", "PERCENT", "0", AppliesTo::All, "Share of discards"),
    Key::one(
        "arrivals",
        "PROCESS",
        "poisson:1ms",
        AppliesTo::All,
        "closed (all at 0), constant:TIME, poisson:MEAN, or on-off:INTERVAL,ON,OFF (bursts)",
    ),
    Key::one(
        "sequential",
        "PERCENT",
        "0",
        AppliesTo::All,
        "Share of requests that begin where the one before of their kind ended",
    ),
    Key::one(
        "footprint",
        "FOOTPRINT",
        "uniform",
        AppliesTo::All,
        "Where the others go: uniform, zipf:ALPHA[,scattered], hot-cold:SPACE,ACCESSES (percent), \
         clusters:ALPHA,SIZE[,INNER], drift:WINDOW,REQUESTS, append:STREAMS,EXTENT, or filling:STREAMS,EXTENT,PIECE,TIME[,PACE]",
    ),
    Key::one("align", "SIZE", "4KiB", AppliesTo::All, "Alignment of random addresses"),
    Key::one("space", "SIZE", "1GiB", AppliesTo::All, "Size of each volume"),
    Key::one("volumes", "COUNT[:PERCENT]", "1", AppliesTo::All, "Volumes, and the first one's share of the requests"),
    Key::one("flush-every", "WRITES", "0", AppliesTo::All, "A flush after every WRITES writes; 0 for none"),
];

/// The keys of `a`, then those of `b`.
pub(crate) const fn joined<const A: usize, const B: usize, const N: usize>(a: [Key; A], b: [Key; B]) -> [Key; N] {
    assert!(A + B == N, "the length of the joined list is that of both");
    let mut all = [a[0]; N];
    let mut i = 0;
    while i < N {
        all[i] = if i < A { a[i] } else { b[i - A] };
        i += 1;
    }
    all
}

/// The settings of `destage trace synth`.
pub const SYNTH: &[Key] = &joined::<10, 5, 15>(
    STREAM,
    [
        Key::one("length", "REQUESTS|TIME", "100000", AppliesTo::All, "How many requests, or for how long: 60s"),
        Key::one("seed", "SEED", "1", AppliesTo::All, "Which of the traces with these properties"),
        Key::one("level", "LEVEL", "3", AppliesTo::All, "Compression level of the native format, 1 to 22"),
        Key::one(
            "workload",
            "NAME|FILE",
            "",
            AppliesTo::All,
            "A workload in place of one stream, see `destage trace workloads`; other settings change it",
        ),
        Key::one("workload-set", "KEY=VALUE ...", "", AppliesTo::All, WORKLOAD_SET),
    ],
);

/// What the key `workload-set` does.
pub(crate) const WORKLOAD_SET: &str =
    "Changes to the workload: length, seed, or part.N.KEY of part N from 0 (one part: KEY)";

/// The trace that the settings describe; the generator checks how its values go together.
pub fn spec(settings: &Settings) -> Result<SynthSpec, ScenarioError> {
    stream(settings, settings.one("length", str::parse)?, settings.one("seed", q::count)?)
}

/// The stream that settings with the keys of [`STREAM`] describe.
pub(crate) fn stream(settings: &Settings, length: Length, seed: u64) -> Result<SynthSpec, ScenarioError> {
    Ok(SynthSpec {
        length,
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
        seed,
    })
}

/// The compression level of the file.
pub fn level(settings: &Settings) -> Result<i32, ScenarioError> {
    settings.one("level", |text| match text.parse() {
        Ok(level) if (1..=22).contains(&level) => Ok(level),
        _ => Err("a number between 1 and 22"),
    })
}
