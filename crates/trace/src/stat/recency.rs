//! Counts how recently things were touched: the LRU stack, in which a touch finds each thing's place without
//! a walk along a list.
//!
//! An LRU list of so many things holds those on the places below that number, whatever the number is, since a
//! list drops the thing touched longest ago (R. L. Mattson et al., "Evaluation techniques for storage
//! hierarchies", IBM Systems Journal 9(2), 1970). A thing that is forgotten leaves a hole: a list that held
//! it has a free place, where a list too short for it has none. The thing touched next fills the uppermost
//! hole above its own place, or its own place becomes the hole instead: a list that holds the one and not the
//! other lets it in without dropping another.

use std::collections::BinaryHeap;

/// Never touched, or forgotten since.
const NEVER: u32 = u32::MAX;
/// Things that are told apart at most: twice as many moments have to have numbers.
pub const RECENCY_MOST: usize = 1 << 30;

/// Orders things by their last touch: a bit for each moment that is a place of the stack, and a Fenwick tree
/// of the bits in each word. Moments are numbered anew when they are used up.
#[derive(Clone, Debug, Default)]
pub struct RecencyStack {
    /// By number, the moment of the last touch.
    last: Vec<u32>,
    bits: Vec<u64>,
    /// Item i: the bits of the words from i + 1 less its lowest bit up to i.
    tree: Vec<u32>,
    /// Bits that are set.
    places: u32,
    /// Moments of the holes.
    holes: BinaryHeap<u32>,
    now: u32,
}

impl RecencyStack {
    /// Touches the thing of this number, below [`RECENCY_MOST`]: how many places lay above its own, those of other things
    /// touched since and holes, so that a list of more things than that holds it; `None` if it has no place.
    ///
    /// Memory is proportional to the highest number, a touch takes O(log n) time.
    pub fn touch(&mut self, number: usize) -> Option<u32> {
        if self.now as usize == self.bits.len() * 64 {
            self.renumber(number);
        }
        if number >= self.last.len() {
            self.last.resize(number + 1, NEVER);
        }
        let now = self.now;
        self.now += 1;
        let before = std::mem::replace(&mut self.last[number], now);
        let touched = before != NEVER;
        // The places after its last touch are those of other things that were touched since.
        let above = touched.then(|| self.places - self.up_to(before));
        // Without holes, which there seldom are, what is given up is the thing's own place.
        let hole = self.holes.peek().copied().filter(|&hole| !touched || hole > before);
        if hole.is_some() {
            self.holes.pop();
            if touched {
                self.holes.push(before);
            }
        }
        if let Some(gone) = hole.or(touched.then_some(before)) {
            self.bits[gone as usize / 64] &= !(1 << (gone % 64));
            self.add(gone, 1_u32.wrapping_neg());
        } else {
            self.places += 1;
        }
        self.bits[now as usize / 64] |= 1 << (now % 64);
        self.add(now, 1);
        above
    }

    /// Forgets a thing; its place is a hole.
    pub fn forget(&mut self, number: usize) {
        if let Some(last) = self.last.get_mut(number)
            && *last != NEVER
        {
            // The place stays as a hole, which the next thing from below fills: a buffer has room then too.
            self.holes.push(std::mem::replace(last, NEVER));
        }
    }

    /// Adds to the count of a moment's word.
    fn add(&mut self, moment: u32, n: u32) {
        let mut i = moment as usize / 64 + 1;
        while i <= self.tree.len() {
            self.tree[i - 1] = self.tree[i - 1].wrapping_add(n);
            i += i & i.wrapping_neg();
        }
    }

    /// Bits up to this moment, itself included.
    fn up_to(&self, moment: u32) -> u32 {
        let word = moment as usize / 64;
        let mut sum = (self.bits[word] << (63 - moment % 64)).count_ones();
        let mut i = word;
        while i > 0 {
            sum += self.tree[i - 1];
            i &= i - 1;
        }
        sum
    }

    /// Numbers the places from 0 on, and leaves at least as many moments again.
    fn renumber(&mut self, number: usize) {
        let mut before = 0;
        let below: Vec<u32> = self
            .bits
            .iter()
            .map(|bits| {
                let below = before;
                before += bits.count_ones();
                below
            })
            .collect();
        let bits = std::mem::take(&mut self.bits);
        let anew = |moment: u32| {
            let word = moment as usize / 64;
            below[word] + (bits[word] & !(u64::MAX << (moment % 64))).count_ones()
        };
        for last in self.last.iter_mut().filter(|last| **last != NEVER) {
            *last = anew(*last);
        }
        self.holes = self.holes.iter().map(|&hole| anew(hole)).collect();
        // Going through all numbers shall be worth it, however few of them have a place.
        let words = (self.last.len().max(number + 1) / 32 + 1).max(16);
        self.now = self.places;
        self.bits = vec![0; words];
        let full = self.places as usize / 64;
        self.bits[..full].fill(u64::MAX);
        self.bits[full] = !(u64::MAX << (self.places % 64));
        self.tree = self.bits.iter().map(|bits| bits.count_ones()).collect();
        for i in 1..=words {
            let over = i + (i & i.wrapping_neg());
            if over <= words {
                self.tree[over - 1] += self.tree[i - 1];
            }
        }
    }
}
