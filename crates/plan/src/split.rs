//! Splitting a byte range into page accesses (specs §0.1).

use std::fmt;

/// The page and block size that a cache works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageGeometry {
    page_shift: u32,
    pages_per_block: u32,
    /// log2 of the pages per block where they are a power of two: dividing by it is on the path of
    /// every request.
    block_shift: Option<u32>,
}

/// Why a page or block size cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageGeometryError {
    /// The page size is not a power of two between 512 B and 1 MiB.
    PageBytes(u64),
    /// The block size in pages is not between 1 and 65,536.
    PagesPerBlock(u64),
}

impl fmt::Display for PageGeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PageBytes(n) => write!(f, "page size {n} B is not a power of two between 512 B and 1 MiB"),
            Self::PagesPerBlock(n) => write!(f, "{n} pages per block is not between 1 and 65536"),
        }
    }
}

impl std::error::Error for PageGeometryError {}

impl PageGeometry {
    /// Pages of `page_bytes`, `pages_per_block` of them to a logical block.
    pub fn new(page_bytes: u64, pages_per_block: u64) -> Result<Self, PageGeometryError> {
        if !page_bytes.is_power_of_two() || !(512..=1 << 20).contains(&page_bytes) {
            return Err(PageGeometryError::PageBytes(page_bytes));
        }
        if !(1..=65_536).contains(&pages_per_block) {
            return Err(PageGeometryError::PagesPerBlock(pages_per_block));
        }
        Ok(Self {
            page_shift: page_bytes.trailing_zeros(),
            pages_per_block: pages_per_block as u32,
            block_shift: pages_per_block.is_power_of_two().then(|| pages_per_block.trailing_zeros()),
        })
    }

    /// Bytes in a page.
    #[inline]
    pub const fn page_bytes(self) -> u64 {
        1 << self.page_shift
    }

    /// Pages in a logical block.
    #[inline]
    pub const fn pages_per_block(self) -> u32 {
        self.pages_per_block
    }

    /// The block of a page, and the page's offset in it.
    #[inline]
    pub const fn block_of(self, page: u64) -> (u64, u32) {
        let n = self.pages_per_block as u64;
        match self.block_shift {
            Some(shift) => (page >> shift, (page & (n - 1)) as u32),
            None => (page / n, (page % n) as u32),
        }
    }

    /// The page that holds all of the `len` bytes at `offset`, if one does: what [`Self::split`]
    /// says of most requests of most traces, said faster.
    #[inline]
    pub const fn only_page(self, offset: u64, len: u64) -> Option<u64> {
        let in_page = offset & (self.page_bytes() - 1);
        // Nothing wraps below the smaller of the two.
        if len != 0 && len <= self.page_bytes() - in_page { Some(offset >> self.page_shift) } else { None }
    }

    /// The pages that `len` bytes at `offset` touch, and whether the first and the last are touched
    /// only in part. An empty range touches none.
    #[inline]
    pub const fn split(self, offset: u64, len: u64) -> Split {
        if len == 0 {
            return Split { first: offset >> self.page_shift, pages: 0, head_partial: false, tail_partial: false };
        }
        // A range that runs past 2^64 is cut there: no device is that large.
        let last_byte = offset.saturating_add(len - 1);
        let mask = self.page_bytes() - 1;
        let first = offset >> self.page_shift;
        let last = last_byte >> self.page_shift;
        let head = offset & mask != 0;
        let tail = last_byte & mask != mask;
        Split {
            first,
            pages: last - first + 1,
            head_partial: head || (first == last && tail),
            tail_partial: tail || (first == last && head),
        }
    }
}

/// The pages of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// First page touched.
    pub first: u64,
    /// Pages touched.
    pub pages: u64,
    /// The first page is not covered whole.
    pub head_partial: bool,
    /// The last page is not covered whole. Of a request inside one page both flags are equal.
    pub tail_partial: bool,
}

/// Consecutive pages of one request inside one logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// Logical block, in the address space of the request.
    pub block: u64,
    /// First page, as an offset in the block.
    pub offset: u32,
    /// Pages, at least 1.
    pub pages: u32,
}

impl Split {
    /// Only the pages that are covered whole: what a discard may forget.
    #[must_use]
    pub const fn whole(self) -> Self {
        // A single page that is covered in part has both flags set, and is still one page.
        let partial = match (self.pages, self.head_partial, self.tail_partial) {
            (0 | 1, head, _) => head as u64,
            (_, head, tail) => head as u64 + tail as u64,
        };
        Self {
            first: self.first + self.head_partial as u64,
            pages: self.pages - partial,
            head_partial: false,
            tail_partial: false,
        }
    }

    /// The request's pages cut at the borders of logical blocks, in ascending order.
    pub fn runs(self, geometry: PageGeometry) -> impl Iterator<Item = PageRun> {
        let n = u64::from(geometry.pages_per_block());
        let end = self.first + self.pages;
        let mut page = self.first;
        std::iter::from_fn(move || {
            if page >= end {
                return None;
            }
            let (block, offset) = geometry.block_of(page);
            let pages = (n - u64::from(offset)).min(end - page);
            page += pages;
            Some(PageRun { block, offset, pages: pages as u32 })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_touch_the_pages_they_overlap() {
        let g = PageGeometry::new(4096, 64).unwrap();
        assert_eq!(g.split(0, 4096), Split { first: 0, pages: 1, head_partial: false, tail_partial: false });
        assert_eq!(g.split(4096, 0).pages, 0);
        assert_eq!(g.split(100, 200), Split { first: 0, pages: 1, head_partial: true, tail_partial: true });
        assert_eq!(g.split(0, 512), Split { first: 0, pages: 1, head_partial: true, tail_partial: true });
        assert_eq!(g.split(4095, 2), Split { first: 0, pages: 2, head_partial: true, tail_partial: true });
        assert_eq!(g.split(4096, 8193), Split { first: 1, pages: 3, head_partial: false, tail_partial: true });
        assert_eq!(g.split(u64::MAX - 1, 4096).pages, 1);
    }

    #[test]
    fn a_range_inside_one_page_has_only_that() {
        let g = PageGeometry::new(4096, 64).unwrap();
        for offset in [0, 1, 4095, 4096, 8191, 12_288, u64::MAX - 4096, u64::MAX - 1, u64::MAX] {
            for len in [0, 1, 2, 512, 4095, 4096, 4097, 1 << 40, u64::MAX] {
                let split = g.split(offset, len);
                // What runs past 2^64 is cut there by `split`, and left to it.
                let only = (split.pages == 1 && offset.checked_add(len - 1).is_some()).then_some(split.first);
                assert_eq!(g.only_page(offset, len), only, "{len} bytes at {offset}");
            }
        }
    }

    #[test]
    fn runs_stop_at_block_borders() {
        let g = PageGeometry::new(4096, 4).unwrap();
        let runs: Vec<_> = g.split(2 * 4096, 7 * 4096).runs(g).collect();
        assert_eq!(
            runs,
            [
                PageRun { block: 0, offset: 2, pages: 2 },
                PageRun { block: 1, offset: 0, pages: 4 },
                PageRun { block: 2, offset: 0, pages: 1 },
            ]
        );
    }

    #[test]
    fn only_whole_pages_can_be_forgotten() {
        let g = PageGeometry::new(4096, 64).unwrap();
        let whole = |offset, len| (g.split(offset, len).whole().first, g.split(offset, len).whole().pages);
        assert_eq!(whole(4096, 8192), (1, 2));
        assert_eq!(whole(4095, 8194), (1, 2));
        assert_eq!(whole(1, 4095), (1, 0));
        assert_eq!(whole(1, 100), (1, 0));
        assert_eq!(whole(1, 4096), (1, 0));
        assert_eq!(whole(0, 4097), (0, 1));
        assert_eq!(whole(4096, 0), (1, 0));
    }

    #[test]
    fn pages_have_a_block_and_an_offset() {
        for n in [1, 3, 4, 64, 100] {
            let g = PageGeometry::new(4096, n).unwrap();
            for page in [0, 1, n - 1, n, 5 * n + n / 2, 1 << 50] {
                assert_eq!(g.block_of(page), (page / n, (page % n) as u32));
            }
        }
    }

    #[test]
    fn impossible_sizes_are_named() {
        assert_eq!(PageGeometry::new(3000, 64), Err(PageGeometryError::PageBytes(3000)));
        assert_eq!(PageGeometry::new(256, 64), Err(PageGeometryError::PageBytes(256)));
        assert_eq!(PageGeometry::new(4096, 0), Err(PageGeometryError::PagesPerBlock(0)));
    }
}
