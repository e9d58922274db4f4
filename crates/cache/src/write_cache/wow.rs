//! WOW, wise ordering of writes: one cache for the whole array, destaged stripe by stripe in the order
//! of their addresses, those that were hit a round later (Gill & Modha, FAST'05; specs §8.2).

use destage_plan::{Params, SpecError};
use destage_raid::array::ArrayConfig;

use super::options::{self, ADMIT, GROUPS, HIGH, LOW, SEQ};
use super::registered::{info, serve};
use super::streams::WriteStreams;
use super::upper::UpperLayer;
use super::{WriteCache, figures};
use crate::{HostCacheError, HostCacheInfo, ServedTier, SynchronisedInfo};

/// Runs of writes that are kept in mind.
const RUNS: usize = 32;

/// [The upper layer](super) alone.
pub static WOW: HostCacheInfo = HostCacheInfo {
    about: "Writes are answered when they are in the NVRAM, and destaged stripe by stripe in the order of their \
            addresses, round and round; a stripe that was hit since it was passed is left for the next round. So \
            both how recent data are and the way of a disk's head count.",
    min_pages: options::least_pages,
    params: &[LOW, HIGH, GROUPS, SEQ, ADMIT],
    figures: &figures::names(&figures::OF_RUNS),
    small: |pages| {
        let mut small = options::small_groups(pages);
        small.push((SEQ.name, if pages % 3 == 1 { "on" } else { "off" }.to_owned()));
        small
    },
    synchronised: Ok(SynchronisedInfo {
        title: "WOW whose groups wait until all members have something to write",
        about: "WOW of which the stripes chosen next wait until all members have something to write, and then go to all \
                of them together, so that SSDs collect garbage at the same time. After a timeout, or when room is \
                needed, they go without the others.",
        paper: "WOW in LAWC",
    }),
    ..info("wow", "NVRAM destaged stripe by stripe, round and round; those hit go a round later", "WOW in LAWC", new)
};

fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Box<dyn ServedTier>, HostCacheError> {
    let cache = WriteCache::new(&figures::OF_RUNS, array, Some(upper(pages, params)?), None);
    serve(pages, array, cache.admitting(options::admits_rows(params)?))
}

fn upper(pages: u64, params: &Params) -> Result<UpperLayer, SpecError> {
    let upper = options::upper(pages, params)?;
    Ok(if params.switch(SEQ.name)? { upper.with_runs(WriteStreams::new(RUNS)) } else { upper })
}
