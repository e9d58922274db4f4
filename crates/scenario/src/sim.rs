//! The settings of `destage sim`, and the experiment they describe.

use std::path::{Path, PathBuf};

use destage_plan::{Nanos, PageGeometry};
use destage_policy::buffer::PolicySpec;
use destage_sim::experiment::{
    AnalyticConfig, DeviceConfig, Experiment, FlushMode, HostModel, Input, Resources, RunConfig, Subpage, TrimMode,
    Warmup,
};
use destage_sim::feed::{Ops, Speed, Volumes};
use destage_sim::space::LbaOverflow;
use destage_sim::ssd::{PRESETS, SsdConfig, StartState};
use destage_trace::{FormatSpec, OpenOptions, Place, TraceError};

use crate::quantity as q;
use crate::synth::WORKLOAD_SET;
use crate::workload::Workload;
use crate::{Key, ScenarioError, Settings};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Every setting of `destage sim`.
pub const SIM: &[Key] = &[
    Key::one("trace", "FILE", "", "The trace; - for the standard input. In a scenario file relative to that file"),
    Key::one("workload", "NAME|FILE", "", "A synthetic workload in place of a trace; see `destage trace workloads`"),
    Key::one("workload-set", "KEY=VALUE ...", "", WORKLOAD_SET),
    Key::one("format", "FORMAT", "", "Its format where the content does not decide; see `destage trace formats`"),
    Key::switch("lenient", "false", "Leave out and count lines that cannot be read"),
    Key::one("limit", "REQUESTS", "", "Read at most so many requests"),
    Key::one("volumes", "N|merge|each", "each", "Take one volume, lay all over each other, or keep each apart"),
    Key::one("ops", "all|writes", "all", "Which operations take part; writes leaves out the reads"),
    Key::list("policy", "NAME[:KEY=VALUE...]", "lru,clock,fab,bplru,lb-clock", "Policies; see `destage policies`"),
    Key::list("cache", "SIZE", "1MiB,4MiB,16MiB,64MiB", "Buffer sizes, in data held"),
    Key::one("page", "SIZE", "4KiB", "Page size"),
    Key::one("pages-per-block", "PAGES", "64", "Pages in a logical block and in an erase block"),
    Key::one(
        "subpage",
        "promote|rmw",
        "promote",
        "A write of part of a page: a page write, or preceded by a read on a miss",
    ),
    Key::one(
        "flush",
        "ignore|drain",
        "ignore",
        "A host flush: nothing (non-volatile buffer), or write all dirty pages",
    ),
    Key::one("trim", "honour|ignore", "honour", "A discard: buffer and device forget the pages, or nothing"),
    Key::one("device", "none|analytic|ssd", "none", "The device below the buffer"),
    Key::one(
        "start",
        "full|empty|aged:TIMES[:SEED]",
        "full",
        "What the flash holds at first; aged: TIMES random overwrites",
    ),
    Key::one(
        "lba-overflow",
        "wrap|filter|compact",
        "wrap",
        "Addresses beyond the device: modulo its size, left out, or blocks in order of first touch",
    ),
    Key::one("host", "open|closed:DEPTH", "open", "Requests arrive at trace time, or DEPTH are always outstanding"),
    Key::one("speed", "FACTOR", "1", "Play the trace so many times faster"),
    Key::one("warmup", "REQUESTS|TIME", "0", "What is simulated first and not measured"),
    Key::one("max-backlog", "REQUESTS", "10000", "With more outstanding requests an open-loop run is saturated"),
    Key::one("buffer-latency", "TIME", "1us", "Copying a page between host and buffer"),
    Key::switch("drain", "", "Count the final drain of the buffer [default: true without a warm-up]"),
    Key::file("json", "Write the results as JSON, to the standard output in place of the table or to a file"),
    Key::file("csv", "Write the results as CSV, likewise"),
    Key::switch("timing", "false", "Print wall time and rates to the standard error"),
    Key::switch("progress", "true", "Show progress where the standard error is a terminal"),
    Key::one("threads", "N", "", "Threads that simulate; without influence on results [default: the processors]"),
    Key::one(
        "memory",
        "SIZE",
        "2GiB",
        "Memory for simulated devices (beyond it the trace is read again for the rest), or without one for page tables",
    ),
    Key::one("ssd.preset", "NAME", "lawc", "lawc, gcar or 80gb; the other keys change it"),
    Key::one("ssd.elements", "N", "", "Elements (packages), each serving one operation at a time"),
    Key::one("ssd.planes", "N", "", "Planes in an element"),
    Key::one("ssd.blocks-per-plane", "N", "", "Erase blocks in a plane"),
    Key::one("ssd.reserve", "PERCENT", "", "Blocks of each plane that are not exported [default: 15%]"),
    Key::one("ssd.min-free", "PERCENT", "", "Free blocks at or below which an element collects [default: 5%]"),
    Key::one("ssd.read", "TIME", "", "Reading a page [default: 25us]"),
    Key::one("ssd.program", "TIME", "", "Programming a page [default: 200us]"),
    Key::one("ssd.erase", "TIME", "", "Erasing a block [default: 1.5ms]"),
    Key::one("ssd.transfer", "NS", "", "Moving a byte to or from an element, in ns; a sector moves 528 [default: 25]"),
    Key::switch("ssd.copy-back", "", "Copy valid pages inside their plane; planes work in parallel [default: false]"),
    Key::switch(
        "ssd.background",
        "",
        "Collect once an element runs low, not when its next operation comes [default: false]",
    ),
    Key::one("ssd.parallel-units", "N", "", "With copy-back: planes that can work at a time [default: all]"),
    Key::one("ssd.stride", "PAGES", "", "Consecutive pages on the same element [default: 1]"),
    Key::switch("ssd.summary-page", "", "The last page of each block holds no data [default: true]"),
    Key::one("ssd.endurance", "ERASES", "", "Erases that a block endures [default: 100000]"),
    Key::one("analytic.read", "TIME", "25us", "Reading a page"),
    Key::one("analytic.program", "TIME", "200us", "Programming a page"),
    Key::one("analytic.erase", "TIME", "1.5ms", "Erasing a block"),
    Key::one("analytic.transfer", "TIME", "13.65us", "Moving a page"),
    Key::switch("analytic.include-transfer", "true", "Whether reads and programs include the transfer"),
    Key::one("analytic.memory-access", "NS", "2.5", "A memory access of the algorithm, in ns"),
];

/// Requests that a closed-loop host may have outstanding: more than any device queue holds.
const MAX_DEPTH: u32 = 65_536;
/// Random overwrites, in hundredths, with which a device may be aged: many times what a steady state needs.
const MAX_OVERWRITES_PCT: u32 = 100_000;
/// Copying a page between host and buffer takes at most this.
const MAX_BUFFER_LATENCY: Nanos = Nanos(1_000_000_000);

/// Settings that only the SSD looks at, apart from its table.
const TIMED: &[&str] = &["start", "lba-overflow", "host", "max-backlog", "buffer-latency", "subpage"];

/// Where the requests come from.
#[derive(Clone, Debug)]
pub enum Requests {
    /// A trace.
    File {
        /// The file, or `-`.
        file: PathBuf,
        /// Format and leniency.
        options: OpenOptions,
    },
    /// A workload, generated anew in each pass.
    Workload(Box<Workload>),
}

impl Requests {
    /// The trace's file or the workload's name, as the user gave it.
    pub fn name(&self) -> String {
        match self {
            Self::File { file, .. } => file.display().to_string(),
            Self::Workload(workload) => workload.name().to_owned(),
        }
    }

    /// Begins to read or generate them; the standard input can be read only in the first pass, 0.
    pub fn open(&self, pass: u32) -> std::result::Result<Input, TraceError> {
        match self {
            Self::File { file, .. } if pass > 0 && file == Path::new("-") => Err(TraceError::new(
                file,
                Place::File,
                "the standard input can be read only once, and these devices do not fit into memory together; \
                 raise --memory, run fewer policies and sizes at a time, or give a file",
            )),
            Self::File { file, options } => {
                let trace = destage_trace::open(file, options)?;
                Ok(Input { format: trace.format().name().to_owned(), source: Box::new(trace) })
            }
            Self::Workload(workload) => {
                let failed =
                    |error: ScenarioError| TraceError::new(Path::new(workload.name()), Place::File, error.to_string());
                Ok(Input { format: "workload".to_owned(), source: Box::new(workload.open().map_err(failed)?) })
            }
        }
    }
}

/// The trace or the workload that the settings name.
pub fn requests(settings: &Settings) -> Result<Requests> {
    let workload = Workload::of(settings)?;
    let file = settings.path("trace")?;
    match (file, workload) {
        (Some(_), Some(_)) => Err(ScenarioError::new("'trace' and 'workload' are both given; leave one of them out")),
        (None, None) => Err(ScenarioError::new(
            "which trace? give --trace FILE or --workload NAME, or set trace or workload in a scenario file",
        )),
        (Some(file), None) => {
            let format = settings.optional("format", str::parse::<FormatSpec>)?;
            Ok(Requests::File { file, options: OpenOptions { format, lenient: settings.one("lenient", q::switch)? } })
        }
        (None, Some(workload)) => {
            if let Some(key) = ["format", "lenient"].into_iter().find(|key| settings.is_given(key)) {
                return Err(ScenarioError::new(format_args!("'{key}' has no meaning for a workload")));
            }
            // What is wrong with it shall be known now.
            workload.open()?;
            Ok(Requests::Workload(Box::new(workload)))
        }
    }
}

fn word<T: Copy>(choices: &[(&str, T)]) -> impl Fn(&str) -> std::result::Result<T, String> {
    move |text| {
        choices.iter().find(|(word, _)| *word == text).map(|&(_, choice)| choice).ok_or_else(|| {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            format!("one of {}", words.join(", "))
        })
    }
}

fn volumes(text: &str) -> std::result::Result<Volumes, String> {
    match text {
        "each" => Ok(Volumes::Each),
        "merge" => Ok(Volumes::Merge),
        index => index.parse().map(Volumes::Only).map_err(|_| "each, merge, or a volume's index from 0".into()),
    }
}

fn host(text: &str) -> std::result::Result<HostModel, String> {
    if text == "open" {
        return Ok(HostModel::Open);
    }
    let depth = text.strip_prefix("closed:").and_then(|depth| depth.parse().ok());
    let depth = depth.filter(|depth| (1..=MAX_DEPTH).contains(depth));
    depth
        .map(|depth| HostModel::Closed { depth })
        .ok_or_else(|| format!("open, or closed:DEPTH with a depth between 1 and {MAX_DEPTH}"))
}

fn start(text: &str) -> std::result::Result<StartState, String> {
    let parse = || {
        let rest = text.strip_prefix("aged:")?;
        let (times, seed) = rest.split_once(':').unwrap_or((rest, "1"));
        let overwrites_pct = u32::try_from(q::decimal(times.trim_end_matches('x'), 100).ok()?).ok()?;
        if overwrites_pct > MAX_OVERWRITES_PCT {
            return None;
        }
        Some(StartState::Aged { overwrites_pct, seed: seed.parse().ok()? })
    };
    match text {
        "full" => Ok(StartState::Full),
        "empty" => Ok(StartState::Empty),
        _ => parse().ok_or_else(|| {
            "full, empty, or aged:TIMES[:SEED] with at most 1000 times, such as aged:2.5 or aged:3:42".into()
        }),
    }
}

fn parse_warmup(text: &str) -> std::result::Result<Warmup, String> {
    match (q::count(text), q::time(text)) {
        (Ok(0), _) => Ok(Warmup::None),
        (Ok(requests), _) => Ok(Warmup::Requests(requests)),
        (_, Ok(time)) => Ok(Warmup::Time(time)),
        _ => Err("a number of requests, or a time such as 60s".into()),
    }
}

fn ssd(settings: &Settings) -> Result<SsdConfig> {
    let mut config = settings.one("ssd.preset", |name| {
        SsdConfig::preset(name).ok_or_else(|| {
            let names: Vec<_> = PRESETS.iter().map(|(name, _)| *name).collect();
            format!("one of {}", names.join(", "))
        })
    })?;
    let c = &mut config;
    let numbers = [
        ("ssd.elements", &mut c.elements),
        ("ssd.planes", &mut c.planes),
        ("ssd.blocks-per-plane", &mut c.blocks_per_plane),
        ("ssd.stride", &mut c.stride),
        ("ssd.endurance", &mut c.endurance),
    ];
    for (name, field) in numbers {
        *field = settings.optional(name, q::count32)?.unwrap_or(*field);
    }
    let shares = [("ssd.reserve", &mut c.reserve_bp), ("ssd.min-free", &mut c.min_free_bp)];
    for (name, field) in shares {
        *field = settings.optional(name, q::basis_points)?.unwrap_or(*field);
    }
    let times = [("ssd.read", &mut c.read), ("ssd.program", &mut c.program), ("ssd.erase", &mut c.erase)];
    for (name, field) in times {
        *field = settings.optional(name, q::time)?.unwrap_or(*field);
    }
    let switches = [
        ("ssd.copy-back", &mut c.copy_back),
        ("ssd.background", &mut c.background),
        ("ssd.summary-page", &mut c.summary_page),
    ];
    for (name, field) in switches {
        *field = settings.optional(name, q::switch)?.unwrap_or(*field);
    }
    let transfer = settings.optional("ssd.transfer", |text| q::decimal(text, 1000))?;
    c.transfer_ps_per_byte = transfer.unwrap_or(c.transfer_ps_per_byte);
    c.parallel_units = settings.optional("ssd.parallel-units", q::count32)?.unwrap_or(c.planes);
    Ok(config)
}

fn analytic(settings: &Settings) -> Result<AnalyticConfig> {
    Ok(AnalyticConfig {
        read: settings.one("analytic.read", q::time)?,
        program: settings.one("analytic.program", q::time)?,
        erase: settings.one("analytic.erase", q::time)?,
        transfer: settings.one("analytic.transfer", q::time)?,
        include_transfer: settings.one("analytic.include-transfer", q::switch)?,
        memory_access_ps: settings.one("analytic.memory-access", |text| q::decimal(text, 1000))?,
    })
}

/// The settings that say what was simulated: not those that results carry under a name of their own, and not those that
/// decide only how it is done or shown.
fn settings_for_results(settings: &Settings, device: &str) -> Vec<(String, String)> {
    const ELSEWHERE: &[&str] =
        &["trace", "workload", "format", "policy", "cache", "page", "pages-per-block", "device", "start"];
    const WITHOUT_INFLUENCE: &[&str] = &["json", "csv", "timing", "progress", "threads", "memory"];
    let tells = |name: &str| {
        let table = name.split_once('.').map(|(table, _)| table);
        !ELSEWHERE.contains(&name)
            && !WITHOUT_INFLUENCE.contains(&name)
            && (name != "lenient" || !settings.is_given("workload"))
            && table.is_none_or(|table| table == device)
            && (device == "ssd" || !TIMED.contains(&name))
    };
    settings.in_force().into_iter().filter(|(name, _)| tells(name)).collect()
}

/// The experiment that the settings describe.
pub fn experiment(settings: &Settings, requests: &Requests) -> Result<Experiment> {
    let page = settings.one("page", q::bytes)?;
    let pages_per_block = settings.one("pages-per-block", q::count)?;
    let geometry = PageGeometry::new(page, pages_per_block).map_err(ScenarioError::new)?;
    let device = match settings.one("device", word(&[("none", 0), ("analytic", 1), ("ssd", 2)]))? {
        0 => DeviceConfig::None,
        1 => DeviceConfig::Analytic(analytic(settings)?),
        _ => DeviceConfig::Ssd(ssd(settings)?, settings.one("start", start)?),
    };
    let unused = match device {
        DeviceConfig::None => ["ssd.", "analytic."].as_slice(),
        DeviceConfig::Analytic(_) => &["ssd."],
        DeviceConfig::Ssd(..) => &["analytic."],
    };
    for key in SIM {
        let of_ssd = TIMED.contains(&key.name) && !matches!(device, DeviceConfig::Ssd(..));
        if (of_ssd || unused.iter().any(|table| key.name.starts_with(table))) && settings.is_given(key.name) {
            return Err(ScenarioError::new(format_args!(
                "'{}' has no meaning for device = {}",
                key.name,
                device.word()
            )));
        }
    }
    let device_word = device.word().to_owned();
    let (times, per) = settings.one("speed", q::factor)?;
    let warmup = settings.one("warmup", parse_warmup)?;
    Ok(Experiment {
        trace: requests.name(),
        geometry,
        policies: settings.all("policy", str::parse::<PolicySpec>)?,
        caches: settings.all("cache", q::bytes)?,
        device,
        lba_overflow: settings.one(
            "lba-overflow",
            word(&[("wrap", LbaOverflow::Wrap), ("filter", LbaOverflow::Filter), ("compact", LbaOverflow::Compact)]),
        )?,
        ops: settings.one("ops", word(&[("all", Ops::All), ("writes", Ops::Writes)]))?,
        volumes: settings.one("volumes", volumes)?,
        speed: Speed { times, per },
        limit: settings.optional("limit", |text| match q::count(text) {
            Ok(0) | Err(_) => Err("a whole number of at least 1"),
            Ok(limit) => Ok(limit),
        })?,
        run: RunConfig {
            host: settings.one("host", host)?,
            flush: settings.one("flush", word(&[("ignore", FlushMode::Ignore), ("drain", FlushMode::Drain)]))?,
            trim: settings.one("trim", word(&[("honour", TrimMode::Honour), ("ignore", TrimMode::Ignore)]))?,
            subpage: settings.one("subpage", word(&[("promote", Subpage::Promote), ("rmw", Subpage::Rmw)]))?,
            warmup,
            max_backlog: settings.one("max-backlog", q::count)?,
            buffer_latency: settings.one("buffer-latency", |text| match q::time(text) {
                Ok(time) if time > MAX_BUFFER_LATENCY => Err("at most 1s".into()),
                time => time,
            })?,
            // A buffer that is warm at the start is left so at the end: draining it would charge the measured part
            // with writes that it did not bring.
            drain: settings.optional("drain", q::switch)?.unwrap_or(warmup == Warmup::None),
            capacity_pages: 0,
            pages_per_block: 0,
        },
        settings: settings_for_results(settings, &device_word),
    })
}

/// How the experiment is carried out.
pub fn resources(settings: &Settings) -> Result<Resources> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = settings.optional("threads", |text| match q::count32(text) {
        Ok(n) if (1..=4096).contains(&n) => Ok(n as usize),
        _ => Err("a number between 1 and 4096"),
    })?;
    Ok(Resources { threads: threads.unwrap_or(processors), memory_bytes: settings.one("memory", q::bytes)? })
}
