//! A device that takes so many commands at a time (`ssd.queue-depth`), against times worked out by
//! hand and against a model that looks for free places among all earlier requests.

use destage_plan::{Nanos, Op, PageGeometry, PageNo, Request};
use destage_sim::array::{DeviceOp, VirtualDevice};
use destage_sim::buffer::{BufferExperiment, DeviceConfig, FlushMode, RunResult};
use destage_sim::input::{HostModel, TrimMode};
use destage_sim::ssd::{Ssd, SsdConfig, SsdShape, StartState};

use crate::in_memory::{experiment, flush, read, run_one, write};
use crate::mixed::mixed;

const PAGE: u64 = 4096;
const US: u64 = 1000;

fn geometry() -> PageGeometry {
    PageGeometry::new(PAGE, 4).expect("a geometry")
}

/// Elements that program a page in 200 µs and read one in 25 µs.
fn config(elements: u32, queue_depth: Option<u32>) -> SsdConfig {
    SsdConfig {
        elements,
        planes: 1,
        lanes: 1,
        blocks_per_plane: 64,
        reserve_bp: 2000,
        transfer_ps_per_byte: 0,
        summary_page: false,
        queue_depth,
        ..SsdConfig::default()
    }
}

fn over(config: SsdConfig, policy: &str, cache_pages: u64) -> BufferExperiment {
    let device = DeviceConfig::Ssd(config, StartState::Empty);
    let mut experiment = experiment(&[policy], &[cache_pages * PAGE], geometry(), device);
    experiment.run.buffer_latency = Nanos::ZERO;
    experiment
}

fn response_sum(r: &RunResult) -> u64 {
    r.series.bins.iter().map(|bin| bin.read_response_sum + bin.write_response_sum).sum()
}

/// The response time of each request in µs.
fn responses(experiment: &BufferExperiment, requests: &[Request]) -> Vec<u64> {
    let sums = (0..=requests.len()).map(|limit| {
        let mut limited = experiment.clone();
        limited.replay.limit = Some(limit as u64);
        if limit == 0 { 0 } else { response_sum(&run_one(&limited, requests)) }
    });
    let sums: Vec<u64> = sums.collect();
    sums.windows(2).map(|pair| (pair[1] - pair[0]) / US).collect()
}

#[test]
fn an_idle_element_waits_for_a_place() {
    // Even pages lie on one element, odd ones on the other.
    let requests = [write(0, 0, 1), write(0, 2, 1), write(0, 1, 1), write(250, 3, 1), write(10_000, 1, 1)];
    let at_depth = |depth| responses(&over(config(2, depth), "none", 1), &requests);
    assert_eq!(at_depth(None), [200, 400, 200, 200, 200]);
    // The third waits for the first; the fourth finds the element idle since 400 and a place since
    // then.
    assert_eq!(at_depth(Some(2)), [200, 400, 400, 350, 200]);
    assert_eq!(at_depth(Some(1)), [200, 400, 600, 550, 200]);
    assert_eq!(at_depth(Some(3)), at_depth(None));
}

#[test]
fn the_wait_is_part_of_the_response_and_of_the_backlog_but_no_stall() {
    let requests = [write(0, 0, 1), write(0, 2, 1), write(0, 1, 1)];
    let r = run_one(&over(config(2, Some(1)), "none", 1), &requests);
    assert_eq!((response_sum(&r), r.simulated_time, r.stall_time), ((200 + 400 + 600) * US, 600 * US, Some(0)));
    assert_eq!(r.series.bins.iter().map(|bin| bin.backlog_sum).sum::<u64>(), 1 + 2);
}

#[test]
fn a_buffered_write_keeps_its_place_until_it_is_answered() {
    // The first two are answered at once, and what the third evicts is answered for by the third.
    let requests = [write(0, 0, 1), write(0, 1, 1), write(0, 2, 1), write(10, 0, 1), flush(20), read(30, 0, 1)];
    let mut lru = over(config(1, Some(1)), "lru", 2);
    assert_eq!(responses(&lru, &requests[..4]), [0, 0, 200, 390]);
    lru.run.flush = FlushMode::Drain;
    // Written by the flush: two pages from 400 on, until 800. The read is a hit, and waits for the
    // flush.
    assert_eq!(responses(&lru, &requests), [0, 0, 200, 390, 0, 770]);
}

#[test]
fn a_closed_loop_keeps_its_own_requests_outstanding() {
    let mut none = over(config(2, Some(1)), "none", 1);
    none.run.host = HostModel::Closed { depth: 2 };
    // Two are outstanding and one at a time is on the device: each but the first waits for the one
    // before it.
    let requests = [write(0, 0, 1), write(0, 1, 1), write(0, 2, 1), write(0, 3, 1)];
    assert_eq!(responses(&none, &requests), [200, 400, 400, 400]);
}

/// A request counts in the bin in which it arrives, though it is issued much later.
#[test]
fn series_go_by_arrival() {
    let requests: Vec<Request> = (0..100).map(|i| write(i, i % 40, 1)).collect();
    let r = run_one(&over(config(2, Some(1)), "none", 1), &requests);
    assert_eq!(r.simulated_time, 100 * 200 * US);
    let (first, rest) = r.series.bins.split_first().expect("a bin");
    assert_eq!((first.requests, first.accesses, first.host_bytes_written), (100, 100, 100 * PAGE));
    assert!(rest.iter().all(|bin| bin.requests == 0 && bin.accesses == 0));
}

/// The earliest time from `at` on at which fewer than `depth` of these are not done.
fn free_place(done: &[u64], at: u64, depth: usize) -> u64 {
    let candidates = done.iter().copied().filter(|&time| time > at).chain([at]);
    candidates
        .filter(|&time| done.iter().filter(|&&other| other > time).count() < depth)
        .min()
        .expect("the last is done")
}

#[test]
fn commands_are_issued_as_in_a_model() {
    for (seed, depth, gap) in [(1, 1, 12), (2, 2, 8), (3, 3, 6), (4, 5, 3)] {
        let config = SsdConfig { min_free_bp: 500, ..config(3, Some(depth)) };
        let shape = SsdShape::new(config.clone(), geometry()).expect("a shape");
        let requests = mixed(seed, shape.host_pages.into(), 2_000, Nanos(gap * 1_000_000));
        let requests: Vec<Request> = requests.into_iter().filter(|r| r.len > 0 && r.op != Op::Discard).collect();
        let mut ssd = Ssd::new(shape, StartState::Full);
        let (mut done, mut issued, mut sum, mut waited) = (Vec::new(), 0, 0, 0);
        for request in &requests {
            let at = free_place(&done, request.time.0.max(issued), depth as usize);
            waited += u64::from(at > request.time.0);
            issued = at;
            let pages = request.offset / PAGE..(request.offset + request.len).div_ceil(PAGE);
            let each = |page: u64| match request.op {
                Op::Write => ssd.program(Nanos(at), PageNo(page as u32)).0,
                _ => ssd.read(Nanos(at), PageNo(page as u32)).0,
            };
            let end = pages.map(each).max().expect("pages");
            done.push(end);
            sum += end - request.time.0;
        }
        let mut none = over(config, "none", 1);
        none.device = match none.device {
            DeviceConfig::Ssd(config, _) => DeviceConfig::Ssd(config, StartState::Full),
            other => other,
        };
        (none.run.trim, none.run.max_backlog) = (TrimMode::Ignore, u64::MAX >> 1);
        let r = run_one(&none, &requests);
        assert_eq!(r.saturated, None);
        assert_eq!((response_sum(&r), r.flash.erases), (sum, Some(ssd.total().erases)), "depth {depth}");

        assert!(waited > 20 && ssd.total().erases > 100, "{waited} waits and {} erases", ssd.total().erases);
    }
}

/// A member of an array takes no more at a time either; the array's controller is its host.
#[test]
fn a_member_of_an_array_takes_as_many() {
    let completions = |depth| {
        let shape = SsdShape::new(config(2, depth), geometry()).expect("a shape");
        let mut device = VirtualDevice::new_ssd(shape, StartState::Empty);
        for (tag, first) in [(0, 0), (1, 2), (2, 1)] {
            device.submit(Nanos::ZERO, DeviceOp::Write, first, 1, tag);
        }
        device.submit(Nanos::ZERO, DeviceOp::Flush, 0, 0, 3);
        std::iter::from_fn(|| device.complete())
            .map(|(at, tag)| (at.0 / US, tag.expect("a command")))
            .collect::<Vec<_>>()
    };
    assert_eq!(completions(None), [(200, 0), (200, 2), (400, 1), (400, 3)]);
    assert_eq!(completions(Some(2)), [(200, 0), (400, 1), (400, 2), (400, 3)]);
    assert_eq!(completions(Some(1)), [(200, 0), (400, 1), (600, 2), (600, 3)]);
}
