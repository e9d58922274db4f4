//! A number for each of many places, and the last place whose number is above a limit.

/// A tree of maxima over the places `0..places`.
#[derive(Clone, Debug)]
pub(super) struct MaxTree {
    /// Node 1 is the root and node `i` the parent of `2i` and `2i + 1`; place `p` is node
    /// `leaves + p`.
    nodes: Vec<i64>,
    leaves: usize,
}

impl MaxTree {
    /// Less than the limits that are asked for.
    pub(super) const NOTHING: i64 = i64::MIN;

    /// Every place holds [`Self::NOTHING`].
    pub(super) fn new(places: u32) -> Self {
        // One place more than needed, so that there is a leaf behind the last.
        let leaves = (places as usize + 1).next_power_of_two();
        Self { nodes: vec![Self::NOTHING; 2 * leaves], leaves }
    }

    #[inline]
    pub(super) fn get(&self, place: u32) -> i64 {
        self.nodes[self.leaves + place as usize]
    }

    #[inline]
    pub(super) fn set(&mut self, place: u32, number: i64) {
        let mut node = self.leaves + place as usize;
        let mut greatest = number;
        while self.nodes[node] != greatest {
            self.nodes[node] = greatest;
            if node == 1 {
                return;
            }
            greatest = greatest.max(self.nodes[node ^ 1]);
            node /= 2;
        }
    }

    /// The last place before `end` whose number is above `limit`; `end` is at most the number of
    /// places.
    #[inline]
    pub(super) fn last_above(&self, limit: i64, end: u32) -> Option<u32> {
        let mut node = self.leaves + end as usize;
        while node & 1 == 0 || self.nodes[node - 1] <= limit {
            node /= 2;
            if node <= 1 {
                return None;
            }
        }
        node -= 1;
        while node < self.leaves {
            node = 2 * node + usize::from(self.nodes[2 * node + 1] > limit);
        }
        Some((node - self.leaves) as u32)
    }

    /// The last place with the greatest number.
    #[inline]
    pub(super) fn last_greatest(&self) -> Option<u32> {
        let greatest = self.nodes[1];
        if greatest == Self::NOTHING {
            return None;
        }
        let mut node = 1;
        while node < self.leaves {
            node = 2 * node + usize::from(self.nodes[2 * node + 1] == greatest);
        }
        Some((node - self.leaves) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_from_the_end() {
        for places in [1, 2, 3, 4, 5, 63, 64, 65, 200] {
            let mut tree = MaxTree::new(places);
            let mut naive = vec![MaxTree::NOTHING; places as usize];
            assert_eq!((tree.last_above(-1000, places), tree.last_greatest()), (None, None));
            let mut random = 12_345_u32;
            let mut below = |bound: u32| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 8) % bound
            };
            for _ in 0..2000 {
                let place = below(places);
                let number = if below(4) == 0 { MaxTree::NOTHING } else { i64::from(below(20)) - 10 };
                tree.set(place, number);
                naive[place as usize] = number;
                assert_eq!(tree.get(place), number);
                let (limit, end) = (i64::from(below(24)) - 12, below(places + 1));
                let last = naive[..end as usize].iter().rposition(|n| *n > limit);
                assert_eq!(tree.last_above(limit, end), last.map(|at| at as u32));
                let greatest = *naive.iter().max().expect("a place");
                let last = naive.iter().rposition(|n| *n == greatest && greatest > MaxTree::NOTHING);
                assert_eq!(tree.last_greatest(), last.map(|at| at as u32));
            }
        }
    }
}
