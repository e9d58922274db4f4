//! Metrics of a served array for Prometheus and whatever else reads the text of Open Metrics.
//!
//! Invariants:
//! * Nothing here is on the path of a request: an answer is made of the service's [status](destage_engine::ServiceStatus), which it is
//!   asked for as `destage status` asks.
//! * Every metric is in one table ([`FAMILIES`]), of which the answer and its documentation are made.

mod families;
mod server;
mod text;

pub use families::{FAMILIES, MetricFamily, MetricKind};
pub use server::{MetricsError, MetricsServer};
pub use text::open_metrics;
