//! Keeps data with an operation for its steps to name, and the bytes that steps have read.

use crate::lists::{KEPT, Lists};
use crate::{Buf, ByteList, Issue, List, NvPut, NvSlot, OpId, Out, PutList, RowList, Rows, Span, SpanList, StepNo};

impl Out {
    /// Keeps a list of buffers with the operation.
    pub fn list(&mut self, op: OpId, bufs: &[Buf]) -> List {
        List::keep(&mut self.lists_mut(op).bufs, bufs.iter().copied())
    }

    /// Keeps a list of slots with the operation.
    pub fn slots(&mut self, op: OpId, slots: &[NvSlot]) -> List {
        let lists = self.lists_mut(op);
        // A long list gives its memory back when the plan is dropped (`Lists::clear`).
        lists.more |= slots.len() > KEPT;
        List::keep(&mut lists.bufs, slots.iter().map(|slot| Buf::Nv(*slot)))
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
        let lists = self.lists_mut(op);
        lists.more |= rows.len() > KEPT;
        RowList::keep(&mut lists.rows, rows.iter().copied())
    }

    /// Returns the bytes that a step has read for the controller.
    ///
    /// They are there from the moment the controller is [told](Self::step_notify) that the step is done, as long as the
    /// operation's present plan. Empty for any other step.
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

    /// Returns the operation's lists, and marks those as used that few plans need.
    fn more_lists(&mut self, op: OpId) -> &mut Lists {
        let lists = self.lists_mut(op);
        lists.more = true;
        lists
    }
}
