//! Metadata logs: what is read from the pages of a cache device and from the NVRAM.

use destage_cache::metadata_log::{
    ENTRY_BYTES, FrameFact, HEADER_BYTES, LogEntry, LogPage, LogReplay, LogShape, SEQUENCES, SPARE_SEQUENCES,
};
use destage_plan::NvSlot;

use crate::bytes::Bytes;

/// Bytes of a page: two entries and a bit.
const PAGE: u32 = 64;
/// Kind of the tags.
const KIND: u8 = 17;

/// Takes the shape of a log, its pages and tags of the NVRAM.
///
/// The input holds the number of pages and how many may be in use. For each page it says whether the header is put
/// right, and in which version, and gives header and rest. A replay says what is wrong, or finds a log that goes on and
/// can be read again.
pub(crate) fn check(bytes: &[u8]) {
    let mut input = Bytes::new(bytes);
    let (pages, usage_max) = (3 + u32::from(input.u8() % 4), u32::from(input.u8()) % 8);
    let shape = LogShape { page_bytes: PAGE, pages, usage_max, entries: 2, frames: 8, array_pages: 300 };
    let Ok(mut replay) = LogReplay::new(shape) else {
        // The shape is fixed but for the limit, so nothing else can be refused.
        assert!(usage_max == 0 || usage_max + 2 > pages, "only the limit is ever wrong");
        return;
    };
    let mut disk: Vec<Vec<u8>> = (0..pages).map(|_| page(&mut input)).collect();
    let mut tags = Vec::new();
    for index in 0..4 {
        let mut tag = [0; 24];
        tag.fill_with(|| input.u8());
        if let Ok(entry) = LogEntry::from_tag(&tag, KIND) {
            assert_eq!(entry.tag(KIND)[1..], tag[1..], "an entry is written in one way, whichever the version");
            tags.push((NvSlot { index, generation: 1 }, entry));
        }
    }
    let read = (0..).zip(&disk).try_for_each(|(number, page)| replay.page(number, page));
    let found = read
        .and_then(|()| tags.iter().try_for_each(|&(slot, entry)| replay.nvram(slot, entry)))
        .and_then(|()| replay.end());
    let mut found = match found {
        Ok(found) => found,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let entries: Vec<LogEntry> = found.entries().collect();
    tags.retain(|(slot, _)| !found.free.contains(slot));
    let fact = |frame, _| entries.iter().find(|entry| entry.frame == frame).expect("it was found").fact;
    let log = &mut found.log;
    // Numbers near their end stop a log on purpose; writing on would test that refusal alone.
    if log.last_sequence().max(log.next_page()) >= SEQUENCES - SPARE_SEQUENCES - u64::from(pages) {
        return;
    }
    // Once round, so every page is written over, unless the log is full.
    for _ in 0..pages {
        let (sequence, mut page, mut free) = (log.next_sequence(), Vec::new(), Vec::new());
        log.put(LogEntry { frame: 0, sequence, fact: FrameFact::Free }, None);
        let Ok(Some(slot)) = log.seal(&mut page) else { break };
        disk[slot as usize].clone_from(&page);
        log.written(fact, &mut free);
        tags.retain(|(slot, _)| !free.contains(slot));
        assert!(log.usage() < u64::from(pages));
    }
    let mut again = LogReplay::new(shape).expect("the shape was right");
    (0..).zip(&disk).try_for_each(|(number, page)| again.page(number, page)).expect("what was read or written");
    tags.iter().try_for_each(|&(slot, entry)| again.nvram(slot, entry)).expect("what was read");
    let again = again.end().expect("a log goes on");
    assert_eq!(again.log.next_page(), log.next_page());
}

fn page(input: &mut Bytes<'_>) -> Vec<u8> {
    let (right, mut page) = (input.u8(), Vec::new());
    page.resize_with(PAGE as usize, || input.u8());
    if right & 1 != 0 {
        page[..4].copy_from_slice(&[b'M', b'L', 1 + (right >> 3 & 1), 0]);
        // The count of entries is small, or nearly every page would be refused before an entry is read.
        page[14..HEADER_BYTES].copy_from_slice(&[right >> 1 & 3, 0]);
        let end = HEADER_BYTES + usize::from(right >> 1 & 3) * ENTRY_BYTES;
        page.iter_mut().skip(end).for_each(|byte| *byte = 0);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&page[..4]), &page[8..]);
        page[4..8].copy_from_slice(&checksum.to_le_bytes());
    }
    match LogPage::read(&page) {
        Ok(read) => {
            let entries = read.entries().zip(page[HEADER_BYTES..].chunks_exact(ENTRY_BYTES));
            for (entry, bytes) in entries {
                match entry {
                    Ok(entry) => assert_eq!(entry.encode(), bytes, "an entry is written in one way"),
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    page
}
