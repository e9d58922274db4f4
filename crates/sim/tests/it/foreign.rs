//! Policies that are written elsewhere: one that does what a listed one does has its results, and one that breaks the
//! rules is stopped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use destage_plan::{Op, PageGeometry, PageNo, Request};
use destage_policy::buffer::{
    BufferConfig, BufferPolicy, ChooserFailed, EvictionKind, EvictionUnit, Evictions, ForeignPolicy, NoDevice, NoVeto,
    PageAccess, PageChooser, VictimList,
};
use destage_sim::buffer::{AdmissionOrder, DeviceConfig, FlushMode, RunResult};
use destage_sim::ssd::{SsdConfig, StartState};

use crate::in_memory::{experiment, run};

const PAGE: u64 = 4096;

/// LRU as it is written down in a minute.
struct PlainLru {
    capacity: usize,
    /// The most recently used page first.
    order: VecDeque<u32>,
}

impl PageChooser for PlainLru {
    fn access(&mut self, access: PageAccess, held: bool, victims: &mut VictimList) -> Result<bool, ChooserFailed> {
        let page = access.page.0;
        assert_eq!(self.order.contains(&page), held, "it is told what it knows");
        self.order.retain(|&known| known != page);
        if self.order.len() == self.capacity {
            self.evict(victims)?;
        }
        self.order.push_front(page);
        Ok(true)
    }

    fn evict(&mut self, victims: &mut VictimList) -> Result<(), ChooserFailed> {
        if let Some(page) = self.order.pop_back() {
            victims.page(page.into());
            victims.end_unit();
        }
        Ok(())
    }

    fn admits(&self, _: PageAccess) -> Result<bool, ChooserFailed> {
        Ok(true)
    }

    fn trimmed(&mut self, page: PageNo) -> Result<(), ChooserFailed> {
        self.order.retain(|&known| known != page.0);
        Ok(())
    }

    fn cleaned(&mut self, _: &[PageNo]) -> Result<(), ChooserFailed> {
        Ok(())
    }

    fn broke(&self, message: String) {
        panic!("{message}");
    }
}

fn plain_lru() -> ForeignPolicy {
    let make = |config: BufferConfig| {
        Ok(Box::new(PlainLru { capacity: config.capacity_pages as usize, order: VecDeque::new() })
            as Box<dyn PageChooser>)
    };
    ForeignPolicy { name: "plain".into(), unit: EvictionUnit::Page, make: Arc::new(make) }
}

/// Requests of every kind that meet each other.
fn requests() -> Vec<Request> {
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let request = |n: u64| {
        let op = match next(20) {
            0 => Op::Flush,
            1 => Op::Discard,
            2..8 => Op::Read,
            _ => Op::Write,
        };
        let (offset, len) = (next(400) * 1024, if op == Op::Flush { 0 } else { (1 + next(12)) * 1024 });
        Request { time: destage_plan::Nanos(n * 300_000), offset, len, volume: 0, op, fua: next(30) == 0 }
    };
    (0..20_000).map(request).collect()
}

/// The results but for what a policy that is written elsewhere does not tell.
fn comparable(mut result: RunResult) -> RunResult {
    result.policy.clear();
    result.params.clear();
    result.counters.memory_accesses = 0;
    result
}

#[test]
fn one_that_does_what_lru_does_has_its_results() {
    let geometry = PageGeometry::new(PAGE, 64).expect("a geometry");
    let ssd =
        DeviceConfig::Ssd(SsdConfig { elements: 1, blocks_per_plane: 16, ..SsdConfig::default() }, StartState::Full);
    let requests = requests();
    for device in [DeviceConfig::None, ssd] {
        let ways = [(FlushMode::Ignore, AdmissionOrder::Page), (FlushMode::Drain, AdmissionOrder::Request)];
        for (flush, admission) in ways {
            let mut both = experiment(&["lru", "plain"], &[16 * PAGE, 64 * PAGE], geometry, device.clone());
            (both.run.flush, both.run.admission) = (flush, admission);
            both.foreign = vec![plain_lru()];
            let results = run(&both, &requests).results;
            let [listed @ .., a, b] = &results[..] else { panic!("four runs") };
            assert_eq!(a.policy, "plain");
            assert!(a.counters.hits > 100 && a.counters.dirty_pages_flushed > 100, "there is something to compare");
            let same = [a, b].map(|result| comparable(result.clone()));
            for (listed, same) in listed.iter().cloned().map(comparable).zip(same) {
                assert_eq!(listed.counters, same.counters);
                // A flush writes in the order of pages here, and the least recently used first there.
                assert!(flush == FlushMode::Drain || listed == same, "only times can differ, and only by flushes");
            }
        }
    }
}

/// Answers every access in the same way.
struct Stubborn {
    victims: &'static [&'static [u64]],
    /// Names victims only when it is asked for one, and lets pages in meanwhile.
    waits: bool,
    told: Arc<Mutex<Vec<String>>>,
}

impl PageChooser for Stubborn {
    fn access(&mut self, _: PageAccess, _: bool, victims: &mut VictimList) -> Result<bool, ChooserFailed> {
        if self.waits { Ok(true) } else { self.evict(victims).map(|()| true) }
    }

    fn evict(&mut self, victims: &mut VictimList) -> Result<(), ChooserFailed> {
        for unit in self.victims {
            unit.iter().for_each(|&page| victims.page(page));
            victims.end_unit();
        }
        Ok(())
    }

    fn admits(&self, _: PageAccess) -> Result<bool, ChooserFailed> {
        Ok(true)
    }

    fn trimmed(&mut self, _: PageNo) -> Result<(), ChooserFailed> {
        Ok(())
    }

    fn cleaned(&mut self, _: &[PageNo]) -> Result<(), ChooserFailed> {
        Ok(())
    }

    fn broke(&self, message: String) {
        self.told.lock().expect("nobody panicked").push(message);
    }
}

/// Returns what a policy with these answers is told, after writes of these pages into a buffer of two.
fn told(unit: EvictionUnit, victims: &'static [&'static [u64]], pages: &[u32]) -> Vec<String> {
    let told = Arc::default();
    let (into, config) = (Arc::clone(&told), BufferConfig { capacity_pages: 2, pages_per_block: 4, elements: 1 });
    let make =
        move |_| Ok(Box::new(Stubborn { victims, waits: false, told: Arc::clone(&into) }) as Box<dyn PageChooser>);
    let mut buffer =
        ForeignPolicy { name: "stubborn".into(), unit, make: Arc::new(make) }.build(config).expect("a buffer");
    buffer.grow(16);
    let mut out = Evictions::default();
    for &page in pages {
        buffer.access(PageAccess::write(page), &NoDevice, &mut NoVeto, &mut out);
        assert!(buffer.len() <= 2);
    }
    drop(buffer);
    Arc::into_inner(told).expect("the buffer has gone").into_inner().expect("nobody panicked")
}

#[test]
fn one_that_breaks_the_rules_is_stopped_and_told_once() {
    let page = EvictionUnit::Page;
    let full = "lets page 3 in while the buffer is full: it holds 2 pages, so that one has to leave first";
    assert_eq!(told(page, &[], &[1, 2, 1, 3, 4]), [full]);
    assert_eq!(told(page, &[&[7]], &[1, 2]), ["evicts page 7 at the access to page 1, which is not in the buffer"]);
    let far = "evicts page 18446744073709551615 at the access to page 1, which is not in the buffer";
    assert_eq!(told(page, &[&[u64::MAX]], &[1]), [far]);
    assert_eq!(
        told(page, &[&[1, 2]], &[1]),
        ["evicts 2 pages as one victim, which only a policy that evicts blocks does"]
    );
    let apart = "evicts pages 3 and 4 as one victim, which are of different blocks";
    assert_eq!(told(EvictionUnit::Block, &[&[3, 4]], &[3]), [apart]);
    assert_eq!(told(page, &[], &[1, 2, 1]), Vec::<String>::new());
}

#[test]
fn pages_of_a_block_leave_as_one_victim() {
    let config = BufferConfig { capacity_pages: 4, pages_per_block: 4, elements: 1 };
    let make = |_| {
        let victims: &[&[u64]] = &[&[4, 5, 6]];
        Ok(Box::new(Stubborn { victims, waits: true, told: Arc::default() }) as Box<dyn PageChooser>)
    };
    let policy = ForeignPolicy { name: "blocks".into(), unit: EvictionUnit::Block, make: Arc::new(make) };
    let mut buffer = policy.build(config).expect("a buffer");
    buffer.grow(16);
    let mut out = Evictions::default();
    assert!(!buffer.evict(&NoDevice, &mut NoVeto, &mut out), "nothing is held");
    for access in [PageAccess::write(4), PageAccess::read(5), PageAccess::write(6), PageAccess::write(1)] {
        buffer.access(access, &NoDevice, &mut NoVeto, &mut out);
    }
    assert!(out.is_empty() && buffer.evict(&NoDevice, &mut NoVeto, &mut out));
    let left: Vec<_> = out.groups().map(|(group, pages)| (group.kind, group.units, pages.to_vec())).collect();
    let [dirty, clean] = [vec![PageNo(4), PageNo(6)], vec![PageNo(5)]];
    assert_eq!(left, [(EvictionKind::Flush, 0, dirty), (EvictionKind::Drop, 1, clean)]);
    assert_eq!(buffer.len(), 1);
}
