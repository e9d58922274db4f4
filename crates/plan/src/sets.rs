//! Small sets in one machine word. Each kind of member has a kind of set of its own, so that a set
//! of devices cannot be taken for a set of columns or of steps.

use crate::{Column, Dev, StepNo};

/// Declares a set of up to 64 numbered things.
macro_rules! word_set {
    ($(#[$doc:meta])* $set:ident of $item:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $set(u64);

        impl $set {
            /// No member.
            pub const EMPTY: Self = Self(0);

            /// The first `count` members, counted from number 0.
            ///
            /// # Panics
            /// If there are more than 64.
            #[inline]
            pub const fn first(count: u32) -> Self {
                assert!(count <= 64, "a set has at most 64 members");
                // A shift by 64 would overflow, so the empty set is a case of its own.
                Self(if count == 0 { 0 } else { u64::MAX >> (64 - count) })
            }

            /// The members from number `first` to number `last`, both below 64; none if there are
            /// none between.
            #[inline]
            pub const fn between(first: u32, last: u32) -> Self {
                debug_assert!(first < 64 && last < 64);
                // Both shifts are below 64. Where `last` is below `first` the two words have no bit in common.
                Self((u64::MAX >> (63 - last)) & (u64::MAX << first))
            }

            /// One member.
            #[inline]
            pub const fn one(item: $item) -> Self {
                Self(1 << item.0)
            }

            /// The set whose member number i is told by bit i, as in formats that are kept.
            #[inline]
            pub const fn from_bits(bits: u64) -> Self {
                Self(bits)
            }

            /// Bit i says whether number i is a member.
            #[inline]
            pub const fn bits(self) -> u64 {
                self.0
            }

            /// Returns true if the set has no member.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Counts the members.
            #[inline]
            pub const fn len(self) -> u32 {
                self.0.count_ones()
            }

            /// Returns true if the set has exactly one member.
            #[inline]
            pub const fn is_single(self) -> bool {
                self.0.is_power_of_two()
            }

            /// Returns true if `item` is a member. Nothing numbered 64 or more is.
            #[inline]
            pub const fn contains(self, item: $item) -> bool {
                // Numbers are bytes, so a caller may ask for one that is too large to shift by.
                item.0 < 64 && self.0 >> item.0 & 1 != 0
            }

            /// Returns true if every member of `other` is one of this set.
            #[inline]
            pub const fn contains_all(self, other: Self) -> bool {
                other.0 & !self.0 == 0
            }

            /// Returns true if the sets have a member in common.
            #[inline]
            pub const fn meets(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// Makes `item` a member.
            #[inline]
            pub const fn insert(&mut self, item: $item) {
                self.0 |= 1 << item.0;
            }

            /// Makes sure that `item` is no member.
            #[inline]
            pub const fn remove(&mut self, item: $item) {
                self.0 &= !(1 << item.0);
            }

            /// The member with the lowest number.
            #[inline]
            pub const fn lowest(self) -> Option<$item> {
                if self.0 == 0 { None } else { Some($item(self.0.trailing_zeros() as u8)) }
            }

            /// The members, ascending.
            #[inline]
            pub fn iter(self) -> impl Iterator<Item = $item> {
                let mut left = self;
                std::iter::from_fn(move || {
                    let item = left.lowest()?;
                    left.0 &= left.0 - 1;
                    Some(item)
                })
            }
        }

        impl std::ops::BitOr for $set {
            type Output = Self;
            #[inline]
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $set {
            #[inline]
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        impl std::ops::BitAnd for $set {
            type Output = Self;
            #[inline]
            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        /// Returns the members of the first set that are not in the second.
        impl std::ops::Sub for $set {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        impl std::ops::SubAssign for $set {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                self.0 &= !other.0;
            }
        }

        impl FromIterator<$item> for $set {
            #[inline]
            fn from_iter<I: IntoIterator<Item = $item>>(items: I) -> Self {
                items.into_iter().fold(Self::EMPTY, |set, item| set | Self::one(item))
            }
        }

        impl std::fmt::Debug for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_set().entries(self.iter().map(|item| item.0)).finish()
            }
        }
    };
}

word_set! {
    /// Steps of one operation.
    StepSet of StepNo
}

word_set! {
    /// Devices: members of the array and cache devices.
    DevSet of Dev
}

word_set! {
    /// Columns of a stripe: the k data columns from number 0, then the parity columns.
    ColumnSet of Column
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_do_what_their_names_say() {
        let set = DevSet::from_iter([Dev(0), Dev(5), Dev(63)]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Dev(0), Dev(5), Dev(63)]);
        assert_eq!((set.len(), set.lowest()), (3, Some(Dev(0))));
        assert!(set.contains(Dev(63)) && !set.contains(Dev(64)) && !set.contains(Dev(200)));
        assert_eq!(set - DevSet::first(6), DevSet::one(Dev(63)));
        assert_eq!(DevSet::between(1, 3), DevSet::from_bits(0b1110));
        assert_eq!((DevSet::between(2, 1), DevSet::between(0, 63)), (DevSet::EMPTY, DevSet::first(64)));
        assert!(DevSet::first(64).contains_all(set) && !DevSet::first(63).contains_all(set));
        assert!(set.meets(DevSet::one(Dev(5))) && !set.meets(DevSet::one(Dev(4))));
        assert_eq!((set & DevSet::first(1), DevSet::first(0)), (DevSet::one(Dev(0)), DevSet::EMPTY));
        assert!(DevSet::one(Dev(7)).is_single() && !set.is_single() && !DevSet::EMPTY.is_single());
        let mut changed = set;
        changed.remove(Dev(5));
        changed.insert(Dev(1));
        assert_eq!(changed, DevSet::from_bits(1 << 63 | 0b11));
    }
}
