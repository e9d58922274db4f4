//! Describes host caches and the layers around them before they are built.

use destage_plan::{ParamSpec, Params, SpecError};
use destage_raid::RaidLevel;
use destage_raid::array::{ArrayConfig, ArrayError, RaidArray};

use crate::{CacheTier, HostCache, ServedTier};

/// Identifies the medium that holds a cache's pages; the cache's size is a size of that medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMedium {
    /// Holds nothing and has no size.
    None,
    /// A device of its own, behind the members.
    Device,
    /// The NVRAM.
    Nvram,
}

/// A figure that a cache keeps account of: a count that only grows.
#[derive(Clone, Copy, Debug)]
pub struct CacheFigure {
    /// The name in results.
    pub name: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// Explains the figure.
    pub meaning: &'static str,
}

/// Describes a host cache before it is built.
#[derive(Clone, Copy, Debug)]
pub struct HostCacheInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// The cache in one line.
    pub title: &'static str,
    /// Describes the cache in two or three sentences.
    pub about: &'static str,
    /// Names its source.
    pub paper: &'static str,
    /// Is the medium that its size is a size of.
    pub medium: CacheMedium,
    /// Returns true if the cache can serve arrays of this level.
    // Functions instead of values, because they depend on parameters and on the
    // array.
    pub serves: fn(RaidLevel) -> bool,
    /// The least pages that it can do with over such an array.
    pub min_pages: fn(&ArrayConfig, &Params) -> u64,
    /// The most pages that it can have.
    pub max_pages: u64,
    /// Bytes of memory that it takes per page with these parameters, roughly.
    pub bytes_per_page: fn(&Params) -> u64,
    /// Slots of the NVRAM that a cache of so many pages over such an array needs beside the array's.
    pub nv_slots: fn(pages: u64, array: &ArrayConfig, params: &Params) -> u32,
    /// Is true if the cache leaves parity stale for a while. Until the parity is updated, the loss of its
    /// device together with that of a member costs data.
    pub delays_parity: bool,
    /// Is true if the cache's device has the only copy of the newest version of pages for a while. The loss of
    /// the device costs them.
    pub holds_dirty: bool,
    /// Is true if the cache makes [deltas](destage_plan::Step::Encode), which have lengths.
    pub makes_deltas: bool,
    /// Lists its parameters.
    pub params: &'static [ParamSpec],
    /// Lists the figures that it reports beside [`CacheCounts`](crate::CacheCounts).
    pub figures: &'static [CacheFigure],
    /// The parameters under which a cache of so few pages does all that a large one does: for the
    /// crash harness, whose arrays are tiny.
    pub small: fn(pages: u64) -> Vec<(&'static str, String)>,
    /// Parameters each with which it does something else than with its defaults: the crash harness tries all
    /// of them.
    pub modes: &'static [&'static [(&'static str, &'static str)]],
    /// Describes the cache whose members write together (`sync+` before its name), or says why there is none.
    pub synchronised: Result<SynchronisedInfo, &'static str>,
    /// The layers that it has, the innermost first. Its name lists them in front, except a layer that it is never without.
    pub layers: &'static [&'static LayerInfo],
    /// Builds the cache without its layers: its [`RegisteredCache::new`] over an array.
    pub build: BuildCache,
}

/// Puts a cache of so many pages over an array.
pub type BuildCache = fn(u64, &ArrayConfig, &Params) -> Result<Box<dyn ServedTier>, HostCacheError>;

/// Puts a layer around a cache, or beside it.
pub type WrapCache = fn(Box<dyn ServedTier>, &Params) -> Result<Box<dyn ServedTier>, HostCacheError>;

impl HostCacheInfo {
    /// A cache `C` that holds nothing, counts nothing and has no parameters, to be filled in.
    pub const fn new<C: RegisteredCache>(name: &'static str, title: &'static str, paper: &'static str) -> Self {
        // Defaults are those of a cache that does nothing, so an entry names only
        // what it does.
        Self {
            name,
            title,
            about: "",
            paper,
            medium: CacheMedium::None,
            serves: |_| true,
            min_pages: |_, _| 1,
            max_pages: 0,
            bytes_per_page: |_| 0,
            nv_slots: |_, _, _| 0,
            delays_parity: false,
            holds_dirty: false,
            makes_deltas: false,
            params: &[],
            figures: &[],
            small: |_| Vec::new(),
            modes: &[&[]],
            synchronised: Err("it holds nothing that has to be destaged"),
            layers: &[],
            // A closure without captures keeps the entry a constant, although it
            // builds a type of its own.
            build: |pages, config, params| {
                let cache = C::new(pages, config, params)?;
                let share = (C::INFO.nv_slots)(pages, config, params);
                Ok(Box::new(CacheTier::new(RaidArray::new(config.clone(), share)?, cache)))
            },
        }
    }

    /// Returns true if the members must be devices that can be told to collect garbage.
    pub fn needs_collectors(&self) -> bool {
        self.layers.iter().any(|layer| layer.needs_collectors)
    }

    /// Returns true if a layer stands around the cache.
    pub fn has_layer_around(&self) -> bool {
        self.layers.iter().any(|layer| layer.place == LayerPlace::Around)
    }

    /// The levels whose arrays it can serve.
    pub fn levels(&self) -> impl Iterator<Item = RaidLevel> {
        let serves = self.serves;
        RaidLevel::ALL.into_iter().filter(move |&level| serves(level))
    }

    /// Returns true if the cache has a size.
    pub const fn is_sized(&self) -> bool {
        !matches!(self.medium, CacheMedium::None)
    }

    /// Pages of the devices that it needs behind the members if it has so many.
    pub fn devices(&self, pages: u64) -> Vec<u64> {
        if self.medium == CacheMedium::Device { vec![pages] } else { Vec::new() }
    }
}

/// Describes a cache whose members write together, in the words of [`HostCacheInfo`].
#[derive(Clone, Copy, Debug)]
pub struct SynchronisedInfo {
    /// The cache in one line.
    pub title: &'static str,
    /// Describes the cache in two or three sentences.
    pub about: &'static str,
    /// Names its source.
    pub paper: &'static str,
}

/// Identifies the position of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerPlace {
    /// Beside the cache in its [`CacheTier`]: the cache asks it when to write. Only some caches do, see
    /// [`HostCacheInfo::synchronised`].
    Beside,
    /// Around any cache with its array: it sees every event first.
    Around,
}

/// Describes a layer of a host cache.
#[derive(Clone, Copy, Debug)]
pub struct LayerInfo {
    /// The name on the command line: `NAME+CACHE`.
    pub name: &'static str,
    /// Describes the layer in one line.
    pub title: &'static str,
    /// Describes the layer in two or three sentences.
    pub about: &'static str,
    /// Names its source.
    pub paper: &'static str,
    /// Is its position.
    pub place: LayerPlace,
    /// Is true if the members must be devices that can be told to collect garbage.
    pub needs_collectors: bool,
    /// Lists its parameters.
    pub params: &'static [ParamSpec],
    /// Parameters of caches that have other defaults in it.
    pub replaces: &'static [ParamSpec],
    /// Lists the figures that it reports, after those of the cache.
    pub figures: &'static [CacheFigure],
    /// The parameters under which it does all that it does in tiny arrays too, around a cache of so
    /// many pages.
    pub small: fn(pages: u64) -> Vec<(&'static str, String)>,
    /// Puts it around a cache, or beside it.
    pub build: WrapCache,
}

/// Builds a host cache and describes it for the registry.
pub trait RegisteredCache: HostCache + Sized {
    /// Describes the cache.
    const INFO: HostCacheInfo;

    /// A cache of so many pages for such an array. Its device, if it has one, comes after the
    /// members.
    fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Self, HostCacheError>;
}

/// Reports why an array cannot be served with a cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostCacheError {
    /// Comes from the array.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// The cache is too small, or larger than it can be.
    #[error("a cache of {pages} pages: it must hold between {min} and {max}")]
    Pages {
        /// Pages asked for.
        pages: u64,
        /// The least that it can do with.
        min: u64,
        /// The most that it can have.
        max: u64,
    },
    /// The array has more pages than the cache can name.
    #[error("an array of {pages} pages: a cache on an SSD can stand before one of at most {max}")]
    ArrayPages {
        /// Pages that it has.
        pages: u64,
        /// The most that it can have.
        max: u64,
    },
    /// A parameter is a number of members that the array has not.
    #[error("{key} = {asked}: the array has {members} members")]
    Members {
        /// The parameter.
        key: &'static str,
        /// Is its value.
        asked: u32,
        /// Limits its value.
        members: u8,
    },
    /// Says that the cache does not serve arrays of this level.
    #[error("it does not serve {0}, whose members all hold the same pages")]
    Level(RaidLevel),
    /// Comes from its name or a parameter.
    #[error(transparent)]
    Spec(#[from] SpecError),
}
