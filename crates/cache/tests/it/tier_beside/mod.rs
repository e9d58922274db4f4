//! A cache on an SSD and the naive model of it side by side: what is tried, and that both do the same.

mod bytes;
mod case;
mod pair;
mod request;

use destage_plan::Nanos;

pub use bytes::Bytes;
pub use case::Case;
pub use pair::Pair;
pub use request::DrawnRequest;

pub const PAGE: u64 = 64;
pub const SECTOR: u64 = 16;
/// Is the length of what must not happen.
pub const LONG: Nanos = Nanos(1 << 60);
