//! What happens to a served array, for whoever runs it.

use std::fmt;

use destage_plan::quantity::show_bytes;
use serde::Serialize;

use crate::status::{LostRange, State};

/// Ranges of lost bytes that a text names.
const NAMED: usize = 8;

/// How serious an [`Event`] is, as the system's log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing is served any more.
    Critical,
    /// Something is lost.
    Error,
    /// Something is worse than it was, or is given up.
    Warning,
    /// Something has changed for the better, or by order.
    Notice,
    /// It goes its way.
    Info,
    /// What clients do.
    Debug,
}

impl Severity {
    /// Returns the number that the system's log has for it.
    pub const fn syslog(self) -> u8 {
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

/// What happens to a served array. Devices are named as the status names them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A device does not answer, or is not the array's.
    DeviceLost {
        /// Which.
        device: String,
        /// Its file.
        path: String,
        /// Why.
        why: String,
    },
    /// A file has taken a device's place.
    DeviceReplaced {
        /// Which.
        device: String,
        /// The file.
        path: String,
    },
    /// A member begins to be filled with what the others know of it.
    RebuildStarted {
        /// Which.
        device: String,
        /// Its file.
        path: String,
    },
    /// So much of a member is filled.
    RebuildProgress {
        /// Which.
        device: String,
        /// Percent of its rows.
        percent: u8,
    },
    /// A member is filled.
    RebuildFinished {
        /// Which.
        device: String,
        /// Its file.
        path: String,
    },
    /// The service begins.
    Started {
        /// Which array.
        array: String,
        /// Level and members.
        level: String,
        /// Its cache.
        policy: String,
        /// Bytes of data.
        bytes: u64,
        /// Where clients come to.
        uris: Vec<String>,
    },
    /// The files of NVRAM or intents were lost, and are made anew.
    Resynchronised {
        /// Those files.
        lost: Vec<String>,
        /// Rows that were made consistent.
        rows: u64,
        /// Whether writes that were answered may be lost with them, which was accepted.
        data_lost: bool,
    },
    /// A part of the file of intents is damaged: its rows are made consistent.
    IntentsDamaged {
        /// What is wrong.
        why: Vec<String>,
        /// Rows that are made consistent.
        rows: u64,
        /// All rows.
        of: u64,
    },
    /// Data is lost for good, which was accepted.
    DataLost {
        /// Bytes in all.
        bytes: u64,
        /// Which.
        ranges: Vec<LostRange>,
    },
    /// Somebody who runs the service has ordered something.
    Ordered {
        /// What.
        order: String,
        /// Why it was refused, if it was.
        refused: Option<String>,
    },
    /// A client has come.
    ClientCame {
        /// How many there are now.
        clients: usize,
    },
    /// A client has gone.
    ClientGone {
        /// How many there are now.
        clients: usize,
        /// Why, if it did not say goodbye.
        why: Option<String>,
    },
    /// The program that is told of events is not told, or has failed.
    ProgramFailed {
        /// The command.
        command: String,
        /// Why.
        why: String,
    },
    /// The service begins to end.
    Stopping {
        /// Why.
        why: String,
    },
    /// The array is in another state.
    StateChanged {
        /// The one before; none at the start.
        from: Option<State>,
        /// The one now.
        to: State,
    },
}

impl Event {
    /// Returns how serious it is.
    pub const fn severity(&self) -> Severity {
        match self {
            Self::DeviceLost { .. } | Self::DataLost { .. } => Severity::Error,
            Self::StateChanged { to, .. } => match to {
                State::Failed | State::Stopped(_) => Severity::Critical,
                State::Degraded => Severity::Warning,
                State::Rebuilding | State::Serving => Severity::Notice,
                State::Recovering => Severity::Info,
            },
            Self::DeviceReplaced { .. } | Self::RebuildStarted { .. } | Self::RebuildFinished { .. } => {
                Severity::Notice
            }
            Self::Resynchronised { data_lost: true, .. }
            | Self::Ordered { refused: Some(_), .. }
            | Self::IntentsDamaged { .. }
            | Self::ProgramFailed { .. } => Severity::Warning,
            Self::Resynchronised { .. } | Self::Ordered { .. } => Severity::Notice,
            Self::RebuildProgress { .. } | Self::Started { .. } | Self::Stopping { .. } => Severity::Info,
            Self::ClientCame { .. } | Self::ClientGone { .. } => Severity::Debug,
        }
    }

    /// Returns the device that it is about, if it is about one.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::DeviceLost { device, .. }
            | Self::DeviceReplaced { device, .. }
            | Self::RebuildStarted { device, .. }
            | Self::RebuildProgress { device, .. }
            | Self::RebuildFinished { device, .. } => Some(device),
            _ => None,
        }
    }

    /// Returns its name, as in its JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::DeviceLost { .. } => "device-lost",
            Self::DeviceReplaced { .. } => "device-replaced",
            Self::RebuildStarted { .. } => "rebuild-started",
            Self::RebuildProgress { .. } => "rebuild-progress",
            Self::RebuildFinished { .. } => "rebuild-finished",
            Self::Started { .. } => "started",
            Self::Resynchronised { .. } => "resynchronised",
            Self::IntentsDamaged { .. } => "intents-damaged",
            Self::DataLost { .. } => "data-lost",
            Self::Ordered { .. } => "ordered",
            Self::ClientCame { .. } => "client-came",
            Self::ClientGone { .. } => "client-gone",
            Self::ProgramFailed { .. } => "program-failed",
            Self::Stopping { .. } => "stopping",
            Self::StateChanged { .. } => "state-changed",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Most reasons begin with the file.
            Self::DeviceLost { device, path, why } if why.contains(path.as_str()) => {
                write!(f, "{device} is lost: {why}")
            }
            Self::DeviceLost { device, path, why } => write!(f, "{device} is lost: {path}: {why}"),
            Self::DeviceReplaced { device, path } => write!(f, "{device} is {path} now"),
            Self::RebuildStarted { device, path } => write!(f, "{device} is being filled: {path}"),
            Self::RebuildProgress { device, percent } => write!(f, "{device} is filled to {percent} %"),
            Self::RebuildFinished { device, path } => write!(f, "{device} is filled: {path}"),
            Self::Started { array, level, policy, bytes, .. } => {
                write!(f, "serving {} of {level} from {array}, cache {policy}", show_bytes(*bytes))
            }
            Self::Resynchronised { lost, rows, data_lost } => {
                let data = if *data_lost { ", and writes that were answered may be lost with it" } else { "" };
                write!(f, "lost and made anew: {}{data}; {rows} rows were made consistent", lost.join(", "))
            }
            Self::IntentsDamaged { why, rows, of } => {
                write!(f, "{}; {rows} of {of} rows are made consistent for it", why.join("; "))
            }
            Self::DataLost { bytes, ranges } => {
                let named = ranges.iter().take(NAMED);
                let named: Vec<String> =
                    named.map(|range| format!("{} from byte {}", range.bytes, range.offset)).collect();
                let more = ranges.len().saturating_sub(NAMED);
                let more = if more > 0 { format!(", and {more} ranges more") } else { String::new() };
                write!(f, "{bytes} bytes of data may be lost, as was accepted: {}{more}", named.join(", "))
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
