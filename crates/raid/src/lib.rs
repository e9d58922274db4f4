//! Redundant arrays: where a page and its parity lie, and how parity is computed.
//!
//! [`Geometry`] maps pages to devices, byte for byte as Linux md does for RAID-0, 1, 4, 5 and 6 in
//! every layout that mdadm knows. [`kernels`] computes XOR and P+Q parity with the widest vectors
//! that the processor has, and [`field`] gives the coefficients that bring lost pages back (specs
//! §2).

pub mod array;
mod geometry;
pub mod kernels;
mod layout;
pub mod settings;
mod stripe_cache;

pub use geometry::{ArrayGeometryError, Geometry, MAX_DEVICES, PagePlace, StripeMap};
pub use kernels::field;
pub use layout::{ParityLayout, ParseLayoutError, ParseLevelError, RaidLevel};
pub use stripe_cache::StripeCacheSize;
