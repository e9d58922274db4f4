//! The one list of host caches: simulator, executors, crash harness and command line take them from
//! here.
//!
//! To add one, write its file, with a `HostCache` and a `Registered`, and name both here and in
//! `lib.rs`.

use std::fmt;
use std::str::FromStr;

use destage_plan::{Params, PolicySpec, SpecError};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, Level};

use crate::none::NoCache;
use crate::write_cache::{IWC, LAWC, SYNC_IWC, WOW};
use crate::write_through::WriteThrough;
use crate::{HostCacheError, HostCacheInfo, Registered, Served};

/// A host cache as a user names it: `name` or `name:key=value`, known to exist and to have these
/// parameters.
#[derive(Clone)]
pub struct HostCacheSpec {
    info: &'static HostCacheInfo,
    params: Params,
}

/// All of them, in the order in which they are listed.
static CACHES: &[&HostCacheInfo] = &[&NoCache::INFO, &WriteThrough::INFO, &WOW, &IWC, &SYNC_IWC, &LAWC];

/// Every host cache.
pub fn host_caches() -> impl Iterator<Item = &'static HostCacheInfo> {
    CACHES.iter().copied()
}

/// Every host cache that serves arrays of this level.
pub fn host_caches_of(level: Level) -> impl Iterator<Item = &'static HostCacheInfo> {
    host_caches().filter(move |info| (info.serves)(level))
}

impl HostCacheSpec {
    /// The cache of this name, with its defaults.
    pub fn of(info: &'static HostCacheInfo) -> Self {
        let spec = PolicySpec { name: info.name.to_owned(), given: Vec::new() };
        Self::resolve(info, &spec).expect("its defaults are among the values that it takes")
    }

    /// The cache with parameters under which so few pages do all that many do.
    pub fn small(info: &'static HostCacheInfo, pages: u64) -> Self {
        let given = (info.small)(pages).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let spec = PolicySpec { name: info.name.to_owned(), given };
        Self::resolve(info, &spec).expect("a cache takes the parameters that it names itself")
    }

    fn resolve(info: &'static HostCacheInfo, spec: &PolicySpec) -> Result<Self, SpecError> {
        let mut params = Params::resolve(&[(info.name, info.params)], spec)?;
        let resolved = Self { info, params: params.remove(0) };
        // Only a cache can say whether it takes the values; what else is against this array does
        // not matter.
        let array = smallest_array();
        match resolved.build(&array, resolved.min_pages(&array)) {
            Err(HostCacheError::Spec(error)) => Err(error),
            _ => Ok(resolved),
        }
    }

    /// What there is to know about the cache.
    pub const fn info(&self) -> &'static HostCacheInfo {
        self.info
    }

    /// The parameters in force, by name.
    pub fn params(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.params.iter()
    }

    /// Serves an array with a cache of so many pages (of no meaning if it has no size).
    pub fn build(&self, array: &ArrayConfig, pages: u64) -> Result<Box<dyn Served>, HostCacheError> {
        self.check_pages(array, pages)?;
        (self.info.build)(pages, array, &self.params)
    }

    /// The least pages that it can do with over such an array.
    pub fn min_pages(&self, array: &ArrayConfig) -> u64 {
        (self.info.min_pages)(array, &self.params)
    }

    /// Whether the array can be served with a cache of so many pages, without taking the memory for
    /// that.
    pub fn check(&self, array: &ArrayConfig, pages: u64) -> Result<(), HostCacheError> {
        self.check_pages(array, pages)?;
        self.build(array, self.min_pages(array)).map(drop)
    }

    fn check_pages(&self, array: &ArrayConfig, pages: u64) -> Result<(), HostCacheError> {
        let level = array.geometry.level();
        if !(self.info.serves)(level) {
            return Err(HostCacheError::Level(level));
        }
        let (min, max) = (self.min_pages(array), self.info.max_pages);
        if self.info.is_sized() && !(min..=max).contains(&pages) {
            return Err(HostCacheError::Pages { pages, min, max });
        }
        Ok(())
    }
}

/// Serves an array with the cache of this name, written as a user writes it, with so many pages (of
/// no meaning if it has no size).
pub fn serve(cache: &str, array: &ArrayConfig, pages: u64) -> Result<Box<dyn Served>, HostCacheError> {
    cache.parse::<HostCacheSpec>()?.build(array, pages)
}

impl FromStr for HostCacheSpec {
    type Err = SpecError;

    /// `name` or `name:key=value`, as buffers are written.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let spec: PolicySpec = text.parse()?;
        let info = host_caches().find(|info| info.name == spec.name).ok_or_else(|| {
            let known = host_caches().map(|info| info.name).collect::<Vec<_>>().join(", ");
            SpecError::Unknown { name: spec.name.clone(), known }
        })?;
        Self::resolve(info, &spec)
    }
}

impl fmt::Debug for HostCacheSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().name)?;
        self.params().try_for_each(|(key, value)| write!(f, ":{key}={value}"))
    }
}

/// An array that every parameter can be tried on.
fn smallest_array() -> ArrayConfig {
    ArrayConfig::new(Geometry::new(Level::Raid5, None, 3, 1, 1).expect("three members of a page are enough"))
}
