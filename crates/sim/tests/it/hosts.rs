//! Hosts, queues and what comes between the trace and the device, against response times worked out
//! by hand.
//!
//! Unless said otherwise the SSD has one element, programs a page in 200 µs, reads one in 25 µs,
//! moves pages in no time and is empty, and the buffer takes no time either.

use std::sync::Arc;

use destage_plan::{Nanos, Op, PageGeometry, Request};
use destage_policy::buffer::policies;
use destage_sim::buffer::{BufferExperiment, DeviceConfig, FlushMode, RunResult, SimError};
use destage_sim::experiment::ExperimentError;
use destage_sim::input::{HostModel, LbaOverflow, PlaySpeed, TraceOps, VolumeSelection, WarmupPart};
use destage_sim::measure::SaturationCause;
use destage_sim::ssd::{SsdConfig, SsdShape, StartState};

use crate::in_memory::{ONE_THREAD, discard, experiment, flush, read, run, run_one, try_run, write};
use crate::mixed::mixed;

const PAGE: u64 = 4096;
const US: u64 = 1000;

/// Blocks of four pages.
fn geometry() -> PageGeometry {
    PageGeometry::new(PAGE, 4).expect("a geometry")
}

fn ssd(elements: u32, start: StartState) -> DeviceConfig {
    let config = SsdConfig {
        elements,
        planes: 1,
        lanes: 1,
        blocks_per_plane: 1 << 16,
        transfer_ps_per_byte: 0,
        summary_page: false,
        ..SsdConfig::default()
    };
    DeviceConfig::Ssd(config, start)
}

fn over(device: DeviceConfig, policy: &str, cache_pages: u64) -> BufferExperiment {
    let mut experiment = experiment(&[policy], &[cache_pages * PAGE], geometry(), device);
    experiment.run.buffer_latency = Nanos::ZERO;
    experiment
}

fn one_element(policy: &str, cache_pages: u64) -> BufferExperiment {
    over(ssd(1, StartState::Empty), policy, cache_pages)
}

fn no_device(policy: &str, cache_pages: u64) -> BufferExperiment {
    over(DeviceConfig::None, policy, cache_pages)
}

/// The sum of the response times, which the series has exactly.
fn response_sum(r: &RunResult) -> u64 {
    r.series.bins.iter().map(|bin| bin.read_response_sum + bin.write_response_sum).sum()
}

/// The response time of each request in microseconds: what the sum grows by when one request more
/// takes part.
fn responses(experiment: &BufferExperiment, requests: &[Request]) -> Vec<u64> {
    let mut sum = 0;
    (1..=requests.len())
        .map(|limit| {
            let mut limited = experiment.clone();
            limited.replay.limit = Some(limit as u64);
            let now = response_sum(&run_one(&limited, requests));
            let response = now - std::mem::replace(&mut sum, now);
            assert_eq!(response % US, 0, "request {limit}");
            response / US
        })
        .collect()
}

#[test]
fn writes_past_the_buffer_queue_at_the_element() {
    let requests = [write(0, 0, 1), write(100, 1, 1), write(200, 2, 1), write(700, 3, 1), write(700, 4, 2)];
    let none = one_element("none", 1);
    assert_eq!(responses(&none, &requests), [200, 300, 400, 200, 600]);
    let r = run_one(&none, &requests);
    let response = r.response.expect("response times");
    let all = response.all.expect("requests");
    assert_eq!((all.count, all.mean, all.max), (5, 340_000.0, 600_000));
    assert_eq!((response.read, r.stall_time, r.simulated_time), (None, Some(0), 1_300 * US));
    let deviation = ((4.0 + 9.0 + 16.0 + 4.0 + 36.0) * 10_000.0 / 5.0 - 340.0_f64 * 340.0).sqrt() * 1000.0;
    assert!((all.standard_deviation - deviation).abs() < 1e-6);
}

#[test]
fn reads_wait_behind_programs_and_nothing_is_read_that_was_never_written() {
    let requests = [read(0, 0, 1), write(0, 0, 1), read(50, 0, 1), read(60, 9, 1), read(1_000, 0, 1)];
    let none = one_element("none", 1);
    assert_eq!(responses(&none, &requests), [0, 200, 175, 0, 25]);
    assert_eq!(run_one(&none, &requests).ssd.expect("an SSD").unmapped_reads, 2);
}

#[test]
fn elements_work_side_by_side() {
    let none = over(ssd(2, StartState::Empty), "none", 1);
    assert_eq!(responses(&none, &[write(0, 0, 2), write(1_000, 0, 3), write(1_100, 1, 1)]), [200, 400, 300]);
}

#[test]
fn a_transfer_is_part_of_each_operation() {
    let DeviceConfig::Ssd(config, start) = ssd(1, StartState::Empty) else { unreachable!("an SSD was made") };
    let device = DeviceConfig::Ssd(SsdConfig { transfer_ps_per_byte: 1_000_000, ..config }, start);
    // Eight sectors of 528 bytes at 1 µs.
    let none = over(device, "none", 1);
    assert_eq!(responses(&none, &[write(0, 0, 1), read(10_000, 0, 1)]), [200 + 4224, 25 + 4224]);
}

#[test]
fn the_buffers_latency_counts_once_per_page() {
    let mut lru = one_element("lru", 8);
    lru.run.buffer_latency = Nanos(US);
    assert_eq!(responses(&lru, &[write(0, 0, 3), write(10, 0, 1), read(20, 0, 2), read(30, 7, 1)]), [3, 1, 2, 1]);
}

#[test]
fn an_insertion_waits_for_the_program_of_its_own_eviction() {
    let requests = [write(0, 0, 1), write(50, 1, 1), write(60, 2, 1), write(2_000, 2, 1), write(2_000, 3, 1)];
    let mut lru = one_element("lru", 1);
    assert_eq!(responses(&lru, &requests), [0, 200, 390, 0, 200]);
    assert_eq!(run_one(&lru, &requests).stall_time, Some((200 + 390 + 200) * US));
    // The copy into the frame comes after the wait.
    lru.run.buffer_latency = Nanos(US);
    assert_eq!(responses(&lru, &requests), [1, 201, 391, 1, 201]);
    // A frame that held a clean page is free at once, but the page read into it is not there before
    // it was read.
    let requests = [write(0, 0, 1), write(1_000, 1, 1), read(2_000, 0, 1), read(3_000, 1, 1), write(4_000, 5, 1)];
    lru.run.buffer_latency = Nanos::ZERO;
    assert_eq!(responses(&lru, &requests), [0, 200, 225, 25, 0]);
}

#[test]
fn a_frame_is_used_by_one_page_after_the_other() {
    // Page 1 waits until 210 for the frame of page 0, and so does a hit on it. Page 2 waits until
    // page 1, in its frame from 210 on, is programmed at 410; page 3 drops page 2, which is clean,
    // and gets the frame no sooner than that.
    let requests = [write(0, 0, 1), write(10, 1, 1), write(20, 1, 1), read(30, 2, 1), write(40, 3, 1)];
    let lru = one_element("lru", 1);
    assert_eq!(responses(&lru, &requests), [0, 200, 190, 380, 370]);
    assert_eq!(run_one(&lru, &requests).stall_time, Some((200 + 380 + 370) * US));
}

#[test]
fn a_hit_on_a_page_that_is_still_being_read_waits_for_it() {
    let lru = over(ssd(1, StartState::Full), "lru", 4);
    assert_eq!(responses(&lru, &[read(0, 0, 1), read(10, 0, 1), read(30, 0, 1)]), [25, 15, 0]);
}

#[test]
fn frames_of_a_block_are_free_once_all_of_it_is_written() {
    let buffer = one_element("bplru:padding=never:compensation=off", 4);
    // The second request evicts four pages, the next three find its frames still busy until 810 µs.
    let requests = [write(0, 0, 4), write(10, 4, 1), write(20, 5, 1), write(810, 6, 1), write(900, 7, 1)];
    assert_eq!(responses(&buffer, &requests), [0, 800, 790, 0, 0]);
    // A request that needs more frames than its first eviction gives waits for its second as well.
    let requests = [write(0, 0, 2), write(0, 4, 2), write(10, 8, 3)];
    assert_eq!(responses(&buffer, &requests), [0, 0, 800]);
}

#[test]
fn clean_pages_of_a_block_give_their_frames_at_once() {
    let buffer = one_element("fab", 2);
    let requests = [write(0, 0, 1), read(1, 1, 1), write(10, 4, 1), write(20, 5, 1)];
    assert_eq!(responses(&buffer, &requests), [0, 0, 0, 190]);
}

#[test]
fn padding_reads_and_programs_the_whole_block() {
    let buffer = over(ssd(1, StartState::Full), "bplru", 1);
    // Three pages are read and four programmed.
    assert_eq!(responses(&buffer, &[write(0, 1, 1), write(10, 5, 1)]), [0, 3 * 25 + 4 * 200]);
    // Over four elements each reads and programs one of them.
    let buffer = over(ssd(4, StartState::Full), "bplru", 1);
    assert_eq!(responses(&buffer, &[write(0, 1, 1), write(10, 5, 1)]), [0, 225]);
}

#[test]
fn a_flush_waits_for_all_dirty_pages() {
    let requests = [write(0, 0, 2), flush(100), read(150, 0, 1), write(150, 7, 1)];
    let mut lru = one_element("lru", 2);
    // Nothing: the write waits for the program of the page that it takes the frame of.
    assert_eq!(run_one(&lru, &requests).simulated_time, 350 * US);
    lru.run.flush = FlushMode::Drain;
    let r = run_one(&lru, &requests);
    // Two programs behind the flush; the write then takes the frame of a page that is clean.
    assert_eq!((r.simulated_time, r.stall_time), (500 * US, Some(0)));
    assert_eq!((r.counters.flush_pages_flushed, r.counters.clean_drops), (2, 1));
    assert_eq!(responses(&lru, &requests), [0, 0, 0, 0]);
    // A durable write goes to the element past the buffer.
    let durable = Request { fua: true, ..write(150, 0, 1) };
    assert_eq!(responses(&lru, &[write(0, 0, 2), flush(100), durable, write(1_000, 0, 1)]), [0, 0, 550, 0]);
    lru.run.flush = FlushMode::Ignore;
    assert_eq!(responses(&lru, &[write(0, 0, 2), flush(100), durable, write(1_000, 0, 1)]), [0, 0, 0, 0]);
}

#[test]
fn a_closed_loop_of_depth_1_issues_when_the_last_is_done() {
    let mut none = one_element("none", 1);
    none.run.host = HostModel::Closed { depth: 1 };
    let requests = [write(900, 0, 1), write(1_000, 1, 2), read(5_000, 0, 1), write(5_000, 2, 1)];
    assert_eq!(responses(&none, &requests), [200, 400, 25, 200]);
    let r = run_one(&none, &requests);
    assert_eq!((r.simulated_time, r.context.host.as_str(), r.saturated), (825 * US, "closed:1", None));
    assert!((r.requests_per_second.expect("time passed") - 4.0 / 825e-6).abs() < 1e-6);
}

#[test]
fn a_closed_loop_of_depth_4_keeps_four_outstanding() {
    let mut none = one_element("none", 1);
    none.run.host = HostModel::Closed { depth: 4 };
    let requests: Vec<_> = (0..7).map(|i| write(0, i, 1)).collect();
    assert_eq!(responses(&none, &requests), [200, 400, 600, 800, 800, 800, 800]);
    let r = run_one(&none, &requests);
    assert_eq!(r.simulated_time, 1400 * US);
    // Outstanding when each is issued: 0, 1, 2, and then 3.
    let backlog: u64 = r.series.bins.iter().map(|bin| bin.backlog_sum).sum();
    assert_eq!(backlog, 3 + 4 * 3);
    // Two elements, two outstanding: the third goes to the idle element once the first is done.
    let mut none = over(ssd(2, StartState::Empty), "none", 1);
    none.run.host = HostModel::Closed { depth: 2 };
    let requests = [write(0, 0, 1), write(0, 2, 1), write(0, 1, 1), write(0, 3, 1)];
    assert_eq!(responses(&none, &requests), [200, 400, 200, 200]);
    assert_eq!(run_one(&none, &requests).simulated_time, 600 * US);
}

#[test]
fn speed_is_an_exact_fraction() {
    let requests = [write(0, 0, 1), write(300, 1, 1), write(601, 2, 1)];
    let at = |times, per| {
        let mut experiment = one_element("none", 1);
        experiment.replay.speed = PlaySpeed { times, per };
        experiment
    };
    assert_eq!(responses(&at(1, 1), &requests), [200, 200, 200]);
    assert_eq!(responses(&at(2, 1), &requests[..2]), [200, 250]);
    assert_eq!(run_one(&at(2, 1), &requests).simulated_time, 600 * US);
    assert_eq!(run_one(&at(1, 3), &requests).simulated_time, (1803 + 200) * US);
    // 601 µs at 1.5 times the speed are 400,666 ns and two thirds.
    assert_eq!(run_one(&at(3, 2), &[requests[0], requests[2]]).simulated_time, 400_666 + 200 * US);
}

#[test]
fn only_what_comes_after_the_warm_up_is_measured() {
    let requests = [write(0, 0, 1), write(0, 1, 1), write(100, 2, 1), read(150, 2, 1), write(10_000, 2, 1)];
    let mut none = one_element("none", 1);
    let whole = run_one(&none, &requests);
    assert_eq!((whole.context.warmup_requests, response_sum(&whole)), (0, (200 + 400 + 500 + 475 + 200) * US));
    for warmup in [WarmupPart::Requests(2), WarmupPart::Time(Nanos(1)), WarmupPart::Time(Nanos(100 * US))] {
        none.run.warmup = warmup;
        let r = run_one(&none, &requests);
        // The queue that the warm-up left is there.
        assert_eq!((r.context.warmup_requests, response_sum(&r)), (2, (500 + 475 + 200) * US), "{warmup:?}");
        assert_eq!((r.counters.requests, r.counters.write_pages, r.flash.flash_writes), (3, 2, Some(2)));
        assert_eq!(r.simulated_time, (10_200 - 100) * US);
        assert_eq!(r.series.start, 100 * US);
    }
    // At three times the speed the third request arrives at 33 µs.
    none.run.warmup = WarmupPart::Time(Nanos(34 * US));
    none.replay.speed = PlaySpeed { times: 3, per: 1 };
    assert_eq!(run_one(&none, &requests).context.warmup_requests, 3);
    // What the warm-up brought into the buffer stays there.
    let mut lru = one_element("lru", 4);
    lru.run.warmup = WarmupPart::Requests(3);
    let r = run_one(&lru, &requests);
    assert_eq!((r.counters.hits, r.counters.drain_pages_flushed), (2, 3));
}

#[test]
fn a_warm_up_that_outlasts_the_trace_is_an_error() {
    let requests = Arc::new(vec![write(0, 0, 1), read(10, 0, 1)]);
    for device in [DeviceConfig::None, ssd(1, StartState::Empty)] {
        for warmup in [WarmupPart::Requests(2), WarmupPart::Requests(u64::MAX), WarmupPart::Time(Nanos(11 * US))] {
            let mut lru = over(device.clone(), "lru", 1);
            lru.run.warmup = warmup;
            let error = try_run(&lru, ONE_THREAD, &requests).expect_err("nothing is measured");
            assert!(matches!(error, SimError::Experiment(ExperimentError::Warmup { requests: 2 })), "{warmup:?}");
            assert_eq!(error.to_string(), "warmup: the trace ends within it, after 2 requests; give a shorter one");
        }
    }
    // Filtered requests are no part of it.
    let mut lru = one_element("lru", 1);
    lru.replay.ops = TraceOps::Writes;
    lru.run.warmup = WarmupPart::Requests(1);
    assert!(matches!(try_run(&lru, ONE_THREAD, &requests), Err(SimError::Experiment(ExperimentError::Warmup { .. }))));
}

/// The measured part of a run is the run less its beginning, in every counter.
#[test]
fn a_warm_up_takes_away_what_its_requests_count() {
    let DeviceConfig::Ssd(config, start) = ssd(2, StartState::Full) else { unreachable!("an SSD was made") };
    let config = SsdConfig { blocks_per_plane: 128, summary_page: true, ..config };
    let pages = SsdShape::new(config.clone(), geometry()).expect("a shape").host_pages;
    let requests = mixed(5, pages.into(), 3_000, Nanos(20_000_000));
    for policy in policies().iter().filter(|policy| !policy.chooses_channels).map(|policy| policy.name) {
        let mut all = over(DeviceConfig::Ssd(config.clone(), start), policy, 40);
        all.run.flush = FlushMode::Drain;
        all.run.drain = false;
        let mut warm = all.clone();
        warm.run.warmup = WarmupPart::Requests(1_000);
        let mut before = all.clone();
        before.replay.limit = Some(1_000);
        let numbers = |experiment: &BufferExperiment| {
            let r = run_one(experiment, &requests);
            let counters = format!("{:?} {:?}", r.counters, r.flash);
            // Every number of both structures, in order.
            let numbers = counters.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
            let mut numbers: Vec<u64> = numbers.map(|digits| digits.parse().expect("digits")).collect();
            let ssd = r.ssd.expect("an SSD");
            numbers.extend([ssd.host_programs, ssd.summary_programs, ssd.unmapped_reads, r.stall_time.expect("time")]);
            numbers.extend(ssd.elements.iter().map(|e| e.busy_time));
            numbers
        };
        let (all, before, measured) = (numbers(&all), numbers(&before), numbers(&warm));
        let difference: Vec<u64> = all.iter().zip(&before).map(|(all, before)| all - before).collect();
        assert_eq!(measured, difference, "{policy} (left: with a warm-up)");
        assert!(difference.len() > 35);
    }
}

#[test]
fn background_collection_does_not_wait_for_the_next_operation() {
    // 16 blocks of 4 pages, 6 reserved, collection at 2 free: a full device collects when four more
    // blocks are written.
    let full = |background| {
        let config = SsdConfig {
            elements: 1,
            planes: 1,
            lanes: 1,
            blocks_per_plane: 16,
            reserve_bp: 4000,
            min_free_bp: 1300,
            transfer_ps_per_byte: 0,
            summary_page: false,
            background,
            ..SsdConfig::default()
        };
        over(DeviceConfig::Ssd(config, StartState::Full), "none", 1)
    };
    // The 13th write takes the fourth free block. In the foreground the 14th waits for the
    // collection of two blocks without a valid page; in the background it was done long ago.
    let requests: Vec<_> = (0..14).map(|i| write(i * 10_000, i % 12, 1)).collect();
    let foreground = responses(&full(false), &requests);
    assert_eq!((foreground[12], foreground[13]), (200, 3_200));
    let background = responses(&full(true), &requests);
    assert_eq!((background[12], background[13]), (200, 200));
    let gc = |background| run_one(&full(background), &requests).flash.gc_time;
    assert_eq!((gc(false), gc(true)), (Some(3_000 * US), Some(3_000 * US)));
    let delayed = |background| {
        let response = run_one(&full(background), &requests).response.expect("a timed device");
        response.gc_delayed.map(|delayed| (delayed.count, delayed.max))
    };
    assert_eq!((delayed(false), delayed(true)), (Some((1, 3_200 * US)), None));
}

/// `n` writes, one every `gap` microseconds from `start` on.
fn stream(start: u64, gap: u64, n: u64) -> impl Iterator<Item = Request> {
    (0..n).map(move |i| write(start + i * gap, i % 1000, 1))
}

#[test]
fn too_many_outstanding_requests_are_saturation() {
    // Arrival i finds ⌈i/2⌉ outstanding: with a program of 200 µs every 100 µs one in two is done.
    let requests: Vec<_> = stream(0, 100, 1_000).collect();
    let mut none = one_element("none", 1);
    none.run.max_backlog = 50;
    let r = run_one(&none, &requests);
    assert_eq!(r.saturated, Some(SaturationCause::Backlog { max_backlog: 50, at: 9_900 * US }));
    assert_eq!((&r.response, r.counters.requests, r.flash.flash_writes), (&None, 1_000, Some(1_000)));
    assert_eq!(r.simulated_time, 200_000 * US);
    // As many as there ever are do not reach a limit above them.
    none.run.max_backlog = 501;
    assert!(matches!(run_one(&none, &requests).saturated, Some(SaturationCause::Growing { .. })));
    none.run.max_backlog = 500;
    let at = 999 * 100 * US;
    assert_eq!(run_one(&none, &requests).saturated, Some(SaturationCause::Backlog { max_backlog: 500, at }));
    // A closed loop cannot be saturated.
    none.run.host = HostModel::Closed { depth: 600 };
    let r = run_one(&none, &requests);
    assert_eq!((r.saturated, r.response.expect("response times").all.expect("requests").count), (None, 1_000));
}

#[test]
fn an_overload_during_the_warm_up_is_not_saturation() {
    let mut none = one_element("none", 1);
    none.run.max_backlog = 10;
    let requests: Vec<_> = stream(0, 1, 100).chain(stream(1_000_000, 300, 100)).collect();
    assert!(run_one(&none, &requests).saturated.is_some());
    none.run.warmup = WarmupPart::Requests(100);
    let r = run_one(&none, &requests);
    let all = r.response.expect("response times").all.expect("requests");
    assert_eq!((r.saturated, all.count, all.max, r.simulated_time), (None, 100, 200_000, (99 * 300 + 200) * US));
}

#[test]
fn a_backlog_that_grows_to_the_end_is_saturation() {
    // One request in twenty does not get done in time: 2,000 are left over in the end, a fifth of
    // the limit.
    let requests: Vec<_> = stream(0, 190, 40_000).collect();
    let r = run_one(&one_element("none", 1), &requests);
    assert!(matches!(r.saturated, Some(SaturationCause::Growing { .. })), "{:?}", r.saturated);
    assert_eq!((&r.response, r.counters.requests), (&None, 40_000));
    // At the rate that the element can just bear there is none.
    let requests: Vec<_> = stream(0, 200, 40_000).collect();
    let r = run_one(&one_element("none", 1), &requests);
    let all = r.response.expect("response times").all.expect("requests");
    assert_eq!((r.saturated, all.mean, all.max), (None, 200_000.0, 200_000));
}

#[test]
fn a_burst_that_recovers_is_not_saturation() {
    // Bursts of 1,000 requests every 100 µs, each followed by a pause in which the queue empties.
    let bursts: Vec<_> = (0..20).flat_map(|i| stream(i * 300_000, 100, 1_000)).collect();
    let r = run_one(&one_element("none", 1), &bursts);
    let all = r.response.as_ref().expect("response times").all.as_ref().expect("requests");
    // The i-th of a burst waits for what i others left over: 200 + 100·i µs.
    assert_eq!((r.saturated.as_ref(), all.count, all.max), (None, 20_000, (200 + 999 * 100) * US));
    assert_eq!(response_sum(&r), 20 * (200 * 1_000 + 100 * (999 * 1_000 / 2)) * US);
    // Even when the last burst is the longest and the trace ends in its midst.
    let bursts: Vec<_> = bursts.into_iter().chain(stream(6_000_000, 100, 3_000)).collect();
    let r = run_one(&one_element("none", 1), &bursts);
    assert_eq!(r.saturated, None);
}

/// Returns the warnings about the trace and its place on the device.
fn of_the_trace(run: &RunResult) -> Vec<String> {
    const KINDS: [&str; 8] =
        ["nothing", "no-such-volume", "left-out", "wrapped", "compacted", "reversed", "clock-jumps", "skipped"];
    let findings = run.context.findings.iter().filter(|finding| KINDS.contains(&&*finding.kind));
    findings.map(|finding| finding.message.clone()).collect()
}

#[test]
fn reads_can_be_left_out() {
    let requests = [write(0, 0, 1), read(10, 0, 1), flush(20), read(30, 5, 1), discard(40, 0, 1), write(50, 0, 1)];
    let mut lru = no_device("lru", 4);
    lru.replay.ops = TraceOps::Writes;
    let report = run(&lru, &requests);
    let r = &report.results[0];
    assert_eq!((r.context.input.trace_requests, r.context.input.left_out_requests), (6, 2));
    let c = &r.counters;
    assert_eq!((c.requests, c.read_requests, c.flush_requests, c.discard_requests, c.write_hits), (4, 0, 1, 1, 0));
    assert_eq!((report.requests, report.accesses, of_the_trace(r).len()), (6, 2, 0));
    let report = run(&lru, &[read(0, 0, 1)]);
    assert_eq!(of_the_trace(&report.results[0]), ["no request of the trace took part; see ops and volumes"]);
}

#[test]
fn volumes_are_apart_or_over_each_other_or_alone() {
    let on = |volume, micros, page| Request { volume, ..write(micros, page, 1) };
    let requests = [on(0, 0, 5), on(1, 10, 5), on(0, 20, 5), on(1, 30, 6), on(65_535, 40, 5)];
    for device in [DeviceConfig::None, ssd(1, StartState::Full)] {
        let with = |volumes| {
            let mut lru = over(device.clone(), "lru", 8);
            lru.replay.volumes = volumes;
            let report = run(&lru, &requests);
            let r = &report.results[0];
            (r.counters.requests, r.counters.hits, r.context.input.left_out_requests)
        };
        assert_eq!(with(VolumeSelection::Merge), (5, 3, 0));
        assert_eq!(with(VolumeSelection::Only("0".parse().expect("a choice"))), (2, 1, 3));
        assert_eq!(with(VolumeSelection::Only("1".parse().expect("a choice"))), (2, 0, 3));
        assert_eq!(with(VolumeSelection::Only("7".parse().expect("a choice"))), (0, 0, 5));
    }
    let each = run(&no_device("lru", 8), &requests);
    assert_eq!((each.results[0].counters.hits, of_the_trace(&each.results[0]).len()), (1, 0));
    // Each volume has 2^40 pages of its own, which a device wraps to its size.
    let each = run(&over(ssd(1, StartState::Full), "lru", 8), &requests);
    assert_eq!(each.results[0].context.input.overflowed_requests, 3);
}

#[test]
fn addresses_beyond_the_device() {
    let device = ssd(1, StartState::Full);
    let DeviceConfig::Ssd(config, _) = &device else { unreachable!("an SSD was made") };
    let pages = u64::from(SsdShape::new(config.clone(), geometry()).expect("a shape").host_pages);
    // The last page, the first beyond, one request over both, and one far away.
    let requests = [write(0, pages - 1, 1), write(10, pages, 1), write(20, pages - 1, 2), write(30, 10 * pages + 7, 1)];
    let with = |lba_overflow| {
        let mut lru = over(device.clone(), "lru", 16);
        lru.replay.lba_overflow = lba_overflow;
        let report = run(&lru, &requests);
        let r = &report.results[0];
        let c = &r.counters;
        ((c.requests, c.write_pages, c.hits), r.context.input.overflowed_requests, of_the_trace(r))
    };
    let (counts, beyond, findings) = with(LbaOverflow::Wrap);
    assert_eq!((counts, beyond), ((4, 5, 2), 3));
    assert_eq!(
        findings,
        ["3 of 4 requests (75 %) lie beyond the device and were wrapped to its size, where they meet others"]
    );
    let (counts, beyond, findings) = with(LbaOverflow::Filter);
    assert_eq!((counts, beyond), ((1, 1, 0), 3));
    assert_eq!(findings, ["3 of 4 requests (75 %) lie beyond the device and were left out"]);
    let (counts, beyond, findings) = with(LbaOverflow::Compact);
    assert_eq!((counts, beyond), ((4, 5, 2), 0));
    assert_eq!(
        findings,
        ["the trace's blocks lie on the SSD side by side, in the order in which they are first touched"]
    );
    // More blocks than the device has.
    let every_block: Vec<_> = (0..pages / 4 + 3).map(|block| write(block, block * 400, 1)).collect();
    let mut compact = over(device.clone(), "lru", 16);
    compact.replay.lba_overflow = LbaOverflow::Compact;
    let report = run(&compact, &every_block);
    assert_eq!(report.results[0].context.input.overflowed_requests, 3);
    let found = &of_the_trace(&report.results[0])[0];
    assert!(
        found.starts_with("3 of 55,709 requests (under 0.1 %) lie beyond the device, which exports fewer"),
        "{found}"
    );
    // Without a device there is no end.
    let report = run(&no_device("lru", 16), &requests);
    assert_eq!((report.results[0].context.input.overflowed_requests, of_the_trace(&report.results[0]).len()), (0, 0));
}

#[test]
fn requests_that_go_back_in_time_arrive_with_the_one_before() {
    let requests = [write(0, 0, 1), write(1_000, 1, 1), write(900, 2, 1), write(950, 3, 1), write(2_000, 4, 1)];
    let none = one_element("none", 1);
    let report = run(&none, &requests);
    assert_eq!(report.results[0].context.input.reversed_requests, 2);
    assert_eq!(
        of_the_trace(&report.results[0]),
        ["2 of 5 requests are earlier than one before them and were moved to its time"]
    );
    assert_eq!(responses(&none, &requests), [200, 200, 400, 600, 200]);
}

#[test]
fn what_has_no_place_is_an_error_with_the_requests_number() {
    let requests = Arc::new(vec![write(0, 0, 1), Request { offset: u64::MAX - 511, len: 512, ..write(1, 0, 0) }]);
    for device in [DeviceConfig::None, ssd(1, StartState::Empty)] {
        let error = try_run(&over(device, "lru", 1), ONE_THREAD, &requests).expect_err("beyond any volume").to_string();
        assert!(error.starts_with("requests, request 2: ") && error.contains("2^40 pages"), "{error}");
    }
    // A time that leaves no room for what the device adds to it.
    for time in [u64::MAX, u64::MAX / 2] {
        let requests = Arc::new(vec![write(0, 0, 1), Request { time: Nanos(time), ..write(0, 0, 1) }]);
        let error = try_run(&one_element("none", 1), ONE_THREAD, &requests).expect_err("beyond any time").to_string();
        assert!(error.starts_with("requests, request 2: ") && error.contains("146 years"), "{error}");
        let mut slow = one_element("none", 1);
        slow.replay.speed = PlaySpeed { times: 1, per: 1_000_000_000 };
        let requests = Arc::new(vec![write(0, 0, 1), write(1 << 40, 0, 1)]);
        let error = try_run(&slow, ONE_THREAD, &requests).expect_err("beyond any time").to_string();
        assert!(error.contains("146 years"), "{error}");
    }
    for bytes in [0, PAGE - 1, u64::MAX] {
        let none = BufferExperiment { caches: vec![PAGE, bytes], ..no_device("lru", 1) };
        let error = try_run(&none, ONE_THREAD, &Arc::new(Vec::new())).expect_err("no size for a cache");
        assert!(matches!(error, SimError::CacheSize { .. }), "{error}");
    }
}

#[test]
fn an_empty_trace_has_a_result() {
    for device in [DeviceConfig::None, ssd(1, StartState::Full)] {
        let report = run(&over(device, "lru", 1), &[]);
        let r = &report.results[0];
        assert_eq!((r.counters.requests, r.hit_ratio, r.simulated_time, r.requests_per_second), (0, None, 0, None));
        assert_eq!(of_the_trace(r), ["no request of the trace took part; see ops and volumes"]);
    }
    let mut limited = no_device("lru", 1);
    limited.replay.limit = Some(0);
    assert_eq!(run_one(&limited, &[write(0, 0, 1)]).context.input.trace_requests, 0);
}

#[test]
fn requests_of_no_bytes_count_and_do_nothing() {
    let empty = Request { op: Op::Read, ..write(10, 3, 0) };
    let none = one_element("none", 1);
    let r = run_one(&none, &[write(0, 0, 1), empty, write(20, 1, 0)]);
    let c = &r.counters;
    assert_eq!((c.requests, c.zero_length_requests, c.accesses, c.read_requests, c.write_requests), (3, 2, 1, 1, 2));
    assert_eq!(r.response.expect("response times").all.expect("requests").count, 1);
    // The free blocks are known however few requests there are.
    assert!(r.ssd.expect("an SSD").mean_free_blocks > 65_000.0);
}
