//! Requests that come in page by page, and requests for which room is made at once (`admission`):
//! by hand, against models that look at every page and block, and where both must be the same.

use std::collections::{BTreeSet, VecDeque};

use destage_plan::{Nanos, Op, PageGeometry, Request};
use destage_policy::buffer::policies;
use destage_sim::buffer::{AdmissionOrder, BufferExperiment, DeviceConfig, RunResult, SimError};
use destage_sim::ssd::{SsdConfig, StartState};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::in_memory::{ONE_THREAD, experiment, read, run_one, try_run, write};
use crate::mixed::{below, mixed};

const PAGE: u64 = 4096;
const ADMISSIONS: [AdmissionOrder; 2] = [AdmissionOrder::Page, AdmissionOrder::Request];

fn over(
    device: DeviceConfig,
    policy: &str,
    pages_per_block: u64,
    cache_pages: u64,
    admission: AdmissionOrder,
) -> BufferExperiment {
    let geometry = PageGeometry::new(PAGE, pages_per_block).expect("a geometry");
    let mut experiment = experiment(&[policy], &[cache_pages * PAGE], geometry, device);
    (experiment.run.admission, experiment.run.drain) = (admission, false);
    experiment
}

/// Hits, evictions and evicted pages of a buffer without a device and with blocks of four pages.
fn counted(policy: &str, cache_pages: u64, requests: &[Request]) -> [(u64, u64, u64); 2] {
    ADMISSIONS.map(|admission| {
        let c = run_one(&over(DeviceConfig::None, policy, 4, cache_pages, admission), requests).counters;
        (c.hits, c.evictions, c.evicted_pages)
    })
}

#[test]
fn fab_gives_up_the_block_that_a_request_fills_only_page_by_page() {
    // Five blocks of one page and one request of four pages in a buffer of eight.
    let requests: Vec<Request> =
        (0..5).map(|block| write(block, 4 * block, 1)).chain([write(10, 20, 4), write(11, 0, 1)]).collect();
    // The fourth page pushes out the three that came with it; room for all four takes block 0.
    assert_eq!(counted("fab", 8, &requests), [(1, 1, 3), (0, 2, 1 + 4)]);
}

#[test]
fn what_the_request_would_have_hit_may_leave_for_it() {
    // The least recently used block is that of the request: two of its pages leave, and need room
    // again.
    let requests = [write(0, 0, 2), write(1, 4, 2), write(2, 0, 4)];
    assert_eq!(counted("bplru:compensation=off", 4, &requests), [(2, 1, 2), (0, 2, 4)]);
    // Page 0 is behind page 5 in both, and leaves for page 1 though it is asked for first.
    let requests = [write(0, 0, 1), write(1, 5, 1), write(2, 0, 2)];
    assert_eq!(counted("lru", 2, &requests), [(1, 1, 1), (0, 2, 2)]);
}

#[test]
fn a_request_larger_than_the_buffer_finds_it_empty_and_goes_on_page_by_page() {
    let requests = [write(0, 40, 3), write(1, 0, 6), read(2, 2, 4), write(3, 5, 1)];
    assert_eq!(counted("lru", 4, &requests)[1], (5, 3 + 2, 5));
    // Room for pages that are not let in is not made.
    let requests = [write(0, 0, 4), read(1, 8, 4), write(2, 0, 1)];
    assert_eq!(counted("lb-clock:insert_anchor=current_hand", 4, &requests), [(1, 0, 0); 2]);
}

/// A buffered block of a model.
#[derive(Clone, Debug)]
struct Block {
    number: u64,
    pages: BTreeSet<u64>,
    dirty: BTreeSet<u64>,
    recent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Blocks in the order of their last access; the largest leaves.
    Fab,
    /// Blocks in the order of their last write; the first leaves.
    Bplru,
    /// Blocks clockwise from the hand.
    LbClock,
}

/// A buffer in which everything is found by looking.
struct Naive {
    rule: Rule,
    per_block: u64,
    capacity: usize,
    blocks: VecDeque<Block>,
    hits: u64,
    evictions: u64,
    evicted: u64,
    flushed: u64,
}

impl Naive {
    fn held(&self) -> usize {
        self.blocks.iter().map(|block| block.pages.len()).sum()
    }

    fn holds(&self, page: u64) -> bool {
        self.blocks.iter().any(|block| block.pages.contains(&page))
    }

    fn evict(&mut self) {
        let first_of_largest = |blocks: &VecDeque<Block>, among: &dyn Fn(&Block) -> bool| {
            let largest = blocks.iter().filter(|block| among(block)).map(|block| block.pages.len()).max()?;
            blocks.iter().position(|block| among(block) && block.pages.len() == largest)
        };
        let at = match self.rule {
            Rule::Fab => first_of_largest(&self.blocks, &|_| true),
            Rule::Bplru => Some(0),
            Rule::LbClock => {
                let mut reset = BTreeSet::new();
                while self.blocks[0].recent {
                    let mut block = self.blocks.pop_front().expect("a block");
                    block.recent = false;
                    reset.insert(block.number);
                    self.blocks.push_back(block);
                }
                let candidate = |block: &Block| !block.recent && !reset.contains(&block.number);
                first_of_largest(&self.blocks, &candidate).or_else(|| first_of_largest(&self.blocks, &|_| true))
            }
        };
        let block = self.blocks.remove(at.expect("a victim")).expect("a block");
        self.evictions += 1;
        self.evicted += block.pages.len() as u64;
        self.flushed += block.dirty.len() as u64;
    }

    fn access(&mut self, page: u64, write: bool) {
        let (hit, number) = (self.holds(page), page / self.per_block);
        self.hits += u64::from(hit);
        if !write && self.rule != Rule::Fab {
            return;
        }
        while !hit && self.held() == self.capacity {
            self.evict();
        }
        let at = self.blocks.iter().position(|block| block.number == number);
        let new = || Block { number, pages: BTreeSet::new(), dirty: BTreeSet::new(), recent: true };
        let place = match (self.rule, at) {
            (Rule::LbClock, Some(at)) => at,
            (_, at) => {
                let block = at.and_then(|at| self.blocks.remove(at)).unwrap_or_else(new);
                self.blocks.push_back(block);
                self.blocks.len() - 1
            }
        };
        let block = &mut self.blocks[place];
        block.recent = true;
        block.pages.insert(page);
        if write {
            block.dirty.insert(page);
        }
    }

    fn request(&mut self, pages: std::ops::Range<u64>, write: bool, admission: AdmissionOrder) {
        let comes_in = write || self.rule == Rule::Fab;
        let lacks = |naive: &Self| pages.clone().filter(|&page| comes_in && !naive.holds(page)).count();
        while admission == AdmissionOrder::Request && self.held() + lacks(self).min(self.capacity) > self.capacity {
            self.evict();
        }
        pages.clone().for_each(|page| self.access(page, write));
    }
}

#[test]
fn policies_of_blocks_agree_with_models() {
    const PER_BLOCK: u64 = 16;
    let rules = [
        (Rule::Fab, "fab"),
        (Rule::Bplru, "bplru:compensation=off"),
        (Rule::LbClock, "lb-clock:opt_preempt=false:opt_seq=false:insert_anchor=current_hand"),
    ];
    let mut apart = 0;
    for seed in 0..6 {
        let requests: Vec<Request> = mixed(seed, 600, 1_500, Nanos(1_000));
        let requests: Vec<Request> = requests.into_iter().filter(|r| matches!(r.op, Op::Read | Op::Write)).collect();
        for (rule, policy) in rules {
            for capacity in [1, 5, 33, 100, 300] {
                let found = ADMISSIONS.map(|admission| {
                    let experiment = over(DeviceConfig::None, policy, PER_BLOCK, capacity, admission);
                    let c = run_one(&experiment, &requests).counters;
                    let (blocks, zero) = (VecDeque::new(), 0);
                    let mut naive = Naive {
                        rule,
                        per_block: PER_BLOCK,
                        capacity: capacity as usize,
                        blocks,
                        hits: zero,
                        evictions: zero,
                        evicted: zero,
                        flushed: zero,
                    };
                    for request in &requests {
                        let pages = request.offset / PAGE..(request.offset + request.len).div_ceil(PAGE);
                        let pages = if request.len == 0 { 0..0 } else { pages };
                        naive.request(pages, request.op == Op::Write, admission);
                    }
                    let expected = (naive.hits, naive.evictions, naive.evicted, naive.flushed);
                    let found = (c.hits, c.evictions, c.evicted_pages, c.dirty_pages_flushed);
                    assert_eq!(found, expected, "{policy}, {capacity} pages, {admission:?}, seed {seed}");
                    found
                });
                apart += u32::from(found[0] != found[1]);
            }
        }
    }
    assert!(apart > 60, "in {apart} of 90 cases only it matters when room is made");
}

/// Of a request of one page nothing can push out anything: every policy does the same, at the same
/// times.
#[test]
fn requests_of_one_page_come_in_as_ever() {
    let config = SsdConfig {
        elements: 3,
        planes: 2,
        blocks_per_plane: 48,
        lanes: 2,
        transfer_ps_per_byte: 0,
        ..SsdConfig::default()
    };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let requests: Vec<Request> = (0..6_000)
        .map(|i| {
            let page = if below(&mut rng, 3) == 0 { below(&mut rng, 7_000) } else { below(&mut rng, 300) };
            if below(&mut rng, 4) == 0 { read(i * 900, page, 1) } else { write(i * 900, page, 1) }
        })
        .collect();
    // Room is made before it is known whether the page is one that was given up lately: what leaves then may differ.
    let remember = ["2q", "arc", "s3-fifo"];
    let all = policies().iter().filter(|policy| !policy.chooses_channels && !remember.contains(&policy.name));
    let all = all.map(|policy| match policy.name {
        "lb-clock" => "lb-clock:insert_anchor=current_hand",
        name => name,
    });
    for policy in all.chain(["gcar+lru", "gcar+bplru", "2q:out=0", "s3-fifo:ghost=0"]) {
        let shown = ADMISSIONS.map(|admission| {
            let device = DeviceConfig::Ssd(config.clone(), StartState::Full);
            let r: RunResult = run_one(&over(device, policy, 32, 200, admission), &requests);
            assert!(policy == "none" || r.counters.evictions > 100, "{policy}: {} evictions", r.counters.evictions);
            format!("{:?} {:?} {:?} {:?}", r.counters, r.flash, r.response, r.stall_time)
        });
        assert_eq!(shown[0], shown[1], "{policy}");
    }
}

#[test]
fn what_needs_the_page_that_comes_in_is_refused() {
    let requests = std::sync::Arc::new(vec![write(0, 0, 1)]);
    let found = |policy: &str, admission| {
        let report = try_run(&over(DeviceConfig::None, policy, 4, 8, admission), ONE_THREAD, &requests);
        report.map(|report| report.results[0].params.clone())
    };
    for policy in ["fab:protect_current=true", "gcar+bplru:protect_current=true", "lb-clock:insert_anchor=initial_hand"]
    {
        let refused = found(policy, AdmissionOrder::Request).expect_err(policy);
        assert!(matches!(refused, SimError::Unsuited { .. }), "{refused}");
        assert!(refused.to_string().ends_with("or set admission = page"), "{refused}");
    }
    assert!(found("fab:protect_current=true", AdmissionOrder::Page).is_ok());
    let anchor = |admission| {
        let params = found("lb-clock", admission).expect("it runs");
        params.into_iter().find(|param| param.name == "insert_anchor").expect("a parameter").value
    };
    assert_eq!(ADMISSIONS.map(anchor), ["initial_hand", "current_hand"]);
}
