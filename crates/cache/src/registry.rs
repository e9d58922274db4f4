//! The one list of host caches: simulator, executors, crash harness and command line take them from
//! here.
//!
//! To add one, write its file, with a `HostCache` and a `RegisteredCache`, name the file in `lib.rs` and the
//! cache here.

use std::fmt;
use std::str::FromStr;
use std::sync::{LazyLock, OnceLock};

use destage_plan::{ParamSpec, Params, PolicySpec, SpecError, names};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};

use crate::ggc::GGC;
use crate::none::NoCache;
use crate::ssd::{
    CLEANED_STRIPES, DESTAGED_STRIPES, Kdd, LONG_CUTOFF, Leavo, STAGED_IN_MEMORY, TRIM, WriteAround, WriteBack,
    WriteThrough,
};
use crate::sync::{self, SYNC};
use crate::write_cache::{IWC, LAWC, STOW, WOW};
use crate::{
    CacheFigure, HostCacheError, HostCacheInfo, LayerInfo, LayerPlace, RegisteredCache, ServedTier, SynchronisedInfo,
};

/// Is a host cache as a user names it: `name` or `name:key=value`, known to exist and to have these parameters.
#[derive(Clone)]
pub struct HostCacheSpec {
    info: &'static HostCacheInfo,
    params: Params,
}

/// All of them, in the order in which they are listed.
static CACHES: &[&HostCacheInfo] = &[
    &NoCache::INFO,
    &WriteAround::INFO,
    &WriteThrough::INFO,
    &WriteBack::INFO,
    &Leavo::INFO,
    &Kdd::INFO,
    &WOW,
    &STOW,
    &IWC,
    &LAWC,
];

/// The layers.
static LAYERS: &[&LayerInfo] = &[&SYNC, &GGC];

/// Each cache with each layer that can stand beside it, in the order of the caches.
// Compositions are entries of their own, so whoever lists or parses caches need not
// know of layers.
static BESIDE: LazyLock<Vec<CacheComposition>> = LazyLock::new(|| {
    let caches = CACHES.iter().filter(|cache| cache.synchronised.is_ok());
    caches.flat_map(|cache| layers(LayerPlace::Beside).map(|layer| CacheComposition::new(layer, cache))).collect()
});

/// Each cache, with what stands beside it or without, in each layer that stands around caches.
static AROUND: LazyLock<Vec<CacheComposition>> = LazyLock::new(|| {
    let around = layers(LayerPlace::Around);
    around.flat_map(|layer| host_caches().map(move |cache| CacheComposition::new(layer, cache))).collect()
});

fn layers(place: LayerPlace) -> impl Iterator<Item = &'static LayerInfo> {
    LAYERS.iter().copied().filter(move |layer| layer.place == place)
}

/// Combines a cache with a layer. It owns the texts that its [`HostCacheInfo`] refers to.
struct CacheComposition {
    cache: &'static HostCacheInfo,
    name: String,
    title: String,
    about: String,
    paper: &'static str,
    params: Vec<ParamSpec>,
    figures: Vec<CacheFigure>,
    layers: Vec<&'static LayerInfo>,
    // The entry borrows from the composition, so it is made on first use, when the
    // composition has its final place.
    info: OnceLock<HostCacheInfo>,
}

impl CacheComposition {
    fn new(layer: &'static LayerInfo, cache: &'static HostCacheInfo) -> Self {
        let of_cache = cache.params.iter().map(|param| {
            let replaced = layer.replaces.iter().find(|replaced| replaced.name == param.name);
            *replaced.unwrap_or(param)
        });
        let of_layer = layer.params.iter().copied();
        let (title, about, paper, params) = match (layer.place, cache.synchronised) {
            (LayerPlace::Beside, Ok(SynchronisedInfo { title, about, paper })) => {
                (title.to_owned(), about.to_owned(), paper, of_cache.chain(of_layer).collect())
            }
            _ => (
                format!("{}, around {}", layer.title, cache.name),
                format!("{} {}", layer.about, cache.about),
                layer.paper,
                of_layer.chain(of_cache).collect(),
            ),
        };
        Self {
            cache,
            name: format!("{}+{}", layer.name, cache.name),
            title,
            about,
            paper,
            params,
            figures: [cache.figures, layer.figures].concat(),
            layers: [cache.layers, &[layer]].concat(),
            info: OnceLock::new(),
        }
    }

    fn info(&'static self) -> &'static HostCacheInfo {
        self.info.get_or_init(|| HostCacheInfo {
            name: &self.name,
            title: &self.title,
            about: &self.about,
            paper: self.paper,
            params: &self.params,
            figures: &self.figures,
            layers: &self.layers,
            // A cache that is synchronised already cannot be so twice, whatever
            // stands around it.
            synchronised: if self.layers.iter().any(|layer| layer.place == LayerPlace::Beside) {
                Err(sync::ALREADY)
            } else {
                self.cache.synchronised
            },
            ..*self.cache
        })
    }
}

/// Every host cache, with nothing around it: alone, then with what can stand beside it.
pub fn host_caches() -> impl Iterator<Item = &'static HostCacheInfo> {
    CACHES.iter().flat_map(|&cache| {
        let beside = BESIDE.iter().filter(|composition| std::ptr::eq(composition.cache, cache));
        std::iter::once(cache).chain(beside.map(CacheComposition::info))
    })
}

/// Lists the layers that can stand around host caches.
pub fn host_cache_layers() -> impl Iterator<Item = &'static LayerInfo> {
    layers(LayerPlace::Around)
}

/// Every host cache, first with nothing around it, then with everything that can be.
pub fn all_host_caches() -> impl Iterator<Item = &'static HostCacheInfo> {
    host_caches().chain(AROUND.iter().map(CacheComposition::info))
}

/// The host cache of this name, which may name what stands around it.
pub fn host_cache(name: &str) -> Option<&'static HostCacheInfo> {
    all_host_caches().find(|info| info.name == name)
}

/// As [`all_host_caches`], those that serve arrays of this level.
pub fn all_host_caches_of(level: RaidLevel) -> impl Iterator<Item = &'static HostCacheInfo> {
    all_host_caches().filter(move |info| (info.serves)(level))
}

/// Every host cache that serves arrays of this level, with nothing around it.
pub fn host_caches_of(level: RaidLevel) -> impl Iterator<Item = &'static HostCacheInfo> {
    host_caches().filter(move |info| (info.serves)(level))
}

impl HostCacheSpec {
    /// The cache of this name, with its defaults.
    pub fn of(info: &'static HostCacheInfo) -> Self {
        let spec = PolicySpec { name: info.name.to_owned(), given: Vec::new() };
        Self::resolve(info, &spec).expect("its defaults are among the values that it takes")
    }

    /// The cache with parameters under which so few pages do all that many do, in one of its
    /// [modes](HostCacheInfo::modes), by number around; if it can trim what it does not need, whether it does.
    pub fn small(info: &'static HostCacheInfo, pages: u64, mode: usize, trims: bool, cutoff: u64) -> Self {
        let layers = info.layers.iter().flat_map(|layer| (layer.small)(pages));
        let mode = info.modes[mode % info.modes.len()].iter().map(|(key, value)| (*key, (*value).to_owned()));
        let trims =
            (trims && info.params.iter().any(|param| param.name == TRIM.name)).then(|| (TRIM.name, "on".to_owned()));
        let (name, _) = LONG_CUTOFF;
        let cutoff =
            (cutoff > 0 && info.params.iter().any(|param| param.name == name)).then(|| (name, cutoff.to_string()));
        let given = layers.chain((info.small)(pages)).chain(mode).chain(trims).chain(cutoff);
        let given = given.map(|(key, value)| (key.to_owned(), value)).collect();
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

    /// Returns the description of the cache.
    pub const fn info(&self) -> &'static HostCacheInfo {
        self.info
    }

    /// The parameters in force, by name.
    pub fn params(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.params.iter()
    }

    /// Serves an array with a cache of so many pages (of no meaning if it has no size).
    pub fn build(&self, array: &ArrayConfig, pages: u64) -> Result<Box<dyn ServedTier>, HostCacheError> {
        self.check_pages(array, pages)?;
        let cache = (self.info.build)(pages, array, &self.params)?;
        self.info.layers.iter().try_fold(cache, |cache, layer| (layer.build)(cache, &self.params))
    }

    /// Slots of the NVRAM that it takes beside the array's if it has so many pages.
    pub fn nv_slots(&self, pages: u64, array: &ArrayConfig) -> u32 {
        (self.info.nv_slots)(pages, array, &self.params)
    }

    /// Bytes of memory that it takes per page, roughly.
    pub fn bytes_per_page(&self) -> u64 {
        (self.info.bytes_per_page)(&self.params)
    }

    /// The least pages that it can do with over such an array.
    pub fn min_pages(&self, array: &ArrayConfig) -> u64 {
        (self.info.min_pages)(array, &self.params)
    }

    /// Checks that the array can be served with a cache of so many pages, without taking the memory for that.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn check(&self, array: &ArrayConfig, pages: u64) -> Result<(), HostCacheError> {
        self.check_pages(array, pages)?;
        // Everything but the size is checked by building the smallest cache, which
        // needs no memory to speak of.
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
pub fn serve(cache: &str, array: &ArrayConfig, pages: u64) -> Result<Box<dyn ServedTier>, HostCacheError> {
    cache.parse::<HostCacheSpec>()?.build(array, pages)
}

/// Returns a cache, written as a user writes it, as an array in files gets it, with what it does not say itself:
///
/// * Deltas are staged in memory. No start needs what is staged (specs §9.8), and an NVRAM that is a file would be written
///   for nothing.
/// * Sequential runs pass it by from 4 MiB on, as in bcache.
/// * All that is dirty of a stripe is written back together, and all its rows with old parity are cleaned together: neighbours
///   are one command of a member.
///
/// # Errors
/// If there is no such cache, or it does not take these parameters.
pub fn in_files(cache: &str) -> Result<String, SpecError> {
    let (info, PolicySpec { given, .. }) = (cache.parse::<HostCacheSpec>()?.info, cache.parse()?);
    let takes = |name| info.params.iter().any(|param| param.name == name);
    let is_given = |name| given.iter().any(|(key, _)| key == name);
    let mut cache = cache.to_owned();
    for (name, value) in [STAGED_IN_MEMORY, CLEANED_STRIPES, DESTAGED_STRIPES, LONG_CUTOFF] {
        if takes(name) && !is_given(name) {
            cache = format!("{cache}:{name}={value}");
        }
    }
    Ok(cache)
}

impl FromStr for HostCacheSpec {
    type Err = SpecError;

    /// `name` or `name:key=value`, as buffers are written, with what stands around it before the name.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut spec: PolicySpec = text.parse()?;
        if let Some(name) = names::called(&spec.name, all_host_caches().map(|info| info.name)) {
            name.clone_into(&mut spec.name);
        }
        let info = host_cache(&spec.name).ok_or_else(|| {
            if let Some(error) = unsynchronised(&spec.name) {
                return error;
            }
            let known = host_caches().map(|info| info.name.to_owned());
            let layers = host_cache_layers().map(|layer| format!("{}+ before one of them", layer.name));
            SpecError::Unknown { name: spec.name.clone(), known: known.chain(layers).collect::<Vec<_>>().join(", ") }
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

/// Explains why there is no cache of this name, if the reason is that its members cannot be made to write
/// together.
fn unsynchronised(name: &str) -> Option<SpecError> {
    let around = host_cache_layers().find_map(|layer| name.strip_prefix(layer.name)?.strip_prefix('+'));
    let why = host_cache(around.unwrap_or(name).strip_prefix("sync+")?)?.synchronised.err()?;
    let names = host_caches().map(|info| info.name).filter(|name| name.starts_with("sync+"));
    let names = names.collect::<Vec<_>>().join(", ");
    let reason = format!("sync+ has members wait for each other that are destaged to, but {why}; there are {names}");
    Some(SpecError::Composition { spec: name.to_owned(), reason })
}

/// An array that every parameter can be tried on.
fn smallest_array() -> ArrayConfig {
    let geometry = Geometry::new(RaidLevel::Raid5, None, 3, 1, 1).expect("three members of a page are enough");
    ArrayConfig { page_bytes: 64, ..ArrayConfig::new(geometry) }
}
