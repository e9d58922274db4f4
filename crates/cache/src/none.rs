//! No cache: every request goes to the array ("Nossd", specs §9.1).

use destage_plan::{ColumnSet, Params, Rows};
use destage_raid::array::{ArrayConfig, PageVersions};

use crate::{HostCache, HostCacheError, HostCacheInfo, RegisteredCache};

/// Holds nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoCache;

impl PageVersions for NoCache {
    fn may_fold(&self, _: Rows, _: ColumnSet) -> bool {
        // There are no copies, so no write has to wait for one.
        true
    }

    fn may_pass(&self) -> bool {
        true
    }
}

impl HostCache for NoCache {
    type Part = ();
}

impl RegisteredCache for NoCache {
    const INFO: HostCacheInfo = HostCacheInfo {
        about: "There is no cache: each request goes to the array as it comes, with the reads and writes of parity \
                that small writes take. It shows what a cache is worth, and runs once whatever the cache sizes.",
        ..HostCacheInfo::new::<Self>("none", "no cache: every request goes to the array", "Nossd in KDD")
    };

    fn new(_: u64, _: &ArrayConfig, _: &Params) -> Result<Self, HostCacheError> {
        Ok(Self)
    }
}
