//! Describes the host: when its requests arrive, and the meaning of its operations.

use std::fmt;

use destage_plan::Nanos;

/// Selects the arrival of requests at the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostModel {
    /// At trace time.
    #[default]
    Open,
    /// So many are outstanding; the trace's times are ignored.
    Closed {
        /// Requests outstanding.
        depth: u32,
    },
    /// Issues at trace time while fewer are outstanding. While so many are, the trace's clock stands still, so that all later requests
    /// are later by as long and the gaps between them stay.
    Bounded {
        /// Requests outstanding at most.
        depth: u32,
    },
}

impl HostModel {
    /// Returns true if the trace's times decide when requests arrive.
    pub const fn keeps_arrivals(self) -> bool {
        matches!(self, Self::Open | Self::Bounded { .. })
    }
}

impl fmt::Display for HostModel {
    /// Writes the model as the command line takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Closed { depth } => write!(f, "closed:{depth}"),
            Self::Bounded { depth } => write!(f, "bounded:{depth}"),
        }
    }
}

/// Selects the effect of a discard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrimMode {
    /// Buffer and device forget the pages that it covers whole.
    #[default]
    Honour,
    /// Nothing.
    Ignore,
}

/// Selects the effect of a write to a part of a page (specs §0.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubpageWrites {
    /// Counts the write as a write of the whole page.
    #[default]
    Promote,
    /// On a miss the old page is read first.
    Rmw,
}

/// The part of a trace that fills the buffer and is not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarmupPart {
    /// There is none.
    #[default]
    None,
    /// So many requests.
    Requests(u64),
    /// The requests that arrive before this time.
    Time(Nanos),
}
