//! What there is to know about a host cache before it is built, and how it is.

use destage_plan::{ParamSpec, Params, SpecError};
use destage_raid::RaidLevel;
use destage_raid::array::{ArrayConfig, ArrayError, RaidArray};

use crate::{CacheTier, HostCache, ServedTier};

/// Where a cache keeps what it holds, which is what its size is a size of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMedium {
    /// It holds nothing and has no size.
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
    /// What it says.
    pub meaning: &'static str,
}

/// What there is to know about a host cache before it is built.
#[derive(Clone, Copy, Debug)]
pub struct HostCacheInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// The cache in one line.
    pub title: &'static str,
    /// What it does in two or three sentences.
    pub about: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// What its size is a size of.
    pub medium: CacheMedium,
    /// Whether it can serve arrays of this level.
    pub serves: fn(RaidLevel) -> bool,
    /// The least pages that it can do with over such an array.
    pub min_pages: fn(&ArrayConfig, &Params) -> u64,
    /// The most pages that it can have.
    pub max_pages: u64,
    /// Bytes of memory that it takes per page with these parameters, roughly.
    pub bytes_per_page: fn(&Params) -> u64,
    /// Slots of the NVRAM that a cache of so many pages over such an array needs beside the array's.
    pub nv_slots: fn(pages: u64, array: &ArrayConfig, params: &Params) -> u32,
    /// Whether it leaves parity behind the data for a while: until that is made good, the loss of its
    /// device and that of a member together cost data.
    pub delays_parity: bool,
    /// Whether its device has, for a while, the newest versions of pages that the members do not have: the loss
    /// of that costs them.
    pub holds_dirty: bool,
    /// Whether it makes [deltas](destage_plan::Step::Encode), which have lengths.
    pub makes_deltas: bool,
    /// Its parameters.
    pub params: &'static [ParamSpec],
    /// What it counts beside [`CacheCounts`](crate::CacheCounts).
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
    /// How it is built, without its layers; its [`RegisteredCache::new`] over an array.
    pub build: BuildCache,
}

/// Puts a cache of so many pages over an array.
pub type BuildCache = fn(u64, &ArrayConfig, &Params) -> Result<Box<dyn ServedTier>, HostCacheError>;

/// Puts a layer around a cache, or beside it.
pub type WrapCache = fn(Box<dyn ServedTier>, &Params) -> Result<Box<dyn ServedTier>, HostCacheError>;

impl HostCacheInfo {
    /// A cache `C` that holds nothing, counts nothing and has no parameters, to be filled in.
    pub const fn new<C: RegisteredCache>(name: &'static str, title: &'static str, paper: &'static str) -> Self {
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
            build: |pages, config, params| {
                let cache = C::new(pages, config, params)?;
                let share = (C::INFO.nv_slots)(pages, config, params);
                Ok(Box::new(CacheTier::new(RaidArray::new(config.clone(), share)?, cache)))
            },
        }
    }

    /// Whether the members must be devices that can be told to collect garbage.
    pub fn needs_collectors(&self) -> bool {
        self.layers.iter().any(|layer| layer.needs_collectors)
    }

    /// Whether something stands around it.
    pub fn has_layer_around(&self) -> bool {
        self.layers.iter().any(|layer| layer.place == LayerPlace::Around)
    }

    /// The levels whose arrays it can serve.
    pub fn levels(&self) -> impl Iterator<Item = RaidLevel> {
        let serves = self.serves;
        RaidLevel::ALL.into_iter().filter(move |&level| serves(level))
    }

    /// Whether it has a size.
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
    /// What it does in two or three sentences.
    pub about: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
}

/// Where a layer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerPlace {
    /// Beside the cache in its [`CacheTier`]: the cache asks it when to write. Only some caches do, see
    /// [`HostCacheInfo::synchronised`].
    Beside,
    /// Around any cache with its array: it sees every event first.
    Around,
}

/// What there is to know about a layer of a host cache.
#[derive(Clone, Copy, Debug)]
pub struct LayerInfo {
    /// The name on the command line: `NAME+CACHE`.
    pub name: &'static str,
    /// What it does in one line.
    pub title: &'static str,
    /// What it does in two or three sentences.
    pub about: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// Where it stands.
    pub place: LayerPlace,
    /// Whether the members must be devices that can be told to collect garbage.
    pub needs_collectors: bool,
    /// Its parameters.
    pub params: &'static [ParamSpec],
    /// Parameters of caches that have other defaults in it.
    pub replaces: &'static [ParamSpec],
    /// What it counts, after what the cache does.
    pub figures: &'static [CacheFigure],
    /// The parameters under which it does all that it does in tiny arrays too, around a cache of so
    /// many pages.
    pub small: fn(pages: u64) -> Vec<(&'static str, String)>,
    /// Puts it around a cache, or beside it.
    pub build: WrapCache,
}

/// How a host cache is built.
pub trait RegisteredCache: HostCache + Sized {
    /// What there is to know about it.
    const INFO: HostCacheInfo;

    /// A cache of so many pages for such an array. Its device, if it has one, comes after the
    /// members.
    fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Self, HostCacheError>;
}

/// Why an array cannot be served so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostCacheError {
    /// Because of the array.
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
        /// What it is.
        asked: u32,
        /// What it can be at most.
        members: u8,
    },
    /// It is no cache for arrays of this level.
    #[error("it does not serve {0}, whose members all hold the same pages")]
    Level(RaidLevel),
    /// Because of its name or a parameter.
    #[error(transparent)]
    Spec(#[from] SpecError),
}
