//! Implements write-around: writes go to the array alone and drop an older copy (WA, specs §9.1).

use super::copies::{CopyCache, WriteAdmission};

/// Keeps no written page.
pub struct AroundRule;

impl WriteAdmission for AroundRule {
    const KEPT: bool = false;
    const NAMES: [&'static str; 3] = [
        "write-around",
        "set-associative LRU cache of copies: reads fill it, writes go to the array and drop what it has",
        "WA in KDD",
    ];
    const ABOUT: &'static str = "Copies of pages of the array on an SSD: reads fill the cache, writes go to the array alone, and what the \
        cache has of these pages is dropped. Its loss costs nothing but speed.";
}

/// The cache.
pub type WriteAround = CopyCache<AroundRule>;
