//! Holds the lists that the steps of an operation name, and the bytes that steps have read for the controller.

use crate::{Buf, ByteList, NvPut, Rows, Span, StepNo};

/// The lists of an operation.
#[derive(Default)]
pub(crate) struct Lists {
    pub(crate) bufs: Vec<Buf>,
    pub(crate) rows: Vec<Rows>,
    /// Is true if one of the fields below may have entries, or one above is long. Most plans need none of them and are
    /// to be cleared quickly.
    pub(crate) more: bool,
    pub(crate) puts: Vec<NvPut>,
    pub(crate) spans: Vec<Span>,
    pub(crate) bytes: Vec<u8>,
    /// Holds the bytes that steps have read for the controller, one read after the other.
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
