//! Checks the harness itself: if it saw only half of what goes wrong, nobody would notice.

use std::collections::BTreeSet;

use destage_crash::{ModelChange, PAGE_SECTORS, RandomDraws, SectorModel, sector_bytes};
use destage_exec::CutChoice;

/// The four sectors of a page.
const ALL: u128 = 0b1111;

#[test]
fn cuts_leave_all_that_a_cut_can_leave() {
    let mut seen = BTreeSet::new();
    let mut steps = BTreeSet::new();
    let (mut per_device, mut alike) = (0, 0);
    for seed in 0..400 {
        let mut dice = RandomDraws::new(seed);
        dice.draw_cut();
        let pages: Vec<u128> = (0..8).map(|page| dice.page(page % 2, page as u64, ALL)).collect();
        steps.insert(dice.nvram(3));
        let whole = pages.iter().all(|page| *page == 0 || *page == ALL);
        let even = pages.iter().step_by(2).all(|page| *page == pages[0]);
        let odd = pages.iter().skip(1).step_by(2).all(|page| *page == pages[1]);
        per_device += u32::from(whole && even && odd && pages[0] != pages[1]);
        alike += u32::from(pages.iter().all(|page| *page == pages[0]));
        seen.extend(pages);
    }
    assert_eq!(seen.len(), 16, "every part of a page is left by some cut");
    assert_eq!(steps, BTreeSet::from([0, 1, 2, 3]), "any number of steps of the NVRAM comes through");
    assert!(per_device > 20, "some cuts leave all of one device and nothing of another: {per_device} of 400");
    assert!((50..200).contains(&alike), "some cuts leave nothing, or everything: {alike} of 400");
}

/// A model of one page of which the first sector is looked at.
struct One {
    model: SectorModel,
    now: u64,
}

impl One {
    fn new(every_write: bool) -> Self {
        Self { model: SectorModel::new(PAGE_SECTORS, PAGE_SECTORS, every_write), now: 0 }
    }

    /// Writes the sector; the request's number.
    fn write(&mut self) -> u64 {
        self.now += 1;
        self.model.change(self.now, ModelChange::Write, 0, 1);
        self.now
    }

    fn acked(&mut self, request: u64, fua: bool) {
        self.model.changed(request, ModelChange::Write, 0, 1, true, fua);
    }

    fn cut(&mut self) {
        self.now += 1;
        self.model.cut(self.now);
    }

    /// Returns the requests (0 for zeros) whose content a read could return now.
    fn could_be(&self) -> Vec<u64> {
        (0..=self.now)
            .filter(|request| {
                let mut model = self.model.clone();
                let submitted = model.read_begins();
                model.read(submitted, 0, &sector_bytes(request << 16, 0)).is_ok()
            })
            .collect()
    }

    /// A read brings this request's bytes.
    fn read(&mut self, request: u64) {
        let submitted = self.model.read_begins();
        self.model.read(submitted, 0, &sector_bytes(request << 16, 0)).expect("it could be");
    }
}

#[test]
fn what_was_not_flushed_may_be_lost_and_is_then_lost_for_ever() {
    let mut one = One::new(false);
    let first = one.write();
    one.acked(first, false);
    assert_eq!(one.could_be(), [first], "an acknowledged write is read");
    let second = one.write();
    assert_eq!(one.could_be(), [second], "a read comes after what was submitted before it");
    one.cut();
    assert_eq!(one.could_be(), [0, first, second]);
    one.read(first);
    assert_eq!(one.could_be(), [first], "what it was found to be, it stays");
    one.cut();
    assert_eq!(one.could_be(), [first], "even through another cut");
}

#[test]
fn a_flush_covers_what_was_acknowledged_before_it_was_submitted() {
    let mut one = One::new(false);
    let first = one.write();
    one.acked(first, false);
    let second = one.write();
    let submitted = one.model.tick();
    one.acked(second, false);
    one.model.flushed(submitted);
    one.cut();
    assert_eq!(one.could_be(), [first, second], "the second was acknowledged after the flush was submitted");
}

#[test]
fn fua_and_the_regime_cover_a_write_by_its_answer() {
    for (every_write, fua) in [(false, true), (true, false)] {
        let mut one = One::new(every_write);
        let first = one.write();
        one.acked(first, fua);
        let second = one.write();
        one.cut();
        assert_eq!(one.could_be(), [first, second]);
    }
}

#[test]
fn bytes_of_another_place_are_nobodys() {
    let mut model = SectorModel::new(2 * PAGE_SECTORS, PAGE_SECTORS, false);
    model.change(1, ModelChange::Write, 0, 2);
    model.changed(1, ModelChange::Write, 0, 2, true, false);
    let submitted = model.read_begins();
    let swapped = [sector_bytes(1 << 16 | 1, 1), sector_bytes(1 << 16, 0)].concat();
    let wrong = model.read(submitted, 0, &swapped).expect_err("the sectors are swapped");
    assert_eq!((wrong.sector, wrong.found), (0, None));
}

#[test]
fn a_discard_takes_whole_pages_or_none() {
    let mut model = SectorModel::new(2 * PAGE_SECTORS, PAGE_SECTORS, false);
    model.change(1, ModelChange::Write, 0, 2 * PAGE_SECTORS);
    model.changed(1, ModelChange::Write, 0, 2 * PAGE_SECTORS, true, true);
    model.change(2, ModelChange::Discard, 1, 2 * PAGE_SECTORS - 1);
    model.changed(2, ModelChange::Discard, 1, 2 * PAGE_SECTORS - 1, true, false);
    let found = |zeros: std::ops::Range<u64>| {
        let mut model = model.clone();
        let submitted = model.read_begins();
        let bytes = (0..2 * PAGE_SECTORS)
            .flat_map(|sector| sector_bytes(if zeros.contains(&sector) { 0 } else { 1 << 16 | sector }, sector));
        model.read(submitted, 0, &bytes.collect::<Vec<_>>()).is_ok()
    };
    let page = PAGE_SECTORS;
    assert!(found(0..0) && found(page..2 * page), "the second page is covered, and goes or stays");
    assert!(!found(0..page) && !found(1..page), "the first is covered in part, and stays");
}
