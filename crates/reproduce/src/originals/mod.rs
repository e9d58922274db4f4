//! Recognises the traces that papers used among a user's files, by name and content, against what was published about them.
//!
//! [`TraceCatalogue`] holds what is known (`scenarios/traces.toml`).

mod catalogue;
mod measure;

pub use catalogue::{KnownTrace, PublishedTable, TraceCatalogue, TraceFamily, UnpublishedTrace};
pub use measure::{MeasuredTrace, TraceMeasure};
