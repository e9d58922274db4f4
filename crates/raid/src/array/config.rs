//! Configures the service of an array.

use std::fmt;
use std::ops::Range;

use destage_plan::{DevSet, Nanos, PageRange, Row};

use super::row_cache::RowCache;
use crate::{Geometry, RaidLevel};

/// Members that an array with parity can have: an operation has 64 steps, and a write may have to
/// read and write every column.
pub const MAX_PARITY_MEMBERS: u8 = 24;

/// Members that an array without parity can have: a discard trims and flushes each in one
/// operation.
pub const MAX_MEMBERS: u8 = 28;

/// Limits the pages that a member may fail to read within about an hour where nothing else is told, as md does.
pub const MAX_CORRECTED: u32 = 20;

/// Selects the durability of acknowledged writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DurabilityMode {
    /// Durable after a flush or with FUA, as with any disk that has a volatile cache.
    #[default]
    Flush,
    /// Each is durable: every write of a member carries FUA.
    EveryWrite,
}

impl DurabilityMode {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Flush, Self::EveryWrite];

    /// Returns the word in settings and results.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::EveryWrite => "every-write",
        }
    }
}

/// Selects the update of the parity of a row that is written in part (specs §2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParityMethod {
    /// Read-modify-write only if it reads strictly less, as md does.
    #[default]
    Min,
    /// Read-modify-write wherever it is possible.
    Rmw,
    /// Reconstruct-write.
    Rcw,
    /// Read-modify-write if less than half of the data columns are written, as `DiskSim` does.
    Disksim,
}

impl ParityMethod {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Min, Self::Rmw, Self::Rcw, Self::Disksim];

    /// Returns the word in settings and results.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Rmw => "rmw",
            Self::Rcw => "rcw",
            Self::Disksim => "disksim",
        }
    }
}

/// An array and how it is served.
#[derive(Clone, Debug)]
pub struct ArrayConfig {
    /// Members and layout.
    pub geometry: Geometry,
    /// Bytes of a page, as whoever serves the array has it.
    pub page_bytes: u32,
    /// Selects the durability of acknowledged writes.
    pub regime: DurabilityMode,
    /// Selects the update of parity.
    pub parity: ParityMethod,
    /// Rows whose intents may be open before the array flushes on its own: what an unclean start
    /// has to read again.
    pub max_open_rows: usize,
    /// Slots of the NVRAM, at least [`ArrayConfig::MIN_NV_SLOTS`]. Each row that is written while a
    /// member is lost takes one or two until the next flush.
    pub nv_slots: u32,
    /// Is true if trimmed pages of the members read as zeros. Then discards of whole rows can be passed on.
    pub trims: bool,
    /// The array flushes on its own no later than this after a write, so that an idle array is
    /// clean.
    pub idle_flush: Nanos,
    /// Stripes that a rebuild fills between two notes of how far it has come.
    pub rebuild_window: u32,
    /// Lists the rows that hold data, in order and apart from each other. A rebuild fills these alone, since nobody reads the
    /// others; without a list all rows.
    pub used_rows: Option<Vec<Range<Row>>>,
    /// Limits the pages that a member may fail to read and that are made anew before it counts as lost. The count is halved
    /// every hour without another. 0: the first costs the member.
    pub max_corrected: u32,
    /// Counts the rows of which pages are kept in memory after a write, so that the next one need not read them: a multiple of
    /// [`ROW_UNIT`](Self::ROW_UNIT), or none. Arrays without parity keep none.
    pub cached_rows: u32,
    /// Pages of the array that may be lost: a start that would be refused over rows that may be torn
    /// and have lost data goes on if all that they have lost is among these; one that would be refused over the device
    /// of a cache ([`Refusal::CacheLost`](destage_plan::Refusal::CacheLost)) if every page is.
    /// [`RaidArray::lost`](super::RaidArray::lost) tells what of them is.
    pub accepted_losses: Vec<PageRange>,
    /// Members that a start believes though they are noted as lost, if the level cannot do without as many as are: what
    /// they have missed they have missed.
    pub revived: DevSet,
}

impl ArrayConfig {
    /// The least number of slots: three for the note of the members' states, and some for rows that
    /// are written with two members lost.
    pub const MIN_NV_SLOTS: u32 = 16;

    /// Sets the unit of the number of rows that are kept in memory: they are in as many sets.
    pub const ROW_UNIT: u32 = RowCache::UNIT;

    /// Limits the rows that are kept in memory.
    pub const MAX_CACHED_ROWS: u32 = 1 << 24;

    /// An array of pages of 4 KiB served as md would: flush regime, 16,384 open rows, discards passed on.
    pub const fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            page_bytes: 4096,
            regime: DurabilityMode::Flush,
            parity: ParityMethod::Min,
            max_open_rows: 16_384,
            nv_slots: 1024,
            trims: true,
            idle_flush: Nanos(5_000_000_000),
            rebuild_window: 8,
            used_rows: None,
            max_corrected: MAX_CORRECTED,
            cached_rows: 0,
            accepted_losses: Vec::new(),
            revived: DevSet::EMPTY,
        }
    }

    /// Counts the rows that are kept in memory.
    pub(super) const fn kept_rows(&self) -> u32 {
        // Only parity has to be computed from old pages; other levels read nothing before they write.
        if self.geometry.parity_columns() == 0 || matches!(self.geometry.level(), RaidLevel::Raid1) {
            0
        } else {
            self.cached_rows
        }
    }

    pub(super) fn check(&self) -> Result<(), ArrayError> {
        let members = self.geometry.members();
        let parity = matches!(self.geometry.level(), RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6);
        if members > if parity { MAX_PARITY_MEMBERS } else { MAX_MEMBERS } {
            return Err(ArrayError::Members(members));
        }
        // An extent counts its pages in 16 bits, and a column of a stripe is one extent.
        if self.geometry.chunk_pages() > u32::from(u16::MAX) {
            return Err(ArrayError::Chunk(self.geometry.chunk_pages()));
        }
        if self.nv_slots < Self::MIN_NV_SLOTS {
            return Err(ArrayError::NvSlots(self.nv_slots));
        }
        // With no open row no write could begin, and a window of no rows would never end.
        if self.max_open_rows == 0 || self.rebuild_window == 0 {
            return Err(ArrayError::Zero);
        }
        if !self.cached_rows.is_multiple_of(Self::ROW_UNIT) || self.cached_rows > Self::MAX_CACHED_ROWS {
            return Err(ArrayError::CachedRows(self.cached_rows));
        }
        Ok(())
    }
}

/// Why an array cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayError {
    /// Too many members.
    Members(u8),
    /// Chunks with more pages than an extent can have.
    Chunk(u32),
    /// Too few slots in the NVRAM.
    NvSlots(u32),
    /// `max_open_rows` or `rebuild_window` is 0.
    Zero,
    /// Tells that `cached_rows` is no multiple of [`ArrayConfig::ROW_UNIT`], or above [`ArrayConfig::MAX_CACHED_ROWS`].
    CachedRows(u32),
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Members(n) => {
                write!(
                    f,
                    "{n} members: an array can be served with at most {MAX_MEMBERS}, with parity {MAX_PARITY_MEMBERS}"
                )
            }
            Self::Chunk(pages) => write!(f, "a chunk of {pages} pages: at most {} can be served", u16::MAX),
            Self::NvSlots(n) => write!(f, "{n} NVRAM slots: at least {} are needed", ArrayConfig::MIN_NV_SLOTS),
            Self::CachedRows(n) => write!(
                f,
                "{n} rows kept in memory: a multiple of {} up to {} is possible",
                ArrayConfig::ROW_UNIT,
                ArrayConfig::MAX_CACHED_ROWS
            ),
            Self::Zero => f.write_str("the limit of open rows and the rebuild window must be at least 1"),
        }
    }
}

impl std::error::Error for ArrayError {}
