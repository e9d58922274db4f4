//! Checksums of the pages of a cache's device: kept when a page is written, compared when it is read.

use destage_plan::{Ext, PageChecksum, PageChecksums};

/// Returns the checksum of a page's bytes.
fn of(bytes: &[u8]) -> PageChecksum {
    PageChecksum::of_crc(crc32c::crc32c(bytes))
}

/// Returns each page of an extent that is as long as these bytes, with its bytes.
fn pages(ext: Ext, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    (ext.first()..).zip(bytes.chunks_exact(bytes.len() / usize::from(ext.pages())))
}

/// Keeps the checksums of the pages that are written to an extent.
pub(crate) fn keep(checksums: &mut PageChecksums, ext: Ext, bytes: &[u8]) {
    for (page, bytes) in pages(ext, bytes) {
        checksums.keep(page, Some(of(bytes)));
    }
}

/// Returns the first page of an extent that holds something else than what was written there, as far as that is known.
pub(crate) fn mismatch(checksums: &PageChecksums, ext: Ext, bytes: &[u8]) -> Option<u64> {
    let differs = |(page, bytes): &(u64, &[u8])| checksums.get(*page).is_some_and(|checksum| checksum != of(bytes));
    pages(ext, bytes).find(differs).map(|(page, _)| page)
}
