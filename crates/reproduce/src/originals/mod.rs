//! Recognises the traces that papers used among a user's files, by name and content, against what was published about them.
//!
//! [`TraceCatalogue`] holds what is known (`scenarios/traces.toml`), [`TraceRecogniser`] looks at one file.

mod catalogue;
mod judge;
mod measure;
mod recogniser;
mod verdict;

pub use catalogue::{KnownTrace, PublishedTable, TraceCatalogue, TraceFamily, UnpublishedTrace};
pub use measure::{MeasuredTrace, TraceMeasure};
pub use recogniser::{FoundFile, TraceRecogniser};
pub use verdict::{StatisticCheck, TraceVerdict};
