//! The settings of a synthetic trace.

use std::num::NonZeroU64;
use std::path::PathBuf;

use destage_trace::{AccessFootprint, ArrivalProcess, PercentShare, SizeMix, SynthLength, SynthSpec, SynthVolumes};

use crate::key::{count, joined};
use crate::quantity as q;
use crate::setting::declare_settings;
use crate::values::{parsed, path};
use crate::{AppliesTo, ScenarioError, ScenarioSettings, SettingKey, TypedSetting};

declare_settings! {
    /// Lists the settings of one stream of requests.
    pub(crate) table STREAM;

    const SIZES: TypedSetting<SizeMix> = TypedSetting::one(
        "sizes",
        "SIZE:WEIGHT,...",
        "4KiB:1",
        AppliesTo::All,
        "Request sizes and their weights",
        parsed,
    );
    const READ: TypedSetting<PercentShare> = TypedSetting::one("read", "PERCENT", "0", AppliesTo::All, "Share of reads", parsed);
    const DISCARD: TypedSetting<PercentShare> = TypedSetting::one(
        "discard",
        "PERCENT",
        "0",
        AppliesTo::All,
        "Share of discards",
        parsed,
    );
    const ARRIVALS: TypedSetting<ArrivalProcess> = TypedSetting::one(
        "arrivals",
        "PROCESS",
        "poisson:1ms",
        AppliesTo::All,
        "closed (all at 0), constant:TIME, poisson:MEAN, or on-off:INTERVAL,ON,OFF (bursts)",
        parsed,
    );
    const SEQUENTIAL: TypedSetting<PercentShare> = TypedSetting::one(
        "sequential",
        "PERCENT",
        "0",
        AppliesTo::All,
        "Share of requests that begin where the one before of their kind ended",
        parsed,
    );
    const FOOTPRINT: TypedSetting<AccessFootprint> = TypedSetting::one(
        "footprint",
        "FOOTPRINT",
        "uniform",
        AppliesTo::All,
        "Where the others go: uniform, zipf:ALPHA[,scattered], hot-cold:SPACE,ACCESSES (percent), \
         clusters:ALPHA,SIZE[,INNER], drift:WINDOW,REQUESTS, append:STREAMS,EXTENT, or filling:STREAMS,EXTENT,PIECE,TIME[,PACE]",
        parsed,
    );
    const ALIGN: TypedSetting<u64> = TypedSetting::one(
        "align",
        "SIZE",
        "4KiB",
        AppliesTo::All,
        "Alignment of random addresses",
        q::bytes,
    );
    const SPACE: TypedSetting<u64> = TypedSetting::one("space", "SIZE", "1GiB", AppliesTo::All, "Size of each volume", q::bytes);
    const VOLUMES: TypedSetting<SynthVolumes> = TypedSetting::one(
        "volumes",
        "COUNT[:PERCENT]",
        "1",
        AppliesTo::All,
        "Volumes, and the first one's share of the requests",
        parsed,
    );
    const FLUSH_EVERY: TypedSetting<u64> = TypedSetting::one(
        "flush-every",
        "WRITES",
        "0",
        AppliesTo::All,
        "A flush after every WRITES writes; 0 for none",
        q::count,
    );
}

declare_settings! {
    /// Lists the settings of a trace beside those of its stream.
    table TRACE;

    pub(crate) const LENGTH: TypedSetting<SynthLength> = TypedSetting::one(
        "length",
        "REQUESTS|TIME",
        "100000",
        AppliesTo::All,
        "How many requests, or for how long: 60s",
        parsed,
    );
    pub(crate) const SEED: TypedSetting<u64> = TypedSetting::one(
        "seed",
        "SEED",
        "1",
        AppliesTo::All,
        "Which of the traces with these properties",
        q::count,
    );
    pub(crate) const LEVEL: TypedSetting<i32> = TypedSetting::one(
        "level",
        "LEVEL",
        "3",
        AppliesTo::All,
        "Compression level of the native format, 1 to 22",
        compression,
    );
    pub(crate) const WORKLOAD: TypedSetting<PathBuf> = TypedSetting::one(
        "workload",
        "NAME|FILE",
        "",
        AppliesTo::All,
        "A workload in place of one stream, see `destage trace workloads`; other settings change it",
        path,
    );
    pub(crate) const WORKLOAD_SET: TypedSetting<String> = TypedSetting::one(
        "workload-set",
        "KEY=VALUE ...",
        "",
        AppliesTo::All,
        WORKLOAD_SET_HELP,
        parsed,
    );
}

/// The settings of `destage trace synth`.
pub const SYNTH: &[SettingKey] = &joined::<{ count(&[STREAM, TRACE]) }>(&[STREAM, TRACE]);

/// Holds the help of the key `workload-set`.
pub(crate) const WORKLOAD_SET_HELP: &str =
    "Changes to the workload: length, seed, or part.N.KEY of part N from 0 (one part: KEY)";

/// The trace that the settings describe; the generator checks how its values go together.
pub fn spec(settings: &ScenarioSettings) -> Result<SynthSpec, ScenarioError> {
    stream(settings, LENGTH.get(settings)?, SEED.get(settings)?)
}

/// The stream that settings with the keys of [`STREAM`] describe.
pub(crate) fn stream(settings: &ScenarioSettings, length: SynthLength, seed: u64) -> Result<SynthSpec, ScenarioError> {
    Ok(SynthSpec {
        length,
        sizes: SIZES.get(settings)?,
        read_share: READ.get(settings)?,
        discard_share: DISCARD.get(settings)?,
        arrivals: ARRIVALS.get(settings)?,
        sequential_share: SEQUENTIAL.get(settings)?,
        footprint: FOOTPRINT.get(settings)?,
        align: ALIGN.get(settings)?,
        space: SPACE.get(settings)?,
        volumes: VOLUMES.get(settings)?,
        flush_every: FLUSH_EVERY.get(settings).map(NonZeroU64::new)?,
        seed,
    })
}

/// The compression level of the file.
pub fn level(settings: &ScenarioSettings) -> Result<i32, ScenarioError> {
    LEVEL.get(settings)
}

fn compression(text: &str) -> Result<i32, String> {
    match text.parse() {
        Ok(level) if (1..=22).contains(&level) => Ok(level),
        _ => Err("a number between 1 and 22".into()),
    }
}
