//! Defines the events of a served array that its operator hears of.

use std::fmt;

use destage_plan::quantity::show_bytes;
use serde::Serialize;

use crate::ScrubStatus;
use crate::scrub::ScrubState;
use crate::status::{ArrayState, ByteRange, CACHE};

/// Limits the ranges of lost bytes that a text names.
const NAMED: usize = 8;

/// Ranks a [`ServiceEvent`], as the system's log does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventSeverity {
    /// Marks the end of service.
    Critical,
    /// Marks a loss.
    Error,
    /// Marks a change for the worse, or something given up.
    Warning,
    /// Marks a change for the better, or by order.
    Notice,
    /// Marks progress.
    Info,
    /// Marks what clients do.
    Debug,
}

impl EventSeverity {
    /// Returns the number that the system's log has for it.
    pub const fn syslog(self) -> u8 {
        // The numbers are those of RFC 5424.
        match self {
            Self::Critical => 2,
            Self::Error => 3,
            Self::Warning => 4,
            Self::Notice => 5,
            Self::Info => 6,
            Self::Debug => 7,
        }
    }
}

/// Reports what happened to a served array. Devices are named as the status names them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ServiceEvent {
    /// Reports a device that does not answer, or is not the array's.
    DeviceLost {
        /// Names the device.
        device: String,
        /// Names its file.
        path: String,
        /// Says why.
        why: String,
    },
    /// Reports a device that takes too long, and is kept since data would be lost without it: requests that need it fail.
    DeviceHangs {
        /// Names the device.
        device: String,
        /// Names its file.
        path: String,
        /// Says how long it has had no answer.
        why: String,
    },
    /// Reports that such a device answers again.
    DeviceAnswers {
        /// Names the device.
        device: String,
        /// Names its file.
        path: String,
    },
    /// Reports a file that has taken a device's place.
    DeviceReplaced {
        /// Names the device.
        device: String,
        /// Names the file.
        path: String,
    },
    /// Reports a file that does not take a member's place, though that was ordered. Nothing is lost by it.
    ReplacementFailed {
        /// Names the device.
        device: String,
        /// Names the file.
        path: String,
        /// Says why.
        why: String,
    },
    /// Reports that a member begins to be rebuilt from the others, or copied to the file that takes its place then.
    RebuildStarted {
        /// Names the device.
        device: String,
        /// Names its file.
        path: String,
    },
    /// Reports how much of a member is rebuilt.
    RebuildProgress {
        /// Names the device.
        device: String,
        /// Gives the percentage of its rows.
        percent: u8,
    },
    /// Reports that a member is rebuilt.
    RebuildFinished {
        /// Names the device.
        device: String,
        /// Names its file.
        path: String,
    },
    /// Reports a page that a member could not read, and that was made anew from the others, written and read again.
    PageCorrected {
        /// Names the device.
        device: String,
        /// Names its file.
        path: String,
        /// Gives its first byte there.
        offset: u64,
        /// Counts its bytes.
        bytes: u64,
    },
    /// Reports a page that a member could not read even when it had been made anew from the others, which answer for it.
    PageUnwritable {
        /// Names the device.
        device: String,
        /// Names its file.
        path: String,
        /// Gives its first byte there.
        offset: u64,
        /// Counts its bytes.
        bytes: u64,
    },
    /// Reports a page that a member cannot read, and that cannot be made anew from the others.
    PageUnreadable {
        /// Names the device.
        device: String,
        /// Names its file.
        path: String,
        /// Gives its first byte there.
        offset: u64,
        /// Counts its bytes.
        bytes: u64,
        /// Names the data that cannot be read with it; none if it is parity.
        lost: Option<ByteRange>,
    },
    /// Reports a page that a member does not hold, since it could not be filled in from the others, or that it still does
    /// not hold at a start.
    PageMissing {
        /// Names the device.
        device: String,
        /// Names its file.
        path: String,
        /// Gives its first byte there.
        offset: u64,
        /// Counts its bytes.
        bytes: u64,
        /// Names the data that is lost with it; none if it is parity.
        lost: Option<ByteRange>,
    },
    /// Reports a page of the cache's device that could not be read, or is not what was written there. Other devices have
    /// what the cache had there.
    CachePageDropped {
        /// Names its file.
        path: String,
        /// Gives its first byte there.
        offset: u64,
        /// Counts its bytes.
        bytes: u64,
    },
    /// Reports a page of the cache's device that could not be read, or is not what was written there, and alone had the
    /// newest content of some bytes of the array.
    DirtyPageLost {
        /// Names its file.
        path: String,
        /// Gives its first byte there.
        offset: u64,
        /// Counts its bytes.
        bytes: u64,
        /// Names the data that cannot be read until it is written.
        lost: ByteRange,
    },
    /// Reports that rows begin to be compared.
    ScrubStarted {
        /// Says what was ordered.
        order: String,
        /// Gives the first byte of each member that is compared.
        position: u64,
    },
    /// Reports how far rows are compared.
    ScrubProgress {
        /// Gives the percentage of each member.
        percent: u8,
        /// Gives the byte of each member that the scrub has come to.
        position: u64,
    },
    /// Reports that a scrub has come to its end, or was ended before.
    ScrubEnded {
        /// Says how far it has come, and what it has found.
        scrub: Box<ScrubStatus>,
    },
    /// Reports pages that differ from what the other members make them. Which page of a row is the wrong one, nothing
    /// tells.
    RowsMismatched {
        /// Names the device that has the parity, or the copy.
        device: String,
        /// Names its file.
        path: String,
        /// Gives the first byte there.
        offset: u64,
        /// Counts the bytes.
        bytes: u64,
        /// Tells that the pages were made anew from the others.
        repaired: bool,
        /// Lists the data of these rows.
        data: Vec<ByteRange>,
    },
    /// Reports the start of the service.
    Started {
        /// Names the array's description.
        array: String,
        /// Gives level and members, as `raid5:4`.
        level: String,
        /// Names its cache.
        policy: String,
        /// Counts the bytes of data.
        bytes: u64,
        /// Lists where clients connect.
        uris: Vec<String>,
    },
    /// Reports that the files of NVRAM or intents were lost, or were older copies, and are made anew.
    Resynchronised {
        /// Names those files.
        lost: Vec<String>,
        /// Tells that they were older copies.
        is_behind: bool,
        /// Counts the rows that were made consistent.
        rows: u64,
        /// Tells whether writes that were answered may be lost with them, which was accepted.
        data_lost: bool,
    },
    /// Reports a damaged part of the file of intents, whose rows are made consistent.
    IntentsDamaged {
        /// Says what is wrong with each part.
        why: Vec<String>,
        /// Counts the rows that are made consistent.
        rows: u64,
        /// Counts all rows.
        of: u64,
    },
    /// Reports damaged records of the NVRAM; the pages that are lost with them are told as lost data.
    NvramDamaged {
        /// Says what is wrong with each, of the first few.
        why: Vec<String>,
        /// Counts the slots whose bytes are damaged. Everything else of the NVRAM is kept.
        slots: u64,
    },
    /// Reports that the NVRAM has left the cache's device, on which it lay, and goes on in a file.
    NvramMoved {
        /// Names the file of the device.
        from: String,
        /// Names the file that it lies in.
        path: String,
        /// Says why the description does not name that file, if it does not. The next start finds it all the same.
        unnamed: Option<String>,
    },
    /// Reports that a member's list of the pages that it cannot keep is damaged. It counts as empty: the next reads find such
    /// pages again.
    PageListDamaged {
        /// Names the device.
        device: String,
        /// Names its file.
        path: String,
    },
    /// Reports data that is lost for good: as was accepted, or since nothing makes up a row of a member that is filled.
    DataLost {
        /// Counts the bytes in all.
        bytes: u64,
        /// Lists them.
        ranges: Vec<ByteRange>,
    },
    /// Reports data that the cache's device alone had when it was lost, in this life or an earlier one. Requests for it fail
    /// until it is written.
    CacheDataLost {
        /// Counts the bytes in all.
        bytes: u64,
        /// Lists the first of them.
        ranges: Vec<ByteRange>,
    },
    /// Reports that members were found by their labels in another order than the description has.
    MembersReordered {
        /// Names the files of the members, from member 0 on.
        members: Vec<String>,
    },
    /// Reports an order by the operator.
    Ordered {
        /// Says what was ordered.
        order: String,
        /// Says why it was refused, if it was.
        refused: Option<String>,
    },
    /// Reports a new client.
    ClientCame {
        /// Counts the clients that there are now.
        clients: usize,
    },
    /// Reports that a client has gone.
    ClientGone {
        /// Counts the clients that there are now.
        clients: usize,
        /// Says why, if it did not say goodbye.
        why: Option<String>,
    },
    /// Reports that the program for events is not told of one, or has failed.
    ProgramFailed {
        /// Gives the command.
        command: String,
        /// Says why.
        why: String,
    },
    /// Reports that the kernel's block device is there.
    BlockDeviceStarted {
        /// Names it.
        path: String,
        /// Tells that it has waited for the array since an earlier service ended.
        resumed: bool,
    },
    /// Reports that the driver of the kernel's block device has refused what it should not: the service ends.
    BlockDeviceFailed {
        /// Names it.
        path: String,
        /// Says why.
        why: String,
    },
    /// Reports that the kernel's block device is gone, as was ordered.
    BlockDeviceRemoved {
        /// Names it.
        path: String,
    },
    /// Reports that the service ends, and that the kernel's block device is still in use.
    BlockDeviceLeft {
        /// Names it.
        path: String,
        /// Tells that its requests wait until the array is served again, rather than fail.
        waits: bool,
    },
    /// Reports that the service begins to end.
    Stopping {
        /// Says why.
        why: String,
    },
    /// Reports another state of the array.
    StateChanged {
        /// Gives the one before; none at the start.
        from: Option<ArrayState>,
        /// Gives the one now.
        to: ArrayState,
    },
}

impl ServiceEvent {
    /// Returns how serious it is.
    pub fn severity(&self) -> EventSeverity {
        match self {
            Self::DeviceLost { .. }
            | Self::DeviceHangs { .. }
            | Self::DataLost { .. }
            | Self::CacheDataLost { .. }
            | Self::PageUnwritable { .. }
            | Self::PageMissing { .. }
            | Self::DirtyPageLost { .. }
            | Self::RowsMismatched { repaired: false, .. }
            | Self::ReplacementFailed { .. }
            | Self::BlockDeviceLeft { waits: false, .. }
            | Self::BlockDeviceFailed { .. }
            | Self::PageUnreadable { .. } => EventSeverity::Error,
            // A scrub that was stopped early says nothing against the array, so it is no warning.
            Self::ScrubEnded { scrub } if scrub.state == ScrubState::Finished && !scrub.is_fine() => {
                EventSeverity::Warning
            }
            Self::StateChanged { to, .. } => match to {
                // Requests fail in these states, so somebody has to act at once.
                ArrayState::Failed | ArrayState::Hanging | ArrayState::Stopped(_) => EventSeverity::Critical,
                ArrayState::Degraded => EventSeverity::Warning,
                ArrayState::Rebuilding | ArrayState::Serving => EventSeverity::Notice,
                ArrayState::Recovering => EventSeverity::Info,
            },
            Self::Resynchronised { data_lost: true, .. }
            | Self::Ordered { refused: Some(_), .. }
            | Self::IntentsDamaged { .. }
            | Self::NvramDamaged { .. }
            | Self::NvramMoved { .. }
            | Self::PageListDamaged { .. }
            | Self::PageCorrected { .. }
            | Self::CachePageDropped { .. }
            | Self::RowsMismatched { .. }
            | Self::BlockDeviceLeft { waits: true, .. }
            | Self::ProgramFailed { .. } => EventSeverity::Warning,
            Self::DeviceAnswers { .. }
            | Self::DeviceReplaced { .. }
            | Self::RebuildStarted { .. }
            | Self::RebuildFinished { .. }
            | Self::MembersReordered { .. }
            | Self::ScrubStarted { .. }
            | Self::ScrubEnded { .. }
            | Self::Resynchronised { .. }
            | Self::BlockDeviceStarted { .. }
            | Self::BlockDeviceRemoved { .. }
            | Self::Ordered { .. } => EventSeverity::Notice,
            Self::RebuildProgress { .. }
            | Self::ScrubProgress { .. }
            | Self::Started { .. }
            | Self::Stopping { .. } => EventSeverity::Info,
            // Short-lived clients may come by the thousand, and would hide all other events.
            Self::ClientCame { .. } | Self::ClientGone { .. } => EventSeverity::Debug,
        }
    }

    /// Returns the device that it is about, if it is about one.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::DeviceLost { device, .. }
            | Self::DeviceHangs { device, .. }
            | Self::DeviceAnswers { device, .. }
            | Self::DeviceReplaced { device, .. }
            | Self::ReplacementFailed { device, .. }
            | Self::RebuildStarted { device, .. }
            | Self::RebuildProgress { device, .. }
            | Self::RebuildFinished { device, .. }
            | Self::PageCorrected { device, .. }
            | Self::PageUnwritable { device, .. }
            | Self::PageMissing { device, .. }
            | Self::RowsMismatched { device, .. }
            | Self::PageListDamaged { device, .. }
            | Self::PageUnreadable { device, .. } => Some(device),
            // These events name no device, since a cache has only one.
            Self::CachePageDropped { .. } | Self::DirtyPageLost { .. } => Some(CACHE),
            _ => None,
        }
    }

    /// Returns its name, as in its JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            // Spelt out, since the names that serde derives are to be had only by writing the whole event.
            Self::DeviceLost { .. } => "device-lost",
            Self::DeviceHangs { .. } => "device-hangs",
            Self::DeviceAnswers { .. } => "device-answers",
            Self::DeviceReplaced { .. } => "device-replaced",
            Self::ReplacementFailed { .. } => "replacement-failed",
            Self::RebuildStarted { .. } => "rebuild-started",
            Self::RebuildProgress { .. } => "rebuild-progress",
            Self::RebuildFinished { .. } => "rebuild-finished",
            Self::PageCorrected { .. } => "page-corrected",
            Self::PageUnwritable { .. } => "page-unwritable",
            Self::PageMissing { .. } => "page-missing",
            Self::PageUnreadable { .. } => "page-unreadable",
            Self::CachePageDropped { .. } => "cache-page-dropped",
            Self::DirtyPageLost { .. } => "dirty-page-lost",
            Self::ScrubStarted { .. } => "scrub-started",
            Self::ScrubProgress { .. } => "scrub-progress",
            Self::ScrubEnded { .. } => "scrub-ended",
            Self::RowsMismatched { .. } => "rows-mismatched",
            Self::Started { .. } => "started",
            Self::Resynchronised { .. } => "resynchronised",
            Self::IntentsDamaged { .. } => "intents-damaged",
            Self::NvramDamaged { .. } => "nvram-damaged",
            Self::NvramMoved { .. } => "nvram-moved",
            Self::PageListDamaged { .. } => "page-list-damaged",
            Self::DataLost { .. } => "data-lost",
            Self::CacheDataLost { .. } => "cache-data-lost",
            Self::MembersReordered { .. } => "members-reordered",
            Self::Ordered { .. } => "ordered",
            Self::BlockDeviceStarted { .. } => "block-device-started",
            Self::BlockDeviceFailed { .. } => "block-device-failed",
            Self::BlockDeviceRemoved { .. } => "block-device-removed",
            Self::BlockDeviceLeft { .. } => "block-device-left",
            Self::ClientCame { .. } => "client-came",
            Self::ClientGone { .. } => "client-gone",
            Self::ProgramFailed { .. } => "program-failed",
            Self::Stopping { .. } => "stopping",
            Self::StateChanged { .. } => "state-changed",
        }
    }
}

/// Names the first of these ranges, and counts the others.
fn first_of(ranges: &[ByteRange]) -> String {
    let named = ranges.iter().take(NAMED).map(|range| format!("{} from byte {}", range.bytes, range.offset));
    let named = named.collect::<Vec<_>>().join(", ");
    // A lost cache may have had thousands of ranges, and an event is one line of a log.
    match ranges.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}, and {more} ranges more"),
    }
}

impl fmt::Display for ServiceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Most reasons begin with the file.
            Self::DeviceLost { device, path, why } if why.contains(path.as_str()) => {
                write!(f, "{device} is lost: {why}")
            }
            Self::DeviceLost { device, path, why } => write!(f, "{device} is lost: {path}: {why}"),
            Self::DeviceHangs { device, path, why } => {
                write!(
                    f,
                    "{device} hangs: {path}: {why}; data would be lost without it, so requests that need it fail until it answers"
                )
            }
            Self::DeviceAnswers { device, path } => write!(f, "{device} answers again: {path}"),
            Self::DeviceReplaced { device, path } => write!(f, "{device} is {path} now"),
            Self::ReplacementFailed { device, path, why } => write!(
                f,
                "{path} does not take the place of {device}: {why}; nothing is lost by that, and destage replace begins again"
            ),
            Self::RebuildStarted { device, path } => write!(f, "{device} is being filled: {path}"),
            Self::RebuildProgress { device, percent } => write!(f, "{device} is filled to {percent} %"),
            Self::RebuildFinished { device, path } => write!(f, "{device} is filled: {path}"),
            Self::PageCorrected { device, path, offset, bytes } => {
                write!(
                    f,
                    "{device} could not read {bytes} bytes at {offset} of {path}; they were made anew from the others"
                )
            }
            Self::PageUnwritable { device, path, offset, bytes } => write!(
                f,
                "{device} cannot keep {bytes} bytes at {offset} of {path}; the others answer for them, and it should be replaced"
            ),
            Self::CachePageDropped { path, offset, bytes } => write!(
                f,
                "the cache could not use {bytes} bytes at {offset} of {path}, which cannot be read or are not what was written there; it has dropped them, and other devices have the data"
            ),
            Self::DirtyPageLost { path, offset, bytes, lost } => write!(
                f,
                "the cache alone had data in {bytes} bytes at {offset} of {path}, which cannot be read or are not what was written there: {} bytes at {} are lost until they are written",
                lost.bytes, lost.offset
            ),
            Self::PageMissing { device, path, offset, bytes, lost } => {
                write!(
                    f,
                    "{device} could not be filled at {offset} of {path} with {bytes} bytes that others cannot read"
                )?;
                match lost {
                    Some(range) => {
                        write!(f, ": {} bytes of data at {} are lost until they are written", range.bytes, range.offset)
                    }
                    None => write!(f, "; no data is lost with them"),
                }
            }
            Self::PageUnreadable { device, path, offset, bytes, lost } => {
                write!(f, "{device} cannot read {bytes} bytes at {offset} of {path}, which the others do not make up")?;
                match lost {
                    Some(range) => write!(f, ": {} bytes of data at {} cannot be read", range.bytes, range.offset),
                    None => write!(f, "; no data is lost with them"),
                }
            }
            Self::ScrubStarted { order, position: 0 } => write!(f, "rows are being compared: {order}"),
            Self::ScrubStarted { order, position } => {
                write!(f, "rows are being compared from byte {position} of each member on: {order}")
            }
            Self::ScrubProgress { percent, position } => {
                write!(f, "rows are compared to {percent} %, byte {position} of each member")
            }
            Self::ScrubEnded { scrub } => write!(f, "{scrub}"),
            Self::RowsMismatched { device, path, offset, bytes, repaired, data } => {
                let done = if *repaired { "; they were made anew from the others" } else { "" };
                write!(
                    f,
                    "{device} has other {bytes} bytes at {offset} of {path} than the other members make them{done}. In these rows is"
                )?;
                let named: Vec<String> =
                    data.iter().map(|range| format!("{} from byte {}", range.bytes, range.offset)).collect();
                write!(f, " data of the array: {}", named.join(", "))
            }
            Self::Started { array, level, policy, bytes, .. } => {
                write!(f, "serving {} of {level} from {array}, cache {policy}", show_bytes(*bytes))
            }
            Self::Resynchronised { lost, is_behind, rows, data_lost } => {
                let what = if *is_behind { "older than the members, given up" } else { "lost" };
                let data = if *data_lost { ", and writes that were answered may be lost with it" } else { "" };
                write!(f, "{what} and made anew: {}{data}; {rows} rows were made consistent", lost.join(", "))
            }
            Self::IntentsDamaged { why, rows, of } => {
                write!(f, "{}; {rows} of {of} rows are made consistent for it", why.join("; "))
            }
            Self::MembersReordered { members } => {
                let named = members.iter().enumerate().map(|(at, path)| format!("member {at} is {path}"));
                let named = named.collect::<Vec<_>>().join(", ");
                write!(f, "members were found by their labels in another order than array.toml has them: {named}")
            }
            Self::NvramDamaged { why, slots } => {
                write!(
                    f,
                    "{}; the bytes of {slots} slots are damaged, and everything else of the NVRAM is kept",
                    why.join("; ")
                )
            }
            Self::NvramMoved { from, path, unnamed } => {
                write!(f, "the NVRAM has left {from}, and lies in {path}, without any loss")?;
                let why = unnamed.as_ref().map(|why| format!("; array.toml does not name that, since {why}"));
                f.write_str(&why.unwrap_or_default())
            }
            Self::PageListDamaged { device, path } => write!(
                f,
                "{device}: the list in {path} of pages that it cannot keep is damaged, and counts as empty; reads find such pages again"
            ),
            Self::DataLost { bytes, ranges } => write!(f, "{bytes} bytes of data may be lost: {}", first_of(ranges)),
            Self::CacheDataLost { bytes, ranges } => write!(
                f,
                "{bytes} bytes of data that the cache alone had are lost with its device, and cannot be read until they are written: {}",
                first_of(ranges)
            ),
            Self::BlockDeviceStarted { path, resumed: false } => write!(f, "block device: {path}"),
            Self::BlockDeviceStarted { path, resumed: true } => {
                write!(f, "block device: {path}, resumed")
            }
            Self::BlockDeviceFailed { path, why } => {
                write!(f, "block device {path}: the kernel's driver refused a command: {why}")
            }
            Self::BlockDeviceRemoved { path } => write!(f, "block device {path} removed"),
            Self::BlockDeviceLeft { path, waits: true } => {
                write!(f, "block device {path} is left: its requests wait for the next destage serve --ublk")
            }
            Self::BlockDeviceLeft { path, waits: false } => {
                write!(
                    f,
                    "block device {path} fails now: a device of a user without privileges cannot wait for another service"
                )
            }
            Self::Ordered { order, refused: None } => write!(f, "ordered: {order}"),
            Self::Ordered { order, refused: Some(why) } => write!(f, "refused: {order}: {why}"),
            Self::ClientCame { clients } => write!(f, "a client has come; there are {clients}"),
            Self::ClientGone { clients, why: None } => write!(f, "a client has gone; there are {clients}"),
            Self::ClientGone { clients, why: Some(why) } => write!(f, "a client is lost: {why}; there are {clients}"),
            Self::ProgramFailed { command, why } => write!(f, "on-event: {command}: {why}"),
            Self::Stopping { why } => write!(f, "stopping: {why}"),
            Self::StateChanged { from: None, to } => write!(f, "the array is {to}"),
            Self::StateChanged { from: Some(from), to } => write!(f, "the array is {to}; it was {from}"),
        }
    }
}
