//! Recognises the traces that papers used among a user's files, by name and content, against what was published about them.
//!
//! [`TraceCatalogue`] holds what is known (`scenarios/traces.toml`), [`TraceRecogniser`] looks at one file, [`search`] at a
//! folder, and [`PaperNeeds`] tells what a paper needs of what was found.

mod catalogue;
mod judge;
mod measure;
mod needs;
mod recogniser;
mod search;
mod verdict;

pub use catalogue::{KnownTrace, PublishedTable, TraceCatalogue, TraceFamily, UnpublishedTrace};
pub use measure::{MeasuredTrace, TraceMeasure};
pub use needs::{NeededTrace, PaperNeeds};
pub use recogniser::{FoundFile, TraceRecogniser};
pub use search::{FOLDERS_DEEP, FoundTraces, search};
pub use verdict::{StatisticCheck, TraceVerdict};
