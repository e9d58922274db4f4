//! Finds the page right before another in the address space, for policies that look across the borders of
//! blocks.

use super::{BlockBorder, NO_BLOCK};

/// The order of pages by address.
#[derive(Clone, Debug)]
pub(super) struct AddressOrder {
    pages_per_block: u32,
    /// Block → the one right before it, [`NO_BLOCK`] or nothing where none is known; `None` where
    /// numbers are addresses.
    before: Option<Vec<u32>>,
}

impl AddressOrder {
    /// Pages are numbered by address.
    pub(super) fn new(pages_per_block: u32) -> Self {
        Self { pages_per_block, before: None }
    }

    /// Pages are so only within their blocks; these blocks, and those told of before, lie beside
    /// each other.
    pub(super) fn learn(&mut self, borders: &[BlockBorder]) {
        let before = self.before.get_or_insert_default();
        for border in borders {
            let after = border.after as usize;
            if before.len() <= after {
                before.resize(after + 1, NO_BLOCK);
            }
            before[after] = border.before;
        }
    }

    /// The page right before `page`.
    #[inline]
    pub(super) fn before(&self, page: u32) -> Option<u32> {
        match &self.before {
            // Within a block numbers follow addresses; only its first page needs the borders.
            Some(before) if page.is_multiple_of(self.pages_per_block) => {
                let block = *before.get((page / self.pages_per_block) as usize)?;
                (block != NO_BLOCK).then(|| block * self.pages_per_block + self.pages_per_block - 1)
            }
            _ => page.checked_sub(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_addresses_until_borders_are_told() {
        let mut neighbours = AddressOrder::new(4);
        assert_eq!(
            [0, 1, 4, u32::MAX].map(|page| neighbours.before(page)),
            [None, Some(0), Some(3), Some(u32::MAX - 1)]
        );
        neighbours.learn(&[]);
        assert_eq!(
            [0, 1, 3, 4, 5, 8].map(|page| neighbours.before(page)),
            [None, Some(0), Some(2), None, Some(4), None]
        );
        // Blocks 2, 0, 1 by address, told in two parts.
        neighbours.learn(&[BlockBorder { before: 2, after: 0 }]);
        neighbours.learn(&[BlockBorder { before: 0, after: 1 }]);
        assert_eq!([0, 4, 5, 8].map(|page| neighbours.before(page)), [Some(11), Some(3), Some(4), None]);
        // Blocks of one page.
        let mut pages = AddressOrder::new(1);
        pages.learn(&[BlockBorder { before: 7, after: 3 }]);
        assert_eq!([0, 3, 4].map(|page| pages.before(page)), [None, Some(7), None]);
    }
}
