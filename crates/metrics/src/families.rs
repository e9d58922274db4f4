//! Lists every metric, and where its values come from.

use destage_engine::{ArrayState, CommandCounts, DeviceStatus, ScrubState, ServiceStatus, StateStatus};

/// Names the kind of a metric, as Open Metrics has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows while the service runs.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts requests by how long they took.
    Histogram,
    /// Has labels that describe the service, and the value 1.
    Info,
}

/// A value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSample {
    /// Lists names and values of labels.
    pub labels: Vec<(&'static str, String)>,
    /// Holds the value.
    pub value: SampleValue,
}

/// Holds the value of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum SampleValue {
    /// A number of things, bytes or rows.
    Whole(u64),
    /// Seconds or a share.
    Real(f64),
    /// Requests by their time.
    Times(TimeBuckets),
}

/// Requests by how long they took.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeBuckets {
    /// Gives the seconds of all together.
    pub sum: f64,
    /// Lists upper bounds in seconds, and how many requests took longer than the bound before and at most so long.
    pub buckets: Vec<(f64, u64)>,
}

/// A metric: its name, what it means, and its values.
#[derive(Clone, Copy)]
pub struct MetricFamily {
    /// Gives the name without the suffix that its kind has in the text.
    pub name: &'static str,
    /// Names the kind.
    pub kind: MetricKind,
    /// Gives the unit, which the name ends with: `seconds`, `bytes`, `ratio`.
    pub unit: Option<&'static str>,
    /// Lists the labels.
    pub labels: &'static [&'static str],
    /// Says what it means.
    pub help: &'static str,
    /// Takes the values from the status.
    pub samples: fn(&ServiceStatus) -> Vec<MetricSample>,
}

const fn family(
    name: &'static str,
    kind: MetricKind,
    unit: Option<&'static str>,
    labels: &'static [&'static str],
    help: &'static str,
    samples: fn(&ServiceStatus) -> Vec<MetricSample>,
) -> MetricFamily {
    MetricFamily { name, kind, unit, labels, help, samples }
}

fn one(value: u64) -> Vec<MetricSample> {
    vec![MetricSample { labels: Vec::new(), value: SampleValue::Whole(value) }]
}

fn real(value: f64) -> Vec<MetricSample> {
    vec![MetricSample { labels: Vec::new(), value: SampleValue::Real(value) }]
}

fn labelled(labels: &[(&'static str, &str)], value: u64) -> MetricSample {
    let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    MetricSample { labels, value: SampleValue::Whole(value) }
}

/// Returns the counts of each operation.
fn operations(status: &ServiceStatus) -> [(&'static str, &CommandCounts); 4] {
    let requests = &status.requests;
    [("read", &requests.reads), ("write", &requests.writes), ("flush", &requests.flushes), ("other", &requests.others)]
}

/// Returns a sample for each device.
fn each_device(status: &ServiceStatus, value: impl Fn(&DeviceStatus) -> u64) -> Vec<MetricSample> {
    status.array.devices.iter().map(|device| labelled(&[("device", &device.name)], value(device))).collect()
}

/// Returns samples for each device and operation.
fn each_command(
    status: &ServiceStatus,
    counts: impl Fn(&DeviceStatus) -> Vec<(&'static str, u64)>,
) -> Vec<MetricSample> {
    let of_device = |device: &DeviceStatus| {
        let of = counts(device).into_iter();
        of.map(|(op, value)| labelled(&[("device", &device.name), ("op", op)], value)).collect::<Vec<_>>()
    };
    status.array.devices.iter().flat_map(of_device).collect()
}

/// Returns a sample for the NVRAM and one for the intents.
fn each_state_file(status: &ServiceStatus, value: fn(&StateStatus) -> u64) -> Vec<MetricSample> {
    let files = [("nvram", &status.array.nvram), ("intents", &status.array.intents)];
    files.into_iter().map(|(name, file)| labelled(&[("file", name)], value(file))).collect()
}

/// Returns how the state is named, and all states.
fn states(state: &ArrayState) -> Vec<(&'static str, bool)> {
    let own = match state {
        ArrayState::Recovering => "recovering",
        ArrayState::Serving => "serving",
        ArrayState::Degraded => "degraded",
        ArrayState::Rebuilding => "rebuilding",
        ArrayState::Failed => "failed",
        ArrayState::Hanging => "hanging",
        ArrayState::Stopped(_) => "stopped",
    };
    let all = ["recovering", "serving", "degraded", "rebuilding", "failed", "hanging", "stopped"];
    all.into_iter().map(|name| (name, name == own)).collect()
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Lists every metric of a served array, in the order of the answer.
pub const FAMILIES: &[MetricFamily] = &[
    family(
        "destage",
        MetricKind::Info,
        None,
        &["version", "uuid", "level", "policy", "io"],
        "The program and the array that it serves.",
        |status| {
            let array = &status.array;
            vec![labelled(
                &[
                    ("version", env!("CARGO_PKG_VERSION")),
                    ("uuid", &array.uuid),
                    ("level", &array.level),
                    ("policy", &array.policy),
                    ("io", &array.io),
                ],
                1,
            )]
        },
    ),
    family(
        "destage_state",
        MetricKind::Gauge,
        None,
        &["state"],
        "1 for the state of the array, 0 for all others.",
        |status| {
            let states = states(&status.array.state).into_iter();
            states.map(|(name, is_own)| labelled(&[("state", name)], is_own.into())).collect()
        },
    ),
    family(
        "destage_uptime_seconds",
        MetricKind::Gauge,
        Some("seconds"),
        &[],
        "Time since the service began.",
        |status| real(status.up_seconds),
    ),
    family("destage_array_bytes", MetricKind::Gauge, Some("bytes"), &[], "Size of the array's data.", |status| {
        one(status.array.bytes)
    }),
    family(
        "destage_requests",
        MetricKind::Counter,
        None,
        &["op", "result"],
        "Requests of clients that were answered.",
        |status| {
            let counts = operations(status).into_iter().flat_map(|(op, counts)| {
                let ok = counts.count.saturating_sub(counts.failed);
                [("ok", ok), ("error", counts.failed)].map(|(result, value)| (op, result, value))
            });
            counts.map(|(op, result, value)| labelled(&[("op", op), ("result", result)], value)).collect()
        },
    ),
    family(
        "destage_request_bytes",
        MetricKind::Counter,
        Some("bytes"),
        &["op"],
        "Bytes of requests that were answered without an error.",
        |status| operations(status).map(|(op, counts)| labelled(&[("op", op)], counts.bytes)).to_vec(),
    ),
    family(
        "destage_request_duration_seconds",
        MetricKind::Histogram,
        Some("seconds"),
        &["op"],
        "Time from receiving a request to answering it.",
        |status| {
            let sample = |(op, counts): (&str, &CommandCounts)| {
                let buckets = counts.times.iter().map(|time| (seconds(time.up_to_ns), time.count));
                // Nothing took longer than the last bound, but readers expect the bucket of all.
                let buckets = buckets.chain([(f64::INFINITY, 0)]).collect();
                let times = TimeBuckets { sum: seconds(counts.sum_ns), buckets };
                MetricSample { labels: vec![("op", op.to_owned())], value: SampleValue::Times(times) }
            };
            operations(status).map(sample).to_vec()
        },
    ),
    family(
        "destage_requests_in_flight",
        MetricKind::Gauge,
        None,
        &[],
        "Requests of clients that are not answered yet.",
        |status| one(status.clients.under_way),
    ),
    family("destage_clients", MetricKind::Gauge, None, &[], "Clients that are connected.", |status| {
        one(status.clients.now)
    }),
    family("destage_clients_connected", MetricKind::Counter, None, &[], "Clients that have connected.", |status| {
        one(status.clients.came)
    }),
    family(
        "destage_clients_lost",
        MetricKind::Counter,
        None,
        &[],
        "Clients whose connection ended without a disconnect.",
        |status| one(status.clients.lost),
    ),
    family(
        "destage_clients_refused",
        MetricKind::Counter,
        None,
        &[],
        "Clients that were refused since as many were connected as can be.",
        |status| one(status.clients.turned_away),
    ),
    family(
        "destage_memory_held_bytes",
        MetricKind::Gauge,
        Some("bytes"),
        &[],
        "Memory that requests and replies hold.",
        |status| one(status.memory.held_bytes),
    ),
    family(
        "destage_memory_limit_bytes",
        MetricKind::Gauge,
        Some("bytes"),
        &[],
        "Memory that requests and replies may hold.",
        |status| one(status.memory.limit_bytes),
    ),
    family("destage_memory_waiting_clients", MetricKind::Gauge, None, &[], "Clients that wait for memory.", |status| {
        one(status.memory.waiting_clients)
    }),
    family(
        "destage_memory_failed_requests",
        MetricKind::Counter,
        None,
        &[],
        "Requests that failed since the system had no memory.",
        |status| one(status.memory.failed_requests),
    ),
    family(
        "destage_device_up",
        MetricKind::Gauge,
        None,
        &["device"],
        "1 while a member or the cache's device is in use, 0 once it is lost.",
        |status| each_device(status, |device| device.answers.into()),
    ),
    family(
        "destage_device_commands",
        MetricKind::Counter,
        None,
        &["device", "op"],
        "Commands that a device was given; marks are writes of rows that may be inconsistent.",
        |status| {
            each_command(status, |device| {
                vec![
                    ("read", device.reads),
                    ("write", device.writes),
                    ("trim", device.trims),
                    ("flush", device.flushes),
                    ("mark", device.marks),
                ]
            })
        },
    ),
    family(
        "destage_device_merges",
        MetricKind::Counter,
        None,
        &["device", "op"],
        "Reads and writes that left within another command, as neighbours.",
        |status| each_command(status, |device| vec![("read", device.read_merges), ("write", device.write_merges)]),
    ),
    family(
        "destage_device_fua_writes",
        MetricKind::Counter,
        None,
        &["device"],
        "Writes that are durable when they are done.",
        |status| each_device(status, |device| device.fua),
    ),
    family(
        "destage_device_bytes",
        MetricKind::Counter,
        Some("bytes"),
        &["device", "op"],
        "Bytes read from a device and written to it; marks are writes of rows that may be inconsistent.",
        |status| {
            each_command(status, |device| {
                vec![("read", device.read_bytes), ("write", device.written_bytes), ("mark", device.mark_bytes)]
            })
        },
    ),
    family(
        "destage_device_waiting_seconds",
        MetricKind::Gauge,
        Some("seconds"),
        &["device"],
        "How long a device's oldest command has had no answer, if that is more than a second; else 0.",
        |status| {
            let sample = |device: &DeviceStatus| MetricSample {
                labels: vec![("device", device.name.clone())],
                value: SampleValue::Real(device.waiting_seconds.unwrap_or(0.0)),
            };
            status.array.devices.iter().map(sample).collect()
        },
    ),
    family(
        "destage_device_rebuilt_ratio",
        MetricKind::Gauge,
        Some("ratio"),
        &["device"],
        "Share of a member that is rebuilt, or copied to the file that replaces it; of those alone that are being filled.",
        |status| {
            let percent = |device: &DeviceStatus| {
                device.filled_percent.or(device.successor.as_ref().map(|successor| successor.filled_percent))
            };
            let filled = status.array.devices.iter().filter_map(|device| Some((device, percent(device)?)));
            let sample = |(device, percent): (&DeviceStatus, f64)| MetricSample {
                labels: vec![("device", device.name.clone())],
                value: SampleValue::Real(percent / 100.0),
            };
            filled.map(sample).collect()
        },
    ),
    family(
        "destage_device_corrected_pages",
        MetricKind::Counter,
        None,
        &["device"],
        "Pages that a member could not read and that were rewritten from the others.",
        |status| each_device(status, |device| device.corrected_pages),
    ),
    family(
        "destage_device_bad_pages",
        MetricKind::Gauge,
        None,
        &["device"],
        "Pages that a member cannot read even when they were rewritten; they are computed from the others.",
        |status| each_device(status, |device| device.bad_pages),
    ),
    family(
        "destage_device_checksum_errors",
        MetricKind::Counter,
        None,
        &["device"],
        "Reads that brought something else than what was written, by its checksum.",
        |status| each_device(status, |device| device.mismatched_reads),
    ),
    family(
        "destage_journal_changes",
        MetricKind::Counter,
        None,
        &["file"],
        "Changes of the NVRAM and of the intents.",
        |status| each_state_file(status, |file| file.steps),
    ),
    family(
        "destage_journal_written_bytes",
        MetricKind::Counter,
        Some("bytes"),
        &["file"],
        "Bytes written to the NVRAM and to the intents.",
        |status| each_state_file(status, |file| file.written_bytes),
    ),
    family(
        "destage_journal_syncs",
        MetricKind::Counter,
        None,
        &["file"],
        "Times that the NVRAM and the intents were made durable; several changes may share one.",
        |status| each_state_file(status, |file| file.syncs),
    ),
    family(
        "destage_cache_in_use",
        MetricKind::Gauge,
        None,
        &[],
        "1 while the cache is in use, 0 once its device is lost; absent without a cache.",
        |status| status.array.cache.iter().flat_map(|cache| one(cache.in_use.into())).collect(),
    ),
    family(
        "destage_cache_pages",
        MetricKind::Counter,
        None,
        &["op", "result"],
        "Pages that requests read and wrote, by whether the cache had them.",
        |status| {
            let of_cache = status.array.cache.iter().flat_map(|cache| {
                [
                    ("read", "hit", cache.read_hits),
                    ("read", "miss", cache.read_misses),
                    ("write", "hit", cache.write_hits),
                    ("write", "miss", cache.write_misses),
                ]
            });
            of_cache.map(|(op, result, pages)| labelled(&[("op", op), ("result", result)], pages)).collect()
        },
    ),
    family(
        "destage_cache_bypassed_pages",
        MetricKind::Counter,
        None,
        &["reason"],
        "Pages that went past the cache.",
        |status| {
            let of_cache = status.array.cache.iter();
            of_cache.map(|cache| labelled(&[("reason", "sequential")], cache.bypassed)).collect()
        },
    ),
    family(
        "destage_cache_figure",
        MetricKind::Gauge,
        None,
        &["name", "unit"],
        "What the cache's policy counts of its own, by the names that destage status has.",
        |status| {
            let figures = status.array.cache.iter().flat_map(|cache| &cache.figures);
            figures.map(|figure| labelled(&[("name", &figure.name), ("unit", &figure.unit)], figure.value)).collect()
        },
    ),
    family(
        "destage_stale_rows",
        MetricKind::Gauge,
        None,
        &[],
        "Rows whose parity does not cover their newest data.",
        |status| one(status.array.stale_rows),
    ),
    family(
        "destage_lost_bytes",
        MetricKind::Gauge,
        Some("bytes"),
        &[],
        "Data that is lost until it is written again.",
        |status| one(status.array.lost.iter().map(|range| range.bytes).sum()),
    ),
    family(
        "destage_copied_bytes",
        MetricKind::Counter,
        Some("bytes"),
        &[],
        "Bytes that were copied in memory for lack of a buffer that could be passed on.",
        |status| one(status.array.copied_bytes),
    ),
    family("destage_scrub_running", MetricKind::Gauge, None, &[], "1 while rows are scrubbed, else 0.", |status| {
        one(status.array.scrub.as_ref().is_some_and(|scrub| scrub.state == ScrubState::Running).into())
    }),
    family(
        "destage_scrub_ratio",
        MetricKind::Gauge,
        Some("ratio"),
        &[],
        "Share of each member that the scrub has covered which runs, or ran last; absent without one.",
        |status| status.array.scrub.iter().flat_map(|scrub| real(scrub.percent() / 100.0)).collect(),
    ),
    family(
        "destage_scrub_rows",
        MetricKind::Gauge,
        None,
        &["result"],
        "Rows of the scrub that runs, or ran last, by what was found.",
        |status| {
            let rows = status.array.scrub.iter().flat_map(|scrub| {
                [
                    ("checked", scrub.rows.saturating_sub(scrub.unchecked_rows)),
                    ("unchecked", scrub.unchecked_rows),
                    ("mismatched", scrub.mismatched_rows),
                    ("repaired", scrub.repaired_rows),
                ]
            });
            rows.map(|(result, value)| labelled(&[("result", result)], value)).collect()
        },
    ),
];
