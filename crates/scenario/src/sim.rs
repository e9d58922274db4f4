//! The settings of `destage sim`, and the experiment they describe.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_cache::all_host_caches;
use destage_plan::{Nanos, PageGeometry, PolicySpec, SpecError, names};
use destage_policy::buffer;
use destage_sim::buffer::{Admission, AnalyticConfig, Capacity, DeviceConfig, Experiment, FlushMode, RunConfig};
use destage_sim::curve::Found;
use destage_sim::experiment::{Input, Resources, Stop};
use destage_sim::input::{HostModel, LbaOverflow, Ops, Speed, Subpage, TrimMode, Volumes, Warmup};
use destage_sim::measure::SizesResult;
use destage_sim::ssd::{Allocation, Ftl, SsdConfig, StartState, drive, presets};
use destage_trace::{FormatSpec, OpenOptions, Place, Reopen, Repeated, TraceError, Window, Windowed};

use crate::quantity as q;
use crate::sizes::{self, CacheSize};
use crate::synth::WORKLOAD_SET;
use crate::workload::Workload;
use crate::{Key, ScenarioError, Settings, path_text};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Every setting of `destage sim`.
pub const SIM: &[Key] = &[
    Key::one("trace", "FILE", "", "The trace; - for the standard input. In a scenario file relative to that file"),
    Key::one("workload", "NAME|FILE", "", "A synthetic workload in place of a trace; see `destage trace workloads`"),
    Key::one("workload-set", "KEY=VALUE ...", "", WORKLOAD_SET),
    Key::one("format", "FORMAT", "", "Its format where the content does not decide; see `destage trace formats`"),
    Key::switch("lenient", "false", "Leave out and count lines that cannot be read"),
    Key::one("skip", "REQUESTS", "", "Leave out this many requests at the trace's beginning"),
    Key::one("from", "TIME", "", "Begin with the first request at or after this time, counted from the trace's first"),
    Key::one("to", "TIME", "", "End before the first request at or after this time, counted from the trace's first"),
    Key::one("limit", "REQUESTS", "", "Read at most this many requests of what skip, from and to leave"),
    Key::one("repeat", "N", "", "Simulate all these requests so many times, one time after the other [default: 1]"),
    Key::one("volumes", "N|merge|each", "each", "Use one volume, overlay all, or keep each apart"),
    Key::one("ops", "all|writes", "all", "Which operations take part; writes leaves out the reads"),
    Key::list("policy", "NAME[:KEY=VALUE...]", "lru,clock,fab,bplru,lb-clock", "Policies; see `destage policies`"),
    Key::list(
        "cache",
        "SIZE|SHARE|RANGE|auto",
        "1MiB,4MiB,16MiB,64MiB",
        "Buffer sizes, in data held; also shares of the pages that take part, such as 10%, ranges such as 1MiB..1GiB/8, and auto, which \
         looks where LRU's curve of hits bends (both read the trace once more)",
    ),
    Key::one("page", "SIZE", "4KiB", "Page size"),
    Key::one("pages-per-block", "PAGES", "64", "Pages in a logical block and in an erase block"),
    Key::one(
        "subpage",
        "promote|rmw",
        "promote",
        "A write of part of a page: a page write, or preceded by a read on a miss",
    ),
    Key::one(
        "admission",
        "page|request",
        "page",
        "Room is made for each page of a request when it comes in, or for all of them before the first does",
    ),
    Key::one(
        "flush",
        "ignore|drain",
        "ignore",
        "A host flush: nothing (non-volatile buffer), or write all dirty pages",
    ),
    Key::one("trim", "honour|ignore", "honour", "A discard: buffer and device forget the pages, or nothing"),
    Key::one(
        "device",
        "none|analytic|ssd|disk|fixed",
        "none",
        "Below the buffer: none, analytic or ssd; the members of an array: disk (the default there), ssd or fixed",
    ),
    Key::one("array", "LEVEL:MEMBERS", "", "A redundant array, such as raid5:5, and host-side policies in front of it"),
    Key::one("layout", "NAME", "", "Where the array's parity lies, by mdadm's names [default: left-symmetric]"),
    Key::one("chunk", "SIZE", "64KiB", "Contiguous data on a member"),
    Key::one(
        "member-size",
        "SIZE",
        "",
        "What is used of each member [default: of a disk all of it, else what the trace takes, or as ssd.capacity says]",
    ),
    Key::one(
        "parity",
        "min|rmw|rcw|disksim",
        "min",
        "How parity is updated: what reads least, read-modify-write, reconstruct-write, or as DiskSim chooses",
    ),
    Key::one(
        "regime",
        "flush|every-write",
        "flush",
        "What the array promises: durable after a flush or with FUA, or each acknowledged write",
    ),
    Key::one("cache-device", "ssd|disk|fixed", "ssd", "Where host-side policies cache"),
    Key::one(
        "cache-endurance",
        "SIZE",
        "",
        "Bytes that may be written to the cache device until it is worn out (TBW), such as 600TB: results tell how long it lasts",
    ),
    Key::one("disk-profile", "NAME", "1tb-7200", "1tb-7200 or 2gb-barracuda; the keys disk.* change it"),
    Key::list("scheduler", "NAME", "clook", "Orders of service of the disks: fcfs, clook, sstf, sptf"),
    Key::list("fail", "DEVICE@TIME", "", "Devices that fail, such as 1@60s: a member's number from 0, or cache"),
    Key::list("replace", "DEVICE@TIME", "", "When another takes a failed device's place, and the array is rebuilt"),
    Key::one(
        "start",
        "full|empty|random[:SEED]|aged:TIMES[:SEED]|steady[:SEED]",
        "",
        "What the flash holds at first; random: all pages, written in random order; aged: TIMES random overwrites; \
         steady: as many as it takes until write amplification stays what it is [default: steady; full with log blocks, and for the \
         cache device of an array of other members]",
    ),
    Key::one(
        "lba-overflow",
        "wrap|filter|compact",
        "wrap",
        "Addresses beyond the device: modulo its size, left out, or blocks in order of first touch",
    ),
    Key::one("host", "open|closed:DEPTH", "open", "Requests arrive at trace time, or DEPTH are always outstanding"),
    Key::one("speed", "FACTOR", "1", "Play the trace this many times as fast"),
    Key::one(
        "warmup",
        "REQUESTS|TIME|PERCENT",
        "0",
        "What is simulated first of the window and not measured; 20% is a share of its requests, which are counted first",
    ),
    Key::one("max-backlog", "REQUESTS", "10000", "An open-loop run with more outstanding requests is saturated"),
    Key::one("buffer-latency", "TIME", "1us", "Copying a page between host and buffer"),
    Key::switch(
        "drain",
        "",
        "Count the final drain of the buffer [default: true without a warm-up], or have an array's cache pay at the end what it owes \
         the members [default: false]",
    ),
    Key::switch(
        "per-volume",
        "false",
        "Also figures of each volume of the trace: requests, hits, response times, pages written because of its data",
    ),
    Key::file("json", "Write the results as JSON, to the standard output in place of the table or to a file"),
    Key::file("csv", "Write the results as CSV, in the same way"),
    Key::file(
        "latency-log",
        "Write what became of each request of the one run, as Parquet if the name ends in .parquet, else as CSV",
    ),
    Key::one("report", "DIR", "", "Write a page that shows and compares the results into this folder, with its data"),
    Key::one(
        "resume",
        "DIR",
        "",
        "Keep the result of each run in this folder, and take from it what the same program found for the same settings and \
         trace: what was interrupted goes on",
    ),
    Key::one(
        "objective",
        "mean|p99|p99.9|write-amplification|erases|hits",
        "",
        "What *best* means in the table and on the page [default: mean; without a device hits]",
    ),
    Key::switch("timing", "false", "Print wall time and rates to the standard error"),
    Key::switch(
        "progress",
        "true",
        "Show progress on the standard error: where it is no terminal, a line every ten seconds",
    ),
    Key::one("threads", "N", "", "Threads that simulate; results do not depend on it [default: the processors]"),
    Key::one(
        "memory",
        "SIZE",
        "2GiB",
        "Memory for simulated devices (beyond it the trace is read again for the rest), or without one for page tables",
    ),
    Key::one(
        "ssd.preset",
        "NAME",
        "lawc",
        "A paper's SSD, lawc, gcar, cawr or 80gb, or a drive, pm9a3, 980pro, 850evo or p4320; the other keys change it",
    ),
    Key::one(
        "ssd.capacity",
        "SIZE|fit|preset",
        "",
        "What the SSD exports at least, by blocks of each plane; fit: what the trace touches (of a member its share, or member-size), its blocks in order of first touch if \
         they lie far apart; preset: as the preset and other keys say [default: fit; preset where a paper's ssd.preset, ssd.elements, \
         ssd.planes, ssd.blocks-per-plane or lba-overflow is given, the trace can be read only once, or it is the cache device of an \
         array of other members]",
    ),
    Key::one(
        "ssd.ftl",
        "page|bast|fast",
        "",
        "How pages are mapped: each anywhere, or blocks in place with log blocks, one for a block or for all [default: page]",
    ),
    Key::one(
        "ssd.log-blocks",
        "N",
        "",
        "With bast or fast: log blocks of an element, fast's sequential one included [default: all of the reserve but one block]",
    ),
    Key::one("ssd.elements", "N", "", "Elements (packages), each serving one operation at a time"),
    Key::one(
        "ssd.allocation",
        "static|channels",
        "",
        "Where a page goes: an element by its address, or any, as channels that a buffer can choose from [default: static]",
    ),
    Key::switch(
        "ssd.idle-first",
        "",
        "With channels: a page whose channel no buffer chooses goes to the one that is idle first, not in turn [default: false]",
    ),
    Key::one("ssd.planes", "N", "", "Planes in an element"),
    Key::one("ssd.blocks-per-plane", "N", "", "Erase blocks in a plane"),
    Key::one("ssd.reserve", "PERCENT", "", "Blocks of each plane that are not exported [default: 15%]"),
    Key::one("ssd.kept-blocks", "N", "", "Blocks of each plane that are not exported beside that share [default: 0]"),
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
    Key::one("ssd.stride", "PAGES", "", "Consecutive pages on the same element [default: 1; with log blocks a block]"),
    Key::switch(
        "ssd.summary-page",
        "",
        "The last page of each block holds no data [default: true; with log blocks false]",
    ),
    Key::one("ssd.endurance", "ERASES", "", "Erases that a block endures [default: 100000]"),
    Key::one(
        "ssd.queue-depth",
        "N|none",
        "",
        "Commands that the device takes at a time; the others wait in the host, in order [default: none, no limit]",
    ),
    Key::one("disk.heads", "N", "", "Heads, hence tracks in a cylinder [default: 22]"),
    Key::list("disk.zones", "CYLINDERSxSECTORS", "", "Zones from the outermost inwards, with sectors of a track"),
    Key::one("disk.rotation", "TIME", "", "One rotation [default: 8.333333ms]"),
    Key::list(
        "disk.seek",
        "TIME|CYLINDERS:TIME",
        "",
        "One time; three, over 1, 1/3 and all cylinders [default: 1ms,8.5ms,17ms]; or points of a table",
    ),
    Key::one("disk.head-switch", "TIME", "", "From one head to another [default: 0.8ms]"),
    Key::one("disk.write-settle", "TIME", "", "Added before a write on another track [default: 0.5ms]"),
    Key::one("disk.overhead", "TIME", "", "The controller's work on a command [default: 0.1ms]"),
    Key::one("disk.track-skew", "TIME", "", "From track to track of a cylinder [default: a head switch and a settle]"),
    Key::one(
        "disk.cylinder-skew",
        "TIME",
        "",
        "To the next cylinder [default: the longer of seek and switch, and a settle]",
    ),
    Key::switch("disk.average-rotation", "", "Wait half a rotation for every command [default: false]"),
    Key::one("disk.queue-depth", "N", "", "Commands that a drive holds and chooses from [default: 32]"),
    Key::one(
        "disk.spindles",
        "spread|synchronised",
        "spread",
        "Whether members' platters are spread evenly over a rotation, or turn in step",
    ),
    Key::one("drive.cache", "SIZE", "0", "Volatile write cache of each member; 0: none, or one that is switched off"),
    Key::one("drive.transfer", "TIME", "7us", "A page between host and such a cache; 4 KiB at 600 MB/s"),
    Key::one("fixed.read", "TIME", "100us", "A read; a fixed device does one thing at a time"),
    Key::one("fixed.write", "TIME", "100us", "A write"),
    Key::one("fixed.other", "TIME", "0", "A flush or a trim"),
    Key::one("fixed.page", "TIME", "0", "Added for each page of a read or write"),
    Key::one(
        "delta.length",
        "LENGTH",
        "gaussian:25%",
        "How long deltas are: gaussian:MEAN or gaussian:MEAN,DEVIATION or fixed:LENGTH, of a page; or what changes, as runs:SHARE, one-run:SHARE, words:SHARE or bytes:SHARE",
    ),
    Key::one("delta.seed", "NUMBER", "1", "What the length of each delta depends on beside its page and version"),
    Key::one("raid.depth", "FRAGMENTS", "4096", "Fragments of requests that the array works on at a time"),
    Key::one("raid.open-rows", "ROWS", "16384", "Rows whose intents may be open before the array flushes on its own"),
    Key::one("raid.idle-flush", "TIME", "5s", "After this long without a flush the array flushes on its own"),
    Key::one("raid.rebuild-window", "STRIPES", "8", "Stripes that a rebuild fills before its progress is noted"),
    Key::one("raid.nv-slots", "SLOTS", "1024", "Page slots of the NVRAM"),
    Key::one(
        "raid.merge",
        "SIZE",
        "512KiB",
        "Neighbouring steps that leave together become commands of up to this; 0: none",
    ),
    Key::one("raid.compute", "TIME", "0", "Computing a page of parity, a merge or a copy of sectors"),
    Key::one("nvram.write", "TIME", "1us", "Writing a page to the NVRAM"),
    Key::one("nvram.read", "TIME", "125ns", "Reading a page from the NVRAM"),
    Key::one("nvram.note", "TIME", "1us", "A note in the NVRAM: an intent, a tag, a slot freed"),
    Key::one(
        "nvram.on",
        "WHAT",
        "nvram",
        "Where that is: nvram, or cache-device: there is none, and what would be in it goes to a journal there",
    ),
    Key::one("nvram.journal", "SIZE", "32MiB", "Size of that journal, beside the cache"),
    Key::one("analytic.read", "TIME", "25us", "Reading a page"),
    Key::one("analytic.program", "TIME", "200us", "Programming a page"),
    Key::one("analytic.erase", "TIME", "1.5ms", "Erasing a block"),
    Key::one("analytic.transfer", "TIME", "13.65us", "Moving a page"),
    Key::switch("analytic.include-transfer", "true", "Whether reads and programs include the transfer"),
    Key::one("analytic.memory-access", "NS", "2.5", "A memory access of the algorithm, in ns"),
];

/// Requests that a closed-loop host may have outstanding: more than any device queue holds.
const MAX_DEPTH: u32 = 65_536;
/// Random overwrites, in hundredths, with which a device may be aged: many times what a steady
/// state needs.
const MAX_OVERWRITES_PCT: u32 = 100_000;
/// Copying a page between host and buffer takes at most this.
const MAX_BUFFER_LATENCY: Nanos = Nanos(1_000_000_000);

/// Settings that only the SSD looks at, apart from its table.
const TIMED: &[&str] = &["start", "lba-overflow", "host", "max-backlog", "buffer-latency", "subpage"];

/// Settings that only an array looks at, apart from the tables in [`ARRAY_TABLES`].
pub(crate) const ARRAY_ONLY: &[&str] = &[
    "array",
    "layout",
    "chunk",
    "member-size",
    "parity",
    "regime",
    "cache-device",
    "cache-endurance",
    "disk-profile",
    "scheduler",
    "fail",
    "replace",
];

/// Tables that only an array looks at.
pub(crate) const ARRAY_TABLES: &[&str] = &["delta.", "disk.", "drive.", "fixed.", "raid.", "nvram."];

/// Settings that an array does not look at.
pub(crate) const BUFFER_ONLY: &[&str] = &["admission", "flush", "buffer-latency", "latency-log"];

/// Where the requests come from.
#[derive(Clone, Debug)]
enum Origin {
    /// A trace: the file, or `-`, with format and leniency.
    File { file: PathBuf, options: OpenOptions },
    /// A workload, generated anew in each pass.
    Workload(Box<Workload>),
    /// They are opened elsewhere.
    Named(String),
}

/// The requests of a simulation.
#[derive(Clone, Debug)]
pub struct Requests {
    origin: Origin,
    window: Window,
    /// Of these only so many, from one on.
    part: Option<Window>,
    /// How many times they come.
    repeat: u32,
    /// How many there are in one time, if they were counted.
    counted: Option<u64>,
    sizes: Sizes,
    /// What can tell to read no further.
    stop: Option<Stop>,
}

/// What is known of the sizes of caches that depend on the requests.
#[derive(Clone, Debug)]
enum Sizes {
    /// Nothing.
    Unknown,
    /// Nothing yet.
    Later,
    /// What they are taken from.
    Found(Arc<Found>),
}

/// The warm-up as it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GivenWarmup {
    Known(Warmup),
    /// Hundredths of a percent of the requests.
    Share(u32),
}

/// Settings that say which of the requests take part, and cannot without knowing where they come
/// from.
const READING: [&str; 4] = ["skip", "from", "to", "repeat"];

impl Requests {
    /// Requests that are opened elsewhere and have this name.
    pub fn named(name: &str) -> Self {
        let origin = Origin::Named(name.to_owned());
        Self {
            origin,
            window: Window::default(),
            part: None,
            repeat: 1,
            counted: None,
            sizes: Sizes::Unknown,
            stop: None,
        }
    }

    /// The trace's file or the workload's name, as the user gave it.
    pub fn name(&self) -> String {
        match &self.origin {
            Origin::File { file, .. } => path_text::of(file),
            Origin::Workload(workload) => workload.name().to_owned(),
            Origin::Named(name) => name.clone(),
        }
    }

    /// The files that they are read from; `-` for the standard input.
    pub fn files(&self) -> Vec<PathBuf> {
        match &self.origin {
            Origin::File { file, .. } => destage_trace::files(file),
            Origin::Workload(workload) => workload.file().into_iter().map(Path::to_owned).collect(),
            Origin::Named(_) => Vec::new(),
        }
    }

    /// All that decides about which requests these are, beside what the [files](Self::files) hold.
    pub fn identity(&self) -> String {
        let origin = match &self.origin {
            Origin::File { options, .. } => format!("file {options:?}"),
            Origin::Workload(workload) => format!("workload {:?} {:?}", workload.name(), workload.changes()),
            Origin::Named(name) => format!("named {name:?}"),
        };
        let part = self.part.map_or_else(String::new, |part| format!(" {part:?}"));
        format!("{origin} {:?} {}{part}", self.window, self.repeat)
    }

    /// Whether results of runs over them can be kept and taken in place of simulating them again.
    ///
    /// # Errors
    /// Why not, and what would be right.
    pub fn check_resume(&self, settings: &Settings) -> Result<()> {
        if settings.is_given("latency-log") {
            return Err(ScenarioError::new(
                "'resume' and 'latency-log' do not go together: what is known from before is not simulated again, and the log is \
                 written by simulating; leave one of them out",
            ));
        }
        match self.pipe() {
            Some(pipe) => {
                let what = "resume: a pipe can be read only once, so that nobody can tell whether it holds what it held before: \
                            give a file";
                Err(ScenarioError::new(what).at(pipe.display()))
            }
            None => Ok(()),
        }
    }

    /// The same requests, which cannot be read any further once this tells to end.
    #[must_use]
    pub fn until(self, stop: Stop) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Whether they can be read more than once.
    pub fn can_be_read_again(&self) -> bool {
        self.pipe().is_none()
    }

    /// Begins to read or generate them; the standard input can be read only in the first pass, 0.
    pub fn open(&self, pass: u32) -> std::result::Result<Input, TraceError> {
        let input = self.open_once(pass)?;
        if self.repeat == 1 {
            return Ok(input);
        }
        let (again, mut first) = (self.clone(), Some(input.source));
        let open: Reopen = Box::new(move || match first.take() {
            Some(source) => Ok(source),
            None => again.open_once(1).map(|input| input.source),
        });
        Ok(Input { source: Box::new(Repeated::new(open, self.repeat)?), format: input.format })
    }

    /// The same, one time.
    fn open_once(&self, pass: u32) -> std::result::Result<Input, TraceError> {
        let mut input = self.open_all(pass)?;
        if let Some(stop) = &self.stop {
            // Below the window, which may leave out most of them.
            input = stop.input(input);
        }
        for window in [Some(self.window), self.part].into_iter().flatten().filter(|window| !window.is_all()) {
            input.source = Box::new(Windowed::new(input.source, Path::new(&self.name()), window));
        }
        Ok(input)
    }

    /// Of one time that they come, so many from one on. There have to be that many.
    #[must_use]
    pub fn part(&self, first: u64, requests: u64) -> Self {
        let part = Window { skip: first, limit: Some(requests), ..Window::default() };
        Self { part: Some(part), repeat: 1, counted: Some(requests), ..self.clone() }
    }

    /// Requests before the part that these are of others, and of it.
    pub fn parted(&self) -> Option<(u64, u64)> {
        self.part.and_then(|part| Some((part.skip, part.limit?)))
    }

    /// How many times they come.
    pub fn repeat(&self) -> u32 {
        self.repeat
    }

    /// The same, without regard to the window.
    fn open_all(&self, pass: u32) -> std::result::Result<Input, TraceError> {
        match &self.origin {
            Origin::File { file, .. } if pass > 0 && file == Path::new("-") => Err(TraceError::new(
                file,
                Place::File,
                "the standard input can be read only once, and these devices do not fit into memory together; \
                 raise --memory, run fewer policies and sizes at a time, or give a file",
            )),
            Origin::File { file, options } => {
                let trace = destage_trace::open(file, options)?;
                Ok(Input { format: trace.format().name().to_owned(), source: Box::new(trace) })
            }
            Origin::Workload(workload) => {
                let failed =
                    |error: ScenarioError| TraceError::new(Path::new(workload.name()), Place::File, error.to_string());
                Ok(Input { format: "workload".to_owned(), source: Box::new(workload.open().map_err(failed)?) })
            }
            Origin::Named(name) => Err(TraceError::new(Path::new(name), Place::File, "is not read here")),
        }
    }

    /// Whether the settings need to know how many there are.
    ///
    /// # Errors
    /// Where that cannot be known.
    pub(crate) fn needs_count(&self, settings: &Settings) -> Result<bool> {
        let needs = matches!(settings.one("warmup", given_warmup)?, GivenWarmup::Share(_));
        match self.pipe() {
            Some(pipe) if needs => {
                let what = "a share of the requests is known only when all have been counted, and a pipe can be read only once: \
                            give a file, or a number of requests or a time";
                Err(ScenarioError::new(format_args!("warmup: {what}")).at(pipe.display()))
            }
            _ => Ok(needs),
        }
    }

    /// The same, of which there are so many.
    #[must_use]
    pub fn of_count(&self, requests: u64) -> Self {
        Self { counted: Some(requests), ..self.clone() }
    }

    /// Whether the sizes of caches that the settings ask for depend on what the requests touch.
    ///
    /// # Errors
    /// Where that cannot be known.
    pub(crate) fn needs_sizes(&self, settings: &Settings) -> Result<bool> {
        let needs = caches(settings)?.iter().any(|size| size.needs_trace());
        match self.pipe() {
            Some(pipe) if needs => {
                let what = "shares of the footprint and auto are known only when the trace has been read, and a pipe can be read only \
                            once: give a file, or sizes";
                Err(ScenarioError::new(format_args!("cache: {what}")).at(pipe.display()))
            }
            _ => Ok(needs),
        }
    }

    /// The same before sizes are found: caches have none yet.
    #[must_use]
    pub fn before_sizes(&self) -> Self {
        Self { sizes: Sizes::Later, ..self.clone() }
    }

    /// This is what the requests touch.
    pub(crate) fn sized(&mut self, found: Found) {
        self.sizes = Sizes::Found(Arc::new(found));
    }

    /// The same of what was found before.
    pub(crate) fn sized_as(&self, found: Arc<Found>) -> Self {
        Self { sizes: Sizes::Found(found), ..self.clone() }
    }

    /// How many there are in one time, if they were counted.
    pub fn counted(&self) -> Option<u64> {
        self.counted
    }

    fn found(&self) -> Option<&Found> {
        match &self.sizes {
            Sizes::Found(found) => Some(found),
            Sizes::Unknown | Sizes::Later => None,
        }
    }

    /// The sizes of caches that the settings ask for; `None` before those that depend on the requests are found.
    pub(crate) fn caches(&self, settings: &Settings, page: u64) -> Result<Option<Vec<u64>>> {
        let asked = caches(settings)?;
        if matches!(self.sizes, Sizes::Later) && asked.iter().any(|size| size.needs_trace()) {
            return Ok(None);
        }
        let chosen = sizes::chosen(&asked, page, self.found());
        chosen.map(Some).map_err(|right| ScenarioError::new(format_args!("cache: {right}")))
    }

    /// What results say of how sizes were chosen.
    ///
    /// # Errors
    /// Where sizes are none, which building the experiment says too.
    pub fn sizes_result(&self, settings: &Settings, caches: &[u64]) -> Result<Option<SizesResult>> {
        let asked = settings.all("cache", |text| Ok::<_, String>(text.to_owned()))?.join(",");
        Ok(sizes::result(&asked, &self::caches(settings)?, caches, self.found()))
    }

    /// Reads them all to count them; `progress` is told the share of the trace and the requests read.
    pub(crate) fn count(&mut self, progress: &mut dyn FnMut(Option<f64>, u64)) -> std::result::Result<(), TraceError> {
        let mut source = self.open_once(0)?.source;
        let (mut batch, mut requests) = (Vec::new(), 0);
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            requests += batch.len() as u64;
            progress(source.progress(), requests);
        }
        self.counted = Some(requests);
        Ok(())
    }

    /// How many are simulated at most.
    pub(crate) fn limit(&self, settings: &Settings) -> Result<Option<u64>> {
        Ok(limit(settings)?.map(|limit| limit.saturating_mul(self.repeat.into())))
    }

    /// What can be read only once among the files that they are read from.
    fn pipe(&self) -> Option<PathBuf> {
        let Origin::File { file, .. } = &self.origin else { return None };
        if file == Path::new("-") {
            return Some("standard input".into());
        }
        // What is wrong with a file that is not there is told when it is opened.
        let once = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|of| !of.is_file() && !of.is_dir());
        destage_trace::files(file).into_iter().find(once)
    }

    /// The warm-up that the settings ask for.
    pub(crate) fn warmup(&self, settings: &Settings) -> Result<Warmup> {
        match (settings.one("warmup", given_warmup)?, self.counted) {
            (GivenWarmup::Known(warmup), _) => Ok(warmup),
            (GivenWarmup::Share(share), Some(requests)) => {
                let warm = u128::from(requests) * u128::from(share) / 10_000;
                Ok(if warm == 0 { Warmup::None } else { Warmup::Requests(warm as u64) })
            }
            (GivenWarmup::Share(_), None) => Err(ScenarioError::new(
                "warmup: a share of the requests has no meaning here, since they are not counted: give a number or a time",
            )),
        }
    }

    /// Whether the settings ask nothing of the requests that cannot be done with them.
    pub(crate) fn check(&self, settings: &Settings) -> Result<()> {
        match (&self.origin, READING.into_iter().find(|key| settings.is_given(key))) {
            (Origin::Named(name), Some(key)) => {
                Err(ScenarioError::new(format_args!("'{key}' has no meaning here: {name} is taken as it is")))
            }
            _ => Ok(()),
        }
    }
}

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
    let workload = Workload::of(settings)?;
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
    let requests = Requests { origin, window, part: None, repeat, counted: None, sizes: Sizes::Unknown, stop: None };
    match requests.pipe() {
        Some(pipe) if requests.repeat > 1 => {
            let what = "repeat: a pipe can be read only once; give a file";
            Err(ScenarioError::new(what).at(pipe.display()))
        }
        _ => Ok(requests),
    }
}

pub(crate) fn word<T: Copy>(choices: &[(&str, T)]) -> impl Fn(&str) -> std::result::Result<T, String> {
    move |text| {
        choices.iter().find(|(word, _)| *word == text).map(|&(_, choice)| choice).ok_or_else(|| {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            format!("one of {}", words.join(", "))
        })
    }
}

pub(crate) fn lba_overflow(settings: &Settings) -> Result<LbaOverflow> {
    let words = [("wrap", LbaOverflow::Wrap), ("filter", LbaOverflow::Filter), ("compact", LbaOverflow::Compact)];
    settings.one("lba-overflow", word(&words))
}

pub(crate) fn ops(settings: &Settings) -> Result<Ops> {
    settings.one("ops", word(&[("all", Ops::All), ("writes", Ops::Writes)]))
}

fn caches(settings: &Settings) -> Result<Vec<CacheSize>> {
    settings.all("cache", str::parse)
}

fn limit(settings: &Settings) -> Result<Option<u64>> {
    settings.optional("limit", |text| match q::count(text) {
        Ok(0) | Err(_) => Err("a whole number of at least 1"),
        Ok(limit) => Ok(limit),
    })
}

pub(crate) fn trim(settings: &Settings) -> Result<TrimMode> {
    settings.one("trim", word(&[("honour", TrimMode::Honour), ("ignore", TrimMode::Ignore)]))
}

pub(crate) fn subpage(settings: &Settings) -> Result<Subpage> {
    settings.one("subpage", word(&[("promote", Subpage::Promote), ("rmw", Subpage::Rmw)]))
}

pub(crate) fn volumes(text: &str) -> std::result::Result<Volumes, String> {
    match text {
        "each" => Ok(Volumes::Each),
        "merge" => Ok(Volumes::Merge),
        index => index.parse().map(Volumes::Only).map_err(|_| "each, merge, or a volume's index from 0".into()),
    }
}

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

pub(crate) fn start(text: &str) -> std::result::Result<StartState, String> {
    let seed = |text: &str| text.parse().ok();
    // The seed after a word, or 1.
    let seeded = |word: &str| match text.strip_prefix(word)? {
        "" => Some(1),
        rest => seed(rest.strip_prefix(':')?),
    };
    let random = || Some(StartState::Random { seed: seeded("random")? });
    let steady = || Some(StartState::Steady { seed: seeded("steady")? });
    let aged = || {
        let rest = text.strip_prefix("aged:")?;
        let (times, from) = rest.split_once(':').unwrap_or((rest, "1"));
        let overwrites_pct = u32::try_from(q::decimal(times.trim_end_matches('x'), 100).ok()?).ok()?;
        if overwrites_pct > MAX_OVERWRITES_PCT {
            return None;
        }
        Some(StartState::Aged { overwrites_pct, seed: seed(from)? })
    };
    match text {
        "full" => Ok(StartState::Full),
        "empty" => Ok(StartState::Empty),
        _ => random().or_else(aged).or_else(steady).ok_or_else(|| {
            "full, empty, random[:SEED], steady[:SEED], or aged:TIMES[:SEED] with at most 1000 times, such as aged:2.5 or \
             aged:3:42"
                .into()
        }),
    }
}

fn given_warmup(text: &str) -> std::result::Result<GivenWarmup, String> {
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

pub(crate) fn geometry(settings: &Settings) -> Result<PageGeometry> {
    let page = settings.one("page", q::bytes)?;
    let pages_per_block = settings.one("pages-per-block", q::count)?;
    PageGeometry::new(page, pages_per_block).map_err(ScenarioError::new)
}

/// What is said of the size of an SSD.
enum Size {
    Bytes(u64),
    Fit,
    Preset,
}

fn size(settings: &Settings) -> Result<Option<Size>> {
    settings.optional("ssd.capacity", |text| match text {
        "fit" => Ok(Size::Fit),
        "preset" => Ok(Size::Preset),
        _ => match q::bytes(text) {
            Ok(bytes) if bytes > 0 => Ok(Size::Bytes(bytes)),
            _ => Err("a size such as 512GiB, fit or preset"),
        },
    })
}

/// Settings that say how large an SSD is, or what becomes of what lies beyond it. The size of a paper's SSD is part of
/// what is reproduced; a drive stands for its kind.
const SIZED: [&str; 5] = ["ssd.preset", "ssd.elements", "ssd.planes", "ssd.blocks-per-plane", "lba-overflow"];

/// Whether a drive is chosen and nothing is said of its size, or that it is to fit.
pub(crate) fn fits(settings: &Settings) -> Result<bool> {
    let is_drive = settings.one("ssd.preset", |name| Ok::<_, String>(drive(name).is_some()))?;
    Ok(match size(settings)? {
        Some(Size::Fit) => true,
        None => is_drive && SIZED[1..4].iter().all(|key| !settings.is_given(key)),
        Some(Size::Bytes(_) | Size::Preset) => false,
    })
}

/// Whether an SSD is to fit the trace.
fn capacity(settings: &Settings, requests: &Requests) -> Result<Capacity> {
    array_capacity(settings, requests, false)
}

/// Whether SSDs are to fit the trace, or, if they are members of which so much is used, that.
pub(crate) fn array_capacity(settings: &Settings, requests: &Requests, sized: bool) -> Result<Capacity> {
    let decided = if sized { &SIZED[3..4] } else { &SIZED[3..] };
    if let Some(Size::Fit) = size(settings)? {
        if let Some(key) = decided.iter().find(|key| settings.is_given(key)) {
            return Err(ScenarioError::new(format_args!(
                "'{key}' has no meaning with ssd.capacity = fit, which decides it: leave one of them out"
            )));
        }
        if !sized && !requests.can_be_read_again() {
            return Err(ScenarioError::new(
                "ssd.capacity = fit reads the trace twice, and this one can be read only once: give a file, or a size",
            ));
        }
        return Ok(Capacity::Fit);
    }
    let is_drive = settings.one("ssd.preset", |name| Ok::<_, String>(drive(name).is_some()))?;
    let of_size = &SIZED[usize::from(is_drive)..if sized { 4 } else { 5 }];
    let given = size(settings)?.is_some() || of_size.iter().any(|key| settings.is_given(key));
    Ok(if given || !sized && !requests.can_be_read_again() { Capacity::Given } else { Capacity::Fit })
}

pub(crate) fn ssd(settings: &Settings, geometry: PageGeometry) -> Result<SsdConfig> {
    let mut config = settings.one("ssd.preset", |name| {
        SsdConfig::preset(name, geometry).ok_or_else(|| {
            let names: Vec<_> = presets().map(|(name, _)| name).collect();
            format!("one of {}", names.join(", "))
        })
    })?;
    let c = &mut config;
    let words = Ftl::ALL.map(|ftl| (ftl.word(), ftl));
    c.ftl = settings.optional("ssd.ftl", word(&words))?.unwrap_or(c.ftl);
    c.log_blocks = settings.optional("ssd.log-blocks", q::count32)?;
    let words = [Allocation::Static, Allocation::Channels].map(|allocation| (allocation.word(), allocation));
    c.allocation = settings.optional("ssd.allocation", word(&words))?.unwrap_or(c.allocation);
    // What a preset says of channels goes with them.
    c.idle_first &= c.allocation == Allocation::Channels && c.ftl == Ftl::Page;
    if c.ftl != Ftl::Page {
        if settings.is_given("ssd.min-free") {
            let message = format_args!(
                "'ssd.min-free' has no meaning with ssd.ftl = {}: log blocks are merged when a write needs one",
                c.ftl.word()
            );
            return Err(ScenarioError::new(message));
        }
        // A block in place has room for its pages only, and lies on one element.
        c.summary_page = false;
        if c.allocation == Allocation::Static {
            let pages_per_block = settings.one("pages-per-block", q::count)?;
            c.stride = u32::try_from(pages_per_block).unwrap_or(u32::MAX);
        }
    }
    let numbers = [
        ("ssd.elements", &mut c.elements),
        ("ssd.planes", &mut c.planes),
        ("ssd.blocks-per-plane", &mut c.blocks_per_plane),
        ("ssd.kept-blocks", &mut c.kept_blocks),
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
        ("ssd.idle-first", &mut c.idle_first),
        ("ssd.summary-page", &mut c.summary_page),
    ];
    for (name, field) in switches {
        *field = settings.optional(name, q::switch)?.unwrap_or(*field);
    }
    let transfer = settings.optional("ssd.transfer", |text| q::decimal(text, 1000))?;
    c.transfer_ps_per_byte = transfer.unwrap_or(c.transfer_ps_per_byte);
    c.lanes = settings.optional("ssd.parallel-units", q::count32)?.unwrap_or(c.planes);
    c.queue_depth = settings.optional("ssd.queue-depth", queue_depth)?.unwrap_or(c.queue_depth);
    let Some(Size::Bytes(bytes)) = size(settings)? else { return Ok(config) };
    if settings.is_given("ssd.blocks-per-plane") {
        return Err(ScenarioError::new(
            "'ssd.blocks-per-plane' and 'ssd.capacity' both say how large the SSD is; leave one of them out",
        ));
    }
    config.with_pages(bytes.div_ceil(geometry.page_bytes()), geometry).map_err(ScenarioError::new)
}

/// The state in which an SSD begins, unless one is given.
pub(crate) const fn default_start(ftl: Ftl) -> StartState {
    match ftl {
        Ftl::Page => StartState::Steady { seed: 1 },
        // Random writes are what log blocks are worst at: nobody would have them begin so.
        Ftl::Bast | Ftl::Fast => StartState::Full,
    }
}

fn queue_depth(text: &str) -> std::result::Result<Option<u32>, String> {
    match (text, q::count32(text)) {
        ("none", _) => Ok(None),
        (_, Ok(depth)) if (1..=MAX_DEPTH).contains(&depth) => Ok(Some(depth)),
        _ => Err(format!("none, or a number between 1 and {MAX_DEPTH}")),
    }
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

/// Settings that decide only how a simulation is done or shown.
pub const WITHOUT_INFLUENCE: &[&str] =
    &["json", "csv", "report", "resume", "objective", "latency-log", "timing", "progress", "threads", "memory"];
/// Settings that have results say more, and nothing else of what was simulated.
pub(crate) const SAYING_MORE: &[&str] = &["per-volume"];

/// The settings that say what was simulated: not those that results carry under a name of their
/// own, and not those that decide only how it is done or shown.
fn settings_for_results(settings: &Settings, device: &str) -> Vec<(String, String)> {
    const ELSEWHERE: &[&str] =
        &["trace", "workload", "format", "policy", "cache", "page", "pages-per-block", "device", "start"];
    let tells = |name: &str| {
        let table = name.split_once('.').map(|(table, _)| table);
        !ELSEWHERE.contains(&name)
            && !WITHOUT_INFLUENCE.contains(&name)
            && !SAYING_MORE.contains(&name)
            && !ARRAY_ONLY.contains(&name)
            && (name != "lenient" || !settings.is_given("workload"))
            && table.is_none_or(|table| table == device)
            && (device == "ssd" || !TIMED.contains(&name))
    };
    settings.in_force().into_iter().filter(|(name, _)| tells(name)).collect()
}

/// A buffer's name with its parameters; other names are told from those of host-side policies.
fn buffer_policy(text: &str) -> std::result::Result<PolicySpec, String> {
    let spec = buffer::canonical(text.parse().map_err(|error: SpecError| error.to_string())?);
    match buffer::info(&spec.name) {
        Err(_) if names::called(&spec.name, all_host_caches().map(|cache| cache.name)).is_some() => {
            Err("a cache of the host over an array, not a buffer: give array too, such as --array raid5:5".into())
        }
        _ => Ok(spec),
    }
}

/// The experiment over buffers that the settings describe, which have no array.
pub fn experiment(settings: &Settings, requests: &Requests) -> Result<Experiment> {
    requests.check(settings)?;
    for key in SIM {
        let of_array = ARRAY_ONLY.contains(&key.name) || ARRAY_TABLES.iter().any(|table| key.name.starts_with(table));
        if of_array && settings.is_given(key.name) {
            return Err(ScenarioError::new(format_args!(
                "'{}' has no meaning without an array: give array too, such as --array raid5:5",
                key.name
            )));
        }
    }
    let geometry = geometry(settings)?;
    let device =
        match settings.one("device", |text| match (word(&[("none", 0), ("analytic", 1), ("ssd", 2)])(text), text) {
            (Err(right), "disk" | "fixed") => Err(format!("{right}; members of an array can be that, see array")),
            (device, _) => device,
        })? {
            0 => DeviceConfig::None,
            1 => DeviceConfig::Analytic(analytic(settings)?),
            _ => {
                let config = ssd(settings, geometry)?;
                let start = settings.optional("start", start)?.unwrap_or_else(|| default_start(config.ftl));
                DeviceConfig::Ssd(config, start)
            }
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
    let warmup = requests.warmup(settings)?;
    Ok(Experiment {
        trace: requests.name(),
        geometry,
        policies: settings.all("policy", buffer_policy)?,
        foreign: Vec::new(),
        caches: requests.caches(settings, geometry.page_bytes())?.unwrap_or_default(),
        capacity: match device {
            DeviceConfig::Ssd(..) => capacity(settings, requests)?,
            DeviceConfig::None | DeviceConfig::Analytic(_) => Capacity::Given,
        },
        device,
        lba_overflow: lba_overflow(settings)?,
        ops: ops(settings)?,
        volumes: settings.one("volumes", volumes)?,
        speed: Speed { times, per },
        limit: requests.limit(settings)?,
        run: RunConfig {
            host: settings.one("host", host)?,
            flush: settings.one("flush", word(&[("ignore", FlushMode::Ignore), ("drain", FlushMode::Drain)]))?,
            trim: trim(settings)?,
            subpage: subpage(settings)?,
            admission: settings
                .one("admission", word(&[("page", Admission::Page), ("request", Admission::Request)]))?,
            warmup,
            max_backlog: settings.one("max-backlog", q::count)?,
            buffer_latency: settings.one("buffer-latency", |text| match q::time(text) {
                Ok(time) if time > MAX_BUFFER_LATENCY => Err("at most 1s".into()),
                time => time,
            })?,
            // A buffer that is warm at the start is left so at the end: draining it would charge
            // the measured part with writes that it did not bring.
            drain: settings.optional("drain", q::switch)?.unwrap_or(warmup == Warmup::None),
            per_volume: settings.one("per-volume", q::switch)?,
            capacity_pages: 0,
            pages_per_block: 0,
        },
        settings: settings_for_results(settings, &device_word),
    })
}

/// How the experiment is carried out.
pub fn resources(settings: &Settings) -> Result<Resources<'static>> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = settings.optional("threads", |text| match q::count32(text) {
        Ok(n) if (1..=4096).contains(&n) => Ok(n as usize),
        _ => Err("a number between 1 and 4096"),
    })?;
    Ok(Resources {
        threads: threads.unwrap_or(processors),
        memory_bytes: settings.one("memory", q::bytes)?,
        stop: None,
    })
}
