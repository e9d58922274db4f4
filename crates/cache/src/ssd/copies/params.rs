//! Declares the parameters that all caches of copies take.

use destage_plan::{ParamSpec, Params, quantity};

use crate::HostCacheError;

pub(crate) const WAYS: ParamSpec = ParamSpec {
    name: "ways",
    // As EnhanceIO has it.
    default: "512",
    values: "1 to 32768",
    unit: "pages",
    help: "pages of a set; the data pages of a parity row fall into the same set",
};

pub(crate) const SEQUENTIAL_CUTOFF: ParamSpec = ParamSpec {
    name: "sequential-cutoff",
    default: "0",
    values: "0, or at least a page",
    unit: "size",
    help: "length from which on requests that follow each other, one beginning where the other ended, pass the cache by; 0: \
           none do",
};

/// Sets where sequential runs begin to pass caches of arrays in files by.
pub(crate) const LONG_CUTOFF: (&str, &str) = (SEQUENTIAL_CUTOFF.name, "4MiB");

/// Returns the pages of a sequential run from which on it passes a cache by; 0 if none does.
///
/// # Errors
/// If it is less than a page, but not 0, or no size.
pub(super) fn cutoff_pages(page_bytes: u32, params: &Params) -> Result<u64, HostCacheError> {
    let page = u64::from(page_bytes);
    let bytes = quantity::bytes(params.text(SEQUENTIAL_CUTOFF.name)).ok();
    // With less than a page, as where a unit is forgotten, nothing would come into the cache.
    let bytes = bytes.filter(|bytes| *bytes == 0 || *bytes >= page);
    let pages = bytes.map(|bytes| bytes.div_ceil(page));
    pages.ok_or_else(|| params.refuse(SEQUENTIAL_CUTOFF.name).into())
}
