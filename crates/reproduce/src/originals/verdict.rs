//! Holds the verdict on a file, and the checks behind it.

use std::fmt;

use super::measure::TraceMeasure;

/// Compares a figure of a file with a published one.
#[derive(Clone, Debug, PartialEq)]
pub struct StatisticCheck {
    /// Names what is compared.
    pub measure: TraceMeasure,
    /// Counts the first requests that it is about; none means the whole trace.
    pub first: Option<u64>,
    /// Holds the file's value.
    pub found: f64,
    /// Holds the published value.
    pub expected: f64,
    /// Says who published it.
    pub source: String,
    /// Tells whether the file's value is near enough.
    pub holds: bool,
    /// Tells whether it is too far off for a figure that only describes the trace.
    pub is_far: bool,
}

impl fmt::Display for StatisticCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measure, first, found, expected, source, .. } = self;
        write!(f, "{}", measure.words())?;
        if let Some(first) = first {
            write!(f, " of the first {}", figure(*first as f64))?;
        }
        write!(f, ": found {}, expected {} ({source})", figure(*found), figure(*expected))
    }
}

/// Writes a figure: whole ones with commas, others with up to four decimals.
pub(super) fn figure(value: f64) -> String {
    if value.fract().abs() < 1e-9 && (0.0..1e18).contains(&value) {
        return destage_scenario::quantity::show_count(value as u64);
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Says what a file is. Traces are named by their `id` in the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceVerdict {
    /// The whole original: all published figures by which it can be told hold.
    Whole {
        /// Names the trace.
        trace: String,
        /// Lists the figures that only describe it and that the file deviates from.
        deviations: Vec<StatisticCheck>,
    },
    /// As long as the original, with all other published figures; how many requests that has nobody published.
    AsLong {
        /// Names the trace.
        trace: String,
        /// Lists the figures that only describe it and that the file deviates from.
        deviations: Vec<StatisticCheck>,
    },
    /// A piece that goes round, known by its content.
    KnownPiece {
        /// Names the piece.
        trace: String,
        /// Gives its share of the original's requests, if these are published.
        share: Option<f64>,
    },
    /// The beginning of an original.
    Prefix {
        /// Names the trace.
        trace: String,
        /// Gives its share of the original, if that is published.
        share: Option<f64>,
        /// Says by what it is known.
        because: String,
    },
    /// A piece of an original, from wherever.
    Piece {
        /// Names the trace.
        trace: String,
        /// Gives its share of the original, if that is published.
        share: Option<f64>,
        /// Tells whether the content names the trace; else only the file's name does.
        is_proven: bool,
    },
    /// Named and formatted like an original of which no statistics are published.
    Unchecked {
        /// Names the trace.
        trace: String,
    },
    /// Looks like an original and is none.
    NotIt {
        /// Names the trace.
        trace: String,
        /// Says why, where it is no figure.
        reason: Option<String>,
        /// Lists the figures that are off.
        off: Vec<StatisticCheck>,
    },
    /// Cannot be read to its end.
    Damaged {
        /// Names the trace that it seems to be, if it seems to be one.
        trace: Option<String>,
        /// Says what is wrong, and where.
        error: String,
    },
    /// A trace, but none that papers used.
    OtherTrace,
    /// No trace in a known format.
    NoTrace {
        /// Says why.
        reason: String,
    },
}

impl TraceVerdict {
    /// Returns the trace that it is about, if it is about one.
    pub fn trace(&self) -> Option<&str> {
        match self {
            Self::Whole { trace, .. }
            | Self::AsLong { trace, .. }
            | Self::KnownPiece { trace, .. }
            | Self::Prefix { trace, .. }
            | Self::Piece { trace, .. }
            | Self::Unchecked { trace }
            | Self::NotIt { trace, .. } => Some(trace),
            Self::Damaged { trace, .. } => trace.as_deref(),
            Self::OtherTrace | Self::NoTrace { .. } => None,
        }
    }

    /// Returns true if the file can take the place of the trace that it is about: an original, or the known piece.
    pub fn is_usable(&self) -> bool {
        matches!(self, Self::Whole { .. } | Self::AsLong { .. } | Self::KnownPiece { .. } | Self::Unchecked { .. })
    }

    /// Returns its word in results.
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Whole { .. } => "whole",
            Self::AsLong { .. } => "as-long",
            Self::KnownPiece { .. } => "known-piece",
            Self::Prefix { .. } => "prefix",
            Self::Piece { .. } => "piece",
            Self::Unchecked { .. } => "unchecked",
            Self::NotIt { .. } => "not-it",
            Self::Damaged { .. } => "damaged",
            Self::OtherTrace => "other-trace",
            Self::NoTrace { .. } => "no-trace",
        }
    }

    /// Returns how much it says: the greatest of several readings of a file counts.
    pub(super) const fn rank(&self) -> u8 {
        match self {
            Self::KnownPiece { .. } => 9,
            Self::Whole { .. } => 8,
            Self::AsLong { .. } => 7,
            Self::Prefix { .. } => 6,
            Self::Piece { is_proven: true, .. } => 5,
            Self::Damaged { trace: Some(_), .. } => 4,
            Self::Unchecked { .. } => 3,
            Self::NotIt { .. } | Self::Piece { .. } => 2,
            Self::Damaged { .. } | Self::OtherTrace => 1,
            Self::NoTrace { .. } => 0,
        }
    }
}
