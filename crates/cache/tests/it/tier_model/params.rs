//! Describes what a model is built for: the array, the SSD, and the parameters of the caches. Their defaults
//! are those of specs §9.

use crate::spec_reading::SpecReading;

/// The array behind the cache, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Data columns of a row, at least two.
    pub k: u64,
    /// Parity columns: one or two.
    pub m: u64,
    /// Pages of a chunk.
    pub chunk: u64,
}

impl Shape {
    /// The row of a page.
    pub const fn row(&self, page: u64) -> u64 {
        page / self.chunk / self.k * self.chunk + page % self.chunk
    }

    /// The data column of a page.
    pub const fn column(&self, page: u64) -> u64 {
        page / self.chunk % self.k
    }

    /// The page in a column of a row.
    pub const fn page(&self, row: u64, column: u64) -> u64 {
        (row / self.chunk * self.k + column) * self.chunk + row % self.chunk
    }

    /// The pages of a row, column by column.
    pub fn pages(&self, row: u64) -> impl Iterator<Item = u64> + use<> {
        let shape = *self;
        (0..shape.k).map(move |column| shape.page(row, column))
    }

    /// The stripe of a row.
    pub const fn stripe(&self, row: u64) -> u64 {
        row / self.chunk
    }
}

/// Names a way to write with parity (specs §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// RMW if it reads strictly less from members than RCW, else RCW.
    Min,
    Rmw,
    Rcw,
}

/// Decides what happens to a page whose set is full of pages that cannot be evicted (§9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DazFull {
    /// Does not cache it.
    Bypass,
    /// Rows of the set are cleaned at once.
    CleanNow,
}

/// Names the place for the third and later versions of a page in `LeavO` (§9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    NewPage,
    InPlace,
}

/// Decides what happens to a delta that is too long (§9.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLong {
    /// Stores it as a whole page, in a DEZ page of its own.
    Raw,
    /// The array is written to with parity, and the DAZ page, if there is one, is overwritten.
    Rewrite,
}

/// Decides when cleaning makes parity from all data of a row (§9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RcwFromCache {
    Never,
    /// If all `k` pages are cached, as in the paper.
    All,
    /// Also if members must be asked for less data than there are parities.
    Fewer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    pub shape: Shape,
    pub reading: SpecReading,
    pub method: Method,
    /// Is true if a write with parity takes data from the cache instead of from members (§9.8.5).
    pub cache_visible: bool,
    /// Is true if a write does so in rows with stale parity as well. Then it pins all cached pages of such a
    /// row. `LeavO` drops a page that is read for it and has no other room.
    pub stale_visible: bool,
    /// Pages of the sets. Rounded down to whole sets.
    pub pages: u64,
    /// Pages of a set; with fewer pages than that there is one set.
    pub associativity: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages of the metadata log.
    pub log_pages: u64,
    /// Entries of a page of the log, and of its buffer.
    pub log_entries: usize,
    /// The log's head is cleaned while more than this of its pages is in use: (numerator, denominator).
    pub usage_max: (u64, u64),
    /// Percent of the pages that may be old, new or delta (WB: dirty) before cleaning begins.
    pub dirty_high: u64,
    /// Percent at which cleaning ends.
    pub dirty_low: u64,
    /// Percent of a set at which cleaning for want of room in it ends.
    pub set_low: u64,
    pub daz_full: DazFull,
    pub leavo_rewrite: Rewrite,
    /// Pages of the NVRAM for deltas.
    pub staging_pages: u64,
    /// Deltas of this many bytes and more are too long.
    pub delta_max: u32,
    pub too_long: TooLong,
    /// Is the scheme that reclaims cleaned pages: scheme 1 writes them as clean pages, scheme 2 frees them.
    pub reclaim: u8,
    /// Cleaned pages stay as base plus delta, and count as clean.
    pub keep_clean: bool,
    /// Parity is delayed on write misses, too.
    pub delay_misses: bool,
    /// The write of a page, from 1, at which it is admitted; if no write ever is, no read is admitted either.
    pub admit: u64,
    /// Writes count for that only since the page has left the cache.
    pub admit_forgets: bool,
    /// As many pages as there are slots have a delta only, at most; those beyond are written with parity.
    pub few_bare: bool,
    /// Cleaning takes whole stripes in the order of addresses.
    pub clean_stripes: bool,
    pub rcw_from_cache: RcwFromCache,
    /// WB: what is read into a set of dirty pages is not kept, though one of them is written back.
    pub bypass_full: bool,
}

impl Params {
    /// The defaults of the specs for an SSD of so many pages, of which 0.59 % are the log's.
    pub fn new(shape: Shape, ssd_pages: u64) -> Self {
        let log_pages = ssd_pages * 59 / 10_000;
        Self {
            shape,
            reading: SpecReading::Paper,
            method: Method::Min,
            cache_visible: false,
            stale_visible: false,
            pages: ssd_pages - log_pages,
            associativity: 512,
            page_bytes: 4096,
            log_pages,
            log_entries: 256,
            usage_max: (9, 10),
            dirty_high: 30,
            dirty_low: 10,
            set_low: 30,
            daz_full: DazFull::Bypass,
            leavo_rewrite: Rewrite::NewPage,
            staging_pages: 1,
            delta_max: 4096,
            too_long: TooLong::Raw,
            reclaim: 2,
            keep_clean: false,
            delay_misses: false,
            admit: 1,
            admit_forgets: false,
            few_bare: false,
            clean_stripes: false,
            rcw_from_cache: RcwFromCache::All,
            bypass_full: false,
        }
    }

    /// Pages of a set.
    pub fn set_pages(&self) -> u64 {
        self.associativity.min(self.pages)
    }

    /// Sets.
    pub fn sets(&self) -> u64 {
        self.pages / self.set_pages()
    }

    /// The set of a page: that of its row (§9.8.13).
    pub fn set(&self, page: u64) -> u64 {
        (self.shape.row(page).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % self.sets()
    }
}
