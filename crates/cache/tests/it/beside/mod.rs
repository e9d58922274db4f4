//! A write cache and the naive model of it side by side: what is tried, and that both do the same.

mod case;
mod pair;

use destage_plan::Nanos;

pub use case::{Case, draw};
pub use pair::Pair;

pub const PAGE: u64 = 64;
pub const SECTOR: u64 = 16;
/// Is the length of a step that does not end before it is picked.
pub const LONG: Nanos = Nanos(1 << 60);
