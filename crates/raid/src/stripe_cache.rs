//! Sizes of stripe caches as users write them.

use std::fmt;
use std::str::FromStr;

use destage_plan::quantity;

use crate::array::ArrayConfig;

/// Counts what is kept in memory of recently written rows: all columns of each row, as md's `stripe_cache_size` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeCacheSize {
    /// Counts bytes.
    Bytes(u64),
    /// Counts rows.
    Rows(u32),
}

impl StripeCacheSize {
    /// Keeps nothing.
    pub const OFF: Self = Self::Bytes(0);

    /// Returns the rows that fit, a multiple of [`ArrayConfig::ROW_UNIT`], for so many members and bytes of a page.
    ///
    /// # Errors
    /// If not even that many rows fit, or more than [`ArrayConfig::MAX_CACHED_ROWS`] do; it says what would be right.
    pub fn rows(self, page_bytes: u64, members: u8) -> Result<u32, String> {
        // The row cache has sets of equal size, so its rows are a multiple of their number.
        let unit = ArrayConfig::ROW_UNIT;
        let row = page_bytes * u64::from(members);
        let rows = match self {
            Self::Bytes(0) | Self::Rows(0) => return Ok(0),
            Self::Bytes(bytes) => bytes / row,
            Self::Rows(rows) => rows.into(),
        };
        let (least, most) = (u64::from(unit) * row, u64::from(ArrayConfig::MAX_CACHED_ROWS));
        if rows < unit.into() || rows > most {
            return Err(format!(
                "0, or between {} ({unit} rows of {members} pages) and {most} rows",
                quantity::show_bytes(least)
            ));
        }
        Ok(rows as u32 / unit * unit)
    }
}

impl fmt::Display for StripeCacheSize {
    /// Writes it exactly, as it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Rows(rows) => write!(f, "{rows}rows"),
            Self::Bytes(0) => f.write_str("0"),
            Self::Bytes(bytes) => {
                let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
                let (unit, name) = units.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit)).unwrap_or((1, "B"));
                write!(f, "{}{name}", bytes / unit)
            }
        }
    }
}

impl FromStr for StripeCacheSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let right = || "0, a number of bytes such as 16MiB, or a number of rows such as 256rows".to_owned();
        if let Some(rows) = text.trim().strip_suffix("rows") {
            return rows.trim().parse().map(Self::Rows).map_err(|_| right());
        }
        quantity::bytes(text).map(Self::Bytes).map_err(|_| right())
    }
}
