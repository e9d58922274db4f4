//! Counts the erases of an SSD's blocks.

use super::record;

record! {
    /// Blocks in one class of wear.
    pub struct WearClass {
        from: u64 ["1"] "fewest erases of a block in the class",
        to: u64 ["1"] "most erases of a block in the class",
        blocks: u64 ["1"] "blocks",
    }
}

/// Classes of wear at most.
const WEAR_CLASSES: u64 = 128;

impl WearClass {
    /// Counts the blocks by their erases, in classes of equal width. The width is 1 where that gives few
    /// enough classes. `erases` yields each block's erases, as often as it is called.
    pub(crate) fn of<I: Iterator<Item = u32>>(erases: impl Fn() -> I) -> Vec<Self> {
        let (least, most) = erases().fold((u32::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
        let width = (u64::from(most.saturating_sub(least)) + 1).div_ceil(WEAR_CLASSES);
        let mut classes = vec![0; WEAR_CLASSES as usize];
        for n in erases() {
            classes[(u64::from(n - least) / width) as usize] += 1;
        }
        let class = |(i, blocks)| {
            let from = u64::from(least) + i * width;
            Self { from, to: from + width - 1, blocks }
        };
        (0..).zip(classes).filter(|&(_, blocks)| blocks > 0).map(class).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_wear_hold_every_block_once() {
        let few = [3, 3, 5, 4, 3];
        let class = |from, to, blocks| WearClass { from, to, blocks };
        assert_eq!(WearClass::of(|| few.iter().copied()), [class(3, 3, 3), class(4, 4, 1), class(5, 5, 1)]);
        let many: Vec<u32> = (10..10 + 300).chain([5000]).collect();
        let classes = WearClass::of(|| many.iter().copied());
        assert_eq!(classes.iter().map(|c| c.blocks).sum::<u64>(), 301);
        assert!(classes.len() <= 128 && classes.iter().all(|c| c.to - c.from == 38), "{classes:?}");
        for c in &classes {
            let within = many.iter().filter(|&&n| (c.from..=c.to).contains(&u64::from(n))).count();
            assert_eq!(within as u64, c.blocks);
        }
        assert_eq!(WearClass::of(std::iter::empty), []);
    }
}
