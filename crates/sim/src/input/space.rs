//! From (volume, byte address) to the dense page numbers that policies and devices work with.

use std::ops::Range;

use destage_plan::{Nanos, PageGeometry, PageRun, Split};
use destage_policy::buffer::BlockBorder;

use super::directory::BlockDirectory;

/// Each volume has its own range of this many pages of the common address space.
const VOLUME_PAGES_LOG2: u32 = 40;
/// Volumes that the common address space has room for.
const MAX_VOLUMES: u32 = 1 << 24;
/// Pages that one read or write may touch; a longer one is a misread trace.
const MAX_REQUEST_PAGES: u64 = 1 << 22;

/// Selects the treatment of addresses beyond the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LbaOverflow {
    /// Leave such requests out.
    Filter,
    /// Take the address modulo the device's exported size.
    #[default]
    Wrap,
    /// Number the blocks in the order of their first touch; wrap only when more are touched than
    /// the device has.
    Compact,
}

impl LbaOverflow {
    /// The word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Wrap => "wrap",
            Self::Compact => "compact",
        }
    }
}

/// Holds the extent of a trace in the address space that all its volumes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TouchedExtent {
    /// Logical blocks of which it touches something.
    pub blocks: u32,
    /// The block after the last of these.
    pub end: u64,
}

/// Why a request has no place in the page space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// The address is larger than any volume may be.
    #[error("request at byte {offset} of {len} bytes lies beyond 2^40 pages, the largest volume that is handled")]
    Address {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// The arrival, scaled by the speed, is too late to be added to.
    #[error(
        "its time is {time}, which lies 146 years or more after the trace's start; check the trace's unit of time, and speed"
    )]
    Time {
        /// Arrival as recorded.
        time: Nanos,
    },
    /// No device takes such a request.
    #[error("request of {pages} pages; more than 2^22 in one read or write mean that its length was misread")]
    Length {
        /// Pages.
        pages: u64,
    },
    /// The volume's number is larger than any that is handled.
    #[error("volume {volume} is beyond the 2^24 volumes that are handled; see volumes = merge")]
    Volume {
        /// Holds the volume's index.
        volume: u32,
    },
    /// More pages were touched than there is room for.
    #[error(
        "the trace touches more than {limit} pages, for which memory has no room; raise memory, run fewer policies and \
         sizes at a time, or use larger pages (2^32 are possible)"
    )]
    TooManyPages {
        /// Pages that there is room for.
        limit: u32,
    },
}

/// Places requests in the page space and counts what did not fit.
#[derive(Clone, Debug)]
pub struct PageSpace {
    geometry: PageGeometry,
    placement: VolumePlacement,
    /// Pages that may be numbered without a device.
    max_pages: u32,
    /// Reads and writes that touched a page beyond the device.
    pub overflowed: u64,
    /// Counts discards that reached beyond the device, and were cut at its end.
    pub cut_discards: u64,
    /// Counts the pages of these that the device does not hold.
    pub cut_pages: u64,
}

#[derive(Clone, Debug)]
enum VolumePlacement {
    /// No device: number the blocks by first touch.
    Unbounded(BlockDirectory),
    /// A device of so many pages.
    Modulo { pages: u64, filter: bool },
    /// A device of so many blocks, numbered by first touch.
    Compact { directory: BlockDirectory, blocks: u32 },
}

impl PageSpace {
    /// A page space without a device: as large as the trace makes it, up to `max_pages`.
    pub fn unbounded(geometry: PageGeometry, max_pages: u32) -> Self {
        Self {
            geometry,
            placement: VolumePlacement::Unbounded(BlockDirectory::default()),
            max_pages,
            overflowed: 0,
            cut_discards: 0,
            cut_pages: 0,
        }
    }

    /// A page space over a device of `device_pages`, a multiple of the block size.
    pub fn bounded(geometry: PageGeometry, device_pages: u32, overflow: LbaOverflow) -> Self {
        let placement = match overflow {
            LbaOverflow::Compact => VolumePlacement::Compact {
                directory: BlockDirectory::default(),
                blocks: device_pages / geometry.pages_per_block(),
            },
            LbaOverflow::Filter | LbaOverflow::Wrap => {
                VolumePlacement::Modulo { pages: u64::from(device_pages), filter: overflow == LbaOverflow::Filter }
            }
        };
        Self { geometry, placement, max_pages: device_pages, overflowed: 0, cut_discards: 0, cut_pages: 0 }
    }

    /// The same, which notes the [borders](Self::borders) between blocks where these are not
    /// numbered by address.
    #[must_use]
    pub fn keep_borders(mut self) -> Self {
        if let VolumePlacement::Unbounded(directory) | VolumePlacement::Compact { directory, .. } = &mut self.placement
        {
            directory.borders = Some(Vec::new());
        }
        self
    }

    /// The borders between blocks that were found since the caller last took them, or `None` where
    /// blocks are numbered by address, or borders are not kept. A block of a compacted device on
    /// which several blocks of the trace lie has the neighbours of the first of them.
    pub fn borders(&mut self) -> Option<&mut Vec<BlockBorder>> {
        match &mut self.placement {
            VolumePlacement::Unbounded(directory) => directory.borders.as_mut(),
            VolumePlacement::Compact { directory, blocks } => {
                let borders = directory.borders.as_mut()?;
                borders.retain(|border| border.before < *blocks && border.after < *blocks);
                Some(borders)
            }
            VolumePlacement::Modulo { .. } => None,
        }
    }

    /// The page and block size.
    pub fn geometry(&self) -> PageGeometry {
        self.geometry
    }

    /// Pages numbered so far, or those of the device: page numbers are below it.
    pub fn pages(&self) -> u32 {
        let n = self.geometry.pages_per_block();
        match &self.placement {
            VolumePlacement::Unbounded(directory) => directory.blocks() * n,
            VolumePlacement::Modulo { pages, .. } => *pages as u32,
            VolumePlacement::Compact { blocks, .. } => blocks * n,
        }
    }

    /// Returns the extent touched so far, without a device.
    pub fn extent(&self) -> Option<TouchedExtent> {
        match &self.placement {
            VolumePlacement::Unbounded(directory) => {
                Some(TouchedExtent { blocks: directory.blocks(), end: directory.end() })
            }
            VolumePlacement::Modulo { .. } | VolumePlacement::Compact { .. } => None,
        }
    }

    /// Returns the blocks that were touched so far, without a device: ranges in order.
    pub fn touched(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let VolumePlacement::Unbounded(directory) = &self.placement else { return ranges };
        for (block, _) in directory.touched(0..u64::MAX) {
            match ranges.last_mut() {
                Some(last) if last.end == block => last.end += 1,
                _ => ranges.push(block..block + 1),
            }
        }
        ranges
    }

    fn check(&self, volume: u32, split: Split) -> Result<(), SpaceError> {
        if volume >= MAX_VOLUMES {
            return Err(SpaceError::Volume { volume });
        }
        if (split.first + split.pages) >> VOLUME_PAGES_LOG2 != 0 {
            let page = self.geometry.page_bytes();
            // In whole pages a range may reach, and that of a discard even begin, where 64 bits
            // end.
            let bytes = |pages: u64| pages.saturating_mul(page);
            return Err(SpaceError::Address { offset: bytes(split.first), len: bytes(split.pages) });
        }
        Ok(())
    }

    /// So many requests for a page each can be placed by [`Self::place_page`], if the pages' places
    /// in the common address space ([`Self::address`]) are below this.
    pub(crate) fn surely_placed(&self, requests: usize) -> u64 {
        match &self.placement {
            VolumePlacement::Unbounded(directory) => {
                let blocks = u64::from(directory.blocks()) + requests as u64;
                let fits = blocks * u64::from(self.geometry.pages_per_block()) <= u64::from(self.max_pages);
                if fits { u64::MAX } else { 0 }
            }
            VolumePlacement::Modulo { pages, .. } => *pages,
            VolumePlacement::Compact { .. } => 0,
        }
    }

    /// A page's place in the address space that all volumes share, if there is such a page.
    #[inline]
    pub(crate) fn address(volume: u32, page: u64) -> Option<u64> {
        (volume < MAX_VOLUMES && page < 1 << VOLUME_PAGES_LOG2).then(|| u64::from(volume) << VOLUME_PAGES_LOG2 | page)
    }

    /// Places a page whose address is below [`Self::surely_placed`].
    #[inline]
    pub(crate) fn place_page(&mut self, address: u64) -> PageSpan {
        let n = self.geometry.pages_per_block();
        let page = match &mut self.placement {
            VolumePlacement::Unbounded(directory) => {
                let (block, offset) = self.geometry.block_of(address & ((1 << VOLUME_PAGES_LOG2) - 1));
                directory.number(address >> VOLUME_PAGES_LOG2 << VOLUME_PAGES_LOG2 | block) * n + offset
            }
            VolumePlacement::Modulo { .. } => address as u32,
            VolumePlacement::Compact { .. } => unreachable!("no page is sure to have a place"),
        };
        PageSpan { page, pages: 1 }
    }

    /// Appends the pages of a read or write to `spans`; returns `false` if it is left out.
    #[inline]
    pub fn place(&mut self, volume: u32, split: Split, spans: &mut Vec<PageSpan>) -> Result<bool, SpaceError> {
        if split.pages == 0 {
            return Ok(true);
        }
        self.check(volume, split)?;
        if split.pages > MAX_REQUEST_PAGES {
            return Err(SpaceError::Length { pages: split.pages });
        }
        let n = self.geometry.pages_per_block();
        let base = u64::from(volume) << VOLUME_PAGES_LOG2;
        match &mut self.placement {
            VolumePlacement::Unbounded(directory) => {
                // A volume has fewer than 2^40 blocks too, so the base keeps the volumes' blocks
                // apart as well.
                let limit = self.max_pages;
                let mut number = |block| {
                    let number = directory.number(base | block);
                    let fits = u64::from(directory.blocks()) * u64::from(n) <= u64::from(limit);
                    if fits { Ok(number) } else { Err(SpaceError::TooManyPages { limit }) }
                };
                if split.pages == 1 {
                    // Most requests of most traces: no loop.
                    let (block, offset) = self.geometry.block_of(split.first);
                    spans.push(PageSpan { page: number(block)? * n + offset, pages: 1 });
                    return Ok(true);
                }
                for PageRun { block, offset, pages } in split.runs(self.geometry) {
                    spans.push(PageSpan { page: number(block)? * n + offset, pages });
                }
            }
            VolumePlacement::Compact { directory, blocks } => {
                let mut beyond = false;
                for PageRun { block, offset, pages } in split.runs(self.geometry) {
                    let number = directory.number(base | block);
                    beyond |= number >= *blocks;
                    spans.push(PageSpan { page: number % *blocks * n + offset, pages });
                }
                self.overflowed += u64::from(beyond);
            }
            VolumePlacement::Modulo { pages: device, filter } => {
                let mut first = base | split.first;
                if first + split.pages > *device {
                    self.overflowed += 1;
                    if *filter {
                        return Ok(false);
                    }
                    first %= *device;
                }
                wrap(first, split.pages, *device, spans);
            }
        }
        Ok(true)
    }

    /// Appends the pages of a discard to `spans` that there is something to forget of. A discard of a whole disk
    /// shall not cost memory, so only blocks touched before count where blocks are numbered. A device forgets what it
    /// holds: its end cuts a discard, and blocks that have no place of their own are left alone, since forgetting
    /// where they are wrapped to would forget the pages of others.
    ///
    /// # Errors
    /// If the range lies beyond the largest volume.
    pub fn place_discard(&mut self, volume: u32, split: Split, spans: &mut Vec<PageSpan>) -> Result<(), SpaceError> {
        self.check(volume, split)?;
        if split.pages == 0 {
            return Ok(());
        }
        let n = self.geometry.pages_per_block();
        let base = u64::from(volume) << VOLUME_PAGES_LOG2;
        let mut cut = 0;
        match &self.placement {
            VolumePlacement::Unbounded(directory) | VolumePlacement::Compact { directory, .. } => {
                let blocks = match self.placement {
                    VolumePlacement::Compact { blocks, .. } => blocks,
                    _ => u32::MAX,
                };
                let (first, head) = self.geometry.block_of(split.first);
                let (last, tail) = self.geometry.block_of(split.first + split.pages - 1);
                for (address, number) in directory.touched((base | first)..(base | last) + 1) {
                    let from = if address == base | first { head } else { 0 };
                    let to = if address == base | last { tail } else { n - 1 };
                    let pages = to + 1 - from;
                    if number < blocks {
                        spans.push(PageSpan { page: number * n + from, pages });
                    } else {
                        cut += u64::from(pages);
                    }
                }
            }
            VolumePlacement::Modulo { pages: device, .. } => {
                let first = base | split.first;
                let held = split.pages.min(device.saturating_sub(first));
                cut = split.pages - held;
                if held > 0 {
                    spans.push(PageSpan { page: first as u32, pages: held as u32 });
                }
            }
        }
        self.cut_discards += u64::from(cut > 0);
        self.cut_pages = self.cut_pages.saturating_add(cut);
        Ok(())
    }
}

/// Spans of pages from `first` on, which begin anew at the device's end.
#[inline]
fn wrap(mut first: u64, mut pages: u64, device: u64, spans: &mut Vec<PageSpan>) {
    while pages > 0 {
        let here = pages.min(device - first);
        spans.push(PageSpan { page: first as u32, pages: here as u32 });
        pages -= here;
        first = 0;
    }
}

/// Consecutive pages of the page space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSpan {
    /// First page.
    pub page: u32,
    /// Pages, at least 1.
    pub pages: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(space: &mut PageSpace, volume: u32, offset: u64, len: u64) -> Vec<(u32, u32)> {
        let mut spans = Vec::new();
        let split = space.geometry().split(offset, len);
        assert!(space.place(volume, split, &mut spans).unwrap());
        spans.iter().map(|r| (r.page, r.pages)).collect()
    }

    #[test]
    fn what_is_touched_is_told() {
        let page = 4096;
        let mut space = PageSpace::unbounded(PageGeometry::new(page, 4).unwrap(), u32::MAX);
        let extent = |space: &PageSpace| space.extent().map(|TouchedExtent { blocks, end }| (blocks, end)).unwrap();
        assert_eq!(extent(&space), (0, 0));
        place(&mut space, 0, 40 * page, page);
        assert_eq!(extent(&space), (1, 11));
        place(&mut space, 0, 3 * page, 2 * page);
        assert_eq!(extent(&space), (3, 11));
        // Far beyond the table, and on another volume.
        place(&mut space, 0, 1_000_000_002 * page, page);
        assert_eq!(extent(&space), (4, 250_000_001));
        place(&mut space, 1, 0, page);
        assert_eq!(extent(&space), (5, (1 << VOLUME_PAGES_LOG2) + 1));
        assert_eq!(PageSpace::bounded(PageGeometry::new(page, 4).unwrap(), 8, LbaOverflow::Wrap).extent(), None);
    }

    #[test]
    fn blocks_are_numbered_by_first_touch_and_stay_whole() {
        let mut space = PageSpace::unbounded(PageGeometry::new(4096, 4).unwrap(), u32::MAX);
        let page = 4096;
        assert_eq!(place(&mut space, 0, 1_000_002 * page, 4 * page), [(2, 2), (4, 2)]);
        assert_eq!(place(&mut space, 0, 1_000_000 * page, page), [(0, 1)]);
        assert_eq!(place(&mut space, 1, 1_000_000 * page, page), [(8, 1)]);
        assert_eq!(space.pages(), 12);
    }

    #[test]
    fn a_device_wraps_filters_or_compacts() {
        let g = PageGeometry::new(4096, 4).unwrap();
        let mut wrap = PageSpace::bounded(g, 16, LbaOverflow::Wrap);
        assert_eq!(place(&mut wrap, 0, 14 * 4096, 4 * 4096), [(14, 2), (0, 2)]);
        assert_eq!(wrap.overflowed, 1);
        let mut filter = PageSpace::bounded(g, 16, LbaOverflow::Filter);
        assert!(!filter.place(0, g.split(14 * 4096, 4 * 4096), &mut Vec::new()).unwrap());
        assert!(!filter.place(1, g.split(0, 4096), &mut Vec::new()).unwrap());
        assert_eq!(filter.overflowed, 2);
        let mut compact = PageSpace::bounded(g, 8, LbaOverflow::Compact);
        assert_eq!(place(&mut compact, 3, 4000 * 4096, 4096), [(0, 1)]);
        assert_eq!(place(&mut compact, 0, 4 * 4096, 8 * 4096), [(4, 4), (0, 4)]);
        assert_eq!(compact.overflowed, 1);
    }

    #[test]
    fn a_discard_touches_only_what_was_touched() {
        let g = PageGeometry::new(4096, 4).unwrap();
        let mut space = PageSpace::unbounded(g, u32::MAX);
        place(&mut space, 0, 4 * 4096, 4096);
        let mut spans = Vec::new();
        space.place_discard(0, g.split(0, 1 << 40), &mut spans).unwrap();
        assert_eq!(spans, [PageSpan { page: 0, pages: 4 }]);
        assert_eq!(space.pages(), 4);
        // Far blocks are in the map, and a range may cut into its first and last block.
        let far = 1 << 38;
        place(&mut space, 0, far * 4096, 8 * 4096);
        spans.clear();
        space.place_discard(0, g.split((far + 1) * 4096, 6 * 4096), &mut spans).unwrap();
        assert_eq!(spans, [PageSpan { page: 5, pages: 3 }, PageSpan { page: 8, pages: 3 }]);
        spans.clear();
        space.place_discard(0, g.split(5 * 4096, (far - 2) * 4096), &mut spans).unwrap();
        assert_eq!(spans, [PageSpan { page: 1, pages: 3 }, PageSpan { page: 4, pages: 3 }]);
        assert_eq!((space.cut_discards, space.cut_pages), (0, 0));
    }

    #[test]
    fn a_device_forgets_what_it_holds() {
        let g = PageGeometry::new(4096, 4).unwrap();
        let page = 4096;
        for overflow in [LbaOverflow::Wrap, LbaOverflow::Filter] {
            let mut device = PageSpace::bounded(g, 16, overflow);
            // Inside, up to the end, across it, behind it, all of the device and more, on another volume.
            for (volume, first, pages, held) in [
                (0, 3, 2, Some((3, 2))),
                (0, 12, 4, Some((12, 4))),
                (0, 15, 9, Some((15, 1))),
                (0, 16, 16, None),
                (0, 1 << 30, 1 << 30, None),
                (0, 0, 1 << 28, Some((0, 16))),
                (1, 0, 4, None),
                (0, 7, 0, None),
            ] {
                let before = (device.cut_discards, device.cut_pages);
                let mut spans = Vec::new();
                device.place_discard(volume, g.split(first * page, pages * page).whole(), &mut spans).unwrap();
                assert_eq!(spans.iter().map(|span| (span.page, span.pages)).next(), held);
                let cut = pages - held.map_or(0, |(_, pages)| u64::from(pages));
                assert_eq!(device.cut_discards - before.0, u64::from(cut > 0));
                assert_eq!(device.cut_pages - before.1, cut);
            }
            assert_eq!(device.overflowed, 0, "reads and writes alone are wrapped or left out");
        }
        // Block 2 of the trace lies where block 0 does: forgetting it would forget block 0.
        let mut compact = PageSpace::bounded(g, 8, LbaOverflow::Compact);
        place(&mut compact, 0, 0, 3 * 4 * page);
        let mut spans = Vec::new();
        compact.place_discard(0, g.split(4 * page, 1 << 30).whole(), &mut spans).unwrap();
        assert_eq!(spans, [PageSpan { page: 4, pages: 4 }]);
        assert_eq!((compact.cut_discards, compact.cut_pages), (1, 4));
    }

    #[test]
    fn requests_that_nothing_could_hold_are_errors() {
        let g = PageGeometry::new(512, 4).unwrap();
        let mut space = PageSpace::unbounded(g, u32::MAX);
        let mut refused =
            |volume, offset, len| space.place(volume, g.split(offset, len), &mut Vec::new()).unwrap_err().to_string();
        assert!(refused(0, 0, 1 << 32).contains("2^22"));
        assert!(refused(1 << 24, 0, 512).contains("2^24 volumes"));
    }

    /// The borders found so far.
    fn borders(space: &mut PageSpace) -> Vec<(u32, u32)> {
        let found = space.borders().expect("blocks are numbered by first touch");
        std::mem::take(found).iter().map(|border| (border.before, border.after)).collect()
    }

    #[test]
    fn blocks_beside_each_other_are_known_whatever_their_numbers() {
        let g = PageGeometry::new(4096, 4).unwrap();
        let block = 4 * 4096;
        let mut space = PageSpace::unbounded(g, u32::MAX).keep_borders();
        // Block 64 begins a chunk of the directory; 2^30 lies beyond its table.
        for far in [0, 1 << 30] {
            let first = space.pages() / 4;
            for address in [65, 63, 67, 64] {
                place(&mut space, 0, (far + address) * block, 4096);
            }
            assert_eq!(borders(&mut space), [(first + 1, first + 3), (first + 3, first)]);
        }
        // A second touch tells nothing new, nor does a discard.
        place(&mut space, 0, 64 * block, 4096);
        space.place_discard(0, g.split(66 * block, block), &mut Vec::new()).unwrap();
        assert_eq!(borders(&mut space), []);
        place(&mut space, 0, 66 * block, 2 * block);
        assert_eq!(borders(&mut space), [(0, 8), (8, 2)]);
        assert!(PageSpace::unbounded(g, u32::MAX).borders().is_none());
    }

    #[test]
    fn volumes_are_no_neighbours() {
        // The largest volume has 2^40 - 1 pages.
        for n in [1, 4] {
            let g = PageGeometry::new(512, n).unwrap();
            let mut space = PageSpace::unbounded(g, u32::MAX).keep_borders();
            place(&mut space, 1, 0, 512);
            place(&mut space, 0, ((1 << 40) - 2) * 512, 512);
            place(&mut space, 2, 0, 512);
            place(&mut space, 1, ((1 << 40) - 2) * 512, 512);
            assert_eq!(borders(&mut space), []);
            place(&mut space, 1, n * 512, 512);
            assert_eq!(borders(&mut space), [(0, 4)]);
        }
    }

    #[test]
    fn a_device_has_borders_where_it_is_compacted() {
        let g = PageGeometry::new(4096, 4).unwrap();
        let block = 4 * 4096;
        for overflow in [LbaOverflow::Wrap, LbaOverflow::Filter] {
            let mut space = PageSpace::bounded(g, 16, overflow).keep_borders();
            place(&mut space, 0, 0, 2 * block);
            assert!(space.borders().is_none());
        }
        let mut space = PageSpace::bounded(g, 12, LbaOverflow::Compact).keep_borders();
        for address in [71, 70, 69] {
            place(&mut space, 0, address * block, 4096);
        }
        assert_eq!(borders(&mut space), [(1, 0), (2, 1)]);
        // Blocks 68 and 72 have no place of their own.
        place(&mut space, 0, 68 * block, 5 * block);
        assert_eq!((space.overflowed, borders(&mut space)), (1, vec![]));
    }

    #[test]
    fn an_address_beyond_any_volume_is_an_error() {
        let g = PageGeometry::new(512, 4).unwrap();
        let mut space = PageSpace::unbounded(g, u32::MAX);
        for (offset, len) in [(u64::MAX - 10, 5), (1, u64::MAX), (u64::MAX, u64::MAX)] {
            let error = space.place(0, g.split(offset, len), &mut Vec::new()).unwrap_err();
            assert!(error.to_string().contains("2^40 pages"), "{error}");
            let error = space.place_discard(0, g.split(offset, len).whole(), &mut Vec::new()).unwrap_err();
            assert!(error.to_string().contains("2^40 pages"), "{error}");
        }
    }

    #[test]
    fn pages_beyond_the_room_for_them_are_refused() {
        let g = PageGeometry::new(4096, 4).unwrap();
        let mut space = PageSpace::unbounded(g, 8);
        let mut spans = Vec::new();
        for block in [7, 1_000_000] {
            space.place(0, g.split(block * 16_384, 4096), &mut spans).unwrap();
        }
        // A known block has its place; a third one has none.
        space.place(0, g.split(7 * 16_384, 16_384), &mut spans).unwrap();
        let error = space.place(0, g.split(0, 4096), &mut spans).unwrap_err();
        assert_eq!(error, SpaceError::TooManyPages { limit: 8 });
        assert!(error.to_string().contains("raise memory"), "{error}");
    }
}
