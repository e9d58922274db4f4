//! The worked example of specs §9.5, row by row. Its log has no margin, so that no shape that is
//! accepted is like it.

use std::collections::BTreeMap;

use super::*;

const SHAPE: LogShape = LogShape { page_bytes: 128, pages: 4, usage_max: 3, entries: 4, frames: 6, array_pages: 100 };

/// Puts a clean entry of a frame, by the frame's letter.
fn put(log: &mut MetadataLog, facts: &mut BTreeMap<(u32, u64), FrameFact>, letter: u8) {
    let (frame, sequence) = (u32::from(letter - b'a'), log.next_sequence());
    let fact = FrameFact::Clean { page: sequence, checksum: None };
    facts.insert((frame, sequence), fact);
    assert_eq!(log.put(LogEntry { frame, sequence, fact }, None), None);
}

#[test]
fn five_pages_are_written_and_one_entry_again() {
    let (mut log, mut facts, mut free) = (MetadataLog::empty(SHAPE, 0, 0), BTreeMap::new(), Vec::new());
    let (mut bytes, mut written, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for letter in "abcd aefb caef bcae fbc".replace(' ', "").into_bytes() {
        put(&mut log, &mut facts, letter);
        while log.is_full() {
            let slot = log.seal(&mut bytes).expect("it is not full").expect("so many wait");
            let page: String = log.sealed().map(|entry| char::from(b'a' + entry.frame as u8)).collect();
            log.written(
                |frame, sequence| {
                    again.push(char::from(b'a' + frame as u8));
                    facts[&(frame, sequence)]
                },
                &mut free,
            );
            written.push((page, slot, log.usage(), log.head, log.waiting()));
        }
    }
    let rows = [
        ("abcd".to_owned(), 0, 1, 0, 0),
        ("aefb".to_owned(), 1, 2, 0, 0),
        ("caef".to_owned(), 2, 3, 0, 0),
        // d is put back.
        ("bcae".to_owned(), 3, 3, 1, 1),
        ("dfbc".to_owned(), 0, 3, 2, 0),
    ];
    assert_eq!(written, rows);
    assert_eq!((again.as_slice(), free.len()), (['d'].as_slice(), 0));
}

#[test]
fn nothing_is_allocated_once_as_many_have_waited() {
    let shape = LogShape { pages: 8, usage_max: 6, ..SHAPE };
    let (mut log, mut bytes, mut free) = (MetadataLog::new(shape).expect("a shape"), Vec::new(), Vec::with_capacity(8));
    let mut capacities = Vec::new();
    for round in 0..400 {
        for frame in 0..6 {
            let sequence = log.next_sequence();
            let slot = NvSlot { index: frame, generation: round };
            log.put(LogEntry { frame, sequence, fact: FrameFact::Dirty { page: 7, checksum: None } }, Some(slot));
        }
        while log.is_full() {
            log.seal(&mut bytes).expect("it is not full").expect("so many wait");
            log.written(|_, _| FrameFact::Dirty { page: 7, checksum: None }, &mut free);
        }
        free.clear();
        let [nodes, spare] = log.buffer.capacities();
        capacities.push([nodes, spare, log.sealed.capacity(), bytes.capacity()]);
    }
    assert!(capacities[10..].iter().all(|now| *now == capacities[10]), "{capacities:?}");
}
