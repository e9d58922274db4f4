//! Golden table: every policy over the SSD and in the cost model on one fixed trace at six sizes.
//! If the numbers are meant to change, the test prints the new table for `golden/counters.tsv`.

use std::fmt::Write as _;

use destage_plan::{Nanos, PageGeometry, Request};
use destage_policy::buffer::policies;
use destage_sim::buffer::{AnalyticConfig, DeviceConfig};
use destage_sim::ssd::{Ftl, PageAllocation, SsdConfig, StartState};

use crate::in_memory::{experiment, run};
use crate::mixed::mixed;

const TABLE: &str = include_str!("golden/counters.tsv");
/// The policies that know flash, channels or collection.
const AWARE: &str = include_str!("golden/aware.tsv");
const PAGE: u64 = 4096;
const POLICIES: [&str; 9] =
    ["none", "lru", "clock", "fab", "bplru", "bplru:padding=never", "lb-clock", "clc", "pud-lru"];
/// With pages placed by their address; `GCaR` around policies of each kind.
const AWARE_BY_ADDRESS: [&str; 14] = [
    "cflru",
    "cflru:window=adaptive",
    "lru-wsr",
    "ccf-lru",
    "ref",
    "gcar+cflru",
    "gcar+bplru",
    "gcar+lb-clock",
    "fifo",
    "2q",
    "arc",
    "s3-fifo",
    "gcar+arc",
    "gcar+s3-fifo",
];
/// With channels.
const AWARE_OF_CHANNELS: [&str; 10] = [
    "ccf-lru",
    "gate+lru",
    "gate+arc",
    "cave",
    "cawr",
    "cawr:cdl_max=16:wait=any",
    "cave+fab",
    "cawr+lb-clock",
    "gcar+lru",
    "gcar+cawr",
];
const CACHE_PAGES: [u64; 6] = [1, 16, 64, 256, 1024, 2048];

/// Returns the listed policies, and every other policy of that kind that is in no table.
fn aware(listed: &[&'static str], choose_channels: bool) -> Vec<&'static str> {
    let others = policies().iter().filter(|policy| policy.chooses_channels == choose_channels);
    let others = others.map(|policy| policy.name).filter(|name| !POLICIES.contains(name) && !listed.contains(name));
    listed.iter().copied().chain(others).collect()
}

/// 20,000 requests to 6,000 pages.
fn trace() -> Vec<Request> {
    mixed(20_100_503, 6_000, 20_000, Nanos(20_000_000))
}

fn small() -> SsdConfig {
    SsdConfig { elements: 3, planes: 2, blocks_per_plane: 48, reserve_bp: 1500, lanes: 2, ..SsdConfig::default() }
}

fn channels() -> DeviceConfig {
    DeviceConfig::Ssd(SsdConfig { allocation: PageAllocation::Channels, ..small() }, StartState::Full)
}

fn header() -> String {
    "device\tpolicy\tcache_pages\thits\tevictions\tflash_reads\tflash_writes\tgc_invocations\tgc_pages_moved\t\
     erases\tresponse_mean_ns\tresponse_p99_ns\tstall_ns\tthroughput_B_per_s\n"
        .to_owned()
}

/// The rows of these policies over a device.
fn rows(table: &mut String, trace: &[Request], (device, config): (&str, DeviceConfig), policies: &[&str]) {
    let shown = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let geometry = PageGeometry::new(PAGE, 32).expect("a geometry");
    let experiment = experiment(policies, &CACHE_PAGES.map(|pages| pages * PAGE), geometry, config);
    let results = run(&experiment, trace).results;
    // What holds nothing runs once, and is the same at every size.
    let mut results = results.into_iter().peekable();
    for (policy, pages) in policies.iter().flat_map(|policy| CACHE_PAGES.map(|pages| (policy, pages))) {
        let last = pages == CACHE_PAGES[CACHE_PAGES.len() - 1];
        let next = results.next_if(|r| last || r.cache_bytes.is_some());
        let r = next.as_ref().or_else(|| results.peek()).expect("a run for every row");
        assert!(policy.starts_with(&r.policy) && r.cache_bytes.is_none_or(|bytes| bytes == pages * PAGE));
        let (c, flash) = (&r.counters, &r.flash);
        let all = r.response.as_ref().and_then(|response| response.all.as_ref());
        let _ = writeln!(
            table,
            "{device}\t{policy}\t{pages}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            c.hits,
            c.evictions,
            shown(flash.flash_reads),
            shown(flash.flash_writes),
            shown(flash.gc_invocations),
            shown(flash.gc_pages_moved),
            shown(flash.erases),
            shown(all.map(|all| all.mean.round() as u64)),
            shown(all.map(|all| all.p99)),
            shown(r.stall_time),
            shown(r.analytic.as_ref().and_then(|cost| cost.throughput).map(|rate| rate.round() as u64)),
        );
    }
}

#[test]
fn counters() {
    let trace = trace();
    let mut table = header();
    let copy_back = SsdConfig { copy_back: true, ..small() };
    let log_blocks =
        |ftl: Ftl| DeviceConfig::Ssd(SsdConfig { ftl, stride: 32, summary_page: false, ..small() }, StartState::Full);
    for device in [
        ("ssd", DeviceConfig::Ssd(small(), StartState::Full)),
        ("ssd-copy-back", DeviceConfig::Ssd(copy_back, StartState::Full)),
        ("ssd-channels", channels()),
        ("analytic", DeviceConfig::Analytic(AnalyticConfig::default())),
        ("ssd-bast", log_blocks(Ftl::Bast)),
        ("ssd-fast", log_blocks(Ftl::Fast)),
    ] {
        rows(&mut table, &trace, device, &POLICIES);
    }
    assert!(table == TABLE, "the counters differ from golden/counters.tsv; they are now\n{table}");
}

#[test]
fn policies_aware_of_flash_channels_and_collection() {
    let trace = trace();
    let mut table = header();
    let by_address = ("ssd", DeviceConfig::Ssd(small(), StartState::Full));
    rows(&mut table, &trace, by_address, &aware(&AWARE_BY_ADDRESS, false));
    rows(&mut table, &trace, ("ssd-channels", channels()), &aware(&AWARE_OF_CHANNELS, true));
    assert!(table == AWARE, "the counters differ from golden/aware.tsv; they are now\n{table}");
}

/// The trace itself is fixed: its length, its first requests and sums over it.
#[test]
fn the_trace_is_what_it_was() {
    let trace = trace();
    let bytes: u64 = trace.iter().map(|request| request.len).sum();
    let offsets: u64 = trace.iter().map(|request| request.offset).sum();
    let last = trace.last().expect("requests").time;
    assert_eq!((trace.len(), bytes, offsets, last), (20_000, 363_316_329, 168_172_669_031, Nanos(398_271_835_887)));
}
