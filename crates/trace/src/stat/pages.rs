//! The set of pages that a trace touches.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Pages in a group: the bits of a word.
const GROUP_PAGES: u64 = 64;

/// Requests of at least this many pages are kept as ranges: no device has so large ones, but a file
/// may claim them, and their bits would fill the memory.
pub(super) const LONG_PAGES: u64 = 1 << 16;

/// Selects the set of a page: read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessDirection {
    Read = 0,
    Write = 1,
}

/// Groups that are stored side by side: together they fill a line of the processor's cache.
const CHUNK_GROUPS: usize = 4;
/// Chunks of the first volume below this number are found in a table, others in a map; the table
/// never takes more than 1 MiB.
const TABLE_CHUNKS: u64 = 1 << 18;
/// No pages of this chunk were touched.
const UNTOUCHED: u32 = u32::MAX;

/// The bits of the pages of a group that were read and written.
type PageGroup = [u64; 2];

/// Pages read and pages written. A page of a volume is counted once for each, and once for both
/// together.
#[derive(Default)]
pub(super) struct PageSet {
    chunks: Vec<[PageGroup; CHUNK_GROUPS]>,
    /// Volume and number of each chunk.
    chunk_keys: Vec<(u32, u64)>,
    /// Holds the index of each low chunk of volume 0, [`UNTOUCHED`] if there is none.
    table: Vec<u32>,
    /// Holds the index of each other chunk.
    map: HashMap<(u32, u64), u32, FixedState>,
    /// The long requests, read and written.
    long: [PageRanges; 2],
}

impl PageSet {
    /// Adds `pages` pages from `first` on.
    #[inline]
    pub(super) fn touch(&mut self, volume: u32, first: u64, pages: u64, direction: AccessDirection) {
        // A long request is one range: a bit for each page would take memory for nothing.
        if pages >= LONG_PAGES {
            self.long[direction as usize].add(volume, first, first.saturating_add(pages));
            return;
        }
        let mut page = first;
        let mut left = pages;
        while left > 0 {
            let at = page % GROUP_PAGES;
            let n = left.min(GROUP_PAGES - at);
            let bits = (u64::MAX >> (GROUP_PAGES - n)) << at;
            self.group(volume, page / GROUP_PAGES)[direction as usize] |= bits;
            page += n;
            left -= n;
        }
    }

    #[inline]
    fn group(&mut self, volume: u32, group: u64) -> &mut PageGroup {
        let key = group / CHUNK_GROUPS as u64;
        // Most traces have one volume, whose first pages a table finds without hashing.
        let known = if volume == 0 { self.table.get(key as usize).copied() } else { None };
        let chunk = known.filter(|&chunk| chunk != UNTOUCHED).unwrap_or_else(|| self.find_or_add(volume, key));
        &mut self.chunks[chunk as usize][(group % CHUNK_GROUPS as u64) as usize]
    }

    fn find_or_add(&mut self, volume: u32, key: u64) -> u32 {
        let fresh = self.chunks.len() as u32;
        let chunk = if volume == 0 && key < TABLE_CHUNKS {
            if self.table.len() <= key as usize {
                self.table.resize(key as usize + 1, UNTOUCHED);
            }
            self.table[key as usize] = fresh;
            fresh
        } else {
            *self.map.entry((volume, key)).or_insert(fresh)
        };
        if chunk == fresh {
            self.chunks.push(Default::default());
            self.chunk_keys.push((volume, key));
        }
        chunk
    }

    /// Chunks and ranges.
    pub(super) fn entries(&self) -> usize {
        self.chunks.len() + self.long.iter().map(|long| long.0.len()).sum::<usize>()
    }

    /// Different pages in all, read, and written.
    pub(super) fn count(&self) -> [u64; 3] {
        let [read, written] = &self.long;
        let mut either = read.clone();
        for (&(volume, start), &end) in &written.0 {
            either.add(volume, start, end);
        }
        let mut sums = [either.pages(), read.pages(), written.pages()];
        for (&(volume, key), chunk) in self.chunk_keys.iter().zip(&self.chunks) {
            for (group, &[r, w]) in (key * CHUNK_GROUPS as u64..).zip(chunk) {
                for ((sum, bits), long) in sums.iter_mut().zip([r | w, r, w]).zip([&either, read, written]) {
                    // Pages that a range has too are counted with the range.
                    let alone = if bits == 0 { 0 } else { bits & !long.mask(volume, group) };
                    *sum = sum.saturating_add(u64::from(alone.count_ones()));
                }
            }
        }
        sums
    }
}

/// Disjoint ranges of pages, of which no two touch: by volume and first page, the page after the
/// last.
#[derive(Clone, Default)]
struct PageRanges(BTreeMap<(u32, u64), u64>);

impl PageRanges {
    fn add(&mut self, volume: u32, mut start: u64, mut end: u64) {
        // The range that reaches furthest into the new one from below, then all that begin inside
        // it.
        if let Some((&(_, s), &e)) = self.0.range((volume, 0)..=(volume, start)).next_back()
            && e >= start
        {
            start = s;
            end = end.max(e);
        }
        while let Some((&key, &e)) = self.0.range((volume, start)..=(volume, end)).next() {
            end = end.max(e);
            self.0.remove(&key);
        }
        self.0.insert((volume, start), end);
    }

    fn pages(&self) -> u64 {
        self.0.iter().fold(0, |sum: u64, (&(_, start), &end)| sum.saturating_add(end - start))
    }

    /// The bits of a group's pages that lie in a range.
    fn mask(&self, volume: u32, group: u64) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        let low = group * GROUP_PAGES;
        let high = low + GROUP_PAGES;
        let below = self.0.range((volume, 0)..(volume, high)).rev();
        below.take_while(|&(_, &end)| end > low).fold(0, |mask, (&(_, start), &end)| {
            let from = start.max(low) - low;
            let n = end.min(high) - low - from;
            mask | (u64::MAX >> (GROUP_PAGES - n)) << from
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn long_ranges_and_bits_count_each_page_once() {
        let mut set = PageSet::default();
        let long = LONG_PAGES;
        set.touch(0, 10, long, AccessDirection::Write);
        set.touch(0, 0, 64, AccessDirection::Write);
        assert_eq!(set.count(), [long + 10, 0, long + 10]);
        set.touch(0, long + 5, 10, AccessDirection::Read);
        assert_eq!(set.count(), [long + 15, 10, long + 10]);
        set.touch(1, 0, 3, AccessDirection::Read);
        assert_eq!(set.count(), [long + 18, 13, long + 10]);
        set.touch(0, long + 10, long, AccessDirection::Read);
        assert_eq!(set.count(), [2 * long + 13, long + 8, long + 10]);
        set.touch(0, 0, 1 << 55, AccessDirection::Read);
        assert_eq!(set.count(), [(1 << 55) + 3, (1 << 55) + 3, long + 10]);
        set.touch(0, 0, 1 << 55, AccessDirection::Write);
        assert_eq!(set.count(), [(1 << 55) + 3, (1 << 55) + 3, 1 << 55]);
    }

    #[test]
    fn ranges_are_a_set() {
        let mut x = 12_345_u64;
        for _ in 0..200 {
            let mut ranges = PageRanges::default();
            let mut model = BTreeSet::new();
            for _ in 0..12 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (volume, start, n) = ((x >> 60) as u32 % 2, (x >> 40) % 300, (x >> 30) % 60 + 1);
                ranges.add(volume, start, start + n);
                model.extend((start..start + n).map(|page| (volume, page)));
            }
            assert_eq!(ranges.pages(), model.len() as u64);
            for volume in 0..2 {
                for group in 0..6 {
                    let bits = (0..64).filter(|bit| model.contains(&(volume, group * 64 + bit)));
                    assert_eq!(ranges.mask(volume, group), bits.fold(0, |mask, bit| mask | 1 << bit));
                }
            }
        }
    }
}
