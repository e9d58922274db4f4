//! Figures of an array that say the same thing twice, over every level, member, cache and kind of request:
//!
//! | one | the other |
//! |---|---|
//! | `traffic.data_reads` + `parity_reads` | `pages_read` of the members |
//! | `traffic.data_writes` + `parity_writes` | `pages_written` of the members |
//! | `traffic.data_trims` + `parity_trims` | `pages_trimmed` of the members |
//! | `cache.*_fills`, `*_writes` + `journal_writes` | `pages_written` of the cache device |
//! | `commands` of a device | its reads, writes, flushes, trims and collects |
//! | `steps.flush`, `trim`, `collect` | the commands of the devices |
//! | `steps.read` + `meta_read`, `write` + `meta_write` | the commands of the devices, none merged and without a journal |
//! | `requests`, `host_bytes_*` | by kind, over time, by volume |
//! | responses | requests; their classes, over time, by volume |
//! | `flash_writes` of an SSD | `pages_written` + `gc_pages_moved` |
//! | erases of an SSD | its `wear`, since the start |

use destage_cache::{CacheMedium, HostCacheSpec, all_host_caches_of};
use destage_plan::{Nanos, Op, Request};
use destage_raid::RaidLevel;
use destage_sim::array::{ArrayExperiment, ArrayResult, DeviceCounters, DeviceSetup};
use destage_sim::input::{HostModel, SubpageWrites};
use destage_sim::ssd::{SsdConfig, StartState};

use crate::arrays::{Random, disks, experiment, mixed, run_one, small_ssd};

const PAGE: u64 = 4096;
const LEVELS: [(RaidLevel, u32); 5] =
    [(RaidLevel::Raid0, 3), (RaidLevel::Raid1, 2), (RaidLevel::Raid4, 4), (RaidLevel::Raid5, 5), (RaidLevel::Raid6, 6)];

/// Returns an SSD that writes no summaries of its own.
fn ssd() -> SsdConfig {
    SsdConfig { summary_page: false, ..small_ssd() }
}

fn sum(result: &ArrayResult, devices: std::ops::Range<usize>, figure: fn(&DeviceCounters) -> u64) -> u64 {
    result.devices[devices].iter().map(|device| figure(&device.counters)).sum()
}

fn agrees_with_itself(experiment: &ArrayExperiment, result: &ArrayResult, name: &str) {
    let (t, steps, c) = (&result.traffic, &result.steps, &result.counters);
    let members = result.array.members as usize;
    let all = result.devices.len();
    assert_eq!(t.data_reads + t.parity_reads, sum(result, 0..members, |d| d.pages_read), "{name}: read");
    assert_eq!(t.data_writes + t.parity_writes, sum(result, 0..members, |d| d.pages_written), "{name}: written");
    assert_eq!(t.data_trims + t.parity_trims, sum(result, 0..members, |d| d.pages_trimmed), "{name}: trimmed");
    if let Some(cache) = result.cache.as_ref().filter(|_| all > members) {
        let p = &cache.pages;
        let written = p.read_fills + p.write_fills + p.delta_writes + p.meta_writes + p.clean_writes;
        let journal = result.nvram.journal_writes;
        assert_eq!(written + journal, sum(result, members..all, |d| d.pages_written), "{name}: cache device");
    }
    for device in &result.devices {
        let d = &device.counters;
        assert_eq!(d.commands, d.reads + d.writes + d.flushes + d.trims + d.collects, "{name}: commands");
        // The journal's first pages are under way when the first request comes: an SSD has counted them by then.
        if device.model == "ssd" && experiment.service.journal.is_none() {
            let flash = &device.flash;
            let (written, moved) = (flash.flash_writes.expect("an SSD"), flash.gc_pages_moved.expect("an SSD"));
            assert_eq!(written, d.pages_written + moved, "{name}: programmed");
            let worn: u64 = device.wear.iter().flatten().map(|class| class.from * class.blocks).sum();
            assert_eq!(worn, flash.erases.expect("an SSD"), "{name}: erased");
        }
    }
    assert_eq!(steps.flush, sum(result, 0..all, |d| d.flushes), "{name}: flushes");
    assert_eq!(steps.collect, sum(result, 0..all, |d| d.collects), "{name}: collects");
    assert_eq!(experiment.service.times.merge_pages, 1, "each step is a command");
    assert_eq!(steps.trim, sum(result, 0..all, |d| d.trims), "{name}: trims");
    assert_eq!(steps.read + steps.meta_read, sum(result, 0..all, |d| d.reads), "{name}: reads");
    if experiment.service.journal.is_none() {
        assert_eq!(steps.write + steps.meta_write, sum(result, 0..all, |d| d.writes), "{name}: writes");
    }
    assert_eq!(c.requests, c.read_requests + c.write_requests + c.flush_requests + c.discard_requests);
    let bins = &result.series.bins;
    assert_eq!(c.requests, bins.iter().map(|bin| bin.requests).sum::<u64>());
    assert_eq!(c.host_bytes_read, bins.iter().map(|bin| bin.host_bytes_read).sum::<u64>());
    assert_eq!(c.host_bytes_written, bins.iter().map(|bin| bin.host_bytes_written).sum::<u64>());
    let volumes = result.volumes.as_ref().expect("they were asked for");
    assert_eq!(c.read_requests, volumes.iter().map(|volume| volume.read_requests).sum::<u64>());
    assert_eq!(c.write_requests, volumes.iter().map(|volume| volume.write_requests).sum::<u64>());
    assert_eq!(c.host_bytes_written, volumes.iter().map(|volume| volume.host_bytes_written).sum::<u64>());
    if let Some(response) = &result.response {
        let all = response.all.as_ref().map_or(0, |all| all.count);
        assert_eq!(all, c.read_requests + c.write_requests);
        assert_eq!(all, response.distribution.iter().map(|class| class.reads + class.writes).sum::<u64>());
        assert_eq!(all, bins.iter().map(|bin| bin.responses).sum::<u64>());
    }
}

#[test]
fn what_is_counted_twice_is_counted_alike() {
    let soak = if std::env::var_os("DESTAGE_SOAK").is_some() { 50 } else { 1 };
    let (mut trimmed, mut runs, mut journals) = (0, 0, 0);
    for seed in 0..3 * soak {
        for (level, members) in LEVELS {
            for info in all_host_caches_of(level) {
                for member in ["fixed", "disk", "ssd"] {
                    if info.needs_collectors() && member != "ssd" {
                        continue;
                    }
                    let random = &mut Random::new(seed * 1_000 + runs);
                    let mut experiment = experiment(level, members, &["none"]);
                    let modes = (random.below(8) as usize, random.below(2) == 0);
                    experiment.policies = vec![HostCacheSpec::small(info, 128, modes.0, modes.1, 0)];
                    experiment.caches = if info.is_sized() { vec![128 * PAGE] } else { Vec::new() };
                    experiment.cache_device = DeviceSetup::Ssd { config: ssd(), start: StartState::Empty };
                    experiment.array.member_bytes = Some(512 * PAGE);
                    match member {
                        "disk" => experiment.member = disks(),
                        "ssd" => {
                            experiment.member = DeviceSetup::Ssd { config: ssd(), start: StartState::Empty };
                        }
                        _ => {}
                    }
                    experiment.service.times.merge_pages = 1;
                    experiment.service.passes_discards = [None, Some(true), Some(false)][random.below(3) as usize];
                    if info.medium == CacheMedium::Device && random.below(3) == 0 {
                        experiment.service.nv_slots = 64;
                        experiment.service.journal = Some(4096 * PAGE);
                        journals += 1;
                    }
                    experiment.host.per_volume = true;
                    experiment.host.drain = random.below(2) == 0;
                    experiment.host.subpage = [SubpageWrites::Promote, SubpageWrites::Rmw][random.below(2) as usize];
                    if random.below(2) == 0 {
                        experiment.host.host = HostModel::Closed { depth: 1 + random.below(32) as u32 };
                    }
                    let gap = [50_000, 2_000_000][random.below(2) as usize];
                    let requests = more_discards(random, mixed(seed + runs, 150, 1_000, gap));
                    let result = run_one(&experiment, &requests);
                    agrees_with_itself(
                        &experiment,
                        &result,
                        &format!("seed {seed}, {level} {} on {member}", info.name),
                    );
                    assert!(experiment.service.passes_discards != Some(false) || result.steps.trim == 0 || modes.1);
                    trimmed += result.traffic.data_trims;
                    runs += 1;
                }
            }
        }
    }
    assert!(trimmed > 10_000 && runs > 100 && journals > 5, "{trimmed} {runs} {journals}");
}

/// Compares the same with long discards, which cover whole rows.
fn more_discards(random: &mut Random, requests: Vec<Request>) -> Vec<Request> {
    let mut all = Vec::new();
    for request in requests {
        all.push(request);
        if random.below(10) == 0 {
            let offset = random.below(1_000) * PAGE;
            all.push(Request { op: Op::Discard, fua: random.below(4) == 0, offset, len: 200 * PAGE, ..request });
        }
    }
    all
}

/// Makes 1,001 page writes, and ten discards of 128 MiB (the case `array-trims-as-writes`).
#[test]
fn trims_are_no_writes() {
    let request = |n: u64, op, offset, pages: u64| Request {
        time: Nanos(n * 20_000_000),
        offset,
        len: pages * PAGE,
        volume: 0,
        op,
        fua: false,
    };
    let random = &mut Random::new(3);
    let mut requests = Vec::new();
    for n in 0..1_001 {
        requests.push(request(n, Op::Write, random.below(1 << 17) * PAGE, 1));
        if n % 100 == 50 {
            requests.push(request(n, Op::Discard, n / 100 * (32 << 20), 1 << 15));
        }
    }
    for (member, trims) in [("disk", 0), ("fixed", 10)] {
        let mut array = experiment(RaidLevel::Raid5, 5, &["none"]);
        array.array.chunk_bytes = 64 << 10;
        array.array.member_bytes = Some(256 << 20);
        if member == "disk" {
            array.member = disks();
        }
        let result = run_one(&array, &requests);
        let t = &result.traffic;
        assert_eq!((result.counters.write_requests, result.counters.discard_requests), (1_001, 10));
        assert_eq!((t.data_writes, t.parity_writes), (1_001, 1_001), "{member}");
        assert_eq!((t.data_trims, t.parity_trims), (trims * 32_768, trims * 8_192), "{member}");
        // A disk has no TRIM: md passes it none, and it takes no time.
        assert!(result.devices.iter().all(|device| (device.counters.trims == 0) == (trims == 0)), "{member}");
        // Whoever has disks that can says so.
        array.service.passes_discards = Some(true);
        assert_eq!(run_one(&array, &requests).traffic.data_trims, 327_680, "{member}");
        array.service.passes_discards = Some(false);
        assert_eq!(run_one(&array, &requests).traffic.data_trims, 0, "{member}");
    }
}
