//! Laws that every run obeys, whatever the policy and the device: nothing is lost and nothing is
//! counted twice between the requests and the flash (specs §0.3, §12.3–12.4).

use destage_plan::{Nanos, Op, PageGeometry, Request};
use destage_policy::buffer::{EvictionUnit, info, policies};
use destage_sim::buffer::{AnalyticConfig, BufferCounters, BufferExperiment, DeviceConfig, FlushMode, RunResult};
use destage_sim::experiment::DeviceCapacity;
use destage_sim::input::{HostModel, SubpageWrites, TrimMode};
use destage_sim::measure::WearClass;
use destage_sim::ssd::{Ftl, ModernDesign, PageAllocation, SsdConfig, SsdShape, StartState};

use crate::in_memory::{self, experiment, run, run_one, write};
use crate::mixed::{PAGE, mixed};

/// Beside the defaults of all policies.
const VARIANTS: [&str; 10] = [
    "lru:reads=bypass",
    "clock:reads=bypass",
    "arc:reads=bypass",
    "fab:reads=bypass:protect_current=true",
    "bplru:padding=never:compensation=off",
    "bplru:padding=0.5:seq_detect=last_page_full",
    "clc:si_max=3:padding=0.5",
    "pud-lru:threshold=100:padding=always",
    "lb-clock:opt_preempt=false:opt_seq=false:candidate_rule=all_zero",
    "lb-clock:read_sets_bit=true:insert_anchor=current_hand",
];
/// Policies that hold dirty pages only, so that every page that enters leaves as a write or a trim.
const WRITE_BUFFERS: [&str; 6] = ["none", "bplru", "clc", "pud-lru", "lb-clock", "fab:reads=bypass"];
const CACHES: [u64; 3] = [4 * PAGE, 100 * PAGE, 600 * PAGE];
const PAGES_PER_BLOCK: u64 = 16;
const REQUESTS: usize = 6_000;

/// All that do not choose channels, which not all devices have.
fn all_policies() -> Vec<&'static str> {
    let all = policies().iter().filter(|policy| !policy.chooses_channels).map(|policy| policy.name);
    all.chain(VARIANTS).collect()
}

fn geometry() -> PageGeometry {
    PageGeometry::new(PAGE, PAGES_PER_BLOCK).expect("a geometry")
}

fn small_ssd(start: StartState) -> DeviceConfig {
    let config =
        SsdConfig { elements: 2, planes: 2, blocks_per_plane: 32, reserve_bp: 2000, lanes: 2, ..SsdConfig::default() };
    DeviceConfig::Ssd(config, start)
}

/// The same with a write point per element; pages go to the elements in turn.
fn channels(start: StartState) -> DeviceConfig {
    let DeviceConfig::Ssd(config, _) = small_ssd(start) else { unreachable!("an SSD was made") };
    DeviceConfig::Ssd(SsdConfig { allocation: PageAllocation::Channels, ..config }, start)
}

fn device_pages() -> u64 {
    let DeviceConfig::Ssd(config, _) = small_ssd(StartState::Full) else { unreachable!("an SSD was made") };
    SsdShape::new(config, geometry()).expect("a shape").host_pages.into()
}

fn workload(seed: u64) -> Vec<Request> {
    mixed(seed, device_pages(), REQUESTS, Nanos(60_000_000))
}

/// Selects the treatment of flushes, discards and partial pages.
type Ways = (FlushMode, TrimMode, SubpageWrites);

const WAYS: [Ways; 4] = [
    (FlushMode::Ignore, TrimMode::Honour, SubpageWrites::Promote),
    (FlushMode::Drain, TrimMode::Honour, SubpageWrites::Rmw),
    (FlushMode::Drain, TrimMode::Ignore, SubpageWrites::Promote),
    (FlushMode::Ignore, TrimMode::Ignore, SubpageWrites::Rmw),
];

fn over(device: DeviceConfig, policies: &[&str], (flush, trim, subpage): Ways) -> BufferExperiment {
    let mut experiment = experiment(policies, &CACHES, geometry(), device);
    experiment.run.flush = flush;
    experiment.run.trim = trim;
    experiment.run.subpage = subpage;
    experiment.run.max_backlog = u64::MAX;
    experiment
}

/// Counts the requests' demands, found by walking over the pages of each.
#[derive(Default)]
struct Asked {
    reads: u64,
    writes: u64,
    flushes: u64,
    discards: u64,
    empty: u64,
    read_pages: u64,
    write_pages: u64,
    bytes_read: u64,
    bytes_written: u64,
}

/// The pages that a request touches.
fn pages_of(request: &Request) -> std::ops::Range<u64> {
    if request.len == 0 { 0..0 } else { request.offset / PAGE..(request.offset + request.len).div_ceil(PAGE) }
}

fn asked(requests: &[Request]) -> Asked {
    let mut asked = Asked::default();
    for request in requests {
        let pages = pages_of(request).count() as u64;
        match request.op {
            Op::Read => {
                asked.reads += 1;
                asked.read_pages += pages;
                asked.bytes_read += request.len;
            }
            Op::Write => {
                asked.writes += 1;
                asked.write_pages += pages;
                asked.bytes_written += request.len;
            }
            Op::Flush => asked.flushes += 1,
            Op::Discard => asked.discards += 1,
        }
        asked.empty += u64::from(matches!(request.op, Op::Read | Op::Write) && request.len == 0);
    }
    asked
}

fn obeys_the_buffers_laws(r: &RunResult, asked: &Asked, name: &str) {
    let c = &r.counters;
    let requests = asked.reads + asked.writes + asked.flushes + asked.discards;
    assert_eq!(c.requests, requests, "{name}");
    assert_eq!(
        (c.read_requests, c.write_requests, c.flush_requests, c.discard_requests, c.zero_length_requests),
        (asked.reads, asked.writes, asked.flushes, asked.discards, asked.empty),
        "{name}"
    );
    assert_eq!((c.host_bytes_read, c.host_bytes_written), (asked.bytes_read, asked.bytes_written), "{name}");
    assert_eq!((c.read_pages, c.write_pages), (asked.read_pages, asked.write_pages), "{name}");
    assert_eq!(c.accesses, c.read_pages + c.write_pages, "{name}");
    assert_eq!(c.hits, c.read_hits + c.write_hits, "{name}");
    assert_eq!(c.hits + c.misses, c.accesses, "{name}");
    assert_eq!(c.write_pages, c.write_hits + c.write_insertions + c.bypassed_writes, "{name}: host writes");
    assert!(c.read_hits + c.bypassed_reads <= c.read_pages, "{name}");
    assert_eq!(r.hit_ratio, Some(c.hits as f64 / c.accesses as f64), "{name}");
    assert_eq!(r.context.input.trace_requests, requests, "{name}");
}

fn obeys_the_devices_laws(r: &RunResult, ways: Ways, name: &str) {
    let c = &r.counters;
    let ssd = r.ssd.as_ref().expect("an SSD");
    let flash = &r.flash;
    let moved = flash.gc_pages_moved.expect("an SSD");
    assert_eq!(
        ssd.host_programs,
        c.dirty_pages_flushed
            + c.destage_pages_flushed
            + c.flush_pages_flushed
            + c.pad_reads
            + c.destage_pad_reads
            + c.flush_pad_reads
            + c.bypassed_writes,
        "{name}: programs"
    );
    assert_eq!(ssd.redirected_programs, 0, "{name}: pages in turn leave room everywhere");
    assert_eq!(flash.flash_writes, Some(ssd.host_programs + moved + ssd.summary_programs), "{name}: flash writes");
    if ways.2 == SubpageWrites::Promote {
        let reads = c.read_pages - c.read_hits + c.pad_reads + c.destage_pad_reads + c.flush_pad_reads;
        assert_eq!(flash.flash_reads.expect("an SSD") + ssd.unmapped_reads, reads, "{name}: flash reads");
    }
    let sum = |of: fn(&destage_sim::buffer::ElementResult) -> u64| ssd.elements.iter().map(of).sum::<u64>();
    assert_eq!(flash.flash_reads, Some(sum(|e| e.flash_reads)), "{name}");
    assert_eq!(flash.flash_writes, Some(sum(|e| e.flash_writes)), "{name}");
    assert_eq!(flash.erases, Some(sum(|e| e.erases)), "{name}");
    assert_eq!(flash.gc_invocations, Some(sum(|e| e.gc_invocations)), "{name}");
    assert_eq!(flash.gc_pages_moved, Some(sum(|e| e.gc_pages_moved)), "{name}");
    assert_eq!(flash.gc_time, Some(sum(|e| e.gc_time)), "{name}");
    let blocks = (ssd.raw_pages / PAGES_PER_BLOCK) as f64;
    let erases = flash.erases.expect("an SSD");
    assert!((ssd.erases_per_block_mean * blocks - erases as f64).abs() < 1e-6, "{name}");
    assert!(ssd.mean_free_blocks > 0.0 && ssd.mean_free_blocks <= blocks, "{name}");
    assert_eq!(ssd.wear.iter().map(|class| class.blocks).sum::<u64>(), ssd.raw_pages / PAGES_PER_BLOCK, "{name}");
    assert!(ssd.wear.iter().all(|class| class.from <= class.to && class.blocks > 0), "{name}: {:?}", ssd.wear);
    let bound = |of: fn(&WearClass) -> u64| ssd.wear.iter().map(|class| of(class) * class.blocks).sum::<u64>();
    assert!(bound(|class| class.from) <= erases && erases <= bound(|class| class.to), "{name}: {:?}", ssd.wear);
    // So few erases have a class each.
    if ssd.erases_per_block_max < 64 {
        assert!(ssd.wear.iter().all(|class| class.from == class.to), "{name}: {:?}", ssd.wear);
        assert_eq!(ssd.wear.last().map(|class| class.to), Some(ssd.erases_per_block_max), "{name}");
    }
}

fn obeys_the_measurements_laws(r: &RunResult, asked: &Asked, name: &str) {
    let c = &r.counters;
    assert_eq!(r.saturated, None, "{name}");
    let response = r.response.as_ref().expect("a timed device");
    let count = |summary: &Option<destage_sim::measure::LatencySummary>| summary.as_ref().map_or(0, |s| s.count);
    assert_eq!(count(&response.all), c.read_requests + c.write_requests - c.zero_length_requests, "{name}");
    assert_eq!(count(&response.read) + count(&response.write), count(&response.all), "{name}");
    let all = response.all.as_ref().expect("reads and writes");
    assert_eq!(count(&response.gc_delayed) + count(&response.gc_undelayed), all.count, "{name}");
    let classes = &response.distribution;
    assert_eq!(classes.iter().map(|class| class.reads).sum::<u64>(), count(&response.read), "{name}");
    assert_eq!(classes.iter().map(|class| class.writes).sum::<u64>(), count(&response.write), "{name}");
    assert_eq!(classes.iter().map(|class| class.gc_delayed).sum::<u64>(), count(&response.gc_delayed), "{name}");
    assert!(classes.windows(2).all(|pair| pair[0].up_to < pair[1].up_to), "{name}");
    assert_eq!(classes.last().map(|class| class.up_to), Some(all.max), "{name}");
    let bins = &r.series.bins;
    let sum = |of: fn(&destage_sim::measure::SeriesBin) -> u64| bins.iter().map(of).sum::<u64>();
    assert_eq!(sum(|b| b.requests), c.requests, "{name}");
    assert_eq!((sum(|b| b.accesses), sum(|b| b.hits)), (c.accesses, c.hits), "{name}");
    assert_eq!(Some(sum(|b| b.flash_writes)), r.flash.flash_writes, "{name}");
    assert_eq!(sum(|b| b.gc_delayed), count(&response.gc_delayed), "{name}");
    assert_eq!(sum(|b| b.responses), all.count, "{name}");
    assert_eq!(Some(sum(|b| b.gc_invocations)), r.flash.gc_invocations, "{name}");
    assert_eq!(Some(sum(|b| b.gc_pages_moved)), r.flash.gc_pages_moved, "{name}");
    assert_eq!((sum(|b| b.host_bytes_read), sum(|b| b.host_bytes_written)), (c.host_bytes_read, c.host_bytes_written));
    assert_eq!((sum(|b| b.evictions), sum(|b| b.evicted_pages)), (c.evictions, c.evicted_pages), "{name}");
    assert_eq!(c.eviction_sizes.iter().sum::<u64>(), c.evictions, "{name}");
    assert_eq!(sum(|b| b.dirty_pages_flushed), c.dirty_pages_flushed, "{name}");
    assert_eq!(Some(sum(|b| b.flash_reads)), r.flash.flash_reads, "{name}");
    assert_eq!(Some(sum(|b| b.erases)), r.flash.erases, "{name}");
    assert_eq!(Some(sum(|b| b.gc_time)), r.flash.gc_time, "{name}");
    assert_eq!(bins.iter().map(|b| b.read_response_max.max(b.write_response_max)).max(), Some(all.max), "{name}");
    assert_eq!(
        (sum(|b| b.read_response_sum + b.write_response_sum) as f64 / all.count as f64).to_bits(),
        all.mean.to_bits(),
        "{name}"
    );
    assert!(all.p50 <= all.p90 && all.p90 <= all.p99 && all.p99 <= all.p99_99 && all.p99_99 <= all.max, "{name}");
    assert!(asked.reads + asked.writes > 0);
}

/// With only dirty pages in the buffer, each that enters leaves once: written, or forgotten.
fn writes_each_page_once(c: &BufferCounters, name: &str) {
    let left = c.dirty_pages_flushed + c.flush_pages_flushed + c.drain_pages_flushed + c.trimmed_pages;
    assert_eq!(c.write_insertions, left, "{name}: pages that entered and left");
    assert_eq!(c.clean_drops, 0, "{name}");
}

#[test]
fn nothing_is_lost_between_requests_and_flash() {
    for (seed, ways) in WAYS.into_iter().enumerate() {
        let requests = workload(seed as u64);
        let asked = asked(&requests);
        for start in [StartState::Full, StartState::Empty] {
            for host in [HostModel::Open, HostModel::Closed { depth: 3 }] {
                let mut experiment = over(small_ssd(start), &all_policies(), ways);
                experiment.run.host = host;
                for r in run(&experiment, &requests).results {
                    let name = format!("{} with {:?} B, {ways:?}, {start:?}, {host:?}", r.policy, r.cache_bytes);
                    obeys_the_buffers_laws(&r, &asked, &name);
                    obeys_the_devices_laws(&r, ways, &name);
                    obeys_the_measurements_laws(&r, &asked, &name);
                    assert!(r.flash.gc_invocations > Some(0), "{name}: no test of collection");
                }
                let mut experiment = over(small_ssd(start), &WRITE_BUFFERS, ways);
                experiment.run.host = host;
                for r in run(&experiment, &requests).results {
                    writes_each_page_once(&r.counters, &format!("{} with {:?} B, {ways:?}", r.policy, r.cache_bytes));
                }
            }
        }
    }
}

/// With channels too, from every start state.
#[test]
fn nothing_is_lost_in_channels() {
    let starts = [StartState::Random { seed: 5 }, StartState::Aged { overwrites_pct: 50, seed: 5 }];
    for (seed, (ways, start)) in WAYS.into_iter().zip(starts.into_iter().cycle()).enumerate() {
        let requests = workload(30 + seed as u64);
        let asked = asked(&requests);
        for r in run(&over(channels(start), &all_policies(), ways), &requests).results {
            let name = format!("{} with {:?} B, {ways:?}, {start:?}, channels", r.policy, r.cache_bytes);
            obeys_the_buffers_laws(&r, &asked, &name);
            obeys_the_devices_laws(&r, ways, &name);
            obeys_the_measurements_laws(&r, &asked, &name);
            assert!(r.flash.gc_invocations > Some(0), "{name}: no test of collection");
            balances_the_channels(&r, &name);
        }
    }
}

/// Over a modern drive too, whatever the policy.
#[test]
fn nothing_is_lost_in_modern_drives() {
    let drive = ModernDesign::named("pm9a3").expect("a preset").config(geometry());
    let config = SsdConfig { elements: 2, ..drive }.with_pages(device_pages(), geometry()).expect("a drive");
    let starts = [
        StartState::Full,
        StartState::Empty,
        StartState::Random { seed: 5 },
        StartState::Aged { overwrites_pct: 50, seed: 5 },
    ];
    let mut delayed = 0;
    for (seed, (ways, start)) in WAYS.into_iter().zip(starts).enumerate() {
        let requests = workload(50 + seed as u64);
        let asked = asked(&requests);
        for r in run(&over(DeviceConfig::Ssd(config.clone(), start), &all_policies(), ways), &requests).results {
            let name = format!("{} with {:?} B, {ways:?}, {start:?}, modern", r.policy, r.cache_bytes);
            obeys_the_buffers_laws(&r, &asked, &name);
            obeys_the_measurements_laws(&r, &asked, &name);
            let (c, ssd) = (&r.counters, r.ssd.as_ref().expect("an SSD"));
            let flushed = c.dirty_pages_flushed + c.destage_pages_flushed + c.flush_pages_flushed + c.bypassed_writes;
            let pads = c.pad_reads + c.destage_pad_reads + c.flush_pad_reads;
            assert_eq!(ssd.host_programs, flushed + pads, "{name}: programs");
            let moved = r.flash.gc_pages_moved.expect("an SSD");
            assert_eq!(r.flash.flash_writes, Some(ssd.host_programs + moved), "{name}: flash writes");
            let erases = ssd.erases_per_block_mean * ssd.wear.iter().map(|class| class.blocks).sum::<u64>() as f64;
            assert!((erases - r.flash.erases.expect("an SSD") as f64).abs() < 1e-6, "{name}: {erases} erases");
            delayed += u64::from(r.response.as_ref().expect("times").gc_delayed.is_some());
        }
    }
    assert!(delayed > 0, "reads of some runs wait for slices");
}

/// A modern drive that fits its trace is not smaller than 64 superblocks, and its results say how large it is.
#[test]
fn a_modern_drive_fits_its_trace() {
    let drive = ModernDesign::named("pm9a3").expect("a preset").config(geometry());
    let device = DeviceConfig::Ssd(drive, StartState::Full);
    let mut experiment = experiment(&["lru"], &[64 * PAGE], geometry(), device);
    experiment.replay.capacity = DeviceCapacity::Fit;
    let requests: Vec<Request> = (0..2_000).map(|i| write(i * 100, i * 7 % 500, 1)).collect();
    let result = run_one(&experiment, &requests);
    let bytes = result.ssd.as_ref().expect("an SSD").host_pages * PAGE;
    // 64 superblocks of 3 MiB, four of which are kept free, and 12.68 % not exported.
    assert_eq!(bytes, 60 * (3 << 20) * 8732 / 10_000 / (PAGE * PAGES_PER_BLOCK) * (PAGE * PAGES_PER_BLOCK));
    let found = result.context.settings.iter().find(|setting| setting.name == "ssd.capacity");
    assert_eq!(found.map(|setting| setting.value.clone()), Some(bytes.to_string()));
}

/// Under BAST and FAST too, with static allocation and with channels.
#[test]
fn nothing_is_lost_in_log_blocks() {
    let starts = [
        StartState::Full,
        StartState::Empty,
        StartState::Random { seed: 5 },
        StartState::Aged { overwrites_pct: 50, seed: 5 },
    ];
    for (seed, (ways, start)) in WAYS.into_iter().zip(starts).enumerate() {
        let requests = workload(40 + seed as u64);
        let asked = asked(&requests);
        for (ftl, log_blocks) in [(Ftl::Bast, None), (Ftl::Bast, Some(3)), (Ftl::Fast, None), (Ftl::Fast, Some(3))] {
            for allocation in [PageAllocation::Static, PageAllocation::Channels] {
                let device = log_block_ssd(ftl, log_blocks, allocation, start);
                for r in run(&over(device, &all_policies(), ways), &requests).results {
                    let name = format!(
                        "{} with {:?} B, {ways:?}, {start:?}, {ftl:?}, {log_blocks:?}, {allocation:?}",
                        r.policy, r.cache_bytes
                    );
                    obeys_the_buffers_laws(&r, &asked, &name);
                    obeys_the_devices_laws(&r, ways, &name);
                    obeys_the_measurements_laws(&r, &asked, &name);
                    obeys_the_laws_of_merges(&r, ftl, &name);
                }
            }
        }
    }
}

/// Each merge erases the old data block, and a log block that is not switched to is erased as well.
fn obeys_the_laws_of_merges(r: &RunResult, ftl: Ftl, name: &str) {
    let ssd = r.ssd.as_ref().expect("an SSD");
    let [switch, partial, full] =
        [ssd.switch_merges, ssd.partial_merges, ssd.full_merges].map(|count| count.expect("log blocks"));
    assert!(switch + partial + full > 0, "{name}: no test of merges");
    let (reclaimed, erases) = (r.flash.gc_invocations.expect("an SSD"), r.flash.erases.expect("an SSD"));
    if ftl == Ftl::Bast {
        // One merge at most for each log block, and one erase more where it is a full one.
        assert!(switch + partial + full <= reclaimed, "{name}");
        assert_eq!(erases, reclaimed + full, "{name}: erases");
    } else {
        assert!((reclaimed + full..=reclaimed + full + partial).contains(&erases), "{name}: erases");
    }
    // A full merge copies at least the page for which it is made, a partial one may find nothing to
    // copy.
    let moved = r.flash.gc_pages_moved.expect("an SSD");
    assert!((full..=(partial + full) * PAGES_PER_BLOCK).contains(&moved), "{name}: {moved} pages moved");
    assert_eq!(ssd.summary_programs, 0, "{name}");
}

fn log_block_ssd(ftl: Ftl, log_blocks: Option<u32>, allocation: PageAllocation, start: StartState) -> DeviceConfig {
    let DeviceConfig::Ssd(config, _) = small_ssd(start) else { unreachable!("an SSD was made") };
    let stride = if allocation == PageAllocation::Channels { 1 } else { PAGES_PER_BLOCK as u32 };
    DeviceConfig::Ssd(SsdConfig { ftl, log_blocks, allocation, stride, summary_page: false, ..config }, start)
}

/// Pages in turn: host programs differ by one at most, and the coefficients of variation are those
/// of the counters.
fn balances_the_channels(r: &RunResult, name: &str) {
    let ssd = r.ssd.as_ref().expect("an SSD");
    let host = |e: &destage_sim::buffer::ElementResult| e.flash_writes - e.gc_pages_moved;
    // Blocks of both channels fill up at the same rate, and so do their summaries; moved pages add
    // a few.
    let (least, most) = (ssd.elements.iter().map(host).min(), ssd.elements.iter().map(host).max());
    let (least, most) = (least.expect("elements") as f64, most.expect("elements") as f64);
    assert!(most <= least * 1.02 + 10.0, "{name}: {least} and {most} programs");
    let variation = |of: fn(&destage_sim::buffer::ElementResult) -> u64| {
        let counts: Vec<f64> = ssd.elements.iter().map(|e| of(e) as f64).collect();
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        variance.sqrt() / mean
    };
    let agrees = |seen: Option<f64>, expected: f64| (seen.expect("operations") - expected).abs() < 1e-12;
    assert!(agrees(ssd.cv_reads, variation(|e| e.flash_reads)), "{name}");
    assert!(agrees(ssd.cv_reads_with_moves, variation(|e| e.flash_reads + e.gc_pages_moved)), "{name}");
    assert!(agrees(ssd.cv_writes, variation(|e| e.flash_writes)), "{name}");
    assert!(agrees(ssd.cv_erases, variation(|e| e.erases)), "{name}");
}

/// Compares runs without a device, in the cost model and over the SSD. A policy's decisions do not depend on
/// a device that it does not look at, so all counts of the buffer agree. The cost model pads on its own
/// account.
#[test]
fn the_device_does_not_matter_to_the_buffer() {
    for (seed, ways) in WAYS.into_iter().enumerate() {
        let requests = workload(10 + seed as u64);
        let asked = asked(&requests);
        let results = |device| run(&over(device, &all_policies(), ways), &requests).results;
        let none = results(DeviceConfig::None);
        let analytic = results(DeviceConfig::Analytic(AnalyticConfig::default()));
        let ssd = results(small_ssd(StartState::Full));
        // What holds nothing runs once.
        assert_eq!(none.len(), (all_policies().len() - 1) * CACHES.len() + 1);
        for ((none, analytic), ssd) in none.iter().zip(&analytic).zip(&ssd) {
            let name = format!("{} with {:?} B, {ways:?}", none.policy, none.cache_bytes);
            obeys_the_buffers_laws(none, &asked, &name);
            assert_eq!(none.counters, ssd.counters, "{name}: without a device (left) and over the SSD");
            let mut counters = analytic.counters.clone();
            counters.pad_reads = none.counters.pad_reads;
            counters.flush_pad_reads = none.counters.flush_pad_reads;
            counters.drain_pad_reads = none.counters.drain_pad_reads;
            assert_eq!(none.counters, counters, "{name}: without a device (left) and in the cost model");
            assert_eq!(none.pages_per_eviction, ssd.pages_per_eviction, "{name}");
            assert_eq!((&none.response, none.stall_time), (&None, None), "{name}");
            obeys_the_cost_models_laws(analytic, &name);
        }
    }
}

fn obeys_the_cost_models_laws(r: &RunResult, name: &str) {
    let c = &r.counters;
    let config = AnalyticConfig::default();
    let flushed = c.dirty_pages_flushed + c.flush_pages_flushed + c.drain_pages_flushed;
    let pads = c.pad_reads + c.flush_pad_reads + c.drain_pad_reads;
    let cost = r.analytic.as_ref().expect("the cost model");
    let (erases, writes) = (r.flash.erases.expect("a count"), r.flash.flash_writes.expect("a count"));
    assert_eq!(r.flash.flash_reads, Some(pads), "{name}");
    if info(&r.policy).expect("a policy").unit == EvictionUnit::Block {
        assert_eq!((&*cost.model, writes), ("analytic", erases * PAGES_PER_BLOCK + c.bypassed_writes), "{name}");
        // Clean pages of a victim are held and need no read, but are programmed with it.
        assert!(flushed + pads + c.bypassed_writes <= writes, "{name}");
        let units = c.evictions + c.flush_evictions + c.drain_evictions;
        assert!(erases <= units, "{name}");
    } else {
        assert_eq!((&*cost.model, erases, writes), ("analytic-page", 0, flushed + c.bypassed_writes), "{name}");
    }
    let time = erases as f64 * config.erase.0 as f64
        + pads as f64 * (config.read.0 + config.transfer.0) as f64
        + writes as f64 * (config.program.0 + config.transfer.0) as f64
        + c.memory_accesses as f64 * 2.5;
    assert!((cost.time - time).abs() <= time * 1e-12, "{name}: {} and {time}", cost.time);
    let throughput = c.host_bytes_written as f64 / (time / 1e9);
    assert!((cost.throughput.expect("time passed") / throughput - 1.0).abs() < 1e-9, "{name}");
}

/// LRU from the requests to the flash, page by page on a plain list.
struct Lru {
    /// Most recently used last; whether dirty.
    held: Vec<(u64, bool)>,
    capacity: usize,
    cache_reads: bool,
    ways: Ways,
    counters: BufferCounters,
    rmw_reads: u64,
    /// Dirty pages that were forgotten.
    dirty_trims: u64,
    /// Clean pages made dirty, or dirty pages inserted.
    episodes: u64,
}

impl Lru {
    fn take(&mut self, page: u64) -> Option<(u64, bool)> {
        let at = self.held.iter().position(|held| held.0 == page)?;
        Some(self.held.remove(at))
    }

    fn trim(&mut self, page: u64) {
        if let Some((_, dirty)) = self.take(page) {
            self.counters.trimmed_pages += 1;
            self.dirty_trims += u64::from(dirty);
        }
    }

    /// Accesses a page, and returns true if the page was there.
    fn access(&mut self, page: u64, write: bool) -> bool {
        let c = &mut self.counters;
        *(if write { &mut c.write_pages } else { &mut c.read_pages }) += 1;
        if let Some((_, dirty)) = self.take(page) {
            self.episodes += u64::from(write && !dirty);
            self.held.push((page, dirty || write));
            let c = &mut self.counters;
            *(if write { &mut c.write_hits } else { &mut c.read_hits }) += 1;
            return true;
        }
        let c = &mut self.counters;
        if !write && !self.cache_reads {
            c.bypassed_reads += 1;
            return false;
        }
        if self.held.len() == self.capacity {
            let (_, dirty) = self.held.remove(0);
            c.evictions += 1;
            c.evicted_pages += 1;
            c.eviction_sizes = vec![c.evictions];
            *(if dirty { &mut c.dirty_pages_flushed } else { &mut c.clean_drops }) += 1;
        }
        c.write_insertions += u64::from(write);
        self.episodes += u64::from(write);
        self.held.push((page, write));
        false
    }

    /// Cleans all pages, and returns how many were dirty.
    fn clean_all(&mut self) -> u64 {
        let dirty = self.held.iter().filter(|held| held.1).count();
        self.held.iter_mut().for_each(|held| held.1 = false);
        dirty as u64
    }

    fn request(&mut self, request: &Request) {
        let (flush, trim, subpage) = self.ways;
        self.counters.requests += 1;
        let whole = |page: u64| page * PAGE >= request.offset && (page + 1) * PAGE <= request.offset + request.len;
        match request.op {
            Op::Read => {
                self.counters.read_requests += 1;
                self.counters.host_bytes_read += request.len;
                self.counters.zero_length_requests += u64::from(request.len == 0);
                pages_of(request).for_each(|page| _ = self.access(page, false));
            }
            Op::Write => {
                self.counters.write_requests += 1;
                self.counters.host_bytes_written += request.len;
                self.counters.zero_length_requests += u64::from(request.len == 0);
                for page in pages_of(request) {
                    let hit = if request.fua && flush == FlushMode::Drain {
                        let held = self.held.iter().any(|held| held.0 == page);
                        self.trim(page);
                        self.counters.write_pages += 1;
                        self.counters.bypassed_writes += 1;
                        held
                    } else {
                        self.access(page, true)
                    };
                    self.rmw_reads += u64::from(subpage == SubpageWrites::Rmw && !hit && !whole(page));
                }
            }
            Op::Flush => {
                self.counters.flush_requests += 1;
                if flush == FlushMode::Drain {
                    let dirty = self.clean_all();
                    self.counters.flush_pages_flushed += dirty;
                    self.counters.flush_evictions += dirty;
                }
            }
            Op::Discard => {
                self.counters.discard_requests += 1;
                if trim == TrimMode::Honour {
                    pages_of(request).filter(|page| whole(*page)).for_each(|page| self.trim(page));
                }
            }
        }
    }

    fn end(&mut self) {
        let dirty = self.clean_all();
        let c = &mut self.counters;
        c.drain_pages_flushed = dirty;
        c.drain_evictions = dirty;
        c.accesses = c.read_pages + c.write_pages;
        c.hits = c.read_hits + c.write_hits;
        c.misses = c.accesses - c.hits;
    }
}

#[test]
fn lru_agrees_with_a_list_in_every_counter() {
    for (seed, ways) in WAYS.into_iter().enumerate() {
        let requests = workload(20 + seed as u64);
        for (policy, cache_reads) in [("lru", true), ("lru:reads=bypass", false)] {
            for r in run(&over(small_ssd(StartState::Full), &[policy], ways), &requests).results {
                let mut list = Lru {
                    held: Vec::new(),
                    capacity: (r.cache_bytes.expect("a size") / PAGE) as usize,
                    cache_reads,
                    ways,
                    counters: BufferCounters::default(),
                    rmw_reads: 0,
                    dirty_trims: 0,
                    episodes: 0,
                };
                for request in &requests {
                    list.request(request);
                }
                list.end();
                let name = format!("{policy} with {:?} B, {ways:?}", r.cache_bytes);
                let c = &r.counters;
                // What the algorithm as published would touch is the policy's own affair.
                list.counters.memory_accesses = c.memory_accesses;
                assert_eq!(*c, list.counters, "{name} (left: the simulator)");
                let reads = c.read_pages - c.read_hits + list.rmw_reads;
                let ssd = r.ssd.as_ref().expect("an SSD");
                assert_eq!(r.flash.flash_reads.expect("an SSD") + ssd.unmapped_reads, reads, "{name}: reads");
                // Every dirty page is written once per dirtying episode, or forgotten.
                let written = c.dirty_pages_flushed + c.flush_pages_flushed + c.drain_pages_flushed;
                assert_eq!(written + list.dirty_trims, list.episodes, "{name}: episodes");
            }
        }
    }
}

/// Without a buffer each write of a part of a page reads the old page first; on an empty device
/// there is none.
#[test]
fn a_partial_write_reads_the_old_page_before_it_writes_the_new_one() {
    let partial = |micros, page: u64| Request { len: 512, ..in_memory::write(micros, page, 1) };
    let requests = [partial(0, 5), partial(10_000, 5), partial(20_000, 6)];
    let mut experiment = over(small_ssd(StartState::Empty), &["none"], WAYS[3]);
    experiment.caches = vec![PAGE];
    let r = in_memory::run_one(&experiment, &requests);
    assert_eq!((r.flash.flash_reads, r.ssd.expect("an SSD").unmapped_reads), (Some(1), 2));
    // The same for writes that pass the buffer because they must be durable.
    let durable = requests.map(|request| Request { fua: true, ..request });
    let mut experiment = over(small_ssd(StartState::Empty), &["lru"], WAYS[1]);
    experiment.caches = vec![PAGE];
    let r = in_memory::run_one(&experiment, &durable);
    assert_eq!(r.counters.bypassed_writes, 3);
    assert_eq!((r.flash.flash_reads, r.ssd.expect("an SSD").unmapped_reads), (Some(1), 2));
}

/// The span of a run ends with its last request, whatever that asks for.
#[test]
fn every_request_counts_for_the_span_without_a_device() {
    for last in [in_memory::flush(7000), in_memory::discard(7000, 0, 1), in_memory::read(7000, 0, 1)] {
        let mut experiment = over(DeviceConfig::None, &["lru"], WAYS[0]);
        experiment.caches = vec![PAGE];
        let r = in_memory::run_one(&experiment, &[in_memory::write(0, 0, 1), last]);
        assert_eq!(r.simulated_time, 7_000_000, "{:?}", last.op);
    }
}
