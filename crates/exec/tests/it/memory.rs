//! The devices of the in-memory executor, and what a cut leaves, seen through a mirror.

use destage_exec::{
    CrashRemains, CutChoice, DiskImage, ExecutorConduct, MemoryExecutor, MemoryViolation, NextStep, NoCheck,
};
use destage_plan::{
    Class, Control, Controller, Dev, Event, Ext, HostNotice, HostOp, HostRequest, Out, Row, Shape, Status, Step,
    StepSet,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::mirror::{Copies, Mirror, STRIPE};

const PAGES: u64 = 16;
const PAGE: u64 = 64;
const SECTOR: u64 = 16;

fn shape() -> Shape {
    Shape::new(PAGE, SECTOR, STRIPE, STRIPE, PAGES).expect("a shape that can be")
}

fn fresh(members: u8) -> MemoryExecutor<Mirror> {
    let remains = CrashRemains::fresh((0..members).map(|_| (PAGES * PAGE) as usize));
    MemoryExecutor::start(Mirror::new(members), remains, shape(), 8)
}

/// Every page that is asked for keeps these sectors, and so many steps of the NVRAM come through.
struct Keep(u128, usize);

impl CutChoice for Keep {
    fn page(&mut self, _: usize, _: u64, all: u128) -> u128 {
        self.0 & all
    }
    fn nvram(&mut self, queued: usize) -> usize {
        self.1.min(queued)
    }
}

fn request(tag: u64, op: HostOp, sector: u64, sectors: u64, fua: bool) -> HostRequest {
    HostRequest { tag, op, offset: sector * SECTOR, len: sectors * SECTOR, fua }
}

fn write(memory: &mut MemoryExecutor<Mirror>, tag: u64, sector: u64, sectors: u64, byte: u8, fua: bool) {
    let data = vec![byte; (sectors * SECTOR) as usize];
    memory.submit(request(tag, HostOp::Write, sector, sectors, fua), &data).expect("a write in range");
}

/// Runs until nothing is under way; the tags that were answered, in order.
fn drain(memory: &mut MemoryExecutor<Mirror>) -> Vec<u64> {
    let mut acked = Vec::new();
    while !memory.is_idle() {
        memory.run(NextStep::Oldest, &Copies(2)).expect("no violation");
        while let Some(notice) = memory.next_notice() {
            if let HostNotice::Acked { tag, ok } = notice {
                assert!(ok);
                acked.push(tag);
            }
        }
    }
    acked
}

fn read(memory: &mut MemoryExecutor<Mirror>, sector: u64, sectors: u64) -> Vec<u8> {
    memory.submit(request(u64::MAX, HostOp::Read, sector, sectors, false), &[]).expect("a read in range");
    let mut found = Vec::new();
    while !memory.is_idle() {
        memory.run(NextStep::Oldest, &Copies(2)).expect("no violation");
        while let Some(notice) = memory.next_notice() {
            if matches!(notice, HostNotice::Acked { .. }) {
                found = memory.request_bytes(u64::MAX).to_vec();
            }
        }
    }
    found
}

#[test]
fn what_was_not_flushed_may_be_lost_sector_by_sector_and_what_was_flushed_may_not() {
    let mut memory = fresh(2);
    write(&mut memory, 1, 0, 4, 1, false);
    drain(&mut memory);
    memory.submit(request(2, HostOp::Flush, 0, 0, false), &[]).expect("a flush");
    assert_eq!(drain(&mut memory), [2]);
    write(&mut memory, 3, 0, 4, 2, false);
    assert_eq!(drain(&mut memory), [3]);
    let remains = memory.cut(&mut Keep(0b0110, 0));
    for disk in &remains.disks {
        let sectors: Vec<u8> = disk.image.chunks(SECTOR as usize).take(4).map(|sector| sector[0]).collect();
        assert_eq!(sectors, [1, 2, 2, 1]);
    }
    assert_eq!(remains.nvram.intents.iter().collect::<Vec<_>>(), [Row(0)]);
    let mut memory = MemoryExecutor::start(Mirror::new(2), remains, shape(), 8);
    assert_eq!(memory.status(), Status::Starting);
    let page = read(&mut memory, 0, 4);
    assert_eq!(page.chunks(SECTOR as usize).map(|sector| sector[0]).collect::<Vec<_>>(), [1, 2, 2, 1]);
    assert!(memory.nvram().intents.is_empty());
}

/// The first bytes of the sectors of the first page.
fn first_page(disk: &DiskImage) -> Vec<u8> {
    disk.image.chunks(SECTOR as usize).take(4).map(|sector| sector[0]).collect()
}

#[test]
fn what_is_in_flight_may_be_there_in_part() {
    for (op, fua, found) in [
        (HostOp::Write, false, [2, 1, 2, 1]),
        (HostOp::Write, true, [2, 1, 2, 1]),
        (HostOp::Discard, false, [0, 1, 0, 1]),
        (HostOp::WriteZeroes, false, [0, 1, 0, 1]),
    ] {
        let mut memory = fresh(2);
        write(&mut memory, 1, 0, 4, 1, true);
        drain(&mut memory);
        let data = if op == HostOp::Write { vec![2; PAGE as usize] } else { Vec::new() };
        memory.submit(request(2, op, 0, 4, fua), &data).expect("a request in range");
        while memory.runnable() < 2 {
            memory.run(NextStep::Oldest, &Copies(2)).expect("no violation");
        }
        for (keep, expected) in [(0, [1; 4]), (0b0101, found), (u128::MAX, [found[0]; 4])] {
            let remains = memory.cut(&mut Keep(keep, usize::MAX));
            for disk in &remains.disks {
                assert_eq!(first_page(disk), expected, "{op:?}, FUA {fua}, sectors {keep:b}");
            }
        }
        // A device that fails now holds as little.
        memory.fail(Dev(1), &mut Keep(0b0101, 0));
        assert_eq!(first_page(&memory.cut(&mut Keep(0, 0)).disks[1]), found, "{op:?}, FUA {fua}");
    }
}

#[test]
fn a_durable_write_takes_earlier_ones_of_its_pages_with_it() {
    let mut memory = fresh(2);
    write(&mut memory, 1, 0, 8, 1, false);
    drain(&mut memory);
    write(&mut memory, 2, 0, 4, 2, true);
    assert_eq!(drain(&mut memory), [2]);
    let all = memory.cut(&mut Keep(u128::MAX, 0));
    let none = memory.cut(&mut Keep(0, 0));
    for disk in 0..2 {
        let first = |remains: &CrashRemains, page: usize| remains.disks[disk].image[page * PAGE as usize];
        assert_eq!(
            (first(&all, 0), first(&all, 1)),
            (2, 1),
            "the earlier write does not come back over the durable one"
        );
        assert_eq!((first(&none, 0), first(&none, 1)), (2, 0));
    }
}

#[test]
fn a_flush_covers_what_was_done_before_it_was_issued() {
    let mut memory = fresh(2);
    write(&mut memory, 1, 0, 4, 1, false);
    drain(&mut memory);
    memory.submit(request(2, HostOp::Flush, 0, 0, false), &[]).expect("a flush");
    write(&mut memory, 3, 0, 4, 3, false);
    // The two flushes were issued first; let the write overtake them.
    let flushes = 2;
    while memory.runnable() > flushes {
        memory.run(NextStep::At(flushes), &Copies(2)).expect("no violation");
    }
    assert_eq!(drain(&mut memory), [3, 2]);
    let none = memory.cut(&mut Keep(0, 0));
    assert_eq!(none.disks[0].image[0], 1, "the flush made the first write durable and not the second");
    let all = memory.cut(&mut Keep(u128::MAX, 0));
    assert_eq!(all.disks[0].image[0], 3);
}

#[test]
fn trimmed_pages_read_as_zeros_and_are_durable_as_writes_are() {
    let mut memory = fresh(2);
    write(&mut memory, 1, 0, 8, 1, true);
    drain(&mut memory);
    memory.submit(request(2, HostOp::Discard, 2, 6, false), &[]).expect("a discard");
    assert_eq!(drain(&mut memory), [2]);
    let bytes = read(&mut memory, 0, 8);
    assert_eq!(bytes, [vec![1; 64], vec![0; 64]].concat(), "the page that is covered in part stays");
    assert_eq!(memory.cut(&mut Keep(0, 0)).disks[1].image[PAGE as usize], 1);
    assert_eq!(memory.cut(&mut Keep(u128::MAX, 0)).disks[1].image[PAGE as usize], 0);
}

#[test]
fn steps_of_the_nvram_come_through_in_order_only() {
    let mut memory = fresh(2);
    write(&mut memory, 1, 0, 4, 1, false);
    write(&mut memory, 2, 16, 4, 1, false);
    for (through, rows) in [(0, &[][..]), (1, &[Row(0)][..]), (2, &[Row(0), Row(4)][..])] {
        let remains = memory.cut(&mut Keep(0, through));
        assert_eq!(remains.nvram.intents.iter().collect::<Vec<_>>(), rows);
    }
    assert_eq!(memory.runnable(), 1, "the two intents are one choice");
}

#[test]
fn an_executor_that_forgets_a_flush_is_found_when_the_intent_is_cleared() {
    let mut memory = fresh(2);
    let mut omitted = false;
    memory.set_tamper(Box::new(move |_, step| {
        if matches!(step, Step::FlushDev { .. }) && !std::mem::replace(&mut omitted, true) {
            return ExecutorConduct::Omit;
        }
        ExecutorConduct::Honest
    }));
    write(&mut memory, 1, 0, 4, 1, false);
    drain(&mut memory);
    memory.control(Control::Clean);
    let found = loop {
        match memory.run(NextStep::Oldest, &Copies(2)) {
            Ok(_) => assert!(!memory.is_idle(), "the forgotten flush was not found"),
            Err(violation) => break violation,
        }
    };
    assert!(matches!(found, MemoryViolation::Unflushed { row: Row(0), .. }), "{found}");
}

struct Dice(Xoshiro256PlusPlus);

impl CutChoice for Dice {
    fn page(&mut self, _: usize, _: u64, all: u128) -> u128 {
        u128::from(self.0.next_u64()) & all
    }
    fn nvram(&mut self, queued: usize) -> usize {
        self.0.next_u64() as usize % (queued + 1)
    }
}

#[test]
fn a_mirror_cut_anywhere_reads_old_or_new_sectors_the_same_ever_after() {
    let seeds = if std::env::var_os("DESTAGE_SOAK").is_some() { 100_000 } else { 2_000 };
    for seed in 0..seeds {
        let mut dice = Dice(Xoshiro256PlusPlus::seed_from_u64(seed));
        let mut memory = fresh(2);
        let mut tag = 0;
        for _ in 0..3 {
            for _ in 0..6 {
                let sector = dice.0.next_u64() % (PAGES * 4 - 8);
                tag += 1;
                write(&mut memory, tag, sector, 1 + dice.0.next_u64() % 8, tag as u8, false);
            }
            for _ in 0..dice.0.next_u64() % 40 {
                if memory.runnable() > 0 {
                    let at = dice.0.next_u64() as usize % memory.runnable();
                    memory
                        .run(NextStep::At(at), &Copies(2))
                        .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
                }
            }
            let remains = memory.cut(&mut dice);
            memory = MemoryExecutor::start(Mirror::new(2), remains, shape(), 8);
            let first = read(&mut memory, 0, PAGES * 4);
            let remains = memory.cut(&mut dice);
            memory = MemoryExecutor::start(Mirror::new(2), remains, shape(), 8);
            assert_eq!(first, read(&mut memory, 0, PAGES * 4), "seed {seed}");
        }
    }
}

/// Sums up so many pages of a device when it starts, with one step, and writes the sum behind them.
struct Sum {
    pages: u16,
}

impl Controller for Sum {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        match event {
            Event::Start(_) => {
                out.open(Class::Internal, None, None);
                out.ready();
            }
            Event::Granted(op) => {
                let mut reads = StepSet::EMPTY;
                let mut srcs = Vec::new();
                for page in 0..self.pages {
                    let dst = out.tmp(op, 1);
                    reads |= out.step(op, Step::Read { ext: Ext::new(Dev(0), page.into(), 1), dst }, StepSet::EMPTY);
                    srcs.push(dst);
                }
                let (list, dst) = (out.list(op, &srcs), out.tmp(op, 1));
                let sum = out.step(op, Step::Xor { srcs: list, pages: 1, dst }, reads);
                let ext = Ext::new(Dev(0), self.pages.into(), 1);
                out.step(op, Step::Write { ext, src: dst, fua: true }, sum);
                out.close(op);
            }
            _ => {}
        }
    }
}

#[test]
fn as_many_pages_are_summed_up_as_a_plan_can_read() {
    for pages in [0_u16, 1, 30, 31, 32, 33, 61] {
        let mut remains = CrashRemains::fresh([(usize::from(pages) + 1) * PAGE as usize]);
        let mut expected = vec![0; PAGE as usize];
        for (at, byte) in remains.disks[0].image.iter_mut().enumerate() {
            *byte = (at * 7 + at / 64 * 13) as u8;
            if at < usize::from(pages) * PAGE as usize {
                expected[at % PAGE as usize] ^= *byte;
            }
        }
        let mut memory = MemoryExecutor::start(Sum { pages }, remains, shape(), 1);
        while !memory.is_idle() {
            memory.run(NextStep::Oldest, &NoCheck).expect("no violation");
        }
        let left = memory.cut(&mut Keep(0, 0));
        assert_eq!(left.disks[0].image[usize::from(pages) * PAGE as usize..], expected, "of {pages} pages");
    }
}
