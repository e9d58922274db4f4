//! Which files an array consists of, and how it is served: `array.toml`.

use std::fmt;
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
/// What it begins with.
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
    /// What stands in for the NVRAM.
    #[serde(default)]
    pub nvram: NvramPart,
    /// How it is served.
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
    /// How parity is updated: `min`, `rmw`, `rcw`.
    #[serde(default = "default_parity", with = "word::parity")]
    pub parity: ParityMethod,
    /// What is promised of acknowledged writes: `flush` or `every-write`.
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
    /// As `destage sim --policy` takes it.
    pub policy: String,
    /// Its size, if it has one.
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

/// What stands in for the NVRAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct NvramPart {
    /// The device of the array that it lies on, if it has no file of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<NvramOn>,
    /// Names the file that it goes to when that device is lost: if none is named, `nvram`.
    #[serde(skip_serializing_if = "Option::is_none", with = "as_text")]
    pub spare: Option<PathBuf>,
    /// Its own file or block device otherwise: if none is named, `nvram`.
    #[serde(skip_serializing_if = "Option::is_none", with = "as_text")]
    pub slots: Option<PathBuf>,
    /// That of the intents.
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

/// How it is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ServePart {
    /// Pieces of requests that are at work at a time, and commands that a device is given at a time.
    pub depth: usize,
    /// Threads for each device, where there are threads.
    pub workers: u8,
    /// Who reads and writes devices.
    pub io: IoPart,
    /// Whether devices are read and written past the memory of the operating system, where that can be.
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
}

/// Who reads and writes devices.
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
        /// Its file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It is no description.
    #[error("{}: {error}", path.display())]
    Toml {
        /// Its file.
        path: PathBuf,
        /// Where, and what is wrong.
        error: Box<toml::de::Error>,
    },
    /// Tells that md has run the array since it was taken over.
    #[error(transparent)]
    Md(#[from] MdError),
    /// It was written by another version.
    #[error("{}: version {found}; this program knows version {VERSION}", path.display())]
    Version {
        /// Its file.
        path: PathBuf,
        /// What it says.
        found: u32,
    },
    /// A size is no whole number of pages.
    #[error("{key} = {found} B is no whole number of pages of {page} B, of which there can be up to 2^32")]
    Pages {
        /// Which.
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
        /// What is missing.
        key: &'static str,
    },
    /// Something is there that nothing looks at.
    #[error("{policy} has no use for {key} in [cache]")]
    Useless {
        /// The cache.
        policy: String,
        /// What is too much.
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
    /// There is no such geometry.
    #[error(transparent)]
    Geometry(#[from] ArrayGeometryError),
    /// It cannot be addressed.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// There is no such cache, or not over such an array.
    #[error("policy = {policy}: {error}")]
    Cache {
        /// As it was named.
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
        /// Its description.
        path: PathBuf,
        /// Gives what the description says.
        found: Uuid,
        /// What was named.
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

/// What a description comes to.
pub struct DescribedArray {
    /// The members.
    pub geometry: Geometry,
    /// The cache.
    pub policy: HostCacheSpec,
    /// What decides.
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
        if has_parity && fits { size } else { StripeCacheSize::OFF }
    }
}

impl CachePart {
    /// Whether it has a device of its own.
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

    /// It as its file has it.
    pub fn text(&self) -> String {
        let text = toml::to_string(self).expect("strings, numbers and lists can be written");
        format!("{HEAD}{text}")
    }

    /// Counts the rows that the stripe cache keeps.
    fn cached_rows(&self, page: u64, members: u8) -> Result<u32, DescriptionError> {
        let found = self.serve.stripe_cache;
        found.rows(page, members).map_err(|right| DescriptionError::StripeCache { found, right })
    }

    /// What it comes to, for an array whose description is in this folder.
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
            (None, slots) => folder.join(slots.as_deref().unwrap_or(Path::new(NVRAM))).into(),
        };
        let device = |(path, pages, is_member): (&PathBuf, u64, bool)| DeviceConfig {
            path: folder.join(path),
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
            array: self.uuid.as_u64_pair().0,
            shape: Shape::new(page, SECTOR_BYTES.min(page), stripe, stripe, geometry.data_pages())?,
            depth: self.serve.depth,
            devices: members.chain(cache).map(device).collect(),
            every_write: config.regime == DurabilityMode::EveryWrite,
            nvram,
            spare_nvram: self.nvram.on.map(|_| folder.join(self.nvram.spare_place())),
            nv_slots: config.nv_slots + policy.nv_slots(cache_pages, &config),
            intents: folder.join(&self.nvram.intents),
            rows: geometry.member_pages(),
            members: geometry.members() as usize,
            rows_per_mark: (MARKED_BYTES / page).max(chunk.into()) as u32,
            idle_marks: IDLE_MARKS,
            io: self.serve.io.into(),
            patience: FilesConfig::PATIENCE,
            device_timeout: self.serve.device_timeout.0,
        };
        Ok(DescribedArray { geometry, policy, controller, files })
    }

    /// What the devices are labelled with: all that decides about what they hold.
    fn about(&self, geometry: &Geometry, policy: &HostCacheSpec) -> String {
        let ArrayPart { chunk, page, member_size, data_offset, .. } = &self.array;
        let layout = geometry.layout().map(|layout| format!("layout = {layout}\n")).unwrap_or_default();
        let cache = self.cache.size.map(|size| format!("cache = {size}\n")).unwrap_or_default();
        format!(
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
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
