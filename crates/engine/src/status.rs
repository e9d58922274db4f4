//! Describes the status of a service.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ScrubStatus;

/// Says when a device is slow: disks answer within a second even if they are very busy.
pub(crate) const SLOW: Duration = Duration::from_secs(1);

/// Names the cache's device.
pub(crate) const CACHE: &str = "cache";

/// Describes the status of a service. Counts are since it began.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Holds the service's process number.
    pub pid: u32,
    /// Seconds since it began.
    pub up_seconds: f64,
    /// Lists the URIs by which NBD clients name the export.
    pub uris: Vec<String>,
    /// Names the kernel's block device, if there is one.
    #[serde(default)]
    pub block_device: Option<String>,
    /// Describes the array that is served.
    pub array: ArrayStatus,
    /// Counts the clients.
    pub clients: ClientCounts,
    /// Tells how much memory their requests and replies hold.
    #[serde(default)]
    pub memory: MemoryStatus,
    /// Counts the requests of clients.
    pub requests: RequestCounts,
}

/// Tells how far a served array has come. docs/failures.md has what follows from each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrayState {
    /// Requests wait until what a crash has left is put right.
    Recovering,
    /// Serves requests, and nothing is lost.
    Serving,
    /// Serves requests, with members, pages of them or the cache lost.
    Degraded,
    /// Requests are served, and what a lost member held is being made anew.
    Rebuilding,
    /// Lacks more members than the level can do without: requests that need them fail.
    Failed,
    /// Waits for a device that takes too long, and without which data would be lost: requests that need it fail.
    Hanging,
    /// Nothing is served any more, for this reason.
    Stopped(String),
}

impl ArrayState {
    /// Returns the exit status of `destage status`, for monitors: 0 if nothing is lost, 3 if the array is degraded, and 4 if
    /// it has failed or nothing is served any more.
    pub const fn exit_status(&self) -> u8 {
        match self {
            Self::Recovering | Self::Serving => 0,
            Self::Degraded | Self::Rebuilding => 3,
            Self::Failed | Self::Hanging | Self::Stopped(_) => 4,
        }
    }
}

impl fmt::Display for ArrayState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recovering => f.write_str("recovering"),
            Self::Serving => f.write_str("serving"),
            Self::Degraded => f.write_str("degraded"),
            Self::Rebuilding => f.write_str("rebuilding"),
            Self::Failed => f.write_str("failed"),
            Self::Hanging => f.write_str("hanging"),
            Self::Stopped(why) => write!(f, "stopped: {why}"),
        }
    }
}

/// A served array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ArrayStatus {
    /// Identifies the array by its UUID.
    pub uuid: String,
    /// Holds the state of the array.
    pub state: ArrayState,
    /// Level and members, as `raid5:4`.
    pub level: String,
    /// Names the cache, with all parameters.
    pub policy: String,
    /// Bytes of data.
    pub bytes: u64,
    /// Names the I/O backend: `uring` or `threads`.
    pub io: String,
    /// Why not `uring`, if that would have been taken.
    pub no_uring: Option<String>,
    /// Members first, then the cache's device.
    pub devices: Vec<DeviceStatus>,
    /// Describes the NVRAM's file and its traffic.
    pub nvram: StateStatus,
    /// The file of rows that may be inconsistent.
    pub intents: StateStatus,
    /// Counts the hits and misses of the cache; none of a policy that caches nothing.
    pub cache: Option<CacheStatus>,
    /// Rows whose parity does not cover their newest data.
    pub stale_rows: u64,
    /// Describes the losses at the start of the service; none if there were none.
    pub resynchronised: Option<ResynchronisedStatus>,
    /// Pages that are lost for good, as ranges of bytes: they can be read once they are written anew.
    pub lost: Vec<ByteRange>,
    /// Bytes that were copied in memory for want of a buffer that could be handed on.
    pub copied_bytes: u64,
    /// Tells how far the scrub has come that runs, or ran last in this life.
    #[serde(default)]
    pub scrub: Option<ScrubStatus>,
}

/// Describes how an array went on whose NVRAM or intents were lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResynchronisedStatus {
    /// Lists the files that were not there, or were older copies. NVRAM and intents are made anew.
    pub lost: Vec<String>,
    /// Tells that they were older copies.
    pub is_behind: bool,
    /// Rows of the array that members had marked, and that were made consistent.
    pub rows: u64,
    /// All rows.
    pub of: u64,
    /// Is true if acknowledged writes may be lost with them, which was accepted.
    pub data_lost: bool,
}

/// Names bytes of the array's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRange {
    /// The first.
    pub offset: u64,
    /// Counts the bytes.
    pub bytes: u64,
}

/// A device of a served array, and what it was asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// `member 0`, `cache`.
    pub name: String,
    /// Names the device's file.
    pub path: String,
    /// Is true if the device answers.
    pub answers: bool,
    /// Gives the seconds that its oldest command has had no answer, if they are more than one.
    #[serde(default)]
    pub waiting_seconds: Option<f64>,
    /// Gives the percentage of a member's rows that it holds while it is being filled.
    #[serde(default)]
    pub filled_percent: Option<f64>,
    /// Tells of the file that takes its place once it holds what the device holds, if there is one.
    #[serde(default)]
    pub successor: Option<SuccessorStatus>,
    /// Why it does not.
    pub error: Option<String>,
    /// Is true if the device is read and written past the page cache.
    pub direct: bool,
    /// Why not, if that was wanted.
    pub buffered: Option<String>,
    /// Counts the commands that read, as they reach it.
    pub reads: u64,
    /// Counts the reads that left within one of these, since they are neighbours: "read merges" of the kernel's `stat`.
    #[serde(default)]
    pub read_merges: u64,
    /// Counts the commands that write, as they reach it.
    pub writes: u64,
    /// Counts the writes that left within one of these.
    #[serde(default)]
    pub write_merges: u64,
    /// Counts the writes, merged or not, that are durable when done.
    pub fua: u64,
    /// Commands that trim.
    pub trims: u64,
    /// Commands that make durable.
    pub flushes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Writes of marks of rows that may be inconsistent, of members; they are none of the above.
    pub marks: u64,
    /// Counts the bytes of those writes.
    pub mark_bytes: u64,
    /// Counts the pages that a member could not read and that were made anew from the others.
    #[serde(default)]
    pub corrected_pages: u64,
    /// Counts the pages that it could not read even when they had been made anew: they are computed from the others.
    #[serde(default)]
    pub bad_pages: u64,
    /// Counts the reads that brought something else than what was written, by its checksum.
    #[serde(default)]
    pub mismatched_reads: u64,
}

/// A file that is to take a member's place, and is filled from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuccessorStatus {
    /// Names the file.
    pub path: String,
    /// Gives the percentage of the member's rows that it holds.
    pub filled_percent: f64,
}

impl ArrayStatus {
    /// Returns the status of something served that is no array: it has so many bytes, and no devices.
    pub fn of_bytes(bytes: u64) -> Self {
        Self {
            uuid: String::new(),
            state: ArrayState::Serving,
            level: "none".to_owned(),
            policy: "none".to_owned(),
            bytes,
            io: "threads".to_owned(),
            no_uring: None,
            devices: Vec::new(),
            nvram: StateStatus::default(),
            intents: StateStatus::default(),
            cache: None,
            stale_rows: 0,
            resynchronised: None,
            lost: Vec::new(),
            copied_bytes: 0,
            scrub: None,
        }
    }
}

/// A file of the array's state, and what it was asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StateStatus {
    /// The file.
    pub path: String,
    /// The device of the array on which it lies behind that one's label: what is written is wear of that device, whose
    /// own counts it is none of. None if the file is its own.
    #[serde(default)]
    pub on: Option<String>,
    /// Gives the seconds that it has had no answer, if they are more than one.
    #[serde(default)]
    pub waiting_seconds: Option<f64>,
    /// Tells that it is written past the page cache.
    #[serde(default)]
    pub direct: bool,
    /// Says why not, if that was wanted.
    #[serde(default)]
    pub buffered: Option<String>,
    /// Steps that changed it.
    pub steps: u64,
    /// Bytes written: what reaches the device in its blocks if it is direct, else what the page cache was given.
    pub written_bytes: u64,
    /// Times that it was made durable; several steps may share one.
    pub syncs: u64,
}

/// Pages by what the cache had of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CacheStatus {
    /// Is true if the cache is in use.
    pub in_use: bool,
    /// Pages read that it had.
    pub read_hits: u64,
    /// Pages read that it did not have.
    pub read_misses: u64,
    /// Pages written that it had.
    pub write_hits: u64,
    /// Pages written that it did not have.
    pub write_misses: u64,
    /// Counts the pages read and written past it, as their requests went on with a long sequential run.
    #[serde(default)]
    pub bypassed: u64,
    /// Lists the further counts of this cache.
    pub figures: Vec<CacheCount>,
}

/// A count of a cache's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CacheCount {
    /// Names the count.
    pub name: String,
    /// The count.
    pub value: u64,
    /// Names the unit.
    pub unit: String,
}

/// Counts the clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientCounts {
    /// Counts the clients that are connected now.
    pub now: u64,
    /// Counts the clients that have connected.
    pub came: u64,
    /// Gone without a goodbye.
    pub lost: u64,
    /// Why the last of those went.
    pub last_loss: Option<String>,
    /// Counts the clients for whom there was no room.
    pub turned_away: u64,
    /// Requests under way.
    pub under_way: u64,
}

/// Tells how much memory requests and replies hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Counts the bytes that they hold now, and those that are kept for the next.
    pub held_bytes: u64,
    /// Gives the bytes that they may hold.
    pub limit_bytes: u64,
    /// Counts the clients that wait until others release memory.
    pub waiting_clients: u64,
    /// Counts the requests that failed since the system had no memory.
    pub failed_requests: u64,
}

/// Requests that were answered, by kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestCounts {
    /// Reads.
    pub reads: CommandCounts,
    /// Writes.
    pub writes: CommandCounts,
    /// Flushes.
    pub flushes: CommandCounts,
    /// Trims, writes of zeroes, and what else there is.
    pub others: CommandCounts,
}

/// Requests of one kind, and how long they took from being received to being answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandCounts {
    /// Counts the requests.
    pub count: u64,
    /// Of these, answered with an error.
    pub failed: u64,
    /// Bytes of those that were not.
    pub bytes: u64,
    /// Sums up the nanoseconds that they took.
    #[serde(default)]
    pub sum_ns: u64,
    /// Counts them by how long they took, in ascending order.
    #[serde(default)]
    pub times: Vec<TimeCount>,
    /// Nanoseconds on average.
    pub mean_ns: u64,
    /// Half took at most so long.
    pub p50_ns: u64,
    /// 99 of 100 did.
    pub p99_ns: u64,
    /// 999 of 1000 did.
    pub p999_ns: u64,
    /// All did.
    pub max_ns: u64,
}

/// Counts requests that took longer than the bucket before says, and at most so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeCount {
    /// Gives the upper bound in nanoseconds.
    pub up_to_ns: u64,
    /// Counts the requests.
    pub count: u64,
}
