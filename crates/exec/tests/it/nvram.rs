//! The NVRAM's content: slots by their uses, and sets of rows.

use destage_exec::{MemoryNvram, RowSet};
use destage_plan::{NvHeld, NvSlot, Row, Rows};

#[test]
fn memory_ends_with_the_life_and_is_no_slot_of_the_nvram() {
    let held = NvSlot { index: NvSlot::FIRST_IN_MEMORY, generation: 1 };
    let kept = NvSlot { index: 0, generation: 1 };
    let mut nvram = MemoryNvram::default();
    nvram.put(held, [1; 24], b"held");
    nvram.put_copy(kept, [2; 24], held, 2);
    assert_eq!((nvram.bytes(held), nvram.bytes(kept)), (&b"held"[..], &b"he"[..]));
    assert_eq!(
        nvram.slots().collect::<Vec<_>>(),
        [NvHeld { slot: kept, tag: [2; 24], bytes: b"he", is_damaged: false }]
    );
    nvram.begin();
    assert!(nvram.holds(kept) && !nvram.holds(held));
    nvram.put(held, [1; 24], b"anew");
    nvram.free(held);
    assert!(!nvram.holds(held));
}

#[test]
fn ranges_join_rows_that_follow_each_other() {
    let mut rows = RowSet::default();
    assert!(rows.is_empty());
    rows.set(Rows::new(Row(62), 4), true);
    rows.set(Rows::new(Row(3), 1), true);
    rows.set(Rows::new(Row(64), 1), false);
    rows.set(Rows::new(Row(900), 2), false);
    assert_eq!(rows.ranges(), [Rows::new(Row(3), 1), Rows::new(Row(62), 2), Rows::new(Row(65), 1)]);
    assert!(rows.contains(Row(65)) && !rows.contains(Row(64)) && !rows.contains(Row(5000)));
    for (first, count) in (0..70).flat_map(|first| (0..70).map(move |count| (first, count))) {
        let asked = Rows::new(Row(first), count);
        assert_eq!(rows.holds_any(asked), asked.iter().any(|row| rows.contains(row)), "{asked:?}");
    }
}

#[test]
fn a_slot_is_known_by_its_generation() {
    let mut nvram = MemoryNvram::default();
    let (first, second) = (NvSlot { index: 2, generation: 1 }, NvSlot { index: 2, generation: 2 });
    nvram.put(first, [7; 24], b"page");
    assert_eq!(nvram.bytes(first), b"page");
    assert_eq!(
        nvram.slots().collect::<Vec<_>>(),
        [NvHeld { slot: first, tag: [7; 24], bytes: b"page", is_damaged: false }]
    );
    nvram.free(first);
    nvram.put(second, [8; 24], &[]);
    assert!(nvram.bytes(second).is_empty());
    assert!(std::panic::catch_unwind(|| nvram.bytes(first).len()).is_err());
}

#[test]
#[should_panic(expected = "is the name of the use before this one")]
fn each_use_of_a_slot_has_a_generation_of_its_own() {
    let mut nvram = MemoryNvram::default();
    let slot = NvSlot { index: 0, generation: 1 };
    nvram.put(slot, [7; 24], b"page");
    nvram.free(slot);
    nvram.begin();
    nvram.put(slot, [7; 24], b"another life");
    nvram.free(slot);
    nvram.put(slot, [7; 24], b"the same");
}
