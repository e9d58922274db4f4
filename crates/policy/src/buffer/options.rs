//! Options that several policies have.

use destage_plan::{ParamSpec, Params, SpecError};

/// Selects whether read misses enter the buffer.
pub(super) const READS: ParamSpec = ParamSpec {
    name: "reads",
    default: "cache",
    values: "cache, bypass",
    unit: "-",
    help: "whether a read miss enters the buffer",
};

/// Returns the value of [`READS`]: true if read misses enter.
pub(super) fn caches_reads(params: &Params) -> Result<bool, SpecError> {
    params.choice(READS.name, &[("cache", true), ("bypass", false)])
}

/// Selects whether block-level policies spare the block of the incoming page.
pub(super) const PROTECT_CURRENT: ParamSpec = ParamSpec {
    name: "protect_current",
    default: "false",
    values: "true, false",
    unit: "-",
    help: "whether the block of the incoming page is spared when a victim is chosen (specs §0.2)",
};

/// Selects the list where read misses enter CCF-LRU and CAVE.
pub(super) const NEW_CLEAN_TO: ParamSpec = ParamSpec {
    name: "new_clean_to",
    default: "ccl",
    values: "ccl, mixed",
    unit: "-",
    help: "whether a read miss enters the cold clean list or, hot, the mixed list as in CAWR (specs §10.7 D12)",
};
