//! What the steps of an operation name and is too long for them: lists that are kept with the
//! operation, and what steps have read for the controller.

use crate::{Buf, Issue, NvPut, NvSlot, OpId, Out, Rows, Span, StepNo};

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
    bufs: Vec<Buf>,
    rows: Vec<Rows>,
    /// Whether the others may have entries: most plans need none, and are to be cleared quickly.
    more: bool,
    puts: Vec<NvPut>,
    spans: Vec<Span>,
    bytes: Vec<u8>,
    /// What steps have read for the controller, and where it is.
    read: Vec<u8>,
    reads: Vec<(StepNo, ByteList)>,
}

impl Lists {
    pub(crate) fn clear(&mut self) {
        self.bufs.clear();
        self.rows.clear();
        if std::mem::take(&mut self.more) {
            self.clear_more();
        }
    }

    fn clear_more(&mut self) {
        self.puts.clear();
        self.spans.clear();
        self.bytes.clear();
        self.read.clear();
        self.reads.clear();
    }
}

impl Out {
    /// Keeps a list of buffers with the operation.
    pub fn list(&mut self, op: OpId, bufs: &[Buf]) -> List {
        List::keep(&mut self.lists_mut(op).bufs, bufs.iter().copied())
    }

    /// Keeps a list of slots with the operation.
    pub fn slots(&mut self, op: OpId, slots: &[NvSlot]) -> List {
        List::keep(&mut self.lists_mut(op).bufs, slots.iter().map(|slot| Buf::Nv(*slot)))
    }

    /// Keeps a list of puts with the operation.
    pub fn puts(&mut self, op: OpId, puts: &[NvPut]) -> PutList {
        PutList::keep(&mut self.more_lists(op).puts, puts.iter().copied())
    }

    /// Keeps a list of spans with the operation.
    pub fn spans(&mut self, op: OpId, spans: &[Span]) -> SpanList {
        SpanList::keep(&mut self.more_lists(op).spans, spans.iter().copied())
    }

    /// Keeps bytes with the operation.
    pub fn bytes(&mut self, op: OpId, bytes: &[u8]) -> ByteList {
        ByteList::keep(&mut self.more_lists(op).bytes, bytes.iter().copied())
    }

    /// Keeps a list of row ranges with the operation.
    pub fn rows(&mut self, op: OpId, rows: &[Rows]) -> RowList {
        RowList::keep(&mut self.lists_mut(op).rows, rows.iter().copied())
    }

    /// What a step has read for the controller, when that is [told](Self::step_notify) that it is
    /// done, and as long as the operation's present plan; nothing if it is another step or not
    /// done.
    pub fn read_bytes(&self, op: OpId, step: StepNo) -> &[u8] {
        let lists = self.lists(op);
        lists.reads.iter().find(|read| read.0 == step).map_or(&[], |read| read.1.of(&lists.read))
    }

    pub(crate) fn bufs(&self, op: OpId, list: List) -> &[Buf] {
        list.of(&self.lists(op).bufs)
    }

    pub(crate) fn put_list(&self, op: OpId, list: PutList) -> &[NvPut] {
        list.of(&self.lists(op).puts)
    }

    pub(crate) fn span_list(&self, op: OpId, list: SpanList) -> &[Span] {
        list.of(&self.lists(op).spans)
    }

    pub(crate) fn byte_list(&self, op: OpId, list: ByteList) -> &[u8] {
        list.of(&self.lists(op).bytes)
    }

    /// Keeps what a step has read for the controller.
    pub(crate) fn keep_read(&mut self, issue: Issue, bytes: &[u8]) {
        let lists = self.more_lists(issue.op);
        let read = ByteList::keep(&mut lists.read, bytes.iter().copied());
        lists.reads.push((issue.step, read));
    }

    pub(crate) fn row_list(&self, op: OpId, list: RowList) -> &[Rows] {
        list.of(&self.lists(op).rows)
    }

    /// Those that few plans need.
    fn more_lists(&mut self, op: OpId) -> &mut Lists {
        let lists = self.lists_mut(op);
        lists.more = true;
        lists
    }
}
