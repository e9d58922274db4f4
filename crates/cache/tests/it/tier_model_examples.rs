//! The model of the caches on an SSD against the worked examples of specs §9, and what must hold of it
//! whatever is asked.

use std::collections::VecDeque;

use destage_testkit::{TestRng, soak};

use crate::tier_model::counters::{Ask, Cause, Column, For, Key, Outcome, Place};
use crate::tier_model::log::{Entry, Fact, Log};
use crate::tier_model::params::{DazFull, Method, Params, RcwFromCache, Rewrite, Shape, TooLong};
use crate::tier_model::sets::Slot::{self, Clean, Old};
use crate::tier_model::{Model, Op, build};

const EXAMPLE: [(Op, u64); 7] =
    [(Op::Read, 0), (Op::Write, 1), (Op::Write, 0), (Op::Write, 1), (Op::Write, 0), (Op::Read, 0), (Op::Write, 2)];

/// RAID-5 of three data columns, and a cache that never fills.
fn roomy() -> Params {
    Params { log_pages: 16, ..Params::new(Shape { k: 3, m: 1, chunk: 1 }, 2048) }
}

/// Member reads, member writes and SSD writes but for the log's.
type Costs = (usize, usize, usize);

fn costs(out: &Outcome) -> Costs {
    let count = |of: fn(Ask) -> bool| out.asks().filter(|&ask| of(ask)).count();
    (
        count(|ask| matches!(ask, Ask::MemberRead { .. })),
        count(|ask| matches!(ask, Ask::MemberWrite { .. })),
        count(|ask| matches!(ask, Ask::SsdWrite { cause, .. } if cause != Cause::Metadata)),
    )
}

/// Runs the example of §9.1, and then the cleaning.
fn rows(name: &str) -> (Vec<Costs>, Box<dyn Model>) {
    let mut model = build(name, roomy());
    let mut rows = Vec::new();
    for (op, page) in EXAMPLE {
        let out = model.access(op, page, Some(1024));
        model.check();
        rows.push(costs(&out));
    }
    rows.push(costs(&model.clean_all()));
    model.check();
    (rows, model)
}

#[test]
fn the_table_of_9_1() {
    let none = [(1, 0, 0), (2, 2, 0), (2, 2, 0), (2, 2, 0), (2, 2, 0), (1, 0, 0), (2, 2, 0), (0, 0, 0)];
    let around = [(1, 0, 1), (2, 2, 0), (2, 2, 0), (2, 2, 0), (2, 2, 0), (1, 0, 1), (2, 2, 0), (0, 0, 0)];
    let through = [(1, 0, 1), (2, 2, 1), (2, 2, 1), (2, 2, 1), (2, 2, 1), (0, 0, 0), (2, 2, 1), (0, 0, 0)];
    let leavo = [(1, 0, 1), (2, 2, 1), (0, 1, 1), (0, 1, 1), (0, 1, 1), (0, 0, 0), (2, 2, 1), (0, 1, 0)];
    let kdd = [(1, 0, 1), (2, 2, 1), (0, 1, 0), (0, 1, 0), (0, 1, 0), (0, 0, 0), (2, 2, 1), (0, 1, 0)];
    let tables = [
        ("none", none, (12, 10, 0)),
        ("wa", around, (12, 10, 2)),
        ("wt", through, (11, 10, 6)),
        ("leavo", leavo, (5, 8, 6)),
        ("kdd", kdd, (5, 8, 3)),
    ];
    for (name, table, total) in tables {
        let (rows, model) = rows(name);
        assert_eq!(rows, table, "{name}, row by row");
        let counters = model.counters();
        assert_eq!((counters.member_reads(), counters.member_writes(), counters.ssd_writes()), total, "{name}");
        assert_eq!((counters.reads, counters.writes), (2, 5));
    }
}

#[test]
fn write_back_pays_when_cleaned() {
    // No row of §9.1's table; from its rules: a page is asked of the SSD for each write and the read miss,
    // and each of the three dirty pages is written back with 2 reads and 2 writes.
    let (rows, model) = rows("wb");
    assert_eq!(rows, [(1, 0, 1), (0, 0, 1), (0, 0, 1), (0, 0, 1), (0, 0, 1), (0, 0, 0), (0, 0, 1), (6, 6, 0)]);
    // Entries: three at dirtying, three at cleaning.
    assert_eq!(model.counters().entries, 6);
}

#[test]
fn the_states_of_9_1() {
    let mut kdd = build("kdd", roomy());
    let mut states = Vec::new();
    for (op, page) in EXAMPLE {
        let out = kdd.access(op, page, Some(1024));
        let state = kdd.state();
        let slots: Vec<Slot> = state.slots.iter().copied().filter(|&slot| slot != Slot::Free).collect();
        let staged: Vec<u64> = state.staged.iter().map(|staged| staged.page).collect();
        states.push((slots, staged, !state.stale.is_empty(), out.hit));
    }
    let expected = [
        (vec![Clean(0)], vec![], false, false),
        (vec![Clean(0), Clean(1)], vec![], false, false),
        (vec![Old(0), Clean(1)], vec![0], true, true),
        (vec![Old(0), Old(1)], vec![0, 1], true, true),
        (vec![Old(0), Old(1)], vec![1, 0], true, true),
        (vec![Old(0), Old(1)], vec![1, 0], true, true),
        (vec![Old(0), Old(1), Clean(2)], vec![1, 0], true, false),
    ];
    assert_eq!(states, expected);
    kdd.clean_all();
    let state = kdd.state();
    assert_eq!(state.slots.iter().filter(|&&slot| slot != Slot::Free).collect::<Vec<_>>(), [&Clean(2)]);
    assert!(state.stale.is_empty() && state.staged.is_empty());
}

#[test]
fn a_write_miss_in_a_stale_row_is_rmw() {
    // The last write of the example: the row's parity is stale, so that RCW would spoil it.
    for name in ["leavo", "kdd"] {
        let mut model = build(name, roomy());
        let outs: Vec<Outcome> = EXAMPLE.iter().map(|&(op, page)| model.access(op, page, Some(1024))).collect();
        let reads = |out: &Outcome| out.asks().filter(|ask| matches!(ask, Ask::MemberRead { .. })).collect::<Vec<_>>();
        let of = |column| Ask::MemberRead { column, row: 0 };
        assert_eq!(reads(&outs[6]), [of(Column::Data(2)), of(Column::P)], "{name}");
        assert_eq!(reads(&outs[1]), [of(Column::Data(0)), of(Column::Data(2))], "{name}: a tie is RCW");
    }
}

#[test]
fn what_a_write_hit_of_kdd_asks_and_in_which_order() {
    let mut kdd = build("kdd", roomy());
    kdd.access(Op::Write, 4, Some(3000));
    kdd.access(Op::Write, 4, Some(3000));
    kdd.access(Op::Write, 7, Some(3000));
    let free = kdd.state().slots.iter().position(|&slot| slot == Slot::Free).expect("there are many") as u64;
    let out = kdd.access(Op::Write, 7, Some(3000));
    let state = kdd.state();
    let slot = |what: Slot| state.slots.iter().position(|&slot| slot == what).expect("it is there") as u64;
    let (base, delta) = (slot(Slot::Old(7)), slot(Slot::Delta(1)));
    assert_eq!(delta, free, "no set has a delta page so far: it goes to the lowest free slot of set 0");
    let phases: Vec<(For, Vec<Ask>)> = out.phases.into_iter().map(|phase| (phase.of, phase.asks)).collect();
    let key = Key::Slot(slot(Slot::Old(4)));
    let expected = [
        (For::Reads, vec![Ask::SsdRead { place: Place::Slot(base), cause: Cause::Data }]),
        (For::Commit, vec![Ask::SsdWrite { place: Place::Slot(delta), cause: Cause::Delta }]),
        (For::Log, vec![Ask::PutEntry { key }]),
        (For::Writes, vec![Ask::MemberWrite { column: Column::Data(1), row: 2 }, Ask::PutDelta { page: 7, len: 3000 }]),
    ];
    assert_eq!(phases, expected);
}

/// The entries of a page by the keys' letters.
fn letters(page: &[Entry]) -> String {
    let letter = |entry: &Entry| match entry.key {
        Key::Slot(slot) => char::from(b'a' + slot as u8),
        Key::Page(page) => panic!("page {page} is no slot"),
    };
    page.iter().map(letter).collect()
}

#[test]
fn the_log_of_9_5() {
    let params = Params { log_pages: 4, log_entries: 4, usage_max: (3, 4), ..roomy() };
    let mut log = Log::new(&params);
    // Each fact is of another page, so that replay shows which is the newest.
    let table = [
        ("abcd", "abcd", (0, 1), ""),
        ("aefb", "aefb", (0, 2), ""),
        ("caef", "caef", (0, 3), ""),
        ("bcae", "bcae", (1, 4), "d"),
        ("fbc", "dfbc", (2, 5), ""),
    ];
    let (mut number, mut written) = (0, 0);
    for (put, page, ends, buffer) in table {
        let mut asks = Vec::new();
        let mut last = VecDeque::new();
        for letter in put.bytes() {
            log.put(Key::Slot(u64::from(letter - b'a')), Fact::Clean(number), &mut asks);
            number += 1;
            last.clone_from(log.used());
            assert_eq!(log.replay(), log.live());
        }
        let writes: Vec<Ask> = asks.into_iter().filter(|ask| matches!(ask, Ask::SsdWrite { .. })).collect();
        let place = Place::Log(written % 4);
        assert_eq!(writes, [Ask::SsdWrite { place, cause: Cause::Metadata }]);
        written += 1;
        assert_eq!(letters(last.back().expect("a page was written")), page);
        assert_eq!((log.ends(), letters(log.buffer()).as_str()), (ends, buffer));
    }
    assert_eq!((written, log.reinserted()), (5, 1));
    let newest = [("a", 14), ("b", 17), ("c", 18), ("d", 3), ("e", 15), ("f", 16)];
    let newest = newest.map(|(key, page)| (Key::Slot(u64::from(key.as_bytes()[0] - b'a')), Fact::Clean(page)));
    assert_eq!(log.replay(), newest.into());
    assert!(!log.is_full());
}

#[test]
fn a_log_that_live_entries_do_not_fit_into_is_full() {
    let params = Params { log_pages: 4, log_entries: 4, usage_max: (1, 2), ..roomy() };
    let fill = |keys: u64| {
        let mut log = Log::new(&params);
        for number in 0..64 {
            log.put(Key::Slot(number % keys), Fact::Clean(number), &mut Vec::new());
            if log.is_full() {
                return true;
            }
        }
        false
    };
    assert!(!fill(7), "7 entries fit into half of 16 and the buffer");
    assert!(fill(13), "13 do not");
}

/// Returns what one access asks of members and SSD, with its phases put together.
fn asks(out: &Outcome) -> Vec<Ask> {
    out.asks().filter(|ask| !matches!(ask, Ask::PutEntry { .. })).collect()
}

#[test]
fn parity_delayed_on_misses() {
    let params = Params { delay_misses: true, admit: 2, ..roomy() };
    let mut kdd = build("kdd", params);
    let (column, row) = (Column::Data(1), 2);
    let read = Ask::MemberRead { column, row };
    let write = Ask::MemberWrite { column, row };
    let staged = Ask::PutDelta { page: 7, len: 700 };
    // The first write has a delta only: the member's old data is the base.
    assert_eq!(asks(&kdd.access(Op::Write, 7, Some(700))), [read, write, staged]);
    let held = kdd.state().pages[&7];
    assert!(held.slot.is_none() && held.newest.is_some() && kdd.state().stale.contains(&2));
    // A read goes to the member, and nothing is admitted.
    assert_eq!(asks(&kdd.access(Op::Read, 7, None)), [read]);
    // The second is admitted: member and delta give the base, which goes to the DAZ.
    let out = kdd.access(Op::Write, 7, Some(700));
    let place = Place::Slot(kdd.state().pages[&7].slot.expect("it is admitted"));
    assert!(!out.hit);
    assert_eq!(asks(&out), [read, write, Ask::SsdWrite { place, cause: Cause::Data }, staged]);
    // The third is a hit as any other.
    let base = Ask::SsdRead { place, cause: Cause::Data };
    assert_eq!(asks(&kdd.access(Op::Write, 7, Some(700))), [base, write, staged]);
    let parity = [Ask::MemberRead { column: Column::P, row }, Ask::MemberWrite { column: Column::P, row }];
    assert_eq!(asks(&kdd.clean_all()), parity);
    kdd.check();
}

#[test]
fn base_and_delta_kept_as_the_clean_page() {
    let mut kdd = build("kdd", Params { keep_clean: true, ..roomy() });
    for len in [1, 900] {
        kdd.access(Op::Write, 0, Some(len));
    }
    let writes = kdd.counters().ssd_writes();
    kdd.clean_all();
    assert_eq!(kdd.counters().ssd_writes(), writes, "nothing is written to the SSD");
    let kept = kdd.state().pages[&0];
    assert!(kept.newest.is_none() && kept.covered.is_some() && kdd.state().stale.is_empty());
    // The next write leaves the kept delta: parity needs both.
    assert!(kdd.access(Op::Write, 0, Some(1000)).hit);
    assert_eq!(kdd.state().staged.iter().map(|staged| staged.len).collect::<Vec<_>>(), [900, 1000]);
    kdd.check();
    kdd.clean_all();
    assert_eq!(kdd.state().staged.iter().map(|staged| staged.len).collect::<Vec<_>>(), [1000]);
    kdd.check();
}

#[test]
fn a_stripe_is_cleaned_with_one_request_a_member() {
    let shape = Shape { k: 3, m: 2, chunk: 4 };
    for (clean_stripes, requests) in [(true, 4), (false, 16)] {
        let mut kdd = build("kdd", Params { shape, clean_stripes, ..roomy() });
        for page in [0, 1, 2, 3, 0, 1, 2, 3] {
            kdd.access(Op::Write, page, Some(100));
        }
        assert_eq!(kdd.state().stale, [0, 1, 2, 3].into());
        let before = kdd.counters();
        kdd.clean_all();
        let after = kdd.counters();
        assert_eq!((after.parity_reads - before.parity_reads, after.parity_writes - before.parity_writes), (8, 8));
        assert_eq!(after.member_requests - before.member_requests, requests);
    }
}

#[test]
fn no_room_for_a_delta_is_rmw_from_the_base() {
    // Both slots are of row 0, whose cleaning would have to wait for the write (§9.8.11).
    let shape = Shape { k: 2, m: 1, chunk: 1 };
    let mut kdd = build("kdd", Params { shape, pages: 2, associativity: 2, dirty_high: 100, ..roomy() });
    for page in [0, 1, 0] {
        kdd.access(Op::Write, page, Some(3000));
    }
    let (place, row) = (Place::Slot(1), 0);
    let expected = [
        Ask::SsdRead { place, cause: Cause::Data },
        Ask::MemberRead { column: Column::P, row },
        Ask::MemberWrite { column: Column::Data(1), row },
        Ask::MemberWrite { column: Column::P, row },
        Ask::SsdWrite { place, cause: Cause::Data },
    ];
    assert_eq!(asks(&kdd.access(Op::Write, 1, Some(3000))), expected);
    assert_eq!(kdd.state().slots, [Old(0), Clean(1)]);
    kdd.check();
}

#[test]
fn a_full_set_of_write_back_writes_its_oldest_page_back() {
    let params = Params { pages: 2, associativity: 2, dirty_high: 100, ..roomy() };
    let mut back = build("wb", params);
    for page in [0, 1] {
        back.access(Op::Write, page, None);
    }
    let out = back.access(Op::Read, 2, None);
    assert_eq!(costs(&out), (3, 2, 1), "the read, RCW of page 0, the fill");
    assert_eq!(back.state().slots, [Clean(2), Slot::Dirty(1)]);
    back.check();
}

/// Settings of every kind, over sets so small that all of §9's shortages occur.
fn draw(dice: &mut TestRng) -> Params {
    let shape = Shape { k: dice.within(2, 5), m: dice.within(1, 2), chunk: dice.within(1, 3) };
    let associativity = dice.within(2, 9);
    let pages = associativity * dice.within(1, 5);
    let some = |dice: &mut TestRng, part| dice.below(part) == 0;
    let low = dice.within(0, 60);
    let entries = dice.within(1, 6);
    Params {
        method: [Method::Min, Method::Min, Method::Rmw, Method::Rcw][dice.below(4) as usize],
        cache_visible: some(dice, 2),
        pages,
        associativity,
        log_pages: 8 * pages / entries + 20,
        log_entries: entries as usize,
        dirty_high: low + dice.below(60),
        dirty_low: low,
        set_low: dice.within(0, 100),
        daz_full: if some(dice, 2) { DazFull::Bypass } else { DazFull::CleanNow },
        leavo_rewrite: if some(dice, 2) { Rewrite::NewPage } else { Rewrite::InPlace },
        staging_pages: dice.within(1, 3),
        delta_max: [4096, 3000][dice.below(2) as usize],
        too_long: if some(dice, 2) { TooLong::Raw } else { TooLong::Rewrite },
        reclaim: dice.within(1, 2) as u8,
        keep_clean: some(dice, 3),
        delay_misses: some(dice, 2),
        admit: [1, 1, 2, 3, u64::MAX][dice.below(5) as usize],
        clean_stripes: some(dice, 2),
        rcw_from_cache: [RcwFromCache::All, RcwFromCache::Never, RcwFromCache::Fewer][dice.below(3) as usize],
        ..Params::new(shape, 1024)
    }
}

/// Whatever is asked, after every access each model has what §9 says that it has, has written data to its
/// member, and has paid or owes the parity.
#[test]
fn what_is_held_adds_up() {
    let cases = if soak() { 20_000 } else { 300 };
    let mut seen = [0; 6];
    for case in 0..cases {
        for name in ["none", "wa", "wt", "wb", "leavo", "kdd"] {
            let mut dice = TestRng::new(case);
            let params = draw(&mut dice);
            let mut model = build(name, params);
            let pages = dice.within(2, 3 * params.pages);
            let reads = dice.below(10);
            for _ in 0..150 {
                let op = if dice.below(10) < reads { Op::Read } else { Op::Write };
                let page = dice.below(pages).min(dice.below(pages));
                let out = model.access(op, page, Some(dice.within(1, 4096) as u32));
                model.check();
                let state = model.state();
                assert!(!state.log_full, "case {case} of {name}");
                let parity = Ask::MemberWrite { column: Column::P, row: params.shape.row(page) };
                if op == Op::Write && !matches!(name, "wb") {
                    let data = Ask::MemberWrite {
                        column: Column::Data(params.shape.column(page)),
                        row: params.shape.row(page),
                    };
                    assert!(out.asks().any(|ask| ask == data), "case {case}: {name} writes each page to its member");
                    let owed = state.stale.contains(&params.shape.row(page));
                    let paid = |of: For, ask: Ask| out.phases.iter().any(|p| p.of == of && p.asks.contains(&ask));
                    let rmw = paid(For::Reads, Ask::MemberRead { column: Column::P, row: params.shape.row(page) });
                    assert!(
                        !owed || !paid(For::Writes, parity) || rmw,
                        "case {case}: {name} makes stale parity by RMW"
                    );
                    assert!(owed || out.asks().any(|ask| ask == parity), "case {case}: {name} pays or owes parity");
                }
            }
            if dice.below(3) == 0 {
                model.idle();
                let state = model.state();
                assert!(
                    state.stale.is_empty()
                        && state.staged.iter().all(|staged| params.keep_clean && staged.page < pages)
                );
                model.check();
            }
            let counters = model.counters();
            for (seen, count) in seen.iter_mut().zip([
                counters.shortages,
                counters.evictions,
                counters.reinserted,
                counters.cleaned,
                counters.cleaning,
                counters.deltas,
            ]) {
                *seen += count;
            }
        }
    }
    assert!(seen.iter().all(|&count| count > 100), "everything happened: {seen:?}");
}
