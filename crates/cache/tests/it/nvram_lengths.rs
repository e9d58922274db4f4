//! A slot of the NVRAM that has more or fewer bytes than what it says takes was not written by the controller: the
//! start is refused, and nobody asks for bytes that are not there.

use std::collections::BTreeSet;

use destage_cache::{ServedTier, serve};
use destage_exec::{CrashRemains, CutChoice, MemoryExecutor, MemoryNvram, NextStep, NoCheck};
use destage_plan::{Dev, HostOp, HostRequest, Nanos, NvHeld, Refusal, Shape, Status};
use destage_raid::array::{ArrayConfig, RaidArray};
use destage_raid::{Geometry, RaidLevel};

const PAGE: u64 = 128;
const CACHE_PAGES: u64 = 60;

/// Everything that was asked for is there.
struct All;

impl CutChoice for All {
    fn page(&mut self, _: usize, _: u64, all: u128) -> u128 {
        all
    }

    fn nvram(&mut self, queued: usize) -> usize {
        queued
    }
}

fn geometry() -> Geometry {
    Geometry::new(RaidLevel::Raid5, None, 5, 2, 32).expect("a shape that can be")
}

fn life(cache: &str, remains: CrashRemains) -> MemoryExecutor<Box<dyn ServedTier>> {
    let mut config = ArrayConfig::new(geometry());
    (config.idle_flush, config.page_bytes) = (Nanos(1 << 60), PAGE as u32);
    let controller = serve(cache, &config, CACHE_PAGES).expect("a cache that can be");
    let shape = Shape::new(PAGE, 16, 8, 8, geometry().data_pages()).expect("a tiny array");
    let mut memory = MemoryExecutor::start(controller, remains, shape, 8);
    while memory.status() == Status::Starting || !memory.is_idle() {
        memory.run(NextStep::Oldest, &NoCheck).expect("the controller goes on");
    }
    memory
}

fn ask(memory: &mut MemoryExecutor<Box<dyn ServedTier>>, tag: u64, op: HostOp, page: u64, bytes: &[u8]) {
    memory.submit(HostRequest { tag, op, offset: page * PAGE, len: PAGE, fua: false }, bytes).expect("it is in range");
    let mut answered = false;
    while !answered || !memory.is_idle() {
        memory.run(NextStep::Oldest, &NoCheck).expect("the controller goes on");
        answered |= std::iter::from_fn(|| memory.next_notice()).count() > 0;
    }
}

/// Returns the remains of a crash after pages were read and then changed in part. With `one_too_few` the first
/// member fails in between.
fn remains(cache: &str, one_too_few: bool) -> CrashRemains {
    let disks = (0..5).map(|_| geometry().member_pages() * PAGE).chain([CACHE_PAGES * PAGE]);
    let mut memory = life(cache, CrashRemains::fresh(disks.map(|bytes| bytes as usize)));
    for page in 0..8 {
        ask(&mut memory, page, HostOp::Read, page, &[]);
    }
    if one_too_few {
        memory.fail(Dev(0), &mut All);
        memory.announce_all();
    }
    for page in 0..8 {
        let bytes: Vec<u8> = (0..PAGE).map(|at| u8::from(at < 16) * (page as u8 + 1)).collect();
        ask(&mut memory, 8 + page, HostOp::Write, page, &bytes);
    }
    memory.cut(&mut All)
}

/// The same slots, of which the one at this place has so many bytes.
fn with_length(nvram: &MemoryNvram, place: usize, len: usize) -> MemoryNvram {
    let mut changed = MemoryNvram::default();
    changed.intents = nvram.intents.clone();
    for (at, NvHeld { slot, tag, bytes, .. }) in nvram.slots().enumerate() {
        let mut bytes = bytes.to_vec();
        if at == place {
            bytes.resize(len, 0);
        }
        changed.put(slot, tag, &bytes);
    }
    changed
}

#[test]
fn a_start_with_a_slot_of_another_length_is_refused() {
    let mut kinds = BTreeSet::new();
    for cache in ["none", "write-back:ways=16", "kdd:ways=16:clean-after=1h", "wow:low=100:high=100", "stow", "lawc"] {
        for one_too_few in [false, true] {
            let left = remains(cache, one_too_few);
            let started = |nvram: MemoryNvram| life(cache, CrashRemains { nvram, ..left.clone() }).status();
            for (place, held) in left.nvram.slots().enumerate() {
                kinds.insert(held.tag[1]);
                let len = held.bytes.len();
                assert_ne!(
                    started(with_length(&left.nvram, place, len)),
                    Status::Refused(Refusal::Nvram),
                    "{cache}: {held:?}"
                );
                for other in
                    [0, len.saturating_sub(1), len + 1, PAGE as usize].into_iter().filter(|other| *other != len)
                {
                    let status = started(with_length(&left.nvram, place, other));
                    assert_eq!(status, Status::Refused(Refusal::Nvram), "{cache}: {held:?} has {other} bytes");
                }
            }
        }
    }
    // Members that are lost, logged pages; pages of write caches, deltas, entries of the journal, its state.
    let above = (0..4).map(RaidArray::kind_above);
    assert_eq!(kinds, [1, 2].into_iter().chain(above).collect(), "every kind of slot was there");
}
