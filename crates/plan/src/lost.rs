//! Ranges of an array whose data cannot be known.

/// Pages of an array's data that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PageRange {
    /// The first.
    pub first: u64,
    /// Counts the pages.
    pub pages: u64,
}

impl PageRange {
    /// Every page of every array.
    pub const ALL: Self = Self { first: 0, pages: u64::MAX };

    /// The page behind the last.
    pub const fn end(self) -> u64 {
        // `ALL` has no page behind its last that a number could name.
        self.first.saturating_add(self.pages)
    }

    /// Returns true if the page lies in the range.
    pub const fn contains(self, page: u64) -> bool {
        self.first <= page && page < self.end()
    }

    /// The ranges of these pages, which are ascending.
    pub fn of_pages(pages: impl IntoIterator<Item = u64>) -> Vec<Self> {
        let mut ranges: Vec<Self> = Vec::new();
        for page in pages {
            match ranges.last_mut() {
                Some(last) if last.end() == page => last.pages += 1,
                _ => ranges.push(Self { first: page, pages: 1 }),
            }
        }
        ranges
    }
}

/// Summarises lost pages for a refusal: the first ranges, and how much there is in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPages {
    // A refusal is copied freely, and a list of all ranges could be as long as the array.
    named: [PageRange; Self::NAMED],
    count: u8,
    pages: u64,
    ranges: u64,
}

impl LostPages {
    /// Ranges that are named.
    pub const NAMED: usize = 8;

    /// These ranges, the first of them by name.
    pub fn new(ranges: &[PageRange]) -> Self {
        let mut named = [PageRange::default(); Self::NAMED];
        let count = ranges.len().min(Self::NAMED);
        named[..count].copy_from_slice(&ranges[..count]);
        let pages = ranges.iter().map(|range| range.pages).sum();
        Self { named, count: count as u8, pages, ranges: ranges.len() as u64 }
    }

    /// The first ranges, ascending.
    pub fn named(&self) -> &[PageRange] {
        &self.named[..usize::from(self.count)]
    }

    /// Pages of all ranges.
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Ranges that are not named.
    pub const fn unnamed(&self) -> u64 {
        self.ranges - self.count as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ranges_are_named_and_the_rest_counted() {
        let pages = (0..40).filter(|page| page % 4 != 3).chain([100, 101]);
        let ranges = PageRange::of_pages(pages);
        assert_eq!(ranges.len(), 11);
        let lost = LostPages::new(&ranges);
        assert_eq!((lost.named().len(), lost.unnamed(), lost.pages()), (8, 3, 32));
        assert_eq!(lost.named()[1], PageRange { first: 4, pages: 3 });
        assert_eq!((LostPages::new(&[]).named(), LostPages::new(&ranges[..3]).unnamed()), ([].as_slice(), 0));
        assert!(PageRange::ALL.contains(u64::MAX - 1) && !ranges[1].contains(7) && ranges[1].contains(6));
    }
}
