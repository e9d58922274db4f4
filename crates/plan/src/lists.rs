//! What the steps of an operation name and is too long for them: lists that are kept with the
//! operation, and what steps have read for the controller.

use crate::{Buf, NvPut, Rows, Span, StepNo};

/// Declares a list that is kept with an operation.
macro_rules! list {
    ($(#[$doc:meta])* $list:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $list {
            pub(crate) start: u32,
            pub(crate) len: u32,
        }

        impl $list {
            /// Nothing.
            pub const EMPTY: Self = Self { start: 0, len: 0 };

            /// How many entries it has.
            pub const fn len(self) -> usize {
                self.len as usize
            }

            /// Whether there are none.
            pub const fn is_empty(self) -> bool {
                self.len == 0
            }

            /// Keeps entries behind those that are there.
            pub(crate) fn keep<T>(kept: &mut Vec<T>, entries: impl IntoIterator<Item = T>) -> Self {
                let start = kept.len();
                kept.extend(entries);
                Self { start: start as u32, len: (kept.len() - start) as u32 }
            }

            /// Its entries.
            pub(crate) fn of<T>(self, kept: &[T]) -> &[T] {
                &kept[self.start as usize..][..self.len as usize]
            }
        }
    };
}

list! {
    /// A list of buffers kept with the operation whose step names it, in the order in which the
    /// step wants them.
    List
}

list! {
    /// A list of row ranges kept with the operation whose step names it.
    RowList
}

list! {
    /// A list of puts kept with the operation whose step names it.
    PutList
}

list! {
    /// A list of spans kept with the operation whose step names it.
    SpanList
}

list! {
    /// Bytes kept with the operation whose step names them.
    ByteList
}

/// The lists of an operation.
#[derive(Default)]
pub(crate) struct Lists {
    pub(crate) bufs: Vec<Buf>,
    pub(crate) rows: Vec<Rows>,
    /// Whether the others may have entries, or one of these is long: most plans need none, and are to be cleared quickly.
    pub(crate) more: bool,
    pub(crate) puts: Vec<NvPut>,
    pub(crate) spans: Vec<Span>,
    pub(crate) bytes: Vec<u8>,
    /// What steps have read for the controller, and where it is.
    pub(crate) read: Vec<u8>,
    pub(crate) reads: Vec<(StepNo, ByteList)>,
}

/// Limits the entries of a list whose room is kept for the next operation in the same place. Few are longer, such as those that
/// clear intents, and in the end each place would have had one.
pub(crate) const KEPT: usize = 256;

impl Lists {
    pub(crate) fn clear(&mut self) {
        self.bufs.clear();
        self.rows.clear();
        if std::mem::take(&mut self.more) {
            self.clear_more();
        }
    }

    fn clear_more(&mut self) {
        if self.bufs.capacity() > KEPT {
            self.bufs = Vec::new();
        }
        if self.rows.capacity() > KEPT {
            self.rows = Vec::new();
        }
        self.puts.clear();
        self.spans.clear();
        self.bytes.clear();
        self.read.clear();
        self.reads.clear();
    }
}
