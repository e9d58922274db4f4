//! Names the lists that are kept with an operation, for its steps to say which entries they mean.

/// Declares a list that is kept with an operation.
macro_rules! list {
    ($(#[$doc:meta])* $list:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $list {
            pub(crate) start: u32,
            pub(crate) len: u32,
        }

        impl $list {
            /// Has no entries.
            pub const EMPTY: Self = Self { start: 0, len: 0 };

            /// Counts its entries.
            pub const fn len(self) -> usize {
                self.len as usize
            }

            /// Returns true if there are none.
            pub const fn is_empty(self) -> bool {
                self.len == 0
            }

            /// Keeps entries behind those that are there.
            pub(crate) fn keep<T>(kept: &mut Vec<T>, entries: impl IntoIterator<Item = T>) -> Self {
                // All lists of a kind share one vector, so a step names its list in 8 bytes and is copied
                // freely.
                let start = kept.len();
                kept.extend(entries);
                Self { start: start as u32, len: (kept.len() - start) as u32 }
            }

            /// Returns its entries.
            pub(crate) fn of<T>(self, kept: &[T]) -> &[T] {
                &kept[self.start as usize..][..self.len as usize]
            }
        }
    };
}

list! {
    /// Names a list of buffers kept with the operation whose step names it, in the order in which the
    /// step wants them.
    List
}

list! {
    /// Names a list of row ranges kept with the operation whose step names it.
    RowList
}

list! {
    /// Names a list of puts kept with the operation whose step names it.
    PutList
}

list! {
    /// Names a list of spans kept with the operation whose step names it.
    SpanList
}

list! {
    /// Names bytes kept with the operation whose step names them.
    ByteList
}
