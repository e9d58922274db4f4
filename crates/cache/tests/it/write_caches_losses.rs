//! Tests that recovery preserves what write caches hold of lost members (docs/assumptions.md), whatever is lost
//! afterwards.

use std::ops::Range;

use destage_cache::{ServedTier, serve};
use destage_exec::{CrashRemains, CutChoice, MemoryExecutor, NextStep, NoCheck};
use destage_plan::{Column, Dev, HostNotice, HostOp, HostRequest, Nanos, Shape, Status, Stripe};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};

const PAGE: u64 = 64;
/// Steps after which nothing is waited for any more.
const PATIENCE: u64 = 1_000;

/// Keeps nothing that was not flushed.
pub struct Nothing;

impl CutChoice for Nothing {
    fn page(&mut self, _: usize, _: u64, _: u128) -> u128 {
        0
    }

    fn nvram(&mut self, _: usize) -> usize {
        0
    }
}

struct Bench {
    cache: &'static str,
    geometry: Geometry,
}

impl Bench {
    fn new(cache: &'static str, level: RaidLevel) -> Self {
        Self { cache, geometry: Geometry::new(level, None, 5, 1, 16).expect("a shape that can be") }
    }

    fn life(&self, remains: CrashRemains) -> MemoryExecutor<Box<dyn ServedTier>> {
        let mut config = ArrayConfig::new(self.geometry.clone());
        config.idle_flush = Nanos(1 << 60);
        let controller = serve(self.cache, &config, 8).expect("a cache that can be");
        let stripe = u64::from(self.geometry.data_columns());
        let shape = Shape::new(PAGE, 16, stripe, stripe, self.geometry.data_pages()).expect("a tiny array");
        MemoryExecutor::start(controller, remains, shape, 8)
    }

    /// A life of which a cut leaves row 0 open by a discard, page 1 of it in the NVRAM, and the
    /// other pages trimmed; the member of page 1 does not answer any more.
    fn remains(&self) -> CrashRemains {
        let bytes = (self.geometry.member_pages() * PAGE) as usize;
        let mut memory = self.life(CrashRemains::fresh((0..self.geometry.members()).map(|_| bytes)));
        let data = u64::from(self.geometry.data_columns());
        request(&mut memory, 1, HostOp::Discard, 0..data, &[]);
        request(&mut memory, 2, HostOp::Write, 1..2, &[7; PAGE as usize]);
        let mut remains = memory.cut(&mut Nothing);
        assert!(remains.nvram.intents.ranges().iter().any(|rows| rows.first.0 == 0), "row 0 is open");
        assert!(remains.nvram.slots().count() > 0, "page 1 is in the NVRAM");
        remains.disks[self.member(Column(1)).index()].answers = false;
        remains
    }

    fn member(&self, column: Column) -> Dev {
        self.geometry.device(Stripe(0), column)
    }
}

/// Asks for something, waits for it, and says whether it was done.
fn request(
    memory: &mut MemoryExecutor<Box<dyn ServedTier>>,
    tag: u64,
    op: HostOp,
    pages: Range<u64>,
    bytes: &[u8],
) -> bool {
    let len = (pages.end - pages.start) * PAGE;
    let request = HostRequest { tag, op, offset: pages.start * PAGE, len, fua: false };
    memory.submit(request, bytes).expect("a request in range");
    for _ in 0..PATIENCE {
        memory.run(NextStep::Oldest, &NoCheck).expect("the controller goes on");
        while let Some(notice) = memory.next_notice() {
            if let HostNotice::Acked { tag: of, ok, .. } = notice
                && of == tag
            {
                return ok;
            }
        }
    }
    panic!("{request:?} is never answered");
}

fn check(memory: &mut MemoryExecutor<Box<dyn ServedTier>>, tag: u64, what: &str) {
    assert!(request(memory, tag, HostOp::Read, 1..2, &[]), "{what}: it is answered");
    assert_eq!(memory.request_bytes(tag), [7; PAGE as usize], "{what}");
}

const CACHES: [&str; 3] =
    ["wow:low=100:high=100", "stow:low=100:high=100:hysteresis=0", "sync+wow:timeout=1h:groups=2"];

/// Recovery makes the parity of the row cover the page, and the cache keeps it all the same: with
/// parity lost as well it is the only one to have it.
#[test]
fn a_page_of_a_lost_member_is_kept_by_recovery() {
    for cache in CACHES {
        for level in [RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6] {
            let bench = Bench::new(cache, level);
            let mut memory = bench.life(bench.remains());
            check(&mut memory, 1, &format!("{cache} over {level}, recovered"));
            assert_eq!(memory.status(), Status::Ready);
            for column in bench.geometry.data_columns()..bench.geometry.members() {
                memory.fail(bench.member(Column(column)), &mut Nothing);
            }
            memory.announce_all();
            check(&mut memory, 2, &format!("{cache} over {level}, without the parity"));
        }
    }
}

/// The power fails again, at each moment until the row is consistent, and later.
#[test]
fn a_page_of_a_lost_member_survives_cuts_of_recovery() {
    for cache in CACHES {
        for level in [RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6] {
            let bench = Bench::new(cache, level);
            let mut memory = bench.life(bench.remains());
            let mut cuts = 0;
            while memory.status() != Status::Ready {
                let mut again = bench.life(memory.cut(&mut Nothing));
                check(&mut again, 1, &format!("{cache} over {level}, cut {cuts}"));
                memory.run(NextStep::Oldest, &NoCheck).expect("the controller goes on");
                cuts += 1;
                assert!(cuts < PATIENCE, "it comes to an end");
            }
            assert!(cuts > 5, "{cuts} cuts");
        }
    }
}
