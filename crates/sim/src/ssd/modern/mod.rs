//! A drive of a data centre: a protected write cache that answers writes, programs of whole word lines over all planes of a
//! die, reads that suspend programs and erases, and collection in slices paced by free space.

mod config;

pub use config::{ModernConfig, ModernGeometry, VictimPolicy};
