//! Deltas that are an LZ4 block of the exclusive or of old and new.

use std::fmt;

use lz4_flex::block::{
    CompressTable, DecompressError, compress_into_with_table, decompress_into, get_maximum_output_size,
};

use crate::{DeltaCodec, DeltaError};

/// Holds the compressor's tables, which are reused from page to page.
#[derive(Default)]
pub(crate) struct DeltaCompressor {
    table: CompressTable,
    /// The exclusive or of old and new.
    changes: Vec<u8>,
    /// The block, which may be longer than a page.
    block: Vec<u8>,
}

impl fmt::Debug for DeltaCompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl DeltaCompressor {
    /// Writes the delta to the front of `delta`, which is as long as a page; its length. None if it
    /// would be no shorter than the page.
    pub(crate) fn encode(&mut self, base: &[u8], new: &[u8], delta: &mut [u8]) -> Option<usize> {
        self.changes.clear();
        // What did not change becomes zeros, which compress to next to nothing.
        self.changes.extend(base.iter().zip(new).map(|(old, new)| old ^ new));
        self.block.resize(get_maximum_output_size(base.len()), 0);
        let len = compress_into_with_table(&self.changes, &mut self.block, &mut self.table).ok()?;
        // A delta as long as the page would be taken for the page itself.
        if 1 + len >= new.len() {
            return None;
        }
        delta[0] = DeltaCodec::Lz4.number();
        delta[1..=len].copy_from_slice(&self.block[..len]);
        Some(1 + len)
    }
}

/// Makes `page` of `base` and the block.
pub(crate) fn decode(base: &[u8], block: &[u8], page: &mut [u8]) -> Result<(), DeltaError> {
    let found = decompress_into(block, page).map_err(|error| DeltaError::Block(reason(&error)))?;
    if found != page.len() {
        return Err(DeltaError::Short { found, expected: page.len() });
    }
    page.iter_mut().zip(base).for_each(|(byte, old)| *byte ^= old);
    Ok(())
}

const fn reason(error: &DecompressError) -> &'static str {
    match error {
        DecompressError::OutputTooSmall { .. } => "it holds more bytes than a page",
        DecompressError::LiteralOutOfBounds => "it ends within bytes that stand for themselves",
        DecompressError::ExpectedAnotherByte => "it ends where another byte must follow",
        DecompressError::OffsetZero => "it repeats bytes from no bytes before",
        DecompressError::OffsetOutOfBounds => "it repeats bytes from before the page",
        _ => "it cannot be decompressed",
    }
}
