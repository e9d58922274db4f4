//! Defines the parameters of `kdd`, most of which go beyond its paper.

use destage_plan::{ParamSpec, Params, SpecError};

use super::super::behind::CLEAN;
use super::super::delayed;
use super::{STAGING, ghosts, zone};

pub(super) const MISSES: ParamSpec = ParamSpec {
    name: "misses",
    default: "parity",
    values: "parity or delay",
    unit: "-",
    help: "what a write of a page that is not in the cache does: it updates the parity, or leaves it for later, too, for which the page is read from its member once",
};

pub(super) const ADMIT: ParamSpec = ParamSpec {
    name: "admit",
    default: "1",
    values: "1 to 255; with misses=delay also never",
    unit: "writes",
    help: "the write at which a page comes into the cache that is not in it; before, nothing is kept of it, or with misses=delay its delta alone. What is read comes in at once, unless nothing ever does",
};

pub(super) const RECLAIM: ParamSpec = ParamSpec {
    name: "reclaim",
    default: "free",
    values: "free, rewrite or keep",
    unit: "-",
    help: "what becomes of a page that was written again when its parity has caught up: it leaves the cache, or it is written to its frame as it is, or stays there as it was, with its delta",
};

pub(super) const STAGED_IN: ParamSpec = ParamSpec {
    name: "staged-in",
    default: "nvram",
    values: "nvram or memory",
    unit: "-",
    help: "where deltas are staged; nothing that is staged is needed after a start, so that memory loses nothing, and where there is no NVRAM it saves a write of the cache for each",
};

/// Stages deltas in memory.
pub(crate) const IN_MEMORY: (&str, &str) = (STAGED_IN.name, "memory");

/// Returns true if deltas are staged in memory.
pub(super) fn in_memory(params: &Params) -> Result<bool, SpecError> {
    params.choice(STAGED_IN.name, &[("nvram", false), (IN_MEMORY.1, true)])
}

/// Bytes of memory for each page of the cache.
pub(super) fn bytes_per_page(params: &Params) -> u64 {
    // Where its delta is. As many pages again may have nothing but a delta, with entries of 24 bytes in a table that
    // may just be growing.
    let misses = match (params.text(MISSES.name), params.text(ADMIT.name)) {
        ("delay", _) => 57,
        (_, "1") => 0,
        _ => ghosts::BYTES_PER_PAGE,
    };
    // Of each frame a second delta, and of each page of deltas how many the parity does not cover.
    let made = if params.text(RECLAIM.name) == "free" { 0 } else { zone::BYTES_MADE };
    delayed::bytes_per_page(params) + zone::BYTES_PER_PAGE + misses + made
}

/// Lists the modes that tests try, each with the other parameters at their defaults. Their number is a multiple
/// of five, and those where nothing is ever admitted are at 3 and 13. So old failing seeds still reproduce.
pub(super) const MODES: &[&[(&str, &str)]] = &[
    &[],
    &[(MISSES.name, "delay")],
    &[(MISSES.name, "delay"), (ADMIT.name, "2"), (CLEAN.name, "stripes")],
    &[(MISSES.name, "delay"), (ADMIT.name, "never")],
    &[(CLEAN.name, "stripes")],
    &[(ADMIT.name, "2")],
    &[(RECLAIM.name, "rewrite")],
    &[(RECLAIM.name, "keep")],
    &[(MISSES.name, "delay"), (RECLAIM.name, "rewrite")],
    &[(MISSES.name, "delay"), (RECLAIM.name, "keep")],
    &[(MISSES.name, "delay"), (ADMIT.name, "2"), (CLEAN.name, "stripes"), (RECLAIM.name, "keep")],
    &[(CLEAN.name, "stripes"), (RECLAIM.name, "keep"), (STAGING.name, "2")],
    &[(ADMIT.name, "2"), (RECLAIM.name, "keep")],
    &[(MISSES.name, "delay"), (ADMIT.name, "never"), (RECLAIM.name, "keep")],
    &[(CLEAN.name, "stripes"), (RECLAIM.name, "rewrite")],
    &[IN_MEMORY],
    &[(MISSES.name, "delay"), IN_MEMORY],
    &[(MISSES.name, "delay"), (ADMIT.name, "2"), (CLEAN.name, "stripes"), IN_MEMORY],
    &[(MISSES.name, "delay"), (ADMIT.name, "never"), IN_MEMORY],
    &[(CLEAN.name, "stripes"), IN_MEMORY],
    &[(ADMIT.name, "2"), IN_MEMORY],
    &[(RECLAIM.name, "rewrite"), IN_MEMORY],
    &[(RECLAIM.name, "keep"), IN_MEMORY],
    &[(MISSES.name, "delay"), (RECLAIM.name, "rewrite"), IN_MEMORY],
    &[(MISSES.name, "delay"), (RECLAIM.name, "keep"), IN_MEMORY],
    &[(MISSES.name, "delay"), (ADMIT.name, "2"), (CLEAN.name, "stripes"), (RECLAIM.name, "keep"), IN_MEMORY],
    &[(CLEAN.name, "stripes"), (RECLAIM.name, "keep"), (STAGING.name, "2"), IN_MEMORY],
    &[(ADMIT.name, "2"), (RECLAIM.name, "keep"), IN_MEMORY],
    &[(MISSES.name, "delay"), (ADMIT.name, "never"), (RECLAIM.name, "keep"), IN_MEMORY],
    &[(CLEAN.name, "stripes"), (RECLAIM.name, "rewrite"), IN_MEMORY],
];

/// No write is such a one.
pub(super) const NEVER: u32 = u32::MAX;

/// Decides what happens to writes of pages that are not in the cache.
#[derive(Clone, Copy)]
pub(super) struct MissPolicy {
    /// Is true if their parity stays stale as well.
    pub(super) delayed: bool,
    /// The write at which a page is admitted.
    pub(super) admit: u32,
}

impl MissPolicy {
    pub(super) fn new(params: &Params) -> Result<Self, SpecError> {
        let delayed = params.choice(MISSES.name, &[("parity", false), ("delay", true)])?;
        let admit = match params.text(ADMIT.name) {
            "never" => NEVER,
            _ => params.number(ADMIT.name, 1..=255)?,
        };
        // Nothing would ever come in.
        if admit == NEVER && !delayed {
            return Err(params.refuse(ADMIT.name));
        }
        Ok(Self { delayed, admit })
    }
}

/// Decides what happens to a page kept as base and delta once the parity covers its newest version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReclaimPolicy {
    /// Frees its frame (scheme 2 of specs §9.6).
    Free,
    /// Writes the newest version to its frame (scheme 1).
    Rewrite,
    /// Keeps the base and its delta; the page is clean.
    Keep,
}

impl ReclaimPolicy {
    pub(super) fn new(params: &Params) -> Result<Self, SpecError> {
        params.choice(RECLAIM.name, &[("free", Self::Free), ("rewrite", Self::Rewrite), ("keep", Self::Keep)])
    }
}
