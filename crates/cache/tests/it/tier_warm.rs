//! Tests which pages caches on an SSD know after a start (docs/assumptions.md): all that they had, unless the
//! members may have others.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use destage_cache::{ServedTier, serve};
use destage_exec::{CrashRemains, CutChoice, MemoryExecutor, NextStep, NoCheck, ReplacementContent};
use destage_plan::{Control, Dev, HostNotice, HostOp, HostRequest, Nanos, Shape, Status};
use destage_raid::array::{ArrayConfig, RaidArray};
use destage_raid::{Geometry, RaidLevel};

const PAGE: u64 = 128;
const CACHES: [&str; 2] = ["leavo:ways=16", "kdd:ways=16"];
/// And that which has what is on no member, until it is stopped.
const ALL: [&str; 3] = [CACHES[0], CACHES[1], "write-back:ways=16"];
const PAGES: u64 = 60;
/// Pages that the tests read and write: fewer than the cache has frames.
const READ: Range<u64> = 0..24;

/// Nothing that was not flushed is left, or all of it.
struct Keep(bool);

impl CutChoice for Keep {
    fn page(&mut self, _: usize, _: u64, all: u128) -> u128 {
        if self.0 { all } else { 0 }
    }

    fn nvram(&mut self, queued: usize) -> usize {
        if self.0 { queued } else { 0 }
    }
}

fn geometry() -> Geometry {
    Geometry::new(RaidLevel::Raid5, None, 5, 2, 32).expect("a shape that can be")
}

const SSD: Dev = Dev(5);

fn life(cache: &str, remains: CrashRemains) -> MemoryExecutor<Box<dyn ServedTier>> {
    let mut config = ArrayConfig::new(geometry());
    (config.idle_flush, config.page_bytes) = (Nanos(1 << 60), PAGE as u32);
    let controller = serve(cache, &config, PAGES).expect("a cache that can be");
    let shape = Shape::new(PAGE, 16, 8, 8, geometry().data_pages()).expect("a tiny array");
    let mut memory = MemoryExecutor::start(controller, remains, shape, 8);
    // What is asked for before there is a log is not kept.
    while memory.status() == Status::Starting || !memory.is_idle() {
        run(&mut memory);
    }
    memory
}

fn fresh() -> CrashRemains {
    let members = (0..5).map(|_| geometry().member_pages() * PAGE);
    CrashRemains::fresh(members.chain([PAGES * PAGE]).map(|bytes| bytes as usize))
}

fn run(memory: &mut MemoryExecutor<Box<dyn ServedTier>>) {
    memory.run(NextStep::Oldest, &NoCheck).expect("the controller goes on");
}

/// Asks; the bytes of a request that is served.
fn answer(
    memory: &mut MemoryExecutor<Box<dyn ServedTier>>,
    op: HostOp,
    pages: Range<u64>,
    bytes: &[u8],
) -> Option<Vec<u8>> {
    static TAGS: AtomicU64 = AtomicU64::new(0);
    let (tag, len) = (TAGS.fetch_add(1, Ordering::Relaxed), (pages.end - pages.start) * PAGE);
    let request = HostRequest { tag, op, offset: pages.start * PAGE, len, fua: false };
    memory.submit(request, bytes).expect("a request in range");
    let mut read = None;
    // Pages are written to the cache after they were answered.
    while read.is_none() || !memory.is_idle() {
        run(memory);
        while let Some(notice) = memory.next_notice() {
            if let HostNotice::Acked { ok, .. } = notice {
                read = Some(ok.then(|| memory.request_bytes(tag).to_vec()));
            }
        }
    }
    read.expect("it was answered")
}

fn request(memory: &mut MemoryExecutor<Box<dyn ServedTier>>, op: HostOp, pages: Range<u64>, bytes: &[u8]) -> Vec<u8> {
    answer(memory, op, pages, bytes).expect("it is served")
}

fn write(memory: &mut MemoryExecutor<Box<dyn ServedTier>>, page: u64, byte: u8) {
    request(memory, HostOp::Write, page..page + 1, &[byte; PAGE as usize]);
}

/// Reads everything; how many pages came from the cache, and the first byte of each.
fn read(memory: &mut MemoryExecutor<Box<dyn ServedTier>>) -> (u64, Vec<u8>) {
    let before = memory.engine().controller().counts().expect("it counts").read_hits;
    let bytes = request(memory, HostOp::Read, READ, &[]);
    let hits = memory.engine().controller().counts().expect("it counts").read_hits - before;
    (hits, bytes.chunks(PAGE as usize).map(|page| page[0]).collect())
}

/// Runs until the array is clean.
fn clean(memory: &mut MemoryExecutor<Box<dyn ServedTier>>) {
    memory.control(Control::Clean);
    loop {
        while let Some(notice) = memory.next_notice() {
            if matches!(notice, HostNotice::Clean) {
                return;
            }
        }
        run(memory);
    }
}

fn settle(memory: &mut MemoryExecutor<Box<dyn ServedTier>>) {
    while !memory.is_idle() {
        run(memory);
    }
}

#[test]
fn what_the_cache_has_is_known_after_a_clean_stop() {
    for cache in ALL {
        let mut memory = life(cache, fresh());
        for page in READ {
            write(&mut memory, page, page as u8 + 1);
        }
        let (_, expected) = read(&mut memory);
        clean(&mut memory);
        for _ in 0..3 {
            memory = life(cache, memory.cut(&mut Keep(false)));
            assert_eq!(read(&mut memory), (24, expected.clone()), "{cache}");
            clean(&mut memory);
        }
        if !CACHES.contains(&cache) {
            continue;
        }
        let mut cold = life(&format!("{cache}:log=0"), fresh());
        read(&mut cold);
        clean(&mut cold);
        cold = life(&format!("{cache}:log=0"), cold.cut(&mut Keep(false)));
        assert_eq!(read(&mut cold).0, 0, "{cache}: nothing is known without a log");
    }
}

#[test]
fn what_was_written_since_the_last_flush_is_not_believed() {
    for cache in CACHES {
        let mut memory = life(cache, fresh());
        read(&mut memory);
        clean(&mut memory);
        write(&mut memory, 3, 7);
        for kept in [false, true] {
            let mut again = life(cache, memory.cut(&mut Keep(kept)));
            let (hits, bytes) = read(&mut again);
            assert!((8..24).contains(&hits), "{cache}: {hits} pages of other rows are known");
            assert_eq!(bytes[3], if kept { 7 } else { 0 }, "{cache}: as its member has it");
        }
    }
}

#[test]
fn a_cache_that_was_away_for_a_life_is_empty() {
    for cache in ALL {
        let mut memory = life(cache, fresh());
        read(&mut memory);
        clean(&mut memory);
        let mut away = memory.cut(&mut Keep(true));
        away.disks[SSD.index()].answers = false;
        let mut without = life(cache, away);
        let ssd = memory.cut(&mut Keep(true)).disks.pop().expect("the cache's device");
        write(&mut without, 3, 7);
        clean(&mut without);
        let mut back = without.cut(&mut Keep(true));
        back.disks[SSD.index()] = ssd;
        let mut memory = life(cache, back);
        settle(&mut memory);
        let (hits, bytes) = read(&mut memory);
        assert_eq!((hits, bytes[3]), (0, 7), "{cache}: what it had is not believed");
        assert!(memory.engine().controller().is_caching(), "{cache}: it is in use again");
        clean(&mut memory);
        let mut memory = life(cache, memory.cut(&mut Keep(false)));
        assert_eq!(read(&mut memory).0, 24, "{cache}: and what it has since is");
    }
}

#[test]
fn what_takes_the_place_of_a_cache_is_empty_whatever_it_holds() {
    for cache in ALL {
        for content in [ReplacementContent::Zeros, ReplacementContent::Stale, ReplacementContent::Garbage(3)] {
            let mut memory = life(cache, fresh());
            read(&mut memory);
            clean(&mut memory);
            memory.fail(SSD, &mut Keep(true));
            memory.announce_all();
            write(&mut memory, 3, 7);
            memory.replace(SSD, content);
            settle(&mut memory);
            let (hits, bytes) = read(&mut memory);
            assert_eq!((hits, bytes[3]), (0, 7), "{cache}, {content:?}");
            clean(&mut memory);
            let mut memory = life(cache, memory.cut(&mut Keep(false)));
            let (hits, bytes) = read(&mut memory);
            assert_eq!((hits, bytes[3]), (24, 7), "{cache}, {content:?}");
        }
    }
}

/// Deltas that were staged are of no use to a start. It frees them, in whichever of many lives that was.
#[test]
fn what_was_staged_before_a_cut_is_freed() {
    let staged =
        |remains: &CrashRemains| remains.nvram.slots().filter(|held| held.tag[1] == RaidArray::kind_above(1)).count();
    let cache = "kdd:ways=16:clean-after=1h";
    let mut memory = life(cache, fresh());
    for round in 0..3 {
        read(&mut memory);
        clean(&mut memory);
        for page in [3, 9, 14] {
            // A part of it, so that the delta is shorter than a page.
            let bytes: Vec<u8> = (0..PAGE as u8).map(|at| if at < 16 { round + 1 } else { 0 }).collect();
            request(&mut memory, HostOp::Write, page..page + 1, &bytes);
        }
        let remains = memory.cut(&mut Keep(true));
        assert!(staged(&remains) > 0, "{round}: deltas are staged");
        memory = life(cache, remains);
        clean(&mut memory);
        assert_eq!(staged(&memory.cut(&mut Keep(true))), 0, "{round}");
    }
}

/// With the cache's device and a member goes what a stale row had on it (docs/assumptions.md): it is answered as
/// lost, and not with what the parity covers.
#[test]
fn a_stale_page_of_a_member_that_is_lost_with_the_cache_is_lost() {
    for cache in
        ["leavo:ways=16:clean-after=1h", "kdd:ways=16:clean-after=1h", "kdd:ways=16:clean-after=1h:misses=delay"]
    {
        let mut memory = life(cache, fresh());
        for page in READ {
            write(&mut memory, page, 1);
        }
        clean(&mut memory);
        read(&mut memory);
        write(&mut memory, 3, 2);
        assert_eq!(memory.engine().controller().stale_rows(), 1, "{cache}");
        let place = geometry().locate(3);
        memory.fail(SSD, &mut Keep(true));
        memory.fail(geometry().device(place.stripe, place.column), &mut Keep(true));
        memory.announce_all();
        for (page, expected) in [(2, Some(1)), (3, None), (4, Some(1))] {
            let answer = answer(&mut memory, HostOp::Read, page..page + 1, &[]);
            assert_eq!(answer.map(|bytes| bytes[0]), expected, "{cache}, {page}");
        }
    }
}

#[test]
fn a_log_that_cannot_be_read_is_made_anew() {
    for cache in CACHES {
        let mut memory = life(cache, fresh());
        for round in 0..4 {
            for page in READ {
                write(&mut memory, page, round);
            }
        }
        read(&mut memory);
        clean(&mut memory);
        let mut remains = memory.cut(&mut Keep(true));
        let damaged = (0..3 * PAGE as usize).step_by(PAGE as usize);
        damaged.for_each(|at| remains.disks[SSD.index()].image[at + 20] ^= 1);
        let mut memory = life(cache, remains);
        settle(&mut memory);
        assert_eq!(read(&mut memory), (0, vec![3; 24]), "{cache}: nothing is known");
        clean(&mut memory);
        let mut memory = life(cache, memory.cut(&mut Keep(false)));
        assert_eq!(read(&mut memory), (24, vec![3; 24]), "{cache}: and then it is");
    }
}
