//! Implements write-through: writes go to the array and to the cache (WT, specs §9.1).

use super::copies::{CopyCache, WriteAdmission};

/// Keeps every written page.
pub struct ThroughRule;

impl WriteAdmission for ThroughRule {
    const KEPT: bool = true;
    const NAMES: [&'static str; 3] = [
        "write-through",
        "set-associative LRU cache of copies: reads fill it, writes go to it and to the array",
        "WT in KDD",
    ];
    const ABOUT: &'static str = "Copies of pages of the array on an SSD: reads fill the cache, and writes go to it and to the array at the \
        same time and are answered when both are done. Its loss costs nothing but speed.";
}

/// The cache.
pub type WriteThrough = CopyCache<ThroughRule>;
