//! Describes orders to scrub, and how far a scrub has come.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ByteSize;

/// Orders the rows of an array to be compared: parity with its data, copies with copies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubRequest {
    /// Has what differs made anew: parity from its data, copies from the first of them.
    #[serde(default)]
    pub repair: bool,
    /// Limits the bytes of each member that are read in a second while clients ask for nothing; beside their requests it is
    /// a tenth. Without a limit it goes as fast as the devices do.
    #[serde(default)]
    pub rate_bytes: Option<u64>,
    /// Begins with the row that has this byte of its members.
    #[serde(default)]
    pub from_bytes: u64,
}

impl ScrubRequest {
    /// Limits the bytes of a second if nothing else is said, as md does (`sync_speed_max`).
    pub const RATE: u64 = 200 << 20;
    /// Sets the lowest limit.
    pub const LEAST_RATE: u64 = 1 << 20;
}

impl fmt::Display for ScrubRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In the words of the command line, so an operator can give the same order again.
        f.write_str(if self.repair { "scrub --repair" } else { "scrub" })?;
        match self.rate_bytes {
            Some(rate) => write!(f, " --rate {}", ByteSize(rate))?,
            None => f.write_str(" --rate off")?,
        }
        if self.from_bytes > 0 { write!(f, " --from {}", self.from_bytes) } else { Ok(()) }
    }
}

/// Says why rows are not compared.
#[derive(Debug, thiserror::Error)]
pub enum ScrubError {
    /// Tells that what is served is no array.
    #[error("what is served is no array: it has no rows")]
    NoArray,
    /// Tells that the array is not ready.
    #[error("the array is being made consistent after a crash; wait until destage status says serving")]
    Recovering,
    /// Tells that there is one already.
    #[error("another scrub is under way: destage status says how far it is")]
    UnderWay,
    /// Tells that the first row is beyond the members.
    #[error("a scrub from byte {from} on: each member has {bytes} bytes")]
    Beyond {
        /// Gives the byte.
        from: u64,
        /// Counts the bytes that a member has.
        bytes: u64,
    },
    /// Tells that it would go too slowly to end.
    #[error("a scrub at {rate} a second: at least {least}")]
    Slow {
        /// Gives the rate.
        rate: ByteSize,
        /// Gives the lowest.
        least: ByteSize,
    },
}

/// Tells whether a scrub goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubState {
    /// Rows are being compared.
    Running,
    /// Rows were compared to the end.
    Finished,
    /// Ended before, for this reason.
    Stopped(String),
}

/// Tells how far a scrub has come, and what it has found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScrubStatus {
    /// Tells whether it goes on.
    pub state: ScrubState,
    /// Gives what was ordered.
    pub order: ScrubRequest,
    /// Gives the byte of each member that it has come to: [another](ScrubRequest::from_bytes) can go on from there.
    pub position_bytes: u64,
    /// Counts the bytes of each member.
    pub member_bytes: u64,
    /// Counts the seconds that it has taken.
    pub seconds: f64,
    /// Counts the rows that were looked at: pages that belong together, one of each member.
    pub rows: u64,
    /// Counts those of which too much is lost to compare anything.
    pub unchecked_rows: u64,
    /// Counts those whose pages do not belong together.
    pub mismatched_rows: u64,
    /// Counts those of the mismatched rows that were made consistent again.
    pub repaired_rows: u64,
}

impl ScrubStatus {
    /// Returns the percentage of each member that lies before its position.
    pub fn percent(&self) -> f64 {
        100.0 * self.position_bytes as f64 / self.member_bytes.max(1) as f64
    }

    /// Returns true if every row that it was told to compare is known to be consistent.
    pub fn is_fine(&self) -> bool {
        // Rows that could not be compared may be wrong, so they count against the result.
        self.state == ScrubState::Finished && self.unchecked_rows == 0 && self.mismatched_rows == self.repaired_rows
    }
}

impl fmt::Display for ScrubStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            ScrubState::Running => write!(f, "rows are compared to {:.1} %", self.percent())?,
            ScrubState::Finished if self.order.from_bytes > 0 => {
                write!(f, "all rows from byte {} of each member on are compared", self.order.from_bytes)?;
            }
            ScrubState::Finished => f.write_str("all rows are compared")?,
            ScrubState::Stopped(why) => {
                write!(f, "the comparison of rows ended at byte {} of each member: {why}", self.position_bytes)?;
            }
        }
        write!(f, ": {} rows, {} mismatched", self.rows, self.mismatched_rows)?;
        if self.order.repair {
            write!(f, ", {} repaired", self.repaired_rows)?;
        }
        if self.unchecked_rows > 0 {
            write!(f, ", {} not compared, since too much of them is lost", self.unchecked_rows)?;
        }
        Ok(())
    }
}
