//! A host that has so many requests outstanding at most, and lets the trace wait: worked examples, a naive model of it, and
//! the two hosts that it lies between.

use destage_plan::{Nanos, PageGeometry, Request};
use destage_raid::RaidLevel;
use destage_sim::array::{ArrayExperiment, ArrayResult, DeviceSetup, FixedTimes};
use destage_sim::buffer::{BufferExperiment, DeviceConfig, RunResult};
use destage_sim::input::{HostModel, WarmupPart};
use destage_sim::measure::{RunContext, SaturationCause, SeriesBin};
use destage_sim::ssd::{SsdConfig, StartState};
use proptest::prelude::*;
use serde_json::Value;

use crate::in_memory::{self, read, write};
use crate::{arrays, mixed};

const US: u64 = 1000;
/// Programs a page in that many microseconds.
const PROGRAM: u64 = 200;
/// Reads a page of a member in that many.
const READ: u64 = 102;

/// Makes no buffer over an SSD of one element, which programs one page after the other.
fn ssd(host: HostModel) -> BufferExperiment {
    let config = SsdConfig {
        elements: 1,
        planes: 1,
        lanes: 1,
        blocks_per_plane: 1 << 14,
        transfer_ps_per_byte: 0,
        summary_page: false,
        ..SsdConfig::default()
    };
    let geometry = PageGeometry::new(arrays::PAGE, 4).expect("a geometry");
    let device = DeviceConfig::Ssd(config, StartState::Empty);
    let mut none = in_memory::experiment(&["none"], &[arrays::PAGE], geometry, device);
    none.run.buffer_latency = Nanos::ZERO;
    none.run.host = host;
    none
}

/// Makes a single member with constant times.
fn array(host: HostModel) -> ArrayExperiment {
    let mut none = arrays::experiment(RaidLevel::Raid0, 1, &["none"]);
    none.host.host = host;
    none
}

fn response_sum(bins: &[SeriesBin]) -> u64 {
    bins.iter().map(|bin| bin.read_response_sum + bin.write_response_sum).sum()
}

/// Returns the sum of the response times, duration, and for how long the trace's clock stood still, in microseconds.
fn of_buffer(result: &RunResult) -> (u64, u64, Option<u64>) {
    let delay = result.context.replay_delay.map(|delay| delay / US);
    (response_sum(&result.series.bins) / US, result.simulated_time / US, delay)
}

/// Returns the same of an array.
fn of_array(result: &ArrayResult) -> (u64, u64, Option<u64>) {
    let all = result.response.as_ref().and_then(|response| response.all.as_ref()).expect("response times");
    let delay = result.context.replay_delay.map(|delay| delay / US);
    ((all.mean * all.count as f64 / US as f64).round() as u64, result.served_time / US, delay)
}

/// Returns the warning that the host held up the trace.
fn warning(context: &RunContext) -> Option<&str> {
    context.findings.iter().find(|finding| finding.kind == "replay-delayed").map(|finding| &*finding.message)
}

const fn bounded(depth: u32) -> HostModel {
    HostModel::Bounded { depth }
}

#[test]
fn the_gap_behind_a_burst_stays_over_an_ssd() {
    let requests = [write(0, 0, 1), write(0, 10, 1), write(0, 20, 1), write(5_000, 30, 1)];
    let of = |host| of_buffer(&in_memory::run_one(&ssd(host), &requests));
    // Open: 200 + 400 + 600, then 200.
    assert_eq!(of(HostModel::Open), (1_400, 5_200, None));
    // The third is issued when the first is done, at 200, and takes 400; the last comes at 5,200.
    assert_eq!(of(bounded(2)), (200 + 400 + 400 + 200, 5_400, Some(200)));
    // One at a time: the second comes at 200, the third at 400, the last at 5,400.
    assert_eq!(of(bounded(1)), (4 * 200, 5_600, Some(400)));
    // A closed loop has no gap.
    assert_eq!(of(HostModel::Closed { depth: 1 }), (4 * 200, 800, None));
    let result = in_memory::run_one(&ssd(bounded(2)), &requests);
    assert_eq!((result.context.host.as_str(), result.saturated), ("bounded:2", None));
    assert_eq!(warning(&result.context), None, "0.2 of 5.4 ms");
    // The third found the second outstanding.
    assert_eq!(result.series.bins.iter().map(|bin| bin.backlog_sum).sum::<u64>(), 2);
}

#[test]
fn the_gap_behind_a_burst_stays_over_an_array() {
    let requests = [read(0, 0, 1), read(0, 100, 1), read(0, 200, 1), read(10_000, 300, 1)];
    let of = |host| of_array(&arrays::run_one(&array(host), &requests));
    assert_eq!(of(HostModel::Open), ((1 + 2 + 3 + 1) * READ, 10_000 + READ, None));
    // As over the SSD: the trace waits for one read, or for two.
    assert_eq!(of(bounded(2)), ((1 + 2 + 2 + 1) * READ, 10_000 + 2 * READ, Some(READ)));
    assert_eq!(of(bounded(1)), (4 * READ, 10_000 + 3 * READ, Some(2 * READ)));
    assert_eq!(of(HostModel::Closed { depth: 1 }), (4 * READ, 4 * READ, None));
    assert_eq!(arrays::run_one(&array(bounded(2)), &requests).context.host, "bounded:2");
}

#[test]
fn what_is_held_up_in_the_warm_up_is_not_counted() {
    let writes = [write(0, 0, 1), write(0, 10, 1), write(0, 20, 1), write(5_000, 30, 1), write(5_000, 40, 1)];
    let reads = writes.map(|write| Request { op: destage_plan::Op::Read, ..write });
    // The burst is the warm-up: what is measured begins at 5,200 or 5,102, by simulated time.
    let mut buffer = ssd(bounded(2));
    buffer.run.warmup = WarmupPart::Requests(3);
    let result = in_memory::run_one(&buffer, &writes);
    assert_eq!((of_buffer(&result), result.series.start), ((200 + 400, 400, Some(0)), 5_200 * US));
    assert!((result.requests_per_second.expect("time passed") - 2.0 / 400e-6).abs() < 1e-6);
    let mut members = array(bounded(2));
    members.host.warmup = WarmupPart::Requests(3);
    let result = arrays::run_one(&members, &reads);
    assert_eq!((of_array(&result), result.series.start), ((3 * READ, 2 * READ, Some(0)), (5_000 + READ) * US));
    // The warm-up ends in the burst: the second request is the first that counts, and the third waits.
    buffer.run.warmup = WarmupPart::Requests(1);
    assert_eq!(of_buffer(&in_memory::run_one(&buffer, &writes)).2, Some(200));
    members.host.warmup = WarmupPart::Requests(1);
    assert_eq!(of_array(&arrays::run_one(&members, &reads)).2, Some(READ));
    // Over an array a time is one of the simulation: with one outstanding the third read comes at 204 µs.
    members.host.host = bounded(1);
    members.host.warmup = WarmupPart::Time(Nanos(150 * US));
    assert_eq!(arrays::run_one(&members, &reads).context.warmup_requests, 2);
}

#[test]
fn an_overload_holds_up_the_trace_for_good() {
    // Every 100 µs one, of which each takes 200: a hundred milliseconds of trace take two hundred.
    let requests: Vec<_> = (0..1_000).map(|i| write(i * 100, i, 1)).collect();
    let result = in_memory::run_one(&ssd(bounded(8)), &requests);
    assert_eq!(result.simulated_time, 1_000 * PROGRAM * US);
    assert!(warning(&result.context).is_some_and(|message| message.contains("(49 % of the time)")), "98.5 of 200 ms");
    let all = result.response.expect("response times").all.expect("requests");
    assert_eq!((result.saturated, all.max), (None, 8 * PROGRAM * US));
    // The last is issued when seven are left over, and that is so much later than the trace has it.
    assert_eq!(result.context.replay_delay, Some((992 * PROGRAM - 99_900) * US));
    // A queue that grows to the end without filling is as much a result as in an open loop: none.
    let more: Vec<_> = (0..40_000).map(|i| write(i * 190, i % 1_000, 1)).collect();
    let result = in_memory::run_one(&ssd(bounded(60_000)), &more);
    assert!(matches!(result.saturated, Some(SaturationCause::Growing { .. })), "{:?}", result.saturated);
    let result = in_memory::run_one(&ssd(bounded(32)), &more);
    assert_eq!(result.saturated, None);
}

#[test]
fn idle_time_between_bursts_decides_between_caches() {
    // Ten bursts of 500 writes, ten seconds apart. Each fits into a cache of 1,024 pages, which is clean again when the next comes.
    let requests: Vec<_> = (0..5_000).map(|i| write(i / 500 * 10_000_000, i * 13 % 4_000, 1)).collect();
    let mut experiment = arrays::experiment(RaidLevel::Raid5, 5, &["none", "write-back:dirty-high=100"]);
    experiment.caches = vec![1_024 * arrays::PAGE];
    let fast = FixedTimes { read: Nanos(10 * US), write: Nanos(10 * US), other: Nanos(10 * US), page: Nanos(US) };
    experiment.cache_device = DeviceSetup::Fixed(fast);
    let mut means = |host| {
        experiment.host.host = host;
        let results = arrays::run(&experiment, &requests);
        let mean =
            |run: &ArrayResult| run.response.as_ref().and_then(|response| response.all.as_ref()).map(|all| all.mean);
        let [none, write_back] = [0, 1].map(|run| mean(&results[run]).expect("response times"));
        (none, write_back)
    };
    // Without a pause it is full of dirty pages soon, and then every write waits until another is written back.
    let (none, write_back) = means(HostModel::Closed { depth: 32 });
    assert!(write_back > none, "closed: {none} {write_back}");
    let (none, write_back) = means(bounded(32));
    assert!(5.0 * write_back < none, "bounded: {none} {write_back}");
}

/// Plays the host over a device that does one thing at a time, microsecond by microsecond, as a person would do it: response times and delay.
fn model(depth: usize, gaps_and_pages: &[(u64, u64)]) -> (u64, u64) {
    let (mut clock, mut free, mut trace, mut sum, mut delay) = (0, 0, 0, 0, 0);
    let mut ends: Vec<u64> = Vec::new();
    for &(gap, pages) in gaps_and_pages {
        // The clock goes on by the gap, then stands still while too many are outstanding.
        trace += gap;
        clock += gap;
        while ends.iter().filter(|&&end| end > clock).count() >= depth {
            clock += 1;
            delay += 1;
        }
        free = clock.max(free) + pages * PROGRAM;
        ends.push(free);
        sum += free - clock;
    }
    assert_eq!(clock, trace + delay);
    (sum, delay)
}

/// Returns everything of a result but how the host is called and what only this one tells, as text.
fn bytes(result: &impl serde::Serialize, also_without: &[&str]) -> String {
    fn strip(value: &mut Value, without: &[&str]) {
        match value {
            Value::Object(fields) => {
                fields.retain(|key, _| !without.contains(&key.as_str()));
                fields.values_mut().for_each(|value| strip(value, without));
            }
            Value::Array(values) => values.iter_mut().for_each(|value| strip(value, without)),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(result).expect("results are JSON");
    strip(&mut value, &[&["host", "replay_delay"], also_without].concat());
    value.to_string()
}

/// Makes a buffer over a small SSD that collects, whose queue is bounded or not.
fn collecting(host: HostModel, queue_depth: Option<u32>) -> BufferExperiment {
    let geometry = PageGeometry::new(arrays::PAGE, 64).expect("a geometry");
    let device = DeviceConfig::Ssd(SsdConfig { queue_depth, ..arrays::small_ssd() }, StartState::Full);
    let mut lru = in_memory::experiment(&["lru"], &[64 * arrays::PAGE], geometry, device);
    lru.run.host = host;
    lru
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_trace_waits_as_in_the_model(
        depth in 1..6_u32,
        gaps in prop::collection::vec((prop_oneof![Just(0), 0..300_u64, 0..2_000_u64], 1..4_u64), 1..60),
    ) {
        let mut time = 0;
        let requests: Vec<_> = gaps.iter().zip(0..).map(|(&(gap, pages), at)| {
            time += gap;
            write(time, at * 4, pages)
        }).collect();
        let result = in_memory::run_one(&ssd(bounded(depth)), &requests);
        let (sum, _, delay) = of_buffer(&result);
        prop_assert_eq!((sum, delay.expect("a bounded host")), model(depth as usize, &gaps));
    }

    #[test]
    fn a_bound_that_is_never_reached_is_none(
        seed: u64,
        gap in prop::sample::select(vec![2_000_u64, 300_000]),
        queue_depth in prop::option::of(1..9_u32),
        warmup in prop::option::of(1..200_u64),
    ) {
        let requests = mixed::mixed(seed, 300, 400, Nanos(gap));
        let warmup = warmup.map_or(WarmupPart::None, WarmupPart::Requests);
        let of = |host| {
            let mut lru = collecting(host, queue_depth);
            lru.run.warmup = warmup;
            in_memory::run_one(&lru, &requests)
        };
        let (open, held) = (of(HostModel::Open), of(bounded(10_000)));
        prop_assert_eq!(held.context.replay_delay, Some(0));
        prop_assert_eq!(bytes(&open, &[]), bytes(&held, &[]));
        let of = |host| {
            let mut array = arrays::experiment(RaidLevel::Raid5, 4, &["write-through:ways=16"]);
            array.host.host = host;
            array.host.warmup = warmup;
            arrays::run_one(&array, &requests)
        };
        let (open, held) = (of(HostModel::Open), of(bounded(10_000)));
        prop_assert_eq!(held.context.replay_delay, Some(0));
        prop_assert_eq!(bytes(&open, &[]), bytes(&held, &[]));
    }

    #[test]
    fn a_trace_that_comes_all_at_once_is_a_closed_loop(
        seed: u64,
        depth in 1..40_u32,
        queue_depth in prop::option::of(1..9_u32),
        warmup in prop::option::of(1..200_u64),
    ) {
        let requests = mixed::mixed(seed, 300, 400, Nanos::ZERO);
        let warmup = warmup.map_or(WarmupPart::None, WarmupPart::Requests);
        let of = |host| {
            let mut lru = collecting(host, queue_depth);
            lru.run.warmup = warmup;
            in_memory::run_one(&lru, &requests)
        };
        // A closed loop counts a request as outstanding until another takes its place, even if both end at the same time.
        let ties = ["backlog_sum", "backlog_min", "findings"];
        prop_assert_eq!(bytes(&of(HostModel::Closed { depth }), &ties), bytes(&of(bounded(depth)), &ties));
        let of = |host| {
            let mut array = arrays::experiment(RaidLevel::Raid5, 4, &["write-through:ways=16"]);
            array.host.host = host;
            array.host.warmup = warmup;
            arrays::run_one(&array, &requests)
        };
        let findings = ["findings"];
        prop_assert_eq!(bytes(&of(HostModel::Closed { depth }), &findings), bytes(&of(bounded(depth)), &findings));
    }
}
