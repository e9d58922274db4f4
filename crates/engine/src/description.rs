//! Describes the files of an array and how it is served: `array.toml`.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

use destage_cache::{HostCacheError, HostCacheSpec, ServedTier};
use destage_exec::{DeviceConfig, DeviceOptions, FilesConfig, FilesError, IoBackend, NvramPlace};
use destage_plan::{Dev, DevSet, PageRange, SECTOR_BYTES, Shape, ShapeError};
use destage_raid::array::{ArrayConfig, DurabilityMode, MAX_CORRECTED, ParityMethod};
use destage_raid::settings::{CHUNK, DURABILITY, PAGE, PARITY, STRIPE_CACHE};
use destage_raid::{ArrayGeometryError, Geometry, ParityLayout, RaidLevel, StripeCacheSize};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

use crate::budget::{LONGEST, MEMORY};
use crate::{ByteSize, DeviceTimeout, MdArray, MdError, MdOrigin, as_text, md, word};

/// The version of the format.
const VERSION: u32 = 1;
/// Bytes of a member that are marked together, at least, and marks that stay though nothing of theirs is being written: after the
/// loss of the NVRAM a gigabyte of each member is read for nothing, and a place that is written has mostly been marked before.
const MARKED_BYTES: u64 = 4 << 20;
const IDLE_MARKS: u32 = 256;
/// The name of the description in an array's folder.
const NAME: &str = "array.toml";
/// The NVRAM's own file if no other is named.
const NVRAM: &str = "nvram";
/// Holds the first line of each description.
const HEAD: &str = "# An array of destage; paths are relative to this file.\n";

/// An array and how it is served, as its description says. The parts `[array]` and `[cache]` say what the
/// files hold and cannot be changed once they are made; `[serve]` can.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ArrayDescription {
    version: u32,
    /// Tells it from all others.
    pub uuid: Uuid,
    /// The members.
    pub array: ArrayPart,
    /// The cache.
    #[serde(default)]
    pub cache: CachePart,
    /// Describes the place of the NVRAM.
    #[serde(default)]
    pub nvram: NvramPart,
    /// Sets how the array is served.
    #[serde(default)]
    pub serve: ServePart,
}

/// Members and where data lie on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ArrayPart {
    /// The level.
    #[serde(serialize_with = "shown", deserialize_with = "parsed")]
    pub level: RaidLevel,
    /// The layout; md's default of the level if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional")]
    pub layout: Option<ParityLayout>,
    /// Bytes of a chunk.
    #[serde(default = "default_chunk")]
    pub chunk: ByteSize,
    /// Bytes of a page.
    #[serde(default = "default_page")]
    pub page: ByteSize,
    /// Bytes that are used of each member.
    pub member_size: ByteSize,
    /// Bytes before these, where md has its superblock.
    pub data_offset: ByteSize,
    /// Identifies the array of md's that was taken over, and tells when md had run it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub md: Option<MdOrigin>,
    /// Selects how parity is updated: `min`, `rmw`, `rcw`.
    #[serde(default = "default_parity", with = "word::parity")]
    pub parity: ParityMethod,
    /// Sets when acknowledged writes are durable: `flush` or `every-write`.
    #[serde(default = "default_durability", with = "word::durability")]
    pub durability: DurabilityMode,
    /// The members' files, from member 0 on.
    #[serde(with = "as_text")]
    pub members: Vec<PathBuf>,
}

/// The cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CachePart {
    /// Names the cache with its parameters, as `destage sim --policy` takes it.
    pub policy: String,
    /// Counts the bytes of the cache, if the policy has a size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<ByteSize>,
    /// The file of its device, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "as_text")]
    pub device: Option<PathBuf>,
}

impl Default for CachePart {
    fn default() -> Self {
        Self { policy: "none".to_owned(), size: None, device: None }
    }
}

/// Describes the place of the NVRAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct NvramPart {
    /// The device of the array that it lies on, if it has no file of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<NvramOn>,
    /// Names the file that it goes to when that device is lost: if none is named, `nvram`.
    #[serde(skip_serializing_if = "Option::is_none", with = "as_text")]
    pub spare: Option<PathBuf>,
    /// Names the NVRAM's own file or block device, if it lies on no device of the array: `nvram` if none is named.
    #[serde(skip_serializing_if = "Option::is_none", with = "as_text")]
    pub slots: Option<PathBuf>,
    /// Names the file of the intents.
    #[serde(with = "as_text")]
    pub intents: PathBuf,
}

impl Default for NvramPart {
    fn default() -> Self {
        Self { on: None, spare: None, slots: None, intents: "intents".into() }
    }
}

impl NvramPart {
    /// In a file, or on a block device, of its own.
    pub fn own(path: impl Into<PathBuf>) -> Self {
        Self { slots: Some(path.into()), ..Self::default() }
    }

    /// Returns the file that it goes to when the device that it lies on is lost.
    fn spare_place(&self) -> &Path {
        self.spare.as_deref().unwrap_or(Path::new(NVRAM))
    }

    /// Returns what it is once the NVRAM has gone to that file.
    pub(crate) fn moved(&self) -> Self {
        Self { on: None, spare: None, slots: Some(self.spare_place().to_owned()), intents: self.intents.clone() }
    }

    /// On the cache's device.
    pub fn on_cache_device() -> Self {
        Self { on: Some(NvramOn::CacheDevice), ..Self::default() }
    }
}

/// A device of the array on which the NVRAM can lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NvramOn {
    /// The cache's.
    CacheDevice,
}

/// Sets how an array is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ServePart {
    /// Pieces of requests that are at work at a time, and commands that a device is given at a time.
    pub depth: usize,
    /// Threads for each device, where there are threads.
    pub workers: u8,
    /// Selects the I/O backend.
    pub io: IoPart,
    /// Is true if devices are read and written past the page cache, where that is possible.
    pub direct: bool,
    /// Limits the bytes that requests and replies of all clients hold together.
    pub memory: ByteSize,
    /// Limits the pages that a member may fail to read, and that are made anew, before it counts as lost. The count is
    /// halved every hour.
    pub max_corrected: u32,
    /// Limits the pages of recently written rows that are kept in memory, so that the next write need not read them.
    #[serde(with = "crate::word::stripe_cache")]
    pub stripe_cache: StripeCacheSize,
    /// Limits how long a device may take for a command, and the NVRAM and the intents for a change.
    pub device_timeout: DeviceTimeout,
    /// Names a shell command that is run for each event of severity notice or higher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_event: Option<String>,
    /// Gives the address at which metrics are served over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<SocketAddr>,
    /// Allows an address that other machines reach.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub metrics_open: bool,
}

/// Selects the I/O backend of the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoPart {
    /// `io_uring` where the kernel lets it, else threads.
    #[default]
    Auto,
    /// The kernel, as `io_uring` has it.
    Uring,
    /// Threads.
    Threads,
}

impl From<IoPart> for IoBackend {
    fn from(part: IoPart) -> Self {
        match part {
            IoPart::Auto => Self::Auto,
            IoPart::Uring => Self::Ring,
            IoPart::Threads => Self::Threads,
        }
    }
}

impl Default for ServePart {
    fn default() -> Self {
        Self {
            depth: 256,
            workers: 4,
            io: IoPart::Auto,
            direct: true,
            memory: ByteSize(MEMORY),
            max_corrected: MAX_CORRECTED,
            stripe_cache: STRIPE_CACHE.default_value(),
            device_timeout: DeviceTimeout(Some(FilesConfig::DEVICE_TIMEOUT)),
            on_event: None,
            metrics: None,
            metrics_open: false,
        }
    }
}

fn default_chunk() -> ByteSize {
    ByteSize(CHUNK.default_value())
}

fn default_page() -> ByteSize {
    ByteSize(PAGE.default_value())
}

fn default_parity() -> ParityMethod {
    PARITY.default_value()
}

fn default_durability() -> DurabilityMode {
    DURABILITY.default_value()
}

fn shown<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn parsed<'de, T: std::str::FromStr<Err: fmt::Display>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// The names of what need not be there.
mod optional {
    use super::{Deserializer, Serializer, fmt, parsed};

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<T: fmt::Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.collect_str(value),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, T: std::str::FromStr<Err: fmt::Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        parsed(from).map(Some)
    }
}

/// Why an array cannot be as it is described.
#[derive(Debug, thiserror::Error)]
pub enum DescriptionError {
    /// The description cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Names the description's file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Tells that the file is no description.
    #[error("{}: {error}", path.display())]
    Toml {
        /// Names the description's file.
        path: PathBuf,
        /// Tells where the text is wrong, and how.
        error: Box<toml::de::Error>,
    },
    /// Tells that md has run the array since it was taken over.
    #[error(transparent)]
    Md(#[from] MdError),
    /// Tells that another version wrote the description.
    #[error("{}: version {found}; this program knows version {VERSION}", path.display())]
    Version {
        /// Names the description's file.
        path: PathBuf,
        /// Holds the version that was found.
        found: u32,
    },
    /// A size is no whole number of pages.
    #[error("{key} = {found} B is no whole number of pages of {page} B, of which there can be up to 2^32")]
    Pages {
        /// Names the key.
        key: &'static str,
        /// Bytes.
        found: u64,
        /// Bytes of a page.
        page: u64,
    },
    /// Something is missing.
    #[error("{policy} needs {key} in [cache]")]
    Needs {
        /// The cache.
        policy: String,
        /// Names the missing key.
        key: &'static str,
    },
    /// Something is there that nothing looks at.
    #[error("{policy} has no use for {key} in [cache]")]
    Useless {
        /// The cache.
        policy: String,
        /// Names the key that nothing uses.
        key: &'static str,
    },
    /// Tells that the memory for requests is less than one of them takes.
    #[error("memory = {found} in [serve] is less than {}, of which a single request may be", ByteSize(LONGEST.into()))]
    Memory {
        /// Gives what the description says.
        found: ByteSize,
    },
    /// Tells that the stripe cache holds too few rows, or too many.
    #[error("[serve] stripe-cache = \"{found}\": expected {right}")]
    StripeCache {
        /// Gives what the description says.
        found: StripeCacheSize,
        /// Says what would be right.
        right: String,
    },
    /// The NVRAM is in two places.
    #[error("on and slots in [nvram]: it is on a device of the array, or in a file or on a block device of its own")]
    TwoPlaces,
    /// Tells that a spare place is named for an NVRAM that has a place of its own.
    #[error(
        "spare in [nvram] is where an NVRAM goes that lies on the cache's device (on = \"cache-device\"); slots names its own place"
    )]
    SpareAlone,
    /// The NVRAM is to be on a device that there is not.
    #[error("on = \"cache-device\" in [nvram]: {policy} has no device; slots = \"nvram\" is a file")]
    NoHome {
        /// The cache.
        policy: String,
    },
    /// Tells that there is no such geometry.
    #[error(transparent)]
    Geometry(#[from] ArrayGeometryError),
    /// Tells that an array of this size cannot be addressed.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Tells that there is no such cache, or not over such an array.
    #[error("policy = {policy}: {error}")]
    Cache {
        /// Holds the policy as it was written.
        policy: String,
        /// Why not.
        error: Box<HostCacheError>,
    },
    /// The array is there already.
    #[error("{} exists already: an array is made where none is, or over the one whose UUID is named", .0.display())]
    Exists(PathBuf),
    /// Tells that no array is there which could be given up.
    #[error(
        "{} does not exist: there is no array to be given up; if that was cut short, destage create without --overwrite \
         goes on, and names what is in its way",
        .0.display()
    )]
    NoneThere(PathBuf),
    /// Another array is there than the one that is to be made anew.
    #[error("{} describes the array {found}, and not {named}, which is to be made anew", path.display())]
    Other {
        /// Names the description's file.
        path: PathBuf,
        /// Gives what the description says.
        found: Uuid,
        /// Holds the UUID that the caller named.
        named: Uuid,
    },
    /// The files do not do.
    #[error(transparent)]
    Files(#[from] FilesError),
}

impl DescriptionError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// Holds the parts that a description resolves to.
pub struct DescribedArray {
    /// The members.
    pub geometry: Geometry,
    /// The cache.
    pub policy: HostCacheSpec,
    /// Holds the policy over the RAID layer, which makes all decisions.
    pub controller: Box<dyn ServedTier>,
    /// The files.
    pub files: FilesConfig,
}

impl ArrayPart {
    /// Bytes before what is used of members of this size, as `mdadm --create` would choose them.
    pub fn data_offset_of(member_size: ByteSize, chunk: ByteSize) -> ByteSize {
        ByteSize(md::data_offset(member_size.0, chunk.0))
    }

    /// Sets the bytes of the [stripe cache](Self::stripe_cache) of a new array.
    pub const STRIPE_CACHE_BYTES: u64 = 16 << 20;

    /// Returns the stripe cache of a new array for which nothing else is asked: none where there is no parity, or where pages
    /// are so large that too few rows fit.
    pub fn stripe_cache(&self) -> StripeCacheSize {
        let size = StripeCacheSize::Bytes(Self::STRIPE_CACHE_BYTES);
        let has_parity = matches!(self.level, RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6);
        let fits = size.rows(self.page.0, self.members.len() as u8).is_ok();
        // Without parity no write reads old pages, so nothing would use what is kept.
        if has_parity && fits { size } else { StripeCacheSize::OFF }
    }
}

impl CachePart {
    /// Returns true if the cache has a device of its own.
    ///
    /// # Errors
    /// If there is no such cache.
    pub fn has_device(&self) -> Result<bool, DescriptionError> {
        let spec: HostCacheSpec = self.policy.parse().map_err(|error| DescriptionError::Cache {
            policy: self.policy.clone(),
            error: Box::new(HostCacheError::Spec(error)),
        })?;
        Ok(!spec.info().devices(1).is_empty())
    }
}

impl ArrayDescription {
    /// An array of these parts, with an identity of its own.
    pub fn new(array: ArrayPart, cache: CachePart) -> Self {
        let (nvram, serve) = (NvramPart::own(NVRAM), ServePart::default());
        Self { version: VERSION, uuid: Uuid::new_v4(), array, cache, nvram, serve }
    }

    /// The description of an array: its file, or the folder that it is in.
    pub fn path(array: &Path) -> PathBuf {
        // Users name an array by its folder, and scripts by the file.
        if array.is_dir() { array.join(NAME) } else { array.to_owned() }
    }

    /// Reads a description.
    ///
    /// # Errors
    /// If it cannot be read, or is none of this version.
    pub fn read(path: &Path) -> Result<Self, DescriptionError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| DescriptionError::Io { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// A description that was read from there.
    ///
    /// # Errors
    /// If it is none of this version.
    pub fn parse(text: &str, path: &Path) -> Result<Self, DescriptionError> {
        let read: Self = toml::from_str(text)
            .map_err(|error| DescriptionError::Toml { path: path.to_owned(), error: Box::new(error) })?;
        if read.version == VERSION {
            Ok(read)
        } else {
            Err(DescriptionError::Version { path: path.to_owned(), found: read.version })
        }
    }

    /// Returns the description as its file has it.
    pub fn text(&self) -> String {
        let text = toml::to_string(self).expect("strings, numbers and lists can be written");
        format!("{HEAD}{text}")
    }

    /// Counts the rows that the stripe cache keeps.
    fn cached_rows(&self, page: u64, members: u8) -> Result<u32, DescriptionError> {
        let found = self.serve.stripe_cache;
        found.rows(page, members).map_err(|right| DescriptionError::StripeCache { found, right })
    }

    /// Resolves the description of an array whose description is in this folder.
    ///
    /// # Errors
    /// If there can be no such array.
    pub fn described(&self, folder: &Path) -> Result<DescribedArray, DescriptionError> {
        self.described_without(folder, Vec::new(), DevSet::EMPTY)
    }

    /// Does what [`described`](Self::described) does, with these pages of data accepted as lost, and these members believed
    /// if the level cannot do without them.
    ///
    /// # Errors
    /// As [`described`](Self::described).
    pub(crate) fn described_without(
        &self,
        folder: &Path,
        accepted_losses: Vec<PageRange>,
        revived: DevSet,
    ) -> Result<DescribedArray, DescriptionError> {
        let page = self.array.page.0;
        let pages = |key, ByteSize(found)| {
            // Sizes are checked as pages, since a file whose end splits a page could not be addressed to its end.
            let pages = found.checked_div(page).filter(|pages| pages * page == found && *pages > 0);
            let pages = pages.and_then(|pages| u32::try_from(pages).ok());
            pages.ok_or(DescriptionError::Pages { key, found, page })
        };
        if self.serve.memory.0 < LONGEST.into() {
            return Err(DescriptionError::Memory { found: self.serve.memory });
        }
        let chunk = pages("chunk", self.array.chunk)?;
        let member = pages("member-size", self.array.member_size)?;
        let members = u32::try_from(self.array.members.len()).unwrap_or(u32::MAX);
        let geometry = Geometry::new(self.array.level, self.array.layout, members, chunk, member.into())?;
        let config = ArrayConfig {
            page_bytes: page as u32,
            regime: self.array.durability,
            parity: self.array.parity,
            accepted_losses,
            revived,
            max_corrected: self.serve.max_corrected,
            cached_rows: self.cached_rows(page, geometry.members())?,
            ..ArrayConfig::new(geometry.clone())
        };
        let wrong = |error: HostCacheError| DescriptionError::Cache {
            policy: self.cache.policy.clone(),
            error: Box::new(error),
        };
        let policy: HostCacheSpec = self.cache.policy.parse().map_err(|error| wrong(HostCacheError::Spec(error)))?;
        let name = || policy.info().name.to_owned();
        let missing = |key| DescriptionError::Needs { policy: name(), key };
        // A key without a use is refused, since whoever wrote it expects something of it.
        let useless = |key| DescriptionError::Useless { policy: name(), key };
        let cache_pages = match (policy.info().is_sized(), self.cache.size) {
            (true, Some(size)) => pages("size", size)?.into(),
            (true, None) => return Err(missing("size")),
            (false, None) => 0,
            (false, Some(_)) => return Err(useless("size")),
        };
        let controller = policy.build(&config, cache_pages).map_err(wrong)?;
        let own = policy.info().devices(cache_pages);
        let cache_device = match (own.first(), &self.cache.device) {
            (Some(_), None) => return Err(missing("device")),
            (None, Some(_)) => return Err(useless("device")),
            (_, device) => device.as_ref(),
        };
        if self.nvram.on.is_none() && self.nvram.spare.is_some() {
            return Err(DescriptionError::SpareAlone);
        }
        let nvram = match (self.nvram.on, &self.nvram.slots) {
            (Some(_), Some(_)) => return Err(DescriptionError::TwoPlaces),
            (Some(NvramOn::CacheDevice), None) if own.is_empty() => {
                return Err(DescriptionError::NoHome { policy: name() });
            }
            (Some(NvramOn::CacheDevice), None) => NvramPlace::Behind(Dev(geometry.members())),
            // Paths are relative to the description, so a folder can be moved as a whole.
            (None, slots) => folder.join(slots.as_deref().unwrap_or(Path::new(NVRAM))).into(),
        };
        let device = |(path, pages, is_member): (&PathBuf, u64, bool)| DeviceConfig {
            path: folder.join(path),
            // Md's superblock lies before the data of a member; a cache's device has none.
            offset: if is_member { self.array.data_offset.0 } else { 0 },
            pages,
            options: DeviceOptions {
                workers: self.serve.workers,
                direct: self.serve.direct,
                ..DeviceOptions::default()
            },
        };
        let members = self.array.members.iter().map(|path| (path, u64::from(member), true));
        let cache = cache_device.into_iter().zip(own).map(|(path, pages)| (path, pages, false));
        let stripe = u64::from(geometry.chunk_pages()) * u64::from(geometry.data_columns());
        let files = FilesConfig {
            about: self.about(&geometry, &policy),
            // The first half of a UUID has 60 random bits, which are enough to tell arrays apart.
            array: self.uuid.as_u64_pair().0,
            shape: Shape::new(page, SECTOR_BYTES.min(page), stripe, stripe, geometry.data_pages())?,
            depth: self.serve.depth,
            // The cache's device comes after the members, since `Dev` numbers it so.
            devices: members.chain(cache).map(device).collect(),
            // The executor must know: in this mode every acknowledgement waits for durability.
            every_write: config.regime == DurabilityMode::EveryWrite,
            nvram,
            spare_nvram: self.nvram.on.map(|_| folder.join(self.nvram.spare_place())),
            nv_slots: config.nv_slots + policy.nv_slots(cache_pages, &config),
            intents: folder.join(&self.nvram.intents),
            rows: geometry.member_pages(),
            members: geometry.members() as usize,
            // A mark covers at least a chunk, so a write within a chunk needs few marks.
            rows_per_mark: (MARKED_BYTES / page).max(chunk.into()) as u32,
            idle_marks: IDLE_MARKS,
            io: self.serve.io.into(),
            patience: FilesConfig::PATIENCE,
            device_timeout: self.serve.device_timeout.0,
        };
        Ok(DescribedArray { geometry, policy, controller, files })
    }

    /// Returns the text that labels the devices: everything that decides about the data they hold.
    fn about(&self, geometry: &Geometry, policy: &HostCacheSpec) -> String {
        let ArrayPart { chunk, page, member_size, data_offset, .. } = &self.array;
        let layout = geometry.layout().map(|layout| format!("layout = {layout}\n")).unwrap_or_default();
        let cache = self.cache.size.map(|size| format!("cache = {size}\n")).unwrap_or_default();
        format!(
            // Every line that decides about content is in the label, so files of another description are
            // refused.
            "uuid = {}\nlevel = {}:{}\n{layout}chunk = {chunk}\npage = {page}\nmember-size = {member_size}\n\
             data-offset = {data_offset}\npolicy = {policy:?}\n{cache}",
            self.uuid,
            geometry.level(),
            geometry.members(),
        )
    }

    /// Checks that md has not run the array since it was taken over. Members that do not answer in time tell nothing.
    pub(crate) fn check_md(&self, folder: &Path) -> Result<(), DescriptionError> {
        let Some(origin) = self.array.md.clone() else { return Ok(()) };
        let members: Vec<PathBuf> = self.array.members.iter().map(|member| folder.join(member)).collect();
        let (sender, receiver) = sync_channel(1);
        let check = move || drop(sender.send(MdArray::check_events(members.iter().map(PathBuf::as_path), &origin)));
        // A member that hangs must not keep the service from starting, so a thread asks and is left behind.
        let thread = std::thread::Builder::new().name("destage-asks".to_owned()).spawn(check);
        thread.map_err(|source| DescriptionError::Io { path: folder.to_owned(), source })?;
        Ok(receiver.recv_timeout(FilesConfig::PATIENCE).unwrap_or(Ok(()))?)
    }

    /// Says that a device, numbered from member 0 on with the cache behind the members, is another file.
    pub(crate) fn set_device(&mut self, device: usize, path: &Path) {
        match self.array.members.get_mut(device) {
            Some(member) => path.clone_into(member),
            None => self.cache.device = Some(path.to_owned()),
        }
    }
}

/// The folder that a description is in.
pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        // The parent of a plain file name is an empty path, which names no folder.
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
