//! Promises of the array that take more than one request to see, over an executor that does
//! nothing.

use destage_cache::{ServedTier, serve};
use destage_plan::{
    Control, Dev, DevSet, DeviceChange, Engine, HostNotice, HostOp, HostRequest, LostPages, Nanos, NvHeld, NvSlot,
    PageRange, Refusal, Row, Rows, Shape, Start, Status, Step, StepKind, StepOutcome,
};
use destage_raid::array::{ArrayConfig, DurabilityMode, MAX_MEMBERS, MAX_PARITY_MEMBERS};
use destage_raid::{Geometry, RaidLevel};

const PAGE: u64 = 4096;

fn config(level: RaidLevel, members: u32, chunk: u32, rows: u64) -> ArrayConfig {
    ArrayConfig::new(Geometry::new(level, None, members, chunk, rows).unwrap())
}

fn start(config: &ArrayConfig, depth: usize, start: Start<'_>) -> Engine<Box<dyn ServedTier>> {
    let geometry = &config.geometry;
    let stripe = u64::from(geometry.data_columns()) * u64::from(geometry.chunk_pages());
    let shape = Shape::new(PAGE, 512, stripe, stripe, geometry.data_pages()).unwrap();
    let mut engine = Engine::new(serve("none", config, 0).unwrap(), shape, depth);
    engine.start(Nanos(0), start);
    engine
}

const FRESH: Start<'static> =
    Start { nv: &[], intents: &[], missing: DevSet::EMPTY, collectors: DevSet::EMPTY, unwritable: &[] };

/// Carries everything out, in order; how often each request was acknowledged as served, or not.
fn run(engine: &mut Engine<Box<dyn ServedTier>>, lost: DevSet) -> (u64, u64) {
    let mut acks = (0, 0);
    loop {
        while let Some(notice) = engine.next_notice() {
            match notice {
                HostNotice::Acked { ok: true, .. } => acks.0 += 1,
                HostNotice::Acked { ok: false, .. } => acks.1 += 1,
                _ => {}
            }
        }
        let Some(issue) = engine.next_issue() else { return acks };
        let dev = engine.step(issue).dev().filter(|dev| lost.contains(*dev));
        engine.complete(Nanos(0), issue, dev.map_or(StepOutcome::Ok, StepOutcome::Failed));
    }
}

fn request(tag: u64, op: HostOp, page: u64, pages: u64) -> HostRequest {
    HostRequest { tag, op, offset: page * PAGE, len: pages * PAGE, fua: false }
}

#[test]
fn degraded_writes_do_not_wait_for_each_others_log() {
    // The NVRAM has room for fewer rows than one of the writes has, and than all together have.
    for (level, members, missing) in [(RaidLevel::Raid5, 5, DevSet::first(1)), (RaidLevel::Raid6, 6, DevSet::first(2))]
    {
        let config = ArrayConfig { nv_slots: ArrayConfig::MIN_NV_SLOTS, ..config(level, members, 128, 2048) };
        let mut engine = start(&config, 64, Start { missing, ..FRESH });
        run(&mut engine, missing);
        for stripe in 0..16 {
            engine.submit(Nanos(0), request(stripe, HostOp::Write, stripe * 512, 512)).unwrap();
            engine.submit(Nanos(0), request(100 + stripe, HostOp::Write, stripe * 512 + 100, 30)).unwrap();
        }
        assert_eq!(run(&mut engine, missing), (32, 0));
        assert!(engine.is_idle());
    }
}

#[test]
fn a_rebuild_fills_every_row_once_and_ends() {
    for (level, members) in [(RaidLevel::Raid1, 2), (RaidLevel::Raid5, 5), (RaidLevel::Raid6, 6)] {
        for chunk in [1, 3, 300] {
            let config = config(level, members, chunk, 900);
            let mut engine = start(&config, 64, FRESH);
            engine.device(Nanos(0), Dev(1), DeviceChange::Failed);
            run(&mut engine, DevSet::EMPTY);
            engine.device(Nanos(0), Dev(1), DeviceChange::Replaced);
            run(&mut engine, DevSet::EMPTY);
            let array = engine.controller().array();
            assert_eq!((array.degraded(), array.is_rebuilding()), (DevSet::EMPTY, false), "{level} {chunk}");
            assert_eq!(array.stats().rebuilt_rows, 900, "{level} {chunk}");
            assert!(engine.is_idle());
        }
    }
}

#[test]
fn reads_go_on_while_rows_are_filled_in() {
    for (level, members) in [(RaidLevel::Raid1, 2), (RaidLevel::Raid4, 5), (RaidLevel::Raid5, 5), (RaidLevel::Raid6, 6)]
    {
        let config = config(level, members, 128, 1024);
        let mut engine = start(&config, 1024, FRESH);
        engine.device(Nanos(0), Dev(1), DeviceChange::Failed);
        run(&mut engine, DevSet::EMPTY);
        engine.device(Nanos(0), Dev(1), DeviceChange::Replaced);
        // Everything is done but for what is written to the new member.
        let mut held = Vec::new();
        let mut step = |engine: &mut Engine<Box<dyn ServedTier>>| {
            let mut writes = 0;
            while let Some(issue) = engine.next_issue() {
                let step = *engine.step(issue);
                writes += usize::from(matches!(step, Step::Write { .. }));
                if let Step::Write { ext, .. } = step
                    && ext.dev() == Dev(1)
                {
                    assert!(ext.pages() <= 64, "{level}: a write waits for no more than so many rows");
                    held.push(issue);
                } else {
                    engine.complete(Nanos(0), issue, StepOutcome::Ok);
                }
            }
            let acked = std::iter::from_fn(|| engine.next_notice());
            (acked.filter(|notice| matches!(notice, HostNotice::Acked { ok: true, .. })).count(), writes)
        };
        assert_eq!(step(&mut engine), (0, 4), "{level}: four operations fill in rows");
        // Of each of these rows each page, also those that the new member is to hold.
        let pages = u64::from(config.geometry.data_columns()) * 128;
        for page in 0..2 * pages {
            engine.submit(Nanos(0), request(page, HostOp::Read, page, 1)).unwrap();
        }
        assert_eq!(step(&mut engine), (2 * pages as usize, 0), "{level}: reads go on");
        engine.submit(Nanos(0), request(0, HostOp::Write, 0, 1)).unwrap();
        assert_eq!(step(&mut engine), (0, 0), "{level}: a write of a row that is being filled in waits");
        for issue in std::mem::take(&mut held) {
            engine.complete(Nanos(0), issue, StepOutcome::Ok);
        }
        run(&mut engine, DevSet::EMPTY);
        assert_eq!(engine.controller().array().degraded(), DevSet::EMPTY);
    }
}

#[test]
fn an_array_that_lost_too_much_answers_everything() {
    let config = ArrayConfig { max_open_rows: 4, ..config(RaidLevel::Raid5, 5, 1, 256) };
    let mut engine = start(&config, 8, FRESH);
    for dev in [1, 3] {
        engine.device(Nanos(0), Dev(dev), DeviceChange::Failed);
    }
    for page in 0..200 {
        engine.submit(Nanos(0), request(page, HostOp::Write, page, 1)).unwrap();
        engine.submit(Nanos(0), request(page, HostOp::Read, page, 1)).unwrap();
    }
    engine.submit(Nanos(0), request(7, HostOp::Flush, 0, 0)).unwrap();
    let (served, failed) = run(&mut engine, DevSet::from_bits(0b1010));
    assert_eq!(served + failed, 401);
    assert!(failed > 200, "two of five members are lost");
    assert!(engine.is_idle());
    engine.control(Nanos(0), Control::Clean);
    run(&mut engine, DevSet::from_bits(0b1010));
    assert!(engine.is_idle());
}

#[test]
fn open_intents_are_bounded_without_flushing_more_than_needed() {
    let config = ArrayConfig { max_open_rows: 8, ..config(RaidLevel::Raid5, 5, 1, 4096) };
    let mut engine = start(&config, 64, FRESH);
    for tag in 0..2000 {
        engine.submit(Nanos(0), request(tag, HostOp::Write, tag * 8 % 16_000, 1)).unwrap();
        assert!(engine.controller().array().open_rows() <= 8 + 64);
    }
    assert_eq!(run(&mut engine, DevSet::EMPTY), (2000, 0));
    let flushes = engine.controller().array().stats().flushes;
    assert!((30..=400).contains(&flushes), "{flushes} flushes for 2,000 rows, 8 of which may be open, 64 at work");
}

#[test]
fn the_widest_arrays_fit_an_operation() {
    let wide = u32::from(MAX_MEMBERS);
    let parity = u32::from(MAX_PARITY_MEMBERS);
    let cells =
        [(RaidLevel::Raid0, wide), (RaidLevel::Raid1, wide), (RaidLevel::Raid5, parity), (RaidLevel::Raid6, parity)];
    for (level, members) in cells {
        for regime in [DurabilityMode::Flush, DurabilityMode::EveryWrite] {
            for missing in [0_u64, 0b1, 0b101].map(DevSet::from_bits) {
                let tolerated = match level {
                    RaidLevel::Raid0 => 0,
                    RaidLevel::Raid6 => 2,
                    _ => 1,
                };
                if missing.len() > tolerated {
                    continue;
                }
                let config = ArrayConfig { regime, ..config(level, members, 4, 64) };
                let pages = config.geometry.data_pages();
                let mut engine = start(&config, 8, Start { missing, ..FRESH });
                run(&mut engine, missing);
                let mut asked = 0;
                for first in 0..8 {
                    for op in [HostOp::Write, HostOp::Discard, HostOp::WriteZeroes, HostOp::Read] {
                        let ask = HostRequest { fua: true, ..request(1, op, first, pages - 8) };
                        engine.submit(Nanos(0), ask).unwrap();
                        let part = HostRequest { offset: first * PAGE + 512, len: 512, ..ask };
                        engine.submit(Nanos(0), part).unwrap();
                        asked += 2;
                    }
                }
                assert_eq!(run(&mut engine, missing), (asked, 0), "{level}");
            }
        }
    }
}

#[test]
fn a_flush_has_no_range() {
    let mut engine = start(&config(RaidLevel::Raid0, 2, 1, 16), 8, FRESH);
    for (offset, len) in [(0, 4096), (3, 5), (1 << 60, 1 << 40)] {
        engine.submit(Nanos(0), HostRequest { tag: 1, op: HostOp::Flush, offset, len, fua: false }).unwrap();
        assert_eq!(run(&mut engine, DevSet::EMPTY), (1, 0));
    }
    assert!(engine.is_idle());
    assert!(engine.submit(Nanos(0), request(1, HostOp::Read, 31, 2)).is_err());
    assert!(engine.submit(Nanos(0), HostRequest { offset: 100, ..request(1, HostOp::Read, 0, 1) }).is_err());
}

#[test]
fn what_cannot_start_says_why_and_serves_nothing() {
    let tag = [9; 24];
    let slot = NvSlot { index: 0, generation: 1 };
    // Pages 30 and 35: column 2 of stripe 7, column 3 of stripe 8.
    let lost = LostPages::new(&[PageRange { first: 30, pages: 1 }, PageRange { first: 35, pages: 1 }]);
    let hole = Start { missing: DevSet::one(Dev(0)), intents: &[Rows::new(Row(7), 2)], ..FRESH };
    let cells = [
        (Start { missing: DevSet::first(2), ..FRESH }, Refusal::MembersLost { lost: 2, tolerated: 1 }),
        (hole, Refusal::WriteHole { row: Row(7), rows: 2, lost }),
        (Start { nv: &[NvHeld { slot, tag, bytes: &[], is_damaged: false }], ..FRESH }, Refusal::Nvram),
        (
            Start {
                nv: &[NvHeld { slot: NvSlot { index: u32::MAX, generation: 1 }, tag, bytes: &[], is_damaged: false }],
                ..FRESH
            },
            Refusal::Nvram,
        ),
    ];
    for (how, why) in cells {
        let mut engine = start(&config(RaidLevel::Raid5, 5, 1, 256), 8, how);
        engine.submit(Nanos(0), request(1, HostOp::Read, 0, 1)).unwrap();
        assert_eq!(run(&mut engine, how.missing), (0, 1));
        assert_eq!(engine.status(), Status::Refused(why));
    }
}

#[test]
fn ten_thousand_writes_of_few_rows_neither_block_nor_starve() {
    let mut engine = start(&config(RaidLevel::Raid5, 5, 4, 256), 10_000, FRESH);
    for tag in 0..10_000 {
        engine.submit(Nanos(tag), request(tag, HostOp::Write, tag % 32, 1)).unwrap();
    }
    // First come, first served: of the writes of one page the earlier is acknowledged earlier.
    let mut last = [None; 32];
    let mut served = 0;
    let mut time = 10_000;
    loop {
        while let Some(notice) = engine.next_notice() {
            if let HostNotice::Acked { tag, ok } = notice {
                assert!(
                    ok && last[(tag % 32) as usize] < Some(tag),
                    "write {tag} after {:?}",
                    last[(tag % 32) as usize]
                );
                last[(tag % 32) as usize] = Some(tag);
                served += 1;
            }
        }
        let Some(issue) = engine.next_issue() else { break };
        time += 1;
        engine.complete(Nanos(time), issue, StepOutcome::Ok);
    }
    assert_eq!(served, 10_000);
    assert!(engine.is_idle());
    let wait = engine.out().waits()[destage_plan::Class::Write as usize];
    println!("{} claims, {} waited, {} in all, at most {}", wait.claims, wait.waited, wait.total, wait.max);
    assert!(wait.waited > 9_900 && wait.max.0 <= time, "{wait:?}");
    assert_eq!(engine.out().counts()[StepKind::Ack as usize], 10_000);
}

#[test]
fn a_clean_stop_leaves_nothing_open() {
    let mut engine = start(&config(RaidLevel::Raid6, 6, 2, 256), 8, FRESH);
    for tag in 0..100 {
        engine.submit(Nanos(0), request(tag, HostOp::Write, tag * 7 % 900, 3)).unwrap();
    }
    run(&mut engine, DevSet::EMPTY);
    assert!(engine.controller().array().open_rows() > 0);
    engine.control(Nanos(0), Control::Clean);
    let mut cleared = 0;
    while let Some(issue) = engine.next_issue() {
        if let Step::Intent { rows, set: false } = *engine.step(issue) {
            cleared += engine.rows(issue.op, rows).iter().map(|rows| u64::from(rows.count)).sum::<u64>();
        }
        engine.complete(Nanos(0), issue, StepOutcome::Ok);
    }
    assert_eq!(engine.next_notice(), Some(HostNotice::Clean));
    assert!(cleared > 0);
    assert_eq!(engine.controller().array().open_rows(), 0);
}
