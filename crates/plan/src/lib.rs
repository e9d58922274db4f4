//! The lowest floor: units that every other crate speaks, the kinds of request, and how a request is split into
//! page accesses. The plan types of the host-side caches will live here too.

mod request;
mod split;
mod units;

pub use request::{Op, Request};
pub use split::{GeometryError, PageGeometry, PageRun, Split};
pub use units::{BlockNo, Nanos, PageNo, SECTOR_BYTES};
