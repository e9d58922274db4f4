//! Discards: what a device does not hold is no discard, and one of pages that nothing touched changes no figure.

use std::collections::BTreeSet;

use destage_cache::{HostCacheSpec, host_caches_of};
use destage_plan::{Nanos, Op, PageGeometry, Request};
use destage_policy::buffer::{EvictionUnit, policies};
use destage_raid::RaidLevel;
use destage_sim::array::DeviceSetup;
use destage_sim::buffer::{DeviceConfig, RunResult};
use destage_sim::disk::DiskScheduler;
use destage_sim::experiment::DeviceCapacity;
use destage_sim::input::{HostModel, LbaOverflow, VolumeSelection};
use destage_sim::ssd::{Ftl, SsdConfig, StartState};
use serde_json::Value;

use crate::arrays::{self, Random, disks, small_ssd};
use crate::in_memory::{discard, experiment, flush, read, run_one, write};

const PAGE: u64 = 4096;
const PAGES_PER_BLOCK: u64 = 8;

/// Lists the figures that count the discards themselves, or look at the run whenever a request arrives.
const OF_DISCARDS: [&str; 15] = [
    "requests",
    "discard_requests",
    "trace_requests",
    "left_out_requests",
    "cut_discards",
    "cut_discard_bytes",
    "findings",
    "backlog_sum",
    "backlog_min",
    "mean_free_blocks",
    "requests_per_second",
    "discard",
    // Of an array: answered without a step, or by one that asks no device for anything.
    "join",
    "ack",
    "longest_queue",
];

fn without_discards(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, _| !OF_DISCARDS.contains(&key.as_str()));
            fields.values_mut().for_each(without_discards);
        }
        Value::Array(all) => all.iter_mut().for_each(without_discards),
        _ => {}
    }
}

/// Returns all figures but those that count discards.
fn figures(result: &impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(result).expect("a result is JSON");
    without_discards(&mut value);
    value
}

/// Asserts that no figure differs, and names the first that does.
fn assert_same(one: &impl serde::Serialize, other: &impl serde::Serialize, of: &str) {
    fn differs(one: &Value, other: &Value, path: &str) -> Option<String> {
        match (one, other) {
            (Value::Object(a), Value::Object(b)) => {
                a.iter().find_map(|(key, value)| differs(value, b.get(key)?, &format!("{path}.{key}")))
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                a.iter().zip(b).enumerate().find_map(|(n, (a, b))| differs(a, b, &format!("{path}[{n}]")))
            }
            _ => (one != other).then(|| format!("{path}: {one} and {other}")),
        }
    }
    let (one, other) = (figures(one), figures(other));
    assert_eq!(differs(&one, &other, ""), None, "{of}");
    assert_eq!(one, other, "{of}");
}

fn geometry() -> PageGeometry {
    PageGeometry::new(PAGE, PAGES_PER_BLOCK).expect("a geometry")
}

fn tiny_ssd(ftl: Ftl) -> SsdConfig {
    let (summary_page, stride) = if ftl == Ftl::Page { (true, 1) } else { (false, PAGES_PER_BLOCK as u32) };
    let config = SsdConfig { elements: 1, planes: 1, blocks_per_plane: 24, lanes: 1, ..SsdConfig::default() };
    SsdConfig { reserve_bp: 3000, ftl, summary_page, stride, ..config }
}

/// Returns requests for the pages of `live`, a millisecond apart.
fn requests(random: &mut Random, live: &[u64], count: u64, volumes: u64) -> Vec<Request> {
    let of = |random: &mut Random, micros| {
        let page = live[random.below(live.len() as u64) as usize];
        let request = match random.below(20) {
            0..=5 => read(micros, page, 1),
            6 => flush(micros),
            _ => write(micros, page, 1),
        };
        // The first and the last take part whatever is left out, so that all discards lie between them.
        let alone = request.op == Op::Flush || micros == 0 || micros == (count - 1) * 1_000;
        let volume = if alone { 0 } else { random.below(volumes) as u32 };
        Request { volume, ..request }
    };
    (0..count).map(|n| of(random, n * 1_000)).collect()
}

/// Returns the same with discards among them, of pages that none of them touches: of `blocks` of which none does.
fn with_discards(random: &mut Random, requests: &[Request], far: &[u64], merged: bool, blocks: bool) -> Vec<Request> {
    let touched: BTreeSet<(u32, u64)> = requests
        .iter()
        .filter(|request| request.op != Op::Flush)
        .flat_map(|request| {
            let (volume, page) = (if merged { 0 } else { request.volume }, request.offset / PAGE);
            let first = if blocks { page / PAGES_PER_BLOCK * PAGES_PER_BLOCK } else { page };
            (first..first + if blocks { PAGES_PER_BLOCK } else { 1 }).map(move |page| (volume, page))
        })
        .collect();
    let mut all = Vec::new();
    for (n, request) in requests.iter().enumerate() {
        all.push(*request);
        for _ in 0..random.below(3) {
            let volume = random.below(3) as u32;
            let first = far[random.below(far.len() as u64) as usize] + random.below(40);
            // As far as the next page that something touches.
            let of = if merged { 0 } else { volume };
            let next = touched.range((of, first)..).next().filter(|page| page.0 == of).map_or(1 << 35, |page| page.1);
            let pages = (next - first).min(1 << random.below(30));
            if pages > 0 && n + 1 < requests.len() {
                all.push(Request { volume, time: Nanos(request.time.0), ..discard(0, first, pages) });
            }
        }
    }
    all
}

/// Names a place behind everything.
const FAR: [u64; 4] = [200, 1_000, 1 << 20, 1 << 33];

/// Counts experiments: 10^4, and many more when the time is there.
fn share(few: u64) -> u64 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { few * 50 } else { few }
}

#[test]
fn discarding_what_nothing_touched_changes_no_figure() {
    let all: Vec<_> = policies().iter().filter(|policy| !policy.chooses_channels).collect();
    let (mut discards, mut cut) = (0, 0);
    for seed in 0..share(9_000) {
        let random = &mut Random::new(seed);
        let info = all[random.below(all.len() as u64) as usize];
        let policy = info.name;
        let ftl = [Ftl::Page, Ftl::Bast, Ftl::Fast][random.below(3) as usize];
        let full = random.below(2) == 0;
        let start = if full { StartState::Full } else { StartState::Empty };
        let device = match random.below(5) {
            0 => DeviceConfig::None,
            _ => DeviceConfig::Ssd(tiny_ssd(ftl), start),
        };
        let mut experiment = experiment(&[policy], &[PAGE * (1 + random.below(30))], geometry(), device);
        experiment.run.host = [HostModel::Open, HostModel::Closed { depth: 3 }][random.below(2) as usize];
        experiment.replay.volumes = match random.below(3) {
            0 => VolumeSelection::Each,
            1 => VolumeSelection::Merge,
            _ => VolumeSelection::Only("#0".parse().expect("a choice")),
        };
        experiment.replay.lba_overflow =
            [LbaOverflow::Wrap, LbaOverflow::Filter, LbaOverflow::Compact][random.below(3) as usize];
        experiment.replay.capacity = [DeviceCapacity::Fit, DeviceCapacity::Given][random.below(2) as usize];
        // Gaps below and within, unless all of a device is written before anything is asked of it. A block that is
        // written back may be filled up with pages that nobody asked for.
        let pads = info.unit == EvictionUnit::Block;
        let live: Vec<u64> = (if full { 0 } else { 24 }..104).filter(|page| full || page % 7 > 1).collect();
        // Whose size is given may have the pages of several volumes in one place: these touch each other.
        let apart =
            experiment.replay.volumes == VolumeSelection::Each && experiment.replay.capacity == DeviceCapacity::Given;
        let volumes = if apart { 1 } else { 1 + random.below(3) };
        let plain = requests(random, &live, 40, volumes);
        // What begins full holds all that its size says, be it touched or not: behind everything is behind that, too.
        let far = if full { &FAR[1..] } else { &[0, 2, 200, 1_000, 1 << 20, 1 << 33][..] };
        let merged = experiment.replay.volumes != VolumeSelection::Each;
        let with = with_discards(random, &plain, far, merged, pads);
        let result = run_one(&experiment, &with);
        assert_same(&run_one(&experiment, &plain), &result, &format!("seed {seed}, {policy}"));
        discards += result.counters.discard_requests;
        cut += result.context.input.cut_discards;
    }
    assert!(discards > 100_000 && cut > 10_000, "{discards} {cut}");
}

#[test]
fn discarding_what_an_array_does_not_hold_changes_no_figure() {
    let levels = [
        (RaidLevel::Raid0, 2),
        (RaidLevel::Raid1, 2),
        (RaidLevel::Raid4, 4),
        (RaidLevel::Raid5, 5),
        (RaidLevel::Raid6, 6),
    ];
    let (mut discards, mut cut) = (0, 0);
    for seed in 0..share(1_000) {
        let random = &mut Random::new(seed);
        let (level, members) = levels[random.below(levels.len() as u64) as usize];
        let caches: Vec<_> = host_caches_of(level).filter(|info| !info.needs_collectors()).collect();
        let info = caches[random.below(caches.len() as u64) as usize];
        let mut experiment = arrays::experiment(level, members, &["none"]);
        experiment.policies = vec![HostCacheSpec::small(info, 64, random.below(4) as usize, random.below(2) == 0, 0)];
        experiment.caches = if info.is_sized() { vec![64 * PAGE] } else { Vec::new() };
        experiment.replay.geometry = geometry();
        let on_disks = random.below(3) == 0;
        match random.below(3) {
            _ if on_disks => experiment.member = disks(),
            0 => experiment.member = DeviceSetup::Ssd { config: small_ssd(), start: StartState::Empty },
            _ => {}
        }
        experiment.schedulers = vec![DiskScheduler::CLook];
        experiment.array.member_bytes = Some(64 * PAGE);
        experiment.host.host = [HostModel::Open, HostModel::Closed { depth: 3 }][random.below(2) as usize];
        let live: Vec<u64> = (20..60).collect();
        let plain: Vec<_> = requests(random, &live, 40, 1)
            .into_iter()
            .map(|request| Request { time: Nanos(request.time.0 * 20), ..request })
            .collect();
        // What goes to no member changes nothing inside the array either.
        let far = if on_disks { &[0, 64, 1_000, 1 << 33][..] } else { &[1_000, 1 << 33][..] };
        let with = with_discards(random, &plain, far, false, false);
        let result = arrays::run_one(&experiment, &with);
        assert_same(&arrays::run_one(&experiment, &plain), &result, &format!("seed {seed}, {level} {}", info.name));
        discards += result.counters.discard_requests;
        cut += result.context.input.cut_discards;
    }
    assert!(discards > 10_000 && cut > 5_000, "{discards} {cut}");
}

/// Overwrites 8 MiB at random through a small buffer, and the free space behind it discarded now and then.
fn live_eight_mib(trims: bool) -> Vec<Request> {
    let mut random = Random::new(7);
    let mut all: Vec<Request> = (0..2_048).map(|page| write(page * 1_000, page, 1)).collect();
    for n in 2_048..20_000 {
        all.push(write(n * 1_000, random.below(2_048), 1));
        if trims && n % 500 == 0 {
            // Behind the device, which is not much larger than what is live, and more than it is large.
            let (first, pages) = [(1 << 18, 1 << 18), (1 << 15, 1 << 18), (1 << 19, 1 << 21)][(n / 500 % 3) as usize];
            all.push(discard(n * 1_000, first, pages));
        }
    }
    all
}

/// Holds the case `trim-beyond`.
#[test]
fn trims_beyond_a_fitted_device_leave_live_data_alone() {
    for ftl in [Ftl::Page, Ftl::Fast] {
        let (summary_page, stride) = if ftl == Ftl::Page { (true, 1) } else { (false, 64) };
        let config = SsdConfig { ftl, reserve_bp: 1000, summary_page, stride, ..SsdConfig::default() };
        let device = DeviceConfig::Ssd(config, StartState::Full);
        let mut lru = experiment(&["lru"], &[64 * PAGE], PageGeometry::new(PAGE, 64).expect("pages"), device);
        lru.replay.capacity = DeviceCapacity::Fit;
        lru.run.host = HostModel::Closed { depth: 1 };
        let amplification = |r: &RunResult| r.ssd.as_ref().and_then(|ssd| ssd.write_amplification).expect("an SSD");
        let (without, with) = (run_one(&lru, &live_eight_mib(false)), run_one(&lru, &live_eight_mib(true)));
        assert_same(&without, &with, &format!("{ftl:?}"));
        assert!(amplification(&without) > 2.0, "{}", amplification(&without));
        let input = &with.context.input;
        assert_eq!((with.counters.discard_requests, input.overflowed_requests), (35, 0));
        assert_eq!((input.cut_discards, with.counters.trimmed_pages), (35, 0));
        let kinds: Vec<_> = with.context.findings.iter().map(|finding| &*finding.kind).collect();
        assert!(kinds.contains(&"cut-discards") && !kinds.contains(&"wrapped"), "{kinds:?}");
    }
}

/// Checks that a device whose size is given cuts a discard at its end, and forgets what lies before.
#[test]
fn a_discard_across_the_end_forgets_what_lies_before_it() {
    let device = DeviceConfig::Ssd(tiny_ssd(Ftl::Page), StartState::Full);
    for overflow in [LbaOverflow::Wrap, LbaOverflow::Filter] {
        let mut none = experiment(&["lru"], &[64 * PAGE], geometry(), device.clone());
        none.replay.lba_overflow = overflow;
        let pages = run_one(&none, &[write(0, 0, 1)]).ssd.expect("an SSD").host_pages;
        let trace = [write(0, 0, 2), write(10, pages - 2, 2), discard(20, pages - 1, 2), read(30, 0, 2)];
        let result = run_one(&none, &trace);
        let input = &result.context.input;
        assert_eq!((result.counters.trimmed_pages, result.counters.read_hits), (1, 2));
        assert_eq!((input.cut_discards, input.cut_discard_bytes, input.overflowed_requests), (1, PAGE, 0));
        assert_eq!(result.counters.discard_requests, 1);
    }
}
