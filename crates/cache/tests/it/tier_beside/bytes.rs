//! Models the content of pages: the newest version, the one that the parity covers, and the base of deltas.

use std::ops::Range;

use super::PAGE;
use destage_testkit::TestRng;

/// A page.
pub type Page = [u8; PAGE as usize];

/// All pages of an array.
pub struct Bytes {
    pub newest: Vec<Page>,
    pub covered: Vec<Page>,
    pub base: Vec<Page>,
}

impl Bytes {
    pub fn new(pages: u64) -> Self {
        let zeros = vec![[0; PAGE as usize]; pages as usize];
        Self { newest: zeros.clone(), covered: zeros.clone(), base: zeros }
    }

    /// Changes some of these bytes of a page, or all of them. Returns the length in bytes of the delta against its base.
    pub fn change(&mut self, page: u64, bytes: Range<u64>, dice: &mut TestRng) -> u32 {
        let newest = &mut self.newest[page as usize];
        let all = bytes.end - bytes.start;
        let count = if dice.below(30) == 0 { all } else { dice.within(1, 5) };
        for at in 0..count {
            let at = bytes.start + if count == all { at } else { dice.below(all) };
            newest[at as usize] = dice.draw() as u8;
        }
        self.delta(page)
    }

    /// Zeroes bytes of a page.
    pub fn clear(&mut self, page: u64, bytes: Range<u64>) {
        self.newest[page as usize][bytes.start as usize..bytes.end as usize].fill(0);
    }

    fn delta(&self, page: u64) -> u32 {
        let newest = &self.newest[page as usize];
        let mut delta = [0; PAGE as usize];
        destage_delta::encode(&self.base[page as usize], newest, &mut delta) as u32
    }

    /// Parity P, and Q, of pages in the order of their columns.
    pub fn parity<'a>(pages: impl Iterator<Item = &'a [u8]>) -> [Page; 2] {
        let (mut p, mut q) = ([0; PAGE as usize], [0; PAGE as usize]);
        for (column, page) in pages.enumerate() {
            for (at, byte) in page.iter().enumerate() {
                p[at] ^= byte;
                q[at] ^= (0..column).fold(*byte, |byte, _| byte << 1 ^ if byte >> 7 == 1 { 0x1D } else { 0 });
            }
        }
        [p, q]
    }
}
