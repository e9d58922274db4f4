//! Splitting host requests into fragments: whole pages inside one stripe, a part of one page, or whole stripes that may be
//! trimmed.

use std::fmt;

use crate::{Ext, HostOp, Sectors};

/// Describes the sizes by which requests are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    page_shift: u32,
    sector_shift: u32,
    stripe_pages: u64,
    max_pages: u64,
    data_pages: u64,
}

/// Why a shape cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// Page and sector must be powers of two, the page at most 128 sectors.
    Page {
        /// Bytes of a page.
        page_bytes: u64,
        /// Bytes of a sector.
        sector_bytes: u64,
    },
    /// A stripe of no pages.
    Stripe,
    /// More pages of data than an extent can name.
    Capacity(u64),
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page { page_bytes, sector_bytes } => write!(
                f,
                "a page of {page_bytes} B with sectors of {sector_bytes} B: both must be powers of two, the page 1 to 128 sectors"
            ),
            Self::Stripe => f.write_str("a stripe must hold at least one page"),
            Self::Capacity(pages) => {
                write!(f, "{pages} pages of data; at most {} can be addressed", Ext::MAX_DEVICE_PAGES)
            }
        }
    }
}

impl std::error::Error for ShapeError {}

impl Shape {
    /// Pages of `page_bytes` with sectors of `sector_bytes`; fragments do not cross stripes of
    /// `stripe_pages` and have at most `max_pages` (and never more than 32,768), but for those of whole stripes.
    pub fn new(
        page_bytes: u64,
        sector_bytes: u64,
        stripe_pages: u64,
        max_pages: u64,
        data_pages: u64,
    ) -> Result<Self, ShapeError> {
        let powers = page_bytes.is_power_of_two() && sector_bytes.is_power_of_two();
        if !powers || page_bytes < sector_bytes || page_bytes / sector_bytes > 128 {
            return Err(ShapeError::Page { page_bytes, sector_bytes });
        }
        if stripe_pages == 0 {
            return Err(ShapeError::Stripe);
        }
        if data_pages > Ext::MAX_DEVICE_PAGES {
            return Err(ShapeError::Capacity(data_pages));
        }
        Ok(Self {
            page_shift: page_bytes.trailing_zeros(),
            sector_shift: sector_bytes.trailing_zeros(),
            stripe_pages,
            // Extents, fragments and buffers count their pages in 16 bits.
            max_pages: max_pages.clamp(1, 32_768),
            data_pages,
        })
    }

    /// Bytes of a page.
    pub const fn page_bytes(&self) -> u64 {
        1 << self.page_shift
    }

    /// Bytes of a sector.
    pub const fn sector_bytes(&self) -> u64 {
        1 << self.sector_shift
    }

    /// Bytes that a host can address.
    pub const fn bytes(&self) -> u64 {
        self.data_pages << self.page_shift
    }

    /// Returns true if a fragment of so many pages has several stripes.
    pub const fn is_wide(&self, pages: u16) -> bool {
        pages as u64 > self.stripe_pages
    }

    /// Checks that a range is made of whole sectors and lies inside the array.
    ///
    /// # Errors
    /// If it begins or ends within a sector, or ends beyond the last byte.
    pub fn check(&self, offset: u64, len: u64) -> Result<(), RangeError> {
        if (offset | len) & (self.sector_bytes() - 1) != 0 {
            return Err(RangeError::Misaligned { sector_bytes: self.sector_bytes() });
        }
        // A client may send any 64 bits for either, so their sum may not fit.
        if offset.checked_add(len).is_none_or(|end| end > self.bytes()) {
            return Err(RangeError::Beyond { bytes: self.bytes() });
        }
        Ok(())
    }

    /// Limits the bytes of a fragment of several stripes: others wait for it, at devices and for its rows.
    const WIDE_BYTES: u64 = 16 << 20;
    /// Limits them to so small a share of all bytes: of others with random places fewer than one in a hundred wait for two of them.
    const WIDE_SHARE: u64 = 512;
    /// Allows so many bytes all the same.
    const NARROWEST_WIDE_BYTES: u64 = 1 << 20;

    /// The first fragment of a range of whole sectors that is not empty. A discard leaves out pages
    /// that it covers in part: these pieces are marked as not to be served. Of what may be trimmed a fragment has as many
    /// whole stripes as it may, so that they are one command a device.
    pub fn piece(&self, op: HostOp, offset: u64, len: u64) -> Piece {
        let page_bytes = self.page_bytes();
        let page = offset >> self.page_shift;
        let head = offset & (page_bytes - 1);
        // A part of a page is a fragment of its own, because it needs the page's old bytes first.
        if head != 0 || len < page_bytes {
            let bytes = (page_bytes - head).min(len);
            let sectors =
                Sectors { first: (head >> self.sector_shift) as u8, count: (bytes >> self.sector_shift) as u8 };
            return Piece { page, pages: 1, sectors: Some(sectors), bytes, serve: op != HostOp::Discard };
        }
        // A fragment stays inside one stripe, so one operation with one claim serves it.
        let left = self.stripe_pages - page % self.stripe_pages;
        let whole = len >> self.page_shift;
        // Only a run that begins at a stripe's first page is trimmed whole: parity rows need all their columns.
        let pages = if whole > left && left == self.stripe_pages {
            self.several_stripes(op, whole).unwrap_or(left.min(self.max_pages))
        } else {
            whole.min(left).min(self.max_pages)
        };
        Piece { page, pages: pages as u16, sectors: None, bytes: pages << self.page_shift, serve: true }
    }

    /// Returns the pages of the whole stripes, of so many pages, that are one fragment; none if they are not.
    #[cold]
    fn several_stripes(&self, op: HostOp, whole: u64) -> Option<u64> {
        let may_be_wide = match op {
            HostOp::Discard => true,
            // Where zeros are written all the same they are written stripe by stripe.
            HostOp::WriteZeroesUnmap => self.max_pages >= self.stripe_pages,
            _ => false,
        };
        let bytes = (self.bytes() / Self::WIDE_SHARE).clamp(Self::NARROWEST_WIDE_BYTES, Self::WIDE_BYTES);
        let most = (bytes >> self.page_shift).min(u64::from(u16::MAX)) / self.stripe_pages;
        let stripes = most.min(whole / self.stripe_pages);
        (may_be_wide && stripes > 1).then_some(stripes * self.stripe_pages)
    }
}

/// Describes the next piece of a request, before the engine makes a [`Frag`](crate::Frag) of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First page.
    pub page: u64,
    /// Pages.
    pub pages: u16,
    /// The sectors, if only a part of the page is meant.
    pub sectors: Option<Sectors>,
    /// Bytes of the request that the piece covers.
    pub bytes: u64,
    /// Is true if the piece must be served; a discard ignores pages that it covers in part.
    pub serve: bool,
}

/// Why a request cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeError {
    /// Tells that the range begins or ends inside a sector.
    Misaligned {
        /// Bytes of a sector.
        sector_bytes: u64,
    },
    /// Tells that the range ends beyond the last byte.
    Beyond {
        /// Bytes that there are.
        bytes: u64,
    },
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misaligned { sector_bytes } => {
                write!(f, "offset and length must be multiples of the sector, {sector_bytes} B")
            }
            Self::Beyond { bytes } => write!(f, "the device ends at byte {bytes}"),
        }
    }
}

impl std::error::Error for RangeError {}
