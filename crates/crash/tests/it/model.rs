//! The model's rules of what a host may see after flushes, reads, cuts and discards.

use destage_crash::{ModelChange, SECTOR, SectorContent, SectorModel, sector_bytes};

fn bytes(value: SectorContent, sector: u64) -> Vec<u8> {
    sector_bytes(value, sector).to_vec()
}

fn model() -> SectorModel {
    SectorModel::new(8, 4, false)
}

#[test]
fn a_flush_covers_what_was_acknowledged_before_it_was_submitted() {
    let mut model = model();
    model.change(1, ModelChange::Write, 0, 1);
    model.changed(1, ModelChange::Write, 0, 1, true, false);
    model.change(2, ModelChange::Write, 0, 1);
    let flush = model.tick();
    model.changed(2, ModelChange::Write, 0, 1, true, false);
    model.flushed(flush);
    assert_eq!(model.possible(0), [1 << 16, 2 << 16]);
    let late = model.tick();
    model.flushed(late);
    assert_eq!(model.possible(0), [2 << 16]);
}

#[test]
fn a_read_sees_the_last_write_before_it_or_one_that_is_under_way() {
    let mut model = model();
    model.change(1, ModelChange::Write, 0, 1);
    model.changed(1, ModelChange::Write, 0, 1, true, false);
    let read = model.read_begins();
    model.change(2, ModelChange::Write, 0, 1);
    model.changed(2, ModelChange::Write, 0, 1, true, true);
    assert_eq!(model.possible(0), [2 << 16]);
    for (value, ok) in [(1, true), (2, true), (0, false)] {
        assert_eq!(model.clone().read(read, 0, &bytes(value << 16, 0)).is_ok(), ok, "{value}");
    }
    let after = model.read_begins();
    assert!(model.clone().read(after, 0, &bytes(1 << 16, 0)).is_err());
    assert!(model.clone().read(after, 0, &[7; SECTOR]).unwrap_err().found.is_none());
}

#[test]
fn after_a_cut_the_first_read_decides() {
    let mut model = model();
    model.change(1, ModelChange::Write, 0, 2);
    model.changed(1, ModelChange::Write, 0, 2, true, false);
    model.cut(2);
    let read = model.read_begins();
    assert!(model.read(read, 0, &[bytes(0, 0), bytes(1 << 16 | 1, 1)].concat()).is_ok());
    let read = model.read_begins();
    assert!(model.read(read, 0, &bytes(1 << 16, 0)).is_err());
    model.cut(3);
    let read = model.read_begins();
    assert!(model.read(read, 1, &bytes(0, 1)).is_err(), "what was read stays through another cut");
}

#[test]
fn a_durable_write_is_the_only_one_left() {
    let mut model = model();
    model.change(1, ModelChange::Write, 0, 1);
    model.changed(1, ModelChange::Write, 0, 1, true, true);
    model.change(2, ModelChange::Zero, 0, 1);
    model.changed(2, ModelChange::Zero, 0, 1, false, true);
    model.cut(3);
    assert_eq!(model.possible(0), [0, 1 << 16], "a failed request is not durable");
}

#[test]
fn a_discard_keeps_or_zeroes_whole_pages() {
    let mut model = model();
    model.change(1, ModelChange::Write, 0, 8);
    model.changed(1, ModelChange::Write, 0, 8, true, true);
    model.change(2, ModelChange::Discard, 1, 7);
    model.changed(2, ModelChange::Discard, 1, 7, true, false);
    assert_eq!(model.possible(1), [1 << 16 | 1], "the first page is covered in part");
    let read = model.read_begins();
    assert!(model.read(read, 4, &bytes(0, 4)).is_ok());
    let read = model.read_begins();
    assert!(model.read(read, 5, &bytes(1 << 16 | 5, 5)).is_err(), "the page was zeroed");
    model.cut(3);
    assert_eq!(model.possible(5), [0, 1 << 16 | 5], "the zeros were not flushed");
}
