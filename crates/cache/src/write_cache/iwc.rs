//! IWC, independent write caches: a cache for each member, destaged strip by strip, each at the pace of
//! its member; parity is made when data enters. With a synchroniser the members' caches write at the
//! same time (specs §8.4 to §8.6).

use destage_plan::Params;
use destage_raid::array::ArrayConfig;

use super::options::{self, RECENCY};
use super::registered::{info, serve};
use super::{WriteCache, figures};
use crate::{HostCacheError, HostCacheInfo, ServedTier, SynchronisedInfo};

/// [The lower layer](super) alone.
pub static IWC: HostCacheInfo = HostCacheInfo {
    about: "The NVRAM is divided into equal parts, one for each member. Parity is made when data enters, so that the \
            strips of each member are destaged on their own, at the pace of that member.",
    min_pages,
    params: &[RECENCY],
    synchronised: Ok(SynchronisedInfo {
        title: "IWC of which all members write their next strips at the same time",
        about: "IWC of which all members write their next strips at the same time, so that SSDs collect garbage \
                together and requests wait for fewer collections. After a timeout, or when room is needed, strips go \
                without the others.",
        paper: "IWC+S in LAWC",
    }),
    ..info("iwc", "NVRAM in equal parts for the members, each destaged strip by strip on its own", "IWC in LAWC", new)
};

fn min_pages(array: &ArrayConfig, _: &Params) -> u64 {
    u64::from(array.geometry.members())
}

fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Box<dyn ServedTier>, HostCacheError> {
    let lower = options::lower(pages, &array.geometry, params)?;
    serve(pages, array, WriteCache::new(&figures::ALL, array, None, Some(lower)))
}
