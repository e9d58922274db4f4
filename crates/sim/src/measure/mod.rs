//! What is measured, and how it is written down.

mod backlog;
mod latency;
mod record;
mod series;

pub(crate) use backlog::growing;
pub use backlog::{Backlog, Saturation};
pub use latency::{Latency, LatencySummary, distribution};
pub use record::FieldDoc;
pub(crate) use record::record;
pub use series::{Series, SeriesBin};
