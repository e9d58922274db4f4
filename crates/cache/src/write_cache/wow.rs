//! WOW, wise ordering of writes: one cache for the whole array, destaged stripe by stripe in the order
//! of their addresses, those that were hit a round later (Gill & Modha, FAST'05; specs §8.2).

use destage_plan::Params;
use destage_raid::array::ArrayConfig;

use super::options::{self, GROUPS, HIGH, LOW, SEQ};
use super::registered::{info, serve};
use super::streams::Streams;
use super::{WriteCache, figures};
use crate::{HostCacheError, HostCacheInfo, Served};

/// Runs of writes that are kept in mind.
const RUNS: usize = 32;

/// [The upper layer](super) alone.
pub static WOW: HostCacheInfo = HostCacheInfo {
    // A row enters in one piece.
    min_pages: |array, _| u64::from(array.geometry.data_columns()),
    params: &[LOW, HIGH, GROUPS, SEQ],
    figures: figures::OF_RUNS,
    small: |_| vec![(GROUPS.name, "2".to_owned())],
    ..info("wow", "NVRAM destaged stripe by stripe, round and round; those hit go a round later", "WOW in LAWC", new)
};

fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Box<dyn Served>, HostCacheError> {
    let upper = options::upper(pages, params)?;
    let upper = if params.switch(SEQ.name)? { upper.with_runs(Streams::new(RUNS)) } else { upper };
    serve(pages, array, WriteCache::new(&WOW, array, Some(upper), None))
}
