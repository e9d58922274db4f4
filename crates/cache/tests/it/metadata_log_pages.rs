//! The metadata log's bytes, what is found in pages that no log leaves, and what happens when all
//! that it holds is live.

use destage_cache::metadata_log::{
    DeltaPlace, EntryError, FrameFact, HEADER_BYTES, LogEntry, LogFormat, LogPage, LogReplay, LogShape, MetadataLog,
    PageError, ReplayError, ReplayedLog,
};
use destage_plan::{NvSlot, PageChecksum};

const SHAPE: LogShape =
    LogShape { page_bytes: 96, pages: 4, usage_max: 2, entries: 3, frames: 0x0001_0305, array_pages: 0x01_0203_0406 };
/// Few frames, since a replay keeps something for each.
const SMALL: LogShape = LogShape { frames: 6, ..SHAPE };

fn clean(frame: u32, sequence: u64) -> LogEntry {
    LogEntry { frame, sequence, fact: FrameFact::Clean { page: u64::from(frame), checksum: None } }
}

/// Writes entries as one page.
fn append(log: &mut MetadataLog, disk: &mut [Vec<u8>], entries: &[(u32, FrameFact)]) {
    for &(frame, fact) in entries {
        let sequence = log.next_sequence();
        assert_eq!(log.put(LogEntry { frame, sequence, fact }, None), None);
    }
    let mut bytes = Vec::new();
    let slot = log.seal(&mut bytes).expect("it is not full").expect("something waits");
    disk[slot as usize] = bytes;
    log.written(|frame, _| FrameFact::Clean { page: frame.into(), checksum: None }, &mut Vec::new());
}

/// A log of pages with one clean entry each.
fn written(pages: u32) -> Vec<Vec<u8>> {
    let (mut log, mut disk) = (MetadataLog::new(SMALL).expect("a shape"), blank());
    (0..pages).for_each(|page| {
        append(&mut log, &mut disk, &[(page % 2, FrameFact::Clean { page: (page % 2).into(), checksum: None })]);
    });
    disk
}

fn blank() -> Vec<Vec<u8>> {
    vec![vec![0; SMALL.page_bytes as usize]; SMALL.pages as usize]
}

fn replay(shape: LogShape, disk: &[Vec<u8>]) -> Result<ReplayedLog, ReplayError> {
    let mut replay = LogReplay::new(shape)?;
    (0..).zip(disk).try_for_each(|(number, page)| replay.page(number, page))?;
    replay.end()
}

fn refused(disk: &[Vec<u8>]) -> String {
    replay(SMALL, disk).expect_err("no log leaves this").to_string()
}

/// Puts a page's checksum right.
fn seal(page: &mut [u8]) {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&page[..4]), &page[8..]);
    page[4..8].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn the_bytes_of_a_page_and_of_a_tag_are_these() {
    let mut log = MetadataLog::new(SHAPE).expect("a shape");
    let delta = Some(DeltaPlace { frame: 0x0001_0302, offset: 0x056, len: 10 });
    let old = LogEntry {
        frame: 0x0001_0304,
        sequence: 0x0a0b_0c0d_0e0f,
        fact: FrameFact::Old { page: 0x01_0203_0405, delta },
    };
    let checksum = PageChecksum::from_number(0x8b7a_6958);
    let checked = LogEntry { fact: FrameFact::Clean { page: 0x01_0203_0405, checksum }, ..clean(7, 0x0a0b_0c0d_0e11) };
    for entry in [old, LogEntry { fact: FrameFact::Free, ..clean(5, 0x0a0b_0c0d_0e10) }, checked] {
        assert_eq!(log.put(entry, None), None);
    }
    let mut bytes = Vec::new();
    assert_eq!(log.seal(&mut bytes), Ok(Some(0)));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let first = "0403010081810040".to_owned() + "0504030201569000" + "0f0e0d0c0b0a";
    let second = "05000080ffffff3f".to_owned() + "ffffffffff000000" + "100e0d0c0b0a";
    let third = "07000000ac343d00".to_owned() + "05040302018b0100" + "110e0d0c0b0a";
    assert_eq!(hex(&bytes[..4]), "4d4c0200");
    assert_eq!(hex(&bytes[8..HEADER_BYTES]), "0000000000000300");
    assert_eq!(hex(&bytes[HEADER_BYTES..82]), first.clone() + &second + &third);
    assert_eq!(hex(&bytes[82..]), "00".repeat(14));
    assert_eq!(hex(&bytes[4..8]), "11435097");
    assert_eq!(hex(&old.tag(0x12)), "0212".to_owned() + &first);
}

#[test]
fn a_page_after_the_newest_may_be_torn_and_no_other() {
    for pages in 0..14 {
        let disk = written(pages);
        let found = replay(SMALL, &disk).expect("a log");
        assert_eq!((found.torn, found.log.next_page()), (None, pages.into()));
        for damaged in 0..SMALL.pages {
            let mut disk = disk.clone();
            disk[damaged as usize][50] ^= 1;
            let found = replay(SMALL, &disk);
            if damaged == pages % SMALL.pages {
                let found = found.expect("what a cut leaves");
                assert_eq!(found.torn.expect("it is told").0, damaged);
                assert_eq!((found.entries().count(), found.log.next_page()), (pages.min(2) as usize, pages.into()));
            } else if pages > 0 && damaged == (pages - 1) % SMALL.pages {
                // The newest page: this cannot be told from a write that was cut.
                assert_eq!(found.expect("what a cut leaves").log.next_page(), u64::from(pages) - 1);
            } else {
                let error = found.expect_err("a hole").to_string();
                assert!(
                    error.starts_with(&format!("page {damaged} of the metadata log: its checksum is"))
                        || error.starts_with(&format!("page {damaged} of the metadata log: it begins with bytes")),
                    "{pages}: {error}"
                );
            }
        }
    }
}

#[test]
fn what_no_log_leaves_is_refused_by_page_and_field() {
    let mut disk = written(7);
    disk[0] = blank().remove(0);
    assert_eq!(refused(&disk), "page 0 of the metadata log: it is blank");
    // A page that was not written, though the next was.
    let mut disk = written(7);
    disk[1] = written(2).swap_remove(1);
    assert_eq!(refused(&disk), "page 1 of the metadata log has sequence 1; it must have 5, since the newest has 6");
    let mut disk = written(7);
    disk.swap(0, 1);
    assert_eq!(refused(&disk), "page 0 of the metadata log has sequence 5, which belongs into page 1 of 4");
    let mut replay = LogReplay::new(SMALL).expect("a shape");
    assert_eq!(replay.page(1, &written(7)[1]), Ok(()));
    assert_eq!(replay.end().expect_err("three were not read"), ReplayError::Missing(0));
    let given = LogReplay::new(SMALL).expect("a shape").page(4, &[0; 96]).expect_err("there is none");
    assert_eq!(given.to_string(), "page 4 of the metadata log was given with 96 bytes; there are 4 pages of 96");
    let altered = |change: fn(&mut [u8])| {
        let mut disk = written(7);
        change(&mut disk[2]);
        seal(&mut disk[2]);
        refused(&disk)
    };
    assert_eq!(altered(|page| page[2] = 3), "page 2 of the metadata log: its version is 3; it must be 1 or 2");
    assert_eq!(altered(|page| page[3] = 1), "page 2 of the metadata log: byte 3 is not zero");
    assert_eq!(altered(|page| page[95] = 1), "page 2 of the metadata log: byte 95 is not zero");
    assert_eq!(altered(|page| page[14] = 4), "page 2 of the metadata log: it has 4 entries; at most 3 go into a page");
    assert_eq!(altered(|page| page[14] = 2), "entry 1 in page 2 of the metadata log: its sequence is 0");
    assert_eq!(
        altered(|page| page[16] = 6),
        "entry 0 in page 2 of the metadata log: frame 6 is named; the cache has 6"
    );
    assert_eq!(
        altered(|page| page[13] = 0xf0),
        "sequence 263882790666246 is in use; the last are kept for the next life, from 263882790666240 on"
    );
    let fewer = replay_of_two_entries(LogShape { entries: 1, ..SMALL });
    assert_eq!(fewer.to_string(), "page 0 of the metadata log has 2 entries; it is to have at most 1");
    let other = LogEntry { fact: FrameFact::Dirty { page: SMALL.array_pages, checksum: None }, ..clean(0, 1) };
    let error = LogReplay::new(SMALL).expect("a shape").nvram(NvSlot { index: 9, generation: 1 }, other).unwrap_err();
    assert_eq!(
        error,
        ReplayError::Nvram { slot: 9, error: EntryError::Page { found: SMALL.array_pages, pages: SMALL.array_pages } }
    );
    assert_eq!(LogPage::read(&[0x4d; 15]).unwrap_err(), PageError::Short(15));
}

#[test]
fn pages_of_the_first_version_are_read() {
    let now = written(7);
    let mut before = now.clone();
    for page in &mut before {
        page[2] = 1;
        seal(page);
    }
    let entries = |disk: &[Vec<u8>]| replay(SMALL, disk).expect("a log").entries().collect::<Vec<_>>();
    assert!(entries(&now).len() > 1);
    assert_eq!(entries(&before), entries(&now));
}

fn replay_of_two_entries(shape: LogShape) -> ReplayError {
    let (mut log, mut disk) = (MetadataLog::new(SMALL).expect("a shape"), blank());
    append(&mut log, &mut disk, &[(0, FrameFact::Free), (1, FrameFact::Free)]);
    replay(shape, &disk).expect_err("two are in a page")
}

#[test]
fn a_log_that_is_made_anew_is_believed_once_it_is_whole() {
    let old = written(7);
    let format = LogFormat::after(SMALL, 7, 99).expect("a shape");
    for (start, done) in [old, blank()].iter().flat_map(|start| (0..=4).map(move |done| (start, done))) {
        let mut disk = start.clone();
        (0..done).for_each(|slot| format.page(slot, &mut disk[slot as usize]));
        let found = replay(SMALL, &disk);
        if done == SMALL.pages {
            let found = found.expect("it is whole");
            assert_eq!((found.entries().count(), found.log.next_page(), found.torn), (0, 16, None));
            let mut log = format.log();
            assert_eq!((log.next_page(), log.next_sequence()), (16, 100));
            append(&mut log, &mut disk, &[(3, FrameFact::Clean { page: 3, checksum: None })]);
            let entries: Vec<_> = replay(SMALL, &disk).expect("a log").entries().collect();
            assert_eq!(entries, [clean(3, 101)]);
        } else if done > 0 && !(done == 3 && start[3].iter().all(|byte| *byte == 0)) {
            assert!(found.is_err(), "{done} pages of two lives: {found:?}");
        }
    }
}

#[test]
fn a_log_without_room_says_so_and_goes_on_when_there_is() {
    // Two pages of three entries may be in use.
    let (mut log, mut disk) = (MetadataLog::new(LogShape { frames: 9, ..SMALL }).expect("a shape"), blank());
    let fact = |frame: u32| FrameFact::Clean { page: frame.into(), checksum: None };
    for frame in 0..9 {
        let sequence = log.next_sequence();
        log.put(LogEntry { frame, sequence, fact: fact(frame) }, Some(NvSlot { index: frame, generation: 1 }));
    }
    let mut round = |log: &mut MetadataLog, free: &mut Vec<NvSlot>| {
        let mut bytes = Vec::new();
        log.seal(&mut bytes).map(|slot| {
            disk[slot.expect("something waits") as usize] = bytes;
            log.written(|frame, _| fact(frame), free);
        })
    };
    let (mut free, mut rounds) = (Vec::new(), 0);
    let full = loop {
        match round(&mut log, &mut free) {
            Ok(()) => rounds += 1,
            Err(full) => break full,
        }
        assert!(rounds < 20, "it must be told");
    };
    // Three pages of what is new, then once round nothing but what was there before.
    assert_eq!((rounds, free.len()), (3 + 4, 9));
    assert!(
        full.to_string().starts_with("the metadata log is full: 2 of its 4 pages may be in use, with 3 entries each")
    );
    for frame in 0..4 {
        let sequence = log.next_sequence();
        log.put(LogEntry { frame, sequence, fact: FrameFact::Free }, Some(NvSlot { index: frame, generation: 2 }));
    }
    for _ in 0..6 {
        if log.waiting() > 0 {
            round(&mut log, &mut free).expect("there is room");
        }
    }
    let mut live: Vec<_> = replay(LogShape { frames: 9, ..SMALL }, &disk).expect("a log").entries().collect();
    live.retain(|entry| entry.fact != FrameFact::Free);
    assert_eq!(live.iter().map(|entry| entry.frame).collect::<Vec<_>>(), [4, 5, 6, 7, 8]);
}

#[test]
fn an_entry_that_comes_late_changes_nothing() {
    let mut log = MetadataLog::new(SMALL).expect("a shape");
    let slot = |index| Some(NvSlot { index, generation: 1 });
    let (older, newer) = (clean(2, log.next_sequence()), clean(2, log.next_sequence()));
    assert_eq!(log.put(newer, slot(5)), None);
    assert_eq!(log.put(older, slot(6)), slot(6), "its own slot is not needed");
    assert_eq!(log.seal(&mut Vec::new()), Ok(Some(0)));
    assert_eq!(log.sealed().collect::<Vec<_>>(), [&newer]);
    assert_eq!(log.put(older, slot(6)), slot(6));
    let mut free = Vec::new();
    log.written(|_, _| newer.fact, &mut free);
    assert_eq!((log.put(older, slot(6)), log.waiting(), log.sequence_of(2)), (slot(6), 0, Some(2)));
    assert_eq!(free, [slot(5).expect("a slot")]);
}
